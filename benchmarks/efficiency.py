"""Effective sample size a gradient and a second: a fast sampler that mixes badly does not look good here.

The papers' targets at a few of their step sizes, 100 chains, trajectories of 10 steps; the slowest coordinate's ESS by
ArviZ's rank-normalised estimate over all chains. Seconds are of sampling, compiled, without the compiling. SGHMC is not
corrected: its draws are of another density, and its efficiency buys that.
"""

from __future__ import annotations

import time
import warnings

import torch
from contestants import data

import sgmcmc
from sgmcmc import diagnostics
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.potentials.analytic import Banana, DoubleWell, Mixture
from sgmcmc.potentials.regression import LogisticRegression

CHAINS, STEPS = 100, 10
TARGETS = {
    "double well": (lambda noise: DoubleWell(noise), (0.1, 0.25), 3000),
    "banana": (lambda noise: Banana(noise), (0.1, 0.25), 3000),
    "mixture": (lambda noise: Mixture(noise), (0.1, 0.25), 3000),
    "logistic 690 x 14": (lambda noise: LogisticRegression(data(690, 14)), (0.005, 0.02), 2000),
}
SAMPLERS = {"hmc": 0.0, "l2mc": 0.0, "sghmc": 1.0, "amagold": 1.0}  # the standard deviation of toys' gradient noise


def rows() -> list[dict]:
    torch.set_num_threads(1)
    found = []
    for target, (make, sizes, cycles) in TARGETS.items():
        for sampler, noise in SAMPLERS.items():
            row, potential = sgmcmc.lookup(sampler), make(noise)
            steps = row.steps or STEPS
            kernel = make_kernel(
                row,
                potential,
                [size for size in sizes for _ in range(CHAINS)],
                steps=steps,
                friction=None if sampler == "hmc" else Friction.of(_spread(sizes), beta=0.25),
                refresh=None if steps == 1 else "full",
                batch_size=32 if potential.data_size and sampler in ("sghmc", "amagold") else None,
            )
            found += _measured(target, sampler, kernel, potential, sizes, cycles)
    return found


def _spread(sizes) -> torch.Tensor:
    return torch.tensor([[size] for size in sizes for _ in range(CHAINS)], dtype=torch.float64)


def _measured(target, sampler, kernel, potential, sizes, cycles) -> list[dict]:
    random, burn_in = sgmcmc.Random(3), cycles // 6
    plan = sgmcmc.Plan(cycles=cycles, burn_in=burn_in, log_every=1000, compile=True)
    chains = CHAINS * len(sizes)
    clocks = []

    def report(chain, row) -> None:
        if chain.cycle == burn_in:
            clocks.append(time.process_time())

    result = sgmcmc.run(
        kernel,
        potential,
        plan,
        random,
        chains,
        lambda: potential.initial(chains, random).float(),
        None,
        None,
        report,
        lambda text: None,
    )
    seconds = (time.process_time() - clocks[0]) / len(sizes)
    share = 32 / potential.data_size if kernel.batches is not None and potential.data_size else 1
    gradients, energies = kernel.work(share, potential)
    energies *= potential.data_size > 0 and kernel.acceptance != "monitor"  # a U that decides nothing is no cost
    passes = (gradients + energies) * (cycles - burn_in) * CHAINS
    found = []
    for number, size in enumerate(sizes):
        draws = result.draws[:, number * CHAINS : (number + 1) * CHAINS].double()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = float(diagnostics.ess(draws).value.min())
        per = "a pass over the data" if potential.data_size else "a gradient"
        found.append(
            {
                "what": f"effective sample size: {target}",
                "who": f"{sampler}, step size {size:g}",
                "note": f"{value / seconds:.3g} a second, {value / passes:.2g} {per}"
                + (", not corrected" if kernel.acceptance == "monitor" else ""),
            }
        )
    return found
