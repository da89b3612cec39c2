"""What travels between the GPUs of a layout in a step: how many copies of a token, how many bytes, how long.

Symbols: P GPUs, E routed experts in a layer, k chosen per token, B tokens in the step over all GPUs, d model width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._arguments import Numbers, require, whole_number
from ._show import number
from .hardware import GPUS_PER_NODE, Device, Link, find_link
from .layouts import Layout, find_layout, rank_step
from .models import MoEModel, find_model
from .roofline import step_time, transfer_time

SCALE_BYTES = 4  # one FP32 scale for a block of FP8 values


def gpus_touched_per_token(num_experts: int, top_k: int, num_gpus: int, *,
                           group_limit: tuple[int, int] | None = None) -> float:
    """Expected distinct GPUs that hold one token's experts in a layer, E/P experts on each.

    P (1 - C(E - E/P, k) / C(E, k)). With group_limit = (G, M) a token first keeps M of G equal groups of experts, so
    GPUs (or nodes: give their number) outside them are never reached.

    Parameters
    ----------
    num_experts, top_k, num_gpus : int
    group_limit : (int, int), optional
        Groups and groups kept; groups and GPUs must nest.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the experts do not divide over the GPUs or groups, or these do not nest.

    Notes
    -----
    Source: notebook 07, eq. 7.3. Uniform choice.

    >>> for group_limit in None, (8, 4):
    ...     print(f"{gpus_touched_per_token(256, 8, 8, group_limit=group_limit):.3f} of 8")
    5.295 of 8
    3.629 of 8
    """
    E, k, P = (whole_number(name, value, 1) for name, value in
               [("num_experts", num_experts), ("top_k", top_k), ("num_gpus", num_gpus)])
    require("top_k", k, 1, E)
    limit = np.array((1, 1) if group_limit is None else require("group_limit", group_limit, 1, whole=True))
    if limit.shape != (2,):
        raise ValueError(f"group_limit must be two numbers, groups and groups kept, got {limit}")
    groups, kept = limit.astype(np.int64).tolist()
    require("groups kept", kept, 1, groups)
    for name, count in {"num_gpus": P, "groups": groups}.items():
        if E % count:
            raise ValueError(f"{name} must divide num_experts = {E}, got {count}")
    if P % groups and groups % P:
        raise ValueError(f"num_gpus and groups must divide one another, got {P} and {groups}")
    pool, here = kept * E // groups, E // P  # experts a token may choose, experts of a GPU
    require("top_k", k, 1, pool)
    own = max(groups // P, 1)  # groups that a GPU holds, or shares
    of_kept = np.arange(own + 1)  # how many of those are kept
    chance = np.array([_hypergeometric(count, groups, own, kept) for count in range(own + 1)])
    reachable = np.minimum(of_kept * (E // groups), of_kept * here // own if groups >= P else of_kept * here)
    missed = np.array([_chance_to_miss(pool, k, int(count)) for count in reachable])
    return float(P * (1 - chance @ missed))


class Copies(NamedTuple):
    """Copies of a token that a layer sends away: to GPUs of its own node, and to other nodes."""

    within: float
    across: float

    def __repr__(self):
        return f"Copies({number(self.within)} within the node, {number(self.across)} across)"


def copies_sent(num_experts: int, top_k: int, num_gpus: int, *, expert_tp: int = 1, gpus_per_node: int = GPUS_PER_NODE,
                once: str = "gpu", group_limit: tuple[int, int] | None = None) -> Copies:
    """Expected copies of a token that leave its GPU in a layer.

    Parameters
    ----------
    num_experts, top_k, num_gpus, group_limit
        As `gpus_touched_per_token`; GPUs over all.
    expert_tp : int
        GPUs that each expert is split over: a copy goes to every one of them.
    gpus_per_node : int
        GPUs that share a node's own link.
    once : str
        "expert": one copy for each chosen expert; "gpu": one for each GPU that holds some; "node": one for each other
        node, which hands it on to its GPUs over its own link (those hops count as within).

    Returns
    -------
    Copies

    Raises
    ------
    ValueError
        As `gpus_touched_per_token`, or if once is unknown or the nodes are not full.

    Notes
    -----
    Source: notebook 07, eq. 7.4. Where the token sits does not depend on what it chooses.

    >>> copies = copies_sent(256, 8, 8)
    >>> print(f"{copies.within:.2f} within the node, {copies.across:.2f} across")
    4.63 within the node, 0.00 across
    """
    num_gpus, in_node, expert_tp = (whole_number(name, value, 1) for name, value in [
        ("num_gpus", num_gpus), ("gpus_per_node", gpus_per_node), ("expert_tp", expert_tp)])
    in_node = min(in_node, num_gpus)
    if num_gpus % in_node:
        raise ValueError(f"num_gpus must be a multiple of gpus_per_node = {gpus_per_node}, got {num_gpus}")
    if in_node % expert_tp:
        raise ValueError(f"expert_tp must divide the {in_node} GPUs of a node, got {expert_tp}")
    groups = gpus_touched_per_token(num_experts, top_k, num_gpus // expert_tp, group_limit=group_limit)
    touched = groups * expert_tp
    sent = {"expert": float(top_k * expert_tp), "gpu": touched, "node": touched}
    if not isinstance(once, str) or once not in sent:
        raise ValueError(f"once must be one of {', '.join(sent)}, got {once!r}")
    within, across = sent[once] * (in_node - 1) / num_gpus, sent[once] * (num_gpus - in_node) / num_gpus
    if once != "node":
        return Copies(within, across)
    nodes = gpus_touched_per_token(num_experts, top_k, num_gpus // in_node, group_limit=group_limit)
    arrive = nodes * (num_gpus - in_node) / num_gpus  # one GPU of a node takes the copy, by chance one that wants it
    return Copies(within + across - arrive * touched / nodes / in_node, arrive)


def all_to_all_bytes(d_model: ArrayLike, destinations: ArrayLike, *, dispatch_bytes: float = 1,
                     combine_bytes: float = 2, scale_block: int = 128) -> tuple[Numbers, Numbers]:
    """Bytes that one token sends (dispatch) and gets back (combine) in a layer, to and from `destinations` copies.

    Parameters
    ----------
    d_model, destinations : array_like
    dispatch_bytes, combine_bytes : float
        Bytes a value. One-byte values go with an FP32 scale for each `scale_block` of them.
    scale_block : int

    Returns
    -------
    (float or ndarray, float or ndarray)

    Raises
    ------
    ValueError
        If d_model or scale_block is below 1 or another argument is negative.

    Notes
    -----
    Source: notebook 07, eq. 7.5.

    >>> print(*all_to_all_bytes(7168, 8))
    59136.0 114688.0
    """
    d, copies = require("d_model", d_model, 1), require("destinations", destinations, 0)
    scales = SCALE_BYTES * d / require("scale_block", scale_block, 1) if dispatch_bytes == 1 else 0
    return (copies * (d * require("dispatch_bytes", dispatch_bytes, 0) + scales) * 1.0,
            copies * d * require("combine_bytes", combine_bytes, 0) * 1.0)


def all_to_all_time(num_bytes: ArrayLike, latency: ArrayLike, bandwidth: ArrayLike) -> Numbers:
    """Seconds of an exchange: latency + bytes of a GPU / its bandwidth, as `roofline.transfer_time`.

    >>> print(f"{all_to_all_time(7.57e6, 15e-6, 285e9) * 1e6:.0f} us")
    42 us
    """
    return transfer_time(num_bytes, bandwidth, latency)


def all_reduce_bytes(d_model: ArrayLike, tokens: ArrayLike, num_gpus: int, *, value_bytes: float = 2,
                     in_switch: bool = False) -> Numbers:
    """Bytes that each GPU sends, and gets, when num_gpus GPUs add up what each has for `tokens` tokens.

    A ring, or any algorithm of sends from GPU to GPU, moves 2 (n - 1)/n messages of tokens x d_model values: each GPU
    adds up an n-th of them and hands it on. A switch that adds itself takes one message from each GPU, and moves an
    n-th more where the GPUs tell it what to add: (n + 1)/n. That is less from four GPUs on.

    Parameters
    ----------
    d_model, tokens : array_like
    num_gpus : int
    value_bytes : float
    in_switch : bool
        NVLink SHARP, which NCCL calls NVLS.

    Raises
    ------
    ValueError
        If num_gpus is no whole number from 1 up, d_model is below 1 or another argument is negative.

    Notes
    -----
    Source: notebook 07, eq. 7.6. The counts are those of NVIDIA's nccl-tests (doc/PERFORMANCE.md) and of NCCL's author
    (NVIDIA/nccl#1506).

    >>> for in_switch in False, True:
    ...     print(f"{all_reduce_bytes(7168, 256, 8, in_switch=in_switch) / (7168 * 256 * 2):.3f} messages")
    1.750 messages
    1.125 messages
    """
    n = whole_number("num_gpus", num_gpus, 1)
    message = (require("d_model", d_model, 1) * require("tokens", tokens, 0) * require("value_bytes", value_bytes, 0))
    return message * (0.0 if n == 1 else (n + 1) / n if in_switch else 2 * (n - 1) / n)


def link_time(model: MoEModel | str, batch: ArrayLike, layout: Layout | str, link: Link | str, *,
              network: Link | str | None = None, gpus_per_node: int = GPUS_PER_NODE, once: str = "gpu",
              group_limit: tuple[int, int] | None = None, dispatch_bytes: float = 1, combine_bytes: float = 2,
              in_switch: bool | None = False, physical_experts: int | None = None) -> Numbers:
    """Seconds that a decode step's exchanges take on one GPU, all layers, none hidden.

    Attention split over attention_tp GPUs ends each layer in an all-reduce, and so does a dense feed-forward block.
    Experts spread over copies of the attention (attention_dp above 1) need a dispatch and a combine in each MoE layer,
    of the B / P tokens of a GPU, to every part of an expert, and shared experts that are split one more all-reduce;
    with one copy all of them end in one together. Links within and across nodes work at the same time.

    Parameters
    ----------
    model, batch, layout
        As `rank_step`.
    link, network : Link
        Within a node and between nodes; network may be None if a node holds all GPUs.
    gpus_per_node, once, group_limit, dispatch_bytes, combine_bytes, in_switch
        As `copies_sent`, `all_to_all_bytes`, `all_reduce_bytes`. An all-reduce moves combine_bytes a value. in_switch
        None is the lesser of both ways where the link's switch can add, for a lower bound.
    physical_experts : int, optional
        Experts of a layer over all GPUs, redundant ones included: a multiple of these. None: the model's.

    Raises
    ------
    ValueError
        As `copies_sent`, or if the layout spans nodes and there is no network, or an all-reduce would span them.

    Notes
    -----
    Source: notebook 07, eq. 7.7. A link's latency counts once an exchange where it is published; for NVLink but the
    H800's it is not, so few tokens take longer than this says. The embedding's all-reduce is left out.

    >>> from moe_lib.hardware import LINKS
    >>> from moe_lib.layouts import Layout
    >>> from moe_lib.models import CATALOG
    >>> for layout in Layout.parse("TP8"), Layout.parse("DP8+EP8"):
    ...     ms = [1e3 * link_time(CATALOG["deepseek-v3"], 256, layout, LINKS["nvlink4"], in_switch=in_switch)
    ...           for in_switch in (False, True)]
    ...     print(layout, *np.round(ms, 2), "ms")
    TP8 1.74 1.12 ms
    DP8+EP8 0.42 0.42 ms
    """
    model, layout, link = find_model(model), find_layout(layout), find_link(link)
    network = None if network is None else find_link(network)
    in_node = min(whole_number("gpus_per_node", gpus_per_node, 1), layout.num_gpus)
    if in_node < layout.num_gpus and network is None:
        raise ValueError(f"network must be a Link: {layout} needs more than the {in_node} GPUs of a node")
    wide = max(layout.attention_tp, layout.expert_tp if model.num_moe_layers else 1)
    if wide > in_node:
        raise ValueError(f"a tensor-parallel group must lie within a node of {in_node} GPUs, got {wide}")
    batch, d = require("batch", batch, 0), require("d_model", model.d_model, 1)

    def all_reduce(num_gpus, tokens):
        if num_gpus == 1:
            return 0.0 * tokens
        ways = [False, True] if in_switch is None and link.adds_in_switch else [bool(in_switch)]
        least = min(ways, key=lambda way: float(all_reduce_bytes(1, 1, num_gpus, in_switch=way)))
        return _exchange(all_reduce_bytes(d, tokens, num_gpus, value_bytes=combine_bytes, in_switch=least), link)

    here = batch / layout.attention_dp
    seconds = model.num_layers * all_reduce(layout.attention_tp, here)  # after attention
    seconds = seconds + (model.num_layers - model.num_moe_layers) * all_reduce(layout.attention_tp, here)
    if layout.attention_dp == 1 or model.num_moe_layers == 0:
        return seconds + model.num_moe_layers * all_reduce(layout.num_gpus, here)
    experts = model.num_experts if physical_experts is None else physical_experts
    copies = copies_sent(experts, model.top_k, layout.num_gpus, expert_tp=layout.expert_tp, gpus_per_node=in_node,
                         once=once, group_limit=group_limit)
    if model.num_shared_experts:  # they are split like the attention: their sums are parts too
        seconds = seconds + model.num_moe_layers * all_reduce(layout.attention_tp, here)
    both = 0.0
    for bytes_of in all_to_all_bytes(d, np.array(copies), dispatch_bytes=dispatch_bytes, combine_bytes=combine_bytes):
        within, across = np.multiply.outer(bytes_of, batch / layout.num_gpus)
        inside = _exchange(within, link) if in_node > 1 else 0.0
        both = both + np.maximum(inside, _exchange(across, network) if in_node < layout.num_gpus else 0.0)
    return seconds + model.num_moe_layers * both


def two_batch_times(model: MoEModel | str, batch: ArrayLike, layout: Layout | str, device: Device | str, dtype: str,
                    link_seconds: Callable[[Numbers], Numbers], **step: Any) -> tuple[Numbers, Numbers]:
    """Seconds of a step with its exchanges in the open, and in two half-batches, one computing while the other sends.

    Halves hide the exchanges but read the experts twice: each half touches nearly as many as the whole.

    Parameters
    ----------
    model, batch, layout, **step
        As `rank_step`.
    device, dtype
        As `roofline.step_time`.
    link_seconds : callable
        Seconds of the exchanges for a batch, such as `link_time` with all but the batch given.

    Returns
    -------
    (float or ndarray, float or ndarray)
        Seconds plain, T(B) + T_link(B), and of halves, 2 max(T(B/2), T_link(B/2)), T the lower bound of reading and
        computing.

    Notes
    -----
    Source: notebook 07, eq. 7.8. Left out: each half launches every kernel again, and computes tiles of some 64 rows
    that it fills half as well. So small halves gain less, or lose more, than this says.

    >>> from moe_lib.hardware import DEVICES, LINKS
    >>> from moe_lib.layouts import Layout
    >>> from moe_lib.models import CATALOG
    >>> v3, spread = CATALOG["deepseek-v3"], Layout.parse("DP8+EP8")
    >>> times = two_batch_times(v3, 256, spread, DEVICES["h200"], "fp8",
    ...                         lambda batch: link_time(v3, batch, spread, LINKS["nvlink4"]), weight_bytes=1)
    >>> print(*(f"{1e3 * seconds:.1f} ms" for seconds in times))
    20.8 ms 40.2 ms
    """
    def at(tokens):
        work = step_time(rank_step(model, tokens, layout, **step), device, dtype).lower
        return work, link_seconds(tokens)

    work, exchange = at(np.asarray(batch))
    half = np.maximum(*at(np.divide(batch, 2)))
    return work + exchange, 2 * half


def _exchange(num_bytes, link):
    return transfer_time(num_bytes, link.bytes_per_s, link.latency_s or 0)


def _hypergeometric(hits, total, marked, drawn):
    """P(`hits` of `marked` among `drawn` of `total`), exact until the last division."""
    ways = math.comb(marked, hits) * math.comb(total - marked, drawn - hits) if hits <= drawn else 0
    return ways / math.comb(total, drawn)


def _chance_to_miss(pool, drawn, marked):
    """P(none of `marked` among `drawn` of `pool`)."""
    return _hypergeometric(0, pool, min(marked, pool), drawn)
