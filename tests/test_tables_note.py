"""The tables of the note of 2020, number by number, against trajectories that are made here with their momenta."""

import math
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from made import MadeRun
from scipy.integrate import quad
from scipy.linalg import solve_discrete_lyapunov

from experiments.config import compose
from experiments.tables import note
from sgmcmc.diagnostics import integrated_autocorrelation_time
from sgmcmc.potentials.analytic import Independent

FRICTION, SIZES, CHAINS, DIM, STEPS = 1.3, (0.1, 0.3), 3, 2, 400  # CHAINS of each step size


# -- temperatures ------------------------------------------------------------------------------------------------


def temperatures_run(sampler, sizes, draws, chains, dim, steps=7, burn_in=3):
    """A run of ``note_temperatures`` with given sizes, and the kinetic temperatures [cycle, chain, point] traced."""
    rng = np.random.default_rng(2)
    words = ["experiment=note_temperatures", f"sampler={sampler}", f"step_size={list(sizes)}", f"friction={FRICTION}"]
    words += [f"chains={chains}", f"model.dim={dim}", f"steps_per_cycle={steps}", f"burn_in={burn_in}"]
    kinetic = rng.gamma(3, size=(draws + burn_in, chains, 3)) + np.arange(chains)[:, None]
    cycle, chain, point = (index.ravel() for index in np.indices(kinetic.shape))
    trace = {"cycle": cycle + 1, "chain": chain, "step": cycle * steps + np.array([0, 4, steps])[point]}
    trace["kinetic_temperature"] = kinetic.ravel()
    theta = torch.from_numpy(rng.normal(size=(draws, chains, dim)) * (1 + np.arange(chains))[:, None])
    return MadeRun(config=compose(words), draws=theta, trace=trace), kinetic


def test_temperatures_are_of_each_step_size_s_own_chains_after_the_burn_in():
    """Position: all draws and coordinates. Momentum: the first point of a cycle, not that of its end, which is the
    next one's first. Errors are those of the three chains' means."""
    run, kinetic = temperatures_run("ggmc", (0.5, 0.8), draws=40, chains=6, dim=5)
    rows = list(note._temperatures(run))
    theta = run.draws.numpy()
    for row, size, chains in zip(rows, (0.5, 0.8), (range(3), range(3, 6)), strict=True):
        squares = [np.mean([x**2 for x in theta[:, c].ravel()]) for c in chains]
        momenta = [np.mean([kinetic[cycle, c, 0] for cycle in range(3, 43)]) for c in chains]
        first = [theta[:, chains.start : chains.stop, [k]] for k in range(4)]  # coordinates that τ is taken of
        assert (row["step_size"], row["chains"], row["draws"], row["stable"]) == (size, 3, 40, 1)
        for name, values in (("variance", squares), ("kinetic", momenta)):
            mean = sum(values) / 3
            error = math.sqrt(sum((one - mean) ** 2 for one in values) / 2 / 3)
            assert (row[name], row[f"{name}_error"]) == pytest.approx((mean, error), rel=1e-12)
            assert error > 0.01
        assert row["iact"] == pytest.approx(np.mean([integrated_autocorrelation_time(one).value[0] for one in first]))
        w = 1 - size**2 / 4
        formulas = (row["variance_formula"], row["kinetic_formula"], row["kinetic_half_formula"])
        assert formulas == pytest.approx((1 / w, 1, 1 / w), rel=1e-12)


def test_temperatures_are_missing_where_chains_leave_and_the_formula_stays_where_there_is_one():
    """Of four step sizes, one beyond symplectic Euler's limit, one whose chains are far off, and one with an ∞."""
    run, _ = temperatures_run("sghmc", (0.2, 1.5, 0.3, 0.4), draws=12, chains=8, dim=2)
    run.draws[:, 5] *= 100  # far off is a variance of 10,000
    run.draws[3, 6, 1] = math.inf
    fine, unstable, far, infinite = note._temperatures(run)
    for row in (unstable, far, infinite):
        numbers = [row[name] for name in ("variance", "variance_error", "kinetic", "kinetic_error", "iact")]
        assert row["stable"] == 0 and all(math.isnan(one) for one in numbers)
    assert fine["stable"] == 1 and fine["variance"] > 0 and fine["kinetic"] > 0 and math.isfinite(fine["iact"])
    assert math.isnan(unstable["variance_formula"]) and math.isnan(unstable["kinetic_formula"])
    for row, h in ((far, 0.3), (infinite, 0.4)):
        both = 2 - FRICTION * h  # 1 + β
        u = 1 - h**2 / (2 * both)
        assert row["variance_formula"] == pytest.approx(1 / u) and row["kinetic_formula"] == pytest.approx(2 / both / u)


