"""GGMC paper, Figure D.1, as run: batch normalisation and random augmentation, so no acceptance is exact."""

import pandas as pd
from figures import ggmc_figd1
from matplotlib.figure import Figure
from verdicts import decided, limit

SOURCE = "GGMC paper, Figure D.1, as run"
CAPTION = """
The runs of Figure 1 as the authors' code ran them, from their start, a point a cycle: quantities of the whole training
set, with a random flip and crop of every image at every evaluation and batch normalisation, so what is called
acceptance is not exact: the noise of U's two evaluations alone can reject, and at the smallest ℓ it is all that log MH
holds. Quick scale: as Figure D.1's, of 2 cycles.
"""


FEW = 10  # cycles: fewer say nothing of a mean over U's noise
TABLES = ("ggmc_figd1_as_run", "ggmc_figd1")


def draw(table: pd.DataFrame, exact: pd.DataFrame) -> Figure:
    """As Figure D.1, marked."""
    return ggmc_figd1.draw(table, exact=False)


def compare(table: pd.DataFrame, exact: pd.DataFrame):
    """As Figure D.1, and what the smallest learning rate's log MH is there, where U is one function."""
    yield from ggmc_figd1.compare(table)
    noise = table.noise.max() if "noise" in table else float("nan")
    if not noise > 0:
        return
    yield (
        "two evaluations of U at one θ (where the chains start)",
        "not in the paper",
        f"differ with standard deviation {noise:.2g}, and so does log MH",
        "not comparable: nobody has measured it there",
    )
    for name, text in ggmc_figd1.ROWS:
        both = [
            part[(part.sampler == name) & (part.lr == part.lr.min())].accept_prob.dropna() for part in (table, exact)
        ]
        if both[0].empty or both[1].empty:
            yield f"{text}: acceptance at the smallest ℓ", "", "", f"not comparable: no run of {text} of both"
            continue
        cycles, mean, error = len(both[0]), both[0].mean(), both[0].sem()
        here = f"{mean:.2f} in {cycles} cycles as run, {both[1].mean():.2f} where U is exact (close: above .5)"
        verdict = decided((mean - 0.5) / error, limit(chains=cycles)) if error > 0 else "not decided: all are alike"
        if cycles < FEW:
            verdict = "not decided: a few cycles, whose noise both samplers share"
        yield f"{text}: mean acceptance at the smallest ℓ", "close to 1", here, verdict
