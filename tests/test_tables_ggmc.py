"""The tables of the GGMC paper and of the note of 2020: closed forms, and what makers compute beyond averages."""

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

import sgmcmc
from experiments.config import compose
from experiments.resolved import folder
from experiments.tables import ggmc, note
from experiments.tables.common import Run
from sgmcmc import formats
from sgmcmc.potentials.analytic import Quartic
from sgmcmc.random import Random

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import draw  # noqa: E402


def run_of(*words: str) -> Run:
    """A configuration that nothing was run of: makers that build their own trajectories need no more."""
    config = compose(list(words))
    return Run(0, config, "done", folder(config))


@pytest.mark.parametrize("point", [0, 1, 2])
def test_the_nearest_way_back_has_its_closed_form(point):
    rows = list(ggmc._theorem(run_of("experiment=ggmc_theorem1", "scale=smoke", f"point={point}")))
    assert len(rows) == 6
    for row in rows:
        assert row["off_formula"] < 1e-12
        assert row["least"] > 1e-12 if row["word"] != "OBABO" else row["high"] < 1e-12


def test_no_noise_comes_nearer_than_the_closed_form():
    """Symplectic Euler from (θ', −m') with many noises, against h/√(1 + h²)·|m' − m|."""
    rng, h, friction = np.random.default_rng(0), 0.3, 1.0
    theta, m = 0.4, -1.1
    slope = theta**3 + theta**2 + theta
    new = (1 - friction * h) * m - h * slope + math.sqrt(2 * friction * h) * 0.7
    end = theta + h * new
    slope = end**3 + end**2 + end
    back = -(1 - friction * h) * new - h * slope + math.sqrt(2 * friction * h) * 5 * rng.normal(size=100000)
    distance = np.hypot(end + h * back - theta, back + m)
    assert distance.min() == pytest.approx(h / math.sqrt(1 + h**2) * abs(new - m), rel=1e-4)


@pytest.mark.parametrize("point", [0, 1, 2, 3])
def test_log_mh_is_the_log_ratio_of_the_path_densities_but_for_the_cosine(point):
    rows = list(ggmc._schedules(run_of("experiment=ggmc_appendix_c", "scale=smoke", f"point={point}")))
    for row in rows:
        if (row["schedule"], row["direction"]) == ("cosine", "forward"):
            assert row["off"] == math.inf and row["accept"] == 0 and row["true_largest"] < -700
        else:
            assert row["off"] < 1e-9 and 0 < row["accept"] < 1


def test_a_path_density_is_that_of_its_noises():
    """One OBABO step of known noises: their log density, less log |∂(θ', m')/∂noises| = log(h (1 − a)) a coordinate."""
    h, a, slopes = 0.4, 0.7, torch.tensor([[[0.3]], [[-0.2]]], dtype=torch.float64)
    noise = torch.tensor([0.6, -1.2], dtype=torch.float64)
    first = math.sqrt(a) * 0.5 + math.sqrt(1 - a) * noise[0]
    half = first - h / 2 * 0.3
    last = math.sqrt(a) * (half + h / 2 * 0.2) + math.sqrt(1 - a) * noise[1]
    positions = torch.stack((torch.zeros_like(half), h * half)).reshape(2, 1, 1)
    begun = torch.full((1, 1), 0.5, dtype=torch.float64)
    size, decay = (torch.full((1, 1, 1), value, dtype=torch.float64) for value in (h, a))
    density = ggmc.path_log_density(positions, slopes, begun, last.reshape(1, 1), size, decay)
    expected = -noise.square().sum() / 2 - math.log(2 * math.pi) - math.log(h * (1 - a))
    assert float(density) == pytest.approx(float(expected), rel=1e-12)


