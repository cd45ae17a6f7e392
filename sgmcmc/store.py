"""What a run keeps on disk, and how it comes back after a kill, a full disk or a broken file.

A run folder holds::

    config.yaml            the resolved configuration, as it was given
    status.json            identity, state (running, done, …), machines and versions the run was on
    metrics.csv            one row every few cycles
    trace.csv              one row a step, of the cycles that are traced step by step
    samples/*.safetensors  the draws; 00000120.safetensors ends with the 120th draw of the run
    checkpoint-{0,1}.pt    the last two states of the chain, written in turn
    log.txt                what the run said
    .lock                  held by the one process that writes here

The run is written in **blocks**: draws, rows and state go to disk together (:meth:`RunFolder.commit`) and
the new checkpoint is the last to take its name, so a block is there as a whole or not at all. A checkpoint
records how long the tables were and which sample files belonged to it, with their SHA-256; what lies beyond
that when a run is opened again belongs to a block that was never finished, and is removed. Every file but
the tables is written beside and renamed; tables only grow, and are cut back to the recorded length.
"""

from __future__ import annotations

import csv
import errno
import fcntl
import hashlib
import importlib.metadata
import io
import json
import os
import pickle
import platform
import re
import socket
import subprocess
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import numpy
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from .errors import DiskFull, FolderBusy, SettingError, StoreError

SAMPLE_BYTES = 4 << 20  # size of a full sample file; one that is not full is written anew with every block
_FORMAT = 1
_MAGIC = b"sgmcmc checkpoint "
_SAMPLE_FILE = re.compile(r"\d+\.safetensors")
MAY_DIFFER = {"seed", "chains", "init", "warm_start", "log_every", "save_every"}  # of runs whose chains are joined
_SLOTS = ("checkpoint-0.pt", "checkpoint-1.pt")
_TABLES = ("metrics.csv", "trace.csv")
# What a checkpoint records of the files beside it: blocks and draws so far, the first draw that is still kept,
# sample files with their SHA-256, length and SHA-256 of each table, [chains, dim, dtype] of the draws.
_EMPTY = {"block": 0, "draws": 0, "since": 0, "files": {}, "tables": {}, "form": None}
_MISSING = object()


class _Damaged(Exception):
    """A file that is not what was written; the message names it."""


