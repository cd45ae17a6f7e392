"""AMAGOLD, Table 2: the test error that its chains begin with, over seeds of the SGD before them, from two starts."""

from pathlib import Path

import numpy as np
import pandas as pd
from figures.amagold_table2 import judged, of_one_more
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREY, ORANGE, clean, handle
from verdicts import LIMIT

SOURCE = "AMAGOLD, Table 2: its start"
CAPTION = """
AMAGOLD stays near where SGD ends, and that depends on the weights that SGD begins with. From PyTorch's, as in the
authors' code, its first error agrees with that of the start in the authors' repository; from He's it does not.

**What was run.** Table 2's perceptron where AMAGOLD begins (b = .01, lr = .0005), twenty seeds each, with networks,
SGD, minibatches and noise of their own: 50 of its 2,500 trajectories (quick: 10, of 12,000 images). He's weights (N(0,
2/fan in), a standard deviation √6 times larger) are those which networks of this program begin with where nothing is
said (`warm_start.init`).

**What is drawn.** Test error on MNIST, a line a seed. Left: after AMAGOLD's first trajectory, which is SGD's own error
where that was rejected. Right: after the last. Crosses: the start in the authors' repository
(bnn/checkpoints/sgd_init_epoch3.pt; how many test images it has wrong is in [amagold_start.csv](amagold_start.csv), by
`scripts/amagold_start.py`), and the paper's entry, of the whole chain. In the rows ± is the standard error of the mean
over seeds, sd their standard deviation.

**Decided here.** All chains of theirs begin at that one network; so each number of theirs is compared with what one
more seed would give here: the standard deviation over seeds times √(1 + 1/seeds), and the paper's error.
"""
PLACES = ("first_error", "error")
STARTS = {"torch": ("PyTorch's weights", BLUE), "he": ("He's weights", ORANGE)}
START = pd.read_csv(Path(__file__).parents[2] / "results" / "amagold_start.csv").iloc[0]
THEIRS = float(100 * START.wrong / START.images)  # per cent, of the authors' own start


def finished(table: pd.DataFrame, start: str) -> pd.DataFrame:
    """The seeds from this start whose run came to its end."""
    return table[(table.status == "done") & (table.start == start)].dropna(subset=list(PLACES))


def draw(table: pd.DataFrame) -> Figure:
    """A line a seed from its first trajectory to its last, their means, and the authors' numbers."""
    figure, panel = pyplot.subplots(figsize=(5, 3.4), layout="constrained")
    for start, (_, colour) in STARTS.items():
        rows = finished(table, start)
        for row in rows.itertuples():
            panel.plot([0, 1], [row.first_error, row.error], "-o", color=colour, lw=0.7, ms=3, alpha=0.5)
        panel.plot([0, 1], [rows[column].mean() for column in PLACES], "_", color=colour, ms=26, mew=2)
    ends = table.dropna(subset=list(PLACES))
    if len(ends):
        panel.plot(0.25, THEIRS, "x", color=GREY, ms=7)
        panel.errorbar(1.25, ends.quoted.iloc[0], ends.quoted_error.iloc[0], fmt="x", color=GREY, ms=7)
        panel.set_xticks([0, 1], ["after 1 trajectory", f"after {ends.cycles.max():g}"])
    panel.set(xlim=(-0.4, 1.6), ylabel="test error, %")
    handles = [handle(name, color=colour, lw=2) for name, colour in STARTS.values()]
    handles.append(handle("authors", color=GREY, marker="x", ms=7, ls="none"))
    figure.legend(handles=handles, frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    clean(panel)
    panel.set_title(title(table), fontsize=10)
    return figure


def title(table: pd.DataFrame) -> str:
    """Whether the authors' start is what PyTorch's weights give and He's do not, and these are apart, beyond errors,
    before AMAGOLD's trajectories and after them."""
    verdicts = [beside(table, start, "first_error")[3].split()[0].strip(":") for start in STARTS]
    both = [finished(table, start) for start in STARTS]
    gaps = [
        (one - other, np.hypot(*errors))
        for one, other, errors in (
            (*(rows[column].mean() for rows in both), [rows[column].sem() for rows in both]) for column in PLACES
        )
    ]
    if verdicts == ["agrees", "differs"] and all(gap > LIMIT * error for gap, error in gaps):
        first = f"first {table.cycles.max():g} trajectories"
        return f"The weights that SGD begins with decide AMAGOLD's\ntest error on MNIST in its {first}"
    return "Where AMAGOLD begins, over seeds"


def beside(table: pd.DataFrame, start: str, column: str) -> tuple:
    """The row of a number of the authors' beside what one more seed from this start would give."""
    rows = finished(table, start)
    what = f"{STARTS[start][0]}: error after the {'first' if column == 'first_error' else 'last'} trajectory"
    if len(rows) < 2:
        return what, "", "", "not comparable: fewer than two seeds"
    quoted, quoted_error = (THEIRS, 0.0) if column == "first_error" else rows[["quoted", "quoted_error"]].iloc[0]
    paper = f"{quoted} (their repository's start)"
    if column == "error":
        paper = f"{quoted} ± {quoted_error} (of all 2,500)"
    seeds, mean, error, errors = len(rows), rows[column].mean(), rows[column].sem(), rows[column]
    here = f"{mean:.2f} ± {error:.2f}, sd {errors.std():.2f}, {errors.min():.2f} to {errors.max():.2f}"
    here += f" ({seeds} seeds)"
    if column == "first_error":
        here += f", {int((rows.first_accepted == 0).sum())} of them rejected it"
    else:
        here += f", after {rows.cycles.max():g}, accepts {rows.accept_prob.mean():.2f}"
    verdict = judged(mean - quoted, np.hypot(of_one_more(error, seeds), quoted_error), seeds)
    if column == "error":
        verdict = f"not comparable: after {rows.cycles.max():g} of 2,500 trajectories"
    return what, paper, here, "not comparable: a fifth of the data" if (rows.train_size < 60000).any() else verdict


def compare(table: pd.DataFrame):
    """The authors' start and the paper's entry, beside seeds from either start; what the 50 trajectories change."""
    lost = table[table.status != "done"]
    if len(lost):
        yield f"{len(lost)} of {len(table)} seeds", "", "", f"not comparable: {lost.why.iloc[0]}"
    for start, (name, _) in STARTS.items():
        for column in PLACES:
            yield beside(table, start, column)
        rows = finished(table, start)
        if len(rows) > 1:
            change = rows.error - rows.first_error
            here = f"{change.mean():+.3f} ± {change.std(ddof=1) / len(rows) ** 0.5:.3f}, sd {change.std(ddof=1):.3f}"
            yield f"{name}: its change from the first to the last", "not given", here, "not claimed"
