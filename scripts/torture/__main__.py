"""Does a run, and a grid of runs, survive what happens on a cluster? Does the damage, and looks: ``make torture``.

    python scripts/torture [--quick] [--only kills,files] [--seed N] [--side 2] [--write FOLDER]

Every part does one kind of damage at random places and compares what is left, bit for bit, with a run that was left
alone: kills and signals at any moment, files that are broken or cannot be written, workers that die, other numbers of
processes and threads, input that nobody should give, and a grid of a thousand chains. Prints a table of what was
tried, how often, and what was lost; ``--write`` keeps it as torture.csv and torture.md. Exit status 1 where anything
was lost or said otherwise than in one sentence; what it was, and the folder with the remains, stand on standard error.

The seed is printed and repeats the random choices; when a signal arrives is the machine's business, too.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, astuple, fields
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # a killed run leaves no compilers behind

from files import files  # noqa: E402
from grids import grids  # noqa: E402
from harness import Counted, Lost, Row  # noqa: E402
from inputs import inputs  # noqa: E402
from kills import kills  # noqa: E402
from seeds import seeds  # noqa: E402
from thousand import thousand  # noqa: E402

from sgmcmc import disk  # noqa: E402

PARTS = {"kills": kills, "files": files, "grids": grids, "seeds": seeds, "inputs": inputs, "thousand": thousand}


def one_part(name: str, seed: int, quick: bool) -> tuple[list[Row], list[tuple[str, str]]]:
    """A part in this process: its rows, and what it measured."""
    os.environ["MPLBACKEND"] = "Agg"  # what a notebook's shell commands inherit may not be installed here
    import matplotlib.pyplot  # noqa: F401
    import sklearn.datasets  # noqa: F401
    import torch
    from arviz_stats.base import array_stats  # noqa: F401

    # Children are forks: they find all of it imported.
    from experiments import command_line, grid, picture, run  # noqa: F401

    if not quick:  # of which no run is compiled
        import torch._inductor.compile_fx

    torch.set_num_threads(1)
    if quick or name != "inputs":  # a picture takes longer than a run here
        picture.draw = sketch
    folder = Path(tempfile.mkdtemp(prefix=f"torture-{name}-"))
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "compiled")
    count, facts = Counted(name, folder), None
    try:
        facts = PARTS[name](count, random.Random(f"{name} {seed}"), quick)
    except Lost as lost:
        count.rows.append(Row(name, f"ended early: {lost}", 1, 1))
        print(f"LOST {lost}", file=sys.stderr)
    if not any(row.lost for row in count.rows):
        shutil.rmtree(folder)
    return count.rows, facts or []


def sketch(folder, *_):
    """A stand-in for a run's picture, written as that is."""
    disk.write(folder / "picture.png", b"PNG")
    return folder / "picture.png"


