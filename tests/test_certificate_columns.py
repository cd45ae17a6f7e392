"""The certificate's columns, its reference and its verdict see what is wrong, and by how much they can be wrong.

Exact columns are given trajectories that are off by 1e-9 in one number of one chain. Statistical columns judge engines
broken on purpose at |z| > 6, which a normal test of the whole one exceeds with probability 2e-9.
"""

import math
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from sgmcmc import acceptance, certificate_rows, certify, chain, flows, kernel, subsampled
from sgmcmc import certificate_identities as identities
from sgmcmc import certificate_reference as reference
from sgmcmc import certificate_statistics as statistics
from sgmcmc.certificate_rows import Cell, Seed, build, make_target
from sgmcmc.errors import SettingError
from sgmcmc.potentials.analytic import Gaussian, Quartic
from sgmcmc.potentials.regression import LogisticRegression
from sgmcmc.random import Random
from sgmcmc.schedules import Schedule

ROWS = {row.label: row for row in certify.design()}
SEED = Seed(0, 7)


def excess(cells):
    """The largest error over its tolerance."""
    return max(cell.figure / cell.tolerance for cell in cells)


# ---- exact columns


PARTS = [
    *((identities.path, name, 0.0) for name in ("theta", "momentum", "delta_kinetic", "delta_potential")),
    *((identities.path, name, math.inf) for name in ("theta", "momentum")),
    (identities.density_ratio, "log_accept", 0.0),
    *((identities.realizable, name, 0.0) for name in ("theta", "momentum", "delta_kinetic")),
    *((identities.linear, name, None) for name in ("theta", "momentum")),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("column", "name", "decision"), PARTS)
@pytest.mark.parametrize(("kind", "way"), [(Quartic, 1.0), (LogisticRegression, 0.0)])
def test_an_error_of_1e_9_in_one_chain_is_seen(column, name, decision, kind, way, monkeypatch):
    """On either target alone and in either direction alone: of the end, of what a rejection leaves, of an energy."""
    run, kind = certificate_rows.run_trajectory, Gaussian if column is identities.linear else kind

    def off(kernel, target, state, random, index, chains):
        new, record = run(kernel, target, state, random, index, chains)
        if isinstance(target, kind) and (random.direction, random.decision) == (way, decision):
            of = new if hasattr(new, name) else record
            setattr(of, name, getattr(of, name).clone())
            getattr(of, name)[-1] += 1e-9
        return new, record

    row = ROWS["amagold two-way cosine"]
    assert excess(column(row)) <= 1
    monkeypatch.setattr(certificate_rows, "run_trajectory", off)
    assert excess(column(row)) > 10


@pytest.mark.thorough
def test_every_row_follows_its_path():
    """Of every word, refresh, schedule, mass and temperature of the design."""
    assert {label: True for label in ROWS} == {label: excess(identities.path(row)) <= 1 for label, row in ROWS.items()}


@pytest.mark.thorough
def test_every_row_has_an_exact_loop():
    assert all(cell.figure <= cell.tolerance for row in ROWS.values() for cell in identities.loop(row))


WORDS = ("BAB", "ABA", "OBABO", "BAOAB", "ABOBA", "AOBOA", "BABOBAB", "OABAO", "OBAB", "OABA", "OBA", "BA", "AOB")


def combined(rng: np.random.Generator) -> certificate_rows.Row:
    """A row many steps from the defaults: a word of up to seven letters, and policies at random."""

    def one(*choices):
        return choices[rng.integers(len(choices))]

    word = one(*WORDS)
    settings = {
        "refresh": one("keep", "full", "partial"),
        "acceptance": one("metropolis", "barker", "persistent_uniform"),
        "gradient": one("full", "minibatch"),
        "temperature": one(0.3, 1.0, 1.4),
        "mass": one(True, False),
        "schedule": Schedule(
            one("constant", "stairs", "palindromic_cosine", "cosine"), one("forward", "random"), every=3, factor=0.7
        ),
        "alpha": rng.uniform(0.2, 0.95),
        "delta": rng.uniform(0.02, 0.9),
    }
    settings |= one({}, {"ends": "exact"}, {"minibatches": "shuffled"}) if settings["gradient"] == "minibatch" else {}
    friction = one(("decay", 0.7), ("b", 0.1), ("infinite", 0.0)) if "O" in word else ("decay", 0.95)
    sampler = "ovrvo" if word == "OBABO" and rng.random() < 0.5 else "ggmc"
    row = certificate_rows.Row(sampler, "combined", settings, word, int(rng.integers(1, 6)), friction)
    for key, policy, way in (("alpha", "refresh", "partial"), ("delta", "acceptance", "persistent_uniform")):
        if settings[policy] != way:
            del settings[key]
    return row


