"""Stochastic-gradient MCMC with exact Metropolis-Hastings acceptance: a sampler is a word.

>>> import sgmcmc
>>> result = sgmcmc.sample(lambda theta: (theta**2).sum() / 2, dim=3, sampler="ggmc", step_size=0.5)

``sample`` runs any sampler on a target of one's own; ``make_kernel``, ``run`` and the potentials are the pieces it
is made of; ``load_samples`` reads the draws of run folders.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from sgmcmc.chain import Plan, Result, run
from sgmcmc.errors import DataError, SettingError, StoreError
from sgmcmc.kernel import Friction, Kernel, make_kernel
from sgmcmc.potentials import Potential
from sgmcmc.random import Random
from sgmcmc.samplers import SAMPLERS, Sampler, lookup
from sgmcmc.schedules import Schedule
from sgmcmc.store import RunFolder, load_metrics, load_samples
from sgmcmc.words import Word

LAW = 1  # raised when a change alters the law, or the numbers, of the chains of an unchanged configuration

__all__ = [
    "LAW",
    "SAMPLERS",
    "DataError",
    "Friction",
    "Kernel",
    "Plan",
    "Random",
    "Result",
    "RunFolder",
    "Sampler",
    "Schedule",
    "SettingError",
    "StoreError",
    "Word",
    "load_metrics",
    "load_samples",
    "lookup",
    "make_kernel",
    "run",
    "sample",
]


def sample(
    potential: Potential | Callable[[Tensor], Tensor],
    sampler: str | Sampler = "ggmc",
    *,
    step_size,
    dim: int | None = None,
    cycles: int = 1000,
    steps: int | None = None,
    chains: int = 1,
    burn_in: int = 0,
    thin: int = 1,
    friction=None,
    momentum_decay=None,
    beta=None,
    b=None,
    tune: float | None = None,
    initial: Tensor | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    **policies,
) -> Result:
    """Run a sampler on a target of one's own; ``result.draws`` is ``[draws, chains, dim]``.

    ``potential`` is a class with three methods (see ``sgmcmc.potentials``) or just U as a function of one θ
    ``[dim]`` (then give ``dim``; its gradient is made by ``torch.func``). ``steps`` is the length of a
    trajectory (10, or 1 where the sampler has just one). Friction is γ (``friction``, 1 by default), e^{−γh}
    (``momentum_decay``), or AMAGOLD's ``beta`` or ``b``. ``initial`` is ``[chains, dim]``. ``policies`` are those of
    ``make_kernel``: ``acceptance="metropolis"``, ``refresh``, ``gradient``, ``batch_size``, ``temperature``, ….
    Raises SettingError, one sentence, for what cannot work.
    """
    if not hasattr(potential, "potential"):
        from sgmcmc.potentials.analytic import FunctionPotential

        if dim is None:
            raise SettingError("dim", dim, "a function as the target needs its number of coordinates")
        potential = FunctionPotential(potential, dim)
    row = lookup(sampler) if isinstance(sampler, str) else sampler
    euler = "E" in (policies.get("word") or row.word)
    ways = {"friction": friction, "momentum_decay": momentum_decay, "beta": beta, "b": b}
    kernel = make_kernel(
        row,
        potential,
        step_size,
        steps=steps or row.steps or 10,
        friction=Friction.of(step_size, euler, **ways),
        dtype=dtype,
        **policies,
    )
    random = Random(seed, device)
    plan = Plan(cycles=cycles, burn_in=burn_in, thin=thin, tune=tune, log_every=max(1, cycles // 100))

    def begin() -> Tensor:
        theta = potential.initial(chains, random) if initial is None else initial
        return theta.to(device=device, dtype=dtype).reshape(chains, potential.dim)

    return run(kernel, potential, plan, random, chains, begin)
