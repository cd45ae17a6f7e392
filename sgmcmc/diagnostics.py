"""What a run tells about itself: temperatures, distances, mixing, calibration. Nothing here changes a chain.

Temperatures and calibration take torch tensors, stay on their device without waiting for it, and answer in
float64. R-hat, ESS and autocorrelations take draws ``[draws, chains, dim]`` (torch or NumPy) and answer with
NumPy arrays ``[dim]``, NaN where the draws cannot tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import gammaincinv, gammaln, ndtri, xlog1py, xlogy
from torch import Tensor

from sgmcmc.errors import one_of

LEAST = 8  # draws, and moves of a chain on average: with fewer there is no effective sample size


Value = TypeVar("Value", np.ndarray, float)


class Estimate(NamedTuple, Generic[Value]):
    """A value and its own Monte-Carlo standard error."""

    value: Value
    error: Value


# ---------------------------------------------------------------------------------------------- temperatures


def kinetic_temperature(momentum: Tensor, inverse_mass: Tensor | float = 1.0) -> Tensor:
    """mᵀM⁻¹m/d, ``[chains]`` float64: T on average, of one draw T χ²(d)/d.

    ``momentum`` ``[chains, dim]``; ``inverse_mass`` a number, ``[dim]`` or ``[chains, dim]``. Of one parameter
    tensor: slice both. Source: Wenzel et al. 2020, "How good is the Bayes posterior in deep neural networks
    really?".
    """
    return (momentum.to(torch.float64).square() * inverse_mass).mean(-1)


def configurational_temperature(theta: Tensor, gradient: Tensor, mean: Tensor | None = None) -> Tensor:
    """⟨θ − mean, ∇U(θ)⟩/d, ``[chains]`` float64: T on average under exp(−U/T).

    ``theta`` and ``gradient`` ``[chains, dim]``; any fixed ``mean`` ``[dim]`` is right (0 by default), the
    posterior's gives the least variance. The identity (the virial theorem) is an integration by parts: it holds only
    for parameters with a proper, decaying density, so not for those without a prior. Source: as above.
    """
    theta = theta.to(torch.float64)
    return ((theta if mean is None else theta - mean) * gradient).mean(-1)


def temperature_interval(dim: ArrayLike, temperature: float = 1.0, level: float = 0.99) -> tuple:
    """The central interval of T χ²(d)/d: where a kinetic temperature of ``dim`` momenta lies with probability
    ``level``. Returns (low, high), each of ``dim``'s shape."""
    dim = np.asarray(dim)
    low, high = (2 * gammaincinv(dim / 2, (1 + side * level) / 2) for side in (-1, 1))
    return temperature * low / dim, temperature * high / dim


# ------------------------------------------------------------------------------------------- symmetric KL


@dataclass(frozen=True)
class Grid:
    """Equal bins over a box: ``low``, ``high`` and number of ``bins`` of each dimension.

    ``Grid([-6], [6], [120])`` is the one used here for the AMAGOLD paper's double well.
    """

    low: Sequence[float]
    high: Sequence[float]
    bins: Sequence[int]

    def counts(self, samples: Tensor) -> Tensor:
        """How many of ``samples`` ``[..., dim]`` fell in each bin, int64 ``[*bins]``, on their device.

        What lies outside, or is not a number, is in no bin. Counts of blocks of a chain add up.
        """
        samples = samples.reshape(-1, len(self.bins)).to(torch.float64)
        low, high, bins = (samples.new_tensor(side) for side in (self.low, self.high, self.bins))
        cell = ((samples - low) * (bins / (high - low))).floor()
        inside = ((cell >= 0) & (cell < bins)).all(-1)
        flat = torch.zeros(len(samples), dtype=torch.int64, device=samples.device)
        for axis, size in enumerate(self.bins):
            flat = flat * size + torch.where(inside, cell[:, axis], 0).to(torch.int64)
        counts = torch.zeros(self.bins, dtype=torch.int64, device=samples.device)
        return counts.view(-1).index_add_(0, flat, inside.to(torch.int64)).view(counts.shape)

    def masses(self, log_density: Callable[[Tensor], Tensor], log_normaliser: float | None = None) -> np.ndarray:
        """The exact mass of each bin, float64 ``[*bins]``, by 8-point Gauss-Legendre quadrature in each.

        ``log_density`` takes float64 ``[points, dim]``, returns ``[points]``, and need not be normalised (minus a
        potential will do): without ``log_normaliser`` the masses are made to add up to 1 over the grid.
        """
        nodes, weights = np.polynomial.legendre.leggauss(8)
        axes, scale = [], 1.0
        for low, high, bins in zip(self.low, self.high, self.bins, strict=True):
            width = (high - low) / bins
            centres = low + width * (np.arange(bins) + 0.5)
            axes.append(torch.from_numpy((centres[:, None] + width / 2 * nodes).ravel()))
            scale *= width / 2
        points = torch.cartesian_prod(*axes).reshape(-1, len(axes))
        logs = torch.cat([log_density(part).to(torch.float64) for part in points.split(1 << 18)]).cpu().numpy()
        shift = logs.max() if log_normaliser is None else log_normaliser
        masses = np.exp(logs - shift).reshape([side for bins in self.bins for side in (bins, 8)])
        for axis in reversed(range(len(axes))):
            masses = np.tensordot(masses, weights, (2 * axis + 1, 0))
        return masses / masses.sum() if log_normaliser is None else masses * scale


