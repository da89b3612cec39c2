"""Graded tests of homework 2: ordinary pytest tests. A question's function comes as a fixture, points as a marker."""

import numpy as np
import pytest

from moe_homework.expect import expect, expect_unchanged


@pytest.mark.points(1)
def test_one_block(expert_bytes, constants):
    """A matrix smaller than a block takes one scale"""
    expect(expert_bytes, 3, 2, gives=3 * (6 + constants.scale_bytes))


@pytest.mark.points(0.5)
def test_blocks_at_the_edge(expert_bytes, constants):
    """A row or a column more than a block takes a further block, also in both directions"""
    b, s = constants.block, constants.scale_bytes
    gives = [3 * ((b + 1) * b + 2 * s), 3 * (b * (b + 1) + 2 * s), 3 * ((b + 1) * (b + 1) + 4 * s)]
    expect(expert_bytes, np.array([b + 1, b, b + 1]), np.array([b, b + 1, b + 1]), gives=gives, rtol=1e-9)


@pytest.mark.points(0.5)
def test_whole_blocks(expert_bytes, constants):
    """Full blocks take no further scale"""
    b, s = constants.block, constants.scale_bytes
    expect(expert_bytes, 2 * b, 3 * b, gives=3 * (6 * b * b + 6 * s), rtol=1e-9)


@pytest.mark.points(1)
def test_released_sizes(expert_bytes, solution, rng):
    """Widths of models and drawn ones; arguments stay as they were"""
    d_model, d_expert = np.array([7168, 2880, *rng.integers(500, 9000, 20)])[:, None], np.array([2048, 2880, 1408])
    gives = solution.expert_bytes(d_model, d_expert)
    expect(expert_bytes, d_model, d_expert, gives=gives, rtol=1e-9, elementwise=True)
    expect_unchanged(expert_bytes, d_model, d_expert)


@pytest.mark.points(1)
def test_one_token(layer_intensity, constants):
    """One token computes with k routed experts of 1 byte a weight and with the shared ones of 2, and reads them"""
    s = constants.shared
    expect(layer_intensity, 4, 2, 1, 1, gives=2 * (2 + s) / (2 + 2 * s))


@pytest.mark.points(0.5)
def test_two_tokens(layer_intensity, constants):
    """Two tokens compute twice as much, and read once where they meet: 3 of 4 routed experts"""
    s = constants.shared
    expect(layer_intensity, 4, 2, 2, 0.5, gives=4 * (2 + s) / (1.5 + 2 * s))


@pytest.mark.points(0.5)
def test_no_token_and_many(layer_intensity, constants):
    """No token computes nothing; with very many all experts are read, once"""
    s, batch = constants.shared, np.array([0, 10**6])
    expect(layer_intensity, 64, 4, batch, 2, gives=[0, 2 * 10**6 * (4 + s) / (2 * 64 + 2 * s)])


@pytest.mark.points(1)
def test_precisions_and_batches(layer_intensity, solution, rng):
    """Rows of precisions against columns of batches; arguments stay as they were"""
    weight_bytes, batch = np.array([[2], [1], [0.5625]]), np.sort(rng.integers(1, 5000, 20))
    gives = solution.layer_intensity(256, 8, batch, weight_bytes)
    expect(layer_intensity, 256, 8, batch, weight_bytes, gives=gives, elementwise=True)
    expect_unchanged(layer_intensity, 256, 8, batch, weight_bytes)


@pytest.mark.points(1)
def test_few_tokens(padding_slowdown, constants):
    """Where reading is quick, two touched experts compute two tiles for 4 tokens"""
    expect(padding_slowdown, np.array([[1, 0, 0, 3]]), 1, gives=[2 * constants.tile / 4])


@pytest.mark.points(0.5)
def test_full_and_overfull_tiles(padding_slowdown, constants):
    """A full tile wastes nothing, a token more takes a second tile"""
    t = constants.tile
    expect(padding_slowdown, np.array([[t, 0], [t + 1, t], [1, 0]]), 1, gives=[1, 3 * t / (2 * t + 1), t])


