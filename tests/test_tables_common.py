"""What every maker of a table knows of a run: what its trajectories cost."""

import pytest

from experiments.tables.common import gradients_of, passes
from sgmcmc.kernel import make_kernel
from sgmcmc.potentials.analytic import Gaussian
from sgmcmc.potentials.regression import GeneratedLogistic


def test_gradients_of_a_trajectory_are_counted_at_each_position_once():
    """As ``Kernel.work`` does; a full gradient at the start is that of the end before."""
    for gradient, trajectories in (
        ("minibatch", (("OBABO", 10), ("ABOBA", 11), ("BAB", 10), ("BABOBAB", 5))),
        ("full", (("OBABO", 11), ("ABOBA", 11), ("BAB", 11))),
    ):
        for word, steps in trajectories:
            config = {"sampler": {"word": word, "gradient": gradient, "ends": None}, "steps_per_cycle": steps}
            assert gradients_of(config) == gradients_of({**config, "steps_per_cycle": None}, steps) == 11
            kernel = make_kernel("ggmc", Gaussian(1), 0.1, word=word, steps=steps, gradient=gradient, refresh="full")
            assert kernel.work(1.0, Gaussian(1))[0] == 11


@pytest.mark.parametrize(
    ("sampler", "settings", "cost"),
    [
        ("amagold", {}, 2.6),
        ("sghmc", {}, 1.6),
        ("hmc", {}, 10.0),
        ("l2mc", {}, 11.0),
        ("ggmc", {}, 1.76),
        ("ggmc", {"acceptance": "metropolis"}, 2.76),
        ("ggmc", {"ends": "exact"}, 2.44),
        ("ggmc", {"ends": "exact", "acceptance": "metropolis"}, 2.44),
        ("ggmc", {"gradient": "full"}, 10.0),
        ("hmc", {"acceptance": "barker_minibatch", "gradient": "minibatch"}, 1.76),
    ],
)
def test_passes_of_a_trajectory_are_its_gradients_and_u_at_its_end(sampler, settings, cost):
    """Of 10 steps, with minibatches of 16 of 100 data; as ``Kernel.work`` says, but for U that is only measured."""
    target = GeneratedLogistic(100, 2)
    kernel = make_kernel(sampler, target, 0.01, steps=10, batch_size=16, **settings)
    policies = {key: getattr(kernel, key) for key in ("gradient", "ends", "acceptance")}
    config = {"sampler": {"word": kernel.word.letters, **policies}, "batch_size": 16, "steps_per_cycle": 10}
    gradients, energies = kernel.work(0.16, target)
    assert passes({**config, "data": {"train_size": 100}}) == pytest.approx(cost)
    assert gradients + (energies if kernel.acceptance != "monitor" else 0) == pytest.approx(cost)
