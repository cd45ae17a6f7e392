"""The steps of a network's trajectories as CUDA graphs: captured once, replayed ever after.

There is no second sampler here, either. ``Captured`` is ``trajectory.walk``: minibatch by index, augmentation,
gradient, and the segment behind it, eager or compiled, a few steps at a time. What the walk launches on the device is
recorded once and launched again as one graph, so a step costs the host next to nothing, and the numbers are those of
the same kernels. State, indices, normals and the letters' numbers are inputs, so a new trajectory, a schedule or a
tuned step size captures nothing anew. Random numbers are made outside, by counters: no generator's state is frozen.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from itertools import chain

import torch
from torch import Tensor

from sgmcmc.compiled import Floats, is_scalar, numbers_of, with_numbers
from sgmcmc.kernel import Kernel, Ops
from sgmcmc.potentials.module_checks import close
from sgmcmc.trajectory import walk

AT_ONCE = 8  # gradients a graph, so that copying the state in and out is a small part of it


def why_not_captured(kernel: Kernel, potential, device: torch.device) -> str | None:
    """Why steps of this kernel and target are not captured, or None where they can be."""
    if device.type != "cuda":
        return f"a CUDA graph needs a CUDA device, and the run's is {device.type}"
    if kernel.gradient != "minibatch":
        return "steps with minibatch gradients alone are captured"
    if not getattr(potential, "capturable", False):
        return "steps of networks alone are captured, of one chain at a time"
    return None


class Captured:
    """``trajectory.walk`` by graphs, one for each sequence of letters and shapes.

    A sequence is evaluated as it is when it comes for the first time, and captured when it comes again: what comes
    once, such as the rest of a trajectory that was left, costs no capture. When it comes for the third time, with other
    inputs, it is replayed and evaluated: a module may go by what is no tensor, which no replay would follow. Where
    capturing fails, or the two differ, ``tell`` is told why, and all steps are evaluated as they are.
    """

    at_once = AT_ONCE

    def __init__(self, tell: Callable[[str], object]):
        self._tell = tell
        self._graphs: dict[tuple, Graph | None] = {}
        self._floats = Floats()
        self.failed = False

    def __call__(
        self, potential, segment: Callable, parts: list[Ops], batches: list[Tensor], theta, m, energy, noise, *constants
    ) -> tuple[Tensor, ...]:
        if self.failed:
            return walk(potential, segment, parts, batches, theta, m, energy, noise, *constants)
        ops = [op for part in parts for op, _, _ in part]
        numbers = [number for part in parts for number in numbers_of(part)]
        normals = [noise[op.draw] for op in ops if op.letter in "OE"]
        tensors = [one for one in numbers if not is_scalar(one)]
        # Inputs change from call to call; what is settled changes seldom, and then it is another tensor.
        inputs = [theta, m, energy, *batches, *normals]
        settled = [self._floats([one for one in numbers if is_scalar(one)], theta.device)]
        settled += [one for one in constants if isinstance(one, Tensor)] + tensors
        key = (
            (potential, segment, tuple("".join(op.letter for op, _, _ in part) for part in parts)),
            tuple(map(is_scalar, numbers)),
            tuple(None if isinstance(one, Tensor) else one for one in constants),
            tuple((one.shape, one.dtype) for one in inputs),
        )
        graph = self._graphs.get(key)
        if graph and graph.known:
            return graph(inputs, settled)
        function = _of_tensors(potential, segment, parts, constants)
        if graph:
            found, expected = graph(inputs, settled), function(*inputs, *settled)
            if not all(map(_close, found, expected)):
                self._leave("a replay gives other numbers than the steps themselves")
            graph.known = all(map(_finite, expected))  # of others nothing is known: the next ones may tell
            return expected
        if key in self._graphs:
            try:
                self._graphs[key] = Graph(function, inputs, settled)
                return self._graphs[key](inputs, settled)
            except Exception as error:  # whatever a user's module does that a capture does not allow
                self._leave((str(error).strip() or type(error).__name__).split("\n")[0])
        self._graphs[key] = None
        return function(*inputs, *settled)

    def _leave(self, reason: str) -> None:
        self.failed = True
        self._graphs.clear()
        self._tell(f"the run's steps are not captured: {reason}")


def _close(found: Tensor, expected: Tensor) -> bool:
    """Whether θ, m or a gradient is the same to rounding; of ΣΔK, a number a chain, a hundredth of T may be that."""
    return close(found, expected) if found.ndim > 1 else torch.allclose(found, expected, 1e-2, 1e-2, equal_nan=True)


def _finite(one: Tensor) -> bool:
    return bool(one.isfinite().all())


class Graph:
    """A function of tensors, captured: its inputs are copied to where the graph reads, and what comes out is copied
    away, so that nothing that a caller holds is written over."""

    known = False  # whether it gives what the function does

    def __init__(self, function: Callable, inputs: list[Tensor], settled: list[Tensor]):
        self._inputs, self._own = ([torch.empty_like(one).copy_(one) for one in group] for group in (inputs, settled))
        self._settled = list(settled)
        self._replay, self._outputs = cuda_graph(function, [*self._inputs, *self._own])

    def __call__(self, inputs: list[Tensor], settled: list[Tensor]) -> tuple[Tensor, ...]:
        for own, given in zip(self._inputs, inputs, strict=True):
            own.copy_(given, non_blocking=True)
        for place, given in enumerate(settled):
            if given is not self._settled[place]:
                self._own[place].copy_(given, non_blocking=True)
                self._settled[place] = given
        self._replay()
        return tuple(one.clone() for one in self._outputs)


def _of_tensors(potential, segment: Callable, parts: list[Ops], constants: tuple) -> Callable:
    """``walk`` as a function of tensors only: θ, m, ΣΔK, batches, normals, numbers, then the constants that are
    tensors."""
    draws = [op.draw for op, _, _ in chain(*parts) if op.letter in "OE"]

    def function(*given: Tensor) -> tuple[Tensor, ...]:
        given = iter(given)
        state = [next(given) for _ in range(3)]
        batches = [next(given) for _ in parts]
        noise = {draw: next(given) for draw in draws}
        floats = iter(next(given).unbind())
        put = [next(given) if isinstance(one, Tensor) else one for one in constants]
        letters = [with_numbers(part, floats, given) for part in parts]
        return walk(potential, segment, letters, batches, *state, noise, *put)

    return function


def cuda_graph(function: Callable, inputs: list[Tensor]) -> tuple[Callable[[], None], tuple[Tensor, ...]]:
    """What launches the function's work on these very tensors again, and the tensors that it then writes."""
    # Streams and captures are the current device's, which need not be the inputs'.
    with torch.cuda.device(inputs[0].device):
        return _cuda_graph(function, inputs)


