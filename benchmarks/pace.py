"""The protocol between the benchmark and its contestants, each a process of its own.

A contestant prepares (imports, compiles, warms up), says ``ready`` with the CPU seconds that took since its imports,
and waits. At every line on its standard input it does one block of work and answers with the process CPU seconds and
the units done. So contestants in different interpreters are alternated within one run, and only one works at a time.
"""

from __future__ import annotations

import sys
import time


class Pace:
    """The contestant's side: ``ready()`` once, then ``done(units)`` after each block; both wait for the next word."""

    def __init__(self):
        self.out, self.begun = sys.stdout, time.process_time()
        sys.stdout = sys.stderr  # what is run may print

    def ready(self) -> None:
        """Prepared: the warm-up is over."""
        self._say(f"ready {time.process_time() - self.begun:.3f}")

    def done(self, units: float) -> None:
        """One block is done."""
        self._say(f"{time.process_time() - self.begun!r} {units!r}")

    def _say(self, line: str) -> None:
        print(line, file=self.out, flush=True)
        if not sys.stdin.readline():
            self.out.flush()
            raise SystemExit
        self.begun = time.process_time()


def serve(work) -> None:
    """``work()`` does a block and returns its units; called once to warm up."""
    pace = Pace()
    work()
    pace.ready()
    while True:
        pace.done(work())
