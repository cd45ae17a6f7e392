"""What the figures of the project's findings say of small tables: of rows in which a claim holds, fails or is open."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from draw import short
from figures import (
    finding_bnn,
    finding_clustering,
    finding_corrected,
    finding_cycles,
    finding_fig1,
    finding_minibatch_mh,
    finding_noise,
    finding_schedules,
    finding_trajectory,
    finding_words,
    finding_words_network,
)


def judged(rows) -> str:
    """The verdicts' first words, by their first letters: a(grees), d(iffers), not c(laimed), not r(esolved), …"""
    letters = {"agrees": "a", "differs": "d", "not claimed": "-", "not resolved": "r", "not comparable": "x"}
    return "".join(letters.get(short(row[3]), "?") for row in rows)


def numbers(text: str) -> str:
    """A sentence's words that have a digit."""
    return " ".join(word.strip("(),:;") for word in text.split() if any(one.isdigit() for one in word))


def changed(table: pd.DataFrame, where: str, **values) -> pd.DataFrame:
    """The table, with other values in the rows of a query."""
    table = table.copy()
    for column, value in values.items():
        table[column] = table[column].astype(object) if isinstance(value, str) else table[column]
        table.loc[table.query(where).index, column] = value
    return table


def schedules() -> pd.DataFrame:
    """On the double well: the constant at mean steps 1, 2, 3, the others between them and one beyond, lower by .1 in
    acceptance, of half the ESS; uncorrected, the cosine has .1 less excess than the constant's .4 there."""
    rows = []
    for schedule, direction, rule, _ in [(*key, None) for key in finding_schedules.LOOK]:
        constant = schedule == "constant"
        for size, time in enumerate((1.0, 2.0, 3.0) if constant else (1.5, 2.5, 3.5), 1):
            row = {"target": "double_well", "schedule": schedule, "direction": direction, "acceptance": rule}
            row |= {"step_size": size, "time": time, "accepted": 1.1 - 0.2 * time - 0.1 * (not constant)}
            row |= {"jump": 4.0 - abs(size - 2), "ess": (8.0 if constant else 4.0) - abs(size - 2)}
            row |= {"jump_error": 0.04, "ess_error": 0.04, "accepted_error": 0.01}
            rows.append(row | {"excess": 0.2 * time - 0.1 - 0.1 * (not constant), "excess_error": 0.01})
    return pd.DataFrame(rows).assign(status="done", chains=50, frozen=0, tau=9.0)


COSINES = "schedule != 'constant' and acceptance == 'metropolis'"


@pytest.mark.parametrize(
    "where, values, verdicts",
    [
        ("time > 3", {"accepted": 1.0, "excess": 9.0}, "a--a"),  # beyond the constant's range
        (COSINES + " and time < 3", {"accepted": 0.7}, "r--a"),  # in the mean the constant's
        ("direction == 'random'", {"accepted": 0.99}, "d--a"),  # one of the two is enough
        ("schedule == 'cosine' and time == 2.5", {"excess": 0.41}, "a--r"),
        ("schedule == 'cosine' and time == 2.5", {"excess": 0.46}, "a--d"),
        ("schedule == 'cosine' and time == 2.5", {"frozen": 1, "excess": 9.0}, "a--a"),  # then the step before it
        ("direction == 'random'", {"status": "diverged"}, "x"),
        ("direction == 'random'", {"ess_error": np.nan}, "a-xa"),
    ],
)
def test_schedules_are_compared_at_one_mean_step(where, values, verdicts):
    found = [row for row in finding_schedules.compare(changed(schedules(), where, **values)) if "double well" in row[0]]
    assert judged(found) == verdicts


