"""How long a trajectory may be: theory's variance of log MH, log MH as measured, and what a gradient buys."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from made import MadeRun

from experiments.config import compose
from experiments.tables import trajectory
from experiments.tables.statistics import jackknifed_time
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.potentials.analytic import Gaussian
from sgmcmc.potentials.regression import GeneratedLogistic
from sgmcmc.random import Random


@pytest.mark.parametrize("word", ["OBABO", "ABOBA", "BOABAOB", "OBOBAOABBO"])
def test_kicks_of_one_point_share_its_noise_as_far_as_their_momenta_are_correlated(word):
    """Var Σ w ξ·m over pairs of kicks: those of one position, with the momenta's correlation c^(O's between them)."""
    h, steps, friction = 0.3, 3, 0.8
    given = {"word": word, "steps": steps, "friction": Friction("gamma", friction), "gradient": "minibatch"}
    kernel = make_kernel("ggmc", Gaussian(2, noise=1.0), h, dtype=torch.float64, **given)
    kicks, moves, refreshed = [], 0, 0.0
    for letter in word * steps:
        moves += letter == "A"
        refreshed += (letter == "O") / word.count("O")  # in whole steps
        if letter == "B":
            kicks.append((h / word.count("B"), moves, refreshed))
    pairs = [(a * b, math.exp(-friction * h * abs(o - p))) for a, x, o in kicks for b, y, p in kicks if x == y]
    assert trajectory.noise_sum(kernel) == pytest.approx(sum(both * c for both, c in pairs), rel=1e-12)


class Slopes:
    """A target of N data whose gradients are numbers of their own, the same everywhere, evaluated chain by chain."""

    together = False

    def __init__(self, slopes):
        self.slopes, self.data_size = slopes, len(slopes)

    def gradient(self, theta, batch=None):
        batch = torch.arange(self.data_size).expand(len(theta), -1) if batch is None else batch
        assert len(batch) == len(theta) == 1
        return self.slopes[batch].mean(1) * self.data_size


@pytest.mark.thorough
def test_the_noise_of_minibatches_of_chains_that_are_evaluated_one_by_one():
    """N²/B times the trace of the data's covariance. Of 4,000 minibatches, be all of the noise in one coordinate, it is
    known to 2.3 %, and its error says what it is; with the same minibatches at all positions it would say 0."""
    slopes = torch.randn(60, 40, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    exact = 60**2 / 4 * float(slopes.var(0, correction=0).sum())
    found, error = trajectory.noise_trace(Slopes(slopes), torch.zeros(40, 40), Random(0), 4)
    assert 1e-3 * exact < error < 0.023 * exact and abs(found - exact) < 6 * error


def test_no_data_have_the_artificial_noise_in_every_coordinate():
    assert trajectory.noise_trace(Gaussian(5, noise=3.0), None, None, None) == (45, 0)


def test_some_of_many_positions_are_of_all_chains():
    """A thousand of 200 draws of 30 chains, one after another: each sixth would be of five chains alone."""
    place = trajectory.some_of(torch.arange(6000), 1000)
    assert len(place.unique()) == 1000 and (place % 30).bincount().min() > 10
    assert trajectory.some_of(torch.arange(7), 10).tolist() == list(range(7))


def test_what_is_measured_of_log_mh_worked_by_hand():
    """Thirteen trajectories in groups of 5, 4 and 4; as many as there are fours, up to ten."""
    values = [0.3, -1.2, 0.0, 2.1, -0.4, 0.9, -2.5, 0.1, -0.7, 1.4, -0.3, 0.6, -1.9]
    found = trajectory.measured(np.array(values))

    def mean(some):
        return sum(some) / len(some)

    def sd(some):
        return math.sqrt(sum((one - mean(some)) ** 2 for one in some) / (len(some) - 1))

    ratio, accept = [math.exp(one) for one in values], [min(1.0, math.exp(one)) for one in values]
    groups = [sd(values[:5]), sd(values[5:9]), sd(values[9:])]
    expected = {
        "trajectories": 13,
        "mean": mean(values),
        "sd": sd(values),
        "mh": mean(ratio),
        "acceptance": mean(accept),
    }
    expected |= {"mean_error": sd(values) / 13**0.5, "mh_error": sd(ratio) / 13**0.5}
    expected |= {"sd_error": sd(groups) / 3**0.5, "acceptance_error": sd(accept) / 13**0.5}
    assert found == pytest.approx(expected)
    lost = trajectory.measured(np.array([*values, -math.inf, math.nan]))  # never accepted
    assert [lost[key] for key in ("mean", "sd", "sd_error")] == [found[key] for key in ("mean", "sd", "sd_error")]
    assert lost["mh"] == pytest.approx(13 / 15 * mean(ratio)) and lost["trajectories"] == 13
    assert lost["acceptance"] == pytest.approx(13 / 15 * mean(accept))
    assert lost["acceptance_error"] == pytest.approx(sd([*accept, 0, 0]) / 15**0.5)
    many = np.arange(100.0) ** 1.5  # ten groups of ten
    tens = [sd(list(many[first : first + 10])) for first in range(0, 100, 10)]
    assert trajectory.measured(-many)["sd_error"] == pytest.approx(sd(tens) / 10**0.5)


def log_mh(word: str, h: float, steps: int, theta: np.ndarray, normals, slope, energy) -> np.ndarray:
    """log MH of trajectories of OBABO or ABOBA at friction 1, M = T = 1, in a plain loop over the letters.

    ``normals`` ``[1 + O's, chains, dim]``, of which the first are the fresh momentum; ``slope(θ, point)``.
    """
    x, m, work = theta, normals[0], 0.0
    point, draw = -1 if word == "ABOBA" else 0, 0
    letters = list(word * steps)
    for place, letter in enumerate(letters):
        if letter == "A":
            x = x + h / word.count("A") * m
            point += word == "OBABO" or letters[place + 1 : place + 2] == ["B"]
        elif letter == "B":
            before = m
            m = m - h / 2 * slope(x, point)
            work = work + (m**2 - before**2).sum(1) / 2
        elif letters[place - 1 : place] != ["O"]:  # two O's of adjacent steps are one
            twice = letters[place + 1 : place + 2] == ["O"]
            c, draw = math.exp(-h / word.count("O") * (1 + twice)), draw + 1
            m = c * m + math.sqrt(1 - c**2) * normals[draw]
    return energy(theta) - energy(x) - work


def same(row: dict, values: np.ndarray, variance: float) -> None:
    """A row's numbers are those of these log MH, and theory's of this variance."""
    accept = np.where(values < 0, np.exp(values), 1)
    assert row["trajectories"] == len(values)
    found = [row[key] for key in ("predicted", "mean", "sd", "mh", "acceptance")]
    assert found == pytest.approx(
        [variance**0.5, values.mean(), values.std(ddof=1), np.exp(values).mean(), accept.mean()], rel=1e-9
    )
    errors = [one.std(ddof=1) / len(values) ** 0.5 for one in (values, np.exp(values), accept)]
    assert [row[f"{key}_error"] for key in ("mean", "mh", "acceptance")] == pytest.approx(errors, rel=1e-9)


def variance_of(word: str, h: float, steps: int) -> float:
    """The closed forms of the page, over tr Σ; friction 1."""
    c = math.exp(-h)
    return h**2 * (steps * (1 + c) / 2 if word == "ABOBA" else (steps - 1) * (1 + c) / 2 + 0.5)


def test_rows_of_an_analytic_target_are_of_single_trajectories_from_its_exact_draws(monkeypatch):
    """A Gaussian of variance .4 about ½ with noise .7, from the trajectories' own random numbers."""
    words = ["point=1", "model.dim=3", "model.noise=0.7", "model.covariance=0.4", "model.mean=0.5", "chains=26"]
    config = compose(["experiment=finding_trajectory", *words, "step_size=[0.1,0.3]", "steps_per_cycle=4"])
    run, random = MadeRun(config=config), Random(config["seed"])
    theta = (0.5 + 0.4**0.5 * random.normal("start", 0, 1, 26, 3, torch.float64)[0]).numpy()
    rows = list(trajectory._energies(run))
    grid = [(word, h, steps) for word in ("OBABO", "ABOBA") for h in (0.1, 0.3) for steps in (1, 4)]
    for row, (word, h, steps) in zip(rows, grid, strict=True):
        assert (row["batch"], row["word"], row["step_size"], row["steps"]) == (None, word, h, steps)
        # The trajectories' numbers are beyond those of any run.
        normals = random.normal("noise", 2**40 + steps, steps + 2, 26, 3, torch.float64).numpy()
        noise = 0.7 * random.normal("minibatch", 2**40 + steps, steps + 1, 26, 3, torch.float64).numpy()
        values = log_mh(
            word,
            h,
            steps,
            theta,
            normals,
            lambda x, point, noise=noise: (x - 0.5) / 0.4 + noise[point],
            lambda x: ((x - 0.5) ** 2).sum(1) / 0.8,
        )
        assert row["trace"] == pytest.approx(3 * 0.7**2)
        same(row, values, 3 * 0.7**2 * variance_of(word, h, steps))
    assert trajectory._settings(run) == {"target": "gaussian", "dim": 3}
    longer = MadeRun(config=config | {"chains": 4, "step_size": 0.1, "steps_per_cycle": 64})
    assert [row["steps"] for row in trajectory._energies(longer)] == [1, 4, 16, 64] * 2

    class Apart(Gaussian):
        together = False

    pieces = SimpleNamespace(potential=Apart(3, 0.4, 0.5, 0.7), random=random, chains=26)
    monkeypatch.setattr(trajectory, "build", lambda config: pieces)
    alone = next(trajectory._energies(MadeRun(config=config | {"steps_per_cycle": 1, "step_size": 0.1})))
    assert alone == pytest.approx(rows[0])  # chain by chain as together


def test_rows_of_a_regression_are_of_trajectories_from_a_thousand_of_2035_draws_with_both_batch_sizes():
    config = compose(["experiment=finding_trajectory", "point=5", "step_size=0.03", "steps_per_cycle=1"])
    config["model"] |= {"size": 250, "features": 2}
    target, random, h = GeneratedLogistic(250, 2), Random(config["seed"]), 0.03
    noise = torch.randn(37, 55, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    draws = torch.tensor([0.1, 0.5, -0.7], dtype=torch.float64) + 0.3 * noise
    rows = list(trajectory._energies(MadeRun(config=config, draws=draws)))
    theta = trajectory.some_of(draws.reshape(-1, 3), 1000).numpy()
    columns = target.inputs.numpy()
    x = np.column_stack((np.ones(250), (columns - columns.mean(0)) / columns.std(0)))
    y = target.targets.numpy()

    def energy(theta):
        logit = theta @ x.T
        return (np.logaddexp(0, logit) - y * logit).sum(1) + (theta**2).sum(1) / 200

    def slopes(theta):
        """Of each datum, [chains, data, dim]."""
        return (1 / (1 + np.exp(-theta @ x.T)) - y)[..., None] * x

    exact = slopes(trajectory.some_of(torch.from_numpy(theta), 40).numpy()).var(1).sum(1).mean()
    grid = [(batch, word) for batch in (20, 200) for word in ("OBABO", "ABOBA")]
    for row, (batch, word) in zip(rows, grid, strict=True):
        assert (row["batch"], row["word"], row["step_size"], row["steps"]) == (batch, word, h, 1)
        # Of 4,000 minibatches, be the noise in one of the three coordinates alone: an error of 2.3 %.
        assert row["trace"] == pytest.approx(250**2 / batch * exact, rel=5 * 0.023)
        normals = random.normal("noise", 2**40 + 1, 3, len(theta), 3, torch.float64).numpy()
        index = random.integers("minibatch", 2**40 + 1, 2, len(theta), batch, 250).numpy()

        def slope(theta, point, index=index):
            each = np.take_along_axis(slopes(theta), index[point][..., None], 1)
            return 250 * each.mean(1) + theta / 100

        values = log_mh(word, h, 1, theta, normals, slope, energy)
        same(row, values, row["trace"] * variance_of(word, h, 1))
    assert rows[0]["trace"] != rows[2]["trace"]


def test_ess_is_of_gradients_and_u_of_the_chains_that_are_left(monkeypatch):
    """Four steps and U, which is 90/20 gradients of minibatches; metrics tell what was chosen."""
    monkeypatch.setattr(trajectory, "build", lambda config: SimpleNamespace(potential=SimpleNamespace(data_size=90)))
    generator = torch.Generator().manual_seed(2)
    draws = torch.randn(60, 12, 2, generator=generator, dtype=torch.float64)
    for step in range(1, 60):  # one coordinate is slower
        draws[step, :, 1] += 0.6 * draws[step - 1, :, 1]
    draws[5:40:3] = draws[4:39:3]  # 12 of 59 are rejected, in every chain
    draws[50, 7:9] = draws[49, 7:9]  # and one more in two of them
    config = {
        "model": {"name": "logistic_generated"},
        "tune": {"trajectory": None},
        "batch_size": 20,
        "steps_per_cycle": 4,
        "step_size": [0.3, 0.7],
        "chains": 12,
    }
    run = MadeRun(config=config, draws=draws, facts={"frozen": [2, 6, 11]})
    for row, size, chains, moved in zip(
        trajectory._efficiency(run), (0.3, 0.7), ([0, 1, 3, 4, 5], [7, 8, 9, 10]), (47, 46.5), strict=True
    ):
        tau, error = jackknifed_time(draws[:, chains], together=False)
        assert tau > 1.3 * jackknifed_time(draws[:, chains], together=True)[0]
        expected = {"steps": 4, "step_size": size, "auto": 0, "chains": len(chains), "frozen": 6 - len(chains)}
        expected |= {
            "draws_a_chain": 60,
            "accepted": moved / 59,
            "tau": tau,
            "ess": 1000 / (tau * 8.5),
            "ess_error": 1000 * error / tau**2 / 8.5,
        }
        assert row == pytest.approx(expected)
    # Without data U is one gradient; the coordinates of a Gaussian are of one law.
    config |= {
        "model": {"name": "gaussian"},
        "tune": {"trajectory": "auto"},
        "batch_size": None,
        "step_size": 0.1,
        "steps_per_cycle": 16,
    }
    metrics = {"step_size": np.array([0.1, 0.3, 0.41]), "steps_per_cycle": np.array([16.0, 4.0, 5.0])}
    (row,) = trajectory._efficiency(MadeRun(config=config, draws=draws, metrics=metrics))
    assert (row["steps"], row["step_size"], row["auto"], row["chains"]) == (5, 0.41, 1, 12)
    assert row["ess"] == pytest.approx(1000 / 6 / jackknifed_time(draws, together=True)[0])
