"""AMAGOLD, Table 2: test errors on MNIST of SGHMC and irreversible AMAGOLD over b and step size."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, GREY, NAMES, clean, handle
from verdicts import LIMIT, limit

SOURCE = "AMAGOLD, Table 2"
CAPTION = """
The paper finds AMAGOLD's test error the same at all settings, and SGHMC's at chance where b is small. So it is here;
but SGHMC's mean predictions at b = .01 are better than the paper's entries, with which its single draws agree. AMAGOLD
rejects most trajectories: its rows cannot tell it from a sampler that rejects all.

**What was run.** The perceptron 784-500-256-10 (523,326 weights) after three epochs of SGD, five seeds, of the authors'
lengths, 2,500 trajectories of 10 steps or 1,000 epochs of SGHMC. lr is the h of the paper's table, which the authors'
code divides by N: lr/N is Algorithm 3's h, ε² at σ = 1. b is AMAGOLD's friction, and SGHMC's α is 2b. Quick scale:
12,000 images, batches of 600, 15 epochs of SGD (as many steps), 10 draws of the second half of 20 trajectories of 10
steps: too short for SGHMC to heat up.

**Decided here.** The paper calls the SGD the burn-in, and does not give thinning, repeats, or what predicts. Here 20
draws are spread over the second half; ± is over seeds. Their mean prediction is the reading chosen beforehand; single
draws are what the authors' code scores. U contains the prior, which the authors' acceptance leaves out. Minibatches are
independent; theirs are of new permutations, and take nine gradients where T = 10.

