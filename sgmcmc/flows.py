"""The letters of which samplers are words: flows of Langevin dynamics, each exact by itself.

State: position θ and momentum m, ``[chains, dim]``, of the density π(θ, m) ∝ exp(−(U(θ) + K(m))/T) with
K(m) = ½ mᵀ M⁻¹ m and M diagonal (``mass``, ``[dim]``; ``inverse_mass`` is 1/M).

=======  ==================================================  ==========================================
letter   flow                                                energy that it must account for
=======  ==================================================  ==========================================
A drift  θ ← θ + h M⁻¹ m                                     none: U is evaluated at a trajectory's ends
B kick   m ← m − h ∇Ũ(θ; ζ)                                  ΔK = ½ (m' − m)ᵀ M⁻¹ (m' + m)
O        m ← c m + √((1 − c²) T) M^½ ε                       none: reversible for K
E        m ← (1 − hγ) m − h ∇Ũ + √(2 γ T h) M^½ ε            has no backward trajectory
=======  ==================================================  ==========================================

Sources: Garriga-Alonso and Fortuin 2021, equations O.1 to O.2 and 5; Neal 2012; Zhang et al. 2020.
"""

from __future__ import annotations

import torch
from torch import Tensor


def drift(theta: Tensor, momentum: Tensor, duration, inverse_mass) -> Tensor:
    """A: θ + h M⁻¹ m."""
    return theta + duration * (inverse_mass * momentum)


def kick(momentum: Tensor, gradient: Tensor, duration) -> Tensor:
    """B: m − h ∇Ũ."""
    return momentum - duration * gradient


def refresh(momentum: Tensor, noise: Tensor, keep, scale) -> Tensor:
    """O: c m + s ε, where s = √((1 − c²) T) M^½ comes as ``scale`` (``[chains or 1, dim or 1]``)."""
    return keep * momentum + scale * noise


def held(keep, dtype: torch.dtype) -> Tensor:
    """c as momenta of ``dtype`` are multiplied by it, float64: the noise's scale has to be that of this c.

    √(1 − c²) of a c that is rounded afterwards refreshes to another temperature, and no decision sees it, for O counts
    as free of energy: with γh = 1e-6 in float32 to .987 T.
    """
    return torch.as_tensor(keep, dtype=torch.float64).to(dtype).double()


def euler(momentum: Tensor, gradient: Tensor, noise: Tensor, duration, keep, scale) -> Tensor:
    """E: (1 − hγ) m − h ∇Ũ + √(2γTh) M^½ ε (GGMC paper, equation 5; SGHMC)."""
    return keep * momentum - duration * gradient + scale * noise


def kinetic_change(before: Tensor, after: Tensor, inverse_mass) -> Tensor:
    """ΔK = ½ (m' − m)ᵀ M⁻¹ (m' + m), float64 ``[chains]``.

    Of the momenta as they are stored, so that the rounding of the kick itself is in it, and as one
    difference, never as that of two large sums: products in the momenta's dtype, their sum in float64.
    """
    product = (after - before) * inverse_mass * (after + before)
    return 0.5 * product.sum(-1, dtype=torch.float64)
