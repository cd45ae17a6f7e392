"""Step sizes inside a trajectory and from one trajectory to the next.

A schedule's factor multiplies the learning rate ℓ = N h², so the step size h is multiplied by its square
root; c and b follow from each step's own h. ``cosine`` and ``palindromic_cosine`` vary inside a trajectory
(one cycle), ``stairs`` between trajectories, where any change keeps exactness.

The cosine goes from high to low (Zhang et al. 2019) and does not read the same backwards, so its acceptance
cannot be had from the kicks' energies (GGMC paper, appendix C) unless its direction is drawn at random for
each trajectory (``direction="random"``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral

from sgmcmc.errors import SettingError, one_of
from sgmcmc.words import Word

SCHEDULES = ("constant", "cosine", "palindromic_cosine", "stairs")
DIRECTIONS = ("forward", "random")
STAIRS = ("every", "factor")  # what of a ``Schedule`` is of stairs alone


@dataclass(frozen=True)
class Schedule:
    """``name`` and ``direction`` (forward or random); ``every`` and ``factor`` are those of ``stairs``:
    ℓ is multiplied by ``factor`` after each ``every`` trajectories."""

    name: str = "constant"
    direction: str = "forward"
    every: int = 15
    factor: float = 0.1

    def __post_init__(self):
        """Raise SettingError for a name or a direction that there is not, and for impossible numbers."""
        one_of("schedule", self.name, SCHEDULES)
        one_of("schedule.direction", self.direction, DIRECTIONS)
        if not (isinstance(self.every, Integral) and self.every >= 1):
            raise SettingError("schedule.every", self.every, "must be a whole number, at least 1")
        if not 0 < self.factor < math.inf:
            raise SettingError("schedule.factor", self.factor, "must be a positive number")

    def factors(self, steps: int, trajectory: int) -> list[float]:
        """The factors on h of the ``steps`` steps of the given trajectory.

        They are roots of those on ℓ: of step i of n ½ (1 + cos(π i/n)) in a ``cosine`` (Zhang et al. 2019) and
        ½ (1 − cos(2π (i + ½)/n)) in a ``palindromic_cosine``.
        """
        if self.name == "cosine":
            rates = [0.5 * (1 + math.cos(math.pi * i / steps)) for i in range(steps)]
        elif self.name == "palindromic_cosine":
            rates = [0.5 * (1 - math.cos(2 * math.pi * (i + 0.5) / steps)) for i in range(steps)]
            # To the bit the same backwards, which rounded cosines are not.
            rates = [0.5 * (rate + mirror) for rate, mirror in zip(rates, rates[::-1], strict=True)]
        elif self.name == "stairs":
            rates = [self.factor ** (trajectory // self.every)] * steps
        else:
            rates = [1.0] * steps
        return [math.sqrt(rate) for rate in rates]

    def check(self, trajectories: int) -> None:
        """Raise SettingError where the step size of the last of so many trajectories is no number, or 0."""
        if self.name != "stairs":
            return
        try:
            last = float(self.factor) ** ((trajectories - 1) // self.every)
        except OverflowError:
            last = math.inf
        if not 0 < last < math.inf:
            mend = f"takes the step size out of the range of numbers within {trajectories} cycles: give one nearer 1"
            raise SettingError("schedule.factor", self.factor, f"{mend}, or a larger schedule.every")

    def varies_between(self) -> bool:
        """Whether two trajectories can have different step sizes."""
        return self.name == "stairs"

    @property
    def one_sided(self) -> str | None:
        """Why the schedule does not read the same backwards, or None where it does."""
        return "the cosine schedule does not read the same backwards" if self.name == "cosine" else None


def why_impossible(word: Word, schedule: Schedule, temperature: float) -> str | None:
    """Why log MH cannot be had from the energies of a trajectory's kicks, or None where it can."""
    if word.euler:
        return "the Euler-Maruyama letter E has no backward trajectory (GGMC paper, theorem 1)"
    if temperature == 0:
        return "log MH needs temperature > 0"
    if schedule.direction == "random":
        return None
    reason = word.one_sided or schedule.one_sided
    if not reason and schedule.name == "palindromic_cosine" and word.leading_refresh:
        reason = f"under a schedule the O's of {word.letters} do not read the same backwards"
    return reason and f"{reason}, and its direction is not drawn at random (schedule.direction=random)"
