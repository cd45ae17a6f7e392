"""Temperatures that are far from T, in rows that are given and in a run of which they are known."""

import math
import warnings

import numpy as np
import pytest
import torch

import sgmcmc
from sgmcmc.diagnostics import LEAST
from sgmcmc.equilibrium import disequilibrium, falls_outwards, out_of_equilibrium
from sgmcmc.kernel import make_kernel
from sgmcmc.potentials.analytic import FunctionPotential, Gaussian
from sgmcmc.potentials.mixed import MixedBinary


@pytest.mark.parametrize(
    ("temperature", "mean", "spread", "rows", "told"),
    [
        (1, 1.21, 0.01, 40, True),
        (1, 0.79, 0.01, 40, True),
        (1, 1.19, 0.01, 40, False),  # less than a fifth
        (4, 4.75, 0.01, 40, False),
        (4, 4.85, 0.01, 40, True),
        (1, 3, 1, 40, True),
        (1, 2, 1, 40, False),  # less than six errors
        (1, 9, 0.01, 14, False),  # of seven rows errors are not known
    ],
)
def test_temperatures_far_from_t_are_told(temperature, mean, spread, rows, told):
    """Of numbers in turns below and above their mean: their errors are the spread over the root of 20. That of a mean
    of 2 T²/spread² momenta is known to be this, whatever the rows' spread: a tenth of it, as chance may make it, or
    twice."""
    signs = np.resize([-1.0, 1.0], rows)
    momenta = round(2 * temperature**2 / spread**2)
    for kind, times in (("kinetic", 0.1), ("kinetic", 1), ("kinetic", 2), ("configurational", 1)):
        metrics = {"cycle": np.arange(1, rows + 1), f"{kind}_temperature": mean + times * spread * signs}
        found = out_of_equilibrium(metrics, temperature, momenta)
        assert found == ([(kind, pytest.approx(mean))] if told else [])
        metrics[f"{kind}_temperature"] = np.full(rows, math.nan)  # where there are no gradients
        assert out_of_equilibrium(metrics, temperature, momenta) == []
        assert out_of_equilibrium({"cycle": metrics["cycle"]}, temperature, momenta) == []


@pytest.mark.parametrize(
    ("mean", "momenta", "told"),
    [(1.5, 400, True), (1.5, 200, False), (1.19, 10**6, False), (0.75, 10**6, True), (9.0, 100, True)],
)
def test_of_few_rows_the_kinetic_temperature_is_told_by_its_own_error(mean, momenta, told):
    """Six times T √(2/momenta), 0.42 T of 400 momenta, that of a row alone; the other temperature's is not known."""
    metrics = {"cycle": np.array([500.0, 1000.0, 1500.0, 2000.0])}
    metrics |= {
        f"{kind}_temperature": np.array([9.0, 9.0, 2 * mean, 2 * mean]) for kind in ("kinetic", "configurational")
    }
    found = out_of_equilibrium(metrics, 2.0, momenta)
    assert found == ([("kinetic", pytest.approx(2 * mean))] if told else [])
    metrics["cycle"] = np.array([1, 2, 10, 15])
    assert out_of_equilibrium(metrics, 2.0, momenta) == []  # so short a run says nothing


@pytest.mark.parametrize(("rows", "told"), [(LEAST, True), (LEAST - 1, False)])
def test_from_so_many_rows_on_their_mean_has_its_own_error(rows, told):
    """Six standard errors are 0.85 T of one row of 100 momenta, and 0.3 T of eight."""
    metrics = {"cycle": 10 * np.arange(1, 2 * rows + 1), "kinetic_temperature": np.full(2 * rows, 3.0)}
    assert out_of_equilibrium(metrics, 2.0, 100) == ([("kinetic", 3.0)] if told else [])


