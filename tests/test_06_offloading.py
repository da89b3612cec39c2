"""What page 06 rests on: measurements by others beat no bound, two questions from practice, control and figures."""


import numpy as np
import pytest
from drawing import MIXTRAL as TINY
from drawing import both_versions, faces, page_says, paths, rows_with_own_model, start

from moe_lib import figures, records
from moe_lib.caching import che_hit_rate, reuse_hit_rate, sample_trace
from moe_lib.hardware import DEVICES, LINKS
from moe_lib.models import CATALOG, from_counts
from moe_lib.offload import expert_slots, host_time, missed_bytes, token_time
from moe_lib.steps import decode_step

MIXTRAL, V3, OLMOE = (CATALOG[slug] for slug in ("mixtral-8x7b", "deepseek-v3", "olmoe"))
BY_OTHERS = {record.data["key"]: record for record in records.shipped("offloading")}
AMX = BY_OTHERS["amx"].data["bf16_flops_per_s"]


# Measurements by others


def test_every_measurement_says_whose_it_is():
    for record in BY_OTHERS.values():
        assert record.kind == "third_party" and record.source and record.licence and record.data["key"]


def test_offloaded_mixtral_stays_under_its_bounds_and_every_step_of_the_method_adds_speed():
    paper = BY_OTHERS["mixtral-offloading"].data
    link = np.array([LINKS[name].bytes_per_s for name in paper["links"]])
    hit = 0.1 + 0.9 * np.array(paper["slots"]) / 8  # modelled; their cache looks up both experts before it evicts
    reached = np.array(list(paper["tokens_per_s"].values()))
    for speed, share in zip(reached, [0 * hit - 3, 0 * hit, hit, hit], strict=True):  # all 8: 4 times the 2 chosen
        seconds = (1 - share) * missed_bytes(MIXTRAL, weight_bytes=paper["bits_stated"] / 8) / link
        assert (speed * seconds < 1).all()
    assert (np.diff(reached, axis=0) > 0).all()


def test_cpus_computing_v3_stay_under_the_bandwidth_of_their_sockets():
    run, channel = BY_OTHERS["ktransformers"].data, LINKS["ddr5-4800-channel"].bytes_per_s
    unused = 1 - np.array(run["experts"]) / V3.top_k
    memory = run["channels_per_socket"] * channel * np.array(run["sockets"])
    bound = 1 / host_time(V3, memory, AMX, weight_bytes=run["bits"] / 8, hit_rate=unused)
    assert bound[0] == pytest.approx(24.8, abs=0.05)
    assert (np.array(run["decode_tokens_per_s"]) / bound).round(2).tolist() == [0.35, 0.31, 0.25, 0.21, 0.09]


def test_a_machine_measured_layer_by_layer_lies_on_a_line_above_both_bounds():
    run = BY_OTHERS["toshllm"].data
    weight_bytes = run["expert_mib_per_token"] * 2**20 / (OLMOE.top_k * OLMOE.expert_params_all_layers)
    layers, seconds = np.array(run["layers_on_host"]), 1 / np.array(run["tokens_per_s"])
    rest = {"weight_bytes": weight_bytes, "compute_time": seconds[0], "hit_rate": 1 - layers / OLMOE.num_moe_layers}
    copied = token_time(OLMOE, LINKS["pcie3-x16"].bytes_per_s, **rest)[np.isin(layers, run["layers_copied"])]
    assert (1 / np.array(run["copied_tokens_per_s"]) > copied).all()
    assert (seconds[1:] > host_time(OLMOE, run["stream_bytes_per_s"], AMX, **rest)[1:]).all()
    slope = np.polyfit(layers, seconds, 1)[0]
    assert missed_bytes(OLMOE, weight_bytes=weight_bytes) / 16 / slope / 1e9 == pytest.approx(26.48, abs=0.01)


def test_simulated_lru_never_beats_the_optimum_on_logged_routing():
    misses = {name: np.array(rate) for name, rate in BY_OTHERS["qwen3-cache"].data["misses_per_token"].items()}
    assert (misses["optimum"] < misses["lru"]).all() and (misses["optimum"] < misses["most popular held"]).all()


# Questions from practice


def test_question_3_experts_in_system_memory_are_bound_by_that_memory():
    report = BY_OTHERS["asked-llmfit"].data
    model = from_counts("Qwen3-Next-80B-A3B", 80e9, 3e9, 512, 10)
    bound = 1 / host_time(model, report["ddr_bytes_per_s"], AMX, weight_bytes=report["bytes_per_weight"])
    assert round(bound) == 56 < report["estimated_tokens_per_s"][0]
    assert [round(100 * rate / bound) for rate in report["tokens_per_s"]] == [27, 18]


def test_question_3_all_active_parameters_copied_and_read_again_allow_26_2_and_14_4_tokens_a_second():
    report = BY_OTHERS["asked-llmfit"].data
    size = report["bytes_per_weight"] * np.array(report["active_params"])
    bound = 1 / (size / report["ddr_bytes_per_s"] + size / report["card_bytes_per_s"])
    assert bound.round(1).tolist() == [26.2, 14.4] and (bound > report["tokens_per_s"]).all()


def test_a_cache_that_looks_up_all_choices_before_it_evicts_hits_as_one_that_keeps():
    held, hits = [], 0
    tokens = sample_trace(np.random.default_rng(7), 20_000, 8, 2).tolist()
    for chosen in tokens:
        hits += sum(expert in held for expert in chosen)
        held = [*(expert for expert in held if expert not in chosen), *chosen][-3:]
    assert hits / 40_000 == pytest.approx(3 / 8, abs=0.01) and che_hit_rate([1] * 8, 3, top_k=2) < 0.34


