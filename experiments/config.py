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
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from experiments import schema
from experiments.dotted import flatten, get, put
from experiments.resolved import is_own, planned_cycles, sampler_row
from experiments.unsaid import filled
from experiments.values import cast, cast_texts
from sgmcmc.errors import SettingError, nearest
from sgmcmc.words import Word

TEXTS = ("name", "output", "data.root", "init")  # settings whose values are names that one makes up
MARKS = frozenset("=#&;!^<>`~")  # what Hydra takes in quotes alone, and names of folders may have


def words_for(words: list[str]) -> list[str]:
    """The words as Hydra takes them: quoted where its grammar needs it, ``+`` before settings of a scale's block, and
    with what is unsaid about a model of one's own: ``model._target_=package.Class`` chooses ``model=custom``, whose
    keyword arguments are free (``model.width=3``). SettingError for a group's option that is no name, as null."""
    words = [_quoted(word) for word in words if word.lstrip("+").lower() != "experiment=null"]
    # A scale's block may have the setting already, or not yet.
    words = [f"+{word}" if word.startswith(("+quick.", "+smoke.")) else word for word in words]
    for word in words:
        key, _, value = word.lstrip("+").partition("=")
        if key in schema.GROUPS and value.startswith("["):  # of which Hydra would take the last
            each = "".join(value.strip("[] ").split())
            raise SettingError(key, value, f"give one of them, or -m {key}={each} for a run of each")
        if key in schema.GROUPS and (value.startswith("{") or not _may_be_a_name(value)):
            raise SettingError(key, value, f"must be one of {', '.join(schema.options(key))}")
    if not any(word.startswith("model._target_=") for word in words):
        return list(words)
    free = [f"++{word}" if word.startswith("model.") else word for word in words]
    if not any(word.startswith("model=") for word in words):
        free.insert(next(at for at, word in enumerate(free) if "model._target_=" in word), "model=custom")
    return free


def _quoted(word: str) -> str:
    """The word with its value in quotes where that has letters beyond ASCII or begins with the ~ of a home folder, for
    which Hydra's grammar has no place; or is a text that it would read as a number, as name=2024_01_12 is, or refuse,
    as output=lr=0.1 is."""
    key, _, value = word.partition("=")
    text = key.lstrip("+") in TEXTS and value.strip().lower() != "null"
    text = text and (not _may_be_a_name(value) or bool(MARKS & {*value}))
    known = value.isascii() and not value.startswith("~") and not text
    if word.startswith("-") or known or any(mark in value for mark in "'\"[]{}()$,"):
        return word
    return f"{key}='{value}'"


def _may_be_a_name(value: str) -> bool:
    """Whether Hydra reads the text as a name: not as null, true, false or a number."""
    try:
        float(value)
    except ValueError:
        return value.strip().lower() not in ("null", "true", "false")
    return False


def compose(words: Sequence[str] = ()) -> dict:
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


def resolve(cfg: DictConfig | dict, words: Sequence[str] = ()) -> dict:
    """The plain dict of one run: blocks applied, numbers cast, defaults of the model and the sampler filled in.

    ``words`` are the words of the command line that ``cfg`` was composed from; their values win over the
    experiment's block. A setting that the sampler or the target has no use for becomes None (``unused`` lists
    those that were asked for). Raises SettingError.
    """
    config = OmegaConf.to_container(cfg, resolve=True) if OmegaConf.is_config(cfg) else json.loads(json.dumps(cfg))
    said = _said(words)
    for key, default in _defaults().items():
        # A default is what null, and a setting that was taken out with ~, stand for.
        if get(config, key) is None:
            put(config, key, default)
    points, point = config.pop("points"), config.pop("point")
    if point is not None:
        return _compose_point(points, point, config, words)
    blocks = {scale: config.pop(scale, None) or {} for scale in ("quick", "smoke")}
    block = flatten(blocks.get(config["scale"], {}))
    for key in (*schema.GROUPS, "point"):
        if isinstance(block.get(key), str) or key in block and key == "point":
            mend = f"a scale's block says settings of its own, and chooses no {key}: {key}={block[key]} does"
            raise SettingError(f"{config['scale']}.{key}", block[key], mend)
    of_block = block.keys() - said
    _apply(config, block, said)
    _put_aside(config, said)
    cast_texts(config)
    _drop_other_models(config, said, block)
    _drop_other_policies(config, said)
    _check_keys(config, of_block)
    for key, value in flatten(config).items():
        if value == "???":  # OmegaConf's mark of what is missing
            raise SettingError(key, value, "needs a value")
    cast(config)
    return filled(config, said)


