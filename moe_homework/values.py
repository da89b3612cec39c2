"""What crosses between a student's function and its graded tests: numbers, text, arrays, containers of them; faults.

They cross as JSON, never as pickles, and each side rebuilds them from plain types, so an object with an `__eq__` of its
own does not reach a comparison. Both sides of the sandbox use this module; it imports nothing of ours.
"""

import base64
import contextlib
import json
import math
import re
import traceback

import numpy as np

ARRAY_KINDS = "biufc"
DTYPE = re.compile(rf"[<>|=][{ARRAY_KINDS}]\d\d?")
MOST_BYTES = 4 << 20  # of one message
MOST_BITS = 2000  # of one integer
MOST_VALUES = 100_000  # of one message, arrays counted as one
MOST_KEYS = 1000  # of one dict: keys that collide take the square of their number
DEEPEST = 20
LONGEST_FAULT = 2000  # characters


def encode(value, depth=0):
    """Plain JSON objects for a value.

    Parameters
    ----------
    value : None, bool, int, float, complex, str, numpy array or scalar, or a list, tuple, dict or range of these
    depth : int
        Of the containers around it.

    Raises
    ------
    TypeError
        If a type cannot be graded.
    ValueError
        If it is nested too deeply, or too large.

    >>> print(encode([1, (2.5, "x")]))
    {'list': [{'value': 1}, {'tuple': [{'value': 2.5}, {'value': 'x'}]}]}
    """
    if depth > DEEPEST:
        raise ValueError("the value is nested too deeply to be graded")
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind not in ARRAY_KINDS:
            raise TypeError(f"an array of dtype {array.dtype} cannot be graded: return an array of numbers, or a list")
        if array.nbytes > MOST_BYTES:
            raise ValueError(f"the value is too large to be graded: {array.nbytes / 1e6:.0f} MB")
        array = np.ascontiguousarray(array).reshape(array.shape)
        array = array.astype(array.dtype.newbyteorder("<"))
        text = base64.b64encode(array.tobytes()).decode()
        kind = "scalar" if isinstance(value, np.generic) else "array"
        return {kind: text, "dtype": array.dtype.str, "shape": list(array.shape)}
    if type(value) is int and value.bit_length() > MOST_BITS:
        raise ValueError(f"the value is too large to be graded: an integer of {value.bit_length()} bits")
    if value is None or type(value) in (bool, int, float, str):
        return {"value": value}
    if type(value) is complex:
        return encode(np.complex128(value), depth)
    if type(value) in (list, range):
        return {"list": [encode(item, depth + 1) for item in value]}
    if type(value) is tuple:
        return {"tuple": [encode(item, depth + 1) for item in value]}
    if type(value) is dict:
        return {"dict": [[encode(key, depth + 1), encode(item, depth + 1)] for key, item in value.items()]}
    raise TypeError(f"a value of type {type(value).__name__} cannot be graded: return numbers, arrays or lists of them")


def decode(data):
    """The value that `encode` turned into JSON objects, built anew from plain types.

    Raises
    ------
    ValueError
        If it is not what `encode` makes, or has too many parts.

    >>> print(decode(encode({"load": np.array([1, 2])})))
    {'load': array([1, 2])}
    """
    left = [MOST_VALUES]

    def build(data, depth):
        left[0] -= 1
        if left[0] < 0 or depth > DEEPEST or type(data) is not dict:
            raise ValueError("the answer has too many parts, or is not one")
        match data:
            case {"array": text, "dtype": dtype, "shape": shape}:
                return _array(text, dtype, shape)
            case {"scalar": text, "dtype": dtype, "shape": []}:
                return _array(text, dtype, [])[()]
            case {"value": None | bool() | int() | float() | str() as value}:
                return value
            case {"list": list(items)}:
                return [build(item, depth + 1) for item in items]
            case {"tuple": list(items)}:
                return tuple(build(item, depth + 1) for item in items)
            case {"dict": list(items)} if all(type(item) is list and len(item) == 2 for item in items):
                if len(items) > MOST_KEYS:
                    raise ValueError(f"a dict of the answer has more than {MOST_KEYS} keys")
                return {_hashable(build(key, depth + 1)): build(item, depth + 1) for key, item in items}
        raise ValueError("the answer is not of a form that can be graded")

    return build(data, 0)


def _array(text, dtype, shape):
    if type(text) is not str or type(dtype) is not str or type(shape) is not list or len(shape) > 64:
        raise ValueError("an array of the answer is malformed")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError("an array of the answer has an impossible shape")
    try:
        content, dtype = base64.b64decode(text, validate=True), np.dtype(DTYPE.fullmatch(dtype)[0])
    except TypeError:  # no match, or no such size
        raise ValueError(f"an array of the answer has the dtype {dtype[:20]!r}") from None
    if len(content) != math.prod(shape) * dtype.itemsize:
        raise ValueError("an array of the answer does not have the size that it names")
    return np.frombuffer(content, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _hashable(key):
    try:
        hash(key)
    except TypeError:
        raise ValueError("a dict of the answer has a key that cannot be one") from None
    return key


def describe(error, of=None):
    """Type and text of an exception, and the line of the function `of` that it came from.

    >>> print(describe(ValueError("no tokens")))
    ValueError: no tokens
    """
    try:
        text = str(error)[:LONGEST_FAULT]
    except BaseException:
        text = "(its text cannot be shown)"
    fault = f"{type(error).__name__}: {text}".removesuffix(": ")
    code = getattr(of, "__code__", None)
    with contextlib.suppress(Exception):
        frames = [f for f in traceback.extract_tb(error.__traceback__) if code and f.filename == code.co_filename]
        if frames and frames[-1].line:
            fault += f" (in line {frames[-1].lineno} of the cell: {frames[-1].line})"
    return fault[:LONGEST_FAULT]


def to_line(message, most_bytes=MOST_BYTES):
    """One line of JSON, as bytes, for a message of JSON objects.

    Raises
    ------
    ValueError
        If it is longer than `most_bytes`.
    """
    line = json.dumps(message).encode() + b"\n"
    if len(line) > most_bytes:
        raise ValueError(f"the value is too large to be graded: {len(line) / 1e6:.0f} MB")
    return line


def from_line(line):
    """The message in one line of JSON; whatever is wrong with it is a ValueError."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("the answer is not readable") from error
