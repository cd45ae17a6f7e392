"""Which word? Bias of palindromic words without correction, and what correction costs, with noisy gradients."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, clean, note, ticks
from verdicts import GROUPS, LIMIT, by_itself, limit, long_enough, mark_diverged, side, unbiased

SOURCE = "Which word, with noisy gradients?"
CAPTION = """
Does the word matter when gradients are noisy? At one mean step a gradient and friction 1 (BAB: none) all are accepted
alike, within .1. A correction gains where little bias is tolerated, on the double well and the mixture; it costs where
more is, and on the banana at every tolerance.

**What was run.** 11 gradients a trajectory, mass 1, momentum kept or drawn afresh; BAB has no friction. Toys: AMAGOLD's
Dist1 (banana) and Dist2 (mixture), the double well; gradient noise N(0, 1), eight step sizes, 200 chains (quick 40)
from exact draws, 2,000 draws after 200 (quick 200 after 50). Heart: logistic regression (standardised columns, an
intercept, prior N(0, 100 I)), minibatches of a fifth of the data, seven step sizes, from standard normals 20 chains of
2,000 after 1,000 (quick 8 of 500 after 800); reference HMC, 60 of 3,000 (quick 56 of 500).

**What is drawn.** First row: acceptance. Open markers, here and below, are of other frictions. Excess: 2(E U − its
exact or reference value)/dim, in units of T. Second: uncorrected, γ = 1, over what a correction rejects at that step
size; points within three errors of zero are left out. Dash-dotted: exact gradients, over the rejections of noisy ones.
Crosses: some chains diverged, the point is of the others; at the top, none is left or the excess is above 4. Third: ESS
of the slowest coordinate. Last: uncorrected; black, the best corrected ESS, with U "paid" (counted as five gradients of
Heart, one of a toy). Left of where a line crosses it a correction gains. Dotted: tolerances at which lines are read.

**Why.** Noise of covariance Σ heats by h tr Σ/(2γ dim) to leading order: more friction allows larger uncorrected steps,
while acceptance depends on it little; 1 is not tuned. OVRVO at γ, whose A and B are scaled by b, is OBABO at bh and
γ/b.

**To know.** ESS is of chains of at least 20 τ. "Edge": best at the largest step without divergence; no gain or cost is
claimed that this could undo. "Below the grid": the tolerance is below the line's first point. Best settings are chosen
from the numbers compared, which flatters both. ABOBA's mean step is a tenth larger; BABOBAB has two gradients a step.
Certificate: ggmc, ovrvo, baoab, aboba, hmc with noisy gradients, ggmc with full refresh, [`python -m sgmcmc.certify
--word BABOBAB --output results/words/BABOBAB`](words/BABOBAB/certificate.md). On Heart, all of whose data are five
minibatches, HMC with full gradients beats every corrected word (last row). One length, few frictions.
"""
TABLES = ("finding_words", "finding_words_logistic")
LOOK = {
    ("OBABO", "keep"): (GREEN, "o", "-", "OBABO"),
    ("OVRVO", "keep"): (ORANGE, ".", ":", "OVRVO"),
    ("BAOAB", "keep"): (BLUE, "s", "-", "BAOAB"),
    ("ABOBA", "keep"): (PURPLE, "D", "-", "ABOBA"),
    ("BABOBAB", "keep"): (SKY, "v", "-", "BABOBAB"),
    ("OBABO", "full"): (GREY, "o", "-", "OBABO, fresh"),
    ("BAB", "full"): (RED, "^", "-", "BAB, fresh"),
}
PANELS = (
    ("double_well", "double well"),
    ("banana", "banana"),
    ("mixture", "mixture"),
    ("heart", "Heart"),
)
TOYS = ("double_well", "banana", "mixture")
REGRESSIONS = ("heart", "australian")
BATCHES = 5  # minibatches of a regression in its data
BASE = 1.0  # the friction at which every word with an O was run
TOP = 4.0  # excess of U, the largest that is shown


def chosen(table: pd.DataFrame, target: str, acceptance: str, noise: float = 1.0) -> pd.DataFrame:
    """The rows of a target's finished runs, corrected or not; ``friction`` is 0 of a word without O."""
    part = table[(table.target == target) & (table.acceptance == acceptance) & (table.word != "reference")]
    part = part[part.status == "done"]
    part = part.assign(friction=np.where(part.word.str.contains("[OV]"), part.friction, 0.0))
    return part[part.noise == noise] if target in TOYS else part


