"""Controls of page 07: layouts and exchanges."""

import functools
import itertools
import textwrap

import numpy as np

from .. import charts
from ..exchange import link_time
from ..hardware import DEVICES, LINKS
from ..layouts import Layout, layout_sequences, problems, rank_resident_bytes, rank_step
from ..roofline import step_time
from ..two_faces import HALF_OCTAVES, Choice, TwoFaces
from .choices import FP8_BLOCK, Models, numbered

SPREAD_MODELS = ("deepseek-v3", "qwen3-235b-a22b", "mixtral-8x7b", "glm-4.5")
SPREAD_ON = {"H800": ("h800", "nvlink-h800"), "H200": ("h200", "nvlink4"), "B200": ("b200", "nvlink5")}
SPREAD_KEY = ("model", "setup", "gpus", "attention", "experts", "context")


def parallel(config=None):
    """One model in FP8 over 8 to 64 GPUs: what a GPU holds, sequences that fit, a step's time, and its exchanges.

    Nodes of eight GPUs, NVLink within, 400 Gbit/s of InfiniBand for each GPU between them. Each GPU that holds some of
    a token's experts gets one copy. Caches in BF16, FP8 weights in blocks of 128, usable bytes as
    `Device.usable_bytes`.

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

    >>> setting = {"model": "deepseek-v3", "setup": "H200", "gpus": 8, "experts": 1, "context": 8192}
    >>> for attention in 1, 8:
    ...     said = parallel().readout(attention=attention, **setting)
    ...     print(said["Layout"], "|", said["A GPU holds"], "|", said["Sequences that fit"])
    DP8+EP8 | 98.9 GB, 36.8 GB left | 504
    TP8+EP8 | 84.8 GB, 50.9 GB left | 88
    """
    models = Models(config)

    def layout(gpus, attention, experts):
        return Layout(attention_tp=attention, attention_dp=gpus // attention, expert_tp=experts,
                      expert_parallel=gpus // experts)

    def wrong(model, gpus, attention, experts):
        return problems(models[model], layout(gpus, attention, experts), weight_block=FP8_BLOCK)

    @functools.cache
    def most(model, setup, gpus, attention, experts, context):
        """Sequences that fit; 0 where the layout cannot be."""
        usable = DEVICES[SPREAD_ON[setup][0]].usable_bytes
        fit = layout_sequences(models[model], layout(gpus, attention, experts), usable, weight_bytes=1, context=context)
        return 0 if wrong(model, gpus, attention, experts) else int(min(fit, HALF_OCTAVES[-1]))

    def times(model, setup, gpus, attention, experts, context, batch):
        """Seconds of a step with its exchanges hidden and in the open, and of these."""
        device, within = SPREAD_ON[setup]
        spread = layout(gpus, attention, experts)
        step = rank_step(models[model], batch, spread, weight_bytes=1, context=context)
        link = link_time(models[model], batch, spread, LINKS[within], network=LINKS["ib-ndr"],
                         in_switch=None)
        alone, hidden = (step_time(step, DEVICES[device], DEVICES[device].arithmetic(1), link_time=each).lower
                         for each in (0, link))
        return hidden, alone + link, link

    @functools.cache
    def full(*setting):
        """The most sequences, and milliseconds of a step of them as `times`."""
        return most(*setting), *(1e3 * seconds for seconds in times(*setting, most(*setting)))

    def tables(selection):
        curve, end, barred = [], [], []
        split = {**selection, "attention": [8], "experts": [8]}  # drawn beside every choice
        chosen = itertools.chain(*(itertools.product(*(of[name] for name in SPREAD_KEY)) for of in (selection, split)))
        for setting in dict.fromkeys(chosen):
            fit, key = most(*setting), "|".join(map(str, setting))
            if fit:
                batch = np.union1d(2 ** np.arange(int(np.log2(fit)) + 1), fit)
                hidden, in_open, _ = times(*setting, batch)
                curve.append(charts.list_row({"key": key}, batch=batch, ms=1e3 * hidden, open=1e3 * in_open))
                each = 1e3 * hidden[-1]
                end += charts.rows(key=key, batch=fit, ms=each,
                                   text=f"{charts.counted(fit, 'sequence')}, {charts.digits(each)} ms")
            else:
                barred += charts.rows(key=key, text=textwrap.fill("; ".join(why_not(*setting)), 40))
        return {"curve": curve, "end": end, "barred": barred}

    def why_not(model, setup, gpus, attention, experts, context):
        """Why no sequence can be served."""
        return wrong(model, gpus, attention, experts) or ["not one sequence fits: the weights take up the memory"]

    def name(model, gpus, attention, experts):
        return "cannot be" if wrong(model, gpus, attention, experts) else str(layout(gpus, attention, experts))

    def held(model, setup, gpus, attention, experts):
        if wrong(model, gpus, attention, experts):
            return "cannot be"
        weights = rank_resident_bytes(models[model], layout(gpus, attention, experts), weight_bytes=1)
        left = DEVICES[SPREAD_ON[setup][0]].usable_bytes - weights
        return f"{charts.gigabytes(weights)}, {charts.gigabytes(abs(left))} {'left' if left >= 0 else 'too much'}"

    def told(say):
        def checked(model, setup, gpus, attention, experts, context):
            setting = model, setup, gpus, attention, experts, context
            return say(*full(*setting), gpus) if most(*setting) else "none"

        return checked

    readouts = {
        "Layout": name,
        "A GPU holds": held,
        "Sequences that fit": told(lambda fit, *_: f"{fit:,}"),
        "A step of all of them": told(lambda fit, hidden, in_open, link, gpus: (
            charts.between(hidden, in_open, "ms"))),
        "Exchanges in it": told(lambda fit, hidden, in_open, link, gpus: f"{charts.digits(link)} ms"),
        "Tokens/s of a GPU": told(lambda fit, hidden, in_open, link, gpus: (
            f"{charts.digits(1e3 * fit / hidden / gpus)} at most")),
    }
    choices = [models.choice(SPREAD_MODELS, "deepseek-v3"),
               Choice("setup", "FP8 on", {name: name for name in SPREAD_ON}, "H200", "radio"),
               Choice("gpus", "GPUs", numbered((8, 16, 32, 64)), 8, "radio"),
               Choice("attention", "Attention split over", numbered((1, 2, 4, 8)), 1, "radio"),
               Choice("experts", "Each expert split over", numbered((1, 8)), 1, "radio"),
               Choice("context", "Tokens of context", numbered((4096, 8192, 32768)), 8192, "radio")]
    return TwoFaces(choices, tables, charts.parallel(), readouts, models.add)
