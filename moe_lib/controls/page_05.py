"""Controls of page 05: measured layers."""

import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .. import charts
from ..hardware import DEVICES
from ..measured import LARGEST, SLOW, TimedLayer, constants, error, fit, from_bench, layers
from ..models import CATALOG
from ..records import parse, read
from ..two_faces import Choice, TwoFaces

TIMED_ON = ("h200", "h100", "b200", "a100-80gb")
TIMED_PRECISIONS = {"BF16": "bf16", "FP8": "fp8", "FP8 in blocks": "fp8_block"}
TIMED_MODELS = ("deepseek-v3", "qwen3-235b-a22b", "qwen3-30b-a3b", "mixtral-8x7b")


class _Timed(NamedTuple):
    layer: TimedLayer
    fitted: tuple[float, float] | None  # the two constants of its framework, or of the reader's machine
    by: str


def _at(layer, tokens):
    return f"{charts.digits(layer.at(tokens).over_limit)} times" if tokens in layer.num_tokens else "not timed"


def _closest(layer):
    over = np.where(layer.impossible, np.inf, layer.over_limit)
    return f"{charts.digits(over.min())} times, at {charts.counted(layer.num_tokens[over.argmin()], 'token')}"


def _fitted(layer):
    """The two constants of a reader's layer, from up to 32 tokens; None where limits or times do not rise with them.

    Limits of a dense twin do not on a GPU, where so few tokens wait for the same bytes.
    """
    try:
        return fit([layer.up_to(32)])
    except ValueError:
        return None


def _constants(fitted):
    return "none: no rise up to 32 tokens" if fitted is None else f"{1e6 * fitted[0]:.0f} µs and {fitted[1]:.2f}"


def _off(layer, fitted):
    if fitted is None or not layer.trusted.any():
        return "never near" if fitted else "not fitted"
    return f"{charts.digits(100 * error([layer], fitted))} % up to {LARGEST} tokens"


def _defects(layer):
    many = int(layer.impossible.sum())
    slowly = f"slow: above {SLOW} times at every batch up to 256" if layer.slow else "none"
    return f"{many} of {layer.num_tokens.size} times, below the limit" if many else slowly


def _shipped():
    """{setting: layer}, of one exponent; of two versions of a framework the first."""
    timed = {}
    for of in layers(exponent=(None, 1.01)):
        family = of.framework.split()[0]
        key = "|".join([of.device, family, of.dtype, of.model, of.distribution])
        timed.setdefault(key, _Timed(of, constants(family), f"NVIDIA, {of.framework}"))
    return timed


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
    timed, mine = _shipped(), {}  # mine: {name: what was measured} of a reader's own

    def add(found, file=""):
        names = []
        for record in found:
            if "touched" in record.data:
                layer, name = from_bench(record), f"{file}{': ' if file else ''}{record.what}, {record.on}"
                names.append(f"{name} ({len(mine) + 1})" if name in mine else name)
                timed[names[-1]] = _Timed(layer, _fitted(layer), "; ".join(
                    filter(None, [record.on, record.software, file])))
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
            if key in timed:
                layer, fitted, _ = timed[key]
                times += charts.rows(key=key, batch=layer.num_tokens, measured=layer.latency_s, limit=layer.limit(),
                                     valid=~layer.impossible, fitted=layer.predicted(fitted) if fitted else None,
                                     active=layer.limit(layer.top_k))
        return {"times": times}

    def said(say):
        def checked(device, framework, precision, model, routing):
            key = key_of(device, framework, precision, model, routing)
            return say(timed[key]) if key in timed else "not timed"

        return checked

    readouts = {
        "Timed by": said(lambda of: of.by),
        "Layer": said("{0.layer.num_experts} experts of {0.layer.d_model:,} × {0.layer.d_expert:,}, "
                      "{0.layer.top_k} chosen".format),
        "At one token, over the limit": said(lambda of: _at(of.layer, 1)),
        "Closest to its limit": said(lambda of: _closest(of.layer)),
        "At 512 tokens": said(lambda of: _at(of.layer, 512)),
        "Two constants": said(lambda of: _constants(of.fitted)),
        "They are off by": said(lambda of: _off(of.layer, of.fitted)),
        "Not to be trusted": said(lambda of: _defects(of.layer)),
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
