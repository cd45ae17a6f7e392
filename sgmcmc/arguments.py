"""What callers of the library give, as what it stands for; SettingError, one sentence, where it is none."""

from __future__ import annotations

import os

import torch

from sgmcmc.errors import NoDevice, SettingError


def find_device(name: str | torch.device) -> torch.device:
    """The torch device of ``auto``, ``cpu``, ``cuda`` or ``cuda:1``; SettingError for another, or one not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (TypeError, RuntimeError):
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise SettingError("device", name, "must be auto, cpu, cuda or cuda:1")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        found = torch.cuda.device_count()
        raise NoDevice("device", name, f"this machine has {found or 'no'} CUDA devices; use device=cpu or auto")
    return device


def tensor(name: str, value) -> torch.Tensor:
    """A tensor; SettingError for anything else."""
    if not isinstance(value, torch.Tensor):
        raise SettingError(name, type(value).__name__, "must be a torch.Tensor (torch.as_tensor makes one)")
    return value


def whole(name: str, value, least: int) -> int:
    """``value`` as a whole number (1e4 is one) not below ``least``, or SettingError."""
    try:
        given = int(value)
    except (TypeError, ValueError, OverflowError):
        given = None
    if given is None or given != value or given < least:
        shown = repr(value) if isinstance(value, str) else value
        raise SettingError(name, shown, f"must be a whole number, at least {least}")
    return given


def numbers(name: str, value, each: str = "chain") -> float | list[float]:
    """A number, or a sequence of them (an array, a tensor) as a list; SettingError for anything else."""
    try:
        given = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        more = "; infinite friction is math.inf" if name == "friction" else ""
        raise SettingError(name, value, f"must be a number, or a sequence of them, one a {each}{more}") from None
    return given.flatten().tolist() if given.ndim else float(given)


def one_a_chain(
    name: str, value: float | list[float] | None, chains: int, rows: str = ""
) -> float | list[float] | None:
    """A number, or None, as it is; of a list each value as often as its group of chains is large, so that there is one
    a chain. SettingError, which may tell of the ``rows`` of ``initial``, where the groups would not be equal."""
    if not isinstance(value, list):
        return value
    if not value or chains % len(value):
        shown = value if len(value) < 10 else f"[{len(value)} numbers]"
        raise SettingError(name, shown, f"must be a number or {chains}, one a chain{rows}, or one for equal groups")
    return [one for one in value for _ in range(chains // len(value))]


def number(name: str, value) -> float:
    """A number; SettingError for anything else."""
    try:
        return float(torch.as_tensor(value, dtype=torch.float64))
    except (TypeError, ValueError, RuntimeError):
        raise SettingError(name, value, "must be a number") from None


def float_type(value) -> torch.dtype:
    """float32 or float64, of torch or as a string; SettingError for anything else."""
    dtype = getattr(torch, value, None) if isinstance(value, str) else value
    if dtype not in (torch.float32, torch.float64):
        raise SettingError("dtype", value, "must be torch.float32 or torch.float64")
    return dtype


# Bytes that a run holds of each coordinate of a chain, at the least: θ and m now and at the trajectory's start, the
# copies for a checkpoint, and the moments of the draws.
HELD = 48
# Bytes of a step of a trajectory, of the shortest words (944 of A, 971 of BAB, 1,346 of OBABO).
LETTERS = 900


def check_memory(chains: int, dim: int, device: torch.device) -> None:
    """Refuse chains whose state alone is more than all memory: the system would kill the process without a word.

    A run was measured to take twice ``HELD`` at least, three times where it is kept in a folder, so that this refuses
    nothing that works.
    """
    if device.type == "cuda":
        where, memory = torch.cuda.get_device_name(device), torch.cuda.get_device_properties(device).total_memory
    else:
        where, memory = "this machine", _memory()
    if HELD * chains * dim > memory:
        needs = f"their state alone takes {HELD * chains * dim / 2**30:,.0f} GiB, and {where} has {memory / 2**30:,.0f}"
        raise SettingError("chains", chains, f"{needs}; take fewer{' coordinates' if chains == 1 else ''}")


def check_steps(steps: int) -> None:
    """Refuse trajectories whose letters alone are more than all memory, as ``check_memory`` does chains."""
    if LETTERS * steps > (memory := _memory()):
        needs = f"their letters alone take {LETTERS * steps / 2**30:,.0f} GiB"
        mend = f"{needs}, and this machine has {memory / 2**30:,.0f}; take fewer"
        raise SettingError("steps_per_cycle", steps, mend)


def _memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