class RunFolder:
    """One run's folder, opened for writing by one process at a time.

    Nothing is created before :meth:`open`, :meth:`status`, :meth:`log` or :meth:`commit`, so that a mistake
    in the configuration leaves no trace. A chain begins with :meth:`load`.

    :param identity: plain dict (``hash``, ``law`` and the configuration behind them) that must agree with the
        one the folder was made with; None for a run without one.
    :param config_text: what ``config.yaml`` shall hold.
    :param keep: ``"all"`` draws, the last ``N``, or ``"none"``.
    :param device: where the chain is computed, to be recorded.
    :param warn: called with one sentence when something was lost or may not be reproducible.
    :raises StoreError: from any method: another run's folder, another process in it, a full or read-only disk.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        identity: dict | None = None,
        config_text: str = "",
        *,
        keep: int | str = "all",
        device: torch.device | str = "cpu",
        warn: Callable[[str], object] = warnings.warn,
    ):
        if keep not in ("all", "none") and not (isinstance(keep, int) and keep > 0):
            raise SettingError("keep", keep, "must be all, none or how many of the last draws to keep")
        self.path, self.keep, self.warn = Path(path), keep, warn
        self.identity, self.config_text, self._device = identity, config_text, device
        self._lock: io.IOBase | None = None
        self._created = False
        self._loaded = 0  # the block that the caller goes on from
        self._status: dict = {}
        self._forget()

    def _forget(self) -> None:
        """A run of which nothing is on disk: ``_now`` and ``_before`` are what the two checkpoints recorded."""
        self._now, self._before = _EMPTY, _EMPTY
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
        with told(self.path):
            state = None
            if self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir())):
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
                raise FolderBusy(
                    f"{self.path} is being written by {holder}: wait for it, or give this run another output"
                ) from None
            if error.errno not in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
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
        for slot in _SLOTS:
            if recorded is _MISSING:
                with suppress(_Damaged):
                    recorded = _read_checkpoint(self.path / slot)["identity"]
        if recorded is _MISSING:
            own = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else {"a file"}
            if {name for name in own if name != ".lock" and not name.endswith(".part")}:
                raise StoreError(f"{self.path} holds something else than a run: give this run another output")
        elif _canonical(recorded) != _canonical(self.identity):
            raise StoreError(
                f"{self.path} belongs to another configuration ({_difference(recorded, self.identity)}): "
                "give this run another output, or move that folder away"
            )

    def _recover(self) -> dict | None:
        self._forget()
        if (self.path / "status.json").exists():
            try:
                self._status = read_status(self.path)
            except StoreError as damage:
                self._tell(f"{damage}: it is written anew, and the chain goes on from its checkpoint")
        slots = [self.path / slot for slot in _SLOTS if (self.path / slot).exists()]
        found, lost = [], []
        for slot in slots:
            try:
                found.append(_read_checkpoint(slot))
            except _Damaged as damage:
                lost.append(str(damage))
        found.sort(key=lambda content: content["record"]["block"], reverse=True)
        while found:
            try:
                self._verify(found[0]["record"])
                break
            except _Damaged as damage:
                if str(damage) not in lost:
                    lost.append(str(damage))
                found.pop(0)
        if found:
            self._now = found[0]["record"]
            self._before = found[1]["record"] if len(found) > 1 else _EMPTY
            if lost:
                self._tell(
                    f"{self.path}: {' and '.join(lost)}: continuing from block {self._now['block']}, the last that "
                    "is whole; what came after it is computed again"
                )
        elif slots:
            aside = self._set_aside()
            self._tell(
                f"{self.path}: {' and '.join(lost)}: no block is left that is whole, so the run starts from nothing; "
                f"what was there is in {aside.name}"
            )
        for name in _TABLES:
            self._cut_table(name)
        self._sweep()
        return found[0]["state"] if found else None

    def _verify(self, record: dict) -> None:
        """Compare tables and samples with a checkpoint's record of them, and take up where they end."""
        self._forget()
        for name, table in record["tables"].items():
            path = self.path / name
            try:
                with path.open("rb") as file:
                    hashed, left = self._hashes[name], table["length"]
                    while left and (chunk := file.read(min(left, 1 << 20))):
                        hashed.update(chunk)
                        left -= len(chunk)
            except FileNotFoundError:
                raise _Damaged(f"{name} is missing") from None
            if left or hashed.hexdigest() != table["sha256"]:
                raise _Damaged(f"{name} is damaged")
            with path.open(newline="") as file:
                self._columns[name] = next(csv.reader(file))
        for name, digest in record["files"].items():
            draws, about = _read_draws(self.path / "samples" / name)
            if about["sha256"] != digest:
                raise _Damaged(f"samples/{name} is not the one that was written")
        if record["files"] and len(draws) < _draws_per_file(draws):
            self._tail = draws

    def _set_aside(self) -> Path:
        """Move what cannot be continued into a folder of its own, the checkpoints last: a kill in between
        leaves checkpoints without their files, which are set aside when the run is opened next."""
        number = 1
        while (self.path / f"damaged-{number}").exists():
            number += 1
        aside = self.path / f"damaged-{number}"
        os.mkdir(aside)
        for name in ("samples", *_TABLES, *_SLOTS):
            if (self.path / name).exists():
                os.replace(self.path / name, aside / name)
        os.mkdir(self.path / "samples")
        _sync(self.path)
        self._forget()
        return aside

    def _sweep(self) -> None:
        """Remove the sample files that neither checkpoint needs, and what half-finished writes left."""
        needed = self._now["files"].keys() | self._before["files"].keys()
        for folder in (self.path, self.path / "samples"):
            for path in folder.iterdir() if folder.is_dir() else ():
                stale = folder.name == "samples" and _SAMPLE_FILE.fullmatch(path.name) and path.name not in needed
                if stale or (path.name.startswith(".") and path.name.endswith(".part")):
                    os.unlink(path)

    # ---- writing

    def open(self) -> None:
        """Create the folder with its configuration and status, or enter the one that is there."""
        if self._created:
            return
        with told(self.path):
            missing = [path for path in (self.path, *self.path.parents) if not path.exists()]
            try:
                os.makedirs(self.path, exist_ok=True)
                if self._lock is None:
                    self._enter()
                self._record_environment()
                config = self.path / "config.yaml"
                if not config.exists() or config.read_bytes() != self.config_text.encode():
                    _write(config, self.config_text.encode())
                os.makedirs(self.path / "samples", exist_ok=True)
                _sync(self.path)
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

    def _record_environment(self) -> None:
        """Note in ``status.json`` that the run goes on, and where, if that is not where it was."""
        here = environment(self._device)
        seen = self._status.setdefault("environments", [])
        if not seen or {**seen[-1], "from_block": 0} != {**here, "from_block": 0}:
            if seen and self._now["block"]:
                changed = [
                    f"{key} was {seen[-1].get(key)} and is {value}"
                    for key, value in here.items()
                    if key not in ("host", "git_commit") and seen[-1].get(key) != value
                ]
                if changed:
                    self._tell(
                        f"{self.path}: the run goes on under other conditions ({'; '.join(changed)}): "
                        "from here on it need not be the uninterrupted one bit for bit"
                    )
            seen.append({**here, "from_block": self._now["block"]})
        self._status = {**self._status, "state": "running", "identity": self.identity}
        self._write_status()

    def _write_status(self) -> None:
        self._status["updated"] = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        signed = {**self._status, "sha256": _signature(self._status)}
        _write(self.path / "status.json", json.dumps(signed, indent=2).encode() + b"\n")

    def status(self, **fields) -> None:
        """Set fields of ``status.json``: ``state`` (running, done, diverged, interrupted, failed) and any other
        JSON value; those that are not named stay."""
        self.open()
        with told(self.path):
            self._status.update(fields)
            self._write_status()

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the caller's own into the folder, as a whole or not at all."""
        self.open()
        with told(self.path / name):
            _write(self.path / name, data)

    def log(self, text: str) -> None:
        """Add a line to ``log.txt``."""
        self.open()
        with told(self.path):
            self._log(text)

    def _log(self, text: str) -> None:
        path = self.path / "log.txt"
        length = path.stat().st_size if path.exists() else 0
        _append(path, length, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode())

    def _tell(self, text: str) -> None:
        self.warn(text)
        self._log(text)

    def commit(
        self,
        rows: Sequence[dict],
        draws: Tensor | None,
        state: dict,
        trace_rows: Sequence[dict] | None = None,
    ) -> None:
        """Write one block: a kill at any moment leaves it on disk as a whole or not at all.

        :param rows: rows of ``metrics.csv``: numbers (floats are written so that they read back bit for bit),
            strings, None for an empty cell. The first row of the run fixes the columns.
        :param draws: ``[draws, chains, dim]``, or None.
        :param state: what the chain needs to go on: nested dicts, lists and tuples of tensors, numbers, strings.
        :param trace_rows: rows of ``trace.csv``.
        :raises StoreError: full or read-only disk, other columns, other shape of draws; the block is then not
            there, all earlier ones are, and the same call may be made again.
        """
        self.open()
        if self._now["block"] != self._loaded:
            raise StoreError(f"{self.path} holds blocks that this run did not load: start it again")
        state = _plain(state)
        record = {**self._now, "block": self._now["block"] + 1, "tables": dict(self._now["tables"])}
        hashes, columns, tail = dict(self._hashes), dict(self._columns), self._tail
        with told(self.path):
            try:
                if draws is not None and len(draws) and self.keep != "none":
                    tail = self._add_draws(record, draws)
                for name, new in zip(_TABLES, (rows, trace_rows), strict=True):
                    if new:
                        text, columns[name] = _table(new, columns.get(name), self.path / name)
                        length = record["tables"].get(name, {"length": 0})["length"]
                        _append(self.path / name, length, text)
                        hashes[name] = hashes[name].copy()
                        hashes[name].update(text)
                        record["tables"][name] = {
                            "length": length + len(text),
                            "sha256": hashes[name].hexdigest(),
                        }
                content = {"identity": self.identity, "record": record, "state": state}
                _write(self.path / _SLOTS[record["block"] % 2], _pack(content))
            except (OSError, StoreError):
                self._roll_back()
                raise
            stale = self._before["files"].keys() - self._now["files"].keys() - record["files"].keys()
            self._before, self._now = self._now, record
            self._hashes, self._columns, self._tail = hashes, columns, tail
            self._loaded = record["block"]
        with suppress(OSError):  # the block is there; :meth:`load` tidies up what is left over
            _sync(self.path)
            for name in stale:
                os.unlink(self.path / "samples" / name)

    def _add_draws(self, record: dict, draws: Tensor) -> Tensor | None:
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
        size, since = _draws_per_file(draws), record["since"]
        for start in range(0, len(draws), size):
            piece = draws[start : start + size].contiguous()
            first = total - len(draws) + start
            stop = first + len(piece)
            if self.keep != "all":
                since = max(since, stop - self.keep)
                if stop <= total - self.keep:
                    continue
            name = f"{stop:08d}.safetensors"
            files[name] = _write_draws(self.path / "samples" / name, piece, first, since)
        _sync(self.path / "samples")
        files = {name: digest for name, digest in files.items() if int(name.split(".")[0]) > since}
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
        path, length = self.path / name, self._now["tables"].get(name, {"length": 0})["length"]
        if path.exists() and path.stat().st_size > length:
            file = os.open(path, os.O_WRONLY)
            try:
                os.ftruncate(file, length)
                os.fsync(file)
            finally:
                os.close(file)


