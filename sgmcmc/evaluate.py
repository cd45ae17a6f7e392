"""Predict again with stored samples, on the run's own test set or on other data.

    python -m sgmcmc.evaluate RUN [RUN …] [data=NAME] [data.root=FOLDER] [noise=S] [translate=P] [draws=200]
        [device=cpu] [output=FILE.csv]

Several run folders of one configuration (its seeds) are joined as chains; of runs of different lengths as many of
the first draws kept as all of them have. ``data`` is the test set by default,
or any data set of the same shape (``data=notmnist`` for a network of MNIST: out of distribution, no labels are
compared; for a network of digits images of 28 x 28 are made 8 x 8 as the digits were). ``noise`` adds normal
noise of that standard deviation to the normalised inputs, ``translate`` moves images that many pixels down and
to the right: shifted data. At most ``draws`` of each chain are used, evenly spaced. Predictions are computed on
``device`` (``auto``, ``cpu``, ``cuda`` or ``cuda:1``).

It prints the quality of single samples, of each chain's ensemble and of the joint one (accuracy, NLL, Brier score,
expected calibration error, mean predictive entropy), and R-hat and effective sample size in function space:
of each datum's log-odds of its label (without labels: of its predictive entropy), where weights that mean the same
network agree.
"""

from __future__ import annotations

import csv
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sgmcmc import diagnostics
from sgmcmc.data import Dataset, load
from sgmcmc.errors import DataError, SettingError, StoreError
from sgmcmc.loading import check_alike, load_samples
from sgmcmc.potentials import Potential, together
from sgmcmc.random import Random
from sgmcmc.sampling import find_device

FUNCTIONS = 200  # data whose predictions are followed through the chains


def shifted(data: Dataset, noise: float = 0.0, translate: int = 0) -> Dataset:
    """``data`` with images moved down and right (zeros come in), and normal noise on the normalised inputs.

    Noisy inputs are float32 and normalised already. Raises SettingError for a translation of what is no image.
    """
    inputs = data.inputs
    if translate:
        if inputs.ndim != 4 or not 0 < translate < min(inputs.shape[2:]):
            raise SettingError("translate", translate, "needs images, and fewer pixels than they have")
        inputs = F.pad(inputs, (translate, 0, translate, 0))[..., : inputs.shape[2], : inputs.shape[3]]
    data = replace(data, inputs=inputs)
    if noise:
        clean = data.normalise(inputs)
        drawn = Random(0).normal("diagnostic", 0, 1, len(data), clean[0].numel())[0].view(clean.shape)
        data = replace(data, inputs=clean + noise * drawn.to(clean.device), mean=None, std=None)
    return data


def evaluate(potential: Potential, draws: Tensor, data: Dataset, labelled: bool = True) -> dict[str, float]:
    """Predictive quality and mixing in function space of ``draws`` ``[draws, chains, dim]`` on ``data``.

    Returns numbers by name: ``accuracy, nll, brier, ece, entropy`` of the joint ensemble, ``chain_…`` the mean over the
    chains' own ensembles and its standard error, ``sample_…`` the mean over single samples, ``r_hat_max``,
    ``r_hat_median``, ``ess_min``, ``ess_median`` over the functions followed.
    """
    inputs = data.inputs if data.mean is None else data
    chains = draws.shape[1]
    ensembles: list[diagnostics.Ensemble] = []
    single: dict[str, list[float]] = {}
    functions = np.empty((len(draws), chains, min(FUNCTIONS, len(data))))
    at_once = together(potential)
    for number, draw in enumerate(draws):
        members = potential.predict(draw, inputs) if at_once else None
        for chain in range(chains):
            own = members[chain] if at_once else potential.predict(draw[chain : chain + 1], inputs)[0]
            if len(ensembles) <= chain:
                ensembles.append(diagnostics.Ensemble(*own.shape, device=own.device))
            ensembles[chain].add(own)
            for key, value in _quality(own, data, labelled).items():
                single.setdefault(key, []).append(value)
            functions[number, chain] = _functions(own, data, labelled)
    joint = torch.stack([ensemble.probabilities for ensemble in ensembles]).mean(0)
    own = [_quality(ensemble.probabilities, data, labelled) for ensemble in ensembles]
    result = _quality(joint, data, labelled)
    for key in list(result):
        values = np.array([one[key] for one in own])
        result[f"chain_{key}"] = values.mean()
        result[f"chain_{key}_error"] = values.std(ddof=1) / chains**0.5 if chains > 1 else float("nan")
        result[f"sample_{key}"] = float(np.mean(single[key]))
    r_hat, ess = diagnostics.r_hat(functions), np.asarray(diagnostics.ess(functions).value)
    for name, values, worst in (("r_hat", r_hat, np.nanmax), ("ess", ess, np.nanmin)):
        known = not np.isnan(values).all()  # R-hat is infinite of chains that stand still apart
        result[f"{name}_{'max' if name == 'r_hat' else 'min'}"] = float(worst(values)) if known else float("nan")
        result[f"{name}_median"] = float(np.nanmedian(values)) if known else float("nan")
    return {key: float(value) for key, value in result.items()}


