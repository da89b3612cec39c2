"""What graded tests call: compare an answer with what is right, and say in one line what is not."""

import copy
import math

import numpy as np

LONGEST = 400  # characters of one line
CALL_SECONDS = 5.0  # that one call may take
MOST_STOPS = 2  # calls of one function that may not come back before it is called no more
FLAT_PARTS = 8  # items of a list or array that are shown


class Wrong(AssertionError):
    """An answer that is not right; its text is the one line that a student reads."""


class Stopped(Wrong):
    """A call that did not come back: it ran too long, used too much memory, or ended the process."""


def expect(function, *arguments, gives, rtol=1e-6, atol=0.0, elementwise=False, **named):
    """Call a student's function and compare what it returns.

    Parameters
    ----------
    function : callable
        A fixture: the student's function or a proxy for it.
    *arguments, **named
        What it is called with: copies, so that what a function changes is as it was for the next call.
    gives : number, bool, str, None, array_like, or a tuple, list or dict of these
        What is right. Numbers are compared within `rtol` and `atol`, arrays and shapes element by element. Where an
        array is right, a list of the same numbers is too.
    rtol, atol : float
        Tolerances, relative and absolute.
    elementwise : bool
        The arguments broadcast to the shape of `gives`, and an element depends on theirs alone: the call for the first
        wrong element is told in place of the arrays.

    Raises
    ------
    Wrong
        With the call, what was expected and what came.

    >>> expect(lambda batch: batch + 1, 3, gives=5)
    Traceback (most recent call last):
    moe_homework.expect.Wrong: <lambda>(3): expected 5, got 4
    """
    call = show_call(function, arguments, named)
    got = function(*copy.deepcopy(arguments), **copy.deepcopy(named))
    fault = difference(got, gives, rtol, atol)
    if fault and elementwise:
        call, fault = _first_wrong(function, arguments, named, got, gives, rtol, atol) or (call, fault)
    if fault:
        raise Wrong(one_line(f"{call}: {fault}"))


def _first_wrong(function, arguments, named, got, right, rtol, atol):
    """The call for the first wrong element of an array and what is wrong with it; None where no element is at fault."""
    try:
        got, right = np.asarray(got), np.asarray(right)
    except ValueError:  # a ragged list
        return None
    if got.shape != right.shape or not right.shape:
        return None
    faults = {place: difference(got[place], right[place], rtol, atol) for place in np.ndindex(right.shape)}
    wrong = [place for place, fault in faults.items() if fault]
    if not wrong:
        return None
    call = show_call(function, [np.broadcast_to(argument, right.shape)[wrong[0]] for argument in arguments], named)
    where = f"as element [{', '.join(map(str, wrong[0]))}] of arrays of shape {right.shape}"
    return f"{call}, {where}", f"{faults[wrong[0]]}; {len(wrong)} of {right.size} elements differ"


def expect_unchanged(function, *arguments, **named):
    """Call a student's function and raise `Wrong` where it has changed an array or list that it was given."""
    call, before = show_call(function, arguments, named), [show(argument, None) for argument in arguments]
    function(*arguments, **named)
    for argument, text in zip(arguments, before, strict=True):
        now = show(argument, None)
        if now != text:
            raise Wrong(one_line(f"{call}: changes its argument; {text} became {now}: work on a copy"))


def too_slow(seconds):
    """What is said of a call that took more than `seconds`."""
    return f"gave no answer within {seconds:g} s: an endless or a slow loop?"


def answering(name, ask):
    """A function of that name which answers by `ask(arguments, named)` and puts the call in front of what goes wrong.

    It stops to ask after two calls that did not come back, so that an endless loop costs a class seconds, not minutes.
    """
    stops = []

    def call(*arguments, **named):
        shown = show_call(call, arguments, named)
        if len(stops) >= MOST_STOPS:
            raise Stopped(f"{shown}: not called, because {MOST_STOPS} earlier calls did not come back")
        try:
            return ask(arguments, named)
        except Stopped as error:
            stops.append(shown)
            raise Stopped(f"{shown}: {error}") from None
        except Wrong as error:
            raise Wrong(f"{shown}: {error}") from None

    call.__name__ = name
    return call


def difference(got, right, rtol=1e-6, atol=0.0):
    """What is wrong with an answer in a few words, or "" if it is right.

    >>> print(difference([1.0, 2.5], np.array([1.0, 2.0])))
    at [1] expected 2.0, got 2.5 (1 of 2 elements differ)
    """
    if isinstance(got, np.ndarray) and got.ndim == 0:
        got = got[()]
    if got is None and right is not None:
        return f"expected {show(right)}, got None: is a return missing?"
    if isinstance(right, dict):
        return _dict_difference(got, right, rtol, atol)
    if isinstance(right, str | None) or isinstance(right, bool | np.bool_):
        same = isinstance(got, bool | np.bool_) if isinstance(right, bool | np.bool_) else isinstance(got, str | None)
        return "" if same and got == right else f"expected {show(right)}, got {show(got)}"
    if isinstance(right, tuple | list) and not _is_numeric(right):
        return _sequence_difference(got, right, rtol, atol)
    return _number_difference(got, np.asarray(right), rtol, atol)


