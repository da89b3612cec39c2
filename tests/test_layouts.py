import dataclasses
import json
from importlib import resources

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moe_lib.hardware import DEVICES, LINKS
from moe_lib.layouts import (
    Layout,
    cache_share,
    layout_sequences,
    layouts,
    linear_placement,
    problems,
    rank_prefill,
    rank_resident_bytes,
    rank_step,
    round_robin_placement,
)
from moe_lib.models import CATALOG, from_config
from moe_lib.roofline import step_time
from moe_lib.steps import decode_step, prefill, resident_bytes, sequences_that_fit

V3, QWEN, LLAMA = (CATALOG[slug] for slug in ("deepseek-v3", "qwen3-235b-a22b", "llama-3.1-70b"))
H200, NVLINK, NETWORK = DEVICES["h200"], LINKS["nvlink4"], LINKS["ib-ndr"]
TP8, DP8 = Layout.parse("TP8"), Layout.parse("DP8+EP8")
V3_CONFIG = (resources.files("moe_lib") / "data" / "configs" / "deepseek-v3.json").read_text(encoding="utf-8")
models = st.sampled_from(list(CATALOG.values()))
spreads = st.tuples(models, st.integers(1, 16)).flatmap(
    lambda case: st.tuples(st.just(case[0]), st.sampled_from(layouts(*case))))


def decode_seconds(layout, batch, context=4096):
    return step_time(rank_step(V3, batch, layout, weight_bytes=1, context=context), H200, "fp8").lower


# what a GPU holds


