"""The targets: each a class with three methods, ``potential``, ``gradient`` and ``initial``.

θ is ``[chains, dim]``. ``dim`` is the number of coordinates, ``data_size`` N the number of data (0: none).

- ``potential(theta)`` is the exact U(θ), ``[chains]`` float64, one fixed function of θ: minus the log likelihood
  of all data minus the log prior.
- ``gradient(theta, batch=None)`` is ∇U, ``[chains, dim]``; with a batch an unbiased estimate of it. A batch of a
  target with data is int64 indices ``[chains, B]`` (N/B times the batch's likelihood gradient, plus the
  prior's); of a target without data it is a tensor ``[chains, dim]`` that is added (artificial noise).
- ``initial(chains, random)`` is where chains start.

A target may have more, and is asked for it where it is needed (defaults in brackets): ``noise`` [0], the
standard deviation of the artificial gradient noise; ``inexact`` [None], why U is not a fixed function of θ;
``views`` [1], from which minibatches choose one of a datum; ``shown`` [``data_size`` times ``views``], how many of
them U sums over; ``together`` [True], whether many chains go in one tensor; ``chains_at_once``
[all], how many do at most; ``is_network`` [not ``together``], whether minibatches and a row of metrics every cycle are
its defaults; ``moves`` [None], a boolean ``[dim]``,
False for coordinates that only ``gibbs`` changes; ``exact(chains, random, temperature)``;
``potential_and_gradient(theta)``, its own as ``in_one_pass`` says;
``gibbs(theta, temperature, random, trajectory, chains)``;
``predict(theta, inputs)``, the classes' probabilities ``[chains, n, classes]`` of a tensor of inputs or, of images,
a ``Dataset``; ``column_scale`` [1], what it divides the columns of these inputs by itself; ``estimate(theta, batch)``,
U from a minibatch; ``losses(theta, batch)``, the terms of the sum over data, ``[chains, B]`` float64, and
``prior(theta)``, the rest of U, ``[chains]`` float64: where both are there, decisions can be made on a part of the
data; ``capturable`` [False], whether the gradient of a minibatch is the same work on the device at every call, and may
be replayed as a CUDA graph. Of parameter tensors ``blocks``, their names and
slices of θ, and ``std``, the prior's standard deviations ``[dim]``; ``fit``, columns of metrics that the last
``potential`` left, numbers or tensors ``[chains]``; ``counter``, which the chain raises where random augmentation is
drawn anew; ``compile_layers`` and ``normalised``, of layers that are worth compiling: these are what
``NetworkPotential`` has besides. The chains of a run that is continued go as they were begun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from sgmcmc.random import Random


class Potential(Protocol):
    """What the engine asks of every target; see the module's docstring."""

    dim: int
    data_size: int

    def potential(self, theta: Tensor) -> Tensor: ...

    def gradient(self, theta: Tensor, batch: Tensor | None = None) -> Tensor: ...

    def initial(self, chains: int | range, random: Random) -> Tensor: ...


NEEDED = ("potential", "gradient", "initial", "dim", "data_size")


def together(target: Potential) -> bool:
    """Whether many chains go in one tensor; those of networks are run one after another, but where they are many and
    the weights few."""
    return getattr(target, "together", True)


def is_network(target: Potential) -> bool:
    """Whether it has a network's defaults: looking at all data is much work."""
    return getattr(target, "is_network", not together(target))


def groups(target: Potential, chains: int, apart: bool = False) -> list[range]:
    """The numbers of the chains that are evaluated at once, in groups of about the same size; a network's each by
    itself where its chains go ``apart``, as in random directions."""
    alone = not together(target) or apart and is_network(target)
    most = 1 if alone else getattr(target, "chains_at_once", chains)
    number = -(-chains // most)
    ends = [chains * group // number for group in range(number + 1)]
    return list(map(range, ends, ends[1:]))


def shown(target: Potential) -> int:
    """How many views of the data U sums over: all of each datum, or one where they are drawn at random."""
    return getattr(target, "shown", target.data_size * getattr(target, "views", 1))


def in_one_pass(target: Potential) -> Callable[[Tensor], tuple[Tensor, Tensor]] | None:
    """The target's ``potential_and_gradient``, if it has one.

    One that was inherited is not that of a class, or of an instance, with a ``potential`` or ``gradient`` of its own.
    """
    for own in (getattr(target, "__dict__", {}), *map(vars, type(target).__mro__)):
        if "potential_and_gradient" in own:
            return target.potential_and_gradient
        if "potential" in own or "gradient" in own:
            break
    return None


def potential_and_gradient(target: Potential, theta: Tensor) -> tuple[Tensor, Tensor]:
    """U and its full gradient, in one pass where the target has one."""
    both = in_one_pass(target)
    return both(theta) if both else (target.potential(theta), target.gradient(theta))
