import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lib.exchange import link_time
from moe_lib.hardware import DEVICES, LINKS
from moe_lib.layouts import Layout, layouts
from moe_lib.models import CATALOG, dense_twin, from_counts
from moe_lib.plan import (
    best_point,
    cost_per_million_tokens,
    cost_per_request,
    frontier,
    moe_or_dense,
    plan,
    pools,
    time_per_token,
    time_to_first_token,
)
from moe_lib.roofline import step_time
from moe_lib.steps import decode_step, prefill

V3, LLAMA, JAMBA = (CATALOG[slug] for slug in ("deepseek-v3", "llama-3.1-70b", "jamba"))
H200, NVLINK, NETWORK = DEVICES["h200"], LINKS["nvlink4"], LINKS["ib-ndr"]
PLATE = from_counts("plate", 671e9, 37e9, 256, 8)
models = st.sampled_from(list(CATALOG.values()))
DAY = 86400


def v3(num_gpus=8, **settings):
    return plan(V3, H200, num_gpus, **{"context": 4096, "weight_bytes": 1} | settings)


# layouts


def test_every_layout_has_a_row_and_the_best_legal_one_that_fits_comes_first():
    rows = plan(CATALOG["qwen3-235b-a22b"], H200, 8, context=8192, weight_bytes=1, weight_block=128)
    assert {row.layout for row in rows} == set(layouts(V3, 8))
    good = [row.tokens_per_s_per_gpu for row in rows if row.fits and not row.problems]
    assert good == sorted(good, reverse=True) and len(good) == 12
    assert [bool(row.problems) for row in rows] == [False] * 12 + [True] * 4


@settings(max_examples=40)
@given(models, st.sampled_from([1, 2, 4, 8]), st.integers(0, 50_000), st.floats(0.005, 0.1))
def test_the_batch_is_the_largest_that_fits_and_meets_the_target(model, num_gpus, context, tpot):
    for row in plan(model, H200, num_gpus, context=context, tpot=tpot):
        step = [time_per_token(model, row.batch + more, row.layout, H200, context=context) for more in (0, 1)]
        assert row.batch <= row.max_sequences and (row.batch == 0 or step[0] <= tpot)
        assert step[1] > tpot or row.batch + 1 > row.max_sequences or row.batch == 1 << 20


def test_the_rows_of_a_given_batch_follow_from_each_other():
    for row in v3(batch=64, price_per_hour=2, prompt=2000):
        assert row.tokens_per_s_per_user == pytest.approx(1 / row.tpot)
        assert row.tokens_per_s_per_gpu == pytest.approx(64 / row.tpot / 8)
        assert row.cost_per_million_tokens == pytest.approx(1e6 / row.tokens_per_s_per_gpu * 2 / 3600)
        copies = row.layout.attention_dp
        one_each = time_to_first_token(V3, 2000, row.layout, H200, sequences=copies, weight_bytes=1)
        assert row.prefill_tokens_per_s_per_gpu * 8 * one_each >= 2000 * copies * (1 - 1e-9)


def test_short_prompts_share_a_read_of_the_weights_so_that_a_cost_stays_a_floor():
    row = plan(V3, H200, 8, context=256, prompt=128, weight_bytes=1)[0]
    alone, many = (128 * count / time_to_first_token(V3, 128, row.layout, H200, sequences=count, weight_bytes=1) / 8
                   for count in (8, 512))
    assert row.prefill_tokens_per_s_per_gpu >= many > 4 * alone


@given(models, st.integers(1, 512), st.integers(0, 50_000))
def test_one_gpu_takes_the_time_of_the_step_and_of_the_prompt(model, batch, context):
    row, = plan(model, H200, 1, context=context, batch=batch, prompt=999, chunk=500, weight_bytes=2)
    step = decode_step(model, batch, context=context, weight_bytes=2)
    assert row.tpot == pytest.approx(step_time(step, H200).lower)
    chunks = prefill(model, 999, chunk=500, weight_bytes=2, all_logits=False)
    assert row.ttft == pytest.approx(step_time(chunks, H200).lower.sum())


@settings(max_examples=20)
@given(st.floats(0, 0.1), st.floats(0.1, 1), st.sampled_from([None, 1000]))
def test_an_overhead_is_paid_once_a_step_and_once_a_chunk(t0, efficiency, chunk):
    chunks = 1 if chunk is None else 5
    plain_rows, rows = (v3(batch=64, chunk=chunk, overhead=overhead) for overhead in ((0, 1), (t0, efficiency)))
    for plain, real in zip(plain_rows, rows, strict=True):
        assert real.layout == plain.layout and real.tpot == pytest.approx(t0 + plain.tpot / efficiency)
        assert real.ttft == pytest.approx(chunks * t0 + plain.ttft / efficiency)


