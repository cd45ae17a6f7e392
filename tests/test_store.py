"""What a run keeps must survive kills, power cuts, full disks and broken files, and say what was lost."""

import contextlib
import errno
import hashlib
import json
import os
import pickle
import platform
import signal
import socket
import stat
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import load_file

import sgmcmc
from sgmcmc import disk, formats, loading, store
from sgmcmc.environment import environment
from sgmcmc.errors import DiskError, DiskFailed, StoreError
from sgmcmc.formats import read_status
from sgmcmc.loading import load_metrics, load_samples, load_trace
from sgmcmc.store import BEFORE, RunFolder

NEVER = 10**9
IDENTITY = {"hash": "abc", "law": 1, "sampler": {"name": "ggmc"}, "lr": 0.1}
BLOCKS = 4
HERE = environment("cpu")


def install(monkeypatch, system) -> None:
    """Let the program call ``system`` where it would call ``os``."""
    monkeypatch.setattr(store, "os", system)
    monkeypatch.setattr(disk, "os", system)


@pytest.fixture(autouse=True)
def small_files(monkeypatch):
    """Five draws of 3 chains in 2 dimensions (float32) fill a sample file; nothing waits for the disk."""
    install(monkeypatch, FaultyOS(NEVER, Killed()))
    monkeypatch.setattr(formats, "SAMPLE_BYTES", 5 * 3 * 2 * 4)
    monkeypatch.setattr(store, "environment", lambda device: HERE)


def draw(index: int) -> torch.Tensor:
    return torch.arange(6.0).view(1, 3, 2) / 7 + index


def block(state: dict | None) -> dict:
    """One block of a stand-in for a chain: two draws, a row and two traced steps, from the state alone."""
    at = state["cycle"] if state else 0
    position = state["position"] if state else torch.zeros(3, 2)
    row = {"cycle": at + 2, "potential": 1 / (at + 3), "log_accept": float("-inf"), "accepted": at % 4 == 0}
    return {
        "rows": [row],
        "draws": torch.cat((draw(at), draw(at + 1))),
        "state": {"cycle": at + 2, "position": position + 1 / 3, "sign": [1, -1.5, "x", None, (2, 2**70)]},
        "trace_rows": [{"step": step, "energy": step / 3} for step in (at, at + 1)],
    }


def run(path, blocks=BLOCKS, told=None, keep="all") -> RunFolder:
    """Continue the run up to so many blocks; the folder is closed also after an error."""
    with RunFolder(path, IDENTITY, "lr: 0.1\n", warn=(told if told is not None else []).append) as folder:
        state = folder.load()
        while (state["cycle"] if state else 0) < 2 * blocks:
            new = block(state)
            folder.commit(**new, keep=keep)
            state = new["state"]
        folder.status(state="done")
    return folder


def content(path) -> dict[str, bytes]:
    """Everything a run leaves but times."""
    files = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return {name: data for name, data in files.items() if name not in (".lock", "status.json", "log.txt")}


@pytest.fixture
def whole(tmp_path) -> dict[str, bytes]:
    run(tmp_path / "whole")
    return content(tmp_path / "whole")


class Killed(BaseException):
    """Stands for SIGKILL: no handler of errors sees it."""


