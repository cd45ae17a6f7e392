"""The statistics that more than one source's tables take, on draws of known law."""

import itertools
import math
from statistics import pstdev, stdev

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm
from test_diagnostics import doubled

from experiments.tables import statistics


def test_counts_are_each_chain_s():
    draws = torch.tensor([[[0.05], [-7.0]], [[0.05], [5.95]]])
    counts = statistics.counts_of(draws, statistics.WELL)
    assert counts.shape == (2, 120)
    assert counts[0, 60] == 2 and counts[1, 119] == 1 and counts.sum() == 3  # −7 is in no bin


def test_quarters_are_of_bins_next_to_each_other_on_every_axis():
    """Axis 0: .3, .3, .4 of the mass, whose middles are .15, .45 and .8; axis 1: .3, .7, middles .15 and .65."""
    masses = np.array([[0.1, 0.2], [0.1, 0.2], [0.1, 0.3]])
    counts = np.array([[[1, 0], [0, 4], [2, 1]], [[0, 0], [0, 0], [0, 10]]])
    away = statistics.quarters(counts, masses, 10)
    np.testing.assert_allclose(away[0], [0.1 - 0.3, 0.4 - 0.3, 0, 0.3 - 0.4, 0.3 - 0.3, 0, 0.5 - 0.7, 0], atol=1e-15)
    np.testing.assert_allclose(away[1], [-0.3, -0.3, 0, 1 - 0.4, -0.3, 0, 0.3, 0], atol=1e-15)
    halves = statistics.quarters(np.array([[2, 2, 0, 4]]), np.full(4, 0.25), 10)  # two draws outside of the grid
    np.testing.assert_allclose(halves, [[-0.05, -0.05, -0.25, 0.15]])


@pytest.mark.thorough
def test_exact_means_are_unlikely_as_often_as_is_said():
    """4,000 sets of five functions of ten chains: p < .1 in at most a tenth, by Bonferroni in nearly that."""
    rng = np.random.default_rng(3)
    found = np.array([statistics.exact_p(rng.normal(size=(10, 5))) for _ in range(4000)])
    against = np.array([statistics.exact_p(rng.normal(size=(10, 5)), rng.normal(size=(30, 5))) for _ in range(4000)])
    for p in (found, against):
        assert 0.1 * 0.9 - 4.5 * 0.0048 < (p < 0.1).mean() < 0.1 + 4.5 * 0.0048
    assert statistics.exact_p(rng.normal(size=(10, 5)) + [0, 0, 5, 0, 0]) < 1e-4
    assert statistics.exact_p(np.column_stack((np.ones(3), [0.1, -0.1, 0.0]))) == 0  # all are off by as much


def test_nothing_is_known_of_one_chain_or_of_what_does_not_differ():
    assert math.isnan(statistics.exact_p(np.ones((1, 2)))) and math.isnan(statistics.exact_p(np.zeros((4, 2))))
    assert math.isnan(statistics.exact_p(np.ones((3, 2)), np.ones((1, 2))))


def test_the_jackknife_of_a_mean_is_its_standard_error():
    values = np.random.default_rng(0).normal(size=30)
    error = statistics.jackknife([np.delete(values, i).mean() for i in range(30)])
    assert error == pytest.approx(values.std(ddof=1) / 30**0.5)
    assert math.isnan(statistics.jackknife([0.0]))
    assert statistics.jackknife([1.0, 4.0]) == 1.5


@pytest.mark.thorough
def test_errors_of_tells_shared_bias_from_scatter():
    rng = np.random.default_rng(1)
    means = 0.3 + 0.5 * rng.normal(size=(2000, 6))
    errors = statistics.errors_of(means, np.zeros(6))
    assert errors["mse"] == pytest.approx(0.3**2 + 0.5**2, abs=5.5 * errors["mse_error"])
    assert errors["bias2"] == pytest.approx(0.3**2, abs=5.5 * errors["bias2_error"])
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
    draws = torch.from_numpy(np.random.default_rng(2).normal(size=(4000, 20, 2)))
    assert statistics.autocorrelation_time(draws)[0] == pytest.approx(1, abs=0.15)
    assert statistics.accepted(torch.tensor([[[0.0]], [[0.0]], [[1.0]]]))["accepted"] == 0.5


