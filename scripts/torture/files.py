"""Broken files, full disks, foreign folders, planted code."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
import pickle
import random
import resource
import shutil
import subprocess
from pathlib import Path

from harness import TIMINGS, Counted, Ended, Lost, alone, at_change, damage, finished, run, same, sentence

SMALL = (
    "model=banana model.noise=1 sampler=ggmc sampler.acceptance=metropolis step_size=0.1 chains=2 steps_per_cycle=2 "
    "cycles=40 save_every=8 log_every=2 trace=1 compile=false progress=false output=run"
).split()
HOWS = ("cut", "emptied", "flipped", "gone")
TOLD = ("computed again", "starts from nothing")  # or "written anew", which alone will do of a table
MATTERS = ("newest", "samples", "metrics.csv", "trace.csv", "status.json", "moments.safetensors")  # whose loss is told
OTHERS = ("older", "config.yaml", "log.txt", ".metrics.csv", ".trace.csv")


def files(count: Counted, choose: random.Random, quick: bool) -> None:
    """Files cut short, emptied, with a flipped bit or gone; no room on the disk; foreign folders; planted code."""
    whole, _, changes = alone(SMALL, count.new())
    done = count.new()
    finished(SMALL, done)
    half = count.new()
    finished([*[word for word in SMALL if not word.startswith("cycles")], "cycles=24"], half)
    for state, origin in (("shorter", half), ("finished", done)):
        for name in MATTERS if quick else (*MATTERS, *OTHERS):
            with count.row(f"{state} run, damaged: {name}") as row:
                for how in choose.sample(HOWS, 1) if quick else HOWS:
                    if how == "gone" and (name == "older" or state == "finished" and name not in MATTERS[1:]):
                        continue  # nothing tells that it was there
                    folder = count.new() / "copy"
                    shutil.copytree(origin, folder)
                    with count.once(row):
                        victim = file_of(folder / "run", name)
                        damage(victim, how, choose)
                        ended = run(SMALL, folder)
                        again = any(words in ended.err for words in TOLD)
                        told = "written anew" in ended.err or again and not name.endswith(".csv")
                        must = name in MATTERS and (how != "gone" or name not in ("newest", "status.json"))
                        must &= state == "finished" or name != "moments.safetensors"  # a longer run writes it anyway
                        if ended.code or "Traceback" in ended.err or must and not told:
                            raise Lost(f"{state}, {victim.name} {how}: {folder} {ended}")
                        same(folder / "run", whole, f"{state}, {victim.name} {how}", ended)
                    shutil.rmtree(folder)
    disk_full(count, choose, quick, whole, changes)
    refused(count, half)
    planted(count, choose, quick, half, whole)


def file_of(folder: Path, name: str) -> Path:
    """The file that goes by that name in the run folder."""
    if name in ("newest", "older"):
        slots = sorted(folder.glob("checkpoint-*.pt"), key=lambda path: path.stat().st_mtime_ns)
        return slots[-1 if name == "newest" else 0]
    if name == "samples":
        return max((folder / "samples").glob("*.safetensors"), key=lambda path: int(path.stem))
    return folder / name


@contextlib.contextmanager
def small_disk(folder: Path, room: str):
    """A file system of so much room; yields a function that gives it more. Needs root."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", room, "tmpfs", str(folder)], check=True, capture_output=True)
    more = ["mount", "-o", "remount,size=64m,nr_inodes=1000", str(folder)]
    try:
        yield lambda: subprocess.run(more, check=True, capture_output=True)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def disk_full(count, choose, quick, whole, changes) -> None:
    """No room at any write: one sentence, what was there is intact, and the run continues when there is room."""

    def full():
        raise OSError(28, "No space left on device")

    def file_too_large():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    with count.row("no room at one change to the disk (injected ENOSPC), then room") as row:
        for number in sorted(choose.sample(range(1, changes), 4 if quick else 40)):
            folder = count.new()
            with count.once(row):
                ended = run(SMALL, folder, at_change(number, full))
                intact(folder / "run", ended, whole, f"ENOSPC at change {number}")
                same(folder / "run", whole, f"after ENOSPC at change {number}", finished(SMALL, folder))
    with count.row("files may not grow beyond some size (RLIMIT_FSIZE), then may") as row:
        for size in sorted(choose.sample(range(200, 60000), 2 if quick else 10)):
            folder = count.new()
            with count.once(row):
                ended = run(SMALL, folder, file_too_large)
                intact(folder / "run", ended, whole, f"RLIMIT_FSIZE {size}", "grow this large")
                same(folder / "run", whole, f"after RLIMIT_FSIZE {size}", finished(SMALL, folder))
    for what, rooms in {
        "a full file system (tmpfs of 4 to 200 KB), then room": [f"size={4 * pages}k" for pages in range(1, 50, 3)],
        "no inodes left (tmpfs of 2 to 16), then some": [f"size=9m,nr_inodes={number}" for number in range(2, 17, 2)],
    }.items():
        with count.row(what) as row:
            for room in choose.sample(rooms, 2) if quick else rooms:
                folder = count.new()
                try:
                    disk = contextlib.ExitStack()
                    more = disk.enter_context(small_disk(folder, room))
                except (subprocess.CalledProcessError, OSError):
                    row.what += " (skipped: needs root)"
                    break
                with disk, count.once(row):
                    ended = run(SMALL, folder)
                    intact(folder / "run", ended, whole, room)
                    more()
                    same(folder / "run", whole, f"after {room}", finished(SMALL, folder))


