"""The targets: each a class with three methods, ``potential``, ``gradient`` and ``initial``.

θ is ``[chains, dim]``. ``dim`` is the number of coordinates, ``data_size`` N the number of data (0: none).

- ``potential(theta)`` is the exact U(θ), ``[chains]`` float64, one fixed function of θ: minus the log likelihood
  of all data minus the log prior. What it computes in float32 PyTorch rounds as it is told to, a GPU's
  convolutions by default to TF32; within ``sgmcmc.precision.full_precision()``, as in ``NetworkPotential``, it is not.
- ``gradient(theta, batch=None)`` is ∇U, ``[chains, dim]``; with a batch an unbiased estimate of it. A batch of a
  target with data is int64 indices ``[chains, B]`` (N/B times the batch's likelihood gradient, plus the
  prior's); of a target without data it is a tensor ``[chains, dim]`` that is added (artificial noise).
- ``initial(chains, random)`` is where so many ``chains`` start, ``[chains, dim]``.

A target may have more, and is asked for it where it is needed; where it has none, the value in brackets is taken.
``potential_and_gradient``, ``estimate``, ``exact`` and ``gibbs`` belong to the U of the class that has them. A class
that has a ``potential`` of its own and inherits them is taken to lack the first three (``own_method``); ``gibbs`` is
refused unless the class says that it is right: ``gibbs = Base.gibbs``.

What U is a sum of, and how it is estimated:

- ``noise`` [0]: standard deviation of the artificial gradient noise of a target without data.
- ``inexact`` [None]: why U is not a fixed function of θ, if it is not; no acceptance is exact then.
- ``views`` [1]: how many views a datum has. Minibatches choose one of each: index j is view j mod K of datum j div K.
- ``shown`` [``data_size`` times ``views``]: how many of these views U sums over.
- ``potential_and_gradient(theta)`` [one after the other]: U and ∇U in one pass.
- ``least_batch`` [1]: data of which a gradient can be taken (batch normalisation needs two).
- ``estimate(theta, batch)`` [the exact U]: U from a minibatch, ``[chains]`` float64, along a traced trajectory.
- ``losses(theta, batch)``, ``[chains, B]`` float64, the terms of the sum over data, and ``prior(theta)``,
  ``[chains]`` float64, the rest of U. Only where both are there can decisions be made on a part of the data.

Where chains start and how they move:

- ``exact(chains, random, temperature)``: independent draws of exp(−U/T), ``[chains, dim]`` float64, for init=exact,
  with numbers of ``random.normal("start", 0, 1, chains, dim, torch.float64)[0]``.
- ``moves`` [all]: bool ``[dim]``, False for coordinates without momentum, which only ``gibbs`` changes.
- ``gibbs(theta, temperature, random, trajectory, chains)``: θ after another Markov update, made after each trajectory
  (in place or not), with numbers of ``random.uniform("gibbs", trajectory, chains, size)`` ``[chains, size]``, or of
  ``random.normal("gibbs", trajectory, 1, chains, size)[0]``: torch's own would be others when the run goes on. An
  update that takes both asks for uniforms of ``step=1``: those of step 0 are made of the normals' words.
- ``together`` [True]: whether many chains go in one tensor, at most ``chains_at_once`` [all] of them.
- ``is_network`` [not ``together``]: whether the defaults are a network's: minibatches, a row of metrics each cycle.

What is predicted:

- ``predict(theta, inputs)``: probabilities of the classes ``[chains, n, classes]`` of a tensor of inputs or, of images,
  a ``Dataset``.
- ``train`` and ``test``: the data sets that a target brings with it, predicted where the settings name no data.
- ``column_scale`` [1]: what it divides the columns of its inputs by, ``[features]``.

``NetworkPotential`` has these besides, and another target may:

- ``blocks``: names of parameter tensors and their slices of θ; ``std``: the prior's standard deviations ``[dim]``,
  infinite of a flat prior.
- ``fit``: columns of metrics that the last evaluation of U left, numbers or tensors ``[chains]``.
- ``counter``: a number that the chain raises before each trajectory, for another draw of random augmentation, where
  U is ``inexact``.
- ``capturable`` [False]: whether a minibatch's gradient is the same work on the device at every call, so that it may be
  replayed as a CUDA graph.
- ``compile_layers``, ``uncompile_layers`` and ``normalised``: of layers that are worth compiling.
- ``join_chains()``: makes ``together`` True, for a run that was begun so.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from numbers import Real
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sgmcmc.errors import SettingError
from sgmcmc.random import Random


class Potential(Protocol):
    """What the engine asks of every target; see the module's docstring."""

    dim: int
    data_size: int

    def potential(self, theta: Tensor) -> Tensor: ...

    def gradient(self, theta: Tensor, batch: Tensor | None = None) -> Tensor: ...

    def initial(self, chains: int, random: Random) -> Tensor: ...


