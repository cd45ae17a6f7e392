"""Decisions on a part of the data: ``barker_minibatch`` (Seita et al. 2017), ``austerity`` (Korattikara et al. 2014).

For a target that is a sum over data, U(θ) = prior(θ) + Σ_i ℓ_i(θ), log MH of a trajectory is one, too,

    log MH = −(prior(θ_L) − prior(θ_0) + Σ ΔK)/T − N mean_i d_i/T,     d_i = ℓ_i(θ_L) − ℓ_i(θ_0),

and n data drawn without replacement estimate it, with the standard error s = (N/T) sd(d) √((1 − n/N)/n). Prior and
kinetic energies are exact. The data come in a random order, drawn afresh for each decision, ``decision_batch`` more at
a time until the test is content; when all N have come s = 0.

``barker_minibatch``
    until s < σ. To be accepted with Barker's probability MH/(1 + MH) is to have log MH + V > 0 with V logistic. The
    estimate is taken to be log MH + N(0, s²); N(0, σ² − s²) is added, and X, so that N(0, σ²) + X is logistic.

``austerity``
    log u of Metropolis' rule is drawn first, and compared with log MH by a t-test: until |log MH − log u|/s is
    larger than the 1 − ε quantile of Student's t with n − 1 degrees of freedom. At ε = 0 all data are always used.

Neither is exact: the estimate is not normal, s is itself an estimate, and the t-test errs. Both need n data at θ_0 and
at θ_L, 2n in all, where an exact decision needs N, because it has U(θ_0) from before. As s² = (N/n − 1) D² with
D² = Σ_i (d_i − mean)²/T², Barker's test stops at n = N D²/(σ² + D²). In a regular posterior d_i is about the score
times the move, so that √T D is the length of the move in standard deviations of exp(−U/T): at T = 1 only moves shorter
than the posterior is wide are decided on few data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from scipy.special import expit, ndtr, stdtrit
from torch import Tensor

from sgmcmc.errors import SettingError

NARROWEST, WIDEST = 0.2, 1.2  # σ; below, the atoms of X stand apart, and beyond, no X is nearly right
SPACING, REACH = 0.25, 14.0  # of the atoms of X; the logistic has 8e-7 beyond on either side


@cache
def correction(sigma: float) -> tuple[np.ndarray, np.ndarray, float]:
    """X with N(0, σ²) + X nearly logistic: its atoms, their probabilities, and the largest error of the sum's CDF.

    None is exact: the logistic's characteristic function over the normal's grows without bound. Of all symmetric
    distributions on a grid of spacing ¼ this is the one with the least maximal error, by linear programming (Seita et
    al. solve least squares and cut off what is negative): 6e-7 at σ = .2, 1.5e-7 at 1, 2e-5 at 1.2.
    """
    from scipy.optimize import linprog  # slow to import, and seldom needed

    half = np.arange(0, REACH + SPACING / 2, SPACING)
    x = np.arange(0.02, REACH + 3, 0.04)
    sums = (ndtr((x[:, None] - half) / sigma) + ndtr((x[:, None] + half) / sigma)) / 2
    bound, ones = np.full((len(x), 1), -1.0), np.ones(len(half))
    above, below = np.hstack([sums, bound]), np.hstack([-sums, bound])
    within = {"A_ub": np.vstack([above, below]), "b_ub": np.concatenate([expit(x), -expit(x)])}
    solution = linprog([*np.zeros(len(half)), 1], **within, A_eq=[[*ones, 0]], b_eq=[1])
    found = solution.x[:-1].clip(0)
    found = found / found.sum()
    error = float(np.abs(sums @ found - expit(x)).max())
    return np.concatenate([-half[:0:-1], half]), np.concatenate([found[:0:-1] / 2, found[:1], found[1:] / 2]), error


@dataclass
class Decision:
    """``[chains]`` each: whether the end is accepted, U(θ_L) − U(θ_0) as estimated, and on how many data."""

    accepted: Tensor
    delta_potential: Tensor
    data: Tensor


@torch.no_grad()
def decide(kernel, potential, theta: Tensor, end: Tensor, kinetic: Tensor, random, index: int, chains) -> Decision:
    """Whether trajectories from ``theta`` to ``end``, ``[chains, dim]`` both, with Σ ΔK = ``kinetic`` (``[chains]``
    float64) are accepted.

    ``index`` is the decision's number. A trajectory whose energies are not finite is rejected at the first batch.
    """
    size, temperature = potential.data_size, kernel.temperature
    order = random.permutation("decision", index, chains, size, step=1)
    barker, sigma = kernel.acceptance == "barker_minibatch", kernel.sigma
    uniform = random.uniform("decision", index, chains)[:, 0]
    threshold = -_correction_draw(uniform, sigma) if barker else uniform.log()
    normal = torch.special.ndtri(random.uniform("decision", index, chains, step=2)[:, 0])
    prior = potential.prior(end).clone() - potential.prior(theta)  # a target may have buffers for them
    total, squares, data = torch.zeros_like(kinetic), torch.zeros_like(kinetic), torch.zeros_like(kinetic)
    accepted, delta = torch.zeros_like(kinetic, dtype=torch.bool), torch.zeros_like(kinetic)
    rows = torch.arange(len(theta), device=theta.device)
    for first in range(0, size, kernel.decision_batch):
        batch = order[rows, first : first + kernel.decision_batch]
        change = potential.losses(end[rows], batch).clone() - potential.losses(theta[rows], batch)
        total[rows] += change.sum(-1)
        squares[rows] += change.square().sum(-1)
        number = min(first + kernel.decision_batch, size)
        mean = total[rows] / number
        variance = (squares[rows] / number - mean.square()).clamp(min=0) * number / (number - 1)
        error = size / temperature * (variance * (1 - number / size) / number).sqrt()
        delta[rows] = prior[rows] + size * mean
        log_mh = -(delta[rows] + kinetic[rows]) / temperature
        if barker:
            log_mh = log_mh + (sigma**2 - error.square()).clamp(min=0).sqrt() * normal[rows]
            certain = error < sigma
        else:
            certain = (log_mh - threshold[rows]).abs() > stdtrit(number - 1, 1 - kernel.epsilon) * error
        accepted[rows], data[rows] = log_mh > threshold[rows], number
        rows = rows[~certain & torch.isfinite(log_mh)]
        if not len(rows):
            break
    return Decision(accepted, delta, data)


def _correction_draw(uniform: Tensor, sigma: float) -> Tensor:
    """X by inversion of its distribution function."""
    atoms, chances, _ = correction(sigma)
    steps = torch.from_numpy(chances.cumsum()[:-1]).to(uniform)
    return torch.from_numpy(atoms).to(uniform)[torch.searchsorted(steps, uniform)]


def why_inexact(kernel) -> str:
    """One clause for where exactness is told."""
    part = f"decides on batches of {kernel.decision_batch} data"
    if kernel.acceptance == "austerity":
        return f"{kernel.acceptance} {part}, by t-tests each of which errs with probability {kernel.epsilon:g}"
    return f"{kernel.acceptance} {part}, as if their estimate of log MH were normal"


def check(kernel, potential) -> None:
    """Refuse a target that does not say the terms of its sum over data, and impossible numbers."""
    if not (potential.data_size and all(callable(getattr(potential, name, None)) for name in ("losses", "prior"))):
        mend = "decides on a part of the data, and this target has none, or no losses(theta, batch) and prior(theta)"
        mend += "; use metropolis or barker"
        raise SettingError("sampler.acceptance", kernel.acceptance, mend)
    if potential.data_size < 2:
        raise SettingError("sampler.acceptance", kernel.acceptance, "needs two data: of one there is no spread")
    if kernel.decision_batch < 2:
        raise SettingError("sampler.decision_batch", kernel.decision_batch, "must be at least 2")
    if not 0 <= kernel.epsilon < 0.5:
        raise SettingError("sampler.epsilon", kernel.epsilon, "must be from 0 to below 0.5")
    if not NARROWEST <= kernel.sigma <= WIDEST:
        raise SettingError("sampler.sigma", kernel.sigma, f"must be from {NARROWEST:g} to {WIDEST:g}")
