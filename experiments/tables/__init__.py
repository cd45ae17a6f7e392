"""The summary tables: what the papers' figures and tables need, made from the finished chains of the experiments.

``TABLES`` maps a table's name to its experiment and to its maker, a function from the experiment's runs to rows.
Figures read the tables alone. A small module of one's own, to be named in ``SOURCES``::

    from experiments.tables.common import moved, of_each, standard_error

    def _acceptance(run):  # a row a step size; the sampler, how the run ended and its seconds are put in
        moves = moved(run.draws).double().mean(0)
        for size, chains in run.groups():
            each = moves[chains.start : chains.stop]
            row = {"word": run.config["sampler"]["word"], "step_size": size}
            yield row | {"accepted": float(each.mean()), "accepted_error": standard_error(each)}

    TABLES = {"my_words": ("my_words", of_each(_acceptance))}  # table: (experiment, maker)
"""

from __future__ import annotations

import sys
from hashlib import sha256
from pathlib import Path

from experiments.resolved import planned_cycles
from experiments.tables import (
    amagold,
    amagold_networks,
    bnn,
    findings,
    ggmc,
    minibatch_mh,
    neal,
    networks,
    noise,
    note,
    theorem2,
    trajectory,
)
from experiments.tables.common import Joined, Maker, Run
from sgmcmc.chain import FAILED, RUNNING
from sgmcmc.errors import StoreError

SOURCES = (
    *(ggmc, amagold, amagold_networks, neal, note),
    *(findings, theorem2, minibatch_mh, trajectory, networks, bnn, noise),
)
TABLES: dict[str, tuple[str, Maker]] = {name: table for source in SOURCES for name, table in source.TABLES.items()}
EXPERIMENTS = tuple(dict.fromkeys(experiment for experiment, _ in TABLES.values()))


def tables_of(experiment: str) -> list[str]:
    """The names of the tables that are made from the experiment's runs."""
    return [name for name, (source, _) in TABLES.items() if source == experiment]


def _code(source) -> str:
    """The first digits of a hash of a module of tables and of those that it has something from."""
    homes = {source.__name__} | {getattr(value, "__module__", None) for value in vars(source).values()}
    modules = [sys.modules[name] for name in sorted(filter(None, homes)) if name.startswith(__name__)]
    return sha256(b"".join(Path(module.__file__).read_bytes() for module in modules)).hexdigest()[:12]


# Which code makes each table: as it was read, for a worker may run for days beside an edited file.
CODE = {table: _code(source) for source in SOURCES for table in source.TABLES}


def make(table: str, configs: list[dict], ends: list[dict]) -> tuple[list[dict], dict]:
    """The table's rows, and what they were made on: seconds of computing, machines, versions.

    StoreError where a run is longer than its configuration asks for, and would look better than the others, or shorter.
    """
    return _made(TABLES[table][1], configs, ends)


def make_part(table: str, config: dict, end: dict) -> tuple[list[dict], dict]:
    """What one run adds to a table, for ``join``; and what it was made on."""
    maker = TABLES[table][1]
    return _made(maker.each if isinstance(maker, Joined) else maker, [config], [end])


def join(table: str, rows: list[dict]) -> list[dict]:
    """The table's rows, of those that ``make_part`` gave for each of its runs."""
    maker = TABLES[table][1]
    return maker.join(rows) if isinstance(maker, Joined) else rows


def _made(maker: Maker, configs: list[dict], ends: list[dict]) -> tuple[list[dict], dict]:
    runs = [
        Run(number, config, end["status"], Path(end["folder"]), end.get("why", ""))
        for number, (config, end) in enumerate(zip(configs, ends, strict=True))
    ]
    for run in runs:
        _check_length(run)
    return maker(runs), provenance(runs)


def _check_length(run: Run) -> None:
    asked = planned_cycles(run.config) if run.status == "done" else None
    if asked is None:
        return
    if (cycles := run.facts["cycles"]) != asked:
        more, mend = ("more", ": move it away, and run again") if cycles > asked else ("fewer", "")
        raise StoreError(f"{run.path} has {cycles:,} cycles, {more} than the {asked:,} of this table{mend}")
    # The status tells the cycles of the end before, and the folder may hold others behind them.
    if (state := run.facts.get("state")) in (RUNNING, FAILED):
        raise StoreError(f"{run.path} was gone on with after the {asked:,} cycles of this table, and is {state}")


def provenance(runs: list[Run]) -> dict:
    """Where and how long the runs of a table were computed, from their folders."""
    facts = [run.facts for run in runs if run.status != "failed"]
    where = [environment for fact in facts for environment in fact.get("environments", ())]

    def each(key):
        return list(dict.fromkeys(environment[key] for environment in where if environment.get(key)))

    return {
        "runs": len(runs),
        "seconds": round(sum(fact.get("seconds") or 0.0 for fact in facts), 1),
        "processor": each("processor"),
        "device": each("device"),
        "torch": each("torch"),
        "commit": [commit[:12] + commit[40:] for commit in each("git_commit")],  # "+changes" stays
    }
