"""One table in, one Altair chart out. No formula here; the Vega side only filters rows that Python computed.

Importing this module makes charts draw offline: in JupyterLab by its own Vega, on a page by the book's script.
"""

import altair as alt
import numpy as np

VEGALITE = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # a name, never fetched
WIDTH, HEIGHT = 640, 300

# One meaning each, in every figure. At least 3:1 against the light and the dark page, and told apart without colour vision.
MOE, DENSE, LIMIT, MEASURED = "#2F82C4", "#C4622D", "#9466C4", "#1B8A6B"
SERIES = [MOE, DENSE, LIMIT, MEASURED, "#B8860B", "#B0447C"]
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
    return alt.X(f"{name}:Q", title=title, axis=alt.Axis(values=ticks, format=",d"),
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
                     legend=alt.Legend(orient="top", direction="horizontal", labelLimit=0, columns=0))


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
        legend={**text, "labelFontSize": 12, "titleFontSize": 12, "symbolStrokeWidth": 3},
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
        "FLOP per byte read in one decode step against batch size, log-log. The dense model rises in proportion to the batch. The "
        "mixture of experts stays far below it until nearly all experts are touched, then rises in parallel.")


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
    names, points = [*lines, title], alt.Data(values=rows(batch=measured[0], ms=1e3 * np.asarray(measured[1]), series=title))
    table = [row for name, seconds in lines.items() for row in rows(batch=batch, ms=1e3 * np.asarray(seconds), series=name)]
    x, color = batch_axis("requests in flight", domain=(1, 256)), legend_colors(names, [MOE, DENSE, LIMIT][:len(lines)] + [MEASURED])
    y = alt.Y("ms:Q", title="milliseconds per step", scale=alt.Scale(domain=[0, 50]))
    return finish(alt.layer(
        alt.Chart(alt.Data(values=table)).mark_line(strokeWidth=2.5, clip=True, aria=False).encode(x=x, y=y, color=color),
        alt.Chart(points).mark_point(filled=True, size=110, opacity=1, aria=False).encode(x=x, y=y, color=color),
    ).properties(width=WIDTH, height=HEIGHT),
        "Milliseconds per step against requests in flight: " + "; ".join(names) + ". The measured points rise with the coverage "
        "bound, about twice as high; the active-only estimate stays flat.")
