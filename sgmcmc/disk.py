"""Files on a disk that may be full, read-only or switched off: written as a whole or not at all, and errors said in one
sentence."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from pathlib import Path

from sgmcmc.errors import DiskFull, StoreError


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
            text = f"{error.strerror or error}: is this run's output what you meant?"
        raise StoreError(f"{where}: {text}") from error


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def write(path: Path, data: bytes) -> None:
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


def append(path: Path, length: int, data: bytes) -> None:
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
        sync(path.parent)


def sync(folder: Path) -> None:
    """Make renames in a folder durable."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has no such thing
            raise
    finally:
        os.close(file)
