"""Figures of page 03: rooflines, shapes, enough batch."""

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
    digits,
    finish,
    legend_colors,
    log_axis,
    pair_rows,
    rows,
    series_rows,
    spans,
)

ROOF = (0.4, 3e5)  # FLOP per byte from one end of a roof to the other
RULED = (1, 64, 512, 4096, 32768)  # batches written beside it


def roofline():
    """The roof of a device, with a model's steps and its dense twin's on it, batch by batch.

    Data sets: ``roof`` (device, precision, intensity, rate), ``twin`` (device, precision, and the lists batch,
    intensity, rate), ``moe`` (those and model). Rate in FLOP/s. Choices: model, precision, device, batch.
    """
    x = alt.X("intensity:Q", title="FLOP per byte read", axis=alt.Axis(values=[10**i for i in range(6)], format="~s"),
              scale=alt.Scale(type="log", domain=list(ROOF), nice=False, clamp=True))
    y = log_axis("rate", "FLOP/s at most", (5e11, 1e16), format="~s")
    here = "datum.precision == precision && datum.device == device"
    names = ["this mixture of experts", "a dense model of its active size", "the roofline of the device"]
    color = legend_colors(names, [MOE, DENSE, LIMIT])
    roof = alt.Chart(alt.NamedData("roof")).transform_filter(here).transform_calculate(series=repr(names[2]))
    layers, on_top = [roof.mark_line(strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color)], []
    beside = [{"align": "left", "dx": 6, "dy": 15}, {"align": "right", "dx": -6, "dy": -11}]  # below and above the roof
    for name, data, also, place in zip(names, ["moe", "twin"], [" && datum.model == model", ""], beside, strict=False):
        steps = alt.Chart(alt.NamedData(data)).transform_filter(here + also).transform_flatten(
            ["batch", "intensity", "rate"]).transform_calculate(series=repr(name))
        ruled = steps.transform_filter(f"indexof({list(RULED)}, datum.batch) >= 0 && datum.batch != batch")
        chosen = steps.transform_filter("datum.batch == batch")
        text = alt.Text("batch:Q", format=",d")
        layers += [
            steps.mark_point(filled=True, size=22, opacity=1, aria=False).encode(x=x, y=y, color=color),
            ruled.mark_text(**place, aria=False).encode(x=x, y=y, color=color, text=text)]
        on_top += [
            chosen.mark_point(filled=True, size=170, opacity=1, aria=False).encode(x=x, y=y, color=color),
            chosen.mark_text(**place, fontWeight="bold", fontSize=14, aria=False).encode(
                x=x, y=y, color=color, text=text)]
    return finish(alt.layer(*layers, *on_top).properties(width=WIDTH, height=340),
                  "FLOP per second that a device allows against FLOP per byte of the work, log-log. A bent line is the "
                  "roofline of the device: a slope where reading limits, level where arithmetic does. Dots on it are "
                  "steps of the model and of its dense twin, numbered by batch; large dots have the chosen batch.")


def ridges(intensity, mark, mark_says):
    """Ridge points as bars, with a rule at a tempting number.

    Parameters
    ----------
    intensity : dict of str to float
        FLOP per byte by device.
    mark : float
        Where the rule stands.
    mark_says : str
    """
    table = alt.Data(values=rows(device=list(intensity), ridge=np.array(list(intensity.values()), float)))
    y = alt.Y("device:N", title=None, sort=None, axis=alt.Axis(labelLimit=0, ticks=False, domain=False))
    x = alt.X("ridge:Q", title="FLOP per byte, or tokens per expert in BF16",
              scale=alt.Scale(domain=[0, 480]), axis=alt.Axis(values=[0, 100, 200, 300, 400]))
    bars = alt.Chart(table).mark_bar(color=LIMIT, height=14, aria=False).encode(x=x, y=y)
    text = alt.Chart(table).mark_text(align="left", dx=5, aria=False).encode(
        x=x, y=y, text=alt.Text("ridge:Q", format=".0f"))
    one = alt.Chart(alt.Data(values=[{"at": mark, "says": mark_says}]))
    top = alt.value(-8)
    rule = one.mark_rule(color="currentColor", strokeDash=[5, 4], strokeWidth=2, aria=False).encode(x="at:Q")
    says = one.mark_text(align="left", dx=5, aria=False).encode(x="at:Q", y=top, text="says:N")
    return finish(alt.layer(bars, text, rule, says).properties(width=WIDTH, height=26 * len(intensity)),
                  "Ridge points in FLOP per byte, a bar for each device: "
                  + ", ".join(f"{name} {value:.0f}" for name, value in intensity.items())
                  + f". A dashed rule marks {mark_says}.")


