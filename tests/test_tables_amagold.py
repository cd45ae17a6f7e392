"""The computations behind the tables of the AMAGOLD paper, on draws of known law."""

import json
import math
import sys
from pathlib import Path
from statistics import stdev
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from made import MadeRun
from safetensors.torch import save_file
from scipy.stats import binom, multivariate_normal, norm
from scipy.stats import t as student

from experiments.tables import amagold, amagold_networks
from experiments.tables.common import Run, of_each
from experiments.tables.statistics import (
    PLANES,
    WELL,
    autocorrelation_time,
    counts_of,
    errors_of,
    exact_p,
    plane_masses,
    quarters,
    shared_bias,
    well_masses,
)
from sgmcmc import formats
from sgmcmc.data import Dataset
from sgmcmc.diagnostics import symmetric_kl, symmetric_kl_floor
from sgmcmc.errors import DataError, StoreError
from sgmcmc.potentials.analytic import DoubleWell, Mixture
from sgmcmc.random import Random

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import amagold_start  # noqa: E402
import draw  # noqa: E402
import verdicts  # noqa: E402

FIGURES = [script for script in draw.scripts() if script.stem.startswith("amagold") and "table1" not in script.stem]


def exact_draws(target, chains, draws):
    """Independent draws ``[draws, chains, dim]``."""
    theta = target.exact(chains * draws, Random(5))
    return theta.view(draws, chains, -1).float()


def test_independent_draws_are_at_the_floor():
    """The mean J of 400 chains is known to 1.6 %, that of ten groups of them to 7 %."""
    counts = counts_of(exact_draws(DoubleWell(), 400, 1000), WELL)
    js = amagold.divergences(counts, well_masses(), 1000)
    groups = [amagold.divergences(part, well_masses(), 1000) for part in np.split(counts, 10)]
    assert js["J_one"] == pytest.approx(js["floor_one"], rel=0.1)
    assert np.mean([part["J"] for part in groups]) == pytest.approx(groups[0]["floor"], rel=0.4)
    assert js["J"] < js["J_one"] / 200
    assert js["J_one_low"] < js["J_one"] < js["J_one_high"]
    assert abs(js["bias"]) < 5.5 * js["bias_error"] < 0.0003


def test_the_shared_bias_is_what_stays_of_j():
    """Of draws that are 2 % too wide, each five times over, whose masses are known: to leading order that is J."""
    edges, masses = torch.linspace(-6, 6, 121, dtype=torch.float64), well_masses()
    wide = DoubleWell().cumulative(edges / 1.02).diff().numpy()
    stays, large = float(symmetric_kl(wide, masses, 1)), masses > 1e-5  # ten of the draws
    leading = ((wide - masses)[large] ** 2 / masses[large]).sum()
    draws = 1.02 * exact_draws(DoubleWell(), 200, 1000).repeat_interleave(5, 0)
    js = amagold.divergences(counts_of(draws, WELL), masses, 5000)
    assert js["J_one"] > 10 * stays
    assert js["bias"] == pytest.approx(leading, abs=5.5 * js["bias_error"]) and js["bias_error"] < stays / 10
    assert leading == pytest.approx(stays, rel=0.2)


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["banana", "mixture"])
def test_a_plane_s_grid_holds_its_mass_and_its_floor_is_that_of_independent_draws(model):
    masses = plane_masses(model)
    assert 0.998 < masses.sum() < 1
    draws = exact_draws(PLANES[model][0], 10, 2000)
    (*_, (number, js)) = amagold.growth(draws, model)
    assert number == 2000
    assert js["J_one"] == pytest.approx(js["floor_one"], rel=0.1)
    assert js["J"] == pytest.approx(js["floor"], rel=0.1)


def test_growth_counts_the_first_draws():
    draws = exact_draws(PLANES["banana"][0], 3, 70)
    rows = dict(amagold.growth(draws, "banana"))
    assert list(rows) == [10, 20, 50, 70]
    alone = dict(amagold.growth(draws[:20], "banana"))
    assert rows[20] == pytest.approx(alone[20], rel=0, abs=0, nan_ok=True)


def test_verdicts_of_few_chains_are_by_welch_s_t():
    """Three chains against three: 4 degrees of freedom where their errors are alike, 2 where one has all of it."""
    one, other = (SimpleNamespace(mse=mse, mse_error=0.1, chains=3) for mse in (1.0, 0.5))
    assert verdicts.welch(one, other, "mse") == pytest.approx(4.604, abs=1e-3)
    assert verdicts.welch(one, SimpleNamespace(mse_error=1e-6, chains=3), "mse") == pytest.approx(9.925, abs=1e-3)
    fig4 = draw.load(ROOT / "scripts" / "figures" / "amagold_fig4.py")
    for row in (one, other):
        row.log_mse, row.log_mse_error = row.mse, 0.1
    assert fig4.farther(one, other).startswith("not resolved: 3.5")
    one.log_mse = 1.2
    assert fig4.farther(one, other) == "agrees"


def test_of_two_errors_that_are_scatter_the_larger_is_told():
    """A hundred times the other, of three chains each: by its own standard error it would not be told from zero."""
    rng, told = np.random.default_rng(3), 0
    fig4 = draw.load(ROOT / "scripts" / "figures" / "amagold_fig4.py")
    for _ in range(200):
        rows = [errors_of(scale * rng.normal(size=(3, 15)), np.zeros(15)) for scale in (1.0, 0.1)]
        told += fig4.farther(*(SimpleNamespace(**row, chains=3) for row in rows)) == "agrees"
    assert told > 180


def test_seconds_that_nobody_took_decide_nothing():
    assert verdicts.timed(math.nan, ("agrees", "differs")).startswith("not comparable")
    assert verdicts.not_much_slower(math.nan).startswith("not comparable")
    for judge, ratios in (
        (lambda ratio: verdicts.timed(ratio, ("agrees", "differs")), (0.5, 1, 2)),
        (lambda ratio: verdicts.timed(ratio, ("agrees", "differs")), (0.66, 0.67, 1.51)),
        (lambda ratio: verdicts.timed(ratio, ("agrees", "differs")), (0.66, 1.49, 1.51)),
        (verdicts.not_much_slower, (0.9, 2, 3)),
        (verdicts.not_much_slower, (0.99, 1.01, 2.26)),  # as far on either side of 1.5
        (verdicts.not_much_slower, (0.99, 2.24, 2.26)),
    ):
        assert [judge(ratio).split(":")[0] for ratio in ratios] == ["agrees", "not decided", "differs"]


def test_the_largest_of_many_differences_and_those_of_few_chains_have_larger_limits():
    assert verdicts.limit() == verdicts.LIMIT == 3
    assert verdicts.limit(10) == pytest.approx(3.291, abs=1e-3)  # the normal's 1/2,000 on either side
    assert verdicts.limit(chains=4) == pytest.approx(5.841, abs=1e-3)


def test_checkpoints_end_with_the_last_draw():
    assert amagold.checkpoints(100) == [10, 20, 50, 100]
    assert amagold.checkpoints(4500) == [10, 20, 50, 100, 200, 500, 1000, 2000, 4500]
    assert amagold.checkpoints(7) == [7]


def ended(path, status, **settings):
    """A run that has ended with this status, at cycle 7, chains 1 and 2 frozen."""
    says = {"cycles": 7, "frozen": [1, 2], "seconds": 1.0}
    (path / "status.json").write_text(json.dumps({**says, "sha256": formats.signature(says)}))
    return Run(0, {"sampler": {"name": "sghmc"}, "chains": 4, **settings}, status, path)


def test_frozen_chains_are_counted_at_each_step_size(tmp_path):
    run = ended(tmp_path, "done", step_size=[0.1, 0.2])
    assert list(run.groups()) == [(0.1, range(2)), (0.2, range(2, 4))]
    assert list(run.alive_groups()) == [
        (0.1, [0], {"chains": 1, "frozen": 1}),
        (0.2, [3], {"chains": 1, "frozen": 1}),
    ]


