"""The verdicts beside the papers' claims: of small tables in which a claim holds, fails, is unresolved or diverged."""

from __future__ import annotations

import math
import sys
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import draw  # noqa: E402
import verdicts  # noqa: E402

NAN, MANY = math.nan, 10**6  # chains, so many that Student's t is the normal's
RATES = (1e-6, 1e-4, 1e-3, 1e-2)


@cache
def figure(name: str):
    return draw.load(ROOT / "scripts" / "figures" / f"{name}.py")


def grid(**axes) -> list[dict]:
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def table(rows, changed: dict, by: int, **common) -> pd.DataFrame:
    """Rows with what they have in common, and what is changed in those whose first ``by`` values are a key."""
    common = {"status": "done", "why": "", "chains": MANY, "frozen": 0} | common
    return pd.DataFrame([common | row | changed.get(tuple(row.values())[:by], {}) for row in rows])


# ---- what the figures have in common


def test_chance_and_limits_are_student_s():
    """Of one degree of freedom P(|t| > x) = 1 − (2/π) arctan x, of two 1 − x/√(2 + x²)."""
    assert verdicts.chance([4, -1], [3, 2]) == pytest.approx(2 * (1 - 4 / 18**0.5))
    assert verdicts.chance([-1, 1, 0], [2, 2, 2]) == 1
    assert all(math.isnan(verdicts.chance(away, [3] * len(away))) for away in ([], [1, NAN]))
    assert verdicts.limit(chains=2) == pytest.approx(1 / math.tan(math.pi * 0.005))
    x = verdicts.limit(5, 3)
    assert 1 - x / (2 + x * x) ** 0.5 == pytest.approx(0.002, rel=1e-6)
    assert verdicts.limit(chains=1) == verdicts.limit(chains=NAN) == math.inf
    assert verdicts.freedom(0.3, 0.4, 5, 3) == pytest.approx(0.25**2 / (0.0081 / 4 + 0.0256 / 2))
    for here, verdict in ((1.29, "agrees"), (0.71, "agrees"), (1.31, "differs by +0.31"), (0.6, "differs by -0.4")):
        assert verdicts.close(here, 1, 0.1) == verdict


@pytest.mark.parametrize(
    ("away", "least", "said"),
    [
        (3.1, 3, "agrees"),
        (-3.1, 3, "differs: -3.1 standard errors apart"),
        (3.1, 6, "not resolved: 3.1 standard errors apart, and of so few chains 6.0 would decide"),
        (-2.9, 3, "not resolved: -2.9 standard errors apart"),
    ],
)
def test_a_difference_is_on_one_side_or_on_none(away, least, said):
    assert verdicts.decided(away, least) == said
    assert verdicts.side(-away, least, ("less", "more")) == {"a": "more", "d": "less"}.get(said[0], "not resolved")


@pytest.mark.parametrize(
    ("lost", "verdict"),
    [
        ({}, "fine"),
        ({"frozen": 2}, "differs: 2 of 32 chains of AMAGOLD diverged"),
        ({"status": "diverged", "why": "diverged at 9"}, "differs: AMAGOLD, diverged at 9"),
        ({"status": "failed", "why": "no space"}, "not comparable: AMAGOLD, no space"),
        ({"sampler": "hmc"}, "not comparable: no run of AMAGOLD"),
    ],
)
def test_what_was_lost_is_the_verdict(lost, verdict):
    """The verdict's function has the rows in the order of their keys, and is not asked where one of them is lost."""
    rows = [{"sampler": "sghmc", "step_size": 0.1}, {"sampler": "amagold", "step_size": 0.2} | lost]
    rows = table(rows, {}, 0, chains=30)
    keys = [("sghmc", 0.1), ("amagold", 0.2)]
    found = verdicts.Rows(rows, "sampler", "step_size").judge(
        "what", "paper", keys, lambda *two: (two[1].step_size, "fine")
    )
    assert found == ("what", "paper", 0.2 if verdict == "fine" else "", verdict)


# ---- tables in which the claims hold, but for what is changed


def well(changed):
    sampler = {"EA": "sghmc", "AE": "sghmc", "ABOBA": "amagold"}
    rows = [
        row | {"sampler": sampler[row["word"]], "J_one": 0.7 if row["step_size"] < 0.02 else 0.2}
        | ({"J": 0.1, "J_error": 0.04} if row["word"] == "ABOBA" else {"J": 0.9, "J_error": 0.03})
        for row in grid(word=sampler, step_size=(0.01, 0.05, 0.1, 0.15, 0.2, 0.25))
    ]  # fmt: skip
    common = {"tuned_to": NAN, "mean": -2.14796, "mean_error": 0.1, "variance": 2.86177, "variance_error": 0.2}
    x = np.linspace(-9.95, 9.95, 200)  # and a normal density in place of the double well's
    return table(rows, changed, 2, **common), pd.DataFrame({"x": x, "exact": np.exp(-(x**2) / 2)})


def plane(changed):
    """SGHMC's second table is as its rows in the first, but for what is changed under the name AE."""
    j, bias = {"sghmc": 9.0, "amagold": 2.0, "l2mc": 1.0}, {"sghmc": 5.0, "amagold": 0.2, "l2mc": 0.0}
    rows = [
        row
        | {"J": j[row["sampler"]], "bias": bias[row["sampler"]] + row["step_size"] * (row["sampler"] == "sghmc")}
        | {"exact_p": 0.004 if row["sampler"] == "sghmc" else 0.006, "draws_a_chain": 200, "autocorrelation_time": 10}
        for row in grid(sampler=j, step_size=(0.01, 0.05, 0.25))
    ]
    densities = pd.DataFrame(grid(model=("banana", "mixture"), density=(0.1, 0.5, 0.3)))
    changed, common = {("amagold", 0.05): {"J": 1.2}} | changed, {"model": "banana", "J_error": 0.1, "floor": 0.5}
    first = table(rows, changed, 2, **common, bias_error=0.1)
    return first, densities, as_printed(rows, changed, 2, **common, bias_error=0.1)


