import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG, dense_twin
from moe_lib.roofline import (
    attainable_flops_per_s,
    compute_bound_batch,
    compute_time,
    expert_compute_bound_batch,
    expert_intensity,
    fit_overhead,
    memory_time,
    ridge_point,
    step_time,
)
from moe_lib.steps import decode_step

V3, MIXTRAL, H200 = CATALOG["deepseek-v3"], CATALOG["mixtral-8x7b"], DEVICES["h200"]

models = st.sampled_from(list(CATALOG.values()))
devices = st.sampled_from([device for device in DEVICES.values() if "bf16" in device.peak_flops_per_s])


# ridge and bounds


@pytest.mark.parametrize("slug, ridge", [("a100-80gb", 153), ("h100", 295), ("h200", 206), ("b200", 292)])
def test_ridge_points_in_bf16(slug, ridge):
    assert ridge_point(DEVICES[slug]) == pytest.approx(ridge, abs=0.5)


def test_fp8_arithmetic_doubles_the_ridge_of_an_h200():
    assert ridge_point(H200, "fp8") / ridge_point(H200) == pytest.approx(2, rel=1e-3)


@given(models, devices, st.integers(1, 10**6), st.integers(0, 200_000), st.integers(1, 64))
def test_bounds_hold_both_terms_and_differ_by_two_at_most(model, device, batch, context, num_gpus):
    step = decode_step(model, batch, context=context)
    bounds = step_time(step, device, num_gpus=num_gpus)
    terms = memory_time(step, device, num_gpus), compute_time(step, device, num_gpus=num_gpus)
    assert bounds.lower == max(terms) and bounds.upper == pytest.approx(sum(terms))
    assert bounds.lower <= bounds.upper <= 2 * bounds.lower


@given(models, devices, st.integers(1, 10**6))
def test_a_step_is_compute_bound_just_where_its_intensity_exceeds_the_ridge(model, device, batch):
    step = decode_step(model, batch)
    compute_bound = compute_time(step, device) > memory_time(step, device)
    assert compute_bound == (step.intensity > ridge_point(device))


@given(models, st.integers(1, 1000), st.integers(1, 64))
def test_an_ideal_split_divides_the_time(model, batch, num_gpus):
    step = decode_step(model, batch)
    one, many = step_time(step, H200), step_time(step, H200, num_gpus=num_gpus)
    assert np.array(many) * num_gpus == pytest.approx(np.array(one))


def test_bounds_broadcast_over_models_batches_and_gpus():
    step = decode_step([V3, MIXTRAL], [1, 64, 4096])
    assert step_time(step, H200).lower.shape == (2, 3)
    assert step_time(decode_step(V3, 64), H200, num_gpus=[1, 8]).upper.shape == (2,)
    assert np.ndim(step_time(decode_step(V3, 64), H200).lower) == 0


@given(models, devices, st.integers(1, 10**6))
def test_the_roof_times_the_lower_bound_is_the_work(model, device, batch):
    step = decode_step(model, batch)
    roof = attainable_flops_per_s(step.intensity, device)
    assert roof * step_time(step, device).lower == pytest.approx(step.flops)


def test_the_roof_meets_the_peak_at_the_ridge():
    assert attainable_flops_per_s(ridge_point(H200), H200) == pytest.approx(H200.peak())
    assert attainable_flops_per_s([0, 1, 1e6], H200).tolist() == [0, 4.8e12, 989e12]


# one expert


@given(st.integers(1, 10**4), st.integers(1, 10**4), st.integers(0, 10**6), st.sampled_from([0.5, 1, 2]))
def test_an_expert_has_intensity_2m_over_w_without_activations_and_less_with_them(d_model, d_expert, tokens, width):
    bare = expert_intensity(d_model, d_expert, tokens, weight_bytes=width, activation_bytes=0)
    assert bare == pytest.approx(2 * tokens / width)
    assert expert_intensity(d_model, d_expert, tokens, weight_bytes=width) <= bare


def test_activations_bound_the_intensity_of_an_expert():
    limit = 3 * 7168 * 2048 / (2 * (7168 + 2048))
    assert expert_intensity(7168, 2048, 10**12) == pytest.approx(limit)
    assert expert_intensity(7168, 2048, 206) < 206 < expert_intensity(7168, 2048, 300)


# enough batch


def test_deepseek_v3_turns_compute_bound_at_3770_tokens_and_its_experts_at_6593():
    assert compute_bound_batch(V3, H200, weight_bytes=2) == pytest.approx(3770, abs=0.5)
    assert expert_compute_bound_batch(256, 8, ridge_point(H200)) == pytest.approx(6593, abs=0.5)


def test_weights_of_four_bits_computed_in_bf16_turn_compute_bound_at_942():
    assert compute_bound_batch(V3, H200, "bf16", weight_bytes=0.5) == pytest.approx(942, abs=0.5)


def test_a_dense_twin_turns_compute_bound_at_the_ridge():
    assert compute_bound_batch(dense_twin(V3), H200, weight_bytes=2) == pytest.approx(ridge_point(H200))
    assert expert_compute_bound_batch(1, 1, ridge_point(H200)) == ridge_point(H200) == pytest.approx(206, abs=0.5)


