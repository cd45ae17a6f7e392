"""GGMC paper, Figure D.1, as run: batch normalisation and random augmentation, so no acceptance is exact."""

import pandas as pd
from figures import ggmc_figd1
from matplotlib.figure import Figure
from verdicts import decided, limit

SOURCE = "GGMC paper, Figure D.1, as run"
CAPTION = """
The runs of Figure 1 as the authors' code ran them, from their start: a point a cycle, quantities of the whole training
set. With a random flip and crop of every image at every evaluation, and batch normalisation, what is called acceptance
is not exact. The noise of U's two evaluations alone can reject, and at the smallest ℓ it is all that log MH holds.
Quick scale: as Figure D.1's, of 2 cycles.
"""

ENOUGH = 10  # cycles: fewer say nothing of a mean over U's noise
TABLES = ("ggmc_figd1_as_run", "ggmc_figd1")


def draw(table: pd.DataFrame, exact: pd.DataFrame) -> Figure:
    """As Figure D.1, marked."""
    return ggmc_figd1.draw(table, exact=False)


def compare(table: pd.DataFrame, exact: pd.DataFrame):
    """As Figure D.1, and the smallest learning rate's acceptance beside that where U is one function."""
    yield from ggmc_figd1.compare(table)
    noise = table.noise.max()
    if not noise > 0:
        return
    yield (
        "two evaluations of U at one θ (where the chains start)",
        "not in the paper",
        f"differ with standard deviation {noise:.2g} ± {noise / 14**0.5:.1g}, and so does log MH",
        "not comparable: nobody has measured it there",
    )
    for name, text in ggmc_figd1.ROWS:
        what = f"{text}: mean acceptance at the smallest ℓ"
        one, other = (part[(part.sampler == name) & (part.lr == part.lr.min())].accept_prob for part in (table, exact))
        if not (one.count() and other.count()):
            yield what, "", "", f"not comparable: no run of {text} of both"
            continue
        cycles, mean, error = one.count(), one.mean(), one.sem()
        here = f"{mean:.2f} in {cycles} cycles as run, {other.mean():.2f} where U is exact (close: above .5)"
        if cycles < ENOUGH:
            verdict = "not decided: a few cycles, whose noise both samplers share"
        elif not error > 0:
            verdict = "not decided: all are alike"
        else:
            verdict = decided((mean - 0.5) / error, limit(chains=cycles))
        yield what, "close to 1", here, verdict
