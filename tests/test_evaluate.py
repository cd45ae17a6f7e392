"""Stored samples predict again: the run's own test set, shifted and foreign data, several seeds together."""

import csv

import numpy as np
import pytest
import torch

from experiments.command_line import main as run
from sgmcmc import RunFolder, load_metrics, load_samples
from sgmcmc.data import load
from sgmcmc.errors import StoreError
from sgmcmc.evaluate import main, shifted

WORDS = "model=mlp model.hidden=[8] data=digits sampler=ggmc lr=1e-3 batch_size=100 steps_per_cycle=5 cycles=6".split()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds of a small network on the digits."""
    folders = [tmp_path_factory.mktemp("runs") / str(seed) for seed in (0, 1)]
    for seed, folder in enumerate(folders):
        assert run([*WORDS, f"seed={seed}", f"output={folder}", "progress=false"]) == 0
    return folders


def _row(words, tmp_path):
    out = tmp_path / "row.csv"
    assert main([*map(str, words), f"output={out}"]) == 0
    with open(out) as file:
        (row,) = csv.DictReader(file)
    return {key: value if key == "data" else float(value) for key, value in row.items()}


def test_one_run_on_its_own_test_set_is_what_the_run_said(runs, tmp_path, capsys):
    row = _row(runs[:1], tmp_path)
    metrics = load_metrics(runs[0])
    assert row["accuracy"] == pytest.approx(metrics["test_ensemble_accuracy"][-1], abs=1e-12)
    assert row["nll"] == pytest.approx(metrics["test_ensemble_nll"][-1], rel=1e-6)
    assert row["sample_nll"] == pytest.approx(np.mean(metrics["test_nll"]), rel=1e-6)
    assert "6 draws of 1 chain on the 297 test data of digits" in capsys.readouterr().out


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


def test_a_run_is_not_joined_with_itself(runs, tmp_path, capsys):
    """Nor with the first chains of the same seed: an effective sample size would count them twice."""
    assert main([str(runs[0]), str(runs[1]), str(runs[0])]) == 2
    assert f"{runs[0]} and {runs[0]} have the same seed, so the same random numbers" in capsys.readouterr().err
    assert run([*WORDS, "chains=2", f"output={tmp_path / 'more'}", "progress=false"]) == 0
    first = [one for one in runs if "seed: 0" in (one / "config.yaml").read_text()]
    with pytest.raises(StoreError, match="have the same seed, so the same random numbers"):
        load_samples([*first, tmp_path / "more"])


def test_shifted_inputs_are_predicted_worse(runs, tmp_path):
    assert _row([*runs, "noise=3", "translate=2"], tmp_path)["nll"] > _row(runs, tmp_path)["nll"]


def test_translation_moves_images_down_and_right():
    test = load("digits").test
    moved = shifted(test, translate=2).inputs
    assert torch.equal(moved[:, :, 2:, 2:], test.inputs[:, :, :-2, :-2])
    assert not moved[:, :, :2].any() and not moved[:, :, :, :2].any()


@pytest.mark.parametrize(
    ("words", "told"),
    [(["nowhere"], "nowhere"), (["noise=x"], "RUN"), (["colour=3"], "colour"), ([], "")],
)
def test_a_mistake_is_one_sentence(words, told, capsys):
    status = main(words)
    said = capsys.readouterr()
    assert status == (2 if words else 0)
    assert told in said.err and len(said.err.splitlines()) == (1 if words else 0)
