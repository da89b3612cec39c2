"""Counts of a family that `_families` does not know: the library's own class, built without weights.

Needs the extra `hf`. transformers builds the model on torch's meta device, where a parameter has a shape and no values.
Every parameter goes into one part of the ledger by the name of its module, so the total is exact. What the shapes do
not tell is an error or is called unknown, never a guess. Nothing is downloaded, and no code that a configuration names
is run.
"""

import re
from importlib.util import find_spec

from ._families import Config, family_error, released, text_part

PARTS = (  # the first pattern that is found in a parameter's name decides; what none matches is "other"
    ("left out", r"(^|\.)(mtp|nextn)\w*\.|(correction_bias|expert_bias)$"),  # extra modules, biases that balance loads
    ("embedding", r"(^|\.)embed_tokens_per_layer\.weight$"),  # beside the input embedding, which the class names
    ("routed_experts", r"\.experts\."),
    ("shared_experts", r"\.shared_(experts?|mlp)(_gate)?\."),
    ("router", r"\.(mlp|moe|feed_forward|block_sparse_moe|ffn|mixer|layers\.\d+)\.(gate|router)\."),
    ("norms", r"(norm\w*|\.ln_\w+)\.(\d+\.)?(norm\.)?(weight|bias)$"),
    ("dense_ffn", r"\.mixer\.(up|down|gate)_proj\."),
    ("attention", r"\.(self_attn|attn|self_attention|attention|linear_attn|mamba|conv|mixer)\."),
    ("dense_ffn", r"\.(mlp|mlps|feed_forward|ffn)\."),
)
COPIED = r"\.(q_a_proj|kv_a_proj_with_mqa|indexer)\."  # of attention, where a tensor-parallel group divides the rest
NOT_SIZES = ("architectures", "auto_map", "quantization_config", "torch_dtype", "dtype", "attn_implementation",
             "experts_implementation", "per_layer_config")
