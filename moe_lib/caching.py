"""Caches of experts: hit rates of a trace at every size, and what theory says of them.

Symbols: E routed experts in a layer, k chosen per token, c cache slots a layer, r the share of choices that repeat the
token before. A *trace* is the sequence of experts that one layer's tokens chose.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._arguments import ABOVE_ZERO, Numbers, require, whole_number
from .routing import sample_routing

CELLS_PER_STEP = 1 << 18  # ranks moved at once by lru_hit_rates: they stay in a core's cache


def lru_hit_rates(trace: ArrayLike, num_experts: int) -> NDArray[np.float64]:
    """Hit rate of an LRU cache of every size, from one pass over a trace.

    An access hits a cache of c slots if fewer than c other experts were used since the last access to the same one (its
    stack distance) [Mattson et al. 1970].

    Parameters
    ----------
    trace : array_like of int
        Experts 0..E-1 in order of use; [tokens, k] is read token by token.
    num_experts : int
        E, the routed experts of a layer.

    Returns
    -------
    ndarray [E + 1]
        Share of accesses that hit with 0, 1, .., E slots. The cache starts empty.

    Raises
    ------
    ValueError
        If the trace is empty or holds anything but experts 0..E-1.

    >>> print(lru_hit_rates([0, 1, 0, 2, 1, 0], 3).round(2))
    [0.   0.   0.17 0.5 ]
    """
    trace, E = _trace(trace, num_experts)
    segments = min(max(CELLS_PER_STEP // E, 1), trace.size)
    length = -(-trace.size // segments)
    first = np.zeros(E, np.intp)
    first[trace[::-1]] = np.arange(trace.size)[::-1]  # the latest assignment stays
    padded = np.zeros(segments * length, np.intp)
    padded[:trace.size] = trace
    ranks = _ranks_at_start(padded.reshape(segments, length), trace.size, E)
    flat, row = ranks.reshape(-1), np.arange(segments) * E
    distance = np.empty((length, segments), ranks.dtype)
    for step, at in enumerate(np.ascontiguousarray(padded.reshape(segments, length).T)):
        at = at + row  # all segments move on by one access
        distance[step] = flat[at]
        ranks += ranks < distance[step][:, None]
        flat[at] = 0
    counts = np.bincount(distance.T.ravel()[:trace.size], minlength=E)
    used = np.flatnonzero(np.bincount(trace))
    counts -= np.bincount(distance.T.ravel()[first[used]], minlength=E)  # a first use hits no cache
    return np.concatenate([[0], np.cumsum(counts)]) / trace.size


def _ranks_at_start(segments, size, num_experts):
    """Place of every expert in the LRU stack when each segment of a trace begins [segments, E]; unused ones behind."""
    count, length = segments.shape
    last = np.tile(-1 - np.arange(num_experts), (count + 1, 1))
    when = np.arange(count * length).reshape(count, length)
    in_trace = when < size
    last[1 + when[in_trace] // length, segments[in_trace]] = when[in_trace]  # the latest assignment stays
    order = np.argsort(-np.maximum.accumulate(last[:-1]), axis=1)
    ranks = np.empty(order.shape, np.min_scalar_type(num_experts - 1))
    np.put_along_axis(ranks, order, np.arange(num_experts, dtype=ranks.dtype)[None], axis=1)
    return ranks


def optimal_hit_rates(trace: ArrayLike, num_experts: int) -> NDArray[np.float64]:
    """Hit rate of the best cache of every size: it evicts the expert whose next use is farthest off [Belady 1966].

    Parameters, result and errors as `lru_hit_rates`. It knows the future, so no cache that keeps what it loads does
    better. One pass over the stack that orders experts by next use; about 10 us an access.

    >>> print(optimal_hit_rates([0, 1, 0, 2, 1, 0], 3).round(2))
    [0.   0.   0.33 0.5 ]
    """
    trace, E = _trace(trace, num_experts)
    again = _next_use(trace)
    stack, hits = np.full(E, np.iinfo(np.int64).max), np.zeros(E, int)
    held = 0  # experts on the stack; each stands there as the time of its next use
    for now, then in enumerate(again):
        found = np.flatnonzero(stack[:held] == now)
        depth = found[0] if found.size else held
        if found.size:
            hits[depth] += 1
        else:
            held += 1
        farthest = np.maximum.accumulate(stack[:depth])  # who is carried down past each place
        stack[1:depth] = np.minimum(farthest[:-1], stack[1:depth])
        if depth:
            stack[depth] = farthest[-1]
        stack[0] = then
    return np.concatenate([[0], np.cumsum(hits)]) / trace.size


def _next_use(trace):
    """When each access's expert is used next; past the end, and different for each, where it is not used again."""
    order = np.argsort(trace, kind="stable")
    again = np.empty(trace.size, np.int64)
    again[order[:-1]] = order[1:]
    last = np.flatnonzero(np.diff(trace[order], append=-1))
    again[order[last]] = trace.size + np.arange(last.size)
    return again


