"""How right a GPU's numbers are: graphs, devices, precisions, and what deterministic kernels cost.

    python benchmarks/gpu_accuracy.py [--device cuda] [--images 2000] [--steps 40] [--write accuracy.csv]

A ResNet-20 with filter response normalisation on images of noise, at He's start; GGMC's trajectories with minibatches
of 125 between exact ends, the same random numbers in every row. ``error of ΔU`` is that of U(θ_L) − U(θ_0), which is
what log MH gets of it; ``log MH`` is the program's, its error that against float64 along the same path: the momenta's
ΔK summed in float64, U of a float64 network. U is float32 throughout, so products in TF32 or bf16 make a worse
proposal, and not a wrong decision. Run once for each kind of GPU by `make gpu`; with --device cpu and few images it
shows that it works, and what needs a GPU says so.
"""

from __future__ import annotations

import argparse
import copy
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from gpu import clocked, images, named, tell
from networks import Gradients, stepping
from torch import Tensor

from sgmcmc import convolution, flows
from sgmcmc.captured import Captured
from sgmcmc.certificate_networks import Kinetic
from sgmcmc.data import Dataset
from sgmcmc.kernel import Friction, Kernel, make_kernel
from sgmcmc.models import ResNet
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.precision import products_in
from sgmcmc.random import Random
from sgmcmc.trajectory import Record, State, run_trajectory, start, walk

RATE, FRICTION = 1e-4, 14.2854713  # ℓ, with the images' number as N; γ of the GGMC paper
PRECISIONS = ("float32", "TF32", "bf16")
CPU = torch.device("cpu")


@contextmanager
def products(precision: str, device: torch.device) -> Iterator[None]:
    """float32 products of convolutions and matrices in this precision."""
    # Without a cache: it would keep the weights of the first θ.
    bf16 = torch.autocast(device.type, torch.bfloat16, cache_enabled=False) if precision == "bf16" else nullcontext()
    with products_in("tf32" if precision == "TF32" else "ieee"), bf16:
        yield


class Proposing(NetworkPotential):
    """A network whose minibatch gradients are in a precision of their own."""

    precision = "float32"

    def gradient(self, theta: Tensor, batch: Tensor | None = None) -> Tensor:
        with products(self.precision, self.device):
            return super().gradient(theta, batch)


@dataclass
class Bench:
    """The network and its data, from which targets on any device are made."""

    data: Dataset
    model: ResNet
    steps: int
    batch: int

    def target(self, device: torch.device, dtype=torch.float32, precision: str = "float32") -> Proposing:
        target = Proposing(copy.deepcopy(self.model), self.data, device=device, dtype=dtype)
        target.precision = precision
        return target

    def smaller(self) -> Bench:
        """For float64 on the CPU, which is slow."""
        number = min(len(self.data), 500)
        data = replace(self.data, inputs=self.data.inputs[:number], targets=self.data.targets[:number])
        return replace(self, data=data, steps=min(self.steps, 8), batch=min(self.batch, number))

    def kernel(self, target: NetworkPotential) -> Kernel:
        more = {
            "steps": self.steps,
            "batch_size": self.batch,
            "ends": "exact",
            "friction": Friction("gamma", FRICTION),
        }
        return make_kernel("ggmc", target, math.sqrt(RATE / len(self.data)), **more, dtype=target.dtype)

    def trajectories(
        self, target: NetworkPotential, number: int = 1, walk: Callable = walk
    ) -> Iterator[tuple[State, State, Record]]:
        """(start, end, record) of so many trajectories, from one start on every device."""
        kernel, random = self.kernel(target), Random(0, target.device)
        theta = target.initial(1, Random(0)).to(target.device)
        state = start(kernel, target, theta, random, range(1))
        for index in range(number):
            end, record = run_trajectory(kernel, target, state, random, index, range(1), walk=walk)
            yield state, end, record
            state = end


def graphs(bench: Bench, device: torch.device, dtype: torch.dtype) -> Iterator[tuple[str, str]]:
    """Trajectories by graphs against the same ones without: the second is the first that is replayed."""
    said: list[str] = []
    replayed = Captured(said.append)
    pairs = [
        (one, other)
        for one, other in zip(
            bench.trajectories(bench.target(device, dtype), 3, replayed),
            bench.trajectories(bench.target(device, dtype), 3),
            strict=True,
        )
    ]
    name = f"graphs against eager steps, {str(dtype).removeprefix('torch.')}"
    if said:
        yield name, said[0]
        return
    apart = max(relative(one[1].theta, other[1].theta) for one, other in pairs)
    yield f"{name}: θ after three trajectories, relative", f"{apart:.1e}"
    apart = max(float((one[2].log_accept - other[2].log_accept).abs()) for one, other in pairs)
    yield f"{name}: log MH", f"{apart:.1e}"


def devices(bench: Bench, device: torch.device) -> Iterator[tuple[str, str]]:
    """log MH of a trajectory in float64 on this device and on the CPU, on fewer images and steps."""
    if device.type == "cpu":
        yield "log MH in float64, GPU against CPU", "no CUDA device"
        return
    here, there = (next(bench.trajectories(bench.target(one, torch.float64)))[2] for one in (device, CPU))
    apart = float((here.log_accept.cpu() - there.log_accept).abs())
    yield "log MH in float64, GPU against CPU", f"{apart:.1e} of {float(there.log_accept):.4g}"


