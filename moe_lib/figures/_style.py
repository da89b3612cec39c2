"""What all figures share: the MIME type, colours with one meaning each, axes, marks, words for numbers, the finish."""

import textwrap

import altair as alt
import numpy as np

VEGALITE = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"  # a name, never fetched
WIDTH, HEIGHT = 640, 300

# One meaning each, in every figure. At least 3:1 against the light and the dark page, and told apart by readers who do
# not see red or green: any two lie 15 CIELAB units apart then (tests/test_accessibility.py).
MOE, DENSE, LIMIT, MEASURED = "#2F82C4", "#BD5C29", "#9179F1", "#138365"  # under study, its rival, limits, measurements
CACHE, ALWAYS = "#B88509", "#A54788"  # keys and values, what every token reads
MUTED = "#8E8F98"  # other models until they are chosen, and what is idle, illegal or past
NIGHT, UNLIT, LIT = "#14304C", "#24425F", ("#A8672F", "#F2A65A", "#FFF1D6")  # the wall: a lamp is bright in both modes
SERIES = [MOE, DENSE, LIMIT, MEASURED, CACHE, ALWAYS]
SOLID, DASHED, DOTTED = [1, 0], [6, 4], [2, 3]


def _mime_bundle(spec, **_):
    """A figure for JupyterLab and for pages. JupyterLab has no place for a title, so the finding is in the drawing."""
    finding = spec.get("usermeta", {}).get("finding")
    titled = {"title": {"text": textwrap.wrap(finding, 76), "fontSize": 15, "fontWeight": "bold"}} if finding else {}
    words = finding or spec.get("description", "a chart")
    return {VEGALITE: {**spec, **titled, "$schema": SCHEMA}, "text/plain": words}


alt.renderers.register("moe", _mime_bundle)
alt.renderers.enable("moe")


# Rows


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


def _short(value):
    return float(f"{value:.5g}") if isinstance(value, float) else value


# Words


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


def percents(low, high):
    """A range of shares in words; one where both ends print alike.

    >>> print(percents(0.15, 0.49), "|", percents(0.5, 0.501))
    15 to 49 % | 50 %
    """
    ends = dict.fromkeys(map(percent, (low, high)))
    return " to ".join(ends).replace(" %", "") + " %"


def times(ratio):
    """How many times as much, in words: a ratio with two digits, or that both are alike.

    >>> print(times(2.04), "|", times(15.96), "|", times(1.004), "|", times(0.25))
    2.0 times | 16 times | as much | a quarter of
    """
    if f"{ratio:.2f}" == "1.00":
        return "as much"
    parts = {0.5: "half of", 0.25: "a quarter of", 0.33: "a third of"}
    if round(ratio, 2) in parts:
        return parts[round(ratio, 2)]
    return f"{digits(float(f'{ratio:.2g}'))} times"


def as_much(how, ratio, written=digits):
    """How long, fast or large something is beside something else, before "as"; `written` makes words of the ratio.

    >>> print(as_much("long", 2.04), "|", as_much("fast", 1.004), "|", as_much("long", 0.5, "{:.2f}".format))
    2.04 times as long | as fast | 0.50 times as long
    """
    return f"as {how}" if f"{ratio:.2f}" == "1.00" else f"{written(ratio)} times as {how}"


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


# Axes. A domain is always given, so that labels can be placed and nothing jumps while a slider moves.


def around(values, log=True, pad=0.04):
    """A domain that holds all finite `values`, with a little room at both ends.

    >>> print(*(round(end, 2) for end in around([1, 10, 100])), *around([0, 50], log=False))
    0.83 120.23 -2.0 52.0
    """
    values = np.concatenate([np.ravel(np.asarray(part, float)) for part in values]) if len(values) else np.ones(1)
    values = values[np.isfinite(values) & ((values > 0) | (not log))]
    ends = np.log10([values.min(), values.max()]) if log else np.array([values.min(), values.max()])
    room = pad * max(np.ptp(ends), 0.01)
    low, high = ends + [-room, room]
    return [float(10**low), float(10**high)] if log else [float(low), float(high)]


