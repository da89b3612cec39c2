"""Homework 2: its answers are right by another route, and typical wrong answers are told what is wrong."""

import numpy as np
import pytest
from homework_answers import first_fault

from moe_homework.hw2 import HOMEWORK, solutions
from moe_lib import measured, roofline, routing
from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG
from moe_lib.steps import resident_bytes


def test_the_routed_experts_of_deepseek_v3_take_as_many_bytes_as_its_release():
    model = CATALOG["deepseek-v3"]
    per_weight = solutions.expert_bytes(model.d_model, model.d_expert) / model.expert_params
    assert per_weight == pytest.approx(model.released_weight_bytes["routed_experts"], rel=1e-9)
    assert round(resident_bytes(model) / 1e9) == 673  # page 01


def test_blocks_are_counted_one_by_one():
    widths = np.arange(1, 300, 7)
    along = np.array([sum(1 for _ in range(0, width, 128)) for width in widths])
    blocks = np.outer(along, along)
    assert np.array_equal(solutions.expert_bytes(widths[:, None], widths), 3 * (np.outer(widths, widths) + 4 * blocks))


def test_without_shared_experts_the_intensity_of_a_wide_expert_is_that_of_its_matmul():
    batch, E, k = np.array([1, 64, 4096]), 256, 8
    each = routing.tokens_per_touched_expert(E, k, batch)
    alone = roofline.expert_intensity(7168, 2048, each, weight_bytes=1, activation_bytes=0)
    assert np.allclose(solutions.layer_intensity(E, k, batch, 1, shared=0), alone)


def test_the_intensity_is_that_of_simulated_steps():
    rng = np.random.default_rng(1)
    steps = routing.sample_routing(rng, 2000 * 20, 32, 4).reshape(2000, -1)
    read = np.mean([1 * np.unique(step).size + 2 * 2 for step in steps])
    assert solutions.layer_intensity(32, 4, 20, 1) == pytest.approx(2 * 20 * (4 + 2) / read, rel=0.005)


def test_tiles_of_random_loads_slow_a_layer_as_page_03_says():
    layers = routing.sample_routing(np.random.default_rng(3), 200 * 256, 256, 8).reshape(200, -1)
    loads = np.array([np.bincount(layer, minlength=256) for layer in layers])
    few = roofline.ridge_point(DEVICES["h200"]) * 0.5 / 2
    slower = [solutions.padding_slowdown(loads, few, tile=tile).mean() for tile in (16, 64, 128)]
    assert np.round(slower, 1).tolist() == [1.0, 1.2, 2.5]


def test_tiles_are_counted_token_by_token():
    loads = np.random.default_rng(4).poisson(20, (3, 50))
    tiles = [sum(1 for load in layer for _ in range(0, load, 64)) for layer in loads]
    assert np.allclose(solutions.padding_slowdown(loads, 0), 64 * np.array(tiles) / loads.sum(axis=1))


def test_the_impossible_timings_of_page_05_are_judged_impossible():
    layers = [layer for layer in measured.layers(distribution="balanced") if layer.impossible.any()]
    for layer in layers:
        words = np.array(solutions.judge(layer.latency_s, *layer.limits(), 1, 1))
        assert all(words[layer.impossible] == "impossible")
    assert sum(layer.impossible.sum() for layer in layers) == 37


def test_every_time_between_its_bounds_is_named_by_the_longer_of_the_two():
    reading, computing = np.random.default_rng(5).uniform(1, 9, (2, 100))
    between = np.maximum(reading, computing) + 0.5 * np.minimum(reading, computing)
    words = solutions.judge(between, 10 * reading, 100 * computing, 10, 100)
    assert words == ["memory" if r >= c else "compute" for r, c in zip(reading, computing, strict=True)]


@pytest.mark.parametrize("shape", [(256, 8, 4.8e12, 989e12), (64, 4, 3e10, 1e11), (8, 8, 4.8e12, 989e12)])
def test_fp8_pays_where_its_weights_in_bf16_arithmetic_pass_the_ridge_point(shape):
    batch, ridge = solutions.fp8_pays_from(*shape), shape[3] / shape[2]
    reads = routing.experts_touched(*shape[:2], np.array([batch - 1, batch])) + 2
    before, after = 2 * np.array([batch - 1, batch]) * (shape[1] + 2) / reads
    assert before <= ridge < after


def stretched_blocks(d_model, d_expert):
    weights = np.multiply(d_model, d_expert)
    return 3 * (weights + 4 * np.ceil(weights / 128**2))


def scales_of_cut_blocks_in_part(d_model, d_expert):
    return 3 * np.multiply(d_model, d_expert) * (1 + 4 / 128**2)


def shared_experts_not_computed(num_experts, top_k, batch, weight_bytes):
    return 2 * batch * top_k / (weight_bytes * routing.experts_touched(num_experts, top_k, batch) + 4)


def all_experts_read(num_experts, top_k, batch, weight_bytes):
    return 2 * batch * (top_k + 2) / (weight_bytes * num_experts + 4)


def idle_experts_padded(loads, rows_per_read):
    padded = 64 * np.maximum(np.ceil(loads / 64), 1).sum(axis=-1)
    reading = rows_per_read * np.count_nonzero(loads, axis=-1)
    return np.maximum(reading, padded) / np.maximum(reading, loads.sum(axis=-1))


def rows_over_rows(loads, rows_per_read):
    return 64 * np.ceil(loads / 64).sum(axis=-1) / np.maximum(loads.sum(axis=-1), 1)


def least_is_the_sum(seconds, bytes_read, flops, bytes_per_s, flops_per_s):
    both = bytes_read / bytes_per_s + flops / flops_per_s
    return ["impossible" if took < least else "memory" for took, least in zip(seconds, both, strict=True)]


def an_array_of_words(*arguments):
    return np.array(solutions.judge(*arguments))


def ridge_over_share(num_experts, top_k, bytes_per_s, flops_per_s):
    return np.ceil(flops_per_s / bytes_per_s / 2 * num_experts / top_k)


def one_batch_early(*arguments):
    return solutions.fp8_pays_from(*arguments) - 1


@pytest.mark.parametrize(
    "wrong, name, line",
    [
        (stretched_blocks, "expert_bytes", "at [2] expected 49971, got 49947.0"),
        (scales_of_cut_blocks_in_part, "expert_bytes", "expert_bytes(3, 2): expected 30, got 18.00439453"),
        (shared_experts_not_computed, "layer_intensity", "layer_intensity(4, 2, 1, 1): expected 1.333333333, got 0.66"),
        (all_experts_read, "layer_intensity", "layer_intensity(4, 2, 1, 1): expected 1.333333333, got 1.0"),
        (idle_experts_padded, "padding_slowdown", "([[1, 0, 0, 3]]), 1): at [0] expected 32.0, got 64.0"),
        (rows_over_rows, "padding_slowdown", "at [0] expected 1.0, got 64.0"),
        (least_is_the_sum, "judge", "value 1: expected 'memory', got 'impossible'"),
        (an_array_of_words, "judge", "cannot be graded"),
        (ridge_over_share, "fp8_pays_from", "fp8_pays_from(4, 2, 1000, 100500): expected 76, got 101.0"),
        (one_batch_early, "fp8_pays_from", "fp8_pays_from(4, 2, 1000, 100500): expected 76, got 75"),
    ],
)  # fmt: skip
def test_a_typical_wrong_answer_is_told_the_call_what_was_expected_and_what_came(wrong, name, line):
    assert line in first_fault(HOMEWORK, name, wrong)
