"""From a resolved configuration to the library's pieces: target, kernel, plan, where chains start.

Here the run's learning rate becomes its step size, h = √(ℓ/N), epochs become numbers of steps and of cycles, and names
become classes. (Of a kernel that is made, ``sgmcmc.ladder.steps_of_epochs`` counts the steps of another number of
epochs.)
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import random as python
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy
import torch
from torch import Tensor

from experiments.dotted import flatten, get
from experiments.resolved import (
    FRICTION,
    OWN_DATA,
    PAPER_FRICTION,
    STARTS,
    check_length,
    is_own,
    log_every,
    planned_cycles,
    sampler_row,
    schedule_of,
    scientific,
)
from sgmcmc import LAW, disk, kept
from sgmcmc.arguments import check_memory, find_device, one_a_chain
from sgmcmc.captured import why_not_captured
from sgmcmc.checks import check_target, check_tensor
from sgmcmc.compiled import compiles
from sgmcmc.data import Data, Dataset, load
from sgmcmc.environment import needs_memory, of_the_machine
from sgmcmc.errors import DataError, NoDevice, NoRoom, SettingError, StoreError
from sgmcmc.evaluate import asked
from sgmcmc.formats import READABLE, read_status
from sgmcmc.kernel import Friction, Kernel, make_kernel, step_size_of
from sgmcmc.models import MLP
from sgmcmc.models import build as build_network
from sgmcmc.plan import Plan
from sgmcmc.potentials import (
    Potential,
    analytic,
    check_attributes,
    groups,
    is_network,
    lacking,
    location,
    mixed,
    own_method,
    regression,
    together,
)
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.random import Random
from sgmcmc.samplers import NUMBERS
from sgmcmc.warm_start import sgd
from sgmcmc.words import Word

TARGETS = {
    "double_well": analytic.DoubleWell,
    "banana": analytic.Banana,
    "mixture": analytic.Mixture,
    "gaussian": analytic.Gaussian,
    "gaussian_pairs": analytic.GaussianPairs,
    "quartic": analytic.Quartic,
    "mixed": mixed.MixedBinary,
    "hierarchical_regression": regression.HierarchicalRegression,
    "logistic_generated": regression.GeneratedLogistic,
    "location_mixture": location.LocationMixture,
}
MANY_CHAINS, FEW_WEIGHTS = 8, 10_000  # of perceptrons whose chains go together


@dataclass
class Pieces:
    """What ``sgmcmc.run`` is called with."""

    potential: Potential
    kernel: Kernel
    plan: Plan
    random: Random
    chains: int
    initial: Callable[[], Tensor]
    predictions: dict = field(default_factory=dict)


def build(config: dict, whole: int | None = None) -> Pieces:
    """The pieces of a run. Reads (or downloads) its data; writes nothing else.

    Raises SettingError and DataError. ``whole``: how many cycles the run is to have in the end, where these are a part.
    """
    device, dtype = find_device(config["device"]), getattr(torch, config["dtype"])
    data = load_data(config)
    if isinstance(dim := config["model"].get("dim"), int):
        check_memory(config["chains"], dim, device)  # the target has vectors of as many numbers, too
    potential = build_potential(config, data, device, dtype)
    check_memory(config["chains"], potential.dim, device)
    kernel = build_kernel(config, potential, dtype)
    join(config, potential, device)
    plan = build_plan(config, potential, kernel, device, whole)
    random = Random(config["seed"], device)
    initial = starts(config, potential, kernel, random, device, dtype)
    predictions = _predictions(config, data, potential, device)
    return Pieces(potential, kernel, plan, random, config["chains"], initial, predictions)


def reopened(folder: str | Path, device: str | torch.device = "cpu", root: str | None = None) -> tuple[Potential, Data]:
    """A run's target and its data again, from its ``config.yaml``, on ``device``; ``root`` is where the data lie, by
    default SGMCMC_DATA or where they were.

    ``potential.state_dict(draws[-1, 0])`` is a draw of a network as torch has it. Raises SettingError, also where a
    class of one's own was edited since, and DataError.
    """
    config, device = settings_of(folder, root), find_device(device)
    data, dtype = load_data(config), getattr(torch, config["dtype"])
    potential = build_potential(config, data, device, dtype)
    if is_own(config):
        kernel, run = build_kernel(config, potential, dtype), Path(os.path.expanduser(folder))
        try:
            kept.known(run, read_status(run)["identity"]["hash"], kernel, potential, dtype, device)
        except SettingError as error:
            mend = "gives another U or gradient than when the run was begun: its draws are of the class as it was then"
            raise SettingError(error.setting, error.value, mend) from None
    return potential, predictable(data, potential)


def settings_of(folder: str | Path, root: str | None = None) -> dict:
    """A run's settings, from its ``config.yaml``, with its data where they are now; ``root`` as in ``reopened``."""
    from omegaconf import OmegaConf  # which a machine that only computes can do without

    path = Path(os.path.expanduser(folder), "config.yaml")
    if not path.is_file():
        raise SettingError("folder", folder, "is not a run folder: it has no config.yaml")
    try:
        with disk.told(path, READABLE):
            config = OmegaConf.to_container(OmegaConf.load(path))
    except (UnicodeDecodeError, RecursionError):  # bytes that are no text, or brackets without end
        config = None
    if not isinstance(config, dict) or not all(isinstance(config.get(one), dict) for one in ("data", "model")):
        mend = "is of sgmcmc.sample, or its config.yaml is damaged: no setting says what its target is"
        raise SettingError("folder", folder, mend)
    if edited := edits(path.parent):
        mend = f"its config.yaml was edited ({edited}): the run's own command writes it anew"
        raise SettingError("folder", folder, mend)
    config["data"]["root"] = root or os.environ.get("SGMCMC_DATA") or config["data"]["root"]
    if config["model"].get("name") in OWN_DATA:
        config["data"]["name"] = "none"  # a grid's points may name the set of its others
    return config


