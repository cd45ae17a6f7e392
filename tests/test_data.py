"""The data sets: their tensors and splits, and what happens when a file is missing, damaged, or has to be downloaded.

Nothing here reaches a network: sockets and urlopen are replaced. Tests of the real files need SGMCMC_DATA.
"""

import errno
import gzip
import hashlib
import io
import math
import os
import pickle
import socket
import struct
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch

from sgmcmc.data import NAMES, Dataset, load, sources
from sgmcmc.errors import DataError, DiskFailed, SettingError
from sgmcmc.random import Random

REAL = os.environ.get("SGMCMC_DATA")
real = pytest.mark.skipif(not REAL, reason="the environment variable SGMCMC_DATA names no folder with the data sets")


def md5(blob):
    return hashlib.md5(blob, usedforsecurity=False).hexdigest()


def one_sentence(error, *words):
    text = str(error.value)
    assert "\n" not in text and all(str(word) in text for word in words), text
    return text


class Answer(io.BytesIO):
    """What a web server answers."""

    def __init__(self, url, blob):
        super().__init__(blob)
        self.url, self.length = url, len(blob)


@pytest.fixture
def web(monkeypatch):
    """The whole web: a dict url -> bytes; ``web.asked`` lists what was asked for."""

    class Web(dict):
        asked: list

    pages = Web()
    pages.asked = []

    def urlopen(request, *args, **kwargs):
        url = request.full_url if isinstance(request, urllib.request.Request) else request
        pages.asked.append(url)
        if url not in pages:
            raise urllib.error.URLError("no route to host")
        return Answer(url, pages[url])

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return pages


HEART = b"".join(b"%d.5 %d 3 %d\n" % (k, k % 7, 1 + k % 2) for k in range(30))
HEART_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/heart/heart.dat"


@pytest.fixture
def small_heart(monkeypatch):
    """A heart.dat of thirty rows that counts as the genuine one."""
    monkeypatch.setitem(sources.UCI_FILES, "heart.dat", md5(HEART))


def written(path, blob):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(blob)
    return path


# -------------------------------------------------------------------------------------------------- Dataset


def test_take_normalises_whatever_the_shape_of_the_index():
    inputs = torch.randint(0, 256, (11, 3, 4, 5), dtype=torch.uint8)
    mean, std = torch.tensor([0.1, 0.2, 0.3]).double(), torch.tensor([0.5, 0.25, 2.0]).double()
    data = Dataset(inputs, torch.zeros(11, dtype=torch.int64), 10, mean, std)
    index = torch.tensor([[[3, 0], [10, 3]]])
    taken = data.take(index)
    wanted = (inputs[index].double() / 255 - mean[:, None, None]) / std[:, None, None]
    assert taken.shape == (1, 2, 2, 3, 4, 5) and taken.dtype == torch.float32
    torch.testing.assert_close(taken.double(), wanted, atol=1e-6, rtol=1e-6)
    assert data.take(torch.tensor(3)).shape == (3, 4, 5)
    assert torch.equal(data.take(index), data.normalise(data.inputs[index]))


