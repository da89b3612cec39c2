"""One table in, one Altair chart out. No formula here; the Vega side only filters rows that Python computed.

Importing this module makes charts draw offline: in JupyterLab by its own Vega, on a page by the book's script.
"""

import altair as alt
import numpy as np

VEGALITE = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # a name, never fetched
WIDTH, HEIGHT = 640, 300

# One meaning each, in every figure. At least 3:1 against the light and the dark page; told apart without colour vision.
MOE, DENSE, LIMIT, MEASURED = "#2F82C4", "#C4622D", "#9466C4", "#1B8A6B"
CACHE, ALWAYS = "#B8860B", "#B0447C"  # keys and values, what every token reads; elsewhere a second and third model
SERIES = [MOE, DENSE, LIMIT, MEASURED, CACHE, ALWAYS]
HEAT = "viridis"  # a quantity shown as colour
MUTED = "#7D8590"  # what is idle, illegal or past


def _mime_bundle(spec, **_):
    return {VEGALITE: {**spec, "$schema": SCHEMA}, "text/plain": spec.get("description", "a chart")}


alt.renderers.register("moe", _mime_bundle)
alt.renderers.enable("moe")


def rows(**columns):
    """Row dicts for a data set from columns broadcast together; floats keep five significant digits.

    >>> print(rows(model="x", batch=[1, 2], share=[1 / 3, 0.5]))
    [{'model': 'x', 'batch': 1, 'share': 0.33333}, {'model': 'x', 'batch': 2, 'share': 0.5}]
    """
    values = (column.ravel().tolist() for column in np.broadcast_arrays(*columns.values()))
    return [dict(zip(columns, map(_short, row), strict=True)) for row in zip(*values, strict=True)]


def _lines(lines, field, **columns):
    """Rows of several lines, {name: values of `field`}, with the columns they share and a series that names each."""
    return [row for name, values in lines.items() for row in rows(**columns, **{field: values}, series=name)]


def _short(value):
    return float(f"{value:.5g}") if isinstance(value, float) else value


def digits(value):
    """A number as the chapter prints it: three significant digits, thousands separated, whole from 100 up.

    >>> print(digits(1168.77), digits(2.0), digits(0.0333))
    1,169 2.0 0.0333
    """
    if not 0 < abs(value) < 99.95:
        return f"{value:,.0f}"
    text = f"{value:.2g}" if float(f"{value:.2g}") == float(f"{value:.3g}") else f"{value:.3g}"
    return text if "." in text or abs(value) >= 10 else f"{value:.1f}"


def gigabytes(num_bytes):
    """Bytes in GB of 1e9, in words.

    >>> print(gigabytes(1.16877e12))
    1,169 GB
    """
    return f"{digits(num_bytes / 1e9)} GB"


def batch_axis(title="tokens in a step (batch)", name="batch", domain=(1, 65536)):
    """The x axis that every figure over batches shares: log scale, powers of four."""
    ticks = [4**i for i in range(9) if domain[0] <= 4**i <= domain[1]]
    axis = alt.Axis(values=ticks, format=",d", labelOverlap=True, labelSeparation=8)
    return alt.X(f"{name}:Q", title=title, axis=axis,
                 scale=alt.Scale(type="log", base=2, domain=list(domain), nice=False))


def log_axis(field, title, domain, **axis):
    """A log y axis over a fixed domain, decades labelled with SI prefixes."""
    low, high = np.log10(domain)
    decades = (10.0 ** np.arange(np.ceil(low), high + 1e-9)).tolist()
    axis = {"format": "~s", "values": decades, **axis}
    return alt.Y(f"{field}:Q", title=title, axis=alt.Axis(**axis),
                 scale=alt.Scale(type="log", domain=list(domain), clamp=True, nice=False))


def legend_colors(names, colors):
    """Colour by series, in the order given, with the legend above the plot."""
    return alt.Color("series:N", title=None, scale=alt.Scale(domain=list(names), range=list(colors)),
                     legend=alt.Legend(labelLimit=0))


def finish(chart, description):
    """The look that all figures share, and the words that a screen reader says.

    ``currentColor`` is the page's own text colour: light and dark need no redraw.
    """
    text = {"labelColor": "currentColor", "titleColor": "currentColor"}
    font = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
    return chart.properties(description=description).configure(
        background="transparent", font=font, view={"stroke": None}, text={"color": "currentColor", "fontSize": 12},
        title={"color": "currentColor", "subtitleColor": "currentColor", "fontSize": 13, "anchor": "start",
               "fontWeight": "normal"},
        axis={**text, "domainColor": "currentColor", "tickColor": "currentColor", "gridColor": "currentColor",
              "gridOpacity": 0.12, "domainOpacity": 0.4, "tickOpacity": 0.4, "labelFontSize": 12, "titleFontSize": 12,
              "titleFontWeight": "normal", "titlePadding": 8},
        legend={**text, "orient": "top", "direction": "horizontal", "columns": 0, "labelFontSize": 12,
                "titleFontSize": 12, "symbolStrokeWidth": 3},
        header={**text, "labelFontSize": 12})


def workshop():
    """Intensity against batch: the model and its dense twin, the device's ridge point, and the chosen batch.

    Data sets: ``curve`` (model, precision, batch, moe, twin), ``ridge`` (device, precision, ridge). Choices: model,
    precision, device, batch.
    """
    curve = alt.Chart(alt.NamedData("curve")).transform_filter("datum.model == model && datum.precision == precision")
    ridge = alt.Chart(alt.NamedData("ridge")).transform_filter("datum.device == device && datum.precision == precision")
    x, domain = batch_axis(), (0.3, 1e5)
    names = ["this mixture of experts", "a dense model of its active size", "the device's ridge point"]
    lines = curve.transform_fold(["moe", "twin"], as_=["which", "intensity"]).transform_calculate(
        series=f"datum.which == 'moe' ? {names[0]!r} : {names[1]!r}")
    y = log_axis("intensity", "FLOP per byte read", domain)
    color = legend_colors(names, [MOE, DENSE, LIMIT])
    here = lines.transform_filter("datum.batch == batch")
    rule = ridge.transform_calculate(series=repr(names[2])).mark_rule(strokeDash=[6, 4], strokeWidth=2, aria=False)
    label = here.transform_calculate(text="format(datum.intensity, '.3~s')")
    return finish(alt.layer(
        lines.mark_line(strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color),
        rule.encode(y=alt.Y("ridge:Q", scale=alt.Scale(type="log", domain=list(domain))), color=color),
        here.mark_rule(color=MUTED, aria=False).encode(x=x),
        here.mark_point(filled=True, size=130, opacity=1, aria=False).encode(x=x, y=y, color=color),
        label.mark_text(align="right", dx=-9, dy=-9, fontWeight="bold", aria=False).encode(x=x, y=y, text="text:N"),
    ).properties(width=WIDTH, height=HEIGHT),
        "FLOP per byte read in one decode step against batch size, log-log. The dense model rises in proportion to the "
        "batch. The mixture of experts stays far below until nearly all experts are touched, then rises in parallel.")


def served(batch, lines, measured, title):
    """Time of a step against batch: computed lines, measured points.

    Parameters
    ----------
    batch : array_like [n]
    lines : dict of str to array_like [n]
        Seconds by name, at most three: the coverage bound, an active-only estimate, the bound with fitted constants.
    measured : (array_like, array_like)
        Batches and seconds.
    title : str
        Whose measurements.
    """
    names = [*lines, title]
    points = alt.Data(values=rows(batch=measured[0], ms=1e3 * np.asarray(measured[1]), series=title))
    milliseconds = {name: 1e3 * np.asarray(seconds) for name, seconds in lines.items()}
    table = alt.Data(values=_lines(milliseconds, "ms", batch=batch))
    x = batch_axis("requests in flight", domain=(1, 256))
    color = legend_colors(names, [MOE, DENSE, LIMIT][:len(lines)] + [MEASURED])
    y = alt.Y("ms:Q", title="milliseconds per step", scale=alt.Scale(domain=[0, 50]))
    return finish(alt.layer(
        alt.Chart(table).mark_line(strokeWidth=2.5, clip=True, aria=False).encode(x=x, y=y, color=color),
        alt.Chart(points).mark_point(filled=True, size=110, opacity=1, aria=False).encode(x=x, y=y, color=color),
    ).properties(width=WIDTH, height=HEIGHT),
        "Milliseconds per step against requests in flight: " + "; ".join(names) + ". The measured points rise with the "
        "coverage bound, about twice as high; the active-only estimate stays flat.")


ROOF = (0.7, 3e5)  # FLOP per byte from one end of a roof to the other
RULED = (1, 64, 512, 4096, 32768)  # batches written beside it


