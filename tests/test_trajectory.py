"""The heart: is every sampler exact, is its proposal the one that is claimed, and does it read the same backwards.

The tests of exactness start 100,000 independent chains at exact draws of the target and compare means with their
standard errors at 5.5 (see conftest): false alarm below 1e-5 each. The rest is arithmetic in float64.
"""

import math
from dataclasses import replace

import pytest
import torch
from conftest import (
    LIMIT,
    FourParts,
    Scripted,
    both_outcomes,
    exact_state,
    invariance,
    one_decision,
    refusal,
    worst,
    z_score,
)

from sgmcmc import flows
from sgmcmc.checks import wrong_gradient
from sgmcmc.compiled import Segments
from sgmcmc.data import Dataset
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.models import MLP
from sgmcmc.potentials.analytic import Gaussian, Mixture, Quartic
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.potentials.regression import LinearRegression
from sgmcmc.random import Random
from sgmcmc.schedules import Schedule
from sgmcmc.trajectory import evaluate, run_trajectory, segment, start

F64 = torch.float64
MASS = torch.tensor([0.5, 2.0], dtype=F64)
RANDOM_COSINE = Schedule("cosine", direction="random")
PALINDROMIC = Schedule("palindromic_cosine")


def kernel_of(sampler, target, h, steps=1, gamma=0.3, **policies):
    """Corrected by metropolis unless told otherwise, in float64."""
    settings = {"acceptance": "metropolis", "dtype": F64, "friction": Friction("gamma", gamma)} | policies
    return make_kernel(sampler, target, h, steps=steps, **settings)


def linear_regression():
    inputs = Random(5).normal("split", 0, 1, 12, 2, F64)[0]
    targets = inputs @ torch.tensor([1.0, -2.0], dtype=F64) + Random(6).normal("split", 0, 1, 12, 1, F64)[0, :, 0]
    return LinearRegression(inputs, targets, noise_variance=2.0, prior_variance=0.2)


# ---- rule 1: the identities of an exact chain


def quartic(noise=1.0, dim=2):
    return Quartic(dim, noise=noise)


def amagold(beta):
    return {"friction": Friction("beta", beta)}


# name: (target, sampler, step size, steps, policies)
ONE_DECISION = {
    "random_walk": (quartic(), "random_walk", 1.0, 1, {}),
    "random_walk hot": (quartic(), "random_walk", 1.0, 1, {"temperature": 2.5, "mass": MASS}),
    "langevin": (quartic(), "langevin", 0.8, 1, {}),
    "langevin heavy": (quartic(), "langevin", 0.8, 1, {"temperature": 0.6, "mass": MASS}),
    "hmc": (quartic(), "hmc", 0.7, 4, {}),
    "hmc minibatch": (quartic(), "hmc", 0.4, 3, {"gradient": "minibatch", "temperature": 2.0, "mass": MASS}),
    "persistent_langevin": (quartic(), "persistent_langevin", 0.9, 1, {"alpha": 0.5, "temperature": 1.7}),
    "ggmc": (quartic(), "ggmc", 0.4, 3, {"gamma": 0.1}),
    "ggmc cold": (quartic(), "ggmc", 0.3, 3, {"temperature": 0.5, "mass": MASS}),
    "ggmc full": (quartic(), "ggmc", 0.9, 2, {"gradient": "full", "gamma": 0.05}),
    "sgld": (quartic(), "sgld", 0.5, 2, {"friction": None}),
    "ovrvo": (quartic(), "ovrvo", 0.5, 3, {"gamma": 2.0, "temperature": 1.5, "mass": MASS}),
    "baoab": (quartic(), "baoab", 0.4, 3, {}),
    "aboba": (quartic(), "aboba", 0.4, 3, {"mass": MASS}),
    "amagold": (quartic(), "amagold", 0.3, 4, amagold(0.4) | {"temperature": 1.5, "mass": MASS}),
    "amagold kept": (quartic(), "amagold", 0.3, 4, amagold(0.4) | {"refresh": "keep"}),
    "amagold over-relaxed": (quartic(), "amagold", 0.4, 2, amagold(5.0) | {"refresh": "keep"}),
    "l2mc": (quartic(), "l2mc", 0.8, 3, amagold(0.4)),
    "word OBAB": (quartic(), "ggmc", 0.7, 2, {"word": "OBAB", "gamma": 1.0, "gradient": "full"}),
    "word OOBABO": (quartic(), "ggmc", 0.7, 1, {"word": "OOBABO", "gamma": 2.0, "gradient": "full"}),
    "word OOBABO twice": (quartic(), "ggmc", 0.7, 2, {"word": "OOBABO", "gamma": 2.0}),
    "word BABAB": (quartic(), "hmc", 0.7, 2, {"word": "BABAB"}),
    "word OABBAO": (quartic(), "ggmc", 0.4, 2, {"word": "OABBAO"}),
    "word BAO at random": (quartic(), "ggmc", 0.4, 3, {"word": "BAO", "schedule": Schedule(direction="random")}),
    "palindromic cosine": (quartic(), "ggmc", 0.6, 4, {"schedule": PALINDROMIC, "gamma": 0.5}),
    "cosine at random": (quartic(), "ggmc", 0.6, 3, {"schedule": RANDOM_COSINE, "gamma": 0.5}),
    "OBAB, cosine at random": (quartic(), "ggmc", 0.6, 3, {"schedule": RANDOM_COSINE, "word": "OBAB"}),
    "independent": (FourParts(2), "ggmc", 0.1, 4, {"batch_size": 1, "gamma": 0.1}),
    "pairs independent": (FourParts(2), "ggmc", 0.15, 3, {"batch_size": 2, "temperature": 1.5}),
    "an epoch": (FourParts(2), "ggmc", 0.15, 3, {"batch_size": 1, "minibatches": "shuffled", "gamma": 0.1}),
    "two epochs": (FourParts(2), "aboba", 0.15, 4, {"batch_size": 2, "minibatches": "shuffled"}),
    "an epoch and one": (FourParts(2), "ggmc", 0.2, 4, {"batch_size": 1, "minibatches": "shuffled"}),
    "two epochs and one": (FourParts(2), "ggmc", 0.25, 4, {"batch_size": 2, "minibatches": "shuffled"}),
    "exact ends": (FourParts(2), "ggmc", 0.25, 3, {"batch_size": 1, "minibatches": "shuffled", "ends": "exact"}),
    "exact ends, epoch": (FourParts(2), "ggmc", 0.15, 5, {"batch_size": 1, "minibatches": "shuffled", "ends": "exact"}),
    "exact ends, independent": (
        FourParts(2),
        "hmc",
        0.12,
        4,
        {"batch_size": 2, "ends": "exact", "gradient": "minibatch"},
    ),
    "prior": (linear_regression(), "ggmc", 0.15, 3, {"batch_size": 3}),
}


def build(name):
    target, sampler, h, steps, policies = ONE_DECISION[name]
    return kernel_of(sampler, target, h, steps, **policies), target


@pytest.mark.thorough
@pytest.mark.parametrize("name", ONE_DECISION)
def test_forward_and_backward_agree(name):
    """E[p sign(log MH)] = 0 and E[p (f(end) − f(θ_0, −m_0))] = 0, p = min(1, MH), over exact draws."""
    scores, acceptance = one_decision(*build(name))
    assert worst(scores) < LIMIT, scores
    assert 0.3 < acceptance < 0.95  # else there would be little to see


@pytest.mark.parametrize("points", [1, 2])
def test_runs_inside_a_permutation_are_exact(points):
    """The second trajectory of a permutation, whose first decision depended on the batches that are gone."""
    target = FourParts(2)
    kernel = kernel_of("aboba", target, 0.2, points, batch_size=1, minibatches="shuffled")
    scores, _ = one_decision(kernel, target, before=4 // points - 1)
    assert worst(scores) < LIMIT, scores


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["ggmc", "an epoch", "baoab", "amagold", "exact ends", "cosine at random"])
def test_mean_of_the_ratio_is_one(name):
    """E[MH] = 1 where the acceptance is high: it sees wrong energies, of words that do not read backwards too."""
    kernel, target = build(name)
    kernel = replace(kernel, step_size=0.5 * kernel.step_size)
    state = exact_state(kernel, target, Random(2), 100_000)
    _, record = run_trajectory(kernel, target, state, Random(2), 0, range(100_000))
    assert float(record.accept_prob.mean()) > 0.7
    assert abs(z_score(record.log_accept.exp() - 1)) < LIMIT


