"""How long may a trajectory be? The mean and the variance of log MH under gradient noise, by theory and as measured.

Let ∇Ũ = ∇U + ξ at the gradient points, ξ of mean 0 and covariance Σ, independent from point to point. Between two
points U changes by h (v · (∇U + ∇U')/2) but for O(h³), v = M⁻¹ m the velocity of the drift; a kick of duration w from m
to m' = m − w (∇U + ξ) has ΔK = −w (∇U + ξ) · M⁻¹ (m + m')/2. In ΔU + Σ ΔK what has ∇U cancels but for the splitting's
error, which does not grow with L, and what is left is

    log MH = (1/T) Σ_kicks w ξ · M⁻¹ (m + m')/2.

The m of a point's first kick does not know ξ, so w ξ · M⁻¹ m has mean 0, and variance w² T tr(M⁻¹Σ) with m ~ N(0, T M).
What ξ itself does to m' and to the later kicks of its point has the mean −½ of that variance. Kicks k and l of one
point with refreshes between them, of momentum decay c in all, share ξ and have momenta of correlation c. So

    Var log MH = V = (tr(M⁻¹Σ)/T) Σ_points Σ_k Σ_l w_k w_l c_kl,     E log MH = −V/2,

as E MH = 1 demands of a normal. With whole steps h and a decay c a step V is tr(M⁻¹Σ)/T times h² (1 + c)/2 L for
ABOBA, h² ((1 + c)/2 (L − 1) + ½) for OBABO. For minibatches of B of N data Σ = (N²/B) Cov_i ∇ℓ_i, about N/B times the
Hessian H of U in a well-specified model: V ≈ L h² (N/B) tr(M⁻¹H). A trajectory as long as the posterior is wide,
L h ≈ √(M/H), with V = 1 takes L B ≈ N dim: dim passes over the data, whatever B, L and h are.

Acceptance is 2 Φ(−√V/2), and the squared jump a gradient goes with V times that: it is largest at V = 5.7, an
acceptance of .23, for every L.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import torch
from torch import Tensor

from experiments.build import build
from experiments.tables.common import Run, moved, of_each, standard_error
from experiments.tables.statistics import jackknifed_time
from sgmcmc.kernel import Friction, Kernel, make_kernel
from sgmcmc.potentials import groups
from sgmcmc.trajectory import run_trajectory, start

WORDS = ("ggmc", "amagold")
FRICTION = 1.0
BATCHES = (20, 200)  # of logistic regressions
POSITIONS, MINIBATCHES = 40, 100  # where the noise is measured, and with how many at each
GROUPS = 10  # of chains, for the errors of standard deviations


def noise_sum(kernel: Kernel) -> float:
    """Σ_points Σ_k Σ_l w_k w_l c_kl of a trajectory's kicks."""
    total = carried = 0.0
    for op, number, _ in kernel.program(0, torch.float64, "cpu")[0]:
        if op.letter == "A":
            carried = 0.0
        elif op.letter == "O":
            carried *= float(number)
        else:
            total += float(number) * (float(number) + 2 * carried)
            carried += float(number)
    return total


def noise_trace(potential, theta: Tensor, random, batch: int | None) -> tuple[float, float]:
    """tr Σ, a mean over the positions ``[chains, dim]``, and its standard error: ``noise``² dim, which has none, or of
    minibatches as they are drawn, others at each position."""
    if not potential.data_size:
        return potential.noise**2 * potential.dim, 0.0
    found = []
    for group in groups(potential, len(theta)):
        rows, chains = theta[group.start : group.stop], torch.tensor(group)
        whole, squares = potential.gradient(rows).double(), []
        for number in range(MINIBATCHES):
            index = random.integers("diagnostic", number, 1, chains, batch, potential.data_size)[0]
            squares.append((potential.gradient(rows, index).double() - whole).square().sum(-1))
        found.append(torch.stack(squares))
    each = torch.cat(found, 1).mean(1)
    return float(each.mean()), standard_error(each)


def some_of(positions: Tensor, number: int) -> Tensor:
    """So many of the positions, the same random ones each time; all where there are fewer."""
    order = torch.randperm(len(positions), generator=torch.Generator().manual_seed(0))
    return positions[order[:number].sort().values]