FLOOR = 1e-12  # of a bin's mass, so that an empty bin costs much and not infinitely much


def symmetric_kl(
    counts: Tensor | ArrayLike, masses: ArrayLike, draws: int | None = None, occupied_only: bool = False
) -> np.ndarray:
    """J = sum over bins of (p - q) log(p/q), p the exact bin ``masses`` ``[*bins]``, q = ``counts``/``draws``.

    ``counts`` ``[..., *bins]``, J ``[...]``. ``draws`` is the number of draws, those outside of the grid
    included (by default: those inside). p and q are floored at 1e-12; ``occupied_only`` leaves out the bins without a
    draw instead. The AMAGOLD paper gives no definition: this histogram of exact masses is the resolution chosen here
    (a kernel density estimate's smoothing would dominate J).
    """
    counts = counts.cpu().numpy() if isinstance(counts, Tensor) else np.asarray(counts)
    p = np.maximum(np.asarray(masses, dtype=np.float64), FLOOR)
    axes = tuple(range(-p.ndim, 0))
    total = counts.sum(axes, keepdims=True) if draws is None else draws
    q = np.maximum(counts / total, FLOOR)
    terms = (p - q) * np.log(p / q)
    return (np.where(counts > 0, terms, 0) if occupied_only else terms).sum(axes)


def symmetric_kl_floor(masses: ArrayLike, draws: int, occupied_only: bool = False) -> float:
    """The expectation of ``symmetric_kl`` for ``draws`` independent exact draws: what no sampler beats.

    Each bin's count is Binomial(draws, p), so J's expectation is a sum over bins and counts, done exactly; for bins
    with more than 200 expected draws by the expansion of log(q/p) to fourth order.
    """
    p = np.asarray(masses, dtype=np.float64).ravel()
    large = draws * p > 200
    rest, expected = 1 - p[large], draws * p[large]
    total = (p[large] * rest / expected * (1 - (rest - p[large]) / (2 * expected) + rest / expected)).sum()
    p = p[~large, None]
    k = np.arange(min(draws, 500) + 1.0)
    log_pmf = gammaln(draws + 1) - gammaln(k + 1) - gammaln(draws - k + 1) + xlogy(k, p) + xlog1py(draws - k, -p)
    p, q = np.maximum(p, FLOOR), np.maximum(k / draws, FLOOR)
    terms = (p - q) * np.log(p / q)
    if occupied_only:
        terms[:, 0] = 0
    return float(total + (np.exp(log_pmf) * terms).sum())


# ------------------------------------------------------------------------------------------------- mixing


BLOCK = 2**22  # numbers at a time, for the memory


def _draws(draws: Tensor | ArrayLike) -> np.ndarray:
    draws = draws.detach().cpu().numpy() if isinstance(draws, Tensor) else np.asarray(draws)
    if draws.ndim != 3:
        raise ValueError(f"draws must be [draws, chains, dim], not of shape {draws.shape}")
    return draws.astype(np.float64, copy=False)


