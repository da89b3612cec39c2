import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moe_lib.models import CATALOG
from moe_lib.records import inclusion, router_loads
from moe_lib.routing import (
    agreeing_inclusion,
    batch_for_coverage,
    batch_for_tokens_per_expert,
    busiest_load,
    coverage,
    coverage_of,
    dropped_share,
    experts_touched,
    experts_touched_std,
    independent_tokens,
    least_experts_touched,
    most_experts_touched,
    sample_routing,
    tile_rows,
    tokens_per_expert,
    tokens_per_touched_expert,
    top_k_of,
    zipf_inclusion,
)
from moe_lib.steps import decode_step

routers = st.integers(1, 512).flatmap(lambda E: st.tuples(st.just(E), st.integers(1, E)))
batches = st.integers(0, 100_000)
weights = st.lists(st.floats(0.01, 1), min_size=2, max_size=40)


def experts_of(choices, num_experts, batch):
    """Tokens of every expert [trials, E] of consecutive steps of `batch` tokens."""
    steps = choices.reshape(-1, batch * choices.shape[1])
    return np.stack([np.bincount(step, minlength=num_experts) for step in steps])


# coverage and its relatives


@given(routers)
def test_one_token_touches_exactly_k_experts(router):
    assert experts_touched(*router, 1) == pytest.approx(router[1])
    assert experts_touched_std(*router, 1) == pytest.approx(0, abs=1e-3)


@given(routers)
def test_an_empty_step_touches_nothing(router):
    assert coverage(*router, 0) == 0 and experts_touched_std(*router, 0) == 0 and busiest_load(*router, 0) == 0
    assert np.isnan(tokens_per_touched_expert(*router, 0))


@given(routers, batches, batches)
def test_coverage_is_a_share_that_never_falls(router, fewer, more):
    fewer, more = sorted([fewer, fewer + more])
    assert 0 <= coverage(*router, fewer) <= coverage(*router, more) <= 1


@given(routers, st.integers(1, 20), st.integers(0, 2**32))
def test_every_step_touches_between_the_least_and_the_most(router, batch, seed):
    choices = sample_routing(np.random.default_rng(seed), batch, *router)
    assert least_experts_touched(*router, batch) <= np.unique(choices).size <= most_experts_touched(*router, batch)
    agreeing = np.repeat(choices[:1], batch, axis=0)
    assert np.unique(agreeing).size == least_experts_touched(*router, batch)


def test_tokens_that_agree_read_what_one_token_reads_and_compute_as_many_as_any():
    one, uniform = (decode_step(CATALOG["deepseek-v3"], batch) for batch in (1, 64))
    agreeing = decode_step(CATALOG["deepseek-v3"], 64, inclusion=agreeing_inclusion(256, 8))
    assert agreeing.experts_touched == least_experts_touched(256, 8, 64) == 8
    assert agreeing.weight_bytes_read == pytest.approx(one.weight_bytes_read) and agreeing.flops == uniform.flops


def test_the_step_of_a_uniform_router_takes_longer_than_that_of_a_skewed_one():
    inclusions = (agreeing_inclusion(256, 8), zipf_inclusion(256, 8, 1), np.full(256, 8 / 256))
    least, skewed, uniform = (decode_step(CATALOG["deepseek-v3"], 64, inclusion=of).bytes_read for of in inclusions)
    assert least < skewed < uniform == pytest.approx(decode_step(CATALOG["deepseek-v3"], 64).bytes_read)


@given(routers, batches)
def test_a_step_touches_no_more_experts_than_choices_or_experts(router, batch):
    num_experts, top_k = router
    assert experts_touched(*router, batch) <= min(num_experts, batch * top_k) * (1 + 1e-12)


def test_a_huge_batch_touches_every_expert():
    assert coverage(256, 8, 10**9) == 1 and experts_touched_std(256, 8, 10**9) == 0
    assert tokens_per_touched_expert(256, 8, 10**9) == tokens_per_expert(256, 8, 10**9) == 31_250_000


