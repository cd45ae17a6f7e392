"""Time and memory as the work grows: chains, dimension, data, samples. Draws benchmarks/cost.png.

    python benchmarks/bench.py cost             # all points
    python benchmarks/cost.py chains 1000       # one of them, as JSON

Each point is a process of its own, whose peak memory is asked of the system; what imports and the target with its data
take is subtracted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
AXES = {  # what grows: (values, how it is called)
    "chains": ([1, 10, 100, 1000, 10_000, 100_000], "double well, AMAGOLD, chains"),
    "dim": ([1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000], "Gaussian, GGMC, one chain, dimension"),
    "data": ([1000, 10_000, 100_000, 1_000_000], "logistic regression, 14 features, AMAGOLD, 10 chains, data"),
    "samples": ([10_000, 100_000, 1_000_000], "double well, AMAGOLD, 10 chains, draws on disk"),
}


def peak(anew: bool = False) -> int:
    """The most bytes of memory that this process has had; ``anew``: from now on. (The system's ``ru_maxrss`` is of no
    use: it begins with what the process that started this one has had.)"""
    if anew:
        Path("/proc/self/clear_refs").write_text("5")
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def point(axis: str, value: int) -> dict:
    """Seconds a cycle of ten steps, set-up seconds and peak bytes, in this process."""
    import torch
    from contestants import data

    import sgmcmc
    from sgmcmc.kernel import Friction, make_kernel
    from sgmcmc.potentials.analytic import DoubleWell, Gaussian
    from sgmcmc.potentials.regression import LogisticRegression

    torch.set_num_threads(1)
    chains = {"chains": value, "dim": 1, "data": 10, "samples": 10}[axis]
    cycles = 8 if axis == "dim" and value > 1_000_000 else 30
    if axis == "dim":
        potential, sampler, step = Gaussian(dim=value), "ggmc", 0.1
    elif axis == "data":
        potential, sampler, step = LogisticRegression(data(value, 14)), "amagold", 1e-4
    else:
        potential, sampler, step = DoubleWell(noise=1.0), "amagold", 0.1
    if axis == "samples":
        cycles = value // chains
    kernel = make_kernel(
        sampler, potential, step, steps=10, friction=Friction("gamma", 1.0), batch_size=32 if axis == "data" else None
    )
    random, clocks = sgmcmc.Random(1), {}
    before = peak(anew=True)

    def report(chain, row) -> None:
        clocks[chain.cycle > 5] = chain.cycle, time.process_time()  # of two: those of all cycles are memory that grows

    with tempfile.TemporaryDirectory() as folder, sgmcmc.RunFolder(folder + "/run") as store:
        keep = "all" if axis == "samples" else "none"
        plan = sgmcmc.Plan(cycles=cycles, log_every=100, keep=keep, compile=axis == "samples")
        start = lambda: potential.initial(chains, random).float()  # noqa: E731
        sgmcmc.run(kernel, potential, plan, random, chains, start, None, store, report)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    (first, begun), (last, ended) = clocks[False], clocks[True]
    return {"seconds": (ended - begun) / (last - first), "bytes": peak() - before, "disk": size}


def rows() -> list[dict]:
    from contest import ENVIRONMENT

    found, points = [], {}
    for axis, (values, name) in AXES.items():
        for value in values:
            command = [sys.executable, str(HERE / "cost.py"), axis, str(value)]
            out = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout
            cost = json.loads(out.splitlines()[-1])
            points.setdefault(axis, []).append((value, cost))
            disk = f", {cost['disk'] / 1e6:.1f} MB on disk" if axis == "samples" else ""
            found.append(
                {
                    "what": f"cost: {name}",
                    "who": f"{value:,}",
                    "us": 1e6 * cost["seconds"],
                    "note": f"a cycle of ten steps; {cost['bytes'] / 1e6:.0f} MB above imports and data{disk}",
                }
            )
    draw(points)
    return found


def draw(points: dict) -> None:
    """Time a cycle and memory, over each of what grows."""
    os.environ["MPLBACKEND"] = "Agg"  # what a notebook's shell commands inherit may not be installed here
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, len(AXES), figsize=(11, 4.6), sharey="row", layout="constrained")
    for place, (axis, (_, name)) in enumerate(AXES.items()):
        values = [value for value, _ in points[axis]]
        for panel, key, factor in ((panels[0, place], "seconds", 1e3), (panels[1, place], "bytes", 1e-6)):
            panel.loglog(values, [max(factor * cost[key], 1e-2) for _, cost in points[axis]], "o-", color="#0072B2")
            panel.grid(alpha=0.3)
        head, _, last = name.rpartition(", ")
        panels[0, place].set_title(head, fontsize=8)
        panels[1, place].set_xlabel(last)
    panels[0, 0].set_ylabel("ms of CPU a cycle\n(ten steps, all chains)")
    panels[1, 0].set_ylabel("MB above imports and data")
    title = "Memory does not grow with the draws; time grows with the work, faster where vectors outgrow the cache"
    figure.suptitle(title, fontsize=10)
    figure.savefig(HERE / "cost.png", dpi=130, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("axis", choices=AXES, help="what grows")
    parser.add_argument("value", type=int, help="how much of it there is")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE.parent))
    print(json.dumps(point(options.axis, options.value)))


if __name__ == "__main__":
    main()
