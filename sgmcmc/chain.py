"""Chains: trajectory after trajectory, with what is measured, kept and written on the way.

One cycle is one trajectory, one decision, one draw. Many chains go in one tensor where the target allows it; networks
otherwise run their chains one after another, a cycle each. Rows, draws and checkpoint are written together, in blocks,
so a killed run loses at most one block and continues bit for bit. Of a cycle in progress a checkpoint holds where its
trajectory stands, so a signal costs a step or two (where steps are replayed as graphs, some gradients more), and a kill
the minutes since the last checkpoint.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor

from sgmcmc.adaptation import Adaptation
from sgmcmc.arguments import numbers
from sgmcmc.captured import Captured
from sgmcmc.checks import check_finite, check_probabilities, check_same_target, check_target
from sgmcmc.compiled import Compiled, Normals, Segments, why_eager
from sgmcmc.data.minibatches import Minibatches
from sgmcmc.diagnostics import Ensemble
from sgmcmc.errors import SettingError
from sgmcmc.formats import Damaged, read_checkpoint
from sgmcmc.inductor import CannotCompile
from sgmcmc.interrupt import Interrupted, Signals
from sgmcmc.kernel import Kernel, check_decay
from sgmcmc.measured import diagnostic_gradient, estimated_mass, mass_gradients, observer, predicted, temperatures
from sgmcmc.plan import Plan
from sgmcmc.potentials import Potential, groups, is_network, shown, together
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.progress import SUMS, Moments, Tally, Unfinished, Unwritten, summed, traced
from sgmcmc.random import Random
from sgmcmc.store import SLOTS
from sgmcmc.trajectory import State, cast, evaluate, run_trajectory, segment, start, walk

RUNNING, DONE, DIVERGED, INTERRUPTED, FAILED = "running", "done", "diverged", "interrupted", "failed"
ENOUGH = 44  # trajectories: of a chain that accepts a tenth of them so many are all rejected once in a hundred times


@dataclass
class Result:
    """What ``run`` returns. Rows of metrics and draws ``[draws, chains, dim]`` are here only if no store kept them. The
    columns of rows are explained by ``python run.py --help``.

    Numbers of trajectories, gradients and evaluations of U are those of all cycles, of the burn-in too.
    """

    status: str
    rows: list[dict] = field(default_factory=list)
    draws: Tensor | None = None
    cycles: int = 0
    accepted: int = 0  # accepted trajectories, over chains
    proposed: int = 0
    burnt: tuple[int, int] = (0, 0)  # accepted and proposed of the burn-in, once that is over
    accept_prob: Tensor | None = None  # [chains] float64, means after the burn-in; NaN: diverged; 0: log MH is −∞
    gradients: float = 0.0  # that a chain's trajectories, and masses, took; with data in passes over them
    energies: float = 0.0  # the same of U, with the data that decisions on a part of them looked at
    seconds: float = 0.0
    kernel: Kernel | None = None
    ensembles: dict[str, Ensemble] = field(default_factory=dict)
    moments: dict[str, Tensor] = field(default_factory=dict)  # of all draws, kept or not: see ``Moments``
    frozen: list[int] = field(default_factory=list)  # chains that diverged under monitor
    compiled: bool = False
    captured: bool = False
    under_way: int = 0  # gradients of the cycle in progress, which a checkpoint holds
    signal: int | None = None  # that interrupted the run

    @property
    def stuck(self) -> bool:
        """Whether hardly a trajectory of a corrected chain was accepted: less than one in a hundred."""
        return self.accepts_few(0.01)

    @property
    def rate(self) -> float:
        """The share of trajectories that were accepted, of those that are ``decided``."""
        accepted, proposed = self.decided
        return accepted / max(proposed, 1)

    def accepts_few(self, share: float) -> bool:
        """Whether a corrected chain accepted less than this share of ``ENOUGH`` ``decided`` trajectories or more."""
        corrected = self.kernel.acceptance != "monitor" and not self.kernel.impossible
        return corrected and self.decided[1] >= ENOUGH and self.rate < share

    @property
    def decided(self) -> tuple[int, int]:
        """How many trajectories after the burn-in were accepted, and of how many; of all before that is over."""
        accepted, proposed = self.burnt if self.proposed > self.burnt[1] else (0, 0)
        return self.accepted - accepted, self.proposed - proposed

    @property
    def unmoved(self) -> list[int]:
        """Chains that go on but none of whose draws differ, where others move so often that this is no chance."""
        count = self.moments.get("count", 0)
        if self.stuck or not count or self.rate * count < 10 + math.log(len(self.moments["m2"])):
            return []
        still = (self.moments["m2"] == 0).all(-1)
        frozen = set(self.frozen)
        return [chain for chain in torch.nonzero(still).flatten().tolist() if chain not in frozen]

    def facts(self, planned: int) -> dict:
        """What ``status.json`` keeps of a run of so many ``planned`` cycles: numbers, and which chains diverged."""
        done = {"cycles": self.cycles, "planned": planned, "seconds": round(self.seconds, 3), "frozen": self.frozen}
        return done | {"accepted": self.accepted, "proposed": self.proposed}

    def __repr__(self) -> str:
        """One line: how it ended, how much there is, and the draws' shape."""
        chains, draws = self.proposed // max(self.cycles, 1), None if self.draws is None else list(self.draws.shape)
        counts = f"cycles={self.cycles}, chains={chains}, draws={draws}"
        return f"Result(status={self.status!r}, {counts}, accepted={self.accepted}, proposed={self.proposed})"


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
        self.in_one_graph = together(potential) and not is_network(potential)  # cycles, where compiled
        if plan.trace and self.in_one_graph and chains > 1 and kernel.random_direction:
            raise SettingError("trace", plan.trace, "a random direction can be traced with one chain alone: chains=1")
        kernel.schedule.check(plan.cycles)
        self.groups = groups(potential, chains, apart=kernel.random_direction)
        self.predictions = predictions or {}
        if kernel.impossible and not is_network(potential) and plan.log_every > 1:
            kernel = self.kernel = replace(kernel, measured=False)  # U serves the rows alone
        self.initial = initial
        self.chains = chains
        self.states: list[State] = []
        self.cycle = 0
        # The part of what U looks at that one gradient sees: 1 where there are no data, and for full gradients.
        self.share = 1.0
        if isinstance(kernel.batches, Minibatches):
            self.share = kernel.batches.batch_size / shown(potential)
        self.adaptation = Adaptation(kernel, potential, plan, chains, self.share)
        self._set_kernel()
        self.tally = Tally.none(chains, random.device)
        self.moments: Moments | None = None
        self.ensembles: dict[str, Ensemble] = {}
        self.fits: list[dict] = [{} for _ in self.groups]
        self.compiled = self.begun_compiled = plan.compile
        self.cycle_graph: Compiled | None = None
        self.segment, self.numbers, self.walk = segment, random, walk  # of cycles that are no graph
        self.signals = Signals()
        self.unfinished: Unfinished | None = None
        self.between: Callable[[], None] = lambda: None  # called between the gradients of a cycle that runs eagerly

    # -- beginning, resuming -----------------------------------------------------------------------

    def begin(self) -> None:
        """Start every chain: positions, momentum, U."""
        self._count(0)  # not where another run of the same target has left it
        theta = self.initial()
        check_target(self.kernel, self.potential, theta, self.chains)
        theta = theta.detach()
        self._check_stairs(theta.dtype)
        if self.plan.estimate_mass:
            self._set_mass(self._estimated_mass(theta))
        for number, group in enumerate(self.groups):
            rows = theta[group.start : group.stop].contiguous()
            self.states.append(start(self.kernel, self.potential, rows, self.random, group))
            self.fits[number] = self._said()
        if self.kernel.evaluates:
            check_finite(self.kernel, torch.cat([state.potential for state in self.states]))
        if not isinstance(self.potential, NetworkPotential):
            theta = self.states[0].theta
            for inputs, labels in self.predictions.values():
                check_probabilities(self.potential.predict(theta, inputs), len(theta), len(inputs), labels)

    def checkpoint(self) -> dict:
        """Everything that the rest of the run depends on: tensors, numbers, counters."""
        return {
            "cycle": self.cycle,
            "states": [state.values() for state in self.states],
            **self.adaptation.values(),
            **self.tally.values(),
            "moments": self.moments.values() if self.moments else {},
            "ensembles": {name: ensemble.state() for name, ensemble in self.ensembles.items()},
            "fits": self.fits,
            "compiled": self.begun_compiled,
            "unfinished": self.unfinished
            and self.unfinished.values(self.tally.steps, self.kernel.word.gradients_a_step),
        }

    def resume(self, saved: dict) -> None:
        """Continue from what ``checkpoint`` returned. Raises SettingError for stairs that a longer run may not take."""
        device = self.random.device
        self.states = [
            State(*(None if value is None else value.to(device) for value in values)) for values in saved["states"]
        ]
        ends = [0, *accumulate(len(state.theta) for state in self.states)]
        self.groups = list(map(range, ends, ends[1:]))  # as the run was begun
        if hasattr(self.potential, "join_chains"):
            if self.joined and not together(self.potential):
                self.potential.join_chains()
            elif saved["compiled"] and not self.joined:  # which those of a network that may go together are not
                self.potential.together = False
        self.cycle, self.fits = saved["cycle"], saved["fits"]
        self.tally = Tally.of(saved, device)
        self.adaptation.resume(saved)
        if saved["moments"]:
            values = (saved["moments"][name] for name in ("count", "mean", "m2"))
            self.moments = Moments(*(torch.as_tensor(one, dtype=torch.float64).to(device) for one in values))
        self.ensembles = {name: Ensemble.from_state(value, device) for name, value in saved["ensembles"].items()}
        self.compiled = self.begun_compiled = saved["compiled"]
        if saved["unfinished"]:
            self.unfinished = Unfinished.of(saved["unfinished"], device)
        self._set_kernel()
        if not (self.adaptation.tunes and self.cycle < self.plan.burn_in):  # else the burn-in's end sees to it
            self._check_stairs(self.theta.dtype)

    def _count(self, number: int) -> None:
        """Random augmentation: another draw for each evaluation of U. Of a U that is one function it is not ours."""
        if self.kernel.inexact and hasattr(self.potential, "counter"):
            self.potential.counter = number

    def compile(self, tell: Callable[[str], object]) -> None:
        """Compile the cycle, if the run is a compiled one. Where that fails, ``tell`` why and go on eagerly: a run that
        begins here stays eager, one that was begun before may be compiled when it is continued next, perhaps elsewhere.

        For networks these are the segments of trajectories, and what ``potential.compile_layers`` compiles, which it
        has to do before any U is evaluated.
        """
        if hasattr(self.potential, "uncompile_layers"):  # what another run of the same target has compiled
            self.potential.uncompile_layers()
        if not self.compiled:
            return
        try:
            if reason := why_eager(self.kernel, self.potential, self.plan.trajectory, len(self.groups)):
                raise CannotCompile(reason)
            if self.in_one_graph:
                self._compile_cycle()
            else:
                self._compile_segments()
        except CannotCompile as error:
            if self.signals.raised:  # a run that is left while it compiles does not stay eager for that
                raise Interrupted from error
            self.compiled = False
            tell(f"the run is not compiled: {error}")

    def capture(self, tell: Callable[[str], object]) -> None:
        """Replay the steps of a network as CUDA graphs, where the plan says so; ``tell`` why where that fails."""
        if self.plan.graph and not self.in_one_graph and not self.joined:
            self.walk = Captured(tell)

    @property
    def joined(self) -> bool:
        """Whether chains share a tensor."""
        return len(self.groups) < self.chains

    @property
    def captured(self) -> bool:
        """Whether steps are replayed."""
        return self.walk is not walk and not self.walk.failed

    def _compile_segments(self) -> None:
        plan, kernel, potential = self.plan, self.kernel, self.potential
        moved, normals = Segments(), Normals(self.random)
        mass = torch.ones(potential.dim, dtype=torch.float64) if plan.estimate_mass else kernel.mass
        kernel = replace(kernel.rows(torch.zeros(1, dtype=torch.int64)), mass=mass)
        # Of a run that begins a guess, for where it starts is not asked yet: others are compiled at their first step.
        dtype = potential.dtype if isinstance(potential, NetworkPotential) else torch.float32
        dtype = self.states[0].theta.dtype if self.states else dtype
        moved.prepare(kernel, potential, dtype, normals)
        if hasattr(potential, "compile_layers"):
            potential.compile_layers(getattr(kernel.batches, "batch_size", None), backward=kernel.full_ends)
        self.segment, self.numbers = moved, normals

    def _compile_cycle(self) -> None:
        state, graph = self.states[0], Compiled(run_cycle)
        moments = self.moments or Moments.none(state.theta)
        self.weights = [torch.tensor(weight, dtype=torch.float64, device=state.theta.device) for weight in (0.0, 1.0)]
        so_far = self.tally.sums, self.tally.chances, moments
        arguments = self.random, self.cycle, self.groups[0], *so_far, self.weights[1]
        graph.prepare(self.kernel, self.potential, state, *arguments)
        self.cycle_graph, self.moments = graph, moments

    @property
    def evaluated(self) -> tuple[float, float]:
        """Gradients and U that a chain has evaluated, in passes, with the gradients that its mass was estimated from;
        decisions look at both ends."""
        size = self.chains * self.potential.data_size
        looked = 2 * self.tally.looked / size if self.kernel.subsampled else 0.0
        masses = 1 + min(self.cycle, self.plan.mass_until) if self.plan.estimate_mass and self.states else 0
        return self.tally.gradients + masses * mass_gradients(self.kernel) * self.share, self.tally.energies + looked

    # -- one cycle ---------------------------------------------------------------------------------

    def advance(self) -> list[dict]:
        """One cycle of every chain; returns the rows of its trace, where it is traced."""
        index, is_traced = self.cycle, bool(self.plan.trace)
        is_traced = is_traced and (not self.plan.trace_cycles or index + 1 in self.plan.trace_cycles)
        draws = self.plan.draws_after(index + 1)
        before = self.theta if self.plan.trajectory and index < self.plan.burn_in else None
        self.tally.clock = time.perf_counter()
        self.signals.arm()
        if is_traced or self.cycle_graph is None:
            done = self._eager_cycle(index, is_traced)
            states, fits, probabilities, sums = done.states, done.fits, torch.cat(done.probabilities), done.sums
        if self.cycle_graph is None:
            chances, moments = self.tally.chances + probabilities, None
        else:  # of a traced cycle the eager evaluation was for the trace alone
            so_far = self.tally.sums, self.tally.chances, self.moments
            arguments = self.kernel, self.potential, self.states[0], self.random, index, self.groups[0], *so_far
            state, probabilities, sums, chances, moments = self.cycle_graph(*arguments, self.weights[draws])
            states, fits = [state], self.fits
        # From here on the cycle counts: an interruption before this line leaves the chain as it was.
        self.signals.armed = False
        self.states, self.fits, self.unfinished = states, fits, None
        self.tally.sums, self.tally.chances = sums, chances
        if moments is not None:
            self.moments = moments
        elif draws:
            theta = self.theta
            self.moments = (self.moments or Moments.none(theta)).counting(theta, 1.0)
        self.cycle += 1
        self.tally.count(self.kernel.steps, self.cost)
        if self.cycle <= self.plan.burn_in:
            self._adapt(probabilities, before)
        if self.cycle == self.plan.burn_in:
            self.tally.end_burn_in()
            if self.adaptation.tunes:
                self._check_last(self.theta.dtype, "the step size that tuning came to")
        self.tally.stop()
        return traced(done.trace) if is_traced else []

    def _eager_cycle(self, index: int, is_traced: bool) -> Unfinished:
        """The cycle, group after group, from where it stands to its end; the chain stays as it is but for that."""
        done = self.unfinished or Unfinished([], [], [], self.tally.sums, [])
        for number in range(len(done.states), len(self.groups)):
            group, state = self.groups[number], self.states[number]
            if not (is_traced or bool(state.alive.any())):  # networks one after another
                still = [*done.states, state], [*done.fits, self.fits[number]]
                none = torch.zeros(len(group), dtype=torch.float64, device=state.theta.device)
                done = Unfinished(*still, [*done.probabilities, none], done.sums, done.trace)
                continue
            if self.cycle_graph is None:
                self.unfinished, done.under_way.reached = done, self.between
            self._count((index + 1) * len(self.groups) + number)
            observe = None
            if is_traced:
                of_cycle = self.plan.trace, index + 1, self.tally.steps, done.trace
                observe = observer(self.kernel, self.potential, state, group, *of_cycle)
            kernel = self.kernel if len(self.groups) == 1 else self.kernel.rows(torch.tensor(group))
            arguments = self.numbers, index, group, observe, done.under_way, self.segment, self.walk
            before = state.alive
            state, record = run_trajectory(kernel, self.potential, state, *arguments)
            fit = self._fit_of(record.accepted, self.fits[number])
            sums = done.sums + summed(record, before, state.alive)
            if getattr(self.potential, "gibbs", None):
                state = self._gibbs(state, index, group)
                fit = self._said()
            done = Unfinished(
                [*done.states, state], [*done.fits, fit], [*done.probabilities, record.accept_prob], sums, done.trace
            )
        return done

    @property
    def theta(self) -> Tensor:
        """The positions of all chains."""
        return self.states[0].theta if len(self.states) == 1 else torch.cat([state.theta for state in self.states])

    @property
    def alive(self) -> Tensor:
        """Which chains have not diverged, ``[chains]``; before the start all."""
        if not self.states:
            return torch.ones(self.chains, dtype=torch.bool, device=self.random.device)
        return torch.cat([state.alive for state in self.states])

    def _gibbs(self, state: State, index: int, group: range) -> State:
        """Other Markov updates between trajectories; U and its gradient are the new position's."""
        own = state.theta.detach().clone()  # which an update in place may change, a frozen chain's too
        theta = self.potential.gibbs(own, self.kernel.temperature, self.random, index, group)
        if not isinstance(theta, Tensor) or theta.shape != state.theta.shape:  # another shape would broadcast
            shown = list(theta.shape) if isinstance(theta, Tensor) else type(theta).__name__
            raise SettingError("shape of gibbs", shown, f"must be {list(state.theta.shape)}: θ after the update")
        theta = theta.detach().to(state.theta)
        state = replace(state, theta=torch.where(state.alive[:, None], theta, state.theta))  # a frozen chain stays
        evaluate(self.kernel, self.potential, state)
        return state

    def _adapt(self, probability: Tensor, before: Tensor | None) -> None:
        """Between trajectories of the burn-in: tune the step size and the length, estimate the mass.

        What chains that have diverged do counts for nothing in what all chains share; where all have diverged,
        everything stays as it is.
        """
        alive = self.alive
        if not bool(alive.any()):
            return
        jump = None
        if before is not None:
            move = (self.theta - before).double().square() * cast(self.kernel.mass, self.theta.double())
            moves = getattr(self.potential, "moves", None)  # the others are Gibbs updates'
            jump = float((move if moves is None else move[:, moves]).sum(-1).mean())
        if self.adaptation.saw(self.cycle - 1, probability, alive, jump):
            self._set_kernel()
        if self.plan.estimate_mass and self.cycle <= self.plan.mass_until:
            self._set_mass(self._estimated_mass(self.theta))

    def _check_stairs(self, dtype: torch.dtype) -> None:
        if self.kernel.schedule.varies_between():
            self._check_last(dtype, "the schedule's last step size")

    @property
    def _living(self) -> Kernel:
        """The kernel of the chains that are alive."""
        return self.kernel.rows(torch.nonzero(self.alive).flatten())

    def _mean_step(self) -> float:
        """The mean step size of the chains that are alive, or of all where none is."""
        kernel = self._living if bool(self.alive.any()) else self.kernel
        return float(torch.as_tensor(kernel.step_size, dtype=torch.float64).mean())

    def _check_last(self, dtype: torch.dtype, size: str) -> None:
        """Refuse a momentum that is kept too well, or grows, at the step size of the run's last cycle, in a chain that
        is alive."""
        living = self._living
        last = replace(living, step_size=living.step_size * self._stair(self.plan.cycles))
        check_decay(last, dtype, size)

    def _set_kernel(self) -> None:
        """Set the kernel, and what a trajectory costs, from what tuning and mass are now."""
        self.kernel = self.adaptation.kernel(self.cycle)
        self.cost = self.kernel.work(self.share, self.potential)

    def _set_mass(self, mass: Tensor) -> None:
        ratio = mass**0.5 / self.kernel.mass**0.5  # of the momentum's scales: T does not change, and may be 0
        self.adaptation.mass = mass
        self._set_kernel()
        for state in self.states:
            state.momentum = state.momentum * ratio.to(state.momentum)

    def _estimated_mass(self, theta: Tensor) -> Tensor:
        return estimated_mass(self.kernel, self.potential, theta, self.alive, self.random, self.cycle, self.groups)

    # -- what is measured --------------------------------------------------------------------------

    def row(self) -> dict:
        """A row of metrics: means over the cycles since the last regular one and over the chains that are alive.

        The run's last row may come before the next regular end, every ``log_every`` cycles: a longer run has that
        row besides its own.
        """
        boundary = self.cycle % self.plan.log_every == 0
        plan, kernel, potential = self.plan, self.kernel, self.potential
        tally, adaptation = self.tally, self.adaptation
        sums, size = dict(zip(SUMS, tally.sums.tolist(), strict=True)), max(potential.data_size, 1)
        number = sums["number"] or math.nan
        finite = sums["finite"]
        if not kernel.evaluates:  # U of the states at the row's end
            sums["potential"] = number * self._potential_now()
        elif self.cycle_graph and self.fits[0]:  # a graph evaluates U without the target's telling its fit
            self._potential_now()
        if not (kernel.evaluates or kernel.subsampled):
            sums["delta_potential"] = math.nan
        row = {
            "cycle": self.cycle,
            "epoch": (tally.steps / adaptation.base.steps if plan.trajectory else self.cycle) * plan.epochs_per_cycle,
            "step": tally.steps,
            "potential": sums["potential"] / number,
            "potential_per_datum": sums["potential"] / number / size,
            "delta_potential": sums["delta_potential"] / finite if finite else math.nan,
            # E kicks and refreshes at once: what of K it changes is not its kick's alone.
            "delta_kinetic": sums["delta_kinetic"] / finite if finite and not kernel.word.euler else math.nan,
            "log_accept": sums["log_accept"] / finite if finite and not kernel.impossible else -math.inf,
            "accept_prob": sums["accept_prob"] / number,
            "accepted": sums["accepted"] / number,
            "not_finite": int(sums["not_finite"]),
            **({"data_per_decision": sums["data"] / number} if kernel.subsampled else {}),
            "alive": int(self.alive.sum()),
            "step_size": self._mean_step() * self._stair(self.cycle),
            **({"steps_per_cycle": kernel.steps} if plan.trajectory else {}),
            **temperatures(kernel, potential, self.states, self._gradients()),
            **self._fit(),
            **self._predict(boundary),
        }
        row["seconds"] = tally.seconds
        steps, seconds = tally.steps - tally.steps_before, tally.seconds - tally.seconds_before
        row["steps_per_second"] = steps / max(seconds, 1e-9)
        if boundary:
            tally.end_row()
        return row

    def _stair(self, cycles: int) -> float:
        """What the schedule multiplies h by in the last of so many cycles, where it is a whole cycle's."""
        schedule = self.kernel.schedule
        return schedule.factors(1, max(cycles - 1, 0))[0] if schedule.varies_between() else 1.0

    def _potential_now(self) -> float:
        """The mean of U over the chains that are alive, evaluated anew."""
        energies = []
        for number, state in enumerate(self.states):
            energies.append(self.potential.potential(state.theta.detach()).detach()[state.alive])
            self.fits[number] = self._said()
        return float(torch.cat(energies).mean())

    def _gradients(self) -> Iterator[Tensor]:
        for state, group in zip(self.states, self.groups, strict=True):
            yield diagnostic_gradient(self.kernel, self.potential, state, self.random, self.cycle, group)

    def _fit(self) -> dict:
        """The target's ``fit`` at the current states, as columns: means over the chains that are alive, or over all
        where none is."""
        alive = self.alive.cpu()
        counted = (alive if alive.any() else ~alive).split([len(state.alive) for state in self.states])
        columns = {}
        for key in self.fits[0]:
            told = [numbers(f"fit[{key!r}]", fit[key]) for fit in self.fits]
            values = [torch.tensor(one, dtype=torch.float64).reshape(-1) for one in told]
            parts = [  # one value of several chains is what the target gave for all of its tensor
                value[some] if len(value) == len(some) else value[: int(some.any())]
                for value, some in zip(values, counted, strict=True)
            ]
            columns[key] = float(torch.cat(parts).mean())
        return columns

    def _fit_of(self, accepted: Tensor, before: dict) -> dict:
        """The target's ``fit`` after a decision: of chains that ``accepted`` the end's, where U was evaluated last.
        The others keep theirs, as do all where the target gives one number for several and one has rejected."""
        said, kept = self._said(), accepted.cpu()
        for key, value in said.items():
            if isinstance(value, Tensor) and value.shape == kept.shape:
                said[key] = torch.where(kept, value.cpu(), before.get(key, math.nan))
            elif not bool(kept.all()):
                said[key] = before.get(key, math.nan)
        return said

    def _said(self) -> dict:
        """The target's ``fit`` as its last evaluation of U left it."""
        fit = getattr(self.potential, "fit", {})
        return {key: value.detach() if isinstance(value, Tensor) else value for key, value in fit.items()}

    def _predict(self, boundary: bool) -> dict:
        """The current samples' and the running ensemble's quality on each of the prediction sets.

        The ensemble is of the samples after the burn-in at the rows' regular ends (``boundary``), of chains alive.
        """
        columns, counts = {}, boundary and self.cycle > self.plan.burn_in
        for name, (inputs, targets) in self.predictions.items():
            members = torch.cat([self.potential.predict(state.theta, inputs).detach() for state in self.states])
            if name not in self.ensembles:
                self.ensembles[name] = Ensemble(*members.shape[1:], device=members.device)
            quality = predicted(members, targets, self.alive, self.ensembles[name], counts)
            columns |= {f"{name}_{key}": value for key, value in quality.items()}
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
    tell: Callable[[str], object] = warnings.warn,
    until: float = math.inf,
) -> Result:
    """Run ``plan.cycles`` cycles of every chain, from the store's last checkpoint where it has one.

    ``chains`` is how many there are, and ``initial()`` gives where they start, ``[chains, dim]`` on ``random.device``
    in the dtype of the run; a run that is continued does not call it. ``predictions`` are data sets that a target with
    ``predict`` is asked of in each row: ``{"test": (inputs, targets), "ood": (inputs, None)}``.
    ``store`` is a ``RunFolder`` or None: then rows and draws are kept in memory. ``report`` is called after each cycle
    with the chain and the row of metrics that the cycle completed, or None. ``tell`` is given a sentence where a run
    that was to be compiled or captured is not. Interrupted by a signal, the run writes what is complete and where the
    cycle in progress stands, and returns with status "interrupted". So it does, before the first cycle and between two,
    where another one would end after ``until``, by ``time.monotonic()``.

    Raises SettingError for what cannot work (a plan and a kernel that do not fit, what the target returns, another
    target than the run was begun with), StoreError from the store, and whatever the target raises.
    """
    if random.device.type == "cuda":  # what is summed in a random order is not gone on with to the bit
        torch.backends.cudnn.deterministic = True
    chain = Chain(kernel, potential, plan, random, chains, initial, predictions)
    saved = store.load() if store else None
    unwritten = Unwritten(plan, store)

    def between() -> None:
        """Within a cycle: a checkpoint where the last one is long ago, and a signal whose exception was lost."""
        if signals.arrived:
            signals.arm()
        if unwritten.long_ago:
            signals.armed = False
            unwritten.write(chain.checkpoint)
            signals.arm()

    chain.signals.stored = store is not None
    with chain.signals as signals:
        try:
            if saved is not None:
                chain.resume(saved)
            over = saved is not None and _finished(chain) != RUNNING
            if time.monotonic() >= until and not over:
                raise Interrupted  # the time passed while the pieces were made
            signals.arm()  # compiling, the warm start and an evaluation of U may be left, too
            _begin(chain, saved is None, over, tell)
            signals.armed = False
            before, last = chain.tally.seconds, 0.0  # seconds of the last cycle
            chain.between = between
            if saved is None:
                unwritten.write(chain.checkpoint)
            status = _finished(chain)
            while status == RUNNING and not signals.arrived and time.monotonic() + last < until:
                unwritten.trace += chain.advance()
                before, last = chain.tally.seconds, chain.tally.seconds - before
                if plan.keep != "none" and plan.draws_after(chain.cycle):
                    unwritten.add_draw(chain.theta.cpu())
                row, status = None, _finished(chain)
                if chain.cycle % plan.log_every == 0 or status != RUNNING:
                    row = chain.row()
                    unwritten.rows.append(row)
                if status == RUNNING and unwritten.due(chain.cycle):
                    unwritten.write(chain.checkpoint)
                if report:
                    report(chain, row)
        except Interrupted:
            status = RUNNING
        except Exception:
            if not signals.raised:
                raise
            status = RUNNING  # what torch's clean-up raised in the signal's place
        if status == RUNNING:
            status, signals.answered = INTERRUPTED, signals.arrived is not None
        if chain.states and (unwritten.rows or unwritten.draws or chain.cycle or chain.unfinished):
            unwritten.write(chain.checkpoint)
    result = _result(chain, status)
    result.signal = signals.arrived if signals.answered else None
    result.rows = unwritten.rows  # a store's are written, as are its draws
    result.draws = torch.cat(unwritten.draws) if unwritten.draws else None
    return result


