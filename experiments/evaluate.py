"""Predict again with stored samples, on the run's own test set or on other data.

    python -m experiments.evaluate RUN [RUN …] [data=NAME] [data.root=FOLDER] [noise=S] [translate=P] [draws=200]
        [device=cpu] [output=FILE.csv]

Several run folders of one configuration (its seeds) are joined as chains; if their lengths differ, each gives as many
of its first draws as the shortest has. ``data`` is the run's test set by default (its training set where it has no
other), or any data set of the same shape. No labels of another set are compared: ``data=notmnist`` is out of
distribution for a network of MNIST. For a network of digits, images of 28 x 28 are made 8 x 8 as the digits were.
``noise`` and ``translate`` shift the data: the first adds normal noise of that standard deviation to the normalised
inputs (to columns as the regression standardises them), the second moves images that many pixels down and to the right.
At most ``draws`` of each chain are used, evenly spaced. Predictions are computed on ``device`` (``auto``, ``cpu``,
``cuda`` or ``cuda:1``).

It prints the quality of single samples, of each chain's ensemble and of the joint one (accuracy, NLL, Brier score,
expected calibration error, mean predictive entropy). It also prints R-hat and effective sample size in function space,
where weights that mean the same network agree: those of each datum's log-odds of its label or, without labels, of its
predictive entropy. Each group of chains with settings of their own (lr=[1e-3,1e-4]) is evaluated by itself, and is a
row of ``output``. Chains that diverged are left out where others of their group did not, and runs all of whose chains
did where others did not.
"""

from __future__ import annotations

import csv
import math
import sys
from contextlib import suppress
from pathlib import Path

import torch
from tqdm import tqdm

from experiments.build import foreign, reopened, settings_of
from experiments.command_line import runs_and_options, script
from experiments.outcome import grouped
from experiments.resolved import is_own
from experiments.voice import NO_SIZE, counted, say
from sgmcmc import disk
from sgmcmc.arguments import find_device
from sgmcmc.chain import DIVERGED, FAILED, RUNNING, frozen_in
from sgmcmc.data import Data, Dataset, load
from sgmcmc.environment import one_thread
from sgmcmc.errors import SettingError
from sgmcmc.evaluate import evaluate, shifted
from sgmcmc.formats import READABLE, read_status
from sgmcmc.loading import check_alike, load_samples
from sgmcmc.sampling import of_chains


def main(words: list[str] | None = None) -> int:
    """The command; returns its exit status (2 and one sentence for a mistake)."""
    return script(__doc__, _main, words)


def _main(words: list[str]) -> int:
    defaults = {"data": None, "data.root": None, "noise": "0", "translate": "0", "output": None, "device": "cpu"}
    folders, known = runs_and_options(words, {**defaults, "draws": "200"})
    _check_folders(folders)
    check_alike(folders)
    one_thread()
    statuses = {folder: _status(folder) for folder in folders}
    gone = [folder for folder in folders if statuses[folder].get("state") == DIVERGED]
    if gone and len(gone) < len(folders):  # its few draws would be as many as are used of the others
        say(f"diverged, and left out: {', '.join(map(str, gone))}")
        folders = [folder for folder in folders if folder not in gone]
    settings, device = settings_of(folders[0], known["data.root"]), find_device(known["device"])
    given = settings["data"]
    potential, own = reopened(folders[0], device, given["root"])
    for folder in folders[1:] if is_own(settings) else ():
        reopened(folder, device, given["root"])  # refuses a class that was edited since
    if own.train is None or not callable(getattr(potential, "predict", None)):
        raise SettingError("RUN", folders[0], "its target has no data that it predicts")
    name = given["name"] if known["data"] is None else known["data"]
    elsewhere = name != given["name"]
    data, which = _data(name, elsewhere, given["root"], own)
    name = "its own" if name == "none" else name
    amounts = _number("noise", known["noise"]), _number("translate", known["translate"], 0)
    data = shifted(data.to(device), *amounts, scale=getattr(potential, "column_scale", 1.0))
    draws, counts = _draws(folders, known["draws"])
    draws = draws.to(device)
    diverged = _diverged({folder: statuses[folder] for folder in folders}, counts)
    moved = "".join(f", {setting}={amount}" for setting, amount in _shift(known).items() if float(amount))
    of = f"{counted(len(draws), 'draw')} of {counted(draws.shape[1], 'chain')}"
    unlabelled = ", whose labels are not compared with those that it was trained on" if elsewhere else ""
    say(f"{of} on the {len(data)} {which} data of {name}{moved}{unlabelled}")
    rows = []
    with tqdm(total=draws.shape[0] * draws.shape[1], leave=False, disable=None) as bar:
        for shared, chains in _groups(settings, counts):
            alike = ", ".join(f"{setting}={value:g}" for setting, value in shared.items())
            gone = [chain for chain in chains if chain in diverged]
            if gone:
                left = "and stand still where they were last finite" if gone == chains else "and are left out"
                of = of_chains(gone, draws.shape[1])
                say(f"{alike}{': ' if shared else ''}{of} diverged, {left}", bar)
            if gone != chains:
                chains = [chain for chain in chains if chain not in diverged]
            quality = evaluate(potential, draws[:, chains], data, labelled=not elsewhere, tell=bar.update)
            rows.append({"data": name, **_shift(known), **shared, **quality})
            if shared:
                say(f"{alike}: {counted(len(chains), 'chain')}", bar)
            # What one chain cannot tell is left out.
            say("\n".join(f"  {key:22} {value:.6g}" for key, value in quality.items() if value == value), bar)
            if math.isnan(quality["ess_min"]):
                say(f"  {NO_SIZE}", bar)
    if known["output"] is not None:
        _write(known["output"], rows)
    return 0


