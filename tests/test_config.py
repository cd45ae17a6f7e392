"""What a command line's words become: which value wins, what is filled in, what is refused, what a run is called."""

import math
import re
import shutil
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.errors import HydraException
from safetensors.torch import save_file

from experiments import schema
from experiments.build import build, reopened, settings_of
from experiments.command_line import sentence
from experiments.config import compose, point_settings, resolve, unused, words_for
from experiments.dotted import get, put
from experiments.resolved import OWN_DATA, PAPER_FRICTION, folder, identity, sampler_row, scientific, show
from experiments.schema import CONF, options
from experiments.values import cast
from sgmcmc.chain import Chain
from sgmcmc.data import load
from sgmcmc.errors import SettingError
from sgmcmc.plan import Plan
from sgmcmc.random import Random
from sgmcmc.samplers import NUMBERS, SAMPLERS
from sgmcmc.schedules import Schedule
from sgmcmc.warm_start import sgd

TOYS = ["double_well", "banana", "mixture", "gaussian", "gaussian_pairs", "quartic", "mixed"]
CHAINS = ["digits", "garriga2021", "wenzel2020"]  # the experiments that are one chain, not a grid
DATA = {"resnet20": "cifar10", "mlp": "mnist", "logistic": "australian"}
DATA |= dict.fromkeys(["hierarchical_regression", "logistic_generated", "location_mixture"], "none")


@pytest.fixture
def composing():
    return lambda *words: compose([word for part in words for word in part.split()])


def step(model):
    return "step_size=0.01" if model in TOYS or model == "custom" else "lr=1e-4"


def a_word(sampler):
    return "sampler.word=BABAB" if sampler == "custom" else ""


# ---- everything composes


def test_the_groups_are_the_contract():
    assert set(options("model")) == {*TOYS, *DATA, "custom"}
    assert set(options("data")) == {"cifar10", "mnist", "digits", "australian", "heart", "none"}
    assert set(options("sampler")) == {*SAMPLERS, "custom"}
    assert set(options("schedule")) == {"constant", "cosine", "palindromic_cosine", "stairs"}
    assert set(options("scale")) == {"paper", "quick", "smoke"}
    assert {"digits", "garriga2021", "wenzel2020"} <= set(options("experiment"))


@pytest.mark.slow
@pytest.mark.parametrize("model", [*TOYS, *DATA, "custom"])
def test_every_model_with_every_sampler(composing, model):
    own = "model._target_=package.Model model.width=3" if model == "custom" else f"model={model}"
    for sampler in options("sampler"):
        config = composing(own, f"sampler={sampler}", step(model), a_word(sampler))
        assert config["data"]["name"] == DATA.get(model, "none")
        assert config["sampler"]["name"] == sampler
        row = sampler_row(config["sampler"])
        assert (config["sampler"]["word"], config["sampler"]["acceptance"]) == (row.word, row.acceptance)
        assert (config["steps_per_cycle"] == 1) == (row.steps == 1)
        assert len(identity(config)) == 12


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["paper", "quick", "smoke"])
@pytest.mark.parametrize("experiment", CHAINS)
def test_every_experiment_with_the_samplers_at_every_scale(composing, experiment, scale):
    # All samplers at one scale, every third at the others: composing takes a tenth of a second.
    for sampler in options("sampler")[:: 1 if scale == "paper" else 3]:
        config = composing(f"experiment={experiment} scale={scale} sampler={sampler}", a_word(sampler))
        assert config["name"] == experiment and config["sampler"]["name"] == sampler
    assert composing(f"experiment={experiment} scale={scale}")


@pytest.mark.slow
@pytest.mark.parametrize("experiment", CHAINS)
def test_every_experiment_with_every_model(composing, experiment):
    for model in [*TOYS, *DATA]:
        words = f"experiment={experiment} model={model} {step(model)}"
        if model in ("resnet20", "mlp"):
            config = composing(words)
        else:  # what the experiment says of its own model, its data and its start gives way
            config = composing(words)
            assert config["init"] is None and config["augmentation"] is None
        assert set(config["model"]) == set(schema.dotted(schema.MODELS[model]))
        assert config["name"] == experiment


# ---- which value wins


@pytest.fixture
def layers(tmp_path, monkeypatch):
    """An experiment of the test's own in a copy of conf/."""
    for path in CONF.rglob("*.yaml"):
        copy = tmp_path / path.relative_to(CONF)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
    (tmp_path / "experiment" / "layers.yaml").write_text(
        """# @package _global_
defaults:
  - override /model: logistic
  - override /data: heart
  - override /sampler: amagold
model: {prior_variance: 7}
step_size: 0.01
cycles: 50
batch_size: 9
seed: 4
quick:
  seed: 5
  lr: 3
  epochs: 30
  epochs_per_cycle: 1
  model: {prior_variance: 8}
  sampler.b: 0.5
smoke: {cycles: 2}
"""
    )
    monkeypatch.setattr(schema, "CONF", tmp_path)
    return lambda words: compose(["experiment=layers", *words.split()])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words, expected",
    [
        # the experiment over the groups and over the schema
        ("", {"batch_size": 9, "seed": 4, "step_size": 0.01, "lr": None, "cycles": 50}),
        ("", {"data.name": "heart", "sampler.name": "amagold", "friction": 1, "model.prior_variance": 7}),
        # the command line over the experiment, its groups too
        ("batch_size=8 model.prior_variance=2", {"batch_size": 8, "model.prior_variance": 2}),
        ("data=australian", {"data.name": "australian", "batch_size": 9}),
        ("sampler=hmc", {"sampler.name": "hmc", "batch_size": None, "sampler.beta": None}),
        ("lr=1", {"lr": 1, "step_size": None}),
        ("friction=2", {"friction": 2, "sampler.beta": None}),
        # the block over the experiment, whole families at once
        ("scale=smoke", {"cycles": 2, "step_size": 0.01}),
        ("scale=quick", {"seed": 5, "model.prior_variance": 8, "lr": 3, "step_size": None}),
        ("scale=quick", {"epochs": 30, "cycles": None, "sampler.b": 0.5, "sampler.beta": None}),
        # the command line over the block
        ("scale=quick seed=6 model.prior_variance=9", {"seed": 6, "model.prior_variance": 9, "lr": 3}),
        ("scale=quick step_size=1", {"step_size": 1, "lr": None}),
        ("scale=quick cycles=3", {"cycles": 3, "epochs": None, "epochs_per_cycle": 1}),
        ("scale=quick momentum_decay=.9", {"momentum_decay": 0.9, "sampler.b": None}),
        ("scale=quick quick.seed=7", {"seed": 7}),
        ("scale=quick +quick.seed=7", {"seed": 7}),
        ("scale=quick +quick.thin=2", {"thin": 2}),
    ],
)
def test_which_value_wins(layers, words, expected):
    config = layers(words)
    assert {key: get(config, key) for key in expected} == expected


def test_a_point_may_set_a_scale_of_its_own():
    """``quick.KEY`` in a point wins over the point's KEY at that scale, whether or not the block names KEY, too."""
    points = [{"chains": 30, "quick.chains": 15, "seed": 2}, {"chains": 40, "seed": 3}]
    for block in ({}, {"chains": 9}):
        assert point_settings(points, 0, {"scale": "paper", "quick": block}, []) == points[0]
        config = {"scale": "quick", "quick": block}
        assert point_settings(points, 0, config, []) == {"quick.chains": 15, "seed": 2}
        assert point_settings(points, 0, config, ["seed=1"]) == {"quick.chains": 15}
    assert point_settings(points, 1, {"scale": "quick", "quick": {}}, []) == points[1]
    assert point_settings(points, 1, {"scale": "quick", "quick": {"chains": 9}}, []) == {"seed": 3}
    assert point_settings(points, 0, {"scale": "quick"}, ["quick.chains=3"]) == {"seed": 2}
    assert point_settings(points, 0, {"scale": "quick"}, ["chains=3"]) == {"seed": 2}
    assert point_settings([{"quick.cycles": 9}], 0, {"scale": "quick"}, ["quick.epochs=3"]) == {}


