"""A sampler with its numbers: everything that one trajectory needs besides the target and the state."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sgmcmc import subsampled
from sgmcmc.acceptance import SUBSAMPLED
from sgmcmc.arguments import check_steps
from sgmcmc.data.minibatches import LAWS, GradientNoise, Minibatches
from sgmcmc.errors import SettingError, one_of
from sgmcmc.flows import held
from sgmcmc.potentials import check_attributes, in_one_pass, is_network
from sgmcmc.samplers import NUMBERS, Sampler, lookup
from sgmcmc.schedules import Schedule, why_impossible
from sgmcmc.words import Op, Word

Number = float | Tensor
Ops = list[tuple[Op, Number, Number | tuple[Number, Number] | None]]  # letters with their numbers: ``Kernel.program``


@dataclass(frozen=True)
class Friction:
    """Friction in one of the papers' parametrisations; floats or float64 tensors ``[chains, 1]``.

    ``gamma``: a = e^{−γh} (for the letter E, 1 − γh). ``beta``: AMAGOLD's, b = hβ, a = (1 − b)/(1 + b) (for
    E, 1 − 2b: γ = 2β, AMAGOLD's Algorithm 1). γ may be infinite (a = 0), β may be large (a < 0: over-relaxed).
    """

    kind: str  # gamma or beta
    value: float | Tensor
    said: tuple[str, object] | None = field(default=None, compare=False)  # the setting and the value given, for errors

    @property
    def more(self) -> str:
        """What gives more friction a step; at another step size only γ and β do."""
        ways = {"momentum_decay": "less", "b": "more"}
        return ways.get(self.said[0].rpartition(".")[2] if self.said else "", "more of either")

    def refusal(self, mend: str) -> SettingError:
        """The error that names what was said."""
        return SettingError(*(self.said or ("friction", _show(self.value))), mend)

    @classmethod
    def of(cls, step_size, euler: bool = False, **given) -> Friction | None:
        """From exactly one of ``friction`` γ, ``momentum_decay`` (e^{−γh}; in a word with an E 1 − γh, and its O's have
        that γ), AMAGOLD's ``beta`` and ``b`` = hβ at the step size h; None where none is given. Sequences are one a
        chain."""
        given = {name: value for name, value in given.items() if value is not None}
        if not given:
            return None
        if len(given) > 1:
            (first, value), second, *_ = given.items()
            raise SettingError(first, value, f"give one way of saying friction, not {second[0]} as well")
        ((name, value),) = given.items()
        said = name, value
        h, value = (torch.as_tensor(number, dtype=torch.float64) for number in (step_size, value))
        if name == "momentum_decay" and not bool(((value >= 0) & (value <= 1)).all()):
            raise SettingError(name, said[1], "must be from 0 to 1: what a whole step leaves of the momentum")
        if not bool((value >= 0).all()):
            raise SettingError(name, said[1], "must be not negative")
        kind = {"friction": "gamma", "momentum_decay": "gamma", "beta": "beta", "b": "beta"}[name]
        if name == "momentum_decay":
            value = (1 - value) / h if euler else -value.log() / h
        elif name == "b":
            value = value / h
        return cls(kind, float(value) if value.ndim == 0 else value.reshape(-1, 1), said)

    def decay(self, h, euler: bool):
        """Momentum decay of one whole step of size h."""
        rate = self.value * h
        if self.kind == "beta":
            return 1 - 2 * rate if euler else (1 - rate) / (1 + rate)
        return 1 - rate if euler else torch.as_tensor(-rate, dtype=torch.float64).exp()


@dataclass(frozen=True)
class Kernel:
    """One trajectory's law: word, length, step size, friction, temperature, mass and policies.

    ``step_size`` h and ``friction`` are floats or float64 tensors ``[chains, 1]``, ``mass`` (the diagonal of M) is a
    float or float64 ``[dim]``. The policies are those of ``sgmcmc.samplers``, ``alpha`` to ``sigma`` their numbers,
    ``rescaled`` is OVRVO's b in A and B. Build it with ``make_kernel``, which refuses what cannot be exact.
    """

    word: Word
    steps: int
    step_size: float | Tensor
    friction: Friction
    temperature: float = 1.0
    mass: float | Tensor = 1.0
    refresh: str = "keep"
    alpha: float = NUMBERS["alpha"][2]
    acceptance: str = "monitor"
    delta: float = NUMBERS["delta"][2]
    decision_batch: int = NUMBERS["decision_batch"][2]
    epsilon: float = NUMBERS["epsilon"][2]
    sigma: float = NUMBERS["sigma"][2]
    gradient: str = "full"
    ends: str = "minibatch"
    batches: Minibatches | GradientNoise | None = None
    schedule: Schedule = field(default_factory=Schedule)
    rescaled: bool = False
    measured: bool = True  # whether trajectories evaluate U even where nothing is decided by it
    impossible: str | None = None  # why log MH cannot be had: it is −∞
    inexact: str | None = None  # why log MH, though finite, is not exact

    @property
    def subsampled(self) -> bool:
        """Whether decisions are made on a part of the data, and so are not exact (``sgmcmc.subsampled``)."""
        return self.acceptance in SUBSAMPLED

    @property
    def evaluates(self) -> bool:
        """Whether trajectories evaluate U of all data."""
        return not self.subsampled and (self.measured or not self.impossible)

    @property
    def points(self) -> int:
        """Positions of a trajectory at which a gradient is taken."""
        return self.word.gradient_points(self.steps) if self.gradient != "none" else 0

    def epochs(self, data_size: int) -> float:
        """Passes over the data of one trajectory: steps × the word's gradients a step × B/N; without minibatches a
        gradient is one pass."""
        if not data_size or self.gradient == "none":
            return 0.0
        batch = getattr(self.batches, "batch_size", data_size)
        return self.steps * self.word.gradients_a_step * batch / data_size

    @property
    def exact_ends(self) -> int:
        """Gradient points of a trajectory of minibatches that see all data: 2 with ``ends="exact"``, else 0."""
        return 2 if self.gradient == "minibatch" and self.ends == "exact" else 0

    @property
    def full_ends(self) -> bool:
        """Whether a trajectory starts and ends with a full gradient; the start's is known from the one before."""
        return (self.gradient == "full" or self.exact_ends > 0) and self.word.kicks_at_both_ends

    def work(self, share: float, potential) -> tuple[float, float]:
        """Gradients and U that a trajectory evaluates, in passes over the data; a minibatch's gradient is ``share``.

        The U that ``potential_and_gradient`` gives with a gradient is not counted (though a regression in float32 has
        to sum it apart). After Gibbs updates U is evaluated anew, and so is the gradient that a trajectory starts with.
        What decisions on a part of the data look at is not known before, and not in it.
        """
        points, gibbs = self.points, bool(getattr(potential, "gibbs", None))
        full = points if self.gradient == "full" else self.exact_ends
        gradients, energies = full + (points - full) * share, float(self.evaluates)
        if self.full_ends:
            gradients -= 0 if gibbs else 1
            energies = float(not in_one_pass(potential))
        return float(gradients), energies * (1 + gibbs)

    @property
    def random_direction(self) -> bool:
        """Whether a coin decides for each trajectory of each chain if its letters are read forwards or backwards."""
        return self.schedule.direction == "random"

    @cached_property
    def momentum_scale(self):
        """√T M^½: a float, or float64 ``[dim]``."""
        return math.sqrt(self.temperature) * self.mass**0.5

    @cached_property
    def inverse_mass(self):
        """M⁻¹: a float, or float64 ``[dim]``."""
        return 1 / self.mass

    def rows(self, index: Tensor) -> Kernel:
        """The kernel of the chains of ``index``; itself where all chains have the same numbers."""
        if not isinstance(self.step_size, Tensor) and not isinstance(self.friction.value, Tensor):
            return self

        def pick(value):
            return value[index.cpu()] if isinstance(value, Tensor) and len(value) > 1 else value

        friction = replace(self.friction, value=pick(self.friction.value))
        return replace(self, step_size=pick(self.step_size), friction=friction)

    def program(self, trajectory: int, dtype: torch.dtype, device) -> list[Ops]:
        """The letters of a trajectory with their numbers: a list forwards and, for a random direction, one backwards.

        An entry is (op, duration, None) of A and B, (op, c, noise scale) of O, (op, duration, (1 − γh, noise scale)) of
        E. Numbers are computed in float64 and then cast to ``dtype``; only the noise scale is that of the c which
        ``dtype`` holds (see ``flows.held``). Ops with the same letter, share and step size share one object.
        """
        factors = tuple(self.schedule.factors(self.steps, trajectory))
        key = (factors, dtype, torch.device(device))
        if key not in self._programs:
            self._programs.clear()  # stairs do not come back to a step size
            self._programs[key] = self._program(*key)
        return self._programs[key]

    @cached_property
    def _programs(self) -> dict:
        return {}

    def _program(self, factors, dtype, device):
        sizes = {factor: self.step_size * factor for factor in factors}
        cache: dict = {}

        def cast(value):
            if isinstance(value, tuple):
                return tuple(map(cast, value))
            if isinstance(value, Tensor) and value.numel() == 1:
                value = value.item()
            return value.to(dtype=dtype, device=device) if isinstance(value, Tensor) else value

        def numbers(op: Op):
            place = (op.letter, tuple((factors[step], share) for step, share in op.shares))
            if place not in cache:
                cache[place] = cast(self._numbers(op, [sizes[factors[step]] for step, _ in op.shares], dtype))
            return cache[place]

        ways = [self.word.trajectory(self.steps)]
        if self.random_direction:
            ways.append(self.word.trajectory(self.steps, backwards=True))
        return [[(op, *numbers(op)) for op in way] for way in ways]

    def _numbers(self, op: Op, h: list, dtype: torch.dtype):
        share = op.shares[0][1]
        if op.letter in "AB":
            return share * h[0] * self._rescaling(h[0]), None
        if op.letter == "E":
            keep = held(self.friction.decay(share * h[0], euler=True), dtype)
            # √(2γTh) M^½ with γh = 1 − keep.
            return share * h[0], (keep, (2 * (1 - keep)) ** 0.5 * self.momentum_scale)
        keep = 1.0
        for size, (_, fraction) in zip(h, op.shares, strict=True):
            decay = self.friction.decay(size, euler=False)
            keep = keep * (decay if fraction == 1 else decay**fraction)
        keep = held(keep, dtype)
        return keep, (1 - keep**2) ** 0.5 * self.momentum_scale

    def _rescaling(self, h):
        """b = √(tanh(γh/2)/(γh/2)) of OVRVO (note of 2020, equation 7), else 1."""
        if not self.rescaled:
            return 1.0
        decay = torch.as_tensor(self.friction.decay(h, False), dtype=torch.float64)
        half = -decay.log() / 2
        return torch.where(half > 0, (half.tanh() / half.clamp(min=1e-300)).sqrt(), 1.0)


