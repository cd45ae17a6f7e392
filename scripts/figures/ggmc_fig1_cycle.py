"""GGMC paper, Figure 1, a single cycle in its own size, from SGD: what a CPU can do of it."""

import pandas as pd
from figures import ggmc_fig1
from matplotlib.figure import Figure

SOURCE = "GGMC paper, Figure 1, one cycle from SGD"
CAPTION = """
Figure 1's ResNet-20 (272,538 weights, filter response normalisation), its 50,000 images, batches of 125, friction and
cycle of 10 epochs (4,001 steps, every 10th drawn), in paper scale on a CPU; but it is the chain's first cycle, from
three epochs of SGD (ℓ_SGD = .1, momentum .9), not the 101st. Quick scale: 2,500 images, a quarter of the width, an
epoch (21 steps) from two epochs of SGD.
"""


def draw(table: pd.DataFrame) -> Figure:
    """As Figure 1."""
    return ggmc_fig1.draw(table)


def compare(table: pd.DataFrame):
    """As Figure 1."""
    return ggmc_fig1.compare(table)