def shapes(batch, computed, dropped):
    """Run-time shapes: rows computed for a token's row, and choices dropped, both against batch.

    Parameters
    ----------
    batch : array_like [n]
        Marked by points: between them a capacity, a whole number, jumps.
    computed : dict of str to array_like [n]
        Rows computed over rows that carry a token: three tiles, then two capacities.
    dropped : dict of str to array_like [n]
        Shares of choices dropped by those capacities.
    """
    names = list(computed)
    x = batch_axis(domain=(1, 16384))
    shared = {"title": None, "legend": alt.Legend(labelLimit=0, symbolType="stroke", symbolSize=400)}
    colors, dashes = [MOE, CACHE, ALWAYS, MUTED, MUTED], [[1, 0]] * 4 + [[5, 3]]
    color = alt.Color("series:N", scale=alt.Scale(domain=names, range=colors), **shared)
    dash = alt.StrokeDash("series:N", scale=alt.Scale(domain=names, range=dashes), **shared)

    def lines(table, y):
        data, point = alt.Data(values=series_rows(table, "value", batch=batch)), alt.OverlayMarkDef(size=22)
        line = alt.Chart(data).mark_line(strokeWidth=2.5, point=point, aria=False)
        return line.encode(x=x, y=y, color=color, strokeDash=dash).properties(width=300, height=260)

    left = lines(computed, alt.Y("value:Q", title="rows computed per token's row",
                                 axis=alt.Axis(values=[4**i for i in range(5)], format="d"),
                                 scale=alt.Scale(type="log", domain=[1, 256], nice=False)))
    right = lines(dropped, alt.Y("value:Q", title="choices dropped", axis=alt.Axis(format="%"),
                                 scale=alt.Scale(domain=[0, 0.25])))
    return finish(alt.hconcat(left, right, spacing=28),
                  "Rows computed and choices dropped, against the batch. Left, log-log, rows computed for every row "
                  f"that carries a token: {spans(computed)}. Right, choices dropped: {spans(dropped, '%', 100)}.")


def time_ratio(batch, ratios, peak, peak_says, ends):
    """Step time of mixtures over that of their dense twins, against batch.

    Parameters
    ----------
    batch : array_like [n]
    ratios : dict of str to array_like [n]
        Time ratios by model, at most three.
    peak, peak_says : float, str
        The batch at which a rule stands and the ratios are written, and what the rule says.
    ends : dict of str to float
        The batch by model from which the ratio is 1 again.
    """
    names, table = list(ratios), series_rows(ratios, "ratio", batch=batch)
    marks = series_rows({name: np.interp(peak, batch, values) for name, values in ratios.items()}, "ratio", batch=peak)
    marks = [{**row, "text": f"{row['ratio']:.1f}", "end": ends[row["series"]], "one": 1, "low": i % 2}
             for i, row in enumerate(marks)]  # neighbours one above the other, for narrow screens
    x, color = batch_axis(domain=(1, 16384)), legend_colors(names, [MOE, CACHE, ALWAYS][:len(names)])
    y = alt.Y("ratio:Q", title="step time, MoE over its twin", scale=alt.Scale(domain=[-2, 22], nice=False),
              axis=alt.Axis(values=[1, 5, 10, 15, 20]))
    rule = alt.Chart(alt.Data(values=[{"batch": peak, "says": peak_says, "top": 22}]))
    at = alt.Chart(alt.Data(values=marks))
    at_end = {"x": batch_axis(name="end", domain=(1, 16384)), "y": alt.Y("one:Q"), "color": color}
    return finish(alt.layer(
        rule.mark_rule(color=LIMIT, strokeDash=[6, 4], strokeWidth=2, aria=False).encode(x=x),
        rule.mark_text(align="left", dx=6, dy=8, aria=False).encode(x=x, y="top:Q", text="says:N"),
        alt.Chart(alt.Data(values=table)).mark_line(strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color),
        at.mark_point(filled=True, size=70, opacity=1, aria=False).encode(x=x, y=y, color=color),
        at.mark_text(align="right", dx=-8, dy=-8, fontWeight="bold", aria=False).encode(
            x=x, y=y, color=color, text="text:N"),
        at.mark_point(filled=True, size=70, opacity=1, aria=False).encode(**at_end),
        *(at.transform_filter(f"datum.low == {low}").mark_text(dy=13 + 14 * low, fontWeight="bold", aria=False).encode(
            **at_end, text=alt.Text("end:Q", format=",.0f")) for low in (0, 1)),
    ).properties(width=WIDTH, height=HEIGHT),
        "Step time of a mixture of experts over that of a dense model of its active size, against the batch. A line "
        f"for each model, with dots at a dashed rule, {peak_says}, and where both take the same: " + "; ".join(
            f"{row['series']} {row['text']} at the rule, the same at {row['end']:,.0f}" for row in marks) + ".")


