"""One model over several GPUs: how it may be cut, and what each GPU holds, reads and computes.

Symbols: P GPUs, E routed experts in a layer, B tokens in the step over all GPUs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._arguments import Numbers, WeightBytes, require, whole_number
from ._show import table
from .models import MoEModel, find_model
from .steps import Step, bytes_per_weight, decode_step, most_sequences, part_bytes, prefill, weights_read


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the parts of a model are spread; attention and experts each over all GPUs.

    Attributes
    ----------
    attention_tp, attention_dp : int
        Everything but the routed experts, embedding, head, dense layers and shared experts too: split over attention_tp
        GPUs, copied attention_dp times. Each copy serves its own sequences. What servers copy to every GPU of a group
        is copied here (`MoEModel.copied`).
    expert_tp, expert_parallel : int
        Routed experts: each split over expert_tp GPUs, the experts spread over expert_parallel groups of them.

    Raises
    ------
    ValueError
        If a size is no whole number from 1 up, or the two pairs take different numbers of GPUs.

    >>> Layout(attention_dp=8, expert_parallel=8)
    Layout.parse('DP8+EP8')
    """

    attention_tp: int = 1
    attention_dp: int = 1
    expert_tp: int = 1
    expert_parallel: int = 1

    def __post_init__(self):
        for field in fields(self):
            object.__setattr__(self, field.name, whole_number(field.name, getattr(self, field.name), 1))
        if self.attention_tp * self.attention_dp != self.expert_tp * self.expert_parallel:
            raise ValueError(f"attention_tp x attention_dp must equal expert_tp x expert_parallel, got "
                             f"{self.attention_tp} x {self.attention_dp} and {self.expert_tp} x {self.expert_parallel}")

    @property
    def num_gpus(self) -> int:
        """P, all GPUs of the layout."""
        return self.attention_tp * self.attention_dp

    def __str__(self):
        """Short name: TP8; DP8+EP8; TP2xDP4+EP8.

        >>> print(Layout(attention_tp=2, attention_dp=4, expert_tp=2, expert_parallel=4))
        TP2xDP4+TP2xEP4
        """
        def of(**sizes):
            return "x".join(f"{name}{size}" for name, size in sizes.items() if size > 1) or "1 GPU"

        attention = of(TP=self.attention_tp, DP=self.attention_dp)
        experts = of(TP=self.expert_tp, EP=self.expert_parallel)
        return attention if attention == experts else f"{attention}+{experts}"

    def __repr__(self):
        return f"Layout.parse({str(self)!r})"

    def _repr_html_(self):
        return table(str(self), {
            "GPUs": self.num_gpus, "attention split over": self.attention_tp, "attention copied": self.attention_dp,
            "each expert split over": self.expert_tp, "experts spread over": self.expert_parallel})

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Layout of a short name, the inverse of `str`: attention, then experts behind a plus; TP8 cuts both.

        Raises
        ------
        ValueError
            If it is no such name, or says of the attention alone that it is copied.

        >>> Layout.parse("TP8") == Layout(attention_tp=8, expert_tp=8)
        True
        >>> Layout.parse("DP8")
        Traceback (most recent call last):
        ValueError: DP8 leaves open where the experts go: say DP8+EP8 (spread whole) or DP8+TP8 (split)
        """
        wrong = f"a layout must read like TP8, DP8+EP8, TP2xDP4+TP2xEP4 or 1 GPU, got {text!r:.90}"
        if not isinstance(text, str) or not text.strip():
            raise ValueError(wrong)
        attention, plus, experts = re.sub(r"\s|1 GPU", "", text, flags=re.IGNORECASE).upper().partition("+")
        sizes: dict[str, int] = {}
        for part, names in (attention, {"TP": "attention_tp", "DP": "attention_dp"}), (
                experts if plus else attention.replace("DP", "EP"), {"TP": "expert_tp", "EP": "expert_parallel"}):
            items = part.split("X") if part else []
            pairs = [pair for item in items if (pair := re.fullmatch(r"([A-Z]+)([1-9]\d*)", item))]
            if len({pair[1] for pair in pairs} & names.keys()) < len(items):
                raise ValueError(wrong)
            sizes |= {names[pair[1]]: int(pair[2]) for pair in pairs}
        if not plus and sizes.get("attention_dp", 1) > 1:
            whole = sizes["attention_dp"] * sizes.get("attention_tp", 1)
            raise ValueError(f"{attention} leaves open where the experts go: say {attention}+EP{whole} (spread whole) "
                             f"or {attention}+TP{whole} (split)")
        return cls(**sizes)


def find_layout(layout: Layout | str) -> Layout:
    """A Layout as it is, or the one of that short name.

    Raises
    ------
    ValueError
        As `Layout.parse`.

    >>> print(find_layout("dp8+ep8").attention_dp)
    8
    """
    return layout if isinstance(layout, Layout) else Layout.parse(layout)


def layouts(model: MoEModel | str, num_gpus: int) -> list[Layout]:
    """Every way to spread a model over num_gpus, the illegal ones too (`problems` says why).

    Raises
    ------
    ValueError
        If num_gpus is no whole number from 1 up.

    >>> from moe_lib.models import CATALOG
    >>> print(*layouts(CATALOG["mixtral-8x7b"], 2))
    TP2 TP2+EP2 DP2+TP2 DP2+EP2
    """
    model, num_gpus = find_model(model), whole_number("num_gpus", num_gpus, 1)
    sizes = [size for size in range(num_gpus, 0, -1) if num_gpus % size == 0]
    if model.num_moe_layers == 0:  # no experts to spread
        return [Layout(attention_tp=tp, attention_dp=num_gpus // tp, expert_tp=num_gpus) for tp in sizes]
    return [Layout(attention_tp=tp, attention_dp=num_gpus // tp, expert_tp=expert_tp,
                   expert_parallel=num_gpus // expert_tp) for tp in sizes for expert_tp in sizes]


def problems(model: MoEModel | str, layout: Layout | str, *, weight_block: int | None = None,
             gpus_per_node: int | None = None) -> list[str]:
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
    >>> print(*problems(CATALOG["qwen3-235b-a22b"], Layout.parse("TP8"), weight_block=128))
    experts: a width of 1,536 over 8 GPUs leaves 192 each, no whole blocks of 128
    """
    model, layout = find_model(model), find_layout(layout)
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


