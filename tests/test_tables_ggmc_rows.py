"""The numbers in the rows of the GGMC paper's tables, against trajectories gone by hand."""

import math
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from made import MadeRun
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

from experiments.build import build
from experiments.config import compose
from experiments.tables import ggmc
from sgmcmc.random import Random
from sgmcmc.trajectory import start

F64 = torch.float64

# -- Figures 1 and D.1 -------------------------------------------------------------------------------------------


def columns(names: str, length: int) -> dict[str, np.ndarray]:
    """A value of its own in each place."""
    return {name: 10.0 * (number + 1) + np.arange(length) for number, name in enumerate(names.split())}


TRACE = columns("cycle step exact log_accept potential_per_datum kinetic_temperature", 3)
TRACE["exact"] = np.array([1, 0, 1])
METRICS = columns("cycle epoch step " + " ".join(ggmc.COLUMNS), 2)


FIG1 = {
    "sampler": {"name": "ggmc", "minibatches": "shuffled"},
    "data": {"name": "cifar10", "train_size": None},
    "model": {"name": "resnet20", "norm": "frn"},
    "augmentation": "none",
    "mass": None,
    "friction": 20.0,
    "lr": 4e-4,
}


def fig1(changes: dict | None = None, **given) -> MadeRun:
    return MadeRun(config=FIG1 | (changes or {}), **given)


def traced(tmp_path, **given) -> MadeRun:
    (tmp_path / "trace.csv").touch()
    return fig1(path=tmp_path, trace=TRACE, metrics=METRICS, **given)


def test_a_point_of_the_trace_is_a_row(tmp_path):
    """As it stands in the trace; without a trace there are no rows."""
    assert list(ggmc._trace(fig1(path=tmp_path))) == []
    rows = list(ggmc._trace(traced(tmp_path)))
    assert rows == [
        {
            "data": 50_000,
            "cycle": 10 + place,
            "step": 20 + place,
            "exact_point": [1, 0, 1][place],
            "log_accept": 40 + place,
            "potential_per_datum": 50 + place,
            "kinetic_temperature": 60 + place,
        }
        for place in range(3)
    ]


def test_a_cycle_is_a_row_with_all_that_was_measured_of_it():
    """The momentum decay is e^(−γ √(ℓ/N)); NaN where no friction is configured."""
    rows = list(ggmc._cycles(fig1(metrics=METRICS)))
    for place, row in enumerate(rows):
        assert row.pop("momentum_decay") == pytest.approx(math.exp(-20 * math.sqrt(4e-4 / 50_000)), rel=1e-12)
        assert row == {name: values[place] for name, values in METRICS.items()}
    assert len(rows) == 2
    untested = {name: values for name, values in METRICS.items() if not name.startswith("test_")}
    for row in ggmc._cycles(fig1({"friction": None}, metrics=untested)):
        assert math.isnan(row["momentum_decay"]) and set(row) == {"momentum_decay", *untested}


def test_batch_normalisation_and_random_augmentation_alone_are_not_exact():
    for changes, acceptance in (
        ({}, "exact"),
        ({"augmentation": "averaged"}, "exact"),
        ({"augmentation": "random"}, "not exact"),
        ({"model": {"name": "resnet20", "norm": "bn"}}, "not exact"),
    ):
        assert ggmc._settings(fig1(changes)) == {"lr": 4e-4, "acceptance": acceptance}
    changed = {"lr": 4e-4, "acceptance": "exact", "minibatches": "shuffled", "mass": "1"}
    assert ggmc._changed(fig1()) == changed
    other = fig1({"mass": "estimate", "sampler": {"name": "ggmc", "minibatches": "independent"}})
    assert ggmc._changed(other) == changed | {"minibatches": "independent", "mass": "estimated"}


FIGURES = [name for name in ggmc.TABLES if "fig" in name or name == "ggmc_discarded"]