def _begin(chain: Chain, new: bool, over: bool, tell: Callable[[str], object]) -> None:
    """Start a ``new`` chain, or look whether one that goes on has the target that it had; compile and capture what the
    plan says, of networks before U is first evaluated, of other targets once there are states to compile with. For a
    run that is ``over`` nothing is compiled. A new one stays what it could be begun as, compiled or not."""
    if not new:
        check_same_target(chain.kernel, chain.potential, chain.states)
    if not chain.in_one_graph:
        if not over:
            chain.compile(tell)
        chain.capture(tell)
    if new:
        chain.begin()
    if chain.in_one_graph and not over:
        chain.compile(tell)
    if new:
        chain.begun_compiled = chain.compiled


def _result(chain: Chain, status: str) -> Result:
    """What a chain has to say at its end."""
    tally, result = chain.tally, Result(status)
    result.cycles, result.accepted, result.proposed = chain.cycle, tally.accepted, tally.proposed
    result.burnt = tally.burnt
    seen = chain.cycle - (chain.plan.burn_in if chain.cycle >= chain.plan.burn_in else 0)
    result.accept_prob = torch.where(chain.alive, tally.chances / seen, math.nan).cpu() if seen else None
    result.gradients, result.energies = chain.evaluated
    result.moments = chain.moments.values() if chain.moments else {}
    result.compiled, result.captured = chain.compiled, chain.captured
    if chain.unfinished:
        through = len(chain.unfinished.states) * chain.kernel.points
        result.under_way = through + chain.unfinished.point
    result.frozen = torch.nonzero(~chain.alive).flatten().tolist()
    result.seconds, result.kernel, result.ensembles = tally.spent, chain.kernel, chain.ensembles
    return result


