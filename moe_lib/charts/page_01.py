"""Figures of page 01: sizes and caches of models."""

import altair as alt

from .look import (
    ALWAYS,
    CACHE,
    DENSE,
    HEIGHT,
    LIMIT,
    MEASURED,
    MOE,
    MUTED,
    SERIES,
    WIDTH,
    counted,
    finish,
    legend_colors,
    log_axis,
    rows_axis,
    series_rows,
    spans,
)


def memory_bill():
    """What must be held, item by item, each bar starting where the last one ends; the devices that hold it as rules.

    Data sets: ``bill`` (key, order, label, series, start, end, used in GB; the key names model and precision, for a
    cache also sequences and context), ``devices`` (device, count, begins, ends, most in GB: what all its rows hold).
    Choices: model, precision, device, sequences, context. The axis ends where the last device needed ends; where all
    rows do not suffice, the last alone is drawn.
    """
    weights, whole = "model + '|' + precision", "model + '|' + precision + '|' + sequences + '|' + context"
    bill = alt.Chart(alt.NamedData("bill")).transform_filter(f"datum.key == {weights} || datum.key == {whole}")
    needed = alt.Chart(alt.NamedData("devices")).transform_filter("datum.device == device").transform_calculate(
        key=whole).transform_lookup("key", alt.LookupData(alt.NamedData("bill"), "key", ["end"])).transform_filter(
        "datum.begins < datum.end && (datum.end <= datum.most || datum.ends == datum.most)")
    names = ["routed experts", "always used", "cache", "read by one token", "device full"]
    x = alt.X("start:Q", title="resident, GB", scale=alt.Scale(nice=False), axis=alt.Axis(format=",~r", tickCount=5))
    y = alt.Y("label:N", sort=alt.EncodingSortField("order", op="min"), title=None,
              axis=alt.Axis(domain=False, ticks=False, labelLimit=0, minExtent=148))
    color = legend_colors(names, [MOE, ALWAYS, CACHE, "currentColor", LIMIT])
    used = bill.transform_calculate(series=repr(names[3]))
    rule = needed.transform_calculate(series=repr(names[4])).mark_rule(strokeWidth=1.5, strokeDash=[6, 4], aria=False)
    at, above = alt.X("ends:Q"), {"baseline": "bottom", "aria": False, "y": -4, "fontWeight": "bold"}
    side = {"expr": "datum.ends < datum.end ? 'left' : 'right'"}
    last = needed.transform_filter("datum.ends >= datum.end || datum.ends == datum.most").transform_calculate(
        text="datum.count + (datum.count > 1 ? ' hold ' : ' holds ') + format(datum.ends, ',.0f') + ' GB'")
    figure = finish(alt.layer(
        bill.mark_bar(height=22, aria=False).encode(x=x, x2="end", y=y, color=color),
        used.mark_bar(height=5, aria=False).encode(x=x, x2="used", y=y, color=color),
        rule.encode(x=at, color=color),
        last.mark_text(align=side, **above).encode(x=at, text="text:N"),
    ).properties(width=WIDTH, height=210),
        "Gigabytes that must be held, a bar for each part of the weights and one for the caches, end to end. Dashed "
        "rules show where each device is full. A thin bar shows what one token reads.")
    figure.config["legend"]["offset"] = 24  # above the text on the rules
    return figure


