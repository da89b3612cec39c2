"""Uneven experts: how uneven, which to copy, where to put them, and what the slowest GPU makes of it.

Symbols: L layers, E experts, P GPUs. A *slot* holds one expert's weights: a *replica*, the first one of an expert too,
in EPLB's words a physical expert. Slots beyond E hold *redundant* experts. Replicas of an expert share its load
equally, and a *piece* is that share.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._arguments import Numbers, WeightBytes, require, whole_number
from ._callable import make_callable
from ._show import number
from .hardware import Device, find_device
from .layouts import linear_placement
from .models import MoEModel, find_model
from .offload import expert_bytes
from .routing import top_k_of

MOST_SWAPS = 200  # a layer is done long before
TWINS_COST = 1.001  # two replicas on one GPU waste a slot: only where it makes the fullest GPU 0.1 % emptier


class Placement(NamedTuple):
    """Which expert each slot holds, and how even that is.

    Attributes
    ----------
    expert_of_slot : ndarray of int [L, slots]
        GPU g holds slots g n .. (g + 1) n - 1, n = slots / P.
    max_over_mean : ndarray [L]
        Load of the fullest GPU over the mean: 1 is even.
    lower_bound : ndarray [L]
        No choice of replicas for as many slots, placed on as many GPUs, is more even.
    """

    expert_of_slot: np.ndarray
    max_over_mean: NDArray[np.float64]
    lower_bound: np.ndarray

    def __repr__(self):
        layers, slots = self.expert_of_slot.shape
        return (f"Placement({layers} x {slots} slots, max over mean {number(self.max_over_mean)}, "
                f"at least {number(self.lower_bound)})")


def balance(loads: ArrayLike, num_gpus: int, num_slots: int, *, num_nodes: int = 1, num_groups: int = 1) -> Placement:
    """Replicate the busiest experts and place all so that GPUs carry equal loads; deterministic.

    Each slot beyond E goes to the expert with the largest piece, which makes the largest piece as small as it can be.
    The pieces are placed from large to small on the least loaded GPU with a free slot. Then pieces of the fullest GPU
    are swapped for smaller ones elsewhere as long as that helps. With nodes, whole groups of experts are first spread
    over the nodes, and replicas stay in their node.

    Parameters
    ----------
    loads : array_like [L, E] or [E]
        Tokens, shares or inclusion probabilities.
    num_gpus, num_slots : int
        P, and slots over all GPUs, redundant ones included: a multiple of P, at least E.
    num_nodes, num_groups : int
        Hierarchical placement. As in DeepSeek's EPLB, groups that do not divide over the nodes mean a global one.

    Returns
    -------
    Placement
        With L = 1 for loads [E].

    Raises
    ------
    ValueError
        If a load is negative or a layer has none, or slots, GPUs, nodes and experts do not fit one another.

    Notes
    -----
    Source: notebook 08, eq. 8.3 and 8.4. The lower bound is max(1, largest piece P / total).

    >>> placement = balance([[90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86]], 8, 16)
    >>> print(f"{placement.max_over_mean[0]:.3f}, at least {placement.lower_bound[0]:.3f}")
    1.073, at least 1.000
    """
    loads = _layers("loads", loads)
    L, E = loads.shape
    require("loads of a layer", loads.sum(axis=1), np.finfo(float).tiny)
    P, slots, nodes, groups = (whole_number(name, value, 1) for name, value in [
        ("num_gpus", num_gpus), ("num_slots", num_slots), ("num_nodes", num_nodes), ("num_groups", num_groups)])
    if slots < E or slots % P or P % nodes or E % groups:
        raise ValueError(f"num_slots must be at least num_experts = {E} and a multiple of num_gpus, num_nodes must "
                         f"divide num_gpus and num_groups num_experts, got {slots} slots, {P} GPUs, {nodes} nodes, "
                         f"{groups} groups")
    if groups % nodes:
        nodes = groups = 1
    of_group = np.arange(E).reshape(groups, -1)
    kind = np.tile(np.arange(groups), (L, 1))
    at_node = _pack(loads.reshape(L, groups, -1).sum(axis=2), kind, nodes)  # [L, groups], node after node
    experts = of_group[at_node].reshape(L * nodes, E // nodes)
    here = np.take_along_axis(np.repeat(loads, nodes, axis=0), experts, axis=1)
    held, piece = _replicate(here, slots // nodes, P // nodes)
    order = _pack(piece, held, P // nodes)
    expert_of_slot = np.take_along_axis(experts, np.take_along_axis(held, order, axis=1), axis=1).reshape(L, slots)
    _, best = _replicate(loads, slots)
    bound = np.maximum(1, best.max(axis=1) * P / loads.sum(axis=1))
    return Placement(expert_of_slot, np.asarray(max_over_mean(gpu_loads(loads, expert_of_slot, P))), bound)


def gpu_loads(loads: ArrayLike, expert_of_slot: ArrayLike, num_gpus: int) -> NDArray[np.float64]:
    """Load of every GPU [L, P]; replicas share the load of their expert equally.

    Raises
    ------
    ValueError
        If a layer's slots leave an expert out or do not divide over the GPUs, or the layers are not equally many.

    >>> print(gpu_loads([[6, 2, 4]], [[0, 1, 0, 2]], 2))
    [[5. 7.]]
    """
    loads = _layers("loads", loads)
    return _by_gpu(loads / _copies(expert_of_slot, loads), expert_of_slot, num_gpus)


def copies_of(expert_of_slot: ArrayLike, num_experts: int) -> NDArray[np.int64]:
    """How many slots hold each expert [L, E].

    >>> print(copies_of([[0, 1, 0, 2]], 3))
    [[2 1 1]]
    """
    E = whole_number("num_experts", num_experts, 1)
    held = _layers("expert_of_slot", expert_of_slot)
    require("expert_of_slot", held, 0, E - 1, whole=True)
    held = held.astype(np.int64)
    counted = (np.arange(len(held))[:, None] * E + held).ravel()
    return np.bincount(counted, minlength=len(held) * E).reshape(len(held), E)


def max_over_mean(loads: ArrayLike) -> Numbers:
    """Largest over mean along the last axis: 1 is even.

    TensorRT-LLM reports this less 1 as its imbalance ratio, the mean over steps and layers (examples/wide_ep,
    report_load_statistics.py).

    >>> print(max_over_mean([3, 1, 2]))
    1.5
    """
    loads = np.atleast_1d(require("loads", loads, 0))
    require("number of loads", loads.shape[-1], 1)
    return np.max(loads, axis=-1) / np.mean(loads, axis=-1)


def balancedness(loads: ArrayLike) -> Numbers:
    """Mean over largest along the last axis, in (0, 1]: what vLLM and SGLang log under this name.

    Over several layers SGLang takes the mean of it (expert_distribution.py, there also called utilization rate). vLLM
    divides the sum of the layers' means by the sum of their largest loads (eplb_state.py; for a year, until August
    2026, it took mean and largest over layers instead of GPUs: vllm-project/vllm#51784).

    >>> print(f"{balancedness([3, 1, 2]):.2f}")
    0.67
    """
    return 1 / max_over_mean(loads)


class RankWork(NamedTuple):
    """Expected work of every GPU in the routed experts of a layer, [P] or [L, P].

    Attributes
    ----------
    experts_touched : ndarray
        Slots that the GPU must read.
    tokens : ndarray
        (Token, expert) pairs that it must compute.
    """

    experts_touched: np.ndarray
    tokens: np.ndarray

    def __repr__(self):
        return f"RankWork({number(self.experts_touched)} slots to read, {number(self.tokens)} tokens to compute)"


def rank_work(inclusion: ArrayLike, expert_of_slot: ArrayLike, num_gpus: int, batch: int) -> RankWork:
    """What each GPU must read and compute for its slots, in the mean.

    A token that chooses an expert goes to one of its c replicas by chance, so a replica is touched with probability
    ``1 - (1 - p/c)^B``: replicas spread tokens and add reads.

    Parameters
    ----------
    inclusion : array_like [E] or [L, E]
        Probability that a token chooses each expert (sums to k).
    expert_of_slot : array_like of int [slots] or [L, slots]
        As `Placement.expert_of_slot`.
    num_gpus, batch : int

    Returns
    -------
    RankWork

    Raises
    ------
    ValueError
        As `gpu_loads` and `routing.top_k_of`, or if batch is negative.

    Notes
    -----
    Source: notebook 08, eq. 8.1. The mean of each GPU: chance alone makes the fullest of them fuller still.

    >>> for slots in range(8), [0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 6, 7]:
    ...     work = rank_work([1] + [1 / 7] * 7, list(slots), 4, 4)
    ...     print(work.experts_touched.round(2), work.tokens.round(2))
    [1.46 0.92 0.92 0.92] [4.57 1.14 1.14 1.14]
    [1.64 1.51 1.64 1.38] [2.17 1.94 2.17 1.71]
    """
    top_k_of(inclusion)
    tokens, layers = require("batch", batch, 0, one=True), _layers("inclusion", inclusion)
    share = layers / _copies(expert_of_slot, layers)
    work = [_by_gpu(each, expert_of_slot, num_gpus) for each in (1 - (1 - share) ** tokens, tokens * share)]
    one_layer = np.ndim(inclusion) == 1 and np.ndim(expert_of_slot) == 1
    return RankWork(*(each[0] if one_layer else each for each in work))


def rank_times(model: MoEModel | str, work: RankWork, device: Device | str, dtype: str = "bf16", *,
               weight_bytes: WeightBytes = None) -> NDArray[np.float64]:
    """Seconds of the routed experts of a layer on each GPU: max(bytes touched / bandwidth, FLOP / peak).

    The step waits for the largest. It is not the mean times max/mean of the tokens while reading binds.

    Parameters
    ----------
    model : MoEModel
    work : RankWork
    device, dtype
        As `roofline.step_time`.
    weight_bytes
        As `steps.decode_step`.

    Returns
    -------
    ndarray
        Seconds, shaped as the fields of work.

    Notes
    -----
    Source: notebook 08, eq. 8.2.

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> v3, even = CATALOG["deepseek-v3"], [8 / 256] * 256
    >>> for batch in 64, 65536:
    ...     work = rank_work(even, range(256), 32, batch)
    ...     print(f"{rank_times(v3, work, DEVICES['h200'], 'fp8', weight_bytes=1).max() * 1e6:.0f} us")
    64 us
    729 us
    """
    return np.maximum(*rank_terms(model, work, device, dtype, weight_bytes=weight_bytes))


class Terms(NamedTuple):
    """Seconds of reading and of computing."""

    reading: np.ndarray
    computing: np.ndarray

    def __repr__(self):
        return f"Terms(reading {number(self.reading, 's')}, computing {number(self.computing, 's')})"


def rank_terms(model: MoEModel | str, work: RankWork, device: Device | str, dtype: str = "bf16", *,
               weight_bytes: WeightBytes = None) -> Terms:
    """The two terms of `rank_times`, from the same arguments: the larger one binds a GPU.

    Returns
    -------
    Terms

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> work = rank_work([8 / 256] * 256, range(256), 32, 65536)
    >>> terms = rank_terms(CATALOG["deepseek-v3"], work, DEVICES["h200"], "fp8", weight_bytes=1)
    >>> print(*(f"{seconds[0] * 1e6:.0f} us" for seconds in terms))
    73 us 729 us
    """
    model, device = find_model(model), find_device(device)
    read = work.experts_touched * expert_bytes(model, weight_bytes) / device.bandwidth_bytes_per_s
    return Terms(read, 2 * work.tokens * model.expert_params / device.peak(dtype))


def _layers(name: str, numbers: ArrayLike) -> NDArray[np.float64]:
    """Numbers, not negative, as [L, n]."""
    layers = np.atleast_2d(require(name, numbers, 0)) * 1.0
    if layers.ndim != 2 or not layers.size:
        raise ValueError(f"{name} must be one list, or one a layer, got the shape {layers.shape}")
    return layers


def _copies(expert_of_slot, loads):
    """`copies_of`, at least one of each expert, for as many layers as loads has (or one)."""
    copies = copies_of(expert_of_slot, loads.shape[1])
    require("copies of an expert", copies, 1)
    if 1 not in (len(copies), len(loads)) and len(copies) != len(loads):
        raise ValueError(f"expert_of_slot must have as many layers as the loads, {len(loads)}, got {len(copies)}")
    return copies


def _by_gpu(of_expert, expert_of_slot, num_gpus):
    """Sum [L, P] over the slots of a GPU of what each [L, E] slot's expert brings."""
    held = np.atleast_2d(expert_of_slot).astype(np.int64)
    linear_placement(held.shape[1], num_gpus)  # slots divide over the GPUs
    held = np.broadcast_to(held, (len(of_expert), held.shape[1]))
    return np.take_along_axis(of_expert, held, axis=1).reshape(len(held), num_gpus, -1).sum(axis=2)


