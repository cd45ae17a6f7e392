"""A run of many cycles: what an interruption, a longer plan, a divergence or an adaptation does to it, to the bit."""

import math
import os
import signal
from dataclasses import replace

import pytest
import torch
from conftest import LIMIT, FourParts, refusal, z_score

from sgmcmc.chain import DIVERGED, DONE, INTERRUPTED, Chain, Result, run
from sgmcmc.checks import check_same_target
from sgmcmc.data import Dataset, load
from sgmcmc.errors import SettingError
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.ladder import Ladder, lengths
from sgmcmc.loading import load_metrics, load_samples, load_trace
from sgmcmc.measured import MASS_BATCHES, temperatures
from sgmcmc.models import MLP
from sgmcmc.plan import Plan
from sgmcmc.potentials import own_method
from sgmcmc.potentials.analytic import Gaussian, Quartic
from sgmcmc.potentials.location import LocationMixture
from sgmcmc.potentials.mixed import MixedBinary
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.potentials.regression import GeneratedLogistic, HierarchicalRegression, LinearRegression
from sgmcmc.progress import AT_ONCE, SUMS, Unwritten
from sgmcmc.random import Random
from sgmcmc.samplers import custom
from sgmcmc.sampling import sample
from sgmcmc.schedules import Schedule
from sgmcmc.store import RunFolder
from sgmcmc.trajectory import Place, _full_at, run_trajectory, start

F64 = torch.float64
TIMES = ("seconds", "steps_per_second")


class Memory:
    """A store that keeps what it is given, and gives back the last block's state."""

    def __init__(self, die_after=None):
        self.rows, self.draws, self.trace, self.state, self.blocks = [], [], [], None, 0
        self.die_after = die_after

    def load(self):
        return self.state

    def commit(self, rows, draws, state, trace_rows=None, keep="all"):
        if self.die_after is not None and self.blocks >= self.die_after:
            raise KeyboardInterrupt("killed")
        self.rows += rows
        self.draws += [] if draws is None else list(draws)
        self.trace += trace_rows or []
        self.state, self.blocks = copied(state), self.blocks + 1


def copied(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: copied(one) for key, one in value.items()}
    return type(value)(map(copied, value)) if isinstance(value, list | tuple) else value


def small_network(kind=NetworkPotential, **settings):
    data = Dataset(Random(1).normal("split", 0, 1, 12, 3, F64)[0], torch.arange(12) % 3 % 2, 2)
    torch.manual_seed(0)  # the parameters that the module is made with
    return kind(MLP(3, (4,), 2), data, prior="unit", dtype=F64, **settings), data


def network_case(together=False, **settings):
    target, data = small_network(together=together)
    kernel = make_kernel(
        "ggmc",
        target,
        0.1,
        steps=4,
        batch_size=3,
        minibatches="shuffled",
        acceptance="metropolis",
        dtype=F64,
        **settings,
    )
    return target, kernel, {"test": (data.inputs.float(), data.targets), "ood": (data.inputs.float() + 3, None)}


CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


@case
def ggmc_with_runs_of_batches():
    kernel = make_kernel(
        "ggmc", FourParts(2), 0.2, steps=1, batch_size=1, minibatches="shuffled", acceptance="metropolis"
    )
    return FourParts(2), kernel, {}, Plan(9, burn_in=3, thin=2, log_every=2, save_every=1)


@case
def nonreversible_with_tuning_for_each_chain():
    kernel = make_kernel("nonreversible_langevin", Quartic(2), [0.3, 0.5, 0.9])
    return Quartic(2), kernel, {}, Plan(9, burn_in=5, tune=0.8, save_every=2)


@case
def hmc_with_a_mass_and_a_random_direction():
    target = Gaussian(covariance=[1.0, 9.0], noise=0.5)
    schedule = Schedule("cosine", direction="random")
    kernel = make_kernel("ggmc", target, 0.4, steps=3, schedule=schedule, acceptance="metropolis")
    return target, kernel, {}, Plan(9, burn_in=4, tune=0.7, estimate_mass=True, save_every=3, log_every=4)


@case
def networks_one_after_the_other():
    target, kernel, predictions = network_case()
    return target, kernel, predictions, Plan(6, burn_in=2, save_every=1, trace=2, trace_cycles=(1, 5))


@case
def networks_together():
    target, kernel, predictions = network_case(together=True)
    return target, kernel, predictions, Plan(6, burn_in=2, save_every=1, trace=2, trace_cycles=(1, 5))


@case
def regression_with_gibbs():
    target = HierarchicalRegression()
    kernel = make_kernel("persistent_langevin", target, 0.05)
    return target, kernel, {}, Plan(8, save_every=2, log_every=3)


@case
def stairs():
    kernel = make_kernel("ggmc", Quartic(2, noise=1.0), 0.5, steps=2, schedule=Schedule("stairs", every=2, factor=0.5))
    return Quartic(2, noise=1.0), kernel, {}, Plan(7, save_every=2)


def go(name, store=None, cycles=None, seed=1, chains=3, report=None, **changes):
    target, kernel, predictions, plan = CASES[name]()
    plan = replace(plan, cycles=cycles or plan.cycles, **changes)
    random = Random(seed)

    def initial():
        dtype = F64 if "network" in name else torch.float32
        return target.initial(chains, random).to(dtype)

    return run(kernel, target, plan, random, chains, initial, predictions, store, report)


def timeless(rows):
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]


def same_rows(one, other):
    assert len(one) == len(other)
    for left, right in zip(timeless(one), timeless(other), strict=True):
        assert left.keys() == right.keys()
        for key in left:
            assert left[key] == right[key] or (math.isnan(left[key]) and math.isnan(right[key])), key


def same_state(one, other):
    """Two checkpoints, but for the seconds that were spent."""
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one.keys() - {"seconds", "row_start"}:
            same_state(one[key], other[key])
    elif isinstance(one, list | tuple):
        for left, right in zip(one, other, strict=True):
            same_state(left, right)
    else:
        assert one == other


def same(one: Memory, other: Memory):
    assert len(one.draws) == len(other.draws)
    assert all(torch.equal(left, right) for left, right in zip(one.draws, other.draws, strict=True))
    same_rows(one.rows, other.rows)
    same_rows(one.trace, other.trace)
    same_state(one.state, other.state)


# ---- resuming


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_killed_after_any_block_it_ends_as_the_uninterrupted_run(name):
    """Killed again after every single block, so also several times: draws, rows, trace and last checkpoint."""
    whole = Memory()
    assert go(name, whole).status == DONE
    broken, kills, status = Memory(), 0, None
    while status != DONE and kills < 20:
        broken.die_after = broken.blocks + 1
        try:
            status = go(name, broken).status
        except KeyboardInterrupt:
            kills += 1
    assert status == DONE and kills > 2
    same(whole, broken)


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_signalled_in_any_cycle_it_ends_as_the_uninterrupted_run(name):
    """SIGTERM after each of the cycles: what is complete is written, status interrupted, and the rest follows."""
    whole = Memory()
    cycles = go(name, whole).cycles
    broken = Memory()
    for cycle in range(1, cycles):
        result = go(
            name,
            broken,
            report=lambda chain, row, cycle=cycle: chain.cycle == cycle and os.kill(os.getpid(), signal.SIGTERM),
        )
        assert (result.status, result.cycles) == (INTERRUPTED, cycle)
        assert broken.state["cycle"] == cycle
    assert go(name, broken).status == DONE
    same(whole, broken)


# A trajectory left between two of its gradients. name: (sampler, what its kernel is given, what its plan is given)
LEFT = {
    "shuffled and traced": ("ggmc", {"minibatches": "shuffled"}, {"trace": 1}),
    "two gradients a step, traced": ("hmc", {"word": "BABOBAB"}, {"trace": 1}),
    "random direction": ("ggmc", {"schedule": Schedule("cosine", direction="random")}, {}),
    "exact ends": ("ggmc", {"ends": "exact"}, {}),
    "a leading O": ("ggmc", {"word": "OBAB"}, {"tune": 0.7, "estimate_mass": True}),
    "full refresh": ("amagold", {"friction": Friction("beta", 1.0)}, {"thin": 2, "save_every": 2}),
    "full gradients": ("hmc", {"gradient": "full", "batch_size": None}, {}),
}


def leave(name, store, at=None, **changes):
    """Three cycles of two small networks, with a signal in evaluation number ``at``; and how many there were."""
    sampler, settings, planned = LEFT[name]
    calls = []

    def ring():
        calls.append(1)
        if len(calls) == at:
            os.kill(os.getpid(), signal.SIGTERM)

    class Bell(NetworkPotential):
        estimate = NetworkPotential.estimate  # of the same U

        def potential(self, theta):
            ring()
            return super().potential(theta)

        def potential_and_gradient(self, theta):
            ring()
            return super().potential_and_gradient(theta)

        def gradient(self, theta, batch=None):
            if batch is not None:  # else in the method above
                ring()
            return super().gradient(theta, batch)

    target, _ = small_network(kind=Bell)
    settings = {"steps": 3, "batch_size": 3, "acceptance": "metropolis", "dtype": F64} | settings
    kernel, random = make_kernel(sampler, target, [0.1, 0.2], **settings), Random(1)
    plan = Plan(3, **({"burn_in": 2, "save_every": 1} | planned | changes))
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # one in the last evaluation is passed on
    try:
        return run(kernel, target, plan, random, 2, lambda: target.initial(2, random), None, store), len(calls)
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.thorough
@pytest.mark.parametrize("name", LEFT)
def test_a_signal_at_any_gradient_leaves_the_trajectory_where_it_is(name):
    """SIGTERM in every single evaluation of the run, one after another: of each only that evaluation is made again."""
    whole, broken = Memory(), Memory()
    result, wanted = leave(name, whole)
    before = 2 + 2 * MASS_BATCHES * isinstance(result.kernel.mass, torch.Tensor)  # evaluations before the first cycle
    places, made, stops = set(), 0, 0
    while (broken.state is None or result.status != DONE) and stops < wanted:
        result, calls = leave(name, broken, at=3 if stops else 2 + before)  # gone on with, U is compared first
        made, stops = made + calls, stops + 1
        unfinished = broken.state["unfinished"]
        places |= {place["point"] for place in unfinished["places"]} if unfinished else set()
    assert result.status == DONE
    assert made <= wanted + 2 * stops
    points = result.kernel.points
    assert places == set(range(1, points + (not _full_at(result.kernel, points - 1))))
    same(whole, broken)


def test_a_signal_while_u_is_compared_leaves_at_once():
    store = Memory()
    assert leave("full refresh", store, at=5)[0].status == INTERRUPTED
    before = copied(store.state)
    result, calls = leave("full refresh", store, at=1)
    assert (result.status, calls) == (INTERRUPTED, 1) and store.state["cycle"] == before["cycle"]
    assert leave("full refresh", store)[0].status == DONE
    whole = Memory()
    leave("full refresh", whole)
    same(whole, store)


def test_a_point_that_was_traced_before_the_signal_is_traced_once(monkeypatch):
    """It arrives behind the look at the second point of the second chain, and before the place behind it is there."""
    whole, broken, calls = Memory(), Memory(), []

    def place(*arguments):
        calls.append(1)
        if len(calls) == 5 + 3:  # each trajectory's start, and the place behind each of its four points
            os.kill(os.getpid(), signal.SIGTERM)
        return Place(*arguments)

    leave("shuffled and traced", whole)
    with monkeypatch.context() as patch:
        patch.setattr("sgmcmc.trajectory.Place", place)
        result, _ = leave("shuffled and traced", broken)
    (place,) = broken.state["unfinished"]["places"]  # of the second chain, after the four gradients of the first
    assert (result.status, result.under_way, place["point"]) == (INTERRUPTED, 4 + 1, 1)
    assert leave("shuffled and traced", broken)[0].status == DONE
    same(whole, broken)


@pytest.mark.thorough
@pytest.mark.parametrize("name", LEFT)
def test_killed_within_a_cycle_it_ends_as_the_uninterrupted_run(name):
    """With a checkpoint after every gradient, killed at every one of them."""
    whole, broken = Memory(), Memory()
    points = leave(name, whole)[0].kernel.points
    kills, status = 0, None
    while status != DONE:
        broken.die_after = broken.blocks + 1
        try:
            status = leave(name, broken, save_minutes=1e-9)[0].status
        except KeyboardInterrupt:
            kills += 1
    assert whole.blocks < 6 and kills >= 3 * 2 * (points - 1)
    same(whole, broken)