def test_a_schedule_gains_where_it_does_and_its_best_is_not_at_the_edge():
    table, more = schedules(), "direction == 'random' and step_size == {}"
    rows = {row[0]: row for row in finding_schedules.compare(table)}
    assert numbers(rows["double well: acceptance less the constant's at one mean step a gradient"][2]) == (
        "-0.100 -0.100 -10 -0.100 -0.100 -10"  # two gaps, whose mean is known to .01
    )
    assert rows["double well: uncorrected excess, cosine and constant at one mean step a gradient"][2] == (
        "0.300 and 0.400 ± 0.014 at 2.5, the largest of 2 that both have"
    )
    for step, ess, said in (
        (2, 8.22, "gains"),  # 3.8 errors, where 3.7 decide
        (2, 7.0, "a loss of 10 %"),
        (2, 8.0, "a gain above 3 %"),
        (1, 7.9, "best at the edge"),
        (3, 7.9, "best at the edge"),
    ):
        found = list(finding_schedules.compare(changed(table, more.format(step), ess=ess)))
        assert f"random {said}" in next(row[3] for row in found if row[0] == "double well: best ESS")
    assert "no gain over a constant" in finding_schedules.title(table)
    assert "no gain" not in finding_schedules.title(changed(table, more.format(2), ess=9.0))


def cycles() -> pd.DataFrame:
    """Half accepted of every cycle; ℓ of HMC that of GGMC, of shuffled epochs ten times that of independent ones."""
    rows = [("independent", 1, 0.8), ("independent", 15, 0.01), ("independent", 45, 1e-3)]
    rows += [("shuffled", 15, 0.1), ("shuffled", 45, 0.01)]
    names = ["minibatches", "steps", "lr"]
    both = [pd.DataFrame(rows, columns=names).assign(sampler=sampler) for sampler in ("ggmc", "hmc")]
    common = {"status": "done", "data": 50_000, "accept_prob": 0.5, "configurational_temperature": 1.0, "epochs": 3.0}
    return pd.concat(both, ignore_index=True).assign(**common, accept_prob_error=0.002, time=1.0)


HMC_LONGEST = "sampler == 'hmc' and minibatches == 'shuffled' and steps == 45"


@pytest.mark.parametrize(
    "where, values, verdicts",
    [
        ("index == 3", {"accept_prob": 0.34}, "daaaaard-"),  # ℓ of a half is not between 1e-6 and 1e-4
        ("index == 3", {"accept_prob": 0.66}, "daaaaard-"),
        ("index == 3", {"accept_prob": 0.66, "accept_prob_error": 0.05}, "raaaaard-"),  # a few cycles more
        ("index == 3", {"configurational_temperature": 0.79}, "adaaaard-"),
        ("index == 2", {"lr": 0.011}, "aadarard-"),  # longer, and no smaller; nor is shuffled twice that then
        ("index == 7", {"lr": 0.011}, "aaadarrd-"),
        (HMC_LONGEST, {"lr": 0.0019}, "aaaaardd-"),
        (HMC_LONGEST, {"lr": 0.021}, "aaaaaaad-"),
        ("steps == 45 and minibatches == 'shuffled'", {"lr": 9e-5}, "aaaarrra-"),
        ("index > -1", {"data": 1500}, "aaaaaarx-"),
        ("index == 4", {"status": "diverged"}, "aaaaaadd-"),  # the longest of GGMC's is then of 15 steps
    ],
)
def test_cycles_are_judged_by_their_learning_rates(where, values, verdicts):
    found = list(finding_cycles.compare(changed(cycles(), where, **values)))
    assert judged(found) == verdicts
    if "data" in values:
        assert [numbers(row[2]) for row in found[4:8]] == ["10 10 15 45 2 0.50 0.50 0.50 0.50"] * 2 + [
            "1 45 0.50 0.50 2",
            "0.01",
        ]


