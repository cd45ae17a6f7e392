"""Chains: trajectory after trajectory, with what is measured, kept and written on the way.

One cycle is one trajectory, one decision, one draw. Many chains go in one tensor where the target allows
it; networks run theirs one after the other, a cycle each. Rows, draws and checkpoint are written together, in
blocks, so a killed run loses at most one block and continues bit for bit.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from sgmcmc import momentum
from sgmcmc.diagnostics import (
    Ensemble,
    configurational_temperature,
    kinetic_temperature,
    metrics,
    predictive_entropy,
)
from sgmcmc.errors import SettingError
from sgmcmc.kernel import Kernel
from sgmcmc.potentials import Potential
from sgmcmc.random import Random
from sgmcmc.trajectory import Record, State, evaluate, run_trajectory, start

RUNNING, DONE, DIVERGED, INTERRUPTED = "running", "done", "diverged", "interrupted"
HELD = 1 << 25  # bytes of draws that may wait in memory for a block to be written
MASS_BATCHES = 32  # minibatches that the mass is estimated from (Wenzel et al. 2020)


class Interrupted(BaseException):
    """A scheduler's signal (SIGTERM, SIGUSR1) or Ctrl-C arrived."""


class Signals:
    """While entered, SIGTERM, SIGUSR1 and Ctrl-C set ``arrived`` and, while ``armed``, raise Interrupted.

    A trajectory may be left at any moment, because it changes nothing before it ends; bookkeeping and
    writing may not, so they run unarmed and the signal waits for them.
    """

    def __init__(self):
        self.armed = self.arrived = False
        self._old: dict = {}

    def _handle(self, *_) -> None:
        self.arrived = True
        if self.armed:
            self.armed = False
            raise Interrupted

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
                self._old[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_) -> None:
        for number, old in self._old.items():
            signal.signal(number, old)


@dataclass(frozen=True)
class Plan:
    """How long a run is, what it keeps, and what it measures.

    ``burn_in`` of the ``cycles``, the first, give no draws; of the rest every ``thin``-th is kept (``keep``:
    "all", "none", or the number of last draws). A row of metrics covers ``log_every`` cycles. A block is
    written every ``save_every`` cycles or, where that is None, when writing costs under 2 % of the time.
    ``tune`` is the acceptance that the step size is tuned to during the burn-in (Robbins–Monro on log h;
    then frozen). ``estimate_mass`` estimates M before the first cycle and after each of the burn-in's.
    ``trace`` is every how many gradient points a traced cycle is recorded; ``trace_cycles`` which, from 1 (all).
    ``epochs_per_cycle`` is for the column ``epoch`` alone.
    """

    cycles: int
    burn_in: int = 0
    thin: int = 1
    keep: str | int = "all"
    log_every: int = 1
    save_every: int | None = None
    tune: float | None = None
    estimate_mass: bool = False
    trace: int | None = None
    trace_cycles: tuple[int, ...] = ()
    epochs_per_cycle: float = 0.0


@dataclass
class Result:
    """What ``run`` returns: status, rows of metrics, and draws ``[draws, chains, dim]`` where no store kept them."""

    status: str
    rows: list[dict] = field(default_factory=list)
    draws: Tensor | None = None
    cycles: int = 0
    accepted: int = 0  # accepted trajectories, over chains
    proposed: int = 0
    gradients: float = 0.0  # a chain's gradient evaluations, or with data its passes over them
    seconds: float = 0.0
    kernel: Kernel | None = None
    ensembles: dict[str, Ensemble] = field(default_factory=dict)
    moments: dict[str, Tensor] = field(default_factory=dict)  # of all draws, kept or not: see ``Chain.add_moments``
    frozen: list[int] = field(default_factory=list)  # chains that diverged under monitor


