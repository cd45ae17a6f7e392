"""Predictive quality of samples, and how well their predictions have mixed, on any data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sgmcmc import diagnostics
from sgmcmc.checks import check_probabilities
from sgmcmc.data import WIDE, Dataset
from sgmcmc.errors import SettingError
from sgmcmc.potentials import Potential, together
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.random import Random

FUNCTIONS = 200  # data whose predictions are followed through the chains


def shifted(data: Dataset, noise: float = 0.0, translate: int = 0, scale: Tensor | float = 1.0) -> Dataset:
    """``data`` with images moved down and right (zeros come in), and normal noise on the normalised inputs.

    ``scale`` is what a target divides the columns by that it standardises itself: the noise is of that size in them.
    Noisy inputs are normalised already, float32 or, of ``WIDE`` ones, float64. Raises SettingError for a translation of
    what is no image, and for noise beyond float32's numbers.
    """
    inputs = data.inputs
    if translate:
        if inputs.ndim != 4 or not 0 < translate < min(inputs.shape[2:]):
            raise SettingError("translate", translate, "needs images, and fewer pixels than they have")
        inputs = F.pad(inputs, (translate, 0, translate, 0))[..., : inputs.shape[2], : inputs.shape[3]]
    data = replace(data, inputs=inputs)
    if noise:
        clean = data.normalise(inputs, torch.float64 if inputs.dtype in WIDE else torch.float32)
        drawn = Random(0).normal("diagnostic", 0, 1, len(data), clean[0].numel())[0].view(clean.shape)
        drawn = drawn.to(clean) * (scale.to(clean) if isinstance(scale, Tensor) else scale)
        noisy = clean + noise * drawn
        if not bool(noisy.float().isfinite().all()):
            raise SettingError("noise", noise, "makes inputs infinite: give less")
        data = replace(data, inputs=noisy, mean=None, std=None)
    return data


def asked(potential: Potential, data: Dataset) -> Dataset | Tensor:
    """What ``potential.predict`` is asked of: images as a data set, columns as a tensor, as they are. A network
    normalises either as its training data; floats without a mean, as ``shifted`` gives them, it takes as they are."""
    if isinstance(potential, NetworkPotential):
        raw = data.mean is not None or (data.has_images and not data.inputs.is_floating_point())
        return data if raw else data.inputs
    return data if data.has_images else data.inputs


def evaluate(
    potential: Potential,
    draws: Tensor | np.ndarray,
    data: Dataset,
    labelled: bool = True,
    tell: Callable[[], object] = lambda: None,
) -> dict[str, float]:
    """Predictive quality and mixing in function space of ``draws`` ``[draws, chains, dim]`` on ``data``, of which
    ``potential.predict`` is ``asked``.

    Returns numbers by name: ``accuracy, nll, brier, ece, entropy`` of the joint ensemble (the entropy alone where the
    data are not ``labelled``); of each of these ``chain_…``, the mean over the chains' own ensembles, with its standard
    error ``chain_…_error``, and ``sample_…``, the mean over single samples; ``r_hat_max``, ``r_hat_median``,
    ``ess_min`` and ``ess_median`` over the functions that are followed, the log-odds of the labels of the first 200
    data or, without labels, their predictive entropies (``ess_…``, bulk and of these draws alone, is NaN of chains that
    hardly ever move). ``tell`` is called after each draw of a chain. Raises SettingError for draws of another shape,
    for what is no data set, or an empty one, for labels that the target has no class for, and for predictions that are
    no probabilities.
    """
    if not isinstance(data, Dataset):
        raise SettingError("data", type(data).__name__, "must be an sgmcmc.Dataset(inputs, labels, classes)")
    if not len(data):
        raise SettingError("inputs", list(data.inputs.shape), "are no data")
    draws = _draws(potential, draws)
    if not callable(getattr(potential, "predict", None)):
        mend = "has no predict(theta, inputs), which gives probabilities [chains, n, classes]"
        raise SettingError("target", type(potential).__name__, mend)
    inputs, chains = asked(potential, data), draws.shape[1]
    ensembles: list[diagnostics.Ensemble] = []
    single: dict[str, list[float]] = {}
    functions = np.empty((len(draws), chains, min(FUNCTIONS, len(data))))
    at_once, labels = together(potential), data.targets if labelled else None
    for number, draw in enumerate(draws):
        members = potential.predict(draw, inputs) if at_once else None
        for chain in range(chains):
            given = members if at_once else potential.predict(draw[chain : chain + 1], inputs)
            if not ensembles:
                check_probabilities(given, chains if at_once else 1, len(data), labels)
                labels = None if labels is None else labels.to(given.device)  # where a network predicts
            own = given[chain if at_once else 0].detach()
            if len(ensembles) <= chain:
                ensembles.append(diagnostics.Ensemble(*own.shape, device=own.device))
            ensembles[chain].add(own)
            for key, value in _quality(own, labels).items():
                single.setdefault(key, []).append(value)
            functions[number, chain] = _functions(own, labels)
            tell()
    joint = torch.stack([ensemble.probabilities for ensemble in ensembles]).mean(0)
    own = [_quality(ensemble.probabilities, labels) for ensemble in ensembles]
    result = _quality(joint, labels)
    for key in list(result):
        values = np.array([one[key] for one in own])
        result[f"chain_{key}"] = values.mean()
        result[f"chain_{key}_error"] = values.std(ddof=1) / chains**0.5 if chains > 1 else float("nan")
        result[f"sample_{key}"] = float(np.mean(single[key]))
    r_hat, ess = diagnostics.r_hat(functions), np.asarray(diagnostics.ess(functions).value)
    if diagnostics.hardly_moves(draws):
        ess = np.full_like(ess, np.nan)
    for name, values, worst in (("r_hat", r_hat, np.nanmax), ("ess", ess, np.nanmin)):
        known = not np.isnan(values).all()  # R-hat is infinite of chains that stand still apart
        result[f"{name}_{'max' if name == 'r_hat' else 'min'}"] = float(worst(values)) if known else float("nan")
        result[f"{name}_median"] = float(np.nanmedian(values)) if known else float("nan")
    return {key: float(value) for key, value in result.items()}


def _draws(potential: Potential, draws: Tensor | np.ndarray) -> Tensor:
    """Draws as a tensor, ``[draws, chains, dim]``; SettingError where they are none, or of another shape."""
    if not isinstance(draws, Tensor | np.ndarray):
        raise SettingError("draws", type(draws).__name__, "must be a torch.Tensor, such as result.draws")
    draws = torch.as_tensor(draws)
    dim = getattr(potential, "dim", draws.shape[-1:].numel())
    if draws.ndim != 3 or draws.shape[2] != dim or not draws.numel():
        raise SettingError("shape of draws", list(draws.shape), f"must be [draws, chains, {dim}]")
    return draws


def _quality(probabilities: Tensor, labels: Tensor | None) -> dict[str, float]:
    if labels is None:
        return {"entropy": float(diagnostics.predictive_entropy(probabilities).mean())}
    return {key: float(value) for key, value in diagnostics.metrics(probabilities, labels).items()}


def _functions(probabilities: Tensor, labels: Tensor | None) -> np.ndarray:
    some = probabilities[:FUNCTIONS].double()
    if labels is None:
        return diagnostics.predictive_entropy(some).cpu().numpy()
    mine = some.gather(-1, labels[: len(some), None])[:, 0]
    return torch.logit(mine, eps=1e-12).cpu().numpy()


if __name__ == "__main__":  # python -m sgmcmc.evaluate RUN …: which folders hold runs is known above the library
    import sys

    from experiments.evaluate import main

    sys.exit(main())
