"""Schedules of the step size inside a trajectory, made exact: palindromic, or a cosine in a random direction."""

import numpy as np
import pandas as pd
from figures.finding_words import EDGE, best, diverged, no_bias
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from style import BLUE, GREEN, ORANGE, RED, SKY, clean, handle, of_known_tau
from verdicts import GROUPS, decided, limit, long_enough, with_errors

SOURCE = "Schedules made exact by a random direction"
CAPTION = """
Does a schedule of the step size inside a trajectory pay, once it is exact? No gain over a constant step was found. At
one mean step both corrected cosines are accepted less often.

**What was run.** GGMC, 20 steps, 21 gradients, friction 1, kept momentum: on the double well and the mixture (Dist2),
gradient noise N(0, 1), from exact draws; on the logistic regression of Heart (standardised columns and an intercept,
prior N(0, 100 I)), minibatches of a fifth of the data, from standard normals. The cosine is that of Zhang et al.
(2019), from large to small steps, of ℓ: h goes with its root. To be corrected it reads the same backwards, or has a
random direction in each trajectory (certificate: ggmc metropolis, palindromic cosine, two-way cosine). 1,000
trajectories after 300, 20 to 200 chains a step size (in the table); the reference on Heart is HMC, 60 chains of 3,200.
Quick 20 of 180 after 150, HMC 120 of 180.

**What is drawn.** Mean step a gradient: Σ h/21. ESS: of the slowest coordinate, in chains of at least 20 τ. Excess: 2(E
U − its exact or reference value)/dim, in units of T. Crosses: some chains diverged; the point is of the others.

**Why.** On Heart the cosine as it is heats 1.2 times as much as a constant step, at every step size. A trajectory lasts
an eighth of 1/γ or less, so the small last steps do not cool what the large ones have heated: noise heats as Σ h²/Σ h,
which is 1.20 times a constant step's for the cosine of 20 steps.

**To know.** A gain is excluded by Student's t of ten groups, Bonferroni at one in a hundred. "Edge": best at an end of
its grid. One friction, one length; not shown are schedules of many cycles of a network, where they are used.
"""
LOOK = {
    ("constant", "forward", "metropolis"): (BLUE, "o", "-", "constant"),
    ("palindromic_cosine", "forward", "metropolis"): (GREEN, "s", "-", "palindromic cosine"),
    ("cosine", "random", "metropolis"): (ORANGE, "^", "-", "cosine, random direction"),
    ("constant", "forward", "monitor"): (SKY, "o", "--", "constant, uncorrected"),
    ("cosine", "forward", "monitor"): (RED, "D", "--", "cosine, uncorrected"),
}
PANELS = (("double_well", "double well"), ("mixture", "mixture"), ("heart", "Heart"))
ROWS = (
    ("accepted", "acceptance"),
    ("ess", "ESS / 1,000 gradients"),
    ("excess", "excess of U"),
)


def of_schedule(table: pd.DataFrame, target: str, key: tuple[str, str, str]) -> pd.DataFrame:
    """The finished rows of a target's schedule, in the order of their step sizes."""
    part = table[(table.target == target) & (table.status == "done") & table.time.notna()]
    part = part[(part.schedule == key[0]) & (part.direction == key[1]) & (part.acceptance == key[2])]
    return part.sort_values("step_size")


def draw(table: pd.DataFrame) -> Figure:
    """A column a target: acceptance, efficiency, bias over the mean step a gradient."""
    table = long_enough(table)
    figure, panels = pyplot.subplots(3, 3, figsize=(9.6, 7.4), layout="constrained", sharex="col")
    for (target, over), column in zip(PANELS, panels.T, strict=True):
        for key, (colour, marker, line, name) in LOOK.items():
            rows = of_schedule(table, target, key)
            for (quantity, _), panel in zip(ROWS, column, strict=True):
                with_errors(panel, rows, "time", quantity, color=colour, marker=marker, ls=line, label=name)
        column[0].set_title(over, fontsize=10)
        of_known_tau(column[1])
        column[2].set_xlabel("mean step a gradient")
        column[2].xaxis.set_major_locator(MaxNLocator(4))
        clean(*column)
    for (_, name), panel in zip(ROWS, panels[:, 0], strict=True):
        panel.set_ylabel(name)
    handles = [
        handle(name, color=colour, marker=marker, ls=line)
        for key, (colour, marker, line, name) in LOOK.items()
        if any(len(of_schedule(table, target, key)) for target, _ in PANELS)
    ]
    panels[0, 0].legend(handles=handles, frameon=False, fontsize=7, loc="lower left")
    figure.suptitle(title(table), fontsize=11)
    return figure


EXACT = [key for key in LOOK if key[2] == "metropolis"]
BARE = [key for key in LOOK if key[2] == "monitor"]


def compare(table: pd.DataFrame):
    """No bias where it is corrected; acceptance, jumps and ESS at equal gradients; bias where it is not."""
    table = long_enough(table)
    yield no_bias(table, "no bias, under any schedule")
    yield diverged(table[table.schedule.notna()], name_of)
    for target, name in PANELS:
        parts = {key: of_schedule(table, target, key) for key in LOOK}
        if any(part.empty for part in parts.values()):
            yield f"{name}: all", "", "", "not comparable: a run is missing or diverged"
            continue
        yield acceptance(name, parts)
        for column, of in (("jump", "best squared jump"), ("ess", "best ESS")):
            yield bests(f"{name}: {of}", parts, column)
        yield bias(name, parts)


