"""``sgmcmc.sample``: what a call in a notebook may get wrong is refused in a sentence, or is understood."""

import contextlib
import importlib.metadata
import json
import math
import signal
import subprocess
import sys
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_potentials_device import NAMES, made

import sgmcmc
from sgmcmc.chain import Chain
from sgmcmc.checks import _mixed_minibatches, _wrong_losses, _wrong_minibatches, wrong_gradient
from sgmcmc.errors import SettingError, StoreError
from sgmcmc.formats import read_status, signature
from sgmcmc.interrupt import Interrupted, Signals, unbroken
from sgmcmc.plan import Plan
from sgmcmc.potentials.analytic import FunctionPotential, Gaussian
from sgmcmc.sampling import missed


def square(theta):
    return (theta**2).sum() / 2


class WithoutStart:
    """The standard normal, with no ``initial``."""

    dim, data_size = 2, 0

    def potential(self, theta):
        return theta.double().square().sum(-1) / 2

    def gradient(self, theta, batch=None):
        return theta


class WithData(WithoutStart):
    """The mean of four data."""

    data_size = 4

    def initial(self, chains, random):
        return random.normal("start", 0, 1, chains, 2)[0]


FEW = sgmcmc.Dataset(torch.zeros(4, 3), torch.arange(4) % 2, 2)
NETWORK = sgmcmc.NetworkPotential(torch.nn.Linear(3, 2), FEW)


def short(target=square, sampler="ggmc", **settings):
    more = {"dim": 2} if target is square else {}
    settings = {"step_size": 0.1, "cycles": 20, "acceptance": "metropolis", **more, **settings}
    return sgmcmc.sample(target, sampler, **settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mass": -1.0}, "mass=-1.0: must be positive"),
        (
            {"target": lambda theta: (torch.ones(2, 2, dtype=torch.float64) @ theta).sum(), "dim": 2},
            "function=<lambda>: must map .* (so constants are matrix.to(theta)).*: expected m1",
        ),
        ({"mass": [1.0, 2.0, 3.0]}, "mass=[3 numbers]: must be one number, or a list of 2"),
        ({"thin": 0}, "thin=0: must be a whole number, at least 1"),
        ({"thin": 6, "burn_in": 15}, "thin=6: leaves no draws of 5 cycles"),
        ({"chains": 0}, "chains=0: must be a whole number, at least 1"),
        ({"chains": 2.5}, "chains=2.5: must be a whole number, at least 1"),
        ({"steps": 0}, "steps=0: must be a whole number, at least 1"),
        ({"seed": -1}, "seed=-1: must be a whole number, at least 0"),
        ({"dim": None}, "dim=None: a function as the target needs"),
        ({"dim": "2"}, "dim='2': must be a whole number"),
        ({"burn_in": 9, "cycles": 5}, "burn_in=9: leaves no draws of cycles=5"),
        ({"tune": 1.5}, "tune=1.5: is the acceptance"),
        ({"tune": 0.6}, "tune=0.6: tunes during the burn-in: give burn_in"),
        ({"tune": 0.5, "burn_in": 5, "acceptance": "barker"}, "tune=0.5: Barker's rule accepts less than a half"),
        ({"trajectory": True}, "trajectory=True: chooses during the burn-in: give burn_in"),
        ({"dim": 3, "target": Gaussian()}, "dim=3: the target has its own, 1: leave it out"),
        ({"chains": 10**12}, "chains=1000000000000: their state alone takes 89,407 GiB, and this machine has"),
        ({"initial": torch.zeros(4, 2), "chains": 1}, "shape of initial=[4, 2]: must be [1, 2]"),
        ({"initial": torch.zeros(0, 2)}, "shape of initial=[0, 2]: must be [chains, 2]: [chains, dim]"),
        ({"initial": torch.zeros(1, 2, 2), "dim": 4}, "shape of initial=[1, 2, 2]: must be [chains, 4]: [chains, dim]"),
        ({"initial": torch.zeros(3)}, "shape of initial=[3]: must be [chains, 2]: [chains, dim]"),
        ({"initial": torch.zeros(2, 3), "dim": 3, "chains": 3}, "shape of initial=[2, 3]: must be [3, 3]"),
        ({"initial": torch.zeros(2, 3), "chains": 3}, "shape of initial=[2, 3]: must be [3, 2]"),
        ({"initial": [[1.0, 2.0], [1.0]]}, "initial=[[1.0, 2.0], [1.0]]: must be [chains, 2]"),
        ({"initial": torch.zeros(2, 2), "step_size": [0.1] * 3}, "step_size=[0.1, 0.1, 0.1]: must be a number or 2"),
        ({"acceptance": "mh"}, "acceptance=mh: must be one of monitor, metropolis"),
        ({"sampler": "sghmc"}, "acceptance=metropolis: .*; use acceptance=monitor"),
        ({"sampler": "langevin", "steps": 5}, "steps=5: the sampler's trajectories have 1 step"),
        ({"trajectory": True, "burn_in": 5}, "burn_in=5: trajectory tries .*, or fewer steps"),
        ({"temperature": "warm"}, "temperature=warm: must be a number"),
        ({"alpha": [0.1, 0.2], "refresh": "partial"}, "alpha=[0.1, 0.2]: must be a number"),
        ({"batch_size": 10.5}, "batch_size=10.5: must be a whole number, at least 1"),
        ({"tune": "high", "burn_in": 5}, "tune=high: must be a number"),
        ({"word": 3}, "word=3: must be a string of letters"),
        ({"word": ""}, "word=: must be a string of letters"),
        ({"word": "BAB"}, "refresh=keep: the word BAB would never refresh its momentum: use refresh=full"),
        ({"device": "gpu"}, "device=gpu: must be auto, cpu, cuda or cuda:1"),
        ({"device": "mps"}, "device=mps: must be auto, cpu, cuda or cuda:1"),
        ({"device": f"cuda:{torch.cuda.device_count()}"}, f"device=cuda:{torch.cuda.device_count()}: this machine has"),
        ({"momentum_decay": [0.5, 0.6], "chains": 3}, "momentum_decay=[0.5, 0.6]: must be a number or 3"),
        ({"momentum_decay": 1.5}, "momentum_decay=1.5: must be from 0 to 1"),
        ({"momentum_decay": [-0.5, 0.5], "chains": 2}, "momentum_decay=[-0.5, 0.5]: must be from 0 to 1"),
        ({"sampler": "amagold", "b": -0.1}, "b=-0.1: must be not negative"),
        ({"sampler": "amagold", "beta": -2}, "beta=-2.0: must be not negative"),
        ({"step_size": [0.1, 0.2], "chains": 3}, "step_size=[0.1, 0.2]: must be a number or 3"),
        ({"step_size": np.full(50, 0.1), "chains": 3}, "step_size=[50 numbers]: must be a number or 3"),
        ({"step_size": [0.1, 0.2], "friction": [1.0, 2.0, 3.0]}, "step_size=[0.1, 0.2]: must be a number or 3"),
        ({"step_size": None}, "step_size=None: has to be given"),
        ({"friction": "infinite"}, "friction=infinite: must be a number, .*; infinite friction is math.inf"),
        ({"acceptence": "metropolis"}, "acceptence=metropolis: did you mean acceptance.$"),
        ({"num_samples": 9}, "num_samples=9: did you mean cycles.$"),
        ({"warmup": 9}, "warmup=9: did you mean burn_in.$"),
        ({"zeal": 1}, "zeal=1: there is no such argument; known are potential, sampler, step_size"),
        ({"lr": 0.1, "step_size": None}, "lr=0.1: is the command line's; here give step_size = sqrt(lr/N)"),
        ({"dtype": "float16"}, "dtype=float16: must be torch.float32 or torch.float64"),
        ({"target": NETWORK, "dtype": "float64"}, "dtype=float64: the network is of float32: give it dtype=torch"),
        ({"dtype": np.float64}, "dtype=<class 'numpy.float64'>: must be torch.float32 or torch.float64"),
        ({"schedule": "cosinus"}, "schedule=cosinus: must be one of constant, cosine"),
        ({"schedule": {"name": "cosine"}}, "schedule={'name': 'cosine'}: must be a name or an sgmcmc.Schedule"),
        ({"sampler": "custom"}, "sampler=custom: needs a word, such as word='BABOBAB'"),
        ({"sampler": 5}, "sampler=5: must be a name of sgmcmc.SAMPLERS, or a row"),
        ({"target": Gaussian}, "potential=Gaussian: is a class: give an instance of it, such as Gaussian()"),
        ({"target": "double_well"}, "potential=double_well: names are the command line's: give a target, such as"),
        ({"target": torch.nn.Linear(2, 2)}, "potential=Linear: sgmcmc.NetworkPotential(module, .*) makes a target"),
        ({"target": WithoutStart()}, "potential=WithoutStart: a target has initial, too"),
        ({"target": object()}, "potential=object: a target has potential, gradient, initial, dim, data_size, too"),
    ],
)
def test_a_call_that_cannot_work_is_refused_in_a_sentence(settings, said):
    for character in "[](){}":
        said = said.replace(character, "\\" + character)
    with pytest.raises(SettingError, match=f"^{said}"):
        short(**settings)


