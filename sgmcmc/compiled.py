"""Trajectories and their segments as graphs: the functions that run eagerly, traced and compiled by TorchInductor.

There is no second sampler here. ``Compiled(run_cycle)`` is ``chain.run_cycle``: its first call evaluates it
eagerly, traces it and compiles the trace; every later call runs the graph on other inputs. Inputs are the state,
the numbers of the program (durations, c, noise scales, M) and the random words, so a new trajectory, a tuned step
size or an estimated mass compiles nothing anew. The words are Threefry's, drawn for many trajectories at once by a
graph of their own; being integers they do not depend on how trajectories are put into blocks, and a chain's bits
do not depend on where it was interrupted.

Of networks, whose trajectories are long and whose gradients are autograd's, what stands between two gradients is
compiled (``Segments``): the same ``trajectory.segment``, with kicks, drift and energies in one pass over memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import cache, partial
from itertools import islice
from operator import attrgetter

import torch
from torch import Tensor

from sgmcmc.data.minibatches import Blocks, Minibatches
from sgmcmc.errors import SettingError
from sgmcmc.inductor import CannotCompile, compiling, graph_of
from sgmcmc.kernel import Kernel, Ops
from sgmcmc.potentials import groups, is_network, together
from sgmcmc.potentials.module_checks import close
from sgmcmc.random import Random, box_muller, injections, rounds_
from sgmcmc.trajectory import cast, segment, segments

WORDS = 1 << 17  # pairs of random words that are drawn at once
KEYS = 1 << 12  # trajectories whose Threefry keys are made at once; also how many lists of floats are remembered
SHAPES = 1 << 16  # kinds of shapes and strides that the graph of the words may be compiled for in one process
GRAPH = 4  # seconds that a small graph takes to compile
# Seconds that compiling saves of a network: a coordinate of a segment with its normals, and a filter response
# normalisation's value in a gradient and in U (on a GPU with the convolution before it). Measured on a CPU core and on
# an H100, whose first number is only a bound: it saves no more.
SAVED = {"cpu": (20e-9, 4e-9, 4e-9 / 3), "cuda": (2e-10, 1.1e-10, 1.9e-10)}
# What ``inductor.INLINED`` is for other graphs, for the rounds of the random numbers.
INLINED_ROUNDS = {"realize_opcount_threshold": 8}
# A segment is one pass over memory only if Inductor stores no intermediate result: these thresholds let it store none.
INLINED_SEGMENT = {"realize_opcount_threshold": 100, "realize_reads_threshold": 100}


def why_eager(kernel: Kernel, potential, tuned: bool = False, tensors: int = 1) -> str | None:
    """Why trajectories of this kernel and target, whose length may be ``tuned``, of chains in so many ``tensors``, are
    not compiled; None where they can be."""
    if not together(potential):
        return None  # by segments, which know nothing of batches or directions
    if is_network(potential):
        return "the cycles of networks whose chains go together are not compiled"
    if tensors > 1:
        return f"chains that go in {tensors} tensors (chains_at_once) are not compiled"
    if tuned:
        return "trajectories whose length is tuned are not compiled"
    if getattr(potential, "gibbs", None):
        return "Gibbs updates between trajectories are not compiled"
    if kernel.random_direction:
        return "trajectories in a random direction are not compiled"
    if kernel.subsampled:
        return "decisions on a part of the data are not compiled"
    batches = kernel.batches
    if isinstance(batches, Minibatches) and batches.law == "shuffled" and (not batches.epochs or batches.extra):
        return "shuffled minibatches are compiled where a trajectory's are whole epochs"
    return None


def seconds(kernel: Kernel, potential) -> float:
    """About how long compiling takes on one core, the first time; from the disk's cache it takes a third of that."""
    if together(potential):
        return 7 + 0.6 * kernel.steps
    theta = torch.zeros(1, 1)
    letters = {tuple(op.letter for op, _, _ in ops) for ops in segments(kernel, 0, theta, 0)}
    return 5 + GRAPH * (len(letters) + 2 * _normalised(potential)[1])


def _normalised(potential) -> tuple[int, int]:
    """What ``NetworkPotential.normalised`` says; nothing of other targets."""
    return potential.normalised() if hasattr(potential, "normalised") else (0, 0)


