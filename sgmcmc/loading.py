"""Runs read again: draws, rows of metrics and traces, of one run or of several that are chains of one sampler."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy
import torch
from torch import Tensor

from sgmcmc import disk
from sgmcmc.errors import StoreError
from sgmcmc.formats import (
    MEND,
    READABLE,
    SAMPLE_FILE,
    Damaged,
    last_draw,
    read_draws,
    read_record,
    read_status,
    read_table,
)
from sgmcmc.store import EMPTY, SLOTS

# In which settings runs may differ whose chains are joined: none changes the sampler or the target.
MAY_DIFFER = {"seed", "chains", "init", "warm_start", "log_every", "save_every"}


def load_samples(folder: str | os.PathLike | Sequence) -> Tensor:
    """The draws of a run, ``[draws, chains, dim]`` in the dtype they were kept in.

    Of a network ``experiments.build.reopened`` has the weights by name (kernels of convolutions have their channels
    last here). Of several folders (seeds of one configuration) the chains are joined along dimension 1. A run may be
    read while it is being written.

    :raises StoreError: no draws, a damaged or missing file, or runs with different numbers of draws,
        dimensions or dtypes, or of different settings.
    """
    if not isinstance(folder, str | os.PathLike):
        if not isinstance(folder, Iterable):
            raise StoreError(f"{folder} is not the path of a run folder, nor a list of them")
        folder = list(folder)
        runs = [load_samples(one) for one in folder]
        if not runs:
            raise StoreError("no run folder was given to load samples from")
        check_alike(folder)
        for path, run in zip(folder, runs, strict=True):
            if (run.shape[0], run.shape[2], run.dtype) != (runs[0].shape[0], runs[0].shape[2], runs[0].dtype):
                raise StoreError(
                    f"{path} holds {run.shape[0]} draws of {run.shape[2]} dimensions ({run.dtype}), {folder[0]} "
                    f"{runs[0].shape[0]} of {runs[0].shape[2]} ({runs[0].dtype}): only equal ones can be joined"
                )
        return torch.cat(runs, 1)
    folder = Path(os.path.expanduser(folder))
    while True:
        names = _sample_names(folder)
        try:
            with disk.told(folder, READABLE):
                return _join(folder, names)
        except Damaged as damage:
            if _sample_names(folder) == names:  # else a running chain has just replaced a file
                raise StoreError(f"{folder}: {damage}: {MEND}") from None


def check_alike(folders: Sequence) -> None:
    """Raise StoreError unless the runs differ in their seed, and besides in nothing but ``MAY_DIFFER``: only then are
    they independent chains of one sampler and one target."""
    if len(folders) < 2:
        return

    def settings(folder) -> dict | None:
        identity = read_status(folder).get("identity") or {}
        known = identity.get("settings")
        return known and {**known, "law": identity.get("law")}

    known = [settings(folder) for folder in folders]
    first, *others = known
    for folder, other in zip(folders[1:], others, strict=True):
        if not first or not other:  # of runs of one's own, which need not say
            continue
        names = {name for name in first.keys() | other.keys() if first.get(name) != other.get(name)} - MAY_DIFFER
        if names:
            which = ", ".join(sorted(names))
            mend = "only runs of one configuration are joined"
            raise StoreError(f"{folder} differs from {folders[0]} in {which}: {mend}")
    seen: dict[str, str | os.PathLike] = {}
    for folder, one in zip(folders, known, strict=True):
        which = str((one or {}).get("seed", Path(folder).resolve()))
        if which in seen:
            mend = "have the same seed, so the same random numbers: give one of them"
            raise StoreError(f"{folder} and {seen[which]} {mend}")
        seen[which] = folder


def _recorded(folder: Path) -> dict:
    """What the newest checkpoint has recorded of the files beside it. Asked before these are read: while the run is
    being written they get more, not less."""
    records = [EMPTY]
    for slot in SLOTS:
        with suppress(Damaged):
            records.append(read_record(folder / slot))
    return max(records, key=lambda record: record["block"])


def _sample_names(folder: Path) -> list[str]:
    """Sample files, the newest first; it is not older than the last that is recorded."""
    last = next(reversed(_recorded(folder)["files"]), None)
    with disk.told(folder, READABLE):
        if not (folder / "samples").is_dir():
            raise StoreError(f"{folder} is not a run folder: it has no samples")
        names = [path.name for path in (folder / "samples").iterdir() if SAMPLE_FILE.fullmatch(path.name)]
    names.sort(key=last_draw, reverse=True)
    if last and not (names and last_draw(names[0]) >= last_draw(last)):
        raise StoreError(f"{folder}: samples/{last} is missing: {MEND}")
    if not names:
        raise StoreError(f"{folder} holds no draws (keep=none, or the burn-in is not over)")
    return names


def _join(folder: Path, names: list[str]) -> Tensor:
    """Draws from the newest file back; a file that reaches into the next one is an earlier copy of its start."""
    pieces, first, since = [], None, 0
    for name in names:
        if first is not None and (last_draw(name) > first or first <= since):
            continue
        draws, about = read_draws(folder / "samples" / name)
        if first is None:
            since = about["since"]
        elif about["first"] + len(draws) != first:
            break
        first = about["first"]
        pieces.append(draws)
    if first > since:
        raise Damaged(f"draws {since} to {first} are missing from samples")
    return torch.cat(pieces[::-1])[since - first :]


def load_metrics(folder: str | os.PathLike) -> dict[str, numpy.ndarray]:
    """``metrics.csv`` as one array a column: int64, float64 (an empty cell is NaN) or strings.

    Floats are those that were written, bit for bit. A last line that is still being written is left out.

    :raises StoreError: no such file, or a damaged one.
    """
    return _table(Path(os.path.expanduser(folder)), "metrics.csv")


def load_trace(folder: str | os.PathLike) -> dict[str, numpy.ndarray]:
    """``trace.csv``, as :func:`load_metrics`."""
    return _table(Path(os.path.expanduser(folder)), "trace.csv")


def _table(folder: Path, name: str) -> dict[str, numpy.ndarray]:
    return read_table(folder / name, _recorded(folder)["tables"].get(name))
