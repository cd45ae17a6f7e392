"""The breakages of scripts/mutants.py are of the library as it is; `make mutants` sees that the tests fail by them."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from mutants import MUTANTS  # noqa: E402


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_has_its_place_and_its_test(mutant):
    assert (ROOT / "sgmcmc" / f"{mutant.file}.py").read_text().count(mutant.old) == 1
    file, _, test = mutant.test.partition("::")
    assert f"def {test.partition('[')[0]}(" in (ROOT / "tests" / f"test_{file}").read_text()
