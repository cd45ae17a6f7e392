"""The summary tables: what the papers' figures and tables need, made from the finished chains of the experiments.

``TABLES`` maps a table's name to its experiment and to its maker, a function from the experiment's runs to rows.
Figures read the tables alone.
"""

from __future__ import annotations

from pathlib import Path

from experiments.tables import amagold, amagold_networks, bnn, findings, ggmc, neal, note, theorem2
from experiments.tables.common import Maker, Run

TABLES: dict[str, tuple[str, Maker]] = {
    name: table
    for source in (ggmc, amagold, amagold_networks, neal, note, findings, bnn, theorem2)
    for name, table in source.TABLES.items()
}
EXPERIMENTS = tuple(dict.fromkeys(experiment for experiment, _ in TABLES.values()))


def tables_of(experiment: str) -> list[str]:
    """The names of the tables that are made from the experiment's runs."""
    return [name for name, (source, _) in TABLES.items() if source == experiment]


def make(table: str, configs: list[dict], ends: list[dict]) -> tuple[list[dict], dict]:
    """The table's rows, and what they were made on: seconds of computing, machines, versions."""
    runs = [
        Run(number, config, end["status"], Path(end["folder"]), end.get("why", ""))
        for number, (config, end) in enumerate(zip(configs, ends, strict=True))
    ]
    return TABLES[table][1](runs), provenance(runs)


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
        "commit": [commit[:12] for commit in each("git_commit")],
    }
