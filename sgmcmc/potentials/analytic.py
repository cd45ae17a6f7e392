"""Targets without data: densities with a formula, gradients by hand, exact draws where there are any.

What their methods are is said in ``sgmcmc.potentials``. Gradients are in the dtype of ``theta``, starting points and
exact draws float64, of the stream "start"; ``chains`` is a number of chains or a ``range`` of them: the draws of
chains 3 and 4 are the same beside any others.

Sources: Zhang, Cooper, De Sa, "AMAGOLD" (2020) for the double well, the banana (its Dist1) and the
mixture (its Dist2); Neal, "Non-reversible Langevin" (talk, 2020) for the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sgmcmc.arguments import number, whole
from sgmcmc.errors import SettingError
from sgmcmc.interrupt import unbroken
from sgmcmc.random import Random

_NEGLIGIBLE = 45.0  # exp(−45) is below the spacing of the 52-bit uniforms, tails included
_CELLS = 1 << 16  # of the tables behind the one-dimensional exact draws
_LOG_2 = math.log(2)


class Constant:
    """A float64 tensor that is copied once to every dtype and device that it meets.

    ``constant.like(theta)`` is safe inside a step that must not wait for the host: only its first
    use with a dtype and a device copies.
    """

    def __init__(self, value: Tensor):
        self.value = value.to(torch.float64)
        self._copies: dict = {}

    def like(self, other: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """The value on the device of another tensor, and in its dtype or the one that is given."""
        place = (dtype or other.dtype, other.device)
        if place not in self._copies:
            self._copies[place] = self.value.to(dtype=place[0], device=place[1])
        return self._copies[place]


def positive_temperature(temperature: float) -> float:
    """The temperature, if exp(−U/T) is a density; SettingError otherwise."""
    if not 0 < temperature < math.inf:
        raise SettingError("temperature", temperature, "exact draws need a finite temperature above 0")
    return float(temperature)


class Analytic:
    """A target without data; subclasses write ``potential``, ``_slope`` (the exact gradient) and the draws."""

    data_size = 0

    def __init__(self, dim: int, noise: float):
        self.dim, self.noise = whole("dim", dim, 1), number("noise", noise)
        if not 0 <= self.noise < math.inf:
            raise SettingError("noise", noise, "must be a standard deviation: 0 or a positive number")

    def gradient(self, theta: Tensor, batch: Tensor | None = None) -> Tensor:
        """The exact gradient of U, plus ``batch``, the artificial gradient noise, if there is any."""
        slope = self._slope(theta)
        return slope if batch is None else slope + batch

    def initial(self, chains: int | range, random: Random) -> Tensor:
        """A dispersed start: independent normals of mean 0 and standard deviation 2."""
        return 2 * self._normal(chains, random)

    def _normal(self, chains, random: Random, attempt: int = 0) -> Tensor:
        return random.normal("start", attempt, 1, chains, self.dim, torch.float64)[0]


class Independent(Analytic):
    """U = Σ_i energy(θ_i): independent coordinates with one density each, known up to its normaliser.

    Subclasses write ``energy`` and ``_slope`` of single coordinates, of any shape; every minimiser of
    ``energy`` lies in [−``reach``, ``reach``].
    """

    reach: float

    def energy(self, x: Tensor) -> Tensor:
        """−log density of a coordinate, up to a constant, at ``x`` of any shape."""
        raise NotImplementedError

    def potential(self, theta: Tensor) -> Tensor:
        """U = Σ_i energy(θ_i), ``[chains]`` float64."""
        return self.energy(theta.to(torch.float64)).sum(-1)

    def exact(self, chains: int | range, random: Random, temperature: float = 1.0) -> Tensor:
        """Independent draws of exp(−U/T), by inversion of the distribution function of a coordinate.

        The density is taken as linear between 65,537 points, each cell with its Simpson mass: the
        distribution function is right to about 1e-12.
        """
        grid, density, cumulative = self._table(temperature, random.device)
        uniform = random.uniform("start", 0, chains, self.dim)
        cell = torch.searchsorted(cumulative, uniform, right=True).sub_(1).clamp_(0, _CELLS - 1)
        share = (uniform - cumulative[cell]) / (cumulative[cell + 1] - cumulative[cell])
        left, right = density[cell], density[cell + 1]
        # The root of the quadratic mass of a cell, in the form that does not cancel where left = right.
        root = torch.sqrt(left**2 + share * (right**2 - left**2))
        return grid[cell] + share * (left + right) / (left + root) * (grid[1] - grid[0])

    def cumulative(self, x: Tensor, temperature: float = 1.0) -> Tensor:
        """The distribution function of one coordinate at ``x``, any shape, float64 (bin masses are its differences)."""
        grid, density, cumulative = self._table(temperature, x.device)
        place = ((x.to(torch.float64) - grid[0]) / (grid[1] - grid[0])).clamp(0, _CELLS)
        cell = place.long().clamp_(max=_CELLS - 1)
        part, left, right = place - cell, density[cell], density[cell + 1]
        share = part * (2 * left + part * (right - left)) / (left + right).clamp(min=1e-300)
        return cumulative[cell] + share * (cumulative[cell + 1] - cumulative[cell])

    def _table(self, temperature: float, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Grid, density up to a factor and distribution function, ``[cells + 1]`` each."""
        temperature = positive_temperature(temperature)
        width = self.reach
        low, high = -width, width
        for _ in range(4):  # the first passes find where the density lives, the last is as fine as that allows
            grid = torch.linspace(low, high, 2 * _CELLS + 1, dtype=torch.float64)
            energy = self.energy(grid) / temperature
            while min(energy[0], energy[-1]) - energy.min() < _NEGLIGIBLE:
                width *= 2
                low, high = -width, width
                grid = torch.linspace(low, high, 2 * _CELLS + 1, dtype=torch.float64)
                energy = self.energy(grid) / temperature
            inside = torch.nonzero(energy - energy.min() < _NEGLIGIBLE)
            low, high = grid[inside[0] - 1].item(), grid[inside[-1] + 1].item()
        density = torch.exp(energy.min() - energy)
        masses = density[:-1:2] + 4 * density[1::2] + density[2::2]
        cumulative = torch.cat((masses.new_zeros(1), masses.cumsum(0)))
        return grid[::2].to(device), density[::2].to(device), (cumulative / cumulative[-1]).to(device)


