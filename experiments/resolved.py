"""A resolved configuration: plain data that says what a run is, where it lies, how long it is.

What makes one of the command line's words, with Hydra, is in ``experiments.config``; from here on nothing needs it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from sgmcmc.errors import SettingError
from sgmcmc.samplers import SAMPLERS, Sampler, custom, lookup
from sgmcmc.schedules import Schedule

DONE, MISTAKE, DIVERGED, INTERRUPTED = 0, 2, 3, 75  # exit statuses of a run

PAPER_FRICTION = 14.2854713425451  # γ of all chains of the GGMC paper: β = .98 at ℓ = .1 and N = 50,000
STARTS = ("he", "torch", "sgd", "exact")  # what init may be, but for a file
NETWORKS = ("resnet20", "mlp")
STEP = ("lr", "step_size")  # ways of saying the step size, and the friction
FRICTION = ("momentum_decay", "friction", "sampler.beta", "sampler.b")
OWN_DATA = ("hierarchical_regression", "logistic_generated", "location_mixture")  # with data of theirs: data=none

# What a chain's law does not depend on. Its length is not part of its identity either (a longer run continues a
# shorter one): no schedule depends on the whole length.
NOT_IDENTITY = ("name", "output", "device", "scale", "trace", "trace_cycles", "compile", "progress", "debug")
NOT_IDENTITY += ("save_minutes", "epochs", "cycles", "graph", "together")
# What no table depends on.
PRACTICAL = ("device", "data.root", "compile", "graph", "together", "progress", "debug", "save_minutes")


def identity(config: dict, law: int | None = None) -> str:
    """Twelve hexadecimal digits of a resolved configuration and of the library's ``LAW``, or of another ``law``.

    Two runs with the same identity are the same chain, of whatever length. Null settings do not count, so a new
    setting that starts as null leaves every old run its name.
    """
    from sgmcmc import LAW

    text = json.dumps({"law": law or LAW, **scientific(config)}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def scientific(config: dict) -> dict:
    """The settings of a resolved configuration that its chain depends on, without nulls."""
    science = {key: value for key, value in config.items() if key not in NOT_IDENTITY}
    science["data"] = {key: value for key, value in config["data"].items() if key != "root"}
    name = (config.get("sampler") or {}).get("name")
    if name in SAMPLERS and SAMPLERS[name].rescaled != (name == "ovrvo"):  # of a row of one's own, or an edited one
        science["sampler"] = {**config["sampler"], "rescaled": SAMPLERS[name].rescaled}
    return _without_nulls(science)


def planned_cycles(config: dict) -> int | None:
    """How many cycles a resolved configuration asks for; None where only its data can tell."""
    if config["cycles"] is None and config["epochs_per_cycle"] is not None:
        return config["epochs"] // config["epochs_per_cycle"]
    return config["cycles"]


def log_every(config: dict, network: bool | None = None) -> int:
    """How many cycles a row of metrics covers: as configured, else 1 of a network and 10 of other targets, whose cycles
    are short. Whether the target is a ``network`` the model's name tells, but for a class of one's own."""
    if config["log_every"] is not None:
        return config["log_every"]
    network = config["model"]["name"] in NETWORKS if network is None else network
    return 1 if network else 10


def check_length(config: dict, cycles: int) -> None:
    """Refuse what does not fit a run of so many cycles: no draw, none that is kept, a traced cycle that is not there,
    stairs that leave the range of numbers. ``cycles`` are the whole run's, not those of a segment of it."""
    burn_in, thin = config["burn_in"], config["thin"]
    if burn_in >= cycles:
        raise SettingError("burn_in", burn_in, f"leaves no draws of {cycles} cycles: make it less, or give more cycles")
    if config["keep"] != "none" and thin > cycles - burn_in:
        mend = f"keeps none of the {cycles - burn_in} draws after the burn-in: make it less"
        raise SettingError("thin", thin, mend)
    if max(config["trace_cycles"] or [0]) > cycles:
        mend = f"counts cycles from 1, and the run has {cycles}"
        raise SettingError("trace_cycles", config["trace_cycles"], mend)
    schedule_of(config).check(cycles)


def schedule_of(config: dict) -> Schedule:
    """The schedule of step sizes."""
    return Schedule(**_without_nulls(config["schedule"]))


def folder(config: dict) -> Path:
    """Where the run is kept: ``output``, else ``results/runs/<name>/<identity>``."""
    return Path(config["output"] or Path("results", "runs", config["name"], identity(config)))


def is_own(config: dict) -> bool:
    """Whether the target is a class of one's own, named by ``model._target_``."""
    return config["model"].get("_target_") is not None


def _without_nulls(value):
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def sampler_row(sampler: dict) -> Sampler:
    """The row of the samplers' table, or of ``sampler=custom`` (kept momentum where the word refreshes it)."""
    if sampler["word"] == "":
        raise SettingError("sampler.word", "''", "is empty: leave it out, or give letters such as BABAB")
    if sampler["name"] != "custom":
        return lookup(sampler["name"])
    if sampler["word"] is None:
        raise SettingError("sampler.word", "null", "sampler=custom needs a word, such as sampler.word=BABAB")
    return custom(sampler["word"])


def show(config: dict) -> str:
    """The resolved configuration as YAML."""
    try:
        import yaml
    except ImportError:
        return json.dumps(config, indent=2)  # which is YAML, too
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
