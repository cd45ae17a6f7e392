"""The convolutions of a ResNet-20 on a GPU, layer by layer: by cuDNN and by sgmcmc/convolution.py.

    python benchmarks/convolutions.py [--batch 125]
    python benchmarks/convolutions.py --blocks     # what sgmcmc/residual.py's Layer._blocks could say, fastest first
    python benchmarks/convolutions.py --steps      # whole steps by how much of the device each of its kernels takes

Microseconds of each of the three products, replayed as a CUDA graph, the least of the rounds, and how far they are
apart, relative. With TF32, as in gradients of minibatches, and without, as in U; with TF32 also each layer with its
normalisation as one kernel each way, by sgmcmc/residual.py. With --blocks these alone, each cut in all ways that could
do: how many pixels and channels at once, and by how many warps; all cores compile them first. Then the gradients by
the weights by how many programs make them, with the sum of their parts. A layer's kernel backwards and those by the
weights go side by side, as far as registers reach, so that the fastest by itself need not be best: --steps times a step
by how many pixels the former holds at once, and by how many programs and warps the latter are made.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
import torch.nn.functional as F
from gpu import BATCHES, Bench, clocked
from torch import Tensor

from sgmcmc import convolution, residual
from sgmcmc.captured import cuda_graph
from sgmcmc.residual import STORED, Layer, Sums

# (channels in and out, pixels a side, stride, kernel's side), and how often a ResNet-20 has it
LAYERS = {
    (3, 16, 32, 1, 3): 1,
    (16, 16, 32, 1, 3): 6,
    (16, 32, 32, 2, 3): 1,
    (16, 32, 32, 2, 1): 1,
    (32, 32, 16, 1, 3): 5,
    (32, 64, 16, 2, 3): 1,
    (32, 64, 16, 2, 1): 1,
    (64, 64, 8, 1, 3): 5,
}
CALLS = 20  # in a graph
WAYS = ("forward", "backward")


def products(x: Tensor, w: Tensor, slope: Tensor, stride: int) -> Iterator[tuple[str, Callable, Callable | None]]:
    """(what, by cuDNN, by this project where it has it)."""
    padding = w.shape[-1] // 2

    def backward(*wanted: bool) -> Tensor:
        sizes = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1
        found = torch.ops.aten.convolution_backward(slope, x, w, None, *sizes, [*wanted, False])
        return next(one for one in found if one is not None)

    fits = convolution.fits(w)
    yield (
        "forward",
        lambda: F.conv2d(x, w, None, stride, padding),
        (lambda: convolution.product(x, w, stride, padding)) if fits else None,
    )
    yield (
        "by the input",
        lambda: backward(True, False),
        (lambda: convolution.product(slope, w, 1, padding, backward=True)) if fits and stride == 1 else None,
    )
    yield (
        "by the weights",
        lambda: backward(False, True),
        lambda: convolution.by_weights(x, slope, w.shape, stride, padding),
    )


def at_once(x: Tensor, w: Tensor, slope: Tensor, layer: Layer) -> Iterator[tuple[bool, Callable]]:
    """(whether backward, a layer with its normalisation), the input's gradient and one that is added to it but for
    images; of numbers as they are kept, which images are not."""
    scale, images, kind = torch.ones(len(w), device=x.device), x.shape[1] == 3, STORED[convolution.precision(x)]
    x, slope, parameters = x if images else x.to(kind), slope.to(kind), (w, scale, scale, scale)
    by_x, add = (None, None) if images else (torch.empty_like(x), torch.zeros_like(x))
    *saved, _ = layer.respond(x, parameters)
    sums = Sums(((layer,),), (len(x), 1), x.device)
    yield False, lambda: layer.respond(x, parameters)[0]

    def backward() -> Tensor:
        by_u, _ = layer.backward(slope, saved, parameters, sums, (0, 0), False, by_x, add)
        return by_u if images else by_x

    yield True, backward


def microseconds(call: Callable[[], Tensor], device: torch.device) -> float:
    graph, _ = cuda_graph(lambda _: [call() for _ in range(CALLS)], [torch.empty(1, device=device)])
    return 1e6 * clocked(graph, device) / CALLS


def cuts(layer: Layer, backward: bool) -> Iterator[dict]:
    """What ``Layer._blocks`` could say: as it does, and all others that fit."""
    now = layer._blocks(backward)
    yield now
    inside, outside = layer.channels
    if inside < 16:  # images, whose taps and channels are one block, and whose gradient nobody wants
        for pixels, warps, stages in product((256, 512, 1024), (4, 8, 16), (1, 3)):
            yield now | {"BLOCK_P": pixels, "num_warps": warps, "num_stages": stages}
        return
    image, channels = (layer.image, outside) if backward else (layer.out, inside)
    places, depth = ("BLOCK_Q", "BLOCK_N") if backward else ("BLOCK_P", "BLOCK_C")
    whole = image[0] * image[1]
    most = [number for number in (64, 128, 256, 512, 1024) if number <= max(64, whole)]
    for pixels, width, warps in product(most, {min(channels, 32), channels}, (4, 8, 16)):
        if pixels >= 8 * warps:
            yield now | {places: pixels, depth: width, "num_warps": warps}


def tried(number: int, way: bool, batch: int, timed: bool, device: str = "cuda") -> list[tuple[float, dict]]:
    """Microseconds of each cut of a layer, ``way`` is whether backward, whose numbers are those of the first; or only
    compiled."""
    torch.backends.cudnn.conv.fp32_precision = "tf32"
    (x, w, slope, layer), found, first, real = made(number, batch, device), [], None, Layer._blocks
    for cut in cuts(layer, way):

        def blocks(self, backward, cut=cut):
            return cut if backward == way else real(self, backward)

        with patch.object(Layer, "_blocks", blocks):
            try:
                call = dict(at_once(x, w, slope, layer))[way]
                given = call().clone()
                first = given if first is None else first
                apart = float((given - first).norm() / first.norm())
                if not apart < 1e-3:  # what lies between two numbers of TF32 may go to either
                    raise RuntimeError(f"other numbers, {apart:.0e} apart")
                found.append((microseconds(call, x.device) if timed else 0.0, cut))
            except Exception as error:  # of shared memory that no processor has
                print(f"{cut}: {str(error).splitlines()[0]}", file=sys.stderr)
    return found


def by_programs(number: int, batch: int) -> list[tuple[float, str]]:
    """Microseconds of a layer's gradient by the weights with the sum over its parts, first as the library has it."""
    torch.backends.cudnn.conv.fp32_precision = "tf32"
    (x, w, slope, layer), found = made(number, batch, "cuda"), []
    x, slope = x if x.shape[1] == 3 else x.to(STORED["tf32"]), slope.to(STORED["tf32"])
    now = convolution.PROGRAMS, convolution.WARPS
    for programs, warps in dict.fromkeys((now, *product((66, 132, 264, 528, 1056), (2, 4)))):
        with patch.object(convolution, "PROGRAMS", programs), patch.object(convolution, "WARPS", warps):
            call = partial(convolution.by_weights, x, slope, w.shape, layer.stride, layer.padding)
            found.append((microseconds(call, x.device), f"{programs} of {warps} warps"))
    return found


