"""Which learning rate lets a corrected chain of a network accept half of its proposals, by the length of a cycle."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, NAMES, clean, ticks
from verdicts import limit, side

SOURCE = "How long may a cycle be, and how large ℓ, for half of the proposals to be accepted?"
CAPTION = """
How large may ℓ be for half of a network's proposals to be accepted? With independent minibatches it falls with every
longer cycle; with shuffled epochs it may be several times as large.

**What was run.** Exactly corrected chains from SGD, one a point: the step size is tuned in the burn-in to an acceptance
of a half (Robbins and Monro, on log h), then fixed for as many cycles again. Trajectories of Figure 1, between exact
gradients at both ends; friction that of β = .98 at ℓ = .1, for HMC none and fresh momentum. Paper scale, configured and
not run here: ResNet-20 on CIFAR-10, 400 cycles of 1 and 5 steps, 200, 120 and 80 of 1, 3 and 10 epochs, half burn-in.
Quick scale: as many cycles of a perceptron with 1,510 weights on the digits, 15 minibatches an epoch, prior variance
.1.

**What is drawn.** Left: ℓ, and the acceptance at the points. Right: a cycle's time h L, times its acceptance, over its
passes over the data (minibatches, and one for the end's U and gradient). Bars: the acceptance's standard error, from
ten parts of the chain (at 3 epochs six, at 10 four).

**To know.** Bars are too small where U moves more slowly than a part is long: HMC's longest shuffled cycles, at their
tuned step size, accept .34 to .43 in two chains of 300 cycles (`python run.py experiment=finding_cycles sampler=hmc
point=7 scale=quick tune.target=null lr=null step_size=0.00092249 cycles=400 burn_in=100 seed=0`, and `seed=1`). Chains
stand where the burn-in brought them: the table's `drift` is how far U still went. ℓ is compared as tuned: at equal
acceptances the ratios would be larger where shuffled epochs are accepted oftener, smaller where less often.
"""
NEAR_HALF, WARM, MORE = 0.15, 0.2, 2  # of an acceptance to a half, of a temperature to 1; times another ℓ
MISSING = "not comparable: a run is missing"
MARKS = {"ggmc": "o", "hmc": "s"}
STYLES = {"independent": "-", "shuffled": "--"}


def of_sampler(table: pd.DataFrame, sampler: str, law: str) -> pd.DataFrame:
    """A sampler's finished rows with one law of minibatches, by length."""
    done = table[(table.sampler == sampler) & (table.minibatches == law) & (table.status == "done")]
    return done.sort_values("steps")


def draw(table: pd.DataFrame) -> Figure:
    """ℓ, and accepted time a pass over the data, over the steps of a cycle."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.9), layout="constrained")
    for sampler, mark in MARKS.items():
        for law, style in STYLES.items():
            rows, colour = of_sampler(table, sampler, law), COLOURS[sampler]
            look = {"color": colour, "marker": mark, "ls": style, "ms": 5, "label": f"{NAMES[sampler]}, {law}"}
            left.plot(rows.steps, rows.lr, **look)
            for row in rows.itertuples():
                away = (9, 6) if sampler == "hmc" else (-9, -12)
                text = f"{row.accept_prob:.2f}".removeprefix("0")
                left.annotate(
                    text, (row.steps, row.lr), away, textcoords="offset points", color=colour, size=8, ha="center"
                )
            right.errorbar(rows.steps, rows.time, rows.time_error, **look)
    for panel in (left, right):
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.margins(x=0.12, y=0.15)  # room for the numbers
        panel.set_xlabel("steps of a cycle")
    left.set_ylabel("ℓ (at the points: acceptance)")
    right.set_ylabel("accepted time a pass over the data")
    right.legend(frameon=False, fontsize=9)
    ticks(right.yaxis)
    clean(left, right)
    figure.suptitle(title(table), fontsize=11)
    return figure


def change(table: pd.DataFrame, sampler: str) -> float:
    """ℓ at the longest cycle over that at one step, of independent minibatches."""
    rows = of_sampler(table, sampler, "independent")
    return rows.lr.iloc[-1] / rows.lr.iloc[0]


def gain(table: pd.DataFrame, sampler: str) -> pd.Series:
    """ℓ with shuffled over ℓ with independent minibatches, by the steps of a cycle."""
    one, other = (of_sampler(table, sampler, law).set_index("steps").lr for law in STYLES)
    return (other / one).dropna()


def title(table: pd.DataFrame) -> str:
    """What the left panel shows."""
    gains = {name: value for name in MARKS if len(value := gain(table, name))}
    last = [value.iloc[-1] for value in gains.values()]
    if gains and min(last) > MORE:
        # One digit: the acceptances that they were tuned to are not all alike.
        times = f"{float(f'{np.exp(np.log(last).mean()):.1g}'):g}"
        said = f"In the longest cycles ℓ may be about {times} times as large with shuffled minibatches\n(a chain each"
        final = [of_sampler(table, name, law).accept_prob.iloc[-1] for name in gains for law in STYLES]
        return said + f", acceptances {min(final):.2f} to {max(final):.2f})"
    lengths = {name: list(of_sampler(table, name, "independent").steps) for name in MARKS}
    known = [name for name, steps in lengths.items() if 1 in steps[:-1]]
    if not known:
        return "How large ℓ may be for half of the proposals to be accepted, by the length of a cycle"
    texts = [f"{_fold(change(table, name))} ({NAMES[name]})" for name in known]
    return f"From one step to {table.epochs.max():.0f} epochs a cycle the ℓ that accepts half {' and '.join(texts)}"


def _fold(value: float) -> str:
    size = float(f"{max(value, 1 / value):.2g}")
    return f"{'falls' if value < 1 else 'rises'} {size:,.0f}-fold" if size >= 10 else f"changes {size}-fold"


def _near_half(table: pd.DataFrame) -> str:
    """Whether all of the chains accept about a half, as far as their errors tell."""
    beyond = (table.accept_prob - 0.5).abs() - NEAR_HALF
    if beyond.max() < 0:
        return "agrees"
    away = (beyond / table.accept_prob_error).fillna(0)
    steps = table.steps[away.idxmax()]
    return side(-away.max(), limit(len(table)), ("agrees", "differs")) + f": L = {steps:.0f}"


def compare(table: pd.DataFrame):
    """Whether the tuning did what it was to do, and what theory and the paper have to say."""
    table = table[table.status == "done"]
    if table.empty:
        yield "all", "", "", "not comparable: no run"
        return
    here = f"{table.accept_prob.min():.2f} to {table.accept_prob.max():.2f} (agrees: within {NEAR_HALF})"
    yield "acceptance after the tuning", ".5", here, _near_half(table)
    warm = table.configurational_temperature
    here = f"{warm.min():.2f} to {warm.max():.2f} (agrees: within {WARM})"
    settled = bool((warm - 1).abs().max() < WARM)
    yield "configurational temperature", "1 in equilibrium", here, "agrees" if settled else "differs: still on the way"
    for sampler in MARKS:
        rows = of_sampler(table, sampler, "independent")
        here = ", ".join(f"{rate:.2g}" for rate in rows.lr) + f" at {', '.join(map(str, rows.steps))} steps"
        if len(rows) < 2:
            yield f"{NAMES[sampler]}, independent minibatches", "", "", MISSING
            continue
        falling = bool(np.all(np.diff(rows.lr) < 0))
        what = f"{NAMES[sampler]}, independent minibatches: ℓ falls with every longer cycle"
        yield what, "yes: the steps' energy errors add up", here, "agrees" if falling else "differs"
    for sampler in MARKS:
        more = gain(table, sampler)
        if more.empty:
            yield f"{NAMES[sampler]}, shuffled and independent minibatches", "", "", MISSING
            continue
        here = f"{', '.join(f'{value:.2g}' for value in more)} times at {', '.join(map(str, more.index))} steps (more: "
        rates = {law: of_sampler(table, sampler, law).set_index("steps").accept_prob[more.index] for law in STYLES}
        each = (f"{law} {', '.join(f'{rate:.2f}' for rate in some)}" for law, some in rates.items())
        here += f"above {MORE} times); accepted: {', '.join(each)}"
        what, small = f"{NAMES[sampler]}: ℓ with shuffled epochs over ℓ with independent minibatches", more.min() < MORE
        verdict = f"not resolved: one chain each, and less than {MORE} times" if small else "agrees"
        yield what, "more: an epoch's errors cancel", here, verdict
    shuffled = {sampler: of_sampler(table, sampler, "shuffled") for sampler in MARKS}
    if any(rows.empty for rows in shuffled.values()):
        yield "shuffled minibatches: the GGMC paper's claims", "", "", MISSING
        return
    longest = {sampler: rows.iloc[-1] for sampler, rows in shuffled.items()}
    ratio = longest["hmc"].lr / longest["ggmc"].lr
    here = f"HMC's ℓ is {ratio:.2g} times GGMC's at {longest['hmc'].steps:.0f} steps, where it accepts "
    here += (
        " and ".join(f"{longest[name].accept_prob:.2f}" for name in ("hmc", "ggmc")) + f" (more: above {MORE} times)"
    )
    verdict = "agrees" if ratio > MORE else "differs" if ratio < 1 / MORE else "not resolved: one chain each"
    yield "HMC accepts more than GGMC, shuffled", "yes (GGMC paper, section 4)", here, verdict
    rate = longest["ggmc"].lr
    verdict = "agrees" if 1e-6 < rate < 1e-4 else "differs"
    if table["data"].iloc[0] != 50_000:
        verdict = f"not comparable: {table['data'].iloc[0]:,.0f} data, another network"
    yield (
        "GGMC, 10 shuffled epochs: of 1e-6, 1e-4, 1e-3, 1e-2 the first alone accepts",
        "so ℓ of a half between 1e-6 and 1e-4 (GGMC paper, section 4)",
        f"{rate:.2g}",
        verdict,
    )
    best = {(name, law): of_sampler(table, name, law).set_index("steps").time for name in MARKS for law in STYLES}
    best = {key: one for key, one in best.items() if len(one)}
    here = "; ".join(
        f"{NAMES[name]}, {law}, {one.max():.2g} at L = {one.idxmax()}" for (name, law), one in best.items()
    )
    yield "farthest for a pass over the data", "not known", here, "not claimed"
