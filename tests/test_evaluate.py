"""Stored samples predict again: the run's own test set, shifted and foreign data, several seeds together."""

import csv
import errno
import json
import math
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml

from experiments.build import build, edits, foreign, reopened
from experiments.command_line import main as run
from experiments.config import compose
from experiments.evaluate import _diverged, main
from sgmcmc import RunFolder, diagnostics, load_metrics, load_samples
from sgmcmc.data import Data, Dataset, load
from sgmcmc.errors import SettingError, StoreError
from sgmcmc.evaluate import FUNCTIONS, evaluate, shifted
from sgmcmc.formats import read_status, signature
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.potentials.regression import LogisticRegression
from sgmcmc.random import Random

WORDS = "model=mlp model.hidden=[8] data=digits sampler=ggmc lr=1e-3 batch_size=100 steps_per_cycle=5 cycles=6".split()
pytestmark = pytest.mark.usefixtures("pictures")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds of a small network on the digits."""
    folders = [tmp_path_factory.mktemp("runs") / str(seed) for seed in (0, 1)]
    for seed, folder in enumerate(folders):
        assert run([*WORDS, f"seed={seed}", f"output={folder}", "progress=false"]) == 0
    return folders


@pytest.mark.thorough
def test_chains_with_settings_of_their_own_are_evaluated_by_themselves(tmp_path, capsys):
    """Two seeds, of two chains and of four, half of each with either learning rate: a row of each rate's chains."""
    words, folders = [word for word in WORDS if not word.startswith("lr")], []
    for seed, chains in ((0, 2), (1, 4)):
        folders.append(str(tmp_path / str(seed)))
        own = f"seed={seed}", f"chains={chains}", f"output={folders[-1]}"
        assert run([*words, "lr=[1e-3,1e-4]", *own, "progress=false"]) == 0
    capsys.readouterr()
    assert main([*folders, f"output={tmp_path}/table.csv"]) == 0
    said = capsys.readouterr().out
    assert "6 draws of 6 chains" in said and "lr=0.001: 3 chains\n" in said and "lr=0.0001: 3 chains\n" in said
    with open(tmp_path / "table.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["lr"]) for row in rows] == [1e-3, 1e-4]
    potential, data = reopened(folders[0])
    two, four = (load_samples(folder) for folder in folders)
    for row, first in zip(rows, (0, 1), strict=True):
        draws = torch.cat((two[:, first : first + 1], four[:, 2 * first : 2 * first + 2]), 1)
        for key, value in evaluate(potential, draws, data.test).items():
            assert float(row[key]) == pytest.approx(value, nan_ok=True), key


# ---- the numbers, of predictions that are given


class Table:
    """Probabilities of the data's classes are the softmax of θ times a table: those of each θ by itself."""

    def __init__(self, table, together=True):
        self.table, self.together, self.asked = table, together, []

    def predict(self, theta, inputs):
        assert self.together or len(theta) == 1
        self.asked.append(inputs)
        return (theta[:, :1, None] * self.table).softmax(-1)


def _of_table(data=5, draws=30, chains=3):
    """Data of three classes, draws that differ by chain and time, and probabilities [draws, chains, data, class]."""
    rng = np.random.default_rng(1)
    table, labels = rng.normal(0, 2, (data, 3)), np.arange(data) * 2 % 3
    draws = 0.4 + 0.5 * rng.standard_normal((draws, chains, 2)) + 0.3 * np.arange(chains)[:, None]
    draws, table = torch.from_numpy(draws), torch.from_numpy(table)
    dataset = Dataset(torch.zeros(data, 2, dtype=torch.float64), torch.from_numpy(labels), 3)
    p = torch.stack([Table(table).predict(theta, None) for theta in draws])  # R-hat folds: ties need the same bits
    return table, dataset, draws, p.numpy(), labels


def _quality_of(p, labels):
    """All but the calibration error, which is tested by itself, datum by datum."""
    sums = dict.fromkeys(("accuracy", "nll", "brier", "entropy"), 0.0)
    for own, label in zip(p, labels, strict=True):
        sums["accuracy"] += all(own[label] >= other for other in own)
        sums["nll"] -= math.log(own[label])
        sums["brier"] += sum((own[k] - (k == label)) ** 2 for k in range(3))
        sums["entropy"] -= sum(one * math.log(one) for one in own)
    return {key: value / len(labels) for key, value in sums.items()}


@pytest.mark.parametrize("together", [True, False])
def test_every_number_of_given_predictions(together):
    """Joint, by chain with the standard error of three chains, of single samples; mixing of log-odds by ArviZ."""
    from arviz_stats.base import array_stats

    table, data, draws, p, labels = _of_table()
    row = evaluate(Table(table, together), draws, data)
    joint = _quality_of(p.mean((0, 1)), labels)
    chains = [_quality_of(p[:, chain].mean(0), labels) for chain in range(3)]
    single = [_quality_of(p[draw, chain], labels) for draw in range(30) for chain in range(3)]
    for key in joint:
        assert row[key] == pytest.approx(joint[key]), key
        own = [one[key] for one in chains]
        mean = sum(own) / 3
        assert row[f"chain_{key}"] == pytest.approx(mean), key
        spread = sum((one - mean) ** 2 for one in own) / 2
        assert row[f"chain_{key}_error"] == pytest.approx(math.sqrt(spread / 3), abs=1e-12), key
        assert row[f"sample_{key}"] == pytest.approx(sum(one[key] for one in single) / 90), key
    assert row["chain_nll_error"] > 0.01 and row["nll"] < row["chain_nll"] < row["sample_nll"]
    odds = torch.from_numpy(p).logit().numpy()[:, :, np.arange(5), labels]
    r_hat = [float(array_stats.rhat(odds[:, :, k].T, method="rank")) for k in range(5)]
    sizes = [float(array_stats.ess(odds[:, :, k].T, method="bulk")) for k in range(5)]
    assert (row["r_hat_max"], row["r_hat_median"]) == pytest.approx((max(r_hat), np.median(r_hat)))
    assert (row["ess_min"], row["ess_median"]) == pytest.approx((min(sizes), np.median(sizes)))
    assert len(row) == 4 * 5 + 4 and all(type(value) is float for value in row.values())


def test_predictions_that_autograd_follows_are_evaluated_as_others():
    table, data, draws, _, _ = _of_table()
    for together in (True, False):
        followed, plain = (evaluate(Table(one, together), draws, data) for one in (torch.nn.Parameter(table), table))
        assert followed == plain


class Elsewhere(torch.Tensor):
    """Meets no other tensor before it was moved, as one of another device."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        moved = function is torch.Tensor.to
        if not moved and any(type(one) is torch.Tensor for one in args):
            raise RuntimeError("Expected all tensors to be on the same device")
        given = super().__torch_function__(function, types, args, kwargs or {})
        return given.as_subclass(torch.Tensor) if moved else given


def test_labels_are_compared_where_the_predictions_are():
    """A network on a GPU predicts there, of data that may be the host's."""
    table, data, draws, _, _ = _of_table()
    there = replace(data, targets=data.targets.as_subclass(Elsewhere))
    with pytest.raises(RuntimeError, match="same device"):
        assert there.targets == torch.zeros(5)
    for together in (True, False):
        assert evaluate(Table(table, together), draws, there) == evaluate(Table(table, together), draws, data)


def test_what_is_no_data_set_is_one_sentence():
    empty = Dataset(torch.ones(0, 2), torch.ones(0).long(), 3)
    with pytest.raises(SettingError, match=r"inputs=\[0, 2\]: are no data"):
        evaluate(Table(torch.ones(1, 1)), torch.zeros(2, 1, 1), empty)
    with pytest.raises(SettingError, match=r"data=Tensor: must be an sgmcmc.Dataset\(inputs, labels, classes\)"):
        evaluate(Table(torch.ones(1, 1)), torch.zeros(2, 1, 1), torch.ones(3, 2))


@pytest.mark.parametrize(
    ("draws", "labels", "said"),
    [
        (torch.zeros(8, 4), 2, r"shape of draws=\[8, 4\]: must be \[draws, chains, 4\]"),
        (torch.zeros(8, 2, 3), 2, r"shape of draws=\[8, 2, 3\]: must be \[draws, chains, 4\]"),
        (torch.zeros(0, 2, 4), 2, r"shape of draws=\[0, 2, 4\]: must be \[draws, chains, 4\]"),
        (None, 2, "draws=NoneType: must be a torch.Tensor, such as result.draws"),
        (torch.zeros(8, 2, 4), 3, "labels of data=2: must be from 0 to 1: the target predicts 2 classes"),
        (torch.zeros(8, 2, 4), 1, "labels of data=-1: must be from 0 to 1: the target predicts 2 classes"),
    ],
)
def test_draws_and_labels_that_are_not_the_target_s_are_one_sentence(draws, labels, said):
    data = Dataset(torch.randn(9, 3), torch.arange(9) % 2, 2)
    asked = Dataset(data.inputs, torch.arange(9) % labels - int(labels == 1), labels)
    with pytest.raises(SettingError, match=f"^{said}"):
        evaluate(LogisticRegression(data), draws, asked)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (torch.ones(2, 9), r"shape of predictions=\[2, 9\]: must be \[2, 9, classes\]: probabilities of each chain, "),
        (torch.ones(1, 9, 2), r"shape of predictions=\[1, 9, 2\]: must be \[2, 9, classes\]: "),
        (np.ones((2, 9, 2)), "type of predictions=ndarray: must be a torch.Tensor"),
        (torch.ones(2, 9, 2) > 0, "dtype of predictions=bool: must be float32 or float64: probabilities"),
        (torch.tensor([3.0, -1.0]).expand(2, 9, 2), "predictions=3, -1: predict must give probabilities, whose sum "),
        (torch.tensor([2.0, -1.0]).expand(2, 9, 2), "predictions=2, -1: predict must give probabilities, whose sum "),
        (torch.tensor([0.51, 0.51]).expand(2, 9, 2), "predictions=0.51, 0.51: predict must give probabilities, whose "),
    ],
)
def test_predictions_that_are_no_probabilities_are_one_sentence(given, said, tmp_path, monkeypatch, capsys):
    """Later, and before a run's first cycle; what is not finite, or rounded to float16, is none of it."""
    labels = torch.arange(9) % 2
    data, draws = Dataset(torch.randn(9, 3), labels, 2), torch.randn(8, 2, 1)
    with pytest.raises(SettingError, match=f"^{said}"):
        evaluate(SimpleNamespace(together=True, predict=lambda *_: given), draws, data)
    target = Raw((3,))
    target.train = target.test = data
    target.predict = lambda theta, inputs: given
    monkeypatch.setattr("experiments.build._own", lambda *_: target)
    words = f"model=custom model._target_={__name__}.Raw sampler=hmc sampler.gradient=full step_size=1 cycles=4".split()
    assert run([*words, "chains=2", f"output={tmp_path / 'run'}", "progress=false"]) == 2
    assert re.match(said, capsys.readouterr().err.splitlines()[-1])
    halves = torch.randn(2, 9, 40).softmax(-1).half()
    halves[0, 3] = math.nan
    evaluate(SimpleNamespace(together=True, predict=lambda *_: halves), draws, data)


