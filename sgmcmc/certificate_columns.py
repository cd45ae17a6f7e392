"""The columns of the certificate: each a function from a row (a sampler with its settings) to cells.

Everything here is measured on the path that real runs take: ``trajectory.run_trajectory`` and ``chain.Chain``, with
``random.Random`` or a stand-in that plays given noises. What it is held against is in ``certificate_reference``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import torch
from scipy.stats import chi2, norm
from torch import Tensor

from sgmcmc import certificate_reference as reference
from sgmcmc.chain import Chain
from sgmcmc.data import Dataset
from sgmcmc.errors import SettingError
from sgmcmc.kernel import Friction, Kernel, make_kernel
from sgmcmc.plan import Plan
from sgmcmc.potentials.analytic import Gaussian, Quartic
from sgmcmc.potentials.regression import LogisticRegression
from sgmcmc.random import Random
from sgmcmc.samplers import SAMPLERS
from sgmcmc.schedules import Schedule
from sgmcmc.trajectory import Record, State, run_trajectory, start

EXACT = 1e-12  # what identities between numbers are held to, in float64
SLOPE, SLOPE_CHAINS = 0.15, 4000  # what the powers of h are held to, and how many chains they are fitted to
DECISIONS = 20  # before invariance is looked at
CYCLES = 6  # of the loop; beyond a stair
INDEX = 7  # the trajectory that the identities are about: on a lower stair, before another, in half a permutation
FAILURE_CHAINS = 400_000
GRADIENT_NOISE = 0.5  # standard deviation, on the quartic
MASS = (2.5, 0.7)
STIFFNESS = np.array([1.0, 2.3])  # of the Gaussian of linear theory

ENERGY, NOTHING_MOVES = "E[MH] = 1 holds for every word of A, B and O", "nothing is ever accepted"


@dataclass(frozen=True)
class Row:
    """A sampler with its settings, and what theory says of it.

    ``friction`` is (kind, value): the momentum decay of a step, AMAGOLD's b, or infinite. ``naive`` applies the
    acceptance formula although the program refuses to. ``order`` lists runs of batches, each a fresh
    permutation's beginning, a law that the program does not offer; ``coin`` reads it backwards with probability ½.
    ``fails`` maps columns that must fail to the reason, ``free`` lists columns that theory says nothing about.
    """

    sampler: str
    variant: str = ""
    settings: dict = field(default_factory=dict)
    word: str | None = None
    steps: int = 4
    friction: tuple[str, float] = ("decay", 0.95)
    naive: bool = False
    order: tuple[int, ...] = ()
    coin: bool = False
    fails: dict = field(default_factory=dict)
    free: tuple[str, ...] = ()
    compiled: bool = False  # (iv) by compiled graphs
    slopes: bool = False  # whether the energy errors' powers of h are measured: they do not depend on the policies

    @property
    def label(self) -> str:
        """A word of one's own stands for itself."""
        own = bool(self.word) and self.variant.startswith(self.word)
        return self.variant if own else f"{self.sampler} {self.variant}".strip()

    @property
    def letters(self) -> str:
        return self.word or SAMPLERS[self.sampler].word

    @property
    def temperature(self) -> float:
        return self.settings.get("temperature", 1.0)

    @property
    def gradient(self) -> str:
        given = self.settings.get("gradient") or SAMPLERS[self.sampler].gradient
        return "full" if given == "either" else given

    @property
    def refresh(self) -> str:
        return self.settings.get("refresh") or SAMPLERS[self.sampler].refresh

    @property
    def kept(self) -> float:
        """The part of the momentum that the refresh between trajectories leaves."""
        return {"keep": 1.0, "full": 0.0, "partial": self.settings.get("alpha", 0.9)}[self.refresh]

    @property
    def acceptance(self) -> str:
        return "metropolis" if self.naive else self.settings.get("acceptance") or SAMPLERS[self.sampler].acceptance

    @property
    def schedule(self) -> Schedule:
        return self.settings.get("schedule") or Schedule()

    @property
    def targets(self) -> tuple[str, ...]:
        data = bool(self.order) or bool({"minibatches", "ends", "decision_batch"} & set(self.settings))
        return ("four data",) if data else ("quartic", "four data")

    def mass(self, dim: int) -> np.ndarray:
        return np.array(MASS[:dim] if self.settings.get("mass") else (1.0,) * dim)

    def step_size(self, target: str) -> float:
        """One at which some trajectories are rejected, so that identities see much; 0.5 on the Gaussian."""
        sizes = {
            "quartic": {"minibatch": 0.3, "full": 0.5, "none": 1.0},
            "four data": {"minibatch": 0.09, "full": 0.35, "none": 0.5},
        }
        if target == "gaussian":
            return 0.5
        if self.order or "minibatches" in self.settings:
            return 0.25  # to see the order
        return sizes[target][self.gradient] * (self.temperature if self.gradient == "minibatch" else 1.0)

    @property
    def small_step(self) -> float:
        """On the four data, a step at which MH has light tails: E[MH] is hard to see where it has not."""
        return {"minibatch": 0.03, "full": 0.2, "none": 0.15}[self.gradient] * self.temperature


