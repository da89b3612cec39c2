"""What must be held: a bill in boxes as large as GPUs, caches by model and by context, and how sparse models are."""

import itertools

import numpy as np

from ..hardware import DEVICES, devices_needed
from ..routing import coverage
from ..steps import decode_step, part_bytes, parts_read, resident_bytes
from ._choices import PRECISIONS, STATIC_MODELS, WEIGHT_BYTES, Models, amount, device_choice, numbered
from ._face import Choice, TwoFaces
from ._style import (
    ALWAYS, CACHE, DENSE, HEIGHT, LIMIT, MEASURED, MOE, MUTED, SOLID, WIDTH, alt, around, counted, digits, dots, drawn,
    finish, gigabytes, lines, log_axis, named, parameters, percent, phone, rows, rows_axis, rule, spans, times, words,
)

BILL = {"shared experts": ("shared_experts",), "attention": ("attention",), "embedding, head": ("embedding", "head"),
        "other": ("dense_ffn", "router", "norms", "other"), "routed experts": ("routed_experts",)}
BILL_DEVICES = ("h100", "h200", "b200", "mi300x", "rtx-4090")
FILLS = {"always used": ALWAYS, "routed experts": MOE, "cache": CACHE}
MOST_BOXES = 40  # devices drawn; the readout counts on


def _items(model, weight_bytes):
    """The weights, item by item, each starting where the last one ends, GB."""
    start, parts = 0, part_bytes(model, weight_bytes)
    read = parts_read(model, coverage(model.num_experts, model.top_k, 1), weight_bytes)
    for item, of in BILL.items():
        size = sum(parts[part] for part in of) / 1e9
        used = sum(read[part] for part in of) / 1e9
        if size:
            yield {"label": f"{item}: {amount(1e9 * size)}", "start": start, "end": start + size,
                   "series": item if item == "routed experts" else "always used", "used": start + used}
        start += size


def _per_weight(model, weight_bytes):
    mean = resident_bytes(model, weight_bytes=weight_bytes) / model.total_params
    assumed = weight_bytes is None and "assumed" in model.released_precision
    return digits(mean) + (", BF16 assumed" if assumed else "")


def _per_token(model):
    text = f"{'at most ' if model.kv_is_upper_bound else ''}{model.kv_bytes_per_token():,.0f} B"
    fixed = model.state_bytes_per_sequence / 1e6
    return f"{text}, and {digits(fixed)} MB a sequence" if fixed else text


def _boxes():
    """Boxes as wide as a device holds, filled from the left. Data sets: see `memory_bill`.

    The axis ends where the last device needed ends; where all rows do not suffice, the last alone is drawn.
    """
    weights, whole = "model + '|' + precision", "model + '|' + precision + '|' + sequences + '|' + context"
    bill = named("bill", f"(datum.key == {weights} || datum.key == {whole})")
    label = named("label", f"datum.key == {weights}")
    needed = named("devices", "datum.device == device").transform_calculate(key=whole).transform_lookup(
        "key", alt.LookupData(alt.NamedData("bill"), "key", ["end"])).transform_filter(
        "datum.begins < datum.end && (datum.end <= datum.most || datum.ends == datum.most)")
    x = alt.X("start:Q", title="resident, GB", scale=alt.Scale(nice=False), axis=alt.Axis(format=",~r", tickCount=5))
    box = {"x": alt.X("begins:Q"), "x2": "ends:Q", "y": alt.value(54), "y2": alt.value(154)}
    last = needed.transform_filter("datum.ends >= datum.end || datum.ends == datum.most").transform_calculate(
        text="datum.count + (datum.count > 1 ? ' hold ' : ' holds ') + format(datum.ends, ',.0f') + ' GB'")
    fill = alt.Color("series:N", legend=None, scale=alt.Scale(domain=list(FILLS), range=list(FILLS.values())))
    cache = bill.transform_filter("datum.series == 'cache'").transform_calculate(
        says="replace(datum.label, 'cache:', 'caches')")
    said = {name: cache if name == "cache" else label.transform_filter(f"datum.series == {name!r}") for name in FILLS}
    texts = [words(said[name], "says", color, dx=0, bold=True, x=alt.value(phone(0, 205 * n)),
                   y=alt.value(phone(4 + 16 * n, 18)))
             for n, (name, color) in enumerate(FILLS.items())]
    return finish(alt.layer(
        needed.mark_rect(color=MUTED, opacity=0.16).encode(**box),
        bill.mark_rect(opacity=1).encode(x=x, x2="end:Q", y=alt.value(62), y2=alt.value(146), color=fill),
        bill.mark_rect(color="currentColor").encode(x=x, x2="used:Q", y=alt.value(150), y2=alt.value(154)),
        needed.mark_rect(filled=False, stroke="currentColor", strokeWidth=1.6, cornerRadius=6).encode(**box),
        words(last, "text", align={"expr": "datum.ends < datum.end ? 'left' : 'right'"}, dx=0, bold=True,
              x=alt.X("ends:Q"), y=alt.value(172)), *texts,
    ).properties(width=WIDTH, height=184), "memory_bill",
        "Each box is what one device can hold, filled from the left with all that must be resident, to scale. The thin "
        "line below shows what one token reads of it.",
        source="Computed from released configurations, page 01; memory as drivers show it, a tenth kept free.")