@pytest.mark.parametrize(
    "inputs, targets, said",
    [
        (np.zeros((4, 2)), torch.zeros(4).long(), "inputs=ndarray: must be a torch.Tensor"),
        (torch.zeros(4, 2), [0, 1, 0, 1], "targets=list: must be a torch.Tensor"),
        (torch.zeros(4, 2), torch.zeros(3).long(), r"targets=int64 \[3\]: must be int64 \[4\], a label an input"),
        (torch.zeros(4, 2), torch.zeros(4, 1).long(), r"targets=int64 \[4, 1\]: must be int64 \[4\]"),
        (torch.zeros(4, 2), torch.zeros(4).bool(), r"targets=bool \[4\]: must be int64 \[4\].*targets\.long\(\)"),
        (torch.zeros(4, 2), torch.zeros(4), r"targets=float32 \[4\]: must be int64 \[4\].*a regression is"),
        (torch.zeros(4, 2), torch.tensor([0, 1, 2, 1]), "targets=0 … 2: must be from 0 to 1 of 2 classes"),
        (torch.zeros(4, 2), torch.tensor([0, -1, 1, 1]), "targets=-1 … 1: must be from 0 to 1"),
        (torch.zeros(0, 2), torch.zeros(0).long(), r"targets=\[\]: there are no data"),
    ],
)
def test_data_of_ones_own_that_are_none_are_refused(inputs, targets, said):
    with pytest.raises(SettingError, match=said):
        Dataset(inputs, targets, 2).check_labels()


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"classes": "two"}, "classes='two': must be a whole number, at least 1"),
        ({"inputs": torch.tensor(3.0)}, "inputs=3.0: must have a row for each datum"),
        ({"inputs": torch.zeros(4, 3, 2, 2) + 0j}, "inputs=complex64: must be real numbers"),
        ({"inputs": torch.tensor([0, math.nan, 1, math.inf])}, "inputs=NaN or infinite in 2 rows: leave .* out: 1, 3"),
        ({"mean": [0.5] * 3}, "std=None: mean and std go together"),
        ({"std": [0.5] * 3}, "mean=None: mean and std go together"),
        (
            {"mean": [0.5] * 2, "std": 1.0},
            r"mean=\[0.5, 0.5\]: must be one number, or 3, one a channel: .* \[4, 3, 2, 2\]",
        ),
        ({"mean": 0.5, "std": [1.0, 0.0, 1.0]}, r"std=\[1.0, 0.0, 1.0\]: must be finite, and std positive"),
        ({"mean": math.nan, "std": 1.0}, r"mean=\[nan\]: must be finite"),
        ({"mean": "grey", "std": 1.0}, "mean=grey: must be a number, or a sequence of them, one a channel"),
        ({"mean": 0.5, "std": 1.0, "scale": 0}, "scale=0: must be positive"),
    ],
)
def test_what_data_cannot_be_normalised_by_is_refused(settings, said):
    images = torch.zeros(4, 3, 2, 2, dtype=torch.uint8)
    with pytest.raises(SettingError, match=f"^{said}"):
        Dataset(**{"inputs": images, "targets": torch.zeros(4).long(), "classes": 2, **settings})


@pytest.mark.parametrize("mean, std", [([0.5] * 3, (0.25,) * 3), (0.5, 0.25), (torch.full((1, 3, 1, 1), 0.5), [0.25])])
def test_constants_may_be_lists_or_one_number(mean, std):
    images = torch.randint(0, 256, (4, 3, 2, 5), dtype=torch.uint8)
    data = Dataset(images, torch.zeros(4).long(), 2, mean, std)
    assert data.mean.dtype == data.std.dtype == torch.float64 and data.mean.ndim == data.std.ndim == 1
    torch.testing.assert_close(data.take(torch.arange(4)), (images / 255 - 0.5) / 0.25)


