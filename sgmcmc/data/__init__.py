"""The data sets, whole, as tensors: CIFAR-10, MNIST, notMNIST, scikit-learn's digits, and two of UCI's Statlog.

=========== ================= ============================== ===========================================
name        train, test       inputs                         normalised by ``take``
=========== ================= ============================== ===========================================
cifar10     50,000, 10,000    uint8 3 x 32 x 32              per channel, mean and std of the train images
mnist       60,000, 10,000    uint8 1 x 28 x 28              (x/255 - .1307)/.3081
notmnist    none, 10,000      uint8 1 x 28 x 28              as mnist; out of distribution only (also of digits)
digits      1,500, 297        uint8 1 x 8 x 8, 0 … 16        (x/16 - .3055)/.3759
australian  690, none         float64 14 columns             as they are
heart       270, none         float64 13 columns             as they are
=========== ================= ============================== ===========================================

Standardised columns and an intercept are the regressions' business. Labels are 0 … classes - 1 (heart: 1 = disease).
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sgmcmc.arguments import number, numbers, tensor, whole
from sgmcmc.data.sources import read
from sgmcmc.errors import DataError, SettingError, few, nearest
from sgmcmc.random import Random

__all__ = ["NAMES", "Data", "Dataset", "load"]

CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
MNIST_MEAN, MNIST_STD = (0.1307,), (0.3081,)
DIGITS_MEAN, DIGITS_STD = (0.3055,), (0.3759,)  # of the 1,500 training images of the default split
DIGITS_TRAIN_SIZE = 1500
WIDE = (torch.float64, torch.int64, torch.int32)  # of these float32 does not tell all numbers apart


@dataclass
class Dataset:
    """Inputs and labels of N data, on one device.

    ``inputs`` uint8 images ``[N, C, H, W]`` or features ``[N, p]`` (networks take either as float32; those of float64
    take features that are ``WIDE`` as they are); ``targets`` int64 ``[N]``, of what is trained on from 0 to ``classes``
    − 1; ``mean`` and ``std``, of each channel (or feature, or one for all), of the pixels scaled to [0, 1], kept as
    float64 ``[C]``, None where inputs go in as they are; ``scale`` the pixel value that stands for 1 (255 of uint8, 1
    of other features, and to be given of other images: 1 where they are scaled already). Raises SettingError
    for inputs and labels that are none.
    """

    inputs: Tensor
    targets: Tensor
    classes: int
    mean: Tensor | Sequence[float] | float | None = None
    std: Tensor | Sequence[float] | float | None = None
    scale: float | None = None
    name: str = ""

    def __post_init__(self):
        for name in ("inputs", "targets"):
            value = tensor(name, getattr(self, name))
            if not value.ndim:
                raise SettingError(name, float(value), "must have a row for each datum")
        shape = list(self.targets.shape)
        if self.targets.dtype != torch.int64 or shape != [len(self.inputs)]:
            given, wanted = f"{self.targets.dtype} {shape}", f"int64 [{len(self.inputs)}], a label an input"
            if self.targets.dtype != torch.int64:
                wanted += ": targets.long() of labels; a regression is a target of one's own (see sgmcmc.potentials)"
            raise SettingError("targets", given.removeprefix("torch."), f"must be {wanted}")
        if self.inputs.is_complex():
            raise SettingError("inputs", str(self.inputs.dtype).removeprefix("torch."), "must be real numbers")
        if self.inputs.is_floating_point():
            finite = self.inputs.isfinite()[:, None].flatten(1).all(1)
            if rows := (~finite).nonzero().flatten().tolist():
                raise SettingError("inputs", f"NaN or infinite in {len(rows)} rows", f"leave these out: {few(rows)}")
        if self.inputs.requires_grad:  # features that a network gave, whose weights are not sampled
            self.inputs = self.inputs.detach()
        self.classes = whole("classes", self.classes, 1)
        self._check_normalisation()
        if self.scale is None:
            if self.mean is not None and self.inputs.dtype != torch.uint8 and self.has_images:
                kind = str(self.inputs.dtype).removeprefix("torch.")
                raise SettingError("scale", None, f"give the value that stands for 1 of {kind} inputs (uint8: 255)")
            self.scale = 255.0 if self.has_images or self.inputs.dtype == torch.uint8 else 1.0
        if not number("scale", self.scale) > 0:
            raise SettingError("scale", self.scale, "must be positive")
        if self.mean is not None:
            # float64 first: the same two float32 numbers on every device
            self._gain = self._of_channels(1 / (self.scale * self.std)).float()
            self._shift = self._of_channels(-self.mean / self.std).float()

    def _check_normalisation(self) -> None:
        """``mean`` and ``std`` as float64 vectors, one number a channel or one for all."""
        if self.mean is None and self.std is None:
            return
        wide = self.inputs.shape[1] if self.inputs.ndim > 1 else 1
        for name in ("mean", "std"):
            if getattr(self, name) is None:
                raise SettingError(name, None, "mean and std go together: give both, or neither")
            given = numbers(name, getattr(self, name), "channel")
            values = torch.tensor(given, dtype=torch.float64, device=self.inputs.device).flatten()
            if len(values) not in (1, wide):
                shape = list(self.inputs.shape)
                mend = f"must be one number, or {wide}, one a channel: inputs are {shape}, [N, channels, …]"
                raise SettingError(name, values.tolist(), mend)
            if not bool(values.isfinite().all()) or name == "std" and not bool((values > 0).all()):
                raise SettingError(name, values.tolist(), "must be finite, and std positive")
            setattr(self, name, values)

    def check_labels(self) -> None:
        """Refuse labels that are none of the classes, as a set that is not trained on may have."""
        if not len(self):
            raise SettingError("targets", "[]", "there are no data")
        least, most = int(self.targets.min()), int(self.targets.max())
        if not 0 <= least <= most < self.classes:
            mend = f"must be from 0 to {self.classes - 1} of {self.classes} classes"
            raise SettingError("targets", f"{least} … {most}", mend)

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def has_images(self) -> bool:
        """Whether inputs are more than a row of numbers each."""
        return self.inputs.ndim > 2

    def _of_channels(self, numbers: Tensor) -> Tensor:
        """One number a channel ``[C]``, in the shape in which they meet inputs."""
        return numbers.view(-1, *[1] * (self.inputs.ndim - 2))

    def to(self, device: torch.device | str) -> Dataset:
        """The same data on ``device``."""
        moved = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(moved, name, value.to(device))
        return moved

    def normalise(self, inputs: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Raw inputs ``[..., C, H, W]`` or ``[..., p]`` as a model of ``dtype`` takes them, (x/scale − mean)/std: in
        float32 arithmetic, but for raw numbers that are ``WIDE``."""
        if inputs.dtype in WIDE:
            if self.mean is not None:
                inputs = (inputs.double() / self.scale - self._of_channels(self.mean)) / self._of_channels(self.std)
            return inputs.to(dtype)
        inputs = inputs.to(torch.float32)
        return (inputs if self.mean is None else inputs * self._gain + self._shift).to(dtype)

    def take(self, index: Tensor) -> Tensor:
        """The normalised inputs at ``index`` (int64, any shape), float32 ``[*index.shape, C, H, W]`` or ``[…, p]``."""
        return self.normalise(self.inputs[index])

    def like(self, train: Dataset) -> Dataset:
        """These data normalised as ``train``'s are: what a model trained there must be shown.

        For a model of scikit-learn's digits 28 x 28 images become 8 x 8 ones in the way of those: see ``counted``.
        Raises SettingError where shapes differ, or raw pixels are given for what was scaled, or the other way round.
        """
        sizes = tuple(tuple(data.inputs.shape[1:]) for data in (self, train))
        larger = train.name == "digits" and sizes == ((1, 28, 28), (1, 8, 8))
        if sizes[0] != sizes[1] and not larger:
            shape, wanted = ("x".join(map(str, size)) for size in sizes)
            name = f" ({train.name})" if train.name else ""
            raise SettingError("inputs", shape, f"must be {wanted}, as those that the model was trained on{name}")
        pixels = train.mean is not None or self.has_images
        if pixels and self.inputs.is_floating_point() != train.inputs.is_floating_point():
            kinds = [str(data.inputs.dtype).removeprefix("torch.") for data in (self, train)]
            raise SettingError("inputs", kinds[0], f"must be {kinds[1]}, as those that the model was trained on, raw")
        if larger:
            return counted(self).like(train)
        return replace(self, mean=train.mean, std=train.std, scale=train.scale)


