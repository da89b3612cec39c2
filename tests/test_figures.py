"""What figures say: a finding that turns with its rows, a drawing without conclusions, names on the marks."""

import html
import inspect
import re

import numpy as np
import pytest
import vl_convert
from drawing import CONTROLS, faces, start

from moe_lib import figures

FIGURES = [name for name in figures.__all__ if name not in {*CONTROLS, "finish"} and inspect.isfunction(
    made := getattr(figures, name)) and "finish(" in inspect.getsource(made)]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
# Words that compare, or tell a course: whether they are true depends on the rows.
CONCLUSION = re.compile(
    r"\b(twice|far|further|near|nearly|close|closer|higher|lower|highest|lowest|larger|smaller|more|most|"
    r"less|least|fewer|faster|earlier|later|reach\w*|steep\w*|flat\w*|level off|ris\w+|falls?|drops?|grow\w*|climb\w*|"
    r"dips?|crosses|follow\w*|wins?|loses?|pays?|saves?|all rise)\b")


def made_up(rng):
    """Rows for every figure that is handed its rows, {name: arguments}: other ones, and more or fewer, for each rng."""
    n = int(rng.integers(4, 40))
    x = 2.0 ** np.arange(n)

    def some(*shape):
        return rng.lognormal(0, 2, shape or n)

    def lines(*names):
        return {name: some() for name in names or ("one", "two")}

    def pairs(*names):
        return {name: (x, some()) for name in names or ("one", "two")}

    def numbers(*names):
        return {name: float(100 * value) for name, value in zip(names, some(len(names)), strict=True)}

    def shares(*names):
        return {name: rng.random(n) for name in names}

    (mark,) = numbers("mark").values()
    fields = ("size", "beyond", "ratio", "limit", "expert")
    table = [{"label": "a", "series": "b", **dict(zip(fields, row, strict=True))} for row in some(n, 5)]
    panel = {"lines": pairs(), "points": pairs("timed")}
    return {
        "cache_by_context": (x, lines(), lines()),
        "cache_per_token": (table, table[:2]),
        "chunk_times": (x, lines(), lines("timed")),
        "contexts": (x, some(2, 2, n), ["one", "two"], ["none", "some"], mark, "ridge"),
        "covered": ({"all": {"batch": x, "lines": shares("one", "two"), "points": shares("simulated")}},),
        "equal_context": (x, lines(), lines("study", "twin"), mark, "here"),
        "exchange_times": (pairs(), {name: (*pair, x > 2) for name, pair in pairs().items()}),
        "hit_rates": ({"one": {name: (np.linspace(0, 1, n), rng.random(n)) for name in ("LRU", "optimum")}},),
        "kernels": ((x, some()), {"one": (x, 1e12 * some())}),
        "ladder": (numbers("a", "b"),),
        "layer_times": (x, lines(), pairs("timed")),
        "layers_outside": (x, lines(), pairs()),
        "layouts": (x, lines(), numbers("one", "two"), 40),
        "machine": (pairs(), pairs()),
        "missed_by": (lines(),),
        "offloaded_batches": (x, lines(), mark, "here"),
        "one_curve": (pairs(), [("one", "yours", x, some())]),
        "over_bound": ({"machine": {"": {"a": tuple(some(2)), "b": tuple(some(2))}}},),
        "over_limit": (x, lines()),
        "overlap": (x, lines(), {"sequences_a_gpu": rng.integers(2, 999, 2), "gain": some(2),
                                 "gains_from_between": rng.integers(2, 999, 2)}),
        "placed": ({"one": (np.arange(n)[:, None], some(n, 1))}, mark),
        "ridges": (numbers("a", "b"), mark, "here"),
        "served": (x, lines(), (x, some()), "somebody"),
        "shapes": (x, lines(*"abcde"), lines(*"de")),
        "slowdown": (x, lines(), lines()),
        "slowest": ({"even": panel, "skewed": {**panel, "mark": (mark, "here")}},),
        "sparsity": (table,),
        "time_ratio": (x, lines(), 2.0, "here", numbers("one", "two")),
        "valley": (x, lines(), {"one": sorted(some(2)), "two": sorted(some(2))}, ("mixture", "dense")),
    }


