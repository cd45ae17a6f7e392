"""Neal's talk (2020): Gibbs updates of discrete variables every step or every trajectory."""

import pandas as pd
from figures.neal_hierarchical import MINE, against, counted, finished, lines, told
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, clean
from verdicts import limit

SOURCE = "Neal, models with discrete variables"
CAPTION = """
The talk's claim is that a Langevin method, which allows discrete variables to be updated more often, can be better than
HMC; his paper of that year (arXiv:2001.11950) says nearly twice as efficient, for a mixed problem that was not compared
with this one. Here two continuous variables u ~ N(0, 1), v ~ N(u, .04²), and 20 binary ones, w ~ Bernoulli(1/(1 +
e^u)): u and v by HMC or Langevin updates, the w by Gibbs updates after each trajectory of L leapfrog steps (HMC) or
after every step (Langevin with persistent momentum); green dashed: after every tenth. Effective sample size per 1,000
leapfrog steps over the step size, of u, of the number of ones, and of a single w; a line an L or α, the thick one has a
sampler's best point, bars are standard errors over chains: 150 of each setting (600 at ε = .06), of 12,000 leapfrog
steps, from exact draws (quick fewer and shorter). The talk states the claim without a target: this one, its grids, and
δ = 1 − α are our choices. A missing point: chains shorter than 20 τ. The gradient that is computed anew after a Gibbs
update is free; last rows below: counted. Leapfrog steps are stable up to ε = .0566: at .06 HMC accepts next to nothing.
"""
QUANTITIES = (("u", "u"), ("k", "number of ones"), ("w", "one binary variable"))


def draw(table: pd.DataFrame) -> Figure:
    """A panel a quantity."""
    done = finished(table)
    figure, panels = pyplot.subplots(1, 3, figsize=(10, 3.5), layout="constrained")
    for panel, (name, title) in zip(panels, QUANTITIES, strict=True):
        lines(panel, done[done.every == 1], f"ess_{name}")
        for _, line in done[done.every > 1].groupby("alpha"):
            often = f"non-reversible, Gibbs every {line.every.iloc[0]:.0f}"
            panel.plot(line.step_size, line[f"ess_{name}"], "--", color=COLOURS[MINE], label=often)
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("step size ε")
        if panel.get_legend_handles_labels()[0]:
            panel.legend(frameon=False, fontsize=7)
        panel.set_ylim(top=1.35 * panel.get_ylim()[1])
    panels[0].set_ylabel("ESS / 1,000 leapfrog steps")
    clean(*panels)
    each = done[done.every == 1]
    verdicts = [against(part, MINE, ["ess_u"], "")[3] == "agrees" for part in (each, counted(each))]
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
            yield against(each, sampler, [f"ess_{name}"], title)
    tenth = done[(done.every > 1) | (done.sampler == "hmc")]
    yield against(tenth, MINE, ["ess_u"], "u, Gibbs updates after every tenth step")
    for part, often in ((each, "every"), (tenth, "every tenth")):
        yield against(counted(part), MINE, ["ess_u"], f"u, Gibbs updates after {often} step, their gradients counted")
    off, most = ((done.mean_u2 - 1) / done.mean_u2_error).abs().max(), limit(len(done), done.chains.min())
    here = f"largest difference {off:.1f} errors of {len(done)} values (limit {most:.1f})"
    yield "E[u²], every sampler and step size", 1, here, "agrees" if off < most else "differs"