def growth(changed):
    """L2MC's J is 4,500 over the number of draws, down to 1; AMAGOLD's is 2 after 3,375."""
    rows = [{"sampler": "l2mc", "draws_a_chain": n, "J": 1500 / n} for n in (5, 50, 150, 500, 1500)]
    rows += [{"sampler": "amagold", "draws_a_chain": n, "J": j} for n, j in ((5, 900.0), (1125, 2.0))]
    return (table(rows, changed, 2, model="banana", chains=3, J_error=0.01),)


def logistic(changed):
    seconds = {"sghmc": 1.0, "amagold": 1.4, "hmc": 9.0, "l2mc": 2.2}
    rows = [
        row | {"log_mse": (-5 if row["sampler"] == "sghmc" else -9) + (row["step_size"] > 1e-3)}
        for row in grid(sampler=seconds, step_size=(1e-3, 5e-3))
    ]
    common = {"data": "heart", "cycles": 1000, "log_mse_error": 0.1, "mse": 1.0, "mse_error": 0.1, "bias2": 0.1}
    common |= {"bias2_error": 0.1, "autocorrelation_time": 20.0, "passes_a_cycle": 2.0}
    costs = [{"sampler": name, "seconds_a_cycle": each, "passes_a_cycle": 1} for name, each in seconds.items()]
    taken = [{"sampler": "amagold", "step_size": 5e-3, "accepted": 0.5, "frozen": 0}]
    return (
        table(rows, changed, 2, **common),
        table(costs, changed, 1, data="heart"),
        table(taken, changed, 3, data="heart"),
        as_printed(rows, changed, 2, **common),
    )


def as_printed(rows, changed, columns, **common):
    """SGHMC's rows; what is changed in them is under the name AE."""
    changed = {("sghmc", *key): what for (name, *key), what in changed.items() if name == "AE"}
    return table([row for row in rows if row["sampler"] == "sghmc"], changed, columns, **common)


def everywhere(changed):
    """AMAGOLD's error below SGHMC's at two step sizes of both data sets."""
    rows = [
        row | ({"mse": 1.0, "log_mse": -9} if row["sampler"] == "amagold" else {"mse": 2.0, "log_mse": -5})
        for row in grid(sampler=("sghmc", "amagold"), data=("australian", "heart"), step_size=(1e-3, 5e-3))
    ]
    common = {"cycles": 1000, "log_mse_error": 0.1, "mse_error": 0.1, "bias2": 0.1, "bias2_error": 0.1}
    common["autocorrelation_time"] = 20.0
    return table(rows, changed, 3, **common), *logistic({})[1:3], as_printed(rows, changed, 3, **common)


def levels(changed):
    """J of 1.4 times SGHMC's bias; of AMAGOLD, below it."""
    rows = [
        {"sampler": "sghmc", "J": 2.8, "bias": 2.0, "exact_p": 0.004},
        {"sampler": "amagold", "J": 0.5, "bias": 0.29},
    ]
    common = {
        "model": "banana",
        "draws_a_chain": 10,
        "J_error": 0.1,
        "bias_error": 0.1,
        "seconds_a_draw": 1.0,
        "exact_p": 0.006,
    }
    return (table(rows, changed, 1, **common),) * 2


def schedules(changed):
    ways = {"constant": ("forward",), "palindromic_cosine": ("forward",), "cosine": ("random", "forward")}
    rows = [
        row | {"jump": 5.0 + row["step_size"] if name == "constant" else 5.5 - row["step_size"]}
        for name, way in ways.items()
        for row in grid(schedule=[name], direction=way, step_size=(0.1, 0.2))
    ]
    lost = {("cosine", "forward", size): {"accept": 0.0, "true_largest": -7e3, "off": math.inf} for size in (0.1, 0.2)}
    changed = lost | {key: lost.get(key, {}) | value for key, value in changed.items()}
    return (table(rows, changed, 3, jump_error=0.1, accept=0.5, true_largest=5.0, off=1e-13, time=2.0),)


def theorem(changed):
    rows = grid(word=("EA", "AE", "OBABO"), step_size=(0.1, 0.2))
    return table(rows, changed, 2, draws=9, median=0.1, off_formula=1e-15, least=1e-8), None


def cifar(changed):
    """The cycle that the paper shows, at its size: log MH, U a datum and the temperatures are its own."""
    mh = {"ggmc": (2e3, -3e3, -2e4, -9e4), "hmc": (1e3, -2e3, 5e3, -1.5e4)}
    u = {"ggmc": (-0.5,) * 4, "hmc": (-1.5, -0.5, -0.5, -0.1)}
    rows = [
        {"sampler": name, "lr": RATES[at], "step": step, "exact_point": int(step != 400500)}
        | {"log_accept": mh[name][at] * (step > 400100), "potential_per_datum": u[name][at]}
        for name, at, step in product(mh, range(4), (400100, 400500, LATE))
    ]
    changed = {("hmc", 1e-2, LATE): {"kinetic_temperature": 1.12}} | changed
    return (table(rows, changed, 3, data=50000, cycle=101, kinetic_temperature=1.0),)


