"""How fast, beside peers and the limit: what `make bench` runs, in under a quarter of an hour on two cores.

    python benchmarks/bench.py [double_well banana logistic networks energies efficiency cost] [--rounds 7]

Prints each line of the goals as it is measured, and writes benchmarks/table.csv and benchmarks/table.md (all parts
run), with the machine. Conditions and findings: benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path

import pandas as pd

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT)]

from contest import Contestant, alternate, octave, ours, peer  # noqa: E402


def double_well(rounds: int) -> list[dict]:
    """A draw of AMAGOLD on the double well, T = 10."""
    script, missing = octave(HERE / "peers" / "double_well.m")
    loops, no_loops = peer("numba_loops.py", "numba", "double_well")
    jax, no_jax = peer("blackjax_sghmc.py", "blackjax")
    contestants = [
        Contestant("sgmcmc, 1000 chains", ours("double_well", "chains=1000"), "compiled"),
        Contestant("sgmcmc, 200 chains", ours("double_well", "chains=200"), "compiled"),
        Contestant("sgmcmc, 8 chains", ours("double_well", "chains=8"), "compiled: what a cycle costs at least"),
        Contestant("sgmcmc, 200 chains, eager", ours("double_well", "chains=200", "compile=0")),
        Contestant("Octave, one chain", script, "a stand-in for the published script", missing),
        Contestant("numba, one chain", loops, "float64", no_loops),
        Contestant("BlackJAX sghmc, 1000 chains", jax, "no acceptance test: less work", no_jax),
        Contestant("limit: torch.randn alone", ours("normals", "chains=1000"), "21 normals and a uniform a draw"),
    ]
    published = os.environ.get("PEER_AMAGOLD")
    if published:
        words = [sys.executable, str(HERE / "peers" / "published.py"), published, "101000"]
        contestants.insert(4, Contestant("published script, one chain", words, "start-up included", missing))
    goals = {"Octave": (2000, "at least"), "published": (2000, "at least"), "numba": (5, "at least")}
    return judged("double well, a draw (T = 10)", alternate(contestants, rounds), goals)


def banana(rounds: int) -> list[dict]:
    """A draw of AMAGOLD on the banana, T = 10; 5e6 draws are to take .8 s, of a user's own U 1.2 s."""
    loops, no_loops = peer("numba_loops.py", "numba", "banana")
    rows = alternate(
        [
            Contestant("sgmcmc, 1000 chains", ours("banana", "chains=1000"), "compiled, gradient by hand"),
            Contestant("sgmcmc, 300 chains", ours("banana", "chains=300"), "compiled, gradient by hand"),
            Contestant("sgmcmc, user's U", ours("banana_function", "chains=1000"), "compiled, gradient by torch.func"),
            Contestant("numba, one chain", loops, "float64", no_loops),
            Contestant("limit: torch.randn alone", ours("normals", "dim=2"), "42 normals and a uniform a draw"),
        ],
        rounds,
    )
    for row, goal in ((rows[0], 0.8), (rows[2], 1.2)):
        if "us" in row:
            met = "met" if 5 * row["us"] <= goal else "missed"
            row["goal"] = f"5e6 draws in at most {goal} s: {5 * row['us']:.2f} s, {met}"
    return judged("banana, a draw (T = 10)", rows, {})


def logistic(rounds: int) -> list[dict]:
    """A draw of AMAGOLD for logistic regression: 690 data, 14 features, minibatches of 32, T = 10, exact U each 10."""
    loops, no_loops = peer("numba_loops.py", "numba", "logistic", "690", "14", "32")
    contestants = [
        Contestant("sgmcmc, 64 chains", ours("logistic", "chains=64"), "compiled"),
        Contestant("sgmcmc, 1000 chains", ours("logistic", "chains=1000"), "compiled"),
        Contestant("sgmcmc, 64 chains, eager", ours("logistic", "chains=64", "compile=0")),
        Contestant("autograd, one chain", ours("logistic_autograd"), "plain PyTorch"),
        Contestant("numba, one chain", loops, "float32 data, rows of a cache line", no_loops),
        Contestant(
            "limit: random numbers alone",
            ours("normals", "dim=15", "uniforms=320", "number=11"),
            "165 normals, 320 uniforms",
        ),
    ]
    goals = {"autograd": (180, "at least"), "numba": (2, "at least")}
    return judged("logistic regression 690 x 14, a draw (T = 10)", alternate(contestants, rounds), goals)


def judged(what: str, rows: list[dict], goals: dict) -> list[dict]:
    """The rows with what they are of, and the goal beside the ratio where there is one."""
    for row in rows:
        row["what"] = what
        goal = goals.get(row["who"].split()[0].rstrip(","))
        if goal and "ratio" in row:
            row["goal"] = told(row["ratio"], *goal, " times slower")
    return rows


def told(ratio: float, goal: float, side: str, unit: str = "") -> str:
    """The goal, and whether the ratio is on its right ``side``, at least or at most."""
    met = ratio >= goal if side == "at least" else ratio <= goal
    return f"{side} {goal:g}{unit}: {'met' if met else 'missed'}"


