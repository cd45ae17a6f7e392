"""What shuffled epochs take back of the minibatches' work: what a trajectory remembers of it."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from figures.finding_fig1 import FIRST, FULL, joined
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy.interpolate import PchipInterpolator
from style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, clean, handle
from verdicts import close, limit

SOURCE = "What do shuffled epochs take back?"
TABLES = ("finding_noise", "finding_noise_cost", "ggmc_fig1_cycle", "finding_fig1")
CAPTION = """
Why do shuffled epochs lower −log MH so much on a regression, and hardly on Figure 1's network? They take back what a
trajectory remembers of a minibatch's kick, and the ResNet soon forgets it. On Heart prediction and measurement agree,
but for 3.7 % at the largest ℓ.

**What was run.** GGMC's trajectories of whole epochs: on Heart four epochs between exact ends, 4,000 chains in
equilibrium (quick 400); with the ResNet-20 the cycles of Figure 1, ten epochs, one chain each.

**What is drawn.** Solid: what is remembered. A kick by a minibatch's error at the start displaces the path, the random
numbers being the same; drawn is what that displacement times the same minibatch's error gains in a step, over h² times
the first error's square (ResNet: four minibatches along one trajectory; interpolated between lags). Dashed: the error's
correlation with what it was. Dotted: friction's e^(−γt).

