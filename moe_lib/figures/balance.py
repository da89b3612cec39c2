"""Uneven experts: what the slowest of many GPUs waits for, and what copies of popular experts change."""

import functools
import itertools

import numpy as np

from ..balance import balance as balance_experts
from ..balance import max_over_mean, rank_terms, rank_times, rank_work
from ..hardware import DEVICES
from ..models import CATALOG, from_config
from ..offload import expert_bytes
from ..routing import zipf_inclusion
from ._choices import SKEWS, amount, numbered
from ._face import HALF_OCTAVES, Choice, Refusal, TwoFaces
from ._style import (
    DASHED, DOTTED, LIMIT, LIT, MEASURED, MOE, MUTED, NIGHT, SOLID, alt, around, as_much, batch_axis, counted, digits,
    dots, drawn, finish, line, linear_axis, lines, log_axis, named, rows, rule, same, spans, words,
)

REDUNDANT = (0, 1 / 8, 1 / 4, 1 / 2)  # redundant experts over those of the model
BALANCE_GPUS, BALANCE_BATCHES = (8, 16, 32), [b for b in HALF_OCTAVES if b >= 8]
BALANCE_SKEWS = {f"1/rank^{exponent}": exponent for exponent in (0.25, 0.75)}  # more of them, live
MOST_LOAD = 5  # over the mean, on the axis


def _before_and_after():
    """Loads of the GPUs, and time of the slowest. Data sets: ``before``, ``after``, ``time``, see `balance`."""
    here, own = same("skew", "gpus"), same("skew", "gpus", "slots")
    x = alt.X("at:O", title="GPUs, fullest first", axis=alt.Axis(labels=False, ticks=False))
    y = linear_axis("load", "load over mean", (0, MOST_LOAD))
    before, after, one = named("before", here), named("after", own), [{"load": 1, "says": "mean"}]
    bars = alt.layer(
        before.mark_bar(color=MUTED, opacity=0.45, clip=True).encode(x=x, y=y),
        after.mark_bar(color=MOE, width={"band": 0.5}).encode(x=x, y=y), rule(one, LIMIT, y=y),
        words([{"says": "as numbered"}], "says", MUTED, "right", -4, 12, True, x=alt.value("width"), y=alt.value(40)),
        words([{"says": "placed"}], "says", MOE, "right", -4, 12, True, x=alt.value("width"), y=alt.value(58)),
        words(one, "says", LIMIT, "right", -4, -9, x=alt.value("width"), y=y),
    ).properties(width=270, height=280, title="tokens of each GPU")
    axis, us = batch_axis(domain=(8, 65536)), log_axis("us", "microseconds", (8, 8000), format=",~f")
    looks = {"as numbered": (MUTED, DOTTED, 512, -14), "placed, none redundant": (MUTED, DASHED, 23, 24),
             "placed, these slots": (MOE, SOLID, 4096, 18)}
    layers = []
    for name, (color, dash, at, dy) in looks.items():
        of = named("time", own if "these" in name else here, f"datum.series == {name!r}")
        label = of.transform_filter(f"abs(datum.batch - {at}) < 3").transform_calculate(says=repr(name))
        layers += [line(of, axis, us, color, dash, name=name, clip=True),
                   words(label, "says", color, dx=4, dy=dy, bold=True, size=12, x=axis, y=us),
                   dots(of.transform_filter(same("batch")), axis, us, color, 100)]
    chosen = named("time", here, same("batch"))
    curves = alt.layer(rule(chosen, MUTED, SOLID, 1, x=axis), *layers).properties(
        width=300, height=280, title="slowest GPU, one layer's routed experts")
    return finish(alt.hconcat(bars, curves, spacing=24), "balance",
        "Left, a bar a GPU, its tokens over the mean: grey with experts as numbered, blue as placed. Right, the time "
        "of the slowest GPU against the batch.",
        source="Computed: bounds in FP8 on H200 for one layer of DeepSeek-V3's routed experts, page 08.")


