"""The kernels for CUDA devices, in Triton's interpreter where there is no device: what PyTorch's own compute."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sgmcmc import convolution
from sgmcmc.convolution import Convolution
from sgmcmc.data import Dataset
from sgmcmc.inductor import CannotCompile
from sgmcmc.launch import launch
from sgmcmc.models import ResNet
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.random import Random, at_once_, injections, rounds_

needs_triton = pytest.mark.skipif(convolution.triton is None, reason="Triton is not installed")
gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
# (channels in and out, pixels a side, stride, kernel): every kind in a ResNet-20, and sides that no block's divides.
SHAPES = [
    (16, 16, 8, 1, 3),
    (16, 32, 8, 2, 3),
    (32, 64, 6, 2, 1),
    (64, 64, 5, 1, 3),
    (32, 32, 7, 1, 3),
    (3, 16, 9, 1, 3),
]


CLOSE = 5e-6  # float32 sums of a hundred to ten thousand products


def last(*shape: int, device: str = "cpu") -> Tensor:
    return torch.randn(*shape, device=device).to(memory_format=torch.channels_last)


def relative(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other).norm() / other.norm())


def taken(x: Tensor) -> Tensor:
    """x as the products take it, in float64: of TF32 the nearest number, half a step away from 0."""
    if convolution.precision(x) == "ieee":
        return x.double()
    step = 2.0 ** (torch.frexp(x.double()).exponent - 11)
    return (x.double().abs() / step + 0.5).floor() * step * x.sign()


def check_products(device: str = "cpu") -> None:
    """Each of the three products, of batches of 5 and of none, against float64's of what they take."""
    torch.manual_seed(0)
    for inside, outside, size, stride, side in SHAPES:
        padding = side // 2
        x, w = last(5, inside, size, size, device=device), last(outside, inside, side, side, device=device)
        exact = F.conv2d(taken(x), taken(w), None, stride, padding)
        slope = torch.randn_like(exact).float().to(memory_format=torch.channels_last)
        by_x = torch.nn.grad.conv2d_input(x.shape, taken(w), taken(slope), stride, padding)
        by_w = torch.nn.grad.conv2d_weight(taken(x), w.shape, taken(slope), stride, padding)
        found = convolution.by_weights(x, slope, w.shape, stride, padding)
        assert relative(found, by_w) < CLOSE and found.is_contiguous(memory_format=torch.channels_last)
        assert not convolution.by_weights(x[:0], slope[:0], w.shape, stride, padding).any()
        if convolution.fits(w):
            found = convolution.product(x, w, stride, padding)
            assert relative(found, exact) < CLOSE and found.is_contiguous(memory_format=torch.channels_last)
            broken = x.clone()
            broken[0, 0, 0, 0] = torch.tensor(0x7FFFFFFF, dtype=torch.int32).view(torch.float32)  # a GPU's nan
            assert convolution.product(broken, w, stride, padding)[0].isnan().any()
        if convolution.fits(w) and stride == 1:
            assert relative(convolution.product(slope, w, 1, padding, backward=True), by_x) < CLOSE


def check_network(device: str = "cpu") -> None:
    """Logits and gradients of a ResNet, with a bias and with Keras' padding, layer by layer compiled and not."""
    torch.manual_seed(0)
    close = {"ieee": 2e-5, "tf32": 0.2}[
        convolution.precision(torch.empty(0, device=device))
    ]  # TF32 moves single gradients by a tenth
    for more in ({"conv_bias": True}, {"pad": "keras", "norm": "none"}):
        model = ResNet(depth=8, **more).to(device, memory_format=torch.channels_last)
        x, labels = last(3, 3, 8, 8, device=device), torch.tensor([1, 2, 3], device=device)
        layers, seen = [layer for layer in model.modules() if isinstance(layer, Convolution)], []
        for layer in layers:
            layer.register_forward_hook(lambda _, __, out, seen=seen: seen.append("_Convolution" in _nodes(out)))
        found = []
        for compiled in (False, True):
            for layer in layers:
                layer.compiled = compiled
            logits = model(x)
            loss = F.cross_entropy(logits, labels)
            found.append([logits.detach(), *torch.autograd.grad(loss, list(model.parameters()))])
        assert seen == [False] * len(layers) + [True] * len(layers)
        for one, other in zip(*found, strict=True):
            assert relative(one, other.double()) < close


def _nodes(out: Tensor) -> str:
    """The names of what made a tensor, and of what made that."""
    node = out.grad_fn
    return " ".join([node.name(), *(one.name() for one, _ in node.next_functions if one is not None)])


