"""What the parts share: command lines in processes that can be killed, what a run leaves, what is counted."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMINGS = ("seconds", "steps_per_second")
CHANGES = ("open", "write", "fsync", "replace", "unlink", "ftruncate", "mkdir", "rmdir")
LONG = 240  # seconds that no run here takes


@dataclass
class Row:
    """What was tried, how often, and how often something was lost, doubled, wrong or said badly."""

    part: str
    what: str
    times: int = 0
    lost: int = 0
    seed: str | int = ""


@dataclass
class Ended:
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"status {self.code}\n{self.out[-300:]}\n{self.err[-3000:]}"


class Lost(AssertionError):
    """Something was lost; says what and where the remains lie."""


# ---- processes


class Child:
    """A command line in a process of its own: a fork of this one, which has imported what takes seconds.

    ``before`` is called in the child before the command line, ``after`` when that has ended by itself.
    """

    def __init__(self, words: list[str], folder: Path, before=None, after=None):
        self.files = [tempfile.TemporaryFile() for _ in range(2)]
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.pid = os.fork()
        if not self.pid:
            self._be(words, folder, before, after)

    def _be(self, words, folder, before, after) -> None:
        code = 70
        try:
            from experiments.command_line import main

            os.setpgid(0, 0)
            os.chdir(folder)
            for number, file in enumerate(self.files, 1):
                os.dup2(file.fileno(), number)
            sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))
            if before:
                before()
            code = main(words)
            if after:
                after()
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal; a scheduler's only once the command line has come so far that it handles them."""
        while number != signal.SIGKILL:
            facts = dict(line.split(":", 1) for line in Path(f"/proc/{self.pid}/status").read_text().splitlines())
            if int(facts["SigCgt"], 16) >> signal.SIGUSR1 - 1 & 1 or "Z" in facts["State"]:
                break
            time.sleep(0.001)
        os.kill(self.pid, number)

    def wait(self, seconds: float = LONG) -> Ended:
        """Until it ends; SIGKILL after so long, which no caller expects."""
        until, pause = time.monotonic() + seconds, 0.001
        while not (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            if time.monotonic() > until:
                self.kill()
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        texts = []
        for file in self.files:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        return Ended(os.waitstatus_to_exitcode(ended[1]), *texts)


def run(words: list[str], folder: Path, before=None, after=None, seconds: float = LONG) -> Ended:
    """A command line to its end."""
    return Child(words, folder, before, after).wait(seconds)


def at_change(number: int, act):
    """For a child: ``act`` at its ``number``-th change to the disk (half of it done, if it is a write)."""

    def prepare():
        place = itertools.count(1)

        def counted(name, call):
            def instead(*words, **more):
                if (name != "open" or words[1] & os.O_CREAT) and next(place) == number:
                    if name == "write" and len(words[1]) > 1:
                        call(words[0], words[1][: len(words[1]) // 2])
                    act()
                return call(*words, **more)

            return instead

        for name in CHANGES:
            setattr(os, name, counted(name, getattr(os, name)))
        prepare.place = place

    return prepare


def at_evaluation(number: int, method: str):
    """For a child: SIGKILL at the ``number``-th exact U (``potential``) or gradient (``gradient``) of a network."""

    def prepare():
        from sgmcmc.potentials.network import NetworkPotential

        place, call = itertools.count(1), getattr(NetworkPotential, method)

        def instead(*words, **more):
            if next(place) == number:
                die()
            return call(*words, **more)

        setattr(NetworkPotential, method, instead)

    return prepare


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# ---- what a run left


def kept(folder: Path) -> dict:
    """All that a finished run leaves, but for timings: samples, rows, traces, moments, its state, names of files."""
    from safetensors.numpy import load_file

    from sgmcmc.formats import read_status
    from sgmcmc.loading import load_metrics, load_samples, load_trace

    status = read_status(folder)
    left = {key: status.get(key) for key in ("state", "cycles", "frozen")}
    left |= {f"row {name}": column.tobytes() for name, column in load_metrics(folder).items() if name not in TIMINGS}
    if (folder / "trace.csv").exists():
        left |= {f"trace {name}": column.tobytes() for name, column in load_trace(folder).items()}
    left["samples"] = load_samples(folder).numpy().tobytes()
    left |= {f"moments {name}": one.tobytes() for name, one in load_file(folder / "moments.safetensors").items()}
    left["files"] = sorted(path.name for path in folder.iterdir() if not path.name.startswith("damaged-"))
    return left


def same(folder: Path, whole: dict, what: str, ended: Ended | None = None) -> None:
    """Lost where the run in the folder is not the one that was left alone."""
    try:
        left = kept(folder)
    except Exception as error:
        raise Lost(f"{what}: {error} {ended or ''}") from error
    other = [key for key in whole.keys() | left.keys() if whole.get(key) != left.get(key)]
    if other:
        raise Lost(f"{what}: not the same in {', '.join(sorted(other))}: {folder}")


def sentence(ended: Ended, what: str) -> str:
    """The one sentence of a mistake; Lost where there are more, or none."""
    lines = [line for line in ended.err.splitlines() if " is not used by " not in line]
    if len(lines) != 1 or "Traceback" in ended.err:
        raise Lost(f"{what}: status {ended.code} and not one sentence: {ended.err or ended.out}")
    return lines[0]


class Counted:
    """Counts the tries of a row and what they lost; goes on after a loss, which it tells."""

    def __init__(self, part: str, folder: Path):
        self.part, self.folder, self.rows = part, folder, []

    @contextlib.contextmanager
    def row(self, what: str):
        row = Row(self.part, what)
        self.rows.append(row)
        yield row
        print(f"{self.part}: {what}: {row.times} times, {row.lost} lost", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def once(self, row: Row, times: int = 1):
        row.times += times
        try:
            yield
        except Lost as lost:
            row.lost += 1
            print(f"LOST {lost}", file=sys.stderr, flush=True)

    def new(self) -> Path:
        """An empty folder."""
        return Path(tempfile.mkdtemp(dir=self.folder))


def finished(words, folder) -> Ended:
    """A command line that must be done."""
    ended = run(words, folder)
    if ended.code:
        raise Lost(f"a run that is continued: {ended}")
    return ended


def alone(words: list[str], folder: Path) -> tuple[dict, float, int]:
    """What a run leaves that nobody disturbs, its seconds, and its number of changes to the disk."""
    prepare, begun = at_change(0, die), time.monotonic()
    ended = run(words, folder, prepare, lambda: (folder / "changes").write_text(str(next(prepare.place))))
    if ended.code:
        raise Lost(f"a run that nobody disturbed: {ended}")
    return kept(folder / "run"), time.monotonic() - begun, int((folder / "changes").read_text())


def damage(path: Path, how: str, choose: random.Random) -> None:
    """Cut a file short, empty it, flip one of its bits or remove it, keeping its time."""
    data, status = path.read_bytes(), path.stat()
    if how == "gone":
        return path.unlink()
    place = choose.randrange(len(data))
    if how == "cut":
        data = data[:place]
    elif how == "emptied":
        data = b""
    else:
        data = data[:place] + bytes([data[place] ^ 1 << choose.randrange(8)]) + data[place + 1 :]
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
