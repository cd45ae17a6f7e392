"""`make gpu`, in miniature on the CPU: chains that go on from call to call, also on another machine."""

import contextlib
import csv
import errno
import importlib.util
import io
import json
import math
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import Fork

from experiments.config import compose
from experiments.resolved import folder
from sgmcmc import LAW, NetworkPotential, SettingError, load_metrics
from sgmcmc.errors import NoRoom
from sgmcmc.formats import pack
from sgmcmc.inductor import CannotCompile

ROOT = Path(__file__).parents[1]
WORDS = "experiment=ggmc_fig1 scale=smoke model.width=2 data.train_size=50 epochs=20 trace_cycles=18".split()
WORDS += ["save_every=1"]


@pytest.fixture
def call(tmp_path, monkeypatch):
    """``call(machine, budget)`` in a folder of its own: where it lies, its exit status."""
    return calls(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One long call: where it lies, its exit status, what it said, its seconds. It is several tests', which leave it
    as it is."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as said:
        call, begun = calls(tmp_path_factory.mktemp("long"), patch), time.process_time()
        root, status = call("whole", 10)
    return root, status, said.getvalue(), time.process_time() - begun


def calls(folder, monkeypatch):
    spec = importlib.util.spec_from_file_location("gpu", ROOT / "scripts" / "gpu.py")
    gpu = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu", gpu)
    spec.loader.exec_module(gpu)
    monkeypatch.setattr(gpu, "PACKING", 0.0)
    monkeypatch.setattr(gpu, "LEAST", 0.1)
    jobs = [
        {"experiment": "ggmc_fig1", "config": compose([*WORDS, f"sampler={sampler}", "lr=1e-4"])}
        for sampler in ("ggmc", "hmc")
    ]

    def run(machine: str, minutes: float) -> tuple[Path, int]:
        root = folder / machine
        monkeypatch.setattr(gpu, "ROOT", root)
        home = gpu.home("smoke")
        home.mkdir(parents=True, exist_ok=True)
        (home / "plan.json").write_text(json.dumps({"law": LAW, "jobs": jobs}))
        monkeypatch.chdir(root)  # where the script goes, too; undone at the end
        monkeypatch.setattr(sys, "argv", ["gpu.py", "run", "--device", "cpu", "--budget", str(minutes)])
        return root, gpu.main()

    run.jobs = jobs
    return run


def chain_of(data="none", **settings):
    """Of a job's configuration what a call looks at."""
    config = {
        "model": {"name": "resnet20"},
        "data": {"name": data},
        "sampler": {"name": "ggmc"},
        "tune": {"target": None},
    }
    return {"config": config | {"batch_size": 125, "augmentation": "none", "init": "he", **settings}}


def session_of(gpu, **given):
    """A call's session, of so many minutes, as the words of the command line make it."""
    words = {"budget": 60, "device": "cpu", "out": None, "miniature": False, "side": 1, "unchecked": False}
    return gpu.Session(SimpleNamespace(**words | given))


@pytest.mark.parametrize(
    "words, said",
    [
        ("--budget 0", "--budget 0.0: must be a positive number of minutes"),
        ("--side 0", "--side 0: must be at least 1"),
        ("--first ggmc_fig1", "--first ggmc_fig1: is of the plan, which make gpu-plan FIRST=ggmc_fig1 writes"),
    ],
)
def test_a_mistake_in_the_words_is_told_before_anything_is_done(words, said, call, monkeypatch, capsys):
    gpu = sys.modules["gpu"]
    monkeypatch.setattr(gpu, "Session", lambda options: pytest.fail("was begun"))
    monkeypatch.setattr(sys, "argv", ["gpu.py", "run", "--device", "cpu", *words.split()])
    with pytest.raises(SystemExit) as left:
        gpu.main()
    assert left.value.code == 2 and capsys.readouterr().err.endswith(f"gpu.py: error: {said}\n")


def test_a_first_look_is_the_miniature_on_the_gpu(call):
    call("looked", 0.001)
    gpu = sys.modules["gpu"]
    look, whole = session_of(gpu, device="cuda", miniature=True), session_of(gpu, device="cuda")
    assert (look.scale, look.device, whole.scale) == ("smoke", "cuda", "paper")
    assert look.home == session_of(gpu).home != whole.home


def columns(root: Path, job: dict) -> dict:
    """A run's metrics but for its times."""
    metrics = load_metrics(root / folder(job["config"]))
    return {name: list(map(repr, values)) for name, values in metrics.items() if "second" not in name}


@pytest.mark.slow
def test_chains_go_on_from_call_to_call_and_on_another_machine(whole, call, capsys):
    """Whatever the calls' length: the same rows as in one long call, each chain once, a table when all are done."""
    whole, status, said, seconds = whole
    assert status == 0 and "2 of 2 chains are done: the plan is complete" in said
    here = None
    for number in range(100):
        machine, before = f"machine{number}", here
        if before is not None:  # what travels: the state, not the run folders
            shutil.copytree(before / "results/runs/smoke/state", before.parent / machine / "results/runs/smoke/state")
        here, status = call(machine, seconds / 60 / 6)
        assert status == 0
        states = [json.loads(path.read_text())["state"] for path in here.glob("results/runs/ggmc_fig1/*/status.json")]
        assert states.count("interrupted") <= 1  # what travels is the state of one
        if "the plan is complete" in capsys.readouterr().out:
            break
    assert number > 1
    tables = [root / "results/runs/smoke/tables/ggmc_figd1.csv" for root in (whole, here)]
    rows = [path.read_text().splitlines() for path in tables]
    place = rows[0][0].split(",").index("seconds")
    cut = [[line.split(",")[:place] for line in part] for part in rows]
    assert cut[0] == cut[1]
    last = call.jobs[-1]
    assert columns(whole, last) == columns(here, last)
    with open(here / "results/runs/smoke/tables/gpu_runs.csv") as file:
        runs = list(csv.DictReader(file))
    assert [run["run"] for run in runs] == [folder(job["config"]).name for job in call.jobs]
    for run in runs:
        assert run["status"] == "done" and run["torch"] == torch.__version__ and run["graph"] == "False"
        rates = [float(run[f"steps_per_second{part}"]) for part in ("", "_first", "_last")]
        assert min(rates) > 0 and float(run["seconds"]) > 0 and run["device"] == "cpu"


BESIDE = f"""
import importlib.util, pathlib, sys, time
spec = importlib.util.spec_from_file_location("call", {str(ROOT / "scripts" / "gpu.py")!r})
call = importlib.util.module_from_spec(spec)
spec.loader.exec_module(call)
call.ROOT, call.LEAST = pathlib.Path(__file__).parents[1], 0.1
with open("begun", "a") as file:
    print(*sys.argv[1:4], file=file)
if "--chain" in sys.argv:
    import experiments.run
    pathlib.Path("ready-" + sys.argv[3]).touch()
    until = time.monotonic() + 60
    while len([*pathlib.Path().glob("ready-*")]) < 2:
        assert time.monotonic() < until, "no other chain"
        time.sleep(0.01)
sys.exit(call.main())
"""  # a machine's scripts/gpu.py, for its processes, too, of which each waits until there are two


@pytest.mark.slow
def test_chains_side_by_side_are_those_one_after_the_other(whole, call, tmp_path):
    """Each has a process of its own. Ended together, both travel, and go on: the same rows, each chain once."""
    whole, status, *_ = whole
    assert status == 0

    def started(root: Path) -> Fork:
        (root / "scripts").mkdir()
        (root / "scripts" / "gpu.py").write_text(BESIDE)
        words = ["scripts/gpu.py", "run", "--side", "2", "--device", "cpu", "--budget", "5"]
        return Fork(lambda: runpy.run_path(words[0], run_name="__main__"), *words, folder=root)

    here, there = call("here", 0.0001)[0], tmp_path / "there"
    process = started(here)
    runs = [folder(job["config"]) for job in call.jobs]
    until = time.monotonic() + 120
    while not all((here / run / "metrics.csv").exists() for run in runs) and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGTERM)
    ended = process.wait()
    assert ended.returncode == 0, ended.stdout + ended.stderr
    states = [json.loads((here / run / "status.json").read_text())["state"] for run in runs]
    assert states == ["interrupted"] * 2 and not any((here / "results/runs/smoke/state").glob("rows/*"))
    shutil.copytree(here / "results/runs/smoke/state", there / "results/runs/smoke/state")
    ended = started(there).wait()
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    assert "2 of 2 chains are done: the plan is complete" in said and said.count("gone on with after cycle") == 2
    for root in (here, there):
        begun = (root / "begun").read_text().splitlines()
        assert sorted(begun) == ["run --chain 0", "run --chain 1", "run --side 2"]
    for job in call.jobs:
        assert columns(whole, job) == columns(there, job)
    rows = [(root / "results/runs/smoke/tables/ggmc_figd1.csv").read_text().splitlines() for root in (whole, there)]
    place = rows[0][0].split(",").index("seconds")
    cut = [[line.split(",")[:place] for line in part] for part in rows]
    assert cut[0] == cut[1]


