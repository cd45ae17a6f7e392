"""What is plotted is what the tables say: each point is of a row, and its bars are the errors that the row gives it."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.collections import PolyCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.text import Text

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import draw  # noqa: E402

# The error of an excess by itself: the reference's, which it is over, belongs to it.
BY_ITSELF = "(excess_error**2 + reference_error.fillna(0)**2)**0.5"
# What is made of the tables' columns before it is plotted, as axes, captions and legends say it: new or other columns.
MADE = {
    "amagold_fig3": {"all": "draws_a_chain * chains"},
    "amagold_fig4": {"seconds_a_cycle": "cycles * seconds_a_cycle", "passes_a_cycle": "cycles * passes_a_cycle"},
    "amagold_fig7": {"time": "draws * seconds_a_draw", "all": "draws_a_chain * chains * seconds_a_draw"},
    "finding_minibatches": {
        "ess_error": "ess_error * gradients / passes / 1000",
        "ess": "ess * gradients / passes / 1000",
        "excess_error": BY_ITSELF,
    },
    "finding_noise": {"lag": "lag / epoch"},
    "finding_schedules": {"excess_error": BY_ITSELF},
    "finding_trajectory": {"mean": "-mean", "half": "predicted**2 / 2"},
    "finding_words": {"excess": "abs(excess)", "excess_error": BY_ITSELF},
    "finding_words_australian": {"excess_error": BY_ITSELF},
    "ggmc_appendix_c": {"accept_error": "2 * accept_error", "true_median": "-true_median"},
    "ggmc_theorem1": {"median": "median + 1e-17 * (median == 0)"},
    "note_energy": {"step": "time / step_size", "drift_error": "2 * drift_error"},
    "note_temperatures": {"variance_error": "2 * variance_error", "kinetic_error": "2 * kinetic_error"},
}
# Means over seeds, of rows that have these alike.
OVER_SEEDS = {"amagold_table2": ["sampler", "b", "lr"], "amagold_fig5": ["sampler", "b", "lr", "entropy"]}
# Panels where a point's other coordinate is not of its row: a place for each run, or a shift, or (words) the share that
# the corrected word rejects, which is another row's.
PLACES = {
    "amagold_table2": {0, 1},
    "amagold_table2_start": {0},
    "finding_bnn": {3, 4, 5, 6, 7},
    "finding_bnn_resnet": {0, 1, 2, 3, 4},
    "finding_corrected": {0, 1, 2, 3, 4},
    "finding_words": {4, 5, 6, 7},
    "finding_words_australian": {1},
    "finding_words_network": {0, 1},
    "neal_rejection": {0, 1},
}
# How many points of a panel are of no row: curves and limits of theory, and what is estimated of several rows.
OTHERS = {
    "amagold_fig1": {3: 2},  # the bias as ε → 0, of either word
    "amagold_fig2": {1: 2, 3: 2},  # the same
    "amagold_table2_start": {0: 5},  # what the authors say, and errors of two starts
    "finding_bnn": {0: 12},  # the NLL of ever more draws
    "finding_noise": {0: np.inf, 1: np.inf, 2: 16},  # theory at each step of an epoch
    "finding_theorem2": {0: 100, 1: 100, 2: 100},
    "finding_trajectory": {0: 50, 1: 50},  # the diagonal
    "ggmc_theorem1": {1: 6},  # .67 h √(2h)
}

# Panels whose lines are cut off on purpose: at an excess of .5, and at lag 0, which no logarithmic axis has.
BEYOND = {"finding_noise": (0, 1), "finding_words": (12, 13, 14, 15), "finding_words_australian": (3,)}


def numbers(table: pd.DataFrame, made: dict[str, str]) -> pd.DataFrame:
    """Its columns of numbers, and what the figure makes of them."""
    table = table.select_dtypes("number")
    for name, formula in made.items():
        try:
            table = table.assign(**{name: table.eval(formula)})
        except pd.errors.UndefinedVariableError:  # a column of the figure's other table
            continue
    return table


def over_seeds(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Means with their error over seeds; of one seed there is none, but of single draws their standard deviation."""
    keys = [name for name in keys if name in table]
    groups = table.groupby(keys)
    means = groups.mean(numeric_only=True)
    means = means.assign(error_error=groups.error.sem()) if "error" in means else means
    if "single_error" in means:
        error = groups.single_error.sem()
        means = means.assign(single_error_error=error.fillna(means.single_error_sd))
    return means.reset_index()