@pytest.mark.parametrize(
    "logs, steps, verdicts",
    [
        ((-40.0, -100.0, -130.0), 4001, "a-"),
        ((-89.0, -100.0, -130.0), 4001, "a-"),
        ((-91.0, -100.0, -130.0), 4001, "d-"),
        ((-40.0, -100.0, -130.0), 4000, "xx"),
    ],
)
def test_a_changed_cycle_is_compared_with_figure_1_s(logs, steps, verdicts):
    names = ["minibatches", "mass", "log_accept"]
    rows = [("shuffled", "estimated", logs[0]), (None, None, logs[1]), ("independent", "1", logs[2])]
    table = pd.DataFrame(rows, columns=names)
    common = {"sampler": "ggmc", "status": "done", "lr": 0.01, "step": steps, "exact_point": 1}
    table = pd.concat([table.assign(**common), table.assign(**common | {"step": 9, "exact_point": 0, "log_accept": 9})])
    changes, base = table[table.mass.notna()], table[table.mass.isna()].drop(columns=["mass", "minibatches"])
    base = pd.concat([base, base.assign(sampler="hmc", log_accept=-1.0), base.assign(lr=0.5)])
    found = list(finding_fig1.compare(base, changes))
    assert judged(found) == verdicts
    if verdicts == "a-" and logs[0] == -40:
        assert [numbers(row[2]) for row in found] == ["40 100 0.40 0.9", "130 100 1.30"]
        assert "its −log MH is\n0.40 (ℓ = 0.01) times" in finding_fig1.title(finding_fig1.joined(base, changes))


@pytest.mark.parametrize(
    "where, values, verdicts",
    [
        ("batch == 20", {"mh": 0.94}, "daa"),  # six errors
        ("predicted > 1 or target == 'resnet20'", {"mh": 2.0}, "aaa"),
        ("batch == 20", {"trace": 4300.0}, "ada"),
        ("batch == 20", {"trace": 3700.0}, "ada"),
        ("batch == 20", {"trace_error": 410.0}, "aad"),
    ],
)
def test_the_mean_of_mh_and_the_noise_of_minibatches_are_judged(where, values, verdicts):
    rows = [("logistic_generated", 20, 4000.0, 0.9), ("logistic_generated", 80, 1000.0, 1.1), ("resnet20", 5, 5.0, 0.9)]
    table = pd.DataFrame(rows, columns=["target", "batch", "trace", "predicted"])
    table = table.assign(status="done", dim=11, trajectories=100, mh=1.0, mh_error=0.01, trace_error=0.01 * table.trace)
    for column in ("sd", "mean", "acceptance"):
        table = table.assign(**{column: 0.5, f"{column}_error": 0.1})
    none = pd.DataFrame(columns=["target", "auto", "ess", "ess_error", "steps"])
    found = list(finding_trajectory.compare(changed(table, where, **values), none))
    assert judged(row for row in found if "E MH" in row[0] or "tr Σ" in row[0]) == verdicts


@pytest.mark.parametrize(
    "where, tau, verdict",
    [
        ("steps == 0", 0.0, "agrees"),
        ("auto == 1 and target == 'gaussian'", 51.0, "not comparable: too few draws"),
        ("auto == 0 and target == 'gaussian'", 51.0, "not comparable: too few draws"),
        ("auto == 0 and target == 'gaussian' and steps < 16", 51.0, "not decided: of the grid's lengths τ is known"),
    ],
)
def test_of_chains_shorter_than_twenty_tau_nothing_is_said(where, tau, verdict):
    rows = [
        (target, steps, auto) for target in finding_trajectory.TARGETS for steps, auto in ((4, 0), (16, 0), (16, 1))
    ]
    lengths = pd.DataFrame(rows, columns=["target", "steps", "auto"])
    lengths = lengths.assign(step_size=0.1, tau=50.0, draws_a_chain=1000, ess=10.0, ess_error=0.1)
    none = pd.DataFrame(columns=["status", "sd", "target", "predicted", "trace", "trace_error", "mh_error", "batch"])
    *_, gaussian, logistic = finding_trajectory.compare(none, changed(lengths, where, tau=tau))
    assert gaussian[3].startswith(verdict) and logistic[3] == "agrees"


