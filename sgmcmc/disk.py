"""Files on a disk that may be full, read-only or switched off: written as a whole or not at all, and errors said in one
sentence; and whether who wrote one is still there."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sgmcmc.errors import DiskError, DiskFailed

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
AWAY = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ESHUTDOWN, errno.ENOTCONN)  # a network's disk may be back soon
NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)  # what a file system says that has no file locks


def failed(error: OSError, where) -> DiskFailed | None:
    """What ends a run that goes on when there is room again, or the disk is back; None for another error."""
    if error.errno in FULL:
        what = "no file may grow this large here" if error.errno == errno.EFBIG else "no space is left on the disk"
        return DiskFailed(f"{where}: {what}: what was written before is intact; make room and start again")
    if error.errno in AWAY:
        return DiskFailed(f"{where}: the disk does not answer ({error.strerror or error}): start again when it does")
    return None


@contextmanager
def told(path: Path, mend: str | None = None):
    """Turn the system's errors into one sentence, a DiskError; ``mend`` says what to do where that is not to give a run
    another output."""
    try:
        yield
    except OSError as error:
        where = error.filename or path
        if of_today := failed(error, where):
            raise of_today from error
        if error.errno == errno.EROFS:
            text = f"the disk is read-only: {mend or 'give this run another output'}"
        elif error.errno in (errno.EACCES, errno.EPERM):
            text = f"no permission to read or write here: {mend or 'give this run another output'}"
        else:
            text = f"{error.strerror or error}: " + (mend or "is this run's output what you meant?")
        raise DiskError(f"{where}: {text}") from error


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    file = os.open(path, flags, 0o666)
    try:
        yield file
    finally:
        os.close(file)


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def write(path: Path, data: bytes) -> None:
    """Write beside, flush to the disk, rename: the file is the old one or the new one, never half of one."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")  # of several processes each its own
    try:
        with _opened(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
            _write_all(file, data)
            os.fsync(file)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def append(path: Path, length: int, data: bytes) -> None:
    """Write after the first ``length`` bytes of a file, whatever an earlier failure left behind them."""
    new = not path.exists()
    with _opened(path, os.O_WRONLY | os.O_CREAT) as file:
        os.ftruncate(file, length)
        os.lseek(file, 0, os.SEEK_END)
        _write_all(file, data)
        os.fsync(file)
    if new:
        sync(path.parent)


def note(path: Path, data: bytes) -> None:
    """Write at the end of a file, without waiting for the disk: what nothing is computed from."""
    with _opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as file:
        _write_all(file, data)


def sync(folder: Path) -> None:
    """Make renames in a folder durable."""
    with _opened(folder, os.O_RDONLY) as file:
        try:
            os.fsync(file)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that has no such thing
                raise


def alive(process: int, since: float) -> bool:
    """Whether a process of this machine that ran at the time ``since`` still does, and is not another of its number.

    Where Linux tells when processes began; a minute is allowed between this clock and that of the files' machine.
    """
    try:
        os.kill(process, 0)
        # The 22nd field: ticks after the machine's start. The second, in brackets, may hold anything.
        ticks = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
        # Not /proc/uptime, which may be a container's.
        began = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return began < since + 60
