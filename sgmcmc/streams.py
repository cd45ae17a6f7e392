"""Standard output and error that end no run: a chain is worth more than what it says."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def settle() -> None:
    """Give this process a standard output and error that take what the program writes, whatever becomes of them.

    A letter that an encoding lacks is written as "?". From the first line on that cannot be written (a terminal or a
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
        if number == 1:  # the other shows such letters by their numbers as it is
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

    def writelines(self, lines) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        self._trying(self.stream.flush)

    def _trying(self, work, *arguments) -> None:
        try:
            work(*arguments)
        except (OSError, ValueError) as error:  # ValueError: closed
            if self.lost is None:
                self.lost = error
                with suppress(OSError, ValueError), open(os.devnull, "w") as nothing:
                    os.dup2(nothing.fileno(), self.stream.fileno())  # also what waits, and what else writes there
