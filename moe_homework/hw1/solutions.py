"""Reference solutions of homework 1. A constant of the questions is a keyword
with its value in variant 0.
"""

import numpy as np

from moe_lib.routing import batch_for_coverage, coverage, experts_touched


def share_read(num_experts, top_k, batch, *, shared=2):
    """The touched experts and all shared ones, over all there are. The shared
    ones do not depend on the batch.
    """
    touched = experts_touched(num_experts, top_k, batch)
    return (touched + shared) / (num_experts + shared)


def sequences_needed(share, num_experts, top_k, *, draft=3):
    """Tokens by equation 2.2; a sequence brings its own token and the drafted
    ones. Rounding errors add no sequence.
    """
    tokens = batch_for_coverage(share, num_experts, top_k)
    return np.ceil(tokens / (1 + draft) - 1e-9) + 0.0  # no -0.0


def experts_from_counts(counts, batch, *, chosen=2):
    """The counts hold k choices of each token, so p_i is k x count / sum.
    Then equation 2.4, summed and not averaged.

    A layer without counts is uniform, as if every expert had been counted
    once.
    """
    counts = np.where(np.sum(counts, axis=-1, keepdims=True) > 0, counts, 1)
    chance = chosen * counts / counts.sum(axis=-1, keepdims=True)
    missed = (1 - chance[:, None, :]) ** np.asarray(batch)[:, None]
    return np.sum(1 - missed, axis=-1)


def experts_for_drafts(inclusion, sequences, drafted, *, repeat=0.3):
    """A sequence misses an expert as the run of equation 2.6 does, with that
    expert's p. Sequences are independent.
    """
    p, sequences = np.asarray(inclusion), np.asarray(sequences)[..., None]
    drafted = np.asarray(drafted)[..., None]
    missed = (1 - p) * (1 - (1 - repeat) * p) ** drafted
    return np.sum(1 - missed**sequences, axis=-1)


def most_sequences(always_bytes, expert_bytes, num_experts, top_k,
                   cache_bytes, bytes_per_s, *, limit_ms=20, most=1024):
    """A step reads more with every sequence, so the largest number that is in
    time is how many numbers are.
    """
    always, expert, E, k, cache, speed = (
        np.asarray(argument, float)[..., None] for argument in (
            always_bytes, expert_bytes, num_experts, top_k, cache_bytes,
            bytes_per_s))
    sequences = np.arange(1, most + 1)
    read = always + E * coverage(E, k, sequences) * expert + sequences * cache
    return np.sum(1000 * read / speed <= limit_ms, axis=-1)