**To know.** The authors' chains begin at one end of SGD, near which AMAGOLD stays: its numbers are compared with what
one more seed would give. They depend on the weights that SGD begins at ("its start", next); that they do not depend on
b is partly that few trajectories are accepted. SGD's own ends, about 3.87 in the mean ("its start"), would agree with
the paper's numbers, too. The first row of metrics is after at most 50 trajectories (quick: 5).
"""
WRONG = 50  # test errors, in per cent, above which a run is taken to have diverged
POINT = 1  # percentage point of test error: less hardly matters, more is much
MARKS = {
    "here, mean prediction": {"marker": "o", "ms": 6, "ls": "none"},
    "here, single draws": {"marker": "s", "ms": 4, "ls": "none"},
    "paper": {"marker": "x", "ms": 7, "ls": "none", "color": GREY},
}
READINGS = (("error", "mean prediction"), ("single_error", "single draws"))


def settings(table: pd.DataFrame):
    """(sampler, b, lr), and the mean error of single draws (of a run that kept none, that of its last finite row), its
    error over seeds or, of one, the spread of its draws, and the number of seeds, of each setting."""
    for key, part in table.groupby(["sampler", "b", "lr"], sort=False):
        seeds, single = len(part), part.get("single_error", part.error).fillna(part.error)
        spread = part.single_error_sd.iloc[0] if "single_error_sd" in part else np.nan
        yield key, part, single.mean(), single.std(ddof=1) / seeds**0.5 if seeds > 1 else spread, seeds


def draw(table: pd.DataFrame) -> Figure:
    """Measured errors as dots and squares, the paper's as crosses, on an axis without what is between the networks that
    learnt and those that diverged."""
    rows = list(settings(table))
    points = []  # (place, error, its bar, look)
    for place, ((sampler, _, _), part, single, spread, seeds) in enumerate(rows):
        look = {"color": COLOURS[sampler], "mfc": COLOURS[sampler] if (part.status == "done").all() else "white"}
        bar = of_ensembles(part, spread)[1] if seeds > 1 else None
        points.append((place - 0.2, part.error.mean(), bar, look | MARKS["here, mean prediction"]))
        points.append((place, single, spread, look | MARKS["here, single draws"]))
        points.append((place + 0.2, part.quoted.iloc[0], part.quoted_error.iloc[0], MARKS["paper"]))
    broken = any(error > WRONG for _, error, *_ in points)
    heights = (1, 2) if broken else (1,)
    figure, panels = pyplot.subplots(
        len(heights), 1, figsize=(7, 4), height_ratios=heights, sharex=True, squeeze=False, layout="constrained"
    )
    top, panel = panels[0, 0], panels[-1, 0]
    for one in (top, panel):
        one.margins(y=0.1)
    for place, error, bar, look in points:
        (top if error > WRONG else panel).errorbar(place, error, bar, **look)
    ticks = [f"{NAMES[sampler]}\nb={b:g}\nlr={lr:g}" for (sampler, b, lr), *_ in rows]
    panel.set_xticks(np.arange(len(rows)), ticks, fontsize=8)
    clean(top, panel)
    if broken:
        top.spines["bottom"].set_visible(False)
        top.tick_params(axis="x", length=0)
        slash = {"marker": [(-1, -0.6), (1, 0.6)], "ms": 9, "color": "black", "clip_on": False, "ls": "none"}
        top.plot(0, 0, transform=top.transAxes, **slash)
        panel.plot(0, 1, transform=panel.transAxes, **slash)
    figure.supylabel("test error, %", fontsize=10)
    handles = [handle(name, **({"color": "0.3"} | look)) for name, look in MARKS.items()]
    figure.legend(handles=handles, frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    top.set_title(title(table), fontsize=10)
    return figure


def title(table: pd.DataFrame) -> str:
    """The paper's claim, that AMAGOLD's error does not depend on the settings, where it is borne out."""
    found = steady(table)
    if found and found[-1] == "agrees" and (table.status == "done").all():
        return f"AMAGOLD's test error is the same at all settings to {POINT} point, SGHMC's is not"
    return "Test error on MNIST over b and step size"


def compare(table: pd.DataFrame):
    """Each entry of the table, by both readings, and what all of AMAGOLD's have in common."""
    quick = bool((table.train_size < 60000).any())
    few = "not comparable: a fifth of the data, a fraction of the steps"
    starts = sorted(set(table.start)) if "start" in table else ["he"]  # tables made before had no other
    here = " and ".join({"torch": "PyTorch's", "he": "He's"}[start] for start in starts)
    yield "weights that SGD begins at", "PyTorch's", here, "agrees" if starts == ["torch"] else "differs"
    for key, part, single, spread, seeds in settings(table):
        quoted, quoted_error = part.quoted.iloc[0], part.quoted_error.iloc[0]
        name, paper = f"{NAMES[key[0]]}, b = {key[1]:g}, lr = {key[2]:g}", f"{quoted} ± {quoted_error}"
        lost = part[part.status != "done"]
        if len(lost):
            why = lost.why.iloc[0] + (f" ({len(lost)} of {seeds} seeds)" if seeds > 1 else "")
            verdict = f"not comparable: {why}"
            if (lost.status == "diverged").any():
                verdict = f"differs: {why}" if quoted < WRONG else "agrees: it diverges, as theirs does"
            here = f"{why}; " + (f"single draws {single:.2f}" if single > 0 else "no error")
            yield name, paper, here, few if quick else verdict
            continue
        for column, reading in READINGS:
            error, own = (single, spread) if column == "single_error" else of_ensembles(part, spread)
            here = f"{error:.2f} ± {own:.2f} ({'one seed' if seeds == 1 else f'{seeds} seeds'})"
            if key[0] == "amagold":
                here += f", accepts {part.accept_prob.mean():.2f}"
                own = of_one_more(own, seeds)
            verdict = judged(error - quoted, np.hypot(own, quoted_error), seeds)
            yield f"{name}: {reading}", paper, here, few if quick else verdict
    for of_all in filter(None, (steady(table), common_offset(table))):
        yield *of_all[:-1], few if quick else of_all[-1]


def of_ensembles(part: pd.DataFrame, spread: float) -> tuple[float, float]:
    """The mean prediction's error over seeds, and its own error; of one seed the spread of single draws stands in."""
    return part.error.mean(), part.error.std(ddof=1) / len(part) ** 0.5 if len(part) > 1 else spread


