"""ResNet-v1 for small images (He, Zhang, Ren, Sun, "Deep residual learning for image recognition", CVPR 2016, §4.2).

The ResNet-20 of Wenzel et al. ("How good is the Bayes posterior in deep neural networks really?", ICML 2020)
and of Garriga-Alonso and Fortuin ("Exact Langevin dynamics with stochastic gradients", 2021): three stacks of
three blocks, conv 3×3 – norm – ReLU – conv 3×3 – norm, plus the shortcut, ReLU; stacks 2 and 3 start with stride
2 and a projected shortcut (conv 1×1, norm); mean over the pixels that are left; a linear layer with bias.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from sgmcmc import residual
from sgmcmc.convolution import Convolution, SameConv2d
from sgmcmc.errors import SettingError, one_of
from sgmcmc.models.normalisation import FilterResponseNorm

NORMS = ("frn", "bn", "gn", "none")
PADS = ("torch", "keras")


class Block(nn.Module):
    """conv 3×3 – norm – activation – conv 3×3 – norm, plus the shortcut, ReLU; the shortcut is the input itself or,
    where shapes differ, conv 1×1 – norm of it. ``convolve`` and ``normalise`` make the layers."""

    def __init__(self, inside: int, outside: int, stride: int, convolve, normalise):
        super().__init__()
        self.conv1 = convolve(inside, outside, 3, stride)
        self.norm1 = normalise(outside, True)
        self.conv2 = convolve(outside, outside, 3, 1)
        self.norm2 = normalise(outside, False)
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(convolve(inside, outside, 1, stride), normalise(outside, False))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm2(self.conv2(self.norm1(self.conv1(x))))
        return F.relu_(inner.add_(self.shortcut(x)))

    def layers(self) -> tuple[tuple[nn.Module, ...], ...]:
        """Its convolutions, each with its normalisation, the shortcut's last."""
        return (self.conv1, self.norm1), (self.conv2, self.norm2), *([tuple(self.shortcut)] if self.shortcut else ())


class ResNet(nn.Module):
    """Images ``[B, in_channels, H, W]`` of any size to logits ``[B, classes]``.

    depth 6n + 2; ``width`` channels in the first stack, then twice and four times as many. ``norm``:

    - ``frn``: filter response normalisation; thresholded (TLU) where an activation follows at once, without
      threshold before the residual sum, whose activation is a plain ReLU. 272,826 parameters at depth 20 (of
      the counts found for FRN ResNet-20s the one without thresholds around the sum);
    - ``bn``: batch normalisation, 272,474 (273,258 with ``conv_bias``);
    - ``gn``: group normalisation, at most 8 groups; ``none``: no normalisation.

    ``pad`` is ``torch`` (one zero all round) or ``keras`` (``same``, asymmetric at stride 2). Raises SettingError.
    """

    def __init__(
        self,
        depth: int = 20,
        width: int = 16,
        norm: str = "frn",
        conv_bias: bool = False,
        pad: str = "torch",
        in_channels: int = 3,
        classes: int = 10,
    ):
        super().__init__()
        if depth < 8 or (depth - 2) % 6:
            raise SettingError("model.depth", depth, "must be 6n + 2: 8, 14, 20, …")
        one_of("model.norm", norm, NORMS)
        one_of("model.pad", pad, PADS)
        for setting, value in (("width", width), ("in_channels", in_channels), ("classes", classes)):
            if value < 1:
                raise SettingError(f"model.{setting}", value, "must be at least 1")

        def convolve(inside: int, outside: int, kernel: int, stride: int) -> nn.Conv2d:
            if pad == "keras":
                return SameConv2d(inside, outside, kernel, stride, bias=conv_bias)
            return Convolution(inside, outside, kernel, stride, kernel // 2, bias=conv_bias)

        def normalise(channels: int, activate: bool) -> nn.Module:
            if norm == "frn":
                return FilterResponseNorm(channels, threshold=activate)
            layers = {
                "bn": lambda: [nn.BatchNorm2d(channels)],
                "gn": lambda: [nn.GroupNorm(math.gcd(8, channels), channels)],
                "none": lambda: [],
            }[norm]()
            return nn.Sequential(*layers, *([nn.ReLU()] if activate else []))

        self.conv = convolve(in_channels, width, 3, 1)
        self.norm = normalise(width, True)
        blocks, channels = [], width
        for stack in range(3):
            for block in range((depth - 2) // 6):
                stride = 2 if stack and not block else 1
                blocks.append(Block(channels, width << stack, stride, convolve, normalise))
                channels = width << stack
        self.blocks = nn.Sequential(*blocks)
        self.linear = nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        logits = self._at_once(images)
        return self.linear(self.blocks(self.norm(self.conv(images))).mean((2, 3))) if logits is None else logits

    def _at_once(self, images: Tensor) -> Tensor | None:
        """Logits, where all layers are as they were made and kernels of ours take them."""
        if not getattr(self.conv, "compiled", False) or not residual.takes(images):
            return None
        inner = [(self.blocks, nn.Sequential), *((block, Block) for block in self.blocks.children())]
        inner += [(block.shortcut, nn.Sequential) for block, _ in inner[1:] if isinstance(block, Block)]
        if not all(residual.is_plain(*one) for one in inner):
            return None
        blocks = [(self.conv, self.norm)], *(block.layers() for block in self.blocks)
        return residual.at_once(images, self.linear, *blocks)