# ---- reading


def load_samples(folder: str | os.PathLike | Sequence) -> Tensor:
    """The draws of a run, ``[draws, chains, dim]`` in the dtype they were kept in.

    Of several folders (seeds of one configuration) the chains are joined along dimension 1. A run may be
    read while it is being written.

    :raises StoreError: no draws, a damaged or missing file, or runs with different numbers of draws,
        dimensions or dtypes, or of different settings.
    """
    if not isinstance(folder, str | os.PathLike):
        folder = list(folder)
        runs = [load_samples(one) for one in folder]
        if not runs:
            raise StoreError("no run folder was given to load samples from")
        check_alike(folder)
        for path, run in zip(folder, runs, strict=True):
            if (run.shape[0], run.shape[2], run.dtype) != (runs[0].shape[0], runs[0].shape[2], runs[0].dtype):
                raise StoreError(
                    f"{path} holds {run.shape[0]} draws of {run.shape[2]} dimensions ({run.dtype}), {folder[0]} "
                    f"{runs[0].shape[0]} of {runs[0].shape[2]} ({runs[0].dtype}): only equal ones can be joined"
                )
        return torch.cat(runs, 1)
    folder = Path(folder)
    while True:
        names = _sample_names(folder)
        try:
            return _join(folder, names)
        except _Damaged as damage:
            if _sample_names(folder) == names:  # else a running chain has just replaced a file
                raise StoreError(f"{folder}: {damage}: the run's own command computes it again") from None