@pytest.mark.parametrize("kind", ["kinetic", "configurational"])
@pytest.mark.parametrize(("growth", "told"), [(1.5, True), (1.0, False)])
def test_temperatures_that_grow_are_told(growth, told, kind):
    """Their spread is as large as their mean; where they do not grow, that is what equilibrium looks like."""
    spread = np.random.default_rng(0).chisquare(1, 100)  # of one momentum, of mean 1
    metrics = {"cycle": np.arange(1, 101), f"{kind}_temperature": 2.0 * spread * growth ** np.arange(100)}
    mean = metrics[f"{kind}_temperature"][50:].mean()
    assert out_of_equilibrium(metrics, 2.0, 1) == ([(kind, pytest.approx(mean))] if told else [])


def test_a_chain_that_runs_away_is_told_of():
    """Noise that grows with θ, at a step size at which θ² grows on average, and has not overflowed at the end."""

    class Columns:
        dim, data_size = 1, 2

        def potential(self, theta):
            return 50 * theta.double()[:, 0] ** 2

        def gradient(self, theta, batch=None):
            return 100 * theta if batch is None else 200 * (batch[:, :1] == 0) * theta

        def initial(self, chains, random):
            return random.normal("start", 0, 1, chains, 1)[0]

    settings = {"step_size": 0.05, "batch_size": 1, "chains": 20, "cycles": 200, "acceptance": "monitor"}
    with pytest.warns(UserWarning, match="mean kinetic temperature .*not in equilibrium"):
        result = sgmcmc.sample(Columns(), "ggmc", **settings)
    assert result.status == "done" and result.draws.std() > 1e2 and not result.frozen  # sd .1


def test_a_wall_may_be_the_configurational_temperature_s_reason():
    """Of a uniform density on a box ⟨θ, ∇U⟩ is 0, and T is not."""

    def box(theta):
        return torch.where((theta > 0) & (theta < 1), 0.0 * theta, torch.inf).sum()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        sgmcmc.sample(box, "random_walk", dim=1, step_size=0.5, cycles=400, initial=torch.full((20, 1), 0.5))
    wall = [str(one.message) for one in told if "equilibrium" in str(one.message)]
    assert len(wall) == 1 and wall[0].endswith(
        "(too few cycles), unless U has a wall, where this temperature is another"
    )


def test_one_end_that_is_not_finite_may_be_beyond_a_wall():
    metrics = {"cycle": np.arange(1, 41), "configurational_temperature": np.full(40, 0.1)}
    kernel, target = make_kernel("hmc", Gaussian(3), 0.1), Gaussian(3)
    for ends in (0, 1):
        metrics["not_finite"] = np.array([ends, *[0] * 39])
        assert ("unless U has a wall" in disequilibrium(metrics, kernel, target, 4)) == (ends == 1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("log_density", "settings", "begun"),
    [
        (lambda theta: -2 * (1 + theta**2 / 3).log().sum(), {"sampler": "hmc"}, "mean configurational temperature -"),
        (lambda theta: -(theta**2).sum() / 2, {"sampler": "hmc", "step_size": 0.5}, "the chain is stuck"),
        (lambda theta: -(theta**2).sum() / 2, {"sampler": "ggmc", "cycles": 400}, "diverged"),
    ],
)
def test_a_log_density_in_place_of_u_is_asked_about(log_density, settings, begun):
    """Other libraries are given log p, and it goes another way wherever it is taken for U; a steep U that is right
    diverges, too, and a narrow one is stuck, and neither falls outwards."""
    options = {"dim": 2, "step_size": 0.1, "cycles": 200, "chains": 4, "acceptance": None} | settings
    for sign, asked in ((1, 1), (-1, 0)):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            steeper = {} if sign == 1 else {"step_size": 9.0, "initial": torch.full((4, 2), 3.0)}
            sgmcmc.sample(lambda theta, sign=sign: sign * log_density(theta), **options | steeper)
        about = [str(one.message) for one in told if "log p in place of -log p?" in str(one.message)]
        assert len(about) == asked and all(one.startswith(begun) for one in about), [str(one.message) for one in told]


