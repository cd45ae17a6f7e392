"""Chains of a network in one tensor: each chain's numbers are those it has alone, and a run stays as it was begun."""

import json
import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from test_chain import F64, Memory, small_network, timeless
from torch import nn

from experiments.build import FEW_WEIGHTS, MANY_CHAINS, build
from experiments.config import compose
from experiments.run import run as execute
from sgmcmc import load_samples, sample
from sgmcmc.chain import DONE, Chain, run
from sgmcmc.compiled import why_eager
from sgmcmc.data import load
from sgmcmc.errors import NoRoom, SettingError
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.models import MLP, ResNet
from sgmcmc.plan import Plan
from sgmcmc.potentials import groups
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.random import Random
from sgmcmc.schedules import Schedule


@pytest.fixture(scope="module")
def digits():
    return load("digits", train_size=50).train


class Convolutional(nn.Sequential):
    """Kernels, group normalisation, a weight that is used twice, and one that is no part of θ."""

    def __init__(self):
        narrow = nn.Conv2d(4, 4, 1, stride=2)
        layers = nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), narrow, narrow
        super().__init__(*layers, nn.Flatten(), nn.Linear(16, 10))
        self[0].bias.requires_grad_(False)


class Pair(nn.Linear):
    """A layer that gives more than its outputs."""

    def forward(self, x):
        return super().forward(x), None


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Pair(64, 5), Pair(5, 10)

    def forward(self, x):
        return self.two(self.one(x.flatten(1))[0].tanh())[0]


NETWORKS = {"perceptron": lambda: MLP(64, (5, 4), 10), "convolutional": Convolutional, "pairs": Pairs}


@pytest.mark.thorough
@pytest.mark.parametrize("augmentation", ["none", "averaged"])
@pytest.mark.parametrize("network", NETWORKS)
def test_each_chain_has_the_numbers_that_it_has_alone(digits, network, augmentation):
    torch.manual_seed(1)
    module = NETWORKS[network]()
    settings = {"dtype": F64, "augmentation": augmentation, "views": 3, "evaluation_batch": 17, "prior": 0.5}
    alone = NetworkPotential(module, digits, **settings)
    theta = alone.initial(4, Random(2))
    views = 3 if augmentation == "averaged" else 1
    batch = Random(3).integers("minibatch", 0, range(1, 2), range(4), 11, 50 * views)[0]
    data = Random(3).integers("minibatch", 1, range(1, 2), range(4), 11, 50)[0]
    ones, fits = [], []
    for one, index, some in zip(theta.split(1), batch.split(1), data.split(1), strict=True):
        both = alone.potential_and_gradient(one)
        fits.append(alone.fit)
        gradient, estimate = alone.gradient(one, index), alone.estimate(one, index)
        ones.append((*both, gradient, estimate, alone.losses(one, some), alone.predict(one, digits), alone.prior(one)))
    alone.join_chains()
    assert torch.equal(alone.initial(4, Random(2)), theta)
    values = *alone.potential_and_gradient(theta), alone.gradient(theta, batch), alone.estimate(theta, batch)
    values += alone.losses(theta, data), alone.predict(theta, digits), alone.prior(theta)
    for found, wanted in zip(values, zip(*ones, strict=True), strict=True):
        wanted = torch.cat(wanted)
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-11)
    assert len(set(ones[0][0].tolist() + ones[1][0].tolist())) == 2  # the chains are not the same
    for key in ("train_nll", "train_accuracy"):
        torch.testing.assert_close(alone.fit[key], torch.cat([fit[key] for fit in fits]), rtol=1e-11, atol=0)
    torch.testing.assert_close(alone.potential(theta), values[0])
    torch.testing.assert_close(alone.potential(theta[1:2]), values[0][1:2])  # and each by itself, as before
    torch.testing.assert_close(alone.predict(theta.float(), digits).float(), values[5].float(), rtol=1e-4, atol=1e-4)
    assert alone.gradient(theta.float(), batch).dtype == torch.float32
    with pytest.raises(ValueError, match=r"a network takes \[chains, "):
        alone.potential(theta[:, 1:])


