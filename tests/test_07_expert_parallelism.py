"""What page 07 rests on: exchanges measured by others, deployments in production, its control and its figures."""


import sys

import numpy as np
import pytest
from drawing import MIXTRAL, both_versions, faces, page_says, paths, rows_with_own_model, start

from moe_lib import figures, records
from moe_lib.exchange import (
    all_reduce_bytes,
    all_to_all_bytes,
    copies_sent,
    gpus_touched_per_token,
    link_time,
    two_batch_times,
)
from moe_lib.hardware import DEVICES, LINKS
from moe_lib.layouts import Layout, layout_sequences, problems, rank_step
from moe_lib.models import CATALOG
from moe_lib.roofline import fit_overhead, step_time

V3, H200, PORT = CATALOG["deepseek-v3"], DEVICES["h200"], LINKS["ib-ndr"].bytes_per_s
FITTED = [2, 16, 256, 2048]  # tokens of each GPU


def _fit(run):
    """(t0, bytes/s, greatest error at the sizes that the fit did not see) of one record of latencies."""
    tokens, took = np.array(run["tokens"]), np.array(run["latency_s"])
    sent = tokens * all_to_all_bytes(run["d_model"], run["top_k"])[run["op"] == "combine"]
    seen = np.isin(tokens, FITTED)
    t0, efficiency = fit_overhead(sent[seen] / PORT, took[seen])
    error = np.abs((t0 + sent / PORT / efficiency) / took - 1)
    return t0, efficiency * PORT, error[~seen].max()


# Exchanges, by others


@pytest.mark.parametrize("number", range(8))
def test_latency_and_bandwidth_fitted_on_some_sizes_predict_the_others(number):
    assert _fit(records.shipped("all_to_all")[number].data)[2] < 0.15


def test_what_leaves_a_node_never_passes_its_port():
    for record in records.shipped("all_to_all")[2:8]:
        nodes = record.data["nodes"]
        assert 0.85 * PORT < _fit(record.data)[1] * (nodes - 1) / nodes < PORT


def test_no_measured_exchange_beats_its_links():
    for run in (record.data for record in records.shipped("all_to_all")[:8]):
        copies = copies_sent(256, run["top_k"], run["num_gpus"], once="expert")
        within, across = (all_to_all_bytes(run["d_model"], n)[run["op"] == "combine"] for n in copies)
        least = np.array(run["tokens"]) * max(within / LINKS["nvlink4"].bytes_per_s, across / PORT)
        assert (np.array(run["latency_s"]) > least).all()


def test_published_latencies_of_h800_do_not_beat_their_port():
    run = records.shipped("all_to_all")[8].data
    for gpus, *took in zip(run["num_gpus"], run["dispatch_s"], run["combine_s"], strict=True):
        away = copies_sent(256, run["top_k"], gpus, once="expert").across
        assert (took > run["tokens"] * np.array(all_to_all_bytes(run["d_model"], away)) / PORT).all()


def test_the_published_bandwidth_is_partly_of_bytes_that_stay():
    """Asked in practice: why do I not reach the published bandwidth?"""
    table = records.shipped("all_to_all")[9].data
    assert [gpus for gpus, link in zip(table["num_gpus"], table["link"], strict=True) if link == "RDMA"] == [16, 32, 64]
    assert max(table["dispatch_bytes_per_s"][1:]) > PORT  # no port could do that
    nodes = np.array(table["num_gpus"][1:]) / 8
    through = np.array(table["dispatch_bytes_per_s"][1:]) * (nodes - 1) / nodes
    assert (through / 1e9).round(1).tolist() == [21.5, 43.5, 44.6] and through.max() < PORT
    sent = 128 * np.array(all_to_all_bytes(V3.d_model, V3.top_k)) / PORT
    assert (1e6 * sent).round().tolist() == [151, 294]


def test_no_measured_all_reduce_beats_its_bytes_and_a_short_one_waits_for_latency():
    run = records.shipped("all_reduce")[0].data
    values = np.array(run["message_bytes"]) / 2
    least = all_reduce_bytes(1, values, run["num_gpus"], in_switch=True) / LINKS["nvlink4"].bytes_per_s
    for took in np.array(run["mscclpp_s"]), np.array(run["nccl_s"]):
        assert (took > 5 * least).all() and took[1] > 150 * least[1]
        assert 0.75e-3 < 122 * took[1] < 2.2e-3  # V3 split eight ways, one sequence: 7 us by bytes


