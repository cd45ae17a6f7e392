"""Diagnostics against closed forms, ArviZ and scikit-learn.

Statistical assertions are at five standard errors or more (false alarm 6e-7 each) of many independent chains.
"""

import math
import warnings

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.signal import lfilter

from sgmcmc import diagnostics as d
from sgmcmc.errors import SettingError


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def autoregression(rng, phi, draws, *rest):
    """Stationary x_t = phi x_{t-1} + noise, of variance 1, [draws, *rest]."""
    noise = rng.standard_normal((draws, *rest))
    noise[1:] *= math.sqrt(1 - phi**2)  # the first draw has variance 1 at once
    return lfilter([1], [1, -phi], noise, axis=0)


def oscillation(rng, rate: float, angle: float, draws: int, chains: int, dim: int) -> np.ndarray:
    """``[draws, chains, dim]``, stationary, of variance 1, whose autocorrelations are rate^k cos(k angle)."""
    root, size = rate * np.exp(1j * angle), (draws, chains, dim)
    noise = rng.standard_normal(size) + 1j * rng.standard_normal(size)
    noise[1:] *= math.sqrt(1 - rate**2)
    return lfilter([1], [1, -root], noise, axis=0).real


# --------------------------------------------------------------------------------------------- temperatures


def test_temperatures_of_exact_draws_are_the_temperature():
    rng, temperature, chains = np.random.default_rng(0), 0.7, 20000
    mass = torch.tensor([0.5, 2.0, 8.0]).double()
    momentum = torch.from_numpy(rng.standard_normal((chains, 3))) * (temperature * mass).sqrt()
    kinetic = d.kinetic_temperature(momentum.float(), 1 / mass)
    assert kinetic.shape == (chains,) and kinetic.dtype == torch.float64
    assert abs(kinetic.mean() - temperature) < 5 * temperature * math.sqrt(2 / 3 / chains)
    # U = sum k (x - c)^2/2
    k, centre = torch.tensor([1.0, 4.0, 9.0]).double(), torch.tensor([3.0, -1.0, 0.0]).double()
    theta = centre + torch.from_numpy(rng.standard_normal((chains, 3))) * (temperature / k).sqrt()
    gradient = k * (theta - centre)
    for mean in (None, centre):
        values = d.configurational_temperature(theta, gradient, mean)
        assert abs(values.mean() - temperature) < 5 * values.std() / math.sqrt(chains)
    assert values.var() < d.configurational_temperature(theta, gradient).var()
    low, high = d.temperature_interval(3, temperature)
    inside = ((kinetic > low) & (kinetic < high)).double().mean()
    assert abs(inside - 0.99) < 5 * math.sqrt(0.99 * 0.01 / chains)


def test_the_interval_of_a_large_tensor_is_gaussian_and_takes_arrays():
    low, high = d.temperature_interval([10**6, 10**8], 2.0, 0.95)
    np.testing.assert_allclose(high - 2, 1.96 * 2 * np.sqrt(2 / np.array([1e6, 1e8])), rtol=2e-3)
    np.testing.assert_allclose(2 - low, high - 2, rtol=1e-2)


def test_temperatures_by_hand():
    momentum, each = torch.tensor([[1.0, 2.0, 3.0], [4.0, 0.0, -2.0]]), torch.tensor([1.0, 0.5, 2.0]).double()
    assert d.kinetic_temperature(momentum).tolist() == pytest.approx([14 / 3, 20 / 3])
    assert d.kinetic_temperature(momentum, 0.5).tolist() == pytest.approx([7 / 3, 10 / 3])
    assert d.kinetic_temperature(momentum, each).tolist() == pytest.approx([21 / 3, 24 / 3])
    of_chains = torch.stack((each, 2 * each))
    assert d.kinetic_temperature(momentum, of_chains).tolist() == pytest.approx([21 / 3, 48 / 3])
    theta, gradient = torch.tensor([[1.0, 2.0], [0.5, -3.0]]), torch.tensor([[3.0, -1.0], [2.0, 5.0]])
    assert d.configurational_temperature(theta, gradient).tolist() == [0.5, -7]
    mean = torch.tensor([1.0, -1.0])
    assert d.configurational_temperature(theta, gradient, mean).tolist() == [-1.5, -5.5]


def test_the_interval_cuts_off_half_a_per_cent_at_either_end():
    low, high = d.temperature_interval([1, 3, 40], 0.7)
    for dim, below, above in zip([1, 3, 40], low, high, strict=True):
        assert stats.chi2.cdf(dim * below / 0.7, dim) == pytest.approx(0.005)
        assert stats.chi2.sf(dim * above / 0.7, dim) == pytest.approx(0.005)
    assert d.temperature_interval(2)[1] == pytest.approx(-math.log(0.005))  # χ²(2)/2 is an exponential


