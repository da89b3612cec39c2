"""What all figures share: the MIME type, colours with one meaning each, axes, words for numbers, the finish."""

import altair as alt
import numpy as np

VEGALITE = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # a name, never fetched
WIDTH, HEIGHT = 640, 300

# One meaning each, in every figure. At least 3:1 against the light and the dark page, and told apart by readers who do
# not see red or green: any two lie 15 CIELAB units apart then (tests/test_accessibility.py).
MOE, DENSE, LIMIT, MEASURED = "#2F82C4", "#BD5C29", "#9179F1", "#138365"
CACHE, ALWAYS = "#B88509", "#A54788"  # keys and values, what every token reads; elsewhere a second and third model
SERIES = [MOE, DENSE, LIMIT, MEASURED, CACHE, ALWAYS]
HEAT = "viridis"  # a quantity shown as colour
MUTED = "#8E8F98"  # what is idle, illegal or past
SPREAD = [MOE, CACHE, ALWAYS, MUTED]  # layouts or numbers of nodes, side by side


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


def list_row(key, **columns):
    """One row dict for a whole line: `key`, a dict, and columns as lists, which the figure flattens.

    >>> print(list_row({"model": "x"}, batch=[1, 2], share=[1 / 3, 0.5]))
    {'model': 'x', 'batch': [1, 2], 'share': [0.33333, 0.5]}
    """
    points = rows(**columns)
    return {**key, **{name: [point[name] for point in points] for name in columns}}


def series_rows(lines, field, **columns):
    """Rows of several lines, {name: values of `field`}, with the columns they share and a series that names each."""
    return [row for name, values in lines.items() for row in rows(**columns, **{field: values}, series=name)]


def pair_rows(lines, x, y, scale=1):
    """Rows of several lines with their own x each, {name: (x values, y values)}, y times `scale`, and a series.

    >>> print(pair_rows({"a": ([1], [0.002])}, "batch", "ms", 1e3))
    [{'batch': 1, 'ms': 2.0, 'series': 'a'}]
    """
    return [row for name, (at, values) in lines.items()
            for row in rows(**{x: np.asarray(at), y: scale * np.asarray(values, float)}, series=name)]


def _short(value):
    return float(f"{value:.5g}") if isinstance(value, float) else value


def digits(value):
    """A number as the chapter prints it: three significant digits, thousands separated, whole from 100 up.

    >>> print(digits(1168.77), digits(2.0), digits(0.0333), digits(-0.0), "|", digits(2e-9))
    1,169 2.0 0.0333 0 | under 0.0001
    """
    if 0 < value < 1e-4:
        return "under 0.0001"
    if not 0 < abs(value) < 99.95:
        return f"{value + 0.0:,.0f}"
    text = np.format_float_positional(float(f"{value:.3g}"), trim="-")
    return text if "." in text or abs(value) >= 10 else f"{text}.0"


def counted(count, noun):
    """A count and what is counted, one or many.

    >>> print(counted(1, "token"), "|", counted(1042395.2, "token"))
    1 token | 1,042,395 tokens
    """
    text = f"{count:,.0f}"
    return f"{text} {noun}{'s' if text != '1' else ''}"


def between(low, high, unit):
    """A range as the chapter prints it; one number where both ends print alike.

    >>> print(between(30.41, 31.0, "ms"), "|", between(1.531, 1.533, "ms"))
    30.4 to 31 ms | 1.53 ms
    """
    return f"{' to '.join(dict.fromkeys(map(digits, (low, high))))} {unit}"


def percent(share):
    """A share in whole percent; three significant digits below one.

    >>> print(percent(0.8689), "|", percent(1 / 256), "|", percent(0))
    87 % | 0.391 % | 0 %
    """
    return f"{digits(100 * share) if share < 0.01 else f'{100 * share:.0f}'} %"


def parameters(count):
    """Parameters as a model's name has them: billions or millions with one decimal.

    >>> print(parameters(671026419712), parameters(8_400_000), parameters(9000))
    671.0B 8.4M 9,000
    """
    size, letter = next(((size, letter) for size, letter in [(1e9, "B"), (1e6, "M")] if count >= size), (1, ""))
    return f"{count / size:,.{1 if letter else 0}f}{letter}"


def dollars(amount):
    """Dollars and cents; three significant digits below a cent.

    >>> print(dollars(0.247), dollars(0.0016), dollars(1234.5))
    $0.25 $0.0016 $1,234.50
    """
    return f"${amount:,.2f}" if amount >= 0.01 else f"${digits(amount)}"


def spans(lines, unit="", scale=1):
    """What each line, {name: values}, comes from and goes to: what a description says of the rows of a figure.

    >>> print(spans({"bound": [0.001, 0.002, 0.004], "measured": [0.01]}, "ms", 1e3))
    bound from 1.0 to 4.0 ms; measured 10 ms
    """
    said = []
    for name, values in lines.items():
        drawn = [digits(scale * value) for value in np.ravel(values) if np.isfinite(value)] or ["nowhere"]
        ends = f"from {drawn[0]} to {drawn[-1]}" if len(drawn) > 1 else drawn[0]
        said.append(f"{name} {ends} {unit}".rstrip())
    return "; ".join(said)


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


def share_axis(field):
    """The y axis of every figure over coverage."""
    return alt.Y(f"{field}:Q", title="share of the experts touched", axis=alt.Axis(format=".0%"),
                 scale=alt.Scale(domain=[0, 1]))


def rows_axis():
    """The y axis of a figure with one model a row, in the order given."""
    return alt.Y("label:N", sort=None, title=None, axis=alt.Axis(labelLimit=0, grid=True, ticks=False, domain=False))


def beside(field, most, dx=9):
    """Settings of a mark: text right of its point, and left of it where `field` is more than `most`."""
    far = f"datum.{field} > {most}"
    return {"align": {"expr": f"{far} ? 'right' : 'left'"}, "dx": {"expr": f"{far} ? {-dx} : {dx}"}}


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
