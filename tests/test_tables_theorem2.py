"""The spectral gap that is measured, and Theorem 2's bound."""

import importlib
import math
from pathlib import Path

import pytest
import torch

from experiments.tables.theorem2 import Hyperbola, estimate, forms, gap, least_left, step_size_for, theorem2
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.potentials.analytic import Quartic
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


def test_the_gap_of_a_rotation_is_known():
    """HMC of time t on a standard normal multiplies the k-th Hermite function by cosᵏ t: the gap is 1 − cos t.

    40,000 exact draws have an error of about 1 %; the bound is six of them and .2 % for the span.
    """
    target = Normal(1)
    for steps in (10, 20):
        found, error = estimate(
            gap, forms(kernel("l2mc", target, 0.05, steps, 0.0), target, Random(steps), range(40_000))
        )
        exact = 1 - math.cos(0.05 * steps)
        assert error < 0.02 * exact
        assert abs(found - exact) < 6 * error + 0.002 * exact


def test_an_untouched_chain_has_no_gap_and_noise_costs_some():
    target, noisy = Quartic(1), Quartic(1, noise=3.0)
    assert 0 <= estimate(gap, forms(kernel("l2mc", target, 1e-4, 1, 0.25), target, Random(1), range(2000)))[0] < 1e-5
    whole = forms(kernel("l2mc", target, 0.25, 3, 0.25), target, Random(2), range(20_000))
    part = forms(kernel("amagold", noisy, 0.25, 3, 0.25), noisy, Random(2), range(20_000))
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
    assert calculator.main(["--steps", "10", "--noise", "1", "--at-least", "0.5"]) == 0
    assert "at least 0.5 of" in capsys.readouterr().out
    with pytest.raises(SystemExit) as left:
        calculator.main(["--steps", "0", "--noise", "1", "--step-size", "0.1"])
    assert left.value.code == 2 and "--steps=0: must be positive" in capsys.readouterr().err
