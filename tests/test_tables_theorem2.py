"""The spectral gap that is measured, and Theorem 2's bound."""

import importlib
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from made import MadeRun

from experiments.config import compose
from experiments.tables.theorem2 import Hyperbola, _gaps, estimate, forms, gap, least_left, step_size_for, theorem2
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.potentials.analytic import DoubleWell, Quartic
from sgmcmc.random import Random
from sgmcmc.trajectory import run_trajectory, start


class Normal(Quartic):
    """x²/2, as a target whose distribution function is tabulated."""

    def energy(self, x):
        return x * x / 2

    def _slope(self, theta):
        return theta


def kernel(sampler, potential, size, steps, beta, **policies):
    friction = Friction.of(size, beta=beta)
    return make_kernel(
        sampler, potential, size, steps=steps, friction=friction, refresh="full", dtype=torch.float64, **policies
    )


@pytest.fixture
def many_parts(monkeypatch):
    """Errors of 400 parts of the draws, which are known to 4 %; those of ten are to a quarter."""
    monkeypatch.setattr("experiments.tables.theorem2.PARTS", 400)


def test_the_gap_of_a_rotation_is_known(many_parts):
    """HMC of time t on a standard normal multiplies the k-th Hermite function by cosᵏ t: the gap is 1 − cos t.

    160,000 exact draws have an error of about .5 %; the bound is six of them and .2 % for the span.
    """
    target = Normal(1)
    for steps in (10, 20):
        found, error = estimate(
            gap, forms(kernel("l2mc", target, 0.05, steps, 0.0), target, Random(steps), range(160_000))
        )
        exact = 1 - math.cos(0.05 * steps)
        assert error < 0.01 * exact
        assert abs(found - exact) < 6 * error + 0.002 * exact


@pytest.mark.thorough
def test_an_untouched_chain_has_no_gap_and_noise_costs_some(many_parts):
    target, noisy = Quartic(1), Quartic(1, noise=3.0)
    assert 0 <= estimate(gap, forms(kernel("l2mc", target, 1e-4, 1, 0.25), target, Random(1), range(2000)))[0] < 1e-5
    whole = forms(kernel("l2mc", target, 0.25, 3, 0.25), target, Random(2), range(80_000))
    part = forms(kernel("amagold", noisy, 0.25, 3, 0.25), noisy, Random(2), range(80_000))
    (all_of_it, error), (some, other) = estimate(gap, whole), estimate(gap, part)
    assert some < all_of_it - 5 * math.hypot(error, other)
    # Of the same draws, so that their ratio is known better than both.
    ratio, its = estimate(lambda one, two: gap(one) / gap(two), part, whole)
    assert ratio == some / all_of_it and its < 0.7 * ratio * math.hypot(error / all_of_it, other / some)
    # The slowest function of L2MC loses no more than the one that loses most, and AMAGOLD has no slower one.
    assert estimate(least_left, part, whole)[0] < ratio < 1
    assert estimate(least_left, whole, whole) == pytest.approx((1, 0), abs=1e-9)


def test_far_out_trajectories_are_accepted_only_where_the_slope_is_bounded():
    """Why no gap is known of targets whose slope grows without bound."""
    for target, low, high in ((Hyperbola(), 0.99, 1), (Normal(1), 0, 1e-6), (Quartic(1), 0, 1e-6)):
        for steps in (1, 10):
            trajectory = kernel("l2mc", target, 0.25, steps, 0.25)
            state = start(trajectory, target, torch.full((100, 1), 300.0, dtype=torch.float64), Random(3), range(100))
            accepted = run_trajectory(trajectory, target, state, Random(3), 0, range(100))[1].accept_prob.mean()
            assert low <= accepted <= high
    theta = torch.linspace(-20, 20, 41, dtype=torch.float64)[:, None].requires_grad_()
    (slope,) = torch.autograd.grad(Hyperbola().energy(theta).sum(), theta)
    assert torch.allclose(slope, Hyperbola().gradient(theta.detach())) and slope.abs().max() < 4


def test_the_bound_at_a_point_worked_by_hand():
    """ε = .1, V = 1, T = 10, σ = 1, β = .25: a = 1, bound e⁻³, c = 1 + √.0025 = 1.05."""
    found = theorem2(0.1, 1.0, 10)
    assert found["a"] == pytest.approx(1) and found["bound"] == pytest.approx(math.exp(-3))
    assert found["sigma"] == pytest.approx(1.05**-0.25) and found["beta"] == pytest.approx(0.25 * 1.05**-0.5)
    assert found["valid"] and not theorem2(0.3, 2.0, 1)["valid"]
    assert theorem2(0.1, 0.0, 10) == {"a": 0, "bound": 1, "sigma": 1, "beta": 0.25, "valid": True}