def training(changed, **noise):
    """All of the paper's training: four cycles, of which the last two count."""
    rows = [
        {"sampler": name, "lr": RATES[at], "cycle": cycle, "log_accept": -mh[at] * (1 if name == "ggmc" else 0.5)}
        | {"potential_per_datum": 0.1 * at * (name == "hmc"), "momentum_decay": decay[at]}
        | {"accept_prob": 0 if at else 0.95 if name == "hmc" else 0.9}
        for mh, decay in [((0.1, 30.0, 1e3, 1e5), (0.999936, 0.999361, 0.997982, 0.993632))]
        for name, at, cycle in product(("ggmc", "hmc"), range(4), (1, 2, 3, 4))
    ]
    common = {"step": 1, "kinetic_temperature": 1.0, "configurational_temperature": 1.0, "test_accuracy": 0.8} | noise
    return (table(rows, changed, 3, **common),)


def clusters(changed):
    rows = [
        {"place": place, "delta": delta, "clustering": 3.0 if place else 2.0, "reach": 5.0 if place else 4.0}
        | {"ess_x1": 10.0 if delta == 0.05 else 8.0, "ess_U": 11.0 if delta in (0.05, 0.1) else 9.0}
        for place, delta in enumerate((NAN, 0.02, 0.05, 0.1, 0.3))
    ]
    common = {"pairs": 10, "alpha": 0.94, "rejected": 0.15, "rejected_error": 0.01, "clustering_error": 0.1}
    common |= {"reach_error": 0.1, "ess_x1_error": 0.1, "ess_U_error": 0.1}
    patterns = [{"accepts": 4, "rejects": 1, "formula": 8.0}, {"accepts": 16, "rejects": 4, "formula": 16.0}]
    patterns = [row | {"simulated": row["formula"], "simulated_error": 0.1} for row in patterns]
    return table(rows, changed, 1, **common), table(patterns, changed, 1)


def rejection(changed):
    rows = [{"pairs": pairs, "quoted": 0.2 * pairs, "rejected": 0.2 * pairs} for pairs in range(1, 11)]
    return (table(rows, changed, 1, sampler="hmc", rejected_error=1e-9, single_chain_sd=0.1),)


def stretches(changed):
    """8 rejections in 7 stretches, and in 2 of four, of 24 decisions; the first row is a start and no decision."""
    rules = {10: "1001101101101101101101111", 9: "1" + 2 * "000011111111"} | changed
    rows = [{"panel": n, "transition": at, "accepted": int(one)} for n in rules for at, one in enumerate(rules[n])]
    return (table(rows, {}, 0),)


def drifts(changed):
    rows = grid(sampler=["ovrvo"], step_size=(0.1, 0.2), drift=[0.001])
    rows += grid(sampler=["sghmc"], step_size=(0.1, 0.2), drift=[1.0])
    common = {"drift_error": 0.001, "swing": 1.0, "curvature_drift": 1e-6, "curvature_swing": 1.0, "leading": 0.1}
    common |= {"steps": 4000}
    return None, table(rows, changed, 2, **common)


def temperatures(changed):
    rows = grid(sampler=("ovrvo", "ggmc", "baoab", "aboba", "sghmc"), step_size=(0.5, 1.0, 1.5))
    common = {"variance_formula": 1.3, "kinetic_formula": 1.0, "variance_error": 0.1, "kinetic_error": 0.1}
    changed = {("sghmc", 1.5): {"stable": 0, "kinetic": NAN, "variance": NAN}} | changed
    return (table(rows, changed, 2, variance=1.3, kinetic=1.0, kinetic_half_formula=1.3, stable=1, **common),)


