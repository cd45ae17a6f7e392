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
from sgmcmc.data.minibatches import Minibatches
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from figures import finding_noise as figure

F64 = torch.float64
SIZE, BATCH, STIFFNESS, FRICTION = 40, 2, 30.0, 2.0


class Spring:
    """U = k |θ|²/2 in two coordinates, of data whose gradients differ by errors e (1 + tilt θ) that sum to 0."""

    dim, data_size = 2, SIZE
    errors = torch.linspace(-0.05, 0.05, SIZE, dtype=F64)[:, None] * torch.tensor([1.0, 3.0], dtype=F64)

    def __init__(self, tilt: float = 0.0, stiffness: float = STIFFNESS):
        self.tilt, self.stiffness = tilt, stiffness

    def potential(self, theta):
        return self.stiffness * theta.double().square().sum(-1) / 2

    def gradient(self, theta, batch=None):
        noise = 0.0 if batch is None else SIZE * self.errors[batch].mean(1) * (1 + self.tilt * theta)
        return self.stiffness * theta + noise

    def exact(self, chains, random, temperature=1.0):
        return random.normal("start", 0, 1, chains, 2, F64)[0] / STIFFNESS**0.5

    initial = exact


@pytest.fixture
def run(monkeypatch, request):
    """Forty thousand chains of it at exact draws; parameters are the tilt, the stiffness and the friction."""
    given = {"friction": FRICTION} | getattr(request, "param", {})
    gamma, chains = given.pop("friction"), 40_000
    target = Spring(**given)

    def build(config):
        h = (config["lr"] / SIZE) ** 0.5
        friction, law = Friction.of(h, friction=gamma), config["sampler"]["minibatches"]
        settings = {"steps": config["steps_per_cycle"], "batch_size": config["batch_size"], "minibatches": law}
        settings |= {"ends": config["sampler"]["ends"]}
        kernel = make_kernel("ggmc", target, h, friction=friction, dtype=F64, **settings)
        return Pieces(target, kernel, None, Random(3), chains, None)

    monkeypatch.setattr(noise, "build", build)
    config = {"model": {"name": "logistic"}, "data": {"name": "none", "train_size": SIZE}, "sampler": {}, "lr": 1.0}
    config |= {"chains": chains, "batch_size": BATCH, "friction": gamma, "seed": 3}
    return SimpleNamespace(config=config, draws=target.exact(range(chains), Random(4))[None])


@pytest.mark.thorough
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


@pytest.mark.thorough
@pytest.mark.parametrize("run", [{}, {"tilt": 4.0}], indirect=True)
def test_log_mh_of_both_laws_is_that_of_the_errors_and_of_what_is_forgotten(run, monkeypatch):
    """Predicted and measured of small noise: 5.5 errors of 40,000 chains, and of the ratio a hundredth for what is not
    of first order; two comparisons, 8e-8 by chance. Along one shuffled epoch the errors are, here, those of all."""
    monkeypatch.setitem(noise.RATES, "logistic", (0.01,))
    table = pd.DataFrame([{"status": "done", **row} for row in noise._remembered(run)])
    costs = pd.DataFrame([{"status": "done", **row} for row in noise._cost(run)])
    cycles = pd.DataFrame(
        columns=["sampler", "status", "lr", "step", "exact_point", "log_accept", "minibatches", "mass"]
    )
    (case,) = figure.cases(table, costs, cycles, cycles)
    assert abs(case.beyond[0]) < 5.5 * case.beyond[1] < 0.2 * case.cost[0]
    assert case.cost[0] == pytest.approx(case.expected + case.beyond[0])
    assert case.expected == pytest.approx(figure.cost_of(table, noise.EPOCHS), rel=0.05)
    (expected, _), (ratio, error) = case.expected_ratio, case.ratio
    assert abs(ratio - expected) < 5.5 * error + 0.01
    rows = list(figure.compare(table, costs, cycles, cycles))
    assert [row[3] for row in rows] == ["agrees", "agrees"]
    more, _ = figure.compare(table, costs.assign(beyond=costs.beyond + costs.cost), cycles, cycles)
    assert more[3].startswith("differs")


