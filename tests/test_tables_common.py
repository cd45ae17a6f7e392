"""What every maker of a table knows of a run: its chains, how it ended, what its trajectories cost."""

import errno
import json
import math
import os
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from made import MadeRun

import sgmcmc
from experiments import tables, tasks
from experiments.config import compose
from experiments.resolved import folder, identity
from experiments.run import run
from experiments.tables import common
from experiments.tables.common import Joined, data_size, gradients_of, moved, of_each, passes, standard_error
from sgmcmc import formats
from sgmcmc.kernel import make_kernel
from sgmcmc.potentials.analytic import Gaussian
from sgmcmc.potentials.regression import GeneratedLogistic


def test_gradients_of_a_trajectory_are_counted_at_each_position_once():
    """As ``Kernel.work`` does; a full gradient at the start is that of the end before."""
    for gradient, trajectories in (
        ("minibatch", (("OBABO", 10), ("ABOBA", 11), ("BAB", 10), ("BABOBAB", 5))),
        ("full", (("OBABO", 11), ("ABOBA", 11), ("BAB", 11))),
    ):
        for word, steps in trajectories:
            config = {"sampler": {"word": word, "gradient": gradient, "ends": None}, "steps_per_cycle": steps}
            assert gradients_of(config) == gradients_of({**config, "steps_per_cycle": None}, steps) == 11
            kernel = make_kernel("ggmc", Gaussian(1), 0.1, word=word, steps=steps, gradient=gradient, refresh="full")
            assert kernel.work(1.0, Gaussian(1))[0] == 11


@pytest.mark.parametrize(
    ("sampler", "settings", "cost"),
    [
        ("amagold", {}, 2.6),
        ("sghmc", {}, 1.6),
        ("hmc", {}, 10.0),
        ("l2mc", {}, 11.0),
        ("ggmc", {}, 1.76),
        ("ggmc", {"acceptance": "metropolis"}, 2.76),
        ("ggmc", {"ends": "exact"}, 2.44),
        ("ggmc", {"ends": "exact", "acceptance": "metropolis"}, 2.44),
        ("ggmc", {"gradient": "full"}, 10.0),
        ("hmc", {"acceptance": "barker_minibatch", "gradient": "minibatch"}, 1.76),
    ],
)
def test_passes_of_a_trajectory_are_its_gradients_and_u_at_its_end(sampler, settings, cost):
    """Of 10 steps, with minibatches of 16 of 100 data; as ``Kernel.work`` says, but for U that is only measured."""
    target = GeneratedLogistic(100, 2)
    kernel = make_kernel(sampler, target, 0.01, steps=10, batch_size=16, **settings)
    policies = {key: getattr(kernel, key) for key in ("gradient", "ends", "acceptance")}
    config = {"sampler": {"word": kernel.word.letters, **policies}, "batch_size": 16, "steps_per_cycle": 10}
    gradients, energies = kernel.work(0.16, target)
    assert passes({**config, "data": {"train_size": 100}}) == pytest.approx(cost)
    assert gradients + (energies if kernel.acceptance != "monitor" else 0) == pytest.approx(cost)


def test_a_view_is_a_datum_of_its_own_share():
    """Ten kicks on 16 of 50,000 data in 4 views each: a pass is 200,000."""
    sampler = {"word": "OBABO", "gradient": "minibatch", "ends": "minibatch", "acceptance": "metropolis"}
    config = {
        "sampler": sampler,
        "batch_size": 16,
        "steps_per_cycle": 9,
        "data": {"name": "cifar10", "train_size": None},
    }
    assert passes(config) == pytest.approx(10 * 16 / 50_000 + 1)
    assert passes({**config, "views": 4}) == pytest.approx(10 * 16 / 200_000 + 1)
    assert passes({**config, "views": 4}, 4) == pytest.approx(5 * 16 / 200_000 + 1)


@pytest.mark.parametrize(
    ("name", "size"), [("cifar10", 50_000), ("mnist", 60_000), ("digits", 1_500), ("heart", 270), ("australian", 690)]
)
def test_a_whole_set_has_its_published_number_of_data(name, size):
    """The hand-written digits are 1,797, of which the last 297 are for tests."""
    assert data_size({"data": {"name": name, "train_size": None}}) == size
    assert data_size({"data": {"name": name, "train_size": 123}}) == 123