**Why.** A kick by an error ξ of the gradient does the work ½ h² |ξ|², and adds h² ξ·ξ' times what is remembered to that
of a later error ξ'. Over a shuffled epoch of n minibatches errors sum to 0, so each is expected to meet −1/(n − 1) of
itself at each of the n − 1 other places. To first order −log MH of shuffled epochs is that of independent minibatches
times (N − B)/(N − 1) (1 − mean memory over pairs of an epoch's places). Beside friction and correlation, curvature
turns the momentum and a displacement changes the error: the ResNet forgets half while nine tenths of the error are
still there.

**To know.** A solid line ends where the standard error of its sum until there exceeds .3 of that sum. The network's
prediction is of its first epoch alone, and rough; at quick scale (a quarter as wide, 2,500 images) no cycle is long
enough to compare.
"""
TARGETS = {"logistic": "logistic regression, Heart", "resnet20": "ResNet-20, CIFAR-10"}
LOOK = {"logistic": (GREEN, "o"), "resnet20": (BLUE, "s")}
COLOURS = (BLUE, SKY, GREEN, ORANGE, PURPLE)
STYLES = {"what is remembered": "-", "correlation of errors": "--", "friction": ":"}
NOISE = 0.3  # of what is carried: where its error exceeds that, what is measured is noise
EPOCHS = 10  # of Figure 1's cycle


class Case(NamedTuple):
    """A target at one rate: −log MH of independent minibatches, and that of shuffled epochs over it, as predicted of
    the errors' squares and of what is remembered, and as measured, each with its error. ``beyond`` is the former less
    its prediction, along the same trajectories (NaN where it is along others)."""

    target: str
    rate: float
    expected: float
    expected_ratio: tuple[float, float]
    cost: tuple[float, float]
    beyond: tuple[float, float]
    ratio: tuple[float, float]


def rates(table: pd.DataFrame, target: str) -> dict[float, pd.DataFrame]:
    """The rows of each learning rate of a target, in the order of the lags, of which there must be several."""
    part = table[(table.status == "done") & (table.target == target) & table.carried.notna()]
    return {rate: rows.sort_values("lag") for rate, rows in part.groupby("lr") if len(rows) > 1}


def memory(rows: pd.DataFrame) -> np.ndarray:
    """What is remembered a whole number of steps later, from 1 to an epoch less 1: what is carried gains it a step.

    The kick that is carried is made before the trajectory's first O, half a step's, which takes e^{−γh/2} of it: that
    is no part of what the kicks of a trajectory forget of each other.
    """
    carried = PchipInterpolator(rows.lag, rows.carried)(np.arange(rows.epoch.iloc[0] + 1))
    return (carried[2:] - carried[:-2]) / 2 / half_decay(rows)


def measured(rows: pd.DataFrame) -> int | None:
    """After how many steps what is carried is known no better than ``NOISE`` of it; None where it is all along."""
    lost = rows[rows.carried_error > NOISE * rows.carried.abs()]
    return int(lost.lag.iloc[0]) if len(lost) else None


def half_decay(rows: pd.DataFrame) -> float:
    """e^{−γh/2}, what the O of half a step leaves of the momentum."""
    return float(np.exp(-rows.friction.iloc[0] * rows.step_size.iloc[0] / 2))


def pairs(epoch: int) -> np.ndarray:
    """Which part of the ordered pairs of different places in an epoch are 1, 2, … steps apart."""
    return 2 * (epoch - np.arange(1, epoch)) / (epoch * (epoch - 1))


def ratio_of(rows: pd.DataFrame) -> tuple[float, float]:
    """−log MH of shuffled epochs between exact ends over that of as many independent minibatches, and its error.

    With errors that sum to 0 over an epoch, E[ξᵢ·ξⱼ] is −E|ξ|²/(n − 1) of n minibatches. The momentum decays by
    a = e^{−γh} between the halves of a kick, which does the work ½ h² |ξ|² (1 + a)/2 and, with what is remembered of an
    earlier one, h² ξᵢ·ξⱼ memory (1 + a)/2 (where nothing bends the path, memory is a^{k − 1} (1 + a)/2 after k steps):
    of the former remains what is forgotten. The error takes those of ``carried``, whose mean over the epoch, but for
    its ends, is half of an epoch's mean memory, as one.
    """
    one, epoch = rows.iloc[0], int(rows.epoch.iloc[0])
    drawn = (one.data - one.batch_size) / (one.data - 1)  # the errors' variance without replacement, over that with it
    errors = np.interp(np.arange(1, epoch), rows.lag, rows.carried_error)
    return drawn * (1 - float(pairs(epoch) @ memory(rows))), drawn * 2 * float(errors.sum()) / (
        epoch * (epoch - 1)
    ) / half_decay(rows)


def cost_of(rows: pd.DataFrame, epochs: int) -> float:
    """−log MH of as many independent minibatches as in epochs, by the errors along one shuffled epoch: ½ h² E|ξ|² each,
    but that the momentum decays between the halves of a kick."""
    one, variance = rows.iloc[0], np.trapezoid(rows.variance, rows.lag) / rows.lag.max()
    halves = (1 + np.exp(-one.friction * one.step_size)) / 2
    return float(epochs * one.epoch * one.step_size**2 / 2 * halves * variance)


def cases(table: pd.DataFrame, costs: pd.DataFrame, base: pd.DataFrame, changed: pd.DataFrame) -> Iterator[Case]:
    """The regression's, from its chains; the network's, one chain each, where the cycles have their full length."""
    costs = costs[(costs.status == "done") & (costs.target == "logistic")].set_index(["lr", "minibatches"])
    for rate, rows in rates(table, "logistic").items():
        if not {(rate, "independent"), (rate, "shuffled")} <= set(costs.index):
            continue
        one, other = costs.loc[(rate, "independent")], costs.loc[(rate, "shuffled")]
        error = np.hypot(other.cost_error, other.cost / one.cost * one.cost_error) / one.cost
        both = (one.cost, one.cost_error), (one.beyond, one.beyond_error), (other.cost / one.cost, error)
        yield Case("logistic", rate, one.work, ratio_of(rows), *both)
    cycles = joined(base, changed)
    ends = cycles[(cycles.exact_point == 1) & (cycles.step == FULL)].set_index(["lr", "minibatches", "mass"]).log_accept
    for rate, rows in rates(table, "resnet20").items():
        if not {(rate, "independent", "1"), (rate, *FIRST)} <= set(ends.index):
            continue
        one, other = -ends[(rate, "independent", "1")], -ends[(rate, *FIRST)]
        error = other / one * (2 / one + 2 / other) ** 0.5
        both = (one, (2 * one) ** 0.5), (np.nan, np.nan), (other / one, error)
        yield Case("resnet20", rate, cost_of(rows, EPOCHS), ratio_of(rows), *both)


def draw(table: pd.DataFrame, costs: pd.DataFrame, base: pd.DataFrame, changed: pd.DataFrame) -> Figure:
    """What is remembered over the lag, a panel a target; the ratios, predicted and measured."""
    figure, panels = pyplot.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
    for panel, (target, name) in zip(panels, TARGETS.items(), strict=False):
        for (rate, rows), colour in zip(rates(table, target).items(), COLOURS, strict=False):
            epoch = int(rows.epoch.iloc[0])
            over = np.arange(1, epoch) / epoch
            style, upto = {"color": colour, "lw": 1.2}, measured(rows)
            panel.plot(over[:upto], memory(rows)[:upto], label=f"ℓ = {rate:g}", **style)
            panel.plot(rows.lag / epoch, rows.correlation, ls="--", **style)
            panel.plot(over, np.exp(-(rows.friction * rows.step_size).iloc[0] * over * epoch), ls=":", **style)
        panel.axhline(0, color=GREY, lw=0.6)
        panel.set(xscale="log", xlabel="epochs since the kick", ylim=(-0.6, 1.05))
        panel.set_title(name, fontsize=10)
        if rates(table, target):
            handles = panel.get_legend_handles_labels()[0]
            handles += [handle(text, color="black", ls=line) for text, line in STYLES.items()]
            panel.legend(handles=handles, frameon=False, fontsize=7, loc="lower left")
    panels[0].set_ylabel("what is remembered")
    found, panel = list(cases(table, costs, base, changed)), panels[2]
    for target, (colour, marker) in LOOK.items():
        points = [(*one.expected_ratio, *one.ratio) for one in found if one.target == target and one.ratio[0] > 0]
        if points:
            x, dx, y, dy = np.array(points).T
            panel.errorbar(x, y, dy, dx, color=colour, marker=marker, ms=4, ls="none", label=TARGETS[target])
    ends = (0.005, 1.3)
    panel.plot(ends, ends, color=GREY, lw=0.6)
    panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="predicted ratio", ylabel="measured ratio")
    panel.set_title("−log MH, shuffled over independent", fontsize=10)
    if found:
        panel.legend(frameon=False, fontsize=7)
    clean(*panels)
    figure.suptitle(title(table), fontsize=11)
    return figure


def title(table: pd.DataFrame) -> str:
    """How long the network remembers, where that is far less than an epoch."""
    known = rates(table, "resnet20").values()
    # The first step with less than a half.
    halves = [next((step for step, left in enumerate(memory(rows), 1) if left < 0.5), np.inf) for rows in known]
    epoch = min((rows.epoch.iloc[0] for rows in known), default=0)
    if not halves or max(halves) > epoch / 4:
        return "What a trajectory remembers of a minibatch's kick over an epoch, shuffled epochs take back"
    steps = ", ".join(map(str, halves))
    rates_of = ", ".join(f"{rate:g}" for rate in rates(table, "resnet20"))
    some = f"about {steps} of an epoch's {epoch} steps (ℓ = {rates_of})"
    return f"From SGD's end a ResNet forgets half of a minibatch's kick in {some}"


def compare(table: pd.DataFrame, costs: pd.DataFrame, base: pd.DataFrame, changed: pd.DataFrame):
    """Predicted and measured, of each target and rate."""
    found = list(cases(table, costs, base, changed))
    if not found:
        yield "−log MH, predicted and measured", "", "", "not comparable: no run of both"
    for one in found:
        what = f"{TARGETS[one.target]}, ℓ = {one.rate:g}: −log MH of independent minibatches"
        here = f"{one.cost[0]:.3g} ± {one.cost[1]:.1g}"
        if one.target == "resnet20":  # whose weights leave SGD's end
            here += " (± √(2 cost), a trajectory's spread to the first order)"
            verdict = "not comparable: predicted of the first of ten epochs, whose errors are others"
        else:
            here += f", {one.beyond[0]:+.2g} ± {one.beyond[1]:.1g} from it along the same trajectories"
            verdict = close(one.beyond[0], 0.0, one.beyond[1], limit(len(found)))
        yield what, f"{one.expected:.3g}: ½ h² of each error's square", here, verdict
    for one in found:
        what = f"{TARGETS[one.target]}, ℓ = {one.rate:g}: that of shuffled epochs over it"
        (ratio, error), (expected, off) = one.ratio, one.expected_ratio
        if one.target == "resnet20":
            here = (
                f"{ratio:.3g} ± {error:.1g}: of {1 - expected:.2g} that are remembered {1 - ratio:.2g} are taken back"
            )
            verdict = "not comparable: predicted of the first of ten epochs"
        else:
            here, beyond = f"{ratio:.3g} ± {error:.1g}", limit(len(found)) * np.hypot(error, off)
            less = f"differs: {abs(1 - ratio / expected):.1%} {'less' if ratio < expected else 'more'}"
            verdict = "agrees" if abs(ratio - expected) < beyond else less
        yield what, f"{expected:.3g} ± {off:.1g}: what is forgotten", here, verdict