def counted(data: Dataset) -> Dataset:
    """Grey images 28 x 28 as the digits were made: 8 x 8, how many pixels of a block are on, 0 … 16.

    The publisher of the digits (UCI, Optical Recognition of Handwritten Digits) counts in the 4 x 4 blocks of a
    bitmap of 32 x 32. Here the bitmap is an image with two rows and columns of zeros on every side, on from 128.
    """
    bitmap = F.pad((data.inputs >= 128).to(torch.uint8), (2, 2, 2, 2))
    blocks = bitmap.view(-1, 1, 8, 4, 8, 4).sum((3, 5), dtype=torch.uint8)
    return replace(data, inputs=blocks, scale=16.0)


@dataclass
class Data:
    """A training and a test set; either may be None (see the table above)."""

    train: Dataset | None
    test: Dataset | None


def load(name: str, root: str | Path | None = None, train_size: int | None = None, download: bool = True) -> Data:
    """The data set ``name``, from files below ``root``, downloaded to there first where they are not.

    ``root`` None stands for the environment variable SGMCMC_DATA or, without it, the folder ``data``.
    ``train_size`` n keeps a random subset of n training data, the same for every seed of a chain and containing
    the subsets of fewer; order is kept. What it leaves out is not used, except where there is no test set of
    its own (digits, australian, heart): there it is the test set.

    Raises SettingError for an unknown name or an impossible ``train_size``, DataError for a file that is missing
    and cannot be downloaded, damaged, or unreadable, DiskFailed where its disk does not answer.
    """
    if name not in NAMES:
        mend = f"{nearest(str(name).lower(), NAMES)} known are {', '.join(NAMES)}"
        raise SettingError("data.name", name, mend.strip())
    if train_size is not None and (not isinstance(train_size, int) or train_size < 1):
        raise SettingError("data.train_size", train_size, "must be a positive whole number")
    root = Path(os.path.expanduser(root or os.environ.get("SGMCMC_DATA") or "data"))
    return _LOADERS[name](name, root, train_size, download)


