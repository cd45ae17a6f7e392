"""What the correction changes of a network's chains: mixing, and the quality of what they predict."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import GREEN, RED, clean

SOURCE = "What does the correction change of a network's ensemble?"
CAPTION = """
Four seeds of GGMC, exactly corrected and not, with the same random numbers, starts and minibatches; the trajectories of
Figure 1, ends exact. Each chain's ensemble is the mean prediction of its draws after the burn-in (paper scale: half of
the cycles); bars are standard errors over the four. R-hat and ESS are of U and of the test set's negative log
likelihood at a draw, over the four chains; above 1.01 they are not mixed. Paper scale: ResNet-20 on CIFAR-10, ℓ = 1e-6,
300 cycles of 10 epochs from He's start; configured, and not run here. Quick scale: a perceptron with 1,510 weights on
the handwritten digits, ℓ = .001, 400 cycles of an epoch, 150 of them burn-in, from SGD.
"""
LOOK = {"metropolis": (GREEN, "corrected"), "monitor": (RED, "not corrected")}
PANELS = (("accuracy", "accuracy"), ("nll", "NLL"), ("ece", "calibration error"), ("r_hat_potential", "R-hat of U"))


def draw(table: pd.DataFrame) -> Figure:
    """A panel a quantity, the corrected chains beside the others."""
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(9, 3.2), layout="constrained")
    done = table[table.status == "done"]
    for panel, (column, name) in zip(panels, PANELS, strict=True):
        for place, row in enumerate(done.to_dict("records")):
            colour, text = LOOK[row["acceptance"]]
            panel.errorbar(place, row[column], row.get(f"{column}_error", 0), fmt="o", color=colour, ms=6)
            panel.annotate(f"{row[column]:.3g}", (place, row[column]), (8, 0), textcoords="offset points", size=8)
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
    apart, error = one.nll - other.nll, (one.nll_error**2 + other.nll_error**2) ** 0.5
    share = f"with {100 * one.accept_prob:.0f} % of the proposals accepted"
    if abs(apart) < 3 * error:
        return f"The correction changes the ensembles' NLL by less than four seeds can tell, {share}"
    return f"The corrected ensembles' NLL is {'smaller' if apart < 0 else 'larger'} by {abs(apart):.2g}, {share}"


def compare(table: pd.DataFrame):
    """Nobody has claimed numbers; what was measured."""
    for row in table[table.status == "done"].itertuples():
        name = LOOK[row.acceptance][1]
        here = f"{row.r_hat_potential:.3f} (U), {row.r_hat_nll:.3f} (NLL)"
        here += f", ESS {row.ess_potential:.0f} and {row.ess_nll:.0f}"
        mixed = max(row.r_hat_potential, row.r_hat_nll) < 1.01
        yield f"{name}: R-hat of {row.chains} chains", "below 1.01", here, "agrees" if mixed else "differs: not mixed"
        here = f"accuracy {row.accuracy:.4f} ± {row.accuracy_error:.4f}, NLL {row.nll:.4f} ± {row.nll_error:.4f}, "
        here += f"calibration error {row.ece:.4f} ± {row.ece_error:.4f}"
        yield f"{name}: the chains' ensembles", "no numbers", here, "not claimed"