@pytest.mark.thorough
def test_rows_of_random_combinations_are_exact():
    """Policies that the design varies one at a time, together: those that the program does not refuse."""
    columns = (identities.realizable, identities.density_ratio, identities.path, identities.loop)
    rng, looked = np.random.default_rng(1), []
    while len(looked) < 40:
        row = combined(rng)
        try:
            for name in row.targets:
                build(row, make_target(name, row)[0], row.step_size(name))
        except SettingError:
            continue
        looked.append(row)
        for column in columns:
            assert all(cell.figure <= cell.tolerance for cell in column(row)), (column.__name__, row)
    for key in ("refresh", "acceptance", "gradient", "temperature", "mass"):
        assert len({row.settings[key] for row in looked}) > 1


@pytest.mark.parametrize("label", ["ggmc persistent uniform", "amagold", "sghmc"])
def test_a_loop_that_turns_the_momentum_is_seen(label, monkeypatch):
    """Between its cycles: the law that 20 decisions leave alone does not show it."""
    run_trajectory = chain.run_trajectory

    def turned(*arguments):
        state, record = run_trajectory(*arguments)
        return replace(state, momentum=-state.momentum), record

    monkeypatch.setattr(chain, "run_trajectory", turned)
    first, second = [cell for cell in identities.loop(ROWS[label]) if cell.target == "four data"]
    assert first.figure > 0.1 and second.figure == 0


@pytest.mark.parametrize("label", ["hmc", "ggmc metropolis", "sghmc"])
def test_an_end_kept_that_is_not_finite_is_seen(label, monkeypatch):
    monkeypatch.setattr(torch, "isfinite", lambda tensor: torch.ones_like(tensor, dtype=torch.bool))
    monkeypatch.setattr(torch.Tensor, "nan_to_num", lambda self, **given: torch.zeros_like(self))
    assert [cell.figure for cell in identities.loop(ROWS[label])][1::2] == [1] * len(ROWS[label].targets)


def test_no_number_is_an_infinite_error():
    assert identities._largest(np.array([0.0, math.nan])) == identities._largest(np.array([-math.inf])) == math.inf
    assert identities._largest(np.array([1.0, -3.0])) == 3


def test_what_is_no_longer_refused_is_seen(monkeypatch):
    rows = [ROWS[name] for name in ("hmc one-sided BA", "ggmc one-sided cosine", "sghmc")]
    assert [cell.figure for row in rows for cell in identities.refused(row)] == [0, 0, 0]
    monkeypatch.setattr(kernel, "why_impossible", lambda *one: None)
    assert [cell.figure > cell.tolerance for row in rows for cell in identities.refused(row)] == [True] * 3


# ---- statistical columns


def no_flip(monkeypatch):
    """A rejection leaves the momentum that the trajectory began with."""
    for module in (certificate_rows, chain):

        def broken(*given, run=module.run_trajectory, **more):
            new, record = run(*given, **more)
            new.momentum = torch.where(record.accepted[:, None], new.momentum, -new.momentum)
            return new, record

        monkeypatch.setattr(module, "run_trajectory", broken)


def undivided(monkeypatch):
    """The persistent uniform is not divided by MH."""
    whole = acceptance.persistent_uniform

    def broken(log_mh, sign, log_abs, delta):
        accepted, sign, after = whole(log_mh, sign, log_abs, delta)
        return accepted, sign, torch.where(accepted, after + log_mh, after)

    monkeypatch.setattr(acceptance, "persistent_uniform", broken)