@pytest.mark.parametrize("offset, dtype", [(7, torch.float32), (1e9, torch.float64), (1e9, torch.int64)])
def test_features_are_normalised_one_by_one(offset, dtype):
    """The latter two at another offset than float32 holds beside them."""
    wide = torch.randn(4, 3, dtype=torch.float64) * torch.tensor([1.0, 10.0, 0.1])
    rows = (100 * wide + offset).to(dtype)
    mean, std = rows.double().mean(0), rows.double().std(0)
    data = Dataset(rows, torch.zeros(4).long(), 2, mean, std)
    wanted = ((rows - mean) / std).float()
    torch.testing.assert_close(data.take(torch.arange(4)), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_images_of_floats_are_scaled_before_they_are_normalised(dtype):
    images = 40 * torch.rand(4, 2, 3, 3, dtype=dtype)
    data = Dataset(images, torch.zeros(4).long(), 2, [0.5, 0.25], [0.2, 0.4], scale=40.0)
    wanted = (images / 40 - torch.tensor([0.5, 0.25])[:, None, None]) / torch.tensor([0.2, 0.4])[:, None, None]
    torch.testing.assert_close(data.take(torch.arange(4)), wanted.float(), rtol=1e-5, atol=1e-6)


def test_to_moves_every_tensor():
    moved = load("digits").train.to("meta")
    tensors = (moved.inputs, moved.targets, moved.mean, moved.std, moved._gain)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert moved.take(torch.zeros(2, 3, dtype=torch.int64, device="meta")).shape == (2, 3, 1, 8, 8)


def test_like_takes_the_training_sets_constants_and_refuses_another_shape():
    digits = load("digits")
    shifted = Dataset(digits.test.inputs, digits.test.targets, 10, torch.zeros(1), torch.ones(1), 4.0, "other")
    index = torch.arange(5)
    assert torch.equal(shifted.like(digits.train).take(index), digits.test.take(index))
    with pytest.raises(SettingError, match="scale=None: give the value that stands for 1 of float32 inputs"):
        Dataset(torch.rand(2, 1, 8, 8), torch.zeros(2).long(), 10, torch.tensor([0.5]), torch.tensor([0.5]))
    whole = Dataset((255 * torch.rand(2, 1, 8, 8)).byte(), torch.zeros(2).long(), 10, torch.ones(1), torch.ones(1))
    with pytest.raises(SettingError, match="inputs=float32: must be uint8, as those that the model was trained on"):
        Dataset(torch.rand(2, 1, 8, 8), torch.zeros(2).long(), 10).like(whole)
    scaled = Dataset(torch.rand(2, 1, 8, 8), torch.zeros(2).long(), 10, torch.tensor([0.5]), torch.tensor([0.5]), 1.0)
    torch.testing.assert_close(scaled.take(torch.arange(2)), 2 * scaled.inputs - 1)
    colour = Dataset(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), torch.zeros(2).long(), 10, name="colour")
    with pytest.raises(SettingError) as error:
        colour.like(digits.train)
    one_sentence(error, "inputs=3x8x8", "1x8x8", "(digits)")
    flat = Dataset(torch.rand(2, 1, 8, 8), torch.zeros(2).long(), 10)
    with pytest.raises(SettingError, match="inputs=uint8: must be float32, as those that the model was trained on"):
        whole.like(flat)  # 0 … 255 for 0 … 1


def test_only_raw_images_become_digits_and_only_for_a_model_of_scikit_learns():
    zeros = torch.zeros(2, dtype=torch.int64)
    pixels = Dataset(torch.randint(0, 256, (2, 1, 28, 28), dtype=torch.uint8), zeros, 10, [0.5], [0.5], name="digits")
    assert pixels.like(pixels).inputs is pixels.inputs  # another set of this name
    with pytest.raises(SettingError, match="inputs=float32: must be uint8"):
        Dataset(torch.rand(2, 1, 28, 28), zeros, 10, [0.5], [0.5], scale=1.0).like(load("digits").train)


def test_one_constant_for_all_columns_and_one_of_each_go_together():
    inputs, zeros = torch.tensor([[1.0, 2, 3], [4, 5, 6]], dtype=torch.float64), torch.zeros(2, dtype=torch.int64)
    mean, std = torch.tensor([1.0]), torch.tensor([1.0, 2, 4])
    wanted = (inputs - 1) / torch.tensor([1.0, 2, 4])
    for given in (inputs, inputs.float()):
        assert torch.equal(Dataset(given, zeros, 2, mean, std).take(torch.arange(2)), wanted.float())
        assert torch.equal(Dataset(given, zeros, 2, std, mean).take(torch.arange(2)), (inputs - std).float())


