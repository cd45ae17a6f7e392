"""Experiments' grids: their points, and the graph that runs them."""

import contextlib
import csv
import errno
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jug.jug
import pytest
import torch
from conftest import Fork, forked

import sgmcmc
from experiments import grid, picture, signals, tables, tasks
from experiments.config import _compose_point, compose
from experiments.dotted import flatten
from experiments.graph import check_folder, plan
from experiments.grid import configurations, sweep
from experiments.resolved import folder, identity, scientific
from experiments.schema import options
from experiments.signals import leave_on_signals, signals_first
from experiments.tables import EXPERIMENTS
from experiments.tasks import lengths, segment
from sgmcmc import load_samples
from sgmcmc.errors import DiskFailed, SettingError
from sgmcmc.loading import load_trace

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_point_of_every_grid_composes_alike_by_both_ways(experiment):
    """Hydra, which is slow, is asked for a point where it has, or says, a value that none before has, at any scale; of
    numbers, and lists of them, one that is written otherwise."""
    points, seen = sweep(experiment), set()
    for scale in ("smoke", "quick", "paper"):
        words = [f"experiment={experiment}", f"scale={scale}"]
        whole, configs = grid._composed(tuple(words)), configurations(experiment, (f"scale={scale}",))
        assert len(configs) == len(points) > 1
        for config, chosen in zip(configs, points, strict=True):
            point = next((int(word.removeprefix("point=")) for word in chosen if word.startswith("point=")), None)
            said = {} if point is None else whole["points"][point]
            kinds = {(key, kind(value)) for values in (flatten(config), said) for key, value in values.items()}
            if kinds <= seen:
                continue
            if point is None or config is configs[0]:
                composed = compose([*words, *chosen])
            else:  # as ``compose`` does, but for another reading of all points
                others = [word for word in chosen if not word.startswith("point=")]
                composed = _compose_point(whole["points"], point, whole, [*words, *others])
            assert config == composed
            seen |= kinds
        assert len({str(config) for config in configs}) == len(configs)


def kind(value):
    """A value's text, or how a number or a list is written."""
    return (type(value), "e" in repr(value)) if type(value) in (int, float, list) else repr(value)


def test_a_setting_of_the_command_line_is_not_swept():
    chosen = configurations("amagold_2d", ("sampler=l2mc", "model=banana"))
    assert [config["sampler"]["name"] for config in chosen] == ["l2mc"]


def test_another_way_of_saying_what_is_swept_is_not_swept_either():
    """ggmc_fig1_as_run sweeps lr and the sampler."""
    chosen = configurations("ggmc_fig1_as_run", ("scale=smoke", "step_size=0.1"))
    assert [(config["sampler"]["name"], config["lr"], config["step_size"]) for config in chosen] == [
        ("ggmc", None, 0.1),
        ("hmc", None, 0.1),
    ]


def test_a_policy_is_swept_beside_the_sampler_that_is_chosen():
    """The uncorrected half of the grid stays."""
    assert len(sweep("finding_corrected", ("sampler=hmc",))) == len(sweep("finding_corrected"))


@pytest.mark.thorough
def test_a_segment_may_end_before_the_burn_in_and_before_the_cycle_that_is_traced(tmp_path):
    words = "model=mlp model.hidden=[4] data=digits data.train_size=40 batch_size=20 lr=1e-6 steps_per_cycle=2"
    words += " cycles=5 burn_in=3 trace=1 trace_cycles=[5] schedule=stairs save_every=1"
    config, ended = compose([*words.split(), f"output={tmp_path / 'run'}"]), None
    for cycles in (2, 4, 5):
        ended = segment(config, cycles, ended)
        assert ended["status"] == "done", ended
    assert load_samples(tmp_path / "run").shape[0] == 2 and set(load_trace(tmp_path / "run")["cycle"]) == {5}


@pytest.mark.thorough
def test_a_segment_is_compiled_where_that_pays_by_the_end_of_the_whole_chain(tmp_path, monkeypatch):
    """A grid's chain is compiled where the same run by itself is."""
    asked = []
    monkeypatch.setattr("experiments.build.compiles", lambda *given: asked.append(given[4]))
    words = "model=mlp model.hidden=[4] data=digits data.train_size=40 batch_size=20 lr=1e-6 steps_per_cycle=2 cycles=5"
    config, ended = compose([*words.split(), f"output={tmp_path / 'run'}"]), None
    for cycles in (2, 5):
        ended = segment(config, cycles, ended)
    assert ended["status"] == "done" and set(asked) == {5}


