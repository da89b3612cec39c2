"""Write counts.jsonl: parameters by part of real and of randomly changed configurations, counted by transformers.

Not part of the tests. Needs torch and transformers; takes seconds and little memory, because every model is built on
torch's meta device, which holds shapes and no weights:

    python tests/data/make_counts.py moe_lib/data/configs tests/data/counts.jsonl [CHANGED] [SEED]

CHANGED is the number of changed configurations (default 68), drawn from all of them in turn.
"""

import copy
import json
import random
import re
import sys
from pathlib import Path

# Other releases: the figures of their config.json that decide the count.
OTHERS = {
    "deepseek-v2-lite": {
        "model_type": "deepseek_v2", "vocab_size": 102400, "hidden_size": 2048, "intermediate_size": 10944,
        "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
        "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2, "first_k_dense_replace": 1,
        "n_group": 1, "topk_group": 1, "topk_method": "greedy", "moe_layer_freq": 1, "tie_word_embeddings": False,
        "attention_bias": False,
    },
    "kimi-k2": {
        "model_type": "kimi_k2", "vocab_size": 163840, "hidden_size": 7168, "intermediate_size": 18432,
        "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 64, "num_key_value_heads": 64,
        "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "n_routed_experts": 384, "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 1,
        "n_group": 1, "topk_group": 1, "moe_layer_freq": 1, "tie_word_embeddings": False, "attention_bias": False,
    },
    "qwen2-57b-a14b": {
        "model_type": "qwen2_moe", "vocab_size": 151936, "hidden_size": 3584, "intermediate_size": 18944,
        "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "num_experts": 64, "num_experts_per_tok": 8,
        "decoder_sparse_step": 1, "tie_word_embeddings": False,
    },
    "qwen3-coder-480b-a35b": {
        "model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 6144, "intermediate_size": 8192,
        "moe_intermediate_size": 2560, "num_hidden_layers": 62, "num_attention_heads": 96, "num_key_value_heads": 8,
        "head_dim": 128, "num_experts": 160, "num_experts_per_tok": 8, "decoder_sparse_step": 1,
        "mlp_only_layers": [], "tie_word_embeddings": False,
    },
    "mixtral-8x22b": {
        "model_type": "mixtral", "vocab_size": 32000, "hidden_size": 6144, "intermediate_size": 16384,
        "num_hidden_layers": 56, "num_attention_heads": 48, "num_key_value_heads": 8, "num_local_experts": 8,
        "num_experts_per_tok": 2, "sliding_window": None, "tie_word_embeddings": False,
    },
    "gpt-oss-20b": {
        "model_type": "gpt_oss", "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880,
        "num_hidden_layers": 24, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
        "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128, "tie_word_embeddings": False,
    },
    "glm-4.5-air": {
        "model_type": "glm4_moe", "vocab_size": 151552, "hidden_size": 4096, "intermediate_size": 10944,
        "moe_intermediate_size": 1408, "num_hidden_layers": 46, "num_attention_heads": 96, "num_key_value_heads": 8,
        "head_dim": 128, "n_routed_experts": 128, "num_experts_per_tok": 8, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "attention_bias": True, "use_qk_norm": False, "tie_word_embeddings": False,
    },
    "granite-3b-a800m": {
        "model_type": "granitemoe", "vocab_size": 49155, "hidden_size": 1536, "intermediate_size": 512,
        "num_hidden_layers": 32, "num_attention_heads": 24, "num_key_value_heads": 8, "num_local_experts": 40,
        "num_experts_per_tok": 8, "tie_word_embeddings": True,
    },
    "granite-shared": {
        "model_type": "granitemoeshared", "vocab_size": 49152, "hidden_size": 1536, "intermediate_size": 512,
        "shared_intermediate_size": 1024, "num_hidden_layers": 40, "num_attention_heads": 12,
        "num_key_value_heads": 4, "num_local_experts": 62, "num_experts_per_tok": 6, "tie_word_embeddings": True,
    },
    "minimax-m2": {
        "model_type": "minimax_m2", "vocab_size": 200064, "hidden_size": 3072, "intermediate_size": 1536,
        "num_hidden_layers": 62, "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128,
        "num_local_experts": 256, "num_experts_per_tok": 8, "use_qk_norm": True, "tie_word_embeddings": False,
    },
    "jamba-1.5-large": {
        "model_type": "jamba", "vocab_size": 65536, "hidden_size": 8192, "intermediate_size": 24576,
        "num_hidden_layers": 72, "num_attention_heads": 64, "num_key_value_heads": 8, "num_experts": 16,
        "num_experts_per_tok": 2, "attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2,
        "expert_layer_offset": 1, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": 512,
        "mamba_conv_bias": True, "mamba_proj_bias": False, "tie_word_embeddings": False,
    },
    "phi-mini-moe": {
        "model_type": "phimoe", "vocab_size": 32064, "hidden_size": 4096, "intermediate_size": 960,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 16,
        "num_experts_per_tok": 2, "attention_bias": True, "lm_head_bias": True, "tie_word_embeddings": False,
    },
    "llama-3.2-1b": {
        "model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
        "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
    },
    "qwen3-0.6b": {
        "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "attention_bias": False, "tie_word_embeddings": True,
    },
}
# Totals on the release pages (parameters of the safetensors files), where known: a check of the figures above.
PUBLISHED = {
    "deepseek-v2-lite": 15706484224, "mixtral-8x22b": 140620634112, "gpt-oss-20b": 20914757184,
    "qwen3-coder-480b-a35b": 480154875392, "llama-3.2-1b": 1235814400, "qwen3-0.6b": 596049920,
}