def pays(kernel: Kernel, potential, chains: int, cycles: int) -> bool:
    """Whether a run is so long that compiling saves more than it costs, by what was measured (1 thread).

    Eagerly a step takes 0.25 ms, whatever its size, and 25 ns a random number; compiled, between a twentieth (toys)
    and a half (1,000 chains of a regression) of that. A whole trajectory is one graph: a long one takes too long.

    Of networks it is what ``SAVED`` says.
    """
    dim = potential.dim
    if not together(potential):
        device, size = getattr(potential, "device", torch.device("cpu")), potential.data_size
        coordinate, in_gradient, in_potential = SAVED.get(device.type, SAVED["cpu"])
        data = kernel.points * getattr(kernel.batches, "batch_size", size)
        layers = (in_gradient * data + in_potential * size) * _normalised(potential)[0]
        return cycles * chains * (coordinate * kernel.points * dim + layers) > 1.5 * seconds(kernel, potential)
    eagerly = cycles * (0.25e-3 * (kernel.steps + 2) + 25e-9 * 2 * kernel.steps * chains * dim)
    return kernel.steps <= 64 and eagerly > 3 * seconds(kernel, potential)


def compiles(
    asked: bool | str | None, kernel: Kernel, potential, chains: int, cycles: int, tuned: bool = False
) -> bool:
    """Whether a run is compiled: as ``asked``, or by "auto" (None) where that saves more than it costs.

    Raises SettingError where it cannot be; ``tuned`` as in ``why_eager``.
    """
    reason = why_eager(kernel, potential, tuned, len(groups(potential, chains)))
    if asked is True and reason:
        raise SettingError("compile", "true", f"{reason}; leave compile out")
    return asked if isinstance(asked, bool) else reason is None and pays(kernel, potential, chains, cycles)


class Compiled:
    """``function(kernel, potential, state, random, index, chains, *more)``, compiled at its first call.

    Later calls must have a kernel that differs in step size, friction and mass alone, the same potential, and
    tensors of the same shapes. ``more`` and what the function returns are tensors and dataclasses of them.
    ``CannotCompile`` is raised where the function cannot be traced or where no compiler works.
    """

    def __init__(self, function: Callable):
        self.function = function
        self._graph: Callable | None = None

    def __call__(self, kernel: Kernel, potential, state, random: Random, index: int, chains, *more):
        if self._graph is None:
            self.prepare(kernel, potential, state, random, index, chains, *more)
        inputs = self._taken((state, *more)) + self._program(kernel, index) + self._words(random).of(index)
        return self._result(self._graph(*inputs))

    def _taken(self, parts: tuple) -> list[Tensor]:
        """The parts' tensors as the graph has them in memory."""
        tensors = [tensor for take, part in zip(self._take, parts, strict=True) for tensor in take(part)]
        if self._strides is None:
            self._strides = [self._laid_out(tensor).stride() for tensor in tensors]
        return [
            tensor if tensor.stride() == stride else self._laid_out(tensor)
            for tensor, stride in zip(tensors, self._strides, strict=True)
        ]

    def _laid_out(self, tensor: Tensor) -> Tensor:
        """Coordinate by coordinate in memory where there are no data: vectors then run over chains."""
        return tensor.mT.contiguous().mT if self._by_coordinate and tensor.ndim == 2 else tensor.contiguous()

    def prepare(self, kernel: Kernel, potential, state, random: Random, index: int, chains, *more) -> None:
        """Compile for such arguments."""
        reason = why_eager(kernel, potential)
        if reason:
            raise CannotCompile(reason)
        self._device, self._dtype = state.theta.device, state.theta.dtype
        self._chains = random.indices(chains)
        self._by_coordinate = not potential.data_size and state.theta.shape[1] > 1
        # An eager call tells which words are asked for and what comes back, and fills the caches of constants.
        asking = Asking(random, index)
        result = self.function(kernel, potential, state, asking, index, self._chains, *more)
        self._asked, self._drawn = asking.asked, None
        self._numbers: tuple = (None, None, None)
        self._take, self._result = [taking(part) for part in (state, *more)], putting(result)
        self._strides = None
        put = putting((state, *more))
        parts = [self._taken((state, *more)), self._program(kernel, index), self._words(random).of(index)]

        def flat(*inputs: Tensor) -> list[Tensor]:
            given_inputs = iter(inputs)
            values, program, words = (list(islice(given_inputs, len(part))) for part in parts)
            given_state, *given_more = put(values)
            given_kernel = self._with_program(kernel, index, iter(program))
            given = Given(random, self._drawn, words, index)
            result = self.function(given_kernel, potential, given_state, given, index, self._chains, *given_more)
            return [self._laid_out(tensor) for part in result for tensor in taking(part)(part)]

        self._graph = graph_of(flat, [tensor for part in parts for tensor in part])

    def _words(self, random: Random) -> Words:
        if self._drawn is None or self._drawn.random is not random:
            self._drawn = Words(random, self._asked, self._chains, self._by_coordinate)
        return self._drawn

    # -- the numbers of the program as inputs

    def _program(self, kernel: Kernel, index: int) -> list[Tensor]:
        """All floats of the program in one float64 tensor, its tensors, and M where that is a tensor."""
        moment = index if kernel.schedule.varies_between() else 0
        if self._numbers[0] is not kernel or self._numbers[1] != moment:
            (program,) = kernel.program(index, self._dtype, self._device)
            numbers = distinct(program)
            floats = torch.tensor([one for one in numbers if not isinstance(one, Tensor)], dtype=torch.float64)
            inputs = [floats.to(self._device)] + [one for one in numbers if isinstance(one, Tensor)]
            if isinstance(kernel.mass, Tensor):
                inputs.append(kernel.mass.to(self._device))
            self._numbers = kernel, moment, inputs
        return self._numbers[2]

    def _with_program(self, kernel: Kernel, index: int, inputs: Iterator[Tensor]) -> Kernel:
        """The kernel with the inputs that ``_program`` made in the place of its own numbers."""
        (program,) = kernel.program(index, self._dtype, self._device)
        floats = iter(next(inputs).unbind())
        given = {id(one): next(inputs if isinstance(one, Tensor) else floats) for one in distinct(program)}

        def put(value):
            return tuple(map(put, value)) if isinstance(value, tuple) else given.get(id(value), value)

        changed = replace(kernel, mass=next(inputs) if isinstance(kernel.mass, Tensor) else kernel.mass)
        ways = [[(op, put(number), put(extra)) for op, number, extra in program]]
        object.__setattr__(changed, "program", lambda *_: ways)
        return changed


