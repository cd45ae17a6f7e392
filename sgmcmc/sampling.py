"""Any sampler on a target of one's own, in one call."""

from __future__ import annotations

import inspect
import json
import math
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import wraps

import numpy
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from sgmcmc import kept
from sgmcmc.acceptance import limit
from sgmcmc.arguments import check_memory, find_device, float_type, number, numbers, one_a_chain, whole
from sgmcmc.chain import DIVERGED, FAILED, INTERRUPTED, Chain, Result, run
from sgmcmc.checks import check_tensor, doubt
from sgmcmc.compiled import compiles
from sgmcmc.data.minibatches import Minibatches
from sgmcmc.equilibrium import SIGN, disequilibrium, falls_outwards
from sgmcmc.errors import SettingError, StoreError, few, nearest
from sgmcmc.kernel import Friction, Kernel, make_kernel
from sgmcmc.loading import load_metrics, load_samples
from sgmcmc.plan import Plan
from sgmcmc.potentials import Potential, check_attributes, is_network, lacking
from sgmcmc.potentials.analytic import FunctionPotential
from sgmcmc.potentials.flat import SAMPLED
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.random import Random
from sgmcmc.samplers import NUMBERS, Sampler, custom, lookup
from sgmcmc.schedules import STAIRS, Schedule
from sgmcmc.store import RunFolder
from sgmcmc.subsampled import why_inexact
from sgmcmc.words import Word


def _usual_torch(function: Callable) -> Callable:
    """Run the function with torch's default device and inference mode as in a fresh process, whatever its caller has
    set: tensors here say where they are, and gradients may be taken of draws. If the caller's default device is not the
    CPU, the run's ``device`` takes its place, because the caller's own functions may need one."""

    @wraps(function)
    def usual(*arguments, device="cpu", **settings):
        with ExitStack() as stack:
            if torch.is_inference_mode_enabled():
                stack.enter_context(torch.inference_mode(False))
            if torch.get_default_device().type != "cpu":
                stack.enter_context(find_device(device))
            return function(*arguments, device=device, **settings)

    return usual