@pytest.mark.thorough
def test_the_next_chain_begins_where_one_ends_and_all_are_ended_together(call, monkeypatch, capfd):
    """Two at a time, in the plan's order; what is done or has no data is left out. What does not end is killed."""
    root, _ = call("beside", 0.001)
    gpu = sys.modules["gpu"]
    monkeypatch.setattr(gpu, "PACKING", 4.0)
    (root / "scripts").mkdir()
    (root / "scripts" / "gpu.py").write_text("""
import os, signal, sys, time
from pathlib import Path
number = int(sys.argv[sys.argv.index("--chain") + 1])
Path(f"began-{number}-{os.environ['OMP_NUM_THREADS']}").touch()
if number < 5:  # 2 while the others come and go
    time.sleep(2 if number == 2 else 0.1)
    Path(f"ended-{number}").touch()
    sys.exit(number == 3)
if number == 6:  # one that heeds no signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
Path(f"ready-{number}").touch()
time.sleep(60)
""")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    session = session_of(gpu, side=2)
    names = ("none", "mnist", *["none"] * 6)
    session.jobs = [{"config": {"data": {"name": name}}, "number": number} for number, name in enumerate(names)]
    session.absent, begin, processes, beside = {"mnist"}, session.begin, {}, []
    monkeypatch.setattr(session, "is_done", lambda job: job["number"] in (0, 4))

    def begun(number):
        beside.append(sum(process.poll() is None for process in processes.values()))
        processes[number] = begin(number)
        return processes[number]

    def left():
        if session.ended > time.monotonic() and all((root / f"ready-{number}").exists() for number in (5, 6)):
            session.stop()
        return gpu.Session.left(session)

    monkeypatch.setattr(session, "begin", begun)
    monkeypatch.setattr(session, "left", left)
    current = session.advance_side_by_side()
    assert list(processes) == [2, 3, 5, 6] and beside == [0, 1, 1, 1]
    began = {path.name: path.stat().st_mtime for path in root.glob("*-*")}
    assert began["began-3-3"] < began["ended-2"] and began["began-5-3"] < began["ended-2"] < began["began-6-3"]
    assert [process.returncode for process in processes.values()] == [0, 1, -signal.SIGTERM, -signal.SIGKILL]
    # A chain that was not begun may have been by a call before.
    assert [job["number"] for job in current] == [1, 2, 3, 5, 6, 7] and session.failed
    assert [job["number"] for job in session.broken] == [3, 6]
    assert "chain 3 ended with status 1" in capfd.readouterr().err