def test_draws_of_numpy_are_evaluated_as_those_of_torch():
    data = Dataset(torch.randn(9, 3), torch.arange(9) % 2, 2)
    target, draws = LogisticRegression(data), torch.randn(8, 2, 4)
    assert evaluate(target, draws.numpy(), data) == pytest.approx(evaluate(target, draws, data), nan_ok=True)
    with pytest.raises(SettingError, match=r"^target=SimpleNamespace: has no predict\(theta, inputs\)"):
        evaluate(SimpleNamespace(dim=4), draws, data)


def test_without_labels_there_is_the_entropy_and_its_mixing():
    from arviz_stats.base import array_stats

    table, data, draws, p, labels = _of_table()
    row = evaluate(Table(table), draws, replace(data, targets=data.targets + 7), labelled=False)
    joint = _quality_of(p.mean((0, 1)), labels)["entropy"]
    chains = [_quality_of(p[:, chain].mean(0), labels)["entropy"] for chain in range(3)]
    entropy = -(p * np.log(p)).sum(-1)
    mixing = [float(array_stats.rhat(entropy[:, :, k].T, method="rank")) for k in range(5)]
    assert set(row) == {"entropy", "chain_entropy", "chain_entropy_error", "sample_entropy"} | {
        "r_hat_max", "r_hat_median", "ess_min", "ess_median"
    }  # fmt: skip
    wanted = joint, np.mean(chains), np.std(chains, ddof=1) / math.sqrt(3), entropy.mean()
    assert tuple(row.values())[:4] == pytest.approx(wanted)
    assert (row["r_hat_max"], row["r_hat_median"]) == pytest.approx((max(mixing), np.median(mixing)))


