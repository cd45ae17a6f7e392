"""Compiled graphs: the same numbers as eagerly, to rounding; the same bits however a run is cut up; exact.

Compiling takes seconds, so one graph is used for many trajectories. In float64 a compiled trajectory and an eager one
differ by rounding alone: 1e-9 is ten thousand times that, and a billion times less than any mistake makes.
"""

import json
import os
import signal
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import LIMIT, FourParts
from test_chain import TIMES, Memory, leave, same_rows, same_state
from torch import nn

from experiments.build import build
from experiments.run import run as execute
from sgmcmc import certificate_statistics as statistics
from sgmcmc import certify
from sgmcmc.certificate_rows import Seed
from sgmcmc.chain import DONE, INTERRUPTED, Chain, run
from sgmcmc.compiled import Compiled, Normals, Segments, Words, compiles, pays, why_eager
from sgmcmc.data import Dataset
from sgmcmc.errors import SettingError
from sgmcmc.formats import read_status
from sgmcmc.inductor import CannotCompile, graph_of
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.models import FilterResponseNorm, normalisation
from sgmcmc.models.resnet import ResNet
from sgmcmc.plan import Plan
from sgmcmc.potentials.analytic import Banana, DoubleWell, FunctionPotential, Mixture, Quartic
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.potentials.regression import HierarchicalRegression, LinearRegression, LogisticRegression
from sgmcmc.precision import full_precision, products_in
from sgmcmc.random import Random
from sgmcmc.sampling import sample
from sgmcmc.schedules import Schedule
from sgmcmc.trajectory import run_trajectory, start

F64 = torch.float64


def compose(words):
    """``experiments.config.compose``; machines with a GPU need not have Hydra."""
    return pytest.importorskip("experiments.config").compose(words)


CLOSE = 1e-9
CHAINS = 21


def logistic():
    inputs = Random(1).normal("split", 0, 1, 24, 3, F64)[0]
    return LogisticRegression(Dataset(inputs, (inputs[:, 0] > 0.3).long(), 2))


def funnel(theta):
    return theta[0] ** 2 / 4 + (theta[1:] ** 2).sum() / 2 * torch.exp(-theta[0]) + theta[0]


EACH = torch.linspace(0.1, 0.4, CHAINS, dtype=F64)
BETA = Friction("beta", 0.25)
METROPOLIS = {"acceptance": "metropolis"}
CASES = {
    "amagold": (DoubleWell(1.0), "amagold", 0.25, {"friction": BETA}),
    "hmc on the banana": (Banana(), "hmc", 0.3, {}),
    "l2mc on the mixture, M": (
        Mixture(),
        "l2mc",
        0.3,
        {"friction": BETA, "mass": torch.tensor([2.5, 0.7], dtype=F64)},
    ),
    "monitored ggmc, a step size a chain": (Quartic(3, noise=1.0), "ggmc", EACH, {}),
    "sghmc": (Quartic(2, noise=1.0), "sghmc", 0.2, {}),
    "nonreversible": (Quartic(2), "nonreversible_langevin", 0.4, {"steps": 1, "alpha": 0.8}),
    "random walk": (Quartic(2), "random_walk", 0.8, {"steps": 1}),
    "baoab at T = .6": (Quartic(2, noise=1.0), "baoab", 0.3, {"temperature": 0.6} | METROPOLIS),
    "cosine": (Quartic(2), "ggmc", 0.5, {"schedule": Schedule("palindromic_cosine"), "gradient": "full"} | METROPOLIS),
    "stairs": (Quartic(2), "hmc", 0.5, {"schedule": Schedule("stairs", every=2, factor=0.5)}),
    "minibatches": (logistic(), "amagold", 0.05, {"friction": BETA, "batch_size": 5}),
    "exact ends": (FourParts(2), "ggmc", 0.2, {"ends": "exact", "batch_size": 1} | METROPOLIS),
    "whole epochs": (FourParts(2), "amagold", 0.2, {"minibatches": "shuffled", "batch_size": 1, "steps": 4}),
    "a function": (FunctionPotential(funnel, 3), "ggmc", 0.2, {"gradient": "full"} | METROPOLIS),
}
QUICK = ("amagold", "minibatches")