@given(st.integers(1, 512), st.integers(1, 100_000))
def test_taking_all_experts_is_certain(num_experts, batch):
    router = num_experts, num_experts
    assert coverage(*router, batch) == 1 and experts_touched_std(*router, batch) == 0
    assert busiest_load(*router, batch) == tokens_per_touched_expert(*router, batch) == batch


def test_95_percent_of_the_experts_need_95_tokens_of_v3_and_11_of_mixtral():
    assert batch_for_coverage(0.95, 256, 8) == pytest.approx(94.358, abs=5e-4)
    assert np.ceil(batch_for_coverage(0.95, [256, 8], [8, 2])).tolist() == [95, 11]
    assert np.ceil(batch_for_coverage(0.99, 256, 8)) == 146


@given(routers.filter(lambda router: router[1] < router[0]), st.floats(0, 0.999))
def test_batch_for_coverage_inverts_coverage(router, share):
    assert coverage(*router, batch_for_coverage(share, *router)) == pytest.approx(share, abs=1e-9)


def test_all_experts_are_reached_in_the_limit_only_or_at_once():
    assert batch_for_coverage(1, 256, 8) == np.inf
    assert batch_for_coverage([0, 0.5, 1], 8, 8).tolist() == [0, 1, 1]


def test_64_tokens_give_two_an_expert_and_256_an_expert_need_8192():
    assert tokens_per_expert(256, 8, 64) == 2.0
    assert batch_for_tokens_per_expert(256, 256, 8) == 8192


@given(routers, st.integers(1, 100_000))
def test_the_mean_over_touched_experts_is_the_mean_over_all_divided_by_coverage(router, batch):
    both = tokens_per_expert(*router, batch) / coverage(*router, batch)
    assert tokens_per_touched_expert(*router, batch) == pytest.approx(both)


@given(routers, st.integers(1, 5000))
def test_the_busiest_expert_holds_at_least_the_mean_and_at_most_every_token(router, batch):
    assert np.ceil(tokens_per_expert(*router, batch)) <= busiest_load(*router, batch) <= batch


def test_two_tokens_of_one_expert_each_seldom_meet_among_many():
    assert busiest_load(512, 1, 2) == pytest.approx(1 + 1 / 512, rel=0.002)  # two with chance 1/512, else one


# spread and maximum against simulation


@pytest.mark.parametrize("num_experts, top_k, batch", [(8, 2, 3), (64, 8, 12), (256, 8, 64), (16, 1, 20)])
def test_simulated_steps_touch_as_many_experts_as_the_formulas_say(num_experts, top_k, batch):
    choices = sample_routing(np.random.default_rng(1), 3000 * batch, num_experts, top_k)
    touched = (experts_of(choices, num_experts, batch) > 0).sum(axis=1)
    std = experts_touched_std(num_experts, top_k, batch)
    assert touched.mean() == pytest.approx(experts_touched(num_experts, top_k, batch), abs=4 * std / 3000**0.5)
    assert touched.std() == pytest.approx(std, rel=0.05)  # 4 standard errors of a standard deviation over 3,000 steps


@pytest.mark.parametrize("num_experts, top_k, batch", [(8, 2, 16), (8, 2, 64), (64, 8, 64), (16, 1, 64), (256, 8, 256)])
def test_the_simulated_busiest_expert_agrees_from_16_tokens_on(num_experts, top_k, batch):
    choices = sample_routing(np.random.default_rng(2), 800 * batch, num_experts, top_k)
    busiest = experts_of(choices, num_experts, batch).max(axis=1).mean()
    # the formula is within 1.5 %, and the mean of 800 steps within 0.5 %
    assert busiest_load(num_experts, top_k, batch) == pytest.approx(busiest, rel=0.02)