def test_one_chain_has_no_error_and_what_never_moves_no_mixing():
    """A datum whose prediction stands still is passed over; where all do there is nothing to say."""
    table, data, draws, p, labels = _of_table(draws=30, chains=1)
    draws, p = draws.repeat_interleave(2, 0), p.repeat(2, 0)  # each second one was rejected
    row = evaluate(Table(table), draws, data)
    assert all(math.isnan(value) for key, value in row.items() if key.endswith("_error"))
    assert row["nll"] == row["chain_nll"] == pytest.approx(_quality_of(p.mean((0, 1)), labels)["nll"])
    odds = torch.from_numpy(p).logit().numpy()[:, :, np.arange(5), labels]
    odds[..., 3] = 0
    r_hat, sizes = diagnostics.r_hat(odds), diagnostics.ess(odds).value
    assert np.isnan(r_hat).tolist() == np.isnan(sizes).tolist() == [False, False, False, True, False]
    row = evaluate(Table(table * torch.tensor([1, 1, 1, 0, 1])[:, None]), draws, data)
    assert (row["r_hat_max"], row["r_hat_median"]) == pytest.approx((np.nanmax(r_hat), np.nanmedian(r_hat)))
    assert (row["ess_min"], row["ess_median"]) == pytest.approx((np.nanmin(sizes), np.nanmedian(sizes)))
    still = evaluate(Table(0 * table), draws, data)
    assert all(math.isnan(still[key]) for key in ("r_hat_max", "r_hat_median", "ess_min", "ess_median"))
    assert still["entropy"] == pytest.approx(math.log(3))


def test_chains_that_hardly_ever_move_have_no_effective_sample_size():
    """Of 60 draws 7 moves a chain: as if they were independent, ArviZ would say."""
    table, data, draws, _, _ = _of_table(draws=8, chains=1)
    draws = draws.repeat_interleave(8, 0)
    assert diagnostics.hardly_moves(draws) and math.isnan(evaluate(Table(table), draws, data)["ess_min"])
    two = _of_table(draws=8, chains=2)[2].repeat_interleave(8, 0)
    assert diagnostics.hardly_moves(two)  # 14 moves are 7 a chain
    table, data, draws, _, _ = _of_table(draws=9, chains=1)
    draws = draws.repeat_interleave(8, 0)
    assert not diagnostics.hardly_moves(draws) and evaluate(Table(table), draws, data)["ess_min"] > 1


def test_chains_that_stand_still_apart_have_an_infinite_r_hat():
    """Not an unknown one: nothing mixes less."""
    table, data, draws, _, _ = _of_table()
    row = evaluate(Table(table), draws[:1].expand(30, -1, -1), data)
    assert row["r_hat_max"] == row["r_hat_median"] == math.inf and math.isnan(row["ess_min"])


def test_all_data_count_where_two_hundred_are_followed():
    table, data, draws, p, labels = _of_table(data=FUNCTIONS + 30, draws=3, chains=2)
    assert evaluate(Table(table), draws, data)["nll"] == pytest.approx(_quality_of(p.mean((0, 1)), labels)["nll"])
    assert math.isfinite(evaluate(Table(table), draws, data, labelled=False)["entropy"])


def test_the_first_two_hundred_data_are_followed_each_by_its_own_label():
    """Of predictions without anything in common, of 231 data."""
    _, data, draws, _, labels = _of_table(data=FUNCTIONS + 31, chains=2)
    p = torch.from_numpy(np.random.default_rng(3).dirichlet(np.ones(3), (30, 2, len(data))))
    given = iter(p)
    row = evaluate(SimpleNamespace(together=True, predict=lambda *_: next(given)), draws, data)
    r_hat = diagnostics.r_hat(p[:, :, range(FUNCTIONS), labels[:FUNCTIONS]].logit())
    assert (row["r_hat_max"], row["r_hat_median"]) == pytest.approx((r_hat.max(), np.median(r_hat)))


def test_a_prediction_that_float32_rounds_to_certainty_has_log_odds():
    """Those of 1 − 1e-12; in float32, where that is 1, they would be infinite, and no R-hat would be known of them."""
    table, data, draws, _, labels = _of_table()
    table, draws = 200 * table.float(), draws.float()
    p = torch.stack([Table(table).predict(theta, None) for theta in draws]).double()[:, :, range(5), labels]
    assert ((p == 1).any(0).any(0) & (p < 0.5).any(0).any(0)).any()
    r_hat = diagnostics.r_hat(p.logit(eps=1e-12))
    assert evaluate(Table(table), draws, data)["r_hat_median"] == pytest.approx(np.median(r_hat))


def test_images_are_given_to_be_normalised_and_other_inputs_as_they_are():
    table, data, draws, _, _ = _of_table(data=4, draws=3)
    one = torch.tensor([0.5], dtype=torch.float64)
    images = replace(data, inputs=torch.zeros(4, 1, 2, 2, dtype=torch.uint8), mean=one, std=one)
    for dataset, given in ((data, data.inputs), (images, images)):
        potential = Table(table)
        evaluate(potential, draws, dataset)
        assert len(potential.asked) == 3 and all(asked is given for asked in potential.asked)


