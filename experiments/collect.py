"""A table of many runs: a row of each, with the settings in which they differ and the numbers that came out.

    python -m experiments.collect RUN [RUN …] [over=seed] [output=FILE.csv]

A RUN is a run's folder or one that holds run folders, such as results/runs/digits. Of chains with settings of their own
(step_size=[0.1,0.2]) each group has a row. ``over=seed`` joins the rows that differ in their seed alone: their mean,
its standard error (…_error) and how many there are (runs). ``output`` is a file for all columns; what is printed are
the settings and the numbers most looked at.

    accept_prob     the mean probability of acceptance after the burn-in (of what is only monitored: from where the
                    uncorrected chain is)
    log_accept      the mean of log MH over the second half
    ess, r_hat      of the slowest function of theta that was looked at (ess_of), of all of the group's chains; chains
                    have mixed where r_hat is below r_hat_limit
    ess_per_work    a gradient, a pass over the data, or an evaluation of U: see the column work
    others          of metrics.csv: ensembles as they are in the last row, the others their mean over the rows after the
                    burn-in (over all chains of a run, so none where groups have rows)

In Python ``experiments.collect.collect(["results/runs/digits"])`` is the same table as a pandas.DataFrame.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from experiments.command_line import guarded
from experiments.voice import say
from sgmcmc.errors import SettingError, StoreError
from sgmcmc.formats import read_status
from sgmcmc.loading import load_metrics

# What a row of metrics has of its own place and of one cycle's parts, which the mean over a run does not tell.
PLACES = ("cycle", "epoch", "step", "seconds", "steps_per_second", "alive", "not_finite", "accepted", "step_size")
PLACES += ("delta_potential", "delta_kinetic", "log_accept", "kinetic_inside", "steps_per_cycle")
NUMBERS = ("seconds", "accept_prob", "log_accept", "ess", "ess_per_second", "ess_per_work", "r_hat")
NUMBERS += ("test_accuracy", "test_ensemble_accuracy", "test_ensemble_nll")
COUNTS = ("cycles", "chains", "finite", "r_hat_limit", "r_hat_over", "still")  # which have no errors
NAMES = ("run", "state", "ess_of", "work")  # words beside the numbers, which are not what tells runs apart


def main(words: list[str] | None = None) -> int:
    """The command; returns its exit status (2 and one sentence for a mistake)."""
    words = sys.argv[1:] if words is None else words
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    return guarded(lambda: _main(words))


def _main(words: list[str]) -> int:
    runs, known = [], {"over": None, "output": None}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or Path(word).exists():
            runs.append(word)
        elif key in known:
            known[key] = value
        else:
            raise SettingError(key, value, f"is not known here; known are {', '.join(known)}")
    if known["over"] not in (None, "seed"):
        raise SettingError("over", known["over"], "must be seed, or left out")
    table = collect(runs)
    if known["over"]:
        table = over_seeds(table)
    if known["output"]:
        try:
            table.to_csv(known["output"], index=False)
        except OSError as error:
            raise SettingError("output", known["output"], f"cannot be written ({error.strerror})") from None
    numbers = [name for one in NUMBERS for name in (one, f"{one}_error") if name in table]
    if not known["over"]:  # of one run it is the error of its effective sample size
        numbers = [name for name in numbers if not name.endswith("_error")]
    shown = table[[*(name for name in ("run", "state", *table.attrs["settings"], "runs") if name in table), *numbers]]
    say(shown.to_string(index=False, float_format=lambda number: f"{number:.4g}", na_rep="-"))
    return 0


def collect(runs: Iterable[str | Path]) -> pd.DataFrame:
    """The table of the module's docstring, of run folders and folders of them; ``attrs["settings"]`` are the settings
    that differ.

    Raises SettingError where a folder is none, and StoreError for a run whose files are damaged.
    """
    rows, settings = [], []
    for folder in [found for run in runs for found in _folders(Path(run))]:
        status = read_status(folder)
        known = flat((status.get("identity") or {}).get("settings") or {})
        groups = status.get("groups") or [{}]
        common = {"run": str(folder), "state": status["state"], **_measured(folder, known, len(groups) > 1)}
        whole = ("cycles", "seconds", *(() if len(groups) > 1 else ("log_accept",)))
        common |= {name: status[name] for name in whole if name in status}
        for group in groups:
            said = group.get("settings", {})
            settings.append({**known, **said})
            rows.append({**common, **{key: value for key, value in group.items() if key != "settings"}})
    if not rows:
        raise SettingError("RUN", "nothing", "give the folders of one or more runs")
    given = pd.DataFrame([{key: _cell(value) for key, value in one.items()} for one in settings])
    differ = [name for name in given if given[name].nunique(dropna=False) > 1]
    table = pd.DataFrame(rows)
    table = table.rename(columns={"step_size": "tuned_step_size"})  # beside the one given
    front = list(NAMES[:2])
    others = table.drop(columns=[*front, "chains"] if "chains" in differ else front)
    table = pd.concat([table[front], given[differ], others], axis=1)
    if differ:
        table = table.sort_values(differ, key=_ordered, kind="stable", ignore_index=True)
    table.attrs["settings"] = differ
    return table


def over_seeds(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``collect`` that differ in their seed alone as one: means, their standard errors ``…_error`` (NaN of
    one run), and how many ``runs`` there are.

    What a run's own error of ``ess`` was is left out. Runs that are not done are refused, by SettingError: the mean
    would be of other lengths.
    """
    left = table[table.state != "done"]
    if len(left):
        raise SettingError("over", "seed", f"{left.run.iloc[0]} is {left.state.iloc[0]}: only what is done is joined")
    keys = [name for name in table.attrs["settings"] if name != "seed"]
    values = table.drop(columns=[*NAMES, "seed", "ess_error"], errors="ignore")
    numbers = [name for name in values if name not in keys]
    parts = values.groupby(keys, dropna=False, sort=False) if keys else [((), values)]
    rows = []
    for key, part in parts:
        row = dict(zip(keys, key if isinstance(key, tuple) else (key,), strict=True)) | {"runs": len(part)}
        for name in numbers:
            row[name] = part[name].mean()
            if name not in COUNTS:
                row[f"{name}_error"] = part[name].sem()
        rows.append(row)
    joined = pd.DataFrame(rows)
    joined.attrs["settings"] = keys
    return joined