def test_of_the_chains_in_progress_as_many_travel_as_fit(call, monkeypatch, capsys):
    """What took longest first, and last what failed; unpacked are those that the machine does not have."""
    root, _ = call("many", 0.001)
    gpu = sys.modules["gpu"]
    monkeypatch.setattr(gpu, "STATE_LIMIT", 3000)
    session = session_of(gpu)
    jobs = [{"config": {"output": None, "name": "many", "seed": seed, "data": {}}} for seed in range(5)]
    runs = [folder(job["config"]) for job in jobs]
    seconds = dict(zip(runs, (9.0, 20.0, 99.0, 9.0, 50.0), strict=True))
    monkeypatch.setattr(gpu, "spent", lambda job: seconds[folder(job["config"])])
    session.broken = [jobs[1]]  # which would not leave the others room
    for run, size in zip(runs, (1000, 2500, 0, 1200, 700), strict=True):
        (run / "samples").mkdir(parents=True)
        for name in ["metrics.csv", "samples/one", *["checkpoint-7.pt"] * (size > 0)]:
            (run / name).write_text("x" * size if name.startswith("checkpoint") else f"{size}")
        (run / ".checkpoint-8.pt.1.part").write_text(3000 * "x")  # of a process that was killed
        (run / "damaged-1").mkdir()
        (run / "damaged-1" / "checkpoint-7.pt").write_text(3000 * "x")  # put aside
    session.pack_chains(jobs, session.home / "chain.tar")
    said = capsys.readouterr().out
    places = [said.index(str(runs[number])) for number in (4, 0, 3, 1)]
    assert places == sorted(places)
    assert said.count("goes on from") == 3 and f"{runs[1]}, 0.0 MB: too large for a call's state" in said
    assert str(runs[2]) not in said  # nothing to go on from
    for run in runs[1:]:
        shutil.rmtree(run)
    (runs[0] / "checkpoint-7.pt").write_text("newer")
    session.unpack()
    assert {run for run in runs if run.exists()} == {runs[0], runs[3], runs[4]}
    assert (runs[0] / "checkpoint-7.pt").read_text() == "newer"
    assert not list((runs[4]).glob(".*"))
    assert (runs[4] / "samples/one").read_text() == (runs[4] / "metrics.csv").read_text() == "700"
    for packed, here in ((8, 7), (7, 8)):  # another machine has gone on since, or this one; whatever its clock says
        for block in (packed, here):
            (runs[0] / "checkpoint-7.pt").write_bytes(pack({"record": {"block": block}}))
            os.utime(runs[0] / "checkpoint-7.pt", (99 - block, 99 - block))
            if block == packed:
                session.pack_chains(jobs[:1], session.home / "chain.tar")
        session.unpack()
        assert gpu.block_of(runs[0] / "checkpoint-7.pt") == 8
    assert not list(root.glob("results/runs/.unpacked"))
    session.pack_chains([jobs[2]], session.home / "chain.tar")
    assert not (session.home / "chain.tar").exists()


@pytest.fixture
def travelling(call, monkeypatch):
    """A session, and a run in progress, with the names of its files, that is packed and gone from here."""
    root, _ = call("travelling", 0.001)
    gpu = sys.modules["gpu"]
    run, session = folder(call.jobs[0]["config"]), session_of(gpu)
    shutil.rmtree(root / "results/runs/ggmc_fig1", ignore_errors=True)
    elsewhere = root.parent / "fast"
    (root / "results/runs").rename(elsewhere)
    (root / "results/runs").symlink_to(elsewhere)
    (run / "samples").mkdir(parents=True)
    names = {"metrics.csv", "samples/00000003.safetensors", "status.json", "checkpoint-1.pt"}
    for name in names:
        (run / name).write_bytes(pack({"record": {"block": 3}}))
    (run / ".metrics.csv").write_bytes(b"cycle\n3\n")
    session.pack_chains(call.jobs[:1], session.home / "chain.tar")
    shutil.rmtree(run)
    return session, run, names


def files_of(run: Path) -> set[str]:
    return {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}


def test_a_chain_goes_on_where_the_runs_folder_is_a_link(travelling, capsys):
    """As README has it for a fast disk."""
    session, run, names = travelling
    session.unpack()
    assert files_of(run) == names and not capsys.readouterr().err and (session.home / "chain.tar").exists()


def test_a_call_that_is_killed_while_it_unpacks_leaves_the_chain_to_the_next(travelling, monkeypatch):
    """At each file: no checkpoint is there without all that it needs, and the next call has them all."""
    session, run, names = travelling
    replace = Path.replace
    for number in range(len(names)):
        done = []

        def killed(file, place, done=done, number=number):
            if len(done) == number:
                raise KeyboardInterrupt
            done.append(file)
            return replace(file, place)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Path, "replace", killed)
            session.unpack()
        assert len(files_of(run)) == number and "checkpoint-1.pt" not in files_of(run)
        session.unpack()
        assert files_of(run) == names
        shutil.rmtree(run)


def test_of_two_checkpoints_the_one_of_the_later_block_travels(call):
    """Whatever the clock of the machine that wrote the other said: a sample file that the earlier one needs does not
    travel, so the chain would begin again."""
    root, _ = call("ahead", 0.001)
    gpu = sys.modules["gpu"]
    run, session = folder(call.jobs[0]["config"]), session_of(gpu)
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    for slot, block in enumerate((8, 7)):
        (run / f"checkpoint-{slot}.pt").write_bytes(pack({"record": {"block": block}}))
    os.utime(run / "checkpoint-0.pt", (0, 0))
    session.pack_chains(call.jobs, session.home / "chain.tar")
    with tarfile.open(session.home / "chain.tar") as archive:
        assert archive.getnames() == [str(run / "checkpoint-0.pt")]


def test_an_archive_that_is_damaged_ends_no_call(call, capsys):
    """A copy that was cut off: it is told and put aside, and nothing of it lies where its chains would."""
    root, _ = call("damaged", 0.001)
    gpu = sys.modules["gpu"]
    session, packed = session_of(gpu), gpu.home("smoke") / "chain.tar"
    session.home.mkdir(parents=True, exist_ok=True)
    run = folder(call.jobs[0]["config"])
    shutil.rmtree(run, ignore_errors=True)
    run.mkdir(parents=True)
    for name in ("metrics.csv", "checkpoint-7.pt"):
        (run / name).write_text(9000 * "x")
    session.pack_chains(call.jobs, packed)
    shutil.rmtree(run)
    packed.write_bytes(packed.read_bytes()[:12000])
    session.unpack()
    assert "chain.tar is damaged" in capsys.readouterr().err
    assert not run.exists() and not packed.exists() and packed.with_suffix(".damaged").exists()
    session.unpack()  # nothing is there


def test_an_archive_in_which_no_chain_is_is_damaged(travelling, capsys):
    """One of zeros, as a disk that lost power may have it, or the copy in OUT, which holds the archive: were they taken
    for archives of nothing, the next packing would delete them."""
    session, run, _ = travelling
    packed = session.home / "chain.tar"
    outer = session.home / "outer.tar"
    sys.modules["gpu"].archive(outer, [packed])
    for blob in (bytes(packed.stat().st_size), outer.read_bytes()):
        packed.write_bytes(blob)
        session.unpack()
        assert "chain.tar is damaged (no chain is in it), and is chain.damaged now: its" in capsys.readouterr().err
        assert not run.exists() and not packed.exists() and packed.with_suffix(".damaged").read_bytes() == blob


