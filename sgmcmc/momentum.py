"""What happens to the momentum at a trajectory's start: ``full``, ``partial`` or ``keep``.

``full`` draws m = √T M^½ ε (HMC, AMAGOLD); ``partial`` is the letter O with c = α (Horowitz 1991, Neal);
``keep`` does nothing (GGMC: the word's own O's refresh).
"""

from __future__ import annotations

import torch
from torch import Tensor

from sgmcmc.flows import held


def begin(policy: str, alpha: float, scale: float | Tensor, dtype: torch.dtype) -> tuple[float, float | Tensor] | None:
    """c and the noise's scale of the letter O that a trajectory begins with, None under ``keep``.

    ``scale``: √T M^½; ``dtype`` is the momentum's.
    """
    if policy == "keep":
        return None
    keep = 0.0 if policy == "full" else float(held(alpha, dtype))
    return keep, (1 - keep**2) ** 0.5 * scale