@pytest.mark.thorough
@pytest.mark.parametrize("run", [{"stiffness": 0.0, "friction": 20**0.5}], indirect=True)
def test_of_errors_alone_the_ratio_is_what_friction_forgets(run, monkeypatch):
    """U is flat and γh is 1, so that what half a step's O takes shows: e^{−1/2} of all. Of k steps apart
    a^{k − 1} (1 + a)/2 is remembered. 5.5 errors of 40,000 chains, 4e-8 by chance."""
    monkeypatch.setitem(noise.RATES, "logistic", (2.0,))
    table = pd.DataFrame([{"status": "done", **row} for row in noise._remembered(run)])
    costs = {row["minibatches"]: row for row in noise._cost(run)}
    epoch, a = SIZE // BATCH, np.exp(-(20**0.5) * (2.0 / SIZE) ** 0.5)
    apart = np.arange(1, epoch)
    memory = a ** (apart - 1) * (1 + a) / 2
    assert a == pytest.approx(np.exp(-1)) and figure.memory(table) == pytest.approx(memory, abs=1e-3)
    forgotten = 1 - 2 / epoch / (epoch - 1) * ((epoch - apart) * memory).sum()
    ratio = (SIZE - BATCH) / (SIZE - 1) * forgotten
    assert figure.ratio_of(table)[0] == pytest.approx(ratio, abs=1e-3)
    one, other = costs["independent"], costs["shuffled"]
    error = np.hypot(other["cost_error"], ratio * one["cost_error"]) / one["cost"]
    assert abs(other["cost"] / one["cost"] - ratio) < 5.5 * error < 0.05 * ratio
    assert other["beyond"] == pytest.approx(other["cost"] - other["work"])


class Curved:
    """U = Σ over data and coordinates of (θ − x)²/2 + 0.3 (θ − x)⁴/4: no two minibatches' errors stay in proportion."""

    dim, data_size = 2, 12
    data = torch.linspace(-1.2, 1.7, 24, dtype=F64).reshape(12, 2).sin() * torch.tensor([1.0, 1.6], dtype=F64)

    def potential(self, theta):
        away = theta[:, None] - self.data
        return (away**2 / 2 + 0.3 * away**4 / 4).sum((1, 2))

    def gradient(self, theta, batch=None):
        batch = torch.arange(12).expand(len(theta), -1) if batch is None else batch
        away = theta[:, None] - self.data[batch]
        return 12 * (away + 0.3 * away**3).mean(1)

    def potential_and_gradient(self, theta):
        return self.potential(theta), self.gradient(theta)


def mean_slope(theta, data) -> np.ndarray:
    """12 times the mean gradient of these data, of one chain."""
    return 12 * np.mean([theta - Curved.data[j].numpy() + 0.3 * (theta - Curved.data[j].numpy()) ** 3 for j in data], 0)


def along(theta, m, h, friction, noises, batches) -> tuple[list[np.ndarray], float]:
    """Positions of OBABO steps of one chain, and Σ ΔK; two O's in a row are one."""
    a, places, work, slope = np.exp(-friction * h), [theta], 0.0, mean_slope(theta, batches[0])
    for step in range(len(batches) - 1):
        keep = np.sqrt(a) if step == 0 else a
        m = keep * m + np.sqrt(1 - keep**2) * noises[step]
        before, m = m, m - h / 2 * slope
        work += (m @ m - before @ before) / 2
        theta = theta + h * m
        slope = mean_slope(theta, batches[step + 1])
        before, m = m, m - h / 2 * slope
        work += (m @ m - before @ before) / 2
        places.append(theta)
    return places, work


@pytest.fixture
def small(monkeypatch):
    """Three chains of it, 4 minibatches of 3 an epoch; ``asked`` are the configurations that were built."""
    target, asked = Curved(), []

    def build(config):
        asked.append(config)
        h, sampler = (config["lr"] / 12) ** 0.5, config["sampler"]
        settings = {"steps": config["steps_per_cycle"], "batch_size": config["batch_size"], "ends": sampler["ends"]}
        settings |= {"minibatches": sampler["minibatches"], "acceptance": sampler["acceptance"]}
        kernel = make_kernel("ggmc", target, h, friction=Friction("gamma", config["friction"]), dtype=F64, **settings)
        return Pieces(target, kernel, None, Random(config["seed"]), config["chains"], None)

    monkeypatch.setattr(noise, "build", build)
    monkeypatch.setitem(noise.RATES, "logistic", (0.02, 0.15))
    config = {"model": {"name": "logistic"}, "data": {"name": "none", "train_size": 12}, "chains": 3, "batch_size": 3}
    config |= {
        "sampler": {"name": "ggmc", "gradient": "full"},
        "friction": 1.7,
        "seed": 5,
        "lr": None,
        "step_size": 0.3,
    }
    draws = torch.tensor([[[9.0, 9.0]] * 3, [[0.4, -0.3], [1.1, 0.2], [-0.6, 0.9]]], dtype=F64)
    return SimpleNamespace(config=config, draws=draws, asked=asked)


