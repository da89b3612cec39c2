"""How many experts a batch touches: expectations, their spread, skew, and simulated routers.

Symbols: E routed experts in a layer, k chosen per token, B tokens in a decode step, p_i the probability that a token's
choice includes expert i (inclusion probability, sum of p_i = k).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._arguments import Numbers, require, whole_number

ROWS_PER_BLOCK = 1 << 22  # values drawn at once by sample_routing, to bound its memory


def coverage(num_experts: ArrayLike, top_k: ArrayLike, batch: ArrayLike) -> Numbers:
    """Expected share of routed experts that a decode step of `batch` tokens touches.

    ``C(B) = 1 - (1 - k/E)^B``: a token picks k distinct experts, every expert with probability k/E, tokens
    independently.

    Parameters
    ----------
    num_experts, top_k, batch : array_like
        E, k and B, broadcast together.

    Returns
    -------
    float or ndarray
        Share in [0, 1].

    Raises
    ------
    ValueError
        If top_k is not within 1..num_experts or batch is negative.

    Notes
    -----
    Source: notebook 02, eq. 2.1. The most that independent tokens touch in the mean: too high when routing is skewed
    (`coverage_of`) or tokens agree. So a time that follows from it is a lower bound for a uniform router only; the
    floor for every router is `least_experts_touched`.

    >>> print(coverage(256, 8, 1))
    0.03125
    >>> print(f"{coverage(256, 8, 64):.4f}")
    0.8689
    """
    E, k, B = _check(num_experts, top_k, batch)
    return 1 - (1 - k / E) ** B


def experts_touched(num_experts: ArrayLike, top_k: ArrayLike, batch: ArrayLike) -> Numbers:
    """Expected number of distinct experts that a decode step touches in one layer: ``E C(B)``.

    Parameters, errors and assumptions as `coverage`; returns experts.

    >>> print(f"{experts_touched(256, 8, 64):.1f}")
    222.4
    """
    return np.multiply(num_experts, coverage(num_experts, top_k, batch))


def experts_touched_std(num_experts: ArrayLike, top_k: ArrayLike, batch: ArrayLike) -> Numbers:
    """Standard deviation of the number of experts touched in one layer, in experts.

    With ``a = (1 - k/E)^B`` and ``b = ((E-k)(E-k-1) / (E(E-1)))^B``, the chances that one expert and that two given
    experts stay untouched: ``Var = E a (1 - a) + E (E-1) (b - a^2)``.

    Parameters and errors as `coverage`.

    Notes
    -----
    Assumes that all k-subsets of experts are equally likely (the mean needs less). Source: notebook 02, eq. 2.3.

    >>> print(f"{experts_touched_std(256, 8, 64):.2f}")
    4.48
    >>> print(experts_touched_std(8, 2, 1))
    0.0
    """
    E, k, B = _check(num_experts, top_k, batch)
    one = (1 - k / E) ** B
    two = ((E - k) * np.maximum(E - k - 1, 0) / (E * np.maximum(E - 1, 1))) ** B
    return np.sqrt(np.maximum(E * one * (1 - one) + E * (E - 1) * (two - one**2), 0))


def most_experts_touched(num_experts: ArrayLike, top_k: ArrayLike, batch: ArrayLike) -> Numbers:
    """Most experts that a decode step can touch in one layer, min(E, B k): strided routing reaches it, chance does not.

    Parameters and errors as `coverage`; returns experts.

    >>> print(most_experts_touched(256, 8, [1, 16, 64]))
    [  8. 128. 256.]
    """
    E, k, B = _check(num_experts, top_k, batch)
    return np.minimum(E, B * k)


def least_experts_touched(num_experts: ArrayLike, top_k: ArrayLike, batch: ArrayLike) -> Numbers:
    """Fewest experts that a decode step can touch in one layer, k: all its tokens agree. The floor for every router.

    Parameters and errors as `coverage`; returns experts, 0 for no tokens. A step of such tokens: `agreeing_inclusion`.

    >>> print(least_experts_touched(256, 8, [0, 1, 64]))
    [0. 8. 8.]
    """
    _, k, B = _check(num_experts, top_k, batch)
    return k * np.minimum(B, 1)


def tokens_per_expert(num_experts: ArrayLike, top_k: ArrayLike, batch: ArrayLike) -> Numbers:
    """Mean tokens per expert over **all** experts, B k / E.

    Parameters and errors as `coverage`.

    >>> print(tokens_per_expert(256, 8, 64))
    2.0
    """
    E, k, B = _check(num_experts, top_k, batch)
    return B * k / E


def tokens_per_touched_expert(num_experts: ArrayLike, top_k: ArrayLike, batch: ArrayLike) -> Numbers:
    """Mean tokens per expert over the experts **touched**, ``B k / (E C(B))``; 1 for one token, nan for none.

    Parameters and errors as `coverage`.

    >>> print(f"{tokens_per_touched_expert(256, 8, 64):.2f}")
    2.30
    """
    return _ratio(tokens_per_expert(num_experts, top_k, batch), coverage(num_experts, top_k, batch))


def busiest_load(num_experts: ArrayLike, top_k: ArrayLike, batch: ArrayLike) -> Numbers:
    """Expected tokens of the busiest expert of a layer under uniform routing, ``E[max_i load_i]``.

    Every load is Binomial(B, k/E) with distribution function F. Independent loads would give M = sum over x of
    ``1 - F(x)^E``. Loads that sum to B k lie apart more than independent ones, since every pair has covariance
    -Var/(E-1): max = mean + sqrt(E/(E-1)) (M - mean), kept within the mean rounded up and B.

    Parameters and errors as `coverage`; batch must be whole.

    Notes
    -----
    Against simulation (tests): within 1.5 % from 16 tokens on, up to 7 % low for fewer.

    >>> print(busiest_load(256, 8, 1))
    1.0
    >>> print(f"{busiest_load(256, 8, 8192):.0f}")
    302
    """
    def one(E, k, B):
        mean = B * k / E
        certain, above = _chances_above(B, k / E)
        independent = certain + np.sum(1 - (1 - above) ** E)
        return np.clip(mean + np.sqrt(E / max(E - 1, 1)) * (independent - mean), np.ceil(mean), B)

    return np.vectorize(one, otypes=[float])(*_check(num_experts, top_k, batch, whole=True))[()]


def tile_rows(num_experts: ArrayLike, top_k: ArrayLike, batch: ArrayLike, tile: ArrayLike) -> Numbers:
    """Expected rows that a grouped matmul computes in a layer when every expert's tokens are filled up to whole tiles.

    E m (P(load > 0) + P(load > m) + P(load > 2m) + ...), load ~ Binomial(B, k/E). Of these rows, B k carry a token.
    Parameters, errors and assumptions otherwise as `busiest_load`.

    Parameters
    ----------
    tile : array_like
        m, rows of a tile; whole, broadcast against the others.

    >>> print(f"{tile_rows(256, 8, 64, 16):.0f} rows for {64 * 8} tokens")
    3559 rows for 512 tokens
    """
    def one(E, k, B, m):
        certain, above = _chances_above(B, k / E, step=m)
        return E * m * (certain + above.sum())

    tile = require("tile", tile, 1, whole=True)
    return np.vectorize(one, otypes=[float])(*_check(num_experts, top_k, batch, whole=True), tile)[()]


def dropped_share(num_experts: ArrayLike, top_k: ArrayLike, batch: ArrayLike, capacity: ArrayLike) -> Numbers:
    """Expected share of a layer's token-expert choices that lie beyond `capacity` tokens of their expert.

    ``E[max(load - c, 0)]`` over the mean load, ``load ~ Binomial(B, k/E)``; nan for no tokens. Parameters, errors and
    assumptions otherwise as `busiest_load`.

    Parameters
    ----------
    capacity : array_like
        c, rows that every expert has room for; whole, broadcast against the others.

    >>> print(f"{dropped_share(256, 8, 64, 3):.3f}")
    0.105
    """
    def beyond(E, k, B, c):
        certain, above = _chances_above(B, k / E, start=c)
        return certain + above.sum()

    capacity, (E, k, B) = require("capacity", capacity, 0, whole=True), _check(num_experts, top_k, batch, whole=True)
    return _ratio(np.vectorize(beyond, otypes=[float])(E, k, B, capacity), B * k / E)[()]


def independent_tokens(num_experts: ArrayLike, top_k: ArrayLike, run: ArrayLike, copy: ArrayLike) -> Numbers:
    """Independent tokens that touch as many experts as `run` consecutive tokens of one sequence.

    A token repeats the choice of the token before it with chance r and else chooses anew, so an expert escapes the run
    with chance ``(1 - k/E) (1 - (1 - r) k/E)^(run - 1)``. That is ``(1 - k/E)^B`` for
    ``B = 1 + (run - 1) ln(1 - (1 - r) k/E) / ln(1 - k/E)``. Pass batch x B to `coverage` or `decode_step`.

    Parameters
    ----------
    num_experts, top_k, run : array_like
        E, k and the length of the run, at least 1.
    copy : array_like
        r, within 0..1. Neighbours that share a part o of their experts have r = (o - k/E) / (1 - k/E).

    Returns
    -------
    float or ndarray
        Tokens within 1..run, not rounded; 1 where k = E, since one token then touches everything.

    Raises
    ------
    ValueError
        If top_k is not within 1..num_experts, run below 1 or copy outside [0, 1].

    Notes
    -----
    Source: notebook 02, eq. 2.6. Exact too when single experts are kept instead of whole choices, as long as an expert
    that the last token left out is taken with the same chance whatever came before.

    >>> print(independent_tokens(256, 8, 4, 0))
    4.0
    >>> print(f"{independent_tokens(256, 8, 2, 0.3):.2f}")
    1.70
    """
    E, k, _ = _check(num_experts, top_k, 0)
    run, copy = require("run", run, 1), require("copy", copy, 0, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.log1p(-(1 - copy) * k / E) / np.log1p(-k / E)
    return 1 + (run - 1) * np.where(k == E, 0, each)[()]


def coverage_of(inclusion: ArrayLike, batch: ArrayLike) -> Numbers:
    """Expected share of experts touched when experts differ: mean over i of ``1 - (1 - p_i)^B``.

    Never above `coverage` of the same E and k, since ``1 - (1 - p)^B`` is concave in p: uniform routing is an upper
    bound.

    Parameters
    ----------
    inclusion : array_like [..., E]
        Probability that a token chooses expert i; every row sums to the same whole k.
    batch : array_like
        B, broadcast against inclusion.shape[:-1].

    Returns
    -------
    float or ndarray
        Share in [0, 1], shape broadcast(inclusion.shape[:-1], batch).

    Raises
    ------
    ValueError
        If a probability is outside [0, 1], a row does not sum to a whole number, or batch is negative.

    Notes
    -----
    Source: notebook 02, eq. 2.4. Still assumes independent tokens.

    >>> print(coverage_of([0.5, 0.5, 0.5, 0.5], 3))
    0.875
    >>> print(coverage_of([1, 1, 0, 0], 3))
    0.5
    """
    top_k_of(inclusion)
    batch = np.asarray(require("batch", batch, 0))
    return np.mean(1 - (1 - np.asarray(inclusion, float)) ** batch[..., None], axis=-1)[()]


def top_k_of(inclusion: ArrayLike) -> int:
    """The k that inclusion probabilities [..., E] sum to, checked.

    Raises
    ------
    ValueError
        If a probability is outside [0, 1], or the rows do not all sum to one whole k >= 1 (within 1e-3).

    >>> print(top_k_of([0.5, 0.5, 1.0]))
    2
    """
    require("inclusion", inclusion, 0, 1)
    sums = np.sum(inclusion, axis=-1)
    top_k = int(np.rint(np.mean(sums)))
    require("sum of inclusion", sums, max(top_k, 1) - 1e-3, max(top_k, 1) + 1e-3)
    return top_k


def zipf_inclusion(num_experts: int, top_k: int, exponent: float) -> NDArray[np.float64]:
    """Inclusion probabilities [E] of a skewed router: proportional to ``1 / rank^exponent``, none above 1.

    What would lie above 1 is spread over the other experts in proportion, so the sum stays k. A stand-in for real
    loads, not a fit to them; exponent 0 is uniform.

    Raises
    ------
    ValueError
        If top_k is not within 1..num_experts or exponent is negative.

    >>> print(zipf_inclusion(4, 2, 0))
    [0.5 0.5 0.5 0.5]
    >>> print(zipf_inclusion(4, 2, 1).round(2))
    [0.96 0.48 0.32 0.24]
    """
    num_experts = whole_number("num_experts", num_experts, 1, 10**6)
    top_k = whole_number("top_k", top_k, 1, num_experts)
    exponent = require("exponent", exponent, 0, one=True)
    rank = np.arange(1.0, num_experts + 1)
    for certain in range(top_k):  # the first `certain` experts are always chosen
        inclusion = np.ones(num_experts)
        weight = (rank[certain:] / rank[certain]) ** -exponent  # the first is 1: no underflow of all of them
        inclusion[certain:] = (top_k - certain) * weight / weight.sum()
        if inclusion.max() <= 1:
            break
    return inclusion


def agreeing_inclusion(num_experts: int, top_k: int) -> NDArray[np.float64]:
    """Inclusion probabilities [E] of tokens that all choose the same k experts: k ones, and zeros.

    The floor for every router: ``decode_step(model, batch, inclusion=agreeing_inclusion(E, k))``.

    Raises
    ------
    ValueError
        If top_k is not within 1..num_experts.

    >>> print(agreeing_inclusion(4, 2))
    [1. 1. 0. 0.]
    """
    num_experts = whole_number("num_experts", num_experts, 1, 10**6)
    return (np.arange(num_experts) < whole_number("top_k", top_k, 1, num_experts)).astype(float)


def power_law_inclusion(rng: np.random.Generator, num_experts: int, top_k: int, exponent: float, most: float,
                        num_draws: int = 1) -> NDArray[np.float64]:
    """Inclusion probabilities [num_draws, E] of random skewed routers: loads of density ``~ x^-exponent`` on [1, most].

    Each draw is scaled to sum to k; what would lie above 1 is spread over the other experts in proportion.

    Parameters
    ----------
    rng : numpy.random.Generator
    num_experts, top_k : int
    exponent : float
    most : float
        The largest load possible over the smallest. NVIDIA's timed "power_law" inputs take 0.8 of the tokens.
    num_draws : int

    Raises
    ------
    ValueError
        If top_k is not within 1..num_experts, exponent is negative or most is below 1.

    >>> print(power_law_inclusion(np.random.default_rng(0), 4, 2, 1.2, 50).round(2))
    [[1.   0.5  0.26 0.24]]
    """
    num_experts = whole_number("num_experts", num_experts, 1, 10**6)
    top_k = whole_number("top_k", top_k, 1, num_experts)
    power, most = 1 - require("exponent", exponent, 0, one=True), require("most", most, 1, one=True) * 1.0
    u = rng.random((whole_number("num_draws", num_draws, 1), num_experts))
    loads = most**u if power == 0 else (1 + u * (most**power - 1)) ** (1 / power)  # u: share of loads below
    inclusion = top_k * loads / loads.sum(axis=1, keepdims=True)
    for _ in range(top_k):  # each round makes one more expert certain, or none
        free = inclusion < 1
        left = top_k - np.count_nonzero(~free, axis=1, keepdims=True)
        scaled = inclusion * left / np.maximum(np.sum(inclusion * free, axis=1, keepdims=True), 1e-300)
        inclusion = np.where(free, scaled, 1)
    return np.minimum(inclusion, 1)


def batch_for_coverage(share: ArrayLike, num_experts: ArrayLike, top_k: ArrayLike) -> Numbers:
    """Tokens in a step after which a share of the experts is touched: ln(1 - share) / ln(1 - k/E).

    Parameters
    ----------
    share : array_like
        Wanted share in [0, 1); 1 is reached only in the limit (inf), or at once where k = E.

    Returns
    -------
    float or ndarray
        Tokens, not rounded.

    Raises
    ------
    ValueError
        If share is outside [0, 1] or top_k outside 1..num_experts.

    Notes
    -----
    Source: notebook 02, eq. 2.2.

    >>> print(f"{batch_for_coverage(0.95, 256, 8):.3f}")
    94.358
    """
    share, (E, k, _) = require("share", share, 0, 1), _check(num_experts, top_k, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.log1p(-share) / np.log1p(-k / E)
    return np.where(k == E, np.ceil(share), needed)[()]


def batch_for_tokens_per_expert(tokens: ArrayLike, num_experts: ArrayLike, top_k: ArrayLike) -> Numbers:
    """Tokens in a step that give every expert `tokens` tokens **in the mean**: tokens E / k.

    Raises
    ------
    ValueError
        If tokens is negative or top_k outside 1..num_experts.

    >>> print(batch_for_tokens_per_expert(256, 256, 8))
    8192.0
    """
    tokens, (E, k, _) = require("tokens", tokens, 0), _check(num_experts, top_k, 0)
    return tokens * E / k


def sample_routing(rng: np.random.Generator, num_tokens: int, num_experts: int, top_k: int, *,
                   inclusion: ArrayLike | None = None, group_limit: tuple[int, int] | None = None) -> NDArray[np.int64]:
    """Choices of a simulated router: k distinct experts for every token, tokens independent.

    Parameters
    ----------
    rng : numpy.random.Generator
    num_tokens, num_experts, top_k : int
    inclusion : array_like [E], optional
        Probability that a token chooses expert i, sum k; met exactly in expectation. Default uniform, k/E.
    group_limit : (num_groups, groups_kept), optional
        A token's experts lie in at most `groups_kept` of `num_groups` equal, contiguous groups (DeepSeek's node limit).

    Returns
    -------
    ndarray of int [num_tokens, top_k]
        Distinct within each row, in no particular order.

    Raises
    ------
    ValueError
        If sizes do not fit, or if `inclusion` and `group_limit` cannot be met together: each kept group then gives
        k / groups_kept experts, so that must be whole, and no group may hold more than its share of the probability.

    >>> rng = np.random.default_rng(0)
    >>> choices = sample_routing(rng, 1000, 256, 8)
    >>> choices.shape, len(set(choices[0].tolist()))
    ((1000, 8), 8)
    """
    num_tokens = whole_number("num_tokens", num_tokens, 0)
    num_experts = whole_number("num_experts", num_experts, 1)
    top_k = whole_number("top_k", top_k, 1, num_experts)
    if inclusion is not None:
        inclusion = np.asarray(require("inclusion", inclusion, 0, 1))
        if inclusion.shape != (num_experts,):
            raise ValueError(f"inclusion must have shape ({num_experts},), got {inclusion.shape}")
        require("sum of inclusion", top_k_of(inclusion), top_k, top_k)
    group_limit = (1, 1) if group_limit is None else group_limit
    if not isinstance(group_limit, (tuple, list)) or len(group_limit) != 2:
        raise ValueError(f"group_limit must be (num_groups, groups_kept), got {group_limit!r}")
    groups = whole_number("num_groups of group_limit", group_limit[0], 1)
    kept = whole_number("groups_kept of group_limit", group_limit[1], 1, groups)
    if num_experts % groups or kept * num_experts // groups < top_k:
        raise ValueError(f"group_limit {group_limit} does not fit {num_experts} experts, {top_k} chosen: groups must "
                         "be of equal size and the kept ones must hold top_k experts")
    choose = _choose_uniform if inclusion is None else _choose_by_inclusion
    block = max(1, ROWS_PER_BLOCK // num_experts)
    rows = [choose(rng, min(block, num_tokens - start), num_experts, top_k, inclusion, groups, kept)
            for start in range(0, num_tokens, block)]
    return np.concatenate([np.empty((0, top_k), int), *rows])


def _choose_uniform(rng, rows, num_experts, top_k, _, groups, kept):
    score = rng.random((rows, groups, num_experts // groups))
    if kept < groups:
        dropped = np.argsort(rng.random((rows, groups)), axis=1)[:, kept:]
        np.put_along_axis(score, dropped[..., None], 2, axis=1)  # behind every score of a kept group
    return np.argpartition(score.reshape(rows, -1), top_k - 1, axis=1)[:, :top_k]


def _choose_by_inclusion(rng, rows, num_experts, top_k, inclusion, groups, kept):
    if kept == groups:
        return _systematic(rng, np.broadcast_to(inclusion, (rows, num_experts)), top_k)
    each = top_k // kept
    of_group = inclusion.reshape(groups, -1)
    group_inclusion = of_group.sum(axis=1) * kept / top_k
    if top_k % kept or group_inclusion.max() > 1 + 1e-9 or (of_group > group_inclusion[:, None] + 1e-9).any():
        raise ValueError(f"inclusion cannot be met with group_limit ({groups}, {kept}): every kept group gives "
                         f"top_k / groups_kept = {top_k / kept:g} experts, so no group may hold more than that, and no "
                         "expert more than its group's probability")
    group_inclusion = np.minimum(group_inclusion, 1)
    chosen = _systematic(rng, np.broadcast_to(group_inclusion, (rows, groups)), kept)  # [rows, kept]
    within = np.minimum(of_group / np.maximum(group_inclusion[:, None], 1e-300), 1)
    size = num_experts // groups
    expert = _systematic(rng, within[chosen].reshape(-1, size), each).reshape(rows, kept, each)
    return (chosen[..., None] * size + expert).reshape(rows, top_k)


def _systematic(rng, inclusion, count):
    """`count` distinct items a row of inclusion [n, m], each with its chance: systematic sampling in random order."""
    order = rng.permuted(np.broadcast_to(np.arange(inclusion.shape[1]), inclusion.shape), axis=1)
    mass = np.cumsum(1.0 * np.take_along_axis(inclusion, order, axis=1), axis=1)
    mass *= count / mass[:, -1:]
    mass[:, -1] = count
    counter = np.floor(mass + rng.random((len(mass), 1)))  # an item is chosen where this counter steps up
    steps = np.diff(counter, axis=1, prepend=0)
    return np.take_along_axis(order, np.argpartition(-steps, count - 1, axis=1)[:, :count], axis=1)


def _chances_above(batch, chance, start=0, step=1):
    """P(load > x), load ~ Binomial(batch, chance), x = start, start + step, ... < batch: (how many are 1, the rest).

    A load lies outside mean +- (12 standard deviations + 60) with a chance below 1e-16: those P are 1 or left out.
    """
    from scipy.special import betainc

    mean, far = batch * chance, 12 * np.sqrt(batch * chance) + 60
    certain = max(np.ceil((mean - far - start) / step), 0)
    x = np.arange(start + certain * step, min(np.ceil(mean + far), batch), step)
    return certain, betainc(x + 1, batch - x, chance)


def _ratio(above, below):
    with np.errstate(invalid="ignore"):
        return np.divide(above, below)


def _check(num_experts: ArrayLike, top_k: ArrayLike, batch: ArrayLike,
           whole: bool = False) -> tuple[Numbers, Numbers, Numbers]:
    """E, k and B as floats."""
    E = require("num_experts", num_experts, 1, whole=True)
    return E * 1.0, require("top_k", top_k, 1, E, whole=True) * 1.0, require("batch", batch, 0, whole=whole) * 1.0