def make(case, **changes):
    target, sampler, step_size, settings = CASES[case]
    settings = {"steps": 3, "dtype": F64} | settings | changes
    return target, make_kernel(sampler, target, step_size, **settings)


def same(one, other, close=CLOSE):
    for name, value in vars(one).items():
        expected = getattr(other, name)
        if value is None:
            assert expected is None
        elif value.dtype == torch.bool:
            assert torch.equal(value, expected), name
        else:
            assert torch.allclose(value, expected, close, close, equal_nan=True), name


@pytest.mark.thorough
@pytest.mark.parametrize(
    "case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_a_compiled_trajectory_is_the_eager_one(case):
    target, kernel = make(case)
    random, chains = Random(4), range(7, 7 + CHAINS)
    state = start(kernel, target, target.initial(CHAINS, random), random, chains)
    compiled, moved = Compiled(run_trajectory), 0
    for index in (0, 1, 2, 5, 3_000_000):
        expected, record = run_trajectory(kernel, target, state, random, index, chains)
        new, compiled_record = compiled(kernel, target, state, random, index, chains)
        same(new, expected)
        same(compiled_record, record)
        state, moved = expected, moved + int(record.accepted.sum())
    assert 0 < moved
    if case == "stairs":
        return
    # Another step size, M or seed is another input of the same graph.
    changed = replace(kernel, step_size=kernel.step_size * 0.5, mass=kernel.mass * 2)
    if not isinstance(kernel.mass, torch.Tensor):
        changed = replace(changed, mass=kernel.mass)
    expected, _ = run_trajectory(changed, target, state, Random(5), 6, chains)
    same(compiled(changed, target, state, Random(5), 6, chains)[0], expected)


@pytest.mark.thorough
def test_words_are_those_of_their_place_in_blocks_of_any_length(monkeypatch):
    random, chains = Random(3), torch.tensor([4, 0, 9, 2**40])
    asked = [("noise", 0, range(2, 5), 3), ("decision", 1, range(1), 1), ("minibatch", 0, range(2), 3)]
    for words, by_coordinate in ((1, False), (100, False), (100, True)):
        monkeypatch.setattr("sgmcmc.compiled.WORDS", words)
        monkeypatch.setattr("sgmcmc.compiled.KEYS", 8)
        drawn = Words(random, asked, chains, by_coordinate)
        for index in (0, 1, 2, 3, 9, 17, 5, 2**31):
            given = drawn.of(index)
            for (stream, offset, steps, size), group, rows in drawn.places:
                expected = random.words(stream, index + offset, steps, chains, size)
                for mine, word in zip(given[2 * group : 2 * group + 2], expected, strict=True):
                    assert torch.equal(mine[rows].mT if by_coordinate else mine[rows], word)


@pytest.mark.slow
def test_the_words_of_many_runs_in_one_process_are_drawn():
    """Each kind of shapes is another compiling of one graph, of which PyTorch allows a process few."""
    with torch._dynamo.config.patch(recompile_limit=1):
        for chains, size in ((4, 2), (1, 2), (4, 1), (1, 1)):
            drawn = Words(Random(3), [("noise", 0, range(2), size)], torch.arange(chains), False)
            expected = Random(3).words("noise", 5, range(2), range(chains), size)
            assert all(torch.equal(*pair) for pair in zip(drawn.of(5), expected, strict=True))


def test_what_floats_are_computed_in_compiles_no_words_anew():
    """Another thread may set it at any time, also while they are compiled: what is guarded would fail there."""
    graphs = torch._dynamo.utils.counters["stats"]
    draw = partial(Words, Random(3), [("noise", 0, range(5), 7)], torch.arange(11), False)
    draw().of(0)
    made = graphs["unique_graphs"]
    with products_in("tf32"):
        draw().of(0)
        with full_precision():
            draw().of(0)
    assert made and graphs["unique_graphs"] == made


# ---- runs


def go(store, cycles=9, compile=True, case="amagold", **settings):
    target, kernel = make(case)
    plan = Plan(cycles, log_every=2, thin=2, save_every=1, compile=compile, **({"burn_in": 3} | settings))
    random = Random(8)
    return run(kernel, target, plan, random, CHAINS, lambda: target.initial(CHAINS, random), store=store)


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["amagold", pytest.param("l2mc on the mixture, M", marks=pytest.mark.slow)])
def test_a_compiled_run_ends_as_it_would_wherever_it_was_interrupted_and_keeps_being_compiled(case):
    whole = Memory()
    result = go(whole, case=case, tune=0.7)
    assert result.status == DONE and result.compiled and whole.state["compiled"]
    for die_after in (1, 4, 8):
        store = Memory(die_after)
        with pytest.raises(KeyboardInterrupt):
            go(store, case=case, tune=0.7)
        store.die_after = None
        again = go(store, compile=False, case=case, tune=0.7)  # what the run was begun as counts
        assert again.compiled
        for one, other in zip(store.draws, whole.draws, strict=True):
            assert torch.equal(one, other)
        for name, value in result.moments.items():
            assert torch.equal(torch.as_tensor(again.moments[name]), torch.as_tensor(value))
        assert torch.equal(again.accept_prob, result.accept_prob)
        for one, other in zip(store.rows, whole.rows, strict=True):
            assert {key: value for key, value in one.items() if key not in TIMES} == {
                key: value for key, value in other.items() if key not in TIMES
            }


