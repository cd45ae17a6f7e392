"""How the words of a command line become the plain dict that is one run.

A configuration goes one way: words of the command line → Hydra's composition of ``conf/`` (checked against
``experiments.schema``) → ``resolve`` → a plain dict of numbers, strings and lists, from which one chain follows.
Values win in this order, the last most: the schema, the groups (data, model, sampler, schedule), the experiment,
the experiment's block ``quick:`` or ``smoke:`` that ``scale=`` names, the command line. A later way of saying the
same thing (``step_size`` after ``lr``) puts the earlier one aside.

Nothing here imports torch: mistakes and ``--help`` are quick.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from experiments import schema
from experiments.resolved import (
    NETWORKS,
    OWN_DATA,
    PAPER_FRICTION,
    TOYS,
    check_length,
    is_own,
    planned_cycles,
    sampler_row,
)
from sgmcmc.errors import SettingError
from sgmcmc.samplers import NUMBERS, Sampler
from sgmcmc.schedules import Schedule
from sgmcmc.words import Word


def words_for(words: list[str]) -> list[str]:
    """The words with what they leave unsaid about a model of one's own: ``model._target_=package.Class``
    chooses ``model=custom``, whose keyword arguments are free (``model.width=3``)."""
    words = [word for word in words if word.lstrip("+").lower() != "experiment=null"]
    for word in words:
        key, _, value = word.lstrip("+").partition("=")
        if key in schema.GROUPS and not _may_be_a_name(value):
            raise SettingError(key, value, f"must be one of {', '.join(schema.options(key))}")
    if not any(word.startswith("model._target_=") for word in words):
        return list(words)
    free = [f"++{word}" if word.startswith("model.") else word for word in words]
    if not any(word.startswith("model=") for word in words):
        free.insert(next(at for at, word in enumerate(free) if "model._target_=" in word), "model=custom")
    return free


def _may_be_a_name(value: str) -> bool:
    """Whether Hydra reads the text as a name: not as null, true, false or a number."""
    try:
        float(value)
    except ValueError:
        return value.strip().lower() not in ("null", "true", "false")
    return False


def compose(words: list[str] = ()) -> dict:
    """The resolved configuration of a command line, ``compose(["sampler=ggmc", "lr=1e-4"])``.

    Raises SettingError, or Hydra's and OmegaConf's own errors, of which ``experiments.command_line.sentence``
    makes one sentence.
    """
    words = words_for(list(words))
    return resolve(composed(words), words)


def composed(words: list[str], **options) -> DictConfig:
    """What Hydra makes of the words: from within ``hydra.main``, too."""
    if GlobalHydra.instance().is_initialized():
        return hydra_compose("config", words, **options)
    with initialize_config_dir(str(schema.CONF), version_base="1.3"):
        return hydra_compose("config", words, **options)


def resolve(cfg: DictConfig | dict, words: list[str] = ()) -> dict:
    """The plain dict of one run: blocks applied, numbers cast, defaults of the model and the sampler filled in.

    ``words`` are the words of the command line that ``cfg`` was composed from; their values win over the
    experiment's block. A setting that the sampler or the target has no use for becomes None (``unused`` lists
    those that were asked for). Raises SettingError.
    """
    config = OmegaConf.to_container(cfg, resolve=True) if OmegaConf.is_config(cfg) else json.loads(json.dumps(cfg))
    said = _said(words)
    points, point = config.pop("points", None), config.pop("point", None)
    if point is not None:
        return _compose_point(points, point, config, words)
    for key, default in _defaults().items():
        # A default is what null, and a setting that was taken out with ~, stand for.
        if get(config, key) is None:
            put(config, key, default)
    del config["points"], config["point"]
    blocks = {scale: config.pop(scale, None) or {} for scale in ("quick", "smoke")}
    block = _flatten(blocks.get(config["scale"], {}))
    _apply(config, block, said)
    for ways in schema.WAYS:
        _put_aside(config, ways, said)
    _drop_other_models(config, said, block)
    _drop_other_policies(config, said)
    _check_keys(config)
    for key, value in _flatten(config).items():
        if value == "???":  # OmegaConf's mark of what is missing
            raise SettingError(key, value, "needs a value")
    _cast(config)
    return _filled(config, said)


@cache
def _defaults() -> dict[str, Any]:
    return _flatten(OmegaConf.to_container(OmegaConf.structured(schema.Settings)))


def unused(config: dict, words: list[str]) -> list[str]:
    """The words that set what the resolved ``config`` has no use for."""
    noiseless = config["sampler"]["gradient"] in ("full", "none") and get(config, "model.noise")
    return [
        word
        for key, word in _said(words).items()
        if key == "model.noise"
        and noiseless
        or key in schema.settings()
        and key not in (*schema.GROUPS, "point")
        and get(config, key) is None
        if word.partition("=")[2] not in ("null", "")
    ]


# Layers: point over experiment, block over point, command line over all.


def _compose_point(points, point, config, words) -> dict:
    """The configuration of one of an experiment's ``points``."""
    others = [word for word in words if word.partition("=")[0] != "point"]
    settings = point_settings(points, point, config, others)
    return compose([*others, *(f"{key}={'null' if value is None else value}" for key, value in settings.items())])