def test_a_run_that_diverged_has_its_settings_and_the_cycle(tmp_path):
    run = ended(tmp_path, "diverged", step_size=0.1)
    says = {"sampler": "sghmc", "status": "diverged", "size": 0.1, "why": "diverged at cycle 7"}
    rows = {"rows": lambda run: iter([{"J": 1.0}]), "settings": lambda run: {"size": run.config["step_size"]}}
    assert of_each(**rows)([run]) == [says]
    assert of_each(**rows, diverged=True)([run]) == [{**says, "J": 1.0, "seconds": 1.0}]


def test_a_network_that_diverged_before_its_first_draw_has_its_last_finite_error(tmp_path):
    model = {"b": 0.01, "name": "sghmc"}
    run = ended(tmp_path, "diverged", lr=0.001, seed=0, log_every=1, data={"name": "mnist", "train_size": None})
    run.config["sampler"] |= model
    run.config["warm_start"] = {"init": None}
    lines = "cycle,test_accuracy,accept_prob,kinetic_temperature", "1,0.9,0,1", "2,0.25,0,1", "3,nan,0,nan"
    (tmp_path / "metrics.csv").write_text("\n".join(lines) + "\n")
    (row,) = amagold_networks.TABLES["amagold_table2"][1]([run])
    assert (row["quoted"], row["error"], row["draws"], row["cycles"]) == (3.77, 75.0, 0, 7)
    (row,) = amagold_networks.TABLES["amagold_fig5"][1]([run])
    assert row["draws"] == 0 and row["why"] == "diverged at cycle 7" and "share" not in row


def test_a_chain_begins_with_the_error_after_its_first_trajectory(tmp_path):
    sampler = {"name": "amagold", "b": 0.01}
    run = ended(tmp_path, "done", lr=0.0005, seed=3, data={"name": "mnist", "train_size": None})
    run.config.update(sampler=sampler, warm_start={"init": "torch"})
    lines = "cycle,test_accuracy,accepted,accept_prob", "1,0.96,0,.25", "2,0.97,1,.75"
    (tmp_path / "metrics.csv").write_text("\n".join(lines) + "\n")
    (row,) = amagold_networks.TABLES["amagold_table2_start"][1]([run])
    found = [row[key] for key in ("start", "seed", "quoted", "cycles", "first_accepted", "accept_prob")]
    assert found == ["torch", 3, 3.63, 7, 0, 0.5] and (row["first_error"], row["error"]) == pytest.approx((4, 3))


def lose(table, sampler, how):
    """A table some of whose rows say that a sampler's runs diverged, are not there, or lost chains."""
    if "sampler" not in table:
        return table
    lost = table.sampler == sampler
    if how == "missing":
        return table[~lost]
    table = table.astype({"status": object})
    settings = ["sampler", "status", "model", "word", "tuned_to", "data", "b", "lr", "start", "seed", "train_size"]
    if how == "diverged":
        table.loc[lost, "status"] = how
        table["why"] = np.where(lost, "diverged at cycle 7", "")
        others = [column for column in table if column not in [*settings, "quoted", "quoted_error", "why"]]
        table[others] = table[others].astype(float).where(~lost)
        known = [column for column in settings if column in table]
        return pd.concat([table[~lost], table[lost].drop_duplicates(known)])
    if "frozen" in table:
        table.loc[lost, "frozen"] = 1 if how == "some" else table.chains
        if how == "all":
            table.loc[lost, "chains"] = 0
            keep = [*settings, "step_size", "chains", "frozen"]
            others = [column for column in table if column not in keep]
            table[others] = table[others].astype(float).where(~lost)
    return table


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["diverged", "missing", "some", "all"])
@pytest.mark.parametrize("sampler", ["sghmc", "amagold", "l2mc"])
@pytest.mark.parametrize("script", FIGURES, ids=lambda script: script.stem)
def test_a_figure_copes_with_a_sampler_that_diverged(script, sampler, how):
    figure = draw.load(script)
    tables = draw.read(figure.TABLES, ROOT / "results" / "quick" / "tables")
    if not any("sampler" in table and sampler in set(table.sampler) for table in tables):
        pytest.skip("has no such sampler")
    tables = [lose(table, sampler, how) for table in tables]
    rows = list(figure.compare(*tables))
    assert rows and all(len(row) == 4 and row[3].split()[0].strip(":") in ("agrees", "differs", "not") for row in rows)
    if sampler == "amagold" and (how == "diverged" or how == "some" and any("frozen" in table for table in tables)):
        assert any("diverged" in " ".join(row) or row[3].startswith("not comparable: a fifth") for row in rows)
    if not (how == "missing" and script.stem == "amagold_fig8"):
        draw.pyplot.close(figure.draw(*tables))


def table2(error: float, quoted: float, status: str = "done", seeds: int = 1) -> pd.DataFrame:
    common = {"sampler": "sghmc", "b": 5e-6, "lr": 0.001, "train_size": 60000, "status": status, "why": "diverged at 9"}
    common |= {"start": "torch", "single_error_sd": 0.3, "accept_prob": 0.0, "quoted": quoted, "quoted_error": 0.4}
    errors = [error + 0.1 * seed for seed in range(seeds)]
    return pd.DataFrame([common | {"seed": seed, "error": one, "single_error": one} for seed, one in enumerate(errors)])


@pytest.mark.parametrize(
    ("table", "verdict"),
    [
        (table2(89.0, 89.7), ["agrees (one seed)"] * 2),
        (table2(87.0, 89.7), ["not decided (one seed): it differs by -2.7, 5.4 errors of single draws"] * 2),
        (table2(math.nan, 89.7, "diverged"), ["agrees: it diverges, as theirs does"]),
        (table2(math.nan, 3.7, "diverged"), ["differs: diverged at 9"]),
        (table2(89.7, 89.7, seeds=3), ["agrees: beyond 4 a difference would be seen"] * 2),  # 9.92 of √(.16 + .01/3)
        (
            table2(80.0, 89.7, seeds=3).assign(single_error=[89.7, 89.8, 89.9]),
            ["differs by -9.6, 23.8 errors", "agrees: beyond 4 a difference would be seen"],
        ),
    ],
)
def test_both_readings_of_table_2_are_judged(table, verdict):
    """The mean prediction and single draws."""
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_table2.py")
    start, *rows = figure.compare(table)
    assert start[2:] == ("PyTorch's", "agrees") and [row[3] for row in rows] == verdict


@pytest.mark.parametrize("table", [table2(3.2, 3.7).assign(start="he"), table2(3.2, 3.7).drop(columns="start")])
def test_a_table_of_chains_from_other_weights_says_so(table):
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_table2.py")
    assert next(figure.compare(table))[2:] == ("He's", "differs")


def test_amagold_s_seeds_are_judged_by_what_one_more_would_give():
    """Five seeds, .1 apart: sd √.025, of one more times √1.2; a paper's error of .4. Two settings share their seeds."""
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_table2.py")
    one = table2(3.0, 3.2 + 9, seeds=5).assign(sampler="amagold", test_accuracy_at_start=0.97)
    _, mean, single, *_, together = figure.compare(pd.concat([one, one.assign(b=0.01)]))
    for row, paper in ((mean, 0.4), (single, 0.4), (together, 0.4 / 2**0.5)):
        assert row[3] == f"differs by -9, {9 / np.hypot((0.025 * 1.2) ** 0.5, paper):.1f} errors"
    # A setting without the last two seeds: the spread of means over both is that of the three that both have.
    *_, together = figure.compare(pd.concat([one, one[:3].assign(b=0.01)]))
    assert together[3] == f"differs by -9.1, {9.05 / np.hypot((0.01 * 4 / 3) ** 0.5, 0.4 / 2**0.5):.1f} errors"


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        ([3.2, 3.3, 3.4, 3.3] * 5, "differs by -0.33, 4.4 errors"),  # sd √(.1/19) = .0725, times √1.05
        ([3.0, 3.3, 3.6, 3.3] * 5, "agrees: beyond 0.67 a difference would be seen"),  # 3 of √(.9/19 · 1.05)
        ([3.2, 3.2, 3.3], "not resolved: it differs by -0.4, 6.0 errors, and of so few seeds 9.9 would decide"),
        ([3.5, 3.6, 3.7], "agrees: beyond 1.1 a difference would be seen"),  # 9.92 of .1 √(4/3)
        ([3.2], "not comparable: fewer than two seeds"),
        ([], "not comparable: fewer than two seeds"),
    ],
)
def test_the_authors_start_is_compared_with_what_one_more_seed_would_give(errors, verdict):
    """And the entry, of 50 times as many trajectories, with nothing."""
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_table2_start.py")
    rows = [{"status": "done", "error": error, "first_error": error + 0.4, "seed": 0} for error in errors]
    rows += [{"status": "diverged", "why": "diverged at 9", "seed": 1}]
    table = pd.DataFrame(rows, columns=["status", "why", "seed", "error", "first_error"])
    common = {"start": "torch", "train_size": 60000, "quoted": 3.63, "quoted_error": 0.04}
    table = table.assign(**common, cycles=50.0, first_accepted=0.0, accept_prob=0.1)
    lost, first, (_, paper, _, found), *more = figure.compare(table)
    assert lost[3] == "not comparable: diverged at 9" and first[3] == verdict
    assert found == ("not comparable: after 50 of 2,500 trajectories" if len(errors) > 1 else verdict)
    assert paper == ("3.63 ± 0.04 (of all 2,500)" if len(errors) > 1 else "")
    if len(errors) > 1:
        assert first[2].startswith(f"{np.mean(errors) + 0.4:.2f} ± ") and more[0][2].startswith("-0.400 ± 0.000")
    assert [row[3] for row in more[-2:]] == ["not comparable: fewer than two seeds"] * 2  # none from He's weights


