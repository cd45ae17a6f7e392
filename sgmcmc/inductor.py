"""A function of tensors as a graph: traced at given shapes and compiled by TorchInductor."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor

logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # it misses CUDA, which nobody asked for

# How many operations Inductor inlines into their users at most. At its default of 30 it takes up to four times as long
# over the deep, twice-used expressions here, and computes a minibatch's indices anew for every coordinate.
INLINED = {"realize_opcount_threshold": 20}


class CannotCompile(RuntimeError):
    """Why something runs eagerly, one sentence."""


def graph_of(function: Callable, inputs: list[Tensor], settings: dict = INLINED) -> Callable:
    """``function`` of tensors, traced at the shapes of ``inputs`` and compiled. Raises CannotCompile, one sentence.

    The trace is a run of the function on tensors without values, so a branch on a value is an error and not a
    constant of the graph. Calls skip the guards of ``torch.compile``, which cost as much as a cycle of a toy.
    """
    from torch._guards import TracingContext, tracing
    from torch._inductor.compile_fx import compile_fx
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    if any(tensor.is_cuda for tensor in inputs):
        settings = settings | {"deterministic": True}  # else it takes the kernel that was fastest at that moment
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True, allow_non_fake_inputs=True)
    try:
        with mode:
            # Each by itself: of one tensor that is given twice the trace would read one input for both.
            shapes = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for t in inputs]
            # Without annotations, which spoil the key of the disk's cache.
            trace = make_fx(lambda *given: function(*given), tracing_mode="real", _allow_non_fake_inputs=True)(*shapes)
        with tracing(TracingContext(mode)):
            graph = compile_fx(trace, shapes, config_patches=settings)
            graph(*inputs)
    except CannotCompile:
        raise
    except Exception as error:  # whatever tracing a user's target, or a missing compiler, raises
        reason = (str(error).strip() or type(error).__name__).split("\n")[0]
        raise CannotCompile(reason) from error
    return graph
