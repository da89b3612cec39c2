"""Figures of page 05: measured layers."""

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


def seconds_axis(title, domain, name="seconds"):
    """A log y axis of seconds over a fixed domain, decades labelled in words of time."""
    says = ("datum.value >= 1 ? datum.value + ' s' : datum.value >= 1e-3 ? round(1e3 * datum.value) + ' ms' : "
            "round(1e6 * datum.value) + ' µs'")
    return log_axis(name, title, domain, labelExpr=says, description=f"{title}, seconds")


def machine(limits, measured):
    """Time of a step against batch on the reader's machine: a mixture and its dense twin, points over their limits.

    Parameters
    ----------
    limits, measured : dict of str to (array_like, array_like)
        Batches and seconds of the mixture and of the dense twin, in that order.
    """
    names = list(measured)
    color = legend_colors(names, [MOE, DENSE]).legend(symbolOpacity=1, labelLimit=0)
    place = {"x": batch_axis(domain=(1, 256)), "color": color,
             "y": seconds_axis("time of the layer", (1e-4, 1))}
    lines, points = (alt.Chart(alt.Data(values=pair_rows(of, "batch", "seconds"))) for of in (limits, measured))
    return finish(alt.layer(
        lines.mark_line(strokeWidth=2, strokeDash=[6, 4], aria=False).encode(**place),
        points.mark_line(strokeWidth=1, opacity=0.5, aria=False).encode(**place),
        points.mark_point(filled=True, size=90, opacity=1, aria=False).encode(**place),
    ).properties(width=WIDTH, height=HEIGHT),
        "Milliseconds of a layer against the batch on this machine, log-log. "
        f"Dots, measured: {spans({name: of for name, (_, of) in measured.items()}, scale=1e3)}. "
        f"Dashed lines, their limits: {spans({name: of for name, (_, of) in limits.items()}, scale=1e3)}.")


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
    figure = finish(alt.layer(
        lines.mark_line(strokeWidth=2.5, aria=False).encode(**place),
        points.mark_point(filled=True, size=80, opacity=1, aria=False).encode(**place),
    ).properties(width=WIDTH, height=320),
        "Measured times of one layer of experts against the batch, log-log. Dots are measured; those that cannot be "
        "have a colour of their own. Lines: the limit from published peaks, the limit with two fitted constants, and "
        "the limit if only the experts of one token were read.")
    figure.config["legend"]["columns"] = 3
    return figure


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
        alt.Chart(alt.Data(values=pair_rows(laws, "at", "share"))).mark_line(strokeWidth=2.5, aria=False).encode(
            x=x, y=y, color=color),
        alt.Chart(alt.Data(values=table)).mark_point(filled=True, opacity=0.75, aria=False).encode(
            x=x, y=y, color=color, shape=shape, size=size),
    ).properties(width=WIDTH, height=340),
        "Share of all experts read, worked out from measured times, against tokens per expert. "
        f"Lines: {spans({kind: of for kind, (_, of) in laws.items()})}. Dots: {', '.join(machines)}.")


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
    here = alt.X("middle:Q", title="median", scale=alt.Scale(type="log", base=2, domain=domain, nice=False, clamp=True))
    one = alt.Chart(alt.Data(values=[{}])).mark_rule(color=MUTED, strokeDash=[5, 4], aria=False)
    return finish(alt.layer(
        one.encode(x=alt.datum(1)),
        base.mark_rule(color=MEASURED, strokeWidth=7, opacity=0.65, dy=6, aria=False).encode(x=x, x2="high:Q", y=y),
        base.mark_point(filled=True, color=MEASURED, size=90, opacity=1, aria=False).encode(x=here, y=y),
        base.mark_text(align="left", dy=-16, aria=False).encode(x=alt.value(2), y=y, text="says:N"),
        base.mark_text(align="right", dy=-16, fontWeight="bold", aria=False).encode(
            x=alt.value("width"), y=y, text="off:N"),
    ).properties(width=WIDTH, height=46 * len(groups)),
        "Measured over predicted time by group, a dot at the median, a bar over all but a tenth at each end: "
        + "; ".join(f"{row['says']}, median {row['middle']:.2f}" for row in table) + ".")


def over_limit(batch, ratios):
    """Measured time over the physical limit against batch, by group.

    Parameters
    ----------
    batch : array_like [n]
    ratios : dict of str to array_like [n]
        At most five groups.
    """
    names = list(ratios)
    x, table = batch_axis(domain=(1, 16384)), series_rows(ratios, "ratio", batch=batch)
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
        f"Measured time over the physical limit, against the batch, log-log. Lines: {spans(ratios)}. A dashed rule "
        "marks the limit.")
