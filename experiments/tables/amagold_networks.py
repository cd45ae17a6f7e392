"""AMAGOLD's tables (Table 1: which sampler is what; Table 2: test errors on MNIST) and its Figure 5 (notMNIST)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from experiments.build import Pieces, build
from experiments.tables.common import Run, data_size, of_each, once
from sgmcmc.diagnostics import Ensemble, accuracy, nll, predictive_entropy
from sgmcmc.errors import StoreError
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
ENTROPIES = 116  # steps of .02 from 0 to above ln 10, between the points of the entropies' distribution function
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
    """What each row of a run begins with: its setting, and what the paper has for it."""
    config = run.config
    quoted = QUOTED.get((run.sampler, config["sampler"]["b"], config["lr"]), (np.nan, np.nan))
    return {
        "b": config["sampler"]["b"],
        "lr": config["lr"],
        "start": config["warm_start"].get("init") or "he",
        "seed": config["seed"],
        "train_size": data_size(config),
        **dict(zip(("quoted", "quoted_error"), quoted, strict=True)),
    }


def finite_draws(run: Run) -> list[Tensor]:
    """The draws ``[1, dim]`` that a run kept while it was finite: all of them, of one that did not diverge."""
    try:
        return [draw for draw in run.draws if bool(torch.isfinite(draw).all())]
    except StoreError:
        return []


def _errors(run: Run) -> Iterator[dict]:
    """Test error of the mean prediction of the draws and of a single draw, in per cent; accepted.

    ``single_error_sd`` is the standard deviation over single draws. ``accept_prob`` counts from the first cycle. Where
    a run diverged before the first draw, ``draws`` is 0 and the error is that of its last finite row of metrics.
    ``test_accuracy_at_start`` is that of the first finite regular row, ``log_every`` cycles after the start.
    """
    draws, metrics, (whole, lengths) = finite_draws(run), run.metrics, once(run)
    finite = np.isfinite(metrics["test_accuracy"])
    along, regular = metrics["test_accuracy"][finite], metrics["test_accuracy"][finite & whole]
    row = {"draws": len(draws), "cycles": run.facts["cycles"]}
    if draws:
        pieces = build(run.config)
        ensemble, singles, losses = _predict(draws, pieces, "test")
        targets = pieces.predictions["test"][1].cpu()
        row |= {
            "error": 100 * (1 - float(accuracy(ensemble, targets))),
            "nll": float(nll(ensemble, targets)),
            "single_error": float(np.mean(singles)),
            "single_error_sd": float(np.std(singles, ddof=1)) if len(singles) > 1 else float("nan"),
            "single_nll": float(np.mean(losses)),
        }
    elif len(along):
        row["error"] = 100 * (1 - float(along[-1]))
    yield {
        **row,
        "accept_prob": float(np.average(metrics["accept_prob"][whole], weights=lengths[whole])),
        "kinetic_temperature": float(metrics["kinetic_temperature"][-1]),
        "test_accuracy_at_start": float(regular[0]) if len(regular) else float("nan"),
    }


def _beginning(run: Run) -> Iterator[dict]:
    """Test error in per cent after the first trajectory, which is SGD's where that was rejected (``first_accepted`` is
    0), and after the last; accepted."""
    metrics = run.metrics
    yield {
        "cycles": run.facts["cycles"],
        "first_error": 100 * (1 - float(metrics["test_accuracy"][0])),
        "first_accepted": float(metrics["accepted"][0]),
        "error": 100 * (1 - float(metrics["test_accuracy"][-1])),
        "accept_prob": float(np.mean(metrics["accept_prob"])),
    }


def _entropies(run: Run) -> Iterator[dict]:
    """The share of notMNIST's images whose mean prediction has at most this entropy, in nats."""
    draws = finite_draws(run)
    if not draws:
        yield {"draws": 0}
        return
    ensemble, _, _ = _predict(draws, build(run.config), "ood")
    entropies = predictive_entropy(ensemble).numpy()
    for entropy in np.arange(ENTROPIES + 1) * 0.02:
        share = float((entropies <= entropy).mean())
        yield {"draws": len(draws), "entropy": round(float(entropy), 2), "share": share}


def _predict(draws: list[Tensor], pieces: Pieces, name: str) -> tuple[Tensor, list[float], list[float]]:
    """The mean of the draws' predictions ``[n, classes]``, and each draw's error in per cent and NLL."""
    inputs, targets = pieces.predictions[name]
    targets = None if targets is None else targets.cpu()
    ensemble, errors, losses = None, [], []
    for draw in draws:
        probabilities = pieces.potential.predict(draw.to(pieces.random.device), inputs)[0].cpu()
        ensemble = ensemble or Ensemble(*probabilities.shape)
        ensemble.add(probabilities)
        if targets is not None:
            errors.append(100 * (1 - float(accuracy(probabilities, targets))))
            losses.append(float(nll(probabilities, targets)))
    return ensemble.probabilities, errors, losses


TABLES = {
    "amagold_table1": ("amagold_fig1", _samplers),
    "amagold_table2": ("amagold_table2", of_each(_errors, _setting, diverged=True)),
    "amagold_table2_start": ("amagold_table2_start", of_each(_beginning, _setting)),
    "amagold_fig5": ("amagold_table2", of_each(_entropies, _setting, diverged=True)),
}