def _replicate(loads, num_slots, most=None):
    """(expert of each slot [L, slots], its piece [L, slots]): slots beyond E to the largest pieces, one by one.

    `most` copies of an expert are enough: one on each GPU. Only when all have so many, a slot is wasted.
    """
    L, E = loads.shape
    rows, copies, piece = np.arange(L), np.ones((L, E), int), loads.copy()
    for _ in range(num_slots - E):
        largest = (piece if most is None else np.where(copies < most, piece, -copies)).argmax(axis=1)
        copies[rows, largest] += 1
        piece[rows, largest] = loads[rows, largest] / copies[rows, largest]
    held = np.repeat(np.tile(np.arange(E), L), copies.ravel()).reshape(L, num_slots)
    return held, np.take_along_axis(piece, held, axis=1)


def _pack(pieces, kind, num_bins):
    """Order of the pieces [L, n], bin after bin, n / bins in each, that makes the fullest bin small.

    Pieces of one kind [L, n] share a bin only where there are more of them than bins, or for TWINS_COST.
    """
    L, n = pieces.shape
    room, rows = n // num_bins, np.arange(L)
    place, count = np.empty((L, num_bins, room), int), np.zeros((L, num_bins), int)
    full, has = np.zeros((L, num_bins)), np.zeros((L, num_bins, kind.max() + 1), np.int16)
    for piece in np.argsort(-pieces, axis=1, kind="stable").T:  # the next largest of every layer
        of = kind[rows, piece]
        crowded = np.where(count < room, has[rows, :, of], np.inf)
        to = np.where(crowded == crowded.min(axis=1, keepdims=True), full, np.inf).argmin(axis=1)
        place[rows, to, count[rows, to]] = piece
        count[rows, to] += 1
        full[rows, to] += pieces[rows, piece]
        has[rows, to, of] += 1
    _swap(pieces, kind, place, full, has)
    return place.reshape(L, n)


