"""What is remembered of a kick by a minibatch's error, and what shuffled epochs take back of it."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.build import Pieces
from experiments.tables import noise
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from figures import finding_noise as figure  # noqa: E402

F64 = torch.float64
SIZE, BATCH, STIFFNESS, FRICTION = 40, 2, 30.0, 2.0


class Spring:
    """U = k |θ|²/2 in two coordinates, of data whose gradients differ by errors e (1 + tilt θ) that sum to 0."""

    dim, data_size = 2, SIZE
    errors = torch.linspace(-0.05, 0.05, SIZE, dtype=F64)[:, None] * torch.tensor([1.0, 3.0], dtype=F64)

    def __init__(self, tilt: float = 0.0):
        self.tilt = tilt

    def potential(self, theta):
        return STIFFNESS * theta.double().square().sum(-1) / 2

    def gradient(self, theta, batch=None):
        noise = 0.0 if batch is None else SIZE * self.errors[batch].mean(1) * (1 + self.tilt * theta)
        return STIFFNESS * theta + noise

    def exact(self, chains, random, temperature=1.0):
        return random.normal("start", 0, 1, chains, 2, F64)[0] / STIFFNESS**0.5

    initial = exact


@pytest.fixture
def run(monkeypatch, request):
    """Forty thousand chains of it at exact draws; the tilt is the parameter."""
    target, chains = Spring(getattr(request, "param", 0.0)), 40_000

    def build(config):
        h = (config["lr"] / SIZE) ** 0.5
        friction, law = Friction.of(h, friction=FRICTION), config["sampler"]["minibatches"]
        settings = {"steps": config["steps_per_cycle"], "batch_size": config["batch_size"], "minibatches": law}
        settings |= {"ends": config["sampler"]["ends"]}
        kernel = make_kernel("ggmc", target, h, friction=friction, dtype=F64, **settings)
        return Pieces(target, kernel, None, Random(3), chains, None)

    monkeypatch.setattr(noise, "build", build)
    config = {"model": {"name": "logistic"}, "data": {"name": "none", "train_size": SIZE}, "sampler": {}, "lr": 1.0}
    config |= {"chains": chains, "batch_size": BATCH, "friction": FRICTION, "seed": 3}
    return SimpleNamespace(config=config, draws=target.exact(range(chains), Random(4))[None])


def test_what_is_left_of_a_kick_is_the_response_of_the_dynamics(run, monkeypatch):
    """Of constant errors and a linear force both are known, whatever the minibatches were."""
    monkeypatch.setitem(noise.RATES, "logistic", (0.1,))
    rows = list(noise._remembered(run))
    assert [row["lag"] for row in rows] == list(range(21)) and {row["epoch"] for row in rows} == {SIZE // BATCH}
    h = rows[0]["step_size"]
    keep, theta, carried = np.exp(-FRICTION * h / 2), 0.0, {0: 0.0}
    momentum = keep
    for step in range(1, 21):
        momentum -= h / 2 * STIFFNESS * theta
        theta += h * momentum
        momentum -= h / 2 * STIFFNESS * theta
        carried[step] = theta / h
        momentum *= keep**2
    for row in rows:
        assert row["correlation"] == pytest.approx(1, abs=1e-9)
        assert row["carried"] == pytest.approx(carried[row["lag"]], abs=1e-9) and row["carried_error"] < 1e-9
        assert row["carried"] < 0.9 * row["lag"] or row["lag"] < 6
        exact = SIZE**2 * Spring.errors.square().mean(0).sum() / BATCH
        # Of 4 minibatches of 40,000 chains the variance is known to a hundredth or so.
        assert row["variance"] == pytest.approx(float(exact), rel=0.1)


@pytest.mark.parametrize("run", [0.0, 4.0], indirect=True)
def test_log_mh_of_both_laws_is_that_of_the_errors_and_of_what_is_forgotten(run, monkeypatch):
    """Predicted and measured of small noise: 5.5 errors of 40,000 chains, and a hundredth for what is not of first
    order; two comparisons, 8e-8 by chance."""
    monkeypatch.setitem(noise.RATES, "logistic", (0.01,))
    table = pd.DataFrame([{"status": "done", **row} for row in noise._remembered(run)])
    costs = pd.DataFrame([{"status": "done", **row} for row in noise._cost(run)])
    cycles = pd.DataFrame(
        columns=["sampler", "status", "lr", "step", "exact_point", "log_accept", "minibatches", "mass"]
    )
    (case,) = figure.cases(table, costs, cycles, cycles)
    assert abs(case.cost[0] - case.expected) < 5.5 * case.cost[1] + 0.01 * case.expected
    (expected, _), (ratio, error) = case.expected_ratio, case.ratio
    assert abs(ratio - expected) < 5.5 * error + 0.01
    rows = list(figure.compare(table, costs, cycles, cycles))
    assert [row[3] for row in rows] == ["agrees", "agrees"]
    more, _ = figure.compare(table, costs.assign(cost=9 * costs.cost), cycles, cycles)
    assert more[3].startswith("differs")


def test_the_mean_over_pairs_of_an_epoch():
    apart = [abs(one - other) for one in range(20) for other in range(20) if one != other]
    assert figure.pairs(20) == pytest.approx(np.bincount(apart)[1:] / len(apart))
    rows = pd.DataFrame({"lag": [0, 1, 2, 5, 10, 20], "epoch": 20, "data": 20, "batch_size": 1, "carried_error": 0.1})
    whole = rows.assign(carried=rows.lag)  # nothing is forgotten
    assert figure.memory(whole) == pytest.approx(1) and figure.ratio_of(whole)[0] == pytest.approx(0, abs=1e-12)
    waves = pd.DataFrame({**rows.iloc[0], "lag": range(21)})
    waves["carried"] = 9 * np.sin(waves.lag / 9)
    assert figure.memory(waves) == pytest.approx(np.cos(np.arange(1, 20) / 9), abs=0.05)
    ratio, error = figure.ratio_of(waves)
    assert ratio == pytest.approx(1 - np.mean(np.cos(np.array(apart) / 9)), abs=0.01)
    assert error == pytest.approx(0.1 * 2 * 19 / 380)
