"""Figures of page 07: layouts and exchanges."""

import altair as alt
import numpy as np

from .look import (
    HEIGHT,
    LIMIT,
    MEASURED,
    MOE,
    MUTED,
    SPREAD,
    WIDTH,
    batch_axis,
    counted,
    digits,
    finish,
    legend_colors,
    log_axis,
    pair_rows,
    rows,
    series_rows,
    spans,
)


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
    for name, seconds in lines.items():
        at = np.union1d(batch, ends[name])
        ms = 1e3 * np.interp(at, batch, seconds)
        within += rows(batch=at[at <= ends[name]], ms=ms[at <= ends[name]], series=name)
        beyond += rows(batch=at[at >= ends[name]], ms=ms[at >= ends[name]], series=name)
        marks += rows(batch=ends[name], ms=ms[at == ends[name]], series=name)
    x = batch_axis("sequences in a step, over all GPUs", domain=(1, float(np.max(batch))))
    y = alt.Y("ms:Q", title="milliseconds per step, at least", scale=alt.Scale(domain=[0, top], nice=False))
    color = legend_colors(names, SPREAD[:len(names)]).legend(symbolType="stroke", labelLimit=0)
    place, full = {"x": x, "y": y, "color": color}, alt.Chart(alt.Data(values=marks))
    high = {"expr": f"indexof({names}, datum.series) % 2 ? -31 : -15"}  # neighbours one above the other
    return finish(alt.layer(
        alt.Chart(alt.Data(values=beyond)).mark_line(
            strokeWidth=2, strokeDash=[2, 4], clip=True, aria=False).encode(**place),
        alt.Chart(alt.Data(values=within)).mark_line(strokeWidth=2.5, aria=False).encode(**place),
        full.mark_point(shape="cross", filled=True, angle=45, size=190, opacity=1, aria=False).encode(**place),
        full.mark_text(align="right", dx=-4, dy=high, fontWeight="bold", fontSize=14, aria=False).encode(
            **place, text=alt.Text("batch:Q", format=",d")),
    ).properties(width=WIDTH, height=HEIGHT),
        "Milliseconds per step against sequences, a line for each layout, dashed from a cross on, where caches fill "
        "the GPUs: " + "; ".join(f"{row['series']} {digits(row['ms'])} ms at {counted(row['batch'], 'sequence')}"
                             for row in marks) + ".")


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
        f"{counted(home.size, 'token')} on {counted(num_gpus, 'GPU')} and the {counted(choices.shape[1], 'expert')} "
        "that each chose, as lines between boxes. Left, dispatch: lines fan out from the GPU of a token to the GPUs of "
        f"its experts, {sent} if each GPU gets one copy. Right, combine: the same lines run back. Dotted lines stay on "
        "their GPU.")


