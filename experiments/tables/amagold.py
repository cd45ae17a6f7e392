"""Tables of the AMAGOLD paper (Zhang, Cooper and De Sa 2020)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from experiments.tables.common import Run, of_each
from sgmcmc.diagnostics import Grid, symmetric_kl, symmetric_kl_floor
from sgmcmc.potentials.analytic import DoubleWell


def _double_well(run: Run) -> Iterator[dict]:
    """J between the draws' histogram (bins of .1 on [−6, 6]) and the exact bin masses, a row a step size.

    The error is that of ten groups of chains; ``floor`` is what as many independent draws would give.
    """
    draws, grid = run.draws, Grid([-6.0], [6.0], [120])
    masses = DoubleWell().cumulative(torch.linspace(-6, 6, 121, dtype=torch.float64), 1.0).diff().numpy()
    for size, chains in run.groups():
        part = draws[:, chains.start : chains.stop]
        groups = part.split(max(1, len(chains) // 10), dim=1)
        js = np.array([_j(group, grid, masses) for group in groups])
        yield {
            "step_size": size,
            "draws": part.numel(),
            "chains": len(chains),
            "J": _j(part, grid, masses),
            "J_error": float(js.std(ddof=1) / len(js) ** 0.5) if len(js) > 1 else float("nan"),
            "floor": float(symmetric_kl_floor(masses, part.numel())),
            "mean": float(part.double().mean()),
            "variance": float(part.double().var()),
            "accepted": float((part[1:] != part[:-1]).double().mean()),
        }


def _j(draws: Tensor, grid: Grid, masses) -> float:
    return float(symmetric_kl(grid.counts(draws), masses, draws=draws.numel()))


TABLES = {"amagold_fig1": ("amagold_fig1", of_each(_double_well))}