def begun(run, rate: float, law: str, points: int, skipped: int):
    """Step size, and of each chain what a trajectory goes by: start, momentum, noises, the data of each gradient."""
    random, steps = Random(5), points + 2 * skipped - 1
    noises = random.normal("noise", 0, steps + 2, 3, 2, F64)[1:].numpy()
    momentum = random.normal("start", -1, 1, 3, 2, F64)[0].numpy()
    draw = Minibatches(law, 12, 3, points).draw(random, 0, torch.arange(3))
    batches = [draw(point).numpy() for point in range(points)]
    whole = [range(12)] * skipped
    for chain in range(3):
        data = [*whole, *(batch[chain] for batch in batches), *whole]
        yield run.draws[-1, chain].numpy(), momentum[chain], noises[:, chain], data


def settings(run, rate: float) -> dict:
    """What a row says of its run."""
    return {
        **{"target": "logistic", "lr": rate, "step_size": (rate / 12) ** 0.5, "friction": 1.7, "data": 12},
        **{"batch_size": 3, "epoch": 4, "chains": 3},
    }


def ratio_and_error(above: list[float], below: list[float]) -> tuple[float, float]:
    """Σ above / Σ below of four minibatches, and √(Σ (above − ratio below)²/(4 · 3)) over the mean below."""
    ratio = sum(above) / sum(below)
    squares = sum((one - ratio * other) ** 2 for one, other in zip(above, below, strict=True))
    return ratio, (squares / 12) ** 0.5 / abs(sum(below) / 4)


def test_a_row_of_what_is_remembered_is_of_kicked_trajectories_gone_by_hand(small):
    """Chain by chain and kick by kick, at two rates."""
    others = Minibatches("independent", 12, 3, 4).draw(Random(6), 0, torch.arange(3))
    followed = [others(number).numpy() for number in range(4)]
    rows, friction = iter(noise._remembered(small)), 1.7
    for rate in (0.02, 0.15):
        h = (rate / 12) ** 0.5
        sums = np.zeros((4, 5, 4))  # of four products, at five lags, of four minibatches
        for chain, (theta, m, noises, data) in enumerate(begun(small, rate, "shuffled", 5, 0)):

            def errors(theta, chain=chain):
                slopes = [mean_slope(theta, batch[chain]) for batch in followed]
                return [slope - sum(slopes) / 4 for slope in slopes]

            first, (places, _) = errors(theta), along(theta, m, h, friction, noises, data)
            for number in range(4):
                kicked, _ = along(theta, m - h * first[number], h, friction, noises, data)
                for lag in range(5):
                    now = errors(places[lag])[number]
                    sums[:, lag, number] += [
                        first[number] @ now,
                        now @ now,
                        now @ (kicked[lag] - places[lag]),
                        first[number] @ first[number],
                    ]
        for lag in range(5):
            same, now, gone, norm = sums[:, lag]
            row = next(rows)
            expected = settings(small, rate) | {"lag": lag}
            for name, above, below in (
                ("correlation", same, np.sqrt(now * norm)),
                ("carried", gone, -(h**2) * norm),
                ("variance", now / 3 * 4 / 3, np.ones(4)),  # of 3 chains; of 4 with their own mean taken off
            ):
                expected[name], expected[f"{name}_error"] = ratio_and_error(above, below)
            assert expected.pop("target") == row.pop("target")
            assert row == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert row["carried"] < 3.9 and row["correlation"] < 0.9999  # something is forgotten
    assert next(rows, None) is None
    for asked, rate in zip(small.asked, (0.02, 0.15), strict=True):
        own = {"name": "ggmc", "gradient": "minibatch", "ends": "minibatch", "minibatches": "shuffled"}
        own |= {"acceptance": "monitor"}
        changed = {"lr": rate, "step_size": None, "steps_per_cycle": 4, "sampler": own}
        assert asked == small.config | changed


