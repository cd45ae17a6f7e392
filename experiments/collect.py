"""A table of many runs: a row of each, with the settings in which they differ and the numbers that came out.

    python -m experiments.collect RUN [RUN …] [over=seed] [output=FILE.csv]

A RUN is a run's folder or one that holds run folders, such as results/runs/digits. Chains with settings of their own
(step_size=[0.1,0.2]) have a row for each group. ``over=seed`` joins the rows that differ in their seed alone, and gives
means over the runs and their standard errors; a run that diverged is counted, but is in no mean. ``output`` is a file
for all columns; printed are the settings and the numbers most looked at.

    accept_prob      the mean probability of acceptance after the burn-in. Where sampler.acceptance is monitor, that of
                     proposals from where the uncorrected chain is. Of several chains with its standard error, which
                     they tell by how they differ
    log_accept       the mean of log MH, of proposals that are finite, of the rows that lie in the second half of the
                     cycles, by the rows' cycles (or of the last row; where the burn-in is longer, of its end, too)
    ess ± …          effective sample size of all chains of the row, with its own standard error, for the slowest of the
                     functions of theta that were looked at (ess_of): as many independent draws know its mean as well
                     (ArviZ's ess of method="mean"; r_hat is by ranks). There is none for chains that hardly ever move,
                     interrupted runs, lists of more than 24 values, and runs that an earlier version looked at, whose
                     numbers had another meaning (the run's own command looks again). With over=seed: the mean over the
                     runs, each taken by itself, and the error of that mean (to join seeds as chains:
                     sgmcmc.load_samples([…]))
    ess_per_second   ess by the run's seconds, burn-in included; a group is given the seconds in proportion to its
                     chains. Where only a part of the draws is looked at (keep=100, or half of the rows of U), as if
                     ess were of all of them; none where a part of less than .4 is worth less than 10 a chain. Compare
                     it only between runs on like machines, compiled alike (status.json tells)
    ess_per_work     the same by what the chains evaluated, burn-in included: gradients, passes over the data or
                     evaluations of U (the column work says which)
    r_hat            the largest over the functions that were looked at, from r_hat_over of the row's chains, which have
                     mixed if it is below r_hat_limit (with over=seed: the mean over the runs)
    still            how many coordinates never moved; they are in no ess, and r_hat is infinite where they are at
                     other places in other chains
    cycles_done      of an interrupted run, whose other numbers are of these cycles
    tuned_step_size  what tuning found in the burn-in, for trajectories of tuned_steps; step_size is where it began, and
                     both are of the first stair of schedule=stairs
    finite           how many of the row's chains (chains_of_row) did not diverge: accept_prob, ess and r_hat are theirs
    seconds          what the cycles of the whole run took, be the row of a group of its chains: not what went before
                     them (data, compiling, SGD) or between them (predictions, writing)
    others           columns of metrics.csv: ensembles as in the last row, the others their mean over the rows after the
                     burn-in, by the rows' cycles. These and log_accept are over all chains of a run, so rows of groups
                     have none; to have them, make a run for each value (-m step_size=0.1,0.2), or predict:
                     experiments.evaluate

Runs that are going on, were killed (as far as this machine can know) or have failed, and those of ``sgmcmc.sample``,
show their settings alone. A mean is left out where a run lacks the number.

In Python ``experiments.collect.collect(["results/runs/digits"], over="seed")`` is the same table as a pandas.DataFrame.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from experiments.command_line import runs_and_options, script
from experiments.dotted import flatten
from experiments.outcome import TOLD, grouped
from experiments.voice import counted, say
from sgmcmc import disk
from sgmcmc.errors import SettingError
from sgmcmc.formats import READABLE, read_status
from sgmcmc.store import killed

# Printed, as far as they are there.
NUMBERS = ("tuned_step_size", "tuned_steps", "accept_prob", "log_accept", "ess", "ess_per_second", "ess_per_work")
NUMBERS += ("r_hat", "test_accuracy", "test_nll", "test_ensemble_accuracy", "test_ensemble_nll", "seconds")
ERRORS = ("accept_prob_error", "ess_error")  # of one run
COUNTS = ("cycles_done", "chains_of_row", "finite", "r_hat_limit", "r_hat_over", "still")  # which have no errors
WORDS = ("ess_of", "work", "acceptance")  # beside numbers
ENDED = ("done", "diverged", "interrupted")  # states in which a status tells what came out
# What sampler= chooses besides its name: not printed where it tells no more than the name does, as model.… and data.….
POLICIES = ("sampler.word", "sampler.refresh", "sampler.gradient", "sampler.ends", "sampler.minibatches")


def main(words: list[str] | None = None) -> int:
    """The command; returns its exit status (2 and one sentence for a mistake)."""
    return script(__doc__, _main, words)


def _main(words: list[str]) -> int:
    runs, known = runs_and_options(words, {"over": None, "output": None})
    table = collect(runs, known["over"])
    if known["output"] is not None:
        try:
            table.to_csv(known["output"], index=False, errors="replace")  # a path may have bytes that are no letters
        except OSError as error:
            raise SettingError("output", known["output"], f"cannot be written ({error.strerror or error})") from None
    say(_shown(table).to_string(index=False, float_format=lambda number: f"{number:.4g}", na_rep="-"))
    if "work" in table and table["work"].nunique() == 1:  # else it is a column
        say(f"ess_per_work: {table['work'].dropna().iloc[0]}")
    if untold := table.attrs["untold"]:
        say(
            f"no ess of {counted(len(untold), 'run')}, such as {untold[0]}, which an earlier version looked at, for it "
            "told other ones: the run's own command looks again"
        )
    said = table["acceptance"].value_counts(sort=False) if "acceptance" in table else {}
    for worth, rows in said.items():
        which = f" of {counted(rows, 'row')}" if len(said) > 1 else ""
        say(f"acceptance{which}: {worth}")
    return 0


def collect(runs: str | Path | Iterable[str | Path], over: str | None = None) -> pd.DataFrame:
    """The table of the module's docstring, of run folders and folders of them; with ``over="seed"`` over seeds, with
    columns ``…_error``, which are NaN of one run. ``attrs["settings"]`` are the settings that differ,
    and ``attrs["untold"]`` the runs without ``ess`` because an earlier version looked at them.

    Raises SettingError where a folder is none, for one chain that is given twice, and where ``over`` would join what is
    not done; StoreError for a damaged status.json.
    """
    if over not in (None, "seed"):
        raise SettingError("over", over, "must be seed, or left out")
    runs = [runs] if isinstance(runs, str | Path) else runs
    rows, settings, untold = [], [], []
    for folder, status in _statuses([found for run in runs for found in _folders(Path(os.path.expanduser(run)))]):
        identity = status.get("identity") or {}
        given, state = identity.get("settings") or {}, status["state"]
        state = "killed" if state == "running" and killed(folder) else state
        older = status.get("told") != TOLD
        told = status if state in ENDED else {}  # of one that goes on, or failed, it is of an earlier end
        known = flatten(given) | {
            "law": identity.get("law"),
            "start": status.get("start"),
            # What was stopped beyond the cycles that are asked for now has more of them.
            "cycles": max(told.get("planned", 0), told.get("cycles", 0)) or None,
        }
        groups = told.get("groups") or [{"settings": said} for said, _ in grouped(given, given.get("chains", 1))]
        common = {name: told[name] for name in ("seconds", "acceptance") if told.get(name) is not None}
        common |= {"cycles_done": told["cycles"]} if "cycles" in told else {}
        if len(groups) == 1:
            measured = {**(told.get("averages") or {}), "log_accept": told.get("log_accept")}
            common |= {name: value for name, value in measured.items() if name not in known}
        for group in groups:
            row = {"chains_of_row" if key == "chains" else key: value for key, value in group.items()}
            if older and "ess" in row:
                row = {key: value for key, value in row.items() if key != "work" and not key.startswith("ess")}
                untold.append(str(folder))
            said, ended = row.pop("settings"), "diverged" if group.get("finite") == 0 else state
            settings.append(known | said)
            rows.append({**common, **row, "run": str(folder), "state": ended})
    if not rows:
        raise SettingError("RUN", "nothing", "give the folders of one or more runs")
    given = pd.DataFrame([{key: _cell(value) for key, value in one.items()} for one in settings])
    shown = {"sampler.acceptance", *([over] if over else [])}
    differ = [name for name in given if given[name].nunique(dropna=False) > 1 or name in shown]
    differ.sort(key=lambda name: name == "seed")  # last
    table = pd.DataFrame([{key: _number(one) for key, one in row.items() if one is not None} for row in rows])
    front = ["run", "state"]
    table = pd.concat([table[front], given[differ], table.drop(columns=front)], axis=1)
    if differ:
        table = table.sort_values(differ, key=_ordered, kind="stable", ignore_index=True)
    table.attrs["settings"] = differ
    table = _over_seeds(table) if over else table
    table.attrs["untold"] = list(dict.fromkeys(untold))
    return table


def _over_seeds(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``collect`` that differ in their seed alone as one: means over those that are done, with errors.

    Where one of them has no value, an effective sample size of what never moved, the mean is none, too.
    """
    left = table[~table.state.isin(("done", "diverged"))]
    if len(left):
        more = f", as {len(left) - 1} more are" if len(left) > 1 else ""
        mend = "finish it by the command that began it, or leave it out"
        raise SettingError("over", "seed", f"{left.run.iloc[0]} is {left.state.iloc[0]}{more}: {mend}")
    keys = [name for name in table.attrs["settings"] if name != "seed"]
    numbers = [name for name in table if name not in (*keys, *WORDS, "run", "state", "seed", *ERRORS)]
    rows = []
    for key, part in table.groupby(keys, dropna=False, sort=False) if keys else [((), table)]:
        twice = part[part.seed.duplicated(keep=False)] if "seed" in part else part[:0]
        if len(twice):
            mend = f"{twice.run.iloc[0]} and {twice.run.iloc[1]} have the same seed, so the same chains: leave one out"
            raise SettingError("over", "seed", mend)
        done = part[part.state == "done"]
        row = dict(zip(keys, key, strict=True)) | {"runs": len(done), "diverged": len(part) - len(done)}
        for name in numbers:
            values = done[name].astype(float)
            values = values.fillna(0) if name == "still" else values
            row[name] = values.mean(skipna=False)
            if name not in COUNTS:
                row[f"{name}_error"] = values.sem(skipna=False) if math.isfinite(row[name]) else math.nan
        row |= {name: " or ".join(done[name].dropna().unique()) or None for name in WORDS if name in table}
        rows.append(row)
    joined = pd.DataFrame(rows)
    joined.attrs["settings"] = keys
    return joined


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """The columns that are printed, numbers with their errors."""
    settings = table.attrs["settings"]
    for group in {"sampler", "model", "data"} & {name.removesuffix(".name") for name in settings}:
        named = table.groupby(f"{group}.name", dropna=False)
        own = POLICIES if group == "sampler" else [name for name in settings if name.startswith(f"{group}.")]
        told = [name for name in own if name in settings and (named[name].nunique(dropna=False) <= 1).all()]
        settings = [name for name in settings if name not in told or name == f"{group}.name"]
    columns = ["run", "state", *settings, "runs", *(["diverged"] if table.get("diverged", pd.Series()).any() else [])]
    if "finite" in table and (table.finite < table.chains_of_row).any():
        columns += ["finite", "chains_of_row"]
    columns += ["still"]
    if "state" in table and (table.state == "interrupted").any():
        columns += ["cycles_done"]
    if "work" in table and table["work"].nunique() > 1:
        columns += ["work"]
    shown = table[[name for name in dict.fromkeys(columns) if name in table]].copy()
    for name in settings:
        values = ("-" if value != value else value for value in shown[name])
        shown[name] = [f"{value:.10g}" if isinstance(value, float) else value for value in values]
    for name in NUMBERS:
        if name in table:
            errors = table[f"{name}_error"] if f"{name}_error" in table else [math.nan] * len(table)
            shown[name] = [_with_error(*pair) for pair in zip(table[name], errors, strict=True)]
    return shown


