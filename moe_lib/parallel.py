"""One model over several GPUs: what each holds, reads and computes, and what travels between them.

Symbols: P GPUs, E routed experts in a layer, k chosen per token, B tokens in the step over all GPUs, d model width.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from ._arguments import require, whole_number
from .roofline import step_time, transfer_time
from .steps import decode_step, most_sequences, part_bytes, prefill, weights_read

GPUS_PER_NODE = 8  # of the servers that the devices are sold in
SCALE_BYTES = 4  # one FP32 scale for a block of FP8 values


@dataclass(frozen=True, slots=True)
class Layout:
    """How the parts of a model are spread; attention and experts each over all GPUs.

    Attributes
    ----------
    attention_tp, attention_dp : int
        Everything but the routed experts: split over attention_tp GPUs, copied attention_dp times. Each copy serves its
        own sequences.
    expert_tp, expert_parallel : int
        Routed experts: each split over expert_tp GPUs, the experts spread over expert_parallel groups of them.
    """

    attention_tp: int = 1
    attention_dp: int = 1
    expert_tp: int = 1
    expert_parallel: int = 1

    def __post_init__(self):
        for field in fields(self):
            require(field.name, getattr(self, field.name), 1, whole=True, one=True)
        if self.attention_tp * self.attention_dp != self.expert_tp * self.expert_parallel:
            raise ValueError(f"attention_tp x attention_dp must equal expert_tp x expert_parallel, got "
                             f"{self.attention_tp} x {self.attention_dp} and {self.expert_tp} x {self.expert_parallel}")

    @property
    def num_gpus(self):
        """P, all GPUs of the layout."""
        return self.attention_tp * self.attention_dp

    def __str__(self):
        """Short name: TP8; DP8+EP8; TP2xDP4+EP8.

        >>> print(Layout(8, 1, 8), Layout(1, 8, 1, 8), Layout(2, 4, 2, 4))
        TP8 DP8+EP8 TP2xDP4+TP2xEP4
        """
        def of(**sizes):
            return "x".join(f"{name}{size}" for name, size in sizes.items() if size > 1) or "1 GPU"

        attention = of(TP=self.attention_tp, DP=self.attention_dp)
        experts = of(TP=self.expert_tp, EP=self.expert_parallel)
        return attention if attention == experts else f"{attention}+{experts}"


def layouts(model, num_gpus):
    """Every way to spread a model over num_gpus, the illegal ones too (`problems` says why).

    Raises
    ------
    ValueError
        If num_gpus is no whole number from 1 up.

    >>> from moe_lib.models import CATALOG
    >>> print(*layouts(CATALOG["mixtral-8x7b"], 2))
    TP2 TP2+EP2 DP2+TP2 DP2+EP2
    """
    num_gpus = whole_number("num_gpus", num_gpus, 1)
    sizes = [size for size in range(num_gpus, 0, -1) if num_gpus % size == 0]
    if model.num_moe_layers == 0:  # no experts to spread
        return [Layout(tp, num_gpus // tp, num_gpus) for tp in sizes]
    return [Layout(tp, num_gpus // tp, expert_tp, num_gpus // expert_tp) for tp in sizes for expert_tp in sizes]


def problems(model, layout, *, weight_block=None, gpus_per_node=None):
    """Why a model cannot be laid out so, one sentence a reason; empty if it can.

    Parameters
    ----------
    model : MoEModel
    layout : Layout
    weight_block : int, optional
        Weights that share a scale along a side, such as 128: a part of an expert must hold whole blocks. None: no
        blocks.
    gpus_per_node : int, optional
        A tensor-parallel group must lie within a node, and groups fill it. None: no nodes.

    Raises
    ------
    ValueError
        If weight_block or gpus_per_node is no whole number from 1 up.

    >>> from moe_lib.models import CATALOG
    >>> print(*problems(CATALOG["qwen3-235b-a22b"], Layout(8, 1, 8), weight_block=128))
    experts: a width of 1,536 over 8 GPUs leaves 192 each, no whole blocks of 128
    """
    tp, heads, kv_heads = layout.attention_tp, model.num_heads, model.num_kv_heads
    for name, value in ("weight_block", weight_block), ("gpus_per_node", gpus_per_node):
        require(name, 1 if value is None else value, 1, whole=True, one=True)
    found = []
    in_node = layout.num_gpus if gpus_per_node is None else min(gpus_per_node, layout.num_gpus)
    for size in sorted({tp, layout.expert_tp if model.num_moe_layers else 1}):
        if in_node % size:
            found.append(f"links: groups of {size} GPUs do not fill a node of {in_node}")
    if heads % tp:
        found.append(f"attention: {heads} heads do not divide over {tp} GPUs")
    if kv_heads and kv_heads % tp and tp % kv_heads:
        found.append(f"cache: {kv_heads} key-value heads can neither be divided over nor copied to {tp} GPUs evenly")
    if model.num_moe_layers == 0:
        return found + ["experts: a dense model has none to spread"] * (layout.expert_parallel > 1)
    if model.num_experts % layout.expert_parallel:
        found.append(f"experts: {model.num_experts} do not divide over {layout.expert_parallel} groups")
    width, each = model.d_expert, model.d_expert / layout.expert_tp
    if width % layout.expert_tp:
        found.append(f"experts: a width of {width:,} does not divide over {layout.expert_tp} GPUs")
    elif weight_block is not None and layout.expert_tp > 1 and each % weight_block:
        found.append(f"experts: a width of {width:,} over {layout.expert_tp} GPUs leaves {each:,.0f} each, no whole "
                     f"blocks of {weight_block}")
    return found


def cache_share(model, layout):
    """Share of its sequences' cache that a GPU holds: 1 / attention_tp, but never less than one key-value head.

    MLA has one entry for all heads, so each GPU of a TP group holds the whole cache.

    >>> from moe_lib.models import CATALOG
    >>> for slug in "deepseek-v3", "qwen3-235b-a22b", "mixtral-8x7b":
    ...     print(slug, cache_share(CATALOG[slug], Layout(8, 1, 8)))
    deepseek-v3 1.0
    qwen3-235b-a22b 0.25
    mixtral-8x7b 0.125
    """
    return 1 / min(layout.attention_tp, max(model.num_kv_heads, 1))


def rank_resident_bytes(model, layout, *, weight_bytes=None, context=0, sequences=0, kv_bytes=2):
    """Bytes that one GPU must hold: its part of the weights, and its part of the caches of `sequences` sequences.

    Parameters as `steps.resident_bytes`; sequences over all GPUs, of which the fullest holds ceil(sequences / DP).

    Raises
    ------
    ValueError
        As `steps.resident_bytes`.

    Notes
    -----
    Source: notebook 07, eq. 7.1.

    >>> from moe_lib.models import CATALOG
    >>> for layout in Layout(8, 1, 8), Layout(1, 8, 1, 8):
    ...     print(layout, f"{rank_resident_bytes(CATALOG['deepseek-v3'], layout, weight_bytes=1) / 1e9:.1f} GB")
    TP8 83.9 GB
    DP8+EP8 98.9 GB
    """
    sizes = part_bytes(model, weight_bytes)
    routed = sizes.pop("routed_experts")
    one = model.kv_bytes_per_sequence(context, kv_bytes) + model.state_bytes_per_sequence
    here = np.ceil(require("sequences", sequences, 0) / layout.attention_dp)
    weights = sum(sizes.values()) / layout.attention_tp + routed / layout.num_gpus
    return (weights + here * cache_share(model, layout) * one)[()]


def layout_sequences(model, layout, usable_bytes, *, weight_bytes=None, context=0, kv_bytes=2):
    """Most sequences of `context` tokens over all GPUs of a layout; 0 where the weights alone do not fit.

    Parameters as `rank_resident_bytes`, and the usable bytes of one GPU. inf where a sequence holds nothing.

    >>> from moe_lib.models import CATALOG
    >>> for layout in Layout(8, 1, 8), Layout(1, 8, 1, 8):
    ...     print(layout_sequences(CATALOG["deepseek-v3"], layout, 126.9e9, weight_bytes=1, context=8192))
    74.0
    384.0
    """
    model.known_caches()  # where they are not, no number of sequences can be said
    weights = rank_resident_bytes(model, layout, weight_bytes=weight_bytes)
    one = rank_resident_bytes(model, layout, weight_bytes=weight_bytes, context=context, sequences=1, kv_bytes=kv_bytes)
    free = require("usable_bytes", usable_bytes, 0) - weights
    return layout.attention_dp * most_sequences(free, one - weights)


def rank_step(model, batch, layout, *, weight_bytes=None, context=0, kv_bytes=2, inclusion=None):
    """Ledger of one GPU in a decode step, work spread evenly: what it reads and computes.

    Everything but the routed experts is split by attention_tp and serves B / attention_dp sequences. The routed experts
    that the **whole** batch touches are spread over all GPUs, whether by width or by expert.

    Parameters
    ----------
    model, batch, weight_bytes, context, kv_bytes, inclusion
        As `steps.decode_step`; batch counts the tokens of all GPUs.
    layout : Layout

    Returns
    -------
    Step
        Bytes and FLOP of one GPU; batch, share_touched and what follows from them are those of the whole step.

    Raises
    ------
    ValueError
        As `steps.decode_step`.

    Notes
    -----
    Source: notebook 07, eq. 7.2. Sequences come whole and loads uneven, so the slowest GPU does more (`balance`).

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> for layout in Layout(8, 1, 8), Layout(1, 8, 1, 8):
    ...     step = rank_step(CATALOG["deepseek-v3"], 256, layout, weight_bytes=1, context=4096)
    ...     print(layout, f"{step_time(step, DEVICES['h200'], 'fp8').lower * 1e3:.1f} ms")
    TP8 32.8 ms
    DP8+EP8 22.3 ms
    """
    whole = decode_step(
        model, batch, weight_bytes=weight_bytes, context=context, kv_bytes=kv_bytes, inclusion=inclusion)
    return replace(
        whole,
        weight_bytes_read=_weights_read(model, weight_bytes, layout, whole.share_touched),
        kv_bytes_read=whole.kv_bytes_read / layout.attention_dp * cache_share(model, layout),
        flops=whole.flops / layout.num_gpus)


def rank_prefill(model, tokens, layout, *, sequences=1, weight_bytes=None, **prompt):
    """Ledger of the busiest GPU for a prompt, chunk by chunk: as `rank_step`, but prompts come whole.

    Each copy of the attention serves ceil(sequences / attention_dp) prompts, so one prompt keeps one copy busy. The
    routed experts are spread over all GPUs.

    Parameters
    ----------
    model, tokens, sequences, weight_bytes, **prompt
        As `steps.prefill`.
    layout : Layout

    Returns
    -------
    Step
        Fields of shape [chunks]; bytes and FLOP of one GPU.

    Raises
    ------
    ValueError
        As `steps.prefill`.

    Notes
    -----
    Source: notebook 09, eq. 9.3.

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> for layout in Layout(8, 1, 8), Layout(1, 8, 1, 8):
    ...     step = rank_prefill(CATALOG["deepseek-v3"], 8192, layout, weight_bytes=1)
    ...     print(layout, f"{step_time(step, DEVICES['h200'], 'fp8').lower.sum() * 1e3:.0f} ms")
    TP8 48 ms
    DP8+EP8 240 ms
    """
    whole = prefill(model, tokens, sequences=sequences, weight_bytes=weight_bytes, **prompt)
    here = np.ceil(sequences / layout.attention_dp) / sequences
    experts = 2 * model.top_k * model.expert_params_all_layers * whole.batch
    return replace(
        whole,
        weight_bytes_read=_weights_read(model, weight_bytes, layout, whole.share_touched),
        kv_bytes_read=whole.kv_bytes_read * here * cache_share(model, layout),
        kv_bytes_written=whole.kv_bytes_written * here * cache_share(model, layout),
        flops=(whole.flops - experts) * here / layout.attention_tp + experts / layout.num_gpus)


def gpus_touched_per_token(num_experts, top_k, num_gpus, *, group_limit=None):
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
    group_limit = np.array((1, 1) if group_limit is None else require("group_limit", group_limit, 1, whole=True))
    if group_limit.shape != (2,):
        raise ValueError(f"group_limit must be two numbers, groups and groups kept, got {group_limit}")
    groups, kept = group_limit.astype(int).tolist()
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


def copies_sent(num_experts, top_k, num_gpus, *, expert_tp=1, gpus_per_node=GPUS_PER_NODE, once="gpu",
                group_limit=None):
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


def all_to_all_bytes(d_model, destinations, *, dispatch_bytes=1, combine_bytes=2, scale_block=128):
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


def all_to_all_time(num_bytes, latency, bandwidth):
    """Seconds of an exchange: latency + bytes of a GPU / its bandwidth, as `roofline.transfer_time`.

    >>> print(f"{all_to_all_time(7.57e6, 15e-6, 285e9) * 1e6:.0f} us")
    42 us
    """
    return transfer_time(num_bytes, bandwidth, latency)


def link_time(model, batch, layout, link, *, network=None, gpus_per_node=GPUS_PER_NODE, once="gpu", group_limit=None,
              dispatch_bytes=1, combine_bytes=2):
    """Seconds that a decode step's exchanges take on one GPU, all layers, none hidden.

    Attention split over attention_tp GPUs ends each layer in an all-reduce, of which a GPU sends 2 (n - 1)/n. Experts
    spread over copies of the attention (attention_dp above 1) need a dispatch and a combine in each MoE layer, of the
    B / P tokens of a GPU, to every part of an expert; with one copy they end in an all-reduce too. Links within and
    across nodes work at the same time.

    Parameters
    ----------
    model, batch, layout
        As `rank_step`.
    link, network : Link
        Within a node and between nodes; network may be None if a node holds all GPUs.
    gpus_per_node, once, group_limit, dispatch_bytes, combine_bytes
        As `copies_sent`, `all_to_all_bytes`. An all-reduce moves combine_bytes a value.

    Raises
    ------
    ValueError
        As `copies_sent`, or if the layout spans nodes and there is no network, or an all-reduce would span them.

    Notes
    -----
    Source: notebook 07, eq. 7.6. Latencies count once an exchange where published.

    >>> from moe_lib.hardware import LINKS
    >>> from moe_lib.models import CATALOG
    >>> for layout in Layout(8, 1, 8), Layout(1, 8, 1, 8):
    ...     seconds = link_time(CATALOG["deepseek-v3"], 256, layout, LINKS["nvlink4"])
    ...     print(layout, f"{seconds * 1e3:.2f} ms")
    TP8 1.74 ms
    DP8+EP8 0.42 ms
    """
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
        return _exchange(2 * (num_gpus - 1) / num_gpus * tokens * d * combine_bytes, link)

    here = batch / layout.attention_dp
    seconds = model.num_layers * all_reduce(layout.attention_tp, here)  # after attention
    seconds = seconds + (model.num_layers - model.num_moe_layers) * all_reduce(layout.attention_tp, here)
    if layout.attention_dp == 1 or model.num_moe_layers == 0:
        return seconds + model.num_moe_layers * all_reduce(layout.num_gpus, here)
    copies = copies_sent(model.num_experts, model.top_k, layout.num_gpus, expert_tp=layout.expert_tp,
                         gpus_per_node=in_node, once=once, group_limit=group_limit)
    both = 0.0
    for bytes_of in all_to_all_bytes(d, np.array(copies), dispatch_bytes=dispatch_bytes, combine_bytes=combine_bytes):
        within, across = np.multiply.outer(bytes_of, batch / layout.num_gpus)
        inside = _exchange(within, link) if in_node > 1 else 0.0
        both = both + np.maximum(inside, _exchange(across, network) if in_node < layout.num_gpus else 0.0)
    return seconds + model.num_moe_layers * both


def two_batch_times(model, batch, layout, device, dtype, link_seconds, **step):
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
    Bounds
        (plain, halves): T(B) + T_link(B), and 2 max(T(B/2), T_link(B/2)), T the lower bound of reading and computing.

    Notes
    -----
    Source: notebook 07, eq. 7.7.

    >>> from moe_lib.hardware import DEVICES, LINKS
    >>> from moe_lib.models import CATALOG
    >>> v3, spread = CATALOG["deepseek-v3"], Layout(1, 8, 1, 8)
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


def linear_placement(num_experts, num_gpus):
    """GPU of each expert [E], in blocks: expert i on GPU i // (E/P), the default of vLLM.

    >>> print(linear_placement(8, 4))
    [0 0 1 1 2 2 3 3]
    """
    each = _experts_each(num_experts, num_gpus)
    return np.arange(num_experts) // each


def round_robin_placement(num_experts, num_gpus):
    """GPU of each expert [E], dealt out: expert i on GPU i mod P.

    >>> print(round_robin_placement(8, 4))
    [0 1 2 3 0 1 2 3]
    """
    _experts_each(num_experts, num_gpus)
    return np.arange(num_experts) % num_gpus


def _experts_each(num_experts, num_gpus):
    E, P = (whole_number(name, value, 1)
            for name, value in [("num_experts", num_experts), ("num_gpus", num_gpus)])
    if E % P:
        raise ValueError(f"num_gpus must divide num_experts = {E}, got {P}")
    return E // P


def _weights_read(model, weight_bytes, layout, share_touched):
    """Bytes of weights that one GPU reads in a step."""
    always, routed = weights_read(model, weight_bytes)
    return always / layout.attention_tp + routed * share_touched / layout.num_gpus


def _exchange(num_bytes, link):
    return transfer_time(num_bytes, link.bytes_per_s, link.latency_s or 0)


def _hypergeometric(hits, total, marked, drawn):
    """P(`hits` of `marked` among `drawn` of `total`), exact until the last division."""
    ways = math.comb(marked, hits) * math.comb(total - marked, drawn - hits) if hits <= drawn else 0
    return ways / math.comb(total, drawn)


def _chance_to_miss(pool, drawn, marked):
    """P(none of `marked` among `drawn` of `pool`)."""
    return _hypergeometric(0, pool, min(marked, pool), drawn)
