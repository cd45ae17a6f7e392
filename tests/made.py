"""Finished runs whose draws, metrics, trace and facts are given: what makers of tables are tested on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from torch import Tensor

from experiments.tables.common import Run


@dataclass(frozen=True)
class MadeRun(Run):
    """``MadeRun(config=…, draws=…)`` instead of a folder; what is not given is missing. ``facts`` are status.json's."""

    number: int = 0
    config: dict = field(default_factory=dict)
    status: str = "done"
    path: Path | None = None
    draws: Tensor | None = None
    metrics: dict[str, np.ndarray] | None = None
    trace: dict[str, np.ndarray] | None = None
    facts: dict = field(default_factory=dict)