class FaultyOS:
    """The ``os`` module, of which the k-th call that changes the disk fails.

    ``power_cut`` also takes back what was written and not flushed, before the error is raised. What is killed
    tidies nothing up; ``process`` is its number, where that of the tests' process would be told.
    """

    def __init__(self, fail_at: int, error: BaseException, power_cut: bool = False, process: int = 0):
        self.process = process
        self.left, self.error, self.power_cut = fail_at, error, power_cut
        self.dirty: dict[Path, int] = {}  # files with unflushed bytes, and their length before those

    def __getattr__(self, name):
        call = getattr(os, name)
        if name == "getpid":
            return lambda: self.process or os.getpid()
        if name not in ("write", "fsync", "replace", "unlink", "ftruncate", "mkdir", "makedirs", "open", "rmdir"):
            return call

        def counted(*words, **more):
            if name == "open" and not words[1] & os.O_CREAT:
                return call(*words, **more)
            self.left -= 1
            if self.left < 0 and isinstance(self.error, Killed):
                raise self.error
            if self.left == 0:
                if name == "write":  # half of it arrives
                    os.write(words[0], words[1][: len(words[1]) // 2])
                if self.power_cut:
                    for path, length in self.dirty.items():
                        if path.exists():
                            os.truncate(path, min(length, path.stat().st_size))
                raise self.error
            if name == "replace" and Path(words[0]) in self.dirty:
                self.dirty[Path(words[1])] = self.dirty.pop(Path(words[0]))
            if name in ("write", "fsync"):
                path = Path(os.readlink(f"/proc/self/fd/{words[0]}"))
                if name == "write":
                    self.dirty.setdefault(path, path.stat().st_size)
                else:
                    self.dirty.pop(path, None)
            return None if name == "fsync" else call(*words, **more)

        return counted


def test_nothing_is_written_before_the_first_block(tmp_path):
    with RunFolder(tmp_path / "a" / "b", IDENTITY, "lr: 0.1\n") as folder:
        assert folder.load() is None
    assert not (tmp_path / "a").exists()


def test_commit_and_load(tmp_path):
    told = []
    run(tmp_path / "run", told=told)
    with RunFolder(tmp_path / "run", IDENTITY, "lr: 0.1\n", warn=told.append) as folder:
        state = folder.load()
    last = block({"cycle": 2 * BLOCKS - 2, "position": torch.zeros(3, 2)})["state"]
    position, expected = torch.zeros(3, 2), last.pop("position")
    for _ in range(BLOCKS):
        position = position + 1 / 3
    assert torch.equal(state.pop("position"), position) and expected.shape == (3, 2)
    assert state == last and not told
    assert torch.equal(load_samples(tmp_path / "run"), torch.cat([draw(k) for k in range(2 * BLOCKS)]))
    metrics, trace = load_metrics(tmp_path / "run"), load_trace(tmp_path / "run")
    assert list(metrics) == ["cycle", "potential", "log_accept", "accepted"]
    assert metrics["cycle"].dtype == numpy.int64 and metrics["cycle"].tolist() == list(range(2, 2 * BLOCKS + 1, 2))
    assert metrics["potential"].tolist() == [1 / (at + 3) for at in range(0, 2 * BLOCKS, 2)]
    assert numpy.all(metrics["log_accept"] == -numpy.inf) and metrics["accepted"].tolist() == [1, 0, 1, 0]
    assert trace["energy"].tolist() == [step / 3 for step in range(2 * BLOCKS)]
    assert (tmp_path / "run" / "config.yaml").read_text() == "lr: 0.1\n"
    status = read_status(tmp_path / "run")
    assert status["state"] == "done" and status["identity"] == IDENTITY and len(status["environments"]) == 1
    assert status["environments"][0]["torch"] == torch.__version__


def test_full_sample_files_do_not_depend_on_the_blocks(tmp_path, whole):
    """Draws of many small blocks are merged into files of five; what the checkpoint before needs has another name, so
    that all sample files hold each draw once."""
    assert sorted(name for name in whole if name.startswith("samples")) == [
        "samples/00000005.safetensors",
        "samples/00000006.safetensors.before",
        "samples/00000008.safetensors",
    ]
    files = sorted((tmp_path / "whole" / "samples").glob("*.safetensors"))
    assert torch.equal(torch.cat([load_file(file)["draws"] for file in files]), load_samples(tmp_path / "whole"))
    with RunFolder(tmp_path / "one", IDENTITY, "lr: 0.1\n") as folder:
        folder.commit([], torch.cat([draw(k) for k in range(8)]), {})
    one = content(tmp_path / "one")
    for stop in (5, 8):
        assert one[f"samples/{stop:08d}.safetensors"] == whole[f"samples/{stop:08d}.safetensors"]
    assert torch.equal(load_samples(tmp_path / "one"), load_samples(tmp_path / "whole"))


@pytest.mark.thorough
@pytest.mark.parametrize("failure", ["killed", "power cut", "disk full"])
def test_failure_at_every_call_and_continued(tmp_path, monkeypatch, whole, failure):
    """For every k: three attempts that each fail at their k-th change to the disk (so that recovery is
    interrupted too), then one that does not; the end is that of the undisturbed run."""
    undisturbed = FaultyOS(NEVER, Killed())
    install(monkeypatch, undisturbed)
    run(tmp_path / "undisturbed")
    calls = NEVER - undisturbed.left
    assert calls > 80
    error = OSError(errno.ENOSPC, "No space left on device") if failure == "disk full" else Killed()
    for fail_at in range(1, calls + 1):
        path, told, failures = tmp_path / f"run{fail_at}", [], 0
        for attempt in range(3):
            process = 2**22 + 1 + attempt  # more than Linux counts to
            install(monkeypatch, FaultyOS(fail_at, error, failure == "power cut", process))
            try:
                run(path, told=told)
            except Killed:
                failures += 1
            except StoreError as full:
                failures += 1
                assert str(path) in str(full) and "no space is left on the disk" in str(full)
                assert not list(tmp_path.rglob("*.part"))
                assert not path.exists() or read_status(path)["identity"] == IDENTITY
        assert failures or failure == "disk full"  # tidying up may fail without harm
        install(monkeypatch, FaultyOS(NEVER, error))
        run(path, told=told)
        assert content(path) == whole, fail_at
        assert not told


def test_the_names_of_new_folders_and_of_the_status_outlast_a_power_cut(tmp_path, monkeypatch):
    """What has a name on the disk before what: the folders, then whose run it is, and only then anything else."""
    done, sync, write = [], disk.sync, disk.write
    monkeypatch.setattr(disk, "sync", lambda folder: (done.append(("sync", folder)), sync(folder)))
    monkeypatch.setattr(disk, "write", lambda path, data: (done.append(("write", path)), write(path, data)))
    path = tmp_path / "runs" / "name" / "hash"
    with RunFolder(path, IDENTITY, "lr: 0.1\n") as folder:
        folder.open()
    for one in (tmp_path, tmp_path / "runs", tmp_path / "runs" / "name", path):
        assert ("sync", one) in done
    status, config = done.index(("write", path / "status.json")), done.index(("write", path / "config.yaml"))
    assert ("sync", path) in done[status:config]


def test_load_takes_the_newest_block_and_cuts_off_what_follows(tmp_path, monkeypatch):
    for blocks in range(1, 4):
        run(tmp_path / "run", blocks)
        with RunFolder(tmp_path / "run", IDENTITY) as folder:
            state = folder.load()
            assert state["cycle"] == 2 * blocks
            with pytest.raises(Killed), monkeypatch.context() as patch:
                patch.setattr(store, "pack", lambda content: (_ for _ in ()).throw(Killed()))
                folder.commit(**block(state))
        assert len(load_metrics(tmp_path / "run")["cycle"]) == blocks + 1
        with RunFolder(tmp_path / "run", IDENTITY) as folder:
            folder.load()
        assert len(load_metrics(tmp_path / "run")["cycle"]) == blocks
        assert len(load_samples(tmp_path / "run")) == 2 * blocks


def test_interrupted_commit_in_one_process(tmp_path, monkeypatch, whole):
    """As with control-C in a notebook: the same object goes on."""
    with RunFolder(tmp_path / "run", IDENTITY, "lr: 0.1\n") as folder:
        state = None
        for _ in range(BLOCKS):
            new = block(state)
            with pytest.raises(Killed), monkeypatch.context() as patch:
                patch.setattr(store, "pack", lambda content: (_ for _ in ()).throw(Killed()))
                folder.commit(**{**new, "rows": new["rows"] * 3})
            folder.commit(**new)
            state = new["state"]
    assert content(tmp_path / "run") == whole


@pytest.mark.thorough
def test_a_failed_block_can_be_written_again(tmp_path, monkeypatch, whole):
    """Within one process: everything before it is intact, and the same call succeeds when there is room."""
    for fail_at in range(1, 40):
        with RunFolder(tmp_path / str(fail_at), IDENTITY, "lr: 0.1\n") as folder:
            state = None
            for _ in range(BLOCKS):
                new = block(state)
                install(monkeypatch, FaultyOS(fail_at, OSError(errno.EDQUOT, "Disk quota exceeded")))
                earlier = content(folder.path) if folder.path.exists() and state else {}
                try:
                    folder.commit(**new)
                except StoreError:
                    now = content(folder.path) if folder.path.exists() else {}
                    now = {name.removesuffix(BEFORE): data for name, data in now.items()}
                    for name, data in earlier.items():  # a name that could not be given then, may be now
                        assert now.get(name.removesuffix(BEFORE)) == data
                    install(monkeypatch, FaultyOS(NEVER, Killed()))
                    folder.commit(**new)
                state = new["state"]
        install(monkeypatch, FaultyOS(NEVER, Killed()))
        assert torch.equal(load_samples(folder.path), torch.cat([draw(k) for k in range(2 * BLOCKS)]))
        assert content(folder.path)["metrics.csv"] == whole["metrics.csv"]
        run(folder.path)
        assert {**whole, **content(folder.path)} == content(folder.path)


@pytest.mark.thorough
def test_killed_by_sigkill(tmp_path):
    """A process that commits as fast as it can, killed by the system, is continued with nothing lost."""
    program = (
        "import sys, torch; from sgmcmc.store import RunFolder\n"
        "folder = RunFolder(sys.argv[1]); state = folder.load() or {'cycle': 0}\n"
        "while True:\n"
        "    at = state['cycle']; state = {'cycle': at + 1}\n"
        "    folder.commit([{'cycle': at}], torch.full((1, 2, 3), float(at)), state); print(at, flush=True)\n"
    )
    path = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True)
    seen = [int(process.stdout.readline()) for _ in range(20)]
    assert not store.killed(path)
    process.send_signal(signal.SIGKILL)
    seen += [int(line) for line in process.stdout.read().split()]
    assert process.wait() == -signal.SIGKILL
    assert store.killed(path) and read_status(path)["state"] == "running"
    with RunFolder(path) as folder:
        cycles = folder.load()["cycle"]
        assert not store.killed(path)
    assert cycles in (len(seen), len(seen) + 1)
    assert load_samples(path)[:, 0, 0].tolist() == load_metrics(path)["cycle"].tolist() == list(range(cycles))


@pytest.mark.parametrize(
    "lock",
    [
        "process 9999999 on elsewhere\n",
        "process 1 on HERE\n",
        "",
        "process x on HERE\n",
        "process 9",
        "pid 9999999 on HERE",
        None,
    ],
)
def test_who_cannot_be_known_to_be_gone_is_not_called_killed(tmp_path, lock):
    """Another machine's process, another user's, a lock of which nothing is known."""
    if lock is not None:
        (tmp_path / ".lock").write_text(lock.replace("HERE", socket.gethostname()))
    assert not store.killed(tmp_path)
    (tmp_path / ".lock").write_text(f"process 9999999 on {socket.gethostname()}\n")
    assert store.killed(tmp_path)


def test_a_process_that_has_the_number_of_one_that_is_gone_is_another(tmp_path):
    """As after a restart of the machine, or of its container: numbers begin anew."""
    (tmp_path / ".lock").write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
    assert not store.killed(tmp_path)
    os.utime(tmp_path / ".lock", (1e9, 1e9))
    assert store.killed(tmp_path)


def test_a_process_is_there_in_a_container_whose_uptime_is_its_own(tmp_path, monkeypatch):
    """As LXC's is, where the kernel's numbers of when processes began are the machine's."""
    real = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path: "120.0 1.0" if path.name == "uptime" else real(path))
    (tmp_path / ".lock").write_text(f"process {os.getpid()} on {socket.gethostname()}\n")
    assert not store.killed(tmp_path)


