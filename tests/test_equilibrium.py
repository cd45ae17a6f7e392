"""Temperatures that are far from T, in rows that are given and in a run of which they are known."""

import math
import warnings

import numpy as np
import pytest

import sgmcmc
from sgmcmc.equilibrium import out_of_equilibrium
from sgmcmc.potentials.analytic import Gaussian


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
    """Of numbers in turns below and above their mean: their errors are the spread over the root of 20."""
    signs = np.resize([-1.0, 1.0], rows)
    metrics = {"cycle": np.arange(1, rows + 1), "kinetic_temperature": mean + spread * signs}
    metrics["configurational_temperature"] = np.full(rows, math.nan)  # where there are no gradients
    found = out_of_equilibrium(metrics, temperature)
    assert found == ([("kinetic", pytest.approx(mean))] if told else [])
    assert out_of_equilibrium({"cycle": metrics["cycle"]}, temperature) == []


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
