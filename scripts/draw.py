"""Draw every figure from the summary tables that are there, and the page that shows them: what `make figures` runs.

A script in scripts/figures/ is one figure. Its name begins with the part of the page that it belongs to (ggmc, amagold,
neal, note); all others are findings. It has

- ``SOURCE``, what it is a figure of, and ``CAPTION``, what it shows and what was decided where the source is silent;
- ``TABLES``, the summary tables that it reads (by default the one of its own name);
- ``draw(*tables)``, which returns the figure;
- ``compare(*tables)``, rows (what, in the paper, measured here, verdict), where the source has numbers or claims. Of a
  finding, which no paper has, ``SOURCE`` is the question, and the second column is what was to be expected.

A small one, which ``style`` (scripts/style.py) gives the colours and names of samplers::

    from matplotlib import pyplot
    from style import COLOURS, NAMES, clean

    SOURCE, CAPTION = "Which word is accepted oftener?", "Acceptance over step size, 4 chains each, on Heart."

    def draw(table):
        figure, panel = pyplot.subplots(layout="constrained")
        for (name, word), part in table.groupby(["sampler", "word"]):
            look = {"color": COLOURS.get(name), "label": NAMES.get(name, word)}
            panel.errorbar(part.step_size, part.accepted, part.accepted_error, **look)
        panel.set(xlabel="step size h", ylabel="acceptance")
        panel.legend(frameon=False)
        clean(panel)
        return figure

Tables are read from results/<scale>/tables/, figures are written to results/<scale>/figures/ as PNG and PDF, and
results/README.md shows each at the largest scale that is there. What is missing is listed with the command that makes
it. Of tables of a part of the runs a figure shows what is there, says under "verdict" what is not, and is titled by its
source, without a claim. What the page says of it in short is its title: that over all panels, or of the only one that
has one.

    python scripts/draw.py [FIGURE ...]     # such as ggmc_fig1: those alone, and the page is left as it was
    python scripts/draw.py --of FOLDER      # of the tables in FOLDER/tables, in FOLDER/figures, without the page
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

os.environ["MPLBACKEND"] = "Agg"  # what a notebook's shell commands inherit may not be installed here
import pandas as pd
from matplotlib import pyplot
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from experiments.tables import TABLES  # noqa: E402
from experiments.wanted import WANTED  # noqa: E402
from sgmcmc import disk  # noqa: E402
from sgmcmc.environment import cores, end_with_parent  # noqa: E402
from sgmcmc.errors import nearest  # noqa: E402
from sgmcmc.streams import settle  # noqa: E402

SCALES = ("paper", "quick")
PARTS = {
    "ggmc": "Exact Langevin dynamics with stochastic gradients (Garriga-Alonso and Fortuin 2021)",
    "amagold": "AMAGOLD: amortized Metropolis adjustment for efficient stochastic gradient MCMC (Zhang, Cooper, De Sa 2020)",  # noqa: E501
    "neal": "Non-reversible Langevin methods (Neal's talk, 2020)",
    "note": "Langevin MCMC and its M-H acceptance probability (Garriga-Alonso, note of 2020)",
    "finding": "Findings of this project",
}
HEAD = """# Results

