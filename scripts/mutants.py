"""Can the tests fail? Breaks the library one line at a time and runs the test that must see it: ``make mutants``.

    python scripts/mutants.py [--seed N] [--random N] [--workers N] [--only WORDS]

Each mutant is an exact replacement of text that must match once, made in a copy of the tree in a temporary folder. It
is **killed** if the test named for it passes on the unbroken copy and fails on the broken one by an AssertionError of
its own, or an error that it waits for and that does not come (a crash inside the library does not count). Then a few
more are drawn at random, by ``--seed``: operators on the syntax tree (another arithmetic operator, comparison,
constant, sign; a condition negated; a statement left out) over the heart of the library, against all of its tests. Of
those a crash counts as killed, too, and survivors are listed with the reason why they change nothing, where one is
known.

Prints a table. Exit status 1 if a chosen mutant survives, or a random one that is not explained.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("sgmcmc", "experiments", "conf", "tests", "pyproject.toml")
TIMEOUT = 300  # seconds a test; a random mutant that takes as long, and three times as long as without, is killed
HEART = ("flows", "words", "kernel", "trajectory", "acceptance", "momentum", "schedules", "data/minibatches")
HEART_TESTS = tuple(
    f"tests/test_{name}.py"
    for name in ("words", "schedules", "acceptance", "minibatches", "kernel", "trajectory", "chain")
)

STATISTICAL = "forward_and_backward or moments_stay or mean_of_the_ratio"  # the slow ones come last


@dataclass(frozen=True)
class Mutant:
    """``old`` becomes ``new`` in sgmcmc/``file``.py; ``test`` is tests/test_… that must see it."""

    name: str
    file: str
    old: str
    new: str
    test: str


def identities(case: str) -> str:
    return f"trajectory.py::test_forward_and_backward_agree[{case}]"


def backwards(case: str) -> str:
    return f"trajectory.py::test_trajectories_run_backwards[{case}-False]"


def gaussian(case: str) -> str:
    return f"trajectory.py::test_one_trajectory_on_a_gaussian_is_the_product_of_the_letters[{case}]"


MUTANTS = [
    # the decision
    Mutant(
        "no flip on rejection", "trajectory", "end.momentum, -begun)", "end.momentum, begun)", identities("ggmc full")
    ),
    Mutant(
        "flip of the momentum before the refresh",
        "trajectory",
        "end.momentum, -begun)",
        "end.momentum, -state.momentum)",
        identities("persistent_langevin"),
    ),
    Mutant(
        "leading O not part of the flip",
        "trajectory",
        "parts, point = [head, []], -1",
        "parts, point = [head[:-1], head[-1:]], -1",
        identities("word OBAB"),
    ),
    Mutant("leading O joined with the next", "words", " and not apart:", ":", identities("word OOBABO")),
    Mutant(
        "T forgotten in the ratio",
        "trajectory",
        "-(delta_potential + energy) / kernel.temperature",
        "-(delta_potential + energy)",
        backwards("OBABO"),
    ),
    Mutant(
        "minibatch U at the end",
        "trajectory",
        "end_potential = _exact(kernel, potential, theta)\n    end =",
        "end_potential = potential.estimate(theta, batches(last_point))\n    end =",
        identities("an epoch"),
    ),
    Mutant(
        "end-point kinetic energies for the sum of the kicks'",
        "trajectory",
        "    return begun, end, energy\n",
        "    return begun, end, 0.5 * ((m.double() ** 2 - begun.double() ** 2) * constants[1]).sum(-1)\n",
        identities("ggmc"),
    ),
    Mutant(
        "a rejected trajectory's gradient kept",
        "trajectory",
        "torch.where(column, end.gradient, state.gradient)",
        "end.gradient",
        "trajectory.py::test_moments_stay_over_twenty_decisions[hmc]",
    ),
    Mutant(
        "a rejected trajectory's U kept",
        "trajectory",
        "potential=torch.where(accepted, end.potential, state.potential)",
        "potential=end.potential",
        "trajectory.py::test_moments_stay_over_twenty_decisions[ggmc]",
    ),
    Mutant(
        "one uniform for all decisions",
        "trajectory",
        'acceptance.metropolis(log_mh, random.uniform("decision", index + 1, chains)',
        'acceptance.metropolis(log_mh, random.uniform("decision", 1, chains)',
        "trajectory.py::test_neals_samplers_are_his_slides[persistent_langevin]",
    ),
    Mutant(
        "Barker's rule is Metropolis'",
        "acceptance",
        "return uniform.logit() < log_mh",
        "return uniform.log() < log_mh",
        "subsampled.py::test_barker_accepts_as_often_as_its_ratio",
    ),
    Mutant(
        "the probability that is told under Barker's rule is Metropolis'",
        "trajectory",
        'log_mh.sigmoid() if kernel.acceptance == "barker" else log_mh.clamp(max=0).exp()',
        "log_mh.clamp(max=0).exp()",
        "trajectory.py::test_the_probability_of_acceptance_is_that_of_the_rule[barker-<lambda>]",
    ),
    Mutant(
        "all of sigma added to an estimate that has noise of its own",
        "subsampled",
        "(sigma**2 - error.square()).clamp(min=0).sqrt()",
        "sigma",
        "subsampled.py::test_barker_on_a_part_accepts_as_often_as_barker[1.5-0.75-100-1.0]",
    ),
    Mutant(
        "data drawn without replacement taken for independent ones",
        "subsampled",
        "(1 - number / size)",
        "(1 - (number == size))",
        "subsampled.py::test_barker_on_a_part_accepts_as_often_as_barker[1.5-0.75-100-1.0]",
    ),
    Mutant(
        "T forgotten in the estimate's error",
        "subsampled",
        "error = size / temperature *",
        "error = size *",
        "subsampled.py::test_barker_on_a_part_accepts_as_often_as_barker[1.5-0.75-100-2.0]",
    ),
    Mutant(
        "the prior forgotten in a decision on a part",
        "subsampled",
        "delta[rows] = prior[rows] + size * mean",
        "delta[rows] = size * mean",
        "subsampled.py::test_austerity_without_errors_is_metropolis[mixture]",
    ),
    Mutant(
        "v not divided by the ratio",
        "acceptance",
        "torch.where(accepted, log_abs - log_mh, log_abs)",
        "log_abs",
        "trajectory.py::test_moments_stay_over_twenty_decisions[nonreversible]",
    ),
    Mutant(
        "v wrapped by 1",
        "acceptance",
        "torch.where(v > 1, v - 2,",
        "torch.where(v > 1, v - 1,",
        "acceptance.py::test_v_moves_wraps_and_is_divided_by_the_ratio",
    ),
    Mutant(
        "a diverged chain goes on",
        "trajectory",
        "accepted = alive = alive & finite & torch.isfinite(end.momentum).all(-1)",
        "accepted = alive",
        "trajectory.py::test_divergence[monitor-nan]",
    ),
    # the energies
    Mutant(
        "U without the prior (regression)",
        "potentials/regression",
        " + constant + self.prior(theta)",
        " + constant",
        identities("prior"),
    ),
    Mutant(
        "U without the prior (network)",
        "potentials/network",
        "            return self.prior(theta) + self._likelihood(theta, backward=False)",
        "            return self._likelihood(theta, backward=False)",
        "trajectory.py::test_log_ratio_of_a_network_by_brute_force[settings0]",
    ),
    Mutant(
        "M forgotten in the kicks' energy",
        "flows",
        "(after - before) * inverse_mass * (after + before)",
        "(after - before) * (after + before)",
        backwards("OBABO"),
    ),
    Mutant(
        "kinetic sum in float32",
        "flows",
        "return 0.5 * product.sum(-1, dtype=torch.float64)",
        "return 0.5 * product.sum(-1, dtype=product.dtype)",
        "trajectory.py::test_kinetic_change_is_one_difference_of_the_stored_momenta",
    ),
    Mutant(
        "kinetic change as the difference of two float32 sums",
        "flows",
        "    product = (after - before) * inverse_mass * (after + before)\n"
        "    return 0.5 * product.sum(-1, dtype=torch.float64)",
        "    return (0.5 * (after.square().sum(-1) - before.square().sum(-1))).double()",
        "trajectory.py::test_energies_of_a_long_float32_cycle",
    ),
    Mutant(
        "energy added up in float32",
        "trajectory",
        "energy = energy + flows.kinetic_change(before, m, inverse_mass)",
        "energy = (energy + flows.kinetic_change(before, m, inverse_mass)).to(m.dtype)",
        "trajectory.py::test_energies_of_a_long_float32_cycle",
    ),
    Mutant(
        "batch statistics inside U, uncaught",
        "potentials/network",
        'return "; ".join(reasons) or None',
        "return None",
        "kernel.py::test_a_network_with_batch_normalisation_is_not_corrected",
    ),
    # the proposal
    Mutant(
        "T forgotten in a noise",
        "kernel",
        "math.sqrt(self.temperature) * self.mass**0.5",
        "self.mass**0.5",
        gaussian("ggmc"),
    ),
    Mutant(
        "M forgotten in a noise",
        "kernel",
        "math.sqrt(self.temperature) * self.mass**0.5",
        "math.sqrt(self.temperature) * (self.mass * 0 + 1)",
        gaussian("amagold"),
    ),
    Mutant(
        "M forgotten in the drift",
        "flows",
        "duration * (inverse_mass * momentum)",
        "duration * momentum",
        gaussian("hmc"),
    ),
    Mutant(
        "M in the kick",
        "trajectory",
        "flows.kick(m, gradient, number)",
        "flows.kick(m, inverse_mass * gradient, number)",
        gaussian("langevin"),
    ),
    Mutant(
        "T in the kick",
        "kernel",
        "return share * h[0] * self._rescaling(h[0]), None",
        "return share * h[0] * self._rescaling(h[0]) / (self.temperature if op.letter == 'B' else 1), None",
        gaussian("baoab"),
    ),
    Mutant(
        "T that varies inside a trajectory",
        "trajectory",
        "m = flows.refresh(m, noise[op.draw], number, extra)",
        "m = flows.refresh(m, noise[op.draw], number, extra * (1 + 0.01 * op.draw))",
        backwards("OBABO"),
    ),
    Mutant(
        "M that varies inside a trajectory",
        "trajectory",
        "theta = flows.drift(theta, m, number, inverse_mass)",
        "theta = flows.drift(theta, m, number, inverse_mass * (1 + 0.01 * op.shares[0][0]))",
        backwards("ABOBA"),
    ),
    Mutant(
        "c for the root of c",
        "kernel",
        "keep = keep * (decay if fraction == 1 else decay**fraction)",
        "keep = keep * decay",
        "trajectory.py::test_phase_space_shrinks_by_the_momentum_decay[ggmc]",
    ),
    Mutant(
        "noise of a c that is rounded afterwards",
        "kernel",
        "        keep = held(keep, dtype)\n        return keep, (1 - keep**2)",
        "        return keep, (1 - keep**2)",
        "kernel.py::test_weak_friction_refreshes_to_the_temperature[settings1-dtype0]",
    ),
    Mutant(
        "h for h/2",
        "words",
        "{letter: 1 / self.letters.count(letter) for",
        "{letter: 1.0 for",
        "trajectory.py::test_stationary_variances_without_decision[ggmc]",
    ),
    Mutant(
        "b forgotten in B",
        "kernel",
        "return share * h[0] * self._rescaling(h[0]), None",
        'return share * h[0] * (self._rescaling(h[0]) if op.letter == "A" else 1.0), None',
        "trajectory.py::test_stationary_variances_without_decision[ovrvo]",
    ),
    Mutant(
        "one noise for two O's",
        "trajectory",
        "m = flows.refresh(m, noise[op.draw], number, extra)",
        "m = flows.refresh(m, noise[1], number, extra)",
        gaussian("ggmc"),
    ),
    Mutant(
        "one noise for two chains",
        "random",
        "(chains[:, None] * size +",
        "(chains[:, None] // 2 * size +",
        "random.py::test_every_kind_of_number_is_made_of_its_two_words[3-0]",
    ),
    Mutant(
        "N/n forgotten (network)",
        "potentials/network",
        "loss = self._nll(leaf, index).sum() * (self.data_size / index.shape[-1])",
        "loss = self._nll(leaf, index).sum()",
        "trajectory.py::test_log_ratio_of_a_network_by_brute_force[settings0]",
    ),
    Mutant(
        "gradients of chains in one tensor without the prior (network)",
        "potentials/network",
        "leaf.grad + theta * self._precision_cast",
        "leaf.grad",
        "potential_together.py::test_each_chain_has_the_numbers_that_it_has_alone[perceptron-none]",
    ),
    Mutant(
        "N/n forgotten (regression)",
        "potentials/regression",
        ".squeeze(1) * (self.data_size / batch.shape[-1])",
        ".squeeze(1)",
        "trajectory.py::test_estimates_are_unbiased",
    ),
    Mutant(
        "partial refresh with 1 - c for 1 - c²",
        "momentum",
        "(1 - keep**2) ** 0.5",
        "(1 - keep) ** 0.5",
        gaussian("persistent_langevin"),
    ),
    Mutant("E with the noise of O", "kernel", "(2 * (1 - keep)) ** 0.5", "(1 - keep**2) ** 0.5", gaussian("sghmc")),
    Mutant(
        "a whole step's friction in each of two E's",
        "kernel",
        "self.friction.decay(share * h[0], euler=True)",
        "self.friction.decay(h[0], euler=True)",
        gaussian("sghmc in two halves"),
    ),
    Mutant(
        "AMAGOLD's c as an exponential",
        "kernel",
        "(1 - rate) / (1 + rate)",
        "math.exp(-2 * rate)",
        "trajectory.py::test_amagold_is_its_paper[0.25]",
    ),
    Mutant(
        "first momentum without T",
        "trajectory",
        "scale, moves = cast(kernel.momentum_scale, theta),",
        "scale, moves = cast(kernel.mass**0.5, theta),",
        identities("ggmc cold"),
    ),
    # minibatches and order
    Mutant(
        "shared minibatch drawn again",
        "words",
        "point, fresh = point + fresh, False",
        "point, fresh = point + 1, False",
        "words.py::test_kicks_with_no_drift_between_them_share_a_point",
    ),
    Mutant(
        "minibatches reused in the next trajectory",
        "trajectory",
        "kernel.batches.draw(random, index, chains)",
        "kernel.batches.draw(random, index // 2, chains)",
        "trajectory.py::test_trajectories_draw_fresh_numbers",
    ),
    Mutant(
        "schedule in the same order backwards",
        "kernel",
        "self.word.trajectory(self.steps, backwards=True)",
        "self.word.trajectory(self.steps)",
        "trajectory.py::test_trajectories_run_backwards[OBABO at random-False]",
    ),
    Mutant(
        "one-sided schedule taken for exact",
        "schedules",
        ' if self.name == "cosine" else None',
        ' if self.name == "sine" else None',
        "kernel.py::test_what_is_not_exact_is_reported_and_not_corrected[metropolis-cosine]",
    ),
    Mutant(
        "extra minibatch always first",
        "data/minibatches",
        "chains, step=1) < 0.5",
        "chains, step=1) < 2",
        identities("an epoch and one"),
    ),
    Mutant(
        "extra minibatch always last",
        "data/minibatches",
        "chains, step=1) < 0.5",
        "chains, step=1) < 0",
        "minibatches.py::test_shuffled_batches_read_the_same_backwards[4-2-3-places4-True]",
    ),
    Mutant(
        "a trajectory straddling an epoch",
        "data/minibatches",
        "self.epochs and self.extra > 1",
        "self.epochs and self.extra > 9",
        "minibatches.py::test_a_trajectory_that_straddles_an_epoch_is_refused[6]",
    ),
    Mutant(
        "runs of one permutation that share data",
        "data/minibatches",
        "start, size = run * self.points * self.batch_size,",
        "start, size = run * self.points,",
        "minibatches.py::test_runs_of_one_permutation_read_backwards_each_by_itself[5-2-1]",
    ),
    Mutant(
        "views chosen by the numbers that choose the data",
        "data/minibatches",
        'random.integers("augmentation", trajectory',
        'random.integers("minibatch", trajectory',
        "minibatches.py::test_views_are_uniform_and_independent_of_the_data[2]",
    ),
    Mutant(
        "trajectories of another length forget that data have views",
        "data/minibatches",
        "Minibatches(self.law, self.data_size, self.batch_size, points, self.views)",
        "Minibatches(self.law, self.data_size, self.batch_size, points)",
        "minibatches.py::test_other_points_of_the_same_size",
    ),
    Mutant(
        "exact gradient at one end only",
        "trajectory",
        "                end_gradient = gradient\n",
        "                end_gradient, gradient = gradient, potential.gradient(theta, batches(0))\n",
        identities("exact ends"),
    ),
    # between trajectories
    Mutant(
        "counter not restored on resume",
        "chain",
        'self.cycle, self.fits = saved["cycle"],',
        "self.cycle, self.fits = 0,",
        "chain.py::test_killed_after_any_block_it_ends_as_the_uninterrupted_run[stairs]",
    ),
    Mutant(
        "tuned step not restored on resume",
        "adaptation",
        'self.tuning, self.mass = values["tuning"], values["mass"]',
        'self.mass = values["mass"]',
        "chain.py::test_killed_after_any_block_it_ends_as_the_uninterrupted_run[nonreversible_with_tuning_for_each_chain]",
    ),
    Mutant(
        "half a chain written by a signal",
        "chain",
        "                chain.resume(saved)",
        "                signals.armed = True\n                chain.resume(saved)",
        "chain.py::test_a_signal_while_resuming_does_not_write_half_a_chain",
    ),
    Mutant(
        "a run is begun after its time",
        "chain",
        "if time.monotonic() >= until and not over",
        "if False and not over",
        "chain.py::test_a_run_whose_time_is_over_before_it_begins_evaluates_nothing",
    ),
    Mutant(
        "adaptation never ends",
        "chain",
        "if self.cycle <= self.plan.burn_in:\n            self._adapt",
        "if self.plan.burn_in:\n            self._adapt",
        "chain.py::test_tuning_reaches_its_target_and_is_frozen_after_the_burn_in",
    ),
    Mutant(
        "the mass estimated as long as the step size is tuned",
        "chain",
        "if self.plan.estimate_mass and self.cycle <= self.plan.mass_until:",
        "if self.plan.estimate_mass:",
        "chain.py::test_the_step_is_tuned_anew_for_the_mass_that_stays",
    ),
    Mutant(
        "the step size tuned for masses that are gone",
        "adaptation",
        "count = cycle + 1 - (self.begins if cycle >= self.begins else 0)",
        "count = cycle + 1",
        "chain.py::test_the_step_is_tuned_anew_for_the_mass_that_stays",
    ),
    Mutant(
        "kept momentum not rescaled to the new mass",
        "chain",
        "state.momentum = state.momentum * ratio.to(state.momentum)",
        "pass",
        "chain.py::test_kept_momentum_is_rescaled_when_the_mass_changes[1.7]",
    ),
    Mutant(
        "chains that diverged tune the others",
        "adaptation",
        "probability[alive] if shared else probability",
        "probability",
        "chain.py::test_chains_that_diverged_do_not_tune_the_others",
    ),
    Mutant(
        "chains that diverged in the mass",
        "measured",
        "gradient = gradient[alive[group.start : group.stop]]",
        "pass",
        "chain.py::test_chains_that_diverged_are_not_in_the_mass",
    ),
    Mutant(
        "a U of several chains is not noticed",
        "checks",
        "alone = potential.potential(theta[[chain]])",
        "alone = potential.potential(theta)[[chain]]",
        "chain.py::test_what_a_target_gives_can_be_sampled[mean]",
    ),
    Mutant(
        "a theta that is changed in place is not noticed",
        "checks",
        "before = theta.clone()",
        "before = theta",
        "chain.py::test_what_a_target_gives_can_be_sampled[place]",
    ),
    Mutant(
        "goes on with another network",
        "checks",
        "if kernel.inexact or not kernel.evaluates or looked",
        "if kernel.inexact or not together(potential) or looked",
        "chain.py::test_a_run_does_not_go_on_with_another_network",
    ),
    Mutant(
        "a module with random outputs is taken",
        "potentials/module_checks",
        "alone = [module.logits(one).clone() for one in some.split(1)]",
        "alone = both.split(1)",
        "potential_network.py::test_a_module_that_is_no_function_of_a_datum_is_refused[dropout]",
    ),
    Mutant(
        "temperature along a trajectory of coordinates that stand still, too",
        "measured",
        "return slice(None) if moves is None else torch.nonzero(moves).flatten()",
        "return slice(None)",
        "measured.py::test_a_traced_temperature_is_of_what_moves_and_log_mh_that_cannot_be_had_is_none",
    ),
    Mutant(
        "standard error over chains as if there were one more",
        "evaluate",
        "values.std(ddof=1) / chains**0.5",
        "values.std(ddof=1) / (chains + 1) ** 0.5",
        "evaluate.py::test_every_number_of_given_predictions[True]",
    ),
    Mutant(
        "stale U after a Gibbs update",
        "chain",
        "        evaluate(self.kernel, self.potential, state)\n        return state",
        "        return state",
        "chain.py::test_after_gibbs_u_and_gradient_are_the_new_position_s",
    ),
    Mutant(
        "energy of the steps before an interruption forgotten",
        "trajectory",
        "place.momentum, place.begun, place.energy",
        "place.momentum, place.begun, 0 * place.energy",
        "chain.py::test_a_signal_at_any_gradient_leaves_the_trajectory_where_it_is[exact ends]",
    ),
    Mutant(
        "flip of the momentum at an interruption",
        "trajectory",
        "place.momentum, place.begun, place.energy",
        "place.momentum, place.momentum, place.energy",
        "chain.py::test_killed_within_a_cycle_it_ends_as_the_uninterrupted_run[a leading O]",
    ),
    Mutant(
        "chains that were through before an interruption begun again",
        "chain",
        "range(len(done.states), len(self.groups))",
        "range(len(self.groups))",
        "chain.py::test_a_signal_at_any_gradient_leaves_the_trajectory_where_it_is[full refresh]",
    ),
    Mutant(
        "a traced point twice after an interruption",
        "progress",
        'or row["step"] < seen]',
        'or row["step"] <= seen]',
        "chain.py::test_a_point_that_was_traced_before_the_signal_is_traced_once",
    ),
    Mutant(
        "one noise for all O's of a compiled segment",
        "inductor",
        "torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for t in inputs",
        "mode.from_tensor(t, static_shapes=True) for t in inputs",
        "compiled.py::test_a_network_s_compiled_trajectory_is_the_eager_one[word BOAOB]",
    ),
    Mutant(
        "nobody looks at what was compiled of layers",
        "potentials/network",
        "if not (close(nll, expected) and all(map(close_slopes, compiled, slopes, (exact, slopes[1])))):",
        "if not close(nll, expected):",
        "compiled.py::test_layers_that_are_compiled_wrongly_stay_eager[_respond_backward]",
    ),
    Mutant(
        "nobody looks at what was compiled of steps",
        "compiled",
        "if not all(map(close, self(*given), segment(*given))):",
        "if not all(map(close, self(*given)[:2], segment(*given)[:2])):",
        "compiled.py::test_steps_that_are_compiled_wrongly_stay_eager[energy]",
    ),
    # steps replayed as graphs
    Mutant(
        "step sizes frozen at capture",
        "captured",
        "self._own[place].copy_(given, non_blocking=True)",
        "pass",
        "captured.py::test_a_replayed_trajectory_is_the_eager_one_to_the_bit[ggmc]",
    ),
    Mutant(
        "a replay writes over what came out of the one before",
        "captured",
        "tuple(one.clone() for one in self._outputs)",
        "tuple(self._outputs)",
        "captured.py::test_between_two_walks_a_place_is_kept_that_no_later_step_touches",
    ),
    Mutant(
        "nobody looks at a replay",
        "captured",
        "if not all(map(_close, found, expected)):",
        "if False:",
        "captured.py::test_a_replay_that_is_not_what_the_steps_are_is_seen_and_left[True]",
    ),
    Mutant(
        "a logarithm of 0 in the normals",
        "random",
        ".to(dtype).add_(0.5)",
        ".to(dtype)",
        "random.py::test_the_most_extreme_words_give_finite_normals[dtype1]",
    ),
    # what is told of the draws
    Mutant(
        "an autocorrelation time of antithetic chains that is summed up to some lag",
        "diagnostics",
        "np.minimum((last + 1 - np.arange(last + 1)) / (last + 1 - last // 2), 1)",
        "np.ones(last + 1)",
        "diagnostics.py::test_the_time_of_antithetic_draws_is_not_what_is_left_at_a_few_lags",
    ),
    Mutant(
        "a window of autocorrelations whose signs cancel",
        "diagnostics",
        "window * np.maximum(np.maximum(sums, sizes), 1)",
        "window * np.maximum(sums, 1)",
        "diagnostics.py::test_the_time_of_what_oscillates[0.98-0.3-20000-5]",
    ),
    Mutant(
        "an autocorrelation time from which chance takes away",
        "diagnostics",
        "if -3 * chance",
        "if -2 * chance",
        "diagnostics.py::test_the_time_is_the_mean_of_sums_up_to_the_first_lag_beyond_its_window[1.0]",
    ),
    Mutant(
        "an autocorrelation time without what is slow and of small weight",
        "diagnostics",
        "while 2 * last < len(rho):",
        "while False:",
        "diagnostics.py::test_a_slow_part_of_small_weight_is_in_the_time[0.1-0.95-2000-80]",
    ),
    # compiled layers and a GPU's kernels, which Triton interprets here
    Mutant(
        "layers that another run compiled stay so",
        "chain",
        "            self.potential.uncompile_layers()",
        "            pass",
        "potential_network.py::test_an_eager_run_after_a_compiled_one_is_as_the_first_one_was",
    ),
    Mutant(
        "TF32's products smaller than they are",
        "convolution",
        "+ 0x1000) & -0x2000",
        "+ 0) & -0x2000",
        "convolution.py::test_the_kernels_compute_what_pytorch_s_do[check_products-tf32]",
    ),
    Mutant(
        "a gradient by the input with the taps in forward order",
        "convolution",
        '"BY_TAP": -C, "FIRST": (R * S - 1) * C}',
        '"BY_TAP": C, "FIRST": 0}',
        "convolution.py::test_the_kernels_compute_what_pytorch_s_do[check_products-ieee]",
    ),
    Mutant(
        "a residual block's input without the gradient of what it adds",
        "residual",
        "if ADD:",
        "if False:",
        "residual.py::test_the_kernels_compute_what_pytorch_s_do[check_networks-ieee]",
    ),
    Mutant(
        "a gradient by u that knows nothing of its mean square",
        "residual",
        "(slope - value * (along / P)[None, :]) * scale[None, :]",
        "slope * scale[None, :]",
        "residual.py::test_the_kernels_compute_what_pytorch_s_do[check_layers-ieee]",
    ),
    Mutant(
        "gradients in the unit that made them numbers of 16 bits",
        "residual",
        "tl.sum(total, 0) * tl.load(unit)",
        "tl.sum(total, 0)",
        "residual.py::test_the_kernels_compute_what_pytorch_s_do[check_heads-tf32]",
    ),
    Mutant(
        "numbers of 16 bits that are infinite where they are too large",
        "convolution",
        "x = tl.clamp(x, -65504.0, 65504.0, propagate_nan=tl.PropagateNan.ALL).to(tl.float16)",
        "x = x.to(tl.float16)",
        "residual.py::test_the_kernels_compute_what_pytorch_s_do[check_heads-tf32]",
    ),
    Mutant(
        "what a convolution gives at an image's last pixels at all of them",
        "residual",
        "if P > BLOCK_P:  # else it is there",
        "if False:",
        "residual.py::test_the_kernels_compute_what_pytorch_s_do[check_parts-tf32]",
    ),
    Mutant(
        "another rotation in the kernel of the words",
        "random",
        "0x061A0F0D",
        "0x061A0F0E",
        "convolution.py::test_the_kernels_compute_what_pytorch_s_do[check_words-ieee]",
    ),
]

KINETIC = "return 0.5 * product.sum({}1, dtype=torch.float64)"
ALIVE = "accepted = alive = alive & finite & torch.isfinite(end.momentum).all({}1)"
LAST = "of [chains, dim] dimension 1 is the last"
# Random mutants that change no number, by (file, the line as it was, the line as it became), and why.
EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "data/minibatches",
        "first = random.uniform('direction', trajectory, chains, step=1) < 0.5",
        "first = random.uniform('direction', trajectory, chains, step=2) < 0.5",
    ): "another place of the stream, which nothing else asks for either",
    (
        "acceptance",
        "sign = torch.where(v < 0, -1.0, 1.0).to(sign) if delta else sign",
        "sign = torch.where(v <= 0, -1.0, 1.0).to(sign) if delta else sign",
    ): "0 has no sign: both are the law of v",
    (
        "acceptance",
        "v = torch.where(v > 1, v - 2, torch.where(v < -1, v + 2, v))",
        "v = torch.where(v > 1, v - 2, torch.where(v <= -1, v + 2, v))",
    ): "-1 and 1 are one point of the circle that v goes round",
    ("words", "draw: int = -1", "draw: int = +1"): "drifts and kicks draw nothing; one number more is ready, unused",
    (
        "trajectory",
        "draws = 1 + max(0, *(op.draw for part in (head, opening, *parts) for op, _, _ in part))",
        "draws = 1 + max(1, *(op.draw for part in (head, opening, *parts) for op, _, _ in part))",
    ): "one number more is ready, unused",
    (
        "trajectory",
        "parts, point = ([head, []], -1)",
        "parts, point = ([head, []], -2)",
    ): "any number that is not the first point's",
    ("flows", KINETIC.format("-"), KINETIC.format("+")): LAST,
    ("trajectory", ALIVE.format("-"), ALIVE.format("+")): LAST,
}


# ---- running tests in a copy of the tree


class Recorder:
    """A pytest plugin: outcome of each test and, of a failure, whether it is an assertion that a test made, and not the
    library or what that called."""

    def __init__(self):
        self.failed: list[tuple[str, bool]] = []
        self.passed = 0

    def pytest_runtest_makereport(self, item, call):
        if call.excinfo is not None:
            tree = Path.cwd()
            places = [Path(frame.path) for frame in call.excinfo.traceback if Path(frame.path).is_relative_to(tree)]
            last = places[-1] if places else tree
            asserted = call.excinfo.type is AssertionError and last.is_relative_to(tree / "tests")
            failed = call.excinfo.type is pytest.fail.Exception  # which the library may have been given to call
            own = call.when == "call" and (asserted or failed)
            self.failed.append((item.nodeid, own))
        elif call.when == "call":
            self.passed += 1


def run_tests(words: list[str]) -> None:
    """In the copy: run pytest, print one line of JSON at the end."""
    recorder = Recorder()
    status = pytest.main(["-q", "-p", "no:cacheprovider", "--tb=short", *words], plugins=[recorder])
    print("\n" + json.dumps({"status": int(status), "passed": recorder.passed, "failed": recorder.failed}))


def copy_tree(folder: Path) -> Path:
    tree = folder / "tree"
    for part in PARTS:
        source, target = ROOT / part, tree / part
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            tree.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    return tree


def ask(tree: Path, *words: str, seconds: float = TIMEOUT) -> dict:
    """Run tests in the tree: {"passed": n, "failed": [(test, own assertion)], "status": pytest's or a word}."""
    environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--run", *words]
    try:
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"passed": 0, "failed": [], "status": "timeout", "output": f"no end after {seconds:.0f} s"}
    line = done.stdout.strip().rsplit("\n", 1)[-1]
    try:
        return json.loads(line) | {"output": done.stdout}
    except ValueError:
        return {"passed": 0, "failed": [], "status": "crashed", "output": done.stdout + done.stderr}