def roofline():
    """The roof of a device, with a model's steps and its dense twin's on it, batch by batch.

    Data sets: ``roof`` (device, precision, intensity, rate), ``twin`` (those and batch), ``moe`` (those and model).
    Rate in FLOP/s. Choices: model, precision, device, batch.
    """
    x = alt.X("intensity:Q", title="FLOP per byte read", axis=alt.Axis(values=[10**i for i in range(6)], format="~s"),
              scale=alt.Scale(type="log", domain=list(ROOF), nice=False, clamp=True))
    y = log_axis("rate", "FLOP/s at most", (1e12, 1e16), format="~s")
    here = "datum.precision == precision && datum.device == device"
    names = ["this mixture of experts", "a dense model of its active size", "the roofline of the device"]
    color = legend_colors(names, [MOE, DENSE, LIMIT])
    roof = alt.Chart(alt.NamedData("roof")).transform_filter(here).transform_calculate(series=repr(names[2]))
    layers, on_top = [roof.mark_line(strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color)], []
    beside = [{"align": "left", "dx": 6, "dy": 15}, {"align": "right", "dx": -6, "dy": -11}]  # below and above the roof
    for name, data, also, place in zip(names, ["moe", "twin"], [" && datum.model == model", ""], beside, strict=False):
        steps = alt.Chart(alt.NamedData(data)).transform_filter(here + also).transform_calculate(series=repr(name))
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
                  "FLOP per second that a device allows against FLOP per byte of the work, log-log: a slope where "
                  "reading limits, flat where arithmetic does. Steps of the model and of its dense twin lie on it, "
                  "numbered by batch. At the same batch the mixture lies far further down the slope.")


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
                  "Ridge points in FLOP per byte: "
                  + ", ".join(f"{name} {value:.0f}" for name, value in intensity.items())
                  + f". A dashed rule marks {mark_says}, far to the left of every bar's end.")


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
        data, point = alt.Data(values=_lines(table, "value", batch=batch)), alt.OverlayMarkDef(size=22)
        line = alt.Chart(data).mark_line(strokeWidth=2.5, point=point, aria=False)
        return line.encode(x=x, y=y, color=color, strokeDash=dash).properties(width=300, height=260)

    left = lines(computed, alt.Y("value:Q", title="rows computed per token's row",
                                 axis=alt.Axis(values=[4**i for i in range(5)], format="d"),
                                 scale=alt.Scale(type="log", domain=[1, 256], nice=False)))
    right = lines(dropped, alt.Y("value:Q", title="choices dropped", axis=alt.Axis(format="%"),
                                 scale=alt.Scale(domain=[0, 0.25])))
    return finish(alt.hconcat(left, right, spacing=28),
                  "Left: rows computed for every row that carries a token, against batch, by tile and by capacity. "
                  "Tiles waste most at small batches. Right: the share of choices that a fixed capacity drops. It "
                  "falls with the batch, and faster with more headroom.")


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
    names, table = list(ratios), _lines(ratios, "ratio", batch=batch)
    marks = _lines({name: np.interp(peak, batch, values) for name, values in ratios.items()}, "ratio", batch=peak)
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
        at.mark_text(align="left", dx=9, dy=-4, fontWeight="bold", aria=False).encode(
            x=x, y=y, color=color, text="text:N"),
        at.mark_point(filled=True, size=70, opacity=1, aria=False).encode(**at_end),
        *(at.transform_filter(f"datum.low == {low}").mark_text(dy=13 + 14 * low, fontWeight="bold", aria=False).encode(
            **at_end, text=alt.Text("end:Q", format=",.0f")) for low in (0, 1)),
    ).properties(width=WIDTH, height=HEIGHT),
        "Step time of a mixture of experts over that of a dense model of its active size, against batch. The ratio is "
        "1 for one token, highest where the dense model turns compute-bound, and 1 again where the mixture does.")


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
        "Batches on a log axis: " + "; ".join(f"{batch:,.0f}, {what}" for what, batch in rungs.items()) + ".")


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
    data = [row for name, (intensity, rate) in points.items() for row in rows(
        intensity=np.asarray(intensity, float), rate=np.asarray(rate, float), series=name)]
    line = alt.Data(values=rows(intensity=np.asarray(roof[0], float), rate=np.asarray(roof[1], float), series=names[0]))
    shape = alt.Shape("series:N", scale=alt.Scale(domain=list(points), range=shapes[:len(points)]), legend=None)
    return finish(alt.layer(
        alt.Chart(line).mark_line(strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color),
        alt.Chart(alt.Data(values=data)).mark_point(filled=True, size=75, opacity=0.9, aria=False).encode(
            x=x, y=y, color=color, shape=shape),
    ).properties(width=WIDTH, height=320),
        "Measured FLOP per second of expert layers against FLOP per byte, under the device's roof, log-log. On the "
        "slope the points climb close to the roof. On the flat part they stay further below it.")


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
        "FLOP per byte against batch for two models, with and without a cache of earlier tokens. Without it both lines "
        f"rise through the ridge point. With it, {models[0]} flattens above that point, {models[1]} far below.")


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
    return finish(alt.layer(
        bill.mark_bar(height=22, aria=False).encode(x=x, x2="end", y=y, color=color),
        used.mark_bar(height=5, aria=False).encode(x=x, x2="used", y=y, color=color),
        rule.encode(x=at, color=color),
        last.mark_text(align=side, **above).encode(x=at, text="text:N"),
    ).properties(width=WIDTH, height=210),
        "Gigabytes that must be held, one bar for each item, end to end: routed experts, shared experts, attention, "
        "embedding and head, the rest, the caches. Dashed rules show where each device is full. A thin bar shows what "
        "one token reads.")


def _rows_axis():
    """The y axis of a figure with one model a row, in the order given."""
    return alt.Y("label:N", sort=None, title=None, axis=alt.Axis(labelLimit=0, grid=True, ticks=False, domain=False))


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
    y, color = _rows_axis(), legend_colors(names, [MOE, DENSE, MEASURED])
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
        "Bytes of cache per token of each model in BF16, log scale, from half a megabyte down to 5.5 kilobytes. A line "
        "leads to what a further token takes once the windows are full. Diamonds are figures that others published.")


def sparsity(table):
    """Total over active parameters of each model, and the most it could be, E / k.

    Parameters
    ----------
    table : list of dict
        Rows with label, ratio (total / active), limit (E / k) and expert (parameters of one expert), in order.
    """
    names = ["total / active", "experts / chosen"]
    y, color = _rows_axis(), legend_colors(names, [MOE, LIMIT])
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
        "Total over active parameters of each model, as a dot, left of its limit, the number of experts over the "
        "number chosen. Models with many small experts reach ratios near 20; models with few large ones stay below 4.")


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
        table = alt.Data(values=_lines(lines, "size", context=context))
        return alt.Chart(table, title=title, width=WIDTH // 2, height=HEIGHT).mark_line(
            strokeWidth=2.5, aria=False).encode(
            x=alt.X("context:Q", title="tokens of context", scale=scale, axis=axis), color=color,
            y=log_axis("size", "bytes per token of context", (1e3, 4e5)))

    figure = finish(alt.hconcat(view(held, "held"), view(read, "read in a step")),
        "Bytes of cache per token of context, held and read in a step, for seven models. With one entry per token the "
        "line is flat; windows and fixed states make it fall with context; an index lets what is read fall, not what "
        "is held.")
    figure.config["legend"]["columns"] = 4
    return figure


def share_axis(field):
    """The y axis of every figure over coverage."""
    return alt.Y(f"{field}:Q", title="share of the experts touched", axis=alt.Axis(format=".0%"),
                 scale=alt.Scale(domain=[0, 1]))


def wall():
    """Every expert of a layer as a square, lit by its tokens in one step, beside the coverage curve.

    Data sets: ``wall`` (router, batch, and the lists tokens, expert, row, column), ``curve`` (router, batch, share,
    low, high, uniform), ``step`` (router, batch, share). Choices: router, batch.
    """
    here = "datum.router == router && datum.batch == batch"
    square = alt.Chart(alt.NamedData("wall")).transform_filter(here).transform_flatten(
        ["tokens", "expert", "row", "column"])
    gap = alt.Scale(paddingInner=0.14, paddingOuter=0)
    place = {"x": alt.X("column:O", axis=None, scale=gap), "y": alt.Y("row:O", axis=None, scale=gap),
             "tooltip": [alt.Tooltip("expert:O", title="expert"), alt.Tooltip("tokens:Q", title="tokens")]}
    bottom = {"orient": "bottom", "titleFontWeight": "normal", "titleLimit": 0}
    heat = alt.Color("tokens:Q", title="tokens; an outline has none", scale=alt.Scale(
        type="log", domain=[1, 32], clamp=True, scheme=alt.SchemeParams(name=HEAT, extent=[0.3, 1])),
        legend=alt.Legend(**bottom, values=[1, 2, 4, 8, 16, 32], gradientLength=200, direction="horizontal",
                          labelExpr="datum.value == 32 ? '32+' : datum.label"))
    squares = alt.layer(
        square.transform_filter("datum.tokens == 0").mark_rect(
            cornerRadius=3, fill="transparent", stroke="currentColor", strokeOpacity=0.3, aria=False).encode(**place),
        square.transform_filter("datum.tokens > 0").mark_rect(cornerRadius=3, aria=False).encode(**place, color=heat),
    ).properties(width=300, height=300, title="One simulated step: each square an expert")
    x, y = batch_axis(domain=(1, 512)), share_axis("share")
    names = ["expected", "expected if uniform", "this step"]
    color = legend_colors(names, [MOE, LIMIT, CACHE]).legend(**bottom, labelLimit=0)
    curve = alt.Chart(alt.NamedData("curve")).transform_filter("datum.router == router")
    bound = curve.transform_filter("isValid(datum.uniform)").transform_calculate(series=repr(names[1]))
    mean = curve.transform_calculate(series=repr(names[0]))
    step = alt.Chart(alt.NamedData("step")).transform_filter(here).transform_calculate(series=repr(names[2]))
    at = curve.transform_filter("datum.batch == batch").transform_calculate(series=repr(names[0]))
    band, smooth = curve.transform_filter("isValid(datum.low)"), {"interpolate": "monotone", "aria": False}
    expected = alt.layer(
        band.mark_area(color=MOE, opacity=0.2, **smooth).encode(x=x, y=share_axis("low"), y2="high:Q"),
        bound.mark_line(strokeWidth=2, strokeDash=[6, 4], **smooth).encode(x=x, y=share_axis("uniform"), color=color),
        mean.mark_line(strokeWidth=2.5, **smooth).encode(x=x, y=y, color=color),
        at.mark_rule(color=MUTED, aria=False).encode(x=x),
        step.mark_point(shape="diamond", filled=True, size=130, opacity=1, aria=False).encode(x=x, y=y, color=color),
        at.mark_point(size=190, strokeWidth=2.5, opacity=1, aria=False).encode(x=x, y=y, color=color),
    ).properties(width=300, height=300, title="Over many steps (shaded: ± 2 standard deviations)")
    return finish(
        alt.hconcat(squares, expected, spacing=28).resolve_scale(color="independent"),
        "Left, a square for every expert of a layer, lit by the tokens it gets in one simulated step; experts "
        "without a token are outlines. Right, the share of experts touched against the batch, with a dot at the "
        "chosen batch. At 64 tokens 34 of 256 squares are dark.")