def test_measured_half_batches_gain_less_and_lose_more_than_the_ratio_of_bounds_predicts():
    run, spread = records.shipped("half_batches")[0].data, Layout.parse("DP72+EP72")
    def sends(batch):
        return link_time(V3, batch, spread, LINKS["nvlink4"], network=LINKS["ib-ndr"], once="expert",
                         physical_experts=run["physical_experts"])
    whole, halves = two_batch_times(V3, 72 * np.array([32, 64, 256]), spread, DEVICES["h100"], "fp8", sends,
                                    context=run["context"], weight_bytes=1)
    predicted = halves / whole
    assert np.round(predicted, 2).tolist() == [1.10, 0.81, 0.72] and run["sequences_a_gpu"] == [32, 256]
    assert max(run["gain"]) == 0.255  # 35 % is of prompts
    assert (1 / (1 + np.array(run["gain"])) > predicted[[0, 2]]).all()


@pytest.mark.parametrize("name", ["all_reduce", "all_to_all", "half_batches", "production"])
def test_every_measurement_says_whose_it_is(name):
    for record in records.shipped(name):
        assert record.kind == "third_party" and record.by and record.on and record.source and record.licence


# Production, by others


def _node_bound(experts, gpus, **how):
    away = copies_sent(experts, V3.top_k, gpus, **how).across
    return 8 * PORT / (V3.num_moe_layers * sum(all_to_all_bytes(V3.d_model, away)))


def test_no_published_speed_beats_the_bound_of_its_exchanges():
    ours, theirs = (record.data for record in records.shipped("production"))
    decode = [of["decode_tokens_per_s"] / _node_bound(288, of["decode_gpus"], once="expert") for of in (ours, theirs)]
    prompts = [of["prefill_tokens_per_s"] / _node_bound(256, 32, once="node", group_limit=(8, 4))
               for of in (ours, theirs)]
    assert np.round(100 * np.array(decode + prompts)).tolist() == [35, 50, 51, 36]


def test_no_measured_step_of_r1_beats_its_layout_s_bound():
    run = records.shipped("served_r1_h200")[0].data
    steps = rank_step(V3, np.array(run["concurrency"]), Layout.parse("TP8"), weight_bytes=1, context=1024)
    share = step_time(steps, H200, "fp8").lower / run["mean_tpot_s"]
    assert share.max() < 1 and round(100 * share[-1]) == 47


def test_a_day_of_tokens_at_the_published_speeds_needs_the_published_nodes():
    day = records.shipped("production")[0].data
    nodes = sum(day[f"{way}put_tokens"] / day["seconds"] / day[f"{part}_tokens_per_s"]
                for way, part in (("in", "prefill"), ("out", "decode")))
    assert nodes == pytest.approx(day["nodes_mean"], rel=1e-3)


def test_the_report_s_256_tokens_an_expert_are_the_best_case_of_its_unit_of_320():
    copied = sum(count for _, count in V3.copied)
    always = V3.active_params_read - V3.top_k * V3.expert_params_all_layers - V3.ledger()["shared_experts"]
    weights = copied + (always - copied) / 4 + V3.expert_params_all_layers  # FP8; attention over 4 GPUs, one expert
    each = np.array([64, 128, 256]) * 256 / 8 / 320  # sequences of a GPU; the four hold one another's caches
    rate = each / (weights + 4 * each * 4989 * 70272) * DEVICES["h800"].bandwidth_bytes_per_s
    assert each[-1] == 25.6 and (np.diff(rate) > 0).all() and round(rate[-1], -1) == 2010


# The control


@pytest.fixture
def parallel():
    return faces("parallel")[0]


@pytest.fixture
def page():
    return faces("parallel")[1]


START = {"model": "deepseek-v3", "setup": "H200", "gpus": 8, "attention": 1, "experts": 1, "context": 8192}


def test_the_control_stands_at_the_spread_layout_and_fits_the_page(parallel, page):
    assert start(parallel) == START
    said = parallel.readout(**START)
    assert said["Layout"] == "DP8+EP8" and said["Sequences that fit"] == "504"
    assert sum(map(len, page["datasets"].values())) <= 5000


