"""AMAGOLD, Table 2: test errors on MNIST of SGHMC and irreversible AMAGOLD over b and step size."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, GREY, NAMES, clean

SOURCE = "AMAGOLD, Table 2"
CAPTION = """
Test error on MNIST of the perceptron 784-500-256-10 (523,326 weights) after three epochs of SGD. The paper does not
give burn-in, thinning, the number of repeats, or what predicts; here (resolutions chosen here) 20 draws are spread
over the second half of the authors' lengths (2,500 trajectories of 10 steps; 1,000 epochs of SGHMC), their mean
prediction is scored, and the error is over seeds where there are several, else over single draws. U contains the
prior, which the authors' acceptance leaves out. At quick scale 12,000 of the images, batches of 600, 15 epochs of SGD
(as many steps), and 100 trajectories of 10 steps of either sampler: too short for SGHMC to heat up as in the paper.
AMAGOLD accepts few of its trajectories at these step sizes, and so stays near where SGD left it; that its error does
not depend on b is partly that.
"""


def settings(table: pd.DataFrame):
    """(sampler, b, lr), error, its standard error, seeds, the paper's two, mean acceptance: of each setting."""
    done = table[table.status == "done"]
    for key, part in done.groupby(["sampler", "b", "lr"], sort=False):
        seeds = len(part)
        spread = part.error.std(ddof=1) / seeds**0.5 if seeds > 1 else part.single_error_sd.iloc[0]
        quoted = part[["quoted", "quoted_error"]].iloc[0]
        yield key, part.error.mean(), spread, seeds, *quoted, part.accept_prob.mean()


def draw(table: pd.DataFrame) -> Figure:
    """Measured errors as dots, the paper's as crosses."""
    rows = list(settings(table))
    figure, panel = pyplot.subplots(figsize=(7, 3.4), layout="constrained")
    for place, ((sampler, _, _), error, spread, _, quoted, quoted_error, _) in enumerate(rows):
        panel.errorbar(place - 0.1, error, spread, fmt="o", color=COLOURS[sampler])
        panel.errorbar(place + 0.1, quoted, quoted_error, fmt="x", color=GREY, ms=7)
    ticks = [f"{NAMES[sampler]}\nb={b:g}\nlr={lr:g}" for (sampler, b, lr), *_ in rows]
    panel.set_xticks(np.arange(len(rows)), ticks, fontsize=8)
    panel.set_yscale("log")
    panel.set_yticks([3, 5, 10, 30, 90], ["3", "5", "10", "30", "90"])
    panel.minorticks_off()
    panel.set_ylabel("test error, %")
    panel.plot([], [], "o", color="0.3", label="here")
    panel.plot([], [], "x", color=GREY, ms=7, label="paper")
    panel.legend(frameon=False, fontsize=8)
    clean(panel)
    panel.set_title("AMAGOLD's test error does not depend on b and step size", fontsize=10)
    return figure


def compare(table: pd.DataFrame):
    """Each entry of the table."""
    quick = bool((table.train_size < 60000).any())
    for key, error, spread, seeds, quoted, quoted_error, accepted in settings(table):
        measured = f"{error:.2f} ± {spread:.2f} ({seeds} seed{'s' * (seeds > 1)})"
        if key[0] == "amagold":
            measured += f", accepts {accepted:.2f}"
        off = error - quoted
        verdict = "agrees" if abs(off) <= 3 * (spread**2 + quoted_error**2) ** 0.5 else f"differs by {off:+.2f}"
        if quick:
            verdict = "not comparable: a fifth of the data, a fraction of the steps"
        yield f"{NAMES[key[0]]}, b = {key[1]:g}, lr = {key[2]:g}", f"{quoted} ± {quoted_error}", measured, verdict
