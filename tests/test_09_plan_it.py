"""What page 09 rests on: the valley, published figures against bounds, its control and its figures."""


import numpy as np
import pytest
from drawing import both_versions, faces, page_says, paths, start

from moe_lib import figures, records
from moe_lib.hardware import DEVICES, devices_needed
from moe_lib.layouts import Layout, layout_sequences
from moe_lib.models import CATALOG
from moe_lib.plan import moe_or_dense, plan, pools, time_per_token, time_to_first_token
from moe_lib.roofline import fit_overhead
from moe_lib.steps import decode_step

V3, LLAMA, H200 = CATALOG["deepseek-v3"], CATALOG["llama-3.1-70b"], DEVICES["h200"]
TP8_EP8 = Layout.parse("TP8+EP8")
CONTEXTS = {"no context": 0, "4,096 tokens": 4096, "16,384 tokens": 16384}
ODD = {"model_type": "mixtral", "hidden_size": 1280, "intermediate_size": 1536, "num_hidden_layers": 4,
       "vocab_size": 32000, "num_attention_heads": 10, "num_key_value_heads": 2, "num_local_experts": 6,
       "num_experts_per_tok": 2}


# The valley


def test_the_number_of_gpus_does_not_move_the_valley():
    ratios = [moe_or_dense(V3, LLAMA, H200, gpus, [1, 64, 4096], weight_bytes=1).time_ratio for gpus in (1, 8, 72)]
    assert np.allclose(ratios, ratios[0])


# Published figures against bounds, by others


def test_no_published_speed_of_a_unit_beats_reading_and_computing():
    for run in (record.data for record in records.shipped("production")):
        device, gpus = DEVICES[run["device"]], run["decode_gpus"]
        unit, context = Layout(attention_dp=gpus, expert_parallel=gpus), run.get("mean_context", run.get("prompt"))
        most = layout_sequences(V3, unit, device.usable_bytes, weight_bytes=1, context=context)
        seconds = time_per_token(V3, most, unit, device, weight_bytes=1, context=context)
        assert run["decode_tokens_per_s"] < 8 * most / seconds / gpus
        fresh = run["prefill_tokens_per_s"] * (1 - run.get("cached_prompt_share", 0))
        assert fresh < 8 * device.peak("fp8") / (2 * V3.active_params_read)


def test_two_constants_carry_a_plan_from_two_points_of_r1_to_the_others():
    served = records.shipped("served_r1_h200")[0].data
    bound = time_per_token(V3, served["concurrency"], TP8_EP8, H200, context=1536, weight_bytes=1)
    took = np.array(served["mean_tpot_s"])
    overhead = fit_overhead(bound[[0, 2]], took[[0, 2]])
    told = [{row.layout: row.tpot for row in plan(V3, H200, 8, context=1536, batch=batch, weight_bytes=1,
                                                  overhead=overhead)}[TP8_EP8] for batch in served["concurrency"]]
    assert (bound < took).all() and np.abs(told / took - 1).max() < 0.06  # as page 00 found for the even split


def test_deepseek_s_day_is_as_many_nodes_and_dollars_as_published():
    day = records.shipped("production")[0].data
    need = pools(V3, 1 / day["seconds"], day["input_tokens"], day["output_tokens"],
                 day["prefill_tokens_per_s"] / 8, day["decode_tokens_per_s"] / 8)
    nodes = (need.prefill_gpus + need.decode_gpus) / 8
    assert nodes == pytest.approx(day["nodes_mean"], rel=0.001)
    assert day["nodes_mean"] * 8 * 24 * day["usd_per_gpu_hour"] == day["cost_usd_per_day"]


# Asked in practice: how many GPUs for DeepSeek-R1?


def test_r1_in_fp8_needs_as_many_gpus_as_the_page_answers():
    release = next(r.data["bytes"] for r in records.shipped("reported") if r.data["key"] == "v3-release")
    held = release + 8 * V3.kv_bytes_per_sequence(16384)
    assert [devices_needed(held, DEVICES[card]) for card in ("h100", "h20", "h200", "b200")] == [10, 8, 6, 5]


def test_a_first_token_on_eight_h20_and_a_token_on_a_cpu_are_as_the_page_answers():
    wait = time_to_first_token(V3, 16384, TP8_EP8, DEVICES["h20"], weight_bytes=1)
    moe, dense = decode_step([V3, LLAMA], 1, weight_bytes=1).bytes_read
    assert wait == pytest.approx(0.877, rel=0.001) and dense / moe == pytest.approx(1.9, abs=0.01)


# The control


@pytest.fixture
def frontier():
    return faces("plan")[0]


@pytest.fixture
def page():
    return faces("plan")[1]


def test_the_frontier_stands_where_the_page_says(frontier):
    said = frontier.readout(**start(frontier))
    assert list(said.values()) == ["TP2xDP4+EP8", "81 sequences", "20 ms", "131 ms", "508", "$1.09", "none"]


