"""Weights against caches: what a step reads as the context grows, where the two are equal, and chunks of a prompt."""

import functools
import itertools

import numpy as np

from ..hardware import DEVICES, devices_needed
from ..models import dense_twin
from ..roofline import compute_bound_batch, step_time
from ..steps import context_of_equal_bytes, context_of_equal_flops, decode_step, prefill, resident_bytes
from ._choices import WEIGHT_BYTES, Models, amount, dtype_of, numbered, precision_choice
from ._face import Choice, TwoFaces
from ._style import (
    CACHE, DASHED, DENSE, DOTTED, HEIGHT, LIMIT, MEASURED, MOE, MUTED, SOLID, WIDTH, alt, around, as_much, batch_axis,
    beside, counted, digits, dots, finish, gigabytes, line, linear_axis, lines, list_row, log_axis, named, percent,
    rows, rule, same, spans, words,
)

SMOOTH = {"interpolate": "monotone"}


def context_axis(domain, name="context", title="tokens of context in each sequence"):
    """A log x axis over contexts or chunks, in powers of two, labelled as a reader says them: 8k, 1M."""
    says = "datum.value >= 1048576 ? datum.value / 1048576 + 'M' : datum.value >= 1024 ? datum.value / 1024 + 'k' : ''"
    low, high = np.log2(domain)
    axis = alt.Axis(values=[2.0**power for power in range(int(np.ceil(low)), int(high) + 1)], labelOverlap=True,
                    labelExpr=f"{says} + (datum.value < 1024 ? datum.value : '')", labelSeparation=8)
    return alt.X(f"{name}:Q", title=title, axis=axis,
                 scale=alt.Scale(type="log", base=2, domain=list(domain), nice=False))


def _tokens(count):
    return ("any context" if count == 0 else counted(count, "token")) if np.isfinite(count) else "never"


# What a step reads

MODELS = ("deepseek-v3", "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b", "qwen1.5-moe", "gpt-oss-120b",
          "glm-5.2", "qwen3.6-35b-a3b", "minimax-text-01", "gemma-4-26b-a4b")
CONTEXTS = {f"{2**(power - 10):,}k" if power < 20 else "1M": 2**power for power in range(10, 21)}


def _balance():
    """Two areas that share a step's bytes. Data sets: ``share``, ``equal``, ``twin``, see `context`."""
    chosen, x = same("model", "precision", "batch"), context_axis((1024, 2**20))
    y, twin = (linear_axis(name, "share of the bytes that a step reads", (0, 1), format=".0%")
               for name in ("share", "twin"))
    share = named("share", chosen).transform_flatten(["context", "share", "twin", "cache"])
    here, equal = share.transform_filter(same("context")), named("equal", chosen)
    far = "(width < 560 ? 4e4 : 3e5)"  # where words turn to the left of their ring
    at = {**beside("context", 1e5, 3), "bold": True, "size": 14, "x": x}
    return finish(alt.layer(
        share.mark_area(color=CACHE, opacity=0.22, **SMOOTH).encode(x=x, y=y, y2=alt.datum(0)),
        share.mark_area(color=MOE, opacity=0.14, **SMOOTH).encode(x=x, y=y, y2=alt.datum(1)),
        rule([{}], "currentColor", DOTTED, 1, y=alt.datum(0.5)),
        line(share, x, twin, DENSE, DASHED, 2, "cache, dense twin", **SMOOTH),
        line(share, x, y, CACHE, SOLID, 3, "cache", **SMOOTH),
        words(named("twin", chosen), "says", DENSE, **beside("context", 5000), bold=True, x=x, y=y),
        rule(here, CACHE, SOLID, 9, x=x, y=y, y2=alt.datum(0)), rule(here, MOE, SOLID, 9, x=x, y=y, y2=alt.datum(1)),
        words(here, "weights", dy=-10, y=alt.datum(1), **at),
        words(here, "cache", dy=-12, y=alt.datum(0), **{**at, **beside("context", 1e5, 12)}),
        dots(equal, x, alt.Y("half:Q"), "currentColor", 170, filled=False),
        words(equal, "says", **beside("context", far, 14), dy={"expr": f"datum.context > {far} ? -26 : 14"}, x=x,
              y=alt.Y("half:Q")),
    ).properties(width=WIDTH, height=HEIGHT), "context",
        "The bytes of a decode step against the context of each sequence, split into weights (blue, from the top) and "
        "caches (amber, from the bottom). The bar stands at the chosen context, the ring where both are equal. "
        "Dashed, where the split of the dense twin is.",
        source="Computed: weights touched by a uniform router, caches in BF16, page 04.")


