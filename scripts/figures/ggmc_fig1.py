"""GGMC paper, Figure 1: one cycle of GGMC and HMC at four learning rates, with an exact acceptance probability."""

import tarfile
from pathlib import Path, PurePath

import numpy as np
import pandas as pd
import yaml
from matplotlib import colormaps, pyplot
from matplotlib.figure import Figure
from style import clean
from verdicts import limit

SOURCE = "GGMC paper, Figure 1"
BEGUN = Path(__file__).resolve().parents[2] / "results" / "state" / "chain.tar"
CAPTION = """
The paper shows one cycle of GGMC and of HMC at four learning rates: log MH is near 0 at the smallest ℓ and far below it
at the largest, and HMC's is above GGMC's there. Paper scale is configured, and run here for the cycles of the last row
alone (a first cycle in that size is below). Quick scale is far from equilibrium, and no row of it can be compared with
the paper.

**What was run.** ResNet-20 on CIFAR-10, one chain a learning rate and sampler, monitored and not corrected. Friction is
one for all chains, as in the authors' code (14.285: β = .98 at ℓ = .1). HMC's momentum is drawn afresh before the cycle
and its leapfrog steps take minibatches. The cycle's first and last gradients are of all data. Paper scale: cycle 101 of
300, 4,001 steps, every 10th drawn; a checkpoint under results/state holds the last row's cycles. Quick scale: 5,000
images, a quarter of the width (17,622 weights), the third of 3 cycles of an epoch (41 steps, every 2nd) from 2 epochs
of SGD: the net has learnt little.

**What is drawn.** At the cycle's two ends (dots, at the red lines) log MH is exact. Between them, as in the paper's
code, it is that of a trajectory that would end there, with a minibatch's U in place of U of all data.

**Decided here.** U is one function of the weights: filter response normalisation, a proper prior on every weight, no
augmentation. The prior is `cin`, as in the authors' code: variance 2/c on the weights of a layer of c input channels,
not divided by the kernel's area, and 1 on the rest. Without it U a datum would not be near their −.5. The mass is 1;
theirs was estimated anew every epoch.
"""
ROWS = (("ggmc", "GGMC"), ("hmc", "HMC"))
LABEL = "log MH\n(the paper: log accept prob.)"
COLUMNS = (
    ("log_accept", LABEL),
    ("potential_per_datum", "potential, a datum"),
    ("kinetic_temperature", "est. kinetic temp."),
)
# Read off the paper's figure, by learning rate: log MH of the cycle, as text and as the range that agrees with it (10⁴
# about 0, else a factor of 3; what lies below the axis, which ends at −5·10⁴, below it), kinetic temperature of GGMC,
# and potentials a datum.
ZERO = ("≈ 0", (-1e4, 1e4))
LOG_MH = {
    "ggmc": {1e-6: ZERO, 1e-4: ZERO, 1e-3: ("−2·10⁴", (-6e4, -2e4 / 3)), 1e-2: ("below −5·10⁴", (-np.inf, -5e4))},
    "hmc": {1e-6: ZERO, 1e-4: ZERO, 1e-3: ZERO, 1e-2: ("−1.5·10⁴", (-4.5e4, -5e3))},
}
KINETIC = {1e-6: "0.998", 1e-4: "1.005", 1e-3: "1.01", 1e-2: "1.01"}
POTENTIAL = {1e-6: "−1.5", 1e-4: "−.5", 1e-3: "−.5", 1e-2: "−.1"}  # of HMC; GGMC's are −.5
GROWS = {"ggmc": 1e-4, "hmc": 1e-3}  # from which ℓ on these numbers grow; up to it they are ≈ 0
NOISE = "not decided: U is evaluated with noise, for which see Figure D.1, as run"
NOTHING, INFINITE = 0.05, 1e12  # a log MH that is as good as 0, and one as good as −∞
ERRORS = f"below {NOTHING} counts as 0; errors: √(2 abs(log MH))"
NEAR = 0.05  # of a kinetic temperature to 1; and the least drift
SHORT = "not comparable: momenta drawn at T = 1 a few epochs before have hardly had the time to leave it"
START = "not comparable: a first cycle, from SGD and not from equilibrium, with mass 1"
ONE = "not comparable: no run at another ℓ"
FEW = "not comparable: a few epochs from one start, so the chains are as far as their ℓ carried them"


def colour_of(rate: float):
    """Plasma over log10 ℓ, as the authors' notebook has it."""
    return colormaps["plasma"]((np.log10(rate) + 7) / 6)


def marked(title: str, exact: bool) -> str:
    """A panel's title, whose first line says where what it shows is not exact."""
    first, *more = title.split("\n")
    return "\n".join([first + ("" if exact else ", not exact"), *more])


def text_of(rate: float) -> str:
    return rf"$\ell=10^{{{np.log10(rate):.0f}}}$"


