"""Layers and blocks of a ResNet as kernels for CUDA devices, in Triton's interpreter where there is no device."""

import subprocess
import sys
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from test_convolution import last, needs_triton, relative, taken
from torch import Tensor, nn

from sgmcmc import convolution, residual
from sgmcmc.models import ResNet
from sgmcmc.models.normalisation import EPSILON, FilterResponseNorm
from sgmcmc.models.resnet import Block
from sgmcmc.residual import Layer

# (channels in and out, pixels a side, stride, kernel's side, zeros before): of each stack, between stacks, Keras', the
# shortcut, the first layer
SHAPES = [(16, 16, 18, 1, 3, 1), (32, 64, 6, 2, 3, 1), (16, 32, 6, 2, 3, 0), (16, 32, 7, 2, 1, 0), (3, 16, 5, 1, 3, 1)]
CLOSE = {"ieee": 5e-6, "tf32": 5e-5}  # a value that lies between two of TF32 may go to either
ROUNDING = {"ieee": 5e-6, "tf32": 3e-4}


def respond(x: Tensor, w: Tensor, layer: Layer, gamma, beta, tau, other):
    """A layer in float64 by autograd, of products of what the kernels take: z and u."""
    (H, W), (OH, OW) = layer.image, layer.out
    right, below = ((out - 1) * layer.stride + layer.side - size - layer.padding for out, size in ((OW, W), (OH, H)))
    u = F.conv2d(F.pad(x, (layer.padding, right, layer.padding, below)), w, None, layer.stride)
    z = gamma[:, None, None] * u / (u.square().mean((2, 3), keepdim=True) + EPSILON).sqrt() + beta[:, None, None]
    z = z if tau is None else torch.maximum(z, tau[:, None, None])
    return z if other is None else (z + other).relu(), u


def check_layers(device: str = "cpu") -> None:
    """What comes out of a layer and each gradient against float64."""
    torch.manual_seed(0)
    kind = convolution.precision(torch.empty(0, device=device))
    close, rounding = CLOSE[kind], ROUNDING[kind]
    for (inside, outside, size, stride, side, before), summed in product(SHAPES, (False, True)):
        out = (size - 1) // stride + 1
        layer = Layer((size, size), (out, out), (inside, outside), side, stride, before)
        x, w = last(2, inside, size, size, device=device), last(outside, inside, side, side, device=device)
        other = last(2, outside, out, out, device=device) if summed else None
        tau = None if summed else 0.3 * torch.randn(outside, device=device)
        gamma, beta = 1 + 0.3 * torch.randn(2, outside, device=device)
        upstream, add = last(2, outside, out, out, device=device), last(2, inside, size, size, device=device)

        exact = [None if one is None else one.double().requires_grad_() for one in (gamma, beta, tau, other)]
        seen, weights = taken(x).requires_grad_(), taken(w).requires_grad_()
        z, u = respond(seen, weights, layer, *exact)
        given = w, gamma, beta, tau
        found = layer.respond(x, given, other, False)
        assert relative(found[0], z) < rounding and relative(found[1], u) < close
        if close > CLOSE["ieee"]:  # what is written is rounded
            assert torch.equal(found[0].double(), taken(found[0]))
        assert all(one.is_contiguous(memory_format=torch.channels_last) for one in found[:2])

        wanted = [u, *(one for one in exact if one is not None)]
        by_u, *by_others = torch.autograd.grad(z, wanted, upstream.double(), retain_graph=True)
        expected = torch.autograd.grad(u, (seen, weights), taken(by_u.float()))
        by_x = torch.empty_like(x) if inside > 3 else None
        with residual.Sums(((layer,),), 2, x.device) as sums:
            found_by_u, by_other = layer.backward(upstream, found, given, sums.of(0, 0), summed, by_x, add)
            sums.by_weights(0, [(0, x, found_by_u, False)])
        by_w, *by_parameters = [one for one in sums.gradients() if one is not None]
        assert relative(found_by_u, by_u) < rounding
        if inside > 3:
            assert relative(by_x, expected[0] + add) < close
        assert relative(by_w, expected[1]) < close
        by_parameters[2:] = [by_other] if summed else by_parameters[2:]
        for one, other_one in zip(by_parameters, by_others, strict=True):
            assert relative(one, other_one) < close
        assert by_other is upstream or summed


def check_networks(device: str = "cpu") -> None:
    """Logits and gradients of a ResNet with all blocks at once and with eager layers; where somebody looks at a layer
    it goes by itself."""
    torch.manual_seed(0)
    went, real, residual.KINDS = [], ResNet._at_once, ("ieee",)
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
            logits = model(x)
            loss = F.cross_entropy(logits, labels)
            found.append([logits.detach(), *torch.autograd.grad(loss, list(model.parameters()))])
        assert went[-2] is None and went[-1] is not None
        for one, other in zip(*found, strict=True):
            assert relative(one, other.double()) < 2e-5
        with torch.no_grad():
            assert relative(model(x[:1]), found[0][0][:1].double()) < 2e-5 and went[-1] is not None
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


CHECKS = [(check_layers, "ieee"), (check_layers, "tf32"), (check_networks, "ieee")]


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
    assert not goes(images=last(2, 3, 8, 8).requires_grad_()) and not goes(images=last(2, 3, 8, 8).double())
    assert not goes(images=last(1, 3, 72, 72))
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
    """What three steps of a product have there: the pixels' block, and the weights'."""
    for inside, outside, stride, side in product((3, 16, 32, 64), (16, 32, 64), (1, 2), (1, 3)):
        layer = Layer((32, 32), (32 // stride, 32 // stride), (inside, outside), side, stride, side // 2)
        if inside > 3:
            forward, backward = layer._blocks(backward=False), layer._blocks(backward=True)
            of_x = forward["BLOCK_P"] * forward["BLOCK_C"] + forward["BLOCK_C"] * outside
            of_u = backward["BLOCK_Q"] * backward["BLOCK_N"] + backward["BLOCK_N"] * inside
            assert 3 * 4 * max(of_x, of_u) <= 227 << 10


def test_networks_work_where_triton_is_not_installed():
    script = "import sys; sys.modules['triton'] = None; import torch; from sgmcmc.models import ResNet\n"
    script += "print(ResNet(depth=8)(torch.zeros(1, 3, 8, 8)).shape[1])"
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=120)
    assert ended.stdout == "10\n", ended.stderr
