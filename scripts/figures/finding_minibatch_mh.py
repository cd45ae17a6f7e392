"""Decisions on a part of the data: what they look at, what it costs in bias, what it saves."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, clean

SOURCE = "Decisions on a part of the data (AMAGOLD paper, section 5.2)"
CAPTION = """
AMAGOLD trajectories of 10 steps, fresh momentum, friction 1, minibatch gradients (135 of Heart's 270 data, 1,000 of
10,000 at T = 1, 100 at T = 100, 25 of the mixture's 100), decided by Metropolis' and Barker's rules on all data, by
Barker's rule on a part (Seita et al. 2017: σ = 1, batches until the estimate's standard error is below 1), by t-tests
(Korattikara et al. 2014, three ε), and not at all. The data come in batches of 27, 250, 250 and 10. The generated data
are a logistic regression of ten columns, the mixture is that of Welling and Teh (2011), with two modes. Top: the share
of the data that a decision looks at, over the share that theory asks Barker's test for, D²/(1 + D²), D² the sum over
data of the squared changes of log likelihood (less their mean) over T²; each point is a step size. Middle: the bias of
the posterior's second moments about its true mean, in true variances, a mean over coordinates. Bottom: effective draws
of the slowest coordinate a million evaluations of a datum; gradients count as one each, an exact decision N, one on n
data 2n, because U at the start is not known. Truth is by HMC with full gradients (logistic) and quadrature (mixture);
its error is in the table. At paper scale 10 chains a step size of 2,000 draws on Heart and the mixture, 6 of 500 on
the generated data, after 300 left out (150 at T = 100); quick scale 20 of 150 after 50, and 4 of 80 after 40. Chains
start dispersed; τ is in the table; where it is not known there is no point at the bottom, and a bias may be the
start's. Errors are over chains (of ESS the jackknife's over groups of them). What decides on a part is marked as not
exact by the program, and fails the certificate on data of which it looks at half; one trajectory length, one σ.
"""
TITLE = "Barker's test looks at D²/(1 + D²) of the data: few only where a move is short, or T high"
LOOK = {
    ("metropolis", None): (BLUE, "o", "-", "Metropolis"),
    ("barker", None): (SKY, "s", "-", "Barker"),
    ("barker_minibatch", None): (GREEN, "^", "-", "Barker on a part"),
    ("austerity", 0.01): (PURPLE, "v", "--", "t-test, ε = .01"),
    ("austerity", 0.05): (ORANGE, "D", "--", "t-test, ε = .05"),
    ("austerity", 0.2): (RED, "P", "--", "t-test, ε = .2"),
    ("monitor", None): (GREY, "x", ":", "uncorrected"),
}
EXACT = [key for key in LOOK if key[0] in ("metropolis", "barker")]
PARTIAL = [key for key in LOOK if key[0] in ("barker_minibatch", "austerity")]
PANELS = (
    ("heart", "Heart, N = 270"),
    ("location_mixture", "mixture, N = 100"),
    ("logistic_generated", "logistic, N = 10,000"),
    ("logistic_generated, T = 100", "logistic, N = 10,000, T = 100"),
)
ROWS = ("share of the data\na decision looks at", "bias of variances", "ESS / 10⁶ data")


def of_rule(table: pd.DataFrame, target: str, key: tuple) -> pd.DataFrame:
    """The finished rows of a target's rule, in the order of their step sizes."""
    part = table[(table.target == target) & (table.status == "done") & (table.acceptance == key[0])]
    part = part[part.epsilon.isna() if key[1] is None else part.epsilon == key[1]]
    return part[part.chains > 0].sort_values("step_size")


