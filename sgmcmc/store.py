"""What a run keeps on disk, and how it comes back after a kill, a full disk or a broken file.

A run folder holds::

    config.yaml            the resolved configuration, as it was given
    status.json            identity, state (running, done, …), machines and versions the run was on
    metrics.csv            one row every few cycles
    trace.csv              one row a step, of the cycles that are traced step by step
    .metrics.csv, …        a copy of each table, from which it is written anew where another program has saved it
    samples/*.safetensors  the draws, each once (with keep=N perhaps some more, before the last N);
                           00000120.safetensors ends with the 120th draw of the run
    samples/*.before       draws that are in a file written since, or not kept any more: the checkpoint before the
                           newest needs them
    checkpoint-{0,1}.pt    the last two states of the chain, written in turn
    log.txt                what the run said
    .lock                  held by the one process that writes here

The run is written in **blocks**: draws, rows and state go to disk together (:meth:`RunFolder.commit`) and
the new checkpoint is the last to take its name, so a block is there as a whole or not at all. A checkpoint
records how long the tables were and which sample files belonged to it, with their SHA-256; what lies beyond
that when a run is opened again belongs to a block that was never finished, and is removed. Every file but
the tables is written beside and renamed; tables only grow, and are cut back to the recorded length. They are
what people open in other programs, and a row that is lost cannot be had without its chain: so there are two of each.
"""

from __future__ import annotations

import csv
import errno
import fcntl
import hashlib
import io
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from sgmcmc import disk
from sgmcmc.environment import environment
from sgmcmc.errors import DiskError, FolderBusy, StoreError
from sgmcmc.formats import (
    SAMPLE_FILE,
    Damaged,
    canonical,
    csv_text,
    draws_per_file,
    last_draw,
    pack,
    plain,
    read_checkpoint,
    read_draws,
    read_status,
    signature,
    write_draws,
)

SLOTS = ("checkpoint-0.pt", "checkpoint-1.pt")
BEFORE = ".before"  # ends the name of a sample file that the newest checkpoint does not need, and the one before does
_TABLES = ("metrics.csv", "trace.csv")
COPIES = tuple(f".{name}" for name in _TABLES)
# What a checkpoint records of the files beside it: blocks and draws so far, the first draw that is still kept,
# sample files with their SHA-256, length and SHA-256 of each table, [chains, dim, dtype] of the draws.
EMPTY = {"block": 0, "draws": 0, "since": 0, "files": {}, "tables": {}, "form": None}
_MISSING = object()


def killed(folder: str | os.PathLike) -> bool:
    """Whether the process that opened the folder last was one of this machine and is gone: killed, where
    ``status.json`` says that the run is running. Asks no lock, so it is in nobody's way."""
    lock = Path(os.path.expanduser(folder)) / ".lock"
    with suppress(OSError, ValueError):
        words = lock.read_text().split()  # as ``_acquire`` writes it
        if words[:1] == ["process"] and words[2:] == ["on", socket.gethostname()]:
            return not disk.alive(int(words[1]), lock.stat().st_mtime)
    return False