def test_nothing_is_unpacked_elsewhere_than_among_the_runs(travelling):
    """Whatever an archive that somebody gave says: beside a checkpoint other files are moved, too."""
    session, run, names = travelling
    root, packed = sys.modules["gpu"].ROOT, session.home / "chain.tar"
    with tarfile.open(packed, "a") as whole:
        for name in ("sgmcmc/checkpoint-0.pt", "sgmcmc/chain.py", "results/checkpoint-0.pt", "results/README.md"):
            whole.addfile(tarfile.TarInfo(name), io.BytesIO())
    session.unpack()
    assert files_of(run) == names and not (root / "sgmcmc").exists() and not (root / "results" / "README.md").exists()


@pytest.mark.parametrize(
    "name, mend",
    [
        ("plan.json", "make gpu-plan again"),
        ("checked.json", "remove it, and this GPU is asked again"),
        ("rows", "copy it again, or remove it, and its chain is taken up again"),
    ],
)
def test_a_file_of_the_state_that_is_damaged_is_one_sentence(name, mend, call, monkeypatch, capsys):
    """Before the minutes are spent."""
    root, _ = call("state", 0.001)
    gpu = sys.modules["gpu"]
    session = session_of(gpu)
    monkeypatch.setattr(gpu, "Session", lambda options: session)
    monkeypatch.setattr(session, "measure_once", session.measure_once if name == "checked.json" else lambda: None)
    monkeypatch.setattr(session, "advance_all", lambda: pytest.fail("a chain is run"))
    session.miniature = name != "checked.json"
    path = session.rows_path(call.jobs[0]) if name == "rows" else session.home / name
    sound = (session.home / "plan.json").read_text()
    for text in ('{"law": ', "[]", ""):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        capsys.readouterr()
        assert gpu.main() == 2
        assert capsys.readouterr().err == f"{path.relative_to(root)} is damaged: {mend}\n"
    path.unlink()
    path.mkdir()
    assert gpu.main() == 1 and f"Is a directory: {mend}\n" in capsys.readouterr().err
    assert name == "plan.json" or (session.home / "plan.json").read_text() == sound


@pytest.mark.thorough
def test_seconds_spent_are_those_that_the_run_says(whole, call, monkeypatch):
    root, *_ = whole
    call("spent", 0.001)
    gpu = sys.modules["gpu"]
    assert gpu.spent(chain_of(output="nowhere", name="x", seed=0)) == 0.0
    monkeypatch.chdir(root)
    assert (
        gpu.spent(call.jobs[0])
        == json.loads((folder(call.jobs[0]["config"]) / "status.json").read_text())["seconds"]
        > 0
    )


def test_what_could_not_be_kept_is_not_begun(call, monkeypatch):
    """A ResNet compiles for a minute, and descends for another, before there is a checkpoint; a shorter chain is begun
    in what is left, and one that has a checkpoint goes on."""
    call("short", 0.001)
    gpu = sys.modules["gpu"]
    session = session_of(gpu, device="cuda", budget=(gpu.PACKING + 90) / 60)
    kinds = ({"init": "sgd"}, {"init": "he"}, {"init": "sgd", "begun": 1}, {"init": "sgd", "model": {"name": "mlp"}})
    session.jobs, session.absent, begun = [chain_of(**kind) for kind in kinds], set(), []
    monkeypatch.setattr(gpu, "checkpoints_of", lambda job: [Path("checkpoint-0.pt")] * ("begun" in job["config"]))
    monkeypatch.setattr(session, "is_done", lambda job: False)
    monkeypatch.setattr(session, "advance", lambda job: begun.append(job) or True)
    assert session.advance_all() is None and begun == session.jobs[1:]
    monkeypatch.setattr(
        session, "begin", lambda number: begun.append(session.jobs[number]) or subprocess.Popen(["true"])
    )
    begun.clear()
    session.side = 4
    session.advance_side_by_side()
    assert begun == session.jobs[1:]


def test_what_cannot_be_compiled_is_tried_once_a_network_and_sampler(call, monkeypatch, capsys):
    """Each try takes a minute; others are not kept from trying, and another call tries again."""
    call("uncompiled", 0.001)
    gpu = sys.modules["gpu"]
    kinds = ({}, {"lr": 1}, {"sampler": {"name": "hmc"}}, {"tune": {"target": 0.5}}, {"model": {"name": "mlp"}})
    session = session_of(gpu)
    session.jobs, session.absent, tried = [chain_of(**kind) for kind in kinds], set(), []
    monkeypatch.setattr(gpu, "checkpoints_of", lambda job: [])
    monkeypatch.setattr(session, "is_done", lambda job: False)

    def advance(job):
        tried.append(job)
        if job["config"]["model"]["name"] == "resnet20":
            raise CannotCompile("no compiler")
        return True

    monkeypatch.setattr(session, "advance", advance)
    assert session.advance_all() is None and session.failed
    assert tried == [session.jobs[0], *session.jobs[2:]]
    assert capsys.readouterr().err.count("no compiler") == 3


def test_a_process_whose_parent_is_gone_ends(call, monkeypatch):
    """A call that is killed leaves no chains that hold their folders and the device."""
    call("alone", 0.001)
    gpu, ended, parents = sys.modules["gpu"], [], [7, 7, 1]
    monkeypatch.setattr(gpu.os, "getppid", lambda: parents.pop(0))
    monkeypatch.setattr(gpu.time, "sleep", lambda _: None)
    monkeypatch.setattr(gpu.os, "kill", lambda *told: ended.append(told))
    gpu.follow(7)
    assert ended == [(os.getpid(), signal.SIGTERM)] and parents == []