def outside(point: np.ndarray, ends: np.ndarray) -> bool:
    """Whether it lies beyond an axis, whose ends these are."""
    return bool((point < ends[:, 0]).any() or (point > ends[:, 1]).any())


def seen(tables: list[np.ndarray], *values: float) -> bool:
    """Whether one row has them all."""
    near = ([(abs(table - one) <= 1e-9 * abs(one)).any(1) for one in values] for table in tables)
    return any(np.logical_and.reduce(rows).any() for rows in near)


def seen_with_error(tables: list[pd.DataFrame], value: float, error: float) -> bool:
    """Whether a row has both, the error as that of the value."""
    for table in tables:
        for name in table:
            if f"{name}_error" in table:
                same = np.isclose(table[name], value, 1e-9, 0)
                if (same & np.isclose(table[f"{name}_error"], error, 1e-6, 1e-12 * abs(value))).any():
                    return True
    return False


@pytest.mark.parametrize(
    "name, column, number, text",
    [
        ("amagold_fig1", "chains", 7, "central 80 % of 7"),
        ("amagold_fig3", "chains", 7, "thin: 7 chains together"),
        ("amagold_fig6", "chains", 7, "central 80 % of 7"),
        ("amagold_fig7", "chains", 7, "dashed: 7 chains"),
        ("finding_bnn_resnet", "draws_a_chain", 2, "SGD, ensemble of 2"),
    ],
)
def test_a_picture_names_the_number_of_its_own_chains(name, column, number, text):
    """Of a table of other settings, too."""
    module = draw.load(ROOT / "scripts" / "figures" / f"{name}.py")
    tables = draw.read(module.TABLES, ROOT / "results" / "paper" / "tables")
    figure = module.draw(*(table.assign(**{column: float(number)}) for table in tables))
    texts = [part.get_text() for part in figure.findobj(Text)]
    pyplot.close(figure)
    assert any(text in part.split("\n") for part in texts)


@pytest.mark.thorough
@pytest.mark.parametrize("script", draw.scripts(), ids=lambda script: script.stem)
@pytest.mark.parametrize("scale", draw.SCALES)
def test_each_point_is_of_a_row_and_its_bars_are_its_errors(script, scale):
    """And its title is no wider than the figure."""
    module, name = draw.load(script), script.stem
    tables = draw.read(module.TABLES, ROOT / "results" / scale / "tables")
    if tables is None:
        pytest.skip("its tables are not there")
    figure = module.draw(*tables)
    for title in [panel.title for panel in figure.axes] + [text for text in figure.texts if text.get_text()]:
        wide = title.get_window_extent(figure.canvas.get_renderer()).width
        assert wide < 0.99 * figure.bbox.width, title.get_text()
    if name in OVER_SEEDS:
        tables = [over_seeds(table, OVER_SEEDS[name]) for table in tables]
    tables = [numbers(table, MADE.get(name, {})) for table in tables]
    bare = [table.to_numpy(float) for table in tables]
    for number, panel in enumerate(figure.axes):
        placed = number in PLACES.get(name, ())
        lines = [line.get_xydata() for line in panel.lines if line.get_transform() == panel.transData]
        points = [point for line in lines for point in line if np.isfinite(point).all()]
        bands = [path.vertices for band in panel.findobj(PolyCollection) for path in band.get_paths()]
        ends = np.sort([panel.get_xlim(), panel.get_ylim()])
        cut = [point for point in [*points, *np.vstack([*bands, np.empty((0, 2))])] if outside(point, ends)]
        assert number in BEYOND.get(name, ()) or not cut, (number, cut)
        if placed:
            other = [point for point in points if not any(seen(bare, one) for one in point)]
        else:
            other = [point for point in points if not seen(bare, *point)]
        assert len(other) <= OTHERS.get(name, {}).get(number, 0), (number, other)
        for bars in [one for one in panel.containers if isinstance(one, ErrorbarContainer)]:
            for segments in (one.get_segments() for one in bars.lines[2]):
                for point, ends in zip(bars.lines[0].get_xydata(), segments, strict=True):
                    if len(ends) and np.isfinite(ends).all() and tuple(point) not in {tuple(one) for one in other}:
                        axis = int(ends[0, 0] == ends[1, 0])
                        above, below = ends[1, axis] - point[axis], point[axis] - ends[0, axis]
                        found = above == 0 or seen_with_error(tables, point[axis], above)
                        assert found, (number, point, above)
                        np.testing.assert_allclose(above, below, 1e-6)
    pyplot.close(figure)
