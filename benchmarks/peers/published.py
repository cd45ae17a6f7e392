"""A published Octave script, as its authors wrote it, from the user's own copy: CPU time of the whole script a draw.

python benchmarks/peers/published.py path/to/script.m 101000
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pace import Pace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", type=Path, help="the Octave script")
    parser.add_argument("draws", type=int, help="how many draws it makes")
    options = parser.parse_args()
    if not options.script.is_file():
        parser.error(f"{options.script}: is no file")
    script, pace, used = options.script.resolve(), Pace(), 0.0
    pace.ready()
    while True:
        words = ["octave-cli", "--no-gui", "--quiet", script.name]
        subprocess.run(words, cwd=script.parent, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        total = children.ru_utime + children.ru_stime
        pace.begun -= total - used  # process_time does not count children
        used = total
        pace.done(options.draws)


if __name__ == "__main__":
    main()
