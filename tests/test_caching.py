from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lib import caching
from moe_lib.caching import (
    che_hit_rate,
    lru_hit_rates,
    optimal_hit_rates,
    reuse_from_repetition,
    reuse_hit_rate,
    sample_trace,
)
from moe_lib.models import CATALOG
from moe_lib.routing import zipf_inclusion

V3, MIXTRAL = CATALOG["deepseek-v3"], CATALOG["mixtral-8x7b"]
traces = st.integers(1, 12).flatmap(
    lambda E: st.tuples(st.just(E), st.lists(st.integers(0, E - 1), min_size=1, max_size=60)))
def plain_lru(trace, slots):
    """Hit rate of one cache, access by access."""
    cache, hits = OrderedDict(), 0
    for expert in trace:
        hits += expert in cache
        cache[expert] = True
        cache.move_to_end(expert)
        if len(cache) > slots:
            cache.popitem(last=False)
    return hits / len(trace)


def best_hits(trace, slots):
    """Most hits of any cache that keeps what it loads, by trying every eviction."""
    states = {frozenset(): 0}
    for expert in trace:
        after = {}
        for held, hits in states.items():
            choices = [held] if expert in held or len(held) < slots else [held - {out} for out in held]
            for rest in choices:
                key = rest | {expert}
                after[key] = max(after.get(key, 0), hits + (expert in held))
        states = after
    return max(states.values()) / len(trace)


# caches


@given(traces)
def test_one_pass_equals_a_plain_lru_at_every_size(case):
    num_experts, trace = case
    rates = lru_hit_rates(trace, num_experts)
    assert rates.tolist() == [0, *(plain_lru(trace, slots) for slots in range(1, num_experts + 1))]


@pytest.mark.parametrize(("num_experts", "cells"), [(256, 1 << 18), (256, 1 << 12), (300, 1 << 18), (7, 14), (1, 1)])
def test_cutting_the_trace_into_segments_changes_nothing(num_experts, cells, monkeypatch):
    monkeypatch.setattr(caching, "CELLS_PER_STEP", cells)
    trace = np.random.default_rng(0).zipf(1.2, 4001) % num_experts
    sizes = np.unique(np.linspace(1, num_experts, 9).astype(int))
    rates = lru_hit_rates(trace, num_experts)
    assert rates[sizes].tolist() == [plain_lru(trace.tolist(), size) for size in sizes]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=14))
def test_the_optimum_is_the_best_of_all_evictions(trace):
    rates = optimal_hit_rates(trace, 5)
    assert rates.tolist() == pytest.approx([0, *(best_hits(trace, slots) for slots in range(1, 6))])


@given(traces)
def test_hit_rates_grow_with_slots_and_the_optimum_is_never_beaten(case):
    num_experts, trace = case
    lru, best = lru_hit_rates(trace, num_experts), optimal_hit_rates(trace, num_experts)
    assert (np.diff(lru) >= 0).all() and (best >= lru).all() and lru[0] == best[0] == 0
    assert lru[-1] == best[-1] == pytest.approx(1 - len(set(trace)) / len(trace))  # first uses miss


@pytest.mark.parametrize("exponent", [0, 0.5, 1])
def test_che_is_within_a_hundredth_of_single_draws_from_8_slots(exponent):
    popularity = zipf_inclusion(256, 1, exponent)
    trace = np.random.default_rng(1).choice(256, 400_000, p=popularity)
    error = che_hit_rate(popularity, np.arange(257)) - lru_hit_rates(trace, 256)
    assert np.abs(error[8:]).max() < 0.01


@pytest.mark.parametrize("exponent", [0, 0.5, 1])
@pytest.mark.parametrize(("num_experts", "top_k"), [(256, 8), (64, 8), (8, 2)])
def test_che_of_distinct_choices_is_within_a_hundredth_from_2k_slots(num_experts, top_k, exponent):
    inclusion = zipf_inclusion(num_experts, top_k, exponent)
    trace = sample_trace(np.random.default_rng(2), 30_000, num_experts, top_k, inclusion=inclusion)
    error = che_hit_rate(inclusion, np.arange(num_experts + 1), top_k=top_k) - lru_hit_rates(trace, num_experts)
    assert np.abs(error[2 * top_k:]).max() < 0.01


def test_che_of_a_uniform_token_matches_counting_by_hand():
    held = np.array([(32 - j) / (256 - j) for j in range(8)])  # experts of the token itself cannot be asked for again
    assert che_hit_rate(np.ones(256), 32, top_k=8) == pytest.approx(held.mean(), abs=5e-4)
    assert che_hit_rate(np.ones(256), 32) == pytest.approx(32 / 256)


