"""How long a trajectory may be: log MH against theory, and what lengths are worth."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy.special import ndtr
from style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, clean, handle, note, ticks
from verdicts import GROUPS, limit, long_enough

SOURCE = "How long may a trajectory be?"
TABLES = ("finding_trajectory", "finding_trajectory_auto")
CAPTION = """
How long may a trajectory be? The variance of log MH grows as L h² tr Σ, Σ the gradient noise's covariance: to lengthen
a trajectory, lower h as 1/√L. What `tune.trajectory=auto` chooses has at least half of the best ESS of a grid, on the
two targets below.

**What was run.** Single trajectories, L = 1, 4, 16, 64, friction 1, fresh momentum, mass 1: Gaussians and the double
well (exact draws, noise N(0, 1)), logistic regressions on 1,000 generated data (draws of HMC, batches of 20 and 200), a
ResNet-20 of width 4 on the digits (batches of 25 and 100). Right: AMAGOLD, 100 chains (20 a step size) of 2,000 draws
of the Gaussian, of 50,000, 20,000 and 10,000 of the regression at L = 1, 4 and 16; quick 50 of 800, too few for the
latter.

**What is drawn.** Left and middle: standard deviation and mean of log MH against theory's. Right: ESS (Gaussian: by its
coordinates' mean τ; regression: of the slowest), U at the end counted as a full gradient (20 minibatches of the
regression), the best of five step sizes; stars: what the tuning chose, of at most 16 steps. Chains shorter than 20 τ
have no point.

**Why.** To leading order (experiments/tables/trajectory.py) log MH has variance V and mean −V/2, and 2Φ(−√V/2) is
accepted: V = tr Σ h² L (1 + c)/2 for ABOBA, tr Σ h² ((L − 1)(1 + c)/2 + ½) for OBABO, c = exp(−h) what friction leaves
of the momentum in a step. Nothing is fitted: tr Σ is the artificial noise's, or measured from minibatches.

