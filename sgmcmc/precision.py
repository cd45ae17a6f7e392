"""What float32 products of convolutions, recurrent layers and matrices are computed in: a setting of the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import backends

ON_GPU = (backends.cudnn.conv, backends.cudnn.rnn, backends.cuda.matmul)
ON_CPU = (backends.mkldnn.conv, backends.mkldnn.rnn, backends.mkldnn.matmul)
_LOCK = threading.Lock()
_WITHIN: list[list[str]] = []  # for each ``full_precision`` that is open, what there was before the first of them


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """A GPU's products in ``ieee`` or ``tf32``: of the whole process, so while no other thread is within
    ``full_precision``."""
    before = [kind.fp32_precision for kind in ON_GPU]
    try:
        for kind in ON_GPU:
            kind.fp32_precision = precision
        yield
    finally:
        for kind, precision in zip(ON_GPU, before, strict=True):
            kind.fp32_precision = precision


@contextmanager
def full_precision() -> Iterator[None]:
    """float32 products as float32: no TF32, no bf16, no autocast, whatever the process allows for gradients.

    bf16 products were measured to shift the U of a CIFAR-10 posterior by tens. Of two threads within, the last to leave
    gives back what there was before.
    """
    kinds = (*ON_GPU, *ON_CPU)
    with _LOCK:
        _WITHIN.append(_WITHIN[0] if _WITHIN else [kind.fp32_precision for kind in kinds])
        for kind in kinds:
            kind.fp32_precision = "ieee"
    try:
        with ExitStack() as stack:
            for device in filter(torch.is_autocast_enabled, ("cpu", "cuda")):
                stack.enter_context(torch.autocast(device, enabled=False))
            yield
    finally:
        with _LOCK:
            before = _WITHIN.pop()
            for kind, precision in zip(kinds, before, strict=True) if not _WITHIN else ():
                kind.fp32_precision = precision
