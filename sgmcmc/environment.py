"""The machine, the device and the versions that a run is computed with."""

from __future__ import annotations

import os
import platform
import re
import socket
import subprocess
import threading
from contextlib import suppress
from functools import cache
from multiprocessing import parent_process
from pathlib import Path

import numpy
import torch

from sgmcmc import __version__

USUAL = "convolutions in float32, products in float32"  # on a CPU
# Variables that choose among the CPU kernels of MKL and oneDNN, whose last bits differ.
CHOOSING = ("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")


def one_thread() -> None:
    """Let torch compute with one CPU thread, unless ``OMP_NUM_THREADS`` is a number of them.

    More chains in more processes are worth more than more threads, which wait for each other where processes share the
    cores: two threads beside a chain on each of two cores are many times slower than one. (Where MKL_NUM_THREADS is
    set, torch has as many, whatever OMP_NUM_THREADS is: 1, as workers have it, is set again.)
    """
    said = re.match(r"\s*\d+", os.environ.get("OMP_NUM_THREADS", ""))
    if not said or int(said[0]) <= 1:
        torch.set_num_threads(1)


def cores() -> int:
    """The cores that this process may use: where the system tells it, a scheduler's part of the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_with_parent() -> None:
    """Let this process end when the one that began it has ended, in whatever way: what a pool's workers begin with,
    which would wait for work for ever."""
    threading.Thread(target=lambda: parent_process().join() or os._exit(1), daemon=True).start()


def needs_memory(error: Exception) -> bool:
    """Whether it is a lack of memory, as Python or torch tells it."""
    marks = ("allocate memory", "integer multiplication overflow", "Storage size calculation overflowed")
    return any(mark in str(error) for mark in marks) or isinstance(error, MemoryError | torch.OutOfMemoryError)


def of_the_machine(error: Exception) -> bool:
    """Whether it is a lack of memory, or a GPU's own error, which tell nothing of the work that was asked for."""
    marks = ("CUDA error", "CUBLAS_STATUS", "CUDNN_STATUS", "illegal memory access", "out of memory")
    told = isinstance(error, torch.AcceleratorError) or any(mark in str(error) for mark in marks)
    return told or needs_memory(error)


def environment(device: torch.device | str = "cpu") -> dict:
    """What a chain's last bits may depend on: machine, device, number of threads, versions, commit."""
    device = torch.device(device)
    processor = platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    chosen = [f"{name}={os.environ[name]}" for name in CHOOSING if os.environ.get(name)]
    products, on_gpu = precision(device), {}
    if device.type == "cuda":
        on_gpu = {"device": torch.cuda.get_device_name(device)}
        on_gpu |= {"deterministic": torch.backends.cudnn.deterministic, "cuda": torch.version.cuda}
    return {
        "host": socket.gethostname(),
        "processor": f"{processor} ({', '.join([torch.backends.cpu.get_cpu_capability(), *chosen])})",
        "device": device.type,
        **on_gpu,
        **({"precision": products} if on_gpu or products != USUAL else {}),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "sgmcmc": __version__,
        "git_commit": _git_commit(),
    }


def precision(device: torch.device) -> str:
    """What the products of float32 gradients are computed in, by torch's settings of the process; U of networks is not.
    On a CPU they are ``USUAL`` but where a program has changed them."""
    names, by, on_gpu = {"tf32": "TF32", "bf16": "bf16"}, torch.backends, device.type == "cuda"
    backends = (by.cudnn.conv, by.cuda.matmul) if on_gpu else (by.mkldnn.conv, by.mkldnn.matmul)
    kinds = zip(("convolutions", "products"), backends, strict=True)
    told = ", ".join(f"{kind} in {names.get(backend.fp32_precision, 'float32')}" for kind, backend in kinds)
    autocast = torch.is_autocast_enabled(device.type)
    return told + (f", autocast to {torch.get_autocast_dtype(device.type)}" if autocast else "")


@cache
def _git_commit() -> str | None:
    """Commit of the source tree that this package is run from, None where it is not in one. Asked for once: what a
    process computes with is what it imported."""

    def git(*words):
        command = ["git", "-C", str(Path(__file__).parent), *words]
        # It may complain of a folder whose name is of another encoding.
        ran = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True, timeout=10)
        return ran.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "-uno") else "")
    except (OSError, subprocess.SubprocessError):
        return None