def half_the_energy(monkeypatch):
    whole = flows.kinetic_change
    monkeypatch.setattr(flows, "kinetic_change", lambda *given: 0.5 * whole(*given))


def loud(monkeypatch):
    """Noises a tenth too large."""
    normal = Random.normal

    def broken(self, stream, *given, **more):
        return normal(self, stream, *given, **more) * (1.1 if stream == "noise" else 1)

    monkeypatch.setattr(Random, "normal", broken)


def accept_all(monkeypatch):
    monkeypatch.setattr(acceptance, "metropolis", lambda log_mh, uniform: log_mh > -math.inf)


def accept_none(monkeypatch):
    monkeypatch.setattr(acceptance, "metropolis", lambda log_mh, uniform: log_mh > math.inf)


def barker_is_metropolis(monkeypatch):
    monkeypatch.setattr(acceptance, "barker", acceptance.metropolis)


def start_above(monkeypatch):
    """The persistent uniform starts on (½, 1), not on (−1, 1); 20 decisions move it by 1."""
    whole = acceptance.persistent_start
    monkeypatch.setattr(acceptance, "persistent_start", lambda uniform: whole(0.75 + uniform / 4))


def at_temperature_1(monkeypatch):
    """Decisions on a part of the data forget the temperature."""
    whole = subsampled.decide
    monkeypatch.setattr(subsampled, "decide", lambda one, *given: whole(replace(one, temperature=1.0), *given))


BREAKS = [
    ("persistent_langevin", "(iii)", "quartic", 40_000, 6, no_flip),
    ("persistent_langevin", "(iv)", "quartic", 40_000, 7, no_flip),
    ("ggmc persistent uniform", "(iv)", "quartic", 20_000, 11, undivided),
    ("hmc persistent uniform", "(iv)", "quartic", 10_000, 11, start_above),
    ("ggmc persistent uniform", "dec", "quartic", 10_000, 3, start_above),
    ("ggmc metropolis", "dec", "four data", 10_000, 3, accept_none),
    ("hmc barker", "dec", "quartic", 10_000, 3, barker_is_metropolis),
    ("hmc austerity, all, T=0.6", "dec", "four data", 100_000, 3, at_temperature_1),
    ("hmc minibatch", "(iv)", "four data", 100_000, 14, accept_all),
    ("ggmc metropolis", "(ii)", "quartic", 40_000, 1, half_the_energy),
    ("ggmc metropolis", "(iii)", "four data", 20_000, 12, half_the_energy),
    ("sgld", "cov", "gaussian", 20_000, 14, loud),
]


def measured(label, column, target, chains):
    """The cell of a column, and what its standard error would be were its functions of standard deviation 1."""
    if column == "(iv)":
        cells = statistics.invariance(ROWS[label], target, torch.float64, chains, SEED)
    elif column == "cov":
        cells = statistics.covariances(ROWS[label], chains, SEED)
    elif column == "dec":
        cells = statistics.decisions(ROWS[label], chains, SEED)
    else:
        cells = statistics.reversal_identities(ROWS[label], chains, SEED)
    (cell,) = (cell for cell in cells if (cell.column, cell.target) == (column, target))
    return cell, chains**-0.5


@pytest.mark.thorough
@pytest.mark.parametrize(("label", "column", "target", "chains", "tests", "broken"), BREAKS)
def test_a_broken_engine_is_seen(label, column, target, chains, tests, broken, monkeypatch):
    """And the whole one is not. Each of a target's functions counts as a test and is in its standard deviations."""
    cell, unit = measured(label, column, target, chains)
    assert cell.tests == tests and abs(cell.z) < 6 and cell.z == pytest.approx(cell.figure / cell.standard_error)
    if column in ("(iv)", "cov"):
        assert cell.smallest_bias == pytest.approx(unit, rel=0.2)
    broken(monkeypatch)
    assert abs(measured(label, column, target, chains)[0].z) > 6