def test_amagold_s_settings_are_judged_together():
    """Each within its errors, all low by as much: .3 of an error of .5 each, .125 of 16 of them."""
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_table2.py")
    many = [table2(3.0, 3.4).assign(sampler="amagold", b=b, test_accuracy_at_start=0.97) for b in range(16)]
    _, *each, (_, _, here, verdict) = figure.compare(pd.concat(many))
    assert "between settings" not in str(each)  # there are none of SGHMC
    assert {row[3] for row in each} == {"agrees (one seed)"}
    assert here.startswith("-0.40 ± 0.12") and verdict.startswith(
        "not decided (one seed): it differs by -0.4, 3.2 errors"
    )


@pytest.mark.parametrize(
    ("amagold", "sghmc", "verdict"),
    [((3.2, 3.3), (3.7, 90.0), "agrees"), ((3.2, 4.3), (3.7, 90.0), "differs"), ((3.2, 3.3), (3.7, 3.8), "differs")],
)
def test_the_error_is_to_depend_on_the_setting_for_sghmc_alone(amagold, sghmc, verdict):
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_table2.py")
    parts = [table2(error, 3.65).assign(sampler="amagold", b=error, test_accuracy_at_start=0.97) for error in amagold]
    parts += [table2(error, 3.7).assign(b=error) for error in sghmc]
    (row,) = [row for row in figure.compare(pd.concat(parts)) if "between settings" in row[0]]
    assert row[3] == verdict


@pytest.mark.parametrize(
    ("amagold", "verdict"),
    [
        (2.0, "agrees"),
        (1.02, "not resolved: 0.4 standard errors apart"),
        (0.5, "differs: -14.0 standard errors apart"),
    ],
)
def test_who_is_faster_is_told_while_j_is_far_above_the_bias(amagold, verdict):
    """J of 1/n beside so many times that; the last length, at SGHMC's bias, does not count."""
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_fig7.py")
    rows = [
        {
            "sampler": name,
            "draws_a_chain": n,
            "chains": 5,
            "seconds_a_draw": 1e-3,
            "J": j,
            "J_error": 0.035 * j,
            "bias": b,
        }
        for name, times, b in (("sghmc", 1, 1e-3), ("amagold", amagold, 0))
        for n, j in ((10, 0.1 * times), (100, 0.01 * times), (1000, 0.001))
    ]
    *_, here, found = figure.sooner("", pd.DataFrame(rows))
    assert "50 to 500 draws" in here and found == verdict
    assert figure.sooner("", pd.DataFrame(rows).assign(bias=1.0))[3].startswith("not comparable")


@pytest.mark.parametrize(
    ("bias", "title"),
    [
        ("agrees", "In 50 chains together SGHMC's J levels off at its bias"),
        ("agrees: by the bias; J itself has not got there yet", "SGHMC has a bias"),
        ("not resolved", "J over seconds"),
    ],
)
def test_figure_7_s_title_claims_what_its_verdicts_bear(bias, title, monkeypatch):
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_fig7.py")
    rows = [
        ("", "", "1.5", "not decided: between 1 and 2.25 times"),
        ("", "", "J", bias),
        ("", "", "", "not resolved"),
    ] * 2
    monkeypatch.setattr(figure, "compare", lambda *tables: iter(rows))
    assert figure.title(None, pd.DataFrame({"chains": [50.0]})).startswith(title)


def tuned(accepted: float, j: float, j_error: float) -> list[str]:
    """The verdicts on chains that were tuned, with this acceptance and J."""
    common = {"status": "done", "word": "ABOBA", "chains": 32, "frozen": 0, "accepted_error": 0.001, "tuned_to": np.nan}
    rows = [
        {"sampler": "amagold", "step_size": 0.1, "J": 1e-3, "J_error": 1e-4},
        {"sampler": "sghmc", "word": "EA", "step_size": 0.25, "J": 5e-2, "J_error": 1e-3},
        {"sampler": "amagold", "step_size": 0.13, "J": j, "J_error": j_error, "accepted": accepted, "tuned_to": 0.85},
    ]
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_fig1.py")
    return [row[3] for row in figure.compare(pd.DataFrame([common | row for row in rows]), None)][-2:]


def test_a_tuned_chain_is_near_the_best_fixed_one_and_far_from_sghmc():
    assert tuned(0.857, 1.1e-3, 1e-4) == ["agrees", "agrees"]  # 85 % is rounded
    assert tuned(0.862, 4e-3, 1e-4) == ["differs: 21.2 standard errors above", "differs by +0.012"]
    assert tuned(0.85, 4e-2, 2e-2)[0] == "not resolved: its error reaches to SGHMC's J at .25"


def test_the_draws_to_a_j_are_those_of_a_power_law():
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_fig3.py")
    part = pd.DataFrame({"J": [1.0, 0.1, 0.01], "draws_a_chain": [10, 100, 1000], "chains": 5})
    assert figure.draws_to(part, 0.05) == pytest.approx(1000)
    assert math.isnan(figure.draws_to(part, 0.001))


@pytest.mark.parametrize("word", ["EA", "AE"])
def test_sghmc_s_temperature_at_small_steps(word):
    """Of an oscillator whose momentum is fresh every ten steps: θ' = a θ + b r, of variance b²/(1 − a²)."""
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_fig1.py")
    h, state = 1e-4, np.eye(2)  # columns: θ and r as they begin
    for letter in word * figure.TRAJECTORY:
        state = np.array([[1, h], [0, 1]] if letter == "A" else [[1, 0], [-h, 1]]) @ state
    (a, b), _ = state
    assert b**2 / (1 - a**2) == pytest.approx(figure.SMALL_STEPS[word], rel=1e-5)
    p, q = figure.tempered(pd.Series(np.exp(-(np.linspace(-12, 12, 241) ** 2) / 2)), word)
    x = np.linspace(-12, 12, 241)
    assert p.sum() == pytest.approx(1) and q @ x**2 == pytest.approx(figure.SMALL_STEPS[word])


@pytest.mark.parametrize(
    ("biases", "verdict"),
    [
        ([1, 2, 3, 4], "agrees"),
        ([3, 1, 2, 9], "differs: it falls from 0.1 to 0.2 by 14 errors, and rises beyond 0.2"),
        ([3.9, 4, 4.1, 3.9], "not resolved"),
    ],
)
def test_a_bias_increases_over_the_whole_range(biases, verdict):
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_fig2.py")
    rows = [
        SimpleNamespace(step_size=0.1 + 0.1 * place, bias=float(bias), bias_error=0.1, chains=50)
        for place, bias in enumerate(biases)
    ]
    assert figure.increases(*rows)[1].startswith(verdict)