def test_an_error_within_a_property_of_the_target_is_shown_and_no_lack_of_it():
    class Forgetful(Gaussian):
        data_size = property(lambda self: self.forgotten)

    with pytest.raises(AttributeError, match="forgotten"):
        short(target=Forgetful())


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("inexact", True, "True: of the target must be a sentence, or None; something else needs another name"),
        ("moves", [True, False], "list: of the target must be a bool tensor [2] with a True"),
        ("moves", torch.zeros(2, dtype=torch.bool), "Tensor [2]: of the target must be a bool tensor [2] with a True"),
        ("moves", torch.ones(2), "Tensor [2]: of the target must be a bool tensor [2]"),
        ("std", 1.0, "1.0: of the target must be a tensor [2]"),
        ("std", torch.ones(3), "Tensor [3]: of the target must be a tensor [2]"),
        ("blocks", torch.nn.ModuleList(), "ModuleList: of the target must be a list of (name, slice)"),
        ("blocks", [1, 2], "list: of the target must be a list of (name, slice)"),
        ("fit", print, "builtin_function_or_method: of the target must be a dict of columns"),
        ("noise", torch.ones(2), "Tensor [2]: of the target must be 0 or a positive number"),
        ("noise", -1.0, "-1.0: of the target must be 0 or a positive number"),
        ("dim", "2", "2: of the target must be an int, at least 1"),
        ("views", 0, "0: of the target must be an int, at least 1"),
        ("shown", torch.zeros(3), "Tensor [3]: of the target must be an int, at least 1"),
        ("least_batch", "two", "two: of the target must be an int, at least 1"),
        ("chains_at_once", 1.5, "1.5: of the target must be an int, at least 1"),
        ("together", "yes", "yes: of the target must be True or False"),
        ("is_network", torch.ones(2), "Tensor [2]: of the target must be True or False"),
        ("capturable", None, "None: of the target must be True or False"),
        ("gibbs", 3, "3: of the target must be a method"),
        ("gibbs", lambda theta: theta, "function: of the target must be a method of (theta, temperature, random, traj"),
        ("uncompile_layers", [], "list: of the target must be a method"),
        ("gradient", lambda theta: theta, "Gaussian: of the target must take (theta, batch=None)"),
        ("gradient", 3, "Gaussian: of the target must take (theta, batch=None)"),
        ("gradient", lambda theta, batch: theta, "Gaussian: of the target must take (theta, batch=None)"),
        ("dim", torch.tensor(2), "tensor(2): of the target must be an int, at least 1"),
        ("dim", lambda: 2, "<lambda>: of the target must be an int, at least 1"),
        ("data_size", np.int32(4), "np.int32(4): of the target must be an int, at least 0"),
        ("initial", lambda chains: torch.zeros(chains, 2), "Gaussian: of the target must take (chains, random)"),
        ("potential", lambda: 0, "Gaussian: of the target must take (theta)"),
    ],
)
def test_what_is_not_what_a_target_has_by_its_name_is_refused_at_once(name, value, said):
    """It was a traceback from the midst of the run, or another chain."""
    target = Gaussian(2) if name not in ("views", "shown", "least_batch") else WithData()
    setattr(target, name, value)
    with pytest.raises(SettingError) as error:
        short(target)
    assert str(error.value).startswith(f"{name}={said}")


@pytest.mark.parametrize(("name", "value"), [("noise", torch.ones(3)), ("prior", torch.nn.Linear(1, 1)), ("test", 1.0)])
def test_what_no_chain_asks_for_may_have_any_name(name, value):
    target = WithData()
    setattr(target, name, value)
    assert torch.equal(short(target, "hmc").draws, short(WithData(), "hmc").draws)


@pytest.mark.thorough
@pytest.mark.parametrize("compiled", [False, True])
def test_a_gradient_of_another_dtype_leaves_the_chain_s(compiled):
    """A compiled chain took the float64 numbers that followed for float32, and was NaN."""

    class Double(Gaussian):
        def gradient(self, theta, batch=None):
            return super().gradient(theta.double(), batch)

    settings = {"steps": 2, "chains": 100, "step_size": 0.5, "compile": compiled}
    for sampler in ("hmc", "ggmc"):
        result = short(Double(2), sampler, **settings)
        assert result.compiled == compiled and result.draws.dtype == torch.float32
        eager = short(Gaussian(2), sampler, **settings | {"compile": False})
        torch.testing.assert_close(result.draws, eager.draws)


@pytest.mark.thorough
@pytest.mark.parametrize(("sampler", "compiled"), [("hmc", False), ("ggmc", False), ("sghmc", False), ("ggmc", True)])
def test_no_graph_of_autograd_grows_along_a_chain(sampler, compiled):
    class Learned(Gaussian):
        weight = torch.nn.Parameter(torch.ones(2))

        def potential(self, theta):
            return super().potential(theta * self.weight)

        def gradient(self, theta, batch=None):
            return super().gradient(theta, batch) * self.weight

    class Marked(Gaussian):
        def gradient(self, theta, batch=None):
            theta.requires_grad_()  # of what it is given, which may not be the chain's own
            return torch.autograd.grad(self.potential(theta).sum(), theta)[0]

    for target in (Learned(2), Marked(2)):
        given = torch.ones(1, 2)
        result = short(target, sampler, initial=given, acceptance="monitor", compile=compiled)
        assert not result.draws.requires_grad and not given.requires_grad and result.compiled == compiled


def test_a_gradient_that_is_another_one_when_it_is_asked_again_is_told():
    """Momentum of its own makes a trajectory that reads otherwise backwards: E[x²] came out .74 for .47."""

    class Remembering(WithoutStart):
        last = 0.0

        def gradient(self, theta, batch=None):
            self.last = self.last / 2 + theta
            return self.last

    with pytest.warns(UserWarning, match="the gradient of Remembering is another one when it is asked again"):
        short(Remembering(), initial=torch.ones(3, 2))


@pytest.mark.parametrize(
    ("name", "shape", "need"), [("losses", [3], r"\[3, 2\]"), ("prior", [], r"\[3\]"), ("prior", [3, 1], r"\[3\]")]
)
def test_terms_of_the_sum_over_data_in_another_shape_are_refused(name, shape, need):
    """They were summed over the chains."""

    class Terms(WithData):
        def losses(self, theta, batch):
            return torch.zeros(*batch.shape, dtype=torch.float64)

        def prior(self, theta):
            return self.potential(theta)

    setattr(Terms, name, lambda *_: torch.zeros(shape, dtype=torch.float64))
    with pytest.raises(SettingError, match=f"^shape of {name}={shape}: must be {need}".replace("=[", r"=\[")):
        short(Terms(), "hmc", acceptance="austerity", chains=3)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({"step_size": [0.1, 0.2]}, [20, 2, 2]),
        ({"friction": torch.tensor([1.0, 2.0, math.inf])}, [20, 3, 2]),
        ({"step_size": np.array([0.1, 0.2]), "chains": 2}, [20, 2, 2]),
        ({"step_size": [0.1, 0.2], "chains": 6}, [20, 6, 2]),
        ({"initial": [[1.0, 2.0], [3.0, 4.0]], "chains": 2, "dtype": "float64"}, [20, 2, 2]),
        ({"target": WithoutStart(), "initial": [[1.0, 2.0]]}, [20, 1, 2]),
        ({"initial": torch.zeros(4, 2)}, [20, 4, 2]),
        ({"initial": [1.0, 2.0], "dim": 2}, [20, 1, 2]),
        ({"device": "auto"}, [20, 1, 2]),
        ({"temperature": None, "mass": None}, [20, 1, 2]),
        ({"schedule": "palindromic_cosine"}, [20, 1, 2]),
        ({"sampler": "custom", "word": "BABOBAB"}, [20, 1, 2]),
        ({"sampler": "custom", "word": "BAB"}, [20, 1, 2]),
        ({"cycles": 1e1, "thin": 5}, [2, 1, 2]),
        ({"tune": 0.6, "burn_in": 10}, [10, 1, 2]),
        ({"dim": 1}, [20, 1, 1]),
    ],
)
def test_what_is_meant_is_understood(settings, shape):
    result = short(**settings)
    assert list(result.draws.shape) == shape and result.status == "done"
    assert result.draws.dtype == (torch.float64 if settings.get("dtype") == "float64" else torch.float32)


@pytest.mark.slow
def test_a_target_that_takes_a_chain_at_a_time_is_asked_for_its_start_by_a_number_of_chains():
    """Not by a range of them, and not at all where it is given: compiled, too."""

    class Alone(Gaussian):
        together = False

        def initial(self, chains, random):
            return torch.full((chains, self.dim), 0.5)

    settings = {"chains": 2, "cycles": 4, "steps": 2, "dtype": "float64"}
    eager, compiled = (short(Alone(1), "hmc", compile=compile, **settings) for compile in (False, True))
    assert compiled.compiled and not eager.compiled
    torch.testing.assert_close(compiled.draws, eager.draws)
    Alone.initial = None
    given = short(Alone(1), "hmc", compile=True, initial=[[0.5], [0.5]], **settings)
    assert given.compiled and torch.equal(given.draws, compiled.draws)


@pytest.mark.thorough
def test_groups_of_chains_take_the_step_sizes_of_a_list_and_compiled_cycles_are_the_same():
    settings = {"chains": 4, "cycles": 30, "steps": 3}
    groups = short(step_size=[0.1, 0.8], **settings)
    each = short(step_size=[0.1, 0.1, 0.8, 0.8], **settings)
    assert torch.equal(groups.draws, each.draws)
    compiled = short(step_size=[0.1, 0.8], compile=True, **settings)
    assert compiled.compiled and not groups.compiled
    torch.testing.assert_close(compiled.draws, groups.draws, rtol=1e-4, atol=1e-4)
    with pytest.raises(SettingError, match="^compile=yes: must be True, False or 'auto'"):
        short(compile="yes")
    for given in (5, "false", None):
        with pytest.raises(SettingError, match=f"^trajectory={given}: must be True or False .*; steps is a trajectory"):
            short(burn_in=10, trajectory=given)
    with pytest.raises(SettingError, match="^compile=True: trajectories whose length is tuned are not compiled"):
        short(burn_in=10, trajectory=True, compile=True)


class Terms(WithData):
    """The mean of four data, all 0, as a sum over them."""

    def losses(self, theta, batch):
        return self.potential(theta)[:, None].expand(-1, batch.shape[-1]) / 4

    def prior(self, theta):
        return 0 * self.potential(theta)


@pytest.mark.parametrize("acceptance", ["austerity", "barker_minibatch"])
def test_decisions_on_a_part_of_the_data_are_told_not_to_be_exact(acceptance):
    with pytest.warns(UserWarning, match=f"^not exactly corrected: {acceptance} decides on batches of 2 data, "):
        short(Terms(), "hmc", acceptance=acceptance, decision_batch=2)
    with warnings.catch_warnings(action="error"):
        short(Terms(), "hmc", acceptance="barker")


