"""AMAGOLD, Figure 4: error of the posterior mean of Bayesian logistic regression, over step sizes and over seconds."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, GREY, NAMES, clean

SOURCE = "AMAGOLD, Figure 4"
TABLES = ("amagold_logistic", "amagold_logistic_growth")
CAPTION = """
Mean squared error over coordinates between the mean of a chain's draws and the reference mean: HMC with a tuned step
size, 100 chains of 100,000 draws at paper scale, of 1,500 at quick scale, whose own Monte-Carlo error is in the table
and, where it is near, dotted. Points: mean over 8 chains, with its error. Left, at full length (paper scale:
5,000,000 trajectories of AMAGOLD and SGHMC, a tenth of them of HMC and L2MC, after 1,000; quick scale: 4,000 of each
after 500, too few to tell SGHMC's bias). Thin dashed: the square of the bias that all 8 chains share, what would stay
of a longer chain, where it is twice its error and the chains are long enough to know their autocorrelation time.
Middle, along the chain over its seconds at ε = .0001, the paper's (thin, pale), and at .001 (thick): seconds are
trajectories times the fastest tenth of the seconds a trajectory of one chain by itself (the program evaluates U at
the end of SGHMC's trajectories too, to report it; the algorithm would not). Right, the same over passes over the
data, which is what the algorithms need on a large data set: on a small one a full gradient takes no longer than the
calls do. Running means are of thinned draws (every 1,000th or 100th, quick 10th), which lose little: the
autocorrelation times in the table, where chains are long enough to know them, are longer. Decided where the paper is
silent: standardised columns, prior N(0, 100 I), σ = 1, start from independent standard normals, burn-in, step sizes,
SGHMC momentum first as in the authors' code.
"""
PARTS = (("australian", "(a) Australian"), ("heart", "(b) Heart"))
SAMPLERS = ("hmc", "l2mc", "sghmc", "amagold")
MARKERS = {"hmc": "s", "l2mc": "D", "sghmc": "v", "amagold": "o"}


def draw(table: pd.DataFrame, growth: pd.DataFrame) -> Figure:
    """A row a data set."""
    figure, panels = pyplot.subplots(2, 3, figsize=(9.6, 6), sharey="row", layout="constrained")
    for row, (data, title) in zip(panels, PARTS, strict=True):
        over_steps(row[0], table[table.data == data])
        along(row[1], growth[growth.data == data], "seconds_a_cycle")
        along(row[2], growth[growth.data == data], "passes_a_cycle")
        row[0].set(ylabel=f"{title}: MSE", xlabel="step size ε")
        row[1].set_xlabel("seconds of one chain")
        row[2].set_xlabel("passes over the data")
        clean(*row)
    panels[0, 0].legend(frameon=False, fontsize=8)
    figure.suptitle("Within a chain's length small step sizes are too small for every sampler", fontsize=11)
    return figure


def over_steps(panel, table: pd.DataFrame) -> None:
    """Error and shared bias over step sizes."""
    for name in SAMPLERS:
        part, colour = table[table.sampler == name], COLOURS[name]
        panel.errorbar(
            part.step_size,
            part.mse,
            part.mse_error,
            color=colour,
            marker=MARKERS[name],
            ms=4,
            lw=1.4,
            label=NAMES[name],
        )
        biased = part[(part.bias2 > 2 * part.bias2_error) & part.autocorrelation_time.notna()]
        panel.plot(biased.step_size, biased.bias2, color=colour, ls="--", lw=0.9)
    reference, low = table.reference_mse.iloc[0], table.mse.min() / 4
    if reference > low:
        panel.axhline(reference, color=GREY, ls=":", lw=1)
        panel.text(1e-6, reference, "error of the reference", fontsize=8, color=GREY, va="bottom")
    panel.set(xscale="log", yscale="log", ylim=(low, None))


def along(panel, table: pd.DataFrame, cost: str) -> None:
    """Error along the chain over what a cycle costs."""
    for name in SAMPLERS:
        for size, width, alpha in ((1e-4, 1.0, 0.5), (1e-3, 1.8, 1.0)):
            part = table[(table.sampler == name) & (table.step_size == size)]
            panel.plot(part.cycles * part[cost], part.mse, color=COLOURS[name], lw=width, alpha=alpha)
    panel.set(xscale="log", yscale="log")
    late = table[(table.step_size == 1e-4)].mse
    panel.text(0.02, late.max(), "thin: ε = .0001", transform=panel.get_yaxis_transform(), fontsize=8, va="bottom")


def compare(table: pd.DataFrame, growth: pd.DataFrame):
    """AMAGOLD against SGHMC at the largest step sizes, and the costs."""
    for data, title in PARTS:
        at = {(row.sampler, row.step_size): row for row in table[table.data == data].itertuples()}
        for size in (1e-3, 5e-3):
            sghmc, amagold = at["sghmc", size], at["amagold", size]
            away = (sghmc.mse - amagold.mse) / (sghmc.mse_error**2 + amagold.mse_error**2) ** 0.5
            verdict = "agrees" if away > 2 else "not resolved" if away > -2 else "differs"
            verdict += f": {away:.1f} standard errors apart"
            if not min(row.cycles / row.autocorrelation_time for row in (sghmc, amagold)) >= 50:  # or unknown
                verdict = f"not comparable: {amagold.cycles:,} trajectories are too few to tell bias from slowness"
            yield (
                f"{title}, ε = {size:g}: AMAGOLD's error below SGHMC's",
                "smaller" if size < 5e-3 else "larger than at smaller ε, where its acceptance drops",
                f"{amagold.mse:.2g} ± {amagold.mse_error:.1g} against {sghmc.mse:.2g} ± {sghmc.mse_error:.1g}; shared "
                f"squared bias {amagold.bias2:.1g} ± {amagold.bias2_error:.1g}, {sghmc.bias2:.1g} ± "
                f"{sghmc.bias2_error:.1g}",
                verdict,
            )
        cost = growth[growth.data == data].groupby("sampler")[["seconds_a_cycle", "passes_a_cycle"]].first()
        seconds, passes = cost.seconds_a_cycle, cost.passes_a_cycle
        full = seconds[["hmc", "l2mc"]].min()
        yield (
            f"{title}: AMAGOLD faster than HMC and L2MC",
            "significantly",
            f"{1e3 * seconds['amagold']:.2f} ms a trajectory against {1e3 * full:.2f} ms; "
            f"{passes['amagold']:.2f} passes over the data against {passes[['hmc', 'l2mc']].min():.0f}",
            "agrees"
            if seconds["amagold"] < 0.67 * full
            else "differs: on so few data a full gradient is about as quick",
        )
        ratio = seconds["amagold"] / seconds["sghmc"]
        yield (
            f"{title}: AMAGOLD not much slower than SGHMC",
            "not much",
            f"{ratio:.2f} times the seconds of a trajectory",
            "agrees" if ratio < 1.5 else f"differs: {ratio:.1f} times",
        )