def context(config=None):
    """What a decode step reads: weights against the caches of its sequences, kept in BF16, as the context grows.

    Data sets: ``share`` (model, precision, batch, weights; lists context, share, twin, cache), ``equal`` and ``twin``
    (model, precision, batch, context, a height, says).

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

    >>> said = context().readout(model="deepseek-v3", precision="bf16", batch=1, context=131072)
    >>> print(said["Weights read"], "|", said["Cache read"], "|", said["As many bytes from"])
    73.3 GB | 9.21 GB | 1,042,395 tokens
    """
    models = Models(config)

    @functools.lru_cache(maxsize=8192)  # the page asks for each step once a readout
    def step(model, precision, batch, context=0):
        return decode_step(models[model], batch, weight_bytes=WEIGHT_BYTES[precision], context=context)

    @functools.lru_cache(maxsize=1024)
    def shares(model, precision, batch, contexts):
        """Of the caches in the bytes of a step by context: the model's, its dense twin's."""
        steps = (decode_step(of, batch, weight_bytes=WEIGHT_BYTES[precision], context=np.array(contexts))
                 for of in (models[model], dense_twin(models[model])))
        return [of.kv_bytes_read / of.bytes_read for of in steps]

    def equal(model, precision, batch):
        return context_of_equal_bytes(models[model], batch, weight_bytes=WEIGHT_BYTES[precision])

    def tables(selection):
        contexts, found = np.union1d([*CONTEXTS.values()], selection["context"]), {"share": [], "equal": [], "twin": []}
        for chosen in itertools.product(*(selection[name] for name in ("model", "precision", "batch"))):
            key, at = dict(zip(("model", "precision", "batch"), chosen, strict=True)), equal(*chosen)
            own, twin = shares(*chosen, tuple(contexts.tolist()))
            cache = [f"cache\xa0{amount(step(chosen[0], 'bf16', chosen[2], int(n)).kv_bytes_read)}" for n in contexts]
            key_row = {**key, "weights": f"weights {amount(step(*chosen).weight_bytes_read)}"}
            found["share"].append({**list_row(key_row, context=contexts, share=own.round(4), twin=twin.round(4)),
                                   "cache": cache})
            near = np.abs(twin - 0.35).argmin()
            found["twin"] += rows(**key, context=contexts[near], share=twin[near], says="its dense twin")
            if contexts[0] <= at <= contexts[-1]:
                found["equal"] += rows(**key, context=at, half=0.5, says=f"equal at\n{_tokens(at)}")
        return found

    def time(model, precision, batch, context):
        of, device = models[model], DEVICES["h200"]
        held = resident_bytes(of, weight_bytes=WEIGHT_BYTES[precision], context=context, sequences=batch)
        needed = int(devices_needed(held, device))
        seconds = step_time(step(model, precision, batch, context), device, dtype_of(precision, "h200"), needed).lower
        return f"{digits(1e3 * seconds)} ms on {needed:,} H200"

    def mostly(of):
        def said(model, precision, batch, context):
            share = shares(model, precision, batch, (context,))[of][0]
            most = max(share, 1 - share)
            said = percent(most) if 0.505 <= most < 0.995 else f"{100 * most:.1f} %"  # neither half nor all
            return f"{'cache' if share > 0.5 else 'weights'} ({said})"

        return said

    def leads(count):
        return f"from {_tokens(count)} on" if 0 < count < np.inf else f"at {'any' if count == 0 else 'no'} context"

    says = {
        "finding": "With {sequences} of {context} tokens {model} reads mostly {own}, its dense twin {twin}",
        "sentence": "The cache outweighs the weights in bytes {by bytes}, in FLOP {by FLOP}.",
        "sequences": lambda batch: counted(batch, "sequence"), "own": mostly(0), "twin": mostly(1),
        "by bytes": lambda model, precision, batch: leads(equal(model, precision, batch)),
        "by FLOP": lambda model: leads(context_of_equal_flops(models[model])),
    }
    readouts = {
        "Weights read": lambda model, precision, batch: amount(step(model, precision, batch).weight_bytes_read),
        "Cache read": lambda model, batch, context: amount(step(model, "bf16", batch, context).kv_bytes_read),
        "As many bytes from": lambda model, precision, batch: _tokens(equal(model, precision, batch)),
        "As many FLOP from": lambda model: _tokens(context_of_equal_flops(models[model])),
        "Takes at least": time,
    }
    choices = [models.choice(MODELS, "deepseek-v3"), precision_choice(),
               Choice("batch", "Sequences (batch)", numbered(2**power for power in range(11)), 64, "batch"),
               Choice("context", "Tokens of context in each", CONTEXTS, 131072, "batch", drag="x")]
    return TwoFaces(choices, tables, _balance(), says, readouts, models.add)


