"""The law of a trajectory's minibatches must read the same backwards, jointly; shown by listing every outcome."""

from collections import Counter
from itertools import permutations, product

import pytest
import torch
from conftest import LIMIT, refusal, z_score

from sgmcmc.data import minibatches
from sgmcmc.data.minibatches import Blocks, GradientNoise, Minibatches
from sgmcmc.random import Random


class Every(Random):
    """Random numbers of which every outcome is one chain: permutations by (trajectory, step), and one coin."""

    def __init__(self, size, places, coin):
        super().__init__(0)
        orders = list(permutations(range(size)))
        axes = [orders] * len(places) + ([[0.25, 0.75]] if coin else [])
        self.outcomes = list(product(*axes))
        self.places, self.coin = places, coin

    def permutation(self, stream, trajectory, chains, size, step=0):
        assert stream == "minibatch"
        column = self.places.index((trajectory, step))
        return torch.tensor([self.outcomes[chain][column] for chain in chains.tolist()])

    def uniform(self, stream, trajectory, chains, size=1, step=0):
        assert stream == "direction" and self.coin
        coins = [self.outcomes[chain][-1] for chain in chains.tolist()]
        return torch.tensor(coins, dtype=torch.float64)[:, None].expand(-1, size)


def sequences(law, every, trajectories=(0,)):
    """The batches of every outcome (as sets) in the order of the gradient points, one tuple a trajectory."""
    chains = torch.arange(len(every.outcomes))
    drawn = []
    for trajectory in trajectories:
        batches = law.draw(every, trajectory, chains)
        points = [batches(point).tolist() for point in range(law.points)]
        drawn.append([tuple(frozenset(batch[chain]) for batch in points) for chain in range(len(chains))])
    return list(zip(*drawn, strict=True))


@pytest.mark.parametrize(
    ("size", "batch", "points", "places", "coin"),
    [
        (3, 1, 3, [(0, 0)], False),  # an epoch
        (4, 2, 2, [(0, 0)], False),
        (3, 1, 6, [(0, 0), (0, 1)], False),  # two epochs
        (3, 1, 4, [(0, 0), (0, 1)], True),  # an epoch and one batch
        (4, 2, 3, [(0, 0), (0, 1)], True),
        (3, 1, 7, [(0, 0), (0, 1), (0, 2)], True),  # two epochs and one batch
        (5, 2, 3, [(0, 0), (0, 1)], True),  # a batch size that leaves one datum over
        (4, 1, 2, [(0, 0)], False),  # a run inside a permutation
        (4, 1, 1, [(0, 0)], False),
        (2, 2, 3, [(0, 0), (0, 1), (0, 2)], False),  # an epoch of a single batch
    ],
)
def test_shuffled_batches_read_the_same_backwards(size, batch, points, places, coin):
    """Every outcome of the permutations and the coin, listed: the sequence and its reverse are equally frequent."""
    law = Minibatches("shuffled", size, batch, points)
    every = Every(size, places, coin)
    counts = Counter(drawn for (drawn,) in sequences(law, every))
    assert counts == Counter({drawn[::-1]: count for drawn, count in counts.items()})
    assert len(counts) > 1 or points == 1 or batch == size
    per_epoch = size // batch
    for drawn in counts:  # whole epochs, aligned at one end
        starts = [0] if not coin else [0, 1]
        whole = [
            all(
                len(frozenset.union(*drawn[i : i + per_epoch])) == per_epoch * batch
                for i in range(s, points - per_epoch + 1, per_epoch)
            )
            for s in starts
        ]
        assert points < per_epoch or any(whole)


@pytest.mark.parametrize(("size", "batch", "points"), [(4, 1, 2), (5, 1, 2), (5, 2, 1)])
def test_runs_of_one_permutation_read_backwards_each_by_itself(size, batch, points):
    """Two trajectories share a permutation: turning either round alone gives equally frequent pairs, which is what
    makes the second exact given the first. What is left over is dropped."""
    law = Minibatches("shuffled", size, batch, points)
    counts = Counter(sequences(law, Every(size, [(0, 0)], False), (0, 1)))
    assert counts == Counter({(one[::-1], two): count for (one, two), count in counts.items()})
    assert counts == Counter({(one, two[::-1]): count for (one, two), count in counts.items()})
    assert all(len(frozenset.union(*one, *two)) == 2 * points * batch for one, two in counts)


