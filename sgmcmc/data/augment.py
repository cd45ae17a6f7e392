"""The 162 views of an image: flipped left to right or not, times 81 crops of the image padded with four zeros.

The augmentation of He et al. (2016) for CIFAR-10, as a numbered, finite set: torchvision's
``RandomCrop(size, padding=4)`` and then ``RandomHorizontalFlip``, which draw each of the 162 with equal
probability.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from sgmcmc.random import Random

PADDING = 4
SHIFTS = 2 * PADDING + 1
VIEWS = 2 * SHIFTS**2
# Numbers of trajectories of the stream "augmentation" that no chain has: -1 draws the frozen views, those below it the
# random views that U is evaluated on.
_FROZEN = -1


def augment(images: Tensor, view: Tensor) -> Tensor:
    """View ``view[b]`` (int64 ``[B]``, in [0, 162)) of image b, ``[B, C, H, W]`` before normalisation: zero is black.

    view = 81 flip + 9 row + col: the window whose corner is at (row, col) of the image padded with four zeros all
    round, then mirrored if flip is 1. View 40 is the image itself. Same shape and dtype, on the images' device.
    """
    height, width = images.shape[2:]
    flip, shift = view // SHIFTS**2, view % SHIFTS**2
    rows = (shift // SHIFTS)[:, None] + torch.arange(height, device=images.device)
    across = torch.arange(width, device=images.device)
    cols = (shift % SHIFTS)[:, None] + torch.where(flip[:, None] == 1, width - 1 - across, across)
    padded = F.pad(images, [PADDING] * 4).flatten(2)
    pixel = rows[:, :, None] * (width + 2 * PADDING) + cols[:, None, :]
    return padded.gather(2, pixel.flatten(1)[:, None].expand(-1, images.shape[1], -1)).view(images.shape)


def frozen_views(images: int, views: int, seed: int, device: torch.device) -> Tensor:
    """Which views each image has, uint8 ``[images, views]``: the first of a permutation of the 162, by the seed."""
    random, table = Random(seed), []
    for start in range(0, images, 4096):
        order = random.permutation("augmentation", _FROZEN, range(start, min(start + 4096, images)), VIEWS)
        table.append(order[:, :views].to(torch.uint8))
    return torch.cat(table).to(device)


def random_views(images: int, seed: int, counter: int, device: torch.device) -> Tensor:
    """One random view of each image, int64 ``[images]``, a function of the seed and the counter."""
    return Random(seed, device).integers("augmentation", _FROZEN - 1 - counter, 1, 1, images, VIEWS)[0, 0]