def test_the_busiest_of_256_experts_at_8192_tokens_holds_46_more_than_the_mean():
    choices = sample_routing(np.random.default_rng(3), 40 * 8192, 256, 8)
    busiest = experts_of(choices, 256, 8192).max(axis=1).mean()
    assert busiest == pytest.approx(302, abs=3) and busiest_load(256, 8, 8192) == pytest.approx(302, abs=0.5)


def test_the_busiest_load_of_a_huge_batch_is_the_mean_and_2_83_standard_deviations():
    mean = 10**9 / 32  # the expected maximum of 256 independent normal numbers is 2.827
    spread = (mean * (1 - 1 / 32) * 256 / 255) ** 0.5
    assert (busiest_load(256, 8, 10**9) - mean) / spread == pytest.approx(2.827, abs=2e-3)


# tiles and capacity


@given(routers, st.integers(1, 2000))
def test_tiles_of_one_row_waste_nothing_and_tiles_of_the_whole_batch_pad_every_touched_expert(router, batch):
    assert tile_rows(*router, batch, 1) == pytest.approx(batch * router[1])
    assert tile_rows(*router, batch, batch) == pytest.approx(batch * experts_touched(*router, batch))


@given(routers, st.integers(1, 2000))
def test_no_capacity_drops_every_choice_and_room_for_the_batch_none(router, batch):
    assert dropped_share(*router, batch, 0) == pytest.approx(1)
    assert dropped_share(*router, batch, batch) == 0


@given(routers, st.integers(1, 2000), st.integers(1, 300))
def test_tiles_hold_every_row_and_less_than_one_more_tile_an_expert(router, batch, tile):
    (E, k), B = router, batch
    assert B * k * (1 - 1e-9) <= tile_rows(E, k, B, tile) <= B * k + E * (tile - 1) + 1e-6


@given(routers, st.integers(1, 2000), st.integers(0, 300))
def test_kept_and_dropped_choices_are_all_of_them(router, batch, capacity):
    (E, k), B = router, batch
    dropped = dropped_share(E, k, B, capacity)
    assert max(0, 1 - E * capacity / (B * k)) - 1e-9 <= dropped <= 1 + 1e-9


@pytest.mark.parametrize("E, k, B", [(256, 8, 64), (8, 2, 300), (64, 8, 1000)])
def test_simulated_routers_fill_tiles_and_overflow_capacities_as_computed(E, k, B):
    rng = np.random.default_rng(B)
    loads = np.array([np.bincount(sample_routing(rng, B, E, k).ravel(), minlength=E) for _ in range(400)])
    capacity = int(1.25 * B * k / E)
    over, tiles = np.maximum(loads - capacity, 0).sum(axis=1), (np.ceil(loads / 16) * 16).sum(axis=1)
    for simulated, computed in [(over / (B * k), dropped_share(E, k, B, capacity)), (tiles, tile_rows(E, k, B, 16))]:
        assert abs(simulated.mean() - computed) < 5 * simulated.std() / 20  # five standard errors of 400 layers


def test_a_batch_of_a_billion_overflows_as_if_every_load_were_the_mean():
    assert dropped_share(256, 8, 10**9, 10**7) == pytest.approx(1 - 10**7 / (10**9 * 8 / 256))
    assert tile_rows(256, 8, 10**9, 128) == pytest.approx(8 * 10**9 + 256 * 63.5)  # half a tile, less half a row, each


# consecutive tokens of a sequence


@given(routers, st.integers(1, 20), st.floats(0, 1))
def test_a_run_counts_as_no_more_than_its_tokens_and_no_fewer_than_one(router, run, copy):
    assert 1 <= independent_tokens(*router, run, copy) <= run
    assert independent_tokens(*router, run, 1) == independent_tokens(*router, 1, copy) == 1
    assert independent_tokens(*router, run, 0) == pytest.approx(1 if router[0] == router[1] else run)


