"""The posterior of a network's weights on a data set that lies on the device.

    U(θ) = −Σ_i log p(y_i | x_i, θ) − log p(θ)

p(y | x, θ) is the softmax of the network's outputs, p(θ) a product of normals of mean 0, with its normaliser. With
frozen views (``augmentation="averaged"``) a datum's log likelihood is the mean over its K views.

θ is one flat vector and the module's parameters are views into it: a step of a sampler is a few operations on whole
vectors, and backward adds every parameter's gradient straight into one flat vector, which starts as the prior's.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from numbers import Real
from types import FunctionType

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import vmap
from torch.nn.parameter import is_lazy

from sgmcmc import convolution
from sgmcmc.arguments import find_device, float_type, whole
from sgmcmc.data import Dataset
from sgmcmc.data.augment import VIEWS, augment
from sgmcmc.errors import SettingError
from sgmcmc.models.normalisation import FilterResponseNorm
from sgmcmc.random import Random

PRIORS = ("cin", "fan_in", "unit")
AUGMENTATIONS = ("none", "averaged", "random")
COMPILED = (FilterResponseNorm, convolution.Convolution)  # kinds of layers that may be
BATCH_NORMS = (nn.modules.batchnorm._BatchNorm,)
NORMS = (FilterResponseNorm, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.modules.batchnorm._NormBase)
# Numbers of trajectories of the stream "augmentation" that no chain has: -1 draws the frozen views, those below it the
# random views that U is evaluated on.
_FROZEN_VIEWS = -1
_AT_ONCE = {"cpu": 3 << 17}  # input values evaluated at once, 128 CIFAR images: twice as many are slower already
_AT_ONCE_ELSEWHERE = 1 << 23


@contextmanager
def full_precision():
    """float32 products as float32: no TF32, no bf16, no autocast, whatever the process allows for gradients.

    bf16 products were measured to shift the U of a CIFAR-10 posterior by tens.
    """
    backends = torch.backends
    kinds = (backends.cudnn.conv, backends.cuda.matmul, backends.mkldnn.conv, backends.mkldnn.matmul)
    before = [kind.fp32_precision for kind in kinds]
    try:
        for kind in kinds:
            kind.fp32_precision = "ieee"
        with ExitStack() as stack:
            for device in filter(torch.is_autocast_enabled, ("cpu", "cuda")):
                stack.enter_context(torch.autocast(device, enabled=False))
            yield
    finally:
        for kind, precision in zip(kinds, before, strict=True):
            kind.fp32_precision = precision


def _of_norms(model: nn.Module) -> set[int]:
    """The scales, shifts and thresholds of normalisations (their ids)."""
    return {id(p) for module in model.modules() if isinstance(module, NORMS) for p in module.parameters()}


def prior_std(model: nn.Module, prior: str | float = "fan_in", flat_norms: bool = False) -> dict[str, float]:
    """The prior's standard deviation of each trainable parameter tensor, by name; infinite stands for a flat prior.

    ===========  ============================ ===========================================================
    prior        tensors of ≥ 2 dimensions    source
    ===========  ============================ ===========================================================
    ``cin``      √(2/c), c = size of dim 1    GGMC paper as run: variance not divided by the kernel's area
    ``fan_in``   √(2/fan in)                  He et al.: c times the kernel's area
    ``unit``     1                            Wenzel et al. ("gaussian")
    a number     √number, for every tensor    AMAGOLD's MLP: 2000
    ===========  ============================ ===========================================================

    Biases and the rest have 1. So have the scales, shifts and thresholds of normalisations: a proper prior on every
    parameter. ``flat_norms`` gives those a flat one instead, as in the GGMC paper's and Wenzel et al.'s runs; their
    U/N has no normaliser for them, and ⟨θ, ∇U⟩ no expectation there.
    """
    if isinstance(prior, str):
        if prior not in PRIORS:
            raise SettingError("model.prior", prior, f"must be one of {', '.join(PRIORS)}, or a variance")
    elif not (isinstance(prior, Real) and math.isfinite(prior) and prior > 0):
        raise SettingError("model.prior", prior, "a variance must be a positive number")
    norms = _of_norms(model)

    def std(parameter: Tensor) -> float:
        if flat_norms and id(parameter) in norms:
            return math.inf
        if not isinstance(prior, str):
            return math.sqrt(prior)
        if prior == "unit" or parameter.ndim < 2 or id(parameter) in norms:
            return 1.0
        return math.sqrt(2 / (parameter.shape[1] if prior == "cin" else parameter[0].numel()))

    return {name: std(parameter) for name, parameter in model.named_parameters() if parameter.requires_grad}


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


def _losses(logits: Tensor, targets: Tensor) -> Tensor:
    """−log p of labels ``[chains, B]`` by logits ``[chains, B, classes]``."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)


def _close(logits: Tensor, others: Tensor) -> bool:
    """Whether logits are the same, to rounding; of such as are not finite, nothing is known."""
    known, slack = bool(others.isfinite().all()), 1e-3 * float(others.abs().max())
    return not known or torch.allclose(logits, others, rtol=1e-3, atol=slack)


