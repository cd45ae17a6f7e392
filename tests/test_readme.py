"""What the README shows works as it stands there."""

import math
import re
from pathlib import Path

import pytest
import torch

import sgmcmc
from experiments.build import settings_of
from experiments.command_line import main
from experiments.grid import sweep
from experiments.run import run
from sgmcmc.formats import read_status
from sgmcmc.random import Random
from sgmcmc.samplers import SAMPLERS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.thorough
def test_the_notebook_example_samples_its_ring(capsys):
    code, *_ = CODE
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


def test_the_regression_has_the_gradient_of_its_u_and_samples(recwarn):
    _, code, _ = CODE
    names: dict = {"sgmcmc": sgmcmc, "torch": torch}
    exec(compile(code.replace("cycles=200", "cycles=20"), "README.md", "exec"), names)
    target, result = names["target"], names["result"]
    assert result.draws.shape == (20, 4, 31) and 0 < result.accepted
    assert all("not in equilibrium" in str(warning.message) for warning in recwarn.list)  # as README.md says
    theta = target.initial(3, Random(1)).double().requires_grad_()
    (slope,) = torch.autograd.grad(target.potential(theta).sum(), theta)
    torch.testing.assert_close(target.gradient(theta.detach()), slope)
    parts = torch.arange(100).view(4, 1, 25).expand(-1, 3, -1)
    torch.testing.assert_close(sum(target.gradient(theta.detach(), part) for part in parts) / 4, slope)
    network, weights = names["network"], theta[0].detach().split([10, 10, 10, 1])
    network.double().load_state_dict(
        {key: weight.view(own.shape) for weight, (key, own) in zip(weights, network.state_dict().items(), strict=True)}
    )
    law = torch.distributions.Normal(network(target.x).squeeze(-1), target.sd)
    prior = torch.distributions.Normal(0, 1)
    joint = law.log_prob(target.y).sum() + prior.log_prob(theta[0]).sum()
    constant = 31 * math.log(2 * math.pi) / 2 + 100 * math.log(target.sd * math.sqrt(2 * math.pi))
    assert float(target.potential(theta)[0] + joint) == pytest.approx(-constant)


@pytest.mark.thorough
def test_the_weights_of_a_run_are_those_of_its_network(tmp_path):
    run = "experiment=digits scale=smoke data.train_size=100 cycles=1 epochs=null progress=false"
    assert main([*run.split(), f"output={tmp_path}"]) == 0
    *_, code = CODE
    names: dict = {"sgmcmc": sgmcmc}
    exec(compile(code.replace("results/runs/digits/…", str(tmp_path)), "README.md", "exec"), names)
    network, weights = names["network"], names["weights"]
    network.model.load_state_dict(weights, strict=False)  # batch normalisation's buffers are in no θ
    draw = sgmcmc.load_samples(tmp_path)[-1]
    some = names["data"].train.take(torch.arange(5))
    expected = network.predict(draw, some)[0].double()
    assert torch.allclose(network.model(some).softmax(-1).double(), expected, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [
        "model=gaussian model.dim=2 sampler=random_walk step_size=0.5 chains=2 thin=2 cycles=60 name=walk",
        "model=mlp model.hidden=[4] data=digits data.train_size=108 init=sgd sampler=ggmc step_size=0.01 batch_size=27 "
        "epochs=4 epochs_per_cycle=1",
    ],
)
def test_a_run_is_made_again_from_its_folder_alone(tmp_path, monkeypatch, words):
    """Even where the words that its settings make would be refused, or taken for an experiment's."""
    assert main([*words.split(), "progress=false", f"output={tmp_path / 'FOLDER'}"]) == 0
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"`(run\(settings_of.*?\))`", README)
    assert eval(code, {"run": run, "settings_of": settings_of}) == 0
    one, other = (read_status(tmp_path / folder)["identity"] for folder in ("FOLDER", "ANOTHER"))
    assert one == other
    assert torch.equal(*(sgmcmc.load_samples(tmp_path / folder) for folder in ("FOLDER", "ANOTHER")))


@pytest.mark.thorough
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


def test_the_samplers_table_is_the_program_s():
    rows = dict(re.findall(r"^\| `(\w+)` \| ([A-Z]+)", README, re.MULTILINE))
    for name, sampler in SAMPLERS.items():
        if name not in ("baoab", "aboba"):
            assert rows.get(name) == sampler.word, f"README's table of samplers lacks {name} ({sampler.word})"


def test_the_certificate_s_rows_stand_in_it():
    page = (ROOT / "results/certificate.md").read_text().splitlines()
    (excerpt,) = re.findall(r"```\n(sampler and variant .*?)\n```", README, re.DOTALL)
    assert [line for line in excerpt.splitlines() if line not in page] == []
    (rows,) = re.findall(r"Some of its (\d+) rows", README)
    assert any(line.startswith(f"{rows} rows, ") for line in page)


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", ["README.md", "results/README.md", "benchmarks/README.md", "scripts/README.md"])
def test_every_file_and_heading_that_a_page_names_is_there(name):
    page = ROOT / name
    links = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text())
    links = [(link, anchor) for link, anchor in links if "://" not in link]
    assert links
    for link, anchor in links:
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not anchor or anchor in slugs(target), f"{link}#{anchor}"


@pytest.mark.parametrize("name", ["README.md", "results/README.md", "benchmarks/README.md", "scripts/README.md"])
def test_the_items_of_a_page_s_lists_are_lines_of_their_own(name):
    page = (ROOT / name).read_text()
    assert page.endswith("\n") and not re.findall(r"\S +- \*\*.*", page)
    assert not re.findall(r"^- .*\n\w.*", page, re.MULTILINE)  # what goes on with an item is set in


def test_what_the_captions_have_one_run_is_one_run():
    page = " ".join((ROOT / "results/README.md").read_text().split())
    commands = re.findall(r"`python run\.py experiment=(\w+) ([^`]*)`", page)
    assert commands
    for experiment, words in commands:
        assert len(sweep(experiment, tuple(words.split()))) == 1, f"experiment={experiment} {words} is a grid"