NEEDED = ("potential", "gradient", "initial", "dim", "data_size")
CALLED = {"potential": "theta", "gradient": "theta, batch=None", "initial": "chains, random"}  # with what


def lacking(target: Potential) -> list[str]:
    """What the target lacks of what every target has (``NEEDED``). Raises the AttributeError that a property of its
    own raises, which is no lack."""
    own = dir(type(target))
    return [name for name in NEEDED if (getattr(target, name) if name in own else getattr(target, name, None)) is None]


def check_attributes(target: Potential) -> None:
    """Refuse a target whose ``dim`` or ``data_size`` is no size, whose methods cannot be called as they are, or that
    has something of its own by the name of what it may have, such as a ``std`` of its data or a method ``fit``: that
    would fail in mid-run, or change the chain.

    What few runs ask for (``exact``, ``estimate``, ``losses``, ``prior``, ``predict``, ``train``, ``test``) counts
    there as missing where it is something else.
    """
    for name, least in (("dim", 1), ("data_size", 0)):
        value = getattr(target, name)
        if not _is_whole(value, least):
            shown = value if isinstance(value, str) else getattr(value, "__name__", repr(value))
            raise SettingError(name, shown, f"of the target must be an int, at least {least}")
    for name, given in CALLED.items():
        method, most = getattr(target, name, None), len(given.split(","))
        if not (_takes(method, most) and _takes(method, most - given.count("="))):
            raise SettingError(name, type(target).__name__, f"of the target must take ({given})")
    dim, data, gibbs = target.dim, target.data_size > 0, "theta, temperature, random, trajectory, chains"
    for names, what, fits in (
        ("inexact", "a sentence, or None", lambda one: isinstance(one, str | None)),
        (
            "moves",
            f"a bool tensor [{dim}] with a True",
            lambda one: one is None or _is_vector(one, dim, torch.bool) and bool(one.any()),
        ),
        ("std", f"a tensor [{dim}]", lambda one: one is None or _is_vector(one, dim)),
        ("blocks", "a list of (name, slice)", _is_blocks),
        ("fit", "a dict of columns", lambda one: isinstance(one, dict)),
        ("noise", "0 or a positive number", lambda one: data or one is None or _is_number(one)),
        ("views shown least_batch", "an int, at least 1", lambda one: not data or _is_whole(one, 1)),
        ("chains_at_once", "an int, at least 1", lambda one: _is_whole(one, 1)),
        ("together is_network capturable", "True or False", lambda one: isinstance(one, bool)),
        ("gibbs", f"a method of ({gibbs})", lambda one: one is None or callable(one) and _takes(one, 5)),
        ("potential_and_gradient normalised compile_layers uncompile_layers join_chains", "a method", callable),
    ):
        for name in names.split():
            if hasattr(target, name) and not fits(value := getattr(target, name)):
                shown = value if isinstance(value, Real | str | None) else type(value).__name__
                shown = f"{shown} {list(value.shape)}" if isinstance(value, Tensor) else shown
                raise SettingError(name, shown, f"of the target must be {what}; something else needs another name")
    if getattr(target, "gibbs", None) and not own_method(target, "gibbs", "potential"):
        theirs, name = getattr(target.gibbs, "__qualname__", "gibbs"), type(target).__name__
        mend = f"is of another potential than {name}'s: write one there, or gibbs = {theirs} if it is right for both"
        raise SettingError("gibbs", theirs, mend)


