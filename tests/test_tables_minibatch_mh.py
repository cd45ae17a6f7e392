"""Decisions on a part of the data: what they look at, what a draw costs, and their bias."""

import math
from functools import cache

import numpy as np
import pytest
import torch
from made import MadeRun
from scipy.stats import ttest_1samp, ttest_ind

from experiments.config import compose
from experiments.tables import minibatch_mh
from experiments.tables.common import standard_error
from experiments.tables.statistics import jackknifed_time
from sgmcmc.potentials.analytic import Gaussian
from sgmcmc.potentials.location import LocationMixture
from sgmcmc.random import Random


@cache
def composed() -> dict:
    return compose(["experiment=finding_minibatch_mh", "point=24"])


def setting(acceptance: str, **others) -> dict:
    """A rule on the mixture, 40 data at T = 1.5: batches of 10 for gradients, of 6 for decisions on a part."""
    part = acceptance in ("barker_minibatch", "austerity")
    sampler = {"acceptance": acceptance, "decision_batch": 6 if part else None, "sigma": 1.0 if part else None}
    config = composed() | {"sampler": composed()["sampler"] | sampler, "dtype": "float64"}
    config |= {"model": {"name": "location_mixture", "size": 40}, "temperature": 1.5}
    config |= {"data": config["data"] | {"name": "none"}}
    config |= {"batch_size": 10, "steps_per_cycle": 2, "chains": 6, "step_size": [0.05, 0.3]}
    return config | others


def test_the_truth_of_a_plane_is_that_of_its_temperature():
    """At T = ½ all covariances are halved, of correlated coordinates too."""
    truth = minibatch_mh.truth_of_plane(Gaussian(2, [[0.5, 0.3], [0.3, 0.8]], mean=[0.4, -0.3]), 0.5)
    assert truth.mean == pytest.approx([0.4, -0.3], abs=1e-9)
    assert truth.deviation**2 == pytest.approx([0.25, 0.4], abs=1e-9)
    assert truth.error == 0 and truth.chains is None


def test_spread_and_the_truth_of_a_run_worked_by_hand():
    """Three draws of two chains: means 2 and 10, deviations 1 and 4 over all six."""
    draws = np.array([[[1.0, 6.0], [3.0, 14.0]], [[1.0, 14.0], [1.0, 6.0]], [[3.0, 14.0], [3.0, 6.0]]])
    truth = minibatch_mh.truth_of_run(MadeRun(draws=torch.from_numpy(draws)))
    assert truth.mean.tolist() == [2, 10] and truth.deviation.tolist() == [1, 4]
    # Means of the first chain 5/3 and 34/3, of the second 7/3 and 26/3; all draws are one deviation from the mean.
    assert truth.chains == pytest.approx(np.array([[0, -1 / 3, 1 / 3], [0, 1 / 3, -1 / 3]]))
    assert truth.error == 0
    # About another truth: ((1, 1, 9)/4 − 1, (0, 1, 1) − 1) and ((9, 1, 9)/4 − 1, (1, 0, 0) − 1).
    each = minibatch_mh.away(draws, np.array([0.0, 6.0]), np.array([2.0, 8.0]))
    spreads = (11 / 4 - 3 + 2 - 3) / 6, (19 / 4 - 3 + 1 - 3) / 6
    assert each == pytest.approx(np.array([[spreads[0], 5 / 6, 2 / 3], [spreads[1], 7 / 6, 1 / 3]]))
    uneven = torch.from_numpy(draws * [[[1, 1], [2, 1]]])
    away = uneven.numpy() - uneven.numpy().mean((0, 1))
    own = ((away / uneven.numpy().std((0, 1))) ** 2 - 1).mean((0, 2))
    assert minibatch_mh.truth_of_run(MadeRun(draws=uneven)).error == pytest.approx(abs(own[0] - own[1]) / 2)


