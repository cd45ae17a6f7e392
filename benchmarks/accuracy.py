"""Error of the kinetic part of log MH over 4,000 steps in 272,474 float32 coordinates, a cycle of a ResNet-20.

The library's flows (kick, refresh) against the same differences computed in float64 from the same stored momenta.
"""

from __future__ import annotations

import torch

from sgmcmc import flows

DIM, STEPS = 272_474, 4000
GOAL = 1e-4
KEEP = 0.95


def rows() -> list[dict]:
    """A row a size of h |∇U_i|; gradients and noise are windows of one long row of normals."""
    torch.set_num_threads(1)
    random, found = torch.Generator().manual_seed(1), []
    normals = torch.randn(1, 3 * DIM, generator=random)

    def noise() -> torch.Tensor:
        begin = int(torch.randint(2 * DIM, (), generator=random))
        return normals[:, begin : begin + DIM]

    for scale in (1e-3, 1e-2, 1e-1):
        m, ours, plain = noise(), 0.0, 0.0
        exact = torch.zeros((), dtype=torch.float64)
        for _ in range(STEPS):
            after = flows.kick(m, noise(), scale)
            ours += float(flows.kinetic_change(m, after, 1.0))
            plain += float(0.5 * (after.square().sum() - m.square().sum()))
            before, now = m.double(), after.double()
            exact += 0.5 * ((now - before) * (now + before)).sum()
            m = flows.refresh(after, noise(), KEEP, (1 - KEEP**2) ** 0.5)
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