def intact(folder: Path, ended: Ended, whole: dict, what: str, word: str = "no space") -> None:
    """One sentence that names the trouble, and rows and draws that are the beginning of the whole run's."""
    from sgmcmc.errors import StoreError
    from sgmcmc.loading import load_metrics, load_samples

    if ended.code == 0:
        undrawn = [] if (folder / "picture.png").exists() else ["picture.png"]
        if undrawn and "its picture could not be drawn (" not in ended.out:
            raise Lost(f"{what}: no picture, and no word of it: {ended}")
        return same(folder, {**whole, "files": [name for name in whole["files"] if name not in undrawn]}, what)
    if ended.code != 2 or word not in sentence(ended, what):
        raise Lost(f"{what}: {ended}")
    with contextlib.suppress(StoreError):
        for name, column in load_metrics(folder).items():
            if name not in TIMINGS and not whole[f"row {name}"].startswith(column.tobytes()):
                raise Lost(f"{what}: rows before the trouble are not intact: {folder}")
    with contextlib.suppress(StoreError):
        if not whole["samples"].startswith(load_samples(folder).numpy().tobytes()):
            raise Lost(f"{what}: draws before the trouble are not intact: {folder}")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file in the folder but the lock, which says who looked last."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def refused(count, half) -> None:
    """Folders that are another's: one sentence, status 2, and not a byte is changed."""

    def other_law(folder):
        from sgmcmc import formats

        for path in folder.glob("checkpoint-*.pt"):
            content = formats.read_checkpoint(path)
            content["identity"]["law"] += 1
            path.write_bytes(formats.pack(content))
        (folder / "status.json").unlink()

    def other_format(folder):
        for path in folder.glob("checkpoint-*.pt"):
            path.write_bytes(path.read_bytes().replace(b"checkpoint 1 ", b"checkpoint 9 ", 1))

    def foreign(folder):
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "thesis.txt").write_text("mine")

    cases = {
        "another seed": (lambda folder: None, ["seed=7"]),
        "another sampler": (lambda folder: None, ["sampler=hmc"]),
        "another law": (other_law, []),
        "another format": (other_format, []),
        "no run": (foreign, []),
    }
    with count.row("run folders of another configuration, law, format, or none: refused") as row:
        for name, (change, more) in cases.items():
            folder = count.new() / "copy"
            shutil.copytree(half, folder)
            with count.once(row):
                change(folder / "run")
                before = contents(folder)
                ended = run([*SMALL, *more], folder)
                if ended.code != 2 or not sentence(ended, name) or contents(folder) != before:
                    raise Lost(f"{name}: {folder} {ended}")