def check_alike(folders: Sequence) -> None:
    """Raise StoreError unless the runs differ in their seed, and in nothing else but their start and their chains'
    number: only then are they chains of one sampler and one target, and independent."""
    if len(folders) < 2:
        return

    def settings(folder) -> dict | None:
        identity = read_status(folder).get("identity") or {}
        known = identity.get("settings")
        return known and {**known, "law": identity.get("law")}

    known = [settings(folder) for folder in folders]
    first, *others = known
    for folder, other in zip(folders[1:], others, strict=True):
        if not first or not other:  # of runs of one's own, which need not say
            continue
        names = {name for name in first.keys() | other.keys() if first.get(name) != other.get(name)} - MAY_DIFFER
        if names:
            which = ", ".join(sorted(names))
            raise StoreError(
                f"{folder} differs from {folders[0]} in {which}: only runs of one configuration are joined"
            )
    seen: dict[str, object] = {}
    for folder, one in zip(folders, known, strict=True):
        which = str((one or {}).get("seed", Path(folder).resolve()))
        if which in seen:
            raise StoreError(
                f"{folder} and {seen[which]} have the same seed, so the same random numbers: give one of them"
            )
        seen[which] = folder


def _sample_names(folder: Path) -> list[str]:
    """Sample files, the newest first."""
    with told(folder):
        if not (folder / "samples").is_dir():
            raise StoreError(f"{folder} is not a run folder: it has no samples")
        names = [path.name for path in (folder / "samples").iterdir() if _SAMPLE_FILE.fullmatch(path.name)]
    if not names:
        raise StoreError(f"{folder} holds no draws (keep=none, or the burn-in is not over)")
    return sorted(names, key=lambda name: int(name.split(".")[0]), reverse=True)


def _join(folder: Path, names: list[str]) -> Tensor:
    """Draws from the newest file back; a file that reaches into the next one is an earlier copy of its start."""
    pieces, first, since = [], None, 0
    for name in names:
        if first is not None and (int(name.split(".")[0]) > first or first <= since):
            continue
        draws, about = _read_draws(folder / "samples" / name)
        if first is None:
            since = about["since"]
        elif about["first"] + len(draws) != first:
            break
        first = about["first"]
        pieces.append(draws)
    if first > since:
        raise _Damaged(f"draws {since} to {first} are missing from samples")
    return torch.cat(pieces[::-1])[since - first :]


def load_metrics(folder: str | os.PathLike) -> dict[str, numpy.ndarray]:
    """``metrics.csv`` as one array a column: int64, float64 (an empty cell is NaN) or strings.

    Floats are those that were written, bit for bit. A last line that is still being written is left out.

    :raises StoreError: no such file, or a damaged one.
    """
    return _read_table(Path(folder) / "metrics.csv")