def test_the_extra_batch_is_first_as_often_as_last():
    """With an independent coin for each chain and trajectory; the batch is of another permutation."""
    law, chains, first = Minibatches("shuffled", 4, 1, 5), torch.arange(40_000), []
    for trajectory in (0, 1):
        batches = law.draw(Random(1), trajectory, chains)
        drawn = torch.cat([batches(point) for point in range(5)], 1)
        at_end = drawn[:, :4].sort(1).values.eq(torch.arange(4)).all(1)
        at_start = drawn[:, 1:].sort(1).values.eq(torch.arange(4)).all(1)
        assert bool((at_start | at_end).all())
        sure = at_start != at_end
        assert abs(z_score(at_start[sure].double() - 0.5)) < LIMIT
        first.append((at_start, sure))
    both = first[0][1] & first[1][1]
    agree = first[0][0][both] == first[1][0][both]
    assert abs(z_score(agree.double() - 0.5)) < LIMIT


def test_the_extra_coin_is_not_the_coin_of_a_direction():
    """Of the same trajectory, in any chain."""
    chains = torch.arange(20_000)
    direction = Random(1).uniform("direction", 0, chains)[:, 0] < 0.5
    batches = Minibatches("shuffled", 2, 1, 3).draw(Random(1), 0, chains)
    extra_first = batches(0) == Random(1).permutation("minibatch", 0, chains, 2, step=1)[:, :1]
    for one, two in ((chains, chains), (chains[:9_000], 2 * chains[:9_000] + 1)):
        product_ = (extra_first[one, 0].double() - extra_first.double().mean()) * (direction[two].double() - 0.5)
        assert abs(z_score(product_)) < LIMIT


@pytest.mark.parametrize("points", [5, 6, 7, 10, 11])
def test_a_trajectory_that_straddles_an_epoch_is_refused(points):
    message = refusal(lambda: Minibatches("shuffled", 8, 2, points))
    assert ("straddles" in message) == (points % 4 > 1)
    assert not message or message.startswith("sampler.minibatches=shuffled")


@pytest.mark.parametrize("size", [0, 9, -1])
def test_impossible_batch_sizes_are_refused(size):
    assert refusal(lambda: Minibatches("independent", 8, size, 3)).startswith(f"batch_size={size}")


def test_independent_batches_are_independent_and_uniform():
    """Of the points, the trajectories and the chains; drawn with replacement."""
    law, chains = Minibatches("independent", 5, 2, 3), torch.arange(50_000)
    first, second = (law.draw(Random(2), trajectory, chains) for trajectory in (0, 1))
    columns = torch.cat([batches(point) for batches in (first, second) for point in range(3)], 1)
    for column in columns.T:
        for value in range(5):
            assert abs(z_score((column == value).double() - 0.2)) < LIMIT
    for one in range(12):
        for two in range(one):
            assert abs(z_score((columns[:, one] == columns[:, two]).double() - 0.2)) < LIMIT


@pytest.mark.parametrize(("law", "points"), [("independent", 3), ("shuffled", 4), ("shuffled", 5), ("shuffled", 8)])
def test_every_trajectory_draws_afresh(law, points):
    batches = Minibatches(law, 40, 10, points)
    chains = torch.arange(3)
    drawn = [torch.stack([batches.draw(Random(1), t, chains)(p) for p in range(points)]) for t in (0, 1, 0)]
    assert torch.equal(drawn[0], drawn[2]) and not torch.equal(drawn[0], drawn[1])
    assert drawn[0].shape == (points, 3, 10) and drawn[0].dtype == torch.int64
    assert 0 <= int(drawn[0].min()) and int(drawn[0].max()) < 40
    assert len({tuple(batch.tolist()) for batch in drawn[0].flatten(0, 1)}) == 3 * points


