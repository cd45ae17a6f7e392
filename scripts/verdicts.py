"""Verdicts on rows of a table, where runs or some of their chains may have diverged.

A difference is judged beyond ``limit`` of its standard errors: three, or more where chance alone would exceed three
oftener than once in a hundred, be it that the largest of several differences is judged (Bonferroni) or that its error
is of few chains (Student's t). A tolerance that is no standard error is named in the row that it decides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy.stats import t as student
from style import NAMES

LIMIT, CHANCE = 3.0, 0.01  # standard errors, and how often the largest may exceed its limit by chance
LENGTH = 20  # of τ, the chains from which it is believed: of shorter ones it comes out too small
GROUPS = 10  # of chains, which errors of τ and ESS are from
MIXED = 1.05  # R-hat, the worst of all that is looked at, below which chains are taken to agree
TIMING = 1.5  # a factor within which two timings are the same: each is taken once, on a machine with other work


def limit(number: int = 1, chains: float = np.inf) -> float:
    """Standard errors beyond which the largest of ``number`` differences, of so many ``chains`` each, is decided; of
    fewer than two chains none is."""
    if not chains >= 2:
        return float("inf")
    return max(LIMIT, float(student.isf(CHANCE / 2 / number, chains - 1)))


def long_enough(table: pd.DataFrame, length: str = "draws_a_chain") -> pd.DataFrame:
    """The table without each τ (``tau``, ``tau_x``), and the ESS that it gives, of chains not 20 of it long."""
    if length not in table:
        return table
    for tau in [name for name in table if name.startswith("tau") and not name.endswith("_error")]:
        short = table[length] < LENGTH * table[tau]
        ess = "ess" + tau.removeprefix("tau")
        columns = [name for name in (tau, f"{tau}_error", ess, f"{ess}_error") if name in table]
        table = table.assign(**{name: table[name].mask(short) for name in columns})
    return table


def unbiased(what: str, claim: str, corrected: pd.DataFrame, bare: pd.DataFrame, of: str, left: int = 0) -> tuple:
    """The row of the least likely of all ``corrected`` settings, were they exact, by ``exact_p``, a test of what ``of``
    says; how many uncorrected ones the same test finds not to be; and that nothing is said of ``left`` others."""
    others = f"nothing is said of {left} setting{'s' * (left != 1)} of chains shorter than {LENGTH} τ" if left else ""
    if corrected.empty:
        return what, claim, others, "not comparable: no reference, or chains too short for τ"
    least = corrected.exact_p.min()
    probability = min(1, least * len(corrected))
    row = corrected.loc[corrected.exact_p.idxmin()]
    named = [row.get(column) for column in ("target", "model", "word", "sampler", "minibatches")]
    named = [name for name in named if isinstance(name, str)]
    named = ", ".join([*named, f"h = {row.step_size:g}"] if "step_size" in row else named)
    here = f"Student's t of {of}: the least likely of {len(corrected)} settings has p = {least:.2g}, by Bonferroni "
    here += f"over all {probability:.2g} ({named}); {(corrected.exact_p < CHANCE).sum()} have p < {CHANCE:g} each; the "
    here += f"same test finds {(bare.exact_p < CHANCE).sum()} of {len(bare)} uncorrected settings biased (p < "
    here += f"{CHANCE:g} each)" + (f"; {others}" if left else "")
    return what, claim, here, "agrees" if probability > CHANCE else "differs"


class Rows:
    """The rows of finished runs, by the values of some columns, of which ``sampler`` is the first."""

    def __init__(self, table: pd.DataFrame, *columns: str):
        self.table = table
        done = table[table.status == "done"].itertuples()
        self.at = {tuple(getattr(row, column) for column in columns): row for row in done}

    def judge(self, what: str, paper: str, keys: list[tuple], verdict: Callable) -> tuple[str, str, str, str]:
        """A row of the comparison. ``verdict`` of the rows of ``keys`` is what is measured, and the verdict on it;
        where one of them is missing, or chains of it diverged, that is the verdict."""
        lost = next(filter(None, map(self.lost, keys)), None if keys else "not comparable: no run")
        return (what, paper, *(("", lost) if lost else verdict(*(self.at[key] for key in keys))))

    def lost(self, key: tuple) -> str | None:
        """The verdict on a row that cannot be judged; None on one that can be."""
        name = NAMES[key[0]]
        if key in self.at:
            row = self.at[key]
            if not getattr(row, "frozen", 0) > 0:
                return None
            return f"differs: {row.frozen:.0f} of {row.frozen + row.chains:.0f} chains of {name} diverged"
        left = self.table[(self.table.sampler == key[0]) & (self.table.status != "done")]
        if not len(left):
            return f"not comparable: no run of {name}"
        row = left.iloc[0]
        return f"{'differs' if row.status == 'diverged' else 'not comparable'}: {name}, {row.why}"


def mark_diverged(panel: Axes, part: pd.DataFrame, x: str, y: str, colour: str = "black") -> None:
    """A black cross on points some chains of which diverged, one of ``colour`` at the top where there is no point."""
    if "frozen" not in part:
        return
    some = part[part.frozen > 0]
    panel.plot(some[x], some[y], "x", color="black", ms=8, zorder=5)
    none = some[some[y].isna()]
    panel.plot(none[x], [0.98] * len(none), "x", color=colour, ms=8, transform=panel.get_xaxis_transform())


def with_errors(panel: Axes, rows: pd.DataFrame, x: str, y: str, **look) -> None:
    """A line of ``y`` over ``x`` with its errors, where any of it is known, crossed where some chains diverged."""
    if y in rows and rows[y].notna().any():
        panel.errorbar(rows[x], rows[y], by_itself(rows, y), ms=4, lw=1.2, **look)
        mark_diverged(panel, rows, x, y)


def by_itself(rows: pd.DataFrame, column: str) -> pd.Series:
    """The errors of a column's numbers, each by itself: that of an excess over a reference has the reference's error in
    it, too, which is not in the difference of two of them."""
    error = rows[f"{column}_error"]
    if column == "excess" and "reference_error" in rows:
        error = np.hypot(error, rows.reference_error.fillna(0))
    return error


def apart(one, other, column: str) -> float:
    """By how many of their standard errors the first row's number is above the second's."""
    errors = [getattr(row, f"{column}_error") for row in (one, other)]
    return (getattr(one, column) - getattr(other, column)) / (errors[0] ** 2 + errors[1] ** 2) ** 0.5


def freedom(error, other, chains, others):
    """Degrees of freedom of the difference of two means, by their errors, of so many chains each (Welch, 1947); of a
    single chain that has an error, 0."""
    one, two = np.square(error), np.square(other)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (one + two) ** 2 / (one**2 / (chains - 1) + two**2 / (others - 1))


def of_groups(errors, rows, number: int = 1) -> float:
    """``limit`` of ``number`` differences such as two rows' ESS have, of ``errors`` from ten groups of chains."""
    return limit(number, 1 + freedom(*errors, *(min(GROUPS, row.chains) for row in rows)))


