from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lib import offload
from moe_lib.hardware import DEVICES, LINKS
from moe_lib.models import CATALOG
from moe_lib.offload import (
    che_hit_rate,
    expert_bytes,
    expert_slots,
    host_time,
    lru_hit_rates,
    missed_bytes,
    optimal_hit_rates,
    reuse_from_repetition,
    reuse_hit_rate,
    sample_trace,
    token_time,
    tokens_where_copying_wins,
    transfer_time,
)
from moe_lib.routing import experts_touched, zipf_inclusion
from moe_lib.steps import decode_step, resident_bytes

V3, MIXTRAL = CATALOG["deepseek-v3"], CATALOG["mixtral-8x7b"]
traces = st.integers(1, 12).flatmap(
    lambda E: st.tuples(st.just(E), st.lists(st.integers(0, E - 1), min_size=1, max_size=60)))
mixtures = st.sampled_from([model for model in CATALOG.values() if model.num_experts > 1])


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


# time of a token


@pytest.mark.parametrize(("weight_bytes", "milliseconds"), [(2, 352.32), (1, 176.16), (0.5, 88.08)])
def test_an_uncached_mixtral_token_at_the_nominal_rate_of_pcie_5(weight_bytes, milliseconds):
    assert 1e3 * token_time(MIXTRAL, 64e9, weight_bytes=weight_bytes) == pytest.approx(milliseconds, abs=0.005)


def test_the_famous_figure_is_one_8_bit_expert_over_all_layers():
    assert 32 * expert_bytes(MIXTRAL, 1) / 1e9 == pytest.approx(5.637, abs=5e-4)
    assert expert_bytes(MIXTRAL, 2) / 1e6 == pytest.approx(352.3, abs=0.05)
    assert missed_bytes(MIXTRAL, weight_bytes=1) == 2 * 32 * expert_bytes(MIXTRAL, 1)


@given(mixtures, st.integers(1, 10**5), st.floats(0, 1), st.floats(0, 1))
def test_a_step_misses_what_it_touches_less_the_hits(model, batch, hit_rate, weight_bytes):
    touched = experts_touched(model.num_experts, model.top_k, batch) * model.num_moe_layers
    missed = missed_bytes(model, batch=batch, weight_bytes=weight_bytes, hit_rate=hit_rate)
    assert missed == pytest.approx(touched * model.expert_params * weight_bytes * (1 - hit_rate))
    assert missed <= model.ledger()["routed_experts"] * weight_bytes * (1 + 1e-12)


def test_what_is_missed_and_what_is_always_read_make_up_the_step():
    step = decode_step(V3, [1, 64], weight_bytes=1)
    always = V3.always_active_params - V3.ledger()["embedding"]
    assert np.allclose(step.weight_bytes_read, always + missed_bytes(V3, batch=[1, 64], weight_bytes=1))


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.2))
def test_a_prefetch_is_bounded_by_nothing_hidden_and_all_hidden(hit_rate, recall, compute_time):
    case = {"weight_bytes": 1, "hit_rate": hit_rate, "compute_time": compute_time}
    slow, fast = (token_time(MIXTRAL, 64e9, **case, overlap=known) for known in (False, True))
    assert fast * (1 - 1e-9) <= token_time(MIXTRAL, 64e9, **case, overlap=recall) <= slow * (1 + 1e-9)
    assert fast == pytest.approx(max(compute_time, token_time(MIXTRAL, 64e9, weight_bytes=1, hit_rate=hit_rate)))


def test_wrong_guesses_can_cost_more_than_a_prefetch_saves():
    case = {"weight_bytes": 1, "compute_time": 5e-3}
    assert token_time(MIXTRAL, 64e9, **case, overlap=0.5, wasted=1) > token_time(MIXTRAL, 64e9, **case)
    copying = token_time(MIXTRAL, 64e9, weight_bytes=1)
    assert token_time(MIXTRAL, 64e9, **case, overlap=0.25, wasted=0.5) == pytest.approx((0.75 + 0.25 + 0.5) * copying)


def test_arguments_of_a_tokens_time_broadcast():
    grid = token_time(V3, [[31.5e9], [63e9]], weight_bytes=1, hit_rate=[0, 0.5, 1], overlap=True, compute_time=1e-3)
    assert grid.shape == (2, 3) and grid[0, 0] == pytest.approx(2 * grid[1, 0]) and (grid[:, 2] == 1e-3).all()


def test_the_published_socket_is_bound_by_its_memory():
    seconds = host_time(V3, 8 * LINKS["ddr5-4800-channel"].bytes_per_s, 1e15, weight_bytes=4.85 / 8)
    assert 1 / seconds == pytest.approx(24.8, abs=0.05)
    assert 1 / seconds > 8.73  # measured by KTransformers


@given(mixtures, st.integers(1, 4096), st.floats(1e11, 1e14))
def test_a_host_takes_its_memory_or_its_arithmetic_whichever_is_longer(model, batch, peak):
    reading = host_time(model, 3e11, 1e30, weight_bytes=1, batch=batch)
    arithmetic = host_time(model, 1e30, peak, weight_bytes=1, batch=batch)
    both = host_time(model, 3e11, peak, weight_bytes=1, batch=batch, compute_time=1)
    assert both == pytest.approx(1 + max(reading, arithmetic))
    assert reading == pytest.approx(token_time(model, 3e11, weight_bytes=1, batch=batch))


def test_what_the_card_holds_the_host_neither_reads_nor_computes():
    for memory, peak in ((3e11, 1e30), (1e30, 1e12)):
        none, half = (host_time(V3, memory, peak, weight_bytes=1, hit_rate=hits) for hits in (0, 0.5))
        assert half == pytest.approx(none / 2)