@dataclass
class Cell:
    """One figure of a row: its column, what it is held to, and the verdict.

    Exact cells hold where ``figure`` ≤ ``tolerance``. Statistical ones (``tests`` > 0) hold where |z| is below
    the threshold of the whole certificate; they show the worst of their ``tests``, in standard deviations
    of its function, and ``smallest_bias`` is set with the threshold.
    """

    column: str
    target: str
    statistic: str
    figure: float
    tolerance: float | None = None
    standard_error: float | None = None
    z: float | None = None
    tests: int = 0
    dtype: str = "float64"
    smallest_bias: float | None = None
    row: str = ""
    expected: str = "holds"
    reason: str = ""
    holds: bool = True
    verdict: str = ""


# -- the sampler as it runs --------------------------------------------------------------------------------------


class Scripted(Random):
    """The one source of random numbers, with noises, decisions or directions put in.

    ``noise`` is ``[draws, chains, dim]``: the refresh of the momentum, then the O's and E's in the order of use.
    ``decision`` 0 accepts and infinity rejects everything; ``direction`` 0 is backwards, 1 forwards.
    """

    noise: Tensor | None = None
    decision: float | None = None
    direction: float | None = None

    def normal(self, stream, trajectory, steps, chains, dim, dtype=torch.float32):
        if stream != "noise" or self.noise is None:
            return super().normal(stream, trajectory, steps, chains, dim, dtype)
        steps = range(steps) if isinstance(steps, int) else steps
        return self.noise[steps.start : steps.stop][:, self._chains(chains)].to(dtype)

    def uniform(self, stream, trajectory, chains, size=1, step=0):
        numbers = super().uniform(stream, trajectory, chains, size, step)
        value = {"decision": self.decision, "direction": self.direction}.get(stream)
        if value is not None and step == 0:  # step 1 of the directions is the batches' coin
            numbers[:, 0] = value
        return numbers


class Replay:
    """Given batches instead of a law: ``batches[point]`` is ``[chains, …]``."""

    def __init__(self, batches: list[Tensor]):
        self.batches = batches

    def draw(self, random, trajectory, chains):
        return lambda point: self.batches[point][chains]


class Runs:
    """Batches of one of four data in runs without repetition, each a fresh permutation's beginning; not offered.

    (1, 4) is an epoch with an extra batch always first, (4, 1) always last, (3, 2) a trajectory that straddles
    an epoch's end. With ``coin`` the whole is read backwards with probability ½.
    """

    def __init__(self, runs: tuple[int, ...], coin: bool):
        self.runs, self.coin = runs, coin

    def draw(self, random, trajectory, chains):
        parts = [
            random.permutation("minibatch", trajectory, chains, 4, step=step)[:, :run]
            for step, run in enumerate(self.runs)
        ]
        order = torch.cat(parts, 1)
        if self.coin:
            backwards = random.uniform("direction", trajectory, chains, step=1) < 0.5
            order = torch.where(backwards, order.flip(1), order)
        return lambda point: order[:, point : point + 1]


@dataclass(frozen=True)
class Seed:
    """Of the positions, which the rows share, and of everything else in one row."""

    positions: int
    row: int

    @property
    def number(self) -> int:
        return 1_000_000 * self.positions + self.row


REFERENCES = {"quartic": reference.Quartic(), "four data": reference.FourData()}


@cache
def draws(name: str, temperature: float, chains: int, seed: int) -> np.ndarray:
    """Exact draws, shared by the rows."""
    return REFERENCES[name].draw(chains, temperature, np.random.default_rng(seed))