def check_words(device: str = "cpu") -> None:
    """Threefry as one kernel, of keys in every corner and numbers of counters about a block's."""
    torch.manual_seed(0)
    for number in (1, 5, 1023, 1024, 1025, 3000):
        for key in ((0, 0), (1, 0xFFFFFFFF), (0x80000000, 16), (0x12345678, 0x9ABCDEF0)):
            one, other = torch.randint(-(2**31), 2**31, (2, number), device=device).to(torch.int32)
            expected = one.clone(), other.clone()
            rounds_(injections(key), *expected)
            assert at_once_(key, one, other)
            assert torch.equal(one, expected[0]) and torch.equal(other, expected[1])


CHECKS = [
    *((check, precision) for check in (check_products, check_network) for precision in ("ieee", "tf32")),
    (check_words, "ieee"),
]  # precisions have other blocks; numbers are float32's in the interpreter


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize("check, precision", CHECKS)
def test_the_kernels_compute_what_pytorch_s_do(check, precision, interpreter):
    interpreter.run(check, precision)


def test_what_the_kernels_cannot_take_goes_the_usual_way(monkeypatch):
    """Another device, dtype, groups, channels that fill no block, images whose channels do not lie last, or that do not
    fit, or are too many for 32-bit offsets."""
    x = last(2, 16, 4, 4)
    layer = Convolution(16, 32, 3, padding=1).to(memory_format=torch.channels_last)
    layer.compiled = True
    assert not layer.takes(x) and layer(x).shape == (2, 32, 4, 4)
    monkeypatch.setattr(convolution, "on_device", lambda x: True)
    takes = Convolution(16, 32, 3, padding=1).to(memory_format=torch.channels_last).takes
    assert takes(x) and not takes(x.double()) and not takes(x.contiguous())
    assert not takes(last(2, 32, 4, 4)) and not takes(x[0]) and not Convolution(16, 32, 5).takes(x)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)  # which knows no device "meta"
    layer = layer.to("meta")
    for number, fits in ((1 << 20, True), (1 << 21, False)):  # of 6² pixels with 32 channels
        many = torch.empty(number, 16, 4, 4, device="meta", memory_format=torch.channels_last)
        assert layer.takes(many) == fits
    monkeypatch.undo()
    monkeypatch.setattr(convolution, "on_device", lambda x: True)
    with torch.autocast("cpu", torch.bfloat16):
        assert not takes(x)
    for layer in (
        Convolution(16, 48, 3),
        Convolution(16, 32, 3, groups=2),
        Convolution(16, 32, 3, dilation=2),
        Convolution(16, 32, (3, 1)),
        Convolution(16, 32, 3, padding="same"),
        Convolution(16, 32, 3, padding=1, padding_mode="circular"),
        Convolution(16, 32, 3).double(),
    ):
        assert not layer.to(memory_format=torch.channels_last).takes(x)


class TestOnAGPU:
    pytestmark = gpu

    @pytest.mark.parametrize("check, precision", CHECKS)
    def test_the_kernels_compute_what_pytorch_s_do(self, check, precision, monkeypatch):
        monkeypatch.setattr(torch.backends.cudnn.conv, "fp32_precision", precision)
        check("cuda")

    def test_compiled_layers_have_the_posterior_of_eager_ones_and_repeat_themselves(self):
        """U to float32's rounding in U's full precision, the same bits twice, forwards alone and with a gradient."""
        torch.manual_seed(0)
        data = Dataset(torch.randn(60, 3, 8, 8), torch.arange(60) % 10, 10)
        model = ResNet(depth=8, norm="frn")
        exact = NetworkPotential(ResNet(depth=8, norm="frn"), data, "cin", device="cuda", dtype=torch.float64)
        target = NetworkPotential(model, data, "cin", device="cuda")
        theta = target.initial(1, Random(0)).cuda()
        target.compile_layers(20, backward=True)
        assert all(layer.compiled for layer in target.model.modules() if isinstance(layer, Convolution))
        first, (second, slope) = target.potential(theta), target.potential_and_gradient(theta)
        assert torch.equal(first, second) and torch.equal(first, target.potential(theta))
        assert torch.equal(slope, target.potential_and_gradient(theta)[1])
        value, by = exact.potential_and_gradient(theta.double())
        assert abs(float(first - value)) < 1e-3 and relative(slope, by) < 1e-4


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (RuntimeError("Triton Error [CUDA]: device kernel image is invalid"), CannotCompile),
        (RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"), RuntimeError),
        (torch.OutOfMemoryError("CUDA out of memory"), torch.OutOfMemoryError),
        (torch.AcceleratorError("CUDA error"), torch.AcceleratorError),
    ],
)
def test_what_the_device_lacks_is_no_failure_to_compile(error, seen):
    """Else a run would go on eagerly, or be left for another machine, on a device on which nothing works any more."""

    class Kernel:
        def __getitem__(self, grid):
            raise error

    with pytest.raises(seen) as raised:
        launch(Kernel(), (1,), torch.zeros(1))
    assert type(raised.value) is seen