def coverage():
    """Share of experts touched against batch: the chosen router, and the uniform one that bounds it.

    Data set: ``curve`` (num_experts, top_k, skew, batch, share, uniform). Choices: num_experts, top_k, skew, batch.
    """
    curve = alt.Chart(alt.NamedData("curve")).transform_filter(
        "datum.num_experts == num_experts && datum.top_k == top_k && datum.skew == skew")
    names, smooth = ["this router", "uniform: the upper bound"], {"interpolate": "monotone", "aria": False}
    x, y = batch_axis(domain=(1, 8192)), share_axis("touched")
    color = legend_colors(names, [MOE, LIMIT]).legend(symbolType="stroke", labelLimit=0)
    lines = curve.transform_fold(["share", "uniform"], as_=["which", "touched"]).transform_calculate(
        series=f"datum.which == 'share' ? {names[0]!r} : {names[1]!r}")
    mine, bound = (lines.transform_filter(f"datum.which == '{which}'") for which in ("share", "uniform"))
    here = mine.transform_filter("datum.batch == batch")
    label = alt.Text("touched:Q", format=".0%")
    return finish(alt.layer(
        bound.mark_line(strokeWidth=2, strokeDash=[6, 4], **smooth).encode(x=x, y=y, color=color),
        mine.mark_line(strokeWidth=2.5, **smooth).encode(x=x, y=y, color=color),
        here.mark_rule(color=MUTED, aria=False).encode(x=x),
        here.mark_point(filled=True, size=130, opacity=1, aria=False).encode(x=x, y=y, color=color),
        here.mark_text(align="left", dx=10, dy=14, fontWeight="bold", aria=False).encode(x=x, y=y, text=label),
    ).properties(width=WIDTH, height=HEIGHT),
        "Share of a layer's experts that a step touches against the batch. The curve rises steeply and then levels "
        "off; a skewed router stays below the uniform one.")


def speculation(names):
    """Gain of a draft against batch, a line a model, with a rule at 1 and one server measured by NVIDIA.

    Data sets: ``curve`` (acceptance, draft, copy, batch, and a gain g0, g1, ... for each of `names`), ``measured``
    (draft, batch, gain). Choices: acceptance, draft, copy.
    """
    keys, server = [f"g{i}" for i in range(len(names))], "DeepSeek-R1 on 8 B200, measured by NVIDIA"
    x = batch_axis("sequences being served (batch)", domain=(0.85, 8192))
    y = alt.Y("gain:Q", title="speed with the draft over without",
              axis=alt.Axis(values=[0.5, 0.7, 1, 1.5, 2, 3, 4], format=".1f"),
              scale=alt.Scale(type="log", domain=[0.5, 4.2], nice=False))
    color = legend_colors([*names, server], [MOE, CACHE, DENSE, ALWAYS][:len(names)] + [MEASURED]).legend(
        symbolType="stroke", labelLimit=0)
    lines = alt.Chart(alt.NamedData("curve")).transform_filter(
        "datum.acceptance == acceptance && datum.draft == draft && datum.copy == copy").transform_fold(
        keys, as_=["which", "gain"]).transform_calculate(series=f"{dict(zip(keys, names, strict=True))!r}[datum.which]")
    point = alt.Chart(alt.NamedData("measured")).transform_filter("datum.draft == draft").transform_calculate(
        series=repr(server))
    rule = alt.Chart(alt.Data(values=[{"gain": 1}]))
    return finish(alt.layer(
        rule.mark_rule(color=MUTED, strokeWidth=2, strokeDash=[6, 4], aria=False).encode(y=y),
        lines.mark_line(strokeWidth=2.5, interpolate="monotone", clip=True, aria=False).encode(x=x, y=y, color=color),
        point.mark_point(shape="diamond", filled=True, size=150, opacity=1, aria=False).encode(x=x, y=y, color=color),
    ).properties(width=WIDTH, height=340),
        "Speed-up by a draft against the number of sequences, log-log, with a rule at 1. The mixture of 256 experts "
        "dips towards 1 at a few sequences, rises to its ceiling at some hundred and falls below 1 once computing "
        "binds. The dense model starts at its ceiling and falls much earlier.")


def covered(panels, by_others=False):
    """Share of experts touched against batch in views side by side: curves, and points simulated.

    Parameters
    ----------
    panels : dict of str to dict
        Title to {"batch": [n], "lines": {name: [n] or [curves, n]}, "points": {name: [n]}}, points optional. The first
        line is the uniform formula, drawn dashed; names are the same in every panel.
    by_others : bool
        The second line comes from what others measured.
    """
    series = (name for panel in panels.values() for name in [*panel["lines"], *panel.get("points", {})])
    views, names = [], list(dict.fromkeys(series))
    color = legend_colors(names, [LIMIT, MEASURED if by_others else MOE, CACHE][:len(names)]).legend(
        symbolType="stroke", labelLimit=0)
    for title, panel in panels.items():
        batch, layers = np.asarray(panel["batch"], float), []
        place = {"x": batch_axis(domain=(1, float(batch.max()))), "y": share_axis("share"), "color": color}
        for name, shares in reversed(panel["lines"].items()):  # the bound on top
            table = [row for curve, share in enumerate(np.atleast_2d(shares))
                     for row in rows(batch=batch, share=share, series=name, curve=curve)]
            dash = [6, 4] if name == names[0] else [1, 0]
            layers.append(alt.Chart(alt.Data(values=table)).mark_line(
                strokeWidth=2, strokeDash=dash, interpolate="monotone", aria=False).encode(**place, detail="curve:N"))
        for name, share in panel.get("points", {}).items():
            dots = alt.Chart(alt.Data(values=rows(batch=batch, share=np.asarray(share), series=name)))
            layers.append(dots.mark_point(filled=True, size=60, opacity=1, aria=False).encode(**place))
        views.append(alt.layer(*layers).properties(title=title))
    size = {"width": 290, "height": 260} if len(views) > 1 else {"width": WIDTH, "height": HEIGHT}
    views = [view.properties(**size) for view in views]
    return finish(alt.hconcat(*views) if len(views) > 1 else views[0],
                  f"Share of experts touched against the batch, {'; '.join(panels)}. Dashed: {names[0]}. The other "
                  "curves lie below it.")


def layer_times(batch, lines, measured):
    """Time of a layer's experts against batch, log-log: computed lines, and points measured by others.

    Parameters
    ----------
    batch : array_like [n]
    lines : dict of str to array_like [n]
        Seconds by name, at most three: the bound for the routing timed, the coverage formula, active parameters only.
    measured : dict of str to (array_like, array_like)
        Name to batches and seconds, at most two.
    """
    names, series = [*lines, *measured], [LIMIT, MOE, DENSE][:len(lines)] + [MEASURED, CACHE][:len(measured)]
    color = legend_colors(names, series).legend(symbolType="stroke", labelLimit=0)
    y = alt.Y("ms:Q", title="milliseconds", axis=alt.Axis(values=[0.1, 0.2, 0.5, 1, 2, 5, 10], format=".1~f"),
              scale=alt.Scale(type="log", domain=[0.1, 12], nice=False))
    place, layers = {"x": batch_axis(domain=(1, 1024)), "y": y, "color": color}, []
    for (name, seconds), dash in zip(lines.items(), [[6, 4], [1, 0], [2, 3]], strict=False):
        table = alt.Data(values=rows(batch=batch, ms=1e3 * np.asarray(seconds), series=name))
        layers.append(alt.Chart(table).mark_line(strokeWidth=2.5, strokeDash=dash, aria=False).encode(**place))
    for (name, (at, seconds)), shape in zip(measured.items(), ["circle", "diamond"], strict=False):
        table = alt.Data(values=rows(batch=at, ms=1e3 * np.asarray(seconds), series=name))
        mark = {"filled": True, "shape": shape, "size": 90, "opacity": 1, "aria": False}
        layers.append(alt.Chart(table).mark_point(**mark).encode(**place))
    return finish(
        alt.layer(*layers).properties(width=WIDTH, height=HEIGHT),
        "Milliseconds of a layer's routed experts against the batch, log-log: " + "; ".join(names) + ". The measured "
        "points rise with the experts touched, some twenty-five times from 1 to 128 tokens; active parameters alone "
        "predict a flat line.")


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
        points = [row for row in _lines(table, "context", batch=batch) if row["context"] > 0]
        line = alt.Chart(alt.Data(values=points)).mark_line(
            strokeWidth=2.5, strokeDash=dash, clip=True, aria=False)
        return line.encode(x=x, y=y, color=color)

    figure = finish(alt.layer(
        rule.mark_rule(color="currentColor", strokeDash=[2, 3], strokeWidth=1.5, aria=False).encode(y=y),
        rule.mark_text(align="right", dx=-4, dy=-9, aria=False).encode(x=x, y=y, text="says:N"),
        drawn(lines, [1, 0]), drawn(dense, [6, 4]),
    ).properties(width=WIDTH, height=340),
        "Context at which a step reads as many bytes of cache as of weights, against the batch, log-log. The dense "
        "model falls in proportion to the batch from the start. Mixtures of experts stay high while a larger batch "
        "touches more experts, and fall as the dense one does once all are touched. Models with small caches and many "
        "weights lie highest.")
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
    scale = alt.Scale(type="log", domain=[0.01, 1e5], nice=False)
    x, y = context_axis((1024, 2**20)), alt.Y("cache:Q", title="GB read in a step", scale=scale, axis=alt.Axis(
        format=",~f", values=[10.0**power for power in range(-2, 6)]))
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
        label.mark_text(align="left", dx=9, dy=12, fontWeight="bold", aria=False).encode(x=x, y=y, text="text:N"),
    ).properties(width=WIDTH, height=HEIGHT),
        "Gigabytes read in a decode step against the context of each sequence, log-log. What is read of the weights "
        "does not depend on the context. The cache rises with it, and a ring marks where it reads as much as the "
        "weights.")


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
        label.mark_text(align="left", dx=9, dy=-9, fontWeight="bold", aria=False).encode(x=x, y=y, text="text:N"),
    ).properties(width=WIDTH, height=320),
        "Milliseconds against the tokens of a chunk, log-log. The time to the first token falls with the chunk until a "
        "chunk is compute-bound, and then hardly. The pause that a chunk imposes on other sequences is flat until "
        "there, and then grows with the chunk.")
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
                            for row in _lines(predicted, "ratio", context=context)])
    dots = alt.Data(values=[{**row, "model": row["series"], "series": kinds[1]}
                            for row in _lines(measured, "ratio", context=context)])
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
        "Time of a decode step over that of a step without context, against the context: "
        + "; ".join(f"{name} up to {values[-1]:.2f} measured" for name, values in measured.items())
        + ". The points lie close to the lines that the bytes predict.")


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
    points = alt.Data(values=_lines({name: 1e3 * np.asarray(s) for name, s in measured.items()}, "ms", chunk=chunk))
    layers.append(alt.Chart(points).mark_point(filled=True, size=110, opacity=1, aria=False).encode(
        x=x, y=y, color=color))
    return finish(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT),
                  "Milliseconds per chunk of a prompt against the chunk's tokens, log-log: " + "; ".join(names) + ". "
                  "The measured points rise with the experts that a chunk touches and level off as they do, some way "
                  "above the bound.")


