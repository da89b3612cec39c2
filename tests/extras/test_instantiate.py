"""Counts of classes built without weights: as the ledgers written by hand, and plain about what is not known."""

import json
from pathlib import Path

import pytest

transformers = pytest.importorskip("transformers", reason="needs the extra hf: make test-extras")

from moe_lib import _families, _instantiate  # noqa: E402
from moe_lib.layouts import Layout, layout_sequences  # noqa: E402
from moe_lib.models import CATALOG, PARTS, Cache, MoEModel, dense_twin, from_config  # noqa: E402
from moe_lib.steps import context_of_equal_bytes, decode_step, prefill, sequences_that_fit  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "moe_lib" / "data" / "configs"
CATALOGUE = {path.stem: json.loads(path.read_text()) for path in sorted(CONFIGS.glob("*.json"))}
COUNTED = [json.loads(line) for line in (ROOT / "tests" / "data" / "counts.jsonl").read_text().splitlines()]
OTHERS = {row["name"]: row["config"] for row in COUNTED if "config" in row}
SAME = ("num_layers", "num_moe_layers", "num_experts", "top_k", "num_shared_experts", "d_model", "d_expert",
        "num_heads", "num_kv_heads", "group_limit", "tied_embeddings", "copied", "released_weight_bytes",
        "released_precision", "family")
HYBRIDS = {"jamba", "minimax"}
NEXT = {"model_type": "qwen3_next", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 4, "head_dim": 8,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "num_experts": 8,
        "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
ERNIE = {"model_type": "ernie4_5_moe", "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 3, "use_bias": False,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "moe_num_experts": 8, "moe_k": 2,
         "moe_intermediate_size": 16, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
         "tie_word_embeddings": False}


def built(config, family=None):
    return _instantiate.facts_of(config, "config", family)


def by_hand(config):
    return _families.facts_of(config, "config")


@pytest.mark.parametrize("slug", CATALOGUE)
def test_every_catalogue_family_has_the_parts_and_sizes_of_its_ledger_by_hand(slug):
    found, known = built(CATALOGUE[slug]), by_hand(CATALOGUE[slug])
    assert {part: found["parts"].get(part, 0) for part in PARTS} == known["parts"]
    assert {name: found[name] for name in SAME} == {name: known[name] for name in SAME}


@pytest.mark.parametrize("slug", CATALOGUE)
def test_a_cache_is_the_one_by_hand_or_is_not_known(slug):
    found, known = built(CATALOGUE[slug])["caches"], CATALOG[slug].caches
    if by_hand(CATALOGUE[slug])["family"] in HYBRIDS:
        assert found is None
    else:
        assert tuple(Cache(**fields) for fields in found) == known


@pytest.mark.parametrize("name", OTHERS)
def test_changed_configurations_are_counted_alike_or_refused(name):
    config = OTHERS[name]
    family = "deepseek_v3" if config.get("model_type") == "kimi_k2" else None
    known = by_hand(config)
    if not known["num_moe_layers"] and "n_routed_experts" in config:  # experts that no layer holds
        with pytest.raises(ValueError, match="has no module called experts"):
            built(config, family)
    else:
        found = built(config, family)
        assert {part: found["parts"].get(part, 0) for part in PARTS} == known["parts"]


@pytest.mark.parametrize("config", [NEXT, ERNIE], ids=["qwen3_next", "ernie4_5_moe"])
def test_an_unknown_family_is_counted_to_the_last_parameter_of_a_real_model(config):
    config = dict(config)
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(config.pop("model_type"), **config))
    real = {name: each.numel() for name, each in model.named_parameters() if "correction_bias" not in name}
    counted = from_config(config | {"model_type": model.config.model_type})
    experts = sum(count for name, count in real.items() if ".experts." in name)
    assert (counted.total_params, counted.ledger()["routed_experts"]) == (sum(real.values()), experts)
    assert (counted.num_experts, counted.top_k, counted.d_expert) == (8, 2, 16)


