"""Neal's talk (2020): rejection rates of the ten trajectory pictures, measured beside quoted."""

import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure

NAMES = {
    "random_walk": "Metropolis",
    "hmc": "HMC",
    "langevin": "Langevin",
    "persistent_langevin": "persistent",
    "nonreversible_langevin": "persistent +\nnon-reversible",
}


def draw(table: pd.DataFrame) -> Figure:
    """Quoted rates (one chain each) as crosses; the mean over many chains as dots, with the spread of single chains."""
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    for panel, (pairs, part) in zip(panels, table.groupby("pairs"), strict=True):
        places = range(len(part))
        panel.errorbar(
            places, part.rejected, 2 * part.single_chain_sd, fmt="o", color="#0072B2", label="many chains ± 2 sd of one"
        )
        panel.plot(places, part.quoted, "x", color="#D55E00", ms=8, mew=2, label="quoted, one chain")
        panel.set_xticks(places, [NAMES[name] for name in part.sampler], fontsize=8)
        panel.set_title("2 dimensions" if pairs == 1 else f"{2 * pairs:.0f} dimensions", fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("rejection rate")
    panels[0].set_ylim(bottom=0)
    panels[1].legend(frameon=False, fontsize=8)
    figure.suptitle("Neal's rejection rates lie within what one chain of his length scatters", fontsize=11)
    return figure
