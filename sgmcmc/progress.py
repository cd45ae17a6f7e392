"""What a run has come to: its numbers, moments of the draws, what is not written yet, the cycle that is under way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sgmcmc.plan import Plan
from sgmcmc.trajectory import Place, Record, State, UnderWay

WAITING = 1 << 25  # bytes of draws that may wait in memory for a block to be written
ROWS = 1 << 16  # rows of the tables that may wait: 65 MB. Of cheap cycles each takes more than its share to write
AT_ONCE = 1024  # draws that are put into one tensor: one of its own takes 600 bytes beside its numbers

# What a row of metrics sums up over its cycles and the chains that are alive; the first three where they are finite.
SUMS = ("delta_potential", "delta_kinetic", "log_accept", "potential", "accept_prob", "accepted")
SUMS += ("number", "finite", "not_finite", "data")


def summed(record: Record, before: Tensor, alive: Tensor) -> Tensor:
    """``SUMS`` of one trajectory over the chains that are alive after it, float64 ``[len(SUMS)]``.

    ``number`` counts these chains, ``finite`` those whose energies are finite, and ``not_finite``, of the chains that
    were alive ``before``, the ends that are not and so could not be taken: a chain that diverges counts there once.
    """
    use = alive | record.accepted
    # What is accepted is finite, though its U may not have been evaluated.
    whole = record.accepted | torch.isfinite(record.delta_potential) & torch.isfinite(record.delta_kinetic)
    finite = use & whole
    changes = (record.delta_potential, record.delta_kinetic, record.log_accept)
    numbers = [torch.where(finite, value, 0.0).nan_to_num(neginf=0.0) for value in changes]
    numbers += [torch.where(use, value, 0.0) for value in (record.potential, record.accept_prob, record.accepted)]
    data = torch.where(use, record.data, 0.0)
    return torch.stack([one.to(torch.float64) for one in (*numbers, use, finite, before & ~whole, data)]).sum(-1)


@dataclass
class Moments:
    """Running moments of draws (Welford): their number, and mean and sum of squared deviations ``[chains, dim]``."""

    count: Tensor  # float64, no dimension
    mean: Tensor  # float64
    m2: Tensor  # float64

    @classmethod
    def none(cls, theta: Tensor) -> Moments:
        """Those of no draw, of chains at ``theta`` ``[chains, dim]``."""
        zeros = torch.zeros_like(theta, dtype=torch.float64)
        return cls(zeros.new_zeros(()), zeros, zeros.clone())

    def counting(self, theta: Tensor, weight) -> Moments:
        """With one draw more (``weight`` 1), or as they are (0)."""
        count, delta = self.count + weight, theta.double() - self.mean
        mean = self.mean + weight * delta / count.clamp(min=1)
        return Moments(count, mean, self.m2 + weight * delta * (theta.double() - mean))

    def values(self) -> dict:
        """As a checkpoint and ``Result`` hold them; empty before the first draw."""
        count = int(self.count)
        return {"count": count, "mean": self.mean, "m2": self.m2} if count else {}


@dataclass
class Tally:
    """What all cycles so far have come to, and what of it was so when the row of metrics in progress began.

    ``sums`` are the row's (``SUMS``), ``chances`` each chain's sum of ``accept_prob`` ``[chains]``, float64 both, since
    the start, or the end of the burn-in. ``gradients`` and ``energies`` are of one chain, in passes over the data (see
    ``Kernel.work``), ``looked`` the data that decisions looked at, over chains, as are the numbers of trajectories.
    """

    sums: Tensor
    chances: Tensor
    steps: int = 0
    gradients: float = 0.0
    energies: float = 0.0
    proposed: int = 0
    burnt: tuple[int, int] = (0, 0)  # accepted and proposed of the burn-in
    seconds: float = 0.0  # of all cycles that are over
    clock: float | None = None  # when the cycle in progress was begun, or gone on with
    # before the row's cycles
    steps_before: int = 0
    seconds_before: float = 0.0
    accepted_before: int = 0
    looked_before: float = 0.0

    @classmethod
    def none(cls, chains: int, device: torch.device) -> Tally:
        """That of no cycle."""
        return cls(*(torch.zeros(size, dtype=torch.float64, device=device) for size in (len(SUMS), chains)))

    @property
    def accepted(self) -> int:
        """Accepted trajectories."""
        return self.accepted_before + int(self.sums[SUMS.index("accepted")])

    @property
    def looked(self) -> float:
        """Data that decisions have looked at."""
        return self.looked_before + float(self.sums[SUMS.index("data")])

    @property
    def spent(self) -> float:
        """Seconds of all cycles, with those of the one in progress."""
        return self.seconds + (time.perf_counter() - self.clock if self.clock else 0.0)

    def count(self, steps: int, cost: tuple[float, float]) -> None:
        """One cycle more, of so many steps, gradients and energies, the sums of which are added already."""
        self.proposed += len(self.chances)
        self.steps += steps
        self.gradients, self.energies = self.gradients + cost[0], self.energies + cost[1]

    def end_burn_in(self) -> None:
        """Count what was accepted so far as the burn-in's, and the chances of acceptance anew."""
        self.burnt, self.chances = (self.accepted, self.proposed), torch.zeros_like(self.chances)

    def stop(self) -> None:
        """The cycle in progress is over, and all that belongs to it."""
        self.seconds, self.clock = self.spent, None

    def end_row(self) -> None:
        """Another row begins."""
        self.accepted_before, self.looked_before = self.accepted, self.looked
        self.steps_before, self.seconds_before = self.steps, self.seconds
        self.sums = torch.zeros_like(self.sums)

    def values(self) -> dict:
        """As a checkpoint holds it."""
        return {
            "work": [self.steps, self.steps_before],
            "evaluated": [self.gradients, self.energies, self.looked],
            "accepted": self.accepted,
            "proposed": self.proposed,
            "burnt": list(self.burnt),
            "chances": self.chances,
            "seconds": self.spent,
            "sums": dict(zip(SUMS, self.sums.tolist(), strict=True)),
            "row_start": [self.seconds_before],
        }

    @classmethod
    def of(cls, saved: dict, device: torch.device) -> Tally:
        """From what ``values`` returned."""
        sums = torch.tensor([saved["sums"][name] for name in SUMS], dtype=torch.float64, device=device)
        tally = cls(sums, saved["chances"].to(device), seconds=saved["seconds"])
        tally.proposed, tally.burnt = saved["proposed"], tuple(saved["burnt"])
        tally.steps, tally.steps_before = saved["work"]
        tally.gradients, tally.energies, looked = saved["evaluated"]
        tally.seconds_before = saved["row_start"][-1]
        tally.accepted_before = saved["accepted"] - int(saved["sums"]["accepted"])
        tally.looked_before = looked - saved["sums"]["data"]
        return tally


