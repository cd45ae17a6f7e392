"""Neal's persistent uniform with noisy gradients: what it gains over a fresh uniform, over δ."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy.stats import t as student
from style import BLUE, GREEN, GREY, ORANGE, clean

SOURCE = "Neal's persistent uniform, with noisy gradients"
CAPTION = """
GGMC (OBABO) and AMAGOLD (ABOBA) with kept momentum, one and four steps a trajectory, on ten of Neal's pairs (20
dimensions) with exact gradients and with gradient noise N(0, 4), and on the logistic regression of Heart with
minibatches of a fifth of the data. Points: ESS per gradient with the persistent uniform, moved by δ at each decision,
over that with a fresh uniform (Metropolis) at the same step size and the same decay of the momentum over a trajectory;
both by the mean τ of the coordinates. Where τ is longer than a fifth of the chains it is not known, and the point
missing. At paper scale 30 chains of each setting on the pairs, from exact draws, 3,000 trajectories each (6,000 with
one step and noise), and 15 on Heart, from 30 epochs of SGD, 7,000 after 1,000 left out (four steps: 4,000 after 500);
quick scale 10 of 700 after 200. τ, mostly 50 to 500 trajectories, is in the table, with the acceptance and with the
clustering: the variance of the number of rejections in 20 successive decisions, over that of independent ones. Errors
are the jackknife's over ten groups of chains. The best settings of both rules are compared below: that is the fair
comparison at equal gradients, but both were chosen from the numbers that are compared, the persistent one from three
times as many settings. What runs is exact by the certificate's rows ggmc persistent uniform and amagold persistent
uniform, and, with kept momentum, by `python -m sgmcmc.certify --word ABOBA --output results/words/ABOBA` ([its
rows](words/ABOBA/certificate.md)). Not shown: other targets and levels of noise, and whether fresh momentum or longer
trajectories would be better still.
"""
CASES = (
    ("gaussian_pairs", 0.0, "OBABO", 1, "GGMC, 1 step, exact gradients"),
    ("gaussian_pairs", 2.0, "OBABO", 1, "GGMC, 1 step"),
    ("gaussian_pairs", 2.0, "ABOBA", 1, "AMAGOLD, 1 step"),
    ("gaussian_pairs", 2.0, "OBABO", 4, "GGMC, 4 steps"),
    ("gaussian_pairs", 2.0, "ABOBA", 4, "AMAGOLD, 4 steps"),
    ("heart", None, "OBABO", 1, "Heart: GGMC, 1 step"),
    ("heart", None, "ABOBA", 1, "Heart: AMAGOLD, 1 step"),
    ("heart", None, "OBABO", 4, "Heart: GGMC, 4 steps"),
)
COLOURS = (GREEN, BLUE, ORANGE)  # of the momentum decays, from the smallest
DELTAS = (0.01, 0.03, 0.1)
LIMIT = student.isf(0.005, 9)  # errors apart: by chance in one of a hundred, of ten groups of chains
MARKERS = ("o", "s", "^")  # of the step sizes, from the smallest


def of_case(table: pd.DataFrame, target: str, noise: float | None, word: str, steps: int) -> pd.DataFrame:
    """The finished rows of a case; those with a persistent uniform have beside them the ESS, its error and the
    clustering of the fresh one at the same step size and decay (``…_fresh``), and the gain with its error."""
    part = table[(table.target == target) & (table.word == word) & (table.steps == steps) & (table.status == "done")]
    if noise is not None:
        part = part[part.noise == noise]
    part = part.assign(decay=part.decay.round(2))
    fresh = part[part.delta.isna()]
    columns = ["step_size", "decay", "accepted", "accepted_error", "clustering", "ess", "ess_error"]
    rows = part[part.delta.notna()].merge(fresh[columns], on=["step_size", "decay"], suffixes=("", "_fresh"))
    gain = rows.ess / rows.ess_fresh
    error = gain * np.hypot(rows.ess_error / rows.ess, rows.ess_error_fresh / rows.ess_fresh)
    return rows.assign(gain=gain, gain_error=error)


def best(table: pd.DataFrame, case: tuple) -> tuple | None:
    """(row of the best persistent, row of the best fresh) of a case, over step sizes, decays and δ, of those with an
    error."""
    rows = of_case(table, *case[:4])
    ours, others = rows[rows.ess_error.notna()], rows[rows.ess_error_fresh.notna()]
    if ours.empty or others.empty:
        return None
    return ours.loc[ours.ess.idxmax()], others.loc[others.ess_fresh.idxmax()]


def draw(table: pd.DataFrame) -> Figure:
    """A panel a case: the gain over δ, a line a decay and step size."""
    figure, panels = pyplot.subplots(2, 4, figsize=(12, 5.6), layout="constrained", sharey=True, sharex=True)
    for case, panel in zip(CASES, panels.flat, strict=True):
        rows = of_case(table, *case[:4])
        decays, sizes = sorted(rows.decay.unique()), sorted(rows.step_size.unique())
        for colour, decay in zip(COLOURS, decays, strict=False):
            for marker, size in zip(MARKERS, sizes, strict=False):
                own = rows[(rows.decay == decay) & (rows.step_size == size)].sort_values("delta")
                panel.errorbar(own.delta, own.gain, own.gain_error, color=colour, marker=marker, ms=4, lw=1)
        rates = 1 - rows.groupby("step_size").accepted_fresh.mean()
        signs = "  ".join(f"{sign} {rate:.0%}" for sign, rate in zip("●■▲", rates, strict=False))
        panel.text(0.97, 0.94, f"rejected: {signs}", fontsize=8, color=GREY, ha="right", transform=panel.transAxes)
        panel.axhline(1, color=GREY, lw=0.8, ls=":")
        if rows.gain.notna().any():
            panel.set_xscale("log")
            panel.set_xticks(DELTAS, [f"{delta:g}" for delta in DELTAS])
            panel.minorticks_off()
        panel.set_title(case[4], fontsize=9)
        for colour, decay, place in zip(COLOURS, decays, (0.86, 0.79, 0.72), strict=False):
            panel.text(0.97, place, f"decay {decay:g}", color=colour, fontsize=8, ha="right", transform=panel.transAxes)
        clean(panel)
    for panel in panels[1]:
        panel.set_xlabel("δ")
    for panel in panels[:, 0]:
        panel.set_ylabel("ESS, persistent / fresh")
    figure.suptitle(TITLE, fontsize=11)
    return figure


def compare(table: pd.DataFrame):
    """Case by case: the rate stays, rejections cluster, and what that is worth at its best."""
    for case in CASES:
        rows = of_case(table, *case[:4])
        name = case[4]
        if rows.empty:
            yield name, "", "", "not comparable: no run"
            continue
        errors = np.hypot(rows.accepted_error, rows.accepted_error_fresh)
        away = ((rows.accepted - rows.accepted_fresh) / errors).abs().max()
        limit = student.isf(0.005 / len(rows), rows.chains.min() - 1)
        here = f"largest of {len(rows)} differences {away:.1f} errors (above {limit:.1f} by chance once in a hundred)"
        yield f"{name}: acceptance", "that of a fresh uniform", here, "agrees" if away < limit else "differs"
        tight = rows[rows.delta == rows.delta.min()]
        here = f"{tight.clustering.min():.1f} to {tight.clustering.max():.1f} at δ = {rows.delta.min():g} "
        here += f"(fresh: {tight.clustering_fresh.min():.1f} to {tight.clustering_fresh.max():.1f})"
        sure = (tight.clustering > tight.clustering_fresh).all()
        yield f"{name}: clustering", "more", here, "agrees" if sure else "differs"
        pair = best(table, case)
        if pair is None:
            yield f"{name}: best ESS", "more (Neal, exact gradients)", "τ not known", "not comparable: too few draws"
            continue
        one, other = pair
        here = f"{one.ess:.3g} ± {one.ess_error:.1g} (δ = {one.delta:g}, h = {one.step_size:g}, decay {one.decay:g}), "
        here += f"fresh {other.ess_fresh:.3g} ± {other.ess_error_fresh:.1g} "
        here += f"(h = {other.step_size:g}, decay {other.decay:g})"
        apart = (one.ess - other.ess_fresh) / np.hypot(one.ess_error, other.ess_error_fresh)
        ratio = one.ess / other.ess_fresh
        verdict = (
            f"agrees: {ratio:.1f} times" if apart > LIMIT else "differs: less" if apart < -LIMIT else "not resolved"
        )
        yield f"{name}: best ESS, step, decay and δ chosen", "more (Neal, exact gradients)", here, verdict


TITLE = "Under noisy gradients, too, Neal's persistent uniform makes chains with kept momentum faster"