def steps(bench: Bench) -> None:
    """Milliseconds of a step of a ResNet-20, first as the library has it."""
    real = Layer._blocks
    ways = [(1024, convolution.PROGRAMS, convolution.WARPS), *product((1024, 512, 256), (264, 528), (2, 4))]
    for most, programs, warps in dict.fromkeys(ways):

        def blocks(self, backward, most=most):
            found = real(self, backward)
            return found | {"BLOCK_P": min(found["BLOCK_P"], most)} if backward else found

        with (
            patch.object(Layer, "_blocks", blocks),
            patch.object(convolution, "PROGRAMS", programs),
            patch.object(convolution, "WARPS", warps),
        ):
            residual._places.cache_clear()  # which has how many parts there are
            said = bench.step("frn", bench.replays, bench.replays)
        print(f"{most} pixels backwards, by the weights {programs} of {warps} warps: {said}", flush=True)
    residual._places.cache_clear()


def named(number: int) -> str:
    """A layer in words."""
    inside, outside, size, stride, side = list(LAYERS)[number]
    return f"{inside} to {outside}, {size}², stride {stride}, {side}×{side}"


def made(number: int, batch: int, device: str) -> tuple[Tensor, Tensor, Tensor, Layer]:
    """x, the weights, a slope, and the layer."""
    inside, outside, size, stride, side = list(LAYERS)[number]
    shapes = (batch, inside, size, size), (outside, inside, side, side), (batch, outside, *[size // stride] * 2)
    x, w, slope = (torch.randn(shape, device=device).to(memory_format=torch.channels_last) for shape in shapes)
    return x, w, slope, Layer((size, size), tuple(slope.shape[2:]), (inside, outside), side, stride, side // 2)


def all_cuts(batch: int) -> None:
    """Of each layer and way the fastest cuts, beside what the library has, which is tried first."""
    each = list(product(range(len(LAYERS)), (False, True)))
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(len(each), os.cpu_count() or 1), mp_context=spawn) as pool:
        list(pool.map(partial(tried, batch=batch, timed=False), *zip(*each, strict=True)))
    for number, way in each:
        found = tried(number, way, batch, True)
        print(f"{named(number)}, {WAYS[way]}, {[*LAYERS.values()][number]} times: {found[0][0]:.1f} µs")
        for seconds, cut in sorted(found, key=lambda one: one[0])[:4]:
            print(f"    {seconds:.1f} µs", *(f"{name}={value}" for name, value in cut.items()), flush=True)
    for number, times in enumerate(LAYERS.values()):
        found = "; ".join(f"{seconds:.1f} µs by {programs}" for seconds, programs in by_programs(number, batch))
        print(f"{named(number)}, by the weights, {times} times: {found}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=125)
    parser.add_argument("--blocks", action="store_true", help="time other cuts of the layers with their normalisation")
    parser.add_argument("--steps", action="store_true", help="time whole steps by what their kernels take")
    options = parser.parse_args()
    batch = options.batch
    if options.steps and batch != BATCHES["frn"]:
        parser.error(f"--batch {batch}: --steps takes the chains' own, {BATCHES['frn']}")
    if not torch.cuda.is_available() or convolution.triton is None:
        print("needs a CUDA device, and Triton", file=sys.stderr)
        return 2
    device = torch.device("cuda")
    torch.backends.cudnn.deterministic = True
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    if options.blocks:
        all_cuts(batch)
    if options.steps:
        steps(Bench(device, 2000, 40, 16, 1.0))
    if options.blocks or options.steps:
        return 0
    for precision in ("tf32", "ieee"):
        torch.backends.cudnn.conv.fp32_precision = precision
        total = Counter()
        for number, times in enumerate(LAYERS.values()):
            x, w, slope, layer = made(number, batch, "cuda")
            for what, theirs, ours in products(x, w, slope, layer.stride):
                each = microseconds(theirs, device)
                said, own = f"{each:.1f} µs", each
                if ours is not None:
                    own, apart = microseconds(ours, device), float((ours() - theirs()).norm() / theirs().norm())
                    said += f", here {own:.1f} µs, {apart:.0e} apart"
                print(f"{precision}, {named(number)}, {what}: {said}")
                total["cuDNN"] += times * each
                total["here"] += times * own
            if precision == "tf32":
                for way, call in at_once(x, w, slope, layer):
                    total[f"with normalisation, {WAYS[way]}"] += times * (each := microseconds(call, device))
                    print(f"tf32, {named(number)}, with its normalisation, {WAYS[way]}: {each:.1f} µs")
        print(precision, *(f"{name}: {number:.0f} µs a gradient" for name, number in total.items()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
