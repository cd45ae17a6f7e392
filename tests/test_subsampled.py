"""Decisions on a part of the data: the correction, the estimate's error, and what is exact when all data are used.

Frequencies of 40,000 independent decisions against closed forms: by chance a z-score passes ``LIMIT`` with probability
4e-8.
"""

import math
import statistics

import numpy as np
import pytest
import torch
from conftest import LIMIT, z_score
from scipy.special import ndtr
from scipy.stats import norm
from scipy.stats import t as student

from sgmcmc import sample, subsampled
from sgmcmc.acceptance import SUBSAMPLED, barker
from sgmcmc.chain import Chain, run
from sgmcmc.errors import SettingError
from sgmcmc.kernel import make_kernel
from sgmcmc.plan import Plan
from sgmcmc.potentials.analytic import DoubleWell
from sgmcmc.potentials.location import LocationMixture
from sgmcmc.potentials.regression import GeneratedLogistic, LinearRegression
from sgmcmc.random import Random
from sgmcmc.trajectory import run_trajectory, start

F64, SIZE, CHAINS = torch.float64, 200, 40_000


@pytest.mark.parametrize(("sigma", "error"), [(0.2, 1e-6), (0.5, 5e-7), (0.8, 5e-7), (1.0, 5e-7), (1.2, 3e-5)])
def test_a_normal_and_its_correction_are_logistic(sigma, error):
    atoms, chances, said = subsampled.correction(sigma)
    assert chances.min() >= 0 and chances.sum() == pytest.approx(1, abs=1e-12)
    assert atoms @ chances == pytest.approx(0, abs=1e-12)
    x = np.linspace(-30, 30, 7001)  # between and beyond the points that it was fitted at
    difference = np.abs(ndtr((x[:, None] - atoms) / sigma) @ chances - 1 / (1 + np.exp(-x))).max()
    assert difference < error and said < error
    assert atoms**2 @ chances + sigma**2 == pytest.approx(math.pi**2 / 3, rel=3e-3 if sigma > 1 else 1e-4)


class Normals:
    """U = θ Σ_i c_i, c the quantiles of a normal: the estimates from batches are as normal as can be."""

    dim, data_size = 1, SIZE

    def __init__(self, mean: float, spread: float):
        c = torch.from_numpy(norm.ppf((np.arange(SIZE) + 0.5) / SIZE))
        self.c = (mean + spread * c / c.std(correction=0)) / SIZE

    def potential(self, theta):
        return theta[:, 0].double() * self.c.sum()

    def gradient(self, theta, batch=None):
        return self.c.sum().to(theta).expand_as(theta)

    def losses(self, theta, batch):
        return theta.double() * self.c[batch]

    def prior(self, theta):
        return 0.0 * theta[:, 0].double()

    def initial(self, chains, random):
        return random.normal("start", 0, 1, chains, 1, F64)[0]


def decided(target, temperature=1.0, kinetic=0.0, chains=CHAINS, **settings):
    """The decisions on moves from 0 to 1."""
    kernel = make_kernel("hmc", target, 0.1, temperature=temperature, **settings)
    theta, some = torch.zeros(chains, 1, dtype=F64), torch.arange(chains)
    energy = torch.full((chains,), kinetic, dtype=F64)
    parts = [
        subsampled.decide(kernel, target, theta[rows], theta[rows] + 1, energy[rows], Random(4), 7, rows)
        for rows in some.split(10_000)
    ]
    return [torch.cat([getattr(one, name) for one in parts]) for name in ("accepted", "delta_potential", "data")]


@pytest.mark.thorough
@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize(("log_mh", "deviation", "batch"), [(-1.5, 0.0, SIZE), (1.5, 0.75, 100), (0.7, 0.75, 40)])
def test_barker_on_a_part_accepts_as_often_as_barker(log_mh, deviation, batch, temperature):
    """The standard error of the estimate from one batch is ``deviation``, by the formula for finite populations."""
    error = math.sqrt((1 - batch / SIZE) / batch)
    spread = temperature * deviation / error if deviation else 300.0
    target = Normals(-temperature * log_mh - 0.4, spread)
    accepted, delta, data = decided(
        target, temperature, 0.4, acceptance="barker_minibatch", decision_batch=batch, sigma=1.0
    )
    assert abs(z_score(accepted.double() - 1 / (1 + math.exp(-log_mh)))) < LIMIT
    if deviation:
        assert (data == batch).double().mean() > 0.95
        assert abs(z_score((delta - target.c.sum())[data == batch])) < LIMIT
        assert delta.std() == pytest.approx(temperature * deviation, rel=0.05)
    else:
        assert bool((data == SIZE).all()) and torch.allclose(delta, target.c.sum(), atol=1e-10)


