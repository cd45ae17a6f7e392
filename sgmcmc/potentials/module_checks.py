"""What a module must be for its posterior to be sampled: logits that are a fixed function of the datum and of the
weights, with a gradient by all that they depend on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from sgmcmc.environment import of_the_machine
from sgmcmc.errors import SettingError, few
from sgmcmc.precision import full_precision

if TYPE_CHECKING:
    from sgmcmc.potentials.flat import FlatModule


def close(logits: Tensor, others: Tensor) -> bool:
    """Whether logits are the same, to rounding; of such as are not finite, nothing is known."""
    known, slack = bool(others.isfinite().all()), 1e-3 * float(others.abs().max())
    return not known or torch.allclose(logits, others, rtol=1e-3, atol=slack)


def close_slopes(slopes: Sequence[Tensor], others: Sequence[Tensor], exact: Sequence[Tensor]) -> bool:
    """Whether gradients, one for each parameter tensor, may be the same in other arithmetic: each off by at most a
    half, where it is next to nothing by a hundredth of all, and by four times what the others are off the ``exact``
    ones, those in full precision.

    In TF32 gradients of 125 data by a network of 20 layers are some hundredths off, of a few data .2, for relus switch;
    by one of 56 layers, or in bf16, by as much as they are. What is computed wrongly is off by more. Of such as are not
    finite, nothing is known.
    """
    known = all(bool(one.isfinite().all()) for one in (*others, *exact))
    slack = 0.01 * sum(float(other.square().sum()) for other in others) ** 0.5

    def limit(other: Tensor, true: Tensor) -> float:
        return 0.5 * float(other.norm()) + slack + 4 * float((other - true).norm())

    each = zip(slopes, others, exact, strict=True)
    return not known or all(float((one - other).norm()) <= limit(other, true) for one, other, true in each)


def check_outputs(name: str, outputs, number: int, classes: int) -> None:
    """What a module gave for a number of data are logits of these classes."""
    if not isinstance(outputs, Tensor) or outputs.shape != (number, classes):
        shape = list(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise SettingError("model", name, f"must give logits {[number, classes]}, gave {shape}")
    if bool((outputs >= 0).all()) and torch.allclose(outputs.sum(-1), torch.ones_like(outputs[:, 0]), atol=1e-5):
        raise SettingError("model", name, "gives probabilities, which sum to 1: leave the softmax out")


def check_real(name: str, model: nn.Module) -> None:
    """No parameter or buffer is complex: cast to the module's dtype it would lose its imaginary part."""
    for key, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.is_complex():
            mend = "hold its real and its imaginary part, of which torch.complex makes it"
            raise SettingError("model", name, f"has the complex tensor {key}: {mend}")


def check_statistics(name: str, model: nn.Module) -> None:
    """No layer goes by what it remembers of inputs or weights that it was once trained with: no θ changes that. (Batch
    normalisation's is collected.)"""
    for module in model.modules():
        if isinstance(module, nn.modules.instancenorm._InstanceNorm) and module.track_running_stats:
            mend = "has instance normalisation with track_running_stats=True, by images of its training: leave that out"
            raise SettingError("model", name, mend)
        hooks = module._forward_pre_hooks.values()
        if any(type(one).__name__ in ("_SpectralNorm", "SpectralNorm") for one in (module, *hooks)):
            mend = "has spectral normalisation, by an estimate of its training: it is no fixed function of the weights"
            raise SettingError("model", name, mend)