def test_a_folder_in_the_home_folder_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    run("~/run")
    assert len(load_samples("~/run")) == len(load_samples(tmp_path / "run")) == 2 * BLOCKS
    assert store.killed("~/run") is store.killed(tmp_path / "run") is False


def test_a_home_folder_that_is_not_known_is_a_folder_s_name_as_in_a_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("~nobody-here/run")
    assert len(load_samples("~nobody-here/run")) == 2 * BLOCKS and (tmp_path / "~nobody-here/run").is_dir()
    assert store.killed("~nobody-here/run") is False


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="notes.txt is a file: give this run another output"):
        RunFolder(tmp_path / "notes.txt", IDENTITY).load()
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_another_user_s_process_is_there(tmp_path, monkeypatch):
    def of_another(process, number):
        raise PermissionError

    monkeypatch.setattr(os, "kill", of_another)
    (tmp_path / ".lock").write_text(f"process 9999999 on {socket.gethostname()}\n")
    assert not store.killed(tmp_path)


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "zero":
        path.write_bytes(b"")
    elif how == "truncated":
        path.write_bytes(data[:-5])
    elif how == "saved by a spreadsheet":
        path.write_bytes(b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n"))
    else:
        at = {"flipped": len(data) - 10, "flipped head": 60}[how]
        path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])


HOWS = ["zero", "truncated", "flipped", "flipped head", "missing"]


def copies(path: Path) -> list[Path]:
    """The file, and a table's copy."""
    return [path, path.with_name(f".{path.name}")][: 2 if path.suffix == ".csv" else 1]


def newest_checkpoint(path: Path) -> Path:
    return max(path.glob("checkpoint-*.pt"), key=lambda file: formats.read_checkpoint(file)["record"]["block"])


@pytest.mark.parametrize("how", HOWS[:4])
def test_damaged_newest_checkpoint(tmp_path, whole, how):
    run(tmp_path / "run")
    damage(newest_checkpoint(tmp_path / "run"), how)
    told = []
    with RunFolder(tmp_path / "run", IDENTITY, warn=told.append) as folder:
        assert folder.load()["cycle"] == 2 * BLOCKS - 2
    assert len(told) == 1 and "checkpoint-0.pt is damaged: continuing from block 3" in told[0]
    run(tmp_path / "run")
    assert content(tmp_path / "run") == whole
    assert told[0] in (tmp_path / "run" / "log.txt").read_text()


@pytest.mark.parametrize("how", HOWS)
def test_damaged_newest_samples(tmp_path, whole, how):
    run(tmp_path / "run")
    damage(tmp_path / "run" / "samples" / "00000008.safetensors", how)
    with pytest.raises(StoreError, match="missing" if how == "missing" else "00000008.safetensors is damaged"):
        if how == "missing":  # the draws that are left are those of the run three draws ago
            assert len(load_samples(tmp_path / "run")) == 5
            raise StoreError("missing")
        load_samples(tmp_path / "run")
    told = []
    run(tmp_path / "run", told=told)
    assert content(tmp_path / "run") == whole
    assert len(told) == 1 and "continuing from block 3" in told[0]


@pytest.mark.parametrize("name", ["metrics.csv", "trace.csv"])
@pytest.mark.parametrize("how", ["truncated", "flipped"])
def test_damaged_end_of_a_table(tmp_path, whole, name, how):
    run(tmp_path / "run")
    for path in copies(tmp_path / "run" / name):
        if how == "truncated":
            damage(path, how)
        else:
            path.write_bytes(path.read_bytes()[:-3] + b"7" + path.read_bytes()[-2:])
    told = []
    run(tmp_path / "run", told=told)
    assert content(tmp_path / "run") == whole
    assert len(told) == 1 and f"{name} is damaged: continuing from block 3" in told[0]


