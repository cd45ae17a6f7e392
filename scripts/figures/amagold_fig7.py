"""AMAGOLD, Figure 7: J over seconds at step size .15, AMAGOLD beside SGHMC, on Dist1 and Dist2."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, NAMES, clean, label
from verdicts import CHANCE, LIMIT, Rows, apart, decided, not_much_slower

SOURCE = "AMAGOLD, Figure 7"
TABLES = ("amagold_one_chain", "amagold_2d_growth")
CAPTION = """
The paper finds that SGHMC converges faster at the beginning, but to a biased distribution, and that AMAGOLD is not much
slower. The first two are seen here. How much slower a draw of AMAGOLD is, one timing each does not decide.

**What was run.** ε = .15; one chain by itself, as in the paper, of 500,000 draws at paper scale, a tenth of the
paper's, and of 4,000 at quick scale; and 50 of the chains of Figure 2. No data here, so stochastic gradients save
nothing. SGHMC moves momentum first, as in the authors' code.

**What is drawn.** J of the first draws over the seconds that they take. Dashed, the 50 chains together, over their
share of the seconds of all 300 chains that are run together: the same draws, many times as fast. Dotted, the bias of
SGHMC, measured from those chains as for Figure 2, where its J levels off if the chains are long enough.

**Decided here.** The beginning is where SGHMC's J is more than five times its bias, in the chains of Figure 2. Whether
a bias is seen is judged by Student's t of U and of the shares of draws in four parts of either axis.

**To know.** Seconds are the number of draws times the seconds a cycle, in the run's fastest tenth of rows of metrics,
timed once on a machine with other work. AMAGOLD's contain ten gradients and U at the end, SGHMC's ten gradients, and U
where a row of metrics is written: of one chain every tenth trajectory (quick: every one).
"""
NEAR = 1.5  # times the bias: J is there
EARLY = 5  # times the bias, above which J is that of few draws
PARTS = (("banana", "(a) Dist1"), ("mixture", "(b) Dist2"))


def draw(table: pd.DataFrame, many: pd.DataFrame) -> Figure:
    """J over seconds, a panel a distribution."""
    figure, panels = pyplot.subplots(1, 2, figsize=(8.4, 3.6), sharey=True, layout="constrained")
    for panel, (model, words) in zip(panels, PARTS, strict=True):
        ends = table[(table.model == model) & table.J.notna()].groupby("sampler").J.last()
        for name in ("sghmc", "amagold"):
            colour, shift = COLOURS[name], 1.5 if ends.get(name) == ends.max() else 1 / 1.1
            one = table[(table.model == model) & (table.sampler == name) & table.J.notna()]
            both = many[(many.model == model) & (many.sampler == name) & many.J.notna()]
            panel.plot(one.draws * one.seconds_a_draw, one.J, color=colour, lw=1.8)
            seconds = both.draws_a_chain * both.chains * both.seconds_a_draw
            panel.plot(seconds, both.J, color=colour, lw=1.4, ls="--")
            if not len(one):
                continue
            last = one.iloc[-1]
            label(panel, last.draws * last.seconds_a_draw, last.J * shift, NAMES[name], colour, fontsize=9)
        level = bias_of(many[(many.model == model) & (many.sampler == "sghmc")])
        if level > 0:
            panel.axhline(level, color=COLOURS["sghmc"], ls=":", lw=1)
            left = panel.get_yaxis_transform()
            panel.text(0.02, level, "bias of SGHMC", color=COLOURS["sghmc"], fontsize=8, va="bottom", transform=left)
        panel.set(xscale="log", yscale="log", xlabel="seconds")
        panel.set_xlim(right=panel.get_xlim()[1] * 12)
        panel.set_title(words, fontsize=10)
    clean(*panels)
    panels[0].set_ylabel("J")
    number = f"\ndashed: {many.chains.max():.0f} chains" if many.chains.notna().any() else ""
    panels[1].text(0.6, 0.85, f"solid: one chain{number}", fontsize=8, transform=panels[1].transAxes)
    figure.suptitle(title(table, many), fontsize=11)
    return figure


def title(table: pd.DataFrame, many: pd.DataFrame) -> str:
    """What the verdicts bear: SGHMC's bias, and whether its J is there yet."""
    verdicts = [row[3] for row in compare(table, many)][1::3]
    if all(verdict == "agrees" for verdict in verdicts):
        number = f"{many.chains.max():.0f} chains together"
        return f"In {number} SGHMC's J levels off at its bias (dotted), AMAGOLD's falls below it"
    if all(verdict.startswith("agrees") for verdict in verdicts):
        return "SGHMC has a bias and AMAGOLD none that is seen; J is not down at it yet"
    return "J over seconds, SGHMC beside AMAGOLD"


