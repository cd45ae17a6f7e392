"""Calibration: parameters from the prior, data from the model, chains on those data: is it all one joint law?

Where θ* is drawn from the prior and y from the model given θ*, θ* is an exact draw of its own data's posterior. So a
corrected chain that starts at θ* leaves the law of (θ, y) as it was, and nothing needs a burn-in or a known posterior.
Prior and model are written down here once more, by their drawing: a U with another prior, another likelihood, another
temperature or wrong estimates of both its gradient and itself is found, though it be the chain's own target.

- Geweke (2004), "Getting it right": E[f(θ_k, y) − f(θ*, y)] = 0.
- Talts et al. (2018), "Validating Bayesian inference algorithms with simulation-based calibration", without its
  thinning: the truth is ranked among draws that are exchangeable with it. For that k trajectories lead from θ* to a
  hub, and as many from the hub to every draw (Besag and Clifford 1989, the parallel method). Chains whose momentum is
  drawn anew are reversible in θ, so the way to the hub is one from it, and ranks are uniform whatever k.

y of six logistic data has 64 values: all chains with the same y are run at once.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from conftest import LIMIT, invariance, worst, z_score
from scipy import stats
from torch import Tensor, nn

from sgmcmc.data import Dataset
from sgmcmc.kernel import make_kernel
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.potentials.regression import LinearRegression, LogisticRegression
from sgmcmc.random import Random
from sgmcmc.trajectory import run_trajectory, start

PRIOR, NOISE, HEAT = 0.7, 1.5, 2.0  # variances of the prior and the noise, and the temperature of linear regressions
RANKS = 16
RARE = 1e-6  # of a uniform law's χ² statistic

SAMPLERS = {
    "amagold": ("amagold", 0.25, {"batch_size": 2}),
    "ggmc": ("ggmc", 0.25, {"batch_size": 1, "acceptance": "metropolis", "minibatches": "shuffled"}),
    "ggmc, exact ends": ("ggmc", 0.25, {"batch_size": 2, "acceptance": "metropolis", "ends": "exact"}),
}


def kernel_of(name: str, potential, steps: int = 3, **more):
    sampler, step_size, settings = SAMPLERS[name]
    return make_kernel(sampler, potential, step_size, steps=steps, dtype=torch.float64, **settings, **more)


def normals(random: Random, trajectory: int, chains: int, size: int) -> Tensor:
    return random.normal("split", trajectory, 1, chains, size, torch.float64)[0]


def design(size: int, features: int) -> Tensor:
    return normals(Random(5), 0, size, features)


def linear_replicates(random: Random, count: int):
    """(θ*, columns, y, its potential, its chains) for 16 draws of y from the model at T = 2.

    exp(−U/T) is the posterior of a model whose two variances are T times those that U is given. The θ* of a y are
    those of ``count`` draws of the prior that y's likelihood, over its maximum, keeps.
    """
    inputs, first = design(6, 2), 0
    truth = math.sqrt(HEAT * PRIOR) * normals(random, 1, 16, 2)
    targets = truth @ inputs.T + math.sqrt(HEAT * NOISE) * normals(random, 2, 16, 6)
    for i, y in enumerate(targets):
        theta = math.sqrt(HEAT * PRIOR) * normals(random, 10 + i, count, 2)
        least = (y - inputs @ torch.linalg.lstsq(inputs, y[:, None]).solution[:, 0]).square().sum()
        excess = (y - theta @ inputs.T).square().sum(-1) - least
        kept = theta[random.uniform("split", 50 + i, count)[:, 0] < torch.exp(-excess / (2 * HEAT * NOISE))]
        potential = LinearRegression(inputs, y, noise_variance=NOISE, prior_variance=PRIOR)
        yield kept, inputs, y, potential, range(first, first + len(kept))
        first += len(kept)


def logistic_replicates(random: Random, count: int):
    """(θ*, columns, y, its potential, its chains): the ``count`` draws of the model, those of one y together."""
    inputs = design(6, 1)
    columns = torch.cat((torch.ones(6, 1, dtype=torch.float64), inputs), 1)
    theta = math.sqrt(PRIOR) * normals(random, 1, count, 2)
    targets = (random.uniform("split", 3, count, 6) < torch.special.expit(theta @ columns.T)).long()
    code, first = targets @ 2 ** torch.arange(6), 0
    for value in code.unique():
        rows = torch.nonzero(code == value).flatten()
        data = Dataset(inputs, targets[rows[0]], 2)
        potential = LogisticRegression(data, prior_variance=PRIOR, standardise=False)
        yield theta[rows], columns, targets[rows[0]].double(), potential, range(first, first + len(rows))
        first += len(rows)


def advance(kernel, potential, theta: Tensor, random: Random, chains: range, trajectories: range):
    """θ after so many trajectories, and the mean acceptance; momentum begins anew."""
    state, accepted = start(kernel, potential, theta, random, chains), 0.0
    for index in trajectories:
        state, record = run_trajectory(kernel, potential, state, random, index, chains)
        accepted += float(record.accept_prob.mean()) / len(trajectories)
    return state.theta, accepted


def joint_moments(theta: Tensor, columns: Tensor, targets: Tensor) -> Tensor:
    """f(θ, y), ``[chains, 7]``: of θ alone, and of θ with the data."""
    fit = theta @ columns.T
    data = (fit * targets, fit**2 * targets, (fit - targets) ** 2)
    return torch.cat((theta, theta**2, *(part.mean(-1, keepdim=True) for part in data)), -1)


def joint_scores(replicates, name: str, random: Random, *, trajectories: int = 3, **more):
    """z-scores of f(θ_k, y) − f(θ*, y), and the mean acceptance."""
    changes, acceptances = [], []
    for theta, columns, targets, potential, chains in replicates:
        kernel = kernel_of(name, potential, **more)
        after, accepted = advance(kernel, potential, theta, random, chains, range(trajectories))
        change = joint_moments(after, columns, targets) - joint_moments(theta, columns, targets)
        changes.append(change)
        acceptances.append(accepted)
    return {i: z_score(column) for i, column in enumerate(torch.cat(changes).T)}, float(np.mean(acceptances))


def ranks(replicates, name: str, random: Random, *, trajectories: int = 2, **more) -> Tensor:
    """Of θ* among RANKS − 1 draws exchangeable with it, ``[3, replicates]``: by both coordinates and by the fit.

    Rejections make ties, which are broken at random.
    """
    found = []
    for theta, columns, targets, potential, chains in replicates:
        kernel = kernel_of(name, potential, refresh="full", **more)
        hub, _ = advance(kernel, potential, theta, random, chains, range(trajectories))
        copies = RANKS - 1
        # Numbers of their own: ``start``'s momentum is replaced at once, the rest goes by the trajectories' indices.
        wide = range(chains.start * copies, chains.stop * copies)
        later = range(trajectories, 2 * trajectories)
        draws, _ = advance(kernel, potential, hub.repeat_interleave(copies, 0), random, wide, later)
        values = [torch.column_stack((at, ((at @ columns.T) * targets).mean(-1))) for at in (theta, draws)]
        truth, others = values[0][:, None], values[1].view(len(theta), copies, 3)
        ties = (others == truth).sum(1)
        coin = random.uniform("gibbs", 0, chains, 3)
        found.append((others < truth).sum(1) + (coin * (ties + 1)).long())
    return torch.cat(found).T


def uniformity(found: Tensor) -> list[float]:
    """p-values of χ² of the ranks' counts."""
    return [stats.chisquare(torch.bincount(row, minlength=RANKS).numpy()).pvalue for row in found]


