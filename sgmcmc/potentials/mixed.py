"""A target of continuous and binary coordinates, for samplers that mix Gibbs updates with Langevin ones or HMC."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from sgmcmc.arguments import number, whole
from sgmcmc.errors import SettingError
from sgmcmc.potentials.analytic import Analytic
from sgmcmc.random import Random


class MixedBinary(Analytic):
    """Two strongly coupled normals, on the first of which ``binary`` binary variables depend.

        u ~ N(0, 1),     v | u ~ N(u, sd²),     w_i | u ~ Bernoulli(1/(1 + e^u)),  i = 1 … binary.

    θ = (u, v, w_1, …), dim = 2 + binary; every w is 0 or 1, and with k = Σ w_i

        U = u²/2 + (v − u)²/(2 sd²) + binary log(1 + e^{−u}) + k u + log(2π sd).

    Only u and v move by drift and kick (``moves``); the w change in ``gibbs``, between trajectories. Given the w, u is
    confined to a part of its range (at u = 0 to a standard deviation of 1/√(1 + binary/4)), so that it crosses the
    whole of it only as fast as the w are updated along: what a long trajectory without Gibbs updates cannot do. The
    small ``sd`` bounds the step size. All marginals are known: u ~ N(0, 1), v ~ N(0, 1 + sd²), P(w_i = 1) = ½.

    ``every`` is after how many trajectories there is a Gibbs update, of all w at once (they are independent given u).
    Source: Neal (talk, 2020), "Advantage for Models with Discrete Variables", which names no target. This one is that
    of his paper (arXiv:2001.11950) as far as remembered: of the paper only the abstract was at hand to compare.
    """

    def __init__(self, binary: int = 20, sd: float = 0.04, every: int = 1, noise: float = 0.0):
        self.binary, self.sd, self.every = whole("binary", binary, 1), number("sd", sd), whole("every", every, 1)
        if not 0 < self.sd < math.inf:
            raise SettingError("sd", sd, "must be a positive number")
        super().__init__(2 + self.binary, noise)
        self.moves = torch.arange(self.dim) < 2

    def potential(self, theta: Tensor) -> Tensor:
        """U = −log p(u, v, w), ``[chains]`` float64."""
        u, v, w = theta.to(torch.float64).split((1, 1, self.binary), -1)
        energy = u**2 / 2 + (v - u) ** 2 / (2 * self.sd**2) + self.binary * softplus(-u, threshold=40)
        return (energy + w.sum(-1, keepdim=True) * u)[:, 0] + math.log(2 * math.pi * self.sd)

    def _slope(self, theta: Tensor) -> Tensor:
        """(u − (v − u)/sd² + k − binary/(1 + e^u), (v − u)/sd², 0, …)."""
        u, v, w = theta.split((1, 1, self.binary), -1)
        pull = (v - u) / self.sd**2
        slope = u - pull + w.sum(-1, keepdim=True) - self.binary * torch.sigmoid(-u)
        return torch.cat((slope, pull, torch.zeros_like(w)), -1)

    def gibbs(
        self, theta: Tensor, temperature: float, random: Random, trajectory: int, chains: int | range | Tensor
    ) -> Tensor:
        """θ with every w drawn from exp(−U/T) given u: P(w = 1) = 1/(1 + e^{u/T}); at T = 0 its limit.

        One uniform each, the numbers of (stream "gibbs", ``trajectory``, chain). After trajectories ``every`` − 1,
        2 ``every`` − 1, …; else θ itself.
        """
        if (trajectory + 1) % self.every:
            return theta
        u = theta[:, :1].to(torch.float64)
        one = torch.sigmoid(-u / temperature) if temperature else (u < 0).to(u)
        w = random.uniform("gibbs", trajectory, chains, self.binary) < one
        return torch.cat((theta[:, :2], w.to(theta)), 1)

    def exact(self, chains: int | range, random: Random, temperature: float = 1.0) -> Tensor:
        """Independent draws at T = 1, ``[chains, dim]`` float64."""
        if temperature != 1:
            raise SettingError("temperature", temperature, "exact draws of the mixed target are those of temperature 1")
        return self._drawn(1.0, chains, random)

    def initial(self, chains: int | range, random: Random) -> Tensor:
        """u from N(0, 4), v beside it as the target has it, the w given u."""
        return self._drawn(2.0, chains, random)

    def _drawn(self, deviation: float, chains, random: Random) -> Tensor:
        """u from a normal of this standard deviation, v and the w given u."""
        normal = random.normal("start", 0, 1, chains, 2, torch.float64)[0]
        u = deviation * normal[:, :1]
        w = random.uniform("start", 1, chains, self.binary) < torch.sigmoid(-u)
        return torch.cat((u, u + self.sd * normal[:, 1:], w.to(u)), 1)
