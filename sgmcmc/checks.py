"""What a target must be to be sampled rightly: looked at where a run begins, and where it goes on."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace

import torch
from torch import Tensor

from sgmcmc.data.minibatches import GradientNoise
from sgmcmc.errors import SettingError, few
from sgmcmc.kernel import Kernel
from sgmcmc.potentials import Potential, in_one_pass, is_network, own_method, potential_and_gradient, together
from sgmcmc.potentials.analytic import FunctionPotential
from sgmcmc.potentials.module_checks import random_state
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.precision import full_precision
from sgmcmc.random import Random
from sgmcmc.trajectory import State

STEPS = 22  # of differences, each a third of the one before, from .1 to 1e-11: a target's scale is not known


def check_target(kernel: Kernel, potential: Potential, theta: Tensor, chains: int) -> None:
    """Raise SettingError where a target would be sampled wrongly without a word.

    That is where what it gives has other shapes than it must have, which would broadcast, or U is not float64; where
    its constants do not go with θ's dtype; where it changes θ in place; where U is no fixed function of each chain's θ,
    but is another one when it is asked again or without the other chains; and where U or its gradient is not finite at
    the start, which a chain that decides could never leave. The gradient from a minibatch is looked at, too. A network
    has looked at its module itself.
    """
    dim, name = potential.dim, type(potential).__name__
    check_tensor("initial", theta)
    theta = theta.detach()
    if tuple(theta.shape) != (chains, dim):
        raise SettingError("initial", _shape(theta), f"must be [{chains}, {dim}]: [chains, dim]")
    if isinstance(potential, NetworkPotential):
        return
    if not together(potential):
        chains, theta = 1, theta[:1]
    before = theta.clone()
    slopes: list[tuple[str, Tensor]] = []
    try:
        value, slope = potential.potential(theta), potential.gradient(theta)
        slopes.append(("the gradient", slope))
        if kernel.batches:
            batch = kernel.batches.draw(Random(0, theta.device), 0, torch.arange(chains, device=theta.device))(0)
            slopes.append(("the gradient from a minibatch", potential.gradient(theta.detach(), batch)))
    except RuntimeError as error:
        if theta.dtype != torch.float32 or not {"float", "double"} <= {*re.findall("[a-z]+", str(error).lower())}:
            raise
        mend = "constants are matrix.to(theta), or dtype=float64"
        raise SettingError("target", name, f"computes with float64 where theta is float32 ({error}): {mend}") from error
    check_tensor("U", value)
    for what, one in slopes:
        check_tensor(what.removeprefix("the "), one)
    if tuple(value.shape) != (chains,):
        raise SettingError("shape of U", _shape(value), f"must be [{chains}]: a number for each of the chains")
    for what, one in slopes:
        if one.shape != theta.shape:
            raise SettingError(f"shape of {what}", _shape(one), f"must be [{chains}, {dim}]: [chains, dim]")
        if not one.is_floating_point():  # a cast would lose the imaginary part, and of whole numbers what was rounded
            raise SettingError(f"dtype of {what}", _kind(one), "must be float32 or float64")
    if value.dtype != torch.float64:
        raise SettingError("dtype of U", _kind(value), "must be float64: compute it of theta.double()")
    if not torch.equal(theta.nan_to_num(), before.nan_to_num()):
        raise SettingError("target", name, "changes theta in place: give new tensors (theta * 2, not theta.mul_(2))")
    if not kernel.inexact:
        _check_fixed(kernel, potential, theta, value)
    check_finite(kernel, value)
    if kernel.gradient != "none":
        check_finite(kernel, slope.double().sum(1), "the gradient")


def _check_fixed(kernel: Kernel, potential: Potential, theta: Tensor, value: Tensor) -> None:
    """Refuse a U that is another one than the ``value`` at θ when it is asked again: without the other chains, or with
    the gradient, which is what decides."""
    name = type(potential).__name__
    for which, chain in {"first": 0, "last": len(theta) - 1}.items():
        alone = potential.potential(theta[[chain]])
        if tuple(alone.shape) != (1,):
            raise SettingError("shape of U", _shape(alone), "must be [1] of one chain's theta")
        if not torch.allclose(alone, value[[chain]], rtol=1e-5, atol=1e-5, equal_nan=True):
            mend = f"gives the {which} chain another U when it is asked again, alone: U must be"
            raise SettingError("target", name, f"{mend} one fixed function of each chain's own theta")
    if kernel.subsampled:
        _check_terms(potential, theta)
    if kernel.full_ends and in_one_pass(potential):
        both = potential_and_gradient(potential, theta)[0]
        same = (both.shape, both.dtype) == (value.shape, value.dtype)
        if not (same and torch.allclose(both, value, rtol=1e-5, atol=1e-5, equal_nan=True)):
            raise SettingError("target", name, "gives another U by potential_and_gradient than by potential")


def check_tensor(what: str, one) -> None:
    """Raise SettingError where what a target gives is no tensor, or a sparse one."""
    if not isinstance(one, Tensor) or one.layout != torch.strided:
        kind = str(one.layout).removeprefix("torch.") if isinstance(one, Tensor) else type(one).__name__
        raise SettingError(f"type of {what}", kind, "must be a torch.Tensor, and a dense one")


def _check_terms(potential: Potential, theta: Tensor) -> None:
    """Refuse terms of the sum over data in another shape, which would be summed over the chains."""
    batch = torch.arange(2, device=theta.device).expand(len(theta), 2)
    for what, one, need in (
        ("losses", potential.losses(theta, batch), [len(theta), 2]),
        ("prior", potential.prior(theta), [len(theta)]),
    ):
        if not isinstance(one, Tensor) or _shape(one) != need:
            shown = _shape(one) if isinstance(one, Tensor) else type(one).__name__
            raise SettingError(f"shape of {what}", shown, f"must be {need}, of {len(theta)} chains and two data each")


CLOSE = 1e-2  # how near to U's slope a gradient must be
FEW = 8  # data of a network that its gradient is looked at on, and that it is known by
CHANGED = 1e-2  # of T: by how much U of one θ may differ
PARTS = 1e-3  # of the largest of them: how near the parts of a partition must add up to the whole


def doubt(kernel: Kernel, potential: Potential, theta: Tensor) -> str | None:
    """A sentence where what a target of one's own gives does not fit its U at θ ``[chains, dim]``, as far as the kernel
    asks for it: the gradient, its estimates from minibatches, the terms of the sum over data; or where U itself is of
    float32's precision. None where it may."""
    if isinstance(potential, NetworkPotential | FunctionPotential):  # whose U and minibatches are ours
        return None if kernel.gradient == "none" else wrong_gradient(potential, theta)
    one, two, batch = theta[:1], theta[:2], getattr(kernel.batches, "batch_size", 0)
    several, questions = potential.data_size > 1, []
    if kernel.gradient != "none":
        questions += [(_changing_gradient, (kernel, potential, one)), (wrong_gradient, (potential, theta))]
    questions += [(_rounded_potential, (potential, one)), (_changing_potential, (kernel, potential, two))]
    if several and kernel.gradient == "minibatch" and batch:
        questions += [(_wrong_minibatches, (potential, one, batch)), (_mixed_minibatches, (potential, two, batch))]
        if kernel.batches.law == "independent":
            questions.append((_lost_repeats, (potential, one, batch)))
    if isinstance(kernel.batches, GradientNoise):
        questions.append((_lost_noise, (potential, two)))
    if several and kernel.subsampled:
        questions += [(_wrong_losses, (potential, one, kernel.decision_batch)), (_mixed_losses, (potential, two))]
    for ask, given in questions:
        with suppress(Exception):  # a target that cannot be asked has its own error later
            if why := ask(*given):
                return why
    return None


