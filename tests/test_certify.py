"""The certificate: what it measures, that it sees what is wrong, and what it shows and writes.

Few chains, so only exact columns and failures that are seen by a wide margin are judged here; no verdict is left to
chance.
"""

from __future__ import annotations

import csv
import os
from dataclasses import replace

import numpy as np
import pytest

from sgmcmc import certificate_identities as identities
from sgmcmc import certificate_networks as networks
from sgmcmc import certificate_reference as reference
from sgmcmc import certificate_statistics as statistics
from sgmcmc import certify, flows
from sgmcmc.certificate_rows import Cell, Seed, build, make_target
from sgmcmc.errors import SettingError
from sgmcmc.samplers import SAMPLERS


def row_of(label: str):
    (row,) = [row for row in certify.design() if row.label == label]
    return row


def errors(row) -> dict[str, float]:
    """The largest figure over tolerance of each exact column."""
    worst: dict[str, float] = {}
    for column in identities.COLUMNS:
        for cell in column(row):
            share = cell.figure / cell.tolerance if cell.tolerance else 1e9 * cell.figure
            worst[cell.column] = max(worst.get(cell.column, 0.0), share)
    return worst


# ---- the reference


def test_program_shares_the_step_and_merges_the_seams():
    letters = reference.program("OBABO", [0.5, 0.5], lambda h: 0.81)
    assert "".join(letter for letter, _ in letters) == "OBABOBABO"
    assert [number for _, number in letters] == pytest.approx([0.9, 0.25, 0.5, 0.25, 0.81, 0.25, 0.5, 0.25, 0.9])
    assert reference.reads_backwards(letters, "OBABO")
    assert not reference.reads_backwards(reference.program("OBABO", [0.5, 0.4], lambda h: 0.81), "OBABO")
    assert reference.reads_backwards(reference.program("OBAB", [0.5], lambda h: 0.81), "OBAB")


@pytest.mark.parametrize("word", ["OBABO", "ABOBA", "BAOAB", "EA"])
def test_lyapunov_equation_gives_the_closed_forms(word):
    stiffness, mass, decay = np.array([1.0, 2.3]), np.array([2.5, 0.7]), lambda h: 0.8
    letters = reference.program(word, [0.5], decay)
    covariance = reference.stationary([reference.linear(letters, stiffness, mass, 0.6, 0.0)])
    closed = reference.closed_form(word, 0.5, decay, False, stiffness, mass, 0.6)
    assert np.diag(covariance).reshape(2, 2) == pytest.approx(closed, rel=1e-12)


def test_draws_and_moments_of_the_four_data_agree():
    target = reference.FourData()
    theta, moments = target.draw(40_000, 0.6, np.random.default_rng(3)), target.moments(0.6)
    for k in (1, 2):
        error = np.sqrt((moments[2 * k] - moments[k] ** 2) / len(theta))
        assert np.all(np.abs((theta**k).mean(0) - moments[k]) < 5.5 * error)  # four normal tests: 2e-7


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("BAB", (3, 2)),
        ("OBABO", (3, 2)),
        ("ABOBA", (2.5, 2)),
        ("BABOBAB", (3, 2)),
        ("BA", (2, 1)),
        ("BAABBBA", (3, 2)),  # as many pairs with the A first as with the B
        ("ABOBAO", (2.5, 2)),
        ("OABAB", (2, 1)),
        ("BAABOA", (1.5, 1)),
        ("EA", None),
        ("AA", None),
    ],
)
def test_powers_of_the_step(word, expected):
    assert reference.energy_order(word) == expected


@pytest.mark.parametrize("word", ["OABOBAO", "ABOBAO", "BAABBBA", "BAABOA", "OBBBAOB"])
def test_powers_of_the_step_of_words_of_ones_own_are_borne_out(word):
    cells = list(statistics.slopes(certify.rows_of_word(word)[0], 4000, Seed(0, 0)))
    assert len(cells) == 2 and max(cell.figure for cell in cells) < statistics.SLOPE


# ---- what the columns see


@pytest.mark.thorough
@pytest.mark.parametrize(
    "label",
    ["ggmc metropolis", "ggmc exact ends", "ggmc word OBAB", "ovrvo M=2.5,.7", "amagold two-way cosine", "sgld T=0.6"],
)
def test_exact_columns_hold(label):
    assert max(errors(row_of(label)).values()) <= 1


