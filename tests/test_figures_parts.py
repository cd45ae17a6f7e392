"""Figures of a part of the runs: a sampler, a target or a word that was not run, a single row, runs that diverged."""

import sys
import tarfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from pandas.api.types import is_numeric_dtype

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import draw  # noqa: E402
import verdicts  # noqa: E402
from figures import finding_words, ggmc_fig1, ggmc_figd1  # noqa: E402

FEW = 12  # values, of a column that says which run a row is of
WITHIN = {"step", "cycle", "epoch", "seconds"}  # what a run has several of, or only once it has ended
DIVERGED = {  # of what diverges in a paper, too
    "agrees: it diverges",
    "agrees: it diverges, as theirs does",
}


def without_each(tables: list[pd.DataFrame]):
    """The tables without each value, in turn, of the columns that say in words which run a row is of; those that two
    columns leave alike once."""
    names = dict.fromkeys(name for table in tables for name in table if not is_numeric_dtype(table[name]))
    seen = set()
    for column in [name for name in names if name not in ("status", "why")]:
        values = {one for table in tables if column in table for one in table[column].dropna()}
        for value in sorted(values) if len(values) <= FEW else ():
            part = [table[table[column] != value] if column in table else table for table in tables]
            rows = tuple(tuple(table.index) for table in part)
            if rows not in seen:
                yield part
            seen.add(rows)


