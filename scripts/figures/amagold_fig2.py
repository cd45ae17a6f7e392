"""AMAGOLD, Figure 2: its two distributions in the plane, and J over step sizes for four samplers."""

from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
from figures.amagold_fig1 import tempered
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, GREY, MARKERS, NAMES, clean, handle
from verdicts import CHANCE, LENGTH, LIMIT, Rows, apart, decided, limit, mark_diverged, unbiased

SOURCE = "AMAGOLD, Figure 2"
TABLES = ("amagold_2d", "amagold_2d_density", "amagold_2d_printed")
CAPTION = """
The paper finds SGHMC biased, the more the larger ε, and AMAGOLD close to full-batch samplers. Here no bias of a
corrected sampler is seen; at ε = .25 AMAGOLD's J is far below SGHMC's and about twice L2MC's. But SGHMC's bias does not
vanish as ε → 0, and with momentum first it falls before it rises.

**What was run.** 50 chains a step size from independent N(0, 4), of 100,000 draws after 1,000 of burn-in (quick: 3,000
after 500); β = .25, σ = 1, T = 10, fresh momentum. Gradient noise N(0, I) for AMAGOLD and SGHMC alone.

**What is drawn.** J of all draws of a step size together, with jackknife errors over chains; dotted, that of as many
independent exact draws. Dashed, where it is three times its error: the bias χ² = Σ (E q − p)²/p, from products of
different chains, which do not scatter into it. A hollow marker: the chains are shorter than 50 τ of z₁, z₂ or z₁z₂.

**Decided here.** Step sizes, start and burn-in; bins 100 × 100 on [−5, 15] × [−8, 8] (Dist1) and [−6, 6]² (Dist2), over
those that hold draws. SGHMC moves momentum first (EA) and, thin, position first (AE), as in Figure 1.

**To know.** As ε → 0 SGHMC is at temperature .909 (EA) or 1.111 (AE; derived under Figure 1). An exact sampler's J is
above that of independent draws by its autocorrelation alone. Bins with fewer than ten expected draws, and what lies
outside, are one bin of χ² that J has not; without it χ² is to leading order what would stay of J with any number of
draws (with it, where χ² is .05, J is a fifth less). At ε = .01 on Dist1 the burn-in is a third of τ, and the common
start may be felt.
"""
PARTS = (("banana", "Dist1"), ("mixture", "Dist2"))
CLOSE = 2  # times another's J
SAMPLERS = ("hmc", "l2mc", "sghmc", "amagold")


def draw(table: pd.DataFrame, densities: pd.DataFrame, printed: pd.DataFrame) -> Figure:
    """A row a distribution."""
    figure, panels = pyplot.subplots(
        2, 2, figsize=(7.6, 6), layout="constrained", gridspec_kw={"width_ratios": [1, 1.5]}
    )
    for (left, right), (model, name), letters in zip(panels, PARTS, ("ab", "cd"), strict=True):
        square = densities[densities.model == model].pivot(index="z2", columns="z1", values="density")
        if square.size > 1:
            extent = (square.columns[0], square.columns[-1], square.index[0], square.index[-1])
            left.imshow(square, origin="lower", cmap="Blues", aspect="auto", extent=extent)
        left.set(xlabel="z₁", ylabel="z₂")
        left.set_title(f"({letters[0]}) {name}", fontsize=10)
        divergence(right, table[table.model == model], printed[printed.model == model])
        for word, width in (("EA", 1), ("AE", 0.5)):
            limit_of = bias_at_small_steps(densities, model, word)
            right.plot(0, limit_of, ">", color=COLOURS["sghmc"], mfc="none", mew=width, ms=4 + 2 * width)
        right.set_title(f"({letters[1]}) symmetric KL divergence, {name}", fontsize=10)
    handles = [
        handle(NAMES[name], color=COLOURS[name], marker=MARKERS[name], ms=5)
        for name in SAMPLERS
        if name in set(table.sampler)
    ]
    if handles:
        handles += [
            handle("SGHMC, position first (AE)", color=COLOURS["sghmc"], marker="v", ms=3, lw=0.7),
            handle("hollow: chains too short", color="black", marker="o", ms=5, mfc="white", ls="none"),
            handle("bias χ²", color=COLOURS["sghmc"], ls="--", lw=0.9, marker="_", ms=6),
            handle("χ² of SGHMC's law as ε → 0", color=COLOURS["sghmc"], ls="none", marker=">", ms=6, mfc="none"),
        ]
        figure.legend(handles=handles, frameon=False, fontsize=8, ncols=4, loc="outside lower center")
    figure.suptitle(title(table, printed), fontsize=11)
    return figure


