"""A residual network with filter response normalisations on a CUDA device, a kernel each way for each layer.

A network of small images is bound by how often its activations go through memory and by how many kernels are started.
Here one program has one image of one layer, so the sums over an image's pixels that the normalisation takes need no
pass of their own: forwards it makes u = conv(x) and z = max(γ u / √(mean u² + ε) + β, τ), or relu(… + what a residual
block adds); backwards the gradients by u, by x (with what else is added to it) and, for each image, by γ, β and τ. The
last layer's program goes on to the mean over the pixels and the logits. The gradients by the weights,
``convolution.put_by_weights``, are made beside these, and all sums over images end in one kernel. Sums have a fixed
order, so the same numbers come out each time.

For gradients in TF32. Activations and gradients by them are kept as float16, which has the 11 bits that products in
TF32 take of a number, at half the memory. What it lacks is TF32's range: numbers stop at 65504. But activations are
normalised, and the gradient by the logits is multiplied by a power of two, after which the largest, over the pixels of
the last layer, is between 4 and 8; the last sums take it away, so a loss may be in any units. All sums, those of
products too, are float32.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sgmcmc.convolution import Convolution, SameConv2d, compiled_for, in_parts, precision, put_by_weights
from sgmcmc.launch import launch, tl, triton
from sgmcmc.models.normalisation import EPSILON, FilterResponseNorm

CHANNELS = (16, 32, 64)  # that a program holds all of
CLASSES = 128  # at most
KINDS = ("tf32",)  # of products: float32's own are slower so
STORED = {"tf32": torch.float16, "ieee": torch.float32}  # of each kind, activations and gradients by them
PIXELS = 64**2  # of an image at most: a program has a whole one
SHARED = 160 << 10  # bytes of shared memory that a program may need
NUMBERS = 1 << 14  # of pixels and channels at once at most: there are three such in shared memory

if triton is not None:
    from sgmcmc.convolution import by_taps, seen, taken

    @triton.jit
    def _respond(
        x, w, gamma, beta, tau, other, v, rate, z, head, bias, means, logits,
        H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr, N: tl.constexpr,
        R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr, PRECISION: tl.constexpr,
        EPS: tl.constexpr, THRESHOLD: tl.constexpr, SUM: tl.constexpr, HEAD: tl.constexpr, ROWS: tl.constexpr,
        BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr,
    ):  # fmt: skip
        """The rate 1/√(mean u² + ε), v = u · rate and z of an image, which lie channels last; z's mean over pixels and
        ``HEAD`` logits of it."""
        P: tl.constexpr = OH * OW
        KIND: tl.constexpr = v.dtype.element_ty
        image, n = tl.program_id(0), tl.arange(0, N)
        x += image * (H * W * C)
        total = tl.zeros((BLOCK_P, N), tl.float32)
        squares, sums = tl.zeros((N,), tl.float32), tl.zeros((N,), tl.float32)
        for first in range(0, P, BLOCK_P):
            total = _convolved(
                x, w, first, H, W, OH, OW, C, N, R, S, STRIDE, PAD, BLOCK_P, BLOCK_C, KIND, PRECISION
            )  # fmt: skip
            squares += tl.sum(total * total, 0)
        each = 1 / tl.sqrt_rn(squares / P + EPS)
        tl.store(rate + image * N + n, each)
        scale, shift = tl.load(gamma + n), tl.load(beta + n)
        for first in range(0, P, BLOCK_P):
            if P > BLOCK_P:  # else it is there
                total = _convolved(
                    x, w, first, H, W, OH, OW, C, N, R, S, STRIDE, PAD, BLOCK_P, BLOCK_C, KIND, PRECISION
                )  # fmt: skip
            p = first + tl.arange(0, BLOCK_P)
            place, inside = ((image * P + p) * N)[:, None] + n[None, :], (p < P)[:, None]
            kept = taken(total * each[None, :], KIND, PRECISION)
            tl.store(v + place, kept, mask=inside)
            y = kept.to(tl.float32) * scale[None, :] + shift[None, :]
            if THRESHOLD:
                y = tl.maximum(y, tl.load(tau + n)[None, :], propagate_nan=tl.PropagateNan.ALL)
            if SUM:
                y += tl.load(other + place, mask=inside, other=0.0)
                y = tl.maximum(y, 0.0, propagate_nan=tl.PropagateNan.ALL)
            kept = taken(y, KIND, PRECISION)
            tl.store(z + place, kept, mask=inside)
            if HEAD > 0:
                sums += tl.sum(tl.where(inside, kept.to(tl.float32), 0.0), 0)
        if HEAD > 0:
            mean, k = sums / P, tl.arange(0, ROWS)
            tl.store(means + image * N + n, mean)
            weights = tl.load(head + (k * N)[:, None] + n[None, :], mask=(k < HEAD)[:, None], other=0.0)
            logit = tl.sum(weights * mean[None, :], 1) + tl.load(bias + k, mask=k < HEAD, other=0.0)
            tl.store(logits + image * HEAD + k, logit, mask=k < HEAD)

    @triton.jit
    def _convolved(
        x, w, first, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr,
        N: tl.constexpr, R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
        BLOCK_P: tl.constexpr, BLOCK_C: tl.constexpr, KIND: tl.constexpr, PRECISION: tl.constexpr,
    ):  # fmt: skip
        """u of an image's pixels from the first, 0 beyond its last."""
        p, n = first + tl.arange(0, BLOCK_P), tl.arange(0, N)
        inside = p < OH * OW
        if C >= BLOCK_C:
            return by_taps(
                x, w, p, inside, n, H, W, OH, OW, C, R * S, S, STRIDE, PAD, 1,
                1, R * S * C, C, 0, BLOCK_P, N, BLOCK_C, PRECISION,
            )  # fmt: skip
        k = tl.arange(0, BLOCK_C)  # taps and channels as one
        pixel, there = seen(p[:, None], k[None, :] // C, H, W, OH, OW, S, STRIDE, PAD, 1)
        there = there & inside[:, None] & (k < R * S * C)[None, :]
        values = tl.load(x + pixel * C + k[None, :] % C, mask=there, other=0.0)
        weights = tl.load(w + k[:, None] + n[None, :] * (R * S * C), mask=(k < R * S * C)[:, None], other=0.0)
        return tl.dot(taken(values, KIND, PRECISION), taken(weights, KIND, PRECISION), input_precision=PRECISION)

    @triton.jit
    def _unit(slopes, numbers, P: tl.constexpr, BLOCK: tl.constexpr):
        """The power of two that brings the largest of the slopes over P to 4 or more, and below 8, unless it is hardly
        any; and its inverse."""
        place, largest = tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32)
        for first in range(0, numbers, BLOCK):
            some = tl.load(slopes + first + place, mask=first + place < numbers, other=0.0)
            largest = tl.maximum(largest, tl.abs(some))  # of those that are numbers
        exponent = tl.maximum((tl.max(largest, 0) / P).to(tl.int32, bitcast=True) >> 23, 3)
        power, inverse = (256 - exponent) << 23, (exponent - 2) << 23
        return power.to(tl.float32, bitcast=True), inverse.to(tl.float32, bitcast=True)

    @triton.jit
    def _sloped(
        upstream, above, v, z, place, inside, weight, shift, threshold, THRESHOLD: tl.constexpr, SUM: tl.constexpr,
        HEAD: tl.constexpr,
    ):  # fmt: skip
        """Of pixels the gradient by z, v, and the gradient by what the threshold or the sum's relu lets through."""
        value = tl.load(v + place, mask=inside, other=0.0).to(tl.float32)
        if HEAD > 0:  # of each pixel the same
            above = tl.where(inside, above[None, :], tl.zeros_like(value))
        else:
            above = tl.load(upstream + place, mask=inside, other=0.0).to(tl.float32)
        slope = above
        if THRESHOLD:
            slope = tl.where(value * weight[None, :] + shift[None, :] <= threshold[None, :], 0.0, above)
        if SUM:  # and there, too, what is no number goes on
            slope = tl.where(tl.load(z + place, mask=inside, other=0.0) <= 0, 0.0, above)
        return above, value, slope

    @triton.jit
    def _respond_backward(
        upstream, v, rate, z, w, gamma, beta, tau, add, by_u, by_other, by_x, sums, head, means, by_head, unit,
        H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr, N: tl.constexpr,
        R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr, PRECISION: tl.constexpr,
        THRESHOLD: tl.constexpr, SUM: tl.constexpr, BY_X: tl.constexpr, ADD: tl.constexpr, HEAD: tl.constexpr,
        ROWS: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_N: tl.constexpr,
    ):  # fmt: skip
        """Of an image, from the gradient by z: by u, by what was added (``SUM``), by x (``BY_X``), to which something
        else is added (``ADD``), and the sums over pixels that are the gradients by γ, β and τ, ``[3, N]``. Or from that
        by ``HEAD`` logits, with those by their weights and biases, ``[HEAD · N + HEAD]``, all in a unit that is found.
        """
        P: tl.constexpr = OH * OW
        Q: tl.constexpr = H * W
        KIND: tl.constexpr = v.dtype.element_ty
        image, n = tl.program_id(0), tl.arange(0, N)
        weight, shift = tl.load(gamma + n), tl.load(beta + n)
        scale = weight * tl.load(rate + image * N + n)
        threshold, by_mean = shift, shift
        if THRESHOLD:
            threshold = tl.load(tau + n)
        if HEAD > 0:
            power, inverse = _unit(upstream, tl.num_programs(0) * HEAD, P, 1024)
            tl.store(unit, inverse)
            k = tl.arange(0, ROWS)
            slopes = tl.load(upstream + image * HEAD + k, mask=k < HEAD, other=0.0) * power
            weights = tl.load(head + (k * N)[:, None] + n[None, :], mask=(k < HEAD)[:, None], other=0.0)
            by_mean = tl.sum(weights * slopes[:, None], 0) / P
            by_head += image * (HEAD * N + HEAD)
            outer = slopes[:, None] * tl.load(means + image * N + n)[None, :]
            tl.store(by_head + (k * N)[:, None] + n[None, :], outer, mask=(k < HEAD)[:, None])
            tl.store(by_head + HEAD * N + k, slopes, mask=k < HEAD)
        along, total, whole = tl.zeros((N,), tl.float32), tl.zeros((N,), tl.float32), tl.zeros((N,), tl.float32)
        value, slope = tl.zeros((BLOCK_P, N), tl.float32), tl.zeros((BLOCK_P, N), tl.float32)
        for first in range(0, P, BLOCK_P):
            p = first + tl.arange(0, BLOCK_P)
            place, inside = ((image * P + p) * N)[:, None] + n[None, :], (p < P)[:, None]
            above, value, slope = _sloped(
                upstream, by_mean, v, z, place, inside, weight, shift, threshold, THRESHOLD, SUM, HEAD
            )
            along += tl.sum(slope * value, 0)
            total += tl.sum(slope, 0)
            whole += tl.sum(above, 0)
        sums += image * (3 * N) + n
        tl.store(sums, along)
        tl.store(sums + N, total)
        tl.store(sums + 2 * N, whole - total)
        for first in range(0, P, BLOCK_P):
            p = first + tl.arange(0, BLOCK_P)
            place, inside = ((image * P + p) * N)[:, None] + n[None, :], (p < P)[:, None]
            if P > BLOCK_P:  # else they are there
                _, value, slope = _sloped(
                    upstream, by_mean, v, z, place, inside, weight, shift, threshold, THRESHOLD, SUM, HEAD
                )
            back = taken((slope - value * (along / P)[None, :]) * scale[None, :], KIND, PRECISION)
            tl.store(by_u + place, back, mask=inside)
            if SUM:
                tl.store(by_other + place, taken(slope, KIND, PRECISION), mask=inside)
        if BY_X:
            tl.debug_barrier()
            c = tl.arange(0, C)
            for first in range(0, Q, BLOCK_Q):
                q = first + tl.arange(0, BLOCK_Q)
                # The taps from the last to the first, and what went in comes out.
                back = by_taps(
                    by_u + image * (P * N), w, q, q < Q, c, OH, OW, H, W, N, R * S, S, 1, R - 1 - PAD, STRIDE,
                    R * S * C, 1, -C, (R * S - 1) * C, BLOCK_Q, C, BLOCK_N, PRECISION,
                )  # fmt: skip
                place, inside = ((image * Q + q) * C)[:, None] + c[None, :], (q < Q)[:, None]
                if ADD:
                    back += tl.load(add + place, mask=inside, other=0.0)
                tl.store(by_x + place, taken(back, KIND, PRECISION), mask=inside)

    @triton.jit
    def _added(parts, table, out, unit, ROWS: tl.constexpr, BLOCK: tl.constexpr):
        """Sums over parts in some unit that lie one after another: where they begin, how long each is and how many
        there are, where the sum goes, and how many of its numbers, is a row of the table for each program."""
        table += tl.program_id(0) * 5
        parts = parts + tl.load(table)
        each, number, out, wanted = tl.load(table + 1), tl.load(table + 2), out + tl.load(table + 3), tl.load(table + 4)
        row, place = tl.arange(0, ROWS), tl.arange(0, BLOCK)
        total = tl.zeros((ROWS, BLOCK), tl.float32)
        for first in range(0, number, ROWS):
            there = (first + row < number)[:, None] & (place < wanted)[None, :]
            total += tl.load(parts + ((first + row) * each)[:, None] + place[None, :], mask=there, other=0.0)
        tl.store(out + place, tl.sum(total, 0) * tl.load(unit), mask=place < wanted)


