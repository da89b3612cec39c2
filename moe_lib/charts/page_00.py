"""Figures of page 00: the workshop, and a server over its bound."""

import altair as alt
import numpy as np

from .look import (
    DENSE,
    HEIGHT,
    LIMIT,
    MEASURED,
    MOE,
    MUTED,
    WIDTH,
    batch_axis,
    finish,
    legend_colors,
    log_axis,
    rows,
    series_rows,
    spans,
)


def workshop():
    """Intensity against batch: the model and its dense twin, the device's ridge point, and the chosen batch.

    Data sets: ``curve`` (model, precision, batch, moe, twin), ``ridge`` (device, precision, ridge). Choices: model,
    precision, device, batch.
    """
    curve = alt.Chart(alt.NamedData("curve")).transform_filter("datum.model == model && datum.precision == precision")
    ridge = alt.Chart(alt.NamedData("ridge")).transform_filter("datum.device == device && datum.precision == precision")
    x, domain = batch_axis(), (0.3, 5e5)
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
        "FLOP per byte read in a decode step against the batch, log-log. Lines: this mixture of experts, and a dense "
        "model of its active size. A dashed rule marks the device's ridge point, dots the chosen batch.")


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
    table = alt.Data(values=series_rows(milliseconds, "ms", batch=batch))
    x = batch_axis("requests in flight", domain=(1, 256))
    color = legend_colors(names, [MOE, DENSE, LIMIT][:len(lines)] + [MEASURED])
    y = alt.Y("ms:Q", title="milliseconds per step", scale=alt.Scale(domain=[0, 50]))
    return finish(alt.layer(
        alt.Chart(table).mark_line(strokeWidth=2.5, clip=True, aria=False).encode(x=x, y=y, color=color),
        alt.Chart(points).mark_point(filled=True, size=110, opacity=1, aria=False).encode(x=x, y=y, color=color),
    ).properties(width=WIDTH, height=HEIGHT),
        f"Milliseconds per step against requests in flight. Lines: {spans(milliseconds)}. "
        f"Dots: {spans({title: measured[1]}, scale=1e3)}.")
