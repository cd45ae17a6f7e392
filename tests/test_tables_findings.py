"""What the tables of this project's findings compute: mean potentials, efficiencies, biases that stay."""

import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.tables import findings, minibatch_mh, trajectory
from experiments.tables.common import Run
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.potentials.analytic import DoubleWell, Gaussian
from sgmcmc.potentials.regression import GeneratedLogistic
from sgmcmc.random import Random
from sgmcmc.trajectory import run_trajectory, start

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
import verdicts  # noqa: E402
from figures import finding_clustering as clustering  # noqa: E402
from figures import finding_minibatch_mh as on_a_part  # noqa: E402
from figures import finding_schedules as schedules  # noqa: E402
from figures import finding_theorem2 as theorem2  # noqa: E402
from figures import finding_trajectory as lengths  # noqa: E402
from figures import finding_words as words  # noqa: E402
from figures import finding_words_network as network  # noqa: E402


@pytest.mark.parametrize("name", ["double_well", "banana", "mixture"])
def test_the_mean_potential_is_that_of_exact_draws(name):
    target, _ = findings.TOYS[name]
    energy = target.potential(target.exact(400_000, Random(3)))
    error = energy.std() / len(energy) ** 0.5
    assert abs(energy.mean() - findings.mean_potential(name)) < 4.5 * error  # false alarm 7e-6


def test_the_mean_potential_of_the_banana_is_its_entropy():
    assert findings.mean_potential("banana") == pytest.approx(math.log(4 * math.pi) + 1, abs=1e-7)