# --------------------------------------------------------------------------------------------- symmetric KL


def test_bin_masses_are_the_distribution_functions_differences():
    grid = d.Grid([-6], [6], [120])
    masses = grid.masses(lambda x: -0.5 * x[:, 0] ** 2, 0.5 * math.log(2 * math.pi))
    np.testing.assert_allclose(masses, np.diff(stats.norm.cdf(np.linspace(-6, 6, 121))), rtol=1e-11, atol=1e-15)
    assert abs(grid.masses(lambda x: -0.5 * x[:, 0] ** 2 + 40).sum() - 1) < 1e-14
    # two dimensions, unequal boxes, a normaliser: N(z1; z2^2/4, 1) N(z2; 0, 4)
    grid = d.Grid([-5, -8], [15, 8], [100, 50])

    def banana(z):
        return -0.5 * (z[:, 0] - z[:, 1] ** 2 / 4) ** 2 - z[:, 1] ** 2 / 8 - math.log(4 * math.pi)

    masses = grid.masses(banana, 0.0)
    assert masses.shape == (100, 50)
    inner = masses.sum(0)[1:-1]  # z1 hardly leaves [-5, 15] there
    wanted = np.diff(stats.norm.cdf(np.linspace(-8, 8, 51), scale=2))[1:-1]
    np.testing.assert_allclose(inner[10:-10], wanted[10:-10], rtol=1e-6)


def test_the_double_wells_masses():
    grid = d.Grid([-6], [6], [120])
    masses = grid.masses(lambda x: -((x + 4) * (x + 1) * (x - 1) * (x - 3) / 14 + 0.5)[:, 0])
    assert abs(masses[:60].sum() - 0.87122) < 1e-5
    assert abs(masses @ (np.linspace(-6, 6, 121)[:-1] + 0.05) + 2.14796) < 1e-3


def test_counts_put_each_draw_into_its_bin_and_lose_the_rest():
    grid = d.Grid([0, -1], [1, 1], [10, 4])
    x = np.random.default_rng(0).uniform(-1.5, 1.5, (5000, 2))
    wanted, _, _ = np.histogram2d(x[:, 0], x[:, 1], [10, 4], [[0, 1], [-1, 1]])
    bad = [[math.nan, 0], [math.inf, 0], [0.5, -math.inf], [1e300, 0]]
    counts = grid.counts(torch.tensor(np.concatenate([x, bad])).view(4, -1, 2))
    assert counts.dtype == torch.int64 and np.array_equal(counts, wanted)
    edges = d.Grid([-6], [6], [120]).counts(torch.tensor([[-6.0], [6.0], [5.95]]))
    assert edges.sum() == 2 and edges[0] == edges[-1] == 1


def test_symmetric_kl_of_known_masses():
    p, counts = np.array([0.5, 0.3, 0.2]), np.array([[50, 30, 20], [20, 30, 50]])
    wanted = [0, 2 * 0.3 * math.log(2.5)]
    np.testing.assert_allclose(d.symmetric_kl(torch.tensor(counts), p), wanted, atol=1e-15)
    # draws outside of the grid count
    np.testing.assert_allclose(d.symmetric_kl(counts[0], p, draws=200), 0.5 * math.log(2))
    empty = np.array([100, 100, 0])
    terms = [0, 0.2 * math.log(5 / 3), (0.2 - 1e-12) * math.log(0.2e12)]
    np.testing.assert_allclose(d.symmetric_kl(empty, p), sum(terms))
    np.testing.assert_allclose(d.symmetric_kl(empty, p, occupied_only=True), sum(terms[:2]))
    assert d.symmetric_kl(np.zeros(3, int), p, draws=10) > 20  # a sampler that left the grid
    beyond = 0.5 * math.log(2) + (0.5 - 1e-12) * math.log(0.5e12)  # half of the draws where the mass is 0
    np.testing.assert_allclose(d.symmetric_kl([1, 1], [1.0, 0.0]), beyond)


@pytest.mark.parametrize("occupied_only", [False, True])
@pytest.mark.parametrize("draws", [50, 3000, 10**6])
def test_the_floor_is_the_mean_of_independent_draws(draws, occupied_only):
    masses = d.Grid([-6], [6], [120]).masses(lambda x: -0.5 * x[:, 0] ** 2)
    counts = np.random.default_rng(draws).multinomial(draws, masses, size=3000)
    values = d.symmetric_kl(counts, masses, draws, occupied_only)
    floor = d.symmetric_kl_floor(masses, draws, occupied_only)
    assert abs(values.mean() - floor) < 5 * values.std() / math.sqrt(3000)


