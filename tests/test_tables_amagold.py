"""The computations behind the tables of the AMAGOLD paper, on draws of known law."""

import math

import numpy as np
import pytest
import torch

from experiments.tables import amagold
from sgmcmc.random import Random


def exact_draws(target, chains, draws):
    """Independent draws ``[draws, chains, dim]``."""
    theta = target.exact(chains * draws, Random(5))
    return theta.view(draws, chains, -1).float()


def test_independent_draws_are_at_the_floor():
    draws = exact_draws(amagold.DoubleWell(), 40, 1000)
    js = amagold.divergences(amagold.counts_of(draws, amagold.WELL), amagold.well_masses(), 1000)
    assert js["J_one"] == pytest.approx(js["floor_one"], rel=0.1)
    assert js["J"] == pytest.approx(js["floor"], rel=0.6) and js["J"] < js["J_one"] / 20
    assert js["J_one_low"] < js["J_one"] < js["J_one_high"]
    assert abs(js["bias"]) < 4 * js["bias_error"] < 0.003


def test_the_shared_bias_is_what_stays_of_j():
    """Of draws that are 2 % too wide, each five times over, against the J of a million of them."""
    wide = 1.02 * exact_draws(amagold.DoubleWell(), 1, 1_000_000)
    stays = amagold.divergences(amagold.counts_of(wide, amagold.WELL), amagold.well_masses(), 1_000_000)["J_one"]
    draws = 1.02 * exact_draws(amagold.DoubleWell(), 40, 1000).repeat_interleave(5, 0)
    js = amagold.divergences(amagold.counts_of(draws, amagold.WELL), amagold.well_masses(), 5000)
    assert js["J"] > 1.1 * stays
    assert js["bias"] == pytest.approx(stays, abs=3 * js["bias_error"]) and js["bias_error"] < stays / 3


@pytest.mark.parametrize("model", ["banana", "mixture"])
def test_a_plane_s_grid_holds_its_mass_and_its_floor_is_that_of_independent_draws(model):
    masses = amagold.plane_masses(model)
    assert 0.998 < masses.sum() < 1
    draws = exact_draws(amagold.PLANES[model][0], 10, 2000)
    (*_, (number, js)) = amagold.growth(draws, model)
    assert number == 2000
    assert js["J_one"] == pytest.approx(js["floor_one"], rel=0.1)
    assert js["J"] == pytest.approx(js["floor"], rel=0.1)


def test_growth_counts_the_first_draws():
    draws = exact_draws(amagold.PLANES["banana"][0], 3, 70)
    rows = dict(amagold.growth(draws, "banana"))
    assert list(rows) == [10, 20, 50, 70]
    alone = dict(amagold.growth(draws[:20], "banana"))
    assert rows[20]["J"] == alone[20]["J"] and rows[20]["J_one"] == alone[20]["J_one"]


def test_counts_are_each_chain_s():
    draws = torch.tensor([[[0.05], [-7.0]], [[0.05], [5.95]]])
    counts = amagold.counts_of(draws, amagold.WELL)
    assert counts.shape == (2, 120)
    assert counts[0, 60] == 2 and counts[1, 119] == 1 and counts.sum() == 3  # −7 is in no bin


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).normal(size=30)
    error = amagold.jackknife([np.delete(values, i).mean() for i in range(30)])
    assert error == pytest.approx(values.std(ddof=1) / 30**0.5)
    assert math.isnan(amagold.jackknife([0.0]))


def test_errors_of_tells_shared_bias_from_scatter():
    rng = np.random.default_rng(1)
    means = 0.3 + 0.5 * rng.normal(size=(4000, 6))
    errors = amagold.errors_of(means, np.zeros(6))
    assert errors["mse"] == pytest.approx(0.3**2 + 0.5**2, abs=4 * errors["mse_error"])
    assert errors["bias2"] == pytest.approx(0.3**2, abs=4 * errors["bias2_error"])
    assert errors["bias2_error"] < 0.01
    assert amagold.errors_of(means - 0.3, np.zeros(6))["bias2"] == pytest.approx(0, abs=1e-3)


def test_checkpoints_end_with_the_last_draw():
    assert amagold.checkpoints(100) == [10, 20, 50, 100]
    assert amagold.checkpoints(4500) == [10, 20, 50, 100, 200, 500, 1000, 2000, 4500]
    assert amagold.checkpoints(7) == [7]


@pytest.mark.parametrize(
    ("sampler", "gradient", "passes"),
    [("amagold", "minibatch", 2.6), ("sghmc", "minibatch", 1.6), ("hmc", "full", 11.0), ("l2mc", "full", 11.0)],
)
def test_passes_over_the_data(sampler, gradient, passes):
    config = {"batch_size": 16, "steps_per_cycle": 10, "sampler": {"name": sampler, "gradient": gradient}}
    assert amagold.passes_a_cycle(config, 100) == pytest.approx(passes)


def test_the_tau_of_a_chain_that_stands_still_is_unknown():
    assert math.isnan(amagold.autocorrelation_time(torch.zeros(50, 2, 1))[0])
    draws = torch.from_numpy(np.random.default_rng(2).normal(size=(2000, 4, 2)))
    assert amagold.autocorrelation_time(draws)[0] == pytest.approx(1, abs=0.15)
    assert amagold.accepted(torch.tensor([[[0.0]], [[0.0]], [[1.0]]])) == 0.5
