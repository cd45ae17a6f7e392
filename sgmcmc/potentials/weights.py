"""The laws of a network's weights, by the names of its parameter tensors: the prior's, and where training begins."""

from __future__ import annotations

import math
from numbers import Real

from torch import Tensor, nn

from sgmcmc.errors import SettingError
from sgmcmc.models.normalisation import FilterResponseNorm

PRIORS = ("cin", "fan_in", "unit")
STARTS = ("he", "torch")
NORMS = (FilterResponseNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)


def _of_norms(model: nn.Module) -> set[int]:
    """The scales, shifts and thresholds of normalisations (their ids)."""
    return {id(p) for module in model.modules() if isinstance(module, NORMS) for p in module.parameters()}


def prior_std(model: nn.Module, prior: str | float = "fan_in", flat_norms: bool = False) -> dict[str, float]:
    """The prior's standard deviation of each trainable parameter tensor, by name; infinite stands for a flat prior.

    ===========  ============================ ===========================================================
    prior        tensors of ≥ 2 dimensions    source
    ===========  ============================ ===========================================================
    ``cin``      √(2/c), c = size of dim 1    GGMC paper as run: variance not divided by the kernel's area
    ``fan_in``   √(2/fan in)                  He et al.: c times the kernel's area
    ``unit``     1                            Wenzel et al. ("gaussian")
    a number     √number, for every tensor    AMAGOLD's MLP: 2000
    ===========  ============================ ===========================================================

    Biases and the rest have 1. So have the scales, shifts and thresholds of normalisations: a proper prior on every
    parameter. ``flat_norms`` gives those a flat one instead, as in the GGMC paper's and Wenzel et al.'s runs; their
    U/N has no normaliser for them, and ⟨θ, ∇U⟩ no expectation there. The posterior is then improper behind a ReLU: U
    stays what it is where a shift goes to −∞ and no datum passes, so that a long chain has no law to come to.
    """
    if isinstance(prior, Tensor) and prior.numel() == 1:
        prior = prior.item()
    if isinstance(prior, str):
        if prior not in PRIORS:
            raise SettingError("model.prior", prior, f"must be one of {', '.join(PRIORS)}, or a variance")
    elif not (isinstance(prior, Real) and math.isfinite(prior) and prior > 0):
        raise SettingError("model.prior", prior, "a variance must be a positive number")
    norms = _of_norms(model)

    def std(parameter: Tensor) -> float:
        if flat_norms and id(parameter) in norms:
            return math.inf
        if not isinstance(prior, str):
            return math.sqrt(prior)
        if prior == "unit" or parameter.ndim < 2 or id(parameter) in norms:
            return 1.0
        return math.sqrt(2 / (parameter.shape[1] if prior == "cin" else parameter[0].numel()))

    return {name: std(parameter) for name, parameter in model.named_parameters() if parameter.requires_grad}


def start_scales(model: nn.Module, sampled: dict[str, Tensor], how: str) -> list[tuple[float, float]]:
    """How wide each of the ``sampled`` parameters is drawn where training begins: (σ of a normal, a of a uniform in
    ±a), one of them 0; both of what starts as the module was given.

    ``how``: see ``NetworkPotential.initial``. Raises SettingError for any other.
    """
    if how not in STARTS:
        raise SettingError("init", how, "a network's training begins at he or torch")
    norms = _of_norms(model)
    weights = {name: part[0].numel() for name, part in sampled.items() if part.ndim > 1 and id(part) not in norms}
    layers = [(getattr(one, "weight", None), getattr(one, "bias", None)) for one in model.modules()]
    beside = {  # a bias and the fan in of the weight beside it
        id(bias): weight.shape[1:].numel() for weight, bias in layers if isinstance(weight, Tensor) and weight.ndim > 1
    }

    def scales(name: str, part: Tensor) -> tuple[float, float]:
        bias = part.ndim == 1 and name.rpartition(".")[2] == "bias" and id(part) not in norms
        fan = weights.get(name) or (len(part) if bias else 0)
        if bias and how == "torch":
            fan = beside.get(id(part), fan)
        if name in weights and how == "he":
            return math.sqrt(2 / fan), 0.0
        return 0.0, fan**-0.5 if fan else 0.0

    return [scales(name, part) for name, part in sampled.items()]
