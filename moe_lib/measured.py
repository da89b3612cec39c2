"""Timed layers of routed experts: which experts each input touches, their limits, and rows that cannot be trusted.

A layer is a dict: device, num_experts, top_k, d_model, d_expert, weight_bytes, distribution ("balanced", "uniform" or
"power law"), num_tokens [n] and latency_s [n]. NVIDIA timed the shipped ones (``data/measured/moe_kernels.jsonl``).
A layer of the reader's own machine (`from_bench`) has bytes_per_s, flops_per_s and touched [n] in place of a device and
a distribution.
"""

from functools import cache

import numpy as np

from . import routing
from .hardware import DEVICES
from .records import shipped
from .roofline import fit_overhead

SURE = 0.95  # of a limit: below it a time is impossible, whatever the doubts about peaks and clocks
SLOW = 4  # times the limit at every batch up to 256: not the kernel that one would serve with
FITTED_ON = ("mixtral-8x7b", "qwen3-30b-a3b")
LARGEST = 512  # tokens up to which reading, not arithmetic, is what the timed layers wait for


def timed(**chosen):
    """Shipped records of timed layers whose data hold what is chosen: device, framework, dtype, model, distribution.

    Each is one value, or a tuple of those allowed.

    Raises
    ------
    ValueError
        If there is no such layer.

    >>> found = timed(device="h200", framework="SGLang 0.5.10", dtype="bf16", distribution="balanced")
    >>> print(*(record.data["model"] for record in found))
    deepseek-v3 mixtral-8x7b qwen3-30b-a3b qwen3-235b-a22b
    """
    allowed = {key: value if isinstance(value, tuple) else (value,) for key, value in chosen.items()}
    found = [record for record in _all() if all(record.data.get(key) in values for key, values in allowed.items())]
    if not found:
        raise ValueError(f"no timed layer has {', '.join(f'{key} = {value!r}' for key, value in chosen.items())}")
    return found


@cache
def _all():
    return tuple(shipped("moe_kernels"))


def layers(**chosen):
    """The data of `timed` records: a list of layers."""
    return [record.data for record in timed(**chosen)]


def samples(record):
    """A layer for each batch that `moe_lib.bench` timed: its samples [n], each with the experts that it touched.

    Raises
    ------
    ValueError
        If the record holds no timed layer.
    """
    data = record.data
    missing = {"batch", "seconds", "touched", "bytes_per_s", "flops_per_s", "expert_bytes"} - set(data)
    if missing:
        raise ValueError(f"the record {record.what!r} holds no timed layer: {', '.join(sorted(missing))} missing")
    layer = {key: data[key] for key in ("num_experts", "top_k", "d_model", "d_expert", "bytes_per_s", "flops_per_s")}
    layer["weight_bytes"] = data["expert_bytes"] / (3 * data["d_model"] * data["d_expert"])
    return [{**layer, "num_tokens": [tokens] * len(touched), "touched": touched, "latency_s": seconds}
            for tokens, touched, seconds in zip(data["batch"], data["touched"], data["seconds"], strict=True)]


def from_bench(record):
    """A layer that `moe_lib.bench` timed, by batch the sample that comes closest to its limit; errors as `samples`."""
    batches = samples(record)
    best = [int(np.argmin(over_limit(batch))) for batch in batches]
    return batches[0] | {key: [batch[key][at] for batch, at in zip(batches, best, strict=True)]
                         for key in ("num_tokens", "touched", "latency_s")}


def first(layer, most):
    """The same layer up to a number of tokens."""
    at = np.array(layer["num_tokens"]) <= most
    return {key: np.array(value)[at] if np.shape(value) == at.shape else value for key, value in layer.items()}


def experts_touched(layer, distribution=None):
    """Experts that each batch of a layer touches [n]: counted, or by the routing that was timed, or by another.

    Balanced inputs are strided and touch the most possible; uniform ones E C(B), expected. How many a power-law input
    touches was not recorded: E C(B), which it can pass only by chance.

    Raises
    ------
    ValueError
        If the distribution is none of the three.

    >>> layer = {"num_experts": 256, "top_k": 8, "num_tokens": [1, 32], "distribution": "balanced"}
    >>> print(experts_touched(layer), experts_touched(layer | {"distribution": "uniform"}).round(1))
    [  8. 256.] [  8.  163.3]
    """
    if "touched" in layer and distribution is None:
        return np.array(layer["touched"])
    distribution = distribution or layer["distribution"]
    counts = {"balanced": routing.most_experts_touched, "uniform": routing.experts_touched,
              "power law": routing.experts_touched}
    if distribution not in counts:
        raise ValueError(f"distribution must be one of {', '.join(counts)}, got {distribution!r}")
    return counts[distribution](layer["num_experts"], layer["top_k"], np.array(layer["num_tokens"]))


def limits(layer, touched=None):
    """(seconds to read, seconds to compute) that each batch of a layer takes at published peaks [n].

    U experts of three d x f matrices are read once, 3 U d f w bytes; B k tokens are computed, 6 B k d f FLOP.

    Parameters
    ----------
    layer : dict
    touched : array_like [n], optional
        Experts read, in place of `experts_touched`.

    Notes
    -----
    Source: notebook 05, eq. 5.1. No activations, no router.

    >>> layer = timed(device="h200", framework="SGLang 0.5.10", model="deepseek-v3", dtype="bf16")[0].data
    >>> read, compute = limits(layer)
    >>> print(f"{1e3 * read[5]:.2f} ms, {1e3 * compute[5]:.3f} ms for {layer['num_tokens'][5]} tokens")
    4.70 ms, 0.023 ms for 32 tokens
    """
    touched = experts_touched(layer) if touched is None else touched
    tokens, size = np.array(layer["num_tokens"]), 3 * layer["d_model"] * layer["d_expert"]
    bytes_per_s, flops_per_s = _peaks(layer)
    read = touched * size * layer["weight_bytes"] / bytes_per_s
    return np.broadcast_arrays(read, 2 * tokens * layer["top_k"] * size / flops_per_s)