def draw(table: pd.DataFrame, exact: bool = True) -> Figure:
    """Two rows of three panels over the number of minibatch steps; red dashed lines where all data were evaluated."""
    figure, panels = pyplot.subplots(2, 3, figsize=(9, 4.8), sharex=True, sharey="col", layout="constrained")
    for row, (name, text) in zip(panels, ROWS, strict=True):
        for panel, (column, heading) in zip(row, COLUMNS, strict=True):
            for rate, part in table[table.sampler == name].dropna(subset=["step"]).groupby("lr"):
                colour, ends = colour_of(rate), part[part.exact_point == 1]
                panel.plot(part.step, part[column], color=colour, lw=0.8, label=text_of(rate))
                panel.plot(ends.step, ends[column], "o", color=colour, ms=4)
            for step in table[table.exact_point == 1].step.unique():
                panel.axvline(step, color="red", ls="--", lw=0.8, zorder=0)
            if name == "ggmc":
                panel.set_title(marked(heading, exact or column != "log_accept"), fontsize=10)
        row[0].set_ylabel(text)
    low = table.log_accept.replace(-np.inf, np.nan).min()
    if low < -2000:
        panels[0][0].ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    clean(*panels.flat)
    panels[1][1].set_xlabel("number of minibatch steps")
    lines, texts = max((row[0].get_legend_handles_labels() for row in panels), key=lambda found: len(found[0]))
    figure.legend(lines, texts, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(title(table) if exact else "One cycle at each ℓ, as run: no acceptance is exact", fontsize=11)
    return figure


def title(table: pd.DataFrame) -> str:
    """That acceptance falls with the learning rate, where that is seen of both samplers."""
    ends = last_points(table)
    if len(ends) == len(ROWS) and all(grows(part.log_accept.abs(), 1) == "agrees" for part in ends.values()):
        return "The larger the learning rate, the less acceptance a cycle has"
    return "log MH of one cycle at each learning rate, a chain each"


def last_points(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Of each sampler the rows at the cycle's end, by learning rate."""
    ends = table[table.exact_point == 1].dropna(subset=["step"]).sort_values("step").groupby("sampler")
    return {name: part.groupby("lr").last() for name, part in ends}


def compare(table: pd.DataFrame, exact: bool = True):
    """What the paper's figure shows of one cycle, against this one; ends of the cycle."""
    done = table.dropna(subset=["step"])
    if done.empty:
        yield "one cycle", "", "", "not comparable: no run"
        return
    ends = last_points(done)
    size, steps = int(done["data"].iloc[0]), int(done.step.max() - done.step.min())
    small = f"not comparable: {size:,} images and {steps} steps, not 50,000 and 4,001; log MH grows with both"
    same, rates = size == 50000, [rate for rate in KINETIC if rate in set(table.lr)]
    settled, early = same and done.cycle.min() > 1, START if same else small
    listed = ", ".join(f"{rate:g}" for rate in rates)
    for name, text in ROWS:
        if name not in ends:
            yield f"{text}: all", "", "", f"not comparable: no run of {text}"
            continue
        log_mh, paper = ends[name].log_accept, LOG_MH[name]
        here = _values(log_mh, rates, ".3g")
        yield (
            f"{text}: log MH of the cycle, ℓ = {listed}",
            ", ".join(paper[rate][0] for rate in rates),
            f"{here} (agrees: within 10⁴ of 0, else to a factor of 3, or below the axis)",
            _about(log_mh, {rate: paper[rate][1] for rate in rates}) if settled else early,
        )
        sizes = log_mh.abs()[log_mh.index >= GROWS[name]]
        rising = sizes.clip(lower=NOTHING).is_monotonic_increasing
        verdict = grows(sizes, 1)
        if not exact and len(log_mh) > 1:
            verdict = NOISE
        elif not settled and len(log_mh) > 1:
            verdict = early
        here = f"{'yes' if rising else 'no'} (one cycle of one chain each; {ERRORS})"
        yield f"{text}: abs(log MH) grows with ℓ, from {GROWS[name]:g} on", "yes, from ≈ 0", here, verdict
    kinetic = done[done.sampler == "ggmc"].groupby("lr").kinetic_temperature.mean()
    near = bool((kinetic - 1).abs().max() < NEAR)
    if len(kinetic):
        yield (
            "GGMC: kinetic temperature near 1 at every ℓ",
            ", ".join(KINETIC[rate] for rate in rates),
            f"{_values(kinetic, rates, '.3f')} (near: within {NEAR})",
            ("agrees" if near else "differs") if settled else START if same else SHORT,
        )
    drift = done[(done.sampler == "hmc") & (done.lr == done.lr.max())].sort_values("step").kinetic_temperature
    here = f"{drift.iloc[0]:.3f} to {drift.iloc[-1]:.3f} (drifts: by more than {NEAR})" if len(drift) else ""
    yield (
        "HMC at the largest ℓ: kinetic temperature drifts in the cycle",
        "1 to above 1.1",
        here,
        _drifts(drift) if settled or drift.empty else early,
    )
    if len(ends) < len(ROWS):
        return
    *row, verdict = accepts_more(ends["hmc"].log_accept, ends["ggmc"].log_accept, rates)
    yield *row, (verdict if exact else NOISE) if settled else early
    values = {name: ends[name].potential_per_datum for name, _ in ROWS}
    spread = {name: np.ptp(some) for name, some in values.items()}
    here = {name: _values(some, rates, ".2f") for name, some in values.items()}
    verdict = ("agrees" if spread["hmc"] > spread["ggmc"] else "differs") if settled else FEW
    yield (
        f"potentials a datum differ more from chain to chain for HMC, ℓ = {listed}",
        f"HMC {', '.join(POTENTIAL[rate] for rate in rates)}; GGMC −.5 all",
        f"HMC {here['hmc']}; GGMC {here['ggmc']}: range {spread['hmc']:.2f} and {spread['ggmc']:.2f} (more: larger)",
        verdict if min(map(len, values.values())) > 1 else ONE,
    )
    if exact and not same:
        yield from begun(BEGUN)


def begun(archive: Path):
    """A row of each chain of 50,000 images that an archive of run folders holds: log MH in the second half of the
    cycles that it has."""
    if not archive.exists():
        return
    with tarfile.open(archive) as runs:
        for name in runs.getnames():
            if not PurePath(name).match("ggmc_fig1/*/metrics.csv"):
                continue
            config = yaml.safe_load(runs.extractfile(str(PurePath(name).with_name("config.yaml"))))
            cycles = pd.read_csv(runs.extractfile(name))
            sampler, rate, late = config["sampler"]["name"], config["lr"], cycles[len(cycles) // 2 :]
            first, last, log_mh = late.cycle.min(), late.cycle.max(), late.log_accept
            here = f"{log_mh.mean():.2g} in the mean ({log_mh.min():.2g} to {log_mh.max():.2g}); kinetic temperature "
            yield (
                f"{dict(ROWS)[sampler]}, 50,000 images, ℓ = {rate:g}: log MH of cycles {first} to {last}",
                f"{LOG_MH[sampler][rate][0]} (cycle 101)",
                f"{here}{late.kinetic_temperature.mean():.3f}",
                f"not comparable: {last} of 300 cycles so far, and mass 1 (theirs was estimated anew every epoch)",
            )


def grows(sizes: pd.Series, cycles: int, noise: float = 0.0) -> str:
    """The verdict on whether mean abs(log MH) of so many cycles grows from each learning rate to the next.

    By log MH's own scatter: as E[MH] is 1 in equilibrium, a normal one has a variance of twice its mean's size. An
    evaluation of U with ``noise`` adds that.
    """
    if len(sizes) < 2:
        return ONE
    sizes = sizes.clip(NOTHING, INFINITE)
    variance = (2 * sizes + noise**2) / cycles
    steps = sizes.diff().iloc[1:]
    seen = limit(len(steps)) * np.sqrt(variance + variance.shift()).iloc[1:]
    if (steps > seen).all():
        return "agrees"
    if (steps < -seen).any():
        return "differs"
    rate = (steps - seen).idxmin()
    return f"not resolved: {steps[rate]:+.2g} to ℓ = {rate:g}, where less than {seen[rate]:.2g} is chance"


def accepts_more(hmc: pd.Series, ggmc: pd.Series, rates: list[float], cycles: int = 1, noise: float = 0.0) -> tuple:
    """The row on whether log MH of HMC's cycles, its mean over so many, is above GGMC's, by log MH's own scatter (see
    ``grows``)."""
    hmc, ggmc = hmc.align(ggmc, join="inner")
    variance = 2 * ((hmc.abs() + ggmc.abs()).clip(NOTHING, INFINITE) + noise**2) / cycles
    above = (hmc.clip(upper=0) - ggmc.clip(upper=0)) / np.sqrt(variance)
    most = limit(max(len(above), 1))
    verdict = "agrees" if (above > most).any() and (above > -most).all() else "not resolved"
    if (above < -most).any():
        verdict = "differs: less at ℓ = " + ", ".join(f"{rate:g}" for rate in above[above < -most].index)
    listed = ", ".join(f"{rate:g}" for rate in rates)
    here = f"{_values(hmc, rates, '.3g')} (HMC), {_values(ggmc, rates, '.3g')} (GGMC); above 0 counts as 0"
    by = "log MH of the cycle" if cycles == 1 else f"mean log MH of {cycles} cycles"
    return f"HMC accepts more than GGMC, by {by}, ℓ = {listed}", "yes (their text)", here, verdict


def _values(series, rates: list[float], form: str) -> str:
    """The value at each learning rate, in order; that of a run that diverged is missing."""
    return ", ".join(f"{series[rate]:{form}}" if rate in series else "no cycle" for rate in rates)


def _drifts(kinetic) -> str:
    if kinetic.empty:
        return "not comparable: no run of HMC"
    return "agrees" if kinetic.iloc[-1] - kinetic.iloc[0] > NEAR else "differs: less"


def _about(log_mh, ranges: dict[float, tuple[float, float]]) -> str:
    """Whether each is in its range."""
    if not ranges:
        return "not comparable: no run at an ℓ of the paper's"
    if missing := [rate for rate in ranges if rate not in log_mh]:
        return f"not comparable: no cycle at ℓ = {missing[0]:g}"
    return "agrees" if all(low < log_mh[rate] < high for rate, (low, high) in ranges.items()) else "differs"