def test_question_4_six_tokens_a_second_are_as_close_to_the_bound_as_the_projects_own():
    reports, run = BY_OTHERS["asked-ktransformers"].data, BY_OTHERS["ktransformers"].data
    memory = 8 * np.array(reports["channels"]) * reports["transfers_per_s"]
    bound = 1 / host_time(V3, memory, AMX, weight_bytes=run["bits"] / 8)
    share = 100 * np.array(reports["tokens_per_s"]) / bound[:, None]
    assert bound.round(1).tolist() == [16.5, 10.8] and share.round().tolist() == [[36, 42], [6, 17]]


# The control


@pytest.fixture
def offloading():
    return faces("offloading")[0]


@pytest.fixture
def page():
    return faces("offloading")[1]


def test_the_control_stands_at_the_24_gb_card(offloading):
    said = offloading.readout(**start(offloading))
    assert list(said.values()) == ["3 of 8", "33 %", "3.94 tokens/s", "45.2 tokens/s"]


def test_dots_and_lines_of_the_page_are_what_offload_computes(page):
    settings = {"weight_bytes": 0.5, "context": 4096}
    card, link = DEVICES["rtx-5090"], LINKS["pcie4-x16"].bytes_per_s
    slots = np.floor(expert_slots(V3, DEVICES["h200"].usable_bytes, **settings, sequences=1))
    row = next(row for row in page["datasets"]["curve"] if row["key"] == "deepseek-v3|h200|pcie5-x16|4|0")
    assert row["share"] == pytest.approx(slots / 256, rel=1e-4)
    line = next(row for row in page["datasets"]["curve"] if row["key"] == "mixtral-8x7b|rtx-5090|pcie4-x16|4|0.15")
    here = decode_step(MIXTRAL, 1, **settings).bytes_read / card.bandwidth_bytes_per_s
    hit = [0 if held < 2 else reuse_hit_rate([1] * 8, held, 0.15, top_k=2) for held in line["slots"]]
    expected = token_time(MIXTRAL, link, weight_bytes=0.5, hit_rate=hit, compute_time=here)
    assert line["ms"] == pytest.approx(1e3 * expected, rel=1e-4)


def test_a_card_with_pcie_4_gains_nothing_from_a_host_with_pcie_5(offloading):
    setting = {"model": "mixtral-8x7b", "device": "rtx-4090", "host": "server-ddr5", "bits": 8, "reuse": 0}
    assert offloading.readout(link="pcie4-x16", **setting) == offloading.readout(link="pcie5-x16", **setting)


def test_what_cannot_be_is_said_and_not_drawn(offloading, page):
    setting = {"model": "deepseek-v3", "device": "rtx-4090", "host": "server-ddr5", "bits": 16, "reuse": 0}
    assert offloading.readout(link="pcie4-x16", **setting)["Slots a layer"].startswith("cannot be: what is not")
    small = setting | {"model": "mixtral-8x7b", "bits": 8}
    assert "no NVLink-C2C" in offloading.readout(link="nvlink-c2c", **small)["Copied"]
    drawn = [row["key"] for rows in page["datasets"].values() for row in rows]
    assert not [key for key in drawn if "rtx-4090|nvlink-c2c" in key]


def test_the_control_says_the_same_live_and_on_the_page(offloading, page):
    chosen = {"model": "deepseek-v3", "device": "h200", "link": "pcie5-x16", "host": "server-ddr5", "bits": 8,
              "reuse": 0.45}
    assert page_says(page, **chosen) == offloading.readout(**chosen)
    live = offloading.live_spec(**chosen)["datasets"]["curve"]
    assert [row for row in live if row not in page["datasets"]["curve"]] == []


def test_a_reader_s_model_stands_first_and_the_page_stays_within_its_rows():
    assert rows_with_own_model(figures.offloading(TINY)) <= 5000


# The figures


def _figures():
    share, batch = np.array([0.1, 0.5, 1]), np.array([1, 16, 4096])
    hits = {"LRU": (share, che_hit_rate([1] * 10, [1, 5, 10])), "Che's formula": (share, share)}
    return {
        "hit_rates": figures.hit_rates(dict.fromkeys(("one", "two"), hits | {"optimum": (share, share)})),
        "offloaded_batches": figures.offloaded_batches(batch, {"copied": batch + 3, "held": batch * 9}, 100, "here"),
        "over_bound": figures.over_bound({"A100": {"": {"all": (1, 2), "chosen": (1, 4)}}}),
        "layers_outside": figures.layers_outside([0, 8, 16], {"copied": [0.005, 0.02, 0.04]},
                                                {"copied": ([0, 16], [0.005, 0.047])}),
    }


@both_versions
@pytest.mark.parametrize("name", _figures())
def test_a_figure_is_valid_in_both_versions_of_vega_lite_and_described(name, version, caplog):
    assert paths(_figures()[name].to_dict(), version, caplog) > 3


@both_versions
def test_the_control_is_valid_in_both_versions_of_vega_lite(offloading, page, version, caplog):
    live = {"model": "olmoe", "device": "h200", "link": "pcie5-x16", "host": "server-ddr5", "bits": 4, "reuse": 0}
    for spec in (page, offloading.live_spec(**live)):
        assert paths(spec, version, caplog) > 8
