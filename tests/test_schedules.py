"""Step sizes within and between trajectories: what the factors are and which of them read the same backwards."""

import math

import pytest

from sgmcmc.errors import SettingError
from sgmcmc.schedules import SCHEDULES, Schedule


def test_the_cosine_falls_from_one_and_multiplies_the_learning_rate():
    """ℓ is multiplied by (1 + cos(π i/L))/2, h by its root; never 0, so every step moves."""
    for steps in (1, 2, 7, 4001):
        factors = Schedule("cosine").factors(steps, 0)
        assert len(factors) == steps and factors[0] == 1
        assert all(one > other > 0 for one, other in zip(factors, factors[1:], strict=False))
        for i in (steps // 3, steps - 1):
            assert factors[i] ** 2 == pytest.approx((1 + math.cos(math.pi * i / steps)) / 2, abs=1e-15)


def test_the_palindromic_cosine_reads_the_same_backwards_to_the_last_bit():
    for steps in (1, 2, 3, 8, 9, 4001):
        factors = Schedule("palindromic_cosine").factors(steps, 0)
        assert len(factors) == steps and factors == factors[::-1]
        assert all(0 < factor <= 1 for factor in factors)
        assert max(factors) == factors[steps // 2] == pytest.approx(1, abs=0.3)
        assert sum(factor**2 for factor in factors) / steps == pytest.approx(1 if steps == 1 else 0.5)
    assert [factor**2 for factor in Schedule("palindromic_cosine").factors(4, 0)] == pytest.approx(
        [(1 - math.sqrt(0.5)) / 2, (1 + math.sqrt(0.5)) / 2, (1 + math.sqrt(0.5)) / 2, (1 - math.sqrt(0.5)) / 2]
    )


def test_stairs_change_between_trajectories_only():
    stairs = Schedule("stairs", every=15, factor=0.1)
    for trajectory, rate in [(0, 1.0), (14, 1.0), (15, 0.1), (29, 0.1), (30, 0.01)]:
        factors = stairs.factors(4, trajectory)
        assert len(factors) == 4 and len(set(factors)) == 1
        assert factors[0] == pytest.approx(math.sqrt(rate))


def test_the_constant_one_changes_nothing():
    assert Schedule().factors(3, 7) == [1.0, 1.0, 1.0]


def test_only_stairs_depend_on_the_trajectory():
    for name in SCHEDULES:
        schedule = Schedule(name, every=2)
        assert (schedule.factors(5, 0) != schedule.factors(5, 9)) == schedule.varies_between() == (name == "stairs")


def test_only_the_cosine_is_one_sided():
    assert [name for name in SCHEDULES if Schedule(name).one_sided] == ["cosine"]
    for name in SCHEDULES:
        factors = Schedule(name).factors(6, 20)
        assert (factors == factors[::-1]) == (Schedule(name).one_sided is None)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"name": "cosinus"}, "schedule=cosinus: "),
        ({"direction": "backwards"}, "schedule.direction=backwards: "),
        ({"every": 0}, "schedule.every=0: must be a whole number, at least 1"),
        ({"every": 1.5}, "schedule.every=1.5: must be a whole number, at least 1"),
        ({"factor": 0.0}, "schedule.factor=0.0: must be a positive number"),
        ({"factor": math.nan}, "schedule.factor=nan: must be a positive number"),
    ],
)
def test_what_is_no_schedule_is_refused_where_it_is_made(settings, said):
    with pytest.raises(SettingError, match=f"^{said}"):
        Schedule(**settings)