class Aside(nn.Module):
    """A weight by another way than its name."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 10)
        self.aside = [self.linear.weight]

    def forward(self, x):
        return x.flatten(1) @ self.aside[0].T


class Scaled(nn.Module):
    """A scale by another way than its name, which all chains start with."""

    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(64, 10), nn.Parameter(torch.tensor(1.0))
        self.aside = [self.scale]

    def forward(self, x):
        return self.linear(x.flatten(1)) * self.aside[0] + 0 * self.scale


class Branching(nn.Sequential):
    def __init__(self, of):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        self.of = of

    def forward(self, x):
        return super().forward(x * 2 if float(self.of(self, x)) > 100 else x)


class Words(nn.Module):
    """Whose embedding of 0 has no gradient: of the first chain alone, where vmap does it."""

    def __init__(self):
        super().__init__()
        self.embedding, self.linear = nn.Embedding(3, 4, padding_idx=0), nn.Linear(256, 10)

    def forward(self, x):
        return self.linear(self.embedding((x > 0).long().flatten(1)).flatten(1))


REFUSED = {
    "another way": (Aside, {}, "Aside gives other numbers for many chains at once than for each alone"),
    "another way to a scale": (Scaled, {}, "Scaled gives other numbers for many chains at once than for each alone"),
    "a branch": (
        lambda: Branching(lambda self, x: self[1].weight.sum()),
        {},
        "Branching cannot be evaluated for many chains at once: ",
    ),
    "a branch by the data": (
        lambda: Branching(lambda self, x: x.max()),
        {},
        "Branching cannot be evaluated for many chains at once: ",
    ),
    "a row without a gradient": (Words, {}, "Words gives other numbers for many chains at once than for each alone"),
    "filter response": (
        lambda: ResNet(8, 4, in_channels=1),
        {},
        "ResNet cannot be evaluated for many chains at once: ",
    ),
    "batch normalisation": (
        lambda: ResNet(8, 4, "bn", in_channels=1),
        {},
        "needs a U that is a fixed function: batch n",
    ),
    "random views": (lambda: MLP(64, (3,), 10), {"augmentation": "random"}, "needs a U that is a fixed function: rand"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_module_that_cannot_is_refused(digits, why):
    module, settings, sentence = REFUSED[why]
    with pytest.raises(SettingError, match=f"^together=True: {sentence}"):
        NetworkPotential(module(), digits, together=True, **settings)
    potential = NetworkPotential(module(), digits, **settings)
    with pytest.raises(SettingError, match=f"^together=True: {sentence}"):
        potential.join_chains()
    assert not potential.together and potential.capturable
    with pytest.raises(ValueError, match="one chain at a time"):
        potential.potential(potential.initial(2, Random(0)))


KERNELS = {
    "metropolis": {"acceptance": "metropolis", "minibatches": "shuffled"},
    "a step size each": {"acceptance": "metropolis", "step_size": [0.05, 0.1, 0.2, 0.1]},
    "not corrected": {"sampler": "sghmc"},
    "full": {"sampler": "hmc", "gradient": "full"},
    "persistent": {"sampler": "nonreversible_langevin", "steps": 1, "batch_size": None},
    "exact ends": {"acceptance": "metropolis", "ends": "exact"},
    "a random direction": {"acceptance": "metropolis", "schedule": Schedule("cosine", direction="random")},
    "a part of the data": {"sampler": "random_walk", "steps": 1, "acceptance": "barker_minibatch", "sigma": 1.0}
    | {"decision_batch": 6, "batch_size": None},
    "tuned": {"acceptance": "metropolis", "plan": {"tune": 0.7, "burn_in": 4}},
    "the mass estimated": {"acceptance": "metropolis", "plan": {"estimate_mass": True, "burn_in": 4}},
    "trajectories chosen": {"sampler": "hmc", "batch_size": None, "gradient": "full"}
    | {"plan": {"trajectory": True, "burn_in": 80, "cycles": 90}},
    "rows now and then": {"sampler": "sghmc", "plan": {"log_every": 3}},
}


def go(together, store=None, cycles=7, name="metropolis", **changes):
    target, data = small_network(together=together)
    settings = {"sampler": "ggmc", "step_size": 0.1, "steps": 3, "batch_size": 4} | KERNELS[name]
    plan = replace(Plan(cycles, thin=2, save_every=1), **settings.pop("plan", {}), **changes)
    sampler, step_size = settings.pop("sampler"), settings.pop("step_size")
    friction = None if sampler in ("hmc", "random_walk") else Friction("gamma", 1.0)
    kernel = make_kernel(sampler, target, step_size, friction=friction, dtype=F64, **settings)
    random, predictions = Random(5), {"test": (data.inputs.float(), data.targets)}
    result = run(kernel, target, plan, random, 4, lambda: target.initial(4, random), predictions, store)
    assert result.status == DONE
    return result


@pytest.mark.thorough
@pytest.mark.parametrize("name", KERNELS)
def test_a_run_has_the_same_numbers_however_its_chains_go(name):
    one, other = (go(together, name=name) for together in (False, True))
    torch.testing.assert_close(other.draws, one.draws, rtol=0, atol=1e-9)
    torch.testing.assert_close(other.accept_prob, one.accept_prob, rtol=0, atol=1e-7)
    assert (other.accepted, other.gradients, other.energies) == (one.accepted, one.gradients, one.energies)
    assert one.rows[0].keys() == other.rows[0].keys() and {"train_nll", "kinetic_inside"} < one.rows[0].keys()
    for mine, its in zip(timeless(one.rows), timeless(other.rows), strict=True):
        for key in mine:
            assert its[key] == pytest.approx(mine[key], rel=1e-6, abs=1e-7, nan_ok=True), key


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["a step size each", "tuned", "the mass estimated", "exact ends"])
def test_groups_of_chains_have_the_same_numbers(name, monkeypatch):
    """Of a network whose chains would need too much memory in one tensor; and a killed run goes on with them."""
    one = go(False, name=name)
    monkeypatch.setattr(NetworkPotential, "chains_at_once", 2)
    part, rest = Memory(), Memory()
    other = go(True, name=name)
    torch.testing.assert_close(other.draws, one.draws, rtol=0, atol=1e-9)
    go(True, part, cycles=5, name=name)
    assert [len(values[0]) for values in part.state["states"]] == [2, 2]
    monkeypatch.undo()
    rest.state = part.state
    go(True, rest, name=name)
    assert torch.equal(torch.stack(part.draws + rest.draws), other.draws)


@pytest.mark.parametrize(("most", "sizes"), [(1, [1] * 7), (3, [2, 2, 3]), (6, [3, 4]), (7, [7]), (50, [7])])
def test_groups_are_about_as_large_as_each_other(most, sizes):
    several = groups(SimpleNamespace(chains_at_once=most), 7)
    assert [len(group) for group in several] == sizes and [chain for group in several for chain in group] == list(
        range(7)
    )
    alone = [range(1), range(1, 2)]
    assert groups(SimpleNamespace(chains_at_once=most, together=False), 2) == alone
    assert groups(SimpleNamespace(chains_at_once=most, is_network=True), 2, apart=True) == alone
    assert groups(SimpleNamespace(), 2, apart=True) == [range(2)]  # of a toy those of each direction go together


def test_how_many_chains_and_data_go_at_once(digits):
    """A layer of 393,216 values, and so of 64 data: inputs are shared, outputs are each chain's."""
    target = NetworkPotential(MLP(64, (128, 5), 10), digits, together=True)
    assert target.chains_at_once == 393216 // (64 * 128)
    assert [target._at_once(chains) for chains in (1, 2, 16, 48)] == [6144, 1536, 192, 64]
    assert NetworkPotential(MLP(64, (5,), 10), digits, together=True).chains_at_once == 393216 // (64 * 64)
    assert NetworkPotential(MLP(64, (5000,), 10), digits, together=True).chains_at_once == 16


