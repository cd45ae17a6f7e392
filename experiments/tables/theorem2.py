"""AMAGOLD's Theorem 2 (Zhang, Cooper and De Sa 2020): the spectral gap under noisy gradients, against its bound."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from experiments.build import build
from experiments.tables.amagold import jackknife
from experiments.tables.common import Run, of_each
from sgmcmc.kernel import Friction, Kernel, make_kernel
from sgmcmc.potentials import Potential
from sgmcmc.trajectory import run_trajectory, start

NOISES = (0.25, 0.5, 1.0, 2.0)  # V, the standard deviations of the gradient noise
BASIS, PARTS = 24, 10


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


class Gap(NamedTuple):
    """A spectral gap, its standard error, and its values without one part of the draws after the other."""

    value: float
    error: float
    without: np.ndarray


def gap(kernel: Kernel, potential: Potential, random, chains: range, parts: int = PARTS) -> Gap:
    """The spectral gap of a sampler that draws its momentum afresh, in one dimension.

    Such a chain is reversible in θ, so that its gap is the least of the Rayleigh quotients E(f, f)/Var f, with the
    Dirichlet form E(f, f) = ½ E[p (f(θ') − f(θ))²], θ an exact draw, θ' its proposal, p its acceptance probability.
    Here the least over the span of √2 cos(kπF(θ)), k = 1 to 24, F the target's distribution function: orthonormal under
    the target. The quotient of any f is an upper bound of the gap, and tight where the slowest functions are smooth.
    The error is a jackknife's over ``parts``.
    """
    forms = []
    for part in range(parts):
        some = range(chains.start + len(chains) * part // parts, chains.start + len(chains) * (part + 1) // parts)
        theta = potential.exact(some, random)
        state = start(kernel, potential, theta, random, some)
        _, record = run_trajectory(kernel, potential, state, random, 0, some)
        step = _basis(potential.cumulative(record.proposal)) - _basis(potential.cumulative(theta))
        forms.append((step.mT * record.accept_prob @ step / (2 * len(some))).numpy())

    def least(of) -> float:
        return float(np.linalg.eigvalsh(np.mean(of, 0))[0])

    without = np.array([least(forms[:i] + forms[i + 1 :]) for i in range(parts)])
    return Gap(least(forms), jackknife(without), without)


def _basis(place: Tensor) -> Tensor:
    """√2 cos(kπu), ``[n, 24]``, of u ``[n, 1]`` in [0, 1]."""
    return math.sqrt(2) * torch.cos(math.pi * torch.arange(1, BASIS + 1, dtype=torch.float64) * place)


def _gaps(run: Run) -> Iterator[dict]:
    """AMAGOLD's gap over L2MC's with the theorem's parameters, a row a step size and noise.

    Both have the same random numbers: the ratio's error is its own jackknife's.
    """
    pieces, config = build(run.config), run.config
    steps, beta = config["steps_per_cycle"], config["sampler"]["beta"]

    def kernel(sampler: str, size: float, potential, sigma: float, beta: float) -> Kernel:
        friction = Friction.of(size, beta=beta)
        policies = {"steps": steps, "friction": friction, "mass": sigma**2, "refresh": "full", "dtype": torch.float64}
        return make_kernel(sampler, potential, size, **policies)

    for size, chains in run.groups():
        full = type(pieces.potential)(noise=0.0)
        whole = gap(kernel("l2mc", size, full, 1.0, beta), full, pieces.random, chains)
        for noise in NOISES:
            theory = theorem2(size, noise, steps, beta=beta)
            noisy = type(pieces.potential)(noise=noise)
            own = kernel("amagold", size, noisy, theory["sigma"], theory["beta"])
            found = gap(own, noisy, pieces.random, chains)
            yield {
                "target": config["model"]["name"],
                "steps": steps,
                "step_size": size,
                "noise": noise,
                "draws": len(chains),
                "gap": found.value,
                "gap_error": found.error,
                "l2mc": whole.value,
                "l2mc_error": whole.error,
                "ratio": found.value / whole.value,
                "ratio_error": jackknife(found.without / whole.without),
                **{key: theory[key] for key in ("a", "bound", "valid")},
            }


TABLES = {"finding_theorem2": ("finding_theorem2", of_each(_gaps))}