def test_a_trajectory_is_gone_on_with_through_the_disk(tmp_path):
    """Interrupted in the middle of a trajectory of the second chain, and once more soon after."""
    for folder, stops in (("whole", ()), ("broken", (9, 4))):
        for stop in (*stops, None):
            with RunFolder(tmp_path / folder, {"hash": "a"}) as store:
                result, _ = leave("shuffled and traced", store, at=stop)
            assert result.status == (INTERRUPTED if stop else DONE)
    assert torch.equal(load_samples(tmp_path / "whole"), load_samples(tmp_path / "broken"))
    one, other = (load_trace(tmp_path / folder) for folder in ("whole", "broken"))
    assert all(one[column].tobytes() == other[column].tobytes() for column in one)


def test_a_signal_inside_a_trajectory_leaves_it():
    """The cycle is gone on with later, by chains in one tensor as well."""
    whole, broken = Memory(), Memory()
    go("stairs", whole)
    calls = []

    class Bell(Quartic):
        def gradient(self, theta, batch=None):
            calls.append(1)
            if len(calls) == 8:
                os.kill(os.getpid(), signal.SIGUSR1)
            return super().gradient(theta, batch)

    _, kernel, _, plan = CASES["stairs"]()
    random = Random(1)
    target = Bell(2, noise=1.0)
    result = run(kernel, target, plan, random, 3, lambda: target.initial(3, random).float(), None, broken)
    assert result.status == INTERRUPTED and 0 < result.cycles < 7
    assert go("stairs", broken).status == DONE
    same(whole, broken)


def test_a_signal_while_resuming_does_not_write_half_a_chain():
    """The checkpoint that is there stays whole: it is not replaced by one of which half is taken up."""
    store = Memory()
    go("hmc_with_a_mass_and_a_random_direction", store, cycles=6)
    before = copied(store.state)

    class Bell(dict):
        def __getitem__(self, key):
            if key == "tuning":
                os.kill(os.getpid(), signal.SIGTERM)
            return super().__getitem__(key)

    store.state = Bell(store.state)
    result = go("hmc_with_a_mass_and_a_random_direction", store)
    assert result.status == INTERRUPTED
    same_state(dict(before), dict(store.state))


def test_a_signal_before_the_first_cycle_writes_nothing():
    store, target = Memory(), Quartic(2)

    def initial():
        os.kill(os.getpid(), signal.SIGINT)
        return torch.zeros(1, 2)

    result = run(make_kernel("hmc", target, 0.1), target, Plan(3), Random(1), 1, initial, None, store)
    assert (result.status, store.blocks, result.cycles) == (INTERRUPTED, 0, 0)


def test_a_run_whose_time_is_over_before_it_begins_evaluates_nothing():
    """Its pieces took the time, and a signal that came meanwhile was not this run's to hear."""
    store, target = Memory(), Quartic(2)
    kernel = make_kernel("hmc", target, 0.1)
    result = run(kernel, target, Plan(3), Random(1), 1, pytest.fail, None, store, until=0.0)
    assert (result.status, store.blocks, result.cycles) == (INTERRUPTED, 0, 0)
    for until, status, cycles in ((math.inf, DONE, 3), (0.0, INTERRUPTED, 3)):
        plan = Plan(3 + 2 * (until == 0))  # the longer run goes on from the shorter's end
        result = run(kernel, target, plan, Random(1), 1, lambda: torch.zeros(1, 2), None, store, until=until)
        assert (result.status, result.cycles) == (status, cycles)
    assert run(kernel, target, Plan(3), Random(1), 1, pytest.fail, None, store, until=0.0).status == DONE


def test_a_signal_too_late_to_interrupt_is_passed_on():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        last = go("stairs").cycles
        late = {"report": lambda chain, row: chain.cycle == last and signal.raise_signal(signal.SIGTERM)}
        result = go("stairs", Memory(), **late)
        assert (result.status, result.signal, heard) == (DONE, None, [signal.SIGTERM])
        early = {"report": lambda chain, row: chain.cycle == 1 and signal.raise_signal(signal.SIGTERM)}
        result = go("stairs", Memory(), **early)
        assert (result.status, result.signal, heard) == (INTERRUPTED, signal.SIGTERM, [signal.SIGTERM])
        result = go("stairs", **early)  # nothing is stored: the signal is not this run's
        assert (result.status, heard) == (DONE, 2 * [signal.SIGTERM])
    finally:
        signal.signal(signal.SIGTERM, before)


def test_signal_handlers_are_given_back():
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)]
    go("stairs")
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)] == handlers


@pytest.mark.parametrize("name", ["ggmc_with_runs_of_batches", "networks_one_after_the_other"])
def test_the_run_folder_brings_it_back_bit_for_bit(name, tmp_path):
    """Through the disk: interrupted after some cycles, twice, opened anew each time."""
    results = {}
    for folder, stops in (("whole", ()), ("broken", (2, 5))):
        for stop in (*stops, None):
            with RunFolder(tmp_path / folder, {"hash": name}) as store:
                results[folder] = go(
                    name,
                    store,
                    report=lambda chain, row, stop=stop: chain.cycle == stop and os.kill(os.getpid(), signal.SIGTERM),
                )
            assert results[folder].status == (INTERRUPTED if stop else DONE)
    assert torch.equal(load_samples(tmp_path / "whole"), load_samples(tmp_path / "broken"))
    one, other = (load_metrics(tmp_path / folder) for folder in ("whole", "broken"))
    for column in one.keys() - set(TIMES):
        assert one[column].tobytes() == other[column].tobytes(), column


@pytest.mark.parametrize(("keep", "kept"), [("all", 4), (2, 2), (9, 4), ("none", None)])
def test_a_run_keeps_the_last_draws_that_were_asked_for_with_a_store_and_without(tmp_path, keep, kept):
    """Draws after cycles 3, 5, 7 and 9; moments are of all, whatever is kept."""
    target = Quartic(2)
    kernel, plan = make_kernel("hmc", target, 0.1), Plan(9, burn_in=1, thin=2, keep=keep)
    start = lambda: torch.ones(3, 2, dtype=F64)  # noqa: E731
    result = run(kernel, target, plan, Random(1), 3, start)
    every = run(kernel, target, replace(plan, keep="all"), Random(1), 3, start).draws
    assert len(every) == 4 and result.moments["count"] == 4
    assert result.draws is None if kept is None else torch.equal(result.draws, every[-kept:])
    with RunFolder(tmp_path / "run") as store:
        run(kernel, target, replace(plan, save_every=2), Random(1), 3, start, store=store)
    if kept is None:
        assert not list((tmp_path / "run" / "samples").iterdir())
    else:
        assert torch.equal(load_samples(tmp_path / "run"), every[-kept:])


@pytest.mark.parametrize(
    "settings",
    [{"keep": 0}, {"keep": -1}, {"keep": 2.5}, {"keep": "some"}, {"thin": 0}, {"burn_in": -1}, {"log_every": 0}],
)
def test_a_plan_that_cannot_work_is_refused(settings):
    ((name, value),) = settings.items()
    with pytest.raises(SettingError, match=f"{name}={value}: must be"):
        Plan(9, **settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tune": 1.0, "burn_in": 5}, "tune=1.0: is the acceptance to tune to, between 0 and 1"),
        ({"tune": 0.0, "burn_in": 5}, "tune=0.0: is the acceptance to tune to, between 0 and 1"),
        ({"tune": 0.7}, "tune=0.7: tunes during the burn-in: give burn_in, in cycles"),
        ({"trajectory": True}, "trajectory=True: chooses during the burn-in: give burn_in, in cycles"),
        ({"burn_in": 5, "mass_cycles": 6}, "mass_cycles=6: must be from 0 to the 5 cycles of the burn-in"),
    ],
)
def test_a_plan_tunes_in_its_burn_in(settings, said):
    assert refusal(lambda: Plan(9, **settings)) == said


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_a_longer_plan_continues_the_shorter_run(name):
    """At a cycle where both write a row: the longer run is then the same to the bit."""
    whole, grown = Memory(), Memory()
    cycles = {"hmc_with_a_mass_and_a_random_direction": 8, "ggmc_with_runs_of_batches": 8}.get(name, 6)
    shorter = {"hmc_with_a_mass_and_a_random_direction": 4, "ggmc_with_runs_of_batches": 4}.get(name, 3)
    go(name, whole, cycles=cycles)
    assert go(name, grown, cycles=shorter).cycles == shorter
    go(name, grown, cycles=cycles)
    same(whole, grown)


def test_a_run_that_is_done_is_left_alone():
    store = Memory()
    go("stairs", store)
    before, rows, draws = copied(store.state), len(store.rows), len(store.draws)
    result = go("stairs", store)
    assert (result.status, result.cycles) == (DONE, 7)
    same_state(before, store.state)
    assert (len(store.rows), len(store.draws)) == (rows, draws)


@pytest.mark.parametrize("name", ["stairs", "networks_one_after_the_other"])
def test_a_run_that_is_done_compiles_nothing(name, monkeypatch):
    store = Memory()
    go(name, store)
    monkeypatch.setattr(Chain, "compile", lambda *_: pytest.fail("of what is done"))
    assert go(name, store).status == DONE


# ---- what is kept, and the columns


def test_without_a_store_everything_is_in_the_result():
    store = Memory()
    one, other = go("ggmc_with_runs_of_batches", store), go("ggmc_with_runs_of_batches")
    assert one.draws is None and one.rows == [] and torch.equal(other.draws, torch.stack(store.draws))
    assert other.draws.shape == (3, 3, 2)  # cycles 5, 7 and 9 of burn-in 3, thin 2
    assert [row["cycle"] for row in other.rows] == [2, 4, 6, 8, 9]
    assert other.proposed == 27 and 0 < other.accepted <= 27
    same_rows(store.rows, other.rows)


def test_rows_are_means_over_cycles_and_chains():
    target = Quartic(2, noise=1.0)
    kernel = make_kernel("ggmc", target, 0.5, steps=2, acceptance="metropolis")
    fine, coarse = [], []
    for log_every, rows in ((1, fine), (3, coarse)):
        random = Random(3)
        plan = Plan(6, log_every=log_every, epochs_per_cycle=0.5)
        rows += run(kernel, target, plan, random, 40, lambda: target.exact(40, random).float()).rows  # noqa: B023
    for number, row in enumerate(coarse):
        parts = fine[3 * number : 3 * number + 3]
        for key in ("potential", "delta_potential", "delta_kinetic", "log_accept", "accept_prob", "accepted"):
            assert row[key] == pytest.approx(sum(part[key] for part in parts) / 3, rel=1e-12), key
        assert row["kinetic_temperature"] == parts[-1]["kinetic_temperature"]
        assert (row["cycle"], row["epoch"], row["step"]) == (3 * number + 3, 1.5 * (number + 1), 6 * (number + 1))
        assert row["log_accept"] == pytest.approx(-(row["delta_potential"] + row["delta_kinetic"]))


def test_a_word_whose_kick_refreshes_has_no_sum_of_kinetic_changes():
    kernel = make_kernel("sghmc", Quartic(2, noise=1.0), 0.1, steps=2)
    (row,) = run(kernel, Quartic(2, noise=1.0), Plan(1), Random(1), 3, lambda: torch.ones(3, 2)).rows
    assert math.isnan(row["delta_kinetic"]) and math.isfinite(row["delta_potential"])


def test_where_nothing_is_decided_by_it_u_is_that_of_the_rows_ends():
    """The chain is the same; a row of one cycle has U of every end, a row of several that of the last."""
    kind, *arguments = LOGISTIC
    target = kind(*arguments)
    kernel = make_kernel("sghmc", target, 0.02, steps=4, batch_size=20, dtype=F64)

    def rows_and_draws(log_every):
        plan = Plan(9, log_every=log_every)
        result = run(kernel, target, plan, Random(2), CHAINS, lambda: target.initial(CHAINS, Random(2)))
        return result.rows, result.draws

    (every, draws), (third, same_draws) = rows_and_draws(1), rows_and_draws(3)
    assert torch.equal(draws, same_draws)
    for row, ends in zip(third, draws[2::3], strict=True):
        assert row["potential"] == pytest.approx(float(target.potential(ends).mean()), rel=1e-12)
        alone = every[row["cycle"] - 1]
        assert alone["potential"] == pytest.approx(row["potential"], rel=1e-12)
        assert math.isfinite(alone["delta_potential"]) and math.isnan(row["delta_potential"])
        assert row["not_finite"] == 0 and row["accepted"] == 1 and row["log_accept"] == -math.inf


def test_where_nothing_is_decided_a_chain_still_diverges():
    class Walls(Quartic):
        def potential(self, theta):
            return super().potential(theta).where(theta[:, 0].abs() < 0.5, math.inf)

    target = Walls(1)
    kernel = make_kernel("sghmc", target, 1.0, friction=Friction("gamma", 0.1), gradient="full", dtype=F64)
    results = [
        run(kernel, target, Plan(100, log_every=every), Random(1), 3, lambda: torch.ones(3, 1, dtype=F64))
        for every in (1, 10)
    ]
    assert all(result.status == DIVERGED and result.draws.isfinite().all() for result in results)
    # U is infinite now and then before θ is: whether it is looked at changes no chain.
    assert torch.equal(results[0].draws, results[1].draws[: len(results[0].draws)])


