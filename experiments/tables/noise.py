"""How long what a minibatch's error does is remembered: what shuffled epochs can take back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from experiments.build import Pieces, build
from experiments.tables.common import Run, data_size, of_each, standard_error
from sgmcmc.random import Random
from sgmcmc.trajectory import State, run_trajectory, start

LAGS = (1, 2, 5, *range(10, 401, 10))  # steps of an epoch of 400; of another epoch in proportion
BATCHES = 4  # minibatches whose errors are followed
RATES = {"resnet20": (1e-4, 1e-3, 1e-2), "logistic": (2.5e-4, 1e-3, 4e-3, 1.6e-2, 6.4e-2)}
EPOCHS = 4  # of the trajectories whose log MH is measured


BATCH = 10  # of regressions, whose runs go by full gradients


def _steps(run: Run) -> tuple[int, int]:
    """Data a minibatch, and steps an epoch."""
    batch = run.config["batch_size"] or BATCH
    return batch, data_size(run.config) // batch


def _pieces(run: Run, rate: float, law: str, steps: int, ends: str) -> Pieces:
    """The run's, with this learning rate, law of minibatches, and trajectories of so many steps; not corrected."""
    sampler = run.config["sampler"] | {"gradient": "minibatch", "ends": ends, "minibatches": law}
    step = {"lr": rate, "step_size": None, "batch_size": _steps(run)[0], "steps_per_cycle": steps}
    return build(run.config | step | {"sampler": sampler | {"acceptance": "monitor"}})


def _settings(run: Run, rate: float) -> dict:
    """What tells the rows of a rate apart, and what a prediction needs."""
    size, (batch, epoch) = data_size(run.config), _steps(run)
    row = {"target": run.config["model"]["name"], "lr": rate, "step_size": (rate / size) ** 0.5}
    row |= {"friction": run.config["friction"], "data": size, "batch_size": batch, "epoch": epoch}
    return row | {"chains": run.config["chains"]}


def _remembered(run: Run) -> Iterator[dict]:
    """Rows of each learning rate, a row a lag, along trajectories of a shuffled epoch from the run's last draw.

    Of minibatches' errors of the gradient of U, ξ_b(θ) = ∇Ũ_b(θ) − mean over b, of all coordinates together:
    ``variance`` is E|ξ|²; ``correlation`` that of ξ_b(θ_0) and ξ_b(θ_k). ``carried`` is Σ_b ξ_b(θ_k)·δθ_k over
    −h² Σ_b |ξ_b(θ_0)|², δθ_k the displacement at step k, under the same random numbers, by a kick −h ξ_b(θ_0) at step
    0: k, were nothing forgotten. It grows with each step by what the kick changes of the work h ξ_b(θ)·m there, be it
    through the momentum or through the error, over h² Σ_b |ξ_b(θ_0)|².
    """
    for rate in RATES[run.config["model"]["name"]]:
        yield from _at(rate, run)


def _at(rate: float, run: Run) -> Iterator[dict]:
    (_, epoch), chains = _steps(run), range(run.config["chains"])
    pieces = _pieces(run, rate, "shuffled", epoch, "minibatch")
    kernel, potential, random = pieces.kernel, pieces.potential, pieces.random
    kernel = replace(kernel, measured=False, impossible="U is not asked for")
    lags = sorted({0, *(max(1, round(lag * epoch / LAGS[-1])) for lag in LAGS)})
    others = Random(run.config["seed"] + 1, random.device)  # not the minibatches that the trajectory goes by
    batches = kernel.batches.independent(BATCHES).draw(others, 0, torch.arange(len(chains), device=random.device))

    def errors_at(theta: Tensor) -> Tensor:
        """``[minibatches, chains, dim]``, float64."""
        each = torch.stack([potential.gradient(theta, batches(number)) for number in range(BATCHES)]).double()
        return each - each.mean(0)

    def path(begun: State) -> dict[int, Tensor]:
        """θ at the lags."""
        places = {}

        def observe(point, theta, *_):
            if point in lags:
                places[point] = theta

        run_trajectory(kernel, potential, begun, random, 0, chains, observe)
        return places

    begun = start(kernel, potential, run.draws[-1].to(random.device), random, chains)
    places, first, h = path(begun), errors_at(begun.theta), float(kernel.step_size)
    kicked = [path(replace(begun, momentum=begun.momentum - h * error.to(begun.momentum))) for error in first]
    for lag in lags:
        errors = errors_at(places[lag])
        moved = torch.stack([one[lag].double() - places[lag].double() for one in kicked])
        row = {**_settings(run, rate), "lag": lag}
        norm, now, same, done = (
            (one * other).sum((1, 2)).cpu().numpy()
            for one, other in ((first, first), (errors, errors), (first, errors), (moved, errors))
        )
        row |= _over("correlation", same, (norm * now) ** 0.5) | _over("carried", done, -h * h * norm)
        row |= _over("variance", now * BATCHES / (BATCHES - 1) / len(chains), np.ones(BATCHES))
        yield row


def _cost(run: Run) -> Iterator[dict]:
    """Of regressions, whose chains are many, −log MH of a trajectory of epochs between exact ends, from the run's last
    draw: its mean over chains.

    ``work`` is the mean of what the minibatches' errors do by themselves along these trajectories, Σ h² |ξ|² (1 + a)/4:
    ½ h² |ξ|² of a kick, but that the momentum decays by a = e^{−γh} between its halves; ``beyond`` is the cost less it.
    """
    model, theta, (_, epoch) = run.config["model"]["name"], run.draws[-1], _steps(run)
    for rate, law in product(RATES[model] if model == "logistic" else (), ("independent", "shuffled")):
        pieces = _pieces(run, rate, law, EPOCHS * epoch + 1, "exact")
        chains = range(len(theta))
        begun = start(pieces.kernel, pieces.potential, theta.to(pieces.random.device), pieces.random, chains)
        squares, slope = torch.zeros_like(begun.potential), pieces.potential.gradient

        def observe(point, theta, momentum, energy, batch, squares=squares, slope=slope):
            if batch is not None:
                squares += (slope(theta, batch) - slope(theta)).double().square().sum(-1)

        _, record = run_trajectory(pieces.kernel, pieces.potential, begun, pieces.random, 0, chains, observe)
        row = {**_settings(run, rate), "minibatches": law, "epochs": EPOCHS}
        h = row["step_size"]
        work = h * h * (1 + np.exp(-row["friction"] * h)) / 4 * squares.cpu().numpy()
        cost = -record.log_accept.cpu().numpy()
        row |= {"cost": float(cost.mean()), "cost_error": standard_error(cost), "work": float(work.mean())}
        yield row | {"beyond": float((cost - work).mean()), "beyond_error": standard_error(cost - work)}


def _over(name: str, above: np.ndarray, below: np.ndarray) -> dict:
    """A ratio of sums over minibatches, and its standard error from theirs."""
    ratio = above.sum() / below.sum()
    error = standard_error((above - ratio * below) / below.mean())
    return {name: float(ratio), f"{name}_error": error}


TABLES = {
    "finding_noise": ("finding_noise", of_each(_remembered)),
    "finding_noise_cost": ("finding_noise", of_each(_cost)),
}
