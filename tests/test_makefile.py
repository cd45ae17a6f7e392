"""What targets of the Makefile would do, as `make -n` says it."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def recipe(*words: str) -> str:
    # Of the environment the path alone: `make test` would hand on its own level, flags and variables.
    environment = {"PATH": os.environ["PATH"]}
    command = ["make", "-n", "-o", ".venv/.installed", "VENV=.venv", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout


def test_clean_leaves_folders_that_only_runs_are_written_to():
    """`output=outputs/x` is a natural choice, and Hydra writes no such folder here."""
    (words,) = (line.split() for line in recipe("clean").splitlines() if line.startswith("rm "))
    assert words[:4] == ["rm", "-rf", "build", "dist"]
    assert all(word.startswith(".") for word in words[4:])


@pytest.mark.parametrize(
    ("workers", "draw", "status"), [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1), (2, None, 2), (75, None, 75)]
)
def test_reproduce_fails_where_the_workers_or_the_figures_do(tmp_path, workers, draw, status):
    python = tmp_path / "python"
    does = f"*workers.py) exit {workers};; *draw.py) touch drawn; exit {draw};;"
    python.write_text(f"#!/usr/bin/env bash\ncase $1 in {does} esac\n")
    python.chmod(0o755)
    script = recipe("reproduce", "PYTHON=./python")
    script = script[script.index("./python scripts/workers.py") :]
    assert subprocess.run(["bash", "-c", script], cwd=tmp_path).returncode == status
    assert (tmp_path / "drawn").exists() == (draw is not None)


def test_a_folder_for_what_a_gpu_has_done_may_have_spaces_in_its_name():
    assert recipe("gpu", "OUT=to be kept").rstrip().endswith("--out 'to be kept'")
    assert "--out" not in recipe("gpu")
