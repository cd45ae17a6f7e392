"""Independent minibatches or whole shuffled epochs: what the order of the data does to acceptance, mixing and bias."""

import numpy as np
import pandas as pd
from figures.finding_words import best, diverged, factor, groups_of, known, no_bias, of_acceptance
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, clean, handle, of_known_tau, ticks
from verdicts import LIMIT, by_itself, decided, limit, long_enough, with_errors

SOURCE = "Independent minibatches, or whole shuffled epochs?"
CAPTION = """
Shuffled epochs or independent minibatches? At one step size shuffled epochs are accepted oftener, and uncorrected they
are biased less; their best ESS a pass is 9 (Heart) and 14 times (Australian) as large. HMC with full gradients has more
ESS than both.

**What was run.** GGMC, friction 1, kept momentum, on logistic regressions, Heart (27 minibatches of 10 an epoch) and
Australian (46 of 15); standardised columns and an intercept, prior N(0, 100 I). Trajectories of one epoch or four, and
a gradient more, as L steps of OBABO take L + 1. On four shuffled epochs also BAOAB, ABOBA (no gradient more) and BAB
(fresh momentum, no friction). 20 chains a step size from standard normals: 1,000 trajectories of four epochs after 300,
2,000 of one after 600, of Australian's independent minibatches 8,000 and 16,000; HMC 60 of 3,200 (quick 6 of 200 after
100, HMC 42 of 200).

**What is drawn.** ESS of the slowest coordinate a pass over the data, in which the decision's U is counted. Dotted: HMC
tuned to an acceptance of .8. Excess, uncorrected, of four epochs: 2(E U − its mean by HMC)/dim, in units of T. Bars:
over chains, of ESS the jackknife's.

**Why.** Both laws read the same backwards, so both are corrected exactly (certificate: ggmc with independent
minibatches, with an epoch and a batch at either end). −log MH is the minibatches' error of the gradient, summed along
the way: over an epoch it cancels, but for what friction, curvature and the one gradient more leave.

**To know.** Chains shorter than 20 τ have no ESS, and no bias is judged of them. All words share random numbers.
Batches forth and, in a second epoch, back (Paulin and others 2025) read the same backwards, too, but are no setting
here.
"""
TARGETS = (("heart", "Heart"), ("australian", "Australian"))
COLOUR = {"independent": BLUE, "shuffled": ORANGE}
LENGTHS = {1: ("s", "--", "1 epoch"), 4: ("o", "-", "4 epochs")}
KEPT = {"OBABO": None, "BAOAB": (GREEN, "d", ""), "ABOBA": (PURPLE, "+", "")}  # words that keep their momentum, and
OTHERS = {**KEPT, "BAB": (RED, "^", ":")}  # one that does not: on four shuffled epochs
LINES = {  # by law, length and word
    (law, epochs, "OBABO"): {"color": colour, "marker": marker, "ls": style, "label": f"{law}, {text}"}
    for law, colour in COLOUR.items()
    for epochs, (marker, style, text) in LENGTHS.items()
} | {
    ("shuffled", 4, word): {
        **dict(zip(("color", "marker", "ls"), look, strict=True)),
        "zorder": 3,
        "label": f"shuffled, 4 epochs, {word}",
    }
    for word, look in OTHERS.items()
    if look
}
HMC = {"color": GREY, "ls": ":", "lw": 1.2, "label": "HMC, full gradients"}
NEAR = 0.3  # of a power of h
ALIKE = 0.1  # of an excess
ROWS = (("accepted", "acceptance"), ("ess", "ESS a pass over the data"), ("excess", "excess of U, uncorrected"))


def of(
    table: pd.DataFrame, target: str, law: str, epochs: int, acceptance: str = "metropolis", word: str = "OBABO"
) -> pd.DataFrame:
    """The finished rows of a law, a length and a word, in the order of their step sizes, ESS a pass over the data."""
    part = table[(table.target == target) & (table.status == "done") & (table.word == word)]
    part = a_pass(part[part.minibatches == law])
    part = part[(part.epochs.round() == epochs) & (part.acceptance == acceptance)]
    return part.sort_values("step_size")