def test_a_step_takes_its_exchanges_where_these_take_longer():
    slow, tpot = LINKS["eth-100g"], {row.layout: row.tpot for row in v3(batch=256)}
    linked = {row.layout: row.tpot for row in v3(batch=256, link=slow)}
    assert linked == {layout: max(tpot[layout], link_time(V3, 256, layout, slow)) for layout in tpot}
    assert linked != tpot


def test_a_node_must_hold_a_tensor_parallel_group_only_where_links_are_counted():
    illegal = {row.layout for row in v3(16, link=NVLINK, network=NETWORK) if row.problems}
    assert illegal == {layout for layout in layouts(V3, 16) if 16 in (layout.attention_tp, layout.expert_tp)}
    assert not any(row.problems for row in v3(16))
    assert not any(row.problems for row in v3(16, link=NVLINK, gpus_per_node=16))


def test_a_target_that_no_batch_meets_leaves_no_tokens_at_any_price():
    for row in v3(tpot=1e-6, price_per_hour=2, output=1):
        assert row.batch == 0 and row.tokens_per_s_per_gpu == 0
        assert row.cost_per_million_tokens == row.cost_per_request == np.inf
        assert row.tpot > 1e-6 and row.fits


def test_what_does_not_fit_is_last_and_says_so():
    rows = plan(V3, DEVICES["h100"], 8, context=8192, batch=64)
    assert not any(row.fits or row.max_sequences for row in rows)
    rows = plan(LLAMA, DEVICES["h100"], 4, context=8192, batch=8)
    assert [row.fits for row in rows] == [True, True, False]


def test_without_a_price_there_is_no_cost_and_for_nothing_it_is_nothing():
    assert all(np.isnan(row.cost_per_million_tokens) for row in v3(batch=8))
    assert all(row.cost_per_million_tokens == 0 for row in v3(batch=8, price_per_hour=0))


@pytest.mark.parametrize("model", [PLATE, dense_twin(V3), LLAMA, JAMBA], ids=lambda model: model.name)
@pytest.mark.parametrize("num_gpus", [1, 7, 8])
def test_models_of_every_kind_are_planned(model, num_gpus):
    for row in plan(model, H200, num_gpus, context=4096, batch=8, usable_bytes=5e12):
        assert row.fits and 0 < row.tpot < 1 and 0 < row.ttft < 10 and row.tokens_per_s_per_gpu > 0


def test_a_request_is_paid_for_its_prompt_and_its_answer():
    best = v3(context=8192, tpot=0.028, price_per_hour=2, output=1024)[0]
    gpu_seconds = 8192 / best.prefill_tokens_per_s_per_gpu + 1024 / best.tokens_per_s_per_gpu
    assert best.cost_per_request == pytest.approx(gpu_seconds * 2 / 3600)
    assert best.cost_per_million_tokens == pytest.approx(1e6 * best.cost_per_request / 1024)
    alone = v3(context=8192, tpot=0.028, price_per_hour=2)[0]
    assert (round(alone.cost_per_million_tokens, 2), round(best.cost_per_million_tokens, 2)) == (0.25, 0.45)
    assert np.isnan(alone.cost_per_request) and np.isnan(v3(output=1024)[0].cost_per_million_tokens)


@given(models, st.integers(1, 50_000), st.integers(1, 10_000), st.floats(0.01, 100))
def test_what_a_request_costs_lies_between_its_answer_and_all_tokens_at_the_dearer_rate(model, prompt, output, price):
    row, = plan(model, H200, 1, context=prompt, batch=8, output=output, price_per_hour=price)
    answer = output / row.tokens_per_s_per_gpu * price / 3600
    slowest = min(row.tokens_per_s_per_gpu, row.prefill_tokens_per_s_per_gpu)
    assert answer < row.cost_per_request <= (prompt + output) / slowest * price / 3600 * (1 + 1e-9)


def test_a_day_of_published_production_costs_as_much_as_the_two_rates_of_its_nodes_say():
    """608 and 168 billion tokens, 73,700 and 14,800 tokens/s of a node, 87,072 dollars: DeepSeek's overview."""
    assert cost_per_request(608e9, 168e9, 73_700 / 8, 14_800 / 8, 2) == pytest.approx(87_072, rel=0.001)


@pytest.mark.parametrize("ask, said", [
    ({}, []),
    ({"price_per_hour": 2}, ["cost of decoding 1e6 tokens"]),
    ({"price_per_hour": 2, "output": 9}, ["cost of a request", "cost of 1e6 output tokens with prompts"]),
])
def test_a_table_of_a_plan_says_what_a_cost_pays_for(ask, said):
    shown = v3(batch=8, **ask)._repr_html_()
    assert re.findall("<th>(cost[^<]*)</th>", shown) == said


