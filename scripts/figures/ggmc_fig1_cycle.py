"""GGMC paper, Figure 1, a single cycle in its own size, from SGD: what a CPU can do of it."""

import numpy as np
import pandas as pd
from figures import ggmc_fig1
from matplotlib.figure import Figure

SOURCE = "GGMC paper, Figure 1, one cycle from SGD"
CAPTION = """
What a CPU can do of Figure 1 in its own size: the chain's first cycle, from three epochs of SGD, where the paper has
the 101st. The larger ℓ, the less acceptance a cycle has: at 1e-6 alone it would be accepted. As the start is another,
no row can be compared with the paper.

**What was run.** Figure 1's ResNet-20 (272,826 weights, filter response normalisation), its 50,000 images, its batches
of 125, its friction and its cycle of 10 epochs (4,001 steps). Quick scale: 2,500 images, a quarter of the width, an
epoch (21 steps) from two epochs of SGD.

**What is drawn.** As Figure 1, every 10th step. Within the cycle log MH is of a minibatch's U, which scatters.

**To know.** GGMC's U rises at ℓ = .01 to where it settles; at smaller ℓ it is still on its way, and at 1e-6 it still
falls, as SGD had not come to an end. log MH so far above 0 there tells that the start is no draw of the target (of
which E MH = 1). GGMC's momentum, renewed many times in a cycle at the larger ℓ and hardly thrice at 1e-4, is about at T
= 1, too warm at ℓ = .01. Where U has settled, log MH goes on falling at the same rate: minibatch noise heats every
step, friction carries the heat away, and −log MH is what was carried away. HMC's momentum is not renewed within the
cycle: energy swings between U and the momentum, and the noise's heat stays, the more the larger ℓ. The noise's work is
½ h² times the gradients' variance over the mass, 1 here; the authors', estimated anew every epoch, is 1 or more. Their
notebooks' GGMC from SGD has batch normalisation and random augmentation.
"""
OTHERS = "not comparable: their mass, norm and images are others"
SMALL = "not comparable: fewer images, and steps"
SMALLEST = 1e-6  # ℓ, of which alone the paper says that its acceptance is close to 1


def draw(table: pd.DataFrame) -> Figure:
    """As Figure 1."""
    return ggmc_fig1.draw(table)


def compare(table: pd.DataFrame):
    """The authors' own first cycles from SGD, then as Figure 1."""
    mine = table[(table.sampler == "ggmc") & (table.lr == 1e-2)].dropna(subset=["step"]).sort_values("step")
    if len(mine) and mine.status.iloc[0] == "done":
        verdict = OTHERS if mine["data"].iloc[0] == 50000 else SMALL
        error, kinetic = -mine.log_accept.iloc[-1], mine.kinetic_temperature.mean()
        yield (
            "GGMC from SGD, ℓ = .01: energy error −log MH of the first cycle",
            "about 7·10⁵ (their notebooks)",
            f"{error:.3g}",
            verdict,
        )
        yield (
            "GGMC from SGD, ℓ = .01: kinetic temperature",
            "1.05 (their notebooks)",
            f"{kinetic:.3f}",
            verdict,
        )
        half = mine[mine.step >= mine.step.iloc[-1] / 2]
        first, second = (
            part.potential_per_datum.mean() for part in (half.head(len(half) // 2), half.tail(len(half) // 2))
        )
        if len(half) > 1:
            lost = half.log_accept.iloc[-1] - half.log_accept.iloc[0]
            here = f"{lost:.3g}, while U/N is {first:.2f}, then {second:.2f}"
            yield "GGMC, ℓ = .01: log MH lost in the cycle's second half", "-", here, "not claimed"
    ends = ggmc_fig1.last_points(table)
    for name, text in ggmc_fig1.ROWS:
        if name in ends and SMALLEST in ends[name].index:
            end = ends[name].loc[SMALLEST]
            here = f"{np.exp(min(end.log_accept, 0)):.3g}, log MH {end.log_accept:+.3g}"
            what = f"{text}: acceptance of the cycle at ℓ = {SMALLEST:g}"
            yield what, "close to 1 (section 4)", here, ggmc_fig1.START if end["data"] == 50000 else SMALL
    yield from ggmc_fig1.compare(table)