def batch_axis(title="tokens in a step (batch)", name="batch", domain=(1, 65536)):
    """The x axis that every figure over batches shares: log scale, powers of four. See `log_axis` for no domain."""
    axis = alt.Axis(values=[4**i for i in range(9)], format=",d", labelOverlap=True, labelSeparation=8)
    fixed = {"domain": list(domain)} if domain else {}
    return alt.X(f"{name}:Q", title=title, axis=axis, scale=alt.Scale(type="log", base=2, nice=False, **fixed))


def log_axis(field, title, domain=None, **axis):
    """A log y axis over a domain, decades labelled with SI prefixes; less than two decades also at 2 and 5.

    Without a domain it fits the rows that are drawn: for figures whose sliders leave the rows as they are.
    """
    low, high = np.log10(domain or (1e-7, 1e7))
    steps = [1] if domain and high - low >= 2.5 else [1, 2, 5]
    ticks = [step * 10.0**power for power in np.arange(np.floor(low), high + 1e-9) for step in steps]
    axis = {"format": "~s", "values": [tick for tick in ticks if low <= np.log10(tick) <= high], **axis}
    fixed = {"domain": list(domain), "clamp": True} if domain else {}
    return alt.Y(f"{field}:Q", title=title, axis=alt.Axis(**axis), scale=alt.Scale(type="log", nice=False, **fixed))


def linear_axis(field, title, domain, **axis):
    """A linear y axis over a fixed domain."""
    return alt.Y(f"{field}:Q", title=title, axis=alt.Axis(**{"tickCount": 6, **axis}),
                 scale=alt.Scale(domain=list(domain), nice=False, zero=False))


def share_axis(field):
    """The y axis of every figure over coverage."""
    return linear_axis(field, "share of the experts touched", (0, 1), format=".0%")


def rows_axis(table=None):
    """The y axis of a figure with one row a label, in the order given: that of `table`, or of the rows drawn first."""
    order = [row["label"] for row in table] if table else None
    return alt.Y("label:N", sort=order, title=None, axis=alt.Axis(labelLimit=0, grid=True, ticks=False, domain=False))


def position(axis, value):
    """Where values lie along an axis with a given domain: 0 at its beginning, 1 at its end.

    >>> print(position(log_axis("ms", "time", (1, 100)), 10), position(share_axis("share"), 0.25))
    0.5 0.25
    """
    scale = axis.to_dict()["scale"]
    bend = np.log if scale.get("type") == "log" else np.asarray
    low, high = bend(np.asarray(scale["domain"], float))
    return np.clip((bend(np.asarray(value, float)) - low) / (high - low), 0, 1)


def apart(places, least):
    """Places moved as little as needed, so that neighbours keep `least` between them, in any order.

    >>> print(*apart([0, 1, 30], 14))
    -6.5 7.5 30.0
    """
    places, order = np.array(places, float), np.argsort(places, kind="stable")
    groups = [[places[i], 1] for i in order]  # middle of a group, how many it holds
    i = 0
    while i + 1 < len(groups):
        (low, a), (high, b) = groups[i], groups[i + 1]
        if high - low >= least * (a + b) / 2 - 1e-9:
            i += 1
            continue
        groups[i : i + 2] = [[(low * a + high * b) / (a + b), a + b]]
        i = max(i - 1, 0)
    spread = [middle + least * (n - (held - 1) / 2) for middle, held in groups for n in range(held)]
    places[order] = spread
    return places


# Marks. `data` is a list of rows, or a chart whose data set was named and filtered.


def drawn(data):
    """A chart over rows."""
    return data if isinstance(data, alt.Chart) else alt.Chart(alt.Data(values=data))