def test_chains_that_go_forwards_and_backwards_go_one_after_another():
    schedule = Schedule("cosine", direction="random")
    for chains, settings in ((4, {"schedule": schedule}), (1, {})):
        target, _ = small_network(together=True)
        kernel = make_kernel("ggmc", target, 0.1, steps=3, batch_size=3, **settings)
        assert not Chain(kernel, target, Plan(3, trace=1), Random(1), chains, lambda: None).joined


def test_the_fit_is_that_of_the_chains_states():
    """A row has that of each chain's state, of those that rejected the one before."""
    target, _ = small_network(together=True)
    settings = {
        "friction": Friction("gamma", 1.0),
        "steps": 2,
        "batch_size": 3,
        "acceptance": "metropolis",
        "dtype": F64,
    }
    kernel, random = make_kernel("ggmc", target, 0.25, **settings), Random(8)
    chain = Chain(kernel, target, Plan(12), random, 6, lambda: target.initial(6, random))
    chain.begin()
    mixed = 0
    for _ in range(12):
        before = chain.theta
        chain.advance()
        moved = (chain.theta != before).any(1)
        mixed += 0 < int(moved.sum()) < 6
        row = chain.row()
        target.potential(chain.theta)
        for key in ("train_nll", "train_accuracy"):
            assert row[key] == pytest.approx(float(target.fit[key].mean()), rel=1e-12)
    assert mixed > 2


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_goes_on_as_it_was_begun_to_the_bit(begun):
    """Even where it is given a target of the other kind, and in the middle."""
    whole, part, rest = Memory(), Memory(), Memory()
    go(begun, whole)
    go(begun, part, cycles=3)
    rest.state = part.state
    go(not begun, rest)
    assert len(whole.draws) == len(part.draws) + len(rest.draws)
    for one, other in zip(whole.draws, part.draws + rest.draws, strict=True):
        assert torch.equal(one, other)
    assert timeless(part.rows + rest.rows) == timeless(whole.rows)
    assert len(rest.state["states"]) == (1 if begun else 4)


