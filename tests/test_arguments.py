import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moe_lib._arguments import ABOVE_ZERO, require

finite = st.floats(-1e12, 1e12)


@given(st.lists(finite, min_size=1), finite, finite)
def test_what_lies_within_the_range_passes_and_nothing_else(values, low, high):
    if all(low <= value <= high for value in values):
        require("x", values, low, high)
    else:
        with pytest.raises(ValueError, match="^x must be (within|above 0 and at most)"):
            require("x", values, low, high)


def test_the_message_names_argument_value_and_range():
    with pytest.raises(ValueError, match=r"^batch must be at least 0, got -3$"):
        require("batch", [1, -3, -4], 0)
    with pytest.raises(ValueError, match=r"^share must be at most 1, got 1.5$"):
        require("share", 1.5, high=1)
    with pytest.raises(ValueError, match=r"^share must be within 0..1, got 1.5$"):
        require("share", 1.5, 0, 1)


def test_bounds_broadcast_and_the_message_quotes_the_bound_that_is_broken():
    require("top_k", 8, 1, [8, 256])
    with pytest.raises(ValueError, match=r"^top_k must be within 1..4, got 8$"):
        require("top_k", [[2], [8]], 1, [256, 4])


@pytest.mark.parametrize("low, high", [(None, None), (0, None), (None, 1), (0, 1)])
def test_nan_is_never_a_number(low, high):
    with pytest.raises(ValueError, match="x must be .*, got nan"):
        require("x", [0.5, np.nan], low, high)


@pytest.mark.parametrize("value", [None, "8", True, [1, None], [1j], [1, [2, 3]]])
def test_what_is_no_number_is_quoted(value):
    with pytest.raises(ValueError, match="^x must be a number or an array of numbers, got"):
        require("x", value)


@pytest.mark.parametrize("value", [1.5, [1, 2.25], np.inf])
def test_counts_must_be_whole(value):
    with pytest.raises(ValueError, match="^tokens must be whole and at least 0, got"):
        require("tokens", value, 0, whole=True)
    require("tokens", [0, 2.0, 10**12], 0, whole=True)


@pytest.mark.parametrize("value", [[1], [], [[2]], "1"])
def test_one_number_is_one_number(value):
    with pytest.raises(ValueError, match="^x must be one number, got"):
        require("x", value, one=True)


def test_infinity_is_named_and_narrow_integers_are_widened():
    with pytest.raises(ValueError, match="^x must be finite and at least 0, got inf$"):
        require("x", [1, np.inf], 0)
    assert [require("x", kind(100)) * 1000 for kind in (np.int8, np.uint8, np.float32)] == [100_000] * 3


def test_an_empty_array_holds_nothing_wrong():
    require("x", np.array([]), 0, 1)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_a_narrow_zero_is_not_above_zero(kind):
    for zero in kind(0), np.array([1, 0], kind):
        with pytest.raises(ValueError, match="^x must be above 0, got 0"):
            require("x", zero, ABOVE_ZERO)
