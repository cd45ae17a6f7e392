"""Workers that are killed, signalled and restarted; the cluster's scripts; the table of how things stand."""

import errno
import itertools
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jug.jug
import pytest
import torch
from conftest import forked

from experiments import locks
from experiments.grid import configurations
from experiments.resolved import folder
from sgmcmc import load_samples
from sgmcmc.formats import read_status

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import status  # noqa: E402
import workers  # noqa: E402

GRID = ["experiment=amagold_fig1", "scale=smoke"]


PICTURE = """
NAME = "picture.png"


def draw(folder, *_):
    (folder / NAME).touch()
    return folder / NAME
"""


@pytest.fixture
def copy(tmp_path):
    """A folder that looks like the repository, with nothing run, and draws no pictures, which take longer than runs."""
    for name in ("conf", "sgmcmc", "scripts", "jugfile.py"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "experiments").mkdir()
    for path in (ROOT / "experiments").iterdir():
        (tmp_path / "experiments" / path.name).symlink_to(path)
    (tmp_path / "experiments" / "picture.py").unlink()
    (tmp_path / "experiments" / "picture.py").write_text(PICTURE)
    return tmp_path


def started(copy, *words, **options):
    command = [sys.executable, str(ROOT / "scripts" / "workers.py"), "--folder", str(copy), *words]
    return subprocess.Popen(command, cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def children(process) -> list[int]:
    out = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout
    return [int(number) for number in out.split()]


def all_draws(copy, monkeypatch):
    monkeypatch.chdir(copy)
    return [load_samples(folder(config)) for config in configurations(GRID[0].partition("=")[2], (GRID[1],))]


def test_locks_of_dead_processes_of_this_machine_are_freed_and_no_others(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    there = tmp_path / "locks"
    there.mkdir()
    here = socket.gethostname()
    for name, owner in {
        "dead": f"PID {dead.pid} on HOSTNAME {here}\nLock created on …\n",
        "alive": f"PID {os.getpid()} on HOSTNAME {here}\n",
        "elsewhere": f"PID {dead.pid} on HOSTNAME {here}-2\n",
        "unwritten": "",
        "never written": "",
    }.items():
        (there / f"{name}.lock").write_text(owner)
    os.utime(there / "never written.lock", (1e9, 1e9))
    mend = f"`python scripts/workers.py --free --jugdir {tmp_path}`, then start a worker"
    assert locks.told(str(tmp_path)) == f"2 tasks are locked by processes of this machine that are gone: {mend}"
    assert locks.free(str(tmp_path)) == 2 and locks.told(str(tmp_path)) is None
    assert sorted(path.stem for path in there.glob("*.lock")) == ["alive", "elsewhere", "unwritten"]
    assert locks.free("redis://localhost:6379") == 0


def test_of_a_lock_that_cannot_be_read_nothing_is_known(tmp_path):
    """Such as another user's, or one that a disk has spoilt: who looks how a grid stands is told of the others."""
    (tmp_path / "locks" / "unreadable.lock").mkdir(parents=True)
    (tmp_path / "locks" / "spoilt.lock").write_bytes(b"\xff\xfePID 9999999")
    assert locks.told(str(tmp_path)) is None
    (tmp_path / "locks" / "dead.lock").write_text(f"PID 9999999 on HOSTNAME {socket.gethostname()}\n")
    assert locks.told(str(tmp_path)).startswith("a task is locked by a process of this machine that is gone: ")


def test_where_files_cannot_be_locked_locks_of_dead_processes_are_freed_too(tmp_path, monkeypatch):
    def flock(number):
        def fail(*_):
            raise OSError(number, os.strerror(number))

        (tmp_path / "locks" / "dead.lock").write_text(f"PID 9999999 on HOSTNAME {socket.gethostname()}\n")
        monkeypatch.setattr(locks.fcntl, "flock", fail)

    (tmp_path / "locks").mkdir()
    for number in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
        flock(number)
        assert locks.free(str(tmp_path)) == 1 and locks.free(str(tmp_path)) == 0
    flock(errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        locks.free(str(tmp_path))


def test_a_lock_whose_process_number_another_process_has_now_is_freed(tmp_path):
    """Written an hour before this process began; one marked by `jug execute --keep-failed` stays."""
    (tmp_path / "locks").mkdir()
    for name, age in (("before", 3600), ("now", 0), ("marked as failed", None)):
        lock = tmp_path / "locks" / f"{name}.lock"
        lock.write_text(f"PID {os.getpid()} on HOSTNAME {socket.gethostname()}\n")
        written = 1 if age is None else began() - age
        os.utime(lock, (written, written))
    assert locks.told(str(tmp_path)).startswith("a task is locked by a process of this machine that is gone: ")
    assert locks.free(str(tmp_path)) == 1
    assert sorted(path.stem for path in (tmp_path / "locks").glob("*.lock")) == ["marked as failed", "now"]


def began() -> float:
    """When this process did, from what the kernel made for it then."""
    return Path("/proc/self/stat").stat().st_ctime


@pytest.mark.slow
def test_an_error_in_one_chain_leaves_the_others(copy):
    """A target of one's own that raises an error, first in the grid: the worker goes on."""
    (copy / "jugfile.py").unlink()
    (copy / "mine.py").write_text(
        "from sgmcmc.potentials.analytic import Quartic\n\n\nclass Bad(Quartic):\n    def __init__(self, bad=False):\n"
        "        super().__init__()\n        self.bad = bad\n\n    def potential(self, theta):\n        if self.bad:\n"
        "            raise RuntimeError('this target is bad')\n        return super().potential(theta)\n"
    )
    (copy / "jugfile.py").write_text(
        "from jug import TaskGenerator\nfrom experiments import tasks\nfrom experiments.config import compose\n\n"
        "segment = TaskGenerator(tasks.segment)\nfor bad in (True, False):\n"
        "    words = f'model._target_=mine.Bad model.bad={bad} sampler=hmc step_size=.1 cycles=9 output=run{bad}'\n"
        "    segment(compose(words.split()), 9, None)\n"
    )
    process = started(copy, "--cpus", "1", "--restarts", "1")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 1 and "this target is bad" in err + out and "is not started again" in err
    assert read_status(copy / "runFalse")["state"] == "done"
    assert not list((copy / "jugfile.jugdata" / "locks").glob("*.lock"))


def test_a_worker_that_a_disk_ended_is_given_time_and_one_that_was_killed_is_not(tmp_path, monkeypatch, capsys):
    now, started = [0.0], []
    codes = iter((75, 75, -signal.SIGKILL, 75, 1, 1, 1))
    unread = iter((False, False, False, False, False, True, False, False))  # the store, at the start and at each end

    def popen(*_, **__):
        started.append(now[0])
        ended = subprocess.CompletedProcess([], next(codes))
        ended.poll = lambda: ended.returncode
        return ended

    def free(store):
        if next(unread):
            raise OSError(errno.EIO, "Input/output error")
        return 0

    monkeypatch.setattr(workers.locks, "free", free)
    monkeypatch.setattr(workers.subprocess, "Popen", popen)
    monkeypatch.setattr(workers.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0))
    monkeypatch.setattr(workers.signal, "signal", lambda *_: None)
    monkeypatch.setattr(workers.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(workers.time, "sleep", lambda seconds: now.append(now.pop() + seconds))
    assert workers.main(["--cpus", "1", "--jugdir", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert "worker 0 ended with status 75; 0 of its locks freed\n" in said
    assert f"worker 0 ended with status 1; {tmp_path}: Input/output error\n" in said
    assert said.endswith("worker 0 is not started again after 6 restarts\n")
    waits = [after - before for before, after in itertools.pairwise(started)]
    assert [round(wait) for wait in waits] == [2, 4, 0, 16, 32, 0]


@pytest.mark.parametrize(
    "words", [["--cpus", "0"], ["--gpus", "a"], ["--gpus", ""], ["quick"], ["--cpus", "2", "--gpus", "0"]]
)
def test_a_mistake_is_said_and_ends_with_status_2(words, capsys):
    with pytest.raises(SystemExit) as left:
        workers.main(words)
    assert left.value.code == 2 and "error:" in capsys.readouterr().err


def test_an_option_that_the_status_does_not_know_is_a_mistake(capsys):
    """The settings' words alone choose what is looked at: an option among them would be left out without a word."""
    with pytest.raises(SystemExit) as left:
        status.main(["--scale=quick", "experiment=digits"])
    assert left.value.code == 2 and "--scale=quick: is no option" in capsys.readouterr().err


@pytest.mark.thorough
def test_gpus_that_are_not_there_are_no_cpus(monkeypatch, capsys):
    monkeypatch.setattr(workers, "cuda_devices", lambda gpus: 1)
    with pytest.raises(SystemExit) as left:
        workers.main(["--gpus", "0,1"])
    assert left.value.code == 2 and "torch finds 1 of these CUDA devices here" in capsys.readouterr().err
    for gpu in ("3", "GPU-8932f937-d72c", "MIG-GPU-8932f937-d72c/1/0", "MIG-3f2a"):
        assert workers.arguments(["--gpus", gpu])[0].gpus == gpu
    monkeypatch.undo()
    assert workers.cuda_devices("0") == min(torch.cuda.device_count(), 1)


@pytest.mark.parametrize(("gpus", "found"), [("0,1,2", 1), ("GPU-8932,GPU-f937", 1), ("MIG-3f2a,MIG-77b0", 2)])
def test_each_part_of_a_gpu_is_asked_for(monkeypatch, gpus, found):
    """A process finds one of them, however many are named."""
    one = subprocess.CompletedProcess([], 0, "1\n")
    monkeypatch.setattr(workers.subprocess, "run", lambda *_, **__: one)
    assert workers.cuda_devices(gpus) == found


@pytest.mark.parametrize("shut", ["store", "store/locks", "store/tempfiles"])
def test_a_store_that_is_another_user_s_is_one_sentence(shut, tmp_path, monkeypatch, capsys):
    """Root may write everywhere, so the answer is made up."""
    place = tmp_path / shut
    place.mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != place)
    with pytest.raises(SystemExit) as left:
        workers.main(["--cpus", "1", "--jugdir", str(tmp_path / "store")])
    assert left.value.code == 2
    assert f"{place} is not yours to write" in capsys.readouterr().err.splitlines()[-1]


def test_the_store_is_that_of_a_user_s_jugrc(tmp_path, monkeypatch, capsys):
    """`jug execute` reads it, too, so these would look at another store than its workers."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locks.usual() == "jugfile.jugdata"
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "jugrc").write_text(f"[main]\njugdir={tmp_path}/100%%/%(jugfile)s\n")
    assert workers.arguments(["--cpus", "1"])[0].jugdir == f"{tmp_path}/100%/jugfile"
    (tmp_path / "100%").mkdir()
    (tmp_path / "100%" / "jugfile").write_text("")
    for main in (workers.main, status.main):
        with pytest.raises(SystemExit):
            main([])
        assert "100%/jugfile: is a file" in capsys.readouterr().err.splitlines()[-1]
        with pytest.raises(SystemExit):
            main(["--help"])
        assert main is status.main or "100%/jugfile]" in capsys.readouterr().out.replace("\n", "").replace(" ", "")


def test_a_redis_server_that_does_not_answer_is_one_sentence(capsys):
    pytest.importorskip("redis")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for main in (workers.main, status.main):
        with pytest.raises(SystemExit) as left:
            main(["--jugdir", f"redis://127.0.0.1:{port}"])
        assert left.value.code == 2 and "no Redis server answers there" in capsys.readouterr().err.splitlines()[-1]


def test_a_store_that_is_a_file_is_one_sentence(tmp_path, capsys):
    (tmp_path / "store").write_text("")
    for main in (workers.main, status.main):
        with pytest.raises(SystemExit) as left:
            main(["--jugdir", str(tmp_path / "store")])
        assert left.value.code == 2 and "store: is a file; give a folder" in capsys.readouterr().err.splitlines()[-1]


def test_each_worker_has_one_thread_and_its_gpu(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert workers.environment("3") | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "3"} == workers.environment("3")
    assert "CUDA_VISIBLE_DEVICES" in workers.environment("0")


@pytest.mark.slow
def test_workers_that_are_killed_finish_the_grid_as_one_worker_does(copy, tmp_path_factory, monkeypatch):
    """SIGKILL to each new worker while it holds a lock, three times; then the grid ends, equal to a run left alone."""
    process, killed = started(copy, "--cpus", "2", *GRID), set()
    until = time.monotonic() + 240
    while process.poll() is None and len(killed) < 3 and time.monotonic() < until:
        held = list((copy / "jugfile.jugdata" / "locks").glob("*.lock"))
        owners = [locks.OWNER.match(lock.read_text()) for lock in held if lock.exists()]
        owners = {int(owner[1]) for owner in owners if owner} - killed  # one that is dead keeps its lock for a while
        for owner in [*owners & {*children(process)}][:1]:
            os.kill(owner, signal.SIGKILL)
            killed.add(owner)
        time.sleep(0.02)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0 and "all done" in out, err
    assert killed and err.count("was killed by SIGKILL") == len(killed)
    alone = tmp_path_factory.mktemp("alone")
    for name in ("conf", "experiments", "sgmcmc", "jugfile.py"):
        (alone / name).symlink_to(ROOT / name)
    words = ["jug", "execute", "jugfile.py", *GRID, "--will-cite"]
    assert forked(jug.jug.main, *words, folder=alone).returncode == 0
    for one, other in zip(all_draws(copy, monkeypatch), all_draws(alone, monkeypatch), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
def test_a_signal_leaves_with_status_75_and_the_same_words_go_on(copy):
    process = started(copy, "--cpus", "1", *GRID)
    while not list((copy / "results" / "runs").glob("*/*/status.json")) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGUSR1)
    process.communicate(timeout=120)
    assert process.returncode == 75
    assert not list((copy / "jugfile.jugdata" / "locks").glob("*.lock"))
    again = started(copy, "--cpus", "1", *GRID)
    out, err = again.communicate(timeout=240)
    assert again.returncode == 0 and "all done" in out, err
    shown = forked(status.main, "status.py", *GRID, folder=copy)
    assert shown.returncode == 0, shown.stderr
    head, line = (row.split() for row in shown.stdout.splitlines())
    cells = dict(zip(head, line, strict=False))
    assert cells["chains"] == cells["done"] and cells["running"] == "0" and "no table" not in shown.stdout
    words = ["jug", "invalidate", "jugfile.py", *GRID, "--name", "experiments.tasks.table"]
    assert forked(jug.jug.main, *words, folder=copy).returncode == 0
    assert "no table" in forked(status.main, "status.py", *GRID, folder=copy).stdout


@pytest.fixture
def redis():
    """The address of a Redis server of this test's own."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    pytest.importorskip("redis")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"redis://127.0.0.1:{port}"
    server.terminate()
    server.wait()


@pytest.mark.slow
def test_workers_share_a_grid_through_redis(copy, redis):
    process = started(copy, "--cpus", "2", "--jugdir", redis, *GRID)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0 and "all done" in out, err
    assert not (copy / "jugfile.jugdata").exists()
    words = ["jug", "check", "jugfile.py", *GRID, "--jugdir", redis]
    assert forked(jug.jug.main, *words, folder=copy).returncode == 0
    assert forked(status.main, "status.py", "--jugdir", redis, *GRID, folder=copy).returncode == 0


@pytest.mark.thorough
def test_the_status_of_a_table_that_came_with_the_repository(tmp_path):
    words = ["status.py", "--jugdir", "dict_store", "experiment=ggmc_appendix_c"]

    def line():
        shown = forked(status.main, *words, folder=tmp_path)
        assert shown.returncode == 0, shown.stderr
        return shown.stdout.splitlines()[1]

    assert line().split()[2:4] == ["4", "0"] and "table is there" not in line()
    (tmp_path / "results" / "paper" / "tables").mkdir(parents=True)
    (tmp_path / "results" / "paper" / "tables" / "ggmc_appendix_c.csv").touch()
    assert line().split()[2:4] == ["4", "0"] and "table is there" in line()
    words.append("seed=7")
    assert "table is there" not in line()  # it is of other chains


@pytest.mark.thorough
def test_the_status_of_unknown_words_is_one_sentence():
    shown = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "status.py"), "experiment=nothing"], capture_output=True, text=True
    )
    assert shown.returncode == 2 and len(shown.stderr.splitlines()) == 1


@pytest.mark.parametrize("script", ["cpu", "gpu"])
def test_the_cluster_scripts_are_in_order(script):
    path = ROOT / "scripts" / "slurm" / f"{script}.sbatch"
    assert subprocess.run(["bash", "-n", str(path)]).returncode == 0
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is not installed")
    assert subprocess.run(["shellcheck", str(path)]).returncode == 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("number", "state", "code", "requeued"),
    [
        (signal.SIGUSR1, "RUNNING", 75, True),
        (signal.SIGUSR1, "RUNNING", 0, False),
        (signal.SIGUSR1, "RUNNING", 1, False),
        (signal.SIGUSR1, "COMPLETING", 75, True),  # its time was over while checkpoints were written
        (signal.SIGTERM, "RUNNING", 75, True),
        (signal.SIGTERM, "COMPLETING", 75, False),  # scancel: queued again it would never end
    ],
)
def test_a_cluster_job_passes_the_signal_on_waits_and_is_queued_again(tmp_path, number, state, code, requeued):
    """Under a stand-in for SLURM: SIGUSR1 to the batch shell, as --signal=B:USR1 sends it, or SIGTERM; a squeue that
    says how the job stands, and a scontrol that notes."""
    worker = tmp_path / "python"
    worker.write_text(
        '#!/usr/bin/env bash\necho "$@" > words\n'
        f"trap 'echo got >> signals; sleep .3; exit {code}' USR1\necho ready > ready\nwhile true; do sleep .1; done\n"
    )
    scontrol = tmp_path / "scontrol"
    scontrol.write_text('#!/usr/bin/env bash\necho "$@" >> requeued\n')
    squeue = tmp_path / "squeue"
    squeue.write_text(f'#!/usr/bin/env bash\n[[ "$*" == "--noheader --jobs=5_2 --format=%T" ]] && echo {state}\n')
    for file in (worker, scontrol, squeue):
        file.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHON": "./python",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SLURM_CPUS_PER_TASK": "3",
        "SLURM_JOB_ID": "7",
        "SLURM_ARRAY_JOB_ID": "5",
        "SLURM_ARRAY_TASK_ID": "2",
    }
    script = ROOT / "scripts" / "slurm" / "cpu.sbatch"
    job = subprocess.Popen(["bash", str(script), "scale=quick"], env=environment)
    while not (tmp_path / "ready").exists():
        assert job.poll() is None
        time.sleep(0.02)
    job.send_signal(number)
    assert job.wait(timeout=30) == code
    assert (tmp_path / "signals").read_text().startswith("got\n")
    assert (tmp_path / "words").read_text().split() == ["scripts/workers.py", "--cpus", "3", "scale=quick"]
    assert (tmp_path / "requeued").exists() == requeued
    if requeued:
        assert (tmp_path / "requeued").read_text() == "requeue 5_2\n"


