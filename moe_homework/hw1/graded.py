"""Graded tests of homework 1: ordinary pytest tests. A question's function comes as a fixture, points as a marker."""

import numpy as np
import pytest

from moe_homework.expect import expect, expect_unchanged


@pytest.mark.points(1)
def test_one_token(share_read, constants):
    """One token reads its k experts and the shared ones"""
    expect(share_read, 8, 2, 1, gives=(2 + constants.shared) / (8 + constants.shared))
    expect(share_read, 64, 4, 1, gives=(4 + constants.shared) / (64 + constants.shared))


@pytest.mark.points(1)
def test_two_tokens(share_read, constants):
    """Two tokens may meet at an expert, which is read once"""
    expect(share_read, 4, 2, 2, gives=(3 + constants.shared) / (4 + constants.shared))


@pytest.mark.points(0.5)
def test_empty_step(share_read, constants):
    """A step without tokens still reads the shared experts"""
    expect(share_read, 256, 8, 0, gives=constants.shared / (256 + constants.shared))


@pytest.mark.points(0.5)
def test_arrays_of_steps(share_read, solution, rng):
    """Arrays broadcast, and stay as they were"""
    num_experts, batch = np.array([[64], [256]]), np.sort(rng.integers(1, 5000, 40))
    gives = solution.share_read(num_experts, 8, batch)
    expect(share_read, num_experts, 8, batch, gives=gives, elementwise=True)
    expect_unchanged(share_read, num_experts, 8, batch)


