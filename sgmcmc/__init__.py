"""Stochastic-gradient MCMC with exact Metropolis-Hastings acceptance: a sampler is a word.

>>> import sgmcmc
>>> result = sgmcmc.sample(lambda theta: (theta**2).sum() / 2, dim=3, acceptance="metropolis", step_size=0.5)

``sample`` runs any sampler on a target of one's own; ``make_kernel``, ``run`` and the potentials are the pieces it
is made of; ``load_samples`` reads the draws of run folders.

Names are imported when they are first used, so that what needs no tensors (the command line's help and its
refusals) does not wait for torch.
"""

from importlib import import_module

# Raised when a change alters the law, or the numbers, of the chains of an unchanged configuration. 2: compiled networks
# drew one noise for all O's between two gradients (BOAOB, AOBOA; OBAB with a refreshed momentum). 3: the seed chose the
# frozen views of augmentation=averaged, so that runs of several seeds, joined as chains, had several targets. 4: in
# float32 c and √(1 − c²) were rounded apart, so that weak friction refreshed the momentum to another temperature.
LAW = 4

_HOME = {
    "DataError": "errors",
    "Dataset": "data",
    "Friction": "kernel",
    "Kernel": "kernel",
    "NetworkPotential": "potentials.network",
    "Plan": "plan",
    "Potential": "potentials",
    "Random": "random",
    "Result": "chain",
    "RunFolder": "store",
    "SAMPLERS": "samplers",
    "Sampler": "samplers",
    "Schedule": "schedules",
    "SettingError": "errors",
    "StoreError": "errors",
    "Word": "words",
    "load_metrics": "loading",
    "load_samples": "loading",
    "lookup": "samplers",
    "make_kernel": "kernel",
    "run": "chain",
    "sample": "sampling",
}
_MODULES = ("data", "diagnostics", "potentials")
__all__ = ["LAW", *_HOME]


def __getattr__(name: str):
    if name == "__version__":
        return _version()
    if name in _MODULES:
        return import_module(f"sgmcmc.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'sgmcmc' has no attribute {name!r}")
    return getattr(import_module(f"sgmcmc.{_HOME[name]}"), name)


def __dir__():
    return sorted({*globals(), *_HOME, *_MODULES, "__version__"})


def _version() -> str:
    """The version that was installed; "unknown" for a folder of sources that never was."""
    from importlib import metadata  # slow to import, and seldom needed

    try:
        return metadata.version("sgmcmc")
    except metadata.PackageNotFoundError:
        return "unknown"
