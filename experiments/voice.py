"""What a run says: on standard output, in its log and above its picture."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

import torch

import sgmcmc
from experiments import outcome
from experiments.build import Pieces
from experiments.dotted import get
from experiments.resolved import is_own
from sgmcmc import chain as engine
from sgmcmc import compiled, subsampled
from sgmcmc.checks import doubt
from sgmcmc.equilibrium import disequilibrium, is_of_ones_own
from sgmcmc.errors import StoreError
from sgmcmc.kernel import Kernel
from sgmcmc.ladder import steps_of_epochs
from sgmcmc.potentials import groups, is_network
from sgmcmc.potentials.network import NetworkPotential
from sgmcmc.sampling import UNMOVED, missed, not_finite, of_chains

ROWS_SHOWN = 20  # of a run's rows, or as many as there are half hours; the others are in metrics.csv
SILENT = 1800.0  # seconds
LONG = 2_000_000  # numbers that a summary looks at: from here on it takes seconds
FORECAST = 1.5  # a factor, within which the plan's estimate is not mended by the first cycles
ENOUGH = 2.0  # seconds of cycles behind the first that tell how long the others take; single short ones tell little
SMALLER = "a smaller step size may do, where U is finite"
FAR = 10  # how many times the median a mean of log MH is that is said to be of a few
FEW = 0.1  # of trajectories accepted, below which a summary advises
FIRST_STAIR = " (of the schedule's first stair)"  # what a tuned step size is where stairs multiply it
NO_SIZE = "no effective sample size: too few draws, or moves, to tell"
COLD = "no effective sample size: at temperature 0 a chain goes down to a minimum of U, and draws from no law"
FEW_WOULD_BE = "few of these trajectories would be accepted: the draws may be far from the target's"
COLUMNS = (
    ("cycle", "cycle", "{:.0f}"),
    ("epoch", "epoch", "{:.4g}"),
    ("potential_per_datum", "U/N", "{:.5f}"),
    ("log_accept", "log MH", "{:z.2f}"),
    ("accept_prob", "acceptance", "{:.3f}"),
    ("kinetic_temperature", "kinetic T", "{:.4f}"),
    ("configurational_temperature", "config. T", "{:.4f}"),
    ("test_accuracy", "test acc.", "{:.4f}"),
    ("seconds", "seconds", "{:.1f}"),
)


def worth_of_acceptance(kernel: Kernel) -> tuple[str, str, str]:
    """What the kernel's acceptance is worth, in three texts: a line of the plan, the picture's name of the column
    acceptance, and what the log says of that column (nothing where it is an exact chain's)."""
    if kernel.impossible:
        return f"log MH is -inf: {kernel.impossible}", "acceptance (log MH is -inf)", "0, for log MH is -inf"
    if kernel.inexact:
        why = f"not exact: {kernel.inexact}"
        return f"the acceptance probability is {why}", why, why
    if kernel.acceptance == "monitor":
        return (
            "the acceptance probability is exact, and is monitored: the chain is not corrected",
            "accept_prob (not at the target)",
            "that of proposals from where the uncorrected chain is, not from the target",
        )
    if kernel.subsampled:
        why = subsampled.why_inexact(kernel)
        return f"not exactly corrected: {why}", f"not exact: {why}", f"not exact: {why}"
    return f"exactly corrected ({kernel.acceptance.replace('_', ' ')})", "acceptance", ""


def say(line: str, bar=None) -> None:
    """Print a line, above a progress bar where there is one."""
    if bar is not None:
        bar.write(line, file=sys.stdout)
    else:
        print(line + "\n", end="", flush=True)  # in one write: several workers may share a log


class Voice:
    """What a run says: its plan, a row now and then, a bar on a terminal, its summary."""

    def __init__(self, config: dict, pieces: Pieces, path: Path):
        self.config, self.pieces, self.path = config, pieces, path
        self.worth, self.acceptance, self.meaning = worth_of_acceptance(pieces.kernel)
        self.bar, self.shown, self.late, self.header = None, 0.0, SILENT, False
        self.first: tuple[int, float] | None = None
        self.expected: float | None = None  # seconds of a cycle of all chains, where the plan tells them
        self.epoch: float | None = None  # and of an epoch of minibatches
        self.opening = self.plan() + self.estimate()
        for line in self.opening:
            say(line)

    def plan(self) -> list[str]:
        """What is going to be run, what it costs, and what its acceptance probability is worth."""
        kernel, plan, potential = self.pieces.kernel, self.pieces.plan, self.pieces.potential
        target = self.config["model"].get("_target_") or self.config["model"]["name"]
        data = f" on {potential.data_size} data" if potential.data_size else ""
        gradients = round(kernel.work(1.0, potential)[0]) * plan.cycles
        exact = kernel.gradient == "minibatch" and kernel.batches is None  # without noise, or between exact ends
        kinds = {"minibatch": "minibatch gradients", "full": "full gradients", "none": "evaluations of U"}
        kind = kinds["full" if exact else kernel.gradient]
        lines = [
            f"{self.config['sampler']['name']} ({kernel.word.letters}) on {target}{data}, "
            f"{counted(potential.dim, 'coordinate')}: {counted(self.pieces.chains, 'chain')} of "
            f"{counted(plan.cycles, 'cycle')} of {counted(kernel.steps, 'step')}, "
            f"{max(gradients, plan.cycles):,} {kind}{' a chain' if self.pieces.chains > 1 else ''}",
            self.worth,
        ]
        if hint := self.in_epochs():
            lines.append(hint)
        if is_own(self.config) and kernel.batches is None:  # of one's own target only the kernel knows
            said = {key: get(self.config, key) for key in ("batch_size", "sampler.minibatches", "sampler.ends")}
            ways = (None, "independent", "minibatch")
            given = ", ".join(f"{key}={value}" for key, value in said.items() if value not in ways)
            if given and potential.data_size and kernel.gradient == "full":
                lines.append(f"gradients are of all data, without {given} (sampler.gradient=minibatch)")
            elif given:
                lines.append(f"there are no minibatches: {given} has no effect")
        if is_own(self.config) and isinstance(potential, NetworkPotential):
            inputs = "as they are given" if potential.train.mean is None else "normalised"
            prior = f"its prior is normal (model.prior={potential.prior_said})"
            lines.append(f"its outputs are logits, {prior}, inputs are {inputs}")
            if frozen := sum(one.numel() for one in potential.model.parameters() if not one.requires_grad):
                lines.append(f"{counted(frozen, 'weight')} without requires_grad stay as they are")
        if plan.estimate_mass and not plan.burn_in:
            lines.append("the mass is estimated once, at the start: there is no burn-in")
        if plan.trajectory:
            lines.append(f"trajectory length, up to {kernel.steps} steps, and step size are chosen in the burn-in")
        if plan.compile:
            takes = _duration(compiled.seconds(kernel, potential))
            lines.append(f"compiled: {takes} or so before the first cycle, less where the like was compiled before")
        if plan.graph:
            lines.append("steps are replayed as CUDA graphs")
        if self.config["compile"] in (True, False) and self.config["compile"] != plan.compile:
            begun = "compiled" if plan.compile else "not compiled"
            lines.append(f"the run was begun {begun}, and stays so")
        return lines

    def in_epochs(self) -> str | None:
        """What shuffled epochs are good for, and how to have them, where trajectories are long enough for them."""
        kernel = self.pieces.kernel
        batches = kernel.batches
        if getattr(batches, "law", None) != "independent" or kernel.impossible or not batches.epochs:
            return None
        if batches.per_epoch == 1 or batches.data_size % batches.batch_size:
            return None
        words = "sampler.minibatches=shuffled"
        if batches.extra > 1:
            steps = steps_of_epochs(kernel, round(batches.points / batches.per_epoch))
            if steps is None:
                return None
            words += f" steps_per_cycle={steps}"
        gain = "less biased" if kernel.acceptance == "monitor" else "accepted oftener"
        return f"minibatches are independent; those of whole shuffled epochs are {gain} at small steps ({words})"

    def estimate(self) -> list[str]:
        """How long the run will take, from the time of one gradient: for networks, whose first cycle may take long.

        Of one that goes on, what is left of it.
        """
        pieces = self.pieces
        kernel, potential, size = pieces.kernel, pieces.potential, pieces.potential.data_size
        if not is_network(potential) or kernel.gradient == "none" or not size:
            return []
        number = min(self.config["batch_size"] or 125, size)
        group = groups(potential, pieces.chains, apart=kernel.random_direction)[0]
        theta = potential.initial(len(group), pieces.random)
        theta = theta.to(device=pieces.random.device, dtype=getattr(torch, self.config["dtype"]))
        batch = torch.arange(number, device=theta.device).expand(len(group), -1)
        for _ in range(2):  # the first one warms up
            clock = time.perf_counter()
            float(potential.gradient(theta, batch).sum())
            gradient = time.perf_counter() - clock
        self.epoch = gradient * size / number / len(group) * pieces.chains
        share = number / size / (self.config["views"] or 1)
        gradients, energies = kernel.work(share, potential)
        cycle = (gradients + energies / 3) * gradient / share / len(group)  # U is a forward pass
        try:
            done = int(max(sgmcmc.load_metrics(self.path)["cycle"], default=0))
        except (StoreError, KeyError, ValueError):  # or another program's table, in a folder that will be refused
            done = 0
        self.expected = cycle * pieces.chains
        total, left = self.expected * max(pieces.plan.cycles - done, 0), " to go" if done else ""
        about, by = "about", f"by the time of one gradient on {self.device}"
        if pieces.plan.graph:  # an H100's of a ResNet-20 twelve times
            about, by = "at most", f"{by}, which graphs shorten: the first cycles tell how far"
        each = "a cycle of one chain" if pieces.chains > 1 else "a cycle"
        return [f"{about} {_duration(total)}{left} ({_duration(cycle)} {each}) {by}"]

    @property
    def device(self) -> str:
        device = self.pieces.random.device
        if device.type == "cuda":
            return torch.cuda.get_device_name(device)
        return counted(torch.get_num_threads(), "CPU thread")

    def starting(self, initial):
        """``initial``, announced where it takes its time; a target of one's own is looked at there."""

        def announced():
            if self.config["init"] == "sgd":
                epochs = self.config["warm_start"]["epochs"]
                takes = "" if self.epoch is None else f", about {_duration(epochs * self.epoch)} before the first cycle"
                say(f"warm start: {counted(epochs, 'epoch')} of SGD{takes}")
            theta = initial()
            own = is_own(self.config) or is_of_ones_own(self.pieces.potential)
            if own and (why := doubt(self.pieces.kernel, self.pieces.potential, theta)):
                say(f"warning: {why}")
            return theta

        return announced

    def report(self, chain, row: dict | None) -> None:
        """Called after each cycle: estimate, bar, and a row now and then."""
        plan = self.pieces.plan
        if self.first is None:
            self.first = (chain.cycle, time.perf_counter())
            self._open_bar(chain.cycle)
        elif self.first[1] < math.inf and (behind := time.perf_counter() - self.first[1]) >= ENOUGH:
            cycle = behind / (chain.cycle - self.first[0])
            self.first = (self.first[0], math.inf)  # it is told once
            seconds, expected = cycle * (plan.cycles - chain.cycle), self.expected
            if seconds > 5 and not (expected and expected / FORECAST < cycle < expected * FORECAST):
                self.tell(f"about {_duration(seconds)} to go")
        if self.bar is not None:
            self.bar.update(chain.cycle - self.bar.n)
        seconds = row["seconds"] if row else 0.0
        if row and (chain.cycle >= self.shown or seconds >= self.late or chain.cycle == plan.cycles):
            self.shown, self.late = chain.cycle + plan.cycles / ROWS_SHOWN, seconds + SILENT
            self._row(row)

    def _open_bar(self, cycle: int) -> None:
        wanted = self.config["progress"]
        if wanted is None:
            wanted = sys.stderr.isatty()
        if wanted:
            from tqdm import tqdm

            self.bar = tqdm(total=self.pieces.plan.cycles, initial=cycle, unit="cycle", leave=False)

    def _row(self, row: dict) -> None:
        columns = [column for column in COLUMNS if column[0] in row and not (column[0] == "epoch" and not row["epoch"])]
        heads = [head if self.pieces.potential.data_size or head != "U/N" else "U" for _, head, _ in columns]
        if not self.header:
            self.header = True
            if self.meaning:
                self.tell(f"acceptance: {self.meaning}")
            self.tell(" ".join(f"{head:>11}" for head in heads))
        cells = [(shape.format(row[name]), row[name]) for name, _, shape in columns]
        self.tell(" ".join(f"{cell if len(cell) < 12 else f'{number:.4g}':>11}" for cell, number in cells))

    def tell(self, line: str) -> None:
        say(line, self.bar)

    def end(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def looks_long(self, result) -> bool:
        """Whether the summary takes so long that somebody might wonder."""
        pieces = self.pieces
        numbers = pieces.plan.kept(result.cycles) * pieces.chains * min(pieces.potential.dim, outcome.COORDINATES)
        return result.status == engine.DONE and numbers > LONG and outcome.reads_draws(pieces, result.cycles)

    def summary(self, result) -> tuple[list[str], dict]:
        """What came out: moves, log MH, effective sample size, R-hat, and a plain word where a chain is stuck; and its
        numbers, for ``status.json``."""
        kernel, rate, plan, chains = result.kernel, result.rate, self.pieces.plan, self.pieces.chains
        share = f"{result.accepted / max(result.proposed, 1):.3g}"
        share += f"; {rate:.3g} after the burn-in" if 0 < result.burnt[1] < result.proposed else ""
        moved = f"{result.accepted:,} of {result.proposed:,} trajectories accepted ({share})"
        if kernel.acceptance == "monitor":
            moved = f"{result.accepted:,} of {result.proposed:,} trajectories finite, and taken (not corrected)"
        after = counted(result.cycles, "cycle")
        if result.under_way:
            after += f" and {result.under_way} gradients of the next"
        again = "; the same command goes on from there" if result.status == engine.INTERRUPTED else ""
        lines = [f"{result.status} after {after} in {_duration(result.seconds)}: {moved}{again}"]
        if not result.cycles:
            return lines, {}
        if plan.trajectory and result.cycles >= plan.burn_in:
            size = float(torch.as_tensor(kernel.step_size, dtype=torch.float64).mean())
            chosen = f"chosen in the burn-in: {kernel.steps} steps a cycle, step size {size:.4g}"
            lines.append(chosen + FIRST_STAIR * kernel.schedule.varies_between())
        elif plan.tune is not None and result.cycles >= plan.burn_in:
            lines.append(self.tuned(kernel))
        if plan.estimate_mass and result.moments:
            lines.append(f"mass estimated: 1 to {float(kernel.mass.max()):.4g} (moments.safetensors)")
        try:
            metrics = sgmcmc.load_metrics(self.path)
        except StoreError:
            return lines, {}
        energy = None if kernel.impossible else outcome.second_half(metrics, plan.log_every)
        facts = {"log_accept": -math.inf} if kernel.impossible else {}
        if energy is not None:
            mean, error, median = energy
            facts = {"log_accept": mean}
            warning = " (positive: not converged, or something is wrong)" if mean > max(0.5, 3 * error) else ""
            if kernel.subsampled:  # whose tests stop early where the estimate is far out
                warning = " (estimated on the data that were looked at)"
            if mean < FAR * min(median, -1):
                warning = f" (its rows' median {median:.3g}: a few proposals went far out)"
            several = " of all chains" if len(outcome.grouped(self.config, chains)) > 1 else ""
            lines.append(f"mean log MH of the second half{several} {mean:.3g}{warning}")
        if result.status == engine.DIVERGED:
            last = metrics["cycle"][-1] if len(metrics["cycle"]) else 0
            lines.append(f"diverged: no chain is finite after step {int(last) * kernel.steps}; {SMALLER}")
            return lines, facts | {"groups": outcome.of_groups(self.config, self.pieces, self.path, result, None)}
        if why := disequilibrium(metrics, kernel, self.pieces.potential, chains - len(result.frozen)):
            lines.append(why)
        if result.frozen:
            still = f"{of_chains(result.frozen, chains)} diverged and stand still where they were last finite"
            lines.append(f"{still}: leave their draws out; {SMALLER}")
        _, whole = outcome.spans(metrics, plan.log_every)
        if why := not_finite(int(metrics["not_finite"][whole].sum()), kernel):
            lines.append(why)
        if why := missed(result, plan):
            lines.append(why)
        if result.unmoved:
            lines.append(f"{of_chains(result.unmoved, chains)} never moved: {UNMOVED}")
        if result.stuck:
            exact = "not exact, and" if kernel.subsampled else "exact but"
            lines.append(f"the chain is {exact} stuck: hardly a trajectory is accepted; take a smaller step size")
        elif result.accepts_few(FEW):
            shorter = ", or shorter ones," if kernel.steps > 1 else ""
            lines.append(f"few trajectories are accepted: a smaller step size{shorter} may give better draws")
        # Of a million draws the effective sample size takes a minute that a scheduler may not give.
        looked = None if result.status == engine.INTERRUPTED else metrics
        groups = outcome.of_groups(self.config, self.pieces, self.path, result, looked)
        if len(groups) <= outcome.GROUPS:
            lines += [line for group in groups for line in self._group(group, kernel, outcome.estimates(looked))]
        if len(groups) == 1 and groups[0]["finite"]:
            facts["averages"] = outcome.averages(metrics, plan.burn_in, plan.log_every)
        return lines, {**facts, "groups": groups}

    def tuned(self, kernel: Kernel) -> str:
        """The step size that was tuned, or the range of the chains' own, and the lr and momentum decay that it has."""
        sizes, size = torch.as_tensor(kernel.step_size, dtype=torch.float64), self.pieces.potential.data_size
        said = {"step size": sizes, **({"lr": size * sizes.square()} if size else {})}
        if kernel.word.refreshes and kernel.friction.kind == "gamma":
            said["momentum decay"] = torch.as_tensor(kernel.friction.decay(sizes, kernel.word.euler))
        elif kernel.word.refreshes:
            said["sampler.b"] = torch.as_tensor(kernel.friction.value * sizes)
        ends = {name: dict.fromkeys((float(one.min()), float(one.max()))) for name, one in said.items()}
        told = ", ".join(f"{name} " + " to ".join(f"{end:.4g}" for end in ends[name]) for name in ends)
        return f"tuned: {told}" + FIRST_STAIR * kernel.schedule.varies_between()

    def _group(self, group: dict, kernel: Kernel, looked: bool) -> list[str]:
        """The lines of a group of chains with the same settings, of what ``outcome.of_groups`` says of it, whose draws
        were ``looked`` at."""
        name, dim = ", ".join(f"{key}={value}" for key, value in group["settings"].items()), self.pieces.potential.dim
        name, lines = f"{name}: " if name else "", []
        if name and "accept_prob" in group:
            lines.append(f"{name}acceptance {group['accept_prob']:.3g}")
        exact = kernel.acceptance == "monitor" and not (kernel.impossible or kernel.inexact)
        if exact and group.get("accept_prob", 1) < FEW:
            lines.append(f"{name}{FEW_WOULD_BE}")
        if "still" in group:
            of = counted(dim, "coordinate")
            lines.append(f"{name}{group['still']:,} of {of} never moved in any chain: they are in no ESS below")
        if "ess" in group:
            rates = "of so few of all draws, which do not tell how many a second"
            if "work" in group:
                rates = f"{group['ess_per_second']:.3g} a second, {group['ess_per_work']:.3g} {group['work']}"
            size = f"{group['ess_of']} {group['ess']:.4g} ± {group['ess_error']:.2g}"
            lines.append(f"{name}effective sample size of {size}: {rates}")
            if "r_hat" not in group:
                lines.append(f"{name}no R-hat of fewer than {outcome.LEAST_OF_R_HAT} draws")
        elif looked and group["finite"] and self.pieces.plan.keep != "none":
            lines.append(f"{name}{NO_SIZE if kernel.temperature else COLD}")
        if "r_hat" in group:
            finite, chains, value = group["finite"], group["r_hat_over"], group["r_hat"]
            over = "halves of the one chain" if finite == 1 else "halves of the mean over chains"
            if chains > 1:
                over = f"{chains} of {finite} chains" if finite > chains else f"{chains} chains"
            limit = group["r_hat_limit"]
            warning = f" (above {limit:.4g}: not mixed, or too short to tell)" if value > limit else ""
            lines.append(f"{name}R-hat {f'{value:.5g}' if math.isfinite(value) else 'infinite'} over {over}{warning}")
        return lines


def counted(value: int, noun: str) -> str:
    """A number of things, in words."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.3g} s"
    if seconds < 5400:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h" if seconds < 172800 else f"{seconds / 86400:.3g} days"