def test_points_may_be_asked_for_again():
    """The batch of a point is a function of the point, in whatever order they are asked for."""
    for law, points in (("independent", 9), ("shuffled", 9), ("shuffled", 8), ("shuffled", 3)):
        batches = Minibatches(law, 8, 2, points).draw(Random(1), 4, torch.arange(6))
        there = [batches(point).clone() for point in range(points)]
        back = [batches(point).clone() for point in reversed(range(points))][::-1]
        assert all(torch.equal(one, two) for one, two in zip(there, back, strict=True))


def test_one_chain_has_the_batches_that_it_has_among_many():
    """Where all coins fall alike another branch is taken: the same batches."""
    law = Minibatches("shuffled", 6, 2, 4)
    many = law.draw(Random(1), 0, torch.arange(20))
    for chain in range(20):
        alone = law.draw(Random(1), 0, torch.tensor([chain]))
        for point in range(4):
            assert torch.equal(alone(point)[0], many(point)[chain])


@pytest.mark.parametrize("views", [2, 5])
def test_views_are_uniform_and_independent_of_the_data(views):
    law, chains = Minibatches("shuffled", 6, 2, 3, views=views), torch.arange(20_000)
    drawn = torch.cat([law.draw(Random(1), 0, chains)(point) for point in range(3)], 1)
    image, view = drawn // views, drawn % views
    assert torch.equal(image.sort(1).values, torch.arange(6).expand(20_000, 6))
    for value in range(views):
        assert abs(z_score((view == value).double().mean(1) - 1 / views)) < LIMIT
    for datum in (1, 2):  # beside it, and in the next batch
        assert abs(z_score((view[:, 0] == view[:, datum]).double() - 1 / views)) < LIMIT
    assert abs(z_score((view[:, 0] == image[:, 0]).double() - (image[:, 0] < views).double() / views)) < LIMIT
    other = torch.cat([law.draw(Random(1), 1, chains)(point) for point in range(3)], 1) % views
    assert abs(z_score((other == view).double().mean(1) - 1 / views)) < LIMIT
    drawn = Minibatches("independent", 6, 1, 3, views=views).draw(Random(1), 0, chains)(0)
    assert abs(z_score((drawn % views == drawn // views % views).double() - 1 / views)) < LIMIT


def test_gradient_noise_has_its_standard_deviation():
    noise = GradientNoise(1.7, 3, 4, torch.float64)
    drawn = torch.stack([noise.draw(Random(1), 0, torch.arange(30_000))(point) for point in range(4)])
    assert drawn.shape == (4, 30_000, 3)
    assert abs(z_score(drawn.flatten())) < LIMIT and abs(z_score(drawn.flatten().square() - 1.7**2)) < LIMIT
    assert abs(z_score((drawn[0] * drawn[1]).flatten())) < LIMIT
    assert noise.independent(9).points == 9 and noise.independent(9).std == 1.7


def test_blocks_hand_out_what_was_drawn(monkeypatch):
    """In blocks of an even number of steps, whatever their size, within the limits."""
    for block in (1, 8, 50, 1 << 20):
        monkeypatch.setattr(minibatches, "BLOCK", block)
        asked = []

        def draw(steps, asked=asked):
            asked.append(steps)
            return torch.arange(steps.start, steps.stop)

        blocks = Blocks(draw, 11, 4)
        assert [int(blocks[step]) for step in range(11)] == list(range(11))
        assert int(blocks[3]) == 3 and int(blocks[10]) == 10
        assert all(steps.start % 2 == 0 and steps.stop <= 11 for steps in asked)
        assert [step for steps in asked[: -(-11 // len(asked[0]))] for step in steps] == list(range(11))


def test_other_points_of_the_same_size():
    law = Minibatches("shuffled", 8, 2, 4, views=3)
    independent, longer = law.independent(7), law.with_points(8)
    assert (independent.law, independent.points, independent.batch_size, independent.views) == ("independent", 7, 2, 3)
    assert (longer.law, longer.points, longer.batch_size, longer.views) == ("shuffled", 8, 2, 3)
