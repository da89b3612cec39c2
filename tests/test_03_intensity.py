"""What page 03 rests on: one expert's matmul, kernel times, its control and its figures."""


import numpy as np
import pytest
from drawing import MIXTRAL, both_versions, faces, page_says, paths, rows_with_own_model, start
from hypothesis import given
from hypothesis import strategies as st

from moe_lib import figures, records
from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG
from moe_lib.roofline import attainable_flops_per_s, expert_intensity
from moe_lib.routing import tile_rows
from moe_lib.steps import decode_step

H200 = DEVICES["h200"]


# One expert's matmul


@given(st.integers(1, 20000), st.integers(1, 20000), st.floats(0.1, 1e6), st.sampled_from([0.5, 1, 2]))
def test_an_expert_s_intensity_never_passes_either_limit(d, f, tokens, weight_bytes):
    work = expert_intensity(d, f, tokens, weight_bytes=weight_bytes)
    assert work <= 2 * tokens / weight_bytes * (1 + 1e-12) and work <= 3 * d * f / (2 * (d + f)) * (1 + 1e-12)


# Kernel times, by others


def test_kernel_times_of_others_say_whose_they_are():
    for record in records.shipped("moe_kernels"):
        assert record.kind == "third_party" and "NVIDIA" in record.source and record.licence.startswith("Apache-2.0")


def test_kernel_times_belong_to_layers_of_the_catalogue():
    for layer in (record.data for record in records.shipped("moe_kernels")):
        model = CATALOG[layer["model"]]
        assert [layer[key] for key in ("d_model", "d_expert", "num_experts", "top_k")] == [
            model.d_model, model.d_expert, model.num_experts, model.top_k]


# The control


@pytest.fixture
def roofline():
    return faces("roofline")[0]


@pytest.fixture
def page():
    return faces("roofline")[1]


def test_the_roofline_stands_at_the_worked_example(roofline):
    said = roofline.readout(**start(roofline))
    assert said["Intensity"].startswith("4.01 FLOP/byte") and said["Share of peak"] == "at most 1.95 %"
    assert said["Ridge point"].startswith("206 ") and said["Compute-bound from"] == "3,770 tokens (twin: 206)"


def test_dots_of_the_page_are_steps_on_the_roof(page):
    for row in page["datasets"]["moe"][::7]:
        model, device = CATALOG[row["model"]], DEVICES[row["device"]]
        step = decode_step(model, row["batch"], weight_bytes=figures._choices.WEIGHT_BYTES[row["precision"]])
        dtype = "fp8" if row["precision"] == "fp8" and row["device"] != "a100-80gb" else "bf16"
        assert row["intensity"] == pytest.approx(step.intensity, rel=1e-4)
        assert row["rate"] == pytest.approx(attainable_flops_per_s(step.intensity, device, dtype), rel=1e-4)


def test_the_roofline_says_the_same_live_and_on_the_page(roofline, page):
    chosen = {"model": "qwen3-30b-a3b", "precision": "fp4", "device": "b200", "batch": 256}
    assert page_says(page, **chosen) == roofline.readout(**chosen)
    moe = [row for row in page["datasets"]["moe"] if {**row, **chosen, "batch": row["batch"]} == row]
    assert roofline.live_spec(**chosen)["datasets"]["moe"] == moe


def test_a_reader_s_model_stands_first_and_the_page_stays_within_its_rows():
    assert rows_with_own_model(figures.roofline(MIXTRAL)) <= 5000


def test_a_batch_off_the_grid_is_drawn_live(roofline):
    rows = roofline.live_spec(model="deepseek-v3", precision="bf16", device="h200", batch=100)["datasets"]
    assert {64, 100} <= set(rows["moe"][0]["batch"]) and len(rows["roof"]) == 3


# The figures


def _figures():
    batch = np.array([1, 16, 206, 4096])
    tiles = {f"tiles of {tile}": tile_rows(256, 8, batch, tile) / (8 * batch) for tile in (16, 64, 128)}
    room = {f"capacity × {times}": np.full(4, times) for times in (1.25, 2)}
    curves = batch * np.array([[[1], [0.5]], [[2], [0.1]]])
    roof = np.array([1, 206, 4000])
    return {
        "ridges": figures.ridges({"h100": 295.2, "h200": 206.0}, 16, "16 tokens"),
        "shapes": figures.shapes(batch, tiles | room, {name: values / 10 for name, values in room.items()}),
        "time_ratio": figures.time_ratio(batch, {"one": batch / 100 + 1}, 206, "here", {"one": 3770}),
        "ladder": figures.ladder({"a": 64, "b": 206, "c": 8192}),
        "kernels": figures.kernels((roof, attainable_flops_per_s(roof, H200)), {"one": (batch, 3e12 * batch)}),
        "contexts": figures.contexts(batch, curves, ["one", "two"], ["none", "8,192"], 206, "the ridge"),
    }


@both_versions
@pytest.mark.parametrize("name", _figures())
def test_a_figure_is_valid_in_both_versions_of_vega_lite_and_described(name, version, caplog):
    assert paths(_figures()[name].to_dict(), version, caplog) > 5


@both_versions
def test_the_roofline_is_valid_in_both_versions_of_vega_lite(roofline, page, version, caplog):
    for spec in (page, roofline.live_spec(model="olmoe", precision="fp8", device="a100-80gb", batch=100)):
        assert paths(spec, version, caplog) > 50


def test_the_ladder_draws_every_rung_it_is_given():
    rows = figures.ladder({"a": 64, "b": 206, "c": 8192}).to_dict()["layer"][0]["data"]["values"]
    assert [(row["batch"], row["says"]) for row in rows] == [(64, "a"), (206, "b"), (8192, "c")]
