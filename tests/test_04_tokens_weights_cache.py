"""What page 04 rests on: where the cache outweighs the weights, chunks, measurements by others, controls, figures."""


import numpy as np
import pytest
from drawing import MIXTRAL, both_versions, faces, page_says, paths, rows_with_own_model
from hypothesis import given
from hypothesis import strategies as st

from moe_lib import figures, records
from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG, dense_twin
from moe_lib.roofline import compute_bound_batch, step_time
from moe_lib.steps import (
    context_of_equal_bytes,
    context_of_equal_flops,
    decode_step,
    prefill,
    resident_bytes,
)

V3, QWEN, H200 = CATALOG["deepseek-v3"], CATALOG["qwen3-30b-a3b"], DEVICES["h200"]


# Cache against weights


@given(st.integers(1, 4096), st.sampled_from(["deepseek-v3", "mixtral-8x7b", "olmoe", "qwen3-235b-a22b"]))
def test_a_mixture_s_point_falls_more_slowly_than_its_dense_twin_s(batch, slug):
    model = CATALOG[slug]
    moe, dense = (context_of_equal_bytes(of, [1, batch], weight_bytes=2) for of in (model, dense_twin(model)))
    assert moe[0] == pytest.approx(dense[0]) and moe[1] >= dense[1] * (1 - 1e-12)
    assert dense[0] / dense[1] == pytest.approx(batch)


@pytest.mark.parametrize("slug", ["deepseek-v3", "mixtral-8x7b", "qwen3-235b-a22b", "olmoe"])
def test_for_one_sequence_the_two_points_lie_a_cache_s_intensity_apart(slug):
    model = CATALOG[slug]
    apart = context_of_equal_bytes(model, 1, weight_bytes=2) / context_of_equal_flops(model)
    assert apart == pytest.approx(model.attention_flops(1000) / model.kv_bytes_read(1000))


def test_at_128k_the_cache_of_v3_leads_from_145_sequences():
    step = decode_step(V3, [144, 145], weight_bytes=2, context=131072)
    assert (step.kv_bytes_read > step.weight_bytes_read).tolist() == [False, True]


# Prompts


def test_a_chunk_is_compute_bound_where_a_decode_step_of_as_many_tokens_is():
    knee = compute_bound_batch(V3, H200, "fp8", weight_bytes=1)
    work = [prefill(V3, round(knee * part), weight_bytes=1) for part in (0.9, 1.1)]
    flops = [step.flops[0] - V3.chunk_attention_flops(0, step.batch[0]) for step in work]
    ridge = H200.peak("fp8") / H200.bandwidth_bytes_per_s
    assert flops[0] / work[0].bytes_read[0] < ridge < flops[1] / work[1].bytes_read[0]


# Questions from practice


def test_a_model_of_3b_active_parameters_must_hold_all_of_them():
    assert round(resident_bytes(V3, weight_bytes=0.58) / 1e9) == 389 and round(0.58 * V3.active_params / 1e9) == 22
    assert 17e9 <= resident_bytes(QWEN, weight_bytes=4.5 / 8) <= 20e9
    assert round(decode_step(QWEN, 1, weight_bytes=4.5 / 8).bytes_read / 1e9, 2) == 1.71


def test_a_stream_is_bounded_by_its_active_bytes_and_not_by_its_total():
    model, card, measured = CATALOG["qwen3.6-35b-a3b"], 512e9, 77.6
    token = decode_step(model, 1, weight_bytes=13e9 / model.total_params).bytes_read
    assert card / 13e9 < measured < card / token and round(measured * token / card, 2) == 0.17


# Measurements by others


def test_a_step_slows_down_as_its_bytes_grow_and_no_bound_is_beaten():
    for run in (record.data for record in records.shipped("decode_by_context")):
        step = decode_step(CATALOG[run["model"]], 1, weight_bytes=run["weight_bytes"], context=run["context"])
        took = 1 / np.array(run["decode_tokens_per_s"])
        assert (took > step.bytes_read / 273e9).all()  # GB10's bandwidth, as published
        predicted = step.bytes_read / step.bytes_read[0]
        assert np.abs(took / took[0] / predicted - 1).max() < 0.07  # gpt-oss-120b; Qwen3 1.3 %


def test_prompts_in_chunks_take_longer_than_their_bound():
    runs = [record.data for record in records.shipped("prefill_speed")]
    qwen, r1, served = runs
    for size, speed in zip(qwen["chunk"], qwen["tokens_per_s"], strict=True):
        step = prefill(QWEN, qwen["prompt"], chunk=size, weight_bytes=qwen["weight_bytes"])
        assert qwen["prompt"] / speed > step_time(step, DEVICES[qwen["device"]]).lower.sum()
    chunk = np.array(r1["chunk"]) / np.array(r1["tokens_per_s"])
    assert (chunk > r1["file_bytes"] / DEVICES[r1["device"]].bandwidth_bytes_per_s).all()
    for prompt, speed in zip(served["prompt"], served["tokens_per_s"], strict=True):
        flops = prefill(V3, prompt, weight_bytes=1, all_logits=False).flops[0] / prompt
        assert speed < 8 * DEVICES[served["device"]].peak("fp8") / flops


def test_logged_caches_are_what_a_token_takes_to_the_digits_logged():
    for log in (record.data for record in records.shipped("cache_logs")[:3]):
        per_token = CATALOG[log["model"]].kv_bytes_per_token(log["kv_bytes"]) / log["split"]
        assert log["pool_bytes"] / log["tokens"] == pytest.approx(per_token, rel=6e-4)  # pools have three digits