def named(data, *filters):
    """A chart over a data set that the face of a control fills, filtered by its choices."""
    chart = alt.Chart(alt.NamedData(data))
    return chart.transform_filter(" && ".join(filters)) if filters else chart


def same(*names):
    """The filter that keeps rows with the chosen values of some choices.

    >>> print(same("model", "batch"))
    datum.model == model && datum.batch == batch
    """
    return " && ".join(f"datum.{name} == {name}" for name in names)


def _called(data, name):
    """A chart whose rows have a name, for the table below a figure and the words under the pointer."""
    return drawn(data).transform_calculate(series=repr(name)) if name else drawn(data)


def _detail(data, name):
    has_series = isinstance(data, list) and data and "series" in data[0]
    return {"detail": "series:N"} if name or has_series else {}


def line(data, x, y, color=MOE, dash=SOLID, width=2.5, name="", **mark):
    """A line; `name` is what the table below the figure calls it where rows have no series."""
    look = {"color": color, "strokeDash": dash, "strokeWidth": width, **mark}
    return _called(data, name).mark_line(**look).encode(x=x, y=y, **_detail(data, name))


def dots(data, x, y, color=MOE, size=90, shape="circle", filled=True, name="", **mark):
    """Dots, filled or as rings."""
    look = {"color": color, "size": size, "shape": shape, "filled": filled, "opacity": 1, "strokeWidth": 2.5, **mark}
    return _called(data, name).mark_point(**look).encode(x=x, y=y, **_detail(data, name))


def rule(data, color=LIMIT, dash=DASHED, width=2, **at):
    """A rule across the plot at an x or a y, or between two ends."""
    return drawn(data).mark_rule(color=color, strokeDash=dash, strokeWidth=width).encode(**at)


def words(data, text, color="currentColor", align="left", dx=6, dy=0, bold=False, size=13, x=None, y=None, **mark):
    """Words at a place: `text` is a field, with its format after a comma where it is a number ("ms,.0f")."""
    field, _, form = text.partition(",")
    shown = alt.Text(f"{field}:Q", format=form) if form else alt.Text(f"{field}:N")
    at = {name: axis for name, axis in (("x", x), ("y", y)) if axis is not None}
    return drawn(data).mark_text(color=color, align=align, dx=dx, dy=dy, fontSize=size, lineBreak="\n",
                                 fontWeight="bold" if bold else "normal", **mark).encode(text=shown, **at)


def beside(field, most, dx=9):
    """Settings of words: right of their point, and left of it where `field` is more than `most`."""
    far = f"datum.{field} > {most}"
    return {"align": {"expr": f"{far} ? 'right' : 'left'"}, "dx": {"expr": f"{far} ? {-dx} : {dx}"}}


def phone(there, elsewhere, narrow=400):
    """A setting of a mark that is another one where the plot is as narrow as on a phone."""
    return {"expr": f"width < {narrow} ? {there!r} : {elsewhere!r}"}


def labels(ends, x, y, looks, height=HEIGHT, wrap=22, size=13, narrow=400):
    """Names of lines at their ends, each in its colour, moved apart where they would overlap.

    Right of the plot; on a phone above the end of the line, where they take no width.

    Parameters
    ----------
    ends : dict of str to (float, float)
        Name to the x and y at which its line ends.
    x, y : alt.X, alt.Y
        Axes with domains.
    looks : dict of str to str
        Name to colour.
    height, wrap, size, narrow : int
        Of the plot, px; characters a line; px; a plot of fewer px has no room beside it.
    """
    said = {name: textwrap.fill(name, wrap) for name in ends}
    tall = (size + 2) * max(text.count("\n") + 1 for text in said.values())
    at = {name: height * (1 - position(y, end)) for name, (_, end) in ends.items()}
    moved = dict(zip(at, apart(list(at.values()), tall), strict=True))
    return [words([{**dict(zip(_fields(x, y), end, strict=True)), "says": said[name]}], "says", looks[name],
                  align=phone("right", "left", narrow), dx=phone(-2, 8, narrow), bold=True, size=size,
                  dy=float(moved[name] - at[name]),
                  baseline=phone("bottom", "middle", narrow), x=x, y=y) for name, end in ends.items()]


