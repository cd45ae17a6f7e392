"""The table of many runs: its numbers are those that the runs wrote, a row of each of their groups of chains."""

import errno
import json
import os
import shutil
import socket

import numpy as np
import pandas as pd
import pytest

from experiments.collect import collect, main
from experiments.command_line import main as run
from experiments.outcome import averages
from sgmcmc import diagnostics, load_metrics, load_samples
from sgmcmc.errors import SettingError
from sgmcmc.formats import read_status, signature

TOY = "model=gaussian model.dim=2 sampler=hmc steps_per_cycle=4 burn_in=20 progress=false"
pytestmark = pytest.mark.usefixtures("pictures")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder of three seeds of two step sizes, of four chains each; one of a network's; one whose step is tuned."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (2, 0, 1):
        words = f"{TOY} step_size=[.3,1.4] chains=8 cycles=120 seed={seed}"
        assert run([*words.split(), f"output={folder}/grid/{seed}"]) == 0
    network = "model=mlp model.hidden=[8] data=digits sampler=ggmc lr=1e-3 batch_size=100 steps_per_cycle=5 cycles=12"
    assert run([*network.split(), "burn_in=2", f"output={folder}/network", "progress=false"]) == 0
    tuned = f"{TOY} step_size=.1 tune.target=.6 cycles=60 chains=2"
    assert run([*tuned.split(), f"output={folder}/tuned"]) == 0
    return folder


@pytest.mark.thorough
def test_each_group_of_chains_has_a_row_with_its_own_numbers(runs):
    table = collect(runs / "grid")
    assert table.attrs["settings"][-1] == "seed" and {*table.attrs["settings"][:-1]} == {
        "sampler.acceptance",
        "step_size",
    }
    assert list(zip(table.step_size, table.seed, strict=True)) == [(h, s) for h in (0.3, 1.4) for s in (0, 1, 2)]
    assert (table.state == "done").all() and (table.chains_of_row == 4).all() and (table.cycles_done == 120).all()
    for row in table.itertuples():
        chains = slice(0, 4) if row.step_size == 0.3 else slice(4, 8)
        draws = load_samples(row.run)[:, chains].double()
        functions = np.concatenate([draws, (draws - draws.mean((0, 1))) ** 2], -1)
        assert row.ess == pytest.approx(min(diagnostics.ess(functions, "mean").value), rel=1e-6)
        assert row.r_hat == pytest.approx(max(diagnostics.r_hat(functions)), rel=1e-6)
        group = read_status(row.run)["groups"][int(row.step_size == 1.4)]
        assert (row.accept_prob, row.accept_prob_error) == (group["accept_prob"], group["accept_prob_error"])
    late = [
        load_metrics(runs / "grid" / str(seed))["accept_prob"][2:].mean() for seed in range(3)
    ]  # rows of ten cycles
    assert list(table.groupby("seed").accept_prob.mean()) == pytest.approx(late, rel=1e-9)
    assert "log_accept" not in table and "potential" not in table  # which are means over all chains


@pytest.mark.thorough
def test_runs_that_lie_elsewhere_with_a_link_to_them_are_in_the_table(runs, tmp_path):
    """A mean over seeds would else be over those that are left, without a word."""
    grid = shutil.copytree(runs / "grid", tmp_path / "grid")
    (grid / "1").rename(tmp_path / "moved")
    (grid / "1").symlink_to(tmp_path / "moved")
    for name in ("up", "again"):  # followed for ever, they would be
        (grid / name).symlink_to(grid)
    assert list(collect(grid, over="seed").runs) == [3, 3]


