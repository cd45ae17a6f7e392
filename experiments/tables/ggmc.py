"""Tables of the GGMC paper, "Exact Langevin dynamics with stochastic gradients" (Garriga-Alonso and Fortuin 2021)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from experiments.build import build
from experiments.tables.common import Run, data_size, of_each, standard_error
from sgmcmc.certificate_rows import Scripted
from sgmcmc.kernel import Friction, step_size_of
from sgmcmc.trajectory import State, run_trajectory, start

# -- Figures 1 and D.1 -------------------------------------------------------------------------------------------


def _settings(run: Run) -> dict:
    """What a row says of its run: with batch normalisation or random augmentation no acceptance is exact."""
    config = run.config
    exact = config["model"]["norm"] != "bn" and config["augmentation"] != "random"
    return {"lr": config["lr"], "acceptance": "exact" if exact else "not exact"}


def _changed(run: Run) -> dict:
    """What tells the cycles apart that differ from Figure 1's in one thing."""
    mass = "estimated" if run.config["mass"] == "estimate" else "1"
    return {**_settings(run), "minibatches": run.config["sampler"]["minibatches"], "mass": mass}


def _trace(run: Run) -> Iterator[dict]:
    """The traced cycle, a row a point: log MH were the trajectory to end there (``exact_point``: with U of all data at
    the cycle's two ends, between them with a minibatch's), potential a datum, kinetic temperature."""
    trace = run.trace if (run.path / "trace.csv").exists() else {"step": []}  # it may have diverged before
    for place in range(len(trace["step"])):
        yield {
            "data": data_size(run.config),
            "cycle": int(trace["cycle"][place]),
            "step": int(trace["step"][place]),
            "exact_point": int(trace["exact"][place]),
            "log_accept": float(trace["log_accept"][place]),
            "potential_per_datum": float(trace["potential_per_datum"][place]),
            "kinetic_temperature": float(trace["kinetic_temperature"][place]),
        }


def _cycles(run: Run) -> Iterator[dict]:
    """The whole run, a row a cycle, of all data: log MH and its min(1, MH), U a datum, temperatures, fit of the test
    set."""
    metrics, config = run.metrics, run.config
    h = step_size_of(config["lr"], data_size(config))
    friction = config["friction"]
    decay = math.nan if friction is None else float(Friction("gamma", friction).decay(h, False))
    for place in range(len(metrics["cycle"])):
        yield {
            "momentum_decay": decay,
            **{key: float(metrics[key][place]) for key in ("cycle", "epoch", "step")},
            **{key: float(metrics[key][place]) for key in COLUMNS if key in metrics},
        }


COLUMNS = (
    "log_accept",
    "accept_prob",
    "potential_per_datum",
    "delta_potential",
    "delta_kinetic",
    "kinetic_temperature",
    "configurational_temperature",
    "test_accuracy",
    "test_nll",
)


_whole_runs = of_each(_cycles, _settings, diverged=True)


def _cycles_as_run(runs: list[Run]) -> list[dict]:
    """``_cycles``, and how random U is: ``noise``, the standard deviation of the difference of two evaluations of it
    where the first run starts."""
    noise = potential_noise(runs[0].config) if runs[0].status != "failed" else math.nan
    return [{**row, "noise": noise} for row in _whole_runs(runs)]


def potential_noise(config: dict, times: int = 8) -> float:
    """√2 times the standard deviation of ``times`` evaluations of U at the start of a chain, each freshly augmented."""
    pieces = build(config)
    theta, values = pieces.initial()[:1], []
    for number in range(times):
        pieces.potential.counter = number + 1
        values.append(float(pieces.potential.potential(theta)))
    return float(2**0.5 * np.std(values, ddof=1))


# -- Theorem 1 ---------------------------------------------------------------------------------------------------


def _theorem(run: Run) -> Iterator[dict]:
    """How near the best noise brings the step back from (θ', −m') to where the step began, (θ, −m): quantiles over
    independent steps from exact draws, a row a step size.

    ``off_formula`` is the largest distance from the closed forms (mass 1): of EA, h/√(1 + h²)·|m' − m|, because the
    noise is free to choose m'' but then θ'' = θ' + h m'', and |m'' + m|² + h²|m'' + m'|² is least there; of AE,
    h |m' − m|, because θ'' = θ' − h m' leaves no choice.
    """
    way = _step_and_back(run)
    for size, chains in run.groups():
        rows = slice(chains.start, chains.stop)
        distance = way["distance"][rows].numpy()
        quantiles = np.quantile(distance, (0.05, 0.5, 0.95))
        yield {
            "word": run.config["sampler"]["word"],
            "step_size": size,
            "draws": len(distance),
            "least": float(distance.min()),
            "low": float(quantiles[0]),
            "median": float(quantiles[1]),
            "high": float(quantiles[2]),
            "off_formula": float((way["distance"] - way["formula"])[rows].abs().max()),
            "moved": float(way["moved"][rows].median()),
        }


REACHED = 300  # states that random noises reach, in the picture of one step


