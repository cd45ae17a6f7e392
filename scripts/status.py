"""How the experiments stand, across workers and machines: what `make status` prints.

    python scripts/status.py [--jugdir STORE] experiment=ggmc_fig1 scale=quick

The words are those of `jug execute`. A chain counts as running while its folder was written to in the last quarter of
an hour, unless its process was one of this machine and is gone: that it left a lock is told before the table. The
estimated end supposes that as many chains go on side by side as run now. Of chains not begun here the table may be
there all the same: it came with the repository.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from experiments import locks  # noqa: E402
from experiments.resolved import folder, planned_cycles  # noqa: E402
from sgmcmc.errors import StoreError  # noqa: E402
from sgmcmc.formats import read_status  # noqa: E402
from sgmcmc.store import killed  # noqa: E402
from sgmcmc.streams import settle  # noqa: E402

RECENT = 15 * 60
END = 1 << 16  # bytes at the end of a table that are read: more than a row takes
COLUMNS = (
    "experiment",
    "scale",
    "chains",
    "done",
    "running",
    "diverged",
    "failed",
    "cycles",
    "per minute",
    "end",
    "where",
)


def main(argv: list[str] | None = None) -> int:
    """Print the table; exit status 0, and 2 for a mistake in the words (`jug check` says by its own whether all is
    done)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jugdir", default=locks.usual())
    options, words = parser.parse_known_args(argv)
    if flags := [word for word in words if word.startswith("-")]:
        parser.error(f"{flags[0]}: is no option; settings are KEY=VALUE, such as scale=quick")
    server = "://" in options.jugdir  # a folder need not be ours, or there
    if (server or os.path.isfile(options.jugdir)) and (why := locks.unusable(options.jugdir)):
        parser.error(why)
    listed, missing = graph(options.jugdir, words)
    rows = [summary(*part, missing) for part in experiments(listed)]
    lines = [COLUMNS, *([str(row[column]) for column in COLUMNS] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(COLUMNS))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return 0


def graph(store: str, words: list[str]) -> tuple[list[tuple], dict[tuple, bool]]:
    """(experiment, scale, configuration, how its last segment ended or None) of every chain; of the (experiment, scale)
    that have a table which is not made yet, whether files of such tables are there."""
    import jug

    sys.argv = ["jugfile.py", *words]
    _, space = jug.init(str(ROOT / "jugfile.py"), store)
    listed = [(*chain, end.result if end.can_load() else None) for *chain, end in space["chains"]]
    missing: dict = {}
    for experiment, scale, path, table in space["tables"]:
        if not table.can_load():
            missing[experiment, scale] = path.exists() and missing.get((experiment, scale), True)
    return listed, missing


def experiments(listed: list[tuple]):
    """(experiment, scale, its chains) in order."""
    parts: dict = {}
    for experiment, scale, config, end in listed:
        parts.setdefault((experiment, scale), []).append(look(config, end))
    return [(*key, part) for key, part in parts.items()]


def look(config: dict, end: dict | None) -> dict:
    """One chain: its state, the cycles it has done of those planned, its speed, where it runs."""
    path, planned = folder(config), planned_cycles(config)
    chain = {"state": "waiting", "cycles": 0, "planned": planned, "each": None, "epochs": 0.0, "host": None}
    with contextlib.suppress(StoreError, OSError, KeyError, IndexError, ValueError):
        row = last_row(path / "metrics.csv")
        cycles, seconds = int(row["cycle"]), float(row["seconds"])
        chain["cycles"] = cycles if planned is None else min(cycles, planned)  # a larger scale's may lie here
        chain["each"] = seconds / cycles
        chain["epochs"] = 60 * float(row["epoch"]) / seconds
    with contextlib.suppress(StoreError, OSError, KeyError, IndexError):
        status = read_status(path)
        recent = max(file.stat().st_mtime for file in path.iterdir()) > time.time() - RECENT
        if status["state"] == "running" and recent and not killed(path):
            chain |= {"state": "running", "host": status["environments"][-1]["host"]}
        elif status["state"] == "failed":
            chain["state"] = "failed"
    if end is not None:
        chain["state"] = end["status"]
    return chain


def last_row(path: Path) -> dict[str, str]:
    """The last row of a table by its columns, of which no more is read than its two ends: a store holds gigabytes of
    such tables. A line without its end is still being written, and is none; IndexError where there is no row."""
    with path.open("rb") as file:
        head = file.readline()
        file.seek(max(len(head), file.seek(0, os.SEEK_END) - END))
        *lines, _ = file.read().decode(errors="replace").split("\n")
    return dict(zip(*csv.reader([head.decode(), lines[-1]]), strict=True))


def summary(experiment: str, scale: str, part: list[dict], missing: dict[tuple, bool]) -> dict:
    """An experiment's line; that its chains are done does not say that its table could be made."""
    count = {
        state: sum(chain["state"] == state for chain in part) for state in ("done", "running", "diverged", "failed")
    }
    ended = ("done", "diverged", "failed")
    known = [chain["each"] for chain in part if chain["each"]]
    left = [chain for chain in part if chain["state"] not in ended]
    end = "-" if left else "no table" if (experiment, scale) in missing else "done"
    if left and not any(chain["cycles"] for chain in part):
        made_elsewhere = missing.get((experiment, scale))  # the table came with the repository
        end = "table is there" if made_elsewhere else end
    if left and count["running"] and known and all(chain["planned"] for chain in left):
        mean = sum(known) / len(known)
        seconds = sum((chain["planned"] - chain["cycles"]) * (chain["each"] or mean) for chain in left)
        end = time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + seconds / count["running"]))
    planned = [chain["planned"] for chain in part]
    running = [chain for chain in part if chain["state"] == "running"]
    epochs = sum(chain["epochs"] for chain in running)
    cycles = sum(60 / chain["each"] for chain in running if chain["each"])
    return {
        "experiment": experiment,
        "scale": scale,
        "chains": len(part),
        **count,
        "cycles": f"{sum(chain['cycles'] for chain in part)} of {sum(planned) if all(planned) else '?'}",
        "per minute": f"{epochs:.3g} epochs" if epochs > 0 else f"{cycles:.3g} cycles" if cycles else "-",
        "end": end,
        "where": ", ".join(sorted({chain["host"] for chain in part if chain["host"]})) or "-",
    }


if __name__ == "__main__":
    settle()
    os.chdir(Path(__file__).absolute().parents[1])  # where results and jug's store lie
    sys.exit(main())