def a_pass(rows: pd.DataFrame) -> pd.DataFrame:
    """With ESS of a pass over the data for that of 1,000 gradients."""
    share = rows.gradients / rows.passes / 1000
    return rows.assign(ess=rows.ess * share, ess_error=rows.ess_error * share)


def reference(table: pd.DataFrame, target: str):
    """The row of HMC, where it is there."""
    rows = a_pass(table[(table.target == target) & (table.word == "reference") & (table.status == "done")])
    return rows.iloc[0] if len(rows) else None


def draw(table: pd.DataFrame) -> Figure:
    """A column a target: acceptance, efficiency, and the bias without correction, over the step size."""
    table = long_enough(table)
    figure, panels = pyplot.subplots(3, 2, figsize=(8.4, 8), layout="constrained", sharex="col")
    shown = {}
    for (target, over), column in zip(TARGETS, panels.T, strict=True):
        for (law, epochs, word), look in LINES.items():
            corrected, bare = (of(table, target, law, epochs, how, word) for how in ("metropolis", "monitor"))
            if len(corrected) or len(bare):
                shown[look["label"]] = look
            lines(column, corrected, bare, **look)
        hmc = reference(table, target)
        if hmc is not None and np.isfinite(hmc.ess):
            column[1].axhline(hmc.ess, **HMC)
            shown[HMC["label"]] = HMC
        column[0].set_title(over, fontsize=10)
        column[0].set_xscale("log")
        column[0].set_ylim(0, 1)
        ticks(column[0].xaxis)
        of_known_tau(column[1])
        low, high = column[2].dataLim.intervaly
        column[2].set_yscale("symlog", linthresh=0.01)
        if high > 0:
            column[2].set_ylim(min(-0.03, 1.5 * low), 2 * high)
        column[2].axhline(0, color=GREY, lw=0.6, zorder=0)
        column[2].set_xlabel("step size h")
        clean(*column)
    for (_, name), panel in zip(ROWS, panels[:, 0], strict=True):
        panel.set_ylabel(name)
    handles = [handle(**look) for look in shown.values()]
    if handles:
        figure.legend(handles=handles, frameon=False, fontsize=8, loc="outside lower center", ncols=4)
    figure.suptitle(title(table), fontsize=11)
    return figure


def lines(column, corrected: pd.DataFrame, bare: pd.DataFrame, **look) -> None:
    """The line of one law, length and word in each panel of a target."""
    for (quantity, _), panel in zip(ROWS, column, strict=True):
        with_errors(panel, bare if quantity == "excess" else corrected, "step_size", quantity, **look)


def compare(table: pd.DataFrame):
    """No bias where it is corrected; acceptance and ESS at equal gradients; bias where it is not; what words change."""
    table = long_enough(table)
    yield no_bias(table, "no bias, by either law")
    yield diverged(table[table.minibatches.notna()], lambda row: f"{row.minibatches}, {row.word}")
    for target, name in TARGETS:
        for epochs in LENGTHS:
            yield acceptance(table, target, f"{name}, trajectories of {LENGTHS[epochs][2]}", epochs)
        yield bests(table, target, name)
        yield bias(table, target, name)
        yield growth(table, target, name)
        yield from words(table, target, f"{name}, four shuffled epochs")


def words(table: pd.DataFrame, target: str, name: str):
    """Whether words that keep their momentum differ, and BAB, which draws it afresh, from them."""
    corrected, bare = (
        {word: of(table, target, "shuffled", 4, how, word) for word in OTHERS} for how in ("metropolis", "monitor")
    )
    if any(rows.empty for found in (corrected, bare) for rows in found.values()):
        yield f"{name}: words", "", "", "not comparable: a run is missing"
        return
    kept = pd.concat([corrected[word] for word in KEPT])
    yield of_acceptance(f"{name}, momentum kept", kept.assign(refresh="keep"))
    yield same_excess(f"{name}, momentum kept: uncorrected excess of U", [bare[word] for word in KEPT])
    for what, column, rows in (("acceptance", "accepted", corrected), ("uncorrected excess of U", "excess", bare)):
        yield fresh(f"{name}: {what} of OBABO and of BAB", column, rows["OBABO"], rows["BAB"])
    what = f"{name}: best ESS a pass by word"
    found = sorted((best(rows) for rows in corrected.values() if len(known(rows))), key=ess)
    if len(found) < 2:
        yield what, "not known", "τ not known", "not comparable: too few draws"
        return
    here = ", ".join(f"{row.word} {said}" for row, said in found)
    yield what, "not known", here, f"not claimed: {factor([row for row, _ in found])}"