@pytest.mark.thorough
def test_a_tuned_acceptance_that_is_far_from_its_target_is_told():
    """From a step a thousand times too small 150 cycles do not come to where nine in ten are accepted; from one near it
    they do. Of a chain that is not corrected its probability counts."""
    options = {"dim": 20, "cycles": 300, "burn_in": 150, "chains": 4, "steps": 5, "tune": 0.9}
    for acceptance in ("metropolis", "monitor"):
        with pytest.warns(UserWarning, match=r"^acceptance 1 after the burn-in, which tuned it to 0\.9: give a longer"):
            sgmcmc.sample(square, "hmc", step_size=4e-4, acceptance=acceptance, **options)
    with warnings.catch_warnings(action="error"):
        sgmcmc.sample(square, "hmc", step_size=0.4, **options)
        chosen = {"steps": 9, "trajectory": True}  # its own tuning is cut into spans
        for others in (chosen, {"schedule": sgmcmc.Schedule("stairs", every=160, factor=0.1)}):
            sgmcmc.sample(square, "hmc", step_size=0.4, **options | others)


@pytest.mark.thorough
def test_a_tuned_acceptance_is_far_by_the_odds_of_the_share_of_what_the_rule_can_accept():
    """Barker's rule accepts a half at most: what comes to no more than that has moved nowhere near its target."""
    options = {"dim": 20, "cycles": 300, "burn_in": 150, "chains": 4, "steps": 5, "acceptance": "barker", "tune": 0.35}
    with pytest.warns(UserWarning, match=r"^acceptance 0\.5 after the burn-in, which tuned it to 0\.35: give a longer"):
        sgmcmc.sample(square, "hmc", step_size=4e-4, **options)
    with warnings.catch_warnings(action="error"):
        result = sgmcmc.sample(square, "hmc", step_size=0.8, **options)
    above = replace(result, accept_prob=torch.full((4,), 0.51))  # while U still falls
    assert missed(above, Plan(300, burn_in=150, tune=0.35)).startswith("acceptance 0.51 after the burn-in, ")


@pytest.mark.thorough
def test_chains_that_are_tuned_one_by_one_are_far_from_their_target_one_by_one():
    """Two of four from a step a hundred thousand times too small, whose mean with the others is not far."""
    options = {"dim": 20, "cycles": 500, "burn_in": 200, "steps": 5, "tune": 0.7}
    where = r"of 2 of 4 chains \(indices 1, 2\) after the burn-in, which tuned it to 0\.7: give a longer"
    with pytest.warns(UserWarning, match=f"^acceptance 1 {where}"):
        sgmcmc.sample(square, "hmc", step_size=[0.8, 8e-6, 8e-6, 0.8], **options)
    with warnings.catch_warnings(action="error"):
        sgmcmc.sample(square, "hmc", step_size=[0.8] * 4, **options)


@pytest.mark.thorough
def test_long_chains_are_compiled_by_auto_where_they_can_be(monkeypatch):
    asked = []
    monkeypatch.setattr("sgmcmc.compiled.pays", lambda *given: asked.append(given[2:]) or given[3] > 25)
    assert [short(compile="auto", chains=3, steps=2, cycles=cycles).compiled for cycles in (25, 26)] == [False, True]
    assert asked == [(3, 25), (3, 26)]
    assert not short(compile="auto", cycles=200, burn_in=140, trajectory=True).compiled


def test_a_bar_shows_the_cycles(capsys):
    quiet, shown = short(chains=2), short(chains=2, progress=True)
    assert torch.equal(quiet.draws, shown.draws)
    assert "20" in capsys.readouterr().err and short(chains=2) and not capsys.readouterr().err
    with pytest.raises(SettingError, match="^progress=no: must be True or False"):
        short(progress="no")


def test_a_word_of_one_s_own_keeps_its_momentum_where_it_refreshes_it():
    """OBABO by its letters is GGMC, number for number; without an O the momentum is fresh."""
    assert torch.equal(short(sampler="custom", word="OBABO").draws, short(sampler="ggmc").draws)
    assert torch.equal(short(sampler="custom", word="BAB", steps=3).draws, short(sampler="hmc", steps=3).draws)


def test_positions_start_where_initial_says():
    # With a tiny step the first draw is the start; in float64, to more digits than float32 has.
    result = short(initial=[[1 / 3, -2.0]], dtype="float64", step_size=1e-12, cycles=1, steps=1)
    assert result.draws.flatten().tolist() == pytest.approx([1 / 3, -2.0], abs=1e-10)


def test_draws_are_every_thin_th_state_after_the_burn_in_and_counts_are_of_all_cycles():
    """Cycles 6 and 9 of 11, after 3 without draws; burn-in's decisions count as accepted or proposed, too."""
    settings = {"initial": [[0.5, -1.0], [2.0, 0.0], [0.1, 0.2]], "cycles": 11, "step_size": 1.7, "steps": 2}
    whole, few = short(**settings), short(**settings, burn_in=3, thin=3)
    assert torch.equal(few.draws, whole.draws[[5, 8]])
    before = torch.cat([torch.tensor(settings["initial"])[None], whole.draws[:-1]])
    moved = int((whole.draws != before).any(-1).sum())  # a trajectory that is rejected stays, and no other does
    assert 5 < moved < 28
    for result in (whole, few):
        assert (result.accepted, result.proposed, result.cycles) == (moved, 33, 11)


@pytest.mark.thorough
def test_a_chain_that_is_not_corrected_says_so():
    with pytest.warns(UserWarning, match="not corrected"):
        short(acceptance=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for more in ({}, {"acceptance": "monitor"}, {"sampler": "amagold"}):
            short(**more)
    with pytest.warns(UserWarning, match="^the chain is not corrected; it cannot be: the Euler-Maruyama letter E"):
        short(sampler="sghmc", acceptance=None)
    with pytest.warns(UserWarning, match=r"it cannot be: the word OBBA .*\(Schedule\(…, direction='random'\)\)$"):
        short(sampler="custom", word="OBBA", acceptance=None)


@pytest.mark.thorough
def test_a_run_in_a_folder_is_gone_on_with(tmp_path, recwarn):
    """The same draws as in memory; more cycles continue them; what is done is read, not run, and fewer are told."""
    begun = []

    class Begun(Gaussian):
        def initial(self, chains, random):
            begun.append(chains)
            return super().initial(chains, random)

    where = {"target": Begun(dim=2), "step_size": [0.3, 0.5], "chains": 4, "burn_in": 10, "thin": 3}
    kept = {**where, "folder": tmp_path / "run"}
    whole = short(**where, cycles=250)
    for cycles in (100, 250, 250):
        result = short(**kept, cycles=cycles)
        assert result.status == "done" and result.cycles == cycles
        assert torch.equal(result.draws, whole.draws[: (cycles - 10) // 3])
    assert begun == [4, 4] and torch.equal(result.accept_prob, whole.accept_prob)
    assert (result.accepted, result.proposed) == (whole.accepted, whole.proposed)
    assert torch.equal(sgmcmc.load_samples(tmp_path / "run"), whole.draws)
    assert sgmcmc.load_metrics(tmp_path / "run")["cycle"][-1] == 250
    status = read_status(tmp_path / "run")
    assert (status["state"], status["cycles"], status["accepted"]) == ("done", 250, whole.accepted)
    assert not recwarn.list
    with pytest.warns(UserWarning, match="run holds 250 cycles, more than cycles=100"):
        assert len(short(**kept, cycles=100).draws) == 80


@pytest.mark.parametrize("killed", [False, True])
def test_the_draws_of_a_run_whose_checkpoints_are_gone_are_not_thrown_away(tmp_path, killed):
    draws = short(folder=tmp_path / "run").draws
    for path in (tmp_path / "run").glob("checkpoint-*.pt"):
        path.unlink()
    if killed:  # between two rows, before the first of which draws are kept, too
        (tmp_path / "run" / "metrics.csv").unlink()
        status = read_status(tmp_path / "run")
        status = {key: status[key] for key in ("identity", "environments", "target")} | {"state": "running"}
        (tmp_path / "run" / "status.json").write_text(json.dumps(status | {"sha256": signature(status)}))
    with pytest.warns(UserWarning, match="its checkpoints are gone: .* starts from nothing; what was there is in dam"):
        result = short(folder=tmp_path / "run", cycles=30)
    assert torch.equal(sgmcmc.load_samples(tmp_path / "run" / "damaged-1"), draws)
    assert torch.equal(result.draws[:20], draws)


def test_a_module_is_sampled_in_one_thread_at_a_time():
    """Chains of two threads would overwrite each other's weights within an evaluation."""
    rows, module = sgmcmc.Dataset(torch.randn(8, 2), torch.arange(8) % 2, 2), torch.nn.Linear(2, 2)
    target, another = (sgmcmc.NetworkPotential(module, rows) for _ in range(2))
    said = []

    def elsewhere(potential):
        def call():
            try:
                said.append(short(potential, "hmc", cycles=1, batch_size=4).status)
            except SettingError as error:
                said.append(str(error))

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    asked = []

    def ask():
        row = torch.zeros(1, 1, dtype=torch.int64)
        for name, *more in (("predict", rows), ("potential",), ("gradient", row), ("losses", row), ("state_dict",)):
            try:
                getattr(another, name)(torch.ones(1, 6), *more)
            except SettingError as error:
                asked.append(str(error))
        try:
            sgmcmc.NetworkPotential(module, rows, dtype=torch.float64)
        except SettingError as error:
            asked.append(str(error))

    class Meanwhile(sgmcmc.NetworkPotential):
        def initial(self, *arguments):
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
            for one in (self, another, sgmcmc.NetworkPotential(torch.nn.Linear(2, 2), rows)):
                elsewhere(one)
            return super().initial(*arguments)

    target.__class__ = Meanwhile
    short(target, "hmc", cycles=1, batch_size=4)
    refused, same_module, other_module = said
    assert refused.startswith("potential=Meanwhile: is being sampled in another thread")
    assert same_module.startswith("potential=NetworkPotential: is being") and other_module == "done"
    assert all(one.startswith("model=Linear: is being sampled in another thread") for one in asked)
    assert len(asked) == 6
    elsewhere(another)
    assert said[-1] == "done"


def test_a_module_that_was_sampled_starts_as_it_did():
    """What a prior does not draw starts as the module was given: not where another target's chain came to."""
    rows = sgmcmc.Dataset(torch.randn(8, 3), torch.arange(8) % 2, 2)
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))
    first, again = (short(sgmcmc.NetworkPotential(module, rows), "hmc", cycles=3, batch_size=4).draws for _ in "12")
    assert torch.equal(first, again)


def test_what_is_raised_in_a_signal_s_place_loses_no_draw():
    """torch's clean-up fails where a signal left it half done, and its error takes the place of the signal's."""

    class Clumsy(Gaussian):
        asked = 0

        def potential(self, theta):
            Clumsy.asked += 1
            if Clumsy.asked == 60:
                try:
                    signal.raise_signal(signal.SIGINT)
                finally:
                    raise RuntimeError("clean-up")
            return super().potential(theta)

    result = short(Clumsy(2), "hmc", cycles=100)
    assert result.status == "interrupted" and 5 < len(result.draws) < 100
    Clumsy.asked = 60
    assert short(Clumsy(2), "hmc", cycles=5).status == "done"


def test_a_handler_that_is_not_python_s_is_left(monkeypatch):
    """It could not be put back, and the run would be lost at its end."""
    real = signal.getsignal
    monkeypatch.setattr(signal, "getsignal", lambda number: None if number == signal.SIGINT else real(number))
    before = real(signal.SIGINT)
    with Signals():
        assert real(signal.SIGINT) is before and real(signal.SIGTERM) is not signal.SIG_DFL


def test_a_folder_is_of_one_run(tmp_path):
    """Other settings, another start and another target are refused in a sentence; seeds are joined as chains."""
    kept = {"folder": tmp_path / "run", "initial": torch.ones(2, 2), "friction": math.inf, "cycles": 30}
    short(**kept)
    for other, said in (
        ({"step_size": 0.2}, r"step_size is 0.1 there and 0.2 here\): give another folder, or move"),
        ({"initial": torch.zeros(2, 2)}, "init is"),
        ({"momentum_decay": 0.5, "friction": None}, "friction is inf there"),
        ({"mass": [1.0, 2.0]}, "mass is 1.0 there"),
        ({"dtype": "float64"}, "dtype is float32 there"),
        ({"schedule": "cosine", "acceptance": "monitor"}, "schedule.name is constant there"),
    ):
        with pytest.raises(StoreError, match=said):
            short(**{**kept, **other})
    with pytest.raises(SettingError, match="another U or gradient than when the run was begun: give another folder"):
        short(lambda theta: (theta**4).sum(), dim=2, **{**kept, "cycles": 40})
    short(**{**kept, "folder": tmp_path / "other", "seed": 1, "initial": torch.zeros(3, 2)})
    assert sgmcmc.load_samples([tmp_path / "run", tmp_path / "other"]).shape == (30, 5, 2)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        short(**{**kept, "folder": tmp_path / "file"})


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seed": 1}, "seed is 0 there and 1 here"),
        ({"chains": 2}, "chains is 4 there and 2 here"),
        ({"burn_in": 151}, "burn_in is 150 there and 151 here"),
        ({"thin": 2}, "thin is 1 there and 2 here"),
        ({"tune": 0.5}, "tune.target is None there and 0.5 here"),
        ({"trajectory": True}, "tune.trajectory is False there and True here"),
        ({"word": "BAOAB"}, "word is OBABO there and BAOAB here"),
        ({"beta": 1.0}, "friction is 1.0 there and None here, beta is None there and 1.0 here"),
        ({"target": Gaussian(2)}, "model.name is WithoutStart there and Gaussian here"),
    ],
)
def test_a_folder_knows_what_its_draws_depend_on(changed, said, tmp_path):
    kept = {"folder": tmp_path, "target": WithoutStart(), "chains": 4, "cycles": 160, "burn_in": 150}
    starts = {chains: torch.ones(chains, 2) for chains in (2, 4)}
    short(**kept, initial=starts[4])
    with pytest.raises(StoreError, match=said):
        short(**{**kept, **changed}, initial=starts[changed.get("chains", 4)])


