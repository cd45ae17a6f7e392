"""How the figures look: colours that colour-blind eyes tell apart (Okabe and Ito), names, small helpers."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#7F7F7F",
)

NAMES = {
    "random_walk": "Metropolis",
    "hmc": "HMC",
    "langevin": "Langevin",
    "persistent_langevin": "persistent",
    "nonreversible_langevin": "non-reversible",
    "sghmc": "SGHMC",
    "amagold": "AMAGOLD",
    "l2mc": "L2MC",
    "ggmc": "GGMC",
    "sgld": "SGLD",
    "ovrvo": "OVRVO",
    "baoab": "BAOAB",
    "aboba": "ABOBA",
}
COLOURS = {
    "sghmc": RED,
    "amagold": GREEN,
    "hmc": BLUE,
    "l2mc": PURPLE,
    "ggmc": GREEN,
    "random_walk": GREY,
    "langevin": SKY,
    "persistent_langevin": ORANGE,
    "nonreversible_langevin": GREEN,
    "ovrvo": ORANGE,
    "baoab": BLUE,
    "aboba": PURPLE,
}
MARKERS = {  # which tell lines apart in grey, too
    "hmc": "s",
    "l2mc": "D",
    "sghmc": "v",
    "amagold": "o",
    "langevin": "D",
    "persistent_langevin": "^",
    "nonreversible_langevin": "o",
}


def clean(*panels: Axes) -> None:
    """No frame above and to the right."""
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)


def label(panel: Axes, x, y, text: str, colour: str, **options) -> None:
    """A direct label beside the point (x, y), in the colour of its line."""
    panel.annotate(text, (x, y), (6, 0), textcoords="offset points", color=colour, va="center", **options)


def handle(label: str, **look) -> Line2D:
    """An entry of a legend, of what may be drawn in any panel or in none: a line of this look."""
    return Line2D([], [], **({"ms": 4, "lw": 1.2} | look), label=label)


def ticks(axis: Axis) -> None:
    """Of an axis whose scale is logarithmic, labels at 1, 2 and 5 times the powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")


def of_known_tau(panel: Axes) -> None:
    """A logarithmic axis of what τ gives, such as ESS; a ``note`` where no τ is known, so that there is no point."""
    if panel.has_data():
        panel.set_yscale("log")
        ticks(panel.yaxis)
    else:
        note(panel)


def note(panel: Axes, text: str = "chains too short\nto know τ") -> None:
    """In grey why there is no point in a panel, in place of numbers that would mean nothing."""
    options = {"color": GREY, "ha": "center", "va": "center", "bbox": {"fc": "white", "ec": "none"}}
    panel.text(0.5, 0.4, text, transform=panel.transAxes, **options)
    panel.tick_params(axis="y", which="both", left=False, labelleft=False)