@pytest.mark.parametrize("occupied_only", [False, True])
def test_the_floor_is_the_sum_over_all_counts_of_their_binomials(occupied_only):
    """Bins with 1,100 to no expected draws; the next terms of the expansion are 5/300² of the largest ones' share."""
    masses, draws = np.array([0.55, 0.25, 0.15 - 0.0017, 0.05, 0.0015, 0.0002, 0.0]), 2000
    which = [True] if occupied_only else []
    wanted, count = [], np.arange(draws + 1)
    for p in masses:
        q = np.maximum(count / draws, 1e-12)
        terms = (max(p, 1e-12) - q) * np.log(max(p, 1e-12) / q)
        terms[0] *= not occupied_only
        wanted.append(stats.binom.pmf(count, draws, p) @ terms)
    assert d.symmetric_kl_floor(masses, draws, *which) == pytest.approx(sum(wanted), abs=5e-5 * sum(wanted[:3]))
    assert d.symmetric_kl_floor(masses[3:], draws, *which) == pytest.approx(sum(wanted[3:]), rel=1e-9)
    # All large: an expansion without its second term would be 1/800 off.
    assert d.symmetric_kl_floor(masses[:2], draws, *which) == pytest.approx(sum(wanted[:2]), rel=2e-5)


def test_the_floor_of_two_draws_by_hand():
    """Both in one of two equal bins, or one in each: each of two coins has half of the probability."""
    full, empty = 0.5 * math.log(2), (0.5 - 1e-12) * math.log(0.5e12)
    assert d.symmetric_kl_floor([0.5, 0.5], 2) == pytest.approx((full + empty) / 2, rel=1e-12)
    assert d.symmetric_kl_floor([0.5, 0.5], 2, occupied_only=True) == pytest.approx(full / 2, rel=1e-12)


# ---------------------------------------------------------------------------------------------------- mixing


def test_autocorrelations_by_a_loop():
    """Σ over chains and pairs of draws, deviations from the mean of all chains, by lag 0's."""
    x = np.random.default_rng(20).exponential(size=(7, 3, 2)) + np.arange(3)[:, None]
    wanted = np.zeros((7, 2))
    for k in range(2):
        mean = sum(x[t, c, k] for t in range(7) for c in range(3)) / 21
        for lag in range(7):
            pairs = [(x[t, c, k] - mean) * (x[t + lag, c, k] - mean) for c in range(3) for t in range(7 - lag)]
            wanted[lag, k] = sum(pairs)
    wanted /= wanted[0].copy()
    np.testing.assert_allclose(d.autocorrelation(x), wanted, atol=1e-14)
    np.testing.assert_allclose(d.autocorrelation(torch.from_numpy(x), 3), wanted[:4], atol=1e-14)
    assert d.autocorrelation(x, 50).shape == (7, 2) and d.autocorrelation(x, 0).tolist() == [[1, 1]]
    for nothing in (x[:0], x[:, :0]):
        empty = d.autocorrelation(nothing, 4)
        assert empty.shape == ((5 if len(nothing) else 1), 2) and np.isnan(empty).all()


def doubled(rho: np.ndarray, number: int, window: float) -> tuple[list[float], float, float]:
    """By loops: the changes of tau by doublings of its window, in their standard deviations, of which the last is not
    taken; tau and its error, NaN where the window stays open."""
    n, tau, size, square, lag, changes = len(rho), 1.0, 1.0, 1.0, 0, []
    while lag < window * max(tau, size, 1):
        lag += 1
        if lag == n:
            return [], math.nan, math.nan
        tau, square = tau + 2 * rho[lag], square + 2 * rho[lag] ** 2
        size += 2 * abs(rho[lag]) * (abs(rho[lag]) > 2 * math.sqrt(square / number))
    while 2 * lag < n:
        now, then = shares(lag, 2 * lag), shares(2 * lag, 2 * lag)
        more, chance = weighted(rho, [wide - narrow for wide, narrow in zip(then, now, strict=True)], number)
        changes.append(more / chance)
        if -3 <= changes[-1] <= 2:
            break
        lag *= 2
    return changes, *weighted(rho, shares(lag, lag), number)