**To know.** Theory is judged within the rows' tolerances: errors alone would find it wrong. Noise heats a momentum that
carries much of it (few coordinates, V of order 1 and more), and at large h the splitting's own error adds. The ResNet's
trajectories start where short uncorrected chains end, not at draws of its target. The tuning looks at distances: HMC
with exact gradients on a Gaussian whose coordinates have one scale may be given half a turn to the other side of the
mode, by which means mix and variances hardly. In ten coordinates it chose L = 2 at h = 1.59, whose slowest ESS is .038
a gradient; that of single steps of 1.05 is .17 (`python run.py model=gaussian model.dim=10 sampler=hmc chains=16
burn_in=1000 cycles=3000 step_size=0.3 steps_per_cycle=16 tune.trajectory=auto`, and for the two ESS, with nothing
tuned, `steps_per_cycle=2 step_size=1.593` and `steps_per_cycle=1 step_size=1.05`).
"""
LOOK = {
    ("gaussian", 1): (SKY, "Gaussian, d = 1"),
    ("gaussian", 10): (BLUE, "d = 10"),
    ("gaussian", 100): (GREEN, "d = 100"),
    ("gaussian", 1000): (PURPLE, "d = 1,000"),
    ("double_well", 1): (ORANGE, "double well"),
    ("logistic_generated", 11): (RED, "logistic"),
}
NETWORK = (GREY, "ResNet-20")
TARGETS = {"gaussian": (BLUE, "Gaussian, d = 10"), "logistic_generated": (RED, "logistic")}
FACTOR, ABSOLUTE = 1.4, 0.05  # how near what was measured must be to theory: mean and sd, and the acceptance
DIAGONAL = 50  # points of the line of theory, which a symmetric logarithmic axis bends near 0
MODERATE = 1.5  # √V; theory is judged apart below it and beyond
# What is judged, by theory from √V, and from which √V on: below, the error of the mean is as large as the mean.
QUANTITIES = (
    ("sd", "sd of log MH", lambda root: root, 0.1),
    ("mean", "mean of log MH", lambda root: -(root**2) / 2, 0.5),
    ("acceptance", "acceptance", lambda root: 2 * ndtr(-root / 2), 0.1),
)


def look(row) -> tuple[str, str]:
    return LOOK.get((row.target, row.dim), NETWORK)


def draw(table: pd.DataFrame, lengths: pd.DataFrame) -> Figure:
    """Standard deviation and mean of log MH over their predictions; ESS over the length."""
    lengths = long_enough(lengths)
    figure, (deviation, mean, worth) = pyplot.subplots(1, 3, figsize=(9.5, 3.8), layout="constrained")
    table, named = table[(table.status == "done") & table.sd.notna()], set()
    for row in table.itertuples():
        colour, name = look(row)
        style = {
            "color": colour,
            "marker": "o",
            "ms": 4,
            "mfc": colour if row.word == "OBABO" else "none",
            "ls": "none",
        }
        style |= {"lw": 0.8, "label": None if name in named else name}
        named.add(name)
        deviation.errorbar(row.predicted, row.sd, row.sd_error, **style)
        mean.errorbar(row.predicted**2 / 2, -row.mean, row.mean_error, **style)
    deviation.set(xscale="log", yscale="log")
    mean.set_xscale("log")
    mean.set_yscale("symlog", linthresh=1e-3, linscale=0.5)  # errors take some means past 0
    mean.axhline(0, color=GREY, lw=0.5, ls=":", zorder=0)
    for panel, values in ((deviation, table.predicted), (mean, table.predicted**2 / 2)):
        ends = [values.min() / 1.5, values.max() * 1.5]
        if len(table):
            theory = np.geomspace(*ends, DIAGONAL)
            panel.plot(theory, theory, color=GREY, lw=0.8, zorder=0)
            panel.set(xlim=ends)
    deviation.set(xlabel="√V, predicted", ylabel="standard deviation of log MH")
    mean.set(xlabel="V/2, predicted", ylabel="−mean of log MH")
    if len(table):
        deviation.legend(frameon=False, fontsize=7)
        words = [handle("OBABO", color="black", marker="o", ls="none")]
        words += [handle("ABOBA", color="black", marker="o", mfc="none", ls="none")]
        mean.legend(handles=words, frameon=False, fontsize=7)
    for target, (colour, name) in TARGETS.items():
        part = best(lengths, target)
        worth.errorbar(
            part.steps, part.ess, part.ess_error, color=colour, marker="o", ms=4, lw=1.2, label=name, zorder=3
        )
        for row in chosen(lengths, target).itertuples():
            worth.errorbar(
                row.steps, row.ess, row.ess_error, color=colour, marker="*", ms=13, mec="black", ls="none", zorder=2
            )
    known = lengths.ess_error.notna().any()
    if not known:
        note(worth)
    scale = "log" if known else "linear"
    worth.set(xscale=scale, yscale=scale, xlabel="steps a trajectory, L", ylabel="ESS / 1,000 gradients, best h")
    worth.set_xticks(sorted(lengths.steps.dropna().unique()))
    worth.xaxis.set_major_formatter("{x:g}")
    worth.xaxis.set_minor_formatter("")
    if known:
        ticks(worth.yaxis)
    star = handle("chosen in the burn-in", color=GREY, marker="*", ms=10, mec="black", ls="none")
    worth.legend(handles=[*worth.get_legend_handles_labels()[0], star], frameon=False, fontsize=8)
    clean(deviation, mean, worth)
    figure.suptitle(title(table, lengths), fontsize=11)
    return figure


def title(table: pd.DataFrame, lengths: pd.DataFrame) -> str:
    """The rule, where no measurement differs from it."""
    rows = list(compare(table, lengths))
    seen = any(row[0].startswith("sd") and row[3] == "agrees" for row in rows)
    if not seen or any(row[3].startswith("differs") for row in rows):
        return "The variance of log MH beside L h² tr Σ, and how long a trajectory may be"
    return "The variance of log MH grows as L h² tr Σ: to lengthen a trajectory, lower h as 1/√L"


def best(lengths: pd.DataFrame, target: str) -> pd.DataFrame:
    """The row of the largest ESS of each length of the grid, of those whose error is known."""
    part = lengths[(lengths.target == target) & (lengths.auto == 0) & lengths.ess_error.notna()]
    return part.loc[part.groupby("steps").ess.idxmax()] if len(part) else part


def chosen(lengths: pd.DataFrame, target: str) -> pd.DataFrame:
    return lengths[(lengths.target == target) & (lengths.auto == 1) & lengths.ess_error.notna()]


def compare(table: pd.DataFrame, lengths: pd.DataFrame):
    """Theory over what was measured; E MH; the noise over the batch; the choice against the grid."""
    table, lengths = table[(table.status == "done") & table.sd.notna()], long_enough(lengths)
    network = table.target == "resnet20"
    for part, of in ((table[~network], ""), (table[network], ", ResNet-20")):
        for column, what, theory, least in QUANTITIES:
            for low, high in ((least, MODERATE), (MODERATE, np.inf)):
                some = part[part.predicted.between(low, high)]
                if len(some) or high == MODERATE:
                    upto = f"from {low:g} to {high:g}" if high < np.inf else f"above {low:g}"
                    yield f"{what}, √V {upto}{of}", *judged(some, column, theory)
    some = table[~network & (table.predicted < 1) & (table.mh_error > 0)]
    if some.empty:
        yield "E MH from draws of the target", "1", "", "not comparable: no run with √V < 1"
    else:
        away, most = ((some.mh - 1) / some.mh_error).abs().max(), limit(len(some))
        here = f"farthest by {away:.1f} errors, of {len(some)} settings with √V < 1 ({most:.1f} by chance in one of a "
        here += "hundred tables)"
        yield "E MH from draws of the target", "1", here, "agrees" if away < most else "differs"
    some = table[table.target == "logistic_generated"]
    traces = some.groupby("batch").trace.first()
    if len(traces) > 1:
        ratio, expected = traces.iloc[0] / traces.iloc[-1], traces.index[-1] / traces.index[0]
        what = f"logistic: tr Σ of batches of {traces.index[0]:g} over that of {traces.index[-1]:g}"
        verdict = "agrees" if abs(ratio / expected - 1) < 0.05 else "differs"
        yield what, f"{expected:g}, within 5 %: Σ goes with 1/B", f"{ratio:.2f}", verdict
    some = table[table.trace_error > 0]
    if len(some):
        away = (some.trace_error / some.trace).groupby([look(row)[1] for row in some.itertuples()], sort=False).max()
        here = ", ".join(f"{name} {100 * error:.2g} %" for name, error in away.items())
        verdict = "agrees" if away.max() < 0.1 else "differs"
        yield "errors of tr Σ from minibatches", "less than 10 %, that √V be known to 5 %", here, verdict
    for target, (_, name) in TARGETS.items():
        grid, auto = best(lengths, target), chosen(lengths, target)
        if grid.empty or auto.empty:
            yield f"{name}: what was chosen", "near the best", "τ not known", "not comparable: too few draws"
            continue
        top, row = grid.loc[grid.ess.idxmax()], auto.iloc[0]
        ratio = row.ess / top.ess
        error = ratio * np.hypot(row.ess_error / row.ess, top.ess_error / top.ess)
        mine, its = (f"L = {one.steps}, h = {one.step_size:.3g}" for one in (row, top))
        here = f"{mine}: {ratio:.2f} ± {error:.2f} of that of {its}"
        low, high = ratio - limit(1, 10) * error, ratio + limit(1, 10) * error
        verdict = "agrees" if low > 0.5 else "differs" if high < 0.5 else "not resolved"
        if grid.steps.nunique() == 1:
            verdict = f"not decided: of the grid's lengths τ is known at L = {top.steps} alone"
        yield f"{name}: ESS of what tune.trajectory chose", "at least half of the grid's best", here, verdict


def judged(part: pd.DataFrame, column: str, theory) -> tuple[str, str, str]:
    """What theory says of settings and how near they must be, how near they are, target by target, and the verdict:
    the mean and the standard deviation over theory, the acceptance less theory."""
    ratio = column != "acceptance"
    said = {"sd": "√V", "mean": "−V/2", "acceptance": "2Φ(−√V/2)"}[column]
    said += f", within a factor of {FACTOR:g}" if ratio else f", within {ABSOLUTE:g}"
    if part.empty:
        return said, "", "not comparable: no run of such a setting"
    expected = theory(part.predicted)
    away = part[column] / expected - 1 if ratio else part[column] - expected
    error = part[f"{column}_error"] / (expected.abs() if ratio else 1)
    low, high = (1 / FACTOR - 1, FACTOR - 1) if ratio else (-ABSOLUTE, ABSOLUTE)
    named = away.groupby([look(row)[1] for row in part.itertuples()], sort=False)
    sign = "" if ratio else "+"
    texts = [f"{name} {one.min() + ratio:{sign}.2f} to {one.max() + ratio:{sign}.2f}" for name, one in named]
    here = f"{', '.join(texts)}; errors of {error.median():.2g} in the median"
    most = limit(len(part), GROUPS if column == "sd" else part.trajectories.min())
    outside = (away + most * error < low) | (away - most * error > high)
    verdict = "differs" if outside.any() else "agrees" if away.between(low, high).all() else "not resolved"
    return said, here, verdict
