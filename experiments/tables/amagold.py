"""Tables of the AMAGOLD paper (Zhang, Cooper and De Sa 2020): its double well, two dimensions, logistic regression.

J is the symmetric Kullback-Leibler divergence between a histogram of draws and the exact bin masses
(``sgmcmc.diagnostics.symmetric_kl``; the paper does not define its own). A column ``…_one`` is of single chains, as
the paper's are: the mean over chains, ``low`` and ``high`` the central 80 % of them. Without it, all chains of a step
size count together. ``floor`` is J's expectation for as many independent exact draws, which no sampler beats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import torch
from torch import Tensor

from experiments import moments
from experiments.tables.common import Run, of_each, passes, standard_error, unfinished
from experiments.tables.statistics import (
    PLANES,
    WELL,
    accepted,
    autocorrelation_time,
    away_from_toy,
    counts_of,
    errors_of,
    exact_p,
    jackknife,
    mse_of_mean,
    plane_masses,
    shared_bias,
    well_masses,
)
from sgmcmc.diagnostics import symmetric_kl, symmetric_kl_floor

# ---------------------------------------------------------------------------------------------- common


def divergences(counts: np.ndarray, masses: np.ndarray, draws: int, occupied_only: bool = False) -> dict:
    """J of single chains and of all together, from their histograms ``[chains, *bins]`` of ``draws`` draws each.

    The error of the J of all is the jackknife's over chains. ``bias`` is ``shared_bias``, with its error.
    """
    chains, total = len(counts), counts.sum(0)
    one = symmetric_kl(counts, masses, draws, occupied_only)
    low, high = np.quantile(one, (0.1, 0.9))
    without = [symmetric_kl(total - part, masses, draws * (chains - 1), occupied_only) for part in counts[chains < 2 :]]
    bias, bias_error = shared_bias(counts, masses, draws)
    return {
        "J_one": float(one.mean()),
        "J_one_low": float(low),
        "J_one_high": float(high),
        "floor_one": _floor(masses.tobytes(), draws, occupied_only),
        "J": float(symmetric_kl(total, masses, draws * chains, occupied_only)),
        "J_error": jackknife(without),
        "floor": _floor(masses.tobytes(), draws * chains, occupied_only),
        "bias": bias,
        "bias_error": bias_error,
    }


@cache
def _floor(masses: bytes, draws: int, occupied_only: bool) -> float:
    return symmetric_kl_floor(np.frombuffer(masses), draws, occupied_only)


def checkpoints(draws: int) -> list[int]:
    """1, 2, 5, 10, 20, … up to ``draws``, from 10 on, and ``draws``."""
    steps = [first * 10**power for power in range(1, 9) for first in (1, 2, 5)]
    return [*(number for number in steps if number < draws), draws]


def seconds_a_cycle(run: Run) -> float:
    """Seconds a cycle of a run, at its fastest tenth of rows: whatever else a machine does only adds to them."""
    return float(run.config["steps_per_cycle"] / np.quantile(run.metrics["steps_per_second"], 0.9))


# ---------------------------------------------------------------------------------------------- double well


def _double_well(run: Run) -> Iterator[dict]:
    """J, autocorrelation time, moments with their errors over chains, acceptance: a row a step size."""
    draws, tuned = run.draws, run.config["tune"]["target"]
    corrected = run.config["sampler"]["acceptance"] != "monitor"
    for size, chains, numbers in run.alive_groups():
        place = {"step_size": float(run.metrics["step_size"][-1]) if tuned else size, **numbers}
        if not chains:
            yield place
            continue
        part = draws[:, chains]
        tau, tau_error = autocorrelation_time(part)
        means = part.double().mean((0, 2))
        squares = (part.double() - means.mean()).square().mean((0, 2))
        yield {
            **place,
            "draws_a_chain": len(part),
            **divergences(counts_of(part, WELL), well_masses(), len(part)),
            "autocorrelation_time": tau,
            "autocorrelation_time_error": tau_error,
            "mean": float(means.mean()),
            "mean_error": standard_error(means),
            "variance": float(squares.mean()),
            "variance_error": standard_error(squares),
            **(accepted(part) if corrected else {}),
        }


def _word(run: Run) -> dict:
    """What tells the double well's runs apart."""
    return {"word": run.config["sampler"]["word"], "tuned_to": run.config["tune"]["target"]}


def _double_well_density(run: Run) -> Iterator[dict]:
    """Densities (histograms) for the figures' step sizes: of the first chain, the central 80 % of chains, the exact."""
    draws, tuned, word = run.draws, run.config["tune"]["target"], run.config["sampler"]["word"]
    width, centres = 0.1, np.linspace(-5.95, 5.95, 120)
    exact = well_masses() / width
    for size, chains, _ in run.alive_groups():
        if not chains or word == "AE" or size not in (0.01, 0.05, 0.15, 0.25):
            continue
        density = counts_of(draws[:, chains], WELL) / (len(draws) * width)
        low, high = np.quantile(density, (0.1, 0.9), axis=0)
        for place, x in enumerate(centres):
            yield {
                "step_size": float(run.metrics["step_size"][-1]) if tuned else size,
                "x": float(x),
                "one": float(density[0, place]),
                "low": float(low[place]),
                "high": float(high[place]),
                "exact": float(exact[place]),
            }


