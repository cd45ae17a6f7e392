"""Neal's talk (2020): the ten trajectory pictures, chains and rejected proposals over the bivariate Gaussian."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import GREEN, NAMES, RED, clean

SOURCE = "Neal, the ten trajectory pictures"
CAPTION = """
The talk's ten pictures, one chain each, at its settings and of its length. The shares rejected, here and in the talk,
are each of one short chain, so that neither is the rate: the rates, with errors, are the next figure.

**What is drawn.** Top row the bivariate Gaussian, bottom row ten such pairs, of which (x1, x2) is shown. Green: 500
independent draws; black: the chain; orange: lines to rejected proposals. In each title the share rejected in the last
90 % of this chain, and the talk's of its chain, in brackets; after the name, the number of transitions.

**Decided here.** The first chain starts at (−1.5, 1.5), our choice of a point of low probability; the others, of whose
start the talk says nothing, at exact draws.
"""
TABLES = ("neal_pictures", "neal_iid")


def draw(pictures: pd.DataFrame, iid: pd.DataFrame) -> Figure:
    """Two rows of five panels."""
    figure, panels = pyplot.subplots(2, 5, figsize=(12, 5.4), sharex=True, sharey=True, layout="constrained")
    for number, chain in chains(pictures):
        panel = panels.flat[int(number)]
        panel.scatter(iid.x1, iid.x2, s=2, color=GREEN, alpha=0.6, lw=0, rasterized=True)
        before = chain.shift()
        lost = chain.accepted == 0
        panel.plot(
            [before.x1[lost], chain.proposed1[lost]], [before.x2[lost], chain.proposed2[lost]], color=RED, lw=0.5
        )
        panel.plot(chain.x1, chain.x2, "-o", color="black", lw=0.5, ms=1.3, mew=0)
        first = chain.iloc[0]
        length = int(chain.transition.max())
        panel.set_title(
            f"{NAMES[first.sampler]}, {length}\nrejected {_rejected(chain):.3g} ({first.quoted:g})", fontsize=9
        )
        panel.set(xlim=(-3.3, 3.3), ylim=(-3.3, 3.3), aspect="equal")
    clean(*panels.flat)
    for row, name in zip(panels, ("2 dimensions", "20 dimensions"), strict=True):
        row[0].set_ylabel(f"{name}\n$x_2$")
    for panel in panels[1]:
        panel.set_xlabel("$x_1$")
    figure.suptitle("One chain of each method, and the proposals that it rejected (orange)", fontsize=11)
    return figure


def chains(pictures: pd.DataFrame):
    """The chain of each picture that has one."""
    moved = set(pictures.panel[pictures.transition > 0])
    return pictures[(pictures.panel < 10) & pictures.panel.isin(moved)].groupby("panel")


def _rejected(chain: pd.DataFrame) -> float:
    decided = chain[chain.transition > 0]
    return float(1 - decided.accepted.iloc[len(decided) // 10 :].mean())


def compare(pictures: pd.DataFrame, iid: pd.DataFrame):
    """Each chain's own rejections beside the talk's; the comparison with errors is that of the rejection rates."""
    drawn = chains(pictures)
    if len(drawn) < 10:
        yield "the other pictures", "", "", "not comparable: no run of them"
    for _, chain in drawn:
        first = chain.iloc[0]
        what = f"{NAMES[first.sampler]}, {2 * first.pairs:.0f} dimensions, this chain"
        yield what, f"{first.quoted:g}", f"{_rejected(chain):.3g}", "not comparable: two single short chains"