def test_the_effective_energy_of_positions_is_minus_log_mh():
    """The note's formula from OVRVO's positions, against the sum of its kicks."""
    h, potential = 0.3, Quartic(3)
    with pytest.warns(UserWarning, match="not corrected"):
        result = sgmcmc.sample(
            potential, "ovrvo", step_size=h, steps=1, cycles=40, chains=5, dtype=torch.float64, gradient="full"
        )
    theta = result.draws
    energy = torch.stack([potential.potential(position) for position in theta])
    slope = potential.gradient(theta.reshape(-1, 3)).reshape(theta.shape)
    change, curvature = note.effective_energy(theta, energy, slope, h * note.scaling(h))
    random, states = Random(0), []
    kernel = result.kernel
    state = sgmcmc.trajectory.start(kernel, potential, potential.initial(5, random), random, range(5))
    for index in range(40):
        state, record = sgmcmc.trajectory.run_trajectory(kernel, potential, state, random, index, range(5))
        states.append(-record.log_accept)
    assert torch.allclose(change, torch.stack(states)[1:], atol=1e-12)
    ends = (h * note.scaling(h)) ** 2 / 8 * (slope[-1].square() - slope[0].square()).sum(-1)
    assert torch.allclose(curvature.sum(0), ends, atol=1e-12)


def test_symplectic_euler_s_naive_energy_drifts_by_the_heat_of_its_friction():
    """On an oscillator E m² is known, and the drift a step is (1 − c)(1/u − 1), u = 1 − h²/(2(1 + c))."""
    h, chains = 0.5, 4000
    result = sgmcmc.sample(
        sgmcmc.potentials.analytic.Gaussian(2), "sghmc", step_size=h, steps=1, cycles=60, burn_in=20, chains=chains,
        dtype=torch.float64, gradient="full",
    )  # fmt: skip
    theta = result.draws
    change, _ = note.naive_energy(theta, theta.square().sum(-1) / 2, theta, h)
    rates = change.mean(0) / 2
    c = 1 - h
    u = 1 - h**2 / (2 * (1 + c))
    error = float(rates.std()) / chains**0.5
    assert abs(float(rates.mean()) - (1 - c) * (1 / u - 1)) < 5 * error < 0.01


def test_the_closed_forms_of_temperatures():
    w = 1 - 0.25
    assert note.closed_forms("ggmc", 1.0, 1.0) == pytest.approx((1 / w, 1, 1 / w))
    assert note.closed_forms("baoab", 1.0, 1.0)[:2] == pytest.approx((1, w))
    assert note.closed_forms("aboba", 1.0, 1.0)[:2] == pytest.approx((1, 1 / w))
    b = note.scaling(1.0)
    assert b**2 == pytest.approx(2 * math.tanh(0.5))
    assert note.closed_forms("ovrvo", 1.0, 1.0)[0] == pytest.approx(1 / (1 - b**2 / 4))
    u = 1 - 0.25 / (2 * 1.5)
    assert note.closed_forms("sghmc", 0.5, 1.0)[:2] == pytest.approx((1 / u, 2 / 1.5 / u))
    assert math.isnan(note.closed_forms("sghmc", 1.3, 1.0)[0])


def test_the_mean_square_slope_is_that_of_exact_draws():
    potential = Quartic(1)
    slopes = potential.gradient(potential.exact(400000, Random(1))).square()
    error = float(slopes.std()) / len(slopes) ** 0.5
    assert abs(float(slopes.mean()) - note._mean_square_slope(potential)) < 5 * error


def test_a_run_that_diverged_keeps_its_rows(tmp_path):
    config = compose(["experiment=ggmc_fig1", "scale=smoke", "sampler=hmc", "lr=1e-2", f"output={tmp_path}"])
    (tmp_path / "trace.csv").write_text(
        "cycle,chain,step,exact,log_accept,potential_per_datum,kinetic_temperature\n2,0,5,1,-3.0,1.5,1.0\n"
    )
    says = {"cycles": 3, "seconds": 1.5}
    (tmp_path / "status.json").write_text(json.dumps({**says, "sha256": formats.signature(says)}))
    make = ggmc.TABLES["ggmc_fig1"][1]
    row, failed = make([Run(0, config, "diverged", tmp_path), Run(1, config, "failed", tmp_path, "no memory")])
    assert (row["status"], row["step"], row["exact_point"], row["acceptance"]) == ("diverged", 5, 1, "exact")
    assert (row["why"], row["seconds"]) == ("diverged at cycle 3", 1.5)
    assert (failed["status"], failed["why"], failed["lr"]) == ("failed", "no memory", 0.01)


