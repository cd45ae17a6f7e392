"""Standard output and error that end no run: a chain is worth more than what it says."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def settle() -> None:
    """Give this process a standard output and error that take what the program writes, whatever becomes of them.

    A letter that their encoding lacks is written as "?". From the first line on that cannot be written (a terminal or a
    reader that has gone, a full disk) all others are dropped; one that was closed from the start is ``os.devnull``, at
    its descriptor, too, which else a run's first file would get.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if isinstance(stream, Outliving):
            continue
        if stream is None:
            stream = open(os.devnull, "w")
            try:
                os.fstat(number)
            except OSError:  # nothing is there
                os.dup2(stream.fileno(), number)
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")
        setattr(sys, name, Outliving(stream))


class Outliving:
    """A text stream that drops what it cannot write; ``lost`` is why, once it has."""

    def __init__(self, stream):
        self.stream, self.lost = stream, None

    def __getattr__(self, name: str):
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        self._trying(self.stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._trying(self.stream.flush)

    def _trying(self, work, *arguments) -> None:
        try:
            work(*arguments)
        except (OSError, ValueError) as error:  # ValueError: closed
            self.lost = self.lost or error
            with suppress(OSError, ValueError):  # what waits to be written, and what else writes there
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())