def test_a_draw_has_moved_where_any_coordinate_has():
    """The second chain in its last coordinate alone, the third at the second step only, the fourth there and back."""
    draws = torch.zeros(3, 4, 5)
    draws[:, 0] = torch.arange(3.0)[:, None]
    draws[1:, 1, 4] = torch.tensor([1.0, 2.0])
    draws[2, 2, 1] = -1
    draws[1, 3, 0] = 1
    assert moved(draws).tolist() == [[True, True, False, True], [True, True, True, True]]


def test_a_standard_error_is_of_the_mean_of_a_sample():
    """Of 1, 2, 4, 9, 14: squared deviations from 6 add up to 118, over 4, over 5. Of two: half their difference."""
    assert standard_error([1, 2, 4, 9, 14]) == pytest.approx(math.sqrt(118 / 4 / 5))
    assert standard_error([3, 8]) == pytest.approx(2.5)
    assert math.isnan(standard_error([5.0]))


def test_a_mean_over_cycles_is_of_those_after_the_burn_in_once_each():
    """Rows of 10 cycles: the first is the burn-in's, that of 25 is in the next one again, the last one is of 7."""
    metrics = {"cycle": np.array([10, 20, 25, 30, 37]), "accepted": np.array([1.0, 0.4, 0.9, 0.7, 0.1])}
    run = MadeRun(config={"log_every": 10, "burn_in": 10}, metrics=metrics)
    assert common.over_cycles(run, "accepted") == pytest.approx((10 * 0.4 + 10 * 0.7 + 7 * 0.1) / 27)
    longer = MadeRun(config={"log_every": 10, "burn_in": 11}, metrics=metrics)
    assert common.over_cycles(longer, "accepted") == pytest.approx((10 * 0.7 + 7 * 0.1) / 17)
    assert math.isnan(common.over_cycles(MadeRun(config={"log_every": 10, "burn_in": 31}, metrics=metrics), "accepted"))


def test_chains_are_spread_over_step_sizes_in_order():
    """Also those that diverged, which count among the frozen and not among the chains of a row."""
    run = MadeRun(config={"step_size": [0.1, 0.2, 0.4], "chains": 12}, facts={"frozen": [3, 4, 5, 6, 7, 11]})
    assert list(run.groups()) == [(0.1, range(4)), (0.2, range(4, 8)), (0.4, range(8, 12))]
    assert list(run.alive_groups()) == [
        (0.1, [0, 1, 2], {"chains": 3, "frozen": 1}),
        (0.2, [], {"chains": 0, "frozen": 4}),
        (0.4, [8, 9, 10], {"chains": 3, "frozen": 1}),
    ]
    assert list(MadeRun(config={"step_size": 0.3, "chains": 5}).groups()) == [(0.3, range(5))]


def test_every_run_has_its_rows_or_one_that_says_why_not():
    """A finished run without rows has none; one that diverged has those of what it left only where that is asked."""
    made = [("done", 2, ""), ("done", 0, ""), ("diverged", 1, ""), ("failed", 0, "no memory"), ("failed", 0, "")]
    runs = [
        MadeRun(
            number=number,
            config={"sampler": {"name": f"s{number}"}, "lr": number / 10, "rows": rows},
            status=status,
            why=why,
            facts={"cycles": 7, "seconds": 1.5 + number},
        )
        for number, (status, rows, why) in enumerate(made)
    ]

    def rows(run):
        for row in range(run.config["rows"]):
            yield {"row": row}

    def settings(run):
        return {"lr": run.config["lr"]}

    def said(number, status, **more):
        return {"sampler": f"s{number}", "status": status, "lr": number / 10, **more}

    done = [said(0, "done", row=0, seconds=1.5), said(0, "done", row=1, seconds=1.5)]
    failed = [said(3, "failed", why="no memory"), said(4, "failed", why="failed")]
    left = said(2, "diverged", why="diverged at cycle 7")
    assert of_each(rows, settings)(runs) == [*done, left, *failed]
    assert of_each(rows, settings, diverged=True)(runs) == [*done, left | {"row": 0, "seconds": 3.5}, *failed]
    assert of_each(rows)(runs[:1])[0] == {"sampler": "s0", "status": "done", "row": 0, "seconds": 1.5}


