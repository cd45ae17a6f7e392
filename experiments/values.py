"""The values of settings: numbers cast and held against their ranges, choices against what there is."""

from __future__ import annotations

import math
import os
from dataclasses import fields
from functools import partial

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments import schema
from experiments.dotted import get, put
from experiments.resolved import is_own
from sgmcmc.errors import SettingError


def number(setting: str, value, need: str, low: float = -math.inf, high: float = math.inf) -> float:
    """``value`` as a float in (low, high), or SettingError; an end that is allowed is given a little farther out."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not (known and math.isfinite(value) and low < value < high):
        raise SettingError(setting, value, f"must be {need}")
    return float(value)


MOST = 2**63 - 1  # what fits into 64 bits with a sign


def count(setting: str, value, least: int = 1, most: int = MOST) -> int:
    """``value`` as a whole number (5e6 is one) from ``least`` to ``most``, or SettingError."""
    whole = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not whole or value != int(value) or value < least:
        raise SettingError(setting, value, "must be a whole number" + (f", at least {least}" if least > -MOST else ""))
    if value > most:
        raise SettingError(setting, value, f"must be a whole number, at most {most}")
    return int(value)


def numbers(setting: str, value, need: str, **limits) -> float | list[float]:
    """A number, or a list of them, one a chain."""
    if value == []:
        raise SettingError(setting, value, f"must be {need}, or a list of them, one a chain")
    each = partial(number, setting, need=need, **limits)
    return list(map(each, value)) if isinstance(value, list) else each(value)


def _keep(setting, value):
    try:
        return value if value in ("all", "none") else count(setting, value)
    except SettingError:
        raise SettingError(setting, value, "must be all, none or how many of the last draws to keep") from None


def _cycle_list(setting, value):
    return [count(setting, one) for one in (value if isinstance(value, list) else [value])]


def _mass(setting, value):
    need = "a positive number, a list of them (one a coordinate), or estimate"
    return value if value == "estimate" else numbers(setting, value, need, low=0)


def _trace(setting, value):
    return None if value is False else count(setting, int(value) if value is True else value)


def _path(setting, value):
    return os.path.expanduser(value)  # most shells leave the ~ of KEY=~/… to us, and pandas expands it where we do not


def _auto(setting, value):
    if value != "auto" and not isinstance(value, bool):
        raise SettingError(setting, value, "must be auto, true or false")
    return value


def _friction(setting, value):
    return math.inf if value in _INFINITE else _not_negative(setting, value)


_INFINITE = (math.inf, ".inf", "infinite")  # as Hydra reads inf, as YAML spells it, as the samplers' table says it
_ZERO = -1e-300  # as the end of a range that 0 belongs to
_positive = partial(numbers, need="a positive number", low=0)
_not_negative = partial(numbers, need="a number that is not negative", low=_ZERO)
_inside = partial(number, low=-1, high=1, need="above -1 and below 1")
_CASTS = {
    "output": _path,
    "init": _path,
    "data.root": _path,
    "seed": partial(count, least=0, most=2**64 - 1),
    "chains": count,
    "data.train_size": count,
    "lr": _positive,
    "step_size": _positive,
    "momentum_decay": partial(numbers, need="a momentum decay a whole step, from 0 to 1", low=_ZERO, high=1 + 1e-15),
    "friction": _friction,
    "sampler.beta": _not_negative,
    "sampler.b": _not_negative,
    "sampler.alpha": _inside,
    "sampler.delta": _inside,
    "sampler.decision_batch": partial(count, least=2),
    "sampler.epsilon": partial(number, low=_ZERO, high=0.5, need="from 0 to below 0.5"),
    "sampler.sigma": partial(number, low=0.2 - 1e-15, high=1.2 + 1e-15, need="from 0.2 to 1.2"),
    "schedule.every": count,
    "schedule.factor": partial(number, low=0, need="a positive number"),
    "epochs": count,
    "epochs_per_cycle": count,
    "cycles": count,
    "steps_per_cycle": count,
    "burn_in": partial(count, least=0),
    "thin": count,
    "keep": _keep,
    "log_every": count,
    "save_every": count,
    "save_minutes": partial(number, low=_ZERO, need="a number of minutes, or 0"),
    "temperature": partial(number, low=_ZERO, need="a number, finite and not negative"),
    "batch_size": count,
    "warm_start.epochs": count,
    "warm_start.lr": partial(number, low=0, need="a positive number"),
    "warm_start.momentum": partial(number, low=_ZERO, high=1, need="from 0 to below 1"),
    "warm_start.batch_size": count,
    "warm_start.weight_decay": partial(number, low=_ZERO, need="a number not below 0"),
    "mass": _mass,
    "mass_cycles": partial(count, least=0),
    "tune.target": partial(number, low=0, high=1, need="an acceptance between 0 and 1"),
    "views": count,
    "trace": _trace,
    "compile": _auto,
    "graph": _auto,
    "together": _auto,
    "trace_cycles": _cycle_list,
}


def cast_texts(config: dict) -> None:
    """Cast in place, as Hydra does those of the command line, the texts, and what is true or false, of a scale's block.
    Raises SettingError."""
    for key in schema.dotted(schema.Settings, "str"):
        value = get(config, key)
        if isinstance(value, list | dict):
            raise SettingError(key, value, "must be one value")
        if value is not None:
            put(config, key, str(value))
    for key in schema.dotted(schema.Settings, "bool"):
        if not isinstance(value := get(config, key), bool | None):
            raise SettingError(key, value, "must be true or false")


def cast(config: dict) -> None:
    """Cast all values of a configuration, in place. Raises SettingError where one cannot be."""
    for key, cast_one in _CASTS.items():
        value = get(config, key)
        if value is not None:
            put(config, key, cast_one(key, value))
    for key, known in schema.CHOICES.items():
        value = get(config, key)
        if value is not None and value not in known and not ("model" in key and is_own(config)):
            raise SettingError(key, value, f"must be one of {', '.join(known)}")
    if not is_own(config):
        config["model"] = _typed(schema.MODELS[config["model"]["name"]], config["model"])
    device = config["device"]
    if device not in ("auto", "cpu", "cuda") and not (device.startswith("cuda:") and device[5:].isdigit()):
        raise SettingError("device", device, "must be auto, cpu, cuda or cuda:1")


# By what OmegaConf's error says.
_KINDS = {"Integer": "a whole number", "Float": "a number", "bool": "true or false", "list": "a list of numbers"}


def _typed(model, values: dict) -> dict:
    """The settings of a model, cast to the types of its dataclass."""
    typed, types = OmegaConf.structured(model), {one.name: one.type for one in fields(model)}
    for key, value in values.items():
        if types[key].startswith(("int", "list[int")) and value is not None:
            # Its target says what is too small.
            each = [count(f"model.{key}", one, -MOST) for one in (value if isinstance(value, list) else [value])]
            value = each if isinstance(value, list) else each[0]
        if types[key] == "bool" and isinstance(value, int) and value not in (0, 1):  # OmegaConf takes any number
            raise SettingError(f"model.{key}", value, "must be true or false")
        try:
            typed[key] = typed[key] if value is None else value
        except OmegaConfBaseException as error:
            kind = next((kind for sign, kind in _KINDS.items() if sign in str(error)), "of another type")
            raise SettingError(f"model.{key}", value, f"must be {kind}") from error
    return OmegaConf.to_container(typed)
