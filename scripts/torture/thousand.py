"""A grid of a thousand chains."""

from __future__ import annotations

import contextlib
import csv
import os
import random
import shutil
import signal
import subprocess
import sys
import time

from grids import JUG, children, log_of, workers
from harness import ROOT, Counted, Lost

THOUSAND = """# @package _global_
defaults:
  - override /model: double_well
  - override /data: none
name: thousand
sampler:
  acceptance: metropolis
step_size: 0.2
steps_per_cycle: 2
cycles: 20
keep: 10
hydra:
  sweeper:
    params:
      seed: range(0,{number})
"""
PICTURE = """
NAME = "picture.png"


def draw(folder, *_):
    path = folder / NAME
    path.write_bytes(b"PNG")
    return path
"""
TABLE = """
def _thousand(runs):
    return [{"seed": run.config["seed"], "potential": run.metrics["potential"][-1]} for run in runs]


TABLES = {"thousand": ("thousand", _thousand)}
"""


def thousand(count: Counted, choose: random.Random, quick: bool) -> list[tuple[str, str]]:
    """A grid of a thousand tiny chains; what the file system, Jug's store and the summary table see of it."""
    number, folder = 20 if quick else 1000, count.new()
    for name in ("conf", "experiments", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    # A picture takes longer than one of these chains.
    (folder / "experiments" / "picture.py").write_text(PICTURE)
    (folder / "sgmcmc").symlink_to(ROOT / "sgmcmc")
    shutil.copy(ROOT / "jugfile.py", folder)
    (folder / "conf" / "experiment" / "thousand.yaml").write_text(THOUSAND.format(number=number))
    tables = folder / "experiments" / "tables"
    (tables / "thousand.py").write_text(TABLE)
    named = "from experiments.tables import thousand\n\nSOURCES = (\n    thousand,\n"
    (tables / "__init__.py").write_text((tables / "__init__.py").read_text().replace("SOURCES = (\n", named, 1))
    words = ["experiment=thousand"]

    def timed(*command, status: int = 0) -> tuple[float, subprocess.CompletedProcess]:
        begun = time.monotonic()
        ended = subprocess.run([str(word) for word in command], cwd=folder, capture_output=True, text=True)
        if ended.returncode != status:
            raise Lost(f"{' '.join(map(str, command))}: status {ended.returncode}: {ended.stderr[-2000:]}")
        return time.monotonic() - begun, ended

    facts = [("chains", str(number))]

    def note(what, seconds):
        facts.append((what, f"{seconds:.2f} s"))

    with count.row(f"a grid of {number} chains by two workers, one of them killed now and then") as row:
        note("jug status, nothing done", timed(*JUG, "status", "jugfile.py", *words, status=1)[0])
        begun = time.monotonic()
        process = workers(folder, "--cpus", "2", *words)
        while process.poll() is None:
            time.sleep(5 if quick else 30)
            victims = children(process)
            if victims and row.times < 8:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(choose.choice(victims), signal.SIGKILL)
                    row.times += 1
        seconds = time.monotonic() - begun
        with count.once(row):
            if process.returncode:
                raise Lost(f"a grid of {number} chains: status {process.returncode}: {log_of(folder)}")
            with (folder / "results" / "paper" / "tables" / "thousand.csv").open() as table:
                seeds = [int(line["seed"]) for line in csv.DictReader(table)]
            if seeds != list(range(number)):
                raise Lost(f"the table of {number} chains has {len(seeds)} rows: {folder}")
    facts.append(("a chain, two workers side by side", f"{2 * seconds / number:.2f} s of a worker"))
    note("jug status, all done", timed(*JUG, "status", "jugfile.py", *words)[0])
    note("jug check, all done", timed(*JUG, "check", "jugfile.py", *words)[0])
    note("a worker that finds all done: start, graph, search", timed(*JUG, "execute", "jugfile.py", *words)[0])
    note("scripts/status.py", timed(sys.executable, "scripts/status.py", *words)[0])
    script = (
        "import sys, time; sys.argv = ['jugfile.py', 'experiment=thousand']; sys.path.insert(0, '.'); import jug\n"
        "begun = time.monotonic(); import experiments.graph as g; c = g.plan(sys.argv)[0][2]\n"
        "print(time.monotonic() - begun)\n"
        "store, space = jug.init('jugfile.py', 'jugfile.jugdata')\n"
        "tasks = [end for *_, end in space['chains']]; begun = time.monotonic()\n"
        "assert all(task.can_load() for task in tasks); print(time.monotonic() - begun)\n"
    )
    planned, search = timed(sys.executable, "-c", script)[1].stdout.split()[-2:]
    note("the plan of the grid: Hydra's composition, once, and the points", float(planned))
    note("the search for a next task where all others are done", float(search))
    timed(*JUG, "invalidate", "jugfile.py", *words, "--name", "experiments.tasks.table")
    note("a worker that makes the table of all chains anew", timed(*JUG, "execute", "jugfile.py", *words)[0])
    for what, tree in (("run folders", "results/runs"), ("Jug's store", "jugfile.jugdata")):
        entries = list((folder / tree).rglob("*"))
        sizes = [path.stat() for path in entries]
        plain = [status for path, status in zip(entries, sizes, strict=True) if path.is_file()]
        facts.append(
            (
                f"{what}: files, inodes, bytes, bytes on the disk",
                f"{len(plain):,}, {len(entries):,}, {sum(status.st_size for status in plain):,}, "
                f"{sum(status.st_blocks * 512 for status in sizes):,}",
            )
        )
    return facts