def spec(name, seed):
    """The specification of a figure of made-up rows."""
    return getattr(figures, name)(*made_up(np.random.default_rng(seed))[name]).to_dict()


@pytest.mark.parametrize("name", FIGURES)
def test_a_finding_holds_no_number_but_those_of_its_rows(name):
    found = [spec(name, seed)["usermeta"]["finding"] for seed in range(6)]
    assert len(set(found)) > 1
    for text in found:
        assert 10 < len(text) <= 170 and not text.endswith("."), text
    frames = {}
    for text in found:
        frames.setdefault(NUMBER.sub("#", text), []).append(NUMBER.findall(text))
    for numbers in (each for same in frames.values() if len(same) > 2 for each in zip(*same, strict=True)):
        place = float(numbers[0].strip(",").replace(",", ""))  # on an axis of batches
        assert len(set(numbers)) > 1 or np.log2(place).is_integer(), numbers


@pytest.mark.parametrize("name", FIGURES)
def test_what_is_drawn_is_said_without_conclusions_and_where_it_comes_from(name):
    said = [spec(name, seed)["usermeta"] for seed in range(3)]
    assert {of["name"] for of in said} == {said[0]["name"]} and said[0]["source"]
    assert CONCLUSION.findall(NUMBER.sub("#", said[0]["drawing"])) == []


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_says_a_finding_and_a_sentence_at_both_ends_of_every_choice(name):
    control, page = faces(name)
    told = page["usermeta"]
    assert told["name"] and told["drawing"] and told["source"]
    for choice in control.choices:
        for value in choice.options.values():
            chosen = start(control, **{choice.name: value})
            finding, sentence = (control.say(what, **chosen) for what in ("finding", "sentence"))
            assert 10 < len(finding) <= 170 and not finding.endswith("."), finding
            assert 10 < len(sentence) <= 260 and "{" not in finding + sentence, sentence


@pytest.mark.parametrize("name", CONTROLS)
def test_the_finding_of_a_control_changes_with_its_choices(name):
    control, _ = faces(name)
    said = {control.say("finding", **start(control, **{choice.name: value}))
            for choice in control.choices for value in choice.options.values()}
    assert len(said) > len(control.choices)


def legends(drawing):
    """Legends of symbols in a compiled figure, in all views."""
    vega = vl_convert.vegalite_to_vega(drawing, vl_version="5.8")
    waiting, found = [vega], []
    while waiting:
        group = waiting.pop()
        found += [legend for legend in group.get("legends", ()) if legend.get("type") != "gradient"]
        waiting += [mark for mark in group.get("marks", ()) if mark["type"] == "group"]
    return found


@pytest.mark.parametrize("name", FIGURES)
def test_marks_have_their_names_beside_them_and_no_legend_elsewhere(name):
    assert legends(spec(name, 0)) == []


@pytest.mark.parametrize("name", CONTROLS)
def test_marks_of_a_control_have_their_names_beside_them_and_no_legend_elsewhere(name):
    control, _ = faces(name)
    assert legends(control.live_spec(**start(control))) == []


@pytest.mark.parametrize("name", CONTROLS)
def test_the_live_picture_of_a_control_is_named_after_its_state(name):
    control, _ = faces(name)
    last = {choice.name: list(choice.options.values())[-1] for choice in control.choices}
    for chosen in (start(control), last):
        name = html.unescape(re.search(r'aria-label="([^"]*)"', control.svg(**chosen))[1])
        assert name.startswith(control.say("finding", **chosen))
        assert all(f"{label}: {text}" in name for label, text in control.readout(**chosen).items())