@pytest.mark.thorough
@pytest.mark.parametrize("name", SAMPLERS)
def test_joint_law_of_linear_regression(name):
    """Chains on 16 data sets at T = 2; seven comparisons at 5.5 standard errors, 3e-7 of false alarms."""
    random = Random(21)
    replicates = linear_replicates(random, 20_000)
    scores, accepted = joint_scores(replicates, name, random, temperature=HEAT)
    assert worst(scores) < LIMIT, scores
    assert 0.3 < accepted < 0.99


@pytest.mark.thorough
@pytest.mark.parametrize("name", SAMPLERS)
def test_joint_law_of_logistic_regression(name):
    """40,000 chains, each with data of its own; seven comparisons at 5.5 standard errors, 3e-7 of false alarms."""
    random = Random(22)
    scores, accepted = joint_scores(logistic_replicates(random, 40_000), name, random)
    assert worst(scores) < LIMIT, scores
    assert 0.3 < accepted < 0.995


def test_ranks_of_linear_regression():
    """Ranks of thousands of truths at T = 2; three p-values above 1e-6, 3e-6 of false alarms."""
    random = Random(23)
    p = uniformity(ranks(linear_replicates(random, 4_000), "amagold", random, temperature=HEAT))
    assert min(p) > RARE, p


@pytest.mark.thorough
def test_ranks_of_logistic_regression():
    """Ranks of 8,000 truths; three p-values above 1e-6, 3e-6 of false alarms."""
    random = Random(24)
    p = uniformity(ranks(logistic_replicates(random, 8_000), "amagold", random))
    assert min(p) > RARE, p


@pytest.mark.slow
def test_joint_law_of_a_network():
    """A linear classifier's weights from its prior, labels from its softmax, 400 times; five comparisons, 1e-6."""
    random, inputs = Random(25), design(4, 2)
    std, changes = 1.2, []
    theta = std * normals(random, 1, 400, 4)
    for i in range(400):
        logits = inputs @ theta[i].view(2, 2).T
        coin = random.uniform("split", 3, range(i, i + 1), 4)[0]
        targets = (coin < torch.special.expit(logits[:, 1] - logits[:, 0])).long()
        model = nn.Linear(2, 2, bias=False)
        potential = NetworkPotential(model, Dataset(inputs, targets, 2), prior=std, dtype=torch.float64)
        kernel = kernel_of("ggmc", potential)
        after, _ = advance(kernel, potential, theta[i : i + 1], random, range(i, i + 1), range(2))
        values = []
        for at in (theta[i], after[0]):
            fit = inputs @ at.view(2, 2).T
            right = fit.gather(1, targets[:, None]).mean()
            likely = fit.log_softmax(-1).gather(1, targets[:, None]).sum()
            values.append(torch.stack((at.mean(), at.square().mean(), at[0] * at[2], right, likely)))
        changes.append(values[1] - values[0])
    scores = {i: z_score(column) for i, column in enumerate(torch.stack(changes).T)}
    assert worst(scores) < LIMIT, scores


@pytest.mark.parametrize("name", SAMPLERS)
def test_exact_draws_of_linear_regression_stay(name):
    """Moments after ten decisions from exact posterior draws, T = 2: at most ten comparisons, 4e-7."""
    inputs = design(6, 2)
    potential = LinearRegression(inputs, design(6, 3)[:, 2], noise_variance=NOISE, prior_variance=PRIOR)
    scores, accepted = invariance(kernel_of(name, potential, temperature=HEAT), potential, chains=20_000, decisions=10)
    assert worst(scores) < LIMIT, scores
    assert 0.3 < accepted < 0.99
