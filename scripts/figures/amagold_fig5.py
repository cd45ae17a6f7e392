"""AMAGOLD, Figure 5: distribution of the predictive entropy on notMNIST."""

import numpy as np
import pandas as pd
from figures.amagold_table2 import WRONG, of_all_settings
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, NAMES, clean
from verdicts import limit, side

SOURCE = "AMAGOLD, Figure 5"
TABLES = ("amagold_fig5", "amagold_table2")
CAPTION = """
Empirical distribution function of the entropy of the mean prediction of a run's draws, on 10,000 images of notMNIST's
small set, of the same draws as Table 2 (which says at what weights their SGD begins): the further to the left and
above, the more confident about letters that the network has never seen. Means over five seeds, with bands of their
standard errors; of a run that diverged, the draws that it had kept until then, if any. The networks are Table 2's: at
quick scale of 12,000 images, 15 epochs of SGD and 40 trajectories, which is not the paper's experiment. Two things that
the entropies alone do not show are in the comparison below: how few trajectories AMAGOLD accepts, so that its curves
are those of networks near one end of SGD, and coincide for that reason, too; and the test error on digits of SGHMC with
little friction, which says whether it is a network at all whose confidence is shown. Decided where the paper is silent:
overconfident is a sampler that gives a larger share of the letters an entropy of at most .1 nats than AMAGOLD does at
any setting, by more than AMAGOLD's settings differ from each other (means over seeds and their errors decide). Settings
of AMAGOLD are compared by means over the seeds that all of them have, as a seed's settings begin at one end of SGD; how
far the seeds are apart is said beside it. As a large step size is said to make SGHMC overconfident, it is asked besides
whether at b = .01 that share is larger at lr = .001 than at .0005, seed by seed. The share is judged at four settings
of SGHMC (Bonferroni).
"""
SURE = 0.1  # nats, the entropy of a prediction that is all but certain
COINCIDE = 0.1  # the largest distance between distribution functions that are taken to
DASHES = {(0.01, 0.0005): "-", (0.01, 0.001): "--", (5e-6, 0.0005): "-.", (5e-6, 0.001): ":"}


def draw(table: pd.DataFrame, errors: pd.DataFrame) -> Figure:
    """Eight curves: sampler by colour, setting by dashes."""
    figure, panel = pyplot.subplots(figsize=(5.5, 3.8), layout="constrained")
    for (sampler, b, lr), part in table.groupby(["sampler", "b", "lr"], sort=False):
        mean = part.groupby("entropy").share.mean()
        name = f"{NAMES[sampler]} b={b:g} lr={lr:g}" + " (diverged)" * bool((part.status != "done").any())
        error, seeds = part.groupby("entropy").share.sem(), part.seed.nunique()
        name += f", {seeds} seed{'s' * (seeds != 1)}"
        panel.plot(mean.index, mean, DASHES[b, lr], color=COLOURS[sampler], lw=1.4, label=name)
        panel.fill_between(mean.index, mean - error, mean + error, color=COLOURS[sampler], alpha=0.12, lw=0)
    panel.set(xlim=(0, 2.35), ylim=(0, 1.01), xlabel="predictive entropy, nats", ylabel="share of notMNIST's images")
    if len(table):
        panel.legend(frameon=False, fontsize=7)
    clean(panel)
    panel.set_title(title(table), fontsize=9)
    return figure