def networks() -> pd.DataFrame:
    """Every method at T = 1; NLL .2 of the exact ones and .1 of SGD, and of HMC at T = .1 at both priors."""
    keys = [(*key, 1.0, 0.0 if key[0] == "sgd" else 1.0) for *key, _, _ in finding_bnn.METHODS[:-1]]
    keys += [("hmc", "none", "metropolis", prior, cold) for prior, cold in ((1.0, 0.1), (0.1, 0.1), (0.1, 1.0))]
    table = pd.DataFrame(keys, columns=["sampler", "minibatches", "acceptance", "prior", "temperature"])
    better = (table.temperature < 1) & (table.temperature >= 0)
    table = table.assign(nll=np.where(better, 0.1, 0.2), potential=100 + 20.0 * (table.acceptance == "monitor"))
    table = table.assign(joint_nll=table.nll, gradient=np.where(table.minibatches == "none", "full", "minibatch"))
    table["letters_entropy"] = np.where(better, 1.0, 2.0)
    errors = {"nll_error": 0.001, "potential_error": 1.0, "letters_entropy_error": 0.01, "accuracy": 0.9, "ece": 0.1}
    chains = {"r_hat_max": 1.01, "r_hat_median": 1.0, "r_hat_potential": 1.02, "ess_min": 99.0, "ess_median": 300.0}
    return table.assign(status="done", chains=4, draws_a_chain=160, passes=200, ess_potential=100.0, **errors, **chains)


OF = "sampler == '{}' and minibatches == '{}' and acceptance == '{}' and prior == 1 and temperature in (0, 1)"
EXACT, SGD, LOOSE = (OF.format(*key) for key in (("hmc", "none", "metropolis"), ("sgd", "independent", "monitor"),
                                                 ("sghmc", "independent", "monitor")))  # fmt: skip


@pytest.mark.parametrize(
    "where, values, verdicts",
    [
        # mixing; of two other exact samplers NLL and letters, where the uncorrected chains are like HMC; U of one; two
        # priors; corrected (two), uncorrected (three); ESS; SGD's NLL and entropy
        ("index < 0", {}, "arrrraaaaaaaa--a"),
        (EXACT, {"nll": 0.23}, "adrdraaaaaaaa--a"),
        (EXACT, {"joint_nll": 0.1}, "arrrradaaaaaa--a"),  # of ever more draws .067
        (EXACT, {"r_hat_max": 1.06}, "dxxxxxxaxxxxxxxx"),
        ("prior == .1", {"nll": 0.2, "joint_nll": 0.2}, "arrrraaraaaaa--a"),
        ("sampler == 'ggmc' and minibatches == 'shuffled'", {"potential": 80.0}, "arrrraaadadaa--a"),
        (LOOSE, {"potential": 102.0}, "arrrraaaaaaar--a"),
        (LOOSE, {"potential": 80.0}, "arrrraaaaaaad--a"),
        (SGD, {"nll": 0.201, "letters_entropy": 2.01}, "arrrraaaaaaaa-rr"),
        (SGD, {"nll": 0.3, "letters_entropy": 3.0}, "arrrraaaaaaaa--d"),
        (SGD, {"nll": np.nan}, "arrrraaaaaaaa-xx"),
    ],
)
def test_an_exact_network_is_compared_with_what_is_not(where, values, verdicts):
    assert judged(finding_bnn.compare(changed(networks(), where, **values))) == verdicts


@pytest.mark.parametrize(
    "loose, second, verdict",
    [
        (0.21, 0.2, "agrees: beyond 0.0079"),  # errors of .001 with six degrees of freedom, and Bonferroni of seven
        (0.207, 0.2, "not resolved: beyond 0.0079 a difference would be seen; that of uncorrected chains is 0.007"),
        (0.21, 0.2075, "agrees"),
        (0.21, 0.209, "differs: 6.4 errors"),
    ],
)
def test_what_is_to_be_the_same_is_where_the_uncorrected_chains_bias_would_be_seen(loose, second, verdict):
    table = changed(networks(), "acceptance == 'monitor' and sampler == 'ggmc'", nll=loose)
    table = changed(table, "sampler == 'ggmc' and minibatches == 'none'", nll=second)
    found = next(row for row in finding_bnn.compare(table) if row[0] == "a second exact sampler, test NLL")
    assert found[3].startswith(verdict)


