"""The table of many runs: its numbers are those that the runs wrote, a row of each of their groups of chains."""

import json

import numpy as np
import pandas as pd
import pytest

from experiments.collect import collect, main, over_seeds
from experiments.command_line import main as run
from sgmcmc import diagnostics, load_metrics, load_samples
from sgmcmc.errors import SettingError
from sgmcmc.formats import read_status, signature

TOY = "model=gaussian model.dim=2 sampler=hmc steps_per_cycle=4 burn_in=20 progress=false"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder of three seeds of two step sizes, of four chains each; one of a network's; one whose step is tuned."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (2, 0, 1):
        words = f"{TOY} step_size=[.3,1.4] chains=8 cycles=120 seed={seed} output={folder}/grid/{seed}"
        assert run(words.split()) == 0
    network = "model=mlp model.hidden=[8] data=digits sampler=ggmc lr=1e-3 batch_size=100 steps_per_cycle=5 cycles=12"
    assert run(f"{network} burn_in=2 output={folder}/network progress=false".split()) == 0
    assert run(f"{TOY} step_size=.1 tune.target=.6 cycles=60 chains=2 output={folder}/tuned".split()) == 0
    return folder


def test_each_group_of_chains_has_a_row_with_its_own_numbers(runs):
    table = collect([runs / "grid"])
    assert table.attrs["settings"] == ["seed", "step_size"]
    assert list(zip(table.seed, table.step_size, strict=True)) == [(s, h) for s in (0, 1, 2) for h in (0.3, 1.4)]
    assert (table.state == "done").all() and (table.chains == 4).all() and (table.cycles == 120).all()
    for row in table.itertuples():
        chains = slice(0, 4) if row.step_size == 0.3 else slice(4, 8)
        draws = load_samples(row.run)[:, chains].double()
        functions = np.concatenate([draws, (draws - draws.mean((0, 1))) ** 2], -1)
        assert row.ess == pytest.approx(min(diagnostics.ess(functions).value), rel=1e-6)
        assert row.r_hat == pytest.approx(max(diagnostics.r_hat(functions)), rel=1e-6)
        assert row.accept_prob == read_status(row.run)["groups"][int(row.step_size == 1.4)]["accept_prob"]
    late = [
        load_metrics(runs / "grid" / str(seed))["accept_prob"][2:].mean() for seed in range(3)
    ]  # rows of ten cycles
    assert list(table.groupby("seed").accept_prob.mean()) == pytest.approx(late, rel=1e-9)
    assert "log_accept" not in table and "potential" not in table  # which are means over all chains


def test_seeds_are_joined_to_a_mean_with_its_error(runs):
    table = collect([runs / "grid"])
    joined = over_seeds(table)
    assert list(joined.step_size) == [0.3, 1.4] and list(joined.runs) == [3, 3] and "seed" not in joined
    for row in joined.itertuples():
        own = table[table.step_size == row.step_size]
        for name in ("accept_prob", "ess", "r_hat"):
            assert getattr(row, name) == pytest.approx(own[name].mean())
            assert getattr(row, f"{name}_error") == pytest.approx(own[name].std(ddof=1) / 3**0.5)
    assert "chains_error" not in joined and list(joined.chains) == [4, 4]


def test_a_run_s_rows_are_averaged_after_the_burn_in_and_its_last_ensemble_is_taken(runs):
    (row,) = collect([runs / "network"]).itertuples()
    metrics = load_metrics(runs / "network")
    for name in ("potential_per_datum", "test_accuracy", "kinetic_temperature"):
        assert getattr(row, name) == pytest.approx(metrics[name][2:].mean(), rel=1e-12)
    assert row.test_ensemble_nll == metrics["test_ensemble_nll"][-1]
    assert row.log_accept == read_status(runs / "network")["log_accept"]
    assert row.accept_prob == pytest.approx(metrics["accept_prob"][2:].mean(), rel=1e-9)


def test_runs_of_all_kinds_stand_in_one_table(runs):
    """Of what one of them has not there is nothing; a step size that was tuned stands beside the one given."""
    table = collect([runs, runs / "grid"])
    assert len(table) == 8 and {"model.name", "sampler.name", "chains", "step_size", "lr"} <= {*table.attrs["settings"]}
    assert table.columns.is_unique
    tuned = table[table["tune.target"].notna()].iloc[0]
    assert tuned.step_size == 0.1 and 0.5 < tuned.tuned_step_size < 2
    assert tuned.tuned_step_size == pytest.approx(load_metrics(runs / "tuned")["step_size"][-1])


def test_what_is_not_done_is_told_and_not_joined(runs, tmp_path):
    words = f"{TOY} step_size=.3 cycles=30 keep=none output={tmp_path}/one"
    assert run(words.split()) == 0
    file = tmp_path / "one" / "status.json"
    status = read_status(tmp_path / "one") | {"state": "interrupted"}
    for name in ("groups", "log_accept"):  # as of a run that says nothing yet
        status.pop(name)
    file.write_text(json.dumps(status | {"sha256": signature(status)}))
    table = collect([tmp_path / "one"])
    assert list(table.state) == ["interrupted"] and table.accept_prob.notna().all()
    with pytest.raises(SettingError, match="one is interrupted"):
        over_seeds(table)


def test_the_command_prints_the_table_and_writes_all_its_columns(runs, tmp_path, capsys):
    assert main([f"{runs}/grid", "over=seed", f"output={tmp_path}/table.csv"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["step_size", "runs"] and len(lines) == 2
    written = pd.read_csv(tmp_path / "table.csv")
    pd.testing.assert_frame_equal(written, over_seeds(collect([runs / "grid"])), check_dtype=False, rtol=1e-12)
    assert main([f"{runs}/grid"]) == 0
    head = capsys.readouterr().out.splitlines()[0].split()
    assert head[:4] == ["run", "state", "seed", "step_size"] and {"accept_prob", "ess", "r_hat"} <= {*head}
    assert "ess_error" not in head
    for words, said in (
        ([], "RUN [RUN"),
        (["over=seed"], "RUN=nothing"),
        ([str(tmp_path)], "is not a run folder"),
        ([f"{runs}/grid", "by=seed"], "known are over, output"),
        ([f"{runs}/grid", "over=lr"], "must be seed"),
        ([f"{runs}/grid", f"output={tmp_path}/none/table.csv"], "cannot be written"),
    ):
        assert main(words) == (2 if words else 0)
        assert said in "".join(capsys.readouterr())
