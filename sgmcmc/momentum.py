"""What happens to the momentum at a trajectory's start: ``full``, ``partial`` or ``keep``.

``full`` draws m = √T M^½ ε (HMC, AMAGOLD); ``partial`` is the letter O with c = α (Horowitz 1991, Neal);
``keep`` does nothing (GGMC: the word's own O's refresh).
"""

from __future__ import annotations

from torch import Tensor

from sgmcmc import flows

REFRESHES = ("full", "keep", "partial")


def begin(momentum: Tensor, noise: Tensor, policy: str, alpha: float, scale) -> Tensor:
    """The momentum that a trajectory starts with; ``scale`` is √T M^½, ``noise`` standard normal."""
    if policy == "keep":
        return momentum
    keep = 0.0 if policy == "full" else alpha
    return flows.refresh(momentum, noise, keep, (1 - keep**2) ** 0.5 * scale)


def rescale(momentum: Tensor, old_scale, new_scale) -> Tensor:
    """Kept momentum after T or M changed between trajectories: m √(T₂/T₁) M₂^½ M₁^{−½} has the new law."""
    return momentum * (new_scale / old_scale)