@pytest.mark.parametrize("name", ["metrics.csv", "trace.csv"])
@pytest.mark.parametrize("how", [*HOWS, "saved by a spreadsheet", "as of the block before"])
@pytest.mark.parametrize("blocks", [2, BLOCKS])
def test_a_damaged_table_is_written_anew_from_its_copy(tmp_path, whole, name, how, blocks):
    """Wherever in it the damage is, and whether the run is over or not, nothing is computed again."""
    run(tmp_path / "run", blocks)
    path = tmp_path / "run" / name
    if how == "as of the block before":
        before = formats.read_checkpoint(tmp_path / "run" / f"checkpoint-{(blocks - 1) % 2}.pt")["record"]
        path.write_bytes(path.read_bytes()[: before["tables"][name]["length"]])
    else:
        damage(path, how)
    told, computed = [], []
    with RunFolder(tmp_path / "run", IDENTITY, warn=told.append) as folder:
        assert folder.load()["cycle"] == 2 * blocks
    assert len(told) == 1 and f"{name} was not as the run wrote it, and is written anew from its copy" in told[0]
    run(tmp_path / "run", told=computed)
    assert content(tmp_path / "run") == whole and not computed


@pytest.mark.parametrize("name", ["metrics.csv", "trace.csv"])
@pytest.mark.parametrize("how", HOWS)
def test_a_damaged_copy_is_made_anew(tmp_path, whole, name, how):
    """A run that was begun before there were copies has them, too, once it is continued; nobody need be told."""
    run(tmp_path / "run", 2)
    damage(tmp_path / "run" / f".{name}", how)
    told = []
    run(tmp_path / "run", told=told)
    assert content(tmp_path / "run") == whole and not told


@pytest.mark.parametrize("name", ["metrics.csv", "trace.csv"])
def test_a_table_of_which_there_is_no_copy_is_continued_where_none_can_be_written(tmp_path, monkeypatch, name):
    run(tmp_path / "run", 2)
    (tmp_path / "run" / f".{name}").unlink()

    def full(path, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, RunFolder(tmp_path / "run", IDENTITY) as folder:
        patch.setattr(disk, "write", full)
        assert folder.load()["cycle"] == 4


@pytest.mark.parametrize("name", ["metrics.csv", "trace.csv"])
@pytest.mark.parametrize("how", ["missing", "truncated", "saved by a spreadsheet"])
def test_a_table_that_is_saved_while_the_run_goes_on_is_written_anew_with_the_next_block(tmp_path, whole, name, how):
    told, path = [], tmp_path / "run" / name
    with RunFolder(tmp_path / "run", IDENTITY, "lr: 0.1\n", warn=told.append) as folder:
        state = folder.load()
        for number in range(BLOCKS):
            if number == 2:
                damage(path, how)
            new = block(state)
            folder.commit(**new)
            state = new["state"]
    assert content(tmp_path / "run") == whole
    assert len(told) == 1 and f"{name} was not as the run wrote it, and is written anew from its copy" in told[0]


def test_what_is_added_to_a_table_of_a_run_that_is_over_is_noticed_and_removed(tmp_path, whole):
    for name in ("metrics.csv", "trace.csv"):
        run(tmp_path / "run")
        with (tmp_path / "run" / name).open("a") as file:
            file.write("my notes\n")
        assert store.damage(tmp_path / "run") == f"{name} is longer than it was written"
        run(tmp_path / "run")
        assert content(tmp_path / "run") == whole and not store.damage(tmp_path / "run")


def test_a_folder_of_which_all_that_is_not_hidden_was_removed_is_empty(tmp_path, whole):
    run(tmp_path / "run")
    subprocess.run(f"rm -r {tmp_path}/run/*", shell=True, check=True)
    told = []
    run(tmp_path / "run", told=told)
    assert content(tmp_path / "run") == whole and not told


def test_bytes_that_are_no_text_after_what_the_older_checkpoint_records(tmp_path, whole):
    """The header is read without decoding the damaged rows behind it."""
    run(tmp_path / "run")
    for path in copies(tmp_path / "run" / "metrics.csv"):
        path.write_bytes(path.read_bytes()[:-3] + b"\xb2" + path.read_bytes()[-2:])
    told = []
    run(tmp_path / "run", told=told)
    assert content(tmp_path / "run") == whole
    assert len(told) == 1 and "metrics.csv is damaged: continuing from block 3" in told[0]


@pytest.mark.parametrize("name", ["metrics.csv", "samples/00000005.safetensors"])
@pytest.mark.parametrize("how", HOWS)
def test_damage_that_no_checkpoint_precedes(tmp_path, whole, name, how):
    """What both checkpoints need is gone: the run starts from nothing, says so, and throws nothing away."""
    run(tmp_path / "run")
    for path in copies(tmp_path / "run" / name):
        if name == "metrics.csv" and how in ("truncated", "flipped"):  # in the rows of the first block
            path.write_bytes(path.read_bytes()[:45] + (b"" if how == "truncated" else b"x" + path.read_bytes()[46:]))
        else:
            damage(path, how)
    left = content(tmp_path / "run")
    told = []
    run(tmp_path / "run", told=told)
    now = content(tmp_path / "run")
    assert {key: data for key, data in now.items() if not key.startswith("damaged-1/")} == whole
    assert {key for key in left if key != "config.yaml"} == {
        key.removeprefix("damaged-1/") for key in now if key.startswith("damaged-1/")
    }
    assert len(told) == 1 and "starts from nothing" in told[0] and f"{name} is" in told[0]


def test_killed_while_setting_aside(tmp_path, monkeypatch):
    for fail_at in range(1, 20):
        path = tmp_path / str(fail_at)
        run(path)
        damage(path / "samples" / "00000005.safetensors", "flipped")
        left = {name: data for name, data in content(path).items() if name != "config.yaml"}
        install(monkeypatch, FaultyOS(fail_at, Killed()))
        try:
            run(path)
        except Killed:
            install(monkeypatch, FaultyOS(NEVER, Killed()))
            run(path)
        aside = {name.split("/", 1)[1]: data for name, data in content(path).items() if name.startswith("damaged")}
        assert aside == left


def test_the_checkpoint_before_keeps_its_samples(tmp_path):
    """Also when a block without draws stands between."""
    with RunFolder(tmp_path / "run") as folder:
        for cycle, draws in enumerate((draw(0), None, draw(1))):
            folder.commit([], draws, {"cycle": cycle})
    damage(tmp_path / "run" / "checkpoint-1.pt", "zero")
    told = []
    with RunFolder(tmp_path / "run", warn=told.append) as folder:
        assert folder.load() == {"cycle": 1}
    assert torch.equal(load_samples(tmp_path / "run"), draw(0)) and "continuing from block 2" in told[0]


@pytest.mark.parametrize("name", ["checkpoint-0.pt", "metrics.csv", "samples/00000008.safetensors"])
def test_a_run_that_is_computed_again_from_the_block_before_is_read_meanwhile(tmp_path, name):
    """As far as it has come again, though the record of a checkpoint whose tensors are damaged may still be read."""
    run(tmp_path / "run", 4)
    for path in copies(tmp_path / "run" / name):
        blob = path.read_bytes()
        at = blob.index(b"sgmcmc checkpoint") + 20 if name.startswith("checkpoint") else len(blob) - 2
        path.write_bytes(blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :])
    with RunFolder(tmp_path / "run", IDENTITY, warn=lambda _: None) as folder:
        assert folder.load()["cycle"] == 6
        assert len(load_samples(tmp_path / "run")) == 6 and len(load_metrics(tmp_path / "run")["cycle"]) == 3


