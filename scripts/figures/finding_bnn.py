"""A Bayesian neural network sampled exactly: the cold posterior effect, and what else predicts at that cost."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from style import BLUE, GREEN, GREY, NAMES, ORANGE, PURPLE, RED, SKY, clean
from verdicts import MIXED, apart, side, welch

SOURCE = "An exact Bayesian neural network: is the cold posterior effect there?"
CAPTION = """
Is there a cold posterior effect when the posterior is sampled exactly? Here, yes: under both priors exact draws have
less test NLL below T = 1, least at the coldest temperature. An ensemble of SGD at equal cost has less than exact draws
at T = 1.

**What was run.** A perceptron 64-50-10 (3,760 weights, normal priors of variance 1 and .1, in U) on 500 of
scikit-learn's digits, tested on the other 1,297. HMC: full gradients, from He's starts (certificate: hmc). At prior
variance 1 and T = 1 (SGHMC at T = .1 and .3, too): GGMC with full gradients from SGD's ends (certificate: ggmc
metropolis); with minibatches of 100, GGMC corrected (trajectories of 100 epochs; steps five times as large with
shuffled ones), GGMC and SGHMC uncorrected (learning rate .01, friction 1.4), SGD with momentum on the same U. Four
chains of 20,000 passes over the data, a fifth burn-in (quick 900, a third); where R-hat asked for it, at prior variance
.1 and T = .03 and for corrected shuffled epochs, 40,000, a tenth. Not counted: U of corrected chains of minibatches (1
% more), 100 passes of SGD before GGMC, the search for step sizes.

**What is drawn.** A chain's 160 draws (quick 6; longer chains 360), or 20 runs of SGD, predict together. Calibration
error has 15 bins; letters are notMNIST's, made 8 × 8. Bars: over four chains or ensembles, not over test or training
sets. R-hat: the worst of 200 log-odds of test labels; dotted, 1.05. White marks, and the rows on temperatures: without
what falls with the number of draws, (4 a − c)/3, a the NLL of all four chains together, c of one.