def test_every_experiment_has_its_table_or_is_a_chain():
    assert set(options("experiment")) == {*EXPERIMENTS, "digits", "garriga2021", "wenzel2020"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["experiment=neal_rejecton"], "did you mean neal_rejection"),
        (["scale=quik"], "scale=quik: must be one of paper, quick, smoke"),
        (
            ["experiment=digits"],
            "no table is named for it in experiments/tables; python run.py experiment=digits (with",
        ),
        (["experiment=amagold_fig1", "chans=3"], "chans"),
        (["quick"], "quick: is not KEY=VALUE"),
    ],
)
def test_an_unknown_word_is_one_sentence_and_status_2(words, told, capsys):
    with pytest.raises(SystemExit) as left:
        plan(["jugfile.py", *words])
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert told in said and len(said.splitlines()) == 1


def test_a_full_disk_is_no_result(monkeypatch, capsys):
    from experiments import run

    def full(*given, **more):
        raise DiskFailed("run: no space is left on the disk")

    monkeypatch.setattr(run, "run", full)
    with pytest.raises(SystemExit) as left:
        segment(compose(["model=banana", "step_size=0.1"]), 3, None)
    assert left.value.code == 75 and "no space" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_between_runs_ends_a_worker_with_status_75(number):
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM)}
    for how in (signal.raise_signal, swallowed, replaced):
        try:
            leave_on_signals()
            with pytest.raises(SystemExit) as left, signals_first():
                how(number)
        finally:
            signal.alarm(0)
            for one, handler in before.items():
                signal.signal(one, handler)
        assert left.value.code == 75
    with signals_first():  # it is seen to once
        pass


def test_ctrl_c_while_a_worker_imports_ends_it_without_a_traceback(tmp_path):
    code = """
import signal, sys
import jug.jug
class Interrupts:
    def find_spec(self, name, *_):
        if name == "torch":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
jug.jug.main()
"""
    words = ["execute", "jugfile.py", "--jugdir", str(tmp_path)]
    ended = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (75, "stopped\n")


@pytest.mark.thorough
def test_a_signal_that_is_lost_is_told_again(monkeypatch):
    monkeypatch.setattr(signals, "AGAIN", 1)
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM)}
    try:
        leave_on_signals()
        swallowed(signal.SIGTERM)
        with pytest.raises(SystemExit) as left:
            time.sleep(30)
    finally:
        signal.alarm(0)
        for one, handler in before.items():
            signal.signal(one, handler)
    assert left.value.code == 75
    with pytest.raises(SystemExit), signals_first():
        pass


@pytest.mark.thorough
def test_a_process_that_ends_slowly_is_not_told_again():
    code = """
import atexit, signal, time
from experiments import signals
atexit.register(time.sleep, 2)
signals.AGAIN = 1
signals.leave_on_signals()
signal.raise_signal(signal.SIGTERM)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert (done.returncode, done.stderr) == (75, "stopped\n")


@pytest.mark.thorough
def test_a_signal_within_a_finaliser_is_told_again_without_a_traceback():
    code = """
import signal, time
from experiments import signals
signals.AGAIN = 1
signals.leave_on_signals()

class Kept:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)

class Broken:
    def __del__(self):
        raise ValueError("this is told")

Broken()
Kept()
time.sleep(30)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 75 and done.stderr.endswith("this is told\nstopped\n") and "Exit" not in done.stderr


def swallowed(number):
    with contextlib.suppress(BaseException):
        signal.raise_signal(number)


def replaced(number):
    try:
        signal.raise_signal(number)
    finally:
        raise AttributeError("a clean-up that fails in its turn")


def test_a_network_s_chain_is_a_string_of_segments():
    config = compose(["lr=1e-4"])
    assert lengths(config) == list(range(30, 301, 30))
    assert lengths({**config, "epochs": 450}) == [30, 45]
    assert lengths(compose(["model=banana", "step_size=.1", "cycles=70"])) == [70]


@pytest.mark.thorough
def test_a_word_that_makes_points_one_run_is_refused(monkeypatch):
    """A table would count that run as several seeds; of one point, or of points that do not say it, it is none."""
    assert len(configurations("finding_cycles", ("scale=smoke", "seed=3"))) == 16
    real = grid._composed
    monkeypatch.setattr(
        grid, "_composed", lambda words: {**real(words), "points": [{"cycles": 8, "seed": n} for n in range(8)]}
    )
    with pytest.raises(SettingError, match="^seed=3: makes the 16 runs of experiment=finding_cycles 2, for its points"):
        configurations("finding_cycles", ("scale=smoke", "seed=3"))
    assert len(configurations("finding_cycles", ("scale=smoke", "seed=3", "point=4"))) == 2
    assert len(configurations("finding_cycles", ("scale=smoke", "temperature=2"))) == 16


