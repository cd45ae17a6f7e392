"""Note of 2020, section 5.1: the effective energy of an uncorrected run, and symplectic Euler's that drifts."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, ORANGE, RED, clean
from verdicts import limit

SOURCE = "Note of 2020, effective energy"
CAPTION = """
The note expects the effective energy of an uncorrected run to fluctuate without drift. OVRVO's does so at small h, to
within errors. At larger h the anharmonic, uncorrected chain has a small drift too, some hundred times below symplectic
Euler's.

**What was run.** Ten unsymmetric quartic coordinates (U = x⁴/4 + x³/3 + x²/2), exact gradients, friction 1, from exact
draws, nothing rejected, 4,000 steps (e: 2,000; the number of chains a step size is in the table).

**What is drawn.** a: OVRVO's effective energy, the sum of ΔH̃ = ΔU − ½ Δθᵀ(∇Uⁿ + ∇Uⁿ⁺¹) + (h²b²/8) Δ|∇U|² over the
steps, where b is OVRVO's factor of h, a coordinate, one chain a step size. b: its curvature part alone: a difference of
the two ends, so it telescopes and cannot drift (where U is quadratic all of ΔH̃ is such a difference). c: the same sum
for symplectic Euler, mean over chains. d: drift a unit of time, means over chains ± 2 errors (the axis is linear within
1e-4 of 0); the dotted line is γh²E|∇U|²/4d. e: OVRVO whose momentum is drawn afresh every 500 steps: the sum is begun
anew there.

