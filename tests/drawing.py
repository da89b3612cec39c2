"""What tests of figures and controls share: both faces, both versions of Vega-Lite, settings, what a page says."""

import functools
import inspect
import itertools
import logging

import pytest
import vl_convert

from moe_lib import figures

# A small model that a reader may bring.
MIXTRAL = {"model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 4,
           "vocab_size": 32000, "num_attention_heads": 8, "num_key_value_heads": 2, "num_local_experts": 8,
           "num_experts_per_tok": 2}
CONTROLS = sorted(name for name in figures.__all__ if inspect.isfunction(made := getattr(figures, name))
                  and "return TwoFaces(" in inspect.getsource(made))
both_versions = pytest.mark.parametrize("version", ["5.8", "6.4"])


@functools.cache
def faces(name):
    """(a control, the page's face of it), made once a process."""
    control = getattr(figures, name)()
    return control, control.static()


def drawn(spec, version="5.8"):
    """The SVG that a version of Vega-Lite draws."""
    return vl_convert.vegalite_to_svg(spec, vl_version=version)


def paths(spec, version, caplog):
    """How many paths a figure draws. It must be described, and Vega-Lite must have nothing to warn of."""
    with caplog.at_level(logging.WARNING):
        count = drawn(spec, version).count("<path")
    assert caplog.records == [] and len(spec["description"]) > 40
    return count


def start(control, **chosen):
    """The setting at which a control stands, with some of it chosen anew."""
    return {choice.name: choice.start for choice in control.choices} | chosen


def page_says(page, **chosen):
    """{label: text} that the page of a control says for a setting of its grid."""
    at = {choice["name"]: choice["values"].index(chosen[choice["name"]]) for choice in page["usermeta"]["choices"]}
    found = {}
    for answer in page["usermeta"]["readouts"]:
        text = answer["values"]
        for key in answer["keys"]:
            text = text[at[key]]
        found[answer["label"]] = text if isinstance(text, str) else text["no"]
    return found


def widgets_of(view, kind):
    """Every widget of a class name below a container, in order."""
    inside = itertools.chain.from_iterable(widgets_of(child, kind) for child in getattr(view, "children", ()))
    return [view] * (type(view).__name__ == kind) + list(inside)


def rows_with_own_model(own):
    """How many rows the page of a control carries with a reader's model, which stands first."""
    first = own.choices[0]
    assert first.start == next(iter(first.options.values())) and first.start.endswith("yours")
    everything = {choice.name: list(choice.options.values()) for choice in own.choices}
    return sum(map(len, own.tables(everything).values()))
