"""AMAGOLD, Table 1: which samplers are exact, which take stochastic gradients."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import GREEN, NAMES, RED

SOURCE = "AMAGOLD, Table 1"
CAPTION = """
Read from the program's own table of samplers: *exact* says that the engine computes the acceptance probability of the
sampler's trajectories under the gradient of the third column, and corrects with it. So "agrees" below is of what this
program says of itself, and no measurement; those are in the other figures, and in `python -m sgmcmc.certify`. The rows
that the paper does not have are this program's (OVRVO is OBABO with its drifts and kicks rescaled).
"""


def draw(table: pd.DataFrame) -> Figure:
    """The table, exact in green, not exact in red."""
    figure, panel = pyplot.subplots(figsize=(6, 0.4 + 0.3 * len(table)), layout="constrained")
    panel.axis("off")
    cells = [[NAMES[row.sampler], row.word, row.exact, row.gradient] for row in table.itertuples()]
    drawn = panel.table(
        cells, colLabels=["sampler", "word", "exactness", "gradient"], loc="center", cellLoc="left", colLoc="left"
    )
    drawn.scale(1, 1.4)
    for (place, column), cell in drawn.get_celld().items():
        cell.visible_edges = "B"
        if place and column == 2:
            cell.get_text().set_color(RED if cells[place - 1][2] == "not exact" else GREEN)
    panel.set_title("Which samplers are exact, and with which gradients", fontsize=10)
    return figure


def compare(table: pd.DataFrame):
    """The paper's four rows."""
    for row in table[table.claimed.notna()].itertuples():
        here = f"{row.exact}, {row.gradient}"
        verdict = "agrees: by its own word" if here == row.claimed else f"differs: {here}"
        yield NAMES[row.sampler], row.claimed, f"{here} (the program's table)", verdict
