"""Every experiment at smoke scale: its chains, its summary tables, the figures that are drawn of them, the page."""

import contextlib
import functools
import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments import build, tasks
from experiments.grid import configurations
from experiments.tables import EXPERIMENTS, minibatch_mh, tables_of, trajectory

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import draw  # noqa: E402

REAL = {"cifar10": "cifar-10-batches-py", "mnist": "MNIST", "notmnist": "notMNIST", "australian": "uci", "heart": "uci"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the smoke runs go; their tables are drawn by the tests after them."""
    return tmp_path_factory.mktemp("smoke")


@pytest.fixture(scope="module")
def once(pictures):
    """A data set is read once, and pictures are drawn of what a picture of another run has not shown."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "load", functools.cache(build.load))
        yield
    assert pictures


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_an_experiment_runs_and_makes_its_tables(experiment, folder, once, monkeypatch):
    configs = list(few_seeds(configurations(experiment, ("scale=smoke",))))
    for config in configs:
        for name in (config["data"]["name"], config["data"]["ood"]):
            if name in REAL and not (Path(os.environ.get("SGMCMC_DATA", "")) / REAL[name]).exists():
                pytest.skip(f"needs {name} in the folder that SGMCMC_DATA names")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(minibatch_mh, "LOOKS", 3)
    monkeypatch.setattr(trajectory, "MINIBATCHES", 5)
    ends = []
    for config in configs:
        end = None
        for cycles in tasks.lengths(config):
            end = tasks.segment(config, cycles, end)
        assert end["status"] in ("done", "diverged"), end
        ends.append(end)
    for name in tables_of(experiment):
        table = tasks.table(name, experiment, "smoke", configs, ends)
        assert table["rows"] and json.loads(json.dumps(table["made"])) == table["made"]
        assert tasks.table_path(name, "smoke").exists()


def few_seeds(configs):
    """The configurations of a grid but for those that differ from two others by the seed alone."""
    alike = Counter()
    for config in configs:
        key = json.dumps({**config, "seed": None}, sort_keys=True)
        alike[key] += 1
        if alike[key] <= 2:
            yield config


@pytest.mark.slow
@pytest.mark.parametrize("script", draw.scripts(), ids=lambda path: path.stem)
def test_a_figure_is_drawn_of_its_tables(script, folder):
    figure = draw.load(script)
    tables = draw.read(figure.TABLES, folder / "results" / "runs" / "smoke" / "tables")
    if tables is None:
        pytest.skip(f"no table {' or '.join(figure.TABLES)}: its experiment was skipped")
    draw.save(figure.draw(*tables), folder / script.stem)
    assert (folder / f"{script.stem}.png").stat().st_size > 5000
    text, _ = draw.section(script.stem, figure, ("quick", draw.compared(figure, tables)), folder)
    assert figure.SOURCE in text and figure.CAPTION.strip() in text


def test_the_page_cites_the_command_that_a_table_was_made_by(tmp_path):
    facts = {"experiment": "neal_rejection", "processor": [], "device": [], "torch": [], "seconds": 9, "runs": 1}
    (tmp_path / "some.json").write_text(json.dumps(facts))
    command = "`jug execute jugfile.py experiment=neal_rejection scale=quick`"
    assert command in draw.made("some", "quick", tmp_path)


def test_a_bar_in_a_cell_does_not_end_it():
    rows = [("what |x|", "0", "largest |z| 2 in 3", "agrees: |z| < 3")]
    figure = SimpleNamespace(SOURCE="A figure", CAPTION="Of it.", TABLES=(), compare=lambda: rows)
    text, verdicts = draw.section("finding_some", figure, ("quick", draw.compared(figure, [])), Path("results"))
    (line,) = (line for line in text.splitlines() if line.startswith("| what"))
    assert line == "| what \\|x\\| | 0 | largest \\|z\\| 2 in 3 | agrees: \\|z\\| < 3 |"
    assert verdicts == "1 agrees"


def test_a_run_that_failed_is_told_beneath_the_figure_which_then_claims_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(draw, "ROOT", tmp_path)
    script = tmp_path / "scripts" / "figures" / "neal_some.py"
    script.parent.mkdir(parents=True)
    script.write_text(
        'SOURCE, CAPTION = "Some", "Of some."\ndef draw(table):\n    from matplotlib import pyplot\n'
        '    figure, panel = pyplot.subplots()\n    figure.suptitle("All is well")\n    return figure\n'
    )
    tables = tmp_path / "results" / "quick" / "tables"
    tables.mkdir(parents=True)
    for rows, gap in (("hmc,done,", False), ("hmc,done,\nhmc,failed,epochs=7: is 7 steps", True)):
        (tables / "neal_some.csv").write_text(f"sampler,status,why\n{rows}\n")
        drawn = draw.figure(script)
        assert ("*A run is missing: epochs=7: is 7 steps.*" in drawn["section"]) == gap
        assert ("All is well" in drawn["summary"]) != gap


def test_the_page_gathers_what_differs_and_what_was_run_small():
    rows = [("this", "5", "6", "agrees"), ("that", "5", "7", "differs by 2")]
    notes = [("[One](#one)", "quick", False, rows, True), ("[Two](#two)", "quick", True, rows[:1], True)]
    notes += [("[Mine](#mine)", "quick", True, [], False), ("[Three](#three)", "paper", False, rows[1:], False)]
    text = "\n".join(draw.short_of(notes))
    assert f"{draw.SMALL}: [One](#one); [Two](#two).\n" in text and f"{draw.OTHERS}: [Mine](#mine).\n" in text
    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        "- [One](#one), quick scale: that; in the paper: 5; here: differs by 2",
        "- [Three](#three): that; in the paper: 5; here: differs by 2",
    ]


