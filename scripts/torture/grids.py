"""Grids: workers that die, chains that fail, several processes in one folder."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from files import SMALL
from harness import LONG, ROOT, Child, Counted, Lost, alone, kept, same, sentence
from kills import NETWORK, RUNS

CHAIN = [word for word in NETWORK if not word.startswith(("epochs=", "output"))]
CHAINS = [[*CHAIN, "sampler=ggmc", "epochs=40", f"seed={seed}"] for seed in range(3)]
CHAINS += [[*[word for word in SMALL if word != "output=run"], f"seed={seed}"] for seed in range(5)]
JUGFILE = """
from experiments.signals import leave_on_signals

leave_on_signals()

from jug import TaskGenerator
from experiments import tasks
from experiments.config import compose

segment = TaskGenerator(tasks.segment)
chains = []
for words in {chains!r}:
    config, end = compose(words), None
    for cycles in tasks.lengths(config):
        end = segment(config, cycles, end)
    chains.append(("torture", "smoke", config, end))
"""
JUG = [sys.executable, "-c", "from jug.jug import main; main()"]
TARGETS = """
import torch


class Bowl:
    dim, data_size, calls = 2, 0, 0

    def __init__(self, way="", dtype=None):
        self.way = way

    def potential(self, theta):
        Bowl.calls += 1
        value = (theta.double() ** 2).sum(-1) / 2
        if self.way == "raises" and Bowl.calls > 15:  # within a run that has begun
            raise RuntimeError("this was once too often")
        if self.way == "nan":
            return value * float("nan")
        if self.way == "sometimes_nan":
            return torch.where(value > 1, float("nan"), value)
        return value / 0 if self.way == "inf" else value

    def gradient(self, theta, batch=None):
        return theta * float("nan") if self.way == "nan_gradient" else theta

    def initial(self, chains, random):
        return random.normal("start", 0, 1, chains, 2)[0].double()
"""


def grid(folder: Path, chains: list[list[str]]) -> Path:
    """A folder that looks like the repository, with a jugfile of its own."""
    for name in ("conf", "experiments", "sgmcmc", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "jugfile.py").write_text(JUGFILE.format(chains=chains))
    (folder / "targets.py").write_text(TARGETS)
    return folder


def jug(folder: Path, *words: str, **more) -> subprocess.Popen:
    """A jug command in a grid's folder."""
    waits = ["--wait-cycle-time", "0.5", "--nr-wait-cycles", "1"] if words[0] == "execute" else []
    return subprocess.Popen(
        [*JUG, words[0], "jugfile.py", *words[1:], *waits],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **more,
    )


def workers(folder: Path, *words: str) -> subprocess.Popen:
    """scripts/workers.py on a grid's folder; what it says goes to a file there."""
    command = [sys.executable, str(ROOT / "scripts" / "workers.py"), "--folder", str(folder), *words]
    with (folder / "workers.log").open("a") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)


def ends(folder: Path, chains: list[list[str]]) -> list[dict]:
    """What the chains of a grid left."""
    from experiments.config import compose
    from experiments.resolved import folder as place

    return [kept(folder / place(compose(words))) for words in chains]


def children(process: subprocess.Popen) -> list[int]:
    """The workers that scripts/workers.py has started and that live."""
    found = []
    with contextlib.suppress(OSError):
        for one in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            if b"execute" in Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0"):
                found.append(int(one))
    return found


def locks(folder: Path) -> list[str]:
    return [path.read_text() for path in (folder / "jugfile.jugdata" / "locks").glob("*.lock") if path.exists()]


def log_of(folder: Path) -> str:
    return f"{folder}\n{(folder / 'workers.log').read_text()[-3000:]}"


def grids(count: Counted, choose: random.Random, quick: bool) -> None:
    """Workers that are killed and signalled; two in one folder; chains that diverge and fail; a Redis store."""
    one = grid(count.new(), CHAINS)
    process = jug(one, "execute")
    said = process.communicate(timeout=LONG)[0]
    if process.returncode:
        raise Lost(f"one worker: {one} {said}")
    whole = ends(one, CHAINS)
    for number in (2,) if quick else (2, 8):
        with count.row(f"SIGKILL to one of {number} workers of a grid of {len(CHAINS)} chains") as row:
            kill_workers(count, row, choose, number, 2 if quick else 6, whole)
    with count.row("a worker dies holding a lock: the others finish the rest, --free lets its task be done") as row:
        for _ in range(1 if quick else 3):
            with count.once(row):
                holding_a_lock(count.new(), whole)
    with count.row("SIGTERM, SIGUSR1 to a worker at any time: no lock stays") as row:
        for _ in range(2 if quick else 6):
            with count.once(row):
                signal_a_worker(count.new(), choose, whole)
    with count.row("several commands start the same run at once: one writes, the others say so") as row:
        words = RUNS["a network with exact ends"]
        whole_run = alone(words, count.new())[0]
        for _ in range(2 if quick else 6):
            folder = count.new()
            with count.once(row):
                for ended in [child.wait() for child in [Child(words, folder) for _ in range(4)]]:
                    if ended.code and (ended.code != 2 or "is being written by" not in sentence(ended, "busy")):
                        raise Lost(f"four at once: {folder} {ended}")
                same(folder / "run", whole_run, "four at once")
    with count.row("chains that diverge, fail and raise errors: the others are done") as row, count.once(row):
        failing(count.new())
    with count.row("SIGKILL to a worker of a grid in a Redis store, locks cleaned up, continued") as row:
        if shutil.which("redis-server") is None:
            row.what += " (skipped: no redis-server)"
        else:
            for _ in range(0 if quick else 1):
                with count.once(row):
                    through_redis(count.new(), whole)


