"""How many CPU threads what is computed may take."""

import json
import os
import subprocess
import sys

import pytest
import torch

from experiments import evaluate, tasks
from experiments.command_line import main
from sgmcmc.environment import CHOOSING, _git_commit, cores, environment, one_thread


@pytest.fixture
def two_threads(monkeypatch):
    """As many as torch may take by itself of two cores, and no word of the user's on it."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


SAID = [(None, 1), ("", 1), ("0", 1), ("many", 1), ("1", 1), ("2", 2), (" 2,1", 2), ("12", 2)]  # 1: MKL_NUM_THREADS=2


@pytest.mark.parametrize(("said", "threads"), SAID)
def test_there_is_one_thread_but_where_a_number_is_said(two_threads, monkeypatch, said, threads):
    if said is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", said)
    one_thread()
    assert torch.get_num_threads() == threads


def test_which_kernels_a_cpu_has_is_recorded_where_the_user_chooses(monkeypatch):
    for name in CHOOSING:
        monkeypatch.delenv(name, raising=False)
    usual = environment()
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")  # under which products of matrices have other last bits
    assert environment() == usual | {"processor": usual["processor"][:-1] + ", MKL_CBWR=COMPATIBLE)"}


def test_what_products_are_computed_in_is_recorded_where_a_program_has_changed_it():
    usual, before = environment(), torch.get_float32_matmul_precision()
    assert "precision" not in usual
    try:
        torch.set_float32_matmul_precision("medium")
        with torch.autocast("cpu"):
            told = "convolutions in float32, products in bf16, autocast to torch.bfloat16"
            assert environment() == usual | {"precision": told}
    finally:
        torch.set_float32_matmul_precision(before)
    assert environment() == usual


def test_what_git_says_may_be_of_any_encoding(tmp_path, monkeypatch):
    """Such as the name of a folder that is another user's, on standard error."""
    git = tmp_path / "git"
    git.write_bytes(b"#!/bin/sh\necho fatal: dubious ownership in repository at /home/m\xfcller >&2\nexit 128\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _git_commit.__wrapped__() is None


def test_cores_are_those_of_the_process_or_of_the_machine(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 128)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    assert cores() == 128


def test_a_run_its_table_and_its_evaluation_have_one_thread(two_threads, monkeypatch, tmp_path, capsys):
    """Two are many times slower than one where other processes have the cores, as workers do."""
    monkeypatch.chdir(tmp_path)
    assert main(["model=double_well", "sampler=hmc", "step_size=0.3", "cycles=4", "output=run"]) == 0
    (known,) = json.loads((tmp_path / "run" / "status.json").read_text())["environments"]
    assert torch.get_num_threads() == known["threads"] == 1
    torch.set_num_threads(2)
    assert evaluate.main(["run"]) == 2 and "has no data" in capsys.readouterr().err
    assert torch.get_num_threads() == 1
    torch.set_num_threads(2)
    with pytest.raises(SystemExit):
        tasks.table("amagold_fig1", "amagold_fig1", "smoke", [], [{"status": "done", "folder": "gone"}])
    assert torch.get_num_threads() == 1


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_pool_s_workers_end_with_the_process_that_began_them(tmp_path, way):
    pool = "ProcessPoolExecutor(2, mp_context=get_context(sys.argv[1]), initializer=end_with_parent)"
    script = tmp_path / "begin.py"
    script.write_text(
        "import os, signal, sys, time\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from multiprocessing import get_context\n"
        "from sgmcmc.environment import end_with_parent\n"
        "if __name__ == '__main__':\n"
        f"    with {pool} as pool:\n"
        "        list(pool.map(time.sleep, [0.2] * 4))\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # Their standard output is the pipe, which has no end before all of them have.
    ended = subprocess.run([sys.executable, script, way], stdout=subprocess.PIPE, timeout=100)
    assert ended.returncode == -9
