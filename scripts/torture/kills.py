"""SIGKILL and signals at any time."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import time

from harness import Child, Counted, Ended, Lost, alone, at_change, at_evaluation, die, finished, run, same

NETWORK = (
    "model=mlp model.hidden=[8] data=digits data.train_size=120 batch_size=20 lr=1e-4 chains=2 epochs=8 "
    "epochs_per_cycle=1 progress=false output=run"
).split()
RUNS = {
    "a network with exact ends": [*NETWORK, "sampler=ggmc", "sampler.ends=exact", "sampler.acceptance=metropolis"],
    "SGD start, tuned step size, estimated mass": [
        *[word for word in NETWORK if not word.startswith("batch_size")],
        *"batch_size=30 sampler=amagold init=sgd warm_start.epochs=4 warm_start.batch_size=10 burn_in=4".split(),
        *"tune.target=0.8 mass=estimate trace=2 trace_cycles=[2,7]".split(),
    ],
    "a toy, traced, thinned, of which the last draws are kept": (
        "model=banana model.noise=1 sampler=ggmc sampler.acceptance=metropolis step_size=0.1 chains=3 "
        "steps_per_cycle=4 cycles=400 burn_in=20 thin=3 keep=50 trace=1 trace_cycles=[5,100,399] log_every=7 "
        "save_every=9 compile=false progress=false output=run"
    ).split(),
    "a compiled toy": (
        "model=banana sampler=amagold step_size=0.1 chains=20 steps_per_cycle=3 cycles=3000 save_every=300 "
        "compile=true progress=false output=run"
    ).split(),
}


def kills(count: Counted, choose: random.Random, quick: bool) -> None:
    """SIGKILL at any time, inside every kind of write and evaluation; signals; each run continued to its end."""
    for name, words in RUNS.items():
        compiled = "compile=true" in words
        if quick and words[0] != "model=mlp":
            continue
        whole, seconds, changes = alone(words, count.new())
        if compiled:  # the others find its code on the disk, and are sooner through
            _, seconds, changes = alone(words, count.new())
        ways = ["time", "disk"] + ["potential", "gradient"] * (words[0] == "model=mlp")
        with count.row(f"SIGKILL: {name}") as row:
            wanted = 3 if quick else 5 if compiled else 32
            while row.times < wanted:
                folder, killed = count.new(), 0
                for _ in range(choose.randint(1, 6)):
                    way = choose.choice(ways)
                    child = killed_child(words, folder, way, choose, seconds, changes)
                    killed += child.code == -signal.SIGKILL
                    if child.code not in (0, -signal.SIGKILL):
                        raise Lost(f"{name}, killed: {child}")
                with count.once(row, killed):
                    same(folder / "run", whole, name, finished(words, folder))
                shutil.rmtree(folder)
        with count.row(f"SIGTERM, SIGUSR1, Ctrl-C: {name}") as row:
            wanted = 2 if quick or compiled else 12
            while row.times < wanted and not row.lost:
                folder, signalled = count.new(), 0
                with count.once(row, 0):
                    for _ in range(3):
                        number = choose.choice((signal.SIGTERM, signal.SIGUSR1, signal.SIGINT))
                        child = Child(words, folder)
                        time.sleep(0.05 + choose.random() * seconds)
                        with contextlib.suppress(ProcessLookupError):
                            child.kill(number)
                        ended = child.wait()
                        signalled += ended.code == 75
                        if ended.code not in (0, 75) or "Traceback" in ended.err:
                            raise Lost(f"{name}, {number.name}: {ended}")
                    same(folder / "run", whole, name, finished(words, folder))
                row.times += signalled
                shutil.rmtree(folder)


def killed_child(words, folder, way, choose, seconds, changes) -> Ended:
    """A run that is killed in one of the ``ways``, or ends before."""
    if way == "disk":
        return run(words, folder, at_change(choose.randint(1, changes), die))
    if way in ("potential", "gradient"):
        return run(words, folder, at_evaluation(choose.randint(1, 40), way))
    child = Child(words, folder)
    time.sleep(choose.random() * seconds)
    child.kill()
    return child.wait()
