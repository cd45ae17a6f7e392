"""AMAGOLD's Theorem 2, seen: what gradient noise takes from the spectral gap, beside the bound."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, RED, clean, handle
from verdicts import limit

SOURCE = "How much slower is AMAGOLD than L2MC?"
CAPTION = """
How much may gradient noise slow AMAGOLD? Theorem 2 bounds its spectral gap γ by that of L2MC with full gradients, γ̄:
γ/γ̄ ≥ exp(−a − 2√a), a = ε T V²/(4 σ² β). On smooth functions noise takes less than it allows, mostly far less.

**What was run.** One trajectory of T steps from exact draws, gradient noise of standard deviation V: four step sizes
and four V within the theorem's condition, ε V² ≤ 4 σ² β (L2MC: σ = 1, β = .25; AMAGOLD's mass is a little smaller). One
dimension: the double well and an unsymmetric single well, whose U grows as θ⁴, and U = 16 √(1 + θ²/16), of curvature at
most 1. Functions: the combinations of 24, cos(kπF(θ)), F the distribution function of exp(−U/3).

**What is drawn.** Filled: what a trajectory takes off the correlation of the slowest combination, over that of L2MC's
slowest. Crosses: the least ratio of Dirichlet forms E(f, f) of all combinations. Both samplers have the same draws;
bars: the jackknife over ten parts.

**Why.** No gap of all functions is measured; the slowest smooth one bounds it from above, and alone tests no ratio. But
the proof argues that AMAGOLD's transition density is at least the bound times L2MC's: then so is every E(f, f), and the
slowest in any set of functions.

**To know.** The proof takes the term ε² σ⁻² ∇U in A_t for the same when σ becomes σ c^{−1/4}. Where ∇U grows without
bound the densities are not so: on the double well at ε = V = .25, T = 1, that of staying at θ = 5.5, far out, is .007
of L2MC's, the bound .77. To E(f, f) of smooth f such places contribute next to nothing. Only the last target has a gap
of all functions above 0: on the others both samplers reject ever more surely the farther out a trajectory starts, and
the theorem says 0 ≥ 0. One dimension says nothing about many. Other settings: `python scripts/theorem2.py --help`.
"""
LITTLE = 0.25  # of the loss that the bound allows, in the median
LOOK = {1: (BLUE, "o"), 3: (GREEN, "s"), 10: (RED, "^")}
MARKS = {"o": "γ of the slowest", "x": "least E(f, f)"}
TITLES = {"double_well": "double well", "quartic": "one well, unsymmetric", "Hyperbola": "log-concave, slope below 4"}
MEASURED = (("least", "what is left of E(f, f), at the least over smooth f"), ("ratio", "γ/γ̄ of smooth functions"))


def draw(table: pd.DataFrame) -> Figure:
    """What is left over a, a panel a target, a colour a length of trajectory."""
    targets = [target for target in TITLES if target in set(table.target)] or list(TITLES)
    figure, panels = pyplot.subplots(
        1, len(targets), figsize=(4.2 * len(targets), 3.8), sharey=True, layout="constrained", squeeze=False
    )
    for target, panel in zip(targets, panels[0], strict=True):
        part = table[table.target == target]
        line = np.geomspace(table.a.min(), table.a.max(), 100)
        panel.plot(line, np.exp(-line - 2 * np.sqrt(line)), color=GREY, lw=1.2)
        panel.text(0.05, 0.07, "bound of Theorem 2", color=GREY, fontsize=9, transform=panel.transAxes)
        for steps, (colour, marker) in LOOK.items():
            mine = part[part.steps == steps]
            style = {"color": colour, "ls": "none"}
            panel.errorbar(mine.a, mine.ratio, mine.ratio_error, marker=marker, ms=4, **style)
            if "least" in mine:
                panel.errorbar(mine.a, mine.least, mine.least_error, marker="x", ms=4, lw=0.8, **style)
        panel.set_xscale("log")
        panel.set_title(TITLES[target], fontsize=10)
        panel.set_xlabel("a = ε T V² / (4 σ² β)")
        panel.set_ylim(0, 1.3)
    panels[0, 0].set_ylabel("ratio, AMAGOLD over L2MC")
    marks = [handle(f"T = {steps}", color=colour, marker=marker, ls="none") for steps, (colour, marker) in LOOK.items()]
    marks += [handle(name, color=GREY, marker=marker, ls="none") for marker, name in MARKS.items()]
    panels[0, -1].legend(handles=marks, frameon=False, fontsize=8, ncols=2, loc="upper right")
    clean(*panels.flat)
    figure.suptitle(title(table), fontsize=11)
    return figure


def title(table: pd.DataFrame) -> str:
    """That smooth functions lose little of what the bound allows, where they do."""
    valid = table[table.valid.eq(True)]
    lost = ((1 - valid.ratio) / (1 - valid.bound)).dropna()
    if len(lost) and lost.median() < LITTLE:
        return "On smooth functions, noise slows AMAGOLD far less than Theorem 2 allows"
    return "What gradient noise takes from smooth functions, beside the bound of Theorem 2"


def compare(table: pd.DataFrame):
    """The bound at every setting, and how far from it smooth functions stay."""
    valid = table[table.valid.eq(True)]
    valid = valid[valid.ratio.notna() & valid.ratio_error.notna()] if "ratio" in valid else valid[:0]
    for column, what in MEASURED:
        if valid.empty or column not in valid or valid[f"{column}_error"].isna().any():
            yield what, "at least the bound (as the paper argues)", "", "not comparable: no run"
            continue
        errors, most = valid[f"{column}_error"], limit(len(valid), 10)  # of ten parts of the draws
        near = (valid[column] / valid.bound).idxmin()
        here = f"nearest: {valid[column][near]:.3f} ± {errors[near]:.2g} over a bound of {valid.bound[near]:.3f} (of "
        here += f"{len(valid)} settings one is {most:.1f} errors below it by chance at most once in a hundred tables)"
        below = valid[column] < valid.bound - most * errors
        yield what, "at least the bound (as the paper argues)", here, "differs" if below.any() else "agrees"
    if valid.empty:
        return
    loss, faster = 100 * (1 - valid.ratio) / (1 - valid.bound), valid[valid.ratio > 1]
    here = f"in the median {loss.median():.0f} % of the loss that the bound allows, from {loss.min():.0f} to "
    here += f"{loss.max():.0f} %"
    if len(faster):
        lengths = ", ".join(f"{steps:g}" for steps in sorted(faster.steps.unique()))
        here += f": in {len(faster)} of {len(valid)} settings (T = {lengths}) AMAGOLD, whose mass is smaller, is the "
        here += f"faster, up to {faster.ratio.max():.3f} times"
    yield "what smooth functions lose", "no numbers", here, "not claimed"
    high = valid[valid.a == valid.a.max()]
    here = ", ".join(f"{TITLES[row.target]} {row.ratio:.3f} ± {row.ratio_error:.1g}" for row in high.itertuples())
    what = f"γ/γ̄ of smooth functions at the largest a, {high.a.iloc[0]:.2g}"
    yield what, "no numbers", f"{here} (bound {high.bound.iloc[0]:.2e})", "not claimed"
    if "half" in valid:
        falls = 100 * (1 - 1 / valid.groupby("target").half.max())
        here = ", ".join(f"{TITLES[target]} {fall:.1f} %" for target, fall in falls.items())
        yield "by how much γ̄ falls from 12 functions to 24, at most", "little", here, "not claimed"
