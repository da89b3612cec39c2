"""Figures of page 08: uneven experts."""

import altair as alt
import numpy as np

from .look import (
    ALWAYS,
    CACHE,
    LIMIT,
    MEASURED,
    MOE,
    MUTED,
    batch_axis,
    digits,
    finish,
    legend_colors,
    log_axis,
    pair_rows,
    rows,
    spans,
)


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
                  "Loads of GPUs as stacked bars, a piece for every slot, lettered by expert. The fullest GPU: "
                  + "; ".join(f"{title}, {np.sum(load, axis=1).max():,.0f}" for title, (_, load) in panels.items())
                  + f". A dashed rule marks the mean, {mean:,.0f}.")


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
        data = {kind: alt.Chart(alt.Data(values=pair_rows(panel.get(kind, {}), "batch", "us", 1e6)))
                for kind in ("lines", "points")}
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
                  "Microseconds of the slowest GPU against the batch, log-log. " + " ".join(
                      f"{title}, {kind}: {spans({name: of for name, (_, of) in panel[kind].items()}, scale=1e6)}."
                      for title, panel in panels.items() for kind in ("lines", "points") if kind in panel)
                  + "".join(f" A dotted rule, {panel['mark'][1]}, stands at {digits(panel['mark'][0])}."
                            for panel in panels.values() if "mark" in panel))


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
    names = ["as numbered", "placed, none redundant", "placed, these slots"]
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
                  "Loads of the GPUs of a layer, and time of the slowest. Left, a bar for each GPU, fullest first, its "
                  "tokens over the mean, which is a dashed rule. Right, microseconds of the slowest GPU against the "
                  "batch, log-log, with a dot at the chosen batch. Experts lie as numbered, dotted on the right; are "
                  "placed with none redundant, dashed; or are placed with these slots.")
