"""What the tests of the engine share: targets with exact draws, scripted random numbers, identities of exact chains.

A statistical test here starts many independent chains at exact draws of its target, so it needs no burn-in and its
standard errors are those of independent numbers. A z-score of means over 10^5 chains passes ``LIMIT`` by chance
with probability 4e-8, and no test makes more than 250 comparisons: false alarms stay below 1e-5 a test. Seeds are
fixed only so that a failure can be looked at; any other would do.
"""

from __future__ import annotations

import functools
import gc
import math
import os
import pickle
import sys
import tempfile
import threading
import traceback
from ast import literal_eval
from pathlib import Path
from subprocess import PIPE, CompletedProcess, Popen
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from sgmcmc.errors import SettingError
from sgmcmc.kernel import Kernel
from sgmcmc.potentials.analytic import Quartic
from sgmcmc.random import Random
from sgmcmc.trajectory import State, run_trajectory, start

os.environ["MPLBACKEND"] = "Agg"  # no windows on a desktop
torch.set_num_threads(1)  # these tensors are small: threads would cost more than they give

LIMIT = 5.5
CHAINS = 100_000

# Thousands of runs need not wait for the disk: no test cuts the power but those that keep account of it themselves.
os.fsync = lambda file: None


def pytest_collection_modifyitems(items):
    """Files with slow tests first: what is left at the end, for one worker of two, is quick."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish():
    """What has been imported by now stays: the garbage collector need not go through it again and again."""
    if sys.modules.get("omegaconf"):  # which a machine that runs the GPU's tests may not have
        parse_once(sys.modules["omegaconf"].OmegaConf)
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    """At the end all is freed: a library that was left out would be told of as leaking."""
    gc.unfreeze()


# ---- the files of conf/, which Hydra reads anew for each configuration


CONF = os.path.join(Path(__file__).resolve().parents[1], "conf", "")


def parse_once(omegaconf):
    """``OmegaConf.load``, a new object each time, but for the parsing of a file of conf/ that has not changed since."""
    load = omegaconf.load

    @functools.cache
    def parsed(path: str, changed: int, size: int) -> bytes:
        return pickle.dumps(load(path))

    def load_once(file):
        path = os.path.abspath(file if isinstance(file, str | Path) else str(getattr(file, "name", "")))
        if not path.startswith(CONF):
            return load(file)
        found = os.stat(path)
        return pickle.loads(parsed(path, found.st_mtime_ns, found.st_size))

    omegaconf.load = staticmethod(load_once)


# ---- kernels for a GPU, where there is none


class Interpreter:
    """A process that runs checks of a module in Triton's interpreter: Triton asks when it is imported whether it is to
    interpret."""

    def __init__(self, module: str):
        tests = Path(__file__).parent
        script = f"""
import sys, traceback, torch, {module} as tests
tests.convolution.on_device = lambda x: True
for line in sys.stdin:
    check, torch.backends.cudnn.conv.fp32_precision = line.split()
    try:
        getattr(tests, check)()
        print(flush=True)
    except Exception:
        print(repr(traceback.format_exc()), flush=True)