def welch(one, other, column: str, number: int = 1) -> float:
    """``limit`` of ``apart``, the largest of ``number`` such differences, by Welch's t of the rows' few chains."""
    errors = [getattr(row, f"{column}_error") for row in (one, other)]
    return limit(number, 1 + freedom(*errors, one.chains, other.chains))


def side(away: float, least: float = LIMIT, sides: tuple[str, str] = ("agrees", "differs")) -> str:
    """Which side a difference of ``away`` standard errors is on, where it is on one."""
    return sides[0] if away > least else sides[1] if away < -least else "not resolved"


def decided(away: float, least: float = LIMIT, sides: tuple[str, str] = ("agrees", "differs")) -> str:
    """``side``, with the standard errors where it is not the first."""
    word = side(away, least, sides)
    if word == "agrees":
        return word
    few = f", and of so few chains {least:.1f} would decide" if word == "not resolved" and least > LIMIT else ""
    return f"{word}: {away:.1f} standard errors apart{few}"


def close(here: float, paper: float, error: float, times: float = LIMIT) -> str:
    """The verdict on a number with an error: ``agrees`` within ``times`` errors, else by how much it differs."""
    difference = here - paper
    return "agrees" if abs(difference) <= times * error else f"differs by {difference:+.2g}"


def chance(away, chains) -> float:
    """How probable it is that the farthest of numbers, so many of their errors over so many chains ``away`` from what
    they should be, is as far by chance: Student's t and Bonferroni. NaN where one of them is, or none is there."""
    if not len(away) or np.isnan(away).any():
        return float("nan")
    return float(min(1, (2 * student.sf(np.abs(away), np.asarray(chains) - 1)).min() * len(away)))


def headed(claim: str, verdicts, otherwise: str) -> str:
    """A figure's title: the ``claim``, where each of the verdicts that it rests on bears it; else what is drawn."""
    borne = [verdict.startswith(("agrees", "not claimed")) for verdict in verdicts]
    return claim if borne and all(borne) else otherwise


def timed(ratio: float, sides: tuple[str, str]) -> str:
    """The verdict on a ratio of seconds: below 1/1.5, above 1.5; between, a machine's load may have made it."""
    if np.isnan(ratio):
        return "not comparable: no run was timed"
    return sides[0] if ratio < 1 / TIMING else sides[1] if ratio > TIMING else "not decided: within a factor of 1.5"


def not_much_slower(ratio: float) -> str:
    """The verdict on a ratio of seconds that is claimed to be not much above 1, where much is above 1.5: what ``timed``
    says of the ratio over that, so that it is decided below 1 and above 2.25."""
    verdict = timed(ratio / TIMING, ("agrees: no slower", f"differs: {ratio:.1f} times"))
    return f"not decided: between 1 and {TIMING**2:g} times" if verdict.startswith("not decided") else verdict
