"""The command line from its words to its exit status: runs, run folders, mistakes, interruptions, sweeps."""

import errno
import json
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import forked
from omegaconf import OmegaConf
from safetensors.torch import load_file

import sgmcmc
from experiments import grid, picture
from experiments.build import build, build_potential, reopened
from experiments.collect import collect
from experiments.collect import main as collected
from experiments.command_line import main
from experiments.config import compose
from experiments.evaluate import main as evaluated
from experiments.outcome import mixed_below, slowest
from experiments.run import run as execute
from experiments.voice import COLD, FEW_WOULD_BE, SILENT, Voice, _duration, say
from sgmcmc import diagnostics
from sgmcmc.chain import Chain, Result
from sgmcmc.data import Data
from sgmcmc.diagnostics import Estimate
from sgmcmc.errors import SettingError, StoreError
from sgmcmc.formats import read_status, signature
from sgmcmc.interrupt import Interrupted
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.potentials.analytic import Gaussian

ROOT = Path(__file__).resolve().parent.parent
TOY = ["model=banana", "sampler=amagold", "step_size=0.1", "chains=3", "steps_per_cycle=2", "cycles=40", "output=run"]
pytestmark = pytest.mark.usefixtures("pictures")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty current folder, and no data but those that ship with a package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SGMCMC_DATA", raising=False)
    return tmp_path


def files(folder):
    return sorted(path.name for path in Path(folder).rglob("*") if path.is_file())


def replaced(words, **settings):
    return [word for word in words if word.partition("=")[0] not in settings] + [
        f"{key}={value}" for key, value in settings.items()
    ]


# ---- runs


@pytest.mark.thorough
def test_a_run_leaves_its_folder_and_says_so_when_it_is_done(capsys):
    assert main(TOY) == 0
    told = capsys.readouterr().out
    assert "amagold (ABOBA) on banana, 2 coordinates: 3 chains of 40 cycles of 2 steps" in told
    assert "exactly corrected (metropolis)" in told and "trajectories accepted" in told
    assert {"config.yaml", "metrics.csv", "status.json", "log.txt", "picture.png"} <= set(files("run"))
    assert Path("run/picture.png").read_bytes()[:4] == b"\x89PNG"
    assert sgmcmc.load_samples("run").shape == (40, 3, 2)
    columns = (
        "cycle epoch step potential potential_per_datum delta_potential delta_kinetic log_accept accept_prob accepted "
        "kinetic_temperature configurational_temperature seconds"
    )
    assert set(columns.split()) <= set(sgmcmc.load_metrics("run"))
    status = json.loads(Path("run/status.json").read_text())
    assert (status["state"], status["cycles"]) == ("done", 40)

    before = {path: path.stat().st_mtime_ns for path in Path("run").rglob("*")}
    assert main(TOY) == 0
    assert "done: 40 cycles; the run lies in run" in capsys.readouterr().out
    assert main([*TOY, "trace=1"]) == 0  # what is done is not run again for its trace
    assert "it was run without a trace; more cycles are traced" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in Path("run").rglob("*")} == before


@pytest.mark.thorough
def test_a_bar_is_on_standard_error_and_the_rows_stand_above_it(capsys):
    rows = [main([*TOY, f"progress={shown}", f"output={shown}"]) or capsys.readouterr() for shown in ("false", "true")]
    plain, barred = ([line.split()[:-1] for line in said.out.splitlines()[2:7]] for said in rows)
    assert plain == barred and [line[:1] for line in plain[1:]] == [["10"], ["20"], ["30"], ["40"]]
    assert not rows[0].err and "| 40/40 [" in rows[1].err and "cycle/s]" in rows[1].err
    assert main([*TOY, "progress=true", "output=false", "cycles=60"]) == 0  # it goes on from where the run stood
    assert "| 41/60 [" in capsys.readouterr().err


@pytest.mark.thorough
def test_a_longer_run_continues_a_shorter_one_bit_for_bit(capsys):
    """Burn-in and thinning go on counting: draws after cycles 10, 13, …, 58, whose moments are kept beside them."""
    words = [*TOY, "burn_in=7", "thin=3"]
    assert main(words) == 0
    assert main(replaced(words, cycles=60)) == 0
    assert main(replaced(words, cycles=60, output="at_once")) == 0
    continued, whole = sgmcmc.load_samples("run"), sgmcmc.load_samples("at_once")
    assert continued.shape == (17, 3, 2) and bool((continued == whole).all())
    assert list(sgmcmc.load_metrics("run")["potential"]) == list(sgmcmc.load_metrics("at_once")["potential"])
    assert main([*replaced(TOY, cycles=60, output="all")]) == 0
    assert torch.equal(sgmcmc.load_samples("all")[9::3], whole)
    moments = load_file("run/moments.safetensors")
    draws = whole.double()
    assert int(moments["count"]) == 17
    torch.testing.assert_close(moments["mean"], draws.mean(0))
    torch.testing.assert_close(moments["variance"], draws.var(0))


@pytest.mark.thorough
def test_lost_or_damaged_moments_of_a_run_that_is_done_are_written_anew(capsys):
    assert main(TOY) == 0
    path = Path("run/moments.safetensors")
    written = path.read_bytes()
    for how, change in (("missing", path.unlink), ("damaged", lambda: path.write_bytes(written[:-1]))):
        change()
        capsys.readouterr()
        assert main(TOY) == 0
        assert capsys.readouterr().err == f"run: moments.safetensors is {how}: it is written anew\n"
        assert path.read_bytes() == written
    assert main(TOY) == 0 and not capsys.readouterr().err


def test_the_default_folder_is_named_after_the_configuration():
    assert main(replaced(TOY[:-1], cycles=2)) == 0
    (run,) = Path("results/runs/banana-amagold").iterdir()
    assert len(run.name) == 12 and files("results").count("config.yaml") == 1


@pytest.mark.thorough
def test_a_network_warm_started_and_corrected(capsys):
    words = "experiment=digits scale=smoke data.train_size=200 batch_size=50 epochs=2 output=run progress=false"
    assert main(words.split()) == 0
    told = capsys.readouterr().out
    assert "warm start" in told and "test acc." in told
    metrics = sgmcmc.load_metrics("run")
    assert list(metrics["epoch"]) == [1, 2] and list(metrics["step"]) == [4, 8]
    assert {"test_accuracy", "ood_entropy"} & set(metrics) == {"test_accuracy"}


@pytest.mark.thorough
def test_shuffled_epochs_are_proposed_where_trajectories_are_long_enough(capsys):
    words = "experiment=digits scale=smoke data.train_size=100 cycles=1 epochs=null init=he".split()
    proposed = "minibatches are independent; those of whole shuffled epochs are "
    independent = "sampler.ends=minibatch sampler.minibatches=independent"
    for number, (more, said) in enumerate(
        (
            (
                f"batch_size=50 steps_per_cycle=5 {independent}",
                "accepted oftener at small steps (sampler.minibatches=shuffled)",
            ),
            (f"batch_size=20 steps_per_cycle=7 {independent}", "(sampler.minibatches=shuffled steps_per_cycle=9)"),
            (f"batch_size=50 steps_per_cycle=5 {independent} sampler.acceptance=monitor", "less biased at small steps"),
            (f"batch_size=20 steps_per_cycle=1 {independent}", None),
            (f"batch_size=100 steps_per_cycle=3 {independent}", None),
            ("batch_size=50 epochs_per_cycle=1", None),
        )
    ):
        assert main([*words, *more.split(), f"output=run{number}", "progress=false"]) == 0
        told = capsys.readouterr().out
        assert (proposed in told) == bool(said) and (not said or said in told)
    proposal = "batch_size=20 sampler.ends=minibatch sampler.minibatches=shuffled steps_per_cycle=9"
    assert main([*words, *proposal.split(), "output=shuffled", "progress=false"]) == 0


INEXACT = (
    "not exact: batch normalisation makes U depend on which images share a batch; random augmentation makes U another"
    " function at each evaluation"
)
NETWORK = "model=mlp data=digits model.hidden=[4] sampler=hmc lr=1e-6 batch_size=20 chains=3 cycles=7".split()