def test_a_kept_run_of_sample_goes_on_as_it_was_begun(tmp_path):
    def call(cycles, together, folder):
        target, _ = small_network(together=together)
        settings = {"acceptance": "metropolis", "step_size": 0.1, "chains": 3, "batch_size": 4, "dtype": "float64"}
        return sample(target, cycles=cycles, folder=tmp_path / folder, **settings)

    whole = call(8, True, "whole")
    call(5, True, "parts")
    assert torch.equal(call(8, False, "parts").draws, whole.draws)


def test_the_defaults_are_those_of_networks():
    for together in (False, True):
        target, _ = small_network(together=together)
        assert make_kernel("hmc", target, 0.1, steps=2, batch_size=3).gradient == "minibatch"
    assert why_eager(make_kernel("hmc", target, 0.1, steps=2, batch_size=3), target).startswith(
        "the cycles of networks"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = sample(
            target, "hmc", step_size=0.05, batch_size=3, chains=2, cycles=5, compile="auto", dtype="float64"
        )
    assert not result.compiled


def words(chains, *more):
    model = ["model=custom", "model._target_=sgmcmc.models.MLP", "model.inputs=64", "model.classes=10"]
    length = [
        "steps_per_cycle=2",
        "cycles=2",
        "batch_size=100",
        "step_size=0.001",
        "data=digits",
        "data.train_size=200",
    ]
    return [*model, "sampler=ggmc", *length, f"chains={chains}", "device=cpu", "progress=false", *more]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("more", "together"),
    [
        (["model.hidden=[4]"], True),
        (["model.hidden=[4]", "together=auto"], True),
        (["model.hidden=[4]", "together=false"], False),
        (["model.hidden=[4]", "compile=true"], False),
        (["model.hidden=[133]"], True),  # 9,985 weights
        (["model.hidden=[134]"], False),  # 10,060
        (["model.hidden=[134]", "together=true"], True),
        (["model.hidden=[4]", "augmentation=random"], False),
    ],
)
def test_where_chains_go_together_by_themselves(more, together):
    assert build(compose(words(MANY_CHAINS, *more))).potential.together is together


