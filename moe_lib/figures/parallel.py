"""One model on many GPUs: what each way to spread it serves, what is exchanged, and whether hiding that pays."""

import functools
import itertools
import textwrap

import numpy as np

from ..exchange import link_time
from ..hardware import DEVICES, LINKS
from ..layouts import Layout, layout_sequences, problems, rank_resident_bytes, rank_step
from ..roofline import step_time
from ._choices import FP8_BLOCK, Models, numbered
from ._face import HALF_OCTAVES, Choice, Refusal, TwoFaces
from ._style import (
    DASHED, DOTTED, HEIGHT, LIMIT, MEASURED, MOE, MUTED, SOLID, WIDTH, alt, around, batch_axis, between, counted,
    digits, dots, finish, gigabytes, line, linear_axis, lines, list_row, log_axis, named, rows, rule, same, spans,
    words,
)

SPREAD_MODELS = ("deepseek-v3", "qwen3-235b-a22b", "mixtral-8x7b", "glm-4.5")
SPREAD_ON = {"H800": ("h800", "nvlink-h800"), "H200": ("h200", "nvlink4"), "B200": ("b200", "nvlink5")}
ATTENTION, EXPERTS_OVER = (1, 2, 4, 8), (1, 8)
SPREAD_KEY = ("model", "setup", "gpus", "attention", "experts", "context")


def _ways():
    """A step's time by sequences, a line a layout. Data sets: ``curve``, ``end``, ``barred``, see `parallel`."""
    shared, own = same("model", "setup", "gpus", "context"), same("attention", "experts")
    x = batch_axis("sequences in a step, over all GPUs", domain=None)
    y, above = (alt.Y(f"{field}:Q", title="milliseconds per step, at least", axis=alt.Axis(tickCount=6),
                      scale=alt.Scale(zero=True, nice=False)) for field in ("ms", "open"))
    curve = named("curve", shared).transform_flatten(["batch", "ms", "open"])
    mine, others = curve.transform_filter(own), curve.transform_filter(f"!({own})")
    end, rest = named("end", shared, own), named("end", shared, f"!({own})")
    return finish(alt.layer(
        others.mark_line(color=MUTED, strokeWidth=1.5).encode(x=x, y=y, detail="layout:N"),
        words(rest.transform_filter(same("experts")).transform_calculate(way="split(datum.layout, '+')[0]"), "way",
              MUTED, "center", 0, -14, size=12, x=x, y=y),
        dots(rest, x, y, MUTED, 70, "cross", angle=45),
        mine.mark_area(color=LIMIT, opacity=0.25).encode(x=x, y=y, y2="open:Q"),
        line(mine, x, above, LIMIT, DASHED, 2, "exchanges in the open"), line(mine, x, y, width=3.5, name="hidden"),
        dots(end, x, y, MOE, 200, "cross", angle=45), words(end, "says", MOE, "right", 6, -31, True, 14, x=x, y=y),
        words(named("barred", shared, own), "says", align="center", dx=0, size=14,
              x=alt.value({"expr": "width / 2"}), y=alt.value(40)),
    ).properties(width=WIDTH, height=330), "parallel",
        "Milliseconds of a step against the sequences in it, a line a layout, up to the cross where caches fill the "
        "GPUs. Blue, the chosen layout; shaded, what its exchanges add if nothing hides them.",
        source="Computed: bounds for a uniform router, links as vendors publish them, page 07.")