@pytest.mark.parametrize(
    "words, each, gradients",
    [
        # 11 batches and U of 100 data, forwards
        ("data.train_size=100", 11 * 0.02 + 0.1 / 3, "77 minibatch"),
        # of 4 views of each of them
        ("data.train_size=100 augmentation=averaged views=4", 11 * 0.02 + 0.4 / 3, "77 minibatch"),
        # 10 batches and the gradient and U at one end
        ("data.train_size=100 steps_per_cycle=11 sampler.ends=exact", 10 * 0.02 + 0.1, "77 minibatch"),
        # full gradients by the time of one of 125
        ("data.train_size=250 sampler.gradient=full", 10 * 2 * 0.02, "70 full"),
        ("data.train_size=100 sampler=sghmc steps_per_cycle=5", 5 * 0.02 + 0.1 / 3, "35 minibatch"),
        # the three chains at once, but for a random direction, which each draws for itself
        ("data.train_size=100 together=true", (11 * 0.02 + 0.1 / 3) / 3, "77 minibatch"),
        (
            "data.train_size=100 together=true schedule=cosine schedule.direction=random",
            11 * 0.02 + 0.1 / 3,
            "77 minibatch",
        ),
    ],
)
def test_the_estimate_is_what_all_gradients_and_u_take(monkeypatch, capsys, words, each, gradients):
    """Of three chains of seven cycles, where a batch's gradient takes .02 s once it is warm."""
    clock = iter([0.0, 5.0, 6.0, 6.02])
    config = compose([*NETWORK, *words.split()])
    pieces = build(config)
    monkeypatch.setattr("experiments.voice.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    Voice(config, pieces, Path("run"))
    told = capsys.readouterr().out
    assert f"3 chains of 7 cycles of {pieces.kernel.steps} steps, {gradients} gradients a chain\n" in told
    assert f"about {21 * each:.3g} s ({each:.3g} s a cycle of one chain) by the time of one gradient on" in told


@pytest.mark.parametrize(
    ("words", "told"), [("", "2 min"), ("augmentation=averaged views=4", "2 min"), ("together=true", "40 s")]
)
def test_what_the_warm_start_takes_is_told_before_it(monkeypatch, capsys, words, told):
    """400 epochs of 5 batches of three chains, one by one or together, where a batch's gradient takes .02 s."""
    clock = iter([0.0, 5.0, 6.0, 6.02])
    words = [*NETWORK, "data.train_size=100", "init=sgd", "warm_start.epochs=400", *words.split()]
    config = compose(words)
    pieces = build(config)
    monkeypatch.setattr("experiments.voice.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    Voice(config, pieces, Path("run")).starting(lambda: torch.zeros(3, 1))()
    assert f"warm start: 400 epochs of SGD, about {told} before the first cycle\n" in capsys.readouterr().out


def test_the_estimate_of_a_target_of_one_s_own_asks_for_its_start_by_a_number_of_chains(capsys):
    """And for its gradient there in the run's dtype."""
    Path("counted.py").write_text(
        "import torch\nfrom sgmcmc.potentials.regression import LinearRegression\n\n\n"
        "class Counted(LinearRegression):\n    together = False\n\n"
        "    def __init__(self):\n        super().__init__(torch.eye(4), torch.ones(4))\n\n"
        "    def initial(self, chains, random):\n        return torch.zeros(chains, self.dim)\n\n"
        "    def gradient(self, theta, batch=None):\n        assert theta.dtype == torch.float64\n"
        "        return super().gradient(theta, batch)\n"
    )
    words = "model._target_=counted.Counted sampler=hmc step_size=.01 batch_size=2 steps_per_cycle=2 cycles=3 chains=2"
    assert main([*words.split(), "dtype=float64", "progress=false"]) == 0
    assert "by the time of one gradient on" in capsys.readouterr().out


@pytest.mark.thorough
def test_the_estimate_of_a_run_that_goes_on_is_of_what_is_left(capsys):
    words = [*NETWORK, "data.train_size=40", "output=run", "progress=false"]
    assert main(words) == 0
    capsys.readouterr()
    assert main([*words, "cycles=8"]) == 0
    total, each = re.search(r"about (\S+) s to go \((\S+) s a cycle of one chain\)", capsys.readouterr().out).groups()
    assert float(total) == pytest.approx(3 * float(each), rel=0.02)  # one cycle of three chains


@pytest.mark.thorough
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize(("times", "told"), [(0.6, 1), (0.7, 0), (1, 0), (1.4, 0), (1.6, 1), (5, 1)])
def test_where_the_second_cycle_takes_another_time_the_time_is_told_again(monkeypatch, capsys, graph, times, told):
    """A gradient that is timed alone knows nothing of graphs, predictions and diagnostics."""
    config = compose([*NETWORK, "data.train_size=40"])
    pieces = build(config)
    pieces = replace(pieces, plan=replace(pieces.plan, cycles=12, graph=graph))
    cycle = 3 * (11 * 0.2 + 0.4 / 3)  # of three chains: 11 batches and U of two, forwards
    clock = iter([0.0, 5.0, 6.0, 6.2, 10.0, 10 + times * cycle])
    monkeypatch.setattr("experiments.voice.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    voice = Voice(config, pieces, Path("run"))
    plan = capsys.readouterr().out
    assert ("by the time of one gradient on" in plan, ", which graphs shorten" in plan) == (True, graph)
    assert f"{'at most' if graph else 'about'} {_duration(12 * cycle)} (" in plan
    assert voice.expected == pytest.approx(cycle)
    for number in (1, 2, 3):
        voice.report(SimpleNamespace(cycle=number), None)
    assert capsys.readouterr().out == f"about {_duration(10 * times * cycle)} to go\n" * told


def test_short_cycles_tell_by_two_seconds_of_them_how_long_a_run_takes(summarised, monkeypatch, capsys):
    """Of 100 cycles the second takes a second, because it is compiled, and the others .1 s: 88 are left after 12."""
    voice, clock = object.__new__(Voice), iter([10.0, *(11 + 0.1 * cycle for cycle in range(99))])
    monkeypatch.setattr("experiments.voice.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    voice.config, voice.pieces, voice.bar = {"progress": False}, summarised.pieces, None
    voice.first, voice.expected = None, None
    for cycle in range(1, 101):
        voice.report(SimpleNamespace(cycle=cycle), None)
    assert capsys.readouterr().out == f"about {_duration(2 / 11 * 88)} to go\n"
    assert len(list(clock)) == 88  # the clock is not asked again


def test_gradients_without_noise_are_no_minibatches_gradients(capsys):
    for noise, said in ((0, "22 full gradients\n"), (1, "22 minibatch gradients\n")):
        words = f"model=quartic sampler=ggmc step_size=.1 cycles=2 steps_per_cycle=10 model.noise={noise}"
        assert main([*words.split(), f"output=run{noise}", "progress=false"]) == 0
        assert said in capsys.readouterr().out


def test_durations_are_in_the_largest_unit_that_they_fill():
    told = [_duration(seconds) for seconds in (0.0123, 89.9, 90, 5399, 5400, 172799, 172800)]
    assert told == ["0.0123 s", "89.9 s", "1.5 min", "90 min", "1.5 h", "48 h", "2 days"]


def test_a_run_that_goes_on_says_what_is_left_and_shows_every_twentieth_of_its_rows(summarised, monkeypatch, capsys):
    """From cycle 41 of 100, which take 2 s each: 58 are left after the second."""
    voice, clock = object.__new__(Voice), iter([1000.0, 1002.0])
    monkeypatch.setattr("experiments.voice.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    voice.config, voice.pieces, voice.bar, voice.meaning = {"progress": False}, summarised.pieces, None, ""
    voice.first, voice.expected, voice.shown, voice.late, voice.header = None, None, 0.0, SILENT, False
    for cycle in range(41, 101):
        voice.report(SimpleNamespace(cycle=cycle), {"cycle": cycle, "potential_per_datum": 1.5, "seconds": 2 * cycle})
    heads, first, left, *others = capsys.readouterr().out.splitlines()
    assert (heads.split(), first.split(), left) == (
        ["cycle", "U", "seconds"],
        ["41", "1.50000", "82.0"],
        "about 1.93 min to go",
    )
    assert [int(row.split()[0]) for row in others] == [*range(46, 97, 5), 100]


def test_a_run_of_days_shows_a_row_every_half_hour(summarised, monkeypatch, capsys):
    """Of 100 cycles of ten minutes: not one in 50 minutes, as the twentieth part would be. A log MH of −.001 is 0."""
    voice = object.__new__(Voice)
    voice.config, voice.pieces, voice.bar, voice.meaning = {"progress": False}, summarised.pieces, None, ""
    voice.first, voice.expected, voice.shown, voice.late, voice.header = None, None, 0.0, SILENT, True
    for cycle in range(1, 101):
        voice.report(SimpleNamespace(cycle=cycle), {"cycle": cycle, "log_accept": -0.001, "seconds": 600.0 * cycle})
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "to go" not in line]
    assert [int(row[0]) for row in rows] == [*range(1, 101, 3)] and {row[1] for row in rows} == {"0.00"}


@pytest.fixture
def summarised(monkeypatch):
    """The lines of a summary of 100 cycles that took 4 s; what diagnostics say of the draws is given."""
    config = compose("model=gaussian model.dim=20 sampler=hmc step_size=.1 cycles=100 burn_in=40 chains=80".split())
    pieces, seen = build(config), []

    def lines(draws=60, size=0, keep="all", result=None, still=0, said=None, every=10, **columns):
        metrics = {"cycle": np.arange(10, 110, 10), "log_accept": np.zeros(10), "potential": np.arange(10.0)} | columns
        metrics.setdefault("not_finite", np.zeros(len(metrics["cycle"])))
        rows = torch.randn(draws, 80, 20, generator=torch.Generator().manual_seed(0))
        rows[..., :still] = 0.5
        monkeypatch.setattr(sgmcmc, "load_metrics", lambda path: metrics)
        monkeypatch.setattr(sgmcmc, "load_samples", lambda path: rows)
        ess = Estimate(np.array([40.0, np.nan, 16.0]), np.array([1.0, 2.0, 4.0]))
        r_hat = np.array([1.001, 1.02, np.nan])
        monkeypatch.setattr(
            "experiments.outcome.diagnostics.ess", lambda draws, method: seen.append(draws.shape) or ess
        )
        monkeypatch.setattr("experiments.outcome.diagnostics.r_hat", lambda draws: r_hat)
        voice = object.__new__(Voice)
        voice.config, target = {**config, **(said or {})}, SimpleNamespace(data_size=size, dim=20)
        plan = replace(pieces.plan, keep=keep, log_every=every)
        voice.path, voice.pieces = Path("run"), replace(pieces, potential=target, plan=plan)
        known = {"status": "done", "cycles": 100, "accepted": 2000, "proposed": 8000, "seconds": 4.0, "gradients": 25.0}
        known["accept_prob"] = torch.full((80,), 0.25, dtype=torch.float64)
        lines.again = lambda: voice.summary(Result(**known | {"rows": [], "energies": 15.0, "kernel": pieces.kernel}))[
            0
        ]
        result = Result(**known | {"rows": [], "energies": 15.0, "kernel": pieces.kernel} | (result or {}))
        said, lines.facts = voice.summary(result)
        return said

    lines.seen, lines.pieces = seen, pieces
    return lines


SLOWEST = "the slowest of 20 means and 20 variances (16 of each looked at)"


def test_a_summary_gives_the_least_effective_sample_size_of_all_chains_and_its_cost(summarised):
    """16 of all 80 chains: 4 a second of 4, and .008 a gradient of 25 of 80 chains."""
    first, energy, size, r_hat = summarised()
    assert first == "done after 100 cycles in 4 s: 2,000 of 8,000 trajectories accepted (0.25)"
    assert summarised.seen == [(60, 80, 32)]  # 16 means, and 16 variances
    assert size == f"effective sample size of {SLOWEST} 16 ± 4: 4 a second, 0.008 a gradient"
    assert r_hat == "R-hat 1.02 over 80 chains (above 1.01: not mixed, or too short to tell)"
    # with data gradients and U are passes over them; a random walk takes U alone
    assert "4 a second, 0.005 a pass over the data" in summarised(size=9)[2]
    assert "0.0133 an evaluation of U" in summarised(result={"gradients": 0.0})[2]
    assert summarised(draws=39)[3:] == ["no R-hat of fewer than 40 draws"]


def test_the_slowest_coordinates_are_looked_at_wherever_they_are():
    """Of 40 coordinates one moves by a random walk, one chain of one stays elsewhere, one stands still, and the others
    are independent draws."""
    noise = torch.randn(400, 4, 40, generator=torch.Generator().manual_seed(0))
    noise[:, :, 31] = 1e3 + noise[:, :, 31].cumsum(0)
    noise[:, 2, 38] += 5
    noise[:, :, 7] = 0.1
    names = noise.new_tensor(range(40))
    for number in (2, 16):
        looked = slowest(noise, number)
        kept = [int(names[(noise == one[..., None]).all(0).all(0)]) for one in looked.unbind(-1)]
        assert {31, 38} <= {*kept} and 7 not in kept and len(kept) == number and kept == sorted(kept)
    assert torch.equal(slowest(noise, 99), noise)


@pytest.mark.parametrize("draws, chains, coordinates", [(200, 2, 2000), (100, 1, 300), (400, 8, 3)])
def test_independent_draws_are_seldom_called_not_mixed(draws, chains, coordinates):
    """The largest R-hat of many coordinates is above 1.01 by chance; of 20 tables of independent draws at most four are
    above what it is held to (more, at one in a hundred, with probability 2e-6), and of eight chains one that stays a
    standard deviation away always is."""
    noise = torch.randn(20, draws, chains, coordinates, generator=torch.Generator().manual_seed(0))
    least = mixed_below(draws, chains, coordinates)
    worst = [float(np.nanmax(diagnostics.r_hat(slowest(one, 16).double()))) for one in noise]
    assert sum(one > least for one in worst) <= 4
    assert mixed_below(10_000, 4, 20) == 1.01
    if chains > 2:
        noise[0, :, 0, 1] += 1.0
        assert float(np.nanmax(diagnostics.r_hat(slowest(noise[0], 16).double()))) > least


def test_a_summary_of_a_part_of_the_cycles_takes_as_large_a_part_of_their_cost(summarised):
    """Of the last 30 of 60 draws ESS is 16, so 32 of all; of U's rows, means over the 80 chains, those of the second
    half after the burn-in: 3 of 6, whose 16 are 1,280 of all chains. Of the last 15 draws 16 are less than one a chain,
    as many as of chains that never move."""
    assert summarised(draws=30, keep=30)[2].endswith(
        " variances (16 of each looked at) in the last 30 of 60 draws 16 ± 4: 8 a second, 0.016 a gradient"
    )
    few = summarised(draws=15, keep=15)
    assert few[2].endswith(" 16 ± 4: of so few of all draws, which do not tell how many a second")
    rows = {"cycle": np.arange(2, 102, 2), "log_accept": np.zeros(50), "potential": np.arange(50.0)}
    size = summarised(keep="none", every=2, **rows)[2]
    assert size == (
        "effective sample size of the potential in the second half, at least, 1280 ± 3.2e+02: "
        "640 a second, 1.28 a gradient"
    )


@pytest.mark.thorough
def test_a_summary_that_takes_its_time_is_announced(capsys):
    words = (
        "model=gaussian model.dim=20 sampler=hmc step_size=.3 steps_per_cycle=1 chains=500 progress=false compile=false"
    )
    for cycles, told in ((200, False), (300, True)):
        assert main([*words.split(), f"cycles={cycles}"]) == 0
        said = capsys.readouterr().out
        assert (f"looking at the draws of {cycles} cycles\ndone after" in said) == told


def test_a_signal_while_the_summary_is_made_leaves_a_run_that_the_same_command_ends(elsewhere, capsys):
    words = [*TOY, "progress=false"]

    def stopped():
        Voice.summary = lambda *_: os.kill(os.getpid(), signal.SIGTERM)
        sys.exit(main(words))

    ended = forked(stopped, "run.py", folder=Path.cwd())
    assert (
        ended.returncode == 75 and "stopped after 40 cycles, all kept: the same command looks at them" in ended.stdout
    )
    status = read_status("run")
    assert (status["state"], status["cycles"], "groups" in status) == ("interrupted", 40, False)
    assert main(words) == 0 and read_status("run")["groups"]
    assert "done after 40 cycles" in capsys.readouterr().out


def test_chains_that_stand_still_have_no_part_in_a_summary_s_effective_sample_size(summarised):
    """Of 80 chains 48 go on: 16 of 48 draws' chains, as nobody else moves."""
    lines = summarised(result={"frozen": list(range(32))})
    assert summarised.seen[-1] == (60, 48, 32)
    assert f"effective sample size of {SLOWEST} 16 ± 4: 4 a second, 0.008 a gradient" in lines


def test_of_too_many_chains_some_all_over_are_looked_at(summarised, monkeypatch):
    monkeypatch.setattr("experiments.outcome.LOOK_AT", 40 * 60)
    monkeypatch.setattr("experiments.outcome.LOOKED", 40)
    assert summarised()[3].startswith("R-hat 1.02 over 40 of 80 chains (above 1.01")
    assert summarised.seen == [(60, 40, 32)]


def test_chains_with_settings_of_their_own_are_looked_at_by_themselves(summarised):
    """Two step sizes by two frictions, each of 20 chains, of which one step size's first are frozen: ESS 16 of what
    costs a quarter."""
    said = {"step_size": [0.1, 0.2], "friction": [1.0, 4.0, 1.0, 4.0]}
    lines = summarised(said=said, result={"frozen": list(range(25))})
    assert summarised.seen == [(60, 15, 32), (60, 20, 32), (60, 20, 32)]
    names = ["step_size=0.1, friction=4.0: ", "step_size=0.2, friction=1.0: ", "step_size=0.2, friction=4.0: "]
    sizes = [line for line in lines if "effective sample size" in line]
    assert all(line.startswith(name) for line, name in zip(sizes, names, strict=True))
    assert all(line.endswith(f"{SLOWEST} 16 ± 4: 16 a second, 0.032 a gradient") for line in sizes)
    assert [line for line in lines if "R-hat" in line][0].startswith(f"{names[0]}R-hat 1.02 over 15 chains")
    near = summarised(said={"step_size": [0.1, 0.1000001]})
    assert sum("effective sample size" in line for line in near) == 2 and "step_size=0.1000001: R-hat" in near[-1]
    probabilities = torch.linspace(0.0, 0.79, 80, dtype=torch.float64)
    many = {"said": {"step_size": [0.01 * one for one in range(1, 41)]}, "result": {"accept_prob": probabilities}}
    assert len(summarised(**many)) == 2  # too many for lines
    assert [round(group["accept_prob"], 3) for group in summarised.facts["groups"]][:2] == [0.005, 0.025]
    assert summarised.facts["groups"][0]["accept_prob_error"] == pytest.approx(0.01 / 2)  # of 0 and .01
    lines = summarised(said={"step_size": [0.1, 0.2]}, result={"accept_prob": probabilities, "frozen": [0]})
    assert lines[3] == "step_size=0.1: acceptance 0.2" and "step_size=0.2: acceptance 0.595" in lines


UNTOLD = "no effective sample size: too few draws, or moves, to tell"


def test_few_draws_kept_say_so(summarised):
    assert summarised(draws=5, keep=5)[2:] == [UNTOLD]
    assert len(summarised(keep="none", potential=np.full(10, math.nan))) == 2


def test_an_uncorrected_chain_that_would_hardly_be_accepted_is_told(summarised):
    """Of each group by itself; not where no acceptance is exact, or there is none."""
    pieces, told = summarised.pieces, f"step_size=0.1: {FEW_WOULD_BE}"
    chances = torch.tensor([0.09] * 40 + [0.11] * 40, dtype=torch.float64)

    def lines(**kernel):
        given = {"accept_prob": chances, "kernel": replace(pieces.kernel, **kernel)}
        return [line for line in summarised(said={"step_size": [0.1, 0.2]}, result=given) if FEW_WOULD_BE in line]

    assert lines(acceptance="monitor") == [told]
    assert not lines() and not lines(acceptance="monitor", impossible="T = 0")


def test_at_temperature_0_there_is_no_effective_sample_size(summarised):
    """Which a chain that stands still at a minimum would have, of rounding errors."""
    cold = replace(summarised.pieces.kernel, temperature=0.0)
    said = summarised(result={"kernel": cold})
    assert said[-1] == COLD and not any("R-hat" in line for line in said)
    assert not {"ess", "r_hat"} & summarised.facts["groups"][0].keys()


def test_a_mean_of_log_mh_that_few_make_is_told_beside_the_median(summarised):
    rows = {"cycle": np.arange(1, 13), "every": 1, "potential": np.arange(12.0)}
    far = np.array([0.0] * 6 + [-2, -1, -3, -2, -2, -1e9])
    said = "-1.67e+08 (its rows' median -2: a few proposals went far out)"
    assert summarised(**rows, log_accept=far)[1] == f"mean log MH of the second half {said}"
    assert "median" not in summarised(**rows, log_accept=far.clip(-100))[1]
    both = summarised(**rows, log_accept=far.clip(-9), said={"step_size": [0.1, 0.2]})[1]
    assert both.startswith("mean log MH of the second half of all chains -3")


def test_of_chains_that_hardly_ever_move_nothing_is_estimated(summarised, monkeypatch):
    """Of draws that are nearly all one estimators make as many independent ones; eight moves a chain are asked for."""
    rows = torch.zeros(60, 80, 20)
    for moves, said in ((7, 3), (8, 4)):
        rows[60 - moves :] = torch.arange(1.0, moves + 1)[:, None, None]
        summarised()
        monkeypatch.setattr(sgmcmc, "load_samples", lambda path: rows)
        assert len(summarised.again()) == said and (UNTOLD in summarised.again()) == (moves < 8)


def test_a_status_has_no_acceptance_before_the_burn_in_is_over(summarised):
    for cycles, there in ((40, False), (41, True)):
        summarised(result={"cycles": cycles})
        assert ("accept_prob" in summarised.facts["groups"][0]) == there


def test_chains_that_never_move_are_named(summarised):
    """Where as many draws as theirs have hundreds of moves; where few are accepted it may be chance."""
    m2 = torch.ones(80, 20)
    m2[[3, 70]] = 0
    still = {"moments": {"count": 60, "mean": m2, "m2": m2}}
    assert any(line.startswith("2 of 80 chains (indices 3, 70) never moved: ") for line in summarised(result=still))
    for few in ({"accepted": 1000}, {"frozen": [3, 70]}):
        assert "never moved" not in " ".join(summarised(result=still | few))


def test_trajectories_that_end_where_nothing_is_finite_are_counted(summarised):
    """U may be no number in a part of the space, which a chain that decides never enters. Rows that a longer run has
    again are counted once."""
    lost = {"cycle": np.array([10, 15, 20]), "log_accept": np.zeros(3), "potential": np.zeros(3)}
    lost["not_finite"] = np.array([3.0, 2.0, 1200.0])
    assert "1,203 trajectories ended where U or theta is not finite: rejected" in summarised(**lost)
    assert not any("not finite" in line for line in summarised())


def test_coordinates_that_never_move_are_counted(summarised):
    """They have no effective sample size, so that the least of the others' must not stand for all."""
    assert summarised(still=3)[2] == "3 of 20 coordinates never moved in any chain: they are in no ESS below"
    assert "never moved" not in " ".join(summarised())


@pytest.mark.thorough
def test_variances_are_looked_at_as_means_are(tmp_path, monkeypatch):
    """Of a trajectory of half a period every draw is the one before mirrored: the mean's draws are better than
    independent, and the square never changes but by the momentum's refreshments."""
    monkeypatch.chdir(tmp_path)
    words = "model=gaussian model.dim=2 sampler=hmc step_size=.5 steps_per_cycle=6 cycles=2000 output=run"
    assert main(words.split()) == 0
    draws = sgmcmc.load_samples("run").double()
    means, variances = (diagnostics.ess(one, "mean").value for one in (draws, (draws - draws.mean(0)) ** 2))
    assert variances.max() < 1000 and not means.min() < 2000  # or so antithetic that it is not known
    voice = object.__new__(Voice)
    voice.path, voice.config = Path("run"), compose(words.split())
    voice.pieces = build(voice.config)
    done = Result(
        "done", cycles=2000, accepted=2000, proposed=2000, seconds=1.0, kernel=voice.pieces.kernel, energies=1
    )
    (line,) = [line for line in voice.summary(replace(done, gradients=1.0))[0] if line.startswith("effective")]
    assert f"slowest of 2 means and 2 variances {variances.min():.4g} ±" in line


def test_chains_that_stay_apart_have_an_infinite_r_hat(summarised, monkeypatch):
    summarised()
    monkeypatch.setattr(diagnostics, "r_hat", lambda draws: np.array([1.0, np.inf, np.nan]))
    assert summarised.again()[3] == "R-hat infinite over 80 chains (above 1.01: not mixed, or too short to tell)"


def test_a_summary_says_log_mh_of_the_second_half_and_where_it_cannot_be(summarised):
    for values, said in (
        ([99, 99, 99, -math.inf, -3, -2], "-2.5"),
        ([99, 99, 1.7, 2.7], "2.2 (positive: not converged, or something is wrong)"),  # more than three of its errors
        ([99, 99, -3, 4.2], "0.6"),  # less than three of its errors
    ):
        lengths = {"log_accept": np.array(values), "cycle": np.arange(1, len(values) + 1)}
        assert summarised(**lengths, every=1)[1] == f"mean log MH of the second half {said}"
    # a row is of the cycles since the one before: that of cycles 9 to 16 is not of the second half of 20 or of 18
    lengths = {"cycle": np.array([8, 16, 20]), "log_accept": np.array([99, 9, -3.0])}
    assert summarised(**lengths, every=8)[1] == "mean log MH of the second half -3"
    lengths = {"cycle": np.array([5, 10, 15, 16]), "log_accept": np.array([99, 99, -2.0, 4.0])}
    assert summarised(**lengths, every=5)[1] == "mean log MH of the second half -1"
    lengths = {"cycle": np.array([20]), "log_accept": np.array([7.0])}  # one row tells of no error
    assert summarised(**lengths)[1] == "mean log MH of the second half 7"
    # a run that ended after cycle 15 and was continued: row 20 has the cycles of row 15, too
    lengths = {"cycle": np.array([10, 15, 20, 30]), "log_accept": np.array([99, 99, -2.0, -3.0])}
    assert summarised(**lengths, every=10)[1] == "mean log MH of the second half -3"
    lengths = {"cycle": np.array([10, 15, 20]), "log_accept": np.array([99, 99, -2.0])}
    assert summarised(**lengths, every=10)[1] == "mean log MH of the second half -2"
    assert "the chain is exact but stuck" in summarised(result={"accepted": 79})[2]
    assert "few trajectories are accepted" in summarised(result={"accepted": 80})[2]
    assert not any("stuck" in line for line in summarised(result={"accepted": 80}))
    assert not any("few" in line for line in summarised(result={"accepted": 800}))
    for proposed, told in ((43, False), (44, True)):  # of a few trajectories it is chance
        lines = summarised(result={"accepted": 1, "proposed": proposed})
        assert any("few trajectories are accepted" in line for line in lines) == told


def test_a_summary_tells_of_a_temperature_that_is_not_t(summarised):
    """Of HMC, whose decisions leave it right: there it is a chain that is too short."""
    off = np.full(20, 0.1) + np.resize([0.001, -0.001], 20)
    rows = {"cycle": np.arange(1, 21), "log_accept": np.zeros(20), "potential": np.zeros(20)}
    lines = summarised(**rows, every=1, kinetic_temperature=1.0 + off, configurational_temperature=off)
    told = "mean configurational temperature 0.1 in the second half, and T is 1: not in equilibrium (too few cycles)"
    assert lines[2] == told


@pytest.mark.thorough
def test_a_chain_that_is_not_corrected_may_have_too_large_steps(capsys):
    words = "model=gaussian model.noise=3 sampler=sghmc step_size=.5 chains=50 cycles=1000 friction=1 output=run"
    assert main([*words.split(), "progress=false"]) == 0
    told = (
        r"^mean kinetic temperature (\S+) and configurational temperature (\S+) in the second half, and T is 1: not in "
    )
    told = re.search(told + r"equilibrium \(too few cycles, or too large steps\)$", capsys.readouterr().out, re.M)
    assert min(map(float, told.groups())) > 2


@pytest.mark.thorough
def test_log_mh_of_decisions_on_a_part_of_the_data_is_called_an_estimate(capsys):
    """Austerity stops where an estimate is far out, so that their mean is not that of log MH, and may be positive."""
    words = "model=logistic_generated model.size=200 sampler=hmc step_size=.02 cycles=100 chains=4 progress=false"
    assert main([*words.split(), "sampler.acceptance=austerity", "output=run", "sampler.decision_batch=10"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"^mean log MH of the second half \S+ \(estimated on the data that were looked at\)$", said, re.M)


@pytest.mark.thorough
def test_epochs_with_exact_ends_have_one_step_more():
    words = "experiment=garriga2021 data=digits data.train_size=100 model.width=2 batch_size=50 augmentation=none"
    assert main([*words.split(), "epochs=2", "epochs_per_cycle=1", "output=run", "keep=none"]) == 0
    assert list(sgmcmc.load_metrics("run")["step"]) == [3, 6]


@pytest.mark.thorough
def test_an_inexact_acceptance_is_marked(capsys):
    words = "experiment=garriga2021 data=digits data.train_size=100 model.width=2 batch_size=50 augmentation=none"
    assert main([*words.split(), "epochs=1", "epochs_per_cycle=1", "output=run", "keep=none"]) == 0
    assert "not exact: batch normalisation" in capsys.readouterr().out


@pytest.mark.thorough
def test_what_is_not_used_is_told(capsys):
    assert main([*replaced(TOY, sampler="hmc", cycles=2), "friction=3"]) == 0
    assert "friction=3 is not used by hmc on banana\n" in capsys.readouterr().err
    assert main([*replaced(TOY, sampler="hmc", cycles=2), "batch_size=5"]) == 0
    assert "batch_size=5 is not used by hmc on banana\n" in capsys.readouterr().err
    assert main([*replaced(TOY, sampler="hmc", cycles=2, output="stairs"), "schedule=stairs"]) == 0
    told = "schedule=stairs is not used by hmc on banana, whose 2 cycles are within the first stair\n"
    assert told in capsys.readouterr().err
    words = "model=logistic_generated model.size=20 sampler=hmc step_size=0.01 steps_per_cycle=2 cycles=2"
    assert main([*words.split(), "batch_size=5"]) == 0
    mend = "batch_size=5 is not used by hmc on logistic_generated, whose gradients are full: sampler.gradient=minibatch"
    assert mend in capsys.readouterr().err
    target = "sgmcmc.potentials.analytic.Gaussian"
    words = f"model._target_={target} model.dim=3 model.name=x sampler=hmc step_size=0.1 steps_per_cycle=1 cycles=2"
    assert main([*words.split(), "output=own"]) == 0
    assert f"model.name=x is not used by hmc on {target}\n" in capsys.readouterr().err


def test_divergence_is_status_3_and_is_remembered(capsys):
    words = ["model=quartic", "sampler=ggmc", "step_size=100", "cycles=40", "output=run"]
    assert main(words) == 3
    assert "diverged" in capsys.readouterr().out
    assert main(words) == 3
    assert "diverged" in capsys.readouterr().out


def test_damage_to_a_run_that_diverged_is_told_and_its_picture_drawn_when_it_can_be(monkeypatch, capsys):
    words = ["model=quartic", "sampler=ggmc", "step_size=2", "chains=3", "cycles=40", "log_every=1", "output=run"]

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as limited:
        limited.setattr("experiments.picture.draw", full)
        assert main(words) == 3
    assert not Path("run/picture.png").exists()
    assert main(words) == 3 and Path("run/picture.png").exists()
    metrics = sgmcmc.load_metrics("run")
    sound, told = Path("run/metrics.csv").read_bytes(), "metrics.csv is damaged"
    assert told not in capsys.readouterr().err
    Path("run/metrics.csv").write_bytes(sound[: len(sound) // 2])
    assert main(words) == 3 and "written anew from its copy" in capsys.readouterr().err
    assert Path("run/metrics.csv").read_bytes() == sound
    for name in ("metrics.csv", ".metrics.csv"):
        Path("run", name).write_bytes(sound[: len(sound) // 2])
    assert main(words) == 3
    assert told in capsys.readouterr().err
    again, times = sgmcmc.load_metrics("run"), {"seconds", "steps_per_second"}
    assert all(np.array_equal(again[name], metrics[name], equal_nan=True) for name in {*metrics} - times)


@pytest.mark.thorough
def test_a_sweep_runs_all_jobs_and_ends_with_the_worst_status(capsys):
    words = ["-m", *TOY[:-1], "step_size=0.1,-1,0.2", "cycles=2", "temperature=1e0", "progress=false"]
    words.remove("step_size=0.1")
    assert main(words) == 2
    caught = capsys.readouterr()
    assert caught.err == "step_size=-1: must be a positive number\n"
    assert caught.out.count("done after 2 cycles") == 2
    assert [line for line in caught.out.splitlines() if line.endswith(":")] == [
        "step_size=0.1:",
        "step_size=-1:",
        "step_size=0.2:",
    ]
    assert files(".").count("config.yaml") == 2 and not files(".").count("multirun.yaml")


@pytest.mark.thorough
def test_a_new_run_says_that_it_was_begun_without_save_every(capsys):
    words, begun = [*TOY[:-1], "cycles=2", "progress=false"], ["save_every=5"]
    for more, said in (([], False), (begun, True), (begun, False), (["seed=1", "log_every=2"], False)):
        assert main([*words, *more]) == 0
        assert ("save_every=5: makes a run of its own" in capsys.readouterr().out) == said
    assert main([*words, "log_every=2", "save_every=3"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("save_every=3, log_every=2: makes a run of its own, which begins anew; without it ")
    assert Path(first.split(" the one in ")[1].removesuffix(" goes on"), "config.yaml").exists()


def test_a_run_that_an_earlier_version_looked_at_is_looked_at_again(capsys):
    """Once, and not run again: its effective sample sizes had another meaning."""
    words = [*TOY[:-1], "cycles=60", "progress=false", "output=run"]
    assert main(words) == 0
    status, draws = read_status("run"), sgmcmc.load_samples("run")
    metrics = Path("run/metrics.csv").read_bytes()
    (group,) = status["groups"]
    earlier = {**status, "groups": [{**group, "ess": 2 * group["ess"]}], "summary": ["twice"]}
    del earlier["told"]
    Path("run/status.json").write_text(json.dumps(earlier | {"sha256": signature(earlier)}))
    capsys.readouterr()
    for again in (True, False):
        assert main(words) == 0
        out = capsys.readouterr().out
        assert out.startswith("run is done, and is looked at again: an earlier version told other") == again
        assert status["summary"][-1] in out and "twice" not in out
        assert read_status("run")["groups"] == [group] and read_status("run")["cycles"] == 60
        assert torch.equal(sgmcmc.load_samples("run"), draws) and Path("run/metrics.csv").read_bytes() == metrics


@pytest.mark.thorough
def test_a_new_run_says_that_an_earlier_law_has_run_it(monkeypatch, capsys):
    """It begins anew, in a folder of its own, where the same command went on, or said that all was done."""
    words = [*TOY[:-1], "cycles=2", "progress=false"]
    assert main(words) == 0
    (before,) = Path("results/runs").glob("*/*")
    monkeypatch.setattr(sgmcmc, "LAW", sgmcmc.LAW + 2)
    capsys.readouterr()
    for more, said in ((["seed=1"], False), ([], True), ([], False), (["output=here"], False)):
        assert main([*words, *more]) == 0
        told = f"has other numbers than {sgmcmc.LAW - 2}, by which {before} was run: this begins anew"
        assert (told in capsys.readouterr().out) == said


@pytest.mark.thorough
def test_a_grid_without_m_is_listed_by_commands_that_run_its_points(capsys):
    """Nothing is run, so it is a mistake; a point of it is a run."""
    words = ["experiment=neal_rejection", "scale=smoke", "seed=1"]
    assert main(words) == 2 and not files(".")
    first, *runs, every, table = capsys.readouterr().out.splitlines()
    assert first == "experiment=neal_rejection is a grid of 10 runs:"
    listed = [line.removeprefix("  python run.py ").split() for line in runs]
    assert [compose(line) for line in listed] == list(grid.configurations("neal_rejection", tuple(words[1:])))
    assert every == f"all of them: python run.py -m {' '.join(words)}"
    assert table.endswith(f": jug execute jugfile.py {' '.join(words)}")


@pytest.mark.thorough
@pytest.mark.parametrize("several", [[*TOY[:-1], "seed=0,1"], ["experiment=neal_rejection"]])
def test_a_sweep_has_no_single_folder(several, capsys):
    """Refused before the first run, not after it; a folder that depends on the run is none."""
    assert main(["-m", *several, "output=here"]) == 2
    caught = capsys.readouterr()
    assert caught.err.startswith("output=here: is one folder") and not caught.out and not files(".")
    assert main(["-m", *TOY[:-1], "cycles=2", "seed=0,1", "output=here/${seed}", "progress=false"]) == 0
    assert main(["-m", *TOY[:-1], "cycles=2", "seed=0", "output=one", "progress=false"]) == 0
    assert sorted(path.name for path in Path("here").iterdir()) == ["0", "1"] and Path("one/config.yaml").exists()
    assert main(["-m", *TOY[:-1], "cycles=2", "output=two,three", "progress=false"]) == 0
    assert Path("two/config.yaml").exists() and Path("three/config.yaml").exists()


def test_what_a_run_s_picture_shows_is_its_metrics():
    from matplotlib import pyplot

    rng, cycle = np.random.default_rng(0), 5 * np.arange(1, 41)
    names = ["potential", "delta_potential", "delta_kinetic", "accept_prob", "accepted"]
    rows = pd.DataFrame({"cycle": cycle, **dict(zip(names, rng.normal(size=(5, 40)), strict=True))})
    rows["potential_per_datum"] = rows.potential / 7
    _, (one, two, three, four) = pyplot.subplots(1, 4)
    picture._potential(one, rows), picture._energies(two, rows)
    picture._acceptance(three, rows, "acceptance"), picture._decorrelation(four, rows, 5)
    assert one.lines[0].get_ydata() == pytest.approx(rows.potential_per_datum)
    shown = {line.get_label(): line.get_ydata() for line in two.lines}
    assert shown["ΔU"] == pytest.approx(rows.delta_potential) and shown["ΣΔK"] == pytest.approx(rows.delta_kinetic)
    points, smooth = (line.get_ydata() for line in three.lines)
    assert points == pytest.approx(rows.accept_prob)
    assert smooth == pytest.approx(rows.accept_prob.rolling(2, min_periods=1, center=True).mean())
    lags, correlation = four.lines[-1].get_data()
    late = rows.potential[20:].to_numpy() - rows.potential[20:].mean()
    assert lags.tolist() == [5 * lag for lag in range(6)]
    assert correlation == pytest.approx([late[: 20 - lag] @ late[lag:] / (late @ late) for lag in range(6)])
    between = rows[2::3].assign(cycle=rows.cycle - 2), rows[1::3].assign(cycle=rows.cycle + 1)  # its segments' ends
    picture._decorrelation(four, pd.concat([rows, *between]).sort_values("cycle"), 5)
    assert four.lines[-1].get_data() == (pytest.approx(lags), pytest.approx(correlation))
    long = pd.DataFrame({"cycle": np.arange(1, 9601), "potential": np.cos(np.pi * np.arange(9600) / 12)})
    picture._decorrelation(four, long, 1)  # which is 0 first at a quarter of its period, 6
    assert four.lines[-1].get_xdata().tolist() == list(range(60))
    picture._decorrelation(four, long.assign(potential=rng.normal(size=9600)), 1)
    assert four.lines[-1].get_xdata().tolist() == list(range(20))
    pyplot.close("all")


@pytest.mark.parametrize("size, label", [(1, "U"), (7, "U / N")])
def test_a_picture_s_potential_is_a_datum_s_where_there_are_data(size, label):
    """Of a run that diverged, too, whose last row has none."""
    from matplotlib import pyplot

    rows = pd.DataFrame({"cycle": [1, 2, 3], "potential": [5.0, 4.0, math.nan]})
    rows["potential_per_datum"] = rows.potential / size
    _, panel = pyplot.subplots()
    picture._potential(panel, rows)
    assert panel.get_ylabel() == label and panel.get_title() == "potential" + " a datum" * (size > 1)
    pyplot.close("all")


def test_a_picture_s_energies_are_those_of_most_where_few_are_far_beyond():
    """And have no legend where there are none."""
    from matplotlib import pyplot

    _, panel = pyplot.subplots()
    cycle, small = range(100), np.linspace(0.5, 1, 100)
    for far, reach in ((1.0, 1), (80.0, 80), (1e23, 0.95)):
        rows = pd.DataFrame({"cycle": cycle, "delta_potential": np.r_[small[:-1], far], "delta_kinetic": 0.0})
        panel.clear()
        picture._energies(panel, rows)
        assert panel.get_ylim()[1] == pytest.approx(1.6 * reach, rel=0.05)
        assert len(panel.get_legend().texts) == 3
    panel.clear()
    picture._energies(panel, pd.DataFrame({"cycle": cycle, "delta_potential": math.nan, "delta_kinetic": math.nan}))
    assert panel.get_legend() is None
    pyplot.close("all")


def test_an_estimated_mass_is_kept_and_told(elsewhere, capsys):
    words = "model=gaussian model.dim=3 sampler=hmc step_size=.1 chains=9 burn_in=8 cycles=12 output=run progress=false"
    assert main([*words.split(), "mass=estimate"]) == 0
    mass = load_file("run/moments.safetensors")["mass"]
    assert mass.shape == (3,) and float(mass.min()) == 1
    assert f"mass estimated: 1 to {float(mass.max()):.4g} (moments.safetensors)" in capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.parametrize(
    "acceptance", ["accept_prob (not at the target)", INEXACT, "not exact: " + 60 * "for a reason "]
)
def test_the_name_of_the_acceptance_has_room_in_a_picture(tmp_path, monkeypatch, acceptance):
    """It stands on no other text, and within the picture, also where it says why no acceptance is exact."""
    from matplotlib import pyplot

    columns = ("cycle", "potential", "potential_per_datum", "accept_prob", "delta_potential", "delta_kinetic")
    pd.DataFrame({name: np.arange(9.0) for name in columns}).to_csv("metrics.csv", index=False)
    monkeypatch.setattr(pyplot, "close", lambda figure: None)
    picture.draw(tmp_path, "some", acceptance)
    figure = pyplot.gcf()
    above, _, panel, beside = figure.axes[:4]
    title = panel.title.get_window_extent()
    others = (above.get_tightbbox(), panel.get_window_extent(), beside.title.get_window_extent())
    assert not any(title.overlaps(other) for other in others)
    assert panel.get_title().startswith(acceptance[:50]) and 0 < title.x0 < title.x1 < figure.bbox.x1
    monkeypatch.undo()
    pyplot.close("all")


def test_a_picture_shows_what_comes_after_the_first_rows(tmp_path, monkeypatch):
    """A start from far away, and a divergent trajectory, leave the axes."""
    from matplotlib import pyplot

    rows = 40
    potential = np.r_[900.0, np.linspace(2, 3, rows - 1)]
    change = np.r_[-800.0, np.full(rows - 2, 0.5), np.inf]
    columns = {"cycle": range(rows), "potential": potential, "potential_per_datum": potential, "accept_prob": 0.5}
    pd.DataFrame(columns | {"delta_potential": change, "delta_kinetic": 0.25}).to_csv("metrics.csv", index=False)
    monkeypatch.setattr(pyplot, "close", lambda figure: None)
    picture.draw(tmp_path, "some")
    panels = pyplot.gcf().axes
    assert 1.9 < panels[0].get_ylim()[0] < 2.1 and 2.9 < panels[0].get_ylim()[1] < 3.1
    assert panels[1].get_ylim() == pytest.approx((-0.8, 0.8)) and panels[4].get_ylim() == pytest.approx((-1.2, 1.2))
    monkeypatch.undo()
    pyplot.close("all")


@pytest.mark.thorough
@pytest.mark.parametrize("rates", ["1e-4", "[1e-4,1e-2]"])
def test_a_summary_says_what_was_tuned(rates, capsys):
    words = [*replaced(NETWORK, output="run", chains=2, cycles=12, lr=rates), "tune.target=0.6", "burn_in=8"]
    assert main(words) == 0
    sizes = sgmcmc.load_metrics("run")["step_size"]
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("tuned: step size ")]
    given = [float(word) for word in re.findall(r"[\d.]+(?:e-?\d+)?", line)]
    half = len(given) // 2
    assert np.mean(given[:half]) == pytest.approx(sizes[-1], rel=1e-3)
    assert given[half:] == pytest.approx([1500 * size**2 for size in given[:half]], rel=1e-3)
    assert len(given) == (2 if rates == "1e-4" else 4) and sizes[-1] != sizes[0]


@pytest.mark.parametrize(
    ("sampler", "friction", "told"),
    [
        ("ggmc", {"friction": 2.0}, "momentum decay 0.6703 to 0.8187"),  # e^-.4 and e^-.2
        ("amagold", {"beta": 1.5}, "sampler.b 0.15 to 0.3"),
        ("hmc", {}, None),
    ],
)
def test_what_was_tuned_is_told_with_the_friction_that_it_has(sampler, friction, told):
    voice, sizes = object.__new__(Voice), [0.1, 0.2]
    voice.pieces = SimpleNamespace(potential=SimpleNamespace(data_size=50))
    kernel = make_kernel(sampler, Gaussian(1), sizes, friction=Friction.of(sizes, **friction))
    line = "tuned: step size 0.1 to 0.2, lr 0.5 to 2"
    assert voice.tuned(kernel) == line + f", {told}" * bool(told)


def test_a_summary_says_what_was_accepted_after_the_burn_in_and_where_a_run_diverged(summarised):
    """Of 8,000 trajectories 3,200 of the burn-in, with 1,000 of the 2,000 accepted; after 100 cycles of 10 steps."""
    first, *_ = summarised(result={"burnt": (1000, 3200)})
    assert first.endswith("2,000 of 8,000 trajectories accepted (0.25; 0.208 after the burn-in)")
    lines = summarised(result={"status": "diverged", "kernel": make_kernel("hmc", Gaussian(1), 0.1, steps=10)})
    assert any(line.startswith("diverged: no chain is finite after step 1000;") for line in lines)


@pytest.mark.thorough
@pytest.mark.parametrize(("size", "told"), [("1e-5", 1), ("0.6", 0)])
def test_a_summary_says_where_tuning_missed_its_target(size, told, capsys):
    words = "model=quartic sampler=hmc steps_per_cycle=3 chains=4 cycles=200 burn_in=50 tune.target=0.8 output=run"
    assert main([*words.split(), "progress=false", f"step_size={size}"]) == 0
    missed = "acceptance 1 after the burn-in, which tuned it to 0.8: give a longer burn_in, or begin with the step size"
    assert capsys.readouterr().out.count(missed) == told


def test_what_is_tuned_under_stairs_is_the_first_stair_s(capsys):
    words = "model=quartic sampler=hmc step_size=0.5 steps_per_cycle=3 chains=4 cycles=30 burn_in=15 tune.target=0.6"
    words += " schedule=stairs schedule.factor=0.25 schedule.every=10 output=run progress=false"
    assert main(words.split()) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("tuned: step size ")]
    assert line.endswith(" (of the schedule's first stair)")
    assert float(line.split()[3].rstrip(",")) == pytest.approx(
        4 * sgmcmc.load_metrics("run")["step_size"][-1], rel=1e-3
    )


def test_what_is_chosen_under_stairs_is_the_first_stair_s(capsys):
    words = "model=quartic sampler=hmc step_size=0.5 steps_per_cycle=2 chains=4 cycles=90 burn_in=80 progress=false"
    words += " tune.trajectory=auto schedule=stairs schedule.factor=0.25 schedule.every=45 output=run"
    assert main(words.split()) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("chosen in the burn-in: ")]
    said, _, stair = line.partition(" (")
    assert stair == "of the schedule's first stair)"
    assert float(said.split()[-1]) == pytest.approx(2 * sgmcmc.load_metrics("run")["step_size"][-1], rel=1e-3)


@pytest.mark.parametrize("words, mend", [(TOY, "fewer"), ([*NETWORK, "output=run"], "fewer, or a smaller batch_size")])
def test_too_little_memory_is_a_sentence(words, mend, monkeypatch, capsys):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr("sgmcmc.run", full)
    assert main(words) == 2
    assert capsys.readouterr().err == f"chains=3: needs more memory than this machine has; take {mend}\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words, said",
    [
        (
            "model=banana chains=1e13",
            "chains=10000000000000: their state alone takes 894,070 GiB, and this machine has ",
        ),
        ("model=mlp data=digits batch_size=100 chains=1e9", "chains=1000000000: their state alone takes "),
        ("model=quartic model.dim=10000000000000", "chains=1: their state alone takes "),
        (
            "model=mlp data=digits model.hidden=[100000000000000]",
            "model=mlp: needs more memory than this machine has: ",
        ),
        ("model=gaussian_pairs model.pairs=1e12", "model=gaussian_pairs: needs more memory than this machine has: "),
        (
            "model=mixed model.binary=9e18",
            "model=mixed: needs more memory than this machine has: ",
        ),
        ("model=gaussian model.dim=9e18", "chains=1: their state alone takes "),
        ("model=banana steps_per_cycle=9e18", "steps_per_cycle=9000000000000000000: their letters alone take "),
        (
            "model=mlp data=digits epochs_per_cycle=9e18",
            "steps_per_cycle=135000000000000000000: their letters",
        ),
    ],
)
def test_more_than_all_memory_is_refused_before_it_is_asked_for(elsewhere, words, said, capsys):
    assert main([*words.split(), "sampler=hmc", "step_size=.1", "cycles=2"]) == 2
    caught = capsys.readouterr()
    assert caught.err.startswith(said) and caught.err.count("\n") == 1 and not caught.out
    assert not list(elsewhere.iterdir())


@pytest.mark.thorough
def test_several_experiments_are_a_run_each_unless_one_of_them_is_a_grid(capsys):
    short = "scale=smoke model=mlp data=digits model.hidden=[2] data.train_size=100 epochs=1 progress=false".split()
    assert main(["-m", "experiment=digits,garriga2021", *short, "epochs_per_cycle=1", "batch_size=50"]) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("experiment=")]
    assert told == ["experiment=digits:", "experiment=garriga2021:"]
    assert main(["-m", "experiment=digits,neal_rejection", *short]) == 2
    said = "experiment=digits,neal_rejection: neal_rejection is a grid of 10 runs, and -m makes one of each: "
    assert capsys.readouterr().err == f"{said}-m experiment=neal_rejection makes all of them\n"
    assert main(["-m", "experiment=glob(dig*)", "lr=x"]) == 2
    assert capsys.readouterr().err == "lr=x: must be a positive number\n"


@pytest.mark.thorough
def test_the_flag_of_a_sweep_may_stand_anywhere(capsys):
    first, *others = (*TOY[:-1], "cycles=2")
    for number, words in enumerate((["-m", first, *others], [first, "--multirun", *others], [first, *others, "-m"])):
        assert main([*words, f"seed=1{number},2{number}"]) == 0
    caught = capsys.readouterr()
    assert caught.err == "" and caught.out.count("done after 2 cycles") == 6


def test_a_sweep_of_a_grid_leaves_out_what_is_said_in_another_way(monkeypatch):
    """ggmc_fig1_as_run sweeps lr and the sampler."""
    seen = []
    monkeypatch.setattr("experiments.run.run", lambda config: seen.append(config) or 0)
    assert main("-m experiment=ggmc_fig1_as_run scale=smoke step_size=0.1".split()) == 0
    assert [(config["sampler"]["name"], config["lr"], config["step_size"]) for config in seen] == [
        ("ggmc", None, 0.1),
        ("hmc", None, 0.1),
    ]


def test_a_sweep_s_scratch_folder_may_lie_in_one_of_any_name(tmp_path, monkeypatch):
    place, seen = tmp_path / "it's a, b=ü", []
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    monkeypatch.setattr("experiments.run.run", lambda config: seen.append(config["step_size"]) or 0)
    assert main("-m model=banana step_size=0.1,0.2".split()) == 0
    assert seen == [0.1, 0.2] and not list(place.iterdir())


def test_a_sweep_of_a_target_of_ones_own(monkeypatch):
    seen = []
    monkeypatch.setattr("experiments.run.run", lambda config: seen.append(config["seed"]) or 0)
    assert main("-m model._target_=mine.Bowl model.width=1 step_size=0.1 seed=1,2".split()) == 0
    assert seen == [1, 2]


def test_a_file_that_holds_no_positions_is_no_start(elsewhere, capsys):
    import torch

    for held in ([1.0, 2.0], torch.tensor(3.0), torch.empty(0)):
        torch.save(held, "start.pt")
        assert main(["model=banana", "step_size=0.1", "cycles=2", "init=start.pt"]) == 2
        assert capsys.readouterr().err.startswith("init=start.pt: must hold a state dict, or positions")


@pytest.mark.thorough
def test_a_target_of_ones_own_from_the_current_folder(elsewhere, capsys):
    Path("mine.py").write_text(
        """
import torch
from conftest import forked


class Bowl:
    data_size = 0

    def __init__(self, width, dtype=None):
        self.dim, self.width = 2, width

    def potential(self, theta):
        return (theta.double() ** 2).sum(-1) / (2 * self.width**2)

    def gradient(self, theta, batch=None):
        return theta / self.width**2

    def initial(self, chains, random):
        return torch.zeros(chains, 2, dtype=torch.float64)


class Data(Bowl):
    data_size = 10


class Worded(Bowl):
    def __init__(self, dim):
        self.dim = dim


class Startless(Bowl):
    initial = None


def made(**anything):
    return Bowl(3)
"""
    )
    words = "model._target_=mine.Bowl model.width=3 sampler=hmc step_size=.5 cycles=20 output=run"
    given = "batch_size=5, sampler.ends=exact"
    for name, told in (
        ("Bowl", f"there are no minibatches: {given} has no effect"),
        ("Data", f"gradients are of all data, without {given} (sampler.gradient=minibatch)"),
    ):
        assert main([*words.replace("Bowl", name).split(), "batch_size=5", "sampler.ends=exact"]) == 0
        assert told in capsys.readouterr().out
        shutil.rmtree("run")
    assert main(words.split()) == 0
    assert "minibatch" not in capsys.readouterr().out
    assert "width: 3" in Path("run/config.yaml").read_text()
    assert main("model._target_=mine.Bowl step_size=1".split()) == 2
    assert "model.width=null: mine.Bowl needs it: give model.width=" in capsys.readouterr().err
    assert main("model._target_=mine.Bowl model.width=3 model.wide=2 step_size=1".split()) == 2
    assert "model.wide=2: mine.Bowl does not take it; it takes width, dtype" in capsys.readouterr().err
    assert main("model._target_=mine.Bowl model.width=3 step_size=1 data=digits".split()) == 2
    assert "data=digits: mine.Bowl takes neither data nor test: leave data out" in capsys.readouterr().err
    assert main("model._target_=mine.made step_size=1 data=digits".split()) == 2
    assert "data=digits: mine.made takes neither data nor test: leave data out" in capsys.readouterr().err
    assert main("model._target_=mine.Worded model.dim=wide step_size=1".split()) == 2
    assert capsys.readouterr().err == "model.dim=wide: of the target must be an int, at least 1\n"
    assert main("model._target_=mine.Startless model.width=3 step_size=1".split()) == 2
    assert "mine.Startless cannot be used: a target has initial, too" in capsys.readouterr().err
    assert main("model._target_=mine.Ball step_size=1".split()) == 2
    said = capsys.readouterr().err
    assert "has no attribute 'Ball'" in said and "looked for" not in said  # it was found
    for asked, said in (
        ("lr=1", "lr=1.0: the target has no data, so it takes step_size"),
        ("step_size=1 epochs=3", "epochs=3: the target has no data: give cycles and steps_per_cycle"),
        ("step_size=1 epochs_per_cycle=2", "epochs_per_cycle=2: the target has no data: give cycles and"),
        ("step_size=1 init=sgd", "init=sgd: the target has no data to descend on"),
    ):
        assert main(f"model._target_=mine.Bowl model.width=3 {asked}".split()) == 2
        assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    ("gradient", "said"),
    [
        ("torch.cat([theta, theta], 1)", "shape of the gradient=[2, 4]: must be [2, 2]: [chains, dim]"),
        ("theta.numpy()", "type of gradient=ndarray: must be a torch.Tensor"),
        ("theta @ torch.eye(2).double()", "target=Bowl: computes with float64 where theta is float32"),
    ],
)
def test_a_target_s_mistake_is_told_before_sgd_meets_it(elsewhere, capsys, gradient, said):
    Path("mistaken.py").write_text(
        f"""
import torch

class Bowl:
    dim, data_size = 2, 20
    def potential(self, theta): return theta.double().square().sum(-1) / 2
    def gradient(self, theta, batch=None): return {gradient}
    def initial(self, chains, random): return random.normal("start", 0, 1, chains, 2)[0]
"""
    )
    sys.modules.pop("mistaken", None)
    words = "model._target_=mistaken.Bowl sampler=hmc step_size=.1 chains=2 init=sgd warm_start.batch_size=5"
    assert main(words.split()) == 2
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.thorough
def test_a_module_of_ones_own_and_its_prior(elsewhere, capsys):
    Path("nets.py").write_text(
        """
import torch
from conftest import forked

import sgmcmc
from sgmcmc.potentials.regression import LogisticRegression


class Net(torch.nn.Sequential):
    def __init__(self, hidden):
        super().__init__(torch.nn.Flatten(), torch.nn.Linear(64, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 10))


def net(**sizes):
    return Net(**sizes)


def of_my_own():
    inputs = torch.arange(30.0).reshape(10, 3)
    data = sgmcmc.Dataset(inputs, torch.arange(10) % 2, 2)
    return sgmcmc.NetworkPotential(torch.nn.Linear(3, 2), data, prior=9)


def of_any_kind(dtype, device):
    inputs = torch.arange(30.0).reshape(10, 3)
    train = sgmcmc.Dataset(inputs, torch.arange(10) % 2, 2)
    return sgmcmc.NetworkPotential(torch.nn.Linear(3, 2), train, dtype=dtype, device=device)


def of_digits(data):
    return sgmcmc.NetworkPotential(Net(2), data)


def with_test():
    inputs = torch.arange(30.0).reshape(10, 3)
    train = sgmcmc.Dataset(inputs, torch.arange(10) % 2, 2)
    test = sgmcmc.Dataset(torch.eye(3)[:2], torch.tensor([1, 0]), 2)
    return sgmcmc.NetworkPotential(torch.nn.Linear(3, 2), train, test=test)


def of_images():
    images = torch.arange(40, dtype=torch.uint8).reshape(10, 1, 2, 2) * 6
    one = torch.tensor([0.2], dtype=torch.float64)
    train = sgmcmc.Dataset(images, torch.arange(10) % 2, 2, mean=one, std=one / 3)
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    return sgmcmc.NetworkPotential(module, train, test=sgmcmc.Dataset(images[:4].flip(1), torch.arange(4) % 2, 2))


def of_features():
    rows = 3 + torch.arange(20.0).reshape(10, 2).cos()
    train = sgmcmc.Dataset(rows, torch.arange(10) % 2, 2, mean=rows.mean(0), std=rows.std(0))
    test = sgmcmc.Dataset(rows[:4].flip(1), torch.arange(4) % 2, 2)
    return sgmcmc.NetworkPotential(torch.nn.Linear(2, 2), train, test=test)


def regression():
    train = sgmcmc.Dataset(torch.arange(20.0).reshape(10, 2).cos(), torch.arange(10) % 2 + 1, 3)
    return LogisticRegression(train, test=train)


class Soft(Net):
    def __init__(self):
        super().__init__(3)

    def forward(self, x):
        return super().forward(x).softmax(-1)


made, target = Net(3), of_my_own()


class Bowl:
    dim, data_size, potential, gradient, initial = 2, 0, None, None, None
"""
    )
    run = "data=digits data.train_size=100 batch_size=50 sampler=ggmc lr=1e-4 epochs=1 epochs_per_cycle=1 chains=1"
    for prior in ("unit", "fan_in"):
        words = f"model._target_=nets.Net model.hidden=3 {run} progress=false output={prior} model.prior={prior}"
        assert main(words.split()) == 0
        pieces = build(OmegaConf.to_container(OmegaConf.load(f"{prior}/config.yaml")))
        std, plan = pieces.potential.std, pieces.plan
        assert std[:192].tolist() == pytest.approx([1.0 if prior == "unit" else (2 / 64) ** 0.5] * 192)  # first weights
        # as of every network: the GGMC paper's γ, −√(50,000/.1) log .98, and a row and a checkpoint a cycle
        assert pieces.kernel.friction.value == pytest.approx(-math.sqrt(5e5) * math.log(0.98), rel=1e-12)
        assert (plan.log_every, plan.save_every, plan.epochs_per_cycle) == (1, 1, 1.0)
    capsys.readouterr()
    assert main("model._target_=nets.of_my_own batch_size=5 sampler=ggmc step_size=.01 cycles=3".split()) == 0
    assert "its prior is normal (model.prior=9), inputs are as they are" in capsys.readouterr().out
    words = "model._target_=nets.with_test batch_size=5 sampler=ggmc step_size=.01 cycles=3 output=tested"
    assert main(words.split()) == 0
    network, data = reopened("tested")
    draw = network.state_dict(sgmcmc.load_samples("tested")[-1, 0])
    logits = torch.nn.functional.linear(torch.eye(3)[:2], draw["weight"], draw["bias"])
    nll = float(torch.nn.functional.cross_entropy(logits, torch.tensor([1, 0])))
    assert len(data.test) == 2 and sgmcmc.load_metrics("tested")["test_nll"][-1] == pytest.approx(nll, abs=1e-6)
    # Its own test data are normalised, and labelled, as what is in U.
    for name in ("of_images", "of_features", "regression"):
        words = f"model._target_=nets.{name} batch_size=5 sampler=ggmc step_size=.01 cycles=3 log_every=1 output={name}"
        assert main(words.split()) == 0
        assert evaluated([name, f"output={name}.csv"]) == 0
        metrics, row = sgmcmc.load_metrics(name), pd.read_csv(f"{name}.csv").iloc[0]
        assert row["chain_nll"] == pytest.approx(metrics["test_ensemble_nll"][-1], rel=1e-6) and row["nll"] < 3
    assert main("model._target_=nets.Soft data=digits lr=1e-4 sampler=ggmc epochs=1 epochs_per_cycle=1".split()) == 2
    said = "model=Soft: gives probabilities, which sum to 1: leave the softmax out"
    assert capsys.readouterr().err.strip() == said
    own = "model._target_=nets.of_my_own batch_size=5 step_size=.01"
    rescaled = build(compose([*own.split(), "sampler=ovrvo", "sampler.word=BAB", "sampler.refresh=full"]))  # b(γh)
    assert rescaled.kernel.friction.value == pytest.approx(-math.sqrt(5e5) * math.log(0.98), rel=1e-12)
    hand_on = "and give that to NetworkPotential"
    config = compose("model._target_=nets.of_any_kind batch_size=5 step_size=.01 dtype=float64".split())
    assert build(config).potential.dtype == torch.float64
    nowhere = torch.device("meta")
    with pytest.raises(
        SettingError, match="device=auto: nets.of_my_own makes a network on cpu, and the run is on meta"
    ):
        build_potential(compose(own.split()), Data(None, None), nowhere, torch.float32)
    for words, said in (
        (
            f"{own} dtype=float64",
            f"dtype=float64: nets.of_my_own makes a network of float32: let it take dtype, {hand_on}",
        ),
        ("model._target_=nets.of_digits step_size=1", "data=none: nets.of_digits takes data: give some, such as"),
        (
            "model._target_=nets.made data=digits lr=1",
            "nets.made: is an object of class Net: name the class",
        ),
        (
            "model._target_=nets.target step_size=1",
            "nets.target: is an object of class NetworkPotential: name",
        ),
        (f"{own} model.prior=unit", f"model.prior=unit: nets.of_my_own does not take it: let it take prior, {hand_on}"),
        (
            f"{own} data.train_size=5",
            "data.train_size=5: is of the data sets of data=, and there is none: of_my_own brings",
        ),
        (
            f"model._target_=nets.of_digits {run} augmentation=averaged",
            "augmentation=averaged: nets.of_digits makes its",
        ),
        (f"model._target_=nets.Net model.hidden=3 {run} model.prior=wide", "model.prior=wide: "),
        (f"model._target_=nets.net model.hidden=3 {run} model.prior=unit", "unexpected keyword argument 'prior'"),
        ("model._target_=nets.Bowl step_size=1 model.prior=unit", "model.prior=unit: is a network's, and nets.Bowl is"),
        ("model._target_=nets.Net model.hidden=3 step_size=1", "data=none: nets.Net is a network, and needs data"),
        ("model._target_=nets.of_my_own step_size=1 epochs=2 epochs_per_cycle=1", "minibatch: a divisor of 10"),
    ):
        assert main(words.split()) == 2
        assert said in capsys.readouterr().err


def test_a_module_that_draws_when_it_is_made_is_the_same_in_every_process_and_of_every_seed(elsewhere):
    Path("features.py").write_text(
        """
import torch
from conftest import forked


class Features(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("directions", torch.randn(64, 20))
        self.layer = torch.nn.Linear(20, 10)

    def forward(self, x):
        return self.layer(torch.cos(x.flatten(1) @ self.directions))
"""
    )
    words = "model._target_=features.Features data=digits data.train_size=100 batch_size=50 sampler=ggmc lr=1e-4"
    directions, states = [], []
    for seed in (0, 0, 1):
        torch.rand(7 + seed)
        config = compose(f"{words} epochs=1 epochs_per_cycle=1 seed={seed}".split())
        states.append(torch.random.get_rng_state())
        directions.append(build(config).potential.model.directions)
        assert torch.equal(torch.random.get_rng_state(), states[-1])  # and others' numbers are not touched
    assert torch.equal(directions[0], directions[1]) and torch.equal(directions[0], directions[2])


def test_a_folder_s_name_may_have_letters_beyond_ascii(capsys):
    where = "output=läufe/zwei ö"
    assert main([*TOY[:-1], where]) == 0 and Path("läufe/zwei ö/metrics.csv").exists()
    assert main([*TOY[:-1], where, "name=Tür"]) == 0 and "done: 40 cycles" in capsys.readouterr().out


def test_paths_may_begin_with_the_home_folder(elsewhere, monkeypatch, capsys):
    """Which most shells leave as it is where it comes after KEY=."""
    monkeypatch.setenv("HOME", str(elsewhere / "home"))
    Path("home").mkdir()
    torch.save(torch.zeros(2), "home/start.pt")
    for where in ("~/run", "'~/run'"):
        assert main([*TOY[:-1], f"output={where}", "init=~/start.pt"]) == 0
    said = capsys.readouterr().out
    assert f"done: 40 cycles; the run lies in {elsewhere}/home/run" in said and Path("home/run/picture.png").exists()
    assert [path.name for path in elsewhere.iterdir()] == ["home"]
    assert collected(["~/run", "output=~/table.csv"]) == 0 and Path("home/table.csv").exists()
    assert len(collect("~/run")) == 1 and reopened("~/run")[0].dim == 2
    assert evaluated(["~/run"]) == 2
    assert capsys.readouterr().err == f"RUN={elsewhere}/home/run: its target has no data that it predicts\n"


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["..", "/abs", "../../up", "a/../../b", ".", "a/.."])
def test_a_name_does_not_lead_out_of_the_runs_folder(elsewhere, capsys, name):
    assert main([*TOY[:-1], f"name={name}"]) == 2
    assert capsys.readouterr().err.startswith(f"name={name}: names a folder within results/runs: ")
    assert not list(elsewhere.iterdir())
    assert compose([*TOY[:-1], "name=a/b"])["name"] == "a/b" and compose([*TOY, f"name={name}"])["name"] == name


def test_a_finished_run_that_is_damaged_is_mended(capsys):
    assert main(TOY) == 0
    sound = sgmcmc.load_samples("run")
    (last,) = Path("run/samples").glob("*40.safetensors")
    last.write_bytes(last.read_bytes()[:-1])
    with pytest.raises(StoreError, match="the run's own command mends it"):
        sgmcmc.load_samples("run")
    assert main(TOY) == 0
    assert "40.safetensors is damaged" in capsys.readouterr().err
    assert bool((sgmcmc.load_samples("run") == sound).all())


def test_a_run_whose_picture_cannot_be_drawn_is_done(monkeypatch, capsys):
    def full(*_):
        raise OSError(errno.EFBIG, "File too large")

    with monkeypatch.context() as limited:
        limited.setattr("experiments.picture.draw", full)
        assert main(TOY) == 0
        *_, said, left = capsys.readouterr().out.splitlines()
        assert (said, left) == ("its picture could not be drawn (File too large)", "run: metrics.csv, samples")
        assert json.loads(Path("run/status.json").read_text())["state"] == "done"
        assert main(TOY) == 0
        assert capsys.readouterr().out.splitlines()[-1] == said
    assert main(TOY) == 0  # which draws it as soon as that can be done
    assert "could not be drawn" not in capsys.readouterr().out and Path("run/picture.png").exists()
    drawn = Path("run/picture.png").stat().st_mtime_ns
    assert main(TOY) == 0 and Path("run/picture.png").stat().st_mtime_ns == drawn


SESSION = "types.SimpleNamespace(budget=1, device='cpu', miniature=1, out='', side=1, unchecked=1)"
CHECKED = f"import gpu, types; gpu.Session({SESSION}).check()"
DRAWING = [["run.py", *TOY], ["scripts/draw.py", "--help"], ["scripts/why_exact.py", "--help"], ["-c", CHECKED]]


@pytest.mark.thorough
@pytest.mark.parametrize("command", DRAWING)
def test_a_notebook_s_backend_that_is_not_installed_is_not_asked_for(tmp_path, command):
    """Jupyter sets it for all that a notebook's shell commands start, of another environment, too."""
    backend = "module://matplotlib_inline.backend_inline"
    there = os.environ | {"MPLBACKEND": backend, "PYTHONPATH": f"{ROOT}:{ROOT / 'scripts'}"}
    words = [str(ROOT / word) if word.endswith(".py") else word for word in command]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=there, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "could not be drawn" not in done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["x$_{$y", "\udcff"])
def test_a_name_is_no_formula_and_may_have_bytes_that_are_no_letters(name, capsys):
    assert execute(compose([*TOY, "cycles=8"]) | {"name": name}) == 0
    assert "could not be drawn" not in capsys.readouterr().out and Path("run/picture.png").exists()


def test_a_folder_that_is_gone_is_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(TOY) == evaluated(["run"]) == 2
    assert capsys.readouterr().err == "the current folder is gone: change to one that is there\n" * 2


def test_names_that_look_like_numbers_stay_as_they_are():
    for name in ("2024_01_12", "1e5", "true", "007"):
        config = compose([*TOY[:-1], f"output={name}", f"name={name}"])
        assert (config["output"], config["name"]) == (name, name)
    assert compose([*TOY[:-1], "output=null"])["output"] is None


def test_a_run_is_done_when_all_that_it_leaves_is_there(monkeypatch):
    """Killed while its picture is drawn, it is not: the next start draws it."""

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("experiments.picture.draw", killed)
        assert main(TOY) == 75
    assert json.loads(Path("run/status.json").read_text())["state"] == "running"
    assert main(TOY) == 0 and {"picture.png", "moments.safetensors"} <= set(files("run"))
    assert json.loads(Path("run/status.json").read_text())["state"] == "done"


def test_the_draws_of_a_killed_run_whose_checkpoints_are_gone_are_not_thrown_away(monkeypatch, capsys):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("experiments.picture.draw", killed)
        assert main(TOY) == 75
    status, draws = json.loads(Path("run/status.json").read_text()), sgmcmc.load_samples("run")
    assert status["state"] == "running" and "cycles" not in status
    for path in Path("run").glob("checkpoint-*.pt"):
        path.unlink()
    capsys.readouterr()
    assert main([*TOY, "cycles=8"]) == 0
    assert "gone: no block is left that is whole, so the run starts from nothing; what was" in capsys.readouterr().err
    assert len(sgmcmc.load_samples("run")) == 8
    assert bool((sgmcmc.load_samples("run/damaged-1") == draws).all())


def test_an_error_of_the_targets_is_shown_recorded_and_not_the_end(capsys):
    Path("faulty.py").write_text(
        "from sgmcmc.potentials.analytic import Quartic\n\n\nclass Faulty(Quartic):\n    calls, most = 0, 30\n\n"
        "    def potential(self, theta):\n        Faulty.calls += 1\n        if Faulty.calls > Faulty.most:\n"
        "            raise ValueError('thirty are enough')\n        return super().potential(theta)\n"
    )
    words = "model._target_=faulty.Faulty sampler=hmc step_size=.1 cycles=20 save_every=1 output=run".split()
    with pytest.raises(ValueError, match="thirty are enough"):
        main(words)
    status = json.loads(Path("run/status.json").read_text())
    assert (status["state"], status["why"]) == ("failed", "ValueError: thirty are enough")
    assert Path("run/log.txt").read_text().endswith(" failed: ValueError: thirty are enough\n")
    sys.modules["faulty"].Faulty.most = 1000
    capsys.readouterr()
    assert main(words) == 0 and sgmcmc.load_samples("run").shape[0] == 20
    said, log = capsys.readouterr().out, Path("run/log.txt").read_text()
    gone_on = re.search(r"^gone on with after cycle \d+$", said, re.MULTILINE).group()
    assert log.count(gone_on) == 1 and log.count("exactly corrected (metropolis)") == 2


@pytest.mark.thorough
def test_the_traceback_of_a_target_s_error_begins_with_the_run(tmp_path):
    """That the run failed is recorded, too, where it had not begun yet: `make status` counts it."""
    (tmp_path / "faulty.py").write_text(
        "from sgmcmc.potentials.analytic import Gaussian\n\n\nclass Faulty(Gaussian):\n"
        "    def potential(self, theta):\n        raise ValueError('no U')\n"
    )
    words = "model._target_=faulty.Faulty sampler=hmc step_size=.1 cycles=20".split()
    command = [sys.executable, str(ROOT / "run.py"), *words]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    files = re.findall(r'File "(.*?)"', ended.stderr)
    assert ended.returncode == 1 and ended.stderr.endswith("ValueError: no U\n")
    assert files[0].endswith("experiments/run.py") and files[-1].endswith("faulty.py") and len(files) < 9
    (status,) = tmp_path.glob("results/runs/*/*/status.json")
    left = json.loads(status.read_text())
    assert (left["state"], left["why"]) == ("failed", "ValueError: no U")


def test_a_target_that_fails_in_the_first_cycle_leaves_a_log():
    Path("early.py").write_text(
        "from pathlib import Path\n\nfrom sgmcmc.potentials.analytic import Quartic\n\n\nclass Early(Quartic):\n"
        "    def gradient(self, theta, batch=None):\n        if Path('run/status.json').exists():\n"
        "            raise ValueError('too early')\n        return super().gradient(theta)\n"
    )
    with pytest.raises(ValueError, match="too early"):
        main("model._target_=early.Early sampler=hmc step_size=.1 cycles=20 output=run".split())
    first, *_, last = Path("run/log.txt").read_text().splitlines()
    assert " hmc (BAB) on early.Early, 1 coordinate: " in first and last.endswith(" failed: ValueError: too early")


def leave_the_first_cycle(words, monkeypatch) -> None:
    """Begin a run that is interrupted before its first cycle is over."""

    def left(chain):
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Chain, "advance", left)
        assert main(words) == 75


@pytest.mark.thorough
def test_the_run_of_a_class_that_was_edited_since_is_refused_done_or_not(capsys, monkeypatch):
    """Its gradient alone may have been mended; what cannot be asked far from the start is asked no more."""
    Path("edited.py").write_text(
        "import torch\nfrom sgmcmc.potentials.analytic import Gaussian\n\n\nclass Edited(Gaussian):\n"
        "    factor, inside = 1.0, 9.0\n\n    def potential(self, theta):\n"
        "        if float(theta.abs().max()) > self.inside:\n            raise ValueError('outside')\n"
        "        return super().potential(theta)\n\n    def gradient(self, theta, batch=None):\n"
        "        return self.factor * super().gradient(theta)\n\n    def initial(self, chains, random):\n"
        "        return torch.zeros(chains, self.dim)\n"
    )
    words = "model._target_=edited.Edited sampler=hmc step_size=.01 steps_per_cycle=1 output=run progress=false".split()
    assert main([*words, "cycles=4"]) == main([*words, "cycles=4"]) == main([*words, "cycles=6"]) == 0
    edited, early = sys.modules["edited"].Edited, [*words[:-2], "cycles=4", "output=early", "progress=false"]
    leave_the_first_cycle(early, monkeypatch)
    edited.factor = 1.01
    assert main(early) == 2
    for cycles in (6, 8):
        capsys.readouterr()
        assert main([*words, f"cycles={cycles}"]) == 2
        told = "target=Edited: gives another U or gradient than when the run was begun: give the run another name"
        assert capsys.readouterr() == ("", f"{told} or output\n")
    edited.inside = 0.1
    assert main([*words[:-2], "cycles=4", "output=near", "progress=false", "step_size=1e-6"]) == 0
    edited.factor = 1.0
    assert main([*words[:-2], "cycles=4", "output=near", "progress=false", "step_size=1e-6"]) == 0


def test_a_target_that_draws_its_data_is_the_same_each_time():
    """Else each run has another U, and one that was killed is refused when it is to go on."""
    Path("drawn.py").write_text(
        "import random\n\nimport numpy as np\nimport torch\n\nfrom sgmcmc.potentials.analytic import Gaussian\n\n"
        "SD = random.random() + torch.rand(()).item()\n\n\nclass Drawn(Gaussian):\n    def __init__(self):\n"
        "        super().__init__(2, mean=(np.random.randn(2) + random.random() + torch.randn(2).numpy()).tolist())\n"
    )
    words = "model._target_=drawn.Drawn sampler=hmc step_size=.1 progress=false".split()
    assert main([*words, "cycles=20", "output=run"]) == main([*words, "cycles=20", "seed=1", "output=other"]) == 0
    sd, before = sys.modules.pop("drawn").SD, (np.random.get_state()[1].tolist(), random.getstate())
    assert main([*words, "cycles=40", "output=run"]) == 0
    assert sys.modules["drawn"].SD == sd and before == (np.random.get_state()[1].tolist(), random.getstate())
    means = [reopened(folder)[0].mean.tolist() for folder in ("run", "other")]
    assert means[0] == means[1]


@pytest.mark.thorough
def test_a_network_that_was_edited_since_neither_goes_on_nor_predicts(capsys, monkeypatch):
    Path("rewritten.py").write_text(
        "import torch\nfrom torch import nn\n\n\nclass Rewritten(nn.Sequential):\n    between = nn.Tanh\n\n"
        "    def __init__(self):\n"
        "        super().__init__(nn.Flatten(), nn.Linear(64, 4), self.between(), nn.Linear(4, 10))\n"
    )
    words = (
        "model._target_=rewritten.Rewritten data=digits data.train_size=100 batch_size=20 lr=1e-4 cycles=2 output=run"
    )
    words = [*words.split(), "steps_per_cycle=2", "progress=false"]
    assert main(words) == main(words) == evaluated(["run"]) == 0
    sys.modules["rewritten"].Rewritten.between = torch.nn.ReLU
    capsys.readouterr()
    assert main(words) == main([*words, "cycles=3"]) == evaluated(["run"]) == 2
    told = "target=Rewritten: gives another U or gradient than when the run was begun: "
    run, more, predicted = capsys.readouterr().err.splitlines()
    assert run == more == f"{told}give the run another name or output"
    assert predicted == f"{told}its draws are of the class as it was then"
    assert main([*words, "output=later", "seed=1"]) == 0
    capsys.readouterr()
    assert evaluated(["later"]) == 0
    assert evaluated(["later", "run"]) == 2
    assert capsys.readouterr().err == f"{told}its draws are of the class as it was then\n"
    with pytest.raises(SettingError, match="its draws are of the class as it was"):
        reopened("run")
    monkeypatch.setattr("sgmcmc.kept.read_status", lambda folder: read_status(folder) | {"target": []})
    assert main(words) == 0  # begun before networks told what they are


@pytest.mark.thorough
@pytest.mark.parametrize("changed", ["inputs", "targets", None])
def test_a_network_whose_data_were_changed_since_is_another_target(changed, capsys):
    """The last of twenty, which its first data do not tell. A run that was begun before it told goes on."""
    Path("brought.py").write_text(
        "import torch\nfrom torch import nn\nfrom sgmcmc import Dataset, NetworkPotential\n\nchanged = None\n\n\n"
        "def make():\n    inputs, targets = torch.linspace(-1, 1, 40).view(20, 2), torch.arange(20) % 2\n"
        "    if changed:\n        (inputs if changed == 'inputs' else targets)[-1] = 0\n"
        "    return NetworkPotential(nn.Linear(2, 2), Dataset(inputs, targets, 2))\n"
    )
    words = "model._target_=brought.make sampler=hmc lr=1e-3 batch_size=5 steps_per_cycle=2 cycles=3 output=run"
    words = [*words.split(), "progress=false"]
    assert main(words) == 0
    sys.modules["brought"].changed = changed
    capsys.readouterr()
    assert main(words) == (2 if changed else 0)
    assert ("gives another U or gradient than when the run was begun" in capsys.readouterr().err) == bool(changed)
    sys.modules.pop("brought")


def test_runs_of_a_class_that_starts_by_its_seed_are_evaluated_together(capsys):
    Path("seeded.py").write_text(
        "import torch\nfrom torch import nn\nfrom sgmcmc import NetworkPotential\n\n\nclass Seeded(NetworkPotential):\n"
        "    def __init__(self, data, seed):\n        self.own = seed\n"
        "        super().__init__(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), data)\n\n"
        "    def initial(self, chains, random):\n"
        "        return torch.full((chains if isinstance(chains, int) else len(chains), self.dim), 0.1 * self.own)\n"
    )
    words = "model._target_=seeded.Seeded data=digits data.train_size=100 batch_size=20 lr=1e-4 cycles=2".split()
    for seed in "12":
        assert main([*words, "steps_per_cycle=2", "progress=false", f"seed={seed}", f"output=run{seed}"]) == 0
    assert evaluated(["run1", "run2"]) == 0
    assert capsys.readouterr().err == ""


# ---- mistakes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"name: \xe9\n", "is not UTF-8 text"),
        (b"a:\n\tb: 1\n", "line 2: is not YAML (found character"),
        (b"wurd: AB\n", "sampler/ggmc.yaml: sampler.wurd: there is no such setting here; did you mean sampler.word?"),
    ],
)
def test_a_damaged_configuration_file_is_named(elsewhere, monkeypatch, capsys, text, said):
    shutil.copytree(ROOT / "conf", elsewhere / "conf")
    (elsewhere / "conf" / "sampler" / "ggmc.yaml").write_bytes(text)
    monkeypatch.setattr("experiments.schema.CONF", elsewhere / "conf")
    assert main(["model=banana", "step_size=0.1", "cycles=1"]) == 2
    caught = capsys.readouterr().err
    assert "ggmc.yaml" in caught and said in caught and caught.count("\n") == 1
    assert [path.name for path in elsewhere.iterdir()] == ["conf"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words, said",
    [
        ("sampler=gmc lr=1", "did you mean ggmc?"),
        ("lr=abc", "lr=abc: must be a positive number"),
        ("scale=null lr=1", "scale=null: must be one of paper, quick, smoke"),
        ("model=banana step_size=1 sampler=Null", "sampler=Null: must be one of aboba, amagold"),
        ("--foo lr=1", "unrecognized arguments: --foo"),
        ("lr=1 keep=some", "keep=some: must be all, none or how many of the last draws to keep"),
        ("lr=1", "cifar10"),
        ("data=digits lr=1 batch_size=77", "batch_size=77: does not divide the 1500 data"),
        ("data=digits lr=1 data.train_size=5000", "data.train_size=5000: there are only 1797 data"),
        ("data=digits lr=1 init=nowhere.pt", "init=nowhere.pt: must be he, torch, sgd, exact, or a file"),
        ("data=digits lr=1 data.ood=notmnist", "notmnist"),
        (
            "model=mlp data=digits lr=1 steps_per_cycle=4 epochs=1 batch_size=100",
            "epochs=1: is 15 steps, not a whole number of cycles of steps_per_cycle=4",
        ),
        ("model=banana step_size=1 model.noise=-1", "model.noise=-1.0: must be a standard deviation"),
        ("model=hierarchical_regression step_size=1 init=exact", "init=exact: the target cannot be drawn from exactly"),
        (
            "model=banana step_size=1 friction=0",
            "friction=0.0: never refreshes the momentum at this step size: give more of",
        ),
        ("model=banana step_size=.1 sampler.b=1.5", "sampler.b=1.5: gives a negative momentum decay"),
        (
            "model=banana step_size=1 sampler.b=0",
            "sampler.b=0.0: never refreshes the momentum at this step size: give more, or",
        ),
        (
            "model=banana step_size=1 momentum_decay=1",
            "momentum_decay=1.0: never refreshes the momentum at this step size: give less, or",
        ),
        ("model=banana step_size=.1 momentum_decay=0 sampler=ovrvo", "momentum_decay=0.0: is infinite friction"),
        ("model=banana step_size=.1 momentum_decay=0 sampler=ovrvo", "never moves; give less friction"),
        ("model=banana step_size=.1 trace=1 trace_cycles=0", "trace_cycles=0: must be"),
        ("model=banana step_size=1 mass=[1,2,3]", "mass=[3 numbers]: must be one number, or a list of 2, one"),
        ("model._target_=nowhere.Model step_size=1", "model._target_=nowhere.Model: nowhere.Model cannot be used"),
        ("model._target_=Model step_size=1", "model._target_=Model: must be module.Class, such as mine.Ring"),
        ("model=banana step_size=1 cycles=20 thin=30", "thin=30: keeps none of the 20 draws after the burn-in"),
        ("-m lr=1 sampler=gmc,hmc", "did you mean ggmc?"),
        ("model=mlp data=digits lr=1e-6 model.prior_variance=0", "model.prior_variance=0.0: a variance must be"),
        (
            "model=hierarchical_regression step_size=1 model.tau_prior=[2]",
            "model.tau_prior=[2.0]: must be two positive",
        ),
        ("model=logistic_generated step_size=1 model.size=-1", "model.size=-1: must be a whole number, at least 1"),
        (
            "data=digits model=mlp step_size=.1 steps_per_cycle=15 epochs=2 batch_size=100 burn_in=2",
            "burn_in=2: leaves",
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_status_2_and_nothing_written(elsewhere, monkeypatch, capsys, words, said):
    monkeypatch.setattr(socket, "create_connection", _no_network)
    assert main(words.split()) == 2
    caught = capsys.readouterr()
    assert said in caught.err and caught.err.count("\n") == 1
    assert "Traceback" not in caught.err and not list(elsewhere.iterdir())


def _no_network(*_, **__):
    raise OSError("no network in the tests")


def test_points_that_nothing_runs_or_that_cannot_work_are_named(elsewhere, monkeypatch, capsys):
    shutil.copytree(ROOT / "conf", elsewhere / "conf")
    text = "# @package _global_\ndefaults:\n  - override /model: banana\npoints:\n  - {step_size: 0.1}\n"
    text += "  - {step_size: -1}\n"
    (elsewhere / "conf" / "experiment" / "wells.yaml").write_text(text)
    monkeypatch.setattr("experiments.schema.CONF", elsewhere / "conf")
    assert main(["experiment=wells"]) == 2
    mend = "experiment=wells has 2 points, which nothing runs: let it say point: range(0,2)"
    assert capsys.readouterr().err == f"hydra.sweeper.params.point=null: {mend}\n"
    text += "hydra:\n  sweeper:\n    params:\n      point: 0,0\n"
    (elsewhere / "conf" / "experiment" / "wells.yaml").write_text(text)
    grid._composition.cache_clear()
    assert main(["-m", "experiment=wells"]) == 2
    mend = "leaves out points of experiment=wells, which has 2: range(0,2)"
    assert capsys.readouterr().err == f"hydra.sweeper.params.point=0,0: {mend}\n"
    text = text.replace("0,0", "range(0,2)")
    (elsewhere / "conf" / "experiment" / "wells.yaml").write_text(text)
    grid._composition.cache_clear()
    with pytest.raises(SettingError, match=r"^step_size=-1: .* \(of point=1, a run of experiment=wells\)$"):
        grid.configurations("wells")


@pytest.mark.parametrize(
    "text, said",
    [
        (
            "name: mine\n",
            "conf/experiment/mine.yaml: must begin with the line # @package _global_, or holds no settings",
        ),
        (
            "defaults:\n  - override /model: banana\nstep_size: 1\n",
            "conf/experiment/mine.yaml: must begin with the line # @package _global_, or holds no settings",
        ),
        (
            "# @package _global_\ndefaults:\n  - override /model: banana\nstep_size: 1\n"
            "hydra:\n  sweeper:\n    params:\n      seed: [0, 1]\n",
            "hydra.sweeper.params.seed=[0, 1]: is one value of experiment=mine; a run of each is seed: 0,1",
        ),
    ],
)
def test_an_experiment_of_ones_own_that_is_not_written_as_it_must_be(elsewhere, monkeypatch, capsys, text, said):
    shutil.copytree(ROOT / "conf", elsewhere / "conf")
    (elsewhere / "conf" / "experiment" / "mine.yaml").write_text(text)
    monkeypatch.setattr("experiments.schema.CONF", elsewhere / "conf")
    grid._composition.cache_clear()
    assert main(["experiment=mine"]) == 2
    assert capsys.readouterr().err == f"{said}\n"


def test_a_file_that_hydra_cannot_use_is_one_sentence(elsewhere, monkeypatch, capsys):
    shutil.copytree(ROOT / "conf", elsewhere / "conf")
    (elsewhere / "conf" / "experiment" / "digits.yaml").write_text("# @package _global_\ndefaults:\n  -\n")
    monkeypatch.setattr("experiments.schema.CONF", elsewhere / "conf")
    assert main(["experiment=digits"]) == 2
    caught = capsys.readouterr().err
    assert "the configuration cannot be composed (ValueError" in caught and caught.count("\n") == 1


def test_cuda_without_a_device(capsys, elsewhere):
    import torch

    wanted = f"cuda:{torch.cuda.device_count()}"
    assert main(["model=banana", "step_size=1", f"device={wanted}"]) == 2
    assert f"device={wanted}: this machine has" in capsys.readouterr().err and not list(elsewhere.iterdir())


@pytest.mark.parametrize("words", ["lr=abc debug=true", "sampler=gmc debug=true"])
def test_debug_shows_the_traceback(capsys, words):
    assert main(words.split()) == 2
    caught = capsys.readouterr().err
    assert caught.startswith("Traceback") and ("did you mean" in caught or "must be a positive number" in caught)


def test_an_output_of_another_run_is_refused_and_left_alone(capsys):
    assert main(TOY) == 0
    before = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(replaced(TOY, seed=1)) == 2
    caught = capsys.readouterr().err
    assert "belongs to another configuration" in caught and caught.count("\n") == 1
    assert {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "cycle\nfirst\n"])
def test_an_output_with_another_program_s_table_is_refused(capsys, text):
    """Whose name is that of ours, from which a network's run takes how much it has done."""
    Path("run").mkdir()
    Path("run/metrics.csv").write_text(text)
    assert main([*NETWORK, "data.train_size=40", "output=run", "progress=false"]) == 2
    assert capsys.readouterr().err == "run holds something else than a run: give this run another output\n"
    assert Path("run/metrics.csv").read_text() == text and len([*Path("run").iterdir()]) == 1


@pytest.mark.thorough
def test_a_file_of_positions_that_has_changed_is_refused(capsys):
    words = replaced(TOY, init="start.pt", cycles=4)
    torch.save(torch.zeros(2), "start.pt")
    assert main(words) == 0 and main(words) == 0
    torch.save(torch.ones(2), "start.pt")
    capsys.readouterr()
    assert main(words) == main(replaced(words, cycles=8)) == 2
    told = "init=start.pt: is another file than when the run was begun: give the run another name or output"
    assert capsys.readouterr().err.splitlines() == [told, told]
    Path("start.pt").unlink()
    assert main(words) == 0  # it is over, and needs the file no more


def test_so_is_one_that_has_changed_while_the_first_cycle_was_under_way(capsys, monkeypatch):
    """Of a large network that takes half an hour; the checkpoint is of the file that was."""
    words = replaced(TOY, init="start.pt")
    torch.save(torch.zeros(2), "start.pt")
    leave_the_first_cycle(words, monkeypatch)
    torch.save(torch.ones(2), "start.pt")
    assert main(words) == 2 and "is another file than when the run was begun" in capsys.readouterr().err
    torch.save(torch.zeros(2), "start.pt")
    assert main(words) == 0


def test_status_json_counts_what_was_accepted():
    assert main(TOY) == 0
    status = json.loads(Path("run/status.json").read_text())
    assert 0 < status["accepted"] <= status["proposed"] == 120


def test_a_sampler_without_its_file_is_told_which(capsys, monkeypatch):
    from sgmcmc.samplers import SAMPLERS

    monkeypatch.setitem(SAMPLERS, "oabao", SAMPLERS["baoab"])
    assert main(["sampler=oabao", "model=banana"]) == 2
    told = "sampler=oabao: is a row of the table, and conf/sampler/oabao.yaml (name: oabao) is missing\n"
    assert capsys.readouterr().err == told


@pytest.mark.thorough
def test_help_and_cfg(capsys, elsewhere):
    assert main(["--help"]) == 0
    told = capsys.readouterr().out
    assert "EXAMPLES" in told and "python run.py sampler=ggmc lr=1e-4" in told
    assert main(["--cfg", "job", "model=quartic", "step_size=1"]) == 0
    shown = capsys.readouterr().out
    assert "cubic: 1.0" in shown and "word: OBABO" in shown  # what the words leave unsaid is there
    assert shown.splitlines()[-1].startswith("# results/runs/quartic-ggmc/")
    assert main(["--cfg", "job", "experiment=neal_rejection"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("; the first of 10 runs")
    assert not list(elsewhere.iterdir())


# ---- as a process


def start(*words):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "run.py"), *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.thorough
def test_a_mistake_does_not_wait_for_torch(elsewhere):
    begun = time.perf_counter()
    process = start("sampler=gmc", "lr=1")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and out == "" and err.count("\n") == 1
    script = "import sys, experiments.command_line as c; c.main(['lr=abc']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, timeout=60).returncode == 0
    assert time.perf_counter() - begun < 60 and not list(elsewhere.iterdir())


def test_a_line_is_one_write_for_a_log_may_be_shared_by_workers(monkeypatch):
    written = []
    monkeypatch.setattr(sys, "stdout", types.SimpleNamespace(write=written.append, flush=lambda: None))
    say("two words")
    assert "".join(written) == "two words\n" and written[0] == "two words\n"


@pytest.fixture
def terminal():
    """Processes that are started have SIGHUP's default, although these tests may run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_imports_ends_it_without_a_traceback(number, terminal):
    script = f"""
import runpy, signal, sys
class Interrupts:
    def find_spec(self, name, *_):
        if name == "hydra":
            signal.raise_signal({int(number)})
sys.meta_path.insert(0, Interrupts())
sys.argv = ["run.py", "lr=1e-4"]
runpy.run_path("run.py", run_name="__main__")
"""
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (75, "", "stopped\n")


@pytest.mark.slow
def test_a_terminal_that_is_closed_ends_no_run_under_nohup():
    words = replaced(TOY, cycles=4000, save_every=50)
    process = subprocess.Popen(["nohup", sys.executable, ROOT / "run.py", *words], stdout=subprocess.DEVNULL)
    deadline = time.time() + 60
    while not Path("run/checkpoint-0.pt").exists() and time.time() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGHUP)
    assert process.wait(120) == 0 and json.loads(Path("run/status.json").read_text())["state"] == "done"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
def test_a_schedulers_signal_leaves_a_checkpoint_and_status_75(number, terminal):
    # compile=auto would compile a million cycles and not a few: equal to rounding alone
    long = [*replaced(TOY, cycles=1_000_000, save_every=50, log_every=10), "compile=false"]
    process = start(*long)
    deadline = time.time() + 60
    while not Path("run/checkpoint-0.pt").exists() and time.time() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    assert "interrupted after" in out
    cycles = json.loads(Path("run/status.json").read_text())["cycles"]
    goal = str(cycles + 20)
    assert main(replaced(long, cycles=goal)) == 0
    assert main(replaced(long, cycles=goal, output="at_once")) == 0
    assert bool((sgmcmc.load_samples("run") == sgmcmc.load_samples("at_once")).all())