def test_a_compiled_run_is_the_eager_one_to_rounding_and_its_trace_changes_nothing():
    compiled, eager, traced = Memory(), Memory(), Memory()
    one, other = go(compiled), go(eager, compile=False)
    go(traced, trace=1, trace_cycles=(2, 5))
    assert one.compiled and not other.compiled
    assert (one.accepted, one.proposed, one.cycles) == (other.accepted, other.proposed, other.cycles)
    assert torch.allclose(torch.stack(compiled.draws), torch.stack(eager.draws), CLOSE, CLOSE)
    assert all(torch.equal(*pair) for pair in zip(compiled.draws, traced.draws, strict=True)) and traced.trace
    for mine, theirs in zip(compiled.rows, eager.rows, strict=True):
        for name in set(mine) - set(TIMES):
            assert mine[name] == pytest.approx(theirs[name], rel=CLOSE, abs=CLOSE), name
    for name, value in one.moments.items():
        assert torch.allclose(torch.as_tensor(value), torch.as_tensor(other.moments[name]), CLOSE, CLOSE)
    assert torch.allclose(one.accept_prob, other.accept_prob, CLOSE, CLOSE) and (one.accept_prob > 0).all()


class Far(Quartic):
    """A target that says how far from the origin U was evaluated last."""

    def potential(self, theta):
        self.fit = {"distance": theta.double().norm(dim=-1)}
        return super().potential(theta)