def _quality(probabilities: Tensor, data: Dataset, labelled: bool) -> dict[str, float]:
    if not labelled:
        return {"entropy": float(diagnostics.predictive_entropy(probabilities).mean())}
    return {key: float(value) for key, value in diagnostics.metrics(probabilities, data.targets).items()}


def _functions(probabilities: Tensor, data: Dataset, labelled: bool) -> np.ndarray:
    some = probabilities[:FUNCTIONS].double()
    if not labelled:
        return diagnostics.predictive_entropy(some).cpu().numpy()
    mine = some.gather(-1, data.targets[: len(some), None])[:, 0]
    return torch.logit(mine, eps=1e-12).cpu().numpy()


def main(words: list[str] | None = None) -> int:
    """The command; returns its exit status (2 and one sentence for a mistake)."""
    words = sys.argv[1:] if words is None else words
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    try:
        return _main(words)
    except (SettingError, DataError, StoreError) as error:
        print(error, file=sys.stderr)
        return 2


def _main(words: list[str]) -> int:
    from omegaconf import OmegaConf

    from experiments.build import build_potential, load_data  # the command alone knows configurations

    folders = [word for word in words if "=" not in word or Path(word).exists()]
    known = {
        "data": None,
        "data.root": None,
        "noise": "0",
        "translate": "0",
        "output": None,
        "device": "cpu",
        "draws": "200",
    }
    for word in words:
        if word not in folders:
            key, _, value = word.partition("=")
            if key not in known:
                raise SettingError(key, value, f"is not known here; known are {', '.join(known)}")
            known[key] = value
    if not folders:
        raise SettingError("RUN", "nothing", "give the folders of one or more runs")
    for folder in folders:
        if not (Path(folder) / "config.yaml").is_file():
            raise SettingError("RUN", folder, "is not a run folder: it has no config.yaml")
    check_alike(folders)
    config = OmegaConf.to_container(OmegaConf.load(Path(folders[0]) / "config.yaml"))
    config["data"]["root"] = known["data.root"] or os.environ.get("SGMCMC_DATA") or config["data"]["root"]
    device = find_device(known["device"])
    own = load_data(config)
    if own.train is None:
        raise SettingError("RUN", folders[0], "has no data to predict: its target is a density")
    potential = build_potential(config, own, device, getattr(torch, config["dtype"]))
    name = known["data"] or config["data"]["name"]
    foreign = name != config["data"]["name"]
    data = load(name, config["data"]["root"]) if foreign else own
    which = "test" if data.test else "training"
    data = data.test or data.train
    if foreign:
        data = data.like(own.train)
    data = shifted(data.to(device), _number("noise", known["noise"]), int(_number("translate", known["translate"])))
    runs = [load_samples(folder) for folder in folders]
    least = min(map(len, runs))
    if any(len(run) > least for run in runs):
        print(f"the runs are of different lengths: the first {least} draws of each are used", file=sys.stderr)
    draws = torch.cat([run[:least] for run in runs], 1)
    every = max(1, -(-len(draws) // max(int(_number("draws", known["draws"])), 1)))
    draws = draws[every - 1 :: every].to(device)
    result = evaluate(potential, draws, data, labelled=not foreign)
    chains = f"{draws.shape[1]} chain" + "s" * (draws.shape[1] > 1)
    moved = "".join(f", {setting}={amount}" for setting, amount in _shift(known).items() if float(amount))
    lines = [f"{draws.shape[0]} draws of {chains} on the {len(data)} {which} data of {name}{moved}"]
    # What one chain cannot tell is left out.
    lines += [f"  {key:22} {value:.6g}" for key, value in result.items() if value == value]
    print("\n".join(lines))  # at once: who reads may want the first line only
    if known["output"]:
        try:
            with open(known["output"], "w", newline="") as file:
                writer = csv.DictWriter(file, ["data", *_shift(known), *result])
                writer.writeheader()
                writer.writerow({"data": name, **_shift(known), **result})
        except OSError as error:
            raise SettingError("output", known["output"], f"cannot be written ({error.strerror})") from None
    return 0


def _shift(known: dict) -> dict:
    return {key: known[key] for key in ("noise", "translate")}


def _number(setting: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise SettingError(setting, text, "must be a number") from None
    if value < 0:
        raise SettingError(setting, text, "must not be negative")
    return value


if __name__ == "__main__":
    sys.exit(main())