INVARIANCE = {
    "ggmc": (quartic(), "ggmc", 0.4, 2, {"gamma": 0.1}),
    "hmc": (quartic(), "hmc", 0.8, 2, {"temperature": 1.5, "mass": MASS}),
    "nonreversible": (quartic(), "nonreversible_langevin", 0.8, 1, {"acceptance": None, "alpha": 0.8, "delta": 0.1}),
    "nonreversible ggmc": (quartic(), "ggmc", 0.4, 2, {"acceptance": "persistent_uniform", "delta": 0.2}),
    "runs of batches": (FourParts(2), "aboba", 0.2, 2, {"batch_size": 1, "minibatches": "shuffled"}),
    "exact ends": (FourParts(2), "ggmc", 0.15, 3, {"batch_size": 1, "ends": "exact"}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", INVARIANCE)
def test_moments_stay_over_twenty_decisions(name):
    target, sampler, h, steps, policies = INVARIANCE[name]
    kernel = kernel_of(sampler, target, h, steps, **policies)
    scores, acceptance = invariance(kernel, target, chains=50_000)
    assert worst(scores) < LIMIT, scores
    assert 0.4 < acceptance < 0.95


@pytest.mark.parametrize("name", ["ggmc", "amagold", "sghmc", "ovrvo", "hmc", "persistent_langevin"])
def test_a_trajectory_in_float32_is_that_in_float64(name):
    """The same words give the same normals: what differs is rounding, and no noise, kick or refresh by a hundredth."""
    ends, target = [], Quartic(1, noise=0.5)
    for dtype in (F64, torch.float32):
        friction = Friction.of(0.1, name == "sghmc", momentum_decay=0.9)
        kernel = make_kernel(name, target, 0.1, friction=friction, temperature=0.7, acceptance="monitor", dtype=dtype)
        theta, random = torch.linspace(-2, 2, 50)[:, None].to(dtype), Random(3)
        end, _ = run_trajectory(kernel, target, start(kernel, target, theta, random, range(50)), random, 1, range(50))
        ends.append(torch.cat([end.theta, end.momentum], 1).double())
    assert ends[0].std() > 0.5 and (ends[0] - ends[1]).abs().max() < 1e-5


def test_float32_is_invariant_too():
    target = quartic()
    kernel = kernel_of("ggmc", target, 0.4, 3, gamma=0.1, dtype=torch.float32)
    state = exact_state(kernel, target, Random(3), 100_000, torch.float32)
    end, back, record = both_outcomes(kernel, target, state, 3, 0)
    assert end.theta.dtype == torch.float32 and record.log_accept.dtype == F64
    p = record.accept_prob
    assert abs(z_score(p * record.log_accept.sign())) < LIMIT
    assert abs(z_score(p * (end.theta - back.theta).double().mean(-1))) < LIMIT


def test_a_missing_flip_would_be_seen():
    """Where p depends on θ·m and momentum is kept, the rejected chains must turn round: the power of this target."""
    target = quartic(0.0)
    kernel = kernel_of("ggmc", target, 1.0, 1, gamma=0.1)
    scores, acceptance = one_decision(kernel, target)
    assert 0.6 < acceptance < 0.9 and worst(scores) < LIMIT, scores
    state = exact_state(kernel, target, Random(1), 100_000)
    end, back, record = both_outcomes(kernel, target, state, 1, 0)
    unturned = record.accept_prob * ((end.theta * end.momentum) + (back.theta * back.momentum)).mean(-1)
    assert abs(z_score(unturned)) > 20


def test_estimates_are_unbiased():
    """Over all batches: the four parts' and the regression's N/B Σ, prior included, is the full gradient and U."""
    theta = torch.tensor([[0.3, -1.2]], dtype=F64)
    for target in (FourParts(2), linear_regression()):
        size = target.data_size
        one = torch.arange(size)[:, None]
        two = torch.cartesian_prod(torch.arange(size), torch.arange(size))
        for batches in (one, two):
            slopes = target.gradient(theta.expand(len(batches), 2), batches)
            torch.testing.assert_close(slopes.mean(0), target.gradient(theta)[0])
    energies = FourParts(2).estimate(theta.expand(4, 2), torch.arange(4)[:, None])
    torch.testing.assert_close(energies.mean(), FourParts(2).potential(theta)[0])


# ---- the independent evaluation: the table of letters, one after the other, no code of the library


def sequence(word, steps, reverse=False):
    """Groups of (letter, step): adjacent O's together, but for a leading O before the palindromic part."""
    letters = [(letter, step) for step in range(steps) for letter in word]
    head = int(word != word[::-1] and word[0] == "O" and word[1:] == word[1:][::-1])
    groups = [[first] for first in letters[:head]]
    rest = letters[head:][::-1] if reverse else letters[head:]
    for place, (letter, step) in enumerate(rest):
        if letter == "O" and place and rest[place - 1][0] == "O":
            groups[-1].append((letter, step))
        else:
            groups.append([(letter, step)])
    return groups


class Path:
    """θ, m, Σ ΔK and the O's (c, m before, m after) along a word; ``sizes`` and ``decays`` are one a step."""

    def __init__(self, word, sizes, decays, theta, m, mass, temperature, slope, noise, scale=1.0, reverse=False):
        self.refreshes, self.work, self.begun = [], torch.zeros(len(theta), dtype=F64), m
        draw, point, moved, g = 0, -1, True, None
        groups = sequence(word, len(sizes), reverse)
        for place, group in enumerate(groups):
            letter, step = group[0]
            h = sizes[step] / word.count(letter) * (1.0 if letter == "O" else scale)
            if letter == "A":
                theta, moved = theta + h * m / mass, True
            elif letter == "O":
                c, draw = math.prod(decays[s] ** (1 / word.count("O")) for _, s in group), draw + 1
                after = c * m + ((1 - c**2) * temperature * mass) ** 0.5 * noise[draw]
                self.refreshes.append((c, m, after))
                m = after
                if place == 0 and word != word[::-1] and word[1:] == word[1:][::-1]:
                    self.begun, self.refreshes = m, []
            else:
                if moved:
                    point, moved = point + 1, False
                    g = slope(theta, point)
                if letter == "B":
                    after = m - h * g
                    self.work += ((after**2 - m**2) / mass).sum(-1) / 2
                    m = after
                else:
                    keep, draw = 1 - (1 - decays[step]) / word.count("E"), draw + 1
                    m = keep * m - h * g + (2 * (1 - keep) * temperature * mass) ** 0.5 * noise[draw]
        self.theta, self.momentum, self.draws, self.points = theta, m, draw, point + 1


# ---- rule 3: reversal and the ratio of the densities

REVERSIBLE = {  # word: (steps, refresh, schedule)
    "OBABO": (3, "keep", Schedule()),
    "ABOBA": (3, "keep", Schedule()),
    "BAOAB": (2, "keep", Schedule()),
    "OBAB": (3, "keep", Schedule()),
    "OOBABO": (2, "keep", Schedule()),
    "BAB": (4, "full", Schedule()),
    "BABAB": (2, "partial", Schedule()),
    "OABOBAO": (2, "full", Schedule()),
    "OBABO palindromic": (4, "keep", PALINDROMIC),
    "ABOBA palindromic": (3, "keep", PALINDROMIC),
    "OBABO at random": (3, "keep", RANDOM_COSINE),
    "OBAB at random": (3, "keep", RANDOM_COSINE),
    "BAO at random": (3, "full", Schedule(direction="random")),
}
TEMPERATURE, GAMMA, SIZE, ALPHA = 1.7, 0.8, 0.3, 0.6


def reversible(name):
    word = name.split()[0]
    steps, refresh, schedule = REVERSIBLE[name]
    target = Quartic(2, noise=1.0)
    kernel = make_kernel(
        "ggmc", target, SIZE, steps=steps, word=word, refresh=refresh, schedule=schedule, alpha=ALPHA,
        friction=Friction("gamma", GAMMA), temperature=TEMPERATURE, mass=MASS, acceptance="metropolis", dtype=F64,
    )  # fmt: skip
    sizes = [SIZE * factor for factor in schedule.factors(steps, 0)]
    return target, kernel, word, sizes, [math.exp(-GAMMA * size) for size in sizes]


def tables(draws, points, chains=40, dim=2):
    noise = Random(8).normal("gibbs", 0, draws + 1, chains, dim, F64)
    return noise, Random(8).normal("gibbs", 1, points, chains, dim, F64)


def forward(name, way=False):
    target, kernel, word, sizes, decays = reversible(name)
    noise, points = tables(40, 40)
    state = exact_state(kernel, target, Random(4), 40)
    scale = (TEMPERATURE * MASS) ** 0.5
    m = {
        "keep": state.momentum,
        "full": scale * noise[0],
        "partial": ALPHA * state.momentum + math.sqrt(1 - ALPHA**2) * scale * noise[0],
    }[kernel.refresh]
    path = Path(
        word, sizes, decays, state.theta, m, MASS, TEMPERATURE,
        lambda theta, point: target.gradient(theta) + points[point], noise, reverse=way,
    )  # fmt: skip
    return target, kernel, state, path, noise, points[: path.points]


def ways(name):
    return [False, True] if "random" in name else [False]


CASES = [(name, way) for name in REVERSIBLE for way in ways(name)]


@pytest.mark.parametrize(("name", "way"), CASES)
def test_the_proposal_is_the_table_of_letters(name, way):
    target, kernel, state, path, noise, points = forward(name, way)
    random = Scripted(0, noise, points, decision=0.0, backwards=way)
    end, record = run_trajectory(kernel, target, state, random, 0, range(40))
    torch.testing.assert_close(end.theta, path.theta, rtol=0, atol=1e-12)
    torch.testing.assert_close(end.momentum, path.momentum, rtol=0, atol=1e-12)
    torch.testing.assert_close(record.delta_kinetic, path.work, rtol=0, atol=1e-12)
    assert kernel.points == path.points


@pytest.mark.parametrize(("name", "way"), CASES)
def test_a_rejection_turns_the_starting_momentum_round(name, way):
    """θ_0 and minus the momentum after the refresh, before the first letter; after the leading O of OBAB."""
    target, kernel, state, path, noise, points = forward(name, way)
    random = Scripted(0, noise, points, decision=math.inf, backwards=way)
    back, record = run_trajectory(kernel, target, state, random, 0, range(40))
    assert not bool(record.accepted.any())
    assert torch.equal(back.theta, state.theta) and torch.equal(back.potential, state.potential)
    torch.testing.assert_close(back.momentum, -path.begun, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("name", "way"), CASES)
def test_trajectories_run_backwards(name, way):
    """Negated, with the batches reversed and the backward noises, it ends where it began, and ΣΔK cancels;
    log MH is the log ratio of the backward to the forward density of the path."""
    target, kernel, state, path, noise, points = forward(name, way)
    random = Scripted(0, noise, points, decision=0.0, backwards=way)
    end, there = run_trajectory(kernel, target, state, random, 0, range(40))

    scale = (TEMPERATURE * MASS) ** 0.5
    returning = [(c * after - before) / (scale * math.sqrt(1 - c**2)) for c, before, after in path.refreshes]
    used = [(after - c * before) / (scale * math.sqrt(1 - c**2)) for c, before, after in path.refreshes]
    noises = [torch.zeros_like(end.theta)]
    m = -end.momentum
    if kernel.refresh == "full":
        noises = [m / scale]
    if kernel.refresh == "partial":
        m = m / ALPHA
    if kernel.word.leading_refresh:  # not part of what is reversed: the noise that leads to −m_L
        c = math.exp(-GAMMA * SIZE / kernel.word.letters.count("O"))
        m = m / c
        noises.append(torch.zeros_like(m))
    script = Scripted(0, torch.stack(noises + returning[::-1]), points.flip(0), decision=0.0, backwards=not way)
    turned = replace(start(kernel, target, end.theta, Random(0), range(40)), momentum=m)
    home, again = run_trajectory(kernel, target, turned, script, 0, range(40))

    torch.testing.assert_close(home.theta, state.theta, rtol=0, atol=1e-12)
    torch.testing.assert_close(home.momentum, -path.begun, rtol=0, atol=1e-12)
    torch.testing.assert_close(again.delta_kinetic, -there.delta_kinetic, rtol=0, atol=1e-12)
    torch.testing.assert_close(again.log_accept, -there.log_accept, rtol=0, atol=1e-12)

    def energy(theta, momentum):
        return (theta**4 / 4 + theta**3 / 3 + theta**2 / 2 + momentum**2 / MASS / 2).sum(-1) / TEMPERATURE

    ratio = energy(state.theta, path.begun) - energy(end.theta, end.momentum)
    for epsilon, other in zip(used, returning, strict=True):
        ratio = ratio + (epsilon**2 - other**2).sum(-1) / 2
    torch.testing.assert_close(there.log_accept, ratio, rtol=0, atol=1e-11)


def test_no_noise_runs_the_euler_letter_backwards():
    """GGMC paper, theorem 1: one step's end is an affine function of d noises, so it cannot reach a 2d-dimensional
    state; log MH is −∞, and correcting it is refused."""
    target = Gaussian(2, noise=1.0)
    kernel = kernel_of("sghmc", target, 0.3, acceptance="monitor")
    _, noise, _ = affine(kernel, target)
    assert torch.linalg.matrix_rank(noise) == target.dim
    _, record = run_trajectory(kernel, target, exact_state(kernel, target, Random(0), 5), Random(0), 0, range(5))
    assert bool((record.log_accept == -math.inf).all()) and bool((record.accept_prob == 0).all())
    assert bool(record.accepted.all())
    assert "no backward trajectory" in refusal(lambda: kernel_of("sghmc", target, 0.3))


# ---- rule 2: the proposal itself


def affine(kernel, target):
    """(F, G, H): a trajectory maps (θ, m) to F (θ, m) + G noises + H gradient noises. Columns, float64."""
    d, points = target.dim, kernel.points if kernel.batches else 0
    draws = 1 + sum(group[0][0] in "OE" for group in sequence(kernel.word.letters, kernel.steps))
    chains = 2 * d + draws * d + points * d
    unit = torch.eye(chains, dtype=F64)
    noise = unit[:, 2 * d : (2 + draws) * d].reshape(chains, draws, d).transpose(0, 1)
    batches = unit[:, (2 + draws) * d :].reshape(chains, points, d).transpose(0, 1)
    state = start(kernel, target, unit[:, :d].contiguous(), Random(0), range(chains))
    state.momentum = unit[:, d : 2 * d].contiguous()
    end, _ = run_trajectory(
        replace(kernel, acceptance="monitor"), target, state, Scripted(0, noise, batches), 0, range(chains)
    )
    columns = torch.cat((end.theta, end.momentum), 1).T
    return columns[:, : 2 * d], columns[:, 2 * d : (2 + draws) * d], columns[:, (2 + draws) * d :]


def stationary(map_, noise):
    """Σ = F Σ Fᵀ + Q."""
    size = len(map_)
    system = torch.eye(size * size, dtype=F64) - torch.kron(map_, map_)
    return torch.linalg.solve(system, noise.reshape(-1)).reshape(size, size)


COVARIANCE = torch.tensor([[1.3, 0.4], [0.4, 0.7]], dtype=F64)
H, G, T = 0.6, 0.9, 1.4
RATE = 0.7  # AMAGOLD's beta
PROPOSALS = {  # sampler: momentum decay of a step, factor on A and B, policies
    "random_walk": (1.0, 1.0, {}),
    "langevin": (1.0, 1.0, {}),
    "sgld": (0.0, 1.0, {"friction": None}),
    "hmc": (1.0, 1.0, {"steps": 2}),
    "persistent_langevin": (1.0, 1.0, {"alpha": 0.6}),
    "ggmc": (math.exp(-G * H), 1.0, {"steps": 2}),
    "ovrvo": (math.exp(-G * H), math.sqrt(2 / (G * H) * math.tanh(G * H / 2)), {"steps": 2}),
    "baoab": (math.exp(-G * H), 1.0, {"steps": 2}),
    "aboba": (math.exp(-G * H), 1.0, {"steps": 2}),
    "sghmc": (1 - G * H, 1.0, {"steps": 2}),
    "sghmc in two halves": (1 - G * H, 1.0, {"steps": 2, "word": "EAE"}),
    "amagold": ((1 - H * RATE) / (1 + H * RATE), 1.0, {"steps": 2, "friction": Friction("beta", RATE)}),
    "amagold over-relaxed": ((1 - 3.0) / (1 + 3.0), 1.0, {"friction": Friction.of(H, b=3.0)}),
    "l2mc": ((1 - H * RATE) / (1 + H * RATE), 1.0, {"steps": 2, "friction": Friction("beta", RATE)}),
}


@pytest.mark.parametrize("name", PROPOSALS)
def test_one_trajectory_on_a_gaussian_is_the_product_of_the_letters(name):
    """The map and the noise covariance, with M ≠ I and T ≠ 1, against 4 × 4 matrices from the formula."""
    decay, scale, policies = PROPOSALS[name]
    target = Gaussian(covariance=COVARIANCE, noise=1.0)
    sampler = name.split()[0]
    kernel = kernel_of(sampler, target, H, gamma=G, acceptance="monitor", temperature=T, mass=MASS, **policies)
    word, eye, zero = kernel.word.letters, torch.eye(2, dtype=F64), torch.zeros(2, 2, dtype=F64)
    precision, root = torch.linalg.inv(COVARIANCE), torch.diag((T * MASS) ** 0.5)

    def block(a, b, c, d):
        return torch.cat((torch.cat((a, b), 1), torch.cat((c, d), 1)))

    keep = {"full": 0.0, "partial": kernel.alpha, "keep": 1.0}[kernel.refresh]
    total = block(eye, zero, zero, keep * eye)
    covariance = block(zero, zero, zero, (1 - keep**2) * root @ root)
    for letter in word * kernel.steps:
        h = scale * H / word.count(letter)
        c = decay ** (1 / word.count("O")) if letter == "O" else 1 - (1 - decay) / max(word.count("E"), 1)
        one, extra = {
            "A": (block(eye, h * torch.diag(1 / MASS), zero, eye), 0.0),
            "B": (block(eye, zero, -h * precision, eye), 0.0),
            "O": (block(eye, zero, zero, c * eye), 1 - c**2 if letter == "O" else 0.0),
            "E": (block(eye, zero, -h * precision, c * eye), 2 * (1 - c) if letter == "E" else 0.0),
        }[letter]
        total, covariance = one @ total, one @ covariance @ one.T
        covariance = covariance + extra * block(zero, zero, zero, root @ root)
    map_, noise, _ = affine(kernel, target)
    torch.testing.assert_close(map_, total, rtol=0, atol=1e-12)
    torch.testing.assert_close(noise @ noise.T, covariance, rtol=0, atol=1e-12)


K, M1 = 1.8, 1.3
W = 1 - H**2 * K / (4 * M1)
DECAY = math.exp(-G * H)
EULER = 1 - G * H
B2 = 2 / (G * H) * math.tanh(G * H / 2)
STATIONARY = {  # sampler: variance of θ and of m at T, without decision
    "ggmc": (T / (K * W), M1 * T),
    "ovrvo": (T / (K * (1 - B2 * H**2 * K / (4 * M1))), M1 * T),
    "aboba": (T / K, M1 * T / W),
    "baoab": (T / K, M1 * T * W),
    "amagold": (T / K, M1 * T / W),
    "sghmc": (
        T / (K * (1 - H**2 * K / (2 * M1 * (1 + EULER)))),
        M1 * T * 2 / ((1 + EULER) * (1 - H**2 * K / (2 * M1 * (1 + EULER)))),
    ),
    "sgld": (T / (K * (1 - H**2 / 2 / M1 * K / 2)), M1 * T),
}


@pytest.mark.parametrize("name", STATIONARY)
def test_stationary_variances_without_decision(name):
    """Harmonic oscillator of stiffness K and mass M1 (closed forms by discrete Lyapunov equations)."""
    target = Gaussian(1, 1 / K)
    policies = {"friction": None} if name == "sgld" else {}
    policies |= {"refresh": "keep"} if name == "amagold" else {}
    mass = torch.tensor([M1], dtype=F64)
    kernel = kernel_of(name, target, H, gamma=G, acceptance="monitor", temperature=T, mass=mass, **policies)
    map_, noise, _ = affine(kernel, target)
    covariance = stationary(map_, noise @ noise.T)
    position, momentum = STATIONARY[name]
    assert float(covariance[0, 0]) == pytest.approx(position, rel=1e-10)
    assert float(covariance[1, 1]) == pytest.approx(momentum, rel=1e-10)
    assert bool(name == "sghmc") == (abs(float(covariance[0, 1])) > 1e-10)


@pytest.mark.parametrize("name", ["ggmc", "ovrvo", "baoab", "aboba", "amagold", "sghmc"])
def test_phase_space_shrinks_by_the_momentum_decay(name):
    """det F = a^(steps · dim) of every word of A, B and O, and of E; at H = 0 the lag-1 autocorrelation of m is a."""
    target = Gaussian(2, 1.0)
    policies = {"friction": Friction("beta", RATE), "refresh": "keep"} if name == "amagold" else {}
    kernel = kernel_of(name, target, H, 3, gamma=G, acceptance="monitor", **policies)
    decay = {"sghmc": EULER, "amagold": (1 - H * RATE) / (1 + H * RATE)}.get(name, DECAY)
    map_, _, _ = affine(kernel, target)
    assert float(torch.linalg.det(map_)) == pytest.approx(decay ** (3 * 2), rel=1e-10)
    free = kernel_of(name, Gaussian(2, 1e30), H, 3, gamma=G, acceptance="monitor", **policies)
    map_, _, _ = affine(free, Gaussian(2, 1e30))
    torch.testing.assert_close(map_[2:, 2:], decay**3 * torch.eye(2, dtype=F64))


@pytest.mark.parametrize("name", ["ggmc", "sghmc", "aboba"])
def test_gradient_noise_heats_by_the_closed_form(name):
    """What a gradient noise of variance s² adds without decision; it depends on the friction.

    The two half kicks of OBABO at one point share one gradient, across the end of a step, too: in a long
    trajectory every noise but the first and last enters with a whole step.
    """
    s = 0.7
    target = Gaussian(1, 1 / K, noise=s)
    kernel = kernel_of(name, target, H, 60, gamma=0.9, acceptance="monitor", temperature=T)
    step, noise, _ = affine(replace(kernel, steps=1, batches=None, gradient="full"), Gaussian(1, 1 / K))
    _, _, points = affine(kernel, target)
    w = 1 - H**2 * K / 4
    # The path's end, free of what the first point still leaves: Σ = Σ_noise + Σ_j H_j H_jᵀ.
    total = stationary(step, noise @ noise.T) + points @ points.T
    a = math.exp(-0.9 * H)
    if name == "sghmc":
        e = 1 - 0.9 * H
        expected = (T + H**2 * s**2 / (2 * (1 - e))) / (K * (1 - H**2 * K / (2 * (1 + e))))
        assert float(total[0, 0]) == pytest.approx(expected, rel=1e-6)
    elif name == "ggmc":
        assert float(total[0, 0]) == pytest.approx((T + (1 + a) * H**2 * s**2 / (4 * (1 - a))) / (K * w), rel=1e-6)
    else:
        assert float(total[0, 0]) == pytest.approx((T + (1 + a) * H**2 * s**2 / (4 * (1 - a))) / K, rel=1e-6)


def test_kicks_at_one_position_share_one_gradient():
    """OBABO's L steps take L + 1 gradients, each its own minibatch; ABOBA's take L."""
    target, asked = Quartic(2, noise=1.0), []

    class Counting(Quartic):
        def gradient(self, theta, batch=None):
            asked.append(None if batch is None else batch.clone())
            return super().gradient(theta, batch)

    counting = Counting(2, noise=1.0)
    for name, points in (("ggmc", 5), ("ovrvo", 5), ("baoab", 5), ("aboba", 4), ("amagold", 4)):
        asked.clear()
        kernel = kernel_of(name, counting, 0.1, 4)
        state = exact_state(kernel, target, Random(0), 3)
        run_trajectory(kernel, counting, state, Random(0), 0, range(3))
        assert len(asked) == points == kernel.points
        assert len({float(batch[0, 0]) for batch in asked}) == points


# ---- samplers that must coincide under the same random numbers


def outcome(kernel, target, state, random, index=0):
    state = replace(state)
    evaluate(kernel, target, state)
    end, record = run_trajectory(kernel, target, state, random, index, range(len(state.theta)))
    return end.theta, end.momentum, record.log_accept


def same(first, second, tolerance=1e-12):
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def shared(target, **settings):
    kernel = kernel_of("ggmc", target, 0.5, **settings)
    return exact_state(kernel, target, Random(1), 30)


def test_mala_is_ggmc_without_memory():
    """c = 0, L = 1: the same log MH and position; the refresh is the first O."""
    target = quartic(0.0)
    state = shared(target)
    noise = Random(2).normal("gibbs", 0, 3, 30, 2, F64)
    mala = kernel_of("langevin", target, 0.8, acceptance="monitor")
    ggmc = kernel_of("ggmc", target, 0.8, gamma=math.inf, acceptance="monitor")
    x1, _, ratio1 = outcome(mala, target, state, Scripted(0, noise))
    x2, _, ratio2 = outcome(ggmc, target, state, Scripted(0, noise[[1, 0, 2]]))
    same((x1, ratio1), (x2, ratio2))


def test_hmc_is_ggmc_without_friction():
    target = quartic(0.0)
    state = shared(target)
    hmc = kernel_of("hmc", target, 0.5, 4)
    ggmc = kernel_of("ggmc", target, 0.5, 4, gamma=0.0, refresh="full")
    same(outcome(hmc, target, state, Random(3)), outcome(ggmc, target, state, Random(3)))


def test_ovrvo_with_b_one_is_ggmc_and_otherwise_ggmc_of_another_size():
    target = quartic(1.0)
    state = shared(target)
    one = kernel_of("ovrvo", target, 0.5, 3, gamma=0.0, refresh="full", mass=MASS)
    two = kernel_of("ggmc", target, 0.5, 3, gamma=0.0, refresh="full", mass=MASS)
    same(outcome(one, target, state, Random(3)), outcome(two, target, state, Random(3)))
    gamma, h = 1.5, 0.5
    b = math.sqrt(2 / (gamma * h) * math.tanh(gamma * h / 2))
    one = kernel_of("ovrvo", target, h, 3, gamma=gamma, mass=MASS)
    two = kernel_of("ggmc", target, b * h, 3, gamma=gamma / b, mass=MASS)
    assert b < 0.98
    same(outcome(one, target, state, Random(3)), outcome(two, target, state, Random(3)))


def test_amagold_is_aboba_with_its_friction():
    target = quartic(1.0)
    state, h, beta = shared(target), 0.4, 0.6
    gamma = -math.log((1 - h * beta) / (1 + h * beta)) / h
    one = kernel_of("amagold", target, h, 3, friction=Friction("beta", beta), refresh="keep")
    two = kernel_of("aboba", target, h, 3, gamma=gamma)
    same(outcome(one, target, state, Random(3)), outcome(two, target, state, Random(3)))


def test_amagold_without_friction_is_position_verlet_hmc():
    target = quartic(0.0)
    state = shared(target)
    one = kernel_of("l2mc", target, 0.4, 3, friction=Friction("beta", 0.0))
    two = kernel_of("hmc", target, 0.4, 3, word="ABA")
    same(outcome(one, target, state, Random(3)), outcome(two, target, state, Random(3)))


@pytest.mark.parametrize("beta", [0.25, 4.0])
def test_amagold_is_its_paper(beta):
    """Algorithm 2, and Algorithm 3 in v, line by line, at εβ < 1 and > 1 with σ ≠ 1; decisions included."""
    epsilon, sigma, steps, chains = 0.35, 1.4, 4, 200
    target = Quartic(2, noise=0.5)
    kernel = kernel_of(
        "amagold", target, epsilon, steps, friction=Friction("beta", beta), mass=torch.tensor([sigma**2] * 2, dtype=F64)
    )
    state = exact_state(kernel, target, Random(1), chains)
    noise = Random(2).normal("gibbs", 0, steps + 1, chains, 2, F64)
    points = Random(2).normal("gibbs", 1, steps, chains, 2, F64)
    new, record = run_trajectory(kernel, target, state, Scripted(7, noise, points), 0, range(chains))

    def slope(theta, t):
        return target.gradient(theta) + 0.5 * points[t]

    def energy(theta):
        return (theta**4 / 4 + theta**3 / 3 + theta**2 / 2).sum(-1)

    r = start_r = sigma * noise[0]
    rho, theta = 0.0, state.theta + epsilon / (2 * sigma**2) * r
    v = epsilon * sigma**-2 * r
    b, h = epsilon * beta, epsilon**2 / sigma**2
    rho3, theta3 = 0.0, state.theta + v / 2
    for t in range(steps):
        if t:
            theta, theta3 = theta + epsilon * sigma**-2 * r, theta3 + v
        g = slope(theta, t)
        r_new = ((1 - b) * r - epsilon * g + math.sqrt(4 * b) * sigma * noise[t + 1]) / (1 + b)
        rho, r = rho + epsilon / (2 * sigma**2) * (g * (r + r_new)).sum(-1), r_new
        g = slope(theta3, t)
        v_new = ((1 - b) * v - h * g + math.sqrt(4 * h * b) * noise[t + 1]) / (1 + b)
        rho3, v = rho3 + 0.5 * (g * (v + v_new)).sum(-1), v_new
    theta, theta3 = theta + epsilon / (2 * sigma**2) * r, theta3 + v / 2
    ratio = energy(state.theta) - energy(theta) + rho
    torch.testing.assert_close(record.log_accept, ratio, rtol=0, atol=1e-12)
    torch.testing.assert_close(ratio, energy(state.theta) - energy(theta3) + rho3, rtol=0, atol=1e-12)
    u = Random(7).uniform("decision", 1, range(chains))[:, 0]
    taken = (u < ratio.exp())[:, None]
    assert 0.2 < float(taken.double().mean()) < 0.98
    torch.testing.assert_close(new.theta, torch.where(taken, theta, state.theta), rtol=0, atol=1e-12)
    torch.testing.assert_close(new.momentum, torch.where(taken, r, -start_r), rtol=0, atol=1e-12)


@pytest.mark.parametrize("sampler", ["persistent_langevin", "nonreversible_langevin"])
def test_neals_samplers_are_his_slides(sampler):
    """Forty iterations with their decisions, line by line, v as a plain number."""
    epsilon, alpha, delta, chains = 0.9, 0.7, 0.15, 100
    target = quartic(0.0)
    kernel = kernel_of(sampler, target, epsilon, alpha=alpha, delta=delta, acceptance=None)
    random = Random(9)
    state = exact_state(kernel, target, random, chains)
    x, p, v = state.theta, state.momentum, 2 * random.uniform("decision", 0, range(chains), 2)[:, 1] - 1
    rejected = 0

    def energy(x, p):
        return (x**4 / 4 + x**3 / 3 + x**2 / 2 + p**2 / 2).sum(-1)

    for index in range(40):
        p = alpha * p + math.sqrt(1 - alpha**2) * random.normal("noise", index, 1, chains, 2, F64)[0]
        half = p - epsilon / 2 * target.gradient(x)
        there = x + epsilon * half
        turned = -(half - epsilon / 2 * target.gradient(there))
        ratio = (energy(x, p) - energy(there, turned)).exp()
        if sampler == "nonreversible_langevin":
            v = v + delta
            v = torch.where(v > 1, v - 2, v)
            taken = v.abs() < ratio
            v = torch.where(taken, v / ratio, v)
        else:
            taken = random.uniform("decision", index + 1, range(chains))[:, 0] < ratio
        x, p = torch.where(taken[:, None], there, x), -torch.where(taken[:, None], turned, p)
        rejected += int((~taken).sum())
        state, record = run_trajectory(kernel, target, state, random, index, range(chains))
        assert torch.equal(record.accepted, taken)
        torch.testing.assert_close(state.theta, x, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(state.momentum, p, rtol=1e-9, atol=1e-9)
        if sampler == "nonreversible_langevin":
            torch.testing.assert_close(state.sign * state.log_abs.exp(), v, rtol=1e-6, atol=1e-9)
    assert 200 < rejected < 3000


# ---- closed forms of log MH


@pytest.mark.parametrize("name", ["ggmc", "ovrvo"])
def test_log_ratio_on_a_quadratic_telescopes(name):
    """−h² (g_Lᵀ M⁻¹ g_L − g_0ᵀ M⁻¹ g_0)/8T, whatever the length, the friction and the noise (the note's effective
    energy: h is b h for OVRVO)."""
    target = Gaussian(covariance=COVARIANCE, noise=0.0)
    kernel = kernel_of(name, target, H, 7, gamma=G, temperature=T, mass=MASS, acceptance="monitor")
    state = exact_state(kernel, target, Random(1), 50)
    end, record = run_trajectory(kernel, target, state, Random(1), 0, range(50))
    before, after = state.theta @ torch.linalg.inv(COVARIANCE), end.theta @ torch.linalg.inv(COVARIANCE)
    h2 = H**2 * (B2 if name == "ovrvo" else 1.0)
    closed = -h2 / 8 * ((after**2 - before**2) / MASS).sum(-1) / T
    torch.testing.assert_close(record.log_accept, closed, rtol=0, atol=1e-12)


def test_the_note_s_effective_energy_is_minus_t_log_ratio():
    """ΔH = ΔU − ½ Σ Δθᵀ(g + g') + h²b²/8 Δ(gᵀ M⁻¹ g), on a target that is not quadratic."""
    target, steps, h = quartic(0.0), 3, 0.3
    b2 = 2 / (G * h) * math.tanh(G * h / 2)
    kernel = kernel_of("ovrvo", target, h, steps, gamma=G, temperature=T, mass=MASS, acceptance="monitor")
    state = exact_state(kernel, target, Random(1), 50)
    path = [state.theta]
    noise, _ = tables(steps + 1, 1, 50)
    for length in (1, 2, 3):
        shorter = replace(kernel, steps=length)
        end, record = run_trajectory(shorter, target, state, Scripted(0, noise), 0, range(50))
        path.append(end.theta)
    slopes = [target.gradient(theta) for theta in path]
    change = target.potential(path[-1]) - target.potential(path[0])
    for n in range(steps):
        change = change - ((path[n + 1] - path[n]) * (slopes[n] + slopes[n + 1])).sum(-1) / 2
    change = change + h**2 * b2 / 8 * ((slopes[-1] ** 2 - slopes[0] ** 2) / MASS).sum(-1)
    torch.testing.assert_close(record.log_accept, -change / T, rtol=0, atol=1e-12)


def test_amagold_s_log_ratio_on_a_quadratic():
    """−ε² (r*ᵀ Hess r* − rᵀ Hess r)/(8 σ⁴ T), r at the trajectory's start and end."""
    sigma = 1.4
    target = Gaussian(covariance=COVARIANCE)
    mass = torch.tensor([sigma**2, sigma**2], dtype=F64)
    kernel = kernel_of(
        "l2mc", target, H, 5, friction=Friction("beta", 0.4), temperature=T, mass=mass, acceptance="monitor"
    )
    state = exact_state(kernel, target, Random(1), 50)
    random = Random(1)
    end, record = run_trajectory(kernel, target, state, random, 0, range(50))
    r = math.sqrt(T) * sigma * random.normal("noise", 0, 1, 50, 2, F64)[0]
    precision = torch.linalg.inv(COVARIANCE)
    change = ((end.momentum @ precision) * end.momentum).sum(-1) - ((r @ precision) * r).sum(-1)
    torch.testing.assert_close(record.log_accept, -(H**2) / (8 * sigma**4) * change / T, rtol=0, atol=1e-12)


def test_acceptance_of_a_leapfrog_on_a_standard_normal():
    """E[accept] ≈ 2 Φ(−h³ √d/8), here with d = 50 and h = .8: .651 (simulated: .653 to a few thousandths)."""
    target = Gaussian(50)
    kernel = kernel_of("langevin", target, 0.8)
    state = exact_state(kernel, target, Random(1), 20_000)
    _, record = run_trajectory(kernel, target, state, Random(1), 0, range(20_000))
    assert float(record.accept_prob.mean()) == pytest.approx(0.653, abs=0.016)  # 6 standard errors and .003


@pytest.mark.parametrize(
    ("acceptance", "chance"),
    [
        ("metropolis", lambda ratio: min(1, ratio)),
        ("monitor", lambda ratio: min(1, ratio)),
        ("persistent_uniform", lambda ratio: min(1, ratio)),
        ("barker", lambda ratio: ratio / (1 + ratio)),
    ],
)
def test_the_probability_of_acceptance_is_that_of_the_rule(acceptance, chance):
    """One leapfrog step on a normal of variance 1 at T = 2, whose ends tell m: MH = exp(−Δ(x² + m²)/4)."""
    target, h = Gaussian(1), 1.5
    kernel = kernel_of("langevin", target, h, temperature=2.0, acceptance=acceptance)
    state = exact_state(kernel, target, Random(3), 50)
    _, record = run_trajectory(kernel, target, state, Random(3), 0, range(50))
    ends = state.theta[:, 0].tolist(), record.proposal[:, 0].tolist()
    for x, end, said in zip(*ends, record.accept_prob.tolist(), strict=True):
        half = (end - x) / h
        change = end**2 + (half - h / 2 * end) ** 2 - x**2 - (half + h / 2 * x) ** 2
        assert said == pytest.approx(chance(math.exp(-change / 4)))


@pytest.mark.parametrize(
    ("word", "gamma", "order"), [("BAB", 0, 3.0), ("OBABO", 1.0, 3.0), ("ABA", 0, 3.0), ("ABOBA", 1.0, 2.5)]
)
def test_energy_error_of_a_step_by_its_order_in_h(word, gamma, order):
    """h³; with noise between the kicks of ABOBA, whose two drifts then differ by √h times a normal, h^2.5."""
    target, spread = quartic(0.0), []
    for h in (0.1, 0.05, 0.025) if order == 3 else (0.025, 0.0125, 0.00625):
        kernel = kernel_of("hmc", target, h, word=word, gamma=gamma)
        _, _, record = both_outcomes(kernel, target, exact_state(kernel, target, Random(1), 5_000), 1, 0)
        spread.append(float(record.log_accept.std()))
    slopes = [math.log2(a / b) for a, b in zip(spread, spread[1:], strict=False)]
    assert slopes == pytest.approx([order, order], abs=0.15)


# ---- the state that a decision leaves


@pytest.mark.parametrize("settings", [{}, {"ends": "exact", "gradient": "minibatch", "batch_size": 1}])
def test_cached_energy_and_gradient_belong_to_the_state(settings):
    """After acceptances and rejections alike, over several decisions; every U is exact, of all data."""
    target = FourParts(2)
    kernel = kernel_of("hmc", target, 0.35, 3, **settings)
    state = exact_state(kernel, target, Random(1), 300)
    outcomes = set()
    for index in range(4):
        begun = state
        state, record = run_trajectory(kernel, target, state, Random(1), index, range(300))
        outcomes |= set(record.accepted.tolist())
        assert torch.equal(state.potential, target.potential(state.theta))
        assert torch.equal(state.gradient, target.gradient(state.theta))
        assert torch.equal(record.potential, state.potential)
        proposal = both_outcomes(kernel, target, begun, 1, index)[0].theta
        assert torch.equal(record.delta_potential, target.potential(proposal) - begun.potential)
    assert outcomes == {True, False}


@pytest.mark.parametrize("sampler", ["ggmc", "hmc", "aboba", "amagold", "sghmc"])
def test_every_gradient_point_is_observed_once(sampler):
    """With its position, and after the first kick there the energy that a trajectory ending there would have."""
    target = quartic(1.0)
    kernel = kernel_of(sampler, target, 0.3, 4, acceptance="monitor", gradient="minibatch")
    state = exact_state(kernel, target, Random(1), 5)
    for length in (4, 2):
        seen = []
        shorter = replace(kernel, steps=length, batches=kernel.batches.independent(kernel.points - 4 + length))
        observe = lambda *what: seen.append(what)  # noqa: B023, E731
        end, record = run_trajectory(shorter, target, state, Random(1), 0, range(5), observe)
        assert [what[0] for what in seen] == list(range(shorter.points))
        assert torch.equal(seen[0][3], torch.zeros(5, dtype=F64))
        if kernel.word.kicks_at_both_ends:
            point, theta, _, energy, _ = seen[-1]
            assert torch.equal(seen[0][1], state.theta) and torch.equal(theta, end.theta)
            assert torch.equal(energy, record.delta_kinetic)
            if length == 4:
                middle = seen[2]
            else:  # the first half of the longer one, up to there
                torch.testing.assert_close(middle[3], energy)
                torch.testing.assert_close(middle[1], theta)


def test_full_gradients_at_the_ends_are_taken_once():
    """The start's comes with the state, the end's with its U: 3 steps with exact ends evaluate U once."""
    calls = []

    class Counting(FourParts):
        def potential(self, theta):
            calls.append("U")
            return super().potential(theta)

        def gradient(self, theta, batch=None):
            calls.append("full" if batch is None else "batch")
            return super().gradient(theta, batch)

    target = Counting(2)
    kernel = kernel_of("ggmc", target, 0.1, 3, ends="exact", batch_size=1)
    state = exact_state(kernel, target, Random(1), 4)
    calls.clear()
    run_trajectory(kernel, target, state, Random(1), 0, range(4))
    assert calls == ["batch", "batch", "U", "full"]


class Cliff(Quartic):
    """Not finite beyond ``edge``: U is NaN or infinite there."""

    edge, beyond = 1.0, math.nan

    def potential(self, theta):
        energy = super().potential(theta)
        return torch.where((theta.abs() > self.edge).any(-1), self.beyond, energy)


@pytest.mark.parametrize("beyond", [math.nan, math.inf])
@pytest.mark.parametrize("acceptance", ["metropolis", "persistent_uniform", "monitor"])
def test_divergence(acceptance, beyond):
    """A non-finite energy is a rejection; under monitor that chain alone is frozen and stays where it was."""
    target = Cliff(1)
    target.beyond = beyond
    kernel = kernel_of("ggmc", target, 0.5, 2, acceptance=acceptance)
    state = start(kernel, target, torch.linspace(-0.9, 0.9, 200, dtype=F64)[:, None], Random(1), range(200))
    for index in range(5):
        before = state
        state, record = run_trajectory(kernel, target, state, Random(1), index, range(200))
        lost = ~torch.isfinite(before.potential + record.delta_potential)
        assert bool(lost.any()) and not bool(lost.all())
        assert bool((record.log_accept[lost] == -math.inf).all()) and not bool(record.accepted[lost].any())
        assert torch.equal(state.theta[lost], before.theta[lost])
        assert bool(torch.isfinite(state.potential).all())
        assert bool(state.alive[lost].logical_not().all()) == (acceptance == "monitor")
        if acceptance == "monitor":
            assert torch.equal(state.theta[~before.alive], before.theta[~before.alive])
            assert torch.equal(record.accepted, before.alive & ~lost)


def test_zero_temperature_is_descent_without_a_ratio():
    target = quartic(0.0)
    kernel = kernel_of("ggmc", target, 0.2, 5, gamma=1.0, temperature=0.0, acceptance="monitor")
    state = start(kernel, target, torch.ones(3, 2, dtype=F64), Random(1), range(3))
    assert bool((state.momentum == 0).all())
    for index in range(40):
        state, record = run_trajectory(kernel, target, state, Random(1), index, range(3))
        assert bool((record.log_accept == -math.inf).all()) and bool(record.accepted.all())
    assert float(state.theta.abs().max()) < 1e-3
    assert "temperature > 0" in refusal(lambda: kernel_of("ggmc", target, 0.2, temperature=0.0))


@pytest.mark.parametrize("settings", [{}, {"schedule": RANDOM_COSINE}, {"gradient": "minibatch"}])
def test_a_target_may_give_the_same_tensors_each_time(settings):
    """Else U and gradient of a state that is kept would be those of the end that was rejected."""

    class Buffered(Quartic):
        def __init__(self):
            super().__init__(2, noise=0.5)
            self.buffers = {}

        def again(self, kind, value):
            return self.buffers.setdefault((kind, len(value)), value.clone()).copy_(value)

        def potential(self, theta):
            return self.again("U", super().potential(theta))

        def gradient(self, theta, batch=None):
            return self.again("gradient", super().gradient(theta, batch))

    ends, target = [], Buffered()
    assert wrong_gradient(target, torch.ones(3, 2, dtype=F64)) is None
    for each in (target, Quartic(2, noise=0.5)):
        kernel = kernel_of("hmc", each, 1.0, 2, **settings)
        state = exact_state(kernel, each, Random(1), 40)
        for index in range(4):
            state, record = run_trajectory(kernel, each, state, Random(1), index, range(40))
            assert 0 < int(record.accepted.sum()) < 40
        ends.append([one for one in state.values() if one is not None])
    assert all(map(torch.equal, *ends))


def test_coordinates_that_do_not_move_have_no_momentum():
    """Whatever the gradient says of them."""

    class Half(Quartic):
        moves = torch.tensor([True, False])

        def gradient(self, theta, batch=None):
            return torch.where(self.moves, super().gradient(theta, batch), self.of_others)

    target = Half(2, noise=1.0)
    for name, target.of_others in [(name, one) for name in ("ggmc", "hmc", "sghmc") for one in (0.0, math.inf)]:
        kernel = kernel_of(name, target, 0.4, 2, acceptance="monitor")
        state = exact_state(kernel, target, Random(1), 5)
        end, _ = run_trajectory(kernel, target, state, Random(1), 0, range(5))
        assert bool((end.theta[:, 0] != state.theta[:, 0]).all()) and torch.equal(end.theta[:, 1], state.theta[:, 1])


# ---- many chains in one tensor


def test_a_step_size_and_a_friction_for_each_chain():
    """Chain by chain what a run with those numbers alone does, with directions at random, too; or one of either."""
    target, four, others = quartic(1.0), [0.2, 0.4, 0.6, 0.3], [0.1, 0.5, 1.0, 2.0]
    for sizes, gammas, settings in (
        (four, others, {}),
        (four, others, {"schedule": RANDOM_COSINE}),
        (four, others, {"schedule": PALINDROMIC, "temperature": 1.5, "mass": MASS}),
        (four, [0.7] * 4, {"schedule": RANDOM_COSINE}),
        ([0.4] * 4, others, {"schedule": RANDOM_COSINE}),
    ):
        h = sizes[0] if len(set(sizes)) == 1 else sizes
        friction = Friction.of(h, friction=gammas[0] if len(set(gammas)) == 1 else gammas)
        kernel = kernel_of("ggmc", target, h, 3, friction=friction, **settings)
        state = exact_state(kernel, target, Random(1), 4)
        ways_taken = set()
        for index in range(6):
            new, record = run_trajectory(kernel, target, state, Random(1), index, range(4))
            ways_taken |= set((Random(1).uniform("direction", index, range(4))[:, 0] < 0.5).tolist())
            for chain in range(4):
                one = kernel_of("ggmc", target, sizes[chain], 3, gamma=gammas[chain], **settings)
                row = torch.tensor([chain])
                alone, ratio = run_trajectory(one, target, state.rows(row), Random(1), index, row)
                torch.testing.assert_close(alone.theta[0], new.theta[chain], rtol=1e-13, atol=1e-13)
                torch.testing.assert_close(ratio.log_accept[0], record.log_accept[chain], rtol=1e-11, atol=1e-11)
            state = new
        assert ways_taken == {True, False}


def test_chains_do_not_depend_on_their_neighbours():
    """Not on how many run beside them, under every law of minibatches."""
    target = FourParts(2)
    for name, settings in {
        "independent": {"batch_size": 1},
        "shuffled": {"batch_size": 1, "minibatches": "shuffled"},
        "random": {"batch_size": 2, "schedule": RANDOM_COSINE},
    }.items():
        kernel = kernel_of("ggmc", target, 0.2, 4, **settings)
        state = exact_state(kernel, target, Random(1), 12)
        together, _ = run_trajectory(kernel, target, state, Random(1), 2, range(12))
        part, _ = run_trajectory(kernel, target, state.rows(torch.arange(5, 9)), Random(1), 2, range(5, 9))
        assert torch.equal(together.theta[5:9], part.theta), name
        assert torch.equal(together.momentum[5:9], part.momentum), name


def test_no_number_is_used_twice():
    """Exact draws, the first momentum, coins, batches, views, noises and decisions: each place is asked for once."""

    class Spy(Random):
        def words(self, stream, trajectory, steps, chains, size):
            for step in range(steps) if isinstance(steps, int) else steps:
                assert (stream, trajectory, step) not in asked, (stream, trajectory, step)
                asked.add((stream, trajectory, step))
            return super().words(stream, trajectory, steps, chains, size)

    mixture, four = Mixture(noise=1.0), FourParts(2)
    for target, settings in [
        (mixture, {"schedule": RANDOM_COSINE, "refresh": "partial", "temperature": 0.4}),
        (four, {"batch_size": 1, "minibatches": "shuffled", "schedule": Schedule(direction="random")}),
        (four, {"batch_size": 1, "minibatches": "independent", "refresh": "full"}),
    ]:
        asked, random = set(), Spy(1)
        kernel = kernel_of("ggmc", target, 0.2, 4, **settings)
        state = exact_state(kernel, target, random, 30)
        state = state.rows(torch.tensor([0]))  # of several chains, both ways of a direction ask for their own
        for index in range(3):
            state, _ = run_trajectory(kernel, target, state, random, index, range(1))
        assert len(asked) > 9


def test_trajectories_draw_fresh_numbers():
    """Another trajectory, another noise, another batch, another decision; a kept seed repeats them all."""
    target = quartic(1.0)
    kernel = kernel_of("ggmc", target, 0.3, 2, acceptance="monitor")
    state = exact_state(kernel, target, Random(1), 6)
    ends = [run_trajectory(kernel, target, state, Random(1), index, range(6))[0].theta for index in (0, 1, 0)]
    assert torch.equal(ends[0], ends[2]) and not bool((ends[0] == ends[1]).any())
    assert len({float(value) for value in ends[0].flatten()}) == 12
    seen = []
    for index in range(4):
        observe = lambda step, theta, m, energy, batch: seen.append(batch)  # noqa: E731
        run_trajectory(kernel, target, state, Random(1), index, range(6), observe)
    assert len({float(value) for batch in seen for value in batch.flatten()}) == 4 * 3 * 12


# ---- rule 4: precision


def test_energies_of_a_long_float32_cycle():
    """4,000 steps in float32, full gradient: log MH against the closed form of a quadratic at the float32 ends.

    The bound 1e-2 is for d = 272,474; rounding adds up as the root of the number of coordinates. Started far
    out, so that U and K exchange much: the sum must not be that of large numbers. Eight chains' root mean square,
    about a quarter of the bound, must be below half of it (false alarm below 1e-5).
    """
    dim, h, steps, chains = 500, 0.02, 4_000, 8
    target = Gaussian(dim)
    kernel = kernel_of("ggmc", target, h, steps, gamma=0.5, gradient="full", dtype=torch.float32)
    theta = 3 + target.exact(chains, Random(1)).float()
    state = start(kernel, target, theta, Random(1), range(chains))
    end, record = run_trajectory(kernel, target, state, Scripted(1, decision=0.0), 0, range(chains))
    closed = -(h**2) / 8 * (end.theta.double().square().sum(-1) - state.theta.double().square().sum(-1))
    assert record.delta_kinetic.dtype == F64 and float(record.delta_kinetic.mean()) > 1e3
    error = float((record.log_accept - closed).square().mean().sqrt())
    assert error < 0.5e-2 * math.sqrt(dim / 272_474)


def test_kinetic_change_is_one_difference_of_the_stored_momenta():
    """Of large float32 momenta and a small kick, where K(m') − K(m) of float32 sums has no digit left."""
    m = 1e4 * Random(1).normal("gibbs", 0, 1, 2, 10_000)[0]
    after = flows.kick(m, Random(1).normal("gibbs", 1, 1, 2, 10_000)[0], 0.01)
    exact = ((after.double() ** 2 - m.double() ** 2) / 2).sum(-1)
    change = flows.kinetic_change(m, after, 1.0)
    assert change.dtype == F64
    torch.testing.assert_close(change, exact, rtol=2e-5, atol=1e-1)
    naive = (after**2 / 2).sum(-1) - (m**2 / 2).sum(-1)
    assert float((naive - exact).abs().max()) > 1e3


# ---- a network, by brute force


@pytest.mark.thorough
@pytest.mark.parametrize(
    "settings",
    [{"minibatches": "shuffled"}, {"ends": "exact"}, {"temperature": 0.5, "word": "ABOBA"}, {"compiled": True}],
)
def test_log_ratio_of_a_network_by_brute_force(settings):
    """A 3-4-2 perceptron in float64: the trajectory, U and log MH by autograd on separate tensors."""
    move = Segments() if settings.get("compiled") else segment
    settings = {key: value for key, value in settings.items() if key != "compiled"}
    data = Dataset(Random(1).normal("split", 0, 1, 12, 3, F64)[0].float().double(), torch.arange(12) % 3 % 2, 2)
    target = NetworkPotential(MLP(3, (4,), 2), data, prior="unit", dtype=F64)
    h, steps, batch, temperature = 0.1, 4, 3, settings.get("temperature", 1.0)
    kernel = kernel_of("ggmc", target, h, steps, gamma=0.7, batch_size=batch, **settings)
    word, points = kernel.word.letters, kernel.points
    noise = Random(3).normal("gibbs", 0, steps + 2, 1, target.dim, F64)
    theta = target.initial(1, Random(2))
    state = start(kernel, target, theta, Random(4), range(1))
    random = Scripted(5, noise, decision=0.0)
    end, record = run_trajectory(kernel, target, state, random, 0, range(1), segment=move)

    def energy(flat, index):
        w1, b1, w2, b2 = flat[0].split([12, 4, 8, 2])
        logits = torch.relu(data.inputs[index] @ w1.view(4, 3).T + b1) @ w2.view(2, 4).T + b2
        nll = -logits.log_softmax(1)[torch.arange(len(index)), data.targets[index]].sum()
        return nll * 12 / len(index) + (flat**2).sum() / 2

    seen = kernel.batches.draw(Random(5), 0, torch.arange(1))

    def slope(theta, point):
        if kernel.ends == "exact":
            index = torch.arange(12) if point in (0, points - 1) else seen(point - 1)[0]
        else:
            index = seen(point)[0]
        theta = theta.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(energy(theta, index), theta)
        return gradient

    decays, ones = [math.exp(-0.7 * h)] * steps, torch.ones(1, dtype=F64)
    path = Path(word, [h] * steps, decays, theta, state.momentum, ones, temperature, slope, noise)
    ratio = -(energy(path.theta, torch.arange(12)) - energy(theta, torch.arange(12)) + path.work) / temperature
    torch.testing.assert_close(end.theta, path.theta, rtol=0, atol=1e-12)
    torch.testing.assert_close(record.log_accept, ratio, rtol=0, atol=1e-10)
    assert abs(float(ratio)) > 1e-3
