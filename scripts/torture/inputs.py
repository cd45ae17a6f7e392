"""Command lines, configuration files, data and targets that nobody should give."""

from __future__ import annotations

import itertools
import os
import random
import resource
import shutil
import sys
from pathlib import Path

from grids import TARGETS
from harness import ROOT, Child, Counted, Ended, Lost, damage, sentence

JUNK = [
    *("null '' nan inf -inf 0 -1 -0.0 1e-300 1e308 1e400 true false abc [] [1] [0.1,-1] [nan] [[1]] {} {a:1}".split()),
    *("1.5 0x10 1_0 ??? é ../x /dev/null . 7 1000003".split()),
    "'a b'",
]
WORDS = {
    "seed": ["0", "1", "18446744073709551616"],
    "chains": ["1", "2", "5"],
    "cycles": ["1", "3", "12"],
    "steps_per_cycle": ["1", "2", "3"],
    "epochs": ["1", "2"],
    "epochs_per_cycle": ["1", "2"],
    "batch_size": ["1", "5", "10", "12"],
    "step_size": ["0.1", "1e-9", "30", "[0.1,0.2]"],
    "lr": ["1e-4", "1e-12", "[1e-4,1e-5]"],
    "friction": ["1", "0.1", "1e9", "[1,2]"],
    "momentum_decay": ["0", "0.5", "1"],
    "sampler.beta": ["0.25", "100"],
    "sampler.b": ["0.1"],
    "sampler.alpha": ["0.5", "-0.5"],
    "sampler.delta": ["0.1"],
    "sampler.acceptance": ["monitor", "metropolis", "barker", "persistent_uniform", "barker_minibatch", "austerity"],
    "sampler.decision_batch": ["2", "10", "1"],
    "sampler.epsilon": ["0.1", "0.5"],
    "sampler.sigma": ["1", "2"],
    "sampler.refresh": ["full", "keep", "partial"],
    "sampler.gradient": ["full", "minibatch"],
    "sampler.ends": ["exact", "minibatch"],
    "sampler.minibatches": ["independent", "shuffled"],
    "sampler.word": ["BAB", "OBABO", "BABOBAB", "A", "EA", "OBAB", "AOA", "XYZ", "abc", "B", "O", "BA"],
    "schedule": ["constant", "cosine", "palindromic_cosine", "stairs"],
    "schedule.direction": ["forward", "random"],
    "schedule.every": ["1", "2"],
    "schedule.factor": ["0.5", "2"],
    "tune.target": ["0.8"],
    "burn_in": ["0", "1", "2"],
    "thin": ["1", "2"],
    "keep": ["all", "none", "1", "3"],
    "log_every": ["1", "2"],
    "save_every": ["1", "2"],
    "trace": ["1", "2", "true"],
    "trace_cycles": ["[1]", "[1,2]", "2"],
    "temperature": ["1", "0", "0.5"],
    "mass": ["1", "2.5", "estimate", "[1,2]"],
    "init": ["he", "torch", "sgd", "exact", "nowhere.pt"],
    "warm_start.init": ["he", "torch", "null", "zeros"],
    "warm_start.epochs": ["1"],
    "warm_start.lr": ["0.01"],
    "warm_start.batch_size": ["2"],
    "augmentation": ["none", "averaged", "random"],
    "views": ["1", "2"],
    "dtype": ["float32", "float64"],
    "device": ["auto", "cpu", "cuda", "cuda:9", "tpu"],
    "compile": ["auto", "false"],
    "progress": ["false", "true"],
    "scale": ["paper", "quick", "smoke"],
    "name": ["mine", "a/b", "'a b'"],
    "output": ["run", "deep/er/run"],
    "data": ["none", "digits"],
    "data.train_size": ["1", "2", "10", "30"],
    "data.ood": ["notmnist"],
    "model.noise": ["0", "1"],
    "model.dim": ["1", "3"],
    "model.pairs": ["1", "2"],
    "model.cubic": ["0", "1"],
    "model.binary": ["1", "4"],
    "model.every": ["1", "2"],
    "model.sd": ["0.1"],
    "model.size": ["1", "12"],
    "model.features": ["1", "3"],
    "model.hidden": ["[3]", "[]"],
    "model.prior_variance": ["1", "100"],
    "model.norm": ["frn", "bn", "gn", "none"],
    "model.width": ["1", "2"],
    "model.covariance": ["1", "[1,2]", "[[2,1],[1,2]]", "[[1,2],[2,1]]"],
    "model.mean": ["0", "[1,2]"],
    "model.tau_prior": ["[2,1]", "[1]"],
    "lrr": ["1"],
    "sampler.wrd": ["BAB"],
}
BOUNDED = ("cycles", "steps_per_cycle", "epochs", "epochs_per_cycle", "warm_start.epochs", "model.size", "model.pairs")
LOOPS = (*BOUNDED, "model.dim", "model.binary", "model.features", "model.width", "views", "model.hidden")
HUGE = ("1e308", "1000003")