def test_a_table_of_parts_is_that_of_all_runs_and_says_what_it_was_made_on(tmp_path, monkeypatch):
    """Seconds of all runs but those that failed, each machine once, commits by twelve digits and what was changed."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    environments = [
        {"processor": "one", "device": "cpu", "torch": "2.1", "git_commit": f"{commit}+changes"},
        {"processor": "two", "device": "cpu", "torch": None, "git_commit": None},
    ]
    ends = []
    for number, (status, seconds) in enumerate([("done", 1.26), ("diverged", 2.5), ("done", None), ("failed", 9.0)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        says = {"seconds": seconds, "environments": environments[number % 2 :], "cycles": 3}
        (folder / "status.json").write_text(json.dumps({**says, "sha256": formats.signature(says)}))
        ends.append({"status": status, "folder": str(folder)})
    configs = [{"sampler": {"name": name}, "cycles": 3} for name in "abcd"]

    def each(runs):
        return [{"sampler": run.sampler, "status": run.status, "here": run.path.name} for run in runs]

    def join(rows):
        return [{"all": "".join(row["sampler"] for row in rows)}]

    monkeypatch.setitem(tables.TABLES, "joined", ("some", Joined(each, join)))
    monkeypatch.setitem(tables.TABLES, "plain", ("some", each))
    rows, made = tables.make("joined", configs, ends)
    assert rows == [{"all": "abcd"}]
    assert made == {
        "runs": 4,
        "seconds": 3.8,
        "processor": ["one", "two"],
        "device": ["cpu"],
        "torch": ["2.1"],
        "commit": ["0123456789ab+changes"],
    }
    for name in ("joined", "plain"):
        parts = [tables.make_part(name, *pair) for pair in zip(configs, ends, strict=True)]
        assert [part[1]["seconds"] for part in parts] == [1.3, 2.5, 0, 0] and parts[0][1]["runs"] == 1
        assert tables.join(name, [row for rows, _ in parts for row in rows]) == tables.make(name, configs, ends)[0]
    assert tables.tables_of("some") == ["joined", "plain"]


def test_a_table_s_code_is_that_of_its_module_and_of_what_it_works_with():
    """Of Neal's, the module, the common one and the statistics; every table has one, a module's have the same."""
    here = Path(tables.__file__).parent
    files = b"".join((here / name).read_bytes() for name in ("common.py", "neal.py", "statistics.py"))
    assert tables.CODE["neal_mixed"] == tables.CODE["neal_iid"] == sha256(files).hexdigest()[:12]
    assert tables.CODE.keys() == tables.TABLES.keys() and tables.CODE["note_energy"] != tables.CODE["neal_mixed"]


def test_no_table_is_made_of_a_run_that_is_longer_than_it_asks_for(monkeypatch, tmp_path, capsys):
    """It was made so before: by itself, at another scale, or before its experiment was edited. The table that is there
    stays, and the worker ends with a sentence."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(common, "read_status", lambda path: {"cycles": 300})
    monkeypatch.setitem(tables.TABLES, "mine", ("mine", lambda runs: [{"status": run.status} for run in runs]))
    monkeypatch.setitem(tables.CODE, "mine", "0")
    (tmp_path / "metrics.csv").touch()
    config = {"model": {}, "data": {}}
    ends = [{"status": "done", "folder": str(tmp_path), "hash": identity(config)}]
    made = tasks.table("mine", "mine", "quick", [{**config, "cycles": 300}], ends)
    path = Path("results/quick/tables/mine.csv")
    assert made["rows"] == [{"status": "done"}] and path.read_text() == "status\ndone\n"
    with pytest.raises(SystemExit) as left:
        tasks.table("mine", "mine", "quick", [{**config, "cycles": 200}], ends)
    (told,) = capsys.readouterr().err.splitlines()[-1:]
    assert left.value.code == 2 and told == (
        f"{path} is not made: {tmp_path} has 300 cycles, more than the 200 of this table: move it away, and run again "
        "(`jug invalidate jugfile.py experiment=mine scale=quick --name experiments.tasks.segment` makes it run again)"
    )
    assert path.read_text() == "status\ndone\n"
    with pytest.raises(SystemExit):  # another folder's worker had the rest of it
        tasks.table("mine", "mine", "quick", [{**config, "cycles": 400}], ends)
    told = capsys.readouterr().err
    assert f"{path} is not made: {tmp_path} has 300 cycles, fewer than the 400 of this table (`jug invalidate" in told
    # Somebody made it longer, and that was killed, or goes on: the status has the cycles of the end before.
    monkeypatch.setattr(common, "read_status", lambda path: {"cycles": 300, "state": "running"})
    with pytest.raises(SystemExit):
        tasks.table("mine", "mine", "quick", [{**config, "cycles": 300}], ends)
    told = capsys.readouterr().err
    assert f"{tmp_path} was gone on with after the 300 cycles of this table, and is running (`jug invalidate" in told
    (tmp_path / "metrics.csv").unlink()
    with pytest.raises(SystemExit):
        tasks.table("mine", "mine", "quick", [{**config, "cycles": 300}], ends)
    told = capsys.readouterr().err
    assert "is not below" in told and told.endswith(" makes it run again\n") and "; if it was deleted, `jug" in told