**To know.** Where R-hat, of predictions or U, is not below 1.05, nothing is compared. "The same" needs that a
difference as large as that of uncorrected chains (GGMC, shuffled epochs) would have been seen, by Welch's t and
Bonferroni over all seven such rows. The optimum may be colder still. Uncorrected chains with independent minibatches
have a larger U and yet less NLL than exact ones at T = 1: theirs is the target's law at no temperature. The digits are
clean and curated, one of the explanations of the effect that remain.
"""
OVER = (  # lines over temperature
    ("hmc", "full", 1.0, BLUE, "o", "-", "exact, prior variance 1"),
    ("hmc", "full", 0.1, SKY, "s", "-", "exact, prior variance .1"),
    ("sghmc", "minibatch", 1.0, RED, "^", "--", "SGHMC, prior variance 1"),
)
EXACT, SECOND, SHUFFLED = "HMC, exact", "GGMC, full gradients, exact", "GGMC, shuffled epochs, corrected"
LOOSE = "GGMC, shuffled epochs, uncorrected"
ALIKE = 7  # numbers of exact samplers that are to be HMC's: of two of them NLL, entropy and U, of a third U
ENSEMBLE, SINGLE = "SGD, ensemble", "SGD, one run"
METHODS = (  # at T = 1, from above: sampler, minibatches, acceptance
    ("hmc", "none", "metropolis", BLUE, EXACT),
    ("ggmc", "none", "metropolis", GREEN, SECOND),
    ("ggmc", "shuffled", "metropolis", GREEN, SHUFFLED),
    ("ggmc", "independent", "metropolis", GREEN, "GGMC, independent minibatches, corrected"),
    ("ggmc", "shuffled", "monitor", ORANGE, LOOSE),
    ("ggmc", "independent", "monitor", ORANGE, "GGMC, independent minibatches, uncorrected"),
    ("sghmc", "independent", "monitor", RED, "SGHMC"),
    ("sgd", "independent", "monitor", PURPLE, ENSEMBLE),
    ("sgd", "independent", "monitor", GREY, SINGLE),
)
PANELS = (("nll", "test NLL"), ("ece", "calibration error"), ("letters_entropy", "entropy on letters, nats"))
COLUMNS = (
    ("nll", "test NLL"),
    ("accuracy", "accuracy"),
    ("ece", "calibration error"),
    ("letters_entropy", "entropy on letters"),
    ("r_hat_max", "R-hat"),
)


def over(table: pd.DataFrame, sampler: str, gradient: str, prior) -> pd.DataFrame:
    """The finished rows of a sampler under a prior, in the order of their temperatures."""
    part = table[(table.sampler == sampler) & (table.gradient == gradient) & (table.prior == prior)]
    return part[(part.temperature > 0) & part.nll.notna()].sort_values("temperature")


def method(table: pd.DataFrame, name: str) -> pd.Series | None:
    """The row of a method at T = 1 (of SGD, at 0); None where it did not finish."""
    sampler, minibatches, acceptance = next(key for *key, _, one in METHODS if one == name)
    part = table[(table.sampler == sampler) & (table.minibatches == minibatches) & (table.acceptance == acceptance)]
    part = part[part.temperature.isin([0, 1]) & part.nll.notna()]
    part = part[part.prior.isin(table.prior[:1])]
    return None if part.empty else part.iloc[0]


def many_draws(rows):
    """The NLL of ever more draws, (C J − c)/(C − 1) of a chain's c and of all C chains' together J: a term in one over
    the number of draws is gone. To first order it varies from chains to chains as c does, and has its error."""
    return (rows.chains * rows.joint_nll - rows.nll) / (rows.chains - 1)


def draw(table: pd.DataFrame) -> Figure:
    """Above: quality over temperature; below: each method at T = 1, a column a quantity."""
    figure = pyplot.figure(figsize=(10, 6.4), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(3.2, 3))
    panels = above.subplots(1, len(PANELS))
    for sampler, gradient, prior, colour, marker, line, name in OVER:
        rows = over(table, sampler, gradient, prior)
        for (quantity, _), panel in zip(PANELS, panels, strict=True):
            error = rows[f"{quantity}_error"]
            style = {"color": colour, "marker": marker, "ms": 4, "lw": 1.2}
            panel.errorbar(rows.temperature, rows[quantity], error, ls=line, label=name, **style)
        panels[0].plot(rows.temperature, many_draws(rows), marker, color=colour, mfc="white", ms=2.2, mew=0.8, zorder=4)
    ensemble = method(table, ENSEMBLE)
    for (quantity, text), panel in zip(PANELS, panels, strict=True):
        if ensemble is not None:
            panel.axhline(ensemble[quantity], color=PURPLE, lw=1, ls=":", label="ensemble of SGD")
        panel.axvline(1, color=GREY, lw=0.6)
        panel.set(xscale="log", xlabel="temperature T", ylabel=text)
        panel.set_ylim(0)
    panels[0].plot([], [], "o", color=GREY, mfc="white", ms=2.2, mew=0.8, label="extrapolated to many draws")
    panels[0].legend(frameon=False, fontsize=7)
    clean(*panels)
    draw_methods(below, table)
    below.suptitle(f"T = 1, prior variance {table.prior.iloc[0]:g}", fontsize=10)
    figure.suptitle(title(table), fontsize=11)
    return figure


def draw_methods(figure, table: pd.DataFrame) -> None:
    """Each method at T = 1 in a figure or a part of one, a column a quantity."""
    columns = figure.subplots(1, len(COLUMNS), sharey=True)
    found = [(method(table, name), colour, name) for *_, colour, name in METHODS]
    found = [one for one in found if one[0] is not None]
    for place, (row, colour, name) in enumerate(found):
        for (quantity, _), column in zip(COLUMNS, columns, strict=True):
            if name == SINGLE and f"single_{quantity}" not in row:
                continue
            value = row[f"single_{quantity}" if name == SINGLE else quantity]
            error = np.nan if name == SINGLE else row.get(f"{quantity}_error", np.nan)
            column.errorbar(value, -place, xerr=error, fmt="o", ms=4, color=colour)
    for (_, text), column in zip(COLUMNS, columns, strict=True):
        column.set_xlabel(text)
        column.grid(axis="y", lw=0.3)
    names = [f"{name} of {row.draws_a_chain:.0f}" if name == ENSEMBLE else name for row, _, name in found]
    columns[0].set_yticks([-place for place in range(len(found))], names, fontsize=8)
    columns[-1].set_xscale("log")
    columns[-1].set_xlim(0.98)
    most = max([row.get("r_hat_max", np.nan) for row, *_ in found], default=np.nan)
    if most > 1:  # autoscaled from the left-hand limit, it would stand on the edge
        columns[-1].set_xlim(right=1 + 1.15 * (max(most, MIXED) - 1))
    columns[-1].xaxis.set_major_locator(MaxNLocator(4))
    columns[-1].xaxis.set_minor_locator(NullLocator())
    columns[-1].xaxis.set_major_formatter("{x:g}")
    columns[-1].axvline(MIXED, color=GREY, lw=1, ls=":")
    figure.align_xlabels(columns)
    clean(*columns)


def colder(table: pd.DataFrame, prior) -> tuple[pd.Series, pd.Series] | None:
    """The exact rows at T = 1 and at the T < 1 of least NLL of many draws, ``limit_nll``."""
    rows = over(table, "hmc", "full", prior)
    rows = rows.assign(limit_nll=many_draws(rows), limit_nll_error=rows.nll_error)
    warm, cold = rows[rows.temperature == 1], rows[rows.temperature < 1]
    if warm.empty or cold.empty:
        return None
    return warm.iloc[0], cold.loc[cold.limit_nll.idxmin()]


def sided(one: pd.Series, other: pd.Series, column: str) -> str:
    """``side`` of the first's number less the second's, by Welch's t of their chains, where they have errors."""
    away, least = apart(one, other, column), welch(one, other, column)
    return side(away, least) if np.isfinite(away) and np.isfinite(least) else "not comparable: no error is known"


