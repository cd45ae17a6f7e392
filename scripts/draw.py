"""Draw every figure from the summary tables that are there: what `make figures` runs.

Each file in scripts/figures/ has a function ``draw(table)``; the table of the same name is read from
results/<scale>/tables/, the figure written to results/<scale>/figures/ as PNG and PDF. Tables that are missing are
listed with the command that makes them.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import matplotlib
import pandas as pd

matplotlib.use("Agg")
from matplotlib import pyplot

ROOT = Path(__file__).resolve().parents[1]
SCALES = ("paper", "quick")


def main() -> int:
    missing = []
    for script in sorted((ROOT / "scripts" / "figures").glob("*.py")):
        for scale in SCALES:
            table = ROOT / "results" / scale / "tables" / f"{script.stem}.csv"
            if not table.exists():
                missing.append((script.stem, scale))
                continue
            spec = importlib.util.spec_from_file_location(script.stem, script)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            figure = module.draw(pd.read_csv(table))
            out = ROOT / "results" / scale / "figures" / script.stem
            out.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(out.with_suffix(".png"), dpi=150)
            # No date in the file, so that the same table gives the same bytes.
            figure.savefig(out.with_suffix(".pdf"), metadata={"CreationDate": None})
            pyplot.close(figure)
            print(f"drew {out.relative_to(ROOT)}.png and .pdf")
    for name, scale in missing:
        print(
            f"missing: {name} at {scale} scale; jug execute jugfile.py experiment={name} scale={scale} makes its table"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