def _swap(pieces, kind, place, full, has):
    """Swap a piece of the fullest bin for a smaller one elsewhere, the best pair each time, while that helps."""
    L, bins, room = place.shape
    size, sort = (np.take_along_axis(of, place.reshape(L, -1), axis=1).reshape(place.shape) for of in (pieces, kind))
    left = np.arange(L)  # layers that still improve
    for _ in range(MOST_SWAPS):
        top = full[left].argmax(axis=1)
        before, mine, theirs = full[left, top][:, None, None], sort[left, top], sort[left].reshape(len(left), -1)
        less = size[left, top][:, :, None] - size[left].reshape(len(left), 1, -1)  # [layers, room, bins x room]
        after = np.maximum(before - less, np.repeat(full[left], room, axis=1)[:, None, :] + less)
        twins = has[left[:, None], top[:, None], theirs] > 0
        after[np.repeat(has[left[:, None], :, mine] > 0, room, axis=2) | twins[:, None, :]] *= TWINS_COST
        after = after.reshape(len(left), -1)
        best = after.argmin(axis=1)
        helps = after[np.arange(len(left)), best] < before[:, 0, 0] * (1 - 1e-12)
        left, top, best = left[helps], top[helps], best[helps]
        if not left.size:
            return
        here = (left, top, best // (bins * room))
        there = (left, *np.divmod(best % (bins * room), room))
        for table in (place, size, sort):
            table[here], table[there] = table[there], table[here]
        moved = size[there] - size[here]
        full[here[:2]] -= moved
        full[there[:2]] += moved
        for bin_, came, went in (here[:2], sort[here], sort[there]), (there[:2], sort[there], sort[here]):
            has[*bin_, came] += 1
            has[*bin_, went] -= 1


make_callable(__name__, balance)