def point_settings(points, point, config, words) -> dict[str, Any]:
    """The settings of one of an experiment's ``points``, which stand as if they had been typed, but for those that the
    ``words`` give, or the block of the ``config``'s scale, in the block itself or in the point (``quick.KEY``)."""
    if not isinstance(points, list):
        raise SettingError("point", point, "chooses one of an experiment's points, and there are none here")
    if not isinstance(point, int) or not 0 <= point < len(points):
        raise SettingError("point", point, f"must be a whole number from 0 to {len(points) - 1}")
    scale = config["scale"]
    own = [key.removeprefix(f"{scale}.") for key in points[point] if key.startswith(f"{scale}.")]
    said = {**_said(words), **_flatten(config.get(scale) or {}), **dict.fromkeys(own)}
    return {key: value for key, value in points[point].items() if not _covered(key, said)}


def _said(words) -> dict[str, str]:
    """The dotted settings that the words give a value, with their words."""
    said = {}
    for word in words:
        key = word.lstrip("+~").partition("=")[0].partition("@")[0]
        said[key] = word
    return said


def _apply(config: dict, block: dict, said) -> None:
    """Put the values of ``block`` into ``config``, but for those that the command line gives, in whatever way."""
    flat = {key: value for key, value in _flatten(block).items() if not _covered(key, said)}
    for key, value in flat.items():
        put(config, key, value)
    for ways in schema.WAYS:
        _put_aside(config, ways, flat)


def _covered(key: str, said) -> bool:
    """Whether what is ``said`` gives the setting a value, by its own name, its group's, or another way of saying it."""
    if key == "sampler.minibatches":  # of the data, whichever sampler goes through them
        return key in said
    parts = key.split(".")
    same = next((ways for ways in schema.WAYS if key in ways), ())
    return any(name in said for name in (*(".".join(parts[:size]) for size in range(1, len(parts) + 1)), *same))


def _put_aside(config: dict, ways, latest) -> None:
    """Where the latest layer says one thing in one way, what earlier layers said in others is gone."""
    given = [way for way in ways if way in latest and get(config, way) is not None]
    if given:
        for way in ways:
            if way not in latest:
                put(config, way, None)


def _drop_other_models(config: dict, said, block) -> None:
    """Where the command line or the scale's block chooses another model, what is said of the experiment's is gone."""
    model = config["model"]
    if (
        ("model" in said or "model.name" in block)
        and isinstance(model, dict)
        and str(model.get("name")) in schema.MODELS
    ):
        mine = schema.dotted(schema.MODELS[model["name"]])
        config["model"] = {key: one for key, one in model.items() if key in mine or f"model.{key}" in said}


def _drop_other_policies(config: dict, said) -> None:
    """Where the command line chooses another sampler than the experiment's own, that one's policies are gone.

    What the experiment says of its data stays: batches, exact ends where the other word has gradients there, and
    that nothing is corrected.
    """
    experiment = said.get("experiment", "").partition("=")[2]
    path = schema.CONF / "experiment" / f"{experiment}.yaml"
    if "sampler" not in said or not path.is_file():
        return
    own, sampler = _own_sampler(path, path.stat().st_mtime_ns), config["sampler"]
    if own is None or sampler["name"] == own:
        return
    kept = ["name", "ends", "minibatches"] + ["acceptance"] * (sampler["acceptance"] == "monitor")
    config["sampler"] = {
        key: value if key in kept or f"sampler.{key}" in said else None for key, value in sampler.items()
    }
    word = config["sampler"]["word"] or sampler_row(config["sampler"]).word
    if "sampler.ends" not in said and not Word(word).kicks_at_both_ends:
        config["sampler"]["ends"] = None