def test_a_folder_knows_its_minibatches(tmp_path):
    kept = {"target": Line(), "sampler": "amagold", "steps": 3, "beta": 0.25, "batch_size": 10, "folder": tmp_path}
    short(**kept)
    for changed, said in (
        ({"batch_size": 5}, "batch_size is 10 there and 5 here"),
        ({"minibatches": "shuffled"}, "minibatches is independent there and shuffled here"),
    ):
        with pytest.raises(StoreError, match=said):
            short(**{**kept, **changed})


@pytest.mark.thorough
@pytest.mark.parametrize(
    "sampler", [{"sampler": "sghmc"}, {"schedule": "cosine"}, {"sampler": "random_walk"}, {"word": "BAOAB"}]
)
def test_a_folder_is_of_one_target_whatever_its_chain_evaluates(sampler, tmp_path):
    """Even where a chain of many cycles asks for no U, and where it has been told already what is done."""
    kept = {"acceptance": None, "folder": tmp_path, "cycles": 200, **sampler}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws = short(Gaussian(2), **kept).draws
        assert torch.equal(short(Gaussian(2), **kept).draws, draws)
    with pytest.raises(SettingError, match="target=Gaussian: gives another U or gradient than when"):
        short(Gaussian(2, covariance=2.0), **kept)


def test_a_folder_is_of_one_target_that_takes_a_chain_at_a_time(tmp_path):
    """It has a network's defaults, and is none."""

    class Alone(Gaussian):
        together = False

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(short(Alone(2), "random_walk", acceptance=None, folder=tmp_path).draws) == 20
    assert len(read_status(tmp_path)["target"]) == 1
    with pytest.raises(SettingError, match="target=Alone: gives another U or gradient than when"):
        short(Alone(2, covariance=2.0), "random_walk", acceptance=None, folder=tmp_path)


def test_a_run_of_a_target_whose_u_is_not_fixed_goes_on(tmp_path):
    """As it goes on where ``target`` was told before that was looked at."""

    class Drawn(Gaussian):
        inexact, counter = "U is another one in each trajectory", 0

        def potential(self, theta):
            return super().potential(theta) * (1 + self.counter)

    target = Drawn(2)
    for cycles in (20, 30, 40):
        with pytest.warns(UserWarning, match="the chain is not corrected; it cannot be: U is another one"):
            assert len(short(target, acceptance=None, cycles=cycles, folder=tmp_path).draws) == cycles
        assert target.counter == cycles and read_status(tmp_path)["target"] == []


def test_a_folder_is_of_one_gradient(tmp_path, monkeypatch):
    """An edited gradient of the same U, and another noise, are another chain's."""
    short(Tilted(2), folder=tmp_path)
    monkeypatch.setattr(Tilted, "factor", 1.01)
    with pytest.raises(SettingError, match="target=Tilted: gives another U or gradient"):
        short(Tilted(2), folder=tmp_path)
    short(Gaussian(2, noise=0.5), folder=tmp_path / "noise")
    with pytest.raises(StoreError, match="model.noise is 0.5 there and 1.0 here"):
        short(Gaussian(2, noise=1.0), folder=tmp_path / "noise")


def test_a_folder_is_of_one_target_whose_u_may_be_infinite_where_it_is_asked(tmp_path):
    """Of a target on a part of space, at the one θ that it is known by."""

    class Far(Gaussian):
        inside = 5.0

        def potential(self, theta):
            return torch.where(theta[:, 0] > self.inside, super().potential(theta), math.inf)

    start = torch.tensor([[6.0]])
    short(Far(1, covariance=9.0), folder=tmp_path, initial=start, cycles=10)
    assert len(short(Far(1, covariance=9.0), folder=tmp_path, initial=start, cycles=20).draws) == 20
    everywhere = Far(1, covariance=9.0)
    everywhere.inside = -math.inf
    with pytest.raises(SettingError, match="target=Far: gives another U or gradient"):
        short(everywhere, folder=tmp_path, initial=start, cycles=30)


@pytest.mark.thorough
@pytest.mark.parametrize("call", range(1, 30))
def test_a_run_goes_on_whenever_its_target_has_failed(call, tmp_path):
    """Where the folder is told what the target is, too."""

    class Failing(Gaussian):
        left = call

        def potential(self, theta):
            self.left -= 1
            if not self.left:
                raise OSError("out of file handles")
            return super().potential(theta)

    target = Failing(2)
    with contextlib.suppress(OSError):
        short(target, cycles=20, folder=tmp_path / "run")
    assert target.left <= 0
    draws = short(target, cycles=30, folder=tmp_path / "run").draws
    assert torch.equal(draws, short(Gaussian(2), cycles=30).draws)
    assert read_status(tmp_path / "run")["target"]


def test_a_target_is_known_when_the_first_cycle_is_left(tmp_path, monkeypatch):
    class Edited(Gaussian):
        factor = 1.0

        def gradient(self, theta, batch=None):
            return self.factor * super().gradient(theta)

    def left(chain):
        raise Interrupted

    with monkeypatch.context() as patch, pytest.warns(UserWarning, match="interrupted"):
        patch.setattr(Chain, "advance", left)
        short(Edited(2), folder=tmp_path / "run")
    Edited.factor = 1.1
    with pytest.raises(SettingError, match="another U or gradient than when the run was begun"):
        short(Edited(2), folder=tmp_path / "run")