def edits(folder: Path) -> str | None:
    """In which settings a run's ``config.yaml`` is not what its ``status.json`` knows the run by, in words; None where
    in none, or the status cannot be read, or is of another ``LAW``."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, ImportError, StoreError):
        text, identity = (folder / "config.yaml").read_text(encoding="utf-8"), read_status(folder)["identity"]
        if identity["law"] != LAW:
            return None
        parsed = _parsed(text)
        if not isinstance(parsed, dict):
            return "it is damaged"
        there, known = flatten(scientific(parsed)), flatten(identity["settings"])
        names = [name for name in known | there if there.get(name) != known.get(name)]
        return "; ".join(f"{name}={there.get(name)}, not {known.get(name)}" for name in names[:3]) or None
    return None


def _parsed(text: str):
    """What ``resolved.show`` wrote: JSON where there was no YAML, which reads 1e-6 as a word. None, or something else
    than a dictionary, where it is damaged."""
    if text.lstrip().startswith("{"):
        with suppress(ValueError):
            return json.loads(text)
        return None
    import yaml  # which a machine that only computes can do without

    with suppress(yaml.YAMLError):
        return yaml.safe_load(text)
    return None


def predictable(data: Data, potential: Potential) -> Data:
    """The data that the settings name; where they name none, those that a target of one's own has brought."""
    if data.train is not None:
        return data
    return Data(_brought(potential, "train"), _brought(potential, "test"))


def _brought(potential: Potential, name: str) -> Dataset | None:
    """The data set ``name`` of a target of one's own; None where it is empty or none (of a module a method)."""
    data = getattr(potential, name, None)
    if not isinstance(data, Dataset) or not len(data):
        return None
    as_it_is = not data.has_images and not isinstance(potential, NetworkPotential)  # see ``asked``
    return replace(data, name=data.name or "its own data", **({"mean": None, "std": None} if as_it_is else {}))


def foreign(setting: str, name: str, data: Dataset, train: Dataset) -> Dataset:
    """The data set ``name`` from elsewhere, which ``setting`` asks for, as a model of ``train`` takes it."""
    try:
        return data.like(train)
    except SettingError as error:
        raise SettingError(setting, name, f"its inputs are {error.value}, and {error.mend}") from None


