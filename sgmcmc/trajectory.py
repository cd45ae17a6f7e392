"""One trajectory: refresh, L steps of the word, exact U at the ends, decide, flip.

The decision's probability is min(1, MH) with

    log MH = −(U(θ_L) − U(θ_0) + Σ ΔK)/T

(GGMC paper, equation 9 summed over the steps; AMAGOLD's ρ is −ΣΔK). On acceptance the state is the
trajectory's end. On rejection θ returns to its start and the momentum to **minus** the one that the
palindromic part started with: the proposal is made, its momentum negated, accepted or not, and negated
again.

Between two gradients stands a **segment**: the letters that one gradient and one position serve. What comes after
a segment depends on nothing but (θ, m, ΣΔK) there, the momentum that the trajectory began with and its start, so a
long trajectory can be left between gradients and gone on with (``Place``), and a segment is what is compiled where a
whole trajectory is not (``compiled.Segments``). A few gradients with their segments are a **walk**, which a GPU can
replay as one graph (``captured.Captured``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from itertools import takewhile

import torch
from torch import Tensor

from sgmcmc import acceptance, flows, momentum, subsampled
from sgmcmc.data.minibatches import Blocks
from sgmcmc.kernel import Kernel, Ops
from sgmcmc.potentials import Potential, potential_and_gradient
from sgmcmc.random import Random
from sgmcmc.words import Op

Observer = Callable[[int, Tensor, Tensor, Tensor, Tensor | None], None]


@dataclass
class State:
    """What a chain is between trajectories; every row is a chain.

    ``potential`` (float64) and ``gradient`` (the full one, where the kernel uses it at the start) belong to
    ``theta``: after an acceptance they are the end's, after a rejection the start's. Where a kernel evaluates no U
    (``Kernel.evaluates``) it is NaN, unless a gradient brought it. ``sign`` and ``log_abs`` are the persistent
    uniform v. A chain that is not ``alive`` has diverged under ``monitor``: θ stays where it was, and its momentum
    counts nowhere.
    """

    theta: Tensor  # [chains, dim]
    momentum: Tensor  # [chains, dim]
    potential: Tensor  # [chains] float64
    gradient: Tensor | None  # [chains, dim]
    sign: Tensor  # [chains] float64
    log_abs: Tensor  # [chains] float64
    alive: Tensor  # [chains] bool

    def rows(self, index: Tensor) -> State:
        """The chains of ``index``."""
        return State(*(None if value is None else value[index] for value in self.values()))

    def values(self) -> list[Tensor | None]:
        """The fields in their order, as a checkpoint holds them."""
        return [getattr(self, field.name) for field in fields(self)]


@dataclass
class Record:
    """What one trajectory did, ``[chains]`` float64 each (``accepted`` bool, ``proposal`` positions).

    ``accept_prob`` is min(1, MH), under ``barker`` MH/(1 + MH). Under ``monitor`` every finite end is accepted. Of a
    decision on a part of the data ``delta_potential`` and ``log_accept`` are its estimates, ``accept_prob`` is 0 or 1.
    """

    potential: Tensor  # exact U of the state after the decision; NaN where it was not evaluated
    delta_potential: Tensor  # U(θ_L) − U(θ_0) of the proposal
    delta_kinetic: Tensor  # Σ ΔK of the proposal
    log_accept: Tensor
    accept_prob: Tensor
    accepted: Tensor
    proposal: Tensor  # θ_L of the proposal, [chains, dim]
    data: Tensor  # how many data the decision was made on


@dataclass
class Place:
    """A trajectory between two gradients: all that its rest depends on besides the state that it started from.

    ``way`` is 1 for a trajectory that runs through its program backwards.
    """

    way: int
    point: int  # the gradient point that comes next
    theta: Tensor  # [chains, dim]
    momentum: Tensor  # [chains, dim]
    begun: Tensor  # [chains, dim], the momentum that the palindromic part started with
    energy: Tensor  # [chains] float64, ΣΔK so far


class UnderWay:
    """How far trajectories have come, so that they can be left and gone on with.

    ``run_trajectory`` starts from the place that is saved here, if there is one (one for each direction), and saves
    every new one, after which it calls ``reached()``. An exception may leave the trajectory at any moment.
    """

    def __init__(self, places: Iterable[Place] = ()):
        self.places = {place.way: place for place in places}
        self.reached: Callable[[], None] = lambda: None


def start(kernel: Kernel, potential: Potential, theta: Tensor, random: Random, chains: range | Tensor) -> State:
    """The state of chains that start at ``theta``: momentum from its law, v uniform, U evaluated."""
    chains = random.indices(chains)
    # Trajectories 0, 1, … of this stream are the positions': exact draws by rejection take several.
    noise = random.normal("start", -1, 1, chains, theta.shape[1], theta.dtype)[0]
    scale, moves = cast(kernel.momentum_scale, theta), _moves(potential, theta)
    uniform = random.uniform("decision", 0, chains, 2)[:, 1]
    sign, log_abs = acceptance.persistent_start(uniform)
    state = State(
        theta=theta,
        momentum=scale * noise if moves is None else scale * noise * moves,
        potential=torch.empty(0),
        gradient=None,
        sign=sign,
        log_abs=log_abs,
        alive=torch.ones(len(theta), dtype=torch.bool, device=theta.device),
    )
    evaluate(kernel, potential, state)
    return state


def evaluate(kernel: Kernel, potential: Potential, state: State) -> None:
    """Set the state's U, and its full gradient where trajectories start with it."""
    if kernel.full_ends:
        state.potential, state.gradient = potential_and_gradient(potential, state.theta)
    else:
        state.potential, state.gradient = _exact(kernel, potential, state.theta), None