@pytest.mark.points(0.5)
def test_reading_hides_padding(padding_slowdown, constants):
    """While reading the experts takes longer than computing the tiles, padding costs nothing; no tokens cost nothing"""
    t = constants.tile
    loads = np.array([[1, 0, 0], [0, 0, 0], [t + 1, t + 1, 0]])
    expect(padding_slowdown, loads, t + 1, gives=[1, 1, 4 * t / (2 * t + 2)])


@pytest.mark.points(1)
def test_layers_of_a_step(padding_slowdown, solution, rng):
    """One answer for each layer; arguments stay as they were"""
    loads = rng.poisson([[0.5], [2], [8], [30], [100], [300]], (6, 64))
    gives = solution.padding_slowdown(loads, 13)
    expect(padding_slowdown, loads, 13, gives=gives)
    expect_unchanged(padding_slowdown, loads, 13)


@pytest.mark.points(1)
def test_steps_that_read_longer(judge, constants):
    """Reading takes 2 s and computing 1 s: at least 2 s, at most 3 s"""
    seconds = np.array([1.9, 2.5, 3 * (constants.many - 0.4), 3 * (constants.many + 0.4)])
    gives = ["impossible", "memory", "memory", "other"]
    expect(judge, seconds, np.full(4, 20), np.full(4, 100), 10, 100, gives=gives)


@pytest.mark.points(1)
def test_steps_that_compute_longer(judge, constants):
    """Reading takes 1 s and computing 3 s: at least 3 s, at most 4 s"""
    seconds = np.array([2.9, 3.1, 4 * (constants.many - 0.4), 4 * (constants.many + 0.4)])
    gives = ["impossible", "compute", "compute", "other"]
    expect(judge, seconds, np.full(4, 10), np.full(4, 300), 10, 100, gives=gives)


@pytest.mark.points(1)
def test_many_steps(judge, solution, constants, rng):
    """A word for each of many steps; arguments stay as they were"""
    bytes_read, flops = rng.uniform(1e6, 1e9, 60), rng.uniform(1e8, 1e11, 60)
    seconds = rng.uniform(0.2, 2 * constants.many, 60) * (bytes_read / 3e10 + flops / 1e12)
    gives = solution.judge(seconds, bytes_read, flops, 3e10, 1e12)
    expect(judge, seconds, bytes_read, flops, 3e10, 1e12, gives=gives, elementwise=True)
    expect_unchanged(judge, seconds, bytes_read, flops, 3e10, 1e12)


@pytest.mark.points(1)
def test_small_layer(fp8_pays_from, constants):
    """2 of 4 experts, ridge point 100.5 in BF16: by then a step touches all four"""
    gives = int(100.5 * (4 + constants.shared) / (2 * (2 + constants.shared))) + 1
    expect(fp8_pays_from, 4, 2, 1000, 100500, gives=gives)


@pytest.mark.points(1)
def test_low_ridge_point(fp8_pays_from, solution, constants):
    """A processor with a ridge point of 3 to 13 is compute-bound before a step touches all experts"""
    flops_per_s = np.array([0.1e12, 0.2e12, 0.4e12])
    expect(fp8_pays_from, 64, 4, 3e10, flops_per_s, gives=solution.fp8_pays_from(64, 4, 3e10, flops_per_s))


@pytest.mark.points(1)
def test_models(fp8_pays_from, solution, rng):
    """One answer for each model; a model without a choice, k = E, is dense"""
    num_experts = np.array([8, *rng.choice([64, 128, 160, 256], 3)])
    top_k, bytes_per_s, flops_per_s = np.array([8, *rng.choice([4, 6, 8], 3)]), 4.8e12, 989e12
    arguments = (num_experts, top_k, bytes_per_s, flops_per_s)
    gives = solution.fp8_pays_from(*arguments)
    expect(fp8_pays_from, *arguments, gives=gives, elementwise=True)
    expect_unchanged(fp8_pays_from, *arguments)


@pytest.mark.points(1)
def test_machines_and_models(fp8_pays_from, solution, rng):
    """Rows of machines against columns of models"""
    bytes_per_s, flops_per_s = np.array([[4.8e12], [3.35e12]]), rng.uniform(5e14, 1e15, (2, 1))
    num_experts = np.array([128, 64])
    gives = solution.fp8_pays_from(num_experts, 8, bytes_per_s, flops_per_s)
    expect(fp8_pays_from, num_experts, 8, bytes_per_s, flops_per_s, gives=gives, elementwise=True)