def entropies(means: dict) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Figure 5's tables, of mean entropies ``{(sampler, b, lr): those of its seeds}``: curves of which so large a share
    has entropy 2, and the others none."""
    rows, errors = [], []
    for (sampler, b, lr), ones in means.items():
        for seed, mean in enumerate(ones):
            run = {"sampler": sampler, "b": b, "lr": lr, "seed": seed, "train_size": 60000, "status": "done"}
            low = 1 - mean / 2
            rows += [{**run, "entropy": at, "share": low} for at in (0, 0.1, 2)]
            wrong = 90.0 if b < 1e-5 and sampler == "sghmc" else 2.0
            errors.append({**run, "accept_prob": 0.05, "error": wrong, "kinetic_temperature": 10.0 ** (6 + 3 * seed)})
    return pd.DataFrame(rows), pd.DataFrame(errors)


FIVE = {("amagold", b, lr): (1.1, 1.2, 1.3, 1.2, 1.1) for b in (0.01, 5e-6) for lr in (5e-4, 1e-3)}
FIVE |= {("sghmc", 0.01, 5e-4): (0.7, 0.7, 0.8, 0.8, 0.6), ("sghmc", 0.01, 1e-3): (0.6, 0.6, 0.7, 0.9, 0.6)}
FIVE |= {("sghmc", 5e-6, 5e-4): (1.0, 0.8, 1.9, 1.2, 1.4), ("sghmc", 5e-6, 1e-3): (0.2, 0.1, 0.3, 0.3, 0.1)}


def figure_5(means: dict):
    """Its rows, by the setting that they begin with, and its title."""
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_fig5.py")
    rows = list(figure.compare(*entropies(means)))
    return {row[0].partition(":")[0]: row for row in rows}, figure.title(rows)


def test_figure_5_judges_mean_entropies_seed_by_seed():
    """The share of letters that are all but certain is beside them, and judges nothing."""
    found, title = figure_5(FIVE)
    gaps = np.subtract(FIVE["sghmc", 0.01, 5e-4], FIVE["amagold", 0.01, 5e-4])
    t = gaps.mean() / (gaps.std(ddof=1) / 5**0.5)
    assert found["SGHMC, b = 0.01, lr = 0.0005"][2:] == (
        f"{gaps.mean():+.3f} ± {gaps.mean() / t:.3f} nats over 5 seeds, p = {4 * 2 * student.sf(abs(t), 4):.2g} by "
        "Bonferroni over 4 (0.72 ± 0.04 against 1.18 ± 0.04); share of letters with an entropy of at most 0.1: 0.640 ± "
        "0.019 against 0.410 ± 0.019; test error on digits 2.0 %",
        "differs: more confident than AMAGOLD",
    )
    assert found["SGHMC, b = 0.01, lr = 0.001"][3] == "agrees"
    low, high = found["SGHMC, b = 5e-06, lr = 0.0005"], found["SGHMC, b = 5e-06, lr = 0.001"]
    gaps = np.subtract(FIVE["sghmc", 5e-6, 5e-4], FIVE["amagold", 0.01, 5e-4])
    seen = verdicts.limit(4, 5) * gaps.std(ddof=1) / 5**0.5
    assert (
        low[3]
        == f"not resolved: beyond {seen:.2g} nats a difference would be seen; of a network that is at chance on digits"
    )
    assert high[3] == "agrees: of a network that is at chance on digits"
    assert high[2].endswith("digits 90.0 %, kinetic temperature 1e+12 (median; 1e+06 to 1e+18)")
    assert title == "SGHMC is more confident of letters than AMAGOLD at b = 0.01"
    found, title = figure_5(FIVE | {("sghmc", 5e-6, 1e-3): FIVE["sghmc", 5e-6, 5e-4]})
    assert title.endswith("at b = 0.01;\nat b = 5e-06 no difference of mean entropies is seen")
    found, title = figure_5(FIVE | {("sghmc", 0.01, 1e-3): (2.0, 2.0, 2.1, 2.0, 1.9)})
    assert found["SGHMC, b = 0.01, lr = 0.001"][3] == "differs: less confident than AMAGOLD"
    assert title == "Predictive entropy on letters, networks trained on digits"
    found, title = figure_5(FIVE | {("amagold", 5e-6, 5e-4): (1.5,) * 5})
    assert found["largest distance between AMAGOLD's curves"][3] == "differs by 0.16" and title.startswith("Predictive")


def test_figure_5_says_of_one_seed_that_it_is_one_and_of_none_nothing():
    found, title = figure_5({key: ones[:1] for key, ones in FIVE.items() if key != ("sghmc", 5e-6, 5e-4)})
    assert found["SGHMC, b = 0.01, lr = 0.0005"][3] == "differs: more confident than AMAGOLD (one seed)"
    assert found["SGHMC, b = 0.01, lr = 0.001"][3] == "agrees (one seed)"
    assert found["SGHMC, b = 5e-06, lr = 0.001"][3] == "agrees (one seed): of a network that is at chance on digits"
    assert found["SGHMC, b = 5e-06, lr = 0.0005"][3] == "not comparable: no finished run"
    assert title.startswith("Predictive")


def test_figure_5_compares_amagold_s_settings_over_the_seeds_that_all_have():
    """Seeds are farther apart than settings may be; a seed that one setting alone has moves nothing."""
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_fig5.py")
    middles = {(0.01, 0): 0.30, (0.01, 1): 0.50, (0.01, 2): 0.90, (5e-6, 0): 0.33, (5e-6, 1): 0.51}
    rows, errors = [], []
    for (b, seed), middle in middles.items():
        run = {"sampler": "amagold", "b": b, "lr": 5e-4, "seed": seed, "train_size": 60000, "status": "done"}
        rows += [{**run, "entropy": at, "share": value} for at, value in ((0, 0), (0.1, 0.05), (1, middle), (2.3, 1))]
        errors.append({**run, "accept_prob": 0.05, "error": 2.0, "kinetic_temperature": 1.0})
    (row, *_) = figure.compare(pd.DataFrame(rows), pd.DataFrame(errors))
    assert row[2].startswith(
        "0.020 (coincide: under 0.1); mean entropies within 0.022 nats of each other, of the 2 seeds"
    )
    assert "whose curves are 0.190 apart; the chains accept" in row[2] and row[3] == "agrees"


def test_figure_5_pairs_sghmc_with_amagold_over_the_seeds_that_all_of_its_settings_have():
    """A seed that one setting of AMAGOLD lacks has no mean over settings, and is in no pair."""
    found, _ = figure_5(FIVE | {("amagold", 5e-6, 1e-3): FIVE["amagold", 5e-6, 1e-3][:3]})
    assert found["SGHMC, b = 0.01, lr = 0.0005"][2].startswith("-0.467 ± 0.033 nats over 3 seeds")
    found, _ = figure_5(FIVE | {("sghmc", 0.01, 1e-3): (0.6, 0.6)})
    assert found["SGHMC, b = 0.01, lr = 0.001"][2].startswith("-0.550 ± 0.050 nats over 2 seeds")


@pytest.mark.parametrize(
    ("small", "large", "verdict"),
    [
        ((0.3,), (0.1,), ("-0.200 nats", "agrees (one seed)")),
        ((0.1,), (0.3,), ("+0.200 nats", "differs (one seed)")),
        ((0.2, 0.31, 0.39, 0.5), (0.1, 0.2, 0.3, 0.4), ("-0.100 ± 0.004 nats over 4 seeds, p = 0.00015", "agrees")),
        (
            (0.1, 0.2, 0.3, 0.4),
            (0.2, 0.1, 0.4, 0.4),
            (
                "+0.025 ± 0.048 nats over 4 seeds, p = 0.64",
                "not resolved: beyond 0.28 nats a difference would be seen",  # 5.84 of them
            ),
        ),
        ((0.1, 0.2, 0.3, 0.4), (0.2, 0.31, 0.39, 0.5), ("+0.100 ± 0.004 nats over 4 seeds, p = 0.00015", "differs")),
        ((), (0.1,), ("", "not comparable: no seed has both")),
    ],
)
def test_figure_5_asks_whether_the_large_learning_rate_makes_sghmc_surer_seed_by_seed(small, large, verdict):
    """Of lower mean entropy."""
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_fig5.py")
    of = {
        ("sghmc", 0.01, lr, seed): one for lr, ones in ((5e-4, small), (1e-3, large)) for seed, one in enumerate(ones)
    }
    below, above = (figure.of_setting(pd.Series(of), 0.01, lr) for lr in (5e-4, 1e-3))
    assert figure.paired(above - below, 1, ("agrees", "differs")) == verdict
    found, _ = figure_5(FIVE)
    row = found["SGHMC, b = 0.01"]
    assert row[0].endswith("lr = 0.001 less that at 0.0005, seed by seed") and row[1] == "lower: a large step size"
    assert row[2].startswith("-0.040 ± 0.040 nats over 5 seeds, p = 0.37") and row[3].startswith("not resolved: beyond")


@pytest.mark.parametrize(
    ("accepted", "verdict"),
    [
        (0.5, "not decided: it drops, but is not low up to here; the paper does not tell its scaling"),
        (0.1, "agrees"),
        (0.9, "differs: it does not drop"),
    ],
)
def test_figure_8_calls_low_what_the_paper_calls_unreasonable(accepted, verdict):
    """Its title says that the acceptance drops where it does, whether or not it is low then."""
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_fig8.py")
    sizes = (1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3)
    table = pd.DataFrame({"sampler": "amagold", "status": "done", "step_size": sizes, "accepted": 0.9})
    table = table.assign(accepted_error=0.01, chains=8, frozen=0)
    table.loc[7, "accepted"] = accepted
    assert [row[3].split(":")[0] for row in figure.compare(table)] == ["agrees", verdict.split(":")[0]]
    assert list(figure.compare(table))[1][3].startswith(verdict)
    high = "Acceptance is high until the largest step size"
    assert figure.title(table) == ("Acceptance over the step size" if accepted == 0.9 else high)
    table.loc[4, "accepted"] = 0.8
    assert next(figure.compare(table))[2].startswith("at least 0.800, at 0.0001 (")


def test_the_authors_start_is_read_by_their_names_and_counted(tmp_path, monkeypatch, capsys):
    """Pixels of class 0 and 1; a dark image is of class 1 by the last bias, after every layer's ReLU."""
    images = torch.tensor([[255, 0], [0, 255], [255, 0], [100, 0], [0, 100]], dtype=torch.uint8).view(5, 1, 1, 2)
    test = Dataset(images, torch.tensor([0, 1, 1, 1, 0]), 2, mean=[0.5], std=[0.25])  # the third and the last are wrong
    weights = {
        f"fc{n}.{part}": torch.eye(2) if part == "weight" else torch.zeros(2)
        for n in (1, 2, 3)
        for part in ("weight", "bias")
    }
    weights["fc3.bias"][1] = 0.1
    assert amagold_start.wrong(weights, test) == 2
    torch.save(weights, tmp_path / "theirs.pt")
    monkeypatch.setattr(amagold_start, "ROOT", tmp_path)
    monkeypatch.setattr(amagold_start, "TABLE", tmp_path / "amagold_start.csv")
    monkeypatch.setattr(amagold_start, "load", lambda name: SimpleNamespace(test=test))
    assert amagold_start.main([str(tmp_path / "theirs.pt")]) == 0
    assert capsys.readouterr().out == "2 of 5 test images wrong; wrote amagold_start.csv\n"
    row = pd.read_csv(tmp_path / "amagold_start.csv").iloc[0]
    assert (row.file, row.images, row.wrong, len(row.sha256)) == ("theirs.pt", 5, 2, 64)
    assert draw.load(ROOT / "scripts" / "figures" / "amagold_table2_start.py").THEIRS == pytest.approx(4.03)

    def missing(name):
        raise DataError(f"the data set {name} is not there")

    (tmp_path / "text").write_text("no tensors")
    for name, said in (("nothing", "nothing: cannot be read as tensors (FileNotFoundError)"), ("text", "as tensors (")):
        with pytest.raises(SystemExit) as left:
            amagold_start.main([str(tmp_path / name)])
        assert left.value.code == 2 and said in capsys.readouterr().err
    monkeypatch.setattr(amagold_start, "load", missing)
    with pytest.raises(SystemExit) as left:
        amagold_start.main([str(tmp_path / "theirs.pt")])
    assert left.value.code == 2 and "the data set mnist is not there" in capsys.readouterr().err