def test_raw_images_are_normalised_as_those_that_the_network_was_trained_on():
    """Whether the set of them says how or not; in another kind of number they are refused, uint8 without it told."""
    pixels, labels = torch.randint(0, 256, (20, 1, 8, 8), dtype=torch.uint8), torch.arange(20) % 2
    grey = torch.tensor([0.4]), torch.tensor([0.3])
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
    network = NetworkPotential(module, Dataset(pixels, labels, 2, *grey))
    draws = torch.randn(3, 1, network.dim, generator=torch.Generator().manual_seed(0))
    said, unsaid = (evaluate(network, draws, Dataset(pixels, labels, 2, *how)) for how in (grey, ()))
    np.testing.assert_equal(said, unsaid)
    clean = ((pixels / 255.0 - 0.4) / 0.3).float()
    assert evaluate(network, draws, Dataset(clean, labels, 2))["nll"] == pytest.approx(said["nll"], rel=1e-6)
    with pytest.raises(SettingError, match="inputs=float32: must be uint8"):
        network.predict(draws[0], Dataset(pixels / 255.0, labels, 2, *grey, scale=1.0))
    with pytest.warns(UserWarning, match="uint8 inputs go in as they are, from 0 to 255"):
        NetworkPotential(module, Dataset(pixels, labels, 2))


def test_noise_is_normal_on_the_normalised_inputs_and_always_the_same():
    """Of uint8 images and of features; 4,800 numbers, mean and standard deviation at five standard errors."""
    rng, half = np.random.default_rng(2), torch.tensor([0.25], dtype=torch.float64)
    images = torch.from_numpy(rng.integers(0, 256, (75, 1, 8, 8), dtype=np.uint8))
    for data in (
        Dataset(images, torch.zeros(75, dtype=torch.int64), 2, mean=half, std=half),
        Dataset(torch.from_numpy(rng.standard_normal((75, 64))), torch.zeros(75, dtype=torch.int64), 2),
    ):
        noisy = shifted(data, noise=0.3)
        assert noisy.mean is None and noisy.std is None and noisy.inputs.shape == data.inputs.shape
        noise = (noisy.normalise(noisy.inputs) - data.normalise(data.inputs)).double().flatten()
        assert abs(noise.mean()) < 5 * 0.3 / math.sqrt(4800)
        assert abs(noise.std() - 0.3) < 5 * 0.3 / math.sqrt(2 * 4800)
        assert len(noise.unique()) > 4700 and torch.equal(shifted(data, noise=0.3).inputs, noisy.inputs)
        assert shifted(data).inputs is data.inputs


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_noise_on_columns_that_float32_does_not_tell_apart_is_all_that_is_added(dtype):
    rows = (torch.randn(9, 3, dtype=torch.float64) * 1e3 + 1.6e9).to(dtype)
    target = LogisticRegression(Dataset(rows, torch.arange(9) % 2, 2))
    noisy = shifted(target.train, noise=1e-3, scale=target.column_scale).inputs
    added = (noisy - rows) / target.column_scale
    assert noisy.dtype == torch.float64 and 1e-4 < float(added.abs().max()) < 5e-3


# ---- the command


def columns() -> LogisticRegression:
    """Forty data of two columns of unlike spread, and as many to test."""
    rng = np.random.default_rng(3)
    inputs = torch.from_numpy(rng.standard_normal((80, 2)) * [0.1, 50.0] + [3.0, -20.0])
    labels = (inputs[:, 0] - 3 + inputs[:, 1] / 500 > -0.04).long()
    return LogisticRegression(Dataset(inputs[:40], labels[:40], 2), test=Dataset(inputs[40:], labels[40:], 2))


def test_noise_on_columns_is_of_their_standardised_size(tmp_path):
    """Each column gets noise in proportion to its own spread; predicted again in NumPy."""
    words = f"model=custom model._target_={__name__}.columns sampler=hmc step_size=.1 cycles=9 burn_in=4"
    assert run([*words.split(), f"output={tmp_path}/run", "progress=false"]) == 0
    target, theta = columns(), load_samples(tmp_path / "run")[:, 0].double().numpy()
    train, inputs, labels = (part.numpy() for part in (target.inputs, target.test.inputs, target.test.targets))
    drawn = Random(0).normal("diagnostic", 0, 1, *inputs.shape)[0].numpy()
    for noise in (0, 2):
        seen = (inputs - train.mean(0)) / train.std(0) + noise * drawn
        ones = (1 / (1 + np.exp(-(theta[:, :1] + theta[:, 1:] @ seen.T)))).mean(0)
        wanted = -np.log(np.where(labels == 1, ones, 1 - ones)).mean()
        assert _row([tmp_path / "run", f"noise={noise}"], tmp_path)["nll"] == pytest.approx(wanted, rel=1e-4)


@pytest.mark.thorough
def test_chains_that_diverged_are_left_out_and_told(tmp_path, capsys):
    """Where others of their group did not; the second of two equal groups, of two seeds."""
    words, folders = [word for word in WORDS if not word.startswith("lr")], []
    words += ["model.prior_variance=1", "friction=1", "chains=4", "step_size=[1e-2,1e20]", "progress=false"]
    for seed in (0, 1):
        folders.append(str(tmp_path / str(seed)))
        assert run([*words, f"seed={seed}", f"output={folders[-1]}"]) == 0
    assert read_status(folders[0])["frozen"] == [2, 3]
    capsys.readouterr()
    assert main([*folders, f"output={tmp_path}/table.csv"]) == 0
    assert "step_size=1e+20: 4 of 8 chains (indices 2, 3, 6, 7) diverged, and stand still" in capsys.readouterr().out
    for state in ("running", "failed"):  # whose status tells what diverged at an earlier end, if there was one
        _edit(folders[0], state=state, frozen=[])
        assert _diverged({folders[0]: read_status(folders[0]), folders[1]: {"frozen": [0]}}, [4, 4]) == {2, 3, 4}
    for folder in folders:  # as if they had all had one step size
        _edit(folder, state="done", frozen=[1, 3])
    assert main([*folders, f"output={tmp_path}/table.csv"]) == 0
    said = capsys.readouterr().out
    assert "step_size=0.01: 2 of 8 chains (indices 1, 5) diverged, and are left out\nstep_size=0.01: 2 chains\n" in said
    with open(tmp_path / "table.csv") as file:
        row, _ = csv.DictReader(file)
    potential, data = reopened(folders[0])
    for key, value in evaluate(potential, load_samples(folders)[:, [0, 4]], data.test).items():
        assert float(row[key]) == pytest.approx(value, nan_ok=True), key