def harmonic(sampler, h, friction):
    """One step of (x, m) on U = x²/2 as a matrix and the covariance of its noise; and the part up to the middle."""

    def drift(t):
        return np.array([[1, t], [0, 1]]), np.zeros((2, 2))

    def kick(t):
        return np.array([[1, 0], [-t, 1]]), np.zeros((2, 2))

    def refresh(c):
        return np.diag([1, c]), np.diag([0, 1 - c**2])

    c, half = math.exp(-friction * h), math.exp(-friction * h / 2)
    b = math.sqrt(2 / (friction * h) * math.tanh(friction * h / 2))
    euler = np.array([[1, 0], [-h, 1 - friction * h]]), np.diag([0, 2 * friction * h])
    parts = {
        "ggmc": [refresh(half), kick(h / 2), drift(h), kick(h / 2), refresh(half)],
        "ovrvo": [refresh(half), kick(b * h / 2), drift(b * h), kick(b * h / 2), refresh(half)],
        "baoab": [kick(h / 2), drift(h / 2), refresh(c), drift(h / 2), kick(h / 2)],
        "aboba": [drift(h / 2), kick(h / 2), refresh(c), kick(h / 2), drift(h / 2)],
        "sghmc": [euler, drift(h)],
    }[sampler]

    def joined(some):
        matrix, noise = np.eye(2), np.zeros((2, 2))
        for one, its in some:
            matrix, noise = one @ matrix, one @ noise @ one.T + its
        return matrix, noise

    return joined(parts), joined(parts[:2])


@pytest.mark.parametrize("sampler", ["ggmc", "ovrvo", "baoab", "aboba", "sghmc"])
def test_the_closed_forms_solve_the_lyapunov_equation(sampler):
    """At several frictions; the half-step momentum of OBABO and OVRVO is that after the first kick."""
    for h, friction in ((0.3, 1.0), (0.9, 0.4), (0.7, 1.6)):
        (matrix, noise), (first, its) = harmonic(sampler, h, friction)
        sigma = solve_discrete_lyapunov(matrix, noise)
        variance, kinetic, half = note.closed_forms(sampler, h, friction)
        assert (variance, kinetic) == pytest.approx((sigma[0, 0], sigma[1, 1]), rel=1e-11)
        if sampler in ("ggmc", "ovrvo"):
            assert half == pytest.approx((first @ sigma @ first.T + its)[1, 1], rel=1e-11)
        else:
            assert math.isnan(half)


@pytest.mark.parametrize(("sampler", "inside", "beyond"), [("ggmc", 1.99, 2.01), ("sghmc", 1.23, 1.24)])
def test_there_is_no_closed_form_beyond_the_integrator_s_limit(sampler, inside, beyond):
    """h = 2 of OBABO; of symplectic Euler with friction 1 √5 − 1, where an eigenvalue passes −1."""
    for h, stable in ((inside, True), (beyond, False)):
        (matrix, _), _ = harmonic(sampler, h, 1.0)
        assert (np.abs(np.linalg.eigvals(matrix)).max() < 1) == stable
        assert [math.isfinite(one) for one in note.closed_forms(sampler, h, 1.0)[:2]] == [stable, stable]


# -- effective energy --------------------------------------------------------------------------------------------