@pytest.mark.parametrize("name", ["samples", "metrics.csv", "checkpoint-0.pt"])
def test_a_link_to_a_disk_that_is_not_mounted_sets_nothing_aside(tmp_path, whole, name):
    run(tmp_path / "run", 2)
    place, elsewhere = tmp_path / "run" / name, tmp_path / "scratch" / name
    elsewhere.parent.mkdir()
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    elsewhere.parent.rename(tmp_path / "away")
    before = content(tmp_path / "run")
    with pytest.raises(DiskError, match=f"run/{name} is a link to .*scratch/{name}, which is not there: is its disk m"):
        run(tmp_path / "run")
    assert content(tmp_path / "run") == before
    (tmp_path / "away").rename(elsewhere.parent)
    told = []
    run(tmp_path / "run", told=told)
    assert not told and len(load_samples(tmp_path / "run")) == 2 * BLOCKS


def test_samples_of_another_run_are_noticed(tmp_path):
    run(tmp_path / "run")
    with RunFolder(tmp_path / "other") as folder:
        folder.commit([], torch.cat([draw(k + 1) for k in range(8)]), {})
    name = "samples/00000008.safetensors"
    (tmp_path / "run" / name).write_bytes((tmp_path / "other" / name).read_bytes())
    told = []
    run(tmp_path / "run", told=told)
    assert f"{name} is not the one that was written" in told[0]


def test_both_checkpoints_damaged(tmp_path, whole):
    run(tmp_path / "run")
    for slot in store.SLOTS:
        damage(tmp_path / "run" / slot, "truncated")
    told = []
    run(tmp_path / "run", told=told)
    assert {name: data for name, data in content(tmp_path / "run").items() if "damaged" not in name} == whole
    assert "checkpoint-0.pt is damaged and checkpoint-1.pt is damaged" in told[0]
    with RunFolder(tmp_path / "run", IDENTITY, warn=told.append) as folder:
        folder.open()
        for slot in store.SLOTS:
            damage(tmp_path / "run" / slot, "zero")
        assert folder.load() is None
        folder.commit(**block(None))
    assert len(load_samples(tmp_path / "run")) == 2


def test_a_folder_is_free_when_its_run_ends_though_a_child_still_lives(tmp_path):
    """One that was forked meanwhile, such as a worker of a DataLoader's, has the lock's file open."""
    with RunFolder(tmp_path / "run", IDENTITY) as folder:
        folder.open()
        held = [folder._lock.fileno()]
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=held)
    try:
        with RunFolder(tmp_path / "run", IDENTITY) as again:
            again.open()
    finally:
        child.communicate(b"\n")


def test_a_checkpoint_of_another_pickle_is_damaged_and_no_warning_is_hidden(tmp_path):
    """torch would warn of it; to hide that would be to change the filters of the process, in a thread of several."""
    payload, path = pickle.dumps({"cycle": 1}), tmp_path / "one.pt"
    head = b"%s%d %s\n" % (formats._MAGIC, formats._FORMAT, hashlib.sha256(payload).hexdigest().encode())
    path.write_bytes(head + payload)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(formats.Damaged, match="one.pt is damaged"):
            formats.read_checkpoint(path)


def test_the_record_of_a_checkpoint_is_read_without_its_tensors(tmp_path):
    """Whatever beside it is damaged; and no code is run."""
    run(tmp_path / "run")
    path, kept = newest_checkpoint(tmp_path / "run"), tmp_path / "kept.pt"
    record, blob = formats.read_checkpoint(path)["record"], path.read_bytes()
    assert formats.read_record(path) == record and record["block"] == BLOCKS
    for at in range(0, len(blob), 7):
        kept.write_bytes(blob[:at] + bytes([blob[at] ^ 4]) + blob[at + 1 :])
        with contextlib.suppress(formats.Damaged):
            assert formats.read_record(kept) == record
        kept.write_bytes(blob[:at])
        with pytest.raises(formats.Damaged, match="kept.pt is damaged"):
            formats.read_record(kept)

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    kept.write_bytes(formats.pack({"record": {"block": 1}, "state": Evil(), "more": [torch.zeros(2), {}]}))
    assert formats.read_record(kept) == {"block": 1} and not (tmp_path / "made").exists()


def test_a_checkpoint_is_data(tmp_path):
    """A checkpoint with a right checksum that holds code is not run."""
    run(tmp_path / "run")
    slot = newest_checkpoint(tmp_path / "run")
    slot.write_bytes(formats.pack({**formats.read_checkpoint(slot), "state": print}))
    told = []
    with RunFolder(tmp_path / "run", IDENTITY, warn=told.append) as folder:
        assert folder.load()["cycle"] == 2 * BLOCKS - 2
    assert "checkpoint-0.pt is damaged" in told[0]
    with RunFolder(tmp_path / "other", IDENTITY) as folder, pytest.raises(TypeError, match="not function"):
        folder.commit([], None, {"code": draw})


@pytest.mark.parametrize("how", ["zero", "truncated", "flipped"])
def test_a_damaged_status_is_told_and_written_anew(tmp_path, whole, how):
    """A flipped bit in it is neither another configuration nor another number of cycles."""
    run(tmp_path / "run", blocks=2)
    path = tmp_path / "run" / "status.json"
    for place in (2, -40) if how != "flipped" else range(3, path.stat().st_size, 97):
        sound = path.read_bytes()
        if how == "flipped":
            path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        else:
            path.write_bytes(sound[:place] if how == "truncated" else b"")
        with pytest.raises(StoreError, match="damaged"):
            read_status(tmp_path / "run")
        told = []
        run(tmp_path / "run", blocks=2, told=told)
        assert len(told) == 1 and "status.json is damaged: it is written anew" in told[0]
        assert read_status(tmp_path / "run")["state"] == "done"
    run(tmp_path / "run")
    assert content(tmp_path / "run") == whole