def test_a_network_s_ensembles_cost_and_differ_by_what_is_said():
    found = {row[0]: row for row in finding_bnn.compare(changed(networks(), SGD, passes=20, nll=0.15))}
    row = found["ensemble of SGD of 0.1 of the passes over the data, test NLL"]
    assert row[2:] == ("0.1500 ± 0.001, exact 0.2000 ± 0.001", "not claimed: less")
    more = changed(networks(), "minibatches == 'shuffled'", passes=400, ess_potential=50.0, ess_median=150.0)
    found = {row[0]: row[2] for row in finding_bnn.compare(more)}
    (cost,) = (here for what, here in found.items() if what.startswith("GGMC, shuffled epochs, corrected: effective"))
    assert numbers(cost) == ("0.25 0.25")
    assert "ensemble of SGD at equal cost, test NLL" in found


@pytest.mark.parametrize("energy, nll, verdicts", [(1.04, 1.04, "a-"), (1.06, 1.0, "d-"), (1.0, 1.06, "d-")])
def test_corrected_chains_have_mixed_in_u_and_in_what_they_predict(energy, nll, verdicts):
    row = {"status": "done", "acceptance": "metropolis", "chains": 4, "r_hat_potential": energy, "r_hat_nll": nll}
    row |= {name: 9.0 for name in ("ess_potential", "ess_nll")}
    row |= {f"{name}{kind}": 0.1 for name in ("accuracy", "nll", "ece") for kind in ("", "_error")}
    found = list(finding_corrected.compare(pd.DataFrame([row, row | {"status": "failed", "chains": 7}])))
    assert judged(found) == verdicts + "x" and "4 chains" in found[0][0]
    assert found[2][3] == "not comparable: no run that is not corrected has finished"
    assert found[0][2].endswith("not known" if "d" in verdicts else "ESS 9 and 9")


@pytest.mark.parametrize(
    "values, verdicts",
    [
        ({}, "a-a-a-"),
        ({"potential": 4.1}, "a-a-r-"),
        ({"potential": 3.0, "nll": 0.4}, "a-a-d-"),
        ({"nll": 1.0}, "a-a-ar"),
        ({"r_hat_nll": 1.06}, "a-d-xx"),
    ],
)
def test_what_is_not_corrected_heats_u_beyond_its_error(values, verdicts):
    """Four chains each, an error of .1: by Student's t with six degrees of freedom 3.7 errors of the difference."""
    row = {
        "status": "done",
        "chains": 4,
        "r_hat_potential": 1.0,
        "r_hat_nll": 1.0,
        "ess_potential": 9.0,
        "ess_nll": 9.0,
    }
    row |= {name: 1.0 for name in ("accuracy", "ece", "nll")} | {"potential": 4.0}
    row |= {f"{name}_error": 0.1 for name in ("accuracy", "nll", "ece", "potential")}
    other = row | {"acceptance": "monitor", "potential": 5.0, "nll": 2.0} | values
    found = list(finding_corrected.compare(pd.DataFrame([row | {"acceptance": "metropolis"}, other])))
    assert judged(found) == verdicts
    assert found[4][2] == f"{other['potential'] - 4:+.2g} ± 0.14"