def test_acceptance_has_its_error_over_chains():
    draws = torch.tensor([[[0.0], [0.0]], [[0.0], [1.0]], [[1.0], [2.0]]])
    assert statistics.accepted(draws) == {"accepted": 0.75, "accepted_error": pytest.approx(0.25)}


def test_the_planes_bins_have_the_masses_of_their_densities_on_the_stated_boxes():
    """By another way: the first coordinate's normal distribution function given the second, integrated over the second.

    Bins are 100 x 100, of [-5, 15] x [-8, 8] for the banana and of [-6, 6] x [-6, 6] for the mixture.
    """
    nodes, weights = np.polynomial.legendre.leggauss(12)

    def masses(low, high, conditionals):
        edges = [np.linspace(low[axis], high[axis], 101) for axis in (0, 1)]
        width = edges[1][1] - edges[1][0]
        z2 = (edges[1][:-1, None] + width / 2 * (1 + nodes))[None]
        found = 0.0
        for share, spread, mean, deviation in conditionals:
            below = norm.cdf((edges[0][:, None, None] - mean(z2)) / deviation) * norm.pdf(z2, scale=spread)
            found = found + share * (np.diff(below, axis=0) * weights * width / 2).sum(-1)
        return found

    banana = masses((-5, -8), (15, 8), [(1.0, 2.0, lambda z: z**2 / 4, 1.0)])
    slopes = [(0.5, 2**0.5, lambda z, slope=slope: slope * z, 0.38**0.5) for slope in (0.9, -0.9)]
    for model, expected in (("banana", banana), ("mixture", masses((-6, -6), (6, 6), slopes))):
        assert statistics.plane_masses(model).shape == (100, 100)
        np.testing.assert_allclose(statistics.plane_masses(model), expected, rtol=1e-7, atol=1e-14)
    draws = torch.tensor([[[-4.9, 7.9], [0.05, -7.7]], [[14.9, 0.01], [16.0, 0.0]]])
    counts = statistics.counts_of(draws, statistics.PLANES["banana"][1])
    assert counts[0, 0, 99] == counts[0, 99, 50] == counts[1, 25, 1] == 1 and counts.sum() == 3


def test_the_double_well_s_bins_have_the_masses_of_its_density():
    masses = statistics.well_masses()
    edges = np.linspace(-6, 6, 121)

    def density(x):
        return math.exp(-((x**4 + x**3 - 13 * x**2 - x + 12) / 14 + 0.5))

    total = quad(density, -9, 9, points=(-3, 0, 2.5), epsabs=1e-13)[0]
    assert total == pytest.approx(28.0224, abs=1e-4)
    assert masses.shape == (120,)
    for place in (0, 7, 31, 60, 84, 119):
        expected = quad(density, edges[place], edges[place + 1])[0] / total
        assert masses[place] == pytest.approx(expected, rel=1e-6, abs=1e-13)


def shared(histograms, masses, draws) -> float:
    """Over pairs of different chains, the mean of sum (q_i - p)(q_j - p)/p."""
    pairs, total = 0, 0.0
    for one, other in itertools.permutations(histograms, 2):
        pairs += 1
        for mine, others, p in zip(one, other, masses, strict=True):
            total += (mine / draws - p) * (others / draws - p) / p
    return total / pairs