class DoubleWell(Independent):
    """U(x) = (x + 4)(x + 1)(x − 1)(x − 3)/14 + ½, one coordinate (AMAGOLD, section 5 and Fig. 1).

    At T = 1: Z = 28.0224, mean −2.14796, variance 2.86177, P(x < 0) = .87122. AMAGOLD's experiments have
    ``noise=1``. Chains start at x = 0, between the wells, as in the authors' code.
    """

    reach = 4.0

    def __init__(self, noise: float = 0.0):
        super().__init__(1, noise)

    def energy(self, x: Tensor) -> Tensor:
        return (x + 4) * (x + 1) * (x - 1) * (x - 3) / 14 + 0.5

    def _slope(self, theta: Tensor) -> Tensor:
        return (((4 * theta + 3) * theta - 26) * theta - 1) / 14

    def initial(self, chains: int | range, random: Random) -> Tensor:
        """x = 0 in every chain."""
        return torch.zeros_like(self._normal(chains, random))


class Quartic(Independent):
    """U(θ) = Σ_i x_i⁴/4 + cubic · x_i³/3 + x_i²/2 + linear · x_i, independent coordinates.

    With the default cubic term it is convex but not symmetric and its tails are lighter than
    Gaussian: what the tests of exactness need. ``cubic=0`` is the symmetric x⁴/4 + x²/2. It is
    not convex where |cubic| > √3, and has two wells where |cubic| > 2 (``linear=0``). Chains
    start from independent standard normals.
    """

    def __init__(self, dim: int = 1, noise: float = 0.0, cubic: float = 1.0, linear: float = 0.0):
        super().__init__(dim, noise)
        self.cubic, self.linear = number("cubic", cubic), number("linear", linear)
        for setting, value in (("cubic", self.cubic), ("linear", self.linear)):
            if not math.isfinite(value):
                raise SettingError(setting, value, "must be a finite number")
        self.reach = 1 + max(1.0, abs(self.cubic), abs(self.linear))  # Cauchy's bound for the roots of the slope

    def energy(self, x: Tensor) -> Tensor:
        return x * (self.linear + x * (1 / 2 + x * (self.cubic / 3 + x / 4)))

    def _slope(self, theta: Tensor) -> Tensor:
        return ((theta + self.cubic) * theta + 1) * theta + self.linear

    def initial(self, chains: int | range, random: Random) -> Tensor:
        """Independent standard normals: further out, a step size that is right in the middle is unstable."""
        return self._normal(chains, random)


