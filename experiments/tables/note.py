"""Tables of the note of 2020, "Langevin MCMC and its M-H acceptance probability" (Garriga-Alonso)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from experiments.build import build
from experiments.tables.common import Run, of_each, standard_error
from sgmcmc.certificate_reference import closed_form
from sgmcmc.diagnostics import integrated_autocorrelation_time
from sgmcmc.samplers import SAMPLERS

PATH_ROWS = 200  # of an accumulated energy, one step size
UNSTABLE = 1e4  # times the target's variance: a chain that has left for good


# -- temperatures ------------------------------------------------------------------------------------------------


def _temperatures(run: Run) -> Iterator[dict]:
    """Position variance and kinetic temperature at whole steps, a row a step size, beside their closed forms.

    Stiffness, mass and temperature are 1, so ⟨θ, ∇U⟩/d, the configurational temperature, is the position's variance.
    Positions are the draws at the ends of cycles, momenta those of the first traced point of a cycle. Errors are those
    of the chains' means. Values are missing where symplectic Euler is unstable.
    """
    draws, trace, friction = run.draws.double(), run.trace, run.config["friction"]
    first = trace["step"] == (trace["cycle"] - 1) * run.config["steps_per_cycle"]
    first &= trace["cycle"] > run.config["burn_in"]
    for size, chains in run.groups():
        variance, kinetic, half = closed_forms(run.sampler, size, friction)
        part = draws[:, chains.start : chains.stop]
        squares = part.square().mean((0, 2)).numpy()
        inside = first & (trace["chain"] >= chains.start) & (trace["chain"] < chains.stop)
        momenta = np.array([trace["kinetic_temperature"][inside & (trace["chain"] == c)].mean() for c in chains])
        stable = math.isfinite(variance) and bool(np.isfinite(squares).all()) and squares.max() < UNSTABLE
        if not stable:
            squares, momenta = squares * math.nan, momenta * math.nan
        yield {
            "step_size": size,
            "chains": len(chains),
            "draws": len(part),
            "iact": float(integrated_autocorrelation_time(part[:, :, :4]).value.mean()) if stable else math.nan,
            "variance": float(squares.mean()),
            "variance_error": standard_error(squares),
            "variance_formula": variance,
            "kinetic": float(momenta.mean()),
            "kinetic_error": standard_error(momenta),
            "kinetic_formula": kinetic,
            "kinetic_half_formula": half,
            "stable": int(stable),
        }


def closed_forms(sampler: str, h: float, friction: float) -> tuple[float, float, float]:
    """Stationary Var x, Var m at whole steps and (where there is one) at half steps; stiffness, mass, T = 1.

    With w = 1 − h²/4 (h² times tanh(γh/2)/(γh/2) for OVRVO) the momentum that O and the first half kick of OBABO have
    made is Var 1/w, where at whole steps it is 1. NaN where the integrator is unstable.
    """
    row = SAMPLERS[sampler]
    decay = (lambda step: 1 - friction * step) if "E" in row.word else (lambda step: math.exp(-friction * step))
    one = np.ones(1)
    variance, momentum = (float(value[0]) for value in closed_form(row.word, h, decay, row.rescaled, one, one, 1.0))
    if not (variance > 0 and momentum > 0):
        return math.nan, math.nan, math.nan
    return variance, momentum, variance if row.word == "OBABO" else math.nan


# -- effective energy --------------------------------------------------------------------------------------------


def _paths(run: Run) -> Iterator[dict]:
    """The accumulated ΔH̃ a coordinate over time, a row each of 200 times a step size: that of the first chain, its
    curvature part, and the mean over chains with its error. Of a traced run, chain and step size alone: −T log MH of
    its cycles, which begins at 0 in each."""
    dim = run.config["model"]["dim"]
    if run.config["trace"]:
        trace = run.trace
        for size, chains in run.groups():
            mine = trace["chain"] == chains.start
            for step, log_mh in zip(trace["step"][mine], trace["log_accept"][mine], strict=True):
                yield {"step_size": size, "resampled": 1, "time": step * size, "one": -log_mh / dim}
        return
    for size, chains in run.groups():
        energy, curvature = _accumulated(run, size, chains)
        every = max(1, len(energy) // PATH_ROWS)
        for step in range(0, len(energy), every):
            yield {
                "step_size": size,
                "resampled": 0,
                "time": step * size,
                "one": float(energy[step, 0]) / dim,
                "one_curvature": float(curvature[step, 0]) / dim,
                "mean": float(energy[step].mean()) / dim,
                "mean_error": standard_error(energy[step].numpy() / dim),
            }


def _drift(run: Run) -> Iterator[dict]:
    """How fast the accumulated ΔH̃ grows: its end over the time, a coordinate, with the error over chains; a row a step
    size.

    ``leading`` is γ h² E|∇U|²/4d, what symplectic Euler's goes with for small h (at stationarity it is the heat that
    E's friction takes out, γ((1 − γh/2) E m² − T), and E m² = T(1 + γh/2) + h² E|∇U|²/4d + …). ``swing`` is the
    standard deviation, over time, of one chain's H̃ about its own straight line; ``curvature_swing`` and
    ``curvature_drift`` are those of the second part alone (h²b²/8 times a difference, which telescopes; or, of
    symplectic Euler, −(h²/2)|∇U|², which does not).
    """
    if run.config["trace"]:
        return
    dim, friction = run.config["model"]["dim"], run.config["friction"]
    steep = _mean_square_slope(build(run.config).potential)
    for size, chains in run.groups():
        energy, curvature = _accumulated(run, size, chains)
        time = size * (len(energy) - 1)
        rates = (energy[-1] / time / dim).numpy()
        yield {
            "step_size": size,
            "chains": len(chains),
            "steps": len(energy) - 1,
            "drift": float(rates.mean()),
            "drift_error": standard_error(rates),
            "leading": friction * size**2 * steep / 4 if run.sampler == "sghmc" else math.nan,
            "swing": _swing(energy) / dim,
            "curvature_swing": _swing(curvature) / dim,
            "curvature_drift": float(curvature[-1].mean()) / time / dim,
        }


def _swing(path: Tensor) -> float:
    """The standard deviation of ``[steps + 1, chains]`` about the line from 0 to each chain's end, mean over chains."""
    return float((path - torch.linspace(0, 1, len(path), dtype=path.dtype)[:, None] * path[-1]).std(0).mean())


