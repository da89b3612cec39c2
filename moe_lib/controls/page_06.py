"""Controls of page 06: experts outside the card."""

import functools
import itertools

import numpy as np

from .. import charts
from ..caching import reuse_hit_rate
from ..hardware import DEVICES, LINKS
from ..offload import copied_step_time, expert_slots, hosted_step_time
from ..records import shipped
from ..two_faces import Choice, TwoFaces
from .choices import PRECISIONS, WEIGHT_BYTES, Models

OFFLOADED_MODELS = ("mixtral-8x7b", "deepseek-v3", "qwen3-235b-a22b", "qwen3-30b-a3b", "gpt-oss-120b", "olmoe")
OFFLOADED_TO = ("rtx-4090", "rtx-5090", "h200", "gb200")
WAYS = {"copied, PCIe 3": "pcie3-x16", "copied, PCIe 4": "pcie4-x16", "copied, PCIe 5": "pcie5-x16",
        "copied, NVLink-C2C": "nvlink-c2c", "computed, desktop host": "desktop-ddr5",
        "computed, server host": "server-ddr5"}
REUSES = {"none": 0, "0.15": 0.15, "0.45": 0.45}  # about Mixtral's middle layer and Qwen3-30B-A3B's
OFFLOADED_CONTEXT = 4096  # one sequence
OFFLOADED_POINTS = 17
OFFLOADED_KEY = ("model", "device", "way", "precision", "reuse")


def _possible(device, way):
    return way != "nvlink-c2c" or device.host_link == "nvlink-c2c"


def _host_flops_per_s():
    """Of one Xeon socket with AMX, as measured by others."""
    return next(of.data["bf16_flops_per_s"] for of in shipped("offloading") if of.data["key"] == "amx")


def _seconds(model, device, way, weight_bytes, hit_rate, host_flops_per_s):
    """Seconds of a token whose missing experts are copied over a link, or computed by a host."""
    setting = {"weight_bytes": weight_bytes, "context": OFFLOADED_CONTEXT, "hit_rate": hit_rate}
    if way in LINKS:
        return copied_step_time(model, device, LINKS[way], **setting)
    return hosted_step_time(model, device, DEVICES[way], host_flops_per_s, **setting)


def offloading(config=None):
    """Time of a token whose experts live outside the card, against the share of them that the card holds.

    Routing is uniform, the cache is LRU and asked for one expert after the other, one sequence of 4,096 tokens, nothing
    overlaps. Times are bounds for that hit rate: a better cache goes lower. A desktop has 2 channels of
    DDR5-5600, a server 12 of DDR5-4800. Slots serve from k up only: a token's own experts take that many.

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

    >>> setting = {"model": "mixtral-8x7b", "device": "rtx-4090", "way": "pcie4-x16", "precision": "fp8", "reuse": 0}
    >>> said = offloading().readout(**setting)
    >>> print(said["Slots a layer"], "|", said["Hit rate, modelled"], "|", said["A token, no overlap"])
    3 of 8 | 33 % | 253 ms, 3.94 tokens/s
    """
    models, host_flops_per_s = Models(config), _host_flops_per_s()

    def card(model, device, precision):
        """Whole slots of a layer on the card; nan where not even the rest fits."""
        return np.floor(expert_slots(models[model], DEVICES[device].usable_bytes, weight_bytes=WEIGHT_BYTES[precision],
                                     context=OFFLOADED_CONTEXT, sequences=1))

    @functools.cache
    def hit_rate(model, reuse, slots):
        of = models[model]
        serves = slots >= of.top_k
        return float(serves and reuse_hit_rate([1] * of.num_experts, slots, reuse, top_k=of.top_k))

    def hits(model, reuse, slots):
        return np.array([hit_rate(model, reuse, n) for n in np.atleast_1d(slots).tolist()])

    def seconds(model, device, way, precision, reuse, slots):
        return _seconds(models[model], DEVICES[device], way, WEIGHT_BYTES[precision], hits(model, reuse, slots),
                        host_flops_per_s)

    def tables(selection):
        curve, cards = [], []
        ways = dict.fromkeys([*selection["way"], "server-ddr5"])
        for chosen in itertools.product(*({**selection, "way": ways}[name] for name in OFFLOADED_KEY)):
            model, device, way, precision, reuse = chosen
            if not _possible(DEVICES[device], way):
                continue
            of, held = models[model], card(model, device, precision)
            steps = np.rint(np.linspace(of.top_k, of.num_experts, OFFLOADED_POINTS - 1))
            slots, key = np.unique([0, of.top_k - 1, *steps]), "|".join(map(str, chosen))
            curve.append(charts.list_row({"key": key}, share=slots / of.num_experts, ms=1e3 * seconds(*chosen, slots)))
            if held >= 0 and way in selection["way"]:
                (each,) = seconds(*chosen, held)
                cards += charts.rows(key=key, share=held / of.num_experts, ms=1e3 * each, text=milliseconds(each))
        return {"curve": curve, "card": cards}

    def told(say):
        """Say it for whole slots held, or why nothing can be said."""
        def checked(model, device, way, precision, reuse):
            if not _possible(DEVICES[device], way):
                return "cannot be: this card has no NVLink-C2C"
            held = card(model, device, precision)
            return say(model, device, way, precision, reuse, held) if held >= 0 else "cannot be: the rest does not fit"

        return checked

    def slots(model, device, precision):
        held = card(model, device, precision)
        return f"{held:.0f} of {models[model].num_experts:,.0f}" if held >= 0 else "cannot be: the rest does not fit"

    def hit(model, device, precision, reuse):
        held = card(model, device, precision)
        return charts.percent(hits(model, reuse, held)[0]) if held >= 0 else "none"

    def milliseconds(each):
        return f"{charts.digits(1e3 * each)} ms"

    def token(*chosen):
        (each,) = seconds(*chosen)
        return f"{milliseconds(each)}, {charts.digits(1 / each)} tokens/s"

    def on_host(model, device, precision, reuse):
        return told(token)(model, device, "server-ddr5", precision, reuse)

    readouts = {"Slots a layer": slots, "Hit rate, modelled": hit, "A token, no overlap": told(token),
                "If a server's host computes": on_host}
    choices = [models.choice(OFFLOADED_MODELS, "mixtral-8x7b"),
               Choice("device", "Card", {DEVICES[slug].name: slug for slug in OFFLOADED_TO}, "rtx-4090"),
               Choice("way", "Missing experts", WAYS, "pcie4-x16"),
               Choice("precision", "Weights", PRECISIONS, "fp8", "radio"),
               Choice("reuse", "Reuse by the next token", REUSES, 0, "radio")]
    return TwoFaces(choices, tables, charts.offloading(), readouts, models.add)
