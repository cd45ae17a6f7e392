"""U of a network's weights: what it is, that its gradient is its own, that no batch split shows, what is inexact."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import kstest
from torch import nn
from torch.func import functional_call

from sgmcmc.data import Dataset, load
from sgmcmc.data.augment import VIEWS, augment
from sgmcmc.errors import SettingError
from sgmcmc.kernel import make_kernel
from sgmcmc.models import MLP, ResNet
from sgmcmc.models.normalisation import FilterResponseNorm
from sgmcmc.models.resnet import SameConv2d
from sgmcmc.potentials.flat import _train_recurrent
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.potentials.weights import prior_std
from sgmcmc.precision import full_precision
from sgmcmc.random import Random
from sgmcmc.sampling import sample
from sgmcmc.warm_start import sgd


@pytest.fixture(scope="module")
def digits():
    return load("digits", train_size=60).train


def tiny(norm="frn", **settings):
    return ResNet(depth=8, width=4, norm=norm, in_channels=1, **settings)


def make(data, model=None, dtype=torch.float64, **settings):
    return NetworkPotential(model or tiny(), data, dtype=dtype, **settings)


class Unfit(torch.nn.Module):
    """A module that is no function of the datum and the weights alone."""

    def __init__(self, mistake):
        super().__init__()
        self.layer, self.mistake, self.kept = torch.nn.Linear(64, 10), mistake, None

    def forward(self, x):
        y = self.layer(x.flatten(1))
        if self.mistake == "dropout":
            return torch.nn.functional.dropout(y)
        if self.mistake == "batch":
            return y - y.mean(0)
        if self.mistake == "kept":
            self.kept = y if self.kept is None or len(self.kept) != len(y) else self.kept
            return self.kept
        if self.mistake == "squeezed":
            return y.squeeze()
        if self.mistake == "statistics":
            return torch.nn.functional.batch_norm(y, None, None, training=True)
        return y


UNFIT = {
    "dropout": "gives a datum other logits alone than beside another one, or when it is asked again",
    "batch": "gives a datum other logits alone than beside another one",
    "kept": "gives a datum other logits alone than beside another one, or when it is asked again",
    "squeezed": r"must give logits \[1, 10\] of one datum, gave \[1\]",
    "statistics": "does not take one datum by itself: Expected more than 1 value per channel",
}


@pytest.mark.parametrize("mistake", UNFIT)
def test_a_module_that_is_no_function_of_a_datum_is_refused(digits, mistake):
    with pytest.raises(SettingError, match=f"^model=Unfit: {UNFIT[mistake]}"):
        make(digits, Unfit(mistake))


def _by_an_optimizer(module, data, before=True, after=False):
    module.train()
    optimizer = torch.optim.Adam(module.parameters())
    if before:
        optimizer.zero_grad()
    F.cross_entropy(module(data.take(torch.arange(9)).double()), data.targets[:9]).backward()
    optimizer.step()
    if after:
        optimizer.zero_grad()


def _by_another(module, data):
    other = make(data, module, prior=4.0)
    other.predict(3 * start(other), data)  # leaves its own statistics of batch normalisation
    return other


USES = {
    "another target": _by_another,
    "another dtype": lambda module, data: make(data, module, torch.float32).potential(
        torch.zeros(1, sum(map(torch.numel, module.parameters())))
    ),
    "gradients anew": _by_an_optimizer,
    "no gradients": lambda module, data: _by_an_optimizer(module, data, before=False, after=True),
    "vector": lambda module, data: nn.utils.vector_to_parameters(
        torch.zeros(sum(map(torch.numel, module.parameters())), dtype=torch.float64), module.parameters()
    ),
    "zero_grad": lambda module, data: module.zero_grad(),
    "assigned": lambda module, data: module.load_state_dict(
        {name: value.clone() + 1 for name, value in module.state_dict().items()}, assign=True
    ),
    "frozen": lambda module, data: module[1].requires_grad_(False),
    "train": lambda module, data: module.train(),
    "eval": lambda module, data: module.eval(),
    "float": lambda module, data: module.float(),
}


def test_a_module_may_give_its_logits_in_a_buffer_of_its_own(digits):
    """Each call writes over what the call before gave: it was taken for another answer."""

    class Buffered(torch.nn.Linear):
        kept = {}

        def forward(self, x):
            logits = super().forward(x.flatten(1))
            return logits if torch.is_grad_enabled() else self.kept.setdefault(len(x), logits).copy_(logits)

    plain, buffered = (make(digits, module, evaluation_batch=20) for module in (MLP(64, []), Buffered(64, 10)))
    theta = start(plain)
    assert torch.equal(buffered.potential(theta), plain.potential(theta))
    assert torch.equal(buffered.predict(theta, digits), plain.predict(theta, digits))


@pytest.mark.parametrize("kind", ["alone", "together", "batch norm"])
@pytest.mark.parametrize("use", USES)
def test_a_module_that_others_use_meanwhile_is_this_target_s_at_each_theta(digits, use, kind):
    """U was that of weights which no θ changed, so that the prior was sampled, or random."""
    norm = [nn.BatchNorm1d(8)] if kind == "batch norm" else []
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), *norm, nn.Dropout(0.3), nn.Linear(8, 10))
    potential, rows = make(digits, module, together=kind == "together"), torch.arange(60)[None]
    places = [scale * start(potential) for scale in (1.0, 0.5)]

    def asked(theta):
        once = potential.potential_and_gradient(theta)
        return potential.potential(theta), *once, potential.gradient(theta, rows), potential.predict(theta, digits)

    wanted = [asked(theta) for theta in places]
    other = USES[use](module, digits)
    for theta, before in reversed(list(zip(places, wanted, strict=True))):  # first where it was last
        assert all(map(torch.equal, asked(theta), before))
        torch.testing.assert_close(before[2], before[3])
        if use == "another target":
            assert torch.allclose(other.potential(theta) - other.prior(theta), before[0] - potential.prior(theta))


def test_what_is_not_sampled_keeps_its_values_whatever_another_target_samples(digits):
    module = MLP(64, [8])
    whole = make(digits, module)
    module.layers[0].requires_grad_(False)
    part, theta = make(digits, module), start(whole)
    value = part.potential(part.initial(1, Random(1)))
    for scale in (2.0, 3.0):
        whole.predict(scale * theta, digits)
        assert torch.equal(part.potential(part.initial(1, Random(1))), value)
    whole.predict(theta, digits)
    assert torch.equal(whole.state_dict(theta)["layers.0.weight"].flatten(), theta[0, : 64 * 8])


def test_a_module_s_own_values_need_not_be_finite_where_no_chain_starts(digits):
    module = Unfit(None)
    torch.nn.init.constant_(module.layer.weight, math.nan)
    potential = make(digits, module)
    assert bool(potential.potential(potential.initial(1, Random(1))).isfinite().all())


@pytest.mark.parametrize(
    "module",
    [MLP(64, [50]), tiny(conv_bias=True), torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))],
    ids=["mlp", "resnet", "linear"],
)
def test_a_start_as_pytorch_s_layers_have_it(digits, module):
    """Weights and the biases beside them uniform in ±1/√(fan in), what normalisations have left alone; a chain's own.

    A tensor of n values is uniform by Kolmogorov and Smirnov's test, p > 1e-6/tensors; PyTorch's own is below the same
    bound.
    """
    potential, chains = make(digits, module), 40
    theta = potential.initial(chains, Random(5), "torch")
    assert torch.equal(potential.initial(range(1, 3), Random(5), "torch"), theta[1:3])
    states = [potential.state_dict(theta[chain : chain + 1]) for chain in range(chains)]
    layers = {name: one for name, one in module.named_modules() if isinstance(one, (torch.nn.Linear, torch.nn.Conv2d))}
    for name, layer in layers.items():
        bound = layer.weight[0].numel() ** -0.5
        for kind, own in layer.named_parameters():
            values = torch.stack([state[f"{name}.{kind}"] for state in states]).flatten().double().numpy()
            assert kstest(values, "uniform", (-bound, 2 * bound)).pvalue > 1e-6 / len(layers)
            assert own.abs().max() <= bound
    left = potential.initial(1, Random(5))
    for name, value in potential.state_dict(theta[:1]).items():
        if name.rpartition(".")[0] not in layers:
            assert torch.equal(value, potential.state_dict(left)[name])


class Bare(torch.nn.Linear):
    """A linear layer that is the whole model, its weight a parameter of its own, frozen, or of a parametrization."""

    def __init__(self, how: str):
        super().__init__(64, 10)
        if how == "frozen":
            self.weight.requires_grad_(False)
        if how == "parametrized":
            torch.nn.utils.parametrizations.weight_norm(self)

    def forward(self, inputs):
        return super().forward(inputs.flatten(1))


@pytest.mark.parametrize("how", ["own", "frozen", "parametrized"])
def test_a_bias_starts_by_its_layer_s_fan_in_as_pytorch_s(digits, how):
    """Uniform in ±1/8: of 4,000 values none is above, and the largest above .99 of it but for a chance of 1e-17."""
    potential = make(digits, Bare(how))
    theta = potential.initial(400, Random(5), "torch")
    biases = torch.stack([potential.state_dict(theta[chain : chain + 1])["bias"] for chain in range(400)])
    assert 0.99 / 8 < biases.abs().max() <= 1 / 8


def test_a_start_of_another_name_is_refused(digits):
    with pytest.raises(SettingError, match="^init=pytorch: a network's training begins at he or torch"):
        make(digits, MLP(64, [5])).initial(1, Random(5), "pytorch")


def start(potential, seed=3):
    """A start with no parameter at its special value (scales 1, shifts 0)."""
    theta = potential.initial(1, Random(seed))
    return theta + 0.1 * Random(seed).normal("start", 7, 1, 1, potential.dim, theta.dtype)[0]


def brute_force(potential, model, theta, views=None, prior="fan_in", flat_norms=False):
    """U written with torch.distributions, one image at a time, from the state dict."""
    state = potential.state_dict(theta)
    data, total = potential.train, 0.0
    for i in range(len(data)):
        shown = [data.inputs[i : i + 1]]
        if views is not None:
            shown = [augment(shown[0], view.view(1).long()) for view in views[i]]
        for image in shown:
            logits = functional_call(model, state, (data.normalise(image).double(),))
            total -= torch.distributions.Categorical(logits=logits).log_prob(data.targets[i]).item() / len(shown)
    for name, std in prior_std(model, prior, flat_norms).items():
        if math.isfinite(std):
            normal = torch.distributions.Normal(0.0, torch.tensor(std, dtype=torch.float64))
            total -= normal.log_prob(state[name].double()).sum().item()
    return total


def test_potential_is_the_negative_log_joint(digits):
    for model, prior in [(tiny(), "cin"), (tiny("gn", conv_bias=True), "fan_in"), (MLP(64, [5]), 2000.0)]:
        potential = make(digits, model, prior=prior)
        theta = start(potential)
        wanted = brute_force(potential, model, theta, prior=prior)
        value = potential.potential(theta)
        assert value.shape == (1,) and value.dtype == torch.float64
        assert value.item() == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("augmentation", ["none", "averaged"])
def test_gradient_is_the_finite_difference_of_the_potential(digits, augmentation):
    """With the prior: its share of the gradient is large here, so a U or a gradient without it fails."""
    potential = make(digits, tiny(conv_bias=True), prior="cin", augmentation=augmentation, views=2)
    theta = start(potential)
    gradient = potential.gradient(theta)
    generator = torch.Generator().manual_seed(0)
    for direction in [*torch.randn(6, potential.dim, generator=generator, dtype=torch.float64), theta[0], gradient[0]]:
        step = 1e-5 * direction / direction.norm()
        change = (potential.potential(theta + step) - potential.potential(theta - step)).item() / 2
        assert change == pytest.approx((gradient[0] @ step).item(), rel=1e-5, abs=1e-8)


def test_each_tensor_has_its_gradient(digits):
    potential = make(digits, prior="unit")
    theta = start(potential)
    gradient = potential.gradient(theta)
    for name, where in potential.blocks:
        step = torch.zeros_like(theta)
        step[0, where] = 1e-6 * gradient[0, where] / gradient[0, where].norm()
        change = (potential.potential(theta + step) - potential.potential(theta - step)).item() / 2e-6
        assert change == pytest.approx(gradient[0, where].norm().item(), rel=1e-5), name


@pytest.mark.thorough
@pytest.mark.parametrize("augmentation", ["none", "averaged"])
def test_no_batch_split_shows_and_the_same_number_twice(digits, augmentation):
    potential = make(digits, augmentation=augmentation, views=3)
    theta = start(potential)
    whole, slope = potential.potential_and_gradient(theta)
    assert torch.equal(whole, potential.potential(theta)) and torch.equal(whole, potential.potential(theta))
    for split in (1, 7, 60, 61):
        potential.evaluation_batch = split
        assert potential.potential(theta).item() == pytest.approx(whole.item(), abs=1e-10)
        again, other = potential.potential_and_gradient(theta)
        assert again.item() == pytest.approx(whole.item(), abs=1e-10)
        torch.testing.assert_close(other, slope, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("augmentation", ["none", "averaged"])
def test_minibatches_average_to_the_full_gradient_and_potential(digits, augmentation):
    potential = make(digits, augmentation=augmentation, views=2)
    theta = start(potential)
    indices = Random(5).permutation("minibatch", 0, 1, potential.data_size * potential.views)
    parts = [potential.gradient(theta, batch) for batch in indices.split(10, 1)]
    torch.testing.assert_close(torch.stack(parts).mean(0), potential.gradient(theta), rtol=1e-9, atol=1e-9)
    estimates = [potential.estimate(theta, batch) for batch in indices.split(10, 1)]
    torch.testing.assert_close(torch.stack(estimates).mean(0), potential.potential(theta), rtol=1e-12, atol=1e-9)
    assert (parts[0] - parts[1]).abs().max() > 1e-3


def test_one_datum_is_a_data_set(digits):
    """Of which the normalised activations are counted, too."""
    potential = make(replace(digits, inputs=digits.inputs[:1], targets=digits.targets[:1]))
    assert potential.data_size == 1 and potential.normalised()[0] > 0


def test_averaged_views_against_brute_force(digits):
    model = tiny()
    potential = make(digits, model, augmentation="averaged", views=3, seed=4)
    theta, frozen = start(potential), potential._frozen
    assert frozen.shape == (60, 3) and int(frozen.max()) < VIEWS
    assert all(len(set(row)) == 3 for row in frozen.tolist())
    assert (potential.views, potential.shown) == (3, 180) and potential.inexact is None
    assert potential.potential(theta).item() == pytest.approx(brute_force(potential, model, theta, frozen), rel=1e-12)
    view, image = 2, 17  # one index of a minibatch: the N-fold gradient of that view of that image
    alone = potential.estimate(theta, torch.tensor([[image * 3 + view]])) - potential.prior(theta)
    shown = digits.normalise(augment(digits.inputs[image][None], frozen[image, view].view(1).long())).double()
    logits = functional_call(model, potential.state_dict(theta), (shown,))
    assert alone.item() == pytest.approx(60 * F.cross_entropy(logits, digits.targets[image][None]).item(), rel=1e-12)


def test_each_datum_s_loss_is_the_mean_over_its_views(digits):
    """And so are the columns of metrics that U leaves, of 180 = 25·7 + 5 views, shown here at once."""
    model = tiny()
    potential = make(digits, model, augmentation="averaged", views=3, evaluation_batch=7)
    theta = start(potential)
    shown = augment(digits.inputs.repeat_interleave(3, 0), potential._frozen.flatten().long())
    logits = functional_call(model, potential.state_dict(theta), (digits.normalise(shown).double(),))
    labels = digits.targets.repeat_interleave(3)
    nll = -logits.log_softmax(1)[torch.arange(180), labels]
    batch = torch.tensor([[17, 3, 17, 59, 0]])
    torch.testing.assert_close(potential.losses(theta, batch), nll.view(60, 3).mean(1)[batch], rtol=1e-12, atol=0)
    potential.potential(theta)
    wanted = {"train_nll": nll.mean().item(), "train_accuracy": (logits.argmax(1) == labels).double().mean().item()}
    assert potential.fit == pytest.approx(wanted, rel=1e-12) and wanted["train_accuracy"] > 0


def test_frozen_views_are_the_seeds_and_more_contain_the_fewer(digits):
    tables = [make(digits, augmentation="averaged", views=k, seed=s)._frozen for k, s in [(2, 1), (5, 1), (2, 2)]]
    assert torch.equal(tables[0], tables[1][:, :2]) and not torch.equal(tables[0], tables[2])
    every = make(digits, augmentation="averaged", views=VIEWS)._frozen
    assert torch.equal(every.long().sort(1).values, torch.arange(VIEWS).expand(60, -1))
    many = replace(digits, inputs=digits.inputs[:1].expand(4100, -1, -1, -1), targets=digits.targets[:1].expand(4100))
    rows = make(many, MLP(64, []), augmentation="averaged", views=2, seed=1)._frozen  # an image's views are its own
    assert torch.equal(rows[:60], tables[0])
    assert torch.equal(rows.long(), Random(1).permutation("augmentation", -1, 4100, 162)[:, :2])


def test_random_augmentation_is_flagged_and_a_function_of_its_counter(digits):
    potential = make(digits, augmentation="random")
    assert "augmentation" in potential.inexact and (potential.views, potential.shown) == (VIEWS, 60)
    theta = start(potential)
    first = potential.potential(theta)
    assert torch.equal(first, potential.potential(theta))
    potential.counter += 1
    assert abs(potential.potential(theta).item() - first.item()) > 1e-3
    last = torch.tensor([[60 * VIEWS - 1]])
    assert potential.gradient(theta, last).isfinite().all()
    identity = torch.arange(60)[None] * VIEWS + 40
    plain = make(digits, model=potential.model)
    torch.testing.assert_close(plain.estimate(theta, torch.arange(60)[None]), plain.potential(theta))
    torch.testing.assert_close(potential.estimate(theta, identity), plain.potential(theta))


def test_random_augmentation_draws_every_view_equally_and_anew(digits):
    """Of 16,200 images, 100 of each view: χ² of 161 is below 260, and 100 views stay, ± 55: false alarm 1e-6."""
    many = replace(digits, inputs=digits.inputs.repeat(270, 1, 1, 1), targets=digits.targets.repeat(270))
    potential = make(many, nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), augmentation="random")
    seen = []
    for potential.counter in (3, 4):
        shown = torch.cat(list(potential._sweep(1)))
        assert torch.equal(shown // VIEWS, torch.arange(16_200))
        seen.append(shown % VIEWS)
        assert (seen[-1].bincount(minlength=VIEWS) - 100).square().sum() / 100 < 260
        theta = potential.initial(1, Random(1))
        torch.testing.assert_close(potential.potential(theta), potential.estimate(theta, shown[None]))
    assert abs((seen[0] == seen[1]).sum() - 100) < 55


def test_batch_norm_is_flagged_and_its_potential_depends_on_the_split(digits):
    potential = make(digits, tiny("bn"), flat_norms=True)
    assert "batch normalisation" in potential.inexact
    assert make(digits).inexact is None
    theta = start(potential)
    assert potential.evaluation_batch == 125
    whole = potential.potential(theta)
    assert torch.equal(whole, potential.potential(theta))
    potential.evaluation_batch = 20
    assert abs(potential.potential(theta).item() - whole.item()) > 1e-3


def test_batch_norm_that_keeps_no_statistics_is_refused(digits):
    norm = nn.BatchNorm2d(1, track_running_stats=False)
    with pytest.raises(SettingError, match="model=Sequential: has batch normalisation with track_running_stats=False"):
        make(digits, nn.Sequential(norm, nn.Flatten(), nn.Linear(64, 10)))


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (lambda: nn.InstanceNorm2d(1, track_running_stats=True), "instance normalisation with track_running_stats"),
        (lambda: nn.utils.parametrizations.spectral_norm(nn.Conv2d(1, 1, 1)), "spectral normalisation"),
        (lambda: nn.utils.spectral_norm(nn.Conv2d(1, 1, 1)), "spectral normalisation"),
    ],
)
def test_layers_that_go_by_what_they_remember_are_refused(digits, layer, said):
    """They would go by how they were initialised; an instance normalisation that remembers nothing is welcome."""
    with pytest.raises(SettingError, match=f"model=Sequential: has {said}"):
        make(digits, nn.Sequential(layer(), nn.Flatten(), nn.Linear(64, 10)))
    make(digits, nn.Sequential(nn.InstanceNorm2d(1), nn.Flatten(), nn.Linear(64, 10)))


@pytest.mark.parametrize("kind", ["parameter", "buffer"])
def test_complex_weights_are_refused(digits, kind):
    """Without, the imaginary part would be 0, whatever it is where the module was trained."""
    model, turn = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), torch.tensor([1 + 1j])
    if kind == "parameter":
        model[1].register_parameter("turn", nn.Parameter(turn))
    else:
        model[1].register_buffer("turn", turn)
    with pytest.raises(SettingError, match=r"model=Sequential: has the complex tensor 1\.turn: hold its real and"):
        make(digits, model)


def test_complex_numbers_of_real_weights_are_welcome():
    """As a view of them only at even places of the vector, which the sentence tells."""

    class Turned(nn.Linear):
        def __init__(self, join):
            super().__init__(4, 4)
            self.turn, self.join = nn.Parameter(torch.tensor([[0.3, 0.2]] * 3)), join

        def forward(self, x):
            return torch.fft.irfft(torch.fft.rfft(super().forward(x)) * self.join(self.turn), n=4)

    data = Dataset(torch.randn(6, 4), torch.arange(6) % 4, 4)
    assert make(data, Turned(torch.view_as_complex)).dim == 26
    assert make(data, nn.Sequential(nn.PReLU(), Turned(lambda w: torch.complex(w[..., 0], w[..., 1])))).dim == 27
    said = r"^model=Sequential: cannot view its parameters as complex .*: make torch.complex\(w"
    with pytest.raises(SettingError, match=said):
        make(data, nn.Sequential(nn.PReLU(), Turned(torch.view_as_complex)))


def test_batch_norm_takes_the_statistics_of_each_batch(digits):
    """U is that of 60 = 25 + 25 + 10 images; predictions have the plain mean of the three batches' statistics."""
    potential, model = make(digits, tiny("bn"), prior="unit", evaluation_batch=25), tiny("bn").double()
    theta = start(potential)
    model.load_state_dict(potential.state_dict(theta), strict=False)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # torch's word for the plain mean
    images, nll = digits.normalise(digits.inputs).double(), 0.0
    for part in torch.arange(60).split(25):
        nll = nll - model(images[part]).log_softmax(1)[torch.arange(len(part)), digits.targets[part]].sum()
    nll.backward()
    value, gradient = potential.potential_and_gradient(theta)
    prior = -torch.distributions.Normal(0.0, 1.0).log_prob(theta).sum()
    assert value.item() == pytest.approx((nll + prior).item(), rel=1e-12)
    slopes = potential.state_dict(gradient - theta)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(slopes[name], parameter.grad, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(potential.predict(theta, digits)[0], model.eval()(images).softmax(1))


def test_batch_norm_predictions_are_a_function_of_theta_alone(digits):
    potential = make(digits, tiny("bn"))
    first, other = start(potential, 1), start(potential, 2)
    once = potential.predict(first, digits)
    potential.gradient(other, torch.arange(20)[None])
    potential.potential(other)
    assert torch.equal(potential.predict(first, digits), once)
    after = potential.predict(other, digits)
    potential.predict(first, digits)
    fresh = make(digits, tiny("bn"))
    assert torch.equal(fresh.predict(other, digits), after)
    assert torch.equal(fresh.predict(first, digits), once)
    parts = [potential.predict(first, digits.take(rows)) for rows in torch.arange(60).split(7)]
    torch.testing.assert_close(torch.cat(parts, 1), once)  # not of the batch that is predicted


def test_a_variance_may_be_numpy_s():
    assert prior_std(nn.Linear(1, 1), np.float32(4)) == {"weight": 2.0, "bias": 2.0}


def test_priors():
    model = ResNet(norm="bn", conv_bias=True)
    cin, fan = prior_std(model, "cin"), prior_std(model, "fan_in")
    for name, parameter in model.named_parameters():
        if parameter.ndim == 4:
            inside, area = parameter.shape[1], parameter.shape[2] * parameter.shape[3]
            assert cin[name] == pytest.approx(math.sqrt(2 / inside))
            assert fan[name] == pytest.approx(math.sqrt(2 / (inside * area)))
    assert cin["linear.weight"] == fan["linear.weight"] == pytest.approx(math.sqrt(2 / 64))
    assert cin["linear.bias"] == cin["conv.bias"] == cin["norm.0.weight"] == 1
    assert set(prior_std(model, "unit").values()) == {1.0}
    assert set(prior_std(model, 2000).values()) == set(prior_std(MLP(), 2000).values()) == {math.sqrt(2000)}
    assert list(prior_std(nn.Sequential(nn.LayerNorm([3, 4]), nn.Linear(4, 5)), "cin").values()) == [1, 1, 0.5**0.5, 1]
    flat = [name for name, std in prior_std(model, "cin", flat_norms=True).items() if math.isinf(std)]
    assert sum(dict(model.named_parameters())[name].numel() for name in flat) == 1_568
    frn = prior_std(ResNet(norm="frn"), "cin")
    assert {frn[name] for name in frn if name.split(".")[-1] in ("gamma", "beta", "tau")} == {1.0}
    for bad in ("he", 0.0, -1, math.inf):
        with pytest.raises(SettingError, match="prior"):
            prior_std(model, bad)


def test_flat_norms_leave_no_trace_in_the_potential(digits):
    model = tiny("gn")
    potential = make(digits, model, flat_norms=True)
    theta = start(potential)
    assert potential.potential(theta).item() == pytest.approx(
        brute_force(potential, model, theta, flat_norms=True), rel=1e-12
    )


def test_prior_differences_are_exact_in_float32(digits):
    """Prior energies near 1e9 whose difference is 1: summed in float32 it would be lost."""
    potential = make(digits, MLP(64, [50]), torch.float32, prior=2.0)
    theta = torch.full((1, potential.dim), 1000.0)
    moved = theta.clone()
    moved[0, 0] += 2e-3
    difference = (potential.prior(moved) - potential.prior(theta)).item()
    assert difference == pytest.approx((moved.double().square() - theta.double().square()).sum().item() / 4, rel=1e-6)


def test_potential_keeps_full_precision_when_the_process_does_not(digits):
    potential = make(digits, MLP(64, [100, 100]), torch.float32)
    theta = start(potential)
    wanted, before = potential.potential(theta), torch.get_float32_matmul_precision()
    predicted = potential.predict(theta, digits)
    try:
        torch.set_float32_matmul_precision("medium")
        backends = (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul)
        allowed = [backend.fp32_precision for backend in backends]
        recurrent = (torch.backends.mkldnn.rnn, torch.backends.cudnn.rnn)
        with full_precision():
            assert {backend.fp32_precision for backend in (*backends, *recurrent)} == {"ieee"}
        assert torch.equal(potential.potential(theta), wanted)
        assert torch.equal(potential.potential_and_gradient(theta)[0], wanted)
        assert torch.equal(potential.predict(theta, digits), predicted)
        assert torch.get_float32_matmul_precision() == "medium" and "ieee" not in allowed
        assert [backend.fp32_precision for backend in backends] == allowed  # gradients may go on with less
    finally:
        torch.set_float32_matmul_precision(before)


def test_recurrent_layers_are_in_training_mode_without_dropout_on_a_gpu():
    """In evaluation mode cuDNN gives no gradient of theirs."""
    model = nn.Sequential(nn.LSTM(3, 4, num_layers=2, dropout=0.5), nn.Dropout(0.5)).eval()
    _train_recurrent(model)
    assert model[0].training and model[0].dropout == 0 and not model[1].training


def test_full_precision_lasts_until_the_last_thread_has_left():
    """Of two threads the first to leave gave the other's U less, and the other left the process with more for good."""
    kind, before = torch.backends.mkldnn.matmul, torch.backends.mkldnn.matmul.fp32_precision
    first, second, seen = full_precision(), full_precision(), []
    try:
        kind.fp32_precision = "bf16"
        for step in (first.__enter__, second.__enter__, lambda: first.__exit__(None, None, None)):
            step()
            seen.append(kind.fp32_precision)
        second.__exit__(None, None, None)
        assert seen == ["ieee"] * 3 and kind.fp32_precision == "bf16"
    finally:
        kind.fp32_precision = before


def test_autocast_is_for_gradients_alone_and_keeps_no_weights(digits):
    """It kept those of the first θ: U was the prior's and a number, and gradients were of another place."""
    potential = make(digits, MLP(64, [50]), torch.float32)
    batch, places = torch.arange(60)[None], [scale * start(potential) for scale in (1.0, 0.5)]
    wanted = [(potential.potential(theta), potential.gradient(theta, batch)) for theta in places]
    with torch.autocast("cpu", torch.bfloat16):
        for theta, (value, slope) in zip(places, wanted, strict=True):
            rough = potential.gradient(theta, batch)
            assert 1e-4 < float((rough - slope).norm() / slope.norm()) < 0.05
            assert torch.equal(potential.potential(theta), value)
            assert torch.equal(potential.potential_and_gradient(theta)[0], value)
        assert torch.is_autocast_enabled("cpu")


def test_float32_potential_is_near_the_float64_one(digits):
    model = tiny()
    exact = make(digits, model)
    theta = start(exact)
    value, slope = exact.potential_and_gradient(theta)
    rough = make(digits, model, torch.float32)
    single, gradient = rough.potential_and_gradient(theta.float())
    assert single.dtype == torch.float64 and gradient.dtype == torch.float32
    assert abs(single.item() - value.item()) < 1e-2
    torch.testing.assert_close(gradient.double(), slope, rtol=1e-3, atol=1e-2)
    nll = rough._nll(theta.float(), torch.arange(60)).double().sum().item()  # each datum's in float32, their sum not
    assert rough._likelihood(theta.float(), backward=False).item() == pytest.approx(nll, abs=1e-9)


@pytest.mark.parametrize("convolve", [nn.Conv2d, SameConv2d])
def test_a_strided_1x1_convolution_of_few_channels_has_its_own_gradient(convolve):
    """Where oneDNN's backward pass writes beyond its memory, the process crashes, or the gradient is another one: on
    processors with AVX2 and no AVX-512. So on none is that pass asked."""
    images = Dataset(torch.rand(40, 3, 15, 16, generator=torch.Generator().manual_seed(2)), torch.arange(40) % 2, 2)

    def module():
        torch.manual_seed(3)
        narrow = convolve(4, 6, 1, (2, 3)), convolve(6, 5, 1, 2)
        return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), *narrow, nn.Flatten(), nn.Linear(60, 2))

    plain, batch = module().double(), torch.arange(40)[None]
    potential = NetworkPotential(module(), images, prior=1e12)
    assert {layer.stride for layer in potential.model.modules() if isinstance(layer, nn.Conv2d)} == {(1, 1)}
    theta = potential.from_state_dict(plain.float().state_dict())
    F.cross_entropy(plain.double()(images.inputs.double()), images.targets, reduction="sum").backward()
    for _ in range(10):
        found = potential.state_dict(potential.gradient(theta, batch))
        for name, parameter in plain.named_parameters():
            torch.testing.assert_close(found[name].double(), parameter.grad, rtol=1e-4, atol=1e-4)


