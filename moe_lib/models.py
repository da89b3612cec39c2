"""What a model holds: parameters by part, key-value cache and sizes, counted from its configuration.

`from_config` reads a `config.json` in Hugging Face's spelling, one small function per family, and returns a `MoEModel`.
`CATALOG` holds published models. Nothing here guesses: a family or a key that is not known is an error that says so.

Main model only: no multi-token-prediction module, no router-bias buffer, no vision or audio part.
"""

import csv
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ._arguments import require

PARTS = ("embedding", "attention", "dense_ffn", "router", "shared_experts", "routed_experts", "norms", "head", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What a group of equal layers keeps of a sequence: one record per kind of layer.

    Attributes
    ----------
    num_layers : int
        Layers of this kind.
    values_per_token : float
        Values kept per layer and token: 2 x kv heads x head_dim, or kv_lora_rank + qk_rope_head_dim for MLA.
    flops_per_token : float
        FLOP of one query token per layer and cached token: 4 x heads x head_dim, or
        2 x heads x (2 kv_lora_rank + qk_rope_head_dim) for absorbed MLA.
    window : int or None
        Tokens after which the cache of the layer stops growing.
    selected : int or None
        Tokens that a step reads at most (sparse attention); all are kept.
    index : bool
        Keys of a sparse-attention indexer: held and read, but not part of `kv_bytes_per_token`.
    """

    num_layers: int
    values_per_token: float
    flops_per_token: float = 0
    window: int | None = None
    selected: int | None = None
    index: bool = False

    def tokens_kept(self, context):
        """Tokens of `context` that the cache holds."""
        return np.asarray(context) if self.window is None else np.minimum(context, self.window)

    def tokens_read(self, context):
        """Tokens of `context` that one query token attends to."""
        kept = self.tokens_kept(context)
        return kept if self.selected is None else np.minimum(kept, self.selected)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoEModel:
    """Published facts of one model; counts that follow from them are properties and methods.

    A dense model has num_experts = top_k = 1, num_moe_layers = 0 and its feed-forward weights in `dense_ffn`.

    Attributes
    ----------
    parts : tuple of (str, int)
        Parameters by part, in the order of `PARTS`; they sum to `total_params`.
    group_limit : tuple of int or None
        (groups, groups kept) of group-limited routing.
    released_weight_bytes : float or dict
        Bytes per weight as published, scales included: one number, or one per part with a "default".
    notes : str
        What a reader of the numbers must know.
    """

    name: str
    source: str
    family: str
    num_layers: int
    num_moe_layers: int
    num_experts: int
    top_k: int
    num_shared_experts: int
    d_model: int
    d_expert: int
    num_heads: int
    num_kv_heads: int
    group_limit: tuple[int, int] | None
    tied_embeddings: bool
    parts: tuple[tuple[str, int], ...]
    caches: tuple[Cache, ...]
    released_weight_bytes: float | dict[str, float]
    released_precision: str
    state_bytes_per_sequence: float = 0
    notes: str = ""

    def ledger(self):
        """Parameters by part, as a new dict that sums to `total_params`.

        >>> CATALOG["mixtral-8x7b"].ledger()["routed_experts"]
        45097156608
        """
        return dict(self.parts)

    @property
    def total_params(self):
        """All parameters of the main model."""
        return sum(count for _, count in self.parts)

    @property
    def expert_params_all_layers(self):
        """One routed expert summed over the MoE layers (for `from_counts` not always a whole number)."""
        return _divide(self.ledger()["routed_experts"], self.num_experts)

    @property
    def expert_params(self):
        """One routed expert in one layer; 0 for a dense model."""
        return _divide(self.expert_params_all_layers, max(self.num_moe_layers, 1))

    @property
    def always_active_params(self):
        """All parameters but the routed experts."""
        return self.total_params - self.ledger()["routed_experts"]

    @property
    def active_params(self):
        """Parameters of one token, the whole input embedding counted.

        >>> CATALOG["deepseek-v3"].active_params
        37552282624
        """
        return self.always_active_params + round(self.top_k * self.expert_params_all_layers)

    @property
    def active_params_read(self):
        """Parameters that a step of one token reads: the input embedding only where it is the head too.

        >>> CATALOG["deepseek-v3"].active_params_read
        36625603584
        """
        return self.active_params - (0 if self.tied_embeddings else self.ledger()["embedding"])

    @property
    def kv_is_upper_bound(self):
        """True where some layers stop caching at a window or chunk: `kv_bytes_per_token` holds below it only."""
        return any(cache.window is not None and cache.values_per_token > 0 for cache in self.caches)

    def kv_bytes_per_token(self, kv_bytes=2):
        """Bytes of key-value cache that one more token takes, all layers, index keys and state left out.

        >>> CATALOG["deepseek-v3"].kv_bytes_per_token()
        70272
        """
        require("kv_bytes", kv_bytes, 0)
        return sum(cache.num_layers * cache.values_per_token for cache in self.caches if not cache.index) * kv_bytes

    def kv_bytes_per_sequence(self, context, kv_bytes=2):
        """Bytes that a sequence of `context` tokens holds: windows and index keys included, fixed state not."""
        require("context", context, 0)
        require("kv_bytes", kv_bytes, 0)
        return kv_bytes * sum(c.num_layers * c.values_per_token * c.tokens_kept(context) for c in self.caches)

    def kv_bytes_read(self, context, kv_bytes=2):
        """Bytes that one decode step reads of one sequence: like `kv_bytes_per_sequence`, selected tokens only."""
        require("context", context, 0)
        require("kv_bytes", kv_bytes, 0)
        return kv_bytes * sum(c.num_layers * c.values_per_token * c.tokens_read(context) for c in self.caches)

    def attention_flops(self, context):
        """FLOP of scores and weighted sums of one query token over `context` cached tokens, all layers."""
        require("context", context, 0)
        return sum(c.num_layers * c.flops_per_token * c.tokens_read(context) for c in self.caches) + 0 * context


def _divide(count, by):
    """Quotient, an int where it is whole."""
    return count // by if count % by == 0 else count / by


def from_counts(name, total_params, active_params, num_experts, top_k):
    """Model of four published counts: one MoE layer, no embedding, everything shared in the part `other`.

    Parameters
    ----------
    name : str
    total_params, active_params, num_experts, top_k : int
        One expert is (total - active) / (E - k); the rest of the total is always active.

    Returns
    -------
    MoEModel

    Raises
    ------
    ValueError
        If the counts are not whole numbers, contradict each other, or top_k is not in 1..num_experts - 1.

    >>> plate = from_counts("DeepSeek-V3", 671e9, 37e9, 256, 8)
    >>> print(plate.active_params, round(plate.expert_params))
    37000000000 2556451613
    """
    counts = {"total_params": total_params, "active_params": active_params, "num_experts": num_experts, "top_k": top_k}
    for key, value in counts.items():
        require(key, value, 1, 1e15)
        if np.ndim(value) or value != int(value):
            raise ValueError(f"{key} must be one whole number, got {value!r}")
    total, active, num_experts, top_k = (int(value) for value in counts.values())
    require("num_experts", num_experts, 2)
    require("top_k", top_k, 1, num_experts - 1)
    require("active_params", active, 1, total)
    routed = round(num_experts * (total - active) / (num_experts - top_k))
    if routed > total:
        low = -(-total * top_k // num_experts)
        raise ValueError(f"active_params must be at least {low} = total x top_k / num_experts, got {active}")
    counted = {"routed_experts": routed, "other": total - routed}
    return MoEModel(
        name=name, source="the four counts passed", family="counts", num_layers=1, num_moe_layers=1,
        num_experts=num_experts, top_k=top_k, num_shared_experts=0, d_model=0, d_expert=0, num_heads=0, num_kv_heads=0,
        group_limit=None, tied_embeddings=False, parts=tuple((part, counted.get(part, 0)) for part in PARTS), caches=(),
        released_weight_bytes=2, released_precision="bf16 assumed", notes="Four counts only: no cache, no embedding.",
    )


def dense_twin(model):
    """The same model with one expert, top_k times as large: what a dense model of the same active size reads.

    >>> twin = dense_twin(CATALOG["deepseek-v3"])
    >>> print(twin.total_params == twin.active_params == CATALOG["deepseek-v3"].active_params)
    True
    """
    ledger = model.ledger() | {"routed_experts": model.active_params - model.always_active_params}
    return replace(
        model, name=f"{model.name}, dense twin", num_experts=1, top_k=1, d_expert=model.top_k * model.d_expert,
        group_limit=None, parts=tuple(ledger.items()),
    )


# Reading a configuration: keys checked one by one, shared counts, one function per family.

_REQUIRED = object()
_LARGEST = 10**9


class _Config:
    """The keys of one configuration; every error names the place, the key, the value and what is allowed."""

    def __init__(self, values, where):
        self.values, self.where = values, where

    def error(self, name, rule, value):
        return ValueError(f"{self.where}: {name} must be {rule}, got {value!r:.90}")

    def find(self, *names, default=_REQUIRED):
        """First of the spellings `names` that is there and not null, as (name, value)."""
        for name in names:
            if self.values.get(name) is not None:
                return name, self.values[name]
        if default is _REQUIRED:
            raise ValueError(f"{self.where}: a required key is missing, looked for {' or '.join(names)}")
        return names[0], default

    def integer(self, *names, default=_REQUIRED, low=1, high=_LARGEST):
        name, value = self.find(*names, default=default)
        if value is not default and (type(value) is not int or not low <= value <= high):
            raise self.error(name, f"a whole number within {low}..{high}", value)
        return value

    def unless_null(self, name, default):
        """The default where the key is absent, None where it is there and null."""
        return None if name in self.values else default

    def flag(self, name, default):
        _, value = self.find(name, default=default)
        if type(value) is not bool:
            raise self.error(name, "true or false", value)
        return value

    def each(self, name, allowed, rule, default=()):
        """A list, every entry of which passes `allowed`."""
        _, value = self.find(name, default=default)
        if value is not default and (not isinstance(value, (list, tuple)) or not all(map(allowed, value))):
            raise self.error(name, f"a list of {rule}", value)
        return value

    def indices(self, name, default=()):
        return self.each(name, lambda i: type(i) is int and 0 <= i <= _LARGEST, "layer numbers from 0", default)

    def section(self, name):
        _, value = self.find(name)
        if not isinstance(value, dict):
            raise self.error(name, "an object", value)
        return _Config(value, f"{self.where}: {name}")


class _Shape(NamedTuple):
    layers: int
    d: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int


def _shape(c, kv_heads=None, head_dim=None, kv_section=None):
    """Sizes of a decoder. `kv_heads`, `head_dim`: the library's value where the key is absent, None = derived."""
    d, heads = c.integer("hidden_size", "d_model"), c.integer("num_attention_heads", "n_heads", high=10**6)
    kv_heads = (kv_section or c).integer("num_key_value_heads", "kv_n_heads", default=kv_heads or heads, high=heads)
    if heads % kv_heads:
        raise c.error("num_key_value_heads", f"a divisor of num_attention_heads = {heads}", kv_heads)
    head_dim = c.integer("head_dim", default=head_dim)
    if head_dim is None and d % heads:
        raise c.error("hidden_size", f"a multiple of num_attention_heads = {heads} where head_dim is absent", d)
    layers = c.integer("num_hidden_layers", "n_layers", high=10**4)
    return _Shape(layers, d, c.integer("vocab_size"), heads, kv_heads, head_dim or d // heads)


def _linear(inputs, outputs, bias=False):
    return inputs * outputs + (outputs if bias else 0)


def _ffn(d, width, bias=False):
    """Gated feed-forward block: gate and up d x width, down width x d."""
    return 2 * _linear(d, width, bias) + _linear(width, d, bias)


def _gqa(s, qkv_bias=False, out_bias=False):
    """The four projections of attention with grouped key-value heads."""
    query, key = s.heads * s.head_dim, s.kv_heads * s.head_dim
    return _linear(s.d, query, qkv_bias) + 2 * _linear(s.d, key, qkv_bias) + _linear(query, s.d, out_bias)


def _gqa_cache(s, num_layers, window=None):
    return Cache(num_layers=num_layers, values_per_token=2 * s.kv_heads * s.head_dim,
                 flops_per_token=4 * s.heads * s.head_dim, window=window)


def _layer_types(c, layers, default, kinds=("full_attention", "sliding_attention")):
    """Kind of attention by layer: the key layer_types, else `default`."""
    found = c.each("layer_types", lambda kind: kind in kinds, " or ".join(kinds), default)
    if len(found) != layers:
        raise c.error("layer_types", f"one entry for each of {layers} layers", found)
    return found


def _windowed_caches(c, s, kinds, key="sliding_window", default=_REQUIRED):
    """Caches of layers with full attention and of those with a window or chunk of `key` tokens."""
    full = sum(kind == "full_attention" for kind in kinds)
    caches = [_gqa_cache(s, full)] if full else []
    if full < len(kinds):
        caches.append(_gqa_cache(s, len(kinds) - full, c.integer(key, default=default)))
    return caches


def _qwen_caches(c, s, slides):
    """Qwen: a window only where use_sliding_window is true; `slides(i)` says in which layers."""
    kinds = ["sliding_attention" if slides(i) else "full_attention" for i in range(s.layers)]
    if not c.flag("use_sliding_window", False):
        return [_gqa_cache(s, s.layers)]
    return _windowed_caches(c, s, _layer_types(c, s.layers, kinds), default=4096)


def _experts(c, *names, top_k="num_experts_per_tok"):
    """Routed experts in a layer, and of those a token takes."""
    num_experts = c.integer(*names, high=10**6)
    return num_experts, c.integer(top_k, high=num_experts)


def _group_limit(c, experts, groups, kept):
    groups = c.integer("n_group", default=groups)
    kept = c.integer("topk_group", default=min(kept, groups), high=groups)
    num_experts, top_k = experts
    if num_experts % groups:
        raise c.error("n_group", f"a divisor of the number of experts, {num_experts}", groups)
    if top_k > kept * (num_experts // groups):
        raise c.error("topk_group", f"enough for {top_k} experts from groups of {num_experts // groups}", kept)
    return (groups, kept) if groups > 1 else None


def _dense(c, s, moe_layers, *names, bias=False):
    """Feed-forward weights of one dense layer; their width is asked for only where there are such layers."""
    return _ffn(s.d, c.integer(*(names or ("intermediate_size",))), bias) if moe_layers < s.layers else 0


def _notes(c, s, caches, state):
    kept = sum(cache.num_layers for cache in caches)
    yield from (f"{cache.num_layers} of {s.layers} layers keep at most {cache.window} tokens: cache per token is an "
                "upper bound beyond." for cache in caches if cache.window)
    if state:
        yield f"Keys and values in {kept} of {s.layers} layers; the others keep a fixed state per sequence."
    if c.values.get("num_nextn_predict_layers"):
        yield "Multi-token-prediction module not counted."
    if isinstance(c.values.get("text_config"), dict):
        yield "Text part only."


def _facts(c, s, *, attention, caches, norms, dense_ffn=0, moe_layers=0, experts=(1, 1), expert=0, d_expert=0,
           router_bias=False, shared=0, num_shared=0, head_bias=False, group_limit=None, state=0):
    """Fields of the record. `dense_ffn`, `expert` and `shared` are counts per layer that has them."""
    if not moe_layers:
        experts, d_expert, num_shared, group_limit = (1, 1), 0, 0, None
    tied = c.flag("tie_word_embeddings", False)
    counted = {
        "embedding": s.vocab * s.d,
        "attention": attention,
        "dense_ffn": (s.layers - moe_layers) * dense_ffn,
        "router": moe_layers * _linear(s.d, experts[0], router_bias),
        "shared_experts": moe_layers * shared,
        "routed_experts": moe_layers * experts[0] * expert,
        "norms": norms,
        "head": (0 if tied else s.vocab * s.d) + (s.vocab if head_bias else 0),
        "other": 0,
    }
    return {
        "num_layers": s.layers, "num_moe_layers": moe_layers, "num_experts": experts[0], "top_k": experts[1],
        "num_shared_experts": num_shared, "d_model": s.d, "d_expert": d_expert, "num_heads": s.heads,
        "num_kv_heads": s.kv_heads, "group_limit": group_limit, "tied_embeddings": tied,
        "parts": tuple(counted.items()), "caches": tuple(caches), "state_bytes_per_sequence": state,
        "notes": " ".join(_notes(c, s, caches, state)),
    }


def _decoder(c, s, *, qkv_bias=False, out_bias=False, qk_norm=0, sinks=0, norm=None, caches=None, **facts):
    """Decoder with the same grouped-query attention in every layer; `norm` weights of one norm, `qk_norm` a layer."""
    return _facts(c, s, attention=s.layers * (_gqa(s, qkv_bias, out_bias) + sinks),
                  caches=caches or [_gqa_cache(s, s.layers)],
                  norms=(2 * s.layers + 1) * (norm or s.d) + s.layers * qk_norm, **facts)


def _llama(c):
    s, bias = _shape(c), c.flag("attention_bias", False)
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, dense_ffn=_dense(c, s, 0, bias=c.flag("mlp_bias", False)))


def _qwen3(c):
    s, bias = _shape(c, kv_heads=32, head_dim=128), c.flag("attention_bias", False)
    first = c.integer("max_window_layers", default=28, low=0)
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, qk_norm=2 * s.head_dim, dense_ffn=_dense(c, s, 0),
                    caches=_qwen_caches(c, s, lambda i: i >= first))


def _sparse_step_layers(c, layers):
    """Layers with experts: every decoder_sparse_step-th, less those in mlp_only_layers."""
    step, dense = c.integer("decoder_sparse_step", default=1), set(c.indices("mlp_only_layers"))
    return sum((i + 1) % step == 0 and i not in dense for i in range(layers))


def _qwen3_moe(c):
    s, bias = _shape(c, kv_heads=4), c.flag("attention_bias", False)
    width, moe_layers = c.integer("moe_intermediate_size"), _sparse_step_layers(c, s.layers)
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, qk_norm=2 * s.head_dim, dense_ffn=_dense(c, s, moe_layers),
                    moe_layers=moe_layers, experts=_experts(c, "num_experts", "num_local_experts"),
                    expert=_ffn(s.d, width), d_expert=width, caches=_qwen_caches(c, s, lambda i: True))


