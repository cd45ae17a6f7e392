"""Steps of the papers' networks on a GPU, the sampler's share of them, exact U, chains side by side, memory.

    python benchmarks/gpu.py [--device cuda] [--images 50000] [--write speed.csv]

Times are by the clock, with the device synchronised, the least of the rounds. What is most wanted comes first, and a
row that fails says why. Run once for each kind of GPU by `make gpu`; with --device cpu and few images it shows that it
works, steps are then not replayed, and what needs a GPU says so.
"""

from __future__ import annotations

import argparse
import copy
import csv
import gc
import io
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import cycle
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
import torch.nn.functional as F
from networks import Gradients, bare_gradient, stepping
from networks import images as normals
from torch import nn

from sgmcmc import convolution, disk
from sgmcmc.arguments import find_device
from sgmcmc.captured import Captured, cuda_graph
from sgmcmc.data import Dataset
from sgmcmc.errors import NoDevice, SettingError
from sgmcmc.kernel import make_kernel
from sgmcmc.models import MLP, ResNet
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.random import Random
from sgmcmc.trajectory import walk

BATCHES = {"frn": 125, "bn": 125, "gn": 125, "mlp": 2000}
NAMES = {"frn": "ResNet-20, frn", "bn": "ResNet-20, bn", "gn": "ResNet-20, gn", "mlp": "MLP"}
NO_GPU = "no CUDA device"


