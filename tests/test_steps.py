from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG, dense_twin
from moe_lib.records import inclusion, router_loads
from moe_lib.roofline import step_time
from moe_lib.routing import coverage, coverage_of, experts_touched, tokens_per_touched_expert
from moe_lib.steps import (
    bytes_per_weight,
    context_of_equal_bytes,
    context_of_equal_flops,
    decode_step,
    parts_read,
    prefill,
    resident_bytes,
    sequences_that_fit,
)

V3, MIXTRAL, GPT_OSS = CATALOG["deepseek-v3"], CATALOG["mixtral-8x7b"], CATALOG["gpt-oss-120b"]
FIELDS = ("experts_touched", "share_touched", "tokens_per_expert", "tokens_per_touched_expert", "weight_bytes_read",
          "kv_bytes_read", "bytes_read", "flops", "intensity")

models = st.sampled_from(list(CATALOG.values()))
every_model = pytest.mark.parametrize("model", CATALOG.values(), ids=CATALOG.keys())


def fields(step):
    return np.array([getattr(step, name) for name in FIELDS])


# one step


@every_model
def test_one_token_reads_exactly_its_active_parameters(model):
    step = decode_step(model, 1, weight_bytes=2)
    assert step.bytes_read == pytest.approx(2 * model.active_params_read, rel=1e-12)
    assert step.flops == 2 * model.active_params_read and step.intensity == pytest.approx(1)


@pytest.mark.parametrize("model", CATALOG.values(), ids=CATALOG)
def test_parts_that_one_token_reads_are_the_active_parameters(model):
    parts = parts_read(model, model.top_k / model.num_experts, 1)
    assert sum(parts.values()) == pytest.approx(model.active_params_read, rel=1e-12)
    assert (parts["embedding"] > 0) == model.tied_embeddings


@every_model
def test_a_huge_batch_reads_every_weight_but_an_untied_input_embedding(model):
    looked_up = 0 if model.tied_embeddings else model.ledger()["embedding"]
    assert decode_step(model, 1e9, weight_bytes=2).bytes_read == pytest.approx(2 * (model.total_params - looked_up))


@every_model
def test_the_intensity_of_a_dense_twin_is_its_batch_in_bf16(model):
    batch = np.array([1, 7, 64, 5000])
    assert decode_step(dense_twin(model), batch, weight_bytes=2).intensity == pytest.approx(batch)


@given(models, st.integers(1, 10**6), st.sampled_from([0.5, 1, 2]), st.integers(0, 200_000))
def test_a_step_reads_at_least_its_active_parameters_and_at_most_what_is_resident(model, batch, weight_bytes, context):
    step = decode_step(model, batch, weight_bytes=weight_bytes, context=context)
    resident = resident_bytes(model, weight_bytes=weight_bytes, context=context, sequences=batch)
    assert weight_bytes * model.active_params_read * (1 - 1e-12) <= step.weight_bytes_read
    assert step.bytes_read <= resident * (1 + 1e-12)


@given(models, st.integers(1, 10**6), st.integers(1, 100))
def test_more_tokens_never_read_less_and_never_more_a_token(model, batch, times):
    few, many = decode_step(model, batch, context=1000), decode_step(model, batch * times, context=1000)
    assert few.bytes_read * (1 - 1e-12) <= many.bytes_read <= times * few.bytes_read * (1 + 1e-12)
    assert many.flops == pytest.approx(times * few.flops)


@given(models, st.floats(0.1, 4))
def test_bytes_scale_with_the_width_of_a_weight_and_flop_do_not(model, width):
    one, scaled = decode_step(model, 64, weight_bytes=1), decode_step(model, 64, weight_bytes=width)
    assert scaled.bytes_read == pytest.approx(width * one.bytes_read) and scaled.flops == one.flops


def test_an_empty_step_touches_no_expert_and_computes_nothing():
    step = decode_step(V3, 0, weight_bytes=2, context=8192)
    assert step.flops == step.kv_bytes_read == step.experts_touched == step.intensity == 0
    assert np.isnan(step.tokens_per_touched_expert)