def test_a_row_of_the_cost_is_the_mean_of_minus_log_mh(small):
    """Of four epochs between full gradients, by hand; of networks there is none."""
    rows = list(noise._cost(small))
    cases = [(rate, law) for rate in (0.02, 0.15) for law in ("independent", "shuffled")]
    for row, (rate, law), asked in zip(rows, cases, small.asked, strict=True):
        costs, works, potential, h = [], [], Curved().potential, (rate / 12) ** 0.5
        for theta, m, noises, data in begun(small, rate, law, 16, 1):
            places, work = along(theta, m, h, 1.7, noises, data)
            ends = potential(torch.tensor(np.stack((places[0], places[-1]))))
            costs.append(float(ends[1] - ends[0]) + work)
            each = [mean_slope(at, batch) - mean_slope(at, range(12)) for at, batch in zip(places, data, strict=True)]
            works.append(h * h * (1 + np.exp(-1.7 * h)) / 4 * sum(one @ one for one in each))
        mean = sum(costs) / 3
        expected = settings(small, rate) | {"minibatches": law, "epochs": 4, "cost": mean}
        expected["cost_error"] = (sum((cost - mean) ** 2 for cost in costs) / 2 / 3) ** 0.5
        away = [cost - own for cost, own in zip(costs, works, strict=True)]
        expected |= {"work": sum(works) / 3, "beyond": sum(away) / 3}
        expected["beyond_error"] = (sum((one - sum(away) / 3) ** 2 for one in away) / 2 / 3) ** 0.5
        for key in ("target", "minibatches"):
            assert row.pop(key) == expected.pop(key)
        assert row == pytest.approx(expected, rel=1e-9)
        assert asked["sampler"]["ends"] == "exact" and asked["steps_per_cycle"] == 17
    assert (
        list(noise._cost(SimpleNamespace(config=small.config | {"model": {"name": "resnet20"}}, draws=small.draws)))
        == []
    )


class Numbers:
    """A linear U, whose minibatches of one have the number of their datum as the gradient."""

    dim = 1

    def __init__(self, data_size: int):
        self.data_size = data_size

    def potential(self, theta):
        return theta.double().sum(-1)

    def gradient(self, theta, batch=None):
        return theta * 0 + 1 if batch is None else batch.to(theta)


@pytest.mark.parametrize(
    ("epoch", "lags"),
    [(400, [0, 1, 2, 5, *range(10, 401, 10)]), (40, list(range(41)))],
)
def test_the_lags_of_an_epoch_of_400_steps_are_stretched_to_its_own(epoch, lags, monkeypatch):
    """All of them from 1 on, rounded; of the ones that coincide one."""
    target = Numbers(epoch)
    kernel = make_kernel("ggmc", target, 0.01, steps=epoch, batch_size=1, minibatches="shuffled", dtype=F64)
    monkeypatch.setattr(noise, "build", lambda config: Pieces(target, kernel, None, Random(1), 1, None))
    config = {"model": {"name": "logistic"}, "data": {"name": "none", "train_size": epoch}, "batch_size": 1}
    config |= {"sampler": {}, "chains": 1, "friction": 1.0, "seed": 1}
    rows = list(noise._at(0.1, SimpleNamespace(config=config, draws=torch.zeros((1, 1, 1), dtype=F64))))
    assert [row["lag"] for row in rows] == lags


def test_a_regression_that_goes_by_full_gradients_is_given_minibatches_of_ten():
    config = {"data": {"name": "heart", "train_size": None}, "batch_size": None}
    assert noise._steps(SimpleNamespace(config=config)) == (10, 27)
    assert noise._steps(SimpleNamespace(config=config | {"batch_size": 4})) == (4, 67)


def test_the_mean_over_pairs_of_an_epoch():
    apart = [abs(one - other) for one in range(20) for other in range(20) if one != other]
    assert figure.pairs(20) == pytest.approx(np.bincount(apart)[1:] / len(apart))
    rows = pd.DataFrame({"lag": [0, 1, 2, 5, 10, 20], "epoch": 20, "data": 20, "batch_size": 1, "carried_error": 0.1})
    rows = rows.assign(friction=0.0, step_size=0.5)
    whole = rows.assign(carried=rows.lag)  # nothing is forgotten
    assert figure.memory(whole) == pytest.approx(1) and figure.ratio_of(whole)[0] == pytest.approx(0, abs=1e-12)
    waves = pd.DataFrame({**rows.iloc[0], "lag": range(21)})
    waves["carried"] = 9 * np.sin(waves.lag / 9)
    assert figure.memory(waves) == pytest.approx(np.cos(np.arange(1, 20) / 9), abs=0.05)
    ratio, error = figure.ratio_of(waves)
    assert ratio == pytest.approx(1 - np.mean(np.cos(np.array(apart) / 9)), abs=0.01)
    assert error == pytest.approx(0.1 * 2 * 19 / 380)