def _qwen2_moe(c):
    s = _shape(c, kv_heads=16)
    width, moe_layers = c.integer("moe_intermediate_size"), _sparse_step_layers(c, s.layers)
    shared, last = c.integer("shared_expert_intermediate_size"), c.integer("max_window_layers", default=28, low=0)
    return _decoder(c, s, qkv_bias=c.flag("qkv_bias", True), dense_ffn=_dense(c, s, moe_layers), moe_layers=moe_layers,
                    experts=_experts(c, "num_experts", "num_local_experts"), expert=_ffn(s.d, width), d_expert=width,
                    shared=_ffn(s.d, shared) + s.d, num_shared=1,  # s.d: the gate of the shared expert
                    caches=_qwen_caches(c, s, lambda i: i % 2 == 0 and i < last))


def _mixtral(c):
    s, width = _shape(c, kv_heads=8), c.integer("intermediate_size")
    return _decoder(c, s, moe_layers=s.layers, experts=_experts(c, "num_local_experts", "num_experts"),
                    expert=_ffn(s.d, width), d_expert=width,
                    caches=[_gqa_cache(s, s.layers, c.integer("sliding_window", default=None))])


def _phimoe(c):
    s, width, bias = _shape(c, kv_heads=8), c.integer("intermediate_size"), c.flag("attention_bias", False)
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, norm=2 * s.d, moe_layers=s.layers,
                    experts=_experts(c, "num_local_experts", "num_experts"), expert=_ffn(s.d, width), d_expert=width,
                    head_bias=c.flag("lm_head_bias", False),
                    caches=[_gqa_cache(s, s.layers, c.integer("sliding_window", default=None))])


