"""The short form of `make torture`, part by part; its long form is run by hand, and its table is in results/."""

import json
import random
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import forked

ROOT = Path(__file__).resolve().parents[1]
TORTURE = [sys.executable, str(ROOT / "scripts" / "torture")]


@pytest.mark.slow
@pytest.mark.parametrize("part", ["kills", "files"])
def test_nothing_is_lost(part, tmp_path):
    """In a fork of this process, as the whole command does it in one that must import all of it first."""
    words = ["torture", "--json", "--quick", "--only", part, "--seed", str(random.SystemRandom().getrandbits(32))]
    ended = forked(lambda: runpy.run_path(TORTURE[1], run_name="__main__"), *words, folder=tmp_path)
    assert ended.returncode == 0 and "LOST" not in ended.stderr, f"{words} {ended.stdout}{ended.stderr}"
    rows = json.loads(ended.stdout.splitlines()[-1])["rows"]
    assert sum(row["times"] for row in rows) > 8 and not any(row["lost"] for row in rows), (words, rows)


@pytest.mark.slow
def test_the_command_tells_how_often_and_that_nothing_is_lost():
    ended = subprocess.run([*TORTURE, "--quick", "--only", "inputs"], capture_output=True, text=True)
    assert ended.returncode == 0 and "LOST" not in ended.stderr, ended.stdout + ended.stderr
    (total,) = [line for line in ended.stdout.splitlines() if line.startswith("| all |")]
    times, lost = total.split("|")[3:5]
    assert int(times) > 8 and int(lost) == 0


def test_rows_that_are_kept_from_an_earlier_call_are_not_said_to_be_of_this_machine(tmp_path):
    kept, new = (SimpleNamespace(part="kills", what="SIGKILL", times=1, lost=0, seed=seed) for seed in ("7", 8))

    def pages():
        page = runpy.run_path(str(ROOT / "scripts" / "torture" / "__main__.py"), run_name="torture")["page"]
        print(page([new], [], "", 8), page([kept, new], [], "", 8), sep="")

    told, said = "Rows of another seed than 8 are of an earlier call", forked(pages, "torture", folder=tmp_path).stdout
    assert said.count("# What a run survives") == 2 and said.count(told) == 1


def test_an_unknown_part_and_none_at_a_time_are_mistakes():
    for words, said in (
        (["--only", "wishes"], "--only wishes: must be some of kills"),
        (["--quick", "--side", "0"], "--side 0: must be at least 1"),
    ):
        ended = subprocess.run([*TORTURE, *words], capture_output=True, text=True, timeout=120)
        assert ended.returncode == 2 and said in ended.stderr