def command_lines():
    """Command lines, most of them nearly right: a target that takes milliseconds, a sampler, and a few settings."""
    from hypothesis import strategies

    toys = "double_well banana mixture quartic mixed gaussian gaussian_pairs hierarchical_regression".split()
    base = [[f"model={toy}", "step_size=0.1", "cycles=3", "steps_per_cycle=2"] for toy in toys]
    base[5].append("model.dim=2")
    base += [["model=mlp", "model.hidden=[3]", "data=digits", "data.train_size=10", "lr=1e-6", "batch_size=5"]] * 3
    base += [["model=resnet20", "model.width=1", "data=digits", "data.train_size=4", "lr=1e-6", "batch_size=2"]]
    if (Path(os.environ.get("SGMCMC_DATA", "data")) / "uci").is_dir():
        base += [["model=logistic", f"data={name}", "lr=1e-6", "batch_size=5"] for name in ("heart", "australian")]
    for words in base[8:]:
        words += [word for word in ("cycles=2", "steps_per_cycle=2") if word not in words]
    samplers = sorted(path.stem for path in (ROOT / "conf" / "sampler").glob("*.yaml"))

    @strategies.composite
    def lines(draw):
        words = dict(word.split("=", 1) for word in draw(strategies.sampled_from(base)))
        words["sampler"] = draw(strategies.sampled_from(samplers))
        if words["sampler"] == "custom":
            words["sampler.word"] = draw(strategies.text("ABOE", min_size=1, max_size=6))
        for key in draw(strategies.lists(strategies.sampled_from(sorted(WORDS)), max_size=3)):
            junk = [one for one in JUNK if not (key in LOOPS and one in HUGE)]
            words[key] = draw(strategies.sampled_from(WORDS[key] if draw(strategies.integers(0, 9)) < 8 else junk))
        if draw(strategies.booleans()):
            words = {key: words[key] for key in draw(strategies.permutations(sorted(words)))}
        return [f"{key}={value}" for key, value in words.items()]

    return lines()