def cache_per_token(table, published):
    """Bytes of cache that one token takes, a dot a model, on a log axis.

    Parameters
    ----------
    table : list of dict
        Rows with label, series (mixture of experts or dense model), size and beyond (bytes per token, beyond windows).
    published : list of dict
        Rows with label and size, as others published them.
    """
    names = ["mixture of experts", "dense model", "published by others"]
    ticks = [4e3, 1e4, 2e4, 4e4, 1e5, 2e5, 4e5, 1e6]
    x = alt.X("size:Q", title="bytes per token", scale=alt.Scale(type="log", domain=[4e3, 1.6e6], nice=False),
              axis=alt.Axis(format="~s", values=ticks))
    y, color = rows_axis(), legend_colors(names, [MOE, DENSE, MEASURED])
    models, theirs = alt.Chart(alt.Data(values=table)), alt.Chart(alt.Data(values=published))
    roomy = {"expr": "width < 320 ? 0 : 1"}  # a phone has no room for the numbers
    return finish(alt.layer(
        models.mark_rule(strokeWidth=3, aria=False).encode(x=alt.X("beyond:Q"), x2="size", y=y, color=color),
        models.mark_point(filled=True, size=90, opacity=1, aria=False).encode(x=x, y=y, color=color),
        theirs.transform_calculate(series=repr(names[2])).mark_point(
            shape="diamond", size=260, strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color),
        models.mark_text(align="left", dx=14, opacity=roomy, aria=False).encode(
            x=x, y=y, text=alt.Text("size:Q", format=",d")),
    ).properties(width=WIDTH, height=20 * len(table)),
        "Bytes of cache per token, a dot for each model, log scale: "
        + spans({counted(len(table), "model"): [row["size"] for row in table]}, "bytes") + ". A line leads to what "
        "another token takes once the windows are full. Diamonds are figures that others published.")


def sparsity(table):
    """Total over active parameters of each model, and the most it could be, E / k.

    Parameters
    ----------
    table : list of dict
        Rows with label, ratio (total / active), limit (E / k) and expert (parameters of one expert), in order.
    """
    names = ["total / active", "experts / chosen"]
    y, color = rows_axis(), legend_colors(names, [MOE, LIMIT])
    scale = alt.Scale(type="log", domain=[2, 160], nice=False)
    axis = alt.Axis(values=[2, 4, 8, 16, 32, 64, 128], format="d")
    size = alt.Size("expert:Q", legend=None, scale=alt.Scale(type="linear", domain=[0, 2e8], range=[20, 600]))
    models = alt.Chart(alt.Data(values=table))
    limit, ratio = models.transform_calculate(series=repr(names[1])), models.transform_calculate(series=repr(names[0]))
    return finish(alt.layer(
        models.mark_rule(strokeWidth=1, opacity=0.5, color=MUTED, aria=False).encode(x="ratio:Q", x2="limit", y=y),
        limit.mark_tick(thickness=3, size=14, opacity=1, aria=False).encode(
            x=alt.X("limit:Q", scale=scale, title="times, log scale", axis=axis), y=y, color=color),
        ratio.mark_point(filled=True, opacity=0.9, aria=False).encode(
            x=alt.X("ratio:Q", scale=scale), y=y, color=color, size=size),
    ).properties(width=WIDTH, height=21 * len(table)),
        "Total over active parameters, a dot for each model, log scale, as large as one of its experts: "
        + spans({counted(len(table), "model"): [row["ratio"] for row in table]}) + ". A tick marks the limit of each, "
        "experts over those chosen: " + spans({"ticks": [row["limit"] for row in table]}) + ".")


def cache_by_context(context, held, read):
    """Cache of a sequence divided by its tokens, held and read in a step, against the context; both axes log.

    Parameters
    ----------
    context : array_like [n]
    held, read : dict of str to array_like [n]
        Bytes per token of context by model, the first one for comparison.
    """
    color = legend_colors(held, [MUTED, *SERIES][:len(held)])
    scale = alt.Scale(type="log", domain=[min(context), max(context)], nice=False)
    says = "datum.value < 1e6 ? datum.value / 1024 + 'k' : '1M'"
    axis = alt.Axis(values=[2**power for power in range(10, 21, 2)], labelExpr=says)

    def view(lines, title):
        table = alt.Data(values=series_rows(lines, "size", context=context))
        return alt.Chart(table, title=title, width=WIDTH // 2, height=HEIGHT).mark_line(
            strokeWidth=2.5, aria=False).encode(
            x=alt.X("context:Q", title="tokens of context", scale=scale, axis=axis), color=color,
            y=log_axis("size", "bytes per token of context", (1e3, 4e5)))

    figure = finish(alt.hconcat(view(held, "held"), view(read, "read in a step")),
        "Bytes of cache per token of context against the context, log-log, a line for each model. "
        f"Left, held: {spans(held)}. Right, read in a step: {spans(read)}.")
    figure.config["legend"]["columns"] = 4
    return figure
