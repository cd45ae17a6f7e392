"""Which word, on the other logistic regression: Australian."""

import pandas as pd
from figures import finding_words
from matplotlib import pyplot
from matplotlib.figure import Figure
from verdicts import long_enough

SOURCE = "Which word, on Australian?"
CAPTION = """
As the figure before, on Australian, whose posterior standard deviations differ by a factor of six: again the words are
accepted alike, and where it is resolved a correction costs.

**What was run.** Logistic regression on standardised columns and an intercept, prior N(0, 100 I), minibatches of a
fifth of the data, seven step sizes, friction 1 and, of OBABO and ABOBA, 10. 14 chains of 20,000 draws after 1,000
(quick 4 of 400 after 400) from standard normals; the reference is HMC with full gradients, 60 chains of 3,000 (quick 28
of 400).

**To know.** Chains shorter than 20 τ have no ESS, and no bias is judged of them. Lines, bands, how words are compared
and the certificate are as there.
"""
TARGETS = (("australian", "Australian"),)


def draw(table: pd.DataFrame) -> Figure:
    """The four panels of a target, two by two."""
    figure, panels = pyplot.subplots(2, 2, figsize=(8, 6.2), layout="constrained")
    finding_words.columns(long_enough(table), TARGETS, panels.reshape(4, 1))
    panels[0, 0].set_title("")  # there is one target
    figure.suptitle(title(table), fontsize=11)
    return figure


def compare(table: pd.DataFrame):
    """What finding_words compares, on this target."""
    table = long_enough(table)
    yield finding_words.no_bias(table)
    yield finding_words.diverged(table, finding_words.name_of)
    yield from finding_words.of_targets(table, TARGETS)


def title(table: pd.DataFrame) -> str:
    """That the words are accepted alike, where that is what was seen."""
    rows = list(finding_words.of_targets(table, TARGETS))
    if rows[0][0].endswith("acceptance") and rows[0][3] == "agrees":
        within = f"{finding_words.SPREAD:g} at one mean step a gradient"
        return f"On Australian the words' acceptance rates agree within {within}"
    return "Words with noisy gradients, on Australian"