def decisions() -> pd.DataFrame:
    """Of one case of GGMC a fresh uniform, and two persistent ones, at two step sizes: rejections cluster by 2 at the
    smaller δ."""
    rows = [(size, delta) for size in (0.1, 0.2) for delta in (np.nan, 0.01, 0.1)]
    table = pd.DataFrame(rows, columns=["step_size", "delta"])
    case = {"target": "gaussian_pairs", "noise": 2.0, "word": "OBABO", "steps": 1, "refresh": "keep", "decay": 0.9}
    errors = {"ess_error": 0.1, "ess_U_error": 0.1, "accepted_error": 0.01, "clustering_error": 0.1}
    table = table.assign(**case, **errors, status="done", chains=20, ess=5.0, ess_U=5.0, accepted=0.8)
    return table.assign(clustering=np.where(table.delta == 0.01, 3.0, 1.0))


@pytest.mark.parametrize(
    "where, values, verdicts",
    [
        ("index < 0", {}, "aa"),
        ("delta == .1", {"accepted": 0.84, "clustering": 0.0}, "aa"),  # 2.8 errors
        ("delta == .1 and step_size == .2", {"accepted": 0.9}, "da"),  # 7.1
        ("delta == .01 and step_size == .2", {"clustering": 1.4}, "ar"),  # 2.8, the least sure of two
        ("delta == .01 and step_size == .2", {"clustering": 0.2}, "ad"),
        ("delta == .01", {"chains": 2}, "ar"),  # 14 errors, of so few
        ("delta == .01", {"clustering": np.nan}, "ax"),
    ],
)
def test_a_persistent_uniform_keeps_the_rate_and_clusters_rejections(where, values, verdicts):
    found = list(finding_clustering.compare(changed(decisions(), where, **values)))
    assert judged(found[:2]) == verdicts
    if not values:
        assert numbers(found[1][2]).startswith("3.0 3.0 0.01 1.0 1.0 2 2.00 14.1")
        assert "faster in 0 of 1 cases" in finding_clustering.title(finding_clustering.prepared(decisions()))


@pytest.mark.parametrize(
    "share, error, verdict",
    [(0.42, 0.01, "a"), (0.45, 0.03, "r"), (0.35, 0.03, "r"), (0.6, 0.02, "d"), (0.2, 0.02, "d")],
)
def test_barker_s_test_looks_at_the_data_that_theory_asks_for(share, error, verdict):
    row = {"target": "heart", "acceptance": "barker_minibatch", "epsilon": np.nan, "status": "done", "chains": 10}
    row |= {"step_size": 0.1, "rounded": 0.4, "needed": 0.3, "share": share, "share_error": error}
    row |= dict.fromkeys(("ess", "ess_error", "spread", "spread_error", "truth_error", "away", "away_error", "tau"))
    table = pd.DataFrame([row, row | {"share": 0.4, "share_error": 0.01}, row | {"acceptance": "austerity"}])
    found = next(row for row in finding_minibatch_mh.compare(table) if "looks at" in row[0])
    assert judged([found]) == verdict and f"{max(share, 0.4) / 0.3:.2f} times D²" in found[2]
    assert "faster" not in finding_minibatch_mh.title(table)  # nothing was compared


@pytest.mark.parametrize(
    "away, error, remark",
    [
        (0.3, 0.02, " (biased)"),
        (0.3, 0.2, " (bias below 0.97)"),  # of 30 chains and four rules 3.33 errors
        (-0.03, 0.01, " (bias below 0.07)"),
        (0.0, 0.0, " (bias not known)"),
        (np.nan, 0.01, " (bias not known)"),
    ],
)
def test_of_a_rule_that_is_faster_the_bias_is_told(away, error, remark):
    row = pd.Series({"away": away, "away_error": error, "chains": 10**6 if away < 0 else 30})
    assert finding_minibatch_mh.remark(row) == remark


@pytest.mark.parametrize(
    "verdict, short",
    [
        ("agrees: A (biased)", " (biased)"),
        ("agrees: A (biased) and B (bias not known)", " (biased, or bias not known)"),
        ("agrees: A (bias below 0.3) and B (bias below 0.12) and C (biased)", " (bias below 0.12)"),
    ],
)
def test_a_title_tells_the_least_bias_of_the_rules_that_are_faster(verdict, short):
    assert finding_minibatch_mh.in_short(verdict) == short


