"""AMAGOLD, Figure 5: distribution of the predictive entropy on notMNIST."""

import numpy as np
import pandas as pd
from figures.amagold_table2 import WRONG, of_all_settings
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, NAMES, clean
from verdicts import chance, limit, side

SOURCE = "AMAGOLD, Figure 5"
TABLES = ("amagold_fig5", "amagold_table2")
CAPTION = """
The paper finds SGHMC overconfident about letters where b is small or the step size large, and AMAGOLD's curves alike.
Here AMAGOLD's are alike, and SGHMC is more confident at b = .01, at either step size. At b = 5e-6, where its networks
are at chance on digits, no difference of mean entropies is seen.

**What was run.** The networks and draws of Table 2, of five seeds, on 10,000 images of notMNIST's small set. Quick
scale: 12,000 images, 15 epochs of SGD and 20 trajectories, which is not the paper's experiment.

**What is drawn.** Empirical distribution function of the entropy of the mean prediction of a run's draws: the further
to the left and above, the more confident about letters that the network has never seen. Means over seeds, with bands of
their standard errors.

**Decided here.** Overconfident is a sampler whose mean entropy is below AMAGOLD's (the mean over its settings), seed by
seed; the share of letters with an entropy of at most .1 nats is not judged. Settings of AMAGOLD are compared by means
over the seeds that all of them have, as a seed's settings begin at one end of SGD.

**To know.** AMAGOLD accepts few trajectories: its curves are those of networks near one end of SGD, and coincide for
that reason, too. SGHMC's test error on digits, in the rows, says whether it is a network at all whose confidence is
shown.
"""
SURE = 0.1  # nats, the entropy of a prediction that is all but certain
COINCIDE = 0.1  # the largest distance between distribution functions that are taken to
DASHES = {(0.01, 0.0005): "-", (0.01, 0.001): "--", (5e-6, 0.0005): "-.", (5e-6, 0.001): ":"}


def draw(table: pd.DataFrame, errors: pd.DataFrame) -> Figure:
    """Eight curves: sampler by colour and width, setting by dashes."""
    figure, panel = pyplot.subplots(figsize=(5.5, 3.8), layout="constrained")
    for (sampler, b, lr), part in table.groupby(["sampler", "b", "lr"], sort=False):
        mean = part.groupby("entropy").share.mean()
        name = f"{NAMES[sampler]} b={b:g} lr={lr:g}" + " (diverged)" * bool((part.status != "done").any())
        error, seeds = part.groupby("entropy").share.sem(), part.seed.nunique()
        name += f", {seeds} seed{'s' * (seeds != 1)}"
        width = 1.8 if sampler == "sghmc" else 1  # in grey, too, they are apart
        panel.plot(mean.index, mean, DASHES[b, lr], color=COLOURS[sampler], lw=width, label=name)
        panel.fill_between(mean.index, mean - error, mean + error, color=COLOURS[sampler], alpha=0.12, lw=0)
    panel.set(xlim=(0, 2.35), ylim=(0, 1.01), xlabel="predictive entropy, nats", ylabel="share of notMNIST's images")
    if len(table):
        panel.legend(frameon=False, handlelength=3, fontsize=7)
    clean(panel)
    panel.set_title(title(list(compare(table, errors))), fontsize=9)
    return figure


def title(rows: list[tuple]) -> str:
    """At which b SGHMC is found to be more confident than AMAGOLD at every learning rate, and at which at none."""
    verdicts = {row[0].partition(":")[0]: row[3] for row in rows}
    surer, unseen = [], []
    for b in dict.fromkeys(b for b, _ in CLAIMS):
        found = [(verdicts.get(setting(*key), ""), claim) for key, claim in CLAIMS.items() if key[0] == b]
        if all(verdict.startswith(sides(claim)[0]) and ONE not in verdict for verdict, claim in found):
            surer.append(f"{b:g}")
        if all(verdict.startswith("not resolved") for verdict, _ in found):
            unseen.append(f"{b:g}")
    if not surer or rows[0][3] != "agrees":  # AMAGOLD's settings are to be alike
        return "Predictive entropy on letters, networks trained on digits"
    said = f"SGHMC is more confident of letters than AMAGOLD at b = {' and '.join(surer)}"
    return said + f";\nat b = {' and '.join(unseen)} no difference of mean entropies is seen" * bool(unseen)


def apart(curves: pd.DataFrame) -> float:
    """The largest distance between distribution functions, a row each."""
    return float((curves.max() - curves.min()).max())


def mean_entropy(curve: pd.Series) -> float:
    """The mean of a distribution on [0, ln 10] from its distribution function F, ∫(1 − F)."""
    return float(np.trapezoid(1 - curve, curve.index))


