"""Note of 2020, sections 4.1 and 5: the temperatures that five integrators show, over step sizes, with their theory."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, ORANGE, PURPLE, RED, clean
from verdicts import headed, limit

SOURCE = "Note of 2020, temperatures of the integrators"
CAPTION = """
The note says that OVRVO's velocity is accurate at whole steps, and that Bussi and Parrinello's scheme, OBABO,
overestimates the velocity's temperature. Here both have the right kinetic temperature at whole steps. What the note
says of OBABO holds at half steps, by the closed form.

**What was run.** A harmonic oscillator (stiffness, mass, temperature 1), exact gradients, friction 1, nothing rejected,
chains from exact draws (their number, their draws after a burn-in of 20 cycles and τ in cycles are in the table).

**What is drawn.** Position variance, which is the configurational temperature ⟨θ, ∇U⟩/d here, and kinetic temperature
at whole steps, ± 2 standard errors over chains. Lines are closed forms. With w = 1 − h²/4 (OVRVO: 1 − b²h²/4) they are,
for position and whole-step momentum, OVRVO and OBABO 1/w and 1; BAOAB 1 and w; ABOBA 1 and 1/w; symplectic Euler
(SGHMC), β = 1 − γh, s = 1 − h²/(2(1 + β)): 1/s and 2/((1 + β)s). Dashed, not measured: OVRVO at half steps.

**Decided here.** The note has no figure and no numbers: what is shown, and the friction, are chosen here. The closed
forms are of this oscillator, not the note's; what it says of momenta is in the last two rows.

**To know.** At half steps, where the note's equation 27 takes the momentum, OBABO's and OVRVO's kinetic temperature is
1/w, as the position's: so the note's velocity u, made at whole steps, is the estimator to trust. That OVRVO's position
is more accurate at half steps is not tested.
"""
TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50)
LOOK = {  # colour, marker and name
    "ovrvo": (ORANGE, "o", "OVRVO"),
    "ggmc": (GREEN, "s", "OBABO (GGMC)"),
    "baoab": (BLUE, "^", "BAOAB"),
    "aboba": (PURPLE, "v", "ABOBA"),
    "sghmc": (RED, "D", "symplectic Euler (SGHMC)"),
}


def draw(table: pd.DataFrame) -> Figure:
    """Position variance and kinetic temperature over the step size: measured as dots, closed forms as lines."""
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.9), layout="constrained", sharey=True)
    for name, (colour, marker, text) in LOOK.items():
        part = table[(table.sampler == name) & (table.stable == 1)]
        for panel, key in zip(panels, ("variance", "kinetic"), strict=True):
            panel.plot(part.step_size, part[f"{key}_formula"], color=colour, lw=1.2)
            errors = 2 * part[f"{key}_error"].fillna(0)
            panel.errorbar(
                part.step_size,
                part[key],
                errors,
                fmt=marker,
                color=colour,
                ms=8 if name == "ovrvo" else 5,
                mfc="white",
                mew=1.3,
                label=text,
            )
        if name == "ovrvo":
            half = "OVRVO at half steps (OBABO's: as ABOBA's)"
            panels[1].plot(part.step_size, part.kinetic_half_formula, color=colour, lw=1, ls="--", label=half)
    for panel, title in zip(panels, ("position variance = configurational T", "kinetic T at whole steps"), strict=True):
        panel.axhline(1, color="0.6", lw=0.8, ls=":", zorder=0)
        panel.set(yscale="log", xlabel="step size h √(k/m)", xlim=(0, 1.9), ylim=(0.17, 60))
        panel.set_yticks(TICKS, map(str, TICKS))
        panel.minorticks_off()
        panel.set_title(title, fontsize=10)
    panels[0].set_ylabel("temperature (target: 1)")
    panels[0].legend(frameon=False, fontsize=8, loc="upper left")
    lines, texts = panels[1].get_legend_handles_labels()
    panels[1].legend(lines[:1], texts[:1], frameon=False, fontsize=8, loc="lower left")
    clean(*panels)
    claim = "OVRVO and OBABO keep the kinetic, BAOAB and ABOBA the configurational temperature"
    rests = [row[3] for row in compare(table)][: 2 * len(LOOK)]
    figure.suptitle(headed(claim, rests, "Temperatures that five integrators show over the step size"), fontsize=11)
    return figure


def compare(table: pd.DataFrame):
    """Every measured temperature against its closed form, and what the note says of OVRVO."""
    for name, (_, _, text) in LOOK.items():
        part = table[(table.sampler == name) & (table.stable == 1) & table.kinetic.notna()]
        if part.empty:
            yield f"{text}: temperatures", "", "", f"not comparable: no run of {text}"
            continue
        for key, what in (("variance", "position variance"), ("kinetic", "kinetic temperature")):
            off = (part[key] - part[f"{key}_formula"]) / part[f"{key}_error"]
            most = limit(len(part), part.chains.min())
            fine = bool((off.abs() < most).all())
            here = f"{part[key].iloc[0]:.3f} … {part[key].iloc[-1]:.3f}, "
            here += f"at most {off.abs().max():.1f} errors off (limit {most:.1f})"
            formula = f"{part[f'{key}_formula'].iloc[0]:.3f} … {part[f'{key}_formula'].iloc[-1]:.3f} (derived here)"
            verdict = "not claimed: as derived" if fine else "differs from what is derived"
            yield f"{text}: {what}, {len(part)} step sizes", formula, here, verdict
    for name, what, paper in (
        ("ovrvo", "OVRVO's velocity is accurate at whole steps, h ≤ 1", "T = 1 (section 4.1)"),
        (
            "ggmc",
            "Bussi and Parrinello's scheme (OBABO) overestimates the velocity's temperature, h ≤ 1",
            "above T = 1",
        ),
    ):
        part = table[(table.sampler == name) & (table.step_size <= 1) & (table.kinetic_error > 0)]
        if part.empty:
            yield what, paper, "", f"not comparable: no run of {LOOK[name][2]} with an error"
            continue
        mean = np.average(part.kinetic, weights=part.kinetic_error**-2)
        error = (part.kinetic_error**-2).sum() ** -0.5
        away, most = (mean - 1) / error, limit(chains=part.chains.min())
        here = f"kinetic {mean:.4f} ± {error:.4f} at whole steps; position up to {part.variance.max():.3f}"
        if name == "ovrvo":
            verdict = "agrees" if abs(away) < most else "differs"
        else:
            here += f"; at half steps up to {part.kinetic_half_formula.max():.3f}, by the closed form"
            half = "not decided: true of the momentum at half steps, not at whole ones, and the note does not say which"
            verdict = "agrees" if away > most else "differs at whole steps" if away < -most else half
        known = np.isfinite(away) and np.isfinite(most)
        yield what, paper, here, verdict if known else "not comparable: no error is known"