def shares(last: int, lags: int) -> list[float]:
    """Of the sums that end at last//2 to last those that have the lag, of -lags to lags."""
    ends = range(last // 2, last + 1)
    return [sum(abs(lag) <= end for end in ends) / len(ends) for lag in range(-lags, lags + 1)]


def weighted(rho: np.ndarray, weights: list[float], number: int) -> tuple[float, float]:
    lags = len(weights) // 2
    both = [rho[abs(lag)] for lag in range(-lags, lags + 1)]
    return np.dot(weights, both), math.sqrt(2 * (np.convolve(weights, both) ** 2).sum() / number)


@pytest.mark.parametrize("window", [5.0, 1.0])
def test_the_time_is_the_mean_of_sums_up_to_the_first_lag_beyond_its_window(window):
    """By a loop: of slow, independent, antithetic and oscillating draws; where the window stays open there is none.

    The window is that of the sum, and of the sum of the sizes that are no noise. It is doubled where that adds more
    than chance does, and where what it takes away is hardly chance."""
    rng = np.random.default_rng(21)
    slow = 0.4 * autoregression(rng, 0.95, 300, 10, 20) + rng.standard_normal((300, 10, 20))
    parts = [autoregression(rng, phi, 300, 10, 4) for phi in (0.8, 0.0, -0.7, 0.999)]
    parts += [oscillation(rng, rate, 0.4, 300, 10, 20) for rate in (0.8, 0.9)]
    x = np.concatenate([*parts, slow], -1)
    rho, time = d.autocorrelation(x), d.integrated_autocorrelation_time(x, *([window] if window != 5 else []))
    seen, known = [], np.isfinite(time.value)
    for k in range(x.shape[2]):
        changes, *wanted = doubled(rho[:, k], 3000, window)
        seen += changes
        assert [time.value[k], time.error[k]] == pytest.approx(wanted, nan_ok=True)
    counts = [sum(low < change < high for change in seen) for low, high in ((-99, -3), (-3, -2), (2, 99))]
    assert min(counts) > 5 if window == 1 else counts[2] > 3
    assert (time.value[8:12] < 1).all() and known[:12].all() and known[16:].all()
    assert known[12:16].any() == (window == 1)
    drift = np.linspace(0, 1, 150)[:, None, None] + np.zeros((1, 1, 1))
    open_ended = d.integrated_autocorrelation_time(drift[:12], 12.0)
    assert np.isnan(open_ended.value).all() and np.isnan(open_ended.error).all()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "rate, angle, draws, chains",
    [(0.98, 0.3, 2000, 20), (0.98, 0.3, 20_000, 5), (0.99, 0.05, 4000, 50), (0.9, 1.5, 2000, 20)],
)
def test_the_time_of_what_oscillates(rate, angle, draws, chains):
    """rho_k = r^k cos(k w), whose sum is Re (1 + q)/(1 - q), q = r exp(i w): up to five times that the sum is 1.8 times
    as large, or anything between. The mean of 100 is known to 2 %, their scatter to 7 %."""
    x = oscillation(np.random.default_rng(25), rate, angle, draws, chains, 100)
    tau, error = d.integrated_autocorrelation_time(x)
    root = rate * np.exp(1j * angle)
    assert tau.mean() == pytest.approx(((1 + root) / (1 - root)).real, rel=0.1)
    assert 0.7 < tau.std() / error.mean() < 1.4 and (tau > 0).all()


@pytest.mark.thorough
@pytest.mark.parametrize("weight, phi, draws, chains", [(0.02, 0.98, 4000, 160), (0.1, 0.95, 2000, 80)])
def test_a_slow_part_of_small_weight_is_in_the_time(weight, phi, draws, chains):
    """rho_k = w phi^k beyond lag 0, so tau = 1 + 2 w phi/(1 - phi), of which five tau has a half. The mean of 40 is
    known to a hundredth; what doubling leaves out is less than its errors, which are up to 1.6 times too small here."""
    rng = np.random.default_rng(23)
    slow = autoregression(rng, phi, draws, chains, 40)
    x = math.sqrt(weight) * slow + math.sqrt(1 - weight) * rng.standard_normal(slow.shape)
    tau, error = d.integrated_autocorrelation_time(x)
    true = 1 + 2 * weight * phi / (1 - phi)
    assert 0.9 < tau.mean() / true < 1.05 and np.abs(tau - true).max() < 9 * error.mean()
    rho = d.autocorrelation(x[:, :, :1], 60)[:, 0]
    short = next(tau for lag, tau in enumerate(2 * np.cumsum(rho) - 1) if lag >= 5 * tau)
    assert short < 0.75 * true


@pytest.mark.parametrize("draws", [300, 301])
def test_the_error_of_the_ess_is_the_window_s_and_the_half_chains(draws):
    """τ of independent draws is 1: 10/n of all and (6/half a chain)²/chains; of slow ones the second is 4/chains."""
    rng = np.random.default_rng(22)
    x = np.stack([rng.standard_normal((draws, 5)), autoregression(rng, 0.999, draws, 5)], -1)
    value, error = d.ess(x)
    n = 5 * draws
    share = n / value[0]  # τ, near 1
    assert 0.7 < share < 1.4 and error[0] / value[0] == pytest.approx(
        math.sqrt((8 * max(share, 1 / share) + 2) / n + (6 * share / 150) ** 2 / 5)
    )
    assert 3 * n / value[1] > 150 and error[1] / value[1] == pytest.approx(
        math.sqrt((8 * n / value[1] + 2) / n + 4 / 5)
    )


