"""Neal's talk (2020): changes to u, and the clustering of rejections."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy.stats import hypergeom
from style import RED, clean
from verdicts import CHANCE, headed

SOURCE = "Neal, changes to u"
CAPTION = """
The u that each accept/reject decision compares with the ratio of densities, in 20 dimensions at ε = .08, α = .94; those
that led to rejection in orange. Above: a fresh uniform each time; below: the same chain with the u that is kept and
moved by δ = .05. The talk gives no settings for this figure: they are those of its last picture.
"""
TABLES = ("neal_pictures",)
PANELS = {10: "standard acceptance: u drawn anew", 9: "non-reversible acceptance: u moves by δ = .05"}


def draw(pictures: pd.DataFrame) -> Figure:
    """u over decisions, a panel a rule."""
    figure, panels = pyplot.subplots(2, 1, figsize=(7.5, 4.4), sharex=True, sharey=True, layout="constrained")
    for panel, (number, title) in zip(panels, PANELS.items(), strict=True):
        chain = pictures[(pictures.panel == number) & (pictures.transition > 0)]
        lost = chain.accepted == 0
        panel.plot(chain.transition[~lost], chain.u[~lost], "o", color="black", ms=2.2, mew=0)
        panel.plot(chain.transition[lost], chain.u[lost], "o", color=RED, ms=3.4, mew=0)
        panel.set_title(
            f"{title}; {lost.sum()} of {len(chain)} rejected (orange), in {_clusters(lost)} runs", fontsize=9
        )
        panel.set(ylabel="u", ylim=(0, 1.02))
    panels[1].set_xlabel("decision")
    clean(*panels)
    claim, rests = "With u kept, rejections come in runs", [row[3] for row in compare(pictures)]
    figure.suptitle(headed(claim, rests, "The u of each decision, and those that rejected"), fontsize=11)
    return figure


def _clusters(lost: pd.Series) -> int:
    """How many stretches of rejections without an acceptance between them."""
    return int((lost & ~lost.shift(fill_value=False)).sum())


def compare(pictures: pd.DataFrame):
    """Rejections a stretch of them, under both rules, in these two chains; and the chance of so few stretches where
    rejections come in any order: of K among n decisions r stretches have C(n − K + 1, r) C(K − 1, r − 1) orders."""
    each = []
    for number in PANELS:
        lost = pictures[(pictures.panel == number) & (pictures.transition > 0)].accepted == 0
        if lost.empty:
            yield "rejections in a row", "clustered", "", "not comparable: a chain is missing"
            return
        size, total, stretches = len(lost), lost.sum(), _clusters(lost)
        chance = hypergeom.cdf(stretches, size, size - total + 1, total) if total else 1.0
        each.append((total / max(stretches, 1), chance))
    (standard, by_chance), (kept, chance) = each
    here = f"{kept:.2f} (standard {standard:.2f}), one chain each; were they in any order, so few stretches would have "
    here += f"a chance of {chance:.0e} (standard {by_chance:.2f}; clustered: under one in a hundred)"
    clustered = chance < CHANCE and kept > standard
    yield "rejections in a row", "clustered", here, "agrees" if clustered else "not resolved"
