"""Homework 3: the reference solutions against other routes to the same numbers, and what a wrong answer is told."""

import itertools
import re

import numpy as np
import pytest
from homework_answers import first_fault, last_table

from moe_homework.hw3 import HOMEWORK
from moe_homework.hw3.solutions import cache_hits, choose_bits, prefetched_time, split_step, token_bytes
from moe_lib.caching import lru_hit_rates, sample_trace
from moe_lib.models import CATALOG
from moe_lib.offload import missed_bytes
from moe_lib.offload import token_time as overlapped_time
from moe_lib.routing import zipf_inclusion

MIXTRAL, QWEN = CATALOG["mixtral-8x7b"], CATALOG["qwen3-30b-a3b"]


def test_four_bits_with_a_scale_of_two_bytes_for_32_weights_are_four_and_a_half():
    for model in MIXTRAL, QWEN:  # widths divide by 32
        found = token_bytes(model.num_moe_layers, model.top_k, model.d_model, model.d_expert)
        assert found == missed_bytes(model, weight_bytes=4.5 / 8)


def test_scales_counted_group_by_group_agree():
    d, f = 70, 46
    groups = [1 for rows, width in ((f, d), (f, d), (d, f)) for _ in range(rows) for _ in range(0, width, 32)]
    assert token_bytes(1, 1, d, f) == 3 * d * f / 2 + 2 * len(groups)


def test_a_layer_ahead_lies_between_full_overlap_and_none():
    rng = np.random.default_rng(3)
    hit_rate, compute = rng.random(32), rng.uniform(1e-3, 8e-3, 32)
    size = missed_bytes(MIXTRAL, weight_bytes=0.5) / 64
    found = prefetched_time(hit_rate, 2, size, compute, start_us=0)
    ends = [overlapped_time(MIXTRAL, 25e9, weight_bytes=0.5, hit_rate=hit_rate.mean(), compute_time=compute.sum(),
                            overlap=overlap) for overlap in (True, False)]
    assert ends[0] < found < ends[1]


def test_layers_that_start_when_link_and_card_are_free_end_at_the_same_time():
    rng = np.random.default_rng(4)
    hit_rate, compute = rng.random(20), rng.uniform(1e-3, 4e-3, 20)
    copies = 4 * (1 - hit_rate) * (20e-6 + 4e7 / 25e9)
    arrived = now = copies[0]
    for layer in range(20):
        now = max(now, arrived)  # its experts are there, and the layer before is done
        arrived, now = now + (copies[layer + 1] if layer < 19 else 0), now + compute[layer]
    assert np.isclose(prefetched_time(hit_rate, 4, 4e7, compute), now)


def test_one_choice_a_step_and_nothing_pinned_is_the_librarys_lru():
    trace = sample_trace(np.random.default_rng(5), 2000, 16, 1, inclusion=zipf_inclusion(16, 1, 1))
    rates = lru_hit_rates(trace, 16)
    assert all(np.isclose(cache_hits(trace, slots, pinned=0).mean(), rates[slots]) for slots in range(17))


def test_all_choices_at_once_hit_a_uniform_router_at_slots_over_experts():
    trace = sample_trace(np.random.default_rng(6), 20000, 8, 2)
    assert np.isclose(cache_hits(trace, 4, pinned=0).sum() / trace.size, 4 / 8, atol=0.01)  # 3 standard errors


def test_no_other_set_of_copies_makes_the_step_shorter():
    tokens, copy = np.random.default_rng(7).poisson(15, 9), 4e7 / 2 / 25e9
    host = np.maximum(4e7 / 2 / 200e9, 2 * tokens * 4e7 / 2e12)
    ways = itertools.product((0, 1), repeat=9)
    best = min(max(sum(way) * copy, host[np.equal(way, 0)].sum()) for way in ways)
    copied, seconds = split_step(tokens, 4e7)
    assert np.isclose(seconds, best) and 0 < copied < 9


