"""AMAGOLD, Figure 5: distribution of the predictive entropy on notMNIST."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, NAMES, clean

SOURCE = "AMAGOLD, Figure 5"
CAPTION = """
Empirical distribution function of the predictive entropy on notMNIST's small set, of the same draws as Table 2: the
further to the left and above, the more confident about letters that the network has never seen. Means over seeds
where there are several; of a run that diverged, the draws that it had kept until then, if any. The networks are
Table 2's: at quick scale of 12,000 images, 15 epochs of SGD and 40 trajectories, which is not the paper's experiment.
"""
DASHES = {(0.01, 0.0005): "-", (0.01, 0.001): "--", (5e-6, 0.0005): "-.", (5e-6, 0.001): ":"}


def draw(table: pd.DataFrame) -> Figure:
    """Eight curves: sampler by colour, setting by dashes."""
    figure, panel = pyplot.subplots(figsize=(5.5, 3.8), layout="constrained")
    for (sampler, b, lr), part in table.groupby(["sampler", "b", "lr"], sort=False):
        mean = part.groupby("entropy").share.mean()
        name = f"{NAMES[sampler]} b={b:g} lr={lr:g}" + " (diverged)" * bool((part.status != "done").any())
        panel.plot(mean.index, mean, DASHES[b, lr], color=COLOURS[sampler], lw=1.4, label=name)
    panel.set(xlim=(0, 2.3026), ylim=(0, 1), xlabel="predictive entropy, nats", ylabel="share of notMNIST's images")
    panel.legend(frameon=False, fontsize=7)
    clean(panel)
    panel.set_title("Predictive entropy on letters, networks trained on digits", fontsize=10)
    return figure


def mean_entropy(curve: pd.Series) -> float:
    """The mean of a distribution on [0, ln 10] from its distribution function F, ∫(1 − F)."""
    return float(np.trapezoid(1 - curve, curve.index))


def compare(table: pd.DataFrame):
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
    amagold, spread = own["amagold"].mean(), own["amagold"].max() - own["amagold"].min()
    part = curves.loc["amagold"]
    distance = float((part.max() - part.min()).max())
    verdict = "agrees" if distance < 0.1 else f"differs by {distance:.2f}"
    here = f"{distance:.3f}; their mean entropies are within {spread:.3f} nats of each other"
    yield "largest distance between AMAGOLD's curves", "coincide", here, quick or verdict
    for (b, lr), claim in CLAIMS.items():
        what = f"SGHMC, b = {b:g}, lr = {lr:g}: mean entropy"
        against, other = "AMAGOLD's", amagold
        lost = gone.get(("sghmc", b, lr))
        if (b, lr) == (0.01, 0.001):
            against, other = "that of lr = 0.0005", mean_of(entropies, 0.01, 0.0005)
            lost = lost or gone.get(("sghmc", 0.01, 0.0005))
        below = other - mean_of(entropies, b, lr)
        if lost or np.isnan(below):
            why = lost if "diverged" in str(lost) else "no finished run"
            yield what, claim, "", f"not comparable: {why}"
            continue
        seen = "overconfident" if below > spread else "near AMAGOLD's"
        here = f"{abs(below):.3f} nats {'below' if below > 0 else 'above'} {against}, AMAGOLD's spread is {spread:.3f}"
        yield what, claim, here, quick or ("agrees" if claim == seen else "differs")


CLAIMS = {
    (0.01, 0.0005): "near AMAGOLD's",
    (0.01, 0.001): "overconfident",
    (5e-6, 0.0005): "overconfident",
    (5e-6, 0.001): "overconfident",
}


def mean_of(entropies: pd.Series, b: float, lr: float) -> float:
    """SGHMC's mean entropy at a setting, over seeds; NaN where there is none."""
    chosen = [value for (sampler, *at, _), value in entropies.items() if sampler == "sghmc" and at == [b, lr]]
    return float(np.mean(chosen)) if chosen else float("nan")
