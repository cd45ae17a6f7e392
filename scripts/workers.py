"""Start one `jug execute` a device, restart those that die, and say whether all is done.

    python scripts/workers.py --cpus 8 scale=quick
    python scripts/workers.py --gpus 0,1,2,3 experiment=ggmc_fig1

The words behind are jug's: experiment=, scale=, any setting of run.py. A worker that is killed leaves the lock of its
task behind; it is freed here, because the process that the lock names is gone, and the task is taken up again from the
chain's last checkpoint. One that ended because a disk is full or does not answer is given time before: two seconds,
four, and so on to a minute. SIGTERM, SIGUSR1, SIGHUP (of a terminal that is closed) and Ctrl-C are passed on: the
workers write their checkpoints and leave, with status 75. `python scripts/workers.py --free` only frees the locks of
dead processes of this machine; a worker that is started then takes up their tasks, at which one that found them locked
does not look again.

Exit status: 0 all done, 1 not all (the sentence says why), 2 a mistake in the words, 75 interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GPU = r"(\d+|(GPU|MIG)-[\w/-]+)"  # a number, or the name of a GPU or of a part of one, which SLURM may give instead
sys.path.insert(0, str(ROOT))

from experiments import locks  # noqa: E402
from sgmcmc.interrupt import ending  # noqa: E402
from sgmcmc.streams import settle  # noqa: E402


def main(argv: list[str] | None = None) -> int:
    """Run the workers to their end; returns the exit status."""
    options, words = arguments(argv)
    if options.free:
        freed, why = free(options.jugdir)
        again = ": start another worker, those that wait do not look at a task again" if freed else ""
        print(why or f"freed {freed} lock{'s' * (freed != 1)} of dead processes{again}")
        return 1 if why else 0
    devices = options.gpus.split(",") if options.gpus else [None] * options.cpus
    jug = [sys.executable, "-c", "from jug.jug import main; main()"]
    common = ["jugfile.py", *words, "--jugdir", options.jugdir]
    command = [*jug, "execute", *common, "--will-cite"]
    # An error in one chain leaves the others. What needs a chain is waited for two minutes, not thirty, which after an
    # error is in vain: otherwise the worker that ends the chain goes on with it.
    command += ["--keep-going", "--wait-cycle-time", "5", "--nr-wait-cycles", "24"]
    arrived: list[int] = []
    for number in (*ending(), signal.SIGINT):
        signal.signal(number, lambda number, _: arrived.append(number))
    free(options.jugdir)
    workers: dict[int, subprocess.Popen] = {}
    failed: set[int] = set()  # those that ended with an error of a chain
    restarts = dict.fromkeys(range(len(devices)), 0)
    waiting = dict.fromkeys(restarts, 0.0)  # when each is to be started
    print(f"{len(devices)} worker{'s' * (len(devices) > 1)}: jug execute {' '.join(common)}", flush=True)
    while True:
        ended = []
        while (workers or waiting) and not arrived and not ended:
            for place in [place for place, when in waiting.items() if when <= time.monotonic()]:
                workers[place] = subprocess.Popen(command, cwd=options.folder, env=environment(devices[place]))
                del waiting[place]
            time.sleep(0.2)
            ended = [place for place, worker in workers.items() if worker.poll() is not None]
        if arrived:
            return leave(workers)
        for place in ended:
            code = workers.pop(place).returncode
            if code == 2:
                leave(workers)
                return 2
            if code == 0:
                continue
            freed, why = free(options.jugdir)
            print(f"worker {place} {died(code)}; {why or f'{freed} of its locks freed'}", file=sys.stderr, flush=True)
            # What is said of a disk, or of a folder that another writes, may be over in a minute.
            passing = code == 75 or bool(why)
            number, erred = restarts[place], code == 1 and not passing
            # An error of a chain: it has done what it could, and what fails a second time would fail a tenth time.
            if number >= options.restarts or erred and place in failed:
                after = f"{number} restart{'s' * (number != 1)}"
                print(f"worker {place} is not started again after {after}", file=sys.stderr)
                continue
            if erred:
                failed.add(place)
            restarts[place] += 1
            waiting[place] = time.monotonic() + (min(2.0 ** restarts[place], 60) if passing else 0)
        if workers or waiting:
            continue
        check = subprocess.run([*jug, "check", *common], cwd=options.folder, env=environment(None))
        if arrived:
            return leave(workers)
        if check.returncode == 0:
            print("all done")
            return 0
        # A worker that finds the last tasks locked leaves; whose locks they were may have died since.
        if free(options.jugdir)[0] and restarts[0] < options.restarts:
            restarts[0] += 1
            waiting = {0: 0.0}
            continue
        print(
            "not all is done: other machines' workers hold what is left, or it failed (`make status` shows which). "
            f"Locks that a dead machine left: `jug cleanup jugfile.py --locks-only --jugdir {options.jugdir}` when no "
            "worker runs anywhere",
            file=sys.stderr,
        )
        return 1


def arguments(argv):
    """Our options, and the words for jug."""
    parser = argparse.ArgumentParser(
        prog="workers.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    store = locks.usual()
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--cpus", type=int, metavar="N", help="N workers, one thread each [the machine's cores]")
    which.add_argument("--gpus", metavar="0,1", help="one worker on each of these CUDA devices")
    parser.add_argument("--restarts", type=int, default=10, metavar="N", help="restarts of each worker [10]")
    parser.add_argument(
        "--jugdir", default=store, help=f"jug's store, a folder or redis://host:port [{store}]".replace("%", "%%")
    )
    parser.add_argument("--folder", default=ROOT, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--free", action="store_true", help="only free the locks of dead processes of this machine")
    options, words = parser.parse_known_args(argv)
    strays = [word for word in words if "=" not in word]
    if strays:
        parser.error(f"{strays[0]}: is neither an option nor KEY=VALUE")
    if options.cpus is None:
        options.cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if options.cpus < 1:
        parser.error(f"--cpus {options.cpus}: must be at least 1")
    if options.gpus is not None and not re.fullmatch(rf"{GPU}(,{GPU})*", options.gpus):
        parser.error(f"--gpus {options.gpus}: must be numbers, such as 0,1,2, or names as in CUDA_VISIBLE_DEVICES")
    if options.gpus and (found := cuda_devices(options.gpus)) < len(options.gpus.split(",")):
        parser.error(f"--gpus {options.gpus}: torch finds {found} of these CUDA devices here; or take --cpus")
    if "://" not in options.jugdir:
        options.jugdir = os.path.abspath(options.folder / options.jugdir)
    if why := locks.unusable(options.jugdir):
        parser.error(why)
    return options, words


def cuda_devices(gpus: str) -> int:
    """How many of the GPUs a worker would find. Of parts of GPUs (MIG) a process finds one, so each is asked for."""
    command, found = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"], 0
    for some in gpus.split(",") if "MIG-" in gpus else [gpus]:
        asked = subprocess.run(command, env=environment(some), capture_output=True, text=True)
        found += int(asked.stdout or 0)
    return found


def environment(gpu: str | None) -> dict[str, str]:
    """The environment of a worker: one thread, and its GPU if it has one."""
    mine = dict(os.environ)
    mine["OMP_NUM_THREADS"] = mine.get("OMP_NUM_THREADS") or "1"  # empty: of a variable that was not set
    if gpu is not None:
        mine["CUDA_VISIBLE_DEVICES"] = gpu
    return mine


def leave(workers: dict) -> int:
    """Ask the workers to write their checkpoints and leave, and wait for them."""
    for worker in workers.values():
        worker.send_signal(signal.SIGTERM)
    for worker in workers.values():
        worker.wait()
    return 75


def free(store: str) -> tuple[int, str]:
    """Free the locks of dead processes: how many, or in words why the store could not be read."""
    try:
        return locks.free(store), ""
    except OSError as error:
        return 0, f"{store}: {error.strerror or error}"


def died(code: int) -> str:
    """How a worker ended, in words."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


if __name__ == "__main__":
    settle()
    sys.exit(main())