class NetworkPotential:
    """U of a classifier's weights; one chain at a time, θ is ``[1, dim]``, or ``together`` ``[chains, dim]``.

    ``model`` is any module from inputs ``[B, …]`` to logits ``[B, classes]``; it is taken over: moved to ``device``
    and ``dtype``, its parameters made views of one vector, dropout switched off; at each θ again, where another target
    or a training loop had it meanwhile. Parameters that do not require a gradient keep their values and are not part
    of θ. ``prior`` and ``flat_norms``: see ``prior_std``.

    ``train`` is moved to ``device``; ``test``, in no U, is what runs predict where their settings name no data, and is
    normalised as ``train`` is.
    θ holds the module's parameters one after another, kernels of convolutions with their channels last:
    ``state_dict(theta)`` has them by name and as torch has them. ``augmentation``:

    - ``none``: the images as they are;
    - ``averaged``: ``views`` of the 162 flips and crops of each image, drawn without replacement by ``seed``, frozen.
      A datum's log likelihood is their mean; a batch's index j is view j mod K of image j div K. More views
      contain the fewer: views=8 starts with the four of views=4;
    - ``random``: what the GGMC authors ran. A batch's index j is view j mod 162 of image j div 162, and U is
      evaluated on one random view an image, a function of (seed, ``counter``): the caller raises ``counter``
      between evaluations. U is then no fixed function of θ, and ``inexact`` says so.

    Batch normalisation uses the statistics of the batch in U and in the gradient alike (as run by the authors), so
    U depends on the split, and ``inexact`` says so; ``evaluation_batch`` fixes the split (then 125 by default). For
    ``predict`` the running statistics are those of the training images at that θ, never left over from before.

    U is summed in float64 from each datum's NLL; with float32 models those are float32 (no TF32, no bf16), and
    U(θ₂) − U(θ₁) of a ResNet-20 on 50,000 images is good to about 1e-3 where weights differ by .001, and to 5e-3
    where by .01; it is one fixed function all the same. Without batch normalisation it does not depend on
    ``evaluation_batch`` but for that rounding; use one value at both ends of a trajectory.
    Gradients use the process' settings (TF32 if allowed, autocast where it is on).

    ``together`` lets all chains of a run go in one tensor, by ``torch.func.vmap`` of the module: several times as fast
    for many chains of a small perceptron (8 or more of at most 10,000 weights), and slower for others. Numbers agree
    with those of single chains to rounding. U is then evaluated of so many fewer data at once.

    Raises SettingError for settings that cannot work, ValueError for a θ of another shape.
    """

    is_network = True

    def __init__(
        self,
        model: nn.Module,
        train: Dataset,
        prior: str | float = "fan_in",
        flat_norms: bool = False,
        augmentation: str = "none",
        views: int = 8,
        seed: int = 0,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        evaluation_batch: int | None = None,
        test: Dataset | None = None,
        together: bool = False,
    ):
        if not isinstance(model, nn.Module):
            given = model.__name__ if isinstance(model, type | FunctionType) else type(model).__name__
            raise SettingError("model", given, "must be a torch.nn.Module (of a class, an instance: Net())")
        for name, data, kinds in (("data", train, Dataset), ("test", test, Dataset | None)):
            if not isinstance(data, kinds):
                raise SettingError(name, type(data).__name__, "must be an sgmcmc.Dataset(inputs, targets, classes)")
        if augmentation not in AUGMENTATIONS:
            raise SettingError("augmentation", augmentation, f"must be one of {', '.join(AUGMENTATIONS)}")
        if augmentation != "none" and train.inputs.ndim != 4:
            raise SettingError("augmentation", augmentation, "needs images; must be none with these data")
        if augmentation == "averaged" and views not in range(1, VIEWS + 1):
            raise SettingError("views", views, f"must be a whole number from 1 to {VIEWS}")
        if evaluation_batch is not None:
            evaluation_batch = whole("evaluation_batch", evaluation_batch, 1)
        if train.mean is None and train.inputs.dtype == torch.uint8:
            warnings.warn("uint8 inputs go in as they are, from 0 to 255: give the Dataset mean and std", stacklevel=2)
        train.check_labels()
        if test is not None:
            if test.inputs.shape[1:] != train.inputs.shape[1:]:
                wanted = f"must be {list(train.inputs.shape[1:])}, as those of train"
                raise SettingError("inputs of test", list(test.inputs.shape[1:]), wanted)
            test = replace(test.like(train), classes=train.classes)
            test.check_labels()
        self.test = test
        self.device, self.dtype, self.seed = find_device(device), float_type(dtype), whole("seed", seed, 0)
        self.train = train.to(self.device)
        self.data_size = len(train)
        self.augmentation = augmentation
        self.views = {"none": 1, "averaged": int(views), "random": VIEWS}[augmentation]
        self.shown = self.data_size * (1 if augmentation == "random" else self.views)
        self.counter = 0
        self._frozen = self._freeze_views() if augmentation == "averaged" else None

        self.model = model.to(self.device, self.dtype).eval()
        self._layers = [module for module in model.modules() if isinstance(module, COMPILED)]
        self._compiled: set[nn.Module] = set()  # those of them that are, by this target
        self._mark()
        if self.device.type == "cpu":
            _take_pixels_first(model)
        if any(map(is_lazy, (*model.parameters(), *model.buffers()))):
            self._tried(self._first_two())  # gives them their shapes
        self._batch_norms = [module for module in model.modules() if isinstance(module, BATCH_NORMS)]
        if any(norm.running_mean is None for norm in self._batch_norms):
            mend = "has batch normalisation with track_running_stats=False, which cannot predict: leave that out"
            raise SettingError("model", type(model).__name__, mend)
        for norm in self._batch_norms:
            norm.train().track_running_stats = False
        self._split_is_free = evaluation_batch is None and not self._batch_norms
        self._sizes: set[int] = set()  # of batches that compiled layers are made for
        if evaluation_batch is None:
            at_once = _AT_ONCE.get(self.device.type, _AT_ONCE_ELSEWHERE)
            evaluation_batch = 125 if self._batch_norms else max(1, at_once // train.inputs[0].numel())
        self.evaluation_batch = self._own_batch = evaluation_batch
        self.inexact = self._why_inexact()
        self._check_outputs()

        self._names, self._parameters = [], []
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                self._names.append(name)
                self._parameters.append(parameter)
        # The others' own values: as they are now, some may lie in the vector of another target of this module.
        others = [parameter for parameter in self.model.parameters() if not parameter.requires_grad]
        self._fixed = [(parameter, parameter.detach().clone()) for parameter in others]
        numbers = {id(parameter): number for number, parameter in enumerate(self._parameters)}
        self._slots = [  # (the dictionary of a module, the name in it, the number of the parameter)
            (module._parameters, key, numbers[id(parameter)])
            for module in self.model.modules()
            for key, parameter in module._parameters.items()
            if id(parameter) in numbers
        ]
        self.dim = sum(p.numel() for p in self._parameters)
        if not self.dim:
            raise SettingError("model", type(model).__name__, "has no parameters to sample")
        ends = torch.tensor([p.numel() for p in self._parameters]).cumsum(0).tolist()
        slices = map(slice, [0, *ends], ends)
        self.blocks = list(zip(self._names, slices, strict=False))  # (name, where it lies in θ)
        self._lay_flat(kernels_last=True)
        if any(p.ndim == 4 for p in self._parameters) and not self._takes_channels_last():
            self._lay_flat(kernels_last=False)
        self._resting = self._position.clone()  # where start positions leave what they do not draw

        self.prior_said = prior
        stds = prior_std(self.model, prior, flat_norms)
        self.std = self._spread(stds[name] for name in self._names)  # float64 [dim]; infinite: flat
        proper = self.std.isfinite()
        self._precision = self.std.pow(-2)
        self._precision_cast = self._precision.to(self.dtype)
        self._normaliser = self.std[proper].log().sum().item() + 0.5 * math.log(2 * math.pi) * int(proper.sum())
        self._check_each()
        self._check_gradients()
        self.together = False
        if together:
            self.join_chains()

    # many chains at once

    def join_chains(self) -> None:
        """Let many chains go in one tensor from now on (``together``), ``chains_at_once`` of them.

        Raises SettingError where the module does not give each chain the logits and gradients that it has alone.
        """
        name = type(self.model).__name__
        self.uncompile_layers()
        if self.inexact:
            raise SettingError("together", True, f"needs a U that is a fixed function: {self.inexact}")
        noise = Random(0, self.device).normal("diagnostic", 0, 1, 3, self.dim, self.dtype)[0]
        theta = self.initial(3, Random(0)) + 0.1 * noise  # two chains have no coordinate alike
        index = torch.arange(12, device=self.device).view(3, 4) % (self.data_size * self.views)
        self.together = True
        try:
            self._width = self._widest()
            both = self._asked(theta, index)
            alone = [self._asked(one, some) for one, some in zip(theta.split(1), index.split(1), strict=True)]
            same = all(_close(one, torch.cat(parts)) for one, *parts in zip(both, *alone, strict=True))
            why = "" if same else "gives other numbers for many chains at once than for each alone"
        except Exception as error:
            said = str(error).strip().partition("\n")[0].partition(". ")[0]
            why = f"cannot be evaluated for many chains at once: {said}"
        finally:
            self._position.copy_(self._resting)
        if why:
            self.together = False
            raise SettingError("together", True, f"{name} {why}")

    def _asked(self, theta: Tensor, index: Tensor) -> tuple[Tensor, ...]:
        """What is asked of the module, of few data: logits of all chains' data, and gradients of all's and each's."""
        common = torch.arange(min(4, self.data_size), device=self.device)
        with full_precision():
            self._load(theta)
            with torch.no_grad():
                logits = self._outputs(theta, common)[0].clone()  # of a module that keeps what it gave
            return logits, self._estimated(theta, common), self._estimated(theta, index)

    def _widest(self) -> int:
        """The largest number of outputs that a module with parameters has for a datum."""
        layers = [module for module in self.model.modules() if module._parameters]
        return max((shape.numel() for _, shape in self._shapes(layers)), default=1)

    @property
    def chains_at_once(self) -> int:
        """How many chains go in one tensor at most: more are no faster, and need memory."""
        numbers = _AT_ONCE["cpu"] // (64 * max(self._width, self.train.inputs[0].numel()))
        return max(16, numbers)

    @property
    def capturable(self) -> bool:
        """Of single chains a minibatch's gradient is the same work on the device at every call."""
        return not self.together

    # the layers that are worth compiling

    @property
    def _responses(self) -> list[FilterResponseNorm]:
        return [layer for layer in self._layers if isinstance(layer, FilterResponseNorm)]

    @property
    def _convolutions(self) -> list[convolution.Convolution]:
        """Those that may be compiled: on a CUDA device, of a chain by itself."""
        may = self.device.type == "cuda" and convolution.triton is not None and not self.together
        return [layer for layer in self._layers if may and isinstance(layer, convolution.Convolution)]

    def compile_layers(self, batch_size: int | None = None, backward: bool = False) -> None:
        """Compile the filter response normalisations for batches of this size and for those of U (and, ``backward``, of
        its gradient), and on a CUDA device the convolutions.

        A graph is for one size of batch: those of U become as large as the minibatches, where that is no slower and no
        other size was asked for, and what is left over at the end of a sweep is filled up. Seconds for each shape
        of layer. Raises CannotCompile, and leaves the layers eager.
        """
        self.uncompile_layers()
        layers, before = {*self._responses, *self._convolutions}, self.evaluation_batch
        if not layers:
            return
        if self._responses and self._split_is_free:
            fits = batch_size and before // 4 <= batch_size <= before
            self.evaluation_batch = batch_size if fits else min(before, self.shown)
        if self._responses and not self._batch_norms:
            self._sizes = {batch_size or self.evaluation_batch, self.evaluation_batch}
        try:
            self._compiled = layers
            self._mark()
            index = torch.arange(batch_size or self.evaluation_batch, device=self.device) % self.data_size
            theta = self._resting[None]
            self.gradient(theta, index[None])
            with torch.set_grad_enabled(backward), full_precision():
                nll = self._nll(theta, index[:1].expand(self.evaluation_batch))
                if backward:
                    nll.sum().backward()  # what that adds to the slope no gradient starts with
        except BaseException:
            self.uncompile_layers()
            raise

    def uncompile_layers(self) -> None:
        """Evaluate all layers eagerly from now on, and U in the batches that were asked for at first."""
        self._compiled, self._sizes, self.evaluation_batch = set(), set(), self._own_batch
        self._mark()

    def _mark(self) -> None:
        """Tell the module's layers which of them are compiled: another target of it may have others."""
        for layer in self._layers:
            layer.compiled = layer in self._compiled

    def normalised(self) -> tuple[int, int]:
        """How many activations of a datum go through filter response normalisations, and how many shapes they have."""
        seen = [(shape, layer.tau is None) for layer, shape in self._shapes(self._responses)]
        return sum(shape.numel() for shape, _ in seen), len(set(seen))

    def _shapes(self, modules: list[nn.Module]) -> list[tuple[nn.Module, torch.Size]]:
        """These modules, as often as they are called, and the shape of what they give for a datum, where that is a
        tensor."""
        seen: list[tuple[nn.Module, torch.Size]] = []

        def look(module: nn.Module, _: tuple, result) -> None:
            if isinstance(result, Tensor):
                seen.append((module, result.shape[1:]))

        hooks = [module.register_forward_hook(look) for module in modules]
        try:
            with torch.no_grad():
                if hooks:
                    self._nll(self._resting[None], torch.arange(min(2, self.data_size), device=self.device))
        finally:
            for hook in hooks:
                hook.remove()
        return seen

    # θ and the module

    def _lay_flat(self, kernels_last: bool) -> None:
        """Make the parameters views of one vector, and their gradients of another.

        Kernels of convolutions lie there in channels-last order, as images do, so that no step has to reorder them.
        """
        images = self.train.inputs.ndim == 4 and any(p.ndim == 4 for p in self.model.parameters())
        self._kernels_last, self._channels_last = kernels_last, kernels_last and images
        self._position = torch.empty(self.dim, device=self.device, dtype=self.dtype)
        self._slope = torch.zeros_like(self._position)
        for parameter, value in zip(self._parameters, self._shaped(self._position), strict=True):
            value.copy_(parameter.detach())
        self._take()

    def _take(self) -> None:
        """Give the module these parameters and gradients, and the modes in which U is one fixed function."""
        self.model.to(self.device, self.dtype).eval()
        self._mark()
        # Anew: a module that is moved to another dtype takes its gradients, these tensors, along.
        self._slopes = self._shaped(self._slope)
        self._values = [*zip(self._parameters, self._shaped(self._position), strict=True), *self._fixed]
        for parameter, value in self._values:
            parameter.grad, parameter.data = None, value
        for parameter, slope in zip(self._parameters, self._slopes, strict=True):
            parameter.grad = slope
        for norm in self._batch_norms:
            norm.train().track_running_stats = False
        self._statistics_of = None  # the θ whose statistics the batch norms hold

    def _is_lost(self) -> bool:
        """Whether another target of the same module, or a training loop of somebody's, has taken it meanwhile: U would
        be that of weights that no θ changes, or random."""
        return (
            self.model.training
            or any(layer.compiled != (layer in self._compiled) for layer in self._layers)
            or not all(norm.training for norm in self._batch_norms)
            or any(parameter.data_ptr() != value.data_ptr() for parameter, value in self._values)
            or any(one.grad is not slope for one, slope in zip(self._parameters, self._slopes, strict=True))
        )

    @torch.no_grad()
    def _takes_channels_last(self) -> bool:
        """Whether the module takes images and kernels that lie channels last, which is faster: one with
        ``x.view(len(x), -1)`` after a convolution does not."""
        try:
            self._logits(self._first_two())
        except RuntimeError:
            return False
        return True

    def _shaped(self, flat: Tensor) -> list[Tensor]:
        """The parts of flat vectors ``[…, dim]`` in the shapes of the parameters ``[…, *shape]``."""
        parts = []
        for parameter, (_, where) in zip(self._parameters, self.blocks, strict=True):
            shape, part = parameter.shape, flat[..., where]
            if len(shape) == 4 and self._kernels_last:
                parts.append(part.unflatten(-1, (shape[0], shape[2], shape[3], shape[1])).movedim(-1, -3))
            else:
                parts.append(part.view((*flat.shape[:-1], *shape)))
        return parts

    def _spread(self, values) -> Tensor:
        """A float64 ``[dim]`` with one value for each parameter tensor."""
        sizes = torch.tensor([p.numel() for p in self._parameters], device=self.device)
        values = torch.tensor(list(values), dtype=torch.float64, device=self.device)
        return values.repeat_interleave(sizes)

    def _load(self, theta: Tensor) -> None:
        """Give the module the weights of a single chain; those of several go in with the inputs."""
        if theta.ndim != 2 or theta.shape[1] != self.dim or len(theta) != 1 and not self.together:
            takes = "[chains, " if self.together else "one chain at a time, [1, "
            raise ValueError(f"theta is {list(theta.shape)}: a network takes {takes}{self.dim}]")
        if self._is_lost():
            self._take()
        if len(theta) == 1:
            self._position.copy_(theta[0])
            torch.clear_autocast_cache()  # of the weights that were there before

    @torch.no_grad()
    def state_dict(self, theta: Tensor) -> dict[str, Tensor]:
        """The module's state dict at one θ, ``[1, dim]`` or ``[dim]``: copies, in their usual order in memory.

        Parameters that are not sampled and buffers are in it, too; of batch normalisation the statistics of the
        training images at that θ, as ``predict`` takes them. Raises ValueError for a θ of another shape.
        """
        theta = torch.as_tensor(theta)
        if theta.shape not in ((1, self.dim), (self.dim,)):
            raise ValueError(
                f"theta is {list(theta.shape)}: a state dict is of one draw, [{self.dim}], as draws[-1, 0]"
            )
        self._load(theta.reshape(1, self.dim))
        if self._batch_norms:
            with full_precision():
                self._collect_statistics()
        return {
            name: value.clone(memory_format=torch.contiguous_format) if isinstance(value, Tensor) else value
            for name, value in self.model.state_dict().items()
        }

    def from_state_dict(self, state: dict[str, Tensor]) -> Tensor:
        """The θ ``[1, dim]`` of a module's state dict; buffers in it are not looked at.

        Raises SettingError where a parameter is missing or has another shape.
        """
        theta = torch.empty(1, self.dim, dtype=self.dtype, device=self.device)
        for name, part in zip(self._names, self._shaped(theta[0]), strict=True):
            shape = list(part.shape)
            if name not in state or list(state[name].shape) != shape:
                found = list(state[name].shape) if name in state else "missing"
                has = f", which has {', '.join([*map(str, state)][:3])}, …" if name not in state else ""
                raise SettingError("init", name, f"is {shape} in the model, and {found} in the state dict{has}")
            part.copy_(state[name])
        return theta

    # where chains start

    def initial(self, chains: int | range, random: Random, how: str = "he") -> Tensor:
        """Where a network's training begins, ``[chains, dim]``: ``how`` is he or torch.

        - he: weights N(0, 2/fan in), biases uniform in ±1/√(their number) (GGMC paper as run; He et al., "Delving deep
          into rectifiers", ICCV 2015);
        - torch: weights, and the biases beside them, uniform in ±1/√(fan in), as PyTorch makes linear and convolution
          layers (AMAGOLD paper as run): a standard deviation √6 times smaller. A bias with no weight beside it is as
          at he; other layers of PyTorch's (embeddings, LSTM) have laws of their own, which this is not.

        Scales, shifts and thresholds of normalisations, and what is neither weight nor bias, start as the module was
        given (1, 0, 0).

        Raises SettingError for any other ``how``.
        """
        if how not in ("he", "torch"):
            raise SettingError("init", how, "a network's training begins at he or torch")
        norms, named = _of_norms(self.model), list(zip(self._names, self._parameters, strict=True))
        weights = {name: part[0].numel() for name, part in named if part.ndim > 1 and id(part) not in norms}  # fan in
        layers = [(getattr(one, "weight", None), getattr(one, "bias", None)) for one in self.model.modules()]
        beside = {
            id(bias): weight[0].numel() for weight, bias in layers if isinstance(weight, Tensor) and weight.ndim > 1
        }
        normal, uniform = [], []
        for name, part in named:
            bias = part.ndim == 1 and name.rpartition(".")[2] == "bias" and id(part) not in norms
            fan = weights.get(name) or (len(part) if bias else 0)
            if bias and how == "torch":
                fan = beside.get(id(part), fan)
            of_normal = name in weights and how == "he"
            normal.append(math.sqrt(2 / fan) if of_normal else 0.0)
            uniform.append(fan**-0.5 if fan and not of_normal else 0.0)
        normal, uniform = self._spread(normal), self._spread(uniform)
        noise = self._start_noise(chains, random)
        drawn = normal * noise + uniform * (2 * torch.special.ndtr(noise) - 1)
        return torch.where((normal > 0) | (uniform > 0), drawn, self._resting.double()).to(self.dtype)

    def _start_noise(self, chains: int | range, random: Random) -> Tensor:
        return random.normal("start", 0, 1, chains, self.dim, torch.float64)[0].to(self.device)

    # data

    def _freeze_views(self) -> Tensor:
        """Which views each image has, uint8 ``[N, K]``: the first K of a permutation of the 162."""
        random, table = Random(self.seed), []
        for start in range(0, self.data_size, 4096):
            images = range(start, min(start + 4096, self.data_size))
            order = random.permutation("augmentation", _FROZEN_VIEWS, images, VIEWS)
            table.append(order[:, : self.views].to(torch.uint8))
        return torch.cat(table).to(self.device)

    def _nll(self, theta: Tensor, index: Tensor) -> Tensor:
        """−log p(y | x, θ) ``[chains, B]`` of the (image, view) indices, as ``_outputs`` has them."""
        return _losses(*self._outputs(theta, index))

    def _outputs(self, theta: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Logits ``[chains, B, classes]`` and labels ``[chains, B]`` of (image, view) indices ``[B]``, the same for all
        chains, or ``[chains, B]``. A single θ is the loaded one."""
        flat = index.flatten()
        image = flat if self.augmentation == "none" else flat // self.views
        inputs = self.train.inputs.index_select(0, image)
        if self.augmentation != "none":
            view = flat % self.views
            inputs = augment(inputs, view if self._frozen is None else self._frozen[image, view].long())
        logits = self._forward(
            theta, self.train.normalise(inputs, self.dtype).unflatten(0, index.shape), index.ndim > 1
        )
        return logits, self.train.targets.index_select(0, image).view(index.shape).expand(logits.shape[:2])

    def _forward(self, theta: Tensor, inputs: Tensor, own: bool = False) -> Tensor:
        """Logits ``[chains, B, classes]`` of inputs ``[B, …]``, or of each chain's ``own`` ``[chains, B, …]``."""
        if len(theta) == 1:
            return self._logits(inputs[0] if own else inputs)[None]

        def outputs(parts: list[Tensor], inputs: Tensor) -> Tensor:
            # As functional_call does, which leaves a module that is used twice with the tensors of another call.
            try:
                for parameters, key, number in self._slots:
                    parameters[key] = parts[number]
                return self.model(inputs)
            finally:
                for parameters, key, number in self._slots:
                    parameters[key] = self._parameters[number]

        return vmap(outputs, in_dims=(0, 0 if own else None))(
            self._shaped(theta.to(self._position)), inputs.to(self.dtype)
        )

    def _logits(self, inputs: Tensor) -> Tensor:
        """Logits ``[B, classes]`` of inputs ``[B, …]``, at the loaded θ."""
        number = len(inputs)
        larger = min((size for size in self._sizes if size >= number), default=number)
        if larger > number:  # another size would be another graph
            inputs = torch.cat((inputs, inputs[:1].expand(larger - number, *inputs.shape[1:])))
        layout = torch.channels_last if self._channels_last else torch.contiguous_format
        return self.model(inputs.to(self.dtype).contiguous(memory_format=layout))[:number]

    def _sweep(self, chains: int) -> Iterator[Tensor]:
        """All indices that U sums over, in fixed batches for so many chains."""
        image_views = None
        if self.augmentation == "random":
            random = Random(self.seed, self.device)
            drawn = random.integers("augmentation", _FROZEN_VIEWS - 1 - self.counter, 1, 1, self.data_size, VIEWS)
            image_views = torch.arange(self.shown, device=self.device) * VIEWS + drawn[0, 0]
        size = self._at_once(chains)
        for start in range(0, self.shown, size):
            stop = min(start + size, self.shown)
            yield (torch.arange(start, stop, device=self.device) if image_views is None else image_views[start:stop])

    def _at_once(self, chains: int) -> int:
        """How many data are evaluated at once: as ``evaluation_batch`` says of one chain, so many values a layer."""
        if chains == 1:
            return self.evaluation_batch
        inputs = self.train.inputs[0].numel()
        return max(1, self.evaluation_batch * inputs // max(inputs, chains * self._width))

    # U and its gradient

    def prior(self, theta: Tensor) -> Tensor:
        """−log p(θ), ``[chains]`` float64.

        Squares are taken in float64: at both ends of a trajectory their sum is near d/2, and its difference counts.
        """
        return 0.5 * (self._precision * theta.double().square()).sum(1) + self._normaliser

    def _likelihood(self, theta: Tensor, backward: bool) -> Tensor:
        """−Σ_i mean_k log p(y_i | x_ik, θ), ``[chains]`` float64; its gradient is added to the slope of a single θ, the
        loaded one, or to that of the leaf ``theta``."""
        views = self.shown // self.data_size
        total = torch.zeros(len(theta), dtype=torch.float64, device=self.device)
        right = torch.zeros(len(theta), dtype=torch.int64, device=self.device)
        for index in self._sweep(len(theta)):
            logits, targets = self._outputs(theta, index)
            nll = _losses(logits, targets)
            if backward:
                (nll.sum() / views).backward()
            total += nll.detach().sum(1, dtype=torch.float64)
            right += (logits.argmax(-1) == targets).sum(1)
        self.fit = {"train_nll": (total / self.shown).cpu(), "train_accuracy": (right.double() / self.shown).cpu()}
        return total / views

    @torch.no_grad()
    def potential(self, theta: Tensor) -> Tensor:
        """U(θ) over all training data, ``[chains]`` float64."""
        self._load(theta)
        with full_precision():
            return self.prior(theta) + self._likelihood(theta, backward=False)

    def potential_and_gradient(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """U(θ) ``[chains]`` float64 and ∇U(θ) ``[chains, dim]`` in one pass over all training data."""
        self._load(theta)
        leaf = self._leaf(theta)
        with torch.enable_grad(), full_precision():
            likelihood = self._likelihood(leaf, backward=True)
        slope = self._slope[None] if leaf is theta else leaf.grad + theta * self._precision_cast
        return self.prior(theta) + likelihood, slope.to(theta.dtype, copy=True)

    def gradient(self, theta: Tensor, batch: Tensor | None = None) -> Tensor:
        """∇U(θ) ``[chains, dim]``; of batches ``[chains, B]`` of indices in [0, N·views), the estimate N/B Σ ∇nll +
        prior's."""
        if batch is None:
            return self.potential_and_gradient(theta)[1]
        self._load(theta)
        return self._estimated(theta, batch)

    def _estimated(self, theta: Tensor, index: Tensor) -> Tensor:
        """∇U from indices ``[B]`` or ``[chains, B]``; a single θ is the loaded one."""
        leaf = self._leaf(theta)
        with torch.enable_grad():
            loss = self._nll(leaf, index).sum() * (self.data_size / index.shape[-1])
            wanted = self._parameters if leaf is theta else [leaf]
            slopes = torch.autograd.grad(loss, wanted, materialize_grads=True)
        if leaf is not theta:
            return (slopes[0] + theta * self._precision_cast).to(theta.dtype)
        # At once: backward() would add each parameter's by itself, which on a GPU is a tenth of a step.
        torch._foreach_add_([parameter.grad for parameter in self._parameters], slopes)
        return self._slope[None].to(theta.dtype, copy=True)

    def _leaf(self, theta: Tensor) -> Tensor:
        """What gradients are taken by: of several chains θ as a leaf; of a single one the module's parameters, whose
        slope then begins as the prior's."""
        if len(theta) > 1:
            return theta.detach().requires_grad_()
        torch.mul(self._position, self._precision_cast, out=self._slope)
        return theta

    @torch.no_grad()
    def estimate(self, theta: Tensor, batch: Tensor) -> Tensor:
        """U(θ) from batches of indices ``[chains, B]``, ``[chains]`` float64: N/B Σ nll + the prior's, and so noisy."""
        self._load(theta)
        nll = self._nll(theta, batch).sum(1, dtype=torch.float64)
        return self.prior(theta) + nll * (self.data_size / batch.shape[1])

    @torch.no_grad()
    def losses(self, theta: Tensor, batch: Tensor) -> Tensor:
        """−log p(y_i | x_i, θ) of the data ``batch``, a mean over frozen views, both ``[chains, B]``; float64."""
        self._load(theta)
        index = (batch[..., None] * self.views + torch.arange(self.views, device=batch.device)).flatten(1)
        with full_precision():
            nll = torch.cat([self._nll(theta, part) for part in index.split(self._at_once(len(theta)), 1)], 1)
        return nll.double().unflatten(1, (-1, self.views)).mean(-1)

    # predictions

    @torch.no_grad()
    def predict(self, theta: Tensor, inputs: Dataset | Tensor) -> Tensor:
        """Class probabilities ``[chains, n, classes]`` float64, of a data set or of inputs.

        Inputs are as ``Dataset.take`` gives them. A data set's images are normalised as the training images are (which
        matters out of distribution), and not augmented.
        """
        if not isinstance(inputs, Dataset | Tensor):
            raise SettingError("inputs", type(inputs).__name__, "must be a torch.Tensor or an sgmcmc.Dataset")
        if isinstance(inputs, Tensor) and self.train.mean is not None and not inputs.is_floating_point():
            kind = str(inputs.dtype).removeprefix("torch.")
            raise SettingError("inputs", kind, "are raw: give them in an sgmcmc.Dataset, or as Dataset.take gives them")
        self._load(theta)
        raw = inputs.like(self.train).inputs if isinstance(inputs, Dataset) else inputs
        with full_precision():
            if self._batch_norms:
                self._collect_statistics()
            try:
                for norm in self._batch_norms:
                    norm.eval()
                parts = []
                for part in raw.split(self._at_once(len(theta))):
                    part = part.to(self.device)
                    part = self.train.normalise(part, self.dtype) if isinstance(inputs, Dataset) else part
                    parts.append(self._forward(theta, part).double().softmax(-1))
            finally:
                for norm in self._batch_norms:
                    norm.train()
        return torch.cat(parts, 1)

    def _collect_statistics(self) -> None:
        """Give the batch norms the statistics of the training images at the loaded θ (mean over U's batches)."""
        if self._statistics_of is not None and torch.equal(self._statistics_of, self._position):
            return
        momenta = [norm.momentum for norm in self._batch_norms]
        for norm in self._batch_norms:
            norm.track_running_stats = True
            norm.reset_running_stats()
        for number, images in enumerate(self.train.inputs.split(self.evaluation_batch), 1):
            for norm in self._batch_norms:
                norm.momentum = 1 / number  # the plain mean over batches; None would wait for the device each time
            self._logits(self.train.normalise(images, self.dtype))
        for norm, momentum in zip(self._batch_norms, momenta, strict=True):
            norm.track_running_stats, norm.momentum = False, momentum
        self._statistics_of = self._position.clone()

    # checks

    def _why_inexact(self) -> str | None:
        reasons = []
        if self._batch_norms:
            reasons.append("batch normalisation makes U depend on which images share a batch")
        if self.augmentation == "random":
            reasons.append("random augmentation makes U another function at each evaluation")
        return "; ".join(reasons) or None

    def _first_two(self) -> Tensor:
        return self.train.normalise(self.train.inputs[:2], self.dtype)

    @torch.no_grad()
    def _tried(self, inputs: Tensor):
        """What the module makes of the inputs, or SettingError."""
        try:
            return self.model(inputs)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            why = f"does not take inputs of shape {list(inputs.shape)}: {error}"
            if "indices" in str(error):  # an embedding's
                why += "; inputs go in as floats, of which x.long() makes indices"
            raise SettingError("model", type(self.model).__name__, why) from error

    @torch.no_grad()
    def _check_outputs(self) -> None:
        """The module maps these data to logits."""
        few, name = self._first_two(), type(self.model).__name__
        outputs = self._tried(few)
        size = self.evaluation_batch
        self.least_batch = 1  # data of which a gradient can be taken
        if self._batch_norms:
            try:
                self.model(few[:1])
            except ValueError as error:
                self.least_batch = 2
                if 1 in (size, self.data_size % size, self.shown % size):
                    mend = f"leaves one datum of {self.shown} alone, of which batch normalisation makes no statistics"
                    mend += ": take another size, or number of data"
                    raise SettingError("evaluation_batch", size, mend) from error
        if not isinstance(outputs, Tensor) or outputs.shape != (len(few), self.train.classes):
            shape = list(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise SettingError("model", name, f"must give logits {[len(few), self.train.classes]}, gave {shape}")
        if bool((outputs >= 0).all()) and torch.allclose(outputs.sum(-1), torch.ones_like(outputs[:, 0]), atol=1e-5):
            raise SettingError("model", name, "gives probabilities, which sum to 1: leave the softmax out")

    @torch.no_grad()
    def _check_each(self) -> None:
        """Logits are a fixed function of the datum and of θ: the same alone as beside another datum, and again."""
        if self._batch_norms or self.data_size < 2:
            return
        name, few = type(self.model).__name__, self._first_two()
        self._load(self.initial(1, Random(0)))
        try:
            with full_precision():  # in TF32 a batch of one may be another kernel's
                both = self._logits(few).clone()  # of a module that keeps what it gave
                alone = [self._logits(one) for one in few.split(1)]
        except (RuntimeError, ValueError, TypeError) as error:
            raise SettingError("model", name, f"does not take one datum by itself: {error}") from error
        finally:
            self._position.copy_(self._resting)
        for one, beside in zip(alone, both.split(1), strict=True):
            if one.shape != beside.shape:
                need = f"must give logits {list(beside.shape)} of one datum, gave {list(one.shape)}"
                raise SettingError("model", name, need)
            if not _close(one, beside):
                mend = "gives a datum other logits alone than beside another one, or when it is asked again: they must"
                raise SettingError("model", name, f"{mend} be a fixed function of the datum and of the weights")

    def _check_gradients(self) -> None:
        """What the logits depend on has a gradient: without, a chain that is not corrected would sample another law."""
        few = self._first_two()
        self._load(self.initial(1, Random(0)))
        try:
            with torch.enable_grad():
                logits, slopes = self._logits(few), [None] * len(self._parameters)
                if logits.requires_grad:
                    slopes = torch.autograd.grad(logits.sum(), self._parameters, allow_unused=True)
            logits = logits.detach().clone()  # of a module that keeps what it gave
            for key, parameter, slope in zip(self._names, self._parameters, slopes, strict=True):
                if slope is not None:
                    continue
                with torch.no_grad():
                    parameter.mul_(1.5).add_(0.5)
                    same = _close(self._logits(few), logits)
                if not same:
                    mend = f"gives no gradient of {key}, which its logits depend on (no_grad, detach): let it through,"
                    raise SettingError(
                        "model", type(self.model).__name__, f"{mend} or freeze it (requires_grad_(False))"
                    )
        finally:
            self._position.copy_(self._resting)
