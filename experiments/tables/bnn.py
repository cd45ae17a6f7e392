"""Tables of the Bayesian neural networks that are sampled exactly: predictions over temperatures, beside the others'.

A row is one setting, over its chains (the seeds). Its predictions are those of one chain's draws after the burn-in,
their mean, and errors are over chains; what is called ``passes`` is what a chain cost, burn-in and rejections with
it: gradients, in passes over the training data, and of corrected chains U where no gradient brings it. Of SGD (SGHMC at
T = 0) a run's chains are the members of an ensemble, which costs what a chain costs, and their last positions are the
draws.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from experiments.build import build
from experiments.tables.common import Run, over_cycles, passes, standard_error, unfinished
from sgmcmc import diagnostics
from sgmcmc.data import Dataset
from sgmcmc.evaluate import evaluate
from sgmcmc.potentials import Potential

LETTERS = 10  # every tenth letter of notMNIST is predicted
QUALITIES = ("accuracy", "nll", "ece", "entropy")


def setting(run: Run) -> dict:
    """What a run has in common with the chains that differ from it by their seed."""
    config, model = run.config, run.config["model"]
    return {
        "sampler": "sgd" if config["temperature"] == 0 else run.sampler,
        "acceptance": config["sampler"]["acceptance"],
        "gradient": config["sampler"]["gradient"],
        "minibatches": config["sampler"]["minibatches"] or "none",
        "init": config["init"],
        "prior": model.get("prior_variance") or model["prior"],
        "temperature": config["temperature"],
    }


def predictions(runs: list[Run]) -> list[dict]:
    """A row a setting: quality on the test set, entropies, mixing of U and of the predictions, cost.

    ``accuracy, nll, ece, entropy`` (mean predictive entropy, nats) are those of a chain's mean prediction, ``single_…``
    those of single draws, ``joint_…`` of all chains together; ``letters_entropy`` is that of letters. R-hat and ESS
    (all chains together) are those of U and of the log-odds of the label of 200 test data, their worst and their
    median. ``accepted`` is the share of trajectories after the burn-in.
    """
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        groups.setdefault(tuple(setting(run).items()), []).append(run)
    return [{**dict(key), **_row(chains)} for key, chains in groups.items()]


def _row(runs: list[Run]) -> dict:
    ends = [_end(run) for run in runs]
    done = [run for run, (status, _) in zip(runs, ends, strict=True) if status == "done"]
    status, why = next((end for end in ends if end[0] != "done"), ("done", None))
    row = {"status": status, "chains": len(done), **({"why": why} if why else {})}
    if not done:
        return row
    pieces, config = build(done[0].config), done[0].config
    potential, test = pieces.potential, pieces.predictions["test"][0]
    descends = config["temperature"] == 0
    draws = torch.cat([run.draws.transpose(0, 1)[:, -1:] if descends else run.draws for run in done], 1)
    found, letters = evaluate(potential, draws, test), evaluate(potential, draws, some_letters(pieces), labelled=False)
    row |= {
        "chains": draws.shape[1],
        "draws_a_chain": len(draws),
        "passes": done[0].facts["cycles"] * passes(config, pieces.kernel.steps) * (config["chains"] if descends else 1),
        "step_size": float(np.mean([run.metrics["step_size"][-1] for run in done])),
    }
    for name in QUALITIES:
        row |= {name: found[f"chain_{name}"], f"{name}_error": found[f"chain_{name}_error"]}
        row |= {f"single_{name}": found[f"sample_{name}"], f"joint_{name}": found[name]}
    row |= {"letters_entropy": letters["chain_entropy"], "letters_entropy_error": letters["chain_entropy_error"]}
    if not descends:
        row |= {name: found[name] for name in ("r_hat_max", "r_hat_median", "ess_min", "ess_median")}
        row |= mixing_of_energy(potential, draws)
    if config["sampler"]["acceptance"] != "monitor":
        shares = [over_cycles(run, "accepted") for run in done]
        row |= {"accepted": float(np.mean(shares)), "accepted_error": standard_error(shares)}
    return row


def _end(run: Run) -> tuple[str, str]:
    """How a run ended, and why not well. One that went on without some of its chains counts as diverged: what those
    left behind is no draw, and no member of an ensemble."""
    if run.status == "done" and (frozen := run.facts.get("frozen")):
        return "diverged", f"{len(frozen)} of {run.config['chains']} chains diverged"
    return run.status, unfinished(run)


def some_letters(pieces) -> Dataset:
    """Every tenth image of the set that is out of distribution."""
    letters = pieces.predictions["ood"][0]
    return replace(letters, inputs=letters.inputs[::LETTERS], targets=letters.targets[::LETTERS])


def mixing_of_energy(potential: Potential, draws: Tensor) -> dict:
    """Mean U of draws ``[draws, chains, dim]``, its error over chains, and R-hat and ESS of U."""
    rows = [torch.cat([potential.potential(theta[None]) for theta in draw]) for draw in draws]
    energies = torch.stack(rows)
    return {
        "potential": float(energies.mean()),
        "potential_error": standard_error(energies.mean(0).numpy()),
        "r_hat_potential": float(diagnostics.r_hat(energies[:, :, None])[0]),
        "ess_potential": float(diagnostics.ess(energies[:, :, None]).value[0]),
    }


TABLES = {
    "finding_bnn": ("finding_bnn", predictions),
    "finding_bnn_resnet": ("finding_bnn_resnet", predictions),
}