def title(table: pd.DataFrame, printed: pd.DataFrame) -> str:
    """Where SGHMC's bias is seen, and that no corrected sampler's is, if so."""
    sghmc = pd.concat([table[table.sampler == "sghmc"], printed])
    sghmc = sghmc[sghmc.bias.notna()]
    where = "at every step size" if len(sghmc) and (sghmc.bias > LIMIT * sghmc.bias_error).all() else "where dashed"
    return f"SGHMC is biased {where}" + "; of corrected samplers no bias is seen" * (no_bias(table)[3] == "agrees")


def bias_at_small_steps(densities: pd.DataFrame, model: str, word: str) -> float:
    """Σ (q − p)²/p of SGHMC's law as ε → 0."""
    p, q = tempered(densities[densities.model == model].density, word)
    return float(((q - p) ** 2 / p).sum())


def divergence(panel, table: pd.DataFrame, printed: pd.DataFrame) -> None:
    """J over step size, a line a sampler; that of SGHMC as printed is thin."""
    floor = table.floor.min()
    low = floor / 3
    for name, rows, width in (("sghmc", printed, 0.7), *((name, table, 1.4) for name in SAMPLERS)):
        part, colour = rows[rows.sampler == name], COLOURS[name]
        panel.errorbar(part.step_size, part.J, part.J_error, color=colour, lw=width)
        for row in part.itertuples():
            face = colour if settled(row, 50) else "white"
            panel.plot(row.step_size, row.J, MARKERS[name], color=colour, mfc=face, ms=0.2 + 3.4 * width)
        mark_diverged(panel, part, "step_size", "J")
        biased = part[part.bias > LIMIT * part.bias_error]
        panel.plot(biased.step_size, biased.bias, color=colour, ls="--", lw=0.65 * width, marker="_", ms=6)
        low = min([low, *biased.bias / 1.5])
    panel.set(yscale="log", xlabel="step size ε", ylabel="J, and χ² (dashed, triangle)", xlim=(-0.01, 0.265))
    if floor > 0:
        panel.axhline(floor, color=GREY, ls=":", lw=1)
        panel.annotate(
            "independent draws", (0.0, floor), (2, -2), textcoords="offset points", fontsize=8, color=GREY, va="top"
        )
        panel.set_ylim(low, None)
    clean(panel)


def settled(rows, times: float):
    """Whether chains have at least so many autocorrelation times (an unknown one is too long)."""
    return rows.draws_a_chain >= times * rows.autocorrelation_time


def compare(table: pd.DataFrame, densities: pd.DataFrame, printed: pd.DataFrame):
    """AMAGOLD near the full-batch samplers, far below SGHMC, whose J grows."""
    yield no_bias(table)
    for model, title in PARTS:
        rows = Rows(table[table.model == model], "sampler", "step_size")
        position = Rows(printed[printed.model == model], "sampler", "step_size")
        ends = [("sghmc", 0.25), ("amagold", 0.25)]
        yield rows.judge(f"{title}, ε = .25: SGHMC's J against AMAGOLD's", "much lower in AMAGOLD", ends, lower)
        what = f"{title}, ε = .25: AMAGOLD's J close to full-batch L2MC's"
        yield rows.judge(what, "close", [*ends, ("l2mc", 0.25)], near)
        what = f"{title}: AMAGOLD's J less L2MC's grows with ε"
        sizes = sorted(size for size in table.step_size.dropna().unique() if size >= 0.05)
        both = [(name, size) for size in sizes for name in ("amagold", "l2mc")]
        yield rows.judge(what, "when the step size is large", both, widens)
        what = f"{title}, ε = .25: bias χ², which stays with more draws"
        yield rows.judge(what, "AMAGOLD is unbiased, SGHMC is not", ends, biases)
        for which, word, name in ((rows, "EA", "as in the code (EA)"), (position, "AE", "as printed (AE)")):
            steps = [("sghmc", size) for size in sorted(which.table.step_size.dropna().unique())]
            yield which.judge(f"{title}: the bias of SGHMC, {name}, increases with ε", "yes", steps, increases)
            what = f"{title}, ε = .01: the bias of SGHMC, {word}, and that of its limit ε → 0"
            law = partial(at_small_steps, law=bias_at_small_steps(densities, model, word))
            yield which.judge(what, "not in the paper", [("sghmc", 0.01)], law)


