"""The table of the Bayesian neural networks: whose predictions are joined, what they cost; the figure's title."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from made import MadeRun

from experiments.build import build
from experiments.config import compose
from experiments.tables import bnn
from sgmcmc.data import Dataset
from sgmcmc.diagnostics import ess, nll, r_hat
from sgmcmc.random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from figures import finding_bnn as figure
from figures import finding_bnn_resnet as resnet
from figures import finding_corrected as corrected

HMC, GGMC, SGD = 3, (10, 11), 15  # points of the grid


@pytest.fixture
def chains(monkeypatch):
    """A function: the finished chains of a point, one for each draws ``[draws, chains, dim]`` made of N(0, 1/4)."""
    monkeypatch.setattr(bnn, "some_letters", lambda pieces: pieces.predictions["test"][0])  # notMNIST may not be here

    def made(point: int, draws: int, number: int = 2, status: str = "done"):
        runs = []
        for seed in range(number):
            words = f"experiment=finding_bnn scale=smoke point={point} seed={seed} data.ood=null log_every=2"
            config = compose(words.split())
            dim = build(config).potential.dim
            theta = Random(seed).normal("start", 0, 1, draws, config["chains"] * dim)[0] / 2
            metrics = {
                "step_size": np.array([0.4, 0.3, 0.2, 0.1, 0.1 + 0.1 * seed]),
                "cycle": np.array([1, 2, 4, 5, 6]),  # segments of the run ended after the cycles 1 and 5
                "accepted": np.array([9, 9, 1, 7, seed]),  # the burn-in ends within the row of the second cycle
            }
            runs.append(
                SimpleNamespace(
                    config=config,
                    sampler=config["sampler"]["name"],
                    status=status if seed else "done",
                    why="it failed",
                    draws=theta.view(draws, config["chains"], dim),
                    metrics=metrics,
                    facts={"cycles": 5},
                )
            )
        return runs

    return made


def predicted(run, theta) -> torch.Tensor:
    pieces = build(run.config)
    return pieces.potential.predict(theta[None], pieces.predictions["test"][0])[0]


def quality(p: torch.Tensor, targets: torch.Tensor) -> dict:
    """Of probabilities ``[n, classes]``, with the calibration error in a loop over fifteenths of confidence."""
    p, targets = p.double().numpy(), targets.numpy()
    confidence, right = p.max(1), p.argmax(1) == targets
    ece = 0.0
    for place in range(15):
        inside = (confidence > place / 15) & (confidence <= (place + 1) / 15)
        if inside.any():
            ece += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    nll = -np.log(p[np.arange(len(p)), targets]).mean()
    return {"accuracy": right.mean(), "nll": nll, "ece": ece, "entropy": -(p * np.log(p)).sum(1).mean()}


@pytest.mark.thorough
def test_a_row_of_chains_is_their_own_predictions_and_their_mixing(chains):
    runs = chains(HMC, 40)
    (row,) = bnn.predictions(runs)
    pieces = build(runs[0].config)
    targets = pieces.predictions["test"][1]
    each = [torch.stack([predicted(run, theta) for theta in run.draws[:, 0]]) for run in runs]
    own = [quality(members.mean(0), targets) for members in each]
    joint, single = quality(torch.cat(each).mean(0), targets), [quality(p, targets) for p in torch.cat(each)]
    for name in ("accuracy", "nll", "ece", "entropy"):
        one, other = (chain[name] for chain in own)
        assert row[name] == pytest.approx((one + other) / 2, rel=1e-6)
        assert row[f"{name}_error"] == pytest.approx(abs(one - other) / 2, rel=1e-5) and one != other
        assert row[f"joint_{name}"] == pytest.approx(joint[name], rel=1e-6)
        assert row[f"single_{name}"] == pytest.approx(np.mean([one[name] for one in single]), rel=1e-6)
    mine = torch.stack([p[:, range(200), targets[:200]] for p in each], 1).double()
    odds = (mine / (1 - mine)).log()  # of the label of the first 200
    agree, size = r_hat(odds), ess(odds).value
    assert (row["r_hat_max"], row["r_hat_median"]) == pytest.approx((max(agree), np.median(agree)), rel=1e-6)
    assert (row["ess_min"], row["ess_median"]) == pytest.approx((np.nanmin(size), np.nanmedian(size)), rel=1e-6)
    assert row["letters_entropy"] == pytest.approx(row["entropy"], rel=1e-9)
    energies = torch.stack([torch.cat([pieces.potential.potential(x) for x in run.draws]) for run in runs], 1)
    assert row["potential"] == pytest.approx(float(energies.mean()), rel=1e-12)
    first, second = energies.mean(0).tolist()
    assert row["potential_error"] == pytest.approx(abs(first - second) / 2)
    assert row["r_hat_potential"] == pytest.approx(float(r_hat(energies[..., None])[0]))
    assert row["ess_potential"] == pytest.approx(float(ess(energies[..., None]).value[0]))
    assert row["passes"] == 5 * 3  # 3 steps of BAB
    assert (row["accepted"], row["accepted_error"]) == (0.75, 0.25)
    assert row["step_size"] == pytest.approx((0.1 + 0.2) / 2)  # the last ones
    assert (row["sampler"], row["temperature"], row["chains"], row["draws_a_chain"]) == ("hmc", 1, 2, 40)


@pytest.mark.thorough
def test_the_runs_of_sgd_predict_together_and_are_counted_together(chains):
    runs = chains(SGD, 3)
    (row,) = bnn.predictions(runs)
    targets = build(runs[0].config).predictions["test"][1]
    each = [torch.stack([predicted(run, theta) for theta in run.draws[-1]]) for run in runs]
    assert row["nll"] == pytest.approx(np.mean([float(nll(one.mean(0), targets)) for one in each]), rel=1e-9)
    assert row["single_nll"] == pytest.approx(float(nll(torch.cat(each), targets).mean()), rel=1e-9)
    assert row["passes"] == 5 * 3 * 50 / 100 * 20
    assert row["sampler"] == "sgd" and "r_hat_max" not in row and "potential" not in row and "accepted" not in row
    assert row["draws_a_chain"] == 20 and row["chains"] == 2


@pytest.mark.thorough
def test_a_correction_of_minibatches_costs_u(chains):
    costs = [bnn.predictions(chains(point, 6))[0]["passes"] for point in GGMC]
    assert costs == [5 * (4 * 50 / 100 + 1), 5 * 4 * 50 / 100]  # corrected, monitored


def test_a_setting_is_what_chains_have_in_common():
    keys = ("sampler", "acceptance", "gradient", "minibatches", "init", "prior", "temperature")
    for words, values in (
        ("finding_bnn point=5", ("hmc", "metropolis", "full", "none", "he", 0.1, 0.03)),
        ("finding_bnn point=16", ("ggmc", "metropolis", "minibatch", "shuffled", "sgd", 1.0, 1.0)),
        ("finding_bnn_resnet point=0", ("hmc", "metropolis", "full", "none", "he", "cin", 1.0)),
    ):
        config = compose(f"experiment={words}".split())
        assert bnn.setting(MadeRun(config=config)) == dict(zip(keys, values, strict=True))


def test_every_tenth_letter_is_predicted():
    inputs = torch.arange(25.0)[:, None]
    letters = Dataset(inputs, torch.arange(100, 125), classes=10)
    some = bnn.some_letters(SimpleNamespace(predictions={"ood": (letters, None)}))
    assert some.inputs.flatten().tolist() == [0, 10, 20] and some.targets.tolist() == [100, 110, 120]


def test_a_chain_that_did_not_finish_is_said_and_left_out(chains):
    (row,) = bnn.predictions(chains(HMC, 5, number=3, status="failed"))
    assert (row["status"], row["why"], row["chains"]) == ("failed", "it failed", 1)
    assert row["nll"] > 0 and np.isnan(row["nll_error"])


@pytest.mark.thorough
@pytest.mark.parametrize("point", [HMC, SGD])
def test_a_run_of_which_a_chain_diverged_is_said_and_left_out(chains, point):
    """Its last finite weights are no draw, and no member of an ensemble."""
    runs = chains(point, 5, number=3)
    runs[1].facts["frozen"] = [1]
    (row,) = bnn.predictions(runs)
    (others,) = bnn.predictions([runs[0], runs[2]])
    assert (row["status"], row["chains"]) == ("diverged", others["chains"])
    assert row["why"] == f"1 of {runs[1].config['chains']} chains diverged" and row["nll"] == others["nll"]


@pytest.mark.parametrize("module", [figure, resnet])
@pytest.mark.parametrize("left", [True, False])
def test_a_chain_that_diverged_is_told_beside_the_others_numbers(module, left):
    """Where none is left, too: its temperature would be missing without a word."""
    name = f"{Path(module.__file__).stem}.csv"
    table = pd.read_csv(Path(__file__).parents[1] / "results" / "paper" / "tables" / name).assign(why=None)
    assert not any("diverge" in " ".join(row) for row in module.compare(table))
    table = table.astype({"why": object})
    table.loc[0, ["status", "why", "nll"]] = ["diverged", "diverged at cycle 3", table.nll[0] if left else np.nan]
    what, *_, verdict = next(module.compare(table))
    assert what == f"HMC, prior {table.prior[0]}, T = {table.temperature[0]:g}: chains that diverge"
    assert verdict == "differs: diverged at cycle 3"


def test_the_limit_of_many_draws_has_no_term_in_one_over_their_number():
    row = pd.Series({"chains": 4, "nll": 0.2 + 3 / 50, "joint_nll": 0.2 + 3 / 200})
    assert figure.many_draws(row) == pytest.approx(0.2)


def row(**values) -> pd.Series:
    """A row of the table, of chains that agree."""
    common = {"potential": 100.0, "potential_error": 1.0, "nll": 0.2, "nll_error": 0.01, "chains": 4}
    return pd.Series(common | {"r_hat_max": 1.01, "r_hat_potential": 1.01} | values)


@pytest.mark.parametrize(
    "gap, exactly, uncorrected",
    # Of two means of four chains, equally well known, Student's t of 6 degrees of freedom decides: at 3.71, and where
    # the largest of seven is judged at 5.6.
    [
        (0, "agrees", "not resolved"),
        (5.2, "agrees", "not resolved"),
        (5.3, "agrees", "agrees"),
        (7.8, "agrees", "agrees"),
        (8.0, "differs", "agrees"),
        (-30, *2 * ["differs"]),
    ],
)
def test_the_sign_of_a_bias_of_u_is_judged(gap, exactly, uncorrected):
    other = row(potential=100.0 + gap)
    assert figure.bias(figure.SHUFFLED, row(), other, row(potential=130.0))[3].partition(":")[0] == exactly
    for loose in (None, row(potential=np.nan)):  # nothing says how large a difference would have to be seen
        found = figure.bias(figure.SHUFFLED, row(), other, loose)[3].partition(":")[0]
        assert found == ("differs" if exactly == "differs" else "not resolved")
    assert figure.bias("GGMC, shuffled epochs, uncorrected", row(), other)[3] == uncorrected
    assert figure.bias("SGHMC", row(), other)[3] == uncorrected
    unknown = row(potential=100.0 + gap, potential_error=np.nan, nll_error=np.nan)
    assert figure.bias(figure.SHUFFLED, row(), unknown)[3] == "not comparable: no error is known"
    assert figure.against("what", "the same", row(), unknown, same_as=(None,))[3] == "not comparable: no error is known"


@pytest.mark.parametrize("column", ["r_hat_max", "r_hat_potential"])
def test_chains_that_do_not_agree_are_compared_with_nothing(column):
    mixed, not_yet, sgd = row(), row(**{column: 1.06}), row(nll=0.1, r_hat_max=np.nan, r_hat_potential=np.nan)
    for judge in (
        lambda one, other: figure.against("what", "the same", one, other, same_as=(None,)),
        lambda one, other: figure.against("what", "less", one, other),
        lambda one, other: figure.bias("SGHMC", one, other),
    ):
        for pair in ((mixed, not_yet), (not_yet, mixed), (not_yet, sgd)):
            assert judge(*pair)[3] == "not comparable: the chains do not agree yet"
        assert not judge(mixed, mixed)[3].startswith("not comparable")
    assert figure.against("what", "less", mixed, sgd)[3] == "agrees"


@pytest.mark.parametrize("cold, mixes, told", [(0.10, 1.01, True), (0.20, 1.01, False), (0.10, 1.2, False)])
def test_the_title_claims_a_cold_posterior_effect_where_it_is_resolved(cold, mixes, told):
    common = {"sampler": "hmc", "gradient": "full", "acceptance": "metropolis", "nll_error": 0.002, "chains": 4}
    common |= {"minibatches": "none", "r_hat_max": mixes, "r_hat_potential": 1.0}
    rows = [
        common | {"prior": prior, "temperature": temperature, "nll": value + 0.03, "joint_nll": value + 0.0075}
        for prior in (1.0, 0.1)
        for temperature, value in ((0.1, cold), (0.3, 0.15), (1.0, 0.16), (3.0, 0.01))
    ]
    table = pd.DataFrame(rows)
    one, other = figure.colder(table, 1.0)
    assert (one.temperature, other.temperature) == (1, 0.1 if cold < 0.15 else 0.3)
    assert one.limit_nll - other.limit_nll == pytest.approx(0.06 if cold < 0.15 else 0.01)
    assert ("colder" in figure.title(table)) == told


@pytest.mark.parametrize("column", ["r_hat_max", "r_hat_potential"])
def test_each_temperature_of_the_resnet_is_judged_by_its_own_chains(column):
    common = {"sampler": "hmc", "gradient": "full", "acceptance": "metropolis", "prior": "cin", "accuracy": 0.9}
    common |= {"nll": 0.2, "nll_error": 0.01, "joint_nll": 0.2, "ece": 0.1, "chains": 4, "draws_a_chain": 80}
    common |= {
        "status": "done",
        "minibatches": "none",
        "r_hat_max": 1.02,
        "r_hat_median": 1.005,
        "r_hat_potential": 1.01,
        "ess_min": 200.0,
    }
    table = pd.DataFrame([common | {"temperature": 0.3, column: 1.2}, common | {"temperature": 1.0}])
    assert resnet.title(table) == "At T = 1 HMC chains of a narrow ResNet-20 agree (R-hat 1.020)"
    assert [row[3] for row in resnet.compare(table)] == [
        "differs: longer chains are needed",
        "not claimed: they were lengthened until it was",
        *["not comparable: a run is missing"] * 4,
    ]
    assert "do not agree yet (R-hat 1." in resnet.title(table[:1])
    assert "At T = 0.3 and 1 " in resnet.title(table.assign(**{column: 1.03}))


@pytest.mark.parametrize(
    "values, said, verdict",
    [
        ({}, "; SGHMC's mean U is 70 above theirs, its test NLL 0.30 for 0.20", "not claimed: more"),
        ({"nll": 0.21}, "; SGHMC's mean U is 70 above theirs", "not resolved"),
        ({"nll": 0.1}, "; SGHMC's mean U is 70 above theirs", "not claimed: less"),
        ({"potential": 101.0}, "", "not claimed: more"),
        ({"r_hat_max": 1.1}, "", "not comparable: the chains do not agree yet"),
    ],
)
def test_the_resnet_s_sghmc_is_beside_the_exact_chains_where_both_agree(values, said, verdict):
    common = {"prior": "cin", "temperature": 1.0, "chains": 4, "draws_a_chain": 80, "r_hat_max": 1.02, "ess_min": 200.0}
    common |= {
        "status": "done",
        "r_hat_median": 1.005,
        "r_hat_potential": 1.01,
        "nll_error": 0.01,
        "potential_error": 2.0,
        "joint_nll": 0.2,
    }
    exact = {"sampler": "hmc", "minibatches": "none", "gradient": "full", "acceptance": "metropolis"}
    exact |= common | {"nll": 0.2, "potential": 100.0, "passes": 400}
    other = {"sampler": "sghmc", "minibatches": "independent", "gradient": "minibatch", "acceptance": "monitor"}
    other |= common | {"nll": 0.3, "potential": 170.0, "passes": 100} | values
    table = pd.DataFrame([exact, other])
    assert resnet.title(table) == "At T = 1 HMC chains of a narrow ResNet-20 agree (R-hat 1.020)" + said
    found = {row[0]: row[3] for row in resnet.compare(table)}
    assert found["SGHMC of 0.25 of the passes over the data, test NLL"] == verdict
    assert found["ensemble of SGD, entropy on letters"] == "not comparable: a run is missing"


@pytest.mark.parametrize(
    "r_hat, ess, said", [(1.01, 300.0, "300"), (1.2, 300.0, "not known"), (1.01, 1796.5, "not known")]
)
def test_an_ess_is_told_of_chains_that_agree_and_below_its_bound(r_hat, ess, said):
    rows = pd.DataFrame([{"sampler": "hmc", "nll": 0.1, "r_hat_max": r_hat, "r_hat_potential": 1.0, "ess_min": ess}])
    assert figure.least_ess(rows.assign(chains=4, draws_a_chain=160)) == said


def test_a_title_tells_a_difference_of_ensembles_whose_chains_agree():
    common = {"status": "done", "chains": 4, "accept_prob": 0.5, "nll_error": 0.001, "r_hat_potential": 1.01}
    one, other = common | {"nll": 0.1, "r_hat_nll": 1.0}, common | {"nll": 0.12, "r_hat_nll": 1.0}
    assert "smaller by 0.02" in corrected.title(pd.DataFrame([one, other]))
    assert "less than four seeds can tell" in corrected.title(pd.DataFrame([one, other | {"nll": 0.104}]))
    assert "do not agree yet (R-hat 1.2)" in corrected.title(pd.DataFrame([one | {"r_hat_nll": 1.2}, other]))