def _asked(method: Callable[..., Tensor], theta: Tensor, *batch: Tensor) -> Tensor:
    """What a target gives, float64, of a θ that it may do with what it likes; a copy, for it may have a buffer."""
    return method(theta.detach().clone(), *batch).detach().double().clone()


def _normals(theta: Tensor) -> Tensor:
    """Standard normals in the shape of θ, the same each time."""
    return Random(0, theta.device).normal("diagnostic", 0, 1, *theta.shape, theta.dtype)[0]


def _changing_gradient(kernel: Kernel, potential: Potential, theta: Tensor) -> str | None:
    """A sentence where ``gradient`` is another when it is asked again. Random, of numbers of its own at each call, it
    leaves decisions exact, but not if it remembers what was asked before: no trajectory then reads the same backwards.
    Or where it is not that of ``potential_and_gradient``, which is asked at the ends.
    """
    one, other = (_asked(potential.gradient, theta) for _ in range(2))
    name, most = type(potential).__name__, float(one.nan_to_num().abs().max())
    if one.shape != other.shape or not torch.allclose(one, other, rtol=1e-3, atol=1e-3 * most, equal_nan=True):
        said = "is another one when it is asked again: if it remembers what it was asked before, no decision is exact"
        return f"the gradient of {name} {said}"
    if kernel.full_ends and in_one_pass(potential):
        both = potential_and_gradient(potential, theta.clone())[1].double()
        if both.shape == one.shape and not torch.allclose(both, one, rtol=CLOSE, atol=CLOSE * most, equal_nan=True):
            return f"the gradient of {name} is another one by potential_and_gradient than by gradient"
    return None