def test_no_other_slots_for_each_layer_miss_less():
    popularity = -np.sort(-np.random.default_rng(8).dirichlet(np.ones(5), 3))
    kept, seconds = choose_bits([8], popularity, 1e6 + 15.5e6, 1e6, 1e6, 1)[1:]  # seven beside the staging slots
    held = np.cumsum(np.pad(popularity, ((0, 0), (1, 0))), axis=1)
    most = max(sum(held[layer, n] for layer, n in enumerate(way))
               for way in itertools.product(range(6), repeat=3) if sum(way) == 7)
    assert kept.sum() == 7 and np.isclose(seconds, 4e6 / 1e12 + (3 - most) * 1e6 / 25e9)


def threshold(tokens, params):
    """Copies every expert that alone would be quicker to copy."""
    copied = int((tokens > 20).sum())
    return copied, max(copied * params / 50e9, np.maximum(2.5, tokens[tokens <= 20]).sum() * params / 1e12)


def everywhere_alike(bits, popularity, *rest):
    """Keeps the same experts in every layer."""
    return choose_bits(bits, np.tile(popularity.mean(axis=0), (len(popularity), 1)), *rest)


MISTAKES = {
    "scales of a whole matrix": ("token_bytes", lambda n, k, d, f: n * k * 3 * d * f * (0.5 + 2 / 32),
                                 "34, 4): expected 304.0, got 229.5"),
    "no scales": ("token_bytes", lambda n, k, d, f: n * k * 3 * d * f / 2, "expected 1728.0, got 1536.0"),
    "all overlaps": ("prefetched_time", lambda h, k, size, t: max(t.sum(), (k * (1 - h)).sum() * (2e-5 + size / 25e9)),
                     "array([0.01])): expected 0.01102, got 0.01"),
    "started once": ("prefetched_time", lambda h, k, size, t: prefetched_time(h, k, size, t, start_us=0) + 2e-5,
                     "[0.5]), 4, 2.5e+07, array([0.01])): expected 0.01204, got 0.01202"),
    "pinned outside": ("cache_hits", lambda trace, slots: cache_hits(trace, slots + 2), "at [2] expected 1, got 2"),
    "one by one": ("cache_hits", lambda trace, slots: cache_hits(np.reshape(trace, (-1, 1)), slots).reshape(
        trace.shape).sum(axis=1),
                   "[3, 2], [2, 1]]), 3): at [1] expected 1, got 0"),
    "each for itself": ("split_step", threshold, "array([18, 18]), 5e+07): value 0: expected 1, got 0"),
    "all copied": ("split_step", lambda tokens, x: (tokens.size, tokens.size * x / 50e9), "expected 0, got 1"),
    "no staging": ("choose_bits", lambda *model: choose_bits(*model, staging=0), "value 1: at [0] expected 1, got 4"),
    "layers alike": ("choose_bits", everywhere_alike, "value 1: at [0] expected 1, got 2"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_typical_mistake_is_told_what_was_expected_and_what_came(mistake):
    name, answer, words = MISTAKES[mistake]
    message = first_fault(HOMEWORK, name, answer)
    assert message.startswith(f"{name}(") and words in message


def test_the_answer_in_words_on_the_page_of_solutions_is_about_the_table_of_the_notebook():
    table, said = last_table(HOMEWORK)
    measured, bound = np.array(re.findall(r"(\d+) ms .* (\d+) ms", table), float).T
    assert "{:.0f}, {:.0f}, {:.0f} and {:.0f} % of their".format(*100 * bound / measured) in said
    assert "{:.0f}, {:.0f}, {:.0f} and {:.0f} ms: they".format(*measured - bound) in said
    assert "from {:.0f} to {:.0f} ms, the measured time only from {:,.0f} to {:.0f} ms".format(
        *bound[[0, 2]], *measured[[0, 2]]) in said
    assert f"saves {measured[2] - measured[3]:.0f} ms" in said
