"""The targets without data: gradients against differences, constants, exact draws against quadrature.

Statistical tests compare means of n = 200,000 independent draws with exact values and fail beyond 6
standard errors (false alarm 2e-9 a comparison, below 1e-6 for all of them together).
"""

import math

import numpy as np
import pytest
import torch
from scipy import integrate

from sgmcmc.errors import SettingError
from sgmcmc.potentials.analytic import (
    Banana,
    DoubleWell,
    FunctionPotential,
    Gaussian,
    GaussianPairs,
    Mixture,
    Quartic,
)
from sgmcmc.potentials.location import LocationMixture
from sgmcmc.potentials.regression import GeneratedLogistic, HierarchicalRegression, LinearRegression
from sgmcmc.random import Random

COVARIANCE = [[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]]
DRAWS = 200_000


def quartic_of_vector(theta):
    return (theta**4 / 4 + theta**3 / 3 + theta**2 / 2).sum()


TARGETS = {
    "double_well": DoubleWell,
    "quartic": lambda: Quartic(3, cubic=-0.7, linear=0.4),
    "banana": Banana,
    "mixture": Mixture,
    "gaussian scalar": lambda: Gaussian(4, 2.0, mean=1.0),
    "gaussian diagonal": lambda: Gaussian(covariance=[1.0, 0.1, 9.0], mean=[0.0, 1.0, 2.0]),
    "gaussian matrix": lambda: Gaussian(covariance=COVARIANCE, mean=[1.0, 0.0, -1.0]),
    "pairs": lambda: GaussianPairs(10),
    "function": lambda: FunctionPotential(quartic_of_vector, 3),
}
DRAWN = [name for name in TARGETS if name != "function"]


@pytest.fixture(params=TARGETS)
def target(request):
    return TARGETS[request.param]()


def differences(potential, theta, step=1e-5):
    """Central differences of the potential, float64 [chains, dim]."""
    columns = []
    for i in range(theta.shape[1]):
        shift = torch.zeros_like(theta)
        shift[:, i] = step
        columns.append((potential(theta + shift) - potential(theta - shift)) / (2 * step))
    return torch.stack(columns, 1)


def agree(values, expected):
    """Means of independent values [n, …] within 6 standard errors of the expected ones.

    Of a variable without a variance the error is about as large as the mean itself, which would pass.
    """
    error = values.std(0) / math.sqrt(len(values))
    assert (error < 0.05 * (1 + abs(expected))).all(), error
    assert ((values.mean(0) - expected).abs() <= 6 * error).all(), (values.mean(0), expected, error)


def test_gradient_is_that_of_the_potential(target):
    theta = 1.5 * Random(1).normal("start", 0, 1, 20, target.dim, torch.float64)[0]
    torch.testing.assert_close(target.gradient(theta), differences(target.potential, theta), rtol=1e-7, atol=1e-7)


def test_shapes_and_dtypes(target):
    start = target.initial(5, Random(1))
    assert start.shape == (5, target.dim) and start.dtype == torch.float64
    assert target.data_size == 0 and target.noise == 0
    theta = start.float() + 0.1
    assert target.potential(theta).shape == (5,) and target.potential(theta).dtype == torch.float64
    assert target.gradient(theta).dtype == torch.float32
    assert torch.equal(target.potential(theta), target.potential(theta.double()))
    torch.testing.assert_close(target.gradient(theta).double(), target.gradient(theta.double()), rtol=1e-4, atol=1e-4)


def test_batch_is_added_to_the_gradient(target):
    theta = target.initial(5, Random(1))
    noise = Random(2).normal("minibatch", 0, 1, 5, target.dim, torch.float64)[0]
    assert torch.equal(target.gradient(theta, noise), target.gradient(theta) + noise)


@pytest.mark.parametrize("name", DRAWN)
def test_chains_do_not_depend_on_their_company(name):
    target = TARGETS[name]()
    for temperature in (1.0, 0.3):
        alone, beside = (target.exact(chains, Random(3), temperature) for chains in (range(4, 7), 9))
        torch.testing.assert_close(alone, beside[4:7], rtol=1e-14, atol=1e-14)
    assert torch.equal(target.initial(range(4, 7), Random(3)), target.initial(9, Random(3))[4:7])


