"""What a network's chain costs besides its gradients.

    python benchmarks/networks.py [mlp] ["mlp 500"] [amagold] [resnet] [potential]

A step as the engine takes it (minibatch drawn and gathered, gradient into the flat vector, normals, kicks, drift,
energies), a gradient's share of a trajectory, against the bare gradient: forward and backward of the same module on
tensors that lie ready. Both are run in turn within a round, and the ratio is the median of the rounds'; times are CPU
time of this process, the least of the rounds. About three minutes on one core, half of it compiling (less where the
like was compiled before).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

from sgmcmc.compiled import Normals, Segments
from sgmcmc.data import Dataset
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.models import MLP, ResNet
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.random import Random
from sgmcmc.trajectory import run_trajectory, segment, start, walk

STEPS = 10  # of a timed trajectory
AS_PUBLISHED = "MLP: AMAGOLD's outer loop, as its published code goes about it, to ours"


class Gradients(NetworkPotential):
    """A network's posterior whose U takes no time: what is left of a trajectory are its steps."""

    def potential(self, theta: Tensor) -> Tensor:
        return torch.zeros(len(theta), dtype=torch.float64, device=theta.device)


def images(number: int, *shape: int) -> Dataset:
    """Normal inputs with labels that mean nothing: times do not depend on them."""
    torch.manual_seed(0)
    return Dataset(torch.randn(number, *shape), torch.randint(10, (number,)), 10)