def _takes(method, arguments: int) -> bool:
    """Whether a method can be called with so many arguments; of one that is not there, or does not tell, True."""
    try:
        inspect.signature(method).bind(*range(arguments))
    except ValueError:  # of some that are written in C
        return True
    except TypeError:
        return method is None
    return True


def _is_whole(value, least: int) -> bool:
    return isinstance(value, int | np.int64) and value >= least  # NumPy's others overflow


def _is_number(value) -> bool:
    return isinstance(value, Real) and 0 <= value < math.inf


def _is_vector(value, dim: int, dtype: torch.dtype | None = None) -> bool:
    return isinstance(value, Tensor) and value.shape == (dim,) and dtype in (None, value.dtype)


def _is_blocks(value) -> bool:
    pairs = isinstance(value, list | tuple) and all(isinstance(one, tuple) and len(one) == 2 for one in value)
    return pairs and all(isinstance(where, slice) for _, where in value)


def together(target: Potential) -> bool:
    """Whether many chains go in one tensor. Those of a network do so only where it was told to (``join_chains``)."""
    return getattr(target, "together", True)


def is_network(target: Potential) -> bool:
    """Whether it has a network's defaults, because a look at all data is much work."""
    return getattr(target, "is_network", not together(target))


def groups(target: Potential, chains: int, apart: bool = False) -> list[range]:
    """The numbers of the chains that go in one tensor, in groups of about the same size.

    Chains that do not go ``together`` are groups of one. So are those of a network that have to go ``apart``, because
    their trajectories run in random directions.
    """
    alone = not together(target) or apart and is_network(target)
    most = 1 if alone else getattr(target, "chains_at_once", chains)
    number = -(-chains // most)
    ends = [chains * group // number for group in range(number + 1)]
    return list(map(range, ends, ends[1:]))


def shown(target: Potential) -> int:
    """How many views of the data U sums over: all of each datum, or one where they are drawn at random."""
    return getattr(target, "shown", target.data_size * getattr(target, "views", 1))


def own_method(target: Potential, name: str, *of: str) -> Callable | None:
    """The target's method ``name``, if it has one and that is of its own U.

    One that was inherited from a class with ``of``, its ``potential`` say, is not that of a class, or of an instance,
    which has a ``potential`` of its own.
    """
    method = getattr(target, name, None)
    if not callable(method):
        return None
    places = [getattr(target, "__dict__", {}), *map(vars, type(target).__mro__)]
    here = next((number for number, place in enumerate(places) if name in place), len(places))  # the end: __getattr__
    for key in of:
        known = [number for number, place in enumerate(places) if key in place]
        if any(number < here for number in known) and (known[-1] >= here or here == len(places)):
            return None
    return method


def in_one_pass(target: Potential) -> Callable[[Tensor], tuple[Tensor, Tensor]] | None:
    """The target's ``potential_and_gradient``, if it has one of its own ``potential`` and ``gradient``."""
    return own_method(target, "potential_and_gradient", "potential", "gradient")


def potential_and_gradient(target: Potential, theta: Tensor) -> tuple[Tensor, Tensor]:
    """U and its full gradient, in one pass where the target has one; copies: a target may have buffers for them.

    The gradient is in θ's dtype, which a chain keeps. Both are detached, and so is θ: neither ``requires_grad_`` of it
    nor a target's own parameters may leave a graph that grows along the chain.
    """
    both, theta = in_one_pass(target), theta.detach()
    energy, slope = both(theta) if both else (target.potential(theta), target.gradient(theta))
    return energy.detach().clone(), slope.detach().to(theta.dtype, copy=True)
