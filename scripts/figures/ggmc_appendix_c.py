"""GGMC paper, Appendix C: which schedules of the learning rate inside a trajectory have an acceptance probability."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, ORANGE, RED, clean
from verdicts import LIMIT, headed

SOURCE = "GGMC paper, Appendix C"
CAPTION = """
Appendix C says that a cosine of the learning rate inside a trajectory has acceptance probability zero, and that a
schedule which reads the same backwards can be corrected. So it is here. With its direction drawn at random for each
trajectory, which is not in the paper, the cosine is exact, too.

**What was run.** GGMC trajectories of 20 steps (21 gradients, whatever the schedule) with gradient noise N(0, 1) on ten
independent unsymmetric quartic coordinates, friction 1, one from each of many exact draws. Cosines are of ℓ, so that h
goes with their root.

**What is drawn.** Left: mean acceptance over the time Σ hᵢ that a trajectory goes, ± 2 errors; the program refuses the
cosine (log MH is −∞). Right: minus the log ratio of the densities of the path back and the path there, from their
definition, median and 5 to 95 %.

**Decided here.** The paper has no numbers: target, noise, friction and step sizes are chosen here. Equation 10 is read
as equation 2 has it, backward densities over forward ones, with momenta negated; as printed its ratio is upside down.

**To know.** For the cosine the way back meets the same positions and minibatches with the step sizes in the same order
again, and needs absurd noises for it. With noise in every direction the ratio is not zero but that of the right panel,
which no chain will ever accept.
"""
LOOK = {
    ("constant", "forward"): (BLUE, "o", "constant"),
    ("palindromic_cosine", "forward"): (GREEN, "s", "palindromic cosine"),
    ("cosine", "random"): (ORANGE, "^", "cosine, random direction"),
    ("cosine", "forward"): (RED, "D", "cosine"),
}


def draw(table: pd.DataFrame) -> Figure:
    """Acceptance over the time that a trajectory goes, and the log ratio of the path densities."""
    figure, panels = pyplot.subplots(1, 2, figsize=(9.4, 3.8), layout="constrained")
    for (name, direction), (colour, marker, text) in LOOK.items():
        part = table[(table.schedule == name) & (table.direction == direction)]
        panels[0].errorbar(
            part.time,
            part.accept,
            2 * part.accept_error.fillna(0),
            fmt=f"{marker}-",
            color=colour,
            ms=5,
            lw=1,
            label=text,
        )
        low, middle, high = -part.true_high, -part.true_median, -part.true_low
        panels[1].fill_between(part.time, low, high, color=colour, alpha=0.15, lw=0)
        panels[1].plot(part.time, middle, f"{marker}-", color=colour, ms=5, lw=1)
    panels[0].set(xlabel="time of a trajectory Σ hᵢ, at 20 steps", ylabel="mean acceptance", ylim=(-0.03, 1))
    panels[0].legend(frameon=False, fontsize=8)
    panels[0].set_title("acceptance at equal cost", fontsize=10)
    panels[1].set_yscale("symlog", linthresh=1, linscale=0.5)
    panels[1].set(xlabel="time of a trajectory Σ hᵢ, at 20 steps", ylabel="− log (path back / path there)")
    panels[1].set_title("the true log ratio", fontsize=10)
    clean(*panels)
    claim = "A cosine cannot be corrected; read both ways, or in a direction drawn at random, it can"
    rests = [row[3] for row in compare(table)]
    figure.suptitle(headed(claim, rests, "Schedules of the learning rate inside a trajectory"), fontsize=11)
    return figure


def compare(table: pd.DataFrame):
    """Appendix C's claims, and the acceptance at equal cost and equal time."""
    table = table[table.accept.notna()]
    for (name, direction), (_, _, text) in LOOK.items():
        part = table[(table.schedule == name) & (table.direction == direction)]
        if part.empty:
            yield text, "", "", "not comparable: no run of this schedule"
            continue
        if (name, direction) == ("cosine", "forward"):
            here = (
                f"program: −∞ (accepts {part.accept.max():.0f}); true log ratio at best {part.true_largest.max():.3g} "
                "(0: below −700)"
            )
            fine = part.accept.max() == 0 and part.true_largest.max() < -700
            yield "cosine (Zhang et al. 2019): acceptance", "0", here, "agrees" if fine else "differs"
            continue
        claim = "not in the paper" if name == "cosine" else "equation 10 is exact (its ratio as in equation 2)"
        here = f"log MH is the log ratio of the path densities to {part.off.max():.0e} (exact: 1e-9); "
        here += f"acceptance {part.accept.iloc[0]:.2f} … {part.accept.iloc[-1]:.2f} at times "
        here += f"{part.time.iloc[0]:.2g} … {part.time.iloc[-1]:.2g}"
        verdict = "agrees" if part.off.max() < 1e-9 else "differs"
        if name == "cosine" and verdict == "agrees":
            verdict = "not claimed: exact"
        yield text, claim, here, verdict
    constant = table[table.schedule == "constant"].set_index("step_size")
    other = table[table.schedule == "palindromic_cosine"].set_index("step_size")
    if constant.empty or other.empty:
        return
    best, best_other = constant.jump.idxmax(), other.jump.idxmax()
    gain = (other.jump[best_other] - constant.jump[best]) / np.hypot(
        other.jump_error[best_other], constant.jump_error[best]
    )
    yield (
        "best expected squared jump a trajectory, constant and palindromic",
        "-",
        f"{constant.jump[best]:.2f} ± {constant.jump_error[best]:.2f} (h = {best:g}) and "
        f"{other.jump[best_other]:.2f} ± {other.jump_error[best_other]:.2f} (largest h = {best_other:g})",
        "not claimed: "
        + ("the schedule gains" if gain > LIMIT else "it loses" if gain < -LIMIT else "no difference found"),
    )