def test_numpy_s_numbers_and_words_are_known_as_python_s(tmp_path):
    schedule = {"name": np.str_("stairs"), "every": np.int64(9), "factor": np.float64(0.5)}
    given = {"tune": np.float64(0.6), "burn_in": np.int64(5), "refresh": np.str_("full"), "trajectory": np.bool_(False)}
    kept = {"folder": tmp_path, "initial": torch.ones(400, 3, requires_grad=True), "dim": 3}
    short(**kept, **given, schedule=sgmcmc.Schedule(**schedule), cycles=10)
    plain = {name: value.item() for name, value in given.items()}
    schedule = {name: value.item() for name, value in schedule.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a damaged checkpoint
        assert short(**kept, **plain, schedule=sgmcmc.Schedule(**schedule), cycles=20).cycles == 20


def test_an_error_of_the_target_leaves_a_run_that_has_failed(tmp_path):
    class Failing(WithoutStart):
        left = 100

        def gradient(self, theta, batch=None):
            self.left -= 1
            return theta if self.left else 1 / 0

    where = {"sampler": "hmc", "initial": torch.ones(1, 2), "cycles": 40, "folder": tmp_path}
    with pytest.raises(ZeroDivisionError):
        short(Failing(), **where)
    assert read_status(tmp_path)["state"] == "failed"
    for folder in (3, True, ""):
        with pytest.raises(SettingError, match="must be the path of a folder"):
            short(folder=folder)


def test_a_long_start_is_known_by_its_hash_and_infinity_by_its_name(tmp_path):
    """Short ones are named in numbers; status.json is JSON for other programs, too, which knows no infinity."""

    class Wide(WithoutStart):
        def __init__(self, dim):
            self.dim = dim

    for dim, said in ((1001, r"init is [0-9a-f]{64} there"), (3, r"init is \[1.0, 1.0, 1.0\] there and \[1.0, 1.0, 2")):
        kept, other = {"folder": tmp_path / str(dim), "friction": math.inf, "cycles": 2}, torch.ones(1, dim)
        other[0, -1] = 2
        for _ in range(2):
            short(Wide(dim), initial=torch.ones(1, dim), **kept)
        with pytest.raises(StoreError, match=said):
            short(Wide(dim), initial=other, **kept)
        json.loads((tmp_path / str(dim) / "status.json").read_text(), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("target", "sampler", "settings", "name"),
    [
        (square, "ggmc", {}, "c8536a5cd285"),
        (square, "nonreversible_langevin", {"step_size": [0.1, 0.2], "mass": [1.0, 2.0], "seed": 3}, "d1ba286b1b2c"),
        (WithData(), "amagold", {"beta": 1.0, "batch_size": 2, "burn_in": 1, "thin": 2, "tune": 0.6}, "1315b92a4bbd"),
    ],
    ids=["default", "lists", "data"],
)
def test_the_identities_of_kept_samples_are_pinned(tmp_path, target, sampler, settings, name):
    """A change of these refuses users' folders: a new setting that says nothing is left out of ``kept.settings``."""
    short(target, sampler, **({"cycles": 3, "folder": tmp_path, "steps": 1} | settings))
    assert read_status(tmp_path)["identity"]["hash"] == name


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_waits_for_what_would_stay_broken_where_it_is_left(times):
    """Such as torch's imports at its first derivative; a second one does not wait."""
    steps, before = [], signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), unbroken():
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
                steps.append(times)
        assert len(steps) == 1 and signal.getsignal(signal.SIGINT) is signal.default_int_handler

        def pressing(theta):
            steps.append(theta)
            for _ in range(times * (len(steps) == 2)):
                signal.raise_signal(signal.SIGINT)
            return theta.sum()

        with pytest.raises(KeyboardInterrupt):
            FunctionPotential(pressing, 2)
        assert len(steps) == 4 - times  # once for the value, once for the derivative
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with unbroken():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_run_that_is_interrupted_in_its_burn_in_has_no_draws_yet(tmp_path):
    class Signalled(WithoutStart):
        left = 70  # gradients

        def gradient(self, theta, batch=None):
            self.left -= 1
            if not self.left:
                signal.raise_signal(signal.SIGINT)
            return theta

    where, target = {"sampler": "hmc", "initial": torch.ones(2, 2), "cycles": 12, "burn_in": 10}, Signalled()
    with pytest.warns(UserWarning, match="interrupted after cycle . of 12; the same call goes on from there"):
        result = short(target, **where, folder=tmp_path)
    assert result.status == "interrupted" and 0 < result.cycles < 10 and result.draws is None
    assert torch.equal(short(target, **where, folder=tmp_path).draws, short(WithoutStart(), **where).draws)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_waits_for_the_checkpoint_of_a_folder(tmp_path, number):
    """A scheduler's is then the caller's; the same call goes on to the draws of a chain that nobody disturbed."""

    class Signalled(WithoutStart):
        left = 70  # gradients

        def gradient(self, theta, batch=None):
            self.left -= 1
            if not self.left:
                signal.raise_signal(number)
            return theta

    where, target = {"sampler": "hmc", "initial": torch.ones(2, 2), "cycles": 40}, Signalled()
    seen, before = [], signal.signal(signal.SIGTERM, lambda *_: seen.append(read_status(tmp_path)["state"]))
    try:
        with pytest.warns(UserWarning, match="interrupted after cycle . of 40; the same call goes on from there"):
            result = short(target, **where, folder=tmp_path)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert result.status == "interrupted" and 0 < result.cycles < 10 and len(result.draws) == result.cycles
    assert seen == ["interrupted"] * (number == signal.SIGTERM)
    whole = short(WithoutStart(), **where)
    assert torch.equal(short(target, **where, folder=tmp_path).draws, whole.draws)


def test_an_interrupted_chain_says_so_and_a_scheduler_s_signal_is_the_caller_s():
    """Nothing is kept that a scheduler's signal could wait for; Ctrl-C gives what there is."""
    done = []

    def interrupting(number):
        def target(theta):
            done.append(len(done))
            if len(done) == 30:
                signal.raise_signal(number)
            return (theta**2).sum() / 2

        return target

    with pytest.warns(UserWarning, match=r"^interrupted after cycle \d of 999$"):
        result = short(interrupting(signal.SIGINT), "hmc", dim=2, cycles=999)
    assert result.status == "interrupted" and len(result.draws) == result.cycles < 9
    done.clear()
    seen, before = [], signal.signal(signal.SIGTERM, lambda *_: seen.append("told"))
    try:
        assert short(interrupting(signal.SIGTERM), "hmc", dim=2, cycles=40).status == "done" and seen == ["told"]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_chain_that_is_stuck_after_its_burn_in_is_told():
    """Far from the mode of a narrow Gaussian nearly every step downhill is accepted, at the mode none."""
    target = Gaussian(1, covariance=1e-4)
    settings = {"step_size": 0.5, "steps": 1, "cycles": 200, "burn_in": 100, "refresh": "full"}
    walk = {"sampler": "random_walk", "initial": torch.full((4, 1), 30.0)}
    with pytest.warns(UserWarning, match="trajectories are accepted; take a smaller step_size"):
        result = sgmcmc.sample(target, **settings | {"step_size": 3.0}, **walk)
    assert result.accepted > 0.01 * result.proposed and result.rate < 0.01
    assert sgmcmc.Result("x", accepted=30, proposed=40, burnt=(30, 40)).rate == 0.75  # the burn-in has just ended
    assert result.burnt[1] == 400 and result.rate == (result.accepted - result.burnt[0]) / 400


def test_of_a_few_trajectories_no_chain_is_called_stuck_and_those_of_the_burn_in_do_not_count():
    kernel = sgmcmc.make_kernel("hmc", Gaussian(1), 0.1)
    stuck = [
        sgmcmc.Result("x", accepted=157, proposed=200 + more, burnt=(157, 200), kernel=kernel).stuck
        for more in (1, 43, 44)
    ]
    assert stuck == [False, False, True]
    wild = {"burn_in": 50, "cycles": 100, "schedule": sgmcmc.Schedule("stairs", every=50, factor=1e12)}
    with pytest.warns(UserWarning, match="^the chain is stuck: 0 of 50 trajectories are accepted"):
        sgmcmc.sample(Gaussian(2), "hmc", step_size=0.1, **wild)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"alpha": 0.5}, "alpha"),
        ({"delta": 0.5}, "delta"),
        ({"sampler": "hmc", "friction": 3.0}, "friction"),
        ({"batch_size": 10}, "batch_size"),
        ({"minibatches": "shuffled"}, "minibatches"),
        ({"gradient": "full", "ends": "exact"}, "ends"),
        ({"epsilon": 0.1, "sigma": None}, "epsilon"),
        ({"schedule": sgmcmc.Schedule("palindromic_cosine", every=3)}, "schedule.every"),
        ({"schedule": sgmcmc.Schedule(factor=0.5)}, "schedule.factor"),
    ],
)
def test_what_has_no_effect_is_told(settings, told):
    with pytest.warns(UserWarning, match=f"^{told} has no effect on this chain") as warned:
        short(**settings)
    assert len(warned) == 1