def test_parameters_and_their_gradients_are_views_of_one_vector(digits):
    potential = make(digits)
    theta = start(potential)
    places = [(p.data_ptr(), p.grad.data_ptr()) for p in potential.model.parameters()]
    first = potential.gradient(theta, torch.arange(10)[None])
    second = potential.gradient(2 * theta, torch.arange(10, 20)[None])
    assert [(p.data_ptr(), p.grad.data_ptr()) for p in potential.model.parameters()] == places
    inside = range(potential.flat.slope.data_ptr(), potential.flat.slope.data_ptr() + 8 * potential.dim)
    assert all(grad in inside for _, grad in places)
    full = potential.potential_and_gradient(theta)[1]
    kept = full.clone()
    potential.potential_and_gradient(2 * theta)
    assert not torch.equal(first, second) and torch.equal(full, kept)  # what was handed out stays what it was
    assert torch.equal(first, potential.gradient(theta, torch.arange(10)[None]))


def test_gradients_are_added_to_the_slope_whether_they_are_one_vector_s_parts_or_not(digits):
    """Parts in their order, in another one, of one vector at other places, and tensors by themselves."""
    flat = make(digits).flat
    values = torch.arange(2.0 * flat.dim, dtype=flat.dtype)
    parts = flat.shaped(values[5 : 5 + flat.dim])
    first = flat.shaped(values[: flat.dim])[0]
    crossed = [part.clone() if part.ndim < 4 else part.contiguous() for part in parts]
    for slopes in (parts, [part.clone() for part in parts], crossed, [first, *flat.shaped(values[-flat.dim :])[1:]]):
        expected = torch.cat([one.movedim(1, -1).flatten() if one.ndim == 4 else one.flatten() for one in slopes])
        flat.slope.fill_(1.0)
        flat.add(slopes)
        assert torch.equal(flat.slope, 1 + expected)