def _rounded_potential(potential: Potential, theta: Tensor) -> str | None:
    """A sentence where U is computed in float32 and cast to float64 at its end: then U of the same θ in float64 is
    another number, and not where U begins with ``theta.double()``."""
    if theta.dtype != torch.float32:
        return None
    here, exact, again = (_asked(potential.potential, one) for one in (theta, theta.double(), theta))
    off = float((here - exact).abs().max())
    if here.shape != exact.shape or not off > 1e-12 * float(exact.abs().max()) or not torch.equal(here, again):
        return None
    mend = "compute it of theta.double(), not in float32 to cast what comes out"
    return f"U of {type(potential).__name__} is rounded to float32 on its way (here by {off:.1g}): {mend}"


def _changing_potential(kernel: Kernel, potential: Potential, theta: Tensor) -> str | None:
    """A sentence where U of a θ is another one when it is asked again, or beside another chain, by more than a
    hundredth of T. (``check_target`` refuses what is so in proportion to U, which may be large.) Chains may start all
    alike: so it is asked of two near by, too, which a target that remembers its answers must tell apart."""
    if not kernel.evaluates:
        return None
    near = theta[:1] + 0.1 * _normals(theta[:1].expand(2, -1))
    for some in (theta, near):
        # Numbers, so that one tensor may lie where the one before it lay, as those of a run do.
        asked = [[potential.potential(one.clone()).item() for one in some.split(1)] for _ in range(2)]
        if together(potential):
            asked.append(potential.potential(some.clone()).tolist())
        values = torch.tensor(asked, dtype=torch.float64)
        off = float((values.amax(0) - values.amin(0)).max())
        if off > max(CHANGED * kernel.temperature, 1e-12 * float(values.abs().max())):
            said = "is another one when it is asked again, or beside another chain"
            return f"U of {type(potential).__name__} {said} (here by {off:.1g}): no decision is exact"
    states = []
    for _ in range(2):  # of what sets a seed of its own each time, the states are the same
        potential.potential(near[:1].clone())
        states.append(random_state(theta.device))
    if not torch.equal(*states):
        return f"U of {type(potential).__name__} draws random numbers: if they change it, no decision is exact"
    return None


def _wrong_minibatches(potential: Potential, theta: Tensor, batch: int) -> str | None:
    """Weighted by their sizes, the estimates from the parts of a partition of the data add up to the gradient, if each
    weighs its data by N/B and has the prior once."""
    size = potential.data_size * getattr(potential, "views", 1)
    rows = torch.arange(size, device=theta.device)[None]
    off, most = -_asked(potential.gradient, theta), 0.0
    for part in rows.split(batch, 1):
        estimate = _asked(potential.gradient, theta, part.clone())
        off, most = off + part.shape[1] / size * estimate, max(most, float(estimate.abs().max()))
    if not bool(off.isfinite().all()) or off.abs().max() <= PARTS * most:
        return None
    said = "from minibatches do not average to that of all data: N/B times the batch's, plus the prior's"
    return f"the gradients of {type(potential).__name__} {said}"


