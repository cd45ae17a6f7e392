"""Whether the temperatures that a run measures are those of equilibrium."""

from __future__ import annotations

import math

import numpy as np

from sgmcmc.diagnostics import LEAST
from sgmcmc.kernel import Kernel
from sgmcmc.potentials import Potential
from sgmcmc.potentials.analytic import FunctionPotential

TOLD = 0.2  # of T: how far a temperature is from it that is told
SIGN = "U falls away from 0 there: is its mode further out, or is it log p in place of -log p?"


def out_of_equilibrium(metrics: dict, temperature: float, momenta: int) -> list[tuple[str, float]]:
    """Which of the two temperatures are far from T, each with its mean over the rows (where a row ends) of the second
    half of the cycles.

    Of ``LEAST`` rows or more a mean is far if it is off by more than a fifth of T and by more than six standard errors
    of independent rows. A row's is known of the kinetic one, T √(2/momenta) in equilibrium: it is a mean over so many
    ``momenta``, of all chains and coordinates. The other's is the rows' own spread, which hides how far they are where
    they grow, as in a chain that runs away: the mean of their logarithms, which in equilibrium is below log T, is
    looked at likewise. As rows need not be independent, the means of all of ``LEAST`` blocks of them have to lie on
    that side of T, too.

    Of fewer rows, in as many cycles or more, the kinetic one alone is told, and by the error of a single row.
    """
    found = []
    for kind in ("kinetic", "configurational"):
        kinetic = kind == "kinetic"
        values = _late(metrics, kind)
        few = len(values) < LEAST
        if few and (not kinetic or not len(values) or metrics["cycle"][-1] < 2 * LEAST):
            continue
        mean = float(values.mean())
        spread = temperature * math.sqrt(2 / momenta) if kinetic else float(values.std(ddof=1))
        error = spread if few else spread / math.sqrt(len(values))
        blocks = [values] if few else np.array_split(values, LEAST)
        sides = {bool(block.mean() > temperature) for block in blocks}
        far = abs(mean - temperature) > max(TOLD * temperature, 6 * error)
        far = far or not kinetic and _grown(values, temperature)
        if far and len(sides) == 1:
            found.append((kind, mean))
    return found


def _grown(values: np.ndarray, temperature: float) -> bool:
    """Whether the mean of the values' logarithms is above log T by more than a fifth of T and six standard errors."""
    if not bool((values > 0).all()):
        return False
    logs = np.log(values / temperature)
    return float(logs.mean()) > max(math.log1p(TOLD), 6 * float(logs.std(ddof=1)) / math.sqrt(len(logs)))


def _late(metrics: dict, kind: str) -> np.ndarray:
    """The temperatures of a kind, as far as they are finite, of the rows that end in the second half of the cycles."""
    cycles = metrics["cycle"]
    values = metrics.get(f"{kind}_temperature", cycles * math.nan)
    return values[(abs(values) < math.inf) & (cycles > cycles[-1:] / 2)]


def disequilibrium(metrics: dict, kernel: Kernel, potential: Potential, alive: int) -> str | None:
    """The sentence that tells of temperatures of so many chains, ``alive``, that are ``out_of_equilibrium``; None where
    none is."""
    temperature, moves = kernel.temperature, getattr(potential, "moves", None)
    momenta = alive * (potential.dim if moves is None else int(moves.sum()))
    if not temperature or not (off := out_of_equilibrium(metrics, temperature, momenta)):
        return None
    means = " and ".join(f"{kind} temperature {mean:.3g}" for kind, mean in off)
    why = "too few cycles, or too large steps" if kernel.acceptance == "monitor" else "too few cycles"
    # ⟨θ, ∇U⟩/d has a term of the boundary there.
    walled = [kind for kind, _ in off] == ["configurational"] and float(np.nansum(metrics["not_finite"])) > 0
    wall = ", unless U has a wall, where this temperature is another" if walled else ""
    sign = f"; {SIGN}" if any(mean < 0 for _, mean in off) and is_of_ones_own(potential) else ""
    return f"mean {means} in the second half, and T is {temperature:g}: not in equilibrium ({why}){wall}{sign}"


def is_of_ones_own(potential: Potential) -> bool:
    """Whether its sign is a user's: of a class, or a function, that is not the library's."""
    return isinstance(potential, FunctionPotential) or not type(potential).__module__.startswith("sgmcmc.")


def falls_outwards(metrics: dict, potential: Potential) -> bool:
    """Whether one's own U falls in the direction of θ, ⟨θ, ∇U⟩ < 0, where the second half of these rows end, as a log
    density does that was taken for U. Of a chain that does not move it may do so rightly, between 0 and a mode."""
    return is_of_ones_own(potential) and bool(_late(metrics, "configurational").sum() < 0)