@cache
def moments_of(name: str, temperature: float) -> np.ndarray:
    return REFERENCES[name].moments(temperature)


def make_target(name: str, row: Row):
    """The sampler's own target, and its evaluation in NumPy."""
    noise = GRADIENT_NOISE if row.gradient == "minibatch" else 0.0
    ours = REFERENCES[name]
    if name == "quartic":
        return Quartic(1, noise), ours
    data = Dataset(torch.tensor(ours.x)[:, None], torch.tensor(ours.y), 2)
    return LogisticRegression(data, prior_variance=ours.variance, standardise=False), ours


def build(row: Row, target, h: float, dtype=torch.float64, **changes) -> Kernel:
    """The row's kernel on ``target``; ``changes`` are settings instead of the row's."""
    kind, value = row.friction
    euler = "E" in row.letters
    if kind == "infinite":
        friction = Friction("gamma", math.inf)
    else:
        friction = Friction.of(h, euler, **{{"decay": "momentum_decay"}.get(kind, kind): value})
    settings = row.settings | ({"acceptance": "monitor"} if row.naive else {}) | changes
    if settings.pop("mass", False):
        settings["mass"] = torch.tensor(row.mass(target.dim))
    settings.setdefault("batch_size", 1)
    steps = settings.pop("steps", SAMPLERS[row.sampler].steps or row.steps)
    kernel = make_kernel(row.sampler, target, h, steps=steps, friction=friction, word=row.word, dtype=dtype, **settings)
    if row.order:
        kernel = replace(kernel, batches=Runs(row.order, row.coin))
    return replace(kernel, impossible=None, acceptance="metropolis") if row.naive else kernel


def play(kernel: Kernel, target, theta, momentum, random: Random) -> tuple[State, Record]:
    """One trajectory of ``[chains, dim]`` NumPy positions and momenta."""
    theta, momentum = torch.tensor(theta), torch.tensor(momentum)
    state = start(kernel, target, theta, random, range(len(theta)))
    state.momentum = momentum
    return run_trajectory(kernel, target, state, random, INDEX, range(len(theta)))


def letters_of(row: Row, h: float, steps: int, backwards: bool = False) -> list[tuple]:
    """The row's program in the reference's terms."""
    schedule = row.schedule
    sizes = reference.factors(schedule.name, steps, INDEX, schedule.every, schedule.factor)
    decay = reference.friction(*row.friction, h, "E" in row.letters)
    rescaled = SAMPLERS[row.sampler].rescaled
    letters = reference.program(row.letters, [h * size for size in sizes], decay, rescaled)
    return reference.mirrored(letters, row.letters) if backwards else letters


@dataclass
class Take:
    """One trajectory of 64 chains with known noises and batches: as the sampler ran it and as the reference does."""

    row: Row
    kernel: Kernel
    target: object
    ours: object
    letters: list[tuple]
    theta: np.ndarray
    noise: np.ndarray
    batches: list[Tensor]
    end: State
    record: Record
    rejected: State
    path: reference.Path
    way: float

    @property
    def mass(self) -> np.ndarray:
        return self.row.mass(self.target.dim)


def take(row: Row, name: str, way: float) -> Take:
    """Run the row's trajectory forwards (``way`` 1) or backwards (0), accepted and rejected, and follow it in NumPy."""
    target, ours = make_target(name, row)
    h, rng, chains = row.step_size(name), np.random.default_rng(5), 64
    kernel = build(row, target, h)
    random = Scripted(7)
    random.direction = way
    letters = letters_of(row, h, kernel.steps, backwards=way == 0)
    mass, temperature = row.mass(target.dim), row.temperature
    theta = ours.draw(chains, temperature, rng)
    momentum = np.sqrt(temperature * mass) * rng.normal(size=theta.shape)
    noise = rng.normal(size=(1 + len(letters), *theta.shape))
    random.noise = torch.tensor(noise)
    exact_ends = row.settings.get("ends") == "exact"
    batches = []
    if kernel.batches:
        draw = kernel.batches.draw(random, INDEX, torch.arange(chains))
        batches = [draw(point).clone() for point in range(kernel.points - 2 * exact_ends)]
        kernel = replace(kernel, batches=Replay(batches))

    def gradient(point, theta):
        if not batches or (exact_ends and point in (0, kernel.points - 1)):
            return ours.gradient(theta)
        return ours.gradient(theta, batches[point - exact_ends].numpy())

    begun = refreshed(momentum, noise[0], row)
    path = reference.follow(letters, row.letters, theta, begun, noise[1:], gradient, mass, temperature)
    if "E" not in row.letters:
        kernel = replace(kernel, acceptance="metropolis")
    random.decision = 0.0
    end, record = play(kernel, target, theta, momentum, random)
    random.decision = math.inf
    rejected, _ = play(kernel, target, theta, momentum, random)
    return Take(row, kernel, target, ours, letters, theta, noise, batches, end, record, rejected, path, way)