@pytest.mark.parametrize(
    ("setting", "own", "typed"), [("model.width", 3, 5), ("sampler.acceptance", "barker", "metropolis")]
)
def test_a_scale_s_own_value_is_of_the_group_that_is_said_beside_it(setting, own, typed, composing):
    """As a point says both: it is not what an experiment's block says of another model, or sampler."""
    words = f"experiment=digits scale=smoke model=resnet20 sampler=langevin ++smoke.{setting}={own}"
    assert get(composing(words), setting) == own
    assert get(composing(words, f"{setting}={typed}"), setting) == typed
    points = [{"model": "resnet20", "model.width": 4, "smoke.model.width": 3}]
    assert point_settings(points, 0, {"scale": "smoke"}, []) == {"model": "resnet20", "smoke.model.width": 3}
    assert point_settings(points, 0, {"scale": "smoke"}, ["model=mlp"]) == {}


def test_a_natural_data_set_gives_way(composing):
    assert composing("model=logistic data=heart step_size=1")["batch_size"] == 16
    assert composing("model=mlp data=digits lr=1")["batch_size"] == 100
    assert composing("model=resnet20 data=digits batch_size=50 lr=1")["batch_size"] == 50


# ---- what is filled in


def test_the_papers_command(composing):
    config = composing("sampler=ggmc lr=1e-4")
    expected = {
        "model.name": "resnet20", "model.norm": "frn", "model.flat_norms": False, "data.name": "cifar10",
        "batch_size": 125, "temperature": 1, "epochs": 3000, "epochs_per_cycle": 10, "augmentation": "none",
        "friction": 14.2854713425451, "sampler.word": "OBABO", "sampler.refresh": "keep",
        "sampler.acceptance": "monitor", "sampler.gradient": "minibatch", "init": "he", "chains": 1,
    }  # fmt: skip
    assert {key: get(config, key) for key in expected} == expected


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words, expected",
    [
        ("model=banana sampler=ggmc", {"friction": 1, "sampler.beta": None}),
        ("model=banana sampler=amagold", {"friction": 1, "sampler.beta": None}),
        ("model=banana sampler=sghmc", {"friction": 1, "sampler.beta": None}),
        ("model=banana sampler=sgld", {"friction": None, "sampler.beta": None}),
        ("model=banana sampler=hmc friction=3", {"friction": None}),
        ("model=logistic sampler=l2mc", {"friction": 1}),
        ("model=mlp sampler=amagold", {"friction": PAPER_FRICTION, "sampler.beta": None}),
        ("model=mlp sampler=amagold sampler.b=.01", {"friction": None, "sampler.b": 0.01}),
        ("model=banana sampler=custom sampler.word=BAB", {"sampler.refresh": "full", "friction": None}),
        ("model=banana sampler=custom sampler.word=OBABO", {"sampler.refresh": "keep", "friction": 1}),
        ("model=banana sampler=hmc", {"sampler.gradient": "full", "sampler.ends": None}),
        ("model=mlp sampler=hmc", {"sampler.gradient": "minibatch", "sampler.ends": "minibatch"}),
        ("model=banana sampler=persistent_langevin", {"sampler.alpha": 0.9, "sampler.delta": None}),
        ("model=banana sampler=nonreversible_langevin", {"sampler.alpha": 0.9, "sampler.delta": 0.05}),
        ("model=banana cycles=5e6", {"cycles": 5_000_000, "steps_per_cycle": 10}),
        ("model=resnet20 augmentation=averaged", {"views": 8}),
        ("model=resnet20 views=9", {"views": None}),
        ("model=resnet20 init=sgd", {"warm_start.epochs": 3}),
        ("model=resnet20 warm_start.epochs=5", {"warm_start.epochs": None}),
        ("model=banana trace=true trace_cycles=[1,9]", {"trace": 1, "trace_cycles": [1, 9]}),
        ("model=banana seed=null ~temperature", {"seed": 0, "temperature": 1}),
        ("schedule=stairs model=banana", {"schedule.every": 15, "schedule.factor": 0.1}),
    ],
)
def test_what_is_filled_in(composing, words, expected):
    config = composing(words, "step_size=0.1")
    assert {key: get(config, key) for key in expected} == expected


def test_a_point_s_minibatches_are_of_the_data_and_stay_with_another_sampler():
    points, said = [{"sampler.minibatches": "shuffled", "sampler.refresh": "full"}], ["sampler=hmc"]
    assert point_settings(points, 0, {"scale": "paper"}, said) == {"sampler.minibatches": "shuffled"}
    assert point_settings(points, 0, {"scale": "paper"}, ["sampler.minibatches=independent"]) == {
        "sampler.refresh": "full"
    }


def test_the_frictions_of_the_presets_are_beta_98_at_lr_point_1(composing):
    for experiment, size in (("digits", 1500), ("garriga2021", 50_000)):
        gamma = composing(f"experiment={experiment}")["friction"]
        assert gamma == pytest.approx(-math.sqrt(size / 0.1) * math.log(0.98), rel=1e-14)


def test_lists_are_one_a_chain(composing):
    config = composing("model=banana step_size=[.1,.2,.3] friction=[1,2,3]")
    assert config["chains"] == 3 and config["step_size"] == [0.1, 0.2, 0.3]
    with pytest.raises(SettingError, match="has 2 values for 3 chains"):
        composing("model=banana step_size=[.1,.2] chains=3")


@pytest.mark.thorough
def test_what_is_asked_for_and_not_used_is_told(composing):
    words = ["model=banana", "sampler=hmc", "step_size=.1", "friction=3", "batch_size=5", "scale=quick", "init=null"]
    assert unused(composing(*words), words) == ["friction=3", "batch_size=5", "scale=quick"]
    words = ["experiment=neal_rejection", "scale=quick", "point=0"]
    assert unused(composing(*words), words) == []
    words = ["model=banana", "sampler=hmc", "step_size=.1", "model.noise=1", "data.train_size=5", "data.ood=notmnist"]
    assert unused(composing(*words), words) == words[3:]
    noisy = [*words[:4], "sampler.gradient=minibatch"]
    assert unused(composing(*noisy), noisy) == []
    walk = ["model=banana", "sampler=random_walk", "step_size=.1", "sampler.gradient=minibatch"]
    assert unused(composing(*walk), walk) == walk[3:]
    walk = [*walk[:3], "trace=1", "trace_cycles=[2]"]  # which has no gradients to trace
    assert unused(composing(*walk), walk) == walk[3:]
    words = ["model=banana", "step_size=.1", "trace=false", "+quick.cycles=5", "+smoke.cycles=5", "scale=smoke"]
    assert unused(composing(*words), words) == ["+quick.cycles=5"]
    stairs = ["model=banana", "step_size=.1", "schedule=stairs", "schedule.every=9", "schedule.factor=.5"]
    for cycles, told in (("cycles=9", stairs[2:]), ("cycles=10", [])):
        assert unused(composing(*stairs, cycles), [*stairs, cycles]) == told
    fresh = ["model=banana", "step_size=.1", "sampler=sgld", "sampler.refresh=partial", "sampler.alpha=.5"]
    for word, told in (("OBABO", fresh[3:]), ("BABO", [])):  # whose first O of c = 0 leaves nothing of the momentum
        assert unused(composing(*fresh, f"sampler.word={word}"), fresh) == told
    assert composing("experiment=null", "model=logistic_generated model.size=1e2 step_size=.1")["model"]["size"] == 100
    assert composing("model=gaussian model.dim=3e0 step_size=.1")["model"]["dim"] == 3
    assert composing("experiment=digits scale=quick +quick.init=5")["init"] == "5"  # a file, as on the command line
    assert composing("model=mlp data=digits model.hidden=[5e0,3] lr=1")["model"]["hidden"] == [5, 3]