def _one_step(run: Run) -> Iterator[dict]:
    """One step in the phase plane, of the first chain with the largest step size: its start and its end with their
    mirror images, the state nearest to the start's mirror image that any noise reaches from the end's, and states that
    random noises reach from there."""
    way = _step_and_back(run)
    *_, (size, chains) = run.groups()
    chain = chains.start
    pieces = build(run.config)
    kernel = replace(pieces.kernel, step_size=size)
    states = way["end"].rows(torch.full((REACHED,), chain))
    random = Scripted(run.config["seed"] + 1)
    random.noise = torch.randn((3, REACHED, 1), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    back, _ = run_trajectory(kernel, pieces.potential, _negated(states), random, 0, range(REACHED))
    here = {
        "start": (way["theta"][chain], way["momentum"][chain]),
        "aim": (way["theta"][chain], -way["momentum"][chain]),
        "end": (way["end"].theta[chain], way["end"].momentum[chain]),
        "mirror": (way["end"].theta[chain], -way["end"].momentum[chain]),
        "nearest": (way["nearest"].theta[chain], way["nearest"].momentum[chain]),
    }
    word = run.config["sampler"]["word"]
    for name, (theta, momentum) in here.items():
        yield {"word": word, "step_size": size, "what": name, "theta": float(theta), "momentum": float(momentum)}
    for theta, momentum in zip(back.theta[:, 0], back.momentum[:, 0], strict=True):
        yield {"word": word, "step_size": size, "what": "reached", "theta": float(theta), "momentum": float(momentum)}


def _step_and_back(run: Run) -> dict:
    """One step of each chain from its start, and the step back from (θ', −m') with the noise that brings it nearest."""
    pieces = build(run.config)
    chains = range(pieces.chains)
    state = start(pieces.kernel, pieces.potential, pieces.initial(), pieces.random, chains)
    end, _ = run_trajectory(pieces.kernel, pieces.potential, state, pieces.random, 0, chains)
    mirror = _negated(end)
    h, moved = _column(pieces.kernel.step_size, state.theta), (end.momentum - state.momentum).norm(dim=-1)

    def back(noises: list[Tensor]) -> State:
        random = Scripted(run.config["seed"])
        random.noise = torch.stack([torch.zeros_like(state.theta), *noises])
        return run_trajectory(pieces.kernel, pieces.potential, mirror, random, 0, chains)[0]

    if run.config["sampler"]["word"] == "OBABO":
        a = torch.as_tensor(pieces.kernel.friction.decay(pieces.kernel.step_size, False)).reshape(-1, 1)
        half = (end.theta - state.theta) / h
        first = half + h / 2 * pieces.potential.gradient(state.theta)  # m_{n+1/4}
        last = half - h / 2 * pieces.potential.gradient(end.theta)  # m_{n+3/4}
        noises = [(a.sqrt() * end.momentum - last), (a.sqrt() * first - state.momentum)]
        nearest, formula = back([noise / (1 - a).sqrt() for noise in noises]), torch.zeros_like(moved)
    else:
        # The step is affine in its one noise: least squares along each coordinate's line in the phase plane.
        origin, unit = back([torch.zeros_like(h * state.theta)]), back([torch.ones_like(state.theta)])
        along = (unit.theta - origin.theta, unit.momentum - origin.momentum)
        aim = (state.theta - origin.theta, -state.momentum - origin.momentum)
        noise = (along[0] * aim[0] + along[1] * aim[1]) / (along[0] ** 2 + along[1] ** 2)
        nearest = back([noise])
        size = h[:, 0]
        formula = moved * (size / (1 + size**2).sqrt() if run.config["sampler"]["word"] == "EA" else size)
    gap = torch.cat((nearest.theta - state.theta, nearest.momentum + state.momentum), 1).norm(dim=-1)
    return {
        "theta": state.theta,
        "momentum": state.momentum,
        "end": end,
        "nearest": nearest,
        "distance": gap,
        "formula": formula,
        "moved": moved,
    }


def _negated(state: State) -> State:
    return replace(state, momentum=-state.momentum)


def _column(value: float | Tensor, like: Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=like.dtype).reshape(-1, 1).expand(len(like), 1)


# -- Appendix C --------------------------------------------------------------------------------------------------


def _schedules(run: Run) -> Iterator[dict]:
    """One trajectory from exact draws under a schedule, a row a step size: the program's acceptance, and the log ratio
    of the path's densities there and back, computed from the definition.

    ``true`` is log [π(s_L) p(path back)]/[π(s_0) p(path)], where the way back from s_L, its momentum negated, meets the
    same positions and minibatches in reverse under the schedule as it will be, that is in its own order again (but
    where the direction is drawn: then the opposite one). ``off`` is the program's largest distance from it.
    """
    pieces = build(run.config)
    kernel, steps = pieces.kernel, pieces.kernel.steps
    state = start(kernel, pieces.potential, pieces.initial(), pieces.random, range(pieces.chains))
    factors = torch.tensor(kernel.schedule.factors(steps, 0), dtype=torch.float64)
    forwards = torch.ones(pieces.chains, dtype=torch.bool)
    if kernel.random_direction:
        forwards = pieces.random.uniform("direction", 0, range(pieces.chains))[:, 0] >= 0.5
    ours = torch.empty(pieces.chains, dtype=torch.float64)
    true, jump = torch.empty_like(ours), torch.empty_like(ours)
    for way in (True, False):
        rows = torch.nonzero(forwards == way).flatten()
        if not len(rows):
            continue
        begun, positions, slopes = state.rows(rows), [], []

        def observe(point, theta, momentum, energy, batch, positions=positions, slopes=slopes):
            positions.append(theta)
            slopes.append(pieces.potential.gradient(theta, batch))

        some = kernel.rows(rows)
        end, record = run_trajectory(some, pieces.potential, begun, pieces.random, 0, rows, observe)
        sizes = some.step_size * (factors if way else factors.flip(0))[:, None, None]
        back_sizes = sizes.flip(0) if kernel.random_direction else sizes
        decays = some.friction.decay(sizes, False), some.friction.decay(back_sizes, False)
        path, slope = torch.stack(positions), torch.stack(slopes)
        forth = path_log_density(path, slope, begun.momentum, end.momentum, sizes, decays[0])
        back = path_log_density(path.flip(0), slope.flip(0), -end.momentum, -begun.momentum, back_sizes, decays[1])
        kinetic = (end.momentum.square() - begun.momentum.square()).sum(-1) / 2
        true[rows] = back - forth - record.delta_potential - kinetic
        ours[rows], jump[rows] = record.log_accept, (end.theta - begun.theta).square().sum(-1)
    for size, chains in run.groups():
        part = slice(chains.start, chains.stop)
        accept, ratio = ours[part].clamp(max=0).exp(), true[part].numpy()
        yield {
            "schedule": kernel.schedule.name,
            "direction": kernel.schedule.direction,
            "step_size": size,
            "steps": steps,
            "time": size * float(factors.sum()),
            "draws": len(accept),
            "accept": float(accept.mean()),
            "accept_error": standard_error(accept),
            "jump": float((accept * jump[part]).mean()),
            "jump_error": standard_error(accept * jump[part]),
            **dict(zip(("true_low", "true_median", "true_high"), np.quantile(ratio, (0.05, 0.5, 0.95)), strict=True)),
            "true_largest": float(ratio.max()),
            "true_accept": float(np.exp(np.minimum(ratio, 0)).mean()),
            "off": float((ours - true)[part].abs().max()) if not kernel.impossible else math.inf,
        }


def path_log_density(positions, slopes, first, last, sizes, decays) -> Tensor:
    """log density of a trajectory of OBABO steps through given positions, given where it starts, ``[chains]``.

    At mass and temperature 1.

    ``positions`` and ``slopes`` (the gradients used there) ``[L + 1, chains, dim]``, momenta ``first`` and ``last``
    ``[chains, dim]``, ``sizes`` h_i and ``decays`` a_i = e^{−γ h_i} ``[L, chains or 1, 1]``. Between two positions the
    momentum is (θ_i − θ_{i−1})/h_i; the half kicks undone, what is left is what each O made of what came before it:
    N(m'; c m, 1 − c²), c = √a_1, √(a_1 a_2), …, √a_L; and |∂θ_i/∂m| = h_i^d.
    """
    half = positions.diff(dim=0) / sizes
    made = torch.cat((half + sizes / 2 * slopes[:-1], last[None]))
    before = torch.cat((first[None], half - sizes / 2 * slopes[1:]))
    root = decays.sqrt()
    keep = torch.cat((root[:1], root[1:] * root[:-1], root[-1:]))
    variance = 1 - keep**2
    logs = -((made - keep * before) ** 2) / (2 * variance) - (2 * math.pi * variance).log() / 2
    return logs.sum((0, 2)) - (sizes.log() * positions.shape[2]).sum((0, 2))


TABLES = {
    "ggmc_fig1": ("ggmc_fig1", of_each(_trace, _settings, diverged=True)),
    "ggmc_figd1": ("ggmc_fig1", _whole_runs),
    "ggmc_fig1_cycle": ("ggmc_fig1_cycle", of_each(_trace, _settings, diverged=True)),
    "finding_fig1": ("finding_fig1", of_each(_trace, _changed, diverged=True)),
    "ggmc_fig1_as_run": ("ggmc_fig1_as_run", of_each(_trace, _settings, diverged=True)),
    "ggmc_figd1_as_run": ("ggmc_fig1_as_run", _cycles_as_run),
    "ggmc_figd1_averaged": ("ggmc_fig1_averaged", _whole_runs),
    "ggmc_discarded": ("ggmc_discarded", _whole_runs),
    "ggmc_theorem1": ("ggmc_theorem1", of_each(_theorem)),
    "ggmc_theorem1_step": ("ggmc_theorem1", of_each(_one_step)),
    "ggmc_appendix_c": ("ggmc_appendix_c", of_each(_schedules)),
}
