"""What the benchmarks' contestants say of a block, units of work as numbers, and what scripts say of themselves."""

import runpy
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


@pytest.mark.parametrize("name", ["networks", "contestants", "cost", "convolutions", "kernels", "peers/published"])
def test_a_script_says_how_it_is_used(monkeypatch, capsys, name):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for words, status in ((["--help"], 0), (["nonsense"], 2)):
        monkeypatch.setattr("sys.argv", [f"{name}.py", *words])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(BENCHMARKS / f"{name}.py"), run_name="__main__")
        assert ended.value.code == status
    said = capsys.readouterr()
    assert f"python benchmarks/{name}.py" in said.out and "usage:" in said.err
