"""Neal's talk (2020): Gibbs updates of variances every step or every trajectory, hierarchical regression."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, MARKERS, NAMES, clean, note, ticks
from verdicts import LIMIT, long_enough, of_groups

SOURCE = "Neal, models with variance hyperparameters"
CAPTION = """
The talk says that Langevin methods gain over HMC by updating variances more often. Here non-reversible Langevin has the
larger ESS of the slowest of three quantities per leapfrog step, if gradients after Gibbs updates are free. Counted,
that holds with 100 data and is not decided with 20.

**What was run.** His hierarchical regression: coefficients by HMC or Langevin updates, τ² and σ² by Gibbs updates after
each trajectory of L leapfrog steps (HMC) or every step (Langevin, which is HMC of L = 1, and persistent non-reversible
Langevin). 160 or 192 chains of each setting, from dispersed starts, of 16,400 leapfrog steps after 2,000 dropped (quick
fewer and shorter).

**What is drawn.** A line an L or α, with standard errors over chains; the thick one has a sampler's best point, the
others have their L or α at one of their points. The slowest of the three: the least ESS of log τ², log σ² and the
slowest coefficient at a setting. A missing point: chains shorter than 20 τ.

**Decided here.** Both data sets are made by the model (σ = ½, coefficients from N(0, 1)), with priors τ², σ² ~
InverseGamma(2, 1), and δ = 1 − α as the talk advises. L = 6 and 8 were added when HMC's best was seen to lie between 5
and 10.

**To know.** The gradient computed anew after a Gibbs update is free, as only the scale of its two parts changes;
counted, in each data set's last rows, it halves Langevin's values and multiplies HMC's by L/(L + 1). Some chains take
many hundreds of steps to come back from their start. Where the 2,000 dropped are not enough there is no point (20 data
at α = .98; 100 data, Langevin methods at ε = .01), but at α = .95, ε = .045 and .06, chains that take longer count
against their sampler (last row: log τ² rarely exceeds 3). HMC's highest values for coefficients are of trajectories of
half a period: the end mirrors the start, and much of the errors of means cancels. Bonferroni is over twelve rows; the
choice of a grid's best is not in the errors.
"""
QUANTITIES = (("tau2", "log τ²"), ("sigma2", "log σ²"), ("coefficient", "slowest coefficient"))
COLUMNS = [f"ess_{name}" for name, _ in QUANTITIES]
JUDGED = 12  # rows that are judged: log τ², log σ² and the slowest of three, of two data sets, gradients counted or not
MINE = "nonreversible_langevin"
GROUP = ["sampler", "steps", "alpha"]
FAR = {(100, "coefficient")}  # panels of values so far from each other that their axis is logarithmic
NEARLY = 0.1  # by how much τ in updates may differ from 1 where each update renews what it draws


def draw(table: pd.DataFrame) -> Figure:
    """A row a quantity, and one of the slowest of them, a column a data set."""
    done = finished(table)
    figure, panels = pyplot.subplots(4, 2, figsize=(8, 11), sharex="col", layout="constrained")
    shown = least(done, COLUMNS)
    for column, (size, features) in zip(panels.T, ((20, 20), (100, 10)), strict=True):
        for panel, (name, text) in zip(column, (*QUANTITIES, ("least", "slowest of the three")), strict=True):
            part = shown if name == "least" else done
            lines(panel, part[part["size"] == size], f"ess_{name}", (size, name) in FAR)
            panel.set_title(f"{text}, {size} data, {features} features", fontsize=10)
        column[-1].set_xlabel("step size ε")
    for panel in panels[:, 0]:
        panel.set_ylabel("ESS / 1,000 leapfrog steps")
    for panel in panels.flat:
        if panel.get_legend_handles_labels()[0]:
            panel.legend(framealpha=0.9, edgecolor="none", fontsize=8, loc="upper right")
    clean(*panels.flat)
    figure.suptitle(title(done), fontsize=11)
    return figure


def finished(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of finished runs, without τ and ESS of chains shorter than 20 τ."""
    return long_enough(table[table.status == "done"], "gradients")


