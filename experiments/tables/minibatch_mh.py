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
from experiments.tables.common import Run, gradients_of, of_each, standard_error
from experiments.tables.findings import target_of
from experiments.tables.statistics import accepted, exact_p, jackknifed_time
from sgmcmc.trajectory import run_trajectory, start

LOOKS = 16  # draws of each chain, equally far apart, from which one more trajectory is decided


class Truth(NamedTuple):
    """Means and standard deviations of the coordinates ``[dim]``; of a reference run, how far its chains are from them
    (``away``), and None where they are exact."""

    mean: np.ndarray
    deviation: np.ndarray
    chains: np.ndarray | None = None

    @property
    def error(self) -> float:
        """That of the mean spread."""
        return 0.0 if self.chains is None else standard_error(self.chains[:, 0])


def away(draws: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The mean over draws and coordinates of z² − 1 and the means of z, z = (θ − ``mean``)/``deviation``, of each
    chain: ``[chains, 1 + dim]``, 0 without bias."""
    z = (draws - mean) / deviation
    return np.column_stack(((z**2 - 1).mean((0, 2)), z.mean(0)))


def truth_of_run(run: Run) -> Truth:
    """By the draws of a reference run."""
    draws = run.draws.double().numpy()
    mean, deviation = draws.mean((0, 1)), draws.std((0, 1))
    return Truth(mean, deviation, away(draws, mean, deviation))


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
    and D² = Σ_i (d_i − mean)²/T² over all data (see ``sgmcmc.subsampled``), ``rounded`` in whole batches,
    where the rule looks at batches. ``size`` is N.
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
    arrays = {key: np.array(values, dtype=float) for key, values in found.items()}
    if kernel.subsampled:
        batch = kernel.decision_batch
        arrays["rounded"] = np.minimum(np.ceil(arrays["needed"] / batch) * batch, size)
    return arrays | {"size": size}


def biases(run: Run, truth: Truth) -> dict[float, dict[int, np.ndarray]]:
    """``away`` of the chains of each step size that have not diverged."""
    draws = run.draws.double().numpy()
    return {
        step: dict(zip(chains, away(draws[:, chains], truth.mean, truth.deviation), strict=True))
        for step, chains, _ in run.alive_groups()
    }


def difference(some: dict[int, np.ndarray], others: dict[int, np.ndarray]) -> dict:
    """By how much the mean spread of chains is above that of other chains of the same numbers, and its error, chain by
    chain: they have the same starts, minibatches and momenta."""
    apart = [some[chain][0] - others[chain][0] for chain in some if chain in others]
    return {"away": float(np.mean(apart)) if apart else float("nan"), "away_error": standard_error(apart)}


def _target(run: Run) -> str:
    """``target_of`` a run, and its temperature where that is not 1."""
    name, temperature = target_of(run), run.config["temperature"]
    return name if temperature == 1 else f"{name}, T = {temperature:g}"


def _rule(run: Run) -> dict:
    """What tells runs apart: target, rule, ε."""
    sampler = run.config["sampler"]
    return {"target": _target(run), "acceptance": sampler["acceptance"], "epsilon": sampler["epsilon"]}


def minibatch_mh(runs: list[Run]) -> list[dict]:
    """A row a run and step size: acceptance, data a decision, efficiency a datum evaluated, bias.

    ``share`` is of all data, those that a decision looked at, ``needed`` what Barker's test needs by theory for the
    same moves, and ``rounded`` in whole batches; ``evaluations`` are a trajectory's with its gradients, ``ess``
    effective draws of the slowest coordinate a million of them. ``spread`` is the bias of the second moment about the
    true mean, in true variances, a mean over coordinates, and ``away`` by how much it is above that of Metropolis' rule
    at the same step size (``difference``); ``exact_p`` is of ``spread`` and of the coordinates' means. Errors are over
    chains (of ESS the jackknife's over groups of them, and that of the data a decision); ``truth_error`` is the
    reference's.
    """
    references = {_target(run): run for run in runs if run.config["tune"]["target"] is not None}
    truths = {target: truth_of_run(run) for target, run in references.items() if run.status == "done"}
    for run in runs:
        if run.config["model"]["name"] == "location_mixture" and _target(run) not in truths:
            truths[_target(run)] = truth_of_plane(build(run.config).potential, run.config["temperature"])

    others = [run for run in runs if run not in references.values()]
    exact = {
        _target(run): biases(run, truths[_target(run)])
        for run in others
        if run.config["sampler"]["acceptance"] == "metropolis" and run.status == "done" and _target(run) in truths
    }

    def rows(run: Run) -> Iterator[dict]:
        draws, seen, target = run.draws, looks(run), _target(run)
        config, size, truth = run.config, seen["size"], truths.get(target)
        gradients = gradients_of(config) * config["batch_size"]
        ends = 2 if config["sampler"]["decision_batch"] is not None else 1
        each = biases(run, truth) if truth else {}
        for step, chains, numbers in run.alive_groups():
            row = {"step_size": step, "size": size, **numbers}
            if not chains:
                yield row
                continue
            part = draws[:, chains]
            data = seen["data"][:, chains].mean(0)
            share, share_error = float(data.mean()) / size, standard_error(data) / size
            evaluations = gradients + share * size * ends
            tau, error = jackknifed_time(part, together=False)
            ess, its = 1e6 / (tau * evaluations), np.hypot(error / tau, share_error * size * ends / evaluations)
            row["draws_a_chain"] = len(part)
            if config["sampler"]["acceptance"] != "monitor":
                row |= accepted(part)
            row |= {"share": share, "share_error": share_error}
            row |= {
                name: float(np.nanmean(seen[name][:, chains])) / size for name in ("needed", "rounded") if name in seen
            }
            row |= {"gradients": gradients, "evaluations": evaluations}
            row |= {"tau": tau, "tau_error": error, "ess": ess, "ess_error": ess * float(its)}
            if truth:
                mine = np.array(list(each[step].values()))
                row |= {"spread": float(mine[:, 0].mean()), "spread_error": standard_error(mine[:, 0])}
                row |= {"truth_error": truth.error, "exact_p": exact_p(mine, truth.chains)}
                row |= difference(each[step], exact.get(target, {}).get(step, {}))
            yield row

    return of_each(rows, _rule)(others)


TABLES = {"finding_minibatch_mh": ("finding_minibatch_mh", minibatch_mh)}
