"""What to run: the frontier of all layouts for a target, and when a dense model is faster."""

import functools
import itertools
import textwrap

import numpy as np

from ..hardware import DEVICES, devices_needed
from ..layouts import layouts, problems
from ..plan import best_point, cost_per_million_tokens, frontier, time_to_first_token
from ..steps import resident_bytes
from ._choices import COMPUTING, FP8_BLOCK, Models, device_choice, numbered
from ._face import Choice, Refusal, TwoFaces
from ._style import (
    CACHE, DASHED, DENSE, DOTTED, LIMIT, MOE, MUTED, SOLID, WIDTH, alt, around, batch_axis, counted, digits, dollars,
    dots, drawn, finish, line, list_row, named, phone, rows, rule, spans, words,
)

PLAN_MODELS = ("deepseek-v3", "qwen3-235b-a22b", "glm-4.5", "mixtral-8x7b")
PLAN_ON = ("h100", "h200", "b200", "mi300x")
PLAN_GPUS = (2, 4, 8)
PLAN_CONTEXTS = (2048, 8192, 32768)
PLAN_TARGETS = (8, 10, 12, 15, 20, 25, 30, 40, 60, 100)  # milliseconds a token
PLAN_PRICES = (1, 2, 3, 4, 6)  # a GPU-hour


def _barred(model, device, gpus, fits):
    """(how many layouts cannot be, why not in sentences)."""
    if not fits:
        needed = devices_needed(resident_bytes(model, weight_bytes=1), device)
        return f"all (needs {counted(needed, 'GPU')})", ["fewer cannot hold the weights"]
    found = [problems(model, layout, weight_block=FP8_BLOCK) for layout in layouts(model, gpus)]
    return f"{sum(map(bool, found))} of {len(found)} layouts", list(dict.fromkeys(itertools.chain.from_iterable(found)))


def _frontier():
    """Tokens/s of a GPU against a user's milliseconds a token, a line a layout. Data sets: see `plan`."""
    key = "datum.key == model + '|' + device + '|' + gpus + '|' + context"
    scale = alt.Scale(type="log", domain=[150, 2], nice=False)
    x = alt.X("ms:Q", title="milliseconds a token, at least: faster to the right", scale=scale,
              axis=alt.Axis(values=[100, 50, 20, 10, 5, 2], format="~g"))
    y = alt.Y("gpu:Q", title="tokens/s of a GPU, at most", stack=None, scale=alt.Scale(type="log", nice=False),
              axis=alt.Axis(tickCount=6, format=",~r"))
    line_, full, best = (named(of, key) for of in ("line", "full", "best"))
    points, mine = line_.transform_flatten(["ms", "gpu"]), best.transform_filter("datum.tpot == tpot")
    at, target = alt.X("tpot:Q", scale=scale), mine.transform_calculate(text="tpot + ' ms a token'")
    late = "(datum.ms < (width < 400 ? 12 : 5))"  # too near the right end for words beside it
    legal = {True: (MOE, 0.55, SOLID), False: (MUTED, 0.8, DOTTED)}
    ways = [layer for is_legal, (color, opacity, dash) in legal.items() for layer in (
        points.transform_filter(f"datum.legal == {str(is_legal).lower()}").mark_line(
            color=color, opacity=opacity, strokeWidth=2, strokeDash=dash, clip=True).encode(
            x=x, y=y, detail="layout:N"),
        words(full.transform_filter(f"datum.legal == {str(is_legal).lower()}"), "says", color, "right", -6, -8,
              is_legal, 12, x=x, y=y))]
    return finish(alt.layer(
        points.transform_filter("datum.legal").mark_area(color=MOE, opacity=0.08, clip=True).encode(
            x=x, y=y, y2=alt.value("height"), detail="layout:N"),
        *ways, dots(full, x, y, MUTED, 90, "cross", angle=45),
        rule(target, LIMIT, x=at), words(target, "text", LIMIT, dy=-12, size=14, x=at,
                                        y=alt.value("height")),
        words(named("barred", key), "says", align="right", dx=-6, x=alt.value("width"), y=alt.value(26), size=12),
        dots(mine, x, y, "currentColor", 260, filled=False), dots(mine, x, y, MOE, 90),
        words(mine, "says", align={"expr": f"{late} ? 'right' : 'left'"}, dx={"expr": f"{late} ? -12 : 12"}, dy=-28,
              bold=True, size=15, x=x, y=y),
    ).properties(width=WIDTH, height=370), "plan",
        "Tokens per second of a GPU against the milliseconds that a user waits for a token, a line a layout, a cross "
        "where caches fill the GPUs. Shaded, what they reach; the ring is the best for the dashed target.",
        source="Computed: bounds in FP8 for a uniform router, nothing sent is counted, page 09.")


