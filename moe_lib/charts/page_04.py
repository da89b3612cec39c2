"""Figures of page 04: context, cache, chunks."""

import altair as alt
import numpy as np

from .look import (
    ALWAYS,
    CACHE,
    DENSE,
    HEIGHT,
    LIMIT,
    MEASURED,
    MOE,
    MUTED,
    WIDTH,
    batch_axis,
    beside,
    finish,
    legend_colors,
    log_axis,
    rows,
    series_rows,
    spans,
)


def context_axis(domain, name="context", title="tokens of context in each sequence"):
    """A log x axis over contexts or chunks, in powers of two, labelled as a reader says them: 8k, 1M."""
    says = "datum.value >= 1048576 ? datum.value / 1048576 + 'M' : datum.value >= 1024 ? datum.value / 1024 + 'k' : ''"
    low, high = np.log2(domain)
    axis = alt.Axis(values=[2.0**power for power in range(int(np.ceil(low)), int(high) + 1)], labelOverlap=True,
                    labelExpr=f"{says} + (datum.value < 1024 ? datum.value : '')", labelSeparation=8)
    return alt.X(f"{name}:Q", title=title, axis=axis,
                 scale=alt.Scale(type="log", base=2, domain=list(domain), nice=False))


def equal_context(batch, lines, dense, mark, mark_says):
    """Context at which a step reads as many bytes of cache as of weights, against batch, log-log, a line a model.

    Parameters
    ----------
    batch : array_like [n]
    lines : dict of str to array_like [n]
        Tokens of context by mixture of experts, at most six.
    dense : dict of str to array_like [n]
        One dense model, drawn dashed.
    mark, mark_says : float, str
        A context where a rule stands.
    """
    names = [*lines, *dense]
    x, y = batch_axis("sequences in a step (batch)", domain=(1, 4096)), log_axis(
        "context", "tokens of context", (10, 5e7))
    color = legend_colors(names, [MOE, CACHE, ALWAYS, MEASURED, LIMIT, MUTED][:len(lines)] + [DENSE])
    color = color.legend(symbolType="stroke", labelLimit=0)
    rule = alt.Chart(alt.Data(values=[{"context": mark, "batch": 4096, "says": mark_says}]))

    def drawn(table, dash):
        points = [row for row in series_rows(table, "context", batch=batch) if row["context"] > 0]
        line = alt.Chart(alt.Data(values=points)).mark_line(
            strokeWidth=2.5, strokeDash=dash, clip=True, aria=False)
        return line.encode(x=x, y=y, color=color)

    figure = finish(alt.layer(
        rule.mark_rule(color="currentColor", strokeDash=[2, 3], strokeWidth=1.5, aria=False).encode(y=y),
        rule.mark_text(align="right", dx=-4, dy=-9, aria=False).encode(x=x, y=y, text="says:N"),
        drawn(lines, [1, 0]), drawn(dense, [6, 4]),
    ).properties(width=WIDTH, height=340),
        "Context at which a step reads as many bytes of cache as of weights, against the batch, log-log. Lines: "
        f"{spans(lines)}. Dashed: {spans(dense)}. A dotted rule marks {mark_says}.")
    figure.config["legend"]["columns"] = 3
    return figure