OFFLOADED = (0.5, 5000)  # milliseconds a token that the control's axis spans


def offloading():
    """Milliseconds per token against the share of experts on the card, and the share that the chosen card holds.

    Data sets: ``curve`` (key, and the lists share and ms), ``card`` (key, share, ms, text; no row where nothing fits).
    The key names model, device, way, precision and reuse, the choices; the way server-ddr5 is always there.
    """
    names = ["missing experts as chosen", "computed by a server's host"]
    key = "model + '|' + device + '|' + {} + '|' + precision + '|' + reuse"
    card = alt.Chart(alt.NamedData("card")).transform_filter("datum.key == " + key.format("way"))
    x = alt.X("share:Q", title="share of the experts held on the card", axis=alt.Axis(format=".0%", tickCount=5),
              scale=alt.Scale(domain=[0, 1]))
    y = log_axis("ms", "milliseconds per token, at least", OFFLOADED, format=",~r")
    color = legend_colors(names, [MOE, CACHE]).legend(symbolType="stroke", labelLimit=0)
    lines = [
        alt.Chart(alt.NamedData("curve")).transform_filter("datum.key == " + key.format(way)).transform_flatten(
            ["share", "ms"]).transform_calculate(series=repr(name)).mark_line(
            strokeWidth=2.5, strokeDash=dash, aria=False).encode(x=x, y=y, color=color)
        for name, way, dash in zip(reversed(names), ["'server-ddr5'", "way"], [[6, 4], [1, 0]], strict=True)]
    side = {"expr": "datum.share > 0.8 ? 'right' : 'left'"}
    return finish(alt.layer(
        card.mark_rule(color=LIMIT, strokeDash=[2, 3], strokeWidth=2, aria=False).encode(x=x), *lines,
        card.mark_point(filled=True, size=150, color=MOE, opacity=1, aria=False).encode(x=x, y=y),
        card.mark_text(align=side, dx={"expr": "datum.share > 0.8 ? -12 : 12"}, dy=-12, fontWeight="bold", fontSize=14,
                        aria=False).encode(x=x, y=y, text="text:N"),
    ).properties(width=WIDTH, height=HEIGHT),
        "Milliseconds per token, on a log axis, against the share of a layer's experts that the card holds. The time "
        "falls slowly at first and steeply near the right end, where all experts are held. A second line is far lower: "
        "a server's host computes the missing experts. A dotted rule with a dot marks what the chosen card holds.")


HIT_COLORS = {"LRU": MOE, "most popular held": CACHE, "optimum": LIMIT, "Che's formula": ALWAYS, "LRU, modelled": MOE,
              "LRU, logged routing": MEASURED, "optimum, logged routing": LIMIT, "slots / experts": MUTED}


def hit_rates(panels):
    """Hit rate against the share of a layer's experts that a cache holds, in views side by side.

    Parameters
    ----------
    panels : dict of str to dict
        Title to {name: (shares, hit rates)} with names of `HIT_COLORS`; logged routing and Che's formula are points.
    """
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    color = legend_colors(names, [HIT_COLORS[name] for name in names])
    percent = {"axis": alt.Axis(format=".0%", tickCount=5), "scale": alt.Scale(domain=[0, 1])}
    x, y = alt.X("share:Q", title="share of the experts held", **percent), alt.Y("hit:Q", title="hit rate", **percent)
    views, pointed = [], ("Che's formula", "LRU, logged routing", "optimum, logged routing")
    for title, panel in panels.items():
        layers = []
        for name, (share, hit) in panel.items():
            base = alt.Chart(alt.Data(values=rows(share=np.asarray(share, float), hit=np.asarray(hit), series=name)))
            mark = (base.mark_point(filled=True, size=60, opacity=1, aria=False) if name in pointed else
                    base.mark_line(strokeWidth=2.5, strokeDash=[2, 3] if name == "slots / experts" else [1, 0],
                                   aria=False))
            layers.append(mark.encode(x=x, y=y, color=color))
        views.append(alt.layer(*layers).properties(title=title))
    size = {"width": 290, "height": 270} if len(views) > 1 else {"width": WIDTH, "height": HEIGHT}
    views = [view.properties(**size) for view in views]
    return finish(alt.hconcat(*views, spacing=28) if len(views) > 1 else views[0],
                  f"Hit rate of a cache against the share of a layer's experts that it holds, {'; '.join(panels)}: "
                  f"{', '.join(names)}. All rise from 0 to 1; which lies above which is said in the text.")


def offloaded_batches(batch, lines, mark=None, mark_says=""):
    """Tokens per second against batch, log-log, a line for each place where experts live.

    Parameters
    ----------
    batch : array_like [n]
    lines : dict of str to array_like [n]
        Tokens/s by name, at most four.
    mark, mark_says : float, str
        A batch at which a rule stands, and what it says.
    """
    x, y = batch_axis(domain=(1, 16384)), log_axis("rate", "tokens per second, at most", (1, 1e6), format="~s")
    color = legend_colors(lines, [MOE, CACHE, ALWAYS, MUTED][:len(lines)])
    table = alt.Data(values=_lines(lines, "rate", batch=batch))
    rule = alt.Chart(alt.Data(values=[{"batch": mark, "says": mark_says, "low": 1}]))
    return finish(alt.layer(
        rule.mark_rule(color=LIMIT, strokeDash=[6, 4], strokeWidth=2, aria=False).encode(x=x),
        rule.mark_text(align="right", dx=-6, dy=-10, aria=False).encode(x=x, y=alt.Y("low:Q"), text="says:N"),
        alt.Chart(table).mark_line(strokeWidth=2.5, clip=True, aria=False).encode(x=x, y=y, color=color),
    ).properties(width=WIDTH, height=HEIGHT),
        f"Tokens per second against batch, log-log: {', '.join(lines)}. With experts copied over a link the line is "
        "flat until nearly all experts are touched and rises in proportion to the batch from there.")


def over_bound(shares):
    """Measured speed over bound, a dot for each measurement, with a rule at 1.

    Parameters
    ----------
    shares : dict of str to dict of str to float
        By row (a machine), by series (an ablation; at most five in all).
    """
    names = list(dict.fromkeys(name for of in shares.values() for name in of))
    table = [row for label, of in shares.items()
             for row in rows(label=label, series=list(of), share=np.array(list(of.values()), float))]
    shape = alt.Shape("series:N", title=None, legend=alt.Legend(labelLimit=0), scale=alt.Scale(
        domain=names, range=["circle", "square", "triangle-up", "diamond", "cross"][:len(names)]))
    x = alt.X("share:Q", title="measured speed over bound", axis=alt.Axis(format=".0%", tickCount=5),
              scale=alt.Scale(domain=[0, 1.05], nice=False))
    colors = [MUTED, CACHE, MOE, ALWAYS, MEASURED][:len(names)] if len(names) > 2 else [MEASURED, CACHE]
    color = legend_colors(names, colors[:len(names)])
    return finish(alt.layer(
        alt.Chart(alt.Data(values=table)).mark_point(filled=True, size=110, opacity=0.9, aria=False).encode(
            x=x, y=_rows_axis(), color=color, shape=shape),
        alt.Chart(alt.Data(values=[{"share": 1}])).mark_rule(color=LIMIT, strokeWidth=2, strokeDash=[6, 4], aria=False)
        .encode(x="share:Q"),
    ).properties(width=WIDTH - 140, height=30 * len(shares)),
        "Measured speed over bound, a row for each machine: "
        + "; ".join(f"{label} {min(of.values()):.0%} to {max(of.values()):.0%}" for label, of in shares.items())
        + ". No dot passes the rule at 100 %.")


def layers_outside(layers, lines, measured):
    """Milliseconds per token against the number of layers whose experts are outside the card.

    Parameters
    ----------
    layers : array_like [n]
    lines : dict of str to array_like [n]
        Seconds: experts copied, experts computed by the host.
    measured : dict of str to (array_like, array_like)
        Layers and seconds, for each line.
    """
    names, colors = [*lines, *measured], [MOE, CACHE, MEASURED, ALWAYS]
    color = legend_colors(names, colors[:len(names)])
    x = alt.X("layers:Q", title="layers whose experts are outside the card", axis=alt.Axis(values=[0, 4, 8, 12, 16]))
    y = alt.Y("ms:Q", title="milliseconds per token", scale=alt.Scale(domain=[0, 52], nice=False))
    milliseconds = {name: 1e3 * np.asarray(seconds) for name, seconds in lines.items()}
    dots = [row for name, (at, seconds) in measured.items()
            for row in rows(layers=at, ms=1e3 * np.asarray(seconds), series=name)]
    return finish(alt.layer(
        alt.Chart(alt.Data(values=_lines(milliseconds, "ms", layers=layers))).mark_line(
            strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color),
        alt.Chart(alt.Data(values=dots)).mark_point(filled=True, size=110, opacity=1, aria=False).encode(
            x=x, y=y, color=color),
    ).properties(width=WIDTH, height=HEIGHT),
        "Milliseconds per token against the layers whose experts are outside the card. Both bounds and both series of "
        "measurements are straight lines; copying is steeper than computing on the host.")