@pytest.mark.thorough
def test_a_row_of_a_compiled_run_has_the_fit_of_its_states():
    target = Far(dim=2)
    kernel = make_kernel("hmc", target, 0.5, steps=2, dtype=F64)
    random = Random(3)
    result = run(
        kernel, target, Plan(12, log_every=4, compile=True), random, 5, lambda: target.initial(5, random).to(F64)
    )
    assert result.compiled and len({row["distance"] for row in result.rows}) == 3
    for row in result.rows:
        now = result.draws[row["cycle"] - 1].norm(dim=-1).mean()
        assert row["distance"] == pytest.approx(float(now), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("acceptance", ["monitor", "metropolis"])
def test_divergence_is_the_same_result(acceptance):
    target = Quartic(2, noise=1.0)
    step_size = torch.cat([torch.full((9,), 0.1), torch.full((4,), 1e3)])
    kernel = make_kernel("ggmc", target, step_size, steps=4, acceptance=acceptance, dtype=F64)
    results, random = [], Random(8)
    for compile in (True, False):
        plan = Plan(5, log_every=5, compile=compile)
        results.append(run(kernel, target, plan, random, 13, lambda: target.initial(13, random)))
    compiled, eager = results
    assert compiled.compiled and compiled.frozen == eager.frozen == (list(range(9, 13)) * (acceptance == "monitor"))
    assert torch.allclose(compiled.draws, eager.draws, CLOSE, CLOSE)
    for name in set(eager.rows[0]) - set(TIMES):
        assert compiled.rows[0][name] == pytest.approx(eager.rows[0][name], rel=CLOSE, abs=CLOSE), name


class Branching(Quartic):
    """A gradient that looks at a value."""

    def gradient(self, theta, batch=None):
        return super().gradient(theta, batch) if float(theta.sum()) < 1e9 else theta


def test_what_cannot_be_compiled_runs_eagerly_and_says_so():
    target = Branching(2)
    kernel = make_kernel("hmc", target, 0.3, steps=2)
    results = []
    for compile in (True, False):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            plan, random = Plan(4, compile=compile), Random(8)
            results.append(run(kernel, target, plan, random, 3, lambda: target.initial(3, random).float()))  # noqa: B023
        assert ["the run is not compiled" in str(warning.message) for warning in said] == [True] * compile
    assert not results[0].compiled and torch.equal(results[0].draws, results[1].draws)


def test_without_a_compiler_a_run_is_eager(monkeypatch):
    def no_compiler(*_, **__):
        raise RuntimeError(said)

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", no_compiler)
    said = "no working C++ compiler found\nin these places: …"
    with pytest.warns(UserWarning, match="the run is not compiled: no working C\\+\\+ compiler found$"):
        assert not go(Memory()).compiled
    lacks = "a.cpp:2:10: fatal error: omp.h: No such file or directory"
    said = f"CppCompileError: C++ compile error\n\nCommand:\ng++ a.cpp\n\nOutput:\nIn file a.h:3:\n{lacks}\n#include\n"
    with pytest.warns(UserWarning, match=f"the run is not compiled: {lacks}$"):
        assert not go(Memory()).compiled


@pytest.mark.thorough
@pytest.mark.parametrize("broken", [{"CXX": "/bin/false"}, {"TORCHINDUCTOR_CACHE_DIR": "/proc/nowhere"}])
def test_without_a_compiler_that_works_or_a_cache_for_it_a_process_goes_on_eagerly(tmp_path, broken):
    words = "model=double_well sampler=hmc step_size=.3 chains=3 cycles=20 compile=true progress=false output=run"
    there = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "empty")} | broken
    command = [sys.executable, Path(__file__).parents[1] / "run.py", *words.split()]
    done = subprocess.run(command, cwd=tmp_path, env=there, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "the run is not compiled: " in done.stdout


@pytest.mark.thorough
def test_threads_compile_one_after_the_other():
    """Else what Inductor has set for one would be gone for another, which would go on eagerly, by chance."""

    def compiled(seed):
        return sample(Quartic(2), "hmc", step_size=0.1 + seed / 100, steps=2 + seed, cycles=3, compile=True).compiled

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(compiled, range(4))) == [True] * 4


@pytest.mark.thorough
def test_a_compiled_run_that_goes_on_without_a_compiler_for_a_while_is_compiled_again():
    """A machine without one, or a day on which it fails, does not make a run eager for good."""

    def no_compiler(*_, **__):
        raise RuntimeError("no working C++ compiler found")

    store = Memory()
    assert go(store, cycles=3).compiled
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("torch._inductor.compile_fx.compile_fx", no_compiler)
        with pytest.warns(UserWarning, match="the run is not compiled: "):
            assert not go(store, cycles=6).compiled
        eager = Memory()
        with pytest.warns(UserWarning, match="the run is not compiled: "):
            go(eager, cycles=3)
    assert go(store, cycles=9).compiled and not go(eager, cycles=9).compiled  # begun so


def test_a_run_that_is_left_while_it_compiles_is_compiled_when_it_goes_on():
    """What Inductor raises in a signal's place is no reason to be eager."""

    def left(*_, **__):
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            raise RuntimeError("clean-up")

    store = Memory()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("torch._inductor.compile_fx.compile_fx", left)
        assert go(store, cycles=3).status == INTERRUPTED
    assert go(store, cycles=3).compiled


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_waits_for_a_graph_and_a_second_one_does_not(monkeypatch, times):
    """What is imported and compiled for the first time fails in this process for good where it is left half done."""
    from torch._inductor.compile_fx import compile_fx

    compiled = []

    def press(*inputs, **settings):
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        compiled.append(times)
        return compile_fx(*inputs, **settings)

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", press)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            graph_of(lambda one: [one + 1], [torch.ones(2)])
    finally:
        signal.signal(signal.SIGINT, before)
    assert compiled == [1] * (times == 1)