def kicks(left: float, beyond: tuple, ratio: tuple) -> list[pd.DataFrame]:
    """An epoch of 4 minibatches of 5 of 21 data, of whose kick the same part is left at every lag, on both targets;
    −log MH of two epochs of the regression, of which the errors' own work is 2, independent and shuffled, and of the
    network's cycles. A kick is followed from before half a step's O, which halves it."""
    lags = np.arange(5.0)
    common = {"status": "done", "step_size": 0.5, "friction": np.log(16), "data": 21, "batch_size": 5, "epoch": 4}
    table = pd.DataFrame({"lag": lags, "carried": left * lags / 2}).assign(carried_error=0.0125, variance=3.2, **common)
    table = pd.concat([table.assign(target="logistic", lr=0.1), table.assign(target="resnet20", lr=0.2)])
    cost = 2 + beyond[0]
    costs = [{"cost": cost, "cost_error": 1e-6}, {"cost": cost * ratio[0], "cost_error": cost * ratio[1]}]
    costs = pd.DataFrame(costs).assign(minibatches=["independent", "shuffled"], target="logistic", lr=0.1, epochs=2)
    costs = costs.assign(work=2.0, beyond=beyond[0], beyond_error=beyond[1])
    cycle = {"status": "done", "sampler": "ggmc", "lr": 0.2, "step": 4001, "exact_point": 1}
    base = pd.DataFrame([cycle | {"log_accept": -800.0}])
    changes = pd.DataFrame([cycle | {"log_accept": -2000.0, "minibatches": "independent", "mass": "1"}])
    return [table, costs.assign(**common), base, changes]


@pytest.mark.parametrize(
    "left, beyond, ratio, verdicts",
    [
        # (21 − 5)/(21 − 1) of the half that is forgotten is .4; with the predictions' own error of .01.
        (0.5, (0.0, 0.01), (0.4, 0.001), "axax"),
        (0.5, (0.029, 0.01), (0.42, 0.001), "axax"),
        (0.5, (-0.029, 0.01), (0.38, 0.001), "axax"),
        (0.5, (-0.04, 0.01), (0.36, 0.001), "dxdx"),
        (0.5, (0.2, 0.1), (0.36, 0.02), "axax"),
        (0.2, (0.0, 0.01), (0.4, 0.001), "axdx"),
    ],
)
def test_what_is_forgotten_is_the_ratio_of_both_orders(left, beyond, ratio, verdicts):
    found = list(finding_noise.compare(*kicks(left, beyond, ratio)))
    assert judged(found) == verdicts
    if left == 0.5:
        assert found[0][1].startswith("2: ") and found[2][1].startswith("0.4 ± 0.01: ")
    # 4,000 kicks of ½ · .5² · 3.2, in halves the second of which sees a quarter of the first: 10 epochs of 4 steps.
    assert found[1][1].startswith("10: ") and found[1][2].startswith("2e+03 ± 6e+01 ")
    assert found[3][2].startswith("0.4 ± 0.02: of ")


def double_well() -> pd.DataFrame:
    """Words uncorrected at three steps, at the third of which a chain diverged: BAOAB's excess is .01 with exact
    gradients, the others' .2; noise adds what T = 1 + h/2 does, of the step .4 that is judged."""
    rows = []
    for word in ("OBABO", "BAOAB", "ABOBA", "BABOBAB"):
        for size, frozen in ((0.2, 0), (0.4, 0), (0.5, 1)):
            still = 0.01 if word == "BAOAB" else 0.2
            hot = finding_words.warmer(1 + size / 2)
            rows += [(word, size, noise, still + hot * noise, frozen) for noise in (0.0, 1.0)]
    table = pd.DataFrame(rows, columns=["word", "step_size", "noise", "excess", "frozen"])
    common = {"target": "double_well", "status": "done", "acceptance": "monitor", "refresh": "keep", "friction": 1.0}
    return table.assign(**common, excess_error=0.01, chains=200)


