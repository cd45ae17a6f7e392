"""Layers and blocks of a ResNet as kernels for CUDA devices, in Triton's interpreter where there is no device."""

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from test_convolution import last, needs_triton, relative
from torch import Tensor, nn

from sgmcmc import convolution, residual
from sgmcmc.models import ResNet
from sgmcmc.models.normalisation import EPSILON, FilterResponseNorm
from sgmcmc.models.resnet import Block
from sgmcmc.precision import full_precision
from sgmcmc.residual import Layer

# (channels in and out, pixels a side, stride, kernel's side, zeros before): of each stack, between stacks, Keras', the
# shortcut, the first layer
SHAPES = [(16, 16, 18, 1, 3, 1), (32, 64, 6, 2, 3, 1), (16, 32, 6, 2, 3, 0), (16, 32, 7, 2, 1, 0), (3, 16, 5, 1, 3, 1)]
# The same of a ResNet-20 on images of 32 x 32.
CIFAR = [(3, 16, 32, 1, 3, 1), (16, 16, 32, 1, 3, 1), (16, 32, 32, 2, 3, 1), (16, 32, 32, 2, 1, 0)]
CIFAR += [(32, 32, 16, 1, 3, 1), (32, 64, 16, 2, 3, 1), (32, 64, 16, 2, 1, 0), (64, 64, 8, 1, 3, 1)]
CLOSE = 5e-6  # float32 sums of a hundred to ten thousand products


def kept(x: Tensor) -> Tensor:
    """x as the kernels keep activations, and take the weights."""
    return x.to(residual.STORED[convolution.precision(x)])


def same(found: Tensor, exact: Tensor) -> bool:
    """Whether what was found is what would be kept of the exact, but for few of which the rounding of sums decides: on
    matrix units 5e-6 of what numbers usually are, of spaces that are a thousandth of each."""
    if found.dtype == torch.float32:
        return relative(found, exact) < CLOSE
    usual = exact.square().mean().sqrt()
    within = (found.double() - exact).abs() <= 1e-3 * exact.abs() + 1e-4 * usual  # twice what rounding to 11 bits does
    return bool(within.all()) and (found != exact.half()).double().mean() < 0.05


def convolved(x: Tensor, w: Tensor, layer: Layer) -> Tensor:
    (H, W), (OH, OW) = layer.image, layer.out
    right, below = ((out - 1) * layer.stride + layer.side - size - layer.padding for out, size in ((OW, W), (OH, H)))
    return F.conv2d(F.pad(x, (layer.padding, right, layer.padding, below)), w, None, layer.stride)


def response(v: Tensor, gamma, beta, tau, other) -> Tensor:
    """z of normalised activations."""
    z = gamma[:, None, None] * v + beta[:, None, None]
    z = z if tau is None else torch.maximum(z, tau[:, None, None])
    return z if other is None else (z + other).relu()


def before_normalising(by_v: Tensor, v: Tensor, rate: Tensor) -> Tensor:
    """The gradient by u of v = u · rate, rate² = 1/(mean u² + ε)."""
    return rate[..., None, None] * (by_v - v * (by_v * v).mean((2, 3), keepdim=True))


def doubles(*tensors: Tensor | None) -> list[Tensor | None]:
    """Leaves in float64."""
    return [None if one is None else one.double().requires_grad_() for one in tensors]


def case(inside: int, outside: int, size: int, stride: int, side: int, before: int, summed: bool, device: str):
    """A layer, its x, its parameters, and what is added to it."""
    out = (size - 1) // stride + 1
    layer = Layer((size, size), (out, out), (inside, outside), side, stride, before)
    x, w = last(2, inside, size, size, device=device), last(outside, inside, side, side, device=device)
    tau = None if summed else 0.3 * torch.randn(outside, device=device)
    gamma, beta = 1 + 0.3 * torch.randn(2, outside, device=device)
    other = kept(last(2, outside, out, out, device=device)) if summed else None
    return layer, x if inside == 3 else kept(x), (w, gamma, beta, tau), other