def _mixed_minibatches(potential: Potential, theta: Tensor, batch: int) -> str | None:
    """A sentence where the estimates of two chains, each from its own minibatch, are others than of each chain alone.
    (What a gradient of all data makes of other chains ``wrong_gradient`` sees.) Asked a little away from θ, where a
    gradient that is 0 but for rounding is not."""
    chains, size = len(theta), potential.data_size * getattr(potential, "views", 1)
    if chains < 2 or not together(potential):
        return None
    theta = theta + 0.1 * _normals(theta)
    rows = (torch.arange(chains * batch, device=theta.device) % size).view(chains, batch)
    both = _asked(potential.gradient, theta, rows.clone())
    alone = [_asked(potential.gradient, theta[[one]], rows[[one]]) for one in range(chains)]
    most = float(both.nan_to_num().abs().max())
    near = {"rtol": PARTS, "atol": PARTS * most, "equal_nan": True}
    if torch.allclose(both, torch.cat(alone), **near):
        return None
    again = _asked(potential.gradient, theta, rows.clone())
    if not torch.allclose(both, again, rtol=0, atol=math.sqrt(torch.finfo(theta.dtype).eps) * most, equal_nan=True):
        return None  # it is random of itself: two of its numbers may be as near as PARTS by chance
    said = "from minibatches are others beside another chain: row c of a batch [chains, B] is for row c of theta alone"
    return f"the gradients of {type(potential).__name__} {said}"


def _lost_repeats(potential: Potential, theta: Tensor, batch: int) -> str | None:
    """A sentence where a datum that a minibatch has twice, as those do that are drawn with replacement, counts once:
    of data a and b the estimates from (a, a, a, a) and (b, b, b, b) make that from (a, a, a, b)."""
    last = potential.data_size * getattr(potential, "views", 1) - 1
    first, rows = (torch.full((1, batch), row, device=theta.device) for row in (0, last))
    mixed = torch.cat((first[:, 1:], rows[:, :1]), 1)
    one, other, both = (_asked(potential.gradient, theta, some) for some in (first, rows, mixed))
    off, most = both - ((batch - 1) * one + other) / batch, max(float(some.abs().max()) for some in (one, other, both))
    if not bool(off.isfinite().all()) or off.abs().max() <= PARTS * most:
        return None
    said = "from minibatches do not count a datum twice that is drawn twice: a batch is indices, as in x[batch]"
    return f"the gradients of {type(potential).__name__} {said}, not a mask or a set"


def _lost_noise(potential: Potential, theta: Tensor) -> str | None:
    """A sentence where a target without data does not add the noise that it is given to its gradient."""
    noise = _normals(theta)
    exact, noisy = _asked(potential.gradient, theta), _asked(potential.gradient, theta, noise.clone())
    slack = math.sqrt(torch.finfo(theta.dtype).eps) * (1 + float(exact.nan_to_num().abs().max()))
    if torch.allclose(noisy, exact + noise, rtol=0, atol=slack, equal_nan=True):
        return None
    said = "with noise is not the exact one plus the noise that it is given: gradient(theta) + batch"
    return f"the gradient of {type(potential).__name__} {said}"


@torch.no_grad()
def _wrong_losses(potential: Potential, theta: Tensor, batch: int) -> str | None:
    """U is ``prior`` and the sum of ``losses``, of which decisions on a part of the data are made: but for a constant,
    which does not matter, so that two θ are compared."""
    rows = torch.arange(potential.data_size, device=theta.device)[None]
    ends = theta, theta + 1e-2 * _normals(theta)
    whole = [float(potential.potential(end)) for end in ends]
    parts = rows.split(batch, 1)
    sums = [float(potential.prior(end) + sum(potential.losses(end, part).sum(-1) for part in parts)) for end in ends]
    rise = whole[1] - whole[0]
    off = rise - (sums[1] - sums[0])
    rounding = torch.finfo(torch.float32).eps * max(map(abs, [*whole, *sums]))
    if not abs(off) > 20 * rounding + PARTS * abs(rise):
        return None
    return f"prior and the sum of losses of {type(potential).__name__} are not its U"


