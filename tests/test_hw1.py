"""Homework 1: its answers are right by another route, and typical wrong answers are told what is wrong."""

import numpy as np
import pytest
from homework_answers import first_fault

from moe_homework.hw1 import HOMEWORK, solutions
from moe_lib import routing
from moe_lib.models import CATALOG
from moe_lib.steps import decode_step, weights_read


def test_a_read_share_is_the_mean_of_simulated_steps():
    rng = np.random.default_rng(1)
    steps = routing.sample_routing(rng, 2000 * 10, 32, 4).reshape(2000, -1)
    shares = [(np.unique(step).size + 2) / (32 + 2) for step in steps]
    assert solutions.share_read(32, 4, 10) == pytest.approx(np.mean(shares), rel=0.005)  # 2,000 steps know it to 0.2 %


def test_the_sequences_needed_are_the_first_that_reach_the_share():
    share, sequences = np.linspace(0.01, 0.99, 50), np.arange(1, 500)
    reached = routing.coverage(128, 8, 4 * sequences) >= share[:, None]
    assert np.array_equal(solutions.sequences_needed(share, 128, 8), sequences[reached.argmax(axis=1)])


def test_counts_predict_what_fresh_steps_touch():
    rng, popular = np.random.default_rng(2), routing.zipf_inclusion(32, 2, 1)
    draw = lambda tokens: routing.sample_routing(rng, tokens, 32, 2, inclusion=popular)  # noqa: E731
    counts = np.bincount(draw(100_000).ravel(), minlength=32)
    fresh = np.mean([np.unique(step).size for step in draw(2000 * 16).reshape(2000, -1)])
    assert solutions.experts_from_counts(counts[None], [16])[0, 0] == pytest.approx(fresh, rel=0.01)  # 0.3 % of noise


def test_drafts_of_a_uniform_router_are_worth_the_independent_tokens_of_equation_2_6():
    sequences, drafted = np.array([[1], [7]]), np.arange(5)
    tokens = sequences * routing.independent_tokens(256, 8, 1 + drafted, 0.3)
    drafts = solutions.experts_for_drafts(np.full(256, 8 / 256), sequences, drafted)
    assert np.allclose(drafts, routing.experts_touched(256, 8, tokens))


def test_drafts_of_a_skewed_router_touch_what_simulated_ones_do():
    rng, popular = np.random.default_rng(3), routing.zipf_inclusion(16, 2, 1)
    choices = routing.sample_routing(rng, 3000 * 2 * 4, 16, 2, inclusion=popular).reshape(3000 * 2, 4, 2)
    anew = np.where(rng.random((3000 * 2, 4)) >= 0.3, np.arange(4), 0)
    last = np.maximum.accumulate(anew, axis=1)[..., None]  # whose choice a token has
    steps = np.take_along_axis(choices, last, axis=1).reshape(3000, -1)
    touched = np.mean([np.unique(step).size for step in steps])
    assert solutions.experts_for_drafts(popular, 2, 3) == pytest.approx(touched, rel=0.01)  # 0.4 % of noise


def test_one_sequence_more_than_the_most_would_be_late():
    model, bytes_per_s = CATALOG["deepseek-v3"], 8 * 4.8e12
    always, routed = weights_read(model)
    E, k, cache = model.num_experts, model.top_k, model.kv_bytes_per_sequence(8192)
    most = solutions.most_sequences(always, routed / E, E, k, cache, bytes_per_s)
    took = decode_step(model, [most, most + 1], context=8192).bytes_read / bytes_per_s
    assert took[0] <= 0.020 < took[1]


def test_the_gap_of_the_last_question_is_no_chance():
    assert round(routing.experts_touched(256, 8, 64), 1) == 222.4
    assert (222.4 - 194) / (routing.experts_touched_std(256, 8, 64) / np.sqrt(1000)) > 100


def share_of_routed_alone(num_experts, top_k, batch):
    return routing.coverage(num_experts, top_k, batch)


def share_with_shared_in_the_router(num_experts, top_k, batch):
    return routing.coverage(num_experts + 2, top_k + 2, batch)


def tokens_not_sequences(share, num_experts, top_k):
    return np.ceil(routing.batch_for_coverage(share, num_experts, top_k))


def rounded_without_care(share, num_experts, top_k):
    return np.ceil(routing.batch_for_coverage(share, num_experts, top_k) / 4)


def share_of_all_choices(counts, batch):
    return routing.coverage_of(counts / counts.sum(axis=-1, keepdims=True), batch[:, None]).T * counts.shape[1]


def mean_over_layers(counts, batch):
    return solutions.experts_from_counts(counts, batch).mean(axis=0)


def divided_by_nothing(counts, batch):
    chance = 2 * counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)
    return np.sum(1 - (1 - chance[:, None]) ** batch[:, None], axis=-1)


def drafts_independent(inclusion, sequences, drafted):
    return np.sum(1 - (1 - inclusion) ** np.multiply(sequences, 1 + drafted)[..., None], axis=-1)


def one_run_of_all_tokens(inclusion, sequences, drafted):
    return np.sum(1 - (1 - inclusion) * (1 - 0.7 * inclusion) ** (sequences * (1 + drafted) - 1), axis=-1)


def one_too_many(*arguments):
    return solutions.most_sequences(*arguments) + 1


def active_experts_only(always, expert, E, k, cache, speed):
    return np.floor((0.020 * speed - always - k * expert) / cache)


@pytest.mark.parametrize(
    "wrong, name, line",
    [
        (share_of_routed_alone, "share_read", "share_read(8, 2, 1): expected 0.4, got 0.25"),
        (share_with_shared_in_the_router, "share_read", "share_read(4, 2, 2): expected 0.8333333333, got 0.88"),
        (tokens_not_sequences, "sequences_needed", "sequences_needed(0.999, 2, 1): expected 3, got 10"),
        (rounded_without_care, "sequences_needed", "as element [2] of arrays of shape (20,): expected 3, got 4.0"),
        (share_of_all_choices, "experts_from_counts", "at [0, 0] expected 2.0, got 1.0"),
        (mean_over_layers, "experts_from_counts", "expected an array of shape (1, 2)"),
        (divided_by_nothing, "experts_from_counts", "at [0, 0] expected 2.0, got 0.0"),
        (drafts_independent, "experts_for_drafts", "([0.5, 0.5]), 1, 1): expected 1.35, got 1.5"),
        (one_run_of_all_tokens, "experts_for_drafts", "([0.5, 0.5]), 2, 1): expected 1.78875, got"),
        (one_too_many, "most_sequences", "most_sequences(1, 1, 4, 2, 1, 220): expected 1, got 2"),
        (active_experts_only, "most_sequences", "most_sequences(1, 1, 4, 2, 1, 330): expected 2, got 3.0"),
    ],
)  # fmt: skip
def test_a_typical_wrong_answer_is_told_the_call_what_was_expected_and_what_came(wrong, name, line):
    assert line in first_fault(HOMEWORK, name, wrong)