DROPPED = ("architectures", "quantization_config", "torch_dtype")
PARTS = {  # first pattern that is found in a parameter's name decides
    "embedding": r"embed_tokens|\.wte\.",
    "head": r"^lm_head",
    "routed_experts": r"\.experts\.",
    "shared_experts": r"shared_(expert|mlp)",
    "router": r"\.(gate|router)\.(layer\.)?(weight|bias)$",
    "norms": r"norm(_\d|_f)?\.(weight|bias)$",
    "attention": r"(attn|attention|mamba)\.",
    "dense_ffn": r"\.(mlp|feed_forward)\.",
}


def count(config):
    """Parameters by part of the real class, shared tensors once."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = dict(config["text_config"] if "text_config" in config else config)
    for key in DROPPED:
        config.pop(key, None)
    model_type = config.pop("model_type").replace("kimi_k2", "deepseek_v3")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **json.loads(json.dumps(config))))
    counted = dict.fromkeys(PARTS, 0)
    for name, parameter in model.named_parameters():
        counted[next(part for part, pattern in PARTS.items() if re.search(pattern, name))] += parameter.numel()
    return counted


def changed(draw, config):
    """A small configuration of the same family with a few keys changed, dropped or set to null."""
    from transformers import AutoConfig

    config = copy.deepcopy({key: value for key, value in config.items() if key not in DROPPED})
    text = config.get("text_config", config)
    family, layers = text["model_type"], draw.choice([1, 2, 3, 5, 8, 13])
    heads = draw.choice([4, 6, 8])
    head_dim = draw.choice([8, 16, 24])
    names = {"dbrx": ("d_model", "n_heads", "n_layers")}.get(
        family, ("hidden_size", "num_attention_heads", "num_hidden_layers"))
    text.update(zip(names, (heads * head_dim, heads, layers), strict=True))
    text["vocab_size"] = draw.choice([64, 101, 320])
    text.pop("layer_types", None)
    kv_heads = draw.choice([1, 2, heads])
    if family == "dbrx":
        text["attn_config"] = text["attn_config"] | {"kv_n_heads": kv_heads}
        text["ffn_config"] = text["ffn_config"] | {"ffn_hidden_size": draw.choice([16, 40]), "moe_num_experts": 6}
        return config
    text["num_key_value_heads"] = kv_heads
    if draw.random() < 0.5 and family != "olmoe":
        text["head_dim"] = draw.choice([8, 16, 32])
    else:
        text.pop("head_dim", None)
    for key in text:
        if "intermediate_size" in key:
            text[key] = draw.choice([16, 24, 56])
    for key in ("num_experts", "n_routed_experts", "num_local_experts"):
        if key in text:
            text[key] = draw.choice([16, 24, 40])
    if "num_experts_per_tok" in text:
        text["num_experts_per_tok"] = draw.randint(1, 6)
    options = {
        "tie_word_embeddings": [True, False], "attention_bias": [True, False], "qkv_bias": [True, False],
        "use_qk_norm": [True, False], "mlp_bias": [True, False], "lm_head_bias": [True, False],
        "decoder_sparse_step": [1, 2, 3], "mlp_only_layers": [[], [0], [0, 2], None],
        "first_k_dense_replace": [0, 1, 2, 9], "n_shared_experts": [1, 2, 3], "q_lora_rank": [None, 12, 32],
        "kv_lora_rank": [16, 20], "v_head_dim": [8, 12], "qk_nope_head_dim": [8, 20], "qk_rope_head_dim": [4, 8],
        "interleave_moe_layer_step": [1, 2, 3], "moe_layers": [[0], [1, 2], None],
        "shared_intermediate_size": [0, 8, 24], "attn_layer_period": [1, 2, 8], "expert_layer_period": [1, 2, 3],
        "mamba_d_state": [4, 16], "mamba_d_conv": [2, 4], "mamba_expand": [1, 2], "mamba_dt_rank": ["auto", 5],
        "mamba_conv_bias": [True, False], "mamba_proj_bias": [True, False],
    }
    known = set(AutoConfig.for_model(family.replace("kimi_k2", "deepseek_v3")).to_dict())
    for key, values in options.items():
        if key in known and draw.random() < 0.6:
            text[key] = draw.choice(values)
        elif key in text and draw.random() < 0.3:
            del text[key]
    if family == "jamba":  # an offset must lie below its period
        text["attn_layer_offset"] = text["expert_layer_offset"] = 0
    if family == "minimax" and draw.random() < 0.7:
        text["layer_types"] = [draw.choice(["linear_attention", "full_attention"]) for _ in range(layers)]
    return config


def bare(config):
    """Only the keys that are required, so that the library's own values show in everything else."""
    text = config.get("text_config", config)
    sizes = {
        "hidden_size": 512, "d_model": 512, "num_attention_heads": 32, "n_heads": 32, "num_hidden_layers": 13,
        "n_layers": 13, "vocab_size": 320, "num_experts": 32, "n_routed_experts": 32, "num_local_experts": 32,
        "num_experts_per_tok": 4, "attn_config": {"rope_theta": 1e4},
        "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 8, "moe_top_k": 2},
    }
    widths = {key: 24 for key in text if "intermediate_size" in key}
    return {"model_type": text["model_type"]} | {key: size for key, size in (sizes | widths).items() if key in text}


def main(folder, out, number=68, seed=0):
    configs = {path.stem: json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))}
    named = configs | OTHERS
    starts = list(named.values())
    for config in starts:
        least = bare(config)
        named[f"bare-{least['model_type']}"] = least
    draw = random.Random(seed)
    draw.shuffle(starts)
    for i in range(number):
        named[f"changed-{i}"] = changed(draw, starts[i % len(starts)])
    with open(out, "w") as file:
        for name, config in named.items():
            counted = count(config)
            total = sum(counted.values())
            if total != PUBLISHED.get(name, total):
                raise SystemExit(f"{name}: counted {total}, published {PUBLISHED[name]}")
            row = {"name": name, "total_params": total, "parts": counted, "config": config}
            if name in configs:
                del row["config"]  # shipped in moe_lib/data/configs
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:]))