def name_of(row) -> str:
    """A run's schedule."""
    return LOOK[row.schedule, row.direction, row.acceptance][3].partition(",")[0]


def acceptance(name: str, parts: dict) -> tuple:
    """How far the schedules' acceptance is from the constant's at the same mean step, where that is in its range."""
    constant, away, here = parts[EXACT[0]], [], []
    for key in EXACT[1:]:
        part = parts[key][parts[key].time.between(constant.time.min(), constant.time.max())]
        usual, error = (np.interp(part.time, constant.time, constant[of]) for of in ("accepted", "accepted_error"))
        gap, error = part.accepted - usual, np.hypot(part.accepted_error, error)
        away.append(gap.mean() / ((error**2).sum() ** 0.5 / len(error)))
        here.append(f"{LOOK[key][3]} {gap.min():+.3f} to {gap.max():+.3f}, their mean {away[-1]:+.0f} errors")
    verdict = decided(-max(away, default=np.nan), limit(len(away), constant.chains.min()))
    what = f"{name}: acceptance less the constant's at one mean step a gradient"
    return what, "lower: noise goes with Σ h², which is least where h is constant", "; ".join(here), verdict


def ratios(parts: dict, column: str) -> dict:
    """The best of each corrected schedule over its step sizes, in words, over the constant's, and the error of that;
    nothing where one of them is not known."""
    known = {key: parts[key].assign(ess=parts[key][column], ess_error=parts[key][f"{column}_error"]) for key in EXACT}
    if any(part.ess_error.isna().all() for part in known.values()):
        return {}
    found = {key: best(part, both=True) for key, part in known.items()}
    constant = found[EXACT[0]][0]
    small = constant.ess_error / constant.ess
    return {
        key: (said, row.ess / constant.ess, row.ess / constant.ess * np.hypot(row.ess_error / row.ess, small))
        for key, (row, said) in found.items()
    }


MOST = limit(len(EXACT) - 1, GROUPS)  # errors, beyond which one of the two other schedules is better or worse


def bests(what: str, parts: dict, column: str) -> tuple:
    """The best of each corrected schedule over its step sizes, and which gains over the constant are excluded."""
    found = ratios(parts, column)
    if not found:
        return what, "not known", "τ not known", "not comparable: too few draws"
    here, verdicts = [found[EXACT[0]][0]], []
    for key, short in zip(EXACT[1:], ("palindromic", "random"), strict=True):
        said, ratio, error = found[key]
        here.append(f"{said}: {ratio:.2f} ± {error:.2f} times")
        gain, low = 100 * (ratio + MOST * error - 1), ratio - MOST * error
        # Rounded outwards: a gain to the next larger per cent, a loss to the next smaller.
        excluded = (
            f"a gain above {np.ceil(gain):.0f} % excluded" if gain > 0 else f"a loss of {-np.ceil(gain):.0f} % or more"
        )
        verdict = "gains" if low > 1 else "best at the edge" if EDGE in said else excluded
        if low > 1 and EDGE in here[0]:
            verdict = "gains, but the constant's best is at the edge"
        verdicts.append(f"{short} {verdict}")
    here = ", ".join(f"{LOOK[key][3]} {text}" for key, text in zip(EXACT, here, strict=True))
    return what, "not known", here, "not claimed: " + ", ".join(verdicts)


def bias(name: str, parts: dict) -> tuple:
    """The uncorrected excess of the cosine against the constant's at the same mean step, at the largest in the range
    of both of which no chain diverged."""
    constant, cosine = (parts[key][parts[key].excess_error.notna() & ~(parts[key].frozen > 0)] for key in BARE)
    what = f"{name}: uncorrected excess, cosine and constant at one mean step a gradient"
    claim = "less: the last steps are small"
    inside = cosine[cosine.time.between(constant.time.min(), constant.time.max())]
    if inside.empty:
        return what, claim, "", "not comparable: a run is missing"
    row = inside.iloc[-1]
    other = np.interp(row.time, constant.time, constant.excess)
    error = np.hypot(row.excess_error, np.interp(row.time, constant.time, constant.excess_error))
    here = (
        f"{row.excess:.3f} and {other:.3f} ± {error:.3f} at {row.time:.3g}, the largest of {len(inside)} that both have"
    )
    return what, claim, here, decided((other - row.excess) / error)


def title(table: pd.DataFrame) -> str:
    """That no schedule was seen to be better than the constant, where none was."""
    parts = [{key: of_schedule(table, target, key) for key in EXACT} for target, _ in PANELS]
    found = [ratios(part, "ess") for part in parts if not any(each.empty for each in part.values())]
    better = [ratio - MOST * error > 1 for each in found for _, ratio, error in each.values()]
    if better and not any(better):
        return "A cosine in a random direction is exact; no gain over a constant step was found"
    return "Schedules of the step size, made exact, against a constant one"