@cache
def _own_sampler(path: Path, changed: int) -> str | None:
    """The sampler that an experiment's file, as it was changed last, says."""
    lines = OmegaConf.load(path).get("defaults") or []
    return next((line["override /sampler"] for line in lines if "override /sampler" in line), None)


def _flatten(tree: dict, prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in tree.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def get(config: dict, key: str):
    """The value of a dotted setting; None where there is none."""
    for part in key.split("."):
        config = config.get(part) if isinstance(config, dict) else None
    return config


def put(config: dict, key: str, value) -> None:
    """Give a dotted setting its value, and make the dicts on the way that are missing."""
    *path, last = key.split(".")
    for part in path:
        if not isinstance(config.get(part), dict):
            config[part] = {}
        config = config[part]
    config[last] = value


# Types and ranges.


def _check_keys(config: dict) -> None:
    """Refuse what no schema knows (a key that was added with ``+``, or by an experiment's block)."""
    known = set(schema.dotted(schema.Settings))
    model = config["model"] = config["model"] or {}
    if not isinstance(model, dict):
        raise SettingError("model", model, "must be one of " + ", ".join(schema.options("model")))
    if model.get("_target_") == "???":
        raise SettingError("model._target_", "null", "model=custom needs a class: model._target_=mypackage.MyModel")
    own, name = is_own(config), model.get("name")
    if not own and not (isinstance(name, str) and name in schema.MODELS):
        raise SettingError("model.name", name, schema.nearest(name, schema.MODELS, "choose it with model="))
    mine = [] if own else [f"model.{name}" for name in schema.dotted(schema.MODELS[name])]
    for key, value in _flatten({key: value for key, value in config.items() if not (key == "model" and own)}).items():
        if key not in known and key not in mine:
            raise SettingError(key, value, schema.nearest(key, [*known, *mine], "there is no such setting; see --help"))


def number(setting: str, value, low: float = -math.inf, high: float = math.inf, need: str = "a number") -> float:
    """``value`` as a float in (low, high), or SettingError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SettingError(setting, value, f"must be {need}")
    if not (math.isfinite(value) and low < value < high):
        raise SettingError(setting, value, f"must be {need}")
    return float(value)


MOST = 2**63 - 1  # what fits into 64 bits with a sign


def count(setting: str, value, least: int = 1, most: int = MOST) -> int:
    """``value`` as a whole number (5e6 is one) from ``least`` to ``most``, or SettingError."""
    whole = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not whole or value != int(value) or value < least:
        raise SettingError(setting, value, "must be a whole number" + f", at least {least}" * (least > -MOST))
    if value > most:
        raise SettingError(setting, value, f"must be a whole number, at most {most}")
    return int(value)


def numbers(setting: str, value, need: str, **limits) -> float | list[float]:
    """A number, or a list of them, one a chain."""
    if isinstance(value, list):
        if not value:
            raise SettingError(setting, value, f"must be {need}, or a list of them, one a chain")
        return [number(setting, one, need=need, **limits) for one in value]
    return number(setting, value, need=need, **limits)


def _positive(setting, value):
    return numbers(setting, value, "a positive number", low=0)


def _not_negative(setting, value):
    return numbers(setting, value, "a number that is not negative", low=-1e-300)


def _keep(setting, value):
    return value if value in ("all", "none") else count(setting, value)


def _cycle_list(setting, value):
    return [count(setting, one) for one in (value if isinstance(value, list) else [value])]


def _mass(setting, value):
    need = "a positive number, a list of them (one a coordinate), or estimate"
    return value if value == "estimate" else numbers(setting, value, need, low=0)


def _trace(setting, value):
    if value is None or value is False:
        return None
    return count(setting, int(value) if value is True else value)


def _auto(setting, value):
    if value != "auto" and not isinstance(value, bool):
        raise SettingError(setting, value, "must be auto, true or false")
    return value


_INFINITE = (math.inf, ".inf", "infinite")  # as Hydra reads inf, as YAML spells it, as the samplers' table says it
_CASTS = {
    "seed": lambda setting, value: count(setting, value, 0, 2**64 - 1),
    "chains": count,
    "data.train_size": count,
    "lr": _positive,
    "step_size": _positive,
    "momentum_decay": lambda setting, value: numbers(
        setting, value, "a momentum decay a whole step, from 0 to 1", low=-1e-300, high=1 + 1e-15
    ),
    "friction": lambda setting, value: math.inf if value in _INFINITE else _not_negative(setting, value),
    "sampler.beta": _not_negative,
    "sampler.b": _not_negative,
    "sampler.alpha": lambda setting, value: number(setting, value, -1, 1, "above -1 and below 1"),
    "sampler.delta": lambda setting, value: number(setting, value, -1, 1, "above -1 and below 1"),
    "sampler.decision_batch": lambda setting, value: count(setting, value, 2),
    "sampler.epsilon": lambda setting, value: number(setting, value, -1e-300, 0.5, "from 0 to below 0.5"),
    "sampler.sigma": lambda setting, value: number(setting, value, 0, 1.2 + 1e-15, "above 0 and at most 1.2"),
    "schedule.every": count,
    "schedule.factor": lambda setting, value: number(setting, value, 0, need="a positive number"),
    "epochs": count,
    "epochs_per_cycle": count,
    "cycles": count,
    "steps_per_cycle": count,
    "burn_in": lambda setting, value: count(setting, value, 0),
    "thin": count,
    "keep": _keep,
    "log_every": count,
    "save_every": count,
    "save_minutes": lambda setting, value: number(setting, value, -1e-300, need="a number of minutes, or 0"),
    "temperature": lambda setting, value: number(setting, value, -1e-300, need="a number that is not negative"),
    "batch_size": count,
    "warm_start.epochs": count,
    "warm_start.lr": lambda setting, value: number(setting, value, 0, need="a positive number"),
    "warm_start.momentum": lambda setting, value: number(setting, value, -1e-300, 1, "from 0 to below 1"),
    "warm_start.batch_size": count,
    "warm_start.weight_decay": lambda setting, value: number(setting, value, -1e-300, need="a number not below 0"),
    "mass": _mass,
    "tune.target": lambda setting, value: number(setting, value, 0, 1, "an acceptance between 0 and 1"),
    "views": count,
    "trace": _trace,
    "compile": _auto,
    "graph": _auto,
    "trace_cycles": _cycle_list,
}


def _cast(config: dict) -> None:
    for key, cast in _CASTS.items():
        value = get(config, key)
        if value is not None:
            put(config, key, cast(key, value))
    for key, known in schema.CHOICES.items():
        value = get(config, key)
        if value is not None and value not in known and not ("model" in key and is_own(config)):
            raise SettingError(key, value, f"must be one of {', '.join(known)}")
    if not is_own(config):
        config["model"] = _typed(schema.MODELS[config["model"]["name"]], config["model"])
    device = config["device"]
    if device not in ("auto", "cpu", "cuda") and not (device.startswith("cuda:") and device[5:].isdigit()):
        raise SettingError("device", device, "must be auto, cpu, cuda or cuda:1")


def _typed(model, values: dict) -> dict:
    """The settings of a model, cast to the types of its dataclass."""
    typed = OmegaConf.structured(model)
    for key, value in values.items():
        if isinstance(typed[key], int) and not isinstance(typed[key], bool) and value is not None:
            value = count(f"model.{key}", value, -MOST)  # its target says what is too small
        try:
            typed[key] = typed[key] if value is None else value
        except OmegaConfBaseException as error:
            kinds = {"Integer": "a whole number", "Float": "a number", "bool": "true or false", "list": "a list"}
            kind = next((kind for sign, kind in kinds.items() if sign in str(error)), "of another type")
            raise SettingError(f"model.{key}", value, f"must be {kind}") from error
    return OmegaConf.to_container(typed)


# What is left unsaid.


def _filled(config: dict, said) -> dict:
    del config["scale"]
    row, model, sampler = sampler_row(config["sampler"]), config["model"], config["sampler"]
    target, data = model["name"], config["data"]["name"]
    network, own = target in NETWORKS, is_own(config)
    if own:
        target = model["_target_"].rpartition(".")[2]
    if target in TOYS and data != "none":
        if "data" in said or "data.name" in said:
            raise SettingError("data", data, f"{target} has no data: leave data out")
        config["data"]["name"] = data = "none"
    if (network or target == "logistic") and data == "none":
        sets = [name for name in schema.options("data") if name != "none"]
        raise SettingError("data", "none", f"{target} needs data: one of {', '.join(sets)}")
    if data == "none" and not own:
        config["data"] |= {"train_size": None, "ood": None}
    word = Word(sampler["word"] or row.word)
    _fill_sampler(sampler, row, word, network, own)
    _fill_friction(config, row, word, network, own, said)
    without_data = data == "none" and not own and target not in OWN_DATA
    _fill_step(config, target, without_data)
    _fill_length(config, row, target, without_data, said)
    if sampler["gradient"] not in ("minibatch", None) or without_data:
        config["batch_size"] = None
    # Networks go through whole shuffled epochs, as the papers' did, where cycles are given in epochs.
    law = "shuffled" if (network or own) and config["epochs_per_cycle"] is not None else "independent"
    stochastic = sampler["gradient"] in ("minibatch", None) and not without_data
    sampler["minibatches"] = (sampler["minibatches"] or law) if stochastic else None
    _fill_schedule(config["schedule"])
    _fill_data(config, network, said)
    _fill_start(config, network, said)
    _check_exact(config, word)
    config["chains"] = _chains(config)
    config["name"] = config["name"] or "-".join([target, *([data] if data != "none" else []), sampler["name"]])
    return config


def _fill_sampler(sampler: dict, row: Sampler, word: Word, network: bool, own: bool) -> None:
    sampler["word"] = word.letters
    sampler["refresh"] = sampler["refresh"] or row.refresh
    sampler["acceptance"] = sampler["acceptance"] or row.acceptance
    if not word.kicks:
        sampler["gradient"] = "none"
    elif sampler["gradient"] is None:
        sampler["gradient"] = row.gradient
        if row.gradient in ("either", "none"):
            # Of a target of one's own only the engine knows whether it is a network.
            sampler["gradient"] = None if own else "minibatch" if network else "full"
    stochastic = sampler["gradient"] in ("minibatch", None)
    sampler["ends"] = (sampler["ends"] or "minibatch") if stochastic else None
    for key, (policy, ways, default) in NUMBERS.items():
        used = sampler[policy] in ways
        sampler[key] = None if not used else default if sampler[key] is None else sampler[key]


def _fill_friction(config: dict, row: Sampler, word: Word, network: bool, own: bool, said) -> None:
    if row.friction == "infinite":
        for way in schema.FRICTION:  # an experiment's friction is not this sampler's
            if way in said and get(config, way) not in (None, math.inf):
                mend = f"is infinite in {config['sampler']['name']}; with less it is sampler=ggmc"
                raise SettingError(way, get(config, way), mend)
            put(config, way, None)
    given = _given(config, schema.FRICTION)
    if not word.refreshes:
        for way in schema.FRICTION:
            put(config, way, None)
    elif len(given) > 1:
        raise SettingError(given[0], get(config, given[0]), f"give one way of saying friction, not {given[1]} as well")
    elif not given and row.friction != "infinite":
        if network:
            config["friction"] = PAPER_FRICTION
        elif not own:  # of a target of one's own the engine knows whether it is a network
            config["friction"] = 1.0


def _fill_step(config: dict, target: str, without_data: bool) -> None:
    given = _given(config, schema.STEP)
    if len(given) == 2:
        raise SettingError("lr", config["lr"], f"give lr or step_size (here {config['step_size']}), not both")
    if not given:
        raise SettingError("lr", "null", "give a learning rate (lr=1e-4) or a step size (step_size=0.01), one of them")
    if config["lr"] is not None and without_data:
        raise SettingError("lr", config["lr"], f"{target} has no data, so it takes step_size (lr = N step_size^2)")


def _fill_length(config: dict, row: Sampler, target: str, without_data: bool, said) -> None:
    if row.steps is not None and config["sampler"]["name"] != "custom":
        for way in schema.CYCLE:
            if way in said and (way, config[way]) != ("steps_per_cycle", row.steps):
                raise SettingError(way, config[way], f"a cycle of {config['sampler']['name']} has {row.steps} step")
        config["steps_per_cycle"], config["epochs_per_cycle"] = row.steps, None
    for ways in (schema.LENGTH, schema.CYCLE):
        if len(_given(config, ways)) == 2:
            raise SettingError(ways[0], config[ways[0]], f"give {ways[0]} or {ways[1]}, not both")
    for way in ("epochs", "epochs_per_cycle"):
        if config[way] is not None and without_data:
            if way in said:
                raise SettingError(way, config[way], f"{target} has no data: give cycles and steps_per_cycle")
            config[way] = None
    if not _given(config, schema.CYCLE):
        config.update({"epochs_per_cycle": 10} if target == "resnet20" else {"steps_per_cycle": 10})
    if not _given(config, schema.LENGTH):
        # The papers' lengths: 3000 epochs of a network; 1000 cycles are what a toy needs to show anything.
        config.update({"epochs": 3000} if config["epochs_per_cycle"] and target == "resnet20" else {"cycles": 1000})
    if config["epochs"] and config["epochs_per_cycle"] and config["epochs"] % config["epochs_per_cycle"]:
        multiple = f"must be a multiple of epochs_per_cycle={config['epochs_per_cycle']}"
        raise SettingError("epochs", config["epochs"], multiple)


def _fill_schedule(schedule: dict) -> None:
    default = Schedule(schedule["name"])
    schedule["direction"] = schedule["direction"] or default.direction
    for key in ("every", "factor"):
        value = getattr(default, key) if schedule[key] is None else schedule[key]
        schedule[key] = value if schedule["name"] == "stairs" else None


def _fill_data(config: dict, network: bool, said) -> None:
    images = (network or is_own(config)) and config["data"]["name"] in ("cifar10", "mnist", "digits")
    if not images:
        if config["augmentation"] not in (None, "none") and "augmentation" in said:
            raise SettingError("augmentation", config["augmentation"], "is for networks on images")
        config["augmentation"] = config["views"] = None
        return
    config["augmentation"] = config["augmentation"] or "none"
    if config["augmentation"] != "averaged":
        config["views"] = None
        return
    config["views"] = config["views"] or 8
    if config["views"] > schema.VIEWS:
        raise SettingError("views", config["views"], f"an image has {schema.VIEWS} flips and crops")


def _fill_start(config: dict, network: bool, said) -> None:
    config["init"] = config["init"] or ("he" if network else None)
    own, data, asked = is_own(config), config["data"]["name"] != "none", "init" in said
    if not network and not own and (config["init"] == "he" or config["init"] == "sgd" and not (data and asked)):
        if asked:
            mend = "is for networks" + " and regressions" * (config["init"] == "sgd")
            raise SettingError("init", config["init"], mend + "; other targets start dispersed, or at init=exact")
        config["init"] = None
    warm = config["warm_start"]
    for key, default in schema.WARM_START.items():
        warm[key] = None if config["init"] != "sgd" else default if warm[key] is None else warm[key]
    if config["tune"]["target"] is not None and not config["burn_in"]:
        raise SettingError("tune.target", config["tune"]["target"], "tunes during the burn-in: give burn_in, in cycles")
    if config["tune"]["trajectory"] is not None:
        if not config["burn_in"]:
            raise SettingError("tune.trajectory", "auto", "chooses during the burn-in: give burn_in, in cycles")
        if config["epochs"] is not None:
            mend = "tune.trajectory chooses how long a cycle is: give cycles"
            raise SettingError("epochs", config["epochs"], mend)
    if config["trace"] is None:
        config["trace_cycles"] = None
    if (cycles := planned_cycles(config)) is not None:
        check_length(config, cycles)


def _check_exact(config: dict, word: Word) -> None:
    """Refuse to correct what has no exact acceptance probability, before any data are read.

    ``sgmcmc.kernel.make_kernel`` has the last word; this asks what the settings alone can tell.
    """
    if config["sampler"]["acceptance"] == "monitor":
        return
    random_direction = config["schedule"]["direction"] == "random"
    schedule = Schedule(config["schedule"]["name"])
    reason = None
    if word.euler:
        reason = "the letter E (Euler-Maruyama) has no backward trajectory (GGMC paper, theorem 1)"
    elif not random_direction and (word.one_sided or schedule.one_sided):
        reason = f"{word.one_sided or schedule.one_sided} (schedule.direction=random mends that)"
    elif config["model"].get("norm") == "bn":
        reason = "batch normalisation makes U depend on how the data are split into batches (model.norm=frn does not)"
    elif config["augmentation"] == "random":
        reason = "random augmentation makes U random (augmentation=averaged fixes the views)"
    if reason:
        raise SettingError(
            "sampler.acceptance",
            config["sampler"]["acceptance"],
            f"there is no exact acceptance probability: {reason}; use sampler.acceptance=monitor",
        )


def _chains(config: dict) -> int:
    """How many chains: ``chains``, a multiple of the lists' lengths, or the longest list's."""
    values = {key: get(config, key) for key in (*schema.STEP, *schema.FRICTION)}
    lists = {key: len(value) for key, value in values.items() if isinstance(value, list)}
    chains = config["chains"] or max(lists.values(), default=1)
    for key, length in lists.items():
        if chains % length:
            mend = f"has {length} values for {chains} chains; give one a chain, or a number of chains each"
            raise SettingError(key, values[key], mend)
    return chains


def _given(config: dict, ways) -> list[str]:
    return [way for way in ways if get(config, way) is not None]