def che_hit_rate(popularity: ArrayLike, cache_size: ArrayLike, *, top_k: int = 1) -> Numbers:
    """Hit rate of an LRU cache under independent draws, by Che's approximation.

    An expert stays T draws after its last use, the same T for all: ``sum_i 1 - exp(-p_i T) = c`` gives T, and the hit
    rate is ``sum_i p_i (1 - exp(-p_i T))``. With top_k > 1 a draw is a token of k distinct experts: ``exp(-p_i T)``
    becomes ``(1 - pi_i)^T`` with ``pi_i = k p_i``. A token never asks for an expert twice, which costs half a token of
    each stay but 1/2k: hits need ``T - (k - 1) / 2k``.

    Parameters
    ----------
    popularity : array_like [E]
        Share of accesses by expert, or inclusion probabilities; scaled to sum to 1.
    cache_size : array_like
        c, slots, 0 to E.
    top_k : int
        k, distinct experts of a token.

    Returns
    -------
    float or ndarray
        Hit rate, of cache_size's shape. Within 0.01 of simulation for single draws, and for top-k draws from 2k slots.

    Raises
    ------
    ValueError
        If popularity is no list of numbers, one is negative or above 1/k of the sum, all are zero, or cache_size is
        outside 0..E.

    Notes
    -----
    Source: notebook 06, eq. 6.4. Breaks below 2k slots under strong skew, and when tokens reuse experts of the token
    before (`reuse_hit_rate`).

    >>> print(che_hit_rate([0.25] * 4, [0, 1, 2, 4]).round(2), f"{che_hit_rate([1] * 256, 32, top_k=8):.3f}")
    [0.   0.25 0.5  1.  ] 0.113
    """
    from scipy.optimize import brentq

    p = np.atleast_1d(require("popularity", popularity, 0)) * 1.0
    require("dimensions of popularity", p.ndim, 1, 1)
    require("experts in popularity", p.size, 1)
    size = require("cache_size", cache_size, 0, p.size) * 1.0
    top_k = whole_number("top_k", top_k, 1, p.size)
    p = p / require("sum of popularity", p.max(), ABOVE_ZERO)
    p = p[p > 1e-280] / p.sum()  # one that rare is never asked for
    require("share of an expert", p, 0, (1 + 1e-9) / top_k)
    rate = p if top_k == 1 else -np.log1p(-np.minimum(top_k * p, 1 - 1e-9))

    def hit(c):
        if c == 0 or c >= p.size:
            return float(c > 0)
        ends = np.log(c) - np.log(rate.sum()) - 1, np.log(800) - np.log(rate.min())
        stay = np.exp(brentq(lambda log_T: c + np.expm1(-rate * np.exp(log_T)).sum(), *ends))
        return (p * -np.expm1(-rate * max(stay - (top_k - 1) / (2 * top_k), 0))).sum() + 0.0

    return np.reshape([hit(c) for c in np.ravel(size)], np.shape(size))[()]


