"""What the tables of Neal's talk compute: chains run again, straight stretches, efficiencies."""

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import sgmcmc
from experiments.build import build
from experiments.config import compose
from experiments.tables import neal

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
from draw import load, read, scripts  # noqa: E402
from figures import neal_clustering as clustering  # noqa: E402
from figures import neal_hierarchical as hierarchical  # noqa: E402
from figures import neal_trajectories as trajectories  # noqa: E402


@pytest.mark.parametrize("sampler", ["hmc", "random_walk", "persistent_langevin", "nonreversible_langevin"])
def test_a_picture_s_chain_runs_again_with_the_same_numbers(sampler):
    words = f"model=gaussian_pairs model.pairs=2 sampler={sampler} step_size=0.15 cycles=60 chains=1 init=exact"
    config = compose([*words.split(), *(["steps_per_cycle=5"] if sampler == "hmc" else [])])
    rows = list(neal.replay(config))
    pieces = build(config)
    stored = sgmcmc.run(pieces.kernel, pieces.potential, pieces.plan, pieces.random, 1, pieces.initial).draws
    assert [(row["x1"], row["x2"]) for row in rows[1:]] == [
        (round(float(x1), 3), round(float(x2), 3)) for x1, x2 in stored[:, 0, :2]
    ]
    assert {row["accepted"] for row in rows[1:]} == {0, 1}
    for before, row in zip(rows[:-1], rows[1:], strict=True):
        where = (row["x1"], row["x2"])
        assert where == ((row["proposed1"], row["proposed2"]) if row["accepted"] else (before["x1"], before["x2"]))
        assert 0 <= row["u"] <= 1


def test_u_moves_by_delta_where_it_is_kept_and_is_compared_with_the_ratio():
    words = "model=gaussian_pairs sampler=nonreversible_langevin step_size=0.12 sampler.delta=0.1 cycles=300 chains=1"
    rows = list(neal.replay(compose([*words.split(), "init=exact"])))[1:]
    after_rejection = [(a["u"], b["u"]) for a, b in zip(rows[:-1], rows[1:], strict=True) if not a["accepted"]]
    assert len(after_rejection) > 10
    for one, two in after_rejection:  # u goes on by δ, turning at 0 and 1
        assert min(abs(two - one - 0.1), abs(one - two - 0.1), abs(2 - one - two - 0.1), abs(one + two - 0.1)) < 3e-4
    lost = np.array([not row["accepted"] for row in rows])
    u = np.array([row["u"] for row in rows])
    assert u[lost].mean() > u[~lost].mean() + 0.2


@pytest.mark.parametrize(("accepts", "rejects", "distance"), [(4, 1, 8), (16, 4, 16)])
def test_reach_of_his_patterns(accepts, rejects, distance):
    decisions = np.array(([True] * accepts + [False] * rejects) * 40)
    assert neal.reach(decisions) * math.sqrt(20) == pytest.approx(distance)


def test_reach_of_independent_decisions():
    p, accepted = 0.3, np.random.default_rng(5).random(400_000) > 0.3
    assert neal.reach(accepted) == pytest.approx(math.sqrt((1 - p) * (2 - p) / p), rel=0.01)


def test_his_patterns_are_simulated():
    for row, said in zip(neal._patterns([]), (8, 16), strict=True):
        assert row["formula"] == pytest.approx(said)
        assert abs(row["simulated"] - said) < 4.5 * row["simulated_error"]


def test_efficiency_is_that_of_an_autoregression():
    noise = torch.from_numpy(np.random.default_rng(1).standard_normal((4000, 50, 2)))
    draws = noise.clone()
    for step in range(1, len(draws)):
        draws[step] = 0.8 * draws[step - 1] + 0.6 * noise[step]
    row = neal._efficiency("x", draws, 5)
    assert row["tau_x"] == pytest.approx(9 * 5, rel=0.05)
    assert abs(row["ess_x"] - 1000 / 45) < 4 * row["ess_x_error"]
    assert math.isnan(neal._efficiency("x", torch.zeros(40, 2, 1), 1)["ess_x"])


def _figures():
    return [load(script) for script in scripts() if script.stem.startswith("neal_")]


