"""AMAGOLD, Figure 7: J over seconds at step size .15, AMAGOLD beside SGHMC, on Dist1 and Dist2."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, NAMES, clean, label

SOURCE = "AMAGOLD, Figure 7"
TABLES = ("amagold_one_chain", "amagold_2d_growth")
CAPTION = """
J of the first draws over the seconds that they take, ε = .15. Solid: one chain by itself, as in the paper; 500,000
draws at paper scale, a tenth of the paper's, and 5,000, a thousandth, at quick scale. Dashed: 50 of the chains of
Figure 2 together, over the seconds that they have of their tensor's (300 chains): the same draws, many times as fast,
so that the bias shows. Seconds are the number of draws times the seconds a cycle of the run's fastest tenth of rows.
No data here, so stochastic gradients save nothing. The program evaluates U at the end of SGHMC's trajectories too, to
report it; the algorithm would not. SGHMC moves momentum first, as in the authors' code.
"""
PARTS = (("banana", "(a) Dist1"), ("mixture", "(b) Dist2"))


def draw(table: pd.DataFrame, many: pd.DataFrame) -> Figure:
    """J over seconds, a panel a distribution."""
    figure, panels = pyplot.subplots(1, 2, figsize=(8.4, 3.6), sharey=True, layout="constrained")
    for panel, (model, title) in zip(panels, PARTS, strict=True):
        for name, shift in (("sghmc", 1.12), ("amagold", 1 / 1.12)):
            colour = COLOURS[name]
            one = table[(table.model == model) & (table.sampler == name)]
            both = many[(many.model == model) & (many.sampler == name)]
            panel.plot(one.draws * one.seconds_a_draw, one.J, color=colour, lw=1.8)
            seconds = both.draws_a_chain * both.chains * both.seconds_a_draw
            panel.plot(seconds, both.J, color=colour, lw=1.4, ls="--")
            last = one.iloc[-1]
            label(panel, last.draws * last.seconds_a_draw, last.J * shift, NAMES[name], colour, fontsize=9)
        panel.set(xscale="log", yscale="log", xlabel="seconds")
        panel.set_xlim(right=panel.get_xlim()[1] * 4)
        panel.set_title(title, fontsize=10)
    clean(*panels)
    panels[0].set_ylabel("J")
    panels[0].text(*fraction(panels[0], 0.03, 0.1), "solid: one chain\ndashed: 50 chains together", fontsize=8)
    figure.suptitle("The correction costs little time, and keeps J falling", fontsize=11)
    return figure


def fraction(panel, x: float, y: float):
    """The data coordinates of a place in a panel whose axes are logarithmic."""
    return panel.transData.inverted().transform(panel.transAxes.transform((x, y)))


def compare(table: pd.DataFrame, many: pd.DataFrame):
    """Seconds of a cycle; who is ahead early and at the end."""
    for model, title in PARTS:
        cost = table[table.model == model].groupby("sampler").seconds_a_draw.first()
        ratio = cost["amagold"] / cost["sghmc"]
        yield (
            f"{title}: seconds of AMAGOLD's draw over those of SGHMC's",
            "not much slower",
            f"{ratio:.2f} ({1e3 * cost['amagold']:.2f} ms against {1e3 * cost['sghmc']:.2f} ms)",
            "agrees" if ratio < 1.5 else f"differs: {ratio:.1f} times as slow",
        )
        ends = {
            row.sampler: row for row in many[many.model == model].groupby("sampler").last().reset_index().itertuples()
        }
        sghmc, amagold = ends["sghmc"], ends["amagold"]
        away = (sghmc.J - amagold.J) / (sghmc.J_error**2 + amagold.J_error**2) ** 0.5
        yield (
            f"{title}: SGHMC eventually stays above AMAGOLD",
            "yes",
            f"J of {sghmc.draws_a_chain * sghmc.chains:,} draws {sghmc.J:.3g} ± {sghmc.J_error:.1g} against "
            f"{amagold.J:.3g} ± {amagold.J_error:.1g}",
            "agrees" if away > 3 else f"not resolved: {away:.1f} standard errors apart",
        )
