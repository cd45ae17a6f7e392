"""The summary tables: what each experiment's figure or table needs, from its finished chains.

``MAKERS[experiment](config, folder)`` yields the rows of one run; figures read the joined table alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sgmcmc import load_samples
from sgmcmc.diagnostics import Grid, symmetric_kl, symmetric_kl_floor
from sgmcmc.potentials.analytic import DoubleWell
from sgmcmc.store import read_status

QUOTED_REJECTION = (0.68, 0.22, 0.37, 0.044, 0.13, 0.71, 0.22, 0.39, 0.035, 0.11)  # Neal's talk, in his order


def make(experiment: str, configs: list[dict], ends: list[dict]) -> list[dict]:
    """The experiment's rows. A chain that failed or diverged before its first row has a row that says so."""
    rows = []
    for number, (config, end) in enumerate(zip(configs, ends, strict=True)):
        common = {"sampler": config["sampler"]["name"], "status": end["status"]}
        if end["status"] != "done":
            rows.append({**common, "why": end.get("why", "")})
            continue
        path = Path(end["folder"])
        seconds = read_status(path).get("seconds")
        for row in MAKERS[experiment](config, path, number):
            rows.append({**common, **row, "seconds": seconds})
    return rows


def _neal_rejection(config: dict, path: Path, number: int) -> Iterator[dict]:
    """Rejection over the last 90 % of each chain: the mean over chains, and how far single chains stray from it.

    Chains start dispersed, not at his low-probability point. A chain's draws are repeated by rejection, so a
    rejection is a draw equal to the one before.
    """
    draws = load_samples(path)
    moved = (draws[1:] != draws[:-1]).any(-1)[len(draws) // 10 :]
    rejected = 1 - moved.double().mean(0)
    yield {
        "pairs": config["model"]["pairs"],
        "transitions": config["cycles"],
        "step_size": config["step_size"],
        "chains": config["chains"],
        "rejected": float(rejected.mean()),
        "rejected_error": float(rejected.std() / len(rejected) ** 0.5),
        "single_chain_sd": float(rejected.std()),
        "quoted": QUOTED_REJECTION[number],
    }


def _amagold_fig1(config: dict, path: Path, number: int) -> Iterator[dict]:
    """J between the draws' histogram (bins of .1 on [−6, 6]) and the exact bin masses, a row a step size.

    The error is that of ten groups of chains; ``floor`` is what as many independent draws would give.
    """
    draws, sizes = load_samples(path), config["step_size"]
    each, grid = config["chains"] // len(sizes), Grid([-6.0], [6.0], [120])
    masses = DoubleWell().cumulative(torch.linspace(-6, 6, 121, dtype=torch.float64), 1.0).diff().numpy()
    for size, part in zip(sizes, draws.split(each, dim=1), strict=True):
        groups = part.split(max(1, each // 10), dim=1)
        js = np.array([_j(group, grid, masses) for group in groups])
        yield {
            "step_size": size,
            "draws": part.numel(),
            "chains": each,
            "J": _j(part, grid, masses),
            "J_error": float(js.std(ddof=1) / len(js) ** 0.5) if len(js) > 1 else float("nan"),
            "floor": float(symmetric_kl_floor(masses, part.numel())),
            "mean": float(part.double().mean()),
            "variance": float(part.double().var()),
            "accepted": float((part[1:] != part[:-1]).double().mean()),
        }


def _j(draws: Tensor, grid: Grid, masses) -> float:
    return float(symmetric_kl(grid.counts(draws), masses, draws=draws.numel()))


MAKERS: dict[str, Callable[[dict, Path, int], Iterator[dict]]] = {
    "neal_rejection": _neal_rejection,
    "amagold_fig1": _amagold_fig1,
}
EXPERIMENTS = tuple(MAKERS)
