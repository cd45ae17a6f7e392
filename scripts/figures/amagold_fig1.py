"""AMAGOLD, Figure 1d: symmetric KL divergence to the double well over step sizes, SGHMC against AMAGOLD."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure

COLOURS = {"sghmc": ("SGHMC", "#D55E00"), "amagold": ("AMAGOLD", "#009E73")}


def draw(table: pd.DataFrame) -> Figure:
    """J over step size, error bars over groups of chains; the dotted line is what independent draws would give."""
    figure, panel = pyplot.subplots(figsize=(5, 3.6), layout="constrained")
    for name, (label, colour) in COLOURS.items():
        part = table[(table.sampler == name) & (table.status == "done")]
        panel.errorbar(part.step_size, part.J, part.J_error, color=colour, marker="o", ms=4)
        last = part.iloc[-1]
        panel.annotate(label, (last.step_size, last.J), (6, 0), textcoords="offset points", color=colour, va="center")
    floor = table.floor.mean()
    panel.axhline(floor, color="0.5", ls=":", lw=1)
    panel.text(0.01, floor, "as many independent draws", va="bottom", fontsize=8, color="0.4")
    panel.set(yscale="log", xlabel="step size ε", ylabel="J(draws, exact)")
    panel.set_xlim(0, 0.3)
    panel.spines[["top", "right"]].set_visible(False)
    panel.set_title("SGHMC's bias grows with the step size; AMAGOLD has none", fontsize=10)
    return figure