# ---------------------------------------------------------------------------------------------- two dimensions

SHOWN = 0.15  # the step size of Figures 3 and 7


def _planes(run: Run) -> Iterator[dict]:
    """J over bins with draws, autocorrelation time (the slowest of z₁, z₂, z₁z₂), acceptance: a row a step size."""
    draws, model = run.draws, run.config["model"]["name"]
    masses, corrected = plane_masses(model), run.config["sampler"]["acceptance"] != "monitor"
    for size, chains, numbers in run.alive_groups():
        place = {"step_size": size, **numbers}
        if not chains:
            yield place
            continue
        part = draws[:, chains]
        tau, tau_error = autocorrelation_time(torch.cat((part, part.prod(-1, keepdim=True)), -1))
        counts = counts_of(part, PLANES[model][1])
        yield {
            **place,
            "draws_a_chain": len(part),
            **divergences(counts, masses, len(part), occupied_only=True),
            "exact_p": exact_p(away_from_toy(model, part, counts)),
            "autocorrelation_time": tau,
            "autocorrelation_time_error": tau_error,
            **(accepted(part) if corrected else {}),
        }


def _model(run: Run) -> dict:
    """Which of the distributions in the plane a run is of."""
    return {"model": run.config["model"]["name"]}


def growth(draws: Tensor, model: str) -> Iterator[tuple[int, dict]]:
    """(n, J and ``exact_p`` of the first n draws of each chain) at the checkpoints of draws ``[draws, chains, 2]``."""
    masses, before, counts = plane_masses(model), 0, 0
    for number in checkpoints(len(draws)):
        counts = counts + counts_of(draws[before:number], PLANES[model][1])
        before = number
        js = divergences(counts, masses, number, occupied_only=True)
        yield number, js | {"exact_p": exact_p(away_from_toy(model, draws[:number], counts))}


def _planes_growth(run: Run) -> Iterator[dict]:
    """J and ``exact_p`` of the first draws at the step size of Figure 3.

    Seconds are those of the tensor's chains, divided by them.
    """
    draws, model = run.draws, run.config["model"]["name"]
    seconds = seconds_a_cycle(run) / run.config["chains"]
    for size, chains, numbers in run.alive_groups():
        if size != SHOWN:
            continue
        place = {"step_size": size, **numbers, "seconds_a_draw": seconds}
        if not chains:
            yield place
            continue
        for number, js in growth(draws[:, chains], model):
            yield {**place, "draws_a_chain": number, **js}


def _planes_density(runs: list[Run]) -> list[dict]:
    """The exact densities, for pictures, on 76 points a side of the box that J is taken on."""
    rows = []
    for model in dict.fromkeys(run.config["model"]["name"] for run in runs):
        target, grid = PLANES[model]
        axes = [
            torch.linspace(low, high, 76, dtype=torch.float64) for low, high in zip(grid.low, grid.high, strict=True)
        ]
        points = torch.cartesian_prod(*axes)
        density = torch.exp(-target.potential(points))
        for (first, second), value in zip(points.tolist(), density.tolist(), strict=True):
            rows.append({"model": model, "z1": first, "z2": second, "density": value})
    return rows


def _one_chain(run: Run) -> Iterator[dict]:
    """J of one chain's first draws over the seconds that they took."""
    model, seconds = run.config["model"]["name"], seconds_a_cycle(run)
    for number, js in growth(run.draws, model):
        yield {
            "step_size": run.config["step_size"],
            "draws": number,
            "seconds_a_draw": seconds,
            "J": js["J_one"],
            "floor": js["floor_one"],
        }


# ---------------------------------------------------------------------------------------------- logistic regression

CURVES = (1e-4, 1e-3)  # step sizes whose error is followed along the chain


def purpose(run: Run) -> str:
    """What a run of the logistic experiment is for: ``figure 4``, ``figure 8`` (its draws are not thinned), the
    ``reference`` that the posterior mean is taken from, or the ``seconds`` of one chain."""
    if run.config["keep"] == "none":
        return "reference"
    if run.config["chains"] == 1:
        return "seconds"
    return "figure 8" if run.config["thin"] == 1 else "figure 4"


def of_purpose(runs: list[Run], wanted: str) -> dict[tuple[str, str], Run]:
    """The runs of one purpose, by data set and sampler."""
    return {(run.config["data"]["name"], run.sampler): run for run in runs if purpose(run) == wanted}


