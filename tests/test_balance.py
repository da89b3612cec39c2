from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lib.balance import (
    TWINS_COST,
    balance,
    balancedness,
    copies_of,
    gpu_loads,
    max_over_mean,
    rank_terms,
    rank_times,
    rank_work,
)
from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG
from moe_lib.roofline import ridge_point
from moe_lib.routing import coverage_of, sample_routing, zipf_inclusion
from moe_lib.steps import decode_step

V3, H200 = CATALOG["deepseek-v3"], DEVICES["h200"]
# Loads of two layers, and max/mean of the placements that DeepSeek's EPLB prints for them: README of
# github.com/deepseek-ai/EPLB, "Interface and Example" (MIT licence, Copyright (c) 2025 DeepSeek). Its global policy was
# run on the same loads with three groups.
EPLB_LOADS = [[90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
              [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27]]
EPLB_SLOTS = [[5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1], [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1]]
EPLB_HIERARCHICAL, EPLB_GLOBAL = (1.20813, 1.24221), (1.0726, 1.19031)


@st.composite
def cases(draw, most_gpus=8, most_experts=24):
    """(loads [L, E], GPUs, slots)."""
    num_gpus, experts = draw(st.integers(1, most_gpus)), draw(st.integers(1, most_experts))
    layers, spare = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    slots = num_gpus * (-(-experts // num_gpus) + spare)
    loads = st.lists(st.integers(1, 10**6), min_size=experts, max_size=experts)
    return np.array(draw(st.lists(loads, min_size=layers, max_size=layers))), num_gpus, slots


@st.composite
def placements(draw):
    """(weights [E], GPUs, expert of each slot): any placement that holds every expert."""
    num_gpus, each, experts = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 4))
    experts = min(experts, num_gpus * each)
    rest = st.lists(st.integers(0, experts - 1), min_size=num_gpus * each - experts, max_size=num_gpus * each - experts)
    held = draw(st.permutations([*range(experts), *draw(rest)]))
    return draw(st.lists(st.floats(0.01, 1), min_size=experts, max_size=experts)), num_gpus, held


def twins(held, num_gpus):
    """Replicas that share a GPU with another of the same expert."""
    return sum(len(gpu) - len(set(gpu)) for gpu in np.reshape(held, (num_gpus, -1)).tolist())


# published example


@pytest.mark.parametrize(("policy", "published"), [
    ({"num_nodes": 2, "num_groups": 4}, EPLB_HIERARCHICAL), ({"num_nodes": 2, "num_groups": 3}, EPLB_GLOBAL)])
def test_the_published_example_is_not_more_even(policy, published):
    ours = balance(EPLB_LOADS, 8, 16, **policy).max_over_mean
    assert (ours <= np.array(published) + 5e-6).all()


def test_the_published_placement_has_the_published_unevenness():
    assert max_over_mean(gpu_loads(EPLB_LOADS, EPLB_SLOTS, 8)) == pytest.approx(EPLB_HIERARCHICAL, abs=5e-6)
    replicas = copies_of(EPLB_SLOTS, 12)  # as the README prints them
    assert replicas.tolist() == [[1, 2, 1, 1, 2, 2, 1, 1, 1, 1, 2, 1], [1, 2, 1, 1, 1, 2, 2, 1, 2, 1, 1, 1]]


@pytest.mark.parametrize("exponent", [0.5, 1])
def test_288_slots_of_58_skewed_layers_are_even_to_half_a_percent(exponent):
    rng, inclusion = np.random.default_rng(0), zipf_inclusion(256, 8, exponent)
    placement = balance([rng.permutation(inclusion) for _ in range(58)], 32, 288)
    assert placement.max_over_mean.mean() <= 1.005
    assert (copies_of(placement.expert_of_slot, 256) >= 1).all()
    assert sum(twins(held, 32) for held in placement.expert_of_slot) == 0


def test_replicas_even_out_what_placement_alone_cannot():
    inclusion = zipf_inclusion(256, 8, 1)
    placed, replicated = (balance(inclusion, 32, slots) for slots in (256, 288))
    assert placed.lower_bound == pytest.approx(4)  # every token chooses the first expert: 1 / (8 / 32)
    assert 4 < placed.max_over_mean < 4.2 and replicated.max_over_mean < 1.001


# properties


@given(cases())
def test_every_expert_has_a_slot_and_the_bound_holds(case):
    loads, num_gpus, slots = case
    placement = balance(*case)
    copies = copies_of(placement.expert_of_slot, loads.shape[1])
    assert (copies >= 1).all() and (copies.sum(axis=1) == slots).all()
    assert (placement.lower_bound <= placement.max_over_mean * (1 + 1e-12)).all()
    assert (placement.max_over_mean == max_over_mean(gpu_loads(loads, placement.expert_of_slot, num_gpus))).all()


@given(cases())
def test_the_same_loads_always_give_the_same_placement_in_any_unit(case):
    loads, num_gpus, slots = case
    first, scaled = balance(*case), balance(loads / 1024, num_gpus, slots)
    assert (first.expert_of_slot == balance(*case).expert_of_slot).all()
    assert (first.expert_of_slot == scaled.expert_of_slot).all()


@given(cases())
def test_layers_do_not_influence_each_other(case):
    loads, num_gpus, slots = case
    alone = np.concatenate([balance(layer, num_gpus, slots).expert_of_slot for layer in loads])
    assert (balance(*case).expert_of_slot == alone).all()


@given(cases(most_experts=12))
def test_no_swap_with_the_fullest_gpu_helps_further(case):
    loads, num_gpus, slots = case
    held = balance(loads[0], num_gpus, slots).expert_of_slot[0]
    full = gpu_loads(loads[0], held, num_gpus)[0]
    top, each = full.argmax(), slots // num_gpus
    for mine, other in product(range(top * each, (top + 1) * each), range(slots)):
        swapped = held.copy()
        swapped[[mine, other]] = held[[other, mine]]
        after = gpu_loads(loads[0], swapped, num_gpus)[0][[top, other // each]].max()
        more = twins(swapped, num_gpus) > twins(held, num_gpus)
        assert after >= full[top] / (TWINS_COST if more else 1) * (1 - 1e-9)


@given(st.integers(2, 8), st.integers(2, 4), st.data())
def test_distinct_replicas_of_few_spare_slots_never_share_a_gpu(num_gpus, each, data):
    experts = num_gpus * each - num_gpus // 2  # half a spare slot a GPU
    loads = data.draw(st.lists(st.integers(900, 1000), min_size=experts, max_size=experts))
    assert twins(balance(loads, num_gpus, num_gpus * each).expert_of_slot, num_gpus) == 0


def test_swaps_do_not_bring_replicas_together():
    loads = np.random.default_rng(0).lognormal(sigma=0.5, size=(58, 64))
    placement = balance(loads, 4, 72)
    assert sum(twins(held, 4) for held in placement.expert_of_slot) == 0 and placement.max_over_mean.max() < 1.001


def test_replicas_share_a_gpu_where_there_are_more_of_them_than_gpus():
    held = balance([5, 1], 2, 6).expert_of_slot
    assert copies_of(held, 2).max() > 2 and twins(held, 2) > 0


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.data())
def test_hierarchical_groups_stay_within_their_node(nodes, groups_each, size, data):
    groups, spare = nodes * groups_each, data.draw(st.integers(0, 2))
    experts = groups * size
    loads = data.draw(st.lists(st.integers(1, 1000), min_size=experts, max_size=experts))
    slots = nodes * 2 * (-(-experts // (2 * nodes)) + spare)
    held = balance(loads, 2 * nodes, slots, num_nodes=nodes, num_groups=groups).expert_of_slot.reshape(nodes, -1)
    of_node = [set(node // size) for node in held]
    assert all(len(kept) == groups_each for kept in of_node) and len(set.union(*of_node)) == groups


def test_groups_that_do_not_divide_over_the_nodes_mean_the_global_placement():
    hierarchical, plain = balance(EPLB_LOADS, 8, 16, num_nodes=2, num_groups=3), balance(EPLB_LOADS, 8, 16)
    assert (hierarchical.expert_of_slot == plain.expert_of_slot).all()


@pytest.mark.parametrize(("num_experts", "slots"), [(3, 4), (4, 4), (4, 6), (5, 6)])
def test_two_gpus_are_near_the_optimum_of_all_placements(num_experts, slots):
    rows = np.array([row for row in product(range(num_experts), repeat=slots) if len(set(row)) == num_experts])
    gaps = []
    for loads in np.random.default_rng(2).exponential(size=(40, num_experts)):
        best = max_over_mean(gpu_loads(loads, rows, 2)).min()
        gaps.append(balance(loads, 2, slots).max_over_mean[0] / best)
    assert min(gaps) >= 1 - 1e-12 and np.mean(gaps) < 1.05 and max(gaps) < 1.2


@given(st.lists(st.integers(1, 1000), min_size=4, max_size=4))
def test_four_experts_on_two_gpus_are_placed_at_best(loads):
    pairs = [max(loads[0] + loads[other], sum(loads) - loads[0] - loads[other]) for other in (1, 2, 3)]
    assert balance(loads, 2, 4).max_over_mean[0] == pytest.approx(2 * min(pairs) / sum(loads))


@given(st.integers(1, 8), st.integers(1, 4))
def test_equal_loads_are_even_and_one_gpu_always_is(num_gpus, each):
    assert balance(np.ones(num_gpus * each), num_gpus, num_gpus * each).max_over_mean == 1
    assert balance(np.arange(1, each + 1), 1, each + 2).max_over_mean == 1


def test_experts_without_load_and_loads_of_all_sizes_are_placed():
    for loads in [0, 0, 0, 1], [1e300, 1, 1, 1], [5e-324, 1, 2, 3], [1e-300] * 4:
        placement = balance(loads, 2, 6)
        assert (copies_of(placement.expert_of_slot, 4) >= 1).all() and np.isfinite(placement.max_over_mean).all()


# loads and work


@given(placements())
def test_gpus_carry_all_the_load(case):
    loads, num_gpus, held = case
    carried = gpu_loads(loads, held, num_gpus)
    assert carried.shape == (1, num_gpus) and carried.sum() == pytest.approx(sum(loads))


def test_one_placement_serves_every_layer_and_layers_are_not_mixed():
    loads, held = np.array([[1, 2, 3, 4], [40, 30, 20, 10]]), [0, 1, 2, 3]
    assert gpu_loads(loads, held, 2).tolist() == [[3, 7], [70, 30]]
    assert gpu_loads(loads[0], [held, held[::-1]], 2).tolist() == [[3, 7], [7, 3]]
    work = rank_work(loads / loads.sum(axis=1, keepdims=True), held, 2, 10)
    assert work.tokens == pytest.approx(np.array([[3, 7], [7, 3]]))


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=20))
def test_balancedness_is_one_over_max_over_mean(loads):
    assert max_over_mean(loads) * balancedness(loads) == pytest.approx(1)
    assert 1 - 1e-12 <= max_over_mean(loads) <= len(loads) * (1 + 1e-12)


@pytest.mark.parametrize("exponent", [0, 1])
def test_work_of_one_gpu_is_coverage_and_every_choice(exponent):
    inclusion = zipf_inclusion(64, 8, exponent)
    work = rank_work(inclusion, range(64), 1, 32)
    assert work.experts_touched == pytest.approx(64 * coverage_of(inclusion, 32))
    assert work.tokens == pytest.approx(8 * 32)


def test_work_is_that_of_a_simulated_router_which_picks_replicas_by_chance():
    rng, inclusion = np.random.default_rng(3), zipf_inclusion(16, 2, 1)
    held = balance(inclusion, 4, 20).expert_of_slot[0]
    copies, slots = copies_of(held, 16)[0], np.argsort(held, kind="stable")  # slots of expert 0, then those of 1 ...
    chosen = sample_routing(rng, 4000 * 8, 16, 2, inclusion=inclusion)
    at = (np.cumsum(copies) - copies)[chosen] + rng.integers(copies[chosen])
    batches = np.stack([np.bincount(batch, minlength=20) for batch in slots[at].reshape(4000, -1)])
    work = rank_work(inclusion, held, 4, 8)
    assert work.tokens == pytest.approx(batches.reshape(4000, 4, -1).sum(axis=2).mean(axis=0), rel=0.02)
    assert work.experts_touched == pytest.approx((batches > 0).reshape(4000, 4, -1).sum(axis=2).mean(axis=0), rel=0.02)


def test_a_replica_spreads_tokens_and_adds_reads():
    inclusion = zipf_inclusion(256, 8, 1)
    one, two = (rank_work(inclusion, balance(inclusion, 32, slots).expert_of_slot[0], 32, 64) for slots in (256, 288))
    assert two.tokens.max() < one.tokens.max() and two.experts_touched.sum() > one.experts_touched.sum()


@pytest.mark.parametrize("batch", [8, 256, 1 << 17])
def test_even_gpus_take_the_time_of_the_routed_experts_of_a_step(batch):
    work = rank_work(np.full(256, 8 / 256), range(256), 8, batch)
    routed = {"routed_experts": 1, "default": 0}
    read = decode_step(V3, batch, weight_bytes=routed).weight_bytes_read / 58 / 8 / H200.bandwidth_bytes_per_s
    computed = 2 * batch * 8 / 8 * V3.expert_params / H200.peak("fp8")
    assert rank_times(V3, work, H200, "fp8", weight_bytes=1) == pytest.approx(np.full(8, max(read, computed)))


@pytest.mark.parametrize("batch", [8, 1024, 8192, 1 << 17])
def test_reading_binds_a_gpu_whose_slots_have_fewer_tokens_than_half_the_ridge(batch):
    work = rank_work(zipf_inclusion(256, 8, 1), range(256), 32, batch)
    reading, computing = rank_terms(V3, work, H200, "fp8", weight_bytes=1)
    few = work.tokens / work.experts_touched < ridge_point(H200, "fp8") / 2
    assert np.array_equal(reading > computing, few)
    assert np.array_equal(rank_times(V3, work, H200, "fp8", weight_bytes=1), np.where(few, reading, computing))


def test_while_reading_binds_uneven_tokens_cost_less_than_max_over_mean():
    inclusion = zipf_inclusion(256, 8, 1)
    work = rank_work(inclusion, range(256), 32, 64)
    times = rank_times(V3, work, H200, "fp8", weight_bytes=1)
    assert max_over_mean(times) < max_over_mean(work.tokens) / 3


@settings(max_examples=30)
@given(placements(), st.integers(0, 64))
def test_no_gpu_touches_more_slots_than_it_has_or_tokens_bring(case, batch):
    weights, num_gpus, held = case
    inclusion = np.array(weights) / sum(weights)
    work = rank_work(inclusion, held, num_gpus, batch)
    assert (work.experts_touched <= np.minimum(len(held) / num_gpus, work.tokens) + 1e-9).all()


@pytest.mark.parametrize(("call", "message"), [
    (lambda: balance([1, -1], 2, 2), "loads must be at least 0, got -1"),
    (lambda: balance([[0, 0], [1, 2]], 2, 2), "loads of a layer must be at least"),
    (lambda: balance([[[1, 2]]], 2, 2), "loads must be one list, or one a layer"),
    (lambda: balance(np.ones((0, 4)), 2, 4), "loads must be one list, or one a layer"),
    (lambda: balance([1, 2], 0, 2), "num_gpus must be whole and at least 1, got 0"),
    (lambda: balance([1, 2, 3], 2, 2), "num_slots must be at least num_experts = 3"),
    (lambda: balance([1, 2, 3], 2, 5), "num_slots must be .* a multiple of num_gpus"),
    (lambda: balance([1, 2, 3, 4], 2, 4, num_nodes=3), "num_nodes must divide num_gpus"),
    (lambda: balance([1, 2, 3, 4], 2, 4, num_groups=3), "num_groups num_experts"),
    (lambda: gpu_loads([1, 2], [0, 0], 2), "copies of an expert must be at least 1, got 0"),
    (lambda: gpu_loads([1, 2], [0, 2], 2), r"expert_of_slot must be whole and within 0..1, got 2"),
    (lambda: gpu_loads([1, 2], [0, 1, 1], 2), "num_gpus must divide"),
    (lambda: gpu_loads([[1, 2]] * 3, [[0, 1]] * 2, 2), "expert_of_slot must have as many layers as the loads, 3"),
    (lambda: copies_of([0, 1], 0), "num_experts must be whole and at least 1, got 0"),
    (lambda: copies_of([], 2), "expert_of_slot must be one list, or one a layer"),
    (lambda: max_over_mean([]), "number of loads must be at least 1, got 0"),
    (lambda: rank_work([1, 1], [0, 1], 2, -1), "batch must be at least 0, got -1"),
    (lambda: rank_work([0.7, 0.7], [0, 1], 2, 1), "inclusion"),
])
def test_bad_input_names_the_argument_and_its_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()
