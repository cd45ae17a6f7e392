"""The certificate's statistical columns: means over independent chains, each a function from a row to cells."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from scipy.stats import chi2, norm

from sgmcmc import certificate_reference as reference
from sgmcmc.certificate_rows import (
    INDEX,
    STIFFNESS,
    Cell,
    Row,
    Scripted,
    Seed,
    build,
    draws,
    gaussian,
    linear_theory,
    make_target,
    moments_of,
    play,
    ways,
)
from sgmcmc.chain import Chain
from sgmcmc.kernel import Friction
from sgmcmc.plan import Plan
from sgmcmc.potentials.analytic import Quartic
from sgmcmc.random import Random

SLOPE, SLOPE_CHAINS = 0.15, 40_000  # what the powers of h are held to, and how many chains they are fitted to
DECISIONS = 20  # before invariance is looked at
FAILURE_CHAINS = 400_000


def _worst(column: str, target: str, values: dict[str, np.ndarray], dtype: str = "float64") -> Cell:
    """The cell of the functions ``values`` (``[chains]`` each), whose means should be 0."""
    cells = []
    for name, value in values.items():
        mean, error = float(value.mean()), float(value.std() / math.sqrt(len(value)))
        z = mean / error if error else (0.0 if mean == 0 else math.copysign(math.inf, mean))
        z = math.inf if math.isnan(z) else z
        cells.append(Cell(column, target, name, mean, None, error, z, len(values), dtype))
    worst = max(cells, key=lambda cell: abs(cell.z))
    worst.smallest_bias = max(cell.standard_error for cell in cells)
    return worst


def _functions(theta, momentum, moments, variance, powers: int) -> dict[str, np.ndarray]:
    """θ^k, m, m², θm of each coordinate, less their expectations, in their standard deviations.

    ``moments`` are E θ^k, k = 0 … 8, and ``variance`` is TM, ``[dim]``. Positions and whitened momenta are cut off at
    ±9, where the targets' densities are below 1e-17, so that a diverged chain is one large number.
    """
    values = {}
    for j in range(theta.shape[1]):
        x, p = np.clip(theta[:, j], -9, 9), np.clip(momentum[:, j] / math.sqrt(variance[j]), -9, 9)
        at = f"[{j}]" if theta.shape[1] > 1 else ""
        for k in range(1, powers + 1):
            spread = math.sqrt(moments[2 * k, j] - moments[k, j] ** 2)
            values[f"theta^{k}{at}"] = (x**k - moments[k, j]) / spread
        values[f"m{at}"] = p
        values[f"m^2{at}"] = (p**2 - 1) / math.sqrt(2)
        values[f"theta m{at}"] = x * p / math.sqrt(moments[2, j])
    return values


def exact_state(row: Row, name: str, chains: int, seed: Seed) -> tuple[np.ndarray, np.ndarray]:
    """Positions and momenta of chains at independent draws of the target, ``[chains, dim]`` each."""
    theta = draws(name, row.temperature, chains, seed.positions)
    scale = np.sqrt(row.temperature * row.mass(theta.shape[1]))
    # The first row's number may be 0, as the positions' seed is then: both would be made of the same random bits.
    return theta, scale * np.random.default_rng(seed.number or 10**18).normal(size=theta.shape)


def one_trajectory(row: Row, name: str, h: float, chains: int, seed: Seed):
    """Of chains from exact draws: the sampler's states after a rejection and after an acceptance, and the record."""
    target, _ = make_target(name, row)
    kernel = replace(build(row, target, h), acceptance="metropolis")
    theta, momentum = exact_state(row, name, chains, seed)
    random = Scripted(seed.number)
    random.decision = math.inf
    begun, _ = play(kernel, target, theta, momentum, random)
    random.decision = 0.0
    return begun, *play(kernel, target, theta, momentum, random)


def energy_identity(row: Row, chains: int, seed: Seed) -> Iterator[Cell]:
    """(i) E[MH] = 1 of one trajectory from exact draws: on the target with Gaussian tails, at a small step size."""
    _, _, record = one_trajectory(row, "four data", row.small_step, chains, seed)
    yield _worst("(i)", "four data", {"MH - 1": record.log_accept.exp().numpy() - 1})


def _enough(row: Row, chains: int) -> int:
    """How many chains: of a row that fails so many that it is seen whatever the seed."""
    return min(4 * chains, max(chains, FAILURE_CHAINS)) if row.fails else chains