def equal_context(batch, others, pair, mark, mark_says):
    """Context at which a step reads as many bytes of cache as of weights, against batch, log-log, a line a model.

    Parameters
    ----------
    batch : array_like [n]
    others : dict of str to array_like [n]
        Tokens of context by mixture of experts.
    pair : dict of str to array_like [n]
        The model under study and its dense rival, in that order.
    mark, mark_says : float, str
        A context where a rule stands.
    """
    drawn = {name: np.where(np.asarray(at) > 0, at, np.nan) for name, at in (others | pair).items()}
    x = batch_axis("sequences in a step (batch)", domain=(1, max(batch)))
    y = log_axis("context", "tokens of context in each", around([*drawn.values(), [mark]]))
    looks = {name: (MUTED, SOLID, 1.5) for name in others} | dict(
        zip(pair, [(MOE, SOLID, 3), (DENSE, DASHED, 2.5)], strict=True))
    i, (study, rival) = np.abs(np.asarray(batch) - 64).argmin(), pair
    fall, rival_fall = (of[0] / of[i] for of in pair.values())
    way = "1 sequence" if batch[0] == 1 else digits(batch[0])

    def moves(ratio):
        if f"{ratio:.2f}" == "1.00":
            return "stays"
        return f"falls {digits(ratio)} times" if ratio >= 1 else f"rises {digits(1 / ratio)} times"

    rest = [{"context": mark, "batch": float(max(batch)), "says": mark_says}]
    return finish(alt.layer(
        rule(rest, "currentColor", DOTTED, 1.5, y=y), words(rest, "says", align="right", dx=-4, dy=-9, x=x, y=y),
        *lines(drawn, x, y, looks, at=batch, height=360, wrap=18, smooth=True, size=12),
    ).properties(width=WIDTH, height=360), "equal-context",
        "Context at which a step reads as many bytes of cache as of weights, against the sequences in the step, "
        f"log-log, a line a model. Blue, {study}; dashed, {rival}; grey, other mixtures.",
        f"From {way} to {digits(batch[i])}, the context where cache equals weights {moves(fall)} for {study}, "
        f"{moves(rival_fall)} for {rival}", "Computed: weights and caches in BF16, a uniform router, page 04.",
        spans(drawn, "tokens"))


def slowdown(context, predicted, measured):
    """Time of a step with a context over that of a step without: predicted lines, and points measured by others.

    Parameters
    ----------
    context : array_like [n]
        Tokens.
    predicted, measured : dict of str to array_like [n]
        Ratio by model, the same models.
    """
    x = alt.X("context:Q", title="tokens of context", axis=alt.Axis(format=",d", tickCount=5),
              scale=alt.Scale(domain=[0, max(context)], nice=False))
    ends = around([*predicted.values(), *measured.values()], log=False)
    y = linear_axis("ratio", "time of a step over that without", ends)
    dashes, shapes = itertools.cycle([SOLID, DASHED, DOTTED]), itertools.cycle(["circle", "diamond", "square"])
    looks = {name: (MOE, dash) for name, dash in zip(predicted, dashes, strict=False)}
    points = [dots([{**row, "series": f"{name}, measured"} for row in rows(context=context, ratio=measured[name])],
                   x, y, MEASURED, 120, shape) for name, shape in zip(measured, shapes, strict=False)]
    took, due = (" and ".join(digits(of[-1]) for of in each.values()) for each in (measured, predicted))
    return finish(alt.layer(*lines(predicted, x, y, looks, at=context, wrap=16), *points).properties(
        width=WIDTH, height=HEIGHT), "slowdown",
        "Time of a decode step over that of a step without context, against the context. Blue lines, predicted from "
        "the bytes read; green points, measured.",
        f"With {digits(context[-1])} tokens of context a step takes {took} times as long; its bytes say {due}",
        "Measured by the llama.cpp project, MIT; predicted: page 04.",
        f"Predicted: {spans(predicted)}. Measured: {spans(measured)}.")