@pytest.mark.slow
def test_a_machine_needs_no_hydra_jug_or_arviz(call, tmp_path):
    """A call to its end, the tests that need a GPU and the benchmarks, in a process that cannot import them."""
    root, _ = call("bare", 0.001)
    plan = root / "results/runs/smoke/state/plan.json"
    short = {"epochs": 4, "trace_cycles": [2]}
    jobs = [{**job, "config": {**job["config"], **short}} for job in call.jobs]
    plan.write_text(json.dumps({"law": LAW, "jobs": jobs}))
    script = f"""
import importlib, importlib.util, pathlib, sys
sys.modules.update(dict.fromkeys(("hydra", "omegaconf", "jug", "arviz_stats")))
root = pathlib.Path({str(ROOT)!r})
sys.path[:0] = map(str, (root, root / "tests", root / "benchmarks"))
spec = importlib.util.spec_from_file_location("call", root / "scripts" / "gpu.py")
call = importlib.util.module_from_spec(spec)
spec.loader.exec_module(call)
needed = [pathlib.Path(test).stem for test in call.Session.tests()]
call.ROOT, call.PACKING = pathlib.Path({str(root)!r}), 0.0
sys.argv = ["gpu.py", "run", "--device", "cpu", "--budget", "5"]
code = call.main()
for name in (*needed, "gpu_accuracy"):
    importlib.import_module(name)
sys.exit(code)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert "2 of 2 chains are done: the plan is complete" in ended.stdout


def test_what_is_missing_is_one_sentence(call, capsys, tmp_path):
    root, _ = call("bare", 0.001)
    (root / "results/runs/smoke/state/plan.json").write_text('{"law": -1, "jobs": []}')
    capsys.readouterr()
    gpu = sys.modules["gpu"]
    assert gpu.main() == 2
    assert "make gpu-plan again" in capsys.readouterr().err


@pytest.mark.thorough
def test_the_plan_has_what_is_wanted_in_the_order_of_wanting(call):
    """The exact preset first, at its four rates in order, and each chain once."""
    gpu = sys.modules["gpu"]
    root, _ = call("planned", 0.001)
    assert gpu.plan() == 0
    jobs = json.loads((root / "results/state/plan.json").read_text())["jobs"]
    first = [(job["config"]["sampler"]["name"], job["config"]["lr"]) for job in jobs[:8]]
    assert first == [(sampler, lr) for sampler in ("ggmc", "hmc") for lr in (1e-4, 1e-3, 1e-6, 1e-2)]
    order = list(dict.fromkeys(job["experiment"] for job in jobs))
    assert order[:4] == ["ggmc_fig1", "finding_cycles", "amagold_table2", "ggmc_fig1_as_run"]
    assert order[4:] == ["ggmc_fig1_averaged", "ggmc_discarded", "finding_corrected"]
    assert gpu.plan("amagold_table2") == 0
    again = json.loads((root / "results/state/plan.json").read_text())["jobs"]
    assert [job for job in again if job["experiment"] != "amagold_table2"] == [
        job for job in jobs if job["experiment"] != "amagold_table2"
    ]
    assert {job["experiment"] for job in again[:40]} == {"amagold_table2"} and len(again) == len(jobs)
    assert len({folder(job["config"]) for job in jobs}) == len(jobs)
    of = {name: [job["config"] for job in jobs if job["experiment"] == name] for name in order}
    assert {(one["sampler"]["acceptance"], one["seed"]) for one in of["finding_corrected"]} == {
        (acceptance, seed) for acceptance in ("metropolis", "monitor") for seed in range(4)
    }
    assert {one["lr"] for one in of["ggmc_discarded"]} == {0.1}
    assert {(one["augmentation"], one["views"]) for one in of["ggmc_fig1_averaged"]} == {("averaged", 8)}
    cycles = {one["steps_per_cycle"] or 400 * one["epochs_per_cycle"] for one in of["finding_cycles"]}
    assert cycles == {1, 5, 400, 1200, 4000} and {one["tune"]["target"] for one in of["finding_cycles"]} == {0.5}
    laws = [one["sampler"]["minibatches"] for one in of["finding_cycles"]]
    assert (laws.count("independent"), laws.count("shuffled")) == (10, 6)
    assert all(one["model"]["name"] == "resnet20" for name in order if name != "amagold_table2" for one in of[name])


def test_a_kind_of_gpu_is_asked_once_within_its_minutes(call, monkeypatch, capsys):
    """The tests, how right and how fast it is: one after the other, five minutes at most together; what did not finish
    leaves what it said, and is asked again."""
    root, _ = call("asked", 0.001)
    gpu, asked = sys.modules["gpu"], []

    def finished(command, seconds):
        asked.append((command[1], seconds, command[-1]))
        return (None, "a step: 1 ms\n") if "gpu.py" in command[1] else (0, "all well\n")

    monkeypatch.setattr(gpu, "finished", finished)
    session = session_of(gpu, device="cuda")
    session.home.mkdir(parents=True)
    session.kind = "A GPU"
    session.measure_once()
    assert [name for name, _, _ in asked] == ["-m", "benchmarks/gpu_accuracy.py", "benchmarks/gpu.py"]
    tables = [str(root / "benchmarks" / f"gpu_{what}_A_GPU.csv") for what in ("accuracy", "speed")]
    assert [path for _, _, path in asked[1:]] == tables
    assert asked[-1][1] <= 60 * gpu.CHECKED_MINUTES and not session.failed
    said = json.loads((session.home / "checked.json").read_text())["A GPU"]
    assert said["tests"] == "exit status 0\nall well\n" and "a step: 1 ms" in said["benchmarks"]
    monkeypatch.setattr(gpu, "finished", lambda command, seconds: asked.append(command) or (1, "a step: 2 ms\n"))
    session.measure_once()
    session.measure_once()  # what failed has been asked
    assert len(asked) == 4 and "gpu.py" in asked[-1][1] and session.failed
    session.kind = "Another"
    session.measure_once()
    assert len(asked) == 7
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        session.kind = "A third"
        with pytest.raises(OSError, match="full"):
            session.measure_once()
    assert json.loads((session.home / "checked.json").read_text()).keys() == {"A GPU", "Another"}


@pytest.mark.thorough
def test_what_does_not_finish_ends_with_all_that_it_started_and_has_said_what_it_said(call):
    call("finished", 0.001)
    gpu = sys.modules["gpu"]
    assert gpu.finished([sys.executable, "-c", "print(7); exit(3)"], 60) == (3, "7\n")
    script = "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid); time.sleep(60)"
    code, said = gpu.finished([sys.executable, "-c", script], 5)
    assert code is None
    with pytest.raises(ProcessLookupError):
        for _ in range(100):  # its parent is gone: whoever adopted it takes a moment
            os.kill(int(said), 0)
            time.sleep(0.1)
    begun, wait = [], subprocess.Popen.wait

    def left(process, seconds=None):
        if seconds is not None:
            begun.append(process)
            raise KeyboardInterrupt
        return wait(process)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(subprocess.Popen, "wait", left)
        gpu.finished([sys.executable, "-c", script], 5)
    assert begun[0].returncode == -signal.SIGKILL
    before = signal.getsignal(signal.SIGTERM)
    script = "import os, signal, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)"
    with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
        gpu.finished([sys.executable, "-c", script], 30)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.thorough
def test_a_chain_within_a_long_cycle_is_left_when_the_minutes_are_over(call, monkeypatch):
    """The signal that ends it interrupts the chain, which goes on from there; what fails leaves the others alone."""
    root, _ = call("left", 0.001)
    gpu = sys.modules["gpu"]
    session = session_of(gpu, budget=(gpu.PACKING + 2) / 60)
    monkeypatch.setattr(gpu, "LEAST", 0.1)
    names = ("mnist", "cifar10", "none", "none", "none")
    jobs, packed = [chain_of(name, seed=seed) for seed, name in enumerate(names)], []
    seen = []

    def advance(job):
        seen.append(job)
        if len(seen) == 1:
            raise gpu.DataError("a damaged file")
        if len(seen) == 2:
            raise RuntimeError("something else")
        while session.left() > 0:
            time.sleep(0.05)
        return False

    monkeypatch.setattr(gpu, "checkpoints_of", lambda job: [])
    for name, made in {
        "check": lambda: None,
        "read_plan": lambda: jobs,
        "find_data": lambda: {"mnist"},
        "unpack": lambda: None,
        "is_done": lambda job: False,
        "advance": advance,
        "write_tables": lambda: None,
        "pack": packed.append,
    }.items():
        monkeypatch.setattr(session, name, made)
    began, before = time.monotonic(), signal.getsignal(signal.SIGTERM)
    assert session.run() == 1 and session.failed
    assert seen == jobs[1:4] and packed == [[jobs[3], *jobs[:3], jobs[4]]]
    assert time.monotonic() - began < 30 and signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_is_sent_as_the_chains_end_does_not_end_the_call(call, monkeypatch):
    """The minutes' own, sent when its time came at the moment at which it was taken back: all is packed."""
    call("late", 0.001)
    gpu = sys.modules["gpu"]
    session, heard, packed = session_of(gpu), [], []

    class Late(threading.Thread):
        def __init__(self, seconds, send, words):
            super().__init__(target=lambda: (self.cancelled.wait(), time.sleep(0.1), send(*words)))
            self.cancelled = threading.Event()

        def cancel(self):
            self.cancelled.set()

    monkeypatch.setattr(gpu, "threading", SimpleNamespace(Timer=Late, Thread=threading.Thread))
    for name, made in {
        "check": lambda: None,
        "read_plan": lambda: [],
        "find_data": set,
        "write_tables": lambda: time.sleep(0.3),
        "pack": packed.append,
    }.items():
        monkeypatch.setattr(session, name, made)
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append(packed))
    try:
        assert session.run() == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert packed == [[]] and not heard and session.left() < 0


