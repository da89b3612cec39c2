"""Counts against the real model classes and published integers, and every way a configuration can be wrong."""

import csv
import json
import random
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lib.models import CATALOG, PARTS, MoEModel, dense_twin, from_config, from_counts

HERE = Path(__file__).parent
CONFIGS = HERE.parent / "moe_lib" / "data" / "configs"
COUNTED = {row["name"]: row for row in map(json.loads, (HERE / "data" / "counts.jsonl").read_text().splitlines())}
V3, MIXTRAL, GPT_OSS = CATALOG["deepseek-v3"], CATALOG["mixtral-8x7b"], CATALOG["gpt-oss-120b"]
LLAMA = {"model_type": "llama", "vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 16}
every_model = pytest.mark.parametrize("model", CATALOG.values(), ids=CATALOG.keys())


def rows(name):
    with open(HERE / "data" / name, newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


PUBLISHED, PARTS_2026 = rows("models.csv") | rows("models_2026.csv"), rows("parts_2026.csv")


def config_of(slug):
    return json.loads((CONFIGS / f"{slug}.json").read_text())


# counts


@pytest.mark.parametrize("name", COUNTED)
def test_every_part_agrees_with_the_real_class(name):
    row = COUNTED[name]
    model = from_config(row["config"]) if "config" in row else CATALOG[name]
    assert model.ledger() == dict.fromkeys(PARTS, 0) | row["parts"]
    assert model.total_params == row["total_params"]


@pytest.mark.parametrize(("field", "column"), [
    ("total_params", "total_params"), ("active_params", "active_params_with_input_embedding"),
    ("active_params_read", "active_params_without_input_embedding"), ("always_active_params", "always_active_params"),
    ("expert_params", "routed_expert_params_one_layer"), ("num_layers", "num_layers"),
    ("expert_params_all_layers", "routed_expert_params_all_layers"), ("num_moe_layers", "num_moe_layers"),
    ("num_experts", "num_routed_experts"),
    ("top_k", "top_k"), ("num_shared_experts", "num_shared_experts"), ("d_model", "hidden_size"),
    ("d_expert", "expert_intermediate_size"), ("tied_embeddings", "tied_embeddings"),
])
def test_every_published_figure_is_met_to_the_last_digit(field, column):
    for slug, row in PUBLISHED.items():
        assert getattr(CATALOG[slug], field) == int(row[column]), slug


@pytest.mark.parametrize("slug", PUBLISHED)
def test_cache_per_token_is_as_counted(slug):
    assert CATALOG[slug].kv_bytes_per_token() == int(PUBLISHED[slug]["kv_bytes_per_token_bf16"])


@pytest.mark.parametrize("slug", PARTS_2026)
def test_the_releases_of_2026_keep_their_parts(slug):
    row, ledger = {key: int(v) for key, v in PARTS_2026[slug].items() if v.isdigit()}, CATALOG[slug].ledger()
    assert ledger["attention"] == sum(
        row[key] for key in ("attention", "linear_attention_or_mamba", "sparse_attention_indexer"))
    assert ledger["other"] == row["latent_projections"] + row["hyper_connections"]
    assert all(ledger[part] == row[part] for part in PARTS if part not in ("attention", "other"))


@pytest.mark.parametrize("slug", PARTS_2026)
def test_the_releases_of_2026_keep_their_caches(slug):
    row, model = {key: int(v) for key, v in PARTS_2026[slug].items() if v.isdigit()}, CATALOG[slug]
    beyond = model.kv_bytes_per_sequence(100_001) - model.kv_bytes_per_sequence(100_000)
    assert beyond - row["index_bytes_per_token_bf16"] == row["kv_bytes_per_token_beyond_windows_bf16"]
    assert model.state_bytes_per_sequence == row["state_bytes_per_sequence"]


def test_dense_models_have_their_published_size():
    sizes = {"llama-3.1-8b": 8_030_261_248, "llama-3.1-70b": 70_553_706_496, "llama-3.1-405b": 405_853_388_800,
             "qwen3-32b": 32_762_123_264}
    assert {slug: CATALOG[slug].total_params for slug in sizes} == sizes
    assert all(CATALOG[slug].active_params == size for slug, size in sizes.items())


def test_the_v3_release_takes_688_57_gigabytes_on_disk_with_its_extra_module():
    width, module, duplicates, bf16_projection = V3.released_weight_bytes, 11_610_067_968, 1_853_358_080, 2 * 7168**2
    main = sum(count * width.get(part, width["default"]) for part, count in V3.parts)
    extra = module * width["attention"] + bf16_projection + 2 * duplicates  # projection and duplicates are bf16
    assert main + extra == pytest.approx(688.57e9, rel=1e-4)


def test_gpt_oss_fits_the_80_gigabytes_it_was_made_for():
    width = GPT_OSS.released_weight_bytes
    assert sum(n * width.get(part, width["default"]) for part, n in GPT_OSS.parts) == pytest.approx(65.2e9, rel=2e-3)


@every_model
def test_active_grows_from_shared_to_total_with_top_k(model):
    assert sum(model.ledger().values()) == model.total_params
    assert model.always_active_params + model.num_experts * model.expert_params_all_layers == model.total_params
    assert model.expert_params * model.num_moe_layers == model.expert_params_all_layers
    assert model.active_params_read <= model.active_params <= model.total_params


@every_model
def test_the_dense_twin_is_as_large_as_what_one_token_uses(model):
    twin = dense_twin(model)
    assert twin.total_params == twin.active_params == model.active_params
    assert (twin.num_experts, twin.top_k) == (1, 1)
    assert twin.caches == model.caches


# caches


@every_model
def test_reads_never_exceed_what_is_held(model):
    context = np.array([0, 1, 100, 5_000, 200_000])
    held, read = model.kv_bytes_per_sequence(context), model.kv_bytes_read(context)
    assert np.all(read <= held) and np.all(np.diff(held) > 0) and held[0] == 0
    assert np.all(np.diff(model.attention_flops(context)) > 0)
    assert np.array_equal(model.kv_bytes_per_sequence(context, 1), held / 2)


@every_model
def test_the_cache_per_token_is_exact_below_the_first_window(model):
    index = sum(2 * cache.num_layers * cache.values_per_token for cache in model.caches if cache.index)
    grown = model.kv_bytes_per_sequence(100_000)
    assert (grown < 100_000 * (model.kv_bytes_per_token() + index)) == model.kv_is_upper_bound
    assert model.kv_bytes_per_sequence(100) == 100 * (model.kv_bytes_per_token() + index)


def test_v3_attention_costs_17_megaflop_per_cached_token():
    assert V3.attention_flops(1000) == 1000 * 61 * 2 * 128 * (576 + 512)


def test_hybrids_keep_a_fixed_state():
    mamba, lightning = 28 * 8192 * (16 * 4 + 3 * 2), 70 * 64 * 128 * 128 * 4  # fp32, and a bf16 convolution
    assert CATALOG["jamba"].state_bytes_per_sequence == mamba
    assert CATALOG["minimax-text-01"].state_bytes_per_sequence == lightning
    assert MIXTRAL.state_bytes_per_sequence == 0


def test_half_of_gpt_oss_stops_caching_at_128_tokens():
    assert GPT_OSS.kv_is_upper_bound
    assert GPT_OSS.kv_bytes_per_sequence(10_128) == 73_728 * 128 + 36_864 * 10_000


def test_chunked_layers_and_window_keys_follow_the_configuration():
    llama4 = config_of("llama-4-scout")
    llama4["text_config"] |= {"attention_chunk_size": None}
    assert not from_config(llama4).kv_is_upper_bound
    assert from_config(config_of("mixtral-8x7b") | {"sliding_window": 4096}).caches[0].window == 4096
    qwen = config_of("qwen3-32b") | {"use_sliding_window": True, "sliding_window": 512, "max_window_layers": 60}
    assert [(cache.num_layers, cache.window) for cache in from_config(qwen).caches] == [(60, None), (4, 512)]


@pytest.mark.parametrize(("slug", "scores"), [
    ("deepseek-v4-flash", 86_016), ("glm-5.2", 172_032), ("minimax-m3", 58_368)])
def test_indexers_score_every_cached_token(slug, scores):
    index = [cache for cache in CATALOG[slug].caches if cache.index]
    assert sum(cache.num_layers * cache.flops_per_token for cache in index) == scores
    assert all(cache.selected is None for cache in index)


def test_group_limits_are_read():
    assert (V3.group_limit, CATALOG["deepseek-v2"].group_limit) == ((8, 4), (8, 3))
    assert from_config(COUNTED["bare-deepseek_v3"]["config"]).group_limit == (8, 4)
    assert from_config(COUNTED["deepseek-v2-lite"]["config"]).group_limit is None
    assert from_config(COUNTED["kimi-k2"]["config"]).group_limit is None


# number formats


@pytest.mark.parametrize(("method", "bits", "group", "size"), [
    ("awq", 4, 128, (4 + 20 / 128) / 8), ("gptq", 8, 32, (8 + 24 / 32) / 8), ("gptq", 4, -1, 0.5)])
def test_groups_of_weights_bring_a_scale_and_a_zero_point(method, bits, group, size):
    quantized = {"quantization_config": {"quant_method": method, "bits": bits, "group_size": group}}
    model = from_config(config_of("mixtral-8x7b") | quantized)
    assert model.parts == MIXTRAL.parts and method in model.released_precision
    assert model.released_weight_bytes == dict.fromkeys(
        ("attention", "dense_ffn", "shared_experts", "routed_experts"), size) | {"default": 2}


@pytest.mark.parametrize("quantized", [
    {"quant_method": "compressed-tensors", "config_groups": {}}, {"quant_method": "modelopt", "quant_algo": "NVFP4"},
    {"quant_method": "awq"}, {"quant_method": ["fp8"]}, {}])
def test_a_format_that_is_not_read_is_counted_and_says_so(quantized):
    model = from_config(config_of("deepseek-v3") | {"quantization_config": quantized})
    assert model.parts == V3.parts and model.released_weight_bytes == 2
    assert "is not read: pass weight_bytes" in model.released_precision


# the plate


def test_four_counts_give_the_model_of_the_plate():
    plate = from_counts("DeepSeek-V3", 671e9, 37e9, 256, 8)
    assert (plate.total_params, plate.active_params, plate.active_params_read) == (671e9, 37e9, 37e9)
    assert plate.expert_params == pytest.approx(634e9 / 248, rel=1e-11)
    assert plate.always_active_params == pytest.approx(16.548e9, rel=1e-4)
    assert plate.kv_bytes_per_token() == plate.kv_bytes_per_sequence(1000) == 0


@given(st.data(), st.integers(2, 1000), st.integers(10**6, 10**13))
def test_four_counts_come_back_exactly(data, num_experts, total):
    top_k = data.draw(st.integers(1, num_experts - 1))
    active = data.draw(st.integers(-(-total * top_k // num_experts), total))
    model = from_counts("any", total, active, num_experts, top_k)
    assert (model.total_params, model.active_params, dense_twin(model).total_params) == (total, active, active)
    assert min(model.ledger().values()) >= 0


@pytest.mark.parametrize(("counts", "name"), [
    ((100, 200, 8, 2), "active_params"), ((100, 20, 8, 2), "active_params"), ((100, 50, 8, 8), "top_k"),
    ((100, 50, 8, 0), "top_k"), ((100, 50, 1, 1), "num_experts"), ((0, 50, 8, 2), "total_params"),
    ((float("nan"), 50, 8, 2), "total_params"), ((100.5, 50, 8, 2), "total_params"),
    ((100, 50, True, 2), "num_experts"), (("100", 50, 8, 2), "total_params"), (([100, 200], 50, 8, 2), "total_params"),
])
def test_contradicting_counts_are_named(counts, name):
    with pytest.raises(ValueError, match=name):
        from_counts("any", *counts)


# reading


def test_a_path_a_folder_text_and_a_dict_give_the_same_counts(tmp_path):
    (tmp_path / "tiny-model").mkdir()
    path = tmp_path / "tiny-model" / "config.json"
    path.write_text(json.dumps(LLAMA))
    found = [from_config(source) for source in (path, str(path), path.parent, json.dumps(LLAMA), LLAMA)]
    assert {model.parts for model in found} == {found[0].parts}
    assert [model.name for model in found] == ["tiny-model"] * 3 + ["llama"] * 2


def test_family_overrides_the_model_type_of_the_file():
    config = config_of("deepseek-v3")
    assert from_config(config | {"model_type": "unheard_of"}, family="kimi_k2").parts == V3.parts
    assert from_config({"text_config": config}, family="deepseek_v3").parts == V3.parts
    with pytest.raises(ValueError, match="family must be one of dbrx, .*'deepseek'"):
        from_config(config, family="deepseek")


def test_minimax_reads_the_spelling_of_its_first_release():
    config = config_of("minimax-text-01")
    kinds = [int(kind == "full_attention") for kind in config.pop("layer_types")]
    first = from_config(config | {"model_type": "minimax_text_01", "attn_type_list": kinds})
    assert (first.parts, first.caches) == (CATALOG["minimax-text-01"].parts, CATALOG["minimax-text-01"].caches)
    with pytest.raises(ValueError, match="attn_type_list must be a list of 0 .linear. and 1 .full."):
        from_config(config | {"attn_type_list": [2]})


@pytest.mark.parametrize("model_type", ["unheard_of", "deepseek_v9", None, 7, ["llama"]])
def test_an_unknown_family_lists_the_known_ones(model_type):
    with pytest.raises(ValueError, match="model_type must be one of dbrx, .*qwen3_moe .family= chooses one., got"):
        from_config(LLAMA | {"model_type": model_type})


@pytest.mark.skipif(bool(find_spec("torch") and find_spec("transformers")), reason="the extra hf is installed")
def test_without_the_extra_an_unknown_family_names_it():
    with pytest.raises(ValueError, match="got 'qwen3_next'; the extra hf counts others: pip install -e '..hf.'"):
        from_config(LLAMA | {"model_type": "qwen3_next"})


def test_a_cache_that_is_not_known_is_never_shown_as_none():
    unknown = replace(MIXTRAL, caches=None)
    assert unknown.cache_kind == "unknown" and dense_twin(unknown).caches is None
    for ask in (unknown.kv_bytes_per_token, lambda: unknown.kv_bytes_per_sequence([0, 1]),
                lambda: unknown.attention_flops(1), lambda: unknown.chunk_attention_flops(0, 4)):
        with pytest.raises(ValueError, match="Mixtral.* caches of a sequence is not known"):
            ask()


@pytest.mark.parametrize(("text", "message"), [
    ('{"a": 1,\n "b": }', "line 2"), ("[1, 2]", "JSON object"), ('{"model_type": "llama"}', "hidden_size or d_model"),
    ("{" * 100_000, "JSON"), ('{"n": ' + "1" * 5000 + "}", "JSON"), ("", "JSON"),
])
def test_a_broken_file_names_its_path_and_place(tmp_path, text, message):
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"broken.json.*{message}"):
        from_config(path)


@pytest.mark.parametrize("config", ["no/such/file.json", "\0", 7, None, b"{}", ["a"]])
def test_what_is_no_configuration_is_refused(config):
    with pytest.raises(ValueError, match="config must be"):
        from_config(config)


@pytest.mark.parametrize("value", [0, -1, "8", 8.0, float("nan"), True, [8], {}, 10**400])
@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size", "intermediate_size", "head_dim"])
def test_a_nonsense_size_names_its_key(key, value):
    with pytest.raises(ValueError, match=f"{key} must be a whole number within 1"):
        from_config(LLAMA | {key: value})


@pytest.mark.parametrize(("slug", "change", "message"), [
    ("mixtral-8x7b", {"num_experts_per_tok": 9}, "num_experts_per_tok must be .* 1..8, got 9"),
    ("mixtral-8x7b", {"num_key_value_heads": 5}, "num_key_value_heads must be a divisor of num_attention_heads = 32"),
    ("mixtral-8x7b", {"num_local_experts": None}, "looked for num_experts or n_routed_experts or num_local_experts"),
    ("mixtral-8x7b", {"num_attention_heads": 24}, "hidden_size must be a multiple of num_attention_heads"),
    ("deepseek-v3", {"n_group": 7}, "n_group must be a divisor"), ("deepseek-v3", {"topk_group": 9}, "topk_group"),
    ("deepseek-v3", {"n_group": 256}, "topk_group must be enough for 8 experts"),
    ("mixtral-8x7b", {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": "8"}}, "group_size"),
    ("deepseek-v3", {"quantization_config": 8}, "quantization_config must be an object"),
    ("deepseek-v3", {"quantization_config": None, "torch_dtype": "int3"}, "torch_dtype must be bfloat16"),
    ("gpt-oss-120b", {"layer_types": ["full_attention"]}, "layer_types must be one entry for each of 36 layers"),
    ("gpt-oss-120b", {"sliding_window": None}, "sliding_window must be a whole number"),
    ("qwen3-30b-a3b", {"mlp_only_layers": [1.5]}, "mlp_only_layers must be a list of whole numbers"),
    ("qwen3-30b-a3b", {"tie_word_embeddings": "no"}, "tie_word_embeddings must be true or false"),
    ("jamba", {"attn_layer_offset": 8}, "attn_layer_offset must be below attn_layer_period = 8"),
    ("dbrx", {"ffn_config": {"ffn_hidden_size": 8}}, "ffn_config: a required key .* moe_num_experts"),
    ("olmoe", {"head_dim": 64}, "head_dim must be hidden_size / num_attention_heads = 128"),
])
def test_a_contradiction_names_its_key(slug, change, message):
    with pytest.raises(ValueError, match=message):
        from_config(config_of(slug) | change)


JUNK = st.one_of(st.none(), st.booleans(), st.integers(-3, 300), st.integers(), st.floats(), st.text(max_size=3),
                 st.lists(st.integers(-1, 5), max_size=3), st.just({}), st.just([{}]))


@given(st.sampled_from([name for name, row in COUNTED.items() if "config" in row]), st.integers(0, 2**32), JUNK, JUNK)
@settings(max_examples=400)
def test_a_changed_configuration_is_counted_or_refused(name, seed, first, second):
    config = json.loads(json.dumps(COUNTED[name]["config"]))
    text, draw = config.get("text_config", config), random.Random(seed)
    text[draw.choice(list(text))] = first
    draw.choice([text, config])[draw.choice([*text, "head_dim", "quantization_config", "layer_types"])] = second
    try:
        model = from_config(config)
    except ValueError as error:
        assert str(error).startswith("config: ")
    else:
        assert_sound(model)


def assert_sound(model):
    assert isinstance(model, MoEModel)
    assert sum(model.ledger().values()) == model.total_params > 0
    assert all(type(count) is int and count >= 0 for count in model.ledger().values())
    assert model.active_params_read <= model.active_params <= model.total_params
    assert 1 <= model.top_k <= model.num_experts