def chunk_times(chunk, bounds, measured):
    """Time of a chunk against its tokens, log-log: computed lines, and points measured by others.

    Parameters
    ----------
    chunk : array_like [n]
        Tokens.
    bounds : dict of str to array_like [n]
        Seconds by name: the bound, and a bound that reads all weights in every chunk.
    measured : dict of str to array_like [n]
        One series.
    """
    ms = {name: 1e3 * np.asarray(of) for name, of in (bounds | measured).items()}
    (bound, every), (timed,) = bounds, measured
    x = batch_axis("tokens in a chunk", name="chunk", domain=(min(chunk), max(chunk)))
    y = log_axis("ms", "milliseconds per chunk", around([*ms.values()]), format="~g")
    looks = {bound: (LIMIT, SOLID), every: (MUTED, DASHED), timed: (MEASURED, SOLID, 0)}
    grown = {name: as_much("long", of[-1] / of[0]) for name, of in ms.items()}
    return finish(alt.layer(
        *lines(ms, x, y, looks, at=chunk, wrap=16),
        dots([{**row, "series": timed} for row in rows(chunk=chunk, ms=ms[timed])], x, y, MEASURED, 110),
    ).properties(width=WIDTH, height=HEIGHT), "chunk-times",
        "Milliseconds per chunk of a prompt against the tokens of the chunk, log-log. Green points, measured; purple, "
        "the bound; dashed, what it takes to read all weights.",
        f"{digits(chunk[-1] / chunk[0])} times the tokens take {grown[timed]}; the bound says "
        f"{grown[bound]}, reading all weights {grown[every]}",
        "Measured by JohannesGaessler, facts quoted; bounds: page 04.", f"{spans(ms, 'ms')}.")


# Chunks of a prompt

CHUNK_MODELS = ("deepseek-v3", "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b", "gpt-oss-120b", "glm-5.2",
                "qwen3.6-35b-a3b", "llama-4-maverick")
CHUNKS = [2**power for power in range(7, 16)]
SETUPS = {"8 H100": "h100", "8 H200": "h200", "8 B200": "b200"}


def _chunks():
    """Time of a prompt and of its longest chunk. Data sets: ``curve``, ``knee``, see `chunks`."""
    x = context_axis((128, 32768), "chunk", "tokens in a chunk")
    ttft, pause, twin = (log_axis(name, "milliseconds", format=",~f") for name in ("ttft", "pause", "twin"))
    curve = named("curve", same("model", "setup", "prompt")).transform_flatten(["chunk", "ttft", "pause", "twin"])
    knee, first = named("knee", same("model", "setup")), curve.transform_filter("datum.chunk == 128")
    here = curve.transform_filter(same("chunk"))
    label = {"bold": True, "x": x}
    up = {name: {"expr": f"datum.twin_up == {is_up} ? -11 : {low}"}
          for name, is_up, low in (("twin", "true", 13), ("pause", "false", -11))}
    return finish(alt.layer(
        rule(knee, LIMIT, DASHED, x=alt.X("knee:Q")),
        words(knee, "says", LIMIT, **beside("knee", 900, 6), dy=10, y=alt.value(0), x=alt.X("knee:Q")),
        line(curve, x, twin, DENSE, DASHED, 2, "to first token, dense twin", clip=True, **SMOOTH),
        line(curve, x, pause, MOE, DOTTED, 2.5, "longest pause of the others", clip=True, **SMOOTH),
        line(curve, x, ttft, MOE, SOLID, 3, "to first token", clip=True, **SMOOTH),
        *(words(first.transform_calculate(says=repr(says)), "says", color, dx=dx, dy=dy, y=at, **label)
          for says, color, at, dx, dy in (("time to first token", MOE, ttft, 14, -4),
                                          ("its dense twin's", DENSE, twin, 5, up["twin"]),
                                          ("others wait", MOE, pause, 5, up["pause"]))),
        rule(here, MUTED, SOLID, 1, x=x),
        *(dots(here, x, at, color, 130) for at, color in ((twin, DENSE), (pause, MOE), (ttft, MOE))),
        *(words(here.transform_filter(shown).transform_calculate(ms=f"format(datum.{name}, ',.3~r') + ' ms'"), "ms",
                MOE, dy=dy, y=at, **beside("chunk", 9000, 10), size=14, **label)
          for name, at, dy, shown in (("ttft", ttft, -9, "true"), ("pause", pause, -12, "datum.pause < datum.ttft"))),
    ).properties(width=WIDTH, height=320), "chunks",
        "Milliseconds against the tokens of a chunk, log-log: to the first token (solid), the longest pause that a "
        "chunk imposes on other sequences (dotted), to the first token of the dense twin (dashed, orange).",
        source="Computed: bounds in FP8 on eight devices, no communication, page 04.")


