"""Tables of Neal's talk "Non-reversible Langevin methods" (2020)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from experiments.build import build
from experiments.tables.common import Run, moved, of_each, standard_error
from experiments.tables.statistics import clustering, jackknifed_time
from sgmcmc.potentials.analytic import GaussianPairs
from sgmcmc.random import Random
from sgmcmc.trajectory import run_trajectory, start

QUOTED_REJECTION = (0.68, 0.22, 0.37, 0.044, 0.13, 0.71, 0.22, 0.39, 0.035, 0.11)  # in his order
IID = 500  # green points of a picture
TRAJECTORIES = 6  # whose positions are shown along the way


def _rejection(run: Run) -> Iterator[dict]:
    """Rejection over the last 90 % of each chain: the mean over chains, and how far single chains stray from it, as
    their standard deviation and their quantiles of 2.5 % and 97.5 %.

    Chains start at exact draws, not at a low-probability point, as that of his first slide: far off the ridge the
    rate is another. A chain's draws are repeated by rejection, so a rejection is a draw equal to the one before.
    """
    draws, config = run.draws, run.config
    last = draws[max(len(draws) // 10 - 1, 0) :]  # and the draw before them
    rejected = 1 - moved(last).double().mean(0)
    low, high = np.quantile(rejected, (0.025, 0.975))
    yield {
        "pairs": config["model"]["pairs"],
        "transitions": config["cycles"],
        "step_size": config["step_size"],
        "chains": config["chains"],
        "rejected": float(rejected.mean()),
        "rejected_error": standard_error(rejected),
        "single_chain_sd": float(rejected.std()),
        "single_chain_low": float(low),
        "single_chain_high": float(high),
        "quoted": QUOTED_REJECTION[run.number],
    }


# ---------------------------------------------------------------------------------------------- the pictures


def _picture(run: Run) -> Iterator[dict]:
    """Every transition of a picture's chain in (x1, x2): where it was, what it proposed, its u, what was decided.

    Stored draws hold no proposals, so the chain is run again: the same numbers come out. Transition 0 is the start.
    """
    config = run.config
    common = {"panel": run.number, "pairs": config["model"]["pairs"]}
    if run.number < len(QUOTED_REJECTION):
        common["quoted"] = QUOTED_REJECTION[run.number]
    for transition in replay(config):
        yield common | transition


def replay(config: dict) -> Iterator[dict]:
    """The transitions of the first of a configuration's chains, by its first two coordinates.

    ``u`` is the number that the decision compares with MH: the decision's fresh uniform, or |v| after δ was added.
    """
    pieces = build(config)
    kernel, potential, random = pieces.kernel, pieces.potential, pieces.random
    chains = torch.arange(1)
    state = start(kernel, potential, pieces.initial(), random, chains)
    yield _point(0, x=state.theta[0])
    for index in range(pieces.plan.cycles):
        if kernel.acceptance == "persistent_uniform":
            v = float(state.sign * state.log_abs.exp()) + kernel.delta
            u = abs(v - 2 if v > 1 else v + 2 if v < -1 else v)
        else:
            u = float(random.uniform("decision", index + 1, chains)[0, 0])
        state, record = run_trajectory(kernel, potential, state, random, index, chains)
        yield _point(index + 1, x=state.theta[0], proposed=record.proposal[0]) | {
            "accepted": int(record.accepted[0]),
            "u": round(u, 4),
        }


def _point(transition: int, **points: Tensor) -> dict:
    row = {"transition": transition}
    for name, point in points.items():
        for number in (1, 2):
            row[f"{name}{number}"] = round(float(point[number - 1]), 3)
    return row


def _iid(runs: list[Run]) -> list[dict]:
    """The green points of the pictures: independent draws of (x1, x2), the same law in 2 and in 20 dimensions."""
    points = GaussianPairs(1).exact(IID, Random(1))
    return [{"x1": round(float(x1), 3), "x2": round(float(x2), 3)} for x1, x2 in points]


def _trajectories(runs: list[Run]) -> list[dict]:
    """The positions along the first six trajectories of HMC's picture in 2 dimensions, and what was decided."""
    rows = []
    for run in runs:
        if run.sampler != "hmc" or run.config["model"]["pairs"] != 1:
            continue
        pieces = build(run.config)
        chains = torch.arange(1)
        state = start(pieces.kernel, pieces.potential, pieces.initial(), pieces.random, chains)
        for index in range(TRAJECTORIES):
            path = [state.theta]
            state, record = run_trajectory(
                pieces.kernel,
                pieces.potential,
                state,
                pieces.random,
                index,
                chains,
                lambda point, theta, *_, path=path: path.append(theta) if point else None,
            )
            accepted = {"accepted": int(record.accepted[0])}
            for step, theta in enumerate(path):
                rows.append({"trajectory": index + 1} | accepted | _point(step, x=theta[0]))
    return rows


