"""What the files of a run folder hold: tables as csv, checkpoints, draws as safetensors, the status as JSON.

Checkpoints, draws and the status carry their own SHA-256; what is not as it was written raises ``Damaged``. None of
them holds code that would be run when it is read.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import pickle
import re
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from sgmcmc import disk
from sgmcmc.errors import StoreError

SAMPLE_BYTES = 4 << 20  # size of a full sample file; one that is not full is written anew with every block
SAMPLE_FILE = re.compile(r"\d+\.safetensors")
ROWS_AT_ONCE = 1 << 14  # of a table that is read
READABLE, MEND = "is it in the folder of a run, and yours to read?", "the run's own command mends it"
_FORMAT = 1
_MAGIC = b"sgmcmc checkpoint "


class Damaged(Exception):
    """A file that is not what was written; the message names it."""


def csv_text(rows: Sequence[dict], columns: list[str] | None, path: Path) -> tuple[bytes, list[str]]:
    """Rows as csv text, and the columns: those that the table has, or those of the first row, with a heading.

    Floats are written so that they read back bit for bit. What a row has besides the columns is left out; StoreError,
    which names the table's ``path``, where one of the columns is missing.
    """
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n").writerow
    if columns is None:
        columns = list(rows[0])
        write(columns)
    for row in rows:
        if missing := set(columns) - row.keys():
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


def read_table(path: Path, recorded: dict | None = None) -> dict[str, numpy.ndarray]:
    """A table as one array a column: int64, float64 (an empty cell is NaN) or strings.

    A last line without its end, which is still being written, is left out. StoreError where there is no such file, or
    it is damaged: no table, or not beginning with what a checkpoint has ``recorded`` of it, its length and SHA-256.
    """
    with disk.told(path, READABLE):
        blob = path.read_bytes()
    try:
        if recorded and hashlib.sha256(memoryview(blob)[: recorded["length"]]).hexdigest() != recorded["sha256"]:
            raise ValueError
        whole = blob[: blob.rfind(b"\n") + 1]
        table = _columns(whole, ROWS_AT_ONCE)
        if any(column.dtype.kind == "U" for column in table.values()):  # where parts of it look like numbers, too
            table = _columns(whole, None)
    except (ValueError, csv.Error):
        raise StoreError(f"{path} is damaged: {MEND}") from None
    return table


def _columns(text: bytes, at_once: int | None) -> dict[str, numpy.ndarray]:
    """The columns of csv text, of which so many rows ``at_once`` are strings, ten times as large as their numbers."""
    rows = csv.reader(io.TextIOWrapper(io.BytesIO(text), "utf-8", newline=""), strict=True)
    (head,), parts = islice(rows, 1), []
    while some := list(islice(rows, at_once)):
        if any(len(row) != len(head) for row in some):
            raise ValueError
        parts.append(list(map(_array, zip(*some, strict=True))))
    parts = parts or [[_array(())] * len(head)]
    return {name: numpy.concatenate(column) for name, column in zip(head, zip(*parts, strict=True), strict=True)}


def _array(cells: Sequence[str]) -> numpy.ndarray:
    with suppress(ValueError, OverflowError):
        return numpy.array([int(cell) for cell in cells], dtype=numpy.int64)
    with suppress(ValueError):
        return numpy.array([float(cell or "nan") for cell in cells])
    return numpy.array(cells)


def pack(content: dict) -> bytes:
    """A line with the format and the SHA-256 of the rest, then the content as ``torch.save`` writes it."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    payload = buffer.getvalue()
    return b"%s%d %s\n" % (_MAGIC, _FORMAT, hashlib.sha256(payload).hexdigest().encode()) + payload


def read_checkpoint(path: Path) -> dict:
    """The content that ``pack`` was given, tensors on the CPU. Damaged where the file is missing or not as it was
    written; StoreError where another version of the format wrote it."""
    try:
        head, _, payload = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        raise Damaged(f"{path.name} is missing") from None
    fields = head.removeprefix(_MAGIC).split()
    if not head.startswith(_MAGIC) or len(fields) != 2 or fields[1] != hashlib.sha256(payload).hexdigest().encode():
        raise Damaged(f"{path.name} is damaged")
    if fields[0] != b"%d" % _FORMAT:
        raise StoreError(f"{path} was written by another version of this program: give this run another output")
    if not payload.startswith(b"PK"):  # of another pickle torch would warn before it refuses it
        raise Damaged(f"{path.name} is damaged")
    try:
        return torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError):  # code where data should be
        raise Damaged(f"{path.name} is damaged") from None