class Segments:
    """``trajectory.segment`` of a network's chains, one at a time: a graph for each sequence of letters, made when met.

    Inputs are θ, m, ΣΔK, the gradient, the normals and the letters' numbers, so no step, trajectory, chain, step size
    or mass compiles anything anew. ``prepare`` compiles what the trajectories of a kernel need. CannotCompile is
    raised where no compiler works, or where what it makes gives other numbers.
    """

    def __init__(self):
        self._graphs: dict[tuple, Callable] = {}
        self._floats = Floats()

    def prepare(self, kernel: Kernel, potential, dtype: torch.dtype, random: Normals) -> None:
        """Compile for the trajectories of such a kernel, and for their normals, and look at what each graph gives."""
        some = Random(random.seed, random.device).normal("diagnostic", 0, 4, range(1), potential.dim, dtype)
        # Each by itself: rows of one tensor of an odd size would not lie as those of a run do.
        theta, m, gradient, normal = (one.clone() for one in some)
        gradient = (gradient / float(kernel.step_size)).to(dtype)  # so that rounding is a small part of a kick's energy
        energy = torch.zeros(1, dtype=torch.float64, device=random.device)
        inverse_mass = cast(kernel.inverse_mass, theta)
        moves, draws, kinds = getattr(potential, "moves", None), 0, {}  # of thousands of segments there are a few kinds
        for way in range(1 + kernel.random_direction):
            for number, ops in enumerate(segments(kernel, 0, theta, way)):
                draws = max([draws, *(op.draw + 1 for op, _, _ in ops)])
                kind = number > 1, "".join(op.letter for op, _, _ in ops), tuple(map(is_scalar, numbers_of(ops)))
                kinds.setdefault(kind, ops)
        kinds.pop((False, "", ()), None)  # before the first gradient there may be nothing
        for (kicked, *_), ops in kinds.items():
            noise = {op.draw: normal for op, _, _ in ops}
            given = ops, theta, m, energy, gradient if kicked else None, noise, inverse_mass, moves
            if not all(map(close, self(*given), segment(*given))):
                raise CannotCompile("compiled steps give other numbers than eager ones")
        prepare = partial(random.prepare, dim=potential.dim, dtype=dtype)
        blocks = Blocks(prepare, draws, potential.dim, random.device)
        for draw in {0, draws - 1} if draws else ():
            blocks[draw]

    def __call__(self, ops: Ops, theta, m, energy, gradient, noise, inverse_mass, moves) -> tuple[Tensor, ...]:
        letters = "".join(op.letter for op, _, _ in ops)
        if not ops:
            return theta, m, energy
        numbers = numbers_of(ops)
        floats = self._floats([one for one in numbers if is_scalar(one)], theta.device)
        given = [gradient, inverse_mass if isinstance(inverse_mass, Tensor) else None, moves]
        given += [noise[op.draw] for op, _, _ in ops if op.letter in "OE"]
        inputs = [theta, m, energy, floats, *(one for one in given if one is not None)]
        inputs += [one for one in numbers if not is_scalar(one)]
        kinds = [one is None for one in given], [is_scalar(one) for one in numbers]
        mass = None if isinstance(inverse_mass, Tensor) else inverse_mass  # a number is the graph's own
        key = letters, str(kinds), theta.shape, theta.dtype, mass
        if key not in self._graphs:
            self._graphs[key] = graph_of(_traceable(ops, given, inverse_mass), inputs, INLINED_SEGMENT)
        changed = iter(self._graphs[key](*inputs))
        theta = next(changed) if "A" in letters else theta
        m = next(changed) if letters.strip("A") else m
        return theta, m, next(changed) if "B" in letters else energy


