"""What came out of a run, in numbers: of chances, draws and rows that are given, each number by hand."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import sgmcmc
from experiments import outcome
from sgmcmc.chain import Result
from sgmcmc.diagnostics import Estimate
from sgmcmc.plan import Plan

F64 = torch.float64


def told(chains=4, config=None, metrics=None, dim=1, size=0, plan=None, steps=3, step_size=0.1, **result):
    """The groups' records of a run of 100 cycles that took 4 s and 25 gradients."""
    kernel = SimpleNamespace(step_size=step_size, steps=steps, temperature=1.0, impossible=None)
    kernel.__dict__.update({"acceptance": "metropolis"} | result.pop("kernel", {}))
    potential = SimpleNamespace(dim=dim, data_size=size)
    pieces = SimpleNamespace(plan=Plan(**{"cycles": 100} | (plan or {})), chains=chains, potential=potential)
    pieces.kernel = SimpleNamespace(steps=64)  # as it was given, which a run may change
    numbers = {"cycles": 100, "seconds": 4.0, "gradients": 25.0, "accept_prob": torch.full((chains,), 0.5, dtype=F64)}
    done = Result("done", kernel=kernel, **numbers | result)
    return outcome.of_groups(config or {}, pieces, None, done, metrics)


@pytest.fixture
def seen(monkeypatch):
    """What is looked at, of draws that are given, where ESS is 16 and R-hat 1.5."""
    looked = []

    def of(draws=None):
        monkeypatch.setattr(sgmcmc, "load_samples", lambda path: draws)
        return looked

    ess = Estimate(np.array([16.0]), np.array([4.0]))
    monkeypatch.setattr("experiments.outcome.diagnostics.ess", lambda draws, method: looked.append(draws) or ess)
    monkeypatch.setattr("experiments.outcome.diagnostics.r_hat", lambda draws: np.array([1.5]))
    return of


def test_what_was_tuned_is_of_a_group_s_chains_that_are_finite():
    """Six chains of steps 1 to 6, the first of which has diverged; there from the burn-in's last cycle on."""
    given = {"chains": 6, "config": {"step_size": [0.1, 0.2]}, "frozen": [0]}
    given["step_size"] = torch.arange(1.0, 7.0, dtype=F64)[:, None]
    for way in ({"tune": 0.6}, {"trajectory": True}):
        first, second = told(**given, plan={"burn_in": 100} | way)
        assert (first["tuned_step_size"], second["tuned_step_size"]) == (2.5, 5.0)
        assert first.get("tuned_steps") == (3 if "trajectory" in way else None)
        assert "accept_prob" not in first  # which is of the cycles after it
        assert not any("tuned" in key for key in told(**given, cycles=99, plan={"burn_in": 100} | way)[0])


def test_an_acceptance_is_the_mean_over_finite_chains_with_the_error_of_it():
    """Of .2, .4 and .9, whose squared deviations from their mean add up to .26, over 2, over 3."""
    (group,) = told(accept_prob=torch.tensor([0.2, 0.4, math.nan, 0.9], dtype=F64), frozen=[2])
    assert (group["finite"], group["accept_prob"]) == (3, pytest.approx(0.5))
    assert group["accept_prob_error"] == pytest.approx(math.sqrt(0.26 / 2 / 3))


def test_there_is_no_acceptance_where_log_mh_is_infinite():
    assert told()[0]["accept_prob"] == 0.5
    assert "accept_prob" not in told(kernel={"impossible": "there is no way back"})[0]


