"""The numbers of a chain are those of its configuration: a change that gives it others belongs to a change of the law.

A run that was begun before such a change would go on as another chain under its old name.
"""

import pytest

import sgmcmc
from experiments.build import build
from experiments.config import compose

PINNED = {  # the sum of the squares of all draws
    "model=double_well sampler=amagold step_size=.25 sampler.beta=.25 model.noise=1 steps_per_cycle=3 "
    "chains=5": 278.6302773,
    "model=gaussian_pairs model.pairs=2 sampler=nonreversible_langevin step_size=.1 sampler.alpha=.9 "
    "chains=3": 285.308695,
    "model=banana sampler=ggmc sampler.acceptance=metropolis step_size=.5 schedule=cosine schedule.direction=random "
    "steps_per_cycle=4 chains=4": 364.7008041,
    "model=quartic model.dim=3 sampler=hmc step_size=.1 steps_per_cycle=3 burn_in=12 tune.target=.6 mass=estimate "
    "mass_cycles=4 chains=3": 37.26914121,
    "model=quartic sampler=hmc sampler.acceptance=barker step_size=[.3,.6] steps_per_cycle=2 burn_in=9 tune.target=.4 "
    "schedule=stairs schedule.every=5 schedule.factor=.5 model.noise=.5 sampler.gradient=minibatch": 3.223102577,
    "model=gaussian model.dim=3 sampler=hmc step_size=.1 steps_per_cycle=6 burn_in=50 tune.target=.7 "
    "tune.trajectory=auto chains=2 cycles=60": 87.46378427,
    "model=gaussian model.dim=2 sampler=sghmc step_size=.2 model.noise=1 init=exact temperature=.5 "
    "chains=2": 54.80635692,
    "model=mixed model.binary=4 sampler=langevin step_size=.05 chains=3": 629.3605216,
    "model=hierarchical_regression model.size=20 model.features=3 sampler=ovrvo sampler.gradient=minibatch "
    "sampler.acceptance=metropolis batch_size=5 step_size=.03 steps_per_cycle=4 friction=2 chains=2": 131.3081997,
    "model=logistic_generated model.size=60 sampler=baoab sampler.gradient=minibatch sampler.minibatches=shuffled "
    "sampler.acceptance=metropolis batch_size=10 step_size=.1 steps_per_cycle=6 chains=2 burn_in=5 "
    "mass=estimate": 1192.509693,
    "model=logistic_generated model.size=60 sampler=random_walk sampler.acceptance=barker_minibatch mass=50 "
    "sampler.decision_batch=20 step_size=.02 chains=2": 1367.550149,
    "model=location_mixture sampler=random_walk sampler.acceptance=austerity sampler.decision_batch=20 step_size=.1 "
    "chains=2": 78.20095664,
    "model=mlp model.hidden=[5] data=digits data.train_size=40 batch_size=10 sampler=ggmc lr=3e-3 steps_per_cycle=4 "
    "sampler.minibatches=shuffled sampler.acceptance=metropolis temperature=.5 chains=2 init=sgd "
    "warm_start.batch_size=10": 1503.487535,
    "model=resnet20 model.width=2 data=digits data.train_size=8 batch_size=4 lr=3e-4 sampler.ends=exact "
    "sampler.acceptance=metropolis augmentation=averaged views=3 steps_per_cycle=3 cycles=6": 1859.318958,
}


@pytest.mark.thorough
@pytest.mark.parametrize("words", PINNED)
def test_a_chain_has_the_numbers_that_it_had(words):
    """If it has others on purpose, raise ``sgmcmc.LAW``, say there why, and pin the new ones here."""
    pieces = build(compose(["cycles=20", *words.split(), "dtype=float64", "device=cpu", "compile=false"]))
    run = sgmcmc.run(pieces.kernel, pieces.potential, pieces.plan, pieces.random, pieces.chains, pieces.initial)
    assert float(run.draws.square().sum()) == pytest.approx(PINNED[words], rel=1e-7)