@pytest.mark.parametrize("label", ["random_walk", "langevin", "hmc T=0.6", "hmc minibatch", "ggmc T=0.6", "sgld"])
def test_trajectories_are_sometimes_rejected(label):
    """Not seldom enough, nor so often, that nothing could be seen; nearly never where MH must have light tails."""
    row = ROWS[label]
    cells = statistics.reversal_identities(row, 2000, SEED)
    assert all(0.3 < cell.figure < 0.98 for cell in cells if cell.column == "accept")
    _, _, record = statistics.one_trajectory(row, "four data", row.small_step, 2000, SEED)
    assert record.log_accept.std() < 0.5


def test_wrong_powers_of_the_step_are_seen(monkeypatch):
    (step, time) = statistics.slopes(ROWS["langevin"], 1000, SEED)
    assert max(step.figure, time.figure) < statistics.SLOPE and step.standard_error < statistics.SLOPE / 5
    half_the_energy(monkeypatch)
    assert all(cell.figure > 0.5 for cell in statistics.slopes(ROWS["langevin"], 1000, SEED))


def test_positions_and_momenta_are_of_different_random_bits():
    """In the first row of the default seed, too, where the seeds of both are 0."""
    ours = certificate_rows.REFERENCES["four data"]
    for number in (0, 1):
        theta, momentum = statistics.exact_state(certify.rows_of_word("ABOBA")[0], "four data", 4000, Seed(0, number))
        normals = (theta - ours._mode()) / math.sqrt(ours.variance)
        assert not np.isin(normals.round(12), momentum.round(12)).any()


def test_functions_are_in_their_standard_deviations():
    """Of θ ~ N(0, 1) and m ~ N(0, 4): E θ^4, θ^6, θ^8 are 3, 15, 105."""
    moments = np.array([[1.0], [0.0], [1.0], [0.0], [3.0], [0.0], [15.0], [0.0], [105.0]])
    one = statistics._functions(np.array([[2.0], [50.0]]), np.array([[3.0], [-50.0]]), moments, [4.0], 4)
    there = {"theta^1": 2, "theta^2": 3 / 2**0.5, "theta^3": 8 / 15**0.5, "theta^4": 13 / 96**0.5}
    there |= {"m": 1.5, "m^2": 1.25 / 2**0.5, "theta m": 3.0}
    assert {name: value[0] for name, value in one.items()} == pytest.approx(there)
    assert one["theta^1"][1] == 9 and one["m"][1] == -9 and one["theta m"][1] == -81  # cut off
    two = statistics._functions(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]), moments.repeat(2, 1), [1.0, 4.0], 3)
    assert len(two) == 12 and two["theta m[0]"] == 3 and two["theta m[1]"] == 4


def test_a_cell_shows_its_worst_function():
    """Means of 4 chains: their standard errors are σ/2. It can see no less than its least certain function."""
    few = {"a": np.array([1.0, -1.0, 3.0, 1.0]), "b": np.array([-4.0, -5.0, -5.0, -4.0]), "c": 10 * np.array([1.0, -1])}
    cell = statistics._worst("(iv)", "quartic", few)
    assert (cell.statistic, cell.figure, cell.tests) == ("b", -4.5, 3)
    assert (cell.standard_error, cell.z) == pytest.approx((0.25, -18))
    assert cell.smallest_bias == pytest.approx(10 / 2**0.5)
    for values, z in (([0.0, 0.0], 0), ([-2.0, -2.0], -math.inf), ([math.nan, 1.0], math.inf)):
        assert statistics._worst("(ii)", "quartic", {"f": np.array(values)}).z == z


def test_orders_are_compared_with_their_mirror_images(monkeypatch):
    """60 of (0, 1) and 40 of (1, 0) are 2 standard deviations of a fair coin apart; (2, 2) is its own mirror image;
    the 20 of (3, 0) are too few."""
    drawn = torch.tensor([[0, 1]] * 60 + [[1, 0]] * 40 + [[2, 2]] * 100 + [[3, 0]] * 20)
    batches = SimpleNamespace(draw=lambda random, index, chains: lambda point: drawn[chains][:, point : point + 1])
    monkeypatch.setattr(statistics, "build", lambda row, target, h: SimpleNamespace(points=2, batches=batches))
    _, cell = statistics.batch_order(ROWS["ggmc metropolis"], len(drawn), SEED)
    assert cell.z == pytest.approx(2) and cell.tests == 1 and "1 pairs" in cell.statistic