@pytest.mark.thorough
def test_a_task_does_not_depend_on_where_the_data_lie(monkeypatch):
    monkeypatch.delenv("SGMCMC_DATA", raising=False)
    one = configurations("amagold_table2", ("scale=smoke",))
    monkeypatch.setenv("SGMCMC_DATA", "/elsewhere")
    grid._composition.cache_clear()
    assert configurations("amagold_table2", ("scale=smoke",)) == one


def test_a_folder_that_another_process_writes_is_no_result(tmp_path, monkeypatch, capsys):
    """The worker leaves; were it a failed chain, the grid would never run it again."""
    monkeypatch.chdir(tmp_path)
    config = compose(["model=double_well", "sampler=amagold", "step_size=.1", "cycles=20", "name=busy"])
    path = folder(config)
    path.mkdir(parents=True)
    with open(path / ".lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(SystemExit) as left:
            segment(config, 20, None)
    assert left.value.code == 75 and "is being written by" in capsys.readouterr().err
    assert segment(config, 20, None)["status"] == "done"


@pytest.mark.thorough
def test_a_folder_that_looked_older_than_it_is_is_no_result(tmp_path, monkeypatch, capsys):
    """As a shared file system's cache may show it to another machine, a minute long: the worker leaves, as above."""
    monkeypatch.chdir(tmp_path)
    config = compose(["model=double_well", "sampler=amagold", "step_size=.1", "cycles=20", "name=stale"])
    begun = segment(config, 10, None)
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as left:
        patch.setattr(sgmcmc.RunFolder, "load", lambda self: None)
        segment(config, 20, begun)
    assert left.value.code == 75 and "holds blocks that this run did not load: start it" in capsys.readouterr().err
    assert segment(config, 20, begun)["status"] == "done" and len(load_samples(folder(config))) == 20


def test_data_that_cannot_be_read_here_are_no_result(tmp_path, monkeypatch, capsys):
    """Of one machine of many, or of today: were it a failed chain, the grid would never run it again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SGMCMC_DATA", str(tmp_path))
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci/heart.dat").write_bytes(b"not this")
    config = compose(["model=logistic", "data=heart", "sampler=hmc", "step_size=.1", "cycles=5", "name=dataless"])
    with pytest.raises(SystemExit) as left:
        segment(config, 5, None)
    assert left.value.code == 2 and "heart.dat is damaged" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_device_that_is_not_here_is_no_result(tmp_path, monkeypatch, capsys):
    """Of one machine of many: a node without a GPU would end a whole grid by failed chains."""
    monkeypatch.chdir(tmp_path)
    words = ["model=banana", "sampler=hmc", "step_size=.1", "cycles=5", "name=deviceless"]
    with pytest.raises(SystemExit) as left:
        segment(compose([*words, "device=cuda:99"]), 5, None)
    assert left.value.code == 2 and "device=cuda:99: this machine has" in capsys.readouterr().err
    with pytest.raises(SystemExit) as left:
        segment(compose([*words, "device=cpu", "graph=true"]), 5, None)
    assert left.value.code == 2 and "graph=true: a CUDA graph needs" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()
    assert segment(compose([*words, "device=cpu"]), 5, None)["status"] == "done"


def test_positions_that_cannot_be_read_here_are_no_result(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = compose(["model=banana", "sampler=hmc", "step_size=.1", "cycles=5", "init=start.pt", "name=startless"])

    def ended() -> str:
        with pytest.raises(SystemExit) as left:
            segment(config, 5, None)
        assert left.value.code == 2 and not (tmp_path / "results").exists()
        return capsys.readouterr().err

    assert ended() == "init=start.pt: must be he, torch, sgd, exact, or a file of parameters that is there\n"
    torch.save(torch.zeros(2), "start.pt")

    def unreadable(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", "start.pt")

    for name in ("torch.load", "pathlib.Path.is_file"):  # the file, or the folder that it is in
        with monkeypatch.context() as patched:
            patched.setattr(name, unreadable)
            assert ended() == "init=start.pt: cannot be read: Permission denied\n"

    def away(*_, **__):
        raise OSError(errno.ESTALE, "Stale file handle")

    with monkeypatch.context() as patched, pytest.raises(SystemExit) as left:
        patched.setattr("torch.load", away)
        segment(config, 5, None)
    said = "init=start.pt: the disk does not answer (Stale file handle): start again when it does\n"
    assert left.value.code == 75 and capsys.readouterr().err == said
    assert segment(config, 5, None)["status"] == "done"


def test_a_table_made_by_other_code_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = {"experiment": "neal_rejection", "scale": "smoke", "code": tables.CODE["neal_rejection"]}
    table = {"rows": [{"rejected": 0.5}], "made": made}
    tasks.bring_back("neal_rejection", "smoke", table)
    path = tasks.table_path("neal_rejection", "smoke")
    assert path.read_text() == "rejected\n0.5\n" and "other code" not in capsys.readouterr().err
    table["made"]["code"] = tables.CODE["amagold_fig1"]
    tasks.bring_back("neal_rejection", "smoke", table)
    told = capsys.readouterr().err
    assert f"{path} was made by other code than experiments/tables has now; `jug invalidate jugfile.py" in told


def test_a_look_does_not_replace_a_table_that_is_there(tmp_path, monkeypatch, capsys):
    """A newer one may have come from elsewhere."""
    monkeypatch.chdir(tmp_path)
    made = {"experiment": "neal_rejection", "scale": "smoke", "code": tables.CODE["neal_rejection"]}
    table, path = {"rows": [{"rejected": 0.5}], "made": made}, tasks.table_path("neal_rejection", "smoke")
    for _ in range(2):
        tasks.bring_back("neal_rejection", "smoke", table)
        assert "is not the table of jug's store" not in capsys.readouterr().err
    path.with_suffix(".json").unlink()
    tasks.bring_back("neal_rejection", "smoke", table)
    assert path.with_suffix(".json").exists()
    path.write_text("rejected\n0.25\n")
    tasks.bring_back("neal_rejection", "smoke", table)
    assert f"{path} is not the table of jug's store, which is written where none is" in capsys.readouterr().err
    assert path.read_text() == "rejected\n0.25\n"
    for file in (path, path.with_suffix(".json")):  # what a disk has spoilt is another one, too
        for spoilt in (b"\xff\xfe\x00", b"[]"):
            file.write_bytes(spoilt)
            tasks.bring_back("neal_rejection", "smoke", table)
            tasks.write_table(path, table["rows"], table["made"])
            assert path.read_text() == "rejected\n0.5\n"
            assert json.loads(path.with_suffix(".json").read_text()) == table["made"]


def test_a_store_beside_the_jugfile_is_for_workers_of_its_folder(tmp_path, monkeypatch, capsys):
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    other.mkdir()
    monkeypatch.chdir(other)
    for jugfile, store in (("../home/jugfile.py", "store"), ("../home/jugfile.py", "redis://host:1")):
        check_folder(jugfile, store)
    with pytest.raises(SystemExit) as left:
        check_folder("../home/jugfile.py", "../home/jugfile.jugdata")
    assert left.value.code == 2 and f"{home} is the jugfile's folder" in capsys.readouterr().err
    monkeypatch.chdir(home)
    check_folder("jugfile.py", "jugfile.jugdata")


def test_a_store_that_cannot_be_made_is_one_sentence(tmp_path, monkeypatch, capsys):
    """In a tree that is another user's. Root may write everywhere, so the answer is made up."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    monkeypatch.setattr(sys, "orig_argv", ["jug", "execute", "jugfile.py"])
    for store in ("jugfile.jugdata", str(tmp_path / "not" / "there")):
        with pytest.raises(SystemExit) as left:
            check_folder("jugfile.py", store)
        said = f"--jugdir {store}: {tmp_path} is not yours to write; give another folder\n"
        assert left.value.code == 2 and capsys.readouterr().err == said


def test_a_store_that_is_another_user_s_is_for_readers(tmp_path, monkeypatch, capsys):
    """Root may write everywhere, so the answer is made up."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    monkeypatch.setattr(sys, "orig_argv", ["jug", "status", "jugfile.py"])
    check_folder("jugfile.py", str(tmp_path))
    monkeypatch.setattr(sys, "orig_argv", ["jug", "execute", "jugfile.py"])
    with pytest.raises(SystemExit) as left:
        check_folder("jugfile.py", str(tmp_path))
    said = f"--jugdir {tmp_path}: {tmp_path} is not yours to write; give another folder\n"
    assert left.value.code == 2 and capsys.readouterr().err == said


def test_a_grid_that_has_a_run_twice_is_refused_however_it_is_written():
    twice = [["point=0"], ["point=1", "seed=1"], ["point=1", "seed=01"]]
    with pytest.raises(SettingError) as error:
        configurations("neal_rejection", ("scale=smoke",), twice)
    said = "experiment=neal_rejection: has a run twice, the 2. and the 3. of its grid, which its tables would count as"
    assert str(error.value).startswith(said)
    with pytest.raises(SettingError, match="has a run twice"):
        configurations("neal_rejection", ("scale=smoke", "device=cpu"), twice)
    assert len(configurations("neal_rejection", ("scale=smoke", "temperature=2"), twice)) == 3  # to try it out


def test_a_sweep_that_is_no_list_is_refused(monkeypatch):
    monkeypatch.setattr("experiments.grid._composition", lambda words: ({"points": []}, {"seed": "0,,1"}))
    with pytest.raises(SettingError) as error:
        sweep("mine")
    said = "hydra.sweeper.params.seed=0,,1: of experiment=mine is no list of values, such as seed: 0,1"
    assert str(error.value) == said


@pytest.mark.slow
def test_a_chain_of_very_many_segments_has_a_task_graph(tmp_path, monkeypatch):
    """Each is an argument of the next: hashed at the end alone, so many would be deeper than Python's stack."""
    for name in ("conf", "experiments", "sgmcmc", "jugfile.py"):
        (tmp_path / name).symlink_to(ROOT / name)
    words = ["jugfile.py", "experiment=finding_corrected", "scale=smoke"]
    words += ["seed=0", "sampler.acceptance=monitor", "epochs=60000"]
    ended = forked(jug.jug.main, "jug", "status", *words, folder=tmp_path)
    assert " 2000 " in ended.stdout and "Error" not in ended.stdout + ended.stderr


@pytest.mark.thorough
def test_a_table_of_other_chains_is_another_file(tmp_path, monkeypatch, capsys):
    """A setting behind ``jug execute``, of those that results depend on, gives another table of the same name."""
    monkeypatch.chdir(tmp_path)
    ((_, _, _, own),) = plan(["jugfile.py", "experiment=neal_rejection", "scale=smoke", "device=cpu", "data.root=x"])
    ((_, _, _, other),) = plan(["jugfile.py", "experiment=neal_rejection", "scale=smoke", "seed=1", "device=cpu"])
    assert (own, other) == ([], ["seed=1"])
    places = [tasks.table_path("neal_rejection", scale, *own) for scale in ("paper", "quick", "smoke")]
    assert [str(path.parent) for path in places] == [
        "results/paper/tables",
        "results/quick/tables",
        "results/runs/smoke/tables",
    ]
    path = tasks.table_path("neal_rejection", "paper", *other)
    assert path == Path("results/runs/paper,seed=1/tables/neal_rejection.csv")
    longer = tasks.table_path("neal_rejection", "paper", "init=a/b", "name=" + 300 * "x")
    assert longer.parts[:2] == ("results", "runs") and len(longer.parts) == 5 and len(longer.parts[2]) < 255
    greek = tasks.table_path("neal_rejection", "paper", "name=" + 300 * "θ")
    assert len(greek.parts[2].encode()) < 255
    assert tasks.table_path("neal_rejection", "paper", "init=a/b", "name=" + 301 * "x") != longer
    made = {"experiment": "neal_rejection", "scale": "paper", "words": "seed=1"}
    tasks.bring_back("neal_rejection", "paper", {"rows": [{"rejected": 0.5}], "made": made}, *other)
    assert path.exists() and not Path("results/paper").exists()
    for chains, edited in (("a", False), ("a", False), ("b", True)):  # a table that does not know its chains may be
        tasks.write_table(path, [{"rejected": 0.4}], made | {"chains": chains})
        assert ("was of other chains: experiment=neal_rejection was edited since" in capsys.readouterr().err) == edited


@pytest.mark.slow
def test_jug_runs_a_grid_writes_its_table_and_says_that_it_is_done(tmp_path, monkeypatch):
    """Two workers side by side; the table's rows are the grid's points."""
    monkeypatch.setattr(picture, "draw", lambda folder, *_: folder / picture.NAME)  # which takes longer than a run
    for name in ("conf", "experiments", "sgmcmc", "jugfile.py"):
        (tmp_path / name).symlink_to(ROOT / name)
    words = ["jugfile.py", "experiment=neal_rejection", "scale=smoke"]
    workers = [Fork(jug.jug.main, "jug", "execute", *words, "--will-cite", folder=tmp_path) for _ in range(2)]
    ended = [worker.wait() for worker in workers]
    assert [worker.returncode for worker in ended] == [0, 0]
    said = "".join(worker.stdout for worker in ended)
    for number in range(10):  # by whichever of them
        assert said.count(f"chain {number + 1} of 10: experiment=neal_rejection scale=smoke point={number}\n") == 1
    for command in (["execute", "--will-cite"], ["check"]):
        assert forked(jug.jug.main, "jug", command[0], *words, *command[1:], folder=tmp_path).returncode == 0
    with open(tmp_path / "results/runs/smoke/tables/neal_rejection.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["sampler"] for row in rows] == [
        config["sampler"]["name"] for config in configurations("neal_rejection")
    ]
    assert all(row["status"] == "done" and 0 <= float(row["rejected"]) <= 1 for row in rows)


def telling():
    """Tables that are kept and say of which chains they were made, one an experiment."""
    made = [json.loads(path.read_text()) for path in sorted((ROOT / "results").glob("paper/tables/*.json"))]
    return {(one["experiment"], one["scale"], one.get("words", "")): one["chains"] for one in made if "chains" in one}


@pytest.mark.thorough
@pytest.mark.parametrize("key", telling(), ids=" ".join)
def test_tables_that_are_kept_are_of_their_experiments_as_they_are(key, monkeypatch):
    """But for the law, which may have been raised since."""
    (experiment, scale, words), chains = key, set()
    configs = configurations(experiment, (f"scale={scale}", *words.split()))
    for law in range(sgmcmc.LAW + 1):
        monkeypatch.setattr(sgmcmc, "LAW", law)
        chains.add(hashlib.sha256(" ".join(map(identity, configs)).encode()).hexdigest()[:12])
    assert telling()[key] in chains


def test_a_word_that_no_chain_of_a_grid_uses_is_told(capsys):
    words = ["batch_size=4", "friction=1", "seed=1", "debug=false", "trace=false", "+smoke.thin=2", "+quick.thin=2"]
    plan(["jugfile.py", "experiment=neal_rejection", "scale=smoke", *words])
    told = [line.partition(" ")[0] for line in capsys.readouterr().err.splitlines()]
    assert told == ["batch_size=4", "friction=1", "+quick.thin=2"]


def test_one_folder_for_all_chains_of_a_grid_is_refused(capsys):
    """The second would be told that it is the first one's; one chain may have one, and each its own."""
    words = ["jugfile.py", "experiment=neal_rejection", "scale=smoke"]
    with pytest.raises(SystemExit) as left:
        plan([*words, "output=here"])
    assert left.value.code == 2 and capsys.readouterr().err.startswith(
        "output=here: is one folder, and the grid has 10"
    )
    assert len(plan([*words, "output=here", "point=1"])[0][2]) == 1


PINNED_GRIDS = {  # of experiments none of whose tables tells: the first digits of a hash of all their settings
    "ggmc_fig1": "3ce173c2",
    "ggmc_fig1_cycle": "315dc0a4",
    "finding_fig1": "db4af887",
    "ggmc_fig1_as_run": "22932ab6",
    "ggmc_fig1_averaged": "50bf7855",
    "ggmc_discarded": "b90fb89b",
    "amagold_one_chain": "c6be809f",
    "neal_pictures": "ab4b4e2d",
    "finding_words_network": "cddc5ce2",
    "finding_theorem2": "58814a39",
    "finding_trajectory": "d1a03984",
    "finding_cycles": "be0e542c",
    "finding_corrected": "7be4c851",
    "finding_bnn_resnet": "95bb9617",
}


@pytest.mark.thorough
@pytest.mark.parametrize("experiment", [name for name in EXPERIMENTS if (name, "paper", "") not in telling()])
def test_the_settings_of_a_paper_s_grid_are_pinned(experiment):
    text = json.dumps([scientific(one) for one in configurations(experiment, ("scale=paper",))], sort_keys=True)
    here = hashlib.sha256(text.encode()).hexdigest()[:8]
    assert PINNED_GRIDS.get(experiment) == here, f'PINNED_GRIDS lacks "{experiment}": "{here}", or has another grid'
