"""The statistics that more than one source's tables take, on draws of known law."""

import math

import numpy as np
import pytest
import torch

from experiments.tables import statistics


def test_counts_are_each_chain_s():
    draws = torch.tensor([[[0.05], [-7.0]], [[0.05], [5.95]]])
    counts = statistics.counts_of(draws, statistics.WELL)
    assert counts.shape == (2, 120)
    assert counts[0, 60] == 2 and counts[1, 119] == 1 and counts.sum() == 3  # −7 is in no bin


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).normal(size=30)
    error = statistics.jackknife([np.delete(values, i).mean() for i in range(30)])
    assert error == pytest.approx(values.std(ddof=1) / 30**0.5)
    assert math.isnan(statistics.jackknife([0.0]))


def test_errors_of_tells_shared_bias_from_scatter():
    rng = np.random.default_rng(1)
    means = 0.3 + 0.5 * rng.normal(size=(4000, 6))
    errors = statistics.errors_of(means, np.zeros(6))
    assert errors["mse"] == pytest.approx(0.3**2 + 0.5**2, abs=4 * errors["mse_error"])
    assert errors["bias2"] == pytest.approx(0.3**2, abs=4 * errors["bias2_error"])
    assert errors["bias2_error"] < 0.01
    assert statistics.errors_of(means - 0.3, np.zeros(6))["bias2"] == pytest.approx(0, abs=1e-3)
    assert statistics.errors_of(means, np.zeros(6), 0.04)["bias2"] == pytest.approx(errors["bias2"] - 0.04)


def test_the_error_of_a_reference_is_that_of_the_mean_of_its_chains():
    means = 0.5 * np.random.default_rng(2).normal(size=(4000, 25, 6))
    own = np.array([statistics.mse_of_mean(part) for part in means])
    assert own.mean() == pytest.approx(0.5**2 / 25, rel=0.01)
    assert (means.mean(1) ** 2).mean() == pytest.approx(own.mean(), rel=0.05)


def test_the_tau_of_a_chain_that_stands_still_is_unknown():
    assert math.isnan(statistics.autocorrelation_time(torch.zeros(50, 2, 1))[0])
    draws = torch.from_numpy(np.random.default_rng(2).normal(size=(2000, 4, 2)))
    assert statistics.autocorrelation_time(draws)[0] == pytest.approx(1, abs=0.15)
    assert statistics.accepted(torch.tensor([[[0.0]], [[0.0]], [[1.0]]]))["accepted"] == 0.5


def test_acceptance_has_its_error_over_chains():
    draws = torch.tensor([[[0.0], [0.0]], [[0.0], [1.0]], [[1.0], [2.0]]])
    assert statistics.accepted(draws) == {"accepted": 0.75, "accepted_error": pytest.approx(0.25)}
