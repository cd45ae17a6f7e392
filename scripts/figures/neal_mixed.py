"""Neal's talk (2020): Gibbs updates of discrete variables every step or every trajectory."""

import numpy as np
import pandas as pd
from figures.neal_hierarchical import MINE, against, counted, finished, lines, told
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, clean
from verdicts import limit

SOURCE = "Neal, models with discrete variables"
CAPTION = """
The talk says that Langevin methods, which can update discrete variables more often, can be better than HMC. Here
non-reversible Langevin with Gibbs updates after every step mixes faster per leapfrog step, if the gradients after them
are free. If they are counted, or the updates come after every tenth step, it is not decided.

**What was run.** Two continuous variables u ~ N(0, 1), v ~ N(u, .04²), and 20 binary ones, w ~ Bernoulli(1/(1 + e^u)):
u and v by HMC or Langevin updates, the w by Gibbs updates after each trajectory of L leapfrog steps (HMC) or every step
(Langevin with persistent momentum). 150 chains of each setting (600 at ε = .06), of 12,000 leapfrog steps, from exact
draws (quick fewer and shorter).

**What is drawn.** A line an L or α, with standard errors over chains; the thick one has a sampler's best point, the
others have their L or α at one of their points. A missing point: chains shorter than 20 τ.

**Decided here.** The target, which the talk does not name, the grids, δ = 1 − α. The abstract of his paper
(arXiv:2001.11950) says nearly twice as efficient, for a mixed problem that is, as far as remembered, this one.

**To know.** HMC's best is a resonance. In the stiff direction of (u, v), of curvature 1250.5, a leapfrog step turns by
φ, cos φ = 1 − 625.25 ε² (the w change it little), and energy comes back where Lφ is nearly a multiple of π. At ε = .055
HMC accepts .80 at L = 20 (17.0 π), but .29 at L = 10 and 30 (8.5 and 25.5 π). The rows without resonances (Lφ within .1
π of a multiple of π) were thought of later. A step size drawn anew for each trajectory, not tried, would remove them.
Leapfrog steps are stable up to ε = .0566: at .06 HMC accepts next to nothing. Bonferroni is over six rows; the choice
of a grid's best is not in the errors.
"""
QUANTITIES = (("u", "u"), ("k", "number of ones"), ("w", "one binary variable"))
JUDGED = 6  # rows that are judged: non-reversible Langevin over HMC, with all of HMC's settings
STIFF, NEAR = 1250.5, 0.1  # the largest curvature of (u, v) without the w, and how near, in π, a resonance is


def draw(table: pd.DataFrame) -> Figure:
    """A panel a quantity."""
    done = finished(table)
    figure, panels = pyplot.subplots(1, 3, figsize=(10, 4), layout="constrained")
    for panel, (name, title) in zip(panels, QUANTITIES, strict=True):
        column = f"ess_{name}"
        lines(panel, done[done.every == 1], column)
        for _, line in done[done.every > 1].groupby("alpha"):
            look = {"color": COLOURS[MINE], "ls": "--", "marker": "o", "ms": 3, "lw": 1.2, "zorder": 3}
            often = f"non-reversible, Gibbs every {line.every.iloc[0]:.0f}, α = {line.alpha.iloc[0]:g}"
            panel.errorbar(line.step_size, line[column], line[f"{column}_error"], label=often, **look)
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("step size ε")
        if panel.get_legend_handles_labels()[0]:
            panel.legend(frameon=False, fontsize=8)
        panel.set_ylim(top=1.2 * panel.get_ylim()[1])
    panels[0].set_ylabel("ESS / 1,000 leapfrog steps")
    clean(*panels)
    each = done[done.every == 1]
    verdicts = [against(part, MINE, ["ess_u"], "", number=JUDGED)[3] == "agrees" for part in (each, counted(each))]
    figure.suptitle(told(*verdicts, "u"), fontsize=11)
    return figure


def compare(table: pd.DataFrame):
    """The best setting of each sampler against HMC's best; and that the chains have the target's moments."""
    done = finished(table)
    each = done[done.every == 1]
    if done.empty:
        return
    for sampler in ("persistent_langevin", MINE):
        for name, title in QUANTITIES:
            yield against(each, sampler, [f"ess_{name}"], title, number=JUDGED)
    tenth = done[(done.every > 1) | (done.sampler == "hmc")]
    yield against(tenth, MINE, ["ess_u"], "u, Gibbs updates after every tenth step", number=JUDGED)
    for part, often in ((each, "every"), (tenth, "every tenth")):
        what = f"u, Gibbs updates after {often} step, their gradients counted"
        yield against(counted(part), MINE, ["ess_u"], what, number=JUDGED)
    part = each[(each.sampler != "hmc") | ~resonant(each)]
    without = "without HMC's settings at a resonance"
    yield against(part, MINE, ["ess_u"], f"u, {without}", claim="no claim")
    yield against(counted(part), MINE, ["ess_u"], f"u, {without}, gradients counted", claim="no claim")
    off, most = ((done.mean_u2 - 1) / done.mean_u2_error).abs().max(), limit(len(done), done.chains.min())
    here = f"largest difference {off:.1f} errors of {len(done)} values (limit {most:.1f})"
    yield "E[u²], every sampler and step size", 1, here, "agrees" if off < most else "differs"


def resonant(part: pd.DataFrame) -> pd.Series:
    """Whether L leapfrog steps turn the stiff direction by nearly a multiple of π, so that energy comes back there."""
    with np.errstate(invalid="ignore"):  # beyond the largest stable step size nothing turns
        turns = part.steps * np.arccos(1 - STIFF * part.step_size**2 / 2) / np.pi
    return (turns - turns.round()).abs() < NEAR