def _fields(*axes):
    return [axis.to_dict()["field"] for axis in axes]


def lines(table, x, y, looks, at=None, **options):
    """A figure's lines with their names at their ends: layers.

    Parameters
    ----------
    table : dict of str to (array_like, array_like), or to array_like
        Name to x and y of each point, or to y alone where `at` has the x of all. What is not finite is left out.
    x, y : alt.X, alt.Y
        Axes with domains.
    looks : dict of str to (str, list)
        Name to colour and dash.
    at : array_like, optional
    options
        Of `labels`; `smooth` for functions that are smooth; `names` as other names for the labels, empty for none.
    """
    smooth, names = options.pop("smooth", False), options.pop("names", {})
    more, layers, ends = {"interpolate": "monotone"} if smooth else {}, [], {}
    for name, held in table.items():
        where, values = (np.asarray(part, float) for part in ((at, held) if at is not None else held))
        where, values = np.broadcast_arrays(where, values)
        keep = np.isfinite(values)
        table_rows = rows(**dict(zip(_fields(x, y), (where[keep], values[keep]), strict=True)), series=name)
        layers.append(line(table_rows, x, y, *looks[name], clip=True, **more))
        if keep.any() and names.get(name, name):
            inside = keep & (position(x, where) < 1) | (where == where[keep].max())
            ends[name] = float(where[inside][-1]), float(values[inside][-1])
    said = {names.get(name, name): end for name, end in ends.items()}
    colors = {names.get(name, name): look[0] for name, look in looks.items()}
    return layers + (labels(said, x, y, colors, **options) if said else [])


# The finish


def finish(chart, name, drawing, finding="", source="", said="", beside=0):
    """The look that all figures share, and what a figure says in words.

    ``currentColor`` is the page's own text colour: light and dark need no redraw. Names and numbers of single marks are
    left to the table below a figure (`aria` is off): a screen reader meets one picture with a name.

    Parameters
    ----------
    chart : alt.Chart
    name : str
        What the figure is called in addresses: "coverage" becomes #fig-coverage.
    drawing : str
        What is drawn: axes and marks, no numbers.
    finding : str
        The title: what the rows show, in a sentence computed from them. Controls leave it to their face.
    source : str
        Where rows come from, "measured by ..." where they are measurements.
    said : str
        More for who does not see it, such as `spans`.
    beside : int
        In a row of views, px that names at the ends of lines take beside each.
    """
    text = {"labelColor": "currentColor", "titleColor": "currentColor"}
    font = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
    usermeta = {"name": name, "finding": finding, "drawing": drawing, "source": source, "beside": beside}
    told = " ".join(filter(None, [drawing, said]))
    return chart.properties(description=told, usermeta=usermeta).configure(
        background="transparent", font=font, aria=False, view={"stroke": None}, mark={"aria": False, "tooltip": True},
        text={"color": "currentColor", "fontSize": 13},
        title={"color": "currentColor", "subtitleColor": "currentColor", "fontSize": 13, "anchor": "start",
               "fontWeight": "normal"},
        axis={**text, "domainColor": "currentColor", "tickColor": "currentColor", "gridColor": "currentColor",
              "gridOpacity": 0.12, "domainOpacity": 0.4, "tickOpacity": 0.4, "labelFontSize": 12, "titleFontSize": 12,
              "titleFontWeight": "normal", "titlePadding": 8},
        legend={**text, "orient": "top", "direction": "horizontal", "columns": 0, "labelFontSize": 12,
                "titleFontSize": 12, "symbolStrokeWidth": 3, "labelLimit": 0, "symbolOpacity": 1},
        header={**text, "labelFontSize": 12})