def test_curves_and_ends_of_the_page_are_steps_of_a_gpu(page):
    for row, end in list(zip(page["datasets"]["curve"], page["datasets"]["end"], strict=True))[::37]:
        model, setup, gpus, attention, experts, context = (row[name] for name in START)
        layout = Layout(attention_tp=int(attention), attention_dp=int(gpus) // int(attention), expert_tp=int(experts),
                        expert_parallel=int(gpus) // int(experts))
        chosen = sys.modules["moe_lib.figures.parallel"].SPREAD_ON[setup]  # the name in the package is the function
        device, link = DEVICES[chosen[0]], LINKS[chosen[1]]
        setting = {"weight_bytes": 1, "context": int(context)}
        fits = layout_sequences(CATALOG[model], layout, device.usable_bytes, **setting)
        work = 1e3 * step_time(rank_step(CATALOG[model], row["batch"], layout, **setting), device, "fp8").lower
        sent = 1e3 * link_time(CATALOG[model], row["batch"], layout, link, network=LINKS["ib-ndr"], in_switch=None)
        assert row["ms"] + row["open"] == pytest.approx([*np.maximum(work, sent), *(work + sent)], rel=1e-4)
        assert end["layout"] == row["layout"] and end["batch"] == row["batch"][-1] == min(fits, 65536)


def test_what_cannot_be_says_why_and_draws_nothing(parallel):
    odd = START | {"model": "qwen3-235b-a22b", "attention": 8, "experts": 8}
    said = parallel.readout(**odd)
    assert said["Layout"].startswith("cannot be: ")
    drawn = parallel.live_spec(**odd)["datasets"]
    mine = [[row for row in rows if (row["attention"], row["experts"]) == (8, 8)] for rows in drawn.values()]
    assert mine[0] == mine[1] == []
    why = [row["says"].replace("\n", " ") for row in mine[2]]
    assert why == problems(CATALOG[odd["model"]], Layout.parse("TP8"), weight_block=128)
    full = parallel.readout(**START | {"setup": "H800"})
    assert full["A GPU holds"].endswith("too much") and full["Sequences that fit"].startswith("cannot be: not one")


def test_both_faces_say_and_draw_the_same(parallel, page):
    chosen = START | {"model": "glm-4.5", "setup": "B200", "gpus": 32, "attention": 4, "context": 32768}
    assert page_says(page, **chosen) == parallel.readout(**chosen)
    for data, rows in parallel.live_spec(**chosen)["datasets"].items():
        assert rows and [row for row in rows if row not in page["datasets"][data]] == []


def test_a_reader_s_model_stands_first_and_the_page_stays_within_its_rows():
    assert rows_with_own_model(figures.parallel(MIXTRAL)) <= 5000


@both_versions
def test_the_control_is_valid_in_both_versions_of_vega_lite(parallel, page, version, caplog):
    for spec in (page, parallel.live_spec(**START | {"attention": 2, "experts": 8})):
        assert paths(spec, version, caplog) > 20


# The figures


def _figures():
    batch = 2 ** np.arange(11)
    times = {str(layout): 1e-4 * batch for layout in (Layout.parse("TP8"), Layout.parse("DP8+EP8"))}
    runs = {f"{n} GPUs": (batch, n * 1e-5 * batch) for n in (8, 16, 32, 64)}
    return {
        "layouts": figures.layouts(batch, times, dict.fromkeys(times, 149), 40),
        "overlap": figures.overlap(batch, {"8 GPUs": 2 / (1 + batch / 64), "64 GPUs": np.ones(11)},
                                  records.shipped("half_batches")[0].data),
        "exchange_times": figures.exchange_times(runs, {name: (*run, batch < 8) for name, run in runs.items()}),
    }


@both_versions
@pytest.mark.parametrize("name", _figures())
def test_a_figure_is_valid_in_both_versions_of_vega_lite_and_described(name, version, caplog):
    assert paths(_figures()[name].to_dict(), version, caplog) > 5


def test_a_layout_s_line_turns_dashed_where_its_caches_fill_the_gpus():
    layers = figures.layouts([1, 64, 256], {"TP8": [0.01, 0.02, 0.03]}, {"TP8": 149}, 40).to_dict()["layer"]
    beyond, within = (layer["data"]["values"] for layer in layers[:2])
    (cut, inside) = ((row["batch"], row["ms"]) for row in (beyond[0], within[-1]))
    assert cut == inside and inside[0] == 149


# What a token reaches


@pytest.mark.parametrize("num_gpus", [1, 2, 8, 64, 256])
def test_gpus_touched_agrees_with_another_hypergeometric(num_gpus):
    from scipy.stats import hypergeom

    missed = hypergeom.pmf(0, 256, 256 // num_gpus, 8)
    assert gpus_touched_per_token(256, 8, num_gpus) == pytest.approx(num_gpus * (1 - missed), rel=1e-12)
