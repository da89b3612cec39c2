"""Figures of page 02: coverage, skew, drafts."""

import altair as alt
import numpy as np

from .look import (
    ALWAYS,
    CACHE,
    DENSE,
    HEAT,
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
    rows,
    share_axis,
    spans,
)


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
        mean.mark_line(strokeWidth=2.5, **smooth).encode(x=x, y=y, color=color),
        bound.mark_line(strokeWidth=2, strokeDash=[6, 4], **smooth).encode(x=x, y=share_axis("uniform"), color=color),
        at.mark_rule(color=MUTED, aria=False).encode(x=x),
        step.mark_point(shape="diamond", filled=True, size=130, opacity=1, aria=False).encode(x=x, y=y, color=color),
        at.mark_point(size=190, strokeWidth=2.5, opacity=1, aria=False).encode(x=x, y=y, color=color),
    ).properties(width=300, height=300, title="Over many steps (shaded: ± 2 standard deviations)")
    return finish(
        alt.hconcat(squares, expected, spacing=28).resolve_scale(color="independent"),
        "The experts of a layer in one simulated step, and the share of them touched. Left, a square for every expert, "
        "coloured by its tokens; an outline has none. Right, the expected share against the batch as a line, with a "
        "ring at the chosen batch and a diamond for the step on the left. Where loads were counted, a dashed line is "
        "what uniform ones would give; elsewhere a band spans two standard deviations to each side.")


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
        mine.mark_line(strokeWidth=2.5, **smooth).encode(x=x, y=y, color=color),
        bound.mark_line(strokeWidth=2, strokeDash=[6, 4], **smooth).encode(x=x, y=y, color=color),
        here.mark_rule(color=MUTED, aria=False).encode(x=x),
        here.mark_point(filled=True, size=130, opacity=1, aria=False).encode(x=x, y=y, color=color),
        here.mark_text(**beside("batch", 2000, 10), dy=14, fontWeight="bold", aria=False).encode(x=x, y=y, text=label),
    ).properties(width=WIDTH, height=HEIGHT),
        "Share of a layer's experts that a step touches, against the batch. A line is the chosen router, a dashed one "
        "the uniform router. A dot with its value marks the chosen batch.")


def speculation(names, server):
    """Gain of a draft against batch, a line a model, with a rule at 1 and one server that was measured.

    Data sets: ``curve`` (acceptance, draft, copy, batch, and a gain g0, g1, ... for each of `names`), ``measured``
    (draft, batch, gain). Choices: acceptance, draft, copy.
    """
    keys = [f"g{i}" for i in range(len(names))]
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
        "Speed with a draft over speed without, against the sequences being served, log-log. Lines: "
        f"{'; '.join(names)}. A diamond: {server}. At a dashed rule both speeds are equal.")


def covered(panels, by_others=False):
    """Share of experts touched against batch in views side by side: curves, and points simulated.

    Parameters
    ----------
    panels : dict of str to dict
        Title to {"batch": [n], "lines": {name: [n] or [curves, n]}, "points": {name: [n]}}, points optional. The first
        line is the uniform formula, drawn dashed, a third one the active experts alone; names are the same in every
        panel.
    by_others : bool
        The second line comes from what others measured.
    """
    series = (name for panel in panels.values() for name in [*panel["lines"], *panel.get("points", {})])
    views, names = [], list(dict.fromkeys(series))
    lines = max(len(panel["lines"]) for panel in panels.values())
    colors = [LIMIT, MEASURED if by_others else MOE, DENSE][:lines] + [CACHE][:len(names) - lines]
    color = legend_colors(names, colors).legend(symbolType="stroke", labelLimit=0)
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
                  f"Share of experts touched against the batch. A view for each: {'; '.join(panels)}. "
                  f"Dashed: {names[0]}. Beside it: {'; '.join(names[1:])}.")


def layer_times(batch, lines, measured):
    """Time of a layer's experts against batch, log-log: computed lines, and points measured by others.

    Parameters
    ----------
    batch : array_like [n]
    lines : dict of str to array_like [n]
        Seconds by name, at most three: the most experts, those of a uniform router, the active ones alone.
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
        f"Milliseconds of a layer's routed experts against the batch, log-log. Lines: {spans(lines, scale=1e3)}. "
        f"Dots: {spans({name: seconds for name, (_, seconds) in measured.items()}, scale=1e3)}.")
