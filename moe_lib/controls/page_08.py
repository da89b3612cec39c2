"""Controls of page 08: uneven experts."""

import functools
import inspect
import itertools

import numpy as np

from .. import charts
from ..balance import balance as balance_experts
from ..balance import max_over_mean, rank_terms, rank_times, rank_work
from ..hardware import DEVICES
from ..models import CATALOG, from_config
from ..offload import expert_bytes
from ..routing import zipf_inclusion
from ..two_faces import HALF_OCTAVES, Choice, TwoFaces
from .choices import SKEWS, amount, numbered

REDUNDANT = (0, 1 / 8, 1 / 4, 1 / 2)  # redundant experts over those of the model
BALANCE_GPUS, BALANCE_BATCHES = (8, 16, 32), [b for b in HALF_OCTAVES if b >= 8]
BALANCE_SKEWS = {f"1/rank^{exponent}": exponent for exponent in (0.25, 0.75)}  # more of them, live


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
                    time += charts.rows(series=series, skew=skew, gpus=gpus, **key, batch=batches, us=np.array(
                        [1e6 * slowest(skew, gpus, slots, batch) for batch in batches]))
                    if key:
                        after += charts.rows(**sorted_loads(skew, gpus, slots), **key)
                    elif not slots and held(skew, gpus, slots) is not None:
                        before += charts.rows(**sorted_loads(skew, gpus, slots))
        return {"before": before, "after": after, "time": time}

    def possible(say):
        @functools.wraps(say)
        def checked(*args, **named):
            chosen = inspect.signature(say).bind(*args, **named).arguments
            for count, what in ((E, "experts"), (chosen["slots"], "slots")):
                if count < E or count % chosen["gpus"]:
                    return f"cannot be: {count:,} {what} on {chosen['gpus']:,} GPUs"
            return say(*args, **named)

        return checked

    def fullest(skew, gpus, slots):
        return f"{evenness(skew, gpus, 0):.2f} → {evenness(skew, gpus, slots):.2f}"

    def seconds(skew, gpus, slots, batch):
        first, last = (1e6 * slowest(skew, gpus, which, batch) for which in (0, slots))
        terms = rank_terms(model, work(skew, gpus, slots, batch), device, "fp8", weight_bytes=1)
        at = np.argmax(np.maximum(*terms))
        binds = "reading" if terms.reading[at] > terms.computing[at] else "computing"
        return f"{charts.digits(first)} → {charts.digits(last)} µs ({binds})"

    def against_none(skew, gpus, slots, batch):
        ratio = slowest(skew, gpus, slots, batch) / slowest(skew, gpus, E, batch)
        return f"{ratio:.2f} times"

    def taken(gpus, slots):
        extra, a_token = (slots - E) / gpus * model.num_moe_layers * expert_bytes(model, 1), model.kv_bytes_per_token()
        cache = f", or {charts.counted(extra / a_token, 'token')} of cache" if extra and a_token else ""
        return f"{amount(extra)} a GPU{cache}"

    readouts = {
        "Fullest GPU over mean": possible(fullest),
        "Slowest GPU": possible(seconds),
        "Time over none redundant": possible(against_none),
        "Redundant experts take": possible(taken),
    }
    choices = [Choice("skew", "Popularity", SKEWS, 1, "radio", more=BALANCE_SKEWS),
               Choice("slots", "Slots in all", numbered(static), static[1],
                      more=numbered(n for n in (E + 8, E + 16, E + 48, 2 * E) if n not in static)),
               Choice("gpus", "GPUs", numbered(dealt), dealt[-1], more=numbered((4, 64, 128))),
               Choice("batch", "Tokens in a step, all GPUs", numbered(BALANCE_BATCHES), 16384, "batch")]
    return TwoFaces(choices, tables, charts.balance(), readouts)
