"""Which word, for a network? What a correction would accept of deferred trajectories of a ResNet."""

import pandas as pd
from figures.finding_words import LOOK, of_word
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import clean

SOURCE = "Which word, for a network?"
CAPTION = """
A ResNet-20 (at quick scale of width 4) on the handwritten digits, minibatches of 100 of the 1,500 images, T = 1,
friction 2.5, 11 gradients a trajectory, from three epochs of SGD, uncorrected, the first trajectories left out (10 of
50; quick 2 of 12). Left: the mean over trajectories of min(1, MH), what a correction would accept, over the mean step a
gradient; right: the mean of log MH. All words see the same minibatches and begin at the same place, so that they
differ by less than the errors, which take trajectories as independent. The chains are far from equilibrium: what is
shown is the price of a deferred decision after 11 gradients of such noise, not how fast any of the words samples.
"""


def draw(table: pd.DataFrame) -> Figure:
    """Acceptance and log MH over the step a gradient, a line a word."""
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    table = table[table.status == "done"]
    for number, (key, (colour, marker, line, name)) in enumerate(LOOK.items()):
        own = of_word(table, key)
        if own.empty:
            continue
        shift = 1.04 ** (number - 3)  # side by side
        options = {"color": colour, "marker": marker, "ms": 5, "lw": 1.2, "ls": line, "label": name}
        panels[0].errorbar(own.time * shift, own.accept_prob, own.accept_prob_error, **options)
        panels[1].errorbar(own.time * shift, own.log_accept, own.log_accept_error, **options)
    for panel, label in zip(panels, ("mean of min(1, MH)", "mean of log MH"), strict=True):
        panel.set(xscale="log", xlabel="mean step a gradient", ylabel=label)
    panels[0].set_ylim(0, 1)
    panels[0].legend(frameon=False, fontsize=8)
    clean(*panels)
    figure.suptitle(TITLE, fontsize=11)
    return figure


def compare(table: pd.DataFrame):
    """At each step a gradient: are the words' acceptance probabilities the same?"""
    table = table[table.status == "done"].sort_values("step_size")
    for _, part in table.groupby(table.groupby(["word", "refresh"]).cumcount()):
        here = ", ".join(f"{LOOK[row.word, row.refresh][3]} {row.accept_prob:.2f}" for row in part.itertuples())
        away = ((part.accept_prob - part.accept_prob.mean()).abs() / part.accept_prob_error).max()
        verdict = f"agrees: within {part.accept_prob.max() - part.accept_prob.min():.2f}" if away < 4 else "differs"
        what = f"acceptance at about {part.time.median():.1g} a gradient (± {part.accept_prob_error.max():.2f})"
        yield what, "the same for all words: noise dominates log MH", here, verdict


TITLE = "Of a ResNet, too, a correction accepts as much of one word as of another"