@pytest.mark.parametrize("name", FIGURES)
def test_of_a_learning_rate_that_diverged_the_tables_have_what_was_left(name, tmp_path, monkeypatch):
    monkeypatch.setattr(ggmc, "potential_noise", lambda config: 2.5)
    run = traced(tmp_path, status="diverged", facts={"cycles": 7, "seconds": 3.0})
    rows = ggmc.TABLES[name][1]([run])
    assert len(rows) == (2 if "figd1" in name or "discarded" in name else 3) and len(FIGURES) == 8
    for row in rows:
        assert (row["status"], row["why"], row["lr"], row["seconds"]) == ("diverged", "diverged at cycle 7", 4e-4, 3.0)


def test_the_noise_of_u_is_that_of_the_first_run(monkeypatch):
    """In all rows; not known where the first run failed."""
    monkeypatch.setattr(ggmc, "potential_noise", lambda config: 100 * config["lr"])
    first, other = (fig1({"lr": lr}, metrics=METRICS) for lr in (1e-2, 1e-3))
    assert [row["noise"] for row in ggmc._cycles_as_run([first, other])] == [1.0] * 4
    assert [row["lr"] for row in ggmc._cycles_as_run([first, other])] == [1e-2] * 2 + [1e-3] * 2
    failed = fig1({"lr": 1e-4}, status="failed", why="no memory")
    rows = ggmc._cycles_as_run([failed, other])
    assert len(rows) == 3 and all(math.isnan(row["noise"]) for row in rows)
    assert ggmc._cycles_as_run([other, failed])[-1]["noise"] == pytest.approx(0.1)


def test_the_noise_of_u_is_the_deviation_of_a_difference(monkeypatch):
    """Of evaluations with counters 1, 2, … at one start: 0, 3, 6, of variance 9, so √18 for a difference of two."""
    seen = []

    class Noisy:
        counter = 0

        def potential(self, theta):
            seen.append((self.counter, theta.tolist()))
            return torch.tensor([3.0 * (self.counter - 1)], dtype=F64)

    starts = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    pieces = SimpleNamespace(potential=Noisy(), initial=lambda: starts)
    monkeypatch.setattr(ggmc, "build", lambda config: pieces)
    assert ggmc.potential_noise({}, 3) == pytest.approx(math.sqrt(18), rel=1e-12)
    assert seen == [(number, [[1.0, 2.0]]) for number in (1, 2, 3)]
    assert ggmc.potential_noise({}) == pytest.approx(math.sqrt(2 * 9 * 6), rel=1e-12)  # of 0 … 7 the variance is 6


# -- Theorem 1 ---------------------------------------------------------------------------------------------------


def slope(x):
    return x**3 + x**2 + x


def energy(x):
    return x**4 / 4 + x**3 / 3 + x**2 / 2


class Step:
    """One step of a word of friction γ and size h in one coordinate, and back, as the paper writes it."""

    def __init__(self, word: str, h: float, friction: float):
        self.word, self.h, self.friction = word, h, friction

    def __call__(self, x, m, *noises):
        h, friction = self.h, self.friction
        if self.word == "OBABO":
            a = math.exp(-friction * h)
            m = math.sqrt(a) * m + math.sqrt(1 - a) * noises[0] - h / 2 * slope(x)
            x = x + h * m
            m = m - h / 2 * slope(x)
            return x, math.sqrt(a) * m + math.sqrt(1 - a) * noises[1]
        if self.word == "AE":
            x = x + h * m
        m = (1 - friction * h) * m - h * slope(x) + math.sqrt(2 * friction * h) * noises[0]
        return (x if self.word == "AE" else x + h * m), m

    def nearest(self, x, m, end, last) -> float:
        """The square of the distance from (x, −m) that the best noise leaves, by search; of OBABO there is none."""
        if self.word == "OBABO":
            return 0.0

        def away(noise):
            there, momentum = self(end, -last, noise)
            return (there - x) ** 2 + (momentum + m) ** 2

        return minimize_scalar(away, bracket=(-1, 1), tol=1e-12).fun


@cache
def composed(experiment: str, point: int) -> dict:
    return compose([f"experiment={experiment}", f"point={point}"])