def test_the_shared_bias_is_a_mean_over_pairs_of_chains():
    """A bin of just 10 expected draws is its own; those of less are one bin, with the draws outside of the grid."""
    masses = np.array([0.04, 0.5, 0.25, 0.1, 0.05])
    counts = np.array([[2, 11, 5, 4, 1], [0, 14, 7, 2, 0], [1, 9, 8, 1, 3], [0, 13, 9, 3, 0]])
    joined, p = [[*row[1:4], 25 - sum(row[1:4])] for row in counts], [0.5, 0.25, 0.1, 0.15]
    without = [shared([*joined[:i], *joined[i + 1 :]], p, 25) for i in range(4)]
    bias, error = statistics.shared_bias(counts, masses, 25)
    assert bias == pytest.approx(shared(joined, p, 25), rel=1e-10)
    mean = sum(without) / 4
    assert error == pytest.approx(math.sqrt(3 / 4 * sum((value - mean) ** 2 for value in without)), rel=1e-10)
    three, parts = np.array([[7, 12], [9, 10], [11, 4]]), [[7, 12, 6], [9, 10, 6], [11, 4, 10]]
    bias, _ = statistics.shared_bias(three, np.array([0.4, 0.4]), 25)
    assert bias == pytest.approx(shared(parts, [0.4, 0.4, 0.2], 25))
    assert all(map(math.isnan, statistics.shared_bias(three[:2], np.array([0.4, 0.4]), 25)))


def test_no_shared_bias_is_known_of_bins_that_all_expect_less_than_ten_draws():
    counts = np.array([[1, 2], [0, 3], [2, 1], [1, 1]])
    assert all(map(math.isnan, statistics.shared_bias(counts, np.array([0.4, 0.4]), 4)))