def check_parts(device: str = "cpu") -> None:
    """The same of images that are too large for a program to hold all pixels."""
    with patch.object(Layer, "_pixels", lambda *_: 16):
        check_layers(device, [(16, 16, 7, 1, 3, 1), SHAPES[-1]])


def check_layers(device: str = "cpu", shapes: Iterable[tuple[int, ...]] = SHAPES) -> None:
    """What comes out of a layer and each gradient against float64, of what the kernels keep of the step before."""
    torch.manual_seed(0)
    for shape, summed in product(shapes, (False, True)):
        layer, x, given, other = case(*shape, summed, device)
        z, v, rate, logits = layer.respond(x, given, other)
        seen, weights = kept(x).double().requires_grad_(), kept(given[0]).double().requires_grad_()
        u = convolved(seen, weights, layer)
        assert relative(rate, (u.square().mean((2, 3)) + EPSILON).rsqrt()) < CLOSE and logits is None
        assert same(v, u / (u.square().mean((2, 3), keepdim=True) + EPSILON).sqrt())
        exact = doubles(v, *given[1:], other)
        expected = response(*exact)
        assert same(z, expected)
        assert all(one.is_contiguous(memory_format=torch.channels_last) for one in (z, v))

        upstream, add = kept(last(*z.shape, device=device)), kept(last(*x.shape, device=device))
        wanted = [one for one in exact if one is not None]
        by_v, *by_others = torch.autograd.grad(expected, wanted, upstream.double())
        by_x = torch.empty_like(x) if layer.channels[0] > 3 else None
        with residual.Sums(((layer,),), (2, 1), x.device) as sums:
            sums.unit.fill_(2.0)
            found_by_u, by_other = layer.backward(upstream, (z, v, rate), given, sums, (0, 0), summed, by_x, add)
            sums.by_weights(0, [(0, x, found_by_u)])
        assert same(found_by_u, before_normalising(by_v, v.double(), rate))
        by_x_exact, by_w_exact = torch.autograd.grad(u, (seen, weights), found_by_u.double())
        assert by_x is None or same(by_x, by_x_exact + add)
        _, _, by_w, *by_parameters = [one for one in sums.gradients() if one is not None]
        assert relative(by_w / 2, by_w_exact) < CLOSE  # in the unit that is said
        if summed:
            assert same(by_other, by_others.pop())
            by_parameters.pop()
        assert by_other is upstream or summed
        for one, other_one in zip(by_parameters, by_others, strict=True):
            assert relative(one / 2, other_one) < CLOSE