NETWORK_GOALS = {  # the ratio that is aimed at
    "MLP, batch 2000: update alone, compiled": (0.05, "at most"),
    "MLP: AMAGOLD's outer loop, as its published code goes about it, to ours": (8, "at least"),
    "ResNet-20: whole FRN step, compiled, to BN's gradient": (1.1, "at most"),
    "ResNet-20: update alone, compiled, to BN's gradient": (0.005, "at most"),
}


def networks(rounds: int) -> list[dict]:
    """The perceptron and ResNet-20: update beside gradient, FRN beside batch normalisation, exact U."""
    import networks as module
    import torch

    torch.set_num_threads(1)
    found = []
    for row in (row for part in module.PARTS.values() for row in part()):
        goal = NETWORK_GOALS.get(row["what"])
        said = told(row["ratio"], *goal) if goal else ""
        numbers = {"us": 1e3 * row["ms"], **{key: row[key] for key in ("ratio", "low", "high")}}
        found.append({"what": "networks, beside their bare gradient", "who": row["what"], **numbers, "goal": said})
    return [*found, *side_by_side(rounds)]


def side_by_side(rounds: int) -> list[dict]:
    """Two processes that step a ResNet-20 each, against one, by the clock."""
    pair = [Contestant(str(number), ours("resnet_steps")) for number in range(2)]
    times: list[tuple[float, float]] = []
    try:
        for one in pair:
            one.start()
        for _ in range(rounds):
            clock = time.perf_counter()
            pair[0].block()
            alone = time.perf_counter() - clock
            clock = time.perf_counter()
            for one in pair:
                one.begin()
            for one in pair:
                one.end()
            times.append((alone, time.perf_counter() - clock))
    finally:
        for one in pair:
            one.stop()
    gains = sorted(2 * alone / both for alone, both in times)
    gain = gains[len(gains) // 2]
    return [
        {
            "what": "networks, two processes",
            "who": "steps a second of two, over one's",
            "ratio": gain,
            "low": gains[0],
            "high": gains[-1],
            "goal": told(gain, 1.7, "at least"),
        }
    ]


def energies(rounds: int) -> list[dict]:
    """Float64 error of the kinetic part of log MH over a cycle of a ResNet-20."""
    import accuracy

    return accuracy.rows()


def efficiency(rounds: int) -> list[dict]:
    """Effective sample size a gradient and a second."""
    import efficiency as module

    return module.rows()


def cost(rounds: int) -> list[dict]:
    """Time and memory over chains, dimension, data and samples; draws benchmarks/cost.png."""
    import cost as module

    return module.rows()


PARTS = {part.__name__: part for part in (double_well, banana, logistic, networks, energies, efficiency, cost)}
COLUMNS = ("what", "who", "us", "ratio", "low", "high", "setup", "goal", "note")


def line(row: dict) -> str:
    """A row for people."""
    text = f"  {row['who']:<32}"
    if "us" in row:
        text += f"{row['us']:>12.4g} us"
    if "ratio" in row:
        text += f"  x {row['ratio']:<9.4g} ({row['low']:.3g} to {row['high']:.3g})"
    return "  ".join([text, *(str(row[key]) for key in ("goal", "note") if row.get(key))])


def machine() -> str:
    """One sentence."""
    import torch

    name = platform.processor() or platform.machine()
    cpu = Path("/proc/cpuinfo")
    if cpu.exists():
        names = [text.split(":")[1].strip() for text in cpu.read_text().splitlines() if text.startswith("model name")]
        name = names[0] if names else name
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"


def write(rows: list[dict], took: float) -> None:
    """table.csv, and table.md for people."""
    table = pd.DataFrame(rows).reindex(columns=COLUMNS)
    table.to_csv(HERE / "table.csv", index=False, float_format="%.5g")
    text = f"`make bench` on {machine()}: {took / 60:.0f} minutes. Load at the end {os.getloadavg()[0]:.1f}.\n"
    for what, part in table.groupby("what", sort=False):
        text += f"\n### {what}\n\n| | µs | ratio | range | set-up, s | goal | |\n|---|---|---|---|---|---|---|\n"
        for row in part.astype(object).fillna("").to_dict("records"):
            number = {
                key: f"{row[key]:.3g}" if row[key] != "" else "" for key in ("us", "ratio", "low", "high", "setup")
            }
            span = f"{number['low']}–{number['high']}" if number["low"] else ""
            cells = (row["who"], number["us"], number["ratio"], span, number["setup"], row["goal"], row["note"])
            text += f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"  # of h |∇U_i|
    (HERE / "table.md").write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: the parts are {', '.join(PARTS)}")
    if options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: must be at least 1")
    begun, found = time.time(), []
    for name in options.parts or PARTS:
        clock = time.time()
        rows = PARTS[name](options.rounds)
        for number, row in enumerate(rows):
            if not number or row["what"] != rows[number - 1]["what"]:
                print(row["what"])
            print(line(row), flush=True)
        print(f"  ({time.time() - clock:.0f} s)", flush=True)
        found += rows
        if not options.parts:  # after each, so that a part that fails does not take the others with it
            write(found, time.time() - begun)
    return 0


if __name__ == "__main__":
    sys.exit(main())