@pytest.mark.parametrize("model", ("deepseek-v3", "qwen3-235b-a22b", "glm-4.5", "mixtral-8x7b"))
@pytest.mark.parametrize("gpus, context, tpot", [(8, 8192, 20), (8, 2048, 12), (4, 32768, 60), (2, 8192, 8)])
def test_the_best_of_the_frontier_is_the_best_of_the_plan(frontier, model, gpus, context, tpot):
    said = frontier.readout(**start(frontier, model=model, gpus=gpus, context=context, tpot=tpot))
    row = plan(CATALOG[model], H200, gpus, context=context, weight_bytes=1, tpot=tpot / 1e3, weight_block=128,
               price_per_hour=2)[0]
    if not row.fits or not row.batch:
        assert said["Best layout"].startswith(("does not fit", "no layout meets the target"))
        return
    assert said["Best layout"] == str(row.layout) and said["Sequences at once"].split()[0] == f"{row.batch:,}"
    assert said["Decoding a million tokens"] == f"${row.cost_per_million_tokens:.2f}"


def test_dots_and_crosses_of_the_page_are_steps_of_their_layouts(page):
    for line, end in list(zip(page["datasets"]["line"], page["datasets"]["full"], strict=True))[::37]:
        model, device, gpus, context = line["key"].split("|")
        setting = {"context": int(context), "weight_bytes": 1}
        row = next(row for row in plan(CATALOG[model], DEVICES[device], int(gpus), **setting)
                   if str(row.layout) == line["layout"] == end["layout"])
        one = time_per_token(CATALOG[model], 1, row.layout, DEVICES[device], **setting)
        assert end["batch"] == row.max_sequences and line["ms"][0] == pytest.approx(1e3 * one, rel=1e-4)
        assert line["gpu"][-1] == end["gpu"] == pytest.approx(row.tokens_per_s_per_gpu, rel=1e-4)


def test_the_frontier_says_the_same_live_and_on_the_page(frontier, page):
    chosen = {"model": "qwen3-235b-a22b", "device": "b200", "gpus": 8, "context": 2048, "tpot": 15, "price": 3}
    assert page_says(page, **chosen) == frontier.readout(**chosen)
    live = frontier.live_spec(**chosen)["datasets"]
    for name in ("line", "full", "barred"):
        assert live[name] == [row for row in page["datasets"][name] if row["key"] == "qwen3-235b-a22b|b200|8|2048"]


def test_the_frontier_says_what_cannot_be_and_why(frontier):
    chosen = start(frontier, model="qwen3-235b-a22b")
    written = frontier.live_spec(**chosen)["datasets"]["barred"][0]["says"].replace("\n", " ")
    assert frontier.readout(**chosen)["Layouts ruled out"] == "4 of 16 layouts"
    assert written.endswith("leaves 192 each, no whole blocks of 128")
    alone = frontier.readout(**start(frontier, gpus=2))
    assert alone["Best layout"].startswith("does not fit") and alone["Layouts ruled out"] == "all (needs 5 GPUs)"
    assert frontier.readout(**start(frontier, tpot=0.5))["Best layout"].startswith("no layout meets")


def test_a_layout_that_cannot_be_is_grey_and_never_the_best():
    own = figures.plan(ODD)
    chosen = start(own, gpus=8)
    drawn = own.live_spec(**chosen)["datasets"]
    grey = {row["layout"] for row in drawn["line"] if not row["legal"]}
    assert {name.partition("+")[0] for name in grey} == {"TP8", "TP4xDP2"}  # 10 heads
    assert not grey & {row["says"].partition(":")[0] for row in drawn["best"]} and len(drawn["line"]) == 4
    assert "10 heads do not divide over 8 GPUs" in drawn["barred"][0]["says"].replace("\n", " ")


def test_the_page_stays_within_its_rows_with_a_reader_s_model_too():
    spec = figures.plan(ODD).static()
    assert sum(map(len, spec["datasets"].values())) <= 5000
    assert sum(len(row["ms"]) for row in spec["datasets"]["line"]) <= 5000


# The figures


def _valley():
    batch = 2.0 ** np.arange(0, 13.01, 0.5)
    found = {name: moe_or_dense(V3, LLAMA, H200, 8, batch, context=context, weight_bytes=1)
             for name, context in CONTEXTS.items()}
    return figures.valley(batch, {name: of.time_ratio for name, of in found.items()},
                         {name: of.crossings for name, of in found.items()}, ("V3", "Llama 70B"))


@both_versions
def test_figures_and_control_are_valid_in_both_versions_of_vega_lite(frontier, page, version, caplog):
    for spec in (_valley().to_dict(), page, frontier.live_spec(**start(frontier, tpot=17, context=5000))):
        assert paths(spec, version, caplog) > 10


def test_the_valley_writes_how_far_the_dense_model_wins():
    data = [layer["data"]["values"] for layer in _valley().to_dict()["layer"]]
    written = {row["says"] for rows in data for row in rows if "says" in row}
    assert written >= {"1,987", "569", "140"}
