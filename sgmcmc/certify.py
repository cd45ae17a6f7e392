"""The exactness certificate of the samplers.

    python -m sgmcmc.certify [NAME …] [--word BABOBAB] [--full] [--seed 0] [--output FOLDER]

A row for every sampler of ``samplers.SAMPLERS`` and every variant one step from its defaults, a column for every
property; ``certificate_identities`` and ``certificate_statistics`` say what each measures, ``certificate_reference``
what it is held to. Rows whose acceptance cannot be exact must fail where theory says so, or the certificate itself
fails. The whole is written to ``results``; rows of some samplers or of a word are printed, and written only to a folder
that is given. Another ``--seed`` draws other random numbers.

Exit status: 0 if every claim is borne out, 1 if not, 2 for a setting that cannot work.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, fields, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import torch
from scipy.stats import norm

from sgmcmc import LAW, disk
from sgmcmc import certificate_identities as identities
from sgmcmc import certificate_networks as networks
from sgmcmc import certificate_statistics as statistics
from sgmcmc.certificate_rows import Cell, Row, Seed
from sgmcmc.environment import cores, end_with_parent, environment
from sgmcmc.errors import SettingError, StoreError
from sgmcmc.samplers import SAMPLERS, lookup
from sgmcmc.schedules import Schedule
from sgmcmc.streams import settle
from sgmcmc.words import Word

FALSE_ALARM = 1e-3  # of the whole certificate
POWER = norm.isf(0.1)  # the smallest bias is one that is seen with probability .9
CHAINS, MANY = 100_000, 1_000_000
SEEDS = 10**9  # whose rows' own seeds fit into 64 bits
COLUMNS = dict.fromkeys("back ratio path lin (i) (ii) (iii) dec (iv)64 (iv)32 cov order step time".split(), 6)
COLUMNS |= {"(i)": 5, "(iv)64": 7, "(iv)32": 7, "cov": 4, "step": 5, "time": 5}  # widths; (iv) in each precision

ENERGY, NOTHING_MOVES = "E[MH] = 1 holds for every word of A, B and O", "nothing is ever accepted"
ONE_SIDED = "the schedule or the word does not read the same backwards"
THEOREM = "GGMC paper, theorem 1: the letter E has no backward trajectory"
MONITORED = "monitored: every end is kept, so the discretisation's bias stays"
ORDERED = "the batches' joint law is not its own mirror image"
ON_A_PART = "decided on a part of the data, whose estimate is not normal"


# -- the design ----------------------------------------------------------------------------------------------------


def variants(name: str) -> list[Row]:
    """The default row of a sampler and the rows one step from it (from its corrected form, where it is monitored)."""
    sampler = lookup(name)
    friction = ("b", 0.05) if name in ("amagold", "l2mc") else ("decay", 0.95)  # as the papers give it
    friction = ("infinite", 0.0) if sampler.friction == "infinite" else friction
    default = Row(name, friction=friction, slopes=True)
    if "E" in sampler.word:
        return _euler_rows(replace(default, friction=("decay", 0.9)))
    rows, exact = [default], default
    if sampler.acceptance == "monitor":
        rows[0] = replace(default, fails={"(iv)": MONITORED})
        exact = replace(default, variant="metropolis", settings={"acceptance": "metropolis"})
        rows.append(replace(exact, slopes=False))
    exact = replace(exact, slopes=False)

    def step(variant: str, **settings):
        rows.append(replace(exact, variant=variant, settings=exact.settings | settings))

    if name in ("random_walk", "hmc", "ggmc", "amagold"):
        step("persistent uniform", acceptance="persistent_uniform")
    if name in ("hmc", "ggmc", "amagold"):
        step("barker", acceptance="barker")
    if sampler.gradient in ("full", "either"):
        step("minibatch", gradient="minibatch")
    elif sampler.gradient == "minibatch":
        step("full gradient", gradient="full")
    if sampler.refresh != "full":
        step("full refresh", refresh="full")
    if sampler.refresh != "keep" and "O" in sampler.word:
        step("kept momentum", refresh="keep")
    if sampler.refresh != "partial" and name in ("random_walk", "hmc", "ggmc", "amagold"):
        step("partial refresh", refresh="partial", alpha=0.8)
    step("T=0.6", temperature=0.6)
    step("M=2.5,.7", mass=True)
    if sampler.steps is None:
        step("palindromic cosine", schedule=Schedule("palindromic_cosine"))
    if name in ("hmc", "ggmc", "ovrvo", "amagold"):
        step("two-way cosine", schedule=Schedule("cosine", "random"))
    if name == "ggmc":
        step("stairs", schedule=Schedule("stairs", every=4, factor=0.8))
        step("epoch + batch, either end", minibatches="shuffled")
        step("exact ends", ends="exact")
        rows.append(replace(exact, variant="word OBAB", word="OBAB", slopes=True))
        settings = exact.settings | {"schedule": Schedule("cosine", "random")}
        rows.append(replace(exact, variant="word OBAB, two-way cosine", word="OBAB", settings=settings))
    if name == "amagold":
        step("whole epochs", minibatches="shuffled")
    if name in ("ggmc", "amagold"):
        step("run in a permutation", minibatches="shuffled")
        rows[-1] = replace(rows[-1], steps=2)
    return rows


def _euler_rows(default: Row) -> list[Row]:
    fails = {"back": THEOREM, "(i)": THEOREM, "(iv)": MONITORED}
    default = replace(default, fails=fails)
    return [
        default,
        replace(default, variant="word AE (Algorithm 1)", word="AE"),
        replace(default, variant="full gradient", settings={"gradient": "full"}),
        replace(default, variant="full refresh", settings={"refresh": "full"}),
        replace(default, variant="T=0.6", settings={"temperature": 0.6}),
        replace(default, variant="M=2.5,.7", settings={"mass": True}),
    ]


def theory_rows() -> list[Row]:
    """What is not exact and must be seen to fail, each with its remedy, the direction drawn at random."""
    metropolis = {"acceptance": "metropolis"}
    fails = {column: ONE_SIDED for column in ("back", "ratio", "(iii)", "(iv)")}
    rows = []
    for name in ("hmc", "ggmc"):
        settings = {"schedule": Schedule("cosine"), "gradient": "full"}
        rows.append(Row(name, "one-sided cosine", settings, naive=True, fails=fails, free=("(ii)",)))
    for name, word in (("hmc", "BA"), ("ggmc", "OBA")):
        rows.append(Row(name, f"one-sided {word}", {}, word=word, naive=True, fails=fails, free=("(ii)",), slopes=True))
        remedy = metropolis | {"schedule": Schedule(direction="random")}
        rows.append(Row(name, f"two-way {word}", remedy, word=word))
    fails = {column: ORDERED for column in ("order", "(iii)", "(iv)")}
    for runs, variant in (((1, 4), "extra batch first"), ((4, 1), "extra batch last"), ((3, 2), "straddles an epoch")):
        rows.append(Row("ggmc", variant, metropolis, order=runs, fails=fails, free=("(ii)",)))
    for runs, variant in (((1, 4), "extra batch, two-way"), ((3, 2), "straddles, two-way")):
        rows.append(Row("ggmc", variant, metropolis, order=runs, coin=True))
    return rows + partial_rows()


def partial_rows() -> list[Row]:
    """Decisions on a part of the data: biased on two of the four data at first, exact where they wait for all four
    (Barker's but for 2e-7 in its probability)."""
    rows, fails = [], {"dec": ON_A_PART, "(iv)": ON_A_PART}
    for name, friction in (("hmc", ("decay", 0.95)), ("amagold", ("b", 0.05))):
        for variant, acceptance, few, all_four in (
            ("barker_minibatch", "barker_minibatch", {"decision_batch": 2}, {"decision_batch": 4}),
            ("austerity", "austerity", {"decision_batch": 2, "epsilon": 0.2}, {"decision_batch": 2, "epsilon": 0.0}),
        ):
            settings = {"acceptance": acceptance}
            rows.append(Row(name, variant, settings | few, friction=friction, fails=fails))
            rows.append(Row(name, f"{variant}, all", settings | all_four, friction=friction))
            if name == "hmc":
                settings = settings | all_four | {"temperature": 0.6}
                rows.append(Row(name, f"{variant}, all, T=0.6", settings, friction=friction))
    return rows


def rows_of_word(word: str) -> list[Row]:
    """A word of one's own: corrected where it can be, else as it fails, and with its direction drawn at random."""
    parsed = Word(word)
    sampler = "sghmc" if "E" in word else "hmc" if "B" in word else "random_walk"
    refresh = {"refresh": "keep" if "O" in word else "full"}
    if "E" in word:
        if word not in ("EA", "AE"):
            raise SettingError("--word", word, "of the words with E only EA and AE can be certified not to be exact")
        return [replace(_euler_rows(Row(sampler, friction=("decay", 0.9)))[0], variant=word, word=word)]
    exact = Row(sampler, word, refresh | {"acceptance": "metropolis"}, word=word)
    if sampler == "random_walk":
        if set(word) != {"A"}:
            raise SettingError("--word", word, "has no kick: of such words only A is a sampler of the table")
        return [exact]
    exact = replace(exact, settings=exact.settings | {"gradient": "minibatch"})
    rows = []
    if parsed.one_sided:
        naive = replace(exact, settings=refresh | {"gradient": "minibatch"}, naive=True)
        fails = {"back": ONE_SIDED, "ratio": ONE_SIDED}
        free = ("(ii)", "(iii)", "(iv)")
        rows.append(replace(naive, variant=f"{word} one-sided", fails=fails, free=free, slopes=True))
        schedule = Schedule(direction="random")
        exact = replace(exact, variant=f"{word} two-way", settings=exact.settings | {"schedule": schedule})
    for variant, settings in (
        ("", {}),
        ("full gradient", {"gradient": "full"}),
        ("persistent uniform", {"acceptance": "persistent_uniform"}),
        ("T=0.6", {"temperature": 0.6}),
        ("M=2.5,.7", {"mass": True}),
    ):
        label = f"{exact.variant} {variant}".strip()
        rows.append(replace(exact, variant=label, settings=exact.settings | settings, slopes=not rows))
    return rows


def design(names: Iterable[str] = (), word: str | None = None) -> list[Row]:
    """The rows of the certificate: of the samplers ``names`` (all) and of what must fail, or of one word."""
    if word is not None:
        return rows_of_word(word)
    names = list(names)
    rows = [row for name in names or SAMPLERS for row in variants(name)]
    return rows + [row for row in theory_rows() if not names or row.sampler in names]


DESIGN = """\
Rows: each sampler as it is by default and every variant one step from it (monitored samplers: from their corrected
form). Some variants are rows of a few samplers alone, as the code behind them does not know the word: partial refresh
and the persistent uniform of random_walk, hmc, ggmc and amagold; Barker's rule of hmc, ggmc and amagold; random
direction of these and ovrvo; the laws of batches of ggmc (gradients at both ends) and amagold (none there); stairs, a
leading refresh and the failures of ggmc and hmc. (Others are combined in tests/test_certificate_columns.py.)"""
OF_A_WORD = """\
Rows: the word with minibatches, corrected where that can be exact, its momentum kept where a letter refreshes it and
else drawn afresh, and variants one step from that. One that does not read the same backwards stands first as it is,
as if log MH could be had from its kicks, then with its direction drawn."""
MEASURED = """\
Identities (i) to (iii) and dec are on both targets of a row, a quartic with gradient noise and four unlike data
(batches of one), (i) on the second alone: its tails are Gaussian. Invariance (iv) after 20 decisions in float64 on one
of the two and in float32 on the other, alternating from row to row. --full: both on both, ten times the chains."""


# -- running it ----------------------------------------------------------------------------------------------------


def certify_row(row: Row, number: int = 0, chains: int = CHAINS, seed: int = 0, full: bool = False) -> list[Cell]:
    """All cells of a row; its place ``number`` decides the targets of (iv)."""
    torch.set_num_threads(1)
    cells = []
    for column in identities.COLUMNS:
        cells += column(row)
    for column in statistics.COLUMNS:
        cells += column(row, chains, Seed(3 * seed, number))
    targets = row.targets if number % 2 else row.targets[::-1]
    float64, float32 = (targets, targets) if full else (targets[:1], targets[-1:])
    for place, (dtype, names) in enumerate(((torch.float64, float64), (torch.float32, float32)), 1):
        for name in names:
            cells += statistics.invariance(row, name, dtype, chains, Seed(3 * seed + place, number))
    measured = {cell.column for cell in cells}
    # What must fail and is not measured has not failed.
    cells += [Cell(column, "", "not measured", math.nan) for column in row.fails if column not in measured]
    for cell in cells:
        cell.row = row.label
        cell.expected = "fails" if cell.column in row.fails else "free" if cell.column in row.free else "holds"
        cell.reason = row.fails.get(cell.column, "")
        if cell.column == "(i)" and (row.naive or row.order and not row.coin):
            cell.reason = ENERGY
        if cell.column in ("(ii)", "(iii)") and "E" in row.letters:
            cell.reason = NOTHING_MOVES
    return cells


def judge(cells: list[Cell]) -> tuple[float, int]:
    """Set the cells' verdicts; returns the threshold on |z| and the number of statistical tests.

    Bonferroni: each of n two-sided tests has the false-alarm probability 1e-3/n. What must fail must do so in some
    cell of its row and column (target, precision).
    """
    number = sum(cell.tests for cell in cells)
    threshold = float(norm.isf(FALSE_ALARM / max(number, 1) / 2))
    for cell in cells:
        if cell.tests:
            cell.holds = abs(cell.z) < threshold
            cell.smallest_bias = cell.smallest_bias and cell.smallest_bias * (threshold + POWER)
        else:
            cell.holds = cell.tolerance is None or cell.figure <= cell.tolerance
    failed = {(cell.row, cell.column) for cell in cells if not cell.holds}
    for cell in cells:
        if cell.expected == "free":
            cell.verdict = "holds" if cell.holds else "fails"
        elif cell.expected == "fails":
            seen = (cell.row, cell.column) in failed
            cell.verdict = "WRONG" if not seen else "holds here" if cell.holds else "fails as it must"
        else:
            cell.verdict = "ok" if cell.holds else "WRONG"
    return threshold, number


def run(rows: list[Row], chains: int = CHAINS, seed: int = 0, full: bool = False, progress: bool = False) -> list[Cell]:
    """The cells of all rows, from as many single-threaded processes as there are ``cores``, in the rows' order.

    ``progress`` counts rows on standard error: on a terminal each, in a log once a minute.
    """
    cells, began = [], time.monotonic()
    bar, said = sys.stderr.isatty(), began
    work = partial(certify_row, chains=chains, seed=seed, full=full)
    workers = min(cores(), len(rows))
    several = partial(ProcessPoolExecutor, mp_context=get_context("spawn"), initializer=end_with_parent)
    with several(workers) if workers > 1 else nullcontext() as pool:
        results = (pool.map if pool else map)(work, rows, range(len(rows)))
        for number, result in enumerate(results, 1):
            cells += result
            now = time.monotonic()
            if progress and (bar or now - said >= 60 or number == len(rows)):
                begin, end = ("\r", " ") if bar else ("", "\n")
                print(f"{begin}{number}/{len(rows)} rows, {now - began:.0f} s", end=end, file=sys.stderr, flush=True)
                said = now
    if progress and bar:
        print(file=sys.stderr)
    return cells


# -- showing it ----------------------------------------------------------------------------------------------------


def show(cells: list[Cell]) -> list[str]:
    """The table, at most 120 characters wide, one line a row."""
    head = f"{'sampler and variant':<35}{'acc':>4}" + "".join(f"{name:>{width}}" for name, width in COLUMNS.items())
    lines = [head, "-" * len(head)]
    for label in dict.fromkeys(cell.row for cell in cells):
        mine = [cell for cell in cells if cell.row == label]
        accept = min(cell.figure for cell in mine if cell.column == "accept")
        line = f"{label[:35]:<35}{f'{accept:.2f}'.removeprefix('0'):>4}"
        for name, width in COLUMNS.items():
            line += f"{_brief([cell for cell in mine if _shown_in(cell) == name]):>{width}}"
        lines.append(line)
    return lines


def _shown_in(cell: Cell) -> str:
    return f"(iv){cell.dtype[-2:]}" if cell.column == "(iv)" else cell.column


def _brief(cells: list[Cell]) -> str:
    """The worst of some cells: an error, a largest |z|, or a power of h; x for a failure that theory asks for."""
    if not cells:
        return "-"
    wrong = any(cell.verdict == "WRONG" for cell in cells)
    failed = any(not cell.holds for cell in cells)
    mark = "!" if wrong else "x" if failed else ""
    if cells[0].tests:
        value = max(abs(cell.z) for cell in cells)
        return mark + (f"{value:.1f}" if value < 100 else f"{value:.0f}" if value < 9999 else "inf")
    if cells[0].column in ("step", "time"):
        return mark + cells[0].statistic.split(": ")[1].split()[0]
    value = max(cell.figure for cell in cells)
    if value == 0 or 1 <= value < 9999:
        return f"{mark}{value:.0f}"
    return mark + ("inf" if value >= 9999 else f"{value:.0e}".replace("e-0", "e-"))


LEGEND = """\
acc      mean of min(1, MH) on the target where it is smaller
back     distance from the start after forward, negate, backward with the backward noises (E: nearest any noise
         reaches), and what is left of the kicks' energies, which must cancel
ratio    log MH against the log ratio of the path densities, a step
path     end, energies and rejected state of a trajectory against the same in NumPy; cycles of a run against the same
         trajectories one after another; ends kept that are not finite
lin      map, noise covariance, stationary covariance and closed forms on a Gaussian
(i)      E[MH] = 1, one trajectory from exact draws, at a step size at which MH has light tails
(ii)     E[min(1, MH) sign(log MH)] = 0
(iii)    E[min(1, MH) (f(end) - f(start, momentum negated))] = 0, f = theta, theta^2, theta^3, m, m^2, theta m
dec      what the row's own rule accepts, less its probability of U in NumPy ((i) to (iii) are of the trajectory alone)
(iv)64   moments after 20 decisions from exact draws, in float64, of the persistent uniform too; (iv)32 in float32
cov      covariance and lag-1 autocovariance of unadjusted trajectories against linear theory
order    the batches' joint law against its mirror image, and given those of the trajectory before
step     power of h of the energy error of a step; time: of a fixed time
Columns back to lin show errors, (i) to order the largest |z| of their tests. x: fails, as theory says it must or
may. !: contradicts what is claimed. Two-way: the direction is drawn for each trajectory."""
WRITTEN = "certificate.csv has every cell with its standard error and smallest bias."


def summary(cells: list[Cell], threshold: float, tests: int, seconds: float, of: str) -> list[str]:
    """The design's and the verdict's numbers; ``of`` names whose claims they are."""
    rows = len({cell.row for cell in cells})
    wrong = [cell for cell in cells if cell.verdict == "WRONG"]
    must = {(cell.row, cell.column) for cell in cells if cell.expected == "fails"}
    missed = {(cell.row, cell.column) for cell in wrong if cell.expected == "fails"}
    biases = {}
    for cell in cells:
        if cell.smallest_bias and cell.expected == "holds":
            biases.setdefault(cell.column, []).append(cell.smallest_bias)
    bonferroni = f"{FALSE_ALARM / max(tests, 1):.1e}"
    lines = [
        f"{rows} rows, {len(cells)} cells, {tests} statistical tests, {seconds:.0f} seconds.",
        f"False alarm of the whole at most {FALSE_ALARM:g}, so {bonferroni} a test: |z| < {threshold:.2f} (Bonferroni;",
        "normal approximation of means over independent chains).",
        f"Exact cells are held to {identities.EXACT:g} (stationary covariances: times the equation's "
        "condition number),",
        f"powers of h to {statistics.SLOPE:g}.",
        "Smallest bias that is seen with probability .9, worst cell, in standard deviations of a function",
        "(of (i), (ii) and dec as it is; of dec it is a probability):",
        "  " + ", ".join(f"{name} {max(values):.3f}" for name, values in biases.items()),
        f"Failures that theory asks for: {len(must)}, of them seen: {len(must - missed)}.",
        *reasons(cells),
    ]
    if wrong:
        lines += ["", "NOT borne out:"] + [f"  {_sentence(cell)}" for cell in wrong]
    else:
        lines += ["", f"Every claim of {of} is borne out."]
    return lines


def reasons(cells: list[Cell]) -> list[str]:
    """Which columns of which rows must fail, or cannot, and why."""
    grouped: dict[tuple[str, str], tuple[dict, dict]] = {}
    for cell in cells:
        if cell.reason:
            which = grouped.setdefault((cell.expected, cell.reason), ({}, {}))
            which[0][cell.column], which[1][cell.row] = None, None
    lines = []
    for (expected, reason), (names, rows) in grouped.items():
        verb = "must fail" if expected == "fails" else "cannot fail"
        text = f"{', '.join(names)} {verb}: {reason} [{'; '.join(rows)}]"
        lines += textwrap.wrap(text, 118, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return lines


def _sentence(cell: Cell) -> str:
    what = f"z = {cell.z:.1f}" if cell.tests else f"{cell.figure:.2g}"
    held = "should fail and holds" if cell.expected == "fails" else "should hold and fails"
    return f"{cell.row}: {cell.column} {held} ({cell.target}, {cell.dtype}, {cell.statistic}: {what})"


def write(folder: Path, cells: list[Cell], text: list[str]) -> tuple[Path, Path]:
    """``certificate.md``, the page that was printed, and ``certificate.csv``, a line a cell; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    page, table = folder / "certificate.md", folder / "certificate.csv"
    with open(table, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Cell)])
        writer.writeheader()
        for cell in cells:
            values = asdict(cell).items()
            writer.writerow({key: f"{value:.4g}" if isinstance(value, float) else value for key, value in values})
    page.write_text("\n".join(["# Certificate of exactness", "", "```", *text, "```", ""]), encoding="utf-8")
    return page, table


def _check_writable(folder: Path) -> None:
    with disk.told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


def made() -> str:
    """One sentence: of which code it is."""
    facts = environment(torch.device("cpu"))
    commit = f"commit {facts['git_commit'][:12]}{facts['git_commit'][40:]}, " if facts["git_commit"] else ""
    return f"Made by {commit}LAW = {LAW}, torch {facts['torch']}, on {facts['processor']}."


def main(arguments: list[str] | None = None) -> int:
    described = "The exactness certificate of the samplers."
    parser = argparse.ArgumentParser(prog="python -m sgmcmc.certify", description=described)
    parser.add_argument("names", nargs="*", metavar="NAME", help="samplers to certify (all)")
    parser.add_argument("--word", help="certify a word of your own, such as BABOBAB")
    parser.add_argument("--full", action="store_true", help="ten times the chains, every target in both precisions")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (0)")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="for certificate.md and .csv (results; with NAME or --word they are written only if it is given)",
    )
    if arguments is None:
        settle()
    options = parser.parse_args(arguments)
    # A few rows must not take the place of the whole certificate unasked.
    whole = not options.names and options.word is None
    folder = options.output or (Path("results") if whole else None)
    began = time.monotonic()
    try:
        for name in options.names:
            lookup(name)
        if options.names and options.word is not None:
            raise SettingError("--word", options.word, "give names of samplers or a word, not both")
        if not 0 <= options.seed < SEEDS:
            raise SettingError("--seed", options.seed, f"must be from 0 to {SEEDS - 1}")
        rows = design(options.names, options.word)
        if folder:
            _check_writable(folder)  # which is better known before the rows have taken their minutes
        cells = run(rows, MANY if options.full else CHAINS, options.seed, options.full, progress=True)
    except (SettingError, StoreError) as error:
        print(error, file=sys.stderr)
        return 2
    threshold, tests = judge(cells)
    legend = LEGEND.split("\n") + ([WRITTEN] if folder else [])
    made_of = OF_A_WORD if options.word is not None else DESIGN
    text = [*show(cells), "", *legend, "", *made_of.split("\n"), *MEASURED.split("\n"), ""]
    text += summary(cells, threshold, tests, time.monotonic() - began, "the samplers table" if whole else "these rows")
    # The networks are sampled with GGMC: their budget says nothing of a word or of another sampler.
    if whole or "ggmc" in options.names:
        text += ["", *networks.page(networks.budgets())]
    text += ["", made()]
    print("\n".join(text))
    if folder:
        print(f"\nwritten: {', '.join(map(str, write(folder, cells, text)))}")
    else:
        print("\nnot written: for that, give --output FOLDER")
    return 1 if any(cell.verdict == "WRONG" for cell in cells) else 0


if __name__ == "__main__":
    sys.exit(main())