@_usual_torch
def sample(
    potential: Potential | Callable[[Tensor], Tensor],
    sampler: str | Sampler = "ggmc",
    *,
    step_size=None,
    dim: int | None = None,
    cycles: int = 1000,
    steps: int | None = None,
    chains: int | None = None,
    burn_in: int = 0,
    thin: int = 1,
    friction=None,
    momentum_decay=None,
    beta=None,
    b=None,
    word: str | None = None,
    schedule: str | Schedule | None = None,
    tune: float | None = None,
    trajectory: bool = False,
    initial: Tensor | ArrayLike | None = None,
    seed: int = 0,
    compile: bool | str = False,
    progress: bool = False,
    dtype: torch.dtype | str = torch.float32,
    device: torch.device | str = "cpu",
    folder: str | os.PathLike | None = None,
    **policies,
) -> Result:
    """Run a sampler on a target of one's own; ``result.draws`` is ``[draws, chains, dim]``.

    A cycle is one trajectory and its decision; the first ``burn_in`` of ``cycles`` give no draws, of the rest every
    ``thin``-th one does. ``result.accepted`` of ``result.proposed`` trajectories are those of all cycles and chains;
    ``result.accept_prob`` is each chain's mean probability of acceptance after the burn-in (or so far in it).

    Of samplers that are monitored where nothing is said, GGMC among them, ``acceptance="metropolis"`` corrects the
    chain: without it a UserWarning tells that it is not corrected. Every proposal that is finite then counts as
    accepted.

    ``potential`` is an instance of a class with three methods (see ``sgmcmc.potentials``) or just U as a function of
    one θ ``[dim]`` (then give ``dim``; its gradient is made by ``torch.func``). ``sampler`` is a name of
    ``sgmcmc.SAMPLERS``, a row of one's own, or "custom" with the letters of a step, ``word="BABOBAB"``: monitored,
    its momentum kept where the word has an O or E, else fresh. ``steps`` is the length of a trajectory
    (10, or 1 where the sampler has just one). ``step_size`` is h, which has to be given. Friction is γ (``friction``,
    1 by default, ``math.inf`` is infinite), e^{−γh} (``momentum_decay``), or AMAGOLD's ``beta`` or ``b``. A sequence
    of step sizes or of frictions is one a chain, or one for each of equal groups of ``chains``, and ``initial`` is
    ``[chains, dim]``, a tensor or nested lists: they say how many chains there are where ``chains`` does not (1).
    ``schedule`` is a name or a ``Schedule``, such as ``Schedule("cosine", direction="random")``; ``dtype`` float32 or
    float64; ``device`` "cpu", "cuda", "cuda:1" or "auto". ``compile`` makes one graph of a cycle first (of a network's,
    of what lies between its gradients), in some seconds: worth it for long chains, which "auto" tells from short
    ones. ``progress`` shows a bar of the cycles. ``tune`` and ``trajectory`` are those of ``Plan`` and need a
    ``burn_in``; ``policies`` those of ``make_kernel``: ``acceptance="metropolis"``, ``refresh``, ``gradient``,
    ``batch_size``, ``temperature``, ….

    ``folder`` keeps the run there: draws, metrics (``load_samples``, ``load_metrics``) and checkpoints. The same call
    goes on where a killed one was, bit for bit, and more ``cycles`` continue a finished one, compiled or not as it was
    begun. ``result.draws`` are all that the folder holds, ``result.rows`` those of this call. SIGTERM and SIGUSR1, a
    scheduler's, and SIGHUP are handed on once a checkpoint is written. Without a folder draws are in memory alone.

    ``result.status`` is "done"; "diverged" where no chain of a monitored run is finite any more, or "interrupted" by
    Ctrl-C or a signal: of such runs there are fewer draws (``result.draws`` is None where there are none). Ctrl-C waits
    for a graph that is being compiled, a second one does not. Chains that diverged, all or some (``result.frozen``),
    are told by a UserWarning; they stand still where they were last finite.
    Others tell of chains that are stuck (``result.stuck``) or never move (``result.unmoved``), of temperatures that are
    far from T in the second half, of a gradient that is not that of U, and of an argument that has no effect.
    Raises SettingError, one sentence, for what cannot work (such as a module in two threads), and StoreError for a
    folder that is another run's, or on a disk that is full.
    """
    _check_names(policies)
    potential = _target(potential, dim, ("initial",) if initial is not None else ())
    cycles, thin, burn_in = whole("cycles", cycles, 1), whole("thin", thin, 1), whole("burn_in", burn_in, 0)
    seed = whole("seed", seed, 0)
    _check_length(cycles, burn_in, thin)
    tune = None if tune is None else number("tune", tune)
    ways = {"friction": friction, "momentum_decay": momentum_decay, "beta": beta, "b": b}
    ways = {name: numbers(name, value) for name, value in ways.items() if value is not None}
    if step_size is None:
        raise SettingError("step_size", None, "has to be given, such as step_size=0.1")
    step_size = numbers("step_size", step_size)
    dtype, device = float_type(dtype), find_device(device)
    if dtype == torch.float64 and is_network(potential) and getattr(potential, "dtype", None) == torch.float32:
        raise SettingError("dtype", "float64", "the network is of float32: give it dtype=torch.float64, too")
    if chains is not None:
        chains = whole("chains", chains, 1)
    if initial is not None:
        initial = _initial(initial, chains, potential.dim, dtype)
        chains = len(initial)
    if chains is None:
        chains = max([1, *(len(value) for value in (step_size, *ways.values()) if isinstance(value, list))])
    check_memory(chains, potential.dim, device)
    rows = ", as many as initial has rows" if initial is not None else ""
    step_size = one_a_chain("step_size", step_size, chains, rows)
    ways = {name: one_a_chain(name, value, chains, rows) for name, value in ways.items()}
    sampler = _sampler(sampler, word)
    row = lookup(sampler) if isinstance(sampler, str) else sampler
    if isinstance(schedule, str):
        schedule = Schedule(schedule)
    if not isinstance(schedule, Schedule | None):
        raise SettingError("schedule", schedule, "must be a name or an sgmcmc.Schedule")
    policies = {name: _policy(name, value) for name, value in policies.items() if value is not None}
    with _own_names():
        kernel = make_kernel(
            sampler,
            potential,
            step_size,
            steps=row.steps or 10 if steps is None else whole("steps", steps, 1),
            friction=Friction.of(step_size, Word(word or row.word).euler, **ways),
            word=word,
            schedule=schedule,
            dtype=dtype,
            **policies,
        )
    _warn_before(kernel, {**ways, **policies}, getattr(potential, "noise", 0.0))
    random = Random(seed, device)
    if compile != "auto" and not isinstance(compile, bool):
        raise SettingError("compile", compile, "must be True, False or 'auto'")
    if trajectory not in (True, False):
        mend = "must be True or False (whether length and step size are tuned); steps is a trajectory's length"
        raise SettingError("trajectory", trajectory, mend)
    with _own_names():
        compiled = compiles(compile, kernel, potential, chains, cycles, trajectory)
    plan = Plan(
        cycles=cycles,
        burn_in=burn_in,
        thin=thin,
        tune=tune,
        trajectory=bool(trajectory),
        log_every=max(1, cycles // 100),
        compile=compiled,
        epochs_per_cycle=kernel.epochs(potential.data_size),
    )

    doubts: list[str] = []

    def begin() -> Tensor:
        theta = potential.initial(chains, random) if initial is None else initial
        check_tensor("initial", theta)
        theta = theta.detach().to(device=device, dtype=dtype)
        if why := doubt(kernel, potential, theta):
            doubts.append(why)
        return theta

    if not isinstance(progress, bool):
        raise SettingError("progress", progress, "must be True or False")
    store = None
    if folder is not None:
        folder, settings = kept.path(folder), kept.settings(kernel, plan, potential, chains, seed, dtype, initial)
        store = RunFolder(folder, kept.identity(settings), json.dumps(settings, indent=2) + "\n", device=device)
    with _own_names(), _alone(potential), store or nullcontext(), _bar(progress, cycles) as bar:
        result = _run(kernel, potential, plan, random, chains, begin, dtype, store, bar)
    _warn_after(result, plan, doubts, chains, potential, folder)
    return result


def _target(potential, dim: int | None, unneeded: tuple[str, ...]) -> Potential:
    """The target that ``sample`` was given, a function made one; SettingError where it is none, or lacks something
    that a target has (but for what is ``unneeded``)."""
    if isinstance(potential, str):
        mend = "names are the command line's: give a target, such as DoubleWell() of sgmcmc.potentials.analytic"
        raise SettingError("potential", potential, mend)
    if isinstance(potential, type):
        name = potential.__name__
        raise SettingError("potential", name, f"is a class: give an instance of it, such as {name}()")
    if isinstance(potential, nn.Module) and not hasattr(potential, "potential"):
        mend = "sgmcmc.NetworkPotential(module, sgmcmc.Dataset(inputs, labels, classes)) makes a target of a module"
        raise SettingError("potential", type(potential).__name__, mend)
    if callable(potential) and not hasattr(potential, "potential"):
        if dim is None:
            raise SettingError("dim", dim, "a function as the target needs its number of coordinates")
        potential = FunctionPotential(potential, whole("dim", dim, 1))
    elif dim is not None and dim != getattr(potential, "dim", dim):
        raise SettingError("dim", dim, f"the target has its own, {potential.dim}: leave it out")
    missing = [name for name in lacking(potential) if name not in unneeded]
    if missing:
        mend = f"a target has {', '.join(missing)}, too (see sgmcmc.potentials)"
        raise SettingError("potential", type(potential).__name__, mend)
    check_attributes(potential)
    return potential


def _check_length(cycles: int, burn_in: int, thin: int) -> None:
    """Refuse lengths that leave no draw."""
    if burn_in >= cycles:
        raise SettingError("burn_in", burn_in, f"leaves no draws of cycles={cycles}: make it less")
    if thin > cycles - burn_in:
        raise SettingError("thin", thin, f"leaves no draws of {cycles - burn_in} cycles: make it less")


def _sampler(sampler, word) -> str | Sampler:
    """A sampler's name, or its row; "custom" is the row of the ``word``. SettingError for anything else."""
    if word == "" or not isinstance(word, str | None):
        raise SettingError("word", word, "must be a string of letters, such as BABOBAB")
    if sampler == "custom":
        if not word:
            raise SettingError("sampler", "custom", "needs a word, such as word='BABOBAB'")
        return custom(word)
    if not isinstance(sampler, str | Sampler):
        raise SettingError("sampler", sampler, "must be a name of sgmcmc.SAMPLERS, or a row as they are there")
    return sampler


def _policy(name: str, value):
    """A keyword argument of ``make_kernel``, its number cast; SettingError where it is none."""
    if name in ("batch_size", "decision_batch"):
        return whole(name, value, 1)
    if name in ("temperature", "alpha", "delta", "epsilon", "sigma"):
        return number(name, value)
    return value


def _run(kernel, potential, plan: Plan, random, chains: int, begin, dtype, store: RunFolder | None, bar) -> Result:
    """Run the chain. Its folder, where it has one, is told what the target is, so that another one is refused when the
    run goes on; how the run ended; and an error of the target's."""
    target, rows = (kernel, potential, dtype, random.device), []
    if store and not kept.known(store.path, store.identity["hash"], *target):
        store.begun = {"target": kept.target(*target)}

    def report(chain: Chain, row: dict | None) -> None:
        if row:
            rows.append(row)
        bar(chain, row)

    try:
        result = run(kernel, potential, plan, random, chains, begin, store=store, report=report)
    except (SettingError, StoreError):
        raise
    except Exception as error:  # of the target's
        if store and store.path.is_dir():
            with suppress(StoreError):
                store.status(state=FAILED, why=f"{type(error).__name__}: {error}")
        raise
    result.rows = rows
    if store:
        store.status(state=result.status, **result.facts(plan.cycles))
        if plan.kept(result.cycles):
            result.draws = load_samples(store.path)
    return result


@contextmanager
def _alone(potential) -> Iterator[None]:
    """Refuse a network while another thread samples it: its module holds the weights of one chain at a time. At the end
    it has those that it was given with, at which another target of it starts."""
    if not isinstance(potential, NetworkPotential):
        yield
        return
    module, thread = id(potential.model), threading.get_ident()
    owner = SAMPLED.setdefault(module, thread)
    if owner != thread:
        mend = "is being sampled in another thread: give each a module and a target of its own, or use processes"
        raise SettingError("potential", type(potential).__name__, mend)
    try:
        yield
    finally:
        potential.flat.position.copy_(potential.flat.resting)
        SAMPLED.pop(module, None)


OF_CALLER = 4  # stacklevel of warnings that a helper of ``sample`` gives: they are about the call of ``sample``


def _warn_before(kernel: Kernel, given: dict, noise) -> None:
    """Warn of arguments ``given``, and of a target's ``noise``, that have no effect, and of a chain that is not
    corrected, unless that was said."""
    for name in _without_effect(kernel, given):
        warnings.warn(f"{name} has no effect on this chain", stacklevel=OF_CALLER)
    if kernel.subsampled:
        warnings.warn(f"not exactly corrected: {why_inexact(kernel)}", stacklevel=OF_CALLER)
    if isinstance(noise, int | float) and noise and kernel.gradient != "minibatch":
        mend = "" if kernel.gradient == "none" else "; gradient='minibatch' adds it"
        warnings.warn(f"the target's noise={noise:g} has no effect on this chain{mend}", stacklevel=OF_CALLER)
    if kernel.acceptance == "monitor" and not given.get("acceptance"):
        mend = "acceptance='metropolis' corrects it"
        if why := kernel.impossible or kernel.inexact:
            mend = f"it cannot be: {_own(why)}"
        warnings.warn(f"the chain is not corrected; {mend}", stacklevel=OF_CALLER)


def _warn_after(result: Result, plan: Plan, doubts: list[str], chains: int, potential, folder) -> None:
    """Warn of what the result alone does not show: how the run ended, chains that diverged or do not move, ends that
    are not finite, and temperatures that are far from T."""
    cycles = plan.cycles
    for why in doubts:
        warnings.warn(why, stacklevel=OF_CALLER)
    if result.status == INTERRUPTED:
        again = "; the same call goes on from there" if folder else ""
        warnings.warn(f"interrupted after cycle {result.cycles} of {cycles}{again}", stacklevel=OF_CALLER)
        if folder and result.signal not in (None, signal.SIGINT):
            signal.raise_signal(result.signal)
    if result.cycles > cycles:
        warnings.warn(f"{folder} holds {result.cycles} cycles, more than cycles={cycles}", stacklevel=OF_CALLER)
    rows = {}
    if result.rows:
        rows = load_metrics(folder) if folder else {name: _column(result.rows, name) for name in result.rows[0]}
    sign = f"; {SIGN}" if rows and falls_outwards(rows, potential) else ""
    if result.status == DIVERGED:
        end = f"no chain is finite after cycle {result.cycles} of {cycles}"
        warnings.warn(f"diverged: {end}; {SMALLER}{sign}", stacklevel=OF_CALLER)
    elif result.frozen:
        still = f"{of_chains(result.frozen, chains)} diverged and stand still where they were last finite"
        warnings.warn(f"{still}: leave the draws of result.frozen out; {SMALLER}", stacklevel=OF_CALLER)
    if rows and not (result.status == DIVERGED or result.stuck or result.unmoved):
        if why := disequilibrium(rows, result.kernel, potential, chains - len(result.frozen)):
            warnings.warn(why, stacklevel=OF_CALLER)
        if why := not_finite(int(numpy.nansum(rows["not_finite"])), result.kernel):
            warnings.warn(why, stacklevel=OF_CALLER)
    if why := missed(result, plan):
        warnings.warn(why, stacklevel=OF_CALLER)
    if result.stuck:
        some = "{} of {} trajectories are accepted".format(*result.decided)
        warnings.warn(f"the chain is stuck: {some}; take a smaller step_size{sign}", stacklevel=OF_CALLER)
    if result.unmoved:
        warnings.warn(f"{of_chains(result.unmoved, chains)} never moved: {UNMOVED}", stacklevel=OF_CALLER)


def _column(rows: list[dict], name: str) -> numpy.ndarray:
    return numpy.array([row.get(name, math.nan) for row in rows])


SMALLER = "a smaller step_size may do, where U is finite"
UNMOVED = "a smaller step size (a larger one where all is accepted) or another start would do, a mean over chains is "
UNMOVED += "biased by them"


def not_finite(ends: int, kernel: Kernel) -> str | None:
    """The sentence that tells of so many proposals, rejected because they are not finite; None where none is."""
    if not ends or kernel.acceptance == "monitor":
        return None
    return f"{ends:,} {'trajectory' if ends == 1 else 'trajectories'} ended where U or theta is not finite: rejected"


def missed(result: Result, plan: Plan) -> str | None:
    """The sentence that tells of an acceptance that was tuned, and after the burn-in has four times the odds of its
    target or a fourth, beyond six errors; None elsewhere. Odds are those of the share of what the rule accepts at most.
    Chains with step sizes of their own are looked at one by one. Stairs, and a length that is chosen, have others."""
    kernel, chances, cycles = result.kernel, result.accept_prob, result.cycles - plan.burn_in
    if plan.tune is None or plan.trajectory or chances is None or cycles < 1 or kernel.schedule.varies_between():
        return None
    target, most, apart = plan.tune, limit(kernel.acceptance), isinstance(kernel.step_size, Tensor)
    rates, decided = (chances.tolist(), cycles) if apart else ([float(chances.nanmean())], cycles * len(chances))

    def far(rate: float) -> bool:
        odds = (rate + 0.5 / decided) / (max(most - rate, 0) + 0.5 / decided) * (most - target) / target
        return abs(math.log(odds)) > math.log(4) and abs(rate - target) > 6 * math.sqrt(target * (1 - target) / decided)

    some = [chain for chain, rate in enumerate(rates) if rate == rate and far(rate)]
    if not some:
        return None
    ends = dict.fromkeys(f"{end([rates[chain] for chain in some]):.3g}" for end in (min, max))
    where = f" of {of_chains(some, len(rates))}" if apart and len(rates) > 1 else ""
    mend = "give a longer burn_in, or begin with the step size that it came to"
    return f"acceptance {' to '.join(ends)}{where} after the burn-in, which tuned it to {target:g}: {mend}"


def of_chains(some: list[int], chains: int) -> str:
    """How many of the chains these are, and their indices."""
    return f"{len(some)} of {chains} chains ({'index' if len(some) == 1 else 'indices'} {few(some, 10)})"


def _own(text: str) -> str:
    """The text with the arguments of ``sample`` in the place of the command line's settings."""
    names = {"steps_per_cycle": "steps", "tune.target": "tune", "tune.trajectory": "trajectory", "sampler.": ""}
    names["schedule.direction=random"] = "Schedule(…, direction='random')"
    names["the run another name or output"] = "another folder"
    for theirs, ours in names.items():
        text = text.replace(theirs, ours)
    return text


@contextmanager
def _own_names():
    """Within, errors name the arguments of ``sample`` and not the command line's settings."""
    try:
        yield
    except SettingError as error:
        value = next((ours for theirs, ours in (("null", None), ("true", True)) if error.value == theirs), error.value)
        raise SettingError(_own(error.setting), value, _own(error.mend)) from None
    except StoreError as error:
        text = str(error).replace("this run another output", "another folder")
        text = text.replace("this run's output", "this folder")
        raise type(error)(text.replace("settings.sampler.", "").replace("settings.", "")) from None


# Arguments by the names that they have elsewhere, where those are like none of them.
ELSEWHERE = {
    **dict.fromkeys(("warmup", "num_warmup", "warmup_steps", "n_tune"), "burn_in"),
    **dict.fromkeys(("num_samples", "n_samples", "draws", "num_results", "iterations"), "cycles"),
    **dict.fromkeys(("num_integration_steps", "num_leapfrog_steps", "n_leapfrog"), "steps"),
    **dict.fromkeys(("learning_rate", "eps"), "step_size"),
    **dict.fromkeys(("init", "x0", "theta0", "initial_params", "initial_position", "start"), "initial"),
    **dict.fromkeys(("rng", "key", "generator"), "seed"),
}


def _check_names(policies: dict) -> None:
    """Refuse keyword arguments that there are not."""
    known = [name for name in inspect.signature(sample).parameters if name != "policies"]
    parameters = inspect.signature(make_kernel).parameters.values()
    known += [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.name not in known]
    for name, value in policies.items():
        if name == "lr":
            raise SettingError(name, value, "is the command line's; here give step_size = sqrt(lr/N) with N data")
        if name not in known:
            if name in ELSEWHERE:
                raise SettingError(name, value, f"did you mean {ELSEWHERE[name]}?")
            mend = f"there is no such argument; known are {', '.join(known)}"
            raise SettingError(name, value, nearest(name, known, mend))


@contextmanager
def _bar(shown: bool, cycles: int):
    """What ``run`` reports to: a bar of the cycles, or nothing, as on a terminal that has gone."""
    bar, gone = None, suppress(OSError, ValueError)
    if shown and sys.stderr is not None:
        from tqdm.auto import tqdm  # a notebook's, in one

        class Bar(tqdm):
            def display(self, *given, **named):
                """What this raised would leave tqdm's lock taken, for which a thread of its waits at the end."""
                with gone:
                    return super().display(*given, **named)

        with gone:
            bar = Bar(total=cycles, unit="cycle", leave=False)

    def update(chain: Chain, row: dict | None) -> None:
        with gone:
            bar.update(chain.cycle - bar.n)

    try:
        yield update if bar is not None else lambda chain, row: None
    finally:
        with gone:
            if bar is not None:
                bar.close()


def _without_effect(kernel: Kernel, given: dict) -> list[str]:
    """The names of what was given, of what its schedule says of stairs, too, and the kernel makes no use of."""
    used = {
        **dict.fromkeys(("friction", "momentum_decay", "beta", "b"), kernel.word.refreshes or kernel.rescaled),
        **{name: getattr(kernel, policy) in ways for name, (policy, ways, _) in NUMBERS.items()},
        "batch_size": isinstance(kernel.batches, Minibatches) or kernel.exact_ends > 0,
        "minibatches": isinstance(kernel.batches, Minibatches),
        "ends": kernel.gradient == "minibatch",
    }
    unused = [name for name, value in given.items() if value is not None and not used.get(name, True)]
    if not kernel.schedule.varies_between():
        said = [name for name in STAIRS if getattr(kernel.schedule, name) != getattr(Schedule, name)]
        unused += [f"schedule.{name}" for name in said]
    return unused


def _initial(value, chains: int | None, dim: int, dtype: torch.dtype) -> Tensor:
    """Starting positions ``[chains, dim]`` of a tensor or of nested lists; SettingError for another shape."""
    need = f"must be [{'chains' if chains is None else chains}, {dim}]: [chains, dim]"
    try:
        initial = torch.as_tensor(value, dtype=dtype)
    except (TypeError, ValueError, RuntimeError):
        raise SettingError("initial", value, need) from None
    if chains is None:
        chains = len(initial) if initial.ndim == 2 else 1
    in_a_row = initial.ndim == 1 and len(initial) == chains * dim
    if not chains or not (in_a_row or initial.shape == (chains, dim)):
        raise SettingError("shape of initial", list(initial.shape), need)
    return initial.detach().reshape(chains, dim)
