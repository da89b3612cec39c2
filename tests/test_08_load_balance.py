"""What page 08 rests on: random skewed routers, layers timed by others, its control and its figures."""


import numpy as np
import pytest
from drawing import both_versions, faces, page_says, paths
from hypothesis import given
from hypothesis import strategies as st

from moe_lib import figures, records
from moe_lib.balance import balance, gpu_loads, max_over_mean, rank_times, rank_work
from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG
from moe_lib.routing import power_law_inclusion, zipf_inclusion

V3, H200 = CATALOG["deepseek-v3"], DEVICES["h200"]
OLMOE = {"model_type": "olmoe", "hidden_size": 2048, "intermediate_size": 1024, "num_hidden_layers": 16,
         "vocab_size": 50304, "num_attention_heads": 16, "num_key_value_heads": 16, "num_experts": 64,
         "num_experts_per_tok": 8}


# Random skewed routers


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 40), st.floats(0, 4), st.floats(1, 1e6))
def test_a_random_router_chooses_k_experts_and_none_more_than_always(seed, num_experts, top_k, exponent, most):
    top_k = min(top_k, num_experts)
    drawn = power_law_inclusion(np.random.default_rng(seed), num_experts, top_k, exponent, most, 3)
    assert drawn.shape == (3, num_experts) and (drawn > 0).all() and (drawn <= 1).all()
    assert np.allclose(drawn.sum(axis=1), top_k)


def test_loads_of_a_random_router_follow_their_density():
    drawn = power_law_inclusion(np.random.default_rng(0), 100_000, 1, 2, 100)[0]
    loads = drawn / drawn.min()  # density x^-2 on 1 to 100: half of them below 1 / (1 - 0.99 / 2)
    assert np.median(loads) == pytest.approx(1 / (1 - 0.99 / 2), rel=0.02)  # 100,000 draws know it to about 0.5 %
    assert loads.max() == pytest.approx(100, rel=0.2)  # the largest of them lies just below


def test_a_router_without_spread_is_uniform():
    assert np.allclose(power_law_inclusion(np.random.default_rng(0), 256, 8, 1.2, 1), 8 / 256)


# Layers timed by others


@pytest.fixture(scope="module")
def timed():
    return records.shipped("ep_moe")


def test_layers_timed_by_others_say_whose_they_are_and_belong_to_the_catalogue(timed):
    for record in timed:
        layer = record.data
        assert record.kind == "third_party" and "NVIDIA" in record.source and record.licence.startswith("Apache-2.0")
        assert [layer[key] for key in ("d_model", "d_expert", "num_experts", "top_k")] == [
            V3.d_model, V3.d_expert, V3.num_experts, V3.top_k]
        assert layer["num_slots"] % layer["num_gpus"] == 0 and len(layer["num_tokens"]) == len(layer["latency_s"])


def test_no_layer_timed_by_others_beats_what_its_fullest_gpu_must_do(timed):
    for layer in (record.data for record in timed):
        B, gpus, read = np.array(layer["num_tokens"]), layer["num_gpus"], V3.expert_params / 4.8e12
        tokens = np.maximum(8 * B / gpus, layer.get("tokens_of_rank", 0))  # the fullest has the mean at least
        slots = np.ceil(tokens / B)  # a slot gets each token once at most
        if layer["distribution"] == "balanced":
            slots = np.maximum(slots, np.minimum(256, 8 * B) / gpus)
        least = np.maximum(slots * read, 2 * tokens * V3.expert_params / 1979e12)
        assert (np.array(layer["latency_s"]) > 1.25 * least).all()  # 1.30 is the closest


def test_tokens_of_all_gpus_are_the_only_reading_within_the_peak(timed):
    rows = [(8 * B, s) for of in timed for B, s in zip(of.data["num_tokens"], of.data["latency_s"], strict=True)]
    beaten = [2 * V3.expert_params * tokens / 1979e12 > seconds for tokens, seconds in rows]  # as if tokens per GPU
    assert (len(rows), sum(beaten)) == (260, 108)


def test_the_bound_says_what_redundant_experts_did_to_few_and_to_many_tokens(timed):
    rng, times = np.random.default_rng(0), {of.data["num_slots"]: of.data for of in timed if (
        of.data["distribution"], of.data["num_gpus"], of.data["placed_by_load"]) == ("power_law_1.2", 32, True)}
    for B, i in (64, 1), (16384, 5):
        routers = power_law_inclusion(rng, 256, 8, 1.2, 0.8 * B, 60)
        mean = [rank_times(V3, rank_work(routers, balance(routers, 32, slots).expert_of_slot, 32, B), H200, "fp8",
                           weight_bytes=1).max(axis=1).mean() for slots in (256, 288)]
        ratio = times[288]["latency_s"][i] / times[256]["latency_s"][i]
        assert mean[1] / mean[0] == pytest.approx(ratio, rel=0.15)  # one draw was timed; draws differ as much


# The control


@pytest.fixture
def control():
    return faces("balance")[0]


@pytest.fixture
def page():
    return faces("balance")[1]


def test_spare_experts_slow_few_tokens_and_speed_many(control):
    def ratio(**chosen):
        return float(control.readout(gpus=32, slots=288, **chosen)["Time over none redundant"].split()[0])

    assert ratio(skew=1, batch=64) > 1 > 0.5 > ratio(skew=1, batch=16384)
    assert ratio(skew=0, batch=1024) == round(9 / 8, 2) and ratio(skew=0, batch=65536) == 1


