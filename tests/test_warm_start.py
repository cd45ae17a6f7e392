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


def test_no_graph_of_autograd_grows_along_the_descent():
    class Learned:
        data_size, weight = 12, torch.nn.Parameter(torch.ones(2))

        def gradient(self, theta, batch):
            theta.requires_grad_()
            return torch.autograd.grad(theta.square().sum(), theta)[0] * self.weight

    assert not sgd(Learned(), torch.ones(1, 2), random=Random(0), epochs=2, batch_size=4).requires_grad


class Centred:
    """∇U of a batch is N (θ − c), c the mean of its indices over 10; it keeps the batches."""

    data_size = 7

    def __init__(self, views=1):
        self.seen = []
        if views > 1:  # without there is one
            self.views = views

    def gradient(self, theta, batch):
        self.seen.append(batch)
        return self.data_size * (theta - batch.double().mean(1, keepdim=True) / 10)


@pytest.mark.parametrize("views", [1, 3])
def test_each_chain_takes_its_own_steps(views):
    """v ← .8 v + (θ − c) + .3 θ, θ ← θ − .05 v by a loop, over batches of 3, 3 and 1; alone as beside another."""
    potential, start = Centred(views), torch.tensor([[1.0, -2.0], [0.5, 4.0]], dtype=torch.float64)
    settings = {"random": Random(4), "epochs": 4, "lr": 0.05, "momentum": 0.8, "batch_size": 3, "weight_decay": 0.3}
    ends = sgd(potential, start, chains=range(5, 7), **settings)
    assert [batch.shape[1] for batch in potential.seen] == [3, 3, 1] * 4
    for chain in range(2):
        for k in range(2):
            place, velocity = float(start[chain, k]), 0.0
            for batch in potential.seen:
                centre = sum(batch[chain].tolist()) / batch.shape[1] / 10
                velocity = 0.8 * velocity + (place - centre) + 0.3 * place
                place -= 0.05 * velocity
            assert float(ends[chain, k]) == pytest.approx(place, rel=1e-12)
        epochs = torch.cat(potential.seen, 1)[chain].view(4, 7)
        assert all(sorted(data) == list(range(7)) for data in (epochs // views).tolist())
        assert len({tuple(epoch) for epoch in epochs.tolist()}) == 4
        alone = sgd(Centred(views), start[chain : chain + 1], chains=range(5 + chain, 6 + chain), **settings)
        torch.testing.assert_close(alone[0], ends[chain], rtol=1e-14, atol=0)
        if views > 1:
            assert set((epochs % views).flatten().tolist()) == set(range(views))


@pytest.mark.parametrize("slope", [1.0, torch.nan])
def test_what_only_gibbs_updates_change_stays(slope):
    """Neither a gradient there, as of binary coordinates, nor weight decay moves it; the others are as without it."""

    class Mixed(Centred):
        moves = torch.tensor([True, False])

        def gradient(self, theta, batch):
            return super().gradient(theta, batch) * torch.tensor([1.0, slope], dtype=theta.dtype)

    start = torch.tensor([[1.0, 1.0], [0.5, 0.0]], dtype=torch.float64)
    ends = [sgd(one(), start, random=Random(4), epochs=2, batch_size=3, weight_decay=0.3) for one in (Mixed, Centred)]
    assert torch.equal(ends[0][:, 0], ends[1][:, 0]) and torch.equal(ends[0][:, 1], start[:, 1])


def test_what_is_not_given_is_three_epochs_of_batches_of_100_with_momentum_a_half(digits):
    potential = NetworkPotential(MLP(64, [8]), digits.train)
    theta = potential.initial(2, Random(0))
    given = {"epochs": 3, "lr": 0.1, "momentum": 0.5, "batch_size": 100, "weight_decay": 0.0, "chains": range(1)}
    ours, theirs = (sgd(potential, theta[:1], random=Random(0), **settings) for settings in ({}, given))
    assert torch.equal(ours, theirs)


def test_the_least_and_the_most_of_each_setting_is_taken():
    start = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    assert torch.equal(sgd(Centred(), start, random=Random(0), epochs=0, batch_size=7), start)
    for size, batches in ((1, 7), (7, 1)):
        potential = Centred()
        end = sgd(potential, start, random=Random(0), epochs=1, lr=1e-3, momentum=0, batch_size=size)
        assert len(potential.seen) == batches
    # The last was one step by all data at once, whose centre is .3.
    assert end.tolist()[0] == pytest.approx([1 - 1e-3 * 0.7, -2 + 1e-3 * 2.3])


@pytest.mark.thorough
def test_three_epochs_teach_a_resnet20_the_digits(digits):
    potential = NetworkPotential(ResNet(in_channels=1), digits.train, prior="cin")
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
