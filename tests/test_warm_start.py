"""The SGD start is torch's SGD on U/N, the same every time."""

import pytest
import torch

from sgmcmc.data import load
from sgmcmc.errors import SettingError
from sgmcmc.models import MLP, ResNet
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.random import Random
from sgmcmc.warm_start import sgd


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def test_it_is_torch_sgd_on_the_mean_loss(digits):
    potential = NetworkPotential(MLP(64, [8]), digits.train, prior=2.0, dtype=torch.float64)
    random, size = Random(3), potential.data_size
    theta = potential.initial(1, random)
    settings = {"lr": 0.07, "momentum": 0.6, "weight_decay": 1e-3}
    ours = sgd(potential, theta, random=random, epochs=2, batch_size=400, **settings)  # 4 batches, the last of 300

    model = MLP(64, [8]).double()
    model.load_state_dict(potential.state_dict(theta))
    optimizer = torch.optim.SGD(model.parameters(), **settings)
    for epoch in range(2):
        for batch in random.permutation("warm_start", epoch, 1, size)[0].split(400):
            optimizer.zero_grad()
            logits = model(digits.train.take(batch).double())
            loss = torch.nn.functional.cross_entropy(logits, digits.train.targets[batch])
            (loss + sum(p.square().sum() for p in model.parameters()) / (2 * 2.0 * size)).backward()
            optimizer.step()
    theirs = potential.from_state_dict(model.state_dict())
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_it_is_the_same_every_time_and_another_for_another_chain(digits):
    potential = NetworkPotential(MLP(64, [8]), digits.train)
    theta = potential.initial(1, Random(0))
    before = theta.clone()
    ends = [
        sgd(potential, theta, random=Random(seed), epochs=1, chains=chains)
        for seed, chains in [(0, None), (0, range(1)), (0, range(1, 2)), (1, None)]
    ]
    assert torch.equal(theta, before)
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2]) and not torch.equal(ends[0], ends[3])


def test_views_are_drawn_for_each_epoch(digits):
    class Recorder:
        data_size, views, seen = 12, 5, []

        def gradient(self, theta, batch):
            self.seen.append(batch)
            return torch.zeros_like(theta)

    sgd(Recorder(), torch.zeros(1, 2), random=Random(0), epochs=2, batch_size=4)
    epochs = torch.cat(Recorder.seen, 1).view(2, 12)
    assert torch.equal((epochs // 5).sort(1).values, torch.arange(12).expand(2, 12))
    by_image = [epoch[(epoch // 5).argsort()] % 5 for epoch in epochs]
    assert not torch.equal(by_image[0], by_image[1])


def test_three_epochs_teach_a_resnet20_the_digits(digits):
    potential = NetworkPotential(ResNet(in_channels=1), digits.train)
    random = Random(0)
    theta = sgd(potential, potential.initial(1, random), random=random, lr=0.05)
    right = potential.predict(theta, digits.test)[0].argmax(1) == digits.test.targets
    assert right.double().mean() > 0.85  # measured .90 to .97 over seeds


def test_refusals(digits):
    potential = NetworkPotential(MLP(64, [8]), digits.train)
    theta = potential.initial(1, Random(0))
    for settings, words in [
        ({"lr": 0}, "positive"),
        ({"momentum": 1}, r"\[0, 1\)"),
        ({"batch_size": 0}, "number of data"),
        ({"batch_size": 1501}, "1500"),
        ({"epochs": -1}, "0 or more"),
        ({"lr": 1e30, "epochs": 1}, "diverged"),
    ]:
        with pytest.raises(SettingError, match=words):
            sgd(potential, theta, random=Random(0), **settings)
