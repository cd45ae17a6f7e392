"""Which word? Bias of palindromic words without correction, and what correction costs, with noisy gradients."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, clean

SOURCE = "Which word, with noisy gradients?"
CAPTION = """
Words of drifts, kicks and refreshments at 11 gradients a trajectory, friction 1, mass 1, T = 1. Gradient noise N(0, 1)
on the toys, minibatches of a tenth of the data on the regressions. Top: uncorrected draws, by how much their mean U is
too large, 2(E U − its exact value)/dim, in units of T, over what a correction rejects at the same step size; points
within three errors of zero are left out. Dashed, of the double well: the same with exact gradients, over the rejections
that noise would cause. Bottom: corrected chains, ESS of the slowest coordinate per 1,000 gradients over the mean step
a gradient. OVRVO is OBABO with A and B scaled by b, so at friction γ it is OBABO at bh and γ/b: it lies under OBABO.
Momentum is kept from trajectory to trajectory, minus what the word's O's forget, or drawn afresh (BAB, which has no O,
and OBABO a second time). Toys: six step sizes in one tensor, 200 chains of each at paper scale (quick 40) from exact
draws, 200 trajectories left out (50), 1,000 draws each (200). Regressions: five step sizes, 20 chains of 2,000 draws
(quick 8 of 500) after 500 (300) from standard normals; the reference is HMC with full gradients, 60 chains of 3,000
(quick 40 of 500). τ and chain lengths are in the table: on the double well at small steps chains are 5 to 50 τ long,
which is enough for τ from all of them together, not for one chain's mean. Errors are over chains. Every corrected
chain is exact: the certificate has rows of ggmc, ovrvo, baoab, aboba and hmc with noisy gradients under metropolis and
of ggmc with full refresh, and `python -m sgmcmc.certify --word BABOBAB` makes the last word's. One friction and one
length of trajectory: this does not show how the words compare at others, nor on networks.
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


def draw(toys: pd.DataFrame, regressions: pd.DataFrame) -> Figure:
    """A column a target: bias against rejections, efficiency over step sizes."""
    table = pd.concat([toys, regressions])
    figure, panels = pyplot.subplots(2, 4, figsize=(12, 5.8), layout="constrained")
    for (target, title), top, bottom in zip(PANELS, *panels, strict=True):
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
        top.set(yscale="log", xlabel="rejected, when corrected", title=title)
        bottom.set(xlabel="mean step a gradient")
        bottom.set_ylim(bottom=0)
        clean(top, bottom)
    panels[0, 0].set_ylabel("uncorrected: |excess of U|")
    panels[1, 0].set_ylabel("corrected: ESS / 1,000 gradients")
    panels[1, 0].legend(frameon=False, fontsize=7)
    figure.suptitle(TITLE, fontsize=11)
    return figure


def compare(toys: pd.DataFrame, regressions: pd.DataFrame):
    """What theory says of the words' bias, of acceptance, and of the price of a correction."""
    table = pd.concat([toys, regressions])
    corrected = table[(table.acceptance == "metropolis") & table.excess.notna() & (table.excess_error > 0)]
    of_reference = corrected.reindex(columns=["reference_error"]).fillna(0).reference_error
    errors = np.hypot(corrected.excess_error, of_reference)
    away = (corrected.excess / errors).abs()
    here = f"largest |excess| {away.max():.1f} of its errors in {len(away)} corrected settings"
    yield "corrected draws", "no bias, for any word", here, "agrees" if away.max() < 4.5 else "differs"
    yield from exact_and_noisy(toys)
    for target, title in PANELS:
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
        yield best_words(title, part)
        yield price(title, part, chosen(table, target, "monitor"))


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


def best_words(title: str, part: pd.DataFrame) -> tuple:
    """The best ESS of BAB over its steps, against the best of any word with O's."""
    part = part[part.ess.notna()]
    ours, others = part[part.word == "BAB"], part[part.word != "BAB"]
    what, claim = f"{title}: best corrected ESS, without and with friction inside", "not known"
    if ours.empty or others.empty:
        return what, claim, "τ not known", "not comparable: too few draws"
    one, other = (rows.loc[rows.ess.idxmax()] for rows in (ours, others))
    apart = (one.ess - other.ess) / np.hypot(one.ess_error, other.ess_error)
    here = f"BAB {one.ess:.3g} ± {one.ess_error:.1g}, {other.word} {other.ess:.3g} ± {other.ess_error:.1g}"
    verdict = f"not claimed: {one.ess / other.ess:.1f} times" if abs(apart) > 3 else "not claimed: no difference"
    return what, claim, here, verdict


TOLERATED = 0.1  # excess of U, in units of T


def price(title: str, corrected: pd.DataFrame, bare: pd.DataFrame) -> tuple:
    """The best ESS of corrected chains, against the best of uncorrected ones whose excess is at most .1."""
    what = f"{title}: ESS corrected, and uncorrected with an excess up to {TOLERATED:g}"
    bare, corrected = bare[(bare.excess < TOLERATED) & bare.ess.notna()], corrected[corrected.ess.notna()]
    if bare.empty or corrected.empty:
        return what, "correction costs", "τ not known, or no such step", "not comparable"
    one, other = (rows.loc[rows.ess.idxmax()] for rows in (corrected, bare))
    here = f"{one.ess:.3g} ± {one.ess_error:.1g} ({one.word}, accepts {one.accepted:.2f}), "
    here += f"{other.ess:.3g} ± {other.ess_error:.1g} ({other.word}, excess {other.excess:.2f})"
    apart = (one.ess - other.ess) / np.hypot(one.ess_error, other.ess_error)
    verdict = "differs: it gains" if apart > 3 else "agrees" if apart < -3 else "not resolved"
    return what, "correction costs", here, verdict


TITLE = "Under noise the word without friction is the most biased uncorrected; corrected, no word is better"