def test_the_excess_of_a_warm_gaussian_is_its_temperature_less_one():
    draws = torch.randn(2000, 50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 1.25**0.5
    row = findings.excess(draws.square().sum(-1) / 2, 1.5, 3)
    assert row["excess_error"] < 0.004
    assert abs(row["excess"] - 0.25) < 5 * row["excess_error"]  # t with 49 degrees of freedom: 8e-6


def autoregression(decays: list[float], draws: int = 3000, chains: int = 60) -> torch.Tensor:
    noise = np.random.default_rng(4).standard_normal((draws, chains, len(decays)))
    path, decay = noise.copy(), np.array(decays)
    for step in range(1, draws):
        path[step] = decay * path[step - 1] + (1 - decay**2) ** 0.5 * noise[step]
    return torch.from_numpy(path)


def test_efficiency_is_that_of_the_slowest_or_of_all_coordinates():
    draws = autoregression([0.5, 0.9, 0.8])
    one, all_of_them = findings.efficiency(draws, 11), findings.efficiency(draws, 11, together=True)
    assert one["tau"] == pytest.approx(19, abs=6 * one["tau_error"]) and one["tau_error"] < 0.6
    assert one["ess"] == pytest.approx(1000 / 11 / one["tau"])
    assert one["ess_error"] / one["ess"] == pytest.approx(one["tau_error"] / one["tau"])
    assert all_of_them["tau"] == pytest.approx((3 + 19 + 9) / 3, abs=6 * all_of_them["tau_error"])


def test_efficiency_of_chains_that_stand_still_or_are_too_short_is_not_known():
    assert math.isnan(findings.efficiency(torch.zeros(100, 20, 1), 1)["ess"])
    assert math.isnan(findings.efficiency(autoregression([0.999], draws=20), 1)["ess"])


def test_the_bias_of_a_toy_is_none_for_exact_draws_and_seen_for_others():
    config = {"model": {"name": "double_well"}}
    run = Run(0, config, "done", None)
    exact = DoubleWell().exact(40_000, Random(7)).view(400, 100, 1)
    row, moved = findings.bias_of_toy(run, exact), findings.bias_of_toy(run, exact + 0.3)
    for one, error in (("excess", "excess_error"), ("bias", "bias_error")):
        assert abs(row[one]) < 5.5 * row[error]
        assert moved[one] > 10 * moved[error]


def test_the_bias_of_a_regression_s_mean_is_in_its_posterior_s_variances(monkeypatch):
    truth = findings.Posterior(np.array([1.0, -2.0]), np.array([0.5, 4.0]), 3.0, 0.01, 0.002)
    monkeypatch.setattr(findings, "potentials", lambda run, part: torch.full(part.shape[:2], 3.5, dtype=torch.float64))
    noise = torch.randn(50, 40, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    part = torch.tensor([1.0 + 0.1, -2.0]) + torch.tensor([0.5, 4.0]) * noise
    row = findings.bias_of_regression(None, part, truth)
    assert row["excess"] == pytest.approx(0.5) and row["reference_error"] == pytest.approx(0.01)
    assert abs(row["mean_bias2"] - (0.2**2 / 2 - 0.002)) < 6 * row["mean_bias2_error"] < 0.03
    assert findings.bias_of_regression(None, part, None) == {}


def uncorrected(word: str, lr: float, log_accept, refresh: str = "keep", status: str = "done"):
    """A run of a network whose trajectories have these log MH, after one that is left out."""
    number = len(log_accept) + 1
    config = {
        "sampler": {"word": word, "refresh": refresh, "acceptance": "monitor", "gradient": "minibatch"},
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
    assert "as much" not in network.title(table)
    assert "as much" in network.title(table.drop(index=[0, 3]))
    assert "as much" not in network.title(table.drop(columns="apart"))


def test_differences_are_the_same_only_where_their_errors_tell():
    for gap, error, verdict in ((0.01, 0.01, "agrees"), (0.0, 0.1, "not resolved"), (0.2, 0.03, "differs")):
        assert network.same(gap, error, 3.0).startswith(verdict)


def test_gradients_of_a_trajectory_are_counted_at_each_position_once():
    """As ``Kernel.work`` does; a full gradient at the start is that of the end before."""
    for gradient, trajectories in (
        ("minibatch", (("OBABO", 10), ("ABOBA", 11), ("BAB", 10), ("BABOBAB", 5))),
        ("full", (("OBABO", 11), ("ABOBA", 11), ("BAB", 11))),
    ):
        for word, steps in trajectories:
            config = {"sampler": {"word": word, "gradient": gradient}, "steps_per_cycle": steps}
            assert findings.gradients_of(Run(0, config, "done", None)) == 11
            kernel = make_kernel("ggmc", Gaussian(1), 0.1, word=word, steps=steps, gradient=gradient, refresh="full")
            assert kernel.work(1.0, Gaussian(1))[0] == 11


def test_a_gain_is_over_the_fresh_uniform_at_the_same_step_and_decay():
    common = {"target": "heart", "noise": None, "word": "OBABO", "steps": 1, "status": "done"}
    rows = [
        common
        | {"step_size": size, "decay": decay, "delta": delta, "accepted": 0.8, "accepted_error": 0.01}
        | {"clustering": 1.0, "ess": ess, "ess_error": ess / 10}
        for size, decay, delta, ess in (
            (0.1, 0.9000001, None, 2.0),
            (0.1, 0.9, 0.03, 5.0),
            (0.2, 0.9, None, 1.0),
            (0.1, 0.95, 0.03, 7.0),  # without its fresh one: left out
        )
    ]
    table = clustering.of_case(pd.DataFrame(rows), "heart", None, "OBABO", 1)
    assert table.gain.tolist() == [2.5]
    assert table.gain_error.tolist() == pytest.approx([2.5 * 0.1 * 2**0.5])


def test_the_noise_of_a_trajectory_is_that_of_its_kicks():
    """The closed forms of OBABO, ABOBA and BAOAB, and log MH itself on a Gaussian whose momenta noise hardly heats."""
    target, h, L = Gaussian(200, noise=1.0), 0.02, 12
    c = math.exp(-0.5 * h)
    factors = {"ggmc": (1 + c) / 2 * (L - 1) + 0.5, "amagold": (1 + c) / 2 * L, "baoab": L - 0.5}
    for name, factor in factors.items():
        settings = {"steps": L, "friction": Friction("gamma", 0.5), "refresh": "full", "acceptance": "metropolis"}
        kernel = make_kernel(name, target, h, dtype=torch.float64, **settings)
        assert trajectory.noise_sum(kernel) == pytest.approx(factor * h**2, rel=1e-12)
        variance = trajectory.noise_trace(target, None, None, None) * factor * h**2
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
        estimate = trajectory.noise_trace(target, theta, Random(2), batch)
        assert estimate == pytest.approx(exact / batch, rel=0.15)  # 2,000 minibatches: six of its errors


def test_the_truth_of_a_plane_and_the_spread_of_its_draws():
    truth = minibatch_mh.truth_of_plane(Gaussian(2, [0.25, 0.3], mean=[1.0, -0.5]))
    assert truth.mean == pytest.approx([1, -0.5], abs=1e-9)
    assert truth.deviation**2 == pytest.approx([0.25, 0.3], abs=1e-9)
    draws = truth.mean + truth.deviation * 1.2 * np.random.default_rng(1).normal(size=(500, 30, 2))
    each = minibatch_mh.spread(draws, truth.mean, truth.deviation)
    assert abs(each.mean() - 0.44) < 6 * each.std() / 30**0.5


def exact_rules(spread: float, unknown: int = 0) -> pd.DataFrame:
    """Eight settings of the exact rules on Heart, of four chains each; the first has this bias."""
    common = {"target": "heart", "status": "done", "epsilon": np.nan, "chains": 4, "truth_error": 0.0}
    rows = [
        common | {"acceptance": rule, "step_size": size, "spread": 0.01, "spread_error": 0.02, "tau": 5.0}
        for rule in ("metropolis", "barker")
        for size in (0.1, 0.2, 0.3, 0.4)
    ]
    rows[0]["spread"] = spread
    for row in rows[:unknown]:
        row["tau"] = np.nan
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    "spread, unknown, verdict",
    [
        (0.01, 0, "agrees"),
        (0.1, 0, "agrees"),  # five errors of four chains: p = .015 for one, .12 for the farthest of eight
        (0.5, 0, "differs"),
        (0.5, 6, "agrees"),
        (0.5, 7, "not comparable: τ known in 1 of 8 settings"),
        (0.5, 8, "not comparable: τ known in 0 of 8 settings"),
    ],
)
def test_the_bias_of_exact_rules_is_judged_where_tau_is_known(spread, unknown, verdict):
    assert on_a_part.no_bias(exact_rules(spread, unknown))[3] == verdict


@pytest.mark.parametrize(
    "ess, error, verdict",
    [(9.0, 1.0, "agrees"), (2.0, 0.5, "differs"), (4.0, 2.0, "not resolved"), (2.0, 5.0, "not resolved")],
)
def test_a_large_error_of_what_was_chosen_decides_nothing(ess, error, verdict):
    none = pd.DataFrame(columns=["status", "sd", "predicted", "target", "mh", "mh_error"])
    common = {"step_size": 0.1, "steps": 4}
    rows = [
        common | {"target": target, "auto": auto, "ess": value, "ess_error": its}
        for target in lengths.TARGETS
        for auto, value, its in ((0, 10.0, 0.1), (0, 99.0, np.nan), (1, ess, error))
    ]
    found = [row[3] for row in lengths.compare(none, pd.DataFrame(rows)) if "tune.trajectory" in row[0]]
    assert found == [verdict] * 2


def test_the_best_is_of_settings_whose_error_is_known():
    parts = {key: pd.DataFrame({"ess": [1.0, 9.0], "ess_error": [0.1, np.nan]}) for key in schedules.LOOK}
    assert "9" not in schedules.bests("what", parts, "ess")[2]
    part = pd.DataFrame({"refresh": "keep", "word": ["OBABO", "OBABO", "BAOAB"], "ess": [1.0, 9.0, 2.0]})
    part = part.assign(ess_error=[0.1, np.nan, 0.1], accepted=0.8, excess=[0.01, 0.01, -0.5])
    assert words.of_orders("what", part)[2] == "OBABO 1 ± 0.1, BAOAB 2 ± 0.1"
    part["gradients"] = 11
    here = words.price("what", part, part, 0)[2]
    assert here == "2 ± 0.1 (BAOAB, accepts 0.80), 1 ± 0.1 (OBABO, excess 0.01)"  # too cold is biased, too
    common = {"target": "heart", "word": "OBABO", "steps": 1, "status": "done", "decay": 0.9, "accepted": 0.8}
    common |= {"accepted_error": 0.01, "clustering": 1.0}
    rows = [
        common | {"step_size": size, "delta": delta, "ess": ess, "ess_error": error}
        for size, delta, ess, error in (
            (0.1, None, 2.0, 0.1),
            (0.2, None, 9.0, np.nan),
            (0.1, 0.1, 8.0, np.nan),
            (0.2, 0.1, 5.0, 0.1),
        )
    ]
    one, other = clustering.best(pd.DataFrame(rows), ("heart", None, "OBABO", 1))
    assert (one.ess, other.ess_fresh) == (5.0, 2.0)


def test_the_price_of_a_correction_counts_its_energies():
    part = pd.DataFrame({"word": ["OBABO"], "refresh": "keep", "ess": 16.0, "ess_error": 1.0, "gradients": 11})
    part = part.assign(accepted=0.8, excess=0.01)
    assert "11 ± 0.7 (OBABO, accepts 0.80), 16 ± 1 " in words.price("what", part, part, 5)[2]


def test_a_probability_of_unknown_numbers_is_unknown():
    assert verdicts.chance(np.array([1.0, 2.0]), np.array([20, 20])) > 0.05
    assert np.isnan(verdicts.chance(np.array([1.0, np.nan]), np.array([20, 20])))
    assert np.isnan(verdicts.chance(np.array([]), np.array([])))


def test_corrected_draws_of_no_run_are_not_judged():
    table = pd.DataFrame({"acceptance": [], "excess": [], "excess_error": [], "chains": [], "status": [], "target": []})
    assert next(schedules.compare(table))[3].startswith("not comparable")


def test_a_bound_is_judged_where_runs_finished():
    row = {"ratio": 0.9, "bound": 0.8, "ratio_error": 0.01, "a": 0.1, "valid": True}
    table = pd.DataFrame([row, dict.fromkeys(row)])
    assert next(theorem2.compare(table))[3] == "agrees"
    assert next(theorem2.compare(table[1:]))[3] == "not comparable: no run"
    assert next(theorem2.compare(pd.DataFrame([row | {"ratio": 0.7}])))[3] == "differs"