def _with_error(value: float, error: float) -> str:
    if value != value:
        return "-"
    return f"{value:.4g}" + (f" ± {error:.2g}" if error == error else "")


def _statuses(folders: list[Path]) -> list[tuple[Path, dict]]:
    """Each folder once, with its status; SettingError where two hold the same chain."""
    found, seen = [], {}
    for folder in {path.resolve(): path for path in folders}.values():
        status = read_status(folder)
        name = (status.get("identity") or {}).get("hash")
        chain = (name, status.get("start")) if name else folder
        if chain in seen:
            raise SettingError("RUN", folder, f"is the same chain as {seen[chain]}: give one of them")
        seen[chain] = folder
        found.append((folder, status))
    return found


def _folders(path: Path) -> list[Path]:
    """The path, if it is a run's folder, or the run folders in it, in the order of their names."""
    with disk.told(path, READABLE):
        if not path.exists():
            raise SettingError("RUN", path, "there is no such folder")
        if path.is_dir():
            os.scandir(path).close()  # what cannot be read of a folder that is named is no part to be left out
    inside, seen = [], set()
    # Some may lie on another disk, with a link to them.
    for place, inner, files in os.walk(path, onerror=_left_out, followlinks=True):
        if (real := os.path.realpath(place)) in seen:  # a link that leads up again, or to one that is here, too
            inner.clear()
        elif "status.json" in files:
            inside.append(Path(place))
        seen.add(real)
    if not inside:
        raise SettingError("RUN", path, "is not a run folder, nor one that holds run folders: none has a status.json")
    return sorted(inside)


def _left_out(error: OSError) -> None:
    """Tell of a folder that cannot be read, which may be a run."""
    if not isinstance(error, NotADirectoryError):
        print(f"{error.filename} is left out: {error.strerror}", file=sys.stderr)


def _cell(value):
    """A setting as pandas can compare it: not as equal what is True and what is 1."""
    return str(value) if isinstance(value, list | bool) else value


def _number(value):
    return float(value) if value in ("inf", "-inf") else value  # as status.json has them


def _ordered(column: pd.Series) -> pd.Series:
    return column if pd.api.types.is_numeric_dtype(column) else column.astype(str)


if __name__ == "__main__":
    sys.exit(main())