# ---- rows, number by number, of draws that are made


def made(draws, metrics=None, frozen=(), **config) -> MadeRun:
    """A finished run of 33 seconds."""
    config = {"model": {"name": "banana"}, "tune": {"target": None}, "chains": draws.shape[1]} | config
    config["sampler"] = {"name": "amagold", "word": "ABOBA", "acceptance": "metropolis"} | config.get("sampler", {})
    return MadeRun(config=config, draws=draws, metrics=metrics, facts={"frozen": list(frozen), "seconds": 33.0})


def wandering(length: int, chains: int, dim: int = 1, seed: int = 8) -> torch.Tensor:
    """Draws of which about a third repeat the one before, of another scale and place in each chain."""
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=(length, chains, dim)) * (1 + 0.3 * np.arange(chains)[:, None]) + 0.2 * np.arange(dim)
    draws += 0.1 * np.arange(chains)[:, None] - 0.7
    for step in range(1, length):
        stays = rng.random(chains) < 1 / 3
        draws[step, stays] = draws[step - 1, stays]
    return torch.from_numpy(draws)


def j_of(counts, masses, draws: int, occupied_only: bool = False) -> float:
    """J of one histogram, in a loop over bins."""
    total = 0.0
    for count, p in zip(np.ravel(counts), np.ravel(masses), strict=True):
        p, q = max(float(p), 1e-12), max(count / draws, 1e-12)
        total += 0.0 if occupied_only and not count else (p - q) * math.log(p / q)
    return total


def error_of(values) -> float:
    return stdev(values) / len(values) ** 0.5


def left_out_error(without) -> float:
    """The jackknife's standard error."""
    mean = sum(without) / len(without)
    return math.sqrt((len(without) - 1) / len(without) * sum((value - mean) ** 2 for value in without))


@pytest.mark.parametrize("occupied_only", [False, True])
def test_divergences_bin_by_bin(occupied_only):
    """Three chains of six draws, two of them outside; the floors are sums over what counts a bin can have."""
    masses, draws = np.array([[0.4, 0.1], [0.2, 0.25]]), 6
    counts = np.array([[[2, 1], [0, 3]], [[4, 0], [1, 0]], [[1, 0], [2, 2]]])
    js = amagold.divergences(counts, masses, draws, occupied_only)
    low, middle, high = sorted(j_of(one, masses, draws, occupied_only) for one in counts)
    assert js["J_one"] == pytest.approx((low + middle + high) / 3)
    assert js["J_one_low"] == pytest.approx(low + 0.2 * (middle - low))  # the tenth part of the way to the highest
    assert js["J_one_high"] == pytest.approx(high - 0.2 * (high - middle))
    assert js["J"] == pytest.approx(j_of(counts.sum(0), masses, 18, occupied_only))
    pairs = ((1, 2), (0, 2), (0, 1))
    without = [j_of(counts[i] + counts[j], masses, 12, occupied_only) for i, j in pairs]
    assert js["J_error"] == pytest.approx(left_out_error(without))
    for name, number in (("floor_one", 6), ("floor", 18)):
        expected = 0.0
        for p in masses.ravel():
            for count in range(number + 1):
                expected += binom.pmf(count, number, p) * j_of([count], [p], number, occupied_only)
        assert js[name] == pytest.approx(expected, rel=1e-9)
    large = amagold.divergences(counts * 4, masses, 24)
    assert (large["bias"], large["bias_error"]) == shared_bias(counts * 4, masses, 24)
    two = amagold.divergences(counts[:2], masses, draws, occupied_only)
    alone = [j_of(counts[i], masses, draws, occupied_only) for i in (1, 0)]
    assert two["J_error"] == pytest.approx(abs(alone[0] - alone[1]) / 2)
    assert math.isnan(amagold.divergences(counts[:1], masses, draws)["J_error"])


