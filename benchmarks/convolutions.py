"""The convolutions of a ResNet-20 on a GPU, layer by layer: by cuDNN and by sgmcmc/convolution.py.

    python benchmarks/convolutions.py [--batch 125]

Microseconds of each of the three products, replayed as a CUDA graph, the least of the rounds, and how far they are
apart, relative. With TF32, as in gradients of minibatches, and without, as in U; with TF32 also each layer with its
normalisation as one kernel each way, by sgmcmc/residual.py.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
import torch.nn.functional as F
from gpu import clocked
from torch import Tensor

from sgmcmc import convolution
from sgmcmc.captured import cuda_graph
from sgmcmc.residual import Layer

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


def at_once(x: Tensor, w: Tensor, slope: Tensor, layer: Layer) -> Iterator[tuple[str, Callable]]:
    """(which way, a layer with its normalisation), the input's gradient and one that is added to it but for images."""
    scale, images = torch.ones(len(w), device=x.device), x.shape[1] == 3
    parameters, add = (w, scale, scale, scale), None if images else torch.zeros_like(x)
    saved, sums = layer.respond(x, parameters, None, not images), scale.new_empty(len(x) * 3 * len(w))
    yield "forward", lambda: layer.respond(x, parameters, None, not images)[0]
    by_x = None if images else torch.empty_like(x)
    yield "backward", lambda: layer.backward(slope, saved, parameters, sums, False, by_x, add)[0]


def microseconds(call: Callable[[], Tensor], device: torch.device) -> float:
    graph, _ = cuda_graph(lambda _: [call() for _ in range(CALLS)], [torch.empty(1, device=device)])
    return 1e6 * clocked(graph, device) / CALLS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=125)
    batch = parser.parse_args().batch
    if not torch.cuda.is_available() or convolution.triton is None:
        print("needs a CUDA device, and Triton", file=sys.stderr)
        return 2
    device = torch.device("cuda")
    torch.backends.cudnn.deterministic = True
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    for precision in ("tf32", "ieee"):
        torch.backends.cudnn.conv.fp32_precision = precision
        total = Counter()
        for (inside, outside, size, stride, side), times in LAYERS.items():
            shapes = (batch, inside, size, size), (outside, inside, side, side), (batch, outside, *[size // stride] * 2)
            x, w, slope = (torch.randn(shape, device=device).to(memory_format=torch.channels_last) for shape in shapes)
            for what, theirs, ours in products(x, w, slope, stride):
                each = microseconds(theirs, device)
                said, own = f"{each:.1f} µs", each
                if ours is not None:
                    own, apart = microseconds(ours, device), float((ours() - theirs()).norm() / theirs().norm())
                    said += f", here {own:.1f} µs, {apart:.0e} apart"
                print(f"{precision}, {inside} to {outside}, {size}², stride {stride}, {side}×{side}, {what}: {said}")
                total["cuDNN"] += times * each
                total["here"] += times * own
            if precision == "tf32":
                layer = Layer((size, size), tuple(slope.shape[2:]), (inside, outside), side, stride, side // 2)
                for way, call in at_once(x, w, slope, layer):
                    total[f"with normalisation, {way}"] += times * (each := microseconds(call, device))
                    print(f"tf32, {inside} to {outside}, {size}², with its normalisation, {way}: {each:.1f} µs")
        print(precision, *(f"{name}: {number:.0f} µs a gradient" for name, number in total.items()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
