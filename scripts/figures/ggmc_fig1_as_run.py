"""GGMC paper, Figure 1, as run: batch normalisation and random augmentation, so no acceptance is exact."""

import pandas as pd
from figures import ggmc_fig1
from matplotlib.figure import Figure

SOURCE = "GGMC paper, Figure 1, as run"
CAPTION = """
Figure 1 as the authors' code ran it: U is not one function of the weights, and no number called acceptance here is
exact. Paper scale is configured and not run here. No row of quick scale is decided or can be compared with the paper.

**What was run.** Batch normalisation, without priors on its scales, normalises each minibatch by itself, and every
evaluation of U flips and crops each image afresh. So the two ends of a cycle are evaluated with different noise. Quick
scale: as Figure 1's, of 2 cycles the second.

**What is drawn.** As Figure 1. log MH where the cycle begins is the noise between two evaluations at the same weights.

**Decided here.** The mass is 1; theirs was estimated anew every epoch, inside trajectories. Their code goes through one
permutation of the data in all epochs of a cycle, and clips gradients at 1e6; here each epoch has a permutation of its
own, and nothing is clipped. U of all data is taken in batches of the same 125 images each time; theirs were drawn anew,
which is another part of their noise.
"""


def draw(table: pd.DataFrame) -> Figure:
    """As Figure 1, marked."""
    return ggmc_fig1.draw(table, exact=False)


def compare(table: pd.DataFrame):
    """As Figure 1."""
    return ggmc_fig1.compare(table, exact=False)