def test_a_row_of_the_double_well_is_of_the_chains_that_are_left():
    draws = wandering(400, 6)
    draws[:, 1] = 50.0
    run = made(draws, frozen=[1, 3, 4, 5], step_size=[0.1, 0.2])
    row, dead = amagold._double_well(run)
    assert dead == {"step_size": 0.2, "chains": 0, "frozen": 3}
    assert (row["step_size"], row["chains"], row["frozen"], row["draws_a_chain"]) == (0.1, 2, 1, 400)
    chains = [draws[:, chain, 0].numpy() for chain in (0, 2)]
    centre = sum(map(sum, chains)) / 800
    means = [sum(chain) / 400 for chain in chains]
    squares = [sum((x - centre) ** 2 for x in chain) / 400 for chain in chains]
    assert row["mean"] == pytest.approx(sum(means) / 2) and row["mean_error"] == pytest.approx(error_of(means))
    assert row["variance"] == pytest.approx(np.var(np.concatenate(chains)))
    assert row["variance_error"] == pytest.approx(error_of(squares))
    rates = [sum(chain[i] != chain[i - 1] for i in range(1, 400)) / 399 for chain in chains]
    assert row["accepted"] == pytest.approx(sum(rates) / 2) and row["accepted_error"] == pytest.approx(error_of(rates))
    tau = autocorrelation_time(draws[:, [0, 2]])
    assert (row["autocorrelation_time"], row["autocorrelation_time_error"]) == tau and 1.5 < tau[0] < 3
    counts = [np.histogram(chain, 120, (-6, 6))[0] for chain in chains]
    assert row["J_one"] == pytest.approx(np.mean([j_of(count, well_masses(), 400) for count in counts]))
    assert row["J"] == pytest.approx(j_of(sum(counts), well_masses(), 800))
    single = j_of(counts[0], well_masses(), 400) - j_of(counts[1], well_masses(), 400)
    assert row["J_error"] == pytest.approx(abs(single) / 2)


def test_a_tuned_run_has_its_last_step_size_and_an_uncorrected_one_no_acceptance():
    sizes = {"step_size": np.array([0.01, 0.2, 0.13])}
    settings = {"step_size": [0.01], "tune": {"target": 0.85}, "sampler": {"acceptance": "monitor"}}
    run = made(wandering(50, 3), sizes, **settings)
    (row,) = amagold._double_well(run)
    assert row["step_size"] == 0.13 and "accepted" not in row
    assert amagold._word(run) == {"word": "ABOBA", "tuned_to": 0.85}
    assert {row["step_size"] for row in amagold._double_well_density(run)} == {0.13}


def test_densities_are_histograms_over_their_bins_width():
    """Of the sizes .01, .05, .15 and .25; the exact one is exp(-U)/Z with U's constants written out."""
    sizes = [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25]
    draws = wandering(40, 21)
    run = made(draws, frozen=[0, 6, 7, 8], step_size=sizes)
    rows = pd.DataFrame(amagold._double_well_density(run))
    assert list(rows.step_size.unique()) == [0.01, 0.15, 0.25]  # all chains of .05 are frozen
    first = rows[rows.step_size == 0.01]
    np.testing.assert_allclose(first.x, np.arange(-59.5, 60) / 10, atol=1e-12)
    one, other = (np.histogram(draws[:, chain, 0], 120, (-6, 6))[0] / 4 for chain in (1, 2))  # 40 draws, bins of .1
    np.testing.assert_allclose(first.one, one)
    np.testing.assert_allclose(first.low, np.minimum(one, other) + 0.1 * abs(one - other))
    np.testing.assert_allclose(first.high, np.maximum(one, other) - 0.1 * abs(one - other))
    x = first.x.to_numpy() + 0.05 * np.array([[-1], [0], [1]])
    density = np.exp(-((x**4 + x**3 - 13 * x**2 - x + 12) / 14 + 0.5)) / 28.0224
    mean = (density * [[1], [4], [1]]).sum(0) / 6  # of each bin, by Simpson's rule: in the tails it is not the centre's
    np.testing.assert_allclose(first.exact, mean, rtol=0.01, atol=1e-7)
    assert first.exact.sum() * 0.1 == pytest.approx(1, abs=1e-6)
    assert {0.05} <= {row["step_size"] for row in amagold._double_well_density(made(draws, step_size=sizes))}
    printed = made(draws, step_size=sizes, sampler={"word": "AE"})
    assert not list(amagold._double_well_density(printed))


def turning(length: int, chains: int) -> torch.Tensor:
    """Pairs whose coordinates are independent over time, and whose product is not: its sign turns now and then."""
    rng = np.random.default_rng(6)
    first = rng.choice((-1, 1), (length, chains)) * (1 + 0.2 * rng.normal(size=(length, chains)))
    turns = np.cumprod(np.where(rng.random((length, chains)) < 0.1, -1.0, 1.0), 0)
    return torch.from_numpy(np.stack((first, turns * first + 0.01 * rng.normal(size=first.shape)), -1))


def quarters_of(draws: torch.Tensor) -> np.ndarray:
    """What an axis of the mixture alone tells of draws."""
    return quarters(counts_of(draws, PLANES["mixture"][1]), plane_masses("mixture"), len(draws))


@pytest.mark.thorough
def test_a_row_of_the_plane_is_over_the_bins_with_draws_and_of_the_slowest_function():
    draws = turning(500, 4)
    run = made(draws, frozen=[0, 1, 3], step_size=[0.1, 0.2], model={"name": "mixture"})
    dead, row = amagold._planes(run)
    assert dead == {"step_size": 0.1, "chains": 0, "frozen": 2} and (row["chains"], row["frozen"]) == (1, 1)
    tau, error = autocorrelation_time(draws[:, 2:3].prod(-1, keepdim=True))
    assert tau > 5 > 2 > autocorrelation_time(draws[:, 2:3])[0]
    assert (row["autocorrelation_time"], row["autocorrelation_time_error"]) == pytest.approx((tau, error))
    counts = np.histogram2d(draws[:, 2, 0], draws[:, 2, 1], 100, ((-6, 6), (-6, 6)))[0]
    assert row["J"] == row["J_one"] == pytest.approx(j_of(counts, plane_masses("mixture"), 500, True))
    assert row["floor"] == row["floor_one"] == symmetric_kl_floor(plane_masses("mixture"), 500, True)
    assert row["accepted"] == 1 and row["draws_a_chain"] == 500
    assert math.isnan(row["exact_p"])  # of one chain
    exact = Mixture().exact(40_000, Random(8)).view(2_000, 20, 2)
    for shift, likely in ((0.0, True), (0.2, False)):
        (row,) = amagold._planes(made(exact + shift, step_size=0.1, model={"name": "mixture"}))
        assert (row["exact_p"] > 1e-5) == likely
    exact[..., 1] = exact[torch.randperm(2_000, generator=torch.Generator().manual_seed(1)), :, 1]
    (row,) = amagold._planes(made(exact, step_size=0.1, model={"name": "mixture"}))  # each axis alone is exact
    assert row["exact_p"] < 1e-9 and exact_p(quarters_of(exact)) > 1e-5
    for axis in (0, 1):
        one = Mixture().exact(40_000, Random(8)).view(2_000, 20, 2)
        one[..., axis] += 0.2
        assert exact_p(quarters_of(one)) < 1e-9
    plain = made(draws[:20], step_size=0.1, model={"name": "mixture"}, sampler={"acceptance": "monitor"})
    assert [("accepted" in row, row["chains"]) for row in amagold._planes(plain)] == [(False, 4)]
    assert amagold._model(plain) == {"model": "mixture"}