def test_orders_of_a_long_word_are_compared_in_little_memory():
    """Of 33 batches there are 4^33 orders; none of them is drawn often enough to be counted."""
    row = certify.rows_of_word("BABABABABABABABAB")[0]
    (cell,) = statistics.batch_order(row, 1000, SEED)
    assert "of two in a row" in cell.statistic and abs(cell.z) < 6


def test_a_chain_that_keeps_its_end_for_ever_is_seen(monkeypatch):
    """Where the extra batch's coin is one for all trajectories of a chain, the order of each alone is its own mirror
    image, and that of one given the last is not."""
    row, whole = ROWS["ggmc epoch + batch, either end"], Random.uniform

    def broken(self, stream, trajectory, *given, **more):
        return whole(self, stream, 1 if stream == "direction" else trajectory, *given, **more)

    assert max(abs(cell.z) for cell in statistics.batch_order(row, 20_000, SEED)) < 6
    monkeypatch.setattr(Random, "uniform", broken)
    again, alone = statistics.batch_order(row, 20_000, SEED)
    assert abs(again.z) > 12 and abs(alone.z) < 6


@pytest.mark.parametrize("name", ["amagold run in a permutation", "amagold whole epochs", "ggmc metropolis"])
def test_a_half_of_a_permutation_that_is_turned_as_the_other_is_seen(name, monkeypatch):
    """Each half alone is its own mirror image; where all go up, or all down, the second given the first is not."""
    row, whole = ROWS[name], Random.permutation

    def broken(self, *given, **more):
        order = whole(self, *given, **more)
        half = order.shape[1] // 2
        up = (order[:, :1] < order[:, half - 1 : half]).long()
        second = order[:, half:].sort(1).values
        return torch.cat([order[:, :half], torch.where(up.bool(), second, second.flip(1))], 1)

    assert max(abs(cell.z) for cell in statistics.batch_order(row, 20_000, SEED)) < 6
    if "run" in name:
        monkeypatch.setattr(Random, "permutation", broken)
        again, alone = statistics.batch_order(row, 20_000, SEED)
        assert abs(again.z) > 12 and "first datum less the last" in again.statistic


@pytest.mark.parametrize("column", [identities.path, identities.density_ratio])
def test_a_stair_in_the_middle_of_a_trajectory_is_seen(column, monkeypatch):
    """The trajectory that is looked at is the last one before a stair, and not on the first."""
    row, whole = ROWS["ggmc stairs"], Schedule.factors

    def broken(self, steps, trajectory):
        return [whole(self, steps, trajectory + (step > 1))[step] for step in range(steps)]

    assert excess(column(row)) <= 1
    monkeypatch.setattr(Schedule, "factors", broken)
    assert excess(column(row)) > 1e3
    monkeypatch.setattr(Schedule, "factors", lambda self, steps, trajectory: whole(self, steps, 0))
    assert column is identities.density_ratio or excess(column(row)) > 1e3  # one step size for ever is exact, too


def test_what_must_fail_and_is_not_measured_is_wrong(monkeypatch):
    monkeypatch.setattr(statistics, "COLUMNS", (statistics.batch_order, statistics.slopes))
    monkeypatch.setattr(statistics, "invariance", lambda *given: [])
    cells = certify.certify_row(ROWS["amagold austerity"], chains=1000)
    certify.judge(cells)
    assert {(cell.column, cell.statistic) for cell in cells if cell.verdict == "WRONG"} == {
        ("dec", "not measured"),
        ("(iv)", "not measured"),
    }


# ---- the reference