def test_the_arithmetic_of_a_huge_batch_does_not_overflow():
    assert host_time(V3, 1e30, 1e12, weight_bytes=1, batch=np.array([10**9]))[0] == pytest.approx(
        2e9 * 8 * V3.expert_params_all_layers / 1e12)


def test_copying_and_computing_take_equally_long_at_the_break_even():
    link, peak, w = 31.5e9, 2e12, 0.5
    tokens = tokens_where_copying_wins(link, peak, weight_bytes=w)
    assert transfer_time(expert_bytes(V3, w), link) == pytest.approx(2 * tokens * V3.expert_params / peak)


# what a card holds


@given(mixtures, st.sampled_from(list(DEVICES)), st.sampled_from([0.5, 1, 2]), st.integers(0, 10**5))
def test_slots_fill_a_card_or_hold_every_expert(model, slug, weight_bytes, context):
    usable = DEVICES[slug].usable_bytes
    settings = {"weight_bytes": weight_bytes, "context": context, "sequences": 1}
    slots, all_of_it = expert_slots(model, usable, **settings), resident_bytes(model, **settings)
    routed = model.ledger()["routed_experts"] * weight_bytes
    assert np.isnan(slots) == (all_of_it - routed > usable)
    if not np.isnan(slots):
        assert all_of_it - routed + slots / model.num_experts * routed == pytest.approx(min(usable, all_of_it))


def test_mixtral_in_four_bits_fits_a_24_gb_card_only_just():
    usable = DEVICES["rtx-4090"].usable_bytes
    slots = expert_slots(MIXTRAL, usable, weight_bytes=0.5, context=4096, sequences=1)
    assert 7 < slots < 8 and expert_slots(MIXTRAL, 24 * 2**30, weight_bytes=0.5, context=4096, sequences=1) == 8


def test_a_card_that_holds_just_the_rest_has_no_slot_and_a_byte_less_is_nan():
    rest = resident_bytes(MIXTRAL, weight_bytes=1) - MIXTRAL.ledger()["routed_experts"]
    slots = [expert_slots(MIXTRAL, usable, weight_bytes=1) for usable in (rest, rest - 1)]
    assert slots[0] == 0 and np.isnan(slots[1])


def test_a_dense_model_has_no_slots():
    with pytest.raises(ValueError, match="routed experts must be at least 1"):
        expert_slots(CATALOG["llama-3.1-8b"], 1e12)


# caches


@given(traces)
def test_one_pass_equals_a_plain_lru_at_every_size(case):
    num_experts, trace = case
    rates = lru_hit_rates(trace, num_experts)
    assert rates.tolist() == [0, *(plain_lru(trace, slots) for slots in range(1, num_experts + 1))]


@pytest.mark.parametrize(("num_experts", "cells"), [(256, 1 << 18), (256, 1 << 12), (300, 1 << 18), (7, 14), (1, 1)])
def test_cutting_the_trace_into_segments_changes_nothing(num_experts, cells, monkeypatch):
    monkeypatch.setattr(offload, "CELLS_PER_STEP", cells)
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
    (lambda: transfer_time(1, 0), "bandwidth must be above 0, got 0"),
    (lambda: token_time(V3, 64e9, hit_rate=1.5), r"hit_rate must be within 0..1, got 1.5"),
    (lambda: token_time(V3, 64e9, overlap=2), r"overlap must be within 0..1, got 2"),
    (lambda: token_time(V3, 64e9, wasted=-1), "wasted must be at least 0, got -1"),
    (lambda: lru_hit_rates([], 8), "accesses of the trace must be at least 1, got 0"),
    (lambda: lru_hit_rates([0, 8], 8), "trace must be whole and within 0..7, got 8"),
    (lambda: lru_hit_rates([0.5], 8), "trace must be whole and within 0..7, got 0.5"),
    (lambda: optimal_hit_rates([-1], 8), "trace must be whole and within 0..7, got -1"),
    (lambda: che_hit_rate([0, 0], 1), "sum of popularity must be above 0, got 0"),
    (lambda: che_hit_rate([1, 1], 3), r"cache_size must be within 0..2, got 3"),
    (lambda: che_hit_rate([9, 1, 1], 1, top_k=2), "share of an expert must be within 0..0.5"),
    (lambda: che_hit_rate([], 0), "experts in popularity must be at least 1"),
    (lambda: che_hit_rate([[1, 1]], 1), "dimensions of popularity must be within 1..1, got 2"),
    (lambda: token_time(V3, 64e9, overlap="1"), "overlap must be a number or an array of numbers, got '1'"),
    (lambda: token_time(V3, 64e9, overlap=None), "overlap must be a number or an array of numbers, got None"),
    *((lambda call=call: call("deepseek-v3", 1, 1), "model must be a MoEModel, got 'deepseek-v3'") for call in (
        lambda model, *_: token_time(model, 64e9), host_time, lambda model, *_: missed_bytes(model),
        lambda model, *_: expert_bytes(model), lambda model, *_: expert_slots(model, 1e12))),
    (lambda: reuse_hit_rate([1, 1], 1, 1.1), r"reuse must be within 0..1, got 1.1"),
    (lambda: reuse_from_repetition(0.5, 8, 5), r"top_k must be whole and within 1..4, got 5"),
    (lambda: sample_trace(np.random.default_rng(0), 5, 8, 2, reuse=[0.1]), "reuse must be one number"),
])
def test_bad_input_names_the_argument_and_its_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()