def chunks(config=None):
    """Chunked prefill in FP8 on eight devices: time to the first token, and the longest pause of other sequences.

    Bounds: weights and caches read once a chunk, arithmetic in full, no communication. The last token alone goes
    through the head. Data sets: ``curve`` (model, setup, prompt, twin_up; lists chunk, and in milliseconds ttft, pause,
    twin), ``knee`` (model, setup, knee, says).

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

    >>> said = chunks().readout(model="deepseek-v3", setup="h200", prompt=8192, chunk=2048)
    >>> print(said["Time to first token"], "|", said["Longest pause"])
    69.8 ms | 17.5 ms
    """
    models = Models(config)

    @functools.lru_cache(maxsize=4096)
    def steps(model, prompt, chunk, twin=False):
        of = dense_twin(models[model]) if twin else models[model]
        return prefill(of, int(prompt), chunk=int(chunk), weight_bytes=1, all_logits=False)

    def times(model, setup, prompt, chunk, twin=False):
        return 1e3 * step_time(steps(model, prompt, min(chunk, prompt), twin), DEVICES[setup], "fp8", 8).lower

    def knee(model, setup):
        return compute_bound_batch(models[model], DEVICES[setup], "fp8", weight_bytes=1)

    def tables(selection):
        sizes, curve, knees = np.union1d(CHUNKS, selection["chunk"]).astype(int), [], []
        for model, setup in itertools.product(selection["model"], selection["setup"]):
            at = knee(model, setup)
            knees += rows(model=model, setup=setup, knee=at, says=f"computing binds from {counted(at, 'token')}")
            for prompt in selection["prompt"]:
                mine = [times(model, setup, prompt, chunk) for chunk in sizes]
                twin = [times(model, setup, prompt, chunk, twin=True).sum() for chunk in sizes]
                key = {"model": model, "setup": setup, "prompt": prompt, "twin_up": bool(twin[0] > mine[0].max())}
                curve.append(list_row(key, chunk=sizes, ttft=[of.sum() for of in mine],
                                      pause=[of.max() for of in mine], twin=twin))
        return {"curve": curve, "knee": knees}

    def first(model, setup, prompt, chunk):
        return f"{digits(times(model, setup, prompt, chunk).sum())} ms"

    def pause(model, setup, prompt, chunk):
        return f"{digits(times(model, setup, prompt, chunk).max())} ms"

    def ratio(model, setup, prompt, chunk):
        over = times(model, setup, prompt, chunk).sum() / times(model, setup, prompt, chunk, twin=True).sum()
        return f"{as_much('long', over)} as"

    def larger(model, setup, prompt, chunk):
        if chunk >= prompt:
            return "The whole prompt goes in at once, so the others wait for all of it: {Longest pause}."
        def then(of, label):
            now, next_ = of(model, setup, prompt, chunk), of(model, setup, prompt, 2 * chunk)
            return f"is still {{{label}}}" if now == next_ else f"is {next_} instead of {{{label}}}"

        return (f"With chunks twice as large the time to the first token {then(first, 'Time to first token')}, and the "
                f"longest pause of the others {then(pause, 'Longest pause')}.")

    def read(model, prompt, chunk):
        step = steps(model, prompt, min(chunk, prompt))
        return f"{gigabytes(step.weight_bytes_read.sum())}, cache {amount(step.kv_bytes_read.sum())}"

    says = {"finding": "In chunks of {chunk} tokens {model} takes {ratio} its dense twin to the first token",
            "sentence": larger, "ratio": ratio}
    readouts = {
        "The prompt goes in": lambda prompt, chunk: counted(-(-prompt // chunk), "chunk"),
        "Time to first token": first, "Longest pause": pause,
        "First token, dense twin": lambda model, setup, prompt, chunk: (
            f"{digits(times(model, setup, prompt, chunk, twin=True).sum())} ms"),
        "Read in all": read,
        "Computing binds, attention aside": lambda model, setup: f"from {_tokens(knee(model, setup))}",
    }
    choices = [models.choice(CHUNK_MODELS, "deepseek-v3"), Choice("setup", "FP8 on", SETUPS, "h200", "radio"),
               Choice("prompt", "Prompt, tokens", numbered((2048, 8192, 32768, 131072)), 8192, "radio"),
               Choice("chunk", "Tokens in a chunk", numbered(CHUNKS), 512, "batch", drag="x")]
    return TwoFaces(choices, tables, _chunks(), says, readouts, models.add)