def _kept(size: int, train_size: int) -> Tensor:
    """Which of ``size`` data are the training subset: a bool mask ``[size]``, fixed for ever."""
    if train_size > size:
        raise SettingError("data.train_size", train_size, f"there are only {size} data")
    mask = torch.zeros(size, dtype=torch.bool)
    mask[Random(0).permutation("split", 0, 1, size)[0, :train_size]] = True
    return mask


def _part(data: Dataset, mask: Tensor) -> Dataset | None:
    return replace(data, inputs=data.inputs[mask], targets=data.targets[mask]) if mask.any() else None


def _split(whole: Dataset, train_size: int) -> Data:
    """Train and test of a set that comes without a test set."""
    mask = _kept(len(whole), train_size)
    return Data(_part(whole, mask), _part(whole, ~mask))


def _images(inputs, targets, mean, std, name, scale=255.0) -> Dataset:
    mean, std = (torch.tensor(values, dtype=torch.float64) for values in (mean, std))
    return Dataset(torch.as_tensor(inputs), torch.as_tensor(targets, dtype=torch.int64), 10, mean, std, scale, name)


def _cut(train: Dataset, test: Dataset, train_size: int | None) -> Data:
    return Data(train if train_size is None else _part(train, _kept(len(train), train_size)), test)


def _cifar10(name: str, root: Path, train_size: int | None, download: bool) -> Data:
    def images(files: list[str]) -> Dataset:
        batches = []
        for file in files:
            blob = read(name, file, root, download)  # verified: only the publisher's bytes are unpickled
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NumPy about its own names of 2009, which the pickles hold
                batches.append(pickle.loads(blob, encoding="latin1"))
        pixels = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
        labels = np.concatenate([batch["labels"] for batch in batches])
        return _images(pixels, labels, CIFAR10_MEAN, CIFAR10_STD, name)

    return _cut(images([f"data_batch_{k}" for k in range(1, 6)]), images(["test_batch"]), train_size)


def _idx(blob: bytes) -> np.ndarray:
    """An array in the idx format of the MNIST files (unsigned bytes): two zeros, type, rank, big-endian sizes."""
    rank = blob[3]
    shape = np.frombuffer(blob, ">u4", rank, offset=4)
    return np.frombuffer(blob, np.uint8, offset=4 + 4 * rank).reshape(shape).copy()


def _idx_images(name: str, kind: str, root: Path, download: bool) -> Dataset:
    pixels, labels = (
        _idx(read(name, f"{kind}-{what}-ubyte", root, download)) for what in ("images-idx3", "labels-idx1")
    )
    return _images(pixels[:, None], labels, MNIST_MEAN, MNIST_STD, name)


def _mnist(name: str, root: Path, train_size: int | None, download: bool) -> Data:
    return _cut(*(_idx_images(name, kind, root, download) for kind in ("train", "t10k")), train_size)


def _notmnist(name: str, root: Path, train_size: int | None, download: bool) -> Data:
    if train_size is not None:
        raise SettingError("data.train_size", train_size, "notmnist has no training data (data.ood=notmnist)")
    return Data(None, _idx_images(name, "t10k", root, download))


def _digits(name: str, root: Path, train_size: int | None, download: bool) -> Data:
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataError("the data set digits ships inside scikit-learn: pip install scikit-learn") from error
    digits = load_digits()
    pixels = digits.images.astype(np.uint8)[:, None]  # whole numbers 0 … 16: exact
    whole = _images(pixels, digits.target, DIGITS_MEAN, DIGITS_STD, name, scale=16.0)
    return _split(whole, DIGITS_TRAIN_SIZE if train_size is None else train_size)


def _uci(name: str, root: Path, train_size: int | None, download: bool) -> Data:
    rows = np.array([line.split() for line in read(name, f"{name}.dat", root, download).split(b"\n") if line.strip()])
    table = torch.from_numpy(rows.astype(np.float64))
    targets = table[:, -1].to(torch.int64)
    whole = Dataset(table[:, :-1], targets - targets.min(), 2, name=name)
    return _split(whole, len(whole) if train_size is None else train_size)


_LOADERS = {
    "cifar10": _cifar10,
    "mnist": _mnist,
    "notmnist": _notmnist,
    "digits": _digits,
    "australian": _uci,
    "heart": _uci,
}
NAMES = tuple(_LOADERS)