@pytest.mark.parametrize(
    "where, values, verdicts",
    [
        ("step_size != .4", {"excess": 9.0}, "aaa"),
        ("word == 'ABOBA' and noise == 0", {"excess": 0.03}, "rdd"),  # 1.4 errors; and then noise adds .17 more
        ("word == 'BAOAB' and noise == 0", {"excess": -0.4}, "ddd"),
        ("word == 'ABOBA' and noise == 1", {"excess": 0.66}, "aad"),  # 3.4 errors from theory, 2.5 from the words' mean
        ("word == 'ABOBA' and noise == 1", {"excess": 0.5}, "add"),
        ("step_size < .5", {"frozen": 1}, "x"),
    ],
)
def test_the_double_well_s_bias_is_judged_at_the_largest_step_of_which_no_chain_diverged(where, values, verdicts):
    assert judged(finding_words.exact_and_noisy(changed(double_well(), where, **values))) == verdicts


@pytest.mark.parametrize(
    "where, accepted, verdict",
    [
        ("word == 'BAOAB' and step_size == .4", 0.42, "a"),
        ("word == 'BAOAB' and step_size == .4", 0.39, "d"),
        ("friction == 4", 0.1, "a"),  # of which the claim is not
    ],
)
def test_words_are_accepted_alike_step_by_step(where, accepted, verdict):
    rows = [(word, size, 1.0) for word in ("OBABO", "BAOAB", "ABOBA", "BABOBAB") for size in (0.2, 0.4)]
    rows = pd.DataFrame([*rows, ("OBABO", 0.2, 4.0), ("OBABO", 0.4, 4.0)], columns=["word", "step_size", "friction"])
    rows["accepted"] = np.where(rows.step_size == 0.2, 0.8, 0.5)
    rows.loc[rows.word == "BABOBAB", "step_size"] *= 2  # of twice as many kicks a step
    common = {"refresh": "keep", "status": "done", "acceptance": "metropolis", "noise": 1.0, "accepted_error": 0.003}
    targets = [
        changed(rows, where, accepted=accepted).assign(target=name, **common) for name, _ in finding_words.PANELS
    ]
    part = finding_words.usual(finding_words.chosen(targets[0], "double_well", "metropolis"))
    row = finding_words.of_acceptance("it", part)
    assert judged([row]) == verdict
    assert ("differ by less than 0.1" in finding_words.title(pd.concat(targets))) == (verdict == "a")
    if accepted == 0.42:
        assert numbers(row[2]) == "0.80 0.42 0.080 0.004 1.19 0.42" and "and BAOAB)" in row[2]


@pytest.mark.parametrize(
    "fresh, said", [(0.7, "not decided: more"), (0.5, "not decided: less"), (0.63, "not claimed: no difference")]
)
def test_a_network_s_fresh_momentum_is_told_from_one_that_is_kept(fresh, said):
    rows = [("OBABO", "keep", 0.6), ("BAOAB", "keep", 0.6), ("OBABO", "full", fresh), ("BAB", "full", fresh)]
    table = pd.DataFrame(rows, columns=["word", "refresh", "accept_prob"])
    table = table.assign(status="done", level=0, time=0.01, gradients=11, friction=10.0, trajectories=400)
    table = table.assign(accept_prob_error=0.01, apart=0.0, apart_error=0.001)
    found = list(finding_words_network.compare(table))
    assert judged(found)[:2] == "aa" and found[2][3].startswith(said)
    assert numbers(found[2][2]) == f"{fresh - 0.6:+.3f} 0.014" and "γLh = 1.1" in found[0][0]
    assert judged(finding_words_network.compare(table[table.word != "OBABO"])) == "x"
    open_ = changed(table, "refresh == 'full'", apart_error=0.05)
    assert finding_words_network.title(open_).startswith(
        "Of a ResNet a correction accepts words equally often in 1 of 2"
    )