def test_sequences_that_fit_v3_on_eight_h200():
    A, e, one = V3.always_active_params, V3.expert_params_all_layers, 8192 * 70272
    copied = 61 * 7168 * (1536 + 576) + 58 * 7168 * 256 + 61 * (2 * 7168 + 1536 + 512) + 7168  # down, routers, norms
    held = [copied + (A - copied) / 8 + 32 * e, A + 32 * e]
    for usable, most in (H200.usable_bytes, [88, 504]), (126.9e9, [73, 384]):  # the second reads the label as 141e9
        fit = [layout_sequences(V3, layout, usable, weight_bytes=1, context=8192) for layout in (TP8, DP8)]
        assert fit == [(usable - held[0]) // one, 8 * ((usable - held[1]) // one)] == most


def test_what_servers_copy_is_on_every_gpu_of_a_tensor_parallel_group():
    first, each = (rank_step(V3, 1, Layout.parse(name), weight_bytes=1).bytes_read for name in ("1 GPU", "TP8"))
    copied = 61 * 7168 * (1536 + 576) + 58 * 7168 * 256 + 61 * (2 * 7168 + 1536 + 512) + 7168
    assert 8 * each == pytest.approx(first + 7 * copied)
    assert 1e3 * each / H200.bandwidth_bytes_per_s == pytest.approx(1.14, abs=0.005)  # 0.95 if all were divided
    full = from_config(json.loads(V3_CONFIG) | {"q_lora_rank": None})  # queries of full rank: divided by heads
    assert dict(full.copied)["attention"] == 61 * 7168 * 576


@given(models)
def test_what_is_copied_is_part_of_a_part_and_of_no_expert(model):
    parts = model.ledger()
    assert all(0 <= count <= parts[part] for part, count in model.copied) and "routed_experts" not in dict(model.copied)
    assert {**parts, **dict(model.copied)}["router"] == parts["router"]


@given(spreads, st.integers(0, 10**5), st.integers(0, 500))
def test_all_gpus_together_hold_at_least_the_model_and_its_caches(case, context, sequences):
    (model, layout), settings = case, {"context": context, "sequences": sequences, "weight_bytes": 1}
    held = layout.num_gpus * rank_resident_bytes(model, layout, **settings)
    assert held >= resident_bytes(model, **settings) * (1 - 1e-12)


@given(spreads, st.integers(1, 10**5))
def test_one_sequence_more_than_fits_does_not(case, context):
    model, layout = case
    usable = rank_resident_bytes(model, layout, context=context, sequences=3.5 * layout.attention_dp)
    most = layout_sequences(model, layout, usable, context=context)
    assert most >= 3 * layout.attention_dp and np.isfinite(most)
    held = rank_resident_bytes(model, layout, context=context, sequences=[most, most + 1])
    assert held[0] <= usable * (1 + 1e-12) and held[1] > usable * (1 - 1e-12)


@given(models, st.integers(1, 10**5), st.floats(1e9, 3e12))
def test_one_gpu_holds_and_reads_the_whole_model(model, context, usable):
    assert rank_resident_bytes(model, Layout(), context=context, sequences=7) == pytest.approx(
        resident_bytes(model, context=context, sequences=7))
    assert layout_sequences(model, Layout(), usable, context=context) == pytest.approx(
        sequences_that_fit(model, usable, context=context), abs=1)
    whole, here = decode_step(model, 32, context=context), rank_step(model, 32, Layout(), context=context)
    assert here.bytes_read == pytest.approx(whole.bytes_read) and here.flops == pytest.approx(whole.flops)


def test_no_more_sequences_than_heads_that_can_be_split_are_worth_it():
    shares = [cache_share(QWEN, Layout(attention_tp=size, expert_tp=size)) for size in (1, 2, 4, 8)]
    assert shares == [1, 1 / 2, 1 / 4, 1 / 4]  # four key-value heads
    assert [cache_share(V3, Layout(attention_tp=size, expert_tp=size)) for size in (1, 8)] == [1, 1]  # one latent entry


@pytest.mark.parametrize(("layout", "legal"), [(TP8, False), (Layout.parse("TP4xDP2+TP4xEP2"), True), (DP8, True)])
def test_blocks_of_scales_forbid_eight_parts_of_qwen3_and_not_four(layout, legal):
    assert (problems(QWEN, layout, weight_block=128) == []) == legal
    assert problems(QWEN, layout) == []


def test_a_whole_expert_needs_no_whole_blocks():
    model = CATALOG["gpt-oss-120b"]  # experts 2,880 wide, 22.5 blocks
    assert problems(model, DP8, weight_block=128) == [] != problems(model, TP8, weight_block=128)


@pytest.mark.parametrize(("model", "layout", "nodes", "reason"), [
    (V3, Layout.parse("TP3"), None, "attention: 128 heads do not divide over 3 GPUs"),
    (QWEN, Layout.parse("TP16"), 8, "links: groups of 16 GPUs do not fill a node of 8"),
    (V3, Layout.parse("DP6+EP6"), None, "experts: 256 do not divide over 6 groups"),
    (V3, Layout.parse("DP3+TP3"), None, "experts: a width of 2,048 does not divide over 3 GPUs"),
    (LLAMA, DP8, None, "experts: a dense model has none to spread"),
    (CATALOG["gpt-oss-120b"], Layout.parse("TP16"), None, None),  # 8 key-value heads, each copied to two GPUs
    (CATALOG["llama-4-scout"], Layout.parse("TP5"), None, "cache: 8 key-value heads can neither be divided over nor"),
])
def test_an_illegal_layout_says_why(model, layout, nodes, reason):
    found = problems(model, layout, gpus_per_node=nodes)
    assert any(text.startswith(reason) for text in found) if reason else found == []


@given(models, st.integers(1, 96))
def test_layouts_differ_and_use_every_gpu(model, num_gpus):
    found = layouts(model, num_gpus)
    assert len(set(found)) == len(set(map(str, found))) == len(found)
    assert {layout.num_gpus for layout in found} == {num_gpus}


# what a GPU reads


def test_step_times_of_v3_at_4096_tokens():
    assert [1e3 * decode_seconds(layout, 256) for layout in (TP8, DP8)] == pytest.approx([33.0, 22.3], abs=0.05)


def test_copies_of_the_attention_are_faster_from_53_sequences():
    batch = np.arange(1, 4096)
    assert (decode_seconds(DP8, batch) < decode_seconds(TP8, batch)).tolist() == (batch >= 53).tolist()


@given(spreads, st.integers(1, 4096))
def test_routed_bytes_of_all_gpus_are_those_of_the_step(case, batch):
    model, layout = case
    only_routed = {"routed_experts": 1, "default": 0}
    here, whole = (step(model, batch, *of, weight_bytes=only_routed) for step, of in (
        (rank_step, [layout]), (decode_step, [])))
    assert layout.num_gpus * here.weight_bytes_read == pytest.approx(whole.weight_bytes_read)
    again = 2 * batch * (layout.attention_tp - 1) * sum(count for _, count in model.copied)
    assert layout.num_gpus * here.flops == pytest.approx(whole.flops + again)


@given(models, st.integers(1, 4096), st.integers(0, 10**5))
def test_tensor_parallelism_splits_all_but_what_is_copied_and_a_cache_of_few_heads(model, batch, context):
    bare = dataclasses.replace(model, copied=())
    whole, here = decode_step(model, batch, context=context), rank_step(bare, batch, TP8, context=context)
    assert 8 * here.weight_bytes_read == pytest.approx(whole.weight_bytes_read)
    state = whole.state_bytes_written
    cache = (whole.kv_bytes_read - state) / min(8, max(model.num_kv_heads, 1))
    assert here.kv_bytes_read == pytest.approx(cache + state / 8)


@given(spreads, st.integers(1, 5000), st.integers(1, 40))
def test_prompts_that_fill_every_copy_compute_the_whole_prefill(case, tokens, each):
    (model, layout), sequences = case, each * case[1].attention_dp
    whole = prefill(model, tokens, sequences=sequences, chunk=2048)
    here = rank_prefill(model, tokens, layout, sequences=sequences, chunk=2048)
    again = 2 * whole.batch * (layout.attention_tp - 1) * sum(count for _, count in model.copied)
    assert np.allclose(layout.num_gpus * here.flops, whole.flops + again)
    assert np.allclose(here.kv_bytes_written * layout.attention_dp, whole.kv_bytes_written * cache_share(*case))


def test_one_prompt_keeps_one_copy_of_the_attention_busy():
    one, eight = (rank_prefill(V3, 4096, DP8, sequences=sequences) for sequences in (1, 8))
    routed = 2 * V3.top_k * V3.expert_params_all_layers * 4096 / 8
    assert one.flops - routed == pytest.approx(eight.flops - 8 * routed)


@pytest.mark.parametrize(("batch", "ratio"), [(64, 1.48), (256, 1.97)])
def test_half_batches_read_nearly_all_experts_twice(batch, ratio):
    half, whole = decode_step(V3, [batch / 2, batch], weight_bytes=1).weight_bytes_read
    assert 2 * half / whole == pytest.approx(ratio, abs=0.005)


@given(st.integers(1, 32), st.integers(1, 16))
def test_placements_deal_the_same_number_to_every_gpu(each, num_gpus):
    for place in linear_placement, round_robin_placement:
        assert np.bincount(place(each * num_gpus, num_gpus)).tolist() == [each] * num_gpus


# names of layouts


@given(spreads)
def test_the_name_of_a_layout_is_read_back(case):
    assert Layout.parse(str(case[1])) == case[1]


def test_names_are_read_in_either_case_and_with_spaces():
    assert Layout.parse("dp8 + ep8") == DP8 and Layout.parse("1 gpu") == Layout()


@pytest.mark.parametrize(("text", "problem"), [
    ("DP8", r"leaves open where the experts go: say DP8\+EP8 .* or DP8\+TP8"), ("EP8", "must read like TP8"),
    ("TP8+DP8", "must read like"), ("TP2xTP4", "must read like"), ("TP0", "must read like"), ("", "must read like"),
    (8, "must read like"), ("TP8+EP4", "8 x 1 and 1 x 4"),
])
def test_what_is_no_layout_is_refused(text, problem):
    with pytest.raises(ValueError, match=problem):
        Layout.parse(text)


@pytest.mark.parametrize(("sizes", "problem"), [
    ({"attention_tp": 0}, "attention_tp must be whole and at least 1, got 0"),
    ({"attention_tp": 2, "attention_dp": 2, "expert_tp": 2}, "must equal expert_tp x expert_parallel, got 2 x 2"),
])
def test_sizes_of_a_layout_are_whole_and_take_the_same_gpus(sizes, problem):
    with pytest.raises(ValueError, match=problem):
        Layout(**sizes)


def test_a_layout_takes_its_sizes_by_name_only():
    with pytest.raises(TypeError):
        Layout(8, 1, 8)


def test_the_state_of_a_hybrid_is_divided_over_its_group_where_its_few_heads_are_copied():
    hybrid, tp8 = CATALOG["qwen3.6-35b-a3b"], Layout.parse("TP8")  # two key-value heads, 32 of the state
    whole, here = (of(hybrid, 64, *with_, context=4096) for of, with_ in ((decode_step, ()), (rank_step, (tp8,))))
    state, cached = whole.state_bytes_written, 64 * hybrid.kv_bytes_read(4096)
    assert here.state_bytes_written == state / 8 and here.kv_bytes_read == cached / 2 + state / 8
    held = [rank_resident_bytes(hybrid, tp8, context=4096, sequences=count) for count in (0, 64)]
    assert np.diff(held) == pytest.approx(here.kv_bytes_read)


def test_a_window_lies_whole_on_every_gpu_that_shares_its_one_head():
    v4 = CATALOG["deepseek-v4-flash"]
    held = np.diff([rank_resident_bytes(v4, TP8, context=8192, sequences=count) for count in (0, 1)])
    assert held == pytest.approx(v4.kv_bytes_per_sequence(8192) + v4.state_bytes_per_sequence)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: layouts(V3, 1.5), "num_gpus must be whole and at least 1, got 1.5"),
    (lambda: problems(V3, DP8, weight_block=0), "weight_block must be whole and at least 1, got 0"),
    (lambda: problems(V3, DP8, gpus_per_node="8"), "gpus_per_node must be one number"),
    (lambda: rank_resident_bytes(V3, DP8, sequences=-1), "sequences must be at least 0, got -1"),
    (lambda: layout_sequences(V3, DP8, -1), "usable_bytes must be at least 0, got -1"),
    (lambda: rank_step(V3, -1, DP8), "batch must be at least 0, got -1"),
    (lambda: rank_prefill(V3, 0, DP8), "tokens must be whole and at least 1, got 0"),
    (lambda: rank_prefill(V3, 9, DP8, sequences=1.5), "sequences must be whole and at least 1, got 1.5"),
    (lambda: linear_placement(8, 3), "num_gpus must divide num_experts = 8, got 3"),
    (lambda: round_robin_placement(None, 3), "num_experts must be one number"),
])
def test_bad_input_names_the_argument_and_its_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()