def load_data(config: dict) -> Data:
    """The training and the test set, on the CPU; both None for targets without data."""
    settings = config["data"]
    if settings["name"] == "none" or config["model"].get("name") in OWN_DATA:
        return Data(None, None)
    data = load(settings["name"], settings["root"], settings["train_size"])
    if data.train is None:
        raise SettingError("data", settings["name"], "has no training data: it is for data.ood")
    return data


def build_potential(config: dict, data: Data, device: torch.device, dtype: torch.dtype) -> Potential:
    """The target that ``model`` names."""
    settings = {key: value for key, value in config["model"].items() if key != "name"}
    name = config["model"]["name"]
    try:
        if is_own(config):
            return _own(config, settings, data, device, dtype)
        if name in TARGETS:
            return TARGETS[name](**{key: value for key, value in settings.items() if value is not None})
        if name == "logistic":
            return regression.LogisticRegression(data.train.to(device), test=data.test, **settings)
        prior = settings.pop("prior") if "prior" in settings else settings.pop("prior_variance")
        prior = {"prior": prior, "flat_norms": settings.pop("flat_norms", False)}
        return _network(config, build_network(name, data.train, **settings), data, device, dtype, **prior)
    except SettingError as error:
        # A target names its own arguments; the command line calls them model.….
        if error.setting == "model.prior" and name == "mlp":
            error = SettingError("model.prior_variance", error.value, error.mend)
        if error.setting in config["model"]:
            error = SettingError(f"model.{error.setting}", error.value, error.mend)
        raise error from None
    except (RuntimeError, MemoryError) as error:
        if not needs_memory(error):
            raise
        where = "this machine" if device.type == "cpu" else "the device"
        raise NoRoom("model", name, f"needs more memory than {where} has: make it smaller") from error


def _network(config, module, data, device, dtype, **prior) -> NetworkPotential:
    """``prior`` may have ``prior`` and ``flat_norms``."""
    return NetworkPotential(
        module,
        data.train,
        **prior,
        augmentation=config["augmentation"] or "none",
        views=config["views"] or 1,
        # Frozen views are part of U, which the chains of all seeds have in common.
        seed=config["seed"] if config["augmentation"] == "random" else 0,
        device=device,
        dtype=dtype,
        # With batch normalisation U depends on the split: that of the minibatches, as the authors ran it.
        evaluation_batch=config["batch_size"] if config["model"].get("norm") == "bn" else None,
    )


def _own(config: dict, settings: dict, data: Data, device, dtype) -> Potential:
    """A target of one's own: a class with the three methods of a target, or a ``torch.nn.Module`` to logits.

    The constructor gets the keyword arguments of ``model.…`` and, by name, those of ``data`` (the training set),
    ``test``, ``device``, ``dtype`` and ``seed`` that it takes. What it draws from the generators of torch, NumPy and
    Python is always the same. ``model.prior`` (a network's: see ``prior_std``) and ``model.flat_norms`` are not a
    module's own, unless it takes them.
    """
    target = settings.pop("_target_")
    offered = {"data": data.train, "test": data.test, "device": device, "dtype": dtype, "seed": config["seed"]}
    try:
        with _drawing_alike(device):
            make = _found(target)
        if isinstance(make, torch.nn.Module) or not callable(make):
            mend = f"is an object of class {type(make).__name__}: name the class, or a function that returns the object"
            raise SettingError("model._target_", target, mend)
        taken = inspect.signature(make).parameters
        anything = any(one.kind is one.VAR_KEYWORD for one in taken.values())
        given, prior = _arguments(target, taken, anything, offered, settings)
        # What it draws is the same in every process, and of every seed: the chains of several have one target.
        with _drawing_alike(device):
            own = make(**given)
    except SettingError:
        raise
    except Exception as error:
        if of_the_machine(error):
            raise
        found = "; it is looked for in the current folder too" if isinstance(error, ImportError) else ""
        why = f"{target} cannot be used ({type(error).__name__}: {error}){found}"
        raise SettingError("model._target_", target, why) from error
    module = isinstance(own, torch.nn.Module) and not hasattr(own, "potential")
    if data.train is not None and not (module or {"data", "test"} & taken.keys()):
        raise SettingError("data", config["data"]["name"], f"{target} takes neither data nor test: leave data out")
    if module:
        if data.train is None:
            raise SettingError("data", "none", f"{target} is a network, and needs data, such as data=digits")
        return _network(config, own, data, device, dtype, **prior)
    _check_own(config, target, own, prior)
    if isinstance(own, NetworkPotential):
        _check_handed_on(config, target, own, device, dtype)
    return own