def context():
    """Gigabytes that a step reads against context, log-log: weights, cache, and where they are equal.

    Data sets: ``cache`` (model, batch, context, cache), ``weights`` (model, precision, batch, weights, twin),
    ``equal`` (model, precision, batch, at, weights). Choices: model, precision, batch, context.
    """
    here = "datum.model == model && datum.batch == batch"
    names = ["weights read", "cache read", "weights of its dense twin"]
    color = legend_colors(names, [MOE, CACHE, DENSE]).legend(symbolType="stroke", labelLimit=0)
    scale = alt.Scale(type="log", domain=[0.01, 1e6], nice=False)
    x, y = context_axis((1024, 2**20)), alt.Y("cache:Q", title="GB read in a step", scale=scale, axis=alt.Axis(
        format=",~f", values=[10.0**power for power in range(-2, 7)]))
    cache = alt.Chart(alt.NamedData("cache")).transform_filter(here).transform_calculate(series=repr(names[1]))
    fixed = alt.Chart(alt.NamedData("weights")).transform_filter(here + " && datum.precision == precision")
    equal = alt.Chart(alt.NamedData("equal")).transform_filter(here + " && datum.precision == precision")
    chosen = cache.transform_filter("datum.context == context")
    label = chosen.transform_calculate(text="format(datum.cache, '.3~s') + ' GB'")
    at = {"x": alt.X("at:Q"), "y": alt.Y("weights:Q", scale=scale)}
    return finish(alt.layer(
        fixed.transform_calculate(series=repr(names[0])).mark_rule(strokeWidth=2.5, aria=False).encode(
            y=alt.Y("weights:Q", scale=scale), color=color),
        fixed.transform_calculate(series=repr(names[2])).mark_rule(
            strokeWidth=2, strokeDash=[6, 4], aria=False).encode(y=alt.Y("twin:Q", scale=scale), color=color),
        chosen.mark_rule(color=MUTED, aria=False).encode(x=x),
        cache.mark_line(strokeWidth=2.5, clip=True, aria=False).encode(x=x, y=y, color=color),
        equal.mark_point(size=220, strokeWidth=2.5, color="currentColor", opacity=1, aria=False).encode(**at),
        chosen.mark_point(filled=True, size=130, opacity=1, aria=False).encode(x=x, y=y, color=color),
        label.mark_text(**beside("context", 2e5), dy=12, fontWeight="bold", aria=False).encode(x=x, y=y, text="text:N"),
    ).properties(width=WIDTH, height=HEIGHT),
        "Gigabytes read in a decode step against the context of each sequence, log-log. A line is the cache, a rule "
        "the weights, a dashed rule the weights of the dense twin. A dot marks the chosen context, a ring where cache "
        "and weights are equal.")


def chunks():
    """Time of a prompt and of its longest chunk against the chunk's tokens, log-log.

    Data sets: ``curve`` (model, setup, prompt, chunk, and in milliseconds ttft, pause, twin), ``knee`` (model, setup,
    knee). Choices: model, setup, prompt, chunk.
    """
    curve = alt.Chart(alt.NamedData("curve")).transform_filter(
        "datum.model == model && datum.setup == setup && datum.prompt == prompt")
    knee = alt.Chart(alt.NamedData("knee")).transform_filter("datum.model == model && datum.setup == setup")
    names = {"ttft": "time to first token", "pause": "longest pause of the others",
             "twin": "to first token, dense twin"}
    binds = "computing binds, attention aside"
    x, y = context_axis((128, 32768), "chunk", "tokens in a chunk"), log_axis(
        "ms", "milliseconds", (0.4, 5e4), format=",~f")
    color = legend_colors([*names.values(), binds], [MOE, CACHE, DENSE, LIMIT]).legend(
        symbolType="stroke", labelLimit=0)
    lines = curve.transform_fold(list(names), as_=["which", "ms"]).transform_calculate(series=f"{names!r}[datum.which]")
    own = lines.transform_filter("datum.which != 'twin'")
    chosen = own.transform_filter("datum.chunk == chunk")
    label = chosen.transform_calculate(text="format(datum.ms, ',.3~r') + ' ms'")
    roomy = {"expr": "width < 400 ? 0 : 1"}  # on a phone the tiles say it
    rule = knee.transform_calculate(series=repr(binds)).mark_rule(strokeDash=[6, 4], strokeWidth=2, aria=False)
    says = knee.transform_calculate(text="format(datum.knee, ',.0f')", top="5e4")
    scale = alt.Scale(type="log", domain=[0.4, 5e4], nice=False)
    figure = finish(alt.layer(
        rule.encode(x=alt.X("knee:Q"), color=color),
        says.mark_text(align="left", dx=6, dy=8, aria=False).encode(
            x=alt.X("knee:Q"), y=alt.Y("top:Q", scale=scale), text="text:N"),
        lines.transform_filter("datum.which == 'twin'").mark_line(
            strokeWidth=2, strokeDash=[6, 4], clip=True, aria=False).encode(x=x, y=y, color=color),
        own.mark_line(strokeWidth=2.5, clip=True, aria=False).encode(x=x, y=y, color=color),
        chosen.mark_rule(color=MUTED, aria=False).encode(x=x),
        chosen.mark_point(filled=True, size=130, opacity=1, aria=False).encode(x=x, y=y, color=color),
        label.mark_text(**beside("chunk", 1e4), dy={"expr": "datum.which == 'ttft' ? -9 : 14"}, opacity=roomy,
                        fontWeight="bold", aria=False).encode(x=x, y=y, text="text:N"),
    ).properties(width=WIDTH, height=320),
        "Milliseconds against the tokens of a chunk, log-log. Lines: the time to the first token, the longest pause "
        "that a chunk imposes on other sequences, and, dashed, the time to the first token of the dense twin. A dashed "
        "rule marks where computing binds, attention aside, dots the chosen chunk.")
    figure.config["legend"]["columns"] = 2
    return figure


