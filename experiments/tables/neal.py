"""Tables of Neal's talk "Non-reversible Langevin methods" (2020)."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.tables.common import Run, of_each

QUOTED_REJECTION = (0.68, 0.22, 0.37, 0.044, 0.13, 0.71, 0.22, 0.39, 0.035, 0.11)  # in his order


def _rejection(run: Run) -> Iterator[dict]:
    """Rejection over the last 90 % of each chain: the mean over chains, and how far single chains stray from it.

    Chains start dispersed, not at his low-probability point. A chain's draws are repeated by rejection, so a
    rejection is a draw equal to the one before.
    """
    draws, config = run.draws, run.config
    moved = (draws[1:] != draws[:-1]).any(-1)[len(draws) // 10 :]
    rejected = 1 - moved.double().mean(0)
    yield {
        "pairs": config["model"]["pairs"],
        "transitions": config["cycles"],
        "step_size": config["step_size"],
        "chains": config["chains"],
        "rejected": float(rejected.mean()),
        "rejected_error": float(rejected.std() / len(rejected) ** 0.5),
        "single_chain_sd": float(rejected.std()),
        "quoted": QUOTED_REJECTION[run.number],
    }


TABLES = {"neal_rejection": ("neal_rejection", of_each(_rejection))}