@pytest.mark.parametrize("phi", [0.0, 0.8, -0.4, -0.7, -0.9])
def test_autocorrelations_and_time_of_autoregressions(phi):
    draws = autoregression(np.random.default_rng(3), phi, 2000, 182, 2)
    rho = d.autocorrelation(draws, 20)
    assert rho.shape == (21, 2) and (rho[0] == 1).all()
    wanted, error = phi ** np.arange(21.0), 5.5 * math.sqrt((1 + phi**2) / (1 - phi**2) / (2000 * 182))
    assert np.abs(rho - wanted[:, None] * (1 - np.arange(21) / 2000)[:, None]).max() < error
    tau = d.integrated_autocorrelation_time(torch.from_numpy(draws))
    assert (np.abs(tau.value - (1 + phi) / (1 - phi)) < 5 * tau.error).all()
    assert (tau.error < (0.03 if phi > -0.5 else 0.3) * tau.value).all()


@pytest.mark.thorough
def test_the_time_of_antithetic_draws_is_not_what_is_left_at_a_few_lags():
    """The mean of 400, which is known to half a percent; a sum that ends somewhere would scatter three times as much,
    with where."""
    tau = d.integrated_autocorrelation_time(autoregression(np.random.default_rng(24), -0.9, 2000, 20, 400)).value
    assert 0.88 < tau.mean() / (0.1 / 1.9) < 1.12 and tau.std() / tau.mean() < 0.15


@pytest.mark.parametrize("phi", [0.7, -0.3, -0.7])
def test_the_error_of_the_time_is_its_scatter(phi):
    draws = autoregression(np.random.default_rng(4), phi, 3000, 1, 400)
    tau = d.integrated_autocorrelation_time(draws)
    # sd of 400 estimates is known to 4 %; the window fluctuates
    assert 0.7 < tau.value.std() / tau.error.mean() < 1.4


@pytest.mark.thorough
@pytest.mark.parametrize(
    "phi, draws, chains", [(0.9, 1000, 4), (0.9, 2000, 1), (0.5, 500, 4), (0.95, 500, 20), (-0.3, 2000, 4)]
)
def test_the_error_of_the_ess_is_its_scatter(phi, draws, chains):
    size = d.ess(autoregression(np.random.default_rng(5), phi, draws, chains, 200))
    assert 0.6 < size.value.std() / size.error.mean() < 1.6  # sd of 200 known to 5 %; formula to some 40 %
    true = draws * chains * (1 - phi) / (1 + phi)
    assert 0.8 < size.value.mean() / true < 1.1  # short chains read a little low


def test_the_ess_of_the_mean_is_what_means_of_chains_vary_by():
    """Of two wells, 4.8 apart and crossed now and then: of the lag k their autocovariance is 2.4² .9^k, of which the
    variance of a chain's mean is a sum. The mean of eight is known to 1.1 %. That of the ranks is another."""
    rng, size = np.random.default_rng(8), (2000, 100, 8)
    crossing = rng.random(size) < 0.05
    well = np.where((crossing.cumsum(0) + rng.integers(2, size=size[1:])) % 2, -2.8, 2.0)
    draws, lags = well + rng.standard_normal(size) * 0.4, np.arange(1, 2000)
    of_a_mean = (2.4**2 * (1 + 2 * ((1 - lags / 2000) * 0.9**lags).sum()) + 0.4**2) / 2000
    worth = 100 * (2.4**2 + 0.4**2) / of_a_mean
    assert d.ess(draws, "mean").value.mean() == pytest.approx(worth, rel=0.065)
    assert d.ess(draws).value.mean() > 1.4 * worth


@pytest.mark.parametrize("unit", [2.0**-60, 2.0**-600, 2.0**600])
def test_the_ess_has_no_unit(unit):
    """ArviZ takes draws whose range is below 1e-15 for ones that stand still, and their ESS for that of all draws."""
    draws = np.random.default_rng(9).standard_normal((400, 2, 3)).cumsum(0)
    for method in ("bulk", "mean"):
        assert np.array_equal(d.ess(draws * unit, method).value, d.ess(draws, method).value)


def test_a_method_of_ess_that_there_is_not_is_one_sentence():
    with pytest.raises(SettingError, match="^method=variance: must be one of bulk, mean$"):
        d.ess(np.zeros((20, 2, 1)), "variance")