def load_trace(folder: str | os.PathLike) -> dict[str, numpy.ndarray]:
    """``trace.csv``, as :func:`load_metrics`."""
    return _read_table(Path(folder) / "trace.csv")


def read_status(folder: str | os.PathLike) -> dict:
    """What ``status.json`` says; StoreError where there is none to be read, or not the one that was written."""
    path = Path(folder) / "status.json"
    with told(path):
        try:
            content = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            content = None
    if not isinstance(content, dict) or content.pop("sha256", None) != _signature(content):
        raise StoreError(f"{path} is damaged")
    return content


def damage(folder: str | os.PathLike) -> str | None:
    """What of a run is not as its last block was written, in words; None where all is. Reads every file of it."""
    run = RunFolder(folder)
    try:
        found = [_read_checkpoint(run.path / slot) for slot in _SLOTS if (run.path / slot).exists()]
        if found:
            run._verify(max((content["record"] for content in found), key=lambda record: record["block"]))
    except _Damaged as damage:
        return str(damage)
    return None


def _read_table(path: Path) -> dict[str, numpy.ndarray]:
    with told(path):
        blob = path.read_bytes()
    try:
        text = blob[: blob.rfind(b"\n") + 1].decode()
        head, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
        if any(len(row) != len(head) for row in rows):
            raise ValueError
    except (ValueError, csv.Error):
        raise StoreError(f"{path} is damaged") from None
    columns = zip(*rows, strict=True) if rows else ((),) * len(head)
    return {name: _array(column) for name, column in zip(head, columns, strict=True)}


def _array(cells: Sequence[str]) -> numpy.ndarray:
    with suppress(ValueError, OverflowError):
        return numpy.array([int(cell) for cell in cells], dtype=numpy.int64)
    with suppress(ValueError):
        return numpy.array([float(cell or "nan") for cell in cells])
    return numpy.array(cells)


# ---- what the files hold


def _table(rows: Sequence[dict], columns: list[str] | None, path: Path) -> tuple[bytes, list[str]]:
    """Rows as csv text, with a heading if they are the first, and the columns."""
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n").writerow
    if columns is None:
        columns = list(rows[0])
        write(columns)
    for row in rows:
        if missing := set(columns) - row.keys():  # what a newer version measures, too, is left out of an older run
            other = ", ".join(sorted(missing))
            raise StoreError(f"{path} has other columns than this run writes ({other}): give it another output")
        write([_cell(row[column]) for column in columns])
    return text.getvalue().encode(), columns


def _cell(value) -> str:
    if isinstance(value, Tensor | numpy.generic):
        value = value.item()
    if value is None:
        return ""
    if isinstance(value, bool):
        value = int(value)
    return repr(value) if isinstance(value, float) else str(value)


def _plain(value):
    """A copy with tensors on the CPU, cut loose from what they are views of; only what ``weights_only`` reads."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True).contiguous()
    if isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, dict):
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(one) for one in value)
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    raise TypeError(f"a checkpoint holds tensors, numbers, strings, lists and dicts, not {type(value).__name__}")


def _pack(content: dict) -> bytes:
    """A line with the format and the SHA-256 of the rest, then the content as ``torch.save`` writes it."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    payload = buffer.getvalue()
    return b"%s%d %s\n" % (_MAGIC, _FORMAT, hashlib.sha256(payload).hexdigest().encode()) + payload


def _read_checkpoint(path: Path) -> dict:
    try:
        head, _, payload = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        raise _Damaged(f"{path.name} is missing") from None
    fields = head.removeprefix(_MAGIC).split()
    if not head.startswith(_MAGIC) or len(fields) != 2 or fields[1] != hashlib.sha256(payload).hexdigest().encode():
        raise _Damaged(f"{path.name} is damaged")
    if fields[0] != b"%d" % _FORMAT:
        raise StoreError(f"{path} was written by another version of this program: give this run another output")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a pickle that is not torch's, which is refused
            return torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError):  # code where data should be
        raise _Damaged(f"{path.name} is damaged") from None


