"""A worker's signals between runs. Light to import, so that they are seen to before anything that takes seconds."""

import signal


def leave_on_signals() -> None:
    """SIGTERM and SIGUSR1 end a worker with status 75 between runs, too, and give its lock back: Jug ends with 1 at
    the one, and the other would kill it. While a run is in progress, that sees to them (``sgmcmc.chain.Signals``)."""

    def leave(*_):
        raise SystemExit(75)

    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, leave)
