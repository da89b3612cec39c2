"""Controls of page 01: sizes and caches of models."""

import itertools

import numpy as np

from .. import charts
from ..hardware import DEVICES, devices_needed
from ..routing import coverage
from ..steps import decode_step, part_bytes, parts_read, resident_bytes
from ..two_faces import Choice, TwoFaces
from .choices import PLATE, PRECISIONS, STATIC_MODELS, WEIGHT_BYTES, Models, amount, device_choice, numbered

BILL = {"routed experts": ("routed_experts",), "shared experts": ("shared_experts",), "attention": ("attention",),
        "embedding, head": ("embedding", "head"), "other": ("dense_ffn", "router", "norms", "other")}
BILL_DEVICES = ("h100", "h200", "b200", "mi300x", "rtx-4090")
MOST_RULES = 64  # devices drawn; the readout counts on


def _items(model, weight_bytes):
    """The weights, item by item, each starting where the last one ends, GB."""
    start, parts = 0, part_bytes(model, weight_bytes)
    read = parts_read(model, coverage(model.num_experts, model.top_k, 1), weight_bytes)
    for order, (item, of) in enumerate(BILL.items()):
        size = sum(parts[part] for part in of) / 1e9
        used = sum(read[part] for part in of) / 1e9
        series = item if item == "routed experts" else "always used"
        if size:
            yield {"order": order, "label": f"{item}: {amount(1e9 * size)}", "series": series,
                   "start": start, "end": start + size, "used": start + used}
        start += size


def _per_weight(model, weight_bytes):
    mean = resident_bytes(model, weight_bytes=weight_bytes) / model.total_params
    assumed = weight_bytes is None and "assumed" in model.released_precision
    return charts.digits(mean) + (", BF16 assumed" if assumed else "")


def _per_token(model):
    text = f"{'at most ' if model.kv_is_upper_bound else ''}{model.kv_bytes_per_token():,.0f} B"
    fixed = model.state_bytes_per_sequence / 1e6
    return f"{text}, and {charts.digits(fixed)} MB a sequence" if fixed else text


def memory_bill(config=None):
    """What must be held: parameters by part and caches, and how many devices hold them.

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
        items, devices = [], []
        for name, precision in itertools.product(selection["model"], selection["precision"]):
            model, weights = models[name], list(_items(models[name], weight_bytes[precision]))
            for item in weights:
                items += charts.rows(key=f"{name}|{precision}", **item)
            for sequences, context in itertools.product(selection["sequences"], selection["context"]):
                cache, start = model.kv_bytes_per_sequence(context) + model.state_bytes_per_sequence, weights[-1]["end"]
                read = model.kv_bytes_read(context) + model.state_bytes_per_sequence
                items += charts.rows(key=f"{name}|{precision}|{sequences}|{context}", series="cache", start=start,
                                     order=len(BILL), label=f"cache: {amount(sequences * cache)}",
                                     end=start + sequences * cache / 1e9, used=start + read / 1e9)
        for device in selection["device"]:
            usable, count = DEVICES[device].usable_bytes / 1e9, np.arange(1, MOST_RULES + 1)
            devices += charts.rows(device=device, count=count, begins=(count - 1) * usable, ends=count * usable,
                                   most=MOST_RULES * usable)
        return {"bill": items, "devices": devices}

    def resident(model, precision, sequences, context):
        return resident_bytes(models[model], weight_bytes=weight_bytes[precision], sequences=sequences, context=context)

    readouts = {
        "Parameters": lambda model: charts.parameters(models[model].total_params),
        "Active": lambda model: charts.parameters(models[model].active_params),
        "Active, input embedding left out": lambda model: charts.parameters(models[model].active_params_read),
        "Resident": lambda model, precision, sequences, context: charts.gigabytes(
            resident(model, precision, sequences, context)),
        "Read by one token": lambda model, precision, context: charts.gigabytes(
            decode_step(models[model], 1, weight_bytes=weight_bytes[precision], context=context).bytes_read),
        "Cache per token": lambda model: _per_token(models[model]),
        "Bytes a weight": lambda model, precision: _per_weight(models[model], weight_bytes[precision]),
        "Devices needed": lambda model, precision, device, sequences, context: (
            f"{devices_needed(resident(model, precision, sequences, context), DEVICES[device]):,}"),
    }
    choices = [models.choice([slug for slug in STATIC_MODELS if slug not in PLATE], "deepseek-v3"),
               Choice("precision", "Weights", {"as released": "released", **PRECISIONS}, "released", "radio"),
               device_choice(BILL_DEVICES),
               Choice("sequences", "Sequences", numbered((1, 8, 32, 64, 256, 1024)), 64, "batch"),
               Choice("context", "Tokens of context in each", numbered((1024, 4096, 8192, 32768, 131072)), 8192,
                      "batch")]
    return TwoFaces(choices, tables, charts.memory_bill(), readouts, models.add)