def test_no_kept_table_has_a_run_that_failed():
    for path in sorted((ROOT / "results").glob("*/tables/*.csv")):
        assert not draw.failed(draw.table(path)), path


def test_help_draws_nothing(capsys):
    with pytest.raises(SystemExit) as end:
        draw.main(["--help"])
    assert end.value.code == 0 and "results/README.md" in capsys.readouterr().out


def test_one_figure_is_drawn_without_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(draw, "ROOT", tmp_path)
    (tmp_path / "results").mkdir()
    script = tmp_path / "scripts" / "figures" / "ggmc_one.py"
    script.parent.mkdir(parents=True)
    script.write_text('SOURCE, CAPTION, TABLES = "One", "Of one.", "amagold_fig1"\ndraw = print')
    shutil.copy(script, script.with_name("ggmc_two.py"))
    assert draw.main(["ggmc_two"]) == 0
    assert capsys.readouterr().out.count("missing: amagold_fig1") == 2  # at either scale, for one figure
    assert not (tmp_path / "results" / "README.md").exists()
    with pytest.raises(SystemExit, match="2"):
        draw.main(["fig1"])
    assert "fig1: there is no such figure; known are ggmc_one, ggmc_two" in capsys.readouterr().err


def test_tables_of_other_settings_are_drawn_where_they_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(draw, "ROOT", tmp_path)
    for name, table in (("neal_one", "neal_rejection"), ("neal_two", "amagold_fig1")):
        script = tmp_path / "scripts" / "figures" / f"{name}.py"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(
            f'from matplotlib import pyplot\nSOURCE, CAPTION, TABLES = "One", "Of one.", "{table}"\n'
            "def draw(table): return pyplot.subplots()[0]\n"
        )
    other = tmp_path / "results" / "runs" / "quick,seed=1"
    with pytest.raises(SystemExit, match="2"):
        draw.main(["--of", str(other)])
    assert f"--of {other}: has no folder tables" in capsys.readouterr().err
    (other / "tables").mkdir(parents=True)
    (other / "tables" / "neal_rejection.csv").write_text("a\n1\n")
    assert draw.main(["--of", str(other)]) == 0
    assert capsys.readouterr().out == "drew results/runs/quick,seed=1/figures/neal_one.png and .pdf\n"
    assert (other / "figures" / "neal_one.png").exists() and not (tmp_path / "results" / "README.md").exists()
    assert draw.main(["neal_two", "--of", str(other)]) == 0
    assert capsys.readouterr().out == f"missing in {other}: amagold_fig1\n"