# ---- what is refused

MISTAKES = {
    "lr=1 sampler=gmc": "sampler=gmc: did you mean ggmc?",
    "lr=1 sampler.name=gmc": "sampler=gmc: did you mean ggmc?",
    "lr=1 model=resnt20": "model=resnt20: did you mean resnet20?",
    "experiment=digit": "experiment=digit: did you mean digits?",
    "experiment=digits scale=quick +quick.sampler=hmc": "quick.sampler=hmc: a scale's block says settings of its own",
    "experiment=digits scale=quick +quick.point=0": "quick.point=0: a scale's block says settings of its own",
    "experiment=digits scale=quick +quick.name=[1]": "name=[1]: must be one value",
    "experiment=digits scale=quick +quick.device=3": "device=3: must be auto, cpu, cuda or cuda:1",
    "experiment=digits scale=quick +quick.progress=perhaps": "progress=perhaps: must be true or false",
    "experiment=digits scale=quick +quick.epocs=9": "epocs=9: did you mean epochs?",
    "lrr=1": "lrr: there is no such setting here; did you mean lr?",
    "lr=1 +foo=1": "foo=1: there is no such setting",
    "lr=1 samplr=ggmc": "did you mean sampler?",
    "lr=1 sampler.aceptance=metropolis": "did you mean sampler.acceptance?",
    "model=banana step_size=1 model.nose=1": "model.nose: there is no such setting here; did you mean model.noise?",
    "": "lr=null: give a learning rate (lr=1e-4) or a step size",
    "lr=1 step_size=1": "lr=1.0: give lr or step_size (here 1.0), not both",
    "lr=abc": "lr=abc: must be a positive number",
    "lr=0": "lr=0: must be a positive number",
    "lr=-1": "lr=-1: must be a positive number",
    "lr=nan": "lr=nan: must be a positive number",
    "lr=inf": "lr=inf: must be a positive number",
    "lr=true": "lr=True: must be a positive number",
    "lr=[]": "lr=[]: must be a positive number, or a list of them, one a chain",
    "model=banana lr=1": "lr=1.0: banana has no data, so it takes step_size",
    "model=banana step_size=1 epochs=2": "epochs=2: banana has no data: give cycles and steps_per_cycle",
    "model=banana step_size=1 sampler=langevin steps_per_cycle=2": "steps_per_cycle=2: a cycle of langevin has 1 step",
    "model=resnet20 data=none lr=1": "data=none: resnet20 needs data",
    "lr=1 epochs=15": "epochs=15: must be a multiple of epochs_per_cycle=10",
    "lr=1 epochs=20 cycles=2": "epochs=20: give epochs or cycles, not both",
    "lr=1 friction=1 sampler.b=1": "friction=1.0: give one way of saying friction, not sampler.b as well",
    "lr=1 friction=-1": "friction=-1: must be a number that is not negative",
    "lr=1 momentum_decay=1.5": "momentum_decay=1.5: must be a momentum decay",
    "lr=1 batch_size=2.5": "batch_size=2.5: must be a whole number, at least 1",
    "lr=1 chains=0": "chains=0: must be a whole number, at least 1",
    "lr=1 seed=x": "seed=x: must be a whole number, at least 0",
    "lr=1 temperature=-1": "temperature=-1: must be a number, finite and not negative",
    "lr=1 temperature=inf": "temperature=inf: must be a number, finite and not negative",
    "lr=1 device=tpu": "device=tpu: must be auto, cpu, cuda or cuda:1",
    "lr=1 dtype=float16": "dtype=float16: must be one of float32, float64",
    "lr=1 model.norm=batch": "model.norm=batch: must be one of frn, bn, gn, none",
    "lr=1 model.width=abc": "model.width=abc: must be a whole number",
    "lr=1 model.conv_bias=3": "model.conv_bias=3: must be true or false",
    "lr=1 compile=maybe": "compile=maybe: must be auto, true or false",
    "lr=1 save_minutes=-1": "save_minutes=-1: must be a number of minutes, or 0",
    "model=hierarchical_regression step_size=.1 model.tau_prior=???": "model.tau_prior=???: needs a value",
    "lr=1 progress=maybe": "progress=maybe: must be true or false",
    "lr=1 sampler.word=OBQBO": "sampler.word=OBQBO: must be made of the letters",
    "lr=1 sampler=custom": "sampler.word=null: sampler=custom needs a word",
    "lr=1 sampler.word=": "sampler.word='': is empty: leave it out",
    "step_size=1 model=custom": "model._target_=null: model=custom needs a class",
    "lr=1 sampler.acceptance=metropolis sampler=sghmc": "the Euler-Maruyama letter E has no backward trajectory",
    "lr=1 sampler.acceptance=metropolis temperature=0": "log MH needs temperature > 0",
    "lr=1 sampler=custom sampler.word=OBAB sampler.acceptance=metropolis schedule=palindromic_cosine": "O's of OBAB do",
    "lr=1 sampler.acceptance=metropolis sampler.word=OBA": "the word OBA does not read the same backwards",
    "lr=1 sampler.acceptance=metropolis schedule=cosine": "the cosine schedule does not read the same backwards",
    "lr=1 sampler.acceptance=metropolis model.norm=bn": "batch normalisation makes U depend",
    "lr=1 sampler.acceptance=metropolis augmentation=random": "random augmentation makes U random",
    "lr=1 augmentation=averaged views=163": "views=163: an image has 162 flips and crops",
    "model=banana step_size=1 augmentation=random": "augmentation=random: is for networks on images",
    "model=banana step_size=1 init=sgd": "init=sgd: is for networks",
    "model=banana step_size=1 tune.trajectory=auto": "tune.trajectory=auto: chooses during the burn-in: give burn_in",
    "model=mlp data=digits lr=1 epochs=40 burn_in=2 tune.trajectory=auto": "epochs=40: tune.trajectory chooses",
    "model=banana step_size=1 tune.trajectory=on": "tune.trajectory=on: must be one of auto",
    "model=location_mixture sampler.epsilon=.7 step_size=1 sampler.acceptance=austerity": "sampler.epsilon=0.7: must",
    "model=banana step_size=1 tune.target=.8": "tune.target=0.8: tunes during the burn-in: give burn_in",
    "model=mlp data=digits lr=1 epochs=40 epochs_per_cycle=10 burn_in=20": "burn_in=20: leaves no draws of 4 cycles",
    "model=mlp data=digits lr=1 epochs=40 epochs_per_cycle=10 burn_in=1 thin=4": "thin=4: keeps none of the 3 draws",
    "model=mlp data=digits lr=1 epochs=40 epochs_per_cycle=10 trace=1 trace_cycles=7": "the run has 4",
    "model=logistic data=none step_size=1": "data=none: logistic needs data: one of australian",
    "model=banana step_size=1 data.name=heart": "data=heart: banana has no data: leave data out",
    "model=logistic_generated step_size=1 data=heart": "data=heart: logistic_generated has data of its own: leave data",
    "model=banana step_size=1 model.name=[banana]": "model.name=['banana']: did you mean banana?",
    "model=banana step_size=1 compile=1": "compile=1: must be auto, true or false",
    "model=banana step_size=1 chains=1e30": "chains=1e+30: must be a whole number, at most 9223372036854775807",
    "model=gaussian step_size=1 model.dim=1e30": "model.dim=1e+30: must be a whole number, at most 9223372036854775807",
    "model=mlp data=digits lr=1 model.hidden=[1e30]": "model.hidden=1e+30: must be a whole number, at most 92233720368",
    "model=mlp data=digits lr=1 model.hidden=[3,null]": "model.hidden=None: must be a whole number",
    "model=gaussian_pairs step_size=1 model.start=[null]": "model.start=[None]: must be a list of numbers",
    "model=banana step_size=1 sampler={a:1}": "sampler={a:1}: must be one of aboba, amagold",
    "model=banana step_size=1 warm_start=[1]": "warm_start=[1]: must be settings, warm_start.NAME=VALUE",
    "experiment=digits smoke=5": "smoke=5: must be settings, smoke.NAME=VALUE",
    "model=banana step_size=1 points=[5] point=0": "points=5: must be settings, such as {lr: 0.1}: point=0",
    "model=banana step_size=1 points=[{seed:1},{seed:2}] point=true": "point=True: must be a whole number from 0 to 1",
    "model=hierarchical_regression step_size=1 init=sgd": "init=sgd: is for networks and model=logistic: leave it out",
    "model=banana step_size=1 sampler.name={a:1}": "sampler.name={a:1}: must be one value",
    "model=quartic step_size=1 model.dim=1e30": "model.dim=1e+30: must be a whole number, at most 9223372036854775807",
    "model=banana step_size=1 seed=18446744073709551616": "at most 18446744073709551615",
    "model=banana step_size=1 +step_size=2": "step_size: is a setting already, so it takes no +",
    "model=banana step_size=1 sampler.acceptance=[barker]": "must be one of monitor, metropolis, barker",
    "model=banana step_size=1 dtype=null": "dtype=null: must be one of float32, float64",
    "model=banana step_size=1 device=null": "device=null: must be a value, not null",
    "sampler=1.5 lr=1": "sampler=1.5: must be one of aboba, amagold",
    "schedule=nan lr=1": "schedule=nan: must be one of constant, cosine",
    "model=banana step_size=1 scale=smoke +smoke.cycels=2": "smoke.cycels=2: did you mean cycles? (of the experiment's",
    "sampler=[hmc,ggmc] lr=1": "sampler=[hmc,ggmc]: give one of them, or -m sampler=hmc,ggmc for a run of each",
    "experiment=[digits,wenzel2020]": "experiment=[digits,wenzel2020]: give one of them, or -m experiment=digits,wenz",
    "model=['mlp'] lr=1": "model=['mlp']: give one of them",
    "lr==3": "lr==3: is not KEY=VALUE",
    "lr": "lr: is not KEY=VALUE",
    "lr=1,2": "lr=1,2: give one value, a list lr=[1,2], or -m",
    "seed=1,2": "seed=1,2: give one value, or -m",
    "model=banana step_size=1 mass=1,2": "mass=1,2: give one value, a list mass=[1,2], or -m",
}


