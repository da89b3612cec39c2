"""Figures of page 09: the valley and the frontier."""

import altair as alt
import numpy as np

from .look import (
    ALWAYS,
    CACHE,
    LIMIT,
    MOE,
    MUTED,
    SPREAD,
    WIDTH,
    batch_axis,
    beside,
    digits,
    finish,
    legend_colors,
    log_axis,
    rows,
    series_rows,
    spans,
)


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
    lines = alt.Chart(alt.Data(values=series_rows(ratios, "ratio", batch=batch)))
    sunk = alt.Chart(alt.Data(values=series_rows({name: np.maximum(of, 1) for name, of in ratios.items()}, "ratio",
                                            batch=batch, one=1)))
    last = {name: of[-1] for name, of in crossings.items()}
    dots = alt.Chart(alt.Data(values=[row for i, (name, at) in enumerate(last.items()) for row in rows(
        batch=at, ratio=1, series=name, says=f"{np.floor(at):,.0f}", below=60 - 20 * i)]))
    first = alt.Chart(alt.Data(values=rows(batch=[of[0] for of in crossings.values()], ratio=1, series=list(ratios))))
    middle = {name: np.sqrt(of[0] * of[-1]) for name, of in crossings.items()}
    inside = alt.Chart(alt.Data(values=[row for name, at in middle.items() for row in rows(
        batch=at, ratio=np.interp(at, batch, ratios[name]) ** 0.75, series=name, short=name.removesuffix(" tokens"))]))
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
        inside.mark_text(fontSize=phone(12, 14), text=phone("datum.short", "datum.series"), **big).encode(
            x=x, y=y),
        sides.mark_text(align="left", dx=10, fontSize=16, **big).encode(x=x, y=y, text="says:N"),
    ).properties(width=WIDTH, height=400),
        f"Step time of {names[0]} over that of {names[1]} against sequences, log-log, drawn downwards. "
        f"Lines: {spans(ratios)}. Dots where both take the same: " + "; ".join(
            f"{name}, {' and '.join(map(digits, of))}" for name, of in crossings.items()) + ".")


CANNOT_BE = "cannot be"


def shared_by(num_gpus):
    """How the attention is spread, by the GPUs that share one copy, as the frontier's legend has it."""
    return f"split over {num_gpus}" if num_gpus > 1 else "attention on every GPU"


def frontier():
    """Tokens/s of a user against tokens/s of a GPU: a line a layout, a dot a batch, a cross where caches fill the GPUs.

    Data sets: ``line`` (key, layout, series, legal, and the lists user, gpu), ``full`` (key, layout, series, legal,
    user, gpu, batch), ``best`` (key, tpot, user, gpu, batch, layout, text), ``target`` (tpot, user), ``barred`` (key,
    text in lines: how many layouts cannot be, and why). The key names model, device, gpus and context, the choices
    beside tpot. Illegal layouts are grey.
    """
    xs, ys = (10, 20000), (20, 40000)
    key = "datum.key == model + '|' + device + '|' + gpus + '|' + context"
    x = alt.X("user:Q", title="tokens/s of a user, at most",
              axis=alt.Axis(values=[10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000], format=",d",
                            labelOverlap=True),
              scale=alt.Scale(type="log", domain=list(xs), nice=False))
    y = log_axis("gpu", "tokens/s of a GPU, at most", ys, format=",d",
                 values=[20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 40000])
    names = [*map(shared_by, (1, 2, 4, 8))]
    color = legend_colors([*names, CANNOT_BE], [*SPREAD, MUTED]).legend(symbolType="stroke", labelLimit=0, values=names)
    line, full, best = (alt.Chart(alt.NamedData(name)).transform_filter(key) for name in ("line", "full", "best"))
    target = alt.Chart(alt.NamedData("target")).transform_filter("datum.tpot == tpot")
    points = line.transform_flatten(["user", "gpu"])
    dash = alt.StrokeDash("legal:N", legend=None, scale=alt.Scale(domain=[True, False], range=[[1, 0], [2, 3]]))
    best = best.transform_filter("datum.tpot == tpot")
    one = line.transform_calculate(user="datum.user[0]", gpu="datum.gpu[0]",
                                   text=f"split(datum.layout, '+')[0] + (datum.legal ? '' : ' {CANNOT_BE}')")
    lower = {"expr": f"10 - 7 * indexof({names}, datum.series)"}  # lines may start together, that of DP lowest
    barred = alt.Chart(alt.NamedData("barred")).transform_filter(key).transform_calculate(
        right=str(xs[1]), top=str(ys[1]))
    rule, at = target.transform_calculate(text="tpot + ' ms a token'", low=str(xs[0]), top=str(ys[1])), {"aria": False}
    return finish(alt.layer(
        rule.mark_rect(color=MUTED, opacity=0.16, clip=True, **at).encode(x=alt.X("low:Q"), x2="user:Q"),
        rule.mark_rule(color=LIMIT, strokeDash=[6, 4], strokeWidth=2, **at).encode(x=x),
        rule.mark_text(**beside("user", 400, 6), dy=10, fontSize=14, **at).encode(
            x=x, y=alt.Y("top:Q"), text="text:N"),
        points.mark_line(strokeWidth=2.5, clip=True, **at).encode(
            x=x, y=y, color=color, detail="layout:N", strokeDash=dash),
        points.mark_point(filled=True, size=26, opacity=1, clip=True, **at).encode(x=x, y=y, color=color),
        full.mark_point(shape="cross", filled=True, angle=45, size=150, opacity=1, clip=True, **at).encode(
            x=x, y=y, color=color),
        one.mark_text(align="left", dx=9, dy=lower, clip=True, **at).encode(x=x, y=y, color=color, text="text:N"),
        barred.mark_text(align="right", baseline="top", lineBreak="\n", dx=-6, dy=26, **at).encode(
            x=alt.X("right:Q"), y=alt.Y("top:Q"), text="text:N"),
        best.mark_point(size=260, strokeWidth=3, color="currentColor", filled=False, opacity=1, clip=True, **at).encode(
            x=x, y=y),
        best.mark_text(align="left", dx=13, dy={"expr": "datum.gpu > 15000 ? 18 : -9"}, fontWeight="bold", fontSize=14,
                       clip=True, **at).encode(
            x=x, y=y, text="text:N"),
    ).properties(width=WIDTH, height=380),
        "Tokens per second of a GPU against tokens per second of a user, log-log. A line for each way to spread "
        "attention, dotted where it cannot be, a dot for each doubling of the batch, a cross where caches fill the "
        "GPUs. A dashed rule marks the slowest that a user accepts; a ring marks the best point to its right.")
