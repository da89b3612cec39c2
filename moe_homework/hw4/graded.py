"""Graded tests of homework 4: ordinary pytest tests. A question's function comes as a fixture, points as a marker."""

import numpy as np
import pytest

from moe_homework.expect import expect, expect_unchanged


@pytest.mark.points(0.5)
def test_one_slot_each(held_bytes, constants):
    """One slot on each GPU, and one GPU fewer"""
    slots = 8 + constants.spare
    expect(held_bytes, 100, 10, 8, 1, slots, slots, gives=111.0)
    expect(held_bytes, 100, 10, 8, 1, 0, slots - 1, gives=120.0)


@pytest.mark.points(0.5)
def test_whole_sequences(held_bytes, constants):
    """Sequences come whole"""
    slots = -(-(256 + constants.spare) // 8)
    expect(held_bytes, 1000, 1, 256, 100, 9, 8, gives=1200.0 + slots)
    expect(held_bytes, 1000, 1, 256, 100, 0, 8, gives=1000.0 + slots)


@pytest.mark.points(1)
def test_held_by_arrays(held_bytes, solution, rng):
    """Arrays broadcast, and stay as they were"""
    num_gpus, sequences = np.array([8, 16, *rng.integers(8, 300, 7)]), rng.integers(1, 5000, (4, 1))
    gives = solution.held_bytes(17.1e9, 2.55e9, 256, 5.8e8, sequences, num_gpus)
    expect(held_bytes, 17.1e9, 2.55e9, 256, 5.8e8, sequences, num_gpus, gives=gives, elementwise=True)
    expect_unchanged(held_bytes, 17.1e9, 2.55e9, 256, 5.8e8, sequences, num_gpus)


def copy_bytes(constants):
    """Bytes of one copy of a token of 1,024 values."""
    return 1024 + 4 * 1024 / constants.block


@pytest.mark.points(1)
def test_at_home(sent_bytes, constants):
    """In its own node: one hop for each other GPU, none for its own"""
    one = copy_bytes(constants)
    expect(sent_bytes, np.array([0, 0]), np.array([[0, 0], [1, 0]]), 1024, gives=(np.zeros(2), np.array([0, one])))
    expect(sent_bytes, np.array([1]), np.array([[0, 0, 0]]), 1024, gives=(np.zeros(1), np.array([one])))


@pytest.mark.points(1)
def test_across(sent_bytes, constants):
    """Across: one copy for each other node, then hops to all but the GPU where it arrived"""
    one, node = copy_bytes(constants), constants.node_gpus
    gpus = np.array([[node, node], [node + 1, node + 1], [node, node + 1], [node, 2 * node]])
    expect(sent_bytes, np.zeros(4, int), gpus, 1024, gives=(np.array([1, 1, 1, 2]) * one, np.array([0, 1, 1, 0]) * one))


@pytest.mark.points(0.5)
def test_no_tokens(sent_bytes, constants):
    """The token of another GPU; no tokens"""
    one, node = copy_bytes(constants), constants.node_gpus
    gives = (np.array([one]), np.array([one]))
    expect(sent_bytes, np.array([node + 1]), np.array([[0, node + 1, 0]]), 1024, gives=gives)
    expect(sent_bytes, np.zeros(0, int), np.zeros((0, 8), int), 1024, gives=(np.zeros(0), np.zeros(0)))


@pytest.mark.points(1.5)
def test_many_tokens(sent_bytes, solution, rng):
    """Many tokens, whose arrays stay as they were"""
    home, gpus = rng.integers(0, 48, 300), rng.integers(0, 48, (300, 8))
    expect(sent_bytes, home, gpus, 7168, gives=solution.sent_bytes(home, gpus, 7168))
    expect_unchanged(sent_bytes, home, gpus, 7168)


@pytest.mark.points(0.5)
def test_whole_tiles(gpu_times, constants):
    """Tokens of a slot are computed in whole tiles; a slot without tokens is not read"""
    tile = constants.tile
    tokens = np.array([1, tile + 1, 0, 0])
    expect(gpu_times, tokens, np.arange(4), 4, 1e-6, 1e-6, gives=np.array([tile, 2 * tile, 0, 0]) * 1e-6)
    expect(gpu_times, tokens, np.arange(4), 2, 1e-6, 1e-6, gives=np.array([3 * tile, 0]) * 1e-6)


@pytest.mark.points(1)
def test_read_or_compute(gpu_times, constants):
    """The larger of reading and computing, for each GPU"""
    tile = constants.tile
    tokens = np.array([1, 1, 2 * tile + 1, 0])
    read = 1.5e-6 * tile  # as long as one and a half tiles
    gives = np.array([3e-6, 3e-6]) * tile
    expect(gpu_times, tokens, np.arange(4), 2, read, 1e-6, gives=gives)


@pytest.mark.points(0.5)
def test_copies_share(gpu_times, constants):
    """Copies of an expert share its tokens, the first ones take what does not divide"""
    tile = constants.tile
    tokens, held = np.array([2 * tile + 1, 1]), np.array([0, 1, 0, 0])
    expect(gpu_times, tokens, held, 4, 1e-9, 1e-6, gives=np.array([1, 1, 1, 1]) * tile * 1e-6)
    expect(gpu_times, tokens, held[:3], 3, 1e-9, 1e-6, gives=np.array([2, 1, 1]) * tile * 1e-6)


@pytest.mark.points(1)
def test_many_slots(gpu_times, solution, rng):
    """Many slots in any order, arrays that stay as they were"""
    held = rng.permutation(np.concatenate([np.arange(64), rng.integers(0, 8, 16)]))
    for mean in (2, 3000):
        tokens = rng.poisson(rng.gamma(0.5, 2 * mean, 64))
        expect(gpu_times, tokens, held, 16, 9e-6, 4.5e-8, gives=solution.gpu_times(tokens, held, 16, 9e-6, 4.5e-8))
    expect_unchanged(gpu_times, tokens, held, 16, 9e-6, 4.5e-8)


@pytest.mark.points(1)
def test_largest_piece(share_spares, constants):
    """Each spare slot goes to the largest piece of all layers"""
    loads, most = np.array([[90, 30], [40, 70]]), constants.most_copies
    expect(share_spares, loads, 0, gives=np.array([[1, 1], [1, 1]]))
    expect(share_spares, loads, 2, gives=np.array([[2, 1], [1, 2]]))
    expect(share_spares, np.array([[900, 1], [2, 3]]), most, gives=np.array([[most, 1], [1, 2]]))


@pytest.mark.points(0.5)
def test_more_spares_than_copies(share_spares, constants):
    """When all experts have as many copies as they may, the rest stays empty"""
    most = constants.most_copies
    expect(share_spares, np.array([[5, 4, 3]]), 100, gives=np.array([[most, most, most]]))


@pytest.mark.points(1.5)
def test_many_layers(share_spares, solution, rng):
    """Many layers, whose loads stay as they were"""
    loads = rng.gamma(0.3, 100, (8, 16))
    expect(share_spares, loads, 40, gives=solution.share_spares(loads, 40))
    expect(share_spares, loads, 120, gives=solution.share_spares(loads, 120))
    expect_unchanged(share_spares, loads, 40)


TINY = {"always_bytes": 20e9, "experts_bytes": 80e9, "num_experts": 4, "top_k": 4, "kv_heads": 1, "cache_bytes": 1e9}


@pytest.mark.points(1)
def test_one_layout(best_layout, constants):
    """One layout: as many sequences as fit, or as meet the target"""
    rate, start = constants.reads_gb_per_s, constants.overhead_ms * 1e-3
    fit = constants.usable_gb - 100
    expect(best_layout, [(1, 1)], TINY, 1.0, gives=(1, 1, fit, fit / (start + constants.usable_gb / rate)))
    expect(best_layout, [(1, 1)], TINY, start + 105.5 / rate, gives=(1, 1, 5, 5 / (start + 105 / rate)))
    expect(best_layout, [(1, 1)], TINY, start + 100.5 / rate, gives=(0, 0, 0, 0.0))


@pytest.mark.points(1)
def test_split_attention(best_layout, constants):
    """Split attention: fewer weights on a GPU, but one cached head is copied"""
    rate, start = constants.reads_gb_per_s, constants.overhead_ms * 1e-3
    speed = 10 / (start + 60 / rate) / 2
    expect(best_layout, [(2, 2)], TINY, start + 60.5 / rate, gives=(2, 2, 10, speed))
    two_heads = {**TINY, "kv_heads": 2}
    expect(best_layout, [(2, 2)], two_heads, start + 60.4 / rate, gives=(2, 2, 20, 2 * speed))


@pytest.mark.points(0.5)
def test_legal(best_layout, constants):
    """The whole batch touches experts; layouts that are not legal are left out"""
    rate, start = constants.reads_gb_per_s, constants.overhead_ms * 1e-3
    half = {**TINY, "top_k": 2}  # two tokens touch three quarters of the experts
    gives = (2, 1, 2, 1 / (start + 51 / rate))
    expect(best_layout, [(2, 1)], half, start + 51.5 / rate, gives=gives)
    expect(best_layout, [(3, 1), (2, 1), (8, 1), (2, 4)], half, start + 51.5 / rate, gives=gives)
    expect(best_layout, [(3, 3), (8, 2)], half, 1.0, gives=(0, 0, 0, 0.0))


@pytest.mark.points(1.5)
def test_a_real_choice(best_layout, solution, rng):
    """The layout with the most tokens/s of a GPU, for late and early targets"""
    model = {"always_bytes": 17.1e9, "experts_bytes": 653.9e9, "num_experts": 256, "top_k": 8, "kv_heads": 1}
    model["cache_bytes"] = rng.uniform(2e8, 6e8)
    layouts = [(gpus, tp) for gpus in (8, 16, 32, 64, 96) for tp in (8, 4, 2, 1)]
    for target in (0.1, 0.04, 0.025, 0.015):
        expect(best_layout, layouts, model, target, gives=solution.best_layout(layouts, model, target))
    expect_unchanged(best_layout, layouts, model, 0.04)