@pytest.mark.thorough
@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes_are_one_sentence(words):
    with pytest.raises((SettingError, HydraException)) as caught:
        compose(words.split())
    said = sentence(caught.value)
    assert MISTAKES[words] in said and "\n" not in said


WHOLE = (
    "chains data.train_size schedule.every epochs epochs_per_cycle cycles steps_per_cycle thin log_every save_every "
)
WHOLE += "batch_size warm_start.epochs warm_start.batch_size views"
RANGES = {  # what is still a value, and what no longer is
    **dict.fromkeys(WHOLE.split(), ([1, 7.0, 2**63 - 1], [0, 1.5, 2**63, True])),
    **dict.fromkeys(("lr", "step_size", "schedule.factor", "warm_start.lr"), ([1e-12, 3.0], [0, -1, math.inf])),
    **dict.fromkeys(("sampler.beta", "sampler.b", "temperature", "save_minutes"), ([0, 3.0], [-1e-9, math.nan])),
    **dict.fromkeys(("sampler.alpha", "sampler.delta"), ([-0.999, 0.999], [-1, 1])),
    "friction": ([0, [0, 2.5], math.inf], [-1e-9, [1, -1]]),
    "momentum_decay": ([0, 1, [0.5, 1]], [-1e-9, 1 + 1e-9, [0.5, 2]]),
    "sampler.decision_batch": ([2], [1]),
    "sampler.epsilon": ([0, 0.499], [-1e-9, 0.5]),
    "sampler.sigma": ([0.2, 1.2], [0.2 - 1e-9, 1.2 + 1e-9]),
    "burn_in": ([0], [-1, 0.5]),
    "keep": ([1, "all", "none"], [0, "last"]),
    "trace": ([1, 4], [0, -1]),
    "seed": ([0, 2**64 - 1], [-1, 2**64]),
    "mass": ([1e-9, [1, 2.5], "estimate"], [0, [1, 0]]),
    "mass_cycles": ([0], [-1, 0.5]),
    "tune.target": ([1e-9, 0.999], [0, 1]),
    "warm_start.momentum": ([0, 0.999], [-1e-9, 1]),
    "warm_start.weight_decay": ([0, 2.0], [-1e-9]),
}


@pytest.mark.parametrize("setting", RANGES)
def test_numbers_are_taken_as_they_are_up_to_the_ends_of_their_ranges(setting):
    least = {"model": {"name": "banana"}, "device": "cpu"}
    good, bad = RANGES[setting]
    for value in good:
        config = deepcopy(least)
        put(config, setting, value)
        cast(config)
        assert get(config, setting) == value
    for value in bad:
        config = deepcopy(least)
        put(config, setting, value)
        with pytest.raises(SettingError) as refused:
            cast(config)
        assert refused.value.setting == setting


def test_a_random_direction_mends_what_is_one_sided(composing):
    metropolis = "lr=1 sampler.acceptance=metropolis schedule.direction=random"
    assert composing(metropolis, "schedule=cosine")
    assert composing(metropolis, "sampler.word=BAO")


def test_the_choices_are_the_librarys():
    from sgmcmc.data.augment import VIEWS
    from sgmcmc.data.minibatches import LAWS
    from sgmcmc.models.resnet import NORMS, PADS
    from sgmcmc.potentials.network import AUGMENTATIONS
    from sgmcmc.potentials.weights import PRIORS
    from sgmcmc.potentials.weights import STARTS as WEIGHTS
    from sgmcmc.schedules import DIRECTIONS
    from sgmcmc.subsampled import NARROWEST, WIDEST

    library = {
        "sampler.minibatches": LAWS, "augmentation": AUGMENTATIONS, "model.norm": NORMS, "model.pad": PADS,
        "model.prior": PRIORS, "schedule.direction": DIRECTIONS, "warm_start.init": WEIGHTS,
    }  # fmt: skip
    assert {key: set(schema.CHOICES[key]) for key in library} == {key: set(value) for key, value in library.items()}
    assert schema.VIEWS == VIEWS
    assert RANGES["sampler.sigma"][0] == [NARROWEST, WIDEST]


# ---- what a run is called

PINNED = {
    "lr=1e-4": "fba1fe2a8fc5",
    "experiment=digits": "cb2acec5b321",
    "experiment=garriga2021": "936eb61141ba",
    "experiment=wenzel2020": "6747cbafc639",
    "model=mlp sampler=amagold sampler.b=.01 lr=.0005 steps_per_cycle=10 cycles=100": "8e34cc0d2016",
    "model=logistic data=heart sampler=amagold step_size=1e-3 batch_size=16 chains=100 cycles=3000": "11969edef781",
    "model=gaussian_pairs model.pairs=10 sampler=nonreversible_langevin step_size=.08": "3ae56896bbaf",
    "model=double_well sampler=amagold step_size=.25 chains=200 cycles=700 burn_in=200 model.noise=1": "8a6102ea3871",
    "model=banana sampler=hmc step_size=[.05,.1,.15] steps_per_cycle=10": "f2e0d11538d4",
    "model=hierarchical_regression sampler=ovrvo step_size=.05 friction=2 dtype=float64": "3b8fb9d12453",
}