@given(models, devices, st.sampled_from([0.5, 1, 2]), st.sampled_from([0, 500]))
def test_at_the_compute_bound_batch_both_times_are_equal(model, device, weight_bytes, context):
    batch = compute_bound_batch(model, device, weight_bytes=weight_bytes, context=context)
    step = decode_step(model, min(batch, 1e12), weight_bytes=weight_bytes, context=context)
    assert np.isinf(batch) or compute_time(step, device) == pytest.approx(memory_time(step, device), rel=1e-6)


def test_a_long_context_may_never_turn_compute_bound():
    llama = CATALOG["llama-3.1-405b"]
    assert np.isfinite(compute_bound_batch(llama, H200, context=1000))
    assert compute_bound_batch(llama, H200, context=100_000) == np.inf
    assert decode_step(llama, 1e12, context=100_000).intensity < ridge_point(H200)


@given(st.integers(1, 512), st.floats(1, 1000), st.sampled_from([0.5, 1, 2]))
def test_experts_alone_need_ridge_tokens_each(top_k, ridge, weight_bytes):
    batch = expert_compute_bound_batch(512, top_k, ridge, weight_bytes=weight_bytes)
    assert batch * top_k / 512 == pytest.approx(ridge * weight_bytes / 2)


# MoE against its dense twin


def ratio(batch):
    times = [step_time(decode_step(m, batch, weight_bytes=2), H200).lower for m in (V3, dense_twin(V3))]
    return times[0] / times[1]


def test_the_moe_takes_18_3_times_its_twin_at_206_tokens_and_the_same_from_3770():
    batch = np.arange(1, 5000)
    assert ratio(1) == pytest.approx(1)
    assert batch[ratio(batch).argmax()] == 206 and ratio(batch).max() == pytest.approx(18.3, abs=0.05)
    assert (ratio(batch[batch < 3769]) > 1)[1:].all() and ratio(np.arange(3770, 10**5, 999)) == pytest.approx(1)


def test_the_peak_of_the_ratio_is_total_over_active_but_for_the_embedding_and_the_last_experts():
    assert ratio(206) == pytest.approx(V3.total_params / V3.active_params_read, rel=0.01)  # 1 - C(206) = 0.1 %


# two constants


@given(st.floats(1e-6, 1e-2), st.floats(0.05, 1))
def test_the_fit_finds_the_constants_it_was_fed(t0, efficiency):
    limit = np.geomspace(1e-5, 1e-2, 9)
    assert fit_overhead(limit, t0 + limit / efficiency) == pytest.approx((t0, efficiency), rel=1e-6)


def test_the_fit_weighs_relative_errors_and_stands_noise():
    limit = np.geomspace(1e-5, 1e-2, 200)
    noise = np.exp(np.random.default_rng(2).normal(0, 0.05, limit.size))
    t0, efficiency = fit_overhead(limit, (30e-6 + limit / 0.86) * noise)
    assert t0 == pytest.approx(30e-6, rel=0.05) and efficiency == pytest.approx(0.86, rel=0.02)  # 5 % noise, 200 points


@pytest.mark.parametrize("measured", [[4e-3, 2e-3, 1e-3], [3e-3, 3e-3, 3e-3]])
def test_times_that_do_not_rise_with_their_limits_have_no_efficiency(measured):
    with pytest.raises(ValueError, match="measured_s must rise with limit_s"):
        fit_overhead([1e-3, 2e-3, 4e-3], measured)


def test_the_fit_keeps_its_overhead_non_negative():
    limit = np.array([1e-3, 2e-3, 4e-3])
    t0, efficiency = fit_overhead(limit, limit / 0.5 - 1e-4)
    assert t0 == 0 and efficiency > 0.5


@pytest.mark.parametrize("call, message", [
    (lambda: ridge_point(DEVICES["a100-80gb"], "fp8"), r"dtype must be one of bf16 on a100-80gb, got 'fp8'"),
    (lambda: ridge_point(DEVICES["m4-max"]), r"dtype must be one of \(no peak is published\) on m4-max"),
    (lambda: step_time(decode_step(V3, 1), H200, num_gpus=0), r"num_gpus must be at least 1, got 0"),
    (lambda: expert_compute_bound_batch(8, 9, 200), r"top_k must be whole and within 1..8, got 9"),
    (lambda: expert_compute_bound_batch(0, 1, 200), r"num_experts must be whole and at least 1, got 0"),
    (lambda: expert_compute_bound_batch(8, 2, -1), r"ridge must be at least 0, got -1"),
    (lambda: expert_compute_bound_batch(8, 2, 1, weight_bytes=-1), r"weight_bytes must be at least 0, got -1"),
    (lambda: attainable_flops_per_s(-1, H200), r"intensity must be at least 0, got -1"),
    (lambda: expert_intensity(0, 1, 1), r"d_model must be at least 1, got 0"),
    (lambda: expert_intensity(1, 1, -1), r"tokens must be at least 0, got -1"),
    (lambda: compute_bound_batch(V3, H200, context=-1), r"context must be at least 0, got -1"),
    (lambda: compute_bound_batch(V3, H200, context=[1, 2]), r"context must be one number, got \[1, 2\]"),
    (lambda: fit_overhead([1, 2], [1, 0]), r"measured_s must be above 0, got 0"),
    (lambda: fit_overhead([1, 1], [1, 2]), r"two or more different limits"),
    (lambda: fit_overhead([1, 2, 3], [1, 2]), r"limit_s and measured_s must be equally long"),
])
def test_errors_name_argument_value_and_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()