def flat(settings: dict, above: str = "") -> dict:
    """Settings with dotted names."""
    dotted: dict = {}
    for key, value in settings.items():
        dotted |= flat(value, f"{above}{key}.") if isinstance(value, dict) else {f"{above}{key}": value}
    return dotted


def _cell(value):
    return str(value) if isinstance(value, list) else value


def _ordered(column: pd.Series) -> pd.Series:
    return column if pd.api.types.is_numeric_dtype(column) else column.astype(str)


def _folders(path: Path) -> list[Path]:
    """The path, if it is a run's folder, or the run folders in it, in the order of their names."""
    if (path / "status.json").is_file():
        return [path]
    inside = sorted(one.parent for one in path.glob("*/status.json"))
    if not inside:
        raise SettingError("RUN", path, "is not a run folder, nor one of run folders: there is no status.json")
    return inside


def _measured(folder: Path, settings: dict, grouped: bool) -> dict:
    """What ``metrics.csv`` tells of a run, but of its ``grouped`` chains."""
    try:
        metrics = pd.DataFrame(load_metrics(folder))
    except StoreError:
        if (folder / "metrics.csv").exists():
            raise
        return {}  # it was left before its first row
    late = metrics[metrics.cycle > settings.get("burn_in", 0)]
    if grouped or late.empty:
        return {}
    columns = [name for name in metrics if name not in PLACES]
    return {name: late[name].iloc[-1] if "_ensemble_" in name else late[name].mean() for name in columns}


if __name__ == "__main__":
    sys.exit(main())
