"""A word becomes a trajectory: what reads backwards, who shares a gradient, which O's are one."""

from itertools import product

import pytest
from conftest import refusal

from sgmcmc.samplers import SAMPLERS
from sgmcmc.words import Word

WORDS = ["".join(letters) for size in range(1, 6) for letters in product("ABOE", repeat=size) if "A" in letters]
WORDS = [word for word in WORDS if not {"B", "E"} <= set(word)]
PALINDROMES = ["A", "BAB", "ABA", "OBABO", "ABOBA", "BAOAB", "BABAB", "OOBABOO", "OABOBAO"]


@pytest.mark.parametrize("letters", PALINDROMES)
def test_palindromes_read_the_same_backwards(letters):
    word = Word(letters)
    assert word.is_palindrome and not word.leading_refresh and word.one_sided is None


@pytest.mark.parametrize("letters", ["OBAB", "OABA", "OOBABO", "OA"])
def test_a_leading_refresh_is_not_part_of_what_must_read_backwards(letters):
    word = Word(letters)
    assert word.leading_refresh and not word.is_palindrome and word.one_sided is None


@pytest.mark.parametrize("letters", ["BA", "EA", "AE", "BAO", "BABO", "OBABOO", "OBA", "OOBAB"])
def test_other_words_are_one_sided(letters):
    word = Word(letters)
    assert letters in word.one_sided and not word.is_palindrome and not word.leading_refresh


def test_every_short_word_is_one_of_the_three():
    for letters in WORDS:
        word = Word(letters)
        turned = letters[::-1]
        inner = letters[0] == "O" and letters != turned and letters[1:] == letters[1:][::-1]
        assert (word.is_palindrome, word.leading_refresh) == (letters == turned, inner)
        assert (word.one_sided is None) == (letters == turned or inner)


@pytest.mark.parametrize("letters", ["", "XAB", "bab", "B O", "BOB", "E", "EBA", "ABE"])
def test_impossible_words_are_refused(letters):
    message = refusal(lambda: Word(letters))
    assert message.startswith("sampler.word=")
    assert ("never moves" in message) == (letters in ("BOB", "E"))
    assert ("takes the force twice" in message) == ("B" in letters and "E" in letters)


def test_a_trajectory_has_every_letter_of_every_step():
    """Each letter's shares of a step add up to one; the order is the word's; only adjacent O's are joined."""
    steps = 3
    for letters in WORDS:
        word = Word(letters)
        ops = word.trajectory(steps)
        spelled = [(op.letter, step) for op in ops for step, _ in op.shares]
        assert spelled == [(letter, step) for step in range(steps) for letter in letters]
        totals = {}
        for op in ops:
            for step, share in op.shares:
                totals[op.letter, step] = totals.get((op.letter, step), 0.0) + share
                assert share == 1 / letters.count(op.letter)
        assert all(total == pytest.approx(1) for total in totals.values())
        assert all(len(op.shares) == 1 for op in ops if op.letter != "O")
        pairs = [(one, two) for one, two in zip(ops, ops[1:], strict=False) if one.letter == two.letter == "O"]
        assert pairs == ([(ops[0], ops[1])] if word.leading_refresh and letters[1] == "O" else [])


def test_kicks_with_no_drift_between_them_share_a_point():
    for letters, steps, backwards in product(WORDS, (1, 2, 4), (False, True)):
        ops = Word(letters).trajectory(steps, backwards)
        points, expected, moved = [], -1, True
        for op in ops:
            if op.letter == "A":
                moved = True
            elif op.letter in "BE":
                expected, moved = expected + moved, False
                assert op.point == expected
                points.append(op.point)
            else:
                assert op.point == -1
        assert Word(letters).gradient_points(steps) == (points[-1] + 1 if points else 0)
        draws = [op.draw for op in ops if op.letter in "OE"]
        assert draws == list(range(1, len(draws) + 1))


@pytest.mark.parametrize(
    ("letters", "points"),
    [("OBABO", 6), ("BAB", 6), ("BAOAB", 6), ("ABOBA", 5), ("EA", 5), ("BABAB", 11), ("A", 0), ("BBABB", 6)],
)
def test_gradient_points_of_five_steps(letters, points):
    assert Word(letters).gradient_points(5) == points


def test_backwards_is_the_same_sequence_from_its_end():
    """Step by step; of a leading refresh only what follows it."""
    for letters in WORDS:
        word = Word(letters)
        there, back = word.trajectory(3), word.trajectory(3, backwards=True)
        head = int(word.leading_refresh)
        assert [(op.letter, op.shares) for op in back[head:]] == [(op.letter, op.shares) for op in there[head:]][::-1]
        assert [(op.letter, op.shares) for op in back[:head]] == [(op.letter, op.shares) for op in there[:head]]
        assert head == 0 or there[0].shares == ((0, 1 / letters.count("O")),)
        if word.is_palindrome:  # with equal steps the two are one
            assert [(op.letter, op.point, op.draw) for op in back] == [(op.letter, op.point, op.draw) for op in there]


def test_o_s_at_a_seam_are_one_draw():
    ops = Word("OBABO").trajectory(3)
    assert "".join(op.letter for op in ops) == "OBABOBABOBABO"
    assert [op.shares for op in ops if op.letter == "O"] == [
        ((0, 0.5),),
        ((0, 0.5), (1, 0.5)),
        ((1, 0.5), (2, 0.5)),
        ((2, 0.5),),
    ]
    assert [op.point for op in ops if op.letter == "B"] == [0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("letters", "both"),
    [("OBABO", True), ("BAB", True), ("BAOAB", True), ("ABOBA", False), ("BA", False), ("EA", False), ("OBAB", True)],
)
def test_where_the_first_and_last_gradient_stand(letters, both):
    assert Word(letters).kicks_at_both_ends == both


def test_the_table_of_samplers_is_the_papers():
    words = {name: row.word for name, row in SAMPLERS.items()}
    assert words == {
        "random_walk": "A", "langevin": "BAB", "sgld": "OBABO", "hmc": "BAB", "persistent_langevin": "BAB",
        "nonreversible_langevin": "BAB", "ggmc": "OBABO", "ovrvo": "OBABO", "baoab": "BAOAB", "aboba": "ABOBA",
        "sghmc": "EA", "amagold": "ABOBA", "l2mc": "ABOBA",
    }  # fmt: skip
    policies = {name: (row.refresh, row.acceptance, row.gradient, row.steps) for name, row in SAMPLERS.items()}
    corrected, monitored = ("full", "metropolis"), ("keep", "monitor", "minibatch", None)
    assert policies == {
        "random_walk": (*corrected, "none", 1),
        "langevin": (*corrected, "full", 1),
        "hmc": (*corrected, "either", None),
        "amagold": (*corrected, "minibatch", None),
        "l2mc": (*corrected, "full", None),
        "persistent_langevin": ("partial", "metropolis", "full", 1),
        "nonreversible_langevin": ("partial", "persistent_uniform", "full", 1),
        **dict.fromkeys(["sgld", "ggmc", "ovrvo", "baoab", "aboba", "sghmc"], monitored),
    }
    assert [name for name, row in SAMPLERS.items() if row.rescaled] == ["ovrvo"]
    assert {name: row.friction for name, row in SAMPLERS.items() if row.friction} == {"sgld": "infinite"}
