"""What page 03 rests on: the roof, one expert's matmul, shapes at run time, kernel times, and its figures."""

import logging

import numpy as np
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from moe_lib import charts, controls, records
from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG, dense_twin
from moe_lib.roofline import attainable_flops_per_s, expert_intensity, ridge_point, step_time
from moe_lib.routing import dropped_share, sample_routing, tile_rows
from moe_lib.steps import decode_step

H200, V3 = DEVICES["h200"], CATALOG["deepseek-v3"]
MIXTRAL = {"model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 4,
           "vocab_size": 32000, "num_attention_heads": 8, "num_key_value_heads": 2, "num_local_experts": 8,
           "num_experts_per_tok": 2}
sizes = st.tuples(st.integers(1, 300), st.integers(1, 300), st.integers(1, 2000)).map(
    lambda drawn: (max(drawn[:2]), min(drawn[:2]), drawn[2]))  # E, k, B


# The roof


@pytest.mark.parametrize("batch", [1, 64, 942, 20000])
def test_a_step_at_the_rate_of_the_roof_takes_its_least_time(batch):
    step = decode_step(V3, batch, weight_bytes=2)
    at_roof = step.flops / attainable_flops_per_s(step.intensity, H200)
    assert at_roof == pytest.approx(step_time(step, H200).lower, rel=1e-12)


def test_the_roof_is_flat_from_the_ridge_point_on():
    ridge = ridge_point(H200)
    rates = attainable_flops_per_s([ridge, 2 * ridge, ridge / 2], H200)
    assert rates / H200.peak() == pytest.approx([1, 1, 0.5])


@pytest.mark.parametrize("model", [V3, CATALOG["mixtral-8x7b"], CATALOG["gpt-oss-120b"]])
def test_a_dense_twin_works_as_many_flop_per_byte_as_it_has_tokens(model):
    assert decode_step(dense_twin(model), [1, 64, 4096], weight_bytes=2).intensity == pytest.approx([1, 64, 4096])


@pytest.mark.parametrize("device, ridge", [("a100-80gb", 153.016), ("h100", 295.224), ("h200", 206.042)])
def test_ridge_points_are_the_published_ones(device, ridge):
    assert ridge_point(DEVICES[device]) == pytest.approx(ridge, abs=5e-4)


# One expert's matmul


@given(st.integers(1, 20000), st.integers(1, 20000), st.floats(0.1, 1e6), st.sampled_from([0.5, 1, 2]))
def test_an_expert_s_intensity_never_passes_either_limit(d, f, tokens, weight_bytes):
    work = expert_intensity(d, f, tokens, weight_bytes=weight_bytes)
    assert work <= 2 * tokens / weight_bytes * (1 + 1e-12) and work <= 3 * d * f / (2 * (d + f)) * (1 + 1e-12)


def test_without_activations_intensity_counts_tokens():
    assert expert_intensity(4096, 14336, [0, 1, 64], activation_bytes=0).tolist() == [0, 1, 64]
    assert expert_intensity(4096, 14336, 64, weight_bytes=0.5, activation_bytes=0) == 256


def test_an_expert_with_no_width_is_refused():
    with pytest.raises(ValueError, match="d_expert must be at least 1, got 0"):
        expert_intensity(4096, 0, 1)


# Shapes known only at run time


@given(sizes)
def test_tiles_of_one_row_compute_the_tokens_rows(size):
    E, k, B = size
    assert tile_rows(E, k, B, 1) == pytest.approx(B * k, rel=1e-9)


@given(sizes, st.integers(1, 300))
def test_tiles_hold_every_row_and_less_than_one_more_tile_an_expert(size, tile):
    E, k, B = size
    assert B * k * (1 - 1e-9) <= tile_rows(E, k, B, tile) <= B * k + E * (tile - 1) + 1e-6


@given(sizes, st.integers(0, 300))
def test_kept_and_dropped_choices_are_all_of_them(size, capacity):
    E, k, B = size
    dropped = dropped_share(E, k, B, capacity)
    assert max(0, 1 - E * capacity / (B * k)) - 1e-9 <= dropped <= 1 + 1e-9
    assert capacity or dropped == pytest.approx(1)


def test_one_token_is_dropped_by_no_capacity_and_none_by_a_capacity_of_all():
    assert dropped_share(256, 8, 1, 1) == 0 and dropped_share(256, 8, [64, 500], [64, 500]).tolist() == [0, 0]


@pytest.mark.parametrize("E, k, B", [(256, 8, 64), (8, 2, 300), (64, 8, 1000)])
def test_simulated_routers_fill_tiles_and_overflow_capacities_as_computed(E, k, B):
    rng = np.random.default_rng(B)
    loads = np.array([np.bincount(sample_routing(rng, B, E, k).ravel(), minlength=E) for _ in range(400)])
    capacity = int(1.25 * B * k / E)
    over, tiles = np.maximum(loads - capacity, 0).sum(axis=1), (np.ceil(loads / 16) * 16).sum(axis=1)
    for simulated, computed in [(over / (B * k), dropped_share(E, k, B, capacity)), (tiles, tile_rows(E, k, B, 16))]:
        assert abs(simulated.mean() - computed) < 5 * simulated.std() / 20  # five standard errors of 400 layers


# Kernel times, by others