@torch.no_grad()
def _mixed_losses(potential: Potential, theta: Tensor) -> str | None:
    """A sentence where a datum has another loss beside other data, or beside another chain. Asked a little away from θ,
    where chains that start alike differ."""
    theta = theta if together(potential) else theta[:1]
    theta = theta + 0.1 * _normals(theta)
    last = potential.data_size - 1
    pairs = torch.tensor([[0, last], [last, 0]], device=theta.device)[: len(theta)]
    both = _asked(potential.losses, theta, pairs)
    alone = torch.zeros_like(both)
    for chain, place in itertools.product(range(len(theta)), range(2)):
        twice = pairs[[chain]][:, [place, place]]
        alone[chain, place] = _asked(potential.losses, theta[[chain]], twice)[0, place]
    if torch.allclose(both, alone, rtol=PARTS, atol=PARTS * float(alone.nan_to_num().abs().max()), equal_nan=True):
        return None
    said = "are others beside other data or chains: each of row c of a batch [chains, B] is a datum for row c of theta"
    return f"the losses of {type(potential).__name__} {said}"


def wrong_gradient(potential: Potential, theta: Tensor) -> str | None:
    """A sentence where ``gradient`` is not the slope of U at θ ``[chains, dim]``; None where it may be.

    By central differences of U along one direction: with decisions a wrong gradient makes proposals that are rejected,
    without them another distribution. In more than half of the chains it must be off by more than a hundredth, and by
    more than the differences themselves can be. Of networks one chain and a few data are asked: autograd's
    gradient is another where a module says so (a straight-through estimator, a detached factor, a hook). Of what does
    not move nothing is asked; what is no target at all ``check_target`` refuses.
    """
    name = type(potential).__name__
    try:
        with full_precision():
            if isinstance(potential, NetworkPotential) and own_method(potential, "estimate", "potential"):
                name, wrong = type(potential.model).__name__, _wrong_gradient(of_few(potential), theta[:1].clone())
            else:
                wrong = _wrong_gradient(potential, theta.clone() if together(potential) else theta[:1].clone())
    except Exception:
        return None
    return f"the gradient of {name} is not that of its U, by differences of U along a direction" if wrong else None


def of_few(potential: NetworkPotential) -> SimpleNamespace:
    """U and its gradient as the network's first data estimate them."""
    batch = torch.arange(min(FEW, potential.data_size), device=potential.device)[None]
    return SimpleNamespace(
        potential=lambda theta: potential.estimate(theta, batch),
        gradient=lambda theta: potential.gradient(theta, batch),
    )


def _wrong_gradient(potential: Potential, theta: Tensor) -> bool:
    """``wrong_gradient`` of θ ``[chains, dim]``, by differences of U over smaller and smaller steps along a direction.

    At each step and in each chain, all as parts of the larger of the two rises of U (that of U itself and that which
    the gradient tells):

    - the error of U's rise is taken to be float32's rounding of U and what the rise changed, in proportion, since the
      step before, three times as large. Of a smooth U that change is some nine times the error that is left; of a U
      with kinks rises wander, so that a gradient must be off by more than ten times this error to be called wrong;
    - the gradient is off by at most this error and the difference of the two rises.

    Of both the least over the steps counts (``known`` and ``bound``).
    """
    away, moves = _normals(theta), getattr(potential, "moves", None)
    away = away if moves is None else away * moves.to(theta.device)
    slope, before = potential.gradient(theta).detach().double(), None
    bound = known = torch.full((len(theta),), torch.inf, dtype=torch.float64, device=theta.device)
    for power in range(STEPS):
        step = 0.1 / 3**power
        one, other = theta + step * away, theta - step * away
        ends = potential.potential(one).clone(), potential.potential(other)  # a target may have a buffer for U
        if slope.shape != theta.shape or ends[0].shape != theta.shape[:1]:
            return False  # which ``check_target`` refuses
        rise, along = ends[0] - ends[1], (slope * (one - other).double()).sum(-1)
        largest = torch.maximum(rise.abs(), along.abs())
        if before is not None:
            # Rounding of theta may turn the direction a little from step to step: the rise before is scaled as the
            # gradient's rises are, or, should those be 0, as the steps are.
            change = torch.fmin((rise - before[0] / before[1] * along).abs(), (rise - before[0] / 3).abs())
            rounding = 4 * torch.finfo(torch.float32).eps * (ends[0].abs() + ends[1].abs())
            error = (change + rounding) / largest
            # Steps too coarse for a kink may agree with each other, and finer ones contradict them.
            contradicts = change > rounding + 3 * known * largest
            known = torch.where(contradicts, error, torch.fmin(known, error))
            bound = torch.fmin(bound, error + (rise - along).abs() / largest)
            if 2 * int((bound < CLOSE).sum()) >= len(theta):
                return False
            if 2 * int((rounding > 0.1 * largest).sum()) >= len(theta):
                break  # smaller steps know less
        before = rise, along
    wrong = (known < 0.1) & (bound > CLOSE + 10 * known)
    return 2 * int(wrong.sum()) > len(theta)


