"""What the certificate holds the sampler against: a second evaluation in NumPy that shares no code with the first.

Targets (U, gradient, exact draws, moments), the letters of a trajectory, its path, the ratio of the path's densities
forwards and backwards, and linear theory. Everything is float64; θ, m and noises are arrays ``[chains, dim]``.

A *program* is the list of a trajectory's letters with their numbers: ``("A", h)``, ``("B", h)``, ``("O", c)``,
``("E", (h, c))``. Adjacent O's are one. The letters are those of ``sgmcmc.words`` and of the papers:

    A   θ ← θ + h M⁻¹ m                            O   m ← c m + √((1 − c²) T) M^½ ε
    B   m ← m − h ∇Ũ                               E   m ← c m − h ∇Ũ + √(2 (1 − c) T) M^½ ε,   c = 1 − γh
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

# -- targets ---------------------------------------------------------------------------------------------------


class Quartic:
    """U = x⁴/4 + cubic x³/3 + x²/2 of one coordinate; a batch is noise that is added to the gradient."""

    dim = 1

    def __init__(self, cubic: float = 1.0):
        self.cubic = cubic

    def energy(self, theta):
        x = theta[:, 0]
        return x**4 / 4 + self.cubic * x**3 / 3 + x**2 / 2

    def gradient(self, theta, batch=None):
        slope = theta**3 + self.cubic * theta**2 + theta
        return slope if batch is None else slope + batch

    def _density(self, temperature):
        x = np.linspace(-9.0, 9.0, 40001)
        weight = np.exp(-self.energy(x[:, None]) / temperature)
        return x, weight / weight.sum()

    def draw(self, size, temperature, rng):
        """Independent draws of exp(−U/T), by inversion of the distribution function on a grid."""
        x, weight = self._density(temperature)
        cumulative = np.cumsum((weight + np.roll(weight, 1)) / 2)
        return np.interp(rng.random(size), cumulative / cumulative[-1], x)[:, None]

    def moments(self, temperature):
        """E θ^k, k = 0 … 8, ``[9, dim]``."""
        x, weight = self._density(temperature)
        return np.array([[(weight * x**k).sum()] for k in range(9)])


class FourData:
    """Bayesian logistic regression (intercept and slope, prior N(0, variance I)) on four unlike data.

    U = Σ_i [log(1 + e^{z_i}) − y_i z_i] + |θ|²/(2 variance), z_i = θ₀ + θ₁ x_i; a batch is indices of data.
    """

    dim = 2
    x, y, variance = np.array([4.0, 0.5, -1.0, 2.0]), np.array([1, 0, 1, 0]), 1.0

    def energy(self, theta):
        z = theta[:, :1] + theta[:, 1:] * self.x
        return (np.logaddexp(0, z) - self.y * z).sum(1) + (theta**2).sum(1) / (2 * self.variance)

    def gradient(self, theta, batch=None):
        index = np.arange(4)[None] if batch is None else batch
        x, y = self.x[index], self.y[index]
        excess = 1 / (1 + np.exp(-(theta[:, :1] + theta[:, 1:] * x))) - y
        scale = 4 / index.shape[1]
        sums = np.stack([excess.sum(1), (excess * x).sum(1)], 1)
        return scale * sums + theta / self.variance

    def draw(self, size, temperature, rng):
        """Independent draws of exp(−U/T), by rejection: U − |θ − mode|²/(2 variance) is convex, least at the mode."""
        mode, spread = self._mode(), self.variance * temperature
        kept = []
        while sum(map(len, kept)) < size:
            step = rng.normal(size=(1 << 16, 2)) * math.sqrt(spread)
            excess = (self.energy(mode + step) - self.energy(mode)) / temperature - (step**2).sum(1) / (2 * spread)
            kept.append((mode + step)[np.log(rng.random(len(step))) < -excess])
        return np.concatenate(kept)[:size]

    def _mode(self):
        design, theta = np.stack([np.ones(4), self.x], 1), np.zeros((1, 2))
        for _ in range(50):  # Newton's method
            chance = 1 / (1 + np.exp(-(theta @ design.T)))
            hessian = (design.T * (chance * (1 - chance))) @ design + np.eye(2) / self.variance
            theta = theta - np.linalg.solve(hessian, self.gradient(theta)[0])
        return theta

    def moments(self, temperature):
        """E θ^k, k = 0 … 8, ``[9, dim]``: the trapezoidal rule on a plane."""
        axis = np.linspace(-9.0, 9.0, 361)
        points = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
        weight = np.exp(-self.energy(points) / temperature)
        return np.array([weight @ points**k for k in range(9)]) / weight.sum()


# -- programs --------------------------------------------------------------------------------------------------


def friction(kind: str, value: float, h: float, euler: bool) -> Callable[[float], float]:
    """Momentum decay of a step as a function of its size; ``value`` is the decay, or AMAGOLD's b, at the size h."""
    if kind == "infinite":
        return lambda step: 0.0
    if kind == "b":
        return lambda step: 1 - 2 * value * step / h if euler else (1 - value * step / h) / (1 + value * step / h)
    return lambda step: 1 - (1 - value) * step / h if euler else value ** (step / h)


