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
from typing import NamedTuple

import numpy as np

from moe_lib._arguments import require

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
        """True where some layers stop caching at a window or chunk, so that `kv_bytes_per_token` holds below it only."""
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
        raise ValueError(f"active_params must be within {low}..{total} for {top_k} of {num_experts} experts, got {active}")
    counted = {"routed_experts": routed, "other": total - routed}
    return MoEModel(
        name=name, source="the four counts passed", family="counts", num_layers=1, num_moe_layers=1,
        num_experts=num_experts, top_k=top_k, num_shared_experts=0, d_model=0, d_expert=0, num_heads=0, num_kv_heads=0,
        group_limit=None, tied_embeddings=False, parts=tuple((part, counted.get(part, 0)) for part in PARTS), caches=(),
        released_weight_bytes=2, released_precision="bf16 assumed", notes="Four counts only: no cache, no embedding.",
    )  # fmt: skip


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
    )  # fmt: skip


# ---- reading a configuration ----

_REQUIRED = object()
_LARGEST = 10**9


class _Config:
    """Keys of one configuration, checked one by one; every error names the key and the place."""

    def __init__(self, values, where):
        self.values, self.where = values, where

    def find(self, names, default=_REQUIRED):
        """First of the spellings `names` that is present and not null, as (name, value)."""
        for name in names:
            if self.values.get(name) is not None:
                return name, self.values[name]
        if default is _REQUIRED:
            raise ValueError(f"{self.where}: required key missing; looked for {', '.join(names)}")
        return names[0], default

    def error(self, name, rule, value):
        return ValueError(f"{self.where}: {name} must be {rule}, got {value!r}")

    def integer(self, *names, default=_REQUIRED, low=1, high=_LARGEST):
        name, value = self.find(names, default)
        if value is not default and (type(value) is not int or not low <= value <= high):
            raise self.error(name, f"a whole number within {low}..{high}", value)
        return value

    def flag(self, name, default):
        _, value = self.find([name], default)
        if type(value) is not bool:
            raise self.error(name, "true or false", value)
        return value

    def integers(self, name, default=(), low=0, high=_LARGEST):
        _, value = self.find([name], default)
        if not isinstance(value, (list, tuple)) or any(type(v) is not int or not low <= v <= high for v in value):
            raise self.error(name, f"a list of whole numbers within {low}..{high}", value)
        return value


class _Shape(NamedTuple):
    layers: int
    d: int
    vocab: int
    heads: int
    kv_heads: int
    head_dim: int


