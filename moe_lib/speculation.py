"""Speculative decoding: tokens that a draft keeps, and what it gains when the verifier's tokens touch more experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._arguments import Numbers, WeightBytes, require
from .hardware import Device, find_device
from .models import MoEModel, find_model, find_models
from .roofline import compute_time, step_time
from .routing import independent_tokens
from .steps import decode_step


def draft_tokens_kept(acceptance: ArrayLike, draft: ArrayLike) -> Numbers:
    """Expected tokens of a step: ``1 + alpha + ... + alpha^D``, D tokens drafted, alpha the chance of each.

    Raises
    ------
    ValueError
        If acceptance is outside [0, 1] or draft is negative.

    >>> print(f"{draft_tokens_kept(0.8, 1):.1f}")
    1.8
    """
    a, length = require("acceptance", acceptance, 0, 1), require("draft", draft, 0) + 1
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(a == 1, length, (1 - a**length) / (1 - a))[()]


def speculation_gain(model: MoEModel | str | Sequence[MoEModel | str], batch: ArrayLike, acceptance: ArrayLike,
                     device: Device | str, *, draft: ArrayLike = 1, dtype: str = "bf16",
                     weight_bytes: WeightBytes = None, context: ArrayLike = 0, kv_bytes: float = 2,
                     copy: float = 0) -> Numbers:
    """Speed-up of speculative decoding: tokens kept times T(B) / T(B (1 + D)), with T the lower bound of a step.

    The verifier sees B (1 + D) tokens, which touch more experts than B. The draft model itself is taken as free and the
    cache is read once a sequence, which flatters the draft. A step's fixed time is left out, which does it down. Layers
    with a recurrent state write it after every drafted token, so that a rejected one can be taken back.

    Parameters
    ----------
    model, device, dtype, weight_bytes, context, kv_bytes
        As `decode_step` and `step_time`.
    batch, acceptance, draft : array_like
        Sequences, chance that a drafted token is accepted, tokens drafted; broadcast together.
    copy : float
        Chance that a drafted token repeats the experts of the token before it (`routing.independent_tokens`).

    Returns
    -------
    float or ndarray
        Above 1, speculation pays.

    Raises
    ------
    ValueError
        As `decode_step`, `draft_tokens_kept`.

    Notes
    -----
    Source: notebook 02, eq. 2.5.

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> v3, h200 = CATALOG["deepseek-v3"], DEVICES["h200"]
    >>> print(speculation_gain(v3, [1, 4, 64, 128], 0.8, h200, weight_bytes=1, dtype="fp8").round(2))
    [1.17 1.04 1.6  1.77]
    """
    settings: dict[str, Any] = {"weight_bytes": weight_bytes, "context": context, "kv_bytes": kv_bytes}
    if not isinstance(model, (MoEModel, str)):
        several = [speculation_gain(one, batch, acceptance, device, draft=draft, dtype=dtype, copy=copy, **settings)
                   for one in find_models(model)]
        return np.stack(several)
    model, device = find_model(model), find_device(device)
    plain, run = decode_step(model, batch, **settings), require("draft", draft, 0) + 1
    verified = decode_step(model, np.multiply(batch, run), **settings)
    distinct = np.multiply(batch, independent_tokens(model.num_experts, model.top_k, run, copy))
    touched = decode_step(model, distinct, weight_bytes=weight_bytes)
    moved = touched.weight_bytes_read + plain.kv_bytes_read + verified.state_bytes_written
    seconds = np.maximum(moved / device.bandwidth_bytes_per_s, compute_time(verified, device, dtype))
    return draft_tokens_kept(acceptance, draft) * step_time(plain, device, dtype).lower / seconds