@pytest.mark.thorough
def test_a_run_that_is_to_be_no_slower_is_left_where_it_cannot_be_compiled(tmp_path, monkeypatch, capsys):
    def no_compiler(*_, **__):
        raise RuntimeError("no working C++ compiler found")

    words = ["model=double_well", "sampler=hmc", "step_size=0.3", "steps_per_cycle=2", "chains=5", "progress=false"]
    words += [f"output={tmp_path}/run", "compile=true"]
    assert execute(compose([*words, "cycles=20"]), no_slower=True) == 0
    with monkeypatch.context() as patched:
        patched.setattr("torch._inductor.compile_fx.compile_fx", no_compiler)
        with pytest.raises(CannotCompile, match="the run is not compiled: no working"):
            execute(compose([*words, "cycles=30"]), no_slower=True)
        assert read_status(tmp_path / "run")["cycles"] == 20
    assert execute(compose([*words, "cycles=30"]), no_slower=True) == 0
    status = read_status(tmp_path / "run")
    assert (status["state"], status["cycles"], status["compiled"]) == ("done", 30, True)


def test_reasons_to_run_eagerly():
    reasons = {
        "Gibbs": (HierarchicalRegression(), "hmc", {}),
        "random direction": (Quartic(2), "hmc", {"schedule": Schedule("cosine", "random")}),
        "shuffled": (FourParts(2), "amagold", {"minibatches": "shuffled", "batch_size": 1, "steps": 2}),
    }
    for reason, (target, sampler, settings) in reasons.items():
        kernel = make_kernel(sampler, target, 0.1, **({"steps": 3, "batch_size": 1} | settings))
        assert reason in why_eager(kernel, target)
        with pytest.raises(CannotCompile, match=reason):
            Compiled(run_trajectory).prepare(kernel, target, None, Random(0), 0, range(2))
    inputs = Random(1).normal("split", 0, 1, 9, 2, F64)[0]
    alone = type("Alone", (HierarchicalRegression,), {"together": False})()
    assert why_eager(make_kernel("hmc", Quartic(2), 0.1), Quartic(2)) is None
    assert "length is tuned" in why_eager(make_kernel("hmc", Quartic(2), 0.1), Quartic(2), tuned=True)
    random = make_kernel("hmc", alone, 0.1, schedule=Schedule("cosine", "random"), gradient="full")
    assert why_eager(random, alone) is None
    assert why_eager(make_kernel("hmc", LinearRegression(inputs, inputs[:, 0]), 0.1), Quartic(2)) is None


def test_chains_that_go_in_several_tensors_are_not_compiled():
    class Few(Quartic):
        chains_at_once = 2

    target, kernel = Few(2), make_kernel("hmc", Few(2), 0.1, steps=3)
    assert compiles(True, kernel, target, 2, 10) and not compiles("auto", kernel, target, 3, 10**6)
    with pytest.raises(SettingError, match="compile=true: chains that go in 3 tensors .chains_at_once. are"):
        compiles(True, kernel, target, 5, 10)
    chain, told = Chain(kernel, target, Plan(cycles=4, compile=True), Random(1), 5, lambda: torch.zeros(5, 2)), []
    chain.begin()
    chain.compile(told.append)
    chain.advance()
    assert not chain.compiled and len(told) == 1 and "chains_at_once" in told[0] and len(chain.states) == 3


def test_long_runs_of_short_trajectories_are_worth_compiling():
    kernel = make_kernel("hmc", Quartic(2), 0.1, steps=10)
    target = Quartic(1)
    assert pays(kernel, target, 200, 100_000) and not pays(kernel, target, 200, 1000)
    assert not pays(replace(kernel, steps=1000), target, 200, 100_000)


@pytest.mark.slow
@pytest.mark.parametrize("label", ["amagold", "ggmc metropolis", "nonreversible_langevin"])
def test_moments_stay_over_twenty_compiled_decisions(label):
    """In float32: in float64 compiled trajectories are held to the eager ones, whose moments stay, closely."""
    (row,) = [row for row in certify.design() if row.label == label]
    for name in row.targets:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # that it is not compiled
            cells = statistics.invariance(replace(row, compiled=True), name, torch.float32, 100_000, Seed(2, 0))
            assert all(abs(cell.z) < LIMIT for cell in cells)