def test_the_answer_says_how_it_was_found_and_what_is_not_known():
    model = from_config(NEXT)
    assert f"Qwen3NextForCausalLM of transformers {transformers.__version__}" in model.notes
    assert "Cache and state not known." in model.notes and model.caches is None and model.cache_kind == "unknown"
    assert "e_score_correction_bias" in from_config(ERNIE).notes and from_config(ERNIE).cache_kind == "GQA"


@pytest.mark.parametrize("question", [
    lambda model: model.kv_bytes_per_token(), lambda model: model.kv_bytes_per_sequence(1),
    lambda model: model.kv_bytes_read([0, 1]), lambda model: model.attention_flops(1),
    lambda model: model.chunk_attention_flops(0, 4), lambda model: model.kv_is_upper_bound,
    lambda model: decode_step(model, 1, context=8), lambda model: prefill(model, 8),
    lambda model: sequences_that_fit(model, 1e12), lambda model: context_of_equal_bytes(model, 1),
    lambda model: layout_sequences(model, Layout(), 1e12), lambda model: dense_twin(model).kv_bytes_per_token()])
def test_a_question_about_an_unknown_cache_is_refused(question):
    with pytest.raises(ValueError, match="caches of a sequence is not known"):
        question(from_config(NEXT))


def test_a_question_about_weights_alone_is_answered():
    model, step = from_config(NEXT), decode_step(from_config(NEXT), 4)
    assert isinstance(model, MoEModel) and step.kv_bytes_read == 0
    assert 2 * model.always_active_params < step.weight_bytes_read + 2 * model.ledger()["embedding"]
    assert step.weight_bytes_read < 2 * model.total_params


def test_pictures_are_left_out():
    text = {**OTHERS["qwen3-coder-480b-a35b"], "model_type": "qwen3_vl_moe_text", "num_hidden_layers": 2}
    model = from_config({"model_type": "qwen3_vl_moe", "text_config": text, "tie_word_embeddings": False})
    alone = from_config({**text, "model_type": "qwen3_moe"})
    assert "Text part only." in model.notes
    assert (model.ledger(), model.caches) == (alone.ledger(), alone.caches)


@pytest.mark.parametrize(("config", "message"), [
    ({"model_type": "unheard_of"}, "model_type must be one of dbrx.*transformers .* does not know it either"),
    ({"model_type": "qwen3_next"}, "a required key is missing, looked for hidden_size"),
    (NEXT | {"num_experts_per_tok": 9}, "num_experts_per_tok must be a whole number within 1..8, got 9"),
    (NEXT | {"hidden_size": "32"}, "hidden_size must be a whole number"),
    (NEXT | {"linear_conv_kernel_dim": "4"}, "cannot build 'qwen3_next'"),
    ({key: value for key, value in NEXT.items() if key != "num_experts"}, "looked for num_experts or"),
])
def test_what_cannot_be_counted_says_why(config, message):
    with pytest.raises(ValueError, match=message):
        from_config(config)


@pytest.mark.parametrize(("family", "message"), [
    ("jetmoe", "the weights of model.layers.0.self_attention must have 8 rows"),  # experts within attention
    ("longcat_flash", "the weights of model.layers.0.mlp must have 512 rows"),  # experts that do nothing
    ("doge", "num_experts is 16384, and DogeForCausalLM has no module called experts")])
def test_experts_that_cannot_be_told_apart_are_refused(family, message):
    with pytest.raises(ValueError, match=message):
        from_config(json.loads(transformers.AutoConfig.for_model(family).to_json_string(use_diff=False)))


def test_no_code_that_a_configuration_names_is_run():
    model = from_config(ERNIE | {"auto_map": {"AutoModelForCausalLM": "no/such--file.Model"},
                                 "attn_implementation": "no/such-kernel", "quantization_config": {"quant_method": "x"}})
    assert model.parts == from_config(ERNIE).parts
