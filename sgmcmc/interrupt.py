"""Signals that end a run: a scheduler's, a terminal's that is closed, or Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted(BaseException):
    """A scheduler's signal (SIGTERM, SIGUSR1), a closed terminal's (SIGHUP) or Ctrl-C arrived."""


def ending() -> list[signal.Signals]:
    """The signals, besides Ctrl-C, that ask a process to end; SIGHUP unless it is ignored, as under nohup."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGUSR1, *([] if ignored else [signal.SIGHUP])]


@contextmanager
def unbroken() -> Iterator[None]:
    """Within, Ctrl-C waits for the end; a second one does not.

    What torch imports when it is first asked for gradients or graphs, and what it compiles, is broken for as long as
    the process lives, a notebook's too, where it is left in the middle.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (None, signal.SIG_IGN):
        yield
        return
    arrived = []

    def wait(number: int, _) -> None:
        arrived.append(number)
        if len(arrived) == 2:
            signal.signal(signal.SIGINT, before)
            signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if len(arrived) == 1:
            signal.raise_signal(signal.SIGINT)


class Signals:
    """While entered, Ctrl-C and the signals of ``ending`` set ``arrived`` and, while ``armed``, raise Interrupted.

    A trajectory may be left at any moment, because it changes nothing but its place before it ends; bookkeeping
    and writing may not, so they run unarmed and the signal waits for them. A signal that comes too late to interrupt
    this run (``answered`` stays False) is raised again for the handlers that were there before: other runs may follow.
    Where nothing is ``stored`` all but Ctrl-C are left to those handlers from the first.
    """

    def __init__(self):
        self.stored = True
        self.armed = self.answered = self.raised = False
        self.arrived: int | None = None
        self._old: dict = {}

    def _handle(self, number: int, _) -> None:
        self.arrived = number
        if self.armed:
            self._raise()

    def _raise(self) -> None:
        self.armed, self.raised = False, True
        raise Interrupted

    def arm(self) -> None:
        """From here on a signal raises, one that has waited at once."""
        self.armed = True
        if self.arrived:
            self._raise()

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, *(ending() if self.stored else ())):
                if signal.getsignal(number) is not None:  # a handler that is not Python's could not be put back
                    self._old[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_) -> None:
        for number, old in self._old.items():
            signal.signal(number, old)
        if self.arrived and not self.answered:
            signal.raise_signal(self.arrived)