def balance(config=None):
    """Copy and place the experts of a layer in FP8 on H200: loads before and after, the slowest GPU, and what it costs.

    Popularity falls with rank as chosen, and ranks are dealt to the experts at random, once. Before, experts lie on the
    GPUs in the order of their numbers. Bounds; no exchange between GPUs.

    Parameters
    ----------
    config : path, dict or JSON text, optional
        A reader's own config.json, instead of DeepSeek-V3.

    Returns
    -------
    TwoFaces

    Raises
    ------
    ValueError
        If config cannot be counted (`from_config`), or its experts do not divide over 8, 16 or 32 GPUs.

    >>> said = balance().readout(skew=1, slots=288, gpus=32, batch=64)
    >>> print(said["Fullest GPU over mean"], "|", said["Slowest GPU"], "|", said["Redundant experts take"])
    4.74 → 1.00 | 52.6 → 52.5 µs (reading) | 2.55 GB a GPU, or 36,349 tokens of cache
    """
    model, device = CATALOG["deepseek-v3"] if config is None else from_config(config), DEVICES["h200"]
    E, k = int(model.num_experts), int(model.top_k)
    dealt = [gpus for gpus in BALANCE_GPUS if E % gpus == 0]
    if not dealt:
        raise ValueError(f"num_experts must be a multiple of 8, got {E}")
    static = sorted({E + gpus * round(share * E / gpus) for share in REDUNDANT for gpus in dealt[-1:]})
    rank = np.random.default_rng(0).permutation(E)

    @functools.lru_cache(maxsize=512)
    def held(skew, gpus, slots):
        """Experts by slot, placed by load; in the order of their numbers for slots = 0; None where it cannot be."""
        if (slots or E) % gpus:
            return None
        return balance_experts(loads(skew), gpus, slots).expert_of_slot[0] if slots else np.arange(E)

    def loads(skew):
        return zipf_inclusion(E, k, skew)[rank]

    def work(skew, gpus, slots, batch):
        return rank_work(loads(skew), held(skew, gpus, slots), gpus, int(batch))

    @functools.lru_cache(maxsize=4096)  # lines and readouts ask for the same
    def slowest(*chosen):
        return float(rank_times(model, work(*chosen), device, "fp8", weight_bytes=1).max())

    def evenness(skew, gpus, slots):
        return float(max_over_mean(work(skew, gpus, slots, 1).tokens))

    def sorted_loads(skew, gpus, slots):
        tokens = work(skew, gpus, slots, 1).tokens
        return {"skew": skew, "gpus": gpus, "at": np.arange(1, gpus + 1), "load": np.sort(tokens / tokens.mean())[::-1]}

    def tables(selection):
        batches, before, after, time = np.union1d(BALANCE_BATCHES, selection["batch"]).astype(int), [], [], []
        for skew, gpus in itertools.product(selection["skew"], selection["gpus"]):
            named = {"as numbered": [0], "placed, none redundant": [E], "placed, these slots": selection["slots"]}
            for series, every in named.items():
                for slots in (slots for slots in every if held(skew, gpus, slots) is not None):
                    key = {"slots": slots} if series == "placed, these slots" else {}
                    time += rows(series=series, skew=skew, gpus=gpus, **key, batch=batches, us=np.array(
                        [1e6 * slowest(skew, gpus, slots, batch) for batch in batches]))
                    if key:
                        after += rows(**sorted_loads(skew, gpus, slots), **key)
                    elif not slots and held(skew, gpus, slots) is not None:
                        before += rows(**sorted_loads(skew, gpus, slots))
        return {"before": before, "after": after, "time": time}

    def possible(gpus, slots):
        for count, what in ((E, "experts"), (slots, "slots")):
            if count < E or count % gpus:
                raise Refusal(f"cannot be: {count:,} {what} on {gpus:,} GPUs")

    def fullest(skew, gpus, slots):
        possible(gpus, slots)
        return f"{evenness(skew, gpus, 0):.2f} → {evenness(skew, gpus, slots):.2f}"

    def seconds(skew, gpus, slots, batch):
        possible(gpus, slots)
        first, last = (1e6 * slowest(skew, gpus, which, batch) for which in (0, slots))
        terms = rank_terms(model, work(skew, gpus, slots, batch), device, "fp8", weight_bytes=1)
        at = np.argmax(np.maximum(*terms))
        binds = "reading" if terms.reading[at] > terms.computing[at] else "computing"
        return f"{digits(first)} → {digits(last)} µs ({binds})"

    def against_none(skew, gpus, slots, batch):
        possible(gpus, slots)
        ratio = slowest(skew, gpus, slots, batch) / slowest(skew, gpus, E, batch)
        return f"{ratio:.2f} times"

    def taken(gpus, slots):
        possible(gpus, slots)
        extra, a_token = (slots - E) / gpus * model.num_moe_layers * expert_bytes(model, 1), model.kv_bytes_per_token()
        cache = f", or {counted(extra / a_token, 'token')} of cache" if extra and a_token else ""
        return f"{amount(extra)} a GPU{cache}"

    readouts = {
        "Fullest GPU over mean": fullest,
        "Slowest GPU": seconds,
        "Time over none redundant": against_none,
        "Redundant experts take": taken,
    }
    def verdict(skew, gpus, slots, batch):
        possible(gpus, slots)
        ratio = slowest(skew, gpus, slots, batch) / slowest(skew, gpus, E, batch)
        return f"{as_much('long', ratio, '{:.2f}'.format)} as"

    def regime(skew, gpus, slots, batch):
        possible(gpus, slots)
        of = rank_terms(model, work(skew, gpus, slots, batch), device, "fp8", weight_bytes=1)
        at = np.argmax(np.maximum(*of))
        if of.reading[at] > of.computing[at]:
            return "Reading decides on the slowest GPU, so slots beyond these would cost."
        even = f"{evenness(skew, gpus, slots):.2f}" == "1.00"
        return "Computing decides on the slowest GPU, " + (
            "and loads are even, so further slots gain nothing." if even else "so more even loads would pay.")

    says = {
        "finding": "With {slots} slots {tokens} take {verdict} with one slot for each expert",
        "sentence": regime, "verdict": verdict, "tokens": lambda batch: counted(batch, "token"),
    }
    choices = [Choice("skew", "Popularity", SKEWS, 1, "radio", more=BALANCE_SKEWS),
               Choice("slots", "Slots in all", numbered(static), static[1],
                      more=numbered(n for n in (E + 8, E + 16, E + 48, 2 * E) if n not in static)),
               Choice("gpus", "GPUs", numbered(dealt), dealt[-1], more=numbered((4, 64, 128))),
               Choice("batch", "Tokens in a step, all GPUs", numbered(BALANCE_BATCHES), 16384, "batch",
                      drag="concat_1_x")]
    return TwoFaces(choices, tables, _before_and_after(), says, readouts)


