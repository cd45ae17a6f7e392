"""AMAGOLD's Theorem 2 (Zhang, Cooper and De Sa 2020): the spectral gap under noisy gradients, against its bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from scipy.linalg import eigh
from torch import Tensor

from experiments.build import build
from experiments.tables.common import Run, of_each
from experiments.tables.statistics import jackknife
from sgmcmc.kernel import Friction, Kernel, make_kernel
from sgmcmc.potentials import Potential
from sgmcmc.potentials.analytic import Independent
from sgmcmc.trajectory import run_trajectory, start

NOISES = (0.25, 0.5, 1.0, 2.0)  # V, the standard deviations of the gradient noise
BASIS, PARTS = 24, 10
WARM = 3.0  # the temperature whose distribution function the functions are made of


def theorem2(epsilon: float, noise: float, steps: int, sigma: float = 1.0, beta: float = 0.25, dim: int = 1) -> dict:
    """Theorem 2 as numbers: AMAGOLD's gap at (ε, σ', β') is at least ``bound`` times L2MC's at (ε, σ, β).

    With V = ``noise`` (V²/dim bounds the variance of each coordinate of the gradient) and T = ``steps``:
    a = ε T V²/(4 σ² β), bound = exp(−a − 2 √a), c = 1 + √(ε V²/(16 σ² β T dim²)), σ' = σ c^{−1/4}, β' = β c^{−1/2};
    ``valid`` where ε V² ≤ 4 σ² β dim.
    """
    a = epsilon * steps * noise**2 / (4 * sigma**2 * beta)
    c = 1 + math.sqrt(epsilon * noise**2 / (16 * sigma**2 * beta * steps * dim**2))
    return {
        "a": a,
        "bound": math.exp(-a - 2 * math.sqrt(a)),
        "sigma": sigma * c**-0.25,
        "beta": beta * c**-0.5,
        "valid": epsilon * noise**2 <= 4 * sigma**2 * beta * dim,
    }


def step_size_for(bound: float, noise: float, steps: int, sigma: float = 1.0, beta: float = 0.25) -> float:
    """The ε at which ``theorem2`` gives this bound, in (0, 1): √a = √(1 − log bound) − 1."""
    return (math.sqrt(1 - math.log(bound)) - 1) ** 2 * 4 * sigma**2 * beta / (steps * noise**2)


class Hyperbola(Independent):
    """U(x) = 16 √(1 + x²/16): log-concave, of curvature at most 1 and slope below 4, in one dimension.

    Of the targets here it alone is known to have a gap. A trajectory that begins with a drift is rejected ever more
    surely the farther out it starts where the slope grows without bound, as on a Gaussian; there the gap is 0, for L2MC
    and AMAGOLD alike. Where the slope is nearly constant U is followed nearly without error, from however far.
    """

    reach = 1.0

    def __init__(self, noise: float = 0.0):
        super().__init__(1, noise)

    def energy(self, x: Tensor) -> Tensor:
        return 16 * (1 + x.square() / 16).sqrt()

    def _slope(self, theta: Tensor) -> Tensor:
        return theta / (1 + theta.square() / 16).sqrt()


def forms(kernel: Kernel, potential: Potential, random, chains: range) -> np.ndarray:
    """Of a sampler that draws its momentum afresh, in one dimension, the Dirichlet form and the covariance of 24 smooth
    functions: ``[10, 2, 24, 24]``, each of a tenth of the chains.

    Such a chain is reversible in θ. E(f, g) = ½ E[p (f(θ') − f(θ)) (g(θ') − g(θ))], θ an exact draw, θ' its proposal, p
    its acceptance probability. The functions are cos(kπF(θ)), k = 1 to 24, F the distribution function of exp(−U/3):
    that of exp(−U) itself is so steep in the wells, and so flat between them, that the slowest function is hardly in
    their span.
    """
    theta = potential.exact(chains, random)
    _, record = run_trajectory(kernel, potential, start(kernel, potential, theta, random, chains), random, 0, chains)
    before, after = (_functions(potential.cumulative(x, WARM)) for x in (theta, record.proposal))
    found = []
    for part in torch.arange(len(chains)).tensor_split(PARTS):
        step, centred = after[part] - before[part], before[part] - before[part].mean(0)
        squares = (step.mT * record.accept_prob[part] @ step / 2, centred.mT @ centred)
        found.append([(square / len(part)).numpy() for square in squares])
    return np.array(found)


def gap(of: np.ndarray) -> float:
    """The least Rayleigh quotient E(f, f)/Var f in the functions' span: the spectral gap of the slowest of them, and an
    upper bound of that of all functions."""
    return float(eigh(*of, eigvals_only=True)[0])


def least_left(noisy: np.ndarray, whole: np.ndarray) -> float:
    """The least ratio of two samplers' E(f, f) in the span: what is left of the function that noise costs most."""
    return float(eigh(noisy[0], whole[0], eigvals_only=True)[0])


def estimate(statistic: Callable[..., float], *samplers: np.ndarray) -> tuple[float, float]:
    """A statistic of samplers' forms, and its error by the jackknife over the parts, which are of the same draws."""
    without = [statistic(*(np.delete(each, part, 0).mean(0) for each in samplers)) for part in range(PARTS)]
    return statistic(*(each.mean(0) for each in samplers)), jackknife(without)


def _functions(place: Tensor) -> Tensor:
    """cos(kπu), ``[n, 24]``, of u ``[n, 1]`` in [0, 1]."""
    return torch.cos(math.pi * torch.arange(1, BASIS + 1, dtype=torch.float64) * place)


def _gaps(run: Run) -> Iterator[dict]:
    """AMAGOLD's gap over L2MC's with the theorem's parameters, a row a step size and noise.

    Both have the same random numbers. ``half`` is the gap in the span of the first 12 functions over that of all 24;
    ``least`` is ``least_left``.
    """
    pieces, config = build(run.config), run.config
    steps, beta, model = config["steps_per_cycle"], config["sampler"]["beta"], config["model"]

    def of(sampler: str, noise: float, sigma: float, beta: float) -> np.ndarray:
        potential, friction = type(pieces.potential)(noise=noise), Friction.of(size, beta=beta)
        policies = {"steps": steps, "friction": friction, "mass": sigma**2, "refresh": "full", "dtype": torch.float64}
        kernel = make_kernel(sampler, potential, size, **policies)
        return forms(kernel, potential, pieces.random, chains)

    for size, chains in run.groups():
        whole = of("l2mc", 0.0, 1.0, beta)
        for noise in NOISES:
            theory = theorem2(size, noise, steps, beta=beta)
            noisy = of("amagold", noise, theory["sigma"], theory["beta"])
            row = {"target": model.get("_target_", model["name"]).rpartition(".")[2], "steps": steps}
            row |= {"step_size": size, "noise": noise, "draws": len(chains)}
            for name, statistic, samplers in (
                ("gap", gap, [noisy]),
                ("l2mc", gap, [whole]),
                ("ratio", lambda one, other: gap(one) / gap(other), [noisy, whole]),
                ("half", lambda of: gap(of[:, : BASIS // 2, : BASIS // 2]) / gap(of), [whole]),
                ("least", least_left, [noisy, whole]),
            ):
                row[name], row[f"{name}_error"] = estimate(statistic, *samplers)
            yield row | {key: theory[key] for key in ("a", "bound", "valid")}


TABLES = {"finding_theorem2": ("finding_theorem2", of_each(_gaps))}
