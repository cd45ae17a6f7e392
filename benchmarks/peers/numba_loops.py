"""Single-chain loops in numba, written here for comparison: AMAGOLD's trajectories of 10 steps, float64."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numba
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pace import serve


@numba.njit(fastmath=True)
def double_well(number, x, epsilon, beta):
    moved = 0
    old = (x + 4) * (x + 1) * (x - 1) * (x - 3) / 14
    for _ in range(number):
        r, rho = np.random.normal(), 0.0
        new = x + epsilon / 2 * r
        for step in range(10):
            slope = (((4 * new + 3) * new - 26) * new - 1) / 14 + np.random.normal()
            before = r
            r = (1 - epsilon * beta) * r - epsilon * slope + math.sqrt(4 * epsilon * beta) * np.random.normal()
            r /= 1 + epsilon * beta
            rho += epsilon / 2 * slope * (before + r)
            new += (epsilon if step < 9 else epsilon / 2) * r
        proposed = (new + 4) * (new + 1) * (new - 1) * (new - 3) / 14
        if math.log(np.random.random()) < old - proposed + rho:
            x, old, moved = new, proposed, moved + 1
    return x, moved


@numba.njit(fastmath=True)
def banana(number, x, y, epsilon, beta):
    moved = 0
    old = (x - y * y / 4) ** 2 / 2 + y * y / 8
    for _ in range(number):
        r, s, rho = np.random.normal(), np.random.normal(), 0.0
        new, other = x + epsilon / 2 * r, y + epsilon / 2 * s
        for step in range(10):
            away = new - other * other / 4
            slope = away + np.random.normal()
            slant = (0.5 - away) * other / 2 + np.random.normal()
            before, prior = r, s
            noise = math.sqrt(4 * epsilon * beta)
            r = ((1 - epsilon * beta) * r - epsilon * slope + noise * np.random.normal()) / (1 + epsilon * beta)
            s = ((1 - epsilon * beta) * s - epsilon * slant + noise * np.random.normal()) / (1 + epsilon * beta)
            rho += epsilon / 2 * (slope * (before + r) + slant * (prior + s))
            length = epsilon if step < 9 else epsilon / 2
            new += length * r
            other += length * s
        proposed = (new - other * other / 4) ** 2 / 2 + other * other / 8
        if math.log(np.random.random()) < old - proposed + rho:
            x, y, old, moved = new, other, proposed, moved + 1
    return x, y, moved


@numba.njit(fastmath=True)
def logistic(number, theta, inputs, targets, epsilon, beta, batch):
    size, dim = inputs.shape
    moved, old = 0, energy(theta, inputs, targets)
    r, new, gradient = np.empty(dim), np.empty(dim), np.empty(dim)
    keep, gain = (1 - epsilon * beta) / (1 + epsilon * beta), 1 / (1 + epsilon * beta)
    noise = math.sqrt(4 * epsilon * beta)
    for _ in range(number):
        rho = 0.0
        for j in range(dim):
            r[j] = np.random.normal()
            new[j] = theta[j] + epsilon / 2 * r[j]
        for step in range(10):
            for j in range(dim):
                gradient[j] = 0.0
            for _ in range(batch):
                row = np.random.randint(size)
                logit = 0.0
                for j in range(dim):
                    logit += inputs[row, j] * new[j]
                excess = 1 / (1 + math.exp(-logit)) - targets[row]
                for j in range(dim):
                    gradient[j] += excess * inputs[row, j]
            length = epsilon if step < 9 else epsilon / 2
            for j in range(dim):
                slope = gradient[j] * size / batch + new[j] / 100
                before = r[j]
                r[j] = keep * r[j] - gain * (epsilon * slope - noise * np.random.normal())
                rho += epsilon / 2 * slope * (before + r[j])
                new[j] += length * r[j]
        proposed = energy(new, inputs, targets)
        if math.log(np.random.random()) < old - proposed + rho:
            old, moved = proposed, moved + 1
            theta[:] = new
    return moved


@numba.njit(fastmath=True)
def energy(theta, inputs, targets):
    total = 0.0
    for j in range(len(theta)):
        total += theta[j] * theta[j] / 200
    for row in range(len(targets)):
        logit = 0.0
        for j in range(len(theta)):
            logit += inputs[row, j] * theta[j]
        sign = 1 - 2 * targets[row]
        total += max(sign * logit, 0.0) + math.log1p(math.exp(-abs(logit)))
    return total


def main(name: str) -> None:
    number = 200_000
    if name == "double_well":
        serve(lambda: double_well(number, 0.0, 0.1, 0.25) and number)
    elif name == "banana":
        serve(lambda: banana(number, 0.0, 0.0, 0.15, 0.25) and number)
    else:
        size, features, batch = map(int, sys.argv[2:])
        generator = np.random.default_rng(0)
        padded = np.zeros((size, 16), dtype=np.float32)  # a row is a cache line
        padded[:, 1 : features + 1] = generator.standard_normal((size, features))
        padded[:, 0] = 1
        targets = (generator.random(size) < 0.5).astype(np.float32)
        theta = generator.standard_normal(16)

        def work(few: int = 5_000) -> int:
            logistic(few, theta, padded, targets, 0.004, 0.25, batch)
            return few

        serve(work)


if __name__ == "__main__":
    main(sys.argv[1])