@pytest.mark.thorough
def test_a_run_that_diverged_is_left_out_and_cuts_no_other_short(runs, tmp_path, capsys):
    short = tmp_path / "short"
    assert run([*WORDS[:-1], "cycles=2", "seed=2", f"output={short}", "progress=false"]) == 0
    _edit(short, state="diverged", frozen=[0])
    capsys.readouterr()
    alone, beside = _row(runs, tmp_path), _row([short, *runs], tmp_path)
    assert beside == pytest.approx(alone, nan_ok=True)
    assert f"diverged, and left out: {short}\n" in capsys.readouterr().out


def _edit(folder, **fields):
    """The status of a run with these fields."""
    status = {**read_status(folder), **fields}
    (Path(folder) / "status.json").write_text(json.dumps({**status, "sha256": signature(status)}))


def _row(words, tmp_path):
    out = tmp_path / "row.csv"
    assert main([*map(str, words), f"output={out}"]) == 0
    with open(out) as file:
        (row,) = csv.DictReader(file)
    return {key: value if key == "data" else float(value) for key, value in row.items()}


@pytest.mark.thorough
def test_one_run_on_its_own_test_set_is_what_the_run_said(runs, tmp_path, capsys):
    row = _row(runs[:1], tmp_path)
    metrics = load_metrics(runs[0])
    assert row["accuracy"] == pytest.approx(metrics["test_ensemble_accuracy"][-1], abs=1e-12)
    assert row["nll"] == pytest.approx(metrics["test_ensemble_nll"][-1], rel=1e-6)
    assert row["sample_nll"] == pytest.approx(np.mean(metrics["test_nll"]), rel=1e-6)
    first, *lines, last = capsys.readouterr().out.splitlines()
    assert first == "6 draws of 1 chain on the 297 test data of digits"
    assert last == "  no effective sample size: too few draws, or moves, to tell"
    said = {key: float(value) for key, value in map(str.split, lines)}
    known = {key: row[key] for key in row if key not in ("data", "noise", "translate") and row[key] == row[key]}
    assert said == pytest.approx(known, rel=1e-5) and "nll" in said and "chain_nll_error" not in said


def test_seeds_are_joined_as_chains(runs, tmp_path):
    assert load_samples(runs).shape[1] == 2
    both, each = _row(runs, tmp_path), [_row([folder], tmp_path) for folder in runs]
    assert both["chain_nll"] == pytest.approx(np.mean([row["nll"] for row in each]), rel=1e-9)
    assert both["nll"] <= max(row["nll"] for row in each)  # the joint ensemble's NLL is convex in the members
    assert np.isfinite(both["r_hat_max"]) and np.isnan(both["ess_min"])  # of six draws a chain


def test_of_seeds_of_different_lengths_the_draws_that_all_have_are_joined(runs, tmp_path, capsys):
    words = [*WORDS[:-1], "cycles=4", "seed=2", "progress=false", f"output={tmp_path / 'short'}"]
    assert run(words) == 0
    capsys.readouterr()
    assert main([*map(str, runs), str(tmp_path / "short")]) == 0
    said = capsys.readouterr()
    assert "4 draws of 3 chains" in said.out and "the first 4 draws of each are used" in said.err
    row, (potential, data) = _row([*runs, tmp_path / "short"], tmp_path), reopened(runs[0])
    draws = torch.cat([load_samples(one)[:4] for one in (*runs, tmp_path / "short")], 1)
    assert row["nll"] == pytest.approx(evaluate(potential, draws, data.test)["nll"], rel=1e-9)


@pytest.mark.thorough
def test_an_edited_configuration_is_told_and_written_anew(tmp_path, capsys):
    words = [*WORDS[:-1], "cycles=2", "seed=0", "progress=false", f"output={tmp_path / 'run'}"]
    assert run(words) == 0
    config = tmp_path / "run" / "config.yaml"
    text = config.read_text()
    assert "\nbatch_size: 100\n" in text
    config.write_text(text.replace("\nbatch_size: 100\n", "\nbatch_size: 50\n"))
    capsys.readouterr()
    assert main([str(tmp_path / "run")]) == 2
    assert "its config.yaml was edited (batch_size=50, not 100): the run's own command" in capsys.readouterr().err
    assert run(words) == 0 and config.read_text() == text
    assert f"{config} was edited (batch_size=50, not 100): it is written anew" in capsys.readouterr().out
    assert run(words) == 0 and main([str(tmp_path / "run")]) == 0
    assert "was edited" not in capsys.readouterr().out
    config.write_text(text.replace("  train_size: null\n", "  train_size: 500\n"))
    assert main([str(tmp_path / "run")]) == 2
    assert "config.yaml was edited (data.train_size=500, not None)" in capsys.readouterr().err
    parsed = yaml.safe_load(text)
    assert parsed["lr"] == 1e-3
    config.write_text(json.dumps(parsed))  # as a machine without YAML writes it
    assert main([str(tmp_path / "run")]) == 0


def test_runs_of_different_settings_are_no_chains_of_one(runs, tmp_path, capsys):
    """Another temperature is another posterior, another sampler another law where it is not corrected."""
    for name, word, differs in (("cold", "temperature=0.1", "temperature"), ("hmc", "sampler=hmc", "sampler")):
        assert run([*WORDS, word, f"output={tmp_path / name}", "progress=false"]) == 0
        capsys.readouterr()
        assert main([*map(str, runs), str(tmp_path / name)]) == 2
        said = capsys.readouterr().err
        assert f"differs from {runs[0]} in" in said and differs in said and said.count("\n") == 1
        with pytest.raises(StoreError, match="only runs of one configuration"):
            load_samples([*runs, tmp_path / name])