def _check_folders(folders: list[str]) -> None:
    """Refuse no folders at all, and one that is no run's."""
    if not folders:
        raise SettingError("RUN", "nothing", "give the folders of one or more runs")
    for folder in map(Path, folders):
        with disk.told(folder, READABLE):
            if (folder / "config.yaml").is_file():
                continue
            mend = "is not a run folder: it has no config.yaml" if folder.exists() else "there is no such folder"
            if inside := sorted(path.parent for path in folder.rglob("config.yaml")):
                mend = f"holds runs and is none: name those whose chains are to be joined, such as {inside[0]}"
            raise SettingError("RUN", folder, mend)


def _data(name: str, elsewhere: bool, root: str, own: Data) -> tuple[Dataset, str]:
    """What is predicted, and which part it is of the set ``name``, the run's ``own`` or one from ``elsewhere``."""
    try:
        sets = load(name, root) if elsewhere else own
    except SettingError as error:
        raise SettingError("data", name, error.mend) from None
    data, which = (sets.test, "test") if sets.test else (sets.train, "training")
    return foreign("data", name, data, own.train) if elsewhere else data, which


def _draws(folders: list[str], most: str) -> tuple[torch.Tensor, list[int]]:
    """At most so many draws of the runs' chains, evenly spaced, and how many chains each run has."""
    runs = [load_samples(folder) for folder in folders]
    least = min(map(len, runs))
    if any(len(run) > least for run in runs):
        print(f"the runs are of different lengths: the first {least} draws of each are used", file=sys.stderr)
    every = max(1, -(-least // _number("draws", most, 1)))
    return torch.cat([run[:least] for run in runs], 1)[every - 1 :: every], [run.shape[1] for run in runs]


def _write(path: str, rows: list[dict]) -> None:
    """Write the rows as csv; SettingError where that cannot be."""
    try:
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise SettingError("output", path, f"cannot be written ({error.strerror})") from None


def _groups(settings: dict, counts: list[int]) -> list[tuple[dict, list[int]]]:
    """Of runs of so many chains, joined one after another, the chains that have the same settings of their own."""
    found, first = {}, 0
    for count in counts:
        for own, chains in grouped(settings, count):
            found.setdefault(tuple(own.items()), []).extend(first + chain for chain in chains)
        first += count
    return [(dict(own), chains) for own, chains in found.items()]


def _diverged(statuses: dict[str, dict], counts: list[int]) -> set[int]:
    """Of runs, by their folders, of so many chains, joined one after another, the chains that have diverged."""
    found, first = set(), 0
    for (folder, status), count in zip(statuses.items(), counts, strict=True):
        # The status of a run that has not ended, or goes on, tells nothing, or what was so at the end before.
        with disk.told(Path(folder), READABLE):
            frozen = frozen_in(folder) if status.get("state") in (RUNNING, FAILED) else status.get("frozen") or ()
        found |= {first + chain for chain in frozen}
        first += count
    return found


def _status(folder: str) -> dict:
    return read_status(folder) if (Path(folder) / "status.json").is_file() else {}


def _shift(known: dict) -> dict:
    return {key: known[key] for key in ("noise", "translate")}


def _number(setting: str, text: str, least: int | None = None) -> float:
    """What a word says: a finite number that is not negative, or a whole one, ``least`` or more (1e3 is one)."""
    need = "must be a number, finite and not negative"
    with suppress(ValueError):
        value = float(text)
        if least is None and 0 <= value < math.inf:
            return value
        if least is not None and value >= least and value.is_integer():
            return int(value)
    raise SettingError(setting, text, need if least is None else f"must be a whole number, at least {least}")


if __name__ == "__main__":
    sys.exit(main())