def refreshed(momentum, noise, row: Row):
    variance = (1 - row.kept**2) * row.temperature * row.mass(momentum.shape[1])
    return row.kept * momentum + np.sqrt(variance) * noise


def ways(row: Row) -> tuple[float, ...]:
    return (1.0, 0.0) if row.schedule.direction == "random" else (1.0,)


# -- exact columns -----------------------------------------------------------------------------------------------


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
    forward = forth.noise[1 + reference.headed(row.letters) :]
    backward = [
        c * forward[number] - math.sqrt(1 - c**2) * before / scale
        for number, (c, before, _) in enumerate(forth.path.refreshes)
    ][::-1]
    first = 1
    if row.refresh != "keep":  # the refresh, from no momentum, makes the momentum of the way back
        noise[0] = momentum / scale / math.sqrt(1 - row.kept**2)
        momentum = np.zeros_like(momentum)
    if reference.headed(row.letters):
        c = forth.letters[0][1]
        noise[1], momentum, first = momentum / scale / math.sqrt(1 - c**2), np.zeros_like(momentum), 2
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
            pairs = [
                (forth.end.theta, ends.theta),
                (forth.end.momentum, ends.momentum),
                (forth.record.delta_kinetic, ends.kinetic),
                (forth.record.delta_potential, delta),
            ]
            if "E" not in row.letters:
                pairs += [(forth.rejected.theta, forth.theta), (forth.rejected.momentum, -ends.begun)]
            else:
                pairs.pop(2)
            error = max(error, *(_largest(ran.numpy() - followed) for ran, followed in pairs))
        yield Cell("path", name, "trajectory - the same in NumPy", error, EXACT)


def loop(row: Row) -> Iterator[Cell]:
    """What the loop of real runs makes of its trajectories: the states after each of six cycles against the same
    trajectories one after another. And a trajectory with infinite and NaN noises: such an end is never kept."""
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
            error = max(error, _largest((chain.states[0].theta - state.theta).numpy()))
            error = max(error, _largest((chain.states[0].momentum - state.momentum).numpy()))
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
        ran, expected = _measured_map(row, way), _linear_theory(row, way)
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


def _gaussian(row: Row) -> tuple[Kernel, Gaussian]:
    noise = GRADIENT_NOISE if row.gradient == "minibatch" else 0.0
    target = Gaussian(2, 1 / STIFFNESS, noise=noise)
    settings = {key: value for key, value in row.settings.items() if key not in ("minibatches", "ends")}
    h = row.step_size("gaussian")
    row = replace(row, settings=settings, order=(), naive=False)
    return build(row, target, h, acceptance="monitor"), target


def _linear_theory(row: Row, way: float):
    kernel, target = _gaussian(row)
    start = None if row.refresh == "keep" else row.kept
    letters = letters_of(row, row.step_size("gaussian"), kernel.steps, backwards=way == 0)
    return reference.linear(letters, STIFFNESS, row.mass(2), row.temperature, target.noise, start)


def _measured_map(row: Row, way: float):
    """(F, Q) of a trajectory of the sampler on the Gaussian: its images of unit vectors and unit noises."""
    kernel, target = _gaussian(row)
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


# -- statistical columns -----------------------------------------------------------------------------------------


def _worst(column: str, target: str, values: dict[str, np.ndarray], dtype: str = "float64") -> Cell:
    """The cell of the functions ``values`` (``[chains]`` each), whose means should be 0."""
    worst = None
    for name, value in values.items():
        mean, error = float(value.mean()), float(value.std() / math.sqrt(len(value)))
        z = mean / error if error else (0.0 if mean == 0 else math.copysign(math.inf, mean))
        z = math.inf if math.isnan(z) else z
        if worst is None or abs(z) > abs(worst.z):
            worst = Cell(column, target, name, mean, None, error, z, len(values), dtype)
    worst.smallest_bias = max(float(value.std() / math.sqrt(len(value))) for value in values.values())
    return worst