def test_runs_of_another_version_of_the_law_are_no_chains_of_one(tmp_path):
    """And of those that say nothing of their settings nothing is known."""
    settings = {"seed": 0, "lr": 0.1}
    for name, identity in {
        "a": {"settings": settings, "law": 1},
        "b": {"settings": settings | {"seed": 1}, "law": 1},
        "c": {"settings": settings, "law": 2},
        "d": None,
    }.items():
        with RunFolder(tmp_path / name, identity) as folder:
            folder.commit([], torch.zeros(2, 1, 3), {})
    assert load_samples([tmp_path / "a", tmp_path / "b", tmp_path / "d"]).shape == (2, 3, 3)
    with pytest.raises(StoreError, match="differs from .* in law"):
        load_samples([tmp_path / "a", tmp_path / "c"])


def test_runs_are_joined_in_their_order_where_nothing_differs_that_changes_draws(tmp_path):
    """A setting that one of them alone has differs, too."""
    base = {"seed": 0, "lr": 0.1, "thin": 1, "burn_in": 10}

    def kept(name, settings):
        with RunFolder(tmp_path / name, {"settings": settings, "law": 1}) as folder:
            folder.commit([], torch.full((2, 1, 3), float(settings["seed"])), {})
        return tmp_path / name

    first = kept("first", base)
    for seed, name in enumerate(("chains", "init", "warm_start", "log_every", "save_every"), 1):
        other = kept(name, base | {"seed": seed, name: 2})
        for folders, seeds in (([first, other], [0, seed]), ([other, first], [seed, 0])):
            assert load_samples(folders)[0, :, 0].tolist() == seeds
    for name, value in (("lr", 0.2), ("thin", 2), ("burn_in", 20), ("step_size", 0.3)):
        other = kept(name, base | {"seed": 9, name: value})
        for folders in ([first, other], [other, first]):
            with pytest.raises(StoreError, match=f"differs from .* in {name}: only runs of one configuration"):
                load_samples(folders)
    with pytest.raises(StoreError, match="have the same seed"):
        load_samples([first, kept("again", base)])


def test_a_run_is_not_joined_with_itself(runs, tmp_path, capsys):
    """Nor with the first chains of the same seed: an effective sample size would count them twice."""
    assert main([str(runs[0]), str(runs[1]), str(runs[0])]) == 2
    assert f"{runs[0]} and {runs[0]} have the same seed, so the same random numbers" in capsys.readouterr().err
    assert run([*WORDS, "chains=2", f"output={tmp_path / 'more'}", "progress=false"]) == 0
    first = [one for one in runs if "seed: 0" in (one / "config.yaml").read_text()]
    with pytest.raises(StoreError, match="have the same seed, so the same random numbers"):
        load_samples([*first, tmp_path / "more"])


@pytest.mark.parametrize(
    ("number", "used"), [(1, [6]), (2, [3, 6]), (4, [2, 4, 6]), (6, range(1, 7)), ("1e3", range(1, 7))]
)
def test_so_many_draws_are_used_evenly_spaced_up_to_the_last(runs, tmp_path, capsys, number, used):
    row, metrics = _row([runs[0], f"draws={number}"], tmp_path), load_metrics(runs[0])
    for key in ("nll", "accuracy"):
        assert row[f"sample_{key}"] == pytest.approx(np.mean([metrics[f"test_{key}"][k - 1] for k in used]), rel=1e-6)
    assert f"{len(used)} draw{'s' * (len(used) > 1)} of 1 chain on" in capsys.readouterr().out


def test_foreign_images_have_an_entropy_alone(runs, tmp_path, capsys, monkeypatch):
    """Normalised as the digits were: the digits themselves under another name and with other labels are they."""
    own = load("digits")
    strangers = replace(own.test, targets=own.test.targets + 10, mean=own.test.mean * 3, name="strange")
    monkeypatch.setattr("experiments.evaluate.load", lambda name, root: Data(None, strangers))
    row, labelled = _row([*runs, "data=strange"], tmp_path), _row(runs, tmp_path)
    assert row["entropy"] == pytest.approx(labelled["entropy"], rel=1e-9) and row["data"] == "strange"
    assert "nll" not in row and row["sample_entropy"] == pytest.approx(labelled["sample_entropy"], rel=1e-9)
    said = "6 draws of 2 chains on the 297 test data of strange, whose labels are not compared with those"
    assert said in capsys.readouterr().out


def test_noise_too_small_to_see_changes_no_number(runs, tmp_path, capsys):
    """What is noisy is normalised once."""
    row, clean = _row([runs[0], "noise=1e-5"], tmp_path), _row([runs[0]], tmp_path)
    assert (row.pop("noise"), clean.pop("noise")) == (1e-5, 0)
    firsts = [line for line in capsys.readouterr().out.splitlines() if "test data" in line]
    assert [line.partition(" of digits")[2] for line in firsts] == [", noise=1e-5", ""]
    for key in ("nll", "accuracy", "chain_brier", "sample_entropy"):
        assert row[key] == pytest.approx(clean[key], rel=1e-4) and (key == "accuracy" or row[key] != clean[key])


def test_shifted_inputs_are_predicted_worse(runs, tmp_path):
    assert _row([*runs, "noise=3", "translate=2"], tmp_path)["nll"] > _row(runs, tmp_path)["nll"]