@pytest.mark.parametrize("draws", [100, 101, 12])
def test_ess_and_r_hat_are_arvizs(draws, monkeypatch):
    """Coordinates that walk, jump together, have ties, and chains of different widths; some coordinates at a time."""
    from arviz_stats.base import array_stats

    x = np.random.default_rng(6).standard_normal((draws, 4, 9))
    x[..., :3] = x[..., :3].cumsum(0)
    x[..., 3:6] = x[..., 3:6].round()
    x[:, 0, 6:] *= 3
    for block in (2**22, 8 * draws):
        monkeypatch.setattr(d, "BLOCK", block)
        for k, (size, r_hat) in enumerate(zip(d.ess(x).value, d.r_hat(torch.from_numpy(x)), strict=True)):
            for found, method in ((size, "bulk"), (d.ess(x[..., k : k + 1], "mean").value[0], "mean")):
                expected = array_stats.ess(x[:, :, k].T, method=method)
                assert found == pytest.approx(expected, rel=1e-12) or np.isnan(found) and expected > 4 * draws
            assert r_hat == pytest.approx(array_stats.rhat(x[:, :, k].T, method="rank"), rel=1e-12)


def test_r_hat_of_two_values_is_that_of_the_bulk():
    """As often there, they lie equally far from the median: the folded statistic says nothing."""
    from arviz_stats.base import array_stats

    mixed = np.random.default_rng(26).permuted(np.tile([[[-1.0]], [[1.0]]], (50, 4, 1)), axis=0)
    once = np.repeat([0.0, 1.0], 50)[:, None, None] * np.ones((1, 4, 1))  # all chains jump once, at the same time
    with np.errstate(invalid="ignore"):
        expected = array_stats.rhat(mixed[:, :, 0].T, method="rank")
    assert d.r_hat(mixed)[0] == pytest.approx(expected, rel=1e-12)
    assert d.r_hat(once)[0] > 1e6


def test_r_hat_sees_chains_in_different_places_and_of_different_widths():
    x = np.random.default_rng(7).standard_normal((500, 4, 3))
    x[:, 0, 1] += 1
    x[:, 0, 2] *= 4  # same place: only the folded statistic sees it
    agree, place, width = d.r_hat(x)
    assert agree < 1.01 and place > 1.05 and width > 1.05


def test_one_chain_is_compared_with_itself():
    x = np.random.default_rng(8).standard_normal((1000, 1, 2))
    x[:, 0, 1] += np.linspace(0, 5, 1000)
    steady, drifting = d.r_hat(x)
    assert steady < 1.02 and drifting > 1.5
    halves = np.concatenate((x[:4], x[5:9]), 1)  # of nine draws the one in the middle is in neither
    np.testing.assert_array_equal(d.r_hat(x[:9]), d.r_hat(halves))
    assert (np.abs(d.ess(x).value[0] - 1000) < 5 * d.ess(x).error[0]).all()


def test_stuck_chains_have_no_ess_and_no_warning():
    x = np.zeros((50, 3, 4))
    x[:, :, 1] = np.arange(3)  # still, at different places
    x[:, :, 2] = np.random.default_rng(9).standard_normal((50, 3))
    x[:, 0, 3] = np.random.default_rng(10).standard_normal(50)  # one of three moves
    for statistic in (d.ess(x), d.integrated_autocorrelation_time(x)):
        assert np.isnan(statistic.value[:1]).all() and np.isnan(statistic.error[:1]).all()
        assert np.isfinite(statistic.value[2])
    assert np.isnan(d.ess(x).value[1]) and np.isfinite(d.ess(x).value[3])
    r_hat = d.r_hat(x)
    assert np.isnan(r_hat[0]) and np.isinf(r_hat[1]) and r_hat[2] < 1.5 < r_hat[3]
    assert np.isinf(d.r_hat(x[:4])[1]) and np.isnan(d.r_hat(x[:3])[1])  # from four draws on
    assert np.isnan(d.autocorrelation(x)[:, 0]).all()
    still = np.full((7, 3, 1), 0.1)
    assert still.mean() != 0.1 and np.isnan(d.autocorrelation(still)).all()  # though a mean is rounded


@pytest.mark.parametrize("draws", range(10))
@pytest.mark.parametrize("chains", [1, 2])
def test_few_draws_do_not_crash_and_have_no_ess(draws, chains):
    x = np.random.default_rng(11).standard_normal((draws, chains, 2))
    size, r_hat = d.ess(x), d.r_hat(x)
    assert size.value.shape == size.error.shape == r_hat.shape == (2,)
    assert np.isnan(size.value).all() and np.isnan(size.error).all()
    assert np.isnan(r_hat).all() == (draws < 8 / chains)
    assert d.integrated_autocorrelation_time(x).value.shape == (2,)


@pytest.mark.parametrize("draws", [200, 201])
def test_arviz_s_bound_is_no_ess(draws):
    """What alternates has an autocorrelation of −1, and an ESS beyond any bound; what is independent has one."""
    rng = np.random.default_rng(13)
    x = rng.standard_normal((draws, 4, 2))
    x[:, :, 1] = x[0, :, 1] * (-1) ** np.arange(draws)[:, None] + 0.1 * rng.standard_normal((draws, 4))
    assert np.isnan(d.ess(x).value).tolist() == np.isnan(d.ess(x).error).tolist() == [False, True]