def reversal_identities(row: Row, chains: int, seed: Seed) -> Iterator[Cell]:
    """(ii) E[min(1, MH) sign(log MH)] = 0 and (iii) E[min(1, MH) (f(θ_L, m_L) − f(θ_0, −m_0))] = 0 of one
    trajectory from exact draws; (θ_0, −m_0) is the sampler's own state after a rejection. Also the mean acceptance."""
    for name in row.targets:
        begun, end, record = one_trajectory(row, name, row.step_size(name), _enough(row, chains), seed)
        accept, sign = record.accept_prob.numpy(), np.sign(record.log_accept.numpy())
        yield Cell("accept", name, "mean of min(1, MH)", float(accept.mean()))
        yield _worst("(ii)", name, {"min(1, MH) sign(log MH)": accept * sign})
        moments = moments_of(name, row.temperature)
        variance = row.temperature * row.mass(begun.theta.shape[1])
        after = _functions(end.theta.numpy(), end.momentum.numpy(), moments, variance, 3)
        before = _functions(begun.theta.numpy(), begun.momentum.numpy(), moments, variance, 3)
        moved = {key: np.where(accept > 0, accept * (after[key] - before[key]), 0.0) for key in after}
        yield _worst("(iii)", name, moved)


def decisions(row: Row, chains: int, seed: Seed) -> Iterator[Cell]:
    """What the sampler's own rule accepts less the probability that it should, of one trajectory from exact draws:
    its mean, and with the sign and the size of log MH. That probability is, of U in NumPy, min(1, MH) of Metropolis
    with a fresh uniform or a persistent one, of Barker MH/(1 + MH); monitored, 1."""
    for name in row.targets:
        target, ours = make_target(name, row)
        theta, momentum = exact_state(row, name, _enough(row, chains), seed)
        _, record = play(build(row, target, row.step_size(name)), target, theta, momentum, Random(seed.number))
        with np.errstate(all="ignore"):
            change = ours.energy(record.proposal.numpy()) - ours.energy(theta) + record.delta_kinetic.numpy()
            mh = np.exp(np.clip(np.nan_to_num(-change / row.temperature, nan=-np.inf), -700, 700))
        rule = {"monitor": np.ones_like(mh), "barker": mh / (1 + mh), "barker_minibatch": mh / (1 + mh)}
        excess = record.accepted.numpy() - rule.get(row.acceptance, np.minimum(1, mh))
        log_mh = np.clip(np.log(mh), -1, 1)
        values = {"accepted - p": excess, "of sign(log MH)": excess * np.sign(log_mh), "of log MH": excess * log_mh}
        yield _worst("dec", name, values)


def invariance(row: Row, name: str, dtype: torch.dtype, chains: int, seed: Seed) -> Iterator[Cell]:
    """(iv) The moments after 20 decisions of chains that started at exact draws, by the loop that real runs use."""
    target, _ = make_target(name, row)
    kernel = build(row, target, row.step_size(name), dtype)
    theta = torch.tensor(draws(name, row.temperature, chains, seed.positions)).to(dtype)
    plan = Plan(cycles=DECISIONS, compile=row.compiled)
    chain = Chain(kernel, target, plan, Random(seed.number), chains, lambda: theta)
    chain.begin()
    chain.compile(warnings.warn)
    for _ in range(DECISIONS):
        chain.advance()
    (state,) = chain.states
    variance = row.temperature * row.mass(target.dim)
    theta, momentum = state.theta.double().numpy(), state.momentum.double().numpy()
    values = _functions(theta, momentum, moments_of(name, row.temperature), variance, 4)
    if kernel.acceptance == "persistent_uniform":
        v = (state.log_abs.exp().numpy() - 0.5) * math.sqrt(12)
        squares = {f"|v| {key}": v * value for key, value in values.items() if key.startswith(("theta^2", "m^2"))}
        values |= squares | {"|v|": v, "v": (state.sign * state.log_abs.exp()).numpy() * math.sqrt(3)}
    yield _worst("(iv)", name, values, str(dtype).removeprefix("torch."))


def covariances(row: Row, chains: int, seed: Seed) -> Iterator[Cell]:
    """Covariance and lag-1 autocovariance of a trajectory without decision on the Gaussian, from its stationary law
    (where there is none: from the target), against linear theory."""
    theory = [linear_theory(row, way) for way in ways(row)]
    kernel, target = gaussian(row)
    dim = target.dim
    first = reference.stationary(theory)
    if first is None:
        first = np.diag(np.concatenate([row.temperature / STIFFNESS, row.temperature * row.mass(dim)]))
    rng = np.random.default_rng(seed.number)
    z = rng.normal(size=(chains, 2 * dim)) @ np.linalg.cholesky(first).T
    end, _ = play(kernel, target, z[:, :dim], z[:, dim:], Random(seed.number))
    after = np.concatenate([end.theta.numpy(), end.momentum.numpy()], 1)
    now = sum(F @ first @ F.T + Q for F, Q in theory) / len(theory)
    lagged = sum(F @ first for F, _ in theory) / len(theory)
    values, names = {}, ["theta", "m"]
    for j in range(dim):
        for a in range(2):
            for b in range(2):
                i, k = j + a * dim, j + b * dim
                if a <= b:
                    spread = math.sqrt(now[i, i] * now[k, k] + now[i, k] ** 2)
                    values[f"{names[a]} {names[b]}[{j}]"] = (after[:, i] * after[:, k] - now[i, k]) / spread
                spread = math.sqrt(now[i, i] * first[k, k] + lagged[i, k] ** 2)
                values[f"{names[a]}' {names[b]}[{j}]"] = (after[:, i] * z[:, k] - lagged[i, k]) / spread
    yield _worst("cov", "gaussian", values)