class Unwritten:
    """Rows, draws ``[n, chains, dim]`` and the trace of a run since its last block, and when the next block is due.

    Without a ``store`` nothing is ever written: they stay here, of draws only as many as ``plan.keep`` says.
    """

    def __init__(self, plan: Plan, store):
        self.plan, self.store = plan, store
        self.rows: list[dict] = []
        self.draws: list[Tensor] = []
        self.trace: list[dict] = []
        self._written, self._cost, self._bytes = time.perf_counter(), 0.0, 0  # when, seconds it took, of the draws
        self._single = 0  # draws at the list's end that are tensors of their own

    def add_draw(self, theta: Tensor) -> None:
        """Keep a draw."""
        self.draws.append(theta[None])
        self._bytes += theta.nbytes
        if not self.store and self.plan.keep != "all":
            del self.draws[: -self.plan.keep]
            return
        self._single += 1
        if self._single == AT_ONCE:
            self.draws[-AT_ONCE:] = [torch.cat(self.draws[-AT_ONCE:])]
            self._single = 0

    def due(self, cycle: int) -> bool:
        """Whether a block is to be written after this cycle (see ``Plan``)."""
        if not self.store:
            return False
        if self.plan.save_every:
            return cycle % self.plan.save_every == 0
        if self._bytes > WAITING or len(self.rows) + len(self.trace) > ROWS or self.long_ago:
            return True
        return time.perf_counter() - self._written > max(50 * self._cost, 1.0)

    @property
    def long_ago(self) -> bool:
        """Whether so many minutes have passed since the last block that one is to be written within a cycle."""
        minutes = self.plan.save_minutes
        return bool(self.store and minutes) and time.perf_counter() - self._written > 60 * minutes

    def write(self, checkpoint: Callable[[], dict]) -> None:
        """Write a block with what ``checkpoint()`` returns, where there is a store."""
        if not self.store:
            return
        clock = time.perf_counter()
        draws = torch.cat(self.draws) if self.draws else None
        self.store.commit(self.rows, draws, checkpoint(), self.trace, self.plan.keep)
        for part in (self.rows, self.draws, self.trace):
            part.clear()
        self._written = time.perf_counter()
        self._cost, self._bytes, self._single = self._written - clock, 0, 0


def traced(rows: list[dict]) -> list[dict]:
    """The rows of a trace in plain numbers."""
    return [{key: value.item() if isinstance(value, Tensor) else value for key, value in row.items()} for row in rows]


@dataclass
class Unfinished:
    """A cycle in progress: states, fits and probabilities of acceptance of the groups of chains that are through, the
    sums of their row (``SUMS``), and where the next group's trajectory stands."""

    states: list[State]
    fits: list[dict]
    probabilities: list[Tensor]
    sums: Tensor
    trace: list[dict]  # of a traced cycle, with the rows of the group that is under way
    under_way: UnderWay = field(default_factory=UnderWay)

    @property
    def point(self) -> int:
        """How many gradients of the trajectory under way are behind it."""
        return max((place.point for place in self.under_way.places.values()), default=0)

    def values(self, step: int, gradients: int = 1) -> dict:
        """As a checkpoint holds it: tensors, numbers and strings. ``step`` is the cycle's first, of so many gradients
        each."""
        seen = step + self.point / gradients  # a row of the trace may be there before the place behind it is
        through = sum(len(state.theta) for state in self.states)
        return {
            "states": [state.values() for state in self.states],
            "fits": self.fits,
            "probabilities": self.probabilities,
            "sums": self.sums,
            "trace": traced([row for row in self.trace if row["chain"] < through or row["step"] < seen]),
            "places": [vars(place) for place in self.under_way.places.values()],
        }

    @classmethod
    def of(cls, values: dict, device: torch.device) -> Unfinished:
        """From what ``values`` returned."""

        def here(value):
            return value.to(device) if isinstance(value, Tensor) else value

        states = [State(*map(here, state)) for state in values["states"]]
        places = [Place(**{name: here(value) for name, value in place.items()}) for place in values["places"]]
        probabilities, sums = list(map(here, values["probabilities"])), here(values["sums"])
        return cls(states, values["fits"], probabilities, sums, values["trace"], UnderWay(places))
