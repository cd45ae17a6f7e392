"""A published Octave script, as its authors wrote it, from the user's own copy: CPU time of the whole script a draw.

python benchmarks/peers/published.py path/to/script.m 101000
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pace import Pace


def main(path: str, draws: str) -> None:
    script, pace, used = Path(path).resolve(), Pace(), 0.0
    pace.ready()
    while True:
        words = ["octave-cli", "--no-gui", "--quiet", script.name]
        subprocess.run(words, cwd=script.parent, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        total = children.ru_utime + children.ru_stime
        pace.begun -= total - used  # process_time does not count children
        used = total
        pace.done(int(draws))


if __name__ == "__main__":
    main(*sys.argv[1:])
