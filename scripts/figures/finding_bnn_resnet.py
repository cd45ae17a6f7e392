"""finding_bnn on a ResNet-20: the same quantities."""

import pandas as pd
from figures import finding_bnn
from matplotlib.figure import Figure
from style import BLUE, RED
from verdicts import MIXED

SOURCE = "An exact ResNet-20 on the digits"
CAPTION = """
As above, of a ResNet-20 with filter response normalisation, a quarter as wide as the papers' (17,550 weights, priors of
the GGMC paper), on 200 of the digits, tested on the other 1,597: four chains of HMC with full gradients from He's
starts, 100 trajectories of 200 steps, masses estimated (Wenzel et al. 2020) and the step size tuned to an acceptance of
.8 in the first 20, which are left out; the other 80 ends predict. Beside them SGHMC (learning rate .01, friction 1.4,
minibatches of 100), and ensembles of 20 runs of SGD with momentum .9 at that learning rate, each of 10,000 gradients,
half as many as HMC's and a quarter of its passes over the data. Where R-hat (worst of 200 predictions, or U) is not
below 1.05 the chains are too short to be compared, and what is seen of them is where they have been. Quick scale, 100
images, 10 trajectories of 4 steps, eight chains and ensembles of two, shows that it runs and nothing else. The papers'
width, on more digits, is for a GPU and has not been run.
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
