"""What the tables of Neal's talk compute: chains run again, straight stretches, efficiencies."""

import math
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from made import MadeRun
from scipy.stats import chi2
from test_tables_statistics import sokal

import sgmcmc
from experiments.build import build
from experiments.config import compose
from experiments.grid import configurations
from experiments.tables import neal

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
from draw import load, read, scripts  # noqa: E402
from figures import neal_clustering as clustering  # noqa: E402
from figures import neal_hierarchical as hierarchical  # noqa: E402
from figures import neal_mixed as mixed  # noqa: E402
from figures import neal_trajectories as trajectories  # noqa: E402


@pytest.mark.thorough
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
    """Of 1,200,000, whose reach is known to a sixth of a per cent."""
    p, accepted = 0.3, np.random.default_rng(5).random(1_200_000) > 0.3
    assert neal.reach(accepted) == pytest.approx(math.sqrt((1 - p) * (2 - p) / p), rel=0.01)


def test_his_patterns_are_simulated():
    for row, said in zip(neal._patterns([]), (8, 16), strict=True):
        assert row["formula"] == pytest.approx(said)
        assert abs(row["simulated"] - said) < 4.5 * row["simulated_error"]


@pytest.mark.thorough
def test_efficiency_is_that_of_an_autoregression():
    """τ of 320 chains is known to half a per cent; its error is of ten groups (t with 9 degrees of freedom: 4e-6)."""
    noise = torch.from_numpy(np.random.default_rng(1).standard_normal((4000, 320, 2)))
    draws = noise.clone()
    for step in range(1, len(draws)):
        draws[step] = 0.8 * draws[step - 1] + 0.6 * noise[step]
    row = neal._efficiency("x", draws, 5)
    assert row["tau_x"] == pytest.approx(9 * 5, rel=0.05)
    assert abs(row["ess_x"] - 1000 / 45) < 10 * row["ess_x_error"]
    assert math.isnan(neal._efficiency("x", torch.zeros(40, 2, 1), 1)["ess_x"])


def _figures():
    return [load(script) for script in scripts() if script.stem.startswith("neal_")]


@pytest.mark.thorough
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
    return [
        {"sampler": sampler, **dict(zip(columns, row, strict=True)), "ess_x_error": 0.1, "chains": 9} for row in rows
    ]


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


@pytest.mark.parametrize(
    ("number", "verdict"), [(1, "agrees"), (12, "not decided by this run: 3.3 errors apart, 4.0 would")]
)
def test_the_limit_of_a_row_is_of_all_that_are_judged(number, verdict):
    """1.60 ± .18, of 18 degrees of freedom at the most."""
    rows = _points(hierarchical.MINE, [(0.1, 1, 0.9, 8)]) + _points("hmc", [(0.1, 5, math.nan, 5)])
    part = pd.DataFrame(rows).assign(chains=90)
    part["ess_x_error"] = 0.08 * part.ess_x
    row = hierarchical.against(part, hierarchical.MINE, ["ess_x"], "x", number=number)
    assert row[2].startswith("1.60 ± 0.18 ") and row[3].startswith(verdict)


@pytest.mark.parametrize("figure", [hierarchical, mixed], ids=lambda figure: figure.__name__)
def test_no_row_that_is_judged_is_left_out_of_the_limit(figure):
    (table,) = read((figure.__name__.removeprefix("figures."),), ROOT / "results" / "quick" / "tables")
    assert [row[1] for row in figure.compare(table)].count("more") == figure.JUDGED


def test_the_least_of_some_columns_has_its_own_error():
    row = {"ess_x": 3.0, "ess_x_error": 0.3, "ess_y": 2.0, "ess_y_error": 0.5}
    part = pd.DataFrame([row, row | {"ess_x": 1.0}, row | {"ess_y": math.nan}])
    found = hierarchical.least(part, ["ess_x", "ess_y"])
    assert found[["ess_least", "ess_least_error"]].to_numpy().tolist() == [[2.0, 0.5], [1.0, 0.3]]
    assert hierarchical.least(part[2:], ["ess_x", "ess_y"]).empty