@contextmanager
def _drawing_alike(device: torch.device) -> Iterator[None]:
    """Within, the generators of torch, NumPy and Python, which begin anew in each process, begin as in any other."""
    before = numpy.random.get_state(), python.getstate()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for seed in (torch.manual_seed, numpy.random.seed, python.seed):
            seed(0)
        try:
            yield
        finally:
            numpy.random.set_state(before[0])
            python.setstate(before[1])


def _found(target: str) -> Callable:
    """What the dotted name ``target`` names, looked for in the current folder first. SettingError for a name without
    dots; what the import raises is the caller's."""
    package, _, name = target.rpartition(".")
    if not (package and name):
        raise SettingError("model._target_", target, "must be module.Class, such as mine.Ring")
    here = os.getcwd()
    if "" not in sys.path and here not in sys.path:
        sys.path.append(here)  # what the class imports later
    sys.path.insert(0, here)  # before a module of that name beside run.py
    try:
        return getattr(importlib.import_module(package), name)
    finally:
        sys.path.remove(here)


def _arguments(target: str, taken, anything: bool, offered: dict, settings: dict) -> tuple[dict, dict]:
    """The keyword arguments for a constructor with the parameters ``taken`` (or that takes ``anything``): of what is
    ``offered`` what it takes by name, and all ``settings``; and beside them a network's prior, which it does not take.

    SettingError for a setting that it does not take, and for an argument that it needs and is not given.
    """
    networks = {"prior", "flat_norms"} & settings.keys() - (settings.keys() if anything else taken.keys())
    prior = {key: value for key in sorted(networks) if (value := settings.pop(key)) is not None}
    given = {key: value for key, value in offered.items() if key in taken} | settings
    for key in [] if anything else sorted(given.keys() - taken.keys()):
        known = ", ".join(taken) or "no arguments"
        raise SettingError(f"model.{key}", given[key], f"{target} does not take it; it takes {known}")
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for key, one in taken.items():
        required = one.kind in named and one.default is one.empty
        if required and key == "data" and offered["data"] is None:
            raise SettingError("data", "none", f"{target} takes data: give some, such as data=digits")
        if required and key not in given:
            raise SettingError(f"model.{key}", "null", f"{target} needs it: give model.{key}=")
    return given, prior


def _check_own(config: dict, target: str, own, prior: dict) -> None:
    """Refuse a target that lacks something, and settings of a network (its ``prior``, augmentation) that a target which
    is no module has not taken."""
    for key, value in prior.items():
        mend = f"is a network's, and {target} is none and does not take it"
        if isinstance(own, NetworkPotential):
            mend = f"{target} does not take it: let it take {key}, and give that to NetworkPotential"
        raise SettingError(f"model.{key}", value, mend)
    if missing := lacking(own):
        why = f"{target} cannot be used: a target has {', '.join(missing)}, too"
        raise SettingError("model._target_", target, why)
    check_attributes(own)
    for key, unsaid in (("augmentation", "none"), ("views", 1)):
        if config[key] not in (None, unsaid, getattr(own, key, None)):
            mend = f"{target} makes its target itself: give it to NetworkPotential there"
            raise SettingError(key, config[key], mend)


def _check_handed_on(config: dict, target: str, own: NetworkPotential, device, dtype) -> None:
    """Refuse a network that was made on another device than the run's, or of less precision: its U would stay so.

    One of more precision is fine: its U is that of the chain's float32 numbers.
    """
    if dtype == torch.float64 != own.dtype:
        kind = str(own.dtype).removeprefix("torch.")
        mend = f"{target} makes a network of {kind}: let it take dtype, and give that to NetworkPotential"
        raise SettingError("dtype", config["dtype"], mend)
    if own.device.type != device.type:
        here = f"makes a network on {own.device.type}, and the run is on {device.type}"
        mend = f"{target} {here}: let it take device, and give that to NetworkPotential"
        raise SettingError("device", config["device"], mend)


