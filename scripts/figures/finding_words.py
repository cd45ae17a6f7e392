"""Which word? Bias of palindromic words without correction, and what correction costs, with noisy gradients."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, clean
from verdicts import chance

SOURCE = "Which word, with noisy gradients?"
CAPTION = """
Words of drifts, kicks and refreshments at 11 gradients a trajectory, friction 1, mass 1, T = 1. Gradient noise N(0, 1)
on the toys, minibatches of a fifth of the data on Heart. Top: uncorrected draws, by how much their mean U is too large,
2(E U − its exact or, of a regression, the reference's value)/dim, in units of T, over what a correction rejects at the
same step size; points within three errors of zero are left out. Dashed, of the double well: the same with exact
gradients, over the rejections that noise would cause. Bottom: corrected chains, ESS of the slowest coordinate per 1,000
gradients over the mean step a gradient; U, of a regression worth five minibatch gradients and of a toy one, is counted
where the price of the correction is judged, and left out elsewhere. OVRVO, on the double well alone, is OBABO with A
and B scaled by b, so at friction γ it is OBABO at bh and γ/b, and lies under it. Momentum is kept from trajectory to
trajectory, but for what the O's forget, or drawn afresh (BAB, which has no O, and OBABO a second time). On the toys,
whose trajectories go for times up to 4, BAB remembers longest; on Heart, where they go for less than .1, the words
that keep their momentum do: that is where noise heats most, and where corrected chains are fastest but for the double
well, whose barrier decides. Toys: six step sizes in one tensor, 200 chains of each at paper scale (quick 40) from
exact draws, 200 trajectories left out (50), 1,000 draws each (200). Heart: five step sizes, 20 chains of 2,000 draws
(quick 8 of 500) after 500 (300) from standard normals; the reference is HMC with full gradients, 60 chains of 3,000
(quick 40 of 500). τ and chain lengths are in the table: corrected chains are from five τ, below which it is not given,
to some hundreds long, enough for τ from all of them together, not for one chain's mean. The largest steps are the
grid's edge: ESS may rise beyond. Errors are over chains (of ESS the jackknife's over ten groups). Every corrected
chain is exact: the certificate has rows of ggmc, ovrvo, baoab, aboba and hmc with noisy gradients under metropolis and
of ggmc with full refresh; `python -m sgmcmc.certify --word BABOBAB --output results/words/BABOBAB` made [that
word's](words/BABOBAB/certificate.md). One friction and one length of trajectory: this does not show how the words
compare at others, nor on networks.
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


def chosen(table: pd.DataFrame, target: str, acceptance: str, noise: float = 1.0) -> pd.DataFrame:
    """The rows of a target's finished runs, corrected or not."""
    part = table[(table.target == target) & (table.acceptance == acceptance) & (table.word != "reference")]
    part = part[part.status == "done"]
    return part[part.noise == noise] if target in TOYS else part


def of_word(part: pd.DataFrame, key: tuple[str, str]) -> pd.DataFrame:
    """The rows of a word."""
    return part[(part.word == key[0]) & (part.refresh == key[1])].sort_values("step_size")


def draw(toys: pd.DataFrame, *regressions: pd.DataFrame) -> Figure:
    """A column a target: bias against rejections, efficiency over step sizes."""
    figure, panels = pyplot.subplots(2, len(PANELS), figsize=(12, 5.8), layout="constrained")
    columns(pd.concat([toys, *regressions]), PANELS, panels)
    panels[0, 0].text(0.95, 0.05, "dashed: exact gradients", transform=panels[0, 0].transAxes, fontsize=8, ha="right")
    figure.suptitle(TITLE, fontsize=11)
    return figure


def columns(table: pd.DataFrame, targets, panels) -> None:
    """Two panels a target, beneath each other."""
    for (target, title), top, bottom in zip(targets, *panels, strict=True):
        corrected, bare = chosen(table, target, "metropolis"), chosen(table, target, "monitor")
        still = chosen(table, target, "monitor", 0.0) if target == "double_well" else None
        for key, (colour, marker, line, name) in LOOK.items():
            own = of_word(corrected, key)
            if own.empty:
                continue
            options = {"color": colour, "marker": marker, "ms": 4, "lw": 1.2}
            for rows, style in ((of_word(bare, key), line), (None if still is None else of_word(still, key), "--")):
                if rows is None or rows.empty:
                    continue
                pair = rows.merge(own[["step_size", "accepted"]], on="step_size", suffixes=("_bare", ""))
                sure = pair.excess.abs() > 3 * pair.excess_error
                pair = pair[sure]
                quiet = options | ({"alpha": 0.6, "lw": 0.9} if style == "--" else {})
                top.errorbar(1 - pair.accepted, pair.excess.abs(), pair.excess_error, ls=style, **quiet)
            bottom.errorbar(own.time, own.ess, own.ess_error, ls=line, label=name, **options)
        top.set(yscale="log", xlabel="rejected, when corrected", title=title, ylim=(0.01, 4))
        top.yaxis.set_major_formatter("{x:g}")
        bottom.set(xlabel="mean step a gradient")
        bottom.set_ylim(bottom=0)
        clean(top, bottom)
    panels[0, 0].set_ylabel("uncorrected: |excess of U|")
    panels[1, 0].set_ylabel("corrected: ESS / 1,000 gradients")
    panels[1, 0].legend(frameon=False, fontsize=7)


def compare(toys: pd.DataFrame, *regressions: pd.DataFrame):
    """What theory says of the words' bias, of acceptance, and of the price of a correction."""
    table = pd.concat([toys, *regressions])
    yield no_bias(table)
    yield from exact_and_noisy(toys)
    yield from of_targets(table, PANELS)


def no_bias(table: pd.DataFrame) -> tuple:
    """The mean U of all corrected settings against its exact value."""
    corrected = table[(table.acceptance == "metropolis") & table.excess.notna() & (table.excess_error > 0)]
    if corrected.empty:
        return "corrected draws", "no bias, for any word", "", "not comparable: no run, or no reference"
    of_reference = corrected.reindex(columns=["reference_error"]).fillna(0).reference_error
    errors = np.hypot(corrected.excess_error, of_reference)
    away = (corrected.excess / errors).abs()
    probability = chance(away, corrected.chains)
    here = (
        f"largest |excess| {away.max():.1f} of its errors, {corrected.excess.abs().median():.2g} in the median, errors "
    )
    here += f"{errors.median():.2g}; of {len(away)} corrected settings the most unlikely has p = {probability:.2g}, by "
    here += "Student's t and Bonferroni"
    return "corrected draws", "no bias, for any word", here, "agrees" if probability > 0.01 else "differs"


def of_targets(table: pd.DataFrame, targets):
    """Acceptance, orders, memory and the price of a correction, target by target."""
    for target, title in targets:
        part = chosen(table, target, "metropolis")
        if part.empty:
            yield f"{title}: all", "", "", "not comparable: no run"
            continue
        part = part.assign(step=part.groupby(["word", "refresh"]).cumcount())
        spread = part.groupby("step").accepted.agg(lambda values: values.max() - values.min())
        here = (
            f"{part.accepted.max():.2f} to {part.accepted.min():.2f}; words at one step size within {spread.max():.2f}"
        )
        verdict = "agrees" if spread.max() < 0.1 else "differs"
        yield f"{title}: acceptance", "the same for all words: noise dominates log MH", here, verdict
        yield of_orders(title, part)
        yield of_memory(title, part)
        yield price(title, part, chosen(table, target, "monitor"), 1 if target in TOYS else 5)


def exact_and_noisy(toys: pd.DataFrame):
    """On the double well at the largest step: BAOAB's small bias with exact gradients, and what noise adds."""
    bare = {noise: chosen(toys, "double_well", "monitor", noise) for noise in (0.0, 1.0)}
    keys = [key for key in LOOK if key[1] == "keep" and key[0] != "OVRVO"]
    rows = {(key, noise): of_word(part, key) for key in keys for noise, part in bare.items()}
    if any(part.empty or part.excess.isna().any() for part in rows.values()):
        yield "double well, uncorrected", "", "", "not comparable: a run is missing or diverged"
        return
    still = {key[0]: rows[key, 0.0].iloc[-1] for key in keys}
    noisy = {key[0]: rows[key, 1.0].iloc[-1] for key in keys}
    others = min((row for word, row in still.items() if word != "BAOAB"), key=lambda row: abs(row.excess))
    least = still["BAOAB"]
    here = ", ".join(f"{word} {row.excess:.2f}" for word, row in still.items()) + f" ± {least.excess_error:.2f}"
    apart = (abs(others.excess) - abs(least.excess)) / np.hypot(others.excess_error, least.excess_error)
    verdict = "agrees" if apart > 3 else "differs" if apart < -3 else "not resolved"
    what = "double well, exact gradients, uncorrected, largest step: excess"
    yield what, "least for BAOAB (Leimkuhler and Matthews)", here, verdict
    added = {word: (noisy[word].excess - still[word].excess) for word in still}
    errors = {word: np.hypot(noisy[word].excess_error, still[word].excess_error) for word in still}
    mean = np.average(list(added.values()), weights=[1 / error**2 for error in errors.values()])
    away = max(abs(added[word] - mean) / errors[word] for word in added)
    here = ", ".join(f"{word} {value:.2f}" for word, value in added.items()) + f" ± {errors['BAOAB']:.2f}"
    verdict = "agrees" if away < 3.5 else f"differs by {away:.1f} errors"
    yield "the same: what noise N(0, 1) adds", "the same for all words: a leading order h/(2γ) in T", here, verdict


def of_orders(title: str, part: pd.DataFrame) -> tuple:
    """The best ESS over steps of each word that keeps its momentum: what the order of the letters is worth."""
    what, claim = f"{title}: best corrected ESS, momentum kept, by the order of letters", "not known"
    kept = part[(part.refresh == "keep") & (part.word != "OVRVO") & part.ess_error.notna()]
    if kept.word.nunique() < 2:
        return what, claim, "τ not known", "not comparable: too few draws"
    rows = kept.loc[kept.groupby("word").ess.idxmax()].sort_values("ess")
    here = ", ".join(f"{row.word} {row.ess:.3g} ± {row.ess_error:.1g}" for row in rows.itertuples())
    ratio = rows.ess.iloc[-1] / rows.ess.iloc[0]
    return what, claim, here, f"not claimed: within a factor {ratio:.2f}"


def of_memory(title: str, part: pd.DataFrame) -> tuple:
    """The best ESS over steps of BAB, whose momentum is fresh and without friction, against that of OBABO kept."""
    what, claim = f"{title}: best corrected ESS, BAB with fresh momentum and OBABO with kept", "not known"
    part = part[part.ess_error.notna()]
    ours, others = part[part.word == "BAB"], part[(part.word == "OBABO") & (part.refresh == "keep")]
    if ours.empty or others.empty:
        return what, claim, "τ not known", "not comparable: too few draws"
    one, other = (rows.loc[rows.ess.idxmax()] for rows in (ours, others))
    apart = (one.ess - other.ess) / np.hypot(one.ess_error, other.ess_error)
    here = f"{one.ess:.3g} ± {one.ess_error:.1g}, {other.ess:.3g} ± {other.ess_error:.1g}"
    verdict = f"not claimed: {one.ess / other.ess:.2g} times" if abs(apart) > 3 else "not claimed: no difference"
    return what, claim, here, verdict


TOLERATED = 0.1  # excess of U, in units of T


def price(title: str, corrected: pd.DataFrame, bare: pd.DataFrame, energy: int) -> tuple:
    """The best ESS of corrected chains, against the best of uncorrected ones whose excess is at most .1. U at a
    trajectory's end, which only a correction needs, counts as ``energy`` gradients."""
    what = f"{title}: ESS corrected (U counted), and uncorrected with an excess up to {TOLERATED:g}"
    share = corrected.gradients / (corrected.gradients + energy)
    corrected = corrected.assign(ess=corrected.ess * share, ess_error=corrected.ess_error * share)
    bare, corrected = (rows[rows.ess_error.notna()] for rows in (bare, corrected))
    bare = bare[bare.excess.abs() < TOLERATED]
    if bare.empty or corrected.empty:
        return what, "correction costs", "τ not known, or no such step", "not comparable"
    one, other = (rows.loc[rows.ess.idxmax()] for rows in (corrected, bare))
    names = [LOOK[row.word, row.refresh][3] for row in (one, other)]
    here = f"{one.ess:.3g} ± {one.ess_error:.1g} ({names[0]}, accepts {one.accepted:.2f}), "
    here += f"{other.ess:.3g} ± {other.ess_error:.1g} ({names[1]}, excess {other.excess:.2f})"
    apart = (one.ess - other.ess) / np.hypot(one.ess_error, other.ess_error)
    verdict = "differs: it gains" if apart > 3 else "agrees" if apart < -3 else "not resolved"
    return what, "correction costs", here, verdict


TITLE = "Under noise it matters more how long the momentum is remembered than in which order the letters stand"
