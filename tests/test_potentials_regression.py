"""The targets that are sums over data: gradients, minibatches, energies against scipy's densities, Gibbs updates.

Statistical tests have many independent chains; their false-alarm rates are below 1e-6 each.
"""

import math
import os

import numpy as np
import pytest
import torch
from scipy import stats

from sgmcmc.data import Dataset
from sgmcmc.errors import SettingError
from sgmcmc.potentials.location import LocationMixture
from sgmcmc.potentials.regression import (
    GeneratedLogistic,
    HierarchicalRegression,
    LinearRegression,
    LogisticRegression,
)
from sgmcmc.random import Random


def table(size=40, features=3, seed=1, labels=(0, 1)):
    random = Random(seed)
    inputs = 3 + 2 * random.normal("split", 0, 1, size, features, torch.float64)[0]
    ones = (random.uniform("split", 1, size)[:, 0] < 0.4).long()
    return Dataset(inputs, torch.tensor(labels)[ones], 2)


def linear(size=40, dim=3):
    data = table(size, dim)
    targets = Random(2).normal("split", 0, 1, size, 1, torch.float64)[0, :, 0] + data.inputs.sum(1) / 3
    return LinearRegression(data.inputs, targets, noise_variance=0.7, prior_variance=2.0)


TARGETS = {
    "logistic": lambda: LogisticRegression(table()),
    "linear": linear,
    "hierarchical": lambda: HierarchicalRegression(size=40, features=4),
    "location": lambda: LocationMixture(40),
}


@pytest.fixture(params=TARGETS)
def target(request):
    return TARGETS[request.param]()


def draw(target, chains=6, dtype=torch.float64):
    return Random(3).normal("start", 0, 1, chains, target.dim, dtype)[0]


def test_gradient_is_that_of_the_potential(target):
    theta, step, columns = draw(target), 1e-5, []
    for i in range(target.dim):
        shift = torch.zeros_like(theta)
        shift[:, i] = step
        columns.append((target.potential(theta + shift) - target.potential(theta - shift)) / (2 * step))
    expected = torch.stack(columns, 1) * getattr(target, "moves", torch.ones(target.dim))
    torch.testing.assert_close(target.gradient(theta), expected, rtol=1e-6, atol=1e-5)


def test_minibatches_of_all_data_are_the_full_gradient(target):
    theta = draw(target)
    full, size = target.gradient(theta), target.data_size
    every = torch.stack([target.gradient(theta, torch.full((6, 1), i)) for i in range(size)])
    torch.testing.assert_close(every.mean(0), full)
    order = Random(4).permutation("minibatch", 0, 6, size)
    torch.testing.assert_close(target.gradient(theta, order), full)
    parts = [target.gradient(theta, part) for part in order.split(8, 1)]
    torch.testing.assert_close(torch.stack(parts).mean(0), full)
    twice = target.gradient(theta, torch.tensor([[5, 5, 2]]).expand(6, 3))
    torch.testing.assert_close(twice, (2 * every[5] + every[2]) / 3)
    assert ((every[5] - every[2])[:, :2].abs() > 1e-6).all()  # the batch is looked at


def test_each_chain_has_its_own_batch(target):
    theta, batch = draw(target), Random(5).integers("minibatch", 0, 1, 6, 8, target.data_size)[0]
    together = target.gradient(theta, batch)
    for chain in range(6):
        alone = target.gradient(theta[chain : chain + 1], batch[chain : chain + 1])
        torch.testing.assert_close(together[chain : chain + 1], alone)


@pytest.mark.parametrize("name", ["linear", "logistic", "generated", "hierarchical", "location"])
def test_chains_start_from_the_law_that_is_said(name):
    """Mean and standard deviation of each coordinate over 10,000 chains, within six of their errors."""
    target = GeneratedLogistic(400, 3) if name == "generated" else TARGETS[name]()
    beta = [0.0, *target.beta] if name == "generated" else None
    mean, std = {
        "linear": (0.0, math.sqrt(2)),  # the prior's
        "generated": (beta, 10 / 20),
        "location": ([0.5, 0.0], 1.0),
    }.get(name, (0.0, 1.0))
    theta = target.initial(10_000, Random(4)).numpy()
    assert np.all(np.abs(theta.mean(0) - np.array(mean)) < 6 * std / 100)
    assert np.all(np.abs(theta.std(0) / std - 1) < 6 / math.sqrt(20_000))


