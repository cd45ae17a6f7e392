"""The tasks of the graph: segments of chains, and summary tables made of finished chains.

A task is known to Jug by its function's name and its arguments, so every argument is plain data and these names stay.
A chain is a string of segments, each of which continues the run folder of the one before: it can move to another
worker between them, and a killed worker's successor goes on from the run's last checkpoint.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import math
import shlex
import sys
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import NoReturn

from experiments import tables
from experiments.resolved import INTERRUPTED, MISTAKE, NETWORKS, folder, identity, is_own, planned_cycles
from experiments.signals import signals_first
from sgmcmc import disk
from sgmcmc.errors import DataError, DiskError, DiskFailed, FolderBusy, NoDevice, NoRoom, SettingError, StoreError
from sgmcmc.formats import read_status

SEGMENT = 30  # cycles of a network's chain; the chains of toys and regressions are one segment each
SCALES = ("paper", "quick", "smoke")
MEND = "the results' folder has to be there, and yours to write"
ANNOUNCED: dict[str, str] = {}  # what is said before a segment of the chain with this identity


def lengths(config: dict) -> list[int | None]:
    """The cycles after which the segments of a chain end; None of one whose epochs alone say how long it is."""
    cycles = planned_cycles(config)
    if cycles is None or config["model"]["name"] not in NETWORKS:
        return [cycles]
    return [min(end, cycles) for end in range(SEGMENT, cycles + SEGMENT, SEGMENT)]


def segment(config: dict, cycles: int | None, previous: dict | None) -> dict:
    """Run a chain up to ``cycles``; returns where it lies and how it stands.

    A chain that diverged or failed is a result: the rest of the grid goes on. A signal ends the worker after a
    checkpoint, and the task can be taken up by another; so do a full disk, and a run folder that another process is
    writing. Data, a folder, a device, or as much memory, that cannot be had here, and a class of one's own that cannot
    be used, are a mistake that ends it, too: elsewhere, or later, the task may be done.
    """
    from experiments.run import run, status_of
    from experiments.voice import say

    if previous and previous["status"] != "done":
        return previous
    whole = planned_cycles(config)
    if cycles is not None:
        config = {**config, "cycles": cycles, "epochs": None}
    if (here := identity(config)) in ANNOUNCED:
        say(ANNOUNCED[here])
    try:
        with _ended_by_disk(f" ({MEND})"), signals_first():
            code = run({**config, "progress": False}, whole=whole)
    except (DataError, NoDevice, NoRoom) as error:
        _stop(error)
    except (SettingError, StoreError) as error:
        if is_own(config):  # of code, which can be mended without another setting
            _stop(error)
        print(error, file=sys.stderr)
        return {"status": "failed", "why": str(error), "hash": identity(config), "folder": str(folder(config))}
    if code == INTERRUPTED:
        raise SystemExit(INTERRUPTED)
    return {"status": status_of(code), "hash": identity(config), "folder": str(folder(config))}


def table(name: str, experiment: str, scale: str, configs: list[dict], ends: list[dict], *words: str) -> dict:
    """A summary table's rows, and where and how long its chains were computed; with the ``words`` that make them others
    than the experiment's own.

    A chain that is not there, is damaged, was made longer than it is asked to be, or is of another ``LAW`` or of a
    class of one's own that was edited since, is a mistake that ends the worker; the table that may be there stays.
    """
    from sgmcmc.environment import one_thread

    one_thread()
    again = f"{_invalidate('segment', experiment, scale, words)} makes it run again"
    for end in ends:
        if not (Path(end["folder"]) / "metrics.csv").exists() and end["status"] != "failed":
            where = f"{end['folder']} is not below {Path.cwd()}: start jug in the folder where its chain was run"
            _stop(StoreError(f"{where}; if it was deleted, {again}"))
    if told := edited(zip(configs, ends, strict=True)):
        _stop(SettingError(told.setting, told.value, f"{told.mend} ({again})"))
    try:
        with _ended_by_disk(f" ({MEND})"):
            rows, made = tables.make(name, configs, ends)
    except StoreError as error:
        _stop(StoreError(f"{table_path(name, scale, *words)} is not made: {error} ({again})"))
    chains = hashlib.sha256(" ".join(end["hash"] for end in ends).encode()).hexdigest()[:12]
    made = {"experiment": experiment, "scale": scale, **made, "chains": chains, "code": tables.CODE[name]}
    if words:
        made["words"] = " ".join(words)
    path = table_path(name, scale, *words)
    with _ended_by_disk(), disk.told(path, MEND):
        write_table(path, rows, made)
    return {"rows": rows, "made": made}


def edited(chains: Iterable[tuple[dict, dict]]) -> SettingError | None:
    """What is wrong with the first of the chains, each its configuration and its end, that would be another one by now:
    by another ``LAW``, or of a class of one's own that was edited. Of what is not here nothing is told."""
    for config, end in chains:
        if end["status"] != "failed" and end["hash"] != identity(config):
            from sgmcmc import LAW

            return SettingError("sgmcmc.LAW", LAW, f"{end['folder']} was run by another LAW, and now has other numbers")
        if is_own(config) and end["status"] != "failed" and Path(end["folder"], "config.yaml").exists():
            from experiments.build import reopened

            try:
                reopened(end["folder"])
            except SettingError as error:
                return SettingError(error.setting, error.value, f"{error.mend}; move {end['folder']} away")
            except (DataError, StoreError):
                continue
    return None