def test_letters_are_made_as_the_digits_were_pixels_that_are_on_in_blocks():
    inputs = torch.zeros(2, 1, 28, 28, dtype=torch.uint8)
    inputs[0, 0, :2, :2] = 255  # the corner block: two rows and columns of it are the margin
    inputs[0, 0, 10:14, 10:14] = 128  # rows and columns 12 to 15 of the bitmap: block 3
    inputs[1, 0, 2:6, 26:] = torch.tensor([[200, 127], [200, 200], [0, 0], [0, 0]])
    train = load("digits").train
    letters = Dataset(inputs, torch.zeros(2).long(), 10, torch.zeros(1), torch.ones(1), name="letters").like(train)
    wanted = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    wanted[0, 0, 0, 0], wanted[0, 0, 3, 3], wanted[1, 0, 1, 7] = 4, 16, 3
    assert torch.equal(letters.inputs, wanted)
    assert torch.equal(letters.take(torch.arange(2)), train.normalise(wanted))


# ----------------------------------------------------------------------------------- names, subsets, splits


@pytest.mark.parametrize("name, near", [("cifar11", "cifar10"), ("MNIST", "mnist"), ("hart", "heart")])
def test_an_unknown_name_is_answered_with_the_nearest(name, near):
    with pytest.raises(SettingError) as error:
        load(name)
    one_sentence(error, f"data.name={name}", f"did you mean {near}?")


def test_a_name_near_to_none_is_answered_with_all():
    with pytest.raises(SettingError) as error:
        load("zzz")
    one_sentence(error, *NAMES)


def test_digits_are_exact_and_split_the_same_for_ever():
    from sklearn.datasets import load_digits

    data, digits = load("digits"), load_digits()
    assert (len(data.train), len(data.test), data.train.classes) == (1500, 297, 10)
    assert data.train.inputs.dtype == torch.uint8 and data.train.inputs.shape[1:] == (1, 8, 8)
    kept = Random(0).permutation("split", 0, 1, 1797)[0, :1500].sort().values
    assert torch.equal(data.train.inputs[:, 0].double(), torch.from_numpy(digits.images)[kept])
    assert torch.equal(data.train.targets, torch.from_numpy(digits.target)[kept])
    # the split itself, pinned: a change would change every chain on this set
    assert md5(data.test.inputs.numpy().tobytes()) == "5d3259594c226e06a2fcf8bad31b5748"
    taken = data.train.take(torch.arange(1500)).double()
    assert abs(taken.mean()) < 5e-4 and abs(taken.std() - 1) < 5e-4


def test_smaller_training_sets_are_nested_and_the_rest_is_the_test_set():
    rows = [{bytes(x.numpy().tobytes()) for x in load("digits", train_size=n).train.inputs} for n in (1, 50, 200)]
    assert len(rows[0]) == 1 and rows[0] < rows[1] < rows[2]
    data = load("digits", train_size=200)
    assert (len(data.train), len(data.test)) == (200, 1597)
    assert load("digits", train_size=1797).test is None


@pytest.mark.parametrize("size", [0, -3, 1798, 0.5])
def test_an_impossible_training_size_is_refused(size):
    with pytest.raises(SettingError) as error:
        load("digits", train_size=size)
    one_sentence(error, f"data.train_size={size}")


def test_regression_data_are_the_files_columns(tmp_path, small_heart):
    written(tmp_path / "uci/heart.dat", HEART)
    table = torch.tensor([[float(x) for x in line.split()] for line in HEART.decode().splitlines()]).double()
    whole = load("heart", tmp_path)
    assert whole.test is None and whole.train.inputs.dtype == torch.float64
    assert torch.equal(whole.train.inputs, table[:, :-1])
    assert torch.equal(whole.train.targets, table[:, -1].long() - 1) and whole.train.classes == 2
    part = load("heart", tmp_path, train_size=20)
    mask = torch.zeros(30, dtype=torch.bool)
    mask[Random(0).permutation("split", 0, 1, 30)[0, :20]] = True
    for data, chosen in ((part.train, mask), (part.test, ~mask)):
        assert torch.equal(data.inputs, table[chosen, :-1]) and torch.equal(data.targets, table[chosen, -1].long() - 1)
    taken = whole.train.take(torch.arange(6).view(2, 3))
    assert taken.dtype == torch.float32 and torch.equal(taken.double(), table[:6, :-1].view(2, 3, 3))


# ----------------------------------------------------------------------------------------- files and network


