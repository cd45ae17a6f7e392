"""A perceptron with ReLU layers; 784-500-256-10 (523,326 parameters) is the one of the AMAGOLD paper, Table 2."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from sgmcmc.errors import SettingError


class MLP(nn.Module):
    """``[B, …]``, flattened to ``[B, inputs]``, through layers of ``hidden`` ReLU units to logits ``[B, classes]``."""

    def __init__(self, inputs: int = 784, hidden: Sequence[int] = (500, 256), classes: int = 10):
        super().__init__()
        sizes = [inputs, *hidden, classes]
        if min(sizes) < 1:
            raise SettingError("model.hidden", list(hidden), "must be numbers of units, each at least 1")
        layers = []
        for inside, outside in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(inside, outside), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs.flatten(1))