def losses(theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """−log of ½ N(x; θ₁, 2) + ½ N(x; θ₁ + θ₂, 2), but for a constant."""
    return -torch.log(torch.exp(-((x - theta[0]) ** 2) / 4) + torch.exp(-((x - theta.sum()) ** 2) / 4))


def looked(config: dict, draws: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """What decisions look at and what Barker's test needs, ``[looks, chains]``, by plain loops.

    AMAGOLD at friction 1 and T = 1.5, from the paper's sums, with the random numbers of the trajectories.
    """
    data, random, temperature = LocationMixture(40).data, Random(config["seed"]), 1.5
    rule = config["sampler"]["acceptance"]
    seen, needed = np.zeros((16, 6)), np.zeros((16, 6))
    for look in range(16):
        index = 2**40 + look
        normals = random.normal("noise", index, 3, 6, 2, torch.float64)
        batches = random.integers("minibatch", index, 2, 6, 10, 40)
        order = random.permutation("decision", index + 1, 6, 40, step=1)
        for chain in range(6):
            h = 0.05 if chain < 3 else 0.3
            c, begun = math.exp(-h), draws[2 * look, chain]
            x, m = begun.clone(), math.sqrt(temperature) * normals[0, chain]
            for step in range(2):
                x = (x + h / 2 * m).requires_grad_()
                prior = x[0] ** 2 / 20 + x[1] ** 2 / 2
                energy = 40 / 10 * losses(x, data[batches[step, chain]]).sum() + prior
                (slope,) = torch.autograd.grad(energy, x)
                m = c * (m - h / 2 * slope) + math.sqrt((1 - c**2) * temperature) * normals[step + 1, chain]
                m = m - h / 2 * slope
                x = (x + h / 2 * m).detach()
            change = (losses(x, data) - losses(begun, data)).numpy()
            square = ((change - change.mean()) ** 2).sum() / temperature**2
            needed[look, chain] = 40 * square / (1 + square)
            if rule == "barker_minibatch":
                for number in (6, 12, 18, 24, 30, 36, 40):
                    some = change[order[chain, :number].numpy()]
                    error = 40 / temperature * some.std(ddof=1) * math.sqrt((1 - number / 40) / number)
                    if error < 1:
                        break
                seen[look, chain] = number
            elif rule == "metropolis":
                seen[look, chain] = 40
    return seen, needed


@pytest.mark.parametrize("rule", ["monitor", "metropolis", "barker_minibatch"])
def test_what_a_decision_looks_at_is_counted_in_trajectories_of_its_own(rule):
    """At sixteen draws, every second one of 31."""
    config = setting(rule)
    noise = torch.randn(31, 6, 2, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    draws = torch.tensor([0.3, 0.5], dtype=torch.float64) + torch.tensor([0.4, 0.8], dtype=torch.float64) * noise
    found = minibatch_mh.looks(MadeRun(config=config, draws=draws))
    seen, needed = looked(config, draws)
    assert found["data"].tolist() == seen.tolist() and found["size"] == 40
    assert found["needed"] == pytest.approx(needed, rel=1e-9) and needed.min() < 4 and needed.max() > 20
    if rule == "barker_minibatch":
        whole = [[min(6 * math.ceil(one / 6), 40) for one in row] for row in needed]
        assert found["rounded"].tolist() == whole
        assert len(set(seen.flatten())) >= 4
    else:
        assert "rounded" not in found  # there are no batches


def rule_run(number: int, draws: torch.Tensor, acceptance: str, frozen=(), status="done", **others) -> MadeRun:
    facts = {"frozen": list(frozen), "seconds": 1.0, "cycles": 3}
    return MadeRun(number, setting(acceptance, **others), status, draws=draws, facts=facts)


def test_a_row_is_of_the_chains_of_one_step_size_that_are_left(monkeypatch):
    """All numbers of a decision on a part, of no decision, and of the rule that both are compared with, by loops."""
    generator = torch.Generator().manual_seed(6)
    base = torch.randn(50, 6, 2, generator=generator, dtype=torch.float64)
    for step in range(1, 50):
        base[step, :, 1] += 0.5 * base[step - 1, :, 1]
    base[9:30:4] = base[8:29:4]
    shift = torch.rand(6, 2, generator=generator, dtype=torch.float64)
    exact = rule_run(0, base, "metropolis", frozen=[4])
    some = rule_run(1, 1.3 * base + shift, "barker_minibatch", frozen=[1])
    none = rule_run(2, 1.5 * base - shift, "monitor", frozen=[0, 1, 2])
    failed = rule_run(3, None, "barker", status="diverged")
    rng = np.random.default_rng(7)
    seen = {"data": rng.integers(3, 40, (16, 6)) * 1.0, "needed": rng.uniform(1, 40, (16, 6)), "size": 40}
    seen["needed"][3, 4] = np.nan  # a trajectory that was lost
    seen["rounded"] = seen["needed"] + rng.uniform(0, 1, (16, 6))
    monkeypatch.setattr(minibatch_mh, "looks", lambda run: seen)
    rows = minibatch_mh.minibatch_mh([exact, some, none, failed])
    assert [row.get("step_size") for row in rows] == [0.05, 0.3, 0.05, 0.3, 0.05, 0.3, None]
    assert {row["target"] for row in rows} == {"location_mixture, T = 1.5"}
    assert rows[6]["why"] == "diverged at cycle 3" and rows[6]["acceptance"] == "barker"
    assert (rows[4]["chains"], rows[4]["frozen"]) == (0, 3) and "share" not in rows[4]

    axis = np.linspace(-5, 5, 401)
    first, second = np.meshgrid(axis, axis, indexing="ij")
    data = LocationMixture(40).data.numpy()
    energy = first**2 / 20 + second**2 / 2
    for x in data:
        energy = energy - np.logaddexp(-((x - first) ** 2) / 4, -((x - first - second) ** 2) / 4)
    weight = np.exp((energy.min() - energy) / 1.5)
    weight /= weight.sum()
    mean = np.array([(weight * one).sum() for one in (first, second)])
    deviation = np.sqrt([(weight * (one - m) ** 2).sum() for one, m in zip((first, second), mean, strict=True)])

    def spread(run, chain):
        z = (run.draws[:, chain].numpy() - mean) / deviation
        return float((z**2 - 1).mean())

    def means(run, chain):
        return (run.draws[:, chain].numpy().mean(0) - mean) / deviation

    alive = {(0, 0.05): [0, 1, 2], (0, 0.3): [3, 5], (1, 0.05): [0, 2], (1, 0.3): [3, 4, 5], (2, 0.3): [3, 4, 5]}
    for row in rows[:4] + rows[5:6]:
        run = next(run for run in (exact, some, none) if run.config["sampler"]["acceptance"] == row["acceptance"])
        chains = alive[run.number, row["step_size"]]
        data = np.array([seen["data"][:, chain].mean() for chain in chains])
        # Ten data for each of two gradients; a decision on a part has U at neither end, an exact one at the start.
        cost = 20 + data.mean() * (2 if run is some else 1)
        tau, error = jackknifed_time(run.draws[:, chains], together=False)
        assert math.isfinite(tau)
        ess = 1e6 / tau / cost
        share_error = standard_error(data)
        expected = {"size": 40, "chains": len(chains), "frozen": 3 - len(chains), "draws_a_chain": 50, "gradients": 20}
        expected |= {"share": data.mean() / 40, "share_error": share_error / 40, "evaluations": cost, "tau": tau}
        expected |= {"tau_error": error, "ess": ess, "seconds": 1.0, "truth_error": 0}
        relative = (error / tau) ** 2 + ((2 if run is some else 1) * share_error / cost) ** 2
        expected |= {"ess_error": ess * relative**0.5}
        for name in ("needed", "rounded"):
            values = seen[name][:, chains]
            expected[name] = values[~np.isnan(values)].mean() / 40
        mine = [spread(run, chain) for chain in chains]
        both = [spread(run, chain) - spread(exact, chain) for chain in chains if chain in alive[0, row["step_size"]]]
        expected |= {"spread": np.mean(mine), "spread_error": standard_error(mine)}
        expected |= {"away": np.mean(both), "away_error": standard_error(both)}
        p = [ttest_1samp(values, 0).pvalue for values in (mine, *np.transpose([means(run, one) for one in chains]))]
        expected["exact_p"] = min(1, 3 * min(p))
        assert {key: row[key] for key in expected} == pytest.approx(expected, rel=1e-6, nan_ok=True)
        assert ("accepted" in row) == (run is not none)
        if run is not none:
            assert row["accepted"] == pytest.approx(43 / 49)


def test_biases_are_about_the_reference_of_the_target_and_its_error_is_told(monkeypatch):
    """A reference of two chains is no row; of a target without one, or with a lost one, no bias is known."""
    seen = {name: np.full((16, 6), 20.0) for name in ("data", "needed", "rounded")} | {"size": 40}
    monkeypatch.setattr(minibatch_mh, "looks", lambda run: seen)
    generator = torch.Generator().manual_seed(8)
    wide, true = (torch.randn(40, chains, 2, generator=generator, dtype=torch.float64) for chains in (6, 4))
    heart = {"model": {"name": "logistic"}, "data": composed()["data"]}
    tuned = {"target": 0.8, "trajectory": None}
    reference = rule_run(0, 3 * true + 1, "metropolis", **heart, tune=tuned)
    rows = minibatch_mh.minibatch_mh([rule_run(1, 6 * wide + 1, "metropolis", **heart), reference])
    assert [row["target"] for row in rows] == ["heart, T = 1.5"] * 2
    mean, deviation = (3 * true + 1).mean((0, 1)), (3 * true + 1).std((0, 1), correction=0)
    own = (((3 * true + 1 - mean) / deviation) ** 2).mean((0, 2))
    known = [own - 1, *((3 * true + 1 - mean) / deviation).mean(0).T]
    for row, chains in zip(rows, (slice(0, 3), slice(3, 6)), strict=True):
        part = (6 * wide[:, chains] + 1 - mean) / deviation
        assert row["truth_error"] == pytest.approx(float(own.std() / 2))
        assert row["spread"] == pytest.approx(float(part.square().mean() - 1)) and row["away"] == 0
        mine = [part.square().mean((0, 2)) - 1, *part.mean(0).T]
        p = [ttest_ind(one, other, equal_var=False).pvalue for one, other in zip(mine, known, strict=True)]
        assert row["exact_p"] == pytest.approx(min(1, 3 * min(p))) and row["exact_p"] < 0.2
    lost = rule_run(0, None, "metropolis", **heart, tune=tuned, status="failed")
    (row, _) = minibatch_mh.minibatch_mh([rule_run(1, wide, "metropolis", **heart), lost])
    assert row["tau"] > 0 and "spread" not in row and "exact_p" not in row
