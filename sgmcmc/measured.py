"""What is measured of chains beside log MH: temperatures, predictions, points of a traced trajectory, the mass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from sgmcmc.diagnostics import (
    Ensemble,
    configurational_temperature,
    kinetic_temperature,
    metrics,
    predictive_entropy,
    temperature_interval,
)
from sgmcmc.kernel import Kernel
from sgmcmc.potentials import Potential, is_network, own_method
from sgmcmc.random import Random
from sgmcmc.trajectory import State, cast

MASS_BATCHES = 32  # minibatches that the mass is estimated from (Wenzel et al. 2020)


def temperatures(kernel: Kernel, potential: Potential, states: list[State], gradients: Iterable[Tensor]) -> dict:
    """Kinetic mᵀM⁻¹m/d and configurational ⟨θ, ∇U⟩/d, means over chains that are alive; both should be T.

    Of a network ``kinetic_inside``, too: the fraction of its parameter tensors, over chains, whose kinetic
    temperature lies in its 99 % interval in equilibrium (Wenzel et al. 2020). ``gradients`` of each of the states are
    ``diagnostic_gradient``'s.
    """
    kinetic, configurational, inside = [], [], []
    blocks = [where for _, where in getattr(potential, "blocks", [])] if is_network(potential) else []
    sizes = [where.stop - where.start for where in blocks]
    low, high = (ends.tolist() for ends in temperature_interval(sizes, kernel.temperature))
    moves = _moving(potential)
    # ⟨θ, ∇U⟩ has no expectation in coordinates with a flat prior.
    proper, std = moves, getattr(potential, "std", None)
    if std is not None:
        proper = torch.arange(len(std), device=std.device)[moves][std[moves].isfinite()]
    for state, gradient in zip(states, gradients, strict=True):
        inverse_mass = cast(kernel.inverse_mass, state.theta)
        kinetic.append(kinetic_temperature(state.momentum[:, moves], _part(inverse_mass, moves))[state.alive])
        for number, where in enumerate(blocks):
            here = kinetic_temperature(state.momentum[:, where], _part(inverse_mass, where))[state.alive]
            inside.append((low[number] <= here) & (here <= high[number]))
        theta, gradient = state.theta[:, proper], gradient[:, proper]
        configurational.append(configurational_temperature(theta, gradient)[state.alive])
    return {
        "kinetic_temperature": float(torch.cat(kinetic).mean()),
        "configurational_temperature": float(torch.cat(configurational).mean()),
        **({"kinetic_inside": float(torch.cat(inside).double().mean())} if inside else {}),
    }


def _moving(potential: Potential) -> slice | Tensor:
    """An index of the coordinates that move; numbers, for a mask would wait for the device at each use."""
    moves = getattr(potential, "moves", None)
    return slice(None) if moves is None else torch.nonzero(moves).flatten()


def _part(inverse_mass: Tensor | float, index: slice | Tensor) -> Tensor | float:
    return inverse_mass[index] if isinstance(inverse_mass, Tensor) else inverse_mass


def diagnostic_gradient(
    kernel: Kernel, potential: Potential, state: State, random: Random, cycle: int, group: range
) -> Tensor:
    """The full gradient; for networks that do not have it, the mean of a twentieth as many minibatches as a cycle
    has, from 1 to 32."""
    if state.gradient is not None:
        return state.gradient
    if not is_network(potential) or kernel.batches is None:
        return potential.gradient(state.theta.detach()).detach()
    number = min(max(kernel.points // 20, 1), MASS_BATCHES)
    batches = kernel.batches.independent(number).draw(random, 2**61 + cycle, random.indices(group))
    return sum(potential.gradient(state.theta.detach(), batches(point)).detach() for point in range(number)) / number


def estimated_mass(
    kernel: Kernel,
    potential: Potential,
    theta: Tensor,
    alive: Tensor,
    random: Random,
    cycle: int,
    groups: Sequence[range],
) -> Tensor:
    """M ∝ √(mean g² + 1e-7), a number a parameter tensor, the smallest 1 (Wenzel et al. 2020). Float64 ``[dim]``.

    g is the gradient of U/N at ``theta`` ``[chains, dim]``, the mean that of 32 minibatches, of the chains that are
    ``alive`` (bool ``[chains]``; ``groups`` are those that go together) and of the tensor's elements. Targets without
    parameter tensors get a number a coordinate; coordinates that do not move have 1.

    Without parameter tensors and of one chain each number is a single |g|, whatever the law of g: in ten coordinates of
    one scale the largest was 6 to 2,700 times the smallest, of eight chains 1.4 to 4.4 times.
    """
    size = max(potential.data_size, 1)
    square = torch.zeros(potential.dim, dtype=torch.float64, device=theta.device)
    batches = kernel.batches

    def squares(group: range, number: int) -> Tensor:
        batch = None
        if batches is not None:
            # Trajectories from the end of the counter's range, which no chain reaches.
            far = 2**62 + cycle * MASS_BATCHES + number
            batch = batches.independent(1).draw(random, far, random.indices(group))(0)
        gradient = potential.gradient(theta[group.start : group.stop], batch).detach() / size
        gradient = gradient[alive[group.start : group.stop]]
        return gradient.double().square().sum(0) / (int(alive.sum()) * MASS_BATCHES)

    for number in range(MASS_BATCHES):
        if number < mass_gradients(kernel):
            each = [squares(group, number) for group in groups]
        for one in each:  # as often where they are all the same: their sum at once has another last bit
            square += one
    for _, block in getattr(potential, "blocks", []):
        square[block] = square[block].mean()
    mass = (square + 1e-7).sqrt().cpu()  # as the checkpoint gives it back
    moves = getattr(potential, "moves", None)
    return mass / mass.min() if moves is None else torch.where(moves.cpu(), mass / mass[moves.cpu()].min(), 1.0)


def mass_gradients(kernel: Kernel) -> int:
    """How many gradients an estimate of the mass takes: without minibatches they are the same each time."""
    return 1 if kernel.batches is None else MASS_BATCHES


def predicted(members: Tensor, targets: Tensor | None, alive: Tensor, ensemble: Ensemble, counts: bool) -> dict:
    """The quality of the current samples' probabilities ``members`` ``[chains, data, classes]`` and of the running
    ensemble's, on one data set with the labels ``targets`` ``[data]``.

    Without ``targets`` their entropy. Of the chains that are alive, or of all where none is; they join the ensemble
    where they are alive and it ``counts``.
    """
    members = members[alive] if bool(alive.any()) else members
    if counts and bool(alive.any()):
        ensemble.add(members)
    if targets is None:
        entropy, joint = predictive_entropy(members), predictive_entropy(ensemble.probabilities)
        return {"entropy": float(entropy.mean()), "ensemble_entropy": float(joint.mean())}
    empty = not int(ensemble.count)
    single, joint = metrics(members, targets), metrics(ensemble.probabilities, targets)
    columns = {key: float(single[key].mean()) for key in ("nll", "accuracy")}
    return columns | {f"ensemble_{key}": math.nan if empty else float(joint[key]) for key in joint}


def observer(
    kernel: Kernel,
    potential: Potential,
    state: State,
    group: range,
    every: int,
    cycle: int,
    step: int,
    trace: list[dict],
) -> Callable[..., None]:
    """What records ``every``-th point of a traced cycle, and the last, in ``trace``: log MH with a minibatch U in
    place of the exact one (−∞ where there is no way back), U a datum, temperature of the coordinates that move. The
    cycle's first step is the run's ``step``-th; a point inside a step, of words with more gradients, is a fraction."""
    begun = state.potential if kernel.evaluates else potential.potential(state.theta.detach()).detach().clone()
    moves, size = _moving(potential), max(potential.data_size, 1)
    inverse_mass = _part(cast(kernel.inverse_mass, state.theta), moves)
    estimate, each = own_method(potential, "estimate", "potential"), kernel.word.gradients_a_step

    def observe(point: int, theta: Tensor, m: Tensor, energy: Tensor, batch: Tensor | None) -> None:
        if point % every and point != kernel.points - 1:
            return
        exact = batch is None or estimate is None
        value = potential.potential(theta.detach()) if exact else estimate(theta.detach(), batch)
        # At T = 0 it is impossible, too.
        change = value - begun + energy
        log_mh = torch.full_like(change, -math.inf) if kernel.impossible else -change / kernel.temperature
        temperature = kinetic_temperature(m[:, moves], inverse_mass)
        # As tensors: a float would wait for the device. ``traced`` makes floats of them at the cycle's end.
        for row, chain in enumerate(group):
            trace.append(
                {
                    "cycle": cycle,
                    "chain": chain,
                    "step": step + (point / each if point % each else point // each),
                    "exact": int(exact),
                    "log_accept": log_mh[row],
                    "potential_per_datum": value[row] / size,
                    "kinetic_temperature": temperature[row],
                }
            )

    return observe
