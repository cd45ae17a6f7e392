"""Convolutions of small images on a CUDA device, by kernels of our own.

The networks of the papers have 16 to 64 channels, for which cuDNN's float32 kernels are far from what the memory
allows: its gradients by the weights take half of a ResNet-20's step, most of it in one kernel for 32 channels, and its
float32 kernels without TF32 are several times slower for channels that lie last. Here each of the three products is a
matrix product whose one factor is gathered as it is read ("implicit GEMM"), in Triton. Sums have a fixed order, so the
same numbers come out each time. Channels lie last: images ``[B, C, H, W]`` of strides (HWC, 1, WC, C).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sgmcmc.launch import launch, tl, triton

PROGRAMS = 528  # of a gradient by the weights: four for each processor of an H100
WARPS = 2  # of each, in TF32


if triton is not None:

    @triton.jit
    def taken(x, KIND: tl.constexpr, PRECISION: tl.constexpr):
        """x as products of this kind of numbers take it: the nearest of float16, no number infinite; of float32 the
        nearest of TF32, whose other bits the matrix units would drop, so that all products were smaller. (What is not a
        number stays so: a GPU's has all bits set, which would go on to the sign.)"""
        if KIND == tl.float16:
            if x.dtype != tl.float16:
                x = tl.clamp(x, -65504.0, 65504.0, propagate_nan=tl.PropagateNan.ALL).to(tl.float16)
        elif PRECISION == "tf32":
            nearest = ((x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
            x = tl.where(x == x, nearest, x)
        return x

    @triton.jit
    def seen(
        p, tap, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, S: tl.constexpr,
        STRIDE: tl.constexpr, PAD: tl.constexpr, UP: tl.constexpr,
    ):  # fmt: skip
        """Which pixel of the images a tap sees from pixel p of what comes out, and whether it is one; between the
        images' pixels lie UP − 1 that are 0."""
        y, z = (p // OW) % OH * STRIDE - PAD + tap // S, p % OW * STRIDE - PAD + tap % S
        there = (y >= 0) & (z >= 0)
        if UP > 1:
            there = there & (y % UP == 0) & (z % UP == 0)
            y, z = y // UP, z // UP
        return (p // (OW * OH) * H + y) * W + z, there & (y < H) & (z < W)

    @triton.jit
    def by_taps(
        x, w, p, inside, n, H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr, C: tl.constexpr,
        TAPS: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr, UP: tl.constexpr,
        BY_C: tl.constexpr, BY_N: tl.constexpr, BY_TAP: tl.constexpr, FIRST: tl.constexpr,
        BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr, PRECISION: tl.constexpr,
    ):  # fmt: skip
        """Σ over taps and c of x[the tap's pixel of p, c] · w[FIRST + c BY_C + n BY_N + tap BY_TAP], [p, n]."""
        c = tl.arange(0, BLOCK_C)
        total = tl.zeros((BLOCK_P, BLOCK_N), tl.float32)
        blocks: tl.constexpr = C // BLOCK_C
        for step in range(TAPS * blocks):
            tap, first = step // blocks, step % blocks * BLOCK_C
            pixel, there = seen(p, tap, H, W, OH, OW, S, STRIDE, PAD, UP)
            mask, near = (inside & there)[:, None], w + FIRST + tap * BY_TAP + (first + c)[:, None] * BY_C
            values = tl.load(x + (pixel * C + first)[:, None] + c[None, :], mask=mask, other=0.0)
            weights = tl.load(near + n[None, :] * BY_N)
            values, weights = taken(values, values.dtype, PRECISION), taken(weights, values.dtype, PRECISION)
            total = tl.dot(values, weights, total, input_precision=PRECISION)
        return total

    @triton.jit
    def _product(
        x, w, out, pixels,
        H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
        C: tl.constexpr, N: tl.constexpr, R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
        BY_C: tl.constexpr, BY_N: tl.constexpr, BY_TAP: tl.constexpr, FIRST: tl.constexpr,
        BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr, PRECISION: tl.constexpr,
    ):  # fmt: skip
        """out[p, n] = Σ over taps and c of x[the tap's pixel of p, c] · w[FIRST + c BY_C + n BY_N + tap BY_TAP]."""
        p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
        n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
        inside = p < pixels
        total = by_taps(
            x, w, p, inside, n, H, W, OH, OW, C, R * S, S, STRIDE, PAD, 1,
            BY_C, BY_N, BY_TAP, FIRST, BLOCK_P, BLOCK_N, BLOCK_C, PRECISION,
        )  # fmt: skip
        tl.store(out + p[:, None] * N + n[None, :], total, mask=inside[:, None])

    @triton.jit
    def _by_weights(
        x, g, out, pixels,
        H: tl.constexpr, W: tl.constexpr, OH: tl.constexpr, OW: tl.constexpr,
        C: tl.constexpr, N: tl.constexpr, R: tl.constexpr, S: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
        EACH: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr,
        PRECISION: tl.constexpr,
    ):  # fmt: skip
        """out[part, n, k] = Σ over the part's pixels p of g[p, n] · x[the pixel of p and k's tap, k's channel]."""
        part = tl.program_id(0)
        k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
        n = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N)
        tap, c = k // C, k % C
        total = tl.zeros((BLOCK_K, BLOCK_N), tl.float32)
        for start in range(0, EACH, BLOCK_P):
            p = part * EACH + start + tl.arange(0, BLOCK_P)
            inside = p < pixels
            pixel, there = seen(p[None, :], tap[:, None], H, W, OH, OW, S, STRIDE, PAD, 1)
            there = there & inside[None, :] & (k < R * S * C)[:, None]
            values = tl.load(x + pixel * C + c[:, None], mask=there, other=0.0)
            slopes = tl.load(g + p[:, None] * N + n[None, :], mask=inside[:, None], other=0.0)
            values, slopes = taken(values, slopes.dtype, PRECISION), taken(slopes, slopes.dtype, PRECISION)
            total = tl.dot(values, slopes, total, input_precision=PRECISION)
        K: tl.constexpr = R * S * C
        tl.store(out + (part * N + n[None, :]) * K + k[:, None], total, mask=(k < K)[:, None])


def product(x: Tensor, w: Tensor, stride: int, padding: int, backward: bool = False) -> Tensor:
    """The convolution of x ``[B, C, H, W]`` with w ``[N, C, R, S]``; ``backward``, of stride 1: the gradient with
    respect to the input of one, of x ``[B, N, H, W]``."""
    (B, _, H, W), (N, C, R, S), kind = x.shape, w.shape, precision(x)
    by = {"BY_C": 1, "BY_N": R * S * C, "BY_TAP": C, "FIRST": 0}
    if backward:  # the taps from the last to the first, and what went in comes out
        by = {"BY_C": R * S * C, "BY_N": 1, "BY_TAP": -C, "FIRST": (R * S - 1) * C}
        C, N, padding = N, C, R - 1 - padding
    elif kind == "ieee":  # without matrix units it is faster where the sums' weights lie side by side
        w, by = w.permute(2, 3, 1, 0).contiguous(), {"BY_C": N, "BY_N": 1, "BY_TAP": C * N, "FIRST": 0}
    OH, OW = (H + 2 * padding - R) // stride + 1, (W + 2 * padding - S) // stride + 1
    out = torch.empty((B, N, OH, OW), dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
    wide = N == 16 or backward and kind == "tf32"
    blocks = {"BLOCK_P": 128 if wide else 64, "BLOCK_N": min(N, 32 if wide or N % 64 else 64), "BLOCK_C": min(C, 32)}
    how = {"num_warps": 8 if wide and N > 16 else 4, "num_stages": 2 if N == 16 else 3}
    grid = triton.cdiv(B * OH * OW, blocks["BLOCK_P"]), N // blocks["BLOCK_N"]
    sizes = compiled_for((H, W), (OH, OW), C, N, (R, S), stride, padding, kind)
    launch(_product, grid, x, w, out, B * OH * OW, **sizes, **by, **blocks, **how)
    return out


def by_weights(x: Tensor, slope: Tensor, shape: torch.Size, stride: int, padding: int) -> Tensor:
    """The gradient with respect to the weights, of that with respect to the output."""
    N, C, R, S = shape
    _, number = in_parts(slope.shape, shape)
    out = torch.empty((number, N, R, S, C), dtype=torch.float32, device=x.device)
    put_by_weights(x, slope, shape, stride, padding, out)
    return out.sum(0).permute(0, 3, 1, 2)


def in_parts(out: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, int]:
    """Pixels of an output that are a part of the gradient by weights of such a shape, and how many parts there are."""
    (B, _, OH, OW), (N, C, R, S) = out, shape
    tiles = triton.cdiv(R * S * C, _block(R * S * C)) * (N // min(N, 64))
    each = max(1, triton.cdiv(B * OH * OW, max(1, PROGRAMS // tiles) * 64)) * 64
    return each, triton.cdiv(B * OH * OW, each)


def _block(K: int) -> int:
    return min(64, max(16, triton.next_power_of_2(K)))


def put_by_weights(x: Tensor, slope: Tensor, shape: torch.Size, stride: int, padding: int, out: Tensor) -> None:
    """The parts of ``by_weights``' sum, numbers ``[parts, N, R, S, C]``, by products of the slope's kind of numbers."""
    (B, C, H, W), (N, _, R, S), (OH, OW) = x.shape, shape, slope.shape[2:]
    each, number = in_parts(slope.shape, shape)
    K, kind = R * S * C, precision(x)
    blocks = {"BLOCK_P": 64, "BLOCK_K": _block(K), "BLOCK_N": min(N, 64)}
    grid = number, triton.cdiv(K, blocks["BLOCK_K"]), N // blocks["BLOCK_N"]
    sizes = compiled_for((H, W), (OH, OW), C, N, (R, S), stride, padding, kind)
    how = {"num_warps": WARPS if kind == "tf32" else 4, "num_stages": 3}
    launch(_by_weights, grid, x, slope, out, B * OH * OW, **sizes, EACH=each, **blocks, **how)


def compiled_for(image: tuple, out: tuple, C: int, N: int, kernel: tuple, stride: int, padding: int, kind: str) -> dict:
    """What both kernels are compiled for."""
    (H, W), (OH, OW), (R, S) = image, out, kernel
    sizes = {"H": H, "W": W, "OH": OH, "OW": OW, "C": C, "N": N, "R": R, "S": S}
    return sizes | {"STRIDE": stride, "PAD": padding, "PRECISION": kind}


def precision(x: Tensor) -> str:
    """That of float32 products of convolutions on x's device, as the process has set it: older ones have no TF32."""
    has = not x.is_cuda or torch.cuda.get_device_capability(x.device) >= (8, 0)
    return "tf32" if has and torch.backends.cudnn.conv.fp32_precision == "tf32" else "ieee"


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, w: Tensor, stride: int, padding: int) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.stride, ctx.padding = stride, padding
        return product(x, w, stride, padding) if fits(w) else F.conv2d(x, w, None, stride, padding)

    @staticmethod
    @once_differentiable
    def backward(ctx, slope: Tensor):
        (x, w), stride, padding = ctx.saved_tensors, ctx.stride, ctx.padding
        slope, back = slope.contiguous(memory_format=torch.channels_last), None
        if ctx.needs_input_grad[0] and stride == 1 and fits(w):
            back = product(slope, w, 1, padding, backward=True)
        elif ctx.needs_input_grad[0]:  # with x itself: by its layout cuDNN takes that of the gradient
            how = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1
            back = torch.ops.aten.convolution_backward(slope, x, w, None, *how, [True, False, False])[0]
        weights = by_weights(x, slope, w.shape, stride, padding) if ctx.needs_input_grad[1] else None
        return back, weights, None, None


def fits(w: Tensor) -> bool:
    """Whether ``product`` can take these weights: both numbers of channels fill its blocks."""
    return all(channels == 16 or channels % 32 == 0 for channels in w.shape[:2])


class Convolution(nn.Conv2d):
    """``nn.Conv2d``, which may be ``compiled``: on a CUDA device float32 images then go through the kernels above."""

    compiled = False

    def forward(self, x: Tensor) -> Tensor:
        if not self.compiled or not self.takes(x):
            return super().forward(x)
        out = _Convolution.apply(x, self.weight, self.stride[0], self.padding[0])
        return out if self.bias is None else out + self.bias[:, None, None]

    @property
    def is_usual(self) -> bool:
        """Whether it has square steps, zeros around, no groups and no holes."""
        simple = self.groups == 1 and self.dilation == (1, 1) and self.padding_mode == "zeros"
        square = all(len(set(pair)) == 1 for pair in (self.stride, self.padding, self.kernel_size))
        return simple and square and not isinstance(self.padding, str)

    def sees(self, size: int) -> tuple[int, int]:
        """The zeros before so many pixels, and how many come out."""
        return self.padding[0], (size + 2 * self.padding[0] - self.kernel_size[0]) // self.stride[0] + 1

    def takes(self, x: Tensor) -> bool:
        """Whether the kernels can do it: square steps, no groups, channels last, not within autocast; offsets that are
        32-bit integers; and an input that fits the layer at all, which ``nn.Conv2d`` says where it does not."""
        outside, (padding, side) = self.out_channels, (self.padding[0], self.kernel_size[0])
        if not (on_device(x) and self.is_usual) or x.ndim != 4:
            return False
        height, width = (size + 2 * padding for size in x.shape[2:])
        return (
            all(one.is_contiguous(memory_format=torch.channels_last) for one in (x, self.weight))
            and x.dtype == self.weight.dtype == torch.float32
            and (outside in (16, 32) or outside % 64 == 0)
            and not torch.is_autocast_enabled(x.device.type)
            and x.shape[1] == self.in_channels
            and min(height, width) >= side
            and len(x) * height * width * max(self.in_channels, outside) < 1 << 31
        )


class SameConv2d(Convolution):
    """A convolution padded as Keras' ``same``: the output has ceil(size/stride) pixels.

    What does not split evenly goes to the right and the bottom, so with stride 2 on an even size a 3×3 kernel sees
    one row of zeros below and none above; torch's ``padding=1`` sees one above and none below.
    """

    def forward(self, x: Tensor) -> Tensor:
        pads = []
        for size, kernel, stride in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True):
            total = _zeros(size, kernel, stride)
            pads += [total // 2, total - total // 2]
        return super().forward(F.pad(x, pads) if any(pads) else x)

    def sees(self, size: int) -> tuple[int, int]:
        return _zeros(size, self.kernel_size[0], self.stride[0]) // 2, math.ceil(size / self.stride[0])


def _zeros(size: int, kernel: int, stride: int) -> int:
    """How many zeros Keras' ``same`` puts around so many pixels."""
    return max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)


def on_device(x: Tensor) -> bool:
    """Whether x is where the kernels run."""
    return x.is_cuda and triton is not None