def test_blocks_and_state_dict(digits):
    model = tiny()
    given = {name: p.detach().clone() for name, p in model.named_parameters()}
    potential = make(digits, model, torch.float32)
    theta = potential.from_state_dict(given)
    assert theta.shape == (1, potential.dim)
    back = potential.state_dict(theta)
    assert list(back) == list(given) == [name for name, _ in potential.blocks]
    assert all(torch.equal(back[name], given[name]) and back[name].is_contiguous() for name in given)
    covered = torch.cat([torch.arange(potential.dim)[where] for _, where in potential.blocks])
    assert torch.equal(covered, torch.arange(potential.dim))
    for name, where in potential.blocks:
        assert theta[0, where].sum().item() == pytest.approx(given[name].sum().item(), abs=1e-4)
    with pytest.raises(SettingError, match="missing in the state dict$"):
        potential.from_state_dict({})
    with pytest.raises(SettingError, match="in the model"):
        potential.from_state_dict({**given, "linear.bias": torch.zeros(3)})


def test_initial_is_hes(digits):
    potential = NetworkPotential(ResNet(in_channels=1), digits)
    theta = potential.initial(3, Random(1))
    assert theta.shape == (3, potential.dim) and theta.dtype == torch.float32
    assert torch.equal(potential.initial(range(1, 3), Random(1)), theta[1:])
    assert not torch.equal(theta[0], theta[1])
    for name, where in potential.blocks:
        part, shape = theta[:, where], dict(potential.model.named_parameters())[name].shape
        if len(shape) > 1:  # 5 standard errors of a standard deviation: false alarm 6e-7 each
            std = math.sqrt(2 / shape[1:].numel())
            assert part.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * part.numel()))
        elif name == "linear.bias":
            assert part.abs().max() < 10**-0.5 and part.unique().numel() == 30
        else:
            assert torch.equal(part, torch.full_like(part, float("gamma" in name)))