def slowdown(context, predicted, measured):
    """Time of a step with a context over that of a step without: predicted lines, and points measured by others.

    Parameters
    ----------
    context : array_like [n]
        Tokens.
    predicted, measured : dict of str to array_like [n]
        Ratio by model, the same models.
    """
    kinds = ["predicted from bytes read", "measured by others"]
    color = legend_colors(kinds, [MOE, MEASURED])
    x = alt.X("context:Q", title="tokens of context", scale=alt.Scale(domain=[0, 34000]),
              axis=alt.Axis(values=[0, 8192, 16384, 24576, 32768], format=",d"))
    y = alt.Y("ratio:Q", title="time of a step over that without", scale=alt.Scale(domain=[0.9, 2.1], nice=False))
    line = alt.Data(values=[{**row, "model": row["series"], "series": kinds[0]}
                            for row in series_rows(predicted, "ratio", context=context)])
    dots = alt.Data(values=[{**row, "model": row["series"], "series": kinds[1]}
                            for row in series_rows(measured, "ratio", context=context)])
    shape = alt.Shape("model:N", legend=None, scale=alt.Scale(domain=list(measured), range=["circle", "diamond"]))
    ends = {name: float(values[-1]) for name, values in predicted.items()}
    steep = max(ends, key=ends.get)  # named above its line, the others below
    named = alt.Chart(alt.Data(values=rows(model=list(ends), context=context[-1], ratio=np.array([*ends.values()]))))
    return finish(alt.layer(
        alt.Chart(line).mark_line(strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color, detail="model:N"),
        alt.Chart(dots).mark_point(filled=True, size=110, opacity=1, aria=False).encode(
            x=x, y=y, color=color, shape=shape),
        *(named.transform_filter(f"(datum.model == {steep!r}) == {above}").mark_text(
            align="right", dx=-14, dy=dy, aria=False).encode(x=x, y=y, text="model:N")
          for above, dy in (("true", -4), ("false", 34))),
    ).properties(width=WIDTH, height=HEIGHT),
        "Time of a decode step over that of a step without context, against the context. Lines, predicted from the "
        f"bytes read: {spans(predicted)}. Dots, measured by others: {spans(measured)}.")


def chunk_times(chunk, lines, measured):
    """Time of a chunk against its tokens, log-log: computed lines, and points measured by others.

    Parameters
    ----------
    chunk : array_like [n]
        Tokens.
    lines : dict of str to array_like [n]
        Seconds by name: the bound, and a bound that reads all weights in every chunk.
    measured : dict of str to array_like [n]
        One series.
    """
    names = [*lines, *measured]
    color = legend_colors(names, [MOE, LIMIT, MEASURED]).legend(symbolType="stroke", labelLimit=0)
    x = batch_axis("tokens in a chunk", name="chunk", domain=(1, 64))
    y = alt.Y("ms:Q", title="milliseconds per chunk", axis=alt.Axis(values=[1, 2, 5, 10, 20, 50], format="d"),
              scale=alt.Scale(type="log", domain=[1, 50], nice=False))
    layers = []
    for (name, seconds), dash in zip(lines.items(), [[1, 0], [6, 4]], strict=True):
        table = alt.Data(values=rows(chunk=chunk, ms=1e3 * np.asarray(seconds), series=name))
        layers.append(alt.Chart(table).mark_line(strokeWidth=2.5, strokeDash=dash, aria=False).encode(
            x=x, y=y, color=color))
    milliseconds = {name: 1e3 * np.asarray(seconds) for name, seconds in measured.items()}
    points = alt.Data(values=series_rows(milliseconds, "ms", chunk=chunk))
    layers.append(alt.Chart(points).mark_point(filled=True, size=110, opacity=1, aria=False).encode(
        x=x, y=y, color=color))
    return finish(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT),
                  "Milliseconds per chunk of a prompt against the chunk's tokens, log-log. Lines: "
                  f"{spans(lines, scale=1e3)}. Dots: {spans(milliseconds)}.")
