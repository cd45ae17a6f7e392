"""AMAGOLD's tables (Table 1: which sampler is what; Table 2: test errors on MNIST) and its Figure 5 (notMNIST)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from experiments.build import Pieces, build
from experiments.tables.common import Run, of_each
from sgmcmc.diagnostics import Ensemble, accuracy, nll, predictive_entropy
from sgmcmc.kernel import make_kernel
from sgmcmc.potentials.analytic import Gaussian

QUOTED = {  # Table 2: test error in per cent and its standard error, by (sampler, b, lr)
    ("sghmc", 0.01, 0.0005): (3.69, 0.03),
    ("sghmc", 0.01, 0.001): (3.77, 0.17),
    ("sghmc", 5e-6, 0.0005): (89.95, 0.29),
    ("sghmc", 5e-6, 0.001): (89.70, 0.91),
    ("amagold", 0.01, 0.0005): (3.63, 0.04),
    ("amagold", 0.01, 0.001): (3.65, 0.08),
    ("amagold", 5e-6, 0.0005): (3.65, 0.10),
    ("amagold", 5e-6, 0.001): (3.63, 0.10),
}
ENTROPIES = 116  # points of the entropies' distribution function, from 0 to ln 10 in steps of .02
CLAIMED = {
    "amagold": "exact, stochastic",
    "l2mc": "exact, full",
    "hmc": "exact, full",
    "sghmc": "not exact, stochastic",
}


def _samplers(_: list[Run]) -> list[dict]:
    """Table 1, read from the table of samplers: is the chain exact, may its gradients be stochastic.

    A sampler is exact where the engine accepts it for correction with the gradient in question.
    """
    target, rows = Gaussian(dim=2, noise=1.0), []
    for name in ("amagold", "l2mc", "hmc", "sghmc", "ggmc", "baoab", "ovrvo", "nonreversible_langevin", "langevin"):
        kernel = make_kernel(name, target, 0.1)
        stochastic = kernel.gradient == "minibatch"
        exact = "exact" if kernel.impossible is None else "not exact"
        rows.append(
            {
                "sampler": name,
                "status": "done",
                "word": kernel.word.letters,
                "exact": exact,
                "gradient": "stochastic" if stochastic else "full",
                "claimed": CLAIMED.get(name, ""),
            }
        )
    return rows


def _setting(run: Run) -> dict:
    config = run.config
    return {
        "b": config["sampler"]["b"],
        "lr": config["lr"],
        "seed": config["seed"],
        "train_size": config["data"]["train_size"] or 60000,
        "draws": config["keep"],
    }


def _quoted(run: Run) -> dict:
    quoted = QUOTED.get((run.sampler, run.config["sampler"]["b"], run.config["lr"]), (np.nan, np.nan))
    return dict(zip(("quoted", "quoted_error"), quoted, strict=True))


def _errors(run: Run) -> Iterator[dict]:
    """Test error of the mean prediction of the draws and of a single draw, in per cent; accepted; notMNIST entropy.

    ``error_sd`` is the standard deviation over single draws. ``accepted`` counts from the first cycle.
    """
    pieces = build(run.config)
    ensemble, singles, losses = _predict(run, pieces, "test")
    targets, metrics = pieces.predictions["test"][1], run.metrics
    yield {
        **_setting(run),
        **_quoted(run),
        "error": 100 * (1 - float(accuracy(ensemble, targets))),
        "nll": float(nll(ensemble, targets)),
        "single_error": float(np.mean(singles)),
        "single_error_sd": float(np.std(singles, ddof=1)),
        "single_nll": float(np.mean(losses)),
        "accept_prob": float(np.mean(metrics["accept_prob"])),
        "kinetic_temperature": float(metrics["kinetic_temperature"][-1]),
        "test_accuracy_at_start": float(metrics["test_accuracy"][0]),
    }


def _entropies(run: Run) -> Iterator[dict]:
    """The share of notMNIST's images whose mean prediction has at most this entropy, in nats."""
    ensemble, _, _ = _predict(run, build(run.config), "ood")
    entropies = predictive_entropy(ensemble).numpy()
    for entropy in np.arange(ENTROPIES + 1) * 0.02:
        yield {**_setting(run), "entropy": round(float(entropy), 2), "share": float((entropies <= entropy).mean())}


def _predict(run: Run, pieces: Pieces, name: str) -> tuple[torch.Tensor, list[float], list[float]]:
    """The mean of the draws' predictions ``[n, classes]``, and each draw's error in per cent and NLL."""
    inputs, targets = pieces.predictions[name]
    ensemble, errors, losses = None, [], []
    for draw in run.draws:
        probabilities = pieces.potential.predict(draw.to(pieces.random.device), inputs)[0]
        ensemble = ensemble or Ensemble(*probabilities.shape)
        ensemble.add(probabilities)
        if targets is not None:
            errors.append(100 * (1 - float(accuracy(probabilities, targets))))
            losses.append(float(nll(probabilities, targets)))
    return ensemble.probabilities, errors, losses


TABLES = {
    "amagold_table1": ("amagold_fig1", _samplers),
    "amagold_table2": ("amagold_table2", of_each(_errors)),
    "amagold_fig5": ("amagold_table2", of_each(_entropies)),
}