@pytest.mark.thorough
def test_whether_it_is_compiled_is_said_recorded_and_kept(tmp_path, capsys):
    words = ["model=double_well", "sampler=hmc", "step_size=0.3", "steps_per_cycle=2", "chains=5", "progress=false"]
    words += [f"output={tmp_path}/run"]
    assert execute(compose([*words, "cycles=20", "compile=true"])) == 0
    assert "compiled: " in capsys.readouterr().out
    assert json.loads((tmp_path / "run/status.json").read_text())["compiled"] is True
    assert execute(compose([*words, "cycles=30", "compile=false"])) == 0
    assert "the run was begun compiled, and stays so" in capsys.readouterr().out
    assert json.loads((tmp_path / "run/status.json").read_text())["compiled"] is True


def test_auto_compiles_what_is_long_enough():
    words = ["model=double_well", "sampler=hmc", "step_size=0.3", "chains=200"]
    long, short, none = "cycles=1000000", "cycles=1000", "cycles=1000000 compile=false"
    assert [build(compose([*words, *more.split()])).plan.compile for more in (long, short, none)] == [
        True,
        False,
        False,
    ]
    with pytest.raises(SettingError, match="compile=true: Gibbs updates"):
        build(compose(["model=hierarchical_regression", "sampler=hmc", "step_size=0.1", "compile=true"]))


# ---- networks, by segments


def small(dtype=F64):
    """Two layers with filter response normalisation, 37 images of 6×6 pixels."""
    images = Random(1).normal("split", 0, 37, 6, 6, F64)[:, None]
    data = Dataset(images.to(dtype), torch.arange(37) % 3 % 2, 2)
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 3, 3), FilterResponseNorm(3), nn.Conv2d(3, 3, 2), FilterResponseNorm(3, threshold=False)]
    target = NetworkPotential(
        nn.Sequential(*layers, nn.Flatten(), nn.Linear(27, 2)), data, dtype=dtype, evaluation_batch=10
    )
    target.flat.resting += 0.3 * Random(2).normal("start", 1, 1, 1, target.dim, dtype)[0, 0]
    return target


FAST = ("ggmc", "word BOAOB")
NETWORKS = {
    "ggmc": ("ggmc", {}),
    "exact ends, M": ("ggmc", {"ends": "exact", "mass": True}),
    "cosine at random": ("ggmc", {"schedule": Schedule("cosine", "random"), "refresh": "partial", "alpha": 0.5}),
    "amagold": ("amagold", {"friction": Friction("beta", 0.5), "temperature": 0.6}),
    "sghmc": ("sghmc", {}),
    "word OBAB": ("ggmc", {"word": "OBAB"}),
    # More than one O between two gradients, each with its own noise.
    "word OBAB, fresh": ("ggmc", {"word": "OBAB", "refresh": "full"}),
    "word BOAOB": ("ggmc", {"word": "BOAOB"}),
    "word AOBOA": ("ggmc", {"word": "AOBOA"}),
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "case", [case if case in FAST else pytest.param(case, marks=pytest.mark.slow) for case in NETWORKS]
)
def test_a_network_s_compiled_trajectory_is_the_eager_one(case):
    sampler, settings = NETWORKS[case]
    eager, compiled = small(), small()
    if settings.get("mass"):
        settings = settings | {"mass": torch.linspace(0.5, 2, eager.dim, dtype=F64)}
    kernel = make_kernel(sampler, eager, 0.05, **({"steps": 4, "batch_size": 10, "dtype": F64} | settings))
    compiled.compile_layers(10)
    random, chains = Random(4), range(3, 4)
    normals, move = Normals(random), Segments()
    move.prepare(kernel, compiled, F64, normals)
    state = start(kernel, eager, eager.initial(chains, random), random, chains)
    for index in (0, 1, 5, 3_000_000):
        expected, record = run_trajectory(kernel, eager, state, random, index, chains)
        new, compiled_record = run_trajectory(kernel, compiled, state, normals, index, chains, segment=move)
        same(new, expected)
        same(compiled_record, record)
        state = replace(expected, gradient=state.gradient if expected.gradient is None else expected.gradient)
    assert case == "sghmc" or float(record.delta_kinetic.abs()) > 1e-3  # the letter E has no energy
    graphs = dict(move._graphs)
    changed = replace(kernel, step_size=0.02)
    run_trajectory(changed, compiled, state, Normals(Random(5)), 6, range(8, 9), segment=move)
    assert move._graphs == graphs  # another step size, seed or chain is another input