def cache_share(model: MoEModel | str, layout: Layout | str) -> float:
    """Share of its sequences' cache that a GPU holds: 1 / attention_tp, but never less than one key-value head.

    MLA has one entry for all heads, so each GPU of a TP group holds the whole cache.

    >>> from moe_lib.models import CATALOG
    >>> for slug in "deepseek-v3", "qwen3-235b-a22b", "mixtral-8x7b":
    ...     print(slug, cache_share(CATALOG[slug], Layout.parse("TP8")))
    deepseek-v3 1.0
    qwen3-235b-a22b 0.25
    mixtral-8x7b 0.125
    """
    model, layout = find_model(model), find_layout(layout)
    return 1 / min(layout.attention_tp, max(model.num_kv_heads, 1))


def rank_resident_bytes(model: MoEModel | str, layout: Layout | str, *, weight_bytes: WeightBytes = None,
                        context: ArrayLike = 0, sequences: ArrayLike = 0, kv_bytes: float = 2) -> Numbers:
    """Bytes that one GPU must hold: its part of the weights, and its part of the caches of `sequences` sequences.

    Parameters as `steps.resident_bytes`; sequences over all GPUs, of which the fullest holds ceil(sequences / DP).

    Raises
    ------
    ValueError
        As `steps.resident_bytes`.

    Notes
    -----
    Source: notebook 07, eq. 7.1. Left out: key and value projections that a group copies where it has more GPUs than
    key-value heads, and servers that keep the head or dense layers divided while they copy the attention.

    >>> from moe_lib.models import CATALOG
    >>> for layout in Layout.parse("TP8"), Layout.parse("DP8+EP8"):
    ...     print(layout, f"{rank_resident_bytes(CATALOG['deepseek-v3'], layout, weight_bytes=1) / 1e9:.1f} GB")
    TP8 84.8 GB
    DP8+EP8 98.9 GB
    """
    model, layout = find_model(model), find_layout(layout)
    sizes = part_bytes(model, weight_bytes)
    routed = sizes.pop("routed_experts")
    state = model.recurrent_bytes_per_sequence
    whole = model.kv_bytes_per_sequence(context, kv_bytes) + model.state_bytes_per_sequence
    one = _caches_here(model, layout, whole - state, state)
    here = np.ceil(require("sequences", sequences, 0) / layout.attention_dp)
    weights = _always_here(model, weight_bytes, layout, sum(sizes.values())) + routed / layout.num_gpus
    return (weights + here * one)[()]


def layout_sequences(model: MoEModel | str, layout: Layout | str, usable_bytes: ArrayLike, *,
                     weight_bytes: WeightBytes = None, context: ArrayLike = 0, kv_bytes: float = 2) -> Numbers:
    """Most sequences of `context` tokens over all GPUs of a layout; 0 where the weights alone do not fit.

    Parameters as `rank_resident_bytes`, and the usable bytes of one GPU. inf where a sequence holds nothing.

    >>> from moe_lib.hardware import DEVICES
    >>> usable = DEVICES["h200"].usable_bytes
    >>> for layout in "TP8", "DP8+EP8":
    ...     print(layout_sequences("deepseek-v3", layout, usable, weight_bytes=1, context=8192))
    88.0
    504.0
    """
    model, layout = find_model(model), find_layout(layout)
    model.known_caches()  # where they are not, no number of sequences can be said
    weights = rank_resident_bytes(model, layout, weight_bytes=weight_bytes)
    one = rank_resident_bytes(model, layout, weight_bytes=weight_bytes, context=context, sequences=1, kv_bytes=kv_bytes)
    free = require("usable_bytes", usable_bytes, 0) - weights
    return layout.attention_dp * most_sequences(free, one - weights)