def test_the_slope_of_intensity_at_a_large_batch_is_active_over_total():
    last, first = decode_step(V3, 10**6, weight_bytes=2), decode_step(V3, 10**5, weight_bytes=2)
    slope = (last.intensity - first.intensity) / (last.batch - first.batch)
    assert slope == pytest.approx(V3.active_params_read / (V3.total_params - V3.ledger()["embedding"]), rel=1e-6)
    assert 1 / slope == pytest.approx(18.3, abs=0.05)


def test_a_step_holds_what_routing_says():
    step = decode_step(V3, 64)
    assert step.share_touched == coverage(256, 8, 64) and step.experts_touched == experts_touched(256, 8, 64)
    assert step.tokens_per_expert == 2 and step.tokens_per_touched_expert == tokens_per_touched_expert(256, 8, 64)


@given(st.integers(1, 10**6))
def test_taking_every_expert_reads_the_same_whatever_the_batch(batch):
    every = replace(MIXTRAL, top_k=MIXTRAL.num_experts)
    assert decode_step(every, batch).bytes_read == 2 * (every.total_params - every.ledger()["embedding"])
    assert decode_step(every, batch).intensity == pytest.approx(batch)


# number formats


@every_model
def test_no_format_given_means_as_released(model):
    released = decode_step(model, 64, weight_bytes=model.released_weight_bytes)
    assert decode_step(model, 64).bytes_read == released.bytes_read
    assert resident_bytes(model) == resident_bytes(model, weight_bytes=bytes_per_weight(model))


def test_deepseek_v3_is_released_in_fp8_and_gpt_oss_with_experts_of_4_25_bits():
    prediction_module = 11_610_067_968 + 2 * 1_853_358_080  # in fp8; its copies of embedding and head in bf16
    assert resident_bytes(V3) + prediction_module == pytest.approx(688.57e9, rel=1e-3)  # size of the files published
    assert bytes_per_weight(GPT_OSS)["routed_experts"] == 0.53125 and bytes_per_weight(GPT_OSS)["attention"] == 2


def test_every_part_may_have_its_own_format():
    mixed = {"routed_experts": 4.25 / 8, "default": 2}
    experts = V3.ledger()["routed_experts"]
    saved = (2 - 4.25 / 8) * experts
    assert resident_bytes(V3, weight_bytes=2) - resident_bytes(V3, weight_bytes=mixed) == pytest.approx(saved)
    read = [decode_step(V3, 64, weight_bytes=w).bytes_read for w in (2, mixed)]
    assert read[0] - read[1] == pytest.approx(saved * coverage(256, 8, 64))


def test_a_dict_of_every_part_needs_no_default():
    every = dict.fromkeys(V3.ledger(), 1)
    assert decode_step(V3, 64, weight_bytes=every).bytes_read == decode_step(V3, 64, weight_bytes=1).bytes_read


# caches


def test_absorbed_attention_of_deepseek_v3_costs_17_mflop_a_context_token():
    per_token = decode_step(V3, 1, context=1).flops - decode_step(V3, 1).flops
    assert per_token == 61 * 2 * 128 * (576 + 512) and per_token == pytest.approx(17.0e6, abs=0.05e6)
    assert 2 * V3.active_params_read / per_token == pytest.approx(4.3e3, abs=50)  # where it equals the weights' FLOP


def test_the_cache_of_deepseek_v3_holds_9_2_gb_at_131072_tokens_and_overtakes_the_weights_from_145_sequences():
    step = decode_step(V3, np.arange(1, 200), weight_bytes=2, context=131_072)
    assert step.kv_bytes_read[0] == pytest.approx(9.2e9, abs=0.05e9)
    assert step.batch[step.kv_bytes_read > step.weight_bytes_read][0] == 145


@every_model
def test_every_sequence_reads_a_cache_of_its_own(model):
    step = decode_step(model, [1, 10], context=5000)
    once = model.kv_bytes_read(5000) + model.state_bytes_per_sequence
    assert step.kv_bytes_read == pytest.approx([once, 10 * once])
    assert decode_step(model, 10, context=5000, kv_bytes=1).kv_bytes_read < step.kv_bytes_read[1]


@every_model
def test_no_context_leaves_the_cache_out(model):
    step = decode_step(model, 64)
    assert step.kv_bytes_read == 0 and step.bytes_read == step.weight_bytes_read
    assert step.flops == 2 * 64 * model.active_params_read