def _peaks(layer):
    if "device" not in layer:
        return layer["bytes_per_s"], layer["flops_per_s"]
    device = DEVICES[layer["device"]]
    return device.bandwidth_bytes_per_s, device.peak(device.arithmetic(layer["weight_bytes"]))


def limit(layer, touched=None):
    """Seconds that each batch of a layer takes at least [n]: the greater of its two `limits`.

    >>> layer = timed(device="h200", framework="SGLang 0.5.10", model="deepseek-v3", dtype="bf16")[0].data
    >>> print(f"{layer['latency_s'][5] / limit(layer)[5]:.2f}")
    1.42
    """
    return np.maximum(*limits(layer, touched))


def over_limit(layer):
    """Measured time over `limit` [n]."""
    return np.array(layer["latency_s"]) / limit(layer)


def impossible(layer):
    """Which times of a layer lie below `SURE` of their limit [n]: less was read than the input is said to touch.

    Only where peaks are published and the experts touched are known: neither for a power law nor for a reader's own.
    """
    return (over_limit(layer) < SURE) & (layer.get("distribution") == "balanced")


def slow(layer):
    """Whether a shipped layer takes more than `SLOW` times its limit at every batch up to 256."""
    return "device" in layer and bool(np.all(over_limit(layer)[np.array(layer["num_tokens"]) <= 256] > SLOW))


def trusted(layer):
    """Which times of a layer may enter a fit [n]: possible, not slow, at most `LARGEST` tokens."""
    return ~impossible(layer) & (not slow(layer)) & (np.array(layer["num_tokens"]) <= LARGEST)


def fit(layers, count=experts_touched):
    """Two constants for many layers at once, from their `trusted` times: (t0 in seconds, efficiency).

    Parameters
    ----------
    layers : list of dict
    count : callable
        Experts that a layer is taken to read, `experts_touched` or a rival.

    Notes
    -----
    Source: notebook 05, eq. 5.2 (`roofline.fit_overhead`).
    """
    pairs = [(limit(layer, count(layer))[trusted(layer)], np.array(layer["latency_s"])[trusted(layer)])
             for layer in layers]
    return fit_overhead(*(np.concatenate(part) for part in zip(*pairs, strict=True)))


@cache
def constants(framework):
    """The two constants of a serving framework, any version: fitted on balanced times of `FITTED_ON`, H100 and H200.

    Raises
    ------
    ValueError
        If the framework is not one of those timed: TRT-LLM, SGLang, vLLM.

    >>> t0, efficiency = constants("TRT-LLM")
    >>> print(f"{t0 * 1e6:.0f} us, {efficiency:.2f}")
    31 us, 0.87
    """
    known = [layer for layer in layers(distribution="balanced", device=("h100", "h200"), model=FITTED_ON)
             if layer["framework"].split()[0] == framework.split()[0]]
    if not known:
        raise ValueError(f"framework must be TRT-LLM, SGLang or vLLM, got {framework!r}")
    return fit(known)


def cause(layer):
    """Why each time of a shipped layer may miss the constants of its framework [n]: the first cause that applies.

    Elsewhere: on an A100 or a B200, or in a version that the constants were not fitted on.
    """
    tokens = np.array(layer["num_tokens"])
    elsewhere = layer["device"] not in ("h100", "h200") or layer["framework"] == "SGLang 0.5.14"
    causes = {"below the limit": impossible(layer), "slow kernel": np.full(tokens.shape, slow(layer)),
              f"above {LARGEST} tokens": tokens > LARGEST,
              "power law": np.full(tokens.shape, layer["distribution"] != "balanced"),
              "balanced, elsewhere": np.full(tokens.shape, elsewhere)}
    same = "balanced, models fitted" if layer["model"] in FITTED_ON else "balanced, two others"
    return np.select(list(causes.values()), list(causes), same)


def predicted(layer, fitted, count=experts_touched):
    """Seconds by limit and two constants [n]: t0 + limit / efficiency."""
    t0, efficiency = fitted
    return t0 + limit(layer, count(layer)) / efficiency


def misses(layers, fitted, count=experts_touched):
    """Measured over predicted time, for every trusted time of layers."""
    return np.concatenate([(layer["latency_s"] / predicted(layer, fitted, count))[trusted(layer)] for layer in layers])


def error(layers, fitted, count=experts_touched):
    """Mean of |log(predicted / measured)| over the trusted times of layers: 0.06 is an error of about 6 %."""
    return float(np.mean(np.abs(np.log(misses(layers, fitted, count)))))


def share_of_all(layer, fitted):
    """(tokens per expert B k / E, fitted share of the experts read by time) [n].

    The share is (t - t0) efficiency over the time to read all experts; nan where arithmetic takes longer than reading,
    since the share does not set the time there.

    Notes
    -----
    Source: notebook 05, eq. 5.3. Every layer and device follows one curve for each kind of routing.
    """
    t0, efficiency = fitted
    read, compute = limits(layer)
    everything = limits(layer, layer["num_experts"])[0]
    share = np.where(read > compute, (np.array(layer["latency_s"]) - t0) * efficiency / everything, np.nan)
    return np.array(layer["num_tokens"]) * layer["top_k"] / layer["num_experts"], share