def test_a_simulated_run_that_repeats_choices_touches_as_many_experts_as_its_independent_tokens():
    rng = np.random.default_rng(14)
    choices = sample_routing(rng, 20_000 * 4, 64, 6).reshape(20_000, 4, 6)
    for token in range(1, 4):
        repeats = rng.random(20_000) < 0.4
        choices[repeats, token] = choices[repeats, token - 1]
    touched = (experts_of(choices.reshape(-1, 6), 64, 4) > 0).mean()
    assert touched == pytest.approx(coverage(64, 6, independent_tokens(64, 6, 4, 0.4)), rel=0.005)


# experts that differ


@given(weights, st.data())
def test_skew_never_touches_more_than_uniform_routing(weights, data):
    top_k = data.draw(st.integers(1, len(weights) - 1))
    share = np.array(weights) / max(weights)
    skewed = top_k / len(share) * share  # scaled to sum to k, by mixing with uniform where there is room
    skewed += (1 - skewed) * (top_k - skewed.sum()) / (len(share) - skewed.sum())
    batch = data.draw(batches)
    assert coverage_of(skewed, batch) <= coverage(len(share), top_k, batch) + 1e-12


@given(routers, batches)
def test_equal_inclusion_is_uniform_routing(router, batch):
    num_experts, top_k = router
    equal = np.full(num_experts, top_k / num_experts)
    assert coverage_of(equal, batch) == pytest.approx(coverage(*router, batch), abs=1e-12)


def test_coverage_of_adds_the_axes_of_layers_and_batches():
    layers = np.stack([zipf_inclusion(16, 4, exponent) for exponent in (0, 0.5, 1)])
    table = coverage_of(layers, np.array([[0], [1], [50]]))
    assert table.shape == (3, 3)
    assert table[2, 1] == pytest.approx(coverage_of(layers[1], 50)) and np.ndim(coverage_of(layers[1], 50)) == 0
    assert table[0].tolist() == [0, 0, 0] and table[1] == pytest.approx(4 / 16)


@pytest.mark.parametrize("record", router_loads()[::4], ids=lambda r: f"{r.data['model']}-{r.data['layer']}")
def test_real_routers_touch_fewer_experts_than_uniform_ones(record):
    real, router = inclusion(record), (record.data["num_experts"], record.data["top_k"])
    touched, uniform = coverage_of(real, [1, 8, 64]), coverage(*router, [1, 8, 64])
    assert touched[0] == pytest.approx(uniform[0]) and (touched[1:] < uniform[1:]).all()


@given(routers, st.floats(0, 5000))
def test_zipf_inclusion_sums_to_k_falls_and_stays_below_one(router, exponent):
    skewed = zipf_inclusion(*router, exponent)
    assert skewed.sum() == pytest.approx(router[1]) and top_k_of(skewed) == router[1]
    assert skewed.min() >= 0 and skewed.max() <= 1 and (np.diff(skewed) <= 1e-12).all()


# sampled routers

SKEWED = zipf_inclusion(32, 4, 0.6)
GROUPED = np.tile(zipf_inclusion(8, 2, 0.7), 4) / 2  # four groups of eight, each with a quarter of the mass
UNEQUAL = np.repeat([0.2, 0.15, 0.1, 0.05], 8)  # groups that differ, sum 4
CASES = {
    "uniform": {}, "skewed": {"inclusion": SKEWED}, "grouped": {"group_limit": (4, 2)},
    "skewed and grouped": {"inclusion": GROUPED, "group_limit": (4, 2)},
    "unequal groups": {"inclusion": UNEQUAL, "group_limit": (4, 2)},
    "one group each": {"inclusion": GROUPED, "group_limit": (4, 4)},
}
routing_cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@routing_cases
def test_every_token_chooses_distinct_experts(case):
    choices = sample_routing(np.random.default_rng(4), 5000, 32, 4, **case)
    assert choices.shape == (5000, 4) and choices.dtype.kind == "i"
    assert choices.min() >= 0 and choices.max() < 32 and (np.diff(np.sort(choices)) > 0).all()