class Banana(Analytic):
    """AMAGOLD's Dist1: z₂ ~ N(0, 4), z₁ | z₂ ~ N(z₂²/4, 1); 4 and 1 are variances.

    U = −log density = (z₁ − z₂²/4)²/2 + z₂²/8 + log 4π, with θ = (z₁, z₂). At temperature T both
    variances are multiplied by T: E z₁ = T, Var z₁ = T + 2T², Var z₂ = 4T, Cov(z₁, z₂) = 0.
    """

    def __init__(self, noise: float = 0.0):
        super().__init__(2, noise)

    def potential(self, theta: Tensor) -> Tensor:
        """U = −log density, ``[chains]`` float64."""
        first, second = theta.to(torch.float64).unbind(-1)
        return (first - second**2 / 4) ** 2 / 2 + second**2 / 8 + math.log(4 * math.pi)

    def _slope(self, theta: Tensor) -> Tensor:
        first, second = theta.unbind(-1)
        away = first - second**2 / 4
        return torch.stack((away, (0.5 - away) * second / 2)).mT

    def exact(self, chains: int | range, random: Random, temperature: float = 1.0) -> Tensor:
        """Draws of exp(−U/T): z₂, then z₁ given z₂ (whose normaliser does not depend on z₂)."""
        first, second = (self._normal(chains, random) * math.sqrt(positive_temperature(temperature))).unbind(-1)
        return torch.stack((first + second**2, 2 * second), -1)


class Mixture(Analytic):
    """AMAGOLD's Dist2: ½ N(0, [[2, 1.8], [1.8, 2]]) + ½ N(0, [[2, −1.8], [−1.8, 2]]).

    With a = 1.8 x y/.76 (.76 = 2² − 1.8² is the determinant of both covariances) the two exponents are
    −(x² + y²)/.76 ± a, so U = −log density = (x² + y²)/.76 − log cosh a + log 2π√.76.
    """

    determinant = 0.76

    def __init__(self, noise: float = 0.0):
        super().__init__(2, noise)

    def potential(self, theta: Tensor) -> Tensor:
        """U = −log density, ``[chains]`` float64."""
        theta = theta.to(torch.float64)
        squares = theta.square().sum(-1) / self.determinant
        return squares - _log_cosh(self._contrast(theta)) + math.log(2 * math.pi * math.sqrt(self.determinant))

    def _contrast(self, theta: Tensor) -> Tensor:
        return theta.prod(-1) * (1.8 / self.determinant)

    def _slope(self, theta: Tensor) -> Tensor:
        pull = torch.tanh(self._contrast(theta)).mul(1.8).unsqueeze(-1)
        return (2 * theta - pull * theta.flip(-1)) / self.determinant

    def exact(self, chains: int | range, random: Random, temperature: float = 1.0) -> Tensor:
        """Draws of exp(−U/T), which for T ≠ 1 is no mixture: by rejection from the mixture of N(0, T Σ₁), N(0, T Σ₂).

        Target over proposal is proportional to cosh(a)^s/cosh(s a), s = 1/T, which runs between 1
        (at a = 0) and 2^{1−s} (as |a| grows): the acceptance is this over the larger of the two. It is
        always 1 at T = 1, and above .43 on average at every T.
        """
        scale = 1 / positive_temperature(temperature)
        chains = range(chains) if isinstance(chains, int) else chains
        waiting = torch.arange(chains.start, chains.stop, device=random.device)
        draws = torch.zeros(len(waiting), 2, dtype=torch.float64, device=random.device)
        attempt = 0
        while len(waiting):
            uniform = random.uniform("start", 2 * attempt + 1, waiting, 2)
            # Both components in their own axes: variances 3.8 along (1, ±1)/√2 and .2 across.
            along, across = self._normal(waiting, random, 2 * attempt).unbind(-1)
            along, across = along * math.sqrt(3.8 / scale / 2), across * math.sqrt(0.2 / scale / 2)
            flip = torch.where(uniform[:, 0] < 0.5, 1.0, -1.0)
            proposal = torch.stack((along + across, flip * (along - across)), -1)
            contrast = self._contrast(proposal)
            log_accept = scale * _log_cosh(contrast) - _log_cosh(scale * contrast) - max(0.0, (1 - scale) * _LOG_2)
            taken = uniform[:, 1].log() <= log_accept + 1e-13  # rounding must not reject at T = 1
            draws[waiting[taken] - chains.start] = proposal[taken]
            waiting = waiting[~taken]
            attempt += 1
        return draws