def test_what_is_not_finite_has_no_ess():
    x = np.random.default_rng(12).standard_normal((50, 2, 3))
    x[3, 0, 0], x[4, 1, 1] = math.nan, math.inf
    assert np.isnan(d.ess(x).value).tolist() == np.isnan(d.r_hat(x)).tolist() == [True, True, False]
    with pytest.raises(ValueError, match=r"\[draws, chains, dim\]"):
        d.ess(x[0])


def test_clustered_rejections_are_told_from_independent_ones():
    rng = np.random.default_rng(13)
    independent = rng.random((4000, 50)) < 0.8
    ratio, error = d.rejection_clustering(torch.from_numpy(independent), 20)
    assert abs(ratio - 1) < 5 * error and error < 0.02
    runs = np.repeat(rng.random((400, 50)) < 0.8, 10, axis=0)  # decisions alike for ten at a time
    ratio, error = d.rejection_clustering(runs, 20)
    assert abs(ratio - 10) < 1
    for rejected in (0.5, 0.05):
        spread = np.array([d.rejection_clustering(rng.random((200, 5)) > rejected, 10) for _ in range(600)])
        assert 0.8 < spread[:, 0].std() / spread[:, 1].mean() < 1.2
    for nothing in (np.ones((100, 2), bool), np.zeros((100, 2), bool), np.ones((3, 2), bool)):
        assert np.isnan(d.rejection_clustering(nothing, 20)).all()


def test_clustering_of_a_few_rejections_by_hand():
    """3, 1, 0 and 1 of blocks of three: their variance 19/12 over 3 · 5/12 · 7/12."""
    rejected = np.array([[1, 0], [1, 1], [1, 0], [0, 0], [0, 0], [0, 1], [1, 1]])  # the last is in no whole block
    ratio, error = d.rejection_clustering(rejected == 0, 3)
    assert ratio == pytest.approx(76 / 35) and error == pytest.approx(math.sqrt(1 / 3))
    one_block = d.rejection_clustering(torch.tensor([[True], [False], [True], [True]]), 4)
    assert np.isnan(one_block).all()


# ----------------------------------------------------------------------------------------------- calibration


@pytest.fixture
def predictions():
    rng = np.random.default_rng(14)
    targets = rng.integers(0, 4, 300)
    logits = 2 * rng.standard_normal((5, 300, 4)) + 3 * (targets[:, None] == np.arange(4))
    return torch.from_numpy(logits).softmax(-1), torch.from_numpy(targets)


def test_calibration_against_scikit_learn(predictions):
    from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

    probabilities, targets = predictions
    values = d.metrics(probabilities, targets)
    assert set(values) == {"accuracy", "nll", "brier", "ece", "entropy"}
    for k, p in enumerate(probabilities):
        assert values["accuracy"][k].item() == pytest.approx(accuracy_score(targets, p.argmax(1)))
        assert values["nll"][k].item() == pytest.approx(log_loss(targets, p))
        onehot = np.eye(4)[targets]
        assert values["brier"][k].item() == pytest.approx(((p.numpy() - onehot) ** 2).sum(1).mean())
        binary = [brier_score_loss(targets == label, p[:, label]) for label in range(4)]
        assert values["brier"][k].item() == pytest.approx(sum(binary))
        assert values["entropy"][k].item() == pytest.approx(stats.entropy(p, axis=1).mean())
    assert d.predictive_entropy(probabilities).shape == (5, 300)
    assert all(value.shape == (5,) and value.dtype == torch.float64 for value in values.values())
    single = d.metrics(probabilities[2].float(), targets)
    assert all(single[key].item() == pytest.approx(values[key][2].item(), rel=1e-5) for key in values)
    exact = d.metrics(probabilities[2].float().double(), targets)
    assert all(single[key].dtype == torch.float64 for key in values)
    assert all(single[key].item() == pytest.approx(exact[key].item(), rel=1e-12) for key in values)
    probabilities[3, 7] = math.nan  # as of logits that have overflowed: of one datum, and told of them all
    unknown = d.metrics(probabilities, targets)
    assert all(unknown[key].isnan().tolist() == [False, False, False, True, False] for key in values)


@pytest.mark.parametrize("bins", [15, 4])
def test_calibration_error_bin_by_bin(predictions, bins):
    probabilities, targets = predictions
    for p in probabilities:
        confidence, predicted = p.max(1)
        wanted = 0.0
        for k in range(bins):
            inside = (confidence > k / bins) & (confidence <= (k + 1) / bins)
            if inside.any():
                right = (predicted == targets)[inside].double().mean()
                wanted += inside.double().mean() * (right - confidence[inside].mean()).abs()
        assert d.ece(p, targets, *([bins] if bins != 15 else [])).item() == pytest.approx(float(wanted))