def memory_bill(config=None):
    """What must be held: parameters by part and caches, and how many devices hold them.

    Data sets: ``bill`` (key, label, series, start, end, used in GB; the key names model and precision, for a cache also
    sequences and context), ``label`` (key, series, says: of weights), ``devices`` (device, count, begins, ends, most in
    GB).

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

    >>> setting = {"precision": "released", "device": "h200", "sequences": 64, "context": 8192}
    >>> bill = memory_bill().readout(model="deepseek-v3", **setting)
    >>> print(bill["Resident"], "|", bill["Devices needed"], "|", bill["Read by one token"])
    710 GB | 6 | 38.2 GB
    """
    models, weight_bytes = Models(config), {"released": None, **WEIGHT_BYTES}

    def tables(selection):
        items, label, devices = [], [], []
        for name, precision in itertools.product(selection["model"], selection["precision"]):
            model, weights = models[name], list(_items(models[name], weight_bytes[precision]))
            key = f"{name}|{precision}"
            for item in weights:
                items += rows(key=key, **item)
            for fill in ("always used", "routed experts"):
                held = sum(item["end"] - item["start"] for item in weights if item["series"] == fill)
                label += rows(key=key, series=fill, says=f"{fill} {amount(1e9 * held)}")
            for sequences, context in itertools.product(selection["sequences"], selection["context"]):
                cache, start = model.kv_bytes_per_sequence(context) + model.state_bytes_per_sequence, weights[-1]["end"]
                read = model.kv_bytes_read(context) + model.state_bytes_per_sequence
                items += rows(key=f"{key}|{sequences}|{context}", series="cache", start=start,
                              label=f"cache: {amount(sequences * cache)}",
                              end=start + sequences * cache / 1e9, used=start + read / 1e9)
        for device in selection["device"]:
            usable, count = DEVICES[device].usable_bytes / 1e9, np.arange(1, MOST_BOXES + 1)
            devices += rows(device=device, count=count, begins=(count - 1) * usable, ends=count * usable,
                            most=MOST_BOXES * usable)
        return {"bill": items, "label": label, "devices": devices}

    def resident(model, precision, sequences, context):
        return resident_bytes(models[model], weight_bytes=weight_bytes[precision], sequences=sequences, context=context)

    def needed(model, precision, device, sequences, context):
        return int(devices_needed(resident(model, precision, sequences, context), DEVICES[device]))

    def share(model, precision):
        parts = part_bytes(models[model], weight_bytes[precision])
        return percent(parts["routed_experts"] / sum(parts.values()))

    says = {
        "finding": "{model} with {served} needs {Devices needed} {device}: {Resident} are held, one token reads "
        "{Read by one token}",
        "sentence": "Routed experts are {share} of the weights. Any token may ask for any of them, so they are held "
        "though few are read at a time.",
        "share": share, "served": lambda sequences: counted(sequences, "sequence"),
    }
    readouts = {
        "Parameters": lambda model: parameters(models[model].total_params),
        "Active": lambda model: parameters(models[model].active_params),
        "Active, input embedding left out": lambda model: parameters(models[model].active_params_read),
        "Resident": lambda model, precision, sequences, context: gigabytes(
            resident(model, precision, sequences, context)),
        "Read by one token": lambda model, precision, context: gigabytes(
            decode_step(models[model], 1, weight_bytes=weight_bytes[precision], context=context).bytes_read),
        "Cache per token": lambda model: _per_token(models[model]),
        "Bytes a weight": lambda model, precision: _per_weight(models[model], weight_bytes[precision]),
        "Devices needed": lambda model, precision, device, sequences, context: (
            f"{needed(model, precision, device, sequences, context):,}"),
    }
    choices = [models.choice(STATIC_MODELS, "deepseek-v3"),
               Choice("precision", "Weights", {"as released": "released", **PRECISIONS}, "released", "radio"),
               device_choice(BILL_DEVICES),
               Choice("sequences", "Sequences", numbered((1, 8, 32, 64, 256, 1024)), 64, "batch"),
               Choice("context", "Tokens of context in each", numbered((1024, 4096, 8192, 32768, 131072)), 8192,
                      "batch")]
    return TwoFaces(choices, tables, _boxes(), says, readouts, models.add)


def _name(row):
    return row["label"].partition(",")[0]


def _split(table, study):
    """Rows of the model under study, and all others."""
    return [row for row in table if _name(row) == study], [row for row in table if _name(row) != study]