def test_a_lazy_batch_norm_is_a_batch_norm(digits):
    """Shapes come of the data before statistics do."""
    made = []
    for norm in (nn.LazyBatchNorm1d(), nn.BatchNorm1d(8)):
        torch.manual_seed(0)
        made.append(make(digits, nn.Sequential(nn.Flatten(), nn.Linear(64, 8), norm, nn.ReLU(), nn.Linear(8, 10))))
    lazy, plain = made
    assert lazy.blocks == plain.blocks
    assert torch.equal(lazy.potential(start(lazy)), plain.potential(start(plain)))


def test_any_module_will_do(digits):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(64, 8), nn.LazyLinear(10)
            self.norm, self.dropout = nn.LayerNorm(8), nn.Dropout(0.5)
            self.power = nn.Parameter(torch.tensor(1.5))
            self.frozen = nn.Parameter(torch.ones(8), requires_grad=False)
            self.idle = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return self.last(self.dropout(self.norm(self.first(x.flatten(1))).tanh() * self.power * self.frozen))

    model = Odd()
    potential = make(digits, model)
    assert potential.dim == 65 * 8 + 90 + 16 + 1 + 2 and potential.inexact is None
    theta = start(potential)
    value, gradient = potential.potential_and_gradient(theta)
    torch.testing.assert_close(potential.gradient(theta, torch.arange(60)[None]), gradient)
    idle = dict(potential.blocks)["idle"]  # in no logit: the prior's share, of variance 1, is its gradient
    assert torch.equal(gradient[:, idle], theta[:, idle])
    assert torch.equal(value, potential.potential(theta))  # no dropout
    assert value.item() == pytest.approx(brute_force(potential, model, theta), rel=1e-12)
    step = 1e-5 * gradient / gradient.norm()
    change = (potential.potential(theta + step) - potential.potential(theta - step)).item() / 2e-5
    assert change == pytest.approx(gradient.norm().item(), rel=1e-6)