def test_the_root_is_the_environments_or_data(tmp_path, monkeypatch, small_heart):
    written(tmp_path / "here/uci/heart.dat", HEART)
    monkeypatch.setenv("SGMCMC_DATA", str(tmp_path / "here"))
    assert len(load("heart", download=False).train) == 30
    monkeypatch.delenv("SGMCMC_DATA")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as error:
        load("heart", download=False)
    one_sentence(error, tmp_path / "data/uci")


FILES = [
    ("cifar10", "data_batch_1", "cifar-10-batches-py"),
    ("mnist", "train-images-idx3-ubyte", "MNIST/raw"),
    ("notmnist", "t10k-images-idx3-ubyte", "notMNIST"),
    ("australian", "australian.dat", "uci"),
    ("heart", "heart.dat", "uci"),
]


@pytest.mark.parametrize("name, file, folder", FILES)
def test_a_missing_file_is_named_with_what_would_help(name, file, folder, tmp_path, web):
    with pytest.raises(DataError) as error:
        load(name, tmp_path, download=False)
    one_sentence(error, name, file, tmp_path / folder, "data.root", "SGMCMC_DATA")
    assert web.asked == [] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name, host",
    [
        ("cifar10", "www.cs.toronto.edu"),
        ("mnist", "ossci-datasets.s3.amazonaws.com"),
        ("notmnist", "raw.githubusercontent.com"),
        ("australian", "archive.ics.uci.edu"),
        ("heart", "archive.ics.uci.edu"),
    ],
)
def test_without_a_network_the_publisher_is_called_and_one_sentence_comes_back(
    name, host, tmp_path, monkeypatch, capfd
):
    called = []

    def connect(address, *args, **kwargs):
        called.append(address)
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.setenv("no_proxy", "*")
    root = tmp_path / "new" / "folder"
    with pytest.raises(DataError) as error:
        load(name, root)
    assert called[0] == (host, 443)  # https
    one_sentence(error, name, root, "data.root", "SGMCMC_DATA", "Network is unreachable")
    assert list(tmp_path.iterdir()) == []  # nothing written
    assert capfd.readouterr() == ("", "")
    assert socket.getdefaulttimeout() is None


@pytest.mark.parametrize("name", [name for name, _, _ in FILES])
def test_the_first_address_asked_is_the_publishers_and_secure(name, tmp_path, web):
    with pytest.raises(DataError):
        load(name, tmp_path)
    assert (
        web.asked[0]
        == {
            "cifar10": "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            "mnist": "https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz",
            "notmnist": sources.NOTMNIST_URL + "t10k-images-idx3-ubyte.gz",
            "australian": HEART_URL.replace("heart", "australian"),
            "heart": HEART_URL,
        }[name]
    )


def test_a_file_is_no_folder_of_data_sets(tmp_path):
    (tmp_path / "file").touch()
    said = rf"^the data set heart needs the file heart.dat, and {tmp_path / 'file'} is no folder: set data.root"
    with pytest.raises(DataError, match=said):
        load("heart", tmp_path / "file")


def test_a_download_is_verified_kept_and_silent(tmp_path, web, small_heart, capfd):
    web[HEART_URL] = HEART
    assert len(load("heart", tmp_path / "data").train) == 30
    assert capfd.readouterr() == ("", "")
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()] == ["data/uci/heart.dat"]
    web.clear()
    web.asked.clear()
    assert len(load("heart", tmp_path / "data").train) == 30 and web.asked == []


def test_a_damaged_download_is_refused_and_not_kept(tmp_path, web, small_heart):
    web[HEART_URL] = HEART[:-1]
    with pytest.raises(DataError) as error:
        load("heart", tmp_path / "data")
    one_sentence(error, "heart.dat", "corrupted", "data.root")
    assert list(tmp_path.iterdir()) == []


