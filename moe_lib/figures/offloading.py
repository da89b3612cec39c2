"""Experts outside the card: a token's time copied and computed, caches, batches, and what others measured of it."""

import functools
import itertools

import numpy as np

from ..caching import reuse_hit_rate
from ..hardware import DEVICES, LINKS
from ..offload import copied_step_time, expert_slots, host_time, hosted_step_time
from ..records import shipped
from ._choices import Models, numbered
from ._face import Choice, Refusal, TwoFaces
from ._style import (
    DASHED, DOTTED, HEIGHT, LIMIT, MEASURED, MOE, MUTED, SOLID, WIDTH, alt, around, as_much, batch_axis, beside,
    counted, digits, dots, drawn, finish, line, linear_axis, lines, list_row, log_axis, named, percent, percents, rows,
    rule, spans, words,
)

STATIC = ("mixtral-8x7b", "deepseek-v3", "qwen3-235b-a22b", "qwen3-30b-a3b", "gpt-oss-120b", "olmoe")
CARDS = ("rtx-4090", "rtx-5090", "h200", "gb200")
OVER = {"PCIe 3": "pcie3-x16", "PCIe 4": "pcie4-x16", "PCIe 5": "pcie5-x16", "NVLink-C2C": "nvlink-c2c"}
HOSTS = {"desktop, 2 channels of DDR5-5600": "desktop-ddr5", "server, 12 channels of DDR5-4800": "server-ddr5"}
BITS = (16, 8, 4)
REUSES = {"none": 0, "0.15": 0.15, "0.45": 0.45}  # about Mixtral's middle layer and Qwen3-30B-A3B's
CONTEXT = 4096  # one sequence
KEY = "model + '|' + device + '|' + {} + '|' + bits + '|' + reuse"


def _way(which, title, waits):
    """A token's time against the experts held: what the card reads, and above it what it waits for."""
    found = named("curve", f"datum.key == {KEY.format(which)}")
    curve, held = found.transform_flatten(["slots", "card", "ms"]), found.transform_filter("isValid(datum.held)")
    x = alt.X("slots:Q", title="experts of a layer that the card holds", scale=alt.Scale(nice=False),
              axis=alt.Axis(format="d", tickMinStep=1, tickCount=8))
    y, card = (alt.Y(f"{of}:Q", title="milliseconds of a token", axis=alt.Axis(tickCount=5, format=",~r"),
                     scale=alt.Scale(nice=False)) for of in ("ms", "card"))
    at, ends = {"x": alt.X("held:Q"), "y": alt.Y("here:Q")}, curve.transform_filter("datum.slots == 0")
    return alt.layer(
        curve.mark_area(color=MUTED, opacity=0.35).encode(x=x, y=y, y2="card:Q"),
        curve.mark_area(color=MOE, opacity=0.75).encode(x=x, y=card),
        line(curve, x, y, MUTED, name=f"{title}: a token"), line(curve, x, card, name=f"{title}: read by the card"),
        rule(held.transform_calculate(zero="0"), MOE, DOTTED, 2, x=at["x"], y=alt.Y("zero:Q"), y2="top:Q"),
        words(ends, waits[0], **waits[1], x=x, y=alt.Y(f"{waits[2]}:Q")),
        words(curve.transform_filter("datum.share < 0.6 && datum.slots == datum.most"), "reads", MOE, "right", -2, -9,
              bold=True, x=x, y=card),
        dots(held, at["x"], at["y"], size=150, name=f"{title}: what the card holds"),
        words(held, "says", **beside("share", 0.75), dy=-26, bold=True, size=17, **at),
    ).properties(title={"text": title, "fontSize": 14, "fontWeight": "bold", "offset": 6}, width=290, height=220)


