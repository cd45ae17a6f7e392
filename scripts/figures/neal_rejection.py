"""Neal's talk (2020): rejection rates of the ten trajectory pictures, measured beside quoted."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, NAMES, RED, clean
from verdicts import limit

SOURCE = "Neal, rejection rates of the ten pictures"
CAPTION = """
The talk quotes the rejection rates of ten single chains. Each of them agrees with what a single chain of that length
gives here.

**What was run.** 2,000 chains of the lengths given in the talk (quick 200), from exact draws.

**What is drawn.** Rejection over the last 90 % of each chain, as the talk says of its own, but for the non-reversible
method's two. The bars say how far single chains stray: from the rate that 2.5 % of them are below to that which 2.5 %
are above. A chain of HMC has 23 decisions.

**Decided here.** The talk tells of one start, at low probability, for its first picture. Far off the ridge, where a
dispersed start would lie, the rate is another.
"""


def draw(table: pd.DataFrame) -> Figure:
    """Quoted rates (one chain each) as crosses; the mean of many as dots, on a bar of 95 % of single ones."""
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    for panel, pairs in zip(panels, (1, 10), strict=True):
        part = table[table.pairs == pairs]
        places = range(len(part))
        ends = part.single_chain_low, part.single_chain_high
        panel.vlines(places, *ends, color=BLUE, lw=1.5, label="95 % of single chains")
        for end in ends:
            panel.plot(places, end, "_", color=BLUE, ms=8)
        panel.plot(places, part.rejected, "o", color=BLUE, label="mean of many chains")
        panel.plot(places, part.quoted, "x", color=RED, ms=8, mew=2, label="quoted, one chain")
        panel.set_xticks(places, [NAMES[name] for name in part.sampler], fontsize=8)
        panel.margins(x=0.1)  # the outer names stay beneath their panel
        panel.set_title("2 dimensions" if pairs == 1 else f"{2 * pairs:.0f} dimensions", fontsize=10)
    clean(*panels)
    panels[0].set_ylabel("rejection rate")
    panels[0].set_ylim(bottom=-0.02)  # below what may be 0
    panels[1].legend(frameon=False, fontsize=8)
    most = ((table.rejected - table.quoted).abs() / table.single_chain_sd).max()
    known = f"Neal's rates lie within {most:.1f} sd of what one chain of his length gives"
    figure.suptitle(known if most >= 0 else "Rejection rates of the ten pictures", fontsize=11)
    return figure


def compare(table: pd.DataFrame):
    """Each quoted rate against the mean, on the scale of single chains."""
    done = table[table.status == "done"]
    if len(done) < 10:
        yield "the other pictures", "", "", "not comparable: no run of them"
    for row in done.itertuples():
        off = abs(row.rejected - row.quoted) / row.single_chain_sd
        verdict = f"{'agrees' if off < limit(len(done)) else 'differs'}: {off:.1f} sd of a chain apart"
        measured = f"{row.rejected:.4f} ± {row.rejected_error:.4f} (one chain ± {row.single_chain_sd:.3f})"
        yield f"{NAMES[row.sampler]}, {2 * row.pairs:.0f} dimensions", row.quoted, measured, verdict