def reference(runs: list[Run], data: str) -> tuple[np.ndarray, float] | None:
    """The posterior mean ``[dim]`` by the reference run, and its own mean squared error (from its chains' spread);
    None where that run has not finished."""
    run = of_purpose(runs, "reference").get((data, "hmc"))
    if run is None or run.status != "done":
        return None
    means = moments.read(run.path, run.facts)["mean"].numpy()
    return means.mean(0), mse_of_mean(means)


def _on(run: Run) -> dict:
    """What every row of a logistic run begins with."""
    return {"data": run.config["data"]["name"], "sampler": run.sampler, "status": run.status}


def _main_rows(runs: list[Run], rows: Callable[[Run, tuple[np.ndarray, float]], Iterator[dict]]) -> list[dict]:
    """The ``rows`` (of a run and the reference) of Figure 4's runs; one row, which says so, of a run without any."""
    table = []
    for (data, _), run in of_purpose(runs, "figure 4").items():
        truth = reference(runs, data)
        if run.status != "done" or truth is None:
            why = "the reference has not finished" if run.status == "done" else unfinished(run)
            table.append({**_on(run), "status": "failed" if run.status == "done" else run.status, "why": why})
            continue
        common = {"passes_a_cycle": passes(run.config), "reference_mse": truth[1]}
        table += [{**_on(run), **common, **row} for row in rows(run, truth)]
    return table


def _logistic(runs: list[Run]) -> list[dict]:
    """Error of the posterior mean over step sizes, of chains of full length.

    Their means are over every ``thin``-th draw. Of an autoregression this makes the error x coth x times as large,
    x = thin/τ: 1.008 for 20 and a τ of 130, the shortest at paper scale.
    """

    def rows(run: Run, truth: tuple[np.ndarray, float]) -> Iterator[dict]:
        draws, thin = run.draws.double(), run.config["thin"]
        for size, chains, numbers in run.alive_groups():
            place = {"step_size": size, **numbers, "seconds": run.facts["seconds"]}
            if not chains:
                yield place
                continue
            tau, tau_error = autocorrelation_time(draws[:, chains])
            yield {
                **place,
                "cycles": len(draws) * thin,
                **errors_of(draws[:, chains].mean(0).numpy(), *truth),
                "autocorrelation_time": tau * thin,
                "autocorrelation_time_error": tau_error * thin,
            }

    return _main_rows(runs, rows)


def _logistic_growth(runs: list[Run]) -> list[dict]:
    """Error of the running mean of the draws kept along the chain, with the seconds of one chain (from the runs that
    have one)."""
    timed = {key: seconds_a_cycle(run) for key, run in of_purpose(runs, "seconds").items() if run.status == "done"}

    def rows(run: Run, truth: tuple[np.ndarray, float]) -> Iterator[dict]:
        running, thin = run.draws.double().cumsum(0), run.config["thin"]
        seconds = timed.get((run.config["data"]["name"], run.sampler), float("nan"))
        for size, chains, numbers in run.alive_groups():
            place = {"step_size": size, **numbers, "seconds_a_cycle": seconds}
            if size in CURVES and not chains:
                yield place
            for number in checkpoints(len(running)) if size in CURVES and chains else ():
                means = (running[number - 1, chains] / number).numpy()
                yield {**place, "cycles": number * thin, **errors_of(means, *truth)}

    return _main_rows(runs, rows)


def _logistic_acceptance(runs: list[Run]) -> list[dict]:
    """AMAGOLD's acceptance over step sizes: the mean over chains, and its error."""
    rows = []
    for run in of_purpose(runs, "figure 8").values():
        if run.status != "done":
            rows.append({**_on(run), "why": unfinished(run)})
            continue
        draws = run.draws
        for size, chains, numbers in run.alive_groups():
            place = {**_on(run), "step_size": size, **numbers, "cycles": len(draws)}
            rows.append({**place, **(accepted(draws[:, chains]) if chains else {})})
    return rows


TABLES = {
    "amagold_fig1": ("amagold_fig1", of_each(_double_well, _word)),
    "amagold_fig1_density": ("amagold_fig1", of_each(_double_well_density, _word)),
    "amagold_2d": ("amagold_2d", of_each(_planes, _model)),
    "amagold_2d_printed": ("amagold_2d_printed", of_each(_planes, _model)),
    "amagold_2d_growth": ("amagold_2d", of_each(_planes_growth, _model)),
    "amagold_2d_density": ("amagold_2d", _planes_density),
    "amagold_one_chain": ("amagold_one_chain", of_each(_one_chain, _model)),
    "amagold_logistic": ("amagold_logistic", _logistic),
    "amagold_logistic_printed": ("amagold_logistic_printed", _logistic),
    "amagold_logistic_growth": ("amagold_logistic", _logistic_growth),
    "amagold_logistic_acceptance": ("amagold_logistic", _logistic_acceptance),
}
