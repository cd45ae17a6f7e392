"""The one source of random numbers: Threefry's known answers, the laws, and what the numbers may depend on.

Statistical tests compare means of a million independent numbers at 5.5 standard errors, or a chi-square with its
1e-6 quantile: false alarm below 1e-5 a test.
"""

import math

import pytest
import torch
from conftest import LIMIT, z_score
from scipy.stats import chi2

from sgmcmc.errors import SettingError
from sgmcmc.random import STREAMS, Random, _remainder, threefry, threefry_

F64 = torch.float64
ANSWERS = [  # counter, key, output: Random123's kat_vectors, threefry2x32, 20 rounds
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]
NUMBERS = [316, 211, 368, 277, 816, 197, 109, 93, 655, 910]  # of the streams in their order
LARGEST = 2**31 - 1
EXTREMES = torch.tensor([0, 1, LARGEST, -LARGEST - 1, -1, -2], dtype=torch.int32)


def signed(word):
    return word - (1 << 32) if word >> 31 else word


def chi_square(counts, expected):
    """The statistic and what it passes once in a million."""
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return statistic, chi2.isf(1e-6, counts.numel() - 1)


def test_a_seed_has_64_bits():
    """2^64 would have the numbers of 0."""
    first = [Random(seed).normal("start", 0, 1, 1, 1, F64).item() for seed in (0, 1, 1 << 32, (1 << 64) - 1)]
    assert len(set(first)) == 4
    for seed in (-1, 1 << 64):
        with pytest.raises(SettingError, match="^seed="):
            Random(seed)


@pytest.mark.parametrize(("counter", "key", "output"), ANSWERS)
def test_threefry_gives_its_known_answers(counter, key, output):
    assert threefry(key, counter) == output
    x0, x1 = (torch.tensor([signed(word)], dtype=torch.int32) for word in counter)
    threefry_(key, x0, x1)
    assert (int(x0) & 0xFFFFFFFF, int(x1) & 0xFFFFFFFF) == output


def block(seed, stream, trajectory, step, counter):
    """Two words in Python's integers, by keys of keys: the seed's, the stream's place, the trajectory's two halves."""
    root = threefry((seed % 2**32, seed >> 32), (0, 0))
    key = threefry(root, (STREAMS.index(stream), (trajectory >> 32) % 2**32))
    return threefry(threefry(key, (trajectory % 2**32, 0)), (step, counter % 2**32))