def _olmoe(c):
    s, width, bias = _shape(c), c.integer("intermediate_size"), c.flag("attention_bias", False)
    if s.heads * s.head_dim != s.d:
        raise c.error("head_dim", f"hidden_size / num_attention_heads = {s.d / s.heads:g}", s.head_dim)
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, qk_norm=s.d + s.kv_heads * s.head_dim, moe_layers=s.layers,
                    experts=_experts(c, "num_experts", "num_local_experts"), expert=_ffn(s.d, width), d_expert=width)


def _granite(c, shared=0):
    s, width, bias = _shape(c), c.integer("intermediate_size"), c.flag("attention_bias", False)
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, moe_layers=s.layers,
                    experts=_experts(c, "num_local_experts", "num_experts"), expert=_ffn(s.d, width), d_expert=width,
                    shared=_ffn(s.d, shared), num_shared=min(shared, 1))


def _granite_shared(c):
    return _granite(c, c.integer("shared_intermediate_size", low=0))


def _minimax_m2(c):
    s, width = _shape(c, kv_heads=8, head_dim=128), c.integer("intermediate_size")
    return _decoder(c, s, qk_norm=(s.heads + s.kv_heads) * s.head_dim, moe_layers=s.layers,
                    experts=_experts(c, "num_local_experts", "num_experts"), expert=_ffn(s.d, width), d_expert=width)