def test_windowed_layers_stop_reading_at_their_window():
    at = lambda context: decode_step(GPT_OSS, 1, context=context).kv_bytes_read  # noqa: E731
    per_token = GPT_OSS.kv_bytes_per_token()
    assert at(128) == 128 * per_token  # every layer below the window of 128 tokens
    assert at(1128) - at(128) == 1000 * per_token / 2  # beyond it the 18 full layers of 36


def test_sparse_attention_reads_fewer_tokens_than_it_holds():
    model = CATALOG["glm-5.2"]
    held = resident_bytes(model, context=131_072, sequences=1) - resident_bytes(model)
    assert decode_step(model, 1, context=131_072).kv_bytes_read < held / 10
    assert decode_step(model, 1, context=1000).kv_bytes_read == model.kv_bytes_per_sequence(1000)


# arrays


def test_scalars_give_scalars():
    assert all(np.ndim(getattr(decode_step(V3, 64, context=10), name)) == 0 for name in (*FIELDS, "batch", "top_k"))
    assert np.ndim(resident_bytes(V3, context=10, sequences=3)) == 0


def test_sixteen_models_times_a_thousand_batches_equal_single_calls():
    sixteen, batch = list(CATALOG.values())[:16], np.arange(1, 1001)
    for context in (0, 8192):
        table = fields(decode_step(sixteen, batch, context=context))
        assert table.shape == (len(FIELDS), 16, 1000)
        for i, j in [(0, 0), (2, 63), (13, 999), (15, 500)]:
            assert table[:, i, j] == pytest.approx(fields(decode_step(sixteen[i], int(batch[j]), context=context)))


def test_models_batches_and_contexts_span_a_grid():
    context = np.array([0, 100, 10_000])
    grid = decode_step([V3, GPT_OSS], [[1], [64]], context=context)
    assert grid.bytes_read.shape == grid.share_touched.shape == (2, 2, 3)
    assert grid.bytes_read[1, 0] == pytest.approx(decode_step(GPT_OSS, 1, context=context).bytes_read)
    assert decode_step([V3, GPT_OSS], 64, context=context).intensity[0] == pytest.approx(grid.intensity[0, 1])


def test_one_model_in_a_list_keeps_its_axis():
    assert decode_step([V3], 64).bytes_read.shape == (1,)
    assert decode_step([V3], [1, 2], context=[[0], [5], [9]]).flops.shape == (1, 3, 2)


# experts that differ


def test_real_router_loads_read_less_than_uniform_routing():
    layers = np.stack([inclusion(r) for r in router_loads() if r.data["model"] == "Mixtral-8x7B"])
    batch = [1, 4, 16]
    real, uniform = decode_step(MIXTRAL, batch, inclusion=layers), decode_step(MIXTRAL, batch)
    assert real.share_touched == pytest.approx(np.mean([coverage_of(layer, batch) for layer in layers], axis=0))
    assert real.bytes_read[0] == pytest.approx(uniform.bytes_read[0])
    assert (real.bytes_read < uniform.bytes_read)[1:].all()


@given(st.integers(0, 10**5))
def test_equal_inclusion_is_the_default(batch):
    equal = decode_step(V3, batch, inclusion=np.full(256, 8 / 256))
    assert equal.bytes_read == pytest.approx(decode_step(V3, batch).bytes_read)


# what must be held


@every_model
def test_every_parameter_is_resident(model):
    assert resident_bytes(model, weight_bytes=1) == model.total_params == sum(model.ledger().values())


def test_sequences_add_their_caches_and_fixed_states():
    jamba = CATALOG["jamba"]
    held = resident_bytes(jamba, context=[0, 1000], sequences=[[1], [3]]) - resident_bytes(jamba)
    one = np.array([0, 1000]) * jamba.kv_bytes_per_token() + jamba.state_bytes_per_sequence
    assert held.shape == (2, 2) and held == pytest.approx(np.stack([one, 3 * one]))


@given(models, st.integers(1, 64), st.integers(1, 200_000))
def test_the_sequences_that_fit_do_fit_and_one_more_does_not(model, num_devices, context):
    usable = num_devices * DEVICES["h200"].usable_bytes
    most = sequences_that_fit(model, usable, context=context)
    if resident_bytes(model) > usable:
        assert most == 0
    else:
        held = resident_bytes(model, context=context, sequences=np.array([most, most + 1]))
        assert held[0] <= usable * (1 + 1e-9) and held[1] > usable * (1 - 1e-9)