def step_size_of(lr, data_size: int):
    """h = √(ℓ/N) of the learning rate ℓ (GGMC paper, equation 21); a sequence gives a list."""
    sizes = (torch.as_tensor(lr, dtype=torch.float64) / data_size).sqrt()
    return sizes.tolist()


def make_kernel(
    sampler: str | Sampler,
    potential,
    step_size,
    *,
    steps: int = 1,
    friction: Friction | None = None,
    word: str | None = None,
    temperature: float = 1.0,
    mass: Tensor | ArrayLike = 1.0,
    refresh: str | None = None,
    alpha: float | None = None,
    acceptance: str | None = None,
    delta: float | None = None,
    decision_batch: int | None = None,
    epsilon: float | None = None,
    sigma: float | None = None,
    gradient: str | None = None,
    ends: str = "minibatch",
    minibatches: str = "independent",
    batch_size: int | None = None,
    schedule: Schedule | None = None,
    dtype: torch.dtype = torch.float32,
) -> Kernel:
    """The kernel of a sampler of the table (or of a row of one's own), with what is given put in.

    None leaves the row's word and policies, ``refresh``, ``acceptance`` and ``gradient``. ``step_size`` is h, a number
    or a sequence of one a chain; ``steps`` is L of a trajectory; ``friction`` as ``Friction.of`` makes it (γ = 1);
    ``temperature`` T of exp(−U/T), with the prior in U; ``mass`` the diagonal of M, a number or ``[dim]``. ``alpha``
    defaults to .9, ``delta`` to .05, and of decisions on a part of the data ``decision_batch`` to 100, ``epsilon`` to
    .05, ``sigma`` to 1.

    Of minibatch gradients: ``batch_size`` data each (a target with data has no default), by the law ``minibatches``,
    independent (with replacement) or shuffled (``sgmcmc.data.minibatches``); ``ends`` is minibatch, or exact for the
    full gradient at a trajectory's two ends (GGMC paper's code). ``schedule`` multiplies step sizes (constant);
    ``dtype`` is that of θ.

    Raises SettingError, naming the reason, for a trajectory that is to be corrected but whose acceptance
    probability is not exact, for momentum that would never be refreshed, and for impossible numbers.
    """
    check_attributes(potential)
    row = lookup(sampler) if isinstance(sampler, str) else sampler
    given = {"word": word, "refresh": refresh, "acceptance": acceptance, "gradient": gradient}
    word, schedule = Word(word or row.word), schedule or Schedule()
    if not gradient and word.kicks == (row.gradient == "none"):  # a given word: the row's own fits its gradient
        mend = "needs a gradient: full or minibatch" if word.kicks else "has no kick: give sampler.gradient=none"
        raise SettingError("sampler.word", word.letters, mend)
    row = replace(row, **{name: value for name, value in given.items() if value})
    gradient = row.gradient
    if gradient == "either":
        gradient = "minibatch" if is_network(potential) else "full"
    one_of("sampler.ends", ends, ("exact", "minibatch"))
    if type(schedule) is not Schedule:
        mend = "is a schedule of one's own, which need not read the same backwards: give an sgmcmc.Schedule"
        raise SettingError("schedule", type(schedule).__name__, mend)
    one_of("sampler.minibatches", minibatches, LAWS)
    friction = _friction(row, sampler if isinstance(sampler, str) else "this sampler", friction)
    step_size = _per_chain("step_size", step_size, positive=True)
    friction = replace(friction, value=_per_chain("friction", friction.value))
    if row.steps is not None and steps != row.steps:
        raise SettingError("steps_per_cycle", steps, f"the sampler's trajectories have {row.steps} step")
    if steps < 1:
        raise SettingError("steps_per_cycle", steps, "must be at least 1")
    check_steps(steps)
    mass = _mass(mass, potential.dim)
    if not (temperature >= 0 and math.isfinite(temperature)):
        raise SettingError("temperature", temperature, "must be a number, finite and not negative")
    numbers = {"alpha": alpha, "delta": delta, "decision_batch": decision_batch, "epsilon": epsilon, "sigma": sigma}
    kernel = Kernel(
        word=word,
        steps=steps,
        step_size=step_size,
        friction=friction,
        temperature=float(temperature),
        mass=mass,
        refresh=row.refresh,
        acceptance=row.acceptance,
        gradient=gradient,
        ends=ends,
        schedule=schedule,
        rescaled=row.rescaled,
        **{name: value for name, value in numbers.items() if value is not None},
    )
    _check_numbers(kernel, dtype)
    if kernel.exact_ends and not word.kicks_at_both_ends:
        mend = f"the word {word.letters} takes no gradient at the ends of a trajectory"
        raise SettingError("sampler.ends", ends, mend)
    kernel = replace(
        kernel,
        batches=_batches(kernel, potential, minibatches, batch_size, dtype),
        impossible=why_impossible(word, schedule, temperature),
        inexact=getattr(potential, "inexact", None),
    )
    reason = kernel.impossible or kernel.inexact
    if kernel.acceptance != "monitor" and reason:
        mend = f"the acceptance probability would not be exact, because {reason}; use sampler.acceptance=monitor"
        raise SettingError("sampler.acceptance", kernel.acceptance, mend)
    if kernel.subsampled:
        subsampled.check(kernel, potential)
    return kernel


