"""Nested dicts by dotted settings, as the command line writes them: ``sampler.name``."""

from __future__ import annotations

from typing import Any


def flatten(tree: dict, prefix: str = "") -> dict[str, Any]:
    """The values by their dotted settings; of an empty dict nothing stays."""
    flat = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def get(config: dict, key: str):
    """The value of a dotted setting; None where there is none."""
    value = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def put(config: dict, key: str, value) -> None:
    """Give a dotted setting its value, and make the dicts on the way that are missing."""
    *path, last = key.split(".")
    for part in path:
        if not isinstance(config.get(part), dict):
            config[part] = {}
        config = config[part]
    config[last] = value