def test_a_folder_that_cannot_be_read_is_told(runs, tmp_path, monkeypatch, capsys):
    look = os.scandir

    def scandir(path):
        if str(path).endswith("grid/1"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert list(collect(runs / "grid", over="seed").runs) == [2, 2]
    assert capsys.readouterr().err == f"{runs / 'grid' / '1'} is left out: Permission denied\n"
    assert main([str(runs / "grid" / "1")]) == 2
    said = f"{runs / 'grid' / '1'}: no permission to read or write here: is it in the folder of a run, and yours to"
    assert capsys.readouterr().err == f"{said} read?\n"
    (tmp_path / "file").touch()
    assert main([str(tmp_path / "file")]) == 2 and "file: is not a run folder" in (said := capsys.readouterr().err)
    assert said.count("\n") == 1
    assert main(["x" * 300]) == 2  # what cannot be asked for at all
    said = f"{'x' * 300}: File name too long: is it in the folder of a run, and yours to read?\n"
    assert capsys.readouterr().err == said


def test_seeds_are_joined_to_a_mean_with_its_error(runs):
    table, joined = collect([runs / "grid"]), collect([runs / "grid"], over="seed")
    assert list(joined.step_size) == [0.3, 1.4] and list(joined.runs) == [3, 3] and "seed" not in joined
    for row in joined.itertuples():
        own = table[table.step_size == row.step_size]
        for name in ("accept_prob", "ess", "r_hat"):
            assert getattr(row, name) == pytest.approx(own[name].mean())
            assert getattr(row, f"{name}_error") == pytest.approx(own[name].std(ddof=1) / 3**0.5)
    assert "finite_error" not in joined and list(joined.finite) == [4, 4] and list(joined.diverged) == [0, 0]
    assert set(joined["work"]) == {"a gradient"}


def test_a_run_s_rows_are_averaged_after_the_burn_in_and_its_last_ensemble_is_taken(runs):
    (row,) = collect([runs / "network"]).itertuples()
    metrics = load_metrics(runs / "network")
    for name in ("potential_per_datum", "test_accuracy", "kinetic_temperature"):
        assert getattr(row, name) == pytest.approx(metrics[name][2:].mean(), rel=1e-12)
    assert row.test_ensemble_nll == metrics["test_ensemble_nll"][-1]
    assert row.log_accept == read_status(runs / "network")["log_accept"]
    assert row.accept_prob == pytest.approx(metrics["accept_prob"][2:].mean(), rel=1e-9)
    assert "is monitored" in row.acceptance


def test_averages_are_of_cycles_after_the_burn_in_each_counted_once():
    """Rows of 4 cycles; a run that ended after 6 and was continued has cycles 5 and 6 in two rows."""
    metrics = {"cycle": np.array([4, 6, 8, 12, 13]), "fit": np.array([100.0, 50.0, 1.0, 2.0, 7.0])}
    metrics |= {"test_ensemble_nll": np.array([9.0, 9, 8, 7, 6]), "seconds": np.arange(5.0), "lost": np.full(5, np.nan)}
    assert averages(metrics, 4, 4) == {"fit": pytest.approx((4 * 1 + 4 * 2 + 7) / 9), "test_ensemble_nll": 6.0}
    assert averages(metrics, 5, 4)["fit"] == pytest.approx((4 * 2 + 7) / 5)  # the row to 8 is of cycle 5, too
    assert averages(metrics, 13, 4) == {}


def test_runs_of_all_kinds_stand_in_one_table(runs):
    """Of what one of them has not there is nothing; a step size that was tuned stands beside the one given."""
    table = collect([runs, runs / "grid"])
    assert len(table) == 8 and {"model.name", "sampler.name", "chains", "step_size", "lr"} <= {*table.attrs["settings"]}
    assert table.columns.is_unique
    tuned = table[table["tune.target"].notna()].iloc[0]
    assert tuned.step_size == 0.1 and 0.5 < tuned.tuned_step_size < 2
    assert tuned.tuned_step_size == pytest.approx(load_metrics(runs / "tuned")["step_size"][-1])


def remade(folder, other, **changes):
    """A copy of a run that says other things."""
    copy = shutil.copytree(folder, other)
    status = {key: value for key, value in (read_status(folder) | changes).items() if value is not None}
    (copy / "status.json").write_text(json.dumps(status | {"sha256": signature(status)}))
    return copy


def identity_of(folder, name, **settings):
    known = read_status(folder)["identity"]
    return {**known, "hash": name, "settings": {**known["settings"], **settings}}


def test_only_runs_that_differ_in_their_seed_alone_are_joined(runs, tmp_path):
    first = runs / "grid" / "0"
    twice = remade(first, tmp_path / "twice")
    with pytest.raises(SettingError, match="twice: is the same chain as .*grid/0: give one of them"):
        collect([first, twice], over="seed")
    with pytest.raises(SettingError, match="^over=step_size: must be seed, or left out"):
        collect([first], over="step_size")
    assert len(collect([first, first, runs / "grid"])) == 6
    for number, changes in enumerate(
        [
            {"planned": 240},
            {"cycles": 240},  # stopped there, and then asked for no more than the other
            {"start": "another"},
            {"identity": {**identity_of(first, "b", seed=9), "law": 1}},
        ]
    ):
        changes = {"identity": identity_of(first, "b", seed=9), **changes}
        other = remade(first, tmp_path / str(number), **changes)
        assert list(collect([first, other], over="seed").runs) == [1] * 4
    same = remade(first, tmp_path / "same", identity=identity_of(first, "b", step_size=[0.3, 1.0]))
    with pytest.raises(SettingError, match="grid/0 and .*same have the same seed, so the same chains"):
        collect([first, same], over="seed")
    assert len(collect([first, remade(first, tmp_path / "started", start="another file")])) == 4
    other = remade(first, tmp_path / "joined", identity=identity_of(first, "b", seed=9))
    assert list(collect([first, other], over="seed").runs) == [2, 2]


def test_effective_sample_sizes_of_another_meaning_stand_in_no_column(runs, tmp_path, capsys):
    """Those of ranks, that an earlier version told, beside others, or in a mean with them."""
    first = runs / "grid" / "0"
    before = remade(first, tmp_path / "before", told=None, identity=identity_of(first, "b", seed=9))
    table = collect([first, before])
    one, other = table[table.run == str(first)], table[table.run == str(before)]
    of_ess = [name for name in table if name.startswith("ess")] + ["work"]
    assert len(of_ess) > 3 and one[of_ess].notna().all(axis=None) and other[of_ess].isna().all(axis=None)
    assert list(one.r_hat) == list(other.r_hat) and table.attrs["untold"] == [str(before)]
    assert collect([first, before], over="seed").ess.isna().all() and "ess" not in collect([before])
    assert main([str(first), str(before), "over=seed"]) == 0
    assert f"no ess of 1 run, such as {before}, which an earlier version looked at" in capsys.readouterr().out
    assert main([str(first)]) == 0 and "earlier version" not in capsys.readouterr().out


def test_printed_numbers_stand_beside_their_own_errors_and_lost_chains_beside_all(runs, tmp_path, capsys):
    joined = collect(runs / "grid", over="seed")
    assert main([f"{runs}/grid", "over=seed"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    for number in (0, 1):
        for name in ("accept_prob", "ess", "r_hat"):
            value, error = joined[name][number], joined[f"{name}_error"][number]
            assert f" {value:.4g} ± {error:.2g}" in lines[number]
    assert "finite" not in head.split()
    first = runs / "grid" / "0"
    groups = [{**group, "finite": 3 + number} for number, group in enumerate(read_status(first)["groups"])]
    assert main([str(remade(first, tmp_path / "lost", groups=groups))]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    end = head.index("finite") + len("finite")  # by the place in a line: words would be more where a path has spaces
    assert [(line[:end].split()[-1], line[end:].split()[0]) for line in lines[:2]] == [("3", "4"), ("4", "4")]


def test_settings_are_ordered_as_numbers_and_told_from_equal_ones_of_another_kind(runs, tmp_path):
    """9 is before 10, and True is not 1: an option that may be both."""
    first, groups = runs / "grid" / "0", read_status(runs / "grid" / "0")["groups"]
    groups = [{**group, "settings": {"step_size": 10.0 - number}} for number, group in enumerate(groups)]
    table = collect(remade(first, tmp_path / "order", groups=groups))
    assert list(table.step_size) == [9.0, 10.0] and list(table.index) == [0, 1]
    kinds = [
        remade(first, tmp_path / name, identity=identity_of(first, name, seed=seed, progress=value))
        for seed, (name, value) in enumerate({"yes": True, "one": 1}.items())
    ]
    assert "progress" in collect(kinds).attrs["settings"] and list(collect(kinds, over="seed").runs) == [1] * 4


def test_a_column_of_metrics_does_not_stand_for_the_setting_of_its_name(runs, tmp_path):
    averages = {"cycles": 5.0, "fit": 2.0}
    (row,) = collect(remade(runs / "network", tmp_path / "fit", averages=averages)).to_dict("records")
    assert row["fit"] == 2.0 and "cycles" not in row


def test_what_is_not_done_is_told_and_not_joined(runs, tmp_path):
    """What a status says of an earlier end is not of a run that goes on; a mean that lacks one of its runs is none."""
    first = runs / "grid" / "0"
    going = remade(first, tmp_path / "going", state="running", identity=identity_of(first, "b", seed=9))
    table = collect(going)
    assert list(table.state) == ["running"] * 2 and list(table.step_size) == [0.3, 1.4] and "ess" not in table
    with pytest.raises(SettingError, match="going is running, as 1 more are: finish it by the command"):
        collect([first, going], over="seed")
    gone = f"process 9999999 on {socket.gethostname()}\n"
    (going / ".lock").write_text(gone)
    assert list(collect(going).state) == ["killed"] * 2
    groups = read_status(first)["groups"]
    lost = {"groups": [{**groups[0], "finite": 0}, {key: groups[1][key] for key in groups[1] if key != "ess"}]}
    other = remade(first, tmp_path / "lost", identity=identity_of(first, "c", seed=9), **lost)
    assert sorted(collect(other).state) == ["diverged", "done"]
    (other / ".lock").write_text(gone)  # as every process is of what is done
    assert sorted(collect(other).state) == ["diverged", "done"]
    joined = collect([first, other], over="seed")
    assert list(joined.runs) == [1, 2] and list(joined.diverged) == [1, 0]
    still = [{**group, **({"still": 5} if number else {})} for number, group in enumerate(groups)]
    other = remade(first, tmp_path / "still", identity=identity_of(first, "d", seed=9), groups=still)
    assert list(collect([first, other], over="seed").still) == [0, 2.5]
    assert joined.ess[0] == groups[0]["ess"] and np.isnan(joined.ess[1]) and joined.accept_prob.notna().all()


@pytest.mark.thorough
def test_what_a_run_says_is_of_its_last_end(tmp_path, capsys):
    """Done after 100 cycles, then continued until it diverges: nothing is left of what was said before."""
    words = ["model=quartic", "sampler=ggmc", "step_size=.6", "seed=1", "burn_in=10", "progress=false"]
    words += [f"output={tmp_path}/run"]
    assert run([*words, "cycles=100"]) == 0
    assert {"averages", "log_accept"} <= {name for name, value in read_status(tmp_path / "run").items() if value}
    assert run([*words, "cycles=1000"]) == 3
    assert main([f"{tmp_path}/run"]) == 0  # nothing but a row of dashes
    (row,) = collect(tmp_path / "run").to_dict("records")
    assert row["state"] == "diverged" and not {"ess", "accept_prob", "potential"} & {*row}
    assert run(["model=quartic", "sampler=sghmc", "step_size=.1", "cycles=40", f"output={tmp_path}/sghmc"]) == 0
    capsys.readouterr()
    assert main([f"{tmp_path}/sghmc"]) == 0
    said = capsys.readouterr().out
    assert " -inf " in said and "acceptance: log MH is -inf" in said
    json.loads((tmp_path / "sghmc" / "status.json").read_text(), parse_constant=pytest.fail)


def test_the_command_prints_the_table_and_writes_all_its_columns(runs, tmp_path, capsys):
    assert main([f"{runs}/grid", "over=seed", f"output={tmp_path}/table.csv"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert {"step_size", "runs", "ess"} <= {*head.split()} and " ± " in lines[0] and len(lines) == 4
    assert lines[2] == "ess_per_work: a gradient" and lines[3] == "acceptance: exactly corrected (metropolis)"
    written = pd.read_csv(tmp_path / "table.csv")
    pd.testing.assert_frame_equal(written, collect([runs / "grid"], "seed"), check_dtype=False, rtol=1e-12)
    assert main([str(runs)]) == 0
    head = capsys.readouterr().out.splitlines()[0].split()
    assert head[:2] == ["run", "state"] and {"accept_prob", "ess", "r_hat", "test_nll"} <= {*head}
    assert not {"sampler.word", "ess_error"} & {*head}
    assert [name for name in head if name.startswith(("model.", "data."))] == ["data.name", "model.name"]
    for words, said in (
        ([], "RUN [RUN"),
        (["over=seed"], "RUN=nothing"),
        ([str(tmp_path)], "is not a run folder"),
        ([str(tmp_path / "gone")], "there is no such folder"),
        ([f"{runs}/grid", "by=seed"], "known are over, output"),
        ([f"{runs}/grid", "over=lr"], "must be seed"),
        ([f"{runs}/grid", f"output={tmp_path}/none/table.csv"], "cannot be written (Cannot save"),
        ([f"{runs}/grid", "output="], "cannot be written"),
    ):
        assert main(words) == (2 if words else 0)
        assert said in "".join(capsys.readouterr())


def test_a_folder_s_name_may_have_bytes_that_are_no_letters(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.collect.say", lambda line: None)  # the command's own output takes them
    shutil.copytree(runs / "tuned", tmp_path / "\udcff")
    assert main([str(tmp_path), f"output={tmp_path}/table.csv"]) == 0
    assert list(pd.read_csv(tmp_path / "table.csv").run) == [f"{tmp_path}/?"]
