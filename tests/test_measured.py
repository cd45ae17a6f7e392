"""What a row of metrics, a trace and a ladder are made of: every number by hand, or by a plain loop."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from sgmcmc.data.minibatches import Minibatches
from sgmcmc.diagnostics import Ensemble
from sgmcmc.errors import SettingError
from sgmcmc.kernel import make_kernel
from sgmcmc.ladder import Ladder, check, lengths, scaled, steps_of_epochs, tuned, with_steps
from sgmcmc.measured import MASS_BATCHES, diagnostic_gradient, estimated_mass, observer, predicted, temperatures
from sgmcmc.plan import Plan
from sgmcmc.potentials.analytic import Gaussian, Quartic
from sgmcmc.potentials.regression import GeneratedLogistic
from sgmcmc.progress import SUMS, Moments, Unfinished, Unwritten, summed, traced
from sgmcmc.random import Random
from sgmcmc.trajectory import Place, Record, State, UnderWay
from sgmcmc.words import Word

F64 = torch.float64


def tensor(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=F64)


def chains_at(theta, momentum, alive, gradient=None) -> State:
    """Chains of which the position, the momentum and who is alive are given."""
    none = torch.empty(0, dtype=F64)
    return State(theta, momentum, none, gradient, none, none, torch.tensor(alive))


# ---- temperatures


def test_temperatures_are_means_over_what_moves_and_who_is_alive():
    """The second coordinate has no momentum and another update, the second chain has diverged."""
    target = SimpleNamespace(moves=torch.tensor([True, False, True]))
    kernel = SimpleNamespace(temperature=1.0, inverse_mass=tensor(0.5, 7.0, 2.0))
    theta = tensor([1.0, 9.0, 2.0], [5.0, 5.0, 5.0], [-1.0, 9.0, 3.0])
    gradient = tensor([3.0, 9.0, 0.5], [5.0, 5.0, 5.0], [2.0, 9.0, 4.0])
    state = chains_at(theta, tensor([2.0, 9.0, 1.0], [8.0, 8.0, 8.0], [1.0, 9.0, -3.0]), [True, False, True])
    # Chain 0: (4/2 + 2·1)/2 and (3 + 1)/2; chain 2: (1/2 + 2·9)/2 and (−2 + 12)/2.
    wanted = {"kinetic_temperature": (2 + 9.25) / 2, "configurational_temperature": (2 + 5) / 2}
    assert temperatures(kernel, target, [state], [gradient]) == pytest.approx(wanted)
    one_mass = SimpleNamespace(temperature=1.0, inverse_mass=0.25)
    wanted["kinetic_temperature"] = (5 + 10) / 2 / 2 / 4
    assert temperatures(one_mass, target, [state], [gradient]) == pytest.approx(wanted)
    target.std = tensor(1.0, 1.0, math.inf)  # of the first coordinate alone: (3 − 2)/2
    wanted["configurational_temperature"] = 0.5
    assert temperatures(one_mass, target, [state], [gradient]) == pytest.approx(wanted)


@pytest.mark.parametrize("mass", ["each", "one"])
def test_temperatures_of_networks_tensor_by_tensor(mass):
    """⟨θ, ∇U⟩ leaves out the flat prior's tensor; the share inside counts tensors, each with its own size's interval.

    Whether a tensor is inside is read off χ²'s distribution function here, ends of .5 % cut off.
    """
    sizes, heat = (1, 4, 2), 1.6
    ends = np.cumsum((0, *sizes))
    blocks = [(f"part{k}", slice(int(ends[k]), int(ends[k + 1]))) for k in range(3)]
    std = tensor(1.0, *[math.inf] * 4, 2.0, 2.0)
    target = SimpleNamespace(together=False, blocks=blocks, std=std)
    rng = np.random.default_rng(0)
    inverse = rng.uniform(0.2, 3, 7) if mass == "each" else np.full(7, 0.7)
    kernel = SimpleNamespace(temperature=heat, inverse_mass=torch.from_numpy(inverse) if mass == "each" else 0.7)
    states, slopes, kinetic, configurational, inside = [], [], [], [], []
    for chain in range(60):
        theta, m, slope = rng.standard_normal((3, 7))
        m *= math.sqrt(heat) * rng.choice([0.05, 0.6, 1.4, 2.2], 7) / inverse**0.5  # many are near an interval's ends
        alive = chain % 7 != 3
        states.append(chains_at(*(torch.from_numpy(one[None]) for one in (theta, m)), [alive]))
        slopes.append(torch.from_numpy(slope[None]))
        if not alive:
            continue
        kinetic.append(sum(inverse[i] * m[i] ** 2 for i in range(7)) / 7)
        configurational.append(sum(theta[i] * slope[i] for i in (0, 5, 6)) / 3)
        for _, where in blocks:
            below = stats.chi2.cdf((inverse[where] * m[where] ** 2).sum() / heat, where.stop - where.start)
            inside.append(0.005 <= below <= 0.995)
    assert 0.5 < np.mean(inside) < 0.95
    assert temperatures(kernel, target, states, slopes) == pytest.approx(
        {
            "kinetic_temperature": np.mean(kinetic),
            "configurational_temperature": np.mean(configurational),
            "kinetic_inside": np.mean(inside),
        }
    )


# ---- gradients of diagnostics, and the mass


class Lines:
    """A network's stand-in: ∇U of a batch is θ (1 + its indices' mean/N), of all data −θ; it keeps its batches."""

    def __init__(self, data_size=1000, **more):
        self.data_size, self.dim, self.seen = data_size, 5, []
        self.__dict__.update(more)

    def gradient(self, theta, batch=None):
        if batch is None:
            return -theta
        self.seen.append(batch)
        return theta * (1 + batch.double().mean(1, keepdim=True) / self.data_size)


def of_batches(points, **changes):
    return SimpleNamespace(points=points, batches=Minibatches("shuffled", 1000, 5, 7), **changes)


@pytest.mark.parametrize(("points", "number"), [(5, 1), (39, 1), (40, 2), (99, 4), (640, 32), (5000, 32)])
def test_a_network_s_diagnostic_gradient_is_the_mean_of_a_twentieth_of_a_cycle_s_batches(points, number):
    target, state = Lines(together=False), chains_at(tensor([1.0, -2.0, 3.0, 0.5, 4.0]), None, [True])
    slope = diagnostic_gradient(of_batches(points), target, state, Random(1), 3, range(2, 3))
    assert len(target.seen) == number and all(batch.shape == (1, 5) for batch in target.seen)
    mean = np.mean([batch.double().mean() for batch in target.seen]) / 1000
    np.testing.assert_allclose(slope, state.theta * (1 + mean))


def test_a_diagnostic_gradient_is_the_full_one_where_it_is_known_or_cheap():
    given = tensor([9.0, 9.0, 9.0, 9.0, 9.0])
    state = chains_at(tensor([1.0, 2.0, 3.0, 4.0, 5.0]), None, [True], given)
    arguments = Random(1), 0, range(1)
    assert diagnostic_gradient(of_batches(60), Lines(together=False), state, *arguments) is given
    state = replace(state, gradient=None)
    for target, batches in ((Lines(), of_batches(60).batches), (Lines(together=False), None)):
        kernel = SimpleNamespace(points=60, batches=batches)
        assert torch.equal(diagnostic_gradient(kernel, target, state, *arguments), -state.theta)
        assert not target.seen


def test_no_two_batches_of_diagnostics_are_the_same_ones_nor_a_trajectory_s():
    """Of all cycles, of all chains, of the mass and of the gradient: five of a thousand data, alike by chance never."""
    target, random, kernel = Lines(together=False), Random(1), of_batches(60)
    kernel.batches = kernel.batches.independent(4)
    state = chains_at(torch.ones(1, 5, dtype=F64), None, [True])
    alive = torch.ones(2, dtype=torch.bool)
    for cycle in range(3):
        for chain in range(2):
            diagnostic_gradient(kernel, target, state, random, cycle, range(chain, chain + 1))
        estimated_mass(kernel, target, torch.ones(2, 5, dtype=F64), alive, random, cycle, [range(1), range(1, 2)])
    assert len(target.seen) == 3 * 2 * (3 + 32)
    for trajectory in (*range(5), *range(120, 130)):
        batches = kernel.batches.draw(random, trajectory, torch.arange(2))
        target.seen += [batches(point)[chain] for point in range(4) for chain in range(2)]
    assert len({tuple(batch.flatten().tolist()) for batch in target.seen}) == len(target.seen)


@pytest.mark.parametrize("parts", ["tensors", "coordinates", "some that move"])
def test_the_mass_is_the_root_of_the_mean_squared_gradient_of_u_a_datum(parts):
    """Over 32 batches, over who is alive and over the tensor, with 1e-7 added to it, divided by the smallest."""
    more = {"tensors": {"blocks": [("a", slice(0, 3)), ("b", slice(3, 5))]}, "coordinates": {}}.get(parts)
    moves = [True, True, False, True, False] if more is None else [True] * 5
    target = Lines(**({"moves": torch.tensor(moves)} if more is None else more))
    theta = tensor(
        [0.1, 60.0, 0.0, 7.0, 1e-9],
        [0.5, -9.0, 0.0, 3.0, 2e-9],
        [99.0, 99.0, 99.0, 99.0, 99.0],
        [-2.0, 45.0, 0.0, -1.0, 3e-9],
    )
    alive, groups = torch.tensor([True, True, False, True]), [range(0, 1), range(1, 4)]
    seen = []
    target.gradient = lambda rows, batch: seen.append((rows, batch)) or Lines.gradient(target, rows, batch)
    mass = estimated_mass(of_batches(60), target, theta, alive, Random(2), 5, groups)
    assert len(seen) == 2 * 32 == 2 * MASS_BATCHES and mass.dtype == F64
    squares = np.zeros((32, 3, 5))
    for number in range(32):
        first, rest = seen[2 * number][1], seen[2 * number + 1][1]
        assert first.shape == (1, 5) and rest.shape == (3, 5)
        factors = [1 + np.mean(batch.numpy()) / 1000 for batch in (first[0], rest[0], rest[2])]
        for row, chain in enumerate((0, 1, 3)):
            squares[number, row] = (theta[chain].numpy() * factors[row] / 1000) ** 2
    mean = squares.mean((0, 1))
    if parts == "tensors":
        mean = np.array([mean[:3].mean()] * 3 + [mean[3:].mean()] * 2)
    root = np.sqrt(mean + 1e-7)
    wanted = np.where(moves, root / root[moves].min(), 1)
    assert wanted.max() > 5
    np.testing.assert_allclose(mass.numpy(), wanted, rtol=1e-12)


def test_the_mass_of_a_target_without_data_is_that_of_its_own_gradient():
    """Of N(0, Σ) from two points; U is not divided by anything, and one full gradient is enough."""
    target = Gaussian(covariance=[4.0, 0.25])
    theta = tensor([2.0, 1.0], [4.0, -0.5])
    kernel = SimpleNamespace(batches=None)
    mass = estimated_mass(kernel, target, theta, torch.tensor([True, True]), Random(1), 0, [range(2)])
    squares = (0.25 + 1) / 2, (16 + 4) / 2
    assert mass.tolist() == pytest.approx([1, math.sqrt((squares[1] + 1e-7) / (squares[0] + 1e-7))], rel=1e-12)


# ---- predictions


MEMBERS = tensor(
    [[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]], [[0.1, 0.1, 0.8], [0.1, 0.8, 0.1]], [[0.5, 0.1, 0.4], [0.6, 0.15, 0.25]]
)
LABELS = torch.tensor([0, 1])
EARLIER = tensor([0.2, 0.2, 0.6], [0.1, 0.5, 0.4])


def ensemble_of(*members) -> Ensemble:
    ensemble = Ensemble(2, 3)
    for member in members:
        ensemble.add(member)
    return ensemble


def test_predictions_of_who_is_alive_join_the_ensemble():
    """Two of three chains live; with an earlier draw the ensemble has three members."""
    ensemble = ensemble_of(EARLIER)
    row = predicted(MEMBERS, LABELS, torch.tensor([True, False, True]), ensemble, True)
    joint = np.array([[1.4, 0.5, 1.1], [1.0, 0.95, 1.05]]) / 3
    np.testing.assert_allclose(ensemble.probabilities, joint)
    wanted = {
        "nll": -(math.log(0.7) + math.log(0.3) + math.log(0.5) + math.log(0.15)) / 4,
        "accuracy": 0.5,  # both first data, neither second one
        "ensemble_nll": -(math.log(1.4 / 3) + math.log(0.95 / 3)) / 2,
        "ensemble_accuracy": 0.5,
        # (p − 1)² of the label and p² of the others
        "ensemble_brier": (1.6**2 + 0.5**2 + 1.1**2 + 1.0**2 + 2.05**2 + 1.05**2) / 9 / 2,
        # of 15 bins 1.4/3 is in the 7th, 1.05/3 in the 6th
        "ensemble_ece": (1.6 / 3 + 1.05 / 3) / 2,
        "ensemble_entropy": -sum(p * math.log(p) for p in joint.flatten()) / 2,
    }
    assert row == pytest.approx(wanted)


def test_before_a_sample_counts_and_where_no_chain_lives_the_ensemble_stays():
    nobody, all_of_them = torch.zeros(3, dtype=torch.bool), torch.ones(3, dtype=torch.bool)
    single = -np.log([0.7, 0.3, 0.1, 0.8, 0.5, 0.15]).mean()
    for alive, counts in ((all_of_them, False), (nobody, True)):
        empty, begun = ensemble_of(), ensemble_of(EARLIER)
        row = predicted(MEMBERS, LABELS, alive, empty, counts)
        assert (row["nll"], row["accuracy"]) == pytest.approx((single, 0.5)) and int(empty.count) == 0
        assert all(math.isnan(value) for key, value in row.items() if key.startswith("ensemble_")) and len(row) == 7
        row = predicted(MEMBERS, LABELS, alive, begun, counts)
        assert row["ensemble_nll"] == pytest.approx(-(math.log(0.2) + math.log(0.5)) / 2) and int(begun.count) == 1


def test_without_labels_there_are_entropies():
    ensemble = ensemble_of(EARLIER)
    alive = torch.tensor([False, True, True])
    row = predicted(MEMBERS, None, alive, ensemble, True)
    joint = np.array([[0.8, 0.4, 1.8], [0.8, 1.45, 0.75]]) / 3
    single = -(MEMBERS[1:] * MEMBERS[1:].log()).sum() / 4
    assert row == pytest.approx({"entropy": float(single), "ensemble_entropy": -(joint * np.log(joint)).sum() / 2})


# ---- a traced cycle


class Parabola:
    """U = Σ θ²/2, from a minibatch 100 more."""

    data_size = 8

    def potential(self, theta):
        return theta.square().sum(-1) / 2

    def estimate(self, theta, batch):
        return self.potential(theta) + 100


@pytest.mark.parametrize("evaluates", [True, False])
def test_a_traced_point_is_log_mh_were_the_trajectory_to_end_there(evaluates):
    """−(U − U₀ + ΣΔK)/T of every chain at every second point and the last; U is a minibatch's where that is all there
    is, and U₀ is evaluated anew where the kernel knows none."""
    begun = tensor(3.0, 4.0)
    state = replace(chains_at(tensor([1.0, 0.0, 2.0], [2.0, 1.0, 1.0]), None, [True, True]), potential=begun)
    if not evaluates:
        state.potential, begun = begun * math.nan, tensor(2.5, 3.0)
    kernel = SimpleNamespace(
        word=Word("BAB"), evaluates=evaluates, inverse_mass=tensor(1.0, 2.0, 0.5), points=6, temperature=2.0
    )
    kernel.impossible, trace = None, []
    observe = observer(kernel, Parabola(), state, range(4, 6), 2, 9, 40, trace)
    batch = torch.zeros(2, 3, dtype=torch.int64)
    for point in range(6):
        theta = tensor([0.0, 2.0, point], [4.0, 0.0, 0.0])
        m = tensor([1.0, 3.0, 2.0], [point, 2.0, 0.0])
        observe(point, theta, m, tensor(0.5, -7.0), batch if point in (2, 3) else None)
    wanted = []
    for point in (0, 2, 4, 5):
        shift = 100 if point == 2 else 0
        energies = 2 + point**2 / 2 + shift, 8 + shift
        heats = (1 + 18 + 2) / 3, (point**2 + 8) / 3
        for chain, energy, change, heat, first in zip((4, 5), energies, (0.5, -7.0), heats, begun, strict=True):
            wanted.append([9, chain, 40 + point, int(not shift), -(energy - first + change) / 2, energy / 8, heat])
    columns = ["cycle", "chain", "step", "exact", "log_accept", "potential_per_datum", "kinetic_temperature"]
    rows = traced(trace)
    assert all(list(row) == columns for row in rows)
    np.testing.assert_allclose([list(row.values()) for row in rows], np.array(wanted, dtype=float))
    assert all(type(value) in (int, float) for row in rows for value in row.values())


def test_a_traced_point_of_a_target_without_data_or_at_temperature_zero():
    """Artificial noise is no data: U is exact, and as it is; at T = 0 log MH is impossible, wherever a step goes."""
    target = Quartic(2, noise=1.0)
    state = replace(chains_at(torch.zeros(1, 2, dtype=F64), None, [True]), potential=tensor(1.0))
    for temperature, work, log_mh in ((0.5, 0.25, -(6.0 - 1.0 + 0.25) / 0.5), (0.0, -9.0, -math.inf)):
        kernel = SimpleNamespace(word=Word("BAB"), evaluates=True, inverse_mass=4.0, points=3, temperature=temperature)
        kernel.impossible = make_kernel("ggmc", target, 0.1, steps=3, temperature=temperature).impossible
        trace, theta = [], tensor([1.0, 2.0])
        energy = target.potential(theta)
        observe = observer(kernel, target, state, range(1), 1, 1, 0, trace)
        observe(1, theta, tensor([1.0, 3.0]), tensor(6.0 + work) - energy, tensor([0.1, 0.2]))
        (row,) = traced(trace)
        assert row["exact"] == 1 and row["kinetic_temperature"] == 20
        assert row["potential_per_datum"] == float(energy)
        assert row["log_accept"] == pytest.approx(log_mh)


def test_a_traced_temperature_is_of_what_moves_and_log_mh_that_cannot_be_had_is_none():
    """As in the rows: the momentum of the others is 0, and would make all of it colder."""
    target = SimpleNamespace(moves=torch.tensor([True, False, True]), data_size=0, potential=lambda x: x.sum(-1))
    state = replace(chains_at(torch.zeros(1, 3, dtype=F64), None, [True]), potential=tensor(0.0))
    for inverse_mass, heat in ((tensor(4.0, 9.0, 0.25), (4 * 4 + 9 / 4) / 2), (2.0, (2 * 4 + 2 * 9) / 2)):
        kernel = SimpleNamespace(word=Word("BAB"), evaluates=True, inverse_mass=inverse_mass, points=3, temperature=1.0)
        kernel.impossible, trace = "no way back", []
        observer(kernel, target, state, range(1), 1, 1, 0, trace)(
            1, tensor([1.0, 2.0, 3.0]), tensor([2.0, 0.0, 3.0]), tensor(0.5), None
        )
        assert traced(trace)[0]["kinetic_temperature"] == heat and traced(trace)[0]["log_accept"] == -math.inf


# ---- sums of a row, moments, the cycle under way


def test_a_row_s_sums_are_over_who_lives_and_changes_of_u_over_what_is_finite():
    """Accepted; rejected; not finite and rejected; diverged (under monitor); accepted by a kernel without log MH."""
    inf, nan = math.inf, math.nan
    record = Record(
        potential=tensor(1.0, 2.0, 4.0, 1000.0, 16.0),
        delta_potential=tensor(0.5, 3.0, inf, 1000.0, nan),
        delta_kinetic=tensor(-0.25, 1.0, 1.5, nan, 2.0),
        log_accept=tensor(-0.25, -4.0, -inf, -inf, -inf),
        accept_prob=tensor(0.8, 0.02, 0.0, 0.7, 0.4),
        accepted=torch.tensor([True, False, False, False, True]),
        proposal=torch.zeros(5, 2),
        data=tensor(10.0, 20.0, 40.0, 1000.0, 80.0),
    )
    sums = summed(record, torch.ones(5, dtype=torch.bool), torch.tensor([True, True, True, False, True]))
    assert sums.dtype == F64
    assert dict(zip(SUMS, sums.tolist(), strict=True)) == pytest.approx(
        {
            "delta_potential": 3.5,  # of the first two; of the last it is not known
            "delta_kinetic": 2.75,  # and of the last
            "log_accept": -4.25,
            "potential": 23,
            "accept_prob": 1.22,
            "accepted": 2,
            "number": 4,
            "finite": 3,
            "not_finite": 2,
            "data": 150,
        }
    )


@pytest.mark.parametrize("change", [-9.0, math.inf, math.nan])
def test_a_chain_that_has_diverged_is_in_no_sum_be_it_finite_again_or_not(change):
    """What it proposes from where it stands still is not taken."""
    numbers = tensor([2.0, 7.0], [0.5, change], [0.25, 9.0], [-0.75, 0.0], [0.5, 1.0])
    record = Record(*numbers, accepted=torch.tensor([True, False]), proposal=torch.zeros(2, 1), data=tensor(10.0, 20.0))
    alive = torch.tensor([True, False])
    sums = dict(zip(SUMS, summed(record, alive, alive).tolist(), strict=True))
    assert sums == {
        "delta_potential": 0.5, "delta_kinetic": 0.25, "log_accept": -0.75, "potential": 2.0, "accept_prob": 0.5,
        "accepted": 1.0, "number": 1.0, "finite": 1.0, "not_finite": 0.0, "data": 10.0,
    }  # fmt: skip


def test_running_moments_are_those_of_the_draws_that_count():
    rng = np.random.default_rng(1)
    draws, counts = 50 + rng.exponential(size=(9, 3, 2)) * [1, 30], np.array([1, 0, 1, 1, 0, 0, 1, 1, 1.0])
    moments = Moments.none(torch.zeros(3, 2))
    assert moments.values() == {} and moments.counting(torch.ones(3, 2), 0.0).values() == {}
    for draw, weight in zip(draws, counts, strict=True):
        moments = moments.counting(torch.from_numpy(draw), torch.tensor(weight, dtype=F64))
    values, kept = moments.values(), draws[counts > 0]
    assert values["count"] == 6 and type(values["count"]) is int and values["mean"].dtype == F64
    np.testing.assert_allclose(values["mean"], kept.mean(0), rtol=1e-13)
    np.testing.assert_allclose(values["m2"], ((kept - kept.mean(0)) ** 2).sum(0), rtol=1e-10)


@pytest.mark.parametrize(("minutes", "seconds"), [(5.0, 300.0), (0.5, 30.0)])
def test_a_long_cycle_is_written_after_so_many_minutes(minutes, seconds, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("sgmcmc.progress.time.perf_counter", lambda: now[0])
    unwritten, never, memory = (
        Unwritten(Plan(1, save_minutes=some), store)
        for some, store in ((minutes, "a store"), (0, "a store"), (minutes, None))
    )
    for passed, due in ((0.99 * seconds, False), (1.01 * seconds, True)):
        now[0] = 1000 + passed
        assert (unwritten.long_ago, never.long_ago, memory.long_ago) == (due, False, False)


@pytest.mark.parametrize(("cost", "pause"), [(0.001, 1.0), (0.5, 25.0), (10.0, 300.0)])
def test_blocks_take_a_fiftieth_of_the_time_and_come_once_a_second_at_most(cost, pause, monkeypatch):
    """Or after 32 MiB of draws, many rows or five minutes, where their number is not said."""
    now = [1000.0]
    monkeypatch.setattr("sgmcmc.progress.time.perf_counter", lambda: now[0])

    def commit(*_):
        now[0] += cost

    by_time, by_number = (Unwritten(Plan(9, save_every=every), SimpleNamespace(commit=commit)) for every in (None, 3))
    by_time.write(dict)
    written = now[0]
    for passed, due in ((0.99 * pause, False), (1.01 * pause, True)):
        now[0] = written + passed
        assert by_time.due(1) == due and (by_number.due(1), by_number.due(3)) == (False, True)
    for waiting in (by_time.rows, by_time.trace):  # whose writing may take more than its fiftieth, however often
        by_time.write(dict)
        waiting += [{}] * (1 << 16)
        assert not by_time.due(1)
        waiting.append({})
        assert by_time.due(1)
    by_time.write(dict)
    by_time.add_draw(torch.zeros(1, 1 << 23))
    assert not by_time.due(1)
    by_time.add_draw(torch.zeros(1, 1))
    assert by_time.due(1)


def test_a_cycle_under_way_is_kept_with_the_points_that_are_behind_it():
    """Two chains are through, the third stands before its sixth gradient, seen at its fourth and at its seventh."""

    def place(way, point):
        return Place(way, point, *(torch.full((1, 2), float(point + k)) for k in range(3)), tensor(0.5))

    rows = [{"chain": chain, "step": step} for chain, step in ((0, 20), (1, 31), (2, 23), (2, 25), (2, 26), (2, 27))]
    rows = [row | {"log_accept": tensor(-1.5)[0]} for row in rows]
    states = [chains_at(torch.full((2, 2), 3.0), torch.ones(2, 2), [True, False])]
    under_way = UnderWay([place(1, 4), place(0, 6)])
    unfinished = Unfinished(states, [{"train_nll": 1.0}], [tensor(0.5, 0.25)], tensor(1.0, 2.0), rows, under_way)
    assert unfinished.point == 6 and Unfinished([], [], [], tensor(0.0), []).point == 0
    values = unfinished.values(20)
    assert [(row["chain"], row["step"]) for row in values["trace"]] == [(0, 20), (1, 31), (2, 23), (2, 25)]
    assert all(row["log_accept"] == -1.5 for row in values["trace"])
    again = Unfinished.of(values, torch.device("cpu"))
    assert again.point == 6 and set(again.under_way.places) == {0, 1}
    assert torch.equal(again.under_way.places[0].theta, torch.full((1, 2), 6.0))
    assert torch.equal(again.states[0].theta, states[0].theta) and again.states[0].gradient is None
    assert again.fits == [{"train_nll": 1.0}] and torch.equal(again.sums, tensor(1.0, 2.0))
    assert torch.equal(again.probabilities[0], tensor(0.5, 0.25))


# ---- the ladder


def test_a_step_of_tuning_is_the_miss_over_the_count_to_the_0_6():
    probability = tensor(0.9, 0.1, math.nan)
    assert tuned(tensor(1.0), probability, 0.7, 32).tolist() == pytest.approx([1 + (1 / 3 - 0.7) / 8])  # 32^.6 = 8
    each = tuned(tensor(1.0, 2.0, 3.0), probability, 0.7, 32).tolist()
    assert each == pytest.approx([1 + 0.2 / 8, 2 - 0.6 / 8, 3 - 0.7 / 8])
    assert tuned(tensor(0.0), tensor(0.25), 0.5, 1).tolist() == [-0.25]


def test_a_scaled_kernel_has_its_step_times_the_exponential_of_the_factor():
    kernel = make_kernel("hmc", Quartic(2), 0.3, steps=4)
    one = scaled(kernel, tensor(math.log(2.0))).step_size
    assert type(one) is float and one == pytest.approx(0.6)
    each = scaled(make_kernel("hmc", Quartic(2), [0.1, 0.3], steps=4), tensor(math.log(2.0), math.log(3.0))).step_size
    assert each.shape == (2, 1) and each.flatten().tolist() == pytest.approx([0.2, 0.9])


def driven(kernel, target_of, burn_in, cost):
    """A ladder and, rung after rung, what it must come to: log factors, sums of jumps and the choice.

    The mean acceptance of cycle i and its jump are fixed sequences of i. ``cost(steps)`` is a rung's cost.
    """
    target = Quartic(2) if kernel.gradient == "full" else Gaussian(2, noise=1.0)
    ladder = Ladder(kernel, target, burn_in, target_of, 1.0)
    acceptance = [0.5 + 0.4 * math.sin(i) for i in range(burn_in)]
    jump = [1.0 + (7 * i % 11) / 5 for i in range(burn_in)]
    highest = 0.5 if kernel.acceptance == "barker" else 1.0
    goals = [highest * rate for rate in (0.25, 0.5, 0.8)] if target_of is None else [target_of]
    rungs = [(steps, goal) for steps in (4, 2, 1) for goal in goals]
    span = burn_in // (len(rungs) + 2)
    factors, sums, ran = [], [], [None] * burn_in

    def tune(begin, goal, cycles, count):
        for number, cycle in enumerate(cycles):
            ran[cycle] = begin
            begin += (acceptance[cycle] - goal) / (count + number) ** 0.6
        return begin

    for number, (steps, goal) in enumerate(rungs):
        if number == 0:
            begin, cycles = 0.0, range(2 * span)
        else:
            cycles = range((number + 1) * span, (number + 2) * span)
            longer = number - len(goals)
            begin = factors[max(longer, 0)] if longer >= 0 else factors[number - 1]
            if longer >= 0 and kernel.gradient == "minibatch":
                begin += math.log(rungs[longer][0] / steps) / 2
        factors.append(tune(begin, goal, cycles, 1))
        sums.append(sum(jump[(number + 1) * span + span // 2 : (number + 2) * span]))
    rates = [total / cost(steps) for total, (steps, _) in zip(sums, rungs, strict=True)]
    chosen = int(np.argmax(rates))
    factors[chosen] = tune(factors[chosen], rungs[chosen][1], range((len(rungs) + 1) * span, burn_in), span + 1)
    which = [max(min(cycle // span - 1, len(rungs)), 0) for cycle in range(burn_in)]
    which = [chosen if number == len(rungs) else number for number in which]
    for cycle in range(burn_in):
        steps, now = ladder.kernel(cycle).steps, ladder.kernel(cycle).step_size
        assert steps == rungs[which[cycle]][0] and now == pytest.approx(0.3 * math.exp(ran[cycle])), cycle
        spread = 0.05 * (-1) ** cycle
        ladder.saw(cycle, tensor(acceptance[cycle] - spread, acceptance[cycle] + spread), jump[cycle])
    assert ladder.rungs == rungs and ladder.span == span
    assert ladder.tuning.flatten().tolist() == pytest.approx(factors) and ladder.jumps == pytest.approx(sums)
    for cycle in (burn_in, burn_in + 1, 10 * burn_in):
        assert ladder.rung(cycle) == chosen
        assert ladder.kernel(cycle).step_size == pytest.approx(0.3 * math.exp(factors[chosen]))
    return ladder, chosen


@pytest.mark.parametrize("gradient", ["full", "minibatch"])
@pytest.mark.parametrize("acceptance", ["metropolis", "barker"])
def test_a_ladder_climbs_span_by_span(gradient, acceptance):
    """Nine rungs and two spans of 15 cycles, and six that are left, which the choice has."""
    target = Gaussian(2, noise=1.0) if gradient == "minibatch" else Quartic(2)
    kernel = make_kernel("hmc", target, 0.3, steps=4, gradient=gradient, acceptance=acceptance)
    # Gradients of 4 steps of BAB are 5, the first known from before where they are full; and U of the end.
    cost = (lambda steps: steps + 2) if gradient == "minibatch" else (lambda steps: steps + 1)
    ladder, chosen = driven(kernel, None, 171, cost)
    assert ladder.costs == [cost(steps) for steps in (4, 2, 1) for _ in range(3)] and chosen >= 6


def test_a_ladder_with_one_target_has_one_rung_a_length():
    kernel = make_kernel("hmc", Quartic(2), 0.3, steps=4)
    ladder, _ = driven(kernel, 0.65, 64, lambda steps: steps + 1)
    assert ladder.rungs == [(4, 0.65), (2, 0.65), (1, 0.65)]


def test_a_ladder_tunes_each_chain_by_its_own_where_each_has_its_step():
    kernel = make_kernel("hmc", Quartic(2), [0.1, 0.3], steps=2)
    ladder = Ladder(kernel, Quartic(2), 80, None, 1.0)
    for cycle in range(20):
        ladder.saw(cycle, tensor(0.25, 0.5), 1.0)
    risen = sum(0.25 / count**0.6 for count in range(1, 21))
    assert ladder.tuning.shape == (6, 2) and ladder.tuning[0].tolist() == pytest.approx([0, risen])
    sizes = ladder.kernel(20).step_size  # of the second rung, which begins where the first has ended
    assert sizes.flatten().tolist() == pytest.approx([0.1, 0.3 * math.exp(risen)])


def test_a_ladder_stands_on_spans_of_ten_cycles():
    kernel = make_kernel("hmc", Quartic(2), 0.3, steps=7)
    assert lengths(kernel) == [7, 3, 1]
    assert Ladder(kernel, Quartic(2), 110, None, 1.0).span == 10
    with pytest.raises(SettingError, match="tries 9 settings in it: give at least 110, or fewer") as error:
        Ladder(kernel, Quartic(2), 109, None, 1.0)
    assert error.value.setting == "burn_in"


def test_steps_of_epochs_take_whole_ones_or_a_batch_more_or_are_none():
    """Two gradients a step: of five batches six, of ten all; three: of four nothing, of eight nine, of twelve all.

    No length is rounded down to a part of an epoch.
    """

    def steps(a_step, per_epoch, epochs):
        word = SimpleNamespace(gradient_points=lambda number: a_step * number)
        batches = SimpleNamespace(per_epoch=per_epoch, extra=0)
        return steps_of_epochs(SimpleNamespace(batches=batches, word=word, exact_ends=0), epochs)

    assert [steps(2, 5, epochs) for epochs in (1, 2)] == [3, 5]
    assert [steps(3, 4, epochs) for epochs in (1, 2, 3)] == [None, 3, 4]


def test_a_rung_s_minibatches_are_as_many_as_its_steps_need():
    """Three steps of OBABO have four gradients, two of them exact; one step has its ends alone, and no minibatch."""
    target = GeneratedLogistic(100, 2)
    settings = {"batch_size": 20, "acceptance": "metropolis", "gradient": "minibatch", "dtype": F64}
    kernel = make_kernel("ggmc", target, 0.1, steps=6, **settings)
    exact = make_kernel("ggmc", target, 0.1, steps=6, ends="exact", **settings)
    for steps, points in ((6, 7), (3, 4), (1, 2)):
        rung = with_steps(kernel, steps)
        assert (rung.steps, rung.batches.points, rung.batches.batch_size) == (steps, points, 20)
        rung = with_steps(exact, steps)
        assert rung.steps == steps and (rung.batches.points if steps > 1 else rung.batches) == (points - 2 or None)


@pytest.mark.parametrize(
    ("settings", "mass", "why"),
    [
        ({"steps": 1}, False, "a trajectory of 1 step has no other length"),
        ({"acceptance": "monitor"}, False, "nothing to choose by: every end is taken"),
        ({"acceptance": "monitor", "temperature": 0.0}, False, "to choose by: log MH needs temperature > 0"),
        ({"acceptance": "barker_minibatch"}, False, "what a decision costs is not known before"),
        ({}, True, "with tune.trajectory would measure each length's moves by another mass: leave one"),
        ({"minibatches": "shuffled", "batch_size": 10}, False, "of a part of an epoch have one length"),
        ({"minibatches": "shuffled"}, False, "a trajectory of one shuffled epoch has no other length"),
        ({"minibatches": "shuffled", "steps": 9}, False, None),  # two epochs of five batches
        ({}, False, None),
        ({"gradient": "full", "batch_size": None, "steps": 2}, False, None),
    ],
)
def test_a_length_is_chosen_where_there_are_others_and_something_to_choose_by(settings, mass, why):
    settings = {"steps": 4, "acceptance": "metropolis", "batch_size": 20, "gradient": "minibatch", **settings}
    kernel = make_kernel("ggmc", GeneratedLogistic(100, 2), 0.1, **settings)
    if why is None:
        return check(kernel, mass)
    with pytest.raises(SettingError, match=why) as error:
        check(kernel, mass)
    assert error.value.setting == ("mass" if mass else "tune.trajectory")


@pytest.mark.parametrize("points", [[21, 11, 6], [20, 10, 5]])
def test_halves_of_whole_epochs_are_whole_epochs(points):
    """Of five batches: 4, 2 and 1 of them, with the one batch more that the first has or without."""
    settings = {"batch_size": 20, "minibatches": "shuffled", "gradient": "minibatch", "acceptance": "metropolis"}
    kernel = make_kernel("ggmc", GeneratedLogistic(100, 2), 0.1, steps=points[0] - 1, **settings)
    assert [with_steps(kernel, steps).points for steps in lengths(kernel)] == points