def parallel(config=None):
    """One model in FP8 over 8 to 64 GPUs: what a GPU holds, sequences that fit, a step's time, and its exchanges.

    Nodes of eight GPUs, NVLink within, 400 Gbit/s of InfiniBand for each GPU between them. Each GPU that holds some of
    a token's experts gets one copy. Caches in BF16, FP8 weights in blocks of 128, usable bytes as
    `Device.usable_bytes`.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, added to the models and chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> setting = {"model": "deepseek-v3", "setup": "H200", "gpus": 8, "experts": 1, "context": 8192}
    >>> for attention in 1, 8:
    ...     said = parallel().readout(attention=attention, **setting)
    ...     print(said["Layout"], "|", said["A GPU holds"], "|", said["Sequences that fit"])
    DP8+EP8 | 98.9 GB, 36.8 GB left | 504
    TP8+EP8 | 84.8 GB, 50.9 GB left | 88
    """
    models = Models(config)

    def layout(gpus, attention, experts):
        return Layout(attention_tp=attention, attention_dp=gpus // attention, expert_tp=experts,
                      expert_parallel=gpus // experts)

    def wrong(model, gpus, attention, experts):
        return problems(models[model], layout(gpus, attention, experts), weight_block=FP8_BLOCK)

    @functools.cache
    def most(model, setup, gpus, attention, experts, context):
        """Sequences that fit; 0 where the layout cannot be."""
        usable = DEVICES[SPREAD_ON[setup][0]].usable_bytes
        fit = layout_sequences(models[model], layout(gpus, attention, experts), usable, weight_bytes=1, context=context)
        return 0 if wrong(model, gpus, attention, experts) else int(min(fit, HALF_OCTAVES[-1]))

    def times(model, setup, gpus, attention, experts, context, batch):
        """Seconds of a step with its exchanges hidden and in the open, and of these."""
        device, within = SPREAD_ON[setup]
        spread = layout(gpus, attention, experts)
        step = rank_step(models[model], batch, spread, weight_bytes=1, context=context)
        link = link_time(models[model], batch, spread, LINKS[within], network=LINKS["ib-ndr"],
                         in_switch=None)
        alone, hidden = (step_time(step, DEVICES[device], DEVICES[device].arithmetic(1), link_time=each).lower
                         for each in (0, link))
        return hidden, alone + link, link

    @functools.cache
    def full(*setting):
        """The most sequences, and milliseconds of a step of them as `times`."""
        return most(*setting), *(1e3 * seconds for seconds in times(*setting, most(*setting)))

    def tables(selection):
        curve, end, barred = [], [], []
        for of in itertools.product(*(selection[name] for name in ("model", "setup", "gpus", "context"))):
            model, setup, gpus, context = of
            for attention, experts in itertools.product(ATTENTION, EXPERTS_OVER):
                setting = model, setup, gpus, attention, experts, context
                key = dict(zip(SPREAD_KEY, setting, strict=True)) | {"layout": str(layout(gpus, attention, experts))}
                if fit := most(*setting):
                    batch = np.union1d(2 ** np.arange(int(np.log2(fit)) + 1), fit)
                    hidden, in_open, _ = times(*setting, batch)
                    curve.append(list_row(key, batch=batch, ms=1e3 * hidden, open=1e3 * in_open))
                    end += rows(**key, batch=fit, ms=1e3 * hidden[-1],
                                says=f"{key['layout']}: {counted(fit, 'sequence')}")
                else:
                    barred += rows(**key, says=textwrap.fill("; ".join(why_not(*setting)), 44))
        return {"curve": curve, "end": end, "barred": barred}

    def why_not(model, setup, gpus, attention, experts, context):
        """Why no sequence can be served."""
        return wrong(model, gpus, attention, experts) or ["not one sequence fits: the weights take up the memory"]

    def can_be(*chosen):
        if why := wrong(*chosen):
            raise Refusal(f"cannot be: {why[0]}")

    def name(model, gpus, attention, experts):
        can_be(model, gpus, attention, experts)
        return str(layout(gpus, attention, experts))

    def held(model, setup, gpus, attention, experts):
        can_be(model, gpus, attention, experts)
        weights = rank_resident_bytes(models[model], layout(gpus, attention, experts), weight_bytes=1)
        left = DEVICES[SPREAD_ON[setup][0]].usable_bytes - weights
        return f"{gigabytes(weights)}, {gigabytes(abs(left))} {'left' if left >= 0 else 'too much'}"

    def told(say):
        def checked(model, setup, gpus, attention, experts, context):
            setting = model, setup, gpus, attention, experts, context
            if not most(*setting):
                raise Refusal(f"cannot be: {why_not(*setting)[0]}")
            return say(*full(*setting), gpus)

        return checked

    says = {
        "finding": "{Layout} serves {Sequences that fit} sequences of {context} tokens at once, {Tokens/s of a GPU} "
        "tokens/s a GPU",
        "sentence": "From all exchanges hidden to none, a step of all of them takes {A step of all of them}. Of each "
        "GPU, weights take {A GPU holds}.",
    }
    readouts = {
        "Layout": name,
        "A GPU holds": held,
        "Sequences that fit": told(lambda fit, *_: f"{fit:,}"),
        "A step of all of them": told(lambda fit, hidden, in_open, link, gpus: (
            between(hidden, in_open, "ms"))),
        "Exchanges in it": told(lambda fit, hidden, in_open, link, gpus: f"{digits(link)} ms"),
        "Tokens/s of a GPU": told(lambda fit, hidden, in_open, link, gpus: (
            f"at most {digits(1e3 * fit / hidden / gpus)}")),
    }
    choices = [models.choice(SPREAD_MODELS, "deepseek-v3"),
               Choice("setup", "FP8 on", {name: name for name in SPREAD_ON}, "H200", "radio"),
               Choice("gpus", "GPUs", numbered((8, 32, 64)), 8, "radio", more=numbered([16])),
               Choice("attention", "Attention split over", numbered(ATTENTION), 1, "radio"),
               Choice("experts", "Each expert split over", numbered(EXPERTS_OVER), 1, "radio"),
               Choice("context", "Tokens of context", numbered((4096, 8192, 32768)), 8192, "radio")]
    return TwoFaces(choices, tables, _ways(), says, readouts, models.add)


def layouts(batch, steps, ends, top):
    """Milliseconds of a step against batch, a line a layout, and where the caches fill its GPUs.

    Parameters
    ----------
    batch : array_like [n]
    steps : dict of str to array_like [n]
        Seconds by layout, at most three, the first one blue.
    ends : dict of str to float
        The most sequences that fit: beyond them the line is dashed.
    top : float
        Milliseconds at which the axis ends.
    """
    x = batch_axis("sequences in a step, over all GPUs", domain=(1, float(np.max(batch))))
    y, layers, at_end = linear_axis("ms", "milliseconds per step, at least", (0, top)), [], {}
    for n, (name, seconds) in enumerate(steps.items()):
        color, at = MUTED if n else MOE, np.union1d(batch, ends[name])
        ms = 1e3 * np.interp(at, batch, seconds)
        inside, beyond = at <= ends[name], at >= ends[name]
        end = rows(batch=ends[name], ms=ms[at == ends[name]][0], says=(
            f"{name}: {counted(ends[name], 'sequence')}"))
        at_end[name] = end[0]["ms"]
        layers += [line(rows(batch=at[beyond], ms=ms[beyond], series=f"{name}, does not fit"), x, y, color, DOTTED,
                        1.5, clip=True),
                   line(rows(batch=at[inside], ms=ms[inside], series=name), x, y, color, width=3.5 - n / 2),
                   dots(end, x, y, color, 190, "cross", angle=45),
                   words(end, "says", color, "right", 6, -18 - 17 * n, True, 14, x=x, y=y)]
    first, last = list(ends)[0], list(ends)[-1]
    return finish(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT), "layouts",
        "Milliseconds per step against sequences, a line a layout, dotted from a cross on, where caches fill the GPUs.",
        f"{first} fits {counted(ends[first], 'sequence')}, {last} {ends[last]:,.0f}; a full step takes "
        f"{digits(at_end[first])} and {digits(at_end[last])} ms" if last != first else
        f"{first} fits {counted(ends[first], 'sequence')}; a full step takes {digits(at_end[first])} ms",
        "Computed: bounds in FP8 on eight H200, page 07.",
        "; ".join(f"{name} {digits(ms)} ms" for name, ms in at_end.items()) + ".")


