"""What came out of a run, in numbers: the acceptance, log MH, effective sample size and R-hat of each group of chains.

A run says them in words (``experiments.voice``), keeps them in its ``status.json``, and ``experiments.collect`` makes a
table of many runs of them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from scipy.special import chdtri
from torch import Tensor

import sgmcmc
from experiments.build import Pieces
from experiments.dotted import get
from experiments.resolved import FRICTION, STEP
from sgmcmc import diagnostics
from sgmcmc.chain import Result
from sgmcmc.diagnostics import LEAST
from sgmcmc.potentials import shown

READ_AT_MOST = 1 << 26  # numbers in all draws together; where a run has more, its potential alone is looked at
# Of a group of many chains only some, evenly spread, are looked at: so many that LOOK_AT draws are theirs, but at least
# LOOKED chains.
LOOK_AT = 1 << 20
LOOKED = 16
GROUPS = 24  # groups of chains with settings of their own; where there are more, the draws of none are looked at
COORDINATES = 16  # of which means, and as many of which variances, are looked at
LEAST_OF_R_HAT = 40  # draws: of fewer it says nothing
# Where less than this part of all draws is looked at, ESS per second and per work are told only if ESS is at least so
# much a chain.
PART, ENOUGH = 0.4, 10
# What a status says beside these numbers: raised when effective sample sizes get another meaning. Where it says nothing
# they may be of ranks, two or three times as large.
TOLD = 2
# Columns of metrics that tell a row's place in the run or a part of a cycle, whose mean over a run tells nothing; and
# two whose mean is told elsewhere.
PLACES = ("cycle", "epoch", "step", "seconds", "steps_per_second", "alive", "not_finite", "accepted", "step_size")
PLACES += ("delta_potential", "delta_kinetic", "accept_prob", "log_accept", "kinetic_inside", "steps_per_cycle")


def of_groups(config: dict, pieces: Pieces, path: Path, result: Result, metrics: dict | None) -> list[dict]:
    """A dictionary for each group of chains that have the same settings. There is one group, unless settings are lists.

    - ``settings``: the values that the lists give to this group;
    - ``chains``: how many chains it has, and ``finite``, how many of them have not diverged;
    - ``accept_prob``: the mean over the finite chains after the burn-in, and ``accept_prob_error``, the standard
      error, which several independent chains tell (of a tuned step size: given that step size);
    - ``tuned_step_size`` and ``tuned_steps`` (of a trajectory), where those were tuned.

    Draws are looked at if the run's rows of ``metrics`` are given (else None):

    - ``ess``, ``ess_error``, ``ess_of``: effective sample size of all finite chains in the cycles that are looked at,
      its standard error, and the function of theta that it is of, the slowest of those looked at;
    - ``ess_per_second`` and ``ess_per_work``: that by what such a part of the whole run cost, in units of ``work``
      (with data, passes over them, be it for a gradient or for U); not of the last few of all draws (``PART``), where
      these are worth less than ``ENOUGH`` a chain;
    - ``r_hat``, ``r_hat_over``, ``r_hat_limit``: the largest R-hat, over how many chains it is taken, and the value
      above which they have not mixed (see ``mixed_below``);
    - ``still``: how many coordinates never move in any chain; they are in no ``ess``, and where they are at another
      place in another chain ``r_hat`` is infinite.

    A number that cannot be told is not there: of few draws, of chains that hardly ever move or are at temperature 0 or,
    where ArviZ is not installed, of any.
    """
    groups, frozen, records = grouped(config, pieces.chains), set(result.frozen), []
    plan, kernel, burnt = pieces.plan, result.kernel, result.cycles >= pieces.plan.burn_in
    size = torch.as_tensor(kernel.step_size, dtype=torch.float64)
    sizes = size.flatten() if size.ndim else size.expand(pieces.chains)
    for settings, chains in groups:
        finite = [chain for chain in chains if chain not in frozen]
        record = {"settings": settings, "chains": len(chains), "finite": len(finite)}
        if finite and burnt and (plan.tune is not None or plan.trajectory):
            record["tuned_step_size"] = float(sizes[finite].mean())
        if finite and burnt and plan.trajectory:
            record["tuned_steps"] = kernel.steps
        if finite and result.cycles > plan.burn_in and result.accept_prob is not None and not kernel.impossible:
            chances = result.accept_prob[finite]
            record["accept_prob"] = float(chances.mean())
            if len(finite) > 1:
                record["accept_prob_error"] = float(chances.std()) / math.sqrt(len(finite))
        records.append({key: value for key, value in record.items() if value == value})
    if estimates(metrics) and kernel.temperature:  # at 0 there is no law that chains draw from
        for place, *looked in _looked(pieces, path, groups, result, metrics):
            records[place] |= _mixing(pieces, result, records[place], *looked)
    return records


def estimates(metrics: dict | None) -> bool:
    """Whether ``of_groups`` looks at draws, of a run with these rows."""
    return metrics is not None and find_spec("arviz_stats") is not None


def spans(metrics: dict, every: int) -> tuple[np.ndarray, np.ndarray]:
    """After which cycle each row of metrics begins, and which rows count.

    A row is of the cycles since the last regular one, ``every`` of them; where a run ended between two and was
    continued, the next one has that row's cycles, too.
    """
    starts = (metrics["cycle"] - 1) // every * every
    return starts, np.append(starts[1:] != starts[:-1], True)[: len(starts)]


def averages(metrics: dict, burn_in: int, every: int) -> dict[str, float]:
    """What the rows after the burn-in tell of a run: means, by the rows' cycles, but of running ensembles, which are as
    they are in the last row. Not what is of a row's place or of a cycle's parts alone (``PLACES``), nor what is NaN;
    nothing where no row is of cycles after the burn-in alone."""
    starts, late = spans(metrics, every)
    late &= starts >= burn_in
    told = {}
    for name in metrics.keys() - set(PLACES) if late.any() else ():
        ensemble = "_ensemble_" in name
        values, lengths = metrics[name][late], (metrics["cycle"] - starts)[late]
        told[name] = float(values[-1] if ensemble else np.average(values, weights=lengths))
    return {name: value for name, value in sorted(told.items()) if value == value}


def second_half(metrics: dict, every: int) -> tuple[float, float, float] | None:
    """The mean of log MH over the rows that lie in the second half of the cycles, by their cycles; its standard error
    (of one row infinite); and the median of the rows, which a few proposals far out do not move. None where no row of
    that half has one. The last row may be the only one of the second half."""
    cycles, values = metrics["cycle"], metrics["log_accept"]
    starts, late = spans(metrics, every)
    late &= abs(values) < math.inf
    late &= starts >= min(cycles[-1] / 2, starts[-1]) if len(starts) else True
    values, lengths = values[late], (cycles - starts)[late]
    if not len(values):
        return None
    with np.errstate(over="ignore"):  # a proposal's U may be the largest number there is
        error = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
        return float(np.average(values, weights=lengths)), error, float(np.median(values))


def _mixing(pieces: Pieces, result: Result, group: dict, draws: Tensor, of: str, share: float, still: int) -> dict:
    """``ess`` to ``still`` of ``of_groups``, of a group that has its ``chains`` and ``finite``; the other arguments are
    as ``_looked`` yields them."""
    number, finite, told = group["chains"], group["finite"], {"still": still} if still else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        size = diagnostics.ess(draws, method="mean")
    times = finite / draws.shape[1]
    worst = int(torch.as_tensor(size.value).nan_to_num(nan=math.inf).argmin())
    value, error = float(size.value[worst]) * times, float(size.error[worst]) * times
    if not math.isfinite(value):
        return told
    work, unit = _work(pieces, result)
    told |= {"ess": value, "ess_error": error, "ess_of": of}
    # The last few draws give as many effective ones as there are chains, however slow these are.
    if share > PART or value >= ENOUGH * finite:
        told["ess_per_second"] = value / share / max(result.seconds * number / pieces.chains, 1e-9)
        told |= {"ess_per_work": value / share / max(work * number, 1e-9), "work": unit}
    if len(draws) < LEAST_OF_R_HAT:
        return told
    worst_r_hat = float(torch.as_tensor(diagnostics.r_hat(draws)).nan_to_num(nan=0, posinf=math.inf).max())
    if worst_r_hat:
        functions = 2 * pieces.potential.dim if draws.shape[2] > 1 else 1
        cut = 1 + (draws.shape[1] == 1)  # one chain is cut into two
        limit = mixed_below(len(draws) // cut, draws.shape[1] * cut, functions)
        told |= {"r_hat": worst_r_hat, "r_hat_limit": limit, "r_hat_over": draws.shape[1]}
    return told


def _work(pieces: Pieces, result: Result) -> tuple[float, str]:
    """What a chain has evaluated, and in which unit."""
    if pieces.potential.data_size:
        # What is only monitored need not be evaluated: chains are compared without it.
        watched = result.kernel.acceptance == "monitor" and bool(result.energies)
        views = shown(pieces.potential) // pieces.potential.data_size
        unit = "a pass over the data" + (f"'s {views} views" if views > 1 else "")
        unit += " (not counting U, which is monitored)" if watched else ""
        return result.gradients + (0 if watched else result.energies), unit
    return (result.gradients, "a gradient") if result.gradients else (result.energies, "an evaluation of U")


def reads_draws(pieces: Pieces, cycles: int) -> bool:
    """Whether the draws of so many cycles are looked at: where they are kept, and neither too few nor too many."""
    kept, numbers = pieces.plan.kept(cycles), pieces.chains * pieces.potential.dim
    return pieces.plan.keep != "none" and LEAST <= kept and kept * numbers <= READ_AT_MOST and numbers < 100_000


def _looked(pieces, path, groups, result, metrics) -> Iterator[tuple]:
    """What of each group of chains is looked at: its place in ``groups``; functions of theta along some of its finite
    chains, ``[draws, chains, functions]``, and what they are, in words; which part of the cycles after the burn-in the
    draws are of; how many coordinates never move.

    The functions are the 16 coordinates and the squares of 16 coordinates about their means that look slowest (a
    trajectory that makes means antithetic may leave variances slow). Where the draws are too many or too few, or not
    kept, it is the potential in the rows of metrics, of a run without groups: rows are means over all chains and over
    ``log_every`` cycles, so there may be more effective draws than they tell. Of more than ``GROUPS`` groups nothing.
    """
    plan, dim = pieces.plan, pieces.potential.dim
    frozen, kept = set(result.frozen), plan.kept(result.cycles)
    if len(groups) > GROUPS:
        return
    if reads_draws(pieces, result.cycles):
        draws = sgmcmc.load_samples(path)
        if len(draws) < LEAST:  # keep=3
            return
        of = f"the slowest of {dim:,} means and {dim:,} variances" if dim > 1 else "the slower of mean and variance"
        of += f" ({COORDINATES} of each looked at)" if dim > COORDINATES else ""
        of += f" in the last {len(draws):,} of {kept:,} draws" if len(draws) < kept else ""
        for place, (_, group) in enumerate(groups):
            finite = [chain for chain in group if chain not in frozen]
            if finite:
                every = max(1, -(-len(finite) // max(LOOKED, LOOK_AT // len(draws))))
                part = draws[:, finite[::every]]
                if diagnostics.hardly_moves(part):
                    continue
                still = int((part == part[0]).all(0).all(0).sum())
                squares = (part - part.mean((0, 1))).square()
                looked = torch.cat((slowest(part, COORDINATES), slowest(squares, COORDINATES)), -1).double()
                yield place, looked, of, len(draws) / kept, still
        return
    starts, whole = spans(metrics, plan.log_every)
    rows = torch.as_tensor(metrics["potential"][whole & (starts >= plan.burn_in)])
    late = rows[len(rows) // 2 :]
    if len(groups) == 1 and len(late) >= LEAST and bool(late.isfinite().all()):
        of = "the potential in the second half" + (", at least," if plan.log_every > 1 else "")
        yield 0, late[:, None, None], of, len(late) / len(rows), 0


def grouped(config: dict, chains: int) -> list[tuple[dict, list[int]]]:
    """The chains that have the same values of what lists give, with these values; one group, without any, where there
    are no lists."""
    values = {key: get(config, key) for key in (*STEP, *FRICTION)}
    lists = {key: value for key, value in values.items() if isinstance(value, list) and len(set(value)) > 1}
    groups: dict[tuple, list[int]] = {}
    for chain in range(chains):
        own = tuple(value[chain * len(value) // chains] for value in lists.values())
        groups.setdefault(own, []).append(chain)
    return [(dict(zip(lists, own, strict=True)), group) for own, group in groups.items()]


def slowest(draws: Tensor, number: int) -> Tensor:
    """So many coordinates of ``[draws, chains, dim]``: those whose means of parts of a chain vary most, in units of the
    draws' own variance, which is in proportion to an autocorrelation time; what stands still at one place is last."""
    parts = math.isqrt(len(draws))
    means = torch.stack([part.mean(0, dtype=torch.float64) for part in draws.tensor_split(parts)]).flatten(0, 1)
    ratio = means.var(0) / draws.flatten(0, 1).var(0)
    return draws[..., ratio.nan_to_num(nan=-1.0).topk(min(number, draws.shape[2])).indices.sort().values]


def mixed_below(draws: int, chains: int, coordinates: int) -> float:
    """The R-hat above which chains have not mixed: 1.01 (Vehtari et al. 2021), or what the largest of so many
    coordinates, of bulk and of tails, exceeds about once in a hundred times where the draws are independent (of 40
    draws of one chain three times).

    R-hat² − 1 is then about (χ²/(m − 1) − 1)/n, of the means of m halves of chains of n draws each.
    """
    halves = 2 * chains
    largest = chdtri(halves - 1, 0.01 / (2 * coordinates)) / (halves - 1)
    return max(1.01, math.sqrt(1 + (largest - 1) / (draws // 2)))
