"""The short form of `make torture`, part by part; its long form is run by hand, and its table is in results/."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TORTURE = [sys.executable, str(ROOT / "scripts" / "torture")]


@pytest.mark.slow
@pytest.mark.parametrize("part", ["kills", "files", "inputs"])
def test_nothing_is_lost(part):
    ended = subprocess.run([*TORTURE, "--quick", "--only", part], capture_output=True, text=True)
    assert ended.returncode == 0 and "LOST" not in ended.stderr, ended.stdout + ended.stderr
    (total,) = [line for line in ended.stdout.splitlines() if line.startswith("| all |")]
    times, lost = total.split("|")[3:5]
    assert int(times) > 8 and int(lost) == 0


def test_an_unknown_part_is_a_mistake():
    ended = subprocess.run([*TORTURE, "--only", "wishes"], capture_output=True, text=True)
    assert ended.returncode == 2 and "--only wishes: must be some of kills" in ended.stderr
