"""Triton, where PyTorch brings it, and how its kernels are started."""

from __future__ import annotations

import torch
from torch import Tensor

from sgmcmc.environment import of_the_machine
from sgmcmc.inductor import CannotCompile

try:
    import triton
    import triton.language as tl
except ImportError:  # builds of PyTorch without CUDA come without it
    triton = tl = None

__all__ = ["OPTIONS", "launch", "tl", "triton"]
OPTIONS = {"enable_fp_fusion": True}  # as Triton's default was up to 3.9: another one would give other bits


def launch(kernel, grid: tuple[int, ...], x: Tensor, *arguments, **constants) -> None:
    """Start a kernel of x and other arguments on x's device. Raises CannotCompile, and the device's own errors."""
    try:
        with torch.cuda.device_of(x):
            kernel[grid](x, *arguments, **constants, **OPTIONS)
    except Exception as error:  # of Triton, or of the compiler that it looks for
        if of_the_machine(error):
            raise
        raise CannotCompile((str(error).strip() or type(error).__name__).split("\n")[0]) from error
