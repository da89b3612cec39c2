"""The ledger of a decode step or of a prefill chunk: experts touched, bytes read, FLOP, and what must stay resident.

Three different sizes of one model: resident counts **total** parameters, read counts what **coverage** touches, FLOP
counts **active** parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike

from ._arguments import Numbers, WeightBytes, require, whole_number
from ._show import number, table
from .models import MoEModel, find_model, find_models
from .routing import coverage, coverage_of, tokens_per_expert, top_k_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Step:
    """What one step touches, reads and computes, summed over all layers and all GPUs.

    Every field is a float or an array of one shape: [models,] then batch and context broadcast together, or the chunks
    of a prompt.

    Attributes
    ----------
    batch, num_experts, top_k : float or ndarray
    share_touched : float or ndarray
        Expected share of a layer's routed experts that the step touches, in [0, 1].
    weight_bytes_read, kv_bytes_read : float or ndarray
        Bytes. The B rows looked up in an untied input embedding (B d w bytes, under 0.1 %) are left out.
    kv_bytes_written : float or ndarray
        Bytes that a prefill chunk adds to the cache. 0.0 in a decode step: its one token a sequence is left out.
    state_bytes_written : float or ndarray
        Bytes of recurrent state (hybrids) that the step writes back, as many as it reads of it. All but special kernels
        do so each step; `bytes_read` is the floor without it. 0.0 where there is none.
    flops : float or ndarray
        FLOP, 2 a multiply-add.
    """

    batch: Numbers
    num_experts: Numbers
    top_k: Numbers
    share_touched: Numbers
    weight_bytes_read: Numbers
    kv_bytes_read: Numbers
    kv_bytes_written: Numbers
    state_bytes_written: Numbers
    flops: Numbers

    def __repr__(self):
        shape = f"shape {np.shape(self.flops)}: " if np.ndim(self.flops) else ""
        return f"Step({shape}{', '.join(f'{text} {label}' for label, text in self._shown().items())})"

    def _repr_html_(self):
        shape = f", shape {np.shape(self.flops)}" if np.ndim(self.flops) else ""
        return table(f"Step{shape}", self._shown())

    def _shown(self):
        """{what: its number, or range over several steps}."""
        written = self.kv_bytes_written + self.state_bytes_written
        experts = {"experts touched": f"{number(self.experts_touched)} of {number(self.num_experts)}"}
        tokens = "token" if np.all(np.equal(self.batch, 1)) else "tokens"
        return {tokens: number(self.batch),
                **(experts if np.any(np.greater(self.num_experts, 1)) else {}), "read": number(self.bytes_read, "B"),
                **({"written": number(written, "B")} if np.any(written) else {}),
                "computed": number(self.flops, "FLOP"), "FLOP/byte": number(self.intensity)}

    @property
    def experts_touched(self) -> Numbers:
        """Expected distinct experts of one layer."""
        return self.num_experts * self.share_touched

    @property
    def tokens_per_expert(self) -> Numbers:
        """Mean tokens per expert, over all experts."""
        return tokens_per_expert(self.num_experts, self.top_k, self.batch)

    @property
    def tokens_per_touched_expert(self) -> Numbers:
        """Mean tokens per expert, over those touched; nan where no token is routed."""
        with np.errstate(invalid="ignore"):
            return np.divide(self.tokens_per_expert, self.share_touched)

    @property
    def bytes_read(self) -> Numbers:
        """Weights, KV cache and recurrent state, bytes."""
        return self.weight_bytes_read + self.kv_bytes_read

    @property
    def bytes_moved(self) -> Numbers:
        """Bytes read, and cache and state bytes written: what the memory's bandwidth is shared by."""
        return self.bytes_read + self.kv_bytes_written + self.state_bytes_written

    @property
    def intensity(self) -> Numbers:
        """FLOP per byte moved."""
        return self.flops / self.bytes_moved


