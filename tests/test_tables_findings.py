"""What the tables of this project's findings compute: mean potentials, efficiencies, biases that stay."""

import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from made import MadeRun
from matplotlib import pyplot
from scipy.integrate import quad
from scipy.stats import t as student

from experiments.config import compose
from experiments.tables import findings, minibatch_mh, trajectory
from experiments.tables.common import Run, standard_error
from experiments.tables.statistics import TOYS, jackknifed_time, mean_potential
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.potentials.analytic import DoubleWell, Gaussian
from sgmcmc.potentials.regression import GeneratedLogistic
from sgmcmc.random import Random
from sgmcmc.trajectory import run_trajectory, start

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
import verdicts
from figures import finding_clustering as clustering
from figures import finding_minibatch_mh as on_a_part
from figures import finding_minibatches as orders
from figures import finding_schedules as schedules
from figures import finding_theorem2 as theorem2
from figures import finding_trajectory as lengths
from figures import finding_words as words
from figures import finding_words_australian as australian
from figures import finding_words_network as network
from verdicts import long_enough


@pytest.mark.parametrize("name", ["double_well", "banana", "mixture"])
def test_the_mean_potential_is_that_of_exact_draws(name):
    target, _ = TOYS[name]
    energy = target.potential(target.exact(400_000, Random(3)))
    error = energy.std() / len(energy) ** 0.5
    assert abs(energy.mean() - mean_potential(name)) < 4.5 * error  # false alarm 7e-6


def test_the_mean_potential_of_the_banana_is_its_entropy():
    assert mean_potential("banana") == pytest.approx(math.log(4 * math.pi) + 1, abs=1e-7)