def test_what_vllm_left_for_the_cache_adds_up():
    log = records.shipped("cache_logs")[3].data
    spent = log["weights_bytes"] + log["activation_bytes"] + log["other_bytes"] + log["cache_bytes"]
    assert spent == pytest.approx(log["share"] * log["visible_bytes"], abs=0.02 * 2**30)  # two decimals each


@pytest.mark.parametrize("name", ["decode_by_context", "prefill_speed", "cache_logs"])
def test_every_measurement_says_whose_it_is(name):
    for record in records.shipped(name):
        assert record.kind == "third_party" and record.source.startswith("https://") and record.by
        assert record.when or "commit" in record.source


# The controls


@pytest.fixture
def context():
    return faces("context")[0]


@pytest.fixture
def chunks():
    return faces("chunks")[0]


def test_the_context_control_draws_what_decode_step_reads():
    page = faces("context")[1]["datasets"]
    for row in page["share"][::31]:
        weights = {"weight_bytes": figures._choices.WEIGHT_BYTES[row["precision"]]}
        step = decode_step(CATALOG[row["model"]], row["batch"], context=np.array(row["context"]), **weights)
        assert row["share"] == pytest.approx(step.kv_bytes_read / step.bytes_read, abs=1e-4)
    for row in page["equal"][::17]:
        weights = {"weight_bytes": figures._choices.WEIGHT_BYTES[row["precision"]]}
        step = decode_step(CATALOG[row["model"]], row["batch"], context=row["context"], **weights)
        assert step.kv_bytes_read == pytest.approx(step.weight_bytes_read, rel=1e-3)


def test_the_context_control_knows_the_worked_example(context):
    said = context.readout(model="deepseek-v3", precision="bf16", batch=64, context=131072)
    assert said["As many bytes from"] == "259,875 tokens" and said["As many FLOP from"] == "4,311 tokens"
    states = context.readout(model="qwen3.6-35b-a3b", precision="fp8", batch=1024, context=1024)
    assert states["As many bytes from"] == "any context"


def test_the_chunk_control_draws_what_prefill_bounds():
    for row in faces("chunks")[1]["datasets"]["curve"][::17]:
        for chunk, ttft, pause in list(zip(row["chunk"], row["ttft"], row["pause"], strict=True))[::4]:
            step = prefill(CATALOG[row["model"]], row["prompt"], chunk=min(chunk, row["prompt"]), weight_bytes=1,
                           all_logits=False)
            seconds = step_time(step, DEVICES[row["setup"]], "fp8", 8).lower
            assert [ttft, pause] == pytest.approx([1e3 * seconds.sum(), 1e3 * seconds.max()], rel=1e-4)


def test_the_readouts_say_what_was_counted_by_hand(context, chunks):
    said = chunks.readout(model="deepseek-v3", setup="h200", prompt=8192, chunk=512)  # 16 x 670.1 GB; 512 x 120 tokens
    assert [said["Read in all"], said["First token, dense twin"]] == ["10,722 GB, cache 4.32 GB", "55.5 ms"]
    said = context.readout(model="deepseek-v3", precision="bf16", batch=64, context=131072)
    assert said["Cache read"] == "589 GB" and said["Takes at least"] == "24.4 ms on 15 H200"


def test_the_longest_pause_is_that_of_the_last_chunk_of_a_long_prompt(chunks):
    said = chunks.readout(model="deepseek-v3", setup="h200", prompt=131072, chunk=512)
    step = prefill(V3, 512, context=131072 - 512, weight_bytes=1, all_logits=False)
    assert said["Longest pause"] == f"{1e3 * step_time(step, H200, 'fp8', 8).lower[0]:.1f} ms" == "40.3 ms"


@pytest.mark.parametrize("name", ["context", "chunks"])
def test_both_faces_say_and_draw_the_same(name):
    control, page = faces(name)
    chosen = {c.name: list(c.options.values())[1] for c in control.choices}
    assert page_says(page, **chosen) == control.readout(**chosen)
    for data, rows in control.live_spec(**chosen)["datasets"].items():
        keys = set(rows[0]) & {c.name for c in control.choices} - {"context", "chunk"}
        assert rows == [row for row in page["datasets"][data] if all(row[key] == chosen[key] for key in keys)]


@pytest.mark.parametrize("make", [figures.context, figures.chunks])
def test_a_reader_s_model_stands_first_and_the_page_stays_within_its_rows(make):
    assert rows_with_own_model(make(MIXTRAL)) <= 5000


@both_versions
@pytest.mark.parametrize("name", ["context", "chunks"])
def test_the_controls_are_valid_in_both_versions_of_vega_lite(name, version, caplog):
    control, page = faces(name)
    odd = {c.name: {"context": 100_000, "chunk": 777, "batch": 3}.get(c.name, c.start) for c in control.choices}
    for spec in (page, control.live_spec(**odd)):
        assert paths(spec, version, caplog) > 10


# The figures


def _figures():
    batch, context = np.array([1, 16, 256]), [0, 4096, 32768]
    ratios = {"one": np.array([1, 1.1, 1.9]), "two": np.array([1, 1.05, 1.3])}
    chunk = np.array([1, 8, 64])
    return {
        "equal_context": figures.equal_context(batch, {"one": 1e6 / batch}, {"two": 1e5 / batch, "twin": 1e4 / batch},
                                              131072, "131,072 tokens"),
        "slowdown": figures.slowdown(context, ratios, ratios),
        "chunk_times": figures.chunk_times(chunk, {"bound": 1e-3 * chunk, "all": 0.02 * np.ones(3)},
                                          {"measured": 2e-3 * chunk}),
    }


@both_versions
@pytest.mark.parametrize("name", _figures())
def test_a_figure_is_valid_in_both_versions_of_vega_lite_and_described(name, version, caplog):
    assert paths(_figures()[name].to_dict(), version, caplog) > 5
