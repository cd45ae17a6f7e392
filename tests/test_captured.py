"""Steps replayed as graphs: to the bit what they are without, whatever the lengths, step sizes and interruptions.

Where there is no GPU a ``Recording`` stands in for the CUDA graph: it remembers the operations that a function does on
tensors, down to those of backward, and replays them on the same memory, with every Python number as it was.
"""

import gc
import json
import math
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from test_chain import Memory, leave, same_rows, same_state
from test_compiled import F64, NETWORKS, compose, same, small
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from experiments.build import build
from experiments.run import run as execute
from sgmcmc import captured, certificate_networks, residual
from sgmcmc.captured import Captured
from sgmcmc.chain import DONE, INTERRUPTED, run
from sgmcmc.compiled import Normals, Segments
from sgmcmc.data import Dataset
from sgmcmc.errors import SettingError
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.models import ResNet
from sgmcmc.plan import Plan
from sgmcmc.potentials.analytic import Quartic
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.random import Random
from sgmcmc.schedules import Schedule
from sgmcmc.trajectory import run_trajectory, start
from sgmcmc.trajectory import walk as eager_walk

gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


class Recording(TorchDispatchMode):
    """The operations of a function on given tensors, and what they wrote; called, it does them again."""

    made: list = []

    def __init__(self, function, inputs):
        super().__init__()
        self.operations, self.replays = [], 0
        with self:
            self.outputs = function(*inputs)
        Recording.made.append(self)

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        result = operation(*arguments, **(options or {}))
        self.operations.append((operation, arguments, options or {}, result))
        return result

    @torch.no_grad()
    def __call__(self):
        self.replays += 1
        for operation, arguments, options, result in self.operations:
            again = operation(*arguments, **options)
            for one, other in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if isinstance(one, Tensor) and one.data_ptr() != other.data_ptr():
                    one.copy_(other)


@pytest.fixture
def recordings(monkeypatch):
    """Recordings in the place of CUDA graphs; those that were made."""

    def record(function, inputs):
        made = Recording(function, inputs)
        return made, made.outputs

    monkeypatch.setattr(captured, "cuda_graph", record)
    monkeypatch.setattr(Recording, "made", [])
    return Recording.made


def trajectory(target, kernel, state, random, index, **ways):
    return run_trajectory(kernel, target, state, random, index, range(3, 4), **ways)


@pytest.mark.thorough
@pytest.mark.parametrize("case", NETWORKS)
def test_a_replayed_trajectory_is_the_eager_one_to_the_bit(case, recordings, monkeypatch):
    """Of every kind of step, with lengths that no graph's divides, in whole trajectories one after another."""
    monkeypatch.setattr(Captured, "at_once", 3)
    sampler, settings = NETWORKS[case]
    eager, replayed = small(), small()
    if settings.get("mass"):
        settings = settings | {"mass": torch.linspace(0.5, 2, eager.dim, dtype=F64)}
    kernel = make_kernel(sampler, eager, 0.05, **({"steps": 10, "batch_size": 10, "dtype": F64} | settings))
    random, walk = Random(4), Captured(pytest.fail)
    state = start(kernel, eager, eager.initial(range(3, 4), random), random, range(3, 4))
    kept = []
    for index in range(5):
        expected, record = trajectory(eager, kernel, state, random, index)
        new, again = trajectory(replayed, kernel, state, random, index, walk=walk)
        kept.append((new, expected))
        same(again, record, close=0)
        state = replace(expected, gradient=state.gradient if expected.gradient is None else expected.gradient)
    for new, expected in kept:  # what came out earlier was not written over
        same(new, expected, close=0)
    assert recordings and sum(one.replays for one in recordings) > 4
    made = len(recordings)
    # Another step size, seed and friction are other inputs of the same graphs.
    changed, other = replace(kernel, step_size=0.02, friction=Friction("beta", 0.3)), Random(5)
    expected, record = trajectory(eager, changed, state, other, 6)
    new, again = trajectory(replayed, changed, state, other, 6, walk=walk)
    same(new, expected, close=0)
    same(again, record, close=0)
    assert len(recordings) == made
    if "mass" not in settings:  # a number is no input, but a graph's own
        heavy = replace(kernel, mass=2.0)
        expected, _ = trajectory(eager, heavy, state, random, 7)
        same(trajectory(replayed, heavy, state, random, 7, walk=walk)[0], expected, close=0)
    assert case == "sghmc" or float(record.delta_kinetic.abs()) > 1e-4  # the letter E has no energy