def _friction(row: Sampler, name: str, given: Friction | None) -> Friction:
    """The friction of the sampler of this ``name``: what was given, or else infinite where the row says so, or γ = 1.

    Raises SettingError for a finite one where the row's is infinite.
    """
    if row.friction != "infinite":
        return given or Friction("gamma", 1.0)
    given = given or Friction("gamma", math.inf)
    if not bool(torch.isinf(torch.as_tensor(given.value)).all()):
        raise given.refusal(f"the friction is infinite in {name}; with less it is sampler=ggmc")
    return given


def _batches(
    kernel: Kernel, potential, law: str, batch_size: int | None, dtype: torch.dtype
) -> Minibatches | GradientNoise | None:
    """What makes a trajectory's gradients stochastic: minibatches where the target has data, artificial noise where it
    has none; None where every gradient is exact."""
    points = kernel.points - kernel.exact_ends
    if kernel.gradient != "minibatch" or points <= 0:
        return None
    if potential.data_size:
        if batch_size is None:
            mend = f"give the size of a minibatch, at most {potential.data_size}, or sampler.gradient=full"
            raise SettingError("batch_size", "null", mend)
        if batch_size < getattr(potential, "least_batch", 1):
            mend = "is one datum, of which batch normalisation makes no statistics: take more"
            raise SettingError("batch_size", batch_size, mend)
        return Minibatches(law, potential.data_size, batch_size, points, getattr(potential, "views", 1))
    noise = getattr(potential, "noise", 0.0)
    return GradientNoise(noise, potential.dim, points, dtype) if noise else None


