"""How exact log MH is on networks: what rounding adds to it, on a small MLP and a small FRN ResNet of the digits."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from unittest.mock import patch

import torch
from torch import Tensor

from sgmcmc import flows, models
from sgmcmc.compiled import Normals, Segments
from sgmcmc.data import Dataset, load
from sgmcmc.errors import DataError, SettingError
from sgmcmc.inductor import CannotCompile
from sgmcmc.kernel import Friction, make_kernel
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.precision import full_precision, products_in
from sgmcmc.random import Random
from sgmcmc.trajectory import run_trajectory, start

NETWORKS = {
    "mlp": {"name": "mlp", "hidden": (32,)},
    "frn resnet": {"name": "resnet20", "depth": 8, "width": 4},
}
LR, DECAY, BATCH, TRAJECTORIES = 0.001, 0.98, 100, 3


@dataclass
class Budget:
    """Errors of log MH at T = 1, the largest of three trajectories of an epoch; TF32 is None without CUDA."""

    network: str
    dim: int
    log_mh: float  # a typical |log MH|, for scale
    kinetic_sum: float  # Σ ΔK as it is summed, against the same momenta in float64
    forward: float  # U(θ_L) − U(θ_0) of the float32 network, against float64
    data_order: float  # the same with the data in another order and other evaluation batches
    tf32: float | None  # the same with TF32 products, which the exact U does not use
    compiled: float | None  # log MH of the compiled trajectories against these; None without a compiler


class Kinetic:
    """Stands in for ``flows.kinetic_change`` and sums the same momenta's ΔK in float64 beside it."""

    def __init__(self):
        self.change, self.sum = flows.kinetic_change, 0.0

    def __call__(self, before: Tensor, after: Tensor, inverse_mass) -> Tensor:
        a, b = before.double(), after.double()
        self.sum += float((0.5 * (b - a) * inverse_mass * (b + a)).sum())
        return self.change(before, after, inverse_mass)


def _shuffled(data: Dataset) -> Dataset:
    order = Random(1).permutation("split", 1, 1, len(data))[0]
    return replace(data, inputs=data.inputs[order], targets=data.targets[order])


def budget(network: str, device: str = "cpu") -> Budget:
    """Measure one network; raises DataError where the digits cannot be had.

    Gradients, too, are float32 without TF32, which would make more of the compiled ones' rounding than compiling does.
    """
    data = load("digits", download=False).train
    torch.manual_seed(0)
    model = models.build(data=data, **NETWORKS[network])
    target = NetworkPotential(copy.deepcopy(model), data, "cin", device=device)
    precise = NetworkPotential(copy.deepcopy(model), data, "cin", device=device, dtype=torch.float64)
    other = NetworkPotential(copy.deepcopy(model), _shuffled(data), "cin", device=device, evaluation_batch=77)
    h = (LR / len(data)) ** 0.5
    friction = Friction.of(h, momentum_decay=DECAY)
    steps = len(data) // BATCH
    kernel = make_kernel("ggmc", target, h, steps=steps, friction=friction, batch_size=BATCH, minibatches="shuffled")
    random = Random(0, device)
    state = start(kernel, target, target.initial(1, random), random, range(1))
    fast = NetworkPotential(copy.deepcopy(model), data, "cin", device=device)
    normals, move = Normals(random), Segments()
    try:
        move.prepare(kernel, fast, torch.float32, normals)
        fast.compile_layers(BATCH)
    except CannotCompile:
        move = None
    names = ("log_mh", "kinetic_sum", "forward", "data_order", "tf32", "compiled")
    errors: dict[str, list[float]] = {name: [] for name in names}
    for index in range(TRAJECTORIES):
        with patch.object(flows, "kinetic_change", Kinetic()) as kinetic, full_precision():
            end, record = run_trajectory(kernel, target, state, random, index, range(1))
        delta = float(record.delta_potential)
        errors["log_mh"].append(float(record.log_accept))
        errors["kinetic_sum"].append(float(record.delta_kinetic) - kinetic.sum)
        ends = (state.theta, end.theta)
        begin, stop = (float(precise.potential(theta.double())) for theta in ends)
        errors["forward"].append(delta - (stop - begin))
        begin, stop = (float(other.potential(theta)) for theta in ends)
        errors["data_order"].append(delta - (stop - begin))
        if torch.device(device).type == "cuda":
            begin, stop = (_with_tf32(target, theta) for theta in ends)
            errors["tf32"].append(delta - (stop - begin))
        if move:
            # As in a run, both ends' U are evaluated alike.
            begun = replace(state, potential=fast.potential(state.theta))
            with full_precision():
                _, again = run_trajectory(kernel, fast, begun, normals, index, range(1), segment=move)
            errors["compiled"].append(float(again.log_accept - record.log_accept))
        state = end
    worst = {key: max(map(abs, values)) if values else None for key, values in errors.items()}
    return Budget(network, target.dim, **worst)


def _with_tf32(target: NetworkPotential, theta: Tensor) -> float:
    """U with the gradients' products in TF32: ``estimate`` from the batch of all data uses the process' settings."""
    with products_in("tf32"):
        return float(target.estimate(theta, torch.arange(target.data_size, device=theta.device)[None]))


def budgets() -> list[Budget] | str:
    """Of every network, on a GPU where there is one; or one sentence that says why not."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        return [budget(network, device) for network in NETWORKS]
    except (DataError, SettingError) as error:
        return f"not measured: {error}"


LEGEND = """\
kinetic sum  the sum of dK as it is summed, less that of the same momenta in float64
float32 U    U(end) - U(start), less that of the network in float64
data order   U(end) - U(start), less that of the data in another order and in other evaluation batches
TF32         U(end) - U(start), less that of products in TF32, which the exact U does not use
compiled     log MH of compiled trajectories, less that of eager ones. Where rounding puts an activation on the other
             side of a ReLU's kink, they part, and log MH is that of their own ends: a figure far above the others."""


def page(measured: list[Budget] | str) -> list[str]:
    """The budget in lines of text."""
    if isinstance(measured, str):
        return [f"Error budget of log MH on networks: {measured}"]
    lines = [
        "Error budget of log MH on networks (digits, float32, T = 1;"
        f" the largest of {TRAJECTORIES} trajectories of an epoch)",
        "",
        f"{'network':<12}{'parameters':>11}{'|log MH|':>11}{'kinetic sum':>13}"
        f"{'float32 U':>11}{'data order':>12}{'TF32':>10}{'compiled':>10}",
    ]
    for one in measured:
        tf32 = "no CUDA" if one.tf32 is None else f"{one.tf32:.1e}"
        compiled = "no" if one.compiled is None else f"{one.compiled:.1e}"
        lines.append(
            f"{one.network:<12}{one.dim:>11,}{one.log_mh:>11.2f}{one.kinetic_sum:>13.1e}{one.forward:>11.1e}"
            f"{one.data_order:>12.1e}{tf32:>10}{compiled:>10}"
        )
    return [*lines, *LEGEND.split("\n")]
