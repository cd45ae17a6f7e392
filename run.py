"""The command line: ``python run.py sampler=ggmc lr=1e-4``; ``python run.py --help`` explains every word."""

import sys

from experiments.command_line import main

if __name__ == "__main__":
    sys.exit(main())