def _check_numbers(kernel: Kernel, dtype: torch.dtype) -> None:
    """Refuse a decay outside [−1, 1], a kept momentum that is never refreshed, α and δ outside (−1, 1), c < 0 in two
    O's, E or infinite friction in a rescaled word, T at which momenta have no digits, and stairs that may take
    AMAGOLD's β past 1/h where it cannot."""
    letters, euler = kernel.word.letters, kernel.word.euler
    if 0 < kernel.temperature < torch.finfo(dtype).tiny:  # about the size of m²
        name = str(dtype).removeprefix("torch.")
        raise SettingError("temperature", kernel.temperature, f"is too small for {name}: use 0")
    if kernel.refresh == "keep" and not kernel.word.refreshes:
        mend = f"the word {letters} would never refresh its momentum: use sampler.refresh=full"
        raise SettingError("sampler.refresh", "keep", mend)
    decay = check_decay(kernel, dtype, "this step size")
    if kernel.refresh == "partial" and not abs(kernel.alpha) < 1:
        raise SettingError("sampler.alpha", kernel.alpha, "must be above -1 and below 1")
    if kernel.refresh == "partial" and 1 - abs(rounded := float(held(kernel.alpha, dtype))) < _nearest(dtype):
        raise SettingError("sampler.alpha", kernel.alpha, f"is {rounded:g} in float32: use dtype=float64")
    if kernel.acceptance == "persistent_uniform" and not abs(kernel.delta) < 1:
        raise SettingError("sampler.delta", kernel.delta, "must be above -1 and below 1")
    if letters.count("O") > 1 and bool((decay < 0).any()):
        mend = f"gives a negative momentum decay, which cannot be split over the O's of {letters}; use less"
        raise kernel.friction.refusal(mend)
    if kernel.rescaled and euler:
        mend = "has an E, whose kick and friction cannot be rescaled as A and B are"
        raise SettingError("sampler.word", letters, mend)
    if kernel.rescaled and bool((decay <= 0).any()):
        raise kernel.friction.refusal("is infinite friction, at which a rescaled word never moves; give less friction")
    if kernel.schedule.name == "stairs" and kernel.schedule.factor > 1:
        check_growth(kernel, "the schedule")