def check_finite(kernel: Kernel, value: Tensor, what: str = "U") -> None:
    """Raise SettingError where U, or a sum over its gradient, at the start ``[chains]`` is not finite, and the chains
    decide; where they are only monitored, if it is no number in any chain, for then it is not the step size that makes
    them diverge."""
    chains, nowhere = len(value), bool(value.isnan().all())
    if nowhere or (kernel.acceptance != "monitor" and not bool(value.isfinite().all())):
        lost = (~value.isfinite()).nonzero()[:, 0].tolist()
        which = few(lost)
        where = f"is not finite in chains {which} of {chains}: start where the target's density is positive"
        if what != "U":
            where += " and smooth"
        raise SettingError(f"{what} at the start", float(value[lost[0]]), where)


def check_probabilities(given, chains: int, data: int, labels: Tensor | None) -> None:
    """Raise SettingError where what ``predict`` gives of so many chains and data is no ``[chains, data, classes]``, has
    no class for one of the ``labels``, or is no probabilities: negative, or with another sum than 1, to a hundredth
    (float16's rounding). What is not finite is left out of ensembles, and is not looked at here."""
    check_tensor("predictions", given)
    if given.ndim != 3 or tuple(given.shape[:2]) != (chains, data):
        mend = f"must be [{chains}, {data}, classes]: probabilities of each chain, datum and class"
        raise SettingError("shape of predictions", _shape(given), mend)
    if not given.is_floating_point():
        raise SettingError("dtype of predictions", _kind(given), "must be float32 or float64: probabilities")
    classes = given.shape[2]
    for label in () if labels is None else map(int, labels.aminmax()):
        if label not in range(classes):
            mend = f"must be from 0 to {classes - 1}: the target predicts {classes} classes"
            raise SettingError("labels of data", label, mend)
    sums = given.double().sum(2)
    wrong = sums.isfinite() & (((sums - 1).abs() > 1e-2) | (given < -1e-2).any(2))
    if bool(wrong.any()):
        mend = "predict must give probabilities, whose sum over classes is 1: of logits, logits.softmax(-1)"
        raise SettingError("predictions", few([f"{p:.4g}" for p in given[wrong][0].tolist()]), mend)


def _shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape)


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def check_same_target(kernel: Kernel, potential: Potential, states: list[State]) -> None:
    """Refuse to go on with positions of another target: a class of one's own may have been edited meanwhile.

    U of a checkpoint is compared with U now, to rounding, on another machine, too: of networks, where it takes its
    time, that of one chain, or of those that go together.
    """
    name = type(getattr(potential, "model", potential)).__name__
    mend, looked = "give the run another name or output", False
    for state in states:
        if state.theta.shape[1] != potential.dim:
            had = f"has {potential.dim} coordinates, and the run was begun with {state.theta.shape[1]}"
            raise SettingError("target", name, f"{had}: {mend}")
        known = state.alive & state.potential.isfinite()
        if kernel.inexact or not kernel.evaluates or looked or not bool(known.any()):
            continue
        looked, slack = True, 1e-4 * potential.data_size if is_network(potential) else 1e-5
        now = potential.potential(state.theta)[known]
        if not torch.allclose(now, state.potential[known], rtol=1e-5, atol=slack):
            raise SettingError("target", name, f"gives another U than when the run was begun: {mend}")