def test_noise_that_a_chain_of_full_gradients_does_not_add_is_told():
    """BABOBAB of the docstring's row has full gradients where nothing is said, and no noise then."""
    row = sgmcmc.Sampler("BABOBAB", "keep", "metropolis", "either", "mine")
    with pytest.warns(UserWarning, match="^the target's noise=1 has no effect on this chain; gradient='mini"):
        sgmcmc.sample(Gaussian(2, noise=1.0), row, step_size=0.1, cycles=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sgmcmc.sample(Gaussian(2, noise=1.0), row, step_size=0.1, cycles=20, gradient="minibatch")


@pytest.mark.parametrize("target", [Gaussian(2), "network"])
def test_what_a_caller_has_set_in_torch_is_his_own(target):
    """A meta device has no values at all: what is made there and not where the chain is cannot be read."""

    if target == "network":
        data = sgmcmc.Dataset(torch.arange(12.0).view(6, 2), torch.arange(6) % 2, 2)
        target = sgmcmc.NetworkPotential(torch.nn.Linear(2, 2), data)

    def few():
        kind = {"step_size": 0.01, "tune": 0.6, "burn_in": 5, "acceptance": "metropolis", "gradient": "full"}
        return sgmcmc.sample(target, "ggmc", cycles=8, chains=3, steps=2, seed=4, **kind).draws

    usual = few()
    for within in (torch.inference_mode, lambda: torch.device("meta"), torch.no_grad):
        with within():
            draws = few()
        assert torch.equal(draws, usual) and not draws.is_inference()


def test_chains_that_diverged_are_told():
    quartic = {"target": sgmcmc.potentials.analytic.Quartic(1), "acceptance": "monitor", "cycles": 60}
    with pytest.warns(UserWarning, match=r"^diverged: no chain is finite after cycle \d+ of 60; a smaller step_size"):
        result = short(**quartic, step_size=10.0)
    assert result.status == "diverged" and (result.draws is None or len(result.draws) < 60)
    with pytest.warns(UserWarning, match="^the chain is stuck: 0 of 50 trajectories are accepted; take a smaller"):
        sgmcmc.sample(Gaussian(2), "hmc", step_size=50.0, cycles=50)
    with pytest.warns(UserWarning, match=r"^1 of 3 chains \(index 1\) never moved: ") as warned:
        start = [[0.0], [40.0], [1.0]]  # from 40 the quartic's slope throws every proposal far out
        result = sgmcmc.sample(sgmcmc.potentials.analytic.Quartic(1), "hmc", step_size=0.2, cycles=50, initial=start)
    assert result.unmoved == [1] and not result.stuck and len(warned) == 1
    with pytest.warns(UserWarning, match=r"never moved: a smaller step size \(a larger one where all is accepted\) or"):
        sgmcmc.sample(Gaussian(2), "hmc", step_size=1e-50, cycles=50)
    with pytest.warns(UserWarning, match=r"^1 of 2 chains \(index 1\) diverged and stand still"):
        result = short(**quartic, step_size=[0.01, 10.0])
    assert result.status == "done" and result.frozen == [1] and len(result.draws) == 60


@pytest.mark.parametrize("acceptance", ["monitor", "metropolis"])
def test_a_potential_that_is_no_number_is_not_put_down_to_the_step_size(acceptance):
    with pytest.raises(sgmcmc.SettingError, match="^U at the start=nan: is not finite in chains 0, 1 of 2"):
        short(lambda theta: theta.sum() * math.nan, dim=1, chains=2, acceptance=acceptance)


class Tilted(Gaussian):
    """A Gaussian whose gradient is wrong by a factor."""

    factor = 1.0

    def gradient(self, theta, batch=None):
        return self.factor * super().gradient(theta, batch)


@pytest.mark.thorough
@pytest.mark.parametrize("factor", [2.0, 0.5, -1.0, 0.0, 1.05, 0.97])
def test_a_gradient_that_is_not_u_s_is_told(factor, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(Tilted, "factor", factor)
    with pytest.warns(UserWarning, match="^the gradient of Tilted is not that of its U, ") as warned:
        sgmcmc.sample(Tilted(3), "hmc", step_size=0.1, cycles=20, chains=5)
    assert warned[0].filename == __file__
    main = pytest.importorskip("experiments.command_line").main
    words = f"model=custom model._target_={__name__}.Tilted model.dim=3 sampler=hmc step_size=.1 cycles=20"
    assert main([*words.split(), f"output={tmp_path}/run", "progress=false"]) == 0
    assert "the gradient of Tilted is not that of its U" in capsys.readouterr().out


class Rounded(Gaussian):
    """A Gaussian whose U is computed in float32, and cast to float64 when it is too late."""

    def potential(self, theta):
        return (theta.square().sum(-1) / 2).double()


class Precise(Gaussian):
    """A Gaussian whose precision matrix is float64 whatever θ is."""

    def gradient(self, theta, batch=None):
        return theta @ torch.eye(self.dim, dtype=torch.float64)


class Broken(Precise):
    def gradient(self, theta, batch=None):
        raise RuntimeError("a double fault")


def test_constants_that_do_not_go_with_theta_are_told():
    """One sentence says what to do; an error of another kind is the target's own."""
    options = {"step_size": 0.1, "cycles": 20, "chains": 5}
    with pytest.raises(
        SettingError, match=r"^target=Precise: computes with float64 .* constants are matrix\.to\(theta\)"
    ):
        sgmcmc.sample(Precise(3), "hmc", **options)
    assert sgmcmc.sample(Precise(3), "hmc", dtype="float64", **options).status == "done"
    with pytest.raises(RuntimeError, match="^a double fault$"):
        sgmcmc.sample(Broken(3), "hmc", **options)


class Walled(Gaussian):
    """A Gaussian, of which U is not a number from 1.5 on."""

    def potential(self, theta):
        return super().potential(theta) + torch.where(theta[:, 0] > 1.5, math.nan, 0.0)


@pytest.mark.thorough
def test_ends_that_are_not_finite_are_told(tmp_path):
    """They are rejected, and the chain is another target's."""
    options = {"step_size": 0.3, "cycles": 300, "chains": 20, "initial": torch.zeros(20, 1)}
    for folder in (None, tmp_path / "run"):
        with pytest.warns(UserWarning, match=r"^\d+ trajectories ended where U or theta is not finite: rejected$"):
            sgmcmc.sample(Walled(1), "hmc", folder=folder, **options)


class Noisy(Rounded):
    """Another U at each question."""

    def potential(self, theta):
        return super().potential(theta) + torch.rand(len(theta), dtype=torch.float64)


def test_a_random_u_is_not_told_to_be_rounded():
    with warnings.catch_warnings(record=True) as told, contextlib.suppress(sgmcmc.SettingError):
        warnings.simplefilter("always")
        sgmcmc.sample(Noisy(3), "hmc", step_size=0.1, cycles=20, chains=5)
    assert not [one for one in told if "rounded" in str(one.message)]


def test_a_u_that_is_cast_at_its_end_is_told(capsys, tmp_path):
    with pytest.warns(UserWarning, match="^U of Rounded is rounded to float32 on its way "):
        sgmcmc.sample(Rounded(3), "hmc", step_size=0.1, cycles=20, chains=5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sgmcmc.sample(Rounded(3), "hmc", step_size=0.1, cycles=20, chains=5, dtype="float64")
        sgmcmc.sample(Gaussian(3), "hmc", step_size=0.1, cycles=20, chains=5)
    main = pytest.importorskip("experiments.command_line").main
    words = f"model=custom model._target_={__name__}.Rounded model.dim=3 sampler=hmc step_size=.1 cycles=20"
    assert main([*words.split(), f"output={tmp_path}/run", "progress=false"]) == 0
    assert "warning: U of Rounded is rounded to float32 on its way" in capsys.readouterr().out


class Shapeless(WithoutStart):
    """A wrong gradient, of a shape that broadcasts."""

    def gradient(self, theta, batch=None):
        return 9 * theta[:, :1]


class ShapelessU(WithoutStart):
    def potential(self, theta):
        return theta.double().square()

    def gradient(self, theta, batch=None):
        return 9 * theta


@pytest.mark.parametrize("target", [Shapeless(), ShapelessU()])
def test_of_what_has_another_shape_the_gradient_is_not_doubted(target):
    """It is refused for its shape, which a word of the gradient before would hide."""
    assert wrong_gradient(target, torch.ones(5, 2)) is None
    with pytest.raises(SettingError, match="^shape of "):
        short(target, initial=torch.ones(5, 2))


class Narrow(WithoutStart):
    """log(1 + (θ/s)²) of a small scale s, beside a coordinate far from 0, and a large constant, summed in float32."""

    scale, constant = 1e-4, 0.0

    def potential(self, theta):
        away = theta.double() - theta.new_tensor([0.0, 2e5]).double()
        narrow = torch.log1p((away[:, 0] / self.scale) ** 2)
        return (self.constant + (narrow + away[:, 1] ** 2 / 2).float()).double()

    def gradient(self, theta, batch=None):
        away = theta.double() - theta.new_tensor([0.0, 2e5]).double()
        narrow = 2 * away[:, 0] / (self.scale**2 + away[:, 0] ** 2)
        return torch.stack((narrow, away[:, 1]), -1).to(theta)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("scale", "constant"), [(1e-4, 0.0), (1.0, 7e4), (1e-2, 1e3), (1e-9, 0.0)])
def test_a_right_gradient_is_not_told_whatever_the_scales(scale, constant, dtype, monkeypatch):
    monkeypatch.setattr(Narrow, "scale", scale)
    monkeypatch.setattr(Narrow, "constant", constant)
    assert wrong_gradient(Narrow(), torch.tensor([[scale, 2e5 + 1.0]] * 3, dtype=dtype)) is None


class Sloping(WithoutStart):
    """U = constant + θ; the gradient is that times a factor where θ is positive."""

    dim, factor, constant = 1, 2.0, 0.0

    def potential(self, theta):
        return self.constant + theta[:, 0].double()

    def gradient(self, theta, batch=None):
        return torch.where(theta > 0, self.factor, 1.0)


@pytest.mark.parametrize(("chains", "wrong", "told"), [(5, 2, False), (5, 3, True), (6, 3, False), (6, 4, True)])
def test_a_gradient_is_told_where_it_is_wrong_in_more_than_half_of_the_chains(chains, wrong, told):
    theta = torch.full((chains, 1), -1.0)
    theta[:wrong] = 1.0
    assert (wrong_gradient(Sloping(), theta) is not None) == told


@pytest.mark.parametrize(("known", "told"), [(2, False), (3, True)])
def test_chains_in_which_the_slope_is_not_known_do_not_count_as_wrong(known, told, monkeypatch):
    constant = torch.tensor([0.0] * known + [1e6] * (5 - known))
    monkeypatch.setattr(Sloping, "constant", constant)
    assert (wrong_gradient(Sloping(), torch.ones(5, 1)) is not None) == told
    near = torch.tensor([[2.0], [2.0], [1.008], [1.008], [2.0]])  # two are within a hundredth, the last is not known
    monkeypatch.setattr(Sloping, "factor", near)
    monkeypatch.setattr(Sloping, "constant", torch.tensor([0.0] * 4 + [1e6]))
    assert wrong_gradient(Sloping(), torch.ones(5, 1)) is None


class Signs(torch.nn.Module):
    """The straight-through estimator: signs, with the gradient of what they are of."""

    def forward(self, x):
        return x + (x.sign() - x).detach()


@pytest.mark.parametrize(
    ("middle", "told"),
    [([Signs()], True), ([torch.nn.Tanh()], False), ([torch.nn.ReLU(), torch.nn.BatchNorm1d(20)], False)],
)
def test_a_module_whose_gradient_is_not_its_logits_is_told(middle, told):
    """A chain that is not corrected would sample another law than that of the logits."""
    normal = sgmcmc.Random(3).normal("diagnostic", 0, 1, 30, 8)[0]
    module = torch.nn.Sequential(torch.nn.Linear(8, 20), *middle, torch.nn.Linear(20, 2))
    target = sgmcmc.NetworkPotential(module, sgmcmc.Dataset(normal, torch.arange(30) % 2, 2))
    said = [wrong_gradient(target, target.initial(1, sgmcmc.Random(seed))) for seed in range(20)]
    known = [why for why in said if why]
    assert len(known) > 5 if told else not known
    assert all(why.startswith("the gradient of Sequential is not that of its U") for why in known)


def test_a_distribution_that_raises_outside_of_its_support_is_refused_with_what_to_do():
    def given(**options):
        one = torch.distributions.LogNormal(0.0, 1.0, **options)
        return lambda theta: -one.log_prob(theta).sum()

    settings = {"dim": 2, "initial": torch.ones(3, 2), "step_size": 0.05}
    with pytest.raises(SettingError, match="raise outside of their support, .*: give them validate_args=False$"):
        short(given(validate_args=True), "hmc", **settings)
    assert short(given(validate_args=False), "hmc", **settings).accepted > 50


def test_a_function_whose_gradient_is_another_is_told():
    with pytest.warns(UserWarning, match="the gradient of FunctionPotential is not that of its U"):
        short(lambda theta: (theta.detach() * theta).sum(), dim=2)


def test_of_a_target_that_takes_one_chain_at_a_time_the_first_is_asked():
    class Alone(Sloping):
        together = False

        def potential(self, theta):
            assert len(theta) == 1
            return super().potential(theta)

    theta = torch.tensor([[1.0], [-1.0], [-1.0]])
    assert wrong_gradient(Alone(), theta) is not None and wrong_gradient(Alone(), -theta) is None


@pytest.mark.parametrize(("factor", "told"), [(1.008, False), (0.992, False), (1.012, True), (0.988, True)])
def test_a_gradient_may_be_off_by_a_hundredth(factor, told, monkeypatch):
    monkeypatch.setattr(Sloping, "factor", factor)
    assert (wrong_gradient(Sloping(), torch.ones(5, 1)) is not None) == told


@pytest.mark.parametrize(("constant", "told"), [(1400.0, True), (1e6, False)])
def test_a_wrong_gradient_is_told_where_float32_would_know_the_slope(constant, told, monkeypatch):
    """To about a hundredth in steps of .03, where U is 1,400; not at all where U is a million."""
    monkeypatch.setattr(Sloping, "constant", constant)
    assert (wrong_gradient(Sloping(), torch.ones(50, 1)) is not None) == told


def test_a_gradient_that_is_not_0_at_a_mode_is_told(monkeypatch):
    monkeypatch.setattr(WithoutStart, "gradient", lambda self, theta, batch=None: theta + 1)
    assert "the gradient of WithoutStart" in wrong_gradient(WithoutStart(), torch.zeros(5, 2))


def test_the_gradient_of_what_does_not_move_is_not_asked():
    """Of what Gibbs updates move a gradient may be anything."""

    class Mixed(WithoutStart):
        moves = torch.tensor([True, False])

        def gradient(self, theta, batch=None):
            return theta * torch.tensor([1.0, 7.0])

    assert wrong_gradient(Mixed(), torch.ones(5, 2)) is None
    Mixed.moves = torch.tensor([False, True])
    assert wrong_gradient(Mixed(), torch.ones(5, 2)) is not None


@pytest.mark.parametrize("factor", [1.0, 1.5, -1.0])
def test_a_gradient_far_from_zero_is_told_where_it_is_wrong(factor):
    """float32 holds θ there to 1/32: steps are no thirds of each other, and the smallest go nowhere."""

    class Far(WithoutStart):
        dim = 1

        def potential(self, theta):
            return (theta[:, 0].double() - 4e5).square() / 2

        def gradient(self, theta, batch=None):
            return factor * (theta - 4e5)

    told = wrong_gradient(Far(), torch.full((50, 1), 4e5 + 1))
    assert told is None if factor == 1 else "the gradient of Far is not that of its U" in told


class Saddle(WithoutStart):
    """A product of three weights: where all are 0 the gradient is, and differences are of the third order alone."""

    dim = 3

    def potential(self, theta):
        return theta.double().prod(-1) + theta.double().square().square().sum(-1)

    def gradient(self, theta, batch=None):
        return torch.stack([theta[:, [1, 2]].prod(-1), theta[:, [0, 2]].prod(-1), theta[:, [0, 1]].prod(-1)], -1)


def test_a_right_gradient_is_not_told_at_a_saddle():
    assert wrong_gradient(Saddle(), torch.zeros(3, 3)) is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradients_of_the_targets_are_their_u_s(name, dtype):
    target = made(name)
    assert wrong_gradient(target, target.initial(5, sgmcmc.Random(0)).to(dtype)) is None


class Line(WithoutStart):
    """A linear regression of one's own, a sum over 30 data; ``wrong`` names what of it is wrong."""

    dim, data_size, wrong = 2, 30, None
    x = torch.stack((torch.ones(30), torch.linspace(-1, 2, 30)), 1).double()
    y = x @ torch.tensor([1.0, -2.0]).double() + torch.linspace(-1, 1, 30).double() ** 3

    def losses(self, theta, batch):
        batch = batch[:1].expand_as(batch) if self.wrong == "beside" else batch
        terms = ((self.x[batch] @ theta.double()[:, :, None])[..., 0] - self.y[batch]).square() / 2
        terms = terms.mean(1, keepdim=True).expand_as(terms) if self.wrong == "datum" else terms
        return 1.1 * terms if self.wrong == "losses" else terms

    def prior(self, theta):
        return theta.double().square().sum(-1) / 2 - 7  # U is known but for a constant

    def potential(self, theta):
        return theta.double().square().sum(-1) / 2 + ((theta.double() @ self.x.T) - self.y).square().sum(-1) / 2

    def gradient(self, theta, batch=None):
        if self.wrong in ("mask", "set") and batch is not None:
            return torch.cat([self.once(*one) for one in zip(theta.split(1), batch, strict=True)])
        batch = torch.arange(30)[None] if batch is None else batch
        batch = batch[:1] if self.wrong == "chains" else batch
        away = (self.x[batch] @ theta.double()[:, :, None])[..., 0] - self.y[batch]
        times = 1 if self.wrong == "N/B" else 30 / batch.shape[1]
        slope = times * (away[..., None] * self.x[batch]).sum(1) + theta.double()
        slope = slope * (1 + 0.1 * torch.rand(1)) if self.wrong == "random" and batch.shape[1] < 30 else slope
        return (slope * times if self.wrong == "prior" else slope).to(theta)

    def once(self, theta, batch):
        """What is drawn twice is there once."""
        some = batch.unique()
        times = 30 / len(some if self.wrong == "set" else batch)
        return (theta + times * ((self.x[some] @ theta[0].double() - self.y[some]) @ self.x[some])).to(theta)

    def initial(self, chains, random):
        return random.normal("start", 0, 1, chains, 2, torch.float64)[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("acceptance", "wrong", "told"),
    [
        ("metropolis", None, None),
        ("barker_minibatch", None, None),
        ("metropolis", "N/B", "the gradients of Line from minibatches do not average to that of all data: N/B times"),
        ("metropolis", "prior", "the gradients of Line from minibatches do not average"),
        ("metropolis", "chains", "the gradients of Line from minibatches are others beside another chain: row c of"),
        (
            "metropolis",
            "mask",
            "the gradients of Line from minibatches do not count a datum twice that is drawn twice: a",
        ),
        (
            "metropolis",
            "set",
            "the gradients of Line from minibatches do not count a datum twice that is drawn twice: a",
        ),
        ("barker_minibatch", "losses", "prior and the sum of losses of Line are not its U"),
        ("barker_minibatch", "datum", "the losses of Line are others beside other data or chains: each of row c of a"),
        ("barker_minibatch", "beside", "the losses of Line are others beside other data or chains: each of row c of a"),
    ],
)
def test_parts_of_a_sum_over_data_that_do_not_make_the_whole_are_told(acceptance, wrong, told, dtype, monkeypatch):
    monkeypatch.setattr(Line, "wrong", wrong)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        settings = {"acceptance": acceptance, "step_size": 0.05, "batch_size": 10, "cycles": 4, "chains": 3}
        sgmcmc.sample(Line(), "ggmc", dtype=dtype, **settings)
    need = ["not exactly corrected: "] * (acceptance == "barker_minibatch") + ([told] if told else [])
    assert [str(one.message)[: len(begun)] for one, begun in zip(warned, need, strict=True)] == need


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda slope: slope.mean(0), r"shape of the gradient from a minibatch=[2]: must be [3, 2]: [chains, dim]"),
        (lambda slope: slope.sum(1, True), "shape of the gradient from a minibatch=[3, 1]: must be [3, 2]"),
        (
            lambda slope: slope.round().long(),
            "dtype of the gradient from a minibatch=int64: must be float32 or float64",
        ),
        (lambda slope: slope + 0j, "dtype of the gradient from a minibatch=complex64: must be float32 or float64"),
        (lambda slope: slope.to_sparse(), "type of gradient from a minibatch=sparse_coo: must be a torch.Tensor, and"),
        (lambda slope: None, "type of gradient from a minibatch=NoneType: must be a torch.Tensor, and a dense one"),
    ],
)
def test_a_minibatch_s_gradient_of_another_shape_or_kind_is_refused(made, said):
    """It broadcast over the chains, or was cast, and only an uncorrected chain's law would have shown it."""

    class Made(Line):
        def gradient(self, theta, batch=None):
            slope = super().gradient(theta, batch)
            return slope if batch is None else made(slope)

    with pytest.raises(SettingError) as error:
        sgmcmc.sample(Made(), "ggmc", step_size=0.05, batch_size=10, cycles=4, chains=3)
    assert str(error.value).startswith(said)


