"""Figures of page 06: experts outside the card."""

import altair as alt
import numpy as np

from .look import (
    ALWAYS,
    CACHE,
    HEIGHT,
    LIMIT,
    MEASURED,
    MOE,
    MUTED,
    WIDTH,
    batch_axis,
    beside,
    digits,
    finish,
    legend_colors,
    log_axis,
    pair_rows,
    percent,
    rows,
    rows_axis,
    series_rows,
    spans,
)

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
    y = log_axis("ms", "milliseconds per token, no overlap", OFFLOADED, format=",~r")
    color = legend_colors(names, [MOE, CACHE]).legend(symbolType="stroke", labelLimit=0)
    lines = [
        alt.Chart(alt.NamedData("curve")).transform_filter("datum.key == " + key.format(way)).transform_flatten(
            ["share", "ms"]).transform_calculate(series=repr(name)).mark_line(
            strokeWidth=2.5, strokeDash=dash, aria=False).encode(x=x, y=y, color=color)
        for name, way, dash in zip(reversed(names), ["'server-ddr5'", "way"], [[6, 4], [1, 0]], strict=True)]
    return finish(alt.layer(
        card.mark_rule(color=LIMIT, strokeDash=[2, 3], strokeWidth=2, aria=False).encode(x=x), *lines,
        card.mark_point(filled=True, size=150, color=MOE, opacity=1, aria=False).encode(x=x, y=y),
        card.mark_text(**beside("share", 0.8, 12), dy=-12, fontWeight="bold", fontSize=14, aria=False).encode(
            x=x, y=y, text="text:N"),
    ).properties(width=WIDTH, height=HEIGHT),
        "Milliseconds per token, on a log axis, against the share of a layer's experts that the card holds. A line "
        "treats missing experts as chosen; for a dashed one a server's host computes them. A dotted rule with a dot "
        "marks what the chosen card holds.")


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
                  "Hit rate of a cache against the share of a layer's experts that it holds. " + " ".join(
                      f"{title}: {spans({name: hit for name, (_, hit) in panel.items()}, '%', 100)}."
                      for title, panel in panels.items()))


def offloaded_batches(batch, lines, mark, mark_says):
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
    table = alt.Data(values=series_rows(lines, "rate", batch=batch))
    rule = alt.Chart(alt.Data(values=[{"batch": mark, "says": mark_says, "low": 1}]))
    return finish(alt.layer(
        rule.mark_rule(color=LIMIT, strokeDash=[6, 4], strokeWidth=2, aria=False).encode(x=x),
        rule.mark_text(align="right", dx=-6, dy=-10, aria=False).encode(x=x, y=alt.Y("low:Q"), text="says:N"),
        alt.Chart(table).mark_line(strokeWidth=2.5, clip=True, aria=False).encode(x=x, y=y, color=color),
    ).properties(width=WIDTH, height=HEIGHT),
        f"Tokens per second against the batch, log-log. Lines: {spans(lines)}. A dashed rule, {mark_says}, stands at "
        f"{digits(mark)}.")


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
            x=x, y=rows_axis(), color=color, shape=shape),
        alt.Chart(alt.Data(values=[{"share": 1}])).mark_rule(color=LIMIT, strokeWidth=2, strokeDash=[6, 4], aria=False)
        .encode(x="share:Q"),
    ).properties(width=WIDTH - 140, height=30 * len(shares)),
        "Measured speed over bound, a row for each machine: "
        + "; ".join(f"{label} {', '.join(f'{name} {percent(share)}' for name, share in of.items())}"
                    for label, of in shares.items()) + ". A dashed rule marks the bound.")


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
    return finish(alt.layer(
        alt.Chart(alt.Data(values=series_rows(milliseconds, "ms", layers=layers))).mark_line(
            strokeWidth=2.5, aria=False).encode(x=x, y=y, color=color),
        alt.Chart(alt.Data(values=pair_rows(measured, "layers", "ms", 1e3))).mark_point(
            filled=True, size=110, opacity=1, aria=False).encode(x=x, y=y, color=color),
    ).properties(width=WIDTH, height=HEIGHT),
        f"Milliseconds per token against the layers whose experts are outside the card. Lines: {spans(milliseconds)}. "
        f"Dots: {spans({name: of for name, (_, of) in measured.items()}, scale=1e3)}.")