def _shape(c, kv_heads=None, head_dim=None):
    """Sizes that every decoder has. `kv_heads` and `head_dim`: what the library takes where the key is absent."""
    d, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    kv_heads = c.integer("num_key_value_heads", default=kv_heads or heads, high=heads)
    if heads % kv_heads:
        raise c.error("num_key_value_heads", f"a divisor of num_attention_heads = {heads}", kv_heads)
    head_dim = c.integer("head_dim", default=head_dim)
    if head_dim is None and d % heads:
        raise c.error("hidden_size", f"a multiple of num_attention_heads = {heads} where head_dim is absent", d)
    layers = c.integer("num_hidden_layers", high=10_000)
    return _Shape(layers, d, c.integer("vocab_size"), heads, kv_heads, head_dim or d // heads)


def _linear(n, m, bias=False):
    return n * m + (m if bias else 0)


def _gqa(s, qkv_bias=False, out_bias=False):
    """Four projections of attention with grouped key-value heads."""
    query, key = s.heads * s.head_dim, s.kv_heads * s.head_dim
    return _linear(s.d, query, qkv_bias) + 2 * _linear(s.d, key, qkv_bias) + _linear(query, s.d, out_bias)


def _gqa_cache(s, layers=None, window=None):
    return Cache(
        num_layers=s.layers if layers is None else layers, values_per_token=2 * s.kv_heads * s.head_dim,
        flops_per_token=4 * s.heads * s.head_dim, window=window,
    )  # fmt: skip


def _ffn(d, width, bias=False):
    """Gated feed-forward: gate and up d x width, down width x d."""
    return 2 * _linear(d, width, bias) + _linear(width, d, bias)


def _experts(c, *names, top_k=("num_experts_per_tok",)):
    """Number of routed experts and of those a token takes."""
    num_experts = c.integer(*names, high=100_000)
    return num_experts, c.integer(*top_k, high=num_experts)


def _assemble(c, s, *, attention, caches, norms, dense_ffn=0, moe_layers=0, experts=(1, 1), expert=0, d_expert=0,
              router=None, shared=0, num_shared=0, tied=False, **facts):
    """The record of a decoder. `dense_ffn`, `expert`, `router` and `shared` are counts per layer that has them."""
    num_experts, top_k = experts if moe_layers else (1, 1)
    counted = {
        "embedding": s.vocab * s.d,
        "attention": attention,
        "dense_ffn": (s.layers - moe_layers) * dense_ffn,
        "router": moe_layers * (s.d * num_experts if router is None else router),
        "shared_experts": moe_layers * shared,
        "routed_experts": moe_layers * num_experts * expert,
        "norms": norms,
        "head": 0 if c.flag("tie_word_embeddings", tied) else s.vocab * s.d,
        "other": 0,
    }  # fmt: skip
    record = {
        "num_layers": s.layers, "num_moe_layers": moe_layers, "num_experts": num_experts, "top_k": top_k,
        "num_shared_experts": num_shared if moe_layers else 0, "d_model": s.d, "d_expert": d_expert if moe_layers else 0,
        "num_heads": s.heads, "num_kv_heads": s.kv_heads, "group_limit": None, "caches": tuple(caches),
        "tied_embeddings": c.flag("tie_word_embeddings", tied), "parts": tuple(counted.items()),
    }  # fmt: skip
    return record | facts


def _group_limit(c, experts, groups, kept):
    groups = c.integer("n_group", default=groups)
    kept = c.integer("topk_group", default=min(kept, groups), high=groups)
    num_experts, top_k = experts
    if num_experts % groups:
        raise c.error("n_group", f"a divisor of the number of experts, {num_experts}", groups)
    if top_k > kept * (num_experts // groups):
        raise c.error("topk_group", f"enough for {top_k} experts of {num_experts // groups} a group", kept)
    return (groups, kept) if groups > 1 else None


def _llama(c):
    s = _shape(c)
    bias = c.flag("attention_bias", False)
    return _assemble(
        c, s, attention=s.layers * _gqa(s, bias, bias), caches=[_gqa_cache(s)], norms=(2 * s.layers + 1) * s.d,
        dense_ffn=_ffn(s.d, c.integer("intermediate_size"), c.flag("mlp_bias", False)),
    )  # fmt: skip


def _qwen3(c):
    s = _shape(c, kv_heads=32, head_dim=128)
    bias = c.flag("attention_bias", False)
    return _assemble(
        c, s, attention=s.layers * _gqa(s, bias, bias), caches=[_gqa_cache(s)],
        norms=(2 * s.layers + 1) * s.d + s.layers * 2 * s.head_dim, dense_ffn=_ffn(s.d, c.integer("intermediate_size")),
    )  # fmt: skip


def _mixtral(c):
    s = _shape(c, kv_heads=8)
    width = c.integer("intermediate_size")
    return _assemble(
        c, s, attention=s.layers * _gqa(s), caches=[_gqa_cache(s, window=c.integer("sliding_window", default=None))],
        norms=(2 * s.layers + 1) * s.d, moe_layers=s.layers, experts=_experts(c, "num_local_experts", "num_experts"),
        expert=_ffn(s.d, width), d_expert=width,
    )  # fmt: skip


def _sparse_step_layers(c, layers):
    """Layers with experts by decoder_sparse_step and mlp_only_layers."""
    step, dense = c.integer("decoder_sparse_step", default=1), set(c.integers("mlp_only_layers"))
    return sum((layer + 1) % step == 0 and layer not in dense for layer in range(layers))


def _qwen3_moe(c):
    s = _shape(c, kv_heads=4)
    bias, width = c.flag("attention_bias", False), c.integer("moe_intermediate_size")
    moe_layers = _sparse_step_layers(c, s.layers)
    return _assemble(
        c, s, attention=s.layers * _gqa(s, bias, bias), caches=[_gqa_cache(s)],
        norms=(2 * s.layers + 1) * s.d + s.layers * 2 * s.head_dim, moe_layers=moe_layers,
        dense_ffn=_ffn(s.d, c.integer("intermediate_size")) if moe_layers < s.layers else 0,
        experts=_experts(c, "num_experts", "num_local_experts"), expert=_ffn(s.d, width), d_expert=width,
    )  # fmt: skip


def _deepseek_v3(c, first_dense=3):
    s = _shape(c, head_dim=1)
    width, num_shared = c.integer("moe_intermediate_size"), c.integer("n_shared_experts", default=1, low=0)
    q_rank = c.integer("q_lora_rank", default=None if "q_lora_rank" in c.values else 1536)
    kv_rank, rope = c.integer("kv_lora_rank", default=512), c.integer("qk_rope_head_dim", default=64)
    nope, value = c.integer("qk_nope_head_dim", default=128), c.integer("v_head_dim", default=128)
    bias = c.flag("attention_bias", False)
    query = s.heads * (nope + rope)
    attention = (
        (_linear(s.d, q_rank, bias) + q_rank * query if q_rank else s.d * query)
        + _linear(s.d, kv_rank + rope, bias) + kv_rank * s.heads * (nope + value) + _linear(s.heads * value, s.d, bias)
    )  # fmt: skip
    first = c.integer("first_k_dense_replace", default=first_dense, low=0)
    moe_layers = max(s.layers - first, 0)
    experts = _experts(c, "n_routed_experts", "num_experts", "num_local_experts")
    return _assemble(
        c, s, attention=s.layers * attention,
        caches=[Cache(num_layers=s.layers, values_per_token=kv_rank + rope,
                      flops_per_token=2 * s.heads * (2 * kv_rank + rope))],
        norms=(2 * s.layers + 1) * s.d + s.layers * (kv_rank + (q_rank or 0)), moe_layers=moe_layers,
        dense_ffn=_ffn(s.d, c.integer("intermediate_size")) if moe_layers < s.layers else 0,
        experts=experts, expert=_ffn(s.d, width), d_expert=width,
        shared=_ffn(s.d, num_shared * width) if num_shared else 0, num_shared=num_shared,
        group_limit=_group_limit(c, experts, 8, 4),
    )  # fmt: skip


FAMILIES = {
    "deepseek_v3": _deepseek_v3, "kimi_k2": _deepseek_v3, "llama": _llama, "mixtral": _mixtral, "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
}  # fmt: skip


def _read(config):
    """The configuration as (dict, where it came from, a name)."""
    if isinstance(config, Mapping):
        return dict(config), "config", None
    if not isinstance(config, (str, os.PathLike)):
        raise ValueError(f"config must be a path, a dict or JSON text, got {type(config).__name__}")
    where, name, text = "config", None, config
    if not (isinstance(config, str) and config.lstrip().startswith("{")):
        where = os.fspath(config)
        name = os.path.splitext(os.path.basename(where))[0]
        try:
            with open(config, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError, ValueError) as problem:
            raise ValueError(f"config: cannot read {where!r}: {problem}") from problem
    try:
        values = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as problem:
        raise ValueError(f"{where}: not JSON: {problem}") from problem
    if not isinstance(values, dict):
        raise ValueError(f"{where}: must hold a JSON object, got {type(values).__name__}")
    return values, where, name


def _released(c):
    """(bytes per weight, words) of the number format in the configuration."""
    quantization = c.values.get("quantization_config")
    if not quantization:
        return 2, "bf16"
    if quantization.get("quant_method") == "fp8":
        scale = 4 / 128**2
        return {p: 1 + scale for p in ("attention", "dense_ffn", "shared_experts", "routed_experts")} | {"default": 2}, "fp8"
    raise c.error("quantization_config.quant_method", "fp8", quantization.get("quant_method"))


def from_config(config, *, family=None):
    """Count a model from its configuration, spelled as in Hugging Face's `config.json`.

    Parameters
    ----------
    config : str, path or dict
        A file, a dict, or the JSON text itself.
    family : str, optional
        One of the known families, in place of the configuration's `model_type`.

    Returns
    -------
    MoEModel

    Raises
    ------
    ValueError
        Names the file, line or key, what was found and what is allowed.

    >>> tiny = from_config({"model_type": "llama", "vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 2,
    ...                     "num_attention_heads": 2, "intermediate_size": 16})
    >>> print(tiny.total_params)
    2920
    """
    values, where, name = _read(config)
    if isinstance(values.get("text_config"), dict):
        values = values | values["text_config"]
    c = _Config(values, where)
    kind = family or values.get("model_type")
    if kind not in FAMILIES:
        raise ValueError(f"{where}: model_type {kind!r} is not known; families: {', '.join(sorted(FAMILIES))}; "
                         "family= chooses one")
    weight_bytes, precision = _released(c)
    return MoEModel(name=name or kind, source=where, family=kind, released_weight_bytes=weight_bytes,
                    released_precision=precision, **FAMILIES[kind](c))


def _catalog():
    folder = resources.files("moe_lib") / "data"
    with (folder / "models.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    catalog = {}
    for row in rows:
        model = from_config((folder / "configs" / f"{row['slug']}.json").read_text(encoding="utf-8"))
        catalog[row["slug"]] = replace(model, name=row["name"], source=row["source"])
    return catalog


CATALOG = _catalog()