def test_the_draws_that_are_looked_at_are_of_finite_chains_all_over_and_squares_about_the_mean_of_all(
    seen, monkeypatch
):
    """Of eight chains two have diverged, and of the six every third is looked at: the second and the sixth.

    One coordinate stands still in every chain, at another place in each, and one in one chain alone.
    """
    monkeypatch.setattr(outcome, "LOOKED", 2)
    monkeypatch.setattr(outcome, "LOOK_AT", 1)
    draws = torch.randn(60, 8, 4, generator=torch.Generator().manual_seed(0), dtype=F64) + torch.arange(8)[:, None]
    draws[:, :, 1] = torch.arange(8)
    draws[:, 1, 2] = 0.5
    looked = seen(draws)
    (group,) = told(chains=8, dim=4, frozen=[0, 3], metrics={})
    part = draws[:, [1, 5]]
    wanted = torch.cat([part, (part - part.mean((0, 1))) ** 2], -1)
    assert torch.equal(looked[0], wanted)
    assert (group["still"], group["r_hat_over"], group["ess"], group["ess_error"]) == (1, 2, 16 * 3, 4 * 3)


@pytest.mark.parametrize("draws", [40, 39])
def test_r_hat_is_held_to_what_all_means_and_variances_exceed_by_chance(seen, monkeypatch, draws):
    """Of 20 coordinates, though 16 are looked at, over the chains that are; of fewer than 40 draws it is not told."""
    monkeypatch.setattr(outcome, "LOOKED", 2)
    monkeypatch.setattr(outcome, "LOOK_AT", 1)
    seen(torch.randn(draws, 6, 20, generator=torch.Generator().manual_seed(0)))
    (group,) = told(chains=6, dim=20, cycles=draws, metrics={})
    if draws < 40:
        assert "r_hat" not in group
    else:
        assert group["r_hat"] == 1.5 and group["r_hat_limit"] == outcome.mixed_below(40, 2, 40)
        assert group["r_hat_limit"] != outcome.mixed_below(40, 2, 32)


def test_a_part_of_the_draws_is_as_large_a_part_of_the_cost_where_they_are_thinned(seen):
    """120 cycles after the burn-in, of which every second is a draw: 60 of them are all, 30 half. ESS is 16 in 4 s."""
    draws = torch.randn(60, 4, 1, generator=torch.Generator().manual_seed(0))
    for kept, share in ((60, 1.0), (30, 0.5)):
        seen(draws[:kept])
        (group,) = told(cycles=130, plan={"burn_in": 10, "thin": 2}, metrics={})
        assert (group["ess"], group["ess_per_second"], group["ess_per_work"]) == (16, 4 / share, 0.16 / share)


def test_groups_share_the_seconds_and_have_work_of_their_own(seen):
    """Two of four chains each: half of 4 s, and 25 gradients a chain."""
    seen(torch.randn(100, 4, 1, generator=torch.Generator().manual_seed(0)))
    for group in told(config={"step_size": [0.1, 0.2]}, metrics={}):
        assert (group["ess"], group["ess_per_second"], group["ess_per_work"]) == (16, 16 / 2, 16 / (2 * 25))


def test_a_small_part_of_the_draws_tells_a_rate_where_it_is_worth_ten_a_chain(seen):
    """Above .4 of the draws any part does, and an ESS of 16 is ten a chain of one chain alone."""
    for kept, chains, tells in ((41, 4, True), (40, 4, False), (40, 2, False), (40, 1, True)):
        seen(torch.randn(kept, chains, 1, generator=torch.Generator().manual_seed(0)))
        (group,) = told(chains=chains, metrics={})
        assert group["ess"] == 16 and [key in group for key in ("ess_per_second", "ess_per_work")] == [tells] * 2


def test_the_r_hat_of_one_chain_is_held_to_that_of_its_halves(seen):
    """Of 60 draws two chains of 30, and of one coordinate a mean and a variance."""
    seen(torch.randn(60, 1, 1, generator=torch.Generator().manual_seed(0)))
    assert told(chains=1, metrics={})[0]["r_hat_limit"] == outcome.mixed_below(30, 2, 2)


def test_the_potential_s_effective_sample_size_is_of_the_chains_that_are_finite(seen):
    """Rows of U are means over them: 16 of three chains are 48, and of the second half of the rows 96 in 4 s."""
    seen()
    rows = {"cycle": np.arange(1, 101), "potential": np.arange(100.0)}
    (group,) = told(frozen=[2], plan={"keep": "none"}, metrics=rows)
    assert (group["ess"], group["ess_error"], group["ess_per_second"]) == (48, 12, 24)