class Floats:
    """Floats as one float64 tensor on the device, made once for the same ones: a trajectory's steps share theirs."""

    def __init__(self):
        self._made: dict[tuple, Tensor] = {}

    def __call__(self, floats: list, device: torch.device) -> Tensor:
        if any(isinstance(one, Tensor) for one in floats):  # a captured step's, which lie there
            return torch.stack(floats)
        key = tuple(floats)
        if key not in self._made:
            if len(self._made) > KEYS:  # a step size that is tuned, under a schedule
                self._made.clear()
            self._made[key] = torch.tensor(key, dtype=torch.float64).to(device, non_blocking=True)
        return self._made[key]


def is_scalar(number) -> bool:
    """Whether a letter's number is a float, or one as a tensor; else it is a tensor of one a coordinate."""
    return not isinstance(number, Tensor) or number.ndim == 0


def numbers_of(ops: Ops) -> list:
    """The numbers of letters, floats and tensors in order."""
    return [one for _, number, extra in ops for one in _flat((number, extra))]


def _flat(value) -> list:
    if isinstance(value, tuple):
        return [one for part in value for one in _flat(part)]
    return [] if value is None else [value]


def with_numbers(ops: Ops, floats: Iterator[Tensor], tensors: Iterator[Tensor]) -> Ops:
    """The letters with other numbers, in the order of ``numbers_of``."""

    def put(value):
        if isinstance(value, tuple):
            return tuple(map(put, value))
        return None if value is None else next(floats if is_scalar(value) else tensors)

    return [(op, put(number), put(extra)) for op, number, extra in ops]


def _traceable(ops: Ops, given: list, inverse_mass) -> Callable:
    """``segment`` of these letters as a function of ``Segments``' inputs, giving what the letters change."""

    def flat(theta: Tensor, m: Tensor, energy: Tensor, floats: Tensor, *rest: Tensor) -> list[Tensor]:
        rest = iter(rest)
        gradient, tensor, moves, *normals = [None if one is None else next(rest) for one in given]
        letters = with_numbers(ops, iter(floats.unbind()), rest)
        noise = dict(zip([op.draw for op, _, _ in ops if op.letter in "OE"], normals, strict=True))
        after = segment(letters, theta, m, energy, gradient, noise, inverse_mass if tensor is None else tensor, moves)
        return [new for new, old in zip(after, (theta, m, energy), strict=True) if new is not old]

    return flat