def alike(one: pd.Series, other: pd.Series, column: str, loose: pd.Series | None) -> str:
    """The verdict on numbers that are to be the same: they are where no difference is resolved, and one as large as
    that of ``loose``, uncorrected chains, from the first would be."""
    away, least = apart(one, other, column), welch(one, other, column, ALIKE)
    if not (np.isfinite(away) and np.isfinite(least)):
        return "not comparable: no error is known"
    if abs(away) > least:
        return f"differs: {abs(away):.1f} errors apart, of which chance exceeds {least:.1f} seldom"
    seen = least * np.hypot(one[f"{column}_error"], other[f"{column}_error"])
    off = np.nan if loose is None else abs(loose[column] - one[column])
    if not off >= seen:
        return f"not resolved: beyond {seen:.2g} a difference would be seen; that of uncorrected chains is {off:.2g}"
    return f"agrees: beyond {seen:.2g} a difference would be seen"


def exact_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The finished rows of HMC."""
    return table[(table.sampler == "hmc") & table.nll.notna()]


def mixed(table: pd.DataFrame) -> bool:
    """Whether R-hat of HMC's predictions and of U is below ``MIXED`` at every temperature."""
    exact = exact_rows(table)
    return exact[["r_hat_max", "r_hat_potential"]].max(skipna=False).max(skipna=False) < MIXED


