"""What changes between the trajectories of a burn-in, and never after it: step size, length, mass."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from sgmcmc.acceptance import limit
from sgmcmc.errors import SettingError
from sgmcmc.kernel import Kernel, check_growth
from sgmcmc.ladder import Ladder, check, scaled, tuned
from sgmcmc.plan import Plan
from sgmcmc.potentials import Potential


class Adaptation:
    """The kernel of each cycle: ``base`` with the step size that ``tuning`` (log factors on h, ``[1]`` or ``[chains]``)
    has come to, or step size and length of the ``ladder``, and the ``mass``.

    Raises SettingError where the plan tunes what cannot be tuned.
    """

    def __init__(self, base: Kernel, potential: Potential, plan: Plan, chains: int, share: float):
        tunes = plan.tune is not None
        self.tunes = tunes or plan.trajectory  # whether the step size is not what was given
        if tunes and base.impossible:
            raise SettingError("tune.target", plan.tune, f"there is no acceptance to tune to: {base.impossible}")
        if tunes and plan.tune >= limit(base.acceptance):
            raise SettingError("tune.target", plan.tune, "Barker's rule accepts less than a half at any step size")
        if tunes or plan.trajectory:
            check_growth(base, "tuning")
        self.base, self.target, self.mass = base, plan.tune, base.mass
        # With the mass that stays the step size is looked for anew, in large steps first.
        self.begins = plan.mass_until if plan.estimate_mass else 0
        self.tuning = torch.zeros(1 if isinstance(base.step_size, float) else chains, dtype=torch.float64)
        self.ladder: Ladder | None = None
        if plan.trajectory:
            check(base, plan.estimate_mass)
            self.ladder = Ladder(base, potential, plan.burn_in, plan.tune, share)

    def kernel(self, cycle: int) -> Kernel:
        """What the ``cycle``-th cycle, from 0, is run with."""
        if self.ladder:
            kernel = self.ladder.kernel(cycle)
        else:
            kernel = self.base if self.target is None else scaled(self.base, self.tuning)
        return replace(kernel, mass=self.mass)

    def saw(self, cycle: int, probability: Tensor, alive: Tensor, jump: float | None) -> bool:
        """Tune by the probabilities of acceptance ``[chains]`` of the ``cycle``-th cycle, from 0, and by the mean
        squared ``jump``, which only a ladder needs; chains that are not ``alive`` count for nothing, and keep a factor
        of their own. Whether the kernel is another one now."""
        if self.ladder:
            self.ladder.saw(cycle, probability, jump)
        elif self.target is not None:
            count = cycle + 1 - (self.begins if cycle >= self.begins else 0)
            shared = len(self.tuning) == 1
            anew = tuned(self.tuning, probability[alive] if shared else probability, self.target, count)
            self.tuning = anew if shared else torch.where(alive.cpu(), anew, self.tuning)
        return self.tunes

    def values(self) -> dict:
        """As a checkpoint holds it."""
        return {"tuning": self.tuning, "ladder": self.ladder and self.ladder.values(), "mass": self.mass}

    def resume(self, values: dict) -> None:
        """Continue from what ``values`` returned."""
        self.tuning, self.mass = values["tuning"], values["mass"]
        if self.ladder:
            self.ladder.resume(values["ladder"])
