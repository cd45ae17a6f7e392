"""Decisions on a part of the data: what they look at, what it costs in bias, what it saves."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, clean
from verdicts import chance

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
its error is in the table. At paper scale 10 chains a step size of 2,000 draws on Heart and the mixture, 6 of 500 on the
generated data, after 300 left out (150 at T = 100); quick scale 10 of 300 after 100, and 4 of 80 after 40. Chains start
from normals: on Heart of standard deviation 1 and on the generated data of .1, wider than the posterior but narrower
than it at T = 100; on the mixture of 1, between its modes. Where chains are too short to know τ, which is in the table,
a bias may be the start's, and there is no point in the middle or at the bottom. Errors are over chains (of ESS the
jackknife's over groups of them). What decides on a part is marked as not exact by the program, and fails the
certificate on data of which it looks at half; one trajectory length, one σ.
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
        sizes = sorted(table[table.target == target].step_size.dropna().unique())
        for key, (colour, marker, line, name) in LOOK.items():
            rows = of_rule(table, target, key)
            style = {"color": colour, "marker": marker, "ls": line, "ms": 4, "lw": 1.2, "label": name}
            if key in PARTIAL:
                looked.errorbar(rows.needed, rows.share, rows.share_error, **style)
            settled = known(rows)
            if len(settled):
                bias.errorbar(settled.step_size, settled.spread, settled.spread_error, **style)
            if rows.ess.notna().any():
                ess.errorbar(rows.step_size, rows.ess, rows.ess_error, **style)
        looked.plot([0, 1], [0, 1], color=GREY, lw=0.8, zorder=0)
        looked.set_title(title, fontsize=10)
        looked.set(xlim=(0, 1.05), ylim=(0, 1.05), xlabel="D²/(1 + D²)")
        if bias.has_data():
            bias.set_yscale("symlog", linthresh=0.1)
        if ess.has_data():
            ess.set_yscale("log")
            ess.yaxis.set_minor_formatter("")
        ess.set_xlabel("step size / 10⁻³")
        for panel in (bias, ess):
            panel.yaxis.set_major_formatter("{x:g}")
            if not panel.has_data():
                panel.text(0.5, 0.5, "chains too short\nto know τ", transform=panel.transAxes, ha="center", color=GREY)
                panel.set_yticks([])
            panel.set_xticks(sizes)
            panel.xaxis.set_major_formatter(lambda step, _: f"{1000 * step:g}")
            if len(sizes):
                panel.set_xlim(0.5 * sizes[0], sizes[-1] + 0.5 * sizes[0])
        bias.axhline(0, color=GREY, lw=0.8, zorder=0)
    for panel, name in zip(panels[:, 0], ROWS, strict=True):
        panel.set_ylabel(name)
    clean(*panels.flat)
    found = [panel.get_legend_handles_labels() for panel in panels.flat]
    handles = {name: handle for handles, names in found for handle, name in zip(handles, names, strict=True)}
    names = [name for *_, name in LOOK.values() if name in handles]
    figure.legend(
        [handles[name] for name in names], names, frameon=False, fontsize=8, loc="outside lower center", ncols=7
    )
    figure.suptitle(TITLE, fontsize=11)
    return figure


def known(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows whose τ is known, of several chains: of the others a bias may be the start's."""
    columns = ["spread", "spread_error", "truth_error", "tau"]
    rows = rows.reindex(columns=[*rows, *(name for name in columns if name not in rows)])
    return rows[rows[columns].notna().all(axis=1) & (rows.spread_error > 0)]


def compare(table: pd.DataFrame):
    """Exact rules without bias; the part against the formula; bias and savings of decisions on a part."""
    yield no_bias(table)
    part = table[(table.acceptance == "barker_minibatch") & (table.status == "done") & table.share.notna()]
    if len(part):
        more = part.share - part.needed
        here = f"{more.min():+.3f} to {more.max():+.3f} of all data more; they come in batches of .025 to .1 of all"
        verdict = "agrees" if more.between(-0.03, 0.13).all() else "differs"
        yield "data that Barker's test looks at", "D²/(1 + D²) of all", here, verdict
    for target, title in PANELS:
        yield savings(title, {key: of_rule(table, target, key) for key in LOOK})
        yield biases(title, {key: of_rule(table, target, key) for key in LOOK})


def no_bias(table: pd.DataFrame) -> tuple:
    """The bias of the exact rules in all settings whose τ is known, where these are a quarter of all or more."""
    exact = pd.concat([of_rule(table, target, key) for target, _ in PANELS for key in EXACT])
    some = known(exact)
    what, of = "Metropolis and Barker on all data", f"τ known in {len(some)} of {len(exact)} settings"
    if some.empty or len(some) < len(exact) / 4:
        return what, "no bias", of, f"not comparable: {of}"
    errors = np.hypot(some.spread_error, some.truth_error)
    away = (some.spread / errors).abs()
    probability = chance(away, some.chains)
    here = f"largest |bias| {away.max():.1f} of its errors, {some.spread.abs().median():.2g} in the median, errors "
    here += f"{errors.median():.2g}; {of}, the most unlikely has p = {probability:.2g}, by Student's t and Bonferroni"
    return what, "no bias", here, "agrees" if probability > 0.01 else "differs"


def savings(title: str, parts: dict) -> tuple:
    """The best ESS a datum of a decision on a part over that of an exact one, over step sizes."""
    what = f"{title}: best ESS a datum, on a part over exact"
    parts = {key: rows[rows.ess_error.notna()] for key, rows in parts.items()}
    best = {key: rows.loc[rows.ess.idxmax()] for key, rows in parts.items() if len(rows)}
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
        rows = known(parts[key])
        if len(rows):
            row = rows.loc[rows.spread.abs().idxmax()]
            texts.append(f"{LOOK[key][3]} {row.spread:+.3f} ± {np.hypot(row.spread_error, row.truth_error):.3f}")
    if not texts:
        return what, "some", "τ not known", "not comparable: too few draws"
    return what, "some", ", ".join(texts), "not claimed"
