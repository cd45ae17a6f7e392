"""AMAGOLD, Figure 1: densities of the double well at step size .25 and tuned, and J over step sizes."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from style import COLOURS, GREY, NAMES, clean, handle
from verdicts import LIMIT, Rows, apart, close, decided, limit, mark_diverged

SOURCE = "AMAGOLD, Figure 1"
TABLES = ("amagold_fig1", "amagold_fig1_density")
CAPTION = """
On the double well the paper finds SGHMC biased, most at large step sizes, and AMAGOLD close to the truth unless ε is
too small. So it is here. SGHMC's bias does not vanish with the step size, nor is it only gradient noise.

**What was run.** Gradient noise N(0, 1), friction β = .25, T = 10, fresh momentum, 32 chains from θ = 0 of the paper's
length, 100,000 draws after 1,000 of burn-in (quick: 4,000 after 500).

**What is drawn.** a to c: histograms with bins of .1. d: dashed, J of single chains (mean, and the central 80 % as a
band); solid, J of all 32 together, with standard errors by the jackknife over chains; dotted, what as many independent
exact draws give. Triangles at ε = 0, AE's beside it: the J of exp(−U) at the temperatures below.

**Decided here.** Panel d's step sizes. J is of histograms with exact bin masses on [−6, 6], empty bins floored at
1e-12: the smoothing of density estimates, as the paper's are, would dominate it. Panel c is tuned by Robbins-Monro on
log ε during burn-in, from .01, each chain its own. SGHMC moves momentum first (EA), as in the authors' code; the thin
line is Algorithm 1 as printed, position first (AE).

**To know.** SGHMC's momentum is fresh every T = 10 steps of a one-sided word: as ε → 0 they move θ by ε T r, r the
momentum, of variance ε² T², and by −∇U times ε² T (T + 1)/2 (EA) or ε² T (T − 1)/2 (AE), a Langevin step at temperature
T/(T + 1) = .909 or T/(T − 1) = 1.111 (derived here). Gradient noise heats, the more the larger ε: EA, too cold at small
ε, first gets better, and then too hot. At ε = .01 (quick: .05, too) chains are few τ long.
"""
STEPS = (0.05, 0.1, 0.15, 0.2, 0.25)  # at which moments are compared
ROUNDED = 0.005 / 3**0.5  # the standard deviation of what rounding to a per cent takes off
MEAN, VARIANCE = -2.14796, 2.86177  # exact, of the target
POOR = 3  # times the J at .25
TRAJECTORY = 10  # gradients of a trajectory
SMALL_STEPS = {"EA": TRAJECTORY / (TRAJECTORY + 1), "AE": TRAJECTORY / (TRAJECTORY - 1)}  # SGHMC's temperature, ε → 0


def tempered(density: pd.Series, word: str) -> tuple[np.ndarray, np.ndarray]:
    """A density's masses on an even grid, where there are any, and those at SGHMC's temperature as ε → 0."""
    p = density.to_numpy()[density > 0]
    q = p ** (1 / SMALL_STEPS[word])
    return p / p.sum(), q / q.sum()


def density(panel: Axes, part: pd.DataFrame, colour: str) -> None:
    """One chain's histogram as a line of steps, the band of all chains filled, the truth."""
    panel.fill_between(part.x, part.low, part.high, color=colour, alpha=0.4, lw=0, step="mid")
    panel.plot(part.x, part.exact, color="black", lw=1.2)
    panel.step(part.x, part.one, where="mid", color=colour, lw=0.9)
    panel.set(xlim=(-6, 6), ylim=(0, 0.85))


def names(panel: Axes, colour: str, rows: pd.DataFrame) -> None:
    """What is what in ``density``, whose band is of the chains that these rows have."""
    number = f" of {rows.chains.iloc[0]:.0f}" if len(rows) else ""
    band = Patch(color=colour, alpha=0.4, lw=0, label=f"central 80 %{number}")
    shown = [handle("exact", color="black"), handle("first chain", color=colour, lw=0.9), band]
    panel.legend(handles=shown, frameon=False, fontsize=8, loc="upper right")


