"""AMAGOLD, Table 2: the test error that its chains begin with, over seeds of the SGD before them."""

import numpy as np
import pandas as pd
from figures.amagold_table2 import judged
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, GREY, clean

SOURCE = "AMAGOLD, Table 2: the seed's part"
CAPTION = """
Test error on MNIST of Table 2's perceptron where AMAGOLD begins, of twenty seeds: networks, SGD, minibatches and noise
are all a seed's own. AMAGOLD at its first setting (b = .01, lr = .0005); left after its first trajectory, which is
SGD's own error where that was rejected, right after 50 of its 2,500 (quick: 10, of 12,000 images), a line a seed; ± is
the standard error of the mean over the seeds, sd their standard deviation. The cross is the paper's entry for the whole
chain, whose error moves little after these (above). The authors' code trains one network, of one seed, which all its
chains begin with; so their entry is compared with what one more seed would give here, within the standard deviation
over seeds times √(1 + 1/20) and the paper's error together.
"""
PLACES = ("first_error", "error")


def finished(table: pd.DataFrame) -> pd.DataFrame:
    """The seeds whose run came to its end."""
    return table[table.status == "done"].dropna(subset=list(PLACES))


def draw(table: pd.DataFrame) -> Figure:
    """A line a seed from its first trajectory to its last, their means, and the paper's entry."""
    rows = finished(table)
    figure, panel = pyplot.subplots(figsize=(4.6, 3.4), layout="constrained")
    for row in rows.itertuples():
        panel.plot([0, 1], [row.first_error, row.error], "-o", color=COLOURS["amagold"], lw=0.7, ms=3, alpha=0.5)
    for place, column in enumerate(PLACES):
        panel.plot(place, rows[column].mean(), "_", color="black", ms=24, mew=1.5)
    if len(rows):
        panel.errorbar(2, rows.quoted.iloc[0], rows.quoted_error.iloc[0], fmt="x", color=GREY, ms=7)
        last = f"after\n{rows.cycles.max():g}"
        panel.set_xticks([0, 1, 2], ["after 1\ntrajectory", last, "paper,\nwhole chain"])
    panel.set(xlim=(-0.4, 2.4), ylabel="test error, %")
    clean(panel)
    panel.set_title(title(table), fontsize=10)
    return figure


def title(table: pd.DataFrame) -> str:
    """Whether the paper's entry is such a one as another seed would give."""
    verdict = against_paper(table)[3]
    if verdict.startswith("differs"):
        return "That the paper's AMAGOLD errs otherwise\nis not the seed's doing"
    return "Where AMAGOLD begins, over seeds"


def against_paper(table: pd.DataFrame) -> tuple:
    """The row of the paper's entry beside one more seed."""
    rows = finished(table)
    what, seeds = "AMAGOLD, b = 0.01, lr = 0.0005: one seed's error", len(rows)
    if seeds < 2:
        return what, "", "", "not comparable: fewer than two seeds"
    quoted, quoted_error = rows.quoted.iloc[0], rows.quoted_error.iloc[0]
    mean, sd = rows.error.mean(), rows.error.std(ddof=1)
    here = f"{mean:.2f} ± {sd / seeds**0.5:.2f}, sd {sd:.2f}, {rows.error.min():.2f} to {rows.error.max():.2f}"
    here += f" ({seeds} seeds), accepts {rows.accept_prob.mean():.2f}"
    verdict = judged(mean - quoted, np.hypot(sd * (1 + 1 / seeds) ** 0.5, quoted_error), seeds)
    if (rows.train_size < 60000).any():
        verdict = "not comparable: a fifth of the data"
    return what, f"{quoted} ± {quoted_error}", here, verdict


def compare(table: pd.DataFrame):
    """The paper's entry, and what it begins with here."""
    lost = table[table.status != "done"]
    if len(lost):
        yield f"{len(lost)} of {len(table)} seeds", "", "", f"not comparable: {lost.why.iloc[0]}"
    yield against_paper(table)
    rows = finished(table)
    if len(rows) < 2:
        return
    rejected, error = int((rows.first_accepted == 0).sum()), rows.first_error
    mean, sd = error.mean(), error.std(ddof=1)
    here = f"{mean:.2f} ± {sd / len(rows) ** 0.5:.2f}, sd {sd:.2f} ({rejected} of {len(rows)} rejected it)"
    yield "error after the first trajectory", "not given", here, "not claimed"
    change = rows.error - error
    here = f"{change.mean():+.3f} ± {change.std(ddof=1) / len(rows) ** 0.5:.3f}, sd {change.std(ddof=1):.3f}"
    yield f"its change until after {rows.cycles.max():g}", "not given", here, "not claimed"