class Chain:
    """A run in progress: the states of its chains and everything that a checkpoint holds.

    ``initial`` is called for the starting positions ``[chains, dim]`` only where there is no checkpoint.
    ``predictions`` are data sets ``{"test": (inputs, targets), "ood": (inputs, None)}`` that ``potential.predict``
    is asked about: the current sample's and the running ensemble's quality become columns.
    """

    def __init__(
        self,
        kernel: Kernel,
        potential: Potential,
        plan: Plan,
        random: Random,
        chains: int,
        initial: Callable[[], Tensor],
        predictions: dict | None = None,
    ):
        self.kernel, self.potential, self.plan, self.random = kernel, potential, plan, random
        together = getattr(potential, "together", True)
        if plan.tune is not None and kernel.impossible:
            raise SettingError("tune.target", plan.tune, f"there is no acceptance to tune to: {kernel.impossible}")
        if plan.trace and together and chains > 1 and kernel.random_direction:
            raise SettingError("trace", plan.trace, "a random direction can be traced with one chain alone: chains=1")
        self.groups = [range(chains)] if together else [range(i, i + 1) for i in range(chains)]
        self.predictions = predictions or {}
        self.initial = initial
        self.base = kernel
        self.states: list[State] = []
        self.cycle = 0
        self.tuning = torch.zeros(1 if isinstance(kernel.step_size, float) else chains, dtype=torch.float64)
        self.mass = kernel.mass
        self.accepted = self.proposed = 0
        self.seconds = 0.0
        self.moments: dict[str, Tensor] = {}
        self.ensembles: dict[str, Ensemble] = {}
        self.fits: list[dict] = [{} for _ in self.groups]
        self.sums: dict[str, float] = {}
        self.row_start = (0, 0.0)
        self.signals = Signals()

    # -- beginning, resuming -----------------------------------------------------------------------

    def begin(self) -> None:
        """Start every chain: positions, momentum, U."""
        theta = self.initial()
        if self.plan.estimate_mass:
            self._set_mass(self._estimated_mass(theta))
        for number, group in enumerate(self.groups):
            rows = theta[group.start : group.stop].contiguous()
            self.states.append(start(self.kernel, self.potential, rows, self.random, group))
            self.fits[number] = dict(getattr(self.potential, "fit", {}))

    def checkpoint(self) -> dict:
        """Everything that the rest of the run depends on: tensors, numbers, counters."""
        return {
            "cycle": self.cycle,
            "states": [state.values() for state in self.states],
            "tuning": self.tuning,
            "mass": self.mass,
            "accepted": self.accepted,
            "proposed": self.proposed,
            "seconds": self.seconds,
            "moments": self.moments,
            "ensembles": {name: ensemble.state() for name, ensemble in self.ensembles.items()},
            "fits": self.fits,
            "sums": self.sums,
            "row_start": list(self.row_start),
        }

    def resume(self, saved: dict) -> None:
        """Continue from what ``checkpoint`` returned."""
        device = self.random.device
        self.states = [
            State(*(None if value is None else value.to(device) for value in values)) for values in saved["states"]
        ]
        self.cycle, self.accepted, self.proposed = saved["cycle"], saved["accepted"], saved["proposed"]
        self.seconds, self.fits = saved["seconds"], saved["fits"]
        self.moments = {key: _to(value, device) for key, value in saved["moments"].items()}
        self.ensembles = {name: Ensemble.from_state(value, device) for name, value in saved["ensembles"].items()}
        self.tuning, self.mass = saved["tuning"], saved["mass"]
        self.sums, self.row_start = saved["sums"], tuple(saved["row_start"])
        self.kernel = replace(self._tuned(), mass=self.mass)

    # -- one cycle ---------------------------------------------------------------------------------

    def advance(self) -> list[dict]:
        """One cycle of every chain; returns the rows of its trace, where it is traced."""
        clock, index, trace = time.perf_counter(), self.cycle, []
        traced = bool(self.plan.trace) and (not self.plan.trace_cycles or index + 1 in self.plan.trace_cycles)
        probabilities, new_states, new_fits = [], [], []
        record_sums: dict[str, float] = {}
        accepted = proposed = 0
        self.signals.armed = True
        for number, group in enumerate(self.groups):
            state = self.states[number]
            if hasattr(self.potential, "counter"):  # random augmentation: another draw for each evaluation of U
                self.potential.counter = (index + 1) * len(self.groups) + number
            observe = self._observer(state, index, group, trace) if traced else None
            kernel = self.kernel if len(self.groups) == 1 else self.kernel.rows(torch.tensor([number]))
            state, record = run_trajectory(kernel, self.potential, state, self.random, index, group, observe)
            kept = bool(record.accepted.all())
            new_fits.append(dict(getattr(self.potential, "fit", {})) if kept else self.fits[number])
            probabilities.append(record.accept_prob)
            _add(record_sums, record, state.alive)
            accepted += int(record.accepted.sum())
            proposed += len(record.accepted)
            new_states.append(self._gibbs(state, index, group))
        # From here on the cycle counts: an interruption before this line leaves the chain as it was.
        self.signals.armed = False
        self.states, self.fits = new_states, new_fits
        for key, value in record_sums.items():
            self.sums[key] = self.sums.get(key, 0.0) + value
        self.accepted += accepted
        self.proposed += proposed
        self.cycle += 1
        if self.cycle <= self.plan.burn_in:
            self._adapt(torch.cat(probabilities))
        self.seconds += time.perf_counter() - clock
        return trace

    def _gibbs(self, state: State, index: int, group: range) -> State:
        """Other Markov updates between trajectories; U and its gradient are the new position's."""
        gibbs = getattr(self.potential, "gibbs", None)
        if gibbs is None:
            return state
        theta = gibbs(state.theta, self.kernel.temperature, self.random, index, group)
        state = replace(state, theta=torch.where(state.alive[:, None], theta, state.theta))  # a frozen chain stays
        evaluate(self.kernel, self.potential, state)
        return state

    def _adapt(self, probability: Tensor) -> None:
        """Between trajectories of the burn-in: tune the step size, estimate the mass."""
        if self.plan.tune is not None:
            miss = probability.cpu().nan_to_num() - self.plan.tune
            gain = self.cycle**-0.6
            self.tuning = self.tuning + gain * (miss.mean() if len(self.tuning) == 1 else miss)
            self.kernel = replace(self._tuned(), mass=self.mass)
        if self.plan.estimate_mass:
            self._set_mass(self._estimated_mass(torch.cat([state.theta for state in self.states])))

    def _tuned(self) -> Kernel:
        if self.plan.tune is None:
            return self.base
        factor = self.tuning.exp()
        step_size = self.base.step_size * (float(factor) if len(factor) == 1 else factor[:, None])
        return replace(self.base, step_size=step_size)

    def _set_mass(self, mass: Tensor) -> None:
        # T does not change, and may be 0: the scales' ratio is that of √M.
        ratio = momentum.rescale(torch.ones((), dtype=torch.float64), self.kernel.mass**0.5, mass**0.5)
        self.mass = mass
        self.kernel = replace(self._tuned(), mass=mass)
        for state in self.states:
            state.momentum = state.momentum * ratio.to(state.momentum)

    def _estimated_mass(self, theta: Tensor) -> Tensor:
        """M = √(mean of squared gradients), a number a parameter tensor, the smallest 1 (REFERENCE: Wenzel 2020).

        Of the gradient of U/N over 32 minibatches, over chains and over the tensor's elements; targets
        without parameter tensors get a number a coordinate; coordinates that do not move have 1. Float64 ``[dim]``.
        """
        size = max(self.potential.data_size, 1)
        square = torch.zeros(self.potential.dim, dtype=torch.float64, device=theta.device)
        batches = self.kernel.batches
        for number in range(MASS_BATCHES):
            for group in self.groups:
                rows = theta[group.start : group.stop]
                chains = torch.arange(group.start, group.stop, device=theta.device)
                batch = None
                if batches is not None:
                    # Trajectories from the end of the counter's range, which no chain reaches.
                    far = 2**62 + self.cycle * MASS_BATCHES + number
                    batch = batches.with_points(1).draw(self.random, far, chains)(0)
                gradient = self.potential.gradient(rows, batch) / size
                square += gradient.double().square().sum(0) / (len(theta) * MASS_BATCHES)
        for _, block in getattr(self.potential, "blocks", []):
            square[block] = square[block].mean()
        mass = (square + 1e-7).sqrt().cpu()  # as the checkpoint gives it back
        moves = getattr(self.potential, "moves", None)
        return mass / mass.min() if moves is None else torch.where(moves.cpu(), mass / mass[moves.cpu()].min(), 1.0)

    def add_moments(self, theta: Tensor) -> None:
        """Count a draw ``[chains, dim]`` into the running moments (Welford): ``count``, and ``mean`` and ``m2`` float64
        ``[chains, dim]``, the sum of squared deviations from the mean."""
        theta = theta.double()
        if not self.moments:
            self.moments = {"count": 0, "mean": torch.zeros_like(theta), "m2": torch.zeros_like(theta)}
        count, delta = self.moments["count"] + 1, theta - self.moments["mean"]
        mean = self.moments["mean"] + delta / count
        self.moments = {"count": count, "mean": mean, "m2": self.moments["m2"] + delta * (theta - mean)}

    @property
    def share(self) -> float:
        """The part of the data that one gradient sees (1 where there are none, and for full gradients)."""
        batches = self.kernel.batches
        return getattr(batches, "batch_size", 1) / max(getattr(batches, "data_size", 1), 1)

    # -- what is measured --------------------------------------------------------------------------

    def _observer(self, state: State, index: int, group: range, trace: list[dict]):
        """Record a traced cycle: log MH with a minibatch U in place of the exact one, U a datum, temperature."""
        kernel, potential, begun = self.kernel, self.potential, state.potential
        inverse_mass, size = kernel.inverse_mass, max(potential.data_size, 1)
        estimate = getattr(potential, "estimate", None)

        def observe(point: int, theta: Tensor, m: Tensor, energy: Tensor, batch: Tensor | None) -> None:
            if point % self.plan.trace and point != kernel.points - 1:
                return
            exact = batch is None or estimate is None
            value = potential.potential(theta) if exact else estimate(theta, batch)
            log_mh = -(value - begun + energy) / kernel.temperature if kernel.temperature else value * math.nan
            temperature = kinetic_temperature(m, _like(inverse_mass, m))
            for row, chain in enumerate(group):
                trace.append(
                    {
                        "cycle": index + 1,
                        "chain": chain,
                        "step": index * kernel.steps + point,
                        "exact": int(exact),
                        "log_accept": float(log_mh[row]),
                        "potential_per_datum": float(value[row]) / size,
                        "kinetic_temperature": float(temperature[row]),
                    }
                )

        return observe

    def row(self) -> dict:
        """A row of metrics: means over the cycles since the last regular one and over the chains that are alive.

        The run's last row may come before the next regular end, every ``log_every`` cycles: a longer run has that
        row besides its own.
        """
        boundary = self.cycle % self.plan.log_every == 0
        plan, kernel, potential = self.plan, self.kernel, self.potential
        first, began = self.row_start
        sums, size = self.sums, max(potential.data_size, 1)
        number = sums.get("number", 0.0) or math.nan
        finite = sums["finite"]
        row = {
            "cycle": self.cycle,
            "epoch": self.cycle * plan.epochs_per_cycle,
            "step": self.cycle * kernel.steps,
            "potential": sums["potential"] / number,
            "potential_per_datum": sums["potential"] / number / size,
            "delta_potential": sums["delta_potential"] / finite if finite else math.nan,
            "delta_kinetic": sums["delta_kinetic"] / finite if finite else math.nan,
            "log_accept": sums["log_accept"] / finite if finite and not kernel.impossible else -math.inf,
            "accept_prob": sums["accept_prob"] / number,
            "accepted": sums["accepted"] / number,
            "not_finite": int(sums["not_finite"]),
            "alive": sum(int(state.alive.sum()) for state in self.states),
            "step_size": float(torch.as_tensor(kernel.step_size, dtype=torch.float64).mean()),
            **self._temperatures(),
            **self._fit(),
            **self._predict(boundary),
        }
        row["seconds"] = self.seconds
        row["steps_per_second"] = (self.cycle - first) * kernel.steps / max(self.seconds - began, 1e-9)
        if boundary:
            self.sums, self.row_start = {}, (self.cycle, self.seconds)
        return row

    def _temperatures(self) -> dict:
        """Kinetic mᵀM⁻¹m/d and configurational ⟨θ, ∇U⟩/d, means over chains; both should be T."""
        kinetic, configurational = [], []
        moves = getattr(self.potential, "moves", None)
        moves = slice(None) if moves is None else moves
        # ⟨θ, ∇U⟩ has no expectation in coordinates with a flat prior.
        std = getattr(self.potential, "std", None)
        proper = moves if std is None else torch.isfinite(std)
        for group, state in zip(self.groups, self.states, strict=True):
            inverse_mass = _like(self.kernel.inverse_mass, state.theta)
            inverse_mass = inverse_mass[moves] if isinstance(inverse_mass, Tensor) else inverse_mass
            gradient = self._diagnostic_gradient(state, group)
            kinetic.append(kinetic_temperature(state.momentum[:, moves], inverse_mass)[state.alive])
            theta, gradient = state.theta[:, proper], gradient[:, proper]
            configurational.append(configurational_temperature(theta, gradient)[state.alive])
        return {
            "kinetic_temperature": float(torch.cat(kinetic).mean()),
            "configurational_temperature": float(torch.cat(configurational).mean()),
        }

    def _diagnostic_gradient(self, state: State, group: range) -> Tensor:
        """The full gradient; for networks that do not have it, the mean of a twentieth of a cycle's minibatches."""
        if state.gradient is not None:
            return state.gradient
        if getattr(self.potential, "together", True) or self.kernel.batches is None:
            return self.potential.gradient(state.theta)
        number = min(max(self.kernel.points // 20, 1), MASS_BATCHES)
        chains = torch.arange(group.start, group.stop, device=state.theta.device)
        batches = self.kernel.batches.with_points(number).draw(self.random, 2**61 + self.cycle, chains)
        return sum(self.potential.gradient(state.theta, batches(point)) for point in range(number)) / number

    def _fit(self) -> dict:
        """What the target said of its fit when U of the current states was evaluated, mean over the chains."""
        keys = self.fits[0].keys()
        return {key: sum(fit[key] for fit in self.fits) / len(self.fits) for key in keys}

    def _predict(self, boundary: bool) -> dict:
        """The current samples' and the running ensemble's quality on each of the prediction sets.

        The ensemble is of the samples after the burn-in at the rows' regular ends (``boundary``), of chains alive.
        """
        columns = {}
        for name, (inputs, targets) in self.predictions.items():
            members = torch.cat([self.potential.predict(state.theta, inputs) for state in self.states])
            alive = torch.cat([state.alive for state in self.states])
            members = members[alive] if bool(alive.any()) else members
            if name not in self.ensembles:
                self.ensembles[name] = Ensemble(*members.shape[1:], device=members.device)
            ensemble = self.ensembles[name]
            if boundary and self.cycle > self.plan.burn_in and bool(alive.any()):
                ensemble.add(members)
            empty = not int(ensemble.count)
            if targets is None:
                columns[f"{name}_entropy"] = float(predictive_entropy(members).mean())
                columns[f"{name}_ensemble_entropy"] = float(predictive_entropy(ensemble.probabilities).mean())
                continue
            single, joint = metrics(members, targets), metrics(ensemble.probabilities, targets)
            columns |= {f"{name}_{key}": float(single[key].mean()) for key in ("nll", "accuracy")}
            columns |= {f"{name}_ensemble_{key}": math.nan if empty else float(joint[key]) for key in joint}
        return columns


def run(
    kernel: Kernel,
    potential: Potential,
    plan: Plan,
    random: Random,
    chains: int,
    initial: Callable[[], Tensor],
    predictions: dict | None = None,
    store=None,
    report: Callable[[Chain, dict | None], None] | None = None,
) -> Result:
    """Run ``plan.cycles`` cycles of every chain, from the store's last checkpoint where it has one.

    ``store`` is a ``RunFolder`` or None: then rows and draws are kept in memory. ``report`` is called after
    each cycle with the chain and the row of metrics that the cycle completed, or None. Interrupted by a signal,
    the run writes what is complete and returns with status "interrupted".
    """
    chain = Chain(kernel, potential, plan, random, chains, initial, predictions)
    saved = store.load() if store else None
    result = Result(RUNNING)
    draws: list[Tensor] = []
    pending = {"rows": [], "draws": [], "trace": []}

    def commit() -> float:
        clock = time.perf_counter()
        if store:
            block = torch.stack(pending["draws"]) if pending["draws"] else None
            store.commit(pending["rows"], block, chain.checkpoint(), pending["trace"])
        else:
            draws.extend(pending["draws"])
        for part in pending.values():
            part.clear()
        return time.perf_counter() - clock

    with chain.signals as signals:
        try:
            if saved is None:
                signals.armed = True  # the warm start may be left, too
                chain.begin()
                signals.armed = False
            else:
                chain.resume(saved)
            cost, written, held = 0.0, time.perf_counter(), 0
            if saved is None and store:
                cost = commit()
            status = _finished(chain, plan)
            while status == RUNNING and not signals.arrived:
                pending["trace"] += chain.advance()
                past = chain.cycle - plan.burn_in
                due_draw = past > 0 and past % plan.thin == 0
                if due_draw:
                    theta = torch.cat([state.theta for state in chain.states])
                    chain.add_moments(theta)
                if due_draw and plan.keep != "none":
                    pending["draws"].append(theta.cpu())
                    held += pending["draws"][-1].nbytes
                row, status = None, _finished(chain, plan)
                if chain.cycle % plan.log_every == 0 or status != RUNNING:
                    row = chain.row()
                    pending["rows"].append(row)
                    result.rows.append(row)
                if plan.save_every:
                    due = chain.cycle % plan.save_every == 0
                else:
                    due = time.perf_counter() - written > max(50 * cost, 1.0) or held > HELD
                if store and due and status == RUNNING:
                    cost, held = commit(), 0
                    written = time.perf_counter()
                if report:
                    report(chain, row)
        except Interrupted:
            status = RUNNING
        if status == RUNNING:
            status = INTERRUPTED
        if chain.states and (pending["rows"] or pending["draws"] or chain.cycle):
            commit()
    result.status = status
    result.draws = torch.stack(draws) if draws else None
    result.cycles, result.accepted, result.proposed = chain.cycle, chain.accepted, chain.proposed
    result.gradients = chain.cycle * max(kernel.points, 1) * chain.share
    result.moments = chain.moments
    result.frozen = [
        group[int(row)]
        for group, state in zip(chain.groups, chain.states, strict=False)  # no states yet: interrupted at the start
        for row in torch.nonzero(~state.alive).flatten()
    ]
    result.seconds, result.kernel, result.ensembles = chain.seconds, chain.kernel, chain.ensembles
    return result


def _finished(chain: Chain, plan: Plan) -> str:
    if not any(bool(state.alive.any()) for state in chain.states):
        return DIVERGED
    return DONE if chain.cycle >= plan.cycles else RUNNING


def _add(sums: dict[str, float], record: Record, alive: Tensor) -> None:
    """Add one trajectory's sums over the chains that are alive after it."""
    use = alive | record.accepted
    whole = torch.isfinite(record.delta_potential) & torch.isfinite(record.delta_kinetic)
    finite = use & whole
    for name in ("delta_potential", "delta_kinetic", "log_accept"):
        value = getattr(record, name)
        _accumulate(sums, name, torch.where(finite, value, 0.0).nan_to_num(neginf=0.0).sum())
    _accumulate(sums, "potential", record.potential[use].sum())
    _accumulate(sums, "accept_prob", record.accept_prob[use].sum())
    _accumulate(sums, "accepted", record.accepted[use].sum())
    _accumulate(sums, "number", use.sum())
    _accumulate(sums, "finite", finite.sum())
    _accumulate(sums, "not_finite", (~whole).sum())


def _accumulate(sums: dict[str, float], name: str, value: Tensor) -> None:
    sums[name] = sums.get(name, 0.0) + float(value)


def _to(value, device):
    return value.to(device) if isinstance(value, Tensor) else value


def _like(value, like: Tensor):
    return value.to(like) if isinstance(value, Tensor) else value
