"""An experiment's grid: from its YAML file to the plain configurations of its runs.

A grid is written once, in the experiment's own file: products under ``hydra.sweeper.params`` (which Hydra's ``-m``
reads, too), paired settings as a list ``points`` that ``point=0,1,…`` chooses from.
"""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from itertools import product

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from experiments.config import GROUPS, _set, composed, resolve, words_for


def sweep(experiment: str, words: tuple[str, ...] = ()) -> list[list[str]]:
    """The words of each run of the experiment's grid, in order; one empty list where it has no grid.

    A setting that ``words`` give is not swept.
    """
    params = _params(experiment)
    said = {word.partition("=")[0] for word in words}
    choices = []
    for key, values in params.items():
        if key in said:
            continue
        override = OverridesParser.create().parse_override(f"{key}={values}")
        each = (
            override.sweep_string_iterator() if override.is_sweep_override() else [override.get_value_element_as_str()]
        )
        choices.append([f"{key}={value}" for value in each])
    return [list(chosen) for chosen in product(*choices)]


def configurations(experiment: str, words: tuple[str, ...] = ()) -> list[dict]:
    """The resolved configurations of the experiment's grid, in the order of ``sweep``.

    Hydra, which is slow, composes once for each combination of groups and points; single values are put in
    afterwards, and resolve alike.
    """
    base = (f"experiment={experiment}", *words)
    configs = []
    for point in sweep(experiment, words):
        chosen = tuple(word for word in point if word.partition("=")[0] in (*GROUPS, "point"))
        config = deepcopy(_composed((*base, *chosen)))
        for word in point:
            if word not in chosen:
                key, _, value = word.partition("=")
                _set(config, key, OmegaConf.create(f"value: {value}").value)
        configs.append(resolve(config, [*base, *point]))
    return configs


@cache
def _params(experiment: str) -> dict[str, str]:
    config = composed([f"experiment={experiment}"], return_hydra_config=True)
    return dict(config.hydra.sweeper.params or {})


@cache
def _composed(words: tuple[str, ...]) -> dict:
    return OmegaConf.to_container(composed(words_for(list(words))), resolve=True)