def factors(schedule: str, steps: int, trajectory: int, every: int, factor: float) -> list[float]:
    """What multiplies h in each step: the square root of the factor on the learning rate."""
    i = np.arange(steps)
    if schedule == "cosine":
        rate = (1 + np.cos(math.pi * i / steps)) / 2
    elif schedule == "palindromic_cosine":
        rate = np.sin(math.pi * (2 * i + 1) / (2 * steps)) ** 2
    else:
        rate = np.full(steps, factor ** (trajectory // every) if schedule == "stairs" else 1.0)
    return np.sqrt(rate).tolist()


def program(word: str, sizes: list[float], decay: Callable[[float], float], rescaled: bool = False) -> list[tuple]:
    """The letters of a trajectory whose steps have the given ``sizes``."""
    letters = []
    for h in sizes:
        for letter in word:
            part = h / word.count(letter)
            if letter == "O":
                c = decay(h) ** (1 / word.count("O")) if word.count("O") > 1 else decay(h)
                head = len(letters) == 1 and headed(word)
                if letters and letters[-1][0] == "O" and not head:
                    letters[-1] = ("O", letters[-1][1] * c)
                else:
                    letters.append(("O", c))
            elif letter == "E":
                letters.append(("E", (part, decay(part))))
            else:
                half = -math.log(decay(h)) / 2 if rescaled else 0
                letters.append((letter, part * math.sqrt(math.tanh(half) / half) if half else part))
    return letters


def headed(word: str) -> bool:
    """Whether an O stands before a palindrome (OBAB): a refresh, and no part of what is reversed."""
    return word[0] == "O" and word != word[::-1] and word[1:] == word[:0:-1]


def mirrored(letters: list[tuple], word: str) -> list[tuple]:
    """The same letters from the end; a leading refresh stays in front."""
    head = int(headed(word))
    return letters[:head] + letters[head:][::-1]


def reads_backwards(letters: list[tuple], word: str) -> bool:
    """Whether the program is its own mirror image, numbers included."""
    mirror = mirrored(letters, word)
    pairs = zip(letters, mirror, strict=True)
    return all(a == b and np.allclose(one, two, rtol=1e-13, atol=0) for (a, one), (b, two) in pairs)


# -- one trajectory --------------------------------------------------------------------------------------------


@dataclass
class Path:
    """Where a trajectory went: its end, the kicks' Σ ΔK, (c, m before, m after) of each O of the palindromic part."""

    theta: np.ndarray
    momentum: np.ndarray
    begun: np.ndarray  # the momentum that the palindromic part started with
    kinetic: np.ndarray
    refreshes: list = field(default_factory=list)


def follow(letters, word, theta, momentum, noises, gradient, mass, temperature) -> Path:
    """The path of ``letters`` from (θ, m); ``noises`` has one array an O or E, ``gradient(point, θ)`` is ∇Ũ there.

    Kicks with no A between them are at one point and use one gradient.
    """
    noises, scale = iter(noises), np.sqrt(temperature * mass) * np.ones_like(momentum)
    path = Path(theta, momentum, momentum, np.zeros(len(theta)))
    point, slope = -1, None
    for place, (letter, number) in enumerate(letters):
        before = path.momentum
        if letter == "A":
            path.theta = path.theta + number * before / mass
            slope = None
            continue
        if letter in "BE" and slope is None:
            point += 1
            slope = gradient(point, path.theta)
        if letter == "B":
            path.momentum = before - number * slope
            path.kinetic = path.kinetic + ((path.momentum**2 - before**2) / mass).sum(1) / 2
        elif letter == "E":
            h, c = number
            path.momentum = c * before - h * slope + math.sqrt(2 * (1 - c)) * scale * next(noises)
        else:
            path.momentum = number * before + math.sqrt(1 - number**2) * scale * next(noises)
            if place == 0 and headed(word):
                path.begun = path.momentum
            else:
                path.refreshes.append((number, before, path.momentum))
    return path


def log_density_ratio(path: Path, mass, temperature) -> np.ndarray:
    """log of the densities of the O's moves backwards over forwards, N(−m; −c m', s²)/N(m'; c m, s²), ``[chains]``.

    A and B are maps that preserve volume, so with −(H_L − H_0)/T this is the log ratio of the path densities.
    """
    ratio = np.zeros(len(path.theta))
    for c, before, after in path.refreshes:
        variance = (1 - c**2) * temperature * mass
        ratio += (((after - c * before) ** 2 - (before - c * after) ** 2) / (2 * variance)).sum(1)
    return ratio


def hamiltonian(target, theta, momentum, mass) -> np.ndarray:
    return target.energy(theta) + (momentum**2 / mass).sum(1) / 2


# -- linear theory ---------------------------------------------------------------------------------------------


def linear(letters, stiffness, mass, temperature, noise, start: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """z' = F z + N(0, Q), z = (θ, m), of a trajectory on U = ½ Σ k x², gradient noise of standard deviation ``noise``.

    ``stiffness`` k and ``mass`` are ``[dim]``; F and Q are ``[2 dim, 2 dim]``. The gradient noise of the current
    point is a third variable, which two kicks at one point share. ``start`` is the c of the refresh of
    the momentum before the first letter (None: none).
    """
    dim, one, zero = len(stiffness), np.eye(len(stiffness)), np.zeros((len(stiffness),) * 2)
    k, m = np.diag(stiffness), np.diag(mass)
    F, Q, fresh = np.eye(3 * dim), np.zeros((3 * dim,) * 2), True
    F[2 * dim :] = 0

    def move(matrix, variance=None, where=1):
        nonlocal F, Q
        matrix = np.block(matrix)
        F, Q = matrix @ F, matrix @ Q @ matrix.T
        if variance is not None:
            block = slice(where * dim, (where + 1) * dim)
            Q[block, block] += variance

    def refresh(c):
        move([[one, zero, zero], [zero, c * one, zero], [zero, zero, one]], (1 - c**2) * temperature * m)

    if start is not None:
        refresh(start)
    for letter, number in letters:
        if letter == "A":
            move([[one, number * np.linalg.inv(m), zero], [zero, one, zero], [zero, zero, one]])
            fresh = True
            continue
        if letter == "O":
            refresh(number)
            continue
        if fresh:
            move([[one, zero, zero], [zero, one, zero], [zero, zero, zero]], noise**2 * one, where=2)
            fresh = False
        h, c, variance = (number, 1.0, None) if letter == "B" else (*number, 2 * (1 - number[1]) * temperature * m)
        move([[one, zero, zero], [-h * k, c * one, -h * one], [zero, zero, one]], variance)
    return F[: 2 * dim, : 2 * dim], Q[: 2 * dim, : 2 * dim]


def stationary(maps: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray | None:
    """Σ of z' = F z + N(0, Q), each (F, Q) of ``maps`` equally likely: the discrete Lyapunov equation.

    None where there is no stationary law."""
    size, lift = len(maps[0][0]), _lift(maps)
    if np.abs(np.linalg.eigvals(lift)).max() > 1 - 1e-9:
        return None
    total = sum(Q for _, Q in maps) / len(maps)
    return np.linalg.solve(np.eye(size**2) - lift, total.ravel()).reshape(size, size)


def condition(maps: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """How much larger errors of ``maps`` are in ``stationary``."""
    lift = _lift(maps)
    return float(np.linalg.cond(np.eye(len(lift)) - lift))


def _lift(maps):
    return sum(np.kron(F, F) for F, _ in maps) / len(maps)


def closed_form(word, h, decay, rescaled, stiffness, mass, temperature) -> np.ndarray | None:
    """Stationary (Var θ, Var m) ``[2, dim]`` without decisions and with exact gradients, where there is a formula.

    With w = 1 − h²k/4m: OBABO (T/kw, mT), ABOBA (T/k, mT/w), BAOAB (T/k, mTw); EA, β = 1 − γh,
    u = 1 − h²k/(2m(1 + β)): (T/ku, 2mT/((1 + β)u)). OVRVO has bh for h.
    """
    half = -math.log(decay(h)) / 2 if rescaled else 0.0
    w = 1 - h**2 * stiffness / (4 * mass) * (math.tanh(half) / half if half else 1.0)
    beta = decay(h)
    u = 1 - h**2 * stiffness / (2 * mass * (1 + beta))
    position, momentum = temperature / stiffness, temperature * mass
    return {
        "OBABO": np.array([position / w, momentum]),
        "ABOBA": np.array([position, momentum / w]),
        "BAOAB": np.array([position, momentum * w]),
        "EA": np.array([position / u, 2 * momentum / ((1 + beta) * u)]),
    }.get(word)


def energy_order(word: str, infinite: bool = False) -> tuple[float, float] | None:
    """The powers of h that the energy errors of one step and of a fixed time go with; None: no energy is accounted for,
    or there is no theory.

    The runs between O's are exact flows to h², or only to h where more pairs of an A and a B have one of the two first
    (AB), or not even that where their A's and B's last unlike times. Over a word the errors of order h add up to 0, as
    do those of order h² where as many pairs have the A first as the B, but for what the O's between the runs did to the
    momentum, which is of order √h. In N = 1/h steps errors add up to a power less, and those with a √h, which are
    independent, to half a power less; so are those of order h³ where the momenta are fresh (``infinite`` friction).
    """
    if "B" not in word or "E" in word:
        return None
    runs = [run for run in word.split("O") if run]
    first = [sum(_a_first(run[:place], letter) for place, letter in enumerate(run)) for run in runs]
    if any(run.count("A") * word.count("B") != run.count("B") * word.count("A") for run in runs):
        step = 1.5
    elif any(first):
        step = 2.0 if sum(first) else 2.5
    else:
        step = 3.0
    if infinite and "O" in word:
        return (step, 2.5) if step == 3 else None
    return step, float(math.ceil(step) - 1)


def _a_first(before: str, letter: str) -> int:
    """Of the pairs of an A and a B that a letter makes with those ``before`` it, how many more have the A first."""
    return before.count("A") if letter == "B" else -before.count("B")
