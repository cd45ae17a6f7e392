"""Bayesian regressions: logistic, linear with a known posterior, and Neal's with variance hyperparameters.

U(θ) = −log p(targets | θ) − log p(θ), normalisers included, so that exp(−U) is the joint density; it is summed in
float64 whatever the dtype of ``theta``, which the gradient has. Estimates from a batch are without bias if every datum
is equally likely to be drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from scipy.special import gammaincinv, gammaln
from torch import Tensor

from sgmcmc.arguments import number, tensor, whole
from sgmcmc.data import Dataset
from sgmcmc.errors import SettingError, few
from sgmcmc.potentials.analytic import Constant, positive_temperature
from sgmcmc.random import Random

_ENTRIES = 1 << 23  # of the [chains, N] matrix that is held at a time


class _Regression:
    """The sums over data that the regressions share; ``design`` is ``[N, p]``, ``targets`` ``[N]``."""

    def __init__(self, design: Tensor, targets: Tensor):
        """Raises SettingError where the two are not that, or hold what is no number."""
        _check("inputs", design, 2, "a column a feature")
        _check("targets", targets, 1, "a number an input")
        if not design.numel():
            raise SettingError("inputs", list(design.shape), "are no data")
        if len(design) != len(targets):
            raise SettingError("targets", list(targets.shape), f"must be [{len(design)}], a number an input")
        self._design, self._targets = Constant(design), Constant(targets)
        self.data_size = len(targets)

    def _sum_losses(self, coefficients: Tensor, loss) -> Tensor:
        """Σ_i loss(x_i · coefficients, y_i), ``[chains]`` float64."""
        design = self._design.like(coefficients, torch.float64)
        targets = self._targets.like(coefficients, torch.float64)
        parts = coefficients.to(torch.float64).split(max(1, _ENTRIES // self.data_size))
        return torch.cat([loss(part @ design.T, targets).sum(-1) for part in parts])

    def _losses(self, coefficients: Tensor, batch: Tensor, loss) -> Tensor:
        """loss(x_i · coefficients, y_i) of the data ``batch`` ``[chains, B]``, ``[chains, B]`` float64."""
        design = self._design.like(coefficients, torch.float64)
        targets = self._targets.like(coefficients, torch.float64)
        rows = design.index_select(0, batch.flatten()).view(*batch.shape, -1)
        values = torch.bmm(rows, coefficients.to(torch.float64).unsqueeze(-1)).squeeze(-1)
        return loss(values, targets.index_select(0, batch.flatten()).view_as(values))

    def _sum_slopes(self, coefficients: Tensor, batch: Tensor | None, slope) -> Tensor:
        """Σ_i slope(x_i · coefficients, y_i) x_i, or its estimate from ``batch``, ``[chains, p]``."""
        design, targets = self._design.like(coefficients), self._targets.like(coefficients)
        if batch is None:
            parts = coefficients.split(max(1, _ENTRIES // self.data_size))
            return torch.cat([slope(part @ design.T, targets) @ design for part in parts])
        flat = batch.flatten()
        rows = design.index_select(0, flat).view(*batch.shape, -1)
        values = torch.bmm(rows, coefficients.unsqueeze(-1)).squeeze(-1)
        slopes = slope(values, targets.index_select(0, flat).view_as(values))
        return torch.bmm(slopes.unsqueeze(1), rows).squeeze(1) * (self.data_size / batch.shape[-1])


class LogisticRegression(_Regression):
    """Bayesian logistic regression: P(y = 1 | x, θ) = 1/(1 + exp(−θ · (1, x))), θ ~ N(0, prior_variance I).

    The first coordinate of θ is the intercept, so dim = features + 1 (Australian: 15, Heart: 14).
    ``standardise`` centres and scales the features by the training set's means and standard deviations
    (a constant column becomes 0). The two classes may have any labels, of which the larger becomes 1;
    labels that are 0 and 1 stay, and one of the two may be missing. SettingError for three or more, and for data with a
    ``mean``: columns are standardised here, or go in as they are.

    ``inputs`` and ``targets`` are the data as given, features not yet standardised (float64 ``[n, features]``), targets
    as 0 and 1 (int64 ``[n]``). ``test`` is in no U; one of the two labels may be in it alone.

    Where AMAGOLD (section 6.2) does not say, the defaults follow the tradition of Girolami and
    Calderhead (2011): standardised columns, prior variance 100 for the intercept too.
    """

    def __init__(
        self, train: Dataset, prior_variance: float = 100.0, standardise: bool = True, test: Dataset | None = None
    ):
        self.prior_variance = _positive("prior_variance", prior_variance)
        for name, part, kinds in (("data", train, Dataset), ("test", test, Dataset | None)):
            if not isinstance(part, kinds):
                raise SettingError(name, type(part).__name__, "must be an sgmcmc.Dataset(inputs, targets, classes)")
        labels = torch.unique(torch.cat([part.targets.cpu() for part in (train, test) if part is not None])).tolist()
        if not set(labels) <= {0, 1} and len(labels) != 2:
            name = train.name or "the training set"
            raise SettingError("data", name, f"has {len(labels)} classes; logistic regression needs data of two")
        for name, part in (("inputs", train), ("inputs of test", test)):
            if part is not None:
                self._check_columns(name, part, train)
        self.inputs = train.inputs.to(torch.float64)
        one = 1 if set(labels) <= {0, 1} else max(labels)
        self.train, self.test = (  # what is predicted where no settings name the data
            None if part is None else replace(part, targets=(part.targets == one).to(torch.int64))
            for part in (train, test)
        )
        self.targets = self.train.targets
        centre = torch.zeros_like(self.inputs[0])
        scale = torch.ones_like(centre)
        if standardise:
            centre = self.inputs.mean(0)
            varies = self.inputs.amax(0) > self.inputs.amin(0)
            scale = torch.where(varies, self.inputs.std(0, correction=0), scale)
            centre = torch.where(varies, centre, self.inputs[0])  # the mean of equal numbers may round
            if odd := (~(scale.isfinite() & (1 / scale).isfinite())).nonzero().flatten().tolist():
                raise SettingError("inputs", f"columns {few(odd)}", "are too large or too small to be standardised")
        self._centre, self._scale = Constant(centre), Constant(scale)
        super().__init__(self._columns(self.inputs), self.targets)
        self.dim = self.inputs.shape[1] + 1

    @staticmethod
    def _check_columns(name: str, data: Dataset, train: Dataset) -> None:
        """Refuse what has not the columns of the training data, no data, and a normalisation that is not used."""
        shape = list(data.inputs.shape)
        if data.inputs.ndim != 2:
            raise SettingError(name, shape, "must be columns, [N, features]")
        if shape[1:] != list(train.inputs.shape[1:]):
            raise SettingError(name, shape, f"must have the {train.inputs.shape[1]} columns of train")
        if not data.inputs.numel():
            raise SettingError(name, shape, "are no data")
        if data.mean is not None:
            mend = "is not used: leave mean and std out, columns are standardised here (standardise=True)"
            raise SettingError("mean", data.mean.tolist(), mend)

    @property
    def column_scale(self) -> Tensor:
        """What the columns of the inputs are divided by, float64 ``[features]``."""
        return self._scale.value

    def _columns(self, inputs: Tensor) -> Tensor:
        features = (inputs - self._centre.like(inputs)) / self._scale.like(inputs)
        return torch.cat((torch.ones_like(features[:, :1]), features), 1)

    def potential(self, theta: Tensor) -> Tensor:
        """U = Σ_i log(1 + exp(∓θ · x_i)) + |θ|²/(2 v) + (dim/2) log(2πv), ``[chains]`` float64."""
        return self._sum_losses(theta, _cross_entropy) + self.prior(theta)

    def prior(self, theta: Tensor) -> Tensor:
        """|θ|²/(2 v) + (dim/2) log(2πv), ``[chains]`` float64."""
        return _normal_energy(theta, self.prior_variance)

    def losses(self, theta: Tensor, batch: Tensor) -> Tensor:
        """log(1 + exp(∓θ · x_i)) of the data ``batch`` ``[chains, B]``, ``[chains, B]`` float64."""
        return self._losses(theta, batch, _cross_entropy)

    def gradient(self, theta: Tensor, batch: Tensor | None = None) -> Tensor:
        """Σ_i (P(1 | x_i) − y_i) x_i + θ/v, or its minibatch estimate."""
        return self._sum_slopes(theta, batch, _excess) + theta / self.prior_variance

    def potential_and_gradient(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """``potential(theta), gradient(theta)``; for float64 ``theta`` from one product with the data."""
        if theta.dtype != torch.float64:  # U must be summed in float64, the gradient has the dtype of theta
            return self.potential(theta), self.gradient(theta)
        design, targets = self._design.like(theta), self._targets.like(theta)
        losses, slopes = [], []
        for part in theta.split(max(1, _ENTRIES // self.data_size)):
            logit = part @ design.T
            losses.append(_cross_entropy(logit, targets).sum(-1))
            slopes.append(_excess(logit, targets) @ design)
        energy = torch.cat(losses) + self.prior(theta)
        return energy, torch.cat(slopes) + theta / self.prior_variance

    def predict(self, theta: Tensor, inputs: Tensor) -> Tensor:
        """P(class | x, θ), ``[chains, n, 2]`` float64, of ``inputs[n, features]`` as the data set has them.

        In float32 log-odds beyond 17 would be probabilities of 1. Raises SettingError for other columns.
        """
        if inputs.ndim != 2 or inputs.shape[1] != self.inputs.shape[1]:  # a single one would broadcast
            raise SettingError("inputs", list(inputs.shape), f"must have the {self.inputs.shape[1]} columns of train")
        logit = theta.double() @ self._columns(inputs.to(theta.device, torch.float64)).T
        return torch.sigmoid(torch.stack((-logit, logit), -1))

    def initial(self, chains: int | range, random: Random) -> Tensor:
        """Independent standard normals, wider than the posterior of standardised data that are not few."""
        return random.normal("start", 0, 1, chains, self.dim, torch.float64)[0]


def _cross_entropy(logit: Tensor, y: Tensor) -> Tensor:
    # The default threshold of 20 would drop exp(−20) of every datum and make U jump.
    return torch.nn.functional.softplus((1 - 2 * y) * logit, threshold=40)


def _excess(logit: Tensor, y: Tensor) -> Tensor:
    """Its derivative: the probability of class 1 minus y."""
    return torch.sigmoid(logit) - y


def _square(mean: Tensor, y: Tensor) -> Tensor:
    return (mean - y) ** 2


def _residual(mean: Tensor, y: Tensor) -> Tensor:
    return mean - y


class GeneratedLogistic(LogisticRegression):
    """Logistic regression on ``size`` data of its own, where a set of any size is wanted.

    x ~ N(0, I) with ``features`` columns, P(y = 1 | x) = 1/(1 + exp(−β · x)), β ~ N(0, I), from the "split"
    numbers of seed 2020.
    """

    def __init__(self, size: int = 10_000, features: int = 10, prior_variance: float = 100.0):
        random, inputs, beta = _generated(size, features)
        targets = (random.uniform("split", 2, len(inputs))[:, 0] < (inputs @ beta).sigmoid()).to(torch.int64)
        super().__init__(Dataset(inputs, targets, 2), prior_variance)
        self.beta = beta

    def initial(self, chains: int | range, random: Random) -> Tensor:
        """Normals of standard deviation 10/√N about (0, β), wider than the posterior."""
        centre = torch.cat((torch.zeros(1, dtype=torch.float64), self.beta))
        normal = super().initial(chains, random)
        return centre.to(normal) + 10 / math.sqrt(self.data_size) * normal


class LinearRegression(_Regression):
    """y_i ~ N(x_i · θ, noise_variance), θ ~ N(0, prior_variance I), both variances known.

    ``inputs`` is ``[N, dim]`` (with a column of ones if there is to be an intercept), ``targets`` ``[N]``.
    The posterior is normal: precision XᵀX/noise_variance + I/prior_variance, attributes
    ``posterior_mean`` ``[dim]`` and ``posterior_covariance`` ``[dim, dim]``, float64.
    """

    def __init__(self, inputs: Tensor, targets: Tensor, noise_variance: float = 1.0, prior_variance: float = 1.0):
        self.noise_variance = _positive("noise_variance", noise_variance)
        self.prior_variance = _positive("prior_variance", prior_variance)
        super().__init__(inputs, targets)
        design, targets = inputs.to(torch.float64), targets.to(torch.float64)
        self.dim = design.shape[1]
        # The precision is RᵀR. To make it of XᵀX would cost half of the digits where columns are nearly others' sums.
        rows = torch.cat((design / self.noise_variance**0.5, torch.eye(self.dim).to(design) / self.prior_variance**0.5))
        rotation, triangle = torch.linalg.qr(rows)
        if not bool((triangle.diagonal().abs() > 1e-12 * rows.norm(dim=0)).all()):
            mend = "have a posterior beyond float64: leave out sums of other columns, or give less prior_variance"
            raise SettingError("inputs", list(design.shape), mend)
        factor = (triangle * triangle.diagonal().sign()[:, None]).T  # Cholesky's
        self.posterior_covariance = torch.cholesky_inverse(factor)
        projected = rotation[: self.data_size].T @ targets / self.noise_variance**0.5
        self.posterior_mean = torch.linalg.solve_triangular(triangle, projected[:, None], upper=True)[:, 0]
        self._mean, self._factor = Constant(self.posterior_mean), Constant(factor)

    def potential(self, theta: Tensor) -> Tensor:
        """U = |y − X θ|²/(2 σ²) + |θ|²/(2 v) + (N/2) log(2πσ²) + (dim/2) log(2πv), ``[chains]`` float64."""
        squares = self._sum_losses(theta, _square)
        constant = self.data_size / 2 * math.log(2 * math.pi * self.noise_variance)
        return squares / (2 * self.noise_variance) + constant + self.prior(theta)

    def prior(self, theta: Tensor) -> Tensor:
        """|θ|²/(2 v) + (dim/2) log(2πv), ``[chains]`` float64."""
        return _normal_energy(theta, self.prior_variance)

    def losses(self, theta: Tensor, batch: Tensor) -> Tensor:
        """(y_i − x_i · θ)²/(2 σ²) + ½ log(2πσ²) of the data ``batch`` ``[chains, B]``, ``[chains, B]`` float64."""
        squares = self._losses(theta, batch, _square)
        return squares / (2 * self.noise_variance) + math.log(2 * math.pi * self.noise_variance) / 2

    def gradient(self, theta: Tensor, batch: Tensor | None = None) -> Tensor:
        """Xᵀ(X θ − y)/σ² + θ/v, or its minibatch estimate."""
        slopes = self._sum_slopes(theta, batch, _residual)
        return slopes / self.noise_variance + theta / self.prior_variance

    def exact(self, chains: int | range, random: Random, temperature: float = 1.0) -> Tensor:
        """Draws of exp(−U/T) = N(posterior_mean, T posterior_covariance), ``[chains, dim]`` float64."""
        normal = random.normal("start", 0, 1, chains, self.dim, torch.float64)[0]
        normal = normal * math.sqrt(positive_temperature(temperature))
        factor = self._factor.like(normal)  # precision = factor factorᵀ, so factor⁻ᵀ ε has the covariance
        return self._mean.like(normal) + torch.linalg.solve_triangular(factor.T, normal.T, upper=True).T

    def initial(self, chains: int | range, random: Random) -> Tensor:
        """Draws of the prior."""
        return math.sqrt(self.prior_variance) * random.normal("start", 0, 1, chains, self.dim, torch.float64)[0]


class HierarchicalRegression(_Regression):
    """Neal's regression with variance hyperparameters, for samplers that mix Gibbs updates with Langevin ones.

        y_i | x_i, β, σ² ~ N(β · x_i, σ²),     β | τ² ~ N(0, τ² I),
        τ² ~ InverseGamma(tau_prior),     σ² ~ InverseGamma(sigma_prior),  both (shape, scale).

    θ = (β, log τ², log σ²), dim = p + 2. U is the negative logarithm of the joint density **in
    these coordinates**: with every normaliser that depends on the variances, and with the Jacobian
    of the logarithms, −log τ² − log σ².

    Only β moves by drift and kick: ``moves`` (bool ``[dim]``) is False for the two log variances, and
    their components of ``gradient`` are 0, not those of U. They change in ``gibbs``, between trajectories;
    U and the gradient must be computed again after it.

    The Gibbs update at temperature T. In s = log τ² the terms of U that depend on s are
    (p/2 + shape) s + (scale + |β|²/2) e^{−s}: p/2 from the normaliser of β's prior, shape + 1 from the
    inverse gamma's density, −1 from the Jacobian. With w = e^{−s} = 1/τ² and ds = dw/w,

        exp(−U/T) ds  ∝  w^{A − 1} e^{−B w} dw,     A = (p/2 + shape)/T,     B = (scale + |β|²/2)/T,

    so 1/τ² is a Gamma(A, rate B) at every T; likewise 1/σ² with N/2 for p/2 and the squared residuals
    for |β|². Had U been given in τ² itself, A would be (p/2 + shape + 1)/T − 1: at T ≠ 1 the
    parametrisation is part of the target. Given β the two are independent, so both are drawn at once.

    Without ``inputs`` [N, p] and ``targets`` [N] the data are an illustration's own, made by the model:
    x ~ N(0, I), β ~ N(0, I), σ = ½, ``size`` = 100 points of ``features`` = 10, from the "split"
    numbers of seed 2020. Source: Neal (talk, 2020), "Advantage for Models with Variance
    Hyperparameters", which leaves the priors of the variances open; (2, 1) is the choice made here.
    """

    def __init__(
        self,
        inputs: Tensor | None = None,
        targets: Tensor | None = None,
        size: int = 100,
        features: int = 10,
        tau_prior: Sequence[float] = (2.0, 1.0),
        sigma_prior: Sequence[float] = (2.0, 1.0),
    ):
        self.tau_prior = _shape_and_scale("tau_prior", tau_prior)
        self.sigma_prior = _shape_and_scale("sigma_prior", sigma_prior)
        if inputs is None and targets is None:
            inputs, targets = _illustration(size, features)
        super().__init__(inputs, targets)
        self.features = inputs.shape[1]
        self.dim = self.features + 2
        self.moves = torch.arange(self.dim) < self.features

    def potential(self, theta: Tensor) -> Tensor:
        """U = −log p(y, β, log τ², log σ²), ``[chains]`` float64."""
        theta = theta.to(torch.float64)
        energy = 0.0
        for log_variance, (shape, scale), count, squares in self._terms(theta):
            energy = energy + (shape + count / 2) * log_variance + (scale + squares / 2) * torch.exp(-log_variance)
            energy = energy + count / 2 * math.log(2 * math.pi) + math.lgamma(shape) - shape * math.log(scale)
        return energy

    def _terms(self, theta: Tensor):
        """Of τ² and of σ²: its logarithm, prior, how many normals have it as variance, their sum of squares."""
        beta = theta[:, :-2]
        residuals = self._sum_losses(beta, _square)
        yield theta[:, -2], self.tau_prior, self.features, beta.to(torch.float64).square().sum(-1)
        yield theta[:, -1], self.sigma_prior, self.data_size, residuals

    def gradient(self, theta: Tensor, batch: Tensor | None = None) -> Tensor:
        """Xᵀ(X β − y)/σ² + β/τ², or its minibatch estimate, and 0 for both log variances."""
        beta, log_tau2, log_sigma2 = theta[:, :-2], theta[:, -2:-1], theta[:, -1:]
        slopes = self._sum_slopes(beta, batch, _residual)
        moving = slopes * torch.exp(-log_sigma2) + beta * torch.exp(-log_tau2)
        return torch.cat((moving, torch.zeros_like(theta[:, -2:])), 1)

    def gibbs(
        self, theta: Tensor, temperature: float | Tensor, random: Random, trajectory: int, chains: int | range | Tensor
    ) -> Tensor:
        """θ with both log variances drawn from exp(−U/T) given β (at T = 0 their minimisers); new tensor.

        By inversion of the gamma distribution function of one uniform each, the numbers of
        (stream "gibbs", ``trajectory``, chain). ``temperature`` may be a tensor ``[chains]``.
        """
        uniform = random.uniform("gibbs", trajectory, chains, 2).cpu().numpy()
        temperature = np.asarray(torch.as_tensor(temperature, dtype=torch.float64).cpu())
        drawn = []
        for column, (_, (shape, scale), count, squares) in enumerate(self._terms(theta)):
            shape, rate = shape + count / 2, scale + squares.cpu().numpy() / 2
            drawn.append(np.log(rate) - _log_gamma_draw(uniform[:, column], shape, temperature))
        logs = torch.from_numpy(np.stack(drawn, 1)).to(theta)
        return torch.cat((theta[:, :-2], logs), 1)

    def initial(self, chains: int | range, random: Random) -> Tensor:
        """Independent standard normals, log variances too."""
        return random.normal("start", 0, 1, chains, self.dim, torch.float64)[0]


def _log_gamma_draw(uniform: np.ndarray, shape: float, temperature: np.ndarray) -> np.ndarray:
    """log(T g), g ~ Gamma(shape/T, rate 1), of one uniform each; log(shape) at T = 0, its limit."""
    heat = np.where(temperature > 0, temperature, 1.0)
    gamma = gammaincinv(shape / heat, uniform)
    # Far in the lower tail of a small shape g underflows, and its distribution function is g^A/Γ(A + 1).
    tail = (np.log(uniform) + gammaln(shape / heat + 1)) * heat / shape
    log_draw = np.where(gamma > 1e-290, np.log(np.maximum(gamma, 1e-290)), tail)
    return np.where(temperature > 0, log_draw + np.log(heat), np.log(shape))


def _shape_and_scale(setting: str, numbers: Sequence[float]) -> tuple[float, float]:
    if len(numbers) != 2:
        raise SettingError(setting, list(numbers), "must be two positive numbers, shape and scale")
    first, second = (_positive(setting, one) for one in numbers)
    return first, second


def _generated(size: int, features: int) -> tuple[Random, Tensor, Tensor]:
    """Inputs ``[size, features]`` and coefficients ``[features]``, all N(0, 1), of the "split" numbers of seed 2020."""
    size, features, random = whole("size", size, 1), whole("features", features, 1), Random(2020)
    inputs = random.normal("split", 0, 1, size, features, torch.float64)[0]
    return random, inputs, random.normal("split", 1, 1, 1, features, torch.float64)[0, 0]


def _illustration(size: int, features: int) -> tuple[Tensor, Tensor]:
    """The data set of HierarchicalRegression's docstring: inputs ``[size, features]``, targets ``[size]``."""
    random, inputs, beta = _generated(size, features)
    return inputs, inputs @ beta + 0.5 * random.normal("split", 2, 1, len(inputs), 1, torch.float64)[0, :, 0]


def _check(name: str, given, rank: int, what: str) -> None:
    """Refuse what is no tensor of this rank, and NaN and infinities in it."""
    if tensor(name, given).ndim != rank:
        raise SettingError(name, list(given.shape), f"must have {rank} dimension{'s' if rank > 1 else ''}: {what}")
    if not bool(given.isfinite().all()):
        raise SettingError(name, "NaN or infinite", "leave these data out")


def _normal_energy(theta: Tensor, variance: float) -> Tensor:
    """−log N(θ; 0, variance I), ``[chains]`` float64."""
    squares = theta.to(torch.float64).square().sum(-1)
    return squares / (2 * variance) + theta.shape[-1] / 2 * math.log(2 * math.pi * variance)


def _positive(setting: str, value: float) -> float:
    if not 0 < number(setting, value) < math.inf:
        raise SettingError(setting, value, "must be a positive number")
    return float(value)