def test_the_calculator_inverts_the_bound_and_prints_it(capsys, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "scripts")
    calculator = importlib.import_module("theorem2")
    for part in (0.01, 0.5, 0.99):
        epsilon = step_size_for(part, noise=0.7, steps=3, sigma=1.5, beta=0.4)
        assert theorem2(epsilon, 0.7, 3, 1.5, 0.4)["bound"] == pytest.approx(part)
    assert theorem2(step_size_for(0.5, 1.0, 10), 1.0, 10)["bound"] == pytest.approx(0.5)  # σ = 1, β = ¼
    assert calculator.main(["--steps", "10", "--noise", "1", "--at-least", "0.5"]) == 0
    assert "at least 0.5 of" in capsys.readouterr().out
    with pytest.raises(SystemExit) as left:
        calculator.main(["--steps", "0", "--noise", "1", "--step-size", "0.1"])
    assert left.value.code == 2 and "--steps=0: must be positive" in capsys.readouterr().err
    for words in (["--noise", "1e200"], ["--noise", "1e-200"], ["--noise", "1", "--steps", "1" + 400 * "0"]):
        with pytest.raises(SystemExit) as left:
            calculator.main(["--steps", "10", "--at-least", "0.5", *words])
        assert left.value.code == 2 and "too large or too small" in capsys.readouterr().err


def test_the_bound_depends_on_mass_friction_and_dimension_as_the_theorem_says():
    """ε = 1.28, V = 3, T = 4, σ = 2, β = ½, d = 3: ε V² = 11.52, a = 46.08/8 = 2.4², c = 1 + √(11.52/1152) = 1.1."""
    found = theorem2(1.28, 3.0, 4, sigma=2.0, beta=0.5, dim=3)
    expected = {"a": 5.76, "bound": math.exp(-5.76 - 4.8), "sigma": 2 * 1.1**-0.25, "beta": 0.5 / 1.1**0.5}
    assert {key: found[key] for key in expected} == pytest.approx(expected)
    # 4 σ² β d is 24 in three dimensions, 8 in one: 11.52 is within the one alone, 8 within both.
    assert found["valid"] and not theorem2(1.28, 3.0, 4, sigma=2.0, beta=0.5)["valid"]
    assert theorem2(2.0, 2.0, 4, sigma=2.0, beta=0.5)["valid"]


def staying(x: float, size: float, noise: float, sigma: float, beta: float) -> float:
    """log of the density, at the double well's θ* = θ = x, of a trajectory of one step of AMAGOLD, which is accepted.

    r = 2σ²(θ_0 − x)/ε and r* = −r; the noise of both kinds, (1 + εβ) r* − (1 − εβ) r + ε∇U(θ_0), is normal.
    """
    half = torch.linspace(x - 3, x + 6, 100_001, dtype=torch.float64)
    r = 2 * sigma**2 * (half - x) / size
    spread = 4 * size * beta * sigma**2 + (size * noise) ** 2
    both = size * DoubleWell().gradient(half[:, None])[:, 0] - 2 * r
    logs = -(r**2) / (2 * sigma**2) - both**2 / (2 * spread)
    scale = (2 * sigma**2 / size) ** 2 * (1 + size * beta) / (2 * math.pi * sigma * spread**0.5)
    return float(torch.logsumexp(logs, 0)) + math.log(scale * float(half[1] - half[0]))


@pytest.mark.parametrize(("x", "left"), [(0.0, 1.0), (4.0, 0.88), (5.5, 0.00656)])
def test_far_out_the_density_of_staying_is_not_at_least_the_bound_times_l2mc_s(x, left):
    """What the caption says of the theorem's proof, whose A_t has ε² σ⁻² ∇U with another σ for AMAGOLD."""
    theory = theorem2(0.25, 0.25, 1)
    ratio = math.exp(
        staying(x, 0.25, 0.25, theory["sigma"], theory["beta"]) - staying(x, 0.25, 0.0, sigma=1.0, beta=0.25)
    )
    assert ratio == pytest.approx(left, rel=0.02) and (ratio > theory["bound"]) == (x < 5)
    assert theory["bound"] == pytest.approx(0.767, abs=1e-3) and theory["valid"]


def test_the_hyperbola_at_a_point_worked_by_hand():
    """U(3) = 16 √(25/16) = 20, U'(3) = 3/√(25/16) = 2.4."""
    theta = torch.tensor([[3.0], [0.0]], dtype=torch.float64)
    assert Hyperbola().potential(theta).tolist() == [20, 16] and Hyperbola().dim == 1
    assert Hyperbola().gradient(theta).flatten().tolist() == pytest.approx([2.4, 0])