def plan(config=None):
    """Your frontier: every way to spread a model over the GPUs of a node, and the best that meets a target.

    Weights in FP8 with a scale for 128 x 128 of them, caches in BF16. Bounds: nothing that GPUs send is counted, so how
    the experts are cut makes no difference; the line and the name are those of the legal layout that cuts them least.

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

    >>> setting = {"model": "deepseek-v3", "device": "h200", "gpus": 8, "context": 8192, "tpot": 30, "price": 2}
    >>> print(*list(plan().readout(**setting).values())[:4], sep=" | ")
    DP8+EP8 | 504 sequences | 28 ms | 232 ms
    """
    models = Models(config)

    @functools.lru_cache(maxsize=4096)
    def lines(model, device, gpus, context):
        return frontier(models[model], DEVICES[device], gpus, context=context, weight_bytes=1, weight_block=FP8_BLOCK)

    def best(model, device, gpus, context, tpot):
        return best_point(lines(model, device, gpus, context), tpot / 1e3)

    def barred(model, device, gpus, context):
        return _barred(models[model], DEVICES[device], gpus, fits=bool(lines(model, device, gpus, context)))

    def tables(selection):
        found = {"line": [], "full": [], "best": [], "barred": []}
        for chosen in itertools.product(*(selection[name] for name in ("model", "device", "gpus", "context"))):
            key = "|".join(map(str, chosen))
            for of in lines(*chosen):
                most = of.batch[-1]
                shown = np.unique([*2 ** np.arange(int(np.log2(most)) + 1), most]) - 1
                ways = {"key": key, "layout": str(of.layout), "legal": not of.problems,
                        "says": str(of.layout).partition("+")[0] + (" cannot be" if of.problems else "")}
                found["line"].append(list_row(ways, ms=1e3 / of.tokens_per_s_per_user[shown],
                                              gpu=of.tokens_per_s_per_gpu[shown]))
                found["full"].append({**ways, "ms": found["line"][-1]["ms"][-1], "gpu": found["line"][-1]["gpu"][-1],
                                      "batch": int(most)})
            for tpot in sorted({*PLAN_TARGETS, *selection["tpot"]}):
                if point := best(*chosen, tpot):
                    found["best"] += rows(key=key, tpot=tpot, ms=1e3 * point.tpot, gpu=point.tokens_per_s_per_gpu,
                                          says=f"{point.layout}:\n{counted(point.batch, 'sequence')}")
            many, why = barred(*chosen)
            if why:
                found["barred"] += rows(key=key, says="\n".join(textwrap.fill(text, 34) for text in (
                    f"ruled out: {many}", *why)))
        return found

    def told(say):
        """Say it of the best point, or why there is none."""
        def checked(model, device, gpus, context, tpot):
            if point := best(model, device, gpus, context, tpot):
                return say(point)
            fits = lines(model, device, gpus, context)
            if not fits:
                raise Refusal("does not fit: choose more GPUs, or larger ones")
            if all(of.problems for of in fits):
                raise Refusal(f"cannot be: {fits[0].problems[0]}")
            raise Refusal("no layout meets the target: allow more milliseconds")

        return checked

    def first_token(model, device, gpus, context, tpot):
        def say(point):
            seconds = time_to_first_token(models[model], context, point.layout, DEVICES[device], weight_bytes=1)
            return f"{digits(1e3 * seconds)} ms"

        return told(say)(model, device, gpus, context, tpot)

    def cost(model, device, gpus, context, tpot, price):
        def say(point):
            return dollars(cost_per_million_tokens(point.tokens_per_s_per_gpu, price))

        return told(say)(model, device, gpus, context, tpot)

    def left_out(model, device, gpus, context):
        many, why = barred(model, device, gpus, context)
        return many if why else "none"

    def next_target(model, device, gpus, context, tpot):
        later = next((target for target in PLAN_TARGETS if target > tpot), None)
        now, then = best(model, device, gpus, context, tpot), later and best(model, device, gpus, context, later)
        if not now or not then:
            return "No slower target is drawn."
        ratio = then.tokens_per_s_per_gpu / now.tokens_per_s_per_gpu
        much = "no more" if f"{ratio:.2f}" == "1.00" else f"{ratio:.2f} times as much"
        return f"At {later} ms a GPU would do {much}."

    says = {
        "finding": "{Best layout} meets {tpot} ms a token best: {Tokens/s of a GPU} tokens/s a GPU with "
        "{Sequences at once}",
        "sentence": "Decoding a million tokens costs {Decoding a million tokens} or more, because real speeds are "
        "lower. {later}",
        "later": next_target,
    }
    readouts = {
        "Best layout": told(lambda point: str(point.layout)),
        "Sequences at once": told(lambda point: counted(point.batch, "sequence")),
        "Time per token": told(lambda point: f"{digits(1e3 * point.tpot)} ms"),
        "To the first token": first_token,
        "Tokens/s of a GPU": told(lambda point: digits(point.tokens_per_s_per_gpu)),
        "Decoding a million tokens": cost,
        "Layouts ruled out": left_out,
    }
    choices = [models.choice(PLAN_MODELS, "deepseek-v3"), device_choice(PLAN_ON, COMPUTING),
               Choice("gpus", "GPUs", numbered(PLAN_GPUS), 8, "radio", more=numbered([1])),
               Choice("context", "Tokens of context", numbered(PLAN_CONTEXTS), 8192, "radio",
                      more=numbered([512, 131072])),
               Choice("tpot", "Target, ms a token", numbered(PLAN_TARGETS), 20, "batch", drag="x"),
               Choice("price", "Dollars a GPU-hour", numbered(PLAN_PRICES), 2, "radio")]
    return TwoFaces(choices, tables, _frontier(), says, readouts, models.add)


