"""The computations behind the tables of the AMAGOLD paper, on draws of known law."""

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from experiments.tables import amagold, amagold_networks
from experiments.tables.common import Run, of_each
from experiments.tables.statistics import PLANES, WELL, counts_of, errors_of, plane_masses, well_masses
from sgmcmc import formats
from sgmcmc.potentials.analytic import DoubleWell
from sgmcmc.random import Random

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import draw  # noqa: E402
import verdicts  # noqa: E402

FIGURES = [script for script in draw.scripts() if script.stem.startswith("amagold") and "table1" not in script.stem]


def exact_draws(target, chains, draws):
    """Independent draws ``[draws, chains, dim]``."""
    theta = target.exact(chains * draws, Random(5))
    return theta.view(draws, chains, -1).float()


def test_independent_draws_are_at_the_floor():
    draws = exact_draws(DoubleWell(), 40, 1000)
    js = amagold.divergences(counts_of(draws, WELL), well_masses(), 1000)
    assert js["J_one"] == pytest.approx(js["floor_one"], rel=0.1)
    assert js["J"] == pytest.approx(js["floor"], rel=0.6) and js["J"] < js["J_one"] / 20
    assert js["J_one_low"] < js["J_one"] < js["J_one_high"]
    assert abs(js["bias"]) < 4 * js["bias_error"] < 0.003


def test_the_shared_bias_is_what_stays_of_j():
    """Of draws that are 2 % too wide, each five times over, against the J of a million of them."""
    wide = 1.02 * exact_draws(DoubleWell(), 1, 1_000_000)
    stays = amagold.divergences(counts_of(wide, WELL), well_masses(), 1_000_000)["J_one"]
    draws = 1.02 * exact_draws(DoubleWell(), 40, 1000).repeat_interleave(5, 0)
    js = amagold.divergences(counts_of(draws, WELL), well_masses(), 5000)
    assert js["J"] > 1.1 * stays
    assert js["bias"] == pytest.approx(stays, abs=3 * js["bias_error"]) and js["bias_error"] < stays / 3


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
    assert rows[20]["J"] == alone[20]["J"] and rows[20]["J_one"] == alone[20]["J_one"]


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
        (verdicts.not_much_slower, (1.4, 2, 3)),
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
    run = ended(tmp_path, "diverged", step_size=0.1, lr=0.001, seed=0, data={"name": "mnist", "train_size": None})
    run.config["sampler"] |= model
    lines = "cycle,test_accuracy,accept_prob,kinetic_temperature", "1,0.9,0,1", "2,0.25,0,1", "3,nan,0,nan"
    (tmp_path / "metrics.csv").write_text("\n".join(lines) + "\n")
    (row,) = amagold_networks.TABLES["amagold_table2"][1]([run])
    assert (row["quoted"], row["error"], row["draws"], row["cycles"]) == (3.77, 75.0, 0, 7)
    (row,) = amagold_networks.TABLES["amagold_fig5"][1]([run])
    assert row["draws"] == 0 and row["why"] == "diverged at cycle 7" and "share" not in row


def lose(table, sampler, how):
    """A table some of whose rows say that a sampler's runs diverged, are not there, or lost chains."""
    if "sampler" not in table:
        return table
    lost = table.sampler == sampler
    if how == "missing":
        return table[~lost]
    table = table.astype({"status": object})
    settings = ["sampler", "status", "model", "word", "tuned_to", "data", "b", "lr", "seed", "train_size"]
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
    common |= {"single_error_sd": 0.3, "accept_prob": 0.0, "quoted": quoted, "quoted_error": 0.4}
    return pd.DataFrame(
        [common | dict.fromkeys(("error", "single_error"), error + 0.1 * seed) for seed in range(seeds)]
    )


@pytest.mark.parametrize(
    ("table", "verdict"),
    [
        (table2(89.0, 89.7), ["agrees (one seed)"] * 2),
        (table2(87.0, 89.7), ["differs by -2.7, 5.4 errors (one seed)"] * 2),
        (table2(math.nan, 89.7, "diverged"), ["agrees: it diverges, as theirs does"]),
        (table2(math.nan, 3.7, "diverged"), ["differs: diverged at 9"]),
        (table2(89.7, 89.7, seeds=3), ["agrees"] * 2),
        (
            table2(80.0, 89.7, seeds=3).assign(single_error=[89.7, 89.8, 89.9]),
            ["differs by -9.6, 23.8 errors", "agrees"],
        ),
    ],
)
def test_both_readings_of_table_2_are_judged(table, verdict):
    """The mean prediction and single draws."""
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_table2.py")
    assert [row[3] for row in figure.compare(table)] == verdict