def overlap(each, ratios, measured):
    """Time of a step in two overlapped half-batches over that of one whole batch, against sequences on each GPU.

    Parameters
    ----------
    each : array_like [n]
    ratios : dict of str to array_like [n]
        By machine, at most four, the one that was measured last.
    measured : dict
        By others: sequences_a_gpu and gain, lists, and gains_from_between, a span (``half_batches.jsonl``). A gain in
        tokens/s is drawn as the ratio of times.
    """
    passes, at = measured["gains_from_between"], np.asarray(measured["sequences_a_gpu"], float)
    seen = 1 / (1 + np.asarray(measured["gain"], float))
    x = batch_axis("sequences on each GPU", name="each", domain=(float(np.min(each)), float(np.max(each))))
    y = log_axis("ratio", "two halves overlapped, over one batch", around([*ratios.values(), seen, [1]]), format="~g",
                 values=[0.4, 0.5, 0.6, 0.7, 0.8, 1, 1.2, 1.5, 2, 3])
    styles = [(MUTED, SOLID), (MUTED, DASHED), (MOE, SOLID), (MUTED, DOTTED)]
    one, name = [{"ratio": 1, "each": float(np.min(each)), "over": "slower", "under": "faster"}], list(ratios)[-1]
    best = int(np.argmin(ratios[name]))
    return finish(alt.layer(
        rule(one, LIMIT, y=y), *(words(one, way, LIMIT, dy=dy, x=x, y=y) for way, dy in (("over", -9), ("under", 10))),
        *lines(ratios, x, y, dict(zip(ratios, styles, strict=False)), each, wrap=11, size=12),
        rule([{"each": passes[0], "to": passes[1], "ratio": 1}], MEASURED, SOLID, 9, x=x, x2="to:Q", y=y),
        dots(rows(each=at, ratio=seen, series="measured"), x, y, MEASURED, 85),
        words(rows(each=at[:1], ratio=seen[:1], says="measured"), "says", MEASURED, dx=9, dy=-10, bold=True, x=x, y=y),
    ).properties(width=WIDTH, height=HEIGHT), "overlap",
        "Time of two overlapped half-batches over that of one batch, against the sequences on each GPU. Green dots are "
        "measured; the green bar says where they pass the rule.",
        f"On {name}, halves take {digits(ratios[name][best])} of the time at best, {digits(ratios[name][0])} with "
        f"{counted(each[0], 'sequence')} a GPU",
        "Measured by the SGLang team (third party); lines computed, page 07.",
        f"Lines: {spans(ratios)}. Measured: " + ", ".join(
            f"{digits(ratio)} at {counted(n, 'sequence')}" for n, ratio in zip(at, seen, strict=True)) + ".")