class _Untensored(pickle.Unpickler):
    """What was pickled, with None in place of each tensor: nothing that it names is imported or called."""

    def find_class(self, module, name):
        return lambda *_: None

    def persistent_load(self, storage):
        return None


def read_record(path: Path) -> dict:
    """The ``record`` of a checkpoint, of which no tensor is read: they may be gigabytes. Damaged where the file is
    missing or its record is not as it was written."""
    try:
        with zipfile.ZipFile(path) as whole:  # which looks for the end, and minds no line before the beginning
            name = next(name for name in whole.namelist() if name.endswith("/data.pkl"))
            return _Untensored(io.BytesIO(whole.read(name))).load()["record"]
    except Exception:  # what is raised for a file that is damaged can be anything
        raise Damaged(f"{path.name} is damaged") from None


def plain(value):
    """A copy that a checkpoint can hold: tensors on the CPU and no longer views of larger ones, numbers, strings, None,
    and lists, tuples and dicts of them. TypeError for anything else, which ``weights_only`` would refuse to read."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True).contiguous()
    if isinstance(value, numpy.generic):
        return value.item()
    if isinstance(value, dict):
        return {plain(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(one) for one in value)
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    raise TypeError(f"a checkpoint holds tensors, numbers, strings, lists and dicts, not {type(value).__name__}")


def last_draw(name: str) -> int:
    """The number of the last draw of a sample file of this name, from 1."""
    return int(name.split(".")[0])


def draws_per_file(draws: Tensor) -> int:
    """How many draws like these ``[draws, chains, dim]`` a full sample file holds: ``SAMPLE_BYTES``, at least one."""
    return max(1, SAMPLE_BYTES // (draws[0].numel() * draws.element_size()))


def write_draws(path: Path, draws: Tensor, first: int, since: int) -> str:
    """Write draws ``[draws, chains, dim]`` to a sample file; returns their digest.

    ``first`` is the number of the first of them in the run, from 0. While this file is the run's last one, the draws
    before number ``since`` do not count as kept (of ``keep=N``), though a file may still hold them.
    """
    digest = _digest(draws, first, since)
    # One entry of metadata: several would be written in any order, and the file's bytes would differ from time to time.
    about = json.dumps({"first": first, "since": since, "sha256": digest})
    disk.write(path, safetensors.torch.save({"draws": draws}, {"sgmcmc": about}))
    return digest


def read_draws(path: Path) -> tuple[Tensor, dict]:
    """The draws ``[draws, chains, dim]`` of a sample file, and its ``first``, ``since`` and ``sha256`` (see
    ``write_draws``). Damaged where the file is missing or not as it was written."""
    try:
        blob = path.read_bytes()
        draws = safetensors.torch.load(blob)["draws"]
        head = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])
        about = json.loads(head["__metadata__"]["sgmcmc"])
        if about["sha256"] != _digest(draws, about["first"], about["since"]):
            raise ValueError
    except FileNotFoundError:
        raise Damaged(f"samples/{path.name} is missing") from None
    except (SafetensorError, ValueError, KeyError, TypeError):
        raise Damaged(f"samples/{path.name} is damaged") from None
    return draws, about


def _digest(draws: Tensor, first: int, since: int) -> str:
    """SHA-256 of the draws, their shape, dtype and place in the run."""
    hashed = hashlib.sha256(json.dumps([first, since, str(draws.dtype), list(draws.shape)]).encode())
    hashed.update(draws.view(torch.uint8).numpy())
    return hashed.hexdigest()


def read_status(folder: str | os.PathLike) -> dict:
    """What ``status.json`` says; StoreError where there is none to be read, or not the one that was written."""
    path = Path(os.path.expanduser(folder)) / "status.json"
    with disk.told(path):
        try:
            content = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            content = None
    if not isinstance(content, dict) or content.pop("sha256", None) != signature(content):
        raise StoreError(f"{path} is damaged")
    return content


def signature(content) -> str:
    """SHA-256 of what JSON has, such as of a status, which ``status.json`` holds as ``sha256``."""
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def canonical(identity) -> str:
    """JSON that is the same text for equal content, in whatever order its keys are."""
    return json.dumps(identity, sort_keys=True)