@pytest.mark.parametrize("label", ["hmc one-sided cosine", "ggmc one-sided OBA"])
def test_one_sided_rows_fail_where_they_must(label):
    worst = errors(row_of(label))
    assert worst["back"] > 1e6 and worst["ratio"] == np.inf
    assert worst["path"] <= 1 and worst["refused"] == 0


def test_no_noise_brings_sghmc_back():
    worst = errors(row_of("sghmc"))
    assert worst["back"] > 1e6 and worst["ratio"] == 0 and worst["refused"] == 0


def test_energy_identity_sees_wrong_energies(monkeypatch):
    row, seed = row_of("ggmc full gradient"), Seed(0, 0)
    (cell,) = statistics.energy_identity(row, 20_000, seed)
    assert abs(cell.z) < 6
    whole = flows.kinetic_change
    monkeypatch.setattr(flows, "kinetic_change", lambda *given: 0.5 * whole(*given))
    (cell,) = statistics.energy_identity(row, 20_000, seed)
    assert abs(cell.z) > 12
    assert errors(row)["ratio"] > 1e6


def test_batch_orders_are_told_apart():
    seed = Seed(0, 0)
    first = statistics.batch_order(row_of("ggmc extra batch first"), 20_000, seed)
    either = statistics.batch_order(row_of("ggmc epoch + batch, either end"), 20_000, seed)
    assert min(cell.z for cell in first) > 12 and max(abs(cell.z) for cell in either) < 6


def test_slopes_of_a_one_sided_word():
    step, time = statistics.slopes(row_of("hmc one-sided BA"), 4000, Seed(0, 0))
    assert max(step.figure, time.figure) < statistics.SLOPE


# ---- the verdict


def test_budget_is_shared_by_all_tests():
    cells = [Cell("(ii)", "quartic", "f", 0.1, z=5.0, tests=1)]
    threshold, tests = certify.judge(cells)
    assert tests == 1 and threshold == pytest.approx(3.2905, abs=1e-3) and cells[0].verdict == "WRONG"
    cells = [Cell("(ii)", "quartic", "f", 0.1, z=5.0, tests=6000)]
    assert certify.judge(cells)[0] > 5.2 and cells[0].verdict == "ok"


def test_what_must_fail_and_does_not_is_wrong():
    def cells(z):
        return [
            Cell("(iii)", target, "f", 0.1, z=value, tests=1, row="ggmc", expected="fails")
            for target, value in (("quartic", 0.3), ("four data", z))
        ]

    seen, missed = cells(20.0), cells(1.0)
    certify.judge(seen)
    certify.judge(missed)
    assert [cell.verdict for cell in seen] == ["holds here", "fails as it must"]
    assert [cell.verdict for cell in missed] == ["WRONG", "WRONG"]


def test_every_sampler_has_its_rows():
    rows = certify.design()
    labels = [row.label for row in rows]
    assert {row.sampler for row in rows} == set(SAMPLERS)
    assert len(set(labels)) == len(labels) and max(map(len, labels)) <= 35
    for name in SAMPLERS:
        assert {f"{name} T=0.6", f"{name} M=2.5,.7"} <= set(labels)


def test_words_of_ones_own():
    assert [row.label for row in certify.rows_of_word("BABOBAB")][0] == "BABOBAB"
    assert [row.label for row in certify.rows_of_word("OBA")][:2] == ["OBA one-sided", "OBA two-way"]
    assert max(errors(certify.rows_of_word("BABOBAB")[0]).values()) <= 1


# ---- the command


@pytest.mark.parametrize(
    "arguments",
    [["gmc"], ["--word", "XYZ"], ["--word", ""], ["--word", "AEA"], ["--word", "AOA"], ["ggmc", "--word", "BAB"]],
)
def test_what_cannot_work_is_one_sentence(arguments, capsys):
    assert certify.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1


@pytest.mark.parametrize("seed", [-1, 10**9])
def test_a_seed_that_cannot_be_is_named_as_it_was_given(seed, capsys):
    assert certify.main(["random_walk", "--seed", str(seed)]) == 2
    assert capsys.readouterr().err == f"--seed={seed}: must be from 0 to 999999999\n"


