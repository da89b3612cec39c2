"""The worked example, to the digit: from four rounded counts, and from exact parameters."""

import pytest

from moe_lib.models import CATALOG, from_counts
from moe_lib.routing import batch_for_tokens_per_expert
from moe_lib.steps import decode_step, resident_bytes

V3 = from_counts("DeepSeek-V3", 671e9, 37e9, 256, 8)
EXACT = CATALOG["deepseek-v3"]


def digits(text):
    """A number whose last digit may be off by half a unit, as printed."""
    decimals = len(text.partition(".")[2])
    return pytest.approx(float(text.replace(",", "")), abs=0.5 * 10**-decimals * (1 + 1e-9))


def test_one_expert_and_the_always_active_part_follow_from_four_counts():
    assert V3.expert_params / 1e9 == digits("2.5565") == 634 / 248
    assert V3.always_active_params / 1e9 == digits("16.548")
    assert V3.total_params == 671e9 and V3.active_params == 37e9


def test_mixtral_from_its_four_counts():
    mixtral = from_counts("Mixtral 8x7B", 46.7e9, 12.9e9, 8, 2)
    assert mixtral.expert_params / 1e9 == digits("5.633")
    assert mixtral.always_active_params / 1e9 == digits("1.633")


def test_resident_are_1342_gb_of_which_one_token_reads_74():
    assert resident_bytes(V3) / 1e9 == digits("1,342")
    assert decode_step(V3, 1).bytes_read / 1e9 == digits("74")


def test_64_tokens_touch_0_8689_of_the_experts_and_read_1170_4_gb():
    step = decode_step(V3, 64)
    assert step.share_touched == digits("0.8689") and step.experts_touched == digits("222.4")
    assert step.bytes_read / 1e9 == digits("1,170.4") and step.intensity == digits("4.05")


def test_an_expert_sees_two_tokens_of_64_or_2_30_where_it_is_touched():
    step = decode_step(V3, 64)
    assert step.tokens_per_expert == digits("2.0") and step.tokens_per_touched_expert == digits("2.30")


def test_256_tokens_an_expert_need_8192_in_the_step():
    assert batch_for_tokens_per_expert(256, 256, 8) == 8192
    assert decode_step(V3, 8192).tokens_per_expert == 256


def test_exact_parameters_change_the_third_digit():
    one, many = decode_step(EXACT, 1, weight_bytes=2), decode_step(EXACT, 64, weight_bytes=2)
    assert one.bytes_read / 1e9 == digits("73.25")
    assert many.bytes_read / 1e9 == digits("1,168.8") and many.intensity == digits("4.01")
    assert resident_bytes(EXACT, weight_bytes=2) / 1e9 == digits("1,342")