def compare(table: pd.DataFrame, many: pd.DataFrame):
    """Seconds of a cycle, the bias, and who is faster before that shows."""
    for model, title in PARTS:
        costs = Rows(table[table.model == model].drop_duplicates("sampler"), "sampler")
        ends = Rows(many[many.model == model].drop_duplicates("sampler", keep="last"), "sampler")
        what = f"{title}: seconds of AMAGOLD's draw over those of SGHMC's"
        yield costs.judge(what, "not much slower", [("amagold",), ("sghmc",)], slower)
        what = f"{title}: SGHMC eventually converges to a biased distribution, AMAGOLD does not"
        yield ends.judge(what, "yes", [("sghmc",), ("amagold",)], biased)
        yield sooner(title, many[(many.model == model) & many.J.notna()])


def slower(amagold, sghmc):
    ratio = amagold.seconds_a_draw / sghmc.seconds_a_draw
    here = (
        f"{ratio:.2f} ({1e3 * amagold.seconds_a_draw:.2f} ms against {1e3 * sghmc.seconds_a_draw:.2f} ms; each timed "
        "once; much: above 1.5)"
    )
    return here, not_much_slower(ratio)


def bias_of(rows: pd.DataFrame) -> float:
    """That of the most draws, as of few it is not known; NaN where there are none."""
    return rows.bias.iloc[-1] if len(rows) else np.nan


def sooner(title: str, rows: pd.DataFrame) -> tuple[str, str, str, str]:
    """Whether SGHMC's J is below AMAGOLD's while its bias is a small part of it: decided at equal numbers of draws, of
    which AMAGOLD's take no less time; the geometric mean over numbers of draws, as sure as its terms are on average."""
    what, paper = f"{title}: at the beginning SGHMC converges faster", "yes"
    ours, others = (rows[rows.sampler == name].set_index("draws_a_chain") for name in ("sghmc", "amagold"))
    ours = ours[(ours.J > EARLY * bias_of(ours)) & ours.index.isin(others.index)]
    if not len(ours):
        return what, paper, "", "not comparable: no J of both that is far above the bias"
    same = others.loc[ours.index]
    ratio = np.log(ours.J / same.J).mean()
    error = np.hypot(ours.J_error / ours.J, same.J_error / same.J).mean()
    seconds = [part.index * part.chains * part.seconds_a_draw for part in (ours, others)]
    then = np.interp(np.log(seconds[0]), np.log(seconds[1]), np.log(others.J), left=np.nan)  # AMAGOLD's, if it has any
    timed = ours[np.isfinite(then)]
    here = f"J of {ours.index[0] * ours.chains.iloc[0]:,.0f} to {ours.index[-1] * ours.chains.iloc[-1]:,.0f} draws "
    here += f"{np.exp(ratio):.2f} times AMAGOLD's (the logarithm ± {error:.1g})"
    if len(timed):
        faster = (same.seconds_a_draw / ours.seconds_a_draw).iloc[0]
        here += f"; from {timed.index[0] * timed.chains.iloc[0]:,.0f} draws on, in the same time, in which it makes "
        here += f"{faster:.1f} times as many (50 chains), {np.exp(np.nanmean(np.log(ours.J) - then)):.2f} times"
    return what, paper, here, decided(-ratio / error)


def biased(sghmc, amagold):
    here = (
        f"J of {sghmc.draws_a_chain * sghmc.chains:,.0f} draws {sghmc.J:.3g} against {amagold.J:.3g}, of which bias "
        f"{sghmc.bias:.2g} ± {sghmc.bias_error:.1g} against {amagold.bias:.1g} ± {amagold.bias_error:.1g}"
    )
    here += f"; exact draws would be as far from exact with p = {sghmc.exact_p:.2g} and {amagold.exact_p:.2g}"
    if amagold.exact_p < CHANCE / len(PARTS):
        return here, "differs: AMAGOLD's bias is significant"
    if np.isnan(amagold.exact_p) or not sghmc.exact_p < CHANCE / len(PARTS):
        return here, "not resolved"
    there = apart(sghmc, amagold, "J") > LIMIT and sghmc.J < NEAR * sghmc.bias
    return here, "agrees" if there else "agrees: by the bias; J itself has not got there yet"
