"""The one check of arguments that every module may use, and its commonest case."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = float | np.int64 | NDArray[Any]  # what a formula answers: a number for numbers, an array for arrays
WeightBytes = float | dict[str, float] | None  # bytes per weight: of all, by part of the ledger, or as released
ABOVE_ZERO = float(np.nextafter(0, 1))  # as `low`: positive numbers only
LARGEST = 2**63  # what int64 no longer holds; not left to NumPy's default, which has 32 bits on some platforms
PLAIN = {int: np.int64, float: np.float64, np.int64: np.int64, np.float64: np.float64}
BOUNDS = {*PLAIN, type(None)}


@overload
def require(name: str, value: ArrayLike, low: ArrayLike | None = None, high: ArrayLike | None = None, *,
            whole: bool = False, one: Literal[False] = False) -> Numbers: ...
@overload
def require(name: str, value: ArrayLike, low: ArrayLike | None = None, high: ArrayLike | None = None, *,
            whole: bool = False, one: Literal[True]) -> float: ...
def require(name, value, low=None, high=None, *, whole=False, one=False):
    """The numbers of `value` in full width, or ValueError unless every one is finite and within [low, high].

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : array_like of numbers
        What the caller passed.
    low, high : array_like or None
        Inclusive bounds, broadcast against `value`; None means unbounded.
    whole : bool
        Allow whole numbers only (2.0 is one).
    one : bool
        Allow a single number only.

    Returns
    -------
    int64 or float64, scalar or ndarray
        As `value`; narrow integers widened, so that products do not overflow.

    Raises
    ------
    ValueError
        Names the argument, the first offending value and the allowed range.

    >>> print(require("batch", [1, 64], 0))
    [ 1 64]
    >>> require("top_k", 9, 1, 8)
    Traceback (most recent call last):
    ValueError: top_k must be within 1..8, got 9
    >>> require("batch", 1.5, 0, whole=True)
    Traceback (most recent call last):
    ValueError: batch must be whole and at least 0, got 1.5
    >>> require("bandwidth", 0, ABOVE_ZERO)
    Traceback (most recent call last):
    ValueError: bandwidth must be above 0, got 0
    """
    if type(value) in PLAIN and type(low) in BOUNDS and type(high) in BOUNDS:  # one number, as most: needs no array
        if ((low is None or value >= low) and (high is None or value <= high) and abs(value) < LARGEST
                and (not whole or value == int(value))):
            return PLAIN[type(value)](value)
    try:
        numbers = np.asarray(value)
    except ValueError:  # lists of unequal length
        numbers = np.asarray(None)
    if numbers.dtype.kind not in "iuf" or (one and numbers.ndim):
        raise ValueError(f"{name} must be {'one number' if one else 'a number or an array of numbers'}, "
                         f"got {value!r:.90}")
    numbers = numbers.astype(np.int64 if numbers.dtype.kind == "i" else np.float64)  # no bound is rounded
    least, most = (numbers.min(), numbers.max()) if numbers.size else (0, 0)  # nan if one is: below, neither way right
    within = ((low is None or np.all(least >= low)) and (high is None or np.all(most <= high))
              and least > -np.inf and most < np.inf)
    if not within or whole:
        _refuse_bad(name, numbers, low, high, whole)
    return numbers[()]


def _refuse_bad(name, numbers, low, high, whole):
    """ValueError that quotes the first number that is not allowed, if one is not: every bound against its own."""
    allowed = np.isfinite(numbers)
    if low is not None:
        allowed = allowed & (numbers >= low)
    if high is not None:
        allowed = allowed & (numbers <= high)
    if whole:
        allowed = allowed & (numbers == np.rint(numbers))
    if not np.all(allowed):
        bad, low, high = (_first_bad(bound, allowed) for bound in (numbers, low, high))
        kind = "whole and " if whole else "finite and " if np.isinf(bad) else ""
        raise ValueError(f"{name} must be {kind}{_range(low, high)}, got {bad}")


def whole_number(name: str, value: ArrayLike, low: int, high: int | None = None) -> int:
    """One whole number within [low, high], as an int; name and errors as `require`.

    >>> print(whole_number("num_gpus", 8.0, 1))
    8
    """
    return int(require(name, value, low, high, whole=True, one=True))


def _first_bad(array, allowed):
    if array is None:
        return None
    return np.broadcast_to(array, allowed.shape)[~allowed].flat[0].item()


def _range(low, high):
    if high is None:
        return "a number" if low is None else "above 0" if low == ABOVE_ZERO else f"at least {low}"
    if low is None:
        return f"at most {high}"
    return f"above 0 and at most {high}" if low == ABOVE_ZERO else f"within {low}..{high}"