def algorithm2(target, size: float, noise: float, steps: int, sigma: float, beta: float, chains: range):
    """AMAGOLD's Algorithm 2 as printed, one trajectory from exact draws: θ, θ*, min(1, a), NumPy arrays ``[chains]``.

    With the normals of the seed 0 that the sampler has, by their streams.
    """
    random = Random(0)
    theta = target.exact(chains, random)
    start = theta[:, 0].numpy()

    def slope(x):
        return target.gradient(torch.from_numpy(x)[:, None])[:, 0].numpy()

    def energy(x):
        return target.potential(torch.from_numpy(x)[:, None]).numpy()

    normals = random.normal("noise", 0, steps + 1, chains, 1, torch.float64)[..., 0].numpy()
    errors = random.normal("minibatch", 0, steps, chains, 1, torch.float64)[..., 0].numpy()
    r, rho = sigma * normals[0], 0.0
    x = start + size / (2 * sigma**2) * r
    for t in range(steps):
        x = x + (size / sigma**2 * r if t else 0)
        g, before = slope(x) + noise * errors[t], r
        kicked = (1 - size * beta) * r - size * g + np.sqrt(4 * size * beta * sigma**2) * normals[t + 1]
        r = kicked / (1 + size * beta)
        rho = rho + size / (2 * sigma**2) * g * (before + r)
    x = x + size / (2 * sigma**2) * r
    return start, x, np.minimum(np.exp(energy(start) - energy(x) + rho), 1)


def test_a_row_compares_the_gap_of_algorithm_2_with_the_theorem_s_parameters_to_that_without_noise():
    """Every number of every row, from trajectories of the paper's own algorithm and plain sums over draws."""
    steps, beta, each, config = 3, 0.2, 400, compose(["experiment=finding_theorem2", "point=0"])
    config |= {"chains": 2 * each, "step_size": [0.1, 0.25], "steps_per_cycle": steps}
    rows = _gaps(MadeRun(config=config | {"sampler": config["sampler"] | {"beta": beta}}))
    target, k, valid = DoubleWell(), np.arange(1, 25), set()

    def parts(*settings) -> list:
        """(E(f, g), Cov(f, g)) of each tenth of the draws."""
        theta, end, accept = algorithm2(target, *settings)
        before, after = (
            np.cos(np.outer(target.cumulative(torch.from_numpy(x), 3.0).numpy(), np.pi * k)) for x in (theta, end)
        )
        found = []
        for first in range(0, each, each // 10):
            some = slice(first, first + each // 10)
            moves, covariance = after[some] - before[some], np.cov(before[some].T, bias=True)
            form = np.einsum("n,nf,ng->fg", accept[some], moves, moves) / 2 / (each // 10)
            found.append((form, covariance))
        return found

    def least(one, other) -> float:
        return float(np.linalg.eigvals(np.linalg.solve(other, one)).real.min())

    def with_error(statistic, *samplers) -> tuple[float, float]:
        def of(kept):
            return statistic(*(np.mean([sampler[part] for part in kept], 0) for sampler in samplers))

        without = np.array([of([part for part in range(10) if part != out]) for out in range(10)])
        return of(range(10)), math.sqrt(9 / 10 * ((without - without.mean()) ** 2).sum())

    for size, chains in ((0.1, range(each)), (0.25, range(each, 2 * each))):
        whole = parts(size, 0.0, steps, 1.0, beta, chains)
        for noise in (0.25, 0.5, 1, 2):
            row, c = next(rows), 1 + math.sqrt(size * noise**2 / (16 * beta * steps))
            assert (row["target"], row["steps"], row["draws"]) == ("double_well", steps, each)
            assert (row["step_size"], row["noise"]) == (size, noise)
            noisy = parts(size, noise, steps, c**-0.25, beta * c**-0.5, chains)
            expected = {
                "gap": with_error(lambda one: least(*one), noisy),
                "l2mc": with_error(lambda one: least(*one), whole),
                "ratio": with_error(lambda one, other: least(*one) / least(*other), noisy, whole),
                "half": with_error(lambda one: least(*one[:, :12, :12]) / least(*one), whole),
                "least": with_error(lambda one, other: least(one[0], other[0]), noisy, whole),
            }
            for name, both in expected.items():
                assert (row[name], row[f"{name}_error"]) == pytest.approx(both, rel=1e-5)
            a = size * steps * noise**2 / (4 * beta)
            assert (row["a"], row["bound"]) == pytest.approx((a, math.exp(-a - 2 * a**0.5)))
            assert row["valid"] == (size * noise**2 <= 4 * beta)
            valid.add(row["valid"])
    assert next(rows, None) is None and valid == {True, False}
    own = config | {"model": {"name": "custom", "_target_": "experiments.tables.theorem2.Hyperbola", "noise": 1.0}}
    assert next(_gaps(MadeRun(config=own)))["target"] == "Hyperbola"