def test_che_fails_by_half_under_reuse_and_the_reuse_formula_does_not():
    rng, uniform, size = np.random.default_rng(3), np.ones(256), np.arange(257)
    lru = lru_hit_rates(sample_trace(rng, 30_000, 256, 8, reuse=0.5), 256)
    plain = np.abs(che_hit_rate(uniform, size, top_k=8) - lru)
    mended = np.abs(reuse_hit_rate(uniform, size, 0.5, top_k=8) - lru)
    assert plain[8:].max() > 0.45 and mended[16:].max() < 0.005


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1, 1e308])
def test_only_the_ratios_of_popularity_matter_and_a_sliver_of_a_slot_hits_nearly_nothing(scale):
    assert che_hit_rate([scale] * 4, [1e-300, 1, 3.5]) == pytest.approx([0, 1 / 4, 3.5 / 4], abs=1e-9)
    assert che_hit_rate([0, 0, scale, scale], [2, 3, 4]).tolist() == [1, 1, 1]
    assert che_hit_rate([1, 1e-308], 1) == pytest.approx(1) and not np.signbit(che_hit_rate([1] * 3, 1, top_k=3))


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=20), st.floats(0, 1))
def test_a_full_cache_always_hits_and_an_empty_one_never(popularity, reuse):
    hits = reuse_hit_rate(popularity, np.arange(len(popularity) + 1), reuse)
    assert hits[0] == 0 and hits[-1] == pytest.approx(1) and (np.diff(hits) > -1e-9).all()


# traces


@pytest.mark.parametrize("reuse", [0, 0.3, 0.9])
def test_tokens_choose_distinct_experts_and_repeat_with_the_given_chance(reuse):
    trace = sample_trace(np.random.default_rng(4), 20_000, 64, 4, reuse=reuse)
    assert (np.diff(np.sort(trace, axis=1), axis=1) > 0).all()
    again = (trace[1:, :, None] == trace[:-1, None, :]).any(-1).mean()
    assert reuse - 0.01 < again < reuse + (1 - reuse) * 4 / 64 + 0.01


@pytest.mark.parametrize(("num_experts", "top_k"), [(8, 2), (256, 8)])
def test_reuse_found_from_a_repetition_rate_gives_that_rate(num_experts, top_k):
    reuse = float(reuse_from_repetition(0.65, num_experts, top_k))
    trace = sample_trace(np.random.default_rng(5), 30_000, num_experts, top_k, reuse=reuse)
    assert (trace[1:, :, None] == trace[:-1, None, :]).any((1, 2)).mean() == pytest.approx(0.65, abs=0.01)


def test_the_repetition_of_independent_mixtral_tokens_means_no_reuse():
    assert reuse_from_repetition(1 - (6 / 8) * (5 / 7), 8, 2) == pytest.approx(0)
    assert reuse_from_repetition([0.1, 1], 8, 2).tolist() == [0, 1]


def test_independent_traces_meet_their_popularity():
    inclusion = zipf_inclusion(64, 8, 0.7)
    trace = sample_trace(np.random.default_rng(6), 40_000, 64, 8, inclusion=inclusion)
    assert np.allclose(np.bincount(trace.ravel(), minlength=64) / 40_000, inclusion, atol=0.015)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: lru_hit_rates([], 8), "accesses of the trace must be at least 1, got 0"),
    (lambda: lru_hit_rates([0, 8], 8), "trace must be whole and within 0..7, got 8"),
    (lambda: lru_hit_rates([0.5], 8), "trace must be whole and within 0..7, got 0.5"),
    (lambda: optimal_hit_rates([-1], 8), "trace must be whole and within 0..7, got -1"),
    (lambda: che_hit_rate([0, 0], 1), "sum of popularity must be above 0, got 0"),
    (lambda: che_hit_rate([1, 1], 3), r"cache_size must be within 0..2, got 3"),
    (lambda: che_hit_rate([9, 1, 1], 1, top_k=2), "share of an expert must be within 0..0.5"),
    (lambda: che_hit_rate([], 0), "experts in popularity must be at least 1"),
    (lambda: che_hit_rate([[1, 1]], 1), "dimensions of popularity must be within 1..1, got 2"),
    (lambda: reuse_hit_rate([1, 1], 1, 1.1), r"reuse must be within 0..1, got 1.1"),
    (lambda: reuse_from_repetition(0.5, 8, 5), r"top_k must be whole and within 1..4, got 5"),
    (lambda: sample_trace(np.random.default_rng(0), 5, 8, 2, reuse=[0.1]), "reuse must be one number"),
])
def test_bad_input_names_the_argument_and_its_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()
