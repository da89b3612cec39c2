"""Counts parameters and caches from a configuration: keys checked one by one, shared counts, one function per family.

A family function returns fields of a `MoEModel`, all but name, source and number format; a cache is a dict of fields of
a `Cache`. Hidden size, layers, heads, vocabulary, widths and numbers of experts are required; any other absent key has
the value that the library's class gives it.
Source: the model classes of Hugging Face transformers 5.24, with which every family was compared.
"""

import json
import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import NamedTuple

_REQUIRED = object()
_LARGEST = 10**9


class Config:
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

    def nullable(self, name, default, low=1):
        """Like `integer`, but null means none; `default` is for an absent key."""
        return self.integer(name, default=None if name in self.values else default, low=low)

    def flag(self, name, default=False):
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

    def whole_numbers(self, name, low, default=()):
        return self.each(name, lambda n: type(n) is int and low <= n <= _LARGEST, f"whole numbers from {low}", default)

    def section(self, name):
        _, value = self.find(name)
        if not isinstance(value, dict):
            raise self.error(name, "an object", value)
        return Config(value, f"{self.where}: {name}")


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


def _mla(s, q_rank, kv_rank, nope, rope, value, bias):
    """(parameters, those of the down projections) of latent attention: keys and values out of one shared entry.

    Queries are compressed where q_rank is given.
    """
    down = (_linear(s.d, q_rank, bias) if q_rank else 0) + _linear(s.d, kv_rank + rope, bias)
    up = (q_rank or s.d) * s.heads * (nope + rope) + kv_rank * s.heads * (nope + value)
    return down + up + _linear(s.heads * value, s.d, bias), down


def _mamba(d, inner, rank, state, kernel, conv_bias, proj_bias):
    """Mamba block of Jamba: in and out projections, convolution, x and dt projections, A and D."""
    projections = _linear(d, 2 * inner, proj_bias) + _linear(inner, d, proj_bias) + _linear(kernel, inner, conv_bias)
    return projections + inner * (rank + 2 * state) + _linear(rank, inner, True) + inner * state + inner


def _gqa_cache(s, num_layers, window=None):
    return {"num_layers": num_layers, "values_per_token": 2 * s.kv_heads * s.head_dim,
            "flops_per_token": 4 * s.heads * s.head_dim, "window": window}


def _mixed_caches(c, s, default, other="sliding_attention", key="sliding_window", window=None):
    """Caches by layer_types (else `default`): full attention, and `other` with a window of `key` (None: no cache)."""
    kinds = c.each("layer_types", ("full_attention", other).__contains__, f"full_attention or {other}", default)
    if len(kinds) != s.layers:
        raise c.error("layer_types", f"one entry for each of {s.layers} layers", kinds)
    full = sum(kind == "full_attention" for kind in kinds)
    caches = [_gqa_cache(s, full)] if full else []
    if key and full < s.layers:
        window = c.nullable(key, window)
        if window is None:
            raise c.error(key, f"a whole number where layers have {other}", window)
        caches.append(_gqa_cache(s, s.layers - full, window))
    return caches


def _qwen_caches(c, s, slides):
    """Qwen: a window only where use_sliding_window is true; `slides(i)` says in which layers."""
    if not c.flag("use_sliding_window"):
        return [_gqa_cache(s, s.layers)]
    return _mixed_caches(c, s, ["sliding_attention" if slides(i) else "full_attention" for i in range(s.layers)],
                         window=4096)


def _experts(c, *names, top_k="num_experts_per_tok"):
    """Routed experts in a layer, and how many of them a token takes."""
    num_experts = c.integer(*(names or ("num_experts", "n_routed_experts", "num_local_experts")), high=10**6)
    return num_experts, c.integer(top_k, high=num_experts)


