import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from moe_lib.hardware import DEVICES, LINKS
from moe_lib.models import CATALOG, from_counts
from moe_lib.parallel import (
    Layout,
    all_to_all_bytes,
    all_to_all_time,
    cache_share,
    copies_sent,
    gpus_touched_per_token,
    layout_sequences,
    layouts,
    linear_placement,
    link_time,
    problems,
    rank_prefill,
    rank_resident_bytes,
    rank_step,
    round_robin_placement,
    two_batch_times,
)
from moe_lib.roofline import step_time
from moe_lib.routing import sample_routing
from moe_lib.steps import decode_step, prefill, resident_bytes, sequences_that_fit

V3, QWEN, LLAMA = (CATALOG[slug] for slug in ("deepseek-v3", "qwen3-235b-a22b", "llama-3.1-70b"))
H200, NVLINK, NETWORK = DEVICES["h200"], LINKS["nvlink4"], LINKS["ib-ndr"]
TP8, DP8 = Layout(8, 1, 8), Layout(1, 8, 1, 8)
models = st.sampled_from(list(CATALOG.values()))
spreads = st.tuples(models, st.integers(1, 16)).flatmap(
    lambda case: st.tuples(st.just(case[0]), st.sampled_from(layouts(*case))))


def decode_seconds(layout, batch, context=4096):
    return step_time(rank_step(V3, batch, layout, weight_bytes=1, context=context), H200, "fp8").lower


# what a GPU holds


def test_sequences_that_fit_v3_on_eight_h200():
    fit = [layout_sequences(V3, layout, 126.9e9, weight_bytes=1, context=8192) for layout in (TP8, DP8)]
    assert fit == [74, 384]


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
    shares = [cache_share(QWEN, Layout(size, 1, size)) for size in (1, 2, 4, 8)]
    assert shares == [1, 1 / 2, 1 / 4, 1 / 4]  # four key-value heads
    assert [cache_share(V3, Layout(size, 1, size)) for size in (1, 8)] == [1, 1]  # one latent entry


@pytest.mark.parametrize(("layout", "legal"), [(TP8, False), (Layout(4, 2, 4, 2), True), (DP8, True)])
def test_blocks_of_scales_forbid_eight_parts_of_qwen3_and_not_four(layout, legal):
    assert (problems(QWEN, layout, weight_block=128) == []) == legal
    assert problems(QWEN, layout) == []


def test_a_whole_expert_needs_no_whole_blocks():
    model = CATALOG["gpt-oss-120b"]  # experts 2,880 wide, 22.5 blocks
    assert problems(model, DP8, weight_block=128) == [] != problems(model, TP8, weight_block=128)


