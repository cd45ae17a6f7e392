"""One run: a resolved configuration in, a run folder, its summary and its picture out."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch

import sgmcmc
from experiments import moments, outcome, picture
from experiments.build import build, edits
from experiments.resolved import (
    DIVERGED,
    DONE,
    INTERRUPTED,
    STARTS,
    folder,
    identity,
    is_own,
    planned_cycles,
    scientific,
    show,
)
from experiments.voice import Voice, counted, say
from sgmcmc import chain as engine
from sgmcmc import kept
from sgmcmc.environment import needs_memory, one_thread
from sgmcmc.errors import DataError, NoRoom, SettingError, StoreError
from sgmcmc.formats import read_status
from sgmcmc.inductor import CannotCompile
from sgmcmc.potentials import is_network
from sgmcmc.store import damage

STATUS = {engine.DONE: DONE, engine.DIVERGED: DIVERGED, engine.INTERRUPTED: INTERRUPTED}


def run(
    config: dict, until: Callable[[], float] = lambda: math.inf, no_slower: bool = False, whole: int | None = None
) -> int:
    """Run ``config`` to its end, from its last block where there is one; returns the exit status.

    0 done (or done before), 3 diverged, 75 interrupted after a checkpoint: by a signal, or because another cycle would
    end after ``until()``, by ``time.monotonic()``, asked when all is built. Raises SettingError, DataError and
    StoreError, which the command line prints as one sentence; and, if it is to be ``no_slower`` than planned,
    CannotCompile where steps that were to be compiled or captured cannot be, which else go on without. ``whole``: how
    many cycles it is to have in the end, if ``config`` is a part of it: what is compiled does not depend on the parts.
    """
    path, start = folder(config), _start(config)
    begun = _status(config, path)
    if start and begun.get("start", start) != start:
        mend = "is another file than when the run was begun: give the run another name or output"
        raise SettingError("init", config["init"], mend)
    one_thread()
    # As the engine has it, for what a target is asked before.
    torch.backends.cudnn.deterministic = True
    own = is_own(config)
    pieces = build(config, whole) if own else None
    if own:  # an edited class is another target, of a finished run, too
        target = pieces.kernel, pieces.potential, getattr(torch, config["dtype"]), pieces.random.device
        unknown = not kept.known(path, identity(config), *target)
    if edited := edits(path):
        say(f"{path / 'config.yaml'} was edited ({edited}): it is written anew")
    finished = None if edited else _finished(config, path, begun)
    if finished is not None:
        return finished
    pieces = pieces or build(config, whole)
    if not begun and (hint := _begun_without(config) or _begun_before(config)):
        say(hint)
    if "compiled" in begun:  # a run that is continued stays what it was begun as
        pieces.plan = replace(pieces.plan, compile=begun["compiled"])
    known = {"start": start} if start else {}
    known |= {"target": kept.target(*target)} if own and unknown else {}
    store = sgmcmc.RunFolder(
        path,
        {"hash": identity(config), "law": sgmcmc.LAW, "settings": scientific(config)},
        show(config),
        device=pieces.random.device,
        warn=lambda text: print(text, file=sys.stderr),
        begun=known,
    )
    with store:
        voice = Voice(config, pieces, path)

        def tell(text: str) -> None:
            voice.tell(text)
            store.log(text)

        def slower(text: str) -> None:
            if no_slower:
                raise CannotCompile(text)
            tell(text)

        def report(chain, row) -> None:
            if voice.first is None:
                store.status(compiled=chain.begun_compiled, graph=chain.captured, together=chain.joined)
                for line in voice.opening:
                    store.log(line)
                if pieces.chains > 1 and is_network(pieces.potential):
                    tell(_side_by_side(len(chain.groups[0]), config["together"]))
                if chain.cycle > 1:
                    tell(f"gone on with after cycle {chain.cycle - 1}")
            voice.report(chain, row)

        try:
            result = sgmcmc.run(
                pieces.kernel,
                pieces.potential,
                pieces.plan,
                pieces.random,
                pieces.chains,
                voice.starting(pieces.initial),
                pieces.predictions,
                store,
                report,
                slower,
                until(),
            )
        except (SettingError, DataError, StoreError):
            raise
        except Exception as error:
            if needs_memory(error):
                raise _out_of_memory(voice) from error
            with suppress(StoreError):  # an error of the target's, or of ours: it is shown, and another start goes on
                _record_failure(store, voice, error)
            raise
        voice.end()
        try:
            _leave_results(store, voice, result)
        except SystemExit:  # a signal
            with suppress(StoreError):
                store.status(state=engine.INTERRUPTED, **result.facts(pieces.plan.cycles))
            say(f"stopped after {counted(result.cycles, 'cycle')}, all kept: the same command looks at them again")
            raise
    return STATUS[result.status]


def _out_of_memory(voice: Voice) -> NoRoom:
    """The mistake that a lack of memory in mid-run is taken for."""
    pieces = voice.pieces
    ways = ["fewer"] * (pieces.chains > 1) + ["a smaller batch_size"] * bool(pieces.potential.data_size)
    where = "this machine" if pieces.random.device.type == "cpu" else voice.device
    mend = f"needs more memory than {where} has; take {', or '.join(ways) or 'fewer coordinates'}"
    return NoRoom("chains", voice.config["chains"], mend)


def _record_failure(store: sgmcmc.RunFolder, voice: Voice, error: Exception) -> None:
    """Write to the log and the status that the run has failed, after the run's plan if no cycle has written that."""
    why = f"{type(error).__name__}: {error}"
    for line in [*(voice.opening if voice.first is None else ()), f"failed: {why}"]:
        store.log(line)
    store.status(state=engine.FAILED, why=why)