def theorem(point: int, dim: int, **settings) -> tuple[MadeRun, SimpleNamespace]:
    """A run with friction 1.3; where its chains start, and the noises of their step."""
    config = composed("ggmc_theorem1", point) | {"friction": 1.3, "seed": 5} | settings
    config["model"] = config["model"] | {"dim": dim}
    run, pieces = MadeRun(config=config), build(config)
    state = start(pieces.kernel, pieces.potential, pieces.initial(), pieces.random, range(config["chains"]))
    noise = Random(config["seed"]).normal("noise", 0, 3, config["chains"], dim, F64)
    return run, SimpleNamespace(theta=state.theta.numpy(), momentum=state.momentum.numpy(), noise=noise[1:].numpy())


@pytest.mark.parametrize("point", [0, 1, 2])
def test_a_row_of_theorem_1_has_the_quantiles_of_the_nearest_distances(point):
    """Seven chains of two coordinates at each of two step sizes; in each coordinate the best noise is searched for."""
    run, begun = theorem(point, dim=2, chains=14, step_size=[0.1, 0.4])
    word = ("EA", "AE", "OBABO")[point]
    rows = list(ggmc._theorem(run))
    assert [row["step_size"] for row in rows] == [0.1, 0.4]
    for number, row in enumerate(rows):
        step, distances, moved = Step(word, row["step_size"], 1.3), [], []
        for chain in range(7 * number, 7 * number + 7):
            squares, changes = 0.0, 0.0
            for x, m, *noises in zip(begun.theta[chain], begun.momentum[chain], *begun.noise[:, chain], strict=True):
                end, last = step(x, m, *noises)
                squares += step.nearest(x, m, end, last)
                changes += (last - m) ** 2
            distances.append(math.sqrt(squares))
            moved.append(math.sqrt(changes))
        low, *_, high = distances = sorted(distances)
        close = {"rel": 1e-6, "abs": 1e-12}
        assert row["word"] == word and row["draws"] == 7
        assert row["least"] == pytest.approx(low, **close)
        assert row["low"] == pytest.approx(low + 0.3 * (distances[1] - low), **close)  # 0.05 · 6 places up
        assert row["median"] == pytest.approx(distances[3], **close)
        assert row["high"] == pytest.approx(high - 0.3 * (high - distances[5]), **close)
        assert row["moved"] == pytest.approx(sorted(moved)[3], rel=1e-12)
        assert row["off_formula"] < 1e-13


@pytest.mark.parametrize("point", [0, 1, 2])
def test_the_picture_of_one_step(point):
    """Its first chain at the largest step size. What noises reach is the step back from the mirror image with
    standard normals, 300 of them, and nearest is the point of it, there a line, that is nearest to the aim."""
    run, begun = theorem(point, dim=1, chains=6, step_size=[0.1, 0.2, 0.4])
    word, h, friction = ("EA", "AE", "OBABO")[point], 0.4, 1.3
    rows = list(ggmc._one_step(run))
    assert {(row["word"], row["step_size"]) for row in rows} == {(word, h)}
    at = {row["what"]: np.array([row["theta"], row["momentum"]]) for row in rows if row["what"] != "reached"}
    reached = np.array([(row["theta"], row["momentum"]) for row in rows if row["what"] == "reached"])
    x, m = begun.theta[4, 0], begun.momentum[4, 0]
    end, last = Step(word, h, friction)(x, m, *begun.noise[:, 4, 0])
    for name, place in {"start": (x, m), "aim": (x, -m), "end": (end, last), "mirror": (end, -last)}.items():
        assert at[name] == pytest.approx(place, rel=1e-12)
    assert list(at) == ["start", "aim", "end", "mirror", "nearest"] and len(reached) == 300
    assert len(set(reached[:, 1])) == 300
    if word == "OBABO":
        a = math.exp(-friction * h)
        half = (reached[:, 0] - end) / h
        noises = [half + h / 2 * slope(end) + math.sqrt(a) * last]
        noises += [reached[:, 1] - math.sqrt(a) * (half - h / 2 * slope(reached[:, 0]))]
        noises = np.array(noises) / math.sqrt(1 - a)
        assert at["nearest"] == pytest.approx(at["aim"], abs=1e-12)
        assert abs(np.corrcoef(noises)[0, 1]) < 4.5 / math.sqrt(300)
    else:
        there = end if word == "EA" else end - h * last
        noises = reached[:, 1] + (1 - friction * h) * last + h * slope(there)
        noises = noises[None] / math.sqrt(2 * friction * h)
        assert reached[:, 0] == pytest.approx(end + h * reached[:, 1] if word == "EA" else 0 * noises[0] + there)
        line = reached[1] - reached[0]
        share = (at["aim"] - reached[0]) @ line / (line @ line)
        assert at["nearest"] == pytest.approx(reached[0] + share * line, rel=1e-9)
    for noise in noises:
        assert abs(noise.mean()) < 4.5 / math.sqrt(300) and abs((noise**2).mean() - 1) < 4.5 * math.sqrt(2 / 300)


