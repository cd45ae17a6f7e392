"""Decisions on a part of the data against exact ones: their bias, what they look at, and what a draw costs.

A datum is evaluated once where its likelihood or its gradient is: L minibatches a trajectory, and N for an exact
decision, which has U(θ_0) from before, or 2n for one on n data, which has not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from experiments.build import build
from experiments.tables.amagold import accepted, errors_of, groups, mse_of_mean
from experiments.tables.common import Run, of_each, standard_error
from experiments.tables.findings import gradients_of, jackknifed_time
from sgmcmc.trajectory import run_trajectory, start

LOOKS = 4  # draws of each chain, equally far apart, from which one more trajectory is decided


class Truth(NamedTuple):
    """Means and standard deviations of the coordinates ``[dim]``, the error of ``spread`` that is theirs, and the mean
    squared error of the means, in true variances."""

    mean: np.ndarray
    deviation: np.ndarray
    error: float = 0.0
    mean_mse: float = 0.0


def spread(draws: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The mean of ((θ − ``mean``)/``deviation``)² − 1 over draws and coordinates, of each chain; 0 without bias."""
    return (((draws - mean) / deviation) ** 2 - 1).mean((0, 2))


def truth_of_run(run: Run) -> Truth:
    """By the draws of a reference run."""
    draws = run.draws.double().numpy()
    mean, deviation = draws.mean((0, 1)), draws.std((0, 1))
    return Truth(
        mean, deviation, standard_error(spread(draws, mean, deviation)), mse_of_mean(draws.mean(0) / deviation)
    )


def truth_of_plane(target, temperature: float = 1.0) -> Truth:
    """By the trapezoidal rule on [−5, 5]², exact but for rounding: the density is smooth, and negligible beyond."""
    axis = torch.linspace(-5, 5, 501, dtype=torch.float64)
    points = torch.cartesian_prod(axis, axis)
    energy = torch.cat([target.potential(part) for part in points.split(1 << 14)]) / temperature
    weight = (energy.min() - energy).exp()[:, None] / (energy.min() - energy).exp().sum()
    mean = (weight * points).sum(0)
    return Truth(mean.numpy(), (weight * (points - mean) ** 2).sum(0).sqrt().numpy())


def looks(run: Run) -> dict[str, np.ndarray]:
    """One more trajectory from some of each chain's draws, and its decision: arrays ``[looks, chains]``.

    ``data`` are those that the decision looked at, ``needed`` those that Barker's test would, N D²/(σ² + D²) with σ = 1
    and D² = Σ_i (d_i − mean)²/T² over all data (see ``sgmcmc.part``). ``size`` is N.
    """
    pieces, draws = build(run.config), run.draws
    kernel, potential, random = pieces.kernel, pieces.potential, pieces.random
    size, chains = potential.data_size, torch.arange(pieces.chains)
    everything = torch.arange(size).expand(1, -1)
    found: dict[str, list] = {"data": [], "needed": []}
    for number, place in enumerate(np.linspace(0, len(draws) - 1, LOOKS).astype(int)):
        theta = draws[place].contiguous()
        state = start(kernel, potential, theta, random, chains)
        # Trajectories that no chain of the run reaches.
        _, record = run_trajectory(kernel, potential, state, random, 2**40 + number, chains)
        needed = []
        for one in range(len(theta)):
            ends = record.proposal[one : one + 1], theta[one : one + 1]
            after, before = (potential.losses(end, everything) for end in ends)
            square = float((after - before).var(correction=0)) * size / kernel.temperature**2
            needed.append(size * square / (1 + square) if np.isfinite(square) else np.nan)
        found["data"].append(record.data.numpy() if kernel.acceptance != "monitor" else np.zeros(len(theta)))
        found["needed"].append(needed)
    return {key: np.array(values, dtype=float) for key, values in found.items()} | {"size": size}


def _target(run: Run) -> str:
    config = run.config
    name = config["data"]["name"] if config["model"]["name"] == "logistic" else config["model"]["name"]
    return name if config["temperature"] == 1 else f"{name}, T = {config['temperature']:g}"


def _rule(run: Run) -> dict:
    """What tells runs apart: target, rule, ε."""
    sampler = run.config["sampler"]
    return {"target": _target(run), "acceptance": sampler["acceptance"], "epsilon": sampler["epsilon"]}


def minibatch_mh(runs: list[Run]) -> list[dict]:
    """A row a run and step size: acceptance, data a decision, efficiency a datum evaluated, bias.

    ``share`` is of all data, those that a decision looked at, ``needed`` what Barker's test needs by theory for the
    same moves; ``evaluations`` are a trajectory's with its gradients, ``ess`` effective draws of the slowest coordinate
    a million of them. ``spread`` is the bias of the second moment about the true mean, in true variances, a mean over
    coordinates; ``mean_bias2`` the squared bias of the mean that all chains share, in true variances. Errors are over
    chains (of ESS the jackknife's over groups of them); ``truth_error`` is the reference's.
    """
    references = {_target(run): run for run in runs if run.config["tune"]["target"] is not None}
    truths = {target: truth_of_run(run) for target, run in references.items() if run.status == "done"}
    for run in runs:
        if run.config["model"]["name"] == "location_mixture" and _target(run) not in truths:
            truths[_target(run)] = truth_of_plane(build(run.config).potential, run.config["temperature"])

    def rows(run: Run) -> Iterator[dict]:
        draws, seen = run.draws, looks(run)
        config, size, truth = run.config, seen["size"], truths.get(_target(run))
        gradients = gradients_of(run) * config["batch_size"]
        partial = config["sampler"]["decision_batch"] is not None
        for step, chains, numbers in groups(run):
            row = {"step_size": step, "size": size, **numbers}
            if not chains:
                yield row
                continue
            part = draws[:, chains]
            data = seen["data"][:, chains].mean(0)
            evaluations = gradients + float(data.mean()) * (2 if partial else 1)
            tau, error = jackknifed_time(part, together=False)
            ess = 1e6 / (tau * evaluations)
            row["draws_a_chain"] = len(part)
            if config["sampler"]["acceptance"] != "monitor":
                row |= accepted(part)
            row |= {"share": float(data.mean()) / size, "share_error": standard_error(data) / size}
            row |= {"needed": float(np.nanmean(seen["needed"][:, chains])) / size}
            row |= {"gradients": gradients, "evaluations": evaluations}
            row |= {"tau": tau, "tau_error": error, "ess": ess, "ess_error": ess * error / tau}
            if truth is not None:
                values = part.double().numpy()
                each = spread(values, truth.mean, truth.deviation)
                bias = errors_of(values.mean(0) / truth.deviation, truth.mean / truth.deviation, truth.mean_mse)
                row |= {"spread": float(each.mean()), "spread_error": standard_error(each), "truth_error": truth.error}
                row |= {"mean_bias2": bias.get("bias2"), "mean_bias2_error": bias.get("bias2_error")}
            yield row

    return of_each(rows, _rule)([run for run in runs if run not in references.values()])


TABLES = {"finding_minibatch_mh": ("finding_minibatch_mh", minibatch_mh)}
