"""Measured layers: over their limit, with two fitted constants, on every machine, and how far predictions are off."""

import itertools
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..hardware import DEVICES
from ..measured import LARGEST, SLOW, TimedLayer, constants, error, fit, from_bench, layers
from ..models import CATALOG
from ..records import parse, read
from ._face import Choice, Refusal, TwoFaces
from ._style import (
    ALWAYS, DASHED, DENSE, DOTTED, HEIGHT, LIMIT, MEASURED, MOE, MUTED, SOLID, WIDTH, alt, around, batch_axis, counted,
    digits, dots, finish, line, lines, log_axis, named, rows, rule, spans, words,
)


def seconds_axis(title, domain=None, name="seconds"):
    """A log y axis of seconds, decades labelled in words of time; `log_axis` says what it spans without a domain."""
    says = ("datum.value >= 1 ? datum.value + ' s' : datum.value >= 1e-3 ? round(1e3 * datum.value) + ' ms' : "
            "round(1e6 * datum.value) + ' µs'")
    return log_axis(name, title, domain, labelExpr=says, description=f"{title}, seconds")


TIMED_ON = ("h200", "h100", "b200", "a100-80gb")
TIMED_PRECISIONS = {"BF16": "bf16", "FP8": "fp8", "FP8 in blocks": "fp8_block"}
TIMED_MODELS = ("deepseek-v3", "qwen3-235b-a22b", "qwen3-30b-a3b", "mixtral-8x7b")


class _Timed(NamedTuple):
    layer: TimedLayer
    fitted: tuple[float, float] | None  # the two constants of its framework, or of the reader's machine
    by: str


def _at(layer, tokens):
    return f"{digits(layer.at(tokens).over_limit)} times" if tokens in layer.num_tokens else "not timed"


def _closest(layer):
    over = np.where(layer.impossible, np.inf, layer.over_limit)
    return f"{digits(over.min())} times, at {counted(layer.num_tokens[over.argmin()], 'token')}"


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
    return f"{digits(100 * error([layer], fitted))} % up to {LARGEST} tokens"


def _described(layer, fitted):
    if fitted is None:
        return "No line fits it up to 32 tokens."
    off = f"off by {_off(layer, fitted)}" if layer.trusted.any() else "never near it"
    return (f"Two constants predict it: {1e6 * fitted[0]:.0f} µs for every call, and {fitted[1]:.2f} of the speed that "
            f"the limit allows. They are {off}.")


def _doubts(layer):
    """Why times lie below their limit, where they do."""
    if layer.impossible.any():
        return f" {layer.impossible.sum()} of {layer.num_tokens.size} times lie below the limit, which cannot be."
    skewed = layer.distribution == "power law" and layer.over_limit.min() < 1
    return " Skewed tokens touch fewer experts than this limit counts." if skewed else ""


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


def _timed():
    """A layer's measured times over its limit. Data set: ``times``, see `measured`."""
    key = "join([device, framework, precision, model, routing], '|')"
    of, x = named("times", f"(datum.key == {key} || datum.key == device)"), batch_axis(domain=None)
    looks = {"limit": ("its limit", LIMIT, SOLID, 0.7, ("left", -10, 15)),
             "fitted": ("limit and two constants", MOE, SOLID, 1, ("right", -4, -16)),
             "active": ("if only k experts were read", DENSE, DASHED, 0, ("left", 60, -10))}
    layers = []
    ranked = of.transform_joinaggregate(all="count()").transform_window(rank="row_number()",
                                                                        sort=[alt.SortField("batch")])
    for field, (says, color, dash, share, place) in looks.items():
        y = seconds_axis("time of the layer", name=field)
        at = ranked.transform_filter(f"datum.rank == max(1, round({share} * datum.all))")
        layers += [line(of, x, y, color, dash, name=says),
                   words(at.transform_calculate(says=repr(says)), "says", color, *place, True, x=x, y=y)]
    y = seconds_axis("time of the layer", name="measured")
    good, bad = of.transform_filter("datum.valid"), of.transform_filter("!datum.valid")
    last = ranked.transform_filter("datum.rank == datum.all")
    return finish(alt.layer(
        *layers, dots(good, x, y, MEASURED, 85, name="measured"),
        dots(bad, x, y, ALWAYS, 110, "cross", angle=45, name="measured, yet impossible"),
        words(last.transform_calculate(says="'measured'"), "says", MEASURED, "right", -12, bold=True, x=x, y=y),
    ).properties(width=WIDTH, height=330), "measured",
        "Times of one layer of experts against the tokens in the step. Green dots are measured; a cross is a timing "
        "that cannot be. Lines: the limit from published peaks, with two fitted constants, and for k experts alone.",
        source="Measured by NVIDIA, AIConfigurator (third party), or on the reader's machine; lines computed, page 05.")


