"""A function of tensors as a graph: traced at given shapes and compiled by TorchInductor."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from sgmcmc.interrupt import unbroken

logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # it misses CUDA, which nobody asked for

# How many operations Inductor inlines into their users at most. At its default of 30 it takes up to four times as long
# over the deep, twice-used expressions here, and computes a minibatch's indices anew for every coordinate.
INLINED = {"realize_opcount_threshold": 20}


_ALONE = threading.RLock()  # Inductor's settings and its tracing are of the process, not of a thread


def _released() -> None:
    """A child that is forked has none of the threads that may hold the lock."""
    global _ALONE
    _ALONE = threading.RLock()


os.register_at_fork(after_in_child=_released)


class CannotCompile(RuntimeError):
    """Why something runs eagerly, one sentence."""


@contextmanager
def compiling() -> Iterator[None]:
    """Within, one thread compiles at a time, ``unbroken``, and what fails raises CannotCompile, one sentence, but for a
    device's own errors."""
    try:
        with _ALONE, unbroken():
            yield
    except (CannotCompile, torch.OutOfMemoryError, torch.AcceleratorError):
        raise
    except Exception as error:  # whatever tracing a user's target, a missing compiler or a full disk raises
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # A C++ compiler's own words stand last, after its command. Dynamo's say first who raised what follows.
        told = [line for line in lines if "error: " in line] or [line for line in lines if not line.endswith(":")]
        reason = next(iter(told), type(error).__name__)
        raise CannotCompile(reason.removeprefix("RuntimeError: ")) from error


def graph_of(function: Callable, inputs: Sequence[Tensor], settings: dict = INLINED) -> Callable:
    """``function`` of tensors, traced at the shapes of ``inputs`` and compiled. Raises CannotCompile, one sentence.

    The trace is a run of the function on tensors without values, so a branch on a value is an error and not a
    constant of the graph. Calls skip the guards of ``torch.compile``, which cost as much as a cycle of a toy.
    """
    if any(tensor.is_cuda for tensor in inputs):
        settings = settings | {"deterministic": True}  # else it takes the kernel that was fastest at that moment
    with compiling():
        from torch._guards import TracingContext, tracing
        from torch._inductor.compile_fx import compile_fx
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.proxy_tensor import make_fx
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True, allow_non_fake_inputs=True)
        with mode:
            # Each by itself: of one tensor that is given twice the trace would read one input for both.
            shapes = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for t in inputs]
            # Without annotations, which spoil the key of the disk's cache.
            trace = make_fx(lambda *given: function(*given), tracing_mode="real", _allow_non_fake_inputs=True)(*shapes)
        # The trace has its gradients in it. Of a target's own parameters calls would make another graph, of autograd's.
        with tracing(TracingContext(mode)), torch.no_grad():
            graph = compile_fx(trace, shapes, config_patches=settings)
            graph(*inputs)
    return graph