@given(st.floats(0, 1), st.floats(0.1, 10))
def test_a_request_a_second_costs_what_its_two_pools_cost(cached, price):
    need = pools(V3, 1, 4096, 512, 4000, 1500, cached=cached)
    per_hour = (need.prefill_gpus + need.decode_gpus) * price
    assert cost_per_request(4096, 512, 4000, 1500, price, cached=cached) == pytest.approx(per_hour / 3600)


@settings(max_examples=40, deadline=None)
@given(models, st.sampled_from([1, 4, 8]), st.sampled_from([1024, 30000]), st.floats(1e-3, 0.2))
def test_the_best_point_of_the_frontier_is_the_first_row_of_the_plan(model, num_gpus, context, tpot):
    ask = {"context": context, "weight_bytes": 1, "weight_block": 128}
    point, first = best_point(frontier(model, H200, num_gpus, **ask), tpot), plan(
        model, H200, num_gpus, tpot=tpot, **ask)[0]
    if point is None:
        assert first.problems or not first.fits or not first.batch
    elif point.batch < 65536:
        assert (point.layout, point.batch) == (first.layout, first.batch)
        assert point.tokens_per_s_per_gpu == pytest.approx(first.tokens_per_s_per_gpu)


def test_a_line_has_a_legal_layout_where_there_is_one():
    lines = frontier(CATALOG["qwen3-235b-a22b"], H200, 8, context=1024, weight_bytes=1, weight_block=128)
    assert [line.layout.attention_tp for line in lines] == [8, 4, 2, 1]
    assert [str(line.layout) for line in lines if not line.problems] == ["TP8+EP8", "TP4xDP2+EP8", "TP2xDP4+EP8",
                                                                          "DP8+EP8"]
    assert all(np.all(np.diff(line.tpot) >= 0) and line.batch[0] == 1 for line in lines)


def test_a_smaller_target_never_brings_more_tokens():
    best = [v3(tpot=ms / 1e3)[0].tokens_per_s_per_gpu for ms in (12, 15, 20, 30, 50, 100)]
    assert best == sorted(best) and best[0] > 0


def test_a_million_tokens_of_a_published_node():
    assert cost_per_million_tokens(14800 / 8, 2) == pytest.approx(16 / (14800 * 3600) * 1e6)


# mixture or dense


@pytest.mark.parametrize(("context", "first", "last"), [(0, 3, 1987), (4096, 3, 569), (16384, 4, 140)])
def test_where_a_dense_70b_beats_v3_in_fp8_on_eight_h200(context, first, last):
    batch = np.arange(1, 5000)
    valley = moe_or_dense(V3, LLAMA, H200, 8, batch, context=context, weight_bytes=1)
    assert batch[valley.time_ratio > 1].tolist() == list(range(first, last + 1))
    assert valley.crossings.astype(int).tolist() == [first - 1, last]


def test_a_model_beside_itself_has_no_crossing():
    same = moe_or_dense(V3, V3, H200, 8, [1, 64, 4096])
    assert (same.time_ratio == 1).all() and same.crossings.size == 0


@given(models, models, st.integers(0, 20_000))
def test_times_are_equal_at_every_crossing(moe, dense, context):
    crossings = moe_or_dense(moe, dense, H200, 8, 1, context=context).crossings
    if crossings.size:
        ratio = moe_or_dense(moe, dense, H200, 8, crossings, context=context).time_ratio
        assert ratio == pytest.approx(np.ones_like(crossings), abs=1e-6)


# pools


@pytest.mark.parametrize(("tokens", "per_node", "nodes"), [(608e9, 73_700, 95.5), (168e9, 14_800, 131.4)])
def test_nodes_of_a_published_day(tokens, per_node, nodes):
    """Tokens a day and tokens/s of a node: DeepSeek-V3/R1 Inference System Overview, March 2025."""
    as_prompt = pools(V3, 1 / DAY, tokens, 0, per_node / 8, 1)
    as_output = pools(V3, 1 / DAY, 0, tokens, 1, per_node / 8)
    assert (as_prompt.prefill_gpus / 8, as_output.decode_gpus / 8) == pytest.approx((nodes, nodes), abs=0.05)


@given(st.floats(0, 100), st.integers(0, 10**5), st.integers(0, 10**4), st.floats(0, 1))
def test_cached_prompts_save_prefill_and_nothing_else(rate, prompt, output, cached):
    cold, warm = (pools(V3, rate, prompt, output, 4000, 1500, cached=share) for share in (0, cached))
    assert warm.prefill_gpus == pytest.approx(cold.prefill_gpus * (1 - cached))
    assert warm[1:] == cold[1:] and cold.kv_bytes_per_s == pytest.approx(rate * prompt * V3.kv_bytes_per_token())


def test_a_state_of_fixed_size_moves_with_every_request():
    moved = pools(JAMBA, 1, 0, 0, 1, 1).kv_bytes_per_s
    assert moved == JAMBA.state_bytes_per_sequence > 0