def test_shapes_dtypes_and_one_pass(target):
    start = target.initial(5, Random(1))
    assert start.shape == (5, target.dim) and start.dtype == torch.float64
    assert torch.equal(target.initial(range(2, 4), Random(1)), start[2:4])
    for dtype in (torch.float32, torch.float64):
        theta = start.to(dtype)
        energy, gradient = target.potential(theta), target.gradient(theta)
        assert energy.shape == (5,) and energy.dtype == torch.float64 and gradient.dtype == dtype
        torch.testing.assert_close(energy, target.potential(theta.double()), rtol=1e-14, atol=0)
        torch.testing.assert_close(gradient.double(), target.gradient(theta.double()), rtol=1e-4, atol=1e-3)
        if hasattr(target, "potential_and_gradient"):
            both = target.potential_and_gradient(theta)
            assert torch.equal(both[0], energy) and torch.equal(both[1], gradient)


def test_many_chains_are_split_without_a_trace(target, monkeypatch):
    theta = draw(target, 9)
    whole = target.potential(theta), target.gradient(theta)
    monkeypatch.setattr("sgmcmc.potentials.regression._ENTRIES", 2 * target.data_size)
    torch.testing.assert_close(target.potential(theta), whole[0])
    torch.testing.assert_close(target.gradient(theta), whole[1])


def test_logistic_potential_is_minus_the_log_joint_density():
    data = table()
    target = LogisticRegression(data, prior_variance=4.0)
    theta = draw(target).numpy()
    features = data.inputs.numpy()
    design = np.column_stack((np.ones(40), (features - features.mean(0)) / features.std(0)))
    probability = 1 / (1 + np.exp(-theta @ design.T))
    expected = -stats.bernoulli.logpmf(data.targets.numpy(), probability).sum(1)
    expected -= stats.norm.logpdf(theta, scale=2).sum(1)
    np.testing.assert_allclose(target.potential(torch.tensor(theta)), expected)
    predicted = target.predict(torch.tensor(theta), data.inputs)
    np.testing.assert_allclose(predicted, np.stack((1 - probability, probability), -1))
    # Of float32 theta, too, to float64: large log-odds would have a probability of 1.
    far = (8 * torch.tensor(theta)).float()
    assert torch.equal(target.predict(far, data.inputs), target.predict(far.double(), data.inputs))
    for other in (data.inputs[:, :1], data.inputs[0], data.inputs[:, 1:]):
        with pytest.raises(SettingError, match=r"^inputs=\[.*\]: must have the \d+ columns of train$"):
            target.predict(far, other)


def test_logistic_potential_is_smooth_and_finite_far_out():
    target = LogisticRegression(table())
    far = torch.tensor([[5000.0, -3000.0, 0.0, 0.0]])
    assert torch.isfinite(target.potential(far)).all() and torch.isfinite(target.gradient(far)).all()
    one = LogisticRegression(Dataset(torch.zeros(1, 1), torch.zeros(1, dtype=torch.int64), 2))
    logits = torch.tensor([19.9, 20.1, 39.9, 40.1], dtype=torch.float64)
    energy = one.potential(torch.stack((logits, 0 * logits), 1)) - logits**2 / 200 - math.log(2 * math.pi * 100)
    np.testing.assert_allclose(energy, np.logaddexp(0, logits.numpy()), rtol=0, atol=1e-13)


def test_location_potential_is_minus_the_log_joint_density():
    target = LocationMixture(9)
    theta, x = draw(target), target.data.numpy()
    for (first, second), energy in zip(theta.tolist(), target.potential(theta).tolist(), strict=True):
        density = (stats.norm.pdf(x, first, 2**0.5) + stats.norm.pdf(x, first + second, 2**0.5)) / 2
        log_prior = stats.norm.logpdf(first, scale=10**0.5) + stats.norm.logpdf(second)
        assert energy == pytest.approx(-np.log(density).sum() - log_prior, rel=1e-13)
    assert LocationMixture().data_size == 100


def test_generated_data_follow_their_models():
    """100,000 data at the true parameters; 12 comparisons at 6 standard errors: false alarm 3e-8."""
    default, target = GeneratedLogistic(), GeneratedLogistic(100_000, 2)
    assert (default.data_size, default.dim, default.prior_variance) == (10_000, 11, 100)
    x, y = target.inputs, target.targets
    score = (y - 1 / (1 + torch.exp(-x @ target.beta)))[:, None] * torch.column_stack((torch.ones(len(x)), x))
    expected = [(score, 0.0), (x, 0.0), (x**2, 1.0), (x[:, 0] * x[:, 1], 0.0)]
    away = LocationMixture(100_000).data - 0.5  # of the ends 0 and 1 of a fair coin, and a variance of 2
    expected += [(away**power, moment) for power, moment in ((1, 0.0), (2, 2.25), (3, 0.0), (4, 12 + 3 + 1 / 16))]
    for values, mean in expected:
        assert ((values.mean(0) - mean).abs() < 6 * values.std(0) / math.sqrt(100_000)).all()