def compare(table: pd.DataFrame, errors: pd.DataFrame):
    """AMAGOLD's curves coincide; SGHMC's with little friction, or a large step size, are overconfident."""
    quick = "not comparable: a fifth of the data, a fraction of the steps" if (table.train_size < 60000).any() else None
    done = table[(table.status == "done") & table.share.notna()]
    gone = {(row.sampler, row.b, row.lr): row.why for row in table[table.status != "done"].itertuples()}
    curves = done.groupby(["sampler", "b", "lr", "seed", "entropy"]).share.mean().unstack("entropy")
    entropies = curves.apply(mean_entropy, axis=1) if len(curves) else pd.Series(dtype=float)
    own = {key: part for key, part in entropies.groupby(level="sampler")} if len(entropies) else {}
    lost = [why for (sampler, *_), why in gone.items() if sampler == "amagold"]
    if lost or "amagold" not in own:
        why = f"differs: {lost[0]}" if "diverged" in "".join(lost[:1]) else "not comparable: no finished run of AMAGOLD"
        yield "AMAGOLD's curves", "coincide", "", why
    if "amagold" not in own:
        return
    common = of_all_settings(curves.loc["amagold"])
    distance = apart(common.groupby(level=["b", "lr"]).mean())
    verdict = "agrees" if distance < COINCIDE else f"differs by {distance:.2f}"
    means = common.apply(mean_entropy, axis=1).groupby(level=["b", "lr"]).mean()
    here = f"{distance:.3f} (coincide: under {COINCIDE}); "
    here += f"mean entropies within {means.max() - means.min():.3f} nats of each other"
    if (number := common.index.get_level_values("seed").nunique()) > 1:
        seeds = common.groupby(level="seed").mean()
        here += f", of the {number} seeds that all settings have, whose curves are {apart(seeds):.3f} apart"
    accepted = errors[errors.sampler == "amagold"].accept_prob.dropna()
    here += "" if accepted.empty else f"; the chains accept {accepted.min():.2f} to {accepted.max():.2f}"
    yield "largest distance between AMAGOLD's curves", "coincide", here, quick or verdict
    sure = curves[curves.columns[curves.columns <= SURE]].max(axis=1)
    own, certain = (of_all_settings(of["amagold"]).groupby(level="seed").mean() for of in (entropies, sure))
    for (b, lr), claim in CLAIMS.items():
        what = f"{setting(b, lr)}: mean entropy less AMAGOLD's, seed by seed"
        lost, ours = gone.get(("sghmc", b, lr)), of_setting(entropies, b, lr)
        if lost or ours.empty:
            why = lost if "diverged" in str(lost) else "no finished run"
            yield what, claim, "", f"not comparable: {why}"
            continue
        here, verdict = paired(ours - own, len(CLAIMS), sides(claim))
        here += f" ({over_seeds(ours, 2)} against {over_seeds(own, 2)}); share of letters with an entropy of at most "
        here += f"{SURE:g}: {over_seeds(of_setting(sure, b, lr))} against {over_seeds(certain)}"
        row = errors[(errors.sampler == "sghmc") & (errors.b == b) & (errors.lr == lr)]
        if row.error.notna().any():
            here += f"; test error on digits {row.error.mean():.1f} %"
        if row.error.mean() > WRONG:
            heat = row.kinetic_temperature
            here += f", kinetic temperature {heat.median():.0e} (median; {heat.min():.0e} to {heat.max():.0e})"
            verdict += (";" if ":" in verdict else ":") + " of a network that is at chance on digits"
        yield what, claim, here, quick or verdict
    small, large = (of_setting(entropies, 0.01, lr) for lr in (5e-4, 1e-3))
    what = "SGHMC, b = 0.01: mean entropy at lr = 0.001 less that at 0.0005, seed by seed"
    here, verdict = paired(large - small, 1, ("agrees", "differs"))  # below 0, above
    yield what, "lower: a large step size", here, quick or verdict


CLAIMS = {
    (0.01, 0.0005): "not said to be overconfident",
    (0.01, 0.001): "overconfident",
    (5e-6, 0.0005): "overconfident",
    (5e-6, 0.001): "overconfident",
}
ONE = "(one seed)"


def setting(b: float, lr: float) -> str:
    """How a row begins that is of a setting of SGHMC."""
    return f"SGHMC, b = {b:g}, lr = {lr:g}"


def sides(claim: str) -> tuple[str, str]:
    """The verdicts on a mean entropy below AMAGOLD's, and on one above."""
    if claim == "overconfident":
        return "agrees", "differs: less confident than AMAGOLD"
    return "differs: more confident than AMAGOLD", "agrees"


def of_setting(values: pd.Series, b: float, lr: float) -> pd.Series:
    """The numbers of SGHMC's runs at a setting, by seed."""
    return pd.Series({seed: value for (*key, seed), value in values.items() if key == ["sghmc", b, lr]}, dtype=float)


def over_seeds(values: pd.Series, digits: int = 3) -> str:
    """The mean over seeds and, of several, its standard error."""
    return f"{values.mean():.{digits}f}" + (f" ± {values.sem():.{digits}f}" if len(values) > 1 else "")


def paired(gaps: pd.Series, number: int, sides: tuple[str, str]) -> tuple[str, str]:
    """Differences of mean entropies, of seeds that have both, and the verdict on the largest of ``number`` such means:
    ``sides`` of one below 0 and of one above."""
    gaps = gaps.dropna()
    if gaps.empty:
        return "", "not comparable: no seed has both"
    gap, error, seeds = gaps.mean(), gaps.sem(), len(gaps)
    if not error > 0:
        return f"{gap:+.3f} nats", sides[int(gap > 0)] + f" {ONE}" * (seeds == 1)
    least = limit(number, seeds)
    p = chance([gap / error] * number, [seeds] * number)
    here = f"{gap:+.3f} ± {error:.3f} nats over {seeds} seeds, p = {p:.2g}"
    here += f" by Bonferroni over {number}" * (number > 1)
    verdict = side(-gap / error, least, sides)
    return here, verdict + f": beyond {least * error:.2g} nats a difference would be seen" * (verdict == "not resolved")