def step_size(config: dict, size: int) -> float | list[float]:
    """h, from ``step_size`` or as √(ℓ/N)."""
    if config["step_size"] is not None:
        return config["step_size"]
    rate = config["lr"]
    if not size:
        raise SettingError("lr", rate, "the target has no data, so it takes step_size (lr = N step_size^2)")
    return step_size_of(rate, size)


def batches_an_epoch(config: dict, potential: Potential, gradient: str) -> int:
    """Gradients an epoch: N/B of minibatches, 1 of the full gradient. Raises SettingError where B does not divide N."""
    size, batch = potential.data_size, config["batch_size"]
    if not size:
        setting = "epochs" if config["epochs"] else "epochs_per_cycle"
        raise SettingError(setting, config[setting], "the target has no data: give cycles and steps_per_cycle")
    if gradient != "minibatch":
        return 1
    if batch is None:
        raise SettingError("batch_size", "null", f"give the size of a minibatch: a divisor of {size}")
    if size % batch:
        near = divisors(size, batch)
        mend = f"does not divide the {size} data, so no number of steps is an epoch; {near[0]} or {near[-1]} does"
        raise SettingError("batch_size", batch, f"{mend}, or give cycles and steps_per_cycle")
    return size // batch


def divisors(number: int, near: int) -> list[int]:
    """The two divisors of a number that lie nearest to another, or its only one."""
    found = [one for one in range(1, number + 1) if number % one == 0]
    return sorted(sorted(found, key=lambda one: abs(one - near))[:2])


def steps_a_cycle(config: dict, potential: Potential, word: Word, gradient: str) -> int:
    """L: ``steps_per_cycle``, or so many steps that the minibatches of a cycle are ``epochs_per_cycle`` epochs.

    Where ``ends=exact`` takes the gradient at both ends from all data, the minibatches are those between (10 epochs
    of 400 are 4,001 steps of OBABO, as in the GGMC paper's code); else one gradient a step is counted.
    """
    if config["steps_per_cycle"] is not None:
        return config["steps_per_cycle"]
    epochs, each = config["epochs_per_cycle"], batches_an_epoch(config, potential, gradient)
    first, more = word.gradient_points(1), word.gradients_a_step
    exact_ends = gradient == "minibatch" and config["sampler"]["ends"] == "exact"
    # first + (L - 1) more gradients in L steps, two of them exact; or `more` of them a step.
    beside = 2 - first + more if exact_ends else 0
    steps, left = divmod(epochs * each + beside, more)
    if left:
        mend = f"is no whole number of steps, with {each} gradients an epoch and {more} a step of {word.letters}; give "
        fit = [f"epochs_per_cycle={some} or " for some in range(1, more + 1) if (some * each + beside) % more == 0]
        raise SettingError("epochs_per_cycle", epochs, f"{mend}{fit[0] if fit else ''}steps_per_cycle")
    return steps


def build_kernel(config: dict, potential: Potential, dtype: torch.dtype) -> Kernel:
    """The kernel; ``make_kernel`` refuses what cannot be."""
    chains, sampler = config["chains"], config["sampler"]
    row, word = sampler_row(sampler), Word(sampler["word"])
    h = one_a_chain("step_size", step_size(config, potential.data_size), chains)
    gradient = sampler["gradient"] or ("minibatch" if is_network(potential) else "full")
    ways = {way.removeprefix("sampler."): one_a_chain(way, get(config, way), chains) for way in FRICTION}
    friction = Friction.of(h, word.euler, **ways)
    if friction and friction.said[0] in sampler:  # the command line calls them sampler.…
        friction = replace(friction, said=(f"sampler.{friction.said[0]}", sampler[friction.said[0]]))
    has_friction = (word.refreshes or row.rescaled) and row.friction != "infinite"
    if friction is None and is_network(potential) and has_friction:
        friction = Friction("gamma", PAPER_FRICTION)
    return make_kernel(
        row,
        potential,
        h,
        steps=steps_a_cycle(config, potential, word, gradient),
        friction=friction,
        word=word.letters,
        temperature=config["temperature"],
        mass=1.0 if config["mass"] in (None, "estimate") else config["mass"],
        refresh=sampler["refresh"],
        acceptance=sampler["acceptance"],
        **{name: sampler[name] for name in NUMBERS},
        gradient=gradient,
        ends=sampler["ends"] or "minibatch",
        minibatches=sampler["minibatches"] or "independent",
        batch_size=config["batch_size"],
        schedule=schedule_of(config),
        dtype=dtype,
    )