def test_a_sequence_is_captured_when_it_comes_again_and_a_rest_is_not(recordings, monkeypatch):
    """31 gradients, eight at once: whole eights are one graph, the first and the last stretch are others."""
    target = small()
    kernel = make_kernel("ggmc", target, 0.05, steps=30, batch_size=10, dtype=F64)
    random, walk = Random(4), Captured(pytest.fail)
    state = start(kernel, target, target.initial(range(3, 4), random), random, range(3, 4))
    for index, graphs, replays in ((0, 1, 1), (1, 3, 5), (2, 3, 9)):
        trajectory(target, kernel, state, random, index, walk=walk)
        assert (len(recordings), sum(one.replays for one in recordings)) == (graphs, replays)
    # One that is looked at goes from gradient to gradient, with numbers as if nobody looked.
    seen, expected = [], []
    for ways, points in (({"walk": walk}, seen), ({}, expected)):
        observe = lambda point, *what, points=points: points.append((point, *what))  # noqa: E731
        trajectory(target, kernel, state, random, 3, observe=observe, **ways)
    assert len(seen) == len(expected) == 31
    for one, other in zip(seen, expected, strict=True):
        assert one[0] == other[0] and all(torch.equal(*pair) for pair in zip(one[1:], other[1:], strict=True))
    assert len(recordings) == 4


@pytest.mark.parametrize("case", ["ggmc", pytest.param("cosine at random", marks=pytest.mark.slow)])
def test_compiled_segments_are_replayed_too(case, recordings, monkeypatch):
    """A compiled segment is one opaque call here, as it is one launch there; its numbers are those of eager steps."""
    monkeypatch.setattr(Captured, "at_once", 2)
    sampler, settings = NETWORKS[case]
    eager, compiled = small(), small()
    kernel = make_kernel(sampler, eager, 0.05, **({"steps": 6, "batch_size": 10, "dtype": F64} | settings))
    random = Random(4)
    normals, move, walk = Normals(random), Segments(), Captured(pytest.fail)
    move.prepare(kernel, compiled, F64, normals)
    graphs = dict(move._graphs)
    state = start(kernel, eager, eager.initial(range(3, 4), random), random, range(3, 4))
    monkeypatch.setattr(captured, "cuda_graph", again_and_again)
    for index in range(4):
        expected, record = trajectory(eager, kernel, state, random, index)
        new, again = trajectory(compiled, kernel, state, normals, index, segment=move, walk=walk)
        same(new, expected)
        same(again, record)
    assert move._graphs == graphs  # the letters' numbers as tensors are inputs like any
    assert any(walk._graphs.values())


def again_and_again(function, inputs):
    """A graph that calls the function again: compiled code makes no operations that could be recorded."""
    outputs = function(*inputs)

    def replay():
        for own, new in zip(outputs, function(*inputs), strict=True):
            own.copy_(new)

    return replay, outputs


@pytest.mark.parametrize("name", ["shuffled and traced", "exact ends", "random direction", "full refresh"])
def test_a_replayed_run_is_left_and_gone_on_with_to_the_bit(name, recordings, monkeypatch):
    """With and without graphs, in any order: what is replayed is what is computed."""
    monkeypatch.setattr(Captured, "at_once", 2)
    whole, broken = Memory(), Memory()
    _, evaluations = leave(name, whole)
    stops = 0
    for at in range(3, evaluations, 4):
        stopped, _ = leave(name, broken, at=at if stops else 3, graph=bool(stops % 2 == 0))
        stops += stopped.status == INTERRUPTED
        if stopped.status != INTERRUPTED:
            break
    result, _ = leave(name, broken, graph=True)
    assert stops >= 2 and result.captured and recordings
    assert all(torch.equal(*pair) for pair in zip(whole.draws, broken.draws, strict=True))
    same_rows(whole.rows, broken.rows)
    same_rows(whole.trace, broken.trace)
    same_state(whole.state, broken.state)