def offloading(config=None):
    """Time of a token whose missing experts are copied over a link, beside one whose host computes them.

    Routing is uniform, the cache is LRU and asked for one expert after the other, one sequence of 4,096 tokens, nothing
    overlaps. Times are bounds for that hit rate: a better cache goes lower. Slots serve from k up only: a token's own
    experts take that many. Data set: ``curve`` (key, the lists slots, card and ms, and where the card's slots are).

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, added to the models and chosen.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`).

    >>> control = offloading()
    >>> print(control.say("finding", **control.start))
    A token takes 253 ms if missing experts are copied, 22.1 ms if the host computes them
    """
    models = Models(config)
    flops = next(of.data["bf16_flops_per_s"] for of in shipped("offloading") if of.data["key"] == "amx")

    def held(model, device, bits):
        slots = np.floor(expert_slots(models[model], DEVICES[device].usable_bytes, weight_bytes=bits / 8,
                                      context=CONTEXT, sequences=1))
        if np.isnan(slots):
            raise Refusal("cannot be: what is not an expert does not fit on the card either")
        return int(slots)

    @functools.cache
    def hit_rate(model, reuse, slots):
        of = models[model]
        return float(slots >= of.top_k and reuse_hit_rate([1] * of.num_experts, slots, reuse, top_k=of.top_k))

    def seconds(model, device, way, bits, reuse, slots):
        """Of a token, and of it what the card reads."""
        if way == "nvlink-c2c" != DEVICES[device].host_link:
            raise Refusal("cannot be: this card has no NVLink-C2C")
        of, card, step = models[model], DEVICES[device], {"weight_bytes": bits / 8, "context": CONTEXT}
        hits = np.array([hit_rate(model, reuse, n) for n in np.atleast_1d(slots).tolist()])
        if way in LINKS:
            each = copied_step_time(of, card, LINKS[way], **step, hit_rate=hits)
            return each, 0 * each + copied_step_time(of, card, LINKS[way], **step, hit_rate=1)
        each = hosted_step_time(of, card, DEVICES[way], flops, **step, hit_rate=hits)
        return each, each - host_time(of, DEVICES[way].bandwidth_bytes_per_s, flops, weight_bytes=bits / 8,
                                      hit_rate=hits)

    def curve(model, device, way, bits, reuse):
        of, chosen = models[model], (model, device, way, bits, reuse)
        E, k = int(of.num_experts), int(of.top_k)
        slots = np.unique([0, k - 1, *np.rint(np.linspace(k, E, min(E - k + 1, 4)))])
        each, card = seconds(*chosen, slots)
        found = {"key": "|".join(map(str, chosen)), "waits": "it waits for the " + ("link" if way in LINKS else "host"),
                 "reads": "the card reads", "most": E, "share": 0}
        try:
            n = held(model, device, bits)
        except Refusal:
            return list_row(found, slots=slots.astype(int), card=1e3 * card, ms=1e3 * each)
        (here,), top = seconds(*chosen, n)[0], seconds(model, device, way, max(BITS), reuse, 0)[0].max()
        (mark,) = rows(held=n, share=n / E, here=1e3 * here, says=milliseconds(here), top=1100 * top)
        return list_row(found | mark, slots=slots.astype(int), card=1e3 * card, ms=1e3 * each)

    def tables(selection):
        every = itertools.product(*(selection[name] for name in ("model", "device")),
                                  [*selection["link"], *selection["host"]], selection["bits"], selection["reuse"])
        return {"curve": [curve(*chosen) for chosen in every
                          if chosen[2] != "nvlink-c2c" or DEVICES[chosen[1]].host_link == chosen[2]]}

    def milliseconds(each):
        return f"{digits(1e3 * each)} ms"

    def now(model, device, way, bits, reuse):
        return [float(of[0]) for of in seconds(model, device, way, bits, reuse, held(model, device, bits))]

    def all_held(model, device, bits):
        return held(model, device, bits) == models[model].num_experts

    says = {
        "finding": lambda model, device, bits: "The card holds every expert, and a token takes {copied}" if all_held(
            model, device, bits) else
            "A token takes {copied} if missing experts are copied, {computed} if the host computes them",
        "sentence": lambda model, device, bits: "Nothing has to be copied or computed elsewhere." if all_held(
            model, device, bits) else "The card holds {Slots a layer} experts and finds {Hit rate, modelled} of the "
            "choices there. While the others are copied, it waits {waiting} of the time.",
        "copied": lambda model, device, link, bits, reuse: milliseconds(now(model, device, link, bits, reuse)[0]),
        "computed": lambda model, device, host, bits, reuse: milliseconds(now(model, device, host, bits, reuse)[0]),
        "waiting": lambda model, device, link, bits, reuse: percent(
            1 - np.divide(*reversed(now(model, device, link, bits, reuse)))),
    }
    readouts = {
        "Slots a layer": lambda model, device, bits:
            f"{held(model, device, bits)} of {models[model].num_experts:,.0f}",
        "Hit rate, modelled": lambda model, device, bits, reuse:
            percent(hit_rate(model, reuse, held(model, device, bits))),
        "Copied": lambda model, device, link, bits, reuse:
            f"{digits(1 / now(model, device, link, bits, reuse)[0])} tokens/s",
        "Computed by the host": lambda model, device, host, bits, reuse:
            f"{digits(1 / now(model, device, host, bits, reuse)[0])} tokens/s",
    }
    choices = [models.choice(STATIC, "mixtral-8x7b"),
               Choice("device", "Card", {DEVICES[slug].name: slug for slug in CARDS}, "rtx-4090"),
               Choice("link", "Copied over", OVER, "pcie4-x16"), Choice("host", "Computed by", HOSTS, "server-ddr5"),
               Choice("bits", "Bits a weight", numbered(BITS), 8, "slider", more=numbered((6, 5, 4.5, 3.5, 3, 2.6))),
               Choice("reuse", "Reuse by the next token", REUSES, 0, "radio")]
    inside = {"color": "currentColor", "dx": 6, "dy": -9}
    chart = alt.hconcat(_way("link", "Copied over the link", ("waits", inside, "card")),
                        _way("host", "Computed by the host", ("waits", inside, "ms")), spacing=24)
    return TwoFaces(choices, tables, finish(
        chart.resolve_scale(y="shared"), "offloading",
        "Milliseconds of a token against the experts of a layer that the card holds: blue, what the card reads; grey, "
        "what it waits for. The dot is what the chosen card holds. Both plots have the same scale.",
        source="Computed: bounds for an LRU cache and a uniform router, nothing overlaps, page 06."), says, readouts,
        models.add)


