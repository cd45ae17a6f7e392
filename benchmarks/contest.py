"""Contestants side by side: alternated block by block, compared as ratios."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
ENVIRONMENT = os.environ | {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": f"{ROOT}:{HERE}",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


@dataclass
class Contestant:
    """A command that speaks as ``pace`` says; ``needs`` is what must be there, else it is skipped with that word."""

    name: str
    command: list[str]
    note: str = ""
    needs: str | None = None
    setup: float = 0.0  # CPU seconds from its imports until it was ready: compiling, warming up
    rounds: list[float] = field(default_factory=list)  # CPU seconds a unit of work
    process: subprocess.Popen | None = None

    def start(self) -> str | None:
        """Begin to prepare; returns why it cannot, or None."""
        if self.needs:
            return self.needs
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=ENVIRONMENT
        )
        line = self.process.stdout.readline()
        if not line.startswith("ready"):
            return f"failed: {self.last_words()}"
        self.setup = float(line.split()[1])
        return None

    def last_words(self) -> str:
        """What one that ended by itself said at last."""
        self.process.wait()
        self.log.seek(0)
        lines = self.log.read().strip().splitlines()
        return lines[-1] if lines else "no word"

    def block(self) -> None:
        """One block of work."""
        self.begin()
        self.end()

    def begin(self) -> None:
        """Begin a block."""
        with contextlib.suppress(BrokenPipeError):  # `end` says why it is gone
            print(file=self.process.stdin, flush=True)

    def end(self) -> None:
        """Wait until it is done."""
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended in the middle: {self.last_words()}")
        seconds, units = map(float, line.split())
        self.rounds.append(seconds / units)

    def stop(self) -> None:
        if self.process:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
            self.process.wait()
            self.process = None

    @property
    def best(self) -> float:
        return min(self.rounds)


def ours(*words: str) -> list[str]:
    """The command of a contestant of this project."""
    return [sys.executable, str(HERE / "contestants.py"), *words]


def python_of_peers() -> str | None:
    """The interpreter with BlackJAX and numba, where `make bench-peers` has made one."""
    path = ROOT / ".venv-peers" / "bin" / "python"
    return str(path) if path.exists() else None


def peer(script: str, module: str, *words: str) -> tuple[list[str], str | None]:
    """Command of a peer in the peers' interpreter, and what is missing."""
    python = python_of_peers()
    if python is None:
        return [], "skipped: no peers' environment (make bench-peers)"
    found = subprocess.run([python, "-c", f"import {module}"], capture_output=True)
    missing = None if found.returncode == 0 else f"skipped: no {module} (make bench-peers)"
    return [python, str(HERE / "peers" / script), *words], missing


def octave(script: Path, *words: str) -> tuple[list[str], str | None]:
    """Command of an Octave script, and what is missing."""
    missing = None if shutil.which("octave-cli") else "skipped: no octave-cli (Debian: apt install octave)"
    return ["octave-cli", "--no-gui", "--quiet", str(script), *words], missing


def alternate(contestants: list[Contestant], rounds: int) -> list[dict]:
    """Rows: CPU time a unit (the least of the rounds), and how many times the first contestant's it is (median of the
    rounds' ratios, with their range), where that one could be started."""
    rows, running = [], []
    for one in contestants:
        why = one.start()
        if why is None:
            running.append(one)
        else:
            rows.append({"who": one.name, "note": why})
    try:
        for number in range(rounds + 1):
            for one in running:
                one.block()
                if number == 0:
                    one.rounds.clear()  # the first round warms caches
    finally:
        for one in running:
            one.stop()
    first = contestants[0]
    for one in running:
        row = {"who": one.name, "us": 1e6 * one.best, "setup": one.setup, "note": one.note}
        if first in running:
            ratios = [theirs / mine for theirs, mine in zip(one.rounds, first.rounds, strict=True)]
            row |= {"ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
        rows.append(row)
    order = [one.name for one in contestants]
    return sorted(rows, key=lambda row: order.index(row["who"]))