def test_between_two_walks_a_place_is_kept_that_no_later_step_touches(recordings, monkeypatch):
    from sgmcmc.trajectory import UnderWay

    monkeypatch.setattr(Captured, "at_once", 2)
    target = small()
    kernel = make_kernel("ggmc", target, 0.05, steps=12, batch_size=10, dtype=F64)
    random, walk = Random(4), Captured(pytest.fail)
    state = start(kernel, target, target.initial(range(3, 4), random), random, range(3, 4))
    trajectory(target, kernel, state, random, 0, walk=walk)
    expected, record = trajectory(target, kernel, state, random, 1)
    places, copies = [], []
    under_way = UnderWay()

    def reached():
        places.append(replace(under_way.places[0]))
        copies.append([value.clone() for value in vars(places[-1]).values() if isinstance(value, Tensor)])

    under_way.reached = reached
    trajectory(target, kernel, state, random, 1, under_way=under_way, walk=walk)
    assert [place.point for place in places] == [2, 4, 6, 8, 10, 12, 13]
    for place, copy in zip(places, copies, strict=True):
        now = [value for value in vars(place).values() if isinstance(value, Tensor)]
        assert all(torch.equal(*pair) for pair in zip(now, copy, strict=True))
        if place.point in (4, 10):  # from there on another process comes to the same end
            new, again = trajectory(target, kernel, state, random, 1, under_way=UnderWay([place]), walk=walk)
            same(new, expected, close=0)
            same(again, record, close=0)


class Looking(NetworkPotential):
    """A gradient that cannot be captured, as the error that CUDA raises says."""

    def gradient(self, theta, batch=None):
        if captured_now[0]:
            raise RuntimeError("operation not permitted when stream is capturing\nand more of it")
        return super().gradient(theta, batch)


captured_now = [False]


def test_what_cannot_be_captured_runs_as_it_is_and_says_so(monkeypatch):
    def fails(function, inputs):
        captured_now[0] = True
        try:
            return None, function(*inputs)
        finally:
            captured_now[0] = False

    monkeypatch.setattr(captured, "cuda_graph", fails)
    data = Dataset(Random(1).normal("split", 0, 1, 12, 3, F64)[0], torch.arange(12) % 3 % 2, 2)
    target = Looking(torch.nn.Linear(3, 2), data, dtype=F64)
    kernel, said = make_kernel("ggmc", target, 0.1, steps=20, batch_size=3, dtype=F64), []
    random, walk = Random(4), Captured(said.append)
    state = start(kernel, target, target.initial(1, random), random, range(3, 4))
    for index in range(3):
        new, _ = trajectory(target, kernel, state, random, index, walk=walk)
        expected, _ = trajectory(target, kernel, state, random, index)
        same(new, expected, close=0)
    assert said == ["the run's steps are not captured: operation not permitted when stream is capturing"]
    assert walk.failed


class Scaled(torch.nn.Linear):
    """Logits times a number that is no tensor."""

    scale = 1.0

    def forward(self, x):
        return super().forward(x) * self.scale


@pytest.mark.parametrize("changed", [False, True])
def test_a_replay_that_is_not_what_the_steps_are_is_seen_and_left(changed, recordings):
    """Its first other inputs tell; those that come later are replayed without a look."""
    data = Dataset(Random(1).normal("split", 0, 1, 12, 3, F64)[0], torch.arange(12) % 3 % 2, 2)
    target = NetworkPotential(Scaled(3, 2), data, dtype=F64)
    kernel, said = make_kernel("ggmc", target, 0.1, steps=50, batch_size=3, dtype=F64), []
    random, walk = Random(4), Captured(said.append)
    state, calls = start(kernel, target, target.initial(1, random), random, range(3, 4)), iter(range(1, 100))

    def function(*given):  # eight gradients each, of which the second to the sixth are alike
        target.model.scale = 1.5 if changed and next(calls) > 3 else 1.0
        return walk(*given)

    function.at_once = walk.at_once
    new, _ = trajectory(target, kernel, state, random, 0, walk=function)
    why = "a replay gives other numbers than the steps themselves"
    assert said == [f"the run's steps are not captured: {why}"] * changed and walk.failed is changed
    (recording,) = recordings
    assert recording.replays == (2 if changed else 4)
    calls, walk = iter(range(1, 100)), eager_walk  # as it would have been without
    expected, _ = trajectory(target, kernel, state, random, 0, walk=function)
    same(new, expected, close=0)


