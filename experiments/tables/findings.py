"""Tables of what this project found: questions that no paper asks, put to the same program.

``excess`` is 2(mean U of the draws − its exact mean)/dim: by how much the positions are too warm, in units of T (of a
Gaussian the mean of U is dim T/2 and a constant). ESS is per 1,000 gradients (what U takes is left out), of the slowest
coordinate where nothing else is said. Errors are over chains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from experiments.build import build
from experiments.tables.common import Maker, Run, data_size, gradients_of, moved, of_each, passes, standard_error
from experiments.tables.statistics import (
    TOYS,
    accepted,
    away_from_toy,
    clustering,
    counts_of,
    exact_p,
    jackknifed_time,
)
from sgmcmc.schedules import Schedule
from sgmcmc.words import Word


def efficiency(draws: Tensor, gradients: float, together: bool = False) -> dict:
    """ESS in 1,000 gradients, at so many a draw, its error, and τ in draws (see ``jackknifed_time``)."""
    tau, error = jackknifed_time(draws, together)
    ess = 1000 / (tau * gradients)
    return {"tau": tau, "tau_error": error, "ess": ess, "ess_error": ess * error / tau}


# ------------------------------------------------------------------------------------ efficiency and bias over steps


class Posterior(NamedTuple):
    """A regression's posterior by a reference run: each chain's means ``[chains, dim]`` and mean U ``[chains]``."""

    means: np.ndarray
    potentials: np.ndarray


EVERY = 5  # draws of a regression, of which U is evaluated


def potentials(run: Run, draws: Tensor) -> Tensor:
    """U of every fifth of a regression's draws, ``[draws/5, chains]``."""
    some = draws[::EVERY]
    return build(run.config).potential.potential(some.flatten(0, 1)).view(some.shape[:2])


def posterior(run: Run) -> Posterior:
    """The posterior by all draws of a run."""
    draws = run.draws.double()
    return Posterior(draws.mean(0).numpy(), potentials(run, draws).mean(0).numpy())


def excess(energies: np.ndarray, dim: int) -> dict:
    """2(mean U − its exact mean)/dim and its error, from each chain's difference ``[chains]``."""
    values = 2 * energies / dim
    return {"excess": float(values.mean()), "excess_error": standard_error(values)}


def bias_of_toy(run: Run, part: Tensor) -> dict:
    """``excess``, and ``exact_p`` of U and of the shares of draws in four parts of each axis."""
    name = run.config["model"]["name"]
    away = away_from_toy(name, part, counts_of(part, TOYS[name][1]))
    return {**excess(away[:, 0], part.shape[-1]), "exact_p": exact_p(away)}


def bias_of_regression(run: Run, part: Tensor, truth: Posterior | None) -> dict:
    """``excess``, and ``exact_p`` of U and of the posterior mean. Nothing without the reference, whose share of the
    excess's error is ``reference_error``."""
    if truth is None:
        return {}
    energies, means = potentials(run, part).mean(0).numpy(), part.double().mean(0).numpy()
    exact = np.column_stack((truth.potentials, truth.means))
    return {
        **excess(energies - truth.potentials.mean(), part.shape[-1]),
        "reference_error": 2 * standard_error(truth.potentials) / part.shape[-1],
        "exact_p": exact_p(np.column_stack((energies, means)), exact),
    }


