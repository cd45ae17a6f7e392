"""Decisions on a part of the data: what they look at, what it costs in bias, what it saves."""

import numpy as np
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, clean, note, of_known_tau
from verdicts import apart, limit, long_enough, of_groups, unbiased

SOURCE = "Decisions on a part of the data (AMAGOLD paper, section 5.2)"
CAPTION = """
Does it pay to decide on a part of the data? At the step sizes compared below, the rules that are faster beyond errors
are biased on Heart and the mixture. On the generated data none is faster at T = 1; at T = 100 t-tests are, those of ε =
.01 and .05 without a bias beyond errors there.

**What was run.** AMAGOLD, 10 steps, fresh momentum, friction 1, decided on all data (Metropolis, Barker), on a part
(Barker: Seita et al. 2017, σ = 1, batches until the estimate's standard error is below 1; t-tests: Korattikara et al.
2014), or not at all. Data of a gradient, and of a batch of a decision: Heart 135, 27; generated (logistic, ten columns)
1,000, 250, or 100, 250 at T = 100; Welling and Teh's mixture 25, 10. Regressions: prior N(0, 100 I), Heart
standardised. 12 to 16 chains a step size of 3,000 to 6,000 draws after 300 to 1,000 (quick 6 to 10 of 80 to 300), from
normals (of standard deviation 1, generated data .1), on the mixture between its modes.

**What is drawn.** Top: data looked at, over what theory asks of Barker's test (the diagonal), D²/(1 + D²), D² the sum
over data of the squared changes of log likelihood, less their mean, over T². Middle: bias of second moments, in true
variances, a mean over coordinates, less Metropolis's with the same starts, minibatches and momenta. Bottom: ESS of the
slowest coordinate a million evaluations of a datum: a gradient is one, an exact decision N, one on n data 2n, as U at
the start is not known.

**To know.** At the same τ a decision on no data would make a trajectory at most 1.2 times as cheap on Heart, 1.4 on the
mixture, 2 and, at T = 100, 11 on the generated data. The mixture's exact rules may be faster beyond the grid. Truth:
HMC, or quadrature (mixture). Chains shorter than 20 τ have no point. "Biased": beyond errors; "bias below": its amount
and what errors may hide. What decides on a part is marked as not exact, and fails the certificate on data of which it
looks at half. One length, one σ.
"""
LOOK = {
    ("metropolis", None): (BLUE, "o", "-", "Metropolis"),
    ("barker", None): (SKY, "s", "-", "Barker"),
    ("barker_minibatch", None): (GREEN, "^", "-", "Barker on a part"),
    ("austerity", 0.01): (PURPLE, "v", "--", "t-test, ε = .01"),
    ("austerity", 0.05): (ORANGE, "D", "--", "t-test, ε = .05"),
    ("austerity", 0.2): (RED, "P", "--", "t-test, ε = .2"),
    ("monitor", None): (GREY, "x", ":", "uncorrected"),
}
EXACT = [key for key in LOOK if key[0] in ("metropolis", "barker")]
NONE = ("monitor", None)
PARTIAL = [key for key in LOOK if key[0] in ("barker_minibatch", "austerity")]
PANELS = (
    ("heart", "Heart, N = 270"),
    ("location_mixture", "Welling and Teh's mixture, N = 100"),
    ("logistic_generated", "logistic, N = 10,000"),
    ("logistic_generated, T = 100", "logistic, N = 10,000, T = 100"),
)
ROWS = ("share of the data\na decision looks at", "bias of variances\nless Metropolis's", "ESS / 10⁶ data")
BIASED, UNKNOWN = " (biased)", " (bias not known)"
BOUND = " (bias below "
FAR = 1  # a bias from which on its axis is logarithmic beyond .1
BATCHES = 0.1  # how near the data that are looked at must be to theory, relatively


def of_rule(table: pd.DataFrame, target: str, key: tuple) -> pd.DataFrame:
    """The finished rows of a target's rule, in the order of their step sizes."""
    part = table[(table.target == target) & (table.status == "done") & (table.acceptance == key[0])]
    part = part[part.epsilon.isna() if key[1] is None else part.epsilon == key[1]]
    return part[part.chains > 0].sort_values("step_size")