def test_of_steps_that_are_not_finite_nothing_is_known_of_a_replay(recordings):
    """A chain that diverges tells nothing: the next one's steps are looked at."""
    data = Dataset(Random(1).normal("split", 0, 1, 12, 3, F64)[0], torch.arange(12) % 3 % 2, 2)
    target = NetworkPotential(Scaled(3, 2), data, dtype=F64)
    kernel, said = make_kernel("ggmc", target, 0.1, steps=15, batch_size=3, dtype=F64), []
    random, walk = Random(4), Captured(said.append)
    state = start(kernel, target, target.initial(1, random), random, range(3, 4))
    for index, factor in enumerate((1, 1, math.nan)):  # evaluated, captured, looked at
        trajectory(target, kernel, replace(state, theta=state.theta * factor), random, index, walk=walk)
    assert not said and recordings
    target.model.scale = 1.5
    trajectory(target, kernel, state, random, 3, walk=walk)
    assert said == ["the run's steps are not captured: a replay gives other numbers than the steps themselves"]


def test_where_steps_are_captured_and_where_one_sentence_says_why_not():
    cuda, cpu, network = torch.device("cuda"), torch.device("cpu"), small()
    minibatches = make_kernel("ggmc", network, 0.1, steps=3, batch_size=10)
    full = make_kernel("ggmc", network, 0.1, steps=3, gradient="full")
    toy = make_kernel("ggmc", Quartic(2), 0.1, steps=3, gradient="minibatch")
    assert captured.why_not_captured(minibatches, network, cuda) is None
    assert "needs a CUDA device" in captured.why_not_captured(minibatches, network, cpu)
    assert "minibatch gradients alone" in captured.why_not_captured(full, network, cuda)
    assert "networks alone" in captured.why_not_captured(toy, Quartic(2), cuda)
    words = ["experiment=digits", "device=cpu"]
    assert build(compose(words)).plan.graph is False
    with pytest.raises(SettingError, match="^graph=true: a CUDA graph needs a CUDA device, and the run's is cpu; "):
        build(compose([*words, "graph=true"]))
    with pytest.raises(SettingError, match="^graph=maybe: must be auto, true or false"):
        compose([*words, "graph=maybe"])


@pytest.mark.thorough
def test_whether_steps_are_captured_is_recorded(tmp_path):
    words = ["experiment=digits", "scale=smoke", "device=cpu", "progress=false", f"output={tmp_path}/run"]
    assert execute(compose(words)) == 0
    assert json.loads((tmp_path / "run/status.json").read_text())["graph"] is False


class Device(TorchDispatchMode):
    """The device "meta" as if it were a GPU. It has no values, so what asks for one is an error by itself; ``met`` are
    the operations of a graph that would wait for the host, or read what a replay does not renew."""

    def __init__(self):
        super().__init__()
        self.done, self.met = 0, []

    def __torch_dispatch__(self, operation, types, arguments=(), options=None):
        result = operation(*arguments, **(options or {}))
        self.done += 1
        tensors = [one for one in tree_leaves((arguments, options, result)) if isinstance(one, Tensor)]
        masks = [one for one in tree_leaves(arguments[1:]) if isinstance(one, Tensor) and one.dtype == torch.bool]
        if any(one.device.type != "meta" for one in tensors) or "index" in str(operation) and masks:
            self.met.append(str(operation))
        return result