def test_the_excess_of_a_warm_gaussian_is_its_temperature_less_one():
    draws = torch.randn(2000, 200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 1.25**0.5
    row = findings.excess((draws.square().sum(-1) / 2).mean(0).numpy() - 1.5, 3)
    assert row["excess_error"] < 0.002  # .0016, known to a twentieth
    assert abs(row["excess"] - 0.25) < 5 * row["excess_error"]  # t with 199 degrees of freedom: 1e-6


def autoregression(decays: list[float], draws: int = 3000, chains: int = 450) -> torch.Tensor:
    noise = np.random.default_rng(4).standard_normal((draws, chains, len(decays)))
    path, decay = noise.copy(), np.array(decays)
    for step in range(1, draws):
        path[step] = decay * path[step - 1] + (1 - decay**2) ** 0.5 * noise[step]
    return torch.from_numpy(path)


@pytest.mark.thorough
def test_efficiency_is_that_of_the_slowest_or_of_all_coordinates():
    """Errors are of ten groups of chains: t with 9 degrees of freedom exceeds 10 four times in a million, and an error
    is more than 2.3 of what it should be, here .26, once in a million."""
    draws = autoregression([0.5, 0.9, 0.8])
    one, all_of_them = findings.efficiency(draws, 11), findings.efficiency(draws, 11, together=True)
    assert one["tau"] == pytest.approx(19, abs=10 * one["tau_error"]) and one["tau_error"] < 0.6
    assert one["ess"] == pytest.approx(1000 / 11 / one["tau"])
    assert one["ess_error"] / one["ess"] == pytest.approx(one["tau_error"] / one["tau"])
    assert all_of_them["tau"] == pytest.approx((3 + 19 + 9) / 3, abs=10 * all_of_them["tau_error"])


def test_efficiency_of_chains_that_stand_still_or_are_too_short_is_not_known():
    assert math.isnan(findings.efficiency(torch.zeros(100, 20, 1), 1)["ess"])
    assert math.isnan(findings.efficiency(autoregression([0.999], draws=20), 1)["ess"])


def test_the_bias_of_a_toy_is_none_for_exact_draws_and_seen_for_others():
    config = {"model": {"name": "double_well"}}
    run = Run(0, config, "done", None)
    exact = DoubleWell().exact(40_000, Random(7)).view(400, 100, 1)
    row, moved = findings.bias_of_toy(run, exact), findings.bias_of_toy(run, exact + 0.3)
    assert abs(row["excess"]) < 5.5 * row["excess_error"] and row["exact_p"] > 1e-5
    assert moved["excess"] > 10 * moved["excess_error"] and moved["exact_p"] < 1e-9


def test_the_bias_of_a_regression_s_mean_is_seen(monkeypatch):
    """U is constant: it has no t. The means of 40 chains of 50 draws, .2 posterior deviations off, or not."""
    rng = np.random.default_rng(0)
    truth = findings.Posterior(
        np.array([1.0, -2.0]) + rng.normal(size=(60, 2)) * [0.05, 0.4], np.array([2.99, 3.01] * 30)
    )
    monkeypatch.setattr(findings, "potentials", lambda run, part: torch.full(part.shape[:2], 3.5, dtype=torch.float64))
    noise = torch.randn(50, 40, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    truth = truth._replace(potentials=truth.potentials + 0.5)  # so that U agrees with the reference's
    for off, likely in ((0.0, True), (0.1, False)):
        part = torch.tensor([1.0 + off, -2.0]) + torch.tensor([0.5, 4.0]) * noise
        row = findings.bias_of_regression(None, part, truth)
        assert (row["exact_p"] > 1e-5) == likely
    cold = findings.bias_of_regression(None, part, truth._replace(potentials=truth.potentials - 0.5))
    assert cold["excess"] == pytest.approx(0.5)
    assert cold["reference_error"] == pytest.approx(0.01 * (60 / 59) ** 0.5 / 60**0.5)
    assert findings.bias_of_regression(None, part, None) == {}


def slow_draws(draws: int, chains: int, dim: int, seed: int) -> torch.Tensor:
    """Autocorrelated draws, the last coordinate most, of which some repeat the one before, of the last chain most."""
    generator = torch.Generator().manual_seed(seed)
    made = torch.randn(draws, chains, dim, generator=generator, dtype=torch.float64)
    decay = torch.linspace(0.1, 0.7, dim, dtype=torch.float64)
    for step in range(1, draws):
        made[step] += decay * made[step - 1]
        stay = torch.rand(chains, generator=generator) < torch.linspace(0.1, 0.3, chains)
        made[step, stay] = made[step - 1, stay]
    return made


def quadratic(monkeypatch, curvature: list[float]) -> None:
    """The target of all runs is U = Σ_j a_j θ_j²."""
    a = torch.tensor(curvature, dtype=torch.float64)
    target = SimpleNamespace(potential=lambda theta: (a * theta.double() ** 2).sum(-1))
    monkeypatch.setattr(findings, "build", lambda config: SimpleNamespace(potential=target))


def test_a_reference_s_posterior_worked_by_loops(monkeypatch):
    """U = θ₁² + 3 θ₂² of draws 0, 5 and 10 of eleven; means of all."""
    quadratic(monkeypatch, [1, 3])
    draws = (slow_draws(11, 4, 2, seed=1) + torch.tensor([0.5, -1.0])).numpy()
    found = findings.posterior(MadeRun(draws=torch.from_numpy(draws)))
    each = [np.mean([x**2 + 3 * y**2 for x, y in draws[[0, 5, 10], chain]]) for chain in range(4)]
    np.testing.assert_allclose(found.potentials, each)
    np.testing.assert_allclose(found.means, [draws[:, chain].mean(0) for chain in range(4)])


def steps_run(number: int, draws: torch.Tensor, acceptance: str, frozen=(), **others) -> MadeRun:
    """Three steps of OBABO with minibatches, which are four gradients, on the cosine; two step sizes."""
    sampler = {"name": "ggmc", "word": "OBABO", "gradient": "minibatch", "ends": None, "acceptance": acceptance}
    config = {"sampler": sampler, "model": {"name": "double_well"}, "data": {"name": "none"}, "tune": {"target": None}}
    config |= {"schedule": {"name": "cosine", "direction": "random"}, "steps_per_cycle": 3}
    config |= {"step_size": [0.2, 0.5], "chains": draws.shape[1]} | others
    return MadeRun(number, config, draws=draws, facts={"frozen": list(frozen), "seconds": 2.0})


def same_efficiency(row: dict, part: torch.Tensor, size: float) -> None:
    """Whether a row at four gradients a draw says of these draws what loops over chains do."""
    tau, error = jackknifed_time(part, together=False)
    expected = {"step_size": size, "gradients": 4, "time": size * (1 + 0.75**0.5 + 0.25**0.5) / 4}
    expected |= {"draws_a_chain": len(part), "tau": tau, "tau_error": error, "seconds": 2.0}
    expected |= {"ess": 250 / tau, "ess_error": 250 * error / tau**2}
    moves = [part[1:, chain].numpy() - part[:-1, chain].numpy() for chain in range(part.shape[1])]
    jumps = [np.mean((move**2).sum(1)) for move in moves]
    expected |= {"jump": np.mean(jumps), "jump_error": standard_error(jumps), "chains": part.shape[1]}
    if row["acceptance"] != "monitor":
        rates = [np.mean([move.any() for move in chain]) for chain in moves]
        expected |= {"accepted": np.mean(rates), "accepted_error": standard_error(rates)}
    assert {key: row[key] for key in expected} == pytest.approx(expected)
    assert math.isfinite(tau) and ("accepted" in row) == (row["acceptance"] != "monitor")


def test_a_row_over_steps_of_a_toy_is_of_the_chains_of_its_step_that_are_left():
    """Efficiency, jumps, and what U and the histogram are off, by loops over chains and quadrature."""
    draws = 1.2 * slow_draws(400, 12, 1, seed=2) - 2
    rows = findings.over_steps(findings._schedule)([steps_run(0, draws, "metropolis", frozen=[1, 6, 9])])

    def energy(x):
        return (x + 4) * (x + 1) * (x - 1) * (x - 3) / 14 + 0.5

    def integral(f, low, high):
        return quad(lambda x: f(x) * math.exp(-energy(x)), low, high, epsabs=1e-11)[0]

    whole = integral(lambda x: 1, -12, 10)
    truth = integral(energy, -12, 10) / whole
    edges = np.linspace(-6, 6, 121)
    masses = np.array([integral(lambda x: 1, a, b) / whole for a, b in zip(edges[:-1], edges[1:], strict=True)])
    part = np.floor(4 * (masses.cumsum() - masses / 2))
    for row, size, chains in zip(rows, (0.2, 0.5), ([0, 2, 3, 4, 5], [7, 8, 10, 11]), strict=True):
        same_efficiency(row, draws[:, chains], size)
        assert row["frozen"] == 6 - len(chains) and row["schedule"] == "cosine"
        each = [2 * (energy(draws[:, chain, 0].numpy()).mean() - truth) for chain in chains]
        assert (row["excess"], row["excess_error"]) == pytest.approx((np.mean(each), standard_error(each)), rel=1e-6)
        functions = [each]
        for quarter in range(4):
            inside = [np.histogram(draws[:, c, 0].numpy(), edges)[0][part == quarter].sum() / 400 for c in chains]
            functions.append(np.array(inside) - masses[part == quarter].sum())
        t = [np.mean(values) / standard_error(values) for values in functions]
        expected = min(1, 5 * 2 * student.sf(np.abs(t).max(), len(chains) - 1))
        assert 0 < row["exact_p"] < 1 and row["exact_p"] == pytest.approx(expected, rel=1e-6)


def test_a_step_of_which_no_chain_is_left_says_so_and_a_plane_has_two_coordinates():
    """E U of the banana is log 4π + 1; the excess is twice what U has more, over two coordinates."""
    draws = slow_draws(400, 12, 2, seed=3)
    (lost, row) = findings.over_steps(findings._schedule)(
        [steps_run(1, draws, "monitor", frozen=range(6), model={"name": "banana"})]
    )
    assert (lost["chains"], lost["frozen"], lost["step_size"], lost["gradients"]) == (0, 6, 0.2, 4)
    assert lost["time"] == pytest.approx(0.2 * (1.5 + 0.75**0.5) / 4) and "ess" not in lost
    same_efficiency(row, draws[:, 6:], 0.5)
    assert row["tau"] > 1.3 * jackknifed_time(draws[:, 6:], together=True)[0]  # the slowest coordinate's
    first, second = draws[:, 6:].numpy()[..., 0], draws[:, 6:].numpy()[..., 1]
    each = ((first - second**2 / 4) ** 2 / 2 + second**2 / 8 - 1).mean(0)
    assert (row["excess"], row["excess_error"]) == pytest.approx((each.mean(), standard_error(each)))
    assert 0 <= row["exact_p"] <= 1


def test_a_regression_s_rows_are_measured_against_the_run_whose_step_is_tuned(monkeypatch):
    """U = θ₁² + 2 θ₂² + 3 θ₃², of every fifth draw; biases in the reference's variances."""
    quadratic(monkeypatch, [1, 2, 3])
    common = {"model": {"name": "logistic"}, "data": {"name": "heart"}}
    true = 1.5 * slow_draws(150, 5, 3, seed=5) + 1
    reference = steps_run(0, true, "metropolis", step_size=0.1, tune={"target": 0.8}, **common)
    reference.facts["frozen"] = [3]
    reference.config["sampler"] |= {"word": "BAB", "gradient": "full"}
    object.__setattr__(reference, "metrics", {"step_size": np.array([0.1, 0.2, 0.17])})
    draws = 2 * slow_draws(150, 8, 3, seed=6) + torch.tensor([1.0, 2.0, 3.0])
    run = steps_run(1, draws, "barker", frozen=[2], **common)
    rows = findings.over_steps(findings._schedule)([reference, run])
    truth = findings.posterior(reference)
    for row, size, chains in zip(rows[:2], (0.2, 0.5), ([0, 1, 3], [4, 5, 6, 7]), strict=True):
        same_efficiency(row, draws[:, chains], size)
        part = draws[:, chains].numpy()
        energies = (part[::5] ** 2 * [1, 2, 3]).sum(2).mean(0)
        assert row["excess"] == pytest.approx(2 / 3 * (energies.mean() - truth.potentials.mean()))
        assert row["excess_error"] == pytest.approx(2 / 3 * standard_error(energies))
        assert row["reference_error"] == pytest.approx(2 / 3 * standard_error(truth.potentials))
        p = []
        for ours, exact in zip([energies, *part.mean(0).T], [truth.potentials, *truth.means.T], strict=True):
            errors = standard_error(ours) ** 2, standard_error(exact) ** 2
            freedom = sum(errors) ** 2 / (errors[0] ** 2 / (len(chains) - 1) + errors[1] ** 2 / 4)
            p.append(2 * student.sf(abs(ours.mean() - exact.mean()) / sum(errors) ** 0.5, freedom))
        assert row["exact_p"] == pytest.approx(min(1, 4 * min(p)))
    tau, error = jackknifed_time(true, together=False)
    # Three steps of BAB with full gradients are three gradients: that of the start is known.
    expected = {"word": "reference", "step_size": 0.17, "gradients": 3, "chains": 5, "draws_a_chain": 150, "tau": tau}
    expected |= {"target": "heart", "ess": 1000 / 3 / tau, "ess_error": 1000 / 3 * error / tau**2}
    assert {key: rows[2][key] for key in expected} == pytest.approx(expected) and len(rows) == 3
    object.__setattr__(reference, "status", "failed")
    rows = findings.over_steps(findings._schedule)([run, reference])
    assert rows[0]["tau"] > 0 and "excess" not in rows[0] and rows[2]["status"] == "failed"


def test_runs_are_told_apart_by_what_they_were_run_with():
    sampler = {"name": "ovrvo", "word": "OBABO", "refresh": "keep", "acceptance": "barker", "delta": 0.02}
    config = {"sampler": sampler, "friction": 4.0, "model": {"name": "banana", "noise": 2.0}, "steps_per_cycle": 5}
    run = MadeRun(config=config | {"schedule": {"name": "cosine", "direction": "random"}})
    common = {"target": "banana", "acceptance": "barker"}
    assert findings._word(run) == common | {"word": "OVRVO", "refresh": "keep", "friction": 4.0, "noise": 2.0}
    assert findings._schedule(run) == common | {"schedule": "cosine", "direction": "random"}
    decision = {"target": "banana", "noise": 2.0, "word": "OBABO", "steps": 5, "refresh": "keep", "delta": 0.02}
    assert findings._decision(run) == decision
    other = {"sampler": sampler | {"name": "ggmc"}, "model": {"name": "logistic"}, "data": {"name": "heart"}}
    found = findings._word(MadeRun(config=other))
    assert (found["word"], found["target"], found["noise"], found["friction"]) == ("OBABO", "heart", None, None)


def test_a_network_s_row_is_of_the_trajectories_past_the_burn_in():
    """Cycles 3, 4 and 6 of those that were logged, after a burn-in of two; the step size is the last."""
    sampler = {"name": "baoab", "word": "BAOAB", "gradient": "minibatch", "ends": None}
    config = {"sampler": sampler, "steps_per_cycle": 10, "burn_in": 2}
    metrics = {"cycle": np.array([1, 2, 3, 4, 6]), "log_accept": np.array([9.0, -7.0, -0.5, 0.3, -2.0])}
    metrics |= {"step_size": np.array([0.1, 0.2, 0.2, 0.2, 0.3]), "potential_per_datum": np.array([9.0, 8, 1, 2, 6])}
    (row,) = findings._network(MadeRun(config=config, metrics=metrics))
    chance = [math.exp(-0.5), 1.0, math.exp(-2.0)]
    square = sum((one - sum(chance) / 3) ** 2 for one in chance) / 2
    mean = -2.2 / 3
    variance = ((-0.5 - mean) ** 2 + (0.3 - mean) ** 2 + (-2.0 - mean) ** 2) / 2
    assert row == pytest.approx(
        {
            "step_size": 0.3,
            "time": 0.3 * 10 / 11,  # ten steps that start and end with a kick
            "gradients": 11,
            "trajectories": 3,
            "accept_prob": sum(chance) / 3,
            "accept_prob_error": (square / 3) ** 0.5,
            "log_accept": mean,
            "log_accept_error": (variance / 3) ** 0.5,
            "log_accept_sd": variance**0.5,
            "potential_per_datum": 3.0,
        }
    )


def test_a_row_of_decisions_is_of_the_chains_of_one_step_and_decay(monkeypatch):
    """Twelve chains of each of two settings, 104 draws: efficiency of coordinates together and of U, and clusters."""
    quadratic(monkeypatch, [1, 4])
    draws = slow_draws(104, 24, 2, seed=9)
    draws[40:55, 3:9] = draws[39, 3:9]  # rejections that come together
    sampler = {"word": "BAB", "gradient": "minibatch", "ends": None}
    config = {"sampler": sampler, "steps_per_cycle": 3, "step_size": [0.1, 0.3], "momentum_decay": [0.9, 0.5]}
    rows = list(findings._clustering(MadeRun(config=config | {"chains": 24}, draws=draws)))
    for row, size, decay, chains in zip(rows, (0.1, 0.3), (0.729, 0.125), (range(12), range(12, 24)), strict=True):
        part = draws[:, list(chains)]
        rejected = {}
        for chain in chains:
            values = draws[:, chain].tolist()
            rejected[chain] = [now == before for before, now in zip(values[:-1], values[1:], strict=True)]

        def clustering(some, rejected=rejected):
            """The variance of the number in five blocks of twenty of each chain, over 20 p (1 − p)."""
            counts = [sum(rejected[chain][20 * block : 20 * block + 20]) for chain in some for block in range(5)]
            p = np.mean(counts) / 20
            return np.var(counts, ddof=1) / (20 * p * (1 - p))

        groups = [chains[:2], chains[2:4], *(chains[one : one + 1] for one in range(4, 12))]  # ten of twelve
        rates = [1 - np.mean(rejected[chain]) for chain in chains]
        tau, error = jackknifed_time(part, together=True)
        energies = part[..., :1] ** 2 + 4 * part[..., 1:] ** 2
        of_energy, its = jackknifed_time(energies, together=False)
        expected = {"step_size": size, "decay": decay, "gradients": 4, "chains": 12, "draws_a_chain": 104}
        expected |= {"accepted": np.mean(rates), "accepted_error": standard_error(rates)}
        expected |= {
            "clustering": clustering(chains),
            "clustering_error": standard_error([clustering(some) for some in groups]),
        }
        expected |= {"tau": tau, "tau_error": error, "ess": 250 / tau, "ess_error": 250 * error / tau**2}
        expected |= {"tau_U": of_energy, "tau_U_error": its, "ess_U": 250 / of_energy}
        expected |= {"ess_U_error": 250 * its / of_energy**2}
        assert row == pytest.approx(expected)
        assert tau < 0.9 * jackknifed_time(part, together=False)[0] and math.isfinite(of_energy)
    assert rows[0]["clustering"] > rows[1]["clustering"]


def uncorrected(word: str, lr: float, log_accept, refresh: str = "keep", status: str = "done"):
    """A run of a network whose trajectories have these log MH, after one that is left out."""
    number = len(log_accept) + 1
    config = {
        "sampler": {"word": word, "refresh": refresh, "acceptance": "monitor", "gradient": "minibatch", "ends": None},
        "steps_per_cycle": 10,
        "lr": lr,
    }
    config |= {"model": {"name": "resnet20"}, "data": {"name": "digits"}, "burn_in": 1}
    metrics = {"cycle": np.arange(1, number + 1), "log_accept": np.append(-9.0, log_accept)}
    metrics |= {"step_size": np.full(number, lr), "potential_per_datum": np.ones(number)}
    run = {"config": config, "sampler": "ggmc", "status": status, "why": "it failed", "metrics": metrics, "facts": {}}
    return SimpleNamespace(**run)


def test_words_that_saw_the_same_minibatches_are_compared_trajectory_by_trajectory():
    noise = np.random.default_rng(5).normal(-1, 2, 40)
    runs = [uncorrected("OBABO", lr, noise) for lr in (2.0, 1.0)]
    runs += [uncorrected("BAOAB", lr, noise + shift) for lr, shift in ((1.0, 0.01), (2.0, -2.0))]
    runs += [uncorrected("OBABO", 1.0, -noise, "full"), uncorrected("BAB", 1.0, noise, "full", "failed")]
    rows = findings.networks(runs)
    own = np.minimum(np.exp(noise), 1)
    assert rows[0]["accept_prob"] == pytest.approx(own.mean()) and rows[0]["trajectories"] == 40
    half = (own - np.minimum(np.exp(noise - 2), 1)) / 2  # from the mean of the two
    assert rows[0]["apart"] == pytest.approx(half.mean()) == -rows[3]["apart"]
    assert rows[0]["apart_error"] == pytest.approx(half.std(ddof=1) / 40**0.5) == rows[3]["apart_error"]
    assert abs(rows[1]["apart"]) < 0.003 and rows[1]["apart_error"] < rows[1]["accept_prob_error"] / 20
    assert "apart" not in rows[4] and rows[5]["why"] == "it failed"
    assert [row["level"] for row in rows] == [1, 0, 0, 1, 0, 0]
    assert [list(part.step_size) for part in network.levels(pd.DataFrame(rows).drop(index=1), "keep")] == [
        [rows[2]["step_size"]],
        [rows[0]["step_size"], rows[3]["step_size"]],
    ]  # a missing run moves no other to another level
    table = pd.DataFrame(rows)
    assert [row[3].split(":")[0] for row in network.orders(table)] == ["agrees", f"differs by {half.mean():.2f}"]
    assert "as often as" not in network.title(table)
    assert "as often as" in network.title(table.drop(index=[0, 3]))
    assert "as often as" not in network.title(table.drop(columns="apart"))


def test_differences_are_the_same_only_where_their_errors_tell():
    for gap, error, verdict in ((0.01, 0.01, "agrees"), (0.0, 0.1, "not resolved"), (0.2, 0.03, "differs")):
        assert network.same(gap, error, 3.0).startswith(verdict)


def decisions(rows: list[tuple], **common) -> pd.DataFrame:
    """Rows of one case: (step size, decay, δ, ESS of coordinates, of U, the error of both)."""
    names = ["step_size", "decay", "delta", "ess", "ess_U", "ess_error"]
    table = pd.DataFrame([dict(zip(names, row, strict=True)) for row in rows])
    case = {"target": "heart", "noise": None, "word": "OBABO", "steps": 1, "refresh": "keep", "status": "done"}
    case |= {"accepted": 0.8, "accepted_error": 0.01, "clustering": 1.0, "clustering_error": 0.1, "chains": 10}
    return table.assign(ess_U_error=table.ess_error, **case | common)


def test_a_gain_is_over_the_fresh_uniform_at_the_same_step_and_decay():
    table = decisions(
        [
            (0.1, 0.9000001, None, 2.0, 3.0, 0.2),
            (0.1, 0.9, 0.03, 9.0, 5.0, 0.2),
            (0.2, 0.9, None, 1.0, 1.0, 0.2),
            (0.1, 0.995, 0.03, 7.0, 7.0, 0.2),  # without its fresh one: left out
        ]
    )
    rows = clustering.of_case(clustering.prepared(table), ("heart", None, "OBABO", 1))
    (found,) = clustering.paired(rows).itertuples()
    assert (found.slower, found.slower_fresh) == (5.0, 2.0)  # the slower of coordinates and U
    assert len(clustering.of_case(clustering.prepared(table), ("heart", None, "OBABO", 4))) == 0


def test_the_largest_difference_is_judged_by_welch_s_t_of_all():
    rows = pd.DataFrame({"accepted": [0.5, 0.53], "accepted_error": [0.01, 0.006], "accepted_fresh": 0.5})
    rows["accepted_error_fresh"] = [0.01, 0.008]
    away, probability = clustering.differences(rows, "accepted", 10, 30)
    assert away.tolist() == pytest.approx([0, 3])
    freedom = 1e-8 / (0.006**4 / 9 + 0.008**4 / 29)
    assert probability == pytest.approx(2 * 2 * student.sf(3, freedom))


def test_a_best_that_a_wider_grid_could_raise_decides_nothing():
    rows = [(h, 0.9, delta, h * (2 if delta else 1), 9.0, 0.01) for h in (0.1, 0.2, 0.3) for delta in (None, 0.01, 0.1)]
    case = ("heart", None, "OBABO", 1)
    found = clustering.worth("Heart", clustering.of_case(clustering.prepared(decisions(rows)), case))
    assert "0.6 ± 0.01 (δ = 0.01, h = 0.3, decay 0.9; edge: δ = 0.01, h = 0.3), fresh 0.3" in found[2]
    assert "coordinates alone 2.0 times; U alone 1.0 times" in found[2]
    assert found[3].startswith("not decided: 2.0 times, but the other's best is at the edge of its grid, h = 0.3")
    rows += [(0.4, 0.9, None, 0.1, 9.0, 0.01)]  # now the fresh one has its best within its grid
    found = clustering.worth("Heart", clustering.of_case(clustering.prepared(decisions(rows)), case))
    assert found[3] == "agrees: 2.0 times"
    one, other = (pd.Series({"slower": ess, "slower_error": 0.1, "chains": 10}) for ess in (1.0, 2.0))
    assert clustering.more(one, other) == "differs: less" and clustering.more(one, one).startswith("not resolved")


def test_a_comparison_of_lengths_pays_for_u():
    """Of Heart five gradients a decision, of the pairs one: one step's 6 are 1, or 3; sixteen's 4 are 3.05, or 3.76."""
    common = {"word": "ABOBA", "clustering": 1.0}
    kept = decisions([(0.1, 0.9, 0.01, 6.0, 9.0, 0.01)], **common)
    four = decisions([(0.1, 0.9, 0.01, 1.0, 9.0, 0.01)], **common, steps=4)
    full = decisions([(h, 0.9, None, ess, 9.0, 0.01) for h, ess in ((0.1, 1), (0.2, 4), (0.3, 1))], **common)
    full = full.assign(refresh="full", steps=16)
    for target, noise, ess, paid, verdict in (
        ("heart", None, "1 ± 0.002", "3.05 ± 0.008", "differs: less"),
        ("gaussian_pairs", 2.0, "3 ± 0.005", "3.76 ± 0.009", "differs: less"),
    ):
        rows = pd.concat([kept, four, full], ignore_index=True).assign(target=target, noise=noise)
        found = next(clustering.published("it", clustering.prepared(rows), (target, noise)))
        assert found[3] == verdict and found[2].startswith(ess) and f"as published {paid} " in found[2]
        found = next(clustering.published("it", clustering.prepared(rows[rows.steps != 4]), (target, noise)))
        assert found[3] == "not comparable: kept momentum was run with 1 step a trajectory alone"


@pytest.mark.thorough
def test_the_noise_of_a_trajectory_is_that_of_its_kicks():
    """The closed forms of OBABO, ABOBA and BAOAB, and log MH itself on a Gaussian whose momenta noise hardly heats."""
    target, h, L = Gaussian(200, noise=1.0), 0.02, 12
    c = math.exp(-0.5 * h)
    factors = {"ggmc": (1 + c) / 2 * (L - 1) + 0.5, "amagold": (1 + c) / 2 * L, "baoab": L - 0.5}
    for name, factor in factors.items():
        settings = {"steps": L, "friction": Friction("gamma", 0.5), "refresh": "full", "acceptance": "metropolis"}
        kernel = make_kernel(name, target, h, dtype=torch.float64, **settings)
        assert trajectory.noise_sum(kernel) == pytest.approx(factor * h**2, rel=1e-12)
        variance = trajectory.noise_trace(target, None, None, None)[0] * factor * h**2
        random, chains = Random(6), range(3000)
        state = start(kernel, target, target.exact(3000, random), random, chains)
        found = trajectory.measured(run_trajectory(kernel, target, state, random, 1, chains)[1].log_accept.numpy())
        assert abs(found["mean"] + variance / 2) < 6 * found["mean_error"]
        assert found["sd"] == pytest.approx(variance**0.5, rel=6 / (2 * 3000) ** 0.5)


def test_the_noise_of_minibatches_is_that_of_one_datum_over_their_size():
    target = GeneratedLogistic(300, 3)
    theta = target.initial(20, Random(1))
    whole = torch.stack([target.gradient(theta, torch.full((20, 1), i)) for i in range(300)]).double()
    exact = float(whole.var(0, correction=0).sum(-1).mean())
    for batch in (10, 40):
        estimate, _ = trajectory.noise_trace(target, theta, Random(2), batch)
        assert estimate == pytest.approx(exact / batch, rel=0.15)  # 2,000 minibatches: six of its errors


def test_the_truth_of_a_plane_and_the_spread_of_its_draws():
    truth = minibatch_mh.truth_of_plane(Gaussian(2, [0.25, 0.3], mean=[1.0, -0.5]))
    assert truth.mean == pytest.approx([1, -0.5], abs=1e-9)
    assert truth.deviation**2 == pytest.approx([0.25, 0.3], abs=1e-9)
    draws = truth.mean + truth.deviation * 1.2 * np.random.default_rng(1).normal(size=(500, 30, 2))
    each = minibatch_mh.away(draws, truth.mean, truth.deviation)[:, 0]
    assert abs(each.mean() - 0.44) < 6 * each.std() / 30**0.5


def exact_rules(p: float, unknown: int = 0, **others) -> pd.DataFrame:
    """Eight settings of the exact rules on Heart, of four chains each, the first with this probability and as many
    without τ; two uncorrected ones, one of them certainly biased."""
    common = {"target": "heart", "status": "done", "epsilon": np.nan, "chains": 4, "truth_error": 0.0}
    common |= {"spread_error": 0.02, "tau": 5.0, "draws_a_chain": 100, "exact_p": 0.5}
    rules = [(rule, size) for rule in ("metropolis", "barker") for size in (0.1, 0.2, 0.3, 0.4)]
    rows = [common | {"acceptance": rule, "step_size": size} for rule, size in rules]
    rows[0] |= {"exact_p": p} | others
    for row in rows[:unknown]:
        row["tau"] = np.nan
    bare = [common | {"acceptance": "monitor", "step_size": 0.1, "exact_p": p} for p in (1e-9, 0.02)]
    return pd.DataFrame(rows + bare)


@pytest.mark.parametrize(
    "p, unknown, others, verdict",
    [
        (0.01 / 7, 0, {}, "agrees"),
        (0.01 / 9, 0, {}, "differs"),
        (0.01 / 9, 1, {}, "agrees"),  # it may not have left its start
        (0.01 / 9, 0, {"draws_a_chain": 99}, "agrees"),  # nor this one, of less than 20 τ
        (0.01 / 9, 0, {"spread_error": np.nan}, "agrees"),  # of one chain
        (0.5, 8, {}, "not comparable"),
    ],
)
def test_the_bias_of_exact_rules_is_judged_in_all_settings_whose_chains_are_long_enough(p, unknown, others, verdict):
    row = next(on_a_part.compare(exact_rules(p, unknown, **others).assign(share=np.nan)))
    assert row[3].startswith(verdict) and (unknown == 8 or "finds 1 of 2 uncorrected" in row[2])
    left = unknown or len(others)
    assert (f"nothing is said of {left} setting" in row[2]) == (left > 0)


def test_a_rule_whose_bias_is_not_known_is_not_taken_to_have_none():
    rows = [("metropolis", np.nan, 0.2, 10.0, 0.1, np.nan, np.nan), ("austerity", 0.2, 0.2, 20.0, 0.1, np.nan, np.nan)]
    speed = next(on_a_part.worth("Heart", on_heart(rows)))
    assert speed[3] == "agrees: t-test, ε = .2 (bias not known)"
    assert on_a_part.title(heart_table(rows)).endswith("on Heart, N = 270 (bias not known)")


def test_chains_are_compared_with_those_of_the_same_numbers():
    some, others = (
        {chain: np.array([value, 9.0]) for chain, value in enumerate(values)} for values in ((1, 2), (0.5, 1))
    )
    found = minibatch_mh.difference(some | {3: np.array([7.0, 0.0])}, others | {2: np.array([9.0, 0.0])})
    assert found == {"away": 0.75, "away_error": 0.25}
    assert math.isnan(minibatch_mh.difference(some, {})["away"])


def heart_table(rows: list[tuple]) -> pd.DataFrame:
    """Rules at two step sizes: (rule, ε, step size, ESS, bias, their errors)."""
    names = ["acceptance", "epsilon", "step_size", "ess", "ess_error", "away", "away_error"]
    table = pd.DataFrame([dict(zip(names, row, strict=True)) for row in rows])
    return table.assign(target="heart", status="done", chains=10, tau=table.ess, spread_error=0.1, truth_error=0.0)


def on_heart(rows: list[tuple]) -> dict:
    return {key: on_a_part.of_rule(heart_table(rows), "heart", key) for key in on_a_part.LOOK}


def test_speed_and_bias_of_a_decision_on_a_part_are_those_at_one_step_size():
    rows = [
        ("metropolis", np.nan, 0.1, 5.0, 0.1, 0.0, 0.0),
        ("metropolis", np.nan, 0.2, 10.0, 0.1, 0.0, 0.0),
        ("monitor", np.nan, 0.2, 40.0, 0.1, 0.3, 0.01),
        ("austerity", 0.01, 0.1, 99.0, 0.1, 0.9, 0.01),
        ("austerity", 0.01, 0.2, 15.0, 0.1, -0.1, 0.01),
        ("austerity", 0.05, 0.2, 11.0, 2.0, 0.2, 0.05),
        ("austerity", 0.2, 0.2, 12.0, 2.0, 0.4, 0.01),
        ("barker_minibatch", np.nan, 0.2, 3.0, 0.1, 0.0, 0.01),
    ]
    speed, bias = on_a_part.worth("Heart", on_heart(rows))
    assert speed[0].endswith("at h = 0.2, the largest") and "uncorrected 4.00 ± 0.04; " in speed[2]
    assert "ε = .01 1.50 ± 0.02" in speed[2] and "ε = .01 -0.100 ± 0.010" in bias[2]
    assert speed[3] == "agrees: t-test, ε = .01 (biased)"
    assert bias[3] == "agrees: Barker on a part and t-test, ε = .01"
    assert on_a_part.title(heart_table(rows)).endswith("on Heart, N = 270 (biased)")
    exact = ("austerity", 0.05, 0.2, 15.0, 0.1, -0.02, 0.01)
    speed = next(on_a_part.worth("Heart", on_heart([*rows[:5], exact])))
    assert speed[3].endswith(" (biased) and t-test, ε = .05 (bias below 0.07)")
    assert on_a_part.title(heart_table([*rows[:5], exact])).endswith("on Heart, N = 270 (bias below 0.07)")
    speed, bias = on_a_part.worth("Heart", on_heart(rows[:3] + rows[5:7]))
    assert speed[3] == bias[3] == "not decided: τ of Barker on a part and t-test, ε = .01 is not known"
    unknown = [(*rows[0][:4], np.nan, 0.0, 0.0), *rows[2:]]  # τ of Metropolis' rule is not known
    for some, why in ((rows[2:], "no run of Metropolis' rule"), (unknown, "too few draws")):
        assert [row[3] for row in on_a_part.worth("Heart", on_heart(some))] == [f"not comparable: {why}"]


@pytest.mark.parametrize(
    "ess, error, verdict",
    [(9.0, 1.0, "agrees"), (2.0, 0.5, "differs"), (4.0, 2.0, "not resolved"), (2.0, 5.0, "not resolved")],
)
def test_a_large_error_of_what_was_chosen_decides_nothing(ess, error, verdict):
    columns = ["status", "sd", "predicted", "target", "batch", "mh", "mh_error", "trace", "trace_error"]
    none = pd.DataFrame(columns=columns)
    rows = [
        {"step_size": 0.1, "target": target, "auto": auto, "steps": steps, "ess": value, "ess_error": its}
        for target in lengths.TARGETS
        for auto, steps, value, its in ((0, 1, 5.0, 0.1), (0, 4, 10.0, 0.1), (0, 4, 99.0, np.nan), (1, 4, ess, error))
    ]

    def found(rows):
        return [row[3] for row in lengths.compare(none, pd.DataFrame(rows)) if "tune.trajectory" in row[0]]

    assert found(rows) == [verdict] * 2
    longest = [row for row in rows if row["steps"] == 4]
    assert found(longest) == ["not decided: of the grid's lengths τ is known at L = 4 alone"] * 2


def test_theory_is_judged_within_its_tolerance_and_by_its_errors():
    root = np.array([0.6, 1.0, 1.4])
    part = pd.DataFrame({"target": "double_well", "dim": 1, "predicted": root, "mean": -1.1 * root**2 / 2})
    part["trajectories"] = 3000
    (_, _, theory, _) = lengths.QUANTITIES[1]
    for size, last, verdict in ((0.01, 1.1, "agrees"), (0.4, 1.5, "not resolved"), (0.01, 1.5, "differs")):
        some = part.assign(mean_error=size)
        some.loc[2, "mean"] *= last / 1.1
        assert lengths.judged(some, "mean", theory)[2] == verdict
        few = lengths.judged(some.assign(trajectories=2), "mean", theory)[2]  # a Student's t that tells nothing
        assert few == ("agrees" if verdict == "agrees" else "not resolved")
    assert lengths.judged(part[:0], "mean", theory)[2].startswith("not comparable")
    (_, _, theory, _) = lengths.QUANTITIES[2]
    assert theory(0.0) == 1 and theory(1.5204) == pytest.approx(0.447, abs=1e-3)


def settings(rows: list[tuple], **others) -> pd.DataFrame:
    """Rows of words at friction 1, none of whose chains diverged: (word, step size, ESS, excess)."""
    table = pd.DataFrame(rows, columns=["word", "step_size", "ess", "excess"])
    common = {"refresh": "keep", "friction": 1.0, "gradients": 11, "accepted": 0.8, "chains": 20, "frozen": 0}
    return table.assign(ess_error=0.1, excess_error=0.001, **common | others)


def test_the_best_is_of_settings_whose_error_is_known():
    part = pd.DataFrame({"step_size": [0.1, 0.2, 0.4], "ess": [0.5, 1.0, 9.0], "ess_error": [0.1, 0.1, np.nan]})
    part = part.assign(frozen=0)
    here = schedules.bests("what", dict.fromkeys(schedules.LOOK, part), "ess")[2]
    assert here.startswith("constant 1 ± 0.1, palindromic cosine 1 ± 0.1: 1.00 ± 0.14 times")
    part = settings([("OBABO", 0.2, 1.0, 0.1), ("OBABO", 0.4, 9.0, 0.1), ("BAOAB", 0.2, 2.0, 0.1)])
    part.loc[1, "ess_error"] = np.nan
    assert words.of_orders("what", part)[2] == "OBABO 1 ± 0.1, BAOAB 2 ± 0.1 (edge)"
    rows = [(0.1, 0.9, None, 2.0, 9.0, 0.1), (0.2, 0.9, None, 9.0, 9.0, np.nan)]
    rows = clustering.of_case(clustering.prepared(decisions(rows)), ("heart", None, "OBABO", 1))
    assert clustering.best(rows, "slower").ess == 2.0 and clustering.best(rows, "ess_U").ess == 2.0


def test_the_price_of_a_correction_counts_its_energies():
    part = settings([("OBABO", 0.1, 16.0, 0.0)])
    assert words.price_paid(part, "heart").ess.tolist() == [11.0]
    assert words.price_paid(part, "banana").ess.tolist() == pytest.approx([16 * 11 / 12])


def test_the_ess_at_a_tolerance_is_between_those_of_the_steps():
    rows = settings([("OBABO", 0.1, 2.0, -0.1), ("OBABO", 0.2, 6.0, 0.3)])  # too cold is biased, too
    for tolerance, ess, place in ((0.05, 1.0, "below the grid"), (0.1, 2.0, ""), (0.2, 4.0, ""), (0.4, 6.0, "edge")):
        found = words.within(rows, tolerance)
        assert (found[0], found[2]) == (pytest.approx(ess), place)
    assert words.within(rows.assign(excess_error=0.05), 0.1)[1] == pytest.approx(np.hypot(0.1, 2.0 * 0.5))
    over = rows.assign(excess_error=0.03, reference_error=0.04)  # of a reference, too
    assert words.within(over, 0.1)[1] == pytest.approx(np.hypot(0.1, 2.0 * 0.5))


def test_full_gradients_are_compared_at_equal_data():
    """A full gradient is five minibatches, so 302 effective draws of a thousand are 60 of a thousand minibatches."""
    reference = settings([("reference", 0.2, 302.0, 0.0)]).assign(frozen=np.nan)
    corrected = settings([("OBABO", 0.1, 2.0, 0.0), ("BAB", 0.1, 1.0, 0.0)])
    *_, here, verdict = words.full_gradients("Heart", reference, corrected)
    assert here == "60.4 ± 0.02, corrected 2 ± 0.1" and verdict == "not claimed: full gradients 30.2 times"
    assert words.full_gradients("", reference.assign(ess=5.0), corrected)[3] == "not claimed: minibatches 2.0 times"
    assert words.full_gradients("", reference.assign(ess=10.0), corrected)[3] == "not resolved"
    few = corrected.assign(ess_error=10.0)  # 5.8 errors apart, and of four chains 5.84 decide
    assert words.full_gradients("", reference, few)[3] == "not claimed: full gradients 30.2 times"
    assert words.full_gradients("", reference, few.assign(chains=4))[3] == "not resolved"
    assert words.full_gradients("", reference[:0], corrected)[3].startswith("not comparable")


def test_the_error_of_an_excess_by_itself_has_its_reference_s_in_it():
    rows = pd.DataFrame({"excess_error": [3.0, 1.0], "reference_error": [4.0, math.nan], "ess_error": [6.0, 7.0]})
    assert verdicts.by_itself(rows, "excess").tolist() == [5, 1] and verdicts.by_itself(rows, "ess").tolist() == [6, 7]


def test_of_fewer_than_two_chains_nothing_is_decided():
    assert [verdicts.limit(4, chains) for chains in (0, 1, math.nan)] == [math.inf] * 3
    assert verdicts.limit() == verdicts.LIMIT and verdicts.limit(4, 10) == pytest.approx(4.146, abs=1e-3)


def test_whether_a_correction_costs_is_said_of_each_tolerance():
    corrected = settings([("OBABO", 0.1, 5.0, 0.0), ("OBABO", 0.2, 1.0, 0.0)])
    bare = settings([("OBABO", 0.1, 4.0, 0.1), ("OBABO", 0.2, 20.0, 0.5)])
    both = pd.concat([bare, bare.assign(friction=4.0)])
    assert (
        words.price("what", corrected, bare)[3]
        == "not claimed, at one friction: gains at 0.05 and 0.1, costs at 0.2 and 0.3"
    )
    assert words.price("what", corrected, both)[3] == "not claimed: gains at 0.05 and 0.1, costs at 0.2 and 0.3"
    assert words.price("what", corrected.assign(ess=99.0), both)[3] == "differs: it gains"
    assert words.price("what", corrected[:1], both)[3].endswith("not resolved at 0.2 and 0.3")  # the best is an edge
    assert words.price("what", corrected.assign(ess=0.1), both)[3] == "agrees"
    low = corrected.assign(ess=[3.0, 1.0])  # below the grid a line may be as high as at its first step, 4
    assert words.price("what", low, both)[3].startswith("not claimed: not resolved at 0.05, costs at 0.1")
    short = pd.concat([both, settings([("BAOAB", 0.1, 1.0, 0.01)])])  # a word whose grid ends before any tolerance
    assert words.price("what", corrected.assign(ess=99.0), short)[3] == "not resolved"
    # A setting all of whose chains diverged has no error, and makes no other's smaller or larger.
    lost = both.iloc[-1:].assign(chains=0, frozen=20, ess=np.nan, ess_error=np.nan, excess=np.nan, excess_error=np.nan)
    near = corrected.assign(ess_error=0.85)  # 3.5 errors apart, where of ten groups 4.1 decide
    assert words.price("what", near, both)[3] == words.price("what", near, pd.concat([both, lost]))[3]
    killed = both.assign(frozen=[0, 1, 0, 1])
    assert "costs" not in words.price("what", corrected, killed)[3]


def corrected_draws(**others) -> pd.DataFrame:
    """Twenty corrected settings without bias on each of a toy and a regression."""
    table = pd.DataFrame({"target": ["banana"] * 20 + ["heart"] * 20, "acceptance": "metropolis", "status": "done"})
    table = table.assign(chains=50, tau=9.0, draws_a_chain=180, exact_p=0.001)
    for column, value in others.items():
        table.loc[39, column] = value
    return table


@pytest.mark.parametrize(
    "others, verdict",
    [
        ({}, "agrees"),
        ({"exact_p": 0.01 / 41}, "differs"),
        ({"exact_p": 0.01 / 39}, "agrees"),
        ({"exact_p": np.nan}, "agrees"),
        ({"exact_p": 0.0, "tau": np.nan}, "agrees"),  # a chain that may not have left its start
        ({"exact_p": 0.0, "draws_a_chain": 179}, "agrees"),  # nor this one, of less than 20 τ
        ({"exact_p": 0.0, "acceptance": "monitor"}, "agrees"),
        ({"exact_p": 0.0, "draws_a_chain": 179, "target": "banana"}, "differs"),  # which starts at an exact draw
    ],
)
def test_the_bias_of_corrected_draws_is_judged_by_all_that_is_known_of_it(others, verdict):
    row = words.no_bias(long_enough(corrected_draws(**others)))
    assert row[3] == verdict and "over all" in row[2]
    assert ("finds 1 of 1 uncorrected" in row[2]) == ("acceptance" in others)
    short = others.get("draws_a_chain", 180) < 180 or np.isnan(others.get("tau", 0))
    assert ("nothing is said of 1 setting of" in row[2]) == (short and "target" not in others)


def test_uncorrected_settings_are_not_in_bonferroni_s_number():
    table = corrected_draws(exact_p=0.01 / 39)
    table = pd.concat([table, *[table[:20].assign(acceptance="monitor")] * 5])
    assert words.no_bias(long_enough(table))[3] == "agrees"


@pytest.mark.parametrize("module", [words, orders, schedules, australian])
def test_a_figure_believes_no_numbers_of_chains_shorter_than_20_autocorrelation_times(module):
    """τ is not theirs alone: its ESS goes, too, and no bias is judged."""
    table = corrected_draws(exact_p=0.0, draws_a_chain=179).assign(word="OBABO", minibatches="shuffled", epochs=4.0)
    table = table.assign(schedule="constant", direction="forward")
    table = table.assign(refresh="keep", friction=1.0, noise=1.0, gradients=11, passes=4.0, accepted=0.8, frozen=0)
    table = table.assign(time=0.1, excess=0.0, excess_error=0.1, ess=1.0, ess_error=0.1, step_size=range(40))
    for target in ("heart", "australian"):
        rows = {row[0]: row for row in module.compare(table.assign(target=table.target.replace("heart", target)))}
        assert rows["corrected draws"][3] == "agrees"
    masked = long_enough(table)
    assert masked.loc[39, ["tau", "ess", "ess_error"]].isna().all() and masked.loc[:38, "ess"].notna().all()


def test_an_excess_beyond_the_axis_is_a_cross_at_the_top():
    """Be it that some chains diverged, that all did, or that none did."""
    sizes = [0.1, 0.2, 0.3, 0.4]
    corrected = settings([("OBABO", size, 1.0, 0.0) for size in sizes], accepted=[0.9, 0.8, 0.7, 0.6])
    excess = [0.5, words.TOP + 1, np.nan, words.TOP + 9]
    bare = settings([("OBABO", *each) for each in zip(sizes, [1.0] * 4, excess, strict=True)], frozen=[0, 0, 20, 3])
    figure, panel = pyplot.subplots()
    words.against_rejections(panel, corrected, bare, "-")
    pyplot.close(figure)
    places = [place for line in panel.lines for place in line.get_xydata().tolist() if np.isfinite(place).all()]
    shown = [x for x, y in places if y == 0.5], [x for x, y in places if y == 0.98]
    np.testing.assert_allclose(np.concatenate(shown), [0.1, 0.2, 0.3, 0.4])


def test_chains_that_diverged_are_told():
    rows = settings([("OBABO", 0.1, 1.0, 0.1), ("OBABO", 0.2, 1.0, 0.1)], target="banana", status="done")
    rows = pd.concat([rows[:1], rows]).assign(acceptance=["metropolis", "monitor", "monitor"], frozen=[0, 0, 5])
    row = words.diverged(rows.assign(time=rows.step_size), words.name_of)
    here = (
        "some in 1 of 2 uncorrected settings (all chains in 0), at the smallest mean step 5 of 25 of OBABO at h = 0.2"
    )
    assert row[2:] == (f"banana: {here}", "agrees: up to 20% of uncorrected ones")
    whole = pd.concat([rows[:2], rows[2:].assign(status="diverged", frozen=np.nan, chains=np.nan)])
    assert words.diverged(whole, words.name_of)[3] == "agrees: up to 100% of uncorrected ones"
    assert words.diverged(rows[:2], words.name_of)[2:] == ("none", "agrees")


def test_what_noise_adds_to_the_temperature_is_turned_into_an_excess():
    draws = DoubleWell().exact(400_000, Random(11))
    energy = DoubleWell().potential(draws).double()
    slope = 2 * float(energy.var())  # d E U/dT at T = 1, twice: 2 var U
    assert words.warmer(1.01) / 0.01 == pytest.approx(slope, rel=0.03)
    assert words.warmer(1.2) == pytest.approx(0.412, abs=5e-4)


def test_words_whose_letters_do_nothing_are_not_compared():
    part = pd.DataFrame({"word": ["OBABO", "BAB"], "refresh": "full", "status": "done", "level": 0, "time": 1e-4})
    part = part.assign(gradients=11, accept_prob=0.8, apart=[0.001, -0.001], apart_error=1e-4, trajectories=40)
    part["friction"] = [2.5, np.nan]
    assert [row[3].split(":")[0] for row in network.orders(part)] == ["not comparable"]
    assert [row[3].split(":")[0] for row in network.orders(part.assign(friction=[700, np.nan]))] == ["agrees"]


def test_a_probability_of_unknown_numbers_is_unknown():
    assert verdicts.chance(np.array([1.0, 2.0]), np.array([20, 20])) > 0.05
    assert np.isnan(verdicts.chance(np.array([1.0, np.nan]), np.array([20, 20])))
    assert np.isnan(verdicts.chance(np.array([]), np.array([])))


def test_corrected_draws_of_no_run_are_not_judged():
    table = pd.DataFrame({"acceptance": [], "excess": [], "excess_error": [], "chains": [], "status": [], "target": []})
    assert next(schedules.compare(table))[3].startswith("not comparable")


def test_a_bound_is_judged_where_runs_finished():
    row = {"target": "quartic", "steps": 1, "bound": 0.8, "a": 0.1, "valid": True, "half": 1.02}
    row |= {"ratio": 1.01, "ratio_error": 0.01, "least": 0.9, "least_error": 0.01}
    table = pd.DataFrame([row, dict.fromkeys(row)])
    rows = list(theorem2.compare(table))
    assert [found[3] for found in rows] == ["agrees", "agrees", "not claimed", "not claimed", "not claimed"]
    assert "from -5 to -5 %: in 1 of 1 settings (T = 1)" in rows[2][2]
    assert [found[3] for found in theorem2.compare(table[1:])] == ["not comparable: no run"] * 2
    assert next(theorem2.compare(pd.DataFrame([row | {"least": 0.7}])))[3] == "differs"
    assert next(theorem2.compare(pd.DataFrame([row | {"least": 0.78}])))[3] == "agrees"  # two errors below


@pytest.mark.thorough
def test_passes_of_a_trajectory_are_its_minibatches_and_u():
    """28 of 27 an epoch, of BABOBAB 55, and U where it is corrected; full gradients bring U along."""
    word = "OBABO"
    of = ((0, word, "independent", 1, 28 / 27 + 1), (5, word, "shuffled", 4, 109 / 27), (6, word, None, None, 4))
    for point, word, law, epochs, passes in (*of, (0, "BABOBAB", "independent", 2, 55 / 27 + 1)):
        config = compose(["experiment=finding_minibatches", f"point={point}", f"sampler.word={word}"])
        row = findings._minibatches(Run(0, config, "done", None))
        assert (row["minibatches"], row["epochs"]) == (law, epochs) and row["passes"] == pytest.approx(passes)


def by_order(rows: list[tuple]) -> pd.DataFrame:
    """Corrected rows of both laws of minibatches: (law, step size, acceptance, ESS in 1,000 gradients)."""
    table = pd.DataFrame(rows, columns=["minibatches", "step_size", "accepted", "ess"])
    common = {"target": "heart", "status": "done", "acceptance": "metropolis", "epochs": 4.0, "gradients": 100}
    common |= {
        "accepted_error": 0.01,
        "passes": 5.0,
        "chains": 20,
        "frozen": 0,
        "word": "OBABO",
        "reference_error": 0.0,
    }
    return table.assign(ess_error=0.02 * table.ess, **common)


def test_orders_of_minibatches_are_compared_at_one_step_size_and_by_passes():
    rows = [("independent", 0.1, 0.5, 1.0), ("independent", 0.2, 0.2, 0.9), ("independent", 0.3, 0.1, 0.1)]
    rows += [("shuffled", 0.2, 0.6, 5.0), ("shuffled", 0.3, 0.2, 9.0), ("shuffled", 0.4, 0.2, 4.0)]
    table = by_order(rows)
    _, _, here, verdict = orders.acceptance(table, "heart", "Heart", 4)
    assert here.startswith("0.20 and 0.60 at h = 0.2, ") and here.endswith("least +0.10 of 2") and verdict == "agrees"
    _, _, here, verdict = orders.bests(table, "heart", "Heart")
    # 1,000 gradients are 50 passes.
    assert here == "independent, 4 epochs: 0.02 ± 0.0004; shuffled, 4 epochs: 0.18 ± 0.004"
    assert verdict == "not claimed: shuffled 9 times"
    unsure = table.assign(ess_error=0.35 * table.ess)  # 2.5 errors
    assert orders.bests(unsure, "heart", "Heart")[3] == "not claimed: no difference decided"
    unsure.loc[unsure.minibatches == "shuffled", "ess_error"] = 0.03 * unsure.ess
    assert orders.bests(unsure, "heart", "Heart")[3] == "not claimed: shuffled 9 times"
    swapped = table.assign(minibatches=table.minibatches.map({"independent": "shuffled", "shuffled": "independent"}))
    assert orders.acceptance(swapped, "heart", "Heart", 4)[3].startswith("differs")
    assert orders.acceptance(table[:3], "heart", "Heart", 4)[3] == "not comparable: a run is missing"
    assert orders.bests(table[:3], "heart", "Heart")[3] == "not comparable: too few draws"


def test_words_on_shuffled_epochs_are_told_apart_where_they_differ():
    def table(shift: float, more: float) -> pd.DataFrame:
        rows = by_order([("shuffled", size, 0.5, 1.0) for size in (0.1, 0.2, 0.3)]).assign(excess_error=0.01)
        words = [rows.assign(word=word) for word in ("OBABO", "BAOAB", "ABOBA")]
        words[2]["excess"] = 1 + shift
        bab = rows.assign(word="BAB", accepted=0.5 + more, ess=3.0, ess_error=0.06, excess=0.5)
        both = [part.assign(acceptance=how) for part in (*words, bab) for how in ("metropolis", "monitor")]
        return pd.concat(both, ignore_index=True).fillna({"excess": 1.0})

    found = list(orders.words(table(0, 0.2), "heart", "Heart"))
    assert [row[3] for row in found] == [
        "agrees",
        "agrees",
        "not claimed: BAB's is larger at 3 of 3 step sizes, from 0.1 to 0.3, smaller at 0",
        "not claimed: BAB's is larger at 0 of 3 step sizes, smaller at 3",
        "not claimed: a factor 3.00",
    ]
    found = list(orders.words(table(0.3, 0), "heart", "Heart"))  # a third of it is the mean's
    assert found[1][3] == "differs" and "farthest ABOBA at h = 0.1, 1.3, +18% of the mean" in found[1][2]
    assert found[2][3] == "not claimed: BAB's is larger at 0 of 3 step sizes, smaller at 0"
    unknown = table(0, 0).assign(excess_error=1.0)
    assert list(orders.words(unknown, "heart", "Heart"))[1][3] == "not comparable: none above 3 errors"
    missing = table(0, 0).query("word != 'BAB'")
    assert [row[3] for row in orders.words(missing, "heart", "Heart")] == ["not comparable: a run is missing"]


def test_the_bias_of_both_orders_is_compared_over_step_sizes():
    rows = [(law, size, 0.0, 1.0) for law in ("independent", "shuffled") for size in (0.1, 0.2, 0.4)]
    table = by_order(rows).assign(acceptance="monitor", excess_error=0.001)
    table["excess"] = np.where(table.minibatches == "shuffled", 10 * table.step_size**3, 3 * table.step_size)
    _, _, here, verdict = orders.growth(table, "heart", "Heart")
    assert here.startswith("1.00 and 3.00 of points") and verdict == "agrees"
    assert orders.growth(table.assign(excess=1.0), "heart", "Heart")[3] == "differs"
    few = table.assign(excess_error=0.01)  # the smallest step's is not beyond three of these
    assert orders.growth(few, "heart", "Heart")[3] == "not comparable: fewer than three points above 3 errors"
    few = table.assign(reference_error=0.01)  # nor is it beyond three of the reference's
    assert orders.growth(few, "heart", "Heart")[3] == "not comparable: fewer than three points above 3 errors"
    assert "0.01 ± 0.01 at" in orders.bias(few, "heart", "Heart")[2]  # their difference has nothing of it
    assert orders.bias(few, "heart", "Heart")[3] == "agrees"
    _, _, here, verdict = orders.bias(table, "heart", "Heart")
    assert here.startswith("0.3 and 0.01 ± 0.001 at h = 0.1, the smallest of 3; less by ") and verdict == "agrees"