SPREAD = [MOE, CACHE, ALWAYS, MUTED]  # layouts or numbers of nodes, side by side


def layouts(batch, lines, ends, top):
    """Milliseconds of a step against batch, a line a layout, and where the caches fill its GPUs.

    Parameters
    ----------
    batch : array_like [n]
    lines : dict of str to array_like [n]
        Seconds by layout, at most three.
    ends : dict of str to float
        The most sequences that fit: beyond them the line is dashed.
    top : float
        Milliseconds at which the axis ends.
    """
    names, marks, within, beyond = list(lines), [], [], []
    for row, (name, seconds) in enumerate(lines.items()):
        at = np.union1d(batch, ends[name])
        ms = 1e3 * np.interp(at, batch, seconds)
        within += rows(batch=at[at <= ends[name]], ms=ms[at <= ends[name]], series=name)
        beyond += rows(batch=at[at >= ends[name]], ms=ms[at >= ends[name]], series=name)
        marks += rows(batch=ends[name], ms=ms[at == ends[name]], series=name, row=row)
    x = batch_axis("sequences in a step, over all GPUs", domain=(1, float(np.max(batch))))
    y = alt.Y("ms:Q", title="milliseconds per step, at least", scale=alt.Scale(domain=[0, top], nice=False))
    color = legend_colors(names, SPREAD[:len(names)]).legend(symbolType="stroke", labelLimit=0)
    place, full = {"x": x, "y": y, "color": color}, alt.Chart(alt.Data(values=marks))
    return finish(alt.layer(
        alt.Chart(alt.Data(values=beyond)).mark_line(
            strokeWidth=2, strokeDash=[2, 4], clip=True, aria=False).encode(**place),
        alt.Chart(alt.Data(values=within)).mark_line(strokeWidth=2.5, aria=False).encode(**place),
        full.mark_point(shape="cross", filled=True, angle=45, size=190, opacity=1, aria=False).encode(**place),
        *(full.transform_filter(f"datum.row % 2 == {odd}").mark_text(
            **spot, fontWeight="bold", fontSize=14, aria=False).encode(**place, text=alt.Text("batch:Q", format=",d"))
          for odd, spot in enumerate([{"align": "right", "dx": -4, "dy": -15}, {"align": "left", "dx": 6, "dy": 16}])),
    ).properties(width=WIDTH, height=HEIGHT),
        "Milliseconds per step against sequences: " + ", ".join(
            f"{name} up to {ends[name]:,.0f} sequences" for name in names) + ". A cross marks where caches fill the "
        "GPUs. Layouts that split attention read copied caches, and their lines rise earlier and end earlier.")


def exchange(choices, home, place, shown=0):
    """Dispatch and combine of a few tokens as pictures: GPUs as boxes, tokens to experts and back.

    Parameters
    ----------
    choices : array_like of int [tokens, k]
        Experts of each token.
    home : array_like of int [tokens]
        GPU where each token sits.
    place : array_like of int [experts]
        GPU of each expert.
    shown : int
        The GPU whose tokens stand out.
    """
    choices, home, place = map(np.asarray, (choices, home, place))
    num_gpus = int(place.max()) + 1
    names = [f"tokens of GPU {shown}", "tokens of the others"]
    color = legend_colors(names, [MOE, MUTED]).legend(symbolType="stroke", labelLimit=0)
    series = np.where(home == shown, *names)

    def heights(owner):  # the items of each GPU, evenly down its box
        rank = np.array([np.sum(owner[:i] == gpu) for i, gpu in enumerate(owner)])
        return owner + 0.28 + 0.66 * (rank + 0.5) / np.bincount(owner)[owner]

    tokens, experts = heights(home), heights(place)
    lines = rows(token=np.repeat(tokens, choices.shape[1]), expert=experts[choices].ravel(),
                 series=np.repeat(series, choices.shape[1]), stays=(place[choices] == home[:, None]).ravel())
    dots = {"token": rows(y=tokens, says=[f"t{i}" for i in range(home.size)], series=series),
            "expert": rows(y=experts, says=[f"e{i}" for i in range(place.size)])}
    boxes = rows(top=np.arange(num_gpus) + 0.04, bottom=np.arange(num_gpus) + 0.96, left=[[-0.22], [1]],
                 right=[[0], [1.22]])
    y, x = alt.Scale(domain=[0, num_gpus], reverse=True), alt.Scale(domain=[-0.22, 1.22])
    owners = rows(y=np.arange(num_gpus) + 0.19, x=[[-0.11], [1.11]], says=[f"GPU {gpu}" for gpu in range(num_gpus)])

    def across(field):
        return alt.X(f"{field}:Q", scale=x, axis=None)

    def down(field):
        return alt.Y(f"{field}:Q", scale=y, axis=None)

    def view(title, left, right):
        here = alt.Chart(alt.Data(values=[{**line, "left": 0, "right": 1} for line in lines]))
        layers = [alt.Chart(alt.Data(values=boxes)).mark_rect(
            fill="currentColor", fillOpacity=0.07, stroke="currentColor", strokeOpacity=0.5, cornerRadius=5,
            aria=False).encode(x=across("left"), x2="right", y=down("top"), y2="bottom"),
            alt.Chart(alt.Data(values=owners)).mark_text(opacity=0.75, aria=False).encode(
                x=across("x"), y=down("y"), text="says:N")]
        for which, others in enumerate(reversed(names)):
            some = here.transform_filter(f"datum.series == {others!r}")
            for stays, dash in [(True, [2, 4]), (False, [1, 0])]:
                layers.append(some.transform_filter(f"datum.stays == {str(stays).lower()}").mark_rule(
                    strokeWidth=1.2 + which, strokeDash=dash, opacity=0.55 + 0.45 * which, aria=False).encode(
                    x=across("left"), x2="right", y=down(left), y2=right, color=color))
        for at, what in [(-0.11, left), (1.11, right)]:
            item = alt.Chart(alt.Data(values=[{**dot, "x": at} for dot in dots[what]]))
            of = {"color": color} if what == "token" else {}
            layers.append(item.mark_text(fontWeight="bold" if of else "normal", aria=False).encode(
                x=across("x"), y=down("y"), text="says:N", **of))
        return alt.layer(*layers).properties(width=300, height=78 * num_gpus, title=title)

    sent = len({(token, gpu) for token, of in enumerate(place[choices]) for gpu in of})
    return finish(
        alt.hconcat(view("Dispatch: tokens go to their experts", "token", "expert"),
                    view("Combine: results come home", "expert", "token"), spacing=28),
        f"{home.size} tokens on {num_gpus} GPUs and the {choices.shape[1]} experts that each chose, as lines between "
        f"boxes. Left, dispatch: lines fan out from the GPU of a token to the GPUs of its experts, {sent} copies if "
        "each GPU gets one. Right, combine: the same lines run back. Dotted lines stay on their GPU.")


def overlap(each, ratios):
    """Time of a step in two overlapped half-batches over that of one whole batch, against sequences on each GPU.

    Parameters
    ----------
    each : array_like [n]
    ratios : dict of str to array_like [n]
        By machine, at most four.
    """
    x = batch_axis("sequences on each GPU", name="each", domain=(float(np.min(each)), float(np.max(each))))
    y = alt.Y("ratio:Q", title="two halves overlapped, over one batch", axis=alt.Axis(values=[0.5, 0.7, 1, 1.4, 2]),
              scale=alt.Scale(type="log", domain=[0.5, 2.1], nice=False))
    color = legend_colors(ratios, SPREAD[:len(ratios)]).legend(symbolType="stroke", labelLimit=0)
    rule = alt.Chart(alt.Data(values=[{"ratio": 1, "each": float(np.min(each)), "over": "slower", "under": "faster"}]))
    says = {"align": "left", "dx": 6, "aria": False}
    return finish(alt.layer(
        rule.mark_rule(color=LIMIT, strokeWidth=2, strokeDash=[6, 4], aria=False).encode(y=y),
        rule.mark_text(**says, dy=-9).encode(x=x, y=y, text="over:N"),
        rule.mark_text(**says, dy=10).encode(x=x, y=y, text="under:N"),
        alt.Chart(alt.Data(values=_lines(ratios, "ratio", each=each))).mark_line(
            strokeWidth=2.5, clip=True, aria=False).encode(x=x, y=y, color=color),
    ).properties(width=WIDTH, height=HEIGHT),
        "Time of two overlapped half-batches over that of one batch against the sequences on each GPU, log-log, with a "
        "rule at 1: " + "; ".join(f"{name} from {values[0]:.2f} to {values[-1]:.2f}" for name, values in ratios.items())
        + ". Within a node the halves lose until far to the right; across nodes they win from a few dozen on.")