def test_any_number_of_sequences_fits_where_none_holds_anything():
    usable = np.array([1, 2]) * resident_bytes(MIXTRAL)
    assert sequences_that_fit(MIXTRAL, usable * 0.9).tolist() == [0, np.inf]


# arguments


@pytest.mark.parametrize("arguments, options, message", [
    ((V3, -1), {}, r"batch must be at least 0, got -1"),
    ((V3, [1, np.nan]), {}, r"batch must be at least 0, got nan"),
    ((V3, "64"), {}, r"batch must be a number or an array of numbers, got '64'"),
    ((V3, 1), {"context": -5}, r"context must be at least 0, got -5"),
    ((V3, 1), {"kv_bytes": -2}, r"kv_bytes must be at least 0, got -2"),
    ((V3, 1), {"weight_bytes": -1}, r"weight_bytes must be at least 0, got -1"),
    ((V3, 1), {"weight_bytes": [1, 2]}, r"weight_bytes must be one number, got \[1, 2\]"),
    ((V3, 1), {"weight_bytes": {"experts": 1, "default": 2}}, r"keys out of embedding, .* got the keys experts, def"),
    ((V3, 1), {"weight_bytes": {"attention": 1}}, r"weight_bytes must be .* a dict with a default .* got the keys"),
    ((V3, 1), {"inclusion": [0.5] * 16}, r"inclusion must describe 8 of 256 experts \(DeepSeek-V3\), got 8 of 16"),
    ((V3, 1), {"inclusion": [0.5] * 3}, r"sum of inclusion must be within"),
    (([], 1), {}, r"model must be a MoEModel or several, got none"),
    (("deepseek-v33", 1), {}, r"'deepseek-v33' is not a known model; did you mean deepseek-v3"),
])
def test_a_bad_step_names_argument_value_and_range(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        decode_step(*arguments, **options)


@pytest.mark.parametrize("options, message", [
    ({"context": -1}, r"context must be at least 0, got -1"),
    ({"sequences": -1}, r"sequences must be at least 0, got -1"),
    ({"kv_bytes": -1}, r"kv_bytes must be at least 0, got -1"),
    ({"weight_bytes": {"gate": 1}}, r"got the keys gate"),
])
def test_a_bad_residency_names_argument_value_and_range(options, message):
    with pytest.raises(ValueError, match=message):
        resident_bytes(V3, **options)
    with pytest.raises(ValueError, match=r"usable_bytes must be at least 0, got -1"):
        sequences_that_fit(V3, -1)


# a prompt, chunk by chunk


def test_a_prompt_of_v3_on_8_h200_reads_the_weights_once_a_chunk():
    bare = replace(V3, caches=())
    seconds = [step_time(prefill(bare, 8192, chunk=chunk, weight_bytes=1), DEVICES["h200"], "fp8", 8).lower.sum()
               for chunk in (2048, None)]
    assert np.round(1e3 * np.array(seconds), 1).tolist() == [69.8, 37.9]
    whole = prefill(V3, 8192, weight_bytes=1)
    assert step_time(whole, DEVICES["h200"], "fp8", 8).lower.sum() > seconds[1]  # attention comes on top


@every_model
def test_chunks_of_one_token_are_decode_steps(model):
    absorbed = replace(model, caches=tuple(replace(c, expansion_flops=None) for c in model.caches))
    steps, context = prefill(absorbed, 40, chunk=1, context=3000), 3000 + np.arange(40)
    one_by_one = decode_step(model, 1, context=context)
    assert np.allclose(steps.flops, one_by_one.flops) and np.allclose(steps.bytes_read, one_by_one.bytes_read)


@given(models, st.integers(1, 3000), st.integers(1, 4000), st.integers(0, 5000))
def test_chunks_add_up_to_the_prompt(model, tokens, chunk, context):
    whole, parts = (prefill(model, tokens, chunk=size, context=context) for size in (None, chunk))
    assert parts.batch.sum() == tokens and parts.flops.shape == (-(-tokens // chunk),)
    plain = sum(c.num_layers * c.pairs(context, tokens) * c.flops_per_token for c in model.caches)
    assert model.chunk_attention_flops(context, tokens) <= plain * (1 + 1e-12)
    assert parts.flops.sum() >= whole.flops.sum() * (1 - 1e-12)  # MLA expands the cache again in each
    assert parts.weight_bytes_read.sum() >= whole.weight_bytes_read.sum() * (1 - 1e-12)


def test_a_decode_step_writes_the_state_of_a_hybrid_back_and_reads_no_more():
    hybrid = CATALOG["qwen3.6-35b-a3b"]
    step = decode_step(hybrid, 256, weight_bytes=1, context=4096)
    state = 256 * hybrid.state_bytes_per_sequence
    assert step.state_bytes_written == state == step.kv_bytes_read - 256 * hybrid.kv_bytes_read(4096)
    assert step.bytes_moved / step.bytes_read == pytest.approx(1.23, abs=0.005)


@given(models, st.integers(0, 9), st.integers(0, 9))
def test_a_step_without_context_or_without_state_writes_none(model, batch, context):
    written = decode_step(model, batch, context=context).state_bytes_written
    assert written == (batch * model.state_bytes_per_sequence if context else 0)


def test_a_chunk_writes_its_cache_in_the_format_of_the_cache_and_its_state():
    hybrid = CATALOG["qwen3.6-35b-a3b"]
    step = prefill(hybrid, 300, chunk=100, kv_bytes=1)
    assert step.kv_bytes_written.tolist() == [100 * hybrid.kv_bytes_per_token(1)] * 3
    assert step.state_bytes_written.tolist() == [hybrid.state_bytes_per_sequence] * 3


def test_the_format_of_a_cache_changes_what_chunks_read_of_it_and_where_it_weighs_as_much_as_the_weights():
    whole, half = (prefill(V3, 300, chunk=100, kv_bytes=size).kv_bytes_read for size in (2, 1))
    assert half.tolist() == (whole / 2).tolist() and whole[-1] == 200 * V3.kv_bytes_per_token()
    whole, half = (context_of_equal_bytes(V3, 64, kv_bytes=size) for size in (2, 1))
    assert half == pytest.approx(2 * whole)


def test_a_chunk_of_skewed_tokens_reads_fewer_experts():
    layer = inclusion(router_loads()[0])
    step = prefill(MIXTRAL, 12, chunk=4, inclusion=layer)
    assert step.share_touched.tolist() == [coverage_of(layer, 4)] * 3 and coverage_of(layer, 4) < coverage(8, 2, 4)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 200))
def test_scored_pairs_are_those_counted_one_by_one(start, tokens, most):
    cache = V3.caches[0]
    for capped in (cache, replace(cache, window=most), replace(cache, selected=most)):
        seen = sum(int(capped.tokens_read(i)) for i in range(start, start + tokens))
        assert capped.pairs(start, tokens) == seen


def test_mla_expands_keys_and_values_from_some_170_tokens_a_chunk():
    absorbed = replace(V3, caches=(replace(V3.caches[0], expansion_flops=None),))
    size = np.arange(100, 250)
    ratio = V3.chunk_attention_flops(10**7, size) / absorbed.chunk_attention_flops(10**7, size)
    assert size[ratio < 1].min() == 171  # 2 x 512 x 128 x 256 / (278,528 - 81,920) = 170.7
    assert V3.chunk_attention_flops(0, 8192) == pytest.approx(61 * 8192**2 / 2 * 2 * 128 * (192 + 128), rel=1e-3)


def test_only_the_last_token_of_a_chunk_needs_the_head():
    every, last = (prefill(V3, 8192, chunk=2048, all_logits=choice) for choice in (True, False))
    assert (every.flops - last.flops).tolist() == [2 * V3.ledger()["head"] * 2047] * 4
    tied = CATALOG["gemma-4-26b-a4b"]
    saved = prefill(tied, 100).flops - prefill(tied, 100, all_logits=False).flops
    assert saved.tolist() == [2 * tied.ledger()["embedding"] * 99]


def test_prompts_together_share_the_weights_and_not_the_caches():
    one, four = prefill(V3, 4096, chunk=1024), prefill(V3, 4096, chunk=1024, sequences=4)
    assert np.allclose(four.flops, 4 * one.flops) and np.allclose(four.kv_bytes_read, 4 * one.kv_bytes_read)
    assert np.allclose(four.kv_bytes_written, 4 * 1024 * V3.kv_bytes_per_token())
    assert (four.weight_bytes_read < 1.01 * one.weight_bytes_read).all()


def test_a_chunk_moves_what_it_reads_and_what_it_writes():
    step = prefill(V3, 4096, chunk=1024, weight_bytes=1)
    moved = step.weight_bytes_read + step.kv_bytes_read + 1024 * V3.kv_bytes_per_token()
    seconds = step_time(step, DEVICES["h200"], "fp8", 8).lower  # all four wait for bytes
    assert step.bytes_moved.tolist() == moved.tolist() and seconds == pytest.approx(moved / (8 * 4.8e12))


def test_a_window_keeps_what_a_chunk_reads_and_writes_small():
    step = prefill(GPT_OSS, 4096, chunk=1024, context=10_000)
    full = 18 * 2048  # bytes a token of the 18 layers without a window
    assert step.kv_bytes_written.tolist() == [full * 1024 + 128 * full] * 4
    assert step.kv_bytes_read.tolist() == [full * (10_000 + 1024 * i) + 128 * full for i in range(4)]


@pytest.mark.parametrize("question", [context_of_equal_flops, bytes_per_weight, resident_bytes])
def test_what_is_no_model_is_named(question):
    with pytest.raises(ValueError, match="model must be a MoEModel or the name of one, got 671"):
        question(671)


@pytest.mark.parametrize(("name", "value"), [("tokens", 0), ("chunk", 0), ("sequences", 1.5), ("context", -1)])
def test_a_bad_prompt_is_named(name, value):
    with pytest.raises(ValueError, match=name):
        prefill(V3, **{"tokens": 10, name: value})


def test_no_sequence_has_no_equal_context():
    with pytest.raises(ValueError, match="batch must be at least 1, got 0"):
        context_of_equal_bytes(V3, 0)


# where the context weighs as much as the weights


def test_v3_attention_equals_its_weights_flop_at_about_4300_tokens_and_9_gb_of_cache_at_128k():
    assert context_of_equal_flops(V3) == pytest.approx(4311.38, abs=0.01)
    assert V3.kv_bytes_read(131072) / 1e9 == pytest.approx(9.21, abs=5e-3)
    many = np.arange(1, 400)
    first = many[context_of_equal_bytes(V3, many, weight_bytes=2) <= 131072].min()
    assert first == 145  # sequences of full length


@given(models, st.integers(1, 5000))
def test_at_the_equal_context_cache_and_weights_take_the_same_bytes(model, batch):
    context = context_of_equal_bytes(model, batch, weight_bytes=1)
    step = decode_step(model, batch, weight_bytes=1, context=np.nan_to_num(context, posinf=1))
    if context == 0:
        assert batch * model.state_bytes_per_sequence >= step.weight_bytes_read
    elif np.isfinite(context):
        assert step.kv_bytes_read == pytest.approx(step.weight_bytes_read)
    else:
        assert model.kv_bytes_per_token(beyond_windows=True) == 0


@every_model
def test_at_the_equal_context_attention_and_weights_take_the_same_flop(model):
    assert model.attention_flops(context_of_equal_flops(model)) == pytest.approx(2 * model.active_params_read)


def test_a_window_of_last_tokens_is_no_state_to_write_back():
    v4, qwen = CATALOG["deepseek-v4-flash"], CATALOG["qwen3.6-35b-a3b"]
    window, recurrent = (decode_step(model, 64, context=8192) for model in (v4, qwen))
    assert window.state_bytes_written == 0 < recurrent.state_bytes_written
    assert window.kv_bytes_read == 64 * (v4.kv_bytes_read(8192) + v4.state_bytes_per_sequence)


def test_sizes_beyond_64_bits_are_no_smaller_for_it():
    for ones, others in ((10**9, 10**6), (1e9, 1e6)), ((2**62, 2**40), (2.0**62, 2.0**40)):
        for question in (lambda a, b: resident_bytes(V3, context=a, sequences=b),
                         lambda a, b: decode_step(V3, b, context=a).bytes_read):
            assert question(*ones) == question(*others) > 0


@pytest.mark.parametrize("model", [None, 5, True, [None], b"deepseek-v3"])
def test_what_is_no_model_is_refused_by_a_step_in_a_sentence(model):
    with pytest.raises(ValueError, match="model must be a MoEModel or the name of one, got"):
        decode_step(model, 1)