# ------------------------------------------------------------------------------------ clustering of rejections


def _clustering(run: Run) -> Iterator[dict]:
    """How a chain's rejections cluster, and how well it mixes.

    ``clustering`` is the variance of the number of rejections in 20 successive decisions, over that of independent
    decisions; ``reach`` is √(Σ r²/n) over the lengths r of the runs of acceptances among n decisions: how far, in
    moves, a walk gets on average per √decision that goes straight while proposals are accepted and in a random
    direction after a rejection (``reach_independent``: were rejections independent, √((1 − p)(2 − p)/p)). ESS is a
    thousand gradients', of x1 (the mean over the coordinates of its τ, all have the same law) and of U.
    """
    draws, config = run.draws, run.config
    model, sampler = config["model"], config["sampler"]
    accepted = moved(draws).numpy()
    rejected = (~accepted).mean(0)
    reaches = np.array([reach(accepted[:, chain]) for chain in range(draws.shape[1])])
    p = rejected.mean()
    energy = torch.stack([GaussianPairs(model["pairs"]).potential(one) for one in draws])[..., None]
    yield {
        "pairs": model["pairs"],
        "step_size": config["step_size"],
        "alpha": sampler["alpha"],
        "delta": sampler["delta"],
        "chains": config["chains"],
        "decisions": config["cycles"],
        "rejected": float(p),
        "rejected_error": standard_error(rejected),
        **clustering(accepted),
        "reach": float(reaches.mean()),
        "reach_error": standard_error(reaches),
        "reach_independent": float(((1 - p) * (2 - p) / p) ** 0.5) if p else float("nan"),
        **_efficiency("x1", draws, 1),
        **_efficiency("U", energy, 1),
    }


def reach(accepted: np.ndarray) -> float:
    """√(Σ r²/n) over the lengths r of the runs of acceptances among the n decisions of one chain."""
    ends = np.concatenate(([-1], np.flatnonzero(~accepted), [len(accepted)]))
    return float(np.sqrt(((np.diff(ends) - 1.0) ** 2).sum() / len(accepted)))


def _patterns(runs: list[Run]) -> list[dict]:
    """His two patterns of 20 K decisions, "each accept moves d in same direction, each reject randomizes direction":
    the root mean square distance in units of d √K, by its formula (accepts √(20/(accepts + rejects))) and simulated."""
    rows = []
    for accepts, rejects in ((4, 1), (16, 4)):
        k, walks = 100, 4000
        stretches = 20 * k // (accepts + rejects)
        way = np.random.default_rng(0).choice([-1.0, 1.0], (walks, stretches))
        squares = (accepts * way.sum(1)) ** 2 / k
        rows.append(
            {
                "accepts": accepts,
                "rejects": rejects,
                "formula": accepts * (20 / (accepts + rejects)) ** 0.5,
                "simulated": float(squares.mean() ** 0.5),
                "simulated_error": float(squares.std() / walks**0.5 / (2 * squares.mean() ** 0.5)),
            }
        )
    return rows


# --------------------------------------------------------------------- Gibbs updates between trajectories