@pytest.mark.parametrize("words", PINNED)
def test_the_identities_of_ten_runs_are_pinned(composing, words):
    """A change of these orphans users' runs: it belongs to a change of ``sgmcmc.LAW``, or a new setting was no null."""
    assert identity(composing(words)) == PINNED[words]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [
        "output=/elsewhere", "name=other", "device=cpu", "data.root=/elsewhere", "progress=false", "debug=true",
        "trace=10", "trace=1 trace_cycles=[3]", "epochs=6000", "cycles=7", "lr=0.0001", "temperature=1",
        "friction=14.2854713425451", "scale=quick", "batch_size=125.0",
        "compile=true", "save_minutes=0",
    ],
)  # fmt: skip
def test_what_is_not_part_of_an_identity(composing, words):
    assert identity(composing("lr=1e-4", words)) == identity(composing("lr=1e-4"))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    ["seed=1", "dtype=float64", "temperature=.5", "batch_size=250", "epochs_per_cycle=5", "sampler.ends=exact",
     "friction=14.3", "model.prior=unit", "data.train_size=5000", "schedule=stairs", "burn_in=1", "thin=2",
     "chains=2", "augmentation=averaged", "init=sgd", "sampler.acceptance=metropolis"],
)  # fmt: skip
def test_what_is_part_of_an_identity(composing, words):
    assert identity(composing("lr=1e-4", words)) != identity(composing("lr=1e-4"))


def test_a_row_that_is_rescaled_is_another_sampler(composing, monkeypatch):
    """Its word and policies are settings; ovrvo's own runs keep their names."""
    config, ovrvo = composing("lr=1e-4"), composing("lr=1e-4 sampler=ovrvo")
    before = identity(config), identity(ovrvo)
    for name in ("ggmc", "ovrvo"):
        monkeypatch.setitem(SAMPLERS, name, replace(SAMPLERS[name], rescaled=name == "ggmc"))
    assert identity(config) != before[0] and identity(ovrvo) != before[1]
    assert "rescaled" not in scientific(composing("lr=1e-4 sampler=hmc"))["sampler"]


def test_null_settings_do_not_count_and_the_law_does(composing, monkeypatch):
    import sgmcmc

    config = composing("lr=1e-4")
    before = identity(config)
    assert identity({**config, "a_setting_of_the_future": None}) == before
    assert identity(dict(reversed(config.items()))) == before
    monkeypatch.setattr(sgmcmc, "LAW", sgmcmc.LAW + 1)
    assert identity(config) != before


def test_resolving_a_resolved_configuration_changes_nothing(composing):
    for words in PINNED:
        config = composing(words)
        assert resolve(config) == config


def test_where_a_run_lies(composing):
    config = composing("model=banana step_size=1")
    assert str(folder(config)) == f"results/runs/banana-ggmc/{identity(config)}"
    assert str(folder({**config, "output": "/there"})) == "/there"


# ---- help


def test_the_help_s_defaults_are_those_of_a_command_that_does_not_say_them():
    text = " ".join((CONF / "hydra" / "help" / "teach.yaml").read_text().split())
    resnet, mlp, toy = (
        compose(f"model={name}".split()) for name in ("resnet20 lr=1", "mlp lr=1", "banana step_size=1")
    )
    sgd = compose(["lr=1", "init=sgd", "model=mlp"])["warm_start"]
    assert (resnet["epochs"], resnet["epochs_per_cycle"]) == (3000, 10)
    assert {(one["cycles"], one["steps_per_cycle"]) for one in (mlp, toy)} == {(1000, 10)}
    assert "epochs_per_cycle [resnet20: 3000 and 10], or cycles and steps_per_cycle [1000 and 10" in text
    for key in ("burn_in", "thin", "keep", "seed", "dtype", "device"):
        (value,) = {one[key] for one in (resnet, mlp, toy)}
        assert re.search(rf"\b{key}( = [^[]*|=[a-z0-9|:]*)? \[{value}\]", text), key
    assert "temperature [1] chains [1," in text and {one["temperature"] for one in (resnet, toy)} == {1}
    assert resnet["chains"] == toy["chains"] == 1
    for words, default in (
        *((f"model=mlp lr=1 data={data}", data) for data in ("cifar10", "mnist", "digits")),
        *((f"model=logistic step_size=1 data={data}", data) for data in ("australian", "heart")),
        *((f"model={model} step_size=1", model) for model in OWN_DATA),
    ):
        assert f"{default} {compose(words.split())['batch_size']}" in text
    for key in ("epochs", "lr", "momentum", "batch_size", "weight_decay"):
        assert f"warm_start.{key} [{sgd[key]:g}]" in text
    for key, (_, _, default) in NUMBERS.items():
        assert f"sampler.{key} [{default:g}]".replace("[0.", "[.") in text
    assert f"schedule.factor [.1] after each schedule.every [{Schedule.every}]" in text and Schedule.factor == 0.1
    assert mlp["init"] == resnet["init"] == "he" and toy["init"] is None and "[networks: he; others: dispersed]" in text


def test_the_help_explains_every_option_and_every_setting():
    text = (CONF / "hydra" / "help" / "teach.yaml").read_text()
    words = set(re.split(r"[\s,=|;:()\[\]]+", text))
    silent = {"sampler.name", "data.name", "model.name", "schedule.name"}
    known = [name for group in schema.GROUPS for name in options(group)] + [*schema.settings()]
    missing = [name for name in known if name not in words and name not in silent]
    assert not missing, f"conf/hydra/help/teach.yaml lacks {', '.join(missing)}"
    assert text.count("python run.py") >= 4 + 3
    assert max(len(line) for line in text.splitlines()) <= 122  # two of which are the file's own indent


@pytest.mark.parametrize("model", schema.MODELS)
def test_the_help_names_a_model_s_settings_beside_it(model):
    text = (CONF / "hydra" / "help" / "teach.yaml").read_text()
    entries = re.split(r"\n {15}(?=\w)", text[text.index("  resnet20") : text.index("  data  ")])
    (entry,) = (entry for entry in entries if model in re.split(r"\s\s+", entry.strip())[0].split(", "))
    missing = {one.name for one in fields(schema.MODELS[model])} - {"name"} - set(re.findall(r"model\.(\w+)", entry))
    assert not missing, f"conf/hydra/help/teach.yaml lacks {', '.join(missing)} beside model={model}"


# ---- a sampler chosen instead of an experiment's own


def test_infinite_friction_stays_infinite_under_an_experiment(composing):
    for experiment in CHAINS:
        config = composing(f"experiment={experiment} sampler=sgld")
        assert [get(config, way) for way in schema.FRICTION] == [None] * 4
    with pytest.raises(SettingError, match="infinite in sgld"):
        composing("model=banana sampler=sgld step_size=.1 friction=3")
    with pytest.raises(SettingError, match="momentum_decay=0.5: the friction is infinite in sgld; with less it is"):
        composing("model=banana sampler=sgld step_size=.1 momentum_decay=.5")
    assert composing("model=banana sampler=sgld step_size=.1 momentum_decay=0")["momentum_decay"] is None


def test_what_takes_an_experiment_s_length_away_is_no_other_length(composing):
    config = composing("experiment=digits sampler=langevin epochs_per_cycle=null")
    assert (config["steps_per_cycle"], config["epochs_per_cycle"], config["epochs"]) == (1, None, 100)