LOOKS = {"optimum": (LIMIT, SOLID), "most popular held": (MUTED, DASHED), "LRU": (MOE, SOLID),
         "Che's formula": (MOE, "circle"), "slots / experts": (MUTED, DOTTED), "LRU, modelled": (MOE, SOLID),
         "LRU, logged routing": (MEASURED, "circle"), "optimum, logged routing": (LIMIT, "diamond")}
QUARTER = 1 / 4  # of the experts held: where findings compare


def hit_rates(panels):
    """Hit rate against the share of a layer's experts that a cache holds, in views side by side.

    Parameters
    ----------
    panels : dict of str to dict
        Title to {name: (shares, hit rates)} with names of `LOOKS`, an LRU and an optimum among them.
    """
    share = {"axis": alt.Axis(format=".0%", tickCount=5), "scale": alt.Scale(domain=[0, 1])}
    x, y = alt.X("share:Q", title="share of the experts held", **share), alt.Y("hit:Q", title="hit rate", **share)
    size, views = {"width": 290, "height": 250} if len(panels) > 1 else {"width": WIDTH, "height": HEIGHT}, []
    for title, panel in panels.items():
        layers, order = [], sorted(panel, key=lambda name: _at(*panel[name], QUARTER))
        for name, (held, hit) in panel.items():
            color, look = LOOKS[name]
            table = rows(share=np.asarray(held, float), hit=np.asarray(hit, float), series=name)
            layers.append(line(table, x, y, color, look) if isinstance(look, list) else
                          dots(table, x, y, color, 70, look, filled=color != MOE, strokeWidth=2))
        for n, name in enumerate(order):  # names in the empty corner, each with a line to its own
            there, level = _at(*reversed(panel[name]), 0.12 + 0.12 * n), 0.12 + 0.12 * n
            ends = rows(share=0.57, hit=level, to=there, hit_to=_at(*panel[name], there),
                        says=name.replace(", ", ",\n"))
            leader = alt.Chart(alt.Data(values=ends)).mark_rule(color=MUTED, strokeWidth=1)
            layers += [leader.encode(x=x, x2="to:Q", y=y, y2="hit_to:Q"),
                       words(ends, "says", LOOKS[name][0], dx=4, bold=True, size=12, x=x, y=y)]
        views.append(alt.layer(*layers).properties(**size, **({"title": title} if len(panels) > 1 else {})))
    return finish(alt.hconcat(*views, spacing=28) if len(views) > 1 else views[0],
                  "hit-rates" if len(views) > 1 else "logged-hits",
                  "Hit rate of a cache against the share of a layer's experts that it holds. Lines are simulated or "
                  "modelled, marks are Che's formula or caches on logged routing.",
                  finding=_hits_found([*panels.values()]),
                  source="Computed: caches simulated, and modelled by eq. 6.4, page 06. Router loads and logged "
                  "routing: measured by others, see Sources.",
                  said=" ".join(f"{title}: {spans({name: hit for name, (_, hit) in panel.items()}, '%', 100)}."
                                for title, panel in panels.items()))