def _efficiency(name: str, draws: Tensor, gradients: float, together: bool = True) -> dict:
    """ESS in a thousand gradients, its error, and τ in gradients, at so many a draw (see ``jackknifed_time``)."""
    tau, error = jackknifed_time(draws, together)
    ess = 1000 / (tau * gradients)
    return {f"ess_{name}": ess, f"ess_{name}_error": ess * error / tau, f"tau_{name}": tau * gradients}


def _settings(run: Run) -> dict:
    """What a row says of its run. ``evaluations`` are gradients a leapfrog step, if the one that is computed anew
    after a Gibbs update counted as another."""
    config, sampler = run.config, run.config["sampler"]
    steps, every = config["steps_per_cycle"], config["model"].get("every", 1)
    return {
        "steps": steps,
        "alpha": sampler["alpha"],
        "delta": sampler["delta"],
        "every": every,
        "evaluations": 1 + 1 / (steps * every),
    }


def _hierarchical(run: Run) -> Iterator[dict]:
    """ESS a thousand leapfrog steps of log τ², log σ² and of the slowest coefficient, a row a step size.

    All chains count, after the burn-in: a first kick at small σ² and large residuals can throw a chain to coefficients
    in the tens, where τ² follows and forces are weak, and it takes its time to come back. ``largest_log_tau2`` is the
    largest draw that was kept, in which such a chain would show.
    """
    draws, steps = run.draws, run.config["steps_per_cycle"]
    model = run.config["model"]
    for size, chains in run.groups():
        part = draws[:, chains.start : chains.stop]
        row = {"size": model["size"], "features": model["features"], **_settings(run)}
        row |= {"step_size": size, "chains": len(chains), "gradients": len(draws) * steps}
        row |= {"burn_in": run.config["burn_in"] * steps}
        row["accepted"] = float(moved(part[..., : model["features"]]).double().mean())
        row |= _efficiency("tau2", part[..., -2:-1], steps) | _efficiency("sigma2", part[..., -1:], steps)
        row |= _efficiency("coefficient", part[..., :-2], steps, together=False)
        yield row | {
            "mean_log_tau2": float(part[..., -2].double().mean()),
            "mean_log_sigma2": float(part[..., -1].double().mean()),
            "largest_log_tau2": float(part[..., -2].max()),
        }


def _mixed(run: Run) -> Iterator[dict]:
    """ESS a thousand leapfrog steps of u, of the number k of ones and of a single w, a row a step size.

    ``mean_u2`` and ``mean_k`` are held against 1 and binary/2, on the scale of their errors.
    """
    draws, steps = run.draws, run.config["steps_per_cycle"]
    for size, chains in run.groups():
        part = draws[:, chains.start : chains.stop].double()
        ones = part[..., 2:].sum(-1, keepdim=True)
        row = {"binary": part.shape[-1] - 2, **_settings(run)}
        row |= {"step_size": size, "chains": len(chains), "gradients": len(draws) * steps}
        row["accepted"] = float(moved(part[..., :2]).double().mean())
        for name, values in (("u", part[..., :1]), ("k", ones), ("w", part[..., 2:])):
            row |= _efficiency(name, values, steps)
        square = part[..., 0].square().mean(0).numpy()
        yield row | {
            "mean_u2": float(square.mean()),
            "mean_u2_error": standard_error(square),
            "mean_k": float(ones.mean()),
        }


TABLES = {
    "neal_rejection": ("neal_rejection", of_each(_rejection)),
    "neal_pictures": ("neal_pictures", of_each(_picture)),
    "neal_trajectories": ("neal_pictures", _trajectories),
    "neal_iid": ("neal_pictures", _iid),
    "neal_clustering": ("neal_clustering", of_each(_clustering)),
    "neal_patterns": ("neal_clustering", _patterns),
    "neal_hierarchical": ("neal_hierarchical", of_each(_hierarchical)),
    "neal_mixed": ("neal_mixed", of_each(_mixed)),
}
