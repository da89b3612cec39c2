"""What a model holds: parameters by part, cache and sizes, counted from its configuration.

`from_config` reads a `config.json` in Hugging Face's spelling, with one short function per family in `_families`, and
`CATALOG` holds published models. A family that has no function is counted by building the library's own class without
weights where the extra `hf` is installed; otherwise it is an error that says so, never a guess. Counted is the main
model: no multi-token-prediction module, no router-bias buffer, no vision or audio part.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _instantiate
from ._arguments import Numbers, require, whole_number
from ._families import facts_of, family_error, read
from ._names import Names
from ._show import number, table

PARTS = ("embedding", "attention", "dense_ffn", "router", "shared_experts", "routed_experts", "norms", "head", "other")
ALIASES = {"deepseek-r1": "deepseek-v3"}  # the same parameters, trained further


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """What equal layers keep of a sequence: one record per kind of layer.

    Attributes
    ----------
    num_layers : int
    values_per_token : float
        Per layer: 2 x kv heads x head_dim, or kv_lora_rank + qk_rope_head_dim with latent attention (MLA).
    flops_per_token : float
        FLOP per layer, query token and cached token: 4 x heads x head_dim, or 2 x heads x (2 kv_lora_rank +
        qk_rope_head_dim) for MLA with absorbed projections.
    window : int or None
        Tokens after which the cache of a layer stops growing (sliding window or chunk).
    selected : int or None
        Tokens that a step reads at most (sparse attention); all are kept.
    index : bool
        Keys of a sparse-attention indexer: held and read, but no part of `kv_bytes_per_token`.
    expanded_flops_per_token, expansion_flops : float or None
        MLA without absorbed projections, as a long chunk runs it: FLOP per query and cached token, 2 x heads x
        (qk_nope_head_dim + qk_rope_head_dim + v_head_dim), and FLOP to expand one cached token into its keys and
        values, 2 x kv_lora_rank x heads x (qk_nope_head_dim + v_head_dim). None elsewhere.
    """

    num_layers: int
    values_per_token: float
    flops_per_token: float = 0
    window: int | None = None
    selected: int | None = None
    index: bool = False
    expanded_flops_per_token: float | None = None
    expansion_flops: float | None = None

    def tokens_kept(self, context: ArrayLike) -> Numbers:
        """Tokens of `context` that a layer holds."""
        return np.asarray(context) if self.window is None else np.minimum(context, self.window)

    def tokens_read(self, context: ArrayLike) -> Numbers:
        """Tokens of `context` that one query token attends to."""
        kept = self.tokens_kept(context)
        return kept if self.selected is None else np.minimum(kept, self.selected)

    def pairs(self, start: ArrayLike, tokens: ArrayLike) -> Numbers:
        """(Query, earlier token) pairs that a layer scores for `tokens` tokens after the first `start`."""
        most = min((cap for cap in (self.window, self.selected) if cap is not None), default=np.inf)

        def first(n):  # sum of min(i, most) over i < n
            capped = np.minimum(n, most)
            return capped * (capped - 1) / 2 + (n - capped) * np.nan_to_num(most, posinf=0)

        return first(np.add(start, tokens)) - first(np.asarray(start))

    def chunk_flops(self, start: ArrayLike, tokens: ArrayLike) -> Numbers:
        """FLOP of scores and weighted sums in a layer for a chunk: MLA in the cheaper of its two forms."""
        pairs = self.pairs(start, tokens)
        plain = pairs * self.flops_per_token
        if self.expansion_flops is None or self.expanded_flops_per_token is None:
            return plain
        return np.minimum(plain, pairs * self.expanded_flops_per_token + np.multiply(start, self.expansion_flops))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MoEModel:
    """Published facts of one model; what follows from them is a property or a method.

    Attributes
    ----------
    name, source, family : str
    num_experts, top_k, num_shared_experts : int
        Per MoE layer. A dense model has 1, 1, 0, no MoE layers, and its feed-forward weights in the part `dense_ffn`.
    num_kv_heads : int
        Heads that keep keys and values; 1 where all heads share one entry (MLA).
    group_limit : tuple of int or None
        (groups, groups kept) of group-limited routing.
    parts : tuple of (str, int)
        Parameters by part, in the order of `PARTS`.
    copied : tuple of (str, int)
        Those of each part that servers copy to every GPU of a tensor-parallel group, where others are divided: routers,
        norms, the low-rank down projections of MLA, indexers (vLLM's `ReplicatedLinear`).
    caches : tuple of Cache or None
        None: not known. Then every question about a cache or about tokens in it raises ValueError.
    state_bytes_per_sequence : float
        Fixed state of layers without a growing cache.
    recurrent : bool
        Whether that state is another one after every token, and so written back. False: it holds the last tokens, of
        which a step replaces one.
    released_weight_bytes : float or dict
        Bytes per weight as published, scales included: one number, or one per part and a "default".
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
    copied: tuple[tuple[str, int], ...] = ()
    caches: tuple[Cache, ...] | None
    state_bytes_per_sequence: float = 0
    recurrent: bool = True
    released_weight_bytes: float | dict[str, float]
    released_precision: str
    notes: str = ""

    def __repr__(self):
        kind = (f"{number(self.active_params / 1e9)} active, {self.top_k} of {self.num_experts} experts a token"
                if self.num_moe_layers else "dense")
        return f"MoEModel({self.name}: {number(self.total_params / 1e9)} billion parameters, {kind})"

    def _repr_html_(self):
        experts = (f"{self.num_experts} in {self.num_moe_layers} layers, {self.top_k} a token, "
                   f"{self.num_shared_experts} shared")
        counts = {part.replace("_", " "): count for part, count in self.parts if count}
        counts |= {"total": self.total_params, "active": self.active_params, "active, as read": self.active_params_read}
        return table(f"{self.name}: parameters", {label: f"{count:,}" for label, count in counts.items()} | {
            "experts": experts if self.num_moe_layers else "none: a dense model", "cache": self.cache_kind,
            "as released": self.released_precision})

    def ledger(self) -> dict[str, int]:
        """Parameters by part, a new dict that sums to `total_params`.

        >>> print(CATALOG["mixtral-8x7b"].ledger()["routed_experts"])
        45097156608
        """
        return dict(self.parts)

    @property
    def total_params(self) -> int:
        """All parameters of the main model."""
        return sum(count for _, count in self.parts)

    @property
    def expert_params_all_layers(self) -> float:
        """One routed expert summed over the MoE layers (after `from_counts` not always whole)."""
        return _divide(self.ledger()["routed_experts"], self.num_experts)

    @property
    def expert_params(self) -> float:
        """One routed expert in one layer; 0 for a dense model."""
        return _divide(self.expert_params_all_layers, max(self.num_moe_layers, 1))

    @property
    def always_active_params(self) -> int:
        """All parameters but the routed experts."""
        return self.total_params - self.ledger()["routed_experts"]

    @property
    def active_params(self) -> int:
        """Parameters of one token, the whole input embedding counted.

        Source: notebook 01, eq. 1.1.

        >>> print(CATALOG["deepseek-v3"].active_params)
        37552282624
        """
        return self.always_active_params + round(self.top_k * self.expert_params_all_layers)

    @property
    def active_params_read(self) -> int:
        """Parameters that a step of one token reads: the input embedding only where it is the head too.

        >>> print(CATALOG["deepseek-v3"].active_params_read)
        36625603584
        """
        return self.active_params - (0 if self.tied_embeddings else self.ledger()["embedding"])

    @property
    def kv_is_upper_bound(self) -> bool:
        """True where some layers stop caching at a window or chunk: `kv_bytes_per_token` holds below it only."""
        return any(cache.window is not None and cache.values_per_token > 0 for cache in self.known_caches())

    @property
    def cache_kind(self) -> str:
        """MHA, GQA, MQA or MLA; or windows, hybrid (a cache in some layers only), compressed, none, unknown.

        >>> print(CATALOG["mixtral-8x7b"].cache_kind, CATALOG["deepseek-v3"].cache_kind, CATALOG["jamba"].cache_kind)
        GQA MLA hybrid
        """
        if self.caches is None:
            return "unknown"
        key_is_value = any(cache.flops_per_token > 2 * self.num_heads * cache.values_per_token
                           for cache in self.caches if not cache.index)
        if self.state_bytes_per_sequence:
            return "compressed" if key_is_value else "hybrid"
        if self.kv_is_upper_bound or not self.caches:
            return "windows" if self.caches else "none"
        return "MLA" if key_is_value else {1: "MQA", self.num_heads: "MHA"}.get(self.num_kv_heads, "GQA")

    @property
    def recurrent_bytes_per_sequence(self) -> float:
        """The part of the state that a step writes back: all of it, or none.

        >>> print(*(CATALOG[slug].recurrent_bytes_per_sequence for slug in ("qwen3.6-35b-a3b", "deepseek-v4-flash")))
        64389120 0
        """
        return self.state_bytes_per_sequence if self.recurrent else 0

    def kv_bytes_per_token(self, kv_bytes: float = 2, *, beyond_windows: bool = False) -> float:
        """Bytes of cache that one more token takes, all layers; index keys and fixed state left out.

        `beyond_windows` counts a token that comes after the windows are full.

        Source: notebook 01, eq. 1.4.

        >>> print(CATALOG["deepseek-v3"].kv_bytes_per_token())
        70272
        >>> gemma = CATALOG["gemma-4-26b-a4b"]
        >>> print(gemma.kv_bytes_per_token(), gemma.kv_bytes_per_token(beyond_windows=True))
        225280 20480
        """
        kv_bytes = require("kv_bytes", kv_bytes, 0, one=True)
        growing = (cache for cache in self.known_caches() if not cache.index and not (beyond_windows and cache.window))
        return kv_bytes * sum(cache.num_layers * cache.values_per_token for cache in growing)

    def kv_bytes_per_sequence(self, context: ArrayLike, kv_bytes: float = 2) -> Numbers:
        """Bytes that a sequence of `context` tokens holds: windows and index keys included, fixed state not."""
        kv_bytes = require("kv_bytes", kv_bytes, 0, one=True)
        return kv_bytes * self._over_caches(context, lambda c, tokens: c.values_per_token * c.tokens_kept(tokens))

    def kv_bytes_read(self, context: ArrayLike, kv_bytes: float = 2) -> Numbers:
        """Bytes that one decode step reads of one sequence: as `kv_bytes_per_sequence`, but selected tokens only."""
        kv_bytes = require("kv_bytes", kv_bytes, 0, one=True)
        return kv_bytes * self._over_caches(context, lambda c, tokens: c.values_per_token * c.tokens_read(tokens))

    def attention_flops(self, context: ArrayLike) -> Numbers:
        """FLOP of scores and weighted sums of one query token over `context` cached tokens, all layers."""
        return self._over_caches(context, lambda c, tokens: c.flops_per_token * c.tokens_read(tokens))

    def chunk_attention_flops(self, start: ArrayLike, tokens: ArrayLike) -> Numbers:
        """FLOP of scores and weighted sums of `tokens` prompt tokens, one sequence, after `start` cached ones.

        Causal: a token sees those before it. With chunks of one token the same as `attention_flops`, token by token.

        >>> v3 = CATALOG["deepseek-v3"]
        >>> print(f"{v3.chunk_attention_flops(0, 8192) / 1e12:.0f} TFLOP, {v3.attention_flops(8192) / 1e9:.0f} GFLOP")
        168 TFLOP, 139 GFLOP
        """
        tokens = require("tokens", tokens, 0)
        self.known_caches()
        return self._over_caches(start, lambda c, begin: c.chunk_flops(begin, tokens))

    def _over_caches(self, context, per_layer):
        context = 1.0 * require("context", context, 0)  # products of counts can pass what an integer holds
        caches = self.known_caches() if np.any(context) else self.caches or ()  # no token, nothing kept
        return sum((cache.num_layers * per_layer(cache, context) for cache in caches), 0 * context)

    def known_caches(self) -> tuple[Cache, ...]:
        """`caches`, or ValueError where they are not known."""
        if self.caches is None:
            raise ValueError(f"what {self.name} (family {self.family}) caches of a sequence is not known: only "
                             "questions about its weights have an answer, with context=0")
        return self.caches


def _divide(count, by):
    """Quotient, an int where it is whole."""
    return count // by if count % by == 0 else count / by


def from_counts(name: str, total_params: float, active_params: float, num_experts: int, top_k: int) -> MoEModel:
    """Model of four published counts: one MoE layer, no embedding, no cache, all that is shared in the part `other`.

    Parameters
    ----------
    name : str
    total_params, active_params, num_experts, top_k : int
        One expert is (total - active) / (E - k); what remains is always active.

    Returns
    -------
    MoEModel

    Raises
    ------
    ValueError
        If a count is not one whole number, they contradict each other, or top_k is not within 1..num_experts - 1.

    Notes
    -----
    Source: notebook 01, eq. 1.2.

    >>> plate = from_counts("DeepSeek-V3", 671e9, 37e9, 256, 8)
    >>> print(plate.active_params, round(plate.expert_params))
    37000000000 2556451613
    """
    counts = {"total_params": total_params, "active_params": active_params, "num_experts": num_experts, "top_k": top_k}
    total, active, experts, top_k = (
        whole_number(key, value, 1, 10**15) for key, value in counts.items())
    require("num_experts", experts, 2)
    require("top_k", top_k, 1, experts - 1)
    require("active_params", active, -(-total * top_k // experts), total)  # below, the shared part would be negative
    routed = min(round(experts * (total - active) / (experts - top_k)), total)
    counted = {"routed_experts": routed, "other": total - routed}
    return _record(
        name=name, source="four counts", family="counts", num_layers=1, num_moe_layers=1, num_experts=experts,
        top_k=top_k, num_shared_experts=0, d_model=0, d_expert=0, num_heads=0, num_kv_heads=0, group_limit=None,
        tied_embeddings=False, parts=counted, caches=(), released_weight_bytes=2, released_precision="bf16 assumed",
        notes="Four counts only: no cache, no embedding.")


def dense_twin(model: MoEModel | str) -> MoEModel:
    """The same model with one expert, top_k times as large: a dense model of the same active size.

    >>> twin = dense_twin(CATALOG["deepseek-v3"])
    >>> print(twin.total_params == twin.active_params == CATALOG["deepseek-v3"].active_params)
    True
    """
    model = find_model(model)
    parts = model.ledger() | {"routed_experts": model.active_params - model.always_active_params}
    return replace(model, name=f"{model.name}, dense twin", num_experts=1, top_k=1, group_limit=None,
                   d_expert=model.top_k * model.d_expert, parts=tuple(parts.items()))


def from_config(config: str | PathLike[str] | Mapping[str, Any], *, family: str | None = None) -> MoEModel:
    """Count a model from its configuration, spelled as in Hugging Face's `config.json`.

    Parameters
    ----------
    config : path, dict or str
        A file, a folder with a `config.json`, a dict, or the JSON text itself. A nested `text_config` is found.
    family : str, optional
        A known family, used in place of the configuration's `model_type`.

    Returns
    -------
    MoEModel
        Main model only. Hidden size, layers, heads, vocabulary, widths and numbers of experts are required; any other
        key that is absent has the value that the library's class gives it. A family without a function here is counted
        where the extra `hf` (torch, transformers) is installed: the library's class is built without weights and its
        parameters are sorted by the names of their modules. `notes` says so; `caches` is None where its shapes do not
        tell them.

    Raises
    ------
    ValueError
        Names the file and line or the key, the value found and what is allowed.

    >>> tiny = from_config({"model_type": "llama", "vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 2,
    ...                     "num_attention_heads": 2, "intermediate_size": 16})
    >>> print(tiny.total_params)
    2920
    >>> from_config({"model_type": "llama", "vocab_size": 100})
    Traceback (most recent call last):
    ValueError: config: a required key is missing, looked for hidden_size or d_model
    """
    values, where, name = read(config)
    count = _instantiate.facts_of if family_error(values, where, family) else facts_of
    facts = count(values, where, family)
    return _record(name=name or facts["family"], source=where, **facts)


def _record(*, parts, caches, copied=None, **facts):
    copied = {part: parts.get(part, 0) for part in ("router", "norms")} | (copied or {})
    return MoEModel(parts=tuple((part, parts.get(part, 0)) for part in PARTS), copied=tuple(copied.items()),
                    caches=None if caches is None else tuple(Cache(**cache) for cache in caches), **facts)


def _catalog():
    """Published models: configurations counted by `from_config`, then those that are known by their parts."""
    folder = resources.files(__package__) / "data"
    published = (folder / "models.csv").read_text(encoding="utf-8").splitlines()
    rows = {row["slug"]: row for row in csv.DictReader(published)}
    by_parts = json.loads((folder / "models_by_parts.json").read_text(encoding="utf-8"))
    catalog = {}
    for slug, row in rows.items():
        if slug in by_parts:
            facts = by_parts[slug]
        else:
            facts = facts_of(json.loads((folder / "configs" / f"{slug}.json").read_text(encoding="utf-8")), slug)
        notes = " ".join(filter(None, (facts.get("notes"), row["notes"])))
        catalog[slug] = _record(**facts | {"name": row["name"], "source": row["source"], "notes": notes})
    return catalog


CATALOG: Names[MoEModel] = Names("model", _catalog(), ALIASES)  # slug to MoEModel


def find_model(model: MoEModel | str) -> MoEModel:
    """A MoEModel as it is, or the one of `CATALOG` that is called so.

    Raises
    ------
    ValueError
        If it is neither; names the nearest.

    >>> print(find_model("DeepSeek-R1").name)
    DeepSeek-V3
    """
    return CATALOG.find(model, MoEModel)


def find_models(models: Iterable[MoEModel | str]) -> list[MoEModel]:
    """Several models or names as records; errors as `find_model`, and for none at all.

    >>> print(*(model.name for model in find_models(["jamba", CATALOG["olmoe"]])))
    Jamba v0.1 OLMoE-1B-7B
    """
    found = [find_model(model) for model in (models if isinstance(models, Iterable) else [models])]
    if not found:
        raise ValueError("model must be a MoEModel or several, got none")
    return found
