"""The coverage page: its formulas beyond the curve, its controls and figures, its third-party rows."""

import json

import numpy as np
import pytest
from conftest import ROOT
from drawing import both_versions, faces, paths, start
from hypothesis import given
from hypothesis import strategies as st
from page_rules import cells

from moe_lib import figures
from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG, dense_twin
from moe_lib.records import inclusion, router_loads, shipped
from moe_lib.roofline import compute_bound_batch
from moe_lib.routing import coverage, coverage_of, experts_touched, independent_tokens, sample_routing, zipf_inclusion
from moe_lib.speculation import speculation_gain

V3, H200 = CATALOG["deepseek-v3"], DEVICES["h200"]
MADE = ("wall", "coverage", "speculation")


def test_the_overlap_of_neighbours_is_the_share_they_lose():
    copy = (0.34 - 8 / 256) / (1 - 8 / 256)  # GLM-5.2, as counted by others: 13.3 distinct experts for two tokens
    assert experts_touched(256, 8, independent_tokens(256, 8, 2, copy)) == pytest.approx(8 * (2 - 0.34))


# drafts


def test_a_draft_on_a_dense_model_gains_all_it_keeps_until_computing_binds():
    gain = speculation_gain(dense_twin(V3), [1, 8, 64], 0.8, H200, draft=2, dtype="fp8", weight_bytes=1, copy=0.5)
    assert gain == pytest.approx(1 + 0.8 + 0.64)


def prose(page):
    return "\n".join(cell.source for cell in cells(ROOT / "notebooks" / f"{page}.ipynb", "markdown"))


def test_page_02_says_from_where_each_of_the_two_steps_is_compute_bound():
    tokens = compute_bound_batch(V3, H200, "fp8", weight_bytes=1)  # of which a step that checks a draft has two each
    checking, plain = np.ceil([tokens / 2, tokens])
    assert f"compute-bound from {checking:,.0f} sequences on, the plain step only from {plain:,.0f}." in prose(
        "02_coverage")


@pytest.mark.parametrize("page", ["00_workshop", "02_coverage", "03_intensity", "05_measure_it"])
def test_a_page_with_a_bound_from_coverage_says_for_which_router_it_is_one_and_what_bounds_any(page):
    assert "a uniform router" in prose(page) and "any router" in prose(page).replace("*any*", "any")


@given(st.floats(0, 1), st.integers(1, 4000), st.integers(1, 6))
def test_repeating_drafts_gain_no_less(copy, batch, draft):
    gains = [speculation_gain(V3, batch, 0.7, H200, draft=draft, copy=r) for r in (0, copy, 1)]
    assert gains == sorted(gains) or np.ptp(gains) < 1e-9


# controls


def test_the_wall_stands_at_64_tokens_and_34_unlit_experts():
    said = faces("wall")[0].readout(**start(faces("wall")[0]))
    assert (said["Unlit in this step"], said["Unlit, expected"]) == ("34 of 256", "33.6 ± 4.5")
    assert said["Tokens per lit expert"] == "2.31 (over all: 2.0)"


def test_squares_hold_every_choice_once_and_never_go_out():
    before = None
    for wall in (row for row in faces("wall")[1]["datasets"]["wall"] if row["router"] == "olmoe"):
        tokens = np.array(wall["tokens"])
        assert tokens.sum() == 8 * wall["batch"] and tokens.max() <= wall["batch"]
        assert before is None or (tokens >= before).all()
        before = tokens


def test_the_wall_s_curves_are_the_library_s():
    loads = {tuple(of.data[key] for key in ("model", "domain", "layer")): inclusion(of) for of in router_loads()}
    for row in faces("wall")[1]["datasets"]["curve"]:
        if row["router"] == "olmoe":
            expected = coverage_of(loads["OLMoE-1B-7B", "wikipedia", 15], row["batch"])
            assert row["share"] == pytest.approx(expected, rel=1e-4)
            assert row["share"] <= row["uniform"]
        elif row["router"] == "deepseek-v3":
            assert row["share"] == pytest.approx(coverage(256, 8, row["batch"]), rel=1e-4)
            assert row["low"] <= row["share"] <= row["high"]


def test_the_coverage_control_draws_the_formula_and_its_bound():
    for row in faces("coverage")[1]["datasets"]["curve"][::41]:
        E, k, batch = row["num_experts"], row["top_k"], row["batch"]
        assert row["share"] == pytest.approx(coverage_of(zipf_inclusion(E, k, row["skew"]), batch), rel=1e-4)
        assert row["uniform"] == pytest.approx(coverage(E, k, batch), rel=1e-4)
        assert row["share"] <= row["uniform"] * (1 + 1e-4)  # rows keep five digits