@pytest.mark.parametrize("normalised", [False, True])
def test_a_float64_network_sees_what_float64_rows_tell_apart(normalised):
    rows = torch.tensor([[1.0], [1 + 1e-12]], dtype=torch.float64)
    about = {"mean": 1.0, "std": 1.0} if normalised else {}
    potential = make(Dataset(rows, torch.tensor([0, 1]), 2, **about), nn.Linear(1, 2))
    shift = 0.0 if normalised else 1.0
    theta = torch.tensor([[1.0, -1.0, -shift, shift]], dtype=torch.float64)
    losses = potential.losses(theta, torch.arange(2)[None])[0]  # of logits x - 1 and 1 - x
    assert losses[0] == math.log(2) and losses[1] > math.log(2)
    first, second = potential.predict(theta, potential.train)[0]
    assert second[0] > first[0]


def test_rows_of_features_and_tied_weights():
    rows = Dataset(torch.randn(30, 5, dtype=torch.float64), torch.arange(30) % 2, 2)
    layer = nn.Linear(5, 5)
    model = nn.Sequential(layer, nn.Tanh(), layer, nn.Linear(5, 2))
    potential = make(rows, model)
    assert potential.dim == 30 + 12
    theta = start(potential)
    assert potential.potential(theta).item() == pytest.approx(
        potential.estimate(theta, torch.arange(30)[None]).item(), rel=1e-12
    )