def test_sizes_may_be_numpy_s_or_floats_that_are_whole():
    for make in (LocationMixture, GeneratedLogistic, HierarchicalRegression):
        plain, theta = make(size=9), make(size=9).initial(2, Random(0))
        for size in (np.int64(9), 9.0):
            assert torch.equal(make(size=size).potential(theta), plain.potential(theta))


def test_labels_are_two_of_any_kind():
    expected = LogisticRegression(table())
    for labels in ((1, 2), (-1, 1), (3, 7)):
        target = LogisticRegression(table(labels=labels))
        assert torch.equal(target.targets, expected.targets) and target.targets.dtype == torch.int64
    data = table()
    for only in (0, 1):
        target = LogisticRegression(Dataset(data.inputs, torch.full((40,), only), 2))
        assert (target.targets == only).all() and torch.isfinite(target.gradient(draw(target))).all()
    only_test = LogisticRegression(table(labels=(2, 2)), test=table(labels=(1, 2)))
    assert (only_test.targets == 1).all()
    with pytest.raises(SettingError, match="^data=the training set: has 3 classes; logistic regression needs"):
        LogisticRegression(Dataset(data.inputs, torch.arange(40) % 3, 2))


def test_constant_columns_do_no_harm():
    data = table()
    data.inputs[:, 1] = 0.1  # not a binary fraction: its computed standard deviation is not 0
    target = LogisticRegression(data)
    theta = draw(target)
    moved = theta.clone()
    moved[:, 2] = 0
    torch.testing.assert_close(target.predict(theta, data.inputs), target.predict(moved, data.inputs))
    assert torch.isfinite(target.gradient(theta)).all()


def test_test_data_are_standardised_by_the_training_data():
    train, test = table(), table(7, seed=9)
    target = LogisticRegression(train, test=test)
    theta = draw(target)
    features = (test.inputs - train.inputs.mean(0)) / train.inputs.std(0, correction=0)
    expected = torch.sigmoid(theta[:, :1] + theta[:, 1:] @ features.T)
    torch.testing.assert_close(target.predict(theta, test.inputs)[..., 1], expected)
    plain = LogisticRegression(train, standardise=False)
    expected = torch.sigmoid(theta[:, :1] + theta[:, 1:] @ test.inputs.T)
    torch.testing.assert_close(plain.predict(theta, test.inputs)[..., 1], expected)


@pytest.mark.skipif("SGMCMC_DATA" not in os.environ, reason="SGMCMC_DATA names no folder with the data")
@pytest.mark.parametrize("name, size, dim", [("australian", 690, 15), ("heart", 270, 14)])
def test_real_data_have_the_papers_sizes(name, size, dim):
    from sgmcmc.data import load

    target = LogisticRegression(load(name, os.environ["SGMCMC_DATA"], download=False).train)
    assert (target.data_size, target.dim) == (size, dim)
    theta = target.initial(4, Random(0))
    assert torch.isfinite(target.potential(theta)).all() and torch.isfinite(target.gradient(theta)).all()
    assert target.targets.float().mean().item() == pytest.approx({"australian": 307 / 690, "heart": 120 / 270}[name])


def test_linear_posterior_and_evidence():
    target = linear()
    inputs, targets = target._design.value.numpy(), target._targets.value.numpy()
    theta = draw(target)
    posterior = stats.multivariate_normal(target.posterior_mean.numpy(), target.posterior_covariance.numpy())
    evidence = stats.multivariate_normal(np.zeros(40), 0.7 * np.eye(40) + 2.0 * inputs @ inputs.T).logpdf(targets)
    np.testing.assert_allclose(target.potential(theta), -posterior.logpdf(theta.numpy()) - evidence, rtol=1e-10)
    torch.testing.assert_close(target.gradient(target.posterior_mean[None]), torch.zeros(1, 3).double())
    standard = LinearRegression(torch.zeros(1, 1), torch.zeros(1)).potential(torch.zeros(1, 1))
    assert standard.item() == pytest.approx(math.log(2 * math.pi))  # of two standard normals at 0