def test_kernel_times_of_others_say_whose_they_are_and_beat_no_bound():
    for record in records.shipped("moe_kernels"):
        layer, choices = record.data, record.data["top_k"] * np.array(record.data["num_tokens"])
        assert record.kind == "third_party" and "NVIDIA" in record.source and record.licence.startswith("Apache-2.0")
        tokens = choices / np.minimum(layer["num_experts"], choices)
        work = expert_intensity(layer["d_model"], layer["d_expert"], tokens, activation_bytes=0)
        rate = 6 * choices * layer["d_model"] * layer["d_expert"] / np.array(layer["latency_s"])
        assert (rate < attainable_flops_per_s(work, H200)).all()


def test_kernel_times_belong_to_layers_of_the_catalogue():
    for layer in (record.data for record in records.shipped("moe_kernels")):
        model = CATALOG[layer["model"]]
        assert [layer[key] for key in ("d_model", "d_expert", "num_experts", "top_k")] == [
            model.d_model, model.d_expert, model.num_experts, model.top_k]


# The control


@pytest.fixture(scope="module")
def roofline():
    return controls.roofline()


@pytest.fixture(scope="module")
def page(roofline):
    return roofline.static()


def test_the_roofline_stands_at_the_worked_example(roofline):
    said = roofline.readout(**{choice.name: choice.start for choice in roofline.choices})
    assert said["Intensity"].startswith("4.01 FLOP/byte") and said["Share of peak"] == "at most 1.95 %"
    assert said["Ridge point"].startswith("206 ") and said["Compute-bound from"] == "3,770 tokens (twin: 206)"


def test_dots_of_the_page_are_steps_on_the_roof(page):
    for row in page["datasets"]["moe"][::191]:
        model, device = {**CATALOG, **controls.PLATE}[row["model"]], DEVICES[row["device"]]
        step = decode_step(model, row["batch"], weight_bytes=controls.WEIGHT_BYTES[row["precision"]])
        dtype = "fp8" if row["precision"] == "fp8" and row["device"] != "a100-80gb" else "bf16"
        assert row["intensity"] == pytest.approx(step.intensity, rel=1e-4)
        assert row["rate"] == pytest.approx(attainable_flops_per_s(step.intensity, device, dtype), rel=1e-4)


def test_the_roofline_says_the_same_live_and_on_the_page(roofline, page):
    chosen = {"model": "qwen3-30b-a3b", "precision": "fp4", "device": "b200", "batch": 256}
    at = {choice.name: list(choice.options.values()).index(chosen[choice.name]) for choice in roofline.choices}
    for answer in page["usermeta"]["readouts"]:
        found = answer["values"]
        for key in answer["keys"]:
            found = found[at[key]]
        assert found == roofline.readout(**chosen)[answer["label"]]
    moe = [row for row in page["datasets"]["moe"] if {**row, **chosen, "batch": row["batch"]} == row]
    assert roofline.live_spec(**chosen)["datasets"]["moe"] == moe


def test_a_reader_s_model_stands_first_and_the_page_stays_within_its_rows():
    own = controls.roofline(MIXTRAL)
    assert own.choices[0].start == next(iter(own.choices[0].options.values())) not in CATALOG
    assert sum(map(len, own.static()["datasets"].values())) <= 5000


def test_a_batch_off_the_grid_is_drawn_live(roofline):
    rows = roofline.live_spec(model="deepseek-v3", precision="bf16", device="h200", batch=100)["datasets"]
    assert {row["batch"] for row in rows["moe"]} >= {64, 100} and len(rows["roof"]) == 3


# The figures


def _figures():
    batch = np.array([1, 16, 206, 4096])
    tiles = {f"tiles of {tile}": tile_rows(256, 8, batch, tile) / (8 * batch) for tile in (16, 64, 128)}
    room = {f"capacity × {times}": np.full(4, times) for times in (1.25, 2)}
    curves = batch * np.array([[[1], [0.5]], [[2], [0.1]]])
    roof = np.array([1, 206, 4000])
    return {
        "ridges": charts.ridges({"h100": 295.2, "h200": 206.0}, 16, "16 tokens"),
        "shapes": charts.shapes(batch, tiles | room, {name: values / 10 for name, values in room.items()}),
        "time_ratio": charts.time_ratio(batch, {"one": batch / 100 + 1}, 206, "here", {"one": 3770}),
        "ladder": charts.ladder({"a": 64, "b": 206, "c": 8192}),
        "kernels": charts.kernels((roof, attainable_flops_per_s(roof, H200)), {"one": (batch, 3e12 * batch)}),
        "contexts": charts.contexts(batch, curves, ["one", "two"], ["none", "8,192"], 206, "the ridge"),
    }


@pytest.mark.parametrize("version", ["5.8", "6.4"])
@pytest.mark.parametrize("name", _figures())
def test_a_figure_is_valid_in_both_versions_of_vega_lite_and_described(name, version, caplog):
    spec = _figures()[name].to_dict()
    with caplog.at_level(logging.WARNING):
        assert vl_convert.vegalite_to_svg(spec, vl_version=version).count("<path") > 5
    assert caplog.records == [] and len(spec["description"]) > 40


@pytest.mark.parametrize("version", ["5.8", "6.4"])
def test_the_roofline_is_valid_in_both_versions_of_vega_lite(roofline, page, version, caplog):
    with caplog.at_level(logging.WARNING):
        for spec in (page, roofline.live_spec(model="olmoe", precision="fp8", device="a100-80gb", batch=100)):
            assert vl_convert.vegalite_to_svg(spec, vl_version=version).count("<path") > 50
    assert caplog.records == []


def test_the_ladder_draws_every_rung_it_is_given():
    rows = charts.ladder({"a": 64, "b": 206, "c": 8192}).to_dict()["data"]["values"]
    assert [(row["batch"], row["says"]) for row in rows] == [(64, "a"), (206, "b"), (8192, "c")]