def test_the_draw_is_the_state_after_the_decision():
    """A rejection counts again; draws, U and acceptance are those of the trajectories, one by one."""
    target = Quartic(2, noise=1.0)
    kernel = make_kernel("ggmc", target, 0.8, steps=2, acceptance="metropolis", dtype=F64)
    random = Random(3)
    result = run(kernel, target, Plan(8), random, 5, lambda: target.initial(5, random))
    state = start(kernel, target, target.initial(5, random), random, range(5))
    for index in range(8):
        before = state
        state, record = run_trajectory(kernel, target, state, random, index, range(5))
        assert torch.equal(result.draws[index], state.theta)
        assert result.rows[index]["accepted"] == float(record.accepted.double().mean())
        assert torch.equal(state.theta[~record.accepted], before.theta[~record.accepted])
    assert 0 < result.accepted < 40


def test_predictions_of_the_sample_and_of_the_ensemble():
    """The ensemble is the mean of the probabilities of the draws after the burn-in, rejected ones again."""
    target, kernel, predictions = network_case()
    random = Random(1)
    result = run(kernel, target, Plan(5, burn_in=2), random, 2, lambda: target.initial(2, random), predictions)
    inputs, labels = predictions["test"]
    members = torch.cat([target.predict(theta[None], inputs) for draw in result.draws for theta in draw])
    joint = members.mean(0)
    nll = -joint[torch.arange(12), labels].log().mean()
    assert result.rows[-1]["test_ensemble_nll"] == pytest.approx(float(nll), rel=1e-12)
    assert result.rows[-1]["test_ensemble_accuracy"] == pytest.approx(
        float((joint.argmax(1) == labels).double().mean())
    )
    single = -members[-2:, torch.arange(12), labels].log().mean()
    assert result.rows[-1]["test_nll"] == pytest.approx(float(single), rel=1e-12)
    outside = torch.cat([target.predict(theta[None], predictions["ood"][0]) for theta in result.draws[-1]])
    entropy = -(outside * outside.log()).sum(-1).mean()
    assert result.rows[-1]["ood_entropy"] == pytest.approx(float(entropy), rel=1e-10)


def test_the_ensemble_counts_at_the_rows_regular_ends_alone():
    """A run that ends between two of them predicts there too, and goes on to the ensemble of one that did not."""
    target, kernel, predictions = network_case()

    def go(cycles, store):
        plan, random = Plan(cycles, burn_in=1, log_every=3), Random(1)
        return run(kernel, target, plan, random, 2, lambda: target.initial(2, random), predictions, store)

    store = Memory()
    for cycles, members in ((3, 2), (5, 2), (6, 4), (8, 4)):
        result = go(cycles, store)
        assert int(result.ensembles["test"].count) == members
        assert math.isfinite(store.rows[-1]["test_nll"])
    whole = go(8, Memory())
    assert torch.equal(result.ensembles["test"].sum, whole.ensembles["test"].sum)


def test_a_traced_cycle_has_a_row_every_few_points():
    """Of the five gradient points of four steps every second or third, and the last; of the cycles that are named."""
    target, kernel, _ = network_case()
    for every, points in ((2, [0, 2, 4]), (3, [0, 3, 4])):
        store, random = Memory(), Random(1)
        plan = Plan(4, trace=every, trace_cycles=(3,))
        run(kernel, target, plan, random, 2, lambda: target.initial(2, random), None, store)  # noqa: B023
        assert {row["cycle"] for row in store.trace} == {3}
        for chain in (0, 1):
            rows = [row for row in store.trace if row["chain"] == chain]
            assert [row["step"] - 8 for row in rows] == points  # after two cycles of four
            assert all(row["exact"] == 0 and math.isfinite(row["log_accept"]) for row in rows)


# ---- divergence is a result


class Cliff(Quartic):
    """NaN beyond 1.5, where the chains with large steps come soon."""

    def gradient(self, theta, batch=None):
        slope = super().gradient(theta, batch)
        return torch.where(theta.abs() > 1.5, math.nan, slope)

    def potential(self, theta):
        return torch.where((theta.abs() > 1.5).any(-1), math.nan, super().potential(theta))


def cliff(acceptance, cycles=40, **plan):
    target = Cliff(1)
    kernel = make_kernel("ggmc", target, [0.01, 1.9, 0.02, 1.7], steps=3, acceptance=acceptance, dtype=F64)
    return run(kernel, target, Plan(cycles, **plan), Random(1), 4, lambda: torch.zeros(4, 1, dtype=F64))


def test_under_monitor_only_the_diverged_chains_stand_still():
    result = cliff("monitor", cycles=8)
    assert result.status == DONE
    moved = (result.draws[1:] != result.draws[:-1])[..., 0]
    assert bool(moved[:, [0, 2]].all()) and not bool(moved[-1, [1, 3]].any())
    assert bool(torch.isfinite(result.draws).all())
    last = result.rows[-1]
    assert last["alive"] == 2 and math.isfinite(last["potential"]) and math.isfinite(last["kinetic_temperature"])
    assert sum(row["not_finite"] for row in result.rows) == 2  # each once: what they propose later counts nowhere
    alone = make_kernel("ggmc", Cliff(1), 0.01, steps=3, dtype=F64)
    calm = run(alone, Cliff(1), Plan(8), Random(1), 1, lambda: torch.zeros(1, 1, dtype=F64))
    assert torch.equal(calm.draws[:, 0], result.draws[:, 0])


@pytest.mark.thorough
@pytest.mark.parametrize("together", [True, False])
def test_a_chain_that_stands_still_keeps_its_tuned_step_and_ends_no_run_by_it(together, monkeypatch):
    """By the probabilities of a chain that proposes nothing its step would shrink without end."""
    target, plan = Gaussian(1), Plan(400, burn_in=400, tune=0.8)
    monkeypatch.setattr(target, "together", together, raising=False)
    kernel = make_kernel("ggmc", target, [0.1, 1e25], steps=3)
    result = run(kernel, target, plan, Random(1), 2, lambda: torch.ones(2, 1))
    assert result.status == DONE and result.frozen == [1] and float(result.kernel.step_size[1]) > 1e24


class Apart(Cliff):
    together, asked = False, 0

    def gradient(self, theta, batch=None):
        self.asked += 1
        return super().gradient(theta, batch)


def test_a_chain_that_stands_still_by_itself_is_not_evaluated():
    target = Apart(1)
    kernel, start = make_kernel("ggmc", target, [0.01, 1.9], steps=3, dtype=F64), torch.zeros(2, 1, dtype=F64)
    died = run(kernel, target, Plan(30, log_every=100), Random(1), 2, lambda: start)
    before, more = target.asked, Plan(60, log_every=100)
    assert died.frozen == [1] and before < 2 * 4 * 30
    target.asked = 0
    assert run(kernel, target, more, Random(1), 2, lambda: start).frozen == [1]
    assert target.asked - before == 4 * 30  # of one chain: the ends of three steps


def test_networks_that_diverged_are_named_by_their_chains():
    target, _ = small_network()
    settings = {"steps": 2, "batch_size": 3, "acceptance": "monitor", "dtype": F64}
    kernel, random = make_kernel("ggmc", target, [0.01, 1e200, 0.01, 1e200], **settings), Random(1)
    result = run(kernel, target, Plan(4), random, 4, lambda: target.initial(4, random))
    assert result.frozen == [1, 3]


def test_a_run_is_diverged_when_no_chain_is_left():
    target = Cliff(1)
    kernel = make_kernel("ggmc", target, 1.9, steps=3, dtype=F64)
    store = Memory()
    result = run(kernel, target, Plan(500), Random(1), 2, lambda: torch.zeros(2, 1, dtype=F64), None, store)
    assert result.status == DIVERGED and result.cycles < 500
    assert store.rows[-1]["alive"] == 0 and store.state["cycle"] == result.cycles
    again = run(kernel, target, Plan(500), Random(1), 2, lambda: torch.zeros(2, 1, dtype=F64), None, store)
    assert (again.status, again.cycles) == (DIVERGED, result.cycles)


def test_under_metropolis_divergence_is_a_rejection():
    result = cliff("metropolis")
    assert result.status == DONE and bool(torch.isfinite(result.draws).all())
    assert sum(row["not_finite"] for row in result.rows) > 0
    assert all(row["alive"] == 4 and math.isfinite(row["potential"]) for row in result.rows)
    moved = (result.draws[1:] != result.draws[:-1])[..., 0].sum(0)
    assert int(moved[[0, 2]].min()) > 30 and int(moved[[1, 3]].max()) < 39


@pytest.mark.parametrize("acceptance", ["metropolis", "austerity"])
def test_no_graph_of_autograd_is_kept_of_a_target_with_parameters(acceptance):
    """Of nothing that it is asked: where one is, it grows from cycle to cycle."""

    class Learned(LinearRegression):
        weight, moves = torch.nn.Parameter(torch.ones((), dtype=F64)), torch.tensor([True, False])

        def potential(self, theta):
            return self.taught(super().potential(theta))

        def gradient(self, theta, batch=None):
            return self.taught(super().gradient(theta, batch))

        def losses(self, theta, batch):
            return self.taught(super().losses(theta, batch))

        def prior(self, theta):
            return self.taught(super().prior(theta))

        def gibbs(self, theta, temperature, random, trajectory, chains):
            return self.taught(theta)

        def predict(self, theta, inputs):
            return self.taught(torch.full((len(theta), len(inputs), 2), 0.5, dtype=F64))

        def taught(self, value):
            self.fit = {"weight": self.weight.expand(3)}
            return value * self.weight

    target = Learned(torch.eye(4, 2, dtype=F64), torch.ones(4, dtype=F64))
    kernel = make_kernel("ggmc", target, 0.1, batch_size=2, acceptance=acceptance, decision_batch=2, dtype=F64)
    plan = Plan(9, burn_in=3, estimate_mass=True, log_every=9, trace=1)
    test = {"test": (torch.zeros(1, 1), torch.tensor([1]))}
    chain = Chain(kernel, target, plan, Random(0), 3, lambda: torch.ones(3, 2, dtype=F64), test)
    chain.begin()
    for _ in range(9):
        chain.advance()
    chain.row()
    found, left = 0, [chain.checkpoint()]
    while left:
        one = left.pop()
        left += one.values() if isinstance(one, dict) else one if isinstance(one, list | tuple) else []
        if isinstance(one, torch.Tensor):
            found += 1
            assert not one.requires_grad
    assert found > 10 and not chain.tally.sums.requires_grad and not chain.kernel.mass.requires_grad


def test_a_row_tells_the_fit_of_where_gibbs_updates_left_the_chain():
    class Told(MixedBinary):
        gibbs = MixedBinary.gibbs

        def potential(self, theta):
            self.fit = {"ones": theta[:, 2:].sum(1)}
            return super().potential(theta)

    target = Told(5)
    kernel = make_kernel("hmc", target, 0.02, steps=2, dtype=F64)
    chain = Chain(kernel, target, Plan(3), Random(0), 20, lambda: target.exact(20, Random(1)))
    chain.begin()
    for _ in range(3):
        chain.advance()
        assert chain.row()["ones"] == float(chain.theta[:, 2:].sum(1).mean())


@pytest.mark.parametrize("in_place", [False, True])
def test_gibbs_leaves_a_frozen_chain_alone(in_place):
    class Frozen(HierarchicalRegression):
        def gibbs(self, theta, *given):
            new = super().gibbs(theta, *given)
            return theta.copy_(new) if in_place else new

        def potential(self, theta):
            return torch.where(theta[:, 0] > 0, math.nan, super().potential(theta))

    target = Frozen()
    kernel = make_kernel("persistent_langevin", target, 0.3, acceptance="monitor", dtype=F64)
    theta = torch.zeros(6, target.dim, dtype=F64) - 1
    result = run(kernel, target, Plan(30), Random(1), 6, lambda: theta)
    alive = torch.tensor([row["alive"] for row in result.rows])
    assert int(alive[-1]) < 6
    died = int((alive < 6).nonzero()[0])
    still = (result.draws[died:] == result.draws[died]).all(-1).all(0)
    assert int(still.sum()) >= 1
    assert result.frozen == list(range(6)) and bool((result.draws == -1).all())  # all of them where they began


# ---- adaptation ends with the burn-in


