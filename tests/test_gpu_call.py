"""`make gpu`, in miniature on the CPU: chains that go on from call to call, also on another machine."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest

from experiments.config import compose
from experiments.resolved import folder
from sgmcmc import LAW, load_metrics

ROOT = Path(__file__).parents[1]
WORDS = ["experiment=ggmc_fig1", "scale=smoke", "data.train_size=50", "epochs=40", "trace_cycles=38", "save_every=1"]


@pytest.fixture
def call(tmp_path, monkeypatch):
    """``call(machine, budget)`` in a folder of its own: where it lies, its exit status."""
    spec = importlib.util.spec_from_file_location("gpu", ROOT / "scripts" / "gpu.py")
    gpu = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu", gpu)
    spec.loader.exec_module(gpu)
    monkeypatch.setattr(gpu, "PACKING", 0.0)
    monkeypatch.setattr(gpu, "LEAST", 0.1)
    jobs = [
        {"experiment": "ggmc_fig1", "config": compose([*WORDS, f"sampler={sampler}", "lr=1e-4"])}
        for sampler in ("ggmc", "hmc")
    ]

    def run(machine: str, minutes: float) -> tuple[Path, int]:
        root = tmp_path / machine
        monkeypatch.setattr(gpu, "ROOT", root)
        home = gpu.home("smoke")
        home.mkdir(parents=True, exist_ok=True)
        (home / "plan.json").write_text(json.dumps({"law": LAW, "jobs": jobs}))
        monkeypatch.chdir(root)  # where the script goes, too; undone at the end
        monkeypatch.setattr(sys, "argv", ["gpu.py", "run", "--device", "cpu", "--budget", str(minutes)])
        return root, gpu.main()

    run.jobs = jobs
    return run


def columns(root: Path, job: dict) -> dict:
    """A run's metrics but for its times."""
    metrics = load_metrics(root / folder(job["config"]))
    return {name: list(map(repr, values)) for name, values in metrics.items() if "second" not in name}


@pytest.mark.slow
def test_chains_go_on_from_call_to_call_and_on_another_machine(call, capsys):
    """Whatever the calls' length: the same rows as in one long call, each chain once, a table when all are done."""
    whole, status = call("whole", 10)
    assert status == 0 and "2 of 2 chains are done: the plan is complete" in capsys.readouterr().out
    here = None
    for number in range(100):
        machine, before = f"machine{number}", here
        if before is not None:  # what travels: the state, not the run folders
            shutil.copytree(before / "results/runs/smoke/state", before.parent / machine / "results/runs/smoke/state")
        here, status = call(machine, 0.02)
        assert status == 0
        states = [json.loads(path.read_text())["state"] for path in here.glob("results/runs/ggmc_fig1/*/status.json")]
        assert states.count("interrupted") <= 1  # what travels is the state of one
        if "the plan is complete" in capsys.readouterr().out:
            break
    assert number > 1
    tables = [root / "results/runs/smoke/tables/ggmc_figd1.csv" for root in (whole, here)]
    rows = [path.read_text().splitlines() for path in tables]
    place = rows[0][0].split(",").index("seconds")
    cut = [[line.split(",")[:place] for line in part] for part in rows]
    assert cut[0] == cut[1]
    last = call.jobs[-1]
    assert columns(whole, last) == columns(here, last)


def test_what_is_missing_is_one_sentence(call, capsys, tmp_path):
    root, _ = call("bare", 0.001)
    (root / "results/runs/smoke/state/plan.json").write_text('{"law": -1, "jobs": []}')
    capsys.readouterr()
    gpu = sys.modules["gpu"]
    assert gpu.main() == 2
    assert "make gpu-plan again" in capsys.readouterr().err