def test_bins_that_hold_everything_leave_no_rest():
    """What is left of a sum of masses by rounding is no bin: it would be divided by."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        p = rng.dirichlet(np.full(5, 9.0))
        counts = rng.multinomial(700, p, 4)
        assert statistics.shared_bias(counts, p, 700)[0] == pytest.approx(shared(counts, p, 700), rel=1e-6, abs=1e-9)


def test_errors_of_three_means_by_hand():
    """Distances (1, 2), (3, 4) and (-2, 0) from (1, -1); without one chain, of the others alone."""
    truth = np.array([1.0, -1.0])
    away = np.array([[1.0, 2.0], [3.0, 4.0], [-2.0, 0.0]])
    errors = statistics.errors_of(truth + away, truth, 0.125)
    squares = [2.5, 12.5, 2.0]
    logs = [math.log(value) for value in squares]
    assert errors["mse"] == pytest.approx(17 / 3)
    assert errors["mse_error"] == pytest.approx(stdev(squares) / 3**0.5)
    assert errors["log_mse"] == pytest.approx(sum(logs) / 3)
    assert errors["log_mse_error"] == pytest.approx(stdev(logs) / 3**0.5)
    assert (errors["low"], errors["high"]) == (pytest.approx(2), pytest.approx(12.5))
    # Variances 19/3 and 4, means 2/3 and 2; of two chains the mean of products is what squares leave.
    assert errors["bias2"] == pytest.approx(((2 / 3) ** 2 + 2**2) / 2 - (19 / 3 + 4) / 2 / 3 - 0.125)
    pairs = [(3 * -2 + 4 * 0) / 2 - 0.125, (1 * -2 + 2 * 0) / 2 - 0.125, (1 * 3 + 2 * 4) / 2 - 0.125]
    spread = sum((value - sum(pairs) / 3) ** 2 for value in pairs)
    assert errors["bias2_error"] == pytest.approx(math.sqrt(2 / 3 * spread))
    two = statistics.errors_of((truth + away)[:2], truth)
    assert two["bias2"] == pytest.approx((1 * 3 + 2 * 4) / 2) and math.isnan(two["bias2_error"])
    assert statistics.errors_of((truth + away)[1:2], truth, 0.125) == {"mse": pytest.approx(12.5)}


def test_the_own_error_of_a_mean_by_hand():
    means = np.array([[1.0, 2.0, 0.0], [3.0, 5.0, 0.0], [2.0, 5.0, 0.0]])
    assert statistics.mse_of_mean(means) == pytest.approx((1 / 3 + 3 / 3 + 0) / 3)


def autoregressions(length: int, chains: int, *memory: float) -> torch.Tensor:
    """Stationary x_t = a x_{t-1} + noise of unit variance, a column for each a; tau is (1 + a)/(1 - a)."""
    noise, a = np.random.default_rng(4).normal(size=(length, chains, len(memory))), np.array(memory)
    noise[1:] *= np.sqrt(1 - a**2)
    for step in range(1, length):
        noise[step] += a * noise[step - 1]
    return torch.from_numpy(noise)


def sokal(values: np.ndarray) -> tuple[float, float]:
    """tau of one column ``[draws, chains]`` and its error, in loops."""
    n, chains = values.shape
    away = values - values.mean()
    sums = [sum(away[lag:, c] @ away[: n - lag, c] for c in range(chains)) for lag in range(n)]
    _, tau, error = doubled(np.array(sums) / sums[0], n * chains, 5.0)
    return tau, error


def test_the_autocorrelation_time_is_the_slowest_column_s():
    draws = autoregressions(3000, 4, 0.5, 0.8, 0.6)
    tau, error = statistics.autocorrelation_time(draws)
    assert (tau, error) == pytest.approx(sokal(draws[:, :, 1].numpy()), rel=1e-9)
    assert tau == pytest.approx(9, abs=5.5 * error)
    short = torch.cat((draws, torch.ones(3000, 4, 1)), -1)
    assert math.isnan(statistics.autocorrelation_time(short)[0])


def test_a_time_that_is_not_above_0_is_not_known(monkeypatch):
    """Chains would be as long as one likes by it."""
    found = np.array([-2.0, -1.0]), np.array([0.5, 0.25])
    monkeypatch.setattr(statistics, "integrated_autocorrelation_time", lambda _: found)
    assert all(map(math.isnan, statistics.autocorrelation_time(torch.zeros(9, 2, 2))))


@pytest.mark.thorough
def test_the_error_of_tau_is_the_jackknife_s_over_ten_groups_of_chains():
    """Thirteen chains: three groups of two and seven of one. A tau of 39 is taken from each third draw."""
    draws = autoregressions(2500, 13, 0.8, 0.95)
    one, all_of_them = (statistics.jackknifed_time(draws, together) for together in (False, True))
    taus = [sokal(draws[:, :, column].numpy())[0] for column in (0, 1)]
    assert one[0] == pytest.approx(taus[1], rel=1e-9) and all_of_them[0] == pytest.approx(sum(taus) / 2, rel=1e-9)
    groups = [[0, 1], [2, 3], [4, 5], *([chain] for chain in range(6, 13))]
    for (tau, error), columns in ((one, [1]), (all_of_them, [0, 1])):
        step = int(tau / 10)
        assert step >= 2
        without = []
        for group in groups:
            left = [chain for chain in range(13) if chain not in group]
            thinned = draws[::step][:, left].numpy()
            without.append(step * sum(sokal(thinned[:, :, column])[0] for column in columns) / len(columns))
        mean = sum(without) / 10
        assert error == pytest.approx(math.sqrt(9 / 10 * sum((value - mean) ** 2 for value in without)), rel=1e-9)
    quick = autoregressions(300, 3, 0.2)
    without = [sokal(np.delete(quick[:, :, 0].numpy(), chain, 1))[0] for chain in range(3)]
    assert statistics.jackknifed_time(quick, False)[1] == pytest.approx(pstdev(without) * 2**0.5)
    assert math.isnan(statistics.jackknifed_time(quick[:, :2], False)[1])
    assert all(map(math.isnan, statistics.jackknifed_time(draws[:40], True)))


def test_a_draw_is_accepted_where_any_coordinate_moved():
    draws = torch.tensor([[[0.0, 1.0], [0.0, 0.0]], [[0.0, 2.0], [0.0, 0.0]], [[1.0, 2.0], [0.0, 0.0]]])
    assert statistics.accepted(draws) == {"accepted": 0.5, "accepted_error": pytest.approx(0.5)}
    assert math.isnan(statistics.accepted(draws[:, :1])["accepted_error"])