class RunFolder:
    """One run's folder, opened for writing by one process at a time.

    Nothing is created before :meth:`open`, which :meth:`status`, :meth:`write`, :meth:`log` and :meth:`commit` call, so
    that a mistake in the configuration leaves no trace. A chain begins with :meth:`load`.

    :param identity: plain dict (``hash``, ``law`` and the configuration behind them) that must agree with the
        one the folder was made with; None for a run without one.
    :param config_text: what ``config.yaml`` shall hold.
    :param device: where the chain is computed, to be recorded.
    :param warn: called with one sentence when something was lost or may not be reproducible.
    :param begun: what ``status.json`` shall say of how the run was begun, from before its first block on.
    :raises StoreError: from any method: another run's folder, another process in it, a full or read-only disk.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        identity: dict | None = None,
        config_text: str = "",
        *,
        device: torch.device | str = "cpu",
        warn: Callable[[str], object] = warnings.warn,
        begun: dict | None = None,
    ):
        self.path, self.warn = Path(os.path.expanduser(path)), warn
        self.identity, self.config_text, self._device = identity, config_text, device
        self.begun = begun or {}
        self._lock: io.IOBase | None = None
        self._created = False
        self._loaded: int | None = None  # the block that the caller goes on from, once it has loaded one
        self._status: dict = {}
        self._forget()

    def _forget(self) -> None:
        """A run of which nothing is on disk: ``_now`` and ``_before`` are what the two checkpoints recorded."""
        self._now, self._before = EMPTY, EMPTY
        self._hashes = {name: hashlib.sha256() for name in _TABLES}
        self._columns: dict[str, list[str]] = {}
        self._tail: Tensor | None = None  # the draws of the last sample file while that is not full

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        """Let another process have the folder."""
        if self._lock is not None:
            with suppress(OSError):  # a child that was forked meanwhile has the file open, too
                fcntl.flock(self._lock, fcntl.LOCK_UN)
            self._lock.close()
            self._lock = None
        self._created = False

    # ---- coming back

    def load(self) -> dict | None:
        """State of the last block that is whole (tensors on the CPU), None where there is none.

        Cuts the tables back and removes the draws of a block that was not finished. If the newest checkpoint
        or what belongs to it is damaged, the one before is used; if that is damaged too, everything is moved
        into a folder ``damaged-…`` and the run starts from nothing. Both are told through ``warn``.
        """
        with disk.told(self.path):
            state = None
            if self.path.exists():
                if not self.path.is_dir():
                    raise StoreError(f"{self.path} is a file: give this run another output")
                if any(self.path.iterdir()):
                    state = self._enter()
        self._loaded = self._now["block"]
        return state

    def _enter(self) -> dict | None:
        """Check whose folder it is, lock it, and find what it holds."""
        self._check_identity()  # first without a lock: nothing is written into a folder that is not ours
        if self._lock is None:
            self._acquire()
        try:
            self._check_identity()
            return self._recover()
        except BaseException:
            self.close()
            raise

    def _acquire(self) -> None:
        path = self.path / ".lock"
        lock = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                holder = lock.read().strip() or "another process"
                lock.close()
                mend = "wait for it, or give this run another output"
                raise FolderBusy(f"{self.path} is being written by {holder}: {mend}") from None
            if error.errno not in disk.NO_LOCKS:
                lock.close()
                raise
            self.warn(f"{self.path}: this file system has no locks: see to it that one process writes here")
        self._lock = lock
        os.ftruncate(lock.fileno(), 0)
        os.write(lock.fileno(), f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def _check_identity(self) -> None:
        recorded = _MISSING
        with suppress(StoreError, KeyError):
            recorded = read_status(self.path)["identity"]
        for slot in SLOTS:
            if recorded is _MISSING:
                with suppress(Damaged):
                    recorded = read_checkpoint(self.path / slot)["identity"]
        if recorded is _MISSING:
            own = {entry.name for entry in self.path.iterdir()} - {".lock", *COPIES}  # which `rm *` has left
            if any(not name.endswith(".part") for name in own):
                raise StoreError(f"{self.path} holds something else than a run: give this run another output")
        elif canonical(recorded) != canonical(self.identity):
            raise StoreError(
                f"{self.path} belongs to another configuration ({_difference(recorded, self.identity)}): "
                "give this run another output, or move that folder away"
            )

    def _recover(self) -> dict | None:
        for path in (self.path / name for name in ("samples", *_TABLES, *SLOTS)):
            if path.is_symlink() and not path.exists():  # today: nothing that is here is to be set aside for it
                raise DiskError(f"{path} is a link to {os.readlink(path)}, which is not there: is its disk mounted?")
        self._forget()
        if (self.path / "status.json").exists():
            try:
                self._status = read_status(self.path)
            except StoreError as damage:
                self._tell(f"{damage}: it is written anew, and the chain goes on from its checkpoint")
        slots = [self.path / slot for slot in SLOTS if (self.path / slot).exists()]
        found, lost = self._whole(slots)
        if found:
            self._now = found[0]["record"]
            self._before = found[1]["record"] if len(found) > 1 else EMPTY
            if lost:
                self._tell(
                    f"{self.path}: {' and '.join(lost)}: continuing from block {self._now['block']}, the last that "
                    "is whole; what came after it is computed again"
                )
            for slot in {slot.name for slot in slots} - {SLOTS[one["record"]["block"] % 2] for one in found}:
                os.unlink(self.path / slot)  # whose record tells readers of more than there is from here on
        # Which no kill leaves so: these a status has of a chain, whose first block is where it starts, with no draws.
        elif slots or (self._status.keys() & {"target", "compiled", "cycles"} and self._holds_rows()):
            why = " and ".join(lost) or "its checkpoints are gone"
            aside = self._set_aside()
            self._tell(
                f"{self.path}: {why}: no block is left that is whole, so the run starts from nothing; "
                f"what was there is in {aside.name}"
            )
        for name in _TABLES:
            self._cut_table(name)
        self._sweep()
        return found[0]["state"] if found else None

    def _holds_rows(self) -> bool:
        """Whether there are rows or draws, of whatever block."""
        tables = any((self.path / name).exists() for name in _TABLES)
        return tables or any(self.path.glob("samples/*.safetensors"))

    def _whole(self, slots: list[Path]) -> tuple[list[dict], list[str]]:
        """What the checkpoints hold, the newest first, from the last block on that is whole; and what is damaged."""
        found, lost = [], []
        for slot in slots:
            try:
                found.append(read_checkpoint(slot))
            except Damaged as damage:
                lost.append(str(damage))
        found.sort(key=lambda content: content["record"]["block"], reverse=True)
        while found:
            try:
                self._restore(found[0]["record"]["tables"])
                self._verify(found[0]["record"])
                break
            except Damaged as damage:
                lost.append(str(damage))
                found.pop(0)
        return found, list(dict.fromkeys(lost))

    def _restore(self, tables: dict) -> None:
        """Write a table anew from its copy, or the copy from the table, where one alone is what was recorded."""
        for name, table in tables.items():
            path, copy = self.path / name, self._copy(name)
            here, there = _recorded(path, table), _recorded(copy, table)
            if there and not here:
                disk.write(path, copy.read_bytes()[: table["length"]])
                self._tell(f"{path} was not as the run wrote it, and is written anew from its copy")
            elif here and not there:
                with suppress(OSError):  # with no copy, too, the run goes on
                    disk.write(copy, path.read_bytes()[: table["length"]])

    def _verify(self, record: dict) -> None:
        """Compare tables and samples with a checkpoint's record of them, and take up where they end."""
        self._forget()
        for name, table in record["tables"].items():
            path = self.path / name
            try:
                self._hashes[name] = _hashed(path, table["length"])
            except FileNotFoundError:
                raise Damaged(f"{name} is missing") from None
            if self._hashes[name].hexdigest() != table["sha256"]:
                raise Damaged(f"{name} is damaged")
            with path.open("rb") as file:  # its first line alone: what follows the record may be damaged
                self._columns[name] = next(csv.reader([file.readline().decode()]))
        for name, digest in record["files"].items():
            draws, about = read_draws(self._sample(name))
            if about["sha256"] != digest:
                raise Damaged(f"samples/{name} is not the one that was written")
        if record["files"] and len(draws) < draws_per_file(draws):
            self._tail = draws

    def _set_aside(self) -> Path:
        """Move what cannot be continued into a folder of its own, the checkpoints last: a kill in between
        leaves checkpoints without their files, which are set aside when the run is opened next."""
        number = 1
        while (self.path / f"damaged-{number}").exists():
            number += 1
        aside = self.path / f"damaged-{number}"
        os.mkdir(aside)
        for name in ("samples", *_TABLES, *COPIES, *SLOTS):
            if (self.path / name).exists():
                os.replace(self.path / name, aside / name)
        os.mkdir(self.path / "samples")
        disk.sync(self.path)
        self._forget()
        return aside

    def _copy(self, name: str) -> Path:
        """Where the copy of the table is."""
        return self.path / f".{name}"

    def _sample(self, name: str) -> Path:
        """Where the sample file is, by whichever of its two names."""
        path = self.path / "samples" / name
        before = path.with_name(name + BEFORE)
        return before if before.exists() and not path.exists() else path

    def _sweep(self) -> None:
        """Remove the sample files that neither checkpoint needs, and half-finished writes; name the others rightly."""
        now, before = self._now["files"], self._before["files"]
        for folder in (self.path, self.path / "samples"):
            for path in list(folder.iterdir()) if folder.is_dir() else ():
                name = path.name.removesuffix(BEFORE)
                if path.name.startswith(".") and path.name.endswith(".part"):
                    os.unlink(path)
                elif folder.name == "samples" and SAMPLE_FILE.fullmatch(name):
                    if name not in now and name not in before:
                        os.unlink(path)
                    elif path.name != (right := name if name in now else name + BEFORE):
                        os.replace(path, path.with_name(right))

    # ---- writing

    def open(self) -> None:
        """Create the folder with its configuration and status, or enter the one that is there."""
        if self._created:
            return
        with disk.told(self.path):
            missing = [path for path in (self.path, *self.path.parents) if not path.exists()]
            try:
                os.makedirs(self.path, exist_ok=True)
                for path in missing:  # the names of new folders, too, outlast a power cut
                    if os.access(path.parent, os.R_OK):
                        disk.sync(path.parent)
                if self._lock is None:
                    self._enter()
                if self._loaded is not None:
                    self._check_loaded()  # before the status says that what another process has ended is running
                self._record_environment()
                disk.sync(self.path)  # before any other file: whose folder it is, is known by the status
                config = self.path / "config.yaml"
                if not config.exists() or config.read_bytes() != self.config_text.encode():
                    disk.write(config, self.config_text.encode())
                os.makedirs(self.path / "samples", exist_ok=True)
                disk.sync(self.path)
            except OSError:
                if missing:  # this call made the folder: leave no half of one
                    for name in ("status.json", "config.yaml", ".lock") if self._lock is not None else ():
                        with suppress(OSError):
                            os.unlink(self.path / name)
                    self.close()
                    for path in (self.path / "samples", *missing):
                        with suppress(OSError):
                            os.rmdir(path)
                raise
        self._created = True

    def _check_loaded(self) -> None:
        """Refuse a run that another process has gone on with since it was loaded."""
        if self._now["block"] != (self._loaded or 0):
            raise FolderBusy(f"{self.path} holds blocks that this run did not load: start it again")

    def _record_environment(self) -> None:
        """Note in ``status.json`` that the run goes on, and where, if that is not where it was."""
        here = environment(self._device)
        seen = self._status.setdefault("environments", [])
        if not seen or {**seen[-1], "from_block": 0} != {**here, "from_block": 0}:
            if seen and self._now["block"]:
                before, now = ({"precision": "float32", **one} for one in (seen[-1], here))
                changed = [
                    f"{key} was {before.get(key)} and is {value}"
                    for key, value in now.items()
                    if key not in ("host", "git_commit") and before.get(key) != value
                ]
                if changed:
                    self._tell(
                        f"{self.path}: the run goes on under other conditions ({'; '.join(changed)}): "
                        "from here on it need not be the uninterrupted one bit for bit"
                    )
            seen.append({**here, "from_block": self._now["block"]})
        self._status = {**self._status, **self.begun, "state": "running", "identity": self.identity}
        self._write_status()

    def _write_status(self) -> None:
        self._status["updated"] = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        signed = {**self._status, "sha256": signature(self._status)}
        disk.write(self.path / "status.json", json.dumps(signed, indent=2).encode() + b"\n")

    def status(self, **fields) -> None:
        """Set fields of ``status.json``: ``state`` (running, done, diverged, interrupted, failed) and any other
        JSON value; those that are not named stay."""
        self.open()
        with disk.told(self.path):
            self._status.update(fields)
            self._write_status()

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the caller's own into the folder, as a whole or not at all."""
        self.open()
        with disk.told(self.path / name):
            disk.write(self.path / name, data)

    def log(self, text: str) -> None:
        """Add a line to ``log.txt``."""
        self.open()
        with disk.told(self.path):
            self._log(text)

    def _log(self, text: str) -> None:
        disk.note(self.path / "log.txt", f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode())

    def _tell(self, text: str) -> None:
        self.warn(text)
        self._log(text)

    def commit(
        self,
        rows: Sequence[dict],
        draws: Tensor | None,
        state: dict,
        trace_rows: Sequence[dict] | None = None,
        keep: int | str = "all",
    ) -> None:
        """Write one block: a kill at any moment leaves it on disk as a whole or not at all.

        :param rows: rows of ``metrics.csv``: numbers (floats are written so that they read back bit for bit),
            strings, None for an empty cell. The first row of the run fixes the columns.
        :param draws: ``[draws, chains, dim]``, or None.
        :param state: what the chain needs to go on: nested dicts, lists and tuples of tensors, numbers, strings.
        :param trace_rows: rows of ``trace.csv``.
        :param keep: which of all draws stay: ``"all"``, the last ``N``, or ``"none"``, as ``Plan`` has checked it.
        :raises StoreError: full or read-only disk, other columns, other shape of draws; the block is then not
            there, all earlier ones are, and the same call may be made again.
        """
        self.open()
        self._check_loaded()
        state = plain(state)
        record = {**self._now, "block": self._now["block"] + 1, "tables": dict(self._now["tables"])}
        hashes, columns, tail = dict(self._hashes), dict(self._columns), self._tail
        with disk.told(self.path):
            try:
                if draws is not None and len(draws) and keep != "none":
                    tail = self._add_draws(record, draws, keep)
                for name, new in zip(_TABLES, (rows, trace_rows), strict=True):
                    if new:
                        text, columns[name] = csv_text(new, columns.get(name), self.path / name)
                        length = self._length(name)
                        if length and _size(self.path / name) != length:  # saved by another program since
                            self._restore({name: record["tables"][name]})
                        for path in (self.path / name, self._copy(name)):
                            disk.append(path, length, text)
                        hashes[name] = hashes[name].copy()
                        hashes[name].update(text)
                        record["tables"][name] = {"length": length + len(text), "sha256": hashes[name].hexdigest()}
                content = {"identity": self.identity, "record": record, "state": state}
                disk.write(self.path / SLOTS[record["block"] % 2], pack(content))
            except (OSError, StoreError):
                self._roll_back()
                raise
            stale = self._before["files"].keys() - self._now["files"].keys() - record["files"].keys()
            older = self._now["files"].keys() - record["files"].keys()
            self._before, self._now = self._now, record
            self._hashes, self._columns, self._tail = hashes, columns, tail
            self._loaded = record["block"]
        with suppress(OSError):  # the block is there; :meth:`load` tidies up what is left over
            disk.sync(self.path)
            for name in stale:
                os.unlink(self._sample(name))
            for name in older:  # who reads all *.safetensors has every draw once
                os.replace(self.path / "samples" / name, self.path / "samples" / (name + BEFORE))

    def _add_draws(self, record: dict, draws: Tensor, keep: int | str) -> Tensor | None:
        """Write draws into files of one fixed size, and enter them in the record; the tail that is not full.

        The last file is not changed: what it held goes into a new one with the new draws, and it is removed
        once neither checkpoint needs it. So neither the content nor the name of a full file depends on how
        the run was cut into blocks.
        """
        draws = draws.detach().cpu()
        form = [draws.shape[1], draws.shape[2], str(draws.dtype)]
        if record["files"] and record["form"] != form:
            raise StoreError(f"{self.path} holds draws of [chains, dim, dtype] = {record['form']}, not {form}")
        files, total = dict(record["files"]), record["draws"] + len(draws)
        if self._tail is not None:
            files.popitem()
            draws = torch.cat((self._tail, draws))
        size, since = draws_per_file(draws), record["since"]
        for start in range(0, len(draws), size):
            piece = draws[start : start + size].contiguous()
            first = total - len(draws) + start
            stop = first + len(piece)
            if keep != "all":
                since = max(since, stop - keep)
                if stop <= total - keep:
                    continue
            name = f"{stop:08d}.safetensors"
            files[name] = write_draws(self.path / "samples" / name, piece, first, since)
        disk.sync(self.path / "samples")
        files = {name: digest for name, digest in files.items() if last_draw(name) > since}
        record.update(draws=total, since=since, files=files, form=form)
        return piece.clone() if len(piece) < size else None

    def _roll_back(self) -> None:
        """After a failed write: back to the last block, as far as the disk lets us (:meth:`load` does the rest)."""
        for name in _TABLES:
            with suppress(OSError):
                self._cut_table(name)
        with suppress(OSError):
            self._sweep()

    def _cut_table(self, name: str) -> None:
        """Cut off the rows of a block that was not finished."""
        for path in (self.path / name, self._copy(name)):
            if _size(path) > self._length(name):
                disk.append(path, self._length(name), b"")

    def _length(self, name: str) -> int:
        """Of the table, as the newest checkpoint has recorded it."""
        return self._now["tables"].get(name, {"length": 0})["length"]