def check_decay(kernel: Kernel, dtype: torch.dtype, size: str) -> Tensor:
    """The momentum decay at the kernel's step ``size``, float64; SettingError where it is outside [−1, 1], and where
    the O's of a kept momentum refresh it never or too little for its dtype."""
    decay = torch.as_tensor(kernel.friction.decay(kernel.step_size, kernel.word.euler), dtype=torch.float64)
    if not bool(torch.isfinite(decay).all()) or bool((decay.abs() > 1).any()):
        mend = f"together with {size} gives a momentum decay outside [-1, 1]; make either smaller, not negative"
        raise kernel.friction.refusal(mend)
    each = held(decay.abs() ** (1 / max(kernel.word.letters.count("O"), 1)), dtype)
    if kernel.refresh == "keep" and kernel.temperature > 0 and bool((1 - each < _nearest(dtype)).any()):
        what = "never refreshes the momentum" if bool((each == 1).any()) else "refreshes the momentum too little"
        mend = f"{what} at {size}: give {kernel.friction.more}, or use sampler.refresh=full"
        if bool((decay.abs() < 1).all()) and dtype != torch.float64:
            mend += ", or dtype=float64, which holds a momentum decay so near 1"
        raise kernel.friction.refusal(mend)
    return decay


def _nearest(dtype: torch.dtype) -> float:
    """How near to 1 c may be: nearer, c m lies only a unit or two of m's last place below m, so that rounding takes
    another part of m away than 1 − c, and the momenta come to another temperature (.70 T at the nearest c below 1, 1.04
    and .94 T at the next two)."""
    return 4 * torch.finfo(dtype).eps


