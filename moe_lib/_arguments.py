"""The one check of arguments that every module may use."""

import numpy as np


def require(name, value, low=None, high=None, whole=False):
    """Raise ValueError unless every element of `value` is a number within [low, high].

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

    Raises
    ------
    ValueError
        Names the argument, the first offending value and the allowed range.

    >>> require("batch", [1, 64], 0)
    >>> require("top_k", 9, 1, 8)
    Traceback (most recent call last):
    ValueError: top_k must be within 1..8, got 9
    >>> require("batch", 1.5, 0, whole=True)
    Traceback (most recent call last):
    ValueError: batch must be whole and at least 0, got 1.5
    """
    value = np.asarray(value)
    if value.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be a number or an array of numbers, got {value.tolist()!r}")
    # NaN fails both comparisons, so ask for what is allowed
    at_least = np.ones(value.shape, bool) if low is None else value >= low
    at_most = np.ones(value.shape, bool) if high is None else value <= high
    allowed = at_least & at_most & ~np.isnan(value)
    if whole:
        allowed = allowed & (value == np.rint(value)) & np.isfinite(value)
    if not allowed.all():
        value, low, high = (_first_bad(bound, allowed) for bound in (value, low, high))
        raise ValueError(f"{name} must be {'whole and ' if whole else ''}{_range(low, high)}, got {value}")


def _first_bad(array, allowed):
    if array is None:
        return None
    return np.broadcast_to(array, allowed.shape)[~allowed].flat[0].item()


def _range(low, high):
    if high is None:
        return "a number" if low is None else f"at least {low}"
    return f"at most {high}" if low is None else f"within {low}..{high}"
