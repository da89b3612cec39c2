import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG
from moe_lib.speculation import draft_tokens_kept, speculation_gain

V3, MIXTRAL, H200 = CATALOG["deepseek-v3"], CATALOG["mixtral-8x7b"], DEVICES["h200"]

models = st.sampled_from(list(CATALOG.values()))
BATCH = np.array([1, 4, 64, 128])


def test_the_gain_of_a_draft_of_one_is_a_u_in_the_batch():
    gain = speculation_gain(V3, BATCH, 0.8, H200, weight_bytes=1, dtype="fp8")
    assert gain == pytest.approx([1.17, 1.04, 1.60, 1.77], abs=0.005)


def test_a_draft_of_one_breaks_even_at_these_acceptances():
    break_even = [0.54, 0.73, 0.13, 0.02]
    gain = [speculation_gain(V3, BATCH, a, H200, weight_bytes=1, dtype="fp8") for a in (0, 1)]  # linear in acceptance
    assert (1 - gain[0]) / (gain[1] - gain[0]) == pytest.approx(break_even, abs=0.005)


def test_the_gain_of_a_dense_model_is_flat_until_it_is_compute_bound():
    gain = speculation_gain(CATALOG["llama-3.1-70b"], BATCH[:3], 0.8, H200)
    assert gain == pytest.approx(1.8)
    assert speculation_gain(CATALOG["llama-3.1-70b"], 10_000, 0.8, H200) == pytest.approx(0.9)


def test_a_draft_that_keeps_the_experts_of_its_token_gains_more():
    gain = [speculation_gain(V3, 4, 0.8, H200, weight_bytes=1, dtype="fp8", copy=copy) for copy in (0, 0.5, 1)]
    assert gain[0] < gain[1] < gain[2] == pytest.approx(1.8)  # as for a dense model: no further expert is read


def test_the_gains_of_several_models_are_those_of_each():
    gain = speculation_gain([V3, MIXTRAL], BATCH, 0.8, H200)
    assert gain.shape == (2, 4) and gain[1] == pytest.approx(speculation_gain(MIXTRAL, BATCH, 0.8, H200))


@given(models, st.integers(1, 10**5), st.floats(0, 1), st.integers(0, 8))
def test_no_draft_gains_nothing_and_none_gains_more_than_the_tokens_it_keeps(model, batch, acceptance, draft):
    assert speculation_gain(model, batch, acceptance, H200, draft=0) == pytest.approx(1)
    gain = speculation_gain(model, batch, acceptance, H200, draft=draft, context=500)
    assert gain <= draft_tokens_kept(acceptance, draft) * (1 + 1e-12)


def test_simulated_drafts_keep_as_many_tokens_as_the_formula_says():
    accepted = np.random.default_rng(1).random((50_000, 4)) < 0.7
    kept = 1 + np.cumprod(accepted, axis=1).sum(axis=1)
    assert kept.mean() == pytest.approx(draft_tokens_kept(0.7, 4), rel=0.01)


def test_a_perfect_draft_keeps_all_and_a_useless_one_a_single_token():
    assert draft_tokens_kept([0, 1, 0.5], [[3], [0]]).tolist() == [[1, 4, 1.875], [1, 1, 1]]


# arguments


@pytest.mark.parametrize("call, message", [
    (lambda: draft_tokens_kept(1.1, 1), r"acceptance must be within 0..1, got 1.1"),
    (lambda: draft_tokens_kept(0.5, -1), r"draft must be at least 0, got -1"),
    (lambda: speculation_gain(V3, 1, 0.8, H200, draft=None), r"draft must be a number .* got None"),
])
def test_errors_name_argument_value_and_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()