def _cuda_graph(function, inputs):
    # Autograd's nodes of gradients before this remember the stream that they were made on, and a cycle of references
    # keeps those of layers that were compiled: backward would go back to that stream, which a capture does not allow.
    gc.collect()
    side, here = torch.cuda.Stream(), torch.cuda.current_stream()
    side.wait_stream(here)
    with torch.cuda.stream(side):
        try:
            for _ in range(2):  # libraries choose their kernels and set up their workspaces
                function(*inputs)
        finally:  # what comes next writes where this does
            here.wait_stream(side)
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    torch.cuda.synchronize()
    # Not torch.cuda.graph, which puts an error of its own in the place of what the function raised. Collecting garbage
    # meanwhile could free another graph, which a capture does not allow; nor can it free what is cached, which is the
    # memory of the graphs of chains before.
    gc.collect()
    torch.cuda.empty_cache()
    gc.disable()
    try:
        with torch.cuda.stream(side):
            graph.capture_begin(pool=pool)
            try:
                outputs = function(*inputs)
                graph.capture_end()  # raises, too: of work on a stream that was not waited for, of an error kept quiet
            except BaseException:
                _leave(graph, pool)
                raise
    finally:
        gc.enable()
    here.wait_stream(side)
    return graph.replay, outputs


def _leave(graph: torch.cuda.CUDAGraph, pool) -> None:
    """End a capture in which something was raised, or whose end raised, which it does again.

    Where it raises, PyTorch before 2.12 goes on giving memory from the pool, and lets no later graph be captured in
    this process.
    """
    try:
        graph.capture_end()
    except RuntimeError:
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)
            torch._C._cuda_releasePool(torch.cuda.current_device(), pool)