def idx(array):
    return struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_packed_idx_files_are_downloaded_and_read(tmp_path, web, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (6, 28, 28), dtype=np.uint8)
    labels = np.arange(6, dtype=np.uint8)
    for file, array in (("t10k-images-idx3-ubyte", images), ("t10k-labels-idx1-ubyte", labels)):
        packed = gzip.compress(idx(array))
        web[f"{sources.NOTMNIST_URL}{file}.gz"] = packed
        monkeypatch.setitem(sources.NOTMNIST_FILES, file, (md5(idx(array)), md5(packed)))
    data = load("notmnist", tmp_path)
    assert data.train is None and torch.equal(data.test.inputs, torch.from_numpy(images[:, None]))
    assert data.test.targets.tolist() == list(range(6))
    normal = (images[:, None] / 255 - 0.13066048) / 0.30810780
    assert np.abs(data.test.take(torch.arange(6)).numpy() - normal).max() < 1e-3
    with pytest.raises(SettingError, match="data.train_size"):
        load("notmnist", tmp_path, train_size=3)


def test_cifar_is_downloaded_unpacked_and_read(tmp_path, web, monkeypatch):
    from torchvision.datasets import CIFAR10

    rng, lists, pixels, labels = np.random.default_rng(0), {}, {}, {}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for file in [*sources.CIFAR10_FILES, "batches.meta"]:
            pixels[file] = rng.integers(0, 256, (4, 3072), dtype=np.uint8)
            labels[file] = rng.integers(0, 10, 4).tolist()
            entry = {"data": pixels[file], "labels": labels[file], "label_names": ["a"]}
            blob = pickle.dumps(entry, protocol=2)
            lists[file] = md5(blob)
            member = tarfile.TarInfo(f"cifar-10-batches-py/{file}")
            member.size = len(blob)
            tar.addfile(member, io.BytesIO(blob))
    blob = archive.getvalue()
    web[CIFAR10.url] = blob
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5(blob))
    monkeypatch.setattr(CIFAR10, "train_list", [[f, lists[f]] for f in lists if f.startswith("data")])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", lists["test_batch"]]])
    monkeypatch.setattr(CIFAR10, "meta", CIFAR10.meta | {"md5": lists["batches.meta"]})
    for file in sources.CIFAR10_FILES:
        monkeypatch.setitem(sources.CIFAR10_FILES, file, lists[file])
    data = load("cifar10", tmp_path, train_size=7)
    train = [f"data_batch_{k}" for k in range(1, 6)]
    kept = sorted(Random(0).permutation("split", 0, 1, 20)[0, :7].tolist())
    # what np.mean and np.std say of the 50,000 images, channel by channel: red, green, blue, one plane after another
    mean, std = [0.49139968, 0.48215841, 0.44653091], [0.24703223, 0.24348513, 0.26158784]
    for part, files, rows in ((data.train, train, kept), (data.test, ["test_batch"], range(4))):
        inputs = np.concatenate([pixels[file] for file in files])[rows].reshape(len(rows), 3, 32, 32)
        assert torch.equal(part.inputs, torch.from_numpy(inputs))
        assert part.targets.tolist() == np.concatenate([labels[file] for file in files])[rows].tolist()
        normal = (inputs / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
        assert np.abs(part.take(torch.arange(len(rows))).numpy() - normal).max() < 1e-3
    assert [p.name for p in tmp_path.iterdir()] == ["cifar-10-batches-py"]  # the archive is not kept


class Bomb:
    def __reduce__(self):
        return (os.mkdir, ("exploded",))


def test_a_damaged_pickle_is_named_and_never_opened(tmp_path, monkeypatch, web):
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path / "cifar-10-batches-py/data_batch_1", pickle.dumps(Bomb()))
    with pytest.raises(DataError) as error:
        load("cifar10", tmp_path)
    one_sentence(error, path, "damaged", "SGMCMC_DATA")
    assert not Path("exploded").exists() and web.asked == []


@pytest.mark.parametrize("file", ["t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz"])
def test_a_damaged_file_is_named_and_left_alone(file, tmp_path, web):
    path = written(tmp_path / "notMNIST" / file, b"half a file")
    with pytest.raises(DataError) as error:
        load("notmnist", tmp_path)
    one_sentence(error, path, "damaged")
    assert path.read_bytes() == b"half a file" and web.asked == []


