"""Networks: functions of inputs ``[B, …]`` to logits ``[B, classes]``. The law of their weights is elsewhere, in the
potential; any other ``torch.nn.Module`` that maps inputs to logits does as well.

``build(name, data, **settings)`` makes one of the named models to the measure of a data set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from sgmcmc.errors import SettingError, nearest
from sgmcmc.models.mlp import MLP
from sgmcmc.models.normalisation import FilterResponseNorm
from sgmcmc.models.resnet import ResNet

if TYPE_CHECKING:
    from sgmcmc.data import Dataset

__all__ = ["MLP", "NAMES", "FilterResponseNorm", "ResNet", "build"]

NAMES = ("resnet20", "mlp")


def build(name: str, data: Dataset, **settings) -> nn.Module:
    """The model ``name`` for the inputs and classes of ``data``; ``settings`` are those of ResNet or MLP.

    Raises SettingError for an unknown name, for a setting the model refuses, and for a ResNet of what is no image.
    """
    shape = data.inputs.shape[1:]
    if name == "resnet20":
        if len(shape) != 3:
            raise SettingError("model", name, f"needs images, and the data are rows of {tuple(shape)}: use mlp")
        return ResNet(in_channels=shape[0], classes=data.classes, **settings)
    if name == "mlp":
        return MLP(inputs=shape.numel(), classes=data.classes, **settings)
    raise SettingError("model.name", name, nearest(name, NAMES, f"must be one of {', '.join(NAMES)}"))
