"""The schema of a run's settings: their names, types and defaults, what they can be, and ways of saying one thing.

A setting typed ``Any`` is cast by ``experiments.values.cast``, which knows how to say what is wrong with it.
Nothing here imports torch: mistakes and ``--help`` are quick.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore

from experiments.resolved import FRICTION, STEP
from sgmcmc.samplers import POLICIES

CONF = Path(__file__).resolve().parent.parent / "conf"
GROUPS = ("data", "model", "sampler", "schedule", "experiment", "scale")
BLOCKS = ("tune", "warm_start", "quick", "smoke")  # of settings, which no file of conf/ fills

VIEWS = 162  # two flips of 9 × 9 crops
NETWORK_STARTS = ("he", "torch")
WARM_START = {"init": None, "epochs": 3, "lr": 0.1, "momentum": 0.5, "batch_size": 100, "weight_decay": 0.0}


@dataclass
class DataSettings:
    name: str = "none"
    root: str | None = None
    train_size: Any = None
    ood: str | None = None


@dataclass
class SamplerSettings:
    name: str = "???"
    word: str | None = None
    refresh: str | None = None
    alpha: Any = None
    acceptance: str | None = None
    delta: Any = None
    decision_batch: Any = None
    epsilon: Any = None
    sigma: Any = None
    gradient: str | None = None
    ends: str | None = None
    minibatches: str | None = None
    beta: Any = None
    b: Any = None


@dataclass
class ScheduleSettings:
    name: str = "constant"
    direction: str | None = None
    every: Any = None
    factor: Any = None


@dataclass
class TuneSettings:
    target: Any = None
    trajectory: str | None = None


@dataclass
class WarmStartSettings:
    epochs: Any = None
    lr: Any = None
    momentum: Any = None
    batch_size: Any = None
    weight_decay: Any = None
    init: str | None = None


@dataclass
class Settings:
    """Every setting of a run; ``model`` has its own dataclass for each model, in ``MODELS``."""

    name: str | None = None
    output: str | None = None
    seed: Any = 0
    device: str = "auto"
    dtype: str = "float32"
    chains: Any = None
    data: DataSettings = field(default_factory=DataSettings)
    model: Any = None
    sampler: SamplerSettings = field(default_factory=SamplerSettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    scale: str = "paper"
    lr: Any = None
    step_size: Any = None
    momentum_decay: Any = None
    friction: Any = None
    epochs: Any = None
    epochs_per_cycle: Any = None
    cycles: Any = None
    steps_per_cycle: Any = None
    burn_in: Any = 0
    thin: Any = 1
    keep: Any = "all"
    log_every: Any = None
    save_every: Any = None
    save_minutes: Any = None
    temperature: Any = 1.0
    batch_size: Any = None
    init: str | None = None
    warm_start: WarmStartSettings = field(default_factory=WarmStartSettings)
    mass: Any = None
    mass_cycles: Any = None
    tune: TuneSettings = field(default_factory=TuneSettings)
    augmentation: str | None = None
    views: Any = None
    trace: Any = None
    trace_cycles: Any = None
    compile: Any = None
    graph: Any = None
    together: Any = None
    progress: bool | None = None
    debug: bool = False
    points: Any = None  # an experiment's paired settings, of which ``point`` chooses one
    point: Any = None
    quick: dict[str, Any] = field(default_factory=dict)
    smoke: dict[str, Any] = field(default_factory=dict)


@dataclass
class Resnet20:
    name: str = "resnet20"
    norm: str = "frn"
    conv_bias: bool = False
    prior: str = "cin"
    pad: str = "torch"
    width: int = 16
    flat_norms: bool = False


@dataclass
class Mlp:
    name: str = "mlp"
    hidden: list[int] = field(default_factory=lambda: [500, 256])
    prior_variance: float = 2000.0


@dataclass
class Logistic:
    name: str = "logistic"
    prior_variance: float = 100.0
    standardise: bool = True


@dataclass
class DoubleWell:
    name: str = "double_well"
    noise: float = 0.0


@dataclass
class Banana:
    name: str = "banana"
    noise: float = 0.0


@dataclass
class Mixture:
    name: str = "mixture"
    noise: float = 0.0


@dataclass
class Gaussian:
    name: str = "gaussian"
    dim: int | None = None
    covariance: Any = 1.0
    mean: Any = 0.0
    noise: float = 0.0


@dataclass
class GaussianPairs:
    name: str = "gaussian_pairs"
    pairs: int = 1
    start: list[float] | None = None
    noise: float = 0.0


@dataclass
class Quartic:
    name: str = "quartic"
    dim: int = 1
    cubic: float = 1.0
    linear: float = 0.0
    noise: float = 0.0


@dataclass
class MixedBinary:
    name: str = "mixed"
    binary: int = 20
    sd: float = 0.04
    every: int = 1
    noise: float = 0.0


@dataclass
class HierarchicalRegression:
    name: str = "hierarchical_regression"
    size: int = 100
    features: int = 10
    tau_prior: list[float] = field(default_factory=lambda: [2.0, 1.0])
    sigma_prior: list[float] = field(default_factory=lambda: [2.0, 1.0])


@dataclass
class LogisticGenerated:
    name: str = "logistic_generated"
    size: int = 10000
    features: int = 10
    prior_variance: float = 100.0


@dataclass
class LocationMixture:
    name: str = "location_mixture"
    size: int = 100


MODELS = {
    model().name: model
    for model in (
        Resnet20,
        Mlp,
        Logistic,
        DoubleWell,
        Banana,
        Mixture,
        Gaussian,
        GaussianPairs,
        Quartic,
        MixedBinary,
        HierarchicalRegression,
        LogisticGenerated,
        LocationMixture,
    )
}
CHOICES = {
    "dtype": ("float32", "float64"),
    "sampler.refresh": POLICIES["refresh"],
    "sampler.acceptance": POLICIES["acceptance"],
    "sampler.gradient": ("full", "minibatch"),
    "sampler.ends": ("exact", "minibatch"),
    "sampler.minibatches": ("independent", "shuffled"),
    "schedule.direction": ("forward", "random"),
    "tune.trajectory": ("auto",),
    "warm_start.init": NETWORK_STARTS,
    "augmentation": ("none", "averaged", "random"),
    "data.ood": ("notmnist",),
    "model.norm": ("frn", "bn", "gn", "none"),
    "model.prior": ("cin", "fan_in", "unit"),
    "model.pad": ("torch", "keras"),
}

# Ways of saying one thing: exactly or at most one of each is left in a resolved configuration.
LENGTH = ("epochs", "cycles")
CYCLE = ("epochs_per_cycle", "steps_per_cycle")
WAYS = (STEP, FRICTION, LENGTH, CYCLE)


def register() -> None:
    """Put the schema where Hydra finds it; harmless when repeated."""
    store = ConfigStore.instance()
    store.store(name="schema", node=Settings)
    for name, model in MODELS.items():
        # A plain dict: an experiment's settings of its own model must not clash with one chosen instead.
        store.store(group="model/schema", name=name, node=asdict(model()))


register()


def options(group: str) -> list[str]:
    """The names that ``group=`` can take: the files of ``conf/<group>``."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def settings() -> list[str]:
    """The dotted names of every setting of every model, and of the groups."""
    names = list(GROUPS) + dotted(Settings)
    for model in MODELS.values():
        names += [f"model.{name}" for name in dotted(model)]
    return list(dict.fromkeys(names))


def dotted(schema, kind: str = "") -> list[str]:
    """The dotted names of the settings of a dataclass, with those of the dataclasses in it; of those of a ``kind``."""
    names = []
    for one in fields(schema):
        inner = one.default_factory() if callable(one.default_factory) else None
        if is_dataclass(inner):
            names += [f"{one.name}.{name}" for name in dotted(type(inner), kind)]
        elif one.name not in ("quick", "smoke", "model", "points") and one.type.startswith(kind):
            names.append(one.name)
    return names