def exchange_times(lines, points):
    """Measured time of an exchange against tokens, log-log, with the line fitted to some sizes.

    Parameters
    ----------
    lines : dict of str to (array_like [n], array_like [n])
        Tokens and seconds by name, at most four.
    points : dict of str to (array_like [m], array_like [m], array_like of bool [m])
        Tokens, measured seconds and whether the fit saw them, by the same names.
    """
    measured = "measured (filled: fitted)"
    x, y = batch_axis("tokens of each GPU", name="tokens", domain=(1, 2048)), log_axis(
        "us", "microseconds", (10, 1000), format=",~f", values=[10, 20, 50, 100, 200, 500, 1000])
    color = legend_colors([*lines, measured], SPREAD[:len(lines)] + [MEASURED]).legend(
        symbolType="stroke", labelLimit=0)
    line = [row for name, (tokens, seconds) in lines.items()
            for row in rows(tokens=tokens, us=1e6 * np.asarray(seconds), series=name)]
    dots = [row for tokens, seconds, seen in points.values()
            for row in rows(tokens=tokens, us=1e6 * np.asarray(seconds), seen=np.asarray(seen))]
    dot = alt.Chart(alt.Data(values=dots))
    return finish(alt.layer(
        alt.Chart(alt.Data(values=line)).mark_line(strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color),
        dot.transform_filter("datum.seen").mark_point(filled=True, size=85, opacity=1, color=MEASURED, aria=False)
        .encode(x=x, y=y),
        dot.transform_filter("!datum.seen").mark_point(
            size=70, strokeWidth=2, fill="none", opacity=1, color=MEASURED, aria=False).encode(x=x, y=y),
    ).properties(width=WIDTH, height=320),
        "Microseconds of an exchange against tokens, log-log: " + ", ".join(lines) + ". Each line is flat for few "
        "tokens and then rises in proportion. The points that a line was not fitted to lie on it too.")


def parallel():
    """Milliseconds of a step against sequences for one layout, up to where caches fill the GPUs.

    Data sets: ``curve`` (key, and the lists batch, ms with the exchanges hidden and open without), ``end`` (key, batch,
    ms). The key names model, setup, gpus, attention, experts and context, the choices; no row where a layout cannot be
    or does not fit.
    """
    key = "model + '|' + setup + '|' + gpus + '|' + {} + '|' + {} + '|' + context"
    own, split = key.format("attention", "experts"), key.format("'8'", "'8'")
    names = ["exchanges hidden", "exchanges in the open", "all split over the 8 GPUs of a node"]
    x = batch_axis("sequences in a step, over all GPUs")

    def y(field):
        return log_axis(field, "milliseconds per step, at least", (1, 1000), format=",~f")

    color = legend_colors(names, [MOE, LIMIT, MUTED]).legend(symbolType="stroke", labelLimit=0)
    layers = []
    for name, of, field, dash in zip(reversed(names), [split, own, own], ["ms", "open", "ms"],
                                     [[2, 3], [6, 4], [1, 0]], strict=True):
        curve = alt.Chart(alt.NamedData("curve")).transform_filter(f"datum.key == {of}").transform_flatten(
            ["batch", "ms", "open"]).transform_calculate(series=repr(name))
        layers.append(curve.mark_line(strokeWidth=2.5, strokeDash=dash, clip=True, aria=False).encode(
            x=x, y=y(field), color=color))
    end = alt.Chart(alt.NamedData("end")).transform_filter(f"datum.key == {own}")
    label = end.transform_calculate(text="format(datum.batch, ',') + ' sequences, ' + format(datum.ms, '.3~r') + ' ms'")
    return finish(alt.layer(
        *layers,
        end.mark_point(shape="cross", filled=True, angle=45, size=190, color=MOE, opacity=1, aria=False).encode(
            x=x, y=y("ms")),
        label.mark_text(align="right", dx=-8, dy=-16, fontWeight="bold", aria=False).encode(
            x=x, y=y("ms"), text="text:N"),
    ).properties(width=WIDTH, height=320),
        "Milliseconds per step against sequences over all GPUs, log-log. The line rises while more experts are touched "
        "and flattens, and rises again with the caches, up to a cross where these fill the GPUs. A dashed line has "
        "the exchanges between GPUs in the open; a dotted one splits everything over the GPUs of a node.")


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
    domain, deep, shallow = (1, 8192), 16, 0.18
    x = batch_axis("sequences at once", domain=domain)
    says = ("datum.value == 1 ? 'equal' : datum.value < 1 ? '1/' + format(1 / datum.value, 'd') : "
            "format(datum.value, 'd') + ' times'")
    y = alt.Y("ratio:Q", title=f"step time of {names[0]} over that of {names[1]}",
              axis=alt.Axis(values=[0.25, 0.5, 1, 2, 4, 8, 16], labelExpr=says, labelFontSize=14),
              scale=alt.Scale(type="log", base=2, domain=[deep, shallow], nice=False, clamp=True))
    color = legend_colors(ratios, [MOE, CACHE, ALWAYS][:len(ratios)]).legend(None)
    lines = alt.Chart(alt.Data(values=_lines(ratios, "ratio", batch=batch)))
    sunk = alt.Chart(alt.Data(values=_lines({name: np.maximum(of, 1) for name, of in ratios.items()}, "ratio",
                                            batch=batch, one=1)))
    last = {name: of[-1] for name, of in crossings.items()}
    dots = alt.Chart(alt.Data(values=[row for i, (name, at) in enumerate(last.items()) for row in rows(
        batch=at, ratio=1, series=name, says=f"{np.floor(at):,.0f}", below=60 - 20 * i)]))
    first = alt.Chart(alt.Data(values=rows(batch=[of[0] for of in crossings.values()], ratio=1, series=list(ratios))))
    middle = {name: 1.25 * np.sqrt(of[0] * of[-1]) for name, of in crossings.items()}
    inside = alt.Chart(alt.Data(values=[row for name, at in middle.items() for row in rows(
        batch=at, ratio=np.interp(at, batch, ratios[name]), series=name, short=name.removesuffix(" tokens"))]))
    sides = alt.Chart(alt.Data(values=[{"batch": domain[0], "ratio": 0.24, "says": f"{names[0]} is faster"},
                                       {"batch": domain[0], "ratio": 12.5, "says": f"{names[1]} is faster"}]))
    big = {"fontWeight": "bold", "aria": False}

    def phone(there, elsewhere):
        return {"expr": f"width < 400 ? {there} : {elsewhere}"}

    return finish(alt.layer(
        sunk.mark_area(opacity=0.16, aria=False).encode(x=x, y=alt.Y("one:Q"), y2="ratio:Q", color=color),
        alt.Chart(alt.Data(values=[{"ratio": 1}])).mark_rule(color="currentColor", strokeWidth=1.5, aria=False).encode(
            y=y),
        lines.mark_line(strokeWidth=3.5, aria=False).encode(x=x, y=y, color=color),
        first.mark_point(filled=True, size=110, opacity=1, aria=False).encode(x=x, y=y, color=color),
        dots.mark_point(filled=True, size=150, opacity=1, aria=False).encode(x=x, y=y, color=color),
        dots.mark_text(align=phone("'center'", "'left'"), dx=phone(6, 9), dy=phone("datum.below", 14),
                       fontSize=phone(14, 18), **big).encode(x=x, y=y, color=color, text="says:N"),
        inside.mark_text(dy=-24, fontSize=phone(12, 14), text=phone("datum.short", "datum.series"), **big).encode(
            x=x, y=y, color=color),
        sides.mark_text(align="left", dx=10, fontSize=16, **big).encode(x=x, y=y, text="says:N"),
    ).properties(width=WIDTH, height=400),
        f"Step time of {names[0]} over that of {names[1]} against sequences, log-log, drawn downwards. "
        + " ".join(f"With {name}, {names[1]} is faster from {np.ceil(of[0]):,.0f} to {np.floor(of[-1]):,.0f} sequences."
                   for name, of in crossings.items()))


CANNOT_BE = "cannot be"


def shared_by(num_gpus):
    """How the attention is spread, by the GPUs that share one copy, as the frontier's legend has it."""
    return f"split over {num_gpus}" if num_gpus > 1 else "attention on every GPU"


def frontier():
    """Tokens/s of a user against tokens/s of a GPU: a line a layout, a dot a batch, a cross where caches fill the GPUs.

    Data sets: ``line`` (key, layout, series, legal, and the lists user, gpu), ``full`` (key, layout, series, legal,
    user, gpu, batch), ``best`` (key, tpot, user, gpu, batch, layout), ``target`` (tpot, user), ``barred`` (key, text in
    lines: how many layouts cannot be, and why). The key names model, device, gpus and context, the choices beside tpot.
    Illegal layouts are grey.
    """
    xs, ys = (10, 5000), (20, 40000)
    key = "datum.key == model + '|' + device + '|' + gpus + '|' + context"
    x = alt.X("user:Q", title="tokens/s of a user, at most",
              axis=alt.Axis(values=[10, 20, 50, 100, 200, 500, 1000, 2000, 5000], format=",d", labelOverlap=True),
              scale=alt.Scale(type="log", domain=list(xs), nice=False))
    y = log_axis("gpu", "tokens/s of a GPU, at most", ys, format=",d",
                 values=[20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 40000])
    names = [*map(shared_by, (1, 2, 4, 8))]
    color = legend_colors([*names, CANNOT_BE], [*SPREAD, MUTED]).legend(symbolType="stroke", labelLimit=0, values=names)
    line, full, best = (alt.Chart(alt.NamedData(name)).transform_filter(key) for name in ("line", "full", "best"))
    target = alt.Chart(alt.NamedData("target")).transform_filter("datum.tpot == tpot")
    points = line.transform_flatten(["user", "gpu"])
    dash = alt.StrokeDash("legal:N", legend=None, scale=alt.Scale(domain=[True, False], range=[[1, 0], [2, 3]]))
    best = best.transform_filter("datum.tpot == tpot").transform_calculate(
        text="format(datum.batch, ',') + (datum.batch > 1 ? ' sequences' : ' sequence')")
    one = line.transform_calculate(user="datum.user[0]", gpu="datum.gpu[0]",
                                   text=f"split(datum.layout, '+')[0] + (datum.legal ? '' : ' {CANNOT_BE}')")
    beside, away, lower = ({"expr": f"datum.user > 1500 ? {far} : {near}"}
                           for far, near in (("'right'", "'left'"), (-9, 9), (-13, 0)))
    barred = alt.Chart(alt.NamedData("barred")).transform_filter(key).transform_calculate(
        right=str(xs[1]), top=str(ys[1]))
    rule, at = target.transform_calculate(text="tpot + ' ms a token'", low=str(xs[0]), top=str(ys[1])), {"aria": False}
    side = {"expr": "datum.user > 400 ? 'right' : 'left'"}
    return finish(alt.layer(
        rule.mark_rect(color=MUTED, opacity=0.16, clip=True, **at).encode(x=alt.X("low:Q"), x2="user:Q"),
        rule.mark_rule(color=LIMIT, strokeDash=[6, 4], strokeWidth=2, **at).encode(x=x),
        rule.mark_text(align=side, dx={"expr": "datum.user > 400 ? -6 : 6"}, dy=10, fontSize=14, **at).encode(
            x=x, y=alt.Y("top:Q"), text="text:N"),
        points.mark_line(strokeWidth=2.5, clip=True, **at).encode(
            x=x, y=y, color=color, detail="layout:N", strokeDash=dash),
        points.mark_point(filled=True, size=26, opacity=1, clip=True, **at).encode(x=x, y=y, color=color),
        full.mark_point(shape="cross", filled=True, angle=45, size=150, opacity=1, clip=True, **at).encode(
            x=x, y=y, color=color),
        one.mark_text(align=beside, dx=away, dy=lower, clip=True, **at).encode(x=x, y=y, color=color, text="text:N"),
        barred.mark_text(align="right", baseline="top", lineBreak="\n", dx=-6, dy=26, color=MUTED, **at).encode(
            x=alt.X("right:Q"), y=alt.Y("top:Q"), text="text:N"),
        best.mark_point(size=260, strokeWidth=3, color="currentColor", filled=False, opacity=1, clip=True, **at).encode(
            x=x, y=y),
        best.mark_text(align="left", dx=13, dy=-9, fontWeight="bold", fontSize=14, clip=True, **at).encode(
            x=x, y=y, text="text:N"),
    ).properties(width=WIDTH, height=380),
        "Tokens per second of a GPU against tokens per second of a user, log-log: a line for each way to spread "
        "attention, a dot for each doubling of the batch, a cross where caches fill the GPUs. Lines rise to the upper "
        "left. A dashed rule marks the slowest that a user accepts; a ring marks the best point to its right.")