def frozen_in(folder: str | os.PathLike) -> set[int]:
    """The chains of a run that have diverged, by its checkpoints: its status tells them once it has ended."""
    found: set[int] = set()
    for slot in SLOTS:
        with suppress(Damaged):
            states = read_checkpoint(Path(folder, slot))["state"]["states"]
            alive = torch.cat([State(*values).alive for values in states])
            found |= {*torch.nonzero(~alive).flatten().tolist()}
    return found


def _finished(chain: Chain) -> str:
    # Only under monitor do chains freeze.
    if chain.kernel.acceptance == "monitor" and not bool(chain.alive.any()):
        return DIVERGED
    return DONE if chain.cycle >= chain.plan.cycles else RUNNING


def run_cycle(
    kernel: Kernel,
    potential: Potential,
    state: State,
    random: Random,
    index: int,
    chains: Tensor,
    sums: Tensor,
    chances: Tensor,
    moments: Moments,
    weight: Tensor,
) -> tuple[State, Tensor, Tensor, Tensor, Moments]:
    """A trajectory with its bookkeeping: the new state, the probability of acceptance, ``SUMS``, the sum of such
    probabilities of each chain, and moments."""
    before = state.alive
    state, record = run_trajectory(kernel, potential, state, random, index, chains)
    sums, chances = sums + summed(record, before, state.alive), chances + record.accept_prob
    return state, record.accept_prob, sums, chances, moments.counting(state.theta, weight)