@pytest.mark.parametrize(
    ("size", "steps", "near"),
    [(0.055, 20, True), (0.055, 10, False), (0.05, 20, False), (0.04, 10, True), (0.04, 5, False), (0.06, 9, False)],
)
def test_at_a_resonance_the_stiff_direction_is_where_it_was_or_mirrored(size, steps, near):
    """Whose curvature is the larger eigenvalue of the precision of (u, v); at .06 no step is stable."""
    weight = 0.04**-2
    stiff = np.linalg.eigvalsh([[1 + weight, -weight], [-weight, weight]])[-1]
    assert stiff == pytest.approx(mixed.STIFF, abs=0.005)
    turn = 1 - stiff * size**2 / 2
    step = np.array([[turn, size], [-stiff * size * (1 + turn) / 2, turn]])
    assert (abs(abs(np.linalg.matrix_power(step, steps)[0, 0]) - 1) < 0.05) == near
    assert mixed.resonant(pd.DataFrame({"step_size": [size], "steps": [steps]})).tolist() == [near]


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


@pytest.mark.parametrize(
    ("tau", "word"), [(5.0, "not comparable: each update"), (5.25, "not comparable: each update"), (50.0, "agrees")]
)
def test_a_gradient_after_a_gibbs_update_may_count(tau, word):
    """Whether a variance is renewed by each update does not depend on it."""
    rows = [
        {
            "sampler": sampler,
            "steps": steps,
            "alpha": alpha,
            "step_size": 0.1,
            "evaluations": 1 + 1 / steps,
            "chains": 9,
        }
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


# -- numbers of single rows, of draws that are made here ----------------------------------------------------------


def staying(rng, accepted):
    """Draws [decisions + 1, chains, 2] that move where [decisions, chains] says so, at times in one coordinate only."""
    steps = rng.normal(size=(*accepted.shape, 2)) * 0.3 + 0.1
    steps[::3, :, 1] = 0
    draws = np.cumsum(np.concatenate((np.zeros((1, accepted.shape[1], 2)), steps * accepted[..., None])), 0)
    return draws


def assert_efficiency(row, name, columns, gradients):
    """Of the mean over columns of τ, in gradients; the error is the jackknife's over ten groups of chains."""
    tau, chains = np.mean([sokal(one)[0] for one in columns]), columns[0].shape[1]
    assert 0 < tau < 20  # beyond that, only some of the draws would count for the error
    groups = np.array_split(range(chains), min(chains, 10))
    without = [np.mean([sokal(np.delete(one, group, 1))[0] for one in columns]) for group in groups]
    error = math.sqrt((len(groups) - 1) / len(groups) * sum((value - np.mean(without)) ** 2 for value in without))
    ess = 1000 / (tau * gradients)
    expected = (ess, ess * error / tau, tau * gradients)
    assert (row[f"ess_{name}"], row[f"ess_{name}_error"], row[f"tau_{name}"]) == pytest.approx(expected, rel=1e-6)


def autoregression(rng, keep, shape):
    """Standard normals [draws, …] of autocorrelation ``keep``."""
    noise = rng.normal(size=shape)
    for step in range(1, len(noise)):
        noise[step] = keep * noise[step - 1] + math.sqrt(1 - keep**2) * noise[step]
    return noise


@pytest.mark.parametrize(("number", "quoted"), [(0, 0.68), (3, 0.044), (9, 0.11)])
def test_the_rejection_rate_is_that_of_the_last_nine_tenths(number, quoted):
    """Of 30 transitions, whose draws show 29 decisions, the last 27; the others, all rejected, count nowhere."""
    rng = np.random.default_rng(4)
    accepted = rng.random((29, 7)) > 0.1 * np.arange(1, 8)
    accepted[:2] = False
    config = compose(["experiment=neal_rejection", f"point={number}", "chains=7", "cycles=30"])
    (row,) = neal._rejection(MadeRun(config=config, number=number, draws=torch.from_numpy(staying(rng, accepted))))
    rates = [np.mean([not accepted[decision, chain] for decision in range(2, 29)]) for chain in range(7)]
    mean = sum(rates) / 7
    sd = math.sqrt(sum((rate - mean) ** 2 for rate in rates) / 6)
    numbers = [row[name] for name in ("rejected", "single_chain_sd", "rejected_error", "quoted")]
    assert numbers == pytest.approx([mean, sd, sd / math.sqrt(7), quoted])
    least, second, *_, last, most = sorted(rates)  # between which 1/40 of all lies at .15 of the six steps
    ends = [least + 0.15 * (second - least), most - 0.15 * (most - last)]
    assert [row["single_chain_low"], row["single_chain_high"]] == pytest.approx(ends)
    assert (row["pairs"], row["transitions"], row["chains"]) == (config["model"]["pairs"], 30, 7)


@pytest.mark.parametrize(("pairs", "delta"), [(1, "null"), (3, "0.02")])
def test_a_row_of_clustering_is_counted_in_its_draws(pairs, delta):
    """124 decisions of 23 chains, so six blocks of 20, and ten groups of two or three chains for the error."""
    rng = np.random.default_rng(6)
    accepted = rng.random((124, 23)) > np.linspace(0.1, 0.5, 23)
    accepted[np.repeat(rng.random((31, 23)) < 0.1, 4, 0)] = False
    walk = autoregression(rng, 0.5, (125, 23, 2 * pairs))
    last = np.zeros(23, int)
    draws = np.empty_like(walk)
    for step in range(125):  # a rejected draw is the one before
        last = np.where(accepted[step - 1] | (step == 0), step, last)
        draws[step] = walk[last, np.arange(23)]
    name = "persistent_langevin" if delta == "null" else "nonreversible_langevin"
    words = ["model=gaussian_pairs", f"model.pairs={pairs}", f"sampler={name}", "sampler.alpha=0.9", "step_size=0.1"]
    config = compose([*words, "chains=23", "cycles=125", *([] if delta == "null" else [f"sampler.delta={delta}"])])
    (row,) = neal._clustering(MadeRun(config=config, draws=torch.from_numpy(draws)))

    def clusters(some):
        counts = np.array([[(~some[20 * k : 20 * k + 20, c]).sum() for k in range(6)] for c in range(some.shape[1])])
        p = counts.mean() / 20
        return counts.var(ddof=1) / (20 * p * (1 - p))

    def straight(decisions):
        runs = [len(run) for run in "".join("ar"[not one] for one in decisions).split("r")]
        return math.sqrt(sum(run**2 for run in runs) / len(decisions))

    rates, reaches = 1 - accepted.mean(0), np.array([straight(one) for one in accepted.T])
    sizes = np.cumsum([0, 3, 3, 3, *[2] * 7])
    groups = [accepted[:, begin:end] for begin, end in pairwise(sizes)]
    errors = [clusters(group) for group in groups]
    p = rates.mean()
    expected = {
        "rejected": p,
        "rejected_error": rates.std(ddof=1) / math.sqrt(23),
        "clustering": clusters(accepted),
        "clustering_error": np.std(errors, ddof=1) / math.sqrt(10),
        "reach": reaches.mean(),
        "reach_error": reaches.std(ddof=1) / math.sqrt(23),
        # one run of r acceptances with probability (1 − p)^r p for each rejection
        "reach_independent": math.sqrt(p * sum(r**2 * (1 - p) ** r * p for r in range(2000))),
    }
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert_efficiency(row, "x1", np.moveaxis(draws, 2, 0), 1)
    energy = sum(
        (x**2 + y**2 - 1.98 * x * y) / (2 * (1 - 0.99**2)) for x, y in np.moveaxis(draws, 2, 0).reshape(-1, 2, 125, 23)
    )
    assert_efficiency(row, "U", [energy], 1)
    assert (row["pairs"], row["alpha"], row["chains"], row["decisions"]) == (pairs, 0.9, 23, 125)
    assert row["delta"] == (None if delta == "null" else 0.02)


def test_without_rejections_there_is_no_reach_of_independent_ones():
    draws = torch.arange(60.0).view(30, 1, 2).expand(30, 3, 2)
    config = compose(["experiment=neal_clustering", "point=0", "chains=3", "cycles=30"])
    (row,) = neal._clustering(MadeRun(config=config, draws=draws))
    assert row["rejected"] == 0 and math.isnan(row["reach_independent"]) and math.isnan(row["clustering"])
    assert row["reach"] == pytest.approx(29 / math.sqrt(29))  # one run through all


def test_the_error_of_a_simulated_pattern_is_that_of_a_root_mean_square():
    """Of 4,000 distances that are nearly normal: their squares are χ² of one degree, of variance 2. The error of that
    from 4,000 of them is 3 % (excess kurtosis 12), half of it is the error's own; 4.5 times as much is allowed."""
    for row, (accepts, rejects, said) in zip(neal._patterns([]), ((4, 1, 8), (16, 4, 16)), strict=True):
        assert (row["accepts"], row["rejects"]) == (accepts, rejects)
        assert row["simulated_error"] == pytest.approx(said / math.sqrt(2 * 4000), rel=4.5 * math.sqrt(14 / 4000) / 2)


@pytest.mark.thorough
@pytest.mark.parametrize("acceptance", ["metropolis", "persistent_uniform"])
def test_u_is_what_a_picture_s_decision_is_made_by(acceptance):
    """Of a random walk in two dimensions all is in the row: it is accepted where u is below exp(U − U*). Under the
    persistent rule u goes on from u over that ratio where it was accepted."""
    words = ["model=gaussian_pairs", "model.pairs=1", "sampler=random_walk", f"sampler.acceptance={acceptance}"]
    words += ["step_size=0.2", "cycles=300", "chains=1", "init=exact"]
    words += ["sampler.delta=0.07"] if acceptance == "persistent_uniform" else []
    config = compose(words)
    precision = np.linalg.inv([[1, 0.99], [0.99, 1]])

    def energy(x):
        return x @ precision @ x / 2

    def blur(x):  # what three decimals of both coordinates can change
        return 5e-4 * np.abs(precision @ x).sum() + 5e-4**2 * precision[0, 0] * 2

    start, *rows = neal._picture(MadeRun(config=config, number=5))
    assert [row["transition"] for row in (start, *rows)] == list(range(301))
    assert all((row["panel"], row["pairs"], row["quoted"]) == (5, 1, 0.71) for row in (start, *rows))
    assert set(start) == {"panel", "pairs", "quoted", "transition", "x1", "x2"}
    exact = build(config).initial()[0]
    assert (start["x1"], start["x2"]) == pytest.approx(exact.tolist(), abs=5.01e-4)
    here, decided, before = np.array([start["x1"], start["x2"]]), 0, None
    for row in rows:
        end = np.array([row["proposed1"], row["proposed2"]])
        low, high = (energy(here) - energy(end) + sign * (blur(here) + blur(end)) for sign in (-1, 1))
        if row["u"] < math.exp(low) - 1e-4 or row["u"] > math.exp(high) + 1e-4:
            assert row["accepted"] == (row["u"] < math.exp(low))
            decided += 1
        if before is not None and acceptance == "persistent_uniform":  # |v| ± δ, turned back at 0 and 1
            one, slack = before
            ways = [one + 0.07, abs(one - 0.07), 2 - one - 0.07]
            assert min(abs(row["u"] - way) for way in ways) < slack + 1e-4
        if row["accepted"]:
            u = row["u"] / math.exp((low + high) / 2)
            before, here = (u, u * (math.exp((high - low) / 2) - 1) + 1e-4 / math.exp(low)), end
        else:
            before = (row["u"], 1e-4)
    assert decided > 250
    assert 0.1 < np.mean([row["accepted"] for row in rows]) < 0.9


@pytest.mark.parametrize(("number", "quoted"), [(9, True), (10, False)])
def test_the_eleventh_picture_is_not_the_talk_s(number, quoted):
    config = compose(["experiment=neal_pictures", f"point={number}", "cycles=1"])
    rows = list(neal._picture(MadeRun(config=config, number=number)))
    assert [row.get("quoted") for row in rows] == [0.11 if quoted else None] * 2


def test_the_drawn_trajectories_are_leapfrog_s():
    """Six of HMC's picture in 2 dimensions: x₊ − 2x + x₋ = −h²∇U(x) inside of each, and each begins where the one
    before ended, or began if that was rejected. Positions have three decimals."""
    configs = {point: compose(["experiment=neal_pictures", f"point={point}"]) for point in (0, 1, 6)}
    runs = [MadeRun(config=config, number=point) for point, config in configs.items()]
    table = pd.DataFrame(neal._trajectories(runs))
    assert list(table.columns) == ["trajectory", "accepted", "transition", "x1", "x2"]
    replayed = list(neal.replay(configs[1]))[1:7]
    decided = [row["accepted"] for row in replayed]
    assert set(decided) == {0, 1}
    precision, h = np.linalg.inv([[1, 0.99], [0.99, 1]]), 0.16
    slack = 4 * 5e-4 + h**2 * 5e-4 * np.abs(precision).sum(1).max()
    begin = build(configs[1]).initial()[0].numpy()
    assert list(table.trajectory.unique()) == [1, 2, 3, 4, 5, 6]
    for (_, part), row in zip(table.groupby("trajectory"), replayed, strict=True):
        path = part[["x1", "x2"]].to_numpy()
        assert list(part.transition) == list(range(11)) and set(part.accepted) == {row["accepted"]}
        assert np.abs(path[0] - begin).max() < 6e-4
        bend = path[2:] - 2 * path[1:-1] + path[:-2]
        assert np.abs(bend + h**2 * path[1:-1] @ precision).max() < slack < np.abs(bend).max() / 10
        assert list(path[-1]) == [row["proposed1"], row["proposed2"]]
        begin = path[-1] if row["accepted"] else path[0]


def test_the_green_points_are_of_the_target():
    """500 of a pair, of variances 3.98 and .02 along (1, 1) and (1, −1): sums of squares are χ² (false alarm: 1e-5)."""
    points = np.array([[row["x1"], row["x2"]] for row in neal._iid([])])
    assert points.shape == (500, 2)
    for direction, variance in (([1, 1], 3.98), ([1, -1], 0.02)):
        low, high = chi2.ppf([2.5e-6, 1 - 2.5e-6], 500)
        assert low < ((points @ direction) ** 2).sum() / variance < high


def test_a_row_of_the_hierarchical_regression_is_of_its_own_chains():
    """Two step sizes of three chains; of three coefficients the slowest is the second of the one, of the other the
    third, which stands still, so that its τ is not known. A leapfrog step more often updated costs a gradient more."""
    rng = np.random.default_rng(8)
    shape = (90, 3)
    first = [autoregression(rng, keep, shape) for keep in (0.1, 0.75, 0.4, 0.5, 0.2)]
    second = [autoregression(rng, keep, shape) for keep in (0.3, 0.6, 0.0, 0.2, 0.6)]
    second[2][:] = 1.5
    draws = np.concatenate([np.stack(one, -1) + np.arange(5) for one in (first, second)], 1)
    repeated = np.zeros((90, 6), bool)
    repeated[10:20, 1] = repeated[50:55, 4] = True  # all coefficients rejected while the variances go on
    for step in range(1, 90):
        draws[step, repeated[step], :3] = draws[step - 1, repeated[step], :3]
    words = ["experiment=neal_hierarchical", "point=2", "model.features=3", "model.size=17", "chains=6"]
    config = compose([*words, "step_size=[0.1,0.3]", "burn_in=11", "steps_per_cycle=4"])
    rows = list(neal._hierarchical(MadeRun(config=config, draws=torch.from_numpy(draws))))
    for row, size, group, lost in zip(rows, (0.1, 0.3), (slice(0, 3), slice(3, 6)), (10, 5), strict=True):
        part = draws[:, group]
        assert (row["size"], row["features"], row["step_size"], row["chains"], row["steps"]) == (17, 3, size, 3, 4)
        assert (row["gradients"], row["burn_in"]) == (90 * 4, 11 * 4)
        assert (row["alpha"], row["delta"], row["every"], row["evaluations"]) == (None, None, 1, 1.25)
        assert row["accepted"] == pytest.approx(1 - lost / (89 * 3))
        means = [sum(part[..., place].ravel()) / 270 for place in (3, 4)]
        assert [row["mean_log_tau2"], row["mean_log_sigma2"]] == pytest.approx(means)
        assert row["largest_log_tau2"] == part[..., 3].max()
        assert_efficiency(row, "tau2", [part[..., 3]], 4)
        assert_efficiency(row, "sigma2", [part[..., 4]], 4)
    assert_efficiency(rows[0], "coefficient", [draws[:, :3, 1]], 4)
    assert all(math.isnan(rows[1][f"{name}_coefficient"]) for name in ("ess", "tau"))


def test_a_row_of_the_mixed_target_is_of_its_own_chains():
    """u, the number of ones, and a single w (the mean over them of τ), by step size; every tenth step is one Gibbs
    update's, so a gradient more in ten."""
    rng = np.random.default_rng(9)
    walks = [autoregression(rng, keep, (100, 6)) for keep in (0.6, 0.5, 0.7, 0.3, 0.1)]
    draws = np.stack([walks[0], walks[1], *(1.0 * (one > 0.4) for one in walks[2:])], -1)
    draws[:, 3:, 0] *= 2
    for step, chains in ((5, [0, 1]), (6, [0]), (7, [4])):
        draws[step, chains, :2] = draws[step - 1, chains, :2]
        draws[step, chains, 2:] = 1 - draws[step - 1, chains, 2:]  # what Gibbs updates do decides nothing
    words = ["experiment=neal_mixed", "point=9", "model.binary=3", "chains=6", "step_size=[0.1,0.3]", "cycles=100"]
    rows = list(neal._mixed(MadeRun(config=compose(words), draws=torch.from_numpy(draws))))
    for row, size, group, lost in zip(rows, (0.1, 0.3), (slice(0, 3), slice(3, 6)), (3, 1), strict=True):
        part = draws[:, group]
        assert (row["binary"], row["step_size"], row["chains"], row["gradients"]) == (3, size, 3, 100)
        assert (row["steps"], row["alpha"], row["delta"], row["every"]) == (1, 0.99, 0.01, 10)
        assert row["evaluations"] == pytest.approx(1.1)
        assert row["accepted"] == pytest.approx(1 - lost / (99 * 3))
        assert_efficiency(row, "u", [part[..., 0]], 1)
        assert_efficiency(row, "k", [part[..., 2] + part[..., 3] + part[..., 4]], 1)
        assert_efficiency(row, "w", [part[..., place] for place in (2, 3, 4)], 1)
        squares = [np.mean([u**2 for u in part[:, chain, 0]]) for chain in range(3)]
        assert row["mean_u2"] == pytest.approx(sum(squares) / 3)
        assert row["mean_u2_error"] == pytest.approx(np.std(squares) / math.sqrt(2))
        assert row["mean_k"] == pytest.approx(part[..., 2:].sum() / 300)


def test_efficiencies_of_several_leapfrog_steps_are_a_thousand_leapfrog_steps():
    """As of one chain whose draws are 30 steps apart."""
    draws = autoregression(np.random.default_rng(3), 0.4, (60, 8, 5))
    words = ["experiment=neal_mixed", "point=2", "model.binary=3", "chains=8", "step_size=0.05"]
    (row,) = neal._mixed(MadeRun(config=compose(words), draws=torch.from_numpy(draws)))
    assert row["gradients"] == 60 * 30 and row["evaluations"] == pytest.approx(31 / 30)
    assert_efficiency(row, "u", [draws[..., 0]], 30)
    assert_efficiency(row, "w", [draws[..., place] for place in (2, 3, 4)], 30)


def test_what_is_quoted_of_neal_s_rejection_rates_is_as_on_his_slides():
    said = {  # pictures in 2 dimensions, in 20
        "random_walk": (0.68, 0.71), "hmc": (0.22, 0.22), "langevin": (0.37, 0.39),
        "persistent_langevin": (0.044, 0.035), "nonreversible_langevin": (0.13, 0.11),
    }  # fmt: skip
    for config, quoted in zip(configurations("neal_rejection"), neal.QUOTED_REJECTION, strict=True):
        assert quoted == said[config["sampler"]["name"]][config["model"]["pairs"] == 10]