def cache_per_token(table, published, study="DeepSeek-V3"):
    """Bytes of cache that one token takes, a dot a model, on a log axis.

    Parameters
    ----------
    table : list of dict
        Rows with label, series (mixture of experts or dense model), size and beyond (bytes per token, beyond windows).
    published : list of dict
        Rows with label and size, as others published them.
    study : str
        The model that is blue.
    """
    least, most = (of(table, key=lambda row: row["size"]) for of in (min, max))
    low, high = around([[row[field] for row in table] for field in ("size", "beyond")])
    x = alt.X("size:Q", title="bytes of cache per token", axis=alt.Axis(format="~s", tickCount=6),
              scale=alt.Scale(type="log", domain=[low, 2.2 * high], nice=False))  # numbers are right of dots
    y, (own, others) = rows_axis(table), _split(table, study)
    dense = [row for row in others if row["series"] == "dense model"]
    mixtures = [row for row in others if row["series"] != "dense model"]
    layers = [layer for of, color in ((mixtures, MUTED), (dense, DENSE), (own, MOE)) for layer in (
        drawn(of).mark_rule(strokeWidth=3, color=color).encode(x=alt.X("beyond:Q"), x2="size:Q", y=y),
        dots(of, x, y, color),
        words(of, "size,,d", color, dx=15, opacity=phone(0, 1), size=12, x=x, y=y))]
    return finish(alt.layer(*layers, dots(published, x, y, MEASURED, 240, "diamond", filled=False)
                            ).properties(width=WIDTH, height=20 * len(table)), "cache_per_token",
        "A dot a model: blue the model under study, orange dense ones. A line leads to what another token takes once "
        "windows are full. A green diamond is a figure that others published.",
        f"For a token {_name(most)} keeps " + (
            "no more cache than any other" if most["size"] < 1.005 * least["size"] else
            f"{times(most['size'] / least['size'])} the cache of {_name(least)}"),
        "Computed from released configurations, 2 bytes a number, page 01; diamonds as published by others.",
        spans({counted(len(table), "model"): [row["size"] for row in table]}, "bytes") + ".")


def sparsity(table, study="DeepSeek-V3"):
    """Total over active parameters of each model, and the limit, E / k.

    Parameters
    ----------
    table : list of dict
        Rows with label, ratio (total / active), limit (E / k) and expert (parameters of one expert), in order.
    study : str
        The model that is blue.
    """
    top = max(table, key=lambda row: row["ratio"])
    domain = around([[row[field] for row in table] for field in ("ratio", "limit")], pad=0.06)
    scale = alt.Scale(type="log", domain=domain, nice=False)
    x = alt.X("ratio:Q", title="held over used, log scale", scale=scale,
              axis=alt.Axis(values=[2.0**n for n in range(-4, 12)], format="~g"))
    limit, own_and_others = alt.X("limit:Q", scale=scale), _split(table, study)
    return finish(alt.layer(
        rule(table, MUTED, SOLID, 1, x=x, x2="limit:Q", y=rows_axis()),
        drawn(table).mark_tick(thickness=3, size=14, color=LIMIT).encode(x=limit, y=rows_axis()),
        *(dots(of, x, rows_axis(), color, 100) for of, color in zip(own_and_others, (MOE, MUTED), strict=True)),
        words(table[:1], "ratio,.1f", dy=-11, dx=0, align="center", size=12, x=x, y=rows_axis()),
    ).properties(width=WIDTH, height=21 * len(table)), "sparsity",
        "A dot a model: total over active parameters, blue the model under study. A purple tick is its limit, experts "
        "over those chosen.",
        f"{_name(top)} holds " + (
            f"{times(top['ratio'])} what a token uses, of at most {digits(top['limit'])}" if top["ratio"] >= 1.005 else
            "no more than what a token uses"),
        "Computed from released configurations, page 01.",
        spans({"ratios": [row["ratio"] for row in table], "limits": [row["limit"] for row in table]}) + ".")


def cache_by_context(context, held, read):
    """Cache of a sequence divided by its tokens, held and read in a step, against the context; both axes log.

    Parameters
    ----------
    context : array_like [n]
    held, read : dict of str to array_like [n]
        Bytes per token of context by model, the first one under study.
    """
    says = "datum.value < 1e6 ? datum.value / 1024 + 'k' : '1M'"
    scale = alt.Scale(type="log", domain=[float(min(context)), float(max(context))], nice=False)
    x = alt.X("context:Q", title="tokens of context", scale=scale, axis=alt.Axis(
        values=[2**n for n in range(10, 21, 2)], labelExpr=says))
    y = log_axis("size", "bytes per token of context", around([*held.values(), *read.values()]))
    looks = {name: (MUTED if n else MOE, SOLID) for n, name in enumerate(held)}
    spared = {name: held[name][-1] / read[name][-1] for name in held}
    top = max(spared, key=spared.get)
    finding = (f"At {max(context):,.0f} tokens of context a step of {top} reads {digits(read[top][-1])} bytes of cache "
               f"for each, of {digits(held[top][-1])} held")
    views = [alt.layer(*lines(table, x, y, looks, context, wrap=13, size=12, narrow=0)).properties(
        title=title, width=190, height=HEIGHT) for title, table in (("held", held), ("read in a step", read))]
    return finish(alt.hconcat(*views, spacing=20), "cache_by_context",
        "Bytes of cache per token of context, against the context, a line a model; blue the model under study.",
        finding, "Computed from released configurations, page 01.",
        f"Held: {spans(held)}. Read in a step: {spans(read)}.", beside=100)