def check_heads(device: str = "cpu") -> None:
    """Logits of the mean over the pixels, and gradients from theirs, however large these are."""
    torch.manual_seed(0)
    for shape, summed in ((SHAPES[1], True), (SHAPES[2], False)):
        layer, x, given, other = case(*shape, summed, device)
        w, b = torch.randn(10, layer.channels[1], device=device), torch.randn(10, device=device)
        head = residual.Head(w, b, torch.empty(2, layer.channels[1], device=device))
        z, *saved, logits = layer.respond(x, given, other, head)
        assert relative(logits, z.double().mean((2, 3)) @ w.double().T + b) < CLOSE
        slopes = torch.randn(2, 10, device=device)
        by_w, by_b, by_z = slopes.double().T @ z.double().mean((2, 3)), slopes.sum(0), slopes.double() @ w.double()
        upstream = (by_z / math.prod(layer.out))[..., None, None].expand(z.shape)
        exact, (v, rate) = doubles(saved[0], *given[1:], other), saved
        wanted = [one for one in exact if one is not None]
        by_v, by_gamma, *_ = torch.autograd.grad(response(*exact), wanted, upstream)
        by_u = before_normalising(by_v, v.double(), rate)
        for power in (0, -100, 100):
            with residual.Sums(((layer,),), (2, 10), x.device) as sums:
                by_x, back = torch.empty_like(x), slopes * 2.0**power
                found, _ = layer.backward(back, (z, *saved), given, sums, (0, 0), summed, by_x, None, head)
                sums.by_weights(0, [(0, x, found)])
            unit, most = float(sums.unit), float(back.abs().max()) / math.prod(layer.out)
            assert math.frexp(unit)[0] == 0.5 and 4 <= most / unit < 8
            assert same(found, by_u * 2.0**power / unit)
            found_w, found_b, _, found_gamma, *_ = sums.gradients()
            for one, expected in ((found_w, by_w), (found_b, by_b), (found_gamma, by_gamma)):
                assert relative(one / 2.0**power, expected) < CLOSE
    sums, by_x = residual.Sums(((layer,),), (2, 10), x.device), torch.empty_like(x)
    found, _ = layer.backward(0 * slopes, (z, *saved), given, sums, (0, 0), False, by_x, None, head)
    assert not found.any() and 0 < float(sums.unit) < 1e-37  # all labels known for certain
    large, *_ = layer.respond(x * 1e4, given, other, head)  # what is kept is normalised, however large products are
    assert large.isfinite().all() and relative(large, z.double()) < 1e-3
    z, *saved, _ = layer.respond(0 * x, given, other, head)  # the rate is 1000
    head = replace(head, weight=100 * w)
    found, _ = layer.backward(slopes, (z, *saved), given, sums, (0, 0), False, by_x, None, head)
    assert found.isfinite().all() and (found.dtype == torch.float32 or float(found.abs().max()) == 65504)


def check_networks(device: str = "cpu") -> None:
    """Logits and gradients of a ResNet with all blocks at once and with eager layers, in any unit; where somebody looks
    at a layer it goes by itself."""
    torch.manual_seed(0)
    kind = convolution.precision(torch.empty(0, device=device))
    close = {"ieee": 2e-5, "tf32": 0.2}[kind]
    went, real, residual.KINDS = [], ResNet._at_once, (kind,)
    ResNet._at_once = lambda self, images: went.append(real(self, images)) or went[-1]
    for pad in ("torch", "keras") if device == "cuda" else ("keras",):  # the interpreter is slow
        model = ResNet(depth=8, pad=pad).to(device, memory_format=torch.channels_last)
        x, labels = last(2, 3, 6, 6, device=device), torch.tensor([1, 2], device=device)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        found = []
        for compiled in (False, True):
            for layer in model.modules():
                layer.compiled = compiled
            with nullcontext() if compiled else full_precision():
                logits = model(x)
                loss = F.cross_entropy(logits, labels)
                slopes = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
            found.append([logits.detach(), *slopes])
        assert went[-2] is None and went[-1] is not None
        if kind == "tf32":  # single gradients move by more: relus switch
            found = [[logits, torch.cat([one.flatten() for one in slopes])] for logits, *slopes in found]
        for one, other in zip(*found, strict=True):
            assert relative(one, other.double()) < close
        sizes = [one.numel() for one in slopes]  # of one vector, as the parameters lie
        assert [one.storage_offset() for one in slopes] == [sum(sizes[:place]) for place in range(len(sizes))]
        small = torch.autograd.grad(2.0**-30 * loss, list(model.parameters()))
        assert all(torch.equal(one * 2.0**30, other) for one, other in zip(small, slopes, strict=True))
        if kind == "tf32":
            continue
        with torch.no_grad():
            assert relative(model(x[:1]), found[0][0][:1].double()) < close and went[-1] is not None
            model.blocks[2].norm2.gamma[0] = torch.nan
        lost = []  # what is no number goes back as far
        for compiled in (False, True):
            for layer in model.modules():
                layer.compiled = compiled
            slopes = torch.autograd.grad(F.cross_entropy(model(x), labels), list(model.parameters()))
            lost.append([one.isfinite() for one in slopes])
        assert all(map(torch.equal, *lost)) and not lost[0][0].any()
        model.blocks[1].conv2.register_forward_hook(lambda *_: None)
        assert torch.equal(model(x[:0]), found[0][0][:0]) and went[-1] is None
    ResNet._at_once, residual.KINDS = real, ("tf32",)


