"""Graded tests of homework 3: ordinary pytest tests. A question's function comes as a fixture, points as a marker."""

import numpy as np
import pytest

from moe_homework.expect import expect, expect_unchanged


@pytest.mark.points(0.5)
def test_one_group_a_row(token_bytes, constants):
    """A row as long as a group has one scale"""
    group = constants.group
    expect(token_bytes, 1, 1, group, group, gives=3 * group * group / 2 + 3 * group * constants.scale_bytes)


@pytest.mark.points(0.5)
def test_short_group(token_bytes, constants):
    """The short last group of a row has a scale of its own"""
    width = constants.group + 2
    scales = 4 * 2 + 4 * 2 + width  # gate and up: 4 rows of two groups; down: `width` rows of one
    expect(token_bytes, 1, 1, width, 4, gives=3 * width * 4 / 2 + scales * constants.scale_bytes)
    expect(token_bytes, 3, 2, width, 4, gives=6 * (3 * width * 4 / 2 + scales * constants.scale_bytes))


@pytest.mark.points(1)
def test_bytes_of_arrays(token_bytes, solution, rng):
    """Arrays broadcast, and stay as they were"""
    d_model, d_expert, top_k = 2 * rng.integers(20, 4000, 6), 2 * rng.integers(20, 2000, 6), np.array([[1], [8]])
    gives = solution.token_bytes(58, top_k, d_model, d_expert)
    expect(token_bytes, 58, top_k, d_model, d_expert, gives=gives, elementwise=True)
    expect_unchanged(token_bytes, 58, top_k, d_model, d_expert)


@pytest.mark.points(0.5)
def test_one_layer(prefetched_time, constants):
    """One layer copies, then computes"""
    millisecond, start = constants.link_gb_per_s * 1e6, constants.start_us * 1e-6  # bytes of 1 ms on the link
    expect(prefetched_time, np.array([0.0]), 1, millisecond, np.array([0.01]), gives=0.011 + start)
    expect(prefetched_time, np.array([0.5]), 4, millisecond, np.array([0.01]), gives=0.012 + 2 * start)


@pytest.mark.points(1)
def test_two_layers(prefetched_time, constants):
    """The second layer's copies run while the first computes"""
    millisecond, start = constants.link_gb_per_s * 1e6, constants.start_us * 1e-6
    expect(prefetched_time, np.array([0.0, 0.0]), 1, millisecond, np.array([0.01, 0.01]), gives=0.021 + start)
    expect(prefetched_time, np.array([0.0, 0.0]), 1, millisecond, np.array([0.0001, 0.0001]), gives=0.0021 + 2 * start)
    expect(prefetched_time, np.array([0.0, 1.0]), 1, millisecond, np.array([0.01, 0.02]), gives=0.031 + start)


@pytest.mark.points(0.5)
def test_mixed_layers(prefetched_time, constants):
    """A slow layer does not hide the copies of a quick one"""
    millisecond, start = constants.link_gb_per_s * 1e6, constants.start_us * 1e-6
    hit_rate, compute_time = np.array([1.0, 0.0, 0.0]), np.array([0.02, 0.001, 0.001])
    expect(prefetched_time, hit_rate, 1, 5 * millisecond, compute_time, gives=0.026 + start)


@pytest.mark.points(1)
def test_time_of_arrays(prefetched_time, solution, rng):
    """Hit rates of several caches at once, and arguments that stay as they were"""
    hit_rate, compute_time = rng.random((3, 2, 7)), rng.uniform(1e-4, 4e-3, 7)
    gives = solution.prefetched_time(hit_rate, 4, 4e7, compute_time)
    expect(prefetched_time, hit_rate, 4, 4e7, compute_time, gives=gives)
    expect_unchanged(prefetched_time, hit_rate, 4, 4e7, compute_time)


@pytest.mark.points(0.5)
def test_pinned_from_the_start(cache_hits, constants):
    """Pinned experts are there from the start, others from their first use on"""
    other = constants.pinned
    expect(cache_hits, np.array([[0], [other], [other], [other - 1]]), other + 1, gives=np.array([1, 0, 1, 1]))


@pytest.mark.points(1)
def test_all_at_once(cache_hits, constants):
    """A step looks up all its choices before any is loaded"""
    a = constants.pinned
    b, c = a + 1, a + 2
    expect(cache_hits, np.array([[0, a], [b, a], [a, 1]]), a + 1, gives=np.array([1, 1, 2]))
    expect(cache_hits, np.array([[a, b], [c, a], [b, c], [a, c]]), a + 2, gives=np.array([0, 1, 1, 1]))


@pytest.mark.points(0.5)
def test_edges_of_the_cache(cache_hits, constants):
    """Pinned experts take slots; a cache that holds all misses each once; no steps, no hits"""
    a = constants.pinned
    expect(cache_hits, np.array([[a, 0], [0, a]]), a, gives=np.array([1, 1]))
    expect(cache_hits, np.array([[a, a + 1], [0, a], [a + 1, a]]), a + 9, gives=np.array([0, 2, 2]))
    expect(cache_hits, np.zeros((0, 2), int), a + 1, gives=np.zeros(0, int))