def placed(panels, mean):
    """GPUs as stacks of what their slots carry, in views side by side, with a rule at the mean.

    Parameters
    ----------
    panels : dict of str to (array_like of int [P, n], array_like [P, n])
        Title to the expert of every slot, GPU after GPU, and the load that the slot carries.
    mean : float
        Mean load of a GPU.
    """
    top, views, fullest = 1.12 * max(np.sum(load, axis=1).max() for _, load in panels.values()), [], {}
    x = alt.X("gpu:O", title="GPU", axis=alt.Axis(labelAngle=0), scale=alt.Scale(paddingInner=0.15))
    y = linear_axis("start", "tokens", (0, top))
    for title, (expert, load) in panels.items():
        expert, load = np.asarray(expert), np.asarray(load, float)
        order = np.argsort(-load, axis=1, kind="stable")
        expert, load = (np.take_along_axis(of, order, axis=1) for of in (expert, load))
        end, copies = np.cumsum(load, axis=1), np.bincount(expert.ravel())[expert]
        letter = np.where(load > 0.08 * top, [[chr(65 + int(e) % 26) for e in row] for row in expert], "")
        gpu, fullest[title] = np.arange(len(expert))[:, None], end[:, -1].max() / mean
        pieces = rows(gpu=gpu, expert=expert, start=end - load, end=end, middle=end - load / 2, letter=letter,
                      copied=copies > 1)
        slots = ([row for row in pieces if row["copied"] == many] for many in (False, True))
        layers = []
        for of, (fill, ink) in zip(slots, [(MOE, "white"), (LIT[1], NIGHT)], strict=True):
            layers += [drawn(of).mark_bar(stroke="white", strokeWidth=1.5, color=fill).encode(x=x, y=y, y2="end:Q"),
                       words(of, "letter", ink, "center", 0, bold=True, x=x, y=alt.Y("middle:Q"))] if of else []
        sums = rows(gpu=np.arange(len(expert)), sum=end[:, -1], start=end[:, -1])
        views.append(alt.layer(
            *layers, rule([{"start": mean}], LIMIT, y=y),
            words(sums, "sum,,.0f", dx=0, dy=-9, align="center", bold=True, x=x, y=y),
        ).properties(title=title, width=185, height=240))
    (first, before), *others = fullest.items()
    after = "".join(f"; {title}, {over:.2f} times" for title, over in others[-1:])
    return finish(alt.hconcat(*views, spacing=18), "placed",
        "GPUs as stacks, a piece for each slot, lettered by expert; amber is one of several copies. Dashed, the mean.",
        f"{first[:1].upper()}{first[1:]}, the fullest GPU has {before:.2f} times the mean{after}",
        "Computed: a worked example, page 08.", f"The mean is {mean:,.0f}.")


