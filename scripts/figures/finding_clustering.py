"""Neal's persistent uniform with noisy gradients: what it gains over a fresh uniform, over δ."""

import numpy as np
import pandas as pd
from figures.finding_words import share_left
from matplotlib import pyplot
from matplotlib.figure import Figure
from style import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, clean, handle, note, ticks
from verdicts import CHANCE, GROUPS, chance, freedom, limit, of_groups, side

SOURCE = "Neal's persistent uniform, with noisy gradients"
CAPTION = """
Does Neal's persistent uniform help when gradients are noisy? On noisy pairs it is faster than a fresh one in all four
cases, on Heart in one of four; the others are open.

**What was run.** GGMC (OBABO) and AMAGOLD (ABOBA), kept momentum, one and four steps a trajectory: on ten of Neal's
pairs (20 dimensions) from exact draws, gradient noise N(0, 4), or, GGMC with one step, exact gradients; on the logistic
regression of Heart (standardised columns, prior N(0, 100 I), unit masses) from 30 epochs of SGD, minibatches of a fifth
of the data. 12 to 48 chains of 400 to 6,000 trajectories, on Heart after 200 to 1,000 (in the table); quick 6 or 9 of
500 or 150.

**What is drawn.** ESS of the slower of coordinates (by the mean of their τ) and U, at its best step size, over δ, by
which the uniform moves at each decision. Decay: what is left of the momentum over a trajectory. A fresh uniform's grid
is wider where its best was at an edge. AMAGOLD as published: the best of 4 to 64 steps (pairs 128). Only in the last
rows is U at a trajectory's end counted ("paid"): as a gradient of the pairs, five of Heart. Errors: the jackknife's.

**Why.** Means of coordinates alone flatter nearly deterministic trajectories: after half a period on a Gaussian a chain
is at its start's mirror image, so errors cancel from draw to draw, while U stays.

**To know.** There is no point where τ exceeds a fifth of the chains' length; beyond a twentieth it is up to a tenth too
small. "Edge": best at an end of its grid; where the fresh uniform's is, no gain is claimed. Persistent bests are chosen
from five times as many settings; a difference must exceed what chance makes of the largest of nine at each δ.
Clustering: the variance of the number of rejections in 20 successive decisions, over that of independent ones.
Certificate: ggmc and amagold persistent uniform; with kept momentum [`python -m sgmcmc.certify --word ABOBA --output
results/words/ABOBA`](words/ABOBA/certificate.md).
"""
PAIRS, HEART = ("gaussian_pairs", 2.0), ("heart", None)
CASES = {
    ("gaussian_pairs", 0.0, "OBABO", 1): "exact gradients: GGMC, 1 step",
    (*PAIRS, "OBABO", 1): "noise: GGMC, 1 step",
    (*PAIRS, "ABOBA", 1): "noise: AMAGOLD, 1 step",
    (*PAIRS, "OBABO", 4): "noise: GGMC, 4 steps",
    (*PAIRS, "ABOBA", 4): "noise: AMAGOLD, 4 steps",
    (*HEART, "OBABO", 1): "Heart: GGMC, 1 step",
    (*HEART, "ABOBA", 1): "Heart: AMAGOLD, 1 step",
    (*HEART, "OBABO", 4): "Heart: GGMC, 4 steps",
    (*HEART, "ABOBA", 4): "Heart: AMAGOLD, 4 steps",
}
LOOKS = ((GREEN, "o"), (BLUE, "s"), (ORANGE, "^"), (PURPLE, "D"), (RED, "v"))  # of decays, from the smallest
PUBLISHED = "AMAGOLD as published: fresh momentum and uniform"
MEASURES = {"ess": "coordinates", "ess_U": "U"}


def prepared(table: pd.DataFrame) -> pd.DataFrame:
    """The finished rows, with the ESS of the slower of coordinates and U, and its error."""
    done = table[table.status == "done"]
    known = done[["ess_error", "ess_U_error"]].notna().all(axis=1)
    energy = done.ess_U < done.ess
    slower, error = done.ess.where(~energy, done.ess_U), done.ess_error.where(~energy, done.ess_U_error)
    return done.assign(slower=slower.where(known), slower_error=error.where(known), decay=done.decay.round(3))


def of_case(table: pd.DataFrame, case: tuple, refresh: str = "keep") -> pd.DataFrame:
    """The rows of a case; with fresh momentum, those of all its lengths."""
    target, noise, word, steps = case
    part = table[(table.target == target) & (table.word == word) & (table.refresh == refresh)]
    part = part if noise is None else part[part.noise == noise]
    return part[part.steps == steps] if refresh == "keep" else part