ROWS, BLOCK = 16, 64  # of what is added up at once


@dataclass(frozen=True)
class Head:
    """The logits' weights and biases; of each image what the mean over pixels is, or is to become."""

    weight: Tensor
    bias: Tensor
    means: Tensor


@dataclass(frozen=True)
class Layer:
    """A convolution and the normalisation behind it, of images of one size."""

    image: tuple[int, int]
    out: tuple[int, int]
    channels: tuple[int, int]  # in and out
    side: int
    stride: int
    padding: int  # above and to the left

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the weights."""
        return self.channels[1], self.channels[0], self.side, self.side

    def respond(self, x: Tensor, parameters, other: Tensor | None = None, head: Head | None = None):
        """z and v ``[B, N, OH, OW]`` and the rate ``[B, N]`` of x ``[B, C, H, W]``, and a ``head``'s logits or None."""
        w, gamma, beta, tau = parameters
        z, v = (_empty(x, STORED[precision(x)], self.channels[1], *self.out) for _ in range(2))
        rate = torch.empty((len(x), self.channels[1]), device=x.device)
        logits = None if head is None else torch.empty((len(x), len(head.bias)), device=x.device)
        how = self._how(x, False, head) | {"EPS": EPSILON, "THRESHOLD": tau is not None, "SUM": other is not None}
        tau, other = (x if one is None else one for one in (tau, other))
        ends = [head.weight, head.bias, head.means, logits] if head else [x] * 4
        launch(_respond, (len(x),), x, w, gamma, beta, tau, other, v, rate, z, *ends, **how)
        return z, v, rate, logits

    def backward(
        self, upstream: Tensor, saved, parameters, sums: Sums, place: tuple[int, int], summed: bool,
        by_x: Tensor | None, add: Tensor | None = None, head: Head | None = None,
    ):  # fmt: skip
        """The gradients by u, and by what was added (that by z, unless it was ``summed``); put into ``by_x`` that by x
        with ``add`` added to it, and into the sums those by γ, β and τ of each image; with a ``head``, from the
        gradient by its logits, and with those by its weights and biases."""
        (z, v, rate), (w, gamma, beta, tau) = saved, parameters
        by_u, by_other = torch.empty_like(v), torch.empty_like(v) if summed else upstream
        how = self._how(v, True, head)
        how |= {"THRESHOLD": tau is not None, "SUM": summed, "BY_X": by_x is not None, "ADD": add is not None}
        tau, add, by_x = (v if one is None else one for one in (tau, add, by_x))
        tensors = [upstream, v, rate, z, w, gamma, beta, tau, add, by_u, by_other, by_x, sums.of(*place)]
        tensors += [head.weight, head.means, sums.of_head, sums.unit] if head else [v] * 4
        launch(_respond_backward, (len(v),), *tensors, **how)
        return by_u, by_other

    def _how(self, x: Tensor, backward: bool, head: Head | None) -> dict:
        """What either kernel is compiled for, but for what it is to do."""
        sides, classes = (self.side, self.side), len(head.bias) if head else 0
        sizes = self.image, self.out, *self.channels, sides, self.stride, self.padding, precision(x)
        of_head = {"HEAD": classes, "ROWS": triton.next_power_of_2(max(classes, 1))}
        return compiled_for(*sizes) | self._blocks(backward) | of_head

    def _blocks(self, backward: bool) -> dict:
        """How much goes at once, and how a program works: as was fastest on an H100, within its shared memory."""
        inside, outside = self.channels
        pixels = self._pixels(self.out, 1024 if outside == CHANNELS[0] else 256)
        if backward:
            of_image = self._pixels(self.image, NUMBERS // min(outside, 32) if inside <= CHANNELS[0] else 256)
            blocks = {"BLOCK_P": pixels, "BLOCK_Q": of_image, "BLOCK_N": _wide(outside, of_image)}
            blocks |= {"num_warps": 8 if inside <= CHANNELS[0] else 4}
        elif inside < CHANNELS[0]:
            channels = max(16, triton.next_power_of_2(self.side**2 * inside))
            return {"BLOCK_P": pixels, "BLOCK_C": channels, "num_warps": 8, "num_stages": 1}
        else:
            pixels = min(pixels, NUMBERS // min(inside, 32))
            blocks = {"BLOCK_P": pixels, "BLOCK_C": _wide(inside, pixels), "num_warps": 4}
        return blocks | {"num_stages": 3}

    @staticmethod
    def _pixels(image: tuple[int, int], most: int) -> int:
        return min(most, triton.next_power_of_2(math.prod(image)))


def _wide(channels: int, pixels: int) -> int:
    """Channels of so many pixels at once."""
    return min(channels, 64 if pixels <= 64 else 32)


def _empty(x: Tensor, kind: torch.dtype, *shape: int) -> Tensor:
    return torch.empty((len(x), *shape), dtype=kind, device=x.device, memory_format=torch.channels_last)


Blocks = tuple[tuple[Layer, ...], ...]  # one layer; or two, and what is added to the second: x, or a third's of x


class _AtOnce(torch.autograd.Function):
    """Blocks one after another, and the logits of the last one's mean."""

    @staticmethod
    def forward(ctx, x: Tensor, blocks: Blocks, keep: bool, *parameters: Tensor | None) -> Tensor:
        given, tensors = _grouped(parameters[2:], 4), []
        head = Head(*parameters[:2], torch.empty((len(x), parameters[0].shape[1]), device=x.device))
        for number, block in enumerate(blocks):
            mine, ends = [next(given) for _ in block], head if number == len(blocks) - 1 else None
            saved = [block[0].respond(x, mine[0], None, ends if len(block) == 1 else None)]
            if len(block) > 1:
                others = zip(block[2:], mine[2:], strict=True)
                shortcut = [layer.respond(x, one) for layer, one in others]
                saved.append(block[1].respond(saved[0][0], mine[1], shortcut[0][0] if shortcut else x, ends))
                saved += shortcut
            if keep:
                tensors += [x, *(one for kept in saved for one in kept[:3])]
            x, *_, logits = saved[min(1, len(block) - 1)]
        ctx.blocks = blocks
        ctx.save_for_backward(*tensors, *parameters, head.means)
        return logits

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream: Tensor):
        blocks, saved = ctx.blocks, iter(ctx.saved_tensors)
        kept = [(next(saved), [(next(saved), next(saved), next(saved)) for _ in block]) for block in blocks]
        weight, bias, *parameters, means = saved
        parameters = _grouped(parameters, 4)
        parameters = [[next(parameters) for _ in block] for block in blocks]
        with Sums(blocks, (len(upstream), len(bias)), upstream.device) as sums:
            _backwards(blocks, parameters, kept, sums, upstream.contiguous(), Head(weight, bias, means))
        return None, None, None, *sums.gradients()


def _backwards(blocks: Blocks, parameters: list, kept: list, sums: Sums, back: Tensor, head: Head | None) -> None:
    """Through the blocks from the last to the first: what each layer adds to the sums. (Nobody asks for the gradient by
    the images, ``at_once`` sees to that.)"""
    for number, (block, mine, (x, values)) in reversed([*enumerate(zip(blocks, parameters, kept, strict=True))]):
        first, later, add = number == 0, [], None
        by_x = None if first else torch.empty_like(x)
        if len(block) > 1:
            inner, by_inner = values[0][0], torch.empty_like(values[0][0])
            by_u, add = block[1].backward(back, values[1], mine[1], sums, (number, 1), True, by_inner, None, head)
            later.append((1, inner, by_u))
            back, head = by_inner, None
        if len(block) > 2:
            by_sum, add = add, None if first else torch.empty_like(x)
            by_u, _ = block[2].backward(by_sum, values[2], mine[2], sums, (number, 2), False, add)
            later.append((2, x, by_u))
        add = None if first else add
        by_u, _ = block[0].backward(back, values[0], mine[0], sums, (number, 0), False, by_x, add, head)
        later.append((0, x, by_u))
        sums.by_weights(number, later)
        back, head = by_x, None


def _grouped(values: Iterable, size: int) -> Iterator[tuple]:
    return zip(*[iter(values)] * size, strict=True)


class Sums:
    """The gradients by all parameters of blocks: of each image or part of the pixels, one after another, and summed.

    What the gradients by the weights need is there when a block is done, and what they give is needed at the end: they
    are made on a stream beside the others, which leave half of the device idle. Until they are summed all are in a
    ``unit``, which the last layer finds.
    """

    def __init__(self, blocks: Blocks, numbers: tuple[int, int], device: torch.device):
        """Of so many images, and logits of each."""
        self.blocks, self.classes, self._held = blocks, numbers[1], []
        (*self._places, self._of_head), self._table, *sizes = _places(blocks, numbers, device)
        self._parts, self._out, self.unit = (torch.empty(size, device=device) for size in (*sizes, 1))
        self._beside = _beside(device)

    def __enter__(self) -> Sums:
        return self

    def __exit__(self, *_) -> None:
        """What was begun beside is waited for, whatever was raised: its memory is given away then."""
        if self._beside is not None:
            torch.cuda.current_stream(self._out.device).wait_stream(self._beside)
        self._held.clear()

    def of(self, number: int, place: int) -> Tensor:
        """Where a layer puts the gradients by γ, β and τ of each image."""
        start, _, _ = self._places[number][place]
        return self._parts[start:]

    @property
    def of_head(self) -> Tensor:
        """Where the gradients by the logits' weights and biases of each image are put."""
        return self._parts[self._of_head[0] :]

    def by_weights(self, number: int, later: list[tuple[int, Tensor, Tensor]]) -> None:
        """Of a block: (the layer's place, its x, the gradient by u)."""
        self._held += later  # their memory is not to be given away meanwhile
        if self._beside is not None:
            self._beside.wait_stream(torch.cuda.current_stream(self._out.device))
        with nullcontext() if self._beside is None else torch.cuda.stream(self._beside):
            for place, x, by_u in later:
                layer, (_, start, _) = self.blocks[number][place], self._places[number][place]
                put_by_weights(x, by_u, torch.Size(layer.shape), layer.stride, layer.padding, self._parts[start:])

    def gradients(self) -> list[Tensor | None]:
        """Those by the logits' weights and biases, and by w, γ, β and τ of layer after layer: parts of one vector, in
        the module's order, where the logits' are the last."""
        launch(_added, (len(self._table),), self._parts, self._table, self._out, self.unit, ROWS=ROWS, BLOCK=BLOCK)
        of_head = self._out[self._of_head[1] :]
        found: list[Tensor | None] = [of_head[: -self.classes].view(self.classes, -1), of_head[-self.classes :]]
        for block, places in zip(self.blocks, self._places, strict=True):
            for order, (layer, (_, _, start)) in enumerate(zip(block, places, strict=True)):
                N, C, R, S = layer.shape
                middle = start + N * C * R * S
                found.append(self._out[start:middle].view(N, R, S, C).permute(0, 3, 1, 2))
                others = self._out[middle : middle + (2 if order else 3) * N].view(-1, N)
                found += [*others, None][:3]  # the second and the third have no τ
        return found


@cache
def _places(blocks: Blocks, numbers: tuple[int, int], device: torch.device) -> tuple[list, Tensor, int, int]:
    """Of each layer: where its images' sums begin, its parts by weights, its gradients; at last where the logits' sums
    of images begin, and gradients; what ``_added`` is told; how many numbers all parts and all gradients have."""
    images, classes = numbers
    places, table, length, wanted = [], [], 0, 0

    def put(each: int, number: int, without: int = 0) -> tuple[int, int]:
        """So many sums, ``without`` the last ones, of so many parts: where the parts begin, and the sums."""
        nonlocal length, wanted
        begin = length, wanted
        for first in range(0, each - without, BLOCK):
            table.append((length + first, each, number, wanted + first, min(BLOCK, each - without - first)))
        length, wanted = length + each * number, wanted + each - without
        return begin

    for block in blocks:
        places.append([])
        for order, layer in enumerate(block):
            N, C, R, S = layer.shape
            _, parts = in_parts((images, N, *layer.out), layer.shape)
            by_weights, start = put(N * C * R * S, parts)
            places[-1].append((put(3 * N, images, N * (order > 0))[0], by_weights, start))
    places.append(put(classes * (blocks[-1][0].channels[1] + 1), images))
    return places, torch.tensor(table, dtype=torch.int32).to(device), length, wanted


def _beside(device: torch.device) -> torch.cuda.Stream | None:
    """A stream for what may be done beside the current one's work."""
    return None if device.type != "cuda" else _side(device, torch.cuda.current_stream(device).cuda_stream)


@cache
def _side(device: torch.device, stream: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


# -- the modules


def at_once(x: Tensor, linear: nn.Module, *blocks: Sequence[tuple[nn.Module, ...]]) -> Tensor | None:
    """Logits ``linear`` of the mean over pixels of what blocks make of x, one after another: a layer, that is a
    convolution and its normalisation, or a residual block of two layers, the second without a threshold, with a third
    as its shortcut or none.

    None where the kernels cannot do it: where layers are not compiled, or of no kind that is known here, or somebody
    looks at what one of them gives. Images that none can take ``takes`` tells, without a look at the layers.
    """
    pairs = [pair for block in blocks for pair in block]
    if not all(len(pair) == 2 and _is_compiled(*pair) for pair in pairs) or not pairs[0][0].takes(x):
        return None
    plan, given = [], (tuple(x.shape[2:]), x.shape[1])
    for block in blocks:
        layers, after = [], given
        for place, (convolve, normalise) in enumerate(block):
            layer = _layer(convolve, normalise, len(x), *(given if place == 2 else after))
            if layer is None or (normalise.tau is None) != (place > 0):
                return None
            after = layer.out, layer.channels[1]
            layers.append(layer)
        ends = {(layer.out, layer.channels[1]) for layer in layers[1:]} | ({given} if len(layers) == 2 else set())
        if len(ends) > 1:
            return None
        plan.append(tuple(layers))
        given = after if len(layers) == 1 else ends.pop()
    if not _is_head(linear, given[1]):
        return None
    parameters = [(convolve.weight, one.gamma, one.beta, one.tau) for convolve, one in pairs]
    parameters = [linear.weight, linear.bias, *(one for group in parameters for one in group)]
    return _AtOnce.apply(x, tuple(plan), torch.is_grad_enabled(), *parameters)


def takes(x: Tensor) -> bool:
    """Whether there are kernels for such images: some, of few channels, with TF32, memory enough for a program, and no
    gradient by x asked."""
    some = x.ndim == 4 and len(x) > 0 and x.shape[1] < CHANNELS[0]
    return some and precision(x) in KINDS and not x.requires_grad and _has_room(x.device)


def is_plain(module: nn.Module, *kinds: type[nn.Module]) -> bool:
    """Whether it is of just one of the kinds, has no forward of its own, and nobody looks at what it gives."""
    hooks = [module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks]
    hooks += [getattr(nn.modules.module, f"_global_{name}_hooks", ()) for name in ("forward", "backward")]
    hooks += [getattr(nn.modules.module, f"_global_{name}_pre_hooks", ()) for name in ("forward", "backward")]
    return type(module) in kinds and "forward" not in vars(module) and not any(hooks)


def _is_compiled(convolve: nn.Module, normalise: nn.Module) -> bool:
    known = is_plain(convolve, Convolution, SameConv2d) and is_plain(normalise, FilterResponseNorm)
    return known and convolve.compiled and normalise.compiled


def _is_head(linear: nn.Module, channels: int) -> bool:
    """Whether a program can make the logits of so many channels' means."""
    if not is_plain(linear, nn.Linear) or linear.bias is None or linear.weight.shape[1] != channels:
        return False
    both = linear.weight, linear.bias
    return len(linear.bias) <= CLASSES and all(one.dtype == torch.float32 and one.is_contiguous() for one in both)


def _has_room(device: torch.device) -> bool:
    """Whether the device has the shared memory that the kernels are cut for: not those of most graphics cards."""
    return device.type != "cuda" or torch.cuda.get_device_properties(device).shared_memory_per_block_optin >= SHARED


def _layer(convolve: Convolution, normalise: FilterResponseNorm, number: int, image, inside: int) -> Layer | None:
    """The two of so many such images, where the kernels can do it."""
    w, gamma, beta, tau = convolve.weight, normalise.gamma, normalise.beta, normalise.tau
    parameters = [gamma, beta] if tau is None else [gamma, beta, tau]
    if not convolve.is_usual or convolve.bias is not None or inside != convolve.in_channels:
        return None
    (above, height), (left, width) = map(convolve.sees, image)
    few = inside < CHANNELS[0] and inside * w[0, 0].numel() <= 32
    fits = len(w) in CHANNELS and (inside in CHANNELS or few) and above == left and math.prod(image) <= PIXELS
    fits = fits and height * width > 1  # of a single pixel's mean square nothing is left but the sign
    same = all(one.dtype == torch.float32 for one in (w, *parameters))
    whole = all(one.shape == (len(w),) and one.is_contiguous() for one in parameters)
    last = w.is_contiguous(memory_format=torch.channels_last)
    most = number * max(math.prod(image) * inside, height * width * len(w))
    if not (fits and same and whole and last and most < 1 << 31):
        return None
    return Layer(image, (height, width), (inside, len(w)), w.shape[2], convolve.stride[0], above)