LOGISTIC = GeneratedLogistic(400, 2)


@pytest.mark.parametrize(
    ("target", "mean", "std"),
    [
        (Banana(), [0, 0], [2, 2]),
        (Mixture(), [0, 0], [2, 2]),
        (Quartic(2, cubic=-0.7), [0, 0], [1, 1]),
        (FunctionPotential(quartic_of_vector, 2), [0, 0], [1, 1]),
        (Gaussian(covariance=[1.0, 0.1, 9.0], mean=[0.0, 1.0, 2.0]), [0, 1, 2], [2, 2 * 0.1**0.5, 6]),
        (Gaussian(covariance=COVARIANCE, mean=[1.0, 0.0, -1.0]), [1, 0, -1], [8**0.5, 2, 2**0.5]),
        (GaussianPairs(2), [0] * 4, [2] * 4),
        (LOGISTIC, [0, *LOGISTIC.beta.tolist()], [0.5] * 3),
        (LinearRegression(torch.eye(2), torch.ones(2), prior_variance=3.0), [0, 0], [3**0.5] * 2),
        (HierarchicalRegression(size=1, features=1), [0] * 3, [1] * 3),
        (LocationMixture(1), [0.5, 0], [1, 1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_chains_start_from_independent_normals(target, mean, std):
    """The means and products of z are within 6 of their own standard errors: false alarm 2e-7 for all."""
    z = (target.initial(40_000, Random(12)) - torch.tensor(mean)) / torch.tensor(std)
    assert z.mean(0).abs().max() < 6 / 200
    assert (z.T @ z / 40_000 - torch.eye(target.dim)).abs().max() < 6 * 2**0.5 / 200


def test_double_well_constants():
    target = DoubleWell(noise=1)
    x = torch.linspace(-7, 7, 9, dtype=torch.float64)[:, None]
    expected = (x + 4) * (x + 1) * (x - 1) * (x - 3) / 14 + 0.5
    torch.testing.assert_close(target.potential(x), expected[:, 0])
    assert target.dim == 1 and target.noise == 1
    assert (target.initial(7, Random(0)) == 0).all()
    total, _ = integrate.quad(lambda x: math.exp(-target.energy(torch.tensor(x, dtype=torch.float64)).item()), -9, 9)
    assert total == pytest.approx(28.0224, abs=1e-4)
    assert target.cumulative(torch.tensor(0.0)).item() == pytest.approx(0.87122, abs=1e-5)
    x = target.exact(DRAWS, Random(1))
    agree(x, torch.tensor([-2.14796]))
    agree((x + 2.14796) ** 2, torch.tensor([2.86177]))


@pytest.mark.thorough
@pytest.mark.parametrize("temperature", [1.0, 0.05, 4.0])
@pytest.mark.parametrize("name", ["double_well", "quartic"])
def test_independent_coordinates_against_quadrature(name, temperature):
    target = TARGETS[name]()

    def density(x):
        return math.exp(-target.energy(torch.tensor(x, dtype=torch.float64)).item() / temperature)

    def integral(function, low=-9.0, high=9.0):
        options = {"points": [-3, -2.5, -1, 0, 1, 2.3], "limit": 200, "epsabs": 0, "epsrel": 1e-12}
        return integrate.quad(lambda x: function(x) * density(x), low, high, **options)[0]

    total = integral(lambda x: 1.0)
    for edge in (-3.1, -0.2, 0.4, 2.1):
        below = integral(lambda x: 1.0, high=edge) / total
        assert target.cumulative(torch.tensor(edge, dtype=torch.float64), temperature).item() == pytest.approx(
            below, abs=1e-10
        )
    draws = target.exact(DRAWS, Random(2), temperature)
    assert draws.shape == (DRAWS, target.dim)
    for power in range(1, 5):
        agree(draws**power, torch.full((target.dim,), integral(lambda x, k=power: x**k) / total))
    if target.dim > 1:
        agree(draws[:, 0] * draws[:, 1], (integral(lambda x: x) / total) ** 2)


@pytest.mark.parametrize("temperature", [1.0, 1e-4, 50.0])
def test_inversion_returns_the_uniforms(temperature):
    for target in (DoubleWell(), Quartic(cubic=3.0, linear=-5.0)):
        draws = target.exact(1000, Random(5), temperature)
        uniforms = Random(5).uniform("start", 0, 1000, 1)
        torch.testing.assert_close(target.cumulative(draws, temperature), uniforms, rtol=0, atol=1e-11)


def test_quartic_is_the_plain_one_without_its_cubic_term():
    x = torch.tensor([[2.0, -1.0]], dtype=torch.float64)
    assert Quartic(2, cubic=0).potential(x).item() == pytest.approx(16 / 4 + 4 / 2 + 1 / 4 + 1 / 2)
    assert Quartic(2).potential(x).item() == pytest.approx(16 / 4 + 8 / 3 + 4 / 2 + 1 / 4 - 1 / 3 + 1 / 2)


@pytest.mark.parametrize("name", ["banana", "mixture"])
def test_planar_potentials_are_minus_log_densities(name):
    target = TARGETS[name]()
    points = torch.cartesian_prod(
        *(torch.arange(low, high, 0.05, dtype=torch.float64) for low, high in ((-15, 60), (-15, 15)))
    )
    assert torch.exp(-target.potential(points)).sum().item() * 0.05**2 == pytest.approx(1, abs=1e-6)


def test_planar_potentials_against_torch_distributions():
    theta = 3 * Random(4).normal("start", 0, 1, 50, 2, torch.float64)[0]
    normal = torch.distributions.Normal
    first = normal(theta[:, 1] ** 2 / 4, 1.0).log_prob(theta[:, 0])
    torch.testing.assert_close(Banana().potential(theta), -first - normal(0.0, 2.0).log_prob(theta[:, 1]))
    covariances = torch.tensor([[[2.0, sign * 1.8], [sign * 1.8, 2.0]] for sign in (1, -1)], dtype=torch.float64)
    parts = [
        torch.distributions.MultivariateNormal(theta.new_zeros(2), covariance).log_prob(theta)
        for covariance in covariances
    ]
    torch.testing.assert_close(Mixture().potential(theta), -torch.logsumexp(torch.stack(parts), 0) + math.log(2))
    far = torch.tensor([[1e3, 1e3]])
    assert torch.isfinite(Mixture().potential(far)).all() and torch.isfinite(Mixture().gradient(far)).all()


@pytest.mark.parametrize("temperature", [1.0, 0.4, 3.0])
def test_banana_draws(temperature):
    first, second = Banana().exact(DRAWS, Random(6), temperature).T
    agree(first, torch.tensor(temperature))
    agree((first - temperature) ** 2, torch.tensor(temperature + 2 * temperature**2))
    agree(second, torch.tensor(0.0))
    agree(second**2, torch.tensor(4 * temperature))
    agree(first * second**2, torch.tensor(12 * temperature**2))


@pytest.mark.thorough
@pytest.mark.parametrize("temperature", [1.0, 0.1, 0.4, 3.0])
def test_mixture_draws_against_quadrature(temperature):
    target = Mixture()
    axis = np.linspace(-9, 9, 1201) * math.sqrt(temperature)
    points = torch.tensor(np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2))
    weight = torch.exp(-target.potential(points) / temperature)
    weight /= weight.sum()

    def statistics(z):
        x, y = z.T
        return torch.stack((x, y, x * y, x**2, y**2, x**2 * y**2, (x * y).abs(), x**4), 1)

    agree(statistics(target.exact(DRAWS, Random(7), temperature)), weight @ statistics(points))


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in TARGETS if "gaussian" in name or name == "pairs"])
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_gaussian_draws(name, temperature):
    target = TARGETS[name]()
    draws = target.exact(DRAWS, Random(8), temperature)
    agree(draws, target.mean)
    away = draws - target.mean
    agree(away[:, :, None] * away[:, None, :4], temperature * target.covariance[:, :4])


def test_gaussian_potential_is_the_quadratic_form():
    target = Gaussian(covariance=COVARIANCE, mean=[1.0, 0.0, -1.0])
    theta = Random(9).normal("start", 0, 1, 6, 3, torch.float64)[0]
    away = theta - torch.tensor([1.0, 0.0, -1.0])
    expected = torch.einsum("ci,ij,cj->c", away, torch.linalg.inv(torch.tensor(COVARIANCE).double()), away) / 2
    torch.testing.assert_close(target.potential(theta), expected)
    assert Gaussian(5).dim == 5 and Gaussian().dim == 1 and target.dim == 3


def test_a_covariance_is_symmetric_to_rounding():
    """Products such as Q @ D @ Q.T are other than their transposes by the last digits of their largest numbers."""
    covariance = torch.tensor([[1e6, 1e-6], [1.0001e-6, 1e6]], dtype=torch.float64)
    assert Gaussian(covariance=covariance).potential(torch.full((1, 2), 1e3)).item() == pytest.approx(1)
    with pytest.raises(SettingError, match=r"must be symmetric: where only float32's rounding .* \(C \+ C.T\)/2$"):
        Gaussian(covariance=[[1.0, 0.5], [0.5 + 1e-7, 1.0]])


def test_pairs_are_neals():
    target = GaussianPairs(10, start=[-1.5, 1.5])
    assert target.dim == 20
    torch.testing.assert_close(
        target.covariance[:4, :4].flatten(),
        torch.tensor([1, 0.99, 0, 0, 0.99, 1, 0, 0, 0, 0, 1, 0.99, 0, 0, 0.99, 1], dtype=torch.float64),
    )
    assert target.initial(3, Random(0)).tolist() == [[-1.5, 1.5] * 10] * 3


def test_function_potential_is_the_class_written_by_hand():
    theta = Random(10).normal("start", 0, 1, 6, 3, torch.float32)[0]
    function, class_ = FunctionPotential(quartic_of_vector, 3, noise=0.5), Quartic(3)
    torch.testing.assert_close(function.potential(theta), class_.potential(theta))
    torch.testing.assert_close(function.gradient(theta), class_.gradient(theta))
    assert function.noise == 0.5 and not function.potential(theta).requires_grad


@pytest.mark.parametrize(
    "make, setting",
    [
        (lambda: Gaussian(covariance=[[1.0, 2.0], [2.0, 1.0]]), "covariance"),
        (lambda: Gaussian(covariance=[[1.0, 0.5], [0.0, 1.0]]), "covariance"),
        (lambda: Gaussian(covariance=-1.0), "covariance"),
        (lambda: Gaussian(3, covariance=[1.0, 1.0]), "covariance"),
        (lambda: Gaussian(covariance=[1.0, 1.0], mean=[0.0, 0.0, 0.0]), "covariance"),
        (lambda: Gaussian(covariance=[[1.0, 0.0], [1.0]]), "covariance"),
        (lambda: Gaussian(covariance=[]), "covariance"),
        (lambda: Gaussian(mean="wide"), "mean"),
        (lambda: Gaussian(0), "dim"),
        (lambda: Quartic(2.5), "dim=2.5: must be a whole number, at least 1"),
        (lambda: FunctionPotential(torch.sum, "2"), "dim='2': must be a whole number, at least 1"),
        (lambda: Quartic(noise=None), "noise=None: must be a number"),
        (lambda: Quartic(noise=-1.0), "noise"),
        (lambda: Quartic(cubic=math.nan), "cubic"),
        (lambda: Quartic(linear=math.inf), "linear"),
        (lambda: Gaussian(mean=math.nan), "mean"),
        (lambda: GaussianPairs(1, start=[math.nan, 1.0]), "start"),
        (lambda: GaussianPairs(0), "pairs"),
        (lambda: GaussianPairs(1, start=[1.0]), "start"),
        (lambda: FunctionPotential(lambda theta: theta, 2), "function"),
        (lambda: FunctionPotential(lambda theta: theta.sum() if theta[0] > 0 else theta[0], 2), "function"),
        (lambda: FunctionPotential(lambda theta: theta @ torch.eye(2) @ theta, 2), "function"),
        (lambda: DoubleWell().exact(3, Random(0), 0.0), "temperature"),
        (lambda: Mixture().exact(3, Random(0), 0.0), "temperature"),
    ],
)
def test_bad_settings_are_named(make, setting):
    with pytest.raises(SettingError, match=f"^{setting}"):
        make()