def test_linear_posterior_where_columns_are_alike():
    """Of two columns of ones, two data 1, σ² = 1 and the prior's variance v, θ₁ + θ₂ ~ N(4v/(4v + 1), 2v/(4v + 1)), and
    θ₁ − θ₂ ~ N(0, 2v) is independent of it."""
    v = 1e16
    target = LinearRegression(torch.ones(2, 2), torch.ones(2), 1.0, v)
    torch.testing.assert_close(target.posterior_mean, torch.tensor([0.5, 0.5]).double())
    torch.testing.assert_close(target.posterior_covariance.diagonal(), torch.tensor([v / 2, v / 2]).double())
    draws = target.exact(10_000, Random(6))
    apart = draws.diff(dim=1)[:, 0]
    energy = target.potential(draws) - target.potential(target.posterior_mean[None])
    assert abs(apart.square().mean() / (2 * v) - 1) < 6 * 2**0.5 / 100 and abs(energy.mean() - 1) < 6 / 100


@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_linear_draws(temperature):
    """100,000 draws; 12 comparisons at 5.5 standard errors: false alarm 5e-7."""
    target = linear()
    draws = target.exact(100_000, Random(6), temperature)
    away = draws - target.posterior_mean
    products = away[:, :, None] * away[:, None, :]
    for values, expected in ((away, 0 * target.posterior_mean), (products, temperature * target.posterior_covariance)):
        error = values.std(0) / math.sqrt(len(values))
        assert ((values.mean(0) - expected).abs() < 5.5 * error).all()
    torch.testing.assert_close(target.exact(range(3, 5), Random(6), temperature), draws[3:5], rtol=1e-12, atol=0)


def test_hierarchical_potential_is_minus_the_log_joint_density_of_the_logarithms():
    inputs, targets = table(12, 2).inputs, table(12, 1).inputs[:, 0]
    target = HierarchicalRegression(inputs, targets, tau_prior=(2.5, 0.5), sigma_prior=(1.5, 3.0))
    theta = draw(target)
    for row, energy in zip(theta.numpy(), target.potential(theta).tolist(), strict=True):
        beta, tau2, sigma2 = row[:2], math.exp(row[2]), math.exp(row[3])
        log_joint = stats.norm.logpdf(targets.numpy(), inputs.numpy() @ beta, math.sqrt(sigma2)).sum()
        log_joint += stats.norm.logpdf(beta, scale=math.sqrt(tau2)).sum()
        log_joint += stats.invgamma.logpdf(tau2, 2.5, scale=0.5) + math.log(tau2)
        log_joint += stats.invgamma.logpdf(sigma2, 1.5, scale=3.0) + math.log(sigma2)
        assert energy == pytest.approx(-log_joint, rel=1e-12)


def kolmogorov(sample, grid, density):
    """√n times the largest distance of the sample's distribution function from the density's on the grid."""
    cumulative = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))))
    expected = np.interp(np.sort(sample), grid, cumulative / cumulative[-1])
    steps = np.arange(len(sample) + 1) / len(sample)
    return math.sqrt(len(sample)) * max((expected - steps[:-1]).max(), (steps[1:] - expected).max())


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
def test_gibbs_draws_the_tempered_conditional(temperature):
    """Against numerical integration of exp(−U/T) in each log variance; 50,000 chains, P(statistic > 2.8) = 3e-7."""
    target = HierarchicalRegression(size=9, features=3)
    start = torch.tensor([[0.7, -0.2, 1.1, 0.4, -0.9]], dtype=torch.float64)
    after = target.gibbs(start.repeat(50_000, 1), temperature, Random(8), 5, 50_000)
    assert torch.equal(after[:, :3], start[:, :3].expand(50_000, 3))
    for column in (3, 4):
        grid = np.linspace(-15, 40, 40_001)
        line = start.repeat(len(grid), 1)
        line[:, column] = torch.tensor(grid)
        energy = target.potential(line).numpy()
        density = np.exp(-(energy - energy.min()) / temperature)
        assert density[0] < 1e-9 and density[-1] < 1e-9
        assert kolmogorov(after[:, column].numpy(), grid, density) < 2.8
    product = (after[:, 3] - after[:, 3].mean()) * (after[:, 4] - after[:, 4].mean())
    assert product.mean().abs() < 5.5 * product.std() / math.sqrt(50_000)


