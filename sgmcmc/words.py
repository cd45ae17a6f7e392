"""A sampler is a word: a sequence of letters applied once a step, each letter with its share of the step.

A letter that occurs k times gets h/k each time; c = a^{1/k} for the letter O, with a = e^{−γh} the
momentum decay of one whole step. Adjacent O's (at the seam of two steps) are one O with the product of
their c's: the same law, one draw.

A trajectory of L steps has an acceptance probability from its kicks alone,

    log MH = −(U(θ_L) − U(θ_0) + Σ ΔK)/T,

where it reads the same backwards. A word that is a palindrome but for a leading O (OBAB) counts that O
as a refresh of the momentum before the trajectory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sgmcmc.errors import SettingError

LETTERS = "ABOE"


@dataclass(frozen=True)
class Op:
    """One letter at its place in a trajectory.

    ``shares`` lists (step, fraction of that step): one entry, or several where O's meet, of one step or of two.
    ``point`` numbers the position at which a kick's gradient is taken, in the order of the trajectory:
    kicks with no drift between them stand at one position and share one minibatch and one gradient.
    ``draw`` numbers the noise of O and E, from 1 (0 is the refresh of the momentum).
    """

    letter: str
    shares: tuple[tuple[int, float], ...]
    point: int = -1
    draw: int = -1


@dataclass(frozen=True)
class Word:
    """The letters of one step. Raises SettingError for an empty word, an unknown letter, a word without A, or one with
    both B and E, each of which takes the force of a whole step: it would sample exp(−2U/T)."""

    letters: str

    def __post_init__(self):
        unknown = sorted(set(self.letters) - set(LETTERS))
        if not self.letters or unknown:
            mend = "must be made of the letters A (drift), B (kick), O (refresh) and E (Euler-Maruyama)"
            raise SettingError("sampler.word", self.letters or "''", mend)
        if "A" not in self.letters:
            raise SettingError("sampler.word", self.letters, "never moves: it needs the letter A (drift)")
        if {"B", "E"} <= set(self.letters):
            raise SettingError("sampler.word", self.letters, "takes the force twice, in B and in E: leave one out")

    @property
    def is_palindrome(self) -> bool:
        """Whether it reads the same backwards."""
        return self.letters == self.letters[::-1]

    @property
    def kicks(self) -> bool:
        """Whether it takes gradients."""
        return bool(set(self.letters) & set("BE"))

    @property
    def refreshes(self) -> bool:
        """Whether it refreshes the momentum on the way, so that it may be kept from trajectory to trajectory."""
        return bool(set(self.letters) & set("OE"))

    @property
    def euler(self) -> bool:
        """Whether it has Euler-Maruyama's letter, which has no backward trajectory and a friction of its own."""
        return "E" in self.letters

    @property
    def leading_refresh(self) -> bool:
        """Whether the first letter is an O that stands before the palindromic part (OBAB)."""
        rest = self.letters[1:]
        return self.letters[0] == "O" and not self.is_palindrome and rest != "" and rest == rest[::-1]

    @property
    def one_sided(self) -> str | None:
        """Why the word does not read the same backwards, or None where it does."""
        if self.is_palindrome or self.leading_refresh:
            return None
        return f"the word {self.letters} does not read the same backwards"

    @property
    def kicks_at_both_ends(self) -> bool:
        """Whether the first and the last gradient of a trajectory stand at its first and last position."""
        moves = [letter for letter in self.letters if letter != "O"]
        return moves[0] == "B" and moves[-1] == "B"

    def gradient_points(self, steps: int) -> int:
        """How many positions of a trajectory of ``steps`` steps need a gradient."""
        one, two = (self._count(n) for n in (1, 2))
        return one + (steps - 1) * (two - one)

    @property
    def gradients_a_step(self) -> int:
        """How many gradients one more step adds to a trajectory: 1 of BAB, 2 of BABOBAB; at least 1 of any word."""
        return max(self.gradient_points(2) - self.gradient_points(1), 1)

    def _count(self, steps: int) -> int:
        points, fresh = 0, True
        for letter in self.letters * steps:
            if letter == "A":
                fresh = True
            elif letter in "BE" and fresh:
                points, fresh = points + 1, False
        return points

    def trajectory(self, steps: int, backwards: bool = False) -> list[Op]:
        """The ops of a trajectory of ``steps`` steps, in order, adjacent O's merged.

        ``backwards`` reads the same sequence from its end. A leading refresh stays in front and by itself: it is no
        part of what is reversed, nor of what a rejection undoes. Noises and gradient points are numbered in
        the order of use.
        """
        share = {letter: 1 / self.letters.count(letter) for letter in set(self.letters)}
        ops: list[Op] = []
        for step in range(steps):
            for letter in self.letters:
                apart = self.leading_refresh and len(ops) == 1
                if letter == "O" and ops and ops[-1].letter == "O" and not apart:
                    ops[-1] = replace(ops[-1], shares=ops[-1].shares + ((step, share["O"]),))
                else:
                    ops.append(Op(letter, ((step, share[letter]),)))
        if backwards:
            head = ops[:1] if self.leading_refresh else []
            ops = head + ops[len(head) :][::-1]
        numbered, point, draw, fresh = [], -1, 0, True
        for op in ops:
            if op.letter == "A":
                fresh = True
            if op.letter in "BE":
                point, fresh = point + fresh, False
                op = replace(op, point=point)
            if op.letter in "OE":
                draw += 1
                op = replace(op, draw=draw)
            numbered.append(op)
        return numbered
