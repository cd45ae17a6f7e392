"""``moments.safetensors`` of a run folder: the moments of all draws, those that are not kept, too."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from safetensors.torch import load, save
from torch import Tensor

from sgmcmc import Result, RunFolder
from sgmcmc.errors import StoreError

NAME = "moments.safetensors"


def keep(store: RunFolder, result: Result, estimated: bool) -> str | None:
    """Write ``mean`` and ``variance`` float64 ``[chains, dim]`` and ``count`` of all draws, and the ``mass`` ``[dim]``
    that they were made with where that was ``estimated``; returns the SHA-256 for the status, None without draws."""
    moments = result.moments
    if not moments:
        return None
    count = moments["count"]
    tensors = {
        "mean": moments["mean"].cpu().contiguous(),
        "variance": (moments["m2"] / max(count - 1, 1)).cpu().contiguous(),
        "count": torch.tensor(count),
    }
    if estimated:
        tensors["mass"] = result.kernel.mass.cpu().contiguous()
    store.write(NAME, content := save(tensors))
    return hashlib.sha256(content).hexdigest()


def damage(folder: Path, status: dict) -> str | None:
    """What is wrong with the file of which ``status.json`` tells the SHA-256, in words; None where nothing is."""
    if (known := status.get("moments")) is None:
        return None
    try:
        content = (folder / NAME).read_bytes()
    except OSError:
        return f"{NAME} is missing"
    return None if hashlib.sha256(content).hexdigest() == known else f"{NAME} is damaged"


def read(folder: Path, status: dict) -> dict[str, Tensor]:
    """The tensors that were kept; StoreError where they are not as they were written."""
    if told := damage(folder, status):
        raise StoreError(f"{folder}: {told}; the run's command writes it again")
    return load((folder / NAME).read_bytes())