def test_huge_pools_do_not_overflow():
    need = pools(V3, 10**9, 10**9, 10**9, 1, 1)
    assert need.prefill_gpus == 1e18 and need.kv_bytes_per_s == pytest.approx(7.0272e22)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: v3(0), "num_gpus must be whole and at least 1, got 0"),
    (lambda: v3(context=-1), "context must be whole and at least 0, got -1"),
    (lambda: v3(context=[1, 2]), "context must be one number"),
    (lambda: v3(batch=0), "batch must be whole and at least 1, got 0"),
    (lambda: v3(usable_bytes=-1), "usable_bytes must be at least 0, got -1"),
    (lambda: v3(weight_bytes=-1), "weight_bytes must be at least 0, got -1"),
    (lambda: v3(kv_bytes=-1), "kv_bytes must be at least 0, got -1"),
    (lambda: v3(tpot=0), "tpot must be above 0, got 0"),
    (lambda: v3(price_per_hour=-1), "price_per_hour must be at least 0, got -1"),
    (lambda: v3(overhead=3), "overhead must be two numbers, t0 and efficiency, got 3"),
    (lambda: v3(overhead=(-1, 1)), "overhead must be at least 0, got -1"),
    (lambda: v3(overhead=(0, 0)), "efficiency of overhead must be above 0 and at most 1, got 0"),
    (lambda: v3(dtype="fp4"), "dtype must be one of bf16, fp8 on h200, got 'fp4'"),
    (lambda: v3(prompt=0), "prompt must be whole and at least 1, got 0"),
    (lambda: v3(output=0), "output must be whole and at least 1, got 0"),
    (lambda: v3(chunk=0), "chunk must be whole and at least 1, got 0"),
    (lambda: v3(weight_block=-1), "weight_block must be whole and at least 1, got -1"),
    (lambda: v3(link=NVLINK, gpus_per_node=0), "gpus_per_node must be whole and at least 1, got 0"),
    (lambda: v3(16, link=NVLINK), "network must be a Link"),
    (lambda: plan(PLATE, H200, 8, context=0, link=NVLINK), "d_model must be at least 1, got 0"),
    (lambda: plan(V3, DEVICES["m4-max"], 8, context=0), "no peak is published"),
    (lambda: time_per_token(V3, -1, Layout(), H200), "batch must be at least 0, got -1"),
    (lambda: time_to_first_token(V3, 0, Layout(), H200), "tokens must be whole and at least 1, got 0"),
    (lambda: cost_per_million_tokens(0, 2), "tokens_per_s must be above 0, got 0"),
    (lambda: cost_per_million_tokens(1, None), "price_per_hour must be a number"),
    (lambda: cost_per_request(1, 1, 1, 0, 2), "tokens_per_s_per_gpu must be above 0, got 0"),
    (lambda: cost_per_request(1, 1, 1, 1, -2), "price_per_hour must be at least 0, got -2"),
    (lambda: moe_or_dense(V3, LLAMA, H200, 0, 64), "num_gpus must be at least 1, got 0"),
    (lambda: moe_or_dense(V3, LLAMA, H200, 8, 0), "batch must be above 0, got 0"),
    (lambda: moe_or_dense(V3, LLAMA, H200, 8, 64, context=[1, 2]), "context must be one number"),
    (lambda: pools(V3, -1, 1, 1, 1, 1), "requests_per_s must be at least 0, got -1"),
    (lambda: pools(V3, 1, 1, 1, 0, 1), "prefill_tokens_per_s_per_gpu must be above 0, got 0"),
    (lambda: pools(V3, 1, 1, 1, 1, 0), "tokens_per_s_per_gpu must be above 0, got 0"),
    (lambda: pools(V3, 1, 1, 1, 1, 1, cached=1.5), r"cached must be within 0..1, got 1.5"),
])
def test_bad_input_names_the_argument_and_its_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_plan_that_no_layout_meets_says_so_in_place_of_a_best():
    for hasty in {"tpot": 1e-9}, {"tpot": 1e-6, "batch": 64}:
        found = plan("olmoe", "h200", 8, context=8192, **hasty)
        assert "too slow" in repr(found) and "too slow" in found._repr_html_()
    assert "too slow" not in repr(plan("olmoe", "h200", 8, context=8192))


def test_the_table_of_a_plan_states_whole_counts():
    found = plan("deepseek-v3", "h200", 64, context=1024)
    assert found[0].max_sequences > 9999 and f"<td>{found[0].max_sequences:,.0f}</td>" in found._repr_html_()


def test_a_network_without_a_link_is_refused():
    with pytest.raises(ValueError, match="network must come with a link"):
        plan(V3, H200, 16, context=8192, network="ib-ndr")