@routing_cases
def test_inclusion_is_met_in_expectation(case):
    wanted = case.get("inclusion", np.full(32, 4 / 32))
    counts = np.bincount(sample_routing(np.random.default_rng(5), 40_000, 32, 4, **case).ravel(), minlength=32)
    standard_error = np.sqrt(wanted * (1 - wanted) / 40_000)
    assert (np.abs(counts / 40_000 - wanted) < 4 * standard_error + 1e-12).all()


@routing_cases
def test_group_limits_and_skew_leave_the_coverage_formula_as_it_is(case):
    wanted = coverage_of(case.get("inclusion", np.full(32, 4 / 32)), 10)
    touched = experts_of(sample_routing(np.random.default_rng(6), 10 * 8000, 32, 4, **case), 32, 10) > 0
    standard_error = touched.mean(axis=1).std() / 8000**0.5
    assert abs(touched.mean() - wanted) < 4 * standard_error


@pytest.mark.parametrize("kept, options", [(2, {}), (2, {"inclusion": GROUPED}), (2, {"inclusion": UNEQUAL}), (1, {}),
                                           (4, {"inclusion": GROUPED})])
def test_no_token_reaches_more_groups_than_are_kept(kept, options):
    choices = sample_routing(np.random.default_rng(7), 3000, 32, 4, group_limit=(4, kept), **options)
    reached = 1 + (np.diff(np.sort(choices // 8)) > 0).sum(axis=1)
    assert reached.max() == kept


def test_neighbouring_experts_are_chosen_together_as_often_as_distant_ones():
    choices = sample_routing(np.random.default_rng(15), 40_000, 32, 4, inclusion=np.full(32, 4 / 32))
    member = np.zeros((40_000, 32))
    np.put_along_axis(member, choices, 1, axis=1)
    together = (member.T @ member / 40_000)[np.triu_indices(32, 1)]
    expected = 4 / 32 * 3 / 31  # where all pairs are alike; five standard errors of a share over 40,000 tokens
    assert np.abs(together - expected).max() < 5 * (expected / 40_000) ** 0.5


def test_the_same_seed_gives_the_same_choices_and_another_seed_others():
    draw = lambda seed: sample_routing(np.random.default_rng(seed), 100, 64, 8)  # noqa: E731
    assert (draw(8) == draw(8)).all() and (draw(8) != draw(9)).any()


def test_certain_experts_are_always_chosen_and_impossible_ones_never():
    inclusion = [1, 0, 0.5, 0.5, 1, 0]
    choices = sample_routing(np.random.default_rng(10), 2000, 6, 3, inclusion=inclusion)
    counts = np.bincount(choices.ravel(), minlength=6)
    assert counts[[0, 4]].tolist() == [2000, 2000] and counts[[1, 5]].tolist() == [0, 0]


def test_no_tokens_choose_nothing_and_blocks_join_up():
    assert sample_routing(np.random.default_rng(11), 0, 64, 8).shape == (0, 8)
    assert sample_routing(np.random.default_rng(11), 10_000, 512, 1).shape == (10_000, 1)  # more than one block


# arguments


@pytest.mark.parametrize("function", [coverage, experts_touched, experts_touched_std, tokens_per_expert,
                                      tokens_per_touched_expert, busiest_load])
def test_scalars_stay_scalars_arrays_broadcast_and_bad_arguments_are_named(function):
    assert np.ndim(function(256, 8, 64)) == 0
    table = function([[256], [8]], [[8], [2]], [1, 64, 128])
    assert table.shape == (2, 3) and table[1, 2] == function(8, 2, 128)
    for bad, message in [((0, 1, 1), "num_experts must be .* 1, got 0"), ((8, 2, -1), "batch .* 0, got -1"),
                         ((8, 9, 1), "top_k must be .* 1..8, got 9"), ((8, 0, 1), "top_k .* 1..8, got 0")]:
        with pytest.raises(ValueError, match=message):
            function(*bad)


@pytest.mark.parametrize("call, message", [
    (lambda: coverage_of([0.5, 0.6], 1), r"sum of inclusion must be within 0.999..1.001, got 1.1"),
    (lambda: coverage_of([1.5, 0.5], 1), r"inclusion must be within 0..1, got 1.5"),
    (lambda: coverage_of([[0.5, 0.5], [1, 1]], 1), r"sum of inclusion must be within"),
    (lambda: coverage_of([0.5, 0.5], -1), r"batch must be at least 0, got -1"),
    (lambda: batch_for_coverage(1.1, 8, 2), r"share must be within 0..1, got 1.1"),
    (lambda: batch_for_tokens_per_expert(-1, 8, 2), r"tokens must be at least 0, got -1"),
    (lambda: zipf_inclusion(8, 2, -1), r"exponent must be at least 0, got -1"),
    (lambda: zipf_inclusion([8, 4], 2, 1), r"num_experts must be one number, got \[8, 4\]"),
    (lambda: coverage(8, 2.5, 1), r"top_k must be whole and within 1..8, got 2.5"),
    (lambda: coverage(8, 2, np.inf), r"batch must be finite and at least 0, got inf"),
    (lambda: coverage_of("half", 1), r"inclusion must be a number or an array of numbers, got 'half'"),
    (lambda: busiest_load(8, 2, 2.5), r"batch must be whole and at least 0, got 2.5"),
    (lambda: independent_tokens(8, 2, 0, 0), r"run must be at least 1, got 0"),
    (lambda: independent_tokens(8, 2, 2, 1.5), r"copy must be within 0..1, got 1.5"),
    (lambda: tile_rows(8, 2, 4, 0), r"tile must be whole and at least 1, got 0"),
    (lambda: dropped_share(8, 2, 4, -1), r"capacity must be whole and at least 0, got -1"),
])
def test_errors_name_argument_value_and_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("arguments, options, message", [
    ((-1, 8, 2), {}, r"num_tokens must be whole and at least 0, got -1"),
    ((9.5, 8, 2), {}, r"num_tokens must be whole and at least 0, got 9.5"),
    ((9, 8, 9), {}, r"top_k must be whole and within 1..8, got 9"),
    ((9, 8, 2), {"inclusion": [0.5] * 4}, r"inclusion must have shape \(8,\), got \(4,\)"),
    ((9, 8, 2), {"inclusion": [0.5] * 8}, r"sum of inclusion must be within 2..2, got 4"),
    ((9, 8, 2), {"group_limit": 4}, r"group_limit must be \(num_groups, groups_kept\), got 4"),
    ((9, 8, 2), {"group_limit": (3, 1)}, r"group_limit \(3, 1\) does not fit 8 experts"),
    ((9, 8, 3), {"group_limit": (4, 1)}, r"group_limit \(4, 1\) does not fit 8 experts, 3 chosen"),
    ((9, 8, 2), {"group_limit": (4, 5)}, r"groups_kept of group_limit must be whole and within 1..4, got 5"),
    ((9, 8, 3), {"inclusion": [0.375] * 8, "group_limit": (4, 2)}, r"cannot be met with group_limit \(4, 2\)"),
    ((9, 4, 2), {"inclusion": [1, 0.9, 0.1, 0], "group_limit": (2, 1)}, r"no expert more than its group's probability"),
])
def test_a_router_that_cannot_be_says_why(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        sample_routing(np.random.default_rng(12), *arguments, **options)


def test_no_formula_warns_at_its_limits():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in (coverage, experts_touched_std, tokens_per_touched_expert, busiest_load):
            function([1, 8, 8, 256], [1, 8, 1, 8], [[0], [1], [65536]])
        batch_for_coverage([0, 1], [[8], [256]], 8)


def test_whole_chances_are_chances():
    for chances in [1, 1, 0, 0], np.array([1, 1, 0, 0], np.int32):
        chosen = sample_routing(np.random.default_rng(0), 5, 4, 2, inclusion=chances)
        assert np.sort(chosen, axis=1).tolist() == [[0, 1]] * 5
