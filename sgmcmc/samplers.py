"""The samplers: a word and three policies each. A new sampler is a new row.

The columns are the word of one step; what happens to the momentum at a trajectory's start (momentum.py);
how its end is decided on (acceptance.py); which gradient its kicks use (``either``: minibatches for
networks, else the full gradient); its source; the number of steps of its trajectories, where that is fixed;
whether A and B are scaled by b = √(tanh(γh/2)/(γh/2)); and whether its friction is infinite (c = 0): then a finite one
is refused. Other samplers take friction in any parametrisation (AMAGOLD's paper gives β or b). By default γ = 1; for
networks on the command line it is that of the GGMC paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral

from sgmcmc.errors import SettingError, nearest, one_of
from sgmcmc.words import Word

POLICIES = {  # what the columns can be
    "refresh": ("full", "keep", "partial"),
    "acceptance": ("monitor", "metropolis", "barker", "persistent_uniform", "barker_minibatch", "austerity"),
    "gradient": ("either", "full", "minibatch", "none"),
    "friction": (None, "infinite"),
}
NUMBERS = {  # of policies: which policy a number belongs to, under which of its values, and its default
    "alpha": ("refresh", ("partial",), 0.9),
    "delta": ("acceptance", ("persistent_uniform",), 0.05),
    "decision_batch": ("acceptance", ("barker_minibatch", "austerity"), 100),
    "epsilon": ("acceptance", ("austerity",), 0.05),
    "sigma": ("acceptance", ("barker_minibatch",), 1.0),
}


@dataclass(frozen=True)
class Sampler:
    """A row of the table; the module's docstring says what its columns are. One of your own goes wherever a name does:
    ``sgmcmc.sample(target, Sampler("BABOBAB", "keep", "metropolis", "either", "mine"), …)``."""

    word: str
    refresh: str
    acceptance: str
    gradient: str
    source: str
    steps: int | None = None
    rescaled: bool = False
    friction: str | None = None

    def __post_init__(self):
        """Raise SettingError for a word, a policy or a number of steps that there cannot be, and for kicks without
        a gradient or a gradient without kicks."""
        kicks = Word(str(self.word)).kicks
        for policy, known in POLICIES.items():
            one_of(f"sampler.{policy}", getattr(self, policy), known)
        if self.steps is not None and not (isinstance(self.steps, Integral) and self.steps >= 1):
            raise SettingError("sampler.steps", self.steps, "must be a whole number, at least 1, or None for any")
        one_of("sampler.rescaled", self.rescaled, (True, False))
        if kicks == (self.gradient == "none"):
            mend = "has kicks, which need one: full or minibatch" if kicks else "has no kick: give none"
            raise SettingError("sampler.gradient", self.gradient, f"the word {self.word} {mend}")


_NEAL, _GGMC, _AMAGOLD = "Neal 2020", "Garriga-Alonso & Fortuin 2021", "Zhang, Cooper & De Sa 2020"

SAMPLERS: dict[str, Sampler] = {
    "random_walk": Sampler("A", "full", "metropolis", "none", _NEAL, steps=1),
    "langevin": Sampler("BAB", "full", "metropolis", "full", f"{_NEAL}; {_GGMC} §4 (MALA)", steps=1),
    "sgld": Sampler("OBABO", "keep", "monitor", "minibatch", f"{_GGMC} §4", friction="infinite"),
    "hmc": Sampler("BAB", "full", "metropolis", "either", f"{_NEAL}; {_GGMC}; {_AMAGOLD}"),
    "persistent_langevin": Sampler("BAB", "partial", "metropolis", "full", f"Horowitz 1991; {_NEAL}", steps=1),
    "nonreversible_langevin": Sampler("BAB", "partial", "persistent_uniform", "full", _NEAL, steps=1),
    "ggmc": Sampler("OBABO", "keep", "monitor", "minibatch", _GGMC),
    "ovrvo": Sampler("OBABO", "keep", "monitor", "minibatch", "note of 2020; Sivak et al. 2014", rescaled=True),
    "baoab": Sampler("BAOAB", "keep", "monitor", "minibatch", f"Leimkuhler & Matthews 2015; {_GGMC} §4"),
    "aboba": Sampler("ABOBA", "keep", "monitor", "minibatch", f"Leimkuhler & Matthews 2015; {_GGMC} §4"),
    "sghmc": Sampler("EA", "keep", "monitor", "minibatch", "Chen et al. 2014; all the papers"),
    "amagold": Sampler("ABOBA", "full", "metropolis", "minibatch", f"{_AMAGOLD}, Algorithm 2"),
    "l2mc": Sampler("ABOBA", "full", "metropolis", "full", _AMAGOLD),
}


def custom(word: str) -> Sampler:
    """The row of a word of one's own: monitored, its momentum kept where the word refreshes it."""
    refresh, gradient = "keep" if Word(word).refreshes else "full", "either" if Word(word).kicks else "none"
    return Sampler(word, refresh, "monitor", gradient, "custom")


def lookup(name: str) -> Sampler:
    """The row of ``name``. Raises SettingError, with the nearest name, where there is none."""
    if name not in SAMPLERS:
        mend = f"{nearest(name, SAMPLERS)} known samplers are {', '.join(SAMPLERS)}"
        raise SettingError("sampler", name, mend.strip())
    return SAMPLERS[name]