def _group_limit(c, groups, kept):
    """(n_group, topk_group), None where there is one group. `groups`, `kept`: the library's values."""
    groups = c.integer("n_group", default=groups)
    kept = c.integer("topk_group", default=min(kept, groups), high=groups)
    num_experts, top_k = _experts(c)
    if num_experts % groups:
        raise c.error("n_group", f"a divisor of the number of experts, {num_experts}", groups)
    if top_k > kept * (num_experts // groups):
        raise c.error("topk_group", f"enough for {top_k} experts from groups of {num_experts // groups}", kept)
    return (groups, kept) if groups > 1 else None


def _facts(c, s, *, attention, caches, norms, moe_layers=0, width=0, experts=None, expert_bias=False, router_bias=False,
           shared=0, num_shared=0, dense_key="intermediate_size", dense_bias=False, head_bias=False, group_limit=None,
           state=0, copied=None):
    """Fields of the record. `width` of an expert; `shared` parameters of a layer; `dense_key` width of dense layers;
    `copied` parameters by part, beside routers and norms."""
    tied, dense_layers = c.flag("tie_word_embeddings"), s.layers - moe_layers
    experts = (experts or _experts(c)) if moe_layers else (1, 1)
    counted = {
        "embedding": s.vocab * s.d,
        "attention": attention,
        "dense_ffn": dense_layers * _ffn(s.d, c.integer(dense_key), dense_bias) if dense_layers else 0,
        "router": moe_layers * _linear(s.d, experts[0], router_bias),
        "shared_experts": moe_layers * shared,
        "routed_experts": moe_layers * experts[0] * _ffn(s.d, width, expert_bias),
        "norms": norms,
        "head": (0 if tied else s.vocab * s.d) + (s.vocab if head_bias else 0),
        "other": 0,
    }
    return {
        "num_layers": s.layers, "num_moe_layers": moe_layers, "num_experts": experts[0], "top_k": experts[1],
        "num_shared_experts": num_shared if moe_layers else 0, "d_model": s.d, "d_expert": width if moe_layers else 0,
        "num_heads": s.heads, "num_kv_heads": s.kv_heads, "group_limit": group_limit if moe_layers else None,
        "tied_embeddings": tied, "parts": counted, "copied": copied, "caches": caches,
        "state_bytes_per_sequence": state, "notes": " ".join(_notes(c, s, caches)),
    }


def _notes(c, s, caches):
    for cache in caches:
        if cache.get("window"):
            yield (f"{cache['num_layers']} of {s.layers} layers keep at most {cache['window']} tokens: the cache per "
                   "token is an upper bound beyond.")
    caching = sum(cache["num_layers"] for cache in caches)
    if caching < s.layers:
        yield f"Keys and values in {caching} of {s.layers} layers; the others keep a fixed state per sequence."
    if c.values.get("num_nextn_predict_layers"):
        yield "Multi-token-prediction module not counted."
    if isinstance(c.values.get("text_config"), dict):
        yield "Text part only."


def _decoder(c, s, *, qkv_bias=False, out_bias=False, qk_norm=0, sinks=0, norm=None, caches=None, **facts):
    """Grouped-query attention in every layer. `norm`: weights of one norm; `qk_norm`, `sinks`: weights per layer."""
    norms = (2 * s.layers + 1) * (norm or s.d) + s.layers * qk_norm
    return _facts(c, s, attention=s.layers * (_gqa(s, qkv_bias, out_bias) + sinks), norms=norms,
                  caches=caches or [_gqa_cache(s, s.layers)], **facts)


def _llama(c):
    s, bias = _shape(c), c.flag("attention_bias")
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, dense_bias=c.flag("mlp_bias"))


def _qwen3(c):
    s, bias = _shape(c, kv_heads=32, head_dim=128), c.flag("attention_bias")
    first = c.integer("max_window_layers", default=28, low=0)
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, qk_norm=2 * s.head_dim,
                    caches=_qwen_caches(c, s, lambda i: i >= first))


def _mixtral(c):
    s = _shape(c, kv_heads=8)
    return _decoder(c, s, moe_layers=s.layers, width=c.integer("intermediate_size"), caches=_one_window(c, s))


def _one_window(c, s):
    return [_gqa_cache(s, s.layers, c.integer("sliding_window", default=None))]


def _phimoe(c):
    s, bias = _shape(c, kv_heads=8), c.flag("attention_bias")
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, norm=2 * s.d, moe_layers=s.layers,  # norms have biases
                    width=c.integer("intermediate_size"), head_bias=c.flag("lm_head_bias"), caches=_one_window(c, s))


def _olmoe(c):
    s, bias = _shape(c), c.flag("attention_bias")
    if s.heads * s.head_dim != s.d:
        raise c.error("head_dim", f"hidden_size / num_attention_heads = {s.d / s.heads:g}", s.head_dim)
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, qk_norm=s.d + s.kv_heads * s.head_dim, moe_layers=s.layers,
                    width=c.integer("intermediate_size"))


def _granite(c, shared=0):
    s, bias = _shape(c), c.flag("attention_bias")
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, moe_layers=s.layers, width=c.integer("intermediate_size"),
                    shared=_ffn(s.d, shared), num_shared=min(shared, 1))