@pytest.mark.parametrize(("experiment", "noisy"), [("ggmc_fig1", False), ("ggmc_fig1_as_run", True)])
def test_augmentation_makes_u_random_and_its_absence_does_not(experiment, noisy):
    config = compose([f"experiment={experiment}", "scale=smoke", "sampler=ggmc", "lr=1e-4"])
    assert (ggmc.potential_noise(config, 3) > 0) == noisy


def test_the_momentum_decay_is_that_of_the_data_of_the_run():
    """β = exp(−γ √(ℓ/N)) of all 1,500 digits is not that of CIFAR-10's 50,000."""
    config = {"data": {"name": "digits", "train_size": None}, "lr": 0.01, "friction": 14.2854713425451}
    metrics = {"cycle": [1], "epoch": [1], "step": [16], "log_accept": [0.0]}
    (row,) = ggmc._cycles(SimpleNamespace(config=config, metrics=metrics))
    assert row["momentum_decay"] == pytest.approx(math.exp(-14.2854713425451 * (0.01 / 1500) ** 0.5))
    config["data"] |= {"name": "cifar10"}
    (row,) = ggmc._cycles(SimpleNamespace(config=config, metrics=metrics))
    assert row["momentum_decay"] == pytest.approx(0.993632, abs=1e-6)  # the authors'


@pytest.mark.parametrize("name", ["ggmc_fig1", "ggmc_figd1"])
def test_a_learning_rate_that_diverged_is_no_reason_to_draw_nothing(name):
    """Of HMC at the largest; at paper scale, where all claims are judged."""
    figure = draw.load(ROOT / "scripts" / "figures" / f"{name}.py")
    rows = []
    for sampler in ("ggmc", "hmc"):
        for rate in (1e-6, 1e-4, 1e-3, 1e-2):
            row = {"sampler": sampler, "lr": rate, "status": "done", "acceptance": "exact", "data": 50000}
            row |= {"log_accept": -rate, "accept_prob": 0.5, "potential_per_datum": 2.0, "kinetic_temperature": 1.0}
            row |= {"configurational_temperature": 0.9}
            row |= {"momentum_decay": math.exp(-14.2854713425451 * (rate / 50000) ** 0.5), "test_accuracy": 0.8}
            lost = sampler == "hmc" and rate == 1e-2
            for step in (0, 1, 2, 3):
                row |= {"step": math.nan if lost else step, "cycle": 101 + step, "exact_point": int(step in (0, 3))}
                rows.append(dict(row))
    verdicts = [row[3] for row in figure.compare(pd.DataFrame(rows))]
    assert verdicts and all(verdict.split()[0].strip(":") in ("agrees", "differs", "not") for verdict in verdicts)
    if name == "ggmc_fig1":
        assert "not comparable: no cycle at ℓ = 0.01" in verdicts
        first = pd.DataFrame(rows)
        first = first[(first.cycle == 101) | (first.exact_point == 1)].assign(cycle=1)
        said = {row[0]: row[3] for row in figure.compare(first[first.lr > 1e-6])}
        assert said["GGMC: log MH of the cycle, ℓ = 0.0001, 0.001, 0.01"].startswith("not comparable: a first cycle")


def test_a_first_cycle_from_sgd_stands_beside_the_authors_own():
    """Whose mass, norm and images are others: no number of theirs decides."""
    error, kinetic = 6e5, 1.06
    figure = draw.load(ROOT / "scripts" / "figures" / "ggmc_fig1_cycle.py")
    common = {"status": "done", "acceptance": "exact", "data": 50000, "cycle": 1, "potential_per_datum": 0.0}
    rows = [
        {"sampler": sampler, "lr": rate, "step": step, "exact_point": int(step in (0, 4000)), **common}
        | {"log_accept": -error * step / 4000, "kinetic_temperature": kinetic}
        for sampler in ("ggmc", "hmc")
        for rate in (1e-6, 1e-4, 1e-3, 1e-2)
        for step in (0, 1000, 2000, 3000, 4000)
    ]
    for row in rows:
        if row["lr"] == 1e-6:
            row["log_accept"] *= 1e-6 if row["sampler"] == "ggmc" else -1e-4  # −.6, and +60
    found = list(figure.compare(pd.DataFrame(rows)))
    assert [row[2] for row in found[:2]] == ["6e+05", "1.060"]
    assert {row[3] for row in found[:2]} == {"not comparable: their mass, norm and images are others"}
    assert found[2][2].startswith(f"{-error / 2:.3g}, while U/N is 0.00")
    assert [row[2] for row in found[3:5]] == ["0.549, log MH -0.6", "1, log MH +60"]
    assert {row[3] for row in found[3:5]} == {figure.ggmc_fig1.START}
    few = list(figure.compare(pd.DataFrame(rows).assign(data=2500)))
    assert {row[3] for row in [*few[:2], *few[3:5]]} == {"not comparable: fewer images, and steps"}