def over_steps(settings: Callable[[Run], dict]) -> Maker:
    """Acceptance (of corrected chains), efficiency and bias, a row a step size.

    ``time`` is what a gradient goes on average, Σ h/gradients, ``jump`` the squared distance from draw to draw.
    A regression's posterior is taken from the run whose step size is tuned, the reference, which is a row itself.
    """

    def make(runs: list[Run]) -> list[dict]:
        references = {run.config["data"]["name"]: run for run in runs if run.config["tune"]["target"] is not None}
        truths = {data: posterior(run) for data, run in references.items() if run.status == "done"}

        def rows(run: Run) -> Iterator[dict]:
            draws, config, gradients = run.draws, run.config, gradients_of(run.config)
            factor = sum(Schedule(config["schedule"]["name"]).factors(config["steps_per_cycle"], 0)) / gradients
            for size, chains, numbers in run.alive_groups():
                row = {"step_size": size, "gradients": gradients, "time": size * factor, **numbers}
                if not chains:
                    yield row
                    continue
                part = draws[:, chains]
                jumps = part.double().diff(dim=0).square().sum(-1).mean(0).numpy()
                row |= {"draws_a_chain": len(part), **efficiency(part, gradients)}
                row |= {"jump": float(jumps.mean()), "jump_error": standard_error(jumps)}
                if config["sampler"]["acceptance"] != "monitor":
                    row |= accepted(part)
                toy = config["model"]["name"] in TOYS
                truth = truths.get(config["data"]["name"])
                yield row | (bias_of_toy(run, part) if toy else bias_of_regression(run, part, truth))

        def reference(run: Run) -> Iterator[dict]:
            draws, config, gradients = run.draws, run.config, gradients_of(run.config)
            row = {"word": "reference", "step_size": float(run.metrics["step_size"][-1])}
            row |= {"gradients": gradients, "chains": config["chains"], "draws_a_chain": len(draws)}
            yield row | efficiency(draws, gradients)

        others = [run for run in runs if run not in references.values()]
        return of_each(rows, settings)(others) + of_each(reference, settings)(list(references.values()))

    return make


def target_of(run: Run) -> str:
    """The name of what a run samples: of a logistic regression, its data's."""
    name = run.config["model"]["name"]
    return run.config["data"]["name"] if name == "logistic" else name


def _word(run: Run) -> dict:
    """What tells runs of words apart. OVRVO is OBABO with rescaled steps, and goes by its own name."""
    sampler = run.config["sampler"]
    return {
        "target": target_of(run),
        "word": "OVRVO" if run.sampler == "ovrvo" else sampler["word"],
        "refresh": sampler["refresh"],
        "friction": run.config.get("friction"),
        "noise": run.config["model"].get("noise"),
        "acceptance": sampler["acceptance"],
    }


def _schedule(run: Run) -> dict:
    """What tells runs of schedules apart."""
    schedule = run.config["schedule"]
    return {
        "target": target_of(run),
        "schedule": schedule["name"],
        "direction": schedule["direction"],
        "acceptance": run.config["sampler"]["acceptance"],
    }


def _minibatches(run: Run) -> dict:
    """What tells laws of minibatches, and words, apart; ``epochs`` a trajectory, and the ``passes`` that it takes."""
    config, full = run.config, run.config["sampler"]["gradient"] == "full"
    word = Word(config["sampler"]["word"])
    minibatches = config["steps_per_cycle"] * word.gradients_a_step
    return {
        "target": target_of(run),
        "word": word.letters,
        "minibatches": config["sampler"]["minibatches"],
        "epochs": None if full else minibatches * config["batch_size"] / data_size(config),
        "acceptance": config["sampler"]["acceptance"],
        "passes": passes(config),
    }


def probabilities(log_accept: np.ndarray) -> np.ndarray:
    """min(1, MH)."""
    return np.exp(np.minimum(log_accept, 0))


def past_burn_in(run: Run) -> np.ndarray:
    """log MH of the trajectories after the burn-in."""
    rows = run.metrics
    return rows["log_accept"][rows["cycle"] > run.config["burn_in"]]


def _network(run: Run) -> Iterator[dict]:
    """What a correction of an uncorrected network's chain would accept, over the cycles after the burn-in.

    ``time`` is what a gradient goes on average, Σ h/gradients. Errors take successive trajectories as independent.
    """
    rows, gradients, steps = run.metrics, gradients_of(run.config), run.config["steps_per_cycle"]
    past = rows["cycle"] > run.config["burn_in"]
    log_accept, size = rows["log_accept"][past], float(rows["step_size"][-1])
    probability = probabilities(log_accept)
    yield {
        "step_size": size,
        "time": size * steps / gradients,
        "gradients": gradients,
        "trajectories": len(log_accept),
        "accept_prob": float(probability.mean()),
        "accept_prob_error": standard_error(probability),
        "log_accept": float(log_accept.mean()),
        "log_accept_error": standard_error(log_accept),
        "log_accept_sd": float(log_accept.std(ddof=1)) if len(log_accept) > 1 else None,
        "potential_per_datum": float(rows["potential_per_datum"][past].mean()),
    }