def test_a_theta_that_a_minibatch_s_gradient_changes_or_marks_is_known():
    class Changed(Line):
        def gradient(self, theta, batch=None):
            slope = super().gradient(theta, batch)
            return slope if batch is None else theta.mul_(2) * 0 + slope

    class Kept(Line):
        def gradient(self, theta, batch=None):
            theta.requires_grad_()
            (theta * super().gradient(theta, batch).detach()).sum().backward()
            return theta.grad  # which the next one would be added to, were it the same tensor

    settings = {"step_size": 0.05, "batch_size": 10, "cycles": 4, "chains": 3, "acceptance": "metropolis"}
    with pytest.raises(SettingError, match="^target=Changed: changes theta in place"):
        sgmcmc.sample(Changed(), "ggmc", **settings)
    with warnings.catch_warnings(action="error"):
        kept = sgmcmc.sample(Kept(), "ggmc", **settings)
        torch.testing.assert_close(kept.draws, sgmcmc.sample(Line(), "ggmc", **settings).draws)


def test_the_gradient_that_is_made_with_u_is_compared_with_the_other():
    class Both(Gaussian):
        def potential(self, theta):
            return super().potential(theta)

        def gradient(self, theta, batch=None):
            return super().gradient(theta, batch)

        def potential_and_gradient(self, theta):
            return self.potential(theta), 2 * self.gradient(theta)

    with pytest.warns(UserWarning, match="^the gradient of Both is another one by potential_and_gradient than by"):
        short(Both(2), "hmc")
    with warnings.catch_warnings(action="error"):
        short(Both(2))  # whose trajectories do not ask for it