# -- Appendix C --------------------------------------------------------------------------------------------------


def gaussian_log_density(path, slopes, first, last, sizes, friction) -> float:
    """log density of OBABO's positions and last momentum in one coordinate, given its start and the slopes met.

    Given the slopes all is linear in the noises, two a step: so it is Gaussian, with the mean that no noise gives, and
    the covariance of the images of unit noises.
    """

    def ends(m, pushes, noises):
        x, places = path[0] if pushes else 0.0, []
        for step, h in enumerate(sizes):
            a = math.exp(-friction * h)
            m = math.sqrt(a) * m + math.sqrt(1 - a) * noises[2 * step] - pushes * h / 2 * slopes[step]
            x = x + h * m
            m = math.sqrt(a) * (m - pushes * h / 2 * slopes[step + 1]) + math.sqrt(1 - a) * noises[2 * step + 1]
            places.append(x)
        return np.array([*places, m])

    images = np.stack([ends(0.0, 0, noises) for noises in np.eye(2 * len(sizes))], 1)
    mean = ends(first, 1, np.zeros(2 * len(sizes)))
    return float(multivariate_normal.logpdf([*path[1:], last], mean, images @ images.T))


def test_the_density_of_a_path_is_that_of_a_gaussian_of_all_its_places():
    """Of many steps, chains and coordinates, each step and chain with a size of its own."""
    rng, steps, chains, dim, friction = np.random.default_rng(7), 4, 3, 2, 0.9
    path, slopes = rng.normal(size=(2, steps + 1, chains, dim))
    first, last = rng.normal(size=(2, chains, dim))
    sizes = rng.uniform(0.2, 1.3, size=(steps, chains, 1))
    given = [torch.tensor(value) for value in (path, slopes, first, last, sizes, np.exp(-friction * sizes))]
    found = ggmc.path_log_density(*given)
    for chain in range(chains):
        parts = [
            gaussian_log_density(
                path[:, chain, j], slopes[:, chain, j], first[chain, j], last[chain, j], sizes[:, chain, 0], friction
            )
            for j in range(dim)
        ]
        assert float(found[chain]) == pytest.approx(sum(parts), rel=1e-9)


def trajectory(x, m, sizes, friction, noises, errors):
    """OBABO of one chain with a step size a step: its positions, the slopes met, its last momentum and ΣΔK.

    Two O's in a row are one, of the product of what they keep.
    """
    decays = [math.exp(-friction * h) for h in sizes]
    keeps = [math.sqrt(one * other) for one, other in zip([1, *decays], [*decays, 1], strict=True)]
    path, slopes, work = [x], [slope(x) + errors[0]], 0.0

    def kicked(m, h):
        after = m - h / 2 * slopes[-1]
        return after, (after @ after - m @ m) / 2

    for step, h in enumerate(sizes):
        m = keeps[step] * m + math.sqrt(1 - keeps[step] ** 2) * noises[step]
        m, change = kicked(m, h)
        path.append(path[-1] + h * m)
        slopes.append(slope(path[-1]) + errors[step + 1])
        m, other = kicked(m, h)
        work += change + other
    return path, slopes, keeps[-1] * m + math.sqrt(1 - keeps[-1] ** 2) * noises[-1], work


