"""Statistics of draws that more than one source's tables take, and the toys' bins with their exact masses."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import torch
from scipy.stats import ttest_1samp, ttest_ind
from torch import Tensor

from experiments.tables.common import moved, standard_error
from sgmcmc.diagnostics import Grid, integrated_autocorrelation_time, rejection_clustering
from sgmcmc.potentials.analytic import Banana, DoubleWell, Mixture

ROUNDING = 1e-12  # of a sum of masses
BLOCK = 20  # decisions whose rejections are counted together: Neal's "16 accepts, 4 rejects"
PARTS = 10  # groups of chains that an error is taken from, where it is not a mean over chains
WELL = Grid([-6.0], [6.0], [120])  # bins of .1
PLANES = {
    "banana": (Banana(), Grid([-5.0, -8.0], [15.0, 8.0], [100, 100])),
    "mixture": (Mixture(), Grid([-6.0, -6.0], [6.0, 6.0], [100, 100])),
}


TOYS = {"double_well": (DoubleWell(), WELL), **PLANES}


@cache
def well_masses() -> np.ndarray:
    """The exact masses of the bins of ``WELL``."""
    return DoubleWell().cumulative(torch.linspace(-6, 6, 121, dtype=torch.float64)).diff().numpy()


@cache
def plane_masses(model: str) -> np.ndarray:
    """The exact masses of the bins of a two-dimensional target's grid (its U is normalised)."""
    target, grid = PLANES[model]
    return grid.masses(lambda z: -target.potential(z), 0.0)


@cache
def mean_potential(name: str) -> float:
    """E U of a toy under exp(−U), by the trapezoidal rule on a fine grid four times as wide as that of its bins.

    The density is smooth and negligible at the edges, where the rule is exact but for rounding.
    """
    target, bins = TOYS[name]
    axes = []
    for low, high in zip(bins.low, bins.high, strict=True):
        middle, width = (low + high) / 2, high - low
        axes.append(torch.arange(middle - 2 * width, middle + 2 * width, 0.05, dtype=torch.float64))
    energy = target.potential(torch.cartesian_prod(*axes).reshape(-1, len(axes)))
    weight = (energy.min() - energy).exp()
    return float((weight * energy).sum() / weight.sum())


def counts_of(draws: Tensor, grid: Grid) -> np.ndarray:
    """Each chain's histogram, int64 ``[chains, *bins]``, of draws ``[draws, chains, dim]``."""
    return np.stack([grid.counts(chain).numpy() for chain in draws.unbind(1)])


def shared_bias(counts: np.ndarray, masses: np.ndarray, draws: int) -> tuple[float, float]:
    """What of J would stay with any number of draws: Σ (E q − p)²/p over bins, and its error by the jackknife.

    J is the symmetric Kullback-Leibler divergence between the share q of ``draws`` draws that each bin has, in
    histograms ``[chains, *bins]``, and its exact mass p; it is this sum to leading order. With d_i = q_i − p of
    chain i, Σ over i ≠ j of d_i d_j/p is without bias for it, however few the draws and however autocorrelated, as
    chains are independent: 0 for an exact sampler. Bins with less than 10 expected draws are one bin, with what lies
    outside of the grid. NaN where all bins are so, and of fewer than three chains.
    """
    chains = len(counts)
    large = masses * draws * chains >= 10
    if chains < 3 or not large.any():
        return float("nan"), float("nan")
    q, p = counts[:, large] / draws, masses[large]
    if 1 - p.sum() > ROUNDING:
        q, p = np.column_stack((q, 1 - q.sum(1))), np.append(p, 1 - p.sum())
    away = (q - p) / np.sqrt(p)
    total, squares = away.sum(0), (away**2).sum(1)

    def of(total, squares, chains):
        return (total @ total - squares) / max(chains * (chains - 1), 1)

    without = [of(total - one, squares.sum() - own, chains - 1) for one, own in zip(away, squares, strict=True)]
    return float(of(total, squares.sum(), chains)), jackknife(without)


def quarters(counts: np.ndarray, masses: np.ndarray, draws: int) -> np.ndarray:
    """By how much more of a chain's draws than is exact lie in each of four parts of every axis, ``[chains, 4 axes]``.

    ``counts`` ``[chains, *bins]`` are the chains' histograms, ``masses`` ``[*bins]`` the bins' exact ones; the parts
    are of bins next to each other, about equally probable.
    """
    away = []
    for axis in range(masses.ndim):
        others = tuple(other for other in range(masses.ndim) if other != axis)
        exact, shares = masses.sum(others), counts.sum(tuple(other + 1 for other in others)) / draws
        part = np.minimum(4 * (exact.cumsum() - exact / 2), 3).astype(int)
        away.append((shares - exact) @ np.eye(4)[part])
    return np.concatenate(away, 1)


def away_from_toy(name: str, draws: Tensor, counts: np.ndarray) -> np.ndarray:
    """By how much each chain's mean U is above E U, and its ``quarters`` above what is exact, ``[chains, 1 + 4 axes]``.

    Of ``draws`` ``[draws, chains, dim]`` of a toy and their histograms. U tells of what no axis alone does.
    """
    energies = TOYS[name][0].potential(draws.flatten(0, 1).double()).view(draws.shape[:2]).mean(0).numpy()
    masses = well_masses() if name == "double_well" else plane_masses(name)
    return np.column_stack((energies - mean_potential(name), quarters(counts, masses, len(draws))))


