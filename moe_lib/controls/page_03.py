"""Controls of page 03: rooflines, shapes, enough batch."""

import functools

import numpy as np

from .. import charts
from ..hardware import DEVICES
from ..models import dense_twin
from ..roofline import attainable_flops_per_s, compute_bound_batch, ridge_point
from ..two_faces import HALF_OCTAVES, TwoFaces
from .choices import (
    COMPUTING,
    WEIGHT_BYTES,
    Models,
    batch_choice,
    device_choice,
    dtype_of,
    precision_choice,
    step_of,
    time_of,
)

ROOF_MODELS = ("deepseek-v3", "plate-deepseek-v3", "mixtral-8x7b", "qwen3-235b-a22b", "qwen3-30b-a3b", "gpt-oss-120b",
               "llama-4-maverick", "glm-5.2")
ROOF_DEVICES = ("h100", "h200", "b200", "mi300x", "a100-80gb")


def roofline(config=None):
    """A decode step as a dot on a device's roof, and its dense twin as a second, batch by batch.

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

    >>> print(roofline().readout(model="deepseek-v3", precision="bf16", device="h200", batch=64)["Compute-bound from"])
    3,770 tokens (twin: 206)
    """
    models = Models(config)

    @functools.lru_cache(maxsize=4096)  # the page asks for each step once a device and readout
    def step(model, precision, batch):
        return step_of(models[model], precision, batch)

    def rate(intensity, precision, device):
        return attainable_flops_per_s(intensity, DEVICES[device], dtype_of(precision, device))

    def tables(selection):
        batches = np.union1d(HALF_OCTAVES, selection["batch"])
        roof, moe, twin = [], [], []
        for precision in selection["precision"]:
            dense = step_of(dense_twin(models[selection["model"][0]]), precision, batches).intensity
            sparse = {model: step_of(models[model], precision, batches).intensity for model in selection["model"]}
            for device in selection["device"]:
                key = {"precision": precision, "device": device}
                ridge = ridge_point(DEVICES[device], dtype_of(precision, device))
                ends = np.array([charts.ROOF[0], ridge, charts.ROOF[1]])
                roof += charts.rows(**key, intensity=ends, rate=rate(ends, **key))
                twin.append(charts.list_row(key, batch=batches.astype(int), intensity=dense, rate=rate(dense, **key)))
                for model, of in sparse.items():
                    moe.append(charts.list_row({"model": model, **key}, batch=batches.astype(int), intensity=of,
                                               rate=rate(of, **key)))
        return {"roof": roof, "moe": moe, "twin": twin}

    def intensity(model, precision, batch):
        pair = step(model, precision, batch), step_of(dense_twin(models[model]), precision, batch)
        return "{} FLOP/byte (twin: {})".format(*(charts.digits(of.intensity) for of in pair))

    def ridge(precision, device):
        dtype = dtype_of(precision, device)
        return f"{ridge_point(DEVICES[device], dtype):.0f} FLOP/byte, {dtype.upper()}"

    def share(model, precision, device, batch):
        peak = DEVICES[device].peak(dtype_of(precision, device))
        at_most = rate(step(model, precision, batch).intensity, precision, device) / peak
        return f"at most {charts.digits(100 * at_most)} %"

    def time(model, precision, device, batch):
        needed, _, bounds = time_of(step(model, precision, batch), models[model], precision, device)
        low, high = (1e3 * seconds for seconds in bounds)
        return f"{charts.between(low, high, 'ms')} on {charts.counted(needed, 'device')}"

    def enough(model, precision, device):
        machine = {"device": DEVICES[device], "dtype": dtype_of(precision, device)}
        both = (compute_bound_batch(of, **machine, weight_bytes=WEIGHT_BYTES[precision])
                for of in (models[model], dense_twin(models[model])))
        mine, twin = both
        return f"{charts.counted(mine, 'token')} (twin: {twin:,.0f})"

    readouts = {"Intensity": intensity, "Ridge point": ridge, "Share of peak": share, "Step takes": time,
                "Compute-bound from": enough}
    choices = [models.choice(ROOF_MODELS, "deepseek-v3"),
               precision_choice(), device_choice(ROOF_DEVICES, COMPUTING), batch_choice()]
    return TwoFaces(choices, tables, charts.roofline(), readouts, models.add)