def decode_step(model: MoEModel | str | Sequence[MoEModel | str], batch: ArrayLike, *, weight_bytes: WeightBytes = None,
                context: ArrayLike = 0, kv_bytes: float = 2, inclusion: ArrayLike | None = None) -> Step:
    """Ledger of a decode step of `batch` tokens, one per sequence.

    Weights read: ``w (A_read + E C(B) e)``. FLOP: 2 B active parameters + attention. KV read: B caches of `context`
    tokens.

    Parameters
    ----------
    model : MoEModel, str or sequence of them
        A model or its name in `CATALOG`. A sequence adds a leading axis.
    batch : array_like
        B, tokens in the step over all GPUs.
    weight_bytes : float or dict, optional
        Bytes per weight: one number, or ``{part: bytes, ..., "default": bytes}`` with the parts of ``model.ledger()``.
        None means as released.
    context : array_like
        Tokens already cached per sequence, broadcast against batch. 0 leaves the cache out.
    kv_bytes : float
        Bytes per cached value.
    inclusion : array_like [E] or [layers, E], optional
        Probability that a token chooses each expert. None means uniform. Layers are averaged.

    Returns
    -------
    Step

    Raises
    ------
    ValueError
        If batch, context or a byte count is negative, a part is unknown, or inclusion does not fit E and k.

    Notes
    -----
    Source: notebook 03, eq. 3.1. Breaks when tokens of a batch agree on their experts: then fewer are touched.

    >>> from moe_lib.models import CATALOG
    >>> step = decode_step(CATALOG["deepseek-v3"], 64, weight_bytes=2)
    >>> print(f"{step.bytes_read / 1e9:,.1f} GB, {step.intensity:.2f} FLOP/byte, {step.experts_touched:.1f} experts")
    1,168.8 GB, 4.01 FLOP/byte, 222.4 experts
    """
    if not isinstance(model, (MoEModel, str)):
        return _stacked(
            model, batch, weight_bytes=weight_bytes, context=context, kv_bytes=kv_bytes, inclusion=inclusion)
    model, batch, context = find_model(model), require("batch", batch, 0), require("context", context, 0)
    E, k = np.float64(model.num_experts), np.float64(model.top_k)
    share = coverage(E, k, batch) if inclusion is None else _share_of(inclusion, model, batch)
    always, routed = weights_read(model, weight_bytes)
    cached, state, attention = _context_of(model, context, kv_bytes)
    written = batch * state if model.recurrent_bytes_per_sequence else 0.0
    return _step(
        written, batch=batch, num_experts=E, top_k=k, share_touched=share, weight_bytes_read=always + routed * share,
        kv_bytes_read=batch * (cached + state),
        flops=batch * (2.0 * model.active_params_read + attention))


def _stacked(models, *arguments, **settings):
    """Steps of several models, a leading axis for the model."""
    steps = [decode_step(each, *arguments, **settings) for each in find_models(models)]
    each = {field.name: [np.broadcast_to(getattr(step, field.name), np.shape(step.flops)) for step in steps]
            for field in fields(Step)}
    return Step(**{name: np.stack(values) for name, values in each.items()})


def _step(state_bytes_written, **values):
    """A `Step` of fields that are broadcast together; numbers stay numbers, and so does the nothing that is written."""
    if any(isinstance(value, np.ndarray) for value in values.values()):
        values = dict(zip(values, np.broadcast_arrays(*values.values()), strict=True))
    return Step(**values, kv_bytes_written=0.0, state_bytes_written=state_bytes_written)


