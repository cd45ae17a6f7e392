"""BlackJAX's SGHMC on the double well, 1,000 chains, 10 steps with gradient noise a unit.

It has no AMAGOLD: there is no acceptance test, so a unit is less work than a draw here.
"""

from __future__ import annotations

import sys
from pathlib import Path

import blackjax
import jax

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pace import serve

CHAINS, BLOCK = 1000, 2000


def main() -> None:
    def gradient(x, noise):
        return -((((4 * x + 3) * x - 26) * x - 1) / 14 + noise)

    sampler = blackjax.sghmc(gradient, num_integration_steps=10, alpha=0.05, beta=0.0)

    def one(x, key):
        noise, step = jax.random.split(key)
        noises = jax.random.normal(noise, x.shape)
        keys = jax.random.split(step, CHAINS)
        return jax.vmap(lambda key, x, noise: sampler.step(key, x, noise, 0.01))(keys, x, noises), None

    @jax.jit
    def block(x, key):
        return jax.lax.scan(one, x, jax.random.split(key, BLOCK))[0]

    state = {"x": jax.numpy.zeros(CHAINS), "key": jax.random.key(0)}

    def work() -> int:
        state["key"], key = jax.random.split(state["key"])
        state["x"] = block(state["x"], key).block_until_ready()
        return CHAINS * BLOCK

    serve(work)


if __name__ == "__main__":
    main()