def paired(rows: pd.DataFrame) -> pd.DataFrame:
    """Those with a persistent uniform, beside the fresh one at the same length, step size and decay (``…_fresh``)."""
    fresh, setting = rows[rows.delta.isna()], ["steps", "step_size", "decay"]
    columns = [name for name in rows if name.startswith(("accepted", "clustering", "slower", "chains"))]
    return rows[rows.delta.notna()].merge(fresh[setting + columns], on=setting, suffixes=("", "_fresh"))


def best(rows: pd.DataFrame, measure: str) -> pd.Series | None:
    """The row of the largest ESS of those whose error is known."""
    known = rows[rows[f"{measure}_error"].notna()]
    return known.loc[known[measure].idxmax()] if len(known) else None


def draw(table: pd.DataFrame) -> Figure:
    """A panel a case: ESS at the best step size over δ, a line a decay; beside it that of a fresh uniform."""
    table = prepared(table)
    figure, panels = pyplot.subplots(3, 3, figsize=(10, 7.6), layout="constrained")
    for panel in panels.flat[2:]:  # exact gradients have their own axis
        panel.sharey(panels[0, 1])
    for (case, heading), panel in zip(CASES.items(), panels.flat, strict=True):
        rows = of_case(table, case)
        for (colour, marker), decay in zip(LOOKS, sorted(rows.decay.unique()), strict=False):
            part = rows[rows.decay == decay]
            own = [best(some, "slower") for _, some in part.groupby("delta")]
            own = pd.DataFrame([row for row in own if row is not None], columns=rows.columns)
            look = {"color": colour, "marker": marker, "ms": 4, "lw": 1.2}
            panel.errorbar(own.delta, own.slower, own.slower_error, **look)
            panel.plot([], [], label=f"decay {decay:g}", **look)
            fresh = best(part[part.delta.isna()], "slower")
            if fresh is not None:
                panel.axhline(fresh.slower, color=colour, lw=1.2, ls=":")
        if not any(len(line.get_xdata()) for line in panel.lines if line.get_marker() != "None"):
            note(panel)
        published = of_case(table, case, "full")
        published = best(published[published.delta.isna()], "slower")
        if published is not None:
            panel.axhline(published.slower, color=GREY, lw=1.2, ls="--")
            panel.tick_params(axis="y", which="both", left=True, labelleft=True)  # where there is no other, too
        deltas = sorted(rows.delta.dropna().unique())
        if len(deltas):
            panel.set(xscale="log", xlim=(deltas[0] / 1.2, deltas[-1] * 1.2))
            panel.set_xticks(deltas, [f"{delta:g}".lstrip("0") for delta in deltas])
            panel.minorticks_off()
            panel.legend(frameon=False, fontsize=7, loc="upper right")
        panel.set_title(heading, fontsize=9)
        clean(panel)
    for some in (panels.flat[:1], panels.flat[1:]):
        if any(np.isfinite(panel.dataLim.intervaly).all() for panel in some):
            some[0].set_yscale("log")
            some[0].set_ylim(top=2.5 * some[0].get_ylim()[1])  # room for the names of the lines
            ticks(some[0].yaxis)
    styles = {
        "persistent uniform": ("black", "-", "o"),
        "fresh uniform": ("black", ":", ""),
        PUBLISHED: (GREY, "--", ""),
    }
    handles = [handle(name, color=colour, ls=ls, marker=marker) for name, (colour, ls, marker) in styles.items()]
    figure.legend(handles=handles, frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    for panel in panels[-1]:
        panel.set_xlabel("δ")
    for panel in panels[:, 0]:
        panel.set_ylabel("ESS / 1,000 gradients,\nslower of coordinates and U")
    figure.suptitle(title(table), fontsize=11)
    return figure


def title(table: pd.DataFrame) -> str:
    """In how many of the noisy cases the persistent uniform is the faster."""
    verdicts = [worth(name, of_case(table, case))[3] for case, name in CASES.items() if case[1] != 0]
    kinds = [verdict.split(":")[0] for verdict in verdicts if not verdict.startswith("not comparable")]
    if not kinds:
        return "Neal's persistent uniform under noisy gradients"
    faster, slower = kinds.count("agrees"), kinds.count("differs")
    said = f"Neal's persistent uniform under noisy gradients: faster in {faster} of {len(kinds)} cases"
    said += f", slower in {slower}" if slower else ""
    return said + (", in the others it is open" if 0 < faster + slower < len(kinds) else "")


def compare(table: pd.DataFrame):
    """The rate stays, rejections cluster; case by case what that is worth at its best; where; beside fresh momentum."""
    table = prepared(table)
    cases = {title: of_case(table, case) for case, title in CASES.items()}
    pairs = pd.concat([paired(rows).assign(case=title) for title, rows in cases.items()], ignore_index=True)
    if pairs.empty:
        yield "persistent and fresh uniforms", "", "", "not comparable: no run"
        return
    away, probability = differences(pairs, "accepted", pairs.chains, pairs.chains_fresh)
    if pd.isna(probability):
        here, verdict = "a difference's error is not known", "not comparable: too few draws"
    else:
        here = f"largest of {len(pairs)} differences in {pairs.case.nunique()} cases {away.abs().max():.1f} errors, "
        here += f"p = {probability:.2g} by Welch's t and Bonferroni over all"
        verdict = "agrees" if probability > CHANCE else "differs"
    yield "acceptance", "that of a fresh uniform", here, verdict
    yield clusters(pairs)
    for title, rows in cases.items():
        yield worth(title, rows)
    yield from where(pairs)
    for target, name in ((PAIRS, "pairs with noise"), (HEART, "Heart")):
        yield from published(name, table, target)


def differences(rows: pd.DataFrame, column: str, chains, others) -> tuple[pd.Series, float]:
    """Of numbers and a fresh uniform's, the differences in standard errors, and how probable the largest is by chance:
    Welch's t of so many chains each, and Bonferroni."""
    errors = rows[f"{column}_error"], rows[f"{column}_error_fresh"]
    away = (rows[column] - rows[f"{column}_fresh"]) / np.hypot(*errors)
    return away, chance(away, 1 + freedom(*errors, chains, others))


def clusters(pairs: pd.DataFrame) -> tuple:
    """Whether rejections cluster more at the least δ, in every setting."""
    what, expected = "clustering of rejections", "more than with a fresh uniform"
    tight = pairs[(pairs.delta == pairs.delta.min()) & pairs.clustering.notna() & pairs.clustering_fresh.notna()]
    groups = tight.chains.clip(upper=GROUPS)
    away, _ = differences(tight, "clustering", groups, groups)
    if away.isna().all():
        return what, expected, "no rejections, or chains too few", "not comparable: too few draws"
    least, most, fresh = away.idxmin(), limit(len(tight), groups.min()), tight.clustering_fresh
    here = f"{tight.clustering.min():.1f} to {tight.clustering.max():.1f} at δ = {tight.delta[least]:g}, fresh "
    here += f"{fresh.min():.1f} to {fresh.max():.1f}; the least sure of {len(tight)} differences is "
    here += f"{tight.clustering[least] - fresh[least]:.2f}, {away[least]:.1f} errors ({most:.1f} by chance in one of a "
    here += "hundred tables)"
    verdict = side(away[least], most)
    return what, expected, here, verdict


def worth(title: str, rows: pd.DataFrame) -> tuple:
    """The best settings of a persistent and of a fresh uniform, by the slower of coordinates and U."""
    what, expected = f"{title}: best ESS of the slower of coordinates and U", "more (Neal, exact gradients)"
    kinds = {"persistent": rows[rows.delta.notna()], "fresh": rows[rows.delta.isna()]}
    ours, others = (best(some, "slower") for some in kinds.values())
    if ours is None or others is None:
        return what, expected, "τ not known", "not comparable: too few draws"
    here = f"{of_setting(ours, kinds['persistent'])}, fresh {of_setting(others, kinds['fresh'])}"
    for measure, name in MEASURES.items():
        one, other = (best(some, measure) for some in kinds.values())
        here += f"; {name} alone {one[measure] / other[measure]:.1f} times"
    number = len(CASES) * kinds["persistent"].delta.nunique()
    return what, expected, here, more(ours, others, edges(others, kinds["fresh"]), number)


def more(ours: pd.Series, others: pd.Series, edge: str = "", number: int = 1) -> str:
    """The verdict on the slower ESS of one setting over that of another, whose grid could be wider at an ``edge``, as
    one of ``number`` such comparisons."""
    errors = ours.slower_error, others.slower_error
    away, ratio = (ours.slower - others.slower) / np.hypot(*errors), ours.slower / others.slower
    most = of_groups(errors, (ours, others), number)
    if away > most and edge:
        return f"not decided: {ratio:.1f} times, but the other's best is at the edge of its grid, {edge}"
    if not abs(away) >= most:
        return f"not resolved: {away:+.1f} errors; of {number} comparisons {most:.1f} would decide"
    return f"agrees: {ratio:.1f} times" if away > 0 else "differs: less"


def edges(row: pd.Series, rows: pd.DataFrame) -> str:
    """At which edges of its grid a setting is, in words."""
    names = {"delta": "δ", "step_size": "h", "steps": "L"}
    if row.refresh == "keep":  # of fresh momentum the friction hardly matters
        names["decay"] = "decay"
    values = {column: sorted(rows[column].dropna().unique()) for column in names}
    ends = [column for column, some in values.items() if len(some) > 1 and row[column] in (some[0], some[-1])]
    return ", ".join(f"{names[column]} = {row[column]:g}" for column in ends)


def of_setting(row: pd.Series, rows: pd.DataFrame) -> str:
    """A best ESS with its error, where it is, and whether that is at an edge of the grid ``rows``."""
    where = [f"δ = {row.delta:g}"] if pd.notna(row.delta) else []
    where += [f"L = {row.steps:g}"] if rows.steps.nunique() > 1 else []
    where += [f"h = {row.step_size:g}", f"decay {row.decay:g}"]
    edge = edges(row, rows)
    return f"{row.slower:.3g} ± {row.slower_error:.1g} ({', '.join(where)}{'; edge: ' + edge if edge else ''})"


def where(pairs: pd.DataFrame):
    """The gain over a fresh uniform at the same step size and decay: its geometric mean over settings, by what."""
    gain = np.log(pairs.slower / pairs.slower_fresh)
    decays = pairs.groupby("case").decay
    lengths = (pairs.decay == decays.transform("max")) + 1.0 - (pairs.decay == decays.transform("min"))
    kinds = pairs.target.map({"heart": "Heart"}).fillna("pairs with noise").where(pairs.noise != 0, "exact gradients")
    names = {0: "smallest", 1: "between", 2: "largest"}
    for what, key in (("δ", pairs.delta.map("{:g}".format)), ("decay", lengths.map(names)), ("target", kinds)):
        texts = [
            f"{name} {np.exp(some.mean()):.2f}" for name, some in gain.groupby(key, sort=False) if some.notna().any()
        ]
        here = ", ".join(texts) or "τ not known"
        yield f"gain at the same step size and decay, by {what}", "not known", here, "not claimed"


def paid(rows: pd.DataFrame, target: str) -> pd.DataFrame:
    """Rows of AMAGOLD, a gradient a step, whose ESS has paid for U at a trajectory's end."""
    share = share_left(rows.steps, target)
    return rows.assign(slower=rows.slower * share, slower_error=rows.slower_error * share)


def published(name: str, table: pd.DataFrame, target: tuple):
    """AMAGOLD with fresh momentum, as published, against kept momentum and a persistent uniform."""
    full = of_case(table, (*target, "ABOBA", 0), "full")
    kept = [of_case(table, case) for case in CASES if case[:3] == (*target, "ABOBA")]
    kept = paid(pd.concat([rows[rows.delta.notna()] for rows in kept]), target[0])
    fresh = paid(full[full.delta.isna()], target[0])
    ours, others, what = best(kept, "slower"), best(fresh, "slower"), f"AMAGOLD on {name}"
    if ours is None or others is None:
        yield f"{what}: as published", "slower", "τ not known", "not comparable: no run, or too few draws"
        return
    here = f"{of_setting(ours, kept)}, as published {of_setting(others, fresh)}"
    over = "kept momentum and a persistent uniform over fresh momentum and a fresh uniform, U paid"
    verdict = more(ours, others, edges(others, fresh), 2 * kept.delta.nunique())
    if kept.steps.nunique() == 1:  # each of whose decisions pays U
        verdict = f"not comparable: kept momentum was run with {kept.steps.iloc[0]:g} step a trajectory alone"
    yield f"{what}: {over}", "more", here, verdict
    pairs = paired(full)
    gain = np.log(pairs.slower / pairs.slower_fresh).dropna()
    if len(gain):
        mean, low, high = np.exp([gain.mean(), gain.min(), gain.max()])
        ranges = (
            f"{letter} = {', '.join(f'{one:g}' for one in sorted(pairs[column][gain.index].unique()))}"
            for letter, column in (("δ", "delta"), ("L", "steps"))
        )
        here = f"{mean:.2f} times in the geometric mean of {len(gain)} settings, {low:.2f} to {high:.2f} "
        here += f"({'; '.join(ranges)})"
        yield f"{what}: a persistent uniform with fresh momentum", "no gain", here, "not claimed"