def test_amagold_s_settings_are_judged_together():
    """Each within its errors, all low by as much: .3 of an error of .5 each, .125 of 16 of them."""
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_table2.py")
    many = [table2(3.0, 3.4).assign(sampler="amagold", b=b, test_accuracy_at_start=0.97) for b in range(16)]
    *each, (_, _, here, verdict) = figure.compare(pd.concat(many))
    assert "between settings" not in str(each)  # there are none of SGHMC
    assert {row[3] for row in each} == {"agrees (one seed)"}
    assert here.startswith("-0.40 ± 0.12") and verdict.startswith("differs by -0.4, 3.2 errors (one seed)")


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
    rows = [("", "", "1.5", "agrees: less than 1.5 times"), ("", "", "J", bias), ("", "", "", "not resolved")] * 2
    monkeypatch.setattr(figure, "compare", lambda *tables: iter(rows))
    assert figure.title(None, None).startswith(title)


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


def test_figure_5_judges_the_share_of_letters_that_are_all_but_certain():
    """A network of which a third is at maximum entropy has AMAGOLD's mean entropy, and is overconfident."""
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_fig5.py")
    shares = {("amagold", 0.01, 5e-4): 0.08, ("amagold", 5e-6, 5e-4): 0.06, ("sghmc", 0.01, 5e-4): 0.09}
    shares |= {("sghmc", 0.01, 1e-3): 0.13, ("sghmc", 5e-6, 5e-4): 0.6}
    rows, errors = [], []
    for (sampler, b, lr), share in shares.items():
        common = {"sampler": sampler, "b": b, "lr": lr, "seed": 0, "train_size": 60000, "status": "done"}
        middle = 0.5 if share < 0.5 else share
        rows += [
            {**common, "entropy": at, "share": value} for at, value in ((0, 0), (0.1, share), (1, middle), (2.3, 1))
        ]
        wrong = 90.0 if b < 1e-5 and sampler == "sghmc" else 2.0
        errors.append({**common, "accept_prob": 0.05, "single_error": wrong, "kinetic_temperature": 1e6})
    found = {row[0].split(":")[0]: row[3] for row in figure.compare(pd.DataFrame(rows), pd.DataFrame(errors))}
    assert found["SGHMC, b = 0.01, lr = 0.0005"] == "agrees (one seed)" == found["SGHMC, b = 0.01, lr = 0.001"]
    assert found["SGHMC, b = 5e-06, lr = 0.0005"] == "agrees: of a network that is at chance on digits (one seed)"
    assert found["SGHMC, b = 5e-06, lr = 0.001"] == "not comparable: no finished run"
    table = pd.DataFrame(rows)
    assert "as confident" not in figure.title(table)  # three settings of eight are missing
    large = (table.sampler == "sghmc") & (table.b == 0.01)
    swapped = table.assign(lr=table.lr.where(~large, 0.0015 - table.lr))
    one, other = (row for row in figure.compare(swapped, pd.DataFrame(errors)) if row[0].startswith("SGHMC, b = 0.01"))
    assert one[3] == "differs (one seed)"
    assert other[3] == "differs: no more so than at half the learning rate, 0.130 (one seed)"


@pytest.mark.parametrize(
    ("accepted", "verdict"), [(0.5, "not decided: it drops"), (0.1, "agrees"), (0.9, "differs: it does not drop")]
)
def test_figure_8_calls_low_what_the_paper_calls_unreasonable(accepted, verdict):
    figure = draw.load(ROOT / "scripts" / "figures" / "amagold_fig8.py")
    sizes = (1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 5e-3)
    table = pd.DataFrame({"sampler": "amagold", "status": "done", "step_size": sizes, "accepted": 0.9})
    table = table.assign(accepted_error=0.01, chains=8, frozen=0)
    table.loc[7, "accepted"] = accepted
    assert [row[3].split(":")[0] for row in figure.compare(table)] == ["agrees", verdict.split(":")[0]]
    assert list(figure.compare(table))[1][3].startswith(verdict)