def test_tuning_reaches_its_target_and_is_frozen_after_the_burn_in():
    target = Quartic(4)
    kernel = make_kernel("langevin", target, 0.05, dtype=F64)
    sizes = []
    random = Random(1)
    result = run(
        kernel, target, Plan(300, burn_in=200, tune=0.7), random, 200, lambda: target.exact(200, random),
        report=lambda chain, row: sizes.append(chain.kernel.step_size),
    )  # fmt: skip
    assert len(set(sizes[:200])) == 200 and set(sizes[199:]) == {result.kernel.step_size}
    after = sum(row["accept_prob"] for row in result.rows[200:]) / 100
    assert after == pytest.approx(0.7, abs=0.03)
    assert result.rows[-1]["step_size"] == result.kernel.step_size


class Edge(Quartic):
    """U is NaN beyond 5, the gradient is not."""

    def potential(self, theta):
        return torch.where((theta.abs() > 5).any(-1), math.nan, super().potential(theta))


def test_the_step_is_tuned_by_the_number_of_the_cycle():
    """By the acceptance's miss, times n^-0.6 after the n-th."""
    target, factor = Quartic(2), 0.0
    kernel = make_kernel("hmc", target, 0.5, steps=2, dtype=F64)
    chain = Chain(kernel, target, Plan(9, burn_in=5, tune=0.6), Random(1), 3, lambda: torch.zeros(3, 2, dtype=F64))
    chain.begin()
    for count in range(1, 5):
        before = chain.tally.chances.mean()
        chain.advance()
        factor += float(chain.tally.chances.mean() - before - 0.6) * count**-0.6
        assert chain.kernel.step_size == pytest.approx(0.5 * math.exp(factor), rel=1e-12)


def test_the_step_is_tuned_anew_for_the_mass_that_stays():
    """After the last estimate of the mass by the number of the cycle since; the mass is that of the second cycle's end,
    and its estimates are counted, each a full gradient."""
    target, factor, masses = Quartic(2), 0.0, []
    kernel = make_kernel("hmc", target, 0.5, steps=2, dtype=F64)
    plan = Plan(9, burn_in=6, tune=0.6, estimate_mass=True, mass_cycles=2)
    random = Random(1)
    chain = Chain(kernel, target, plan, random, 3, lambda: target.exact(3, random).double())
    chain.begin()
    for count in (1, 2, 1, 2, 3, 4):
        before = chain.tally.chances.mean()
        chain.advance()
        if chain.cycle < 6:  # the sums begin anew
            factor += float(chain.tally.chances.mean() - before - 0.6) * count**-0.6
            assert chain.kernel.step_size == pytest.approx(0.5 * math.exp(factor), rel=1e-12)
        masses.append(chain.kernel.mass)
    assert not torch.equal(masses[0], masses[1])
    assert all(torch.equal(masses[1], mass) for mass in masses[2:])
    alone = Chain(kernel, target, Plan(9), Random(1), 3, lambda: torch.ones(3, 2, dtype=F64))
    alone.begin()
    for _ in range(6):
        alone.advance()
    assert chain.evaluated == (alone.evaluated[0] + 3, alone.evaluated[1])
    with pytest.raises(SettingError, match="^mass_cycles=7: must be from 0 to the 6 cycles of the burn-in"):
        replace(plan, mass_cycles=7)


def test_chains_that_diverged_do_not_tune_the_others():
    """The last two of six are lost in the first trajectory: the step size is that of a run of the first four."""
    target, far = Edge(1), torch.tensor([[0.1], [0.2], [0.3], [0.4], [9.0], [9.0]], dtype=F64)
    kernel = make_kernel("ggmc", target, 0.3, steps=3, dtype=F64)
    sizes = []
    for chains in (4, 6):
        plan = Plan(30, burn_in=20, tune=0.8)
        result = run(kernel, target, plan, Random(1), chains, lambda: far[:chains])  # noqa: B023
        assert len(result.frozen) == chains - 4
        sizes.append(result.kernel.step_size)
    assert sizes[0] == sizes[1] != 0.3


def test_chains_that_diverged_are_not_in_the_mass():
    """After each cycle it is the root of the mean squared gradient of those that are alive."""
    target, far = Edge(2), torch.tensor([[0.1, 1.0], [0.2, -1.0], [-0.3, 0.5], [5.5, 0.1]], dtype=F64)
    kernel = make_kernel("ggmc", target, 0.05, steps=3, dtype=F64)
    seen = []
    plan = Plan(6, burn_in=5, estimate_mass=True)
    run(
        kernel,
        target,
        plan,
        Random(1),
        4,
        lambda: far,
        report=lambda chain, row: seen.append((chain.theta, chain.kernel.mass)),
    )
    for theta, mass in seen[:5]:
        rms = target.gradient(theta[:3]).square().mean(0).add(1e-7).sqrt()
        torch.testing.assert_close(mass, rms / rms.min())
    assert bool((seen[0][0][3] == far[3]).all())  # it never moved


def test_where_all_chains_diverged_nothing_is_adapted():
    class Once(Quartic):
        """U is a number at the start alone."""

        def potential(self, theta):
            return torch.where((theta == 1).all(-1), super().potential(theta), math.nan)

    target = Once(1)
    kernel = make_kernel("ggmc", target, 0.3, steps=3, dtype=F64)
    for settings in ({"tune": 0.8}, {"estimate_mass": True}):
        plan = Plan(30, burn_in=20, **settings)
        result = run(kernel, target, plan, Random(1), 2, lambda: torch.ones(2, 1, dtype=F64))
        assert result.status == DIVERGED and result.kernel.step_size == 0.3


def test_stairs_that_leave_the_numbers_are_refused_for_so_long_a_run():
    target = Gaussian(1)
    for factor, mend in ((10.0, "within 400 cycles"), (0.1, "within 400 cycles")):
        schedule = Schedule("stairs", every=1, factor=factor)
        kernel = make_kernel("hmc", target, 0.1, schedule=schedule, dtype=F64)
        with pytest.raises(SettingError, match=mend) as error:
            run(kernel, target, Plan(400), Random(1), 1, lambda: torch.zeros(1, 1, dtype=F64))
        assert error.value.setting == "schedule.factor"
        assert run(kernel, target, Plan(20), Random(1), 1, lambda: torch.zeros(1, 1, dtype=F64)).status == DONE


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize(
    "step_size, friction, schedule, plan, size",
    [
        (0.05, 1e-3, Schedule(), Plan(110, burn_in=100, tune=0.8), "the step size that tuning came to"),
        (1e-4, 50.0, Schedule("stairs", every=15, factor=0.1), Plan(140), "the schedule's last step size"),
    ],
)
def test_a_step_size_that_shrinks_until_the_momentum_is_kept_is_refused(
    step_size, friction, schedule, plan, size, dtype
):
    """float64 holds a decay so near 1."""
    target, settings = Gaussian(1, 1e-8), {"friction": Friction("gamma", friction), "schedule": schedule}
    kernel = make_kernel("ggmc", target, step_size, steps=5, acceptance="metropolis", dtype=dtype, **settings)

    def ended():
        return run(kernel, target, plan, Random(1), 5, lambda: torch.zeros(5, 1, dtype=dtype))

    if dtype == F64:
        assert ended().status == DONE
        return
    with pytest.raises(SettingError, match=f"refreshes the momentum.* at {size}") as error:
        ended()
    assert error.value.setting == "friction"


@pytest.mark.parametrize("begun", [2, 4])
def test_stairs_that_take_an_euler_decay_past_minus_one_are_refused_also_where_a_run_goes_on(begun):
    """1 − γh is −.5, −1.12, … after a cycle, two, … of stairs that double ℓ: such a momentum grows without end."""
    target, schedule, store = Gaussian(1), Schedule("stairs", every=2, factor=2.0), Memory()
    kernel = make_kernel("sghmc", target, 0.1, friction=Friction("gamma", 15.0), schedule=schedule, dtype=F64)

    def go_on(cycles):
        return run(kernel, target, Plan(cycles), Random(1), 1, lambda: torch.zeros(1, 1, dtype=F64), store=store)

    if begun == 2:
        assert go_on(begun).status == DONE
    with pytest.raises(SettingError, match="the schedule's last step size gives a momentum decay outside") as error:
        go_on(4)
    assert error.value.setting == "friction"


def test_each_chain_is_tuned_by_itself_where_each_has_its_step():
    target = Gaussian(1)
    sizes = [0.1, 2.5]
    kernel = make_kernel("langevin", target, sizes, dtype=F64)
    result = run(kernel, target, Plan(40, burn_in=40, tune=0.8), Random(1), 2, lambda: torch.zeros(2, 1, dtype=F64))
    tuned = result.kernel.step_size.flatten().tolist()
    assert tuned[0] > 0.1 and tuned[1] < 2.5


def test_friction_stays_what_was_given_when_the_step_is_tuned():
    """γ is a property of the dynamics: c = e^{−γh} follows the tuned h."""
    target = Quartic(2)
    kernel = make_kernel("ggmc", target, 0.1, friction=Friction("gamma", 2.0), acceptance="metropolis", dtype=F64)
    result = run(kernel, target, Plan(10, burn_in=10, tune=0.5), Random(1), 4, lambda: torch.zeros(4, 2, dtype=F64))
    h = result.kernel.step_size
    assert h != 0.1 and result.kernel.friction == Friction("gamma", 2.0)
    keeps = [keep for op, keep, _ in result.kernel.program(0, F64, "cpu")[0] if op.letter == "O"]
    assert keeps == pytest.approx([math.exp(-h)] * 2)


@pytest.mark.thorough
@pytest.mark.parametrize("step_size", [0.1, [0.1, 0.1]])
@pytest.mark.parametrize("tuning", [{"tune": 0.8}, {"trajectory": True}])
def test_a_friction_that_a_tuned_step_turns_negative_is_refused_where_it_would_be_split(step_size, tuning):
    """AMAGOLD's β: c = (1 − hβ)/(1 + hβ) < 0 has no square root for the two O's of OBABO. ABOBA has one O."""
    target = Gaussian(1, covariance=100.0)
    settings = {"steps": 3, "chains": 2, "acceptance": "metropolis", "step_size": step_size, "cycles": 90}
    for way in ({"beta": 5.0}, {"b": 0.5}):
        with pytest.raises(SettingError, match="give friction") as error:
            sample(target, "ggmc", burn_in=80, **settings, **tuning, **way)
        assert error.value.setting in way
    result = sample(target, "amagold", beta=5.0, burn_in=80, **settings, **tuning)
    assert bool((torch.as_tensor(result.kernel.step_size) * 5 > 1).all())  # b past 1, and it goes on
    assert result.status == DONE and len(result.draws[:, 0].unique()) > 3


def test_the_mass_is_the_root_mean_square_gradient_and_is_frozen_after_the_burn_in():
    """Per parameter tensor, the smallest 1; after it no cycle changes it, and the momentum has the new law."""
    target, _, _ = network_case()
    kernel = make_kernel("ggmc", target, 0.02, steps=2, batch_size=3, dtype=F64)
    masses, random = [], Random(1)
    plan = Plan(6, burn_in=3, estimate_mass=True)
    run(
        kernel,
        target,
        plan,
        random,
        2,
        lambda: target.initial(2, random),
        report=lambda chain, row: masses.append(chain.kernel.mass),
    )
    assert (
        not torch.equal(masses[0], masses[1])
        and torch.equal(masses[2], masses[3])
        and torch.equal(masses[2], masses[5])
    )
    for _, block in target.blocks:
        assert len(set(masses[0][block].tolist())) == 1
    assert float(masses[0].min()) == 1 and float(masses[0].max()) > 1

    gauss = Gaussian(covariance=[1.0, 1e-4], noise=0.0)  # E[g²] = 1 and 1e4
    many = make_kernel("hmc", gauss, 0.01, dtype=F64)
    seen = []
    run(many, gauss, Plan(1, burn_in=1, estimate_mass=True), random, 4_000, lambda: gauss.exact(4_000, random),
        report=lambda chain, row: seen.append(chain.kernel.mass))  # fmt: skip
    assert seen[0].tolist() == pytest.approx([1.0, 100.0], rel=0.06)


def test_a_full_gradient_s_mass_takes_one_gradient(monkeypatch):
    """Minibatches differ; the gradient of all data, of one network after another, is taken once."""
    target, _, _ = network_case()
    seen, gradient = [], target.gradient
    monkeypatch.setattr(target, "gradient", lambda *given: seen.append(given) or gradient(*given))
    for batch_size, taken in ((None, 2), (3, 2 * MASS_BATCHES)):
        kind = "minibatch" if batch_size else "full"
        kernel = make_kernel("hmc", target, 0.02, gradient=kind, batch_size=batch_size, dtype=F64)
        chain = Chain(kernel, target, Plan(3), Random(1), 2, lambda: target.initial(2, Random(1)))
        chain.begin()
        seen.clear()
        mass = chain._estimated_mass(chain.theta)
        assert len(seen) == taken
        if kind == "full":  # the same bits as where it is taken anew each time
            square = torch.zeros(target.dim, dtype=F64)
            for _ in range(MASS_BATCHES):
                for row in chain.theta.split(1):
                    square += (gradient(row, None) / target.data_size).square().sum(0) / (2 * MASS_BATCHES)
            for _, block in target.blocks:
                square[block] = square[block].mean()
            root = (square + 1e-7).sqrt()
            assert torch.equal(mass, root / root.min())


