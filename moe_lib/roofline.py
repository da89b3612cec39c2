"""Bounds in seconds from published peaks. No efficiency hides here: measured over bound is for the reader to see."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ._arguments import ABOVE_ZERO, Numbers, WeightBytes, require
from ._show import number
from .hardware import Device, find_device
from .models import MoEModel
from .routing import batch_for_tokens_per_expert
from .steps import Step, decode_step


class Bounds(NamedTuple):
    """Least and greatest time of a step in seconds: terms fully overlapped (max), or one after the other (sum)."""

    lower: Numbers
    upper: Numbers

    def __repr__(self):
        return f"Bounds(lower {number(self.lower, 's')}, upper {number(self.upper, 's')})"


def ridge_point(device: Device | str, dtype: str = "bf16") -> float:
    """FLOP per byte at which a device's compute and memory take equally long: peak FLOP/s over bytes/s.

    Raises
    ------
    ValueError
        If the device has no published peak for `dtype`.

    >>> from moe_lib.hardware import DEVICES
    >>> print(f"{ridge_point(DEVICES['h200']):.0f}")
    206
    """
    device = find_device(device)
    return device.peak(dtype) / device.bandwidth_bytes_per_s


def attainable_flops_per_s(intensity: ArrayLike, device: Device | str, dtype: str = "bf16") -> Numbers:
    """The roofline: FLOP/s that work of this intensity can reach, min(peak, bandwidth x intensity).

    Raises
    ------
    ValueError
        If an intensity is negative or the device has no published peak for `dtype`.

    Notes
    -----
    Source: notebook 03, eq. 3.2.

    >>> from moe_lib.hardware import DEVICES
    >>> print(f"{attainable_flops_per_s(4.0, DEVICES['h200']) / 1e12:.1f} TFLOP/s")
    19.2 TFLOP/s
    """
    device = find_device(device)
    return np.minimum(device.peak(dtype), device.bandwidth_bytes_per_s * require("intensity", intensity, 0))


def memory_time(step: Step, device: Device | str, num_gpus: ArrayLike = 1) -> Numbers:
    """Seconds to move the step's bytes once at full bandwidth, spread evenly over `num_gpus` devices."""
    return step.bytes_moved / (find_device(device).bandwidth_bytes_per_s * require("num_gpus", num_gpus, 1))


def compute_time(step: Step, device: Device | str, dtype: str = "bf16", num_gpus: ArrayLike = 1) -> Numbers:
    """Seconds for the step's FLOP at peak, spread evenly over `num_gpus` devices."""
    return step.flops / (find_device(device).peak(dtype) * require("num_gpus", num_gpus, 1))


def transfer_time(num_bytes: ArrayLike, bandwidth: ArrayLike, latency: ArrayLike = 0) -> Numbers:
    """Seconds to move bytes over a link: latency + bytes / bandwidth.

    Raises
    ------
    ValueError
        If num_bytes or latency is negative, or bandwidth (bytes/s) is not positive.

    >>> print(f"{transfer_time(22.5e9, 64e9) * 1e3:.0f} ms")
    352 ms
    """
    bandwidth = require("bandwidth", bandwidth, ABOVE_ZERO)
    return require("latency", latency, 0) + np.divide(require("num_bytes", num_bytes, 0), bandwidth)


def step_time(step: Step, device: Device | str, dtype: str = "bf16", num_gpus: ArrayLike = 1, *,
              link_time: ArrayLike = 0) -> Bounds:
    """Bounds on the time of a step: lower = max(bytes/bandwidth, FLOP/peak, link), upper = their sum.

    Parameters
    ----------
    step : Step
        Of the router that it was counted for. A uniform one touches the most that independent tokens can, so its lower
        bound is none for routers that touch fewer; for those count a step of `routing.agreeing_inclusion`.
    device : Device or str
        A device or its name in `DEVICES`.
    dtype : str
        Number format of the arithmetic. Weights may be smaller: 4-bit weights are often multiplied in bf16.
    num_gpus : array_like of int
        Ideal split: no imbalance, nothing read twice.
    link_time : array_like
        Seconds that data between devices take. 0: no communication.

    Returns
    -------
    Bounds
        Seconds. They differ by at most the number of terms.

    Raises
    ------
    ValueError
        If the device has no peak for `dtype`, or num_gpus is below 1.

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> bounds = step_time(decode_step(CATALOG["deepseek-v3"], 64, weight_bytes=2), DEVICES["h200"], num_gpus=8)
    >>> print(f"{bounds.lower * 1e3:.1f} to {bounds.upper * 1e3:.1f} ms")
    30.4 to 31.0 ms
    """
    terms = [memory_time(step, device, num_gpus), compute_time(step, device, dtype, num_gpus)]
    link = require("link_time", link_time, 0)
    if np.ndim(link) or link:
        terms.append(link)
    return Bounds(reduce(np.maximum, terms), reduce(np.add, terms))


