"""GGMC paper, Figure D.1, with augmentation whose acceptance is exact: eight frozen views of each image."""

import pandas as pd
from figures import ggmc_figd1
from matplotlib.figure import Figure

SOURCE = "GGMC paper, Figure D.1, with augmentation"
CAPTION = """
As Figure D.1, with data augmentation that leaves U one function of the weights: a datum's log likelihood is the mean
over eight of the 162 flips and crops of its image, drawn once and frozen. The paper draws one afresh at every
evaluation. Paper scale is configured and not run here. Quick scale: four views of the 1,500 handwritten digits and a
quarter of the width, 3 cycles of an epoch (15 minibatches) from 5 epochs of SGD; nothing is in equilibrium.
"""


def draw(table: pd.DataFrame) -> Figure:
    """As Figure D.1."""
    figure = ggmc_figd1.draw(table)
    figure.suptitle("Frozen views of an image are one function U, and the acceptance is exact", fontsize=11)
    return figure


def compare(table: pd.DataFrame):
    """As Figure D.1, whose paper augments otherwise."""
    yield from ggmc_figd1.compare(table)