def test_a_u_that_is_right_and_has_its_mode_far_out_is_not_said_to_fall_outwards():
    """A chain on its way there sees U fall away from 0, as one that was given log p does."""
    with pytest.warns(UserWarning, match="U falls away from 0 there: is its mode further out, or is it log p"):
        sgmcmc.sample(lambda theta: ((theta - 100) ** 2).sum() / 2, "langevin", dim=3, step_size=0.05, cycles=100)


def test_nobody_is_asked_about_the_sign_of_what_the_library_has():
    metrics = {"cycle": np.arange(1, 41), "kinetic_temperature": np.ones(40), "not_finite": np.zeros(40)}
    metrics["configurational_temperature"] = np.full(40, -2.0)
    for target, asked in ((Gaussian(3), False), (FunctionPotential(lambda theta: theta.sum(), 3), True)):
        told = disequilibrium(metrics, make_kernel("hmc", target, 0.1), target, 10)
        assert ("log p" in told, falls_outwards(metrics, target)) == (asked, asked)


def test_rows_that_hang_together_tell_less():
    """Of a temperature that is .45 for half of the rows, and then 1.01, the mean is .73, eight errors of independent
    rows from 1. One that comes from far and is nearly there is told."""
    for kind in ("kinetic", "configurational"):
        name = f"{kind}_temperature"
        metrics = {"cycle": np.arange(1, 121), name: np.repeat([9.0, 0.45, 1.01], [60, 30, 30])}
        assert out_of_equilibrium(metrics, 1.0, 26) == []  # whose error of a row is .28, the spread here
        drift = {**metrics, name: 1 + 8 * np.exp(-np.arange(120) / 40)}
        assert [told for told, _ in out_of_equilibrium(drift, 1.0, 26)] == [kind]
        metrics[name][60:] = np.random.default_rng(1).permuted(metrics[name][60:])
        assert [told for told, _ in out_of_equilibrium(metrics, 1.0, 26)] == [kind]


def test_only_momenta_that_there_are_tell_of_a_short_run():
    """Two of 22 coordinates move: of 10 chains 20 momenta, whose mean is 2.5 T in one row of a million or so; six
    of 32 momenta's standard deviations are 1.5 T."""
    target, kernel = MixedBinary(), make_kernel("hmc", MixedBinary(), 0.1)
    assert (target.dim, int(target.moves.sum())) == (22, 2)
    metrics = {"cycle": np.array([10, 20]), "kinetic_temperature": np.array([1.0, 2.5]), "not_finite": np.zeros(2)}
    assert disequilibrium(metrics, kernel, target, 10) is None
    assert disequilibrium(metrics, kernel, target, 15) is None
    assert "mean kinetic temperature 2.5" in disequilibrium(metrics, kernel, target, 17)


@pytest.mark.thorough
def test_temperatures_far_from_t_are_told_of_a_run_in_python_too(tmp_path):
    """A step of leapfrog from fresh momentum is θ ← (1 − h²/2) θ + h m: of a unit normal, uncorrected, the variance is
    1/(1 − h²/4), 10 where h² is 3.6. Corrected it is 1, and nothing is told."""
    options = {"step_size": math.sqrt(3.6), "cycles": 2000, "chains": 50, "steps": 1, "refresh": "full"}
    begun = "mean configurational temperature .* in the second half, and T is 1: not in equilibrium "
    for folder in (None, tmp_path / "run"):
        with pytest.warns(UserWarning, match=begun + r"\(too few cycles, or too large steps\)"):
            sgmcmc.sample(Gaussian(dim=1), "hmc", acceptance="monitor", folder=folder, **options)
    with warnings.catch_warnings(action="error"):
        sgmcmc.sample(Gaussian(dim=1), "hmc", **options)
