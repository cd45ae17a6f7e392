"""The locations of a mixture of two normals: a posterior of two coordinates with two modes, as a sum over data."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sgmcmc.arguments import whole
from sgmcmc.potentials.analytic import Constant
from sgmcmc.random import Random

VARIANCE = 2.0  # of either normal
PRIOR = (10.0, 1.0)  # variances of θ₁ and θ₂


class LocationMixture:
    """x_i ~ ½ N(θ₁, 2) + ½ N(θ₁ + θ₂, 2), θ₁ ~ N(0, 10), θ₂ ~ N(0, 1), ``size`` data drawn at θ = (0, 1).

    (1, −1) explains the data as well as (0, 1) does. Source: Welling and Teh, "Bayesian learning via stochastic
    gradient Langevin dynamics" (2011), section 5.1, with 100 data; Seita et al. tried their test on it, too. The data
    are the "split" numbers of seed 2020.
    """

    dim = 2

    def __init__(self, size: int = 100):
        size = whole("size", size, 1)
        random = Random(2020)
        second = random.uniform("split", 0, size)[:, 0] < 0.5
        self.data_size = size
        self.data = second + math.sqrt(VARIANCE) * random.normal("split", 1, 1, size, 1, torch.float64)[0, :, 0]
        self._data, self._prior_variance = Constant(self.data), Constant(torch.tensor(PRIOR))

    def _squares(self, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """x − θ₁ and x − θ₁ − θ₂, ``[chains, B]``."""
        first = x - theta[:, :1]
        return first, first - theta[:, 1:]

    def losses(self, theta: Tensor, batch: Tensor) -> Tensor:
        """−log p(x_i | θ) of the data ``batch`` ``[chains, B]``, ``[chains, B]`` float64."""
        return self._losses(theta, self._data.like(theta, torch.float64)[batch])

    def _losses(self, theta: Tensor, x: Tensor) -> Tensor:
        both = [-(apart**2) / (2 * VARIANCE) for apart in self._squares(theta.to(torch.float64), x)]
        return math.log(2) + math.log(2 * math.pi * VARIANCE) / 2 - torch.logaddexp(*both)

    def prior(self, theta: Tensor) -> Tensor:
        """−log p(θ), ``[chains]`` float64."""
        variance = self._prior_variance.like(theta, torch.float64)
        return ((theta.to(torch.float64) ** 2 / variance + (2 * math.pi * variance).log()) / 2).sum(-1)

    def potential(self, theta: Tensor) -> Tensor:
        """U = −log p(x, θ), ``[chains]`` float64."""
        return self._losses(theta, self._data.like(theta, torch.float64)).sum(-1) + self.prior(theta)

    def gradient(self, theta: Tensor, batch: Tensor | None = None) -> Tensor:
        """∇U, or its estimate from ``batch`` ``[chains, B]``; r is the second normal's share of a datum."""
        data = self._data.like(theta)
        x = data if batch is None else data[batch]
        first, second = self._squares(theta, x)
        r = ((first**2 - second**2) / (2 * VARIANCE)).sigmoid()
        slopes = torch.stack((((1 - r) * first + r * second).sum(-1), (r * second).sum(-1)), -1)
        return theta / self._prior_variance.like(theta) - slopes * (self.data_size / x.shape[-1] / VARIANCE)

    def initial(self, chains: int | range, random: Random) -> Tensor:
        """Standard normals about (½, 0), between the modes."""
        normal = random.normal("start", 0, 1, chains, 2, torch.float64)[0]
        return normal + normal.new_tensor([0.5, 0.0])
