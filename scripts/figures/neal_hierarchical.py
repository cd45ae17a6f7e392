"""Neal's talk (2020): Gibbs updates of variances every step or every trajectory, hierarchical regression."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, NAMES, clean

SOURCE = "Neal, models with variance hyperparameters"
CAPTION = """
His hierarchical regression: coefficients by HMC or Langevin updates, τ² and σ² by Gibbs updates after each trajectory
of L leapfrog steps (HMC) or after every step (Langevin with persistent momentum, standard or non-reversible
acceptance). Effective sample size per 1,000 leapfrog steps over the step size, a line an L or α; the thick one has a
sampler's best point. The talk states the claim without data or settings: 20 data of 20 features (above) and 100 of 10
(below), both made by the model, the grids, and δ = 1 − α are our choices. Equal numbers of leapfrog steps; the
gradient that is computed anew after a Gibbs update is not counted, since nothing but the scale of its two parts
changes: counted, Langevin's values halve, and HMC's are multiplied by L/(L + 1) (last rows below). A missing point:
too few draws to know its τ.
"""
QUANTITIES = (("tau2", "log τ²"), ("sigma2", "log σ²"), ("coefficient", "slowest coefficient"))
GROUP = ["sampler", "steps", "alpha"]


def draw(table: pd.DataFrame) -> Figure:
    """A row a data set, a column a quantity."""
    done = table[table.status == "done"]
    figure, panels = pyplot.subplots(2, 3, figsize=(10, 6), sharex="row", layout="constrained")
    for row, (size, features) in zip(panels, ((20, 20), (100, 10)), strict=True):
        part = done[done["size"] == size]
        for panel, (name, title) in zip(row, QUANTITIES, strict=True):
            lines(panel, part, f"ess_{name}")
            panel.set_title(f"{title}, {size} data, {features} features", fontsize=9)
        row[0].set_ylabel("ESS / 1,000 leapfrog steps")
    for panel in panels[1]:
        panel.set_xlabel("step size ε")
    for panel in panels.flat:
        panel.legend(frameon=False, fontsize=7)
        panel.set_ylim(top=1.35 * panel.get_ylim()[1])
    clean(*panels.flat)
    figure.suptitle(
        "Variances updated after each step, by Langevin methods, mix faster than after L steps, by HMC", fontsize=11
    )
    return figure


def lines(panel, part: pd.DataFrame, column: str) -> None:
    """A line a setting, the sampler's best thick and named."""
    for sampler, of_one in part.groupby("sampler"):
        best = of_one[column].idxmax() if of_one[column].notna().any() else None
        for _, line in of_one.groupby(GROUP, dropna=False):
            mine = best in line.index
            first = line.iloc[0]
            setting = f"L = {first.steps:.0f}" if sampler == "hmc" else f"α = {first.alpha:g}"
            panel.errorbar(
                line.step_size,
                line[column],
                line[f"{column}_error"],
                color=COLOURS[sampler],
                lw=2 if mine else 0.7,
                alpha=1 if mine else 0.5,
                marker="o",
                ms=4 if mine else 2,
                label=f"{NAMES[sampler]}, best {setting}" if mine else None,
            )
    panel.set_ylim(bottom=0)


def compare(table: pd.DataFrame):
    """The best setting of each sampler against HMC's best, for each quantity, and with one setting for all."""
    done = table[table.status == "done"]
    for size in (20, 100):
        part = done[done["size"] == size]
        for sampler in ("persistent_langevin", "nonreversible_langevin"):
            for name, title in QUANTITIES:
                row = against(part, sampler, [f"ess_{name}"], f"{title}, {size} data")
                # The claim is about what is updated more often.
                yield row if name != "coefficient" else (row[0], "no claim", row[2], "not claimed")
            columns = [f"ess_{name}" for name, _ in QUANTITIES]
            yield against(part, sampler, columns, f"slowest of the three, {size} data")
        columns = [f"ess_{name}" for name, _ in QUANTITIES]
        counted = part.copy()
        for column in columns:
            counted[[column, f"{column}_error"]] = part[[column, f"{column}_error"]].div(part.evaluations, axis=0)
        what = f"slowest of the three, {size} data, gradients after Gibbs updates counted"
        yield against(counted, "nonreversible_langevin", columns, what)


def against(part: pd.DataFrame, sampler: str, columns: list[str], what: str):
    """The sampler's best least ESS of ``columns`` over HMC's, with its error."""
    best = []
    for one in (sampler, "hmc"):
        mine = part[(part.sampler == one) & part[columns].notna().all(axis=1)]
        if mine.empty:
            return f"{NAMES[sampler]} over HMC: {what}", "more", "τ not known", "not comparable: too few draws"
        row = mine.loc[mine[columns].min(axis=1).idxmax()]
        column = row[columns].astype(float).idxmin()
        best.append((row[column], row[f"{column}_error"] / row[column], row))
    (mine, error, row), (hmc, hmc_error, hmc_row) = best
    ratio = mine / hmc
    error = ratio * (error**2 + hmc_error**2) ** 0.5
    verdict = "agrees" if ratio - 1 > 2 * error else "differs" if 1 - ratio > 2 * error else "not decided by this run"
    settings = f"ε = {row.step_size:g}, α = {row.alpha:g} against ε = {hmc_row.step_size:g}, L = {hmc_row.steps:.0f}"
    here = f"{ratio:.2f} ± {error:.2f} ({settings})"
    if sampler == "persistent_langevin":  # the talk's advantage is that of non-reversible acceptance
        return f"{NAMES[sampler]} over HMC: {what}", "no claim", here, "not claimed"
    return f"{NAMES[sampler]} over HMC: {what}", "more", here, verdict
