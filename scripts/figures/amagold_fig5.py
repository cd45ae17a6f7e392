"""AMAGOLD, Figure 5: distribution of the predictive entropy on notMNIST."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, NAMES, clean

SOURCE = "AMAGOLD, Figure 5"
CAPTION = """
Empirical distribution function of the predictive entropy on notMNIST's small set, of the same draws as Table 2: the
further to the left and above, the more confident about letters that the network has never seen. Means over seeds
where there are several.
"""
DASHES = {(0.01, 0.0005): "-", (0.01, 0.001): "--", (5e-6, 0.0005): "-.", (5e-6, 0.001): ":"}


def draw(table: pd.DataFrame) -> Figure:
    """Eight curves: sampler by colour, setting by dashes."""
    figure, panel = pyplot.subplots(figsize=(5.5, 3.8), layout="constrained")
    done = table[table.status == "done"]
    for (sampler, b, lr), part in done.groupby(["sampler", "b", "lr"], sort=False):
        mean = part.groupby("entropy").share.mean()
        panel.plot(
            mean.index, mean, DASHES[b, lr], color=COLOURS[sampler], lw=1.4, label=f"{NAMES[sampler]} b={b:g} lr={lr:g}"
        )
    panel.set(xlim=(0, 2.3026), ylim=(0, 1), xlabel="predictive entropy, nats", ylabel="share of notMNIST's images")
    panel.legend(frameon=False, fontsize=7)
    clean(panel)
    panel.set_title("Predictive entropy on letters, networks trained on digits", fontsize=10)
    return figure


def compare(table: pd.DataFrame):
    """AMAGOLD's curves coincide; SGHMC's with little friction are overconfident."""
    done = table[table.status == "done"]
    mean = done.groupby(["sampler", "b", "lr", "entropy"]).share.mean().unstack("entropy")
    amagold = mean.loc["amagold"]
    spread = float((amagold.max() - amagold.min()).max())
    verdict = "agrees" if spread < 0.1 else f"differs by {spread:.2f}"
    yield "largest distance between AMAGOLD's curves", "coincide", f"{spread:.3f}", verdict
    if "sghmc" not in mean.index:
        return
    for (b, lr), row in mean.loc["sghmc"].iterrows():
        shift = float((row - amagold.mean()).mean() * 2.32)
        claim = "overconfident" if b < 0.001 or lr > 0.0005 else "near AMAGOLD's"
        seen = "overconfident" if shift > 0.05 else "near AMAGOLD's"
        measured = f"mean entropy {shift:+.3f} nats below AMAGOLD's" if shift else "the same"
        yield f"SGHMC, b = {b:g}, lr = {lr:g}", claim, measured, "agrees" if claim == seen else f"differs: {seen}"
