"""AMAGOLD, Figure 1d: symmetric KL divergence to the double well over step sizes, SGHMC against AMAGOLD."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, NAMES, clean, label

SOURCE = "AMAGOLD, Figure 1d"
CAPTION = "J over step sizes."


def draw(table: pd.DataFrame) -> Figure:
    """J over step size, error bars over groups of chains; the dotted line is what independent draws would give."""
    figure, panel = pyplot.subplots(figsize=(5, 3.6), layout="constrained")
    for name in ("sghmc", "amagold"):
        part = table[(table.sampler == name) & (table.status == "done")]
        panel.errorbar(part.step_size, part.J, part.J_error, color=COLOURS[name], marker="o", ms=4)
        label(panel, part.step_size.iloc[-1], part.J.iloc[-1], NAMES[name], COLOURS[name])
    floor = table.floor.mean()
    panel.axhline(floor, color="0.5", ls=":", lw=1)
    panel.text(0.01, floor, "as many independent draws", va="bottom", fontsize=8, color="0.4")
    panel.set(yscale="log", xlabel="step size ε", ylabel="J(draws, exact)")
    panel.set_xlim(0, 0.3)
    clean(panel)
    panel.set_title("SGHMC's bias grows with the step size; AMAGOLD has none", fontsize=10)
    return figure
