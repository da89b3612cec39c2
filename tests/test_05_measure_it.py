"""What page 05 rests on: timed layers and their counts, two constants, its control and its figures."""

import json
from dataclasses import FrozenInstanceError, asdict, replace

import numpy as np
import pytest
from drawing import both_versions, faces, page_says, paths, start, widgets_of

from moe_lib import figures, measured, records, routing
from moe_lib.bench import suite
from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG

HOPPER = ("h100", "h200")
OTHERS = ("deepseek-v3", "qwen3-235b-a22b")
SGLANG = {"framework": "SGLang 0.5.10", "dtype": "bf16", "device": "h200", "model": "deepseek-v3"}


def own_record(seconds=0.002, touched=((4, 4), (7, 8), (25, 27))):
    """A record such as the benchmark writes: three batches, two samples each."""
    data = {"batch": [1, 2, 8], "touched": [list(of) for of in touched], "bytes_per_s": 30e9, "flops_per_s": 60e9,
            "seconds": [[seconds * n / 4 for n in of] for of in touched], "expert_bytes": 12 * 1024 * 512,
            "num_experts": 64, "top_k": 4, "d_model": 1024, "d_expert": 512, "flops_per_token": 6 * 4 * 1024 * 512}
    return records.Record(kind="measured", what="moe_decode", on="a test", software="none", data=data)


# Three kinds of routing, three counts