@cache
def trajectories(sampler):
    """Positions [401, 6, 2] on quartic coordinates at two step sizes, and what their **momenta** say: ΔU plus the
    kicks' ΔK since the first position, and the part of it that goes with |∇U|², [401, 6]."""
    rng = np.random.default_rng(7)

    def energy(x):
        return (x**4 / 4 + x**3 / 3 + x**2 / 2).sum(-1)

    def slope(x):
        return x**3 + x**2 + x

    every = []
    for h in SIZES:
        x, m = rng.normal(size=(2, CHAINS, DIM)) / 2
        positions, heat, part = [x], [np.zeros(CHAINS)], [np.zeros(CHAINS)]
        half, b = math.exp(-FRICTION * h / 2), math.sqrt(2 / (FRICTION * h) * math.tanh(FRICTION * h / 2))
        for _ in range(STEPS):
            old, g = x, slope(x)
            if sampler == "ovrvo":
                m = half * m + math.sqrt(1 - half**2) * rng.normal(size=x.shape)
                one = m - b * h / 2 * g
                x = x + b * h * one
                two = one - b * h / 2 * slope(x)
                gain = ((one**2 - m**2) + (two**2 - one**2)).sum(-1) / 2
                m = half * two + math.sqrt(1 - half**2) * rng.normal(size=x.shape)
                square = ((b * h / 2 * slope(x)) ** 2 - (b * h / 2 * g) ** 2).sum(-1) / 2
            else:
                m = (1 - FRICTION * h) * m + math.sqrt(2 * FRICTION * h) * rng.normal(size=x.shape)
                new = m - h * g
                gain, square = (new**2 - m**2).sum(-1) / 2, -((h * g) ** 2).sum(-1) / 2
                x, m = x + h * new, new
            positions.append(x)
            heat.append(heat[-1] + energy(x) - energy(old) + gain)
            part.append(part[-1] + square)
        every.append([np.array(one) for one in (positions, heat, part)])
    return [np.concatenate(one, 1) for one in zip(*every, strict=True)]


def energy_run(sampler, theta, *words):
    words = [f"step_size={list(SIZES)}", f"friction={FRICTION}", f"chains={theta.shape[1]}", *words]
    point = {"ovrvo": 0, "sghmc": 1}[sampler]
    config = compose(["experiment=note_energy", f"point={point}", f"model.dim={theta.shape[2]}", *words])
    return MadeRun(config=config, draws=torch.from_numpy(theta))


@pytest.mark.parametrize("sampler", ["ovrvo", "sghmc"])
def test_accumulated_energies_are_what_the_momenta_say(sampler):
    """Two hundred rows and one of 401 positions: the first chain of a step size, and the mean of its three."""
    theta, heat, part = trajectories(sampler)
    rows = list(note._paths(energy_run(sampler, theta)))
    assert len(rows) == 2 * 201
    for group, size in enumerate(SIZES):
        first = CHAINS * group
        for number, row in enumerate(rows[201 * group :][:201]):
            step = 2 * number
            mine = heat[step, first : first + CHAINS] / DIM
            mean = sum(mine) / CHAINS
            error = math.sqrt(sum((one - mean) ** 2 for one in mine) / (CHAINS - 1) / CHAINS)
            assert (row["step_size"], row["resampled"], row["time"]) == (size, 0, pytest.approx(step * size))
            numbers = [row[name] for name in ("one", "one_curvature", "mean", "mean_error")]
            assert numbers == pytest.approx([mine[0], part[step, first] / DIM, mean, error], rel=1e-9, abs=1e-11)


def test_a_traced_run_s_energies_are_those_of_its_cycles():
    """−log MH a coordinate, of the first chain of each step size alone, at the times of its traced points."""
    words = ["experiment=note_energy", "point=2", "model.dim=5", "step_size=[0.1,0.3]", "chains=4"]
    step, chain = (index.ravel() for index in np.indices((6, 4)))
    trace = {"step": np.array([0, 10, 20, 20, 30, 40])[step], "chain": chain, "log_accept": 1.0 + step - 7 * chain}
    run = MadeRun(config=compose(words), trace=trace)
    rows = list(note._paths(run))
    assert list(note._drift(run)) == []
    assert [row["resampled"] for row in rows] == [1] * 12
    assert [row["step_size"] for row in rows] == [0.1] * 6 + [0.3] * 6
    times = [0, 1, 2, 2, 3, 4, 0, 3, 6, 6, 9, 12]
    assert [row["time"] for row in rows] == pytest.approx(times)
    energies = [-1, -2, -3, -4, -5, -6, 13, 12, 11, 10, 9, 8]
    assert [5 * row["one"] for row in rows] == pytest.approx(energies)