def rank_step(model: MoEModel | str, batch: ArrayLike, layout: Layout | str, *, weight_bytes: WeightBytes = None,
              context: ArrayLike = 0, kv_bytes: float = 2, inclusion: ArrayLike | None = None) -> Step:
    """Ledger of one GPU in a decode step, work spread evenly: what it reads and computes.

    Everything but the routed experts is split by attention_tp, less what servers copy, and serves B / attention_dp
    sequences. The routed experts that the **whole** batch touches are spread over all GPUs, whether by width or by
    expert.

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
    >>> from moe_lib.roofline import step_time
    >>> for layout in Layout.parse("TP8"), Layout.parse("DP8+EP8"):
    ...     step = rank_step(CATALOG["deepseek-v3"], 256, layout, weight_bytes=1, context=4096)
    ...     print(layout, f"{step_time(step, DEVICES['h200'], 'fp8').lower * 1e3:.1f} ms")
    TP8 33.0 ms
    DP8+EP8 22.3 ms
    """
    model, layout = find_model(model), find_layout(layout)
    whole = decode_step(
        model, batch, weight_bytes=weight_bytes, context=context, kv_bytes=kv_bytes, inclusion=inclusion)
    state = whole.state_bytes_written  # as much is read
    return replace(
        whole,
        weight_bytes_read=_weights_read(model, weight_bytes, layout, whole.share_touched),
        kv_bytes_read=_caches_here(model, layout, whole.kv_bytes_read - state, state) / layout.attention_dp,
        state_bytes_written=state / layout.num_gpus,
        flops=whole.flops / layout.num_gpus + _flops_twice(model, layout, whole.batch / layout.attention_dp))


def rank_prefill(model: MoEModel | str, tokens: int, layout: Layout | str, *, sequences: int = 1,
                 weight_bytes: WeightBytes = None, **prompt: Any) -> Step:
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
    >>> from moe_lib.roofline import step_time
    >>> for layout in Layout.parse("TP8"), Layout.parse("DP8+EP8"):
    ...     step = rank_prefill(CATALOG["deepseek-v3"], 8192, layout, weight_bytes=1)
    ...     print(layout, f"{step_time(step, DEVICES['h200'], 'fp8').lower.sum() * 1e3:.0f} ms")
    TP8 56 ms
    DP8+EP8 240 ms
    """
    model, layout = find_model(model), find_layout(layout)
    whole = prefill(model, tokens, sequences=sequences, weight_bytes=weight_bytes, **prompt)
    here = np.ceil(sequences / layout.attention_dp) / sequences
    experts = 2 * model.top_k * model.expert_params_all_layers * whole.batch
    written = whole.state_bytes_written
    state = np.where(np.greater(whole.kv_bytes_read, 0), written, 0)  # read by all chunks but a first
    return replace(
        whole,
        weight_bytes_read=_weights_read(model, weight_bytes, layout, whole.share_touched),
        kv_bytes_read=here * _caches_here(model, layout, whole.kv_bytes_read - state, state),
        kv_bytes_written=here * _caches_here(model, layout, whole.kv_bytes_written, 0),
        state_bytes_written=here * written / layout.attention_tp,
        flops=(whole.flops - experts) * here / layout.attention_tp + experts / layout.num_gpus
        + _flops_twice(model, layout, whole.batch * here))


def linear_placement(num_experts: int, num_gpus: int) -> NDArray[np.int64]:
    """GPU of each expert [E], in blocks: expert i on GPU i // (E/P), the default of vLLM.

    >>> print(linear_placement(8, 4))
    [0 0 1 1 2 2 3 3]
    """
    each = _experts_each(num_experts, num_gpus)
    return np.arange(num_experts) // each


def round_robin_placement(num_experts: int, num_gpus: int) -> NDArray[np.int64]:
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


def _caches_here(model: MoEModel, layout: Layout, cached: Numbers, state: Numbers) -> Numbers:
    """Bytes of a group's sequences on one of its GPUs: the cache by its heads, recurrent state by all of the group."""
    return cached * cache_share(model, layout) + state / layout.attention_tp


def _weights_read(model, weight_bytes, layout, share_touched):
    """Bytes of weights that one GPU reads in a step."""
    always, routed = weights_read(model, weight_bytes)
    return _always_here(model, weight_bytes, layout, always) + routed * share_touched / layout.num_gpus


def _always_here(model, weight_bytes, layout, always):
    """Bytes on one GPU of those `always` bytes of weights that every token uses: divided, but for what is copied."""
    per_weight = bytes_per_weight(model, weight_bytes)
    copied = sum(count * per_weight[part] for part, count in model.copied)
    return copied + (always - copied) / layout.attention_tp


def _flops_twice(model, layout, tokens):
    """FLOP of copied weights for `tokens` tokens, less the part that dividing them by attention_tp leaves."""
    return 2 * sum(count for _, count in model.copied) * tokens * (1 - 1 / layout.attention_tp)