def test_gibbs_numbers_are_the_chains_own():
    target = HierarchicalRegression(size=20, features=2)
    theta = draw(target, 8)
    whole = target.gibbs(theta, 1.0, Random(8), 5, 8)
    torch.testing.assert_close(target.gibbs(theta[3:6], 1.0, Random(8), 5, range(3, 6)), whole[3:6])
    assert not torch.equal(target.gibbs(theta, 1.0, Random(8), 6, 8), whole)
    assert target.gibbs(theta.float(), 1.0, Random(8), 5, 8).dtype == torch.float32
    several = target.gibbs(theta, torch.tensor([1.0, 0.5, 0, 1, 1, 1, 1, 1]), Random(8), 5, 8)
    torch.testing.assert_close(several[1:2], target.gibbs(theta[1:2], 0.5, Random(8), 5, range(1, 2)))
    torch.testing.assert_close(several[3:], whole[3:])


def test_gibbs_at_temperature_zero_minimises():
    target = HierarchicalRegression(size=20, features=2)
    theta = target.gibbs(draw(target), 0.0, Random(8), 0, 6).requires_grad_()
    (slope,) = torch.autograd.grad(target.potential(theta).sum(), theta)
    torch.testing.assert_close(slope[:, -2:], torch.zeros(6, 2).double(), rtol=0, atol=1e-10)


def test_gibbs_survives_the_tail_of_a_small_shape():
    from sgmcmc.potentials.regression import _log_gamma_draw

    uniform = np.array([1e-16, 1e-3, 0.5, 1 - 1e-16])
    hot = _log_gamma_draw(uniform, 0.5, np.array(1e3))
    assert np.isfinite(hot).all() and (np.diff(hot) > 0).all()
    near = _log_gamma_draw(np.array([0.3]), 1.0, np.array(1.0))
    assert near[0] == pytest.approx(math.log(-math.log(0.7)))


@pytest.mark.thorough
def test_geweke_joint_distribution():
    """Data, beta and variances drawn from the model, then Gibbs: the variances must still follow their priors.

    With beta ~ N(0, tau2) and y ~ N(x beta, sigma2) drawn given prior variances, drawing the variances again given
    beta and y leaves their priors invariant. One data set serves one chain, so each is a target of its own;
    1,500 of them, P(statistic > 2.8) = 3e-7 for each variance.
    """
    random, inputs = Random(11), table(4, 2).inputs
    uniform = random.uniform("start", 0, 1500, 2).numpy()
    priors = ((2.5, 0.5), (1.5, 3.0))
    variances = [stats.invgamma.ppf(uniform[:, i], shape, scale=scale) for i, (shape, scale) in enumerate(priors)]
    normal = random.normal("start", 1, 1, 1500, 6, torch.float64)[0].numpy()
    beta = normal[:, :2] * np.sqrt(variances[0])[:, None]
    targets = torch.tensor(beta @ inputs.numpy().T + normal[:, 2:] * np.sqrt(variances[1])[:, None])
    theta = torch.tensor(np.column_stack((beta, np.log(variances[0]), np.log(variances[1]))))
    after = torch.cat(
        [
            HierarchicalRegression(inputs, targets[i], tau_prior=priors[0], sigma_prior=priors[1]).gibbs(
                theta[i : i + 1], 1.0, random, 0, range(i, i + 1)
            )
            for i in range(1500)
        ]
    )
    for column, (shape, scale) in zip((2, 3), priors, strict=True):
        grid = np.linspace(-12, 30, 20_001)
        density = np.exp(stats.invgamma.logpdf(np.exp(grid), shape, scale=scale) + grid)
        assert kolmogorov(after[:, column].numpy(), grid, density) < 2.8


def test_moves_and_the_illustration():
    target = HierarchicalRegression()
    assert (target.dim, target.data_size) == (12, 100) and target.moves.dtype == torch.bool
    assert target.moves.tolist() == [True] * 10 + [False] * 2
    inputs, targets = target._design.value, target._targets.value
    residual = targets - inputs @ torch.linalg.lstsq(inputs, targets[:, None]).solution[:, 0]
    assert residual.square().sum().item() / 90 == pytest.approx(0.25, rel=0.5)
    assert torch.equal(targets, HierarchicalRegression()._targets.value)


ZEROS = torch.zeros(2, dtype=torch.int64)
TWO = Dataset(torch.tensor([[0.0, 1, 0], [1, 1, 3]], dtype=torch.float64), ZEROS, 2)