@pytest.mark.parametrize(("noise", "verdict"), [(2e3, "not resolved"), (20.0, "differs")])
def test_what_the_noise_of_u_can_do_decides_nothing(noise, verdict):
    """|log MH| falls at first, beyond its own scatter, and where U's evaluations differ by 2,000 that is no finding."""
    figure = draw.load(ROOT / "scripts" / "figures" / "ggmc_figd1.py")
    common = {"status": "done", "acceptance": "not exact", "data": 1500, "step": 1, "cycle": 1, "accept_prob": 0.0}
    common |= {"potential_per_datum": 2.0, "kinetic_temperature": 1.0, "configurational_temperature": 1.0}
    common |= {"test_accuracy": 0.8, "noise": noise}
    sizes, decays = (21e3, 20e3, 16e3, 449e3), (0.999936, 0.999361, 0.997982, 0.993632)  # of the paper's 50,000 images
    rows = [
        {"sampler": sampler, "lr": rate, "log_accept": -size, "momentum_decay": decay, **common}
        for sampler in ("ggmc", "hmc")
        for rate, size, decay in zip((1e-6, 1e-4, 1e-3, 1e-2), sizes, decays, strict=True)
    ]
    found = [row[3] for row in figure.compare(pd.DataFrame(rows)) if "grows with" in row[0]]
    assert len(found) == 2 and all(one.startswith(verdict) for one in found)


@pytest.mark.parametrize(
    ("sizes", "falls"),
    [((0.01, 30, 200, 2e3), True), ((0.01, 200, 100, 2e3), False), ((0.01, 30, 60, 2e3), False)],
)
def test_figure_1_is_titled_by_what_both_samplers_show(sizes, falls):
    """That acceptance falls with every larger ℓ, where each step is more than log MH's own scatter."""
    figure = draw.load(ROOT / "scripts" / "figures" / "ggmc_fig1.py")
    rates = (1e-6, 1e-4, 1e-3, 1e-2)
    ends = {"ggmc": (0.01, 30, 200, 2e3), "hmc": sizes}
    rows = pd.DataFrame(
        {"sampler": sampler, "lr": rate, "step": step, "exact_point": 1, "log_accept": -size * step / 40}
        for sampler, each in ends.items()
        for rate, size in zip(rates, each, strict=True)
        for step in (0, 40)
    )
    assert figure.title(rows).startswith("The larger the learning rate, the less") == falls
    assert not figure.title(rows[rows.sampler == "hmc"]).startswith("The larger")
    assert set(figure.last_points(rows)["ggmc"].step) == {40}


def test_the_rate_that_is_left_out_is_titled_by_what_became_of_its_chains():
    figure = draw.load(ROOT / "scripts" / "figures" / "ggmc_discarded.py")
    rows = pd.DataFrame(
        {"sampler": name, "status": "done", "step": 16, "accept_prob": p} for name, p in (("ggmc", 0.0), ("hmc", 0.0))
    )
    assert figure.title(rows) == "ℓ = .1: neither GGMC nor HMC would accept any of its cycles"
    assert figure.title(rows.assign(accept_prob=[0.0, 0.25])).endswith("HMC would accept 0.25 of its cycles")
    assert figure.title(rows.assign(status=["diverged", "done"])).startswith("ℓ = .1: GGMC diverges; HMC")
    assert figure.title(rows[:1]).endswith("no run of HMC")
