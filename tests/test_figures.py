"""What figures say: a finding that turns with its rows, a drawing without conclusions, names on the marks."""

import html
import importlib
import inspect
import re

import numpy as np
import pytest
import vl_convert
from drawing import CONTROLS, faces, start

from moe_lib import figures

IDEAS = ("balance", "context", "coverage", "measured", "memory", "offloading", "parallel", "plan", "roofline",
         "speculation", "workshop")
FIGURES = [name for name in figures.__all__ if name not in {*CONTROLS, "finish"} and inspect.isfunction(
    made := getattr(figures, name)) and "finish(" in inspect.getsource(made)]
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
# Words that compare, or tell a course: whether they are true depends on the rows.
CONCLUSION = re.compile(
    r"\b(twice|far|further|near|nearly|close|closer|higher|lower|highest|lowest|larger|smaller|more|most|"
    r"less|least|fewer|faster|earlier|later|reach\w*|steep\w*|flat\w*|level off|ris\w+|falls?|drops?|grow\w*|climb\w*|"
    r"dips?|crosses|follow\w*|wins?|loses?|pays?|saves?|all rise)\b")


@pytest.fixture(scope="session")
def made_up():
    """Arguments for every figure that is handed its rows, for each rng: {name: arguments}."""
    modules = [importlib.import_module(f"test_figures_{idea}") for idea in IDEAS]
    makers = [module.made_up for module in modules if hasattr(module, "made_up")]
    return lambda seed: {name: of for make in makers for name, of in make(np.random.default_rng(seed)).items()}


def drawn(name, arguments):
    """What a figure of given rows says."""
    return getattr(figures, name)(*arguments[name]).to_dict()["usermeta"]


@pytest.mark.parametrize("name", FIGURES)
def test_a_finding_holds_no_number_but_those_of_its_rows(name, made_up):
    found = [drawn(name, made_up(seed))["finding"] for seed in range(6)]
    assert len(set(found)) > 1
    for text in found:
        assert 10 < len(text) <= 170 and not text.endswith("."), text
    frames = {}
    for text in found:
        frames.setdefault(NUMBER.sub("#", text), []).append(NUMBER.findall(text))
    for numbers in (each for same in frames.values() if len(same) > 2 for each in zip(*same, strict=True)):
        assert len(set(numbers)) > 1 or float(numbers[0].replace(",", "")) == 1, numbers


@pytest.mark.parametrize("name", FIGURES)
def test_what_is_drawn_is_said_without_conclusions_and_where_it_comes_from(name, made_up):
    said = [drawn(name, made_up(seed)) for seed in range(3)]
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


def legends(spec):
    """Legends of symbols in a compiled figure, in all views."""
    vega = vl_convert.vegalite_to_vega(spec, vl_version="5.8")
    waiting, found = [vega], []
    while waiting:
        group = waiting.pop()
        found += [legend for legend in group.get("legends", ()) if legend.get("type") != "gradient"]
        waiting += [mark for mark in group.get("marks", ()) if mark["type"] == "group"]
    return found


@pytest.mark.parametrize("name", FIGURES)
def test_marks_have_their_names_beside_them_and_no_legend_elsewhere(name, made_up):
    assert legends(getattr(figures, name)(*made_up(0)[name]).to_dict()) == []


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