class Normals(Random):
    """The random numbers of a seed, with the normals of one chain drawn by graphs: those of ``Random``, to rounding.

    A graph makes the words of so many steps and their normals in one pass over memory: 2 ns a normal, where the same
    functions take 10 one after another. (Inside a segment's graph they would take 4: two steps share their words.)
    """

    def __init__(self, random: Random):
        super().__init__(random.seed, random.device)
        self._graphs: dict[tuple, Callable] = {}

    def normal(self, stream: str, trajectory: int, steps, chains, dim: int, dtype=torch.float32) -> Tensor:
        steps = range(steps) if isinstance(steps, int) else steps
        chains = self.indices(chains)
        if len(chains) != 1:
            return super().normal(stream, trajectory, steps, chains, dim, dtype)
        first, last = steps.start // 2, (steps.stop + 1) // 2
        added = torch.tensor([*injections(self._key(stream, trajectory)), first], dtype=torch.int32)
        added = added.to(self.device, non_blocking=True)  # the host need not wait for the device
        row = ((chains * dim + 2**31) % 2**32 - 2**31).to(torch.int32)
        pairs = self._graph(last - first, dim, dtype)(added, row)[0]
        return pairs[steps.start - 2 * first : steps.stop - 2 * first]

    def prepare(self, steps: range, dim: int, dtype: torch.dtype) -> range:
        """Compile what such a block of steps needs, and look at what that gives."""
        block = "noise", 0, steps, range(1), dim, dtype
        if not close(self.normal(*block), super().normal(*block)):
            raise CannotCompile("compiled random numbers are others than eager ones")
        return steps

    def _graph(self, pairs: int, dim: int, dtype: torch.dtype) -> Callable:
        def flat(added: Tensor, row: Tensor) -> list[Tensor]:
            step = added[12] + torch.arange(pairs, dtype=torch.int32, device=row.device)
            counter = row + torch.arange(dim, dtype=torch.int32, device=row.device)
            x0 = step[:, None, None].expand(pairs, 1, dim).clone()
            x1 = counter.expand(pairs, 1, dim).clone()
            rounds_([added[place] for place in range(12)], x0, x1)
            return [box_muller(x0, x1, dtype)]

        key = pairs, dim, dtype
        if key not in self._graphs:
            inputs = [torch.zeros(size, dtype=torch.int32, device=self.device) for size in (13, 1)]
            self._graphs[key] = graph_of(flat, inputs, INLINED_ROUNDS)
        return self._graphs[key]


def distinct(program: Ops) -> list:
    """The floats and tensors of a program, each once: what ops share is one object."""
    return list({id(one): one for one in numbers_of(program)}.values())


# -- random words as inputs


class Asking(Random):
    """Random numbers of a trajectory that remember which words were asked for: (stream, trajectory, steps, size)."""

    def __init__(self, random: Random, index: int):
        super().__init__(random.seed, random.device)
        self.index, self.asked = index, []

    def words(self, stream: str, trajectory: int, steps, chains, size: int) -> tuple[Tensor, Tensor]:
        steps = range(steps) if isinstance(steps, int) else steps
        self.asked.append((stream, trajectory - self.index, steps, size))
        return super().words(stream, trajectory, steps, chains, size)


class Given(Random):
    """Random numbers made of words that are there: those that were asked for, in the same order."""

    def __init__(self, random: Random, drawn: Words, words: tuple[Tensor, ...], index: int):
        super().__init__(random.seed, random.device)
        self.places, self.by_coordinate, self.given, self.index = iter(drawn.places), drawn.by_coordinate, words, index

    def words(self, stream: str, trajectory: int, steps, chains, size: int) -> tuple[Tensor, Tensor]:
        steps = range(steps) if isinstance(steps, int) else steps
        asked, group, rows = next(self.places, (None, None, None))
        if asked != (stream, trajectory - self.index, steps, size):
            raise CannotCompile("another evaluation asked for other random numbers")
        return self.given[2 * group][rows], self.given[2 * group + 1][rows]

    # Numbers are made of words in the words' order in memory.

    def normal(self, *place) -> Tensor:
        return self._by_chain(super().normal(*place))

    def uniform(self, *place) -> Tensor:
        return self._by_chain(super().uniform(*place))

    def integers(self, *place) -> Tensor:
        return self._by_chain(super().integers(*place))

    def _by_chain(self, numbers: Tensor) -> Tensor:
        return numbers.mT if self.by_coordinate else numbers