@pytest.mark.parametrize(
    "words, expected",
    [
        ("experiment=digits sampler=nonreversible_langevin", {"sampler.acceptance": "persistent_uniform"}),
        ("experiment=digits sampler=sghmc", {"sampler.acceptance": "monitor"}),
        ("experiment=digits sampler=baoab", {"sampler.acceptance": "monitor"}),
        ("experiment=digits sampler=ggmc", {"sampler.acceptance": "metropolis"}),
        # that nothing is corrected, and exact ends where a word has gradients there, are the experiment's
        ("experiment=garriga2021 sampler=hmc", {"sampler.acceptance": "monitor", "sampler.ends": "exact"}),
        ("experiment=garriga2021 sampler=amagold", {"sampler.acceptance": "monitor", "sampler.ends": "minibatch"}),
        # what the file says is said of the samplers of its own grid
        ("experiment=note_temperatures sampler=baoab step_size=.1", {"sampler.gradient": "full"}),
        ("experiment=note_temperatures sampler=amagold step_size=.1", {"sampler.gradient": "minibatch"}),
    ],
)
def test_another_sampler_has_its_own_policies(composing, words, expected):
    config = composing(words)
    assert {key: get(config, key) for key in expected} == expected


def test_what_an_experiment_says_of_policies_is_said_of_all_samplers_of_its_grid(tmp_path, monkeypatch):
    """Else a corrected sampler would stand beside others that are not."""
    shutil.copytree(schema.CONF, tmp_path / "conf")
    monkeypatch.setattr(schema, "CONF", tmp_path / "conf")
    begin = "# @package _global_\ndefaults:\n  - override /model: banana\n  - override /sampler: ggmc\n"
    begin += "name: mine\nstep_size: 0.1\nsampler:\n  acceptance: metropolis\n"
    grids = ["hydra:\n  sweeper:\n    params:\n      sampler: ggmc, baoab\n", "points:\n  - {sampler: baoab}\n"]
    for grid, words, acceptance in (
        (grids[0], "sampler=baoab", "metropolis"),
        (grids[0], "sampler=aboba", "monitor"),
        (grids[1], "point=0", "metropolis"),
        ("", "sampler=baoab", "monitor"),
    ):
        (tmp_path / "conf" / "experiment" / "mine.yaml").write_text(begin + grid)
        assert compose(["experiment=mine", words])["sampler"]["acceptance"] == acceptance


def test_a_burn_in_must_leave_draws(composing):
    with pytest.raises(SettingError, match="leaves no draws"):
        composing("model=banana step_size=.1 cycles=10 burn_in=10")


def test_a_block_chooses_another_model_and_the_command_line_wins():
    """At quick scale a perceptron, with its own settings and none of the residual network's."""
    words = ["experiment=finding_cycles", "point=0"]
    assert compose(words)["model"]["name"] == "resnet20"
    assert compose([*words, "scale=quick"])["model"] == {"name": "mlp", "hidden": [20], "prior_variance": 0.1}
    chosen = compose([*words, "scale=quick", "model=resnet20", "model.width=3"])["model"]
    assert (chosen["name"], chosen["width"], chosen["norm"]) == ("resnet20", 3, "frn") and "hidden" not in chosen


# ---- the numbers of a run


def test_a_target_with_data_of_its_own_predicts_no_other_s(tmp_path):
    """A grid's points may name the set of its others, whose columns may even be as many."""
    words = "experiment=finding_minibatch_mh point=8 scale=smoke data.train_size=200 batch_size=8"
    config = compose(words.split())
    config["model"] |= {"size": 50, "features": 13}
    pieces = build(config)
    assert config["data"]["name"] == "heart" and pieces.potential.data_size == 50 and not pieces.predictions
    (tmp_path / "config.yaml").write_text(show(config))
    potential, data = reopened(tmp_path)
    assert potential.dim == 14 and len(data.train) == 50 and data.test is None
    assert settings_of(tmp_path)["data"]["name"] == "none"


@pytest.fixture(scope="module")
def regression():
    """Makes the pieces of a regression on 120 data with three coefficients, of changed settings."""
    words = "model=logistic_generated model.size=120 model.features=2 sampler=ggmc lr=.3 cycles=9 batch_size=8"
    resolved = compose([*words.split(), "dtype=float64", "friction=4", "temperature=.49", "mass=[1,4,9]"])

    def make(**changes):
        config = deepcopy(resolved)
        for key, value in changes.items():
            put(config, key, value)
        return build(config)

    return make


def moved_and_kept(kernel, steps):
    """What so many steps of each chain add up to: the durations of A and of B, what O's and E's keep of the momentum
    together, and the variance ``[chains, dim]`` of the noise that comes to it."""
    durations, keep, variance = {"A": 0.0, "B": 0.0, "E": 0.0}, 1.0, torch.zeros(1, 3, dtype=torch.float64)
    for op, number, extra in kernel.program(0, torch.float64, "cpu")[0]:
        if op.letter in durations:
            durations[op.letter] = durations[op.letter] + torch.as_tensor(number) / steps
        if op.letter in "OE":
            each, scale = extra if op.letter == "E" else (number, extra)
            keep, variance = keep * each, variance * torch.as_tensor(each) ** 2 + scale**2
    return durations, keep, variance


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize(
    "way, value, keep, euler",
    [
        ("friction", 4.0, math.exp(-4 * 0.05), 1 - 4 * 0.05),
        ("momentum_decay", 0.9, 0.9, 0.9),
        ("sampler.b", 0.25, 0.75 / 1.25, 1 - 2 * 0.25),
        ("sampler.beta", 8.0, (1 - 8 * 0.05) / (1 + 8 * 0.05), 1 - 2 * 8 * 0.05),
    ],
)
def test_a_step_has_the_h_of_its_learning_rate_and_keeps_what_its_friction_says(
    regression, way, value, keep, euler, steps
):
    """h = √(.3/120) = .05, whatever the batch; c is that of a whole step, be it of one O, of two, or of E."""
    mass = torch.tensor([1.0, 4.0, 9.0], dtype=torch.float64)
    for word in ("OBABO", "ABOBA", "BAOAB", "EA"):
        changes = {"friction": None, way: value, "sampler.word": word, "steps_per_cycle": steps}
        durations, kept, variance = moved_and_kept(regression(**changes).kernel, steps)
        assert float(durations["A"]) == pytest.approx(0.05)
        assert float(durations["E" if word == "EA" else "B"]) == pytest.approx(0.05)
        each = euler if word == "EA" else keep
        assert float(kept) == pytest.approx(each**steps)
        # In equilibrium O's leave .49 M; E's noise is 2 γ h T M = 2 (1 − c) T M a step.
        fresh = sum(2 * (1 - each) * each ** (2 * k) for k in range(steps)) if word == "EA" else 1 - each ** (2 * steps)
        torch.testing.assert_close(variance[0], fresh * 0.49 * mass)


def test_lists_are_one_for_each_of_equal_groups_of_chains(regression):
    """Two learning rates and three decays for six chains."""
    changes = {"lr": [0.3, 1.2], "momentum_decay": [0.9, 0.8, 0.7], "friction": None, "chains": 6, "steps_per_cycle": 1}
    durations, kept, _ = moved_and_kept(regression(**changes).kernel, 1)
    assert durations["A"].flatten().tolist() == pytest.approx([0.05] * 3 + [0.1] * 3)
    assert kept.flatten().tolist() == pytest.approx([0.9, 0.9, 0.8, 0.8, 0.7, 0.7])


NO_STEPS, NO_CYCLES = {"steps_per_cycle": None}, {"cycles": None}
IN_EPOCHS = {"epochs_per_cycle": 2, "epochs": 6, **NO_STEPS, **NO_CYCLES}
FULL = {"sampler.gradient": "full", "batch_size": None}