def segment(
    ops: Ops,
    theta: Tensor,
    m: Tensor,
    energy: Tensor,
    gradient: Tensor | None,
    noise,
    inverse_mass,
    moves: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """θ, m and ΣΔK after the letters that stand between two gradients.

    ``gradient`` is that of the kicks; ``noise[draw]`` are standard normals ``[chains, dim]``.
    """
    for op, number, extra in ops:
        if op.letter == "A":
            theta = flows.drift(theta, m, number, inverse_mass)
        elif op.letter == "O":
            m = flows.refresh(m, noise[op.draw], number, extra)
            m = m if moves is None else m * moves
        elif op.letter == "B":
            before = m
            m = flows.kick(m, gradient, number)
            m = m if moves is None else torch.where(moves, m, before)  # whatever its gradient says of the others
            energy = energy + flows.kinetic_change(before, m, inverse_mass)
        else:
            keep, strength = extra
            m = flows.euler(m, gradient, noise[op.draw], number, keep, strength)
            m = m if moves is None else torch.where(moves, m, 0.0)
    return theta, m, energy


def walk(
    potential: Potential,
    segment: Callable,
    parts: list[Ops],
    batches: list[Tensor | None],
    theta: Tensor,
    m: Tensor,
    energy: Tensor,
    noise,
    inverse_mass,
    moves: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of minibatches one after another, each with the segment behind it.

    θ, m and ΣΔK after the last, and the last gradient. ``parts`` are the segments' letters, ``batches`` the gradients'
    data (None: exact); the rest as in ``segment``.
    """
    for ops, batch in zip(parts, batches, strict=True):
        gradient = _gradient(potential, theta, batch)
        theta, m, energy = segment(ops, theta, m, energy, gradient, noise, inverse_mass, moves)
    return theta, m, energy, gradient


walk.at_once = 1  # gradients between two places at which a trajectory can be left


def segments(kernel: Kernel, index: int, theta: Tensor, way: int) -> list[Ops]:
    """A trajectory's letters, split into [the refresh of the momentum and a leading O], [what comes before the first
    gradient] (both may be empty), and one part for each gradient, which begins with the kick that uses it."""
    program = kernel.program(index, theta.dtype, theta.device)[way]
    refresh = momentum.begin(kernel.refresh, kernel.alpha, cast(kernel.momentum_scale, theta), theta.dtype)
    head = [(Op("O", (), draw=0), *refresh)] if refresh else []
    head += program[: int(kernel.word.leading_refresh)]
    parts, point = [head, []], -1
    for one in program[int(kernel.word.leading_refresh) :]:
        if one[0].point > point:
            point = one[0].point
            parts.append([])
        parts[-1].append(one)
    return parts


def step_end(ops: Ops) -> Ops:
    """Of the letters behind a gradient, those that still belong to the step that led there, up to its last kick.

    Where that step has not ended, because it drifts on behind the gradient, the first kick alone.
    """
    step = ops[0][0].shares[0][0]
    own = list(takewhile(lambda one: all(at == step for at, _ in one[0].shares), ops))
    if any(op.letter == "A" for op, _, _ in own):
        return ops[:1]
    return own[: 1 + max(place for place, (op, _, _) in enumerate(own) if op.letter in "BE")]


def run_trajectory(
    kernel: Kernel,
    potential: Potential,
    state: State,
    random: Random,
    index: int,
    chains: range | Tensor,
    observe: Observer | None = None,
    under_way: UnderWay | None = None,
    segment: Callable = segment,
    walk: Callable = walk,
) -> tuple[State, Record]:
    """One trajectory and its decision. ``index`` is the trajectory's number, ``chains`` the chains' numbers.

    Random numbers are a function of the seed, ``index``, the step and the chain. ``observe`` is called
    at each gradient point with (point, theta, momentum, ΣΔK, its minibatch), after the kick that ends the
    step there: what log MH would be, were the trajectory to end. ``under_way`` is for a trajectory that is left
    before its end and gone on with: see ``UnderWay``. ``segment`` may be a compiled one, ``walk`` a captured one.
    The given state is not changed.
    """
    chains = random.indices(chains)
    arguments = observe, under_way, segment, walk
    if not kernel.random_direction:
        begun, end, energy = _propose(kernel, potential, state, random, index, chains, 0, *arguments)
    else:
        backwards = random.uniform("direction", index, chains)[:, 0] < 0.5
        begun, end, energy = _both_ways(kernel, potential, state, random, index, chains, backwards, *arguments)
    return _decide(kernel, potential, state, begun, end, energy, random, index, chains)


def _both_ways(kernel, potential, state, random, index, chains, backwards, *arguments):
    """Chains whose coin fell one way forwards, the others backwards; put together again in order."""
    parts, places = [], []
    for way in (0, 1):
        rows = torch.nonzero(backwards == bool(way)).flatten()
        if len(rows):
            some, its, numbers = kernel.rows(rows), state.rows(rows), chains[rows]
            parts.append(_propose(some, potential, its, random, index, numbers, way, *arguments))
            places.append(rows)
    back = torch.argsort(torch.cat(places))
    begun = torch.cat([part[0] for part in parts])[back]
    ends = zip(*(part[1].values() for part in parts), strict=True)
    end = State(*(None if values[0] is None else torch.cat(values)[back] for values in ends))
    return begun, end, torch.cat([part[2] for part in parts])[back]


def _propose(kernel, potential, state, random, index, chains, way, observe, under_way, advance, walk):
    """The momentum that the palindromic part starts with, the proposed end with its U, and Σ ΔK."""
    theta, m = state.theta, state.momentum
    head, opening, *parts = segments(kernel, index, theta, way)
    draws = 1 + max(0, *(op.draw for part in (head, opening, *parts) for op, _, _ in part))
    size, dtype = theta.shape[1], theta.dtype
    noise = Blocks(
        lambda steps: random.normal("noise", index, steps, chains, size, dtype), draws, theta.numel(), theta.device
    )
    moves = _moves(potential, theta)
    constants = noise, cast(kernel.inverse_mass, theta), moves
    last_point = kernel.points - 1
    offset = kernel.exact_ends // 2  # no minibatch is taken for the first point
    batches = kernel.batches.draw(random, index, chains) if kernel.batches else lambda point: None
    end_potential, gradient, end_gradient = None, None, None
    place = under_way.places.get(way) if under_way else None
    if place is None:
        energy = torch.zeros(len(theta), dtype=torch.float64, device=theta.device)
        m = m if moves is None else m * moves
        if head:
            theta, m, energy = advance(head, theta, m, energy, None, *constants)
        begun = m
        if opening:
            theta, m, energy = advance(opening, theta, m, energy, None, *constants)
        place = Place(way, 0, theta, m, begun, energy)
    theta, m, begun, energy, point = place.theta, place.momentum, place.begun, place.energy, place.point
    at_once = 1 if observe else walk.at_once  # a traced trajectory is looked at between any two gradients
    while point < len(parts):
        before, here, batch = (theta, m, energy), point, None
        if not _full_at(kernel, here):
            point = min((here // at_once + 1) * at_once, len(parts) - offset)
            data = [batches(one - offset) for one in range(here, point)]
            theta, m, energy, gradient = walk(potential, advance, parts[here:point], data, *before, *constants)
            batch = data[-1]
        else:
            if here == 0 and state.gradient is not None:
                gradient = state.gradient
            elif here == last_point and kernel.word.kicks_at_both_ends:
                end_potential, gradient = potential_and_gradient(potential, theta)
                end_gradient = gradient
            else:
                gradient = _gradient(potential, theta)
            theta, m, energy = advance(parts[here], *before, gradient, *constants)
            point = here + 1
        if observe:
            # By the eager function whatever moves the chain: looking on changes no bit of it.
            ends = step_end(parts[here]) if here > 0 else []
            observe(here, *segment(ends, *before, gradient, *constants), batch)
        if under_way and end_potential is None:  # with the end's U in hand the rest is a moment
            under_way.places[way] = Place(way, point, theta, m, begun, energy)
            under_way.reached()
    if end_potential is None:
        end_potential = _exact(kernel, potential, theta)
    end = State(theta, m, end_potential, end_gradient, state.sign, state.log_abs, state.alive)
    return begun, end, energy


def _gradient(potential: Potential, theta: Tensor, *batch: Tensor | None) -> Tensor:
    """The target's gradient in θ's dtype, which a chain keeps; detached, as in ``potential_and_gradient``."""
    return potential.gradient(theta.detach(), *batch).detach().to(theta.dtype)


def _exact(kernel: Kernel, potential: Potential, theta: Tensor) -> Tensor:
    """U, or NaN where it is not needed; a copy, for a target may have a buffer for it."""
    if not kernel.evaluates:
        return torch.full((len(theta),), torch.nan, dtype=torch.float64, device=theta.device)
    return potential.potential(theta.detach()).detach().clone()


def _decide(kernel, potential, state, begun, end, energy, random, index, chains):
    """Accept or not; what is not accepted goes back to θ_0 with the negated starting momentum."""
    # The decision's numbers are those of index + 1: 0 of its stream is the persistent uniform's start.
    if kernel.subsampled:
        decision = subsampled.decide(kernel, potential, state.theta, end.theta, energy, random, index + 1, chains)
        delta_potential, data = decision.delta_potential, decision.data
        finite = torch.isfinite(delta_potential)
    else:
        delta_potential = end.potential - state.potential
        data = torch.full_like(delta_potential, potential.data_size)
        # Where nothing is decided by U, whether it is looked at changes no chain.
        finite = torch.isfinite(end.theta).all(-1) if kernel.impossible else torch.isfinite(end.potential)
    finite = finite & torch.isfinite(energy)
    if kernel.impossible:
        log_mh = torch.full_like(delta_potential, -torch.inf)
    else:
        log_mh = torch.where(finite, -(delta_potential + energy) / kernel.temperature, -torch.inf)
        log_mh = log_mh.nan_to_num(nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    sign, log_abs, alive = state.sign, state.log_abs, state.alive
    if kernel.acceptance == "metropolis":
        accepted = acceptance.metropolis(log_mh, random.uniform("decision", index + 1, chains)[:, 0])
    elif kernel.acceptance == "barker":
        accepted = acceptance.barker(log_mh, random.uniform("decision", index + 1, chains)[:, 0])
    elif kernel.subsampled:
        accepted = decision.accepted & finite
    elif kernel.acceptance == "persistent_uniform":
        accepted, sign, log_abs = acceptance.persistent_uniform(log_mh, sign, log_abs, kernel.delta)
    else:
        accepted = alive = alive & finite & torch.isfinite(end.momentum).all(-1)
    if kernel.subsampled:
        accept_prob = accepted.to(log_mh)
    else:
        accept_prob = log_mh.sigmoid() if kernel.acceptance == "barker" else log_mh.clamp(max=0).exp()
    column = accepted[:, None]
    new = State(
        theta=torch.where(column, end.theta, state.theta),
        momentum=torch.where(column, end.momentum, -begun),
        potential=torch.where(accepted, end.potential, state.potential),
        gradient=None if end.gradient is None else torch.where(column, end.gradient, state.gradient),
        sign=sign,
        log_abs=log_abs,
        alive=alive,
    )
    record = Record(
        potential=new.potential,
        delta_potential=delta_potential,
        delta_kinetic=energy,
        log_accept=log_mh,
        accept_prob=accept_prob,
        accepted=accepted,
        proposal=end.theta,
        data=data,
    )
    return new, record


def _full_at(kernel: Kernel, point: int) -> bool:
    """Whether the gradient at this point of a trajectory is that of all data."""
    if kernel.gradient != "minibatch":
        return kernel.gradient == "full"
    return kernel.exact_ends > 0 and point in (0, kernel.points - 1)


def _moves(potential: Potential, theta: Tensor) -> Tensor | None:
    """True for the coordinates that have momentum; None: all."""
    moves = getattr(potential, "moves", None)
    return None if moves is None else moves.to(theta.device)


def cast(value, like: Tensor):
    """A tensor in the dtype and on the device of another; a number as it is."""
    return value.to(like) if isinstance(value, Tensor) else value
