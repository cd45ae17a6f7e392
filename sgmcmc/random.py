"""The one source of random numbers: counter-based, a function of where in the chain they are used.

Every number is Threefry-2x32-20 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
1, 2, 3", SC 2011) of a key made from ``(seed, stream, trajectory)`` and a counter made from
``(step, chain, coordinate)``. Nothing is consumed in order, so a checkpoint holds counters and no
generator state, a chain's numbers do not depend on how many chains run beside it, and the same words
come out on every device. Streams are separate, so that drawing one more minibatch never shifts the
noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from sgmcmc.errors import SettingError
from sgmcmc.inductor import CannotCompile
from sgmcmc.launch import launch, tl, triton

# A stream is known by its place here: new ones go to the end, so that old numbers stay.
STREAMS = (
    "noise",  # the letters O and E, and the refresh of the momentum (step 0)
    "minibatch",  # which data a gradient sees, a diagnostic one's too; the artificial noise of the analytic targets
    "augmentation",  # which view of an image; the frozen views
    "decision",  # Metropolis-Hastings uniforms, the persistent uniform's start, the data that a decision looks at
    "direction",  # the coin for the direction of a schedule, a word, an order of batches
    "start",  # initial positions and momenta, exact draws
    "warm_start",  # SGD before the chain
    "gibbs",  # other Markov updates between trajectories
    "diagnostic",  # what no chain depends on: positions at which targets are looked at, noise that data are tried with
    "split",  # which data are kept when a data set is cut down or split
)

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_MASK = 0xFFFFFFFF
_CHUNK = 1 << 17  # counters a pass: five int32 arrays of this size stay in a core's cache


def threefry(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """One Threefry-2x32-20 block in Python integers: two 32-bit words from a 64-bit key and counter."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x0, x1 = (counter[0] + schedule[0]) & _MASK, (counter[1] + schedule[1]) & _MASK
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = (x0 + x1) & _MASK
            x1 = ((x1 << rotation | x1 >> (32 - rotation)) & _MASK) ^ x0
        x0 = (x0 + schedule[(group + 1) % 3]) & _MASK
        x1 = (x1 + schedule[(group + 2) % 3] + group + 1) & _MASK
    return x0, x1


def _signed(word):
    """The int32 whose bits are those of the unsigned 32-bit ``word``; tensors of int32 are that already."""
    if isinstance(word, Tensor):
        return word
    word &= _MASK
    return word - (1 << 32) if word >> 31 else word