def little_memory() -> None:
    """Four gigabytes more than now: what needs more must say so."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + (4 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def judged(words: list[str], folder: Path, before=None, allowed: str = "") -> Ended:
    """Run a command line of whatever quality: done, diverged, or one sentence and nothing written but ``allowed``."""
    (folder / "here").mkdir()
    shown = " ".join(words)

    def prepare():
        little_memory()
        if before:
            before()

    child = Child(words, folder / "here", prepare)
    ended = child.wait(180)
    left = [path for path in folder.rglob("*") if path.name != "here" and allowed not in path.relative_to(folder).parts]
    if ended.code not in (0, 2, 3):
        raise Lost(f"{shown}: {ended}")
    noise = [line for line in ended.err.splitlines() if " is not used by " not in line]
    if ended.code == 2:
        sentence(ended, shown)
        if left:
            raise Lost(f"{shown}: refused, and left {left}: {ended}")
    elif "Traceback" in ended.err or any("Warning" in line for line in noise):
        raise Lost(f"{shown}: {ended}")
    elif not left:
        raise Lost(f"{shown}: left no run: {ended}")
    shutil.rmtree(folder)
    return ended


def inputs(count: Counted, choose: random.Random, quick: bool) -> None:
    """Command lines, configuration files, data and targets that nobody should give."""
    from hypothesis import HealthCheck, given, seed, settings

    seen = {0: 0, 2: 0, 3: 0}
    with count.row("command lines, valid and not: done, diverged, or one sentence") as row:

        @seed(choose.getrandbits(32))
        @settings(
            max_examples=15 if quick else 200,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(command_lines())
        def fuzz(words):
            with count.once(row):
                seen[judged(words, count.new()).code] += 1

        fuzz()
        row.what += f" ({seen[0]} done, {seen[3]} diverged, {seen[2]} refused)"
    with count.row("sizes: one datum, classes and features without any variance, one chain, 100,000 chains") as row:
        net = "model=mlp model.hidden=[3] data=digits lr=1e-6 cycles=2 steps_per_cycle=2 output=run".split()
        toy = "model=banana step_size=0.1 cycles=3 steps_per_cycle=2 output=run".split()
        sizes = [[*net, f"data.train_size={size}", "batch_size=1"] for size in (1, 2, 7)]
        sizes += [[*toy, f"chains={chains}"] for chains in (1, 100_000, 10**12)]
        if (Path(os.environ.get("SGMCMC_DATA", "data")) / "uci").is_dir():
            for name, size in itertools.product(("heart", "australian"), (1, 2, 3)):
                sizes.append([f"model=logistic data={name}", f"data.train_size={size}", "lr=1e-4", *net[4:]])
                sizes[-1] = " ".join([*sizes[-1], "batch_size=1"]).split()
        for words in sizes[::3] if quick else sizes:
            with count.once(row):
                judged(words, count.new())
    with count.row("targets of one's own whose energies are NaN or infinite: rejected, or diverged") as row:
        ways = ("", "nan", "sometimes_nan", "inf", "nan_gradient")
        samplers = ("hmc", "ggmc", "nonreversible_langevin", "sghmc")
        for way, sampler in itertools.product(ways, samplers[:: 3 if quick else 1]):
            with count.once(row):
                words = (
                    f"model._target_=targets.Bowl model.way={way} sampler={sampler} step_size=0.5 cycles=9 output=run"
                )
                judged(words.split(), count.new(), with_targets)
    configuration_files(count, choose, quick)


def with_targets() -> None:
    """For a child: targets of one's own, to be found from where it runs."""
    folder = Path.cwd().parents[1]
    (folder / "targets.py").write_text(TARGETS)
    sys.path.insert(0, str(folder))


def configuration_files(count, choose, quick) -> None:
    """Damaged YAML in a copy of ``conf``."""
    names = ["config.yaml", "model/banana.yaml", "sampler/ggmc.yaml", "experiment/digits.yaml", "scale/paper.yaml"]
    with count.row("damaged configuration files: done as ever, or one sentence") as row:
        hows = ("cut", "emptied", "flipped", "gone", "text", "tab", "list", "latin")
        for name, how in itertools.product(names, hows):
            if quick and choose.random() < 0.85:
                continue
            conf = count.new() / "conf"
            shutil.copytree(ROOT / "conf", conf)
            path = conf / name
            text = {"text": b"just words", "tab": b"a:\n\tb: 1\n", "list": b"- a\n- b\n", "latin": b"name: \xe9\xff\n"}
            if how in text:
                path.write_bytes(text[how])
            else:
                damage(path, how, choose)

            def use(conf=conf):
                from experiments import schema

                schema.CONF = conf

            words = ["model=banana", "step_size=0.1", "cycles=2", "output=run"]
            if "digits" in name:  # short, even where its block `smoke` was cut off
                words = ["experiment=digits", "scale=smoke", "data.train_size=20", "batch_size=10", "epochs=2"]
                words += ["model.width=4", "output=run"]
            # Where Hydra is no longer told to write nothing of its own, its folder is there.
            allowed = "outputs" if name == "config.yaml" else ""
            with count.once(row):
                judged(words, count.new(), use, allowed)
            shutil.rmtree(conf.parent)