def apply(tree: Path, file: str, old: str, new: str) -> None:
    path = tree / "sgmcmc" / f"{file}.py"
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise LookupError(f"{text.count(old)} matches")
    path.write_text(text.replace(old, new), encoding="utf-8")


def judge(mutant: Mutant) -> tuple[str, float]:
    clock = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = copy_tree(Path(folder))
        try:
            apply(tree, mutant.file, mutant.old, mutant.new)
        except LookupError as error:
            return f"DOES NOT APPLY: {error}", 0.0
        result = ask(tree, f"tests/test_{mutant.test}")
    if any(own for _, own in result["failed"]):
        verdict = "killed"
    elif result["failed"] or result["status"] in ("crashed", "timeout"):
        verdict = "NOT BY AN ASSERTION"
    else:
        verdict = "SURVIVES" if result["passed"] else "NO SUCH TEST"
    return verdict, time.perf_counter() - clock


# ---- mutants drawn at random

ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult}
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


def sites(tree: ast.Module) -> list[ast.AST]:
    """The nodes that can be changed: not in docstrings, annotations and what is said in errors."""
    found: list[ast.AST] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr):
            return
        if isinstance(node, ast.keyword) and node.arg == "strict":  # of zip: only a check
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            found.append(node)
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
            found.append(node)
        elif isinstance(node, ast.BoolOp) or (
            isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not)
        ):
            found.append(node)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            found.append(node)
        elif isinstance(node, ast.If | ast.IfExp) or (
            isinstance(node, ast.Assign | ast.AugAssign) and not at_top(node)
        ):
            found.append(node)
        for name, child in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for one in child if isinstance(child, list) else [child]:
                if isinstance(one, ast.AST):
                    visit(one)

    tops = {id(node) for node in tree.body}

    def at_top(node: ast.AST) -> bool:
        return id(node) in tops

    visit(tree)
    return found