def overlap(each, ratios, measured):
    """Time of a step in two overlapped half-batches over that of one whole batch, against sequences on each GPU.

    Parameters
    ----------
    each : array_like [n]
    ratios : dict of str to array_like [n]
        By machine, at most four.
    measured : dict
        By others: sequences_a_gpu and gain, lists, and gains_from_between, a span (``half_batches.jsonl``). A gain in
        tokens/s is drawn as the ratio of times.
    """
    told, passes = "measured (bar: passes 1)", measured["gains_from_between"]
    seen = measured["sequences_a_gpu"], 1 / (1 + np.asarray(measured["gain"]))
    x = batch_axis("sequences on each GPU", name="each", domain=(float(np.min(each)), float(np.max(each))))
    y = alt.Y("ratio:Q", title="two halves overlapped, over one batch", axis=alt.Axis(values=[0.5, 0.7, 1, 1.4, 2]),
              scale=alt.Scale(type="log", domain=[0.5, 2.1], nice=False))
    color = legend_colors([*ratios, told], SPREAD[:len(ratios)] + [MEASURED]).legend(symbolType="stroke", labelLimit=0)
    rule = alt.Chart(alt.Data(values=[{"ratio": 1, "each": float(np.min(each)), "over": "slower", "under": "faster"}]))
    says = {"align": "left", "dx": 6, "aria": False}
    return finish(alt.layer(
        rule.mark_rule(color=LIMIT, strokeWidth=2, strokeDash=[6, 4], aria=False).encode(y=y),
        rule.mark_text(**says, dy=-9).encode(x=x, y=y, text="over:N"),
        rule.mark_text(**says, dy=10).encode(x=x, y=y, text="under:N"),
        alt.Chart(alt.Data(values=series_rows(ratios, "ratio", each=each))).mark_line(
            strokeWidth=2.5, clip=True, aria=False).encode(x=x, y=y, color=color),
        alt.Chart(alt.Data(values=[{"each": passes[0], "to": passes[1], "ratio": 1, "series": told}])).mark_rule(
            strokeWidth=9, opacity=1, aria=False).encode(x=x, x2="to:Q", y=y, color=color),
        alt.Chart(alt.Data(values=pair_rows({told: seen}, "each", "ratio"))).mark_point(
            filled=True, size=85, opacity=1, aria=False).encode(x=x, y=y, color=color),
    ).properties(width=WIDTH, height=HEIGHT),
        "Time of two overlapped half-batches over that of one batch, against the sequences on each GPU, log-log. "
        f"Lines: {spans(ratios)}. At a dashed rule both take the same. Points are measured: " + ", ".join(
            f"{digits(ratio)} at {counted(at, 'sequence')}" for at, ratio in zip(*seen, strict=True))
        + f"; a bar from {passes[0]:,} to {passes[1]:,} says where they pass the rule.")


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
    dots = [row for tokens, seconds, seen in points.values()
            for row in rows(tokens=tokens, us=1e6 * np.asarray(seconds), seen=np.asarray(seen))]
    dot = alt.Chart(alt.Data(values=dots))
    return finish(alt.layer(
        alt.Chart(alt.Data(values=pair_rows(lines, "tokens", "us", 1e6))).mark_line(
            strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color),
        dot.transform_filter("datum.seen").mark_point(filled=True, size=85, opacity=1, color=MEASURED, aria=False)
        .encode(x=x, y=y),
        dot.transform_filter("!datum.seen").mark_point(
            size=70, strokeWidth=2, fill="none", opacity=1, color=MEASURED, aria=False).encode(x=x, y=y),
    ).properties(width=WIDTH, height=320),
        "Microseconds of an exchange against the tokens of each GPU, log-log. "
        f"Lines: {spans({name: of for name, (_, of) in lines.items()}, scale=1e6)}. Dots are measured, filled where a "
        f"line was fitted to them: {spans({name: of for name, (_, of, _) in points.items()}, scale=1e6)}.")


def parallel():
    """Milliseconds of a step against sequences for one layout, up to where caches fill the GPUs.

    Data sets: ``curve`` (key, and the lists batch, ms with the exchanges hidden and open without), ``end`` (key, batch,
    ms, text), ``barred`` (key, text in lines: why a layout cannot be or holds no sequence). The key names model, setup,
    gpus, attention, experts and context, the choices; a layout that is barred has no other row.
    """
    key = "model + '|' + setup + '|' + gpus + '|' + {} + '|' + {} + '|' + context"
    own, split = key.format("attention", "experts"), key.format("'8'", "'8'")
    names = ["exchanges hidden", "exchanges in the open", "all split over the 8 GPUs of a node"]
    x = batch_axis("sequences in a step, over all GPUs")

    def y(field):
        return log_axis(field, "milliseconds per step, at least", (0.1, 1000), format=",~f")

    color = legend_colors(names, [MOE, LIMIT, MUTED]).legend(symbolType="stroke", labelLimit=0)
    layers = []
    for name, of, field, dash in zip(reversed(names), [split, own, own], ["ms", "open", "ms"],
                                     [[2, 3], [6, 4], [1, 0]], strict=True):
        curve = alt.Chart(alt.NamedData("curve")).transform_filter(f"datum.key == {of}").transform_flatten(
            ["batch", "ms", "open"]).transform_calculate(series=repr(name))
        layers.append(curve.mark_line(strokeWidth=2.5, strokeDash=dash, clip=True, aria=False).encode(
            x=x, y=y(field), color=color))
    end, barred = (alt.Chart(alt.NamedData(name)).transform_filter(f"datum.key == {own}") for name in ("end", "barred"))
    return finish(alt.layer(
        *layers,
        end.mark_point(shape="cross", filled=True, angle=45, size=190, color=MOE, opacity=1, aria=False).encode(
            x=x, y=y("ms")),
        end.mark_text(align="right", dx=-8, dy=-16, fontWeight="bold", aria=False).encode(
            x=x, y=y("ms"), text="text:N"),
        barred.mark_text(lineBreak="\n", fontSize=14, aria=False).encode(
            x=alt.value({"expr": "width / 2"}), y=alt.value(40), text="text:N"),
    ).properties(width=WIDTH, height=320),
        "Milliseconds per step against sequences over all GPUs, log-log. A line has the exchanges between GPUs hidden, "
        "a dashed one in the open; a dotted one splits everything over the GPUs of a node. A cross marks where caches "
        "fill the GPUs. A layout that cannot be has words in place of a line.")