SPELLINGS = {  # keys that must be there: a class fills in its own sizes for those that are not
    "layers": ("num_hidden_layers", "n_layers", "n_layer", "num_layers"),
    "d_model": ("hidden_size", "d_model", "n_embd"), "vocab": ("vocab_size",),
    "heads": ("num_attention_heads", "n_heads", "n_head"),
    "experts": ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"),
    "top_k": ("num_experts_per_tok", "moe_top_k", "moe_k", "moe_topk", "top_k_experts", "num_experts_per_token"),
    "width": ("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size", "ffn_hidden_size"),
    "shared": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
}
PROJECTIONS = (  # the modules of attention whose cache their shapes tell
    {"q_proj", "k_proj", "v_proj", "o_proj"}, {"q_proj", "k_proj", "v_proj", "out_proj"},
    {"Wqkv", "out_proj"}, {"qkv_proj", "o_proj"},
    {"q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"},
    {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"},
)


def facts_of(values, where, family=None):
    """Fields of the record of a configuration of a family that is not known here: all but name and source.

    Raises
    ------
    ValueError
        If the extra is missing, transformers does not know the family or cannot build it, a size is absent, or the
        experts cannot be told from the rest.
    """
    text = text_part(values)
    kind = text.get("model_type") if family is None else family
    error = family_error(values, where, family)
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    if missing:
        raise ValueError(f"{error}; the extra hf counts others: pip install -e '.[hf]' "
                         f"(missing: {' and '.join(missing)})")
    import transformers

    outer = values.get("model_type") if family is None else family
    whole, built = (values, outer) if family is None and _known(outer) else (text, kind)
    if not _known(built):
        raise ValueError(f"{error}; transformers {transformers.__version__} does not know it either")
    c = Config(_flat(text), where)
    sizes = {name: c.integer(*SPELLINGS[name]) for name in ("d_model", "vocab", "heads")}
    sizes["layers"] = c.integer(*SPELLINGS["layers"], high=1000)
    weight_bytes, precision = released(Config(text, where))
    model, config = _build(whole, built, where)
    facts = {"family": kind, "released_weight_bytes": weight_bytes, "released_precision": precision}
    return facts | _count(model, config, c, sizes)


def _known(kind):
    import transformers

    return isinstance(kind, str) and kind in transformers.CONFIG_MAPPING


def _flat(text):
    sections = [text[key] for key in ("attn_config", "ffn_config") if isinstance(text.get(key), dict)]
    return {key: value for section in sections for key, value in section.items()} | text


def _sizes_only(values):
    """A copy without formats, and without keys that name code to run or to fetch."""
    if not isinstance(values, dict):
        return values
    return {key: _sizes_only(value) for key, value in values.items() if key not in NOT_SIZES and key[:1] != "_"}


def _build(values, kind, where):
    """(model on the meta device, configuration of its text part)."""
    import torch
    import transformers
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    values = _sizes_only({key: value for key, value in values.items() if key != "model_type"})
    try:
        config = transformers.AutoConfig.for_model(kind, **values)
        text = config.get_text_config(decoder=True)
        causal = type(text) in MODEL_FOR_CAUSAL_LM_MAPPING
        auto = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMultimodalLM
        with torch.device("meta"):
            return auto.from_config(text if causal else config, attn_implementation="eager"), text
    except Exception as problem:  # what a class raises on a size that it cannot take is not one type
        reason = f"{type(problem).__name__}: {problem}".replace("\n", " ")
        raise ValueError(f"{where}: transformers {transformers.__version__} cannot build {kind!r}, "
                         f"{reason:.200}") from problem


def _text_parameters(model):
    """{name: parameter} of the decoder and the head: what belongs to pictures or sound is left out."""
    kept = {id(each) for part in (model.get_decoder(), model.get_output_embeddings()) if part is not None
            for each in part.parameters()}
    return {name: each for name, each in model.named_parameters() if id(each) in kept}


def _part(name):
    return next((part for part, pattern in PARTS if re.search(pattern, name)), "other")


def _count(model, config, c, sizes):
    parameters = _text_parameters(model)
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    ends = {id(each): part for part, module in (("head", head), ("embedding", embedding)) if module is not None
            for each in module.parameters()}  # one that is both is the embedding
    parts, others, copied = {}, set(), 0
    for name, parameter in parameters.items():
        part = ends.get(id(parameter)) or _part(name)
        parts[part] = parts.get(part, 0) + parameter.numel()
        copied += parameter.numel() if part == "attention" and re.search(COPIED, name) else 0
        if part in ("other", "left out"):
            others.add((part, re.sub(r"\.\d+\.", ".*.", name)))
    left_out = parts.pop("left out", 0)
    text_only = "text_config" in c.values or len(parameters) < sum(1 for _ in model.parameters())
    experts = _experts(model, parameters, config, c)
    caches = _caches(parameters, config, sizes["layers"])
    return {
        "num_layers": sizes["layers"], "d_model": sizes["d_model"], "num_heads": sizes["heads"],
        "num_kv_heads": _kv_heads(parameters, config, sizes["heads"]),
        "tied_embeddings": head is None or head.weight is embedding.weight,
        "num_shared_experts": _shared(config) if parts.get("shared_experts") else 0,
        "parts": parts, "copied": {"attention": copied} if copied else None, "caches": caches,
        "notes": " ".join(_notes(model, text_only, others, left_out, caches)),
    } | experts


def _notes(model, text_only, others, left_out, caches):
    import transformers

    yield (f"Family not known here: counted from the parameters of {type(model).__name__} of transformers "
           f"{transformers.__version__}, built without weights, and sorted by the names of its modules.")
    for part, words in ("other", "In the part other"), ("left out", f"Not counted, {left_out:,} parameters"):
        names = sorted(name for which, name in others if which == part)
        if names:
            yield f"{words}: {', '.join(names[:4])}{', ...' if len(names) > 4 else ''}."
    if text_only:
        yield "Text part only."
    yield ("Caches by the shapes of the projections and the kinds of layers that its class caches." if caches else
           "Cache and state not known.")


def _shared(config):
    return next(filter(None, (getattr(config, key, None) for key in SPELLINGS["shared"])), 1)


def _experts(model, parameters, config, c):
    """Number, size and layers of the experts, checked: each weight of theirs has one row for an expert."""
    groups = {}
    for name, parameter in parameters.items():
        if _part(name) == "routed_experts":
            layer, _, rest = name.rpartition(".experts.")
            groups.setdefault(layer, []).append((rest, tuple(parameter.shape)))
    if not groups:
        key, number = c.find(*SPELLINGS["experts"], default=1)
        if number != 1:
            raise ValueError(f"{c.where}: {key} is {number!r:.90}, and {type(model).__name__} has no module "
                             "called experts")
        return {"num_moe_layers": 0, "num_experts": 1, "top_k": 1, "d_expert": 0, "group_limit": None}
    num_experts = c.integer(*SPELLINGS["experts"], high=10**6)
    top_k = c.integer(*SPELLINGS["top_k"], high=num_experts)
    width = c.integer(*SPELLINGS["width"])
    for layer, weights in groups.items():
        _one_row_an_expert(c, layer, weights, num_experts, width)
        if not any(name.startswith(f"{layer}.") and _part(name) == "router" and num_experts in each.shape
                   for name, each in parameters.items()):
            raise ValueError(f"{c.where}: {layer} has no router over its {num_experts} experts that can be told")
    for name, each in parameters.items():
        if each.dim() > 2 and len(each) == num_experts and not re.search("expert", name):
            raise ValueError(f"{c.where}: {name} has a matrix for each of {num_experts} experts and no part")
    groups_kept = getattr(config, "n_group", None) or 1, getattr(config, "topk_group", None)
    limited = groups_kept[0] > 1 and getattr(config, "topk_method", "") != "greedy"
    return {"num_moe_layers": len(groups), "num_experts": num_experts, "top_k": top_k, "d_expert": width,
            "group_limit": groups_kept if limited else None}


def _one_row_an_expert(c, layer, weights, num_experts, width):
    numbers = {rest.partition(".")[0] for rest, _ in weights if rest[:1].isdigit()}
    stacked = {shape for rest, shape in weights if not rest[:1].isdigit()}
    if numbers and (stacked or len(numbers) != num_experts):
        raise ValueError(f"{c.where}: {layer} must hold {num_experts} experts, got {len(numbers)}")
    # one tensor for all: [E, rows, columns], or [E x rows, columns]
    if not all(shape[0] == num_experts or shape[0] == num_experts * width for shape in stacked):
        raise ValueError(f"{c.where}: the weights of {layer} must have {num_experts} rows, got {sorted(stacked)}")
    sides = {side for _, shape in weights for side in shape}
    if not sides & {width, 2 * width, num_experts * width}:
        raise ValueError(f"{c.where}: the experts of {layer} must be {width} wide, got the sides {sorted(sides)}")


def _layer_shapes(parameters):
    """[{module: its weight's shape}] of the attention of each layer; None where a layer has something else."""
    layers = {}
    for name, parameter in parameters.items():
        if _part(name) == "attention":
            number = re.search(r"\.(\d+)\.", name)
            module, _, leaf = name.rpartition(".")
            own = layers.setdefault(int(number[1]), {})
            if leaf == "weight":
                own[module.rpartition(".")[2]] = tuple(parameter.shape)
            elif leaf not in ("bias", "sinks"):
                own[leaf] = tuple(parameter.shape)
    return [layers[number] if set(layers[number]) in PROJECTIONS else None for number in sorted(layers)]


def _caches(parameters, config, num_layers):
    """Caches of the layers, equal ones together; None where the shapes do not tell them."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    try:
        kinds = DynamicCache(config=config).layers
    except (AttributeError, KeyError, TypeError, ValueError):  # a class with a cache of its own
        return None
    shapes = _layer_shapes(parameters)
    if not len(shapes) == len(kinds) == num_layers or getattr(config, "index_topk", None):
        return None
    found = []
    for kind, shape in zip(kinds, shapes, strict=True):
        fields = shape and _cache_of(shape, config)
        if not fields or type(kind) not in (DynamicLayer, DynamicSlidingWindowLayer):
            return None
        found.append(tuple((fields | {"window": getattr(kind, "sliding_window", None)}).items()))
    ordered = sorted(dict.fromkeys(found), key=lambda fields: (dict(fields)["window"] is not None, found.index(fields)))
    return [{"num_layers": found.count(fields)} | dict(fields) for fields in ordered]


def _cache_of(shape, config):
    """Fields of a layer's cache from the shapes of its projections, or None where they contradict each other."""
    heads = config.num_attention_heads
    if "kv_b_proj" in shape:
        return _latent(shape, config, heads)
    out = shape.get("o_proj") or shape.get("out_proj")
    if "k_proj" in shape:
        query, key, value = (shape[name][0] for name in ("q_proj", "k_proj", "v_proj"))
    else:
        fused, size = (shape.get("Wqkv") or shape.get("qkv_proj"))[0], out[1] // heads
        query, key = heads * size, (fused - heads * size) // 2
        value = key
        if key % size or query + 2 * key != fused:
            return None
    if query % heads or query * value != out[1] * key:  # a gate beside the queries, or heads of other groups
        return None
    return {"values_per_token": key + value, "flops_per_token": 2 * (query + out[1])}


def _latent(shape, config, heads):
    """Latent attention (MLA): one shared entry of kv_lora_rank and qk_rope_head_dim values a token."""
    keys = ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    rank, rope, nope, value = (getattr(config, key, None) for key in keys)
    if None in (rank, rope, nope, value) or shape["kv_a_proj_with_mqa"][0] != rank + rope:
        return None
    if shape["kv_b_proj"] != (heads * (nope + value), rank) or shape["o_proj"][1] != heads * value:
        return None
    return {"values_per_token": rank + rope, "flops_per_token": 2 * heads * (2 * rank + rope),
            "expanded_flops_per_token": 2 * heads * (nope + rope + value),
            "expansion_flops": 2 * rank * heads * (nope + value)}


def _kv_heads(parameters, config, heads):
    if any("kv_a_proj_with_mqa" in name for name in parameters):
        return 1
    return getattr(config, "num_key_value_heads", None) or heads
