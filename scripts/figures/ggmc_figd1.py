"""GGMC paper, Figure D.1: the whole runs, a point a cycle, of all data."""

import numpy as np
import pandas as pd
from figures.ggmc_fig1 import ERRORS, FEW, LABEL, ONE, ROWS, accepts_more, colour_of, grows, marked, text_of
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import clean

SOURCE = "GGMC paper, Figure D.1"
CAPTION = """
The whole runs of Figure 1, of which section 4 says that the acceptance is close to 1 at ℓ = 1e-6 alone. Paper scale is
configured and not run here. At quick scale every cycle at the largest ℓ would be rejected and hardly any at the
smallest, but no row can be compared with the paper.

**What was run.** The runs of Figure 1 from their start, with one function U (no augmentation, mass 1). Quick scale: 3
cycles of an epoch of 5,000 images, from 2 epochs of SGD.

**What is drawn.** A point a cycle, quantities of the whole training set; log MH and the acceptance probability min(1,
MH) are exact. The rows are of means over the second half of the cycles.

**Decided here.** Which panels the paper's figure has is not recoverable; these are Figure 1's, and the acceptance
probability, which its section 4 reads from it.

**To know.** At quick scale all chains have one start and meet the same minibatches, and nothing is in equilibrium. log
MH grows with the number of data and of steps.
"""
COLUMNS = (
    ("log_accept", LABEL),
    ("accept_prob", "acceptance probability"),
    ("potential_per_datum", "potential, a datum"),
    ("kinetic_temperature", "kinetic temperature"),
)