def draw(table: pd.DataFrame, densities: pd.DataFrame) -> Figure:
    """Three densities and J over step sizes."""
    figure, panels = pyplot.subplots(2, 2, figsize=(7.6, 5.6), layout="constrained")
    untuned = densities[densities.tuned_to.isna() & (densities.step_size == 0.25)]
    tuned, found = densities[densities.tuned_to.notna()], table[table.tuned_to.notna()].step_size.dropna()
    size = f" to {found.iloc[0]:.2f}".replace("0.", ".") if len(found) else ""
    parts = [
        (untuned[untuned.sampler == "sghmc"], "sghmc", "(a) SGHMC, ε = .25"),
        (untuned[untuned.sampler == "amagold"], "amagold", "(b) AMAGOLD, ε = .25"),
        (tuned, "amagold", f"(c) AMAGOLD, tuned from ε = .01{size}"),
    ]
    for panel, (part, sampler, text) in zip(panels.flat, parts, strict=False):
        density(panel, part, COLOURS[sampler])
        panel.set_title(text, fontsize=10)
        panel.set(xlabel="θ", ylabel="density")
        clean(panel)
    plain = table[table.tuned_to.isna()]
    names(panels[0, 0], COLOURS["sghmc"], plain[(plain.word == "EA") & (plain.step_size == 0.25)])
    divergence(panels[1, 1], plain)
    for word, beside, above in (("EA", 0, -9), ("AE", -0.018, 9)) if densities.exact.notna().any() else ():
        p, q = tempered(densities.drop_duplicates("x").exact, word)
        j = float(((q - p) * np.log(q / p)).sum())
        panels[1, 1].plot(beside, j, ">", color=COLOURS["sghmc"], mfc="none", ms=5)
        panels[1, 1].annotate(
            word, (beside, j), (0, above), textcoords="offset points", color=COLOURS["sghmc"], fontsize=7, ha="center",
            va="center",
        )  # fmt: skip
    figure.suptitle(title(table, densities), fontsize=11)
    return figure


def title(table: pd.DataFrame, densities: pd.DataFrame) -> str:
    """That SGHMC is biased, and where most, and AMAGOLD is not, where the comparison bears it."""
    claims = [row[3] for row in compare(table, densities)][:3]
    euler = table[(table.sampler == "sghmc") & (table.word == "EA") & table.J.notna()]
    if any(claim != "agrees" for claim in claims) or euler.empty:
        return "J over the step size, SGHMC beside AMAGOLD"
    most = ", most at the largest step sizes" * bool(euler.step_size[euler.J.idxmax()] == euler.step_size.max())
    return f"SGHMC is biased{most}; AMAGOLD keeps the distribution"


def divergence(panel: Axes, table: pd.DataFrame) -> None:
    """J over step sizes, of single chains and of all; both orders of SGHMC's updates."""
    for word, sampler, width in (("AE", "sghmc", 0.7), ("EA", "sghmc", 1.6), ("ABOBA", "amagold", 1.6)):
        part, colour = table[(table.sampler == sampler) & (table.word == word)], COLOURS[sampler]
        panel.errorbar(part.step_size, part.J, part.J_error, color=colour, lw=width, marker="o", ms=1 + 2 * width)
        if word != "AE":
            panel.plot(part.step_size, part.J_one, color=colour, lw=width, ls="--")
            panel.fill_between(part.step_size, part.J_one_low, part.J_one_high, color=colour, alpha=0.12, lw=0)
        mark_diverged(panel, part, "step_size", "J")
        if part.J.isna().all():
            continue
        end = part.dropna(subset="J").iloc[-1]
        name = NAMES[sampler] + (" (AE)" if word == "AE" else "")
        shift = 8 if word == "AE" else 0
        panel.annotate(
            name, (end.step_size, end.J), (6, shift), textcoords="offset points", color=colour, va="center", fontsize=8
        )
    least = table.floor.min()
    for floor in (least, table.floor_one.min()) if least > 0 else ():
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
    panel.set(yscale="log", xlabel="step size ε", ylabel="J", xlim=(-0.04, 0.35))
    if least > 0:
        panel.set_ylim(least / 3, None)
    panel.set_xticks([0, 0.05, 0.1, 0.15, 0.2, 0.25])
    panel.set_title("(d) all chains (solid), one chain (dashed)", fontsize=10)
    clean(panel)


def farther(one, other):
    """Whether the first's J is the larger."""
    here = f"J of all chains {one.J:.3g} ± {one.J_error:.1g} against {other.J:.3g} ± {other.J_error:.1g}"
    return here, decided(apart(one, other, "J"))