def _is_numeric(sequence):
    try:
        array = np.asarray(sequence)
    except ValueError:
        return False
    return isinstance(sequence, list) and array.dtype.kind in "biufc"


def _dict_difference(got, right, rtol, atol):
    if not isinstance(got, dict) or set(got) != set(right):
        keys = show(list(got)) if isinstance(got, dict) else show(got)
        return f"expected a dict with the keys {show(list(right))}, got {keys}"
    faults = ((key, difference(got[key], right[key], rtol, atol)) for key in right)
    return next((f"{show(key)}: {fault}" for key, fault in faults if fault), "")


def _sequence_difference(got, right, rtol, atol):
    if not isinstance(got, tuple | list | np.ndarray) or len(got) != len(right):
        return f"expected {len(right)} values, {show(right)}, got {show(got)}"
    faults = ((i, difference(g, r, rtol, atol)) for i, (g, r) in enumerate(zip(got, right, strict=True)))
    return next((f"value {i}: {fault}" for i, fault in faults if fault), "")


def _number_difference(got, right, rtol, atol):
    try:
        array = np.asarray(got)
    except ValueError:
        return f"expected {show(right)}, got a ragged list"
    allowed = "biufc" if right.dtype.kind == "c" else "biuf"
    if array.dtype.kind not in allowed or (array.dtype.kind == "b") != (right.dtype.kind == "b"):
        what = "True or False" if right.dtype.kind == "b" else "a number" if right.ndim == 0 else "numbers"
        return f"expected {show(right)}, got {show(got)}, which is not {what}"
    if array.shape != right.shape:
        shape = f"shape {array.shape}" if array.ndim else "one number"
        wanted = f"an array of shape {right.shape}" if right.ndim else "one number"
        return f"expected {wanted}, {show(right)}, got {shape}, {show(got)}"
    whole = right.dtype.kind in "biu" and array.dtype.kind in "biu"
    same = array == right if whole else np.isclose(array, right, rtol, atol, equal_nan=True)
    if same.all():
        return ""
    if right.ndim == 0:
        return f"expected {show(right)}, got {show(got)}{_distance(array[()], right[()])}"
    place = tuple(np.argwhere(~same)[0])
    where = ", ".join(map(str, place))
    count = f" ({np.sum(~same)} of {same.size} elements differ)"
    return f"at [{where}] expected {show(right[place])}, got {show(array[place])}{count}"


def _distance(got, right):
    if not (np.isfinite(got) and np.isfinite(right)) or right == 0 or abs(got / right - 1) > 0.1:
        return ""
    return f" ({abs(got / right - 1):.2%} too {'high' if got > right else 'low'})"


def show_call(function, arguments, named=()):
    """A call as it is written, with long arrays cut.

    >>> print(show_call(sum, ([1, 2, 3],)))
    sum([1, 2, 3])
    """
    name = getattr(function, "__name__", "function")
    named = dict(named)
    return f"{name}({', '.join([*map(show, arguments), *(f'{key}={show(value)}' for key, value in named.items())])})"


def show(value, most=FLAT_PARTS):
    """A value as one would type it, its long parts cut to `most` items (None: nothing is cut).

    >>> print(show([4.8e12, 20.0, 0.1 + 0.2]))
    [4.8e+12, 20.0, 0.3]
    >>> print(show(np.arange(100)))
    array([0, 1, 2, 3, 4, 5, 6, 7, ...], shape (100,))
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return show(value[()], most)
    if isinstance(value, np.ndarray):
        cut = most is not None and value.size > most
        shown = value.ravel()[:most] if cut else value
        inside = ", ".join(map(show, shown)) if cut else _nested(shown)
        return f"array([{inside}, ...], shape {value.shape})" if cut else f"array({inside})"
    if isinstance(value, float):
        if math.isfinite(value) and value % 1:
            return f"{value:.10g}"
        scientific = np.format_float_scientific(value, trim="-")
        return repr(value) if abs(value) < 1e6 else min(repr(value), scientific, key=len)
    if isinstance(value, list | tuple):
        cut = most is not None and len(value) > most
        inside = ", ".join(show(item, most) for item in value[:most]) + (f", ... {len(value)} in all" if cut else "")
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show(key)}: {show(item, most)}" for key, item in value.items()) + "}"
    return repr(value)


def _nested(array):
    return f"[{', '.join(map(_nested, array))}]" if array.ndim else show(array[()])


def one_line(text, longest=LONGEST):
    """Text on one line without control characters, cut in its middle to `longest` characters.

    >>> print(one_line("a\\nb\\x1b[31m"))
    a b[31m
    """
    text = "".join(character for character in " ".join(text[: 100 * longest].split()) if character.isprintable())
    return text if len(text) <= longest else f"{text[: longest // 2]} ... {text[-longest // 2 :]}"