def change(node: ast.AST) -> None:
    """Break one node, in place."""
    if isinstance(node, ast.BinOp):
        node.op = ARITHMETIC[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
        if isinstance(node.op, ast.Not):
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
    elif isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.If | ast.IfExp):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    else:  # a statement left out
        node.targets, node.value = [ast.Name("_left_out", ast.Store())], ast.Constant(None)
        node.__class__ = ast.Assign


def draw(number: int, seed: int) -> list[tuple[str, int]]:
    """(file, number of the site) of so many different mutants."""
    places = []
    for file in HEART:
        text = (ROOT / "sgmcmc" / f"{file}.py").read_text(encoding="utf-8")
        places += [(file, site) for site in range(len(sites(ast.parse(text))))]
    return random.Random(seed).sample(places, min(number, len(places)))


def broken(file: str, site: int) -> tuple[str, int, str, str]:
    """The module broken at a site: (its text, line number, the statement as it was, and as it became)."""
    text = (ROOT / "sgmcmc" / f"{file}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    node = sites(tree)[site]
    statement = node
    for outer in ast.walk(tree):
        inside = isinstance(outer, ast.stmt) and not isinstance(outer, ast.FunctionDef | ast.ClassDef)
        if inside and any(part is node for part in ast.walk(outer)):
            statement = outer  # walks breadth first: the last one is the innermost

    def first_line() -> str:
        return ast.unparse(statement).split("\n")[0]

    before = first_line()
    change(node)
    ast.fix_missing_locations(tree)
    return ast.unparse(tree), node.lineno, before, first_line()


def judge_random(place: tuple[str, int], seconds: float = TIMEOUT) -> tuple[str, str, str, str]:
    file, site = place
    text, line, before, after = broken(file, site)
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = copy_tree(Path(folder))
        (tree / "sgmcmc" / f"{file}.py").write_text(text, encoding="utf-8")
        for part in (f"not ({STATISTICAL})", STATISTICAL):
            result = ask(tree, "-x", "-k", part, *HEART_TESTS, seconds=seconds)
            if result["failed"] or result.get("status"):
                break
    where = f"{file}.py:{line}"
    if not result["failed"] and result["status"]:
        return where, before, after, "killed (no test could run)"
    if result["failed"]:
        test, own = result["failed"][0]
        return where, before, after, f"killed by {test.split('::')[-1]}" + ("" if own else " (crash)")
    reason = EQUIVALENT.get((file, before, after))
    return where, before, after, f"equivalent: {reason}" if reason else "SURVIVES"


# ---- the table


def main() -> int:
    parser = argparse.ArgumentParser(description="Breaks the library line by line and runs the tests that must see it.")
    parser.add_argument("--seed", type=int, default=1, help="of the random mutants [%(default)s]")
    parser.add_argument("--random", type=int, default=10, help="how many of them [%(default)s]")
    parser.add_argument("--workers", type=int, default=2, help="processes at once [%(default)s]")
    parser.add_argument("--only", default="", help="chosen mutants whose name contains these words")
    parser.add_argument("--run", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run_tests(options.run)
        return 0
    for name, least in (("workers", 1), ("random", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name} {getattr(options, name)}: must be at least {least}")
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.name]
    if not chosen:
        parser.error(f"--only {options.only}: is in no mutant's name")
    width = max((len(mutant.name) for mutant in chosen), default=0)
    surviving = 0
    with ThreadPoolExecutor(options.workers) as pool:
        tests = sorted({f"tests/test_{mutant.test}" for mutant in chosen})
        places = [] if options.only else draw(options.random, options.seed)
        with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
            tree = copy_tree(Path(folder))
            sound, clock = ask(tree, *tests, seconds=TIMEOUT * len(tests)), time.perf_counter()
            heart = {"passed": 0, "failed": []}
            if places:
                heart = ask(tree, *HEART_TESTS, seconds=TIMEOUT * len(HEART_TESTS))
        patience = max(TIMEOUT, 3 * (time.perf_counter() - clock))  # of all tests of the heart, beside others like it
        named = not sound["failed"] and sound["passed"] == len(tests)
        if not named or heart["failed"] or places and not heart["passed"] or heart.get("status"):
            print(heart["output"] if named else sound["output"])
            print("the tests must pass on the unbroken tree first")
            return 1
        print(f"{len(tests)} tests named and {heart['passed']} of the heart pass on the unbroken tree")
        print(f"{len(chosen)} chosen mutants:")
        for mutant, (verdict, seconds) in zip(chosen, pool.map(judge, chosen), strict=True):
            surviving += verdict != "killed"
            print(f"  {mutant.name:{width}}  {verdict:8}  {seconds:4.0f} s  test_{mutant.test}", flush=True)
        print(f"{len(places)} drawn at random (seed {options.seed}):")
        for where, before, after, verdict in pool.map(partial(judge_random, seconds=patience), places):
            surviving += verdict == "SURVIVES"
            print(f"  {where}  {before}  ->  {after}\n      {verdict}", flush=True)
    print(f"{surviving} not killed" if surviving else "none survives")
    return 1 if surviving else 0


if __name__ == "__main__":
    sys.exit(main())