def _leave_results(store: sgmcmc.RunFolder, voice: Voice, result: engine.Result) -> None:
    """Say and write what came out: summary, moments, picture and, last, the status, so that a run which says there that
    it is done has all that a run leaves."""
    plan, path = voice.pieces.plan, store.path
    if voice.looks_long(result):
        voice.tell(f"looking at the draws of {counted(result.cycles, 'cycle')}")
    lines, numbers = voice.summary(result)
    for line in lines:
        voice.tell(line)
        store.log(line)
    facts = result.facts(plan.cycles) | {"moments": moments.keep(store, result, plan.estimate_mass)}
    undrawn = None
    if (path / "metrics.csv").exists():
        shows = [f"{voice.config['name']}: {lines[0]}", voice.acceptance, plan.log_every]
        drawn = _drawn(path, shows, voice.tell)
        undrawn = None if drawn else shows
        voice.tell(f"{path}: metrics.csv, samples" + (f", {picture.NAME}" if drawn else ""))
    facts |= {"graph": result.captured, "undrawn": undrawn}  # a capture may fail late
    # What an earlier end of the run said is no longer so.
    numbers = {"log_accept": None, "averages": None, "groups": None, **numbers}
    numbers |= {"acceptance": voice.worth, "told": outcome.TOLD}
    store.status(state=result.status, **facts, **kept.as_json(numbers, nan=None), summary=lines)


def _drawn(path: Path, shows: list, tell: Callable[[str], object]) -> bool:
    """Draw a run's picture, which ``shows`` what ``picture.draw`` says; whether it could be: a run is no less done
    where it could not, and its command draws it again."""
    try:
        picture.draw(path, *shows)
    except Exception as error:  # a disk's, or matplotlib's of a font
        why = getattr(error, "strerror", None) or " ".join(str(error).split())
        tell(f"its picture could not be drawn ({why})")
        return False
    return True


def _side_by_side(number: int, asked: bool | str | None) -> str:
    """How the chains of a network go, so many in a tensor, and whether that is as it was ``asked``."""
    how = f"together, {number} in a tensor" if number > 1 else "one after another"
    other = asked is False and number > 1 or asked is True and number == 1
    return f"the chains go {how}" + (", as when the run was begun" if other else "")


def _begun_without(config: dict) -> str | None:
    """A sentence where the same chain was begun without ``save_every`` and ``log_every``, which are in a run's name."""
    given = {name: config[name] for name in ("save_every", "log_every") if config[name] is not None}
    other = folder({**config, **dict.fromkeys(given)})
    if not given or config["output"] or not (other / "status.json").exists():
        return None
    said = ", ".join(f"{name}={value}" for name, value in given.items())
    return f"{said}: makes a run of its own, which begins anew; without it the one in {other} goes on"


def _begun_before(config: dict) -> str | None:
    """A sentence where the same settings were run by an earlier ``LAW``, which is in a run's name."""
    for law in range(sgmcmc.LAW - 1, 0, -1):
        other = folder(config).with_name(identity(config, law))
        if not config["output"] and (other / "status.json").exists():
            return f"sgmcmc.LAW={sgmcmc.LAW}: has other numbers than {law}, by which {other} was run: this begins anew"
    return None


def _start(config: dict) -> str | None:
    """The SHA-256 of the file that ``init`` names, which no name of a run tells; None where it is none, or gone."""
    if config["init"] in (None, *STARTS):
        return None
    with suppress(OSError):  # what cannot be read is told where it is read
        return hashlib.sha256(Path(config["init"]).read_bytes()).hexdigest()
    return None


def status_of(code: int) -> str:
    """The word for an exit status."""
    return next(word for word, known in STATUS.items() if known == code)


def _finished(config: dict, path: Path, status: dict) -> int | None:
    """The status of a run that is over, told; None where there is something to run."""
    if (wanted := planned_cycles(config)) is None:
        return None
    diverged = status.get("state") == engine.DIVERGED
    over = diverged or status.get("state") == engine.DONE and status.get("cycles", 0) >= wanted
    if not over or damage(path):
        return None  # what is damaged is told when the run is taken up
    if lost := moments.damage(path, status):
        print(f"{path}: {lost}: it is written anew", file=sys.stderr)
        return None
    if not diverged and status["cycles"] == wanted and status.get("told") != outcome.TOLD:
        say(f"{path} is done, and is looked at again: an earlier version told other effective sample sizes")
        return None
    if diverged:
        say(f"diverged after {counted(status.get('cycles', 0), 'cycle')}; the run lies in {path}")
    else:
        _say_done(config, path, status, wanted)
    if status.get("undrawn") and not (path / picture.NAME).exists():
        _drawn(path, status["undrawn"], say)
    return DIVERGED if diverged else DONE


def _say_done(config: dict, path: Path, status: dict, wanted: int) -> None:
    """Say again what came out of a run that is done."""
    more = f", more than the {wanted} asked for" if status["cycles"] > wanted else ""
    say(f"done: {status['cycles']} cycles{more}; the run lies in {path}")
    if config["trace"] and not (path / "trace.csv").exists():
        say("it was run without a trace; more cycles are traced, or another folder (output=…) from the start")
    for line in status.get("summary", ()):
        say(line)


def _status(config: dict, path: Path) -> dict:
    """What status.json says of the run in the folder; nothing where there is none, or another's."""
    try:
        status = read_status(path)
        return status if status["identity"]["hash"] == identity(config) else {}
    except (StoreError, KeyError, TypeError):
        return {}