@pytest.mark.parametrize(
    "make, setting",
    [
        (lambda: LogisticRegression(table(), prior_variance=0.0), "prior_variance"),
        (lambda: LogisticRegression(table(), prior_variance=None), "prior_variance=None: must be a number"),
        (lambda: LogisticRegression(TWO.inputs), r"data=Tensor: must be an sgmcmc.Dataset\(inputs, targets, classes\)"),
        (lambda: LogisticRegression(TWO, test=TWO.inputs), "test=Tensor: must be an sgmcmc.Dataset"),
        (lambda: LocationMixture(2.5), "size=2.5: must be a whole number"),
        (lambda: LinearRegression(torch.ones(2, 1), torch.ones(2), noise_variance=-1.0), "noise_variance"),
        (lambda: HierarchicalRegression(tau_prior=(0.0, 1.0)), "tau_prior"),
        (lambda: HierarchicalRegression(tau_prior=(2.0,)), "tau_prior"),
        (lambda: HierarchicalRegression(sigma_prior=(2.0, 1.0, 1.0)), "sigma_prior"),
        (lambda: HierarchicalRegression(size=0), "size="),
        (lambda: HierarchicalRegression(features=0), "features="),
        (lambda: LocationMixture(0), "size="),
        (lambda: linear().exact(2, Random(0), 0.0), "temperature"),
        (lambda: LogisticRegression(Dataset(torch.zeros(2, 1, 4, 4), ZEROS, 2)), r"inputs=\[2, 1, 4, 4\]"),
        (lambda: LogisticRegression(Dataset(torch.zeros(2), ZEROS, 2)), r"inputs=\[2\]"),
        (lambda: LogisticRegression(Dataset(torch.zeros(0, 3), ZEROS[:0], 2)), r"inputs=\[0, 3\]: are no data"),
        (lambda: LogisticRegression(Dataset(torch.zeros(2, 0), ZEROS, 2)), r"inputs=\[2, 0\]: are no data"),
        (lambda: LogisticRegression(TWO, test=Dataset(torch.zeros(2, 4), ZEROS, 2)), r"inputs of test=\[2, 4\]"),
        (lambda: LogisticRegression(TWO, test=Dataset(torch.zeros(0, 3), ZEROS[:0], 2)), r"inputs of test=\[0, 3\]"),
        (lambda: LogisticRegression(Dataset(TWO.inputs, ZEROS, 2, [1.0], [2.0])), r"mean=\[1.0\]: is not used"),
        (lambda: LogisticRegression(Dataset(1e200 * TWO.inputs, ZEROS, 2)), "inputs=columns 0, 2: are too large"),
        (lambda: LogisticRegression(Dataset(1e-200 * TWO.inputs, ZEROS, 2)), "inputs=columns 0, 2: are too large"),
        (lambda: LinearRegression([[1.0]], [1.0]), "inputs=list: must be a torch.Tensor"),
        (lambda: LinearRegression(torch.zeros(2), torch.zeros(2)), r"inputs=\[2\]: must have 2 dimensions"),
        (lambda: LinearRegression(torch.zeros(0, 3), torch.zeros(0)), r"inputs=\[0, 3\]: are no data"),
        (lambda: LinearRegression(torch.ones(2, 2), torch.ones(2), 1, 1e30), r"inputs=\[2, 2\]: have a posterior bey"),
        (lambda: LinearRegression(torch.zeros(2, 1), torch.zeros(2, 1)), r"targets=\[2, 1\]: must have 1 dimension:"),
        (lambda: LinearRegression(torch.zeros(2, 1), torch.zeros(3)), r"targets=\[3\]: must be \[2\]"),
        (lambda: LinearRegression(torch.zeros(2, 1), torch.zeros(2) / 0), "targets=NaN or infinite"),
        (lambda: HierarchicalRegression(targets=torch.zeros(2)), "inputs=NoneType"),
        (lambda: HierarchicalRegression(torch.zeros(2, 1)), "targets=NoneType"),
    ],
)
def test_bad_settings_are_named(make, setting):
    with pytest.raises(SettingError, match=f"^{setting}"):
        make()


def test_many_chains_have_their_own_u_and_gradient(monkeypatch):
    target = GeneratedLogistic(40, 2)
    theta = target.initial(9, Random(1))
    whole = target.potential_and_gradient(theta)
    monkeypatch.setattr("sgmcmc.potentials.regression._ENTRIES", 2 * target.data_size)
    for one, other in zip(target.potential_and_gradient(theta), whole, strict=True):
        torch.testing.assert_close(one, other)


def test_the_variances_priors_are_inverse_gammas_of_2_and_1():
    target = HierarchicalRegression()
    assert target.tau_prior == target.sigma_prior == (2, 1)