def to_meta(target: NetworkPotential) -> NetworkPotential:
    """The target with all that it has on that device."""
    target.device, target.train = torch.device("meta"), target.train.to(torch.device("meta"))
    flat = target.flat
    names = ("std", "_frozen", "_precision", "_precision_cast")
    for one, name in (*((target, name) for name in names), (flat, "position"), (flat, "slope"), (flat, "resting")):
        if getattr(one, name) is not None:
            setattr(one, name, getattr(one, name).to("meta"))
    flat.device = target.device
    flat.model.to("meta")
    flat.parameters = [one for one in flat.model.parameters() if one.requires_grad]
    flat.take()
    return target


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("norm", "sampler", "settings"),
    [
        ("frn", "ggmc", {"ends": "exact"}),
        ("bn", "ggmc", {}),
        ("gn", "hmc", {"minibatches": "shuffled", "steps": 15}),
        ("frn", "sghmc", {}),
        ("frn", "amagold", {"friction": Friction("beta", 0.3)}),
        ("frn", "baoab", {"schedule": Schedule("palindromic_cosine")}),
        ("frn", "ovrvo", {"mass": 2.0}),
        ("frn", "ggmc", {"augmentation": "averaged", "ends": "exact"}),
        ("frn", "ggmc", {"augmentation": "random"}),
    ],
)
def test_nothing_that_is_captured_asks_the_host(norm, sampler, settings, monkeypatch):
    """Whatever the words, batches, views and norms."""
    pixels = Random(1).words("split", 0, 1, 200, 3 * 16 * 16)[0].view(200, 3, 16, 16).to(torch.uint8)
    half = torch.full((3,), 0.5, dtype=F64)
    data = Dataset(pixels, torch.arange(200) % 7 % 3, 3, half, half)
    settings = {"steps": 21, "batch_size": 25, "friction": Friction("gamma", 10.0), "acceptance": "monitor"} | settings
    views = {"augmentation": settings.pop("augmentation", "none"), "views": 4}
    target = NetworkPotential(ResNet(classes=3, width=4, depth=8, norm=norm), data, **views)
    kernel = make_kernel(sampler, target, 2e-3, **settings)
    monkeypatch.setattr(NetworkPotential, "potential", lambda self, theta: still(self, theta)[0])
    monkeypatch.setattr(NetworkPotential, "potential_and_gradient", still)
    graphs = []

    def capture(function, inputs):
        with Device() as graph:
            outputs = function(*inputs)
        graphs.append(graph)
        return lambda: None, outputs

    monkeypatch.setattr(captured, "cuda_graph", capture)
    for look in ("_close", "_finite"):
        monkeypatch.setattr(captured, look, lambda *_: True)  # there are no numbers
    random, walk = Random(4, "meta"), Captured(pytest.fail)
    state = start(kernel, to_meta(target), torch.zeros(1, target.dim, device="meta"), random, range(1))
    for index in range(3):
        state, _ = run_trajectory(kernel, target, state, random, index, range(1), walk=walk)
    assert graphs and all(graph.done > 100 for graph in graphs)
    assert [graph.met for graph in graphs] == [[]] * len(graphs)


class Failing:
    """A CUDA graph whose capture has failed, as PyTorch's before 2.12 does: its end raises."""

    def capture_end(self):
        raise RuntimeError("operation failed due to a previous error during capture")


def test_a_capture_that_failed_gives_its_memory_back(monkeypatch):
    """Else no later graph is captured in the process. One that ends well has done so itself."""
    given = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
        monkeypatch.setattr(torch._C, name, lambda *what, name=name: given.append((name, *what)), raising=False)
    captured._leave(Failing(), (0, 7))
    assert given == [("_cuda_endAllocateToPool", 1, (0, 7)), ("_cuda_releasePool", 1, (0, 7))]
    captured._leave(SimpleNamespace(capture_end=lambda: None), (0, 8))
    assert len(given) == 2


class Stream:
    def wait_stream(self, other):
        pass


@pytest.mark.thorough
@pytest.mark.parametrize("fails", ["the function", "the end", "both"])
def test_whatever_fails_of_a_capture_its_memory_is_given_back(fails, monkeypatch):
    """What failed first is what is raised; a module may leave work on a stream of its own, which the end refuses."""
    given, calls = [], []

    class Graph:
        def capture_begin(self, pool):
            calls.append("begun")

        def capture_end(self):
            if fails != "the function":
                raise RuntimeError("unjoined work")
            calls.append("ended")

    def function(one):
        if "begun" in calls and fails != "the end":
            raise ValueError("not in a capture")
        return (one + 1,)

    for name, fake in {
        "device": lambda device: nullcontext(),
        "stream": lambda stream: nullcontext(),
        "Stream": Stream,
        "current_stream": Stream,
        "CUDAGraph": Graph,
        "graph_pool_handle": lambda: (0, 7),
        "synchronize": lambda: None,
        "empty_cache": lambda: None,
        "current_device": lambda: 1,
    }.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
        monkeypatch.setattr(torch._C, name, lambda *what, name=name: given.append((name, *what)), raising=False)
    with pytest.raises(RuntimeError if fails == "the end" else ValueError, match="unjoined|not in a capture"):
        captured.cuda_graph(function, [torch.zeros(1)])
    back = [("_cuda_endAllocateToPool", 1, (0, 7)), ("_cuda_releasePool", 1, (0, 7))]
    assert given == (back if fails != "the function" else []) and gc.isenabled()
    assert ("ended" in calls) == (fails == "the function")