def test_few_chains_go_together_where_that_is_said():
    assert not build(compose(words(MANY_CHAINS - 1, "model.hidden=[4]"))).potential.together
    assert build(compose(words(2, "model.hidden=[4]", "together=true"))).potential.together
    assert FEW_WEIGHTS == 10_000 and MANY_CHAINS == 8  # as --help and the README say


def test_a_lack_of_memory_is_not_taken_for_a_module_that_cannot(digits, monkeypatch):
    """Elsewhere, or later, its chains may go together: a grid's are no result. Those of "auto" go one after another."""
    error, potential = torch.OutOfMemoryError("CUDA out of memory"), NetworkPotential(MLP(64, (3,), 10), digits)

    def lacking(*_):
        raise error

    monkeypatch.setattr(NetworkPotential, "_asked", lacking)
    with pytest.raises(torch.OutOfMemoryError):
        potential.join_chains()
    assert not potential.together and torch.equal(potential.flat.position, potential.flat.resting)
    with pytest.raises(NoRoom, match="^together=true: needs more memory than this machine has: leave it out"):
        build(compose(words(2, "model.hidden=[4]", "together=true")))
    assert not build(compose(words(MANY_CHAINS, "model.hidden=[4]"))).potential.together
    error = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    with pytest.raises(torch.AcceleratorError):
        build(compose(words(MANY_CHAINS, "model.hidden=[4]")))


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        (
            ["model=gaussian", "sampler=hmc", "step_size=0.1", "cycles=2", "together=true"],
            "together=true: is for networks",
        ),
        (
            ["model=gaussian", "sampler=hmc", "step_size=0.1", "cycles=2", "together=false"],
            "together=false: is for netw",
        ),
        (["experiment=digits", "scale=smoke", "device=cpu", "together=true"], "together=true: ResNet cannot be eval"),
        (words(2, "together=maybe"), "together=maybe: must be auto, true or false"),
    ],
)
def test_what_together_cannot_be(setting, sentence):
    with pytest.raises(SettingError, match=f"^{sentence}"):
        build(compose(setting))


@pytest.mark.thorough
def test_a_run_says_how_its_chains_go_and_stays_so(tmp_path, capsys):
    """Its settings and its name are the same."""
    given = words(9, "model.hidden=[4]", f"output={tmp_path}/run")
    assert execute(compose(given)) == 0
    assert "the chains go together, 9 in a tensor\n" in capsys.readouterr().out
    assert json.loads((tmp_path / "run/status.json").read_text())["together"] is True
    assert execute(compose([*given, "cycles=4", "together=false"])) == 0
    assert "the chains go together, 9 in a tensor, as when the run was begun\n" in capsys.readouterr().out
    other = words(9, "model.hidden=[4]", "together=false", f"output={tmp_path}/other")
    assert execute(compose(other)) == 0
    assert "the chains go one after another\n" in capsys.readouterr().out
    one, two = (json.loads((tmp_path / name / "status.json").read_text()) for name in ("run", "other"))
    assert two["together"] is False and one["identity"]["hash"] == two["identity"]["hash"]


@pytest.mark.slow
def test_a_run_that_was_begun_compiled_goes_on_so_where_its_chains_might_go_together(tmp_path, capsys):
    """Which is what its settings say where compile=true is left out."""
    given = words(MANY_CHAINS, "model.hidden=[4]")
    assert execute(compose([*given, "cycles=4", "compile=true", f"output={tmp_path}/whole"])) == 0
    assert execute(compose([*given, "cycles=2", "compile=true", f"output={tmp_path}/run"])) == 0
    capsys.readouterr()
    assert execute(compose([*given, "cycles=4", f"output={tmp_path}/run"])) == 0
    assert "not compiled" not in capsys.readouterr().out
    assert torch.equal(load_samples(tmp_path / "run"), load_samples(tmp_path / "whole"))
