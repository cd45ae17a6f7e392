"""How long a trajectory, and how large its steps: ``tune.trajectory=auto`` tries and chooses in the burn-in.

A rung is a number of steps L, from that of the kernel down by halves to 1 (of shuffled minibatches in whole epochs,
down to one), and an acceptance that the step size is tuned to (Robbins–Monro on log h). The burn-in is cut into equal
spans: one to settle in, one a rung, and one in which the chosen rung is tuned on. The rung is chosen that has the
largest expected squared jumping distance (Pasarica and Gelman 2010) for what it costs,

    E |M^½ (θ' − θ)|² / (gradients + evaluations of U),      both in passes over the data (``Kernel.work``),

over the second half of a rung's span. Under independent gradient noise the variance of log MH goes with L h², and so
does the squared jump a gradient: all L do alike but for U, which a long trajectory shares among more gradients, and the
best acceptance is .23. With exact gradients it is .65 (Beskos et al. 2013).

Of kept momentum the criterion sees a trajectory's own move alone. Where all coordinates have one scale, a move to the
other side of the mode counts most, though even functions of θ are left as they were (HMC, ten coordinates: ESS of the
variances a sixth of the best). A rung that is tried before its step size has come near, as from a start that is a
million times too small, is judged by what it did. After the burn-in nothing changes any more.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from sgmcmc.acceptance import limit
from sgmcmc.errors import SettingError
from sgmcmc.kernel import Kernel

RATES = (0.25, 0.5, 0.8)  # acceptances that the step size is tuned to
LEAST = 10  # cycles a span


class Ladder:
    """The rungs, what was seen of them (``tuning`` log factors on h ``[rungs, chains or 1]``), and the choice."""

    def __init__(self, kernel: Kernel, potential, burn_in: int, target: float | None, share: float):
        targets = tuple(limit(kernel.acceptance) * one for one in RATES) if target is None else (target,)
        self.rungs = [(steps, acceptance) for steps in lengths(kernel) for acceptance in targets]
        self.base, self.kinds = kernel, len(targets)
        self.span = burn_in // (len(self.rungs) + 2)
        if self.span < LEAST:
            mend = f"tune.trajectory tries {len(self.rungs)} settings in it: give at least"
            raise SettingError("burn_in", burn_in, f"{mend} {LEAST * (len(self.rungs) + 2)}, or fewer steps_per_cycle")
        sizes = 1 if isinstance(kernel.step_size, float) else len(kernel.step_size)
        self.tuning = torch.zeros(len(self.rungs), sizes, dtype=torch.float64)
        self.jumps = [0.0] * len(self.rungs)
        self.costs = [sum(with_steps(kernel, steps).work(share, potential)) for steps, _ in self.rungs]

    def rung(self, cycle: int) -> int:
        """The number of the rung that the ``cycle``-th cycle, from 0, is run with."""
        number = max(cycle // self.span - 1, 0)
        if number < len(self.rungs):
            return number
        rates = [jump / cost for jump, cost in zip(self.jumps, self.costs, strict=True)]
        return rates.index(max(rates))

    def kernel(self, cycle: int) -> Kernel:
        """What that cycle is run with."""
        number = self.rung(cycle)
        return with_steps(scaled(self.base, self.tuning[number]), self.rungs[number][0])

    def saw(self, cycle: int, probability: Tensor, jump: float) -> None:
        """Tune by the probabilities of acceptance ``[chains]`` of a cycle of the burn-in, and add up its jump."""
        number, last = self.rung(cycle), len(self.rungs)
        span, place = divmod(cycle, self.span)  # span 0: settling; 1, 2, …: the rungs; then the choice
        if span <= 1:
            count = cycle + 1
        else:
            count = place + 1 if span <= last else cycle + 1 - last * self.span
        self.tuning[number] = tuned(self.tuning[number], probability, self.rungs[number][1], count)
        if 1 <= span <= last and place >= self.span // 2:
            self.jumps[number] += jump
        if 1 <= span < last and place == self.span - 1:
            self._begin(number + 1)

    def _begin(self, number: int) -> None:
        """Set the log factor on h that a rung's tuning begins with.

        It is taken from the next longer rung that is tuned to the same acceptance: so that L h² stays, or h with full
        gradients, where L hardly matters. Rungs of the longest length take the factor of the rung before.
        """
        like = number - self.kinds
        if like < 0:
            self.tuning[number] = self.tuning[number - 1]
        else:
            shorter = self.rungs[like][0] / self.rungs[number][0] if self.base.gradient == "minibatch" else 1
            self.tuning[number] = self.tuning[like] + math.log(shorter) / 2

    def values(self) -> dict:
        """As a checkpoint holds it."""
        return {"tuning": self.tuning.clone(), "jumps": list(self.jumps), "costs": list(self.costs)}

    def resume(self, values: dict) -> None:
        """Continue from what ``values`` returned, with the costs that it chose by."""
        self.costs = list(values["costs"])
        self.tuning, self.jumps = values["tuning"].clone(), list(values["jumps"])


def scaled(kernel: Kernel, log_factor: Tensor) -> Kernel:
    """The kernel with its step size times exp(``log_factor``), ``[chains]`` or ``[1]``: the same for all chains."""
    factor = log_factor.exp()
    return replace(kernel, step_size=kernel.step_size * (float(factor) if len(factor) == 1 else factor[:, None]))


def tuned(log_factor: Tensor, probability: Tensor, target: float, count: int) -> Tensor:
    """A step of Robbins and Monro (1951), the ``count``-th from 1, towards the acceptance ``target``:

    log f ← log f + count^−0.6 (p − target), of ``log_factor`` ``[chains]`` by each chain's ``probability`` ``[chains]``
    or, of ``[1]``, by the mean of all; float64 both. NaN counts as rejected. The gain falls slower than 1/count, so
    that a bad start is forgotten, and fast enough to settle.
    """
    miss = probability.cpu().nan_to_num() - target
    return log_factor + count**-0.6 * (miss.mean() if len(log_factor) == 1 else miss)


def lengths(kernel: Kernel) -> list[int]:
    """Numbers of steps: the kernel's, and halves of it, rounded down; of shuffled epochs halves of their number."""
    shuffled = getattr(kernel.batches, "law", "independent") == "shuffled"
    halves = [kernel.batches.epochs if shuffled else kernel.steps]
    while halves[-1] > 1:
        halves.append(halves[-1] // 2)
    if not shuffled:
        return halves
    return list(dict.fromkeys(steps for epochs in halves if (steps := steps_of_epochs(kernel, epochs))))


def steps_of_epochs(kernel: Kernel, epochs: int) -> int | None:
    """Steps of a trajectory that takes so many epochs of minibatches, or one batch more: shuffled ones allow both.
    Where both lengths exist, the kind that the kernel has now; None where neither does."""
    batches, points = kernel.batches, kernel.word.gradient_points
    for extra in (1, 0) if batches.extra == 1 else (0, 1):
        steps, left = divmod(epochs * batches.per_epoch + extra + kernel.exact_ends - points(1), points(2) - points(1))
        if steps >= 0 and not left:
            return steps + 1
    return None


def with_steps(kernel: Kernel, steps: int) -> Kernel:
    """The kernel with trajectories of another length."""
    kernel, batches = replace(kernel, steps=steps), kernel.batches
    points = kernel.points - kernel.exact_ends
    return replace(kernel, batches=batches.with_points(points) if batches and points else None)


def check(kernel: Kernel, estimate_mass: bool) -> None:
    """Refuse what has no length to choose, or nothing to choose it by."""
    setting = ("tune.trajectory", "auto")
    if kernel.steps == 1:
        raise SettingError(*setting, "a trajectory of 1 step has no other length: give more steps, or use tune.target")
    if kernel.acceptance == "monitor" or kernel.impossible:
        reason = kernel.impossible or "every end is taken: use sampler.acceptance=metropolis"
        raise SettingError(*setting, f"there is nothing to choose by: {reason}")
    if kernel.subsampled:
        mend = "what a decision costs is not known before: use sampler.acceptance=metropolis or barker"
        raise SettingError(*setting, mend)
    if estimate_mass:
        mend = "with tune.trajectory would measure each length's moves by another mass: leave one of the two out"
        raise SettingError("mass", "estimate", mend)
    if getattr(kernel.batches, "law", None) == "shuffled":
        if not kernel.batches.epochs:
            mend = "shuffled batches of a part of an epoch have one length: use sampler.minibatches=independent"
            raise SettingError(*setting, mend)
        if len(lengths(kernel)) == 1:
            mend = "a trajectory of one shuffled epoch has no other length: give more epochs, or use tune.target"
            raise SettingError(*setting, mend)
