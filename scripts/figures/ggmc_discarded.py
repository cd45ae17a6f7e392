"""GGMC paper: the learning rate 1e-1, which its figures leave out, and why."""

import pandas as pd
from figures.ggmc_fig1 import ROWS
from figures.ggmc_figd1 import COLUMNS
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import COLOURS, clean

SOURCE = "GGMC paper, the learning rate that its figures leave out"
CAPTION = """
The authors ran ℓ = .1, too, and discarded it "because of its unstable results" (their appendix D; the notebook that
drew Figure 1 leaves it out with a filter). These are the runs of Figure D.1 at that ℓ: a point a cycle, quantities of
all data, log MH exact. A run that diverged ends where it was last finite. Paper scale is configured and not run here.
Quick scale: the 1,500 handwritten digits and a quarter of the width, 6 cycles of an epoch from 5 epochs of SGD.
"""
WIDE = {"ggmc": 5.5, "hmc": 3}  # of marks, where one may lie on the other
NEVER = 1e-3  # an acceptance that is as good as none


def draw(table: pd.DataFrame) -> Figure:
    """Four panels over the number of minibatch steps."""
    figure, panels = pyplot.subplots(1, 4, figsize=(10.5, 3), layout="constrained")
    rows = cycles(table)
    for panel, (column, name) in zip(panels, COLUMNS, strict=True):
        for sampler, text in ROWS:
            part = rows[rows.sampler == sampler]
            if len(part):
                panel.plot(part.step, part[column], "o-", color=COLOURS[sampler], ms=WIDE[sampler], lw=0.9, label=text)
        panel.set_title(name, fontsize=9)
        panel.set_xlabel("minibatch steps", fontsize=9)
    size = rows.log_accept.abs() if len(rows) else pd.Series([0.0])
    if not size.max() < 100 * size.min():  # else the axis would have hardly a tick
        panels[0].set_yscale("symlog", linthresh=1)
    if len(rows):
        panels[1].set_ylim(-0.05, 1.05)
        panels[-1].legend(frameon=False, fontsize=8)
    clean(*panels)
    figure.suptitle(title(table), fontsize=11)
    return figure


def cycles(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of cycles, of which a run that did not finish may have none."""
    return table.dropna(subset=["step"]) if "step" in table else table.iloc[:0]


def title(table: pd.DataFrame) -> str:
    """What became of the chains."""
    rows = cycles(table)
    if {*rows.sampler} == {sampler for sampler, _ in ROWS} and (table.status == "done").all():
        if rows.accept_prob.max() < NEVER:
            return "ℓ = .1: neither GGMC nor HMC would accept any of its cycles"
    return "ℓ = .1: " + "; ".join(outcome(table, *one) for one in ROWS)


def outcome(table: pd.DataFrame, sampler: str, text: str) -> str:
    """In a few words."""
    mine = table[table.sampler == sampler]
    if (mine.status == "diverged").any():
        return f"{text} diverges"
    if cycles(mine).empty:
        return f"no run of {text}"
    return f"{text} would accept {mine.accept_prob.mean():.2g} of its cycles"


def compare(table: pd.DataFrame):
    """Whether a rate that the paper calls unstable is: it diverges, or, of all data, is still finite."""
    said = "discarded: unstable results"
    for sampler, text in ROWS:
        mine = table[table.sampler == sampler]
        if (mine.status == "diverged").any():
            yield f"{text} at ℓ = .1", said, mine.why.dropna().iloc[0], "agrees: it diverges"
            continue
        mine = cycles(mine)
        if mine.empty:
            yield f"{text} at ℓ = .1", said, "", f"not comparable: no run of {text}"
            continue
        end = mine.iloc[-1]
        here = f"mean log MH {mine.log_accept.mean():.3g}; at the end kinetic temperature {end.kinetic_temperature:.3f}"
        here += f", {end.potential_per_datum:.2f} nats a datum"
        verdict = "not decided: finite to its end, and the paper has no number"
        decay = table.momentum_decay[table.sampler == "ggmc"]
        if not ((decay - 0.98).abs() < 1e-5).any():  # its β at this ℓ and 50,000 data
            verdict = "not comparable: other data and another network, a few epochs"
        yield f"{text} at ℓ = .1", said, here, verdict
