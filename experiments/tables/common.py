"""What every maker of a summary table works with: the finished runs of an experiment's grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from torch import Tensor

from experiments.outcome import spans
from experiments.resolved import log_every
from sgmcmc import load_metrics, load_samples
from sgmcmc.acceptance import SUBSAMPLED
from sgmcmc.formats import read_status
from sgmcmc.loading import load_trace
from sgmcmc.words import Word

# training data of a whole set
FULL = {"cifar10": 50_000, "mnist": 60_000, "digits": 1_500, "heart": 270, "australian": 690}


def data_size(config: dict) -> int:
    """How many data a run trains on."""
    return config["data"]["train_size"] or FULL[config["data"]["name"]]


def gradients_of(config: dict, steps: int | None = None) -> int:
    """Gradients that a trajectory evaluates, of ``steps`` steps or as many as are configured.

    A full one at its start is known from the trajectory before. This and ``passes`` are ``Kernel.work`` (but for Gibbs
    updates) of a configuration alone: a run that failed cannot be built.
    """
    points = Word(config["sampler"]["word"]).gradient_points(steps or config["steps_per_cycle"])
    return points - _full_ends(config)


def passes(config: dict, steps: int | None = None) -> float:
    """Passes over the data that a trajectory takes: its gradients, and U at its end where it is corrected.

    A minibatch's gradient is its share of a pass; full gradients at both ends bring U along. What decisions on a part
    of the data look at is not in it, nor U of an uncorrected trajectory, which is only measured.
    """
    full, ends = config["sampler"]["gradient"] != "minibatch", _full_ends(config)
    share = 1.0 if full else config["batch_size"] / (data_size(config) * (config.get("views") or 1))
    corrected = config["sampler"]["acceptance"] not in ("monitor", *SUBSAMPLED)
    return ends + (gradients_of(config, steps) - ends) * share + (corrected and not ends)


def _full_ends(config: dict) -> bool:
    """Whether a trajectory starts and ends with a full gradient (``Kernel.full_ends``)."""
    sampler = config["sampler"]
    return (sampler["gradient"] == "full" or sampler["ends"] == "exact") and Word(sampler["word"]).kicks_at_both_ends


@dataclass(frozen=True)
class Run:
    """One chain of a grid (or many in one tensor): its place in the grid, configuration and folder, and how it ended.

    ``status`` is done, diverged or failed; of a failed one there may be no folder, and ``why`` says why.
    """

    number: int
    config: dict
    status: str
    path: Path
    why: str = ""

    @property
    def sampler(self) -> str:
        return self.config["sampler"]["name"]

    @property
    def draws(self) -> Tensor:
        """``[draws, chains, dim]``, those kept."""
        return load_samples(self.path)

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        return load_metrics(self.path)

    @property
    def trace(self) -> dict[str, np.ndarray]:
        return load_trace(self.path)

    @cached_property
    def facts(self) -> dict:
        """What status.json holds: seconds, cycles, frozen chains, the machines it ran on."""
        return read_status(self.path)

    def groups(self) -> Iterator[tuple[float, range]]:
        """(step size, its chains) of a run whose list of step sizes is spread over equal groups of chains: all of them,
        also those that diverged."""
        sizes = self.config["step_size"]
        sizes = sizes if isinstance(sizes, list) else [sizes]
        each = self.config["chains"] // len(sizes)
        for number, size in enumerate(sizes):
            yield size, range(number * each, (number + 1) * each)

    def alive_groups(self) -> Iterator[tuple[float, list[int], dict]]:
        """(step size, its chains, their numbers): ``groups`` without the chains that diverged and stand still since.

        The numbers are a row's: ``chains`` that are left, and ``frozen`` that are not. Where none is left, they are all
        that a row can say.
        """
        frozen = set(self.facts.get("frozen") or ())
        for size, chains in self.groups():
            alive = [chain for chain in chains if chain not in frozen]
            yield size, alive, {"chains": len(alive), "frozen": len(chains) - len(alive)}


Maker = Callable[[list[Run]], list[dict]]


def unfinished(run: Run) -> str:
    """Why a run did not finish, in words."""
    return run.why or (f"diverged at cycle {run.facts['cycles']}" if run.status == "diverged" else run.status)


def once(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Which rows of a run's metrics have each cycle once, and how many cycles each row is of.

    A chain that is run in segments has a row where each of them ends, whose cycles the next regular row has, too.
    """
    cycles = run.metrics["cycle"]
    starts, whole = spans(run.metrics, log_every(run.config))
    return whole, cycles - starts


def over_cycles(run: Run, column: str) -> float:
    """The mean of a column of a network's metrics after the burn-in; NaN where no row is of such cycles alone."""
    late, lengths = once(run)
    late &= run.metrics["cycle"] - lengths >= run.config["burn_in"]
    return float(np.average(run.metrics[column][late], weights=lengths[late])) if late.any() else float("nan")


def standard_error(values) -> float:
    """The standard error of the mean of independent ``values``; NaN of one."""
    values = np.asarray(values, dtype=float)
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")


def moved(draws: Tensor) -> Tensor:
    """Whether each draw differs from the one before, ``[draws - 1, chains]``: the proposal was accepted."""
    return (draws[1:] != draws[:-1]).any(-1)


@dataclass(frozen=True)
class Joined:
    """A maker in two parts: each run's rows, which can be made where the run lies, and the table of all of them."""

    each: Maker
    join: Callable[[list[dict]], list[dict]]

    def __call__(self, runs: list[Run]) -> list[dict]:
        return self.join(self.each(runs))


def of_each(
    rows: Callable[[Run], Iterator[dict]], settings: Callable[[Run], dict] | None = None, diverged: bool = False
) -> Maker:
    """A table that is its runs' rows one after another; one that did not finish, and has no rows, has
    one that says so.

    ``settings`` of a run are in each of its rows, finished or not. With ``diverged`` the ``rows`` of a run that
    diverged are made, too, of what it left.
    """

    def make(runs: list[Run]) -> list[dict]:
        table = []
        for run in runs:
            common = {"sampler": run.sampler, "status": run.status, **(settings(run) if settings else {})}
            if run.status != "done":
                common["why"] = unfinished(run)
            found = []
            if run.status == "done" or (diverged and run.status == "diverged"):
                took = {"seconds": run.facts.get("seconds")}
                found = [{**common, **row, **took} for row in rows(run)]
            table += found if found or run.status == "done" else [common]
        return table

    return make