def of_word(part: pd.DataFrame, key: tuple[str, str]) -> pd.DataFrame:
    """The rows of a word."""
    return part[(part.word == key[0]) & (part.refresh == key[1])].sort_values("step_size")


def curves(part: pd.DataFrame) -> list[tuple]:
    """(word and refreshment, friction, its rows in the order of step sizes) of what ``chosen`` has."""
    words = [(key, of_word(part, key)) for key in LOOK]
    return [(key, friction, rows) for key, own in words for friction, rows in own.groupby("friction")]


def usual(part: pd.DataFrame) -> pd.DataFrame:
    """The rows at friction 1, and of the word without any."""
    return part[part.friction.isin((0, BASE))]


def known(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with an ESS and its error, none of whose chains diverged."""
    return rows[rows.ess_error.notna() & ~(rows.frozen > 0)]


def draw(toys: pd.DataFrame, *regressions: pd.DataFrame) -> Figure:
    """A column a target: acceptance, bias against rejections, efficiency over step sizes and against bias."""
    figure, panels = pyplot.subplots(4, len(PANELS), figsize=(10, 10.4), layout="constrained")
    table = pd.concat([toys, *regressions])
    columns(long_enough(table), PANELS, panels)
    panels[1, 0].text(
        0.95, 0.05, "dash-dotted: exact gradients", transform=panels[1, 0].transAxes, fontsize=8, ha="right"
    )
    figure.suptitle(title(table), fontsize=11)
    return figure


def title(table: pd.DataFrame) -> str:
    """That the words are accepted alike, where that is what was seen on every target."""
    parts = [usual(chosen(table, target, "metropolis")) for target, _ in PANELS]
    if all(len(part) and of_acceptance("", part)[3] == "agrees" for part in parts):
        where = f"at one mean step a gradient and friction {BASE:g}"
        return f"With noisy gradients the words' acceptance rates differ by less than {SPREAD:g} {where}"
    return "Bias of uncorrected words, efficiency of corrected ones, and the bias from which a correction costs"


def columns(table: pd.DataFrame, targets, panels) -> None:
    """Four panels a target, beneath each other."""
    for (target, title), first, top, middle, bottom in zip(targets, *panels, strict=True):
        corrected, bare = chosen(table, target, "metropolis"), chosen(table, target, "monitor")
        stationary = bare[bare.tau.notna()] if target not in TOYS else bare
        against_rejections(top, usual(corrected), usual(stationary), "-")
        if target == "double_well":
            against_rejections(top, usual(corrected), usual(chosen(table, target, "monitor", 0.0)), "-.")
        uncorrected = known(bare)
        for key, friction, rows in curves(corrected):
            line(first, rows, key, friction, "time", "accepted")
        for panel, part, x in ((middle, corrected, "time"), (bottom, uncorrected, "excess")):
            for key, friction, rows in curves(part):
                line(panel, rows, key, friction, x)
            if not part.ess.notna().any():
                note(panel)
        paid = known(price_paid(corrected, target))
        if len(paid):
            best = paid.loc[paid.ess.idxmax()]
            bottom.axhline(best.ess, color="black", lw=1)
            bottom.axhspan(best.ess - best.ess_error, best.ess + best.ess_error, color="black", alpha=0.15, lw=0)
        for tolerance in TOLERATED:
            bottom.axvline(tolerance, color="black", ls=":", lw=0.7)
        first.set_title(title, fontsize=10)
        first.set(xlabel="mean step a gradient", ylim=(0, 1))
        first.locator_params(axis="x", nbins=4)
        top.set(yscale="log", xlabel="rejected, when corrected", ylim=(0.01, TOP))
        top.yaxis.set_major_formatter("{x:g}")
        middle.set(xlabel="mean step a gradient", xlim=first.get_xlim())
        middle.set_ylim(bottom=0)
        middle.locator_params(axis="x", nbins=4)
        bottom.set(xlabel="|excess of U|", xlim=(0, 0.5))
        if bottom.lines:
            bottom.set_yscale("log")
            shown = pd.concat([uncorrected[uncorrected.excess.abs() <= 0.5], paid[paid.ess == paid.ess.max()]]).ess
            if len(shown):
                bottom.set_ylim(shown.min() / 1.5, shown.max() * 1.5)
            else:
                note(bottom, "no point of\nso little excess")
            ticks(bottom.yaxis)
        others = sorted(set(corrected.friction) - {0, BASE})
        handles = [Line2D([], [], color="black", ls=style(friction), label=f"γ = {friction:g}") for friction in others]
        first.legend(handles=handles, frameon=False, fontsize=7, loc="upper right")
        clean(first, top, middle, bottom)
    panels[0, 0].set_ylabel("acceptance")
    panels[1, 0].set_ylabel("uncorrected:\n|excess of U|")
    panels[2, 0].set_ylabel("corrected:\nESS / 1,000 gradients")
    panels[3, 0].set_ylabel("uncorrected:\nESS / 1,000 gradients")
    handles = [
        Line2D([], [], color=colour, marker=marker, ls=ls, ms=4, lw=1.2, label=name)
        for key, (colour, marker, ls, name) in LOOK.items()
        if len(of_word(table, key))
    ]
    panels[0, -1].figure.legend(
        handles=handles, frameon=False, fontsize=8, loc="outside lower center", ncols=len(handles)
    )


def against_rejections(panel, corrected: pd.DataFrame, bare: pd.DataFrame, exact: str) -> None:
    """The excess of U over the share that a correction rejects at the same step size, a line a word."""
    for key, (colour, marker, style_of, _) in LOOK.items():
        own = of_word(corrected, key)[["step_size", "accepted"]]
        rows = of_word(bare, key).drop(columns="accepted", errors="ignore").merge(own, on="step_size")
        far = rows.excess.abs()
        rows = rows.assign(rejected=1 - rows.accepted, far=far.where(far < TOP))
        error = by_itself(rows, "excess")
        rows, error = (part[(far > LIMIT * error) | (rows.frozen > 0)] for part in (rows, error))
        options = {"color": colour, "marker": marker, "ms": 4, "lw": 1.2, "ls": style_of}
        if exact == "-.":
            options |= {"alpha": 0.6, "lw": 0.9, "ls": "-."}
        panel.errorbar(rows.rejected, rows.far, error.where(rows.far.notna()), **options)
        crossed = rows.assign(frozen=rows.frozen.where(rows.far.notna(), 1))  # at the top all that have no point
        mark_diverged(panel, crossed, "rejected", "far", colour)


def style(friction: float) -> str:
    """How the line of a friction is drawn."""
    return "-" if friction in (0, BASE) else "--" if friction > BASE else ":"


def line(panel, rows: pd.DataFrame, key: tuple, friction: float, x: str, y: str = "ess") -> None:
    """A quantity of one word at one friction."""
    colour, marker, usual_style, _ = LOOK[key]
    same = friction in (0, BASE)
    options = {"color": colour, "marker": marker, "ms": 4, "lw": 1.2, "ls": usual_style if same else style(friction)}
    options |= {} if same else {"mfc": "white", "lw": 0.9}
    sideways = by_itself(rows, "excess") if x == "excess" else None
    panel.errorbar(rows[x].abs(), rows[y], rows[f"{y}_error"], sideways, elinewidth=0.7, **options)


def compare(toys: pd.DataFrame, *regressions: pd.DataFrame):
    """What theory says of the words' bias, of acceptance, and of the price of a correction."""
    table = long_enough(pd.concat([toys, *regressions]))
    yield no_bias(table)
    yield diverged(table, name_of)
    yield from exact_and_noisy(toys)
    yield from of_targets(table, PANELS)


def no_bias(table: pd.DataFrame, claim: str = "no bias, for any word") -> tuple:
    """``unbiased`` of all settings: toys begin at exact draws; of a regression chains too short for τ may not have left
    their start."""
    table = with_columns(table, "tau", "exact_p")
    table = table[table.exact_p.notna()]
    corrected, bare = (table[table.acceptance == name] for name in ("metropolis", "monitor"))
    judged, others = (rows[rows.tau.notna() | rows.target.isin(TOYS)] for rows in (corrected, bare))
    toys = table.target.isin(TOYS)
    of = "U and of " + ("the shares of draws in four parts of each axis" if toys.all() else "the posterior mean")
    if toys.any() and not toys.all():
        of = "U and of the shares of draws in four parts of each axis (toys) or the posterior mean (regressions)"
    return unbiased("corrected draws", claim, judged, others, of, len(corrected) - len(judged))


def with_columns(table: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The table, with columns that it lacks empty."""
    return table.reindex(columns=[*table.columns, *(column for column in columns if column not in table)])


def name_of(row) -> str:
    """A run's word and friction."""
    friction = row.friction if row.friction not in (0, BASE) else np.nan
    name = LOOK[row.word, row.refresh][3] if (row.word, row.refresh) in LOOK else row.word
    return name if np.isnan(friction) else f"{name}, γ = {friction:g}"


def diverged(table: pd.DataFrame, name) -> tuple:
    """How many settings lost chains, which are in no other number, and the first that did; ``name`` is that of a row's
    run."""
    what, claim = "chains that diverged (left out everywhere)", "of corrected ones none"
    if not (table.acceptance == "metropolis").any():
        return what, claim, "", "not comparable: no run that is corrected"
    table = with_columns(table, "frozen", "chains", "time")
    lost = table[(table.frozen > 0) | (table.status == "diverged")].sort_values("time")
    here = []
    for target, part in lost.groupby("target", sort=False):
        first, number = part.iloc[0], ((table.target == target) & (table.acceptance == "monitor")).sum()
        some = "all" if np.isnan(first.time) else f"{first.frozen:.0f} of {first.frozen + first.chains:.0f}"
        whole = len(part) - (part.chains > 0).sum()
        here.append(
            f"{dict(PANELS).get(target, target)}: some in {len(part)} of {number} uncorrected settings (all chains in "
            f"{whole}), at the smallest mean step {some} of {name(first)} at h = {first.step_size:g}"
        )
    share = (lost.frozen / (lost.frozen + lost.chains)).fillna(1).max()
    verdict = "differs" if (lost.acceptance == "metropolis").any() else f"agrees: up to {share:.0%} of uncorrected ones"
    return what, claim, "; ".join(here) or "none", verdict if here else "agrees"


def of_targets(table: pd.DataFrame, targets):
    """Acceptance, orders, friction, the price of a correction, and full gradients, target by target."""
    for target, title in targets:
        part = chosen(table, target, "metropolis")
        if part.empty:
            yield f"{title}: all", "", "", "not comparable: no run"
            continue
        yield of_acceptance(title, usual(part))
        yield of_orders(title, part)
        yield of_friction(title, part)
        paid = price_paid(part, target)
        yield price(title, paid, chosen(table, target, "monitor"))
        if target not in TOYS:
            yield full_gradients(title, table[(table.target == target) & (table.word == "reference")], paid)


SPREAD = 0.1  # acceptance, within which words count as accepted alike


def of_acceptance(title: str, part: pd.DataFrame) -> tuple:
    """The largest difference of the words' acceptance at one mean step a gradient, at friction 1 or none."""
    claim = f"the same for all words, within {SPREAD:g}: noise dominates log MH"
    part = part.assign(step=part.groupby(["word", "refresh"]).cumcount())
    part = part[part.accepted.notna()]
    several = part.groupby("step").word.transform("nunique") > 1
    if not several.any():
        return f"{title}: acceptance", claim, "", "not comparable: no run of another word"
    here = f"{part.accepted.max():.2f} to {part.accepted.min():.2f}; words at one mean step a gradient within "
    part = part[several]
    low, high = (part.loc[part.groupby("step").accepted.agg(way)].set_index("step") for way in ("idxmin", "idxmax"))
    spread, errors = high.accepted - low.accepted, np.hypot(high.accepted_error, low.accepted_error)
    at = spread.idxmax()
    here += f"{spread[at]:.3f} ± {errors[at]:.3f} ({high.word[at]} and {low.word[at]})"
    ratio = high.accepted / low.accepted.where(low.accepted > 0)
    if ratio.notna().any():
        far = ratio.idxmax()
        here += f", and a factor of {ratio[far]:.3g} where {low.accepted[far]:.2g} of {low.word[far]} is accepted"
    return f"{title}: acceptance", claim, here, "agrees" if spread[at] < SPREAD else "differs"


def warmer(temperature: float) -> float:
    """The excess of U of the double well at a temperature, by quadrature: 2(its mean there − its mean at 1)."""
    x = np.linspace(-8, 8, 4001)
    potential = (x + 4) * (x + 1) * (x - 1) * (x - 3) / 14
    means = [(weight * potential).sum() / weight.sum() for weight in np.exp(-potential / [[temperature], [1.0]])]
    return 2 * (means[0] - means[1])


def exact_and_noisy(toys: pd.DataFrame):
    """On the double well, at the largest step of which no chain diverged: BAOAB's small bias with exact gradients, and
    what noise adds, the same for all words and as much as theory says to leading order."""
    keys = [key for key in LOOK if key[1] == "keep" and key[0] != "OVRVO"]
    bare = {noise: usual(chosen(toys, "double_well", "monitor", noise)) for noise in (0.0, 1.0)}
    rows = {(key[0], noise): of_word(part, key) for key in keys for noise, part in bare.items()}
    whole = [(part.excess_error.notna() & ~(part.frozen > 0)).to_numpy() for part in rows.values()]
    least = min(map(len, whole))
    common = np.flatnonzero(np.all([each[:least] for each in whole], 0))
    if not len(common):
        yield "double well, uncorrected", "", "", "not comparable: a run is missing or diverged"
        return
    still, noisy = ({key[0]: rows[key[0], noise].iloc[common[-1]] for key in keys} for noise in (0.0, 1.0))
    size, most = still["OBABO"].step_size, limit(len(keys), still["OBABO"].chains)
    others = min((row for word, row in still.items() if word != "BAOAB"), key=lambda row: abs(row.excess))
    least = still["BAOAB"]
    other = {word: "" if row.step_size == size else f" (h = {row.step_size:g})" for word, row in still.items()}
    here = ", ".join(f"{word} {row.excess:.2f}{other[word]}" for word, row in still.items())
    here += f" ± {least.excess_error:.2f}"
    apart = (abs(others.excess) - abs(least.excess)) / np.hypot(others.excess_error, least.excess_error)
    verdict = side(apart, most)
    what = f"double well, exact gradients, uncorrected, h = {size:g}: excess"
    yield what, "least for BAOAB (Leimkuhler and Matthews)", here, verdict
    added = pd.Series({word: noisy[word].excess - still[word].excess for word in still})
    errors = pd.Series({word: np.hypot(noisy[word].excess_error, still[word].excess_error) for word in still})
    here = ", ".join(f"{word} {value:.2f}{other[word]}" for word, value in added.items()) + f" ± {errors.max():.2f}"
    mean, hot = np.average(added, weights=1 / errors**2), 1 + size / 2 / BASE
    for claim, theory in (
        ("the same for all words", mean),
        (f"of exp(−U/T) at T = 1 + h/(2γ) = {hot:g}, the leading order: {warmer(hot):.3f}", warmer(hot)),
    ):
        away = (added - theory) / errors
        far = f"; farthest from it {away[away.abs().idxmax()]:+.1f} errors ({away.abs().idxmax()}, limit {most:.1f})"
        verdict = "agrees" if away.abs().max() < most else f"differs by {(added - theory)[away.abs().idxmax()]:+.2f}"
        yield f"double well, uncorrected, h = {size:g}: excess that noise N(0, 1) adds", claim, here + far, verdict


def best(rows: pd.DataFrame, both: bool = False):
    """The row of the largest ESS, and the ESS in words, which say so where it is at the largest step of the grid, or,
    with ``both``, at the smallest of several whose ESS is known."""
    some = known(rows)
    row = rows.loc[some.ess.idxmax()]
    smallest = both and len(some) > 1 and row.step_size == some.step_size.min()
    edge = f" ({EDGE})" if smallest or row.step_size == rows.step_size.max() else ""
    return row, f"{row.ess:.3g} ± {row.ess_error:.1g}{edge}"


def of_orders(title: str, part: pd.DataFrame) -> tuple:
    """The best ESS over steps of each word that keeps its momentum: what the order of the letters is worth."""
    what, claim = f"{title}: best corrected ESS, momentum kept, γ = {BASE:g}, by the order of letters", "not known"
    kept = part[(part.refresh == "keep") & (part.word != "OVRVO") & (part.friction == BASE)]
    found = [best(rows) for _, rows in kept.groupby("word") if len(known(rows))]
    if len(found) < 2:
        return what, claim, "τ not known", "not comparable: too few draws"
    found.sort(key=lambda each: each[0].ess)
    here = ", ".join(f"{row.word} {said}" for row, said in found)
    return what, claim, here, f"not claimed: {factor([row for row, _ in found])}"


def factor(rows: list) -> str:
    """How much larger the last row's ESS is than the first's, where the errors of so many rows let it be larger."""
    low, high = rows[0], rows[-1]
    apart = (high.ess - low.ess) / np.hypot(high.ess_error, low.ess_error)
    most = limit(len(rows) * (len(rows) - 1) // 2, groups_of(low, high))
    return f"a factor {high.ess / low.ess:.2f}" if apart > most else "no difference found"


def groups_of(*rows) -> int:
    """The groups of chains that errors of rows' ESS are from, at the least."""
    return min(GROUPS, *(row.chains for row in rows))


def of_friction(title: str, part: pd.DataFrame) -> tuple:
    """The best ESS over steps of OBABO at each friction, and of BAB, which is OBABO with fresh momentum without any."""
    what, claim = f"{title}: best corrected ESS of OBABO by its friction (none: BAB)", "not known"
    part = part[part.word.isin(("OBABO", "BAB"))]
    found = [(refresh, best(rows)) for (refresh, _), rows in part.groupby(["refresh", "friction"]) if len(known(rows))]
    if len(found) < 2:
        return what, claim, "τ not known", "not comparable: too few draws"
    names = {"full": "fresh momentum", "keep": "momentum kept"}
    here = "; ".join(
        f"{name}: " + ", ".join(f"γ = {row.friction:g} {said}" for own, (row, said) in found if own == refresh)
        for refresh, name in names.items()
    )
    ranked = sorted((row for _, (row, _) in found), key=lambda row: row.ess)
    return what, claim, here, f"not claimed: {factor(ranked)}"


TOLERATED = (0.05, 0.1, 0.2, 0.3)  # excess of U, in units of T
EDGE, BELOW = "edge", "below the grid"  # where a tolerance, or a best step, is on a grid of steps


def price_paid(corrected: pd.DataFrame, target: str) -> pd.DataFrame:
    """Corrected rows whose ESS has paid for U at a trajectory's end."""
    share = share_left(corrected.gradients, target)
    return corrected.assign(ess=corrected.ess * share, ess_error=corrected.ess_error * share)


def share_left(gradients: pd.Series, target: str) -> pd.Series:
    """What U at a trajectory's end, which only a correction needs, leaves of an ESS a gradient: it is worth a gradient
    of a toy, and all minibatches of a regression."""
    return gradients / (gradients + (BATCHES if target in REGRESSIONS else 1))


def within(rows: pd.DataFrame, tolerance: float) -> tuple[float, float, str]:
    """ESS and its error where a word's excess reaches what is tolerated, linear between its steps and down to nothing
    at no excess; and where that is outside of its grid. What is not known of the excess is not known of the ESS."""
    excess = np.append(0, np.maximum.accumulate(rows.excess.abs()))
    columns = rows.ess, rows.ess_error, by_itself(rows, "excess")
    ess, error, of_excess = (np.interp(tolerance, excess, np.append(0, column)) for column in columns)
    place = EDGE if excess[-1] < tolerance else BELOW if tolerance < excess[1] else ""
    return ess, np.hypot(error, ess * of_excess / tolerance), place


def price(title: str, corrected: pd.DataFrame, bare: pd.DataFrame) -> tuple:
    """The best ESS of corrected chains against that of uncorrected ones, at each excess that may be tolerated."""
    what, claim = f"{title}: ESS corrected (U paid), and uncorrected up to an excess", "correction costs"
    lines = [each for each in curves(known(bare[bare.excess_error > 0])) if len(each[2])]
    if not lines or known(corrected).empty:
        return what, claim, "τ not known, or no such step", "not comparable"
    one, said = max((best(rows) for *_, rows in curves(corrected) if len(known(rows))), key=lambda each: each[0].ess)
    top = EDGE in said
    groups = groups_of(one, *(row for *_, rows in lines for row in rows.itertuples()))
    most, here = limit(len(TOLERATED), groups), [f"corrected {said}, {named(one)}, accepts {one.accepted:.2f}"]
    sides: dict[str, list[str]] = {}
    for tolerance in TOLERATED:
        found = {(key, friction): within(rows, tolerance) for key, friction, rows in lines}
        (key, friction), (ess, error, place) = max(found.items(), key=lambda each: each[1][0])
        row = pd.Series({"word": key[0], "refresh": key[1], "friction": friction})
        here.append(f"≤ {tolerance:g}: {ess:.3g} ± {error:.1g} ({named(row)}{', ' * bool(place)}{place})")
        apart = (one.ess - ess) / np.hypot(one.ess_error, error)
        # What is not seen of a line: it may rise beyond its grid, and be no lower below it than at its first step.
        ends = any(
            place == EDGE or place == BELOW and rows.ess.iloc[0] > one.ess
            for (*_, place), (*_, rows) in zip(found.values(), lines, strict=True)
        )
        way = "gains" if apart > most and not ends else "costs" if apart < -most and not top else "not resolved"
        sides.setdefault(way, []).append(f"{tolerance:g}")
    frictions = {friction for _, friction, _ in lines} - {0}
    return what, claim, "; ".join(here), judged(sides, "" if len(frictions) > 1 else ", at one friction")


def full_gradients(title: str, reference: pd.DataFrame, corrected: pd.DataFrame) -> tuple:
    """The reference, HMC with full gradients, against the best corrected setting with minibatches, at equal data."""
    what, claim = f"{title}: ESS / 1,000 minibatches' worth of data, full gradients (HMC) and corrected", "not known"
    reference, corrected = known(reference.assign(frozen=0)), known(corrected)
    if reference.empty or corrected.empty:
        return what, claim, "τ not known", "not comparable: too few draws"
    full, one = reference.iloc[0], corrected.loc[corrected.ess.idxmax()]
    here = f"{full.ess / BATCHES:.3g} ± {full.ess_error / BATCHES:.1g}, corrected {one.ess:.3g} ± {one.ess_error:.1g}"
    apart = (full.ess / BATCHES - one.ess) / np.hypot(full.ess_error / BATCHES, one.ess_error)
    ratio = full.ess / BATCHES / one.ess
    more = f"full gradients {ratio:.1f} times" if apart > 0 else f"minibatches {1 / ratio:.1f} times"
    return what, claim, here, f"not claimed: {more}" if abs(apart) > limit(1, groups_of(full, one)) else "not resolved"


def judged(sides: dict[str, list[str]], condition: str) -> str:
    """The verdict, of tolerances on each side: that of all of them, or which way at which."""
    if not condition and len(sides) == 1:
        return {"costs": "agrees", "gains": "differs: it gains", "not resolved": "not resolved"}[next(iter(sides))]
    return f"not claimed{condition}: " + ", ".join(f"{way} at {' and '.join(some)}" for way, some in sides.items())


def named(row) -> str:
    """A word, and its friction."""
    return f"{LOOK[row.word, row.refresh][3]}, γ = {row.friction:g}"