def injections(key) -> list:
    """What Threefry-2x32-20 adds to the counters before the rounds and after every fourth, alternately to both."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    added = [schedule[0], schedule[1]]
    for group in range(5):
        added += [schedule[(group + 1) % 3], schedule[(group + 2) % 3] + group + 1]
    return [_signed(word) for word in added]


def rounds_(added: Sequence, x0: Tensor, x1: Tensor) -> None:
    """The rounds of int32 counters, in place (int32 sums wrap; shifts are masked to be logical)."""
    spare = torch.empty_like(x1)
    x0 += added[0]
    x1 += added[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 += x1
            torch.bitwise_right_shift(x1, 32 - rotation, out=spare)
            spare &= (1 << rotation) - 1
            x1 <<= rotation
            x1 |= spare
            x1 ^= x0
        x0 += added[2 * group + 2]
        x1 += added[2 * group + 3]


def threefry_(key: tuple[int, int] | tuple[Tensor, Tensor], x0: Tensor, x1: Tensor) -> None:
    """Threefry-2x32-20 of int32 counters, in place; the key is two numbers, or two int32 tensors that broadcast."""
    fused = x0.is_cuda and x0.is_contiguous() and x1.is_contiguous() and not isinstance(key[0], Tensor)
    if not fused or not at_once_(key, x0, x1):
        rounds_(injections(key), x0, x1)


if triton is not None:

    @triton.jit(do_not_specialize=["k0", "k1"])
    def _threefry(x0_of, x1_of, number, k0, k1, BLOCK: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        x0 = tl.load(x0_of + at, mask=at < number).to(tl.uint32, bitcast=True)
        x1 = tl.load(x1_of + at, mask=at < number).to(tl.uint32, bitcast=True)
        k0 = k0.to(tl.uint32, bitcast=True)
        k1 = k1.to(tl.uint32, bitcast=True)
        k2 = k0 ^ k1 ^ 0x1BD11BDA
        x0 += k0
        x1 += k1
        for group in tl.static_range(5):
            for turn in tl.static_range(4):
                # The rotations of _ROTATIONS, a byte each.
                by = (0x061A0F0D if group % 2 == 0 else 0x18101D11) >> 8 * turn & 0xFF
                x0 += x1
                x1 = (x1 << by | x1 >> (32 - by)) ^ x0
            x0 += k1 if group % 3 == 0 else (k2 if group % 3 == 1 else k0)
            x1 += (k2 if group % 3 == 0 else (k0 if group % 3 == 1 else k1)) + (group + 1)
        tl.store(x0_of + at, x0.to(tl.int32, bitcast=True), mask=at < number)
        tl.store(x1_of + at, x1.to(tl.int32, bitcast=True), mask=at < number)


_unable: set[torch.device] = set()  # where the kernel could not be compiled


def at_once_(key: tuple[int, int], x0: Tensor, x1: Tensor) -> bool:
    """``rounds_`` of counters that lie one after the other, as one kernel: on a GPU a hundred small ones are what each
    decision, and each step of a small network, would wait for. False, and nothing done, where it cannot be compiled."""
    if triton is None or x0.device in _unable or type(x0) is not Tensor:
        return False
    try:
        if x0.numel():
            launch(_threefry, (triton.cdiv(x0.numel(), 1024),), x0, x1, x0.numel(), *map(_signed, key), BLOCK=1024)
    except CannotCompile:
        _unable.add(x0.device)
        return False
    return True


class Random:
    """All random numbers of one seed.

    ``chains`` below is a number of chains (0, 1, …), a ``range`` of them, or an int64 tensor of their
    indices; ``steps`` is a number of steps or a ``range``. Shapes are ``[steps, chains, …]``. Raises SettingError for a
    seed that is not in 64 bits: it would have the numbers of another; and for a stream that is not in ``STREAMS``.

    Numbers of one stream, trajectory and step are made of the same words, whatever their kind and size (normals of the
    steps 2k and 2k + 1 of those of step k): what is to be independent takes another step or trajectory.
    """

    def __init__(self, seed: int, device: torch.device | str = "cpu"):
        self.seed = int(seed)
        if not 0 <= self.seed < 1 << 64:
            raise SettingError("seed", seed, "must be from 0 to 18446744073709551615 (2^64 − 1)")
        self.device = torch.device(device)
        self._root = threefry((self.seed & _MASK, self.seed >> 32 & _MASK), (0, 0))

    def _key(self, stream: str, trajectory: int) -> tuple[int, int]:
        if stream not in STREAMS:
            raise SettingError("stream", stream, f"of random numbers must be one of {', '.join(STREAMS)}")
        stream_key = threefry(self._root, (STREAMS.index(stream), trajectory >> 32 & _MASK))
        return threefry(stream_key, (trajectory & _MASK, 0))

    def keys(self, stream: str, trajectories: Tensor) -> tuple[Tensor, Tensor]:
        """The keys of trajectories, int64 ``[n]``, as two int32 tensors ``[n]``."""
        high, low = (trajectories >> 32).to(torch.int32), trajectories.to(torch.int32)
        first, second = torch.full_like(high, STREAMS.index(stream)), torch.zeros_like(low)
        threefry_(self._root, first, high)
        threefry_((first, high), low, second)
        return low, second

    def indices(self, chains) -> Tensor:
        """The indices of these chains, int64 ``[chains]``, on the device."""
        if isinstance(chains, Tensor):
            return chains.to(self.device)
        chains = range(chains) if isinstance(chains, int) else chains
        return torch.arange(chains.start, chains.stop, device=self.device)

    def words(self, stream: str, trajectory: int, steps, chains, size: int) -> tuple[Tensor, Tensor]:
        """Two int32 tensors ``[steps, chains, size]`` of independent uniform 32-bit words."""
        key = self._key(stream, trajectory)
        steps = range(steps) if isinstance(steps, int) else steps
        chains = self.indices(chains)
        row = (chains[:, None] * size + torch.arange(size, device=self.device)).flatten()
        row = ((row + 2**31) % 2**32 - 2**31).to(torch.int32)
        step = torch.arange(steps.start, steps.stop, device=self.device, dtype=torch.int32)
        x0, x1 = step.repeat_interleave(len(row)), row.repeat(len(step))
        chunk = _CHUNK if self.device.type == "cpu" else max(x0.numel(), 1)
        for start in range(0, x0.numel(), chunk):
            threefry_(key, x0[start : start + chunk], x1[start : start + chunk])
        shape = (len(step), len(chains), size)
        return x0.view(shape), x1.view(shape)

    def normal(self, stream: str, trajectory: int, steps, chains, dim: int, dtype=torch.float32) -> Tensor:
        """Standard normals ``[steps, chains, dim]`` (Box–Muller): of other means and widths they are
        ``mean + sd * random.normal("start", 0, 1, chains, dim)[0]``, of trajectory 0 and one step.

        Steps 2k and 2k + 1 are the cosine and the sine of one pair of words, so single steps cost as
        much as pairs. float32 and float64 come from the same words: they agree to 2.5e-4, where a float32's
        logarithm near 1 is worst, mostly to float32's rounding.
        """
        steps = range(steps) if isinstance(steps, int) else steps
        first, last = steps.start // 2, (steps.stop + 1) // 2
        pairs = box_muller(*self.words(stream, trajectory, range(first, last), chains, dim), dtype)
        return pairs[steps.start - 2 * first : steps.stop - 2 * first]

    def uniform(self, stream: str, trajectory: int, chains, size: int = 1, step: int = 0) -> Tensor:
        """Uniforms in the open interval (0, 1), ``[chains, size]`` float64, of 52 bits."""
        a, b = self.words(stream, trajectory, range(step, step + 1), chains, size)
        high = (a[0].to(torch.int64) & _MASK) << 20 | (b[0].to(torch.int64) & _MASK) >> 12
        return (high.to(torch.float64) + 0.5) * 2.0**-52

    def integers(self, stream: str, trajectory: int, steps, chains, size: int, high: int) -> Tensor:
        """Uniform integers in [0, high), ``[steps, chains, size]`` int64 (63-bit words modulo high)."""
        a, b = self.words(stream, trajectory, steps, chains, size)
        return _modulo(a, b, high)

    def permutation(self, stream: str, trajectory: int, chains, size: int, step: int = 0) -> Tensor:
        """Uniform permutations of 0 … size − 1, ``[chains, size]`` int64, one a chain."""
        a, b = self.words(stream, trajectory, range(step, step + 1), chains, size)
        word = a[0].to(torch.int64) << 32 | (b[0].to(torch.int64) & _MASK)
        return torch.argsort(word, dim=-1)


def box_muller(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Standard normals ``[2 n, …]`` of int32 words ``[n, …]``, a cosine and a sine in turn; ``a`` is used up."""
    # (a mod 2^31 + 1/2) 2^-31 is in (0, 1], never 0, and precise where it is small: in the normal's tails.
    radius = a.bitwise_and_(0x7FFFFFFF).to(dtype).add_(0.5).mul_(2.0**-31).log_().mul_(-2).clamp_min_(0).sqrt_()
    angle = b.to(dtype).mul_(2 * math.pi * 2.0**-32)
    pairs = torch.stack((radius * angle.cos(), radius * angle.sin()), 1)
    return pairs.view(2 * len(a), *a.shape[1:])


def _modulo(a: Tensor, b: Tensor, high: int) -> Tensor:
    """(2^32 (a mod 2^31) + b) mod high, int64, of int32 tensors whose bits are unsigned words."""
    if high > 1 << 20:
        return ((a.to(torch.int64) & 0x7FFFFFFF) << 32 | (b.to(torch.int64) & _MASK)) % high
    # Exact in float64, which vectors divide by faster: all numbers stay below 2^53.
    first = _remainder((a & 0x7FFFFFFF).to(torch.float64), high)
    b = b.to(torch.float64)
    return _remainder(first * (2**32 % high) + torch.where(b < 0, b + 2.0**32, b), high).to(torch.int64)


def _remainder(x: Tensor, high: int) -> Tensor:
    """x mod high of whole numbers 0 ≤ x < 2^52, float64; the quotient's rounding is mended."""
    rest = x - (x * (1 / high)).floor() * high
    rest = torch.where(rest < 0, rest + high, rest)
    return torch.where(rest < high, rest, rest - high)
