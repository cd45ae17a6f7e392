"""The command line: ``python run.py sampler=ggmc lr=1e-4``; ``python run.py --help`` explains every word."""

import signal
import sys

from experiments.signals import leave_on_signals
from sgmcmc.streams import settle

if __name__ == "__main__":
    settle()
    leave_on_signals(signal.SIGINT)  # before the imports, which take half a second
    from experiments.command_line import main, show_error

    sys.excepthook = show_error
    sys.exit(main())