def test_an_error_keeps_the_state_of_the_chain_that_was_begun(call, monkeypatch):
    """The first that has a checkpoint travels, whatever comes later; after an error of the device nothing is tried."""
    call("broken", 0.001)
    gpu = sys.modules["gpu"]
    session = session_of(gpu)
    session.jobs = [chain_of() | {"number": number} for number in range(4)]
    session.absent, begun, seen = set(), [1, 2], []
    monkeypatch.setattr(gpu, "checkpoints_of", lambda job: [Path("checkpoint-0.pt")] * (job["number"] in begun))
    monkeypatch.setattr(session, "is_done", lambda job: False)

    def advance(job):
        seen.append(job["number"])
        raise errors.get(job["number"], RuntimeError)("an error")

    monkeypatch.setattr(session, "advance", advance)
    errors = {}
    assert session.advance_all() is session.jobs[1] and seen == [0, 1, 2, 3] and session.failed
    errors, seen = {2: torch.AcceleratorError}, []
    assert session.advance_all() is session.jobs[1] and seen == [0, 1, 2]
    begun.clear()
    assert session.advance_all() is session.jobs[2]
    # One that goes on is what travels, though one before it was begun, and fails every time.
    begun, seen = [0], []
    monkeypatch.setattr(session, "advance", lambda job: advance(job) if job["number"] < 2 else False)
    errors = {}
    assert session.advance_all() is session.jobs[2] and seen == [0, 1]


def test_what_is_packed_is_unpacked_where_the_next_call_looks_for_it(call, tmp_path, monkeypatch):
    root, _ = call("packed", 0.001)
    gpu, kept, there = sys.modules["gpu"], tmp_path / "kept", tmp_path / "there"
    session = session_of(gpu, out=kept)
    session.jobs = call.jobs
    state = {session.home / "chain.tar": "a chain", session.home / "rows" / "one.json": "{}"}
    monkeypatch.setattr(session, "pack_chains", lambda jobs, packed: packed.write_text(state[packed]))
    session.rows_path(call.jobs[0]).parent.mkdir()
    (session.home / "rows" / "one.json").write_text("{}")
    session.pack(call.jobs[:1])
    for path in kept.iterdir():
        with tarfile.open(path) as archive:
            archive.extractall(there, filter="data")
    assert {there / path.relative_to(root): said for path, said in state.items()} == {
        path: path.read_text() for path in there.rglob("*") if path.is_file()
    }
    monkeypatch.delattr(session, "pack_chains")
    session.pack([])  # all are done: no state of a chain is left over
    assert [path.name for path in kept.iterdir()] == ["kept.tar.gz"]