@pytest.mark.points(1)
def test_long_trace(cache_hits, solution, rng):
    """A long trace, for several sizes, which stays as it was"""
    trace = rng.random((200, 24)).argsort(axis=1)[:, :4]
    for slots in (6, 9, 15):
        expect(cache_hits, trace, slots, gives=solution.cache_hits(trace, slots))
    expect_unchanged(cache_hits, trace, 9)


@pytest.mark.points(1)
def test_one_expert(split_step, constants):
    """One expert: few tokens stay on the host, many are worth a copy"""
    params = 2e6 * constants.link_gb_per_s  # half a byte each: 1 ms on the link
    read = 0.5 * params / (constants.memory_gb_per_s * 1e9)
    expect(split_step, np.array([1]), params, gives=(0, read))
    expect(split_step, np.array([10000]), params, gives=(1, 0.001))


@pytest.mark.points(1)
def test_both_at_once(split_step, constants):
    """The host computes one expert while another is copied"""
    params = 2e6 * constants.link_gb_per_s
    even = 0.001 * constants.host_tflops * 1e12 / (2 * params)  # tokens that keep the host busy for 1 ms
    expect(split_step, np.array([int(0.9 * even)] * 2), params, gives=(1, 0.001))
    on_host = 2 * int(1.3 * even) * params / (constants.host_tflops * 1e12)
    expect(split_step, np.array([int(1.3 * even), int(20 * even)]), params, gives=(1, on_host))


@pytest.mark.points(0.5)
def test_untouched(split_step, constants):
    """An expert without tokens costs nothing"""
    read = 0.5 * 4e7 / (constants.memory_gb_per_s * 1e9)
    expect(split_step, np.array([0, 1, 0, 0]), 4e7, gives=(0, read))
    expect(split_step, np.array([0, 0, 0]), 4e7, gives=(0, 0.0))


@pytest.mark.points(1.5)
def test_many_experts(split_step, solution, rng):
    """Many experts in any order, which stays as it was"""
    for mean in (0.5, 5, 60):
        tokens = rng.poisson(rng.gamma(0.5, 2 * mean, 64))
        expect(split_step, tokens, 4.4e7, gives=solution.split_step(tokens, 4.4e7))
    expect_unchanged(split_step, tokens, 4.4e7)


SMALL = np.array([[0.7, 0.15, 0.1, 0.05], [0.4, 0.3, 0.2, 0.1]])  # two layers of four experts, one a token


@pytest.mark.points(1)
def test_hold_the_popular(choose_bits, constants):
    """The most popular experts are held, whichever their layer"""
    usable = (1 + constants.staging + 4.5) * 1e6  # the always-active part, staging, and four experts more
    read, copy = 3e6 / (constants.card_gb_per_s * 1e9), 0.4e6 / (constants.link_gb_per_s * 1e9)
    expect(choose_bits, [8], SMALL, usable, 1e6, 1e6, 1.0, gives=(8, [1, 3], read + copy))
    expect(choose_bits, [8], SMALL, usable + 1e6, 1e6, 1e6, 1.0, gives=(8, [2, 3], read + copy * 0.25 / 0.4))


@pytest.mark.points(1)
def test_most_bits(choose_bits, constants):
    """The most bits that meet the target; none does: the fewest"""
    usable = (1 + constants.staging + 4.5) * 1e6
    read, copy = 3e6 / (constants.card_gb_per_s * 1e9), 0.4e6 / (constants.link_gb_per_s * 1e9)
    eight, four = (8, [1, 3], read + copy), (4, [4, 4], read / 2)
    expect(choose_bits, [4, 8], SMALL, usable, 1e6, 1e6, 1.01 * (read + copy), gives=eight)
    expect(choose_bits, [4, 8], SMALL, usable, 1e6, 1e6, 0.99 * (read + copy), gives=four)
    expect(choose_bits, [8, 4], SMALL, usable, 1e6, 1e6, 0.1 * read, gives=four)


@pytest.mark.points(0.5)
def test_what_fits(choose_bits, constants):
    """A precision that leaves no room for staging is out, however late the target"""
    usable = (1 + constants.staging + 0.5) * 1e6
    read, copy = 3e6 / (constants.card_gb_per_s * 1e9), 2e6 / (constants.link_gb_per_s * 1e9)
    expect(choose_bits, [8, 16], SMALL, usable, 1e6, 1e6, 1.0, gives=(8, [0, 0], read + copy))


@pytest.mark.points(1.5)
def test_a_larger_model(choose_bits, solution, rng):
    """A larger model, its bits in any order, its arrays as they were"""
    popularity = 2 * rng.dirichlet(np.full(32, 0.8), 6)
    model = (popularity, 2.51e9, 5e8, 4.5e7)
    times = [solution.choose_bits([each], *model, 1.0)[2] for each in (3, 4, 5)]
    for target in (times[2] * 1.1, (times[1] + times[2]) / 2, times[0] * 0.9):
        gives = solution.choose_bits([4, 16, 3, 8, 5], *model, target)
        expect(choose_bits, [4, 16, 3, 8, 5], *model, target, gives=gives)
    expect_unchanged(choose_bits, [4, 16, 3], *model, 0.1)
