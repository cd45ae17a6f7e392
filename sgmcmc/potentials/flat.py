"""A module whose parameters are views of one flat vector, so that a step of a sampler is a few operations on it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import vmap
from torch.nn.parameter import is_lazy

from sgmcmc import convolution
from sgmcmc.environment import of_the_machine
from sgmcmc.errors import SettingError, few
from sgmcmc.models.normalisation import FilterResponseNorm
from sgmcmc.potentials import module_checks

COMPILED = (FilterResponseNorm, convolution.Convolution)  # kinds of layers that may be
BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
SAMPLED: dict[int, int] = {}  # in which thread a module is sampled, both by their ids


def _take_pixels_first(model: nn.Module) -> None:
    """Let strided 1×1 convolutions of few channels take the pixels that they look at before, and have no stride.

    Of images that lie channels last, with fewer channels than a block of oneDNN's has (8, or 16), the backward pass of
    such a convolution writes beyond its memory (oneDNN 3.13, on processors with AVX2; uxlfoundation/oneDNN, issue
    6035): the process crashes, or the gradient is wrong. The outputs are the same.
    """
    for module in model.modules():
        if not isinstance(module, nn.Conv2d) or module.kernel_size != (1, 1) or module.stride == (1, 1):
            continue
        if module.in_channels // module.groups < 16 and module.padding in ((0, 0), "valid"):
            module.register_forward_pre_hook(partial(_pixels, *module.stride))
            module.stride = (1, 1)


def _pixels(down: int, right: int, _: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
    return (inputs[0][..., ::down, ::right],)


def _pad_as_trained(model: nn.Module) -> None:
    """Let encoders of transformers give at padded places what they give in training. Without gradients they would take
    nested tensors, and give zeros there, or leave them out: U would be another function than the one that its gradient
    is of, where a module looks there (``mean(1)``)."""
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False


def _check_thread(model: nn.Module) -> None:
    """Raise SettingError where another thread samples the module: its chain would go on with other weights."""
    thread = threading.get_ident()
    if SAMPLED.get(id(model), thread) != thread:
        mend = "is being sampled in another thread: ask a target with a module of its own, or wait"
        raise SettingError("model", type(model).__name__, mend)


def _train_recurrent(model: nn.Module) -> None:
    """Put recurrent layers in training mode, in which alone cuDNN gives their gradients, without their dropout."""
    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            module.train().dropout = 0.0


class FlatModule:
    """A classifier whose trainable parameters are views of ``position``, and their gradients of ``slope``, ``[dim]``.

    ``model`` maps inputs ``[B, …]`` to logits ``[B, classes]``; it is taken over: moved to ``device`` and ``dtype``,
    dropout switched off, batch normalisation by the batch's statistics. Parameters that do not require a gradient keep
    the values that they have now. ``some`` inputs give lazy layers their shapes.

    In the vector the parameters lie one after another, kernels of convolutions in channels-last order, as images do
    then, so that no step has to reorder them; where the module does not take such, as torch has them. ``resting`` is
    the vector that the module was given with.

    Raises SettingError where the module does not take the inputs, gives no logits, or has nothing to sample.
    """

    def __init__(self, model: nn.Module, classes: int, some: Tensor, device: torch.device, dtype: torch.dtype):
        _check_thread(model)
        self.name = type(model).__name__
        module_checks.check_real(self.name, model)
        self.model, self.device, self.dtype = model.to(device, dtype).eval(), device, dtype
        self._layers = [module for module in model.modules() if isinstance(module, COMPILED)]
        self._compiled: set[nn.Module] = set()  # those of them that are, for this target
        self.sizes: set[int] = set()  # of batches that they are compiled for
        self._mark()
        if device.type == "cpu":
            _take_pixels_first(model)
        _pad_as_trained(model)
        if any(map(is_lazy, (*model.parameters(), *model.buffers()))):
            self._try(some)
        module_checks.check_statistics(self.name, model)
        self.batch_norms = [module for module in model.modules() if isinstance(module, BATCH_NORMS)]
        if any(norm.running_mean is None for norm in self.batch_norms):
            mend = "has batch normalisation with track_running_stats=False, which cannot predict: leave that out"
            raise SettingError("model", self.name, mend)
        for norm in self.batch_norms:
            norm.train().track_running_stats = False
        module_checks.check_outputs(self.name, self._try(some), len(some), classes)

        self.names, self.parameters = [], []
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self.names.append(name)
                self.parameters.append(parameter)
        # The others' own values: as they are now, some may lie in the vector of another target of this module.
        others = [parameter for parameter in model.parameters() if not parameter.requires_grad]
        self._fixed = [(parameter, parameter.detach().clone()) for parameter in others]
        numbers = {id(parameter): number for number, parameter in enumerate(self.parameters)}
        self._slots = [  # (the dictionary of a module, the name in it, the number of the parameter)
            (module._parameters, key, numbers[id(parameter)])
            for module in model.modules()
            for key, parameter in module._parameters.items()
            if id(parameter) in numbers
        ]
        self._places = [slot for slot in self._slots if isinstance(slot[0], dict)]  # not those of scripted modules
        self.dim = sum(parameter.numel() for parameter in self.parameters)
        if not self.dim:
            raise SettingError("model", self.name, "has no parameters to sample")
        ends = torch.tensor([parameter.numel() for parameter in self.parameters]).cumsum(0).tolist()
        slices = map(slice, [0, *ends], ends)
        self.blocks = list(zip(self.names, slices, strict=False))  # (name, where it lies in the vector)
        images = some.ndim == 4 and any(parameter.ndim == 4 for parameter in model.parameters())
        self._lay(kernels_last=True, images_last=images)
        kernels = any(parameter.ndim == 4 for parameter in self.parameters)
        if (kernels or images) and not self._takes_channels_last(some):
            self._lay(kernels_last=False, images_last=False)
        self.resting = self.position.clone()

    @torch.no_grad()
    def _try(self, inputs: Tensor):
        """What the module makes of the inputs, or SettingError; an error of the machine's is raised as it is."""
        try:
            return self.model(inputs.clone())  # which it may write to, as ``logits`` has it
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
            if of_the_machine(error):
                raise
            why = f"does not take inputs of shape {list(inputs.shape)}: {error}".removesuffix(": ")
            if "indices" in str(error):  # an embedding's
                why += "; inputs go in as floats, of which x.long() makes indices"
            raise SettingError("model", self.name, why) from error

    # the vector

    def _lay(self, kernels_last: bool, images_last: bool) -> None:
        """Make the parameters views of one vector, and their gradients of another."""
        self._kernels_last, self.images_last = kernels_last, images_last
        self.position = torch.empty(self.dim, device=self.device, dtype=self.dtype)
        self.slope = torch.zeros_like(self.position)
        for parameter, value in zip(self.parameters, self.shaped(self.position), strict=True):
            value.copy_(parameter.detach())
        self.take()

    @torch.no_grad()
    def _takes_channels_last(self, some: Tensor) -> bool:
        """Whether the module takes images and kernels that lie channels last, which is faster: one with
        ``x.view(len(x), -1)`` after a convolution does not."""
        try:
            self.logits(some)
        except RuntimeError as error:
            if of_the_machine(error):  # on which a chain's layout must not depend
                raise
            return False
        return True

    def shaped(self, flat: Tensor) -> list[Tensor]:
        """The parts of flat vectors ``[…, dim]`` in the shapes of the parameters ``[…, *shape]``."""
        parts = []
        for parameter, (_, where) in zip(self.parameters, self.blocks, strict=True):
            shape, part = parameter.shape, flat[..., where]
            if len(shape) == 4 and self._kernels_last:
                parts.append(part.unflatten(-1, (shape[0], shape[2], shape[3], shape[1])).movedim(-1, -3))
            else:
                parts.append(part.view((*flat.shape[:-1], *shape)))
        return parts

    def spread(self, values: Iterable[float]) -> Tensor:
        """A float64 ``[dim]`` with one value for each parameter tensor."""
        sizes = torch.tensor([parameter.numel() for parameter in self.parameters], device=self.device)
        return torch.tensor(list(values), dtype=torch.float64, device=self.device).repeat_interleave(sizes)

    def from_state_dict(self, state: dict[str, Tensor]) -> Tensor:
        """The vector of a state dict's parameters; SettingError where one is missing or has another shape."""
        flat = torch.empty_like(self.position)
        for name, part in zip(self.names, self.shaped(flat), strict=True):
            shape = list(part.shape)
            if name not in state or list(state[name].shape) != shape:
                found = list(state[name].shape) if name in state else "missing"
                has = f", which has {few([*state], 3)}" if state and name not in state else ""
                raise SettingError("init", name, f"is {shape} in the model, and {found} in the state dict{has}")
            part.copy_(state[name])
        return flat

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of the module's state at the loaded vector, in their usual order in memory."""
        return {
            name: value.clone(memory_format=torch.contiguous_format) if isinstance(value, Tensor) else value
            for name, value in self.model.state_dict().items()
        }

    # the module, which others may have, too

    def load(self, flat: Tensor) -> None:
        """Give the module these weights ``[dim]``."""
        self.hold()
        self.position.copy_(flat)
        torch.clear_autocast_cache()  # of the weights that were there before

    def add(self, slopes: Sequence[Tensor]) -> None:
        """Add the parameters' gradients to the slope, all at once: one by one is a tenth of a step on a GPU, and in one
        kernel, where they lie in a vector as their parameters do, faster again."""
        first, own = slopes[0], self._slopes
        begin, memory = first.storage_offset(), first.untyped_storage().data_ptr()
        if all(
            one.untyped_storage().data_ptr() == memory
            and one.storage_offset() - begin == part.storage_offset()
            and one.stride() == part.stride()
            for one, part in zip(reversed(slopes), reversed(own), strict=True)
        ):
            self.slope += first.as_strided((self.dim,), (1,))
        else:
            torch._foreach_add_(own, slopes)

    def hold(self) -> None:
        """Take the module again where another target or a training loop had it meanwhile.

        Raises SettingError where another thread samples it, whose chain would go on with other weights.
        """
        _check_thread(self.model)
        if self._is_lost():
            self.take()

    def take(self) -> None:
        """Give the module these parameters and gradients, and the modes in which its logits are one fixed function."""
        self.model.to(self.device, self.dtype).eval()
        if self.device.type == "cuda":
            _train_recurrent(self.model)
        self._mark()
        # Anew: a module that is moved to another dtype takes its gradients, these tensors, along.
        self._slopes = self.shaped(self.slope)
        self._values = [*zip(self.parameters, self.shaped(self.position), strict=True), *self._fixed]
        for parameters, key, number in self._places:  # where ``load_state_dict(assign=True)`` puts others
            parameters[key] = self.parameters[number].requires_grad_()
        for parameter, value in self._values:
            parameter.grad, parameter.data = None, value
        for parameter, slope in zip(self.parameters, self._slopes, strict=True):
            parameter.grad = slope
        for norm in self.batch_norms:
            norm.train().track_running_stats = False
        self._statistics_of = None  # the vector whose statistics the batch norms hold

    def _is_lost(self) -> bool:
        """Whether the module's logits would be those of weights that no θ changes, or random."""
        return (
            self.model.training
            or any(layer.compiled != (layer in self._compiled) for layer in self._layers)
            or not all(norm.training for norm in self.batch_norms)
            or any(slots.get(key) is not self.parameters[number] for slots, key, number in self._places)
            or any(parameter.data_ptr() != value.data_ptr() for parameter, value in self._values)
            or not all(one.requires_grad for one in self.parameters)
            or any(one.grad is not slope for one, slope in zip(self.parameters, self._slopes, strict=True))
        )

    # what the module gives

    def logits(self, inputs: Tensor) -> Tensor:
        """Logits ``[B, classes]`` of inputs ``[B, …]``, at the loaded vector. A module may write to what it is given
        (``x -= 1``, ``ReLU(inplace=True)``), so that it gets a copy: inputs may be the user's data."""
        number = len(inputs)
        larger = min((size for size in self.sizes if size >= number), default=number)
        if larger > number:  # another size would be another graph
            inputs = torch.cat((inputs, inputs[:1].expand(larger - number, *inputs.shape[1:])))
        layout = torch.channels_last if self.images_last else torch.contiguous_format
        return self.model(inputs.to(self.dtype, copy=True).contiguous(memory_format=layout))[:number]

    def logits_of_each(self, theta: Tensor, inputs: Tensor, own: bool) -> Tensor:
        """Logits ``[chains, B, classes]`` at each θ ``[chains, dim]`` of inputs ``[B, …]``, or of each chain's ``own``
        ``[chains, B, …]``. What a module writes to its weights (``Embedding(max_norm=1)``) is not written to θ."""

        def outputs(parts: list[Tensor], inputs: Tensor) -> Tensor:
            # As functional_call does, which leaves a module that is used twice with the tensors of another call.
            try:
                for parameters, key, number in self._slots:
                    parameters[key] = parts[number]
                return self.model(inputs)
            finally:
                for parameters, key, number in self._slots:
                    parameters[key] = self.parameters[number]

        parts = self.shaped(theta.to(self.position, copy=True))
        return vmap(outputs, in_dims=(0, 0 if own else None))(parts, inputs.to(self.dtype, copy=True))

    @contextmanager
    def predicting(self) -> Iterator[None]:
        """Batch normalisation by the statistics that were collected."""
        try:
            for norm in self.batch_norms:
                norm.eval()
            yield
        finally:
            for norm in self.batch_norms:
                norm.train()

    def collect_statistics(self, batches: Iterable[Tensor]) -> None:
        """Give the batch norms the mean statistics of the batches of inputs, unless they have them of this vector."""
        if not self.batch_norms or self._statistics_of is not None and torch.equal(self._statistics_of, self.position):
            return
        momenta = [norm.momentum for norm in self.batch_norms]
        for norm in self.batch_norms:
            norm.track_running_stats = True
            norm.reset_running_stats()
        for number, inputs in enumerate(batches, 1):
            for norm in self.batch_norms:
                norm.momentum = 1 / number  # the plain mean over batches; None would wait for the device each time
            self.logits(inputs)
        for norm, momentum in zip(self.batch_norms, momenta, strict=True):
            norm.track_running_stats, norm.momentum = False, momentum
        self._statistics_of = self.position.clone()

    # its layers

    def layers(self, kind: type[nn.Module]) -> list[nn.Module]:
        """Those of a kind that may be compiled."""
        return [layer for layer in self._layers if isinstance(layer, kind)]

    def compile(self, layers: Iterable[nn.Module], sizes: Iterable[int] = ()) -> None:
        """Let these layers be compiled when they are next called, for batches of these sizes, and the others eager."""
        self._compiled, self.sizes = set(layers), set(sizes)
        self._mark()

    def _mark(self) -> None:
        """Tell the layers which of them are compiled: another target of the module may have others."""
        for layer in self._layers:
            layer.compiled = layer in self._compiled

    @torch.no_grad()
    def shapes(self, modules: Iterable[nn.Module], inputs: Tensor) -> list[tuple[nn.Module, torch.Size]]:
        """These modules, as often as they are called, and the shape of what they give for a datum, where that is a
        tensor."""
        seen: list[tuple[nn.Module, torch.Size]] = []

        def look(module: nn.Module, _: tuple, result) -> None:
            if isinstance(result, Tensor):
                seen.append((module, result.shape[1:]))

        hooks = [module.register_forward_hook(look) for module in modules]
        try:
            if hooks:
                self.logits(inputs)
        finally:
            for hook in hooks:
                hook.remove()
        return seen
