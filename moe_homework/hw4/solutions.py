"""Reference solutions of homework 4. A constant of the questions is a keyword
with its value in variant 0.
"""

import numpy as np


def held_bytes(always_bytes, expert_bytes, num_experts, cache_bytes,
               sequences, num_gpus, *, spare=32):
    """Experts and sequences come whole, so the fullest GPU counts: both are
    rounded up.
    """
    slots = np.ceil(np.divide(num_experts + spare, num_gpus))
    caches = np.ceil(np.divide(sequences, num_gpus))
    return always_bytes + slots * expert_bytes + caches * cache_bytes


def sent_bytes(home, gpus, d_model, *, block=128, node_gpus=8):
    """Mark each GPU that a token reaches, by node and place: doubles vanish,
    and nodes are counted along an axis.

    A copy enters a node at the token's own place, so the GPU there needs no
    hop; at home that GPU is the token's own.
    """
    token = np.arange(len(home))
    nodes = max(gpus.max(initial=0), home.max(initial=0)) // node_gpus + 1
    reached = np.zeros((len(home), nodes, node_gpus), bool)
    reached[token[:, None], gpus // node_gpus, gpus % node_gpus] = True
    crossed = reached.any(axis=2)
    crossed[token, home // node_gpus] = False
    arrived = reached[token, :, home % node_gpus].sum(axis=1)
    hops = reached.sum(axis=(1, 2)) - arrived
    size = d_model + 4 * d_model / block
    return crossed.sum(axis=1) * size, hops * size


def gpu_times(tokens, expert_of_slot, num_gpus, read_time, token_time, *,
              tile=64):
    """A slot with tokens is read once and computes whole tiles; the larger of
    both sums is a GPU's time.
    """
    tokens, held = np.asarray(tokens), np.asarray(expert_of_slot)
    copies = np.bincount(held, minlength=tokens.size)[held]
    earlier = [np.sum(held[:slot] == held[slot]) for slot in range(held.size)]
    # The first copies take what does not divide
    got = (tokens[held] + copies - 1 - np.array(earlier)) // copies
    padded = -(-got // tile) * tile
    touched, computed = (
        of.reshape(num_gpus, -1).sum(axis=1) for of in (got > 0, padded))
    return np.maximum(touched * read_time, computed * token_time)


def share_spares(loads, spares, *, most_copies=4):
    """Cut the largest piece of all layers, again and again: no other way
    leaves smaller largest pieces (page 08).
    """
    loads = np.asarray(loads, float)
    copies = np.ones(loads.shape, int)
    for _ in range(min(spares, loads.size * (most_copies - 1))):
        piece = np.where(copies < most_copies, loads / copies, -1)
        copies[np.unravel_index(piece.argmax(), loads.shape)] += 1
    return copies


def best_layout(layouts, model, target, *, usable_gb=136,
                reads_gb_per_s=3000, overhead_ms=5):
    """In each legal layout take the most sequences that fit and meet the
    target; then the most tokens/s of a GPU.

    More sequences always make more tokens/s, because weights are read once
    for all of them.
    """
    best = (0, 0, 0, 0.0)
    for gpus, tp in layouts:
        if gpus % tp or model["num_experts"] % gpus:
            continue
        always = model["always_bytes"] / tp
        experts = model["experts_bytes"] / gpus
        cache = model["cache_bytes"] / min(tp, model["kv_heads"])
        fit = int((usable_gb * 1e9 - always - experts) // cache)
        each = np.arange(1, max(fit, 0) + 1)  # sequences of one copy
        batch = each * (gpus // tp)
        touched = 1 - (1 - model["top_k"] / model["num_experts"]) ** batch
        read = always + touched * experts + each * cache
        seconds = overhead_ms * 1e-3 + read / (reads_gb_per_s * 1e9)
        quick = np.flatnonzero(seconds <= target)
        if quick.size:
            last = quick[-1]
            speed = float(batch[last] / seconds[last] / gpus)
            found = gpus, tp, int(batch[last]), speed
            best = max(best, found, key=lambda row: row[3])
    return best
