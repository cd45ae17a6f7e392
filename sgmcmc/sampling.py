"""Any sampler on a target of one's own, in one call."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from sgmcmc.chain import Plan, Result, run
from sgmcmc.errors import SettingError
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.potentials import Potential
from sgmcmc.potentials.analytic import FunctionPotential
from sgmcmc.random import Random
from sgmcmc.samplers import Sampler, lookup


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
    trajectory: bool = False,
    initial: Tensor | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    **policies,
) -> Result:
    """Run a sampler on a target of one's own; ``result.draws`` is ``[draws, chains, dim]``.

    Of samplers that are monitored where nothing is said, GGMC among them, ``acceptance="metropolis"`` corrects the
    chain: without it a UserWarning tells that it is not corrected. Every proposal that is finite then counts as
    accepted.

    ``potential`` is a class with three methods (see ``sgmcmc.potentials``) or just U as a function of one θ
    ``[dim]`` (then give ``dim``; its gradient is made by ``torch.func``). ``steps`` is the length of a trajectory
    (10, or 1 where the sampler has just one). Friction is γ (``friction``, 1 by default), e^{−γh}
    (``momentum_decay``), or AMAGOLD's ``beta`` or ``b``. A sequence of step sizes or of frictions is one a chain.
    ``initial`` is ``[chains, dim]``. ``tune`` and ``trajectory`` are those of ``Plan``, ``policies`` those of
    ``make_kernel``: ``acceptance="metropolis"``, ``refresh``, ``gradient``, ``batch_size``, ``temperature``, ….
    Raises SettingError, one sentence, for what cannot work.
    """
    if not hasattr(potential, "potential"):
        if dim is None:
            raise SettingError("dim", dim, "a function as the target needs its number of coordinates")
        potential = FunctionPotential(potential, dim)
    for name, count, least in (
        ("cycles", cycles, 1),
        ("chains", chains, 1),
        ("thin", thin, 1),
        ("burn_in", burn_in, 0),
    ):
        if count < least:
            raise SettingError(name, count, f"must be at least {least}")
    if burn_in >= cycles:
        raise SettingError("burn_in", burn_in, f"leaves no draws of cycles={cycles}: make it less")
    if tune is not None and not 0 < tune < 1:
        raise SettingError("tune", tune, "is the acceptance to tune to, between 0 and 1")
    if initial is not None and initial.numel() != chains * potential.dim:
        raise SettingError("initial", list(initial.shape), f"must be [{chains}, {potential.dim}]: [chains, dim]")
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
    named = (kernel.friction.said or ("friction",))[0]
    for name, value in (("step_size", kernel.step_size), (named, kernel.friction.value)):
        if isinstance(value, Tensor) and len(value) not in (1, chains):
            raise SettingError(name, f"[{len(value)} numbers]", f"must be a number or {chains}, one a chain")
    if kernel.acceptance == "monitor" and not policies.get("acceptance") and not kernel.impossible:
        warnings.warn("the chain is not corrected; acceptance='metropolis' corrects it", stacklevel=2)
    random = Random(seed, device)
    plan = Plan(
        cycles=cycles, burn_in=burn_in, thin=thin, tune=tune, trajectory=trajectory, log_every=max(1, cycles // 100)
    )

    def begin() -> Tensor:
        theta = potential.initial(chains, random) if initial is None else initial
        return theta.to(device=device, dtype=dtype).reshape(chains, potential.dim)

    return run(kernel, potential, plan, random, chains, begin)
