"""What a configuration leaves unsaid: the defaults of its model, sampler and data, and what cannot go together."""

from __future__ import annotations

import math
import os

from experiments import schema
from experiments.dotted import get, put
from experiments.resolved import (
    NETWORKS,
    OWN_DATA,
    PAPER_FRICTION,
    check_length,
    is_own,
    planned_cycles,
    sampler_row,
    schedule_of,
)
from sgmcmc.errors import SettingError
from sgmcmc.samplers import NUMBERS, Sampler
from sgmcmc.schedules import STAIRS, Schedule, why_impossible
from sgmcmc.words import Word


def filled(config: dict, said) -> dict:
    """The configuration with what it does not say; a setting that it has no use for is None. ``said`` are the settings
    of the command line, whose mistakes are told where others would be put aside. Raises SettingError."""
    del config["scale"]
    row, model, sampler = sampler_row(config["sampler"]), config["model"], config["sampler"]
    network, own = model["name"] in NETWORKS, is_own(config)
    target = model["_target_"].rpartition(".")[2] if own else model["name"]
    _fill_set(config["data"], target, own, said)
    data = config["data"]["name"]
    word = Word(sampler["word"] or row.word)
    _fill_sampler(sampler, row, word, network, own)
    _fill_friction(config, row, word, network, own, said)
    without_data = data == "none" and not own and target not in OWN_DATA
    _fill_step(config, target, without_data)
    _fill_length(config, row, target, without_data, said)
    if sampler["gradient"] in ("minibatch", None) and not without_data:
        # Networks go through whole shuffled epochs, as the papers' did, where cycles are given in epochs.
        law = "shuffled" if (network or own) and config["epochs_per_cycle"] is not None else "independent"
        sampler["minibatches"] = sampler["minibatches"] or law
    else:
        config["batch_size"] = sampler["minibatches"] = None
    _fill_schedule(config["schedule"])
    _fill_data(config, network, said)
    _fill_start(config, network, said)
    _fill_tuning(config)
    if sampler["gradient"] == "none":  # a trace has a row at a gradient
        config["trace"] = None
    if config["trace"] is None:
        config["trace_cycles"] = None
    if (cycles := planned_cycles(config)) is not None:
        check_length(config, cycles)
    _check_exact(config, word)
    config["chains"] = _chains(config)
    config["name"] = config["name"] or "-".join([target, *([data] if data != "none" else []), sampler["name"]])
    if not config["output"]:
        _check_name(config["name"])
    return config


def _check_name(name: str) -> None:
    """Refuse a name that is no folder within those of the runs."""
    way = os.path.normpath(name)
    if os.path.isabs(way) or way.split(os.sep)[0] in (os.curdir, os.pardir) or name.startswith("~"):
        mend = "names a folder within results/runs: leave out what leads elsewhere, or say the run's folder as output="
        raise SettingError("name", name, mend)


def _fill_set(data: dict, target: str, own: bool, said) -> None:
    """Which data set: none of a target that has no data. Of a target of one's own only the engine knows whether it has.
    A grid's file may name the set of its other targets."""
    name, needed = data["name"], target in (*NETWORKS, "logistic")
    if own:
        if name == "none" and data["train_size"] is not None:
            if "data.train_size" in said:  # a posterior of all its data would be taken for one of so few
                mend = f"is of the data sets of data=, and there is none: {target} brings its own data, or none"
                raise SettingError("data.train_size", data["train_size"], mend)
            data["train_size"] = None
        return
    if needed and name == "none":
        sets = [one for one in schema.options("data") if one != "none"]
        raise SettingError("data", "none", f"{target} needs data: one of {', '.join(sets)}")
    if not needed and name != "none" and ("data" in said or "data.name" in said):
        what = "data of its own" if target in OWN_DATA else "no data"
        raise SettingError("data", name, f"{target} has {what}: leave data out")
    if not needed and target not in OWN_DATA:
        data["name"] = "none"
    if data["name"] == "none":
        data.update(train_size=None, ood=None)


def _fill_sampler(sampler: dict, row: Sampler, word: Word, network: bool, own: bool) -> None:
    sampler["word"] = word.letters
    sampler["refresh"] = sampler["refresh"] or row.refresh
    sampler["acceptance"] = sampler["acceptance"] or row.acceptance
    if not word.kicks:
        sampler["gradient"] = "none"
    elif sampler["gradient"] is None:
        # Of a target of one's own only the engine knows whether it is a network.
        usual = None if own else "minibatch" if network else "full"
        sampler["gradient"] = usual if row.gradient in ("either", "none") else row.gradient
    stochastic = sampler["gradient"] in ("minibatch", None)
    sampler["ends"] = (sampler["ends"] or "minibatch") if stochastic else None
    for key, (policy, ways, default) in NUMBERS.items():
        used = sampler[policy] in ways
        sampler[key] = None if not used else default if sampler[key] is None else sampler[key]