def _glm4_moe(c):
    s, width, num_shared = _shape(c, kv_heads=8), c.integer("moe_intermediate_size"), _num_shared(c, 1)
    moe_layers, experts = _after_dense(c, s.layers, 1), _experts(c, "n_routed_experts", "num_local_experts")
    return _decoder(c, s, qkv_bias=c.flag("attention_bias", False), moe_layers=moe_layers, experts=experts,
                    qk_norm=2 * s.head_dim if c.flag("use_qk_norm", False) else 0, expert=_ffn(s.d, width),
                    d_expert=width, dense_ffn=_dense(c, s, moe_layers), shared=_ffn(s.d, num_shared * width),
                    num_shared=num_shared, group_limit=_group_limit(c, experts, 1, 1))


def _gpt_oss(c):
    s, width, bias = _shape(c, kv_heads=8, head_dim=64), c.integer("intermediate_size"), c.flag("attention_bias", True)
    kinds = _layer_types(c, s.layers, [("sliding_attention", "full_attention")[i % 2] for i in range(s.layers)])
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, sinks=s.heads, caches=_windowed_caches(c, s, kinds),
                    moe_layers=s.layers, experts=_experts(c, "num_local_experts", "num_experts"), router_bias=True,
                    expert=_ffn(s.d, width, bias=True), d_expert=width)


