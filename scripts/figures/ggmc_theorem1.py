"""GGMC paper, Theorem 1: the step back of SGHMC never arrives where the step began; that of GGMC does."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, RED, clean
from verdicts import headed

SOURCE = "GGMC paper, Theorem 1"
CAPTION = """
The paper proves that the step back of SGHMC has density zero, with probability 1, and that GGMC's can be realized. So
it is here: no noise takes SGHMC back where it came from, in either order of its updates, and GGMC returns, up to
rounding.

**What was run.** One step from exact draws (θ, m) of an unsymmetric quartic in one dimension, friction 1, mass 1; then
the step back from (θ', −m'), with the noise that brings it nearest to (θ, −m). EA, momentum first, is the paper's
equations 5 and 6; AE, position first, is AMAGOLD's Algorithm 1. GGMC's backward noises are those of the paper's
appendix A.

**What is drawn.** Left: one draw (star) in the phase plane, h = 0.5, the ends (θ', −m') of each sampler's step
(diamonds), and the states that 300 random noises reach on the way back: a line for SGHMC, whose one noise cannot fill
two dimensions, the plane for GGMC. Right: the nearest distance against the step size, median and 5 to 95 % of
independent draws; a distance of exactly 0 is drawn at 1e-17, dotted is the rounding of float64. The line is the median
of the closed forms for small h, 0.674 h √(2γh); draw by draw the distance is h/√(1 + h²)·|m' − m| (EA) and h|m' − m|
(AE).

**Decided here.** The paper shows no numbers: target, friction and step sizes are chosen here.
"""
TABLES = ("ggmc_theorem1", "ggmc_theorem1_step")
LOOK = {"EA": (RED, "o", "SGHMC, EA"), "AE": (BLUE, "s", "SGHMC, AE"), "OBABO": (GREEN, "^", "GGMC")}
ROUNDING = 1e-17  # where a distance of exactly 0 is drawn


def draw(table: pd.DataFrame, step: pd.DataFrame) -> Figure:
    """The phase plane of one step, and the distances over step sizes."""
    figure, panels = pyplot.subplots(1, 2, figsize=(9.4, 4), layout="constrained")
    plane, distance = panels
    for word, (colour, marker, text) in LOOK.items():
        part = step[step.word == word]
        reached = part[part.what == "reached"].sort_values("theta")
        plane.plot(reached.theta, reached.momentum, ".", color=colour, ms=3, alpha=0.6, label=f"reached by {text}")
        mirror = part[part.what == "mirror"][:1]
        plane.plot(mirror.theta, mirror.momentum, "D", color=colour, mec="k", ms=6, zorder=5)
        if word == "EA" and {"aim", "nearest"} <= set(part.what):
            aim, near = part[part.what == "aim"].iloc[0], part[part.what == "nearest"].iloc[0]
            plane.plot([aim.theta, near.theta], [aim.momentum, near.momentum], color=colour, lw=1.5, ls=":")
            plane.plot(aim.theta, aim.momentum, "k*", ms=13, zorder=5)
            plane.annotate(
                "(θ, −m)", (aim.theta, aim.momentum), (0, 62), textcoords="offset points", fontsize=9, ha="center",
                arrowprops={"arrowstyle": "-", "color": "0.3", "lw": 0.7},
                bbox={"fc": "white", "ec": "none", "pad": 1},
            )  # fmt: skip
        part = table[table.word == word]
        middle = part["median"].clip(lower=ROUNDING)
        distance.fill_between(
            part.step_size, part.low.clip(lower=ROUNDING), part.high.clip(lower=ROUNDING), color=colour, alpha=0.2, lw=0
        )
        distance.plot(part.step_size, middle, marker, color=colour, ms=9 if word == "AE" else 5, mfc="none")
        spot = {"EA": (-2, -22), "AE": (-58, 8), "OBABO": (-92, 12)}[word]
        if len(part) < 2:
            continue
        text = text + (": rounding of float64" if word == "OBABO" else "")
        distance.annotate(
            text, (part.step_size.iloc[-2], middle.iloc[-2]), spot, textcoords="offset points", color=colour
        )
    h = np.array(sorted(table.step_size.unique()))
    distance.plot(h, 0.674 * h * np.sqrt(2 * h), color="0.3", lw=1)
    plane.set(xlabel="θ", ylabel="m")
    plane.set_title("one step, and where the step back can go", fontsize=10)
    plane.legend(frameon=False, fontsize=8, loc="lower right", markerscale=3)
    distance.set(xscale="log", yscale="log", xlabel="step size h", ylabel="distance of the nearest way back")
    distance.axhline(np.finfo(float).eps, color=GREY, lw=0.8, ls=":")
    distance.set_title("the nearest that any noise gets", fontsize=10)
    clean(*panels)
    claim = "No noise takes SGHMC back where it came from; GGMC returns to the last digit"
    rests = [row[3] for row in compare(table, step)]
    figure.suptitle(headed(claim, rests, "How near a step back comes to where the step began"), fontsize=11)
    return figure


def compare(table: pd.DataFrame, step: pd.DataFrame):
    """The theorem's claim for each word, and the closed forms."""
    for word, (_, _, text) in LOOK.items():
        part = table[(table.word == word) & table.off_formula.notna()]
        if part.empty:
            yield text, "", "", f"not comparable: no run of {text}"
            continue
        if word == "OBABO":
            most = part.off_formula.max()
            here = f"at most {most:.0e} away in {part.draws.sum():,} steps (realizable: 1e-12, rounding)"
            yield f"{text}: backward trajectory realizable", "yes", here, "agrees" if most < 1e-12 else "differs"
            continue
        never = bool((part.least > 1e-12).all())
        here = f"least distance {part.least.min():.0e} (0: below 1e-12) in {part.draws.sum():,} steps, median "
        here += f"{part['median'].iloc[0]:.1e} … {part['median'].iloc[-1]:.1e} for "
        here += f"h = {part.step_size.iloc[0]:g} … {part.step_size.iloc[-1]:g}"
        theirs = word == "EA"  # AE is AMAGOLD's order
        verdict = ("agrees" if theirs else "not claimed: so it is") if never else "differs from what is derived"
        what = f"{text}: backward density 0 with probability 1"
        yield what, "yes" if theirs else "not in the paper", here, verdict
        off = part.off_formula.max()
        form = "h/√(1 + h²)·abs(m' − m)" if word == "EA" else "h·abs(m' − m)"
        yield (
            f"{text}: nearest distance, each draw",
            f"{form} (derived here)",
            f"at most {off:.0e} off (exact: 1e-12)",
            "not claimed: exact" if off < 1e-12 else "differs from what is derived",
        )