def exchange_times(fits, points):
    """Measured time of an exchange against tokens, log-log, with the line fitted to some sizes.

    Parameters
    ----------
    fits : dict of str to (array_like [n], array_like [n])
        Tokens and seconds by name, at most four.
    points : dict of str to (array_like [m], array_like [m], array_like of bool [m])
        Tokens, measured seconds and whether the fit saw them, by the same names.
    """
    curves = {name: (at, 1e6 * np.asarray(of, float)) for name, (at, of) in fits.items()}
    every = [of for _, of in curves.values()] + [1e6 * np.asarray(of, float) for _, of, _ in points.values()]
    x = batch_axis("tokens of each GPU", name="tokens", domain=(1, float(max(np.max(at) for at, _ in fits.values()))))
    y = log_axis("us", "microseconds", around(every), format=",~f")
    styles = [(MOE, SOLID), (MOE, DASHED), (MOE, DOTTED), (MUTED, SOLID)]
    off = []
    marks = []
    for name, (at, seconds, seen) in points.items():
        at, us, seen = np.asarray(at, float), 1e6 * np.asarray(seconds, float), np.asarray(seen, bool)
        off += np.abs(np.interp(at, *curves[name]) / us - 1)[~seen].tolist()
        marks += [dots(rows(tokens=at[which], us=us[which], series=f"{name}, {says}"), x, y, MEASURED, 80,
                       filled=filled)
                  for which, says, filled in ((seen, "fitted", True), (~seen, "not fitted", False)) if which.any()]
    return finish(alt.layer(*lines(curves, x, y, dict(zip(curves, styles, strict=False)), wrap=12), *marks).properties(
        width=WIDTH, height=320), "exchange_times",
        "Microseconds of an exchange against the tokens of each GPU. Green dots are measured, filled where a line was "
        "fitted to them.",
        f"Two constants fitted at some sizes give the others within {digits(100 * max(off))} %" if off else
        "Two constants are fitted to all sizes, so none is left to try them on",
        "Measured by others (third party); lines fitted, page 07.",
        f"Lines: {spans({name: of for name, (_, of) in curves.items()}, 'µs')}.")
