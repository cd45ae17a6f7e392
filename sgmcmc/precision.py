"""What float32 products of convolutions and matrices are computed in: a setting of the whole process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import backends

ON_GPU = (backends.cudnn.conv, backends.cuda.matmul)
ON_CPU = (backends.mkldnn.conv, backends.mkldnn.matmul)


@contextmanager
def products_in(precision: str, kinds: Sequence = ON_GPU) -> Iterator[None]:
    """Products of these kinds in ``ieee``, ``tf32`` or ``bf16``."""
    before = [kind.fp32_precision for kind in kinds]
    try:
        for kind in kinds:
            kind.fp32_precision = precision
        yield
    finally:
        for kind, precision in zip(kinds, before, strict=True):
            kind.fp32_precision = precision


@contextmanager
def full_precision() -> Iterator[None]:
    """float32 products as float32: no TF32, no bf16, no autocast, whatever the process allows for gradients.

    bf16 products were measured to shift the U of a CIFAR-10 posterior by tens.
    """
    with ExitStack() as stack:
        stack.enter_context(products_in("ieee", (*ON_GPU, *ON_CPU)))
        for device in filter(torch.is_autocast_enabled, ("cpu", "cuda")):
            stack.enter_context(torch.autocast(device, enabled=False))
        yield