def build_plan(
    config: dict, potential: Potential, kernel: Kernel, device: torch.device, whole: int | None = None
) -> Plan:
    """How long, what is kept, what is measured; compiled if that pays by the end of the ``whole``."""
    epochs = config["epochs_per_cycle"]
    cycles, tuned = count_cycles(config, potential, kernel), config["tune"]["trajectory"] is not None
    if planned_cycles(config) is None:  # what the settings alone tell is checked, of the whole run, where they are read
        check_length(config, cycles)
    return Plan(
        cycles=cycles,
        burn_in=config["burn_in"],
        thin=config["thin"],
        keep=config["keep"],
        log_every=log_every(config, is_network(potential)),
        save_every=config["save_every"] or (1 if epochs and not together(potential) else None),
        save_minutes=Plan.save_minutes if config["save_minutes"] is None else config["save_minutes"],
        tune=config["tune"]["target"],
        trajectory=tuned,
        estimate_mass=config["mass"] == "estimate",
        mass_cycles=config["mass_cycles"],
        trace=config["trace"],
        trace_cycles=tuple(config["trace_cycles"] or ()),
        epochs_per_cycle=kernel.epochs(potential.data_size) if epochs is None else float(epochs),
        compile=compiles(config["compile"], kernel, potential, config["chains"], whole or cycles, tuned),
        graph=captures(config, potential, kernel, device),
    )


def join(config: dict, potential: Potential, device: torch.device) -> None:
    """Let the chains of a network go in one tensor: as ``together`` says, or by ``auto`` many of a small perceptron.

    That was measured to be faster (benchmarks/together.py). Raises SettingError.
    """
    asked = config["together"]
    if not isinstance(potential, NetworkPotential):
        if isinstance(asked, bool):
            raise SettingError("together", str(asked).lower(), "is for networks: leave it out")
        return
    if asked is False:
        potential.together = False
        return
    few = type(potential.model) is MLP and potential.dim <= FEW_WEIGHTS and config["chains"] >= MANY_CHAINS
    if asked is True or (few and config["compile"] is not True and device.type == "cpu"):
        try:
            potential.join_chains()
        except SettingError as error:
            if asked is True:
                raise SettingError("together", "true", error.mend) from error
        except (RuntimeError, MemoryError) as error:
            if not needs_memory(error):
                raise
            if asked is True:
                where = "this machine" if device.type == "cpu" else "the device"
                raise NoRoom("together", "true", f"needs more memory than {where} has: leave it out") from error


def captures(config: dict, potential: Potential, kernel: Kernel, device: torch.device) -> bool:
    """Whether steps are replayed as CUDA graphs: ``graph``, or by ``auto`` wherever they can be."""
    asked, reason = config["graph"], why_not_captured(kernel, potential, device)
    if asked is True and reason:
        kind = SettingError if device.type == "cuda" else NoDevice
        raise kind("graph", "true", f"{reason}; leave graph out")
    return reason is None and asked is not False


