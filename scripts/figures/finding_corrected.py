"""What the correction changes of a network's chains: mixing, U, and the quality of what they predict."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import GREEN, RED, clean
from verdicts import MIXED, apart, side, welch

SOURCE = "What does the correction change of a network's ensemble?"
CAPTION = """
What does an exact correction change of a network's ensemble? At quick scale nothing that four seeds can tell: neither U
nor the ensembles' NLL differs beyond errors, and the chains of both kinds agree.

**What was run.** Four seeds of GGMC, exactly corrected and not, with the same random numbers, starts and minibatches;
the trajectories of Figure 1, ends exact. Paper scale, configured and not run here: ResNet-20 on CIFAR-10, ℓ = 1e-6, 300
cycles of 10 epochs from He's start, half of them burn-in. Quick scale: a perceptron with 760 weights on 200 of the
handwritten digits, tested on the other 1,597, ℓ = .01, 600 cycles of 50 epochs, 60 of them burn-in, from SGD.

**What is drawn.** Each chain's ensemble, the mean prediction of its draws after the burn-in; bars are standard errors
over the four. R-hat and ESS are of U and of the test set's negative log likelihood at a draw, over the four chains.

**To know.** Where R-hat is not below 1.05 the chains have not mixed. There is no ESS then, and a difference of the
ensembles is one of where the chains have got to, not of what is corrected.
"""
LOOK = {"metropolis": (GREEN, "corrected"), "monitor": (RED, "not corrected")}
PANELS = (
    ("potential", "U a datum"),
    ("accuracy", "accuracy"),
    ("nll", "NLL"),
    ("ece", "calibration error"),
    ("r_hat_potential", "R-hat of U"),
)


def draw(table: pd.DataFrame) -> Figure:
    """A panel a quantity, the corrected chains beside the others."""
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(11, 3.2), layout="constrained")
    done = table[table.status == "done"]
    for panel, (column, name) in zip(panels, PANELS, strict=True):
        for place, row in enumerate(done.to_dict("records")):
            colour, text = LOOK[row["acceptance"]]
            panel.errorbar(place, row[column], row.get(f"{column}_error", 0), fmt="o", color=colour, ms=6)
            panel.annotate(f"{row[column]:.4g}", (place, row[column]), (8, 0), textcoords="offset points", size=8)
        panel.set_title(name, fontsize=10)
        panel.set_xticks(range(len(done)), [LOOK[one][1] for one in done.acceptance], fontsize=8)
        panel.set_xlim(-0.5, len(done) - 0.2)
        panel.margins(y=0.3)
    clean(*panels)
    figure.suptitle(title(done), fontsize=11)
    return figure


def title(table: pd.DataFrame) -> str:
    """Whether the ensembles' NLL can be told apart."""
    if len(table) < 2:
        return "A run is missing"
    one, other = table.iloc[0], table.iloc[1]
    share = f"with {100 * one.accept_prob:.0f} % of the proposals accepted"
    worst = table[["r_hat_potential", "r_hat_nll"]].max().max()
    if not worst < MIXED:
        return f"Chains of a network, corrected and not, that do not agree yet (R-hat {worst:.2g}), {share}"
    away = apart(one, other, "nll")
    if not abs(away) > welch(one, other, "nll"):
        return f"The correction changes the ensembles' NLL by less than four seeds can tell, {share}"
    difference = f"{'smaller' if away < 0 else 'larger'} by {abs(one.nll - other.nll):.2g}"
    return f"The corrected ensembles' NLL is {difference}, {share}"


def compare(table: pd.DataFrame):
    """Nobody has claimed numbers; what was measured."""
    done = table[table.status == "done"]
    for row in done.itertuples():
        name = LOOK[row.acceptance][1]
        here = f"{row.r_hat_potential:.3f} (U), {row.r_hat_nll:.3f} (NLL)"
        here += f", ESS {row.ess_potential:.0f} and {row.ess_nll:.0f}" if mixed(row) else ", ESS not known"
        verdict = "agrees" if mixed(row) else "differs: not mixed"
        yield f"{name}: R-hat of {row.chains} chains", f"below {MIXED}", here, verdict
        here = f"accuracy {row.accuracy:.4f} ± {row.accuracy_error:.4f}, NLL {row.nll:.4f} ± {row.nll_error:.4f}, "
        here += f"calibration error {row.ece:.4f} ± {row.ece_error:.4f}"
        yield f"{name}: the chains' ensembles", "no numbers", here, "not claimed"
    rows = {row.acceptance: row for row in done.itertuples()}
    for name in (name for acceptance, (_, name) in LOOK.items() if acceptance not in rows):
        yield f"{name}: R-hat", f"below {MIXED}", "", f"not comparable: no run that is {name} has finished"
    if len(rows) == len(LOOK):
        one, other = rows["monitor"], rows["metropolis"]
        heated = ("U a datum", "above 0: gradient noise and step size heat")
        yield difference(one, other, "potential", *heated, ("agrees", "differs"))
        yield difference(
            one, other, "nll", "NLL of the ensembles", "no numbers", ("not claimed: more", "not claimed: less")
        )


def mixed(row) -> bool:
    """Whether R-hat of U and of the NLL at a draw is below ``MIXED``."""
    return max(row.r_hat_potential, row.r_hat_nll) < MIXED


def difference(one, other, column: str, what: str, expected: str, sides: tuple[str, str]) -> tuple:
    """What the chains that are not corrected have more of, where both agree among themselves."""
    error = np.hypot(getattr(one, f"{column}_error"), getattr(other, f"{column}_error"))
    here = f"{getattr(one, column) - getattr(other, column):+.2g} ± {error:.2g}"
    verdict = side(apart(one, other, column), welch(one, other, column), sides)
    if not (mixed(one) and mixed(other)):
        verdict = "not comparable: the chains do not agree yet"
    return f"not corrected less corrected: {what}", expected, here, verdict
