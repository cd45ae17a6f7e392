"""AMAGOLD, Figure 4: error of the posterior mean of Bayesian logistic regression, over step sizes and over seconds."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd
from figures.amagold_fig2 import SAMPLERS
from figures.amagold_fig8 import LOW, UNTOLD
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy.stats import t as student
from style import COLOURS, GREY, MARKERS, NAMES, clean
from verdicts import CHANCE, LIMIT, Rows, apart, decided, headed, mark_diverged, not_much_slower, timed, welch

SOURCE = "AMAGOLD, Figure 4"
TABLES = ("amagold_logistic", "amagold_logistic_growth", "amagold_logistic_acceptance", "amagold_logistic_printed")
CAPTION = """
The paper finds AMAGOLD's error below SGHMC's on varying step sizes, and AMAGOLD significantly faster than full-batch
samplers and not much slower than SGHMC. Here its error is smaller beyond errors in one of 16 settings and larger in
none, and its speed is not decided.

**What was run.** Three chains a step size, of the paper's 5,000,000 trajectories (SGHMC, AMAGOLD) or of a tenth (HMC,
L2MC), which alone makes errors larger, after 1,000 of burn-in. Quick scale: 2,500 of each after 500, too few to tell
SGHMC's bias. The reference mean is of tuned HMC, 100 chains of 100,000 draws (quick 1,500). Means are of every 20th
draw (quick 10th).

**What is drawn.** Squared error of a chain's mean, averaged over coordinates and chains; bars are standard errors, of
three chains and so known to a half. Thin dashed, so far for AE on Heart at ε = .005 alone: the squared bias that the
chains share, less the reference's error, where Student's t sees it and τ is known; its error may be twice too large.
Dotted, where near: the reference's error. The paper's runtimes are at ε = .0001.

