"""An experiment's grid: from its YAML file to the plain configurations of its runs.

A grid is written once, in the experiment's own file: products under ``hydra.sweeper.params`` (which Hydra's ``-m``
reads, too), paired settings as a list ``points`` that ``point=0,1,…`` chooses from.
"""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from itertools import product

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf, open_dict

from experiments.config import composed, point_settings, resolve, words_for
from experiments.dotted import put
from experiments.resolved import PRACTICAL
from experiments.schema import GROUPS, WAYS, options
from sgmcmc.errors import SettingError


def sweep(experiment: str, words: tuple[str, ...] = ()) -> list[list[str]]:
    """The words of each run of the experiment's grid, in order; one empty list where it has no grid.

    A setting that ``words`` give, in whatever way, is not swept.
    """
    given = {*_keys(words), *other_ways(experiment, words)}
    (params, points), choices = _params(experiment, words), []
    for key, values in params.items():
        if key in given:
            continue
        if OmegaConf.is_list(values):  # to Hydra one value, which is a list
            mend = f"is one value of experiment={experiment}; a run of each is {key}: {','.join(map(str, values))}"
            raise SettingError(f"hydra.sweeper.params.{key}", values, mend)
        try:
            override = OverridesParser.create().parse_override(f"{key}={values}")
        except HydraException:
            mend = f"of experiment={experiment} is no list of values, such as {key}: 0,1"
            raise SettingError(f"hydra.sweeper.params.{key}", values, mend) from None
        swept = override.is_sweep_override()
        each = list(override.sweep_string_iterator() if swept else [override.get_value_element_as_str()])
        if key == "point" and len(set(each)) < points:
            mend = f"leaves out points of experiment={experiment}, which has {points}: range(0,{points})"
            raise SettingError("hydra.sweeper.params.point", values, mend)
        choices.append([f"{key}={value}" for value in each])
    if points and "point" not in {*params, *given}:
        mend = f"experiment={experiment} has {points} points, which nothing runs: let it say point: range(0,{points})"
        raise SettingError("hydra.sweeper.params.point", "null", mend)
    return [list(chosen) for chosen in product(*choices)]


def other_ways(experiment: str, words: tuple[str, ...]) -> list[str]:
    """The settings that the experiment's grid sweeps and ``words`` give in another way, ``step_size`` for ``lr``.

    They are not swept.
    """
    said, (params, _) = _keys(words), _params(experiment, words)
    return [key for key in params if any(key in ways and said & {*ways} - {key} for ways in WAYS)]


def _keys(words: tuple[str, ...]) -> set[str]:
    return {word.lstrip("+").partition("=")[0] for word in words}


def configurations(experiment: str, words: tuple[str, ...] = (), runs: list[list[str]] | None = None) -> list[dict]:
    """The resolved configurations of the experiment's grid, in the order of ``sweep``; or of other ``runs``, the words
    of each.

    Hydra, which is slow, composes once for each combination of groups; single values, of products and of points, are
    put in afterwards, and resolve alike. Raises SettingError where several runs are one, by the experiment's file or
    by a seed in the place of the points' own: a table would count it as often.
    """
    base = (f"experiment={experiment}", *words)
    configs = []
    for chosen in sweep(experiment, words) if runs is None else runs:
        settings = {key: _value(text) for key, _, text in (word.partition("=") for word in chosen)}
        if "point" in settings:
            whole, point = _composed(base), settings.pop("point")
            said = [*base, *(word for word in chosen if not word.startswith("point="))]
            settings |= point_settings(whole["points"], point, whole, said)
        groups = {key: value for key, value in settings.items() if key in GROUPS}
        config = deepcopy(_composed((*base, *(f"{key}={value}" for key, value in groups.items()))))
        for key, value in settings.items():
            if key not in groups:
                put(config, key, deepcopy(value))
        try:
            configs.append(resolve(config, [*base, *(f"{key}={value}" for key, value in settings.items())]))
        except SettingError as error:
            where = f" (of {' '.join(chosen)}, a run of experiment={experiment})" if chosen else ""
            raise SettingError(error.setting, error.value, error.mend + where) from None
    _refuse_equal(experiment, _keys(words) - {"scale", *PRACTICAL}, base, configs)
    return configs


def _refuse_equal(experiment: str, said: set[str], base: tuple[str, ...], configs: list[dict]) -> None:
    """Refuse an experiment's file that has a run twice, and a seed on the command line that makes several points one
    run, because they differ in their own seeds.

    Other words may do the same: they are for trying an experiment out, in few cycles.
    """
    first: dict[str, int] = {}
    equal = [
        (before, number)
        for number, config in enumerate(configs, 1)
        if (before := first.setdefault(json.dumps(config, sort_keys=True), number)) < number
    ]
    if equal and not said:
        before, number = equal[0]
        mend = f"has a run twice, the {before}. and the {number}. of its grid, which its tables would count as two"
        raise SettingError("experiment", experiment, mend)
    if equal and "seed" in said and any("seed" in point for point in _composed(base)["points"] or []):
        seed = configs[0]["seed"]
        mend = f"makes the {len(configs)} runs of {base[0]} {len(first)}, for its points say it, too: "
        raise SettingError("seed", seed, mend + f"run them one at a time, python run.py … point=0 seed={seed}")


def _value(text: str):
    return OmegaConf.create(f"value: {text}").value


def _params(experiment: str, words: tuple[str, ...]) -> tuple[dict[str, str], int]:
    """What the experiment's file sweeps, and how many points it has: at the scale of the words, which changes neither,
    because there ``configurations`` needs the composition, too."""
    scales = [f"scale={name}" for name in options("scale")]
    scale = next((word for word in words if word in scales), "scale=paper")
    composition, params = _composition((f"experiment={experiment}", scale))
    return params, len(composition["points"] or [])


def _composed(words: tuple[str, ...]) -> dict:
    return _composition(words)[0]


@cache
def _composition(words: tuple[str, ...]) -> tuple[dict, dict[str, str]]:
    """What Hydra, which is slow, makes of the words: the plain configuration, and what its sweep is of."""
    config = composed(words_for(list(words)), return_hydra_config=True)
    params = dict(config.hydra.sweeper.params or {})
    with open_dict(config):
        del config.hydra
    return OmegaConf.to_container(config, resolve=True), params
