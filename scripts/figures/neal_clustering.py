"""Neal's talk (2020): non-reversible acceptance clusters rejections, and what that is worth, over δ."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, ORANGE, RED, clean, ticks
from verdicts import apart, decided, headed, limit, of_groups, welch

SOURCE = "Neal, clustering of rejections"
CAPTION = """
The talk says that non-reversible acceptance clusters rejections at an unchanged rate, which makes for less of a random
walk, and that δ ≈ 1 − α seems about right. So it is here, but for δ ≈ 1 − α in 20 dimensions at α = .88, where it has
less than three quarters of the best δ's ESS of x1.

**What was run.** Langevin with persistent momentum at the talk's ε and α (2 dimensions: .12, .92; 20: .08, .94) and, in
20 dimensions, at two other α, with the non-reversible acceptance (u is kept, and moved by δ at each decision) at δ of
our choice (the talk has .05). 400 chains of each setting (quick 80), of 8,000 decisions (quick 900), from exact draws.

**What is drawn.** Triangles mark δ = 1 − α; bars are standard errors over chains. Clustering: variance of the number of
rejections in 20 decisions, over that of independent decisions. In the rows √(Σ r²/n), r the lengths of the runs of
acceptances in n decisions (`reach` in the table): how far, in moves (d) per √decision, a walk gets that goes straight
while accepted and in a random direction after a rejection, as the talk reckons for two patterns.