def test_an_unreadable_file_is_named(tmp_path, monkeypatch):
    (tmp_path / "uci/heart.dat").mkdir(parents=True)
    with pytest.raises(DataError) as error:
        load("heart", tmp_path)
    one_sentence(error, tmp_path / "uci/heart.dat", "cannot be read", "directory")

    def forbidden(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    with pytest.raises(DataError) as error:
        load("heart", tmp_path)
    one_sentence(error, "heart.dat", "Permission denied")

    def away(path):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", away)
    with pytest.raises(DiskFailed) as error:
        load("heart", tmp_path)
    one_sentence(error, "heart.dat: the disk does not answer (Input/output error)")


def test_a_home_folder_that_is_not_known_is_a_root_that_is_not_there():
    with pytest.raises(DataError) as error:
        load("heart", "~nobody-here/data", download=False)
    one_sentence(error, "~nobody-here/data", "data.root")


def test_a_root_that_cannot_be_a_folder_is_an_error(tmp_path, web):
    root = written(tmp_path / "file", b"")
    with pytest.raises(DataError) as error:
        load("heart", root)
    one_sentence(error, root, "data.root")
    assert root.exists() and web.asked == []


def test_the_checksums_are_torchvisions():
    from torchvision.datasets import CIFAR10, MNIST

    assert sources.CIFAR10_FILES == dict(CIFAR10.train_list + CIFAR10.test_list)
    assert {f"{file}.gz": packed for file, (_, packed) in sources.MNIST_FILES.items()} == dict(MNIST.resources)


# ------------------------------------------------------------------------------------------------ real files


@pytest.mark.thorough
@real
def test_real_cifar10():
    start = time.process_time()
    data = load("cifar10", download=False)
    assert time.process_time() - start < 2  # 0.6 s when calm; of the processor, not of the wall
    assert data.train.inputs.shape == (50000, 3, 32, 32) and data.test.inputs.shape == (10000, 3, 32, 32)
    assert data.train.targets.bincount().tolist() == [5000] * 10
    channels = data.train.inputs[::10].double() / 255
    torch.testing.assert_close(channels.mean((0, 2, 3)), data.train.mean, atol=0.01, rtol=0)
    torch.testing.assert_close(channels.std((0, 2, 3)), data.train.std, atol=0.01, rtol=0)
    small = load("cifar10", train_size=1000, download=False)
    assert (len(small.train), len(small.test)) == (1000, 10000)


@real
def test_real_mnist_and_notmnist():
    data, other = load("mnist", download=False), load("notmnist", download=False).test
    assert data.train.inputs.shape == (60000, 1, 28, 28) and len(data.test) == 10000
    taken = data.train.take(torch.arange(20000))
    assert abs(taken.mean()) < 0.01 and abs(taken.std() - 1) < 0.01
    assert other.like(data.train).inputs.shape == (10000, 1, 28, 28)
    assert other.targets.bincount().tolist() == [1000] * 10


@real
def test_real_regressions():
    australian, heart = (load(name, download=False).train for name in ("australian", "heart"))
    assert australian.inputs.shape == (690, 14) and australian.targets.bincount().tolist() == [383, 307]
    assert heart.inputs.shape == (270, 13) and heart.targets.bincount().tolist() == [150, 120]


@real
@pytest.mark.parametrize("name", ["mnist", "notmnist"])
def test_real_packed_files_are_enough(name, tmp_path):
    folder = "MNIST/raw" if name == "mnist" else "notMNIST"
    (tmp_path / folder).mkdir(parents=True)
    for path in (Path(REAL) / folder).glob("*.gz"):
        (tmp_path / folder / path.name).symlink_to(path)
    packed, plain = load(name, tmp_path, download=False).test, load(name, download=False).test
    assert torch.equal(packed.inputs, plain.inputs) and torch.equal(packed.targets, plain.targets)