def check_growth(kernel: Kernel, what: str) -> None:
    """Refuse AMAGOLD's β where ``what`` may make h larger than 1/β, in words that cannot have (1 − hβ)/(1 + hβ) < 0."""
    letters = kernel.word.letters
    if kernel.friction.kind == "beta" and (letters.count("O") > 1 or kernel.rescaled):
        raise kernel.friction.refusal(
            f"gives a negative momentum decay where {what} makes h larger than 1/beta, "
            f"which the word {letters} cannot have; give friction (gamma)"
        )


def _show(value) -> object:
    return value.flatten().tolist() if isinstance(value, Tensor) else value


def _mass(value, dim: int):
    """A float, or a float64 tensor ``[dim]`` of a sequence; checked to be positive."""
    need = f"must be one number, or a list of {dim}, one a coordinate"
    try:
        mass = torch.as_tensor(value, dtype=torch.float64).cpu()
    except (TypeError, ValueError, RuntimeError):
        raise SettingError("mass", value, need) from None
    if mass.ndim and tuple(mass.shape) != (dim,):
        raise SettingError("mass", f"[{mass.numel()} numbers]", need)
    if not bool((mass > 0).all() and torch.isfinite(mass).all()):
        raise SettingError("mass", mass.tolist(), "must be positive")
    return mass if mass.ndim else float(mass)


def _per_chain(setting: str, value, positive: bool = False):
    """A float, or a float64 tensor ``[chains, 1]`` of a sequence; checked to be numbers (positive ones)."""
    tensor = torch.as_tensor(value, dtype=torch.float64)
    good = (tensor > 0) & torch.isfinite(tensor) if positive else tensor >= 0
    if tensor.ndim > 2 or not bool(good.all()):
        raise SettingError(setting, _show(value), f"must be {'positive' if positive else 'not negative'}")
    return float(tensor) if tensor.ndim == 0 else tensor.reshape(-1, 1)