@pytest.mark.parametrize("place", ["file", "file/inside"])
def test_a_folder_that_cannot_be_written_is_told_before_the_rows_are_run(place, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(certify, "run", lambda *arguments, **options: pytest.fail("minutes went by"))
    (tmp_path / "file").touch()
    assert certify.main(["langevin", "--output", str(tmp_path / place)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith(f"{tmp_path / 'file'}") and captured.err.count("\n") == 1


@pytest.fixture
def one_row(tmp_path, monkeypatch):
    """The command in an empty folder, with one row and few chains."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(certify, "cores", lambda: 1)
    monkeypatch.setattr(certify, "CHAINS", 1000)
    monkeypatch.setattr(certify, "FALSE_ALARM", 1e-9)  # 1,000 chains are no budget's worth
    rows = certify.design(["langevin"])[:1]
    monkeypatch.setattr(certify, "design", lambda names, word: rows)


def test_command_writes_what_it_prints(one_row, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(networks, "budgets", lambda: "not measured: no data")
    assert certify.main([]) == 0
    printed, said = capsys.readouterr().out.rsplit("\n\n", 1)
    assert said == "written: results/certificate.md, results/certificate.csv\n"
    assert max(map(len, printed.splitlines())) <= 120
    assert "Every claim of the samplers table is borne out." in printed and "not measured: no data" in printed
    page = (tmp_path / "results/certificate.md").read_text()
    assert printed in page
    with open(tmp_path / "results/certificate.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {line["verdict"] for line in lines} == {"ok"}
    assert {line["column"] for line in lines} >= {"back", "ratio", "path", "lin", "(i)", "(ii)", "(iii)", "(iv)", "cov"}
    assert all(float(line["smallest_bias"]) > 0 for line in lines if line["column"] == "(iv)")


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [["langevin"], ["--word", "A"]])
def test_a_few_rows_leave_the_whole_certificate_alone(arguments, one_row, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(networks, "budgets", lambda: pytest.fail("GGMC's budget for other rows"))
    whole = tmp_path / "results"
    whole.mkdir()
    names = ("certificate.md", "certificate.csv")
    for name in names:
        (whole / name).write_text("all rows")
    assert certify.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "\nlangevin " in printed and "not written" in printed and "certificate.csv" not in printed
    of = "the word" if "--word" in arguments else "each sampler"
    assert f"\nRows: {of} " in printed and "\nEvery claim of these rows is borne out.\n" in printed
    assert list(tmp_path.iterdir()) == [whole]
    assert certify.main([*arguments, "--output", "mine"]) == 0
    assert "written: mine/certificate.md, mine/certificate.csv\n" in capsys.readouterr().out
    assert all((tmp_path / "mine" / name).stat().st_size > 1000 for name in names)
    assert [(whole / name).read_text() for name in names] == ["all rows"] * 2


def test_there_are_as_many_processes_as_cores_that_may_be_used(monkeypatch):
    """Of a node's 128 a scheduler may have given one."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    monkeypatch.setattr(certify, "ProcessPoolExecutor", lambda *_, **__: pytest.fail("more than one"))
    monkeypatch.setattr(certify, "certify_row", lambda row, *_, **__: [row])
    assert certify.run(["one", "two"]) == ["one", "two"]


def test_command_fails_where_a_claim_does(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(certify, "cores", lambda: 1)
    monkeypatch.setattr(networks, "budgets", lambda: "not measured: no data")
    claim = replace(row_of("hmc one-sided cosine"), naive=True, fails={}, free=())
    monkeypatch.setattr(certify, "design", lambda names, word: [claim])
    monkeypatch.setattr(certify, "CHAINS", 1000)
    assert certify.main(["--output", str(tmp_path)]) == 1
    assert "NOT borne out:" in capsys.readouterr().out


@pytest.mark.thorough
def test_error_budget_of_a_network():
    measured = networks.budget("mlp")
    assert measured.kinetic_sum < 1e-3 and measured.forward < 1e-2 and measured.data_order < 1e-2
    assert measured.tf32 is None
    assert measured.compiled is None or measured.compiled < 1e-3
    shown = networks.page([measured])
    assert len(shown) == 10 and max(map(len, shown)) <= 120
    for name in ("kinetic sum", "float32 U", "data order", "TF32", "compiled"):
        assert name in shown[2] and any(line.startswith(f"{name:<13}") for line in shown)


def test_refused_settings_are_refused_by_the_engine():
    row = row_of("ggmc one-sided cosine")
    target, _ = make_target("quartic", row)
    with pytest.raises(SettingError, match="exact, because the cosine schedule does not read the same backwards"):
        build(replace(row, naive=False), target, 0.1, acceptance="metropolis")