def _fill_friction(config: dict, row: Sampler, word: Word, network: bool, own: bool, said) -> None:
    if row.friction == "infinite":
        for way in schema.FRICTION:  # an experiment's friction is not this sampler's
            infinite = 0 if way == "momentum_decay" else math.inf
            if way in said and get(config, way) not in (None, infinite):
                mend = f"the friction is infinite in {config['sampler']['name']}; with less it is sampler=ggmc"
                raise SettingError(way, get(config, way), mend)
            put(config, way, None)
    given = _given(config, schema.FRICTION)
    if not (word.refreshes or row.rescaled):
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
            if way in said and (way, config[way]) not in ((way, None), ("steps_per_cycle", row.steps)):
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
    for key in STAIRS:
        value = getattr(default, key) if schedule[key] is None else schedule[key]
        schedule[key] = value if default.varies_between() else None


def _fill_data(config: dict, network: bool, said) -> None:
    images = (network or is_own(config)) and config["data"]["name"] in ("cifar10", "mnist", "digits")
    if not images:
        if config["augmentation"] not in (None, "none") and "augmentation" in said:
            mend = "is for networks on images"
            if is_own(config):
                mend += " of data=; give it to NetworkPotential where that is made of data of your own"
            raise SettingError("augmentation", config["augmentation"], mend)
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
    no_network = not network and not own
    if no_network and (config["init"] in schema.NETWORK_STARTS or config["init"] == "sgd" and not (data and asked)):
        if asked:
            mend = "is for networks" + (" and model=logistic" if config["init"] == "sgd" else "")
            raise SettingError("init", config["init"], f"{mend}: leave it out")
        config["init"] = None
    warm = config["warm_start"]
    if warm["init"] is not None and no_network and config["init"] == "sgd" and "warm_start.init" in said:
        raise SettingError("warm_start.init", warm["init"], "is for networks: leave it out")
    if no_network or warm["init"] == "he":  # he is as where it is not said: the same chain
        warm["init"] = None
    for key, default in schema.WARM_START.items():
        warm[key] = None if config["init"] != "sgd" else default if warm[key] is None else warm[key]


def _fill_tuning(config: dict) -> None:
    """With a step size that is tuned, too, the mass is estimated in half of the burn-in: tuned is for what stays."""
    target, burn_in = config["tune"]["target"], config["burn_in"]
    if target is not None and not burn_in:
        raise SettingError("tune.target", target, "tunes during the burn-in: give burn_in, in cycles")
    if config["mass"] != "estimate":
        config["mass_cycles"] = None
    elif config["mass_cycles"] is None and target is not None:
        config["mass_cycles"] = burn_in // 2
    elif (config["mass_cycles"] or 0) > burn_in:
        mend = f"the mass is estimated in the burn-in alone, of {burn_in} cycles: make it less"
        raise SettingError("mass_cycles", config["mass_cycles"], mend)
    if config["tune"]["trajectory"] is not None:
        if not burn_in:
            raise SettingError("tune.trajectory", "auto", "chooses during the burn-in: give burn_in, in cycles")
        if config["epochs"] is not None:
            mend = "tune.trajectory chooses how long a cycle is: give cycles"
            raise SettingError("epochs", config["epochs"], mend)


def _check_exact(config: dict, word: Word) -> None:
    """Refuse to correct what has no exact acceptance probability, before any data are read.

    ``sgmcmc.kernel.make_kernel`` has the last word; this asks what the settings alone can tell.
    """
    if config["sampler"]["acceptance"] == "monitor":
        return
    reason = why_impossible(word, schedule_of(config), config["temperature"])
    if not reason and config["model"].get("norm") == "bn":
        reason = "batch normalisation makes U depend on how the data are split into batches (model.norm=frn does not)"
    elif not reason and config["augmentation"] == "random":
        reason = "random augmentation makes U random (augmentation=averaged fixes the views)"
    if reason:
        mend = f"there is no exact acceptance probability: {reason}; use sampler.acceptance=monitor"
        raise SettingError("sampler.acceptance", config["sampler"]["acceptance"], mend)


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
