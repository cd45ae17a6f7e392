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
import warnings
from collections.abc import Sequence
from contextlib import suppress
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
_FORMAT = 1
_MAGIC = b"sgmcmc checkpoint "


class Damaged(Exception):
    """A file that is not what was written; the message names it."""


def csv_text(rows: Sequence[dict], columns: list[str] | None, path: Path) -> tuple[bytes, list[str]]:
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


def read_table(path: Path) -> dict[str, numpy.ndarray]:
    with disk.told(path):
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


def pack(content: dict) -> bytes:
    """A line with the format and the SHA-256 of the rest, then the content as ``torch.save`` writes it."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    payload = buffer.getvalue()
    return b"%s%d %s\n" % (_MAGIC, _FORMAT, hashlib.sha256(payload).hexdigest().encode()) + payload


def read_checkpoint(path: Path) -> dict:
    try:
        head, _, payload = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        raise Damaged(f"{path.name} is missing") from None
    fields = head.removeprefix(_MAGIC).split()
    if not head.startswith(_MAGIC) or len(fields) != 2 or fields[1] != hashlib.sha256(payload).hexdigest().encode():
        raise Damaged(f"{path.name} is damaged")
    if fields[0] != b"%d" % _FORMAT:
        raise StoreError(f"{path} was written by another version of this program: give this run another output")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a pickle that is not torch's, which is refused
            return torch.load(io.BytesIO(payload), map_location="cpu", weights_only=True)
    except (RuntimeError, ValueError, EOFError, pickle.UnpicklingError):  # code where data should be
        raise Damaged(f"{path.name} is damaged") from None


def plain(value):
    """A copy with tensors on the CPU, cut loose from what they are views of; only what ``weights_only`` reads."""
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


def draws_per_file(draws: Tensor) -> int:
    return max(1, SAMPLE_BYTES // (draws[0].numel() * draws.element_size()))


def write_draws(path: Path, draws: Tensor, first: int, since: int) -> str:
    """Draws number ``first`` and on (from 0); those before number ``since`` are not kept when this file is the
    last. Returns their digest. One entry of metadata only: safetensors writes several in any order."""
    digest = _digest(draws, first, since)
    about = json.dumps({"first": first, "since": since, "sha256": digest})
    disk.write(path, safetensors.torch.save({"draws": draws}, {"sgmcmc": about}))
    return digest


def read_draws(path: Path) -> tuple[Tensor, dict]:
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


def signature(status: dict) -> str:
    return hashlib.sha256(canonical(status).encode()).hexdigest()


def canonical(identity) -> str:
    return json.dumps(identity, sort_keys=True)