def main(argv: list[str] | None = None) -> int:
    """Run the parts; 1 where anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the short form, which the tests run")
    parser.add_argument("--only", default=",".join(PARTS), help="some of " + ", ".join(PARTS))
    parser.add_argument("--seed", type=int, default=None, help="repeats the random choices [drawn, and printed]")
    parser.add_argument("--side", type=int, default=1, metavar="N", help="parts side by side [1]")
    parser.add_argument("--write", type=Path, help="keep torture.csv and torture.md in this folder")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    names = list(dict.fromkeys(options.only.split(",")))
    if unknown := [name for name in names if name not in PARTS]:
        parser.error(f"--only {unknown[0]}: must be some of {', '.join(PARTS)}")
    if options.side < 1:
        parser.error(f"--side {options.side}: must be at least 1")
    if options.json:
        rows, facts = one_part(names[0], seed, options.quick)
        print(json.dumps({"rows": [asdict(row) for row in rows], "facts": facts}))
        return 0
    print(f"seed {seed}", flush=True)
    book, begun = Book(options.write, seed), time.monotonic()
    for rows, facts in side_by_side(names, seed, options.quick, options.side):
        book.add(rows, facts)
    if set(names) == set(PARTS):
        book.took = f"All of it took {(time.monotonic() - begun) / 60:.1f} minutes, {options.side} parts at a time."
        book.write()
    print(page(book.rows, book.facts, book.took, seed))
    return int(any(row.lost for row in book.rows if row.part in names))


class Book:
    """The rows of all parts, kept in a folder after each part; a part that is not run again keeps its old rows."""

    def __init__(self, folder: Path | None, seed: int):
        self.folder, self.seed, self.rows, self.facts, self.took = folder, seed, [], [], ""
        if folder and (folder / "torture.csv").exists():
            with (folder / "torture.csv").open(newline="") as file:
                for row in csv.DictReader(file):
                    self.rows.append(Row(**{**row, "times": int(row["times"]), "lost": int(row["lost"])}))
        if folder and (folder / "thousand.csv").exists():
            with (folder / "thousand.csv").open(newline="") as file:
                self.facts = [tuple(row) for row in csv.reader(file)][1:]

    def add(self, rows: list[Row], facts: list) -> None:
        """Take up a part's rows for those it had."""
        others = [row for row in self.rows if row.part != rows[0].part]
        self.rows = sorted(others + rows, key=lambda row: list(PARTS).index(row.part))
        self.facts = facts or self.facts
        self.write()

    def write(self) -> None:
        """Keep the tables, where they are to be kept."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        text = page(self.rows, self.facts, self.took, self.seed)
        (self.folder / "torture.md").write_text(text, encoding="utf-8")
        for name, head, lines in (
            ("torture.csv", [field.name for field in fields(Row)], [astuple(row) for row in self.rows]),
            ("thousand.csv", ["what", "measured"], self.facts),
        ):
            if lines:
                with (self.folder / name).open("w", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows([head, *lines])


def side_by_side(names, seed, quick, side):
    """The parts, each in a process of its own, so many at once; gives (rows, facts) of each that is over."""
    waiting, running = list(names), {}
    while waiting or running:
        while waiting and len(running) < side:
            name = waiting.pop(0)
            command = [sys.executable, str(HERE), "--json", "--only", name, "--seed", str(seed)]
            out = tempfile.TemporaryFile("w+")
            running[name] = subprocess.Popen([*command, *["--quick"] * quick], stdout=out), out
        time.sleep(0.2)
        for name, (process, out) in list(running.items()):
            if process.poll() is not None:
                del running[name]
                out.seek(0)
                lines = out.read().splitlines()
                if process.returncode or not lines:
                    yield [Row(name, "broke off", 1, 1, seed)], []
                else:
                    answer = json.loads(lines[-1])
                    yield [Row(**{**row, "seed": seed}) for row in answer["rows"]], answer["facts"]


def page(rows: list[Row], facts: list, took: str, seed: int) -> str:
    """The table as Markdown; rows of another seed are not of this call."""
    import numpy
    import torch

    processor = platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    earlier = f"Rows of another seed than {seed} are of an earlier call, and maybe of another machine."
    lines = [
        "# What a run survives",
        "",
        "`make torture`, or a part of it, `python scripts/torture --only PART --seed SEED --write results`, on",
        f"{os.cpu_count()} CPUs ({processor}), {platform.system()}, Python {platform.python_version()}, torch "
        f"{torch.__version__}, numpy {numpy.__version__}.",
        "What was done to runs and grids, how often, and how often anything was lost, doubled, half-written, other",
        "than in a run that was left alone (bit for bit, all columns but timings), or not said in one sentence.",
        *([took] if took else []),
        *([earlier] if any(str(row.seed) != str(seed) for row in rows) else []),
        "",
        "| part | what | times | lost | seed |",
        "|---|---|---:|---:|---:|",
        *(f"| {row.part} | {row.what} | {row.times} | {row.lost} | {row.seed} |" for row in rows),
        f"| all | | {sum(row.times for row in rows)} | {sum(row.lost for row in rows)} | |",
    ]
    if facts:
        lines += ["", "## A grid of a thousand chains", "", "| what | measured |", "|---|---|"]
        lines += [f"| {what} | {value} |" for what, value in facts]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