def valley(batch, ratios, crossings, names):
    """Step time of a mixture over that of a dense model, growing downwards: where the dense model wins is a valley.

    Parameters
    ----------
    batch : array_like [n]
        Sequences.
    ratios : dict of str to array_like [n]
        By what each sequence holds, deepest first, at most three.
    crossings : dict of str to (float, float)
        Batches at which the ratio is 1, by the same names.
    names : (str, str)
        What the mixture and the dense model are called.
    """
    says = ("datum.value == 1 ? 'equal' : datum.value < 1 ? '1/' + format(1 / datum.value, 'd') : "
            "format(datum.value, 'd') + ' times'")
    shallow, deep = around([*ratios.values(), [1]], pad=0.08)
    x = batch_axis("sequences at once", domain=(1, float(np.max(batch))))
    y = alt.Y("ratio:Q", title=f"step time of {names[0]} over that of {names[1]}", axis=alt.Axis(
        values=[2.0**n for n in range(-4, 8)], labelExpr=says, labelFontSize=13),
        scale=alt.Scale(type="log", base=2, domain=[deep, shallow], nice=False, clamp=True))
    layers, styles = [], [(MOE, SOLID, 3.5), (MOE, DASHED, 2.5), (CACHE, DOTTED, 2.5)]
    for n, ((name, values), (color, dash, width)) in enumerate(zip(ratios.items(), styles, strict=False)):
        values, ends = np.asarray(values, float), [float(at) for at in crossings[name]]
        sunk = rows(batch=batch, ratio=np.maximum(values, 1), one=1)
        middle = float(np.sqrt(ends[0] * ends[-1]))
        layers += [drawn(sunk).mark_area(color=color, opacity=0.13).encode(x=x, y=alt.Y("one:Q"), y2="ratio:Q"),
                   line(rows(batch=batch, ratio=values, series=name), x, y, color, dash, width),
                   dots(rows(batch=np.array(ends), ratio=1, series=name), x, y, color, 120),
                   words(rows(batch=ends[-1], ratio=1, says=f"{np.floor(ends[-1]):,.0f}"), "says", color,
                         align=phone("center", "left"), dx=phone(0, 9), dy=phone(14 + 14 * n, 14), bold=True, size=16,
                         x=x, y=y),
                   words(rows(batch=middle, ratio=np.interp(middle, batch, values), says=name), "says", color, "center",
                         0, 14, True, x=x, y=y)]
    sides = [{"says": f"{names[0]} is faster"}, {"says": f"{names[1]} is faster"}]
    name, ends = next(iter(ratios)), next(iter(crossings.values()))
    return finish(alt.layer(
        *layers, rule([{"ratio": 1}], "currentColor", SOLID, 1.5, y=y),
        words(sides[:1], "says", MOE, dx=0, bold=True, size=15, x=alt.value(10), y=alt.value(14)),
        words(sides[1:], "says", DENSE, "right", dx=0, bold=True, size=15, x=alt.value({"expr": "width - 6"}),
              y=alt.value({"expr": "height - 14"})),
    ).properties(width=WIDTH, height=400), "valley",
        f"Step time of {names[0]} over that of {names[1]} against sequences, drawn downwards, with a rule where both "
        "take the same.",
        f"With {name} {names[1]} is " + (
            f"faster from {np.ceil(ends[0]):,.0f} to {counted(np.floor(ends[-1]), 'sequence')}, by up to "
            f"{digits(np.max(ratios[name]))} times" if np.max(ratios[name]) > 1 else "never faster"),
        "Computed: bounds in FP8 on eight H200, page 09.",
        f"Lines: {spans(ratios)}. Equal: " + "; ".join(
            f"{name}, {' and '.join(map(digits, of))}" for name, of in crossings.items()) + ".")
