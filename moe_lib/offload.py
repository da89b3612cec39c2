"""Experts that live outside the accelerator: copied over a link, guessed ahead, or computed where they are.

Symbols: E routed experts in a layer, k chosen per token, h the hit rate: the share of chosen experts that the
accelerator holds already (`caching` predicts it).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._arguments import ABOVE_ZERO, Numbers, WeightBytes, require
from .hardware import Device, Link, find_device, find_link
from .models import MoEModel, find_model
from .roofline import memory_time, transfer_time
from .routing import experts_touched
from .steps import bytes_per_weight, decode_step, part_bytes, resident_bytes


def expert_bytes(model: MoEModel | str, weight_bytes: WeightBytes = None) -> float:
    """Bytes of one routed expert in one layer; weight_bytes and errors as `steps.bytes_per_weight`.

    >>> from moe_lib.models import CATALOG
    >>> print(f"{expert_bytes(CATALOG['mixtral-8x7b'], 2) / 1e6:.0f} MB")
    352 MB
    """
    model = find_model(model)
    return model.expert_params * float(bytes_per_weight(model, weight_bytes)["routed_experts"])


def missed_bytes(model: MoEModel | str, *, batch: ArrayLike = 1, weight_bytes: WeightBytes = None,
                 hit_rate: ArrayLike = 0) -> Numbers:
    """Bytes of routed experts that a decode step needs and does not find: ``layers x E C(B) x (1 - h) x one expert``.

    Parameters
    ----------
    model : MoEModel
    batch : array_like
        B, tokens in the step. Each distinct expert of a layer is needed once: k of them at B = 1.
    weight_bytes : float or dict, optional
        As `steps.decode_step`.
    hit_rate : array_like
        h, share of the needed experts that the accelerator holds already.

    Raises
    ------
    ValueError
        If hit_rate is outside [0, 1], or as `steps.decode_step`.

    Notes
    -----
    Source: notebook 06, eq. 6.1.

    >>> from moe_lib.models import CATALOG
    >>> print(f"{missed_bytes(CATALOG['mixtral-8x7b'], weight_bytes=2) / 1e9:.1f} GB")
    22.5 GB
    """
    model, size = find_model(model), expert_bytes(model, weight_bytes)
    touched = experts_touched(model.num_experts, model.top_k, batch) * model.num_moe_layers
    return touched * size * (1 - require("hit_rate", hit_rate, 0, 1))


def token_time(model: MoEModel | str, bandwidth: ArrayLike, *, weight_bytes: WeightBytes = None,
               hit_rate: ArrayLike = 0, compute_time: ArrayLike = 0, overlap: ArrayLike = False, batch: ArrayLike = 1,
               wasted: ArrayLike = 0) -> Numbers:
    """Seconds of a decode step whose missing experts come over a link: a token's time at batch 1.

    Copying takes L = missed bytes / bandwidth. The share r of it that is known early enough (prefetch) runs beside the
    computing, the rest stands in its way: (1 - r) L + max(compute_time, (r + wasted) L). With nothing known early that
    is L + compute_time, with all of it max(compute_time, L).

    Parameters
    ----------
    model : MoEModel
    bandwidth : array_like
        Bytes/s from where the experts live. Experts computed where they are need no copy: give the memory's own.
    weight_bytes, hit_rate, batch
        As `missed_bytes`.
    compute_time : array_like
        Seconds of all the rest of the step, such as the bound of the accelerator's own reading.
    overlap : bool or array_like
        r, the recall of the prefetch: share of the missing experts that are asked for early. True is 1, False 0.
    wasted : array_like
        Experts copied in vain, per missing expert that was asked for early or late.

    Returns
    -------
    float or ndarray
        Seconds.

    Raises
    ------
    ValueError
        If overlap or hit_rate is outside [0, 1], wasted or compute_time is negative, or bandwidth is not positive.

    Notes
    -----
    Source: notebook 06, eq. 6.2.

    >>> from moe_lib.models import CATALOG
    >>> for weight_bytes in (2, 1, 0.5):
    ...     print(f"{token_time(CATALOG['mixtral-8x7b'], 64e9, weight_bytes=weight_bytes) * 1e3:.0f} ms")
    352 ms
    176 ms
    88 ms
    """
    early = require("overlap", float(overlap) if isinstance(overlap, (bool, np.bool_)) else overlap, 0, 1)
    copying = transfer_time(missed_bytes(model, batch=batch, weight_bytes=weight_bytes, hit_rate=hit_rate), bandwidth)
    beside = (early + require("wasted", wasted, 0)) * copying
    return (1 - early) * copying + np.maximum(require("compute_time", compute_time, 0), beside)


def host_time(model: MoEModel | str, bandwidth: ArrayLike, flops_per_s: ArrayLike, *, weight_bytes: WeightBytes = None,
              hit_rate: ArrayLike = 0, compute_time: ArrayLike = 0, batch: ArrayLike = 1) -> Numbers:
    """Seconds of a decode step whose missing experts are computed by the host, out of its own memory.

    The host takes max(missed bytes / bandwidth, FLOP / peak); the accelerator's part comes before or after. Where both
    work at once (shared experts beside routed ones), give the part that does not overlap as compute_time.

    Parameters
    ----------
    model, weight_bytes, hit_rate, compute_time, batch
        As `token_time`.
    bandwidth, flops_per_s : array_like
        Of the host: bytes/s of its memory, FLOP/s of its arithmetic.

    Returns
    -------
    float or ndarray
        Seconds.

    Raises
    ------
    ValueError
        As `token_time`, or if flops_per_s is not positive.

    Notes
    -----
    Source: notebook 06, eq. 6.5.

    >>> from moe_lib.models import CATALOG
    >>> seconds = host_time(CATALOG["deepseek-v3"], 307.2e9, 2e12, weight_bytes=4.85 / 8)
    >>> print(f"{1 / seconds:.1f} tokens/s")
    24.8 tokens/s
    """
    model, missing = find_model(model), 1 - require("hit_rate", hit_rate, 0, 1)
    flops = 2.0 * require("batch", batch, 0) * model.top_k * model.expert_params_all_layers * missing
    arithmetic = flops / require("flops_per_s", flops_per_s, ABOVE_ZERO)
    reading = transfer_time(
        missed_bytes(model, batch=batch, weight_bytes=weight_bytes, hit_rate=hit_rate), bandwidth)
    return require("compute_time", compute_time, 0) + np.maximum(reading, arithmetic)


def copied_step_time(model: MoEModel | str, device: Device | str, link: Link | str, *, weight_bytes: WeightBytes = None,
                     context: ArrayLike = 0, hit_rate: ArrayLike = 0, batch: ArrayLike = 1) -> Numbers:
    """Seconds of a decode step on a device that copies in what it misses: T + L, nothing known early.

    The device then reads all bytes of the step, T, those copied too. L is as in `token_time`, at the rate of the link
    or of the device's own, whichever is slower.

    Parameters
    ----------
    model, weight_bytes, context, batch
        As `steps.decode_step`.
    device : Device
    link : Link
    hit_rate : array_like
        As `missed_bytes`.

    Returns
    -------
    float or ndarray
        Seconds.

    Raises
    ------
    ValueError
        As `token_time`, `steps.decode_step`.

    Notes
    -----
    Source: notebook 06, eq. 6.2.

    >>> seconds = copied_step_time("deepseek-v3", "h200", "pcie5-x16", weight_bytes=1, context=4096, hit_rate=0.17)
    >>> print(f"{seconds * 1e3:.0f} ms")
    277 ms
    """
    device = find_device(device)
    slower = min(find_link(of).bytes_per_s for of in (link, device.host_link or link))
    step = decode_step(model, batch, weight_bytes=weight_bytes, context=context)
    return token_time(model, slower, weight_bytes=weight_bytes, hit_rate=hit_rate, batch=batch,
                      compute_time=memory_time(step, device))


def hosted_step_time(model: MoEModel | str, device: Device | str, host: Device | str, host_flops_per_s: ArrayLike, *,
                     weight_bytes: WeightBytes = None, context: ArrayLike = 0, hit_rate: ArrayLike = 0,
                     batch: ArrayLike = 1) -> Numbers:
    """Seconds of a decode step on a device whose host computes what it misses, one after the other.

    The device reads all bytes of the step but those of the missing experts, which `host_time` times.

    Parameters
    ----------
    model, device, weight_bytes, context, hit_rate, batch
        As `copied_step_time`.
    host : Device
        Whose memory holds the experts.
    host_flops_per_s : array_like
        FLOP/s of its arithmetic.

    Returns
    -------
    float or ndarray
        Seconds.

    Raises
    ------
    ValueError
        As `host_time`, `steps.decode_step`.

    Notes
    -----
    Source: notebook 06, eq. 6.5.

    >>> setting = {"weight_bytes": 1, "context": 4096, "hit_rate": 0.17}
    >>> print(f"{hosted_step_time('deepseek-v3', 'h200', 'server-ddr5', 21.3e12, **setting) * 1e3:.0f} ms")
    41 ms
    """
    device = find_device(device)
    outside: dict[str, Any] = {"weight_bytes": weight_bytes, "hit_rate": hit_rate, "batch": batch}
    step = decode_step(model, batch, weight_bytes=weight_bytes, context=context)
    own = memory_time(step, device) - missed_bytes(model, **outside) / device.bandwidth_bytes_per_s
    return host_time(model, find_device(host).bandwidth_bytes_per_s, host_flops_per_s, compute_time=own, **outside)


def tokens_where_copying_wins(link_bandwidth: ArrayLike, flops_per_s: ArrayLike, *,
                              weight_bytes: ArrayLike = 2) -> Numbers:
    """Tokens of one expert from which copying it to an accelerator beats computing them on the host.

    Copying takes w P / link whatever the tokens, the host's arithmetic 2 M P / peak: M = w peak / (2 link). Below it
    the host wins if its memory is faster than the link.

    Raises
    ------
    ValueError
        If a rate is not positive or weight_bytes is negative.

    Notes
    -----
    Source: notebook 06, eq. 6.6.

    >>> print(f"{tokens_where_copying_wins(31.5e9, 2e12, weight_bytes=0.5):.0f}")
    16
    """
    link, peak = require("link_bandwidth", link_bandwidth, ABOVE_ZERO), require("flops_per_s", flops_per_s, ABOVE_ZERO)
    return require("weight_bytes", weight_bytes, 0) * peak / (2 * link)


def expert_slots(model: MoEModel | str, usable_bytes: ArrayLike, *, weight_bytes: WeightBytes = None,
                 context: ArrayLike = 0, sequences: ArrayLike = 0, kv_bytes: float = 2) -> Numbers:
    """Experts of every layer that fit beside all other weights and the caches, not rounded; at most E.

    Parameters
    ----------
    usable_bytes : array_like
        Of the accelerator, as `Device.usable_bytes`.
    model, weight_bytes, context, sequences, kv_bytes
        As `steps.resident_bytes`.

    Returns
    -------
    float or ndarray
        Slots a layer; nan where what is not a routed expert does not fit either.

    Raises
    ------
    ValueError
        As `steps.resident_bytes`, or if the model has no routed experts.

    Notes
    -----
    Source: notebook 06, eq. 6.3. A slot is taken by the expert at work: below k slots nothing is left to hit.

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> card = DEVICES["rtx-4090"].usable_bytes
    >>> print(f"{expert_slots(CATALOG['mixtral-8x7b'], card, weight_bytes=1, context=4096, sequences=1):.1f} of 8")
    3.7 of 8
    """
    model, usable_bytes = find_model(model), require("usable_bytes", usable_bytes, 0)
    require("routed experts", model.ledger()["routed_experts"], 1)
    held = resident_bytes(model, weight_bytes=weight_bytes, context=context, sequences=sequences, kv_bytes=kv_bytes)
    routed = part_bytes(model, weight_bytes)["routed_experts"]
    free = usable_bytes - (held - routed)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(free < 0, np.nan, np.minimum(1, np.divide(free, routed)) * model.num_experts)[()]