# ---- on a GPU


@pytest.fixture
def deterministic(monkeypatch):
    """Kernels that sum in the same order at every call."""
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)


def resnet(device, dtype, width=4, **settings):
    """A narrow ResNet on 200 images of noise, and GGMC's kernel with exact ends."""
    pixels = Random(1).words("split", 0, 1, 200, 3 * 16 * 16)[0].view(200, 3, 16, 16).to(torch.uint8)
    data = Dataset(
        pixels, torch.arange(200) % 7 % 3, 3, torch.full((3,), 0.5).double(), torch.full((3,), 0.25).double()
    )
    torch.manual_seed(0)
    target = NetworkPotential(ResNet(classes=3, width=width, depth=8), data, device=device, dtype=dtype, **settings)
    friction = Friction("gamma", 10.0)
    more = {"steps": 21, "batch_size": 25, "ends": "exact", "friction": friction, "dtype": dtype}
    acceptance = "monitor" if target.inexact else "metropolis"
    return target, make_kernel("ggmc", target, 2e-3, acceptance=acceptance, **more)


def several(device, dtype, walk=None, compiled=False, number=6, layers=False, **settings):
    """So many trajectories from one start, of a network that is compiled or of ``layers`` that alone are: the records
    of each, and the last state."""
    target, kernel = resnet(device, dtype, **settings)
    random, ways = Random(4, device), {}
    state = start(kernel, target, target.initial(1, Random(4)).to(device), random, range(1))
    if compiled:
        random, ways = Normals(random), {"segment": Segments()}
        ways["segment"].prepare(kernel, target, dtype, random)
    if compiled or layers:
        target.compile_layers(25)
    if walk:
        ways["walk"] = walk
    records = []
    for index in range(number):
        state, record = run_trajectory(kernel, target, state, random, index, range(1), **ways)
        records.append(record)
    return records, state


def run_of(cycles, store, device, compile=False):
    """A run of ``resnet``, begun or gone on with from what the store has."""
    target, kernel = resnet(device, torch.float32)
    plan, random = Plan(cycles, keep="all", save_every=1, graph=True, compile=compile), Random(4, device)
    return run(kernel, target, plan, random, 1, lambda: target.initial(1, Random(4)).to(device), None, store)


@pytest.mark.thorough
@pytest.mark.parametrize("compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_run_that_a_gpu_goes_on_with_is_replayed_here(recordings, compile):
    whole, parts = Memory(), Memory()
    first = run_of(2, whole, "cpu", compile)
    assert first.captured and first.compiled is compile and recordings
    assert run_of(1, parts, "cpu", compile).status == run_of(2, parts, "cpu", compile).status == DONE
    assert all(torch.equal(*pair) for pair in zip(whole.draws, parts.draws, strict=True))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [F64, torch.float32])
class TestOnAGPU:
    pytestmark = [*gpu, pytest.mark.usefixtures("deterministic")]

    def test_a_graph_is_the_eager_run_to_rounding(self, dtype, compiled):
        walk = Captured(pytest.fail)
        found, end = several("cuda", dtype, walk, compiled)
        expected, last = several("cuda", dtype, None, compiled and dtype != F64)  # in float64 compiling rounds no worse
        assert any(walk._graphs.values())
        close = 1e-10 if dtype == F64 else 1e-4
        assert [bool(one.accepted) for one in found] == [bool(one.accepted) for one in expected]
        assert torch.allclose(end.theta, last.theta, close, close)
        for one, other in zip(found, expected, strict=True):
            scale = 1e-10 if dtype == F64 else 1e-3 * max(1.0, float(other.delta_kinetic.abs()))
            assert float((one.log_accept - other.log_accept).abs()) < scale