@cache
def _defaults() -> dict[str, Any]:
    return flatten(OmegaConf.to_container(OmegaConf.structured(schema.Settings)))


def unused(config: dict, words: list[str]) -> list[str]:
    """The words that set what the resolved ``config`` has no use for."""
    said, found = _said(words), []
    block, gradient = said.get("scale", "scale=paper").partition("=")[2] + ".", config["sampler"]["gradient"]
    # What has a value there, and is not used all the same; or, as he, none, and is.
    idle = {
        "model.name": is_own(config),
        "scale": "experiment" not in said and not any(key.startswith(block) for key in said),
        "sampler.gradient": gradient == "none",
        **dict.fromkeys(("warm_start", "warm_start.init"), config["init"] != "sgd"),
    }
    if (config["schedule"]["every"] or 0) >= (planned_cycles(config) or math.inf):
        idle |= dict.fromkeys(("schedule", "schedule.every", "schedule.factor"), True)
    if sampler_row(config["sampler"]).friction == "infinite" and config["sampler"]["word"].startswith("O"):
        idle |= dict.fromkeys(("sampler.refresh", "sampler.alpha"), True)  # the O draws the momentum anew
    if get(config, "model.noise") is not None:
        idle["model.noise"] = gradient in ("full", "none") and get(config, "model.noise") != 0
    idle |= {key: not key.startswith(block) for key in said if key.startswith(("quick.", "smoke."))}
    idle = {**dict.fromkeys(("point", *schema.GROUPS), False), **idle}
    known = schema.settings()
    for key, word in said.items():
        value = word.partition("=")[2].lower()
        if value in ("null", "") or (key, value) == ("trace", "false"):
            continue
        if idle.get(key, key in known and get(config, key) is None):
            found.append(word)
    return found


# Layers: point over experiment, block over point, command line over all.


def _compose_point(points, point, config, words) -> dict:
    """The configuration of one of an experiment's ``points``."""
    others = [word for word in words if word.partition("=")[0] != "point"]
    settings = point_settings(points, point, config, others)
    typed = [f"{key}={'null' if value is None else value}" for key, value in settings.items()]
    # A scale's own value may be of a setting that the experiment's block for it has not.
    return compose([*others, *(f"++{word}" if word.startswith(("quick.", "smoke.")) else word for word in typed)])


def point_settings(points, point, config, words) -> dict[str, Any]:
    """The settings of one of an experiment's ``points``, which stand as if they had been typed, but for those that the
    ``words`` give, or the block of the ``config``'s scale, in the block itself or in the point (``quick.KEY``)."""
    if not isinstance(points, list):
        raise SettingError("point", point, "chooses one of an experiment's points, and there are none here")
    if not isinstance(point, int) or isinstance(point, bool) or not 0 <= point < len(points):
        raise SettingError("point", point, f"must be a whole number from 0 to {len(points) - 1}")
    if not isinstance(points[point], dict):
        mend = f"must be settings, such as {{lr: 0.1}}: point={point} chooses it"
        raise SettingError("points", points[point], mend)
    scale = config["scale"]
    typed = _said(words)
    here = {key.removeprefix(f"{scale}.") for key in typed if key.startswith(f"{scale}.")}
    own = {key: key.removeprefix(f"{scale}.") for key in points[point] if key.startswith(f"{scale}.")}
    said = {**typed, **flatten(config.get(scale) or {}), **dict.fromkeys(own.values())}

    def gone(key: str) -> bool:
        if key in own:
            return _covered(own[key], typed) or _covered(own[key], here, groups=False)
        return _covered(key, said)

    return {key: value for key, value in points[point].items() if not gone(key)}


def _said(words) -> dict[str, str]:
    """The dotted settings that the words give a value, with their words."""
    said = {}
    for word in words:
        key = word.lstrip("+~").partition("=")[0].partition("@")[0]
        said[key] = word
    return said


def _apply(config: dict, block: dict, said) -> None:
    """Put the values of ``block`` into ``config``, but for those that the command line gives, in whatever way.

    A value that the command line, or a point, says of the block itself (``quick.KEY``) is of the group that it says,
    and is ``said`` from here on.
    """
    own = [key for key in block if f"{config['scale']}.{key}" in said]
    flat = {key: value for key, value in block.items() if not _covered(key, said, groups=key not in own)}
    said |= {key: said[f"{config['scale']}.{key}"] for key in own if key in flat}
    for key, value in flat.items():
        put(config, key, value)
    _put_aside(config, flat)