def kill_workers(count, row, choose, number, wanted, whole) -> None:
    while row.times < wanted and not row.lost:
        folder = grid(count.new(), CHAINS)
        process, killed = workers(folder, "--cpus", str(number), "--restarts", "100"), 0
        until = time.monotonic() + LONG
        while process.poll() is None and killed < wanted and time.monotonic() < until:
            time.sleep(choose.uniform(0.2, 2.5))
            # Most are killed while they hold a lock: before they have one there is nothing to lose.
            holding = [int(text.split()[1]) for text in locks(folder) if text.startswith("PID")]
            alive = children(process)
            victims = [one for one in alive if one in holding] or alive[: choose.random() < 0.1]
            if victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(choose.choice(victims), signal.SIGKILL)
                    killed += 1
        with count.once(row, killed):
            done_once(process, folder, whole)


def done_once(process: subprocess.Popen, folder: Path, whole: list[dict]) -> None:
    """The workers finish the grid, every task has one result, and the chains are those of one worker."""
    try:
        code = process.wait(timeout=LONG)
    except subprocess.TimeoutExpired:
        process.terminate()
        raise Lost(f"the workers do not end: {log_of(folder)}") from None
    if code:
        raise Lost(f"the workers end with status {code}: {log_of(folder)}")
    if ends(folder, CHAINS) != whole:
        raise Lost(f"the chains are not those of one worker: {folder}")


def holding_a_lock(folder: Path, whole) -> None:
    grid(folder, CHAINS)
    (folder / "workers.log").touch()
    first = jug(folder, "execute")
    until = time.monotonic() + LONG
    while not any(text.startswith(f"PID {first.pid} ") for text in locks(folder)) and time.monotonic() < until:
        time.sleep(0.01)
    first.kill()
    first.communicate()
    second = jug(folder, "execute")
    said = second.communicate(timeout=LONG)[0]
    if second.returncode or len(locks(folder)) != 1:
        raise Lost(f"the other worker: {folder} {said}")
    free = workers(folder, "--free")
    if free.wait() or "freed 1 " not in log_of(folder) or locks(folder):
        raise Lost(f"--free: {log_of(folder)}")
    done_once(jug(folder, "execute"), folder, whole)
    done_once(jug(folder, "check"), folder, whole)


def signal_a_worker(folder: Path, choose, whole) -> None:
    grid(folder, CHAINS)
    (folder / "workers.log").touch()
    for _ in range(2):
        process, number = jug(folder, "execute"), choose.choice((signal.SIGTERM, signal.SIGUSR1))
        time.sleep(choose.uniform(1, 9))
        process.send_signal(number)
        said = process.communicate(timeout=LONG)[0]
        begun = (folder / "jugfile.jugdata" / "locks").exists()
        if locks(folder) or "Traceback" in said or begun and process.returncode not in (0, 75):
            raise Lost(f"{number.name} to a worker: status {process.returncode}, {locks(folder)}: {folder} {said}")
    done_once(jug(folder, "execute"), folder, whole)


def failing(folder: Path) -> None:
    """A grid with chains that diverge, cannot work, and raise errors between those that are fine."""
    from experiments.config import compose
    from experiments.resolved import folder as place
    from sgmcmc.formats import read_status

    own = "model._target_=targets.Bowl sampler=hmc step_size=0.1 cycles=20 progress=false".split()
    fine = [CHAINS[0], CHAINS[4], own]
    chains = [
        [*own, "model.way=raises"],
        "model=quartic sampler=ggmc step_size=100 cycles=40 progress=false".split(),
        fine[0],
        [*[word for word in CHAINS[1] if not word.startswith("batch_size")], "batch_size=77"],
        fine[1],
        [*own, "model.way=nan"],
        fine[2],
    ]
    grid(folder, chains)
    code = workers(folder, "--cpus", "2", "--restarts", "1").wait(timeout=LONG)
    said = log_of(folder)
    if code != 1 or "this was once too often" not in said:
        raise Lost(f"a failing chain: status {code}: {said}")
    for words in fine:
        kept(folder / place(compose(words)))
    states = [read_status(folder / place(compose(chains[number])))["state"] for number in (0, 1, 5)]
    if states != ["failed", "diverged", "done"] or locks(folder):
        raise Lost(f"failing chains stand as {states}: {said}")


def through_redis(folder: Path, whole) -> None:
    grid(folder, CHAINS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = f"redis://127.0.0.1:{port}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--appendonly", "no"], **quiet)
    try:
        time.sleep(1)
        process = workers(folder, "--cpus", "2", "--jugdir", store, "--restarts", "3")
        until = time.monotonic() + LONG
        while not list(folder.glob("results/runs/*/*/checkpoint-1.pt")) and time.monotonic() < until:
            time.sleep(0.05)
        for worker in children(process):
            os.kill(worker, signal.SIGKILL)
        time.sleep(10)
        process.terminate()  # the new workers wait for what is locked: here nobody can tell that its owner is dead
        process.wait(timeout=LONG)
        if jug(folder, "cleanup", "--locks-only", "--jugdir", store).wait(timeout=LONG):
            raise Lost(f"jug cleanup: {log_of(folder)}")
        done_once(workers(folder, "--cpus", "2", "--jugdir", store), folder, whole)
    finally:
        server.kill()
        server.wait()