def _functions(theta, momentum, moments, variance, powers: int) -> dict[str, np.ndarray]:
    """θ^k, m, m², θm of each coordinate, less their expectations, in their standard deviations.

    ``moments`` are E θ^k, k = 0 … 8, and ``variance`` is TM, ``[dim]``. Positions and whitened momenta are cut off at
    ±9, where the targets' densities are below 1e-17, so that a diverged chain is one large number.
    """
    values = {}
    for j in range(theta.shape[1]):
        x, p = np.clip(theta[:, j], -9, 9), np.clip(momentum[:, j] / math.sqrt(variance[j]), -9, 9)
        at = f"[{j}]" if theta.shape[1] > 1 else ""
        for k in range(1, powers + 1):
            spread = math.sqrt(moments[2 * k, j] - moments[k, j] ** 2)
            values[f"theta^{k}{at}"] = (x**k - moments[k, j]) / spread
        values[f"m{at}"] = p
        values[f"m^2{at}"] = (p**2 - 1) / math.sqrt(2)
        values[f"theta m{at}"] = x * p / math.sqrt(moments[2, j])
    return values


def exact_state(row: Row, name: str, chains: int, seed: Seed) -> tuple[np.ndarray, np.ndarray]:
    """Positions and momenta of chains at independent draws of the target, ``[chains, dim]`` each."""
    theta = draws(name, row.temperature, chains, seed.positions)
    scale = np.sqrt(row.temperature * row.mass(theta.shape[1]))
    return theta, scale * np.random.default_rng(seed.number).normal(size=theta.shape)


def one_trajectory(row: Row, name: str, h: float, chains: int, seed: Seed):
    """Of chains from exact draws: the sampler's states after a rejection and after an acceptance, and the record."""
    target, _ = make_target(name, row)
    kernel = replace(build(row, target, h), acceptance="metropolis")
    theta, momentum = exact_state(row, name, chains, seed)
    random = Scripted(seed.number)
    random.decision = math.inf
    begun, _ = play(kernel, target, theta, momentum, random)
    random.decision = 0.0
    return begun, *play(kernel, target, theta, momentum, random)


def energy_identity(row: Row, chains: int, seed: Seed) -> Iterator[Cell]:
    """(i) E[MH] = 1 of one trajectory from exact draws: on the target with Gaussian tails, at a small step size."""
    _, _, record = one_trajectory(row, "four data", row.small_step, chains, seed)
    yield _worst("(i)", "four data", {"MH - 1": record.log_accept.exp().numpy() - 1})


def _enough(row: Row, chains: int) -> int:
    """How many chains: of a row that fails so many that it is seen whatever the seed."""
    return min(4 * chains, max(chains, FAILURE_CHAINS)) if row.fails else chains


def reversal_identities(row: Row, chains: int, seed: Seed) -> Iterator[Cell]:
    """(ii) E[min(1, MH) sign(log MH)] = 0 and (iii) E[min(1, MH) (f(θ_L, m_L) − f(θ_0, −m_0))] = 0 of one
    trajectory from exact draws; (θ_0, −m_0) is the sampler's own state after a rejection. Also the mean acceptance."""
    for name in row.targets:
        begun, end, record = one_trajectory(row, name, row.step_size(name), _enough(row, chains), seed)
        accept, sign = record.accept_prob.numpy(), np.sign(record.log_accept.numpy())
        yield Cell("accept", name, "mean of min(1, MH)", float(accept.mean()))
        yield _worst("(ii)", name, {"min(1, MH) sign(log MH)": accept * sign})
        moments = moments_of(name, row.temperature)
        variance = row.temperature * row.mass(begun.theta.shape[1])
        after = _functions(end.theta.numpy(), end.momentum.numpy(), moments, variance, 3)
        before = _functions(begun.theta.numpy(), begun.momentum.numpy(), moments, variance, 3)
        moved = {key: np.where(accept > 0, accept * (after[key] - before[key]), 0.0) for key in after}
        yield _worst("(iii)", name, moved)


