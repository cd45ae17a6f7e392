"""AMAGOLD, Table 2: test errors on MNIST of SGHMC and irreversible AMAGOLD over b and step size."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, GREY, NAMES, clean, close

SOURCE = "AMAGOLD, Table 2"
CAPTION = """
Test error on MNIST of the perceptron 784-500-256-10 (523,326 weights) after three epochs of SGD. The paper does not
give burn-in, thinning, the number of repeats, or what predicts; here (resolutions chosen here) 20 draws are spread
over the second half of the authors' lengths (2,500 trajectories of 10 steps; 1,000 epochs of SGHMC), their mean
prediction is scored (dots), and single draws are, as the authors' code scores them (small squares). Bars are standard
errors over seeds where there are several, else the standard deviation of single draws. With one seed it is the single
draws' error that is judged: it agrees within three of these and the paper's errors together, and differs beyond ten;
between, nothing is decided. A hollow marker: the run diverged, and the error is of the draws that it had kept until
then, or of its last finite row of metrics. Its start is the first row of metrics. U contains the prior, which the
authors' acceptance leaves out. At quick scale 12,000 of the images, batches of 600, 15 epochs of SGD (as many steps),
and 10 draws of the second half of 40 trajectories of 10 steps of either sampler: too short for SGHMC to heat up as
in the paper. AMAGOLD rejects most of its trajectories at these step sizes (the shares are below), and so stays near
where SGD left it; that its error does not depend on b is partly that.
"""


def settings(table: pd.DataFrame):
    """(sampler, b, lr), and the mean error of single draws (of a run that kept none, that of its last finite row), its
    error over seeds or, of one, the spread of its draws, and the number of seeds, of each setting."""
    for key, part in table.groupby(["sampler", "b", "lr"], sort=False):
        seeds, single = len(part), part.get("single_error", part.error).fillna(part.error)
        spread = part.single_error_sd.iloc[0] if "single_error_sd" in part else np.nan
        yield key, part, single.mean(), single.std(ddof=1) / seeds**0.5 if seeds > 1 else spread, seeds


def draw(table: pd.DataFrame) -> Figure:
    """Measured errors as dots and squares, the paper's as crosses."""
    rows = list(settings(table))
    figure, panel = pyplot.subplots(figsize=(7, 3.4), layout="constrained")
    for place, ((sampler, _, _), part, single, spread, _) in enumerate(rows):
        face = COLOURS[sampler] if (part.status == "done").all() else "white"
        panel.plot(place - 0.2, part.error.mean(), "o", color=COLOURS[sampler], mfc=face)
        panel.errorbar(place, single, spread, fmt="s", ms=4, color=COLOURS[sampler], mfc=face)
        panel.errorbar(place + 0.2, part.quoted.iloc[0], part.quoted_error.iloc[0], fmt="x", color=GREY, ms=7)
    ticks = [f"{NAMES[sampler]}\nb={b:g}\nlr={lr:g}" for (sampler, b, lr), *_ in rows]
    panel.set_xticks(np.arange(len(rows)), ticks, fontsize=8)
    panel.set_yscale("log")
    panel.set_yticks([3, 5, 10, 30, 90], ["3", "5", "10", "30", "90"])
    panel.minorticks_off()
    panel.set_ylabel("test error, %")
    panel.plot([], [], "o", color="0.3", label="here, mean prediction")
    panel.plot([], [], "s", ms=4, color="0.3", label="here, single draws")
    panel.plot([], [], "x", color=GREY, ms=7, label="paper")
    panel.legend(frameon=False, fontsize=8)
    clean(panel)
    panel.set_title(title(table), fontsize=10)
    return figure


def title(table: pd.DataFrame) -> str:
    """What is seen of AMAGOLD: its test error within .3 % of where it starts, or not."""
    amagold = table[table.sampler == "amagold"]
    moved = (amagold.error - 100 * (1 - amagold.test_accuracy_at_start)).abs()
    if len(moved) and moved.max() < 0.3:
        return "AMAGOLD's test error stays near that of its start at every b and step size"
    return "Test error on MNIST over b and step size"


def compare(table: pd.DataFrame):
    """Each entry of the table."""
    quick = bool((table.train_size < 60000).any())
    for key, part, single, spread, seeds in settings(table):
        of = "one seed; ± is the SD of single draws" if seeds == 1 else f"{seeds} seeds"
        error = part.error.mean()
        measured = f"single draws {single:.2f} ± {spread:.2f} ({of}), mean prediction {error:.2f}"
        if key[0] == "amagold":
            measured += f", accepts {part.accept_prob.mean():.2f}"
        quoted, quoted_error = part.quoted.iloc[0], part.quoted_error.iloc[0]
        lost = part[part.status != "done"]
        both = (spread**2 + quoted_error**2) ** 0.5
        verdict = of_one_seed(single, quoted, both) if seeds == 1 else close(single, quoted, both)
        if len(lost):
            why = lost.why.iloc[0] + (f" ({len(lost)} of {seeds} seeds)" if seeds > 1 else "")
            measured = f"{why}; {measured if error > 0 else 'no error'}"
            verdict = f"not comparable: {why}"
            if (lost.status == "diverged").any():
                verdict = f"differs: {why}" if quoted < WRONG else "agrees: it diverges, as theirs does"
        if quick:
            verdict = "not comparable: a fifth of the data, a fraction of the steps"
        yield f"{NAMES[key[0]]}, b = {key[1]:g}, lr = {key[2]:g}", f"{quoted} ± {quoted_error}", measured, verdict


WRONG = 50  # test errors, in per cent, above which a run is taken to have diverged


def of_one_seed(error: float, quoted: float, both: float) -> str:
    """The verdict on a single run, whose spread over seeds is not known: near, or far, or neither. ``both`` is from the
    spread of its draws and the paper's error."""
    away = abs(error - quoted)
    if away <= 3 * both:
        return "agrees (one seed)"
    return f"differs by {error - quoted:+.2g} (one seed)" if away > 10 * both else "not decided: one seed"