def draw(table: pd.DataFrame) -> Figure:
    """A column a target: data a decision over what theory needs, bias and efficiency over the step size."""
    figure, panels = pyplot.subplots(3, 4, figsize=(12, 8), layout="constrained")
    for (target, title), (looked, bias, ess) in zip(PANELS, panels.T, strict=True):
        for key, (colour, marker, line, name) in LOOK.items():
            rows = of_rule(table, target, key)
            style = {"color": colour, "marker": marker, "ls": line, "ms": 4, "lw": 1.2, "label": name}
            if key in PARTIAL:
                looked.errorbar(rows.needed, rows.share, rows.share_error, **style)
            if "spread" in rows and rows.spread.notna().any():
                bias.errorbar(rows.step_size, rows.spread, rows.spread_error, **style)
            if rows.ess.notna().any():
                ess.errorbar(rows.step_size, rows.ess, rows.ess_error, **style)
        looked.plot([0, 1], [0, 1], color=GREY, lw=0.8, zorder=0)
        looked.set_title(title, fontsize=10)
        looked.set(xlim=(0, 1.05), ylim=(0, 1.05), xlabel="D²/(1 + D²)")
        bias.axhline(0, color=GREY, lw=0.8, zorder=0)
        bias.set_yscale("symlog", linthresh=0.1)
        bias.yaxis.set_major_formatter("{x:g}")
        ess.set(xlim=bias.get_xlim(), xlabel="step size / 10⁻³")
        for panel in (bias, ess):
            panel.set_xticks(sorted(table[table.target == target].step_size.dropna().unique()))
            panel.xaxis.set_major_formatter(lambda step, _: f"{1000 * step:g}")
        if not ess.has_data():
            ess.text(0.5, 0.5, "chains too short\nto know τ", transform=ess.transAxes, ha="center", color=GREY)
            ess.set_yticks([])
        if ess.has_data():
            ess.set_yscale("log")
            ess.yaxis.set_major_formatter("{x:g}")
            ess.yaxis.set_minor_formatter("")
    for panel, name in zip(panels[:, 0], ROWS, strict=True):
        panel.set_ylabel(name)
    clean(*panels.flat)
    handles, names = panels[1, 0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, fontsize=8, loc="outside lower center", ncols=7)
    figure.suptitle(TITLE, fontsize=11)
    return figure


def compare(table: pd.DataFrame):
    """Exact rules without bias; the part against the formula; bias and savings of decisions on a part."""
    known = table[(table.status == "done") & table.reindex(columns=["spread", "tau"]).notna().all(axis=1)]
    exact = known[known.acceptance.isin(("metropolis", "barker")) & (known.spread_error > 0)]
    if exact.empty:
        yield "Metropolis and Barker on all data", "no bias", "τ not known", "not comparable: too few draws"
        return
    away = (exact.spread / np.hypot(exact.spread_error, exact.truth_error)).abs()
    here = f"largest |bias| {away.max():.1f} of its errors in {len(away)} settings whose τ is known"
    yield "Metropolis and Barker on all data", "no bias", here, "agrees" if away.max() < 4.5 else "differs"
    part = table[(table.acceptance == "barker_minibatch") & (table.status == "done") & table.share.notna()]
    more = part.share - part.needed
    here = f"{more.min():+.3f} to {more.max():+.3f} of all data more; they come in batches of .025 to .1 of all"
    verdict = "agrees" if more.between(-0.03, 0.13).all() else "differs"
    yield "data that Barker's test looks at", "D²/(1 + D²) of all", here, verdict
    for target, title in PANELS:
        yield savings(title, {key: of_rule(table, target, key) for key in LOOK})
        yield biases(title, {key: of_rule(table, target, key) for key in LOOK})


def savings(title: str, parts: dict) -> tuple:
    """The best ESS a datum of a decision on a part over that of an exact one, over step sizes."""
    what = f"{title}: best ESS a datum, on a part over exact"
    best = {key: rows.loc[rows.ess.idxmax()] for key, rows in parts.items() if rows.ess.notna().any()}
    exact = [best[key] for key in EXACT if key in best]
    some = [(key, best[key]) for key in PARTIAL if key in best]
    if not exact or not some:
        return what, "saves data", "τ not known", "not comparable: too few draws"
    top = max(exact, key=lambda row: row.ess)
    texts = []
    for key, row in some:
        error = row.ess / top.ess * np.hypot(row.ess_error / row.ess, top.ess_error / top.ess)
        texts.append(f"{LOOK[key][3]} {row.ess / top.ess:.2f} ± {error:.2f}")
    return what, "saves data", ", ".join(texts), "not claimed"


def biases(title: str, parts: dict) -> tuple:
    """The largest bias over step sizes of each rule that is not exact."""
    what = f"{title}: largest bias of variances"
    texts = []
    for key in (*PARTIAL, ("monitor", None)):
        rows = parts[key].reindex(columns=["spread", "spread_error", "truth_error", "tau"]).dropna()
        if len(rows):
            row = rows.loc[rows.spread.abs().idxmax()]
            texts.append(f"{LOOK[key][3]} {row.spread:+.3f} ± {np.hypot(row.spread_error, row.truth_error):.3f}")
    if not texts:
        return what, "some", "τ not known", "not comparable: too few draws"
    return what, "some", ", ".join(texts), "not claimed"
