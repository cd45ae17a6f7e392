"""The certificate's exact columns: identities between numbers, each a function from a row to cells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from sgmcmc import certificate_reference as reference
from sgmcmc.certificate_rows import (
    STIFFNESS,
    Cell,
    Replay,
    Row,
    Scripted,
    Take,
    build,
    gaussian,
    letters_of,
    linear_theory,
    make_target,
    play,
    take,
    ways,
)
from sgmcmc.chain import Chain
from sgmcmc.errors import SettingError
from sgmcmc.plan import Plan
from sgmcmc.random import Random
from sgmcmc.samplers import SAMPLERS
from sgmcmc.trajectory import run_trajectory

EXACT = 1e-12  # what identities between numbers are held to, in float64
CYCLES = 6  # of the loop; beyond a stair


def realizable(row: Row) -> Iterator[Cell]:
    """Forward, negate m, backward with the way back's noises and batches: the distance from the start, Σ ΔK left.

    The way back of an O from m to m' = c m + s ε takes ε̃ = c ε − √(1 − c²) M^{−½} m/√T. For the letter E the
    figure is the distance of the nearest state that any noise reaches.
    """
    for name in row.targets:
        if "E" in row.letters:
            yield Cell("back", name, "nearest that any noise reaches", _unreachable(row, name), EXACT)
            continue
        distance = left = 0.0
        for way in ways(row):
            forth = take(row, name, way)
            back, record = play(*_way_back(forth))
            distance = max(distance, _largest(back.theta.numpy() - forth.theta))
            distance = max(distance, _largest(back.momentum.numpy() + forth.path.begun))
            left = max(left, _largest((record.delta_kinetic + forth.record.delta_kinetic).numpy()))
        yield Cell("back", name, "distance from the start", distance, EXACT)
        yield Cell("back", name, "sum of dK left", left, EXACT)


def _way_back(forth: Take):
    """What ``play`` needs to run the trajectory back: kernel, target, θ_L, momentum, noises."""
    row, kernel, mass = forth.row, forth.kernel, forth.mass
    momentum = -forth.end.momentum.numpy()
    scale = np.sqrt(row.temperature * mass)
    noise = np.zeros_like(forth.noise)
    first = 1 + reference.headed(row.letters)
    backward = [
        c * forth.noise[number] - math.sqrt(1 - c**2) * before / scale
        for number, (c, before, _) in enumerate(forth.path.refreshes, first)
    ][::-1]
    kept = forth.letters[0][1] if first == 2 else row.kept
    if kept < 1:  # the last refresh before the first kick, of no momentum, makes the momentum of the way back
        noise[first - 1] = momentum / scale / math.sqrt(1 - kept**2)
        momentum = np.zeros_like(momentum)
    if backward:
        noise[first : first + len(backward)] = backward
    random = Scripted(7)
    random.noise, random.decision, random.direction = torch.tensor(noise), 0.0, 1 - forth.way
    kernel = replace(kernel, batches=Replay(forth.batches[::-1])) if forth.batches else kernel
    return kernel, forth.target, forth.end.theta.numpy(), momentum, random


def _unreachable(row: Row, name: str) -> float:
    """One step from (θ_1, −m_1) with any noise: the least distance from (θ_0, −m_0), the smallest over chains.

    The step is affine in its one noise, so the unit noises' images span all that it reaches.
    """
    forth = take(replace(row, steps=1), name, 1.0)
    dim, images, momentum = forth.target.dim, [], -forth.end.momentum.numpy()
    for unit in [np.zeros(dim), *np.eye(dim)]:
        noise = np.zeros_like(forth.noise)
        noise[1] = unit
        if row.refresh == "full":
            noise[0] = momentum / np.sqrt(row.temperature * forth.mass)
        random = Scripted(7)
        random.noise = torch.tensor(noise)
        back, _ = play(forth.kernel, forth.target, forth.end.theta.numpy(), momentum, random)
        images.append(np.concatenate([back.theta.numpy(), back.momentum.numpy()], 1))
    aim = np.concatenate([forth.theta, -forth.path.begun], 1)
    nearest = []
    for chain in range(len(aim)):
        columns = np.stack([image[chain] - images[0][chain] for image in images[1:]], 1)
        distance = np.linalg.lstsq(columns, aim[chain] - images[0][chain], rcond=None)[1]
        nearest.append(math.sqrt(distance[0]))
    return min(nearest)


def density_ratio(row: Row) -> Iterator[Cell]:
    """log MH against log π(z_L)/π(z_0) plus the log ratio of the densities of the O's moves, a step, in NumPy.

    A program that is not its own mirror image never makes the path back, unless its direction is drawn: the
    ratio is −∞. That it must say so is what the letter E is held to.
    """
    for name in row.targets:
        error = 0.0
        for way in ways(row):
            forth = take(row, name, way)
            log_mh = forth.record.log_accept.numpy()
            path, mass = forth.path, forth.mass
            begun = reference.hamiltonian(forth.ours, forth.theta, path.begun, mass)
            end = reference.hamiltonian(forth.ours, path.theta, path.momentum, mass)
            ratio = (begun - end) / row.temperature + reference.log_density_ratio(path, mass, row.temperature)
            both_ways = row.schedule.direction == "random" and "E" not in row.letters
            if not both_ways and ("E" in row.letters or not reference.reads_backwards(forth.letters, row.letters)):
                ratio = np.full_like(ratio, -np.inf)
            same = log_mh == ratio  # −∞ on both sides
            difference = np.where(same, 0.0, log_mh) - np.where(same, 0.0, ratio)
            error = max(error, _largest(difference) / forth.kernel.steps)
        yield Cell("ratio", name, "log MH - log density ratio, a step", error, EXACT)


def path(row: Row) -> Iterator[Cell]:
    """The end, Σ ΔK, ΔU and the state after a rejection against the same trajectory in NumPy."""
    for name in row.targets:
        error = 0.0
        for way in ways(row):
            forth = take(row, name, way)
            ends = forth.path
            delta = forth.ours.energy(ends.theta) - forth.ours.energy(forth.theta)
            pairs = [(forth.end.theta, ends.theta), (forth.end.momentum, ends.momentum)]
            pairs += [(forth.record.delta_potential, delta)]
            if "E" not in row.letters:
                pairs += [(forth.rejected.theta, forth.theta), (forth.rejected.momentum, -ends.begun)]
                pairs += [(forth.record.delta_kinetic, ends.kinetic)]
            error = max(error, *(_largest(ran.numpy() - followed) for ran, followed in pairs))
        yield Cell("path", name, "trajectory - the same in NumPy", error, EXACT)


def loop(row: Row) -> Iterator[Cell]:
    """What the (eager) loop of real runs makes of its trajectories: θ, m and the persistent uniform after each of six
    cycles against the same trajectories one after another. And a trajectory with infinite and NaN noises: such an end
    is never kept."""
    for name in row.targets:
        target, ours = make_target(name, row)
        kernel = build(row, target, row.step_size(name))
        theta = torch.tensor(ours.draw(64, row.temperature, np.random.default_rng(5)))
        chain = Chain(kernel, target, Plan(cycles=CYCLES), Random(7), len(theta), lambda theta=theta: theta)
        chain.begin()
        (state,), error = chain.states, 0.0
        for index in range(CYCLES):
            chain.advance()
            state, _ = run_trajectory(kernel, target, state, Random(7), index, range(len(theta)))
            for part in ("theta", "momentum", "sign", "log_abs"):
                error = max(error, _largest((getattr(chain.states[0], part) - getattr(state, part)).numpy()))
        yield Cell("path", name, "cycles - trajectories one after another", error, EXACT)
        random = Scripted(7)
        random.decision = 0.0
        random.noise = torch.full((1 + len(letters_of(row, 1.0, kernel.steps)), *theta.shape), math.inf)
        random.noise[:, ::2] = math.nan
        end, record = play(kernel, target, theta.numpy(), random.noise[0].numpy(), random)
        kept = record.accepted | (end.theta != theta).any(1)
        yield Cell("path", name, "ends kept that are not finite", float(kept.double().mean()), 0.0)


def _largest(values: np.ndarray) -> float:
    """The largest absolute value; NaN counts as infinite."""
    return float(np.nan_to_num(np.abs(values), nan=np.inf, posinf=np.inf).max())


def linear(row: Row) -> Iterator[Cell]:
    """The affine map and noise covariance of a trajectory on a Gaussian against products of matrices, and its
    stationary covariance against the discrete Lyapunov equation and, for one step, the closed forms."""
    maps, theory, error = [], [], 0.0
    for way in ways(row):
        ran, expected = _measured_map(row, way), linear_theory(row, way)
        maps.append(ran)
        theory.append(expected)
        error = max(error, *(_largest(a - b) for a, b in zip(ran, expected, strict=True)))
    yield Cell("lin", "gaussian", "map and noise covariance", error, EXACT)
    covariance = reference.stationary(maps)
    if covariance is None:
        return
    error = _largest(covariance - reference.stationary(theory))
    tolerance = EXACT * reference.condition(theory)
    yield Cell("lin", "gaussian", "stationary covariance", error, tolerance)
    if row.refresh == "keep" and row.schedule.name == "constant":
        one = replace(row, steps=1, settings=row.settings | {"gradient": "full"}, order=())
        covariance = np.diag(reference.stationary([_measured_map(one, 1.0)])).reshape(2, -1)
        h = row.step_size("gaussian")
        decay = reference.friction(*row.friction, h, "E" in row.letters)
        rescaled, mass = SAMPLERS[row.sampler].rescaled, row.mass(2)
        closed = reference.closed_form(row.letters, h, decay, rescaled, STIFFNESS, mass, row.temperature)
        if closed is not None:
            yield Cell("lin", "gaussian", "closed form", _largest(covariance - closed), tolerance)


def _measured_map(row: Row, way: float):
    """(F, Q) of a trajectory of the sampler on the Gaussian: its images of unit vectors and unit noises."""
    kernel, target = gaussian(row)
    dim, draws = 2, 1 + len(letters_of(row, 1.0, kernel.steps))
    points = kernel.points if kernel.batches else 0
    size = 1 + dim * (2 + draws + points)  # chain 0 is the image of nothing, then one unit a chain
    units = np.eye(size)[:, 1:]
    z = units[:, : 2 * dim]
    noise = units[:, 2 * dim : 2 * dim + dim * draws].reshape(size, draws, dim).swapaxes(0, 1)
    batches = units[:, 2 * dim + dim * draws :].reshape(size, points, dim).swapaxes(0, 1)
    random = Scripted(7)
    random.noise, random.direction = torch.tensor(noise), way
    if kernel.batches:
        kernel = replace(kernel, batches=Replay(list(torch.tensor(target.noise * batches))))
    end, _ = play(kernel, target, z[:, :dim], z[:, dim:], random)
    images = np.concatenate([end.theta.numpy(), end.momentum.numpy()], 1)
    columns = (images[1:] - images[0]).T
    G = columns[:, 2 * dim :]
    return columns[:, : 2 * dim], G @ G.T


def refused(row: Row) -> Iterator[Cell]:
    """Whether the program refuses to correct what is not exact."""
    if row.order or not (row.naive or "E" in row.letters):
        return
    target, _ = make_target("quartic", row)
    try:
        build(replace(row, naive=False), target, 0.1, acceptance="metropolis")
        figure = 1.0
    except SettingError:
        figure = 0.0
    yield Cell("refused", "", "metropolis is not refused", figure, 0.0)


COLUMNS = (realizable, density_ratio, path, loop, linear, refused)