def test_raw_pixels_are_not_predicted_as_if_they_were_normalised(digits):
    potential = make(digits)
    with pytest.raises(SettingError, match="inputs=uint8: are raw: give them in an sgmcmc.Dataset, or as Dataset.take"):
        potential.predict(start(potential), digits.inputs)


def test_a_float32_network_s_log_odds_go_beyond_17():
    """Where a softmax in float32 would give probabilities of 1."""
    data = Dataset(torch.tensor([[1.0], [-0.5]]), torch.tensor([0, 1]), 2)
    potential = make(data, nn.Linear(1, 2, bias=False), torch.float32)
    p = potential.predict(torch.tensor([[12.0, -12.0]]), data)[0]
    assert p.dtype == torch.float64
    torch.testing.assert_close(p.logit()[:, 0], torch.tensor([24.0, -12.0], dtype=torch.float64), rtol=1e-4, atol=0)


def test_what_cannot_be_predicted_is_refused(digits):
    small = Dataset(torch.zeros(2, 1, 4, 4), torch.zeros(2).long(), 10)
    with pytest.raises(SettingError, match=r"^inputs of test=\[1, 4, 4\]: must be \[1, 8, 8\], as those of train"):
        make(digits, test=small)
    potential = make(digits)
    with pytest.raises(SettingError, match="^inputs=ndarray: must be a torch.Tensor or an sgmcmc.Dataset"):
        potential.predict(start(potential), np.zeros((2, 1, 8, 8)))


def test_predict(digits):
    model = tiny()
    potential = make(digits, model, torch.float32, evaluation_batch=13)
    theta = start(potential)
    probabilities = potential.predict(theta, digits)
    assert probabilities.shape == (1, 60, 10) and probabilities.dtype == torch.float64
    torch.testing.assert_close(probabilities.sum(2), torch.ones(1, 60, dtype=torch.float64))
    nll = -probabilities[0, torch.arange(60), digits.targets].log().sum()
    assert (nll + potential.prior(theta)).item() == pytest.approx(potential.potential(theta).item(), abs=1e-3)
    torch.testing.assert_close(potential.predict(theta, digits.take(torch.arange(60))), probabilities)
    # other data are normalised as the training data are, whatever they say
    other = Dataset(digits.inputs, digits.targets, 10, digits.mean + 1, digits.std, digits.scale)
    assert torch.equal(potential.predict(theta, other), probabilities)


class Viewed(torch.nn.Module):
    """A network whose last layer takes what convolutions gave by ``flatten`` or by ``view``."""

    def __init__(self, flatten: bool):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Conv2d(3, 2, 3), nn.ReLU())
        self.last, self.flatten = nn.Linear(32, 10), flatten

    def forward(self, x):
        x = self.body(x)
        return self.last(x.flatten(1) if self.flatten else x.view(len(x), -1))


def test_a_module_that_views_its_images_gets_them_and_its_kernels_as_it_was_made(digits):
    viewed, flattened = make(digits, Viewed(False)), make(digits, Viewed(True))
    assert flattened.flat.images_last and not viewed.flat.images_last
    theta = start(viewed)
    other = flattened.from_state_dict(viewed.state_dict(theta))
    assert not torch.equal(theta, other) and torch.equal(theta.sort(1).values, other.sort(1).values)
    torch.testing.assert_close(viewed.potential(theta), flattened.potential(other))
    slope, same = viewed.state_dict(viewed.gradient(theta)), flattened.state_dict(flattened.gradient(other))
    torch.testing.assert_close(slope, same)