def test_a_run_that_was_continued_has_each_cycle_once_in_the_potential_s_effective_sample_size(seen):
    """Rows of four cycles after a burn-in of 10; the run had ended at 50, 54 and 99, too, which have rows of theirs."""
    looked, ends = seen(), [*range(4, 100, 4), 50, 54, 99, 100]
    every = np.array(sorted(ends))
    for cycles in (every, every[every % 4 == 0]):
        rows = {"cycle": cycles, "potential": cycles.astype(float)}
        told(plan={"keep": "none", "log_every": 4, "burn_in": 10}, metrics=rows)
    assert [draws.flatten().tolist() for draws in looked] == [list(range(60, 101, 4))] * 2


def test_the_u_of_a_monitored_chain_is_no_work(seen):
    """Four chains of 25 passes of gradients and 15 of U; a decision needs both."""
    seen(torch.randn(100, 4, 1, generator=torch.Generator().manual_seed(0)))
    for acceptance, passes, unit in (
        ("monitor", 25, "a pass over the data (not counting U, which is monitored)"),
        ("metropolis", 40, "a pass over the data"),
    ):
        (group,) = told(size=9, energies=15.0, kernel={"acceptance": acceptance}, metrics={})
        assert (group["ess_per_work"], group["work"]) == (pytest.approx(16 / (4 * passes)), unit)


def test_a_list_of_equal_values_is_one_group():
    assert outcome.grouped({"step_size": [0.1, 0.1], "friction": 1.0}, 4) == [({}, [0, 1, 2, 3])]


def test_what_is_slow_is_told_from_what_is_wide():
    """Of a golden rotation times 1000, two periods of a sine, and a ramp a thousandth high: parts of a chain, as many
    as they are long, have means alike of the first alone."""
    t = torch.arange(400, dtype=F64)
    wide, sine, ramp = 1000 * (t * (math.sqrt(5) - 1) / 2 % 1), (4 * math.pi * t / 400).sin(), t / 4e5
    draws = torch.stack([wide, sine, ramp], -1)[:, None]
    assert torch.equal(outcome.slowest(draws, 2), draws[..., 1:])


def test_the_r_hat_of_independent_draws_is_held_to_is_a_chi_square_s_tail():
    """χ² of 3 degrees of freedom is above 17.730 with probability .0005, a hundredth by two tables of ten numbers."""
    assert outcome.mixed_below(100, 2, 10) == pytest.approx(math.sqrt(1 + (17.730 / 3 - 1) / 50), rel=1e-6)


def test_the_last_row_may_be_the_only_one_of_the_second_half_and_errors_fall_with_the_root_of_rows():
    """A run of 20 cycles in rows of 100; and 1 and 3 in turns, whose variance is 4/3."""
    one = {"cycle": np.array([20]), "log_accept": np.array([7.0])}
    assert outcome.second_half(one, 100) == (7.0, math.inf, 7.0)
    four = {"cycle": np.arange(1, 9), "log_accept": np.array([9.0] * 4 + [1, 3, 1, 3])}
    assert outcome.second_half(four, 1) == (2.0, pytest.approx(math.sqrt(1 / 3)), 2.0)
    uneven = {"cycle": np.array([4, 8, 12, 14]), "log_accept": np.array([9.0, 9.0, 1.0, 4.0])}
    assert outcome.second_half(uneven, 4) == pytest.approx(((4 * 1 + 2 * 4) / 6, 1.5, 2.5))  # the mean is by cycles
    far = {"cycle": np.arange(1, 5), "log_accept": np.array([0, 0, -1e300, -1e200])}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy's, of a square that overflows, would be shown beside the summary
        assert outcome.second_half(far, 1) == (-5e299, math.inf, -5e299)