def same_excess(what: str, found: list[pd.DataFrame]) -> tuple:
    """Whether the words' uncorrected excess is much the same at each step size at which it is known: the largest share
    of their mean by which one of them differs from it. They have their random numbers in common, so that they differ
    by less than their errors say."""
    claim = f"the same for all words, within {ALIKE:.0%}"
    rows = pd.concat(found)
    if "excess" in rows:
        rows = seen(rows)
        rows = rows[rows.groupby("step_size").step_size.transform("size") == len(found)]
    if rows.empty or "excess" not in rows:
        return what, claim, "", f"not comparable: none above {LIMIT:g} errors"
    mean = rows.groupby("step_size").excess.transform("mean")
    share = rows.excess / mean - 1
    at = share.abs().argmax()
    row = rows.iloc[at]
    here = f"{rows.excess.min():.2g} to {rows.excess.max():.2g}; farthest {row.word} at h = {row.step_size:g}, "
    here += (
        f"{row.excess:.3g}, {share.iloc[at]:+.0%} of the mean (above {LIMIT:g} errors, {len(mean.unique())} step sizes)"
    )
    return what, claim, here, "agrees" if share.abs().max() < ALIKE else "differs"


def seen(rows: pd.DataFrame) -> pd.DataFrame:
    """Those whose excess is beyond its errors, and of which no chain diverged."""
    return rows[(rows.excess > LIMIT * by_itself(rows, "excess")) & ~(rows.frozen > 0)]


def fresh(what: str, column: str, obabo: pd.DataFrame, bab: pd.DataFrame) -> tuple:
    """BAB, without friction and with fresh momentum, beside OBABO at the same step sizes."""
    both = obabo.merge(bab, on="step_size", suffixes=("", "_bab"))
    if f"{column}_bab" not in both:
        return what, "not known", "", "not comparable: no run with a reference"
    one, other = both[column], both[f"{column}_bab"]
    away = (other - one) / np.hypot(both[f"{column}_error"], both[f"{column}_error_bab"])
    most = limit(len(both), both.chains.min())
    more, less = (both.step_size[sure] for sure in (away > most, away < -most))
    at = (other - one).abs().idxmax()
    here = f"{one[at]:.2f} and {other[at]:.2f} at h = {both.step_size[at]:g}, where they differ most"
    verdict = f"BAB's is larger at {len(more)} of {len(both)} step sizes"
    verdict += f", from {more.min():g} to {more.max():g}" if len(more) else ""
    return what, "not known", here, f"not claimed: {verdict}, smaller at {len(less)}"


def side_by_side(table: pd.DataFrame, target: str, epochs: int, acceptance: str, column: str) -> pd.DataFrame:
    """Rows of the step sizes that both laws have, where no chain diverged and ``column`` is known."""
    laws = [of(table, target, law, epochs, acceptance) for law in COLOUR]
    laws = [rows[rows[column].notna() & ~(rows.frozen > 0)] if column in rows else rows[:0] for rows in laws]
    return laws[0].merge(laws[1], on="step_size", suffixes=("", "_shuffled"))


def acceptance(table: pd.DataFrame, target: str, name: str, epochs: int) -> tuple:
    """How much oftener shuffled epochs are accepted at the same step size."""
    what, claim = f"{name}: acceptance at one step size", "shuffled more: an epoch's errors cancel"
    both = side_by_side(table, target, epochs, "metropolis", "accepted")
    if both.empty:
        return what, claim, "", "not comparable: a run is missing"
    gap = both.accepted_shuffled - both.accepted
    away = gap / np.hypot(both.accepted_error, both.accepted_error_shuffled)
    at = gap.idxmax()
    here = f"{both.accepted[at]:.2f} and {both.accepted_shuffled[at]:.2f} at h = {both.step_size[at]:g}, where the gap"
    here += f" is largest; least {gap.min():+.2f} of {len(gap)}"
    return what, claim, here, surest(away, both.chains.min())