class Wrong(Gaussian):
    """A target of somebody's that makes one mistake."""

    def __init__(self, mistake):
        super().__init__(2)
        self.mistake, self.asked, self.kept = mistake, 0, None

    def potential(self, theta):
        self.asked += 1
        if self.mistake == "place":
            theta.mul_(0.9)
        value = super().potential(theta)
        change = {"sum": value.sum(), "column": value[:, None], "log": torch.where(theta[:, 0] > 0, value, torch.nan)}
        change |= {
            "again": value * (1 + self.asked / 100),
            "mean": value + value.mean(),
            "all": value.sum().expand(len(value)),
            "half": value.float(),
        }
        if self.mistake == "kept":
            value = self.kept = value if self.kept is None else self.kept
        return change.get(self.mistake, value)

    def gradient(self, theta, batch=None):
        slope = super().gradient(theta, batch)[:, : 1 if self.mistake == "slope" else 2]
        return slope.where(theta > 0, torch.inf) if self.mistake == "steep" else slope

    def initial(self, chains, random):
        start = super().initial(chains, random)[: 1 if self.mistake == "start" else chains]
        return start.tolist() if self.mistake == "list" else start


WRONG = {
    "sum": r"^shape of U=\[\]: must be \[50\]",
    "column": r"^shape of U=\[50, 1\]: must be \[50\]",
    "slope": r"^shape of the gradient=\[50, 1\]: must be \[50, 2\]",
    "steep": r"^the gradient at the start=inf: is not finite in chains \d.* density is positive and smooth",
    "start": r"^initial=\[1, 2\]: must be \[50, 2\]",
    "list": "^type of initial=list: must be a torch.Tensor",
    "log": r"^U at the start=nan: is not finite in chains \d",
    "half": "^dtype of U=float32: must be float64: compute it of theta.double",
    "place": r"^target=Wrong: changes theta in place",
    "again": "^target=Wrong: gives the first chain another U when it is asked again",
    "mean": "^target=Wrong: gives the first chain another U when it is asked again, alone",
    "all": "^target=Wrong: gives the first chain another U when it is asked again, alone",
    "kept": r"^shape of U=\[50\]: must be \[1\] of one chain's theta",
}


@pytest.mark.parametrize("mistake", WRONG)
def test_what_a_target_gives_can_be_sampled(mistake):
    """A U that is summed over the chains too would broadcast, and be accepted wrongly; so would one that remembers."""
    target, random = Wrong(mistake), Random(1)
    with pytest.raises(SettingError, match=WRONG[mistake]):
        run(make_kernel("hmc", target, 0.1, steps=3), target, Plan(2), random, 50, lambda: target.initial(50, random))


class Tight:
    """A Gaussian's U ten times over, in a class that is made of another."""

    def potential(self, theta):
        return 10 * super().potential(theta)

    def gradient(self, theta, batch=None):
        return 10 * super().gradient(theta, batch)


@pytest.mark.parametrize("kind", ["regression", "network", "instance"])
def test_what_is_inherited_in_one_pass_is_not_the_u_of_a_class_of_one_s_own(kind):
    """It was another target's: the chain went on, and was exact for that one."""
    if kind == "network":
        target = small_network(kind=type("Mine", (Tight, NetworkPotential), {}))[0]
        plain = small_network()[0]
    else:
        plain = GeneratedLogistic(size=30, features=2)
        target = type("Mine", (Tight, GeneratedLogistic), {})(size=30, features=2)
        if kind == "instance":
            target, wanted = GeneratedLogistic(size=30, features=2), target
            target.potential, target.gradient = wanted.potential, wanted.gradient
    kernel = make_kernel("hmc", target, 0.01, steps=2, gradient="full", dtype=F64)
    theta = target.initial(1, Random(1)).double()
    state = start(kernel, target, theta, Random(1), range(1))
    state, _ = run_trajectory(kernel, target, state, Random(1), 0, range(1))
    assert not torch.equal(state.theta, theta)
    torch.testing.assert_close(state.potential, 10 * plain.potential(state.theta))
    torch.testing.assert_close(state.gradient, 10 * plain.gradient(state.theta))
    assert kernel.work(1.0, target)[1] == 1 and kernel.work(1.0, plain)[1] == 0


class Wider(HierarchicalRegression):
    """Another prior of beta: given beta the variances have other laws than the parent's ``gibbs`` draws."""

    def potential(self, theta):
        return super().potential(theta) - theta[:, :-2].double().square().sum(-1) / 4


def test_a_gibbs_update_of_another_u_is_refused_and_one_that_is_said_to_be_right_is_taken():
    """Inherited, it left another law invariant than the trajectories do."""

    class Said(Wider):
        gibbs = HierarchicalRegression.gibbs

    class Update:
        gibbs = HierarchicalRegression.gibbs

    class Mixed(Update, Wider):
        pass

    with pytest.raises(SettingError, match="^gibbs=HierarchicalRegression.gibbs: is of another potential than Wider's"):
        make_kernel("hmc", Wider(), 0.01)
    for kind in (HierarchicalRegression, Said, Mixed):
        make_kernel("hmc", kind(), 0.01)
    plain = Wider()
    plain.gibbs = None
    assert make_kernel("hmc", plain, 0.01).work(1.0, plain) == (1.0, 1.0)


def test_what_belongs_to_the_u_of_a_parent_is_not_a_child_s():
    inputs = torch.arange(6.0).view(3, 2)
    parent = LinearRegression(inputs, inputs[:, 0])

    class Child(LinearRegression):
        def potential(self, theta):
            return 2 * super().potential(theta)

    class Sloping(LinearRegression):
        def gradient(self, theta, batch=None):
            return 2 * super().gradient(theta, batch)

    class Wrapped:
        def __init__(self, target):
            self.target = target

        def __getattr__(self, name):
            return getattr(self.target, name)

    class Twice(Wrapped):
        def potential(self, theta):
            return 2 * self.target.potential(theta)

    for target in (Child(inputs, inputs[:, 0]), Twice(parent)):
        assert own_method(target, "exact", "potential") is None
    for target in (parent, Wrapped(parent), Sloping(inputs, inputs[:, 0])):
        assert own_method(target, "exact", "potential")
    parent.exact = torch.zeros(3)
    assert own_method(parent, "exact", "potential") is None


def test_an_update_of_another_shape_is_refused():
    """One of [1, dim] would give all chains one position."""

    class Broad(HierarchicalRegression):
        def gibbs(self, *arguments):
            return super().gibbs(*arguments)[:1]

    target, random = Broad(), Random(1)
    kernel = make_kernel("hmc", target, 0.01)
    with pytest.raises(SettingError, match=r"^shape of gibbs=\[1, 12\]: must be \[3, 12\]"):
        run(kernel, target, Plan(1), random, 3, lambda: target.initial(3, random))


def test_an_update_of_another_dtype_leaves_the_chain_s():
    class Double(HierarchicalRegression):
        def gibbs(self, theta, *arguments):
            return super().gibbs(theta.double(), *arguments)

    target, random = Double(), Random(1)
    kernel = make_kernel("hmc", target, 0.01)
    result = run(kernel, target, Plan(2), random, 3, lambda: target.initial(3, random).float())
    assert result.draws.dtype == torch.float32


def test_a_counter_is_a_target_s_own_where_its_u_is_one_function():
    """A target that counts how often it is asked would have been told something else."""

    class Counting(Gaussian):
        counter = 0

        def gradient(self, theta, batch=None):
            self.counter += 1
            return super().gradient(theta, batch)

    target, random = Counting(1), Random(1)
    kernel = make_kernel("hmc", target, 0.1, steps=3)
    run(kernel, target, Plan(50), random, 1, lambda: target.initial(1, random))
    assert target.counter >= 150


@pytest.mark.parametrize("change", [lambda u: u + 1, lambda u: u.float(), lambda u: u.sum()])
def test_a_u_of_one_pass_that_is_another_is_refused(change):
    class Both(Gaussian):
        def potential_and_gradient(self, theta):
            return change(self.potential(theta)), self.gradient(theta)

    target, random = Both(2), Random(1)
    with pytest.raises(SettingError, match="^target=Both: gives another U by potential_and_gradient"):
        run(make_kernel("hmc", target, 0.1, steps=3), target, Plan(2), random, 9, lambda: target.initial(9, random))
    run(make_kernel("random_walk", target, 0.1), target, Plan(2), random, 9, lambda: target.initial(9, random))


def test_a_start_without_density_is_named_in_the_first_chain_too():
    """A chain that decides could never leave it; one that is monitored is let go, and goes on."""

    class Half(Gaussian):
        def potential(self, theta):
            return torch.where(theta[:, 0] > 0, super().potential(theta), torch.nan)

    class Steep(Gaussian):
        def gradient(self, theta, batch=None):
            return super().gradient(theta, batch).where(theta > 0, torch.nan)

    target, store = Half(1), Memory()

    def begun(cycles, acceptance):
        kernel = make_kernel("hmc", target, 0.1, steps=1, acceptance=acceptance, dtype=F64)
        return kernel, target, Plan(cycles), Random(1), 2, lambda: torch.tensor([[-9.0], [9.0]], dtype=F64)

    with pytest.raises(SettingError, match="^U at the start=nan: is not finite in chains 0 of 2"):
        run(*begun(2, "metropolis"))
    with pytest.raises(SettingError, match="^the gradient at the start=nan: is not finite in chains 0 of 2"):
        run(begun(2, "metropolis")[0], Steep(1), *begun(2, "metropolis")[2:])
    chain = Chain(*begun(2, "monitor"))
    chain.begin()
    check_same_target(chain.kernel, target, chain.states)
    for cycles in (2, 4):
        result = run(*begun(cycles, "monitor"), None, store)
        assert (result.status, result.cycles, result.frozen) == (DONE, cycles, [0])


def test_a_u_that_is_no_fixed_function_is_sampled_where_its_target_says_so():
    target, store = Wrong("again"), Memory()
    target.inexact = "it counts"
    kernel = make_kernel("hmc", target, 0.1, steps=1, acceptance="monitor")
    for cycles in (2, 4):
        result = run(kernel, target, Plan(cycles), Random(1), 3, lambda: torch.ones(3, 2), None, store)
        assert (result.status, result.cycles) == (DONE, cycles)


def test_a_network_whose_u_is_not_finite_at_the_start_is_refused():
    target, kernel, _ = network_case()
    target.model.register_forward_hook(lambda module, inputs, outputs: outputs * math.nan)
    with pytest.raises(SettingError, match="^U at the start=nan: is not finite in chains 0, 1 of 2"):
        run(kernel, target, Plan(1), Random(1), 2, lambda: target.initial(2, Random(1)))


def test_the_share_of_a_network_s_tensors_whose_kinetic_temperature_is_inside():
    """m²/M = T everywhere is in the middle of every interval; one tensor of one of two chains is put out of it."""
    target, _, _ = network_case()
    mass = torch.linspace(1, 100, target.dim, dtype=F64)
    kernel = make_kernel("ggmc", target, 0.02, steps=2, batch_size=3, temperature=1.7, mass=mass, dtype=F64)
    chain = Chain(kernel, target, Plan(3), Random(1), 2, lambda: target.initial(2, Random(1)))
    chain.begin()

    def inside() -> float:
        return temperatures(kernel, target, chain.states, chain._gradients())["kinetic_inside"]

    for state in chain.states:
        state.momentum.copy_((1.7 * mass).sqrt())
    assert inside() == 1
    _, block = target.blocks[2]
    chain.states[1].momentum[:, block] *= 3
    assert inside() == 7 / 8