def test_the_command_moves_images_by_as_many_pixels_as_it_is_told(runs, tmp_path, capsys):
    row, (potential, data) = _row([runs[0], "translate=2"], tmp_path), reopened(runs[0])
    moved = evaluate(potential, load_samples(runs[0]), shifted(data.test, translate=2))
    assert row["nll"] == pytest.approx(moved["nll"], rel=1e-9) and row["translate"] == 2
    for word in ("noise=-.5", "noise=nan", "noise=inf", "noise=x"):
        assert main([str(runs[0]), word]) == 2
        assert capsys.readouterr().err == f"{word}: must be a number, finite and not negative\n"
    for word, least in (("translate=-1", 0), ("translate=1.5", 0), ("draws=1.7", 1), ("draws=0", 1), ("draws=-1", 1)):
        assert main([str(runs[0]), word]) == 2
        assert capsys.readouterr().err == f"{word}: must be a whole number, at least {least}\n"


def test_translation_moves_images_down_and_right():
    test = load("digits").test
    moved = shifted(test, translate=2).inputs
    assert torch.equal(moved[:, :, 2:, 2:], test.inputs[:, :, :-2, :-2])
    assert not moved[:, :, :2].any() and not moved[:, :, :, :2].any()
    for wide in (test.inputs[:, :, :5], test.inputs[:, :, :, :5]):
        other = shifted(replace(test, inputs=wide), translate=3).inputs
        assert other.shape == wide.shape and torch.equal(other[:, :, 3:, 3:], wide[:, :, :-3, :-3])
    assert torch.equal(shifted(test, translate=7).inputs[:, :, 7, 7], test.inputs[:, :, 0, 0])
    for data, pixels in ((test, 8), (replace(test, inputs=torch.zeros(297, 64)), 1)):
        with pytest.raises(SettingError, match="fewer pixels than they have"):
            shifted(data, translate=pixels)


@pytest.mark.parametrize(
    ("words", "told"),
    [(["nowhere"], "nowhere"), (["noise=x"], "RUN"), (["colour=3"], "colour"), ([], "")],
)
def test_a_mistake_is_one_sentence(words, told, capsys):
    status = main(words)
    said = capsys.readouterr()
    assert status == (2 if words else 0)
    assert told in said.err and len(said.err.splitlines()) == (1 if words else 0)


def test_a_table_that_cannot_be_written_is_told_below_what_was_found(runs, capsys):
    for table in ("nowhere/table.csv", ""):
        assert main([str(runs[0]), "draws=1", f"output={table}"]) == 2
        said = capsys.readouterr()
        assert "accuracy" in said.out
        assert said.err == f"output={table}: cannot be written (No such file or directory)\n"


def test_a_folder_of_runs_is_told_what_to_name(runs, capsys):
    assert main([str(runs[0].parent)]) == 2
    mend = f"holds runs and is none: name those whose chains are to be joined, such as {runs[0]}"
    assert capsys.readouterr().err == f"RUN={runs[0].parent}: {mend}\n"


