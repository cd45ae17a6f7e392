"""Minibatch SGD on U/N from a counter: where a chain may start, near a mode instead of far in the tails."""

from __future__ import annotations

import torch
from torch import Tensor

from sgmcmc.errors import SettingError
from sgmcmc.potentials import Potential
from sgmcmc.random import Random


def sgd(
    potential: Potential,
    theta: Tensor,
    *,
    random: Random,
    epochs: int = 3,
    lr: float = 0.1,
    momentum: float = 0.5,
    batch_size: int = 100,
    weight_decay: float = 0.0,
    chains: range | Tensor | None = None,
) -> Tensor:
    """θ ``[chains, dim]`` after ``epochs`` shuffled epochs of SGD with momentum,

        v ← momentum · v + ∇Ũ(θ)/N + weight_decay · θ,      θ ← θ − lr · v

    (torch.optim.SGD on the mean loss; the prior's part of it is in ∇Ũ/N already). AMAGOLD's networks start from 3
    epochs with lr .1, momentum .5, batches of 500 and weight decay 5e-4. A function of θ, the settings and
    ``random`` (stream ``warm_start``): the same start every time. Each datum's view is drawn afresh each epoch where
    there are several; the last batch of an epoch may be smaller. Coordinates that only ``gibbs`` changes stay as they
    are. ``chains`` are the chains' numbers, 0, 1, … by default. The given θ is not changed.

    Raises SettingError for settings that cannot work and where θ ends non-finite.
    """
    size = potential.data_size
    for setting, value, fits, mend in (
        ("epochs", epochs, epochs >= 0, "must be 0 or more"),
        ("lr", lr, lr > 0, "must be a positive number"),
        ("momentum", momentum, 0 <= momentum < 1, "must be in [0, 1)"),
        ("batch_size", batch_size, 1 <= batch_size <= size, f"must be from 1 to the number of data, {size}"),
    ):
        if not fits:
            raise SettingError(f"warm_start.{setting}", value, mend)
    if epochs and getattr(potential, "least_batch", 1) > 1 and 1 in (batch_size, size % batch_size):
        mend = f"leaves one datum of {size} alone, of which batch normalisation makes no statistics: take another size"
        raise SettingError("warm_start.batch_size", batch_size, mend)
    chains = chains if chains is not None else range(len(theta))
    views, moves = getattr(potential, "views", 1), getattr(potential, "moves", None)
    theta, velocity = theta.clone(), torch.zeros_like(theta)
    for epoch in range(epochs):
        order = random.permutation("warm_start", epoch, chains, size)
        if views > 1:
            order = order * views + random.integers("warm_start", epoch, range(1, 2), chains, size, views)[0]
        for batch in order.split(batch_size, 1):
            slope = potential.gradient(theta.detach(), batch).detach()
            velocity.mul_(momentum).add_(slope, alpha=1 / size).add_(theta, alpha=weight_decay)
            if moves is not None:  # whatever its gradient says of the others
                velocity = torch.where(moves.to(theta.device), velocity, 0.0)
            theta.add_(velocity, alpha=-lr)
    if not bool(theta.isfinite().all()):
        raise SettingError("warm_start.lr", lr, "the SGD start diverged; a smaller one would do")
    return theta