class Curves(Normals):
    """U = θ² Σ_i c_i + θ Σ_i c_i² + 3 θ: of every chain other changes d_i, with a prior that changes, too."""

    def __init__(self, size):
        self.c, self.data_size = torch.from_numpy(np.random.default_rng(1).normal(0.1, 0.7, size)), size

    def losses(self, theta, batch):
        return theta.double() ** 2 * self.c[batch] + theta.double() * self.c[batch] ** 2

    def prior(self, theta):
        return 3 * theta[:, 0].double()


def by_hand(change, prior, kinetic, temperature, batch, log_u, normal, x, sigma, epsilon):
    """One decision: (accepted, the estimate of U(θ_L) − U(θ_0), on how many data), of the data's d_i in their order.

    The variance of a mean of n of N numbers is (S²/n)(N − n)/N (Cochran, Sampling Techniques, theorem 2.2).
    """
    for n in [*range(batch, len(change), batch), len(change)]:
        delta = prior + len(change) * statistics.mean(change[:n])
        log_mh = -(delta + kinetic) / temperature
        variance = statistics.variance(change[:n]) / n * (len(change) - n) / len(change)
        error = math.sqrt(variance) * len(change) / temperature
        if log_u is None:
            if error < sigma:
                return log_mh + math.sqrt(sigma**2 - error**2) * normal + x > 0, delta, n
        elif n == len(change) or student.sf(abs(log_mh - log_u) / error, n - 1) < epsilon:
            return log_mh > log_u, delta, n


@pytest.mark.parametrize(
    ("acceptance", "sigma", "epsilon"),
    [
        ("barker_minibatch", 1.0, 0.05),
        ("barker_minibatch", 0.7, 0.05),
        ("austerity", 1.0, 0.02),
        ("austerity", 1.0, 0.2),
    ],
)
def test_every_decision_is_what_one_is_by_hand(acceptance, sigma, epsilon):
    """300 chains with moves of their own, 23 data by 7, the last two alone, at T = 1.7."""
    target, random, temperature, chains = Curves(23), Random(6), 1.7, torch.arange(5, 305)
    theta, end = (random.normal("start", place, 1, chains, 1, F64)[0] for place in (0, 1))
    end = end + 0.3 * theta
    kinetic = 2 * (theta - end)[:, 0]
    numbers = {"temperature": temperature, "decision_batch": 7, "sigma": sigma, "epsilon": epsilon}
    kernel = make_kernel("hmc", target, 0.1, acceptance=acceptance, **numbers)
    decision = subsampled.decide(kernel, target, theta, end, kinetic, random, 9, chains)
    orders = random.permutation("decision", 9, chains, 23, step=1)
    uniforms = random.uniform("decision", 9, chains)[:, 0].tolist()
    normals = norm.ppf(random.uniform("decision", 9, chains, step=2)[:, 0].numpy())
    atoms, chances, _ = subsampled.correction(sigma)
    c, found = target.c.tolist(), []
    for a, b, k, order, u, z in zip(theta, end, kinetic, orders, uniforms, normals, strict=True):
        a, b = float(a), float(b)
        change = [c[i] * (b**2 - a**2) + c[i] ** 2 * (b - a) for i in order]
        log_u = math.log(u) if acceptance == "austerity" else None
        x = float(atoms[np.searchsorted(np.cumsum(chances), u)])
        found.append(by_hand(change, 3 * (b - a), float(k), temperature, 7, log_u, z, x, sigma, epsilon))
    accepted, delta, data = zip(*found, strict=True)
    assert decision.accepted.tolist() == list(accepted) and decision.data.tolist() == list(data)
    assert decision.delta_potential.tolist() == pytest.approx(delta, rel=1e-11, abs=1e-11)
    counts = [data.count(n) for n in (7, 14, 21, 23)]
    assert sum(counts) == 300 and min(counts) > 8 and 80 < sum(accepted) < 220, (counts, sum(accepted))


