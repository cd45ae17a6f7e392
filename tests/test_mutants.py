"""The breakages of scripts/mutants.py are of the library as it is; `make mutants` sees that the tests fail by them."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import mutants  # noqa: E402
from mutants import MUTANTS, Mutant  # noqa: E402

TESTS = """
import pytest
from sgmcmc.toy import twice


def test_asserts():
    assert twice(1) == 2


def test_calls():
    twice(1)


def test_waits():
    with pytest.raises(ValueError):
        twice(-1)
"""
TOY = """
from typing import assert_never


def twice(x):
    if x < 0:
        raise ValueError
    return 2 * x
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A library of one function and its tests in place of this one's."""
    for name, text in (("sgmcmc/__init__.py", ""), ("sgmcmc/toy.py", TOY), ("tests/test_toy.py", TESTS)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "PARTS", ("sgmcmc", "tests"))
    return tmp_path


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("old", "new", "test", "verdict"),
    [
        ("2 * x", "3 * x", "asserts", "killed"),
        ("raise ValueError", "return 0", "waits", "killed"),
        ("2 * x", "2 + x - x", "asserts", "SURVIVES"),
        ("2 * x", "1 / 0", "asserts", "NOT BY AN ASSERTION"),
        ("return 2 * x", "assert_never(x)", "calls", "NOT BY AN ASSERTION"),  # of what the library called
        ("def twice", "def thrice", "asserts", "NO SUCH TEST"),  # none could be collected
        ("4 * x", "3 * x", "asserts", "DOES NOT APPLY: 0 matches"),
        ("x", "y", "asserts", "DOES NOT APPLY: 3 matches"),
    ],
)
def test_a_mutant_is_killed_by_an_assertion_of_its_test_alone(toy, old, new, test, verdict):
    before = {path: path.read_bytes() for path in toy.rglob("*.py")}
    assert mutants.judge(Mutant("toy", "toy", old, new, f"toy.py::test_{test}"))[0] == verdict
    assert before == {path: path.read_bytes() for path in toy.rglob("*") if path.is_file()}


def test_a_slow_machine_has_time_for_all_tests_of_the_unbroken_tree(monkeypatch, capsys):
    """As long for each as one test has; a random mutant has three times what the heart took, or that."""
    asked, clock = [], [0.0]

    def ask(tree, *words, seconds=mutants.TIMEOUT):
        asked.append((len(words), seconds))
        clock[0] += 200 * len(words)
        named = words[0].startswith("tests/") and words != mutants.HEART_TESTS
        return {"passed": len(words), "failed": [("", True)] if len(words) == 1 and named else [], "status": 0}

    few = MUTANTS[:5]  # each has a copy of the tree to itself
    monkeypatch.setattr(mutants, "MUTANTS", few)
    monkeypatch.setattr(mutants, "ask", ask)
    monkeypatch.setattr(mutants.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr("sys.argv", ["mutants.py", "--random", "1", "--workers", "1"])
    assert mutants.main() == 1 and "SURVIVES" in capsys.readouterr().out  # the random one: nothing failed
    tests, heart = len({mutant.test for mutant in few}), len(mutants.HEART_TESTS)
    assert asked[:2] == [(tests, 300 * tests), (heart, 300 * heart)]
    assert {limit for words, limit in asked[2:-2]} == {300}
    assert [limit for _, limit in asked[-2:]] == 2 * [600 * heart]


def test_tests_that_do_not_end_are_said_to(toy):
    assert mutants.ask(toy, "tests/test_toy.py", seconds=0.01)["output"] == "no end after 0 s"


def test_more_at_random_than_there_are_are_all_of_them():
    assert len(mutants.draw(10**6, 1)) == len(set(mutants.draw(10**6, 2))) > 500


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_has_its_place_and_its_test(mutant):
    assert (ROOT / "sgmcmc" / f"{mutant.file}.py").read_text().count(mutant.old) == 1
    file, _, test = mutant.test.partition("::")
    assert f"def {test.partition('[')[0]}(" in (ROOT / "tests" / f"test_{file}").read_text()