@pytest.mark.parametrize(("model", "layout", "nodes", "reason"), [
    (V3, Layout(3, 1, 3), None, "attention: 128 heads do not divide over 3 GPUs"),
    (QWEN, Layout(16, 1, 16), 8, "links: groups of 16 GPUs do not fill a node of 8"),
    (V3, Layout(1, 6, 1, 6), None, "experts: 256 do not divide over 6 groups"),
    (V3, Layout(1, 3, 3), None, "experts: a width of 2,048 does not divide over 3 GPUs"),
    (LLAMA, DP8, None, "experts: a dense model has none to spread"),
    (CATALOG["gpt-oss-120b"], Layout(16, 1, 16), None, None),  # 8 key-value heads, each copied to two GPUs
    (CATALOG["llama-4-scout"], Layout(5, 1, 5), None, "cache: 8 key-value heads can neither be divided over nor"),
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
    assert [1e3 * decode_seconds(layout, 256) for layout in (TP8, DP8)] == pytest.approx([32.8, 22.3], abs=0.05)


def test_copies_of_the_attention_are_faster_from_57_sequences():
    batch = np.arange(1, 4096)
    assert (decode_seconds(DP8, batch) < decode_seconds(TP8, batch)).tolist() == (batch >= 57).tolist()


@given(spreads, st.integers(1, 4096))
def test_routed_bytes_of_all_gpus_are_those_of_the_step(case, batch):
    model, layout = case
    only_routed = {"routed_experts": 1, "default": 0}
    here, whole = (step(model, batch, *of, weight_bytes=only_routed) for step, of in (
        (rank_step, [layout]), (decode_step, [])))
    assert layout.num_gpus * here.weight_bytes_read == pytest.approx(whole.weight_bytes_read)
    assert layout.num_gpus * here.flops == pytest.approx(whole.flops)


@given(models, st.integers(1, 4096), st.integers(0, 10**5))
def test_tensor_parallelism_splits_all_but_a_cache_of_few_heads(model, batch, context):
    whole, here = decode_step(model, batch, context=context), rank_step(model, batch, TP8, context=context)
    assert 8 * here.weight_bytes_read == pytest.approx(whole.weight_bytes_read)
    assert here.kv_bytes_read == pytest.approx(whole.kv_bytes_read / min(8, max(model.num_kv_heads, 1)))


@given(spreads, st.integers(1, 5000), st.integers(1, 40))
def test_prompts_that_fill_every_copy_compute_the_whole_prefill(case, tokens, each):
    (model, layout), sequences = case, each * case[1].attention_dp
    whole = prefill(model, tokens, sequences=sequences, chunk=2048)
    here = rank_prefill(model, tokens, layout, sequences=sequences, chunk=2048)
    assert np.allclose(layout.num_gpus * here.flops, whole.flops)
    assert np.allclose(here.kv_bytes_written * layout.attention_dp, whole.kv_bytes_written * cache_share(*case))


def test_one_prompt_keeps_one_copy_of_the_attention_busy():
    one, eight = (rank_prefill(V3, 4096, DP8, sequences=sequences) for sequences in (1, 8))
    routed = 2 * V3.top_k * V3.expert_params_all_layers * 4096 / 8
    assert one.flops - routed == pytest.approx(eight.flops - 8 * routed)


# what travels


def test_a_token_reaches_5295_thousandths_of_eight_gpus():
    assert gpus_touched_per_token(256, 8, 8) == pytest.approx(5.295, abs=5e-4)


@pytest.mark.parametrize(("each", "megabytes"), [(8, 10.08), (sum(copies_sent(256, 8, 8)), 5.84)])
def test_bytes_of_a_v3_token_over_58_layers(each, megabytes):
    assert 58 * sum(all_to_all_bytes(7168, each)) / 1e6 == pytest.approx(megabytes, abs=0.005)


@pytest.mark.parametrize("group_limit", [None, (8, 4), (4, 1), (16, 5)])
@pytest.mark.parametrize("num_gpus", [2, 4, 8, 32])
def test_gpus_reached_are_those_of_a_simulated_router(num_gpus, group_limit):
    chosen = sample_routing(np.random.default_rng(0), 20_000, 256, 8, group_limit=group_limit)
    gpus = np.sort(linear_placement(256, num_gpus)[chosen], axis=1)
    distinct = 1 + (np.diff(gpus, axis=1) > 0).sum(axis=1)
    expected = gpus_touched_per_token(256, 8, num_gpus, group_limit=group_limit)
    assert abs(distinct.mean() - expected) <= 4 * distinct.std() / np.sqrt(20_000) + 1e-9


@given(st.integers(1, 64), st.integers(1, 16), st.data())
def test_gpus_reached_lie_between_one_and_all(each, num_gpus, data):
    top_k = data.draw(st.integers(1, each * num_gpus))
    reached = gpus_touched_per_token(each * num_gpus, top_k, num_gpus)
    assert max(1, top_k / each) * (1 - 1e-9) <= reached <= min(top_k, num_gpus) * (1 + 1e-9)


def simulated_copies(once, group_limit, tokens=20_000):
    """(within, across) a token on 32 GPUs in 4 nodes; a copy for a node lands on the GPU with its sender's number."""
    rng, every = np.random.default_rng(1), np.arange(tokens)
    chosen = sample_routing(rng, tokens, 64, 6, group_limit=group_limit) // 2  # GPU of each expert
    home = rng.integers(32, size=tokens)
    wants = np.zeros((tokens, 32), int)
    np.add.at(wants, (every[:, None], chosen), 1)
    wants = wants if once == "expert" else np.minimum(wants, 1)
    nodes, own = wants.reshape(-1, 4, 8), np.arange(4) == (home // 8)[:, None]
    across = nodes.sum(axis=2)[~own].sum()
    within = nodes[own].sum() - wants[every, home].sum()
    if once == "node":
        entry = nodes[every, :, home % 8]  # is wanted where it lands: no hop
        within, across = within + across - entry[~own].sum(), (nodes.sum(axis=2) > 0)[~own].sum()
    return within / tokens, across / tokens


@pytest.mark.parametrize("group_limit", [None, (4, 2)])
@pytest.mark.parametrize("once", ["expert", "gpu", "node"])
def test_copies_sent_are_those_of_a_simulated_cluster(once, group_limit):
    copies = copies_sent(64, 6, 32, once=once, group_limit=group_limit)
    assert simulated_copies(once, group_limit) == pytest.approx(copies, rel=0.01)


@given(st.sampled_from([(8, 8), (16, 8), (32, 8), (64, 8), (32, 4)]), st.integers(1, 16))
def test_sending_once_saves_and_a_node_is_never_sent_more_than_its_gpus(cluster, top_k):
    num_gpus, in_node = cluster
    expert, gpu, node = (copies_sent(256, top_k, num_gpus, gpus_per_node=in_node, once=once)
                         for once in ("expert", "gpu", "node"))
    assert sum(gpu) <= sum(expert) * (1 + 1e-12) and node.across <= gpu.across * (1 + 1e-12)
    assert sum(expert) == pytest.approx(top_k * (num_gpus - 1) / num_gpus)


def test_a_copy_goes_to_every_part_of_an_expert():
    split, whole = copies_sent(64, 8, 8, expert_tp=4), gpus_touched_per_token(64, 8, 2)
    assert split.within == pytest.approx(4 * whole * 7 / 8)


def test_two_all_reduces_a_layer_are_all_that_tensor_parallelism_sends():
    sent = 2 * V3.num_layers * 2 * 7 / 8 * 256 * 7168 * 2
    assert link_time(V3, 256, TP8, NVLINK) == pytest.approx(sent / NVLINK.bytes_per_s)
    assert link_time(V3, 256, Layout(8, 1, 1, 8), NVLINK) == pytest.approx(sent / NVLINK.bytes_per_s)


def test_expert_parallelism_sends_each_gpus_tokens_once_a_gpu():
    per_token = 58 * sum(all_to_all_bytes(7168, sum(copies_sent(256, 8, 8))))
    assert link_time(V3, 256, DP8, NVLINK) == pytest.approx(256 / 8 * per_token / NVLINK.bytes_per_s)


@given(spreads, st.integers(1, 512))
def test_every_legal_layout_has_a_finite_time_of_exchanges(case, batch):
    model, layout = case
    assume(layout.num_gpus in (1, 2, 4, 8, 16) and not problems(model, layout, gpus_per_node=8))
    seconds = link_time(model, np.array([batch, 2 * batch]), layout, NVLINK, network=NETWORK)
    assert np.isfinite(seconds).all() and (seconds[1] > seconds[0]) == (layout.num_gpus > 1 and bool(
        model.num_moe_layers or layout.attention_tp > 1))


def test_copies_of_a_dense_model_send_nothing():
    assert link_time(LLAMA, 64, Layout(1, 16, 16), NVLINK, network=NETWORK) == 0


def test_a_network_that_is_not_needed_takes_no_time():
    assert link_time(V3, 256, DP8, NVLINK, network=NETWORK) == link_time(V3, 256, DP8, NVLINK)


def test_latency_counts_once_an_exchange():
    assert all_to_all_time(0, 15e-6, 1e9) == 15e-6
    layout = Layout(1, 16, 1, 16)
    seconds = link_time(V3, [0, 256], layout, NVLINK, network=NETWORK)
    assert seconds[0] == pytest.approx(2 * 58 * NETWORK.latency_s) and seconds[1] > seconds[0]


def test_half_batches_lose_on_one_node():
    plain, halves = two_batch_times(V3, 256, DP8, H200, "fp8", lambda batch: link_time(V3, batch, DP8, NVLINK),
                                    weight_bytes=1, context=4096)
    assert halves > plain


def test_half_batches_halve_the_time_of_much_computing_and_as_much_sending():
    work, many = decode_seconds(DP8, 1 << 17, 0), 1 << 17
    plain, halves = two_batch_times(V3, many, DP8, H200, "fp8", lambda batch: work * batch / many, weight_bytes=1)
    assert (plain, halves) == pytest.approx((2 * work, work))


@pytest.mark.parametrize(("batch", "ratio"), [(64, 1.48), (256, 1.97)])
def test_half_batches_read_nearly_all_experts_twice(batch, ratio):
    half, whole = rank_step(V3, [batch / 2, batch], TP8, weight_bytes=1).weight_bytes_read
    assert 2 * half / whole == pytest.approx(ratio, abs=0.005)


@given(st.integers(1, 32), st.integers(1, 16))
def test_placements_deal_the_same_number_to_every_gpu(each, num_gpus):
    for place in linear_placement, round_robin_placement:
        assert np.bincount(place(each * num_gpus, num_gpus)).tolist() == [each] * num_gpus


@pytest.mark.parametrize(("call", "message"), [
    (lambda: Layout(0), "attention_tp must be whole and at least 1, got 0"),
    (lambda: Layout(2, 2, 2), "attention_tp x attention_dp must equal expert_tp x expert_parallel, got 2 x 2"),
    (lambda: layouts(V3, 1.5), "num_gpus must be whole and at least 1, got 1.5"),
    (lambda: problems(V3, DP8, weight_block=0), "weight_block must be whole and at least 1, got 0"),
    (lambda: problems(V3, DP8, gpus_per_node="8"), "gpus_per_node must be one number"),
    (lambda: rank_resident_bytes(V3, DP8, sequences=-1), "sequences must be at least 0, got -1"),
    (lambda: layout_sequences(V3, DP8, -1), "usable_bytes must be at least 0, got -1"),
    (lambda: rank_step(V3, -1, DP8), "batch must be at least 0, got -1"),
    (lambda: rank_prefill(V3, 0, DP8), "tokens must be whole and at least 1, got 0"),
    (lambda: rank_prefill(V3, 9, DP8, sequences=1.5), "sequences must be whole and at least 1, got 1.5"),
    (lambda: gpus_touched_per_token(256, 8, 7), "num_gpus must divide num_experts = 256, got 7"),
    (lambda: gpus_touched_per_token(256, 257, 8), r"top_k must be within 1..256, got 257"),
    (lambda: gpus_touched_per_token(256, 8, 8, group_limit=3), "group_limit must be two numbers"),
    (lambda: gpus_touched_per_token(256, 8, 8, group_limit=(8, 9)), r"groups kept must be within 1..8, got 9"),
    (lambda: gpus_touched_per_token(240, 8, 6, group_limit=(4, 2)), "num_gpus and groups must divide one another"),
    (lambda: gpus_touched_per_token(64, 16, 8, group_limit=(8, 1)), r"top_k must be within 1..8, got 16"),
    (lambda: copies_sent(256, 8, 0), "num_gpus must be whole and at least 1, got 0"),
    (lambda: copies_sent(256, 8, 16, once="rack"), "once must be one of expert, gpu, node, got 'rack'"),
    (lambda: copies_sent(96, 8, 12), "num_gpus must be a multiple of gpus_per_node = 8, got 12"),
    (lambda: copies_sent(256, 8, 8, expert_tp=3), "expert_tp must divide the 8 GPUs of a node, got 3"),
    (lambda: all_to_all_bytes(0, 8), "d_model must be at least 1, got 0"),
    (lambda: all_to_all_bytes(7168, -1), "destinations must be at least 0, got -1"),
    (lambda: link_time(V3, 64, Layout(16, 1, 16), NVLINK), "network must be a Link"),
    (lambda: link_time(V3, 64, Layout(16, 1, 16), NVLINK, network=NETWORK), "a tensor-parallel group must lie within"),
    (lambda: link_time(V3, 64, DP8, NVLINK, gpus_per_node=None), "gpus_per_node must be one number"),
    (lambda: link_time(from_counts("plate", 671e9, 37e9, 256, 8), 64, DP8, NVLINK), "d_model must be at least 1"),
    (lambda: linear_placement(8, 3), "num_gpus must divide num_experts = 8, got 3"),
    (lambda: round_robin_placement(None, 3), "num_experts must be one number"),
])
def test_bad_input_names_the_argument_and_its_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()