def test_austerity_errs_about_as_often_as_its_tests_do_and_less_with_more_data():
    shares, wrong = [], []
    for epsilon in (0.2, 0.05, 0.01, 0.0):
        target = Normals(-1.0, 13.0)
        accepted, _, data = decided(target, acceptance="austerity", decision_batch=20, epsilon=epsilon, chains=10_000)
        uniform = Random(4).uniform("decision", 7, 10_000)[:, 0]
        wrong.append(float((accepted != (uniform.log() < 1.0)).double().mean()))
        shares.append(float(data.mean()) / SIZE)
        assert bool(accepted[uniform.log() < -30].all())
    assert wrong[0] > wrong[1] > wrong[2] > 0 == wrong[3]
    assert shares == sorted(shares) and shares[0] < 0.9 and shares[3] == 1
    assert wrong[2] < 0.1


@pytest.mark.parametrize("target", [LocationMixture(60), GeneratedLogistic(40, 2)], ids=["mixture", "logistic"])
def test_austerity_without_errors_is_metropolis(target):
    settings = {"step_size": 0.1, "steps": 3, "cycles": 20, "chains": 30, "dtype": F64, "seed": 3}
    exact = sample(target, "hmc", **settings)
    careful = sample(target, "hmc", acceptance="austerity", epsilon=0.0, decision_batch=7, **settings)
    assert 100 < exact.accepted == careful.accepted < 600
    assert torch.equal(exact.draws, careful.draws)


@pytest.mark.parametrize("acceptance", SUBSAMPLED)
def test_a_trajectory_is_recorded_as_its_decision_estimates_it(acceptance):
    """Its probability of acceptance is 0 or 1: that of an estimate of log MH would be another's, and biased."""
    target, random = Curves(23), Random(6)
    kernel = make_kernel("hmc", target, 0.3, temperature=1.7, acceptance=acceptance, decision_batch=7, dtype=F64)
    state = start(kernel, target, target.initial(200, random), random, range(200))
    _, record = run_trajectory(kernel, target, state, random, 8, range(200))
    ends = state.theta, record.proposal, record.delta_kinetic
    decision = subsampled.decide(kernel, target, *ends, random, 9, torch.arange(200))
    assert record.accept_prob.tolist() == record.accepted.double().tolist() == decision.accepted.double().tolist()
    assert torch.equal(record.delta_potential, decision.delta_potential) and torch.equal(record.data, decision.data)
    log_mh = [-(u + k) / 1.7 for u, k in zip(decision.delta_potential.tolist(), ends[2].tolist(), strict=True)]
    assert record.log_accept.tolist() == pytest.approx(log_mh) and 20 < int(record.accepted.sum()) < 180


def test_barker_accepts_as_often_as_its_ratio():
    for ratio in (3.0, 1.0, 0.1):
        uniform = Random(1).uniform("decision", 1, 400_000)[:, 0]
        accepted = barker(torch.full_like(uniform, math.log(ratio)), uniform)
        assert abs(z_score(accepted.double() - ratio / (1 + ratio))) < LIMIT
    log_mh = torch.tensor([-math.inf, math.nan, math.inf], dtype=F64)
    assert barker(log_mh, torch.full((3,), 0.999, dtype=F64)).tolist() == [False, False, True]


def test_a_trajectory_that_is_not_finite_is_rejected():
    target = Normals(1.0, 1.0)
    for acceptance in SUBSAMPLED:
        accepted, _, data = decided(target, kinetic=math.nan, acceptance=acceptance, decision_batch=100, chains=10)
        assert not accepted.any() and bool((data == 100).all())


def targets():
    rng = np.random.default_rng(1)
    inputs, y = torch.from_numpy(rng.normal(size=(30, 3))), torch.from_numpy(rng.normal(size=30))
    return [LinearRegression(inputs, y, 0.3, 2.0), GeneratedLogistic(50, 4), LocationMixture(40)]


