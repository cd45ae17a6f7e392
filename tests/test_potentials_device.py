"""Targets on the device that the random numbers are on: chains start there, and nothing is mixed with the host's."""

import pytest
import torch

from experiments.build import TARGETS, build
from experiments.tables import amagold_networks
from sgmcmc.data import Dataset
from sgmcmc.evaluate import evaluate
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.potentials.regression import LinearRegression, LogisticRegression
from sgmcmc.random import Random
from sgmcmc.sampling import sample


def made(name: str):
    """A target of the name, with its defaults; the regressions on 20 data."""
    if name in TARGETS:
        return TARGETS[name]()
    inputs = Random(1).normal("split", 0, 1, 20, 3, torch.float64)[0]
    if name == "linear":
        return LinearRegression(inputs, inputs.sum(-1))
    return LogisticRegression(Dataset(inputs, torch.arange(20) % 2, 2))


NAMES = [*TARGETS, "logistic", "linear"]


class Elsewhere(Random):
    """Numbers on the device "meta", which has no values, and refuses tensors of the host's as a GPU does."""

    def normal(self, *arguments) -> torch.Tensor:
        return super().normal(*arguments).to("meta")

    def uniform(self, *arguments) -> torch.Tensor:
        return super().uniform(*arguments).to("meta")


@pytest.mark.parametrize("name", NAMES)
def test_chains_start_on_the_random_numbers_device(name):
    target = made(name)
    start = target.initial(3, Elsewhere(0))
    assert start.device.type == "meta"
    assert start.shape == (3, target.dim) and start.dtype == torch.float64


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", NAMES)
def test_chains_run_on_a_gpu_as_on_the_host(name):
    settings = {"steps": 3, "chains": 4, "cycles": 2, "step_size": 1e-4, "dtype": torch.float64, "gradient": "full"}
    there, here = (sample(made(name), "hmc", device=device, **settings) for device in ("cuda", "cpu"))
    torch.testing.assert_close(there.draws, here.draws, rtol=1e-9, atol=1e-9)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_predictions_of_a_run_on_a_gpu_are_a_row():
    words = ["experiment=amagold_table2", "scale=smoke", "point=4", "data=digits", "data.ood=null", "device=cuda"]
    pieces = build(pytest.importorskip("experiments.config").compose(words))
    ensemble, errors, losses = amagold_networks._predict([pieces.initial().cpu()], pieces, "test")
    assert ensemble.shape == (297, 10) and 0 <= errors[0] <= 100 and losses[0] > 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_network_on_a_gpu_is_evaluated_on_data_of_the_host():
    data = Dataset(torch.randn(9, 3), torch.arange(9) % 2, 2)
    there, here = (NetworkPotential(torch.nn.Linear(3, 2), data, device=device) for device in ("cuda", "cpu"))
    draws = torch.randn(8, 2, 8)
    assert evaluate(there, draws, data) == pytest.approx(evaluate(here, draws, data), rel=1e-3, nan_ok=True)
