"""The test error on MNIST of the network that AMAGOLD's authors begin their chains at: results/amagold_start.csv.

    git clone https://github.com/ruqizhang/amagold     # their code; here of its commit f91f9c1
    python scripts/amagold_start.py amagold/bnn/checkpoints/sgd_init_epoch3.pt

Their forward pass and normalisation, of a file that is read as tensors alone; MNIST is read as the experiments do.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import sys
from pathlib import Path

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from sgmcmc.data import Dataset, load  # noqa: E402
from sgmcmc.errors import DataError  # noqa: E402

TABLE = ROOT / "results" / "amagold_start.csv"


def wrong(weights: dict[str, Tensor], test: Dataset) -> int:
    """How many images a perceptron of the authors' names, fc1 to fc3, has wrong."""
    x = (test.inputs.flatten(1).float() / test.scale - float(test.mean)) / float(test.std)
    for name in ("fc1", "fc2", "fc3"):
        x = x if name == "fc1" else x.relu()
        x = x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
    return int((x.argmax(1) != test.targets).sum())


def main(words: list[str] | None = None) -> int:
    """Count, write the table, say it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="the authors' sgd_init_epoch3.pt")
    file = parser.parse_args(words).file
    try:
        weights = torch.load(file, map_location="cpu", weights_only=True)
        test = load("mnist").test
    except DataError as error:
        parser.error(str(error))
    except Exception as error:  # what an unpickler raises for a file that is no pickle can be anything
        parser.error(f"{file}: cannot be read as tensors ({type(error).__name__})")
    row = {"file": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "images": len(test.targets)}
    row["wrong"] = wrong(weights, test)
    with TABLE.open("w", newline="") as out:
        writer = csv.DictWriter(out, row, lineterminator="\n")
        writer.writeheader()
        writer.writerow(row)
    print(f"{row['wrong']:,} of {row['images']:,} test images wrong; wrote {TABLE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