def test_a_confidence_on_a_bin_s_edge_is_in_the_lower_bin():
    """.5 (wrong) and .6 (right) share (.4, .6] and cancel but for .1; .61 (right) is above; 1 is in the last bin."""
    p = torch.tensor([[0.5, 0.4, 0.1], [0.3, 0.6, 0.1], [0.2, 0.19, 0.61], [0, 0, 1]], dtype=torch.float64)
    targets = torch.tensor([1, 1, 2, 0])
    assert d.ece(p, targets, 5).item() == pytest.approx((0.1 + 0.39 + 1) / 4)
    # Fifteen bins, by default and in a row: (.466, .533], (.533, .6] and (.6, .667] now hold one each.
    assert d.ece(p, targets).item() == pytest.approx((0.5 + 0.4 + 0.39 + 1) / 4)
    assert d.metrics(p, targets)["ece"].item() == d.ece(p, targets, 15).item()
    assert d.ece(p[:3], targets[:3], 2).item() == pytest.approx((0.5 + 0.4 + 0.39) / 3)  # .5 is alone in the first


def test_certain_predictions():
    p, targets = torch.eye(3), torch.tensor([0, 1, 0])
    assert d.ece(p, targets).item() == pytest.approx(1 / 3)
    assert d.brier(p, targets).item() == pytest.approx(2 / 3)
    assert d.predictive_entropy(p).tolist() == [0, 0, 0]
    assert d.nll(p, targets).item() == pytest.approx(-math.log(torch.finfo(torch.float32).tiny) / 3)
    uniform = torch.full((2, 10), 0.1)
    assert d.predictive_entropy(uniform)[0].item() == pytest.approx(math.log(10), rel=1e-6)
    rounded = torch.tensor([[0.75, 0.25, -1e-17], [math.nan, 0.5, 0.5]])
    assert d.predictive_entropy(rounded).tolist() == pytest.approx([stats.entropy([0.75, 0.25]), math.nan], nan_ok=True)


def test_the_ensemble_is_the_mean_and_survives_a_checkpoint_bit_for_bit(predictions):
    probabilities, _ = predictions
    whole, first = d.Ensemble(300, 4), d.Ensemble(300, 4)
    assert whole.probabilities.isnan().all()
    for p in probabilities:
        whole.add(p.float())
    first.add(probabilities[0].float())
    first.add(probabilities[1].float())
    state = first.state()
    first.add(probabilities[2].float())  # does not reach the checkpoint
    second = d.Ensemble.from_state(state)
    for p in probabilities[2:]:
        second.add(p.float())
    assert torch.equal(second.probabilities, whole.probabilities) and second.count == 5
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    torch.testing.assert_close(whole.probabilities, probabilities.mean(0), atol=1e-7, rtol=0)
    together = d.Ensemble(300, 4)
    together.add(probabilities)  # [members, n, classes]
    torch.testing.assert_close(together.probabilities, probabilities.mean(0))


def test_a_member_that_diverged_is_left_out(predictions):
    probabilities = predictions[0].clone()
    probabilities[1, 7, 2] = math.nan
    ensemble = d.Ensemble(300, 4)
    ensemble.add(probabilities)
    assert ensemble.count == 4
    torch.testing.assert_close(ensemble.probabilities, probabilities[[0, 2, 3, 4]].mean(0))


def test_autocorrelations_of_more_chains_than_are_transformed_at_once():
    x = np.random.default_rng(23).standard_normal((40_000, 120, 1)) + np.arange(120)[:, None] / 100  # 52 at once
    off = x[..., 0] - x.mean()
    wanted = [(off[lag:] * off[: 40_000 - lag]).sum() / (off**2).sum() for lag in (1, 7)]
    np.testing.assert_allclose(d.autocorrelation(x, 7)[[1, 7], 0], wanted, rtol=1e-9)


def test_an_ensemble_of_many_float32_members_is_summed_in_float64():
    members = torch.rand(30_000, 1, 3, generator=torch.Generator().manual_seed(0))
    ensemble = d.Ensemble(1, 3)
    ensemble.add(members)
    torch.testing.assert_close(ensemble.probabilities, members.double().mean(0), rtol=1e-12, atol=0)


def test_a_configurational_temperature_is_float64():
    theta = torch.tensor([[1.0, 2.0**-12]]).repeat(1, 5)
    assert d.configurational_temperature(theta, theta).tolist() == [(1 + 2.0**-24) / 2]


def test_a_kinetic_temperature_is_float64():
    """A square that float32 rounds, and one that it does not hold."""
    momentum = torch.tensor([[1 + 2.0**-23], [2.0**80]])
    assert d.kinetic_temperature(momentum).tolist() == [1 + 2.0**-22 + 2.0**-46, 2.0**160]
