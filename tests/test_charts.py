"""What figures say in words: a description tells marks and rows, and no conclusion that other rows would belie."""

import html
import inspect
import re

import numpy as np
import pytest
from drawing import faces, start

from moe_lib import charts, controls

FIGURES = [name for name in charts.__all__ if name != "finish" and callable(made := getattr(charts, name))
           and "finish(" in inspect.getsource(made)]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
# Words that compare, or tell a course: whether they are true depends on the rows.
CONCLUSION = re.compile(
    r"\b(twice|far|further|near|nearly|close|closer|above|below|higher|lower|highest|lowest|larger|smaller|more|most|"
    r"less|least|fewer|faster|earlier|later|reach\w*|steep\w*|flat\w*|level off|ris\w+|falls?|drops?|grow\w*|climb\w*|"
    r"dips?|bends?|crosses|follow\w*|wins?|loses?|pays?|saves?|until|straight|along|all rise|lies? (?!as)\w*)\b")


def made_up(rng):
    """Rows for every figure that is handed its rows, {name: arguments}: other ones, and more or fewer, for each rng."""
    n = int(rng.integers(4, 40))
    x, gpus = 2.0 ** np.arange(n), np.arange(n) % int(rng.integers(2, n))

    def some(*shape):
        return rng.lognormal(0, 2, shape or n)

    def lines(*names):
        return {name: some() for name in names or ("one", "two")}

    def pairs(*names):
        return {name: (x, some()) for name in names or ("one", "two")}

    def numbers(*names):
        return {name: float(100 * value) for name, value in zip(names, some(len(names)), strict=True)}

    (mark,) = numbers("mark").values()
    fields = ("size", "beyond", "ratio", "limit", "expert")
    table = [{"label": "a", "series": "b", **dict(zip(fields, row, strict=True))} for row in some(n, 5)]
    panel = {"lines": pairs(), "points": pairs("timed")}
    return {
        "cache_by_context": (x, lines(), lines()),
        "cache_per_token": (table, table),
        "chunk_times": (x, lines(), lines("timed")),
        "contexts": (x, some(2, 2, n), ["one", "two"], ["none", "some"], mark, "ridge"),
        "covered": ({"all": {"batch": x, "lines": lines(), "points": lines("simulated")}},),
        "equal_context": (x, lines(), lines("twin"), mark, "here"),
        "exchange": (rng.integers(0, n, (n, int(rng.integers(2, 9)))), gpus, gpus),
        "exchange_times": (pairs(), {name: (*pair, x > 2) for name, pair in pairs().items()}),
        "hit_rates": ({"one": pairs("LRU", "optimum")},),
        "kernels": ((x, some()), {"one": (x, 1e12 * some())}),
        "ladder": (numbers("a", "b"),),
        "layer_times": (x, lines(), pairs("timed")),
        "layers_outside": (x, lines(), pairs("timed")),
        "layouts": (x, lines(), numbers("one", "two"), 40),
        "machine": (pairs(), pairs()),
        "missed_by": (lines(),),
        "offloaded_batches": (x, lines(), mark, "here"),
        "one_curve": (pairs(), [("one", "yours", x, some())]),
        "over_bound": ({"machine": numbers("a", "b")},),
        "over_limit": (x, lines()),
        "overlap": (x, lines(), {"sequences_a_gpu": rng.integers(2, 999, 2), "gain": some(2),
                                 "gains_from_between": rng.integers(2, 999, 2)}),
        "placed": ({"one": (np.arange(n)[:, None], some(n, 1))}, mark),
        "ridges": (numbers("a", "b"), mark, "here"),
        "served": (x, lines(), (x, some()), "timed"),
        "shapes": (x, lines(*"abcde"), lines(*"de")),
        "slowdown": (x, lines(), lines()),
        "slowest": ({"even": panel, "skewed": {**panel, "mark": (mark, "here")}},),
        "sparsity": (table,),
        "speculation": (["one", "two"], "a server"),
        "time_ratio": (x, lines(), 2.0, "here", numbers("one", "two")),
        "valley": (x, lines(), {"one": sorted(some(2)), "two": sorted(some(2))}, ("mixture", "dense")),
    }


def description(name, seed):
    """The words of a figure of made-up rows."""
    return getattr(charts, name)(*made_up(np.random.default_rng(seed)).get(name, ())).description


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_says_no_conclusion_and_no_number_but_those_of_its_rows(name):
    said = [description(name, seed) for seed in range(4)]
    (frame,) = {NUMBER.sub("#", text) for text in said}
    assert CONCLUSION.findall(frame) == []
    for numbers in zip(*map(NUMBER.findall, said), strict=True):
        assert len(set(numbers)) > 1, numbers


@pytest.mark.parametrize("name", sorted(set(controls.__all__) - {"predict"}))
def test_the_live_picture_of_a_control_is_named_after_its_state(name):
    control, _ = faces(name)
    last = {choice.name: list(choice.options.values())[-1] for choice in control.choices}
    for chosen in (start(control), last):
        name = html.unescape(re.search(r'aria-label="([^"]*)"', control.svg(**chosen))[1])
        assert name.startswith(control.spec["description"])
        assert all(f"{label}: {text}" in name for label, text in control.readout(**chosen).items())