def potentials(bench: Bench, device: torch.device) -> Iterator[tuple[str, str]]:
    """The error of U a datum, and of U(θ_L) − U(θ_0), of forward passes in each precision."""
    target, exact = bench.target(device), bench.target(device, torch.float64)
    (begin, end, _) = next(bench.trajectories(target))
    ends = [begin.theta, end.theta]
    truth = [exact.potential(theta.double()) for theta in ends]
    for precision in PRECISIONS:
        if precision == "TF32" and device.type == "cpu":
            yield "U in TF32", "no CUDA device"
            continue
        with products(precision, device):
            values = [whole(target, theta) for theta in ends] if precision != "float32" else map(target.potential, ends)
        yield from errors(f"U in {precision}", values, truth, len(bench.data))
    name = "U by the compiled network's convolutions, each product by three in TF32"
    if device.type == "cpu":
        yield name, "no CUDA device"
        return
    target.compile_layers(bench.batch)
    with patch.object(convolution, "precision", return_value="tf32x3"):
        yield from errors(name, map(target.potential, ends), truth, len(bench.data))


def errors(name: str, values: Iterable[Tensor], truth: list[Tensor], number: int) -> Iterator[tuple[str, str]]:
    """Of U at a trajectory's two ends."""
    first, last = (float(value - right) for value, right in zip(values, truth, strict=True))
    yield f"{name}: error of U, a datum", f"{first / number:.1e}"
    yield f"{name}: error of ΔU", f"{last - first:.1e} of {float(truth[1] - truth[0]):.4g}"


def whole(target: NetworkPotential, theta: Tensor) -> Tensor:
    """U as ``estimate`` has it, which takes the products as they are set: the mean over batches of all data."""
    index = torch.arange(target.data_size, device=theta.device)
    parts = index.split(target.evaluation_batch)
    return sum(target.estimate(theta, part[None]) * len(part) for part in parts) / target.data_size


def proposals(bench: Bench, device: torch.device) -> Iterator[tuple[str, str]]:
    """log MH of a trajectory whose gradients are in each precision, and its error; and that of a gradient at its start,
    relative. Compiled, what products in TF32 take is kept as float16."""
    for precision, compiled in (("TF32", True), *((one, False) for one in PRECISIONS)):
        name = f"proposals with {precision} gradients{', compiled' if compiled else ''}: "
        if precision == "TF32" and device.type == "cpu":
            yield f"{name}log MH", "no CUDA device"
            continue
        target, exact = bench.target(device, precision=precision), bench.target(device, torch.float64)
        if compiled:
            target.compile_layers(bench.batch)
        with patch.object(flows, "kinetic_change", Kinetic()) as kinetic:
            begin, end, record = next(bench.trajectories(target))
        before, after = (float(exact.potential(state.theta.double())) for state in (begin, end))
        error = float(record.log_accept) + (after - before + kinetic.sum)
        yield f"{name}log MH", f"{float(record.log_accept):.4g}, error {error:.1e}"
        index = torch.arange(bench.batch, device=device)[None]
        slopes = target.gradient(begin.theta, index), exact.gradient(begin.theta.double(), index)
        yield f"{name}error of a gradient", f"{relative(*slopes):.1e}"


def deterministic(bench: Bench, device: torch.device) -> Iterator[tuple[str, str]]:
    """Milliseconds of a step, without the trajectory's ends, with deterministic kernels and with any, by turns."""
    more = {"steps": bench.steps, "batch_size": bench.batch, "word": "ABOBA"}
    before, times = torch.backends.cudnn.deterministic, {True: [], False: []}
    try:
        for only in (True, False, True, False):
            torch.backends.cudnn.deterministic = only
            target = Gradients(copy.deepcopy(bench.model), bench.data, device=device)
            steps = Captured(lambda why: print(why, file=sys.stderr)) if device.type == "cuda" else walk
            step, _ = stepping(target, make_kernel("ggmc", target, 1e-5, **more), False, steps)
            step()
            times[only].append(clocked(step, device, 2) / bench.steps)
    finally:
        torch.backends.cudnn.deterministic = before
    ratio = min(times[True]) / min(times[False])
    yield "a step with deterministic kernels", f"{1e3 * min(times[True]):.3g} ms, {ratio:.3f} times that with any"


def relative(one: Tensor, other: Tensor) -> float:
    """‖one − other‖/‖other‖ in float64."""
    return float((one.double() - other.double()).norm() / other.double().norm())


def rows(bench: Bench, device: torch.device) -> Iterator[tuple[str, str]]:
    """(what, measured), with deterministic kernels, as runs have them."""
    torch.backends.cudnn.deterministic = True
    yield from proposals(bench, device)
    if device.type == "cuda":
        for dtype in (torch.float64, torch.float32):
            yield from graphs(bench, device, dtype)
    else:
        yield "graphs against eager steps", "no CUDA device"
    yield from potentials(bench, device)
    yield from devices(bench.smaller(), device)
    yield from deterministic(bench, device)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=40, help="of a trajectory")
    parser.add_argument("--width", type=int, default=16, help="of the network")
    parser.add_argument("--write", type=Path, help="a CSV file for the table")
    options = parser.parse_args()
    device = named(parser, options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(
        f"{name}, torch {torch.__version__}, {options.images} images, trajectories of {options.steps} steps", flush=True
    )
    torch.manual_seed(0)
    bench = Bench(images(options.images), ResNet(width=options.width), options.steps, min(125, options.images))
    tell(name, rows(bench, device), options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