def _granite_shared(c):
    return _granite(c, c.integer("shared_intermediate_size", low=0))


def _minimax_m2(c):
    s = _shape(c, kv_heads=8, head_dim=128)
    return _decoder(c, s, qk_norm=(s.heads + s.kv_heads) * s.head_dim, moe_layers=s.layers,
                    width=c.integer("intermediate_size"))


def _gpt_oss(c):
    s, bias = _shape(c, kv_heads=8, head_dim=64), c.flag("attention_bias", True)
    kinds = [("sliding_attention", "full_attention")[i % 2] for i in range(s.layers)]
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, sinks=s.heads, moe_layers=s.layers, router_bias=True,
                    width=c.integer("intermediate_size"), expert_bias=True,
                    caches=_mixed_caches(c, s, kinds, window=128))


def _dbrx(c):
    attn, ffn = c.section("attn_config"), c.section("ffn_config")
    if c.flag("tie_word_embeddings"):
        raise c.error("tie_word_embeddings", "false for this family", True)
    s = _shape(c, kv_heads=1, kv_section=attn)
    return _decoder(c, s, moe_layers=s.layers, width=ffn.integer("ffn_hidden_size"),
                    experts=_experts(ffn, "moe_num_experts", top_k="moe_top_k"))


def _sparse_step_layers(c, layers):
    """Layers with experts: every decoder_sparse_step-th, less those in mlp_only_layers."""
    step, dense = c.integer("decoder_sparse_step", default=1), set(c.whole_numbers("mlp_only_layers", 0))
    return sum((i + 1) % step == 0 and i not in dense for i in range(layers))


def _qwen3_moe(c):
    s, bias = _shape(c, kv_heads=4), c.flag("attention_bias")
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, qk_norm=2 * s.head_dim,
                    width=c.integer("moe_intermediate_size"), moe_layers=_sparse_step_layers(c, s.layers),
                    caches=_qwen_caches(c, s, lambda i: True))


def _qwen2_moe(c):
    s, shared = _shape(c, kv_heads=16), c.integer("shared_expert_intermediate_size")
    last = c.integer("max_window_layers", default=28, low=0)
    return _decoder(c, s, qkv_bias=c.flag("qkv_bias", True), moe_layers=_sparse_step_layers(c, s.layers),
                    width=c.integer("moe_intermediate_size"), shared=_ffn(s.d, shared) + s.d, num_shared=1,  # + gate
                    caches=_qwen_caches(c, s, lambda i: i % 2 == 0 and i < last))


def _llama4(c):
    s, bias = _shape(c, kv_heads=8, head_dim=128), c.flag("attention_bias")
    width, step = c.integer("intermediate_size"), c.integer("interleave_moe_layer_step", default=1)
    moe_layers = set(c.whole_numbers("moe_layers", 0, range(step - 1, s.layers, step))).intersection(range(s.layers))
    chunk, interval = c.nullable("attention_chunk_size", 8192), c.integer("no_rope_layer_interval", default=4)
    ropes = c.whole_numbers("no_rope_layers", 0) or [(i + 1) % interval for i in range(s.layers)]
    kinds = ["chunked_attention" if chunk and rope else "full_attention" for rope in ropes[:s.layers]]
    return _decoder(c, s, qkv_bias=bias, out_bias=bias, moe_layers=len(moe_layers), width=width,
                    shared=_ffn(s.d, width), num_shared=1, dense_key="intermediate_size_mlp",
                    caches=_mixed_caches(c, s, kinds, "chunked_attention", "attention_chunk_size", 8192))


def _after_dense(c, layers, default):
    """Layers with experts: from first_k_dense_replace on, every moe_layer_freq-th."""
    first, step = c.integer("first_k_dense_replace", default=default, low=0), c.integer("moe_layer_freq", default=1)
    return sum(i >= first and i % step == 0 for i in range(layers))


def _glm4_moe(c):
    s, width = _shape(c, kv_heads=8), c.integer("moe_intermediate_size")
    num_shared = c.nullable("n_shared_experts", 1, 0) or 0
    return _decoder(c, s, qkv_bias=c.flag("attention_bias"), qk_norm=2 * s.head_dim if c.flag("use_qk_norm") else 0,
                    moe_layers=_after_dense(c, s.layers, 1), width=width, num_shared=num_shared,
                    shared=_ffn(s.d, num_shared * width), group_limit=_group_limit(c, 1, 1))


