"""Where the data files come from: read from ``data.root`` if they are there, downloaded from their publishers if not.

No byte is used, let alone unpickled, before its md5 has been compared with the one below. A download goes to a
folder of its own and is renamed into place when it is whole, so a killed download leaves nothing half-written and
two processes may fetch the same files at the same time.

Laid out below ``data.root`` as torchvision does it: ``cifar-10-batches-py/``, ``MNIST/raw/``; and ``notMNIST/``,
``uci/``.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import logging
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException
from pathlib import Path

from sgmcmc import disk
from sgmcmc.errors import DataError

log = logging.getLogger(__name__)

TIMEOUT = 60.0  # seconds without an answer from a publisher's server

CIFAR10_FILES = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
# idx file: (md5 of the file, md5 of its .gz)
MNIST_FILES = {
    "train-images-idx3-ubyte": ("6bbc9ace898e44ae57da46a324031adb", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "train-labels-idx1-ubyte": ("a25bea736e30d166cdddb491f175f624", "d53e105ee54ea40749a09fcbcd1e9432"),
    "t10k-images-idx3-ubyte": ("2646ac647ad5339dbf082846283269ea", "9fb629c4189551a2d022fa330f9573f3"),
    "t10k-labels-idx1-ubyte": ("27ae3e4e09519cfbb04c329615203637", "ec29112dd5afa0611ce80d1b7f02629c"),
}
NOTMNIST_FILES = {
    "t10k-images-idx3-ubyte": ("1e78b07d677d6e4de2c8857bafff012e", "2c87c839a4ef9b238846600eec8c35b7"),
    "t10k-labels-idx1-ubyte": ("b10b3ef34b4e468313a7b24c216c6a53", "7ea9118cbafd0f6e3ee2ad771d782a01"),
}
UCI_FILES = {
    "australian.dat": "b6fe154b62a8eb00277acec95b608590",
    "heart.dat": "87840388f261cc16924533a0bb47000b",
}
# the commit that added the converted files, so that a renamed branch does not matter
NOTMNIST_URL = (
    "https://raw.githubusercontent.com/davidflanagan/notMNIST-to-MNIST/c58c29ff93d7b8c809c449b380a232f9f39909fd/"
)
UCI_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/"


def _candidates(name: str, file: str) -> list[tuple[str, str]]:
    """Where ``file`` of the data set ``name`` may lie below the root, and its md5 there."""
    if name == "cifar10":
        return [(f"cifar-10-batches-py/{file}", CIFAR10_FILES[file])]
    if name in ("australian", "heart"):
        return [(f"uci/{file}", UCI_FILES[file])]
    folder, files = ("MNIST/raw", MNIST_FILES) if name == "mnist" else ("notMNIST", NOTMNIST_FILES)
    plain, packed = files[file]
    return [(f"{folder}/{file}", plain), (f"{folder}/{file}.gz", packed)]


def read(name: str, file: str, root: Path, download: bool) -> bytes:
    """The verified (and unpacked) bytes of one file of the data set ``name``.

    Raises DataError where the file is damaged or unreadable, or is not there and cannot be downloaded; DiskFailed where
    its disk does not answer.
    """
    candidates = _candidates(name, file)
    for relative, md5 in candidates:
        path = root / relative
        try:
            blob = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            unreadable = DataError(f"{path} cannot be read: {error.strerror or error}")
            raise disk.failed(error, path) or unreadable from error
        found = hashlib.md5(blob, usedforsecurity=False).hexdigest()
        if found != md5:
            raise DataError(
                f"{path} is damaged (its md5 is {found}, not {md5}): remove it to have it downloaded again, or set"
                " data.root or the environment variable SGMCMC_DATA to a folder with a good copy"
            )
        return gzip.decompress(blob) if relative.endswith(".gz") else blob
    folder = (root / candidates[0][0]).parent
    if download:
        fetch(name, file, folder, root)
        return read(name, file, root, download=False)
    raise DataError(f"{_missing(name, file, folder)} and downloading is off: {MEND}")


MEND = "set data.root, or the environment variable SGMCMC_DATA, to a folder that has it"


def _missing(name: str, file: str, folder: Path) -> str:
    return f"the data set {name} needs the file {file}, which is not in {folder.absolute()}"


def fetch(name: str, file: str, folder: Path, root: Path) -> None:
    """Downloads the data set ``name`` to ``root``; on failure raises DataError and leaves nothing behind.

    ``file`` in ``folder`` is what was missed, for the message.
    """
    created = [path for path in (root, *root.parents) if not os.path.exists(path)]
    if root.exists() and not root.is_dir():
        raise DataError(f"the data set {name} needs the file {file}, and {root} is no folder: {MEND}")
    try:
        root.mkdir(parents=True, exist_ok=True)
        log.info("downloading %s to %s", name, root.absolute())
        with tempfile.TemporaryDirectory(prefix=".download-", dir=root, ignore_cleanup_errors=True) as beside:
            with _quiet():
                _DOWNLOADS[name](beside)
            for path in sorted(Path(beside).rglob("*")):
                if path.is_file() and not path.name.endswith(".tar.gz"):
                    target = root / path.relative_to(beside)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.replace(path, target)
    except (OSError, RuntimeError, EOFError, HTTPException) as error:  # no network, md5, disk, cut short
        for path in created:
            with contextlib.suppress(OSError):  # not empty: another process is using it
                path.rmdir()
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{_missing(name, file, folder)} and could not be downloaded ({reason}): {MEND}") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars of torchvision, and no waiting for ever for a server that does not answer."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        socket.setdefaulttimeout(before)


# torchvision takes two seconds to import, and is needed for downloads only
def _cifar10(beside: str) -> None:
    from torchvision.datasets import CIFAR10

    CIFAR10(beside, download=True)


def _mnist(beside: str) -> None:
    from torchvision.datasets import MNIST

    MNIST(beside, download=True)


def _notmnist(beside: str) -> None:
    from torchvision.datasets.utils import download_url

    for file, (_, md5) in NOTMNIST_FILES.items():
        download_url(f"{NOTMNIST_URL}{file}.gz", f"{beside}/notMNIST", md5=md5)


def _uci(name: str, beside: str) -> None:
    from torchvision.datasets.utils import download_url

    file = f"{name}.dat"
    download_url(f"{UCI_URL}{name}/{file}", f"{beside}/uci", md5=UCI_FILES[file])


_DOWNLOADS: dict[str, Callable[[str], None]] = {
    "cifar10": _cifar10,
    "mnist": _mnist,
    "notmnist": _notmnist,
    "australian": partial(_uci, "australian"),
    "heart": partial(_uci, "heart"),
}