def test_compiled_layers_are_the_eager_ones_in_batches_of_any_size():
    """37 data in batches of 10 leave seven over, which are filled up; gradients to rounding, in float32 as well."""
    eager, compiled = small(), small()
    compiled.compile_layers(10)
    theta = eager.initial(1, Random(1))
    inputs = eager.train.inputs
    for index in (torch.arange(10)[None], torch.arange(4)[None], None):
        torch.testing.assert_close(
            compiled.gradient(theta, index), eager.gradient(theta, index), rtol=CLOSE, atol=CLOSE
        )
    torch.testing.assert_close(compiled.potential(theta), eager.potential(theta), rtol=1e-13, atol=0)
    torch.testing.assert_close(compiled.predict(theta, inputs[:33]), eager.predict(theta, inputs[:33]))
    single = small(torch.float32)
    single.compile_layers(10)
    exact, gradient = eager.potential_and_gradient(theta.float().double())
    value, slope = single.potential_and_gradient(theta.float())
    assert float(value - exact) == pytest.approx(0, abs=37 * 1e-6)  # of each datum's NLL, float32's rounding
    assert float((slope - gradient).abs().max()) < 1e-5 * float(gradient.abs().max())


@pytest.mark.thorough
def test_a_compiled_network_s_run_is_left_and_gone_on_with_to_the_bit_and_its_trace_changes_nothing():
    whole, broken, eager = Memory(), Memory(), Memory()
    name = "shuffled and traced"
    result, wanted = leave(name, whole, compile=True)
    assert result.compiled and whole.state["compiled"]
    for at in (4, 6, 2):  # in the first trajectory, in others, and before anything was done
        stopped, _ = leave(name, broken, at=at, compile=True)
        assert stopped.status == INTERRUPTED and broken.state["unfinished"]
    assert leave(name, broken)[0].compiled  # what the run was begun as counts
    assert all(torch.equal(*pair) for pair in zip(whole.draws, broken.draws, strict=True))
    same_rows(whole.rows, broken.rows)
    same_rows(whole.trace, broken.trace)
    same_state(whole.state, broken.state)
    untraced = Memory()
    leave(name, untraced, compile=True, trace=None)
    assert all(torch.equal(*pair) for pair in zip(whole.draws, untraced.draws, strict=True))
    assert not leave(name, eager)[0].compiled
    for mine, theirs in ((whole.rows, eager.rows), (whole.trace, eager.trace)):
        for one, other in zip(mine, theirs, strict=True):
            for key in one.keys() - set(TIMES):
                assert one[key] == pytest.approx(other[key], rel=CLOSE, abs=CLOSE, nan_ok=True), key


def test_a_network_without_a_compiler_is_eager(monkeypatch):
    def no_compiler(*_, **__):
        raise RuntimeError("no working C++ compiler found")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", no_compiler)
    with pytest.warns(UserWarning, match="the run is not compiled: no working C\\+\\+ compiler found$"):
        assert not leave("full refresh", Memory(), compile=True)[0].compiled
    target = small()
    monkeypatch.setattr("sgmcmc.models.normalisation._graphs", {})
    with pytest.raises(CannotCompile, match="^no working C\\+\\+ compiler found$"):
        target.compile_layers(10)
    assert not target.flat.sizes and bool(target.gradient(target.flat.resting[None]).isfinite().all())


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["_respond", "_respond_backward"])
def test_layers_that_are_compiled_wrongly_stay_eager(name, monkeypatch):
    """Whatever compiles them: a value, or a gradient by one of the parameters, that is another."""
    monkeypatch.setattr("sgmcmc.models.normalisation._graphs", {})
    right = getattr(normalisation, name)

    def wrong(*inputs):
        *others, last = right(*inputs)
        return [others[0] * 1.01, *others[1:], last] if name == "_respond" else [*others, 1.6 * last]

    monkeypatch.setattr(normalisation, name, wrong)
    target = small()
    with pytest.raises(CannotCompile, match="^compiled layers of Sequential give other numbers than eager ones$"):
        target.compile_layers(10)
    assert not target.flat.sizes and not any(
        one.compiled for one in target.model if isinstance(one, FilterResponseNorm)
    )
    assert torch.equal(target.flat.position, target.flat.resting)
    kernel = make_kernel("ggmc", target, 0.05, steps=4, batch_size=10, dtype=F64)
    plan = Plan(1, compile=True)
    with pytest.warns(UserWarning, match="the run is not compiled: compiled layers of Sequential give other numbers"):
        result = run(kernel, target, plan, Random(4), 1, lambda: target.initial(1, Random(4)), None, Memory())
    assert not result.compiled