def draw(table: pd.DataFrame) -> Figure:
    """A column a target: data a decision over what theory needs, bias and efficiency over the step size."""
    table = long_enough(table)
    figure, panels = pyplot.subplots(3, 4, figsize=(10, 7.6), layout="constrained")
    for (target, heading), (looked, bias, ess) in zip(PANELS, panels.T, strict=True):
        sizes = sorted(table[table.target == target].step_size.dropna().unique())
        compared = known(of_rule(table, target, EXACT[0]), "exact_p").step_size
        for key, (colour, marker, line, name) in LOOK.items():
            rows = of_rule(table, target, key)
            style = {"color": colour, "marker": marker, "ls": line, "ms": 4, "lw": 1.2, "label": name}
            if key in PARTIAL:
                looked.errorbar(rows.needed, rows.share, rows.share_error, **style)
            settled = known(rows)
            settled = settled[settled.step_size.isin(compared)]
            if len(settled) and key != EXACT[0]:
                bias.errorbar(settled.step_size, settled.away, settled.away_error, **style)
            if rows.ess.notna().any():
                ess.errorbar(rows.step_size, rows.ess, rows.ess_error, **style)
        looked.plot([0, 1], [0, 1], color=GREY, lw=0.8, zorder=0)
        looked.set_title(heading, fontsize=9)
        looked.set(xlim=(0, 1.05), ylim=(0, 1.05), xlabel="D²/(1 + D²)")
        of_known_tau(ess)
        ess.set_xlabel("step size / 10⁻³")
        bias.yaxis.set_major_formatter("{x:g}")
        if not bias.has_data():
            note(bias)
        for panel in (bias, ess):
            panel.set_xticks(sizes)
            panel.xaxis.set_major_formatter(lambda step, _: f"{1000 * step:g}")
            if len(sizes):
                panel.set_xlim(0.5 * sizes[0], sizes[-1] + 0.5 * sizes[0])
        bias.axhline(0, color=GREY, lw=0.8, zorder=0)
        if bias.get_ylim()[1] > FAR:  # no correction is so far off that the rules would lie on each other
            bias.set_yscale("symlog", linthresh=0.1)
            bias.set_yticks([0, 0.05, 0.1, 0.3, 1, 3], ["0", "0.05", "0.1", "0.3", "1", "3"])
            bias.minorticks_off()
    for panel, name in zip(panels[:, 0], ROWS, strict=True):
        panel.set_ylabel(name)
    clean(*panels.flat)
    found = [panel.get_legend_handles_labels() for panel in panels.flat]
    handles = {name: handle for handles, names in found for handle, name in zip(handles, names, strict=True)}
    names = [name for *_, name in LOOK.values() if name in handles]
    figure.legend(
        [handles[name] for name in names], names, frameon=False, fontsize=8, loc="outside lower center", ncols=7
    )
    figure.suptitle(title(table).replace(" errors, on ", " errors, on\n"), fontsize=11)
    return figure


def title(table: pd.DataFrame) -> str:
    """On which targets a decision on a part is faster than exact ones, at the step size that is judged."""
    verdicts = {name: next(worth(name, {key: of_rule(table, at, key) for key in LOOK}))[3] for at, name in PANELS}
    if all(verdict.startswith("not comparable") for verdict in verdicts.values()):
        return "Decisions on a part of the data, beside exact ones"
    faster = [name + in_short(verdict) for name, verdict in verdicts.items() if verdict.startswith("agrees")]
    compared = [name for name, verdict in verdicts.items() if not verdict.startswith("not comparable")]
    where = "; ".join(faster) or "none of " + ("; ".join(compared) if len(compared) < len(verdicts) else "the targets")
    return f"Decisions on a part of the data: faster than exact ones, beyond errors, on {where}"


def in_short(verdict: str) -> str:
    """What is to be said of the bias of the rules that a verdict names: the least bound on it, where there is one."""
    rules = verdict.split(" and ")
    if bounds := [rule.partition(BOUND)[2] for rule in rules if BOUND in rule]:
        return BOUND + min(bounds, key=lambda bound: float(bound.strip(")")))
    biased, unknown = (any(each in rule for rule in rules) for each in (BIASED, UNKNOWN))
    return " (biased, or bias not known)" if biased and unknown else BIASED if biased else UNKNOWN


def known(rows: pd.DataFrame, column: str = "away") -> pd.DataFrame:
    """The rows of several chains whose τ is known, with the bias ``column``: of the others it may be the start's."""
    columns = [column, "spread_error", "truth_error", "tau"] + ["away_error"] * (column == "away")
    rows = rows.reindex(columns=[*rows, *(name for name in columns if name not in rows)])
    return rows[rows[columns].notna().all(axis=1) & (rows.spread_error > 0)]


def compare(table: pd.DataFrame):
    """Exact rules without bias; the part against the formula; speed and bias of decisions on a part, at one step."""
    table = long_enough(table)
    yield no_bias(table)
    part = table[(table.acceptance == "barker_minibatch") & (table.status == "done") & table.share.notna()]
    part = part[part.rounded.notna()] if "rounded" in part else part[:0]
    if len(part):
        ratio, error = part.share / part.rounded, part.share_error / part.rounded
        bare = part.share / part.needed
        here = f"{ratio.min():.2f} to {ratio.max():.2f} times, errors of {error.median():.2f} in the median; "
        here += f"{bare.min():.2f} to {bare.max():.2f} times D²/(1 + D²) itself"
        outside = (ratio - 1).abs() > BATCHES
        sure = (ratio - 1).abs() - limit(len(part)) * error > BATCHES
        verdict = "differs" if sure.any() else "not resolved" if outside.any() else "agrees"
        yield "data that Barker's test looks at", "D²/(1 + D²) of all in whole batches, within 10 %", here, verdict
    for target, title in PANELS:
        parts = {key: of_rule(table, target, key) for key in LOOK}
        yield from worth(title, parts)
        yield everywhere(title, parts)