def slowest(panels):
    """Time of the slowest GPU against the batch in views side by side, log-log: bounds, and points measured by others.

    Parameters
    ----------
    panels : dict of str to dict
        Title to {"lines": {name: (batch, seconds)}, "points": {name: (batch, seconds)}, "mark": a batch and what a rule
        there says}; points and mark optional. At most two lines and two kinds of points, named alike in every view.
    """
    every = [1e6 * np.asarray(of) for panel in panels.values() for kind in ("lines", "points")
             for _, of in panel.get(kind, {}).values()]
    foot = alt.value({"expr": "height - 12"})
    x, y, views, said = batch_axis(domain=(16, 65536)), log_axis(
        "us", "microseconds of the slowest GPU", around(every), format=",~f"), [], []
    for title, panel in panels.items():
        curves = {name: (at, 1e6 * np.asarray(of)) for name, (at, of) in panel["lines"].items()}
        looks = dict(zip(curves, [(MUTED, DASHED), (MOE, SOLID)], strict=False))
        layers = lines(curves, x, y, looks, names={name: name.partition(",")[0] for name in curves}, wrap=12, narrow=0,
                       height=290)
        for (name, (at, of)), (shape, dy) in zip(panel.get("points", {}).items(), [("circle", -12), ("diamond", 14)],
                                                 strict=False):
            us = 1e6 * np.asarray(of, float)
            layers += [dots(rows(batch=at, us=us, series=name), x, y, MEASURED, 90, shape),
                       words(rows(batch=at[-1], us=us[-1], says=name.replace(", ", ",\n")), "says", MEASURED, "right",
                             -10, dy, True, size=12, x=x, y=y)]
        if "mark" in panel:
            one = [{"batch": panel["mark"][0], "says": panel["mark"][1]}]
            layers += [rule(one, MUTED, DOTTED, x=x), words(one, "says", dx=5, x=x, y=foot)]
        few, many = (np.asarray(of, float) for _, of in list(curves.values())[:2])
        said.append(f"{as_much('long', many[-1] / few[-1], '{:.2f}'.format)} when {title}")
        views.append(alt.layer(*layers).properties(title=title, width=240, height=290))
    few, many = (name.partition(",")[0] for name in list(next(iter(panels.values()))["lines"])[:2])
    return finish(alt.hconcat(*views, spacing=24), "slowest",
        "Microseconds of the slowest GPU against the batch: lines are bounds, green marks measured.",
        f"In the largest step {many} take {', '.join(said)}, against {few}",
        "Lines computed, page 08. Measured by others (third party).", " ".join(
            f"{title}, {kind}: {spans({name: of for name, (_, of) in panel[kind].items()}, scale=1e6)}."
            for title, panel in panels.items() for kind in ("lines", "points") if kind in panel), beside=60)