def batch_order(row: Row, chains: int, seed: Seed) -> Iterator[Cell]:
    """Whether the batches of a trajectory are in law their own mirror image: Bowker's test of the counts of the
    sequences of four data against those of the same backwards. And whether they are so given those before, which may be
    the other half of a permutation: two functions that change their sign where a sequence is turned, times those of
    the sequence before; where the law lets them be anything but 0."""
    if row.gradient != "minibatch" or "four data" not in row.targets:
        return
    target, _ = make_target("four data", row)
    kernel = build(row, target, 0.1)
    points = kernel.points - 2 * (row.settings.get("ends") == "exact")
    drawn = []
    for index in (INDEX, INDEX - 1):
        draw = kernel.batches.draw(Random(seed.number), index, torch.arange(chains))
        drawn.append(torch.cat([draw(point) for point in range(points)], 1).numpy())
    odd = {
        "how many data are in all but the last, less in all but the first": _data_but_the_last_less_but_the_first,
        "sign of the first datum less the last": lambda one: np.sign(one[:, 0] - one[:, -1]),
    }
    values = {f"{name}, of two in a row": function(drawn[0]) * function(drawn[1]) for name, function in odd.items()}
    if values := {name: value for name, value in values.items() if value.any()}:
        yield replace(_worst("order", "four data", values), smallest_bias=None)
    both = np.concatenate([drawn[0], drawn[0][:, ::-1]]).astype(np.int8)
    codes = np.unique(both, axis=0, return_inverse=True)[1].reshape(2, -1)  # of each sequence, and of it read backwards
    forward, backward = (np.bincount(way, minlength=codes.max() + 1) for way in codes)
    mirror = np.zeros_like(forward)
    mirror[codes[0]], mirror[codes[1]] = codes[1], codes[0]
    total = forward + backward
    use = total > 20
    statistic = ((forward - backward)[use] ** 2 / total[use]).sum() / 2  # each pair stands twice
    pairs = int((use & (np.arange(len(mirror)) != mirror)).sum()) // 2
    if not pairs:
        return
    z = float(norm.isf(max(chi2.sf(statistic, pairs), 1e-300) / 2))
    yield Cell("order", "four data", f"chi2 of {pairs} pairs", statistic, None, math.sqrt(2 * pairs), z, 1)


def _data_but_the_last_less_but_the_first(sequences: np.ndarray) -> np.ndarray:
    """How many of the four data are in all but the last of ``[chains, points]``, less in all but the first."""
    head, tail = (
        sum((part == datum).any(1).astype(int) for datum in range(4)) for part in (sequences[:, :-1], sequences[:, 1:])
    )
    return head - tail


def slopes(row: Row, chains: int, seed: Seed) -> Iterator[Cell]:
    """The powers of h that the standard deviation of ΔU + Σ ΔK goes with: one step, and a fixed time of 1.

    With full gradients and γ = 2 (or infinite) on x⁴/4 + x²/2 at h = .05 to .00625, where half powers, which come from
    the O's, are well above the next whole ones; the standard error is that of ten groups of chains.
    """
    expected = reference.energy_order(row.letters, row.friction[0] == "infinite")
    if expected is None or not row.slopes:
        return
    target, ours = Quartic(1, cubic=0.0), reference.Quartic(cubic=0.0)
    rng = np.random.default_rng(seed.number)
    theta = ours.draw(min(chains, SLOPE_CHAINS), 1.0, rng)
    momentum = rng.normal(size=theta.shape)
    sizes = [0.05, 0.025, 0.0125, 0.00625]
    row = replace(row, naive=False, settings={"acceptance": "monitor"})
    deviations = {"step": [], "time": []}
    for h in sizes:
        kernel = build(row, target, h, refresh="full", gradient="full")
        friction = kernel.friction if row.friction[0] == "infinite" else Friction("gamma", 2.0)
        for key, steps in (("step", 1), ("time", round(1 / h))):
            longer = replace(kernel, steps=steps, friction=friction)
            _, record = play(longer, target, theta, momentum, Random(seed.number))
            energy = (record.delta_potential + record.delta_kinetic).numpy()
            deviations[key].append(energy.reshape(10, -1).std(1))
    for key, power in zip(("step", "time"), expected, strict=True):
        fits = np.polyfit(np.log(sizes), np.log(np.array(deviations[key])), 1)[0]
        name = f"power of h, {'one step' if key == 'step' else 'fixed time'}: {fits.mean():.2f} for {power:g}"
        error = float(fits.std(ddof=1) / math.sqrt(len(fits)))
        yield Cell(key, "quartic", name, abs(float(fits.mean()) - power), SLOPE, error)


# Those of a row; ``invariance`` is of a target and a precision, too.
COLUMNS = (energy_identity, reversal_identities, decisions, covariances, batch_order, slopes)
