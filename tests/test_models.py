"""Networks: their parameter counts, filter response normalisation against its formula, Keras' padding."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sgmcmc.data import Dataset
from sgmcmc.errors import SettingError
from sgmcmc.models import MLP, FilterResponseNorm, ResNet, build
from sgmcmc.models.normalisation import _respond, _respond_backward
from sgmcmc.models.resnet import SameConv2d


def count(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        ({"norm": "bn"}, 272_474),  # the GGMC paper as run
        ({"norm": "bn", "conv_bias": True, "pad": "keras"}, 273_258),  # Wenzel et al.
        ({"norm": "frn"}, 272_826),  # no thresholds before the residual sums, plain relu after them
        ({"norm": "frn", "conv_bias": True}, 273_610),
        ({"norm": "gn"}, 272_474),
        ({"norm": "none"}, 270_906),
    ],
)
def test_resnet20_parameter_counts(settings, parameters):
    assert count(ResNet(depth=20, width=16, **settings)) == parameters


def test_mlp_parameter_count_and_hidden():
    """Relu follows every layer but the last: logits may be negative."""
    assert count(MLP()) == 523_326
    assert count(MLP(4, hidden=[], classes=3)) == 15
    torch.manual_seed(0)
    deep = MLP(4, hidden=[5, 6, 7], classes=3)
    assert count(deep) == 25 + 36 + 49 + 24
    images = torch.randn(9, 1, 2, 2)
    x = images.view(9, 4).T
    for number, (weight, bias) in enumerate(zip(*[iter(deep.parameters())] * 2, strict=True), 1):
        x = weight @ x + bias[:, None]
        x = x * (x > 0) if number < 4 else x
    assert x.min() < 0 and torch.allclose(deep(images), x.T, atol=1e-6)


def test_bn_resnet20_has_65_tensors_and_no_convolution_bias():
    model = ResNet(norm="bn")
    assert len(list(model.parameters())) == 65
    assert [name for name, _ in model.named_parameters() if "conv" in name and "bias" in name] == []


@pytest.mark.parametrize("norm", ["frn", "bn", "gn", "none"])
@pytest.mark.parametrize("pad", ["torch", "keras"])
def test_any_image_size(norm, pad):
    for channels, height, width in [(1, 8, 8), (3, 32, 32), (2, 9, 13)]:
        model = ResNet(depth=8, width=4, norm=norm, pad=pad, in_channels=channels, classes=7)
        assert model(torch.randn(2, channels, height, width)).shape == (2, 7)


def formula(x, gamma, beta, tau=None):
    """Equations 1 to 3 of the filter response normalisation paper, left to autograd."""
    per_channel = (slice(None), None, None)
    y = gamma[per_channel] * x / (x.pow(2).mean((2, 3), keepdim=True) + 1e-6).sqrt() + beta[per_channel]
    return y if tau is None else torch.maximum(y, tau[per_channel])


@pytest.mark.parametrize(
    ("norm", "pad", "bias"),
    [
        ("frn", "torch", False),
        ("frn", "keras", True),
        ("bn", "keras", True),
        ("gn", "torch", True),
        ("none", "torch", False),
    ],
)
def test_resnet_by_hand(norm, pad, bias):
    """Two blocks a stack, of images whose sides are unequal and become odd, against the same operations written out."""
    torch.manual_seed(0)
    model = ResNet(depth=14, width=6, norm=norm, pad=pad, conv_bias=bias, in_channels=2, classes=5).double()
    for p in model.parameters():
        nn.init.normal_(p, std=0.3)

    def convolve(x, layer, stride=1):
        if layer.weight.shape[2] == 3:  # one zero all round; Keras, at stride 2: none above and left of an even size
            bottom, right = x.shape[2:]
            first = [right % 2, bottom % 2] if (pad, stride) == ("keras", 2) else [1, 1]
            x = F.pad(x, [first[0], 1, first[1], 1])
        return F.conv2d(x, layer.weight, layer.bias, stride)

    def normalise(x, layer, activate):
        if norm == "frn":
            assert len(list(layer.parameters())) == 2 + activate
            return formula(x, *layer.parameters())
        if norm != "none":
            groups = {6: 2, 12: 4, 24: 8}[x.shape[1]]  # at most 8 that divide the channels
            alike = x.transpose(0, 1).flatten(1) if norm == "bn" else x.reshape(len(x) * groups, -1)
            mean, var = alike.mean(1, keepdim=True), alike.var(1, correction=0, keepdim=True)
            y = (alike - mean) / (var + 1e-5).sqrt()
            x = y.view(x.transpose(0, 1).shape).transpose(0, 1) if norm == "bn" else y.view(x.shape)
            weight, shift = layer.parameters()
            x = x * weight[:, None, None] + shift[:, None, None]
        return F.relu(x) if activate else x

    images = torch.randn(3, 2, 10, 12, dtype=torch.float64)
    x = normalise(convolve(images, model.conv), model.norm, True)
    for block, stride in zip(model.blocks, [1, 1, 2, 1, 2, 1], strict=True):
        y = normalise(convolve(x, block.conv1, stride), block.norm1, True)
        y = normalise(convolve(y, block.conv2), block.norm2, False)
        if stride == 2:
            x = normalise(convolve(x, block.shortcut[0], 2), block.shortcut[1], False)
        x = F.relu(x + y)
    wanted = x.sum((2, 3)) / 9 @ model.linear.weight.T + model.linear.bias
    torch.testing.assert_close(model(images), wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("threshold", [True, False])
@pytest.mark.parametrize("channels_last", [True, False])
def test_filter_response_norm_is_its_formula(threshold, channels_last):
    torch.manual_seed(1)
    layer = FilterResponseNorm(3, threshold).double()
    for p in layer.parameters():
        nn.init.normal_(p)
    x = 3 * torch.randn(4, 3, 5, 6, dtype=torch.float64)
    x = x.contiguous(memory_format=torch.channels_last) if channels_last else x
    x.requires_grad_()
    upstream = torch.randn_like(x)
    y, wanted = layer(x), formula(x, *layer.parameters())
    torch.testing.assert_close(y, wanted, rtol=1e-13, atol=1e-13)
    leaves = [x, *layer.parameters()]
    ours = torch.autograd.grad((y * upstream).sum(), leaves)
    theirs = torch.autograd.grad((wanted * upstream).sum(), leaves)
    z, rate = _respond(x, *layer.parameters())  # what is compiled
    torch.testing.assert_close(z, wanted, rtol=1e-13, atol=1e-13)
    graphs = _respond_backward(upstream, x, rate, *layer.parameters())
    for a, b, c in zip(ours, theirs, graphs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)
        torch.testing.assert_close(c, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("threshold", [True, False])
def test_filter_response_norm_gradcheck(threshold):
    torch.manual_seed(2)
    layer = FilterResponseNorm(2, threshold).double()
    for p in layer.parameters():
        nn.init.normal_(p)
    x = torch.randn(2, 2, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: layer(x), (x, *layer.parameters()))


def test_filter_response_norm_sees_one_image_at_a_time():
    torch.manual_seed(3)
    model = ResNet(depth=8, width=4, norm="frn").double()
    images = torch.randn(6, 3, 8, 8, dtype=torch.float64)
    alone = torch.cat([model(image[None]) for image in images])
    torch.testing.assert_close(model(images), alone, rtol=1e-12, atol=1e-12)


def test_filter_response_norm_of_a_black_image_is_finite():
    layer = FilterResponseNorm(2)
    x = torch.zeros(1, 2, 4, 4, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.isfinite().all() and layer.gamma.grad.isfinite().all()


@pytest.mark.parametrize("sizes", [(7, 8), (8, 9), (32, 7)])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("kernels", [(1, 1), (2, 2), (3, 3), (5, 2)])
def test_keras_same_padding(sizes, strides, kernels):
    """Output pixel i of ceil(size/stride) looks at input pixels from stride·i − total // 2 on, zeros outside."""
    conv = SameConv2d(1, 1, kernels, strides, bias=False).double()
    x = torch.randn(1, 1, *sizes, dtype=torch.float64)
    y = conv(x)
    sides = list(zip(sizes, strides, kernels, strict=True))
    pixels = [math.ceil(size / stride) for size, stride, _ in sides]
    assert y.shape == (1, 1, *pixels)
    up, left = (
        max((number - 1) * stride + kernel - size, 0) // 2
        for number, (size, stride, kernel) in zip(pixels, sides, strict=True)
    )
    wide = F.pad(x, [left, 13, up, 13])
    for i in range(pixels[0]):
        for j in range(pixels[1]):
            row, col = strides[0] * i, strides[1] * j
            seen = wide[0, 0, row : row + kernels[0], col : col + kernels[1]]
            assert abs((seen * conv.weight[0, 0]).sum() - y[0, 0, i, j]) < 1e-12


