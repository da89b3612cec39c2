"""Controls of page 00: the workshop."""

import functools
import itertools

import numpy as np

from .. import charts
from ..hardware import DEVICES
from ..models import dense_twin
from ..roofline import ridge_point
from ..steps import resident_bytes
from ..two_faces import HALF_OCTAVES, TwoFaces
from .choices import (
    COMPUTING,
    STATIC_MODELS,
    WEIGHT_BYTES,
    Models,
    batch_choice,
    device_choice,
    devices_for,
    dtype_of,
    per_expert_words,
    precision_choice,
    step_of,
    time_of,
    touched_words,
)

STATIC_DEVICES = ("h100", "h200", "b200", "mi300x", "a100-80gb", "rtx-4090")


def workshop(config=None):
    """The plate's workshop: pick a model, a precision, a device and a batch; see what a decode step touches and reads.

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

    >>> print(workshop().readout(model="deepseek-v3", precision="bf16", device="h200", batch=64)["Experts touched"])
    222 of 256 (87 %)
    """
    models = Models(config)

    @functools.lru_cache(maxsize=4096)  # the page asks for each step once a device and readout
    def step(model, precision, batch):
        return step_of(models[model], precision, batch)

    def tables(selection):
        batches = np.union1d(HALF_OCTAVES, selection["batch"])
        curve, ridge = [], []
        for model, precision in itertools.product(selection["model"], selection["precision"]):
            twin = step_of(dense_twin(models[model]), precision, batches)
            curve += charts.rows(model=model, precision=precision, batch=batches.astype(int),
                                 moe=step_of(models[model], precision, batches).intensity, twin=twin.intensity)
        for device, precision in itertools.product(selection["device"], selection["precision"]):
            ridge += charts.rows(device=device, precision=precision,
                                 ridge=ridge_point(DEVICES[device], dtype_of(precision, device)))
        return {"curve": curve, "ridge": ridge}

    def touched(model, batch):
        of = step(model, "bf16", batch)
        return touched_words(of.experts_touched, of.num_experts, of.share_touched)

    def tokens(model, batch):
        of = step(model, "bf16", batch)
        return per_expert_words(of.tokens_per_expert, of.tokens_per_touched_expert)

    def fits(model, precision, device):
        needed = devices_for(models[model], precision, device)
        return "fits on one" if needed == 1 else f"does not fit: needs {needed:,}"

    def time(model, precision, device, batch):
        _, reads, bounds = time_of(step(model, precision, batch), models[model], precision, device)
        return f"{charts.digits(bounds.lower * 1e3)} ms ({'reading' if reads else 'computing'})"

    readouts = {
        "Experts touched": touched,
        "Tokens per expert": tokens,
        "Resident": lambda model, precision: charts.gigabytes(
            resident_bytes(models[model], weight_bytes=WEIGHT_BYTES[precision])),
        "Read in a step": lambda model, precision, batch: charts.gigabytes(step(model, precision, batch).bytes_read),
        "Intensity": lambda model, precision, batch: (
            f"{charts.digits(step(model, precision, batch).intensity)} FLOP/byte"),
        "On this device": fits,
        "Takes at least": time,
    }
    choices = [models.choice(STATIC_MODELS, "deepseek-v3"),
               precision_choice(), device_choice(STATIC_DEVICES, COMPUTING), batch_choice()]
    return TwoFaces(choices, tables, charts.workshop(), readouts, models.add)