@pytest.mark.parametrize("temperature", [1.7, 0.0])
def test_kept_momentum_is_rescaled_when_the_mass_changes(temperature):
    """m √(M₂/M₁): its law at the new mass; also at T = 0, where both scales vanish."""
    target = Gaussian(2, noise=0.5)
    kernel = make_kernel("ggmc", target, 0.3, temperature=temperature, dtype=F64)
    chain = Chain(kernel, target, Plan(3), Random(1), 50_000, lambda: torch.ones(50_000, 2, dtype=F64))
    chain.begin()
    if not temperature:
        chain.advance()
    before = chain.states[0].momentum.clone()
    chain._set_mass(torch.tensor([4.0, 0.25], dtype=F64))
    torch.testing.assert_close(chain.states[0].momentum, before * torch.tensor([2.0, 0.5], dtype=F64))
    chain._set_mass(torch.tensor([1.0, 9.0], dtype=F64))
    torch.testing.assert_close(chain.states[0].momentum, before * torch.tensor([1.0, 3.0], dtype=F64))
    assert bool(torch.isfinite(chain.states[0].momentum).all())
    if temperature:
        energy = chain.states[0].momentum ** 2 / chain.kernel.mass - temperature
        assert abs(z_score(energy[:, 0])) < LIMIT and abs(z_score(energy[:, 1])) < LIMIT


def test_coordinates_that_do_not_move_do_not_set_the_scale_of_the_mass():
    target = HierarchicalRegression()
    kernel = make_kernel("hmc", target, 0.01, steps=2, dtype=F64)
    random = Random(1)
    result = run(kernel, target, Plan(2, burn_in=1, estimate_mass=True), random, 3, lambda: target.initial(3, random))
    mass = result.kernel.mass
    assert mass[-2:].tolist() == [1.0, 1.0] and float(mass[:-2].min()) == 1 and float(mass.max()) < 100


# ---- other updates between trajectories


def test_after_gibbs_u_and_gradient_are_the_new_position_s():
    """A stale U would be compared with the next trajectory's end."""
    target = HierarchicalRegression()
    kernel = make_kernel("persistent_langevin", target, 0.1, dtype=F64)
    random = Random(1)
    chain = Chain(kernel, target, Plan(5), random, 8, lambda: target.initial(8, random))
    chain.begin()
    for _ in range(3):
        before = chain.states[0]
        chain.advance()
        state = chain.states[0]
        assert bool((state.theta[:, -2:] != before.theta[:, -2:]).all())
        assert torch.equal(state.potential, target.potential(state.theta))
        assert torch.equal(state.gradient, target.gradient(state.theta))
        assert bool((state.momentum[:, -2:] == 0).all())


# ---- what was evaluated


CHAINS = 3


def counting(kind, *arguments):
    """A target of the kind that adds up, a chain, the passes over its data that gradients and U are asked for."""

    class Counting(kind):
        gradients = energies = 0.0

        def gradient(self, theta, batch=None):
            share = batch.shape[1] / self.data_size if batch is not None and self.data_size else 1
            self.gradients += share * len(theta) / CHAINS
            return super().gradient(theta, batch)

        def potential(self, theta):
            self.energies += len(theta) / CHAINS
            return super().potential(theta)

        def losses(self, theta, batch):
            self.energies += batch.numel() / self.data_size / CHAINS
            return super().losses(theta, batch)

        gibbs = getattr(kind, "gibbs", None)  # right for this U, too

        if hasattr(kind, "potential_and_gradient"):

            def potential_and_gradient(self, theta):
                self.gradients += len(theta) / CHAINS
                return super().potential_and_gradient(theta)

    return Counting(*arguments)


LOGISTIC, GIBBS = (GeneratedLogistic, 100, 2), (HierarchicalRegression,)  # each of 100 data; U with its gradient; apart
PARTLY = {"acceptance": "barker_minibatch", "decision_batch": 10}
EVALUATED = {  # target, sampler, settings, gradients and U of a trajectory (None: as many as it happens)
    "hmc, 1 step": (LOGISTIC, "hmc", {}, (1, 0)),
    "hmc, 4 steps": (LOGISTIC, "hmc", {"steps": 4}, (4, 0)),
    "hmc where U comes apart": ((Gaussian, 2), "hmc", {"steps": 4}, (4, 1)),
    "hmc with minibatches": (LOGISTIC, "hmc", {"gradient": "minibatch", "steps": 4, "batch_size": 5}, (0.25, 1)),
    "a random direction": (LOGISTIC, "hmc", {"steps": 4, "schedule": Schedule("cosine", direction="random")}, (4, 0)),
    "exact ends, 1 step": (LOGISTIC, "ggmc", {"ends": "exact", "batch_size": 20}, (1, 0)),
    "exact ends, 4 steps": (LOGISTIC, "ggmc", {"ends": "exact", "steps": 4, "batch_size": 20}, (1.6, 0)),
    "kept momentum": (LOGISTIC, "ggmc", {"steps": 4, "batch_size": 20, "acceptance": "metropolis"}, (1, 1)),
    "nothing is decided": (LOGISTIC, "sghmc", {"steps": 4, "batch_size": 20}, (0.8, 0)),
    "monitored": (LOGISTIC, "ggmc", {"steps": 4, "batch_size": 20}, (1, 1)),
    "amagold": (LOGISTIC, "amagold", {"steps": 10, "batch_size": 5}, (0.5, 1)),
    "full gradients within": (LOGISTIC, "l2mc", {"steps": 4}, (4, 1)),
    "artificial noise": ((Gaussian, 2, 1.0, 0.0, 1.0), "amagold", {"steps": 4}, (4, 1)),
    "random walk": (LOGISTIC, "random_walk", {}, (0, 1)),
    "gibbs": (GIBBS, "hmc", {"steps": 4}, (5, 2)),
    "gibbs with minibatches": (GIBBS, "amagold", {"steps": 4, "batch_size": 5}, (0.2, 2)),
    "gibbs of a random walk": (GIBBS, "random_walk", {}, (0, 2)),
    "partly": (LOGISTIC, "hmc", {"gradient": "minibatch", "steps": 10, "batch_size": 5, **PARTLY}, (0.55, None)),
    "partly with full gradients": (LOGISTIC, "hmc", {"steps": 4, **PARTLY}, (4, None)),
    "partly with full gradients within": (LOGISTIC, "l2mc", {"steps": 4, **PARTLY}, (4, None)),
}


def test_a_pass_over_the_data_is_what_u_looks_at():
    """All views of each datum, or one of each where they are drawn at random."""
    target, random = GeneratedLogistic(100, 2), Random(0)
    target.views = 4
    kernel = make_kernel("ggmc", target, 0.02, steps=3, batch_size=5)
    chain = Chain(kernel, target, Plan(1), random, 2, lambda: target.initial(2, random))
    assert chain.share == 5 / 400 and chain.cost == (4 * 5 / 400, 1)
    target.shown = 100
    chain = Chain(kernel, target, Plan(1), random, 2, lambda: target.initial(2, random))
    assert chain.share == 5 / 100 and chain.cost == (4 * 5 / 100, 1)


@pytest.mark.parametrize("name", EVALUATED)
def test_what_a_chain_evaluated_is_what_its_target_was_asked_for(name):
    """Of trajectories, decisions and Gibbs updates; the start's and the rows' of metrics are left out."""
    (kind, *arguments), sampler, settings, expected = EVALUATED[name]
    target, random, seen = counting(kind, *arguments), Random(2), []
    kernel = make_kernel(sampler, target, 0.02, dtype=F64, **settings)

    def report(chain, row):
        seen.append((target.gradients, target.energies, *chain.evaluated))

    plan = Plan(7, log_every=3)
    result = run(kernel, target, plan, random, CHAINS, lambda: target.initial(CHAINS, random), report=report)
    each = (torch.tensor(seen[4], dtype=F64) - torch.tensor(seen[2], dtype=F64)) / 2  # of the two cycles between rows
    assert each[:2].tolist() == pytest.approx(each[2:].tolist(), abs=1e-9)
    wanted = [float(each[1]) if one is None else one for one in expected]
    assert each[2:].tolist() == pytest.approx(wanted, abs=1e-9) and 0 < sum(wanted)
    assert result.gradients == pytest.approx(7 * expected[0])
    assert result.energies == pytest.approx(7 * expected[1] if expected[1] is not None else seen[-1][3])


def test_minibatches_that_the_mass_is_estimated_from_are_parts_of_a_pass():
    """32 of 5 of 100 data at the start, and after each of the first three cycles beside their own."""
    target, random = counting(*LOGISTIC), Random(2)
    kernel = make_kernel("hmc", target, 0.02, gradient="minibatch", steps=4, batch_size=5, dtype=F64)
    plan = Plan(6, burn_in=5, estimate_mass=True, mass_cycles=3)
    chain = Chain(kernel, target, plan, random, CHAINS, lambda: target.initial(CHAINS, random))
    chain.begin()
    assert chain.evaluated == pytest.approx((1.6, 0))
    before = target.gradients
    for cycle in range(1, 6):
        chain.advance()
        assert target.gradients - before == pytest.approx(0.25 * cycle + 1.6 * min(cycle, 3))
        assert chain.evaluated[0] == pytest.approx(1.6 + target.gradients - before)


def test_what_was_evaluated_goes_on_from_a_checkpoint():
    target, random = GeneratedLogistic(100, 2), Random(2)
    settings = {"gradient": "minibatch", "steps": 4, "batch_size": 5, "dtype": F64, **PARTLY}
    kernel = make_kernel("hmc", target, 0.02, **settings)

    def go_on(cycles, store=None):
        return run(kernel, target, Plan(cycles), random, CHAINS, lambda: target.initial(CHAINS, random), None, store)

    whole, store = go_on(7), Memory()
    go_on(4, store)
    again = go_on(7, store)
    assert (again.gradients, again.energies) == (whole.gradients, whole.energies)


# ---- networks


def test_networks_run_as_one_chain_at_a_time_would():
    """Each chain of a run is the chain that runs alone under its number, with a step size and a friction of its own."""
    target, _, predictions = network_case()
    sizes, gammas = [0.05, 0.1, 0.2], [0.5, 1.0, 2.0]
    settings = {"steps": 3, "batch_size": 3, "acceptance": "metropolis", "dtype": F64}
    kernel = make_kernel("ggmc", target, sizes, friction=Friction.of(sizes, friction=gammas), **settings)
    random = Random(1)
    theta = target.initial(3, random)
    result = run(kernel, target, Plan(4), random, 3, lambda: theta)
    for chain in range(3):
        alone = make_kernel("ggmc", target, sizes[chain], friction=Friction("gamma", gammas[chain]), **settings)
        state = start(alone, target, theta[chain : chain + 1], random, range(chain, chain + 1))
        for index in range(4):
            state, _ = run_trajectory(alone, target, state, random, index, range(chain, chain + 1))
            torch.testing.assert_close(result.draws[index, chain], state.theta[0], rtol=1e-12, atol=1e-12)


# ---- the length of trajectories, chosen in the burn-in


def laddered(chains=50, burn_in=120):
    potential = Gaussian(5, noise=1.0)
    kernel = make_kernel("amagold", potential, 0.3, steps=4, friction=Friction("beta", 0.25), dtype=F64)
    random = Random(8)
    plan = Plan(300, burn_in=burn_in, trajectory=True)
    return Chain(kernel, potential, plan, random, chains, lambda: potential.exact(chains, random))


def test_a_run_does_not_go_on_with_another_target():
    """A class of one's own may be edited between two commands: another U, or another number of coordinates."""
    store, others = Memory(), (Quartic(2, linear=0.1), Quartic(3))
    for target, cycles in ((Quartic(2), 3), (others[0], 6), (others[1], 6), (Quartic(2), 6)):
        kernel = make_kernel("hmc", target, 0.1, steps=2, dtype=F64)
        args = kernel, target, Plan(cycles), Random(1), 4, lambda: torch.zeros(4, target.dim, dtype=F64), None, store  # noqa: B023
        if target in others:
            with pytest.raises(SettingError, match="^target=Quartic: .*give the run another name or output"):
                run(*args)
        else:
            assert run(*args).cycles == cycles


def test_a_run_does_not_go_on_with_another_network():
    store, (target, kernel, _) = Memory(), network_case()

    def go(target, cycles):
        return run(kernel, target, Plan(cycles), Random(1), 2, lambda: target.initial(2, Random(1)), None, store)

    go(target, 1)
    edited, _ = small_network()
    edited.model.register_forward_hook(lambda module, inputs, outputs: 3 * outputs)
    with pytest.raises(SettingError, match="^target=MLP: gives another U than when the run was begun"):
        go(edited, 2)
    assert go(small_network()[0], 2).cycles == 2


