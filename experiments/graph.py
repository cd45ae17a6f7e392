"""What the words behind ``jug execute jugfile.py`` ask for."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from tqdm import tqdm

from experiments import locks
from experiments.command_line import MISTAKES, sentence
from experiments.config import unused
from experiments.grid import configurations, sweep
from experiments.resolved import PRACTICAL, identity
from experiments.schema import options
from experiments.signals import signals_first
from experiments.tables import EXPERIMENTS
from experiments.tasks import ANNOUNCED, SCALES
from sgmcmc.errors import SettingError, nearest


def plan(argv: list[str]) -> list[tuple[str, str, list[dict], list[str]]]:
    """(experiment, scale, configurations, words) of each experiment asked for: all at paper scale where nothing is
    said. The words are those that make its chains others than the experiment's own.

    ``experiment=a,b`` chooses, ``scale=paper|quick|smoke``; ``seed=1`` (any setting of the command line, too) is put
    into every run. An unknown word is one sentence on standard error and exit status 2.
    """
    words = [word for word in argv[1:] if "=" in word and not word.startswith("-")]
    strays = [word for word in argv[1:] if "=" not in word and not word.startswith("-")]
    if strays:
        _refuse(f"{strays[0]}: is not KEY=VALUE; jug execute jugfile.py experiment=NAME scale=quick")
    said = dict(word.split("=", 1) for word in words)
    scale = said.pop("scale", "paper")
    if scale not in SCALES:
        _refuse(f"scale={scale}: must be one of {', '.join(SCALES)}")
    chosen = said.pop("experiment", None)
    names = list(EXPERIMENTS) if chosen is None else chosen.strip("[]").split(",")
    for name in names:
        if name not in EXPERIMENTS and name in options("experiment"):
            run = f"python run.py experiment={name} (with -m a grid) runs it"
            _refuse(f"experiment={name}: no table is named for it in experiments/tables; {run}")
        if name not in EXPERIMENTS:
            _refuse(f"experiment={name}: {nearest(name, EXPERIMENTS, 'known are ' + ', '.join(EXPERIMENTS))}")
    more = [f"{key}={value}" for key, value in said.items()]
    try:
        with signals_first():
            own = [word for word in sorted(more) if word.partition("=")[0] not in PRACTICAL]
            # Hydra takes half a minute for all of them: where somebody looks on, a bar that is gone at the end.
            bar = tqdm(names, "the experiments' configurations", leave=False, disable=None, delay=1)
            plans = [(name, scale, configurations(name, (f"scale={scale}", *more)), own) for name in bar]
            everything = [config for _, _, configs, _ in plans for config in configs]
            _refuse_one_folder(everything)
            if more:
                given = ["experiment=", f"scale={scale}", *more]  # whichever
                idle = set.intersection(*({*unused(config, given)} for config in everything))
                for word in more:
                    if word in idle:
                        print(f"{word} is not used by any of these chains", file=sys.stderr)
            return plans
    except MISTAKES as error:
        _refuse(sentence(error))


def _refuse_one_folder(configs: list[dict]) -> None:
    """Refuse an ``output`` that is that of several chains: the second would be told that it is the first one's."""
    said = [config["output"] for config in configs if config["output"]]
    if len({*said}) < len(said):
        mend = f"is one folder, and the grid has {len(configs)} chains: leave it out"
        raise SettingError("output", said[0], mend)


def check_folder(jugfile: str, store: str) -> None:
    """End with a sentence where Jug's store lies beside the jugfile and results would lie elsewhere, in the current
    folder: workers of several folders would share the tasks and not the chains. And where a worker could not write in
    the store (which others may read: `jug status`)."""
    home, beside = (os.path.realpath(os.path.dirname(os.path.abspath(file))) for file in (jugfile, store))
    if "://" not in store and beside == home != os.path.realpath(os.curdir):
        _refuse(f"{home} is the jugfile's folder, and results lie in the current one: start jug there")
    if "execute" in sys.orig_argv and (why := locks.shut(store)):
        _refuse(why)


def announce(experiment: str, scale: str, configs: list[dict], words: list[str]) -> None:
    """Have a worker say before each chain of an experiment which one it is, by the words that run.py takes for it."""
    common = [f"scale={scale}", *words]
    for number, (config, run) in enumerate(zip(configs, sweep(experiment, tuple(common)), strict=True), 1):
        said = " ".join((f"experiment={experiment}", *common, *run))
        ANNOUNCED[identity(config)] = f"chain {number} of {len(configs)}: {said}"


def _refuse(text: str) -> NoReturn:
    print(text, file=sys.stderr)
    raise SystemExit(2)