**To know.** The highest peak of x1, at α = .98 and δ = .02, is more than momentum kept for longer: it looks antithetic.
From one cluster of rejections to the next it is between 1/δ = 50 and 2/δ = 100 steps, a time of 4 to 8, and half a
period of a pair's slowest direction is 4.4, after which it is mirrored, so that errors of the mean of x1 would cancel
from stretch to stretch. U, which is the same at a mirrored place, gains much less there. So this peak belongs to a
linear function on a Gaussian.
"""
ENOUGH = 0.75  # of the best ESS
PATTERNS = {(4, 1): 8, (16, 4): 16}  # accepts and rejects of the talk's patterns, and their distance in d√K
TABLES = ("neal_clustering", "neal_patterns")
LOOK = {(1, 0.92): (ORANGE, "s"), (10, 0.88): (BLUE, "v"), (10, 0.94): (GREEN, "o"), (10, 0.98): (RED, "D")}
WHAT = (
    ("rejected", "rejection rate"),
    ("clustering", "clustering of rejections"),
    ("ess_x1", "ESS of $x_1$ / 1,000 gradients"),
    ("ess_U", "ESS of U / 1,000 gradients"),
)


def draw(table: pd.DataFrame, patterns: pd.DataFrame) -> Figure:
    """Four panels over δ, a line a setting, standard acceptance dotted."""
    figure, grid = pyplot.subplots(2, 2, figsize=(8, 6), layout="constrained")
    panels = grid.ravel()
    for (pairs, alpha), part in _settings(table):
        colour, marker = LOOK.get((pairs, alpha), (GREY, "o"))
        look = {"color": colour, "marker": marker, "ms": 3.5, "lw": 1.2}
        standard, moved = part[part.delta.isna()], part[part.delta.notna()]
        for panel, (column, _) in zip(panels, WHAT, strict=True):
            name = f"{2 * pairs:.0f}-D, α = {alpha:g}" if column == "rejected" else None
            panel.errorbar(moved.delta, moved[column], moved[f"{column}_error"], label=name, **look)
            for level in standard[column]:
                panel.axhline(level, color=colour, ls=":", lw=1)
            if column.startswith("ess"):
                panel.plot(
                    [1 - alpha], [0], "^", color=colour, ms=7, clip_on=False, transform=panel.get_xaxis_transform()
                )
    for panel, (_, name) in zip(panels, WHAT, strict=True):
        panel.set(xscale="log", xlabel="δ", ylabel=name)
        ticks(panel.xaxis)
        panel.set_ylim(bottom=0)
    if table.rejected.max() > 0:
        panels[0].set_ylim(0, 1.9 * table.rejected.max())
        panels[0].legend(frameon=False, fontsize=9)
    clean(*panels)
    claim = "With a small δ, u kept clusters the rejections at an unchanged rate (dotted: standard acceptance)"
    rests = [row[3] for row in compare(table, patterns) if row[0].startswith(("rejection rate", "clustering"))]
    instead = "Non-reversible acceptance over δ (dotted: standard acceptance)"
    figure.suptitle(headed(claim, rests, instead), fontsize=11)
    return figure


def _settings(table: pd.DataFrame):
    done = table[table.status == "done"]
    return done.groupby(["pairs", "alpha"])


def compare(table: pd.DataFrame, patterns: pd.DataFrame):
    """The talk's claims: the same rate, clusters, longer straight stretches, δ near 1 − α."""
    for row in patterns.itertuples():
        said = PATTERNS[row.accepts, row.rejects]
        off = abs(row.simulated - said)
        here = f"{row.formula:.3g} d√K, simulated {row.simulated:.3g} ± {row.simulated_error:.2g}"
        verdict = "agrees" if off < limit(2) * row.simulated_error and abs(row.formula - said) < 1e-6 else "differs"
        yield f"20 K decisions of {row.accepts} accepts, {row.rejects} rejects", f"{said} d√K", here, verdict
    if not len(_settings(table)):
        yield "all claims", "", "", "not comparable: no run"
    for (pairs, alpha), part in _settings(table):
        where = f"{2 * pairs:.0f}-D, α = {alpha:g}"
        standard, moved = part[part.delta.isna()], part[part.delta.notna()]
        if standard.empty or moved.empty:
            yield f"all claims, {where}", "", "", "not comparable: a run is missing"
            continue
        standard = standard.iloc[0]
        errors = (moved.rejected_error**2 + standard.rejected_error**2) ** 0.5
        off = ((moved.rejected - standard.rejected) / errors).abs().max()
        most = limit(len(moved), moved.chains.min())
        here = f"{moved.rejected.min():.4f} to {moved.rejected.max():.4f} (standard {standard.rejected:.4f}), "
        here += f"largest difference {off:.1f} errors (limit {most:.1f})"
        yield f"rejection rate, {where}", "same as standard", here, "agrees" if off < most else "differs"
        near = moved.loc[(moved.delta - (1 - alpha)).abs().idxmin()]
        least = of_groups((near.clustering_error, standard.clustering_error), (near, standard))
        here = f"{near.clustering:.2f} ± {near.clustering_error:.2g} at δ = {near.delta:g} "
        here += f"(standard {standard.clustering:.2f} ± {standard.clustering_error:.2g})"
        yield f"clustering, {where}", "clustered", here, decided(apart(near, standard, "clustering"), least)
        here = f"{near.reach:.2f} ± {near.reach_error:.2g} (standard {standard.reach:.2f} ± {standard.reach_error:.2g})"
        least = welch(near, standard, "reach")
        yield f"√(Σ r²/n), {where}", "larger: less random walk", here, decided(apart(near, standard, "reach"), least)
        if near[["ess_x1", "ess_U"]].isna().any():  # a τ that is not known is longer than a fifth of the chain
            yield f"δ ≈ 1 − α, {where}", "seems about right", "τ not known", "not comparable: too few draws"
            continue
        shares, verdicts = [], []
        others, gains = moved[moved.delta != near.delta], []
        for column, name in (("ess_x1", "x1"), ("ess_U", "U")):
            if others[column].isna().all():
                shares.append(f"no other δ's ESS of {name} is known")
                verdicts.append(_ORDER[1])
                continue
            best = others.loc[others[column].idxmax()]
            share = near[column] / best[column]
            errors = [row[f"{column}_error"] / row[column] for row in (near, best)]
            error = share * np.hypot(*errors)
            shares.append(f"{share:.2f} ± {error:.2f} times the best other's (δ = {best.delta:g}) for {name}")
            edge = share < 1 and best.delta in (moved.delta.min(), moved.delta.max())
            verdicts.append(_verdict(share, error * of_groups(errors, (near, best)), edge))
            if standard[column] > 0:
                gains.append(f"{near[column] / standard[column]:.1f} ({name})")
        here = f"ESS at δ = {near.delta:g}: {', '.join(shares)}"
        here += f"; times standard acceptance's: {', '.join(gains) or 'τ not known'}"
        yield f"δ ≈ 1 − α, {where}", "seems about right", here, max(verdicts, key=_ORDER.index)


_ORDER = (
    "agrees (three quarters of the best or more)",
    "not decided by this run",
    "not decided: at the edge of the grid",
    "differs (less than three quarters of the best)",
)


def _verdict(share: float, away: float, edge: bool) -> str:
    """Whether a δ has three quarters of the best other's ESS, its share known to ``away``. An edge that is better
    leaves only "differs" sure."""
    agrees, not_decided, at_edge, differs = _ORDER
    if share + away < ENOUGH:
        return differs
    if edge:
        return at_edge
    return agrees if share - away > ENOUGH else not_decided