def _at(where, values, at):
    return float(np.interp(at, np.asarray(where, float), np.asarray(values, float)))


def _hits_found(panels):
    """What LRU and the optimum hit with a quarter of the experts held, in every panel."""
    said = {start: [percent(_at(*next(of for name, of in reversed(panel.items()) if name.startswith(start)), QUARTER))
                    for panel in panels] for start in ("LRU", "optimum")}
    model = [f", where the model says {percent(_at(*panel['LRU, modelled'], QUARTER))}"
             for panel in panels if "LRU, modelled" in panel]
    return (f"With a quarter of the experts held, LRU hits {' and '.join(said['LRU'])}{''.join(model)}, the optimum "
            f"{' and '.join(said['optimum'])}")


def offloaded_batches(batch, speeds, mark, mark_says):
    """Tokens per second against batch, log-log, a line for each place where experts live.

    Parameters
    ----------
    batch : array_like [n]
    speeds : dict of str to array_like [n]
        Tokens/s by name, at most three, the first the one that the finding is about.
    mark, mark_says : float, str
        A batch at which a rule stands, and what it says.
    """
    x = batch_axis(domain=(1, 16384))
    y = log_axis("rate", "tokens per second, at most", around(list(speeds.values())))
    looks = dict(zip(speeds, [(MOE, SOLID), (MUTED, DASHED), (MUTED, DOTTED)], strict=False))
    first, (few, many) = next(iter(speeds)), (8, max(batch))
    gain = [_at(batch, speeds[first], at) / _at(batch, speeds[first], 1) for at in (few, many)]
    gains = [as_much("fast", ratio, lambda ratio: digits(float(f"{ratio:.2g}"))) for ratio in gain]
    at = [{"batch": mark, "says": f"{mark_says} from {counted(mark, 'token')}"}]
    return finish(alt.layer(
        rule(at, MUTED, SOLID, 1, x=x),
        words(at, "says", align="right", x=x, y=alt.value(HEIGHT - 12)),
        *lines(speeds, x, y, looks, at=batch),
    ).properties(width=WIDTH, height=HEIGHT), "offloaded-batches",
        "Tokens per second against the tokens in a step, both axes logarithmic, a line for each place where the "
        "experts are.",
        finding=f"{counted(few, 'token')} {first} are {gains[0]} as one, {many:,} are {gains[1]}",
        source="Computed: bounds without overlap, caches of keys and values left out, page 06.",
        said=f"Lines: {spans(speeds)}. A rule, {mark_says}, stands at {digits(mark)}.")