def _llama4(c):
    s, width = _shape(c, kv_heads=8, head_dim=128), c.integer("intermediate_size")
    bias = c.flag("attention_bias", False)
    step, interval = c.integer("interleave_moe_layer_step", default=1), c.integer("no_rope_layer_interval", default=4)
    moe_layers = len(set(c.indices("moe_layers", range(step - 1, s.layers, step))) & set(range(s.layers)))
    chunk = c.integer("attention_chunk_size", default=c.unless_null("attention_chunk_size", 8192))
    ropes = c.indices("no_rope_layers") or [(i + 1) % interval for i in range(s.layers)]
    kinds = ["chunked_attention" if chunk and rope else "full_attention" for rope in ropes[:s.layers]]
    kinds = _layer_types(c, s.layers, kinds, ("full_attention", "chunked_attention"))
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, moe_layers=moe_layers, expert=_ffn(s.d, width), d_expert=width,
                    experts=_experts(c, "num_local_experts", "num_experts"), shared=_ffn(s.d, width), num_shared=1,
                    dense_ffn=_dense(c, s, moe_layers, "intermediate_size_mlp"),
                    caches=_windowed_caches(c, s, kinds, "attention_chunk_size", 8192))


def _dbrx(c):
    attn, ffn = c.section("attn_config"), c.section("ffn_config")
    s, width = _shape(c, kv_heads=1, kv_section=attn), ffn.integer("ffn_hidden_size")
    if c.flag("tie_word_embeddings", False):
        raise c.error("tie_word_embeddings", "false for this family", True)
    return _decoder(c, s, moe_layers=s.layers, experts=_experts(ffn, "moe_num_experts", top_k="moe_top_k"),
                    expert=_ffn(s.d, width), d_expert=width)