def measured(own=None, start=None):
    """Measured times of one layer over their limit and over two fitted constants; a reader's own machine beside them.

    Parameters
    ----------
    own : path or list of Record, optional
        What `python -m moe_lib.bench` wrote, or `bench.suite.quick` returned; its layers are added to
        the machines, the mixture chosen.
    start : str, optional
        The machine to stand at instead, such as "h200".

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

    def over(layer, tokens):
        return f"{digits(layer.at(tokens).over_limit)} times"

    if own is not None:
        mixture = add(own) if isinstance(own, list) else add(read(own), Path(own).name)
        start = start or mixture

    def key_of(*chosen):
        return chosen[0] if chosen[0] in mine else "|".join(chosen)

    def tables(selection):
        chosen = itertools.product(*(selection[name] for name in ("device", "framework", "precision", "model",
                                                                   "routing")))
        times = []
        for key in dict.fromkeys(itertools.starmap(key_of, chosen)):
            if key in timed:
                layer, fitted, _ = timed[key]
                times += rows(key=key, batch=layer.num_tokens, measured=layer.latency_s, limit=layer.limit(),
                                     valid=~layer.impossible, fitted=layer.predicted(fitted) if fitted else None,
                                     active=layer.limit(layer.top_k))
        return {"times": times}

    def said(say):
        def checked(device, framework, precision, model, routing):
            key = key_of(device, framework, precision, model, routing)
            if key not in timed:
                raise Refusal("not timed: choose another machine, software, format or layer")
            return say(timed[key])

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
    says = {
        "finding": said(lambda of: f"The layer takes {over(of.layer, of.layer.num_tokens[0])} its limit with "
                        f"{counted(of.layer.num_tokens[0], 'token')}, at best "
                        f"{_closest(of.layer).replace(', at', ' with')}"),
        "sentence": said(lambda of: _described(of.layer, of.fitted) + _doubts(of.layer)),
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
    return TwoFaces(choices, tables, _timed(), says, readouts, add)


def machine(limits, measured):
    """Time of a step against batch on the reader's machine: a mixture and its dense twin, points over their limits.

    Parameters
    ----------
    limits, measured : dict of str to (array_like, array_like)
        Batches and seconds of the mixture and of the dense twin, in that order.
    """
    every = [of for _, of in (*limits.values(), *measured.values())]
    x = batch_axis(domain=(1, float(max(np.max(at) for at, _ in measured.values()))))
    y, layers, grown = seconds_axis("time of the layer", around(every)), [], []
    for (name, (at, seconds)), color, dy in zip(measured.items(), (MOE, DENSE), (-14, 16), strict=False):
        at, seconds = np.asarray(at, float), np.asarray(seconds, float)
        layers += [line(rows(batch=np.asarray(limits[name][0], float), seconds=np.asarray(limits[name][1], float),
                             series=f"{name}, limit"), x, y, color, DASHED, 2),
                   line(rows(batch=at, seconds=seconds, series=name), x, y, color, SOLID, 1),
                   dots(rows(batch=at, seconds=seconds, series=name), x, y, color, 90),
                   words(rows(batch=at[-1], seconds=seconds[-1], says=name), "says", color, "right", -8, dy, True, x=x,
                         y=y)]
        grown.append(f"{digits(seconds[-1] / seconds[0])} times ({name})")
    first, *_, last = next(iter(measured.values()))[0]
    return finish(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT), "machine",
        "Time of a layer against the batch on the machine that ran this page: dots measured, dashed lines limits.",
        f"On this machine {counted(last, 'token')} take {', '.join(grown)} as long as {first:,.0f}",
        "Measured by this page, on the machine that ran it; limits by the same machine's read speed.",
        f"Measured: {spans({name: of for name, (_, of) in measured.items()}, 'ms', 1e3)}. "
        f"Limits: {spans({name: of for name, (_, of) in limits.items()}, 'ms', 1e3)}.")


def one_curve(laws, points):
    """Share of all experts read, by fitted time, against tokens per expert: every machine on the law of its routing.

    Parameters
    ----------
    laws : dict of str to (array_like, array_like)
        Tokens per expert B k / E and share, by kind of routing, at most two.
    points : list of (str, str, array_like, array_like)
        Kind of routing (one of `laws`), machine, B k / E and share; shares that are nan are left out.
    """
    x = alt.X("at:Q", title="tokens per expert, B k / E",
              axis=alt.Axis(values=[4.0**n for n in range(-3, 6)], format="~g"), scale=alt.Scale(
                  type="log", base=2, domain=around([of for of, _ in laws.values()], pad=0.01), nice=False, clamp=True))
    y = alt.Y("share:Q", title="share of all experts read, by time", axis=alt.Axis(format="%"),
              scale=alt.Scale(domain=[0, 1.6], nice=False, clamp=True))
    looks = dict(zip(laws, [(MOE, SOLID), (LIMIT, SOLID)], strict=False))
    layers = lines(laws, x, y, looks, wrap=12, names={name: "" for name in laws})
    for (name, (color, _)), place in zip(looks.items(), [("left", 10, 16), ("right", -10, -10)], strict=False):
        at, share = (np.asarray(of, float) for of in laws[name])
        i = np.abs(share - 0.45).argmin()
        layers.append(words(rows(at=at[i], share=share[i], says=name), "says", color, *place, True, x=x, y=y))
    far, machines = [], list(dict.fromkeys(machine for _, machine, _, _ in points))
    shapes = dict(zip(machines, ["diamond", "circle", "square", "triangle-up", "triangle-down"], strict=False))
    glyphs = dict(zip(machines, "◆●■▲▼", strict=False))
    for kind, machine, at, share in points:
        at, share = np.asarray(at, float), np.asarray(share, float)
        keep = np.isfinite(share)
        far += np.abs(share[keep] - np.interp(at[keep], *laws[kind])).tolist()
        layers.append(dots(rows(at=at[keep], share=share[keep], series=machine), x, y, MEASURED,
                           190 if machine == machines[0] else 50, shapes[machine]))
    layers += [words([{"says": f"{glyphs[name]} {name}"}], "says", MEASURED, bold=name == machines[0], x=alt.value(14),
                     y=alt.value(16 + 17 * n)) for n, name in enumerate(machines)]
    return finish(alt.layer(*layers).properties(width=WIDTH, height=340), "one_curve",
        "Share of all experts read, worked out from measured times, against tokens per expert. Lines are laws of "
        "routing, green marks machines.",
        f"Half of all timings on {counted(len(machines), 'machine')} lie within {digits(100 * np.median(far))} points "
        "of the law",
        "Measured by NVIDIA, AIConfigurator (third party), and on the machine that ran this page; laws: page 05.",
        f"Lines: {spans({kind: of for kind, (_, of) in laws.items()})}. Dots: {', '.join(machines)}.")


def missed_by(groups):
    """Measured over predicted time by group, one a row: median, the middle 80 %, how many and how far off.

    How far: the mean of |log ratio|, as a percentage, or where it is large as a factor.

    Parameters
    ----------
    groups : dict of str to array_like
        Ratios by what the group is, at most 24 characters, so that a phone shows them.
    """
    table, offs = [], {}
    for row, (says, ratio) in enumerate(groups.items()):
        low, middle, high = np.quantile(ratio, [0.1, 0.5, 0.9])
        off = offs[says] = np.mean(np.abs(np.log(ratio)))
        off = f"{digits(100 * off)} %" if off < 0.5 else f"{digits(np.exp(off))} times"
        table += rows(row=row, says=f"{says} ({len(ratio):,})", low=low, middle=middle, high=high, off=f"off by {off}")
    scale = alt.Scale(type="log", base=2, nice=False, clamp=True, domain=around(
        [[row[field] for row in table] for field in ("low", "high")] + [[0.5, 2]]))
    x = alt.X("low:Q", title="measured over predicted time", scale=scale,
              axis=alt.Axis(values=[2.0**n for n in range(-8, 9) if scale.domain[0] <= 2.0**n <= scale.domain[1]],
                            format="~g"))
    y, here = alt.Y("row:O", title=None, axis=None), alt.X("middle:Q", title="median", scale=scale)
    best, worst = (of(offs, key=offs.get) for of in (min, max))
    said = {name: next(row["off"] for row in table if row["says"].startswith(f"{name} (")) for name in (best, worst)}
    return finish(alt.layer(
        rule([{}], MUTED, x=alt.datum(1)), rule(table, MEASURED, SOLID, 7, x=x, x2="high:Q", y=y),
        dots(table, here, y, "currentColor", 70),
        words(table, "says", dx=0, dy=-16, x=alt.value(2), y=y),
        words(table, "off", align="right", dx=0, dy=-16, bold=True, x=alt.value("width"), y=y),
    ).properties(width=WIDTH, height=46 * len(groups)), "missed_by",
        "Measured over predicted time by group: a dot at the median, a bar over all but a tenth at each end. At the "
        "dashed rule the prediction is right.",
        f"Best predicted: {best}, {said[best]}" + (f"; worst: {worst}, {said[worst]}" if worst != best else ""),
        "Measured by NVIDIA, AIConfigurator (third party); predicted by two constants of other models, page 05.",
        "; ".join(f"{row['says']}, median {row['middle']:.2f}" for row in table) + ".")


def over_limit(batch, ratios):
    """Measured time over the physical limit against batch, by group.

    Parameters
    ----------
    batch : array_like [n]
    ratios : dict of str to array_like [n]
        At most five groups.
    """
    x = batch_axis(domain=(1, float(max(batch))))
    y = log_axis("ratio", "measured time over its limit", around([*ratios.values(), [1]]), format="~g")
    styles = [(MEASURED, SOLID), (MEASURED, DASHED), (MEASURED, DOTTED), (MUTED, SOLID), (MUTED, DASHED)]
    looks = dict(zip(ratios, styles, strict=False))
    one, low = [{"ratio": 1, "batch": 1, "says": "the limit"}], {name: np.min(of) for name, of in ratios.items()}
    can_be = {name: of for name, of in low.items() if of >= 1} or low
    best, cannot = min(can_be, key=can_be.get), [name for name, of in low.items() if of < 1]
    return finish(alt.layer(
        rule(one, LIMIT, y=y), words(one, "says", LIMIT, dy=-9, x=x, y=y),
        *lines(ratios, x, y, looks, batch, wrap=14),
    ).properties(width=WIDTH, height=HEIGHT), "over_limit",
        "Measured time of a layer over its physical limit, against the batch, a line a software. Purple, the limit.",
        f"{best} comes to {digits(low[best])} times the limit" + (
            f"; {' and '.join(cannot)} lie{'s'[len(cannot) > 1:]} below it, which cannot be" if cannot else ""),
        "Measured by NVIDIA, AIConfigurator (third party); limits computed, page 05.", f"Lines: {spans(ratios)}.")