@needs_triton
@pytest.mark.slow
def test_the_kernels_compile_for_a_device_that_is_not_here(monkeypatch, tmp_path):
    """All of a ResNet-20's, for an H100: which the interpreter cannot show. What a program's registers do not hold is
    slow, and its shared memory must be as little as ``takes`` asks a device for."""
    pytest.importorskip("triton.backends.nvidia.compiler")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    import kernels

    rows = []
    kernels.compiled(rows.append, depth=14, batch=4)  # layers of a ResNet-20's shapes
    layers = {(row["kernel"], row["C"], row["N"], row["STRIDE"]) for row in rows if "C" in row}
    kinds = Counter(kernel for kernel, *_ in layers)
    assert kinds == {"_respond": 6, "_respond_backward": 6, "_by_weights": 6, "_product": 5}  # the stem's U is cuDNN's
    for row in rows:
        assert row["shared"] * 1024 <= residual.SHARED, row
        assert row["stack"] == 0 or row["kernel"] == "_product" and row["stack"] <= 8, row


def check_cifar(device: str = "cpu") -> None:
    """The same with the blocks that a ResNet-20's layers are cut into."""
    check_layers(device, CIFAR)


CHECKS = [*product((check_layers, check_heads, check_networks), ("ieee", "tf32"))]
CHECKS += [(check_parts, "tf32"), (check_cifar, "tf32")]


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize("check, precision", CHECKS)
def test_the_kernels_compute_what_pytorch_s_do(check, precision, interpreter):
    interpreter.run(check, precision)


@pytest.mark.parametrize("check, precision", CHECKS)
class TestOnAGPU:
    pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

    def test_the_kernels_compute_what_pytorch_s_do(self, check, precision, monkeypatch):
        monkeypatch.setattr(torch.backends.cudnn.conv, "fp32_precision", precision)
        check("cuda")


class Doubled(FilterResponseNorm):
    def forward(self, x):
        return 2 * super().forward(x)


class Last(Block):
    def forward(self, x):
        return 2 * super().forward(x)


class Standardised(convolution.Convolution):
    def forward(self, x):
        return 2 * super().forward(x)