class Evil:
    """Unpickled, it leaves a file behind."""

    def __reduce__(self):
        return os.system, ("touch CAUGHT",)


def planted(count, choose, quick, half, whole) -> None:
    """Code where data should be is never run: pickles in a run folder, under data.root, as starting positions."""
    import torch

    evil, buffer = pickle.dumps(Evil()), io.BytesIO()
    torch.save({"identity": None, "record": {}, "state": Evil()}, buffer)

    def signed(payload):
        return b"sgmcmc checkpoint 1 %s\n" % hashlib.sha256(payload).hexdigest().encode() + payload

    names = ("checkpoint-0.pt", "checkpoint-1.pt", "status.json", "metrics.csv", "trace.csv", "samples", "config.yaml")
    plants = [(name, blob) for name in names for blob in (evil, buffer.getvalue(), signed(evil))]
    plants += [(name, signed(buffer.getvalue())) for name in names[:2]]
    plants += [("config.yaml", b"!!python/object/apply:os.system ['touch CAUGHT']\n")]
    with count.row("pickles and YAML with code in a run folder: not run") as row:
        for name, blob in choose.sample(plants, 5) if quick else plants:
            folder = count.new() / "copy"
            shutil.copytree(half, folder)
            with count.once(row):
                file_of(folder / "run", name).write_bytes(blob)
                ended = run(SMALL, folder)
                if list(folder.rglob("CAUGHT")) or ended.code:
                    raise Lost(f"code in {name}: {folder} {ended}")
                same(folder / "run", whole, f"code in {name}", ended)
    data = {
        "cifar10": [f"cifar-10-batches-py/{name}" for name in ("data_batch_1", "test_batch")],
        "mnist": ["MNIST/raw/train-images-idx3-ubyte", "MNIST/raw/train-images-idx3-ubyte.gz"],
        "heart": ["uci/heart.dat"],
        "australian": ["uci/australian.dat"],
    }
    with count.row("data files that are not their publisher's, pickles among them: refused, not run") as row:
        for name, paths in data.items():
            for path, blob in itertools.product(
                paths[:1] if quick else paths, (evil, b"", b"1 2 3\n")[: 1 if quick else 3]
            ):
                folder = count.new()
                with count.once(row):
                    for one in [path, *data["cifar10"]] if name == "cifar10" else [path]:
                        (folder / "data" / one).parent.mkdir(parents=True, exist_ok=True)
                        (folder / "data" / one).write_bytes(blob)
                    model = {"cifar10": "resnet20", "mnist": "mlp"}.get(name, "logistic")
                    words = [f"model={model}", f"data={name}", "data.root=data", "lr=1e-4", "output=run"]
                    ended = run([*words, "cycles=1", "steps_per_cycle=1", "batch_size=10"], folder)
                    if ended.code != 2 or "damaged" not in sentence(ended, path) or list(folder.rglob("CAUGHT")):
                        raise Lost(f"{path}: {folder} {ended}")
                    if (folder / "run").exists():
                        raise Lost(f"{path}: half a run folder is left: {folder}")
    with count.row("a file of starting positions that holds code, or none: refused, not run") as row:
        for suffix, blob in itertools.product((".pt", ".safetensors"), (evil, buffer.getvalue(), b"", b"x")):
            folder = count.new()
            with count.once(row):
                (folder / f"start{suffix}").write_bytes(blob)
                ended = run([*SMALL, f"init=start{suffix}"], folder)
                if ended.code != 2 or not sentence(ended, suffix) or list(folder.rglob("CAUGHT")):
                    raise Lost(f"init=start{suffix}: {folder} {ended}")