@pytest.mark.parametrize(
    "changes, steps, batches, full, cycles, epochs",
    [
        # 15 batches of 8 an epoch; a word with kicks at both ends takes one batch more
        (IN_EPOCHS, 30, 31, 0, 3, 2),
        ({**IN_EPOCHS, "sampler.ends": "exact"}, 31, 30, 1, 3, 2),
        ({**IN_EPOCHS, "sampler.word": "ABOBA"}, 30, 30, 0, 3, 2),
        ({**IN_EPOCHS, "sampler.word": "EA"}, 30, 30, 0, 3, 2),
        ({**IN_EPOCHS, "sampler.word": "BABOBAB"}, 15, 31, 0, 3, 2),
        ({**IN_EPOCHS, **FULL}, 2, 0, 2, 3, 2),
        # steps that were given; without whole epochs, too
        ({"steps_per_cycle": 5, "epochs": 6, **NO_CYCLES}, 5, 6, 0, 18, 1 / 3),
        ({"steps_per_cycle": 4, "epochs": 8, **NO_CYCLES, **FULL}, 4, 0, 4, 2, 4),
        ({"steps_per_cycle": 15, "epochs": 6, **NO_CYCLES, "sampler.word": "BABOBAB"}, 15, 31, 0, 3, 2),
        ({"steps_per_cycle": 4, "epochs": 8, **NO_CYCLES, **FULL, "sampler.word": "BABOBAB"}, 4, 0, 8, 1, 8),
        ({"steps_per_cycle": 4, "batch_size": 7}, 4, 5, 0, 9, 28 / 120),
        (
            {"steps_per_cycle": 4, "sampler.word": "A", "sampler.gradient": "none", "sampler.refresh": "full"},
            4,
            0,
            0,
            9,
            0,
        ),
    ],
)
def test_epochs_are_so_many_gradients(regression, changes, steps, batches, full, cycles, epochs):
    """Counted: the gradients of batches and of all data that the second cycle takes, its start's known from before."""
    pieces, seen = regression(**changes), []
    target = pieces.potential
    gradient, both = target.gradient, target.potential_and_gradient
    target.gradient = lambda theta, batch=None: seen.append(batch is not None) or gradient(theta, batch)
    target.potential_and_gradient = lambda theta: seen.append(False) or both(theta)
    chain = Chain(pieces.kernel, target, pieces.plan, pieces.random, 1, pieces.initial)
    chain.begin()
    chain.advance()
    seen.clear()
    chain.advance()
    assert (pieces.kernel.steps, chain.tally.steps) == (steps, 2 * steps)
    assert (sum(seen), len(seen) - sum(seen)) == (batches, full)
    assert pieces.plan.cycles == cycles and chain.row()["epoch"] == pytest.approx(2 * epochs)


@pytest.mark.parametrize(
    "changes, said",
    [
        ({**IN_EPOCHS, "batch_size": 7}, "batch_size=7: does not divide the 120 data.* 6 or 8 does"),
        ({**IN_EPOCHS, "batch_size": 110}, "60 or 120 does"),
        (
            {**IN_EPOCHS, "epochs_per_cycle": 1, "sampler.word": "BABOBAB"},
            "epochs_per_cycle=1: is no whole number of steps, with .* gradients an epoch and 2 a step of BABOBAB; "
            "give epochs_per_cycle=2 or steps_per_cycle$",
        ),
        (
            {"steps_per_cycle": 4, "epochs": 1, **NO_CYCLES},
            "; give steps_per_cycle=3 or 5, epochs_per_cycle=1, or cycles$",
        ),
        (
            {"steps_per_cycle": 5, "epochs": 1, **NO_CYCLES, "sampler.word": "BABOBAB"},
            "epochs=1: is 15 gradients, 2 a step, not a whole number of cycles of steps_per_cycle=5; give epochs",
        ),
        ({"steps_per_cycle": 15, "epochs": 3, **NO_CYCLES, "burn_in": 3}, "burn_in=3: leaves no draws of 3 cycles"),
    ],
)
def test_lengths_that_cannot_be_are_refused(regression, changes, said):
    with pytest.raises(SettingError, match=said):
        regression(**changes)


def test_a_plan_is_what_was_said_or_a_row_each_ten_cycles(regression):
    assert regression(compile=False).plan == Plan(9, log_every=10, save_every=None, epochs_per_cycle=10 * 8 / 120)
    settings = {"burn_in": 4, "thin": 2, "keep": 3, "log_every": 5, "save_every": 6, "save_minutes": 0.5, "trace": 7}
    changes = {**settings, "compile": False, "mass": "estimate", "tune.target": 0.3, "trace_cycles": [8]}
    said = {**settings, "trace_cycles": (8,), "tune": 0.3, "estimate_mass": True}
    assert regression(**changes).plan == Plan(9, epochs_per_cycle=10 * 8 / 120, **said)
    assert [cycle for cycle in range(1, 12) if Plan(11, burn_in=4, thin=3).draws_after(cycle)] == [7, 10]
    words = "model=mlp model.hidden=[3] data=digits data.train_size=100 batch_size=50 sampler=ggmc lr=1e-4 cycles=2"
    # Each cycle of epochs is written, and of a few steps as often as it takes little of the time.
    for length, every in (("epochs_per_cycle=1", 1), ("steps_per_cycle=5", None)):
        plan = build(compose([*words.split(), length])).plan
        assert (plan.log_every, plan.save_every) == (1, every)


@pytest.mark.parametrize(
    ("words", "until"),
    [
        ("mass=estimate", None),
        ("mass=estimate tune.target=.7", 10),
        ("mass=estimate mass_cycles=0", 0),
        ("mass=estimate tune.target=.7 mass_cycles=21", 21),
        ("mass=2 tune.target=.7", None),
        ("mass_cycles=3", None),
    ],
)
def test_a_step_size_is_tuned_for_the_mass_that_stays(words, until):
    """Half of the burn-in is left for it; a run that tunes none keeps its name."""
    common = "model=gaussian sampler=hmc step_size=.1 burn_in=21 cycles=50".split()
    config = compose([*common, *words.split()])
    assert config["mass_cycles"] == until == build(config).plan.mass_cycles
    assert ("mass_cycles" in str(scientific(config))) == (until is not None)
    with pytest.raises(SettingError, match="^mass_cycles=22: the mass is estimated in the burn-in alone, of 21 cycles"):
        compose([*common, "mass=estimate", "mass_cycles=22"])


# ---- where chains start


def test_a_warm_start_descends_from_each_chain_s_own_start(regression):
    """With all 120 data a batch: two steps of v ← .3 v + X'(p − y)/N + θ/(100 N) + .1 θ, θ ← θ − .5 v in NumPy."""
    warm = {"epochs": 2, "lr": 0.5, "momentum": 0.3, "batch_size": 120, "weight_decay": 0.1}
    far = regression(chains=3)
    theta, target = far.initial().numpy(), far.potential
    features, labels = target.inputs.numpy(), target.targets.numpy()
    inputs = np.column_stack([np.ones(120), (features - features.mean(0)) / features.std(0)])
    velocity = np.zeros_like(theta)
    for _ in range(2):
        slope = (1 / (1 + np.exp(-theta @ inputs.T)) - labels) @ inputs / 120 + theta / (100 * 120)
        velocity = 0.3 * velocity + slope + 0.1 * theta
        theta = theta - 0.5 * velocity
    near = regression(chains=3, init="sgd", warm_start=warm).initial()
    np.testing.assert_allclose(near.numpy(), theta, rtol=1e-9)


