"""GGMC paper, Figure D.1, as run: batch normalisation and random augmentation, so no acceptance is exact."""

import pandas as pd
from figures import ggmc_figd1
from matplotlib.figure import Figure

SOURCE = "GGMC paper, Figure D.1, as run"
CAPTION = """
The runs of Figure 1 as the authors' code ran them, from their start, a point a cycle: quantities of the whole
training set, with a random flip and crop of every image at every evaluation and batch normalisation, so what is
called acceptance is not exact: its noise alone can reject. Quick scale: as Figure D.1's.
"""


def draw(table: pd.DataFrame) -> Figure:
    """As Figure D.1, marked."""
    return ggmc_figd1.draw(table, exact=False)


def compare(table: pd.DataFrame):
    """As Figure D.1."""
    return ggmc_figd1.compare(table)