def test_layers_in_bf16_are_compiled_whatever_their_rounding(monkeypatch):
    """Gradients by a deep network in bf16 are off by as much as they are: only what is off by more tells."""
    factor = 1.0

    def graph(function, inputs):  # which rounds where the compiler does, at the end alone
        def call(*given):
            *others, last = [one.to(given[0].dtype) for one in function(*(one.double() for one in given))]
            return [*others, last * factor if function is normalisation._respond_backward else last.float()]

        return call

    monkeypatch.setattr(normalisation, "_graph", graph)
    images = torch.randn(12, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    torch.manual_seed(0)
    target = NetworkPotential(ResNet(56), Dataset(images, torch.arange(12) % 10, 10), evaluation_batch=4)
    with torch.autocast("cpu", torch.bfloat16):
        target.compile_layers(4)
        factor = 10.0
        with pytest.raises(CannotCompile, match="other numbers than eager ones"):
            target.compile_layers(4)


def test_each_graph_of_steps_is_looked_at_once(monkeypatch):
    """A cycle of epochs has thousands of steps, of a few kinds of letters."""
    looked, target = [], small()
    monkeypatch.setattr("sgmcmc.compiled.graph_of", lambda function, *_: function)
    monkeypatch.setattr("sgmcmc.compiled.close", lambda *two: looked.append(two) or True)
    monkeypatch.setattr(Normals, "prepare", lambda self, steps, **_: steps)
    kernel, made = make_kernel("ggmc", target, 0.05, steps=40, batch_size=10, dtype=F64), Segments()
    made.prepare(kernel, target, F64, Normals(Random(4)))
    assert len(looked) == 3 * len(made._graphs) < 3 * 10


@pytest.mark.parametrize("what", ["coordinates", "energy", "normals"])
def test_steps_that_are_compiled_wrongly_stay_eager(what, monkeypatch):
    """A part of a hundred is seen: of θ and m, of ΣΔK though the steps are small, of the random numbers."""

    def wrong(function, inputs, *settings):
        graph = graph_of(function, inputs, *settings)
        if (len(inputs) == 2) != (what == "normals"):
            return graph
        return lambda *given: [one * 1.01 if (one.ndim == 1) == (what == "energy") else one for one in graph(*given)]

    monkeypatch.setattr("sgmcmc.compiled.graph_of", wrong)
    target = small()
    kernel = make_kernel("ggmc", target, 1e-4, steps=4, batch_size=10, dtype=F64)
    said = "random numbers are others" if what == "normals" else "steps give other numbers"
    with pytest.raises(CannotCompile, match=f"^compiled {said} than eager ones$"):
        Segments().prepare(kernel, target, F64, Normals(Random(4)))


def test_networks_are_compiled_where_that_saves_more_than_it_costs():
    """ResNet-20 on CIFAR-10 takes a second to save what a minute's compiling costs in some hundred steps."""
    target = small()
    kernel = make_kernel("ggmc", target, 0.1, steps=400, batch_size=10)
    assert target.normalised() == (3 * 16 + 3 * 9, 2)
    target.normalised = lambda: (200_704, 6)
    assert pays(kernel, target, 1, 100) and not pays(kernel, target, 1, 1)
    # A GPU does what is saved in a fortieth of the time.
    on_gpu = SimpleNamespace(dim=target.dim, data_size=target.data_size, device=torch.device("cuda"), together=False)
    on_gpu.normalised = target.normalised
    assert pays(kernel, on_gpu, 1, 4000) and not pays(kernel, on_gpu, 1, 100)