@pytest.mark.parametrize("target", targets(), ids=lambda target: type(target).__name__)
def test_losses_and_prior_are_the_potential(target):
    theta = Random(2).normal("start", 0, 1, 5, target.dim, F64)[0]
    everything = torch.arange(target.data_size).flip(0).expand(5, -1)
    whole = target.losses(theta, everything).sum(-1) + target.prior(theta)
    assert torch.allclose(whole, target.potential(theta), rtol=1e-13)
    slope = torch.autograd.functional.jacobian(lambda theta: target.potential(theta).sum(), theta)
    assert torch.allclose(target.gradient(theta), slope, rtol=1e-10, atol=1e-10)
    assert torch.allclose(target.gradient(theta, everything), slope, rtol=1e-10, atol=1e-10)


class Buffered(LinearRegression):
    """Puts what it returns into the same memory each time."""

    potential = LinearRegression.potential

    def _held(self, name, value):
        held = vars(self).setdefault(name + str(list(value.shape)), torch.empty_like(value))
        return held.copy_(value)

    def losses(self, theta, batch):
        return self._held("losses", super().losses(theta, batch))

    def prior(self, theta):
        return self._held("prior", super().prior(theta))


@pytest.mark.parametrize("acceptance", SUBSAMPLED)
def test_a_target_may_put_losses_and_prior_into_the_same_memory_each_time(acceptance):
    rng = np.random.default_rng(1)
    data = torch.from_numpy(rng.normal(size=(30, 1))), torch.from_numpy(rng.normal(0.5, 1, size=30))
    plain, held = LinearRegression(*data, 3.0, 2.0), Buffered(*data, 3.0, 2.0)
    one, other = (decided(target, acceptance=acceptance, decision_batch=10, chains=50) for target in (plain, held))
    for mine, theirs in zip(one, other, strict=True):
        assert torch.equal(mine, theirs)
    assert 0 < int(one[0].sum()) < 50


def test_a_chain_tells_how_many_data_it_decided_on_and_goes_on_bit_for_bit():
    target, random = GeneratedLogistic(200, 2), Random(5)
    kernel = make_kernel("amagold", target, 0.01, steps=3, batch_size=20, acceptance="barker_minibatch",
                         decision_batch=20)  # fmt: skip

    def chain():
        return Chain(kernel, target, Plan(cycles=8), random, 6, lambda: target.initial(6, random).float())

    whole = chain()
    whole.begin()
    for _ in range(4):
        whole.advance()
    saved = whole.checkpoint()
    for _ in range(4):
        whole.advance()
    row = whole.row()
    assert 20 <= row["data_per_decision"] <= 200
    assert row["potential"] == pytest.approx(float(target.potential(whole.theta).mean()))
    again = chain()
    again.resume(saved)
    for _ in range(4):
        again.advance()
    assert torch.equal(again.theta, whole.theta) and again.row()["data_per_decision"] == row["data_per_decision"]


@pytest.mark.parametrize(
    ("target", "settings", "named"),
    [
        (DoubleWell(), {"acceptance": "austerity"}, "sampler.acceptance"),
        (LocationMixture(), {"acceptance": "austerity", "epsilon": 0.5}, "sampler.epsilon"),
        (LocationMixture(), {"acceptance": "austerity", "decision_batch": 1}, "sampler.decision_batch"),
        (LocationMixture(), {"acceptance": "barker_minibatch", "sigma": 1.5}, "sampler.sigma"),
    ],
)
def test_what_cannot_work_is_refused(target, settings, named):
    with pytest.raises(SettingError) as error:
        make_kernel("hmc", target, 0.1, **settings)
    assert error.value.setting == named


def test_one_datum_has_no_spread_to_decide_on():
    with pytest.raises(SettingError, match="two data"):
        make_kernel("hmc", LocationMixture(1), 0.1, acceptance="barker_minibatch")


def test_barker_s_rule_is_not_tuned_to_what_it_never_accepts():
    target = LocationMixture(20)
    kernel = make_kernel("hmc", target, 0.1, steps=2, acceptance="barker")
    with pytest.raises(SettingError, match="less than a half"):
        run(kernel, target, Plan(40, burn_in=20, tune=0.6), Random(1), 2, lambda: target.initial(2, Random(1)))