def _covered(key: str, said, groups: bool = True) -> bool:
    """Whether what is ``said`` gives the setting a value, by its own name, its group's, or another way of saying it."""
    if key == "sampler.minibatches":  # of the data, whichever sampler goes through them
        return key in said
    parts = key.split(".")
    same = next((ways for ways in schema.WAYS if key in ways), ())
    names = [".".join(parts[:size]) for size in range(1, len(parts))] if groups else []
    return any(name in said for name in (*names, key, *same))


def _put_aside(config: dict, latest) -> None:
    """Where the latest layer says one thing in one way, what earlier layers said in others is gone."""
    for ways in schema.WAYS:
        if any(way in latest and get(config, way) is not None for way in ways):
            for way in ways:
                if way not in latest:
                    put(config, way, None)


def _drop_other_models(config: dict, said, block) -> None:
    """Where the command line or the scale's block chooses another model, what is said of the experiment's is gone."""
    model, chosen = config["model"], "model" in said or "model.name" in block
    if chosen and isinstance(model, dict) and str(model.get("name")) in schema.MODELS:
        mine = schema.dotted(schema.MODELS[model["name"]])
        config["model"] = {key: one for key, one in model.items() if key in mine or f"model.{key}" in said}


def _drop_other_policies(config: dict, said) -> None:
    """Where the command line chooses another sampler than the experiment's own and those of its grid, what the file
    says of policies is gone.

    What the experiment says of its data stays: batches, exact ends where the other word has gradients there, and
    that nothing is corrected.
    """
    experiment = said.get("experiment", "").partition("=")[2]
    path = schema.CONF / "experiment" / f"{experiment}.yaml"
    if "sampler" not in said or not path.is_file():
        return
    own, sampler = _own_samplers(path, path.stat().st_mtime_ns), config["sampler"]
    if not own or sampler["name"] in own:
        return
    kept = ["name", "ends", "minibatches", *(["acceptance"] if sampler["acceptance"] == "monitor" else [])]
    kept += [key for key in sampler if f"sampler.{key}" in said]
    config["sampler"] = {key: value if key in kept else None for key, value in sampler.items()}
    word = config["sampler"]["word"] or sampler_row(config["sampler"]).word
    if "sampler.ends" not in said and not Word(word).kicks_at_both_ends:
        config["sampler"]["ends"] = None


@cache
def _own_samplers(path: Path, changed: int) -> set[str]:
    """The sampler that an experiment's file, as it was changed last, says, and those of its grid; none where it says
    none."""
    file = OmegaConf.load(path)
    own = {line["override /sampler"] for line in file.get("defaults") or [] if "override /sampler" in line}
    swept = str(OmegaConf.select(file, "hydra.sweeper.params.sampler", default="")).split(",")
    swept += [str(point["sampler"]) for point in file.get("points") or [] if "sampler" in point]
    return own | {name.strip() for name in swept} if own else own


def _check_keys(config: dict, block: set[str]) -> None:
    """Refuse what no schema knows: a key that was added with ``+``, or by an experiment's ``block`` for the scale."""
    known = set(schema.dotted(schema.Settings))
    model = config["model"] = config["model"] or {}
    if not isinstance(model, dict):
        raise SettingError("model", model, "must be one of " + ", ".join(schema.options("model")))
    if model.get("_target_") == "???":
        raise SettingError("model._target_", "null", "model=custom needs a class: model._target_=mypackage.MyModel")
    own, name = is_own(config), model.get("name")
    if not own and not (isinstance(name, str) and name in schema.MODELS):
        raise SettingError("model.name", name, nearest(name, schema.MODELS, "choose it with model="))
    mine = [] if own else [f"model.{name}" for name in schema.dotted(schema.MODELS[name])]
    for key, value in flatten({key: value for key, value in config.items() if not (key == "model" and own)}).items():
        if key not in known and key not in mine:
            mend = nearest(key, [*known, *mine, *schema.GROUPS], "there is no such setting; see --help")
            if key in block:
                key, mend = f"{config['scale']}.{key}", f"{mend} (of the experiment's block for that scale)"
            raise SettingError(key, value, mend)