def _num_shared(c, default):
    """n_shared_experts; null means none."""
    return c.integer("n_shared_experts", default=c.unless_null("n_shared_experts", default), low=0) or 0


def _after_dense(c, layers, default):
    """Layers with experts: from first_k_dense_replace on, every moe_layer_freq-th."""
    first, step = c.integer("first_k_dense_replace", default=default, low=0), c.integer("moe_layer_freq", default=1)
    return sum(i >= first and i % step == 0 for i in range(layers))


def _mla_decoder(c, *, first_dense, num_shared, groups, mlp_bias=False):
    """Latent attention (MLA): one compressed entry per token and layer serves all heads, hence one key-value head."""
    s = _shape(_Config(c.values | {"num_key_value_heads": 1, "head_dim": 1}, c.where))
    q_rank, kv_rank = c.integer("q_lora_rank", default=c.unless_null("q_lora_rank", 1536)), c.integer(
        "kv_lora_rank", default=512)
    rope, nope = c.integer("qk_rope_head_dim", default=64), c.integer("qk_nope_head_dim", default=128)
    value, bias = c.integer("v_head_dim", default=128), c.flag("attention_bias", False)
    width, num_shared = c.integer("moe_intermediate_size"), _num_shared(c, num_shared)
    query = s.heads * (nope + rope)
    attention = _linear(s.d, q_rank, bias) + q_rank * query if q_rank else s.d * query
    attention += _linear(s.d, kv_rank + rope, bias) + kv_rank * s.heads * (nope + value)
    attention += _linear(s.heads * value, s.d, bias)
    moe_layers, experts = _after_dense(c, s.layers, first_dense), _experts(c, "n_routed_experts", "num_local_experts")
    cache = Cache(num_layers=s.layers, values_per_token=kv_rank + rope,
                  flops_per_token=2 * s.heads * (2 * kv_rank + rope))
    return _facts(c, s, attention=s.layers * attention, caches=[cache], moe_layers=moe_layers, experts=experts,
                  norms=(2 * s.layers + 1) * s.d + s.layers * (kv_rank + (q_rank or 0)), expert=_ffn(s.d, width),
                  d_expert=width, dense_ffn=_dense(c, s, moe_layers, bias=mlp_bias), num_shared=num_shared,
                  shared=_ffn(s.d, num_shared * width, mlp_bias) if num_shared else 0,
                  group_limit=_group_limit(c, experts, *groups) if groups else None)


def _deepseek_v3(c):
    return _mla_decoder(c, first_dense=3, num_shared=1, groups=(8, 4))


