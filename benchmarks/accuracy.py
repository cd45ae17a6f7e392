"""Error of the kinetic part of log MH over 4,000 steps in 272,474 float32 coordinates, a cycle of a ResNet-20.

The flows of the library against the same differences computed in float64 from the same stored momenta.
"""

from __future__ import annotations

import torch

from sgmcmc import flows

DIM, STEPS = 272_474, 4000
GOAL = 1e-4


def rows() -> list[dict]:
    torch.set_num_threads(1)
    found = []
    for scale in (1e-3, 1e-2, 1e-1):
        random = torch.Generator().manual_seed(1)
        m, ours, plain = torch.randn(1, DIM, generator=random), 0.0, 0.0
        exact = torch.zeros((), dtype=torch.float64)
        for _ in range(STEPS):
            after = flows.kick(m, torch.randn(1, DIM, generator=random), scale)
            ours += float(flows.kinetic_change(m, after, 1.0))
            plain += float(0.5 * (after.square().sum() - m.square().sum()))
            exact += 0.5 * (after.double().square() - m.double().square()).sum()
            m = flows.refresh(after, torch.randn(1, DIM, generator=random), 0.95, (1 - 0.95**2) ** 0.5)
        error = abs(ours - float(exact))
        found.append(
            {
                "what": f"error of Σ ΔK over {STEPS} steps, {DIM:,} coordinates",
                "who": f"h |∇U_i| = {scale:g}",
                "goal": f"error at most {GOAL:g}: {error:.1e}, {'met' if error <= GOAL else 'missed'}",
                "note": f"K(m') − K(m) in float32: {abs(plain - float(exact)):.1e}",
            }
        )
    return found
