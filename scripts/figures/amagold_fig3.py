"""AMAGOLD, Figure 3: J over iterations on Dist1 at step size .15, AMAGOLD beside L2MC."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, NAMES, clean
from verdicts import LIMIT, Rows, headed

SOURCE = "AMAGOLD, Figure 3"
TABLES = ("amagold_2d_growth",)
CAPTION = """
The paper finds that AMAGOLD converges at L2MC's rate, up to a constant factor; here that is not resolved. J of the
first n draws on Dist1 at ε = .15, with Figure 2's chains and bins. Thick: single chains, as in the paper (mean over 50,
band of the central 80 %), up to 100,000 draws at paper scale and 3,000 at quick scale; the paper's chain has 5,000,000.
Thin: the 50 chains together over the number of their draws in all, which reaches it at paper scale. Dotted: independent
exact draws. Logarithmic axes are our choice.
"""


def draw(table: pd.DataFrame) -> Figure:
    """J over iterations."""
    figure, panel = pyplot.subplots(figsize=(5.2, 3.9), layout="constrained")
    table = table[(table.model == "banana") & table.J.notna()]
    for name, below in (("l2mc", 6), ("amagold", 6)):
        part, colour = table[table.sampler == name], COLOURS[name]
        panel.plot(part.draws_a_chain, part.J_one, color=colour, lw=2)
        panel.fill_between(part.draws_a_chain, part.J_one_low, part.J_one_high, color=colour, alpha=0.2, lw=0)
        panel.plot(part.draws_a_chain * part.chains, part.J, color=colour, lw=0.9)
        if not len(part):
            continue
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
    if len(table):
        part = table[table.sampler == table.sampler.iloc[-1]]
        end = part.iloc[-1]
        panel.plot(part.draws_a_chain * part.chains, part.floor, color="black", ls=":", lw=1.4, zorder=4)
        middle = part.iloc[len(part) // 2]
        panel.annotate(
            "independent draws",
            (middle.draws_a_chain * middle.chains, middle.floor),
            (-30, -30),
            textcoords="offset points",
            fontsize=8,
            ha="right",
            va="top",
            arrowprops={"arrowstyle": "-", "lw": 0.6, "shrinkB": 2},
        )
    together = f"\nthin: {end.chains:.0f} chains together" if len(table) else ""
    panel.text(
        0.05,
        0.08,
        f"thick: one chain (mean, band of 80 %){together}",
        fontsize=8,
        color="0.3",
        transform=panel.transAxes,
    )
    panel.set(xscale="log", yscale="log", xlabel="iterations n (draws)", ylabel="J of the first n draws")
    if len(table):
        panel.set_xlim(right=end.draws_a_chain * end.chains * 12)
        panel.set_ylim(bottom=end.floor / 2.5)
    clean(panel)
    claim, rests = "AMAGOLD converges at L2MC's rate, up to a constant factor", [row[3] for row in compare(table)]
    panel.set_title(headed(claim, rests, "J over the draws, AMAGOLD beside L2MC"), fontsize=10)
    return figure


def compare(table: pd.DataFrame):
    """The slowdown: AMAGOLD's last number of draws over that at which L2MC has the same J."""
    table = table[(table.model == "banana") & table.sampler.isin(("l2mc", "amagold"))]
    part = table[(table.sampler == "l2mc") & table.J.notna()]

    def slowdown(slow, fast):
        last, error = slow.draws_a_chain * slow.chains, np.hypot(slow.J_error / slow.J, fast.J_error / fast.J)
        counts = [draws_to(part, slow.J * factor) for factor in (1, 1 + LIMIT * error, 1 - LIMIT * error)]
        here = f"AMAGOLD has J {slow.J:.3g} after {last:,.0f} draws"
        if np.isnan(error):
            return here, "not comparable: no error is known"
        if np.isnan(counts[0]):
            return f"{here}, L2MC {fast.J:.3g} after its last", "not resolved: L2MC never has AMAGOLD's last J"
        ratio, most, least = (last / count for count in counts)  # NaN: beyond what L2MC has
        span = f"{'at most' if np.isnan(least) else f'{least:.2f} to'} {most:.2f}"
        here += f", L2MC after {counts[0]:,.0f}: a factor of {ratio:.2f} ({span} by three errors of J; near 1: below 2"
        here += ", though 1.001 is excluded)" if least > 1.001 else ")"
        return here, "agrees" if most < 2 else f"differs: a factor of {ratio:.1f}" if least > 2 else "not resolved"

    yield Rows(table.drop_duplicates("sampler", keep="last"), "sampler").judge(
        "iterations of AMAGOLD for one of L2MC to the same J",
        "the same up to a constant factor (“of about 10⁻³”, read as a ratio near 1)",
        [("amagold",), ("l2mc",)],
        slowdown,
    )


def draws_to(part: pd.DataFrame, wanted: float) -> float:
    """The number of draws at which a sampler's J has fallen to ``wanted``, between the table's by power laws (straight
    lines on logarithmic axes); NaN outside of them."""
    if not wanted > 0:
        return np.nan
    falling = np.log(part.J.cummin().to_numpy())[::-1]
    counts = np.log((part.draws_a_chain * part.chains).to_numpy())[::-1]
    return float(np.exp(np.interp(np.log(wanted), falling, counts, left=np.nan, right=np.nan)))