@pytest.mark.parametrize(("kind", "rounding"), [(Quartic, 1e-5), (NetworkPotential, 12e-4)])
def test_u_of_a_checkpoint_is_the_same_to_rounding(kind, rounding):
    """Of networks to 1e-4 a datum, and by one evaluation: that of their first chain."""

    class Shifted(kind):
        shift, asked = 0.0, 0

        def potential(self, theta):
            self.asked += 1
            return super().potential(theta) + self.shift

    target = small_network(Shifted)[0] if kind is NetworkPotential else Shifted(2)
    kernel = make_kernel("hmc", target, 0.1, steps=1, dtype=F64, **({"batch_size": 3} if target.data_size else {}))
    chain = Chain(kernel, target, Plan(1), Random(1), 3, lambda: torch.zeros(3, target.dim, dtype=F64))
    chain.begin()
    value = float(chain.states[0].potential[0])
    target.asked = 0
    check_same_target(kernel, target, chain.states)
    assert target.asked == 1
    target.shift = 0.9 * rounding + 1e-5 * value
    check_same_target(kernel, target, chain.states)
    target.shift = 1.1 * rounding + 1e-5 * value
    with pytest.raises(SettingError, match="gives another U than when the run was begun"):
        check_same_target(kernel, target, chain.states)


@pytest.mark.thorough
def test_a_ladder_goes_on_bit_for_bit_inside_and_after_the_burn_in():
    whole = laddered()
    whole.begin()
    saved, seen = {}, []
    for cycle in range(160):
        if cycle in (5, 47, 111, 130):
            saved[cycle] = whole.checkpoint()
        seen.append((whole.kernel.steps, whole.kernel.step_size))
        whole.advance()
    assert {steps for steps, _ in seen} == {4, 2, 1}
    assert len(set(seen[120:])) == 1 and seen[120][0] in (1, 2, 4)  # frozen
    assert len({size for _, size in seen[:120]}) > 100
    assert whole.tally.steps == sum(steps for steps, _ in seen) == whole.row()["step"]
    for cycle, state in saved.items():
        again = laddered()
        again.resume(state)
        for _ in range(cycle, 160):
            again.advance()
        assert torch.equal(again.theta, whole.theta), cycle
        assert again.tally.steps == whole.tally.steps and again.kernel.step_size == whole.kernel.step_size


def test_a_ladder_keeps_the_costs_that_it_chose_by():
    """Whatever a later version of the library says that they are: what was chosen stays chosen."""
    target = Quartic(2)
    kernel = make_kernel("hmc", target, 0.3, steps=4, dtype=F64)
    first, later = (Ladder(kernel, target, 200, 0.8, 1.0) for _ in range(2))
    first.jumps = [4.0, 3.0, 1.0]
    later.costs, later.jumps = [1.0, 100.0, 100.0], list(first.jumps)
    assert first.rung(199) != later.rung(199)
    later.resume(first.values())
    assert first.rung(199) == later.rung(199)


@pytest.mark.thorough
def test_a_ladder_tunes_every_rung_to_its_acceptance_and_takes_the_best():
    chain = laddered(chains=400, burn_in=220)
    chain.begin()
    accepted = {}
    for cycle in range(220):
        rung = chain.adaptation.ladder.rung(cycle)
        before = chain.theta
        chain.advance()
        accepted.setdefault(rung, []).append(float((chain.theta != before).any(-1).double().mean()))
    ladder = chain.adaptation.ladder
    for number, (_, target) in enumerate(ladder.rungs):
        assert abs(sum(accepted[number][-8:]) / 8 - target) < 0.12
    rates = [jump / cost for jump, cost in zip(ladder.jumps, ladder.costs, strict=True)]
    assert ladder.rung(220) == rates.index(max(rates))
    assert ladder.costs == [5.0] * 3 + [3.0] * 3 + [2.0] * 3


@pytest.mark.parametrize(
    ("target", "sampler", "settings", "costs"),
    [
        (Gaussian(2), "hmc", {}, [5, 3, 2]),
        (GeneratedLogistic(100, 2), "hmc", {}, [4, 2, 1]),  # U comes with the end's gradient
        (GeneratedLogistic(100, 2), "amagold", {"batch_size": 20}, [1.8, 1.4, 1.2]),
        (GeneratedLogistic(100, 2), "ggmc", {"batch_size": 20, "ends": "exact"}, [1.6, 1.2, 1.0]),
    ],
)
def test_a_rung_costs_what_its_trajectories_evaluate(target, sampler, settings, costs):
    kernel = make_kernel(sampler, target, 0.1, steps=4, acceptance="metropolis", dtype=F64, **settings)
    plan = Plan(200, burn_in=120, trajectory=True)
    chain = Chain(kernel, target, plan, Random(1), 2, lambda: target.initial(2, Random(1)))
    assert [steps for steps, _ in chain.adaptation.ladder.rungs] == [4] * 3 + [2] * 3 + [1] * 3
    assert chain.adaptation.ladder.costs == pytest.approx([cost for cost in costs for _ in range(3)])


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("sampler", "settings", "steps"),
    [
        ("ggmc", {"steps": 30}, [30, 15, 5]),  # 6 epochs of 5 batches and one batch
        ("ggmc", {"steps": 21, "ends": "exact"}, [21, 11, 6]),
        ("amagold", {"steps": 15}, [15, 5]),
        (custom("BABOBAB"), {"steps": 10, "gradient": "minibatch"}, [10, 5, 2]),  # 4 epochs and 1, 2 and 1, 1
        ("ggmc", {"steps": 8, "batch_size": 60}, [8, 3, 1]),  # an epoch is one batch, a step has two
    ],
)
def test_a_ladder_of_shuffled_epochs_has_whole_ones(sampler, settings, steps):
    target, random = GeneratedLogistic(100, 2), Random(1)
    settings = {"batch_size": 20, "minibatches": "shuffled", "acceptance": "metropolis", "dtype": F64, **settings}
    kernel = make_kernel(sampler, target, 0.05, **settings)
    assert lengths(kernel) == steps

    def begun():
        return Chain(
            kernel, target, Plan(200, burn_in=150, trajectory=True), random, 3, lambda: target.initial(3, random)
        )

    chain, seen = begun(), set()
    chain.begin()
    for cycle in range(160):
        if cycle == 70:
            saved = chain.checkpoint()
        batches = chain.kernel.batches
        assert batches.law == "shuffled" and batches.epochs and batches.extra < 2
        seen.add(chain.kernel.steps)
        chain.advance()
    assert seen == set(steps)
    again = begun()
    again.resume(saved)
    for _ in range(70, 160):
        again.advance()
    assert torch.equal(again.theta, chain.theta) and again.kernel.steps == chain.kernel.steps


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_shorter_rung_begins_at_the_h_of_its_like_or_under_gradient_noise_at_its_l_h2(noise):
    target = Gaussian(2, noise=noise)
    kernel = make_kernel("hmc", target, 0.1, steps=4, gradient="minibatch" if noise else "full")
    ladder = Ladder(kernel, target, 120, None, 1.0)
    for cycle in range(4 * ladder.span):  # settling, and the three rungs of 4 steps
        ladder.saw(cycle, torch.full((2,), 0.9, dtype=F64), 1.0)
    ratio = float(ladder.kernel(4 * ladder.span).step_size / ladder.kernel(ladder.span).step_size)
    assert ladder.tuning[0] > 0.5 and ratio == pytest.approx(2**0.5 if noise else 1)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"steps": 1}, "tune.trajectory"),
        ({"acceptance": "monitor"}, "tune.trajectory"),
        ({"acceptance": "barker_minibatch"}, "tune.trajectory"),
        ({"acceptance": "austerity"}, "tune.trajectory"),
        ({"estimate_mass": True}, "mass"),
        (
            {"minibatches": "shuffled", "batch_size": 10, "gradient": "minibatch"},
            "tune.trajectory",
        ),  # 5 of an epoch's 10 batches
        ({"steps": 64}, "burn_in"),
    ],
)
def test_a_ladder_that_cannot_stand_is_refused(settings, named):
    target, random = GeneratedLogistic(100, 2), Random(1)
    settings = {"steps": 4, **settings}
    plan = Plan(200, burn_in=120, trajectory=True, estimate_mass=settings.pop("estimate_mass", False))
    kernel = make_kernel("hmc", target, 0.1, **settings)
    with pytest.raises(SettingError) as error:
        Chain(kernel, target, plan, random, 2, lambda: target.initial(2, random))
    assert error.value.setting == named


def test_draws_are_every_thin_th_after_the_burn_in():
    plan = Plan(30, burn_in=5, thin=4)
    assert [cycle for cycle in range(1, 31) if plan.draws_after(cycle)] == [9, 13, 17, 21, 25, 29]
    assert [plan.kept(cycle) for cycle in (0, 5, 8, 9, 12, 13, 30)] == [0, 0, 0, 1, 1, 2, 6]


@pytest.mark.parametrize("name", ["nonreversible_with_tuning_for_each_chain", "networks_one_after_the_other"])
def test_each_chain_s_acceptance_is_its_mean_after_the_burn_in(name):
    """Of all before that is over."""
    target, kernel, _, plan = CASES[name]()
    chains, seen = 3, []

    def watched(chain, row):
        seen.append(chain.tally.chances.clone())

    def whole(cycles):
        random, changed = Random(1), replace(plan, cycles=cycles, log_every=1)
        start = target.initial(range(chains), random)
        return run(kernel, target, changed, random, chains, lambda: start, report=watched)

    result = whole(plan.cycles)
    late = [row["accept_prob"] for row in result.rows[plan.burn_in :]]
    assert float(result.accept_prob.mean()) == pytest.approx(sum(late) / len(late), rel=1e-12)
    assert len(set(result.accept_prob.tolist())) == chains
    assert torch.equal(result.accept_prob, seen[-1] / (plan.cycles - plan.burn_in))
    early = [row["accept_prob"] for row in result.rows[: plan.burn_in - 1]]
    assert float(whole(plan.burn_in - 1).accept_prob.mean()) == pytest.approx(sum(early) / len(early), rel=1e-12)
    assert whole(plan.burn_in).accept_prob is None


def test_a_chain_that_diverged_has_no_acceptance():
    target = Quartic(1)
    kernel = make_kernel("ggmc", target, [0.1, 100.0], steps=10, dtype=F64)
    result = run(kernel, target, Plan(20), Random(1), 2, lambda: torch.ones(2, 1, dtype=F64))
    assert result.frozen == [1] and result.accept_prob.isnan().tolist() == [False, True]
    assert 0.9 < float(result.accept_prob[0]) <= 1


def test_a_row_s_speed_is_that_of_its_own_cycles_and_its_step_the_mean_of_the_chains():
    """A clock that goes 1 s a cycle at first, then 4 s: ten steps in 4 s are 2.5 a second, whatever was before."""
    target = Quartic(1)
    kernel = make_kernel("hmc", target, [0.1, 0.4], steps=10, dtype=F64)
    chain = Chain(kernel, target, Plan(4, log_every=2), Random(1), 2, lambda: torch.zeros(2, 1, dtype=F64))
    chain.begin()
    rows = []
    for cycle in range(1, 5):
        chain.advance()
        chain.tally.seconds = float(cycle if cycle < 3 else 2 + 4 * (cycle - 2))
        if cycle % 2 == 0:
            rows.append(chain.row())
    assert [row["steps_per_second"] for row in rows] == pytest.approx([20 / 2, 20 / 8])
    assert rows[0]["step_size"] == pytest.approx(0.25)


def test_the_step_size_of_a_row_is_that_of_its_stair():
    """ℓ falls to a quarter after every two cycles, and h to a half: the certificate's reference does the same."""
    target, schedule = Quartic(1), Schedule("stairs", every=2, factor=0.25)
    kernel = make_kernel("hmc", target, [0.1, 0.3], steps=2, schedule=schedule, dtype=F64)
    result = run(kernel, target, Plan(5), Random(1), 2, lambda: torch.zeros(2, 1, dtype=F64))
    assert [row["step_size"] for row in result.rows] == pytest.approx([0.2, 0.2, 0.1, 0.1, 0.05])


@pytest.mark.parametrize("together", [False, True])
def test_the_fit_of_a_row_is_that_of_the_chains_alive(together):
    """As U is and the quality on other data: one that diverged counts no more, unless all have."""
    target, random = small_network()[0], Random(1)
    if together:
        target.join_chains()
    settings = {"steps": 2, "batch_size": 3, "acceptance": "monitor", "dtype": F64}
    for sizes, alive in (([0.01, 1e200, 0.02], [0, 2]), ([1e200] * 3, [0, 1, 2])):
        kernel = make_kernel("ggmc", target, sizes, **settings)
        chain = Chain(kernel, target, Plan(4), random, 3, lambda: target.initial(3, random))
        chain.begin()
        for _ in range(3):
            chain.advance()
        row, fits = chain.row(), []
        for theta in chain.theta.split(1):
            target.potential(theta)
            fits.append(float(target.fit["train_nll"]))
        assert row["alive"] == len(alive) % 3 and len({round(one, 9) for one in fits}) == 3
        assert row["train_nll"] == pytest.approx(sum(fits[one] for one in alive) / len(alive), rel=1e-9)