class TestLayersOnAGPU:
    pytestmark = [*gpu, pytest.mark.usefixtures("deterministic")]

    def test_layers_that_are_one_kernel_are_replayed_to_the_bit(self, monkeypatch):
        """Those of ``sgmcmc.residual``, whose gradients by the weights are made on a stream beside: again and again."""
        went, real = [], residual._AtOnce.apply
        monkeypatch.setattr(residual._AtOnce, "apply", lambda *given: went.append(1) or real(*given))
        monkeypatch.setattr(torch.backends.cudnn.conv, "fp32_precision", "tf32")
        walk = Captured(pytest.fail)
        found, end = several("cuda", torch.float32, walk, layers=True, width=16, number=20)
        assert went and any(walk._graphs.values())
        expected, last = several("cuda", torch.float32, layers=True, width=16, number=20)
        assert torch.equal(end.theta, last.theta) and torch.equal(end.momentum, last.momentum)
        assert all(torch.equal(one.log_accept, other.log_accept) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("augmentation", ["none", "averaged", "random"])
class TestOnAGPUWithViews:
    pytestmark = gpu

    def test_a_graph_draws_its_views_anew(self, augmentation):
        found, end = several("cuda", F64, Captured(pytest.fail), augmentation=augmentation, views=4)
        expected, last = several("cuda", F64, augmentation=augmentation, views=4)
        assert torch.allclose(end.theta, last.theta, 1e-10, 1e-10)


class TestDevices:
    pytestmark = gpu

    def test_log_mh_of_a_trajectory_is_the_cpu_s(self):
        found, _ = several("cuda", F64, Captured(pytest.fail), number=3)
        expected, _ = several("cpu", F64, number=3)
        for one, other in zip(found, expected, strict=True):
            assert float(one.log_accept) == pytest.approx(float(other.log_accept), abs=1e-8)

    def test_nothing_waits_for_the_device_inside_a_trajectory(self, monkeypatch):
        """Between its first gradient and its last: U of all data, at the ends, is asked for as a number."""
        target, kernel = resnet("cuda", torch.float32)
        random, walk = Random(4, "cuda"), Captured(pytest.fail)
        state = start(kernel, target, target.initial(1, Random(4)).cuda(), random, range(1))
        for index in range(3):
            run_trajectory(kernel, target, state, random, index, range(1), walk=walk)
        monkeypatch.setattr(NetworkPotential, "potential_and_gradient", still)
        try:
            torch.cuda.set_sync_debug_mode("error")
            run_trajectory(kernel, target, state, random, 3, range(1), walk=walk)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    @pytest.mark.parametrize("compile", [False, True])
    def test_a_run_is_gone_on_with_to_the_bit(self, deterministic, compile):
        """What comes again is replayed in the one and, behind a start, not yet in the other."""
        whole, parts = Memory(), Memory()
        assert run_of(4, whole, "cuda", compile).captured
        for cycles in (1, 2, 4):
            assert run_of(cycles, parts, "cuda", compile).status == DONE
        assert len(whole.draws) == 4 and all(torch.equal(*pair) for pair in zip(whole.draws, parts.draws, strict=True))
        same_state(whole.state, parts.state)

    def test_what_a_run_was_captured_and_summed_with_is_recorded(self, tmp_path):
        words = ["experiment=digits", "scale=smoke", "device=cuda", "progress=false", f"output={tmp_path}/run"]
        assert execute(compose(words)) == 0
        status = json.loads((tmp_path / "run/status.json").read_text())
        assert status["graph"] is True and status["environments"][0]["deterministic"] is True

    def test_the_certificate_s_lines_of_networks(self):
        for network in certificate_networks.NETWORKS:
            budget = certificate_networks.budget(network, "cuda")
            assert budget.kinetic_sum < 1e-3 and budget.forward < 1e-2 and budget.data_order < 1e-2
            assert budget.tf32 is not None and budget.compiled is not None
            # A ReLU's kink may take the compiled ResNet's trajectories elsewhere: see the page.
            assert network != "mlp" or budget.compiled < 1e-2


def still(self, theta):
    """U and gradient that take no time and no number."""
    return torch.zeros(1, dtype=F64, device=theta.device), torch.zeros_like(theta)