def test_keras_and_torch_padding_differ_only_where_the_stride_is_2():
    x = torch.randn(1, 3, 32, 32)
    same, ours = SameConv2d(3, 2, 3, 2), nn.Conv2d(3, 2, 3, 2, 1)
    ours.load_state_dict(same.state_dict())
    assert (same(x) - ours(x)).abs().max() > 1e-3
    shifted = F.conv2d(F.pad(x, [0, 1, 0, 1]), same.weight, same.bias, stride=2)
    assert torch.equal(same(x), shifted)


def test_build_and_refusals():
    images = Dataset(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.zeros(4, dtype=torch.int64), 10)
    rows = Dataset(torch.zeros(4, 13, dtype=torch.float64), torch.zeros(4, dtype=torch.int64), 2)
    assert build("resnet20", images, depth=8).conv.in_channels == 1
    assert count(build("mlp", rows, hidden=[3])) == 14 * 3 + 4 * 2
    for call, words in [
        (lambda: build("resnet20", rows), "^model=resnet20: needs images"),
        (lambda: build("resnet21", images), "resnet20"),
        (lambda: ResNet(depth=19), "6n"),
        (lambda: ResNet(norm="batch"), "frn"),
        (lambda: ResNet(pad="same"), "keras"),
        (lambda: ResNet(width=0), "at least 1"),
        (lambda: MLP(4, hidden=[0]), "at least 1"),
    ]:
        with pytest.raises(SettingError, match=words):
            call()