SCHEDULES = {
    0: ("constant", "forward", [1, 1, 1]),
    1: ("palindromic_cosine", "forward", [0.5, 1, 0.5]),  # (1 − cos 2π(i + ½)/3)/2 is ¼, 1, ¼ of ℓ
    2: ("cosine", "forward", [1, math.sqrt(3) / 2, 1 / 2]),  # (1 + cos πi/3)/2 is 1, ¾, ¼ of ℓ
    3: ("cosine", "random", [1, math.sqrt(3) / 2, 1 / 2]),
}


@pytest.mark.parametrize("point", SCHEDULES)
def test_a_row_of_appendix_c_has_the_log_ratios_of_trajectories_gone_by_hand(point):
    """Five chains of two coordinates at each of two step sizes, three steps; their path densities as Gaussians."""
    chains, friction, random = 10, 1.3, Random(5)
    config = composed("ggmc_appendix_c", point) | {"chains": chains, "friction": friction, "seed": 5}
    config |= {"step_size": [0.15, 0.4], "steps_per_cycle": 3, "model": {"name": "quartic", "dim": 2, "noise": 1.0}}
    run, pieces = MadeRun(config=config), build(config)
    name, direction, factors = SCHEDULES[point]
    begun = start(pieces.kernel, pieces.potential, pieces.initial(), pieces.random, range(chains))
    noises = random.normal("noise", 0, 5, chains, 2, F64)[1:].numpy()
    errors = random.normal("minibatch", 0, 4, chains, 2, F64).numpy()
    backwards = random.uniform("direction", 0, chains)[:, 0].numpy() < 0.5
    if direction == "random":
        assert 0 < backwards[:5].sum() < 5 and 0 < backwards[5:].sum() < 5
    rows = list(ggmc._schedules(run))
    assert [row["step_size"] for row in rows] == [0.15, 0.4]
    for number, row in enumerate(rows):
        ratios, accepts, jumps = [], [], []
        for chain in range(5 * number, 5 * number + 5):
            turned = direction == "random" and backwards[chain]
            sizes = [row["step_size"] * factor for factor in (factors[::-1] if turned else factors)]
            back = sizes[::-1] if direction == "random" else sizes
            x, m = begun.theta[chain].numpy(), begun.momentum[chain].numpy()
            path, slopes, last, work = trajectory(x, m, sizes, friction, noises[:, chain], errors[:, chain])
            change = (energy(path[-1]) - energy(x)).sum()
            ratio = -change - (last @ last - m @ m) / 2
            for j in range(2):
                way, met = np.array(path)[:, j], np.array(slopes)[:, j]
                ratio += gaussian_log_density(way[::-1], met[::-1], -last[j], -m[j], back, friction)
                ratio -= gaussian_log_density(way, met, m[j], last[j], sizes, friction)
            ratios.append(ratio)
            jumps.append(((path[-1] - x) ** 2).sum())
            if (name, direction) == ("cosine", "forward"):
                accepts.append(0.0)
            else:
                assert -change - work == pytest.approx(ratio, abs=1e-9)
                accepts.append(min(1.0, math.exp(-change - work)))
        moved = [accept * jump for accept, jump in zip(accepts, jumps, strict=True)]
        worst, second, middle, fourth, best = sorted(ratios)
        settings = {"schedule": name, "direction": direction, "steps": 3, "draws": 5}
        assert {key: row[key] for key in settings} == settings
        expected = {
            "time": row["step_size"] * sum(factors),
            "accept": sum(accepts) / 5,
            "accept_error": error_of(accepts),
            "jump": sum(moved) / 5,
            "jump_error": error_of(moved),
            "true_low": worst + 0.2 * (second - worst),  # 0.05 · 4 places up
            "true_median": middle,
            "true_high": best - 0.2 * (best - fourth),
            "true_largest": best,
            "true_accept": sum(min(1.0, math.exp(ratio)) for ratio in ratios) / 5,
        }
        assert {key: row[key] for key in expected} == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert row["off"] == math.inf if (name, direction) == ("cosine", "forward") else row["off"] < 1e-10


def error_of(values: list[float]) -> float:
    """The standard error of the mean of five values."""
    mean = sum(values) / 5
    return math.sqrt(sum((value - mean) ** 2 for value in values) / 4 / 5)