def _deepseek_v3(c, first_dense=3, shared=1, mlp_bias=False, grouped=True, groups=(8, 4)):
    s = _shape(Config(c.values | {"num_key_value_heads": 1, "head_dim": 1}, c.where))
    q_rank, kv_rank = c.nullable("q_lora_rank", 1536), c.integer("kv_lora_rank", default=512)
    nope, rope = c.integer("qk_nope_head_dim", default=128), c.integer("qk_rope_head_dim", default=64)
    value = c.integer("v_head_dim", default=128)
    attention, down = _mla(s, q_rank, kv_rank, nope, rope, value, c.flag("attention_bias"))
    cache = {"num_layers": s.layers, "values_per_token": kv_rank + rope,
             "flops_per_token": 2 * s.heads * (2 * kv_rank + rope),
             "expanded_flops_per_token": 2 * s.heads * (nope + rope + value),
             "expansion_flops": 2 * kv_rank * s.heads * (nope + value)}
    width, num_shared = c.integer("moe_intermediate_size"), c.nullable("n_shared_experts", shared, 0) or 0
    return _facts(c, s, attention=s.layers * attention, copied={"attention": s.layers * down}, caches=[cache],
                  norms=(2 * s.layers + 1) * s.d + s.layers * (kv_rank + (q_rank or 0)),
                  moe_layers=_after_dense(c, s.layers, first_dense), width=width, dense_bias=mlp_bias,
                  shared=_ffn(s.d, num_shared * width, mlp_bias) if num_shared else 0, num_shared=num_shared,
                  group_limit=_group_limit(c, *groups) if grouped else None)


def _deepseek_v2(c):
    return _deepseek_v3(c, first_dense=0, shared=2, mlp_bias=c.flag("mlp_bias"), groups=(1, 1),
                        grouped=c.values.get("topk_method") == "group_limited_greedy")


def _minimax(c):
    """Linear attention in most layers: query, key, value, output, an output gate and a norm."""
    s, names = _shape(c, kv_heads=8), ("linear_attention", "full_attention")
    kinds = [names[i] for i in c.each("attn_type_list", (0, 1).__contains__, "0 (linear) and 1 (full)")]
    caches = _mixed_caches(c, s, kinds or [names[(i + 1) % 2] for i in range(s.layers)], names[0], None)
    full, inner = sum(cache["num_layers"] for cache in caches), s.heads * s.head_dim
    linear = s.layers - full
    return _facts(c, s, attention=full * _gqa(s) + linear * 5 * s.d * inner, caches=caches, moe_layers=s.layers,
                  norms=(2 * s.layers + 1) * s.d + linear * inner, width=c.integer("intermediate_size"),
                  state=linear * inner * s.head_dim * 4)  # heads x head_dim x head_dim, fp32


def _every(c, layers, name, period, offset):
    """Number of layers i with i % period == offset."""
    period = c.integer(f"{name}_period", default=period)
    offset = c.integer(f"{name}_offset", default=offset, low=0)
    if offset >= period:
        raise c.error(f"{name}_offset", f"below {name}_period = {period}", offset)
    return len(range(offset, layers, period))