def apart(each: np.ndarray) -> list[dict]:
    """Of acceptance probabilities ``[words, trajectories]``, those of words that saw the same minibatches: by how much
    each word's mean is above the mean of the words, with the error of the difference, trajectory by trajectory."""
    away = each - each.mean(0)
    return [{"apart": float(row.mean()), "apart_error": standard_error(row)} for row in away]


def networks(runs: list[Run]) -> list[dict]:
    """``_network``'s rows, and how far apart (``apart``) the words are, of those that keep their momentum or draw it
    afresh, that go as far with a gradient: the first step sizes of each, the second, and so on (``level``)."""
    table, groups = of_each(_network, _word)(runs), {}
    for run, row in sorted(zip(runs, table, strict=True), key=lambda pair: pair[0].config["lr"]):
        words = groups.setdefault(row["refresh"], {})
        words.setdefault(row["word"], []).append((run, row))
    for words in groups.values():
        for each in words.values():
            for level, (_, row) in enumerate(each):
                row["level"] = level
        for same in zip(*words.values(), strict=False):
            done = [(run, row) for run, row in same if row["status"] == "done"]
            if len(done) > 1:
                found = apart(np.array([probabilities(past_burn_in(run)) for run, _ in done]))
                for (_, row), numbers in zip(done, found, strict=True):
                    row |= numbers
    return table


# ------------------------------------------------------------------------- the persistent uniform with noisy gradients


def _clustering(run: Run) -> Iterator[dict]:
    """Rejections, their clustering and the efficiency of positions and of U, a row a step size and momentum decay.

    ``decay`` is that of the momentum over a trajectory, ``clustering`` the variance of the number of rejections in 20
    successive decisions over that of independent decisions. ``ess`` is that of the mean τ of the coordinates, ``ess_U``
    that of U.
    """
    draws, config, gradients = run.draws, run.config, gradients_of(run.config)
    potential = build(config).potential.potential
    energies = torch.stack([potential(one) for one in draws])[..., None]
    for (size, chains), decay in zip(run.groups(), config["momentum_decay"], strict=True):
        part = draws[:, chains.start : chains.stop]
        kept = moved(part).numpy()
        of_energy = efficiency(energies[:, chains.start : chains.stop], gradients)
        yield {
            "step_size": size,
            "decay": decay ** config["steps_per_cycle"],
            "gradients": gradients,
            "chains": len(chains),
            "draws_a_chain": len(part),
            **accepted(part),
            **clustering(kept),
            **efficiency(part, gradients, together=True),
            **{name.replace("tau", "tau_U").replace("ess", "ess_U"): value for name, value in of_energy.items()},
        }


def _decision(run: Run) -> dict:
    """What tells runs apart: target and its noise, word, length, refresh, δ (none: a fresh uniform)."""
    config = run.config
    return {
        "target": target_of(run),
        "noise": config["model"].get("noise"),
        "word": config["sampler"]["word"],
        "steps": config["steps_per_cycle"],
        "refresh": config["sampler"]["refresh"],
        "delta": config["sampler"]["delta"],
    }


TABLES = {
    "finding_words": ("finding_words", over_steps(_word)),
    "finding_words_logistic": ("finding_words_logistic", over_steps(_word)),
    "finding_words_australian": ("finding_words_australian", over_steps(_word)),
    "finding_words_network": ("finding_words_network", networks),
    "finding_clustering": ("finding_clustering", of_each(_clustering, _decision)),
    "finding_minibatches": ("finding_minibatches", over_steps(_minibatches)),
    "finding_schedules": ("finding_schedules", over_steps(_schedule)),
}
