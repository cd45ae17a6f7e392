"""The errors that a user can mend; the command line prints them as one sentence and exits with status 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SettingError(ValueError):
    """A setting that cannot work, named with its value and what would do.

    ``SettingError("lr", -1, "must be a positive number")`` reads
    ``lr=-1: must be a positive number``.
    """

    def __init__(self, setting: str, value: object, mend: str):
        self.setting, self.value, self.mend = setting, value, mend
        super().__init__(setting, value, mend)  # what pickle makes it again from, in another process

    def __str__(self) -> str:
        return f"{self.setting}={self.value}: {self.mend}"


def one_of(setting: str, value: str | bool | None, known: Iterable[str | bool | None]) -> None:
    """Raise SettingError for a value that is not one of the ``known``."""
    if value not in known:
        raise SettingError(setting, value, f"must be one of {', '.join(map(str, known))}")


def nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """``did you mean …?``, of the nearest of the ``known``, or of those that begin so, or ``otherwise``."""
    name, known = str(name), list(known)
    near = difflib.get_close_matches(name, known, 1) or [one for one in known if name and one.startswith(name)]
    if not near:
        return otherwise
    return f"did you mean {near[0]}?" if len(near) == 1 else f"did you mean one of {', '.join(near)}?"


def few(values: list, most: int = 5) -> str:
    """The first of the ``values``, and … where there are more."""
    return ", ".join(map(str, values[:most])) + (", …" if len(values) > most else "")


class NoRoom(SettingError):
    """What needs more memory than there is: on this machine, and today, and not on another or tomorrow."""


class NoDevice(SettingError):
    """A device that this machine does not have, and another may."""


class DataError(RuntimeError):
    """A file of data or starting positions that is missing, damaged or cannot be had; the message is one sentence."""


class StoreError(RuntimeError):
    """A run folder that cannot be used (another configuration, damaged, full or read-only disk)."""


class DiskError(StoreError):
    """What the system says of a disk or a folder: that it is not there, read-only, or another user's; of this machine,
    or of today, and not of the run."""


class DiskFailed(DiskError):
    """A disk that is full, or one that does not answer; what was written before is intact, and a run goes on when
    there is room, or the disk is back."""


class FolderBusy(StoreError):
    """A run folder that another process is writing, or has written since it was read; it can be had when that one has
    ended, and from where it is now."""