@pytest.mark.thorough
def test_a_configuration_that_is_damaged_is_one_sentence(runs, tmp_path, capsys):
    shutil.copytree(runs[0], tmp_path / "run")
    with open(tmp_path / "run/config.yaml", "a") as file:
        file.write("garbage\n")
    assert main([str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "config.yaml" in said and "is not YAML" in said and said.count("\n") == 1
    for text in (b":::{", b"", b"data: 3\nmodel: 4\n", b"\xff\xfe\x00garbage", 3000 * b"["):
        (tmp_path / "run/config.yaml").write_bytes(text)
        assert main([str(tmp_path / "run")]) == 2
        said = capsys.readouterr().err
        assert "or its config.yaml is damaged: no setting says what its target is" in said and said.count("\n") == 1
        if not text:
            assert edits(tmp_path / "run") == "it is damaged"


def test_what_cannot_be_read_is_one_sentence(runs, tmp_path, monkeypatch, capsys):
    """A folder that may not be searched, as another user's; a configuration; the checkpoints of a run that goes on."""
    shutil.copytree(runs[0], tmp_path / "run")
    status = json.loads((tmp_path / "run/status.json").read_text()) | {"state": "running"}
    del status["sha256"]
    (tmp_path / "run/status.json").write_text(json.dumps(status | {"sha256": signature(status)}))

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", "run/file")

    for name in ("pathlib.Path.is_file", "omegaconf.OmegaConf.load", "sgmcmc.chain.read_checkpoint"):
        with monkeypatch.context() as patch:
            patch.setattr(name, refuse)
            assert main([str(tmp_path / "run"), "draws=1"]) == 2, name
        said = "run/file: no permission to read or write here: is it in the folder of a run, and yours to read?\n"
        assert capsys.readouterr().err == said


def points() -> NetworkPotential:
    """A target of one's own, on data of its own."""
    data = Dataset(torch.linspace(-1, 1, 40).view(20, 2), torch.arange(20) % 2, 2)
    return NetworkPotential(torch.nn.Linear(2, 2), data)


class Module(torch.nn.Module):
    """A target of one's own that is a module, whose ``train`` is a method."""

    dim, data_size = 1, 0

    def potential(self, theta):
        return theta.double().square().sum(-1) / 2

    def gradient(self, theta, batch=None):
        return theta

    def initial(self, chains, random):
        return random.normal("start", 0, 1, chains, 1)[0]


def bare() -> Module:
    return Module()


def test_other_data_are_normalised_as_the_training_data_are(runs, tmp_path, monkeypatch):
    """In the command as in a run's columns of data from elsewhere; 28 x 28 they would be counted as the digits were."""
    digits = load("digits").test
    grey = torch.tensor([0.5], dtype=torch.float64)
    other = replace(digits, mean=grey, std=grey, scale=255.0, name="other")
    monkeypatch.setattr("experiments.evaluate.load", lambda *_: Data(None, other))
    row, own = _row([runs[0], "data=other"], tmp_path), _row([runs[0]], tmp_path)
    assert row["entropy"] == pytest.approx(own["entropy"], rel=1e-12)
    row, own = (_row([runs[0], *words, "noise=.5"], tmp_path) for words in (["data=other"], []))
    assert row["entropy"] == pytest.approx(own["entropy"], rel=1e-12)  # noise is of inputs that are normalised
    monkeypatch.setattr(
        "experiments.build.load", lambda name, *_: load("digits") if name == "digits" else Data(None, other)
    )
    words = "model=mlp data=digits data.ood=notmnist sampler=hmc lr=1e-4 batch_size=50 cycles=2 steps_per_cycle=1"
    (given, labels) = build(compose(words.split())).predictions["ood"]
    assert labels is None and torch.equal(given.normalise(given.inputs), digits.normalise(digits.inputs))


@pytest.mark.thorough
def test_a_target_s_own_data_are_predicted(tmp_path, monkeypatch, capsys):
    words = f"model=custom model._target_={__name__}.points sampler=hmc batch_size=5 step_size=.1 cycles=9".split()
    assert run([*words, f"output={tmp_path / 'run'}", "progress=false"]) == 0
    capsys.readouterr()
    assert main([str(tmp_path / "run")]) == 0
    assert "9 draws of 1 chain on the 20 training data of its own\n" in capsys.readouterr().out
    assert main([str(tmp_path / "run"), "data=digits"]) == 2
    assert capsys.readouterr().err == (
        "data=digits: its inputs are 1x8x8, and must be 2, as those that the model was trained on (its own data)\n"
    )
    assert main([str(tmp_path / "run"), "data=elsewhere"]) == 2
    assert capsys.readouterr().err.startswith("data=elsewhere: known are cifar10, mnist")
    target = build(compose(words)).potential
    other = Dataset(torch.zeros(3, 2, dtype=torch.uint8), torch.zeros(3, dtype=torch.int64), 2, name="other")
    monkeypatch.setattr("experiments.build.load", lambda *_: Data(None, other))
    assert "ood" in build(compose([*words, "data.ood=notmnist"])).predictions
    with pytest.raises(SettingError, match="data=notmnist: has no training data: it is for data.ood"):
        build(compose(["model=mlp", "data.name=notmnist", "lr=1"]))
    one = torch.ones(1, dtype=torch.float64)
    target.train = replace(target.train, inputs=torch.zeros(20, 2), mean=one, std=one, scale=1.0)
    with pytest.raises(SettingError, match="data=other: its inputs are uint8, and must be float32, as those that"):
        foreign("data", "other", other, target.train)
    words = f"model=custom model._target_={__name__}.bare sampler=hmc step_size=.1 cycles=9".split()
    assert run([*words, f"output={tmp_path / 'bare'}", "progress=false"]) == 0
    capsys.readouterr()
    with pytest.raises(SettingError, match="data.ood=notmnist: the target has no data that it predicts: leave it out"):
        build(compose([*words, "data.ood=notmnist"]))
    assert main([str(tmp_path / "bare")]) == 2
    assert "its target has no data that it predicts" in capsys.readouterr().err


class Raw:
    """A target whose ``predict`` keeps what it is asked of; its data have a mean, which is a network's to use."""

    dim, data_size, together = 1, 6, True

    def __init__(self, shape):
        inputs, labels = torch.arange(6.0)[:, None].expand(6, math.prod(shape)).reshape(6, *shape), torch.arange(6) % 2
        self.train = Dataset(inputs, labels, 2, [5.0], [2.0], scale=1.0)
        self.test, self.asked = self.train, []

    def potential(self, theta):
        return theta.double().square().sum(1) / 2

    def gradient(self, theta, batch=None):
        return theta

    def initial(self, chains, random):
        return torch.zeros(chains, 1)

    def predict(self, theta, inputs):
        self.asked.append(inputs)
        return torch.full((len(theta), 6, 2), 0.5, dtype=torch.float64)


@pytest.mark.parametrize("shape", [(3,), (1, 2, 2)])
def test_a_run_and_a_later_look_ask_a_target_of_one_s_own_the_same(shape, tmp_path, monkeypatch):
    """Of columns as they are, noise as well, in a tensor; of images in a data set."""
    target = Raw(shape)
    monkeypatch.setattr("experiments.build._own", lambda *_: target)
    words = f"model=custom model._target_={__name__}.Raw sampler=hmc sampler.gradient=full step_size=1 cycles=4".split()
    assert run([*words, f"output={tmp_path / 'run'}", "progress=false"]) == 0
    in_run = target.asked[:]
    target.asked.clear()
    assert main([str(tmp_path / "run")]) == 0
    for one in [*in_run, *target.asked]:
        assert isinstance(one, Dataset if len(shape) > 1 else torch.Tensor)
        assert torch.equal(one.inputs if len(shape) > 1 else one, target.train.inputs)
    target.asked.clear()
    assert main([str(tmp_path / "run"), "noise=1e-9"]) == 0
    clean = target.train.inputs if len(shape) == 1 else (target.train.inputs - 5) / 2
    for one in target.asked:
        torch.testing.assert_close(one.inputs if len(shape) > 1 else one, clean)
    with pytest.raises(SettingError, match="noise=1e\\+39: makes inputs infinite: give less"):
        shifted(target.train, 1e39)


def test_a_test_set_of_one_s_own_that_is_empty_is_none(tmp_path, monkeypatch):
    target = Raw((3,))
    target.test = replace(target.train, inputs=target.train.inputs[:0], targets=target.train.targets[:0])
    monkeypatch.setattr("experiments.build._own", lambda *_: target)
    words = f"model=custom model._target_={__name__}.Raw sampler=hmc sampler.gradient=full step_size=1 cycles=4".split()
    assert run([*words, f"output={tmp_path / 'run'}", "progress=false"]) == 0
    assert target.asked == []


def test_help_is_given_wherever_it_is_asked_for(capsys):
    for words in ([], ["-h"], ["somewhere", "noise=1", "--help"]):
        assert main(words) == 0 and "python -m experiments.evaluate RUN" in capsys.readouterr().out


@pytest.mark.thorough
def test_the_library_s_name_of_the_command_is_the_command(runs):
    """Scripts may say ``python -m sgmcmc.evaluate``."""
    command = [sys.executable, "-m", "sgmcmc.evaluate", runs[0], "draws=2"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0 and "2 draws of 1 chain on the 297 test data of digits" in ended.stdout