def _jamba(c):
    """Mamba in most layers, attention in every attn_layer_period-th, experts in every expert_layer_period-th."""
    s, width = _shape(c, kv_heads=8), c.integer("intermediate_size")
    full, moe_layers = _every(c, s.layers, "attn_layer", 8, 4), _every(c, s.layers, "expert_layer", 2, 1)
    inner, state = c.integer("mamba_expand", default=2) * s.d, c.integer("mamba_d_state", default=16)
    rank = -(-s.d // 16) if c.values.get("mamba_dt_rank", "auto") == "auto" else c.integer("mamba_dt_rank")
    kernel, others = c.integer("mamba_d_conv", default=4), s.layers - full
    mamba = _mamba(s.d, inner, rank, state, kernel, c.flag("mamba_conv_bias", True), c.flag("mamba_proj_bias"))
    return _facts(c, s, attention=full * _gqa(s) + others * mamba, caches=[_gqa_cache(s, full)] if full else [],
                  norms=(2 * s.layers + 1) * s.d + others * (rank + 2 * state), width=width,
                  moe_layers=moe_layers if _experts(c)[0] > 1 else 0,
                  state=others * inner * (4 * state + 2 * (kernel - 1)))  # recurrent part fp32, convolution bf16


FAMILIES = {
    "dbrx": _dbrx, "deepseek_v2": _deepseek_v2, "deepseek_v3": _deepseek_v3, "glm4_moe": _glm4_moe,
    "gpt_oss": _gpt_oss, "granitemoe": _granite, "granitemoeshared": _granite_shared, "jamba": _jamba,
    "kimi_k2": _deepseek_v3, "llama": _llama, "llama4": _llama4, "llama4_text": _llama4, "minimax": _minimax,
    "minimax_m2": _minimax_m2, "minimax_text_01": _minimax, "mixtral": _mixtral, "olmoe": _olmoe, "phimoe": _phimoe,
    "qwen2_moe": _qwen2_moe, "qwen3": _qwen3, "qwen3_moe": _qwen3_moe,
}


_LINEAR = ("attention", "dense_ffn", "shared_experts", "routed_experts")  # the parts that quantization makes smaller


def released(c):
    """(bytes per weight, words) of the number format that the configuration names; one not known counts as bf16.

    AWQ and GPTQ keep a 16-bit scale and a zero point of `bits` for every group of weights (-1: for every column, which
    adds next to nothing); single modules that are left out are not looked up.
    """
    if c.values.get("quantization_config") is None:
        formats = {"bfloat16": (2, "bf16"), "float16": (2, "fp16"), "float32": (4, "fp32")}
        name, dtype = c.find("torch_dtype", "dtype", default="bfloat16")
        if dtype not in list(formats):
            raise c.error(name, " or ".join(formats), dtype)
        return formats[dtype]
    q = c.section("quantization_config")
    method = q.values.get("quant_method")
    if method == "mxfp4":
        return {"routed_experts": 4.25 / 8, "default": 2}, "routed experts mxfp4 (4.25 bits per weight), rest bf16"
    if method == "fp8":
        block = q.whole_numbers("weight_block_size", 1)
        size = 1 + (4 / prod(block) if block else 0)
        words = f"fp8, one fp32 scale per {'x'.join(map(str, block)) or 'matrix'}"
    elif method in ("awq", "gptq") and {"bits", "group_size"} <= q.values.keys():
        bits, group = q.integer("bits", high=16), q.integer("group_size", low=-1)
        size = (bits + ((16 + bits) / group if group > 0 else 0)) / 8
        words = f"{method}, {8 * size:.4g} bits per weight with scales and zero points"
    else:
        return 2, f"bf16 assumed (quantization method {method!r:.40} is not read: pass weight_bytes)"
    return dict.fromkeys(_LINEAR, size) | {"default": 2}, f"{words}; embedding, head, router and norms bf16"


def read(config):
    """(dict, where it is, name) of a path, a dict or JSON text."""
    if isinstance(config, Mapping):
        return dict(config), "config", None
    if not isinstance(config, (str, os.PathLike)):
        raise ValueError(f"config must be a path, a dict or JSON text, got {type(config).__name__}")
    text, where, name = config, "config", None
    if isinstance(config, str):
        text = config = config.removeprefix("\ufeff")
    if not str(config).strip():
        raise ValueError("config must be a path, a dict or JSON text, got nothing")
    if not (isinstance(config, str) and config.lstrip().startswith(("{", "["))):
        path = Path(config)
        try:
            path = path / "config.json" if path.is_dir() else path
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as problem:
            why = getattr(problem, "strerror", None) or problem
            raise ValueError(f"config must be a readable file, got {str(path)!r:.90}: {why}") from problem
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


def text_part(values):
    """The configuration with the keys of its `text_config`, where it has one, on top."""
    return values | values["text_config"] if isinstance(values.get("text_config"), dict) else values


def family_error(values, where, family=None):
    """What is wrong with a family that is not known, in words; None where it is."""
    kind = text_part(values).get("model_type") if family is None else family
    if not isinstance(kind, str) or kind not in FAMILIES:
        return (f"{where}: {'model_type' if family is None else 'family'} must be one of "
                f"{', '.join(FAMILIES)} (family= chooses one), got {kind!r:.90}")


def facts_of(values, where, family=None):
    """Fields of the record of a configuration of a known family: all but name and source."""
    c = Config(text_part(values), where)
    kind = c.values["model_type"] if family is None else family
    weight_bytes, precision = released(c)
    return {"family": kind, "released_weight_bytes": weight_bytes, "released_precision": precision} | FAMILIES[kind](c)