def test_a_status_without_a_checksum_is_damaged(tmp_path):
    (tmp_path / "status.json").write_text('{"state": "done", "cycles": 3}')
    with pytest.raises(StoreError, match="damaged"):
        read_status(tmp_path)


def test_damage_of_a_finished_run_is_found_without_touching_it(tmp_path):
    run(tmp_path / "run")
    sound = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert store.damage(tmp_path / "run") is None and store.damage(tmp_path / "nothing") is None
    for name in ("samples/00000008.safetensors", "metrics.csv", "trace.csv", newest_checkpoint(tmp_path / "run").name):
        for how in ("truncated", "flipped"):
            damage(tmp_path / "run" / name, how)
            assert f"{name} is damaged" in store.damage(tmp_path / "run")
            (tmp_path / "run" / name).write_bytes(sound[tmp_path / "run" / name])
    assert store.damage(tmp_path / "run") is None
    assert sound == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}


def test_a_file_of_the_callers_own_is_there_as_a_whole_or_not(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run", IDENTITY)
    folder.write("more.bin", b"one")
    full = OSError(errno.ENOSPC, "No space left on device")
    for fail_at in range(1, 5):
        install(monkeypatch, FaultyOS(fail_at, full))
        with pytest.raises(DiskFailed, match="no space is left"):
            folder.write("more.bin", b"two")
        install(monkeypatch, FaultyOS(NEVER, full))
        assert (tmp_path / "run" / "more.bin").read_bytes() == b"one" and not list(tmp_path.rglob("*.part"))
    folder.write("more.bin", b"two")
    assert (tmp_path / "run" / "more.bin").read_bytes() == b"two"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_system_whose_folders_cannot_be_synced_holds_runs(number, tmp_path, monkeypatch):
    run(tmp_path / "before")
    real = os.fsync

    def fsync(file):
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(number, os.strerror(number))
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    run(tmp_path / "run")
    assert content(tmp_path / "run") == content(tmp_path / "before")


def test_a_damaged_configuration_file_is_written_anew(tmp_path):
    run(tmp_path / "run", blocks=1)
    (tmp_path / "run" / "config.yaml").write_bytes(b"\xff\xfe")
    run(tmp_path / "run", blocks=2)
    assert (tmp_path / "run" / "config.yaml").read_text() == "lr: 0.1\n"


def test_another_format_is_refused(tmp_path, monkeypatch):
    run(tmp_path / "run")
    monkeypatch.setattr(formats, "_FORMAT", 2)
    with pytest.raises(StoreError, match="another version"):
        RunFolder(tmp_path / "run", IDENTITY).load()


def test_another_identity(tmp_path):
    run(tmp_path / "run")
    before = content(tmp_path / "run")
    for other, words in [
        ({**IDENTITY, "hash": "abd", "sampler": {"name": "hmc"}}, r"sampler.name is ggmc there and hmc here"),
        ({**IDENTITY, "law": 2}, r"law is 1 there and 2 here"),
        (None, "made by a command"),
    ]:
        with pytest.raises(StoreError, match=words):
            RunFolder(tmp_path / "run", other).load()
        with pytest.raises(StoreError, match=words):
            RunFolder(tmp_path / "run", other, "lr: 1\n").status(state="running")
    (tmp_path / "run" / "status.json").write_bytes(b"")  # then the checkpoint tells
    with pytest.raises(StoreError, match="law is 1 there"):
        RunFolder(tmp_path / "run", {**IDENTITY, "law": 2}).load()
    assert content(tmp_path / "run") == before


def test_a_folder_that_is_no_run(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    for act, file in (
        (lambda folder: folder.load(), "is a file: give this run another output"),
        (lambda folder: folder.open(), "File exists: is this run's output what you meant"),
    ):
        with pytest.raises(StoreError, match="something else than a run"):
            act(RunFolder(tmp_path, IDENTITY))
        with pytest.raises(StoreError, match=file):
            act(RunFolder(tmp_path / "thesis.txt", IDENTITY))
    with pytest.raises(StoreError, match="Not a directory"):
        RunFolder(tmp_path / "thesis.txt" / "run", IDENTITY).open()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_one_process_at_a_time(tmp_path):
    first = RunFolder(tmp_path / "run", IDENTITY)
    first.commit(**block(None))
    for act in (lambda folder: folder.load(), lambda folder: folder.open()):
        with pytest.raises(StoreError, match=f"being written by process {os.getpid()}"):
            act(RunFolder(tmp_path / "run", IDENTITY))
    first.close()
    with RunFolder(tmp_path / "run", IDENTITY) as second:
        assert second.load()["cycle"] == 2


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def flock(number):
        def fail(*_):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(store.fcntl, "flock", fail)

    flock(errno.ENOLCK)
    told = []
    run(tmp_path / "run", told=told)
    assert len(load_samples(tmp_path / "run")) == 2 * BLOCKS and "has no locks" in told[0]
    flock(errno.EIO)
    with pytest.raises(StoreError, match="Input/output error"):
        RunFolder(tmp_path / "run", IDENTITY).load()


def test_blocks_that_were_not_loaded_are_not_overwritten(tmp_path):
    late = RunFolder(tmp_path / "run", IDENTITY)
    assert late.load() is None
    run(tmp_path / "run")
    before = content(tmp_path / "run")
    with late, pytest.raises(StoreError, match="did not load"):
        late.commit(**block(None))
    assert content(tmp_path / "run") == before and read_status(tmp_path / "run")["state"] == "done"


@pytest.mark.parametrize(("number", "words"), [(errno.EROFS, "read-only"), (errno.EACCES, "no permission")])
def test_a_disk_that_cannot_be_written(tmp_path, monkeypatch, number, words):
    for fail_at in range(1, 8):
        install(monkeypatch, FaultyOS(fail_at, OSError(number, "", str(tmp_path))))
        with pytest.raises(StoreError, match=words) as told:
            RunFolder(tmp_path / "a" / "run", IDENTITY).commit(**block(None))
        assert len(str(told.value).splitlines()) == 1
        assert not (tmp_path / "a").exists() or (tmp_path / "a" / "run" / "status.json").exists()


@pytest.mark.parametrize("keep", [1, 3, 5, 7])
def test_keep_the_last(tmp_path, keep):
    run(tmp_path / "few", keep=keep)
    with RunFolder(tmp_path / "one", IDENTITY) as folder:
        folder.commit([], torch.cat([draw(k) for k in range(2 * BLOCKS)]), {}, keep=keep)
    expected = torch.cat([draw(k) for k in range(2 * BLOCKS)])[-keep:]
    assert torch.equal(load_samples(tmp_path / "few"), expected)
    assert torch.equal(load_samples(tmp_path / "one"), expected)
    assert len(list((tmp_path / "few" / "samples").iterdir())) <= 3


def test_keep_none(tmp_path):
    run(tmp_path / "run", keep="none")
    with pytest.raises(StoreError, match="holds no draws"):
        load_samples(tmp_path / "run")


def test_samples_of_several_folders(tmp_path):
    run(tmp_path / "a"), run(tmp_path / "b"), run(tmp_path / "short", blocks=2)
    with RunFolder(tmp_path / "wide") as folder:
        folder.commit([], torch.zeros(2 * BLOCKS, 3, 5), {})
    joined = load_samples([tmp_path / "a", str(tmp_path / "b")])
    assert joined.shape == (2 * BLOCKS, 6, 2)
    assert torch.equal(joined[:, :3], joined[:, 3:])
    for other in ("short", "wide"):
        with pytest.raises(StoreError, match="only equal ones can be joined"):
            load_samples([tmp_path / "a", tmp_path / other])
    with pytest.raises(StoreError, match="not a run folder"):
        load_samples(tmp_path / "none")
    with pytest.raises(StoreError, match="no run folder"):
        load_samples([])
    with RunFolder(tmp_path / "a", IDENTITY) as folder:
        state = folder.load()
        with pytest.raises(StoreError, match="holds draws of"):
            folder.commit([], torch.zeros(1, 3, 5), state)
    (tmp_path / "a" / "samples" / "00000005.safetensors").unlink()
    with pytest.raises(StoreError, match="draws 0 to 5 are missing"):
        load_samples(tmp_path / "a")


def test_numpy_s_numbers_come_back_from_a_checkpoint_as_python_s(tmp_path):
    """Such as a target's ``fit`` may have; a checkpoint is read without pickles of NumPy's."""
    with RunFolder(tmp_path / "run", IDENTITY) as folder:
        folder.commit([], None, {"fits": [{"distance": numpy.float64(2.5), "data": numpy.int64(3)}]})
    with RunFolder(tmp_path / "run", IDENTITY) as folder:
        (fit,) = folder.load()["fits"]
    assert fit == {"distance": 2.5, "data": 3} and [type(one) for one in fit.values()] == [float, int]


@pytest.mark.parametrize("at_once", [formats.ROWS_AT_ONCE, 2, 1])
def test_columns_and_cells(at_once, tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "ROWS_AT_ONCE", at_once)
    odd = [0.1 + 0.2, 5e-324, -0.0, float("nan"), 1e300, numpy.float32(0.1), torch.tensor(1 / 3)]
    with RunFolder(tmp_path / "run") as folder:
        folder.commit([{"x": x, "n": k, "why": 'a, "b"\nc', "maybe": k or None} for k, x in enumerate(odd)], None, {})
        with pytest.raises(StoreError, match="other columns"):
            folder.commit([{"x": 1.0}], None, {})
        # A column that a newer version has more is not one of this run's.
        folder.commit([{"maybe": 1, "why": "", "n": 7, "x": True, "newer": 3}], None, {})
    with (tmp_path / "run" / "metrics.csv").open("a") as file:
        file.write("0.5,8")  # a line that is still being written
    metrics = load_metrics(tmp_path / "run")
    expected = numpy.array([float(x) for x in odd] + [1.0])
    assert metrics["x"].tobytes() == expected.tobytes()
    assert metrics["n"].tolist() == list(range(8)) and metrics["why"].tolist() == ['a, "b"\nc'] * 7 + [""]
    assert numpy.isnan(metrics["maybe"][0]) and metrics["maybe"][1] == 1
    (tmp_path / "run" / "metrics.csv").write_text("a,b\n1\n")
    with pytest.raises(StoreError, match="metrics.csv is damaged"):
        load_metrics(tmp_path / "run")
    with pytest.raises(StoreError, match="No such file"):
        load_trace(tmp_path / "run")


def test_a_table_is_read_in_little_more_memory_than_its_own_size(tmp_path):
    """Strings of all cells at once took twelve times that: gigabytes, at the end of a run of a million rows."""
    path, cells = tmp_path / "metrics.csv", [f"{1 / 7 + cell!r}" for cell in range(6)]
    path.write_text("a,b,c,d,e,f\n" + 50_000 * (",".join(cells) + "\n"))
    tracemalloc.start()
    try:
        metrics = load_metrics(tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(metrics["f"]) == 50_000 and metrics["f"][-1] == float(cells[-1])
    assert peak < 6 * path.stat().st_size


def test_a_run_that_goes_on_with_products_of_less_precision_says_so(tmp_path, monkeypatch):
    """And one that goes on without, of whose environment nothing tells that."""
    environments = [{**HERE, "precision": "products in bf16"}, HERE]
    for blocks, (before, now) in enumerate((("float32", "products in bf16"), ("products in bf16", "float32")), 2):
        run(tmp_path / "run", blocks=blocks)
        here, told = environments[blocks - 2], []
        monkeypatch.setattr(store, "environment", lambda device, here=here: here)
        run(tmp_path / "run", blocks=blocks, told=told)
        assert len(told) == 1 and f"(precision was {before} and is {now})" in told[0]


def test_state_is_cut_loose_from_larger_tensors(tmp_path):
    large = torch.zeros(1000, 1000)
    with RunFolder(tmp_path / "run") as folder:
        folder.commit([], None, {"one": large[3, :2], "turned": torch.arange(6).view(2, 3).T})
        assert (tmp_path / "run" / "checkpoint-1.pt").stat().st_size < 10_000
        state = folder.load()
    assert torch.equal(state["turned"], torch.arange(6).view(2, 3).T) and state["one"].shape == (2,)


def test_status_and_other_conditions(tmp_path, monkeypatch):
    run(tmp_path / "run", blocks=2)
    monkeypatch.setattr(store, "environment", lambda device: {**HERE, "threads": 77, "host": "elsewhere"})
    told = []
    run(tmp_path / "run", told=told)
    assert len(told) == 1 and f"threads was {HERE['threads']} and is 77" in told[0] and "host" not in told[0]
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert [seen["from_block"] for seen in status["environments"]] == [0, 2]
    with RunFolder(tmp_path / "run", IDENTITY) as folder:
        folder.load()
        assert read_status(tmp_path / "run")["state"] == "done"
        folder.log("hello")
        assert read_status(tmp_path / "run")["state"] == "running"
        folder.status(state="interrupted", cycle=8)
        folder.status(state="done")
    assert read_status(tmp_path / "run")["cycle"] == 8
    assert (tmp_path / "run" / "log.txt").read_text().endswith(" hello\n")
    (tmp_path / "run" / "status.json").write_text("[")
    with pytest.raises(StoreError, match="damaged"):
        read_status(tmp_path / "run")


def test_reading_while_a_file_is_replaced(tmp_path, monkeypatch):
    """The listing is taken again when a running chain has removed a file that was in it."""
    run(tmp_path / "run")
    names, stale = loading._sample_names, [["00000007.safetensors"]]
    monkeypatch.setattr(loading, "_sample_names", lambda folder: stale.pop() if stale else names(folder))
    assert len(load_samples(tmp_path / "run")) == 2 * BLOCKS


def test_environment():
    assert HERE["device"] == "cpu" and HERE["threads"] >= 1 and HERE["processor"]
    assert {"python": platform.python_version(), "torch": torch.__version__}.items() <= HERE.items()
    assert {"numpy": numpy.__version__, "sgmcmc": sgmcmc.__version__}.items() <= HERE.items()
    assert HERE["git_commit"] is None or len(HERE["git_commit"].removesuffix("+changes")) == 40


@pytest.mark.parametrize(("gone", "missing"), [(1, "0 to 1"), (2, "0 to 2"), (3, "0 to 3")])
def test_draws_with_a_gap_are_not_joined(tmp_path, monkeypatch, gone, missing):
    """Of files of one draw each the first, or one between the others, has gone."""
    monkeypatch.setattr(formats, "SAMPLE_BYTES", 3 * 2 * 4)
    with RunFolder(tmp_path / "run") as folder:
        folder.commit([], torch.cat([draw(k) for k in range(4)]), {})
    assert torch.equal(load_samples(tmp_path / "run"), torch.cat([draw(k) for k in range(4)]))
    (tmp_path / "run" / "samples" / f"{gone:08d}.safetensors").unlink()
    with pytest.raises(StoreError, match=f"draws {missing} are missing"):
        load_samples(tmp_path / "run")


def test_draws_of_two_precisions_are_not_joined(tmp_path):
    for name, kind in (("single", torch.float32), ("double", torch.float64)):
        with RunFolder(tmp_path / name) as folder:
            folder.commit([], draw(0).to(kind), {})
    with pytest.raises(StoreError, match="only equal ones can be joined"):
        load_samples([tmp_path / "single", tmp_path / "double"])


def test_an_earlier_copy_of_a_file_s_start_is_passed_over(tmp_path):
    """A kill before it is removed leaves draws 5 to 7 beside 5 to 8."""
    with RunFolder(tmp_path / "run") as folder:
        folder.commit([], torch.cat([draw(k) for k in range(7)]), {})
        copy = tmp_path / "run" / "samples" / "00000007.safetensors"
        left = copy.read_bytes()
        folder.commit([], draw(7), {})
    copy.write_bytes(left)
    assert torch.equal(load_samples(tmp_path / "run"), torch.cat([draw(k) for k in range(8)]))


def test_a_run_is_read_from_below_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with RunFolder(tmp_path / "run") as folder:
        folder.commit([{"cycle": 1}], draw(0), {})
    assert torch.equal(load_samples("~/run"), draw(0)) and load_metrics("~/run")["cycle"].tolist() == [1]
    assert read_status("~/run")["environments"]


@pytest.mark.parametrize(
    "given, said", [(None, "None is not the path of a run folder"), ([], "no run folder was given")]
)
def test_what_is_no_folder_is_not_read(given, said):
    with pytest.raises(StoreError, match=said):
        load_samples(given)


@pytest.mark.parametrize("name", ["metrics.csv", "trace.csv"])
def test_a_table_that_is_not_as_it_was_written_is_not_read_as_a_shorter_or_another_one(tmp_path, name):
    run(tmp_path / "run")
    path, read = tmp_path / "run" / name, {"metrics.csv": load_metrics, "trace.csv": loading.load_trace}[name]
    sound, lines = path.read_bytes(), path.read_bytes().splitlines(keepends=True)
    for broken in (b"".join(lines[:-1]), sound[:-2], sound.replace(b"1", b"7", 1), b"".join(lines[:2])):
        path.write_bytes(broken)
        with pytest.raises(StoreError, match=f"{name} is damaged: the run's own command mends it"):
            read(tmp_path / "run")

    def rows() -> int:
        return len(next(iter(read(tmp_path / "run").values())))

    path.write_bytes(sound + lines[-1])  # a block that is being written
    assert rows() == len(lines)
    newest_checkpoint(tmp_path / "run").unlink()
    before = formats.read_checkpoint(newest_checkpoint(tmp_path / "run"))["record"]["tables"][name]["length"]
    path.write_bytes(sound[:before])
    assert rows() == len(lines) - 1 - (2 if name == "trace.csv" else 1)
    newest_checkpoint(tmp_path / "run").unlink()
    path.write_bytes(b"".join(lines[:2]))  # of which nothing is known
    assert rows() == 1


def test_draws_whose_newest_file_is_gone_are_not_read_as_those_of_a_shorter_run(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "SAMPLE_BYTES", 3 * 2 * 4)
    run(tmp_path / "run")
    files = sorted((tmp_path / "run" / "samples").glob("*.safetensors"))
    for file in reversed(files):
        file.unlink()
        with pytest.raises(StoreError, match=f"samples/{files[-1].name} is missing: the run's own command mends"):
            load_samples(tmp_path / "run")
    for slot in store.SLOTS:
        (tmp_path / "run" / slot).unlink()
    with pytest.raises(StoreError, match="holds no draws"):
        load_samples(tmp_path / "run")


def test_a_file_of_a_run_that_cannot_be_read_is_one_sentence(tmp_path):
    run(tmp_path / "run")
    for file in (tmp_path / "run" / "samples" / "00000008.safetensors", newest_checkpoint(tmp_path / "run")):
        file.unlink()
        file.mkdir()
    with pytest.raises(StoreError, match="8.safetensors: Is a directory: is it in the folder of a run, and yours to r"):
        load_samples(tmp_path / "run")
    with pytest.raises(StoreError, match="checkpoint-0.pt: Is a directory: "):
        store.damage(tmp_path / "run")
