"""The same seed, the same chain."""

from __future__ import annotations

import os
import random
import subprocess
import sys

from harness import ROOT, Counted, Lost, alone, finished, same
from kills import RUNS


def seeds(count: Counted, choose: random.Random, quick: bool) -> None:
    """The same seed is the same chain; where it can only be so to rounding, that is measured, and recorded."""
    for name, words in RUNS.items():
        if quick and name == "a compiled toy":
            continue
        with count.row(f"twice, and in a fresh process, bit for bit: {name}") as row:
            whole = alone(words, count.new())[0]
            for fresh in (False, True) if quick else (False, False, True, True):
                folder = count.new()
                with count.once(row):
                    if fresh:
                        environ = dict(os.environ)
                        command = [sys.executable, str(ROOT / "run.py"), *words]
                        subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True)
                    else:
                        finished(words, folder)
                    same(folder / "run", whole, name)
    one = ["cycles=2", "save_every=1", "log_every=1", "trace=null"]
    lines = {
        "1 and 2 threads, float32, two trajectories, difference / (1 + size of θ) below 1e-5": (
            [*RUNS["a network with exact ends"], "epochs=2"],
            ({"OMP_NUM_THREADS": "1"}, []),
            ({"OMP_NUM_THREADS": "2"}, []),
            1e-5,
        ),
        "compiled and not, float64, two trajectories, below 1e-12": (
            [*RUNS["a compiled toy"], *one, "dtype=float64"],
            ({}, ["compile=true"]),
            ({}, ["compile=false"]),
            1e-12,
        ),
    }
    for what, (words, first, second, bound) in lines.items():
        if quick and "compiled" in what:
            continue
        with count.row(what) as row, count.once(row):
            compare(count, words, first, second, bound, row)


def compare(count, words, first, second, bound, row) -> None:
    """Two runs of the same chain under other conditions: their draws to ``bound``, and what status.json says."""
    from sgmcmc.formats import read_status
    from sgmcmc.loading import load_samples

    draws, told = [], []
    for environment, more in (first, second):
        folder = count.new()
        said = {word.partition("=")[0]: word for word in [*words, *more]}
        command = [sys.executable, str(ROOT / "run.py"), *said.values()]
        subprocess.run(command, cwd=folder, env={**os.environ, **environment}, check=True, capture_output=True)
        draws.append(load_samples(folder / "run").double())
        status = read_status(folder / "run")
        told.append((status["environments"][-1]["threads"], status["compiled"]))
    difference = float(((draws[0] - draws[1]).abs() / (1 + draws[0].abs())).max())
    row.what += f" (measured {difference:.1g})"
    if not difference <= bound or told[0] == told[1]:
        raise Lost(f"{row.what}: status.json says {told}")