def test_more_choices_than_experts_are_refused_in_words_and_draw_nothing():
    impossible = {"num_experts": 4, "top_k": 8, "skew": 0, "batch": 64}
    assert set(faces("coverage")[0].readout(**impossible).values()) == {"cannot be: 8 of 4 experts"}
    assert faces("coverage")[0].live_spec(**impossible)["datasets"]["curve"] == []
    assert all(row["top_k"] <= row["num_experts"] for row in faces("coverage")[1]["datasets"]["curve"])


def test_a_reader_s_own_router_is_chosen():
    config = {"model_type": "qwen3_moe", "hidden_size": 512, "moe_intermediate_size": 256, "intermediate_size": 1024,
              "num_experts": 96, "num_experts_per_tok": 3, "num_hidden_layers": 4, "num_attention_heads": 8,
              "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 32000}
    assert {"num_experts": 96, "top_k": 3}.items() <= start(figures.coverage(config)).items()
    curve = figures.speculation(json.dumps(config)).static()["datasets"]["curve"]
    assert {"g0", "g1", "g2", "g3"} <= curve[0].keys()


def test_the_speculation_control_draws_the_formula():
    for row in faces("speculation")[1]["datasets"]["curve"][::211]:
        gain = speculation_gain(V3, row["batch"], row["acceptance"], H200, draft=row["draft"], copy=row["copy"],
                                dtype="fp8", weight_bytes=1)
        assert row["g0"] == pytest.approx(gain, rel=1e-4)


def specs():
    batch, shares = [1, 4, 16], np.array([0.1, 0.3, 0.7])
    yield figures.covered({"one": {"batch": batch, "lines": {"bound": shares, "real": [shares / 2, shares / 3]}}} | {
        "two": {"batch": batch, "lines": {"bound": shares, "real": [shares / 2]}, "points": {"seen": shares}}})
    yield figures.covered({"one": {"batch": batch, "lines": {"bound": shares}, "points": {"seen": shares}}})
    lines = {"bound": 1e-3 * shares, "active": 5e-4 * shares}
    yield figures.layer_times(batch, lines, {"measured": (batch, 2e-3 * shares)})


@both_versions
def test_every_figure_of_the_page_is_valid_in_both_versions_of_vega_lite(version, caplog):
    every = [*(faces(name)[1] for name in MADE), *(figure.to_dict() for figure in specs()),
             faces("wall")[0].live_spec(router="olmoe", batch=37),
             faces("coverage")[0].live_spec(num_experts=60, top_k=4, skew=1, batch=5)]
    for spec in every:
        assert paths(spec, version, caplog) > 10


# what others measured


def test_measured_kernels_grow_with_the_experts_touched():
    balanced, power_law, fp8 = (record.data for record in shipped("moe_kernels")[2:5])
    growth = [dict(zip(of["num_tokens"], of["latency_s"], strict=True)) for of in (balanced, power_law, fp8)]
    assert [round(of[128] / of[1], 1) for of in growth] == [25.1, 20.8, 16.4]
    for of in (balanced, fp8):  # no faster than reading each touched expert once
        read = 3 * of["d_model"] * of["d_expert"] * of["weight_bytes"] / H200.bandwidth_bytes_per_s
        assert (np.array(of["latency_s"]) >= read * np.minimum(256, 8 * np.array(of["num_tokens"]))).all()


def test_speed_ups_of_r1_are_the_ratios_of_its_speeds():
    r1 = shipped("drafts")[0].data
    assert np.array(r1["speedup"]) == pytest.approx(np.array(r1["tokens_per_s"]) / r1["tokens_per_s"][0], abs=0.006)
    assert (np.array(r1["tokens_kept"]) <= 1 + np.array(r1["draft"])).all()


# chance at the ends


def test_the_idlest_and_the_busiest_expert_lie_where_simulation_puts_them():
    rng, steps = np.random.default_rng(1), 12
    loads = [np.bincount(sample_routing(rng, 8192, 256, 8).ravel(), minlength=256) for _ in range(steps)]
    assert np.mean([load.min() for load in loads]) == pytest.approx(213, rel=0.03)  # 12 steps: standard error 0.8 %
    assert np.mean([load.max() for load in loads]) == pytest.approx(302, rel=0.03)