def _deepseek_v2(c):
    grouped = c.values.get("topk_method") == "group_limited_greedy"
    return _mla_decoder(c, first_dense=0, num_shared=2, groups=(1, 1) if grouped else None,
                        mlp_bias=c.flag("mlp_bias", False))


def _minimax(c):
    """Lightning (linear) attention in most layers: fused query, key, value, an output gate and a norm."""
    s, width = _shape(c, kv_heads=8), c.integer("intermediate_size")
    names = ("linear_attention", "full_attention")
    kinds = [names[i] for i in c.each("attn_type_list", (0, 1).__contains__, "0 (linear) and 1 (full)")]
    kinds = kinds or [names[(i + 1) % 2] for i in range(s.layers)]
    full = sum(kind == "full_attention" for kind in _layer_types(c, s.layers, kinds, names))
    linear, inner = s.layers - full, s.heads * s.head_dim
    caches = [_gqa_cache(s, full, c.integer("sliding_window", default=None))] if full else []
    return _facts(c, s, attention=full * _gqa(s) + linear * 5 * s.d * inner, caches=caches,
                  norms=(2 * s.layers + 1) * s.d + linear * inner, moe_layers=s.layers, expert=_ffn(s.d, width),
                  experts=_experts(c, "num_local_experts", "num_experts"), d_expert=width,
                  state=linear * inner * s.head_dim * 4)  # heads x head_dim x head_dim in fp32


