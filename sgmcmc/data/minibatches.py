"""Which data each gradient of a trajectory sees, so that the sequence reads the same backwards in law.

A trajectory with P gradient points draws fresh ζ_1 … ζ_P. Its acceptance probability is exact if the joint
law of (ζ_1, …, ζ_P) is that of (ζ_P, …, ζ_1); equal marginals are not enough. Offered:

``independent``
    each ζ is B data drawn independently and uniformly, with replacement.
``shuffled``
    where P is k whole epochs: k permutations of the data, one after another. Where P is k epochs and one
    batch (L steps of a word such as OBABO have L + 1 points): the extra batch stands first or last with
    probability ½ each. Where P is less than an epoch: runs inside one permutation, which goes on over several
    trajectories; what is left of it when the next trajectory would straddle its end is dropped. Where B does not
    divide N, an epoch leaves out the last N mod B of its permutation.

With ``views`` K > 1 an index j stands for view j mod K of datum j div K, and each datum's view is drawn
uniformly and independently.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sgmcmc.errors import SettingError
from sgmcmc.random import Random

LAWS = ("independent", "shuffled")
BLOCK = 1 << 20  # random numbers drawn at once on a CPU
DEVICE_BLOCK = 1 << 23  # and on a GPU, where a launch costs as much as drawing a hundred thousand of them


class Blocks:
    """Random numbers of ``steps`` steps, drawn in blocks of many steps and handed out one step at a time.

    ``draw(range of steps)`` makes a block ``[steps, …]``; ``size`` is how many numbers a step takes.
    """

    def __init__(self, draw: Callable[[range], Tensor], steps: int, size: int, device: torch.device | None = None):
        self._draw, self._steps = draw, steps
        block = BLOCK if device is None or device.type == "cpu" else DEVICE_BLOCK
        self._length = max(2, block // max(size, 1)) & ~1  # even: normals come in pairs of steps
        self._start, self._block = 0, None

    def __getitem__(self, step: int) -> Tensor:
        if self._block is None or not self._start <= step < self._start + len(self._block):
            start = step // self._length * self._length
            self._start, self._block = start, self._draw(range(start, min(start + self._length, self._steps)))
        return self._block[step - self._start]


class Minibatches:
    """The minibatches of trajectories that take ``points`` gradients from minibatches: int64 ``[chains, batch_size]``.

    Raises SettingError where ``shuffled`` batches cannot be arranged so that they read the same backwards.
    """

    def __init__(self, law: str, data_size: int, batch_size: int, points: int, views: int = 1):
        self.law, self.data_size, self.batch_size = law, data_size, batch_size
        self.points, self.views = points, views
        if not 1 <= batch_size <= data_size:
            raise SettingError("batch_size", batch_size, f"must be from 1 to the number of data, {data_size}")
        self.per_epoch = data_size // batch_size
        self.epochs, self.extra = divmod(points, self.per_epoch)
        if law == "shuffled" and self.epochs and self.extra > 1:
            mend = f"a trajectory with {points} gradients straddles an epoch of {self.per_epoch} batches and would not"
            mend += " read the same backwards: make it whole epochs, or use sampler.minibatches=independent"
            raise SettingError("sampler.minibatches", law, mend)

    def independent(self, points: int) -> Minibatches:
        """Independent batches of the same size for ``points`` gradients that are no trajectory's."""
        return Minibatches("independent", self.data_size, self.batch_size, points, self.views)

    def with_points(self, points: int) -> Minibatches:
        """By the same law, for trajectories of another length."""
        return Minibatches(self.law, self.data_size, self.batch_size, points, self.views)

    def draw(self, random: Random, trajectory: int, chains: Tensor) -> Callable[[int], Tensor]:
        """The batches of one trajectory: a function of the gradient point 0 … points − 1."""
        if self.law == "independent":
            batches = self._independent(random, trajectory, chains)
        elif self.epochs:
            batches = self._epochs(random, trajectory, chains)
        else:
            batches = self._run(random, trajectory, chains)
        if self.views == 1:
            return batches
        views = Blocks(
            lambda steps: random.integers("augmentation", trajectory, steps, chains, self.batch_size, self.views),
            self.points,
            len(chains) * self.batch_size,
        )
        return lambda point: batches(point) * self.views + views[point]

    def _independent(self, random, trajectory, chains):
        blocks = Blocks(
            lambda steps: random.integers("minibatch", trajectory, steps, chains, self.batch_size, self.data_size),
            self.points,
            len(chains) * self.batch_size,
        )
        return blocks.__getitem__

    def _epochs(self, random, trajectory, chains):
        size, cache = self.batch_size, {}

        def permutation(epoch: int) -> Tensor:
            if epoch not in cache:
                cache.clear()
                cache[epoch] = random.permutation("minibatch", trajectory, chains, self.data_size, step=epoch)
            return cache[epoch]

        def regular(point: int) -> Tensor:
            epoch, batch = divmod(point, self.per_epoch)
            return permutation(epoch)[:, batch * size : (batch + 1) * size]

        if not self.extra:
            return regular
        extra = random.permutation("minibatch", trajectory, chains, self.data_size, step=self.epochs)[:, :size]
        first = random.uniform("direction", trajectory, chains, step=1) < 0.5  # step 0 is the schedule's coin
        last_point, everywhere, nowhere = self.points - 1, bool(first.all()), not bool(first.any())

        def batches(point: int) -> Tensor:
            if point == 0:
                return torch.where(first, extra, regular(0))
            if point == last_point:
                return torch.where(first, regular(point - 1), extra)
            if everywhere or nowhere:
                return regular(point - everywhere)
            return torch.where(first, regular(point - 1), regular(point))

        return batches

    def _run(self, random, trajectory, chains):
        runs = self.per_epoch // self.points
        epoch, run = divmod(trajectory, runs)
        permutation = random.permutation("minibatch", epoch, chains, self.data_size)
        start, size = run * self.points * self.batch_size, self.batch_size
        return lambda point: permutation[:, start + point * size : start + (point + 1) * size]


class GradientNoise:
    """Artificial gradient noise N(0, std² I) of a target without data, ``[chains, dim]`` a point."""

    def __init__(self, std: float, dim: int, points: int, dtype: torch.dtype):
        self.std, self.dim, self.points, self.dtype = std, dim, points, dtype

    def independent(self, points: int) -> GradientNoise:
        """Noise of the same law for ``points`` gradients: those of a trajectory are independent, too."""
        return GradientNoise(self.std, self.dim, points, self.dtype)

    with_points = independent

    def draw(self, random: Random, trajectory: int, chains: Tensor) -> Callable[[int], Tensor]:
        """The noise of one trajectory: a function of the gradient point 0 … points − 1."""

        def block(steps: range) -> Tensor:
            return self.std * random.normal("minibatch", trajectory, steps, chains, self.dim, self.dtype)

        return Blocks(block, self.points, len(chains) * self.dim).__getitem__