**Decided here.** Standardised columns, prior N(0, 100 I), σ = 1, start from independent standard normals, burn-in, step
sizes, independent minibatches (the authors' are of a new permutation). SGHMC moves momentum first (EA) and, thin on the
left, position first (AE), as in Figure 1.

**To know.** Seconds are of one chain by itself, compiled, in the fastest tenth of its rows of metrics, timed once on
machines with other work. A trajectory is ten gradients and U: HMC's comes with its last gradient, SGHMC's every 1,000th
time only (quick: every time). On so few data a full gradient takes no longer than calling it; on many, passes over them
count. At small ε chains are shorter than 50 τ, and errors are mostly of how far they have come. As ε → 0 EA is too cold
and AE too hot (derived under Figure 1); gradient noise heats. Errors are compared by Welch's t of logarithms.
"""
PARTS = (("australian", "(a) Australian"), ("heart", "(b) Heart"))
LENGTH = 50  # of τ, the chains that are told from slow ones
OVER = {"ls": "--", "ms": 7, "mfc": "none", "zorder": 3}  # HMC, which L2MC hardly differs from


def draw(table: pd.DataFrame, growth: pd.DataFrame, acceptance: pd.DataFrame, printed: pd.DataFrame) -> Figure:
    """A row a data set."""
    figure, panels = pyplot.subplots(2, 3, figsize=(9.6, 6), sharey="row", layout="constrained")
    for row, (data, title) in zip(panels, PARTS, strict=True):
        over_steps(row[0], table[table.data == data], printed[printed.data == data])
        along(row[1], growth[growth.data == data], "seconds_a_cycle")
        along(row[2], growth[growth.data == data], "passes_a_cycle")
        row[0].set(ylabel=f"{title}: MSE", xlabel="step size ε")
        row[1].set_xlabel("seconds of one chain")
        row[2].set_xlabel("passes over the data")
        clean(*row)
    panels[0, 0].legend(frameon=False, fontsize=8)
    claim = "Within a chain's length small step sizes are too small for every sampler"
    instead = "Error of the posterior mean of Bayesian logistic regression"
    figure.suptitle(headed(claim, too_small(table), instead), fontsize=11)
    return figure


def too_small(table: pd.DataFrame) -> Iterator[str]:
    """The verdict, for each sampler and data set, on its smallest step size's error being above its least one."""
    for _, part in table[table.mse.notna()].sort_values("step_size").groupby(["data", "sampler"]):
        yield farther(part.iloc[0], part.loc[part.mse.idxmin()])


def over_steps(panel, table: pd.DataFrame, printed: pd.DataFrame) -> None:
    """Error and shared bias over step sizes; that of SGHMC as printed is thin."""
    look = {"color": COLOURS["sghmc"], "marker": MARKERS["sghmc"], "ms": 2.5, "lw": 0.7}
    label = f"{NAMES['sghmc']} (AE)"
    panel.errorbar(printed.step_size, printed.mse, printed.mse_error, **look, label=label)
    mark_diverged(panel, printed, "step_size", "mse")
    for name in SAMPLERS:
        part, colour = table[table.sampler == name], COLOURS[name]
        short = part.cycles.max() < 0.5 * table.cycles.max()
        panel.errorbar(
            part.step_size,
            part.mse,
            part.mse_error,
            color=colour,
            marker=MARKERS[name],
            lw=1.4,
            **OVER if name == "hmc" else {"ms": 4},
            label=NAMES[name] + ", a tenth as long" * bool(short),
        )
        mark_diverged(panel, part, "step_size", "mse")
        show_bias(panel, part, colour, 0.9)
    show_bias(panel, printed, COLOURS["sghmc"], 0.5)
    reference, low = table.reference_mse.min(), table.mse.min() / 4
    if reference > low:
        panel.axhline(reference, color=GREY, ls=":", lw=1)
        panel.text(1e-6, reference, "error of the reference", fontsize=8, color=GREY, va="bottom")
    panel.set(xscale="log", yscale="log")
    if low > 0:
        panel.set_ylim(low, None)


def show_bias(panel, part: pd.DataFrame, colour: str, width: float) -> None:
    """The shared bias, where it is seen and chains are long enough to know their autocorrelation time."""
    biased = part[shared(part) & part.autocorrelation_time.notna()]
    panel.plot(biased.step_size, biased.bias2, color=colour, ls="--", lw=width, marker="_", ms=6)


def sure(chains):
    """Standard errors beyond which a bias that chains share is seen."""
    return np.maximum(LIMIT, student.isf(CHANCE, chains - 1))


def shared(rows):
    """Whether the bias that the chains share is seen."""
    return rows.bias2 > sure(rows.chains) * rows.bias2_error


def along(panel, table: pd.DataFrame, cost: str) -> None:
    """Error along the chain over what a cycle costs."""
    for name in SAMPLERS:
        for size, width, alpha in ((1e-4, 1.0, 0.5), (1e-3, 1.8, 1.0)):
            part = table[(table.sampler == name) & (table.step_size == size)]
            over = {"ls": "--", "zorder": 3} if name == "hmc" else {}  # as on the left
            panel.plot(part.cycles * part[cost], part.mse, color=COLOURS[name], lw=width, alpha=alpha, **over)
    panel.set(xscale="log", yscale="log")
    late = table[(table.step_size == 1e-4)].mse.dropna()
    if not len(late):
        return
    panel.text(
        0.02, late.max(), "thin: ε = .0001, thick: .001", transform=panel.get_yaxis_transform(), fontsize=8, va="bottom"
    )


def compare(table: pd.DataFrame, growth: pd.DataFrame, acceptance: pd.DataFrame, printed: pd.DataFrame):
    """AMAGOLD against SGHMC of both orders at all step sizes and at the two largest, against itself at these, HMC, and
    the costs."""
    sizes = sorted(table[table.sampler.isin(("sghmc", "amagold"))].step_size.dropna().unique())
    settings = [(data, size) for data, _ in PARTS for size in sizes]
    orders = {
        "SGHMC's": table,
        "that of SGHMC as printed (AE)": pd.concat([table[table.sampler == "amagold"], printed]),
    }
    for whose, both in orders.items():
        yield Rows(both, "sampler", "data", "step_size").judge(
            f"AMAGOLD's error below {whose}, all {len(settings)} step sizes of both data sets",
            "smaller on varying step sizes",
            [(name, *setting) for setting in settings for name in ("sghmc", "amagold")],
            everywhere,
        )
    for data, title in PARTS:
        here = {whose: Rows(both[both.data == data], "sampler", "step_size") for whose, both in orders.items()}
        rows = here["SGHMC's"]
        for size in (1e-3, 5e-3):
            keys = [("sghmc", size), ("amagold", size)]
            for whose, both in here.items():
                yield both.judge(f"{title}, ε = {size:g}: AMAGOLD's error below {whose}", "smaller", keys, smaller)
        keys = [("amagold", 5e-3), ("amagold", 1e-3)]
        what = f"{title}: AMAGOLD's error at ε = .005 above that at .001"
        taken = acceptance[(acceptance.data == data) & (acceptance.step_size == 5e-3)].accepted
        yield rows.judge(what, "large, for its acceptance drops", keys, partial(larger, taken.mean()))
        keys = [("amagold", 5e-3), ("hmc", 5e-3)]
        what = f"{title}, ε = .005: squared error times trajectories, AMAGOLD beside HMC"
        yield rows.judge(what, "not in the paper", keys, a_trajectory)
        costs = Rows(growth[growth.data == data].drop_duplicates("sampler"), "sampler")
        what = f"{title}: AMAGOLD faster than HMC and L2MC, seconds of a trajectory"
        yield costs.judge(what, "significantly", [("amagold",), ("hmc",), ("l2mc",)], faster)
        what = f"{title}: AMAGOLD not much slower than SGHMC, seconds of a trajectory"
        yield costs.judge(what, "not much", [("amagold",), ("sghmc",)], slower)


def too_short(*rows) -> str | None:
    """The verdict on chains shorter than 50 autocorrelation times, or than it takes to know them."""
    if all(row.cycles >= LENGTH * row.autocorrelation_time for row in rows):
        return None
    return f"not comparable: {rows[0].cycles:,.0f} trajectories are too few to tell bias from slowness"


def farther(one, other) -> str:
    """The verdict on whether the first's error is the larger. Of so few chains it is their logarithms that tell: where
    one error is scatter, its own standard error grows with it."""
    return decided(apart(one, other, "log_mse"), welch(one, other, "log_mse"))


def smaller(sghmc, amagold):
    here = (
        f"{amagold.mse:.2g} ± {amagold.mse_error:.1g} against {sghmc.mse:.2g} ± {sghmc.mse_error:.1g}; shared squared "
        f"bias {amagold.bias2:.1g} ± {amagold.bias2_error:.1g}, {sghmc.bias2:.1g} ± {sghmc.bias2_error:.1g}"
    )
    if not any(shared(row) for row in (amagold, sghmc)):
        here += f" (neither is seen: of {sghmc.chains:.0f} chains {sure(sghmc.chains):.0f} errors would tell)"
    return here, too_short(sghmc, amagold) or farther(sghmc, amagold)


def everywhere(*rows):
    """Of SGHMC and AMAGOLD in turn, at one setting after another: where AMAGOLD's error is the smaller."""
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    ratios = np.array([amagold.mse / sghmc.mse for sghmc, amagold in pairs])
    short = np.array([too_short(*pair) is not None for pair in pairs])
    if short.all():
        return "", too_short(*pairs[0])
    found = [farther(*pair) for pair in pairs]
    names = [f"{dict(PARTS)[one.data].split()[-1]}, ε = {one.step_size:g}" for one, _ in pairs]
    smaller, larger = (
        [name for name, verdict in zip(names, found, strict=True) if verdict.startswith(word)]
        for word in ("agrees", "differs")
    )
    here = (
        f"{ratios.min():.2f} to {ratios.max():.2f} times SGHMC's, above 1 in {(ratios > 1).sum()} of {len(pairs)}, and "
    )
    here += f"in {(ratios[~short] > 1).sum()} of the {(~short).sum()} whose chains are {LENGTH} τ or longer; beyond "
    here += f"errors, each at one in a hundred, smaller in {len(smaller)}" + f" ({'; '.join(smaller)})" * bool(smaller)
    here += f", larger in {len(larger)}" + f" ({'; '.join(larger)})" * bool(larger)
    for verdict, settings in (("agrees", smaller), ("differs", larger)):
        if len(settings) > len(pairs) / 2:
            return here, f"{verdict}: in {len(settings)} of {len(pairs)}"
    return here, f"not resolved: decided in {len(smaller) + len(larger)} of {len(pairs)}"


def larger(accepted, large, small):
    here = f"{large.mse:.2g} ± {large.mse_error:.1g} against {small.mse:.2g} ± {small.mse_error:.1g}, "
    here += f"{large.mse / small.mse:.2g} times"
    verdict = too_short(large, small) or farther(large, small)
    if verdict.startswith("differs") and accepted > LOW:  # the claim is of a low acceptance
        verdict = verdict.replace("differs", "not decided", 1)
        verdict += f"; {accepted:.2f} are accepted, which is not low (under {LOW}; Figure 8): {UNTOLD}"
    return here, verdict


def a_trajectory(amagold, hmc):
    """Errors of chains of unequal length, as they would be after one trajectory, or pass, if they fell like one over
    their number from there on."""
    one, other = (row.mse * row.cycles for row in (amagold, hmc))
    here = f"{one:.3g} against {other:.3g}, of {amagold.cycles:,.0f} and {hmc.cycles:,.0f}; squared error times passes "
    here += f"over the data {one * amagold.passes_a_cycle:.3g} against {other * hmc.passes_a_cycle:.3g}"
    away = amagold.log_mse + np.log(amagold.cycles) - hmc.log_mse - np.log(hmc.cycles)
    away /= np.hypot(amagold.log_mse_error, hmc.log_mse_error)
    return here, too_short(amagold, hmc) or f"not claimed: {away:.1f} standard errors apart"


def faster(amagold, hmc, l2mc):
    full = np.minimum(hmc.seconds_a_cycle, l2mc.seconds_a_cycle)
    ratio = full / amagold.seconds_a_cycle
    here = (
        f"{1e3 * amagold.seconds_a_cycle:.2f} ms against {1e3 * full:.2f} ms, a factor of {ratio:.2f} (each timed "
        f"once; faster: above 1.5); {amagold.passes_a_cycle:.2f} passes over the data against "
        f"{hmc.passes_a_cycle:.0f} (HMC) and {l2mc.passes_a_cycle:.0f} (L2MC)"
    )
    return here, timed(1 / ratio, ("agrees: by one timing each", "differs: on so few data a full gradient is quicker"))


def slower(amagold, sghmc):
    ratio = amagold.seconds_a_cycle / sghmc.seconds_a_cycle
    here = (
        f"{ratio:.2f} times SGHMC's (each timed once; much: above 1.5); {amagold.passes_a_cycle:.2f} passes over the "
        f"data against {sghmc.passes_a_cycle:.2f}, {amagold.passes_a_cycle / sghmc.passes_a_cycle:.2f} times as many"
    )
    return here, not_much_slower(ratio)
