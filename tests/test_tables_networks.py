"""What the tables of networks compute: what tuned cycles cost and go, how seeds mix."""

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made import MadeRun

from experiments.config import compose
from experiments.tables import TABLES, join, make_part, networks

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
from figures import finding_cycles as cycles  # noqa: E402


def test_a_tuned_cycle_s_learning_rate_passes_and_time():
    config = compose(["experiment=finding_cycles", "point=2", "sampler=hmc"])
    cycle = np.arange(10, 201, 10)
    acceptance = np.where(cycle > 100, 0.5 + 0.1 * (-1) ** (cycle // 10), 0.9)
    metrics = {
        "cycle": cycle,
        "step": cycle * 401,
        "step_size": np.full(20, 2e-5),
        "accept_prob": acceptance,
        "accepted": acceptance,
        "potential_per_datum": np.where(cycle > 150, 0.7, 0.5),
        "kinetic_temperature": np.ones(20),
        "configurational_temperature": np.ones(20),
        "test_accuracy": np.linspace(0, 0.8, 20),
    }
    (row,) = networks._cycle(MadeRun(config=config, metrics=metrics))
    assert row["lr"] == pytest.approx(50_000 * 4e-10) and row["epochs"] == 1 and row["cycles"] == 100
    assert row["minibatches"] == "independent"
    assert row["passes"] == pytest.approx(2)  # 400 minibatches, and U with its gradient at the end
    assert row["accept_prob"] == pytest.approx(acceptance[10:].mean()) and 0 < row["accept_prob_error"] < 0.1
    assert row["time"] == pytest.approx(row["accept_prob"] * 401 * 2e-5 / 2)
    assert row["drift"] == pytest.approx(0.2) and row["test_accuracy"] == 0.8


def rows(acceptance: str, shift: float) -> list[dict]:
    """Four seeds of independent numbers, one of them elsewhere."""
    noise, table = np.random.default_rng(1), []
    for seed in range(4):
        for cycle in range(200):
            row = {"sampler": "ggmc", "status": "done", "acceptance": acceptance, "lr": 1e-6, "seed": seed}
            row |= {"cycle": cycle, "accept_prob": 0.25, "test_accuracy": 0.5}
            row["potential_per_datum"] = noise.normal() + shift * (seed == 0)
            row["test_nll"] = noise.normal() + 2
            table.append(row | {f"test_ensemble_{key}": seed + cycle / 1000 for key in networks.QUALITY})
    return table


def test_mixing_over_seeds():
    """ESS of independent draws is their number (arviz gives it to a few per cent), and R-hat sees the seed that is
    elsewhere."""
    failed = {"sampler": "ggmc", "status": "failed", "why": "no", "acceptance": "monitor", "lr": 1e-6, "seed": 9}
    good, bad = networks.mixing([*rows("metropolis", 0.0), *rows("monitor", 3.0), failed])
    assert (good["acceptance"], bad["acceptance"]) == ("metropolis", "monitor")
    assert good["chains"] == bad["chains"] == 4 and good["draws_a_chain"] == 200
    assert good["r_hat_potential"] < 1.02 < 1.3 < bad["r_hat_potential"] and bad["r_hat_nll"] < 1.02
    assert 500 < good["ess_nll"] < 1200 and bad["ess_potential"] < 20
    assert good["nll"] == pytest.approx(1.5 + 0.199) and good["nll_error"] == pytest.approx(math.sqrt(5 / 3) / 2)
    (row,) = networks.mixing([failed])
    assert row["status"] == "failed" and row["chains"] == 0


def test_a_table_is_the_same_in_one_go_and_run_by_run(monkeypatch):
    """What `make gpu` keeps of each chain and joins at the end."""
    parts = rows("metropolis", 0.0)
    monkeypatch.setitem(TABLES, "some", ("finding_corrected", networks.Joined(lambda runs: parts[: len(runs)], sum_of)))
    kept = [row for _ in range(3) for row in make_part("some", {}, {"status": "failed", "folder": "x"})[0]]
    assert kept == parts[:1] * 3 and join("some", kept) == [{"number": 3}]
    assert join("finding_cycles", kept) == kept


def sum_of(rows):
    return [{"number": len(rows)}]


def test_cycles_that_are_missing_are_not_compared():
    table = pd.read_csv(ROOT / "results/quick/tables/finding_cycles.csv")
    said = {row[0]: row[3] for row in cycles.compare(table)}
    assert said["GGMC: ℓ with shuffled epochs over ℓ with independent minibatches"] == "agrees"
    for part in (table[table.minibatches == "independent"], table[table.minibatches == "shuffled"], table[:1]):
        rows = list(cycles.compare(part))
        assert any(row[3] == "not comparable: a run is missing" for row in rows) and cycles.title(part)
        assert not any(row[3] == "agrees" for row in rows if "shuffled" in row[0])
