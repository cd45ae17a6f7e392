"""AMAGOLD, Figure 1: densities of the double well at step size .25 and tuned, and J over step sizes."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from style import COLOURS, GREY, NAMES, clean

SOURCE = "AMAGOLD, Figure 1"
TABLES = ("amagold_fig1", "amagold_fig1_density")
CAPTION = """
The double well with gradient noise N(0, 1), β = .25, T = 10, fresh momentum, chains from x = 0. Panels a to c: the
histogram (bins of .1) of the first chain, filled, the central 80 % of 32 chains as a band, and the exact density
(black). Panel d: J of single chains of that length (dashed: mean over 32 chains, band: the central 80 %), and of all
32 together, where the noise of one is gone (solid, bars are standard errors by the jackknife over chains); dotted:
what as many independent exact draws give. At paper scale a chain is the paper's, 100,000 draws after 1,000 of
burn-in; at quick scale 4,000 after 500. At ε = .01 to .05 chains of these lengths are few autocorrelation times long
(in the table; empty where they are too short to tell), and all of them start at 0. Decided where the paper is silent:
the step sizes of panel d; J is of histograms with exact bin masses on [−6, 6], empty bins floored at 1e-12, never of
a kernel density estimate, whose smoothing would dominate it (the paper's densities are such estimates); tuning in
panel c is Robbins-Monro on log ε during burn-in, from .01, each chain its own; SGHMC moves momentum first, as in the
authors' code (EA), and the thin line is Algorithm 1 as printed, position first (AE).
"""
MEAN, VARIANCE = -2.14796, 2.86177  # exact, of the target


def density(panel: Axes, part: pd.DataFrame, colour: str) -> None:
    """One chain's histogram filled, the band of all chains, the truth."""
    panel.fill_between(part.x, part.one, color=colour, alpha=0.45, lw=0, step="mid")
    panel.fill_between(part.x, part.low, part.high, color=colour, alpha=0.35, lw=0)
    panel.plot(part.x, part.exact, color="black", lw=1.2)
    panel.set(xlim=(-6, 6), ylim=(0, 0.82), xlabel="θ")
    clean(panel)


def draw(table: pd.DataFrame, densities: pd.DataFrame) -> Figure:
    """Three densities and J over step sizes."""
    figure, panels = pyplot.subplots(2, 2, figsize=(7.6, 5.6), layout="constrained")
    untuned = densities[densities.tuned_to.isna() & (densities.step_size == 0.25)]
    tuned, found = densities[densities.tuned_to.notna()], table[table.tuned_to.notna()].iloc[0]
    parts = [
        (untuned[untuned.sampler == "sghmc"], "sghmc", "(a) SGHMC, ε = .25"),
        (untuned[untuned.sampler == "amagold"], "amagold", "(b) AMAGOLD, ε = .25"),
        (tuned, "amagold", f"(c) AMAGOLD, tuned from ε = .01 to {found.step_size:.2f}".replace("0.", ".")),
    ]
    for panel, (part, sampler, title) in zip(panels.flat, parts, strict=False):
        density(panel, part, COLOURS[sampler])
        panel.set_title(title, fontsize=10)
        panel.set_ylabel("density")
    panels[0, 0].text(-2.1, 0.45, "exact", fontsize=9)
    panels[0, 0].text(2.6, 0.17, "one chain, band of 32", fontsize=9, color=COLOURS["sghmc"], ha="center")
    divergence(panels[1, 1], table[table.tuned_to.isna()])
    figure.suptitle("SGHMC's bias grows with the step size; AMAGOLD keeps the distribution", fontsize=11)
    return figure


def divergence(panel: Axes, table: pd.DataFrame) -> None:
    """J over step sizes, of single chains and of all; both orders of SGHMC's updates."""
    for word, sampler, width in (("AE", "sghmc", 0.7), ("EA", "sghmc", 1.6), ("ABOBA", "amagold", 1.6)):
        part, colour = table[(table.sampler == sampler) & (table.word == word)], COLOURS[sampler]
        panel.errorbar(part.step_size, part.J, part.J_error, color=colour, lw=width, marker="o", ms=1 + 2 * width)
        if word != "AE":
            panel.plot(part.step_size, part.J_one, color=colour, lw=width, ls="--")
            panel.fill_between(part.step_size, part.J_one_low, part.J_one_high, color=colour, alpha=0.12, lw=0)
        end = part.iloc[-1]
        name = NAMES[sampler] + (" (AE)" if word == "AE" else "")
        shift = 8 if word == "AE" else 0
        panel.annotate(
            name, (0.25, end.J), (6, shift), textcoords="offset points", color=colour, va="center", fontsize=8
        )
    for floor in (end.floor, end.floor_one):
        panel.axhline(floor, color=GREY, ls=":", lw=1)
        panel.annotate(
            "independent",
            (0.35, floor),
            (0, -2),
            textcoords="offset points",
            color=GREY,
            ha="right",
            va="top",
            fontsize=7,
        )
    panel.set(yscale="log", xlabel="step size ε", ylabel="J", xlim=(0, 0.35), ylim=(end.floor / 3, None))
    panel.set_xticks([0, 0.05, 0.1, 0.15, 0.2, 0.25])
    panel.set_title("(d) all chains (solid), one chain (dashed)", fontsize=10)
    clean(panel)


def compare(table: pd.DataFrame, densities: pd.DataFrame):
    """The paper's claims, which have no numbers, and the exact moments."""
    plain = table[table.tuned_to.isna()]
    at = {(row.sampler, row.word, row.step_size): row for row in plain.itertuples()}
    sghmc, other, amagold = at["sghmc", "EA", 0.25], at["sghmc", "AE", 0.25], at["amagold", "ABOBA", 0.25]
    for row, name in ((sghmc, "as in the code (EA)"), (other, "as printed (AE)")):
        away = (row.J - amagold.J) / (row.J_error**2 + amagold.J_error**2) ** 0.5
        yield (
            f"ε = .25: SGHMC, {name}, is biased",
            "J far above AMAGOLD's",
            f"J of all chains {row.J:.4f} ± {row.J_error:.4f} against {amagold.J:.4f} ± {amagold.J_error:.4f}",
            "agrees" if away > 3 else f"differs: {away:.1f} standard errors apart",
        )
    exact = plain[(plain.sampler == "amagold") & (plain.step_size > 0.01)]
    away = pd.concat(
        [
            (exact["mean"] - MEAN).abs() / exact.mean_error,
            (exact.variance - VARIANCE).abs() / exact.variance_error,
        ]
    ).max()
    yield (
        "ε from .05: AMAGOLD has the right distribution",
        f"mean {MEAN:.3f}, variance {VARIANCE:.3f} (exact)",
        f"mean and variance within {away:.1f} standard errors at every step size",
        "agrees" if away < 3.5 else "differs: farther than 3.5 standard errors",
    )
    small = at["amagold", "ABOBA", 0.01], at["sghmc", "EA", 0.01]
    worst = min(row.J_one for row in small)
    yield (
        "ε = .01 is too small for both in this length",
        "poor estimates",
        f"J of one chain {small[0].J_one:.2g} (AMAGOLD), {small[1].J_one:.2g} (SGHMC); {amagold.J_one:.2g} at .25",
        "agrees" if worst > 3 * amagold.J_one else "differs",
    )
    tuned = table[table.tuned_to.notna()].iloc[0]
    yield (
        "tuned from ε = .01 to an acceptance of 85 %",
        "estimates the density accurately",
        f"ε = {tuned.step_size:.3f}, acceptance {tuned.accepted:.3f}, J of one chain {tuned.J_one:.2g}",
        "agrees" if tuned.J_one < worst / 3 else "differs",
    )
