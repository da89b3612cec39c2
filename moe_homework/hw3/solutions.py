"""Reference solutions of homework 3. A constant of the questions is a keyword with its value in variant 0."""

import numpy as np


def token_bytes(num_layers, top_k, d_model, d_expert, *, group=32, scale_bytes=2):
    """Half a byte for each weight, and a scale for each group of a row: the short last group has one too."""
    weights = 3 * np.multiply(d_model, d_expert) / 2
    scales = 2 * d_expert * np.ceil(np.divide(d_model, group)) + d_model * np.ceil(np.divide(d_expert, group))
    return num_layers * top_k * (weights + scale_bytes * scales)


def prefetched_time(hit_rate, top_k, expert_bytes, compute_time, *, link_gb_per_s=25, start_us=20):
    """The first layer's copies stand in the way; each later layer's run while the layer before it computes.

    So the larger counts in each pair, not over the whole step: one slow layer cannot hide another's copies.
    """
    copy = top_k * (1 - np.asarray(hit_rate)) * (start_us * 1e-6 + expert_bytes / (link_gb_per_s * 1e9))
    compute = np.asarray(compute_time)
    return copy[..., 0] + np.maximum(compute[:-1], copy[..., 1:]).sum(axis=-1) + compute[-1]


def cache_hits(trace, slots, *, pinned=2):
    """A list ordered by last use is an LRU cache: its end is what was used last. Pinned experts never enter it."""
    recent, found = [], []
    for step in np.asarray(trace).tolist():
        found.append(sum(expert < pinned or expert in recent for expert in step))
        loose = [expert for expert in step if expert >= pinned]
        recent = [expert for expert in recent if expert not in loose] + loose
        recent = recent[max(len(recent) - (slots - pinned), 0):]
    return np.array(found, int)


def split_step(tokens, expert_params, *, link_gb_per_s=25, memory_gb_per_s=200, host_tflops=2):
    """Every copy costs the same, so copy the experts that cost the host most; try every number of copies."""
    tokens = np.sort(np.asarray(tokens)[np.greater(tokens, 0)])  # few tokens first
    read, compute = 0.5 * expert_params / (memory_gb_per_s * 1e9), 2 * tokens * expert_params / (host_tflops * 1e12)
    on_host = np.cumsum([0, *np.maximum(read, compute)])[::-1]  # [c]: all but the c busiest
    seconds = np.maximum(np.arange(on_host.size) * 0.5 * expert_params / (link_gb_per_s * 1e9), on_host)
    return int(seconds.argmin()), seconds.min()


def choose_bits(bits, popularity, usable_bytes, always_params, expert_params, target, *, link_gb_per_s=25,
                card_gb_per_s=1000, staging=8):
    """From many bits to few: hold the most popular experts of all layers, and stop where the token is fast enough."""
    popularity = np.asarray(popularity)
    layers, num_experts = popularity.shape
    order = np.argsort(-popularity, axis=None)
    for each in sorted(bits, reverse=True):
        w = each / 8
        free = int((usable_bytes - w * always_params) // (w * expert_params)) - staging
        if free < 0:
            continue  # not even the staging slots fit
        held = order[:free]
        missed = popularity.sum() - popularity.flat[held].sum()
        read = w * (always_params + popularity.sum() * expert_params) / (card_gb_per_s * 1e9)
        seconds = read + missed * w * expert_params / (link_gb_per_s * 1e9)
        answer = each, np.bincount(held // num_experts, minlength=layers), seconds
        if seconds <= target:
            break
    return answer
