"""What the README shows works as it stands there."""

import re
import warnings
from pathlib import Path

import pytest
import torch

import sgmcmc
from sgmcmc.errors import SettingError
from sgmcmc.samplers import SAMPLERS

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_notebook_example_samples_its_ring(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    draws = names["result"].draws
    assert draws.shape == (1000, 100, 2)
    radius = draws[200:].double().norm(dim=-1)
    # The radius has density ∝ r exp(−8 (r − 2)²): mean 2.0312. 100 chains; the bound is above 6 standard errors.
    grid = torch.linspace(0, 5, 50_001, dtype=torch.float64)
    weight = grid * torch.exp(-8 * (grid - 2) ** 2)
    mean = float((grid * weight).sum() / weight.sum())
    by_chain = radius.mean(0)
    assert abs(by_chain.mean() - mean) < 6 * by_chain.std() / 10
    assert "torch.Size([1000, 100, 2])" in capsys.readouterr().out


def test_a_chain_that_is_not_corrected_says_so():
    function = {"potential": lambda theta: (theta**2).sum() / 2, "dim": 3, "step_size": 0.5, "cycles": 3}
    with pytest.warns(UserWarning, match="not corrected"):
        sgmcmc.sample(**function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for more in ({"acceptance": "metropolis"}, {"acceptance": "monitor"}, {"sampler": "amagold"}):
            sgmcmc.sample(**function, **more)


def test_a_function_is_a_target():
    result = sgmcmc.sample(
        lambda theta: (theta**2).sum() / 2,
        dim=3,
        step_size=0.5,
        acceptance="metropolis",
        cycles=200,
        chains=50,
        burn_in=50,
    )
    by_chain = result.draws.double().square().mean((0, 2))
    assert abs(by_chain.mean() - 1) < 6 * by_chain.std() / 50**0.5
    assert result.status == "done" and result.rows[-1]["cycle"] == 200


def test_a_function_needs_its_dimension():
    with pytest.raises(SettingError, match="dim"):
        sgmcmc.sample(lambda theta: theta.sum(), step_size=0.1)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mass": -1.0}, "mass=-1.0: must be positive"),
        ({"mass": [1.0, 2.0, 3.0]}, "mass=[3 numbers]: must be a number or 2"),
        ({"thin": 0}, "thin=0: must be at least 1"),
        ({"chains": 0}, "chains=0: must be at least 1"),
        ({"burn_in": 9, "cycles": 5}, "burn_in=9: leaves no draws of cycles=5"),
        ({"tune": 1.5}, "tune=1.5: is the acceptance"),
        ({"initial": torch.zeros(4, 2)}, "initial=[4, 2]: must be [1, 2]"),
        ({"momentum_decay": [0.5, 0.6], "chains": 3}, "momentum_decay=[2 numbers]: must be a number or 3"),
        ({"step_size": [0.1, 0.2], "chains": 3}, "step_size=[2 numbers]: must be a number or 3"),
    ],
)
def test_a_call_that_cannot_work_is_refused_in_a_sentence(settings, said):
    settings = {"step_size": 0.1, "cycles": 20, **settings}
    with pytest.raises(SettingError) as error:
        sgmcmc.sample(lambda theta: (theta**2).sum() / 2, dim=2, acceptance="metropolis", **settings)
    assert str(error.value).startswith(said)


def test_the_samplers_table_is_the_program_s():
    rows = dict(re.findall(r"^\| `(\w+)` \| ([A-Z]+)", README, re.MULTILINE))
    for name, sampler in SAMPLERS.items():
        if name not in ("baoab", "aboba"):
            assert rows[name] == sampler.word


def test_every_file_that_the_readme_names_is_there():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (Path(__file__).parents[1] / link).exists(), link