def _accumulated(run: Run, size: float, chains: range) -> tuple[Tensor, Tensor]:
    """H̃ of each step minus that of the first, and its curvature part, ``[steps + 1, chains]``."""
    config, potential = run.config, build(run.config).potential
    theta = run.draws[:, chains.start : chains.stop].double()
    steps, number, dim = theta.shape
    flat = theta.reshape(-1, dim)
    energy, slope = potential.potential(flat).reshape(steps, number), potential.gradient(flat).reshape(theta.shape)
    if "E" in config["sampler"]["word"]:
        whole, curvature = naive_energy(theta, energy, slope, size)
    else:
        whole, curvature = effective_energy(theta, energy, slope, size * scaling(config["friction"] * size))
    start = whole.new_zeros(1, number)
    return torch.cat((start, whole.cumsum(0))), torch.cat((start, curvature.cumsum(0)))


def _mean_square_slope(potential) -> float:
    """E|∇U|²/d at T = 1 of independent coordinates, by the trapezoidal rule."""
    x = torch.linspace(-12, 12, 200001, dtype=torch.float64)
    weight = torch.softmax(-potential.energy(x), 0)
    slope = potential.gradient(x[:, None].expand(-1, potential.dim))[:, 0]
    return float((weight * slope.square()).sum())


def scaling(friction_time: float) -> float:
    """b = √((2/γh) tanh(γh/2)) of the note's equation 7."""
    return math.sqrt(2 / friction_time * math.tanh(friction_time / 2)) if friction_time else 1.0


def effective_energy(theta: Tensor, energy: Tensor, slope: Tensor, size: float) -> tuple[Tensor, Tensor]:
    """ΔH̃ of each step of OVRVO from its positions alone (the note's last equation), and its curvature part:

        ΔH̃ = ΔU − ½ Δθᵀ(∇Uⁿ + ∇Uⁿ⁺¹) + (b²h²/8) Δ|∇U|²,   ``size`` = bh, M = 1

    ``theta`` and ``slope`` ``[steps + 1, chains, dim]``, ``energy`` ``[steps + 1, chains]``.
    """
    trapezium = (theta.diff(dim=0) * (slope[1:] + slope[:-1])).sum(-1) / 2
    curvature = size**2 / 8 * slope.square().sum(-1).diff(dim=0)
    return energy.diff(dim=0) - trapezium + curvature, curvature


def naive_energy(theta: Tensor, energy: Tensor, slope: Tensor, size: float) -> tuple[Tensor, Tensor]:
    """What the energy of symplectic Euler's steps would be if E were an O and then a kick B: ΔU + ΔK of that kick.

    With m' = Δθ/h (M = 1) the kick came from m' + h∇U, so ΔK = −Δθᵀ∇Uⁿ − (h²/2)|∇Uⁿ|², which is not the difference of
    anything: its second part (returned alone, too) adds up.
    """
    push = size**2 / 2 * slope[:-1].square().sum(-1)
    return energy.diff(dim=0) - (theta.diff(dim=0) * slope[:-1]).sum(-1) - push, -push


TABLES = {
    "note_temperatures": ("note_temperatures", of_each(_temperatures)),
    "note_energy": ("note_energy", of_each(_paths)),
    "note_energy_drift": ("note_energy", of_each(_drift)),
}