def _draws_per_file(draws: Tensor) -> int:
    return max(1, SAMPLE_BYTES // (draws[0].numel() * draws.element_size()))


def _digest(draws: Tensor, first: int, since: int) -> str:
    """SHA-256 of the draws, their shape, dtype and place in the run."""
    hashed = hashlib.sha256(json.dumps([first, since, str(draws.dtype), list(draws.shape)]).encode())
    hashed.update(draws.view(torch.uint8).numpy())
    return hashed.hexdigest()


def _write_draws(path: Path, draws: Tensor, first: int, since: int) -> str:
    """Draws number ``first`` and on (from 0); those before number ``since`` are not kept when this file is the
    last. Returns their digest. One entry of metadata only: safetensors writes several in any order."""
    digest = _digest(draws, first, since)
    about = json.dumps({"first": first, "since": since, "sha256": digest})
    _write(path, safetensors.torch.save({"draws": draws}, {"sgmcmc": about}))
    return digest


def _read_draws(path: Path) -> tuple[Tensor, dict]:
    try:
        blob = path.read_bytes()
        draws = safetensors.torch.load(blob)["draws"]
        head = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])
        about = json.loads(head["__metadata__"]["sgmcmc"])
        if about["sha256"] != _digest(draws, about["first"], about["since"]):
            raise ValueError
    except FileNotFoundError:
        raise _Damaged(f"samples/{path.name} is missing") from None
    except (SafetensorError, ValueError, KeyError, TypeError):
        raise _Damaged(f"samples/{path.name} is damaged") from None
    return draws, about


def _signature(status: dict) -> str:
    return hashlib.sha256(_canonical(status).encode()).hexdigest()


def _canonical(identity) -> str:
    return json.dumps(identity, sort_keys=True)


def _difference(there, here) -> str:
    """Where two identities part, in words; their hashes only if nothing else does."""
    there, here = (json.loads(_canonical(identity)) for identity in (there, here))
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


def environment(device: torch.device | str = "cpu") -> dict:
    """What a chain's last bits may depend on: machine, device, number of threads, versions, commit."""
    device = torch.device(device)
    processor = platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    version = "unknown"
    with suppress(importlib.metadata.PackageNotFoundError):
        version = importlib.metadata.version("sgmcmc")
    on_gpu = {}
    if device.type == "cuda":
        on_gpu = {"device": torch.cuda.get_device_name(device), "precision": precision()}
        on_gpu |= {"deterministic": torch.backends.cudnn.deterministic, "cuda": torch.version.cuda}
    return {
        "host": socket.gethostname(),
        "processor": f"{processor} ({torch.backends.cpu.get_cpu_capability()})",
        "device": device.type,
        **on_gpu,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "sgmcmc": version,
        "git_commit": _git_commit(),
    }


def precision() -> str:
    """What the products of float32 gradients are computed in on a GPU; U never is."""
    names = {"tf32": "TF32", "bf16": "bf16"}
    kinds = (("convolutions", torch.backends.cudnn.conv), ("products", torch.backends.cuda.matmul))
    return ", ".join(f"{kind} in {names.get(backend.fp32_precision, 'float32')}" for kind, backend in kinds)


@cache
def _git_commit() -> str | None:
    """Commit of the source tree that this package is run from, None where it is not in one. Asked for once: what a
    process computes with is what it imported."""

    def git(*words):
        command = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return None


# ---- the disk


@contextmanager
def told(path: Path):
    """Turn the system's errors into one sentence."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            reason = (
                "no file may grow this large here" if error.errno == errno.EFBIG else "no space is left on the disk"
            )
            text = f"{reason}: what was written before is intact; make room and start again"
            raise DiskFull(f"{where}: {text}") from error
        if error.errno == errno.EROFS:
            text = "the disk is read-only: give this run another output"
        elif error.errno in (errno.EACCES, errno.EPERM):
            text = "no permission to read or write here: give this run another output"
        else:
            text = error.strerror or str(error)
        raise StoreError(f"{where}: {text}") from error


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _write(path: Path, data: bytes) -> None:
    """Write beside, flush to the disk, rename: the file is the old one or the new one, never half of one."""
    part = path.with_name(f".{path.name}.part")
    try:
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            _write_all(file, data)
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            os.unlink(part)
        raise


def _append(path: Path, length: int, data: bytes) -> None:
    """Write after the first ``length`` bytes of a file, whatever an earlier failure left behind them."""
    new = not path.exists()
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    try:
        os.ftruncate(file, length)
        os.lseek(file, 0, os.SEEK_END)
        _write_all(file, data)
        os.fsync(file)
    finally:
        os.close(file)
    if new:
        _sync(path.parent)


def _sync(folder: Path) -> None:
    """Make renames in a folder durable."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has no such thing
            raise
    finally:
        os.close(file)