def decisions(row: Row, chains: int, seed: Seed) -> Iterator[Cell]:
    """What the sampler's own rule accepts less the probability that it should, of one trajectory from exact draws:
    its mean, and with the sign and the size of log MH. That probability is, of U in NumPy, min(1, MH) of Metropolis
    with a fresh uniform or a persistent one, of Barker MH/(1 + MH); monitored, 1."""
    for name in row.targets:
        target, ours = make_target(name, row)
        theta, momentum = exact_state(row, name, _enough(row, chains), seed)
        _, record = play(build(row, target, row.step_size(name)), target, theta, momentum, Random(seed.number))
        with np.errstate(all="ignore"):
            change = ours.energy(record.proposal.numpy()) - ours.energy(theta) + record.delta_kinetic.numpy()
            mh = np.exp(np.clip(np.nan_to_num(-change / row.temperature, nan=-np.inf), -700, 700))
        rule = {"monitor": np.ones_like(mh), "barker": mh / (1 + mh), "barker_minibatch": mh / (1 + mh)}
        excess = record.accepted.numpy() - rule.get(row.acceptance, np.minimum(1, mh))
        log_mh = np.clip(np.log(mh), -1, 1)
        values = {"accepted - p": excess, "of sign(log MH)": excess * np.sign(log_mh), "of log MH": excess * log_mh}
        yield _worst("dec", name, values)


def invariance(row: Row, name: str, dtype: torch.dtype, chains: int, seed: Seed) -> Iterator[Cell]:
    """(iv) The moments after 20 decisions of chains that started at exact draws, by the loop that real runs use."""
    target, _ = make_target(name, row)
    kernel = build(row, target, row.step_size(name), dtype)
    theta = torch.tensor(draws(name, row.temperature, chains, seed.positions)).to(dtype)
    plan = Plan(cycles=DECISIONS, compile=row.compiled)
    chain = Chain(kernel, target, plan, Random(seed.number), chains, lambda: theta)
    chain.begin()
    chain.compile(warnings.warn)
    for _ in range(DECISIONS):
        chain.advance()
    (state,) = chain.states
    variance = row.temperature * row.mass(target.dim)
    theta, momentum = state.theta.double().numpy(), state.momentum.double().numpy()
    values = _functions(theta, momentum, moments_of(name, row.temperature), variance, 4)
    if kernel.acceptance == "persistent_uniform":
        v = (state.log_abs.exp().numpy() - 0.5) * math.sqrt(12)
        squares = {f"|v| {key}": v * value for key, value in values.items() if key.startswith(("theta^2", "m^2"))}
        values |= squares | {"|v|": v, "v": (state.sign * state.log_abs.exp()).numpy() * math.sqrt(3)}
    yield _worst("(iv)", name, values, str(dtype).removeprefix("torch."))


def covariances(row: Row, chains: int, seed: Seed) -> Iterator[Cell]:
    """Covariance and lag-1 autocovariance of a trajectory without decision on the Gaussian, from its stationary law
    (where there is none: from the target), against linear theory."""
    theory = [_linear_theory(row, way) for way in ways(row)]
    kernel, target = _gaussian(row)
    dim = target.dim
    first = reference.stationary(theory)
    if first is None:
        first = np.diag(np.concatenate([row.temperature / STIFFNESS, row.temperature * row.mass(dim)]))
    rng = np.random.default_rng(seed.number)
    z = rng.normal(size=(chains, 2 * dim)) @ np.linalg.cholesky(first).T
    end, _ = play(kernel, target, z[:, :dim], z[:, dim:], Random(seed.number))
    after = np.concatenate([end.theta.numpy(), end.momentum.numpy()], 1)
    now = sum(F @ first @ F.T + Q for F, Q in theory) / len(theory)
    lagged = sum(F @ first for F, _ in theory) / len(theory)
    values, names = {}, ["theta", "m"]
    for j in range(dim):
        for a in range(2):
            for b in range(2):
                i, k = j + a * dim, j + b * dim
                if a <= b:
                    spread = math.sqrt(now[i, i] * now[k, k] + now[i, k] ** 2)
                    values[f"{names[a]} {names[b]}[{j}]"] = (after[:, i] * after[:, k] - now[i, k]) / spread
                spread = math.sqrt(now[i, i] * first[k, k] + lagged[i, k] ** 2)
                values[f"{names[a]}' {names[b]}[{j}]"] = (after[:, i] * z[:, k] - lagged[i, k]) / spread
    yield _worst("cov", "gaussian", values)