def _log_cosh(x: Tensor) -> Tensor:
    size = x.abs()
    return size + torch.log1p(torch.exp(-2 * size)) - _LOG_2


class Gaussian(Analytic):
    """N(mean, covariance): U = ½ (theta − mean)ᵀ covariance⁻¹ (theta − mean).

    ``covariance`` is a number (the variance of every coordinate), ``dim`` of them (independent
    coordinates) or a ``dim`` × ``dim`` matrix; ``mean`` is a number or ``dim`` of them. ``dim`` need
    only be given if both are numbers. SettingError if the sizes disagree or the covariance is not
    symmetric, to rounding (its lower triangle counts), and positive definite.
    """

    def __init__(
        self,
        dim: int | None = None,
        covariance: Tensor | ArrayLike = 1.0,
        mean: Tensor | ArrayLike = 0.0,
        noise: float = 0.0,
    ):
        matrix, centre = _numbers("covariance", covariance), _numbers("mean", mean)
        sizes = {len(value) for value in (matrix, centre) if value.dim()}
        super().__init__(dim if dim is not None else max(sizes, default=1), noise)
        size = self.dim
        if sizes - {size} or centre.dim() > 1 or matrix.dim() > 2 or (matrix.dim() == 2 and matrix.shape[1] != size):
            fits = centre.dim() == 0 or (centre.dim() == 1 and len(centre) == size)
            name, value = ("covariance", matrix) if fits else ("mean", centre)
            raise SettingError(name, _brief(value), f"mean and covariance must be of one size, dim={size}")
        self.diagonal = matrix.dim() < 2
        self.mean = centre.expand(size).clone()
        self._given = matrix
        if self.diagonal:
            root, valid = matrix.expand(size).sqrt(), bool((matrix > 0).all())
        else:
            root, failed = torch.linalg.cholesky_ex(matrix)
            valid, scale = not failed, matrix.diagonal().abs().sqrt()
            if bool(((matrix - matrix.T).abs() > 1e-12 * torch.outer(scale, scale)).any()):
                mend = "must be symmetric: where only float32's rounding makes C another than C.T, give (C + C.T)/2"
                raise SettingError("covariance", _brief(matrix), mend)
        if not valid:
            raise SettingError("covariance", _brief(matrix), "must be symmetric and positive definite")
        precision = root**-2 if self.diagonal else torch.cholesky_inverse(root)
        self._mean, self._precision, self._root = Constant(self.mean), Constant(precision), Constant(root)

    @property
    def covariance(self) -> Tensor:
        """The whole matrix, float64 ``[dim, dim]``."""
        return torch.diag(self._given.expand(self.dim)) if self.diagonal else self._given

    def _slope(self, theta: Tensor) -> Tensor:
        away, precision = theta - self._mean.like(theta), self._precision.like(theta)
        return away * precision if self.diagonal else away @ precision

    def potential(self, theta: Tensor) -> Tensor:
        """U, the quadratic form without the normaliser, ``[chains]`` float64."""
        theta = theta.to(torch.float64)
        return ((theta - self._mean.like(theta)) * self._slope(theta)).sum(-1) / 2

    def exact(self, chains: int | range, random: Random, temperature: float = 1.0) -> Tensor:
        """Draws of N(mean, T covariance)."""
        normal = self._normal(chains, random) * math.sqrt(positive_temperature(temperature))
        root = self._root.like(normal)
        return self._mean.like(normal) + (normal * root if self.diagonal else normal @ root.T)

    def initial(self, chains: int | range, random: Random) -> Tensor:
        """Independent normals about the mean with twice the standard deviations: improbable where correlated."""
        normal = self._normal(chains, random)
        variances = self._given.expand(self.dim) if self.diagonal else self._given.diagonal()
        spread = 2 * variances.sqrt()
        return self._mean.like(normal) + normal * spread.to(normal.device)