def test_the_fit_of_a_row_is_that_of_the_states_over_all_chains():
    """Also after a rejection: U was last evaluated of a proposal that is not kept."""
    data, random = load("digits", train_size=40).train, Random(1)
    target = NetworkPotential(MLP(64, [3]), data, dtype=F64)
    kernel = make_kernel("ggmc", target, 0.05, steps=3, batch_size=10, acceptance="metropolis", dtype=F64)
    chain = Chain(kernel, target, Plan(12), random, 2, lambda: target.initial(2, random))
    chain.begin()
    for _ in range(12):
        chain.advance()
        row, fits = chain.row(), []
        for state in chain.states:
            target.potential(state.theta)
            fits.append(dict(target.fit))
        for key in ("train_nll", "train_accuracy"):
            assert row[key] == pytest.approx((fits[0][key] + fits[1][key]) / 2, rel=1e-9)
    assert 0 < chain.tally.accepted < chain.tally.proposed == 24 and fits[0]["train_nll"] != fits[1]["train_nll"]


def test_a_number_that_a_target_tells_of_all_chains_is_of_states_that_all_took():
    """One number of several chains cannot be taken apart: it stays where one of them has rejected."""

    class Told(Gaussian):
        def potential(self, theta):
            self.fit = {"farthest": float(theta.abs().max())}
            return super().potential(theta)

    target, random = Told(1), Random(2)
    kernel = make_kernel("hmc", target, 1.7, steps=2, dtype=F64)
    chain = Chain(kernel, target, Plan(40), random, 3, lambda: target.exact(3, random))
    chain.begin()
    expected, changes = float(chain.theta.abs().max()), []
    for _ in range(40):
        before = chain.tally.accepted
        chain.advance()
        if chain.tally.accepted == before + 3:
            expected = float(chain.theta.abs().max())
        changes.append(chain.tally.accepted - before)
        assert chain.row()["farthest"] == expected
    assert {2, 3} <= set(changes)


def test_what_a_target_tells_of_its_fit_must_be_numbers():
    class Told(Gaussian):
        def potential(self, theta):
            self.fit = {"farthest": "far"}
            return super().potential(theta)

    with pytest.raises(SettingError, match=r"^fit\['farthest'\]=far: must be a number"):
        sample(Told(1), "hmc", step_size=1.0, cycles=2)


def test_epochs_of_a_ladder_are_by_its_steps():
    target = Quartic(1)
    kernel = make_kernel("hmc", target, 0.3, steps=4, dtype=F64)
    plan = Plan(120, burn_in=110, trajectory=True, epochs_per_cycle=4.0)
    chain = Chain(kernel, target, plan, Random(1), 2, lambda: torch.zeros(2, 1, dtype=F64))
    chain.begin()
    while chain.cycle < 120:
        chain.advance()
    assert chain.row()["epoch"] == pytest.approx(chain.tally.steps) and chain.tally.steps < 4 * 120


def test_all_chains_propose_in_every_cycle_frozen_or_not():
    class Cliff(Quartic):
        def gradient(self, theta, batch=None):
            return torch.where(theta > 1e3, torch.nan, super().gradient(theta, batch))

    target = Cliff(1)
    kernel = make_kernel("hmc", target, 0.1, steps=2, acceptance="monitor", dtype=F64)
    result = run(kernel, target, Plan(5), Random(1), 2, lambda: torch.tensor([[0.0], [2e3]], dtype=F64))
    assert result.frozen == [1] and result.proposed == 10


def test_every_evaluation_of_a_randomly_augmented_u_has_views_of_its_own():
    seen = []

    class Noted(NetworkPotential):
        def potential(self, theta):
            seen.append(self.counter)
            return super().potential(theta)

    target = Noted(MLP(64, [3]), load("digits", train_size=20).train, augmentation="random")
    kernel = make_kernel("ggmc", target, 1e-3, steps=2, batch_size=5)
    random = Random(1)
    chain = Chain(kernel, target, Plan(3), random, 2, lambda: target.initial(2, random))
    chain.begin()
    assert seen == [0, 0]
    for _ in range(3):
        chain.advance()
    assert len(set(seen)) == 1 + 2 * 3  # three cycles of two chains, none the start's


def test_a_second_run_of_a_randomly_augmented_target_is_the_first_again():
    target, random = (
        NetworkPotential(MLP(64, [3]), load("digits", train_size=20).train, augmentation="random"),
        Random(1),
    )
    kernel = make_kernel("ggmc", target, 1e-3, steps=2, batch_size=5, ends="exact")
    first, again = (run(kernel, target, Plan(2), random, 2, lambda: target.initial(2, random)) for _ in range(2))
    assert torch.equal(first.draws, again.draws)
    assert [row["log_accept"] for row in first.rows] == [row["log_accept"] for row in again.rows]


def jump_of_first_rung(target, mass=1.0):
    kernel = make_kernel("hmc", target, 0.2, steps=2, mass=mass, dtype=F64)
    random, burn_in = Random(1), 100
    chain = Chain(
        kernel, target, Plan(120, burn_in=burn_in, trajectory=True), random, 6, lambda: target.initial(6, random)
    )
    chain.begin()
    span, places = chain.adaptation.ladder.span, []
    for _ in range(2 * span):
        places.append(chain.theta)
        chain.advance()
    places.append(chain.theta)
    moves = torch.stack(places).diff(dim=0)[span + span // 2 :]  # the second half of the first rung's span
    return chain.adaptation.ladder.jumps[0], moves


def test_what_a_ladder_compares_is_how_far_moves_are_in_the_mass():
    mass = torch.tensor([9.0, 0.25], dtype=F64)
    jump, moves = jump_of_first_rung(Gaussian(2), mass)
    assert jump == pytest.approx(float((moves.square() * mass).sum(-1).mean(1).sum()), rel=1e-12) and jump > 0


def test_what_gibbs_updates_move_does_not_count_for_a_ladder():
    jump, moves = jump_of_first_rung(MixedBinary(5, sd=0.5))
    assert jump == pytest.approx(float(moves[..., :2].square().sum(-1).mean(1).sum()), rel=1e-12)
    assert moves[..., 2:].any()


@pytest.mark.parametrize("log_every", [1, 3, 10])
def test_the_burn_in_s_decisions_are_counted_apart_wherever_rows_end(log_every):
    """Of 40 cycles of five chains the first 20, which end within a row of three or of ten, or with one."""
    target, random = Quartic(1), Random(3)
    kernel = make_kernel("hmc", target, 1.2, steps=2, dtype=F64)
    result = run(
        kernel, target, Plan(40, burn_in=20, log_every=log_every), random, 5, lambda: target.initial(5, random)
    )
    rows = run(kernel, target, Plan(40), random, 5, lambda: target.initial(5, random)).rows
    early, late = (round(5 * sum(row["accepted"] for row in part)) for part in (rows[:20], rows[20:]))
    assert result.burnt == (early, 100) and (result.accepted, result.proposed) == (early + late, 200)
    assert result.rate == late / 100 != (early + late) / 200


def test_chains_of_which_no_coordinate_moved_are_named_where_that_is_no_chance():
    """The third of three, in 20 draws, where others move oftener than 10 + log 3 = 11.1 times in them."""
    m2 = torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]], dtype=F64)
    given = {
        "proposed": 100,
        "moments": {"count": 20, "mean": m2, "m2": m2},
        "kernel": make_kernel("hmc", Quartic(2), 0.1),
    }
    assert [Result(DONE, accepted=accepted, **given).unmoved for accepted in (55, 56)] == [[], [2]]
    assert Result(DONE, accepted=56, frozen=[2], **given).unmoved == []


def test_chains_that_never_moved_are_found_without_looking_through_the_diverged_for_each():
    """Of a million chains that would be hours."""

    class Chain(int):
        compared = 0

        def __eq__(self, other):
            Chain.compared += 1
            return int(self) == other

        __hash__ = int.__hash__

    m2 = torch.ones(2000, 1, dtype=F64)
    m2[::2] = 0
    moments = {"count": 1000, "mean": m2, "m2": m2}
    given = {"proposed": 40_000, "accepted": 20_000, "moments": moments, "kernel": make_kernel("hmc", Quartic(1), 0.1)}
    result = Result(DONE, frozen=[Chain(chain) for chain in range(0, 1990, 2)], **given)
    assert result.unmoved == list(range(1990, 2000, 2))
    assert Chain.compared <= 1000


def with_sums(target, cycle, sampler="hmc", **settings):
    """A chain of two after so many cycles, in a row whose sums are 1, 2, 3, …, but of 8 trajectories and 5 finite."""
    kernel = make_kernel(sampler, target, 0.1, dtype=F64, **settings)
    theta = torch.tensor([[1.0], [3.0]], dtype=F64).expand(2, target.dim)
    chain = Chain(kernel, target, Plan(4, log_every=2), Random(1), 2, lambda: theta)
    chain.begin()
    chain.cycle, sums = cycle, {name: 1.0 + k for k, name in enumerate(SUMS)} | {"number": 8.0, "finite": 5.0}
    chain.tally.sums = torch.tensor(list(sums.values()), dtype=F64)
    return chain, sums


def test_a_row_divides_each_sum_by_what_it_is_a_sum_over():
    """Changes of energy by proposals that are finite, the rest by all; U a datum by the four data, too."""
    chain, sums = with_sums(FourParts(1), 2)
    row = chain.row()
    for name in ("delta_potential", "delta_kinetic", "log_accept"):
        assert row[name] == sums[name] / 5
    for name in ("potential", "accept_prob", "accepted"):
        assert row[name] == sums[name] / 8
    assert row["potential_per_datum"] == sums["potential"] / 8 / 4 and row["not_finite"] == sums["not_finite"]
    chain, sums = with_sums(LocationMixture(20), 2, acceptance="austerity")
    assert chain.row()["data_per_decision"] == sums["data"] / 8


def test_a_row_takes_its_sums_with_it_only_at_its_regular_end():
    """What was accepted and looked at before stays counted: once more where a row of two cycles ends after one."""
    for cycle in (1, 2):
        chain, sums = with_sums(LocationMixture(20), cycle, acceptance="austerity")
        for _ in range(3):
            chain.row()
            assert (chain.tally.accepted, chain.tally.looked) == tuple(sums[name] for name in ("accepted", "data"))
            assert bool(chain.tally.sums.any()) == (cycle == 1)
        chain.tally.sums += 1.0
        assert (chain.tally.accepted, chain.tally.looked) == (sums["accepted"] + 1, sums["data"] + 1)
        chain.cycle = 2
        chain.row()
        assert (chain.tally.accepted, chain.tally.looked) == (sums["accepted"] + 1, sums["data"] + 1)


def test_where_trajectories_do_not_look_at_u_a_row_s_is_of_the_chains_that_are_alive():
    chain, _ = with_sums(Quartic(1), 2, "sghmc")
    chain.states[0].alive = torch.tensor([True, False])
    assert chain.row()["potential"] == pytest.approx(float(Quartic(1).potential(torch.ones(1, 1, dtype=F64))))


def test_a_ladder_s_steps_and_gradients_are_those_of_each_cycle_s_own_length():
    """HMC's trajectories of L steps take L new gradients of all data, of which two passes are 4 steps.

    Lengths are 4, 2 and 1 in the burn-in.
    """
    target = GeneratedLogistic(20, 2)
    kernel = make_kernel("hmc", target, 0.1, steps=4, dtype=F64)
    plan = Plan(60, burn_in=50, trajectory=True, tune=0.8, epochs_per_cycle=2.0)
    chain = Chain(kernel, target, plan, Random(1), 2, lambda: target.initial(range(2), Random(1)).double())
    chain.begin()
    lengths_run = []
    for cycle in range(60):
        lengths_run.append(chain.kernel.steps)
        chain.advance()
        if cycle in (25, 35, 59):
            assert chain.row()["epoch"] == sum(lengths_run) / 2
    assert {*lengths_run} == {4, 2, 1}
    assert chain.tally.steps == chain.tally.gradients == chain.evaluated[0] == sum(lengths_run)


@pytest.mark.parametrize("keep", ["all", 3])
def test_draws_that_wait_are_few_tensors_in_their_order(keep):
    """A tensor of its own takes hundreds of bytes; only the last draws stay where only they are kept."""
    plan, number = Plan(cycles=3 * AT_ONCE, keep=keep), 2 * AT_ONCE + 5
    unwritten = Unwritten(plan, None)
    for draw in range(number):
        unwritten.add_draw(torch.full((2, 1), float(draw)))
    assert len(unwritten.draws) == (2 + 5 if keep == "all" else keep)
    first = 0 if keep == "all" else number - keep
    wanted = torch.arange(float(first), number)[:, None, None].expand(-1, 2, 1)
    assert torch.equal(torch.cat(unwritten.draws), wanted)