def test_a_module_that_views_what_frozen_kernels_gave_gets_its_images_as_it_was_made():
    """A head alone is sampled, on a backbone of before: it was refused."""

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.last = nn.Conv2d(2, 3, 3).requires_grad_(False), nn.Linear(12, 2)

        def forward(self, x):
            return self.last(self.body(x).view(len(x), -1))

    images = torch.randn(6, 2, 4, 4, generator=torch.Generator().manual_seed(1))
    potential, module = make(Dataset(images, torch.arange(6) % 2, 2), Head()), Head().double()
    theta = start(potential)
    module.load_state_dict(potential.state_dict(theta))
    assert potential.dim == 26 and not potential.flat.images_last
    torch.testing.assert_close(potential.predict(theta, images)[0], module(images.double()).softmax(-1))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_what_a_module_writes_in_place_is_neither_the_data_s_nor_theta_s():
    """It was in the data's rows, and in the θ of chains that go together."""
    generator = torch.Generator().manual_seed(3)
    rows, labels = torch.randn(9, 4, generator=generator), torch.arange(9) % 2
    kept = rows.clone()
    for together in (False, True):
        potential = NetworkPotential(
            nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2)), Dataset(rows, labels, 2), together=together
        )
        theta = potential.initial(2 if together else 1, Random(1))
        first = potential.predict(theta, rows), potential.predict(theta, potential.train), potential.potential(theta)
        assert torch.equal(first[0], first[1]) and torch.equal(rows, kept)
        weight, bias = theta[0, :8].view(2, 4), theta[0, 8:]
        wanted = F.linear(kept.relu(), weight, bias).double().softmax(-1)
        torch.testing.assert_close(first[0][0], wanted, rtol=1e-5, atol=1e-6)

    class Renormed(nn.Embedding):
        def forward(self, x):
            return super().forward(x.long()).mean(1)

    words = Dataset(torch.randint(5, (9, 3), generator=generator), labels, 2)
    both = NetworkPotential(Renormed(5, 2, max_norm=0.3), words, dtype=torch.float64, together=True)
    theta = both.initial(2, Random(1))
    before = theta.clone()
    values = both.potential(theta)
    assert torch.equal(theta, before)
    alone = NetworkPotential(Renormed(5, 2, max_norm=0.3), words, dtype=torch.float64)
    torch.testing.assert_close(values, torch.cat([alone.potential(one) for one in before.split(1)]))


@pytest.mark.filterwarnings("ignore:.*weight_norm", "ignore:There is a performance drop")
def test_chains_of_weights_that_a_hook_computes_start_together():
    """A run after another one: the hook has left the layer a weight that nobody may read any more."""
    data = Dataset(torch.randn(9, 3), torch.arange(9) % 2, 2)
    alone, both = (
        NetworkPotential(nn.utils.weight_norm(nn.Linear(3, 2)), data, together=together) for together in (False, True)
    )
    both.potential(both.initial(2, Random(1)))
    for how in ("he", "torch"):
        assert torch.equal(both.initial(3, Random(1), how), alone.initial(3, Random(1), how))


@pytest.mark.parametrize("places", ["all", "first"])
def test_a_transformer_s_padded_places_are_the_same_with_gradients_and_without(places):
    """In evaluation mode PyTorch leaves them 0 where no gradient is taken: another U at a trajectory's ends."""

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
            self.words, self.body, self.last = nn.Embedding(9, 4), nn.TransformerEncoder(layer, 2), nn.Linear(4, 2)

        def forward(self, x):
            found = self.body(self.words(x.long()), src_key_padding_mask=x == 0)
            return self.last(found.mean(1) if places == "all" else found[:, 0])

    words = torch.randint(1, 9, (8, 5), generator=torch.Generator().manual_seed(1))
    words[4:, 3:] = 0  # which the first two have not
    potential = make(Dataset(words, torch.arange(8) % 2, 2), Encoder())
    theta = start(potential)
    value = potential.potential_and_gradient(theta)[0]
    torch.testing.assert_close(potential.potential(theta), value, rtol=1e-10, atol=0)
    losses = potential.losses(theta, torch.arange(8)[None])
    torch.testing.assert_close(-potential.predict(theta, words)[0, range(8), potential.train.targets].log(), losses[0])


def test_losses_of_half_precision_logits_are_float32s():
    """As those of a module with autocast inside are."""

    class Half(nn.Linear):
        def forward(self, x):
            return super().forward(x).bfloat16()

    rows = torch.randn(20, 4, generator=torch.Generator().manual_seed(3))
    potential = NetworkPotential(Half(4, 2), Dataset(rows, torch.arange(20) % 2, 2))
    theta = start(potential)
    found = potential.losses(theta, torch.arange(20)[None])[0]
    wanted = -potential.predict(theta, rows)[0, range(20), potential.train.targets].log()
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_state_dict_is_all_that_a_module_needs(digits):
    """Of batch normalisation the statistics that ``predict`` takes, and a parameter's second name."""
    potential = make(digits, tiny("bn"))
    theta = start(potential)
    probabilities = potential.predict(theta, digits)
    fresh = tiny("bn").double().eval()
    for at in (theta, theta[0], theta[0].numpy()):
        potential._load(start(potential, 4))
        fresh.load_state_dict(potential.state_dict(at))
        with torch.no_grad():
            logits = fresh(digits.take(torch.arange(60)).double())
        torch.testing.assert_close(logits.softmax(1)[None], probabilities)
    with pytest.raises(SettingError, match="in the model, and missing in the state dict, which has model, ep"):
        potential.from_state_dict({"model": potential.state_dict(theta), "epoch": 3})
    with pytest.raises(ValueError, match=rf"theta is \[2, {potential.dim}\]: a state dict is of one draw"):
        potential.state_dict(torch.zeros(2, potential.dim))


@pytest.mark.thorough
def test_batch_normalisation_of_one_datum_that_is_left_over_is_refused():
    rows = Dataset(torch.randn(126, 5), torch.arange(126) % 2, 2)
    module = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    with pytest.raises(SettingError, match="evaluation_batch=125: leaves one datum of 126 alone"):
        make(rows, module)
    with pytest.raises(SettingError, match="evaluation_batch=1: leaves one datum of 126 alone"):
        make(rows, module, evaluation_batch=1)
    for one in (module, torch.compile(module, backend="eager")):  # whose error is another one
        potential = make(rows, one, evaluation_batch=63)
        assert potential.least_batch == 2
    with pytest.raises(SettingError, match="batch_size=1: is one datum, of which batch normalisation"):
        make_kernel("ggmc", potential, 0.01, batch_size=1)
    with pytest.raises(SettingError, match=r"warm_start\.batch_size=25: leaves one datum of 126 alone"):
        sgd(potential, torch.zeros(1, potential.dim), random=Random(0), batch_size=25)


class Cut(nn.Sequential):
    """Features whose gradient does not arrive."""

    def __init__(self, of_all):
        super().__init__(nn.Linear(64, 5), nn.Linear(5, 10), nn.Linear(3, 3))
        self.of_all = of_all

    def forward(self, x):
        features, logits, _ = self
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.of_all):
            return logits(features(x.flatten(1)).detach())


@pytest.mark.parametrize("of_all", [False, True])
def test_a_module_that_stops_a_gradient_is_refused_unless_it_is_frozen(digits, of_all):
    with pytest.raises(SettingError, match="model=Cut: gives no gradient of 0.weight, which its logits depend on"):
        make(digits, Cut(of_all))
    frozen = Cut(False)
    frozen[0].requires_grad_(False)
    assert make(digits, frozen).dim == 60 + 12  # with what is in no logit


