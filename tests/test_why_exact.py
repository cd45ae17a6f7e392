"""The README's first picture: what it asks for, and what it says of the draws."""

import csv
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sgmcmc.random import Random

ROOT = Path(__file__).parents[1]


def test_the_readme_s_picture_has_the_divergence_of_the_draws_and_its_jackknife_s_error(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("why_exact", ROOT / "scripts" / "why_exact.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    target, asked = script.DoubleWell(), []

    def sample(potential, sampler, **settings):
        asked.append({"sampler": sampler, "noise": potential.noise, **settings})
        draws = target.exact(20 * 1000, Random(len(asked))).view(20, 1000, 1)
        return SimpleNamespace(draws=draws, accepted=len(asked), proposed=100)

    monkeypatch.setattr(script.sgmcmc, "sample", sample)
    monkeypatch.setattr(script, "OUT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["why_exact.py"])
    monkeypatch.setattr(script, "draw", lambda *given: None)
    script.main()
    as_told = {"noise": 1.0, "beta": 0.25, "steps": 10, "chains": 1000, "cycles": 1200, "burn_in": 200}
    assert len(asked) == 16 and all({**one, **as_told} == one for one in asked)
    assert [one.get("acceptance") for one in asked] == [None] * 4 + ["monitor"] * 4 + ["metropolis"] * 4 + [None] * 4
    masses = script.Grid([-6.0], [6.0], [120]).masses(lambda x: -target.potential(x))

    def divergence(draws):
        q = np.maximum(np.histogram(draws, 120, (-6, 6))[0] / draws.size, 1e-12)
        return ((q - masses) * np.log(q / masses)).sum()

    with open(tmp_path / "why_exact.csv") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows, 1):
        draws = target.exact(20 * 1000, Random(number)).view(20, 1000).numpy()
        without = [divergence(np.delete(draws, slice(100 * k, 100 * k + 100), 1)) for k in range(10)]
        assert float(row["J"]) == pytest.approx(divergence(draws), rel=1e-5)
        assert float(row["error"]) == pytest.approx(
            (9 / 10 * ((without - np.mean(without)) ** 2).sum()) ** 0.5, rel=1e-4
        )
        corrected = 9 <= number
        assert row["accepted"] == (str(number / 100) if corrected else "")
