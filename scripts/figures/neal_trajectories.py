"""Neal's talk (2020): six successive HMC trajectories for the bivariate Gaussian."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, RED, clean, handle
from verdicts import CHANCE, headed

SOURCE = "Neal, six HMC trajectories"
CAPTION = """
The first six trajectories of HMC's picture in two dimensions (ε = .16, L = 10), x alone: the first orange (in the talk
red), rejected ones blue, the others black; the number is at a trajectory's end, a dot is a leapfrog step. Green:
500 independent draws.
"""
TABLES = ("neal_trajectories", "neal_iid")


def draw(paths: pd.DataFrame, iid: pd.DataFrame) -> Figure:
    """One panel, numbered paths."""
    figure, panel = pyplot.subplots(figsize=(5, 5), layout="constrained")
    panel.scatter(iid.x1, iid.x2, s=3, color=GREEN, alpha=0.5, lw=0)
    for number, path in paths.groupby("trajectory"):
        rejected = not path.accepted.iloc[0]
        colour = BLUE if rejected else RED if number == 1 else "black"
        panel.plot(path.x1, path.x2, "-o", color=colour, lw=1.2, ms=3, mew=0)
        end = path.iloc[-1]
        side = 1 if number % 2 else -1  # of the ridge, away from the paths
        line = {"arrowstyle": "-", "color": colour, "lw": 0.5, "shrinkA": 0}
        place = {"textcoords": "offset points", "ha": "center", "va": "center", "arrowprops": line}
        panel.annotate(str(number), (end.x1, end.x2), (26 * side, -26 * side), color=colour, weight="bold", **place)
    panel.set(aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
    low, high = paths[["x1", "x2"]].min().min() - 0.2, paths[["x1", "x2"]].max().max() + 0.3
    if low < high:
        panel.set(xlim=(low, high), ylim=(low, high))
    keys = {"first": RED, "rejected": BLUE, "others": "black"}
    handles = [handle(name, color=colour, marker="o", ms=3, mew=0) for name, colour in keys.items()]
    handles.append(handle("independent draws", color=GREEN, marker=".", ls="none", alpha=0.5))
    panel.legend(handles=handles, frameon=False, fontsize=8, loc="lower right")
    clean(panel)
    claim = "A trajectory keeps its direction until it turns at an end"
    rests = [row[3] for row in compare(paths, iid)]
    panel.set_title(headed(claim, rests, "Successive trajectories of HMC"), fontsize=10)
    return figure


def compare(paths: pd.DataFrame, iid: pd.DataFrame):
    """The talk's statement about the trajectories, as a number: how far they get along the ridge, root mean square,
    over √(Σ moves²), how far the same moves get in independent directions (√10 = 3.2: ten equal ones, no turn)."""
    along = (paths.x1 + paths.x2) / 2**0.5
    moves = along.groupby(paths.trajectory).diff()
    said = "keeps going in the same direction (except turning at an end)"
    if moves.notna().sum() == 0:
        yield "distance along the ridge", said, "", "not comparable: no run of HMC"
        return
    far = moves.groupby(paths.trajectory).sum()
    ratio = (far.pow(2).sum() / moves.pow(2).sum()) ** 0.5
    each, walks = moves.fillna(0).to_numpy(), 100_000
    signs = np.random.default_rng(0).choice((-1.0, 1.0), (walks, len(each)))
    starts = np.flatnonzero(paths.trajectory.diff() != 0)  # rows are in the trajectories' order
    as_far = np.square(np.add.reduceat(signs * each, starts, axis=1)).sum(1) >= far.pow(2).sum()
    here = f"{ratio:.2f} times that of a random walk of the same moves ({len(far)} trajectories; of {walks:,} such "
    here += f"walks, each move with a random sign, {as_far.sum():,} get as far; keeps going: under one in a hundred)"
    verdict = "agrees" if as_far.mean() < CHANCE else "differs" if ratio < 1 else "not resolved"
    yield "distance along the ridge", said, here, verdict
