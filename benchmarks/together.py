"""What chains of a small network gain by going in one tensor: microseconds a chain's step, one after another and so.

    python benchmarks/together.py             # five minutes; --write benchmarks/together.csv: the table, too

One thread, both in turn, process CPU time, the least of three runs of GGMC with Metropolis' decisions: trajectories of
twenty steps with minibatches of 32, and the exact U of 1,500 data at their ends. The data are random numbers.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import pandas as pd
import torch
from torch import nn

from sgmcmc import Dataset, NetworkPotential, sample
from sgmcmc.environment import environment
from sgmcmc.models import MLP

DATA, BATCH, STEPS, CYCLES = 1500, 32, 20, 2


def convolutional(width: int) -> nn.Module:
    first, second = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, 2 * width, 3, padding=1)
    layers = first, nn.ReLU(), nn.MaxPool2d(2), second, nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * width, 10))


NETWORKS = {
    "perceptron 13-50-10": (lambda: MLP(13, (50,), 10), (13,)),
    "perceptron 64-20-10": (lambda: MLP(64, (20,), 10), (64,)),
    "perceptron 64-100-10": (lambda: MLP(64, (100,), 10), (64,)),
    "perceptron 784-12-10": (lambda: MLP(784, (12,), 10), (784,)),
    "perceptron 64-100-100-10": (lambda: MLP(64, (100, 100), 10), (64,)),
    "convolutions, 4 and 8 channels": (lambda: convolutional(4), (1, 8, 8)),
    "convolutions, 8 and 16 channels": (lambda: convolutional(8), (1, 8, 8)),
}


def row(name: str, chains: int) -> dict:
    """The times of one network, and their ratio."""
    (make, shape), generator = NETWORKS[name], torch.Generator().manual_seed(0)
    inputs = torch.randn(DATA, *shape, generator=generator)
    data = Dataset(inputs, torch.randint(10, (DATA,), generator=generator), 10)
    targets = [NetworkPotential(make(), data, together=together) for together in (False, True)]
    settings = {"acceptance": "metropolis", "step_size": 1e-3, "friction": 5.0, "steps": STEPS, "batch_size": BATCH}

    def seconds(target, cycles: int) -> float:
        clock = time.process_time()
        sample(target, "ggmc", chains=chains, cycles=cycles, **settings)
        return time.process_time() - clock

    times = [[], []]
    for _ in range(3):
        for target, found in zip(targets, times, strict=True):
            begun = seconds(target, 1)  # the start and the first cycle, which count for nothing
            found.append((seconds(target, 1 + CYCLES) - begun) / (CYCLES * STEPS * chains))
    alone, together = (1e6 * min(found) for found in times)
    counts = {"weights": targets[0].dim, "chains": chains}
    return {"network": name, **counts, "alone_us": alone, "together_us": together, "ratio": alone / together}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="a CSV file for the table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # that steps as small decide nothing
    where, rows = environment(), []
    for name in NETWORKS:
        for chains in (2, 8, 32):
            one = row(name, chains)
            times = (
                f"{one['alone_us']:5.0f} µs, together {one['together_us']:5.0f} µs, {one['ratio']:.1f} times as fast"
            )
            print(f"{name:32} {one['weights']:6} weights {chains:4} chains: {times}", flush=True)
            rows.append(one)
    if options.write:
        made = {"processor": where["processor"], "torch": where["torch"]}
        pd.DataFrame(rows).assign(**made).to_csv(options.write, index=False, float_format="%.4g")


if __name__ == "__main__":
    main()