@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_targets_are_their_densities(temperature):
    """Moments by adaptive quadrature. Draws: Kolmogorov and Smirnov's test of one coordinate, p below 1e-7."""
    quartic, data = reference.Quartic(), reference.FourData()

    def weight(x):
        return math.exp(-(x**4 / 4 + x**3 / 3 + x**2 / 2) / temperature)

    def plane(b, a):
        z = a + b * data.x
        return math.exp(-(np.log1p(np.exp(z)) - data.y * z).sum() / temperature - (a * a + b * b) / 2 / temperature)

    total = integrate.quad(weight, -9, 9, points=[0])[0]
    for k in (1, 4, 8):
        moment = integrate.quad(lambda x, k=k: x**k * weight(x), -9, 9, points=[0])[0] / total
        assert quartic.moments(temperature)[k, 0] == pytest.approx(moment, rel=1e-7)
    axis = np.linspace(-7, 7, 141)
    density = np.array([[plane(b, a) for b in axis] for a in axis])
    assert data.moments(temperature)[3] == pytest.approx(
        [density.sum(1) @ axis**3 / density.sum(), density.sum(0) @ axis**3 / density.sum()], rel=1e-5
    )
    steps = np.linspace(-4, 4, 401)
    below = [integrate.quad(weight, -9, x, points=[0])[0] / total for x in steps]
    drawn = quartic.draw(20_000, temperature, np.random.default_rng(1))[:, 0]
    assert stats.kstest(drawn, lambda x: np.interp(x, steps, below)).pvalue > 1e-7


def test_condition_of_the_lyapunov_equation():
    """F = diag(1/2, 9/10): 1 − F ⊗ F is diag(.75, .55, .55, .19)."""
    assert reference.condition([(np.diag([0.5, 0.9]), np.eye(2))]) == pytest.approx(0.75 / 0.19)
    assert reference.stationary([(np.eye(1), np.eye(1))]) is None


# ---- rows and verdicts


@pytest.mark.parametrize("name", ["random_walk", "persistent_langevin", "ggmc", "amagold"])
def test_variants_are_one_step_from_the_corrected_sampler(name):
    """What is named is what differs, and nothing else."""
    changes = {
        "persistent uniform": {"acceptance"},
        "barker": {"acceptance"},
        "T=0.6": {"temperature"},
        "M=2.5,.7": {"mass"},
        "full refresh": {"refresh"},
        "kept momentum": {"refresh"},
        "partial refresh": {"refresh", "alpha"},
        "palindromic cosine": {"schedule"},
        "two-way cosine": {"schedule"},
        "stairs": {"schedule"},
    }
    rows = {row.variant: row for row in certify.variants(name)}
    target, _ = make_target("four data", rows[""])
    base = build(rows.get("metropolis", rows[""]), target, 0.1)
    assert base.acceptance == "metropolis"
    for variant in changes.keys() & rows.keys():
        one = build(rows[variant], target, 0.1)
        differ = {
            field.name for field in fields(one) if str(getattr(one, field.name)) != str(getattr(base, field.name))
        }
        assert differ - {"batches"} == changes[variant], variant
        assert rows[variant].fails == {} and not rows[variant].free and not rows[variant].naive


def test_the_design_has_as_many_rows_as_the_readme_says():
    """Each can be built for each of its targets, and is refused where its failure must be."""
    rows = certify.design()
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    assert f"Some of its {len(rows)} rows" in readme
    for row in rows:
        for name in row.targets:
            target, _ = make_target(name, row)
            one = build(row, target, row.step_size(name))
            assert (one.temperature, one.impossible is None) == (row.temperature, "E" not in row.letters)
            if row.naive:
                with pytest.raises(SettingError, match="exact, because the .* does not read the same backwards"):
                    build(replace(row, naive=False), target, 0.1, acceptance="metropolis")


@pytest.mark.parametrize(
    ("label", "epochs", "more"),
    [
        ("ggmc epoch + batch, either end", 1, 1),
        ("amagold whole epochs", 1, 0),
        ("ggmc run in a permutation", 0, 3),
        ("amagold run in a permutation", 0, 2),
    ],
)
def test_orders_of_batches_are_those_that_rows_are_named_for(label, epochs, more):
    """Of four data: so many whole epochs and so many batches more in a trajectory."""
    target, _ = make_target("four data", ROWS[label])
    law = build(ROWS[label], target, 0.1).batches
    assert (law.law, law.batch_size, law.epochs, law.extra) == ("shuffled", 1, epochs, more)


