"""The rows of the certificate, and how the sampler of a row is run.

On the path that real runs take: ``trajectory.run_trajectory`` and ``chain.Chain``, with ``random.Random`` or a
stand-in that plays given noises. What it is held against is in ``certificate_reference``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from sgmcmc import certificate_reference as reference
from sgmcmc.data import Dataset
from sgmcmc.kernel import Friction, Kernel, make_kernel
from sgmcmc.potentials.analytic import Gaussian, Quartic
from sgmcmc.potentials.regression import LogisticRegression
from sgmcmc.random import Random
from sgmcmc.samplers import SAMPLERS
from sgmcmc.schedules import Schedule
from sgmcmc.trajectory import Record, State, run_trajectory, start

INDEX = 7  # the trajectory that the identities are about: on a lower stair, before another, in half a permutation
GRADIENT_NOISE = 0.5  # standard deviation, on the quartic
MASS = (2.5, 0.7)
STIFFNESS = np.array([1.0, 2.3])  # of the Gaussian of linear theory


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
        return self.noise[steps.start : steps.stop][:, self.indices(chains)].to(dtype)

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
    target: Quartic | LogisticRegression
    ours: reference.Quartic | reference.FourData
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


def gaussian(row: Row) -> tuple[Kernel, Gaussian]:
    noise = GRADIENT_NOISE if row.gradient == "minibatch" else 0.0
    target = Gaussian(2, 1 / STIFFNESS, noise=noise)
    settings = {key: value for key, value in row.settings.items() if key not in ("minibatches", "ends")}
    h = row.step_size("gaussian")
    row = replace(row, settings=settings, order=(), naive=False)
    return build(row, target, h, acceptance="monitor"), target


def linear_theory(row: Row, way: float):
    kernel, target = gaussian(row)
    start = None if row.refresh == "keep" else row.kept
    letters = letters_of(row, row.step_size("gaussian"), kernel.steps, backwards=way == 0)
    return reference.linear(letters, STIFFNESS, row.mass(2), row.temperature, target.noise, start)