def prefill(model: MoEModel | str, tokens: int, *, chunk: int | None = None, sequences: int = 1, context: int = 0,
            weight_bytes: WeightBytes = None, kv_bytes: float = 2, all_logits: bool = True,
            inclusion: ArrayLike | None = None) -> Step:
    """Ledger of a prompt, chunk by chunk: each chunk reads the weights that it touches and the cache of those before.

    FLOP of a chunk: 2 tokens x active parameters, and attention that grows with the position. Latent attention (MLA)
    runs in the cheaper of its two forms: absorbed, or with keys and values expanded.

    Parameters
    ----------
    model : MoEModel
    tokens : int
        Prompt tokens of a sequence, beyond those already cached.
    chunk : int, optional
        Tokens of a sequence that go through at once; the last chunk may be shorter. None: all of them.
    sequences : int
        Prompts that go through together, in step.
    context : int
        Tokens of each already cached: an earlier turn, a shared prefix.
    weight_bytes, kv_bytes, inclusion
        As `decode_step`.
    all_logits : bool
        Whether every token goes through the head. A server needs the last one only; with False a chunk computes one
        token of each sequence there, and reads the head all the same.

    Returns
    -------
    Step
        Fields of shape [chunks].

    Raises
    ------
    ValueError
        If tokens, chunk or sequences is no whole number from 1 up, or as `decode_step`.

    Notes
    -----
    Source: notebook 04, eq. 4.3. Each cached byte is counted once a chunk, as a kernel that keeps it on chip would read
    it; of sparse attention, the tokens that one query selects. What a chunk writes is not read back. Expanded keys and
    values are not kept from chunk to chunk: a server that has room for them computes less.

    >>> from moe_lib.models import CATALOG
    >>> step = prefill(CATALOG["deepseek-v3"], 8192, chunk=2048, weight_bytes=1)
    >>> print((step.flops / 1e12).round(), (step.kv_bytes_read / 1e6).round())
    [160. 186. 211. 236.] [  0. 144. 288. 432.]
    """
    model, tokens = find_model(model), whole_number("tokens", tokens, 1)
    chunk = tokens if chunk is None else whole_number("chunk", chunk, 1)
    sequences, context = whole_number("sequences", sequences, 1), whole_number("context", context, 0)
    start = context + np.arange(0, tokens, chunk, dtype=np.int64)
    length = np.minimum(chunk, context + tokens - start)
    step = decode_step(model, sequences * length, weight_bytes=weight_bytes, kv_bytes=kv_bytes, inclusion=inclusion)
    cached, state, _ = _context_of(model, start, kv_bytes)
    per_token = model.chunk_attention_flops(start, length)
    if not all_logits:
        per_token = per_token - 2 * _head_params(model) * (length - 1)
    state_left = model.recurrent_bytes_per_sequence
    written = model.kv_bytes_per_sequence(length, kv_bytes) + model.state_bytes_per_sequence - state_left
    left_behind = np.full_like(written, sequences * state_left)
    return replace(step, kv_bytes_read=sequences * (cached + state), kv_bytes_written=sequences * written,
                   state_bytes_written=left_behind, flops=step.flops + sequences * per_token)


def context_of_equal_bytes(model: MoEModel | str, batch: ArrayLike, *, weight_bytes: WeightBytes = None,
                           kv_bytes: float = 2) -> Numbers:
    """Context per sequence at which a decode step reads as many bytes of cache as of weights.

    Returns
    -------
    float or ndarray
        Tokens; inf where the cache stops growing before (windows) or does not grow, 0 where the fixed state of hybrid
        layers alone is as much.

    Raises
    ------
    ValueError
        As `decode_step`, or if batch is below 1.

    Notes
    -----
    Source: notebook 04, eq. 4.1.

    >>> from moe_lib.models import CATALOG
    >>> print(context_of_equal_bytes(CATALOG["deepseek-v3"], [1, 64, 1024], weight_bytes=2).round())
    [1042395.  259875.   18625.]
    """
    model = find_model(model)
    step = decode_step(model, require("batch", batch, 1), weight_bytes=weight_bytes)
    left = np.maximum(step.weight_bytes_read / step.batch - model.state_bytes_per_sequence, 0)
    return _context_where(model, lambda context: model.kv_bytes_read(context, kv_bytes), left)


