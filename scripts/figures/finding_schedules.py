"""Schedules of the step size inside a trajectory, made exact: palindromic, or a cosine in a random direction."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, ORANGE, RED, SKY, clean

SOURCE = "Schedules made exact by a random direction"
CAPTION = """
CAPTION
"""
LOOK = {
    ("constant", "forward", "metropolis"): (BLUE, "o", "-", "constant"),
    ("palindromic_cosine", "forward", "metropolis"): (GREEN, "s", "-", "palindromic cosine"),
    ("cosine", "random", "metropolis"): (ORANGE, "^", "-", "cosine, random direction"),
    ("constant", "forward", "monitor"): (SKY, "o", "--", "constant, uncorrected"),
    ("cosine", "forward", "monitor"): (RED, "D", "--", "cosine, uncorrected"),
}
PANELS = (("double_well", "double well"), ("mixture", "mixture"), ("heart", "Heart"))
ROWS = (
    ("accepted", "acceptance"),
    ("ess", "ESS / 1,000 gradients"),
    ("excess", "excess of U"),
)


def of_schedule(table: pd.DataFrame, target: str, key: tuple[str, str, str]) -> pd.DataFrame:
    """The finished rows of a target's schedule, in the order of their step sizes."""
    part = table[(table.target == target) & (table.status == "done") & table.time.notna()]
    part = part[(part.schedule == key[0]) & (part.direction == key[1]) & (part.acceptance == key[2])]
    return part.sort_values("step_size")


def draw(table: pd.DataFrame) -> Figure:
    """A column a target: acceptance, efficiency, bias over the mean step a gradient."""
    figure, panels = pyplot.subplots(3, 3, figsize=(9.6, 7.4), layout="constrained", sharex="col")
    for (target, title), column in zip(PANELS, panels.T, strict=True):
        for key, (colour, marker, line, name) in LOOK.items():
            rows = of_schedule(table, target, key)
            for (quantity, _), panel in zip(ROWS, column, strict=True):
                if quantity in rows and rows[quantity].notna().any():
                    panel.errorbar(
                        rows.time,
                        rows[quantity],
                        rows[f"{quantity}_error"],
                        color=colour,
                        marker=marker,
                        ls=line,
                        ms=4,
                        lw=1.2,
                        label=name,
                    )
        column[0].set_title(title, fontsize=10)
        column[1].set_ylim(bottom=0)
        column[2].set_xlabel("mean step a gradient")
        clean(*column)
    for (_, name), panel in zip(ROWS, panels[:, 0], strict=True):
        panel.set_ylabel(name)
    panels[1, 0].legend(frameon=False, fontsize=7)
    figure.suptitle(TITLE, fontsize=11)
    return figure


TITLE = "TITLE"