def images(number: int) -> Dataset:
    """Images of CIFAR-10's shape that mean nothing: times do not depend on them."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (number, 3, 32, 32), dtype=torch.uint8, generator=generator)
    labels = torch.randint(10, (number,), generator=generator)
    return Dataset(pixels, labels, 10, torch.full((3,), 0.5).double(), torch.full((3,), 0.25).double())


def named(parser: argparse.ArgumentParser, name: str) -> torch.device:
    """The device of that name; a mistake where there is none."""
    try:
        return find_device(name)
    except NoDevice:
        parser.error(f"--device {name}: {NO_GPU} of that name; --device cpu with few --images shows that it works")
    except SettingError:
        parser.error(f"--device {name}: must be cuda, cuda:1 or cpu")


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


def tell(device: str, rows: Iterable[tuple[str, str]], path: Path | None) -> None:
    """Print rows as they come, and write those that came; of a file that is there rows that did not come again stay."""
    found, before = [], []
    if path and path.exists():
        with open(path, newline="") as file:
            before = list(csv.DictReader(file))
    for what, measured in rows:
        print(f"{what}: {measured}", flush=True)
        found.append({"device": device, "torch": torch.__version__, "what": what, "measured": measured})
        if path:
            table = io.StringIO()
            writer = csv.DictWriter(table, list(found[0]))
            writer.writeheader()
            measured_now = {row["what"] for row in found}
            writer.writerows([*found, *(row for row in before if row["what"] not in measured_now)])
            disk.write(path, table.getvalue().encode())


def refuse(why: str) -> None:
    """Steps that are not captured would be timed for such as are."""
    raise RuntimeError(why)


def authors_step(model: nn.Module, data: Dataset, batch: int, step_size: float = 1e-5) -> Callable[[], None]:
    """A step as the GGMC paper's optimizer takes it (VerletSGLD, in the middle of a trajectory, with its metrics).

    One parameter tensor after the other, each with its momentum and noise, and in every step the host reads three
    numbers of each: ⟨∇U, m + m'⟩, ‖m‖² and ⟨θ, ∇U⟩. Less than theirs: without the prior, without the moving average of
    squared gradients, with images that lie on the device and are not augmented.
    """
    decay, number = 0.994, len(data)
    momenta = [torch.randn_like(parameter) for parameter in model.parameters()]
    order = torch.randperm(number, device=data.inputs.device)
    batches = cycle(order[: number // batch * batch].split(batch))

    def step() -> None:
        index = next(batches)
        model.zero_grad()
        (F.cross_entropy(model(data.take(index)), data.targets[index]) * number).backward()
        energy, estimates = 0.0, []
        with torch.no_grad():
            for place, parameter in enumerate(model.parameters()):
                momentum = torch.randn_like(parameter).mul_(math.sqrt(1 - decay**2))
                momentum.add_(parameter.grad, alpha=-step_size * (1 + decay) / 2)
                momentum.add_(momenta[place], alpha=decay)
                slope = parameter.grad.flatten()
                energy += (slope @ momenta[place].add_(momentum).flatten()).item()
                momenta[place] = momentum
                parameter.add_(momentum, alpha=step_size)
                estimates.append((momentum.flatten() @ momentum.flatten()).item())
                estimates.append((parameter.flatten() @ slope).item())

    return step


class Bench:
    """What is timed: networks with images on a device, in trajectories of so many steps.

    Of a ResNet the first layer has ``width`` channels, and chains side by side step for so many ``seconds``. Methods
    give what they measured in words; ``ms`` has the milliseconds of steps, which later rows are compared with.
    """

    def __init__(self, device: torch.device, number: int, steps: int, width: int, seconds: float):
        self.device, self.number, self.steps, self.width, self.seconds = device, number, steps, width, seconds
        self.replays = device.type == "cuda"
        self.ms: dict[tuple, float] = {}

    def rows(self) -> Iterator[tuple[str, str]]:
        """(what, measured); one that cannot be had says why, and the others come."""
        for what, measure in self.wanted():
            try:
                gc.collect()  # of what the row before had, and the memory for other processes
                torch.cuda.empty_cache()
                measured = measure()
            except Exception as error:  # of a full memory, a missing compiler, a capture, a net that cannot be had so
                measured = (str(error).strip() or type(error).__name__).splitlines()[0]
            yield what, measured

    def wanted(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """What is most wanted first: what full-length chains do, alone and side by side."""
        yield self.step_row("frn", compiled=True)
        yield from self.exact_rows(compiled=True)
        how = "compiled" if self.replays else "eager"
        yield f"2 processes' steps a second over one's, {how}", partial(self.processes, 2)
        for number in (2, 4):
            yield f"{number} threads' steps a second over one's, {how}", partial(self.threads, number)
        yield self.step_row("frn")
        yield self.bare_row("frn")
        yield self.step_row("mlp")
        yield self.bare_row("mlp")
        yield from self.exact_rows(compiled=False)
        yield self.step_row("bn")  # of batch normalisation only the update would be compiled
        yield f"a step like the authors' optimizer's, {self.name('bn')}, eager", self.authors
        for net in ("frn", "gn", "mlp"):  # with normalisations that PyTorch's vmap takes, and with such as it does not
            yield f"a chain's step, 4 in one tensor, {self.name(net)}, eager", partial(self.together, net, 4)
        for net, compiled in (("frn", False), ("frn", True), ("bn", False)) if self.replays else ():
            yield self.step_row(net, compiled, replayed=False)
        yield "peak memory of one chain, its data and exact U with it", self.memory

    # what is timed

    def model(self, net: str) -> nn.Module:
        return MLP() if net == "mlp" else ResNet(norm=net, width=self.width)

    def target(self, net: str, **more) -> Gradients:
        """A network whose exact U takes no time."""
        if net == "mlp":
            data, more["prior"] = normals(min(self.number, 10_000), 784), 2000.0
        else:
            data = images(min(self.number, 2000))
        return Gradients(self.model(net), data, device=self.device, **more)

    def batch(self, net: str) -> int:
        return min(BATCHES[net], self.number)

    def name(self, net: str) -> str:
        return f"{NAMES[net]}, batch {self.batch(net)}"

    def trajectory(self, net: str, target: NetworkPotential, steps: int, compiled=False, replayed=False, chains=1):
        """Trajectories of so many steps with a gradient each, and the seconds that compiling took."""
        kernel = make_kernel("ggmc", target, 1e-5, steps=steps, batch_size=self.batch(net), word="ABOBA")
        call, seconds = stepping(target, kernel, compiled, Captured(refuse) if replayed else walk, chains)
        for _ in range(2 if replayed else 0):  # what is captured is captured when it comes again
            call()
        return call, seconds

    # rows

    def step_row(self, net: str, compiled: bool = False, replayed: bool | None = None) -> tuple[str, Callable[[], str]]:
        """A step's, replayed where it can be."""
        replayed = self.replays if replayed is None else replayed
        how = ("compiled" if compiled else "eager") + (", replayed" if replayed else "")
        return f"a step, {self.name(net)}, {how}", partial(self.step, net, compiled, replayed)

    def step(self, net: str, compiled: bool, replayed: bool) -> str:
        call, seconds = self.trajectory(net, self.target(net), self.steps, compiled, replayed)
        each = self.ms[net, compiled, replayed] = 1e3 * clocked(call, self.device) / self.steps
        return f"{each:.3g} ms" + (f", compiled in {seconds:.0f} s" if compiled else "")

    def bare_row(self, net: str) -> tuple[str, Callable[[], str]]:
        how = "replayed" if self.replays else "eager"
        return f"the bare gradient, {self.name(net)}, {how}", partial(self.bare, net)

    def bare(self, net: str) -> str:
        """Forward and backward on tensors that lie ready, and what a step takes besides: the sampler's share."""
        target = self.target(net)
        inputs, labels = target.train.take(slice(self.batch(net))), target.train.targets[: self.batch(net)]
        gradient = bare_gradient(copy.deepcopy(target.model), inputs, labels)  # of parameters by themselves
        call = cuda_graph(lambda _: gradient() or (), [inputs])[0] if self.replays else gradient
        each = 1e3 * clocked(lambda: [call() for _ in range(self.steps)], self.device) / self.steps
        share = self.ms.get((net, False, self.replays), math.nan) / each - 1
        return f"{each:.3g} ms; a step takes {100 * share:.1f} % more"

    @cached_property
    def whole(self) -> NetworkPotential:
        return NetworkPotential(self.model("frn"), images(self.number), "cin", device=self.device)

    def exact_rows(self, compiled: bool) -> Iterator[tuple[str, Callable[[], str]]]:
        how = "compiled" if compiled else "eager"
        for what, gradient in (("U", False), ("U and gradient", True)):
            yield f"exact {what} of {self.number:,} images, {how}", partial(self.exact, gradient, compiled)
        for what, gradient in (("U", False), ("U and gradient", True)) if compiled else ():
            what = f"exact {what} of {self.number:,} images, {how}, each product by three in TF32"
            yield what, partial(self.exact_in_three, gradient)

    def exact_in_three(self, gradient: bool) -> str:
        """What the convolutions' kernels would take without float32's own products, which no matrix unit makes."""
        if self.device.type != "cuda":
            return NO_GPU
        with patch.object(convolution, "precision", return_value="tf32x3"):
            return self.exact(gradient, True)

    def exact(self, gradient: bool, compiled: bool) -> str:
        theta = self.whole.initial(1, Random(0, self.device)).to(self.device)
        if compiled:
            self.whole.compile_layers(self.batch("frn"))
        else:
            self.whole.uncompile_layers()
        call = self.whole.potential_and_gradient if gradient else self.whole.potential
        return f"{1e3 * clocked(lambda: call(theta), self.device, 1):.4g} ms"

    def authors(self) -> str:
        data, steps = images(min(self.number, 2000)).to(self.device), max(1, self.steps // 4)
        step = authors_step(self.model("bn").to(self.device), data, self.batch("bn"))
        each = 1e3 * clocked(lambda: [step() for _ in range(steps)], self.device) / steps
        ours = {net: each / self.ms.get((net, False, self.replays), math.nan) for net in ("bn", "frn")}
        return f"{each:.3g} ms, {ours['bn']:.2f} times this project's step, {ours['frn']:.2f} times that of frn"

    def processes(self, number: int) -> str:
        """Steps a second of several processes on one device over one's; they step during the same seconds."""
        settings = {"device": self.device, "images": self.number, "steps": self.steps, "width": self.width}
        words = [f"--{name}={value}" for name, value in {**settings, "seconds": self.seconds}.items()]
        alone = self.rate(self.chain())
        command, pipes = [sys.executable, __file__, *words, "--one"], {"stdin": subprocess.PIPE, "text": True}
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, **pipes) for _ in range(number)]
        ready = [process.stdout.readline() for process in running]
        for process in running if all(ready) else ():
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate()[0] for process in running]  # nothing of a process that failed
        if not all(said):
            raise RuntimeError("a process failed")
        return f"{sum(map(float, said)) / alone:.2f}"

    def one(self) -> None:
        """Be one of several processes: say ready, and when asked print the steps a second."""
        call = self.chain()
        call()
        print("ready", flush=True)
        if sys.stdin.readline():  # else another one failed
            print(self.rate(call))

    def threads(self, number: int) -> str:
        """The same of threads of this process, each with a stream and graphs of its own."""
        if not self.replays:
            return NO_GPU
        streams, calls = [torch.cuda.Stream(self.device) for _ in range(number)], []
        for stream in streams:  # one after the other: a capture allows no other work on the device
            with torch.cuda.stream(stream):
                calls.append(self.chain())
        torch.cuda.synchronize(self.device)

        def rate(stream: torch.cuda.Stream, call: Callable[[], None]) -> float:
            with torch.cuda.stream(stream):
                return self.rate(call)

        with ThreadPoolExecutor(number) as pool:
            alone = pool.submit(rate, streams[0], calls[0]).result()
            return f"{sum(pool.map(rate, streams, calls)) / alone:.2f}"

    def chain(self) -> Callable[[], None]:
        """Trajectories as full-length chains on this device make them: on a GPU compiled and replayed."""
        return self.trajectory("frn", self.target("frn"), self.steps, self.replays, self.replays)[0]

    def rate(self, call: Callable[[], None]) -> float:
        """Steps a second of trajectories on the current stream."""
        begun, number = time.perf_counter(), 0
        while not number or time.perf_counter() - begun < self.seconds:
            call()
            if self.replays:
                torch.cuda.current_stream(self.device).synchronize()
            number += self.steps
        return number / (time.perf_counter() - begun)

    def together(self, net: str, chains: int) -> str:
        """Without graphs, which are for one chain, against a single chain's without them."""
        steps, target = max(1, self.steps // 4), self.target(net, together=True)
        alone, each = (
            1e3 * clocked(self.trajectory(net, target, steps, chains=number)[0], self.device) / steps / number
            for number in (1, chains)
        )
        return f"{each:.3g} ms, {each / alone:.2f} times a single one's"

    def memory(self) -> str:
        if not self.replays:
            return NO_GPU
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        target = NetworkPotential(self.model("frn"), images(self.number), "cin", device=self.device)
        self.trajectory("frn", target, min(self.steps, 16), replayed=True)[0]()
        return f"{(torch.cuda.max_memory_allocated(self.device) - before) / 2**20:.0f} MiB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--steps", type=int, default=40, help="of a timed trajectory")
    parser.add_argument("--width", type=int, default=16, help="of the ResNets")
    parser.add_argument("--seconds", type=float, default=2.0, help="that chains step side by side")
    parser.add_argument("--write", type=Path, help="a CSV file for the table")
    parser.add_argument("--one", action="store_true", help="be one of several processes side by side")
    options = parser.parse_args()
    torch.backends.cudnn.deterministic = True  # as runs have it
    device = named(parser, options.device)
    bench = Bench(device, options.images, options.steps, options.width, options.seconds)
    if options.one:
        bench.one()
        return 0
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}", flush=True)
    tell(name, bench.rows(), options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
