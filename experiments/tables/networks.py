"""Tables of what this project found on networks: how long a cycle may be, and what the correction changes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from experiments.tables.common import Joined, Run, data_size, of_each, passes, standard_error
from sgmcmc.diagnostics import ess, r_hat

PARTS = 10  # of a chain, that the error of a mean over it is taken from


# -- finding_cycles ----------------------------------------------------------------------------------------------


def _cycle(run: Run) -> Iterator[dict]:
    """The tuned learning rate of one length of cycle, and what the chain then accepts.

    Over the rows after the burn-in. ``passes`` are passes over the data a cycle: the minibatches, and one for U with
    its gradient at the end, whose start's is kept. ``time`` is accepted time a pass, acceptance · h L/passes. Errors
    are from ten parts of the chain, or its rows where they are fewer. ``drift`` is U a datum in the second half less
    that in the first.
    """
    metrics, config = run.metrics, run.config
    kept = metrics["cycle"] > config["burn_in"]
    size = data_size(config)
    each, batch = int(metrics["step"][-1] / metrics["cycle"][-1]), config["batch_size"]
    cost = passes(config, each)
    h, probability = float(metrics["step_size"][-1]), metrics["accept_prob"][kept]
    acceptance, error = float(probability.mean()), _error(probability)
    halves = [float(part.mean()) for part in np.array_split(metrics["potential_per_datum"][kept], 2)]
    yield {
        "data": size,
        "minibatches": config["sampler"]["minibatches"],
        "steps": each,
        "epochs": (each - 1) * batch / size,
        "lr": size * h**2,
        "step_size": h,
        "cycles": int(kept.sum() * config["log_every"]),
        "accept_prob": acceptance,
        "accept_prob_error": error,
        "accepted": float(metrics["accepted"][kept].mean()),
        "passes": cost,
        "time": acceptance * h * each / cost,
        "time_error": error * h * each / cost,
        "potential_per_datum": halves[1],
        "drift": halves[1] - halves[0],
        "kinetic_temperature": float(metrics["kinetic_temperature"][kept].mean()),
        "configurational_temperature": float(metrics["configurational_temperature"][kept].mean()),
        "test_accuracy": float(metrics["test_accuracy"][-1]),
    }


def _error(values: np.ndarray) -> float:
    """The standard error of the mean of a chain's values, from parts of it."""
    return standard_error([part.mean() for part in np.array_split(values, min(PARTS, len(values)))])


# -- finding_corrected -------------------------------------------------------------------------------------------

QUALITY = ("accuracy", "nll", "ece", "brier")


def _seed(run: Run) -> dict:
    """What tells the runs apart."""
    return {"acceptance": run.config["sampler"]["acceptance"], "lr": run.config["lr"], "seed": run.config["seed"]}


def _after_burn_in(run: Run) -> Iterator[dict]:
    """A row a cycle after the burn-in: U a datum, the test set's NLL, acceptance, the running ensemble's quality."""
    metrics = run.metrics
    names = ["cycle", "potential_per_datum", "test_nll", "test_accuracy", "accept_prob"]
    names += [f"test_ensemble_{key}" for key in QUALITY]
    for place in np.flatnonzero(metrics["cycle"] > run.config["burn_in"]):
        yield {name: float(metrics[name][place]) for name in names}


def mixing(rows: list[dict]) -> list[dict]:
    """A row for the corrected chains and one for the uncorrected.

    R-hat over the seeds and ESS of all of them, of U (``potential``) and of the test set's NLL at a draw (``nll``);
    means over the seeds of U a datum and of that NLL (``single_nll``), and of their ensembles' quality, with errors
    over the seeds.
    """
    table = []
    for acceptance in dict.fromkeys(row["acceptance"] for row in rows):
        mine = [row for row in rows if row["acceptance"] == acceptance]
        chains = [[row for row in mine if row["seed"] == seed] for seed in dict.fromkeys(row["seed"] for row in mine)]
        chains = [chain for chain in chains if chain[0]["status"] == "done"]
        common = {key: mine[0][key] for key in ("sampler", "acceptance", "lr")}
        row = {**common, "status": "done" if chains else mine[0]["status"], "chains": len(chains)}
        if not chains:
            table.append(row)
            continue
        length = min(map(len, chains))
        row |= {"draws_a_chain": length, "accept_prob": float(np.mean([one["accept_prob"] for one in sum(chains, [])]))}
        for name, column in (("potential", "potential_per_datum"), ("nll", "test_nll")):
            draws = np.array([[one[column] for one in chain[:length]] for chain in chains]).T[..., None]
            size = ess(draws)
            row[f"r_hat_{name}"] = float(np.squeeze(r_hat(draws)))
            row[f"ess_{name}"] = float(np.squeeze(size.value))
            row[f"ess_{name}_error"] = float(np.squeeze(size.error))
        for name, column in (("potential", "potential_per_datum"), ("single_nll", "test_nll")):
            means = [np.mean([one[column] for one in chain]) for chain in chains]
            row |= {name: float(np.mean(means)), f"{name}_error": standard_error(means)}
        for key in QUALITY:
            values = [chain[-1][f"test_ensemble_{key}"] for chain in chains]
            row |= {key: float(np.mean(values)), f"{key}_error": standard_error(values)}
        table.append(row)
    return table


TABLES = {
    "finding_cycles": ("finding_cycles", of_each(_cycle)),
    "finding_corrected": ("finding_corrected", Joined(of_each(_after_burn_in, _seed), mixing)),
}