@pytest.mark.parametrize("sampler", ["ovrvo", "sghmc"])
def test_drift_is_the_last_energy_over_time_and_coordinates(sampler):
    """With the error of the three chains; a swing is one chain's about the chord from its first energy to its last, of
    all of it and of the curvature part. ``leading`` has E|∇U|² = E ∂²U, by parts."""
    theta, heat, part = trajectories(sampler)

    def density(x):
        return math.exp(-(x**4 / 4 + x**3 / 3 + x**2 / 2))

    curved = quad(lambda x: (3 * x**2 + 2 * x + 1) * density(x), -9, 9)[0] / quad(density, -9, 9)[0]
    rows = list(note._drift(energy_run(sampler, theta)))
    for row, group, size in zip(rows, (0, 1), SIZES, strict=True):
        mine = slice(CHAINS * group, CHAINS * (group + 1))
        rates = heat[-1, mine] / (STEPS * size) / DIM

        def swing(path):
            off = [[one[t] - one[-1] * t / STEPS for t in range(STEPS + 1)] for one in path.T]
            return np.mean([np.std(one, ddof=1) for one in off]) / DIM

        assert (row["step_size"], row["chains"], row["steps"]) == (size, 3, STEPS)
        assert row["drift"] == pytest.approx(rates.mean(), rel=1e-9)
        assert row["drift_error"] == pytest.approx(rates.std() / math.sqrt(2), rel=1e-9)
        assert row["swing"] == pytest.approx(swing(heat[:, mine]), rel=1e-9)
        assert row["curvature_swing"] == pytest.approx(swing(part[:, mine]), rel=1e-7, abs=1e-12)
        assert row["curvature_drift"] == pytest.approx(part[-1, mine].mean() / (STEPS * size) / DIM, rel=1e-9)
        if sampler == "sghmc":
            assert row["leading"] == pytest.approx(FRICTION * size**2 * curved / 4, rel=1e-9)
        else:
            assert math.isnan(row["leading"])


class Oscillator(Independent):
    """U = Σ 3 x²/2: E|∇U|² = 3 a coordinate."""

    def energy(self, x):
        return 1.5 * x**2

    def _slope(self, theta):
        return 3 * theta


def test_the_leading_drift_is_that_of_an_oscillator_for_small_steps(monkeypatch):
    """An oscillator's is γ(1/u − 1), u = 1 − h²k/(4 − 2γh), known to all orders: the stationary heat of E's friction,
    γ((1 − γh/2) E m² − 1), E m² from the Lyapunov equation."""
    potential = Oscillator(2, 0.0)
    monkeypatch.setattr(note, "build", lambda config: SimpleNamespace(potential=potential))
    rows = list(note._drift(energy_run("sghmc", np.random.default_rng(1).normal(size=(5, 4, 2)))))
    for row, h in zip(rows, SIZES, strict=True):
        step = np.array([[1, h], [0, 1]]) @ np.array([[1, 0], [-3 * h, 1 - FRICTION * h]])
        noise = 2 * FRICTION * h * np.outer((h, 1), (h, 1))
        kinetic = solve_discrete_lyapunov(step, noise)[1, 1]
        exact = FRICTION * ((1 - FRICTION * h / 2) * kinetic - 1)
        u = 1 - 3 * h**2 / (4 - 2 * FRICTION * h)
        assert exact == pytest.approx(FRICTION * (1 / u - 1), rel=1e-9)
        assert row["leading"] == pytest.approx(exact * (1 - FRICTION * h / 2) * u, rel=1e-9)


def test_steps_without_friction_are_not_scaled():
    assert note.scaling(0.0) == 1.0
    assert note.scaling(1e-4) == pytest.approx(1, abs=1e-8)