"""
        paths = os.pathsep.join([str(tests), str(tests.parent)])
        environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": paths}
        command = [sys.executable, "-W", "ignore", "-c", script]
        self.process = Popen(command, env=environment, stdin=PIPE, stdout=PIPE, text=True)

    def run(self, check, precision: str) -> None:
        """A check, by the way that products are to be computed; fails as it does, or after five minutes."""
        late = threading.Timer(300, self.process.kill)
        late.start()
        try:
            print(check.__name__, precision, file=self.process.stdin, flush=True)
            said = self.process.stdout.readline()
        finally:
            late.cancel()
        assert said == "\n", literal_eval(said) if said else f"it ended with {self.process.wait()}"


@pytest.fixture(scope="module")
def interpreter(request):
    """Of the module that asks for it, which has imported ``convolution``."""
    interpreter = Interpreter(request.module.__name__)
    yield interpreter
    interpreter.process.communicate()


# ---- command lines


def forked(main, *words: str, folder: Path) -> CompletedProcess:
    """How a command ends that is ``words`` and whose program is ``main``, in a process of its own in that folder."""
    return Fork(main, *words, folder=folder).wait()


class Fork:
    """Such a command under way: a fork of this process, which has imported what takes a process of its own seconds."""

    def __init__(self, main, *words: str, folder: Path):
        sys.stdout.flush()
        sys.stderr.flush()
        self.words, self.files = words, [tempfile.TemporaryFile("w+") for _ in range(2)]
        self.pid = os.fork()
        if not self.pid:
            _be(main, words, folder, *self.files)

    def wait(self) -> CompletedProcess:
        """How it ends, once."""
        code, said = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), []
        for file in self.files:
            with file:
                file.seek(0)
                said.append(file.read())
        return CompletedProcess(self.words, code, *said)


def _be(main, words, folder, out, err):
    code = 1
    try:
        os.chdir(folder)
        for number, file in enumerate((out, err), 1):
            os.dup2(file.fileno(), number)
        sys.argv, sys.stdout, sys.stderr = list(words), out, err
        code = main() or 0
    except SystemExit as left:
        code = left.code or 0
        if not isinstance(code, int):
            print(code, file=err)
            code = 1
    except BaseException:
        traceback.print_exc()
    finally:
        out.flush()
        err.flush()
        os._exit(code)


# ---- the picture that a run leaves


@pytest.fixture(scope="module")
def pictures():
    """What runs' pictures have shown: one takes longer than most chains here, and is drawn of what no other run's has
    shown; else the last one that was drawn stands in for it."""
    from experiments import picture, run

    shown, real, last = set(), picture.draw, []

    def draw(path, title, acceptance, every):
        new = set() if picture.draw is not real else kinds(path, title, acceptance, every)
        if last and new and new <= shown:
            (path / picture.NAME).write_bytes(last[0])
            return path / picture.NAME
        drawn = picture.draw(path, title, acceptance, every)  # or what a test has in its place
        shown.update(new)
        last[:] = [drawn.read_bytes()] if new else last
        return drawn

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "picture", SimpleNamespace(draw=draw, NAME=picture.NAME))
        yield shown


def kinds(path: Path, title: str, acceptance: str, every: int) -> set:
    """What a run's picture depends on but for the numbers themselves."""
    import numpy as np
    import pandas as pd

    columns = ["potential", "potential_per_datum", "delta_potential", "delta_kinetic", "accept_prob"]
    rows = pd.read_csv(path / "metrics.csv")
    finite = np.isfinite(rows[columns].to_numpy(float))
    data = (rows.potential.dropna() != rows.potential_per_datum.dropna()).any()
    found = [acceptance, ("every", every > 1), ("few", len(rows) < 8), ("data", data)]
    found += [sign for sign in title if sign == "$" or not sign.isascii()]
    return {*found, *zip(columns, finite.any(0), finite.all(0), strict=True)}


# ---- targets


class FourParts(Quartic):
    """U = x⁴/4 + x³/3 + x²/2 in every coordinate, as a sum over four data that are unlike and not symmetric.

    A batch's estimates are (4/B) Σ_batch of the data's slopes and energies. ``exact`` draws are the quartic's.
    """

    data_size = 4
    quartics = torch.tensor([0.10, 0.50, 0.30, 0.10], dtype=torch.float64)
    cubics = torch.tensor([1.50, -0.90, 0.10, 0.30], dtype=torch.float64)
    squares = torch.tensor([0.20, -0.30, 0.90, 0.20], dtype=torch.float64)
    linears = torch.tensor([0.60, 0.20, -1.00, 0.20], dtype=torch.float64)

    def gradient(self, theta: Tensor, batch: Tensor | None = None) -> Tensor:
        if batch is None:
            return self._slope(theta)
        quartic, cubic, square, linear = self._of(theta, batch)
        return 4 * (((quartic * theta + cubic) * theta + square) * theta + linear)

    def estimate(self, theta: Tensor, batch: Tensor) -> Tensor:
        quartic, cubic, square, linear = self._of(theta.double(), batch)
        return 4 * (theta * (linear + theta * (square / 2 + theta * (cubic / 3 + theta * quartic / 4)))).sum(-1)

    def _of(self, theta, batch):
        parts = (self.quartics, self.cubics, self.squares, self.linears)
        return [part.to(theta)[batch].mean(1, keepdim=True) for part in parts]


# ---- random numbers that a test chooses


class Scripted(Random):
    """Random numbers from tables; what has no table comes from ``seed`` as ever.

    ``noise`` ``[draws, chains, dim]`` are the normals of the trajectory (0: its refresh); ``points`` ``[points,
    chains, …]`` the gradient noises or the minibatches; ``decision`` the uniform of the decision: 0 accepts, infinity
    rejects; ``backwards`` the way of a trajectory whose direction is random.
    """

    def __init__(self, seed=0, noise=None, points=None, decision=None, backwards=None):
        super().__init__(seed)
        self.noise, self.points, self.decision, self.backwards = noise, points, decision, backwards

    def normal(self, stream, trajectory, steps, chains, dim, dtype=torch.float32):
        table = {"noise": self.noise, "minibatch": self.points}.get(stream)
        if table is None:
            return super().normal(stream, trajectory, steps, chains, dim, dtype)
        return table[steps.start : steps.stop, chains].to(dtype)

    def integers(self, stream, trajectory, steps, chains, size, high):
        if stream == "minibatch" and self.points is not None:
            return self.points[steps.start : steps.stop, chains]
        return super().integers(stream, trajectory, steps, chains, size, high)

    def uniform(self, stream, trajectory, chains, size=1, step=0):
        if stream == "decision" and trajectory > 0 and self.decision is not None:
            return torch.full((len(chains), size), self.decision, dtype=torch.float64)
        if stream == "direction" and self.backwards is not None:
            return torch.full((len(chains), size), 0.25 if self.backwards else 0.75, dtype=torch.float64)
        return super().uniform(stream, trajectory, chains, size, step)