class GaussianPairs(Gaussian):
    """Neal's bivariate Gaussian, variances 1 and covariance .99, replicated ``pairs`` times: dim = 2 pairs.

    Coordinates 2j and 2j + 1 are a pair. Every pair starts at ``start`` (two numbers; the talk starts
    in a region of low probability, [−1.5, 1.5] is one such point), or by default at independent normals
    of standard deviation 2.
    """

    def __init__(self, pairs: int = 1, noise: float = 0.0, start: Sequence[float] | None = None):
        pairs = whole("pairs", pairs, 1)
        pair = torch.tensor([[1.0, 0.99], [0.99, 1.0]], dtype=torch.float64)
        super().__init__(None, torch.kron(torch.eye(pairs, dtype=torch.float64), pair), 0.0, noise)
        self.start = None if start is None else _numbers("start", start)
        if self.start is not None and self.start.shape != (2,):
            raise SettingError("start", start, "must be two numbers, where every pair starts")

    def initial(self, chains: int | range, random: Random) -> Tensor:
        """``start`` in every pair of every chain, or independent normals of standard deviation 2."""
        dispersed = super().initial(chains, random)
        return (
            dispersed if self.start is None else self.start.to(dispersed.device).repeat(len(dispersed), self.dim // 2)
        )


def _numbers(setting: str, value) -> Tensor:
    """A float64 tensor of a finite number, of (nested) sequences of them, or of a tensor."""
    try:
        numbers = torch.as_tensor(value, dtype=torch.float64, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        numbers = torch.empty(0)
    if not numbers.numel():
        raise SettingError(setting, value, "must be a number or (nested) lists of numbers")
    if not bool(numbers.isfinite().all()):
        raise SettingError(setting, _brief(numbers), "must be finite numbers")
    return numbers


def _brief(value: Tensor) -> float | list | str:
    return value.tolist() if value.numel() <= 16 else f"{list(value.shape)} numbers"


class FunctionPotential(Analytic):
    """A target that is just a function: U = ``function(theta)`` of one vector ``[dim]``, a scalar tensor.

    The gradient is automatic, and many chains are one batch (``torch.func.vmap``), so the function is
    made of torch operations without branches on values; it meets float64 vectors (U) and vectors of
    the chain's dtype (gradient), so its constants must follow: ``matrix.to(theta)``. Chains start from
    independent standard normals. SettingError if the function cannot be evaluated so.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], dim: int, noise: float = 0.0):
        super().__init__(dim, noise)
        self.function = function
        self._energies = torch.func.vmap(function)
        self._slope = torch.func.vmap(torch.func.grad(function))
        name = getattr(function, "__name__", repr(function))
        need = (
            f"must map a vector of {dim}, float32 or float64 (so constants are matrix.to(theta)), to a scalar by torch"
        )
        for dtype in (torch.float64, torch.float32):
            try:
                with unbroken():  # torch's first derivative imports much
                    self._energies(torch.zeros(2, self.dim, dtype=dtype))
                    self._slope(torch.zeros(2, self.dim, dtype=dtype))  # torch refuses what is no scalar
            except Exception as error:  # whatever a user's function raises
                reason = str(error).strip().split("\n")[0]
                if "within the support" in reason:  # torch.distributions'
                    reason = "torch.distributions raise outside of their support, where U is infinite: give them"
                    reason += " validate_args=False"
                raise SettingError("function", name, f"{need}; with {dtype} it fails: {reason}") from error

    def potential(self, theta: Tensor) -> Tensor:
        """U, ``[chains]`` float64."""
        with torch.no_grad():
            return self._energies(theta.to(torch.float64)).to(torch.float64)

    def initial(self, chains: int | range, random: Random) -> Tensor:
        """Independent standard normals."""
        return self._normal(chains, random)
