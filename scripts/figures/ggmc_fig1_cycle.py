"""GGMC paper, Figure 1, a single cycle in its own size, from SGD: what a CPU can do of it."""

import pandas as pd
from figures import ggmc_fig1
from matplotlib.figure import Figure

SOURCE = "GGMC paper, Figure 1, one cycle from SGD"
CAPTION = """
Figure 1's ResNet-20 (272,826 weights, filter response normalisation) on its 50,000 images, with its batches of 125, its
friction and its cycle of 10 epochs (4,001 steps, every 10th drawn): what a CPU can do of it in 40 minutes a chain. But
it is the chain's first cycle, from three epochs of SGD, where the paper has the 101st: U begins low and rises to what T
= 1 has there, and the kinetic energy pays for it, of GGMC's with friction's help, of HMC's alone. With minibatch
gradients noise heats each step, and −log MH is the heat: it grows with h² and with the gradients' variance over the
mass, 1 here; the authors' mass, estimated anew every epoch, is above 1. Quick scale: 2,500 images, a quarter of the
width, an epoch (21 steps) from two epochs of SGD.
"""


def draw(table: pd.DataFrame) -> Figure:
    """As Figure 1."""
    return ggmc_fig1.draw(table)


def compare(table: pd.DataFrame):
    """As Figure 1."""
    return ggmc_fig1.compare(table)