def context_of_equal_flops(model: MoEModel | str) -> float:
    """Context at which a token's attention takes as many FLOP as its weights; inf where it never does.

    Source: notebook 04, eq. 4.2.

    >>> from moe_lib.models import CATALOG
    >>> print(f"{context_of_equal_flops(CATALOG['deepseek-v3']):,.0f}")
    4,311
    """
    model = find_model(model)
    return _context_where(model, model.attention_flops, 2 * model.active_params_read)


def resident_bytes(model: MoEModel | str, *, weight_bytes: WeightBytes = None, context: ArrayLike = 0,
                   sequences: ArrayLike = 0, kv_bytes: float = 2) -> Numbers:
    """Bytes that must be held: every parameter, and the caches of `sequences` sequences of `context` tokens.

    Parameters as `decode_step`; context and sequences broadcast. Activations and buffers are not counted.

    Raises
    ------
    ValueError
        If an argument is negative or a part is unknown.

    Notes
    -----
    Source: notebook 01, eq. 1.3.

    >>> from moe_lib.models import CATALOG
    >>> print(f"{resident_bytes(CATALOG['deepseek-v3'], weight_bytes=2) / 1e9:,.0f} GB")
    1,342 GB
    """
    model, sequences = find_model(model), 1.0 * require("sequences", sequences, 0)
    cache = model.kv_bytes_per_sequence(context, kv_bytes) + model.state_bytes_per_sequence
    return sum(part_bytes(model, weight_bytes).values()) + sequences * cache


def sequences_that_fit(model: MoEModel | str, usable_bytes: ArrayLike, *, weight_bytes: WeightBytes = None,
                       context: ArrayLike = 0, kv_bytes: float = 2) -> Numbers:
    """Most sequences of `context` tokens whose caches fit beside the weights; 0 where the weights alone do not fit.

    Parameters as `resident_bytes`, and usable_bytes of all devices together (`Device.usable_bytes`). inf where a
    sequence holds nothing. Nothing is held twice: a layout that copies caches or weights fits fewer.

    Raises
    ------
    ValueError
        As `resident_bytes`, if usable_bytes is negative, or if the caches of the model are not known.

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> usable = 8 * DEVICES["h200"].usable_bytes
    >>> print(f"{sequences_that_fit(CATALOG['deepseek-v3'], usable, weight_bytes=1, context=8192):.0f}")
    719
    """
    model, usable_bytes = find_model(model), require("usable_bytes", usable_bytes, 0)
    model.known_caches()  # where they are not, no number of sequences can be said
    weights = resident_bytes(model, weight_bytes=weight_bytes)
    one = resident_bytes(model, weight_bytes=weight_bytes, context=context, sequences=1, kv_bytes=kv_bytes) - weights
    return most_sequences(usable_bytes - weights, one)


def bytes_per_weight(model: MoEModel | str, weight_bytes: WeightBytes = None) -> dict[str, float]:
    """Bytes per weight of every part of the ledger, from a number, a dict or None (as released).

    Raises
    ------
    ValueError
        If a part is unknown, a part has neither its own number nor a default, or one is negative or no single number.

    >>> from moe_lib.models import CATALOG
    >>> mixed = bytes_per_weight(CATALOG["mixtral-8x7b"], {"routed_experts": 0.53125, "default": 2})
    >>> print(mixed["routed_experts"], mixed["attention"])
    0.53125 2
    """
    model = find_model(model)
    given = model.released_weight_bytes if weight_bytes is None else weight_bytes
    parts = model.ledger()
    if not isinstance(given, dict):
        return dict.fromkeys(parts, require("weight_bytes", given, 0, one=True))
    if set(given) - set(parts) - {"default"} or not ("default" in given or set(parts) <= set(given)):
        raise ValueError(f"weight_bytes must be a number, or a dict with a default (or every part) and keys out of "
                         f"{', '.join(parts)}; got the keys {', '.join(map(str, given))}")
    checked = {part: require(f"weight_bytes of {part}", value, 0, one=True) for part, value in given.items()}
    return {part: checked[part if part in checked else "default"] for part in parts}