def placed(panels, mean):
    """GPUs as stacks of what their slots carry, in views side by side, with a rule at the mean.

    Parameters
    ----------
    panels : dict of str to (array_like of int [P, n], array_like [P, n])
        Title to the expert of every slot, GPU after GPU, and the load that the slot carries.
    mean : float
        Mean load of a GPU.
    """
    names, top = ["the only copy", "one of several copies"], 2.2 * mean
    color = legend_colors(names, [MOE, CACHE])
    x = alt.X("gpu:O", title="GPU", axis=alt.Axis(labelAngle=0), scale=alt.Scale(paddingInner=0.15))
    y = alt.Y("start:Q", title="tokens", scale=alt.Scale(domain=[0, top], nice=False))
    rule = alt.Chart(alt.Data(values=[{"start": mean}]))
    views = []
    for title, (expert, load) in panels.items():
        expert, load = np.asarray(expert), np.asarray(load, float)
        order = np.argsort(-load, axis=1, kind="stable")
        expert, load = (np.take_along_axis(of, order, axis=1) for of in (expert, load))
        end, copies = np.cumsum(load, axis=1), np.bincount(expert.ravel())[expert]
        letter = np.where(load > 0.08 * top, [[chr(65 + int(e)) for e in row] for row in expert], "")
        gpu = np.arange(len(expert))[:, None]
        table = rows(gpu=gpu, expert=expert, start=end - load, end=end, middle=end - load / 2, letter=letter,
                     series=np.where(copies > 1, names[1], names[0]))
        pieces = alt.Chart(alt.Data(values=table))
        sums = alt.Chart(alt.Data(values=rows(gpu=np.arange(len(expert)), sum=end[:, -1])))
        views.append(alt.layer(
            pieces.mark_bar(stroke="white", strokeWidth=1.5, aria=False).encode(x=x, y=y, y2="end", color=color),
            rule.mark_rule(color=LIMIT, strokeWidth=2, strokeDash=[6, 4], aria=False).encode(y=y),
            pieces.mark_text(color="white", fontWeight="bold", aria=False).encode(
                x=x, y=alt.Y("middle:Q"), text="letter:N"),
            sums.mark_text(fontWeight="bold", aria=False).encode(
                x=x, y=alt.value(9), text=alt.Text("sum:Q", format=",.0f")),
        ).properties(title=title, width=185, height=240))
    return finish(alt.hconcat(*views, spacing=18),
                  f"Loads of GPUs as stacked bars, a piece for every slot, lettered by expert: {'; '.join(panels)}. A "
                  f"dashed rule marks the mean, {mean:,.0f}. From view to view the stacks come closer to it.")


def slowest(panels):
    """Time of the slowest GPU against the batch in views side by side, log-log: bounds, and points measured by others.

    Parameters
    ----------
    panels : dict of str to dict
        Title to {"lines": {name: (batch, seconds)}, "points": {name: (batch, seconds)}, "mark": a batch and what a rule
        there says}; points and mark optional. At most two lines and two kinds of points, named alike in every view.
    """
    lines, points = (list(dict.fromkeys(name for panel in panels.values() for name in panel.get(kind, {})))
                     for kind in ("lines", "points"))
    color = legend_colors([*lines, *points], [MOE, CACHE][:len(lines)] + [MEASURED, ALWAYS][:len(points)]).legend(
        symbolType="stroke", labelLimit=0)
    shape = alt.Shape("series:N", legend=None, scale=alt.Scale(
        domain=points, range=["circle", "diamond"][:len(points)]))
    place = {"x": batch_axis(domain=(16, 65536)), "color": color, "y": log_axis(
        "us", "microseconds of the slowest GPU", (20, 4000), format=",~f", values=[30, 100, 300, 1000, 3000])}
    views = []
    for title, panel in panels.items():
        data = {kind: alt.Chart(alt.Data(values=[
            row for name, (batch, seconds) in panel.get(kind, {}).items()
            for row in rows(batch=batch, us=1e6 * np.asarray(seconds), series=name)])) for kind in ("lines", "points")}
        layers = [data["lines"].mark_line(strokeWidth=2.5, clip=True, aria=False).encode(**place)]
        if "points" in panel:
            layers.append(data["points"].mark_point(filled=True, size=90, opacity=1, aria=False).encode(
                **place, shape=shape))
        if "mark" in panel:
            rule = alt.Chart(alt.Data(values=[{"batch": panel["mark"][0], "says": panel["mark"][1], "us": 20}]))
            at = {"x": place["x"], "y": place["y"]}
            layers += [rule.mark_rule(color=MUTED, strokeDash=[2, 3], strokeWidth=2, aria=False).encode(x=place["x"]),
                       rule.mark_text(align="left", dx=5, dy=-10, aria=False).encode(**at, text="says:N")]
        views.append(alt.layer(*layers).properties(title=title, width=290, height=290))
    return finish(alt.hconcat(*views, spacing=24),
                  "Microseconds of the slowest GPU against the batch, log-log, with and without spare experts: "
                  f"{'; '.join(panels)}. While reading binds, the line with spare experts lies above the other. Under "
                  "skew they cross at some thousand tokens, and from there the spare experts save time.")


BALANCE_LOAD = 5  # loads over the mean that the control's axis shows


def balance():
    """Loads of the GPUs of a layer before and after balancing, beside the time of the slowest one against batch.

    Data sets: ``before`` (skew, gpus, at, load), ``after`` (those and slots), both over the mean, fullest first;
    ``time`` (series, skew, gpus, batch, us; with slots but for the first two series). Choices: skew, slots, gpus,
    batch; no row where slots do not divide over the GPUs.
    """
    here = "datum.skew == skew && datum.gpus == gpus"
    bottom = {"orient": "bottom", "labelLimit": 0, "symbolOpacity": 1}
    also = " && (!isValid(datum.slots) || datum.slots == slots)"
    names = ["as numbered", "placed, no spare", "placed, these slots"]
    color = legend_colors(names, [MUTED, LIMIT, MOE]).legend(**bottom, symbolType="stroke")
    x = alt.X("at:O", title="GPUs, fullest first", axis=alt.Axis(labels=False, ticks=False))
    y = alt.Y("load:Q", title="load over mean", scale=alt.Scale(domain=[0, BALANCE_LOAD], clamp=True))
    before = alt.Chart(alt.NamedData("before")).transform_filter(here).transform_calculate(series=repr(names[0]))
    after = alt.Chart(alt.NamedData("after")).transform_filter(here + also).transform_calculate(series=repr(names[2]))
    mean = alt.Chart(alt.Data(values=[{"load": 1}]))
    bars = alt.layer(
        before.mark_bar(opacity=0.55, aria=False).encode(x=x, y=y, color=color),
        after.mark_bar(width={"band": 0.5}, aria=False).encode(x=x, y=y, color=color),
        mean.mark_rule(color="currentColor", strokeDash=[6, 4], strokeWidth=1.5, aria=False).encode(y=y),
    ).properties(width=280, height=300, title="Tokens of each GPU")
    time = alt.Chart(alt.NamedData("time")).transform_filter(here + also)
    axis = batch_axis(domain=(8, 65536))
    us = log_axis("us", "microseconds", (8, 8000), format=",~f", values=[10, 100, 1000])
    chosen = time.transform_filter("datum.batch == batch")
    lines = [time.transform_filter(f"datum.series == {name!r}").mark_line(
        strokeWidth=2.5, strokeDash=dash, clip=True, aria=False).encode(x=axis, y=us, color=color)
        for name, dash in zip(names, [[2, 3], [6, 4], [1, 0]], strict=True)]
    curves = alt.layer(
        chosen.mark_rule(color=MUTED, aria=False).encode(x=axis), *lines,
        chosen.mark_point(filled=True, size=110, opacity=1, aria=False).encode(x=axis, y=us, color=color),
    ).properties(width=300, height=300, title="Slowest GPU, one layer's routed experts, at least")
    return finish(alt.hconcat(bars, curves, spacing=28),
                  "Left, the tokens of each GPU over the mean, fullest first, before and after experts are copied and "
                  "placed. Right, microseconds of the slowest GPU against the batch, log-log: spare experts lie above "
                  "while reading binds, and under skew below once computing binds.")