def test_a_full_disk_is_a_sentence_and_what_can_be_kept_elsewhere_is(call, tmp_path, monkeypatch, capsys):
    """Of the archive that did not fit nothing takes the room."""
    root, _ = call("room", 0.001)
    gpu, kept, add = sys.modules["gpu"], tmp_path / "kept", tarfile.TarFile.add
    run = folder(call.jobs[0]["config"])
    run.mkdir(parents=True)
    (run / "checkpoint-1.pt").write_bytes(pack({"record": {"block": 3}}))

    def full(archive, name, *more):
        if Path(archive.name).is_relative_to(root):
            raise OSError(errno.ENOSPC, "No space left on device", archive.name)
        add(archive, name, *more)

    monkeypatch.setattr(tarfile.TarFile, "add", full)
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--out", str(kept)])
    capsys.readouterr()
    assert gpu.main() == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert said.endswith("no space is left on the disk: what was written before is intact; make room and start again")
    assert [path.name for path in kept.iterdir()] == ["kept.tar.gz"] and not list(gpu.home("smoke").glob("chain.*"))


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("no"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling …"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_an_error_of_the_machine_in_the_first_passes_is_not_the_end_of_a_chain(error, number, call, monkeypatch):
    """Of such a network nothing is told: neither rows that say it failed, nor a table of them, nor that it takes no
    images that lie channels last."""
    from sgmcmc.models import ResNet

    passes, forward = [], ResNet.forward

    def breaking(*inputs):
        passes.append(0)
        if len(passes) > number:
            raise error
        return forward(*inputs)

    call("first", 0.001)
    monkeypatch.setattr(ResNet, "forward", breaking)
    session = session_of(sys.modules["gpu"])
    session.jobs, session.absent, session.commit = call.jobs[:1], set(), ""
    assert session.advance_all() is None and session.failed and session.broken == session.jobs
    assert len(passes) == number + 1 and not session.is_done(session.jobs[0])


def test_a_full_memory_is_not_the_end_of_a_chain(call, monkeypatch):
    """It is taken up by the next call; settings that cannot work are rows that say so."""
    import experiments.run

    call("full", 0.001)
    gpu = sys.modules["gpu"]
    session = session_of(gpu)
    session.jobs, session.absent, session.commit = call.jobs, set(), ""
    kinds = [NoRoom] * len(call.jobs) + [SettingError] * len(call.jobs)

    def run(config, until, no_slower):
        assert until() == session.ended and no_slower == (
            session.device == "cuda"
        )  # else the minutes go to eager steps
        raise kinds.pop(0)("chains", 1, "needs more memory")

    monkeypatch.setattr(experiments.run, "run", run)
    assert session.advance_all() is None and session.failed and not any(map(session.is_done, session.jobs))
    assert session.advance_all() is None and all(map(session.is_done, session.jobs))


def test_without_the_data_of_any_chain_that_is_said_first_and_nothing_is_downloaded(call, monkeypatch, capsys):
    import sgmcmc.data

    asked = []

    def load(name, root=None, train_size=None, download=True):
        asked.append((name, download))
        if name != "digits":
            raise sgmcmc.DataError(f"no {name} here")

    monkeypatch.setattr(sgmcmc.data, "load", load)
    call("empty", 0.001)
    gpu = sys.modules["gpu"]
    session = session_of(gpu)
    monkeypatch.setattr(session, "is_done", lambda job: False)
    data = [{"name": "cifar10", "ood": None}, {"name": "mnist", "ood": "notmnist"}]
    asked.clear()
    session.jobs = [{"config": {"data": one}} for one in data]
    with pytest.raises(gpu.Refused, match="no cifar10 here"):
        session.find_data()
    assert asked == [("cifar10", False), ("mnist", False), ("notmnist", False)]
    session.jobs += [{"config": {"data": {"name": "digits"}}}, {"config": {"data": {"name": "none"}}}]
    capsys.readouterr()
    assert session.find_data() == {"cifar10", "mnist", "notmnist"}
    assert "left out, all chains of mnist: no mnist here" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_table_whose_statistics_are_not_installed_is_written_elsewhere(whole, call, tmp_path, monkeypatch, capsys):
    """Its rows are kept; the other tables are written."""
    shutil.copytree(whole[0], tmp_path / "whole")
    root, _ = call("whole", 10)
    gpu = sys.modules["gpu"]
    from experiments import tables

    table, join = root / "results/runs/smoke/tables", tables.join

    def without(name, rows):
        if name == "ggmc_fig1":
            raise ModuleNotFoundError("No module named 'arviz_stats'", name="arviz_stats")
        return join(name, rows)

    monkeypatch.setattr(tables, "join", without)
    for path in table.glob("*.csv"):
        path.unlink()
    capsys.readouterr()
    assert gpu.main() == 0
    assert "ggmc_fig1: written where arviz_stats is installed" in capsys.readouterr().err
    assert {path.stem for path in table.glob("*.csv")} == {"ggmc_figd1", "gpu_runs"}


# ---- how right a GPU's numbers are, and how fast it is, in miniature


@pytest.fixture
def accuracy(monkeypatch):
    """benchmarks/gpu_accuracy.py as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in ("gpu", "networks", "gpu_accuracy"):  # the script of that name is another
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("gpu_accuracy")
    for name in ("gpu", "networks", "gpu_accuracy"):
        sys.modules.pop(name, None)


@pytest.mark.thorough
def test_the_accuracy_of_a_device_is_measured_and_written(accuracy, monkeypatch, tmp_path, capsys):
    words = ["gpu_accuracy.py", "--device", "cpu", "--images", "20", "--steps", "3", "--width", "2"]
    monkeypatch.setattr(sys, "argv", [*words, "--write", str(tmp_path / "accuracy.csv")])
    assert accuracy.main() == 0
    with open(tmp_path / "accuracy.csv") as file:
        found = {row["what"]: row["measured"] for row in csv.DictReader(file)}
    three = "U by the compiled network's convolutions, each product by three in TF32"
    for row in ("graphs against eager steps", "U in TF32", three):
        assert found[row] == "no CUDA device"
    size = {name: abs(float(found[f"U in {name}: error of ΔU"].split()[0])) for name in ("float32", "bf16")}
    assert size["float32"] < 1e-3  # 20 data, each rounded to 1e-6 or so
    error = float(found["proposals with bf16 gradients: log MH"].split("error ")[1])
    assert abs(error) < 1e-3  # a worse proposal, and no other acceptance
    assert "times that with any" in found["a step with deterministic kernels"]


def test_graphs_are_compared_with_eager_steps(accuracy, monkeypatch):
    from test_captured import again_and_again

    from sgmcmc import captured

    bench = accuracy.Bench(accuracy.images(20), accuracy.ResNet(width=2, depth=8), 3, 5)
    monkeypatch.setattr(captured, "cuda_graph", again_and_again)
    for what, apart in accuracy.graphs(bench, torch.device("cpu"), torch.float64):
        assert float(apart) == 0, what

    def fails(function, inputs):
        raise RuntimeError("operation not permitted")

    monkeypatch.setattr(captured, "cuda_graph", fails)
    (row,) = accuracy.graphs(bench, torch.device("cpu"), torch.float64)
    assert row[1] == "the run's steps are not captured: operation not permitted"


@pytest.fixture
def speed(accuracy, monkeypatch):
    """benchmarks/gpu.py as a module, without a compiler."""
    import networks

    def prepare(*_):
        raise CannotCompile("no compiler\nand more lines")

    monkeypatch.setattr(networks.Segments, "prepare", prepare)
    monkeypatch.setattr(NetworkPotential, "compile_layers", prepare)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)  # as it was, afterwards
    return sys.modules["gpu"]


@pytest.mark.slow
def test_the_speed_of_a_device_is_measured_and_written(speed, monkeypatch, tmp_path):
    """Every row comes: with a number, or with the reason why there is none."""
    words = ["gpu.py", "--device", "cpu", "--images", "20", "--steps", "2", "--width", "4", "--seconds", "0.1"]
    monkeypatch.setattr(sys, "argv", [*words, "--write", str(tmp_path / "speed.csv")])
    assert speed.main() == 0
    with open(tmp_path / "speed.csv") as file:
        found = {row["what"]: row["measured"] for row in csv.DictReader(file)}
    resnet = "ResNet-20, frn, batch 20"
    assert list(found)[:2] == [f"a step, {resnet}, compiled", "exact U of 20 images, compiled"]
    reasons = {
        f"a step, {resnet}, compiled": "no compiler",
        "exact U of 20 images, compiled": "no compiler",
        "exact U and gradient of 20 images, compiled": "no compiler",
        "exact U of 20 images, compiled, each product by three in TF32": "no CUDA device",
        "exact U and gradient of 20 images, compiled, each product by three in TF32": "no CUDA device",
        "2 threads' steps a second over one's, eager": "no CUDA device",
        "4 threads' steps a second over one's, eager": "no CUDA device",
        "peak memory of one chain, its data and exact U with it": "no CUDA device",
    }
    assert {what: found.pop(what) for what in reasons} == reasons
    assert "cannot be evaluated for many chains at once" in found.pop(
        f"a chain's step, 4 in one tensor, {resnet}, eager"
    )
    for what, measured in found.items():
        numbers = [float(word.rstrip("%,;")) for word in measured.split() if word[0] in "-0123456789n"]
        assert numbers[0] > 0 and all(map(math.isfinite, numbers)), (what, measured)
    assert len(found) == 11
    speed.tell("CPU", [("a step", "1 ms")], tmp_path / "speed.csv")  # a call that ends sooner
    speed.tell("CPU", [("a step", "2 ms")], tmp_path / "speed.csv")
    with open(tmp_path / "speed.csv") as file:
        first, *others = [(row["what"], row["measured"]) for row in csv.DictReader(file)]
    assert first == ("a step", "2 ms") and found.items() <= dict(others).items() and len(others) == 20
    like = found["a step like the authors' optimizer's, ResNet-20, bn, batch 20, eager"]
    assert "times this project's step" in like


def test_a_benchmark_that_is_killed_while_it_writes_leaves_the_table_before(speed, monkeypatch, tmp_path):
    def killed(*_):
        raise KeyboardInterrupt

    table = tmp_path / "speed.csv"
    speed.tell("CPU", [("a step", "1 ms")], table)
    before = table.read_bytes()
    monkeypatch.setattr(csv.DictWriter, "writerows", killed)
    with pytest.raises(KeyboardInterrupt):
        speed.tell("CPU", [("a step", "2 ms")], table)
    assert table.read_bytes() == before


def test_a_benchmark_of_a_device_that_is_not_there_is_a_mistake(speed, accuracy, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for module in (speed, accuracy):
        for words, said in (([], "--device cuda: no CUDA device"), (["--device", "gpu"], "--device gpu: must be cuda")):
            monkeypatch.setattr(sys, "argv", ["benchmark", *words])
            with pytest.raises(SystemExit) as left:
                module.main()
            assert left.value.code == 2 and said in capsys.readouterr().err


@pytest.mark.thorough
def test_steps_and_bare_gradients_are_replayed_or_it_is_said_why_not(speed, monkeypatch):
    from test_captured import again_and_again

    from sgmcmc import captured

    bench = speed.Bench(torch.device("cpu"), 20, 9, 2, 0.1)
    bench.replays, seen = True, []

    def recorded(function, inputs):
        seen.append(function)
        return again_and_again(function, inputs)

    def fails(function, inputs):
        raise RuntimeError("operation not permitted")

    rows = [bench.step_row("mlp"), bench.bare_row("mlp")]
    names = ["a step, MLP, batch 20, eager, replayed", "the bare gradient, MLP, batch 20, replayed"]
    assert [what for what, _ in rows] == names
    monkeypatch.setattr(bench, "wanted", lambda: rows)
    for module in (speed, captured):
        monkeypatch.setattr(module, "cuda_graph", recorded)
    (_, step), (_, bare) = bench.rows()
    assert step.endswith("ms") and "% more" in bare and "nan" not in bare
    assert len(seen) == 3  # walks of 8 steps and of 1, and the gradient
    for module in (speed, captured):
        monkeypatch.setattr(module, "cuda_graph", fails)
    (_, step), (_, bare) = bench.rows()
    assert (step, bare) == ("the run's steps are not captured: operation not permitted", "operation not permitted")


def test_the_authors_loop_moves_every_parameter(speed):
    """Down the loss, where there is little noise: it is a sampler's step that is timed."""
    torch.manual_seed(0)
    model, data = speed.MLP(12, (8,), 10), speed.images(20)
    data = replace(data, inputs=data.inputs[:, :, :2, :2])
    before = [parameter.detach().clone() for parameter in model.parameters()]

    @torch.no_grad()
    def loss():
        return float(torch.nn.functional.cross_entropy(model(data.take(torch.arange(20))), data.targets))

    step, begun = speed.authors_step(model, data, 5, 1e-2), loss()
    for _ in range(100):
        step()
    assert loss() < begun
    assert not any(map(torch.equal, before, model.parameters()))