def test_a_row_has_all_columns_on_the_right_targets(monkeypatch):
    """(iv) in float64 on one target and in float32 on the other, which swap from row to row; all with ``full``."""
    asked = []

    def stub(column):
        def called(row, *given):
            asked.append((column, *given))
            return [Cell(column, "", "", 0.0)]

        return called

    statistical = {"energy_identity": "(i)", "reversal_identities": "(iii)", "decisions": "dec", "covariances": "cov"}
    statistical |= {"batch_order": "order", "slopes": "step"}
    exact = {"realizable": "back", "density_ratio": "ratio", "path": "path", "loop": "loop", "linear": "lin"}
    exact |= {"refused": "refused"}
    for module, names in ((identities, exact), (statistics, statistical)):
        monkeypatch.setattr(module, "COLUMNS", [stub(names[function.__name__]) for function in module.COLUMNS])
    monkeypatch.setattr(statistics, "invariance", stub("(iv)"))
    row = ROWS["hmc one-sided BA"]
    cells = certify.certify_row(row, 3, 500, 2)
    assert [one[0] for one in asked[:6]] == list(exact.values()) and all(len(one) == 1 for one in asked[:6])
    assert asked[6:12] == [(column, 500, Seed(6, 3)) for column in statistical.values()]
    f64, f32 = torch.float64, torch.float32
    assert asked[12:] == [
        ("(iv)", "quartic", f64, 500, Seed(7, 3)),
        ("(iv)", "four data", f32, 500, Seed(8, 3)),
    ]
    expected = {cell.column: cell.expected for cell in cells}
    assert {column for column, what in expected.items() if what == "fails"} == {"back", "ratio", "(iii)", "(iv)"}
    assert expected["path"] == expected["cov"] == "holds" and {cell.row for cell in cells} == {row.label}
    asked.clear()
    certify.certify_row(row, 4, 500, 0)
    assert [one[1:3] for one in asked[12:]] == [("four data", f64), ("quartic", f32)]
    asked.clear()
    certify.certify_row(row, 4, 500, 0, full=True)
    assert [one[1:3] for one in asked[12:]] == [(name, kind) for kind in (f64, f32) for name in row.targets[::-1]]


def test_verdicts_and_what_a_cell_can_see():
    """Two tests at 1e-3 together: |z| < 3.48. A bias of 3.48 + 1.28 standard errors is seen 9 times of 10."""
    cells = [
        Cell("(ii)", "quartic", "f", 0.1, z=-3.6, tests=1, smallest_bias=0.01, row="a"),
        Cell("(iii)", "quartic", "f", 0.1, z=3.4, tests=1, row="a", expected="free"),
        Cell("path", "quartic", "f", 2e-12, 1e-12, row="a"),
        Cell("path", "quartic", "f", math.nan, 1e-12, row="b"),
        Cell("ratio", "quartic", "f", 1e-12, 1e-12, row="b"),
        Cell("back", "quartic", "f", 1e-13, 1e-12, row="b", expected="fails"),
        Cell("back", "quartic", "f", 1.0, 1e-12, row="a", expected="fails"),
    ]
    threshold, tests = certify.judge(cells)
    assert threshold == pytest.approx(stats.norm.isf(2.5e-4)) and tests == 2
    verdicts = ["WRONG", "holds", "WRONG", "WRONG", "ok", "WRONG", "fails as it must"]
    assert [cell.verdict for cell in cells] == verdicts
    assert cells[0].smallest_bias == pytest.approx(0.0476, abs=1e-4)
    text = certify.summary(cells, threshold, tests, 1.0, "these rows")
    assert "Failures that theory asks for: 2, of them seen: 1." in text
    assert sum("should" in line for line in text) == 4
    table = certify.show([*cells, *(Cell("accept", "", "", 0.5, row=row) for row in "ab")])
    assert table[2].split() == ["a", ".50", "x1", "-!2e-12", "-", "-", "!3.6", "3.4", *"-------"]
    assert table[3].split() == ["b", ".50!1e-13", "1e-12", "!nan", *"-----------"]
