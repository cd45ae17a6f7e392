"""The mixed target: U, its gradient, its marginals; that samplers with Gibbs updates leave it as it is."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from sgmcmc.errors import SettingError
from sgmcmc.kernel import make_kernel
from sgmcmc.potentials.mixed import MixedBinary
from sgmcmc.random import Random
from sgmcmc.trajectory import evaluate, run_trajectory, start

F64 = torch.float64


def test_u_is_minus_the_log_joint_density():
    target = MixedBinary(binary=3, sd=0.3)
    theta = torch.tensor([[0.4, 0.7, 1, 0, 1], [-1.2, -1.0, 0, 0, 1]], dtype=F64)
    for row, value in zip(theta.numpy(), target.potential(theta), strict=True):
        u, v, w = row[0], row[1], row[2:]
        one = 1 / (1 + math.exp(u))
        log_density = norm.logpdf(u) + norm.logpdf(v, u, 0.3) + np.log(np.where(w == 1, one, 1 - one)).sum()
        assert float(value) == pytest.approx(-log_density, rel=1e-13)


def test_the_gradient_is_that_of_u_where_coordinates_move_and_0_elsewhere():
    target = MixedBinary()
    theta = target.exact(5, Random(3)).requires_grad_()
    (slope,) = torch.autograd.grad(target.potential(theta).sum(), theta)
    gradient = target.gradient(theta.detach())
    torch.testing.assert_close(gradient[:, :2], slope[:, :2])
    assert (target.dim, target.sd, target.every, target.noise) == (22, 0.04, 1, 0)
    assert not gradient[:, 2:].any() and target.moves.tolist() == [True, True] + [False] * 20


@pytest.mark.parametrize("temperature", [1.0, 0.5, 0.0])
def test_gibbs_draws_the_tempered_conditional(temperature):
    target = MixedBinary(binary=4)
    theta = torch.tensor([[0.7, 0.7, 0, 0, 0, 0]], dtype=F64).repeat(150_000, 1)
    after = target.gibbs(theta, temperature, Random(4), 2, 150_000)
    assert torch.equal(after[:, :2], theta[:, :2])
    one = 1 / (1 + math.exp(0.7 / temperature)) if temperature else 0.0
    share = after[:, 2:].mean(0)
    assert float((share - one).abs().max()) <= 5.5 * math.sqrt(one * (1 - one) / 150_000)


def test_gibbs_numbers_are_the_chains_own_and_come_each_so_many_trajectories():
    target = MixedBinary(every=3)
    theta = target.exact(8, Random(1))
    whole = target.gibbs(theta, 1.0, Random(8), 5, 8)
    assert torch.equal(target.gibbs(theta[3:6], 1.0, Random(8), 5, range(3, 6)), whole[3:6])
    same = [target.gibbs(theta, 1.0, Random(8), trajectory, 8) is theta for trajectory in range(6)]
    assert same == [True, True, False, True, True, False]


def test_exact_draws_have_the_marginals():
    theta = MixedBinary(binary=2, sd=0.5).exact(300_000, Random(2))
    u, v, w = theta[:, 0], theta[:, 1], theta[:, 2]
    for values, mean, spread in (
        (u, 0, 1),
        (u**2, 1, 2**0.5),
        (v**2, 1.25, 1.25 * 2**0.5),
        (u * v, 1, (1.25 + 1) ** 0.5),
        (w, 0.5, 0.5),
    ):
        assert abs(float(values.mean()) - mean) < 5.5 * spread / 300_000**0.5


@pytest.mark.parametrize("start, width", [("exact", 1.0), ("initial", 2.0)])
def test_draws_and_starts_are_independent_once_standardised(start, width):
    """u, v given u, and each w given u, of mean 0 and variance 1; 14 comparisons at 5.5 standard errors: 5e-7."""
    draws = getattr(MixedBinary(binary=2, sd=0.5), start)(200_000, Random(2))
    u, v, w = draws.split((1, 1, 2), 1)
    one = 1 / (1 + u.exp())
    z = torch.cat((u / width, (v - u) / 0.5, (w - one) / (one * (1 - one)).sqrt()), 1)
    spread = torch.ones(4, 4).fill_diagonal_(2**0.5)
    spread[[2, 3], [2, 3]] = math.sqrt(2 * math.exp(width**2 / 2) - 2)  # E[1/(p(1 − p))] = 2 + 2 E cosh u, less 4
    assert float(z.mean(0).abs().max()) < 5.5 / 200_000**0.5
    assert bool(((z.T @ z / 200_000 - torch.eye(4)).abs() < 5.5 * spread / 200_000**0.5).all())


def test_what_cannot_be_is_refused():
    for setting, value in {"binary": 0, "sd": 0.0, "every": 0}.items():
        with pytest.raises(SettingError, match=f"^{setting}={value}: must be"):
            MixedBinary(**{setting: value})
    with pytest.raises(SettingError, match="temperature"):
        MixedBinary().exact(2, Random(0), 0.5)


def after_some_trajectories(
    sampler: str, stale: bool = False, number: int = 12, chains: int = 60_000, noise: float = 0.0, **settings
):
    """z values of moments, started exactly, after trajectories and Gibbs updates; ``stale`` keeps the old U."""
    target = MixedBinary(binary=8, sd=0.2, noise=noise)
    steps = 3 if sampler in ("hmc", "ggmc") else 1
    alpha = None if steps == 3 else 0.9
    kernel = make_kernel(sampler, target, 0.2, steps=steps, alpha=alpha, dtype=F64, **settings)
    random, index = Random(11), torch.arange(chains)
    state = start(kernel, target, target.exact(chains, random), random, index)
    accepted = 0.0
    for trajectory in range(number):
        state, record = run_trajectory(kernel, target, state, random, trajectory, index)
        accepted += float(record.accepted.double().mean()) / number
        old = state.potential
        state.theta = target.gibbs(state.theta, 1.0, random, trajectory, index)
        evaluate(kernel, target, state)
        if stale:
            state.potential = old
    u, v, k = state.theta[:, 0], state.theta[:, 1], state.theta[:, 2:].sum(-1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    variance_of_share = weights @ (1 / (1 + np.exp(nodes)) - 0.5) ** 2 / weights.sum()
    variance_k = 8 / 4 + (64 - 8) * variance_of_share  # E[Var(k | u)] + Var(E[k | u])
    moments = [(u, 0.0), (u**2, 1.0), (u**4, 3.0), ((v - u) ** 2, 0.04), ((k - 4) ** 2, variance_k)]
    moments.append((state.momentum[:, :2].square().sum(-1), 2.0))
    z = [(float(values.mean()) - mean) / float(values.std()) * chains**0.5 for values, mean in moments]
    return np.abs(z), accepted


@pytest.mark.thorough
@pytest.mark.parametrize("sampler", ["hmc", "persistent_langevin", "nonreversible_langevin"])
def test_gibbs_between_trajectories_leaves_the_target_invariant(sampler):
    z, accepted = after_some_trajectories(sampler)
    assert 0.7 < accepted < 0.95
    assert z.max() < 5.5, z


@pytest.mark.thorough
@pytest.mark.parametrize("sampler", ["hmc", "nonreversible_langevin"])
def test_invariance_fails_with_a_stale_u(sampler):
    z, _ = after_some_trajectories(sampler, stale=True)
    assert z.max() > 8, z


@pytest.mark.thorough
@pytest.mark.parametrize("sampler", ["hmc", "ggmc"])
def test_gradient_noise_moves_nothing_that_only_gibbs_changes(sampler):
    """Else the binary ones leave 0 and 1 within a trajectory, and GGMC its target: z was 20."""
    settings = {"gradient": "minibatch", "acceptance": "metropolis"}
    z, accepted = after_some_trajectories(sampler, noise=1.0, **settings)
    assert 0.6 < accepted < 0.95
    assert z.max() < 5.5, z
    target = MixedBinary(binary=3, noise=2.0)
    kernel = make_kernel(sampler, target, 0.05, steps=3, dtype=F64, **settings)
    state = start(kernel, target, target.exact(50, Random(2)), Random(2), range(50))
    state, record = run_trajectory(kernel, target, state, Random(2), 0, range(50))
    assert bool(record.accepted.any()) and torch.equal(record.proposal[:, 2:], record.proposal[:, 2:].round())
    assert not state.momentum[:, 2:].any()