HEART_1, HEART_5 = (f"(b) Heart, ε = {size}: AMAGOLD's error below SGHMC's" for size in (0.001, 0.005))
PRINTED_1, PRINTED_5 = (one.replace("SGHMC's", "that of SGHMC as printed (AE)") for one in (HEART_1, HEART_5))
LATE = 404101  # the end of the cycle
CASES = [
    # figure, table, what is changed in it, words of its rows, verdict (all of it, where it ends with a point)
    ("amagold_fig1", well, {}, "", ("agrees.", "not c")),
    ("amagold_fig1", well, {("EA", 0.25): {"J": 0.24}}, "in the code (EA), is", "not resolved"),  # 2.8 of √(3² + 4²)
    ("amagold_fig1", well, {("AE", 0.25): {"J": 0.26}}, "printed (AE), is", "agrees."),
    ("amagold_fig1", well, {("ABOBA", 0.1): {"frozen": 3}}, "right distribution", "differs: 3 of"),
    ("amagold_fig1", well, {("ABOBA", 0.1): {"mean": -2.46796}}, "right distribution", "agrees."),  # limit 3.29 of 10
    ("amagold_fig1", well, {("ABOBA", 0.05): {"mean": -1.80796}}, "right distribution", "differs."),
    ("amagold_fig1", well, {("ABOBA", 0.25): {"variance": 2.18177}}, "right distribution", "differs."),
    ("amagold_fig1", well, {("ABOBA", 0.1): {"mean": -2.49796, "chains": 32}}, "right distribution", "agrees."),  # 3.63
    ("amagold_fig1", well, {("EA", 0.01): {"J_one": 0.59}}, "too small for both", "differs."),
    ("amagold_fig1", well, {("ABOBA", 0.01): {"J_one": 0.59}}, "too small for both", "differs."),
    ("amagold_fig1", well, {("EA", 0.05): {"mean": 0.15, "variance": 10 / 11 + 0.2}}, "T/(T + 1)", "not claimed: 1.5"),
    ("amagold_fig1", well, {("AE", 0.05): {"mean": 0.15, "variance": 10 / 9 - 0.4}}, "T/(T − 1)", "not claimed: 2.0"),
    ("amagold_fig6", well, {("EA", 0.15): {"J_one": 0.3}}, "SGHMC at", "differs"),
    ("amagold_fig6", well, {("ABOBA", 0.01): {"J_one": 0.61}}, "AMAGOLD at", "agrees"),
    ("amagold_fig6", well, {("ABOBA", 0.15): {"J": 0.76}}, "farther", "not resolved"),
    ("amagold_fig2", plane, {}, "Dist1, ε = .25: SGHMC", "agrees"),
    ("amagold_fig2", plane, {("sghmc", 0.25): {"J": 2.4}}, "Dist1, ε = .25: SGHMC", "not resolved"),
    (
        "amagold_fig2",
        plane,
        {("amagold", 0.25): {"J": 1.2}},
        "Dist1, ε = .25: AMAGOLD",
        "agrees",
    ),  # 1.2 ± .16 of L2MC's
    ("amagold_fig2", plane, {("amagold", 0.25): {"J": 1.6}}, "Dist1, ε = .25: AMAGOLD", "not resolved"),  # ± .19
    ("amagold_fig2", plane, {("amagold", 0.25): {"J": 2.8}}, "Dist1, ε = .25: AMAGOLD", "not resolved"),  # ± .30
    ("amagold_fig2", plane, {("amagold", 0.25): {"J": 3.1}}, "Dist1, ε = .25: AMAGOLD", "differs: a factor of 3.1"),
    ("amagold_fig2", plane, {}, "| 0.2 ± 0.1, 1 ± 0.1 at 0.05, 0.25 |", "agrees"),
    ("amagold_fig2", plane, {("l2mc", 0.25): {"J": 1.3}}, "Dist1: AMAGOLD's J less", "not resolved"),
    ("amagold_fig2", plane, {("amagold", 0.25): {"J": 0.5}}, "Dist1: AMAGOLD's J less", "differs"),
    ("amagold_fig2", plane, {}, "Dist1, ε = .25: bias", "agrees"),
    ("amagold_fig2", plane, {("amagold", 0.25): {"exact_p": 0.004}}, "Dist1, ε = .25: bias", "differs"),
    ("amagold_fig2", plane, {("sghmc", 0.25): {"exact_p": 0.006}}, "Dist1, ε = .25: bias", "not resolved"),
    ("amagold_fig2", plane, {("amagold", 0.25): {"exact_p": NAN}}, "Dist1, ε = .25: bias", "not resolved"),
    ("amagold_fig2", plane, {}, "least likely of 6 settings has p = 0.006, by Bonferroni over all 0.036", "agrees"),
    ("amagold_fig2", plane, {}, "finds 3 of 3 uncorrected settings", "agrees"),
    ("amagold_fig2", plane, {("l2mc", 0.05): {"exact_p": 0.0015}}, "corrected samplers", "differs"),  # 6 p < .01
    ("amagold_fig2", plane, {("l2mc", 0.05): {"exact_p": 0, "autocorrelation_time": 11}}, "of 1 setting of", "agrees"),
    ("amagold_fig2", plane, {("l2mc", 0.05): {"exact_p": 0, "autocorrelation_time": NAN}}, "of 1 setting of", "agrees"),
    ("amagold_fig2", plane, {}, "Dist1: the bias of SGHMC, as", "not resolved"),  # .24 ± .14 more
    ("amagold_fig2", plane, {("sghmc", 0.25): {"bias": 5.45}}, "Dist1: the bias of SGHMC, as in", "agrees"),  # .44
    ("amagold_fig2", plane, {("AE", 0.25): {"bias": 5.45}}, "Dist1: the bias of SGHMC, as in", "not resolved"),
    ("amagold_fig2", plane, {("AE", 0.25): {"bias": 5.45}}, "Dist1: the bias of SGHMC, as printed", "agrees"),
    ("amagold_fig2", plane, {("AE", 0.05): {"bias": 4.4}}, "Dist1: the bias of SGHMC, as printed", "differs: it falls"),
    ("amagold_fig2", plane, {("AE", 0.01): {"bias": 8.0}}, "Dist1, ε = .01: the bias of SGHMC, AE", "not claimed: 80"),
    ("amagold_fig3", growth, {}, "a factor of 1.50", "agrees."),  # 3,375 draws of AMAGOLD, 2,250 of L2MC
    ("amagold_fig3", growth, {("amagold", 1125): {"J": 4.0}}, "", "differs: a factor of 3.0"),
    ("amagold_fig3", growth, {("amagold", 1125): {"J": 0.9}}, "", "not resolved"),
    ("amagold_fig3", growth, {("amagold", 1125): {"J_error": 0.6}}, "", "not resolved"),  # 2 within three errors
    ("amagold_fig4", logistic, {}, HEART_1, "agrees"),
    ("amagold_fig4", logistic, {("amagold", 1e-3): {"log_mse": -4.5}}, HEART_1, "differs"),
    ("amagold_fig4", logistic, {("amagold", 1e-3): {"autocorrelation_time": 21.0}}, HEART_1, "not comparable: 1,000"),
    ("amagold_fig4", logistic, {("sghmc", 1e-3): {"autocorrelation_time": NAN}}, HEART_1, "not comparable: 1,000"),
    ("amagold_fig4", logistic, {("amagold", 5e-3): {"log_mse": -4.6, "chains": 2}}, HEART_5, "not resolved: 4.2"),
    ("amagold_fig4", logistic, {("AE", 1e-3): {"log_mse": -9.3}}, HEART_1, "agrees."),
    ("amagold_fig4", logistic, {("AE", 1e-3): {"log_mse": -9.3}}, PRINTED_1, "not resolved"),
    ("amagold_fig4", logistic, {("AE", 5e-3): {"log_mse": -12}}, PRINTED_5, "differs"),
    ("amagold_fig4", logistic, {("sghmc", 5e-3): {"log_mse": -12}}, PRINTED_5, "agrees."),
    ("amagold_fig4", logistic, {("AE", 1e-3): {"autocorrelation_time": 21.0}}, PRINTED_1, "not comparable: 1,000"),
    (
        "amagold_fig4",
        everywhere,
        {("AE", "heart", size): {"log_mse": -9} for size in (1e-3, 5e-3)},
        "below that of SGHMC as printed (AE), all 4 step sizes",
        "not resolved: decided in 2 of 4.",
    ),
    ("amagold_fig4", logistic, {}, "Heart: AMAGOLD's error", "agrees"),  # −8 at .005 and −9 at .001
    (
        "amagold_fig4",
        logistic,
        {("amagold", 5e-3): {"log_mse": -9.9}},
        "Heart: AMAGOLD's error",
        "not decided: -6.4 standard errors apart; 0.50 are accepted, which is not low (under 0.2; Figure 8): the paper",
    ),
    (
        "amagold_fig4",
        logistic,
        {("amagold", 5e-3): {"log_mse": -9.9}, ("amagold", 5e-3, 0.5): {"accepted": 0.1}},
        "Heart: AMAGOLD's error",
        "differs: -6.4 standard errors apart.",
    ),
    ("amagold_fig4", logistic, {}, "1 ± 0.1 against 1 ± 0.1, 1 times", "agrees"),
    ("amagold_fig4", logistic, {}, "1400.00 ms against 2200.00 ms, a factor of 1.57", "agrees"),
    ("amagold_fig4", logistic, {("l2mc",): {"seconds_a_cycle": 2.0}}, "Heart: AMAGOLD faster", "not decided"),
    ("amagold_fig4", logistic, {("hmc",): {"seconds_a_cycle": 0.9}}, "Heart: AMAGOLD faster", "differs"),
    ("amagold_fig4", logistic, {}, "Heart: AMAGOLD not", "not decided: between 1 and 2.25 times."),
    ("amagold_fig4", logistic, {("sghmc",): {"seconds_a_cycle": 0.9}}, "Heart: AMAGOLD not", "not decided"),  # 1.56
    ("amagold_fig4", logistic, {("sghmc",): {"seconds_a_cycle": 1.5}}, "Heart: AMAGOLD not", "agrees: no slower."),
    ("amagold_fig4", logistic, {("sghmc",): {"seconds_a_cycle": 0.6}}, "Heart: AMAGOLD not", "differs: 2.3 times."),
    (
        "amagold_fig4",
        logistic,
        {("amagold",): {"passes_a_cycle": 3}},
        "against 1.00, 3.00 times as many",
        "not decided",
    ),
    (
        "amagold_fig4",
        logistic,
        {("amagold",): {"passes_a_cycle": 3}},
        "3.00 passes over the data against 1 (HMC)",
        "agrees",
    ),
    (
        "amagold_fig4",
        logistic,
        {},
        "1e+03 against 1e+03, of 1,000 and 1,000",
        "not claimed: 0.0 standard errors apart.",
    ),
    (
        "amagold_fig4",
        logistic,
        {("hmc", 5e-3): {"cycles": 2000, "passes_a_cycle": 10.0}},
        "1e+03 against 2e+03, of 1,000 and 2,000; squared error times passes over the data 2e+03 against 2e+04",
        "not claimed: -4.9 standard errors apart.",  # log 2 of √2 · .1
    ),
    (
        "amagold_fig4",
        logistic,
        {("hmc", 5e-3): {"autocorrelation_time": 21.0}},
        "Heart, ε = .005: squared",
        "not comparable: 1,000",
    ),
    (
        "amagold_fig4",
        everywhere,
        {},
        "0.50 to 0.50 times SGHMC's, above 1 in 0 of 4, and in 0 of the 4",
        "agrees: in 4 of 4.",
    ),
    (
        "amagold_fig4",
        everywhere,
        {("amagold", "australian", size): {"log_mse": -5, "mse": 2.2} for size in (1e-3, 5e-3)},
        "above 1 in 2 of 4, and in 2 of the 4 whose chains are 50 τ or longer; beyond errors, each at one in a hundred"
        ", smaller in 2 (Heart, ε = 0.001; Heart, ε = 0.005), larger in 0 |",
        "not resolved: decided in 2 of 4.",
    ),
    (
        "amagold_fig4",
        everywhere,
        {
            ("amagold", *key): {"log_mse": -1, "mse": 9.0}
            for key in (("australian", 1e-3), ("australian", 5e-3), ("heart", 1e-3))
        },
        "smaller in 1 (Heart, ε = 0.005), larger in 3 (Australian, ε = 0.001; Australian, ε = 0.005; Heart, ",
        "differs: in 3 of 4.",
    ),
    (
        "amagold_fig4",
        everywhere,
        {("sghmc", "heart", 1e-3): {"autocorrelation_time": 21.0}, ("amagold", "heart", 1e-3): {"mse": 3.0}},
        "above 1 in 1 of 4, and in 0 of the 3 whose",
        "agrees: in 4 of 4.",
    ),
    (
        "amagold_fig4",
        everywhere,
        {("amagold", *key): {"autocorrelation_time": NAN} for key in product(("australian", "heart"), (1e-3, 5e-3))},
        "all 4 step sizes",
        "not comparable: 1,000",
    ),
    ("amagold_fig4", everywhere, {("amagold", "heart", 5e-3): {"frozen": 1}}, "all 4 step sizes", "differs: 1 of"),
    ("amagold_fig7", levels, {("amagold",): {"seconds_a_draw": 0.99}}, "(a) Dist1: seconds", "agrees: no slower."),
    ("amagold_fig7", levels, {("amagold",): {"seconds_a_draw": 1.41}}, "(a) Dist1: seconds", "not decided: between 1"),
    ("amagold_fig7", levels, {("amagold",): {"seconds_a_draw": 2.3}}, "(a) Dist1: seconds", "differs: 2.3 times."),
    ("amagold_fig7", levels, {}, "(a) Dist1: SGHMC eventually", "agrees."),
    ("amagold_fig7", levels, {("sghmc",): {"J": 3.1}}, "(a) Dist1: SGHMC eventually", "agrees: by the bias"),
    ("amagold_fig7", levels, {("amagold",): {"J": 2.4}}, "(a) Dist1: SGHMC eventually", "agrees: by the bias"),
    ("amagold_fig7", levels, {("amagold",): {"exact_p": 0.004}}, "(a) Dist1: SGHMC eventually", "differs: AMAGOLD"),
    ("amagold_fig7", levels, {("sghmc",): {"exact_p": 0.006}}, "(a) Dist1: SGHMC eventually", "not resolved"),
    ("amagold_fig7", levels, {("amagold",): {"exact_p": NAN}}, "(a) Dist1: SGHMC eventually", "not resolved"),
    ("ggmc_appendix_c", schedules, {("constant", "forward", 0.2): {"off": 1e-8}}, "constant", ("differs", "not c")),
    ("ggmc_appendix_c", schedules, {("cosine", "random", 0.2): {"off": 1e-8}}, "cosine, random", "differs"),
    ("ggmc_appendix_c", schedules, {("cosine", "random", 0.2): {"off": 1e-10}}, "cosine, random", "not claimed: exact"),
    ("ggmc_appendix_c", schedules, {}, "cosine (Zhang", "agrees"),
    ("ggmc_appendix_c", schedules, {("cosine", "forward", 0.2): {"accept": 0.01}}, "cosine (Zhang", "differs"),
    ("ggmc_appendix_c", schedules, {("cosine", "forward", 0.2): {"true_largest": -690.0}}, "cosine (Zhang", "differs"),
    ("ggmc_appendix_c", schedules, {("constant", "forward", 0.2): {"jump": 5.1}}, "best exp", "not claimed: no diff"),
    ("ggmc_appendix_c", schedules, {("palindromic_cosine", "forward", 0.1): {"jump": 5.9}}, "best e", "not claimed: t"),
    ("ggmc_appendix_c", schedules, {("constant", "forward", 0.2): {"jump": 5.9}}, "best exp", "not claimed: it loses"),
    ("ggmc_theorem1", theorem, {}, "", ("agrees", "not claimed")),
    ("ggmc_theorem1", theorem, {("EA", 0.1): {"least": 1e-13}}, "SGHMC, EA: backward", "differs"),
    ("ggmc_theorem1", theorem, {("AE", 0.2): {"off_formula": 1e-11}}, "nearest distance, each draw | h·abs", "differs"),
    ("ggmc_theorem1", theorem, {("OBABO", 0.1): {"off_formula": 1e-11}}, "GGMC", "differs"),
    ("ggmc_fig1", cifar, {}, "", "agrees"),
    ("ggmc_fig1", cifar, {("ggmc", 1e-2, LATE): {"log_accept": -4e4}}, "GGMC: log MH", "differs"),
    ("ggmc_fig1", cifar, {("ggmc", 1e-6, LATE): {"log_accept": 1.1e4}}, "GGMC: log MH", "differs"),
    ("ggmc_fig1", cifar, {("ggmc", 1e-3, LATE): {"log_accept": -6e3}}, "GGMC: log MH", "differs"),
    ("ggmc_fig1", cifar, {("hmc", 1e-2, LATE): {"log_accept": 4e3}}, "HMC: abs", "differs"),
    ("ggmc_fig1", cifar, {("hmc", 1e-4, LATE): {"log_accept": 9e3}}, "HMC: abs", "agrees"),  # below where it grows
    ("ggmc_fig1", cifar, {("ggmc", 1e-4, LATE): {"log_accept": -3e4}}, "GGMC: abs", "differs"),
    (
        "ggmc_fig1",
        cifar,
        {("hmc", 1e-4, LATE): {"log_accept": -4e3}},
        "HMC accepts more",
        "differs: less at ℓ = 0.0001",
    ),
    ("ggmc_fig1", cifar, {("ggmc", 1e-4, 400500): {"kinetic_temperature": 0.83}}, "GGMC: kinetic", "differs"),
    ("ggmc_fig1", cifar, {("ggmc", 1e-4, 400500): {"kinetic_temperature": 0.87}}, "GGMC: kinetic", "agrees"),
    ("ggmc_fig1", cifar, {("hmc", 1e-2, LATE): {"kinetic_temperature": 1.04}}, "1.000 to 1.040", "differs"),
    ("ggmc_fig1", cifar, {("ggmc", 1e-2, LATE): {"potential_per_datum": 1.0}}, "potentials", "differs"),
    ("ggmc_figd1", training, {}, "", ("agrees", "not comparable: another start")),
    ("ggmc_figd1", training, {("ggmc", 1e-6, 1): {"momentum_decay": 0.9}}, "", "not comparable"),  # of fewer data
    ("ggmc_figd1", training, {("ggmc", 1e-3, 3): {"log_accept": 3e5}}, "GGMC: abs", "differs"),  # half in the mean
    ("ggmc_figd1", training, {("ggmc", 1e-3, 3): {"log_accept": 2e5}}, "GGMC: abs", "not resolved: -5e+02 to ℓ = 0.01"),
    ("ggmc_figd1", training, {("ggmc", 1e-3, 2): {"log_accept": 9e9}}, "GGMC: abs", "agrees"),  # of the first half
    ("ggmc_figd1", training, {("ggmc", 1e-2, 4): {"log_accept": -math.inf}}, "GGMC: abs", "agrees"),
    (
        "ggmc_figd1",
        training,
        {("ggmc", rate, 4): {"log_accept": -math.inf} for rate in (1e-3, 1e-2)},
        "GGMC: abs",
        "not resolved: +0 to ℓ = 0.01",
    ),
    ("ggmc_figd1", partial(training, noise=6.0), {}, "GGMC: abs", "agrees"),  # 3 √(½ (.2 + 60 + 2 · 36)) = 24.4
    (
        "ggmc_figd1",
        partial(training, noise=9.0),
        {},
        "GGMC: abs",
        "not resolved: +30 to ℓ = 0.0001, where less than 32",
    ),
    ("ggmc_figd1", training, {("hmc", 1e-4, 4): {"accept_prob": 0.9}}, "HMC: acceptance", "agrees"),  # .45 of two
    ("ggmc_figd1", training, {("hmc", 1e-6, 4): {"accept_prob": 0.01}}, "HMC: acceptance", "differs"),
    ("ggmc_figd1", training, {("hmc", 1e-4, 4): {"log_accept": -46.0}}, "HMC accepts more", "agrees"),  # .5 of ± 7.8
    (
        "ggmc_figd1",
        training,
        {("ggmc", 1e-3, cycle): {"log_accept": 0.0} for cycle in (3, 4)},
        "HMC accepts more",
        "differs: less at ℓ = 0.001",
    ),
    ("ggmc_figd1", partial(training, noise=1e5), {}, "HMC accepts more", "not resolved"),
    ("ggmc_figd1", training, {("hmc", 1e-4, 4): {"accept_prob": 1.0}}, "HMC: acceptance", "differs"),
    ("ggmc_figd1", training, {("hmc", 1e-2, 4): {"log_accept": -2e5}}, "HMC accepts more", "differs: less at ℓ = 0.01"),
    ("ggmc_figd1", training, {("ggmc", 1e-2, 4): {"potential_per_datum": 0.82}}, "GGMC's potentials", "differs"),
    ("neal_clustering", clusters, {}, "", "agrees"),
    ("neal_clustering", clusters, {(4,): {"simulated": 8.4}}, "4 accepts", "differs"),
    ("neal_clustering", clusters, {(16,): {"formula": 15.9}}, "16 accepts", "differs"),
    ("neal_clustering", clusters, {(1,): {"rejected": 0.2}}, "rejection rate", "differs"),  # 3.5 of √2 errors
    ("neal_clustering", clusters, {(0,): {"rejected": 0.188}}, "rejection rate", "agrees"),
    ("neal_clustering", clusters, {(2,): {"clustering": 1.0}}, "clustering", "differs"),
    ("neal_clustering", clusters, {(3,): {"clustering": 1.0, "reach": 1.0}}, "", "agrees"),  # .1 is farther from 1 − α
    ("neal_clustering", clusters, {(2,): {"clustering": 2.4, "reach": 3.0}}, "clustering", ("differs", "not")),  # 2.8
    ("neal_clustering", clusters, {(2,): {"clustering": 2.45, "reach": 4.45}}, "", "agrees"),  # 3.2
    ("neal_clustering", clusters, {(2,): {"reach": 4.4}}, "Σ r²/n", ("differs", "not")),
    ("neal_clustering", clusters, {(2,): {"reach": 3.0}}, "Σ r²/n", "differs"),
    ("neal_clustering", clusters, {(2,): {"ess_U": 8.0}}, "0.73 ± 0.01 times the best", "not decided by"),
    ("neal_clustering", clusters, {(2,): {"ess_x1": 5.0}}, "standard acceptance's: 0.6 (x1), 1.2 (U)", "differs"),
    ("neal_clustering", clusters, {(2,): {"ess_x1": 6.1}}, "δ ≈", "not decided: at the edge"),
    ("neal_rejection", rejection, {(3,): {"rejected": 0.92}}, "HMC, 6 dim", "agrees: 3.2"),  # limit 3.29 of 10
    ("neal_rejection", rejection, {(3,): {"rejected": 0.26}}, "HMC, 6 dim", "differs: 3.4"),
    # C(17, 1) + C(17, 2) C(7, 1) of the C(24, 8) orders have two stretches or one: .0013; C(17, 8) have eight: .033.
    ("neal_u", stretches, {}, "4.00 (standard 1.14), one chain each; were they in any order, so few", "agrees"),
    ("neal_u", stretches, {}, "a chance of 1e-03 (standard 0.97;", "agrees"),
    ("neal_u", stretches, {9: "1000001111101110111101111"}, "2.00", "not resolved"),  # 4 stretches: .14
    ("neal_u", stretches, {10: "1" + 2 * "000011111111"}, "standard 4.00", "not resolved"),  # clustered alike
    ("note_energy", drifts, {}, "", "agrees"),
    ("note_energy", drifts, {("ovrvo", 0.2): {"drift": -0.005}}, "OVRVO, h = 0.2", "differs"),
    ("note_energy", drifts, {("sghmc", 0.1): {"drift": 0.002}}, "Euler, h = 0.1", "not resolved"),
    ("note_energy", drifts, {("sghmc", 0.1): {"drift": 0.0065}}, "Euler, h = 0.1", "not resolved"),  # 2.75 errors each
    ("note_energy", drifts, {("sghmc", 0.1): {"drift": 0.0075}}, "Euler, h = 0.1", "agrees"),  # 3.25
    ("note_energy", drifts, {("sghmc", 0.1): {"drift": 0.0075, "chains": 5}}, "Euler, h = 0.1", "not resolved"),
    ("note_energy", drifts, {("sghmc", 0.1): {"drift": -0.1}}, "Euler, h = 0.1", "differs"),
    ("note_energy", drifts, {("ovrvo", 0.2): {"drift": 0.9, "chains": 1}}, "OVRVO, h = 0.2", "not comparable"),
    ("note_energy", drifts, {("ovrvo", 0.2): {"curvature_drift": -2e-3}}, "curvature", "differs"),
    ("note_temperatures", temperatures, {}, "derived here", "not claimed: as derived"),
    ("note_temperatures", temperatures, {("baoab", 1.5): {"variance": 0.8}}, "BAOAB: position", "differs"),
    ("note_temperatures", temperatures, {("aboba", 0.5): {"kinetic": 1.28}}, "ABOBA: kinetic", "not claimed"),
    ("note_temperatures", temperatures, {("aboba", 0.5): {"kinetic": 1.33}}, "ABOBA: kinetic", "differs"),
    ("note_temperatures", temperatures, {("aboba", 0.5): {"kinetic": 1.33, "chains": 20}}, "ABOBA: kinetic", "not c"),
    ("note_temperatures", temperatures, {}, "OVRVO's velocity", "agrees"),
    (
        "note_temperatures",
        temperatures,
        {("ovrvo", 1.0): {"kinetic": 1.5}},
        "OVRVO's velocity",
        "differs",
    ),  # 3.5 of two
    (
        "note_temperatures",
        temperatures,
        {("ovrvo", 1.0): {"kinetic": 1.5, "kinetic_error": 0.2}},
        "OVRVO's v",
        "agrees",
    ),
    ("note_temperatures", temperatures, {("ovrvo", 1.5): {"kinetic": 9.0}}, "OVRVO's v", "agrees"),  # beyond h = 1
    ("note_temperatures", temperatures, {}, "Bussi", "not decided: true of the momentum at half steps"),
    ("note_temperatures", temperatures, {("ggmc", 1.0): {"kinetic": 1.5}}, "Bussi", "agrees"),
    ("note_temperatures", temperatures, {("ggmc", 1.0): {"kinetic": 0.5}}, "Bussi", "differs at whole steps"),
]


