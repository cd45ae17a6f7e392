"""GGMC paper, Figure D.1, as run: batch normalisation and random augmentation, so no acceptance is exact."""

import pandas as pd
from figures import ggmc_figd1
from matplotlib.figure import Figure

SOURCE = "GGMC paper, Figure D.1, as run"
CAPTION = """
The runs of Figure 1 as the authors' code ran them, from their start, a point a cycle: quantities of the whole training
set, with a random flip and crop of every image at every evaluation and batch normalisation, so what is called
acceptance is not exact: the noise of U's two evaluations alone can reject, and at the smallest ℓ it is all that log MH
holds. Quick scale: as Figure D.1's, of 2 cycles.
"""


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
    both = (table, exact)
    yield (
        "two evaluations of U at one θ (where the chains start)",
        "not in the paper",
        f"differ with standard deviation {noise:.2g}, and so does log MH",
        "not comparable: nobody has measured it there",
    )
    for name, text in ggmc_figd1.ROWS:
        most = [part[(part.sampler == name) & (part.lr == part.lr.min())].log_accept.abs().max() for part in both]
        if pd.isna(most).any():
            yield f"{text}: largest abs(log MH) at the smallest ℓ", "", "", f"not comparable: no run of {text} of both"
            continue
        why = "differs: it is the noise of U" if most[0] < 3 * noise else "differs"
        yield (
            f"{text}: largest abs(log MH) of a cycle at the smallest ℓ",
            "acceptance close to 1",
            f"{most[0]:.2g} as run, {most[1]:.2g} where U is exact (agrees: below 1)",
            "agrees" if most[0] < 1 else why,
        )
