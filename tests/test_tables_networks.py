"""What the tables of networks compute: what tuned cycles cost and go, how seeds mix."""

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made import MadeRun
from scipy.stats import norm, rankdata

from experiments.config import compose
from experiments.tables import TABLES, join, make_part, networks
from sgmcmc.diagnostics import ess

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


def of_parts(parts: list[list[float]]) -> float:
    """The standard error of the mean of a chain that is cut into these parts."""
    means = [sum(part) / len(part) for part in parts]
    middle = sum(means) / len(means)
    return math.sqrt(sum((mean - middle) ** 2 for mean in means) / (len(means) - 1) / len(means))


@pytest.mark.parametrize("sizes", [[3, 3, 3, 2, 2, 2, 2, 2, 2, 2], [1, 1, 1, 1]])
def test_a_row_of_a_cycle_s_length_is_of_what_came_after_the_burn_in(sizes):
    """Cycles of 7 steps on 24 data: 6 minibatches of 4 and the gradient at the end, which brings U along. A row is
    five cycles, and errors are from ten parts of the chain, of these sizes, or from as many as it has rows."""
    kept = sum(sizes)
    size = kept + 4
    drawn = np.random.default_rng(kept).uniform(0.2, 0.9, size=(6, size))
    names = "accept_prob accepted potential_per_datum kinetic_temperature configurational_temperature test_accuracy"
    metrics = dict(zip(names.split(), drawn, strict=True))
    metrics |= {"cycle": 5 * np.arange(1, size + 1), "step": 35 * np.arange(1, size + 1)}
    metrics["step_size"] = np.append(np.geomspace(1, 0.03, 4), np.full(kept, 0.02))
    config = {"burn_in": 20, "batch_size": 4, "log_every": 5, "steps_per_cycle": 7}
    config |= {"data": {"name": "cifar10", "train_size": 24}}
    config["sampler"] = {"word": "OBABO", "gradient": "minibatch", "ends": "exact"}
    config["sampler"] |= {"acceptance": "metropolis", "minibatches": "shuffled"}
    (row,) = networks._cycle(MadeRun(config=config, metrics=metrics))
    after = {name: values[4:].tolist() for name, values in metrics.items()}
    mean = {name: sum(values) / kept for name, values in after.items()}
    ends = np.cumsum(sizes)
    parts = [after["accept_prob"][end - size : end] for end, size in zip(ends, sizes, strict=True)]
    half = (kept + 1) // 2
    energies = after["potential_per_datum"]
    before, behind = sum(energies[:half]) / half, sum(energies[half:]) / (kept - half)
    assert row.pop("minibatches") == "shuffled"
    assert row == pytest.approx(
        {
            "data": 24,
            "steps": 7,
            "epochs": 1,
            "lr": 24 * 0.02**2,
            "step_size": 0.02,
            "cycles": 5 * kept,
            "accept_prob": mean["accept_prob"],
            "accept_prob_error": of_parts(parts),
            "accepted": mean["accepted"],
            "passes": 2,
            "time": mean["accept_prob"] * 0.14 / 2,
            "time_error": of_parts(parts) * 0.14 / 2,
            "potential_per_datum": behind,
            "drift": behind - before,
            "kinetic_temperature": mean["kinetic_temperature"],
            "configurational_temperature": mean["configurational_temperature"],
            "test_accuracy": after["test_accuracy"][-1],
        },
        rel=1e-12,
    )


def split_r_hat(chains: np.ndarray) -> float:
    """Vehtari et al. 2021 of ``[chains, draws]``: halves of chains, ranks as normal quantiles, also of what is folded
    at the median; the larger."""

    def r_hat(values):
        z = norm.ppf((rankdata(values).reshape(values.shape) - 3 / 8) / (values.size + 1 / 4))
        draws, within = z.shape[1], z.var(1, ddof=1).mean()
        return math.sqrt(((draws - 1) / draws * within + z.mean(1).var(ddof=1)) / within)

    half = chains.shape[1] // 2
    halves = np.concatenate((chains[:, :half], chains[:, -half:]))
    return max(r_hat(halves), r_hat(abs(halves - np.median(halves))))


def test_a_row_of_corrected_chains_is_of_all_seeds_that_finished():
    """Of unequal lengths after a burn-in that counts nowhere: mixing is that of as many draws as the shortest has,
    means are those of all."""
    lengths, rng, burn_in = {3: 42, 5: 40, 8: 45}, np.random.default_rng(2), 6
    names = ["potential_per_datum", "test_nll", "accept_prob", "test_accuracy"]
    names += [f"test_ensemble_{key}" for key in ("accuracy", "nll", "ece", "brier")]
    runs, chains = [], {}
    for seed, length in lengths.items():
        kept = {name: rng.normal(size=length).cumsum() / 20 + rng.uniform(1, 2) for name in names}
        metrics = {name: np.append(np.full(burn_in, 1e6), values) for name, values in kept.items()}
        metrics["cycle"] = np.arange(1, burn_in + length + 1)
        config = {"sampler": {"name": "ggmc", "acceptance": "metropolis"}, "lr": 0.25, "seed": seed, "burn_in": burn_in}
        runs.append(MadeRun(config=config, metrics=metrics))
        chains[seed] = kept
    runs.insert(0, MadeRun(config=runs[0].config | {"seed": 1}, status="failed", why="no memory"))
    each = TABLES["finding_corrected"][1].each(runs)
    assert [row["cycle"] for row in each[1:43]] == list(range(7, 49)) and len(each) == 1 + 127
    assert each[1] == {
        **{"sampler": "ggmc", "status": "done", "acceptance": "metropolis", "lr": 0.25, "seed": 3, "cycle": 7},
        **{"seconds": None},
        **{name: chains[3][name][0] for name in names},
    }
    (row,) = TABLES["finding_corrected"][1](runs)
    said = {"sampler": "ggmc", "acceptance": "metropolis", "lr": 0.25, "status": "done", "chains": 3}
    assert {key: row.pop(key) for key in said} == said
    expected = {"draws_a_chain": 40, "accept_prob": sum(one["accept_prob"].sum() for one in chains.values()) / 127}
    for name, column in (("potential", "potential_per_datum"), ("nll", "test_nll")):
        draws = np.stack([one[column][:40] for one in chains.values()])
        size = ess(draws.T[:, :, None])
        expected[f"r_hat_{name}"] = split_r_hat(draws)
        expected |= {f"ess_{name}": size.value.item(), f"ess_{name}_error": size.error.item()}
    for name, column in (("potential", "potential_per_datum"), ("single_nll", "test_nll")):
        singles = [[one[column].mean()] for one in chains.values()]
        expected |= {name: sum(sum(singles, [])) / 3, f"{name}_error": of_parts(singles)}
    for key in ("accuracy", "nll", "ece", "brier"):
        last = [[one[f"test_ensemble_{key}"][-1]] for one in chains.values()]
        expected |= {key: sum(sum(last, [])) / 3, f"{key}_error": of_parts(last)}
    assert row == pytest.approx(expected, rel=1e-9)
    assert min(row["ess_potential"], row["ess_nll"]) > 3  # and not NaN


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
