"""What is timed of this project, and what needs its interpreter: one contestant a process.

    python benchmarks/contestants.py double_well chains=200 compile=1

``run`` is the whole of it: trajectories, decisions, metrics, draws and checkpoints on disk.
"""

from __future__ import annotations

import argparse
import inspect
import math
import tempfile
import time

import torch
from pace import Pace, serve

import sgmcmc
from sgmcmc.data import Dataset
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.potentials.analytic import Banana, DoubleWell, FunctionPotential
from sgmcmc.potentials.regression import LogisticRegression

torch.set_num_threads(1)
FOREVER = 1 << 40
SECONDS = 0.8  # about how long a block of this project takes


def ours(potential, step_size: float, chains: int, compile: bool, **policies) -> None:
    """AMAGOLD of the target, trajectories of 10 steps; a unit is a draw of one chain."""
    friction = Friction.of(step_size, beta=0.25)
    kernel = make_kernel("amagold", potential, step_size, steps=10, friction=friction, refresh="full", **policies)
    plan = sgmcmc.Plan(cycles=FOREVER, log_every=100, compile=compile, keep="all")
    random, pace, block = sgmcmc.Random(1), Pace(), 0
    clock = 0.0

    def report(chain, row) -> None:
        nonlocal block, clock
        if compile and not chain.compiled:
            raise SystemExit("it is not compiled")
        if chain.cycle == 20:
            clock = time.process_time()
        elif chain.cycle == 120:
            block = 100 * max(1, round(SECONDS / (time.process_time() - clock)))
            pace.ready()
        elif block and (chain.cycle - 120) % block == 0:
            pace.done(block * chains)

    with tempfile.TemporaryDirectory() as folder, sgmcmc.RunFolder(folder + "/run") as store:
        start = lambda: potential.initial(chains, random).to(torch.float32)  # noqa: E731
        sgmcmc.run(kernel, potential, plan, random, chains, start, None, store, report)


def double_well(chains: int = 200, compile: int = 1) -> None:
    ours(DoubleWell(noise=1.0), 0.1, chains, bool(compile))


def banana(chains: int = 1000, compile: int = 1) -> None:
    ours(Banana(noise=1.0), 0.15, chains, bool(compile))


def banana_function(chains: int = 1000, compile: int = 1) -> None:
    """As a user writes it: U alone, its gradient by torch.func."""

    def energy(theta):
        first, second = theta
        return (first - second**2 / 4) ** 2 / 2 + second**2 / 8 + math.log(4 * math.pi)

    ours(FunctionPotential(energy, 2, noise=1.0), 0.15, chains, bool(compile))


def data(size: int, features: int) -> Dataset:
    """Made by a logistic model of as many data and features as the experiments' (theirs must be downloaded)."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(size, features, generator=generator)
    logit = inputs @ torch.randn(features, generator=generator)
    targets = (torch.rand(size, generator=generator) < torch.sigmoid(logit)).long()
    return Dataset(inputs.double(), targets, classes=2)


def logistic(chains: int = 64, compile: int = 1, size: int = 690, features: int = 14, batch: int = 32) -> None:
    """A unit is a draw: ten steps and the decision."""
    ours(LogisticRegression(data(size, features)), 0.004, chains, bool(compile), batch_size=batch)


def logistic_autograd(size: int = 690, features: int = 14, batch: int = 32) -> None:
    """One chain in plain PyTorch, the gradient by autograd: what is written first. A unit is a draw."""
    potential = LogisticRegression(data(size, features))
    x = potential._design.value.float()
    y = potential.targets.float()
    epsilon, beta, steps = 0.004, 0.25, 10

    def energy(theta, rows=None):
        inputs, labels = (x, y) if rows is None else (x[rows], y[rows])
        losses = torch.nn.functional.binary_cross_entropy_with_logits(inputs @ theta, labels, reduction="sum")
        return losses * (size / len(labels)) + theta.square().sum() / 200

    theta = torch.randn(features + 1)
    old = energy(theta)

    def block(number: int = 20) -> int:
        nonlocal theta, old
        for _ in range(number):
            r, new, rho = torch.randn(features + 1), theta + 0.0, 0.0
            new = new + epsilon / 2 * r
            for step in range(steps):
                here = new.detach().requires_grad_()
                energy(here, torch.randint(size, (batch,))).backward()
                gradient, before = here.grad, r
                noise = torch.randn(features + 1) * math.sqrt(4 * epsilon * beta)
                r = ((1 - epsilon * beta) * r - epsilon * gradient + noise) / (1 + epsilon * beta)
                rho = rho + epsilon / 2 * (gradient @ (before + r))
                new = here.detach() + (epsilon if step < steps - 1 else epsilon / 2) * r
            with torch.no_grad():
                proposed = energy(new)
            if float(torch.rand(())) < float(torch.exp(old - proposed + rho)):
                theta, old = new, proposed
        return number

    serve(block)


def resnet_steps() -> None:
    """Steps of a ResNet-20 with filter response normalisation, batch 125, compiled. A unit is a step."""
    import networks

    from sgmcmc.models import ResNet

    target = networks.Gradients(ResNet(), networks.images(500, 3, 32, 32))
    kernel = make_kernel("ggmc", target, 1e-5, steps=5, batch_size=125, word="ABOBA")
    step, _ = networks.stepping(target, kernel, True)

    def block() -> int:
        step()
        return kernel.steps

    serve(block)


def normals(chains: int = 1000, dim: int = 1, uniforms: int = 1, number: int = 21) -> None:
    """PyTorch's generator alone: as many random numbers as a draw takes, and nothing else. A unit is a draw."""
    noise, uniform = torch.empty(number * dim, chains), torch.empty(uniforms, chains)

    def block(times: int = 2000) -> int:
        for _ in range(times):
            noise.normal_()
            uniform.uniform_()
        return times * chains

    serve(block)


CONTESTANTS = (double_well, banana, banana_function, logistic, logistic_autograd, resnet_steps, normals)


def setting(word: str) -> tuple[str, int]:
    key, _, value = word.partition("=")
    return key, int(value)


def main() -> None:
    known = {one.__name__: one for one in CONTESTANTS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=known)
    parser.add_argument("settings", nargs="*", metavar="KEY=NUMBER", type=setting, help="what that one takes")
    options = parser.parse_args()
    settings, takes = dict(options.settings), inspect.signature(known[options.name]).parameters
    if unknown := settings.keys() - takes:
        parser.error(f"{', '.join(sorted(unknown))}: {options.name} takes {', '.join(takes) or 'nothing'}")
    known[options.name](**settings)


if __name__ == "__main__":
    main()