def ladder(rungs):
    """Batches on one log axis, one a row, each with what it is.

    Parameters
    ----------
    rungs : dict of str to float
        Tokens in a step by what they are, at most 50 characters, so that a phone shows them.
    """
    batches = np.array(list(rungs.values()), float)
    table = alt.Data(values=rows(batch=batches, says=list(rungs), row=np.arange(len(rungs)), low=16))
    domain = (16, 32768)
    x = batch_axis(domain=domain)
    y = alt.Y("row:O", title=None, axis=None, sort="descending")
    base = alt.Chart(table)
    return finish(alt.layer(
        base.mark_rule(color=MOE, strokeWidth=2, opacity=0.5, aria=False).encode(
            x=batch_axis(name="low", domain=domain), x2="batch:Q", y=y),
        base.mark_point(filled=True, color=MOE, size=110, opacity=1, aria=False).encode(x=x, y=y),
        base.mark_text(align="left", dx=9, fontWeight="bold", fontSize=14, aria=False).encode(
            x=x, y=y, text=alt.Text("batch:Q", format=",.0f")),
        base.mark_text(align="left", dy=-17, aria=False).encode(x=alt.value(2), y=y, text="says:N"),
    ).properties(width=WIDTH, height=50 * len(rungs)),
        "Batches on a log axis, a dot in each row: "
        + "; ".join(f"{batch:,.0f}, {what}" for what, batch in rungs.items()) + ".")


def kernels(roof, points):
    """Measured kernels under the roof of their device.

    Parameters
    ----------
    roof : (array_like, array_like)
        FLOP per byte and FLOP/s along the roof.
    points : dict of str to (array_like, array_like)
        FLOP per byte and measured FLOP/s, by model and software, at most three.
    """
    names, shapes = ["the roofline of the device", *points], ["circle", "square", "triangle-up"]
    x = alt.X("intensity:Q", title="FLOP per byte of weights",
              axis=alt.Axis(values=[4**i for i in range(7)], format=",d"),
              scale=alt.Scale(type="log", base=2, domain=[0.7, 6000], nice=False))
    y = log_axis("rate", "FLOP/s", (1e12, 2e15))
    color = legend_colors(names, [LIMIT, MEASURED, CACHE, ALWAYS][:len(names)])
    line, dots = (alt.Data(values=pair_rows(of, "intensity", "rate")) for of in ({names[0]: roof}, points))
    shape = alt.Shape("series:N", scale=alt.Scale(domain=list(points), range=shapes[:len(points)]), legend=None)
    return finish(alt.layer(
        alt.Chart(line).mark_line(strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color),
        alt.Chart(dots).mark_point(filled=True, size=75, opacity=0.9, aria=False).encode(
            x=x, y=y, color=color, shape=shape),
    ).properties(width=WIDTH, height=320),
        "Measured FLOP per second of expert layers against FLOP per byte, log-log. A line is the roofline of the "
        f"device. Dots: {spans({name: rate for name, (_, rate) in points.items()}, 'TFLOP/s', 1e-12)}.")


def contexts(batch, intensity, models, kinds, ridge, ridge_says):
    """Intensity against batch with and without a cache to read.

    Parameters
    ----------
    batch : array_like [n]
    intensity : array_like [2, 2, n]
        FLOP per byte by model and context; the first context is solid, the second dashed.
    models, kinds : list of str
        What the models and the contexts are called.
    ridge, ridge_says : float, str
    """
    table = [row for model, each in zip(models, intensity, strict=True)
             for kind, values in zip(kinds, each, strict=True)
             for row in rows(batch=batch, intensity=np.asarray(values, float), series=model, context=kind)]
    x, y = batch_axis(), log_axis("intensity", "FLOP per byte read", (0.7, 1e4))
    legend = {"labelLimit": 0, "symbolType": "stroke", "symbolSize": 400}
    color = alt.Color("series:N", title=None, legend=alt.Legend(**legend),
                      scale=alt.Scale(domain=models, range=[MOE, CACHE]))
    dash = alt.StrokeDash("context:N", title=None, legend=alt.Legend(**legend, symbolStrokeColor=MUTED),
                          scale=alt.Scale(domain=kinds, range=[[1, 0], [5, 3]]))
    rule = alt.Chart(alt.Data(values=[{"intensity": ridge, "batch": 1, "says": ridge_says}]))
    return finish(alt.layer(
        alt.Chart(alt.Data(values=table)).mark_line(strokeWidth=2.5, aria=False).encode(
            x=x, y=y, color=color, strokeDash=dash),
        rule.mark_rule(color=LIMIT, strokeDash=[2, 3], strokeWidth=2, aria=False).encode(y=y),
        rule.mark_text(align="left", dx=6, dy=-9, aria=False).encode(x=x, y=y, text="says:N"),
    ).properties(width=WIDTH, height=HEIGHT),
        f"FLOP per byte read against the batch, log-log. Solid lines, {kinds[0]}; dashed lines, {kinds[1]}: "
        + spans({f"{model}, {kind}": values for model, each in zip(models, intensity, strict=True)
                 for kind, values in zip(kinds, each, strict=True)})
        + f". A dotted rule: {ridge_says}, {digits(ridge)}.")
