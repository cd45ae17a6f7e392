"""The picture that a run leaves beside its metrics: energies, acceptance, how fast the potential decorrelates."""

from __future__ import annotations

import io
import os
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd

from sgmcmc import disk
from sgmcmc.diagnostics import autocorrelation

# Okabe and Ito's: colour-blind safe.
BLUE, ORANGE, GREEN, GREY, BLACK = "#0072B2", "#E69F00", "#009E73", "#777777", "#000000"
NAME = "picture.png"
MOST, FAR = 0.95, 100  # where the largest of a trajectory's energies is FAR times what MOST are below, these are shown


def draw(folder: str | Path, title: str, acceptance: str = "acceptance", every: int = 1) -> Path:
    """Write ``picture.png`` into a run folder from its ``metrics.csv``; returns its path.

    Four panels: the potential (a datum, where there are data), the energy error of trajectories and its two parts,
    the acceptance probability, each over cycles, and the autocorrelation of the potential between rows. The axes are
    for all but the first tenth of the rows, which may come from far away, and leave them.
    ``acceptance`` is what the acceptance is called (that of a chain that is not corrected says so); ``every`` is
    after how many cycles there is a row.
    """
    os.environ["MPLBACKEND"] = "Agg"  # what a notebook's shell commands inherit may not be installed here
    import matplotlib

    matplotlib.use("Agg")  # where it is imported already
    from matplotlib import pyplot

    rows = pd.read_csv(Path(folder) / "metrics.csv")
    figure, panels = pyplot.subplots(2, 2, figsize=(10, 6))
    # Not by the constrained layout, which draws all of it once more: a grid has hundreds of these.
    figure.subplots_adjust(left=0.095, right=0.92, bottom=0.085, top=0.88, wspace=0.3, hspace=0.42)
    panels = panels.flatten()
    _potential(panels[0], rows)
    _energies(panels[1], rows)
    _acceptance(panels[2], rows, acceptance)
    _decorrelation(panels[3], rows, every)
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
    title = title.encode("utf-8", "replace").decode()  # a name may have bytes that are no letters
    figure.suptitle(title, fontsize=11, parse_math=False)
    drawn = io.BytesIO()
    try:
        figure.savefig(drawn, dpi=110, format="png")
    finally:
        pyplot.close(figure)
    path = Path(folder) / NAME
    disk.write(path, drawn.getvalue())
    return path


def _later(values):
    """The finite numbers of a column, or of several, without its first tenth."""
    values = values[len(values) // 10 :].to_numpy()
    return values[np.isfinite(values)]


def _potential(panel, rows: pd.DataFrame) -> None:
    known = rows[rows.potential.notna()]  # a row without a finite chain has none, and NaN is not NaN
    data = (known.potential != known.potential_per_datum).any()
    values = rows.potential_per_datum if data else rows.potential
    panel.plot(rows.cycle, values, color=BLUE, linewidth=1)
    shown = _later(values)
    if len(shown) and (margin := 0.05 * (shown.max() - shown.min())) > 0:
        panel.set_ylim(shown.min() - margin, shown.max() + margin)
    panel.set(title="potential" + (" a datum" if data else ""), xlabel="cycle", ylabel="U / N" if data else "U")


def _energies(panel, rows: pd.DataFrame) -> None:
    parts = rows[["delta_potential", "delta_kinetic"]].replace([np.inf, -np.inf], np.nan)
    panel.plot(rows.cycle, parts.delta_potential, color=BLUE, linewidth=0.8, label="ΔU")
    panel.plot(rows.cycle, parts.delta_kinetic, color=ORANGE, linewidth=0.8, label="ΣΔK")
    panel.axhline(0, color=GREY, linewidth=0.5)
    panel.set(title="energies of a trajectory", xlabel="cycle", ylabel="ΔU, ΣΔK")
    # The sum, of which the acceptance is made, is far smaller than its parts: it has its own axis.
    right, total = panel.twinx(), parts.sum(axis=1, skipna=False)
    right.plot(rows.cycle, total, color=BLACK, linewidth=1.2, label="sum = −T log MH (right)")
    for axis, values in ((panel, _later(parts)), (right, _later(total))):
        reach = 1.6 * _reach(np.abs(values)) or 1.0
        axis.set_ylim(-reach, reach)
    lines = [line for line in panel.get_lines()[:2] + right.get_lines() if np.isfinite(line.get_ydata()).any()]
    if lines:
        panel.legend(handles=lines, frameon=False, fontsize=8, ncols=3, loc="upper center")


def _reach(sizes: np.ndarray) -> float:
    """The largest size or, where a few are far beyond all others, what most are below."""
    if not sizes.size:
        return 0.0
    largest, most = float(sizes.max()), float(np.quantile(sizes, MOST))
    return most if largest > FAR * most > 0 else largest


def _acceptance(panel, rows: pd.DataFrame, acceptance: str) -> None:
    window = max(1, len(rows) // 20)
    smooth = rows.accept_prob.rolling(window, min_periods=1, center=True).mean()
    panel.plot(rows.cycle, rows.accept_prob, ".", color=BLUE, markersize=3, alpha=0.4)
    panel.plot(rows.cycle, smooth, color=BLUE, linewidth=1.5)
    panel.set(xlabel="cycle", ylabel="mean probability of acceptance", ylim=(-0.02, 1.02))
    if len(acceptance) <= 60:
        panel.set_title(acceptance)
    else:  # a reason why it is not exact, in what room there is below the panel above
        panel.set_title("\n".join(textwrap.wrap(acceptance, 80, max_lines=2, placeholder=" …")), fontsize=8)


def _decorrelation(panel, rows: pd.DataFrame, every: int) -> None:
    rows = rows[rows.cycle % every == 0]  # where a run, or a segment of it, ended there is a row between two
    half = rows.potential[len(rows) // 2 :].to_numpy()  # the second half: the first is on its way
    half = half[np.isfinite(half)]
    panel.set(
        title="decorrelation of the potential", xlabel="lag in cycles", ylabel="autocorrelation", ylim=(-0.5, 1.05)
    )
    panel.axhline(0, color=GREY, linewidth=0.5)
    if len(half) < 4 or not half.std() > 0:
        panel.text(0.5, 0.5, "too few rows, or it never moved", ha="center", transform=panel.transAxes, color=GREY)
        return
    correlation = autocorrelation(half[:, None, None], max(2, len(half) // 3) - 1)[:, 0]
    bound = 2 / np.sqrt(len(half))
    if (within := np.abs(correlation) < bound).any():  # of a long run all others are as good as 0
        correlation = correlation[: max(20, 10 * int(within.argmax()))]
    panel.plot(np.arange(len(correlation)) * every, correlation, color=GREEN, linewidth=1.5)
    panel.axhspan(-bound, bound, color=GREY, alpha=0.15, linewidth=0)
    panel.text(0.98, 0.92, "second half of the run", ha="right", transform=panel.transAxes, color=GREY, fontsize=8)
