"""Signals while no run is in progress. Light to import, so that they are seen to before anything that takes seconds."""

import atexit
import os
import signal
import sys
from contextlib import contextmanager, suppress

from sgmcmc.interrupt import ending

AGAIN = 5  # seconds after which a process that a signal did not end is told again
_arrived: list[int] = []
_as_before = sys.unraisablehook


def leave_on_signals(*more: int) -> None:
    """The signals that are ``ending`` end the process with status 75 while no run is in progress, too, so that a worker
    gives its lock back: Jug ends with 1 at SIGTERM, and the others would kill it. During a run ``sgmcmc.interrupt``
    sees to them. ``more`` are others to be treated alike."""

    def leave(number, _):
        if not _arrived:
            with suppress(OSError):
                os.write(2, b"stopped\n")
            atexit.register(signal.alarm, 0)  # the first to be called: a process that ends slowly is not told again
        _arrived.append(number)
        signal.alarm(AGAIN)  # what it raises can be lost: `signals_first`, or this, sees to it then
        raise SystemExit(75)

    _arrived.clear()
    sys.unraisablehook = _told
    for number in (*ending(), signal.SIGALRM, *more):
        signal.signal(number, leave)


def _told(lost) -> None:
    """Say nothing of a signal's exception where none can be raised, in a finaliser; of others what was said before."""
    if not (_arrived and isinstance(lost.exc_value, SystemExit)):
        _as_before(lost)


@contextmanager
def signals_first():
    """A signal that arrived within ends the process with status 75, whatever became of the exception it raised.

    Such an exception can come out anywhere in a library, and a clean-up that fails in its turn (OmegaConf's, of a node
    half made) puts another in its place.
    """
    try:
        yield
    except Exception:
        if not _arrived:
            raise
    if _arrived:
        _arrived.clear()
        raise SystemExit(75)
