"""Which word, on the other logistic regression: Australian."""

import pandas as pd
from figures import finding_words
from matplotlib import pyplot
from matplotlib.figure import Figure

SOURCE = "Which word, on Australian?"
CAPTION = """
As the figure before, on the logistic regression of Australian, whose posterior standard deviations differ by a factor
of six: minibatches of a fifth of the data, five step sizes, 20 chains of 6,000 draws after 1,000 (quick 4 of 400 after
400) from standard normals; the reference is HMC with full gradients. Where chains are too short for τ there is no
point. The certificate is that of the figure before.
"""
TARGETS = (("australian", "Australian"),)


def draw(table: pd.DataFrame) -> Figure:
    """Bias against rejections, efficiency over step sizes."""
    figure, panels = pyplot.subplots(2, 1, figsize=(4.2, 5.8), layout="constrained", squeeze=False)
    finding_words.columns(table, TARGETS, panels)
    figure.suptitle(TITLE, fontsize=11)
    return figure


def compare(table: pd.DataFrame):
    """What finding_words compares, on this target."""
    yield finding_words.no_bias(table)
    yield from finding_words.of_targets(table, TARGETS)


TITLE = "At one step size all words are\naccepted alike, on Australian, too"