def compute_bound_batch(model: MoEModel | str, device: Device | str, dtype: str = "bf16", *,
                        weight_bytes: WeightBytes = None, context: int = 0, kv_bytes: float = 2) -> float:
    """Batch from which a **whole step** is compute-bound: FLOP/peak = bytes/bandwidth.

    Returns
    -------
    float
        Tokens, not rounded; inf where the cache of a sequence takes longer to read than its FLOP to compute.

    Raises
    ------
    ValueError
        As `decode_step` and `ridge_point`.

    >>> from moe_lib.hardware import DEVICES
    >>> from moe_lib.models import CATALOG
    >>> print(f"{compute_bound_batch(CATALOG['deepseek-v3'], DEVICES['h200'], weight_bytes=2):,.0f}")
    3,770
    """
    from scipy.optimize import brentq

    require("context", context, 0, one=True)
    ridge = ridge_point(device, dtype)

    def short_of_compute(log_batch):  # FLOP are linear and bytes concave in the batch: one root
        step = decode_step(model, np.exp(log_batch), weight_bytes=weight_bytes, context=context, kv_bytes=kv_bytes)
        return np.log(step.intensity / ridge)

    require("bytes read by one token", decode_step(model, 1, weight_bytes=weight_bytes).bytes_read, 1, one=True)
    low, high = np.log([1e-6, 1e15])
    return np.inf if short_of_compute(high) < 0 else float(np.exp(brentq(short_of_compute, low, high)))


def expert_compute_bound_batch(num_experts: ArrayLike, top_k: ArrayLike, ridge: ArrayLike, *,
                               weight_bytes: float = 2) -> Numbers:
    """Batch from which the **routed experts alone** are compute-bound: each then has ridge w/2 tokens in the mean.

    A weight matrix applied to M tokens has intensity 2 M / w, so M* = ridge w / 2 and B* = M* E / k.

    Raises
    ------
    ValueError
        If ridge or weight_bytes is negative, or top_k outside 1..num_experts.

    >>> print(f"{expert_compute_bound_batch(256, 8, 989e12 / 4.8e12):,.0f}")
    6,593
    """
    tokens = require("ridge", ridge, 0) * require("weight_bytes", weight_bytes, 0) / 2
    return batch_for_tokens_per_expert(tokens, num_experts, top_k)


def expert_intensity(d_model: ArrayLike, d_expert: ArrayLike, tokens: ArrayLike, *, weight_bytes: float = 2,
                     activation_bytes: float = 2) -> Numbers:
    """FLOP per byte of one gated expert (three d x f matrices) at work on M tokens.

    FLOP: 6 M d f. Bytes: 3 d f w of weights, and a (2 M d + 2 M f) of activations: d in and d out, f written between
    the matrices and read again. So 1/intensity = w / 2M + a (d + f) / 3 d f: at most 2M/w, and never above its limit.

    Parameters
    ----------
    d_model, d_expert, tokens : array_like
        d, f and M, broadcast together.
    weight_bytes, activation_bytes : float
        w and a. activation_bytes=0 leaves the activations out.

    Returns
    -------
    float or ndarray
        FLOP per byte; 0 for no tokens.

    Raises
    ------
    ValueError
        If a width is below 1 or another argument is negative.

    Notes
    -----
    Source: notebook 03, eq. 3.3.

    >>> print(expert_intensity(7168, 2048, 64, activation_bytes=0), expert_intensity(7168, 2048, 64).round(1))
    64.0 62.3
    """
    d, f, M = require("d_model", d_model, 1), require("d_expert", d_expert, 1), 1.0 * require("tokens", tokens, 0)
    w, a = require("weight_bytes", weight_bytes, 0), require("activation_bytes", activation_bytes, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.divide(6 * M * d * f, 3.0 * d * f * w + a * 2 * M * (d + f))


def fit_overhead(limit_s: ArrayLike, measured_s: ArrayLike) -> tuple[float, float]:
    """Two constants that tie measurements to limits: measured = t0 + limit / efficiency.

    Least squares of the **relative** error, both constants kept non-negative.

    Parameters
    ----------
    limit_s, measured_s : array_like [n]
        Seconds, at least two different limits.

    Returns
    -------
    (float, float)
        t0 in seconds, efficiency (1 = at the limit).

    Raises
    ------
    ValueError
        If a time is not positive, the shapes differ, or the measured times do not rise with their limits.

    Notes
    -----
    Source: notebook 05, eq. 5.2.

    >>> t0, efficiency = fit_overhead([1e-3, 2e-3, 4e-3], [1.3e-3, 2.55e-3, 5.05e-3])
    >>> print(f"{t0 * 1e6:.0f} us, {efficiency:.2f}")
    50 us, 0.80
    """
    from scipy.optimize import nnls

    limit, measured = (np.asarray(require(name, seconds, ABOVE_ZERO))
                       for name, seconds in (("limit_s", limit_s), ("measured_s", measured_s)))
    if limit.shape != measured.shape or np.unique(limit).size < 2:
        raise ValueError(f"limit_s and measured_s must be equally long with two or more different limits, "
                         f"got {limit.shape} and {measured.shape}")
    t0, slope = nnls(np.stack([1 / measured, limit / measured], axis=-1), np.ones(measured.size))[0]
    if slope * limit.max() < 1e-9 * measured.max():
        raise ValueError("measured_s must rise with limit_s: these times are fitted best by a constant, "
                         f"{t0:.3g} s, and no efficiency")
    return float(t0), float(1 / slope)