def test_what_the_kernels_cannot_take_goes_layer_by_layer(monkeypatch):
    """Another precision, layers that are not compiled or compute something else, other norms, widths, biases; blocks
    that do not fit together; gradients by the images; numbers beyond the kernels' offsets."""
    plans = []
    monkeypatch.setattr(convolution, "on_device", lambda x: True)
    monkeypatch.setattr(residual, "precision", lambda x: "tf32")
    monkeypatch.setattr(residual._AtOnce, "apply", lambda x, blocks, *_: plans.append(blocks) or x)

    def goes(change=lambda model: None, images: Tensor | None = None, compiled=True, **settings) -> bool:
        model = ResNet(depth=8, **settings).to(memory_format=torch.channels_last)
        change(model)
        for layer in model.modules():
            layer.compiled = compiled
        return model._at_once(last(2, settings.get("in_channels", 3), 8, 8) if images is None else images) is not None

    def setting(name: str, value):
        def change(model):
            *path, last_name = name.split(".")
            setattr(model.get_submodule(".".join(path)), last_name, value)

        return change

    assert goes() and goes(pad="keras") and goes(in_channels=1)
    first, _, last_block = plans[0][1:]
    assert [layer.channels for layer in first] == [(16, 16), (16, 16)] and len(last_block) == 3
    assert last_block[0] == Layer((4, 4), (2, 2), (32, 64), 3, 2, 1) and last_block[2].padding == 0
    assert plans[1][3][0].padding == 0  # Keras' strided layer sees no zeros above
    assert not goes(compiled=False) and not goes(width=8) and not goes(width=32) and not goes(conv_bias=True)
    assert not goes(norm="bn") and not goes(norm="none") and not goes(in_channels=4)
    assert goes(classes=128) and not goes(classes=129)
    assert not goes(images=last(2, 3, 8, 8).requires_grad_()) and not goes(images=last(2, 3, 8, 8).double())
    assert not goes(images=last(1, 3, 72, 72)) and not goes(images=last(1, 3, 4, 4)) and not goes(in_channels=16)
    assert not goes(images=last(0, 3, 8, 8))
    for name, value in {
        "blocks.0": nn.Identity(),
        "blocks.1": Last(16, 32, 2, convolution.Convolution, FilterResponseNorm),
        "blocks.1.shortcut": nn.Sequential(),
        "blocks.2.shortcut": nn.Identity(),
        "blocks.0.shortcut": nn.Sequential(nn.Identity()),
        "blocks.0.norm1.tau": None,
        "blocks.0.norm1.gamma": nn.Parameter(torch.ones(1)),
        "blocks.0.norm2.beta": nn.Parameter(torch.zeros(16).double()),
        "blocks.0.norm2": Doubled(16, threshold=False),
        "blocks.0.conv2": Standardised(16, 16, 3, padding=1, bias=False).to(memory_format=torch.channels_last),
        "blocks.0.conv1.forward": lambda x: x,
        "blocks.0.conv1.padding": "same",
        "conv": nn.Conv2d(3, 16, 3, padding=1, bias=False),
        "linear": nn.Linear(64, 10, bias=False),
        "linear.bias": nn.Parameter(torch.zeros(10).double()),
        "linear.forward": lambda x: x,
    }.items():
        assert not goes(setting(name, value)), name
    assert not goes(lambda model: model.blocks[0].register_forward_hook(lambda *_: None))
    assert not goes(lambda model: model.blocks[2].conv2.register_forward_pre_hook(lambda *_: None))
    with nn.modules.module.register_module_forward_hook(lambda *_: None):
        assert not goes()
    monkeypatch.setattr(residual, "_has_room", lambda device: False)
    assert not goes()
    monkeypatch.undo()
    wide = convolution.Convolution(16, 64, 3, padding=1, bias=False).to(memory_format=torch.channels_last)
    given = wide, FilterResponseNorm(64)
    assert residual._layer(*given, (1 << 31) // 4096 - 1, (8, 8), 16) is not None
    assert residual._layer(*given, (1 << 31) // 4096, (8, 8), 16) is None


def test_no_program_asks_for_more_shared_memory_than_there_is():
    """What the steps of a product that are under way have there: the pixels' block, of images as they are given, and
    the weights'."""
    for pixels, inside, outside, stride, side in product((8, 32, 64), (3, 16, 32, 64), (16, 32, 64), (1, 2), (1, 3)):
        layer = Layer((pixels, pixels), (pixels // stride,) * 2, (inside, outside), side, stride, side // 2)
        forward, backward = layer._blocks(backward=False), layer._blocks(backward=True)
        of_x = forward["BLOCK_P"] * forward["BLOCK_C"] * (4 if inside == 3 else 2) + forward["BLOCK_C"] * outside * 4
        assert forward["num_stages"] * of_x <= residual.SHARED
        if inside > 3:  # nobody asks for the gradient by the images
            of_u = 2 * backward["BLOCK_Q"] * backward["BLOCK_N"] + 4 * backward["BLOCK_N"] * inside
            assert backward["num_stages"] * of_u <= residual.SHARED


@pytest.mark.thorough
def test_networks_work_where_triton_is_not_installed():
    script = "import sys; sys.modules['triton'] = None; import torch; from sgmcmc.models import ResNet\n"
    script += "print(ResNet(depth=8)(torch.zeros(1, 3, 8, 8)).shape[1])"
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=120)
    assert ended.stdout == "10\n", ended.stderr