@pytest.mark.parametrize("figure", _figures(), ids=lambda figure: figure.__name__)
def test_comparisons_survive_missing_runs(figure):
    """Each sampler's rows, each picture's, all rows of the first table in place of a diverged run's."""
    tables = read(figure.TABLES, ROOT / "results" / "quick" / "tables")
    first, *others = tables
    whole = list(figure.compare(*tables))
    gone = [first.sampler == name for name in first.sampler.unique()] if "sampler" in first else []
    gone += [first.panel == panel for panel in first.panel.unique()] if "panel" in first else []
    gone += [first.index == row for row in first.index] if len(first) < 30 else []
    gone.append(first.index >= 0)
    for lost in gone:
        left = first.copy()
        if "status" in left:
            left.loc[lost, "status"] = "diverged"
            left.loc[lost, [name for name in left if name not in ("sampler", "status")]] = np.nan
        else:
            left = left[~lost]
        rows = list(figure.compare(left, *others))
        assert all(len(row) == 4 and row[3].split()[0].strip(":;,") in ("agrees", "differs", "not") for row in rows)
        assert len(rows) <= len(whole) + len(first)


def _points(sampler, rows):
    columns = ["step_size", "steps", "alpha", "ess_x"]
    return [{"sampler": sampler, **dict(zip(columns, row, strict=True)), "ess_x_error": 0.1} for row in rows]


@pytest.mark.parametrize(
    ("hmc", "verdict"),
    [
        ([(0.1, 5, math.nan, 5), (0.2, 10, math.nan, 8), (0.3, 20, math.nan, 5), (0.2, 20, math.nan, 4)], "agrees"),
        ([(0.1, 5, math.nan, 5), (0.2, 10, math.nan, 6), (0.3, 20, math.nan, 8)], "not decided: HMC"),
        ([(0.1, 5, math.nan, 15), (0.2, 10, math.nan, 10)], "not decided: non-reversible"),
        ([(0.1, 5, math.nan, 9.95), (0.2, 10, math.nan, 8)], "not decided by this run"),
    ],
)
def test_a_best_point_at_the_edge_of_the_grid_decides_nothing(hmc, verdict):
    mine = _points("nonreversible_langevin", [(0.1, 1, 0.9, 10), (0.2, 1, 0.9, 9)])
    part = pd.DataFrame(mine + _points("hmc", hmc))
    row = hierarchical.against(part, "nonreversible_langevin", ["ess_x"], "x")
    assert row[1] == "more" and row[3].startswith(verdict)
    assert hierarchical.against(part, "persistent_langevin", ["ess_x"], "x")[1] == "no claim"


def test_a_delta_that_is_itself_the_best_is_compared_with_the_others():
    common = {"status": "done", "pairs": 10, "alpha": 0.98, "chains": 100, "rejected": 0.15, "rejected_error": 0.01}
    common |= {"clustering": 5.0, "clustering_error": 0.1, "reach": 5.0, "reach_error": 0.1}
    rows = [
        common | {"delta": delta, "ess_x1": ess, "ess_U": ess, "ess_x1_error": 0.1 * ess, "ess_U_error": 0.1 * ess}
        for delta, ess in ((math.nan, 5.0), (0.01, 10.0), (0.02, 20.0), (0.05, 8.0))
    ]
    patterns = pd.DataFrame(neal._patterns([]))
    *_, (_, _, here, verdict) = clustering.compare(pd.DataFrame(rows), patterns)
    assert "2.00 ± 0.28 times the best other's (δ = 0.01) for x1" in here and "4.0 (x1), 4.0 (U)" in here
    assert verdict.startswith("agrees")


@pytest.mark.parametrize(("tau", "word"), [(5.0, "not comparable: each update"), (50.0, "agrees")])
def test_a_gradient_after_a_gibbs_update_may_count(tau, word):
    """Whether a variance is renewed by each update does not depend on it."""
    rows = [
        {"sampler": sampler, "steps": steps, "alpha": alpha, "step_size": 0.1, "evaluations": 1 + 1 / steps}
        | {"tau_tau2": steps * tau / 5.0, "ess_tau2": 1000 / (steps * tau / 5.0), "ess_tau2_error": 0.1}
        for sampler, steps, alpha in ((hierarchical.MINE, 1, 0.9), ("hmc", 5, math.nan))
    ]
    row = hierarchical.against(hierarchical.counted(pd.DataFrame(rows)), hierarchical.MINE, ["ess_tau2"], "x")
    assert row[2].startswith("3.00 ±") and row[3].startswith(word)  # 5 times, of 2 and 6/5 gradients a step


def test_a_walk_that_turns_at_random_does_not_go_along_the_ridge():
    steps = np.random.default_rng(3).choice([-0.1, 0.1], (6, 10))
    for moves, verdict in ((steps, "differs"), (np.abs(steps), "agrees")):
        along = np.concatenate((np.zeros((6, 1)), moves.cumsum(1)), 1).ravel()
        paths = pd.DataFrame({"trajectory": np.repeat(range(6), 11), "x1": along, "x2": along, "accepted": 1})
        assert [row[3] for row in trajectories.compare(paths, None)] == [verdict]
