"""Controls of page 09: the valley and the frontier."""

import functools
import itertools
import textwrap

import numpy as np

from .. import charts
from ..hardware import DEVICES, devices_needed
from ..layouts import layouts, problems
from ..plan import best_point, cost_per_million_tokens, frontier, time_to_first_token
from ..steps import resident_bytes
from ..two_faces import Choice, TwoFaces
from .choices import COMPUTING, FP8_BLOCK, Models, device_choice, numbered

PLAN_MODELS = ("deepseek-v3", "qwen3-235b-a22b", "glm-4.5", "mixtral-8x7b")
PLAN_ON = ("h100", "h200", "b200", "mi300x")
PLAN_GPUS = (2, 4, 8)
PLAN_CONTEXTS = (2048, 8192, 32768)
PLAN_TARGETS = (8, 10, 12, 15, 20, 25, 30, 40, 60, 100)  # milliseconds a token
PLAN_PRICES = (1, 2, 3, 4, 6)  # a GPU-hour


def _barred(model, device, gpus, fits):
    """(how many layouts cannot be, why not in sentences)."""
    if not fits:
        needed = devices_needed(resident_bytes(model, weight_bytes=1), device)
        return f"all (needs {charts.counted(needed, 'GPU')})", ["fewer cannot hold the weights"]
    found = [problems(model, layout, weight_block=FP8_BLOCK) for layout in layouts(model, gpus)]
    return f"{sum(map(bool, found))} of {len(found)} layouts", list(dict.fromkeys(itertools.chain.from_iterable(found)))


def plan(config=None):
    """Your frontier: every way to spread a model over the GPUs of a node, and the best that meets a target.

    Weights in FP8 with a scale for 128 x 128 of them, caches in BF16. Bounds: nothing that GPUs send is counted, so how
    the experts are cut makes no difference; the line and the name are those of the legal layout that cuts them least.

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

    >>> setting = {"model": "deepseek-v3", "device": "h200", "gpus": 8, "context": 8192, "tpot": 30, "price": 2}
    >>> print(*list(plan().readout(**setting).values())[:4], sep=" | ")
    DP8+EP8 | 504 sequences | 28 ms | 232 ms
    """
    models = Models(config)

    @functools.lru_cache(maxsize=4096)
    def lines(model, device, gpus, context):
        return frontier(models[model], DEVICES[device], gpus, context=context, weight_bytes=1, weight_block=FP8_BLOCK)

    def best(model, device, gpus, context, tpot):
        return best_point(lines(model, device, gpus, context), tpot / 1e3)

    def barred(model, device, gpus, context):
        return _barred(models[model], DEVICES[device], gpus, fits=bool(lines(model, device, gpus, context)))

    def tables(selection):
        line, full, ring, grey, target = [], [], [], [], charts.rows(
            tpot=np.array(selection["tpot"]), user=1e3 / np.array(selection["tpot"], float))
        for chosen in itertools.product(*(selection[name] for name in ("model", "device", "gpus", "context"))):
            key = "|".join(map(str, chosen))
            for of in lines(*chosen):
                most = of.batch[-1]
                shown = np.unique([*2 ** np.arange(int(np.log2(most)) + 1), most]) - 1
                series = charts.CANNOT_BE if of.problems else charts.shared_by(of.layout.attention_tp)
                named = {"key": key, "layout": str(of.layout), "legal": not of.problems, "series": series}
                line.append(charts.list_row(named, user=of.tokens_per_s_per_user[shown],
                                            gpu=of.tokens_per_s_per_gpu[shown]))
                full.append({**named, "user": line[-1]["user"][-1], "gpu": line[-1]["gpu"][-1], "batch": int(most)})
            for tpot in selection["tpot"]:
                if point := best(*chosen, tpot):
                    ring += charts.rows(
                        key=key, tpot=tpot, layout=str(point.layout), batch=point.batch,
                        user=point.tokens_per_s_per_user, gpu=point.tokens_per_s_per_gpu,
                        text=charts.counted(point.batch, "sequence"))
            many, why = barred(*chosen)
            if why:
                grey += charts.rows(key=key, text="\n".join(textwrap.fill(text, 34) for text in (
                    f"ruled out: {many}", *why)))
        return {"line": line, "full": full, "best": ring, "target": target, "barred": grey}

    def told(say):
        """Say it of the best point, or why there is none."""
        def checked(model, device, gpus, context, tpot):
            if point := best(model, device, gpus, context, tpot):
                return say(point)
            of = lines(model, device, gpus, context)
            return "none meets the target" if of else "does not fit"

        return checked

    def first_token(model, device, gpus, context, tpot):
        def say(point):
            seconds = time_to_first_token(models[model], context, point.layout, DEVICES[device], weight_bytes=1)
            return f"{charts.digits(1e3 * seconds)} ms"

        return told(say)(model, device, gpus, context, tpot)

    def cost(model, device, gpus, context, tpot, price):
        def say(point):
            return charts.dollars(cost_per_million_tokens(point.tokens_per_s_per_gpu, price))

        return told(say)(model, device, gpus, context, tpot)

    def left_out(model, device, gpus, context):
        many, why = barred(model, device, gpus, context)
        return many if why else "none"

    readouts = {
        "Best layout": told(lambda point: str(point.layout)),
        "Sequences at once": told(lambda point: charts.counted(point.batch, "sequence")),
        "Time per token": told(lambda point: f"{charts.digits(1e3 * point.tpot)} ms"),
        "To the first token": first_token,
        "Tokens/s of a GPU": told(lambda point: charts.digits(point.tokens_per_s_per_gpu)),
        "Decoding a million tokens": cost,
        "Layouts ruled out": left_out,
    }
    choices = [models.choice(PLAN_MODELS, "deepseek-v3"), device_choice(PLAN_ON, COMPUTING),
               Choice("gpus", "GPUs", numbered(PLAN_GPUS), 8, "radio", more=numbered([1])),
               Choice("context", "Tokens of context", numbered(PLAN_CONTEXTS), 8192, "radio",
                      more=numbered([512, 131072])),
               Choice("tpot", "Target, ms a token", numbered(PLAN_TARGETS), 20, "batch"),
               Choice("price", "Dollars a GPU-hour", numbered(PLAN_PRICES), 2, "radio")]
    return TwoFaces(choices, tables, charts.frontier(), readouts, models.add)