def alternated(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of CPU time of each call in each round, the calls in turn; once before, to warm up."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            clock = time.process_time()
            call()
            if number:
                times[name].append(1e3 * (time.process_time() - clock))
    return times


def row(what: str, ours: list[float], bare: list[float], part: float = 1.0) -> dict:
    """A row of the table; ``part`` is the share of the calls that is one step."""
    ratios = sorted(one / other for one, other in zip(ours, bare, strict=True))
    return {
        "what": what,
        "ms": part * min(ours),
        "bare_ms": part * min(bare),
        "ratio": ratios[len(ratios) // 2],
        "low": ratios[0],
        "high": ratios[-1],
    }


def bare_gradient(model: nn.Module, inputs: Tensor, labels: Tensor) -> Callable[[], None]:
    """Forward and backward on tensors that lie ready."""
    if inputs.ndim == 4:
        model, inputs = (one.to(memory_format=torch.channels_last) for one in (model, inputs))

    def gradient() -> None:
        model.zero_grad(set_to_none=True)
        F.cross_entropy(model(inputs), labels, reduction="sum").backward()

    return gradient


def stepping(
    target: NetworkPotential, kernel, compiled: bool, steps: Callable = walk, chains: int = 1
) -> tuple[Callable[[], None], float]:
    """A trajectory of the kernel, trajectory after trajectory, and the seconds that compiling took.

    Where ``steps`` is ``Captured``, they are replayed from the third trajectory on.
    """
    random, move, clock = Random(0, target.device), segment, time.perf_counter()
    if compiled:
        random, move = Normals(random), Segments()
        move.prepare(kernel, target, torch.float32, random)
        target.compile_layers(kernel.batches.batch_size)
    seconds = time.perf_counter() - clock if compiled else 0.0
    state = start(kernel, target, target.initial(chains, random).to(target.device), random, range(chains))
    index = iter(range(1 << 30))

    def trajectory() -> None:
        run_trajectory(kernel, target, state, random, next(index), range(chains), segment=move, walk=steps)

    return trajectory, seconds


def update(target: NetworkPotential, kernel, compiled: bool) -> Callable[[], None]:
    """Trajectories of ``STEPS`` steps without their gradients: normals, drifts, kicks, energies, the decision."""
    gradient = torch.ones(1, target.dim)

    class Still:
        dim, data_size, together = target.dim, 0, False
        potential = staticmethod(lambda theta: torch.zeros(1, dtype=torch.float64))
        gradient = staticmethod(lambda theta, batch=None: gradient)

    random, move = (Normals(Random(0)), Segments()) if compiled else (Random(0), segment)
    kernel = make_kernel("ggmc", Still, 1e-4, steps=STEPS, word=kernel.word.letters, gradient="full")
    state = start(kernel, Still, torch.zeros(1, target.dim), random, range(1))
    index = iter(range(1 << 30))
    return lambda: run_trajectory(kernel, Still, state, random, next(index), range(1), segment=move)


def mlp(batch: int = 2000, rounds: int = 5) -> list[dict]:
    """The 784-500-256-10 perceptron of AMAGOLD's Table 2 under GGMC: a step, and the update alone."""
    data, points = images(10_000, 784), STEPS + 1  # gradients of that many steps of OBABO
    gradient = bare_gradient(MLP(), data.inputs[:batch], data.targets[:batch])
    calls: dict[str, Callable] = {"bare": lambda: [gradient() for _ in range(points)]}
    for compiled in (False, True):
        target = Gradients(MLP(), data, prior=2000.0)
        kernel = make_kernel("ggmc", target, 1e-4, steps=STEPS, batch_size=batch)
        calls[f"step {compiled}"], seconds = stepping(target, kernel, compiled)
        calls[f"update {compiled}"] = update(target, kernel, compiled)
    times = alternated(calls, rounds)
    name, part = f"MLP, batch {batch}", 1 / points
    return [
        row(f"{name}: step, eager", times["step False"], times["bare"], part),
        row(f"{name}: step, compiled in {seconds:.0f} s", times["step True"], times["bare"], part),
        row(f"{name}: update alone, eager", times["update False"], times["bare"], part),
        row(f"{name}: update alone, compiled", times["update True"], times["bare"], part),
    ]


def amagold(rounds: int = 3) -> list[dict]:
    """AMAGOLD's outer loop on 60,000 data: ten inner steps of batch 2000 and the exact U, whose start's is kept."""
    data, batch = images(60_000, 784), 2000
    module = MLP()
    gradient = bare_gradient(module, data.inputs[:batch], data.targets[:batch])

    def bare() -> None:
        for _ in range(STEPS):
            gradient()
        with torch.no_grad():
            for inputs, labels in zip(data.inputs.split(500), data.targets.split(500), strict=True):
                F.cross_entropy(module(inputs), labels, reduction="none").sum(dtype=torch.float64)

    target = NetworkPotential(MLP(), data, prior=2000.0)
    kernel = make_kernel("amagold", target, 1e-4, steps=STEPS, batch_size=batch, friction=Friction("beta", 0.5))
    loop, seconds = stepping(target, kernel, True)
    times = alternated({"bare": bare, "loop": loop, "published": as_published(len(data), batch)}, rounds)
    return [
        row(f"MLP: AMAGOLD's outer loop, compiled in {seconds:.0f} s", times["loop"], times["bare"]),
        row(AS_PUBLISHED, times["published"], times["loop"]),
    ]


class Pictures:
    """Grey images of 28 × 28 as torchvision's MNIST gives them: one at a time, made ready when it is asked for."""

    def __init__(self, number: int):
        from PIL import Image  # here, for not every machine with a GPU has them
        from torchvision.transforms import Compose, Normalize, ToTensor

        self.bytes, self.labels = torch.randint(256, (number, 28, 28), dtype=torch.uint8), torch.randint(10, (number,))
        self.image, self.ready = Image.fromarray, Compose([ToTensor(), Normalize((0.1307,), (0.3081,))])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.ready(self.image(self.bytes[index].numpy())), int(self.labels[index])


def as_published(number: int, batch: int) -> Callable[[], None]:
    """AMAGOLD's outer loop in the way of its published code, written here: images from loaders, an update tensor by
    tensor, U of all data at both ends. Its U has the prior, which theirs leaves out."""
    module, pictures, h, b = MLP(), Pictures(number), 1e-3 / number, 0.01
    minibatches, everything = DataLoader(pictures, batch, shuffle=True), DataLoader(pictures, batch)
    thetas, momenta = list(module.parameters()), [torch.zeros_like(one) for one in module.parameters()]

    def potential() -> float:
        likelihood = sum(float(F.cross_entropy(module(x), y, reduction="sum")) for x, y in everything)
        return likelihood + 2.5e-4 * sum(float(theta.square().sum()) for theta in thetas)

    def drift(part: float) -> None:
        for theta, momentum in zip(thetas, momenta, strict=True):
            theta += part * momentum

    @torch.no_grad()
    def loop() -> None:
        begun, energy = [(theta.clone(), -momentum) for theta, momentum in zip(thetas, momenta, strict=True)], 0.0
        before = potential()
        for step, (inputs, labels) in zip(range(STEPS), minibatches, strict=False):
            drift(1.0 if step else 0.5)
            module.zero_grad()
            with torch.enable_grad():
                (number * F.cross_entropy(module(inputs), labels)).backward()
            for theta, momentum in zip(thetas, momenta, strict=True):
                gradient = theta.grad + 5e-4 * theta
                noise = (4 * h * b) ** 0.5 * torch.randn_like(momentum)
                moved = ((1 - b) * momentum - h * gradient + noise) / (1 + b)
                energy += 0.5 * float((gradient * (momentum + moved)).sum())
                momentum.copy_(moved)
        drift(0.5)
        if torch.rand(()).log() >= before - potential() + energy:
            for (theta, momentum), kept in zip(zip(thetas, momenta, strict=True), begun, strict=True):
                theta.copy_(kept[0])
                momentum.copy_(kept[1])

    return loop


def resnet(rounds: int = 3) -> list[dict]:
    """ResNet-20 on 32×32 images, batch 125: steps against the bare gradient of the net with batch normalisation."""
    data, batch, part = images(500, 3, 32, 32), 125, 1 / 2
    few = data.inputs[:batch], data.targets[:batch]
    batch_norm, eager, plain = (bare_gradient(ResNet(norm=norm), *few) for norm in ("bn", "frn", "none"))
    target = Gradients(ResNet(), data)
    kernel = make_kernel("ggmc", target, 1e-5, steps=2, batch_size=batch, minibatches="independent", word="ABOBA")
    step, seconds = stepping(target, kernel, True)
    fused = bare_gradient(target.model, *few)
    sampler = update(target, kernel, True)
    calls = {"bn": batch_norm, "frn": eager, "fused": fused, "none": plain, "step": step, "sampler": sampler}
    times = alternated(calls, rounds)
    twice, all_steps = ([number * one for one in times["bn"]] for number in (2, STEPS))
    return [
        row("ResNet-20: FRN gradient, eager, to BN's", times["frn"], times["bn"]),
        row(f"ResNet-20: FRN gradient, compiled in {seconds:.0f} s, to BN's", times["fused"], times["bn"]),
        row("ResNet-20: gradient without norms, to BN's", times["none"], times["bn"]),
        row("ResNet-20: whole FRN step, compiled, to BN's gradient", times["step"], twice, part),
        row("ResNet-20: update alone, compiled, to BN's gradient", times["sampler"], all_steps, 1 / STEPS),
    ]


def potential(rounds: int = 3, number: int = 500) -> list[dict]:
    """The exact U of ResNet-20 with FRN, eager and compiled, against the bare forward pass with BN."""
    data = images(number, 3, 32, 32)
    module = ResNet(norm="bn").eval().to(memory_format=torch.channels_last)
    inputs = data.inputs.to(memory_format=torch.channels_last)

    @torch.no_grad()
    def bare() -> None:
        for part in inputs.split(125):
            module(part)

    calls, rows = {"bare": bare}, []
    for compiled in (False, True):
        target = NetworkPotential(ResNet(), data, "cin")
        if compiled:
            target.compile_layers(125)
        theta = target.initial(1, Random(0))
        calls[f"U {compiled}"] = lambda target=target, theta=theta: target.potential(theta)
    times = alternated(calls, rounds)
    for compiled, name in ((False, "eager"), (True, "compiled")):
        speed = number / (1e-3 * min(times[f"U {compiled}"]))
        rows.append(row(f"ResNet-20: U, {name}, {speed:,.0f} images a second", times[f"U {compiled}"], times["bare"]))
    return rows


PARTS = {"mlp": mlp, "mlp 500": lambda: mlp(500), "amagold": amagold, "resnet": resnet, "potential": potential}


def table(rows: list[dict]) -> list[str]:
    """The rows in lines of text."""
    lines = [f"{'what':<66}{'ms':>9}{'bare ms':>9}{'ratio':>8}  rounds"]
    for one in rows:
        spread = f"{one['low']:.3f} to {one['high']:.3f}"
        lines.append(f"{one['what']:<66}{one['ms']:>9.2f}{one['bare_ms']:>9.2f}{one['ratio']:>8.3f}  {spread}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: the parts are {', '.join(PARTS)}")
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}", flush=True)
    for name in options.parts or PARTS:
        clock = time.perf_counter()
        print("\n".join(table(PARTS[name]())), f"\n{name}: {time.perf_counter() - clock:.0f} s", flush=True)


if __name__ == "__main__":
    main()