def test_status_counts_no_more_cycles_than_are_planned(tmp_path, monkeypatch):
    """A run of a larger scale may lie where this scale's does: their lengths are no part of its identity."""
    done = {"cycle": [50], "seconds": [5.0], "epoch": [math.nan]}

    def pace(chain):
        chain = {**chain, "state": "running"}
        return status.summary("toy", "quick", [chain, chain], {})["per minute"]

    monkeypatch.setattr(status, "folder", lambda config: tmp_path)
    monkeypatch.setattr(status, "last_row", lambda path: {name: column[-1] for name, column in done.items()})
    chain = status.look({"cycles": 20, "epochs_per_cycle": None}, None)
    assert chain["cycles"] == chain["planned"] == 20 and chain["each"] == pytest.approx(0.1)
    assert status.look({"cycles": 80, "epochs_per_cycle": None}, None)["cycles"] == 50
    assert pace(chain) == "1.2e+03 cycles"
    done["epoch"] = [2.0]
    assert pace(status.look({"cycles": 80, "epochs_per_cycle": None}, None)) == "48 epochs"


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="what a process reads is counted by Linux")
def test_status_reads_no_more_of_a_long_table_than_its_ends(tmp_path, monkeypatch):
    """Of hundreds of chains the tables are gigabytes on a disk that many share."""

    def read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    monkeypatch.setattr(status, "folder", lambda config: tmp_path)
    rows = [f"{cycle},{cycle / 2},nan,{cycle / 10},0.123456789,0.123456789\n" for cycle in range(1, 40_001)]
    (tmp_path / "metrics.csv").write_text("cycle,epoch,potential,seconds,a,b\n" + "".join(rows) + "40001,2")
    before = read()
    chain = status.look({"cycles": 80_000, "epochs_per_cycle": None}, None)
    assert read() - before < 100_000 < (tmp_path / "metrics.csv").stat().st_size / 10
    assert (chain["cycles"], chain["each"], chain["epochs"]) == (40_000, 0.1, 300.0)
    for text in ("", "cycle,ep", "cycle,epoch,seconds\n", "cycle,epoch,seconds\n1,2,"):
        (tmp_path / "metrics.csv").write_text(text)
        assert status.look({"cycles": 80_000, "epochs_per_cycle": None}, None)["cycles"] == 0