def _size(path: Path) -> int:
    """Of a file in bytes, 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


def _hashed(path: Path, length: int):
    """SHA-256 of the first bytes of a file, so many, or all where it is shorter."""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(min(length, 1 << 20)):
            hashed.update(chunk)
            length -= len(chunk)
    return hashed


def _recorded(path: Path, table: dict) -> bool:
    """Whether the file begins with what a checkpoint has recorded of the table."""
    try:
        return _hashed(path, table["length"]).hexdigest() == table["sha256"]
    except FileNotFoundError:
        return False


def damage(folder: str | os.PathLike) -> str | None:
    """What of a run that is over is not as its last block was written, in words; None where all is. Reads every file of
    it."""
    run = RunFolder(folder)
    try:
        with disk.told(run.path):
            found = [read_checkpoint(run.path / slot) for slot in SLOTS if (run.path / slot).exists()]
            if found:
                record = max((content["record"] for content in found), key=lambda record: record["block"])
                run._verify(record)
                for name, table in record["tables"].items():
                    if _size(run.path / name) > table["length"]:
                        return f"{name} is longer than it was written"
    except Damaged as damage:
        return str(damage)
    return None


def _difference(there, here) -> str:
    """Where two identities part, in words; their hashes only if nothing else does."""
    there, here = (json.loads(canonical(identity)) for identity in (there, here))
    if there is None or here is None:
        return "it was made by a command" if there else "it was made from a program"
    there, here = dict(_flat(there)), dict(_flat(here))
    keys = sorted(key for key in there.keys() | here.keys() if there.get(key) != here.get(key))
    keys = [key for key in keys if key != "hash"] or keys
    parts = [f"{key} is {there.get(key)} there and {here.get(key)} here" for key in keys[:3]]
    return ", ".join(parts) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")


def _flat(value, prefix=""):
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _flat(one, f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, value