def of_one_more(error: float, seeds: int) -> float:
    """The standard deviation of one more seed's number less the mean of ``seeds``, whose standard error is ``error``.

    sd √(1 + 1/seeds) = error √(seeds + 1); of one seed, which shows no spread over seeds, ``error`` itself.
    """
    return error * (seeds + 1) ** 0.5 if seeds > 1 else error


def judged(difference: float, error: float, seeds: int) -> str:
    """The verdict on an error less the paper's."""
    alone = seeds == 1
    least = limit(chains=seeds)
    if abs(difference) <= LIMIT * error:
        return "agrees (one seed)" if alone else f"agrees: beyond {least * error:.2g} a difference would be seen"
    by = f"differs by {difference:+.2g}, {abs(difference) / error:.1f} errors"
    if not alone and abs(difference) <= least * error:
        return f"not resolved: it {by}, and of so few seeds {least:.1f} would decide"
    return f"not decided (one seed): it {by} of single draws" if alone else by


def steady(table: pd.DataFrame) -> tuple | None:
    """The row of how much the error differs between settings, of each sampler."""
    spans = []
    for sampler in ("amagold", "sghmc"):
        rows = [(single, part.quoted.iloc[0]) for key, part, single, *_ in settings(table) if key[0] == sampler]
        if len(rows) < 2 or not np.isfinite(rows).all():
            return None
        spans.append(np.ptp(rows, axis=0))
    (ours, quoted), (others, others_quoted) = spans
    paper, here = (
        f"{one:.2f} points, SGHMC's by {other:.1f}" for one, other in ((quoted, others_quoted), (ours, others))
    )
    verdict = "agrees" if ours < POINT < others else "differs"
    return f"error of single draws between settings: AMAGOLD's within {POINT} point, SGHMC's not", paper, here, verdict


def of_all_settings(runs: pd.DataFrame) -> pd.DataFrame:
    """Of the runs ``[(b, lr, seed)]`` those of the seeds that all settings have; all, where there is no such seed."""
    has = [set(part.index.get_level_values("seed")) for _, part in runs.groupby(level=["b", "lr"])]
    common = set.intersection(*has)
    return runs[runs.index.get_level_values("seed").isin(common)] if common else runs


def common_offset(table: pd.DataFrame) -> tuple | None:
    """The row of what AMAGOLD's errors are above the paper's on average over its settings."""
    rows = [row for row in settings(table) if row[0][0] == "amagold" and (row[1].status == "done").all()]
    if len(rows) < 2:
        return None
    quoted = np.array([part.quoted.iloc[0] for _, part, *_ in rows])
    offsets = np.array([single for _, _, single, *_ in rows]) - quoted
    squares = [spread**2 + part.quoted_error.iloc[0] ** 2 for _, part, _, spread, _ in rows]
    error, seeds = sum(squares) ** 0.5 / len(rows), min(row[-1] for row in rows)
    if seeds > 1:  # the settings of a seed begin at one end of SGD: of their mean, over seeds
        runs = pd.concat([part for _, part, *_ in rows]).set_index(["b", "lr", "seed"])
        of_seeds = of_all_settings(runs).groupby("seed").single_error.mean()
        quoted_errors = [part.quoted_error.iloc[0] for _, part, *_ in rows]
        error = np.hypot(of_one_more(of_seeds.sem(), len(of_seeds)), np.hypot.reduce(quoted_errors) / len(rows))
    means = [part.error.mean() for _, part, *_ in rows] - quoted
    first = [100 * (1 - part.test_accuracy_at_start.mean()) for _, part, *_ in rows] - quoted
    here = f"{offsets.mean():+.2f} ± {error:.2f} by single draws ({', '.join(f'{one:+.2f}' for one in offsets)}), "
    here += f"{means.mean():+.2f} by mean predictions, {first.mean():+.2f} by the first row of metrics"
    verdict = judged(offsets.mean(), error, seeds)
    if seeds == 1 and not verdict.startswith("agrees"):
        verdict += ", and all have one end of SGD in common"
    return "AMAGOLD, mean over settings: error less the paper's", "0", here, verdict
