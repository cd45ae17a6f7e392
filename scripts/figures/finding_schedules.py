"""Schedules of the step size inside a trajectory, made exact: palindromic, or a cosine in a random direction."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, ORANGE, RED, SKY, clean
from verdicts import chance

SOURCE = "Schedules made exact by a random direction"
CAPTION = """
GGMC trajectories of 20 steps, 21 gradients whatever the schedule, friction 1, kept momentum, with gradient noise N(0,
1) on the double well and the mixture and minibatches of a fifth of the data on the logistic regression of Heart, over
the mean step a gradient, Σ h/21. Corrected: a constant step size, the cosine that reads the same backwards, and the
cosine of Zhang et al. (2019), from large to small steps, in a direction that is drawn at random for each trajectory.
Uncorrected (dashed): constant, and the cosine as it is. Bottom: by how much the mean U of the draws is too large, 2(E U
− its exact value)/dim, in units of T. ESS is of the slowest coordinate. All six step sizes are one tensor: at paper
scale 100 chains of each on the toys, from exact draws, 1,000 trajectories after 300 left out, and 20 on Heart, from
standard normals, as long; quick scale 20 of 180 after 150. The reference on Heart is HMC with full gradients, 60 chains
of 3,200 (quick 120 of 180). τ is in the table; chains are from five, below which it is not given, to hundreds of it
long. Errors are over chains (of ESS the jackknife's over ten groups). The corrected ones are exact by the certificate's
rows ggmc metropolis, palindromic cosine and two-way cosine. One friction, one length, draws at the ends of trajectories
alone: not shown is what a schedule with many cycles does for a network, where it is used.
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
    figure, panels = pyplot.subplots(3, 3, figsize=(9.6, 7.4), layout="constrained", sharex="col")
    for (target, title), column in zip(PANELS, panels.T, strict=True):
        for key, (colour, marker, line, name) in LOOK.items():
            rows = of_schedule(table, target, key)
            for (quantity, _), panel in zip(ROWS, column, strict=True):
                if quantity in rows and rows[quantity].notna().any():
                    panel.errorbar(
                        rows.time,
                        rows[quantity],
                        rows[f"{quantity}_error"],
                        color=colour,
                        marker=marker,
                        ls=line,
                        ms=4,
                        lw=1.2,
                        label=name,
                    )
        column[0].set_title(title, fontsize=10)
        if column[1].has_data():
            column[1].set_yscale("log")
            column[1].yaxis.set_major_formatter("{x:g}")
            column[1].yaxis.set_minor_formatter("")
        column[2].set_xlabel("mean step a gradient")
        clean(*column)
    for (_, name), panel in zip(ROWS, panels[:, 0], strict=True):
        panel.set_ylabel(name)
    handles, names = panels[1, 0].get_legend_handles_labels()
    panels[2, 0].legend(handles, names, frameon=False, fontsize=7, loc="upper left")
    figure.suptitle(TITLE, fontsize=11)
    return figure


EXACT = [key for key in LOOK if key[2] == "metropolis"]
BARE = [key for key in LOOK if key[2] == "monitor"]


def compare(table: pd.DataFrame):
    """No bias where it is corrected; acceptance, jumps and ESS at equal gradients; bias where it is not."""
    corrected = table[(table.acceptance == "metropolis") & table.excess.notna() & (table.excess_error > 0)]
    of_reference = corrected.reindex(columns=["reference_error"]).fillna(0).reference_error
    away = (corrected.excess / np.hypot(corrected.excess_error, of_reference)).abs()
    probability = chance(away, corrected.chains)
    here = f"largest |excess| {away.max():.1f} of its errors in {len(away)} corrected settings, the most unlikely has "
    here += f"p = {probability:.2g}, by Student's t and Bonferroni"
    verdict = "not comparable: no run" if corrected.empty else "agrees" if probability > 0.01 else "differs"
    yield "corrected draws", "no bias, under any schedule", here, verdict
    for target, title in PANELS:
        parts = {key: of_schedule(table, target, key) for key in LOOK}
        if any(part.empty for part in parts.values()):
            yield f"{title}: all", "", "", "not comparable: a run is missing or diverged"
            continue
        yield acceptance(title, parts)
        for column, name in (("jump", "best squared jump"), ("ess", "best ESS")):
            yield bests(f"{title}: {name}", parts, column)
        yield bias(title, parts)


def acceptance(title: str, parts: dict) -> tuple:
    """How far the schedules' acceptance is from the constant's at the same mean step, where that is in its range."""
    constant, differences = parts[EXACT[0]], []
    for key in EXACT[1:]:
        part = parts[key]
        inside = part[(part.time >= constant.time.min()) & (part.time <= constant.time.max())]
        gap = inside.accepted - np.interp(inside.time, constant.time, constant.accepted)
        differences.append((LOOK[key][3], gap.min(), gap.max()))
    here = "; ".join(f"{name} {low:+.3f} to {high:+.3f}" for name, low, high in differences)
    worst = min(low for _, low, _ in differences)
    verdict = "agrees" if worst < 0 and max(high for *_, high in differences) < 0.005 else "differs"
    what = f"{title}: acceptance less the constant's at one mean step a gradient"
    return what, "lower: noise goes with Σ h², which is least where h is constant", here, verdict


def bests(what: str, parts: dict, column: str) -> tuple:
    """The best of each corrected schedule over its step sizes."""
    known = {key: parts[key][parts[key][f"{column}_error"].notna()] for key in EXACT}
    if any(part.empty for part in known.values()):
        return what, "not known", "τ not known", "not comparable: too few draws"
    rows = {key: part.loc[part[column].idxmax()] for key, part in known.items()}
    here = ", ".join(f"{LOOK[key][3]} {row[column]:.3g} ± {row[f'{column}_error']:.1g}" for key, row in rows.items())
    constant, verdicts = rows[EXACT[0]], []
    for key, name in zip(EXACT[1:], ("palindromic", "random"), strict=True):
        error = np.hypot(rows[key][f"{column}_error"], constant[f"{column}_error"])
        apart = (rows[key][column] - constant[column]) / error
        ratio = f"{rows[key][column] / constant[column]:.2f} times"
        verdicts.append(f"{name} {ratio}" if abs(apart) > 3 else f"{name} no difference")
    return what, "not known", here, "not claimed: " + ", ".join(verdicts)


def bias(title: str, parts: dict) -> tuple:
    """The uncorrected excess of the cosine against the constant's at the same mean step, at its largest in range."""
    constant, cosine = (parts[key] for key in BARE)
    what = f"{title}: uncorrected excess, cosine and constant at one mean step a gradient"
    inside = cosine[(cosine.time <= constant.time.max()) & cosine.excess.notna()]
    if inside.empty or constant.excess.isna().any():
        return what, "less: the last steps are small", "", "not comparable: a run is missing"
    row = inside.iloc[-1]
    other = np.interp(row.time, constant.time, constant.excess)
    error = np.hypot(row.excess_error, np.interp(row.time, constant.time, constant.excess_error))
    here = f"{row.excess:.3f} and {other:.3f} ± {error:.3f} at {row.time:.3g}"
    verdict = (
        "agrees" if other - row.excess > 3 * error else "differs" if row.excess - other > 3 * error else "not resolved"
    )
    return what, "less: the last steps are small", here, verdict


TITLE = "A cosine in a random direction is exact, and gains nothing over a constant step"
