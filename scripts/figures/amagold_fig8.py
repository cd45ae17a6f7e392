"""AMAGOLD, Figure 8: acceptance of AMAGOLD on Heart over step sizes."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, clean

SOURCE = "AMAGOLD, Figure 8"
TABLES = ("amagold_logistic_acceptance",)
CAPTION = """
The share of trajectories that are accepted, Heart, minibatches of 16, T = 10, β = .25; 8 chains a step size of 10,000
trajectories after 1,000 at paper scale, of 2,000 after 500 at quick scale, from independent standard normals; the
bars (mostly smaller than the points) are standard errors over chains. Decided where the paper is silent: step sizes,
and the posterior as for Figure 4. At the smallest step sizes chains are still near their start.
"""


def draw(table: pd.DataFrame) -> Figure:
    """Acceptance over step size."""
    figure, panel = pyplot.subplots(figsize=(4.8, 3.3), layout="constrained")
    panel.errorbar(table.step_size, table.accepted, table.accepted_error, color=COLOURS["amagold"], marker="o", ms=4)
    last = table.iloc[-1]
    panel.annotate(
        f"{last.accepted:.2f}".lstrip("0"),
        (last.step_size, last.accepted),
        (-8, -4),
        textcoords="offset points",
        ha="right",
    )
    panel.set(xscale="log", ylim=(0, 1.03), xlabel="step size ε", ylabel="acceptance")
    clean(panel)
    panel.set_title("Acceptance is high until the largest step size", fontsize=10)
    return figure


def compare(table: pd.DataFrame):
    """High over a large range, dropping at the end."""
    at = {row.step_size: row for row in table.itertuples()}
    low = min(row.accepted for size, row in at.items() if size <= 5e-4)
    yield (
        "acceptance at every ε up to 5e-4",
        "sufficiently high for a large range",
        f"at least {low:.3f}",
        "agrees" if low > 0.6 else "differs",
    )
    last, before = at[5e-3], at[1e-3]
    yield (
        "acceptance at the largest ε, .005",
        "may become very low",
        f"{last.accepted:.3f} ± {last.accepted_error:.3f} ({before.accepted:.3f} at .001)",
        "agrees" if last.accepted < 0.5 * before.accepted else "differs: it drops, but not to a half of that at .001",
    )