def title(table: pd.DataFrame) -> str:
    """That AMAGOLD's curves coincide and SGHMC's do not, where they do and do not."""
    curves = table.pivot_table(index=["sampler", "b", "lr"], columns="entropy", values="share")  # means over seeds
    whole = len(curves) == 2 * len(DASHES) and (table.status == "done").all() and (table.train_size == 60000).all()
    distance = {name: apart(part) for name, part in curves.groupby(level="sampler")}
    if whole and distance["amagold"] < COINCIDE < distance["sghmc"]:
        return "AMAGOLD is equally confident of letters at every setting, SGHMC is not"
    return "Predictive entropy on letters, networks trained on digits"


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
    sure = curves[curves.columns[curves.columns <= SURE]].max(axis=1)
    settings = of_all_settings(sure["amagold"]).groupby(level=["b", "lr"]).agg(["mean", "sem"]).fillna(0.0)
    least, most = settings.loc[settings["mean"].idxmin()], settings.loc[settings["mean"].idxmax()]
    means = common.apply(mean_entropy, axis=1).groupby(level=["b", "lr"]).mean()
    here = f"{distance:.3f} (coincide: under {COINCIDE}); "
    here += f"mean entropies within {means.max() - means.min():.3f} nats of each other"
    if (number := common.index.get_level_values("seed").nunique()) > 1:
        seeds = common.groupby(level="seed").mean()
        here += f", of the {number} seeds that all settings have, whose curves are {apart(seeds):.3f} apart"
    accepted = errors[errors.sampler == "amagold"].accept_prob.dropna()
    here += "" if accepted.empty else f"; the chains accept {accepted.min():.2f} to {accepted.max():.2f}"
    yield "largest distance between AMAGOLD's curves", "coincide", here, quick or verdict
    counts = curves.groupby(["sampler", "b", "lr"]).size()
    for (b, lr), claim in CLAIMS.items():
        what = f"SGHMC, b = {b:g}, lr = {lr:g}: share of letters with an entropy of at most {SURE:g}"
        lost, share = gone.get(("sghmc", b, lr)), mean_of(sure, b, lr)
        if lost or np.isnan(share):
            why = lost if "diverged" in str(lost) else "no finished run"
            yield what, claim, "", f"not comparable: {why}"
            continue
        here = f"{share:.3f}{over_seeds(sure, b, lr)}, AMAGOLD's {least['mean']:.3f} to {most['mean']:.3f}; "
        here += f"mean entropy {mean_of(entropies, b, lr):.2f} nats, "
        here += f"AMAGOLD's {own['amagold'].mean():.2f}"
        row = errors[(errors.sampler == "sghmc") & (errors.b == b) & (errors.lr == lr)]
        if row.error.notna().any():
            here += f"; test error on digits {row.error.mean():.1f} %"
        above, error = share - (2 * most["mean"] - least["mean"]), of_setting(sure, b, lr).sem()
        sides = ("agrees", "differs") if claim == "overconfident" else ("differs", "agrees")
        verdict = sides[0] if above > 0 else sides[1]
        if error > 0:  # of several seeds
            error = float(np.sqrt(error**2 + 4 * most["sem"] ** 2 + least["sem"] ** 2))
            verdict = side(above / error, limit(len(CLAIMS), counts["sghmc", b, lr]), sides)
            verdict += f": {above:+.3f} ± {error:.3f} from where overconfidence begins" * (verdict != "agrees")
        if row.error.mean() > WRONG:
            here += f", kinetic temperature {row.kinetic_temperature.mean():.0e}"
            verdict += ": of a network that is at chance on digits"
        one = " and ".join(
            NAMES[name] for name, seeds in (("sghmc", counts["sghmc", b, lr]), ("amagold", counts["amagold"].min()))
            if seeds == 1
        )  # fmt: skip
        yield what, claim, here, quick or verdict + f" ({one}: one seed)" * bool(one)
    here, verdict = grows(sure, 0.01)
    what = f"SGHMC, b = 0.01, lr = 0.001 less lr = 0.0005: share of letters with an entropy of at most {SURE:g}"
    yield what, "more: a large step size", here, quick or verdict


CLAIMS = {
    (0.01, 0.0005): "not said to be overconfident",
    (0.01, 0.001): "overconfident",
    (5e-6, 0.0005): "overconfident",
    (5e-6, 0.001): "overconfident",
}


def of_setting(values: pd.Series, b: float, lr: float) -> pd.Series:
    """The numbers of SGHMC's runs at a setting, by seed."""
    return pd.Series({seed: value for (*key, seed), value in values.items() if key == ["sghmc", b, lr]}, dtype=float)


def over_seeds(values: pd.Series, b: float, lr: float) -> str:
    """The standard error of the mean of SGHMC's runs at a setting, where there are several."""
    chosen = of_setting(values, b, lr)
    return f" ± {chosen.sem():.3f}" if len(chosen) > 1 else ""


def grows(sure: pd.Series, b: float) -> tuple[str, str]:
    """By how much SGHMC is the more confident at the larger learning rate, seed by seed, and the verdict."""
    more = (of_setting(sure, b, 1e-3) - of_setting(sure, b, 5e-4)).dropna()
    gap, error = more.mean(), more.sem()
    if not len(more):
        return "", "not comparable: no seed has both"
    if not error > 0:
        return f"{gap:+.3f}", ("agrees" if gap > 0 else "differs") + " (one seed)" * (len(more) == 1)
    return f"{gap:+.3f} ± {error:.3f} over {len(more)} seeds", side(gap / error, limit(1, len(more)))


def mean_of(values: pd.Series, b: float, lr: float) -> float:
    """The mean of SGHMC's runs at a setting, over seeds; NaN where there is none."""
    return float(of_setting(values, b, lr).mean())