class Words:
    """The words that trajectories ask for, drawn for as many of them at once as make ``WORDS`` pairs.

    Requests of one size are one group: a group's words of a trajectory are two int32 tensors ``[rows, chains, size]``
    (``by_coordinate``: ``[rows, size, chains]``), and ``places`` says for each request which group and which of its
    rows are its own.
    """

    def __init__(self, random: Random, asked: list[tuple], chains: Tensor, by_coordinate: bool):
        self.random, self.by_coordinate = random, by_coordinate
        self.streams = list(dict.fromkeys((stream, offset) for stream, offset, _, _ in asked))
        rows: dict[int, list] = {}
        self.places = []
        for request in asked:
            stream, offset, steps, size = request
            group = rows.setdefault(size, [])
            place = slice(len(group), len(group) + len(steps))
            group += [(self.streams.index((stream, offset)), step) for step in steps]
            self.places.append((request, list(rows).index(size), place))
        # Of each group: the stream and the step of each row, and the chains' and coordinates' counter.
        device, self.groups = random.device, []
        for size, group in rows.items():
            stream, step = torch.tensor(group, device=device).T
            place = torch.arange(size, device=device, dtype=torch.int32)
            counter = chains[:, None].to(torch.int32) * size + place
            counter = counter.T.contiguous() if by_coordinate else counter
            self.groups.append([stream, step.to(torch.int32), counter])
        trajectory = sum(len(stream) * counter.numel() for stream, _, counter in self.groups)
        self.length = max(1, min(WORDS // max(trajectory, 1), KEYS))
        for group in self.groups:
            group[1] = group[1].repeat(self.length)[:, None]
        self._keys = range(0)  # the trajectories whose keys are in ``_added``
        self._first, self._block = 0, []

    def of(self, index: int) -> list[Tensor]:
        """The words of a trajectory, two tensors a group."""
        place = index - self._first
        if not 0 <= place < len(self._block):
            self._first, self._block, place = index, self._drawn(index), 0
        return self._block[place]

    def _drawn(self, index: int) -> list[list[Tensor]]:
        if index not in self._keys:
            self._keys = range(index, index + max(1, KEYS // self.length) * self.length, self.length)
            self._added = self._injections()
        place, block = index - self._keys.start, []
        for (stream, step, counter), added in zip(self.groups, self._added, strict=True):
            added = added[:, place : place + self.length].reshape(12, -1, 1)
            limits = {"recompile_limit": SHAPES, "accumulated_recompile_limit": SHAPES}
            with compiling(), torch._dynamo.config.patch(limits):
                drawn = _rounds()(step, counter.view(1, -1), added)
            for words in drawn:
                block.append(words.view(self.length, len(stream), *counter.shape).unbind())
        return [list(words) for words in zip(*block, strict=True)] if block else [[]] * self.length

    def _injections(self) -> list[Tensor]:
        """What is added to the counters of each group, ``[12, trajectories, rows]``."""
        trajectories = torch.arange(self._keys.start, self._keys.stop, device=self.random.device)
        keys = [self.random.keys(stream, trajectories + offset) for stream, offset in self.streams]
        added = [torch.stack(injections(key)) for key in keys]
        return [torch.stack([added[one] for one in stream.tolist()], -1) for stream, _, _ in self.groups]


@cache
def _rounds() -> Callable:
    """Threefry's rounds of counters that broadcast, compiled once for all shapes."""

    def block(x0: Tensor, x1: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
        x0, x1 = (counter.clone() for counter in torch.broadcast_tensors(x0, x1))
        rounds_(added.unbind(), x0, x1)
        return x0, x1

    # Integers that are there depend on none of these settings. With guards on them the run would go on eagerly where
    # another thread entered or left ``full_precision`` while this is compiled.
    of_process = ("GLOBAL_STATE", "DEFAULT_DEVICE")
    settings = {"guard_filter_fn": lambda guards: [guard.guard_type not in of_process for guard in guards]}
    return torch.compile(block, dynamic=True, fullgraph=True, options=INLINED_ROUNDS | settings)


# -- tensors out of their classes, and into them again


def taking(part) -> Callable:
    """A quick function that gives the tensors of such a tensor or dataclass, in order."""
    if isinstance(part, Tensor):
        return lambda tensor: (tensor,)
    return attrgetter(*(field.name for field in fields(part) if getattr(part, field.name) is not None))


def putting(parts: tuple) -> Callable:
    """A quick function that makes such tensors and dataclasses of their tensors in order."""
    plan = []  # of each part its class and, of a dataclass, which of its fields are there
    for part in parts:
        has = None if isinstance(part, Tensor) else [getattr(part, one.name) is not None for one in fields(part)]
        plan.append((type(part), has))

    def put(tensors):
        given = iter(tensors)
        return tuple(
            next(given) if has is None else kind(*[next(given) if there else None for there in has])
            for kind, has in plan
        )

    return put