def compare(table: pd.DataFrame, densities: pd.DataFrame):
    """The paper's claims, which have no numbers, and the exact moments."""
    plain = Rows(table[table.tuned_to.isna()], "sampler", "word", "step_size")
    for word, name in (("EA", "as in the code (EA)"), ("AE", "as printed (AE)")):
        keys = [("sghmc", word, 0.25), ("amagold", "ABOBA", 0.25)]
        yield plain.judge(f"ε = .25: SGHMC, {name}, is biased", "J far above AMAGOLD's", keys, farther)

    def exact(*rows):
        away = [abs(row.mean - MEAN) / row.mean_error for row in rows]
        away += [abs(row.variance - VARIANCE) / row.variance_error for row in rows]
        most = limit(len(away), min(row.chains for row in rows))
        here = f"mean and variance within {max(away):.1f} standard errors at every step size (limit {most:.1f})"
        return here, "agrees" if max(away) < most else "differs"

    yield plain.judge(
        "ε from .05: AMAGOLD has the right distribution",
        f"mean {MEAN:.3f}, variance {VARIANCE:.3f} (exact)",
        [("amagold", "ABOBA", size) for size in STEPS],
        exact,
    )

    def small(amagold, sghmc, large):
        least = min(amagold.J_one, sghmc.J_one)
        here = f"J of one chain {amagold.J_one:.2g} (AMAGOLD), {sghmc.J_one:.2g} (SGHMC); {large.J_one:.2g} at .25"
        here += f" (poor: {POOR} times as much)"
        return here, "agrees" if least > POOR * large.J_one else "differs"

    yield plain.judge(
        "ε = .01 is too small for both in this length",
        "poor estimates",
        [("amagold", "ABOBA", 0.01), ("sghmc", "EA", 0.01), ("amagold", "ABOBA", 0.25)],
        small,
    )

    def at_small_steps(row):
        """Against the quadrature at SGHMC's temperature."""
        shape = densities.drop_duplicates("x")
        p, q = tempered(shape.exact, row.word)
        x = shape.x[shape.exact > 0].to_numpy()
        mean = float(q @ x)
        width = x[1] - x[0]
        variance = float(q @ (x - mean) ** 2) - width**2 / 12  # Sheppard's: the masses are of bins
        off = max(abs(row.mean - mean) / row.mean_error, abs(row.variance - variance) / row.variance_error)
        here = f"mean {row.mean:.3f} ± {row.mean_error:.3f}, variance {row.variance:.2f} ± {row.variance_error:.2f}; "
        here += f"at T = {SMALL_STEPS[row.word]:.3f} {mean:.3f}, {variance:.3f}"
        return here, f"not claimed: {off:.1f} errors from it"

    for word, sign in (("EA", "+"), ("AE", "−")):
        what = f"ε = .05: SGHMC, {word}, as at temperature T/(T {sign} 1), its limit ε → 0"
        yield plain.judge(what, "not in the paper", [("sghmc", word, 0.05)], at_small_steps)
    fixed = [row for key, row in plain.at.items() if key[0] == "amagold" and row.J > 0]

    def tuned(row):
        if not fixed:
            return f"J of all chains {row.J:.3g} ± {row.J_error:.1g}", "not comparable: no fixed step size"
        best = min(fixed, key=lambda other: other.J)
        here = f"J of all chains {row.J:.3g} ± {row.J_error:.1g} at ε = {row.step_size:.3f}, "
        here += f"{best.J:.3g} ± {best.J_error:.1g} at the best fixed one, {best.step_size:g}"
        away = apart(row, best, "J")
        if not away < LIMIT:
            return here, f"differs: {away:.1f} standard errors above"
        sghmc = plain.at.get(("sghmc", "EA", 0.25))
        below = sghmc is None or row.J + LIMIT * row.J_error < sghmc.J
        return here, "agrees" if below else "not resolved: its error reaches to SGHMC's J at .25"

    def reached(row):
        error = getattr(row, "accepted_error", float("nan"))
        here = f"{row.accepted:.3f} ± {error:.3f} (over chains)"
        return here, close(row.accepted, 0.85, np.hypot(error, ROUNDED)) if error > 0 else "not decided: no error"

    found = Rows(table[table.tuned_to.notna()], "sampler")
    yield found.judge("tuned from ε = .01", "estimates the density accurately", [("amagold",)], tuned)
    yield found.judge("acceptance after the tuning", "85 % (rounded)", [("amagold",)], reached)