@pytest.mark.parametrize(("seed", "trajectory"), [(3, 0), (2**63 + 5, 2**31 + 7), (2**32 + 1, 2**40 + 2**33 - 1)])
def test_every_kind_of_number_is_made_of_its_two_words(seed, trajectory):
    """Uniforms, integers, orders and normals by Python's integers, at the step 5 and at that where none is said; the
    last chains' counters pass 2^31 and 2^32."""
    random, size = Random(seed), 3
    chains = [*range(60), 10**9, 2**32 // size, 2**33]
    rows, number = torch.tensor(chains), len(chains) * size
    for step, more in ((0, {}), (5, {"step": 5})):
        words = [block(seed, "gibbs", trajectory, step, chain * size + i) for chain in chains for i in range(size)]
        uniforms = [(a * 2**20 + b // 2**12 + 0.5) / 2**52 for a, b in words]
        assert random.uniform("gibbs", trajectory, rows, size, **more).flatten().tolist() == uniforms
        for high in (1, 2, 7, 49, 2**20 - 3, 2**20, 2**20 + 1, 10**9 + 7):  # 49: 49 (1/49) rounds to less than 1
            drawn = random.integers("gibbs", trajectory, range(step, step + 1), rows, size, high)
            assert drawn.flatten().tolist() == [(a % 2**31 * 2**32 + b) % high for a, b in words]
        long = [signed(a) * 2**32 + b for a, b in words]
        orders = [sorted(range(size), key=long[i : i + size].__getitem__) for i in range(0, number, size)]
        assert random.permutation("gibbs", trajectory, rows, size, **more).tolist() == orders
        pair = random.normal("gibbs", trajectory, range(2 * step, 2 * step + 2), rows, size, F64)
        radii = [math.sqrt(-2 * math.log((a % 2**31 + 0.5) / 2**31)) for a, _ in words]
        for part, function in zip(pair, (math.cos, math.sin), strict=True):
            values = [radius * function(2 * math.pi * b / 2**32) for radius, (_, b) in zip(radii, words, strict=True)]
            assert part.flatten().tolist() == pytest.approx(values, abs=1e-13)


def test_keys_of_many_trajectories_are_those_of_each():
    trajectories = torch.tensor([0, 7, 2**31 + 5, 2**32 - 1, 2**32, 2**32 + 7, 2**62 + 2**31, -1])
    keys = Random(2**40 + 3).keys("decision", trajectories)
    x0, x1 = torch.full((8,), 6, dtype=torch.int32), torch.arange(-2, 6, dtype=torch.int32)
    threefry_(keys, x0, x1)
    words = [block(2**40 + 3, "decision", int(one), 6, counter - 2) for counter, one in enumerate(trajectories)]
    assert [(int(a) % 2**32, int(b) % 2**32) for a, b in zip(x0, x1, strict=True)] == words


def test_the_numbers_of_every_stream_stay_for_ever():
    """What was published can be computed again only if they do."""
    numbers = [int(Random(2020).integers(stream, 1, range(2, 3), range(3, 4), 1, 1000)) for stream in STREAMS]
    assert numbers == NUMBERS


def test_remainders_of_large_numbers_are_exact():
    """Just below, at and above multiples up to 2^52, where a quotient rounds up or down to a whole number."""
    for high in (3, 49, 55_555, 2**20 - 1, 2**20):
        quotients = [1, 49, 2**31 // high, *range(2**52 // high - 40, 2**52 // high)]
        x = [quotient * high + more for quotient in quotients for more in (-1, 0, 1)]
        rest = _remainder(torch.tensor(x, dtype=F64), high)
        assert rest.tolist() == [one % high for one in x]


def test_numbers_are_those_of_a_place_and_not_of_an_order():
    """The same beside any other chains and steps, in blocks of any size, for ranges and tensors of chains."""
    random = Random(5)
    whole = random.normal("noise", 7, range(12), 9, 3, F64)
    for steps, chains in [(range(3, 8), range(9)), (range(5, 6), range(2, 4)), (range(4), torch.tensor([8, 0, 3]))]:
        part = random.normal("noise", 7, steps, chains, 3, F64)
        rows = chains if isinstance(chains, torch.Tensor) else torch.tensor(list(chains))
        assert torch.equal(part, whole[steps.start : steps.stop][:, rows])
    assert torch.equal(random.uniform("noise", 7, range(4, 9), 3), random.uniform("noise", 7, 9, 3)[4:])
    assert torch.equal(
        random.integers("noise", 7, range(2, 4), range(5, 6), 3, 10), random.integers("noise", 7, 4, 9, 3, 10)[2:, 5:6]
    )
    assert torch.equal(random.permutation("noise", 7, range(5, 6), 6), random.permutation("noise", 7, 9, 6)[5:6])
    assert torch.equal(whole, Random(5).normal("noise", 7, range(12), 9, 3, F64))


def test_many_numbers_at_once_are_the_same_as_few(monkeypatch):
    few = Random(5).normal("noise", 0, range(6), 5, 7, F64)
    monkeypatch.setattr("sgmcmc.random._CHUNK", 11)
    assert torch.equal(few, Random(5).normal("noise", 0, range(6), 5, 7, F64))


def test_everything_that_names_a_number_changes_it():
    """Seed (64 bits), stream, trajectory (64 bits), step, chain, coordinate: no two of these are alike."""
    seen = {}
    for seed in (0, 1, 2**32, 2**63):
        for stream in STREAMS:
            for trajectory in (0, 1, 2**31, 2**32, 2**62, -1):
                numbers = Random(seed).normal(stream, trajectory, 3, 3, 2, F64)
                for value in numbers.flatten().tolist():
                    assert value not in seen, (seed, stream, trajectory, seen.get(value))
                    seen[value] = (seed, stream, trajectory)


def test_streams_and_neighbours_do_not_correlate():
    numbers = {
        name: Random(1).normal(stream, trajectory, 2, 100_000, 2, F64)
        for name, stream, trajectory in [
            ("a", "noise", 0),
            ("b", "noise", 1),
            ("c", "minibatch", 0),
            ("d", "decision", 0),
        ]
    }
    first = numbers.pop("a")
    for other in numbers.values():
        for f in (lambda x: x, torch.square):
            one, two = f(first) - f(first).mean(), f(other) - f(other).mean()
            assert abs(z_score((one * two).flatten())) < LIMIT
    # Within one draw: the two steps of a Box-Muller pair, two coordinates, two neighbouring chains.
    square = first.square() - 1
    for x in (first, square):
        for product in (x[0] * x[1], x[..., 0] * x[..., 1], x[:, 1:] * x[:, :-1]):
            assert abs(z_score(product.flatten())) < LIMIT


def test_kinds_of_numbers_are_independent_in_another_step_alone():
    """A normal of step 0 is made of the words of the uniform of step 0, as ``Random`` says, and not of step 1's."""
    normal = Random(1).normal("gibbs", 3, 1, 100_000, 1, F64)[0, :, 0].square() - 1
    for step, same in ((0, True), (1, False)):
        uniform = 2 * Random(1).uniform("gibbs", 3, 100_000, step=step)[:, 0] % 1 - 0.5
        z = abs(z_score(normal * uniform))
        assert z > 100 if same else z < LIMIT


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_normals_have_their_moments_and_tails(dtype):
    z = Random(2).normal("noise", 0, 4, 250_000, 1, dtype).flatten().double()
    for power, moment in enumerate([0.0, 1.0, 0.0, 3.0, 0.0, 15.0], 1):
        assert abs(z_score(z**power - moment)) < LIMIT, power
    edges = torch.linspace(-4, 4, 33, dtype=F64)
    cumulative = torch.cat((torch.zeros(1, dtype=F64), torch.special.ndtr(edges), torch.ones(1, dtype=F64)))
    counts = torch.bincount(torch.bucketize(z, edges), minlength=34).double()
    statistic, quantile = chi_square(counts, cumulative.diff() * len(z))
    assert statistic < quantile


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_the_most_extreme_words_give_finite_normals(dtype, monkeypatch):
    """Whatever the two words: finite, of a size from 0 to 6.66, beyond which a normal is once in 4e10."""
    a, b = (grid.flatten() for grid in torch.meshgrid(EXTREMES, EXTREMES, indexing="ij"))
    monkeypatch.setattr(Random, "words", lambda self, *place: (a.clone().view(1, -1, 1), b.clone().view(1, -1, 1)))
    z = Random(0).normal("noise", 0, 2, len(a), 1, dtype)
    assert bool(torch.isfinite(z).all())
    radius = z.square().sum(0).sqrt().flatten()
    low = (a & LARGEST).double()
    assert float(radius.max()) == pytest.approx(math.sqrt(64 * math.log(2)), rel=1e-6)  # √(−2 log 2^−32)
    torch.testing.assert_close(radius.double(), (-2 * ((low + 0.5) / 2**31).log()).sqrt(), rtol=0, atol=1e-3)


@pytest.mark.parametrize("word", EXTREMES.tolist())
def test_the_most_extreme_words_give_uniforms_inside(word, monkeypatch):
    pair = torch.full((1, 1, 1), word, dtype=torch.int32)
    monkeypatch.setattr(Random, "words", lambda self, *place: (pair, pair))
    u = Random(0).uniform("decision", 0, 1)
    assert u.dtype == F64 and 0 < float(u) < 1
    assert float(u) == pytest.approx(((word & 0xFFFFFFFF) + 0.5) / 2**32, abs=2**-32)


def test_both_precisions_are_the_same_numbers():
    """float32's differ by its rounding; where the radius is small that is the root of what 1 is rounded by."""
    single = Random(4).normal("noise", 0, 2, 200_000, 1)
    double = Random(4).normal("noise", 0, 2, 200_000, 1, F64)
    assert single.dtype == torch.float32 and double.dtype == F64
    difference, radius = (single.double() - double).abs(), double.square().sum(0).sqrt()
    assert float(difference.max()) < 5e-4
    assert float((difference * radius).max()) < 1e-5


def test_uniforms_are_uniform_and_fine():
    u = Random(2).uniform("decision", 0, 1_000_000).flatten()
    assert abs(z_score(u - 0.5)) < LIMIT and abs(z_score((u - 0.5).square() - 1 / 12)) < LIMIT
    statistic, quantile = chi_square(torch.histc(u, 100, 0, 1), torch.full((100,), 1e4))
    assert statistic < quantile
    tail = u * 2.0**32 % 1  # the bits below the first 32
    statistic, quantile = chi_square(torch.histc(tail, 64, 0, 1), torch.full((64,), 1e6 / 64))
    assert statistic < quantile


@pytest.mark.parametrize("high", [2, 7, 50_000])
def test_integers_cover_their_range_evenly(high):
    values = Random(3).integers("minibatch", 1, 10, 100, 1000, high)
    assert values.shape == (10, 100, 1000) and values.dtype == torch.int64
    assert int(values.min()) == 0 and int(values.max()) == high - 1
    cells = torch.bincount((values.flatten() * min(high, 50)) // high)
    statistic, quantile = chi_square(cells.double(), torch.full((len(cells),), 1e6 / len(cells)))
    assert statistic < quantile


def test_permutations_are_uniform():
    orders = Random(3).permutation("minibatch", 0, 240_000, 4)
    assert torch.equal(orders.sort(1).values, torch.arange(4).expand(240_000, 4))
    counts = torch.bincount((orders * torch.tensor([64, 16, 4, 1])).sum(1))
    counts = counts[counts > 0].double()
    assert len(counts) == 24
    statistic, quantile = chi_square(counts, torch.full((24,), 1e4))
    assert statistic < quantile
    other = Random(3).permutation("minibatch", 0, 240_000, 4, step=1)
    assert abs(z_score((other == orders).double().mean(1) - 0.25)) < LIMIT


def test_shapes():
    random = Random(1)
    assert random.normal("noise", 0, 3, 2, 5).shape == (3, 2, 5)
    assert random.uniform("noise", 0, range(3, 7), 2).shape == (4, 2)
    assert random.permutation("noise", 0, 4, 6).shape == (4, 6)
    with pytest.raises(ValueError, match="^stream=nowhere: "):
        random.uniform("nowhere", 0, 1)