@pytest.mark.parametrize(("E", "k"), [(8, 2), (64, 4), (256, 8)])
def test_strided_routing_touches_the_most_that_a_step_can(E, k):
    token, slot = np.arange(80)[:, None], np.arange(k)
    chosen = (token + slot * (E // k)) % E
    touched = [np.unique(chosen[:B]).size for B in range(1, 81)]
    assert touched == routing.most_experts_touched(E, k, np.arange(1, 81)).tolist()


def test_no_routing_touches_more_than_the_most_and_uniform_routing_stays_below_it():
    batch = np.arange(1, 200)
    assert (routing.experts_touched(256, 8, batch) <= routing.most_experts_touched(256, 8, batch)).all()


def test_each_kind_of_routing_is_counted_by_its_own_formula_and_an_unknown_one_refused():
    layer = measured.layers(**SGLANG)[0].at(64)
    count = {of: layer.experts_touched(of) for of in ("balanced", "uniform", "power law")}
    assert count == {"balanced": 256, "uniform": pytest.approx(222.44, abs=0.01), "power law": count["uniform"]}
    assert replace(layer, distribution="power law").experts_touched() == count["uniform"]
    assert replace(layer, touched=200).experts_touched() == 200
    with pytest.raises(ValueError, match="distribution must be one of"):
        layer.experts_touched("chance")


# What NVIDIA timed


def test_the_timed_layers_are_complete_and_belong_to_the_catalogue():
    every = measured.layers()
    assert (len(every), sum(of.num_tokens.size for of in every)) == (192, 2496)
    for of in every:
        model = CATALOG[of.model]
        assert (of.num_experts, of.top_k, of.d_model, of.d_expert) == (
            model.num_experts, model.top_k, model.d_model, model.d_expert)


def test_a_timed_layer_cannot_be_changed_and_prints_in_one_line():
    layer = measured.layers(**SGLANG)[0]
    with pytest.raises(FrozenInstanceError):
        layer.top_k = 2
    with pytest.raises(ValueError, match="read-only"):
        layer.latency_s[0] = 1
    said = str([layer, measured.from_bench(own_record())])
    assert said == ("[TimedLayer(deepseek-v3 on h200, SGLang 0.5.10, bf16, balanced: 13 times, 1 to 16,384 tokens), "
                    "TimedLayer(4 of 64 experts of 1,024 x 512: 3 times, 1 to 8 tokens)]")


def test_a_part_of_a_timed_layer_is_a_timed_layer():
    layer = measured.layers(**SGLANG)[0]
    assert layer.up_to(64).num_tokens.tolist() == [1, 2, 4, 8, 16, 32, 64]
    assert layer.at([128, 1]).latency_s.tolist() == layer.latency_s[[7, 0]].tolist()
    assert layer.at(128).over_limit == layer.over_limit[7] and layer.at(1).experts_touched() == 8
    with pytest.raises(ValueError, match="tokens must be among those timed, 1, 2, 4.*, got 3"):
        layer.at(3)


def test_times_that_fit_no_batches_are_refused():
    layer = measured.layers(**SGLANG)[0]
    with pytest.raises(ValueError, match="num_tokens, latency_s must be equally long"):
        replace(layer, latency_s=[1e-3])
    with pytest.raises(ValueError, match="latency_s must be above 0"):
        replace(layer, latency_s=13 * [0])


def test_a_limit_is_what_bytes_and_flop_take_at_published_peaks():
    layer = measured.layers(**SGLANG, distribution="balanced")[0]
    h200, size = DEVICES["h200"], 3 * 7168 * 2048
    for at, tokens in ((3, 8), (12, 16384)):
        read = min(256, 8 * tokens) * 2 * size / h200.bandwidth_bytes_per_s
        assert layer.limit()[at] == pytest.approx(max(read, 2 * 8 * tokens * size / h200.peak()))


def test_rows_below_the_limit_and_slow_kernels_are_found_by_rule():
    every = measured.layers()
    below = [of for of in every if of.impossible.any()]
    assert sum(of.impossible.sum() for of in below) == 37
    assert {(of.model, of.dtype, of.framework) for of in below} == {
        ("deepseek-v3", "fp8_block", "SGLang 0.5.14"), ("deepseek-v3", "fp8_block", "vLLM 0.24.0")}
    slow = [of for of in every if of.slow]
    assert sum(of.num_tokens.size for of in slow) == 156
    assert {(of.framework, of.dtype) for of in slow} == {("vLLM 0.24.0", "fp8")}


def test_sound_balanced_rows_never_beat_the_limit():
    for of in measured.layers(distribution="balanced"):
        assert (of.over_limit[~of.impossible] >= 1).all()


def test_the_uniform_count_is_no_floor_for_other_routers_and_k_experts_are():
    skewed, every = measured.layers(distribution="power law"), measured.layers()
    over = np.concatenate([of.latency_s / of.limit(of.experts_touched("uniform")) for of in skewed])
    assert over.size == 1352 and (over < 1).sum() == 80 and over.min() == pytest.approx(0.79, abs=0.005)
    for of in every:
        assert (of.latency_s > of.limit(routing.least_experts_touched(of.num_experts, of.top_k, of.num_tokens))).all()


def test_a_layer_that_nobody_timed_is_refused_by_name():
    with pytest.raises(ValueError, match="no timed layer has device = 'h20'"):
        measured.layers(device="h20")
    with pytest.raises(ValueError, match="framework must be TRT-LLM, SGLang or vLLM"):
        measured.constants("llama.cpp")


# Two constants


@pytest.mark.parametrize(("framework", "bar"), [("TRT-LLM 1.3.0rc20", 0.07), ("SGLang 0.5.10", 0.10)])
def test_constants_of_two_models_predict_two_others(framework, bar):
    of = {"framework": framework, "device": HOPPER, "distribution": "balanced"}
    fitted = measured.fit(measured.layers(**of, model=measured.FITTED_ON))
    assert fitted == measured.constants(framework)
    assert 25e-6 < fitted[0] < 40e-6 and 0.7 < fitted[1] < 0.9
    assert measured.error(measured.layers(**of, model=OTHERS), fitted) <= bar


@pytest.mark.parametrize("framework", ["TRT-LLM 1.3.0rc20", "SGLang 0.5.10", "vLLM 0.24.0"])
def test_each_kind_of_routing_is_predicted_best_by_its_own_count(framework):
    counts = {"balanced": lambda of: of.experts_touched("balanced"),
              "power law": lambda of: of.experts_touched("uniform"),
              "active": lambda of: of.top_k, "all": lambda of: of.num_experts}
    for routed in ("balanced", "power law"):
        of = {"framework": framework, "device": HOPPER, "distribution": routed}
        known, new = (measured.layers(**of, model=models) for models in (measured.FITTED_ON, OTHERS))
        off = {name: measured.error(new, measured.fit(known, count), count) for name, count in counts.items()}
        assert min(off, key=off.get) == routed and min(off["active"], off["all"]) > 5 * off[routed]


def test_a_fit_finds_the_constants_that_made_the_times_and_the_share_the_experts():
    layer = measured.layers(**SGLANG, distribution="balanced")[0]
    made = replace(layer, latency_s=30e-6 + layer.limit() / 0.8)
    fitted = measured.fit([made])
    assert fitted == pytest.approx((30e-6, 0.8)) and measured.error([made], fitted) < 1e-9
    at, share = made.share_of_all(fitted)
    assert share[:12] == pytest.approx(np.minimum(1, at[:12])) and np.isnan(share[12])


def test_every_time_has_one_cause_and_no_row_is_left_out():
    causes = np.concatenate([of.cause for of in measured.layers()])
    count = {str(of): int((causes == of).sum()) for of in set(causes)}
    assert sum(count.values()) == 2496 and len(count) == 7
    assert (count["below the limit"], count["slow kernel"]) == (37, 156)


# A reader's machine


def test_a_layer_of_the_benchmark_is_held_against_the_limits_of_the_benchmark():
    record = own_record()
    assert measured.from_bench(record).over_limit == pytest.approx(suite.ratios(record))
    with pytest.raises(ValueError, match="'membw' holds no timed layer"):
        measured.from_bench(records.Record(kind="measured", what="membw", data={"bytes_per_s": [1.0]}))


def test_a_fit_survives_any_times_of_a_reader_s_machine():
    rng = np.random.default_rng(0)
    for scale in (1e-6, 1, 1e3):
        record = own_record(seconds=scale * rng.uniform(0.5, 2))
        layer = measured.from_bench(record)
        t0, efficiency = measured.fit([layer.up_to(32)])
        assert t0 >= 0 and efficiency > 0


# The control


@pytest.fixture
def figure():
    return faces("measured")[0]


@pytest.fixture
def page():
    return faces("measured")[1]


def test_the_control_stands_at_the_layer_of_the_worked_example(figure):
    said = figure.readout(**start(figure))
    assert said["Timed by"] == "NVIDIA, SGLang 0.5.10" and said["At one token, over the limit"] == "1.46 times"
    assert said["Closest to its limit"] == "1.13 times, at 16 tokens" and said["Not to be trusted"] == "none"


def test_points_of_the_page_are_times_over_their_limit(page):
    assert sum(map(len, page["datasets"].values())) <= 5000
    layer = measured.layers(**SGLANG, distribution="balanced")[0]
    rows = [row for row in page["datasets"]["times"] if row["key"] == "h200|SGLang|bf16|deepseek-v3|balanced"]
    assert [row["measured"] for row in rows] == pytest.approx(layer.latency_s, rel=1e-4)
    assert [row["limit"] for row in rows] == pytest.approx(layer.limit(), rel=1e-4)
    assert rows[7]["limit"] / rows[7]["active"] == pytest.approx(32, rel=1e-3)


def test_the_control_says_the_same_live_and_on_the_page(figure, page):
    chosen = {"device": "b200", "framework": "SGLang", "precision": "fp8_block", "model": "deepseek-v3",
              "routing": "balanced"}
    assert page_says(page, **chosen) == figure.readout(**chosen)
    assert figure.readout(**chosen)["Not to be trusted"].startswith("7 of 13 times")
    assert not all(row["valid"] for row in figure.live_spec(**chosen)["datasets"]["times"])


def test_what_was_not_timed_says_so_and_draws_nothing(figure):
    chosen = {"device": "a100-80gb", "framework": "TRT-LLM", "precision": "fp8", "model": "deepseek-v3",
              "routing": "balanced"}
    assert {text[:9] for text in figure.readout(**chosen).values()} == {"not timed"}
    assert figure.live_spec(**chosen)["datasets"]["times"] == []


def test_a_reader_s_record_comes_first_from_a_list_or_a_file(tmp_path):
    record, path = own_record(), tmp_path / "mine.jsonl"
    records.write(path, [record])
    for own, name in ([record], "moe_decode, a test"), (path, "mine.jsonl: moe_decode, a test"):
        machine = figures.measured(own).choices[0]
        assert machine.start == next(iter(machine.options.values())) == name


def test_a_record_is_said_to_be_timed_where_it_was_and_from_which_file():
    control = figures.measured([own_record()])
    assert control.readout(**start(control))["Timed by"] == "a test; none"
    told = [control.readout(**start(control, device=control.add_model([own_record()], file)))["Timed by"]
            for file in ("first.jsonl", "second.jsonl")]
    assert told == ["a test; none; first.jsonl", "a test; none; second.jsonl"]


def test_what_is_no_choice_for_a_reader_s_record_is_greyed_out_on_both_faces():
    control = figures.measured([own_record()])
    told, view = control.static()["usermeta"]["choices"], control.live()
    (machine, layer), radios = widgets_of(view, "Dropdown"), widgets_of(view, "ToggleButtons")
    assert [of["idle"] for of in told] == [{}] + 4 * [{"device": ["moe_decode, a test"]}]
    assert not machine.disabled and [of.disabled for of in (layer, *radios)] == 4 * [True]
    machine.value = "h200"
    assert [of.disabled for of in (layer, *radios)] == 4 * [False]


def test_an_uploaded_record_is_drawn_and_told_whatever_else_is_chosen():
    control = figures.measured()
    name = control.add_model(control.choices[0].reads(json.dumps(asdict(own_record()))))
    chosen = start(control, device=name, framework="vLLM", precision="fp8", model="mixtral-8x7b")
    assert [row["batch"] for row in control.live_spec(**chosen)["datasets"]["times"]] == [1, 2, 8]
    assert control.readout(**chosen)["Layer"] == "64 experts of 1,024 × 512, 4 chosen"


@both_versions
def test_a_layer_whose_times_cannot_be_fitted_is_drawn_without_constants(version, caplog):
    data = own_record(touched=3 * [(4, 4)]).data | {"flops_per_s": 1e15}  # a dense twin on a GPU: one limit for all
    control = figures.measured([replace(own_record(), what="dense_twin", data=data)])
    said = control.readout(**start(control))
    assert (said["Two constants"], said["They are off by"]) == ("none: no rise up to 32 tokens", "not fitted")
    rows = control.live_spec(**start(control))["datasets"]["times"]
    assert [row["fitted"] for row in rows] == 3 * [None] and paths(control.static(), version, caplog) > 5


def test_an_upload_without_a_timed_layer_is_refused_in_words(figure):
    bare = records.Record(kind="measured", what="membw", data={"bytes_per_s": [1.0]})
    with pytest.raises(ValueError, match="no record of a timed layer"):
        figure.add_model([bare])
    with pytest.raises(ValueError, match="line 2: "):
        figure.choices[0].reads(json.dumps(asdict(bare)) + "\n{}")


# The figures


def _figures():
    batch, seconds = np.array([1, 2, 4]), np.array([1e-3, 2e-3, 5e-3])
    both = {"a mixture": (batch, seconds), "its twin": (batch, seconds / 2)}
    law = {"uniform routing": (batch, seconds), "strided routing": (batch, seconds)}
    points = [("uniform routing", "yours", batch, [0.1, np.nan, 0.5]),
              ("strided routing", "h200", batch, [0.1, 0.2, 1])]
    return {"machine": figures.machine(both, both), "one_curve": figures.one_curve(law, points),
            "missed_by": figures.missed_by({"one": np.array([0.5, 1, 2]), "two": np.array([4.0, 8.0])}),
            "over_limit": figures.over_limit(batch, {"one": [1.5, 1.2, 1.1], "two": [0.9, 0.6, 0.8]})}


@both_versions
@pytest.mark.parametrize("name", _figures())
def test_a_figure_is_valid_in_both_versions_of_vega_lite_and_described(name, version, caplog):
    assert paths(_figures()[name].to_dict(), version, caplog) > 5


@both_versions
def test_the_control_is_valid_in_both_versions_of_vega_lite(page, version, caplog):
    own = figures.measured([own_record()])
    for spec in (page, own.static()):
        assert paths(spec, version, caplog) > 20


def test_a_share_that_arithmetic_hides_is_not_drawn():
    drawn = _figures()["one_curve"].to_dict()
    rows = [row for layer in drawn["layer"] for row in layer["data"]["values"] if row.get("series") == "yours"]
    assert [row["at"] for row in rows] == [1, 4]


def test_misses_are_told_as_a_percentage_or_a_factor():
    rows = figures.missed_by({"near": np.array([0.9, 1.1]), "far": np.array([4.0, 4.0])}).to_dict()
    table = next(layer["data"]["values"] for layer in rows["layer"] if len(layer["data"]["values"]) == 2)
    assert [row["off"] for row in table] == ["off by 10 %", "off by 4.0 times"]


@pytest.mark.parametrize(("fields", "message"), [
    ({"num_experts": 0}, "num_experts must be"), ({"top_k": 9}, "top_k must be whole and within 1..8"),
    ({"weight_bytes": 0}, "weight_bytes must be above 0"), ({"device": "h20O"}, "is not a known device; did you mean"),
    ({"distribution": "chance"}, "distribution must be one of balanced, uniform, power law"),
])
def test_a_timed_layer_is_checked_when_it_is_made(fields, message):
    right = {"num_experts": 8, "top_k": 2, "d_model": 64, "d_expert": 64, "weight_bytes": 2, "num_tokens": [1],
             "latency_s": [1e-3]}
    with pytest.raises(ValueError, match=message):
        measured.TimedLayer(**right | fields)
    assert "1 time, 1 token)" in repr(measured.TimedLayer(**right))


def test_timed_layers_are_found_by_names_in_any_case():
    assert measured.layers(device="H200", model="DeepSeek-V3") == measured.layers(device="h200", model="deepseek-v3")
    assert measured.constants("trt-llm") == measured.constants("TRT-LLM")
