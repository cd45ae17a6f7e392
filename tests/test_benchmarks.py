"""What the benchmarks' contestants say of a block: units of work, as numbers."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize(
    "name, given, units",
    [("normals", {"chains": 7}, 2000 * 7), ("logistic_autograd", {}, 20), ("resnet_steps", {}, 5)],
)
def test_a_block_says_how_many_units_it_was(monkeypatch, name, given, units):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import contestants
    import networks

    served = []
    monkeypatch.setattr(contestants, "serve", served.append)
    monkeypatch.setattr(networks, "stepping", lambda *words: (lambda: None, 0.0))  # a compiled ResNet's takes a minute
    getattr(contestants, name)(**given)
    (work,) = served
    assert work() == units