def surest(away: pd.Series, chains: float) -> str:
    """The verdict on several differences in standard errors, the claim being that they are above 0."""
    most = limit(len(away), chains)
    return decided(away.min() if away.min() < -most else away.max(), most)


def bests(table: pd.DataFrame, target: str, name: str) -> tuple:
    """The best ESS a pass of each law and length, beside HMC's with full gradients."""
    what = f"{name}: best ESS a pass over the data"
    found = {
        (law, epochs): best(rows)
        for law in COLOUR
        for epochs in LENGTHS
        if len(known(rows := of(table, target, law, epochs)))
    }
    one, other = (
        max((row for (law, _), row in found.items() if law == mine), key=ess, default=None) for mine in COLOUR
    )
    if not one or not other:
        return what, "not known", "τ not known", "not comparable: too few draws"
    here = "; ".join(f"{law}, {LENGTHS[epochs][2]}: {said}" for (law, epochs), (_, said) in found.items())
    hmc = reference(table, target)
    here += "" if hmc is None else f"; HMC {hmc.ess:.3g} ± {hmc.ess_error:.1g}"
    rows = [row for row, _ in (one, other)]
    away = (ess(other) - ess(one)) / np.hypot(*(row.ess_error for row in rows))
    sure = abs(away) > limit(len(found), groups_of(*rows))
    verdict = f"shuffled {ess(other) / ess(one):.2g} times" if sure else "no difference decided"
    return what, "not known", here, f"not claimed: {verdict}"


def ess(found: tuple) -> float:
    """The ESS of what ``best`` returned."""
    return found[0].ess


def bias(table: pd.DataFrame, target: str, name: str) -> tuple:
    """The uncorrected excess by both laws, at the smallest step size."""
    what = f"{name}: uncorrected excess of U at one step size"
    claim = "shuffled less: less heat from minibatches"
    both = side_by_side(table, target, 4, "monitor", "excess")
    if both.empty:
        return what, claim, "", "not comparable: a run is missing"
    gap = both.excess - both.excess_shuffled
    away = gap / np.hypot(both.excess_error, both.excess_error_shuffled)
    at = both.step_size.idxmin()
    error = np.hypot(both.excess_error_shuffled[at], both.reference_error[at])
    here = f"{both.excess[at]:.3g} and {both.excess_shuffled[at]:.2g} ± {error:.1g} at h = "
    here += f"{both.step_size[at]:g}, the smallest of {len(gap)}; less by {away.min():.0f} errors or more at each"
    return what, claim, here, surest(away, both.chains.min())


def growth(table: pd.DataFrame, target: str, name: str) -> tuple:
    """With which power of h the uncorrected excess grows, a straight line through its logarithms."""
    what = f"{name}: uncorrected excess of U, power of h"
    claim = "independent 1 (heat h tr Σ/(2γ dim)), shuffled more"
    powers = {}
    for law in COLOUR:
        rows = of(table, target, law, 4, "monitor")
        rows = seen(rows) if "excess" in rows else rows[:0]
        if len(rows) > 2:
            powers[law] = np.polyfit(np.log(rows.step_size), np.log(rows.excess), 1)[0]
    if len(powers) < 2:
        return what, claim, "", f"not comparable: fewer than three points above {LIMIT:g} errors"
    one, other = (powers[law] for law in COLOUR)
    here = f"{one:.2f} and {other:.2f} of points above {LIMIT:g} errors (agrees: within {NEAR} of 1, and that above it)"
    return what, claim, here, "agrees" if abs(one - 1) < NEAR and other > 1 + NEAR else "differs"


def title(table: pd.DataFrame) -> str:
    """What the order is worth, where it was decided on every target."""
    pairs = []
    for target, name in TARGETS:
        both = side_by_side(table, target, 4, "metropolis", "accepted")
        if acceptance(table, target, name, 4)[3] != "agrees":
            return "Independent minibatches and shuffled epochs, corrected exactly"
        row = both.loc[(both.accepted_shuffled - both.accepted).idxmax()]
        pairs.append(f"{row.accepted_shuffled:.2f} instead of {row.accepted:.2f} ({name})".replace("0.", "."))
    return f"Shuffled epochs are accepted oftener: {', '.join(pairs)}"
