"""What the rows of a run's metrics tell, read as columns: which cycles each is of, and means over the second half."""

from __future__ import annotations

import math

import numpy as np

from sgmcmc.diagnostics import LEAST
from sgmcmc.kernel import Kernel

TOLD = 0.2  # of T: how far a temperature is from it that is told


def spans(metrics: dict, every: int) -> tuple[np.ndarray, np.ndarray]:
    """After which cycle each row of metrics begins, and which rows count.

    A row is of the cycles since the last regular one, ``every`` of them; where a run ended between two and was
    continued, the next one has that row's cycles, too.
    """
    starts = (metrics["cycle"] - 1) // every * every
    return starts, np.append(starts[1:] != starts[:-1], True)[: len(starts)]


def second_half(metrics: dict, every: int, column: str = "log_accept") -> tuple[float, float, float] | None:
    """The mean of a column over the second half of the cycles, its standard error (of one row infinite), and the median
    of the rows, which a few proposals far out do not move; None where no row of that half has one. The last row may be
    the only one of the second half."""
    cycles, values = metrics["cycle"], metrics[column]
    starts, late = spans(metrics, every)
    late &= abs(values) < math.inf
    late &= starts >= min(cycles[-1] / 2, starts[-1]) if len(starts) else True
    values, lengths = values[late], (cycles - starts)[late]
    if not len(values):
        return None
    error = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return float(np.average(values, weights=lengths)), error, float(np.median(values))


def out_of_equilibrium(metrics: dict, every: int, temperature: float) -> list[tuple[str, float]]:
    """Which of the two temperatures, and their means over the second half of the cycles, are far from T: by more than a
    fifth, and six standard errors of ``LEAST`` rows or more, taken as independent."""
    found = []
    for kind in ("kinetic", "configurational"):
        values = metrics.get(f"{kind}_temperature")
        half = None if values is None or len(values) < 2 * LEAST else second_half(metrics, every, f"{kind}_temperature")
        if half and abs(half[0] - temperature) > max(TOLD * temperature, 6 * half[1]):
            found.append((kind, half[0]))
    return found


def disequilibrium(metrics: dict, every: int, kernel: Kernel) -> str | None:
    """The sentence that tells of temperatures that are ``out_of_equilibrium``; None where none is."""
    temperature = kernel.temperature
    if not temperature or not (off := out_of_equilibrium(metrics, every, temperature)):
        return None
    means = " and ".join(f"{kind} temperature {mean:.3g}" for kind, mean in off)
    why = "too few cycles" + ", or too large steps" * (kernel.acceptance == "monitor")
    return f"mean {means} in the second half, and T is {temperature:g}: not in equilibrium ({why})"