def title(done: pd.DataFrame) -> str:
    """What the slowest of the three quantities bears, gradients after Gibbs updates counted or not."""
    verdicts = []
    for part in (done, counted(done)):
        rows = [against(part[part["size"] == size], MINE, COLUMNS, "", number=JUDGED) for size in (20, 100)]
        verdicts.append(all(row[3] == "agrees" for row in rows))
    return told(*verdicts, "the slowest of the three")


def told(uncharged: bool, charged: bool, what: str) -> str:
    """In how far non-reversible Langevin mixes faster than HMC."""
    if uncharged and charged:
        return f"Non-reversible Langevin mixes {what} faster than HMC,\nat equal numbers of gradients, too"
    if uncharged:
        free = "per leapfrog step\n(gradients after Gibbs updates free)"
        return f"Non-reversible Langevin mixes {what} faster than HMC {free}"
    return "Non-reversible Langevin beside HMC, with Gibbs updates after each step or trajectory"


def lines(panel, part: pd.DataFrame, column: str, far: bool = False) -> None:
    """A line a setting, the sampler's best thick and named, the others with their L or α, over a logarithmic axis or
    one from 0, with room for names."""
    if not part[column].notna().any():
        note(panel)
        return
    for sampler, of_one in part.groupby("sampler"):
        only = "" if of_one.groupby(GROUP, dropna=False).ngroups == 1 else "best "
        best = of_one[column].idxmax() if of_one[column].notna().any() else None
        for _, line in of_one.groupby(GROUP, dropna=False):
            mine = best in line.index
            first = line.iloc[0]
            setting = _setting(first)
            value = setting.partition(" = ")[2]
            panel.errorbar(
                line.step_size,
                line[column],
                line[f"{column}_error"],
                color=COLOURS[sampler],
                lw=2 if mine else 0.7,
                alpha=1 if mine else 0.7,
                marker=MARKERS[sampler],
                ms=4 if mine else 2,
                elinewidth=2 if mine else 0.4,
                zorder=3 if mine else 2,
                label=f"{NAMES[sampler]}{setting and f', {only}{setting}'}" if mine else None,
            )
            if value and not mine and line[column].notna().any():
                at, box = lonely(line, part.drop(line.index), column), {"fc": "white", "ec": "none", "pad": 0}
                options = {"size": 7, "color": COLOURS[sampler], "ha": "center", "va": "center", "bbox": box}
                panel.annotate(value, (at.step_size, at[column]), zorder=2.5, **options)  # beneath what is thick
    if far:
        panel.set_yscale("log")
        ticks(panel.yaxis)
        panel.set_ylim(part[column].min() / 2, 30 * part[column].max())
    else:
        panel.set_ylim(0, 1.5 * part[column].max())


def lonely(line: pd.DataFrame, others: pd.DataFrame, column: str) -> pd.Series:
    """The point of a line that is farthest from the other lines' at its step size: a name is legible there."""
    known, gaps = line[line[column].notna()], []
    for _, row in known.iterrows():
        beside = others[column][others.step_size == row.step_size]
        gaps.append((beside - row[column]).abs().min())
    return known.iloc[np.argmax(np.nan_to_num(gaps, nan=np.inf))]


def compare(table: pd.DataFrame):
    """The best settings against HMC's best and against plain Langevin's, for each quantity, and with one setting for
    all."""
    done = finished(table)
    for size in (20, 100) if len(done) else ():
        part = done[done["size"] == size]
        for sampler, other in (
            (MINE, "hmc"),
            ("langevin", "hmc"),
            (MINE, "langevin"),
        ):
            for name, text in QUANTITIES:
                # The claim is about what is updated more often.
                claim = "no claim" if name == "coefficient" else None
                yield against(part, sampler, [f"ess_{name}"], f"{text}, {size} data", other, claim, JUDGED)
            yield against(part, sampler, COLUMNS, f"slowest of the three, {size} data", other, number=JUDGED)
        for name, text in QUANTITIES:
            claim = "no claim" if name == "coefficient" else None
            what = f"{text}, {size} data, {COUNTED}"
            yield against(counted(part), MINE, [f"ess_{name}"], what, claim=claim, number=JUDGED)
        yield against(counted(part), MINE, COLUMNS, f"slowest of the three, {size} data, {COUNTED}", number=JUDGED)
    if "largest_log_tau2" in done and len(done):
        largest = f"{done.largest_log_tau2.max():.1f}"
        yield "largest log τ² after the burn-in", "no claim", largest, "not claimed"