def measured(log_mh: np.ndarray) -> dict:
    """Mean and standard deviation of log MH, E MH, acceptance, with errors over independent trajectories.

    Those whose log MH is not finite are never accepted: they count in E MH and the acceptance alone.
    """
    finite = np.isfinite(log_mh)
    ratio = np.exp(np.where(finite, log_mh, -np.inf))
    accept, log_mh = np.minimum(ratio, 1), log_mh[finite]
    parts = np.array_split(log_mh, min(GROUPS, max(len(log_mh) // 4, 1)))
    return {
        "trajectories": len(log_mh),
        "mean": float(log_mh.mean()),
        "mean_error": standard_error(log_mh),
        "sd": float(log_mh.std(ddof=1)),
        "sd_error": standard_error([part.std(ddof=1) for part in parts]),
        "mh": float(ratio.mean()),
        "mh_error": standard_error(ratio),
        "acceptance": float(accept.mean()),
        "acceptance_error": standard_error(accept),
    }


def _energies(run: Run) -> Iterator[dict]:
    """log MH of single trajectories from exact draws, or from those of the run: a row a word, length, step and batch.

    The step sizes are the run's, lengths powers of 4 up to its own; momenta are fresh.
    """
    pieces, config = build(run.config), run.config
    potential, random, dtype = pieces.potential, pieces.random, getattr(torch, config["dtype"])
    if hasattr(potential, "exact"):
        theta = potential.exact(pieces.chains, random).to(dtype)
    else:
        theta = some_of(run.draws.flatten(0, 1), 1000)
    batches = [config["batch_size"]] if config["batch_size"] else BATCHES if potential.data_size else [None]
    sizes = config["step_size"] if isinstance(config["step_size"], list) else [config["step_size"]]
    lengths = [steps for steps in (1, 4, 16, 64) if steps <= config["steps_per_cycle"]]
    traces = {batch: noise_trace(potential, some_of(theta, POSITIONS), random, batch) for batch in batches}
    for batch, word, size in product(batches, WORDS, sizes):
        for steps in lengths:
            friction = Friction("gamma", FRICTION)
            policies = {"steps": steps, "friction": friction, "refresh": "full", "acceptance": "metropolis"}
            kernel = make_kernel(word, potential, size, batch_size=batch, dtype=dtype, **policies)
            values = []
            for rows in groups(potential, len(theta)):
                some = theta[rows.start : rows.stop]
                state = start(kernel, potential, some, random, rows)
                _, record = run_trajectory(kernel, potential, state, random, 2**40 + steps, rows)
                values.append(record.log_accept)
            log_mh = torch.cat(values).numpy()
            trace, error = traces[batch]
            variance = trace * noise_sum(kernel) / kernel.temperature
            row = {"batch": batch, "word": kernel.word.letters, "steps": steps, "step_size": size}
            row |= {"trace": trace, "trace_error": error}
            yield row | {"predicted": math.sqrt(variance), **measured(log_mh)}


def _settings(run: Run) -> dict:
    config = run.config
    return {"target": config["model"]["name"], "dim": build(config).potential.dim}


def _efficiency(run: Run) -> Iterator[dict]:
    """ESS a thousand gradients, a row a length and step size. U at the end of a trajectory counts as a full gradient,
    which is N/B of those of minibatches of B of N data.

    Of a run whose trajectories are chosen in the burn-in it is at what was chosen.
    """
    draws, metrics, auto = run.draws, run.metrics, run.config["tune"]["trajectory"] is not None
    batch = run.config["batch_size"]
    end = build(run.config).potential.data_size / batch if batch else 1
    for size, chains, numbers in run.alive_groups():
        steps = int(metrics["steps_per_cycle"][-1]) if auto else run.config["steps_per_cycle"]
        row = {"steps": steps, "step_size": float(metrics["step_size"][-1]) if auto else size, "auto": int(auto)}
        part = draws[:, chains]
        # Coordinates of one law have one τ: the largest of ten estimates would be too large.
        tau, error = jackknifed_time(part, together=run.config["model"]["name"] == "gaussian")
        ess = 1000 / (tau * (steps + end))
        accepted = float(moved(part).double().mean())
        row |= {**numbers, "draws_a_chain": len(part), "accepted": accepted}
        yield {**row, "tau": tau, "ess": ess, "ess_error": ess * error / tau}


TABLES = {
    "finding_trajectory": ("finding_trajectory", of_each(_energies, _settings)),
    "finding_trajectory_auto": ("finding_trajectory_auto", of_each(_efficiency, _settings)),
}
