"""What the benchmarks' contestants say of a block, units of work as numbers, and what scripts say of themselves."""

import runpy
import sys
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import pytest

import sgmcmc

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
CONTESTANT = """
print("ready 0.5", flush=True)
while input() == "":
    print("{seconds} 2", flush=True)
"""


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


def test_ratios_are_to_the_first_contestant_or_are_not_given(monkeypatch):
    """A compiled chain where nothing can be compiled: those after it are not compared with each other instead."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from bench import judged
    from contest import Contestant, alternate

    def one(name, seconds):
        return Contestant(name, [sys.executable, "-c", CONTESTANT.format(seconds=seconds)])

    def broken():
        return Contestant("broken", [sys.executable, "-c", "raise SystemExit('it is not compiled')"])

    goals = {"slow": (5, "at least")}
    first, second, third = judged("toy", alternate([one("ours", 1), broken(), one("slow", 6)], 2), goals)
    assert (first["us"], first["ratio"], third["us"], third["ratio"]) == (5e5, 1, 3e6, 6)
    assert "it is not compiled" in second["note"] and "us" not in second
    assert third["goal"].endswith("met") and third["setup"] == 0.5
    first, second, third = judged("toy", alternate([broken(), one("ours", 1), one("slow", 6)], 2), goals)
    assert "it is not compiled" in first["note"] and third["us"] == 3e6
    assert "ratio" not in second and "ratio" not in third and "goal" not in third
    assert len(alternate([broken()], 2)) == 1


def test_a_contestant_that_ends_in_the_middle_is_named_with_its_last_words(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from contest import Contestant, alternate

    dies = 'print("ready 0", flush=True)\nraise SystemExit("no such script")'
    texts = {"ours": CONTESTANT.format(seconds=1), "theirs": dies}
    pair = [Contestant(name, [sys.executable, "-c", text]) for name, text in texts.items()]
    with pytest.raises(SystemExit, match="^theirs ended in the middle: no such script$"):
        alternate(pair, 2)
    assert all(one.process is None for one in pair)
    gone = Contestant("published", [sys.executable, str(BENCHMARKS / "peers" / "published.py"), "nothing.m", "7"])
    (row,) = alternate([gone], 2)
    assert row["note"].endswith("nothing.m: is no file") and "us" not in row


def test_a_bar_in_a_name_ends_no_cell_of_the_table(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import bench

    monkeypatch.setattr(bench, "HERE", tmp_path)
    bench.write([{"what": "error", "who": "h |∇U_i| = 0.1", "goal": "met", "note": "of float32"}], 60.0)
    (row,) = (line for line in (tmp_path / "table.md").read_text().splitlines() if "∇U" in line)
    assert row.replace("\\|", "").count("|") == 8 and row.endswith("| met | of float32 |")
    for line in (BENCHMARKS / "table.md").read_text().splitlines():
        assert not line.startswith("|") or line.replace("\\|", "").count("|") == 8, line


def test_an_outer_loop_the_published_way_asks_for_each_image_and_takes_u_twice(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import networks

    asked, give = [], networks.Pictures.__getitem__
    monkeypatch.setattr(networks.Pictures, "__getitem__", lambda all_, one: asked.append(one) or give(all_, one))
    networks.as_published(30, 3)()
    assert len(asked) == 2 * 30 + networks.STEPS * 3 and set(asked) == set(range(30))


def test_each_goal_of_a_network_is_said_beside_its_row(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import bench
    import networks

    row = {"ms": 1.0, "low": 1.0, "high": 1.0}
    rows = [{"what": name, "ratio": 0.9 * goal, **row} for name, (goal, _) in bench.NETWORK_GOALS.items()]
    monkeypatch.setattr(networks, "PARTS", {"all": lambda: [*rows, {"what": "another", "ratio": 1.0, **row}]})
    monkeypatch.setattr(bench, "side_by_side", lambda rounds: [])
    said = {row["who"]: row["goal"] for row in bench.networks(1)}
    assert said.pop(networks.AS_PUBLISHED) == "at least 8: missed" and said.pop("another") == ""
    assert all(goal.startswith("at most ") and goal.endswith(": met") for goal in said.values())


def test_steps_are_not_said_to_be_of_another_batch(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setattr("sys.argv", ["convolutions.py", "--steps", "--batch", "64"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(BENCHMARKS / "convolutions.py"), run_name="__main__")
    assert ended.value.code == 2 and "--batch 64: --steps takes the chains' own, 125" in capsys.readouterr().err


def test_rounds_that_are_none_are_a_mistake(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import bench

    monkeypatch.setattr("sys.argv", ["bench.py", "double_well", "--rounds", "0"])
    with pytest.raises(SystemExit) as ended:
        bench.main()
    assert ended.value.code == 2 and "--rounds 0: must be at least 1" in capsys.readouterr().err


def test_peers_that_have_not_run_are_named_with_their_command(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["peers.py", "ours", "missing.json"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(BENCHMARKS.parent / "scripts" / "peers.py"), run_name="__main__")
    told = "missing.json: is not there; .venv-peers/bin/python scripts/peers.py theirs missing.json writes it"
    assert ended.value.code == 2 and told in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="what a process takes is told by Linux")
def test_the_memory_that_grows_with_the_draws_is_not_the_benchmark_s_own(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import cost

    taken = []

    def run(*words):
        *_, report = words
        tracemalloc.start()
        for cycle in range(1, 20_001):
            report(SimpleNamespace(cycle=cycle), None)
        taken.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    monkeypatch.setattr(sgmcmc, "run", run)
    assert cost.point("samples", 200_000)["seconds"] > 0
    assert taken[0] < 100_000
