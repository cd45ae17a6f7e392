"""Which word, for a network? What a correction would accept of deferred trajectories of a ResNet."""

import numpy as np
import pandas as pd
from figures.finding_words import LOOK, of_word
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import clean, ticks
from verdicts import limit

SOURCE = "Which word, for a network?"
CAPTION = """
For a ResNet, does a correction accept one word as often as another? In four of six comparisons, yes, within .05. In the
two at the largest step they differ, by how much is open.

**What was run.** A ResNet-20 (quick: of width 4) on the handwritten digits, minibatches of 100 of the 1,500 images, 11
gradients a trajectory, from three epochs of SGD, uncorrected, 10 trajectories of 450 left out (quick 2 of 12). All
words see the same minibatches. Friction 700 makes the words differ: in a trajectory's time, Lh, the O's leave e^(−γLh)
of the momentum, .6 to .2. With little friction OBABO, BAOAB and BAB are one algorithm: where γLh is below .1 nothing is
judged.

**What is drawn.** Means over trajectories; points of one step size stand side by side, but ABOBA goes a tenth farther.
Left: what a correction would accept. Bars are of one word, not of a difference, and take trajectories as independent.

**To know.** Words that all keep their momentum, or all draw it afresh, are compared trajectory by trajectory, for the
noise that they share (BABOBAB's O's draw other numbers, as do OBABO's beside BAB at the largest step). They count as
the same where, by Student's t and Bonferroni at one in a hundred, each is within .05 of its kind's mean. From one start
they come to different places, a part of what is compared. The chains are far from equilibrium: shown is the price of
deferring a decision by 11 such gradients, not how fast a word samples.
"""


def draw(table: pd.DataFrame) -> Figure:
    """Acceptance and log MH over the step a gradient, a line a word."""
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    table = table[table.status == "done"]
    for number, (key, (colour, marker, line, name)) in enumerate(LOOK.items()):
        own = of_word(table, key)
        if own.empty:
            continue
        shift = 1.02 ** (number - 3)  # side by side
        options = {"color": colour, "marker": marker, "ms": 5, "lw": 1.2, "ls": line, "label": name}
        panels[0].errorbar(own.time * shift, own.accept_prob, own.accept_prob_error, **options)
        panels[1].errorbar(own.time * shift, own.log_accept, own.log_accept_error, **options)
    for panel, label in zip(panels, ("mean of min(1, MH)", "mean of log MH"), strict=True):
        panel.set(xscale="log", xlabel="mean step a gradient", ylabel=label)
        ticks(panel.xaxis)
    panels[0].set_ylim(0, 1)
    if len(table):
        panels[0].legend(frameon=False, fontsize=8)
    clean(*panels)
    figure.suptitle(title(table), fontsize=11)
    return figure


def compare(table: pd.DataFrame):
    """At each step a gradient: are the acceptance probabilities of the words the same, and with fresh momentum?"""
    yield from orders(table)
    pairs = list(zip(*(levels(table, refresh) for refresh in REFRESH), strict=False))
    for kept, fresh in pairs:
        one, other = (part[part.word == "OBABO"] for part in (kept, fresh))
        if kept.empty and fresh.empty:
            continue
        time = (fresh if kept.empty else kept).time.median()
        what = f"OBABO at about {time:.2g} a gradient: acceptance with fresh momentum less that with kept"
        if one.empty or other.empty:
            yield what, "not known", "", "not comparable: a run is missing"
            continue
        gap, error = away(other, one)
        # Trajectories that share no momentum: some hundred of them would be needed to find the two the same.
        found = abs(gap) > error * limit(len(pairs), min(one.trajectories.min(), other.trajectories.min()))
        verdict = "not claimed: no difference found"
        if found:  # as if a chain's trajectories were independent of each other
            verdict = f"not decided: {'more' if gap > 0 else 'less'} by these errors, of one chain each"
        yield what, "not known", f"{gap:+.3f} ± {error:.3f}", verdict


REFRESH = {"keep": "momentum kept", "full": "fresh momentum"}
WITHIN = 0.05  # of each other's mean, acceptance probabilities that count as the same


def levels(table: pd.DataFrame, refresh: str) -> list[pd.DataFrame]:
    """The finished rows of the words that keep, or draw afresh, their momentum, at each ``level`` of step sizes."""
    rows = table[(table.status == "done") & (table.refresh == refresh)]
    return [rows[rows.level == level] for level in sorted(table.level.unique())]


def forgotten(part: pd.DataFrame) -> float:
    """γLh of rows at one step a gradient: e to minus that is what the O's leave of the momentum in a trajectory."""
    return part.friction.max() * (part.time * part.gradients).median()


def orders(table: pd.DataFrame):
    """How far the words are from their mean, by the differences of trajectories on the same minibatches."""
    for refresh, name in REFRESH.items():
        for part in levels(table, refresh) if "apart" in table else ():
            part = part[part.apart.notna()]
            if len(part) < 2:
                continue
            here = ", ".join(
                f"{row.word} {row.accept_prob:.2f} ({row.apart:+.3f} ± {row.apart_error:.3f})"
                for row in part.itertuples()
            )
            what = f"acceptance at about {part.time.median():.2g} a gradient, γLh = {forgotten(part):.2g}, {name} "
            verdict = same(part.apart, part.apart_error, limit(len(part), part.trajectories.min()))
            if forgotten(part) < 0.1:
                verdict = "not comparable: the O's forget nothing, and the words are nearly one algorithm"
            claim = f"the same for all words, within {WITHIN:g} of their mean: noise dominates log MH"
            yield what + "(less the words' mean)", claim, here, verdict


def away(other: pd.DataFrame, one: pd.DataFrame) -> tuple[float, float]:
    """The difference of two acceptance probabilities, whose trajectories share nothing but minibatches."""
    (one,), (other,) = one.itertuples(), other.itertuples()
    return other.accept_prob - one.accept_prob, np.hypot(other.accept_prob_error, one.accept_prob_error)


def same(gaps, errors, most: float) -> str:
    """The verdict on differences that are to be within ``WITHIN`` of 0, ``most`` errors of them on either side."""
    gaps, errors = np.abs(np.atleast_1d(gaps)), np.atleast_1d(errors)
    if (gaps + most * errors < WITHIN).all():
        return f"agrees: within {gaps.max():.3f}"
    if (gaps - most * errors > WITHIN).any():
        return f"differs by {gaps.max():.2f}"
    apart = (gaps / errors).max()
    if apart > most:
        return f"not resolved: they differ, by {apart:.1f} errors; whether beyond {WITHIN:g} is open"
    return f"not resolved: errors up to {errors.max():.2f} do not tell {WITHIN:g}"


def title(table: pd.DataFrame) -> str:
    """That the words are the same, where that is what was seen, and nothing else was."""
    verdicts = [row[3].partition(":")[0] for row in orders(table)]
    agreed = verdicts.count("agrees")
    if agreed and {*verdicts} <= {"agrees", "not resolved"}:
        if agreed == len(verdicts):
            return "Of a ResNet, too, a correction accepts one word as often as another"
        which = f"{agreed} of {len(verdicts)} comparisons"
        some = sum("they differ" in row[3] for row in orders(table))
        rest = f"; in {some} they differ, by how much is open" if some else "; the rest are open"
        return f"Of a ResNet a correction accepts words equally often in {which}{rest}"
    return "What a correction would accept of a ResNet's deferred trajectories, word by word"