# ---- the identities of an exact chain


def exact_state(kernel: Kernel, target, random: Random, chains: int, dtype=torch.float64) -> State:
    """Chains at independent draws of the kernel's target."""
    theta = target.exact(chains, random, kernel.temperature).to(dtype)
    return start(kernel, target, theta, random, range(chains))


def z_score(values: Tensor) -> float:
    """The mean of independent values in units of its standard error; of a constant that is not 0, infinite."""
    mean, error = float(values.mean()), float(values.std()) / math.sqrt(len(values))
    return mean / error if error else math.copysign(math.inf, mean) if mean else 0.0


def moments(state: State, kernel: Kernel) -> dict[str, Tensor]:
    """f(θ, m), each the mean over coordinates, ``[chains]`` float64; m in units of √M."""
    theta, m = state.theta.double(), state.momentum.double() / kernel.mass**0.5
    values = {"θ": theta, "θ²": theta**2, "θ³": theta**3, "m": m, "m²": m**2, "θm": theta * m}
    return {name: value.mean(-1) for name, value in values.items()}


def both_outcomes(kernel: Kernel, target, state: State, seed: int, index: int, dtype=torch.float64):
    """(accepted state, rejected state, record) of one and the same proposal."""
    chains = range(len(state.theta))
    accepted, record = run_trajectory(kernel, target, state, Scripted(seed, decision=0.0), index, chains)
    rejected, _ = run_trajectory(kernel, target, state, Scripted(seed, decision=math.inf), index, chains)
    return accepted, rejected, record


def one_decision(kernel: Kernel, target, *, chains=CHAINS, seed=1, before=0) -> tuple[dict[str, float], float]:
    """z-scores of the identities of one trajectory from exact draws, and the mean acceptance.

    ``E[p s] = 0`` and ``E[p (f(end) − f(θ_0, −m_0))] = 0`` with p = min(1, MH), s the sign of log MH and (θ_0,
    −m_0) what a rejection leaves. ``before`` trajectories with their decisions come first.
    """
    random = Random(seed)
    state = exact_state(kernel, target, random, chains)
    for index in range(before):
        state, _ = run_trajectory(kernel, target, state, random, index, range(chains))
    end, back, record = both_outcomes(kernel, target, state, seed, before)
    p = record.accept_prob
    scores = {"sign": z_score(p * record.log_accept.sign())}
    after, origin = moments(end, kernel), moments(back, kernel)
    scores |= {name: z_score(p * (after[name] - origin[name])) for name in after}
    return scores, float(p.mean())


def invariance(kernel: Kernel, target, *, chains=CHAINS, seed=1, decisions=20) -> tuple[dict[str, float], float]:
    """z-scores of moments after so many decisions from exact draws, against those that the chains began with."""
    random = Random(seed)
    state = exact_state(kernel, target, random, chains)
    begun, accepted = moments(state, kernel), 0.0
    begun["θ⁴"] = (state.theta**4).mean(-1)
    for index in range(decisions):
        state, record = run_trajectory(kernel, target, state, random, index, range(chains))
        accepted += float(record.accept_prob.mean()) / decisions
    ended = moments(state, kernel)
    ended["θ⁴"] = (state.theta**4).mean(-1)
    scores = {name: z_score(ended[name] - begun[name]) for name in ended}
    if kernel.acceptance == "persistent_uniform":
        # |v| alone stays uniform when it is handled wrongly: its covariance with the rest does not stay 0.
        size = state.log_abs.exp() - 0.5
        scores |= {f"|v| {name}": z_score(size * (ended[name] - ended[name].mean())) for name in ("θ²", "m²")}
        scores["|v|"] = z_score(size)
    return scores, accepted


def worst(scores: dict[str, float]) -> float:
    return max(abs(score) for score in scores.values())


def refusal(call, error=SettingError) -> str:
    """What the call is refused with; empty where it is not."""
    try:
        call()
    except error as refused:
        return str(refused)
    return ""