def test_every_table_is_drawn_by_a_figure():
    drawn = {table for script in draw.scripts() for table in draw.load(script).TABLES}
    assert drawn == {table for experiment in EXPERIMENTS for table in tables_of(experiment)}


def test_a_table_that_cannot_be_drawn_does_not_stop_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(draw, "ROOT", tmp_path)
    script = tmp_path / "scripts" / "figures" / "neal_some.py"
    script.parent.mkdir(parents=True)
    script.write_text('SOURCE, CAPTION = "Some", "Of some."\ndef draw(table):\n    return table.nothing\n')
    tables = tmp_path / "results" / "quick" / "tables"
    tables.mkdir(parents=True)
    (tables / "neal_some.csv").write_text("a\n1\n")
    drawn = draw.figure(script)
    (told,) = drawn["broken"]
    assert told.startswith("could not draw neal_some of neal_some at quick scale: AttributeError")
    assert told.endswith(" (line 3)")
    assert "*Could not be drawn.*" in drawn["section"] and "| not drawn |" in drawn["summary"] and not drawn["said"]
    (tables / "neal_some.csv").write_bytes(b"a\n\xff\xfe\n")
    (told,) = draw.figure(script)["broken"]
    assert told.startswith("could not draw neal_some of neal_some at quick scale: UnicodeDecodeError: ")
    (tables / "neal_some.csv").unlink()
    drawn = draw.figure(script)
    assert "*Not run yet.*" in drawn["section"] and "| not run |" in drawn["summary"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("own_some", "import nothing_of_the_kind", "ModuleNotFoundError: No module named 'nothing_of_the_kind'"),
        ("neal_some", 'CAPTION = "Of some."\n' + "def draw(table): ...", "it has no SOURCE"),
        (
            "own_some",
            'SOURCE, CAPTION, TABLES = "Some", "Of some.", "amagold_fgi1"\ndef draw(table): ...',
            "no experiment",
        ),
    ],
)
def test_a_script_that_is_no_figure_does_not_stop_the_others(name, text, said, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(draw, "ROOT", tmp_path)
    (tmp_path / "results").mkdir()
    for stem, code in (
        (name, text),
        ("mine", 'SOURCE, CAPTION, TABLES = "Mine", "My own.", "amagold_fig1"\ndraw = print'),
    ):
        script = tmp_path / "scripts" / "figures" / f"{stem}.py"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(code)
    assert draw.main([]) == 1
    told = capsys.readouterr().out
    assert f"could not draw {name}: " in told and said in told
    assert "### Mine" in (tmp_path / "results" / "README.md").read_text()


def test_a_picture_that_is_drawn_anew_is_the_old_one_until_it_is_whole(tmp_path):
    class Drawn:
        def savefig(self, where, **_):
            with open(where, "wb") if isinstance(where, Path) else contextlib.nullcontext(where) as file:
                file.write(b"half")
            raise KeyboardInterrupt

    before = tmp_path / "figures" / "one.png"
    before.parent.mkdir()
    before.write_bytes(b"whole")
    with pytest.raises(KeyboardInterrupt):
        draw.save(Drawn(), before.with_suffix(""))
    assert before.read_bytes() == b"whole" and list(before.parent.iterdir()) == [before]


@pytest.mark.parametrize("locale", ["ascii", "latin-1"])
def test_the_page_is_utf_8_whatever_the_locale_is(locale, tmp_path, monkeypatch):
    """Of a text that it cannot encode, Python would leave an empty page."""
    for name in ("read_text", "write_text"):
        usual = getattr(Path, name)
        monkeypatch.setattr(
            Path, name, lambda *given, encoding=locale, usual=usual, **more: usual(*given, encoding=encoding, **more)
        )
    monkeypatch.setattr(draw, "ROOT", tmp_path)
    for text in ("θ", "log MH = −∞"):
        draw.write(tmp_path / "README.md", text)
        assert (tmp_path / "README.md").read_bytes().decode() == text
