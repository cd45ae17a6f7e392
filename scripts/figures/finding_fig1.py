"""Figure 1's cycle of GGMC with an estimated mass, and with independent minibatches."""

import pandas as pd
from figures.ggmc_fig1 import COLUMNS, text_of
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, ORANGE, clean

SOURCE = "What would raise the acceptance of Figure 1?"
TABLES = ("ggmc_fig1_cycle", "finding_fig1")
CAPTION = """
What would raise the acceptance of Figure 1? An estimated mass makes −log MH of a cycle less at each ℓ, and the cycle
goes less far. Shuffling hardly helps, the less the larger ℓ; none of these cycles would ever be accepted.

**What was run.** GGMC's first cycle from SGD, as in "Figure 1, one cycle from SGD" (ResNet-20, 50,000 images, 4,001
steps between exact ends, one chain each): as it is there, with whole shuffled epochs and mass 1; with a mass, one
number a tensor of weights, estimated from the gradients of 32 minibatches where SGD ended and frozen (`mass=estimate`;
Wenzel et al. 2020); with independent minibatches (`sampler.minibatches=independent`). Quick scale: as there.

**Why.** The mass is 1 where the gradients are least and more elsewhere. That lowers the noise's work, ½ h² times the
gradients' variance over the mass, and slows the weights as well. Shuffling pays at small steps, on regressions and on a
small perceptron (see those findings). At these it hardly does, because what a minibatch's kick does is soon forgotten
("What do shuffled epochs take back?").

**To know.** The paper's authors estimated their mass anew every epoch, inside trajectories, whose acceptance is not
exact then.
"""
CHANGES = {
    ("shuffled", "1"): (GREEN, "Figure 1's: shuffled, mass 1"),
    ("shuffled", "estimated"): (ORANGE, "shuffled, mass estimated"),
    ("independent", "1"): (BLUE, "independent, mass 1"),
}
FIRST = ("shuffled", "1")
FULL = 4001  # steps of a cycle of the paper's
LESS = 0.9  # times another log MH; one chain's varies by √(2 |log MH|), two hundredths at most of what it is here


def joined(base: pd.DataFrame, changed: pd.DataFrame) -> pd.DataFrame:
    """The finished cycles of GGMC at the learning rates that were changed, with what was changed."""
    both = pd.concat([base[base.sampler == "ggmc"].assign(minibatches="shuffled", mass="1"), changed])
    both = both[(both.status == "done") & both.lr.isin(changed.lr)].dropna(subset=["step"])
    return both.assign(mass=both.mass.astype(str)).sort_values("step")


def draw(base: pd.DataFrame, changed: pd.DataFrame) -> Figure:
    """A row a learning rate; the panels of Figure 1."""
    table = joined(base, changed)
    rates = sorted(changed.lr.unique(), reverse=True)
    figure, panels = pyplot.subplots(
        len(rates), 3, figsize=(9, 0.6 + 2.1 * len(rates)), sharex=True, squeeze=False, layout="constrained"
    )
    for row, rate in zip(panels, rates, strict=True):
        for panel, (column, over) in zip(row, COLUMNS, strict=True):
            for key, part in table[table.lr == rate].groupby(["minibatches", "mass"]):
                colour, name = CHANGES[key]
                panel.plot(part.step, part[column], color=colour, lw=0.8, label=name)
                ends = part[part.exact_point == 1]
                panel.plot(ends.step, ends[column], "o", color=colour, ms=4)
            if rate == rates[0]:
                panel.set_title(over, fontsize=10)
        row[0].ticklabel_format(axis="y", style="sci", scilimits=(-4, 4))
        row[0].set_ylabel(text_of(rate))
    clean(*panels.flat)
    panels[-1][1].set_xlabel("number of minibatch steps")
    lines, texts = panels[0][0].get_legend_handles_labels()
    figure.legend(lines, texts, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle(title(table), fontsize=11)
    return figure


def title(table: pd.DataFrame) -> str:
    """What the estimated mass does to log MH of a whole cycle."""
    pairs = costs(table, ("shuffled", "estimated"))
    if not pairs or table.step.max() < FULL:
        return "A cycle of Figure 1, changed in one thing"
    times = ", ".join(f"{one / other:.2f} (ℓ = {rate:g})" for rate, (one, other) in sorted(pairs.items(), reverse=True))
    return (
        f"With an estimated mass a cycle goes less far, and its −log MH is\n{times} times what it was: never accepted"
    )


def costs(table: pd.DataFrame, key: tuple[str, str]) -> dict[float, tuple[float, float]]:
    """−log MH of the cycle with a change and without, of each learning rate that has both."""
    ends = table[(table.exact_point == 1) & (table.log_accept != 0)]  # it is 0 where a cycle begins
    ends = ends.groupby(["lr", "minibatches", "mass"]).last()
    known = [rate for rate in sorted(table.lr.unique()) if {(rate, *key), (rate, *FIRST)} <= set(ends.index)]
    return {rate: (-ends.log_accept[(rate, *key)], -ends.log_accept[(rate, *FIRST)]) for rate in known}


def compare(base: pd.DataFrame, changed: pd.DataFrame):
    """log MH of a cycle as it is in Figure 1 over that of each change."""
    table = joined(base, changed)
    rates, steps = sorted(table.lr.unique()), table.step.max()
    for key, expected in (
        (("shuffled", "estimated"), "less: the mass is 1 or more"),
        (("independent", "1"), "more, where the weights move little in an epoch"),
    ):
        what = f"−log MH of the cycle, {CHANGES[key][1]}, and as in Figure 1, ℓ = {', '.join(f'{r:g}' for r in rates)}"
        pairs = costs(table, key).values()
        if not pairs:
            yield what, expected, "", "not comparable: a run is missing"
            continue
        times = [one / other for one, other in pairs]
        here = ", ".join(f"{one:.3g} and {other:.3g} ({one / other:.2f} times)" for one, other in pairs)
        if steps < FULL:
            yield what, expected, here, f"not comparable: a cycle of {steps:.0f} steps, whose log MH is chance"
        elif key[1] == "1":
            yield what, expected, here, "not claimed"
        else:
            verdict = "agrees" if max(times) < LESS else "differs"
            yield what, expected, f"{here} (less: below {LESS} times)", verdict
