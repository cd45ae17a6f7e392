"""The trace of a cycle, step by step: its last exact point is the cycle's own acceptance."""

import pytest
import torch

from sgmcmc import Plan, Random, SettingError, make_kernel, run
from sgmcmc.data import load
from sgmcmc.models import build
from sgmcmc.potentials.analytic import Quartic
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.schedules import Schedule


class Memory:
    """A store that keeps what is committed."""

    def __init__(self):
        self.rows, self.trace = [], []

    def load(self):
        return None

    def commit(self, rows, draws, state, trace, keep):
        self.rows += rows
        self.trace += trace


def _traced(kernel, potential, cycles, chains=1, every=1):
    store, random = Memory(), Random(3)
    start = potential.initial(chains, random).to(torch.float64)
    plan = Plan(cycles=cycles, trace=every, log_every=1, keep="none")
    run(kernel, potential, plan, random, chains, lambda: start, None, store)
    return store


@pytest.mark.parametrize("word", ["OBABO", "BAB", "BAOAB", "OBAB", "BABOBAB", "OBBABBO", "BOBAABOB"])
@pytest.mark.parametrize("direction", ["forward", "random"])
def test_the_last_traced_point_is_the_trajectory_s_acceptance(word, direction):
    target = Quartic(dim=3)
    kernel = make_kernel(
        "hmc",
        target,
        0.3,
        word=word,
        steps=4,
        refresh="full",
        schedule=Schedule("constant", direction),
        dtype=torch.float64,
    )
    store = _traced(kernel, target, cycles=3)
    for row in store.rows:
        points = [point for point in store.trace if point["cycle"] == row["cycle"]]
        assert len(points) == kernel.points
        assert points[0]["log_accept"] == 0
        assert points[-1]["log_accept"] == pytest.approx(row["log_accept"], abs=1e-12)


def test_a_traced_point_is_at_its_step():
    """Of two gradients a step every other one is inside: the next cycle begins where the last one ended."""
    target = Quartic(dim=3)
    for word, steps in (("BABOBAB", [0, 0.5, 1, 1.5, 2]), ("BAB", [0, 1, 2]), ("ABABA", [0, 0.5, 1, 1.5])):
        kernel = make_kernel("hmc", target, 0.3, word=word, steps=2, refresh="full", dtype=torch.float64)
        store = _traced(kernel, target, cycles=2)
        assert [row["step"] for row in store.trace] == steps + [2 + step for step in steps]
        assert [row["step"] for row in store.rows] == [2, 4]


def test_exact_ends_of_a_network_s_traced_cycle():
    data = load("digits")
    potential = NetworkPotential(build("mlp", data.train, hidden=[6]), data.train, dtype=torch.float64)
    kernel = make_kernel("ggmc", potential, 0.01, steps=5, ends="exact", batch_size=100, dtype=torch.float64)
    store = _traced(kernel, potential, cycles=2, every=2)
    ends = [point for point in store.trace if point["exact"]]
    assert [point["step"] for point in ends] == [0, 5, 5, 10]
    for first, last, row in zip(ends[::2], ends[1::2], store.rows, strict=True):
        assert first["log_accept"] == 0
        assert last["log_accept"] == pytest.approx(row["log_accept"], abs=1e-9)


def test_what_cannot_be_traced_is_refused():
    target = Quartic(noise=1.0)
    kernel = make_kernel("hmc", target, 0.3, steps=4, schedule=Schedule("cosine", "random"))
    with pytest.raises(SettingError, match="trace"):
        _traced(kernel, target, cycles=1, chains=2)


def test_there_is_no_tuning_without_an_acceptance():
    target = Quartic()
    kernel = make_kernel("sghmc", target, 0.1, steps=4)
    plan = Plan(cycles=5, burn_in=3, tune=0.8)
    with pytest.raises(SettingError, match="tune.target"):
        run(kernel, target, plan, Random(0), 1, lambda: torch.zeros(1, 1))


def test_moments_are_those_of_the_draws():
    target, random = Quartic(dim=2), Random(1)
    kernel = make_kernel("hmc", target, 0.3, steps=4)
    result = run(
        kernel, target, Plan(cycles=40, burn_in=10, thin=3), random, 5, lambda: target.initial(5, random).float()
    )
    draws = result.draws.double()
    assert result.moments["count"] == len(draws) == 10
    assert torch.allclose(result.moments["mean"], draws.mean(0), atol=1e-12)
    assert torch.allclose(result.moments["m2"] / 9, draws.var(0), atol=1e-12)
