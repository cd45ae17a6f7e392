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
from dataclasses import replace
from types import FunctionType

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sgmcmc import convolution
from sgmcmc.arguments import find_device, float_type, whole
from sgmcmc.data import Dataset
from sgmcmc.data.augment import VIEWS, augment, frozen_views, random_views
from sgmcmc.environment import of_the_machine
from sgmcmc.errors import SettingError, one_of
from sgmcmc.inductor import CannotCompile
from sgmcmc.models.normalisation import FilterResponseNorm
from sgmcmc.potentials.flat import FlatModule
from sgmcmc.potentials.module_checks import check_each, check_gradients, close, close_slopes
from sgmcmc.potentials.weights import prior_std, start_scales
from sgmcmc.precision import full_precision
from sgmcmc.random import Random

AUGMENTATIONS = ("none", "averaged", "random")
_AT_ONCE = {"cpu": 3 << 17}  # input values evaluated at once, 128 CIFAR images: twice as many are slower already
_AT_ONCE_ELSEWHERE = 1 << 23


def _losses(logits: Tensor, targets: Tensor) -> Tensor:
    """−log p of labels ``[chains, B]`` by logits ``[chains, B, classes]``; float32 of bf16's, at least."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)


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

    ``together`` lets all chains of a run go in one tensor, by ``torch.func.vmap`` of the module: two to eight times as
    fast for many chains of a small perceptron (8 or more of at most 10,000 weights), for others less, or slower (see
    benchmarks/together.csv). Numbers agree with those of single chains to rounding. U is then evaluated of so many
    fewer data at once.

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
        one_of("augmentation", augmentation, AUGMENTATIONS)
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
        self._frozen = None
        if augmentation == "averaged":
            self._frozen = frozen_views(self.data_size, self.views, self.seed, self.device)

        few = self._first(2)
        self.flat = flat = FlatModule(model, train.classes, few, self.device, self.dtype)
        self.model, self.dim, self.blocks = flat.model, flat.dim, flat.blocks
        self._split_is_free = evaluation_batch is None and not flat.batch_norms
        if evaluation_batch is None:
            at_once = _AT_ONCE.get(self.device.type, _AT_ONCE_ELSEWHERE)
            evaluation_batch = 125 if flat.batch_norms else max(1, at_once // train.inputs[0].numel())
        self.evaluation_batch = self._own_batch = evaluation_batch
        self.least_batch = self._find_least_batch(few)
        self.inexact = self._why_inexact()

        self.prior_said = prior
        stds = prior_std(model, prior, flat_norms)
        self.std = flat.spread(stds[name] for name in flat.names)  # float64 [dim]; infinite: flat
        proper = self.std.isfinite()
        self._precision = self.std.pow(-2)
        self._precision_cast = self._precision.to(self.dtype)
        self._normaliser = self.std[proper].log().sum().item() + 0.5 * math.log(2 * math.pi) * int(proper.sum())
        start = self.initial(1, Random(0))[0]
        if not flat.batch_norms and self.data_size > 1:
            check_each(flat, few, start)
        check_gradients(flat, few, lambda: self._first(self.evaluation_batch), start)
        self.together = False
        if together:
            self.join_chains()

    # many chains at once

    def join_chains(self) -> None:
        """Let many chains go in one tensor from now on (``together``), ``chains_at_once`` of them.

        Raises SettingError where the module does not give each chain the logits and gradients that it has alone.
        """
        self.uncompile_layers()
        if self.inexact:
            raise SettingError("together", True, f"needs a U that is a fixed function: {self.inexact}")
        theta = self._anywhere(3)
        index = torch.arange(12, device=self.device).view(3, 4) % (self.data_size * self.views)
        self.together = True  # while it is asked
        try:
            self._width = self._widest()
            both = self._asked(theta, index)
            alone = [self._asked(one, some) for one, some in zip(theta.split(1), index.split(1), strict=True)]
            same = all(close(one, torch.cat(parts)) for one, *parts in zip(both, *alone, strict=True))
            why = "" if same else "gives other numbers for many chains at once than for each alone"
        except Exception as error:
            if of_the_machine(error):  # which says nothing of the module
                raise
            said = str(error).strip().partition("\n")[0].partition(". ")[0]
            why = f"cannot be evaluated for many chains at once: {said}"
        finally:
            self.together = False
            self.flat.position.copy_(self.flat.resting)
        if why:
            raise SettingError("together", True, f"{self.flat.name} {why}")
        self.together = True

    def _asked(self, theta: Tensor, index: Tensor) -> tuple[Tensor, ...]:
        """What is asked of the module, of few data: logits of all chains' data, and gradients of all's and each's."""
        common = torch.arange(min(4, self.data_size), device=self.device)
        with full_precision():
            self._load(theta)
            with torch.no_grad():
                logits = self._outputs(theta, common)[0].clone()  # of a module that keeps what it gave
            return logits, self.gradient(theta, common), self.gradient(theta, index)

    def _widest(self) -> int:
        """The largest number of outputs that a module with parameters has for a datum."""
        layers = [module for module in self.model.modules() if module._parameters]
        return max((shape.numel() for _, shape in self.flat.shapes(layers, self._first(2))), default=1)

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
        return self.flat.layers(FilterResponseNorm)

    @property
    def _convolutions(self) -> list[convolution.Convolution]:
        """Those that may be compiled: on a CUDA device, of a chain by itself."""
        may = self.device.type == "cuda" and convolution.triton is not None and not self.together
        return self.flat.layers(convolution.Convolution) if may else []

    def compile_layers(self, batch_size: int | None = None, backward: bool = False) -> None:
        """Compile the filter response normalisations for batches of this size and for those of U (and, ``backward``, of
        its gradient), and on a CUDA device the convolutions.

        A graph is for one size of batch: those of U become as large as the minibatches, where that is no slower and no
        other size was asked for, and what is left over at the end of a sweep is filled up. Seconds for each shape
        of layer. Raises CannotCompile, and leaves the layers eager, where a compiler is missing, and where it gives
        layers that are not the eager ones: no later number would show that.
        """
        self.uncompile_layers()
        layers, before = {*self._responses, *self._convolutions}, self.evaluation_batch
        if not layers:
            return
        if self._responses and self._split_is_free:
            fits = batch_size and before // 4 <= batch_size <= before
            self.evaluation_batch = batch_size if fits else min(before, self.shown)
        sizes = (batch_size or self.evaluation_batch, self.evaluation_batch)
        of_gradients, of_u = (torch.arange(size, device=self.device) % self.data_size for size in sizes)
        theta = self._anywhere(1)

        def asked() -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
            self._load(theta)
            _, slopes = self._losses_and_slopes(theta, of_gradients, True)
            with full_precision():
                nll, slopes_of_u = self._losses_and_slopes(theta, of_u, backward)
            return nll, slopes, slopes_of_u

        try:
            expected, *slopes = asked()
            with full_precision():
                _, exact = self._losses_and_slopes(theta, of_gradients, True)
            self.flat.compile(layers, sizes if self._responses and not self.flat.batch_norms else ())
            nll, *compiled = asked()
            if not (close(nll, expected) and all(map(close_slopes, compiled, slopes, (exact, slopes[1])))):
                raise CannotCompile(f"compiled layers of {self.flat.name} give other numbers than eager ones")
        except BaseException:
            self.uncompile_layers()
            raise
        finally:
            self.flat.position.copy_(self.flat.resting)

    def _losses_and_slopes(self, theta: Tensor, index: Tensor, backward: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Each datum's NLL at the loaded θ and, ``backward``, the gradients of their sum by each parameter tensor."""
        with torch.set_grad_enabled(backward):
            nll = self._nll(theta, index)
            slopes = torch.autograd.grad(nll.sum(), self.flat.parameters, materialize_grads=True) if backward else ()
        return nll.detach(), slopes

    def _anywhere(self, chains: int) -> Tensor:
        """A θ ``[chains, dim]`` that is no special one: no two coordinates of it are alike."""
        noise = Random(0, self.device).normal("diagnostic", 0, 1, chains, self.dim, self.dtype)[0]
        return self.initial(chains, Random(0)) + 0.1 * noise

    def uncompile_layers(self) -> None:
        """Evaluate all layers eagerly from now on, and U in the batches that were asked for at first."""
        self.evaluation_batch = self._own_batch
        self.flat.compile(())

    def normalised(self) -> tuple[int, int]:
        """How many activations of a datum go through filter response normalisations, and how many shapes they have."""
        seen = [(shape, layer.tau is None) for layer, shape in self.flat.shapes(self._responses, self._first(2))]
        return sum(shape.numel() for shape, _ in seen), len(set(seen))

    # θ and the module

    def _load(self, theta: Tensor) -> None:
        """Give the module the weights of a single chain; those of several go in with the inputs."""
        if theta.ndim != 2 or theta.shape[1] != self.dim or len(theta) != 1 and not self.together:
            takes = "[chains, " if self.together else "one chain at a time, [1, "
            raise ValueError(f"theta is {list(theta.shape)}: a network takes {takes}{self.dim}]")
        if len(theta) == 1:
            self.flat.load(theta[0])
        else:
            self.flat.hold()

    @torch.no_grad()
    def state_dict(self, theta: Tensor | np.ndarray) -> dict[str, Tensor]:
        """The module's state dict at one θ, ``[1, dim]`` or ``[dim]``: copies, in their usual order in memory.

        Parameters that are not sampled and buffers are in it, too; of batch normalisation the statistics of the
        training images at that θ, as ``predict`` takes them. Raises ValueError for a θ of another shape.
        """
        theta = torch.as_tensor(theta)
        if theta.shape not in ((1, self.dim), (self.dim,)):
            need = f"a state dict is of one draw, [{self.dim}], as draws[-1, 0]"
            raise ValueError(f"theta is {list(theta.shape)}: {need}")
        self._load(theta.reshape(1, self.dim))
        with full_precision():
            self._collect_statistics()
        return self.flat.state_dict()

    def from_state_dict(self, state: dict[str, Tensor]) -> Tensor:
        """The θ ``[1, dim]`` of a module's state dict; buffers in it are not looked at.

        Raises SettingError where a parameter is missing or has another shape.
        """
        return self.flat.from_state_dict(state)[None]

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
        scales = start_scales(self.model, dict(zip(self.flat.names, self.flat.parameters, strict=True)), how)
        normal, uniform = map(self.flat.spread, zip(*scales, strict=True))
        noise = random.normal("start", 0, 1, chains, self.dim, torch.float64)[0].to(self.device)
        drawn = normal * noise + uniform * (2 * torch.special.ndtr(noise) - 1)
        return torch.where((normal > 0) | (uniform > 0), drawn, self.flat.resting.double()).to(self.dtype)

    # data

    def _first(self, number: int) -> Tensor:
        return self.train.normalise(self.train.inputs[:number], self.dtype)

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
            return self.flat.logits(inputs[0] if own else inputs)[None]
        return self.flat.logits_of_each(theta, inputs, own)

    def _sweep(self, chains: int) -> Iterator[Tensor]:
        """All indices that U sums over, in fixed batches for so many chains."""
        image_views = None
        if self.augmentation == "random":
            drawn = random_views(self.data_size, self.seed, self.counter, self.device)
            image_views = torch.arange(self.shown, device=self.device) * VIEWS + drawn
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
        slope = self.flat.slope[None] if leaf is theta else leaf.grad + theta * self._precision_cast
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
            wanted = self.flat.parameters if leaf is theta else [leaf]
            slopes = torch.autograd.grad(loss, wanted, materialize_grads=True)
        if leaf is not theta:
            return (slopes[0] + theta * self._precision_cast).to(theta.dtype)
        self.flat.add(slopes)
        return self.flat.slope[None].to(theta.dtype, copy=True)

    def _leaf(self, theta: Tensor) -> Tensor:
        """What gradients are taken by: of several chains θ as a leaf; of a single one the module's parameters, whose
        slope then begins as the prior's."""
        if len(theta) > 1:
            return theta.detach().requires_grad_()
        torch.mul(self.flat.position, self._precision_cast, out=self.flat.slope)
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
            self._collect_statistics()
            with self.flat.predicting():
                parts = []
                for part in raw.split(self._at_once(len(theta))):
                    part = part.to(self.device)
                    part = self.train.normalise(part, self.dtype) if isinstance(inputs, Dataset) else part
                    parts.append(self._forward(theta, part).double().softmax(-1))
        return torch.cat(parts, 1)

    def _collect_statistics(self) -> None:
        """Give the batch norms the statistics of the training images at the loaded θ (mean over U's batches)."""
        parts = self.train.inputs.split(self.evaluation_batch)
        self.flat.collect_statistics(self.train.normalise(images, self.dtype) for images in parts)

    # checks

    def _why_inexact(self) -> str | None:
        reasons = []
        if self.flat.batch_norms:
            reasons.append("batch normalisation makes U depend on which images share a batch")
        if self.augmentation == "random":
            reasons.append("random augmentation makes U another function at each evaluation")
        return "; ".join(reasons) or None

    @torch.no_grad()
    def _find_least_batch(self, few: Tensor) -> int:
        """Data of which a gradient can be taken: 2 where batch normalisation makes no statistics of a single one."""
        if not self.flat.batch_norms:
            return 1
        try:
            self.flat.logits(few[:1])
        except (ValueError, RuntimeError) as error:
            if "more than 1 value" not in str(error):  # torch.compile's error has that of batch normalisation in it
                raise
            size = self.evaluation_batch
            if 1 in (size, self.data_size % size, self.shown % size):
                mend = f"leaves one datum of {self.shown} alone, of which batch normalisation makes no statistics"
                mend += ": take another size, or number of data"
                raise SettingError("evaluation_batch", size, mend) from error
            return 2
        return 1