def test_growth_s_seconds_are_a_chain_s_share_of_a_cycle():
    """Of speeds 10, 20, …, 110 the fastest tenth begins at 100: cycles of 7 steps take .07 s, a chain's a sixth."""
    speeds = {"steps_per_second": np.random.default_rng(0).permutation(10.0 * np.arange(1, 12))}
    draws = turning(25, 6)
    settings = {"step_size": [0.05, 0.15], "steps_per_cycle": 7, "model": {"name": "mixture"}}
    rows = list(amagold._planes_growth(made(draws, speeds, frozen=[4], **settings)))
    assert [row["draws_a_chain"] for row in rows] == [10, 20, 25]
    for row in rows:
        assert (row["step_size"], row["chains"], row["frozen"]) == (0.15, 2, 1)
        assert row["seconds_a_draw"] == pytest.approx(0.07 / 6)
        first = draws[: row["draws_a_chain"], [3, 5]].reshape(-1, 2)
        counts = np.histogram2d(first[:, 0], first[:, 1], 100, ((-6, 6), (-6, 6)))[0]
        assert row["J"] == pytest.approx(j_of(counts, plane_masses("mixture"), len(first), True))
    (dead,) = amagold._planes_growth(made(draws, speeds, frozen=[3, 4, 5], **settings))
    assert dead == {"step_size": 0.15, "chains": 0, "frozen": 3, "seconds_a_draw": pytest.approx(0.07 / 6)}
    alone = made(draws[:, 3:4], speeds, **(settings | {"step_size": 0.15}))
    ((*_, row), single) = list(amagold._one_chain(alone)), draws[:, 3]
    counts = np.histogram2d(single[:, 0], single[:, 1], 100, ((-6, 6), (-6, 6)))[0]
    expected = {"step_size": 0.15, "draws": 25, "seconds_a_draw": 0.07}
    expected |= {"J": j_of(counts, plane_masses("mixture"), 25, True)}
    expected |= {"floor": symmetric_kl_floor(plane_masses("mixture"), 25, True)}
    assert row == pytest.approx(expected)


def test_the_pictures_densities_are_those_of_the_planes():
    """On 76 even places a side of each grid's box, the first coordinate's slowly."""
    runs = [MadeRun(config={"model": {"name": name}}) for name in ("mixture", "banana", "mixture")]
    rows = pd.DataFrame(amagold._planes_density(runs))
    assert list(rows.model.unique()) == ["mixture", "banana"] and len(rows) == 2 * 76 * 76
    for model, (low, high) in {"banana": ((-5, -8), (15, 8)), "mixture": ((-6, -6), (6, 6))}.items():
        part = rows[rows.model == model]
        places = [low[axis] + (high[axis] - low[axis]) * np.arange(76) / 75 for axis in (0, 1)]
        np.testing.assert_allclose(part.z1, np.repeat(places[0], 76))
        np.testing.assert_allclose(part.z2, np.tile(places[1], 76), atol=1e-12)
        if model == "banana":
            expected = norm.pdf(part.z1, part.z2**2 / 4) * norm.pdf(part.z2, scale=2)
        else:
            halves = [multivariate_normal.pdf(part[["z1", "z2"]], cov=[[2, c], [c, 2]]) for c in (1.8, -1.8)]
            expected = sum(halves) / 2
        np.testing.assert_allclose(part.density, expected, rtol=1e-9)


def logistic(draws=None, path=None, status="done", **settings) -> MadeRun:
    """A run of AMAGOLD on Heart: two of three step sizes are followed along the chain."""
    config = {"data": {"name": "heart", "train_size": None}, "keep": "all", "thin": 20, "chains": 6, "batch_size": 16}
    config |= {"step_size": [1e-3, 1e-4, 5e-4], "steps_per_cycle": 10, "views": None}
    config["sampler"] = {"name": "amagold", "word": "ABOBA", "gradient": "minibatch", "ends": None}
    config["sampler"] |= {"acceptance": "metropolis"} | settings.pop("sampler", {})
    metrics = {"steps_per_second": np.full(4, 400.0)}
    facts = {"frozen": [1], "seconds": 9.0, "cycles": 5}
    return MadeRun(config=config | settings, draws=draws, metrics=metrics, facts=facts, path=path, status=status)


@pytest.fixture
def grid(tmp_path):
    """A run for each purpose; the reference's two chains have the mean (.5, -1, 2.5), known to (.04, .09, 0) squared"""
    truth = torch.tensor([[0.3, -1.3, 2.5], [0.7, -0.7, 2.5]], dtype=torch.float64)
    save_file({"mean": truth}, tmp_path / "moments.safetensors")
    return [
        logistic(wandering(120, 6, 3)),
        logistic(path=tmp_path, sampler={"name": "hmc"}, keep="none", chains=100),
        logistic(chains=1),
        logistic(wandering(120, 6, 3), thin=1, step_size=[1e-3, 1e-4], chains=6),
    ]


def test_purposes_and_the_reference(grid):
    assert [amagold.purpose(run) for run in grid] == ["figure 4", "reference", "seconds", "figure 8"]
    assert list(amagold.of_purpose(grid, "seconds")) == [("heart", "amagold")]
    mean, own = amagold.reference(grid, "heart")
    np.testing.assert_allclose(mean, [0.5, -1.0, 2.5])
    assert own == pytest.approx((0.04 + 0.09 + 0) / 3)
    assert amagold.reference(grid, "australian") is None
    grid[1].facts["moments"] = "0" * 64
    with pytest.raises(StoreError, match="moments.safetensors is damaged; the run's command writes it again"):
        amagold.reference(grid, "heart")
    grid[1] = logistic(status="failed", sampler={"name": "hmc"}, keep="none")
    assert amagold.reference(grid, "heart") is None


def test_logistic_rows_are_errors_of_the_chains_means_over_the_thinned_length(grid):
    """Ten minibatches of 16 of 270 and U are 1.593 passes."""
    rows = amagold._logistic(grid)
    sizes = [(row["step_size"], row["chains"], row["frozen"]) for row in rows]
    assert sizes == [(1e-3, 1, 1), (1e-4, 2, 0), (5e-4, 2, 0)]
    draws, truth = grid[0].draws.numpy(), np.array([0.5, -1.0, 2.5])
    row = rows[1]
    away = [draws[:, chain].mean(0) - truth for chain in (2, 3)]
    each = [(one @ one) / 3 for one in away]
    own = 0.13 / 3
    tau, error = autocorrelation_time(grid[0].draws[:, 2:4])
    expected = {"passes_a_cycle": 160 / 270 + 1, "reference_mse": own, "seconds": 9.0, "cycles": 2400}
    expected |= {"mse": sum(each) / 2, "mse_error": error_of(each), "low": min(each), "high": max(each)}
    expected |= {"log_mse": math.log(each[0] * each[1]) / 2, "bias2": away[0] @ away[1] / 3 - own}
    expected |= {"autocorrelation_time": 20 * tau, "autocorrelation_time_error": 20 * error}
    assert {key: row[key] for key in expected} == pytest.approx(expected)
    assert (row["data"], row["sampler"], row["status"]) == ("heart", "amagold", "done")
    assert rows[0]["mse"] == pytest.approx(((draws[:, 0].mean(0) - truth) ** 2).mean()) and "bias2" not in rows[0]
    grid[0].facts["frozen"] = [0, 1]
    assert [row.get("mse", 0) > 0 for row in amagold._logistic(grid)] == [False, True, True]


def test_errors_along_the_chain_are_of_its_first_draws(grid):
    rows = amagold._logistic_growth(grid)
    lengths = [10, 20, 50, 100, 120]
    assert [(row["step_size"], row["cycles"]) for row in rows] == [
        (size, 20 * length) for size in (1e-3, 1e-4) for length in lengths
    ]
    draws, truth = grid[0].draws.numpy(), np.array([0.5, -1.0, 2.5])
    for row, length in zip(rows[5:], lengths, strict=True):
        each = [((draws[:length, chain].mean(0) - truth) ** 2).mean() for chain in (2, 3)]
        assert row["mse"] == pytest.approx(sum(each) / 2) and row["high"] == pytest.approx(max(each))
        assert row["seconds_a_cycle"] == pytest.approx(10 / 400) and row["chains"] == 2
    grid[2] = logistic(chains=1, sampler={"name": "sghmc"})
    grid[0].facts["frozen"] = [0, 1, 4, 5]
    none, *rest = amagold._logistic_growth(grid)
    assert "mse" not in none and (none["step_size"], none["chains"], len(rest)) == (1e-3, 0, 5)
    assert all(math.isnan(row["seconds_a_cycle"]) for row in rest)


