"""AMAGOLD, Figure 3: J over iterations on Dist1 at step size .15, AMAGOLD beside L2MC."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, GREY, NAMES, clean

SOURCE = "AMAGOLD, Figure 3"
TABLES = ("amagold_2d_growth",)
CAPTION = """
J of the first n draws on Dist1 at ε = .15, from the chains of Figure 2. Thick: single chains, as in the paper (mean
over 50, and the central 80 % as a band), up to 100,000 draws at paper scale and 4,500 at quick scale; the paper's
chain has 5,000,000. Thin: the 50 chains together over the number of their draws in all, which reaches it at paper
scale. Dotted: independent exact draws. Bins as for Figure 2, over those that hold draws. Axes are logarithmic (the
paper does not say).
"""


def draw(table: pd.DataFrame) -> Figure:
    """J over iterations."""
    figure, panel = pyplot.subplots(figsize=(5.2, 3.9), layout="constrained")
    table = table[(table.model == "banana") & (table.status == "done")]
    for name, below in (("l2mc", 6), ("amagold", 6)):
        part, colour = table[table.sampler == name], COLOURS[name]
        panel.plot(part.draws_a_chain, part.J_one, color=colour, lw=2)
        panel.fill_between(part.draws_a_chain, part.J_one_low, part.J_one_high, color=colour, alpha=0.2, lw=0)
        panel.plot(part.draws_a_chain * part.chains, part.J, color=colour, lw=0.9)
        end = part.iloc[-1]
        panel.annotate(
            NAMES[name],
            (end.draws_a_chain * end.chains, end.J),
            (6, below),
            textcoords="offset points",
            color=colour,
            va="center",
            fontsize=9,
        )
    panel.plot(part.draws_a_chain * part.chains, part.floor, color=GREY, ls=":", lw=1)
    panel.annotate(
        "independent draws",
        (end.draws_a_chain * end.chains, end.floor),
        (0, -8),
        textcoords="offset points",
        color=GREY,
        fontsize=8,
        ha="center",
        va="top",
    )
    panel.text(
        0.05,
        0.08,
        "thick: one chain (mean, band of 80 %)\nthin: 50 chains together",
        fontsize=8,
        color="0.3",
        transform=panel.transAxes,
    )
    panel.set(xscale="log", yscale="log", xlabel="iterations n (draws)", ylabel="J of the first n draws")
    panel.set_xlim(right=end.draws_a_chain * end.chains * 12)
    panel.set_ylim(bottom=end.floor / 2.5)
    clean(panel)
    panel.set_title("AMAGOLD converges at L2MC's rate, up to a constant factor", fontsize=10)
    return figure


def compare(table: pd.DataFrame):
    """The slowdown: how many times as many draws AMAGOLD needs for the same J, where J falls as 1/n."""
    table = table[(table.model == "banana") & (table.status == "done")]
    ends = {row.sampler: row for row in table.groupby("sampler").last().reset_index().itertuples()}
    slow, fast = ends["amagold"], ends["l2mc"]
    ratio = slow.J / fast.J
    error = ratio * ((slow.J_error / slow.J) ** 2 + (fast.J_error / fast.J) ** 2) ** 0.5
    yield (
        "iterations of AMAGOLD for one of L2MC to the same J",
        "the same up to a constant factor (“of about 10⁻³”, read as a ratio near 1)",
        f"{ratio:.2f} ± {error:.2f} (J {slow.J:.3g}, {fast.J:.3g} of {slow.draws_a_chain * slow.chains:,} draws)",
        "agrees" if ratio < 2 else f"differs: a factor of {ratio:.1f}",
    )
