"""finding_bnn on a ResNet-20: the same quantities."""

import pandas as pd
from figures import finding_bnn
from matplotlib.figure import Figure
from style import BLUE, RED
from verdicts import MIXED

SOURCE = "An exact ResNet-20 on the digits"
CAPTION = """
As above, of a ResNet-20 with filter response normalisation (272,538 weights, priors of the GGMC paper): four chains of
HMC with full gradients, 100 steps a trajectory, the step size tuned to an acceptance of .8 in the burn-in, 200
trajectories of which the first 40 are left out and every fourth of the others predicts; SGHMC, and ensembles of 20
runs of SGD, of the same 20,000 passes over the data. Quick scale, a quarter of the width, 100 images, 10 trajectories
of 4 steps, eight chains and ensembles of two, shows that it runs and nothing else: its R-hat says how far its chains
are from agreeing. Where R-hat is large nothing is learnt about the posterior.
"""
LINES = (
    ("hmc", "full", None, BLUE, "o", "-", "HMC, corrected"),
    ("sghmc", "minibatch", None, RED, "^", "--", "SGHMC"),
)


def draw(table: pd.DataFrame) -> Figure:
    """As finding_bnn, titled by whether the chains agree."""
    figure = finding_bnn.draw(table, LINES)
    figure.suptitle(title(table), fontsize=11)
    return figure


def title(table: pd.DataFrame) -> str:
    """Whether the corrected chains agree in what they predict."""
    worst = table[table.sampler == "hmc"].r_hat_max.max()
    if worst < MIXED:
        return f"Corrected chains of a ResNet-20 agree in function space (R-hat at most {worst:.3f})"
    return f"ResNet-20: corrected chains that do not agree yet (R-hat {worst:.2g})"


def compare(table: pd.DataFrame):
    """As of the perceptron, where the chains agree."""
    for row in finding_bnn.compare(table):
        if "missing" not in row[3]:
            yield row