@torch.no_grad()
def check_each(module: FlatModule, some: Tensor, weights: Tensor) -> None:
    """At these weights ``[dim]`` a datum has the same logits alone as beside another one, and again."""
    module.load(weights)
    try:
        with full_precision():  # in TF32 a batch of one may be another kernel's
            both = module.logits(some).clone()  # of a module that keeps what it gave
            before = random_state(some.device)
            alone = [module.logits(one).clone() for one in some.split(1)]
            drawn = not torch.equal(random_state(some.device), before)
    except (RuntimeError, ValueError, TypeError) as error:
        if of_the_machine(error):
            raise
        why = f"does not take one datum by itself: {error}"
        if "storage_offset" in str(error):  # of a parameter that begins at an odd place of the vector
            why = f"cannot view its parameters as complex ({error}): make torch.complex(w[..., 0], w[..., 1]) of them"
        raise SettingError("model", module.name, why) from error
    finally:
        module.position.copy_(module.resting)
    for one, beside in zip(alone, both.split(1), strict=True):
        if one.shape != beside.shape:
            need = f"must give logits {list(beside.shape)} of one datum, gave {list(one.shape)}"
            raise SettingError("model", module.name, need)
        if not close(one, beside):
            mend = "gives a datum other logits alone than beside another one, or when it is asked again: they must"
            raise SettingError("model", module.name, f"{mend} be a fixed function of the datum and of the weights")
    if drawn:
        said = f"{module.name} draws random numbers where its logits are computed: if they change them"
        warnings.warn(f"{said}, U is no fixed function of the weights", stacklevel=4)  # one of them no_grad's


def random_state(device: torch.device) -> Tensor:
    """The state of torch's own random numbers there."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def check_gradients(module: FlatModule, some: Tensor, many: Callable[[], Tensor], weights: Tensor) -> None:
    """What the logits depend on at these weights has a gradient: without, a chain that is not corrected would sample
    another law. And what has one is a parameter, for nothing else is sampled. What some data do not ask for, an expert
    among others, ``many`` may."""
    module.load(weights)
    try:
        with torch.enable_grad():
            # Asked twice: a leaf that the module makes anew each time, such as its inputs', is no weight.
            logits, leaves, slopes = module.logits(some), {}, [None] * len(module.parameters)
            if logits.requires_grad:
                leaves = _leaves(logits)
                slopes = torch.autograd.grad(logits.sum(), module.parameters, allow_unused=True)
                logits = module.logits(some)
                _check_registered(module, [leaf for key, leaf in _leaves(logits).items() if key in leaves])
                _check_again(module, logits)
        unused = []
        for key, parameter, slope in zip(module.names, module.parameters, slopes, strict=True):
            if slope is not None:
                if slope.layout != torch.strided:
                    raise SettingError("model", module.name, f"gives a sparse gradient of {key}: leave sparse=True out")
                continue
            if _depends(module, parameter, some):
                mend = f"gives no gradient of {key}, which its logits depend on (no_grad, detach): let it through,"
                raise SettingError("model", module.name, f"{mend} or freeze it (requires_grad_(False))")
            unused += [key] if parameter.numel() and not _depends(module, parameter, many()) else []
        if unused:
            said = f"the logits of {module.name} do not depend on {few(unused, 3)}, of which draws have the prior's law"
            warnings.warn(f"{said}: if they should, use the parameters in forward, each time", stacklevel=3)
    finally:
        module.position.copy_(module.resting)


@torch.no_grad()
def _depends(module: FlatModule, parameter: Tensor, inputs: Tensor) -> bool:
    """Whether the logits are others with other values of the parameter, which it has from then on."""
    logits = module.logits(inputs).clone()  # of a module that keeps what it gave
    parameter.mul_(1.5).add_(0.5)
    return not close(module.logits(inputs), logits)


def _leaves(tensor: Tensor) -> dict[int, Tensor]:
    """The tensors, by their ids, that the graph of autograd behind this one ends in."""
    nodes, seen, found = [tensor.grad_fn], set(), {}
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found[id(node.variable)] = node.variable
        nodes += [before for before, _ in node.next_functions]
    return found


def _check_registered(module: FlatModule, leaves: list[Tensor]) -> None:
    for leaf in leaves:
        if not any(leaf is parameter for parameter in module.parameters):
            what = f"depends on a tensor {list(leaf.shape)} that requires a gradient and is none of its parameters"
            mend = "make it one (nn.Parameter, layers in an nn.ModuleList), or freeze it (requires_grad_(False))"
            raise SettingError("model", module.name, f"{what}: {mend}")


def _check_again(module: FlatModule, logits: Tensor) -> None:
    """A second gradient can be taken: the module does not go by what it once computed of its parameters."""
    try:
        torch.autograd.grad(logits.sum(), module.parameters, allow_unused=True)
    except RuntimeError as error:
        if "second time" not in str(error):
            raise
        mend = "keeps something that it computed of its parameters once: compute it in forward, each time"
        raise SettingError("model", module.name, mend) from error