def reuse_hit_rate(popularity: ArrayLike, cache_size: ArrayLike, reuse: ArrayLike, *, top_k: int = 1) -> Numbers:
    """Hit rate of an LRU cache when a share `reuse` of the accesses repeats the token before: r + (1 - r) Che.

    Parameters
    ----------
    popularity, cache_size, top_k
        As `che_hit_rate`.
    reuse : array_like
        r in [0, 1], broadcast against cache_size. `reuse_from_repetition` finds it from published repetition rates.

    Returns
    -------
    float or ndarray
        0 without slots. Fewer than the k slots of a token keep less than r.

    Raises
    ------
    ValueError
        As `che_hit_rate`, or if reuse is outside [0, 1].

    >>> print(f"{reuse_hit_rate([0.125] * 8, 4, 0.2):.2f}")
    0.60
    """
    reuse = require("reuse", reuse, 0, 1)
    fresh = che_hit_rate(popularity, cache_size, top_k=top_k)
    return np.where(np.greater(cache_size, 0), reuse + (1 - reuse) * fresh, 0.0)[()]


def reuse_from_repetition(repetition: ArrayLike, num_experts: int, top_k: int) -> Numbers:
    """Reuse r that yields a published repetition rate: P(consecutive tokens share an expert of a layer).

    Each of the k choices is kept with probability r, else drawn afresh; no repetition needs k fresh choices that avoid
    the k before: ``1 - (1 - r)^k C(E-k, k)/C(E, k)``.

    Returns
    -------
    float or ndarray
        r in [0, 1]; 0 where the rate is at or below that of independent tokens.

    Raises
    ------
    ValueError
        If repetition is outside [0, 1] or top_k outside 1..num_experts/2.

    Notes
    -----
    Source: notebook 06, eq. 6.7.

    >>> print(f"{reuse_from_repetition(0.65, 8, 2):.2f}")
    0.19
    """
    num_experts = whole_number("num_experts", num_experts, 2)
    top_k = whole_number("top_k", top_k, 1, num_experts // 2)
    taken = np.arange(top_k)
    apart = np.prod((num_experts - top_k - taken) / (num_experts - taken))
    return np.maximum(0, 1 - ((1 - require("repetition", repetition, 0, 1)) / apart) ** (1 / top_k))


def sample_trace(rng: np.random.Generator, num_tokens: int, num_experts: int, top_k: int, *,
                 inclusion: ArrayLike | None = None, reuse: float = 0) -> NDArray[np.int64]:
    """Experts that consecutive tokens of one layer choose: each choice repeats the token before with chance `reuse`.

    Parameters
    ----------
    rng : numpy.random.Generator
    num_tokens, num_experts, top_k, inclusion
        As `routing.sample_routing`, which draws the choices that are not repeated.
    reuse : float
        r in [0, 1]. 0: tokens are independent. With skew, a repeated popular expert makes room for the others, so
        popularity is met only nearly.

    Returns
    -------
    ndarray of int [num_tokens, top_k]
        Distinct within a token.

    Raises
    ------
    ValueError
        If reuse is outside [0, 1], or as `routing.sample_routing`.

    >>> sample_trace(np.random.default_rng(0), 1000, 8, 2, reuse=1).std(axis=0)
    array([0., 0.])
    """
    reuse = require("reuse", reuse, 0, 1, one=True)
    fresh = sample_routing(rng, num_tokens, num_experts, top_k, inclusion=inclusion)
    fresh = rng.permuted(fresh, axis=1)
    kept = rng.random(fresh.shape) < reuse
    kept[:1] = False
    again = np.flatnonzero(kept.any(axis=1))
    for token in again:  # those before it are settled
        stay = fresh[token - 1][kept[token]]
        drawn = fresh[token]
        new = drawn[~np.isin(drawn, stay)]
        fresh[token] = np.concatenate([stay, new[:top_k - stay.size]])
    return fresh


def _trace(trace: ArrayLike, num_experts: int) -> tuple[NDArray[np.intp], int]:
    E = whole_number("num_experts", num_experts, 1)
    experts = np.asarray(require("trace", trace, 0, E - 1, whole=True)).ravel().astype(np.intp)
    require("accesses of the trace", experts.size, 1)
    return experts, E