def tell_edited(experiment: str, scale: str, chains: Iterable[tuple[dict, dict]], *words: str) -> None:
    """Say where the first of the finished chains, which no worker runs again, is ``edited``; the others are not asked
    for."""
    if told := edited(islice(chains, 1)):
        again = f"{_invalidate('segment', experiment, scale, words)} makes its chains run again"
        print(f"{told} ({again})", file=sys.stderr)


def tell_longer(experiment: str, configs: list[dict]) -> None:
    """Say, before any chain is run, which have more cycles than they are asked for: their tables would be refused."""
    longer = []
    for config in configs:
        asked, place = planned_cycles(config), folder(config)
        with contextlib.suppress(OSError, StoreError, KeyError):
            if asked is not None and (cycles := read_status(place)["cycles"]) > asked:
                longer.append(f"{place} has {cycles:,}, not {asked:,}")
    if longer:
        which = f"of experiment={experiment}'s {len(configs)} chains {len(longer)} have more cycles than it asks for"
        print(f"{which} ({longer[0]}): its tables will not be made; move these away", file=sys.stderr)


def _stop(error: Exception) -> NoReturn:
    """End the worker with the sentence of a mistake."""
    print(error, file=sys.stderr)
    raise SystemExit(MISTAKE)


@contextlib.contextmanager
def _ended_by_disk(mend: str = ""):
    """End the worker with a sentence where a disk failed or a folder is busy, as a signal does, and, with how to
    ``mend`` it, where a folder cannot be had."""
    try:
        yield
    except (FolderBusy, DiskFailed) as error:
        print(error, file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    except DiskError as error:
        _stop(DiskError(f"{error}{mend}"))


def bring_back(name: str, scale: str, table: dict, *words: str) -> None:
    """Write a table that is in Jug's store where it is not there any more, and say where another one is there, or other
    code would make it."""
    path, made = table_path(name, scale, *words), table["made"]
    try:
        with disk.told(path, MEND):
            if path.exists() and path.read_text(encoding="utf-8", errors="replace") != _text(table["rows"]):
                print(f"{path} is not the table of jug's store, which is written where none is", file=sys.stderr)
            else:
                write_table(path, table["rows"], made)
    except DiskError as error:
        print(error, file=sys.stderr)
    if made.get("code", tables.CODE[name]) != tables.CODE[name]:
        anew = f"{_invalidate('table', made['experiment'], scale, words)} lets it be made anew"
        print(f"{path} was made by other code than experiments/tables has now; {anew}", file=sys.stderr)


def _invalidate(task: str, experiment: str, scale: str, words) -> str:
    """The command that forgets what such tasks of an experiment gave."""
    chosen = shlex.join((f"experiment={experiment}", f"scale={scale}", *words))
    return f"`jug invalidate jugfile.py {chosen} --name experiments.tasks.{task}`"


def table_path(name: str, scale: str, *words: str) -> Path:
    """Where a summary table lies: among the results if it is the experiment's own, at paper or quick scale; else below
    results/runs, in a folder of the ``words`` that make its chains others. A file's name has at most 255 bytes: of many
    words the beginning, and what tells them from others that begin so."""
    root = Path("results", scale)
    if words or scale == "smoke":
        folder = ",".join((scale, *words)).replace("/", "_")
        if len(folder.encode()) > 200:
            told = hashlib.sha256(folder.encode()).hexdigest()[:8]
            folder = f"{folder.encode()[:190].decode(errors='ignore')},{told}"
        root = Path("results", "runs", folder)
    return root / "tables" / f"{name}.csv"


def write_table(path: Path, rows: list[dict], made: dict) -> None:
    """Write rows as CSV and ``made`` as JSON beside it, where they are not there already in the same words.

    Where a table of other chains is replaced (an experiment's file was edited), that is told.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):  # of what is damaged nothing is known
        before = json.loads(path.with_suffix(".json").read_text())
        known = before.get("chains"), made.get("chains")
        if all(known) and len({*known}) > 1:
            why = f"experiment={made['experiment']} was edited since, or sgmcmc.LAW raised"
            print(f"{path} was of other chains: {why}", file=sys.stderr)
    for file, content in ((path, _text(rows)), (path.with_suffix(".json"), json.dumps(made, indent=1) + "\n")):
        if file.exists() and file.read_text(encoding="utf-8", errors="replace") == content:
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        disk.write(file, content.encode())
        print(f"wrote {file}", file=sys.stderr)


def _text(rows: list[dict]) -> str:
    """Rows as CSV."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value):
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.8g}"
    return value