@pytest.mark.parametrize(
    ("changed", "title"),
    [
        ({}, "SGHMC is biased at every step size; of corrected samplers no bias is seen"),
        ({("amagold", 0.05): {"exact_p": 0.001}}, "SGHMC is biased at every step size"),
        ({("sghmc", 0.05): {"bias": 0.29}}, "SGHMC is biased where dashed; of corrected samplers no bias is seen"),
        ({("AE", 0.05): {"bias": 0.29}}, "SGHMC is biased where dashed; of corrected samplers no bias is seen"),
    ],
)
def test_figure_2_s_title_claims_no_more_than_its_table(changed, title):
    first, _, printed = plane(changed)
    assert figure("amagold_fig2").title(first, printed) == title


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "make", "changed", "what", "verdict"), CASES)
def test_a_claim_is_judged_by_its_table(name, make, changed, what, verdict):
    """All of a claim's rows have the verdict, or one of several; where it ends with a point it is all of it."""
    module, tables = figure(name), make(changed)
    tables = tables[::-1] if name == "amagold_fig6" else tables
    found = [row[3] + "." for row in module.compare(*tables) if what in " | ".join(map(str, row))]
    assert found and all(one.startswith(verdict) for one in found), found


@pytest.mark.parametrize(
    ("chances", "verdict"),
    [
        ([1.0, 0.0], "not decided: a few cycles"),
        ([0.0] * 9, "not decided: a few cycles"),
        ([1.0] * 6 + [0.0] * 6, "not resolved"),
        ([1.0] * 11 + [0.0], "agrees"),  # 5 errors above a half
        ([0.0] * 11 + [1.0], "differs"),
        ([1.0] * 12, "not decided: all are alike"),
    ],
)
def test_acceptance_as_run_is_judged_over_many_cycles(chances, verdict):
    """By the mean of min(1, MH), which a positive log MH of U's noise makes 1, and not by the size of log MH."""
    rows = [
        {"sampler": name, "lr": rate, "cycle": cycle, "accept_prob": chance if rate == 1e-6 else 0.0, "log_accept": 8.0}
        for name, rate in product(("ggmc", "hmc"), (1e-6, 1e-2))
        for cycle, chance in enumerate(chances, 1)
    ]
    common = {"step": 1, "kinetic_temperature": 1.0, "configurational_temperature": 1.0, "test_accuracy": 0.8}
    common |= {"potential_per_datum": 0.1, "momentum_decay": 0.98}
    as_run, exact = table(rows, {}, 0, noise=20.0, **common), table(rows, {}, 0, **common).assign(accept_prob=1.0)
    found = [row for row in figure("ggmc_figd1_as_run").compare(as_run, exact) if "mean acceptance" in row[0]]
    assert [row[0][:4] for row in found] == ["GGMC", "HMC:"] and all(row[3].startswith(verdict) for row in found)
    assert found[0][2].startswith(f"{np.mean(chances):.2f} in {len(chances)} cycles as run, 1.00 where")