def least_ess(rows: pd.DataFrame) -> str:
    """The least ESS of a prediction; of chains that do not agree, or that reach ArviZ's bound on it, n log₁₀ n of n
    draws, there is none."""
    draws = rows.chains * (rows.draws_a_chain // 2 * 2)
    bound = (rows.ess_min > 0.999 * draws * np.log10(draws)).any() or rows.ess_min.isna().all()
    return f"{rows.ess_min.min():.0f}" if mixed(rows) and not bound else "not known"


def unmixed(*rows: pd.Series) -> str | None:
    """The verdict on rows whose chains do not agree, in predictions or in U (independent runs of SGD have no R-hat)."""
    worst = np.nanmax([row.get(name, np.nan) for row in rows for name in ("r_hat_max", "r_hat_potential")])
    return None if worst < MIXED else "not comparable: the chains do not agree yet"


def title(table: pd.DataFrame) -> str:
    """What is seen: whether exact draws predict better below T = 1, under every prior, where the chains agree."""
    found = [colder(table, prior) for prior in table.prior.unique()]
    if mixed(table) and all(pair and sided(*pair, "limit_nll") == "agrees" for pair in found):
        return "With exact sampling, too, colder posteriors have the better test NLL"
    short = "" if mixed(table) else " (too short for R-hat to be near 1)"
    return f"A neural network's posterior, sampled exactly, over temperatures{short}"


def compare(table: pd.DataFrame):
    """Mixing, two exact samplers, the cold posterior effect, the bias of what is not corrected, SGD."""
    yield from lost(table)
    yield mixing("HMC: four chains, all temperatures and priors", exact_rows(table))
    yield from beside(table)


def lost(table: pd.DataFrame):
    """The settings some of whose chains diverged: their numbers, if they have any, are of the others."""
    for row in table[table.status == "diverged"].itertuples():
        name = f"{NAMES.get(row.sampler, 'SGD')}, prior {row.prior}, T = {row.temperature:g}"
        yield f"{name}: chains that diverge", "none", "", f"differs: {row.why}"


def mixing(what: str, exact: pd.DataFrame) -> tuple:
    """Whether R-hat of predictions and of U says that the chains of these rows agree."""
    if exact.empty:
        return what, f"R-hat below {MIXED}", "", "not comparable: no run of HMC"
    here = f"R-hat {exact.r_hat_max.max():.3f} of the worst prediction, {exact.r_hat_median.max():.3f} in the median, "
    here += f"{exact.r_hat_potential.max():.3f} of U; least ESS {least_ess(exact)}"
    return what, f"R-hat below {MIXED}", here, "agrees" if mixed(exact) else "differs: longer chains are needed"


def beside(table: pd.DataFrame):
    """What is compared of chains that agree."""
    exact, second, shuffled, loose = (method(table, name) for name in (EXACT, SECOND, SHUFFLED, LOOSE))
    for name, row in (("a second exact sampler", second), ("a third, with minibatches in shuffled epochs", shuffled)):
        for quantity, text in (("nll", "test NLL"), ("letters_entropy", "entropy on letters")):
            yield against(f"{name}, {text}", "the same", exact, row, quantity, same_as=(loose,))
    yield bias(SECOND, exact, second, loose)
    for prior in table.prior.unique():
        yield effect(table, prior)
    for *_, name in METHODS:
        if name not in (EXACT, SECOND, ENSEMBLE, SINGLE):
            yield bias(name, exact, method(table, name), loose)
    yield efficiency(SHUFFLED, exact, shuffled)
    yield from of_ensembles(table)


def of_ensembles(table: pd.DataFrame):
    """Ensembles of SGD beside the exact chains."""
    exact, ensemble = method(table, EXACT), method(table, ENSEMBLE)
    yield against(f"ensemble of SGD {of_cost(exact, ensemble)}, test NLL", "not known", exact, ensemble)
    yield against("ensemble of SGD, entropy on letters", "less", exact, ensemble, "letters_entropy")


def of_cost(exact: pd.Series | None, row: pd.Series | None) -> str:
    """What a run costs, beside an exact chain."""
    ratio = 1.0 if exact is None or row is None else row.passes / exact.passes
    return "at equal cost" if 0.9 < ratio < 1.1 else f"of {ratio:.2g} of the passes over the data"


def effect(table: pd.DataFrame, prior) -> tuple:
    """Is NLL less at a temperature below 1."""
    what, found = f"cold posterior effect, prior {prior}: test NLL at T = 1 and colder", colder(table, prior)
    expected = "less below T = 1 (Wenzel et al. 2020, uncorrected)"
    if found is None:
        return what, expected, "", "not comparable: a run is missing"
    one, other = found
    here = f"{one.limit_nll:.4f} ± {one.nll_error:.1g}, {other.limit_nll:.4f} ± {other.nll_error:.1g}"
    here += f" at T = {other.temperature:g}"
    here += (
        f"; accuracy {one.accuracy:.4f} and {other.accuracy:.4f}, calibration error {one.ece:.3f} and {other.ece:.3f}"
    )
    return what, expected, here, unmixed(one, other) or sided(one, other, "limit_nll")


def bias(name: str, exact: pd.Series | None, row: pd.Series | None, loose: pd.Series | None = None) -> tuple:
    """By how much U is too large on average, and R-hat, which says whether the chains are there yet; of exact chains
    beside that of ``loose`` ones."""
    what = f"{name}: mean U less the exact chains', R-hat of predictions"
    exactly = name.endswith((", corrected", ", exact"))
    expected = "0" if exactly else "above 0: gradient noise and step size heat"
    if exact is None or row is None:
        return what, expected, "", "not comparable: a run is missing"
    gap, error = row.potential - exact.potential, np.hypot(row.potential_error, exact.potential_error)
    here = f"{gap:.1f} ± {error:.2g}, R-hat {row.r_hat_max:.3g}; test NLL {row.nll:.4f} ± {row.nll_error:.1g}"
    if verdict := unmixed(exact, row):
        return what, expected, here, verdict
    return what, expected, here, alike(exact, row, "potential", loose) if exactly else sided(row, exact, "potential")


def efficiency(name: str, exact: pd.Series | None, row: pd.Series | None) -> tuple:
    """The effective sample size of a pass over the data, as a part of the exact chains'."""
    what, expected = (
        f"{name}: effective sample size a pass over the data (those of the burn-in counted), of HMC's",
        "not known",
    )
    if exact is None or row is None:
        return what, expected, "", "not comparable: a run is missing"
    ratios = [row[key] / row.passes / (exact[key] / exact.passes) for key in ("ess_median", "ess_potential")]
    here = f"{ratios[0]:.2f} (median over predictions), {ratios[1]:.2f} (U)"
    return what, expected, here, unmixed(exact, row) or "not claimed"


def against(what, expected, exact, row, quantity: str = "nll", same_as: tuple = ()) -> tuple:
    """A quantity of the exact chains and of others; where it is to be the same, beside that of uncorrected chains."""
    if exact is None or row is None:
        return what, expected, "", "not comparable: a run is missing"
    here = f"{row[quantity]:.4f} ± {row[f'{quantity}_error']:.1g}, exact {exact[quantity]:.4f}"
    here += f" ± {exact[f'{quantity}_error']:.1g}"
    if verdict := unmixed(exact, row):
        return what, expected, here, verdict
    if same_as:
        return what, expected, here, alike(exact, row, quantity, *same_as)
    verdict = sided(exact, row, quantity)
    if verdict not in ("agrees", "differs"):
        return what, expected, here, verdict
    found = "less" if verdict == "agrees" else "more"
    return (
        what,
        expected,
        here,
        "agrees" if found == expected else f"not claimed: {found}" if expected == "not known" else "differs",
    )
