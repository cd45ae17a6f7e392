"""Whether a trajectory's end becomes the next state.

``monitor`` takes every finite end, ``metropolis`` accepts with probability min(1, MH), ``barker`` with MH/(1 + MH)
(Barker 1965): both leave the target as it is, and Metropolis rejects less (Peskun 1973).

``persistent_uniform`` is Neal's non-reversible rule (2020): v ∈ (−1, 1) is part of the state, uniform and
independent of the rest; each decision moves it by δ (wrapped at both ends), accepts where |v| < MH, and
on acceptance divides it by MH. Rejections then come in clusters. It is kept as its sign and log |v|,
because MH may be too large or too small for a float.

``barker_minibatch`` and ``austerity`` decide on a part of the data, and are not exact: see ``sgmcmc.subsampled``.
"""

from __future__ import annotations

import torch
from torch import Tensor

BARKER = ("barker", "barker_minibatch")
SUBSAMPLED = ("barker_minibatch", "austerity")


def limit(rule: str) -> float:
    """The share that a rule accepts as h goes to 0: Barker's a half, the others all."""
    return 0.5 if rule in BARKER else 1.0


def metropolis(log_mh: Tensor, uniform: Tensor) -> Tensor:
    """Accept with probability min(1, MH): log u < log MH, bool ``[chains]``. NaN and −∞ are rejections."""
    return uniform.log() < log_mh


def barker(log_mh: Tensor, uniform: Tensor) -> Tensor:
    """Accept with probability MH/(1 + MH): a logistic variable, log(u/(1 − u)), below log MH. NaN and −∞ reject."""
    return uniform.logit() < log_mh


def persistent_uniform(log_mh: Tensor, sign: Tensor, log_abs: Tensor, delta: float) -> tuple[Tensor, Tensor, Tensor]:
    """Neal's rule: returns (accepted, sign of v, log |v|), all ``[chains]``.

    v ← v + δ, minus 2 where it passes 1 (plus 2 below −1); accept where log |v| < log MH; then v ← v / MH.
    """
    v = sign * log_abs.exp() + delta
    v = torch.where(v > 1, v - 2, torch.where(v < -1, v + 2, v))
    # At δ = 0 a v too small for a float keeps its own logarithm.
    log_abs = v.abs().log() if delta else log_abs
    sign = torch.where(v < 0, -1.0, 1.0).to(sign) if delta else sign
    accepted = log_abs < log_mh
    return accepted, sign, torch.where(accepted, log_abs - log_mh, log_abs)


def persistent_start(uniform: Tensor) -> tuple[Tensor, Tensor]:
    """(sign, log |v|) of v uniform on (−1, 1), from a uniform on (0, 1)."""
    v = 2 * uniform - 1
    return torch.where(v < 0, -1.0, 1.0).to(v), v.abs().log()