def test_logistic_runs_without_rows_say_why(grid):
    grid[0] = logistic(status="diverged")
    (row,) = amagold._logistic(grid)
    common = {"data": "heart", "sampler": "amagold"}
    assert row == {**common, "status": "diverged", "why": "diverged at cycle 5"}
    (row,) = amagold._logistic_growth([logistic(wandering(20, 6, 3))])
    assert row == {**common, "status": "failed", "why": "the reference has not finished"}
    (row,) = amagold._logistic_acceptance([logistic(status="diverged", thin=1)])
    assert row == {**common, "status": "diverged", "why": "diverged at cycle 5"}


def test_acceptance_of_the_logistic_runs(grid):
    one, other = amagold._logistic_acceptance(grid)
    draws = grid[3].draws.numpy()
    for row, size, chains, frozen in ((one, 1e-3, (0, 2), 1), (other, 1e-4, (3, 4, 5), 0)):
        rates = [sum((draws[i, c] != draws[i - 1, c]).any() for i in range(1, 120)) / 119 for c in chains]
        assert row["accepted"] == pytest.approx(np.mean(rates))
        assert row["accepted_error"] == pytest.approx(error_of(rates))
        assert (row["step_size"], row["chains"], row["frozen"], row["cycles"]) == (size, len(chains), frozen, 120)
    grid[3].facts["frozen"] = [0, 1, 2]
    assert "accepted" not in amagold._logistic_acceptance(grid)[0]


def test_table_1_is_the_paper_s_and_the_engine_s():
    says = {row["sampler"]: (row["word"], row["exact"], row["gradient"]) for row in amagold_networks._samplers([])}
    assert says == {
        "amagold": ("ABOBA", "exact", "stochastic"),
        "l2mc": ("ABOBA", "exact", "full"),
        "hmc": ("BAB", "exact", "full"),
        "sghmc": ("EA", "not exact", "stochastic"),
        "ggmc": ("OBABO", "exact", "stochastic"),
        "baoab": ("BAOAB", "exact", "stochastic"),
        "ovrvo": ("OBABO", "exact", "stochastic"),
        "nonreversible_langevin": ("BAB", "exact", "full"),
        "langevin": ("BAB", "exact", "full"),
    }
    for row in amagold_networks._samplers([]):
        assert row["claimed"] in ("", f"{row['exact']}, {row['gradient']}") and row["status"] == "done"
    assert sum(bool(row["claimed"]) for row in amagold_networks._samplers([])) == 4


PRINTED = """
sghmc   0.01  3.69 ± 0.03   3.77 ± 0.17
sghmc   5e-6  89.95 ± 0.29  89.70 ± 0.91
amagold 0.01  3.63 ± 0.04   3.65 ± 0.08
amagold 5e-6  3.65 ± 0.10   3.63 ± 0.10
"""  # the paper's Table 2: h = .0005, h = .001


def test_what_is_quoted_of_table_2_is_as_printed():
    config = {"seed": 3, "data": {"name": "mnist", "train_size": None}, "warm_start": {"init": "torch"}}
    for line in PRINTED.strip().split("\n"):
        name, b, *numbers = line.replace("±", "").split()
        for place, lr in enumerate((0.0005, 0.001)):
            run = MadeRun(config=config | {"sampler": {"name": name, "b": float(b)}, "lr": lr})
            value, error = map(float, numbers[2 * place : 2 * place + 2])
            expected = {"b": float(b), "lr": lr, "start": "torch", "seed": 3, "train_size": 60000}
            expected |= {"quoted": value, "quoted_error": error}
            assert amagold_networks._setting(run) == expected
    other = MadeRun(config=config | {"sampler": {"name": "amagold", "b": 0.02}, "lr": 0.001})
    assert math.isnan(amagold_networks._setting(other)["quoted"])


@pytest.fixture
def predictor(monkeypatch):
    """Networks that are known: the draw ``[[k]]`` predicts the k-th of these, of four test data and of three letters"""
    test = [
        [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1]],
        [[0.1, 0.7, 0.2], [0.3, 0.6, 0.1], [0.5, 0.1, 0.4], [0.5, 0.4, 0.1]],
        [[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.1, 0.2, 0.7]],
    ]
    ood = [
        [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.9, 0.1, 0.0]],
        [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.5, 0.3, 0.2]],
        [[1.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.1, 0.2, 0.7]],
    ]

    def predict(draw, name):
        return torch.tensor({"test": test, "ood": ood}[name][int(draw[0, 0])], dtype=torch.float64)[None]

    targets = torch.tensor([0, 1, 2, 1])
    pieces = SimpleNamespace(
        potential=SimpleNamespace(predict=predict),
        predictions={"test": ("test", targets), "ood": ("ood", None)},
        random=SimpleNamespace(device="cpu"),
    )
    monkeypatch.setattr(amagold_networks, "build", lambda config: pieces)
    return np.array(test), np.array(ood), targets.tolist()


def networks_run(draws) -> MadeRun:
    metrics = {"test_accuracy": [np.nan, 0.3, 0.4, 0.7, 0.9], "accept_prob": [0.1, 0.9, 0.2, 0.7, 0.6]}
    metrics |= {"kinetic_temperature": [5.0, 4.0, 3.0, 2.0, 1.5], "cycle": [4, 7, 8, 12, 14]}  # a segment ended after 7
    metrics = {key: np.array(values) for key, values in metrics.items()}
    return MadeRun(config={"log_every": 4}, draws=draws, metrics=metrics, facts={"cycles": 14})


def test_test_errors_are_of_the_mean_prediction_and_of_single_ones(predictor):
    """Single networks are wrong about 1, 3 and 1 of four data; the fourth draw is not finite and left out."""
    test, _, targets = predictor
    (row,) = amagold_networks._errors(networks_run(torch.tensor([[[0.0]], [[1.0]], [[2.0]], [[np.nan]]])))
    mean = test.mean(0)
    expected = {"draws": 3, "cycles": 14, "error": 25.0, "single_error": 125 / 3}
    expected |= {"nll": -sum(math.log(mean[i, target]) for i, target in enumerate(targets)) / 4}
    expected |= {"single_nll": -np.mean([math.log(p[i, t]) for p in test for i, t in enumerate(targets)])}
    accept = (4 * (0.1 + 0.2 + 0.7) + 2 * 0.6) / 14
    expected |= {"single_error_sd": 50 / 3**0.5, "accept_prob": accept, "kinetic_temperature": 1.5}
    assert row == pytest.approx(expected | {"test_accuracy_at_start": 0.4})
    (row,) = amagold_networks._errors(networks_run(torch.tensor([[[1.0]]])))
    assert row["error"] == row["single_error"] == 75 and math.isnan(row["single_error_sd"])


def test_shares_of_letters_are_of_the_entropies_of_the_mean_prediction(predictor):
    """One letter is certain, one uniform (1.0986 nats: a share at 1.1), one between."""
    _, ood, _ = predictor
    rows = list(amagold_networks._entropies(networks_run(torch.tensor([[[0.0]], [[1.0]], [[2.0]]]))))
    p = ood.mean(0)[2]
    between = -sum(p * np.log(p))
    assert p == pytest.approx([0.5, 0.2, 0.3]) and 1.02 < between < 1.04
    third = -sum(q * math.log(q) for q in ood.mean(0)[1])
    assert third == pytest.approx(math.log(3))
    entropies = [0.0, between, third]
    assert [row["entropy"] for row in rows] == [k / 50 for k in range(117)] and rows[-1]["entropy"] > math.log(10)
    for row in rows:
        assert row["share"] == pytest.approx(sum(value <= row["entropy"] for value in entropies) / 3)
        assert row["draws"] == 3
    assert list(amagold_networks._entropies(networks_run(torch.tensor([[[np.inf]]])))) == [{"draws": 0}]


def test_an_error_of_ten_groups_of_chains_has_nine_degrees_of_freedom():
    rows = [SimpleNamespace(chains=chains) for chains in (50, 50)]
    assert verdicts.of_groups((0.1, 0.1), rows, 7) == pytest.approx(student.isf(0.01 / 2 / 7, 18))
    rows[1].chains = 3
    assert verdicts.of_groups((1e-9, 0.1), rows) == pytest.approx(student.isf(0.01 / 2, 2))
