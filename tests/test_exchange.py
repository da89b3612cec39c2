import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from test_layouts import DP8, H200, LLAMA, NETWORK, NVLINK, TP8, V3, decode_seconds, spreads

from moe_lib.exchange import (
    all_reduce_bytes,
    all_to_all_bytes,
    all_to_all_time,
    copies_sent,
    gpus_touched_per_token,
    link_time,
    two_batch_times,
)
from moe_lib.layouts import (
    Layout,
    linear_placement,
    problems,
)
from moe_lib.models import from_counts
from moe_lib.routing import sample_routing


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


@pytest.mark.parametrize("num_gpus", [2, 3, 8])
def test_an_all_reduce_by_a_ring_of_gpus_sends_as_many_bytes(num_gpus):
    """Piece by piece around the ring: added up in the first round, handed on in the second."""
    values = np.random.default_rng(0).integers(100, size=(num_gpus, num_gpus))  # [GPU, piece]
    held, every, sent = values.copy(), np.arange(num_gpus), 0
    for step in range(2 * (num_gpus - 1)):
        piece, to = (every - step) % num_gpus, (every + 1) % num_gpus
        moved, sent = held[every, piece], sent + 1 / num_gpus
        held[to, piece] = moved + (held[to, piece] if step < num_gpus - 1 else 0)
    assert (held == values.sum(axis=0)).all()
    assert all_reduce_bytes(7168, 256, num_gpus) == pytest.approx(sent * 7168 * 256 * 2)


def test_a_switch_that_adds_moves_a_message_and_an_eighth_between_eight_gpus():
    ring, switch = (all_reduce_bytes(7168, 256, 8, in_switch=of) / (7168 * 256 * 2) for of in (False, True))
    assert (ring, switch) == (1.75, 1.125)
    assert all_reduce_bytes(7168, 256, 1) == all_reduce_bytes(7168, 256, 1, in_switch=True) == 0


def test_an_exchange_of_256_sequences_costs_splitting_more_than_spreading():
    ms = [1e3 * link_time(V3, 256, layout, NVLINK, in_switch=of) for of in (False, True) for layout in (TP8, DP8)]
    assert np.round(ms, 2).tolist() == [1.74, 0.42, 1.12, 0.42]


def test_two_all_reduces_a_layer_are_all_that_tensor_parallelism_sends():
    sent = 2 * V3.num_layers * 2 * 7 / 8 * 256 * 7168 * 2
    assert link_time(V3, 256, TP8, NVLINK) == pytest.approx(sent / NVLINK.bytes_per_s)
    assert link_time(V3, 256, Layout.parse("TP8+EP8"), NVLINK) == pytest.approx(sent / NVLINK.bytes_per_s)


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
    assert link_time(LLAMA, 64, Layout.parse("DP16+TP16"), NVLINK, network=NETWORK) == 0


def test_a_network_that_is_not_needed_takes_no_time():
    assert link_time(V3, 256, DP8, NVLINK, network=NETWORK) == link_time(V3, 256, DP8, NVLINK)


def test_latency_counts_once_an_exchange():
    assert all_to_all_time(0, 15e-6, 1e9) == 15e-6
    layout = Layout.parse("DP16+EP16")
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


@pytest.mark.parametrize(("call", "message"), [
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
    (lambda: link_time(V3, 64, Layout.parse("TP16"), NVLINK), "network must be a Link"),
    (lambda: link_time(V3, 64, Layout.parse("TP16"), NVLINK, network=NETWORK),
     "a tensor-parallel group must lie within"),
    (lambda: link_time(V3, 64, DP8, NVLINK, gpus_per_node=None), "gpus_per_node must be one number"),
    (lambda: link_time(from_counts("plate", 671e9, 37e9, 256, 8), 64, DP8, NVLINK), "d_model must be at least 1"),
])
def test_bad_input_names_the_argument_and_its_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_lesser_way_to_add_up_is_taken_where_the_switch_can_add():
    for layout in "TP2", "TP4", "TP8":
        ways = [link_time(V3, 256, layout, NVLINK, in_switch=way) for way in (False, True)]
        assert link_time(V3, 256, layout, NVLINK, in_switch=None) == min(ways)
        assert link_time(V3, 256, layout, "nvlink3", in_switch=None) == link_time(V3, 256, layout, "nvlink3")


def test_split_shared_experts_are_added_up_beside_spread_routed_ones():
    bare = dataclasses.replace(V3, num_shared_experts=0)
    for layout, rounds in (("TP4xDP2+EP8", 58), ("DP8+EP8", 0), ("TP8", 0)):
        more = link_time(V3, 256, layout, NVLINK) - link_time(bare, 256, layout, NVLINK)
        sums = rounds * all_reduce_bytes(7168, 128, 4) / NVLINK.bytes_per_s
        assert more == pytest.approx(sums, abs=1e-12)