def part_bytes(model: MoEModel | str, weight_bytes: WeightBytes = None) -> dict[str, float]:
    """Bytes of every part of the ledger; weight_bytes and errors as `bytes_per_weight`.

    >>> from moe_lib.models import CATALOG
    >>> print(part_bytes(CATALOG["mixtral-8x7b"], 2)["routed_experts"])
    90194313216.0
    """
    model, per_weight = find_model(model), bytes_per_weight(model, weight_bytes)
    return {part: float(count * per_weight[part]) for part, count in model.ledger().items()}


def parts_read(model: MoEModel | str, share_touched: float, weight_bytes: WeightBytes = None) -> dict[str, float]:
    """Bytes that a step reads of every part: routed experts as touched, an input embedding only if it is the head too.

    Parameters
    ----------
    model : MoEModel
    share_touched : float
        Share of the routed experts that the step touches: k/E for one token.
    weight_bytes
        As `bytes_per_weight`, errors too.

    Returns
    -------
    dict of str to float

    >>> from moe_lib.models import CATALOG
    >>> one = parts_read(CATALOG["deepseek-v3"], 8 / 256, 2)
    >>> print(f"{sum(one.values()) / 1e9:.1f} GB, {one['embedding']:.0f} of the embedding")
    73.3 GB, 0 of the embedding
    """
    model, sizes = find_model(model), part_bytes(model, weight_bytes)
    share_touched = require("share_touched", share_touched, 0, 1, one=True)
    looked_up = 0.0 if not model.tied_embeddings else sizes["embedding"]  # else a row for each token
    return sizes | {"routed_experts": sizes["routed_experts"] * share_touched, "embedding": looked_up}


def weights_read(model: MoEModel | str, weight_bytes: WeightBytes = None) -> tuple[float, float]:
    """(bytes of weights that a step reads whatever its batch, bytes of all routed experts), as `bytes_per_weight`.

    >>> from moe_lib.models import CATALOG
    >>> print(*(f"{size / 1e9:.1f} GB" for size in weights_read(CATALOG["deepseek-v3"], 1)))
    16.2 GB 653.9 GB
    """
    sizes = parts_read(model, 1, weight_bytes)
    routed = sizes.pop("routed_experts")
    return sum(sizes.values()), routed


def most_sequences(free_bytes: ArrayLike, each_bytes: ArrayLike) -> Numbers:
    """Whole sequences that free bytes hold; 0 where these are negative, inf where a sequence holds nothing.

    >>> print(most_sequences([-1, 10, 10], [4, 4, 0]))
    [ 0.  2. inf]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        fit = np.floor(np.divide(free_bytes, each_bytes))
    return np.where(np.less(free_bytes, 0), 0, np.where(np.greater(each_bytes, 0), fit, np.inf))[()]


def _context_of(model, context, kv_bytes):
    """(bytes of cache, bytes of state, FLOP of attention) of one sequence's step, each of context's shape."""
    state = np.where(context > 0, model.state_bytes_per_sequence, 0.0)[()]
    return model.kv_bytes_read(context, kv_bytes), state, model.attention_flops(context)


def _context_where(model, amount, target):
    """Context at which `amount(context)` reaches target: linear between the caps of the layers."""
    caps = [cap for cache in model.known_caches() for cap in (cache.window, cache.selected) if cap is not None]
    knots = np.unique([0.0, *caps, 1e15])
    values = amount(knots)
    return np.where(target > values[-1], np.inf, np.interp(target, values, knots))[()]


def _head_params(model):
    return model.ledger()["embedding" if model.tied_embeddings else "head"]


def _share_of(inclusion, model, batch):
    top_k, inclusion = top_k_of(inclusion), np.atleast_2d(inclusion)
    if (model.num_experts, model.top_k) != (inclusion.shape[-1], top_k):
        raise ValueError(f"inclusion must describe {model.top_k} of {model.num_experts} experts ({model.name}), "
                         f"got {top_k} of {inclusion.shape[-1]}")
    return np.mean(coverage_of(inclusion, batch[..., None]), axis=-1)