def _of_halves(statistic: Callable[[np.ndarray], np.ndarray], draws: np.ndarray) -> np.ndarray:
    """A statistic ``[dim]`` of the half-chains ``[dim, 2 chains, draws/2]``: NaN where there are fewer than four draws,
    one that is not finite, or no chain that moves (of which ArviZ says ESS = all draws)."""
    values, half = np.full(draws.shape[2], np.nan), len(draws) // 2
    if len(draws) >= 4:
        moves = ((draws != draws[0]).any((0, 1)) & np.isfinite(draws).all((0, 1))).nonzero()[0]
        some = max(1, BLOCK // draws[..., 0].size)
        for which in (moves[at : at + some] for at in range(0, len(moves), some)):
            block = draws[:, :, which].T
            with np.errstate(all="ignore"):  # a half that stands still has no variance
                values[which] = statistic(np.concatenate((block[..., :half], block[..., -half:]), 1))
    return values


def _rank_normalised(values: np.ndarray) -> np.ndarray:
    """Normal scores ``[dim, chains, draws]`` of each coordinate's ranks over all chains, of equal values their mean
    (Blom's). ArviZ has them too, and SciPy such ranks, by a stable sort, which takes up to five times as long."""
    flat = values.reshape(len(values), -1)
    found, number = np.empty_like(flat), flat.shape[1]
    scores = ndtri((np.arange(2, 2 * number + 1) / 2 - 3 / 8) / (number + 1 / 4))  # of the ranks 1, 1.5, 2, ...
    for row, out in zip(flat, found, strict=True):
        order = row.argsort()
        ordered = row[order]
        starts = np.append(True, ordered[1:] != ordered[:-1]).nonzero()[0]
        if len(starts) == number:
            out[order] = scores[::2]
        else:
            counts = np.diff(starts, append=number)
            out[order] = scores[2 * starts + counts - 1].repeat(counts)
    return found.reshape(values.shape)


def _in_units(values: np.ndarray) -> np.ndarray:
    """Values ``[dim, chains, draws]`` times powers of two, so to the bit, that make each coordinate's range about 1:
    one below 1e-15 ArviZ takes for that of draws that stand still, and squares must not overflow."""
    return np.ldexp(values, -np.frexp(np.ptp(values, (1, 2), keepdims=True))[1])


def _scale_reduction(values: np.ndarray) -> np.ndarray:
    """√((B/W + n - 1)/n) ``[dim]`` of values ``[dim, chains, n]``, B/n the variance of the chains' means, W the mean of
    their variances (Vehtari et al. 2021, equations 1 to 4)."""
    n = values.shape[2]
    between = n * values.mean(2).var(1, ddof=1)
    return np.sqrt((between / values.var(2, ddof=1).mean(1) + n - 1) / n)


def _rank_r_hat(halves: np.ndarray) -> np.ndarray:
    folded = np.abs(halves - np.median(halves, (1, 2), keepdims=True))
    # Of two values that are as often there the folded ones are one, and say nothing.
    return np.fmax(*(_scale_reduction(_rank_normalised(one)) for one in (halves, folded)))


def r_hat(draws: Tensor | ArrayLike) -> np.ndarray:
    """Rank-normalised split R-hat ``[dim]`` of draws ``[draws, chains, dim]``: 1 where the chains agree.

    The larger of bulk and tail (folded). One chain is cut into two first. Infinite where chains stand still at
    different places, NaN where all stand still at one. Source: Vehtari, Gelman, Simpson, Carpenter, Bürkner 2021,
    "Rank-normalization, folding, and localization: an improved R-hat"; the numbers are ArviZ's (arviz-stats 0.8).
    """
    draws = _draws(draws)
    if draws.shape[1] == 1:
        half = len(draws) // 2
        draws = np.concatenate((draws[:half], draws[-half:]), 1) if half else draws[:0]
    values = _of_halves(_rank_r_hat, draws)
    if len(draws) >= 4:
        stuck = (draws == draws[0]).all((0, 1)) & (draws[0] != draws[0, 0]).any(0)
        values[stuck] = np.inf
    return values


def hardly_moves(draws: Tensor) -> bool:
    """Whether chains ``[draws, chains, dim]`` move less than ``LEAST`` times on average: an effective sample size would
    be about that of all draws, as if they were independent."""
    return int((draws[1:] != draws[:-1]).any(-1).sum()) < LEAST * draws.shape[1]


def ess(draws: Tensor | ArrayLike, method: str = "bulk") -> Estimate[np.ndarray]:
    """Effective sample size ``[dim]`` of draws ``[draws, chains, dim]``, all chains together, and its error.

    Source: Vehtari et al. 2021, computed by ArviZ (arviz-stats 0.8) of the half-chains: of their normal scores, by
    ``method`` "bulk", which has a meaning for the widest tails; or, by "mean", of the values as they are: as many
    independent draws have the variance of these draws' mean. Of two wells the scores can be worth twice the values.

    NaN where no chain moves, and where ArviZ's upper bound is reached, n log₁₀ n of all n draws: then they are too few
    (less than ten a chain always are), or so antithetic that it cannot tell; the slowest of the other coordinates is
    ``numpy.nanmin`` of the values. Where R-hat says that chains do not agree, it means nothing. The error is an
    estimate for chains that have converged, with τ = all draws/ESS, n draws in half a chain, C chains: a relative
    variance of 2(4 τ + 1)/(all draws) from a window of 2 τ (Madras and Sokal 1988; of antithetic draws 1/τ in its
    place, for their correlations last as long as those of the opposite sign) and of (2 min(3 τ, n)/n)²/C from the
    variance between the half-chains; right to some 40 % on autoregressions.
    It costs about a fifth of a microsecond a draw, chain and coordinate (by "mean" less than a tenth): thin, or take
    functions of θ, where there are many.
    """
    from arviz_stats.base import array_stats  # half a second to import

    scores = {"bulk": _rank_normalised, "mean": _in_units}
    one_of("method", method, scores)
    draws, scored = _draws(draws), scores[method]
    n, chains, _ = draws.shape
    value = _of_halves(lambda halves: array_stats.ess(scored(halves), method="identity"), draws)
    whole = max(n // 2 * 2 * chains, 1)  # in halves
    value[value >= 0.999 * whole * np.log10(whole)] = np.nan
    tau = n * chains / value
    half = max(n // 2, 1)
    lasting = np.maximum(tau, 1 / tau)
    variance = 2 * (4 * lasting + 1) / (n * chains) + (2 * np.minimum(3 * tau, half) / half) ** 2 / chains
    return Estimate(value, value * np.sqrt(variance))


def autocorrelation(draws: Tensor | ArrayLike, lags: int | None = None) -> np.ndarray:
    """Autocorrelations ``[lags + 1, dim]`` of draws ``[draws, chains, dim]``, lag 0 first (all lags by default).

    Deviations are from the mean over all chains, so chains that stay in different places read as
    correlated for ever, not as mixing. Sums of lag k are divided by the number of draws n, not n - k (biased,
    positive definite). NaN where nothing moves.
    """
    draws = _draws(draws)
    n, chains, dim = draws.shape
    lags = max(n - 1 if lags is None else min(lags, n - 1), 0)
    if draws.size == 0:
        return np.full((lags + 1, dim), np.nan)
    size = next_fast_len(2 * n, real=True)
    columns = max(1, BLOCK // size)
    sums = np.zeros((lags + 1, dim))
    for coordinate in range(dim):
        deviation = draws[:, :, coordinate] - draws[:, :, coordinate].mean()
        for start in range(0, chains, columns):
            spectrum = rfft(deviation[:, start : start + columns], size, axis=0)
            power = (spectrum.real**2 + spectrum.imag**2).sum(1)
            sums[:, coordinate] += irfft(power, size)[: lags + 1]
    constant = (draws == draws[0, 0]).all((0, 1))
    with np.errstate(invalid="ignore"):
        return np.where(constant, np.nan, sums / sums[0])


def integrated_autocorrelation_time(draws: Tensor | ArrayLike, window: float = 5.0) -> Estimate[np.ndarray]:
    """τ = 1 + 2 sum of the autocorrelations ρ(k), ``[dim]``, over a window of lags, and its standard error.

    The weights of the lags are 1 up to W/2, then fall linearly (a flat-top window: Politis and Romano 1995,
    "Bias-corrected nonparametric spectral estimation"): τ is the mean of the sums that end at lags W//2 to W. Where
    ρ oscillates, because momentum persists or chains are antithetic, a single sum would depend on where it ends.

    W is at least ``window``, and it is the first lag that is at least ``window`` times each of two sums up to it:

    - τ itself, which is Sokal's automatic window (1997, "Monte Carlo methods in statistical mechanics");
    - 1 + 2 sum of |ρ|, of those ρ that are not mere chance: beyond two standard deviations √(S/(draws
      chains)), S the sum of ρ² over positive and negative lags (Bartlett).

    A slow part of small weight shows only beyond that W. So W is doubled, as long as there are so many draws and it
    adds more to τ than two standard deviations of the change or takes away more than three.

    The variance of τ, and of a change with the difference of its weights, is 2 Σ_k g(k)²/(draws chains), g the
    convolution of the weights with ρ, both of positive and negative lags (Bartlett). Where ρ does not oscillate it
    is 2(4W/3 + 1) τ²/(draws chains), as in Madras and Sokal (1988, eq. E.11) for these weights. Of chains with parts
    of very unequal speeds the error is up to 1.6 times too small.

    draws x chains / τ is the effective sample size of the mean. Where τ is not above its error, or not above 0,
    little is known of it. NaN where nothing moves, or where the draws are fewer than the window.
    """
    draws = _draws(draws)
    number = max(draws.shape[0] * draws.shape[1], 1)
    found = [_time(rho, number, window) for rho in autocorrelation(draws).T]
    return Estimate(*np.reshape(found, (-1, 2)).T)


def _time(rho: np.ndarray, number: int, window: float) -> tuple[float, float]:
    """τ of so many draws in all, and its error."""
    sums, squares = (2 * np.cumsum(some) - 1 for some in (rho, rho**2))
    sizes = 2 * np.cumsum(np.where(rho**2 > 4 * squares / number, abs(rho), 0)) - 1
    closed = np.flatnonzero(np.arange(len(rho)) >= window * np.maximum(np.maximum(sums, sizes), 1))
    if not len(closed):
        return np.nan, np.nan
    last = int(closed[0])
    weights = _flat_top(last)
    while 2 * last < len(rho):
        wider = _flat_top(2 * last)
        change = wider - np.pad(weights, (0, last))
        more, chance = _sum(change, rho)
        if -3 * chance <= more * math.sqrt(number) <= 2 * chance:
            break
        last, weights = 2 * last, wider
    tau, spread = _sum(weights, rho)
    return tau, spread / math.sqrt(number)


def _flat_top(last: int) -> np.ndarray:
    """Weights of lags 0 to ``last``: the share of the sums that end at last//2 to last which have them."""
    return np.minimum((last + 1 - np.arange(last + 1)) / (last + 1 - last // 2), 1)


def _sum(weights: np.ndarray, rho: np.ndarray) -> tuple[float, float]:
    """Of weighted autocorrelations of positive and negative lags, and its standard deviation for a single draw."""
    both = [np.concatenate([half[:0:-1], half]) for half in (weights, rho[: len(weights)])]
    size = next_fast_len(2 * len(both[0]), real=True)
    convolved = irfft(math.prod(rfft(one, size) for one in both), size)
    return float(np.dot(*both)), math.sqrt(2 * np.sum(convolved**2))


def rejection_clustering(accepted: Tensor | ArrayLike, block: int) -> Estimate[float]:
    """Variance of the number of rejections in blocks of ``block`` decisions, over that of independent decisions.

    ``accepted`` ``[decisions, chains]`` bool. 1 for independent decisions, more where rejections come in
    clusters, as Neal's persistent uniform makes them. The error is the ratio's standard deviation for
    independent decisions (of n blocks, however rare rejections are, √(2(1 − 1/``block``)/n): their share is
    estimated from the same decisions, and goes with the variance). NaN where all or none were rejected or no block is
    whole.
    """
    accepted = accepted.cpu().numpy() if isinstance(accepted, Tensor) else np.asarray(accepted)
    blocks = len(accepted) // block
    counts = (~accepted[: blocks * block].astype(bool)).reshape(blocks, block, accepted.shape[1]).sum(1)
    p = counts.mean() / block if counts.size else 0.0
    if not 0 < p < 1 or counts.size < 2:
        return Estimate(np.nan, np.nan)
    return Estimate(counts.var(ddof=1) / (block * p * (1 - p)), np.sqrt(2 * (1 - 1 / block) / counts.size))


# --------------------------------------------------------------------------------------------- calibration


def accuracy(probabilities: Tensor, targets: Tensor) -> Tensor:
    """The share of data whose most probable class is theirs. ``probabilities`` ``[..., n, classes]``, ``targets``
    int64 ``[n]``; here and below the result is float64 ``[...]``. NaN where a probability is, which has no class."""
    right = (probabilities.argmax(-1) == targets).to(torch.float64)
    return torch.where(probabilities.isnan().any(-1), math.nan, right).mean(-1)


def nll(probabilities: Tensor, targets: Tensor) -> Tensor:
    """Mean of -log p(target), in nats. A probability of 0 counts as the least positive normal number of its dtype."""
    tiny = torch.finfo(probabilities.dtype).tiny
    return -_of_target(probabilities, targets).to(torch.float64).clamp(min=tiny).log().mean(-1)


def brier(probabilities: Tensor, targets: Tensor) -> Tensor:
    """Mean of Σ_k (p_k − [k is the target])², from 0 to 2 (Brier 1950)."""
    squares = probabilities.to(torch.float64).square().sum(-1)
    return (squares - 2 * _of_target(probabilities, targets).to(torch.float64) + 1).mean(-1)


def ece(probabilities: Tensor, targets: Tensor, bins: int = 15) -> Tensor:
    """Expected calibration error: sum over bins of confidence of (share of data) |accuracy - mean confidence|.

    ``bins`` equal bins (low, high] of the largest probability. Source: Guo et al. 2017, "On calibration of modern
    neural networks", eq. 3.
    """
    confidence, predicted = probabilities.to(torch.float64).max(-1)
    gap = (predicted == targets).to(torch.float64) - confidence
    index = ((confidence * bins).ceil().to(torch.int64) - 1).clamp(0, bins - 1)
    sums = torch.zeros(*gap.shape[:-1], bins, dtype=torch.float64, device=gap.device)
    return sums.scatter_add_(-1, index, gap).abs().sum(-1) / gap.shape[-1]


def predictive_entropy(probabilities: Tensor) -> Tensor:
    """−Σ_k p_k log p_k of each datum, in nats, float64 ``[..., n]``: from 0 to log(classes)."""
    # One that rounding made negative, as 1 minus the others may be, counts as 0: its term would be -inf.
    return torch.special.entr(probabilities.to(torch.float64).clamp(min=0)).sum(-1)


def metrics(probabilities: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """All of the above as ``accuracy, nll, brier, ece, entropy`` (the mean entropy), float64 ``[...]``."""
    return {
        "accuracy": accuracy(probabilities, targets),
        "nll": nll(probabilities, targets),
        "brier": brier(probabilities, targets),
        "ece": ece(probabilities, targets),
        "entropy": predictive_entropy(probabilities).mean(-1),
    }


def _of_target(probabilities: Tensor, targets: Tensor) -> Tensor:
    index = targets.expand(probabilities.shape[:-1])[..., None]
    return probabilities.gather(-1, index)[..., 0]


class Ensemble:
    """The running mean of predicted probabilities, one sample after another: the posterior predictive.

    A state that is repeated by a rejection is added again. A member with a probability that is not finite is left out.
    ``sum`` float64 ``[n, classes]`` and ``count`` int64 ``[]`` are all there is: ``state`` and ``from_state`` put
    them into a checkpoint and back, bit for bit.
    """

    def __init__(self, data: int, classes: int, device: torch.device | str = "cpu"):
        self.sum = torch.zeros(data, classes, dtype=torch.float64, device=device)
        self.count = torch.zeros((), dtype=torch.int64, device=device)

    def add(self, probabilities: Tensor) -> None:
        """Adds one member ``[n, classes]`` or several ``[..., n, classes]``."""
        members = probabilities.reshape(-1, *self.sum.shape)
        finite = torch.isfinite(members).all(-1).all(-1)
        self.sum += torch.where(finite[:, None, None], members, 0).sum(0, dtype=torch.float64)
        self.count += finite.sum()

    @property
    def probabilities(self) -> Tensor:
        """The mean of the members, float64 ``[n, classes]``; NaN while there is none."""
        return self.sum / self.count

    def state(self) -> dict[str, Tensor]:
        """Tensors for a checkpoint (copies)."""
        return {"sum": self.sum.clone(), "count": self.count.clone()}

    @classmethod
    def from_state(cls, state: dict[str, Tensor], device: torch.device | str = "cpu") -> Ensemble:
        """The ensemble that ``state`` was taken of, on ``device``."""
        ensemble = cls(0, 0)
        ensemble.sum, ensemble.count = (state[key].clone().to(device) for key in ("sum", "count"))
        return ensemble
