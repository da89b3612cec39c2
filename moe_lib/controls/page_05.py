"""Controls of page 05: measured layers."""

import itertools
from pathlib import Path

import numpy as np

from .. import charts
from .. import measured as timing
from ..hardware import DEVICES
from ..models import CATALOG
from ..records import parse, read
from ..two_faces import Choice, TwoFaces

TIMED_ON = ("h200", "h100", "b200", "a100-80gb")
TIMED_PRECISIONS = {"BF16": "bf16", "FP8": "fp8", "FP8 in blocks": "fp8_block"}
TIMED_MODELS = ("deepseek-v3", "qwen3-235b-a22b", "qwen3-30b-a3b", "mixtral-8x7b")


def _at(layer, tokens):
    where = np.flatnonzero(np.array(layer["num_tokens"]) == tokens)
    return f"{charts.digits(timing.over_limit(layer)[where[0]])} times" if where.size else "not timed"


def _closest(layer):
    over = np.where(timing.impossible(layer), np.inf, timing.over_limit(layer))
    return f"{charts.digits(over.min())} times, at {layer['num_tokens'][over.argmin()]:,} tokens"


def _constants(layer):
    t0, efficiency = layer["fitted"]
    return f"{1e6 * t0:.0f} µs and {efficiency:.2f}"


def _off(layer):
    if not timing.trusted(layer).any():
        return "never near"
    return f"{charts.digits(100 * timing.error([layer], layer['fitted']))} % up to {timing.LARGEST} tokens"


def _defects(layer):
    many = int(timing.impossible(layer).sum())
    slowly = f"slow: above {timing.SLOW} times at every batch up to 256" if timing.slow(layer) else "none"
    return f"{many} of {len(layer['num_tokens'])} times, below the limit" if many else slowly


def _timed_layers():
    """{setting: layer, with the constants of its framework and who timed it}."""
    layers = {}
    for record in timing.timed():
        of = record.data
        if of.get("exponent", 1.01) == 1.01:
            family = of["framework"].split()[0]
            key = "|".join([of["device"], family, of["dtype"], of["model"], of["distribution"]])
            if key not in layers:  # H200 has one layer of a newer, defective SGLang too
                layers[key] = of | {"fitted": timing.constants(family), "timed_by": f"NVIDIA, {of['framework']}"}
    return layers


def measured(own=None):
    """Measured times of one layer over their limit and over two fitted constants; a reader's own machine beside them.

    Parameters
    ----------
    own : path or list of Record, optional
        What `python -m moe_lib.bench` wrote, or `bench.suite.quick` returned; its layers are added, the mixture chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If a line is no record, or no record holds a timed layer.

    >>> layer = {"device": "h200", "framework": "SGLang", "precision": "bf16", "model": "deepseek-v3"}
    >>> said = measured().readout(**layer, routing="balanced")
    >>> print(said["Closest to its limit"], "|", said["Two constants"], "|", said["They are off by"])
    1.13 times, at 16 tokens | 31 µs and 0.81 | 10.6 % up to 512 tokens
    """
    layers, mine = _timed_layers(), {}  # mine: {name: what was measured} of a reader's own

    def add(found, file=""):
        names = []
        for record in found:
            if "touched" in record.data:
                layer, name = timing.from_bench(record), f"{file}{': ' if file else ''}{record.what}, {record.on}"
                names.append(f"{name} ({len(mine) + 1})" if name in mine else name)
                layers[names[-1]] = layer | {"fitted": timing.fit([timing.first(layer, 32)]), "timed_by": "; ".join(
                    filter(None, [record.on, record.software, file]))}
                mine[names[-1]] = record.what
        if not names:
            raise ValueError("no record of a timed layer: run python -m moe_lib.bench --only moe_decode")
        return next((name for name in names if mine[name] == "moe_decode"), names[0])

    start = None if own is None else add(own) if isinstance(own, list) else add(read(own), Path(own).name)

    def key_of(*chosen):
        return chosen[0] if chosen[0] in mine else "|".join(chosen)

    def tables(selection):
        chosen = itertools.product(*(selection[name] for name in ("device", "framework", "precision", "model",
                                                                   "routing")))
        times = []
        for key in dict.fromkeys(itertools.starmap(key_of, chosen)):
            if layer := layers.get(key):
                times += charts.rows(key=key, batch=np.array(layer["num_tokens"]), limit=timing.limit(layer),
                                     measured=np.array(layer["latency_s"]), valid=~timing.impossible(layer),
                                     fitted=timing.predicted(layer, layer["fitted"]),
                                     active=timing.limit(layer, layer["top_k"]))
        return {"times": times}

    def said(say):
        def checked(device, framework, precision, model, routing):
            key = key_of(device, framework, precision, model, routing)
            return say(layers[key]) if key in layers else "not timed"

        return checked

    readouts = {
        "Timed by": said(lambda layer: layer["timed_by"]),
        "Layer": said("{num_experts} experts of {d_model:,} × {d_expert:,}, {top_k} chosen".format_map),
        "At one token, over the limit": said(lambda layer: _at(layer, 1)),
        "Closest to its limit": said(_closest),
        "At 512 tokens": said(lambda layer: _at(layer, 512)),
        "Two constants": said(_constants),
        "They are off by": said(_off),
        "Not to be trusted": said(_defects),
    }
    devices = {name: name for name in mine} | {DEVICES[slug].name: slug for slug in TIMED_ON}
    idle = {"device": mine}  # a reader's record has a software, weights, a layer and a routing of its own
    choices = [Choice("device", "Machine", devices, start or "h200", upload="moe_bench.jsonl", reads=parse),
               Choice("framework", "Software", {"SGLang": "SGLang", "TRT-LLM": "TRT-LLM", "vLLM": "vLLM"}, "SGLang",
                      "radio", idle=idle),
               Choice("precision", "Weights", TIMED_PRECISIONS, "bf16", "radio", idle=idle),
               Choice("model", "Layer of", {CATALOG[slug].name: slug for slug in TIMED_MODELS}, "deepseek-v3",
                      idle=idle),
               Choice("routing", "Routing", {"balanced": "balanced", "power law": "power law"}, "balanced", "radio",
                      idle=idle)]
    return TwoFaces(choices, tables, charts.measured(), readouts, add)