**Decided here.** The note has no effective energy of symplectic Euler. Taken for an O and a kick, its energy would
change by ΔU − Δθᵀ∇Uⁿ − (h²/2)|∇Uⁿ|² a step.
"""
TABLES = ("note_energy", "note_energy_drift")
COLOURS = (BLUE, GREEN, ORANGE, RED)


def draw(paths: pd.DataFrame, drift: pd.DataFrame) -> Figure:
    """Paths of the accumulated energy, and their drift over step sizes."""
    figure = pyplot.figure(figsize=(10, 6), layout="constrained")
    grid = figure.add_gridspec(2, 6)
    a, b, c = (figure.add_subplot(grid[0, 2 * k : 2 * k + 2]) for k in range(3))
    d, e = figure.add_subplot(grid[1, :3]), figure.add_subplot(grid[1, 3:])
    free, again = paths[paths.resampled == 0], paths[paths.resampled == 1]
    colours = dict(zip(sorted(free.step_size.unique()), COLOURS, strict=False))
    for size, colour in colours.items():
        ours = free[(free.sampler == "ovrvo") & (free.step_size == size)]
        euler = free[(free.sampler == "sghmc") & (free.step_size == size)]
        steps = ours.time / size
        a.plot(steps, ours.one, color=colour, lw=0.8, label=f"h = {size:g}")
        b.plot(steps, ours.one_curvature, color=colour, lw=0.8)
        steps = euler.time / size
        c.plot(steps, euler["mean"], color=colour, lw=1.2, label=f"h = {size:g}")
        c.fill_between(
            steps,
            euler["mean"] - 2 * euler.mean_error,
            euler["mean"] + 2 * euler.mean_error,
            color=colour,
            alpha=0.25,
            lw=0,
        )
        part = again[again.step_size == size]
        if len(part):
            e.plot(part.time / size, part.one, color=colour, lw=0.9)
    for panel in (a, c) if colours else ():
        panel.legend(frameon=False, fontsize=8, loc="upper left", handlelength=1.2)
    for panel, text in ((a, "a  OVRVO, one chain"), (b, "b  its curvature part"), (c, "c  symplectic Euler, mean")):
        panel.set_title(text, fontsize=10, loc="left")
        panel.set_xlabel("step")
    a.set_ylabel("accumulated ΔH̃/d")
    b.set_ylabel("curvature part of it")
    c.set_ylabel("accumulated ΔH̃/d")
    for name, colour, marker, text in (("sghmc", GREY, "D", "symplectic Euler"), ("ovrvo", "black", "o", "OVRVO")):
        part = drift[(drift.sampler == name) & drift.drift.notna()]
        d.errorbar(part.step_size, part.drift, 2 * part.drift_error.fillna(0), fmt=marker, color=colour, ms=5)
        for last in part[-1:].itertuples():
            away = {"textcoords": "offset points", "color": colour, "va": "center"}
            d.annotate(text, (last.step_size, last.drift), (8, 0), **away)
    part = drift[drift.sampler == "sghmc"]
    d.plot(part.step_size, part.leading, ":", color=GREY, lw=1.2)
    d.axhline(0, color="0.7", lw=0.8, zorder=0)
    d.set_yscale("symlog", linthresh=1e-4, linscale=0.6)
    d.set(xlabel="step size h", ylabel="drift of ΔH̃/d in a unit of time")
    if drift.drift.max() > 0:
        d.set(xlim=(0, 1.4 * drift.step_size.max()), ylim=(-5e-4, 4 * drift.drift.max()))
    d.set_title("d  drift", fontsize=10, loc="left")
    cycle, steps = 500, (again.time / again.step_size).dropna()
    for step in range(cycle, int(round(steps.max())), cycle) if len(steps) else ():
        e.axvline(step, color="0.6", lw=0.8, ls="--", zorder=0)
    e.set_title("e  OVRVO, momentum resampled at the dashed lines", fontsize=10, loc="left")
    e.set(xlabel="step", ylabel="accumulated ΔH̃/d")
    clean(a, b, c, d, e)
    least = min((factor(*pair) for pair in pairs(drift)), default=0)
    claim = f"OVRVO's effective energy drifts at least {least:.2g} times less than symplectic Euler's"
    figure.suptitle(claim if least >= 2 else "Effective energy of OVRVO and of symplectic Euler", fontsize=11)
    return figure


def pairs(drift: pd.DataFrame) -> list[tuple]:
    """Symplectic Euler's row and OVRVO's at each step size that both have, and how many errors each is known to."""
    known = drift[drift.drift.notna()]
    beside = {row.step_size: row for row in known[known.sampler == "ovrvo"].itertuples()}
    euler = known[known.sampler == "sghmc"]
    both = [(row, beside[row.step_size]) for row in euler.itertuples() if row.step_size in beside]
    return [(row, other, limit(len(euler), min(row.chains, other.chains))) for row, other in both]


def factor(euler, ours, errors: float) -> float:
    """How many times OVRVO's drift symplectic Euler's is at least, each so many errors from what was measured."""
    return max(euler.drift - errors * euler.drift_error, 0) / (abs(ours.drift) + errors * ours.drift_error)


def compare(paths: pd.DataFrame, drift: pd.DataFrame):
    """No systematic drift, at each step size; and the factor between the two integrators."""
    drift = drift[drift.drift.notna()]
    ours, euler = drift[drift.sampler == "ovrvo"], drift[drift.sampler == "sghmc"]
    for part, name in ((ours, "OVRVO"), (euler, "symplectic Euler")):
        if part.empty:
            yield f"{name}: all", "", "", f"not comparable: no run of {name}"
    for row in ours.itertuples():
        off = row.drift / row.drift_error
        most = limit(len(ours), ours.chains.min())
        verdict = f"differs: a small drift, of {off:.0f} errors; the uncorrected chain keeps doing work"
        if not (np.isfinite(off) and np.isfinite(most)):
            verdict = "not comparable: no error is known"
        elif abs(off) < most:
            verdict = f"agrees: a drift beyond {most * row.drift_error:.0e} would be seen"
        whole = f"{row.drift:.1e} ± {row.drift_error:.0e} a coordinate and unit of time, "
        whole += f"standard deviation of one chain about its own straight line {row.swing:.1e}"
        yield f"OVRVO, h = {row.step_size:g}: effective energy fluctuates, no systematic drift", "0", whole, verdict
    for row, other, errors in pairs(drift):
        below = row.drift + errors * row.drift_error < abs(other.drift) - errors * other.drift_error
        least = factor(row, other, errors)
        yield (
            f"symplectic Euler, h = {row.step_size:g}: its energy drifts",
            "larger than OVRVO's",
            f"{row.drift:.1e} ± {row.drift_error:.0e} ({row.leading:.1e} to leading order in h, derived here), "
            f"at least {least:.0f} times OVRVO's (both at {errors:.2g} errors)",
            "agrees" if least > 1 else "differs" if below else "not resolved",
        )
    for row in ours[-1:].itertuples():
        time = row.steps * row.step_size
        far, apart = abs(row.curvature_drift) * time, row.curvature_swing * np.sqrt(2 / row.chains)
        yield (
            "the curvature part telescopes",
            "bounded by its ends",
            f"mean over {row.chains} chains {far:.1e} after {time:g} units of time, standard deviation of one chain "
            f"{row.curvature_swing:.1e} a coordinate (h = {row.step_size:g}; bounded: as the difference of two draws)",
            "agrees" if far < limit(1, row.chains) * apart else "differs",
        )
