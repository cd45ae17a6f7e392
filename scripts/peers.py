"""The samplers beside BlackJAX's: the same acceptance rates and moments, within Monte Carlo error (under two minutes).

    make peers                                    # both halves, and the environment that the first one needs
    .venv-peers/bin/python scripts/peers.py theirs THEIRS.json      # needs jax, blackjax and numpy alone
    .venv/bin/python scripts/peers.py ours THEIRS.json              # prints the table, writes results/peers.csv

An implementation that shares no code with this one runs the same chains: hmc, langevin (BlackJAX's mala) and
nonreversible_langevin (its ghmc, with Neal's persistent uniform) on a standard Gaussian in 10 dimensions and on the
quartic x⁴/4 + x³/3 + x²/2 in 2, from independent normals, in float64. An estimate is a mean over chains of a chain's
mean over draws (and coordinates), its standard error that of independent chains, and z is the difference over the
standard error of the difference. ``ours`` exits with 1 where some |z| is above 5.

The dictionary, ours = BlackJAX's (read in the source of 1.7.1):

hmc                     h = step_size, steps = num_integration_steps, unit mass
langevin                h = √(2 step_size): mala proposes x + step_size ∇log p + √(2 step_size) noise
nonreversible_langevin  h = step_size, one leapfrog step, unit mass; α² = 1 − alpha: ghmc's momentum becomes
                        √(1 − alpha) m + √alpha noise, ours α m + √(1 − α²) noise; δ = delta: both add it to a v that
                        is uniform on (−1, 1), wrap it, accept where |v| < MH, and then divide v by MH
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from pathlib import Path

import numpy as np

TABLE = Path(__file__).parents[1] / "results" / "peers.csv"
LIMIT = 5.0
DIMS = {"gaussian": 10, "quartic": 2}
SPREAD = {"gaussian": 1.0, "quartic": 0.6}  # of the starts: further out in the quartic's tails, chains stick for long
RUN = {"chains": 1000, "burn_in": 200, "draws": 1000, "steps": 5, "alpha": 0.9, "delta": 0.05}
# Two step sizes h each (ours), with acceptance rates from one half to nearly one.
STEP_SIZES = {
    ("gaussian", "hmc"): (0.9, 1.3),
    ("gaussian", "langevin"): (0.8, 1.2),
    ("gaussian", "nonreversible_langevin"): (0.8, 1.2),
    ("quartic", "hmc"): (0.4, 0.6),
    ("quartic", "langevin"): (0.4, 0.7),
    ("quartic", "nonreversible_langevin"): (0.4, 0.7),
}
QUANTITIES = ("acceptance", "theta", "theta^2")


def settings() -> list[dict]:
    return [
        {"target": target, "sampler": sampler, "step_size": h, **RUN}
        for (target, sampler), sizes in STEP_SIZES.items()
        for h in sizes
    ]


def estimate(per_chain) -> list[float]:
    """Mean and standard error of independent chains' numbers ``[chains]``."""
    values = np.asarray(per_chain, dtype=np.float64)
    return [float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))]


def theirs(out: Path) -> int:
    import blackjax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    densities = {
        "gaussian": lambda x: -jnp.sum(x**2) / 2,
        "quartic": lambda x: -jnp.sum(x**4 / 4 + x**3 / 3 + x**2 / 2),
    }
    rows = []
    for number, row in enumerate(settings()):
        density, dim, h = densities[row["target"]], DIMS[row["target"]], row["step_size"]
        start_key, init_key, run_key = jax.random.split(jax.random.key(1000 + number), 3)
        positions = SPREAD[row["target"]] * jax.random.normal(start_key, (row["chains"], dim))
        if row["sampler"] == "hmc":
            algorithm = blackjax.hmc(density, h, jnp.ones(dim), row["steps"])
        elif row["sampler"] == "langevin":
            algorithm = blackjax.mala(density, h**2 / 2)
        else:
            algorithm = blackjax.ghmc(density, h, jnp.ones(dim), 1 - row["alpha"] ** 2, row["delta"])

        def chain(key, state, row=row, algorithm=algorithm):
            def step(state, key):
                state, info = algorithm.step(key, state)
                x = state.position
                return state, jnp.array([info.is_accepted, x.mean(), (x**2).mean()], dtype=jnp.float64)

            _, seen = jax.lax.scan(step, state, jax.random.split(key, row["burn_in"] + row["draws"]))
            return seen[row["burn_in"] :].mean(0)

        if row["sampler"] == "nonreversible_langevin":
            states = jax.vmap(lambda x, key, a=algorithm: a.init(x, key))(
                positions, jax.random.split(init_key, row["chains"])
            )
        else:
            states = jax.vmap(algorithm.init)(positions)
        seen = jax.jit(jax.vmap(chain))(jax.random.split(run_key, row["chains"]), states)
        rows.append({**row, **{name: estimate(seen[:, i]) for i, name in enumerate(QUANTITIES)}})
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"blackjax": blackjax.__version__, "jax": jax.__version__, "rows": rows}, indent=1))
    return 0


