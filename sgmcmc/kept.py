"""What a run of ``sgmcmc.sample`` that is kept in a folder is known by: its settings, and what its target gives."""

from __future__ import annotations

import hashlib
import math
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy
import torch
from torch import Tensor

from sgmcmc import LAW
from sgmcmc.checks import of_few
from sgmcmc.data import Dataset
from sgmcmc.errors import SettingError, StoreError
from sgmcmc.formats import read_status, signature
from sgmcmc.kernel import Kernel
from sgmcmc.plan import Plan
from sgmcmc.potentials import Potential, is_network
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.precision import full_precision
from sgmcmc.random import Random


def path(folder: str | os.PathLike) -> Path:
    """The folder as a path, ``~`` expanded; SettingError for what is none."""
    with suppress(TypeError):
        if place := os.path.expanduser(os.fsdecode(folder)):
            return Path(place)
    raise SettingError("folder", repr(folder), "must be the path of a folder")


def settings(kernel: Kernel, plan: Plan, potential: Potential, chains: int, seed: int, dtype, initial) -> dict:
    """What a chain depends on besides its target, which a folder cannot hold: by the command line's names, in values
    that JSON has."""
    names = ("rescaled", "refresh", "alpha", "acceptance", "delta", "decision_batch", "epsilon", "sigma", "gradient")
    sampler = {name: getattr(kernel, name) for name in (*names, "ends")}
    sampler |= {"word": kernel.word.letters, "minibatches": getattr(kernel.batches, "law", None)}
    model = {"name": type(potential).__name__, "dim": potential.dim, "data_size": potential.data_size}
    model["noise"] = getattr(kernel.batches, "std", None)
    friction = kernel.friction.value
    if kernel.friction.kind == "beta":
        sampler["beta"], friction = friction, None
    told = {"sampler": sampler, "model": model, "step_size": kernel.step_size, "friction": friction}
    told |= {"steps_per_cycle": kernel.steps, "batch_size": getattr(kernel.batches, "batch_size", None)}
    told |= {"temperature": kernel.temperature, "mass": kernel.mass, "schedule": asdict(kernel.schedule)}
    told |= {"burn_in": plan.burn_in, "thin": plan.thin}
    told["tune"] = {"target": plan.tune, "trajectory": plan.trajectory}
    told |= {"chains": chains, "seed": seed, "dtype": str(dtype).removeprefix("torch."), "init": initial}
    return as_json(told)


def identity(settings: dict) -> dict:
    """What ``status.json`` knows the run by."""
    return {"hash": signature([LAW, settings])[:12], "law": LAW, "settings": settings}


def as_json(value, nan: str | None = "nan"):
    """``value`` as JSON has it: NumPy's scalars as Python's, tensors as lists or, of more than 1,000 numbers, as their
    SHA-256, infinite numbers as the words inf and -inf, NaN as ``nan``, and anything else as its text."""
    if isinstance(value, dict):
        return {key: as_json(one, nan) for key, one in value.items()}
    if isinstance(value, list):
        return [as_json(one, nan) for one in value]
    if isinstance(value, Tensor):
        value = value.detach().cpu().contiguous()
        long = value.numel() > 1000
        return hashlib.sha256(value.numpy().tobytes()).hexdigest() if long else as_json(value.flatten().tolist(), nan)
    value = value.item() if isinstance(value, numpy.generic) else value
    if isinstance(value, float) and math.isnan(value):
        return nan
    known = isinstance(value, int | str | None) or isinstance(value, float) and math.isfinite(value)
    return value if known else str(value)


def target(kernel: Kernel, potential: Potential, dtype: torch.dtype, device: torch.device) -> list[float | str]:
    """What a target is known by, at one θ of standard normals: U and, with minibatches of the first data, the gradient
    along θ and its norm. Of a network, whose logits are so large there that another machine's rounding is another
    gradient, where a chain may start: U as its first data estimate it, and sums over all its inputs and labels. Of
    another target with a network's defaults U alone. Nothing where the target cannot be asked, or U is not fixed."""
    if kernel.inexact:
        return []
    if isinstance(potential, NetworkPotential):
        return _of_network(potential, dtype, device)
    theta = Random(0, device).normal("diagnostic", 0, 1, 1, potential.dim, dtype)[0]
    try:
        if is_network(potential):
            with full_precision():
                return as_json([float(potential.potential(theta)[0].detach())])
        told = [float(potential.potential(theta)[0].detach())]
        if kernel.gradient != "none":
            size = getattr(kernel.batches, "batch_size", None)
            batch = size and torch.arange(size, device=device)[None]
            slope = (potential.gradient(theta) if batch is None else potential.gradient(theta, batch)).detach().double()
            told += [float((slope * theta).sum()), float(slope.norm())]
    except Exception:
        return []
    return as_json(told)


def _of_network(potential: NetworkPotential, dtype: torch.dtype, device: torch.device) -> list[float | str]:
    try:
        theta = potential.initial(1, Random(0)).to(device=device, dtype=dtype)
        with full_precision():
            data = _of_data(potential.train) if isinstance(potential.train, Dataset) else []
            return as_json([float(of_few(potential).potential(theta)), *data])
    except Exception:
        return []


def _of_data(data: Dataset) -> list[float]:
    """Two sums over the data, with weights of their own: of the inputs' mean squares, and of the labels."""
    weights = 1 + Random(0).uniform("diagnostic", 0, 1, len(data))[0]
    parts = data.inputs.cpu().split(4096)  # of bytes, which as floats are eight times as large
    squares = torch.cat([part.flatten(1).double().square().mean(1) for part in parts])
    return [float((weights * one).sum()) for one in (squares, data.targets.cpu().double())]


def known(
    folder: Path, digest: str, kernel: Kernel, potential: Potential, dtype: torch.dtype, device: torch.device
) -> bool:
    """Whether the run of this hash in the folder has told what its ``target`` is, where it can be told; SettingError
    where it is another one, to rounding, which another machine's may be."""
    try:
        status = read_status(folder)
    except StoreError:
        return False  # none yet, or told where it is opened
    begun = status.get("target")
    if kernel.inexact or not begun or (status.get("identity") or {}).get("hash") != digest:
        return False  # or it could not be asked then
    now = target(kernel, potential, dtype, device)
    if is_network(potential):
        if not now:
            return True
        now = now[: len(begun)]  # begun before networks told of their data
        slack = 1e-3 * abs(float(now[0])), 0.0, 0.0
    else:
        norm = now[-1] if len(now) == 3 and isinstance(now[-1], float) else 0.0
        slack = 1e-5, 5e-3 * norm, 5e-3 * norm
    if len(begun) != len(now) or not all(map(_near, begun, now, slack)):
        mend = "gives another U or gradient than when the run was begun: give the run another name or output"
        raise SettingError("target", type(getattr(potential, "model", potential)).__name__, mend)
    return True


def _near(one: float | str, other: float | str, slack: float) -> bool:
    if isinstance(one, str) or isinstance(other, str):  # infinite, or not a number
        return one == other
    return abs(one - other) <= slack + 1e-5 * abs(other)
