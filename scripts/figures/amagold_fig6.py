"""AMAGOLD, Figure 6: densities of the double well at step sizes .01, .05 and .15, SGHMC beside AMAGOLD."""

import pandas as pd
from figures.amagold_fig1 import POOR, density, farther, names
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, NAMES, clean
from verdicts import Rows, headed

SOURCE = "AMAGOLD, Figure 6"
TABLES = ("amagold_fig1_density", "amagold_fig1")
CAPTION = """
The paper's appendix says that at too small a step both samplers move too slowly, and that SGHMC is the more sensitive
to the step size. So it is here: at ε = .01 chains hardly cross between the wells, and at .15 SGHMC is farther from the
truth than AMAGOLD.

**What was run.** The chains of Figure 1, from θ = 0, at the appendix's step sizes: the paper's length at paper scale
(100,000 draws after 1,000 of burn-in), 4,000 after 500 at quick scale. SGHMC moves momentum first, as in the authors'
code.

**What is drawn.** As panels a and b of Figure 1: the histogram (bins of .1) of the first chain, a line, the central 80
% of 32 chains as a band, and the exact density. The paper shows kernel density estimates.

**To know.** At ε = .01 the mean of J is made by the few chains that never cross, so that its error, which is from 32
chains, is poorly known itself.
"""
STEPS = (0.01, 0.05, 0.15)


def draw(densities: pd.DataFrame, table: pd.DataFrame) -> Figure:
    """A row a step size, a column a sampler."""
    figure, panels = pyplot.subplots(3, 2, figsize=(7, 6.6), sharex=True, sharey=True, layout="constrained")
    plain = densities[densities.tuned_to.isna()]
    for row, step in zip(panels, STEPS, strict=True):
        for panel, name in zip(row, ("sghmc", "amagold"), strict=True):
            density(panel, plain[(plain.sampler == name) & (plain.step_size == step)], COLOURS[name])
            panel.set_title(f"{NAMES[name]}, ε = {step:.2f}".replace("0.", "."), fontsize=10)
        row[0].set_ylabel("density")
    panels[0, 0].set_ylim(0, max(0.85, plain.high[plain.step_size.isin(STEPS)].max()))
    names(panels[2, 0], COLOURS["sghmc"], table[(table.word == "EA") & (table.step_size == STEPS[-1])])
    clean(*panels.flat)
    for panel in panels[-1]:
        panel.set_xlabel("θ")
    claim = "Too small a step hardly crosses between the wells in a chain's length"
    slowly = [row[3] for row in compare(densities, table)][:2]
    figure.suptitle(headed(claim, slowly, "Densities of the double well at three step sizes"), fontsize=11)
    return figure


def compare(densities: pd.DataFrame, table: pd.DataFrame):
    """What the appendix says of these densities, by J."""
    rows = Rows(table[table.tuned_to.isna() & (table.word != "AE")], "sampler", "step_size")

    def slowly(slow, fast):
        here = f"J of one chain {slow.J_one:.2g} against {fast.J_one:.2g} (too slowly: {POOR} times as much)"
        return here, "agrees" if slow.J_one > POOR * fast.J_one else "differs"

    for name in ("sghmc", "amagold"):
        what = f"{NAMES[name]} at ε = .01 has not converged in the chain's length, at .15 it has nearly"
        yield rows.judge(what, "moves too slowly", [(name, 0.01), (name, 0.15)], slowly)
    what = "ε = .15: SGHMC farther from the truth than AMAGOLD"
    yield rows.judge(what, "visibly", [("sghmc", 0.15), ("amagold", 0.15)], farther)