def diverged(table: pd.DataFrame) -> pd.DataFrame:
    """A row of each run, which has its settings and no number that was measured."""
    if "status" not in table:
        return table
    few = min(FEW, len(table) // 2)
    many = [name for name in table if is_numeric_dtype(table[name]) and table[name].nunique() > few]
    known = [name for name in table if name.endswith("_error") or f"{name}_error" in table]
    measured = {*many, *known, *WITHIN & {*table}} - {"step_size", "quoted", "quoted_error"}
    table = table.assign(status="diverged", why="diverged at cycle 9", **dict.fromkeys(measured, np.nan))
    return table.drop_duplicates()


def said(module, tables: list[pd.DataFrame], rows: list[tuple]) -> str:
    """What the figure says of them, which is drawn without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = module.draw(*tables)
    draw.pyplot.close(figure)
    return draw.headline(figure, module.SOURCE if draw.in_part(rows) else "")


@pytest.mark.thorough
@pytest.mark.parametrize("script", draw.scripts(), ids=lambda script: script.stem)
@pytest.mark.parametrize("scale", draw.SCALES)
def test_a_part_of_the_runs_is_compared_and_drawn(script, scale):
    """At quick scale every part is compared and three are drawn; paper scale has the same columns."""
    module = draw.load(script)
    tables = draw.read(module.TABLES, ROOT / "results" / scale / "tables")
    if tables is None:
        pytest.skip("its tables are not there")
    whole = draw.compared(module, tables)
    assert not draw.in_part(whole)
    parts = [[table[:1] for table in tables], [diverged(table) for table in tables], *without_each(tables)]
    for number, part in enumerate(parts if scale == "quick" else parts[:3]):
        part = [table.reset_index(drop=True) for table in part]
        if draw.unfinished(module.TABLES, part):
            continue
        rows = draw.compared(module, part)
        assert not [row for row in rows if "nan" in " ".join(map(str, row)).split() and row not in whole]
        if number == 1:  # all diverged: what agrees then is that they do, or is of no run
            assert all(row in whole or row[3] in DIVERGED for row in rows if row[3].startswith("agrees"))
        if number < 3 and scale == "quick":
            assert "nan" not in said(module, part, rows).split()


def test_of_chains_shorter_than_20_tau_there_is_neither_tau_nor_ess():
    """Whatever the column's function is called: Neal's log τ² is tau2."""
    table = pd.DataFrame({"draws_a_chain": 1000, "tau_tau2": [49.0, 51.0], "tau": [51.0, 49.0], "tau_u": 1.0})
    values = {f"{name.replace('tau', 'ess', 1)}{end}": 7.0 for name in table if "tau" in name for end in ("", "_error")}
    found = verdicts.long_enough(table.assign(**values, tau_tau2_error=1.0))
    short = found.isna().apply(lambda row: set(row.index[row]), axis=1)
    assert short[1] == {"tau_tau2", "tau_tau2_error", "ess_tau2", "ess_tau2_error"}
    assert short[0] == {"tau", "ess", "ess_error"}


def test_nothing_is_claimed_of_one_or_of_none():
    """What all of none are, or what the only one is beside itself, is no verdict."""
    rows = verdicts.Rows(pd.DataFrame({"sampler": ["hmc"], "status": ["done"]}), "sampler")
    assert rows.judge("what", "paper", [], lambda *found: ("", "agrees"))[3] == "not comparable: no run"
    one = {"word": "OBABO", "refresh": ["keep", "full"], "accepted": 0.5, "accepted_error": 0.1}
    assert finding_words.of_acceptance("", pd.DataFrame(one))[3] == "not comparable: no run of another word"
    bare = pd.DataFrame({"target": ["heart"], "acceptance": "monitor", "status": "done"})
    assert finding_words.diverged(bare, finding_words.name_of)[3].startswith("not comparable")
    table = pd.read_csv(ROOT / "results" / "quick" / "tables" / "ggmc_figd1.csv")
    found = {row[0]: row[3] for row in ggmc_figd1.compare(table[table.lr == table.lr.min()])}
    for sampler in ("GGMC", "HMC"):
        assert found[f"{sampler}: abs(log MH) grows with ℓ"] == "not comparable: no run at another ℓ"
        assert found[f"{sampler}: acceptance close to 1 for ℓ = 1e-6 alone"] == "not comparable: no run at another ℓ"
    one = pd.read_csv(ROOT / "results" / "quick" / "tables" / "ggmc_fig1_as_run.csv")
    one = {row[0]: row[3] for row in ggmc_fig1.compare(one[one.lr == one.lr.min()], exact=False)}
    assert one["GGMC: abs(log MH) grows with ℓ, from 0.0001 on"] == "not comparable: no run at another ℓ"
    found = {row[0]: row[3] for row in ggmc_figd1.compare(table[table.lr > table.lr.min()])}
    assert found["HMC: acceptance close to 1 for ℓ = 1e-6 alone"] == "not comparable: no run at ℓ = 1e-6"


def test_chains_of_figure_1_that_are_begun_are_told(tmp_path, monkeypatch):
    """By the second half of what an archive of run folders has of them."""
    monkeypatch.chdir(tmp_path)
    assert not list(ggmc_fig1.begun(tmp_path / "none.tar"))
    for name, sampler in (("ggmc_fig1", "hmc"), ("ggmc_fig1_as_run", "ggmc")):
        run = Path("results", "runs", name, "0123")
        run.mkdir(parents=True)
        (run / "config.yaml").write_text(f"lr: 0.001\nsampler: {{name: {sampler}}}\n")
        log_mh = {"cycle": range(1, 5), "log_accept": [-9, -8, -300, -100], "kinetic_temperature": [2, 2, 1, 1.1]}
        pd.DataFrame(log_mh).to_csv(run / "metrics.csv", index=False)
    with tarfile.open("chain.tar", "w") as archive:
        archive.add("results")
    ((what, paper, here, verdict),) = ggmc_fig1.begun(Path("chain.tar"))
    assert what == "HMC, 50,000 images, ℓ = 0.001: log MH of cycles 3 to 4" and paper == "≈ 0 (cycle 101)"
    assert here == "-2e+02 in the mean (-3e+02 to -1e+02); kinetic temperature 1.050"
    assert verdict.startswith("not comparable: 4 of 300 cycles so far")


def test_a_title_claims_what_every_verdict_bears():
    for others, title in (([], "claim"), (["not claimed: exact"], "claim"), (["differs: by 2"], "what is drawn")):
        assert verdicts.headed("claim", iter(["agrees: by one timing", *others]), "what is drawn") == title
    assert verdicts.headed("claim", [], "what is drawn") == "what is drawn"
    assert verdicts.headed("claim", ["agrees", "not comparable: no run"], "what is drawn") == "what is drawn"


def test_a_table_without_numbers_is_not_drawn(tmp_path, monkeypatch):
    """Of runs that all diverged before they left any, and of runs none of which has a row: a blank file."""
    monkeypatch.setattr(draw, "ROOT", tmp_path)
    (tmp_path / "results" / "quick" / "tables").mkdir(parents=True)
    table = tmp_path / "results" / "quick" / "tables" / "neal_rejection.csv"
    script = tmp_path / "scripts" / "figures" / "neal_rejection.py"
    script.parent.mkdir(parents=True)
    script.write_text('SOURCE, CAPTION = "Some", "Of some."\ndef draw(table):\n    return table.nothing\n')
    for text, why in (
        ("sampler,status,why\nhmc,diverged,at once\n", "no run of neal_rejection has finished: at once"),
        ("sampler,status,chains\nhmc,failed,0\n", "no run of neal_rejection has finished"),
        ("\n", "no run has a row in neal_rejection"),
    ):
        table.write_text(text)
        found = draw.figure(script)
        assert found["said"] == [f"did not draw neal_rejection at quick scale: {why}"] and not found["broken"]
        assert f"*Not drawn: {why}.*" in found["section"]


@pytest.mark.parametrize("verdict", ["not comparable: no run of HMC", "differs: HMC, diverged at 9", "agrees"])
def test_a_figure_of_a_part_claims_nothing(verdict):
    for titled in ("suptitle", "set_title"):
        figure, panel = draw.pyplot.subplots()
        getattr(figure if titled == "suptitle" else panel, titled)("All is well")
        said = draw.headline(figure, "Figure 1" if draw.in_part([("what", "paper", "", verdict)]) else "")
        assert said == ("All is well" if verdict == "agrees" else "Figure 1")
        draw.pyplot.close(figure)


def test_what_is_plotted_of_figure_1_is_j_of_all_chains_with_its_error():
    module = draw.load(ROOT / "scripts" / "figures" / "amagold_fig1.py")
    table, densities = draw.read(module.TABLES, ROOT / "results" / "quick" / "tables")
    panel = module.draw(table, densities).axes[3]
    for word, line in zip(("AE", "EA", "ABOBA"), panel.containers, strict=True):
        part = table[(table.word == word) & table.tuned_to.isna()]
        np.testing.assert_array_equal(line.lines[0].get_xydata(), part[["step_size", "J"]])
        ends = np.array([(low[1], high[1]) for low, high in line.lines[2][0].get_segments()])
        np.testing.assert_allclose(ends, np.stack((part.J - part.J_error, part.J + part.J_error), 1))
    pyplot.close("all")


@pytest.mark.parametrize("scale", draw.SCALES)
def test_labels_of_figure_7_stand_as_the_curves_end(scale):
    module = draw.load(ROOT / "scripts" / "figures" / "amagold_fig7.py")
    table, many = draw.read(module.TABLES, ROOT / "results" / scale / "tables")
    drawn = module.draw(table, many)
    for panel, (model, _) in zip(drawn.axes, module.PARTS, strict=True):
        heights = {text.get_text(): text.xy[1] for text in panel.texts if hasattr(text, "xy")}
        ends = table[table.model == model].groupby("sampler").J.last()
        assert (heights["SGHMC"] > heights["AMAGOLD"]) == (ends.sghmc > ends.amagold)
        assert 1.2 < max(heights.values()) / min(heights.values()) * ends.min() / ends.max() < 2
    pyplot.close("all")
