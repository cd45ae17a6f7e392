"""Mistakes that a user can mend are one sentence, in other processes, too."""

import pickle

import pytest

from sgmcmc.errors import SettingError, nearest
from sgmcmc.samplers import Sampler


def test_a_mistake_reads_alike_in_the_process_that_is_waiting_for_it():
    error = pickle.loads(pickle.dumps(SettingError("lr", -1, "must be positive")))
    assert (str(error), error.setting, error.value, error.mend) == (
        "lr=-1: must be positive",
        "lr",
        -1,
        "must be positive",
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gmc", "did you mean ggmc?"),
        ("persistent", "did you mean persistent_langevin?"),
        ("ne", "did you mean one of neal_u, neal_pictures?"),
        ("", "there is none"),
        (None, "there is none"),
    ],
)
def test_an_unknown_name_is_answered_by_the_nearest_or_by_those_that_begin_so(name, said):
    known = ("ggmc", "persistent_langevin", "neal_u", "neal_pictures")
    assert nearest(name, known, "there is none") == said


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("OBABO", "kept", "monitor", "either", "mine"), "sampler.refresh=kept: must be one of full, keep, partial"),
        (("OBABO", "keep", "metropolis-hastings", "either", "mine"), "sampler.acceptance=metropolis-hastings: must be"),
        (
            ("OBABO", "keep", "monitor", "none", "mine"),
            "sampler.gradient=none: the word OBABO has kicks, which need one: full or minibatch",
        ),
        (("A", "full", "monitor", "full", "mine"), "sampler.gradient=full: the word A has no kick: give none"),
        (("bab", "full", "monitor", "either", "mine"), "sampler.word=bab: must be made of the letters"),
        ((None, "full", "monitor", "either", "mine"), "sampler.word=None: must be made of the letters"),
        (("OBABO", "keep", "monitor", "either", "mine", None, False, "infinit"), "sampler.friction=infinit: must be"),
        (("OBABO", "keep", "monitor", "either", "mine", 0), "sampler.steps=0: must be a whole number, at least 1"),
        (("OBABO", "keep", "monitor", "either", "mine", 2.5), "sampler.steps=2.5: must be a whole number"),
        (("OBABO", "keep", "monitor", "either", "mine", None, "no"), "sampler.rescaled=no: must be one of True, False"),
    ],
)
def test_a_row_of_the_samplers_has_policies_that_there_are(row, said):
    with pytest.raises(SettingError, match=f"^{said}"):
        Sampler(*row)