@pytest.mark.thorough
def test_sgd_starts_from_he_s_weights_or_pytorch_s():
    """He's where nothing is said; SGD at a learning rate of nothing stays where it starts."""
    words = ["data=digits", "data.train_size=20", "model=mlp", "model.hidden=[3]", "sampler=hmc", "step_size=.1"]
    words += ["batch_size=10", "warm_start.lr=1e-30", "warm_start.epochs=1", "warm_start.batch_size=20"]

    def start(*more):
        return build(compose([*words, *more])).initial()

    he, torch_s = start("init=he"), start("init=torch")
    assert not torch.equal(he, torch_s)
    assert torch.equal(start("init=sgd", "warm_start.init=torch"), torch_s)
    assert torch.equal(start("init=sgd"), he)
    assert identity(compose([*words, "init=sgd", "warm_start.init=he"])) == identity(compose([*words, "init=sgd"]))
    logistic = ["data=heart", "model=logistic", "sampler=hmc", "step_size=.1", "init=sgd", "warm_start.init=torch"]
    for refused in (["model=gaussian", "init=torch", "step_size=.1"], logistic):
        with pytest.raises(SettingError, match="is for networks"):
            compose(refused)
    for said, told in (("init=sgd", []), ("init=he", ["warm_start.init=he"])):
        assert unused(compose([*words, said, "warm_start.init=he"]), [said, "warm_start.init=he"]) == told
    for said, told in (("init=sgd", []), ("init=he", ["warm_start={lr:3}"])):
        assert unused(compose([*words[:-3], said, "warm_start={lr:3}"]), [said, "warm_start={lr:3}"]) == told
    # An experiment's own, which nobody said and nobody can leave out.
    words = ["experiment=amagold_table2", "scale=smoke", "point=0", "model=logistic", "data=heart", "data.ood=null"]
    words += ["batch_size=54", "init=sgd", "warm_start.batch_size=54"]
    assert compose(words)["warm_start"]["init"] is None


def test_an_exact_start_has_the_run_s_temperature():
    """About the mean, draws at T = 9 are three times those at T = 1."""
    words = [
        "model=gaussian",
        "model.mean=[2,-1]",
        "sampler=hmc",
        "step_size=.1",
        "init=exact",
        "dtype=float64",
        "chains=4",
    ]
    config = compose(words)
    one, nine = (build({**config, "temperature": heat}).initial() - torch.tensor([2.0, -1.0]) for heat in (1.0, 9.0))
    torch.testing.assert_close(nine, 3 * one)
    assert len(one.unique()) == 8


def test_positions_from_a_file_are_each_chain_s_own_or_one_for_all(regression, tmp_path):
    path = str(tmp_path / "start.pt")
    for stored, expected in (
        (torch.tensor([1.0, 2.0, 4.0]), [[1, 2, 4]] * 2),
        (torch.tensor([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0]]), [[1, 2, 4], [8, 16, 32]]),
    ):
        torch.save(stored, path)
        start = regression(init=path, chains=2).initial()
        assert start.tolist() == expected and start.dtype == torch.float64
    with pytest.raises(SettingError, match="holds 2 positions for 3 chains"):
        regression(init=path, chains=3)
    torch.save(torch.zeros(2, 4), path)
    with pytest.raises(SettingError, match="positions of 4 coordinates, the target has 3"):
        regression(init=path, chains=2)


def test_a_network_starts_at_the_weights_of_a_state_dict(regression, tmp_path):
    words = "model=mlp model.hidden=[3] data=digits data.train_size=40 batch_size=20 lr=1e-4 chains=2".split()
    potential = build(compose(words)).potential
    theta = potential.initial(1, Random(5))
    for name, save in (("start.pt", torch.save), ("start.safetensors", save_file)):
        path = str(tmp_path / name)
        save(potential.state_dict(theta[0]), path)
        assert torch.equal(build(compose([*words, f"init={path}"])).initial(), theta.expand(2, -1))
        with pytest.raises(SettingError, match="is a state dict, and the target is no network"):
            regression(init=path, chains=2)
        Path(path).write_text("no tensors")
        with pytest.raises(SettingError, match="cannot be read as a tensor or a state dict"):
            build(compose([*words, f"init={path}"]))


def test_values_beyond_ascii_are_quoted_and_flags_are_not():
    words = ["output=läufe/ö", "output=~/run", "--config-dir=läufe/é", "name='é'", "name=e"]
    assert words_for(words) == ["output='läufe/ö'", "output='~/run'", *words[2:]]


@pytest.mark.thorough
@pytest.mark.parametrize("mark", "=#&;!^<>`~%@:+? ")
def test_names_may_have_marks_that_hydra_s_grammar_has_no_place_for(mark):
    """As results/runs/quick_seed=1, a folder."""
    words = ["model=banana", "step_size=1", *(f"{key}=a{mark}b" for key in ("output", "init", "data.root"))]
    config = compose(words)
    assert config["output"] == config["init"] == config["data"]["root"] == f"a{mark}b"


def test_a_net_with_batch_normalisation_has_u_split_as_its_minibatches():
    words = "model=resnet20 data=digits model.norm=bn model.width=2 batch_size=50 lr=1e-4"
    assert build(compose([*words.split(), "init=he"])).potential.evaluation_batch == 50


def test_the_seeds_of_frozen_views_have_one_target():
    words = (
        "model=mlp model.hidden=[3] data=digits data.train_size=40 batch_size=20 lr=1e-4 augmentation=averaged views=2"
    )
    one, other = (build(compose([*words.split(), f"seed={seed}"])).potential for seed in (0, 1))
    assert one.views == other.views == 2
    theta = one.initial(1, Random(3))
    assert torch.equal(one.potential(theta), other.potential(theta))


def test_every_target_with_data_of_its_own_is_known_to_have_them():
    """For what has none asks for no batch, no epochs and no learning rate."""
    from experiments.build import TARGETS
    from experiments.resolved import OWN_DATA

    assert {name for name, target in TARGETS.items() if target().data_size > 1} == set(OWN_DATA)


@pytest.mark.parametrize("name", ["logistic", "Ring"])
def test_a_target_of_one_s_own_needs_no_data_whatever_its_name(name):
    """What a model of conf/ needs is nothing to a class that has its name."""
    config = compose([f"model._target_=mine.{name}", "sampler=hmc", "step_size=0.1"])
    assert config["data"]["name"] == "none" and config["name"] == f"{name}-hmc"


def test_a_network_of_one_s_own_has_the_friction_of_the_others():
    """That of the GGMC paper, where nothing is said: its settings alone do not tell that the target is a network."""
    words = "model._target_=sgmcmc.models.MLP model.inputs=64 model.hidden=[3] data=digits batch_size=50 lr=1e-4"
    config = compose([*words.split(), "cycles=1", "steps_per_cycle=1"])
    friction = build(config).kernel.friction
    assert config["friction"] is None and (friction.kind, friction.value) == ("gamma", 14.2854713425451)


def test_each_chain_s_warm_start_has_minibatches_of_its_own_and_predictions_their_labels():
    words = "model=mlp model.hidden=[3] data=digits data.train_size=40 batch_size=20 lr=1e-4 init=sgd chains=2"
    config = compose([*words.split(), "warm_start.epochs=2", "warm_start.batch_size=10"])
    pieces, test = build(config), load("digits", config["data"]["root"], 40).test
    theta, warm = pieces.potential.initial(2, Random(0)), {"epochs": 2, "batch_size": 10, "random": Random(0)}
    warm |= {name: config["warm_start"][name] for name in ("lr", "momentum") if name in config["warm_start"]}
    second = sgd(pieces.potential, theta[1:], chains=range(1, 2), **warm)
    assert torch.equal(pieces.initial()[1:], second)
    assert not torch.equal(second, sgd(pieces.potential, theta[1:], **warm))
    assert torch.equal(pieces.predictions["test"][1], test.targets)
