"""How long a trajectory may be: log MH against theory, and what lengths are worth."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, clean

SOURCE = "How long may a trajectory be?"
TABLES = ("finding_trajectory", "finding_trajectory_auto")
TITLE = "log MH has the variance V = L h² tr Σ, so a trajectory may be as long as h goes with 1/√L"
CAPTION = """
Left and middle: standard deviation and mean of log MH of single trajectories (OBABO filled, ABOBA open; L = 1, 4, 16,
64; friction 1; fresh momentum, M = T = 1) under gradient noise of covariance Σ, against V = tr Σ times the sum over the
kicks that experiments/tables/trajectory.py derives, about L h². No number is fitted: tr Σ is the artificial noise's, or
measured from minibatches. Gaussians of 1 to 1,000 coordinates and the double well from exact draws with noise N(0, 1),
logistic regressions on 1,000 generated data with batches of 20 and 200 from draws of HMC, a ResNet-20 of width 4 on the
digits with batches of 100 from what a short uncorrected chain leaves. Where one momentum carries much of the noise (few
coordinates, V of order 1 and more) it is heated by it, and the splitting's own error adds at large h. Right: effective
draws of the slowest coordinate a thousand gradients, U at the end counted as a full one (20 minibatches of the logistic
regression), of AMAGOLD over the length: the best of five step sizes, and what tune.trajectory=auto chose in its burn-in
(stars). At paper scale 100 chains of 2,000 draws (20 a step size), quick 50 of 800. Errors are over chains, and the
jackknife's over groups of them.
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


def look(row) -> tuple[str, str]:
    return LOOK.get((row.target, row.dim), NETWORK)


def draw(table: pd.DataFrame, lengths: pd.DataFrame) -> Figure:
    """Standard deviation and mean of log MH over their predictions; ESS over the length."""
    figure, (deviation, mean, worth) = pyplot.subplots(1, 3, figsize=(12, 4), layout="constrained")
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
    for panel in (deviation, mean):
        panel.set(xscale="log", yscale="log")
    for panel, values in ((deviation, table.predicted), (mean, table.predicted**2 / 2)):
        ends = [values.min() / 1.5, values.max() * 1.5]
        panel.plot(ends, ends, color=GREY, lw=0.8, zorder=0)
        panel.set(xlim=ends, ylim=ends)
    deviation.set(xlabel="√V, predicted", ylabel="standard deviation of log MH")
    mean.set(xlabel="V/2, predicted", ylabel="−mean of log MH")
    deviation.legend(frameon=False, fontsize=7)
    for target, (colour, name) in TARGETS.items():
        part = best(lengths, target)
        worth.errorbar(part.steps, part.ess, part.ess_error, color=colour, marker="o", ms=4, lw=1.2, label=name)
        for row in chosen(lengths, target).itertuples():
            worth.errorbar(row.steps, row.ess, row.ess_error, color=colour, marker="*", ms=13, mec="black", ls="none")
    known = lengths.ess_error.notna().any()
    if not known:
        worth.text(0.5, 0.5, "too few draws for an ESS", transform=worth.transAxes, ha="center", color=GREY)
    scale = "log" if known else "linear"
    worth.set(xscale=scale, yscale=scale, xlabel="steps a trajectory, L", ylabel="ESS / 1,000 gradients, best h")
    worth.set_xticks(sorted(lengths.steps.dropna().unique()))
    worth.xaxis.set_major_formatter("{x:g}")
    worth.yaxis.set_major_formatter("{x:g}")
    for axis in (worth.xaxis, worth.yaxis):
        axis.set_minor_formatter("")
    worth.legend(frameon=False, fontsize=8)
    clean(deviation, mean, worth)
    figure.suptitle(TITLE, fontsize=11)
    return figure


def best(lengths: pd.DataFrame, target: str) -> pd.DataFrame:
    """The row of the largest ESS of each length of the grid, of those whose error is known."""
    part = lengths[(lengths.target == target) & (lengths.auto == 0) & lengths.ess_error.notna()]
    return part.loc[part.groupby("steps").ess.idxmax()] if len(part) else part


def chosen(lengths: pd.DataFrame, target: str) -> pd.DataFrame:
    return lengths[(lengths.target == target) & (lengths.auto == 1) & lengths.ess_error.notna()]


def compare(table: pd.DataFrame, lengths: pd.DataFrame):
    """Theory over what was measured; E MH; acceptance; the choice against the grid."""
    table = table[(table.status == "done") & table.sd.notna()]
    for key in dict.fromkeys((row.target, row.dim) for row in table.itertuples()):
        part = table[(table.target == key[0]) & (table.dim == key[1])]
        small = part[part.predicted.between(0.1, 1.5)]
        name = LOOK.get(key, NETWORK)[1]
        if small.empty:
            yield f"{name}: sd of log MH", "√V", "none with √V from .1 to 1.5", "not comparable: no such setting"
            continue
        ratio, error = small.sd / small.predicted, small.sd_error / small.predicted
        here = f"{ratio.median():.3f} times √V in the median, {ratio.min():.2f} to {ratio.max():.2f}"
        here += f", ± {error.median():.2f}"
        off = (ratio + 3 * error < 0.7) | (ratio - 3 * error > 1.4)
        near = (ratio - error > 0.7) & (ratio + error < 1.4)
        verdict = "differs" if off.any() else "agrees" if near.all() else "not resolved"
        yield f"{name}: sd of log MH", "√V", here, verdict
    small = table[(table.predicted < 1) & (table.target != "resnet20") & (table.mh_error > 0)]
    away = ((small.mh - 1) / small.mh_error).abs()
    here = f"largest |z| {away.max():.1f} in {len(away)} settings with √V < 1"
    verdict = "not comparable: no such setting" if away.empty else "agrees" if away.max() < 4.5 else "differs"
    yield "E MH from draws of the target", "1", here, verdict
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
        low, high = ratio - 2 * error, ratio + 2 * error
        verdict = "agrees" if low > 0.5 else "differs" if high < 0.5 else "not resolved"
        yield f"{name}: ESS of what tune.trajectory chose", "at least half of the grid's best", here, verdict