def count_cycles(config: dict, potential: Potential, kernel: Kernel) -> int:
    """``cycles``, or ``epochs`` in cycles."""
    planned = planned_cycles(config)
    if planned is not None:
        return planned
    gradients = config["epochs"] * batches_an_epoch(config, potential, kernel.gradient)
    each = kernel.word.gradients_a_step
    cycles, left = divmod(gradients, kernel.steps * each)
    if left:
        length = f"{gradients} steps" if each == 1 else f"{gradients} gradients, {each} a step"
        mend = f"is {length}, not a whole number of cycles of steps_per_cycle={kernel.steps}"
        near = "" if gradients % each else " or ".join(map(str, divisors(gradients // each, kernel.steps)))
        ways = f"steps_per_cycle={near}, " if near else ""
        raise SettingError("epochs", config["epochs"], f"{mend}; give {ways}epochs_per_cycle=1, or cycles")
    return cycles


def starts(config: dict, potential: Potential, kernel: Kernel, random: Random, device, dtype) -> Callable[[], Tensor]:
    """A function that gives the starting positions ``[chains, dim]``; ``init`` is checked now."""
    init, chains = config["init"], config["chains"]
    if init == "exact" and not own_method(potential, "exact", "potential"):
        raise SettingError("init", init, "the target cannot be drawn from exactly: leave init out")
    if init == "sgd" and not potential.data_size:
        raise SettingError("init", init, "the target has no data to descend on")
    # What SGD or the chain starts from: "torch" is NetworkPotential's alone, null is he's, or a target's own.
    first = config["warm_start"].get("init") if init == "sgd" else init
    how = ("torch",) if first == "torch" else ()
    if how and not isinstance(potential, NetworkPotential):
        key = "warm_start.init" if init == "sgd" else "init"
        raise SettingError(key, "torch", "is for networks: leave it out")
    stored = None if init in (None, *STARTS) else _stored(init, potential)
    if stored is not None and len(stored) not in (1, chains):
        raise SettingError("init", init, f"holds {len(stored)} positions for {chains} chains")

    def initial() -> Tensor:
        if stored is not None:
            theta = stored.expand(chains, -1)
        elif init == "exact":
            theta = potential.exact(chains, random, kernel.temperature)
        else:
            theta = potential.initial(chains, random, *how)
        check_tensor("initial", theta)
        theta = theta.to(device=device, dtype=dtype)
        if init == "sgd":
            check_target(kernel, potential, theta, chains)  # of a class of one's own, before SGD takes its gradient
            rows = groups(potential, chains)
            warm = {key: value for key, value in config["warm_start"].items() if key != "init"}
            theta = torch.cat([sgd(potential, theta[r.start : r.stop], random=random, chains=r, **warm) for r in rows])
        return theta.contiguous()

    return initial


def _stored(path: str, potential: Potential) -> Tensor:
    """Positions ``[chains or 1, dim]`` from a file: a tensor, or a network's state dict. DataError is raised where the
    file cannot be had here: on another node it may be."""
    try:
        if not Path(path).is_file():
            raise DataError(f"init={path}: must be he, torch, sgd, exact, or a file of parameters that is there")
        if path.endswith(".safetensors"):
            from safetensors.torch import load_file

            stored = load_file(path)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about a pickle that is not torch's, which is refused
                stored = torch.load(path, map_location="cpu", weights_only=True)
    except DataError:
        raise
    except OSError as error:
        unreadable = DataError(f"init={path}: cannot be read: {error.strerror or error}")
        raise disk.failed(error, f"init={path}") or unreadable from error
    except Exception as error:  # what an unpickler raises for a file that is no pickle can be anything
        mend = f"cannot be read as a tensor or a state dict ({type(error).__name__})"
        raise SettingError("init", path, mend) from error
    if isinstance(stored, dict):
        if not hasattr(potential, "from_state_dict"):
            raise SettingError("init", path, "is a state dict, and the target is no network")
        return potential.from_state_dict(stored)
    if not (isinstance(stored, Tensor) and stored.ndim and stored.numel()):
        raise SettingError("init", path, "must hold a state dict, or positions as a tensor [chains, dim] or [dim]")
    stored = stored.reshape(-1, stored.shape[-1])
    if stored.shape[1] != potential.dim:
        mend = f"holds positions of {stored.shape[1]} coordinates, the target has {potential.dim}"
        raise SettingError("init", path, mend)
    return stored


def _predictions(config: dict, data: Data, potential: Potential, device: torch.device) -> dict:
    """The sets that chains predict: ``test`` with its labels, ``ood`` without."""
    data, other = predictable(data, potential), config["data"]["ood"]
    if not callable(getattr(potential, "predict", None)) or data.train is None:
        if other is not None:
            raise SettingError("data.ood", other, "the target has no data that it predicts: leave it out")
        return {}
    sets = {}
    if data.test is not None:
        test = data.test.to(device)
        sets["test"] = (asked(potential, test), test.targets)
    if other is not None:
        inputs = foreign("data.ood", other, load(other, config["data"]["root"]).test, data.train)
        sets["ood"] = (asked(potential, inputs.to(device)), None)
    return sets