def _jamba(c):
    """Mamba in most layers, attention every attn_layer_period-th, experts every expert_layer_period-th."""
    s, width = _shape(c, kv_heads=8), c.integer("intermediate_size")
    full, moe_layers = (sum(i % period == offset for i in range(s.layers)) for period, offset in (
        _period(c, "attn_layer", 8, 4), _period(c, "expert_layer", 2, 1)))
    experts, inner = _experts(c, "num_experts", "num_local_experts"), c.integer("mamba_expand", default=2) * s.d
    rank = -(-s.d // 16) if c.values.get("mamba_dt_rank", "auto") == "auto" else c.integer("mamba_dt_rank")
    values, kernel, bias = c.integer("mamba_d_state", default=16), c.integer("mamba_d_conv", default=4), c.flag(
        "mamba_proj_bias", False)
    mamba = _linear(s.d, 2 * inner, bias) + _linear(inner, s.d, bias) + _linear(
        kernel, inner, c.flag("mamba_conv_bias", True))
    mamba += inner * (rank + 2 * values) + _linear(rank, inner, True) + inner * values + inner  # x, dt, A, D
    caches = [_gqa_cache(s, full)] if full else []
    return _facts(c, s, attention=full * _gqa(s) + (s.layers - full) * mamba, caches=caches,
                  norms=(2 * s.layers + 1) * s.d + (s.layers - full) * (rank + 2 * values), dense_ffn=_ffn(s.d, width),
                  moe_layers=moe_layers if experts[0] > 1 else 0, experts=experts, expert=_ffn(s.d, width),
                  d_expert=width, state=(s.layers - full) * inner * (4 * values + 2 * (kernel - 1)))  # fp32, bf16


def _period(c, name, period, offset):
    period = c.integer(f"{name}_period", default=period)
    return period, c.integer(f"{name}_offset", default=offset, low=0, high=period - 1)


FAMILIES = {
    "dbrx": _dbrx, "deepseek_v2": _deepseek_v2, "deepseek_v3": _deepseek_v3, "glm4_moe": _glm4_moe,
    "gpt_oss": _gpt_oss, "granitemoe": _granite, "granitemoeshared": _granite_shared, "jamba": _jamba,
    "kimi_k2": _deepseek_v3, "llama": _llama, "llama4": _llama4, "llama4_text": _llama4, "minimax": _minimax,
    "minimax_m2": _minimax_m2, "minimax_text_01": _minimax, "mixtral": _mixtral, "olmoe": _olmoe, "phimoe": _phimoe,
    "qwen2_moe": _qwen2_moe, "qwen3": _qwen3, "qwen3_moe": _qwen3_moe,
}


def _released(c):
    """(bytes per weight, words) of the number format that the configuration names."""
    if c.values.get("quantization_config") is None:
        sizes = {"float32": 4, "bfloat16": 2, "float16": 2}
        name, dtype = c.find("torch_dtype", "dtype", default="bfloat16")
        if not isinstance(dtype, str) or dtype not in sizes:
            raise c.error(name, " or ".join(sizes), dtype)
        return sizes[dtype], {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}[dtype]
    q = c.section("quantization_config")
    method = q.values.get("quant_method")
    if method == "mxfp4":
        return {"routed_experts": 4.25 / 8, "default": 2}, "routed experts mxfp4 (4.25 bits per weight), rest bf16"
    if method != "fp8":
        raise q.error("quant_method", "fp8 or mxfp4 (else take quantization_config out and pass weight_bytes)", method)
    block = q.each("weight_block_size", lambda n: type(n) is int and 1 <= n <= _LARGEST, "whole numbers from 1")
    size = 1 + (4 / np.prod(block, dtype=float).item() if block else 0)
    scales = f"one fp32 scale per {'x'.join(map(str, block)) if block else 'matrix'}"
    return ({part: size for part in ("attention", "dense_ffn", "shared_experts", "routed_experts")} | {"default": 2},
            f"fp8, {scales}; embedding, head, router and norms bf16")


def _read(config):
    """(dict, where it is, name) of a path, a dict or JSON text."""
    if isinstance(config, Mapping):
        return dict(config), "config", None
    if not isinstance(config, (str, os.PathLike)):
        raise ValueError(f"config must be a path, a dict or JSON text, got {type(config).__name__}")
    text, where, name = config, "config", None
    if not (isinstance(config, str) and config.lstrip().startswith(("{", "["))):
        path = Path(config)
        try:
            path = path / "config.json" if path.is_dir() else path
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as problem:
            raise ValueError(f"config must be a readable file, got {str(path)!r}: {problem}") from problem
        where, name = str(path), path.resolve().parent.name if path.stem == "config" else path.stem
    try:
        values = json.loads(text)
    except json.JSONDecodeError as problem:
        raise ValueError(f"{where}, line {problem.lineno}: must be JSON, {problem.msg}") from problem
    except (ValueError, RecursionError) as problem:
        raise ValueError(f"{where}: must be JSON, {problem}") from problem
    if not isinstance(values, dict):
        raise ValueError(f"{where}: must hold a JSON object, got {type(values).__name__}")
    return values, where, name


def from_config(config, *, family=None):
    """Count a model from its configuration, spelled as in Hugging Face's `config.json`.

    Parameters
    ----------
    config : path, dict or str
        A file, a folder with a `config.json`, a dict, or the JSON text itself. A nested `text_config` is found.
    family : str, optional
        One of `FAMILIES`, used in place of the configuration's `model_type`.

    Returns
    -------
    MoEModel
        Main model only. Keys that the configuration leaves out have the value that the library's class gives them;
        sizes are never filled in.

    Raises
    ------
    ValueError
        Names the file and line or the key, the value found and what is allowed.

    Notes
    -----
    Source: the model classes of Hugging Face transformers 5.24; every family was compared with them.

    >>> tiny = from_config({"model_type": "llama", "vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 2,
    ...                     "num_attention_heads": 2, "intermediate_size": 16})
    >>> print(tiny.total_params)
    2920
    >>> from_config({"model_type": "llama", "vocab_size": 100})
    Traceback (most recent call last):
    ValueError: config: a required key is missing, looked for hidden_size or d_model
    """
    values, where, name = _read(config)
    if isinstance(values.get("text_config"), dict):
        values = values | values["text_config"]
    c = _Config(values, where)
    kind = values.get("model_type") if family is None else family
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ValueError(f"{where}: {'model_type' if family is None else 'family'} must be one of "
                         f"{', '.join(FAMILIES)} (family= chooses one), got {kind!r}")
    weight_bytes, precision = _released(c)
    return MoEModel(name=name or kind, source=where, family=kind, released_weight_bytes=weight_bytes,
                    released_precision=precision, **FAMILIES[kind](c))


def _catalog():
    """Published models: configurations counted by `from_config`, then those that are known by their parts."""
    folder = resources.files(__package__) / "data"
    with (folder / "models.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["slug"]: row for row in csv.DictReader(file)}
    by_parts = json.loads((folder / "models_by_parts.json").read_text(encoding="utf-8"))
    catalog = {}
    for slug, row in rows.items():
        if slug in by_parts:
            facts = by_parts[slug]
            facts["caches"] = tuple(Cache(**cache) for cache in facts["caches"])
            facts["parts"] = tuple((part, facts["parts"].get(part, 0)) for part in PARTS)
            model = MoEModel(name=row["name"], source=row["source"], **facts)
        else:
            model = from_config((folder / "configs" / f"{slug}.json").read_text(encoding="utf-8"))
        notes = " ".join(note for note in (model.notes, row["notes"]) if note)
        catalog[slug] = replace(model, name=row["name"], source=row["source"], notes=notes)
    return catalog


CATALOG = _catalog()