Every figure and table of the papers ([GGMC](https://arxiv.org/abs/2102.01691),
[AMAGOLD](https://arxiv.org/abs/2003.00193), Neal's talk, whose [paper](https://arxiv.org/abs/2001.11950) has more, and
a note of 2020), as this program reproduces them, and at the end what it found that no paper has: each at paper scale (a
finding: in full) where that has been run, else at quick scale, and it says which. This page is written by
`make figures` from the summary tables in `paper/tables/` and `quick/tables/`; the numbers under "here" are read from
them.

Verdicts: *agrees* and *differs* are of what the source says, beyond the errors of what was measured here, or beyond the
tolerance that the row names; *not resolved*: these errors cannot tell; *not decided*: something else leaves it open
(one seed, the edge of a grid), which the row says; *not comparable*: this is another experiment than the source's
(fewer data, shorter chains), or a run is missing; *not claimed*: the source says nothing of it. ± is a standard error
where nothing else is said. A difference is decided beyond three of them, or beyond more where chance would exceed three
oftener than once in a hundred: of the largest of several differences (Bonferroni), or of few chains (Student's t).
Chains of networks are taken to agree where R-hat is below 1.05: to come below 1.01, from which on `run.py` says "not
mixed, or too short to tell", they would have to be about five times as long, as R-hat² − 1 falls like one over their
length.

Symbols:

- **U** is minus the log posterior density, of all data and with the prior in it; θ has density exp(−U/T), T = 1 where
  nothing else is said. The kinetic and the configurational temperature, mᵀM⁻¹m/d and ⟨θ, ∇U⟩/d, are both T in
  equilibrium (m the momentum, M the mass, d the number of coordinates). (In AMAGOLD's sections "T = 10" is, as in that
  paper, the number of steps of a trajectory; so it is in the finding on that paper's Theorem 2, where γ is a spectral
  gap.)
- **J** is the symmetric Kullback-Leibler divergence Σ (q − p) log(q/p) of a histogram's shares q and the exact masses p
  of its bins.
- **log MH** is the logarithm of a trajectory's Metropolis-Hastings ratio; it is accepted with probability min(1, MH).
- **h**, or **ε** as AMAGOLD and Neal write it, is the step size; **ℓ** = N h² the learning rate, of N data.
- **τ** is the integrated autocorrelation time (τ² and σ² of Neal's models are variances), the sum of autocorrelations
  up to a lag, averaged over lags W/2 to W; W is five times the sum of their sizes, and is doubled as long as that adds
  more than chance does. **ESS**, the effective sample size, is the number of draws over τ. Of the slowest coordinate
  it is the least of several estimates and so comes out too small, by an amount that its error does not contain, which
  is larger where many coordinates are about as slow, and where the chains are few τ long. **R-hat** compares chains
  with each other, and is 1 where they agree.
- **Independent minibatches** of B data are B data drawn independently *with replacement*, their errors' variance
  (N − 1)/(N − B) times that of B different data: 1.25 times of a fifth of the data, twice of a half. A **shuffled
  epoch** has each datum once.
- A **word** has the letters of a step in their order: A drift (of θ), B kick (of the momentum, by a gradient), O
  refresh (of a part of the momentum), E Euler's kick and refresh in one.
- **The certificate** ([certificate.md](certificate.md), by `make certify`) shows row by row that the acceptance
  probabilities are exact; a caption names the rows that its samplers rest on.
- **Dist1** and **Dist2** are AMAGOLD's distributions in the plane, a banana and a mixture of two correlated normals.

What each figure shows, in short, is said of the tables that it is drawn from. "Decided here" in a caption is what was
taken where the source is silent, or says two things.

| figure | in short | scale | verdicts |
|---|---|---|---|
"""


SMALL = """At quick scale alone, because their chains of up to 3,000 epochs of a ResNet-20 take a GPU (a CPU core takes
half an hour for one of the 300 cycles of 10 epochs; `make gpu` runs them)"""
OTHERS = "At quick scale alone, not run at paper scale yet"


def load(script: Path):
    """The module of a figure script."""
    if str(script.parents[1]) not in sys.path:
        sys.path.insert(0, str(script.parents[1]))
    spec = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("SOURCE", "CAPTION", "draw"):
        if not hasattr(module, name):
            raise AttributeError(f"it has no {name}")
    module.TABLES = getattr(module, "TABLES", (script.stem,))
    module.TABLES = (module.TABLES,) if isinstance(module.TABLES, str) else tuple(module.TABLES)
    return module


def part(script: Path) -> str:
    """The part of the page that a figure belongs to."""
    name = script.stem.partition("_")[0]
    return name if name in PARTS else "finding"


def scripts() -> list[Path]:
    """The figure scripts, in the order of the page."""
    found = (ROOT / "scripts" / "figures").glob("*.py")
    return sorted(found, key=lambda path: (list(PARTS).index(part(path)), path.stem))


def read(names, folder: Path) -> list[pd.DataFrame] | None:
    """The tables of a figure; None where one is not there."""
    paths = [folder / f"{name}.csv" for name in names]
    return [table(path) for path in paths] if all(path.exists() for path in paths) else None


def table(path: Path) -> pd.DataFrame:
    """A summary table; that of runs none of which has a row in it is a blank file."""
    try:
        return pd.read_csv(path)
    except pd.errors.EmptyDataError:
        return pd.DataFrame()


def unfinished(names, tables: list[pd.DataFrame]) -> str:
    """Which of a figure's tables has no number of any run, and why: there is nothing to draw then. Else nothing."""
    for name, rows in zip(names, tables, strict=True):
        if rows.empty:
            return f"no run has a row in {name}"
        # Of runs that all diverged or failed there are numbers where they left some, which took their seconds.
        if "status" in rows and "seconds" not in rows and not (rows.status == "done").any():
            return f"no run of {name} has finished" + (f": {rows.why.iloc[0]}" if "why" in rows else "")
    return ""


def save(figure, out: Path) -> None:
    """As PNG and PDF, each the old one or the new one; the same table gives the same bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    for kind, how in (
        ("png", {"dpi": 150, "metadata": {"Software": None}}),
        ("pdf", {"metadata": {"CreationDate": None}}),
    ):
        picture = io.BytesIO()
        figure.savefig(picture, format=kind, **how)
        disk.write(out.with_suffix(f".{kind}"), picture.getvalue())
    pyplot.close(figure)


def main(words: list[str] | None = None) -> int:
    """Draw what can be drawn, write the page, tell what is missing. Exit status 1 where a table could not be drawn."""
    about = "Draw every figure whose tables are in results/<scale>/tables/, and write results/README.md."
    parser = argparse.ArgumentParser(description=about)
    alone = "a name in scripts/figures, such as ggmc_fig1: such figures alone are drawn, and the page stays as it was"
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=alone)
    other = "draw the tables in FOLDER/tables instead, in FOLDER/figures: those that `jug execute` with settings of "
    other += "your own made in results/runs/"
    parser.add_argument("--of", type=Path, metavar="FOLDER", help=other)
    options, known = parser.parse_args(words), {script.stem: script for script in scripts()}
    chosen, folder = options.figures, options.of and options.of.resolve()
    for name in chosen:
        if name not in known:
            mend = f"there is no such figure; known are {', '.join(known)}"
            parser.error(f"{name}: {nearest(name, known, mend)}")
    if folder and not (folder / "tables").is_dir():
        parser.error(f"--of {options.of}: has no folder tables")
    picked = [script for name, script in known.items() if name in chosen or not chosen]
    draw = partial(figure, results=folder, scales=("",)) if folder else figure
    missing, broken, sections, summary, notes, before = [], [], [], [], [], None
    with ProcessPoolExecutor(cores(), initializer=end_with_parent) as pool:
        for script, drawn in zip(picked, pool.map(draw, picked), strict=True):
            for line in drawn["said"]:
                print(line, flush=True)
            missing += drawn["missing"]
            broken += drawn["broken"]
            if not drawn["section"]:
                continue
            if part(script) != before:
                before = part(script)
                sections.append(f"## {PARTS[before]}\n")
            sections.append(drawn["section"])
            summary.append(drawn["summary"])
            notes += drawn["notes"]
    if not (chosen or folder):
        page = [HEAD + "\n".join(summary) + "\n", *short_of(notes), *sections]
        write(ROOT / "results" / "README.md", "\n".join(page))
    for names, scale in missing:
        experiments = ",".join(dict.fromkeys(TABLES[name][0] for name in names))
        command = f"jug execute jugfile.py experiment={experiments} scale={scale}"
        if not folder:
            print(f"missing: {' and '.join(names)} at {scale} scale; {command} makes it", flush=True)
        elif chosen:
            print(f"missing in {options.of}: {' and '.join(names)}", flush=True)
    for line in broken:
        print(line, flush=True)
    return int(bool(broken))


def short_of(notes: list[tuple]) -> list[str]:
    """The part of the page that says what was not run in full, and each row that differs."""
    lines = ["## What differs, and what is not at the papers' scale\n"] if notes else []
    for why, awaited in ((SMALL, True), (OTHERS, False)):
        small = [link for link, scale, *_, gpu in notes if scale != "paper" and gpu == awaited]
        if small:
            lines.append(f"{why}: {'; '.join(small)}.\n")
    for link, scale, finding, rows, _ in notes:
        where, source = "" if scale == "paper" else f", {scale} scale", "expected" if finding else "in the paper"
        lines += [
            f"- {link}{where}: {what}; {source}: {said}; here: {verdict}"
            for what, said, _, verdict in rows
            if verdict.startswith("differs")
        ]
    return [*lines, ""] if lines else []


def told(error: Exception, script: Path) -> str:
    """An error and, where it is one of the figure's script, the last line of that which led to it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == script]
    where = f" (line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {error}{where}"


def figure(script: Path, results: Path | None = None, scales=SCALES) -> dict:
    """Draw one at every scale that is there, each a folder in ``results``: what was said, its section of the page, its
    line, what is missing, and what could not be drawn, which is no reason to go without the other figures."""
    said, missing, broken, shown, why = [], [], [], None, ""
    results = results or ROOT / "results"
    try:
        module = load(script)
    except Exception as error:
        broken.append(f"could not draw {script.stem}: {told(error, script)}")
        return {"said": said, "missing": missing, "broken": broken, "section": "", "summary": "", "notes": []}
    for scale in scales:
        where = f" at {scale} scale" if scale else ""
        out = results / scale / "figures" / script.stem
        try:
            tables = read(module.TABLES, results / scale / "tables")
            if tables is None:
                missing.append((module.TABLES, scale))
                continue
            if gap := unfinished(module.TABLES, tables):
                said.append(f"did not draw {script.stem}{where}: {gap}")
                why = why or f"Not drawn: {gap}"
                continue
            drawn = module.draw(*tables)
            rows = compared(module, tables)
            gaps = [gap for one in tables for gap in failed(one)]
            heading = headline(drawn, module.SOURCE if gaps or in_part(rows) else "")
            save(drawn, out)
            found = section(script.stem, module, (scale, rows), results, gaps=gaps), heading, rows
        except Exception as error:
            names = " and ".join(module.TABLES)
            broken.append(f"could not draw {script.stem} of {names}{where}: {told(error, script)}")
            why = why or "Could not be drawn"
            continue
        said.append(f"drew {os.path.relpath(out, ROOT)}.png and .pdf")
        shown = shown or (scale, found)
    unknown = [name for name in module.TABLES if name not in TABLES]
    if unknown and not shown and not broken:
        broken.append(f"could not draw {script.stem}: no experiment makes the table {unknown[0]}")
    if unknown:  # there is no command that makes it
        missing = []
    nothing = "not drawn" if why else "not run", (section(script.stem, module, None, results, why), "", [])
    scale, ((text, verdicts), heading, rows) = shown or nothing
    anchor = module.SOURCE.lower().translate(str.maketrans(" ", "-", ",.:;()'’?"))
    link = f"[{module.SOURCE}](#{anchor})"
    line = f"| {link} | {cell(heading)} | {scale} | {verdicts} |"
    experiments = {TABLES[name][0] for name in module.TABLES if name in TABLES}
    on_gpu = any(experiment in experiments for experiment, *_ in WANTED)
    notes = [(link, scale, part(script) == "finding", rows, on_gpu)]
    return {"said": said, "missing": missing, "broken": broken, "section": text, "summary": line, "notes": notes}


def compared(module, tables) -> list[tuple]:
    """The rows of a figure's comparison."""
    return list(module.compare(*tables)) if hasattr(module, "compare") else []


def in_part(rows: list[tuple]) -> bool:
    """Whether a comparison tells of runs that are not there, or diverged."""
    return any(gap in str(verdict) for *_, verdict in rows for gap in ("no run", "is missing", "diverged"))


def failed(rows: pd.DataFrame) -> list[str]:
    """One sentence of each run of a table that could not be made at all, which no verdict need tell of."""
    if "why" not in rows:
        return []
    return [f"A run is missing: {why}" for why in rows.why[rows.status == "failed"]]


def headline(drawn: Figure, instead: str = "") -> str:
    """What a figure says over all of its panels, or over the only one that has a title; or what it is to say there
    ``instead``: a picture of a part of the runs claims nothing of the others."""
    titled = [panel for panel in drawn.axes if panel.get_title()]
    if instead and drawn.get_suptitle():
        drawn.suptitle(instead)
    elif instead and len(titled) == 1:
        titled[0].set_title(instead)
    said = drawn.get_suptitle() or (titled[0].get_title() if len(titled) == 1 else "")
    return " ".join(said.split())


def section(name: str, module, shown, results: Path, why: str = "", gaps=()) -> tuple[str, str]:
    """A figure's part of the page, of its scale and the rows of its comparison, and its verdicts in a few words;
    ``why`` there is no figure, where it is known, and the ``gaps`` of its tables (``failed``)."""
    lines = [f"### {module.SOURCE}\n"]
    if shown is None:
        lines += [module.CAPTION.strip() + "\n", f"*{why or 'Not run yet'}.*\n"]
        return "\n".join(lines), ""
    scale, rows = shown
    lines += [f"![{module.SOURCE}]({scale}/figures/{name}.png)\n", module.CAPTION.strip() + "\n"]
    if rows:
        said = "expected" if name.startswith("finding") else "paper"
        lines += [f"| | {said} | here | verdict |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(map(cell, row))} |" for row in rows]
        lines.append("")
    for name in module.TABLES:
        lines.append(f"*{made(name, scale, results / scale / 'tables')}*\n")
    lines += [f"*{gap}.*\n" for gap in gaps]
    counts = pd.Series([short(row[3]) for row in rows]).value_counts()
    return "\n".join(lines), ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def cell(value) -> str:
    """A cell of the table, whose own bars do not end it."""
    return str(value).replace("|", "\\|")


def short(verdict: str) -> str:
    """A verdict's first word; of one that begins with "not" the second, too."""
    words = [word.strip(":;,.") for word in verdict.split()]
    return " ".join(words[: 1 + (words[0] == "not")])


def made(table: str, scale: str, folder: Path) -> str:
    """One sentence: which command made the table, where, in what time."""
    path = folder / f"{table}.json"
    where = f"[{table}.csv]({scale}/tables/{table}.csv), {scale} scale"
    if not path.exists():
        return where
    facts = json.loads(path.read_text())
    machine = ", ".join(facts["processor"] + [device for device in facts["device"] if device != "cpu"])
    command = f"`jug execute jugfile.py experiment={facts['experiment']} scale={scale}`"
    took = f"{duration(facts['seconds'])} of sampling in {facts['runs']} runs" if facts["seconds"] else "no chain"
    return f"{where}: {command}; {took}" + (f" on {machine}, torch {', '.join(facts['torch'])}" if machine else "")


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def write(path: Path, text: str) -> None:
    """Write the page, where it is not there in the same words."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        disk.write(path, text.encode())
        print(f"wrote {path.relative_to(ROOT)}", flush=True)


if __name__ == "__main__":
    settle()
    sys.exit(main())
