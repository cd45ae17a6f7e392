"""The length of a run, and what is recorded of it."""

from __future__ import annotations

from dataclasses import dataclass

from sgmcmc.errors import SettingError


@dataclass(frozen=True)
class Plan:
    """How long a run is, what it keeps, and what it measures.

    ``burn_in`` of the ``cycles``, the first, give no draws; of the rest every ``thin``-th is kept (``keep``:
    "all", "none", or the number of last draws). A row of metrics covers ``log_every`` cycles. A block is
    written every ``save_every`` cycles or, where that is None, as often as writing costs under 2 % of the time, at most
    once a second (and when 32 MiB of draws or 65,536 rows wait in memory), but after ``save_minutes`` (0: none) at the
    latest; within a cycle that takes longer, a checkpoint is written then.
    ``tune`` is the acceptance that the step size is tuned to during the burn-in (Robbins–Monro on log h, each chain's
    own where a list of step sizes was given, else one by the mean over all chains; then frozen); with ``trajectory`` it
    and the number of steps are chosen there (``sgmcmc.ladder``), at a given mass.
    ``estimate_mass`` estimates M before the first cycle and after each of the first ``mass_cycles`` (all of the
    burn-in's where that is None). With ``tune`` let ``mass_cycles`` be less than ``burn_in``, so that the step size is
    tuned to the mass that stays.
    ``trace`` is every how many gradient points a traced cycle is recorded; ``trace_cycles`` which, from 1 (all).
    ``epochs_per_cycle`` is for the column ``epoch`` alone. ``compile``: cycles are compiled graphs, where the target
    and the sampler can be, of networks the segments of trajectories (``sgmcmc.compiled``); a run that is continued
    stays what it was begun as. ``graph``: the steps of a network on a GPU are replayed as CUDA graphs, which changes
    no bit of eager steps, and compiled ones to rounding (``sgmcmc.captured``).

    Raises SettingError for numbers that cannot be, and for tuning without a burn-in.
    """

    cycles: int
    burn_in: int = 0
    thin: int = 1
    keep: str | int = "all"
    log_every: int = 1
    save_every: int | None = None
    save_minutes: float = 5.0
    tune: float | None = None
    trajectory: bool = False
    estimate_mass: bool = False
    mass_cycles: int | None = None
    trace: int | None = None
    trace_cycles: tuple[int, ...] = ()
    epochs_per_cycle: float = 0.0
    compile: bool = False
    graph: bool = False

    def __post_init__(self):
        if self.keep not in ("all", "none") and not (isinstance(self.keep, int) and self.keep > 0):
            raise SettingError("keep", self.keep, "must be all, none or how many of the last draws to keep")
        for name, least in (("burn_in", 0), ("thin", 1), ("log_every", 1), ("save_every", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise SettingError(name, value, f"must be at least {least}")
        if self.tune is not None and not 0 < self.tune < 1:
            raise SettingError("tune", self.tune, "is the acceptance to tune to, between 0 and 1")
        if self.tune is not None and not self.burn_in:
            raise SettingError("tune", self.tune, "tunes during the burn-in: give burn_in, in cycles")
        if self.trajectory and not self.burn_in:
            raise SettingError("trajectory", self.trajectory, "chooses during the burn-in: give burn_in, in cycles")
        if self.mass_cycles is not None and not 0 <= self.mass_cycles <= self.burn_in:
            mend = f"must be from 0 to the {self.burn_in} cycles of the burn-in"
            raise SettingError("mass_cycles", self.mass_cycles, mend)

    @property
    def mass_until(self) -> int:
        """The cycle, from 1, after which the mass is estimated last; 0: at the start alone."""
        return self.burn_in if self.mass_cycles is None else self.mass_cycles

    def kept(self, cycles: int) -> int:
        """How many draws there are after so many cycles, where all are kept."""
        return max(cycles - self.burn_in, 0) // self.thin

    def draws_after(self, cycle: int) -> bool:
        """Whether the state after the ``cycle``-th cycle, from 1, is a draw."""
        return cycle > self.burn_in and (cycle - self.burn_in) % self.thin == 0