class Held(nn.Module):
    """A linear layer of 64 pixels, and weights of another kind."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.last, self.first = (nn.Linear(64, out, dtype=torch.float64) for out in (10, 64))
        self.layers, self.kept = [self.first], self.first.weight.tanh() if kind == "graph" else None
        if kind in ("list", "frozen"):
            del self.first
            self.layers[0].requires_grad_(kind == "list")
        if kind == "sparse":
            self.first = nn.Embedding(16, 64, sparse=True, dtype=torch.float64)

    def forward(self, x):
        x = x.flatten(1)
        if self.kind == "cached" and self.kept is None:
            self.kept = self.first.weight.tanh()
        if self.kind in ("graph", "cached"):
            return self.last(x @ self.kept.T)
        if self.kind == "sparse":
            return self.last(self.first(x[:, 0].abs().long().clamp(0, 15)))
        if self.kind == "slope":  # of its inputs, which are a leaf of their own
            with torch.enable_grad():
                x = x.detach().clone().requires_grad_()
                return self.last(torch.autograd.grad(self.layers[0](x).tanh().sum(), x, create_graph=True)[0])
        return self.last(self.layers[0](x) if self.kind != "drawn" else self.first(x) + 1e-9 * torch.rand(()))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("list", r"depends on a tensor \[64, 64\] that requires a gradient and is none of its parameters: make it one"),
        ("graph", "keeps something that it computed of its parameters once: compute it in forward, each time"),
        ("sparse", "gives a sparse gradient of first.weight: leave sparse=True out"),
    ],
)
def test_weights_that_would_not_be_sampled_are_refused(digits, kind, said):
    with pytest.raises(SettingError, match=f"^model=Held: {said}"):
        make(digits, Held(kind))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("cached", "the logits of Held do not depend on first.weight, first.bias, of which draws have the prior's law"),
        (
            "drawn",
            "Held draws random numbers where its logits are computed: if they change them, U is no",
        ),
        ("slope", None),
        ("frozen", None),
        ("", None),
    ],
)
def test_what_may_be_a_mistake_in_a_module_is_told(digits, kind, said):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        NetworkPotential(Held(kind), digits, dtype=torch.float64)
    told = [str(one.message) for one in warned if "Held" in str(one.message)]
    assert len(told) == (said is not None) and all(one.startswith(said) for one in told)
    assert all(one.filename == __file__ for one in warned)


def test_an_expert_that_other_data_ask_for_is_no_mistake(recwarn):
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right, self.idle = (nn.Linear(2, 2) for _ in range(3))

        def forward(self, x):
            gates = x[:, :1] > 0
            if not gates.any():
                return self.left(x)
            return torch.where(gates, self.right(x), self.left(x))

    rows = torch.tensor([[-1.0, 0.3], [-2.0, 0.4], [1.0, 0.5]])
    NetworkPotential(Experts(), Dataset(rows, torch.tensor([0, 1, 0]), 2))
    (told,) = recwarn
    assert str(told.message).startswith("the logits of Experts do not depend on idle.weight, idle.bias, of which")


class Picky(nn.Linear):
    """As torchvision's transformers are."""

    def forward(self, x):
        torch._assert(x.shape[-1] == 28, "Wrong image height")
        return super().forward(x)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_a_scripted_module_is_one_too():
    plain = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    data = Dataset(torch.randn(6, 3), torch.arange(6) % 2, 2)
    scripted = make(data, torch.jit.script(plain))
    theta, potential = start(scripted), make(data, plain)
    for one, other in zip(scripted.potential_and_gradient(theta), potential.potential_and_gradient(theta), strict=True):
        torch.testing.assert_close(one, other)


def test_features_that_a_network_gave_are_data_without_its_gradients():
    rows, labels = torch.randn(6, 3), torch.arange(6) % 2
    given, plain = (make(Dataset(one, labels, 2), nn.Linear(3, 2)) for one in (nn.Linear(3, 3)(rows), rows))
    assert not given.train.inputs.requires_grad and given.dim == plain.dim
    assert given.gradient(start(given)).isfinite().all()


def test_refusals(digits):
    rows = Dataset(torch.zeros(4, 3, dtype=torch.float64), torch.zeros(4, dtype=torch.int64), 2)
    for call, words in [
        (lambda: make(digits, augmentation="flips"), "averaged"),
        (lambda: make(rows, MLP(3, [2], 2), augmentation="random"), "images"),
        (lambda: make(digits, augmentation="averaged", views=0), "1 to 162"),
        (lambda: make(digits, augmentation="averaged", views=163), "1 to 162"),
        (lambda: make(digits, evaluation_batch=0), "at least 1"),
        (lambda: make(digits, evaluation_batch="ten"), "evaluation_batch='ten': must be a whole number"),
        (lambda: make(None), "data=NoneType: must be an sgmcmc.Dataset"),
        (lambda: make(digits, augmentation="averaged", views=2.5), "whole number from 1 to 162"),
        (lambda: make(digits, MLP), "model=MLP: must be a torch.nn.Module"),
        (lambda: make(digits, lambda x: x), "model=<lambda>: must be a torch.nn.Module"),
        (lambda: make(digits, dtype=torch.float16), "dtype=torch.float16: must be"),
        (lambda: make(digits, device="gpu"), "device=gpu: must be"),
        (lambda: make(digits, MLP(63)), "inputs of shape"),
        (lambda: make(digits, Picky(64, 10)), r"inputs of shape \[2, 1, 8, 8\]: Wrong image height"),
        (lambda: make(rows, nn.Embedding(3, 2)), "inputs go in as floats, of which x.long.. makes indices"),
        (lambda: make(digits, MLP(64, classes=9)), r"logits \[2, 10\]"),
        (lambda: make(digits, nn.Sequential(nn.Flatten(), nn.AdaptiveAvgPool1d(10))), "no parameters"),
    ]:
        with pytest.raises(SettingError, match=words):
            call()
    potential = make(digits)
    for theta in (torch.zeros(2, potential.dim), torch.zeros(potential.dim), torch.zeros(1, 3)):
        with pytest.raises(ValueError, match="one chain at a time"):
            potential.potential(theta)


@pytest.mark.thorough
def test_compiled_layers_are_a_targets_own():
    """Another target of the module is eager, and each finds its own layers again; what fails leaves them eager."""
    data = Dataset(torch.randn(12, 3, 4, 4), torch.arange(12) % 3, 3)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), FilterResponseNorm(4), nn.Flatten(), nn.Linear(16, 3))
    one = NetworkPotential(module, data, evaluation_batch=5)
    theta = one.initial(1, Random(0))
    eager = one.potential(theta)
    one.compile_layers(4)
    compiled = one.potential(theta)
    assert module[1].compiled
    other = NetworkPotential(module, data, evaluation_batch=5)
    assert not module[1].compiled and torch.equal(other.potential(theta), eager)
    assert torch.equal(one.potential(theta), compiled) and module[1].compiled
    assert torch.equal(other.potential(theta), eager) and not module[1].compiled
    one.uncompile_layers()
    assert torch.equal(one.potential(theta), eager) and not one.flat.sizes
    module[1].compiled = True  # somebody's
    assert torch.equal(one.potential(theta), eager) and not module[1].compiled


def test_an_eager_run_after_a_compiled_one_is_as_the_first_one_was():
    data = Dataset(torch.randn(300, 3, 4, 4), torch.arange(300) % 3, 3)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), FilterResponseNorm(4), nn.Flatten(), nn.Linear(16, 3))
    target = NetworkPotential(module, data)
    settings = {"steps": 3, "batch_size": 100, "cycles": 3, "step_size": 1e-3, "acceptance": "metropolis"}
    first, batch = sample(target, "ggmc", compile=False, **settings), target.evaluation_batch
    sample(target, "ggmc", compile=True, **settings)
    assert module[1].compiled and target.evaluation_batch != batch
    again = sample(target, "ggmc", compile=False, **settings)
    assert not module[1].compiled and target.evaluation_batch == batch
    assert torch.equal(again.draws, first.draws)