@pytest.mark.parametrize("wrong", ["none", "twice", "one for all", None])
def test_noise_that_a_target_does_not_add_as_it_is_given_is_told(wrong):
    class Noisy(Gaussian):
        def gradient(self, theta, batch=None):
            slope = super().gradient(theta)
            if batch is None or wrong == "none":
                return slope
            return slope + {"twice": 2 * batch, "one for all": batch[:1], None: batch}[wrong]

    settings = {"chains": 3, "cycles": 4, "step_size": 0.1, "acceptance": "metropolis"}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        sgmcmc.sample(Noisy(2, noise=0.5), "ggmc", **settings)
    said = (
        "the gradient of Noisy with noise is not the exact one plus the noise that it is given: gradient(theta) + batch"
    )
    assert [str(one.message) for one in warned] == [said] * (wrong is not None)


def test_a_u_that_draws_random_numbers_is_told_however_little_they_change():
    class Drawn(WithoutStart):
        def __init__(self, seed):
            self.seed = seed

        def potential(self, theta):
            if self.seed is not None:
                torch.manual_seed(self.seed)
            return super().potential(theta) + 1e-9 * torch.rand((), dtype=torch.float64)

    before = torch.get_rng_state()
    try:
        with pytest.warns(
            UserWarning, match="^U of Drawn draws random numbers: if they change it, no decision is exact"
        ):
            short(Drawn(None), "hmc", initial=torch.ones(3, 2))
        with warnings.catch_warnings(action="error"):
            short(Drawn(0), "hmc", initial=torch.ones(3, 2))
    finally:
        torch.set_rng_state(before)


@pytest.mark.parametrize("mixed", [lambda u: u[:1].expand(len(u)), lambda u: u.mean().expand(len(u))])
@pytest.mark.parametrize("alike", [False, True])
def test_a_u_of_other_chains_is_known_without_a_gradient_and_where_all_start_alike(mixed, alike):
    class Mixed(WithoutStart):
        def potential(self, theta):
            return mixed(super().potential(theta))

    given = {"initial": torch.ones(3, 2) if alike else torch.arange(6.0).view(3, 2)}
    if alike:
        with pytest.warns(UserWarning, match="^U of Mixed is another one when it is asked again, or beside another"):
            short(Mixed(), "random_walk", **given)
    else:
        with pytest.raises(SettingError, match="^target=Mixed: gives the (first|last) chain another U"):
            short(Mixed(), "random_walk", **given)


def test_gradients_that_are_random_of_themselves_are_not_said_to_mix_chains(monkeypatch):
    # Two of the numbers of 24 bits must be within about 1e-7 of each other for a false alarm.
    theta = Line().initial(2, sgmcmc.Random(0))
    for wrong, mixed in (("random", False), ("chains", True)):
        monkeypatch.setattr(Line, "wrong", wrong)
        assert bool(_mixed_minibatches(Line(), theta, 10)) == mixed


@pytest.mark.parametrize("apart", ["noise", "others"])
def test_a_large_u_that_is_not_one_function_is_told(apart):
    """Where U is a million, what a decision is made of is a millionth of it."""

    class Large(WithoutStart):
        def potential(self, theta):
            more = torch.rand(len(theta), dtype=torch.float64) if apart == "noise" else theta.double().mean()
            return 1e6 + more + super().potential(theta)

    settings = {"initial": torch.arange(6.0).view(3, 2), "step_size": 0.1, "cycles": 2}
    with pytest.warns(UserWarning, match=r"^U of Large is another one when it is asked again, or beside another chain"):
        sgmcmc.sample(Large(), "hmc", **settings)
    with warnings.catch_warnings(action="error"):
        sgmcmc.sample(WithoutStart(), "hmc", **settings)


def test_a_schedule_of_ones_own_is_refused():
    class Falling(sgmcmc.Schedule):
        def factors(self, steps, trajectory):
            return [1 / (1 + step) for step in range(steps)]

    with pytest.raises(SettingError, match="^schedule=Falling: is a schedule of one's own, which need not read the"):
        short(sampler="hmc", schedule=Falling())


def test_the_views_of_the_data_are_parts_of_the_sum_too(monkeypatch):
    """Two of each datum: what is averaged over both, and a batch has rows of either."""

    class Views(Line):
        views = 2

        def gradient(self, theta, batch=None):
            batch = torch.arange(60)[None] if batch is None else batch
            weight = torch.where(batch < 30, 0.5, 1.5).to(theta)  # of what is averaged over the views
            away = (self.x[batch % 30] @ theta.double()[:, :, None])[..., 0] - self.y[batch % 30]
            slope = (weight * away)[..., None] * self.x[batch % 30]
            return (30 / batch.shape[1] * slope.sum(1) + theta.double()).to(theta)

    assert _wrong_minibatches(Views(), torch.tensor([[1.0, 2.0]]), 7) is None


@pytest.mark.parametrize(("off", "told"), [(5e-4, False), (2e-3, True), (-2e-3, True)])
def test_minibatches_may_be_off_by_a_thousandth(off, told):
    class Off(Line):
        def gradient(self, theta, batch=None):
            return super().gradient(theta, batch) * (1 if batch is None else 1 + off)

    assert (_wrong_minibatches(Off(), torch.tensor([[1.0, 2.0]]), 30) is not None) == told


def test_what_is_off_in_two_coordinates_is_told_though_it_adds_up_to_0():
    class Off(Line):
        def gradient(self, theta, batch=None):
            return super().gradient(theta, batch) + (0 if batch is None else torch.tensor([1.0, -1.0]))

    assert _wrong_minibatches(Off(), torch.tensor([[1.0, 2.0]]), 10) is not None


@pytest.mark.parametrize(("constant", "off", "told"), [(0.0, 5e-4, False), (0.0, 2e-3, True), (1e4, 0.5, False)])
def test_losses_may_be_off_by_a_thousandth_of_the_change_or_by_float32_s_rounding(constant, off, told):
    """float32 knows a U of 10,000 to a thousandth: as much as it changes in the step that is taken."""

    class Off(WithoutStart):
        dim, data_size = 1, 2

        def potential(self, theta):
            return constant + theta[:, 0].double()

        def prior(self, theta):
            return self.potential(theta) * 0

        def losses(self, theta, batch):
            return (constant + (1 + off) * theta.double()).expand(1, len(batch[0])) / 2

    assert (_wrong_losses(Off(), torch.zeros(1, 1, dtype=torch.float64), 1) is not None) == told


def test_the_full_gradient_alone_is_looked_at_where_no_minibatch_is_asked_for(monkeypatch):
    monkeypatch.setattr(Line, "wrong", "N/B")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sgmcmc.sample(Line(), "hmc", step_size=0.05, cycles=4)


@pytest.mark.parametrize("name", NAMES)
def test_the_minibatches_and_losses_of_the_targets_make_their_u(name):
    target = made(name)
    theta = target.initial(5, sgmcmc.Random(0)).to(torch.float32)
    if target.data_size > 1:
        assert all(_wrong_minibatches(target, theta[:1], batch) is None for batch in (1, 7, target.data_size))
    if hasattr(target, "losses"):
        assert _wrong_losses(target, theta[:1], 7) is None


@pytest.mark.parametrize(
    "word, gradient, epochs", [("OBABO", "minibatch", 2.0), ("BABOBAB", "minibatch", 4.0), ("OBABO", "full", 10.0)]
)
def test_a_network_of_ones_own_on_data_of_ones_own_counts_epochs(word, gradient, epochs):
    """10 steps with minibatches of 10 of 50 data are two epochs, of BABOBAB, which has two gradients a step, four."""
    data = sgmcmc.Dataset(torch.randn(50, 4), torch.arange(50) % 2, 2)
    target = sgmcmc.NetworkPotential(torch.nn.Linear(4, 2), data)
    size = {"batch_size": 10} if gradient == "minibatch" else {}
    settings = {"word": word, "gradient": gradient, "acceptance": "metropolis", "step_size": 0.01, **size}
    assert [row["epoch"] for row in sgmcmc.sample(target, cycles=3, **settings).rows] == [
        epochs,
        2 * epochs,
        3 * epochs,
    ]


def test_a_result_prints_as_a_line():
    result = short(chains=3)
    counts = f"cycles=20, chains=3, draws=[20, 3, 2], accepted={result.accepted}, proposed=60"
    assert repr(result) == f"Result(status='done', {counts})"
    assert repr(sgmcmc.Result("interrupted")).startswith("Result(status='interrupted', cycles=0, chains=0, draws=None")


@pytest.mark.thorough
def test_parts_of_the_package_need_no_import_of_their_own():
    code = "import sgmcmc; sgmcmc.potentials.Potential; sgmcmc.data.load; sgmcmc.diagnostics.ess; sgmcmc.Dataset"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'potential'"):
        sgmcmc.potential  # noqa: B018


def test_the_version_is_the_installed_one():
    assert sgmcmc.__version__ == importlib.metadata.version("sgmcmc")