COUNTED = "gradients after Gibbs updates counted"


def counted(part: pd.DataFrame) -> pd.DataFrame:
    """With ESS at equal numbers of gradients, those after Gibbs updates among them."""
    names = [name for name in part if name.startswith("ess_")]
    return part.assign(**{name: part[name] / part.evaluations for name in names})


def least(part: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """The rows of which all of ``columns`` are known, with the least of them, ``ess_least``, and its error."""
    known = part[part[columns].notna().all(axis=1)]
    errors = [row[f"{row[columns].astype(float).idxmin()}_error"] for _, row in known.iterrows()]
    return known.assign(ess_least=known[columns].min(axis=1), ess_least_error=errors)


def against(
    part: pd.DataFrame,
    sampler: str,
    columns: list[str],
    what: str,
    other: str = "hmc",
    claim: str | None = None,
    number: int = 1,
):
    """The sampler's best least ESS of ``columns`` over the other's, with its error, one of ``number`` rows so judged.

    The talk's claim, "more", is that of non-reversible Langevin over HMC, unless ``claim`` says otherwise. Within
    what errors of ten groups of chains allow nothing is decided, the less so as both were chosen as the best of many.
    """
    claim = claim or ("more" if (sampler, other) == (MINE, "hmc") else "no claim")
    what = f"{NAMES[sampler]} over {NAMES[other]}: {what}"
    best = []
    for one in (sampler, other):
        mine = least(part[part.sampler == one], columns)
        if mine.empty:
            return what, claim, "τ not known", "not comparable: too few draws, or runs missing"
        row = mine.loc[mine.ess_least.idxmax()]
        best.append((row.ess_least, row.ess_least_error / row.ess_least, row))
    (mine, error, row), (others, others_error, other_row) = best
    most = of_groups((error, others_error), (row, other_row), number)
    ratio = mine / others
    error = ratio * (error**2 + others_error**2) ** 0.5
    here = f"{ratio:.2f} ± {error:.2g} ({_settings(row)} against {_settings(other_row)})"
    if claim == "no claim":
        return what, claim, here, "not claimed"
    if columns == ["ess_tau2"] and _renewed(row) and _renewed(other_row):
        return what, claim, here, "not comparable: each update renews log τ², only their number counts"
    if not abs(ratio - 1) > most * error:
        far = f"{abs(ratio - 1) / error:.1f} errors apart, {most:.1f} would decide"
        return what, claim, here, f"not decided by this run: {far}"
    # What a wider grid could raise: the loser's best.
    loser = other_row if ratio > 1 else row
    edges = at_edge(part, loser)
    if edges:
        return what, claim, here, f"not decided: {NAMES[loser.sampler]}'s best is at the edge of the grid, {edges}"
    return what, claim, here, "agrees" if ratio > 1 else "differs"


def at_edge(part: pd.DataFrame, row: pd.Series) -> str:
    """At which edges of its sampler's grid a point lies, in words: of ε, of L, of α.

    Plain Langevin, where it was run, is L = 1 and α = 0: no edge is below it.
    """
    mine, found = part[part.sampler == row.sampler], []
    plain = (part.sampler == "langevin").any()
    for name, title, bounded in (("step_size", "ε", False), ("steps", "L", plain), ("alpha", "α", plain)):
        values = mine[name].dropna()
        if values.nunique() > 1 and (row[name] == values.max() or row[name] == values.min() and not bounded):
            found.append(f"{title} = {row[name]:g}")
    return ", ".join(found)


def _renewed(row: pd.Series) -> bool:
    """Whether log τ² is drawn nearly independently by each of the 1,000/L Gibbs updates, as far as its error tells."""
    return abs(row.tau_tau2 / row.steps - 1) < max(NEARLY, LIMIT * row.ess_tau2_error / row.ess_tau2)


def _setting(row: pd.Series) -> str:
    if row.sampler == "hmc":
        return f"L = {row.steps:.0f}"
    return "" if pd.isna(row.alpha) else f"α = {row.alpha:g}"


def _settings(row: pd.Series) -> str:
    return ", ".join(filter(None, (f"ε = {row.step_size:g}", _setting(row))))