@pytest.mark.points(1)
def test_ten_tokens(sequences_needed, constants):
    """0.999 of experts that are chosen every other time take ten tokens, 0.7 of them two"""
    expect(sequences_needed, 0.999, 2, 1, gives=-(-10 // (1 + constants.draft)))
    expect(sequences_needed, 0.7, 2, 1, gives=1)


@pytest.mark.points(0.5)
def test_ends_of_the_curve(sequences_needed, constants):
    """Nothing takes no sequence, everything takes one where k = E and no number otherwise"""
    most = -(-17 // (1 + constants.draft))  # 16.01 tokens
    share, top_k = np.array([0.99, 0, 0.5, 1, 1]), np.array([2, 2, 8, 8, 2])
    expect(sequences_needed, share, 8, top_k, gives=[most, 0, 1, 1, np.inf], elementwise=True)


@pytest.mark.points(0.5)
def test_share_reached_exactly(sequences_needed, constants):
    """A share that is reached exactly takes no further sequence"""
    sequences = np.arange(1, 21)
    share = 1 - (1 - 8 / 256) ** (sequences * (1 + constants.draft))
    expect(sequences_needed, share, 256, 8, gives=sequences, elementwise=True)


@pytest.mark.points(1)
def test_arrays_of_shares(sequences_needed, solution, rng):
    """Arrays broadcast, and stay as they were"""
    share, num_experts = rng.uniform(0.3, 0.999, 30), np.array([[16], [64], [256]])
    gives = solution.sequences_needed(share, num_experts, 4)
    expect(sequences_needed, share, num_experts, 4, gives=gives, elementwise=True)
    expect_unchanged(sequences_needed, share, num_experts, 4)


@pytest.mark.points(1)
def test_few_counts(experts_from_counts, constants):
    """An expert with a quarter of all choices is in k of 4 tokens' choices, one without any in none"""
    p, q = constants.chosen / 4, constants.chosen / 8
    counts = np.array([[4, 2, 2, 2, 2, 2, 2, 0]])
    gives = np.array([[p + 6 * q, 1 - (1 - p) ** 2 + 6 * (1 - (1 - q) ** 2)]])
    expect(experts_from_counts, counts, np.array([1, 2]), gives=gives)


@pytest.mark.points(0.5)
def test_layer_without_counts(experts_from_counts, constants):
    """A layer without counts is uniform, and the layers beside it are not touched by that; counts stay as they were"""
    k = constants.chosen
    counts = np.array([[0, 0, 0, 0, 0], [3, 3, 3, 3, 0]])
    gives = np.array([[k, 5 * (1 - (1 - k / 5) ** 2)], [k, 4 * (1 - (1 - k / 4) ** 2)]])
    expect(experts_from_counts, counts, np.array([1, 2]), gives=gives)
    expect_unchanged(experts_from_counts, counts, np.array([1, 2]))


@pytest.mark.points(0.5)
def test_no_tokens_and_a_billion(experts_from_counts, constants):
    """No token touches nothing, a billion tokens touch every expert that has a count"""
    counts, batch = np.array([[9, 9, 9, 9, 4, 0]]), np.array([0, 1, 10**9])
    expect(experts_from_counts, counts, batch, gives=[[0, constants.chosen, 5]])


@pytest.mark.points(1)
def test_counts_of_layers(experts_from_counts, solution, rng):
    """One row a layer, one column a batch; arguments stay as they were"""
    counts, batch = rng.integers(0, 100, (5, 32)), np.sort(rng.integers(1, 200, 6))
    gives = solution.experts_from_counts(counts, batch)
    expect(experts_from_counts, counts, batch, gives=gives)
    expect_unchanged(experts_from_counts, counts, batch)


@pytest.mark.points(1)
def test_one_sequence(experts_for_drafts, constants):
    """The second token of a sequence finds an expert that the first missed only where it chooses anew"""
    gives = 2 * (0.5 + 0.5 * (1 - constants.repeat) * 0.5)
    expect(experts_for_drafts, np.array([0.5, 0.5]), 1, 1, gives=gives)


@pytest.mark.points(0.5)
def test_sequences_are_independent(experts_for_drafts, constants):
    """Only tokens of one sequence repeat: two sequences miss an expert with the square of the chance of one"""
    gives = 2 * (1 - (0.5 * (1 - 0.5 * (1 - constants.repeat))) ** 2)
    expect(experts_for_drafts, np.array([0.5, 0.5]), 2, 1, gives=gives)


@pytest.mark.points(0.5)
def test_certain_experts(experts_for_drafts, constants):
    """An expert with chance 1 is always touched, one with chance 0 never, and no sequence touches nothing"""
    once = 2 - 0.5 * (1 - 0.5 * (1 - constants.repeat)) ** 3
    expect(experts_for_drafts, np.array([1.0, 0.5, 0.0]), np.array([1, 0]), 3, gives=[once, 0])


@pytest.mark.points(1)
def test_arrays_of_drafts(experts_for_drafts, solution, rng):
    """Sequences and drafts broadcast; a draft of none is equation 2.4; arguments stay as they were"""
    inclusion, sequences, drafted = rng.random(64) / 4, np.array([[1], [4], [64]]), np.array([1, 0, 2, 5])
    gives = solution.experts_for_drafts(inclusion, sequences, drafted)
    expect(experts_for_drafts, inclusion, sequences, drafted, gives=gives)
    expect_unchanged(experts_for_drafts, inclusion, sequences, drafted)


@pytest.mark.points(1)
def test_small_step(most_sequences, constants):
    """Steps of 1, 2, 3, 4 sequences read 4, 6, 7.5 and 8.75 bytes, at 220 or 330 bytes a second"""
    sequences = np.arange(1, 20)
    read = 1 + 4 * (1 - 0.5**sequences) + sequences
    for speed in (220, 330):
        expect(most_sequences, 1, 1, 4, 2, 1, speed, gives=np.sum(read <= speed * constants.limit_ms / 1000))


@pytest.mark.points(0.5)
def test_nothing_in_time(most_sequences, constants):
    """Where not even one sequence is in time the answer is 0"""
    gives = [constants.limit_ms - 2, 0]  # a sequence more is a byte more: k = E
    expect(most_sequences, np.array([1, 50]), 0.5, 2, 2, 1, 1000.5, gives=gives, elementwise=True)


@pytest.mark.points(0.5)
def test_all_in_time(most_sequences, constants):
    """Where every number of sequences is in time the answer is the most that the scheduler takes"""
    expect(most_sequences, 1e9, 1e8, 64, 4, np.array([0, 1000]), 4.8e12, gives=[constants.most] * 2)


@pytest.mark.points(1)
def test_models(most_sequences, solution, rng):
    """One answer for each model of an array; arguments stay as they were"""
    always, expert = rng.uniform(2e9, 20e9, 12), rng.uniform(0.5e9, 2e9, 12)
    num_experts, top_k, cache = rng.choice([64, 128, 256], 12), rng.choice([4, 8], 12), rng.uniform(0.1e9, 0.8e9, 12)
    arguments = (always, expert, num_experts, top_k, cache, 16e12)
    gives = solution.most_sequences(*arguments)
    expect(most_sequences, *arguments, gives=gives, elementwise=True)
    expect_unchanged(most_sequences, *arguments)


@pytest.mark.points(1)
def test_models_and_machines(most_sequences, solution, rng):
    """Rows of machines against columns of models"""
    expert, bytes_per_s = rng.uniform(0.1e9, 3e9, 6), np.array([[4.8e12], [8e12], [38.4e12]])
    gives = solution.most_sequences(5e9, expert, 128, 8, 0.3e9, bytes_per_s)
    expect(most_sequences, 5e9, expert, 128, 8, 0.3e9, bytes_per_s, gives=gives, elementwise=True)