def batch_order(row: Row, chains: int, seed: Seed) -> Iterator[Cell]:
    """Whether the batches of a trajectory are in law their own mirror image: Bowker's test of the counts of the
    sequences of four data against those of the same backwards. And whether they are so given those before, which may be
    the other half of a permutation: two functions that change their sign where a sequence is turned, times those of
    the sequence before; where the law lets them be anything but 0."""
    if row.gradient != "minibatch" or "four data" not in row.targets:
        return
    target, _ = make_target("four data", row)
    kernel = build(row, target, 0.1)
    points = kernel.points - 2 * (row.settings.get("ends") == "exact")
    drawn = []
    for index in (INDEX, INDEX - 1):
        draw = kernel.batches.draw(Random(seed.number), index, torch.arange(chains))
        drawn.append(torch.cat([draw(point) for point in range(points)], 1).numpy())
    odd = {
        "how many data are in all but the last, less in all but the first": _data_but_the_last_less_but_the_first,
        "sign of the first datum less the last": lambda one: np.sign(one[:, 0] - one[:, -1]),
    }
    values = {f"{name}, of two in a row": function(drawn[0]) * function(drawn[1]) for name, function in odd.items()}
    if values := {name: value for name, value in values.items() if value.any()}:
        yield replace(_worst("order", "four data", values), smallest_bias=None)
    sequence = drawn[0]
    digits = 4 ** np.arange(points)
    forward = np.bincount(sequence @ digits, minlength=4**points)
    backward = np.bincount(sequence @ digits[::-1], minlength=4**points)
    total = forward + backward
    use = total > 20
    statistic = ((forward - backward)[use] ** 2 / total[use]).sum() / 2  # each pair stands twice
    pairs = int((use & (np.arange(4**points) != _mirror(points))).sum()) // 2
    if not pairs:
        return
    z = float(norm.isf(max(chi2.sf(statistic, pairs), 1e-300) / 2))
    yield Cell("order", "four data", f"chi2 of {pairs} pairs", statistic, None, math.sqrt(2 * pairs), z, 1)


def _data_but_the_last_less_but_the_first(sequences: np.ndarray) -> np.ndarray:
    """How many of the four data are in all but the last of ``[chains, points]``, less in all but the first."""
    head, tail = (
        sum((part == datum).any(1).astype(int) for datum in range(4)) for part in (sequences[:, :-1], sequences[:, 1:])
    )
    return head - tail


def _mirror(points: int) -> np.ndarray:
    """The code of each code's sequence read backwards."""
    codes = np.arange(4**points)
    return sum(codes // 4**i % 4 * 4 ** (points - 1 - i) for i in range(points))


def slopes(row: Row, chains: int, seed: Seed) -> Iterator[Cell]:
    """The powers of h that the standard deviation of ΔU + Σ ΔK goes with: one step, and a fixed time of 1.

    With full gradients and γ = 1 (or infinite) on x⁴/4 + x²/2 at h = .1 to .0125; the standard error is that of ten
    groups of chains.
    """
    expected = reference.energy_order(row.letters, row.friction[0] == "infinite")
    if expected is None or not row.slopes:
        return
    target, ours = Quartic(1, cubic=0.0), reference.Quartic(cubic=0.0)
    rng = np.random.default_rng(seed.number)
    theta = ours.draw(min(chains, SLOPE_CHAINS), 1.0, rng)
    momentum = rng.normal(size=theta.shape)
    sizes = [0.1, 0.05, 0.025, 0.0125]
    row = replace(row, naive=False, settings={"acceptance": "monitor"})
    deviations = {"step": [], "time": []}
    for h in sizes:
        kernel = build(row, target, h, refresh="full", gradient="full")
        friction = kernel.friction if row.friction[0] == "infinite" else Friction("gamma", 1.0)
        for key, steps in (("step", 1), ("time", round(1 / h))):
            longer = replace(kernel, steps=steps, friction=friction)
            _, record = play(longer, target, theta, momentum, Random(seed.number))
            energy = (record.delta_potential + record.delta_kinetic).numpy()
            deviations[key].append(energy.reshape(10, -1).std(1))
    for key, power in zip(("step", "time"), expected, strict=True):
        fits = np.polyfit(np.log(sizes), np.log(np.array(deviations[key])), 1)[0]
        name = f"power of h, {'one step' if key == 'step' else 'fixed time'}: {fits.mean():.2f} for {power:g}"
        error = float(fits.std(ddof=1) / math.sqrt(len(fits)))
        yield Cell(key, "quartic", name, abs(float(fits.mean()) - power), SLOPE, error)
