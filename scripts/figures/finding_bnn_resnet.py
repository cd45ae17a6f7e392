"""finding_bnn on a ResNet-20: the same quantities."""

import pandas as pd
from figures import finding_bnn
from matplotlib import pyplot
from matplotlib.figure import Figure
from verdicts import MIXED

SOURCE = "An exact ResNet-20 on the digits"
CAPTION = """
Can a narrow ResNet-20 be sampled until its chains agree? At T = 1 HMC's do, lengthened until they did. SGHMC's mean U
and test NLL are larger than theirs; an ensemble of SGD has less NLL, from far fewer passes over the data.

**What was run.** A ResNet-20 a quarter as wide as the papers' (17,462 weights, priors of the GGMC paper) on 200 of the
digits, tested on the other 1,597. HMC: full gradients, four chains from He's starts, 800 trajectories of 200 steps, the
step size tuned to an acceptance of .75 in the first 150, which are left out. SGHMC: learning rate .01, friction 1.4,
80,000 minibatches of 100. SGD: ensembles of 20 runs with momentum .9 at that learning rate, 10,000 gradients an
ensemble. Quick scale (100 images, 10 trajectories of 4 steps, eight chains, ensembles of two) shows that it runs and
nothing else.

**What is drawn.** As in the lower half of the figure above.

**To know.** HMC's chains were lengthened from 600 to 700 and to 800 trajectories, until R-hat was below 1.05. Where it
is not (worst of 200 predictions, or U), nothing is compared. The network has group normalisation: the papers' filter
response normalisation divides by the root mean square of the 2 × 2 pixels left of a digit in the last stack, which can
be nearly 0, and HMC's step size is then tuned to less than a half (`python run.py experiment=finding_bnn_resnet point=0
model.norm=frn seed=0`). Not shown: other temperatures, and the papers' width on more digits, which is for a GPU.
"""


def draw(table: pd.DataFrame) -> Figure:
    """Each method, a column a quantity, titled by whether the chains agree."""
    figure = pyplot.figure(figsize=(10, 2.2), layout="constrained")
    finding_bnn.draw_methods(figure, table)
    figure.suptitle(title(table), fontsize=11)
    return figure


def exact_and_sghmc(table: pd.DataFrame) -> list[pd.Series | None]:
    """The rows of HMC and of SGHMC at T = 1, where they finished."""
    return [finding_bnn.method(table, name) for name in (finding_bnn.EXACT, "SGHMC")]


def title(table: pd.DataFrame) -> str:
    """Whether the corrected chains agree in what they predict and in U, and at which temperatures."""
    exact = finding_bnn.exact_rows(table)
    if exact.empty:
        return "A ResNet-20 on the digits"
    worst = exact[["r_hat_max", "r_hat_potential"]].max(axis=1)
    agree = exact[worst < MIXED]
    if not len(agree):
        return f"ResNet-20: corrected chains that do not agree yet (R-hat {worst.max():.2g})"
    where = " and ".join(f"{one:g}" for one in sorted(agree.temperature))
    said = f"At T = {where} HMC chains of a narrow ResNet-20 agree (R-hat {worst[agree.index].max():.3f})"
    at_one, sghmc = exact_and_sghmc(table)
    if at_one is None or sghmc is None or finding_bnn.unmixed(at_one, sghmc):
        return said
    if finding_bnn.sided(sghmc, at_one, "potential") != "agrees":
        return said
    said += f"; SGHMC's mean U is {sghmc.potential - at_one.potential:.0f} above theirs"
    if finding_bnn.sided(sghmc, at_one, "nll") == "agrees":
        said += f", its test NLL {sghmc.nll:.2f} for {at_one.nll:.2f}"
    return said


def compare(table: pd.DataFrame):
    """Mixing at each temperature; then, of what is run, as of the perceptron."""
    yield from finding_bnn.lost(table)
    exact = finding_bnn.exact_rows(table)
    if exact.empty:
        yield finding_bnn.mixing("HMC: four chains", exact)
    for temperature, rows in exact.groupby("temperature"):
        *row, verdict = finding_bnn.mixing(f"HMC: four chains, T = {temperature:g}", rows)
        yield *row, verdict.replace("agrees", "not claimed: they were lengthened until it was")
    at_one, sghmc = exact_and_sghmc(table)
    yield finding_bnn.bias("SGHMC", at_one, sghmc)
    yield finding_bnn.against(f"SGHMC {finding_bnn.of_cost(at_one, sghmc)}, test NLL", "not known", at_one, sghmc)
    yield from finding_bnn.of_ensembles(table)
