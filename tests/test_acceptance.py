"""The two rules of decision, and their corner cases: infinite ratios, v near its ends and at 0."""

import math

import pytest
import torch
from conftest import LIMIT, z_score
from scipy.stats import kstest

from sgmcmc.acceptance import metropolis, persistent_start, persistent_uniform
from sgmcmc.random import Random

F64 = torch.float64
INF, NAN = math.inf, math.nan


def tensor(*values):
    return torch.tensor(values, dtype=F64)


def test_metropolis_accepts_below_the_ratio():
    u = tensor(0.2, 0.3, 0.999, 1e-16, 0.5)
    ratio = tensor(0.25, 0.25, 1.0, 1e-15, 7.0)
    assert metropolis(ratio.log(), u).tolist() == [True, False, True, True, True]


def test_metropolis_rejects_what_is_no_number():
    assert metropolis(tensor(-INF, NAN, INF, 800.0, -800.0), torch.full((5,), 2.0**-53, dtype=F64)).tolist() == [
        False, False, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("ratio", [0.9, 0.3, 1e-3])
def test_metropolis_accepts_as_often_as_the_ratio(ratio):
    u = Random(1).uniform("decision", 1, 400_000)[:, 0]
    accepted = metropolis(torch.full_like(u, math.log(ratio)), u)
    assert abs(z_score(accepted.double() - ratio)) < LIMIT


def rule(v, log_mh, delta):
    """(accepted, new v) of plain numbers."""
    v = tensor(*v)
    accepted, sign, log_abs = persistent_uniform(
        tensor(*log_mh), torch.where(v < 0, -1.0, 1.0).to(F64), v.abs().log(), delta
    )
    return accepted.tolist(), (sign * log_abs.exp()).tolist()


def test_v_moves_wraps_and_is_divided_by_the_ratio():
    log = math.log
    accepted, v = rule(
        [0.3, 0.3, -0.5, 0.95, -0.1, 0.6], [log(2.0), log(0.3), log(0.4), log(1.5), log(0.2), log(0.7)], 0.1
    )
    assert accepted == [True, False, False, True, True, False]
    assert v == pytest.approx([0.2, 0.4, -0.4, -0.95 / 1.5, 0.0, 0.7], abs=1e-15)
    accepted, v = rule([-0.95, 0.05, 0.2], [log(0.9), log(1.0), log(0.05)], -0.1)
    assert accepted == [False, True, False] and v == pytest.approx([0.95, -0.05, 0.1])


def test_a_rejection_leaves_v_where_it_moved_to_and_delta_zero_leaves_it_alone():
    accepted, v = rule([0.7, -0.7], [-INF, -INF], 0.0)
    assert accepted == [False, False] and v == pytest.approx([0.7, -0.7])
    accepted, v = rule([0.7, -0.7], [0.0, 0.0], 0.0)
    assert accepted == [True, True] and v == pytest.approx([0.7, -0.7])


def test_v_too_small_for_a_float_keeps_its_logarithm():
    """MH = e^800: v/MH underflows, its logarithm does not; with δ = 0 the next ratio e^−790 then accepts again."""
    sign, log_abs = tensor(-1.0), tensor(math.log(0.5))
    accepted, sign, log_abs = persistent_uniform(tensor(800.0), sign, log_abs, 0.0)
    assert bool(accepted) and float(log_abs) == pytest.approx(math.log(0.5) - 800) and float(sign) == -1
    accepted, sign, log_abs = persistent_uniform(tensor(-790.0), sign, log_abs, 0.0)
    assert bool(accepted) and float(log_abs) == pytest.approx(math.log(0.5) - 10) and float(sign) == -1


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_infinite_ratios(delta):
    """An infinite ratio accepts and leaves v = 0, not NaN; then everything works on; −∞ and NaN reject."""
    accepted, sign, log_abs = persistent_uniform(
        tensor(INF, -INF, NAN), tensor(1, 1, -1), tensor(-0.5, -0.5, -0.5), delta
    )
    assert accepted.tolist() == [True, False, False]
    assert float(log_abs[0]) == -INF and not bool(log_abs.isnan().any()) and not bool(sign.isnan().any())
    again, sign, log_abs = persistent_uniform(tensor(-1.0, INF, INF), sign, log_abs, delta)
    assert again.tolist() == [True, True, True] and not bool(log_abs.isnan().any())
    assert float(sign[0] * log_abs[0].exp()) == pytest.approx(delta * math.e)


def test_v_starts_uniform():
    sign, log_abs = persistent_start(Random(1).uniform("decision", 0, 100_000)[:, 0])
    v = sign * log_abs.exp()
    assert kstest(v.numpy(), "uniform", (-1, 2)).pvalue > 1e-6
    sign, log_abs = persistent_start(tensor(0.5))
    assert float(sign) == 1 and float(log_abs) == -INF


def test_v_stays_uniform_and_its_acceptances_are_metropolis_s():
    """A random walk on a normal: |v| after 60 decisions is uniform; the acceptance is that of fresh uniforms;
    rejections come in clusters (their number varies more from chain to chain)."""
    chains, decisions = 20_000, 60
    results = {}
    for delta in (0.03, None):
        x = Random(1).normal("start", 0, 1, chains, 1, F64)[0, :, 0]
        sign, log_abs = persistent_start(Random(1).uniform("decision", 0, chains, 2)[:, 1])
        count = torch.zeros(chains, dtype=F64)
        for index in range(decisions):
            there = x + 0.5 * Random(1).normal("noise", index, 1, chains, 1, F64)[0, :, 0]
            log_mh = (x**2 - there**2) / 2
            if delta is None:
                accepted = metropolis(log_mh, Random(1).uniform("decision", index + 1, chains)[:, 0])
            else:
                accepted, sign, log_abs = persistent_uniform(log_mh, sign, log_abs, delta)
            x, count = torch.where(accepted, there, x), count + accepted
        results[delta] = (count / decisions, count.var())
        assert kstest(x.numpy(), "norm").pvalue > 1e-6
    assert kstest(log_abs.exp().numpy(), "uniform").pvalue > 1e-6
    (slow, spread), (fresh, plain) = results.values()
    both = (float(slow.var() + fresh.var()) / chains) ** 0.5
    assert abs(float(slow.mean() - fresh.mean())) < LIMIT * both
    assert float(spread) > 1.2 * float(plain)
