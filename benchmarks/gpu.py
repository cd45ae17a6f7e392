"""Steps of the papers' networks on a GPU: eager, compiled, replayed; exact U, chains side by side, memory.

    python benchmarks/gpu.py [--device cuda] [--images 50000]

Times are by the clock, with the device synchronised, the least of the rounds. Run once for each kind of GPU by
`make gpu`; with --device cpu and few images it shows that it works.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from networks import Gradients, stepping

from sgmcmc.data import Dataset
from sgmcmc.inductor import CannotCompile
from sgmcmc.kernel import make_kernel
from sgmcmc.models import ResNet
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.random import Random

BATCH = 125
TOGETHER = 5.0  # seconds that processes step side by side


def images(number: int) -> Dataset:
    """Images of CIFAR-10's shape that mean nothing: times do not depend on them."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (number, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = torch.randint(10, (number,), generator=generator)
    return Dataset(pixels, labels, 10, torch.full((3,), 0.5).double(), torch.full((3,), 0.25).double())


def clocked(call: Callable[[], object], device: torch.device, rounds: int = 3) -> float:
    """Seconds of a call, the least of the rounds, after one to warm up."""
    times = []
    for _ in range(rounds + 1):
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        begun = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begun)
    return min(times[1:])


def resnet(norm: str, compiled: bool, graph: bool, device, steps: int) -> tuple[Callable[[], object], float]:
    """Trajectories of so many steps, and the seconds that compiling took."""
    target = Gradients(ResNet(norm=norm), images(2000), device=device)
    kernel = make_kernel("ggmc", target, 1e-5, steps=steps, batch_size=BATCH, word="ABOBA")
    return stepping(target, kernel, compiled, graph)


def rows(device: torch.device, number: int, steps: int) -> Iterator[tuple[str, str]]:
    """(what, measured), what is most wanted first; with deterministic kernels, as runs have them."""
    torch.backends.cudnn.deterministic = True
    for norm in ("frn", "bn"):
        for graph, compiled in product((True, False), (False, True)):
            if compiled and norm == "bn" or graph and device.type == "cpu":
                continue  # of batch normalisation only the update would be compiled
            try:
                step, seconds = resnet(norm, compiled, graph, device, steps)
            except CannotCompile as error:
                yield f"a step, ResNet-20, {norm}, compiled", str(error)
                continue
            step()  # what is captured is captured when it comes again
            each = clocked(step, device) / steps
            how = f"compiled in {seconds:.0f} s" if compiled else "eager"
            how += ", replayed" if graph else ""
            yield f"a step, ResNet-20, {norm}, batch {BATCH}, {how}", f"{1e3 * each:.3g} ms"
    target = NetworkPotential(ResNet(), images(number), "cin", device=device)
    theta = target.initial(1, Random(0, device)).to(device)
    for how in ("eager", "compiled"):
        if how == "compiled":
            try:
                target.compile_layers(BATCH)
            except CannotCompile:
                break
        for what, call in (("U", target.potential), ("U and gradient", target.potential_and_gradient)):
            each = clocked(lambda call=call: call(theta), device, 2)
            yield f"exact {what} of {number:,} images, {how}", f"{1e3 * each:.4g} ms"
    if device.type == "cuda":
        yield "peak memory of one chain", f"{torch.cuda.max_memory_allocated(device) / 2**20:.0f} MiB"


def side_by_side(device: str, chains: int = 2) -> tuple[str, str]:
    """Steps a second of several processes on one device, over one's; they step during the same seconds."""
    command = [sys.executable, __file__, "--device", device, "--one"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}

    def rates(number: int) -> float:
        running = [subprocess.Popen(command, **pipes) for _ in range(number)]
        ready = [process.stdout.readline() for process in running]
        for process in running if all(ready) else ():
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate()[0] for process in running]  # nothing of a process that failed
        return sum(map(float, said)) if all(said) else math.nan

    return f"{chains} processes' steps a second over one's", f"{rates(chains) / rates(1):.2f}"


def one_process(device: torch.device, steps: int) -> None:
    """Say ready, and when asked print the steps a second of ``TOGETHER`` seconds."""
    step, _ = resnet("frn", False, device.type == "cuda", device, steps)
    for _ in range(3):
        step()
    print("ready", flush=True)
    if not sys.stdin.readline():  # another one failed
        return
    begun, number = time.perf_counter(), 0
    while time.perf_counter() - begun < TOGETHER:
        step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        number += steps
    print(number / (time.perf_counter() - begun))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--steps", type=int, default=100, help="of a timed trajectory")
    parser.add_argument("--one", action="store_true", help="be one of several processes side by side")
    options = parser.parse_args()
    device = torch.device(options.device)
    if options.one:
        one_process(device, options.steps)
        return 0
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}", flush=True)
    for what, measured in rows(device, options.images, options.steps):
        print(f"{what}: {measured}", flush=True)
    if device.type == "cuda":
        print(": ".join(side_by_side(options.device)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