def test_the_control_says_what_spare_experts_take(control):
    said = control.readout(skew=1, slots=288, gpus=32, batch=64)
    a_gpu = 58 * V3.expert_params  # one spare expert in each layer
    assert said["Redundant experts take"] == f"{a_gpu / 1e9:.2f} GB a GPU, or {a_gpu / 70272:,.0f} tokens of cache"
    assert control.readout(skew=1, slots=256, gpus=32, batch=64)["Redundant experts take"] == "0 MB a GPU"


def test_bars_and_lines_of_the_page_are_placements_and_bounds(page):
    rank = np.random.default_rng(0).permutation(256)
    for skew, slots, gpus in (1, 288, 32), (0.5, 320, 8):
        loads = zipf_inclusion(256, 8, skew)[rank]
        placed = balance(loads, gpus, slots)
        chosen = {"skew": skew, "slots": slots, "gpus": gpus}
        bars = [row["load"] for row in page["datasets"]["after"] if {**row, **chosen} == row]
        assert len(bars) == gpus and bars[0] == pytest.approx(placed.max_over_mean[0], rel=1e-4)
        (us,) = (row["us"] for row in page["datasets"]["time"] if {**row, **chosen, "batch": 4096} == row)
        work = rank_work(loads, placed.expert_of_slot[0], gpus, 4096)
        assert us == pytest.approx(1e6 * rank_times(V3, work, H200, "fp8", weight_bytes=1).max(), rel=1e-4)


def test_bars_before_balancing_are_experts_as_numbered(page):
    rank = np.random.default_rng(0).permutation(256)
    before = [row["load"] for row in page["datasets"]["before"] if row["skew"] == 1 and row["gpus"] == 8]
    assert before[0] == pytest.approx(max_over_mean(gpu_loads(zipf_inclusion(256, 8, 1)[rank], range(256), 8))[0], 1e-4)


def test_both_faces_agree_and_the_page_stays_within_its_rows(control, page):
    chosen = {"skew": 0.5, "slots": 320, "gpus": 16, "batch": 1024}
    assert page_says(page, **chosen) == control.readout(**chosen)
    live = control.live_spec(**chosen)["datasets"]["after"]
    assert live == [row for row in page["datasets"]["after"] if {**row, **chosen, "batch": 0} == {**row, "batch": 0}]
    assert sum(map(len, page["datasets"].values())) <= 5000


def test_slots_that_do_not_divide_say_so_and_are_not_drawn(control):
    chosen = {"skew": 1, "slots": 288, "gpus": 64, "batch": 100}
    assert set(control.readout(**chosen).values()) == {"cannot be: 288 slots on 64 GPUs"}
    rows = control.live_spec(**chosen)["datasets"]
    assert rows["after"] == [] and len(rows["before"]) == 64
    assert {row["series"] for row in rows["time"]} == {"as numbered", "placed, none redundant"}


def test_a_reader_s_model_brings_its_experts():
    own = figures.balance(OLMOE)
    assert [choice.start for choice in own.choices] == [1, 96, 32, 16384]
    assert own.readout(skew=1, slots=96, gpus=32, batch=64)["Redundant experts take"].startswith("101 MB a GPU, or ")
    with pytest.raises(ValueError, match="num_experts must be a multiple of 8, got 60"):
        figures.balance({**OLMOE, "num_experts": 60})


# The figures


def _figures():
    held = [[0, 4, 1], [2, 5, 3]], [[0, 1, 2], [0, 3, 4]]
    batch = np.array([64, 1024, 16384])
    bounds = {"256 slots, bound": (batch, batch * 1e-7), "288 slots, bound": (batch, batch * 2e-7)}
    skewed = {"lines": bounds, "points": {"256 slots, measured": (batch, batch * 3e-7)}, "mark": (1024, "here")}
    return {"placed": figures.placed({"one": (held[0], np.ones((2, 3))), "two": (held[1], 2 * np.ones((2, 3)))}, 4),
            "slowest": figures.slowest({"uniform": {"lines": bounds}, "skewed": skewed})}


@both_versions
@pytest.mark.parametrize("name", _figures())
def test_a_figure_is_valid_in_both_versions_of_vega_lite_and_described(name, version, caplog):
    assert paths(_figures()[name].to_dict(), version, caplog) > 5


@both_versions
def test_the_control_is_valid_in_both_versions_of_vega_lite(control, page, version, caplog):
    for spec in (page, control.live_spec(skew=0.75, slots=272, gpus=4, batch=100)):
        assert paths(spec, version, caplog) > 30


def test_stacks_are_drawn_from_the_largest_piece_up_and_copies_are_told_apart():
    figure = figures.placed({"one": ([[0, 1], [1, 2]], [[1, 3], [3, 2]])}, 4.5).to_dict()
    layers = figure["hconcat"][0]["layer"]
    once, copied = ([(row["expert"], row["start"], row["end"]) for row in layers[n]["data"]["values"]] for n in (0, 2))
    assert once == [(0, 3, 4), (2, 3, 5)] and copied == [(1, 0, 3), (1, 0, 3)]