def exact_p(values: np.ndarray, truth: np.ndarray | None = None) -> float:
    """A p-value of the hypothesis that draws are exact, from the one of their means that is farthest from the truth.

    ``values`` ``[chains, functions]`` are means over a chain's draws, ``truth`` ``[others, functions]`` those of
    chains known to be exact, or None where the functions' means are 0: Student's t of independent chains, or Welch's of
    both, and Bonferroni over the functions. A function on which all chains agree is certainly off unless it is the
    truth, of which it says nothing. NaN of fewer than two chains, or where no function says anything.
    """
    if min(len(values), len(values if truth is None else truth)) < 2:
        return float("nan")
    with warnings.catch_warnings():  # of a function that is the same on all chains
        warnings.simplefilter("ignore")
        test = ttest_1samp(values, 0) if truth is None else ttest_ind(values, truth, equal_var=False)
    known = test.pvalue[np.isfinite(test.pvalue)]
    return float(min(1, known.min() * len(known))) if len(known) else float("nan")


def jackknife(without) -> float:
    """The standard error of a statistic from its values without one part after the other; NaN of fewer than two."""
    values = np.asarray(without, dtype=np.float64)
    return float(np.sqrt((len(values) - 1) * values.var())) if len(values) > 1 else float("nan")


def mse_of_mean(means: np.ndarray) -> float:
    """Mean squared error (over coordinates) of the mean of independent estimates ``[chains, dim]``, by their spread."""
    return float((means.var(0, ddof=1) / len(means)).mean())


def errors_of(means: np.ndarray, truth: np.ndarray, truth_mse: float = 0.0) -> dict:
    """Mean squared error (over coordinates) of estimates ``[chains, dim]`` of the mean ``truth`` ``[dim]``.

    ``mse`` is the mean over chains, with its error; ``low`` and ``high`` their range; ``log_mse`` the mean of its
    logarithm, which few chains know better. ``bias2`` is the square of the bias that all chains share,
    |their mean − truth|²/dim less what their scatter adds to it and ``truth_mse``, the mean squared error of ``truth``
    itself: what stays however long a chain is. Nothing but ``mse`` of fewer than two chains.
    """
    if len(means) < 2:
        return {"mse": float(((means - truth) ** 2).mean())}
    each = ((means - truth) ** 2).mean(1)

    def bias2(part):
        return float(((part.mean(0) - truth) ** 2).mean()) - mse_of_mean(part) - truth_mse

    chains = len(means)
    return {
        "mse": float(each.mean()),
        "mse_error": standard_error(each),
        "log_mse": float(np.log(each).mean()),
        "log_mse_error": standard_error(np.log(each)),
        "low": float(each.min()),
        "high": float(each.max()),
        "bias2": bias2(means),
        "bias2_error": jackknife([bias2(np.delete(means, i, 0)) for i in range(chains if chains > 2 else 0)]),
    }


def autocorrelation_time(values: Tensor) -> tuple[float, float]:
    """τ of the slowest column of ``[draws, chains, columns]``, and its error; NaN where chains are too short, or so
    antithetic that it comes out no larger than 0."""
    tau, error = integrated_autocorrelation_time(values)
    slowest = int(np.argmax(tau))
    return (float(tau[slowest]), float(error[slowest])) if tau[slowest] > 0 else (float("nan"), float("nan"))


def jackknifed_time(draws: Tensor, together: bool) -> tuple[float, float]:
    """τ of the slowest coordinate of ``[draws, chains, dim]``, or (``together``) the mean over coordinates.

    The error is the jackknife's over ten groups of chains, from draws a tenth of τ apart. NaN where chains are too
    short to know τ, or so antithetic that it comes out no larger than 0.
    """
    times = integrated_autocorrelation_time(draws).value
    if not np.isfinite(times).all():
        return float("nan"), float("nan")
    chosen = list(range(len(times))) if together else [int(times.argmax())]
    tau = float(times[chosen].mean())
    if tau <= 0:
        return float("nan"), float("nan")
    step = max(1, int(tau / 10))
    some = draws[::step, :, chosen].numpy()
    parts = np.array_split(np.arange(draws.shape[1]), min(PARTS, draws.shape[1]))
    without = [
        step * integrated_autocorrelation_time(np.delete(some, part, 1)).value.mean()
        for part in (parts if len(parts) > 2 else ())
    ]
    return tau, jackknife(without)


def accepted(draws: Tensor) -> dict:
    """The share of draws ``[draws, chains, dim]`` that are not the one before, and its error over chains."""
    rates = moved(draws).double().mean(0).numpy()
    return {"accepted": float(rates.mean()), "accepted_error": standard_error(rates)}


def clustering(accepted: np.ndarray) -> dict:
    """How rejections cluster, of bool ``[decisions, chains]``: the variance of their number in ``BLOCK`` successive
    decisions over that of independent decisions; the error is that of groups of chains."""
    parts = np.array_split(np.arange(accepted.shape[1]), min(PARTS, accepted.shape[1]))
    each = [rejection_clustering(accepted[:, part], BLOCK).value for part in parts]
    whole = rejection_clustering(accepted, BLOCK).value
    return {"clustering": whole, "clustering_error": standard_error(each)}