def ours(path: Path) -> int:
    import torch

    import sgmcmc
    from sgmcmc.potentials.analytic import Gaussian, Quartic

    torch.set_num_threads(1)
    targets = {"gaussian": Gaussian(dim=DIMS["gaussian"]), "quartic": Quartic(dim=DIMS["quartic"])}
    peer = json.loads(path.read_text())
    print(f"ours beside BlackJAX {peer['blackjax']} (JAX {peer['jax']}); ± is one standard error")
    print(f"{'target':9}{'sampler':24}{'h':>4}{'':2}{'quantity':11}{'ours':>19}{'theirs':>19}{'z':>7}")
    table = []
    for number, row in enumerate(peer["rows"]):
        shape = row["chains"], DIMS[row["target"]]
        start = SPREAD[row["target"]] * np.random.default_rng(number).standard_normal(shape)
        policies = {}
        if row["sampler"] == "hmc":
            policies = {"steps": row["steps"]}
        elif row["sampler"] == "nonreversible_langevin":
            policies = {"alpha": row["alpha"], "delta": row["delta"]}
        result = sgmcmc.sample(
            targets[row["target"]],
            row["sampler"],
            step_size=row["step_size"],
            chains=row["chains"],
            cycles=row["burn_in"] + row["draws"],
            burn_in=row["burn_in"],
            initial=torch.from_numpy(start),
            seed=number,
            dtype=torch.float64,
            **policies,
        )
        draws = result.draws.numpy()
        seen = {
            "acceptance": (draws[1:] != draws[:-1]).any(-1).mean(0),  # what is accepted moves, what is not does not
            "theta": draws.mean((0, 2)),
            "theta^2": (draws**2).mean((0, 2)),
        }
        for name in QUANTITIES:
            (mean, error), (their_mean, their_error) = estimate(seen[name]), row[name]
            z = (mean - their_mean) / math.hypot(error, their_error)
            keys = {"target": row["target"], "sampler": row["sampler"], "step_size": row["step_size"], "quantity": name}
            numbers = {"ours": mean, "ours_se": error, "theirs": their_mean, "theirs_se": their_error, "z": z}
            table.append({**keys, **{key: f"{value:.6g}" for key, value in numbers.items()}})
            print(
                f"{row['target']:9}{row['sampler']:24}{row['step_size']:4}  {name:11}"
                f"{mean:9.5f} ± {error:.5f}{their_mean:9.5f} ± {their_error:.5f}{z:7.2f}",
                flush=True,
            )
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    worst = max(table, key=lambda line: abs(float(line["z"])))
    agree = all(abs(float(line["z"])) <= LIMIT for line in table)  # not so where z is NaN
    print(
        f"{len(table)} comparisons, the largest |z| is {abs(float(worst['z'])):.2f}: {'agree' if agree else 'DISAGREE'}"
    )
    return 0 if agree else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("half", choices=("theirs", "ours"))
    parser.add_argument("file", type=Path, help="THEIRS.json: written by theirs, read by ours")
    given = parser.parse_args()
    if given.half == "ours" and not given.file.is_file():
        makes = f".venv-peers/bin/python scripts/peers.py theirs {given.file}"
        parser.error(f"{given.file}: is not there; {makes} writes it (make peers does both)")
    sys.exit({"theirs": theirs, "ours": ours}[given.half](given.file))