def no_bias(table: pd.DataFrame) -> tuple:
    """``unbiased`` of the exact rules, and of no correction, in the settings whose τ is known."""
    exact, bare = (pd.concat([of_rule(table, at, key) for at, _ in PANELS for key in keys]) for keys in (EXACT, [NONE]))
    judged, others = (known(rows, "exact_p") for rows in (exact, bare))
    of = "the second moment and of the means of coordinates"
    return unbiased("Metropolis and Barker on all data", "no bias", judged, others, of, len(exact) - len(judged))


def everywhere(title: str, parts: dict) -> tuple:
    """The bias of each rule on a part over all of its step sizes, beside that of no decision at the same."""
    left, found = known(parts[NONE]).set_index("step_size"), {key: known(parts[key]) for key in PARTIAL}
    number, here = sum(map(len, found.values())), []
    for key, rows in found.items():
        if rows.empty:
            continue
        most = limit(number, rows.chains.min())
        beside = left.reindex(rows.step_size)
        more = rows.away.abs().to_numpy() - beside.away.abs().to_numpy()
        worse = more > most * np.hypot(rows.away_error.to_numpy(), beside.away_error.to_numpy())
        row = rows.loc[rows.away.abs().idxmax()]
        here.append(
            f"{LOOK[key][3]} in {(rows.away.abs() > most * rows.away_error).sum()} of {len(rows)} "
            f"({row.away:+.3f} ± {row.away_error:.3f} at h = {row.step_size:g}), in {worse.sum()} more than no decision"
        )
    what = f"{title}: step sizes at which the bias of variances is beyond errors (the largest)"
    return what, "some, for decisions on a part", "; ".join(here) or "τ not known", "not claimed"


def remark(row) -> str:
    """What is to be said of the bias of a rule that is faster."""
    if np.isnan(row.away) or not row.away_error > 0:
        return UNKNOWN
    seen = limit(len(PARTIAL), row.chains) * row.away_error
    return BIASED if abs(row.away) > seen else f"{BOUND}{np.ceil(100 * (abs(row.away) + seen)) / 100:g})"


def worth(title: str, parts: dict):
    """Two rows at the step size where Metropolis' rule has its largest ESS: all rules' ESS over its own, and their bias
    less its own. Of those that are faster beyond errors it is said where their bias is beyond errors, too."""
    metropolis = parts[EXACT[0]]
    exact = metropolis[metropolis.ess_error.notna()]
    if exact.empty:
        why = "no run of Metropolis' rule" if metropolis.empty else "too few draws"
        yield f"{title}: ESS a datum", "some part is faster", "τ not known", f"not comparable: {why}"
        return
    top = exact.loc[exact.ess.idxmax()]
    where = f"at h = {top.step_size:g}" + ", the largest" * bool(top.step_size == metropolis.step_size.max())
    here = {key: rows[rows.ess_error.notna() & (rows.step_size == top.step_size)] for key, rows in parts.items()}
    unknown = [LOOK[key][3] for key in PARTIAL if here[key].empty]
    none = "not resolved: none beyond errors"
    if unknown:
        none = f"not decided: τ of {' and '.join(unknown)} is not known"
    left = next(known(here[NONE]).itertuples(), None)
    speeds, biases, faster, less = [], [], [], []
    for key in (NONE, *EXACT[1:], *PARTIAL):
        for row in here[key].itertuples():
            ratio = row.ess / top.ess
            error = ratio * np.hypot(row.ess_error / row.ess, top.ess_error / top.ess)
            speeds.append(f"{LOOK[key][3]} {ratio:.2f} ± {error:.2f}")
            least = of_groups((row.ess_error, top.ess_error), (row, top), len(PARTIAL))
            if key in PARTIAL and apart(row, top, "ess") > least:
                faster.append(LOOK[key][3] + remark(row))
        for row in known(here[key]).itertuples():
            biases.append(f"{LOOK[key][3]} {row.away:+.3f} ± {row.away_error:.3f}")
            if key in PARTIAL and left is not None:
                gain, error = abs(left.away) - abs(row.away), np.hypot(left.away_error, row.away_error)
                less += [LOOK[key][3]] if gain > limit(len(PARTIAL), row.chains) * error else []
    what = f"{title}: ESS a datum over Metropolis's, {where}"
    verdict = f"agrees: {' and '.join(faster)}" if faster else none
    yield what, "some part is faster", "; ".join(speeds), verdict
    what = f"{title}: bias of variances less Metropolis's, {where}"
    verdict = f"agrees: {' and '.join(less)}" if less else none
    yield what, "some part has less than no decision", "; ".join(biases) or "τ not known", verdict