def draw(table: pd.DataFrame, exact: bool = True) -> Figure:
    """Two rows of four panels over the number of minibatch steps."""
    figure, panels = pyplot.subplots(2, 4, figsize=(10.5, 4.8), sharex=True, sharey="col", layout="constrained")
    for row, (name, text) in zip(panels, ROWS, strict=True):
        for panel, (column, title) in zip(row, COLUMNS, strict=True):
            for rate, part in table[table.sampler == name].dropna(subset=["step"]).groupby("lr"):
                marks = "o-" if len(part) < 30 else "-"
                panel.plot(part.step, part[column], marks, color=colour_of(rate), ms=4, lw=0.9, label=text_of(rate))
            if name == "ggmc":
                panel.set_title(marked(title, exact or "accept" not in column), fontsize=9)
        row[0].set_ylabel(text)
        row[0].set_yscale("symlog", linthresh=1)
        row[1].set_ylim(-0.05, 1.05)
    clean(*panels.flat)
    for panel in panels[1]:
        panel.set_xlabel("number of minibatch steps", fontsize=9)
    lines, texts = max((row[0].get_legend_handles_labels() for row in panels), key=lambda found: len(found[0]))
    figure.legend(lines, texts, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    title = "Exact log MH of every cycle, by learning rate"
    late = table[table.cycle > table.cycle.max() / 2].groupby("lr").accept_prob.agg(["min", "max"])
    if len(late) > 1 and late["max"].iloc[-1] < 0.01 and late["min"].iloc[0] > 0.8:
        title = "At the largest learning rate every cycle would be rejected, at the smallest hardly any"
    if not exact:
        title = "As run: both ends of a cycle are evaluated with fresh noise, so no acceptance is exact"
    figure.suptitle(title, fontsize=11)
    return figure


def compare(table: pd.DataFrame):
    """The claims of section 4, over the second half of the cycles."""
    table = table.dropna(subset=["step"])
    late = table[table.cycle > table.cycle.max() / 2]
    gone = [(name, text) for name, text in ROWS if name not in set(late.sampler)]
    for _, text in gone:
        yield f"{text}: all", "", "", f"not comparable: no run of {text}"
    cycles = late.cycle.nunique()
    of = f"of {cycles} cycles" if cycles > 1 else "of one cycle"
    late = late.assign(size=late.log_accept.abs())
    means = late.groupby(["sampler", "lr"])[["size", "log_accept", "accept_prob"]].mean()
    decay = table[table.sampler == "ggmc"].groupby("lr").momentum_decay.first()
    paper = {1e-6: 0.999936, 1e-4: 0.999361, 1e-3: 0.997982, 1e-2: 0.993632}
    paper = {rate: paper[rate] for rate in decay.index if rate in paper}
    same = bool(paper) and all(abs(decay[rate] - value) < 1e-5 for rate, value in paper.items())
    fewer = "not comparable: fewer data and steps, smaller log MH"
    if paper:
        yield (
            f"β(ℓ) = exp(−γ √(ℓ/N)), ℓ = {', '.join(f'{rate:g}' for rate in paper)}",
            ", ".join(f"{value:.6f}" for value in paper.values()) + " (their code, N = 50,000)",
            ", ".join(f"{decay[rate]:.6f}" for rate in paper),
            "agrees" if same else "not comparable: the friction is theirs, N is not",
        )
    else:
        fewer = "not comparable: no run of GGMC at an ℓ of the paper's, whose β tells the number of data"
    noise = table.noise.max() if "noise" in table else 0.0
    for name, text in ROWS:
        if (name, text) in gone:
            continue
        size, prob = means.loc[name]["size"], means.loc[name].accept_prob
        here = ", ".join(f"{value:.3g}" for value in size) + f" (mean of abs {of}; {ERRORS}"
        here += f", and U's noise of {noise:.2g})" if noise else ")"
        verdict = grows(size, cycles, noise) if same or len(size) < 2 else fewer
        yield f"{text}: abs(log MH) grows with ℓ", "yes", here, verdict
        alone = prob.iloc[0] > 0.5 and bool((prob.iloc[1:] < 0.5).all())
        here = ", ".join(f"{value:.3f}" for value in prob) + f" (mean {of}; close: above .5, the others below)"
        verdict = ("agrees" if alone else "differs") if same else fewer
        if len(prob) < 2:
            verdict = ONE
        elif prob.index[0] != 1e-6:
            verdict = "not comparable: no run at ℓ = 1e-6"
        yield f"{text}: acceptance close to 1 for ℓ = 1e-6 alone", "yes", here, verdict
    if not gone:
        yield from of_both(late, means, same, cycles, noise)
    if "ggmc" in means.index:
        yield from of_ggmc(late, same)


def of_both(late: pd.DataFrame, means: pd.DataFrame, same: bool, cycles: int, noise: float):
    """Acceptance and potentials of HMC beside GGMC's."""
    ggmc, hmc = means.loc["ggmc"].log_accept, means.loc["hmc"].log_accept
    if not (rates := sorted({*ggmc.index} & {*hmc.index})):
        yield "HMC accepts more than GGMC", "yes", "", "not comparable: no run of both at one ℓ"
        return
    *row, verdict = accepts_more(hmc, ggmc, rates, cycles, noise)
    yield *row, verdict if same else f"not comparable: cycles of each chain: {cycles}"
    last = late.groupby(["sampler", "lr"]).potential_per_datum.mean()
    spread = {name: np.ptp(last.loc[name]) for name, _ in ROWS}
    yield (
        "GGMC's potentials alike for all chains, HMC's not",
        "yes",
        f"range {spread['ggmc']:.2f} (GGMC) and {spread['hmc']:.2f} (HMC) a datum (alike: half of HMC's)",
        ONE if len(hmc) < 2 else ("agrees" if spread["hmc"] > 2 * spread["ggmc"] else "differs") if same else FEW,
    )


def of_ggmc(late: pd.DataFrame, same: bool):
    """GGMC's temperatures and test accuracy."""
    heat = late.groupby(["sampler", "lr"])[["kinetic_temperature", "configurational_temperature"]].mean().loc["ggmc"]
    here = "; ".join(", ".join(f"{value:.2f}" for value in heat[column]) for column in heat)
    yield (
        "GGMC: kinetic; configurational temperature",
        "1.05 to 1.01; about 1 (their notebooks, ℓ = .01 from SGD)",
        here,
        "not comparable: another start" if same else FEW,
    )
    accuracy = late[late.sampler == "ggmc"].groupby("lr").test_accuracy.mean()
    yield (
        "GGMC: test accuracy",
        ".81 to .84 (their notebooks)",
        ", ".join(f"{value:.2f}" for value in accuracy) + " (agrees: the best above .78)",
        ("agrees" if accuracy.max() > 0.78 else "differs") if same else FEW,
    )