def seconds_axis(title, domain, name="seconds"):
    """A log y axis of seconds over a fixed domain, decades labelled in words of time."""
    says = ("datum.value >= 1 ? datum.value + ' s' : datum.value >= 1e-3 ? round(1e3 * datum.value) + ' ms' : "
            "round(1e6 * datum.value) + ' µs'")
    return log_axis(name, title, domain, labelExpr=says)


def machine(limits, measured):
    """Time of a step against batch on the reader's machine: a mixture and its dense twin, points over their limits.

    Parameters
    ----------
    limits, measured : dict of str to (array_like, array_like)
        Batches and seconds of the mixture and of the dense twin, in that order.
    """
    names = list(measured)
    tables = [[row for name, (batch, seconds) in part.items()
               for row in rows(batch=np.asarray(batch), seconds=np.asarray(seconds, float), series=name)]
              for part in (limits, measured)]
    color = legend_colors(names, [MOE, DENSE]).legend(symbolOpacity=1, labelLimit=0)
    place = {"x": batch_axis(domain=(1, 256)), "color": color,
             "y": seconds_axis("time of the layer", (1e-4, 1))}
    lines, points = (alt.Chart(alt.Data(values=table)) for table in tables)
    return finish(alt.layer(
        lines.mark_line(strokeWidth=2, strokeDash=[6, 4], aria=False).encode(**place),
        points.mark_line(strokeWidth=1, opacity=0.5, aria=False).encode(**place),
        points.mark_point(filled=True, size=90, opacity=1, aria=False).encode(**place),
    ).properties(width=WIDTH, height=HEIGHT),
        "Time of a layer against batch on this machine, log-log. Points are measured, dashed lines their limits. The "
        "mixture rises with the experts it touches. The dense twin stays nearly flat until computing takes longer than "
        "reading.")


def measured():
    """Measured times of a layer over its limit, with and without two fitted constants.

    Data set: ``times`` (key, batch, measured, limit, fitted, active in seconds, valid), the key naming device,
    framework, precision, model and routing, or the reader's record. Choices: those five.
    """
    key = "join([device, framework, precision, model, routing], '|')"
    of = alt.Chart(alt.NamedData("times")).transform_filter(f"datum.key == {key} || datum.key == device")
    names = ["limit", "with two constants", "if only k experts were read", "measured", "measured, yet impossible"]
    x, y = batch_axis(domain=(1, 16384)), seconds_axis("time of the layer", (1e-5, 10))
    color = legend_colors(names, [LIMIT, MOE, DENSE, MEASURED, ALWAYS])
    lines = of.transform_fold(["limit", "fitted", "active"], as_=["which", "seconds"]).transform_calculate(
        series=f"{{limit: {names[0]!r}, fitted: {names[1]!r}, active: {names[2]!r}}}[datum.which]")
    points = of.transform_calculate(seconds="datum.measured", series=f"datum.valid ? {names[3]!r} : {names[4]!r}")
    place = {"x": x, "y": y, "color": color}
    return finish(alt.layer(
        lines.mark_line(strokeWidth=2.5, aria=False).encode(**place),
        points.mark_point(filled=True, size=80, opacity=1, aria=False).encode(**place),
    ).properties(width=WIDTH, height=320),
        "Measured times of one layer of experts against batch, log-log, over the limit from published peaks and over "
        "the limit with two fitted constants. Points lie above the limit: far above at one token and above 512. "
        "Reading only the experts of one token would take far less.")


def one_curve(laws, points):
    """Share of all experts read, by fitted time, against tokens per expert: every machine on the law of its routing.

    Parameters
    ----------
    laws : dict of str to (array_like, array_like)
        Tokens per expert B k / E and share, by kind of routing, at most two.
    points : list of (str, str, array_like, array_like)
        Kind of routing (one of `laws`), machine, B k / E and share; shares that are nan are left out.
    """
    kinds, machines = list(laws), list(dict.fromkeys(machine for _, machine, _, _ in points))
    table = [row for kind, machine, at, share in points for row in rows(
        at=np.asarray(at, float), share=np.asarray(share, float), series=kind, machine=machine)
        if np.isfinite(row["share"])]
    lines = [row for kind, (at, share) in laws.items() for row in rows(at=np.asarray(at), share=share, series=kind)]
    x = alt.X("at:Q", title="tokens per expert, B k / E",
              axis=alt.Axis(values=[4.0**i for i in range(-2, 4)], format="~g"),
              scale=alt.Scale(type="log", base=2, domain=[1 / 40, 70], nice=False, clamp=True))
    y = alt.Y("share:Q", title="share of all experts read, by time",
              axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1, 1.25, 1.5]),
              scale=alt.Scale(domain=[0, 1.6], nice=False, clamp=True))
    color = legend_colors(kinds, [MOE, LIMIT]).legend(symbolOpacity=1, labelLimit=0)
    shapes = ["cross", "circle", "square", "triangle-up", "diamond"][-len(machines):]
    shape = alt.Shape("machine:N", title=None, scale=alt.Scale(domain=machines, range=shapes),
                      legend=alt.Legend(labelLimit=0, symbolFillColor=MUTED, symbolStrokeWidth=0,
                                         symbolOpacity=1))
    size = alt.condition(f"datum.machine == {machines[0]!r}", alt.value(190), alt.value(55))
    return finish(alt.layer(
        alt.Chart(alt.Data(values=lines)).mark_line(strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color),
        alt.Chart(alt.Data(values=table)).mark_point(filled=True, opacity=0.75, aria=False).encode(
            x=x, y=y, color=color, shape=shape, size=size),
    ).properties(width=WIDTH, height=340),
        "Share of all experts read, worked out from measured times, against tokens per expert. Points of "
        + ", ".join(machines) + " follow two lines: strided routing rises straight to one, uniform routing bends.")


def missed_by(groups):
    """Measured over predicted time by group, one a row: median, the middle 80 %, how many and how far off.

    How far: the mean of |log ratio|, as a percentage, or where it is large as a factor.

    Parameters
    ----------
    groups : dict of str to array_like
        Ratios by what the group is, at most 24 characters, so that a phone shows them.
    """
    table = []
    for row, (says, ratio) in enumerate(groups.items()):
        low, middle, high = np.quantile(ratio, [0.1, 0.5, 0.9])
        off = np.mean(np.abs(np.log(ratio)))
        off = f"{digits(100 * off)} %" if off < 0.5 else f"{digits(np.exp(off))} times"
        table += rows(row=row, says=f"{says} ({len(ratio):,})", low=low, middle=middle, high=high,
                      off=f"off by {off}")
    domain = [1 / 16, 16]
    x = alt.X("low:Q", title="measured over predicted time",
              axis=alt.Axis(values=[0.125, 0.25, 0.5, 1, 2, 4, 8], format="~g"),
              scale=alt.Scale(type="log", base=2, domain=domain, nice=False, clamp=True))
    y, base = alt.Y("row:O", title=None, axis=None), alt.Chart(alt.Data(values=table))
    here = alt.X("middle:Q", scale=alt.Scale(type="log", base=2, domain=domain, nice=False, clamp=True))
    one = alt.Chart(alt.Data(values=[{"middle": 1}])).mark_rule(color=MUTED, strokeDash=[5, 4], aria=False)
    return finish(alt.layer(
        one.encode(x=here),
        base.mark_rule(color=MEASURED, strokeWidth=7, opacity=0.45, dy=6, aria=False).encode(x=x, x2="high:Q", y=y),
        base.mark_point(filled=True, color=MEASURED, size=90, opacity=1, aria=False).encode(x=here, y=y),
        base.mark_text(align="left", dy=-16, aria=False).encode(x=alt.value(2), y=y, text="says:N"),
        base.mark_text(align="right", dy=-16, fontWeight="bold", aria=False).encode(
            x=alt.value("width"), y=y, text="off:N"),
    ).properties(width=WIDTH, height=46 * len(groups)),
        "Measured over predicted time by group, median and middle 80 %: " + "; ".join(
            f"{row['says']}, median {row['middle']:.2f}" for row in table) + ".")


def over_limit(batch, ratios):
    """Measured time over the physical limit against batch, by group.

    Parameters
    ----------
    batch : array_like [n]
    ratios : dict of str to array_like [n]
        At most five groups.
    """
    names = list(ratios)
    x, table = batch_axis(domain=(1, 16384)), _lines(ratios, "ratio", batch=batch)
    y = alt.Y("ratio:Q", title="measured time over its limit", axis=alt.Axis(values=[0.5, 1, 2, 4, 8], format="~g"),
              scale=alt.Scale(type="log", base=2, domain=[0.4, 12], nice=False))
    color = legend_colors(names, [MEASURED, MOE, CACHE, ALWAYS, DENSE][:len(names)])
    rule = alt.Chart(alt.Data(values=[{"ratio": 1, "batch": 16384, "says": "the limit"}]))
    return finish(alt.layer(
        rule.mark_rule(color=LIMIT, strokeWidth=2, strokeDash=[6, 4], aria=False).encode(y=y),
        rule.mark_text(align="right", dx=-6, dy=11, aria=False).encode(x=x, y=y, text="says:N"),
        alt.Chart(alt.Data(values=table)).mark_line(strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color),
        alt.Chart(alt.Data(values=table)).mark_point(filled=True, size=45, opacity=1, aria=False).encode(
            x=x, y=y, color=color),
    ).properties(width=WIDTH, height=HEIGHT),
        "Measured time over the physical limit against batch: " + "; ".join(names) + ". Sound kernels lie above one, "
        "highest at one token and above 512; one group lies below one, which no kernel can.")