def test_chains_that_are_longer_than_a_table_asks_are_told_before_any_is_run(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    configs = [compose(f"model=gaussian sampler=hmc step_size=.1 cycles=4 seed={seed}".split()) for seed in range(3)]
    for config, cycles in zip(configs, (4, 5), strict=False):
        assert run({**config, "cycles": cycles}) == 0
    capsys.readouterr()
    tasks.tell_longer("mine", configs[:1] + configs[2:])
    assert capsys.readouterr().err == ""
    tasks.tell_longer("mine", configs)
    assert capsys.readouterr().err == (
        f"of experiment=mine's 3 chains 1 have more cycles than it asks for ({folder(configs[1])} has 5, not 4): "
        "its tables will not be made; move these away\n"
    )


def test_a_folder_that_cannot_be_had_is_no_result(monkeypatch, tmp_path, capsys):
    """It is of this machine, or of today: were it a failed chain, the grid would never run it again."""
    monkeypatch.chdir(tmp_path)
    config = compose("model=gaussian sampler=hmc step_size=.1 cycles=4".split())
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "runs").symlink_to("/scratch/that/is/not/mounted")
    with pytest.raises(SystemExit) as left:
        tasks.segment(config, 4, None)
    assert left.value.code == 2 and "is this run's output what you meant?" in capsys.readouterr().err
    (tmp_path / "results" / "runs").unlink()
    assert tasks.segment(config, 4, None)["status"] == "done"


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (errno.ENOSPC, 75, "no space is left on the disk: what was written before is intact"),
        (errno.ESTALE, 75, "the disk does not answer (Stale file handle): start again when it does"),
        (errno.EROFS, 2, "the disk is read-only: the results' folder has to be there, and yours to write"),
        (errno.ENOENT, 2, "No such file or directory: the results' folder has to be there"),
    ],
)
def test_a_table_that_cannot_be_written_ends_its_worker_with_a_sentence(
    number, status, said, monkeypatch, tmp_path, capsys
):
    def failing(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sgmcmc.disk.write", failing)
    monkeypatch.setitem(tables.TABLES, "mine", ("mine", lambda runs: [{"a": 1}]))
    monkeypatch.setitem(tables.CODE, "mine", "0")
    with pytest.raises(SystemExit) as left:
        tasks.table("mine", "mine", "quick", [], [])
    assert left.value.code == status
    (told,) = capsys.readouterr().err.splitlines()
    assert said in told
    tasks.bring_back("mine", "quick", {"rows": [{"a": 1}], "made": {"experiment": "mine"}})  # a look is no work
    (told,) = capsys.readouterr().err.splitlines()
    assert said in told


class Scaled(Gaussian):
    """A class of one's own, which is edited."""

    scale = 1.0

    def potential(self, theta):
        return self.scale * super().potential(theta)

    def gradient(self, theta, batch=None):
        return self.scale * super().gradient(theta)


def of_ones_own(name: str, *words: str) -> dict:
    target = f"model._target_={__name__}.{name}"
    return compose([target, "sampler=hmc", "step_size=0.1", "cycles=20", "progress=false", f"output={name}", *words])


def test_chains_of_a_class_that_was_edited_are_in_no_table(monkeypatch, tmp_path, capsys):
    """Else a table would have rows of two targets, if it was edited while the grid was run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(tables.TABLES, "mine", ("mine", lambda runs: [{"status": run.status} for run in runs]))
    monkeypatch.setitem(tables.CODE, "mine", "0")
    config = of_ones_own("Scaled", "model.dim=2")
    end = tasks.segment(config, 20, None)
    lost = {"status": "failed", "why": "it was", "folder": "gone", "hash": "0"}
    made = tasks.table("mine", "mine", "quick", [config, config], [end, lost])
    assert end["status"] == "done" and [row["status"] for row in made["rows"]] == ["done", "failed"]
    monkeypatch.setattr(Scaled, "scale", 4.0)
    with pytest.raises(SystemExit) as left:
        tasks.table("mine", "mine", "quick", [config], [end])
    told = capsys.readouterr().err.splitlines()[-1]
    assert left.value.code == 2 and "gives another U or gradient than when the run was begun" in told
    again = "`jug invalidate jugfile.py experiment=mine scale=quick --name experiments.tasks.segment` makes"
    assert told.endswith(f"; move Scaled away ({again} it run again)")
    tasks.tell_edited("mine", "quick", [(config, end), (config, lost)])
    assert f"; move Scaled away ({again} its chains run again)\n" in capsys.readouterr().err
    for chains in ([(config, lost)], [(config, {**end, "folder": "gone"})], []):
        tasks.tell_edited("mine", "quick", chains)
    monkeypatch.setattr(Scaled, "scale", 1.0)
    tasks.tell_edited("mine", "quick", [(config, end)])
    assert capsys.readouterr() == ("", "")


@pytest.mark.thorough
def test_chains_of_another_law_are_in_no_table(monkeypatch, tmp_path, capsys):
    """Jug knows the finished ones of a grid by their settings, and the others would be run by the law as it is now."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(tables.TABLES, "mine", ("mine", lambda runs: [{"status": run.status} for run in runs]))
    monkeypatch.setitem(tables.CODE, "mine", "0")
    configs = [compose(f"model=gaussian sampler=hmc step_size=.1 cycles=4 seed={seed}".split()) for seed in range(2)]
    first = tasks.segment(configs[0], 4, None)
    monkeypatch.setattr(sgmcmc, "LAW", sgmcmc.LAW + 1)
    second = tasks.segment(configs[1], 4, None)
    why = f"sgmcmc.LAW={sgmcmc.LAW}: {first['folder']} was run by another LAW, and now has other numbers (`jug inval"
    with pytest.raises(SystemExit) as left:
        tasks.table("mine", "mine", "quick", configs, [first, second])
    assert left.value.code == 2 and capsys.readouterr().err.splitlines()[-1].startswith(why)
    tasks.tell_edited("mine", "quick", zip(configs, [first, second], strict=True))
    assert capsys.readouterr().err.startswith(why)
    anew = tasks.segment(configs[0], 4, None)
    assert len(tasks.table("mine", "mine", "quick", configs, [anew, second])["rows"]) == 2


def test_a_class_that_cannot_be_used_is_no_result(monkeypatch, tmp_path, capsys):
    """It is mended where it is, not by another setting, and then the same command runs it; a setting that cannot work
    is a result, and is told."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        tasks.segment(of_ones_own("Missing"), 20, None)
    assert left.value.code == 2 and "Missing cannot be used" in capsys.readouterr().err
    words = "model=mlp data=digits sampler=ggmc lr=1e-4 batch_size=1500 epochs=7 steps_per_cycle=2"
    end = tasks.segment(compose(words.split()), None, None)
    assert end["status"] == "failed" and end["why"] in capsys.readouterr().err


def test_a_lack_of_memory_is_no_result(monkeypatch, tmp_path, capsys):
    """Another process may have it today."""
    monkeypatch.chdir(tmp_path)
    config = compose("model=gaussian sampler=hmc step_size=.1 cycles=4".split())

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patched:
        patched.setattr("sgmcmc.run", full)
        with pytest.raises(SystemExit) as left:
            tasks.segment(config, 4, None)
    assert left.value.code == 2 and "needs more memory than this machine has" in capsys.readouterr().err
    assert tasks.segment(config, 4, None)["status"] == "done"


def test_a_table_of_other_chains_is_told_where_both_say_which(monkeypatch, tmp_path, capsys):
    """Those by make gpu do not."""
    monkeypatch.chdir(tmp_path)
    path, told = Path("results/quick/tables/mine.csv"), []
    for chains in ("1", None, "2", "3"):
        tasks.write_table(path, [], {"experiment": "mine"} | ({"chains": chains} if chains else {}))
        told.append("was of other chains: experiment=mine was edited since" in capsys.readouterr().err)
    assert told == [False, False, False, True]