def over_bound(panels, unit="tokens/s"):
    """Speeds as bars inside the outlines of their bounds, so that what is faster is longer.

    Parameters
    ----------
    panels : dict of str to dict of str to dict of str to (float, float)
        By title, by heading (empty: none), by name: measured and bound.
    unit : str
    """
    views, shares, wide = [], [], (WIDTH - 60) // len(panels)
    for title, groups in panels.items():
        heads, bars = [], []
        for head, group in groups.items():
            heads += [{"row": len(heads) + len(bars), "says": head}] if head else []
            bars += [{"row": len(heads) + len(bars) + n, "series": name, "measured": got, "bound": most,
                      "end": max(got, most), "says": f"{digits(got)} of {digits(most)}"}
                     for n, (name, (got, most)) in enumerate(group.items())]
        shares.append([bar["measured"] / bar["bound"] for bar in bars])
        bars = rows(**{name: np.array([bar[name] for bar in bars]) for name in bars[0]})
        scale = alt.Scale(domain=[0, 1.4 * max(bar["end"] for bar in bars)], nice=False)
        x = alt.X("measured:Q", title=unit, scale=scale, axis=alt.Axis(tickCount=4, format="~s", grid=False))
        y = alt.Y("row:O", axis=None, scale=alt.Scale(domain=list(range(len(heads) + len(bars))), paddingInner=0.2))
        bound = alt.X("bound:Q", title=unit, scale=scale)
        said = [alt.Tooltip("series:N", title="Name"), alt.Tooltip("measured:Q", title=f"measured, {unit}"),
                alt.Tooltip("bound:Q", title=f"bound, {unit}")]
        views.append(alt.layer(
            drawn(bars).mark_bar(fill=LIMIT, fillOpacity=0.1, stroke=LIMIT).encode(x=bound, y=y, tooltip=said),
            drawn(bars).mark_bar(color=MEASURED).encode(x=x, y=y, tooltip=said),
            words(bars, "says", dx=6, size=12, x=alt.X("end:Q"), y=y),
            words(bars, "series", align="right", dx=-6, size=12, x=alt.value(0), y=y),
            words(heads, "says", align="right", dx=-6, dy=3, bold=True, x=alt.value(0), y=y),
        ).properties(width=wide, height=19 * (len(heads) + len(bars)),
                     title={"text": title, "fontSize": 14, "fontWeight": "bold"}))
    beaten, count = sum(share > 1 for each in shares for share in each), sum(map(len, shares))
    low, high = min(map(min, shares)), max(map(max, shares))
    return finish(alt.hconcat(*views, spacing=30) if len(views) > 1 else views[0], "over-bound",
                  "Bars: published speed. Outlines: its bound.", beside=70,
                  finding=(f"{beaten or 'None'} of {counted(count, 'published speed')} "
                           f"{'beat their bounds' if beaten > 1 else 'beats its bound'}: "
                           f"{'they reach' if count > 1 else 'it reaches'} {percents(low, high)} of "
                           f"{'them' if beaten > 1 else 'it'}"),
                  source="Measured by others, see Sources; bounds computed on this page.",
                  said="; ".join(f"{name} {digits(got)} of {digits(most)}" for groups in panels.values()
                                 for group in groups.values() for name, (got, most) in group.items()) + ".")


def layers_outside(layers, bounds, measured):
    """Milliseconds per token against the number of layers whose experts are outside the card.

    Parameters
    ----------
    layers : array_like [n]
    bounds : dict of str to array_like [n]
        Seconds by what is done with the experts, such as "copied" and "computed".
    measured : dict of str to (array_like, array_like)
        Layers and seconds, under the same names.
    """
    most = 1e3 * max(np.max(of) for of in [*bounds.values(), *(took for _, took in measured.values())])
    x = alt.X("layers:Q", title="layers whose experts are outside the card",
              axis=alt.Axis(values=list(layers), format="d"), scale=alt.Scale(domain=[0, max(layers)], nice=False))
    y, drawn = linear_axis("ms", "milliseconds per token", [0, 1.08 * most]), []
    last = {name: (1e3 * took[-1], 1e3 * _at(layers, bounds[name], at[-1])) for name, (at, took) in measured.items()}
    for (name, (at, took)), dash, filled in zip(measured.items(), (SOLID, DASHED), (True, False), strict=False):
        took = 1e3 * np.asarray(took)
        drawn += [*lines({f"{name}, at least": 1e3 * np.asarray(bounds[name])}, x, y,
                         {f"{name}, at least": (LIMIT, dash)}, at=layers),
                  dots(rows(layers=at, ms=took, series=f"{name}, measured"), x, y, MEASURED, 110, filled=filled),
                  words(rows(layers=at[-1], ms=took[-1], says=f"{name},\nmeasured"), "says", MEASURED, "right", -10,
                        -22, bold=True, x=x, y=y)]
    took = [f"{digits(ms)} ms {name}" for name, (ms, _) in last.items()]
    over = [f"{ms / least:.2f}" for ms, least in last.values()]
    return finish(alt.layer(*drawn).properties(width=WIDTH, height=HEIGHT), "layers-outside",
                  "Milliseconds of a token against the layers whose experts are in the host's memory. Dots are "
                  "measured, lines are bounds.",
                  finding=f"With {max(layers)} layers outside, a token takes {' and '.join(took)}: "
                  f"{' and '.join(over)} times the bounds",
                  source="Measured by others, see Sources; bounds computed on this page.",
                  said=spans(bounds, "ms", 1e3) + ".")
