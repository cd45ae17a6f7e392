"""AMAGOLD's Theorem 2 as a calculator: how much of L2MC's spectral gap is left under gradient noise, at the least.

    python scripts/theorem2.py --step-size 0.1 --noise 1 --steps 10
    python scripts/theorem2.py --steps 10 --noise 1 --at-least 0.5      # the largest step size that keeps a half

With a = ε T V²/(4 σ² β) the gap of AMAGOLD, at the mass σ' and the friction β' printed, is at least exp(−a − 2 √a)
times that of L2MC at σ and β, where ε V² ≤ 4 σ² β d (Zhang, Cooper and De Sa 2020, Theorem 2). A bound: what noise
takes from smooth functions, as measured, is in results/README.md.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.tables.theorem2 import step_size_for, theorem2


def main(words: list[str] | None = None) -> int:
    """0; 2 with one sentence where a number is out of range."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--step-size", type=float, help="ε of a step of the trajectory")
    which.add_argument("--at-least", type=float, help="the part of the gap to keep, for the largest ε that does")
    parser.add_argument("--noise", type=float, required=True, help="V: V²/d bounds a coordinate's gradient variance")
    parser.add_argument("--steps", type=int, required=True, help="T, of a trajectory")
    parser.add_argument("--sigma", type=float, default=1.0, help="√mass of L2MC (1)")
    parser.add_argument("--beta", type=float, default=0.25, help="friction of L2MC (.25)")
    parser.add_argument("--dim", type=int, default=1, help="d (1)")
    options = parser.parse_args(words)
    for name in ("step_size", "at_least", "noise", "steps", "sigma", "beta", "dim"):
        value = getattr(options, name)
        if value is not None and not 0 < value < math.inf:
            parser.error(f"--{name.replace('_', '-')}={value:g}: must be positive")
    if options.at_least is not None and options.at_least >= 1:
        parser.error(f"--at-least={options.at_least:g}: must be below 1, which no step size keeps")
    given = {name: getattr(options, name) for name in ("noise", "steps", "sigma", "beta")}
    try:
        epsilon = options.step_size or step_size_for(options.at_least, **given)
        found = theorem2(epsilon, dim=options.dim, **given)
    except (OverflowError, ZeroDivisionError):
        parser.error("these numbers are too large or too small to be multiplied")
    print(f"step size    {epsilon:.6g}")
    print(f"a            {found['a']:.6g}")
    print(f"gap          at least {found['bound']:.6g} of L2MC's with σ = {options.sigma:g}, β = {options.beta:g}")
    print(f"AMAGOLD's σ' {found['sigma']:.6g}   (σ²: mass={found['sigma'] ** 2:.6g})")
    print(f"AMAGOLD's β' {found['beta']:.6g}")
    if not found["valid"]:
        print("the theorem says nothing here: it asks for ε V² ≤ 4 σ² β d")
    return 0


if __name__ == "__main__":
    sys.exit(main())