def no_bias(table: pd.DataFrame) -> tuple:
    """``unbiased`` of the settings whose chains have left their start."""
    table = table[table.exact_p.notna()]
    corrected, bare = table[table.sampler != "sghmc"], table[table.sampler == "sghmc"]
    judged, others = (rows[settled(rows, LENGTH)] for rows in (corrected, bare))
    of = "U and of the shares of draws in four parts of either axis"
    return unbiased("corrected samplers, all step sizes", "no bias", judged, others, of, len(corrected) - len(judged))


def lower(sghmc, amagold):
    here = f"{sghmc.J:.3g} ± {sghmc.J_error:.1g} against {amagold.J:.3g} ± {amagold.J_error:.1g}"
    return here, decided(apart(sghmc, amagold, "J"))


def near(sghmc, amagold, l2mc):
    here = f"{amagold.J:.3g} against {l2mc.J:.3g}, floor {amagold.floor:.2g}; SGHMC {sghmc.J:.3g}"
    if l2mc.J > l2mc.floor:
        here += f"; above its floor {(amagold.J - amagold.floor) / (l2mc.J - l2mc.floor):.0f} times L2MC's"
    ratio = amagold.J / l2mc.J
    error = LIMIT * ratio * np.hypot(amagold.J_error / amagold.J, l2mc.J_error / l2mc.J)
    here += f"; a factor of {ratio:.2f} ± {error / LIMIT:.2f} of L2MC's (close: below {CLOSE}, as Figure 3)"
    if not np.isfinite(error):
        return here, "not comparable: no error is known"
    verdict = "agrees" if ratio + error < CLOSE else "not resolved"
    return here, f"differs: a factor of {ratio:.1f}" if ratio - error > CLOSE else verdict


def widens(*rows):
    """Of AMAGOLD and L2MC in turn, at one step size after another: their gap, judged at the last beside the first."""
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    if len(pairs) < 2:
        return "", "not comparable: no run at another step size"
    gaps = [(ours.J - full.J, np.hypot(ours.J_error, full.J_error)) for ours, full in pairs]
    here = ", ".join(f"{gap:.2g} ± {error:.1g}" for gap, error in gaps)
    here += f" at {', '.join(f'{ours.step_size:g}' for ours, _ in pairs)}"
    (first, error), (last, last_error) = gaps[0], gaps[-1]
    return here, decided((last - first) / np.hypot(error, last_error))


def biases(sghmc, amagold):
    """Is SGHMC's bias seen, and AMAGOLD's not."""
    here = f"{amagold.bias:.1g} ± {amagold.bias_error:.1g} and {sghmc.bias:.2g} ± {sghmc.bias_error:.1g}; exact draws "
    here += f"would be as far from exact with p = {amagold.exact_p:.2g} and {sghmc.exact_p:.2g}"
    if amagold.exact_p < CHANCE / len(PARTS):
        return here, "differs: AMAGOLD's bias is significant"
    seen = sghmc.exact_p < CHANCE / len(PARTS) <= amagold.exact_p
    return here, "agrees" if seen else "not resolved"


def increases(*rows):
    """Whether no step size has a smaller bias than any below it, and the largest more than the smallest."""
    here = ", ".join(f"{row.bias:.3g} ± {row.bias_error:.1g}" for row in rows)
    here += f" at {', '.join(f'{row.step_size:g}' for row in rows)}"
    pairs = list(combinations(rows, 2))
    if not pairs:
        return here, "not comparable: no run at another step size"
    falls = [apart(one, other, "bias") for one, other in pairs]
    one, other = pairs[int(np.argmax(falls))]
    if max(falls) > limit(len(pairs), min(row.chains for row in rows)):
        lowest = min(rows, key=lambda row: row.bias)
        back = "" if lowest is rows[-1] else f", and rises beyond {lowest.step_size:g}"
        return here, f"differs: it falls from {one.step_size:g} to {other.step_size:g} by {max(falls):.0f} errors{back}"
    return here, decided(apart(rows[-1], rows[0], "bias"))


def at_small_steps(row, law: float):
    here = f"{row.bias:.3g} ± {row.bias_error:.1g}, limit {law:.3g}"
    return here, f"not claimed: {abs(row.bias - law) / row.bias_error:.1f} errors from it"
