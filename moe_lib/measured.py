"""Timed layers of routed experts: which experts each input touches, their limits, and rows that cannot be trusted.

NVIDIA timed the shipped layers (`layers`, from ``data/measured/moe_kernels.jsonl``); `moe_lib.bench` times those of the
reader's own machine (`from_bench`). Both are a `TimedLayer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import routing
from ._arguments import ABOVE_ZERO, Numbers, require
from ._show import counted
from .hardware import DEVICES
from .models import CATALOG
from .records import Record, shipped
from .roofline import fit_overhead

SURE = 0.95  # of a limit: below it a time is impossible, whatever the doubts about peaks and clocks
SLOW = 4  # times the limit at every batch up to 256: not the kernel that one would serve with
FITTED_ON = ("mixtral-8x7b", "qwen3-30b-a3b")
ROUTINGS = {"balanced": routing.most_experts_touched, "uniform": routing.experts_touched,
            "power law": routing.experts_touched}  # experts that an input is taken to touch
LARGEST = 512  # tokens up to which reading, not arithmetic, is what the timed layers wait for


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TimedLayer:
    """A layer of routed experts, and how long it took by batch.

    Arrays are read-only. A shipped layer names a device and a distribution. One of the reader's own machine has
    ceilings measured in the same run, and the experts counted.

    Attributes
    ----------
    num_experts, top_k, d_model, d_expert : int
        E, k, d and f.
    weight_bytes : float
        w, bytes per weight.
    num_tokens : ndarray of int [n]
        B of each batch.
    latency_s : ndarray [n]
        Seconds that it took.
    device, model, framework, dtype : str
        What ran where: slugs of `hardware.DEVICES` and `models.CATALOG`, software with its version, format of weights.
    distribution : str
        How the input was routed: "balanced", "uniform" or "power law".
    exponent : float or None
        Of a power law.
    bytes_per_s, flops_per_s : float or ndarray [n], optional
        Ceilings; None means the published peaks of the device.
    touched : ndarray of int [n], optional
        Experts counted in each batch.

    Raises
    ------
    ValueError
        If a time is not positive, or the arrays are not equally long.

    >>> print(layers(device="h200", framework="SGLang 0.5.10", model="deepseek-v3", dtype="bf16")[0])
    TimedLayer(deepseek-v3 on h200, SGLang 0.5.10, bf16, balanced: 13 times, 1 to 16,384 tokens)
    """

    num_experts: int
    top_k: int
    d_model: int
    d_expert: int
    weight_bytes: float
    num_tokens: Numbers
    latency_s: Numbers
    device: str = ""
    model: str = ""
    framework: str = ""
    dtype: str = ""
    distribution: str = ""
    exponent: float | None = None
    bytes_per_s: Numbers | None = None
    flops_per_s: Numbers | None = None
    touched: Numbers | None = None

    def __post_init__(self):
        for name, low, high in (("num_experts", 1, None), ("top_k", 1, self.num_experts), ("d_model", 1, None),
                                ("d_expert", 1, None)):
            require(name, getattr(self, name), low, high, whole=True, one=True)
        require("weight_bytes", self.weight_bytes, ABOVE_ZERO, one=True)
        if self.device:
            object.__setattr__(self, "device", DEVICES.slug(self.device))
        if self.distribution not in ("", *ROUTINGS):
            raise ValueError(f"distribution must be one of {', '.join(ROUTINGS)}, got {self.distribution!r}")
        checked = {"num_tokens": require("num_tokens", self.num_tokens, 1, whole=True),
                   "latency_s": require("latency_s", self.latency_s, ABOVE_ZERO)}
        if self.touched is not None:
            checked["touched"] = require("touched", self.touched, 0, self.num_experts, whole=True)
        if len({np.shape(value) for value in checked.values()}) > 1:
            raise ValueError(f"{', '.join(checked)} must be equally long, got "
                             f"{', '.join(str(np.shape(value)) for value in checked.values())}")
        for name, value in checked.items():
            if isinstance(value, np.ndarray):
                value = value.copy()
                value.setflags(write=False)
            object.__setattr__(self, name, value)

    def __repr__(self):
        what = f"{self.top_k} of {self.num_experts} experts of {self.d_model:,} x {self.d_expert:,}"
        if self.device:
            what = f"{self.model} on {self.device}, {self.framework}, {self.dtype}, {self.distribution}"
        found = np.unique(self.num_tokens)
        ends = dict.fromkeys(f"{of:,}" for of in found[[0, -1]]) if found.size else ["0"]
        return (f"TimedLayer({what}: {counted(np.size(self.num_tokens), 'time')}, "
                f"{' to '.join(ends)} {'token' if [*ends] == ['1'] else 'tokens'})")

    def at(self, tokens: ArrayLike) -> TimedLayer:
        """The layer at one of its batches, every field a number; or at several, in the order given.

        Raises
        ------
        ValueError
            If a batch was not timed.

        >>> layer = layers(device="h200", framework="SGLang 0.5.10", model="deepseek-v3", dtype="bf16")[0]
        >>> print(f"{1e3 * layer.at(64).latency_s:.2f} ms, {layer.at(64).over_limit:.2f} times the limit")
        5.33 ms, 1.13 times the limit
        """
        found = np.equal(self.num_tokens, np.asarray(tokens)[..., None])
        if not found.any(-1).all():
            timed = ", ".join(map(str, np.atleast_1d(self.num_tokens)))
            raise ValueError(f"tokens must be among those timed, {timed}, got {tokens!r}")
        return self._keep(found.argmax(-1))

    def up_to(self, most: float) -> TimedLayer:
        """The layer at its batches of at most so many tokens."""
        return self._keep(self.num_tokens <= most)

    def _keep(self, where):
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: value[where] for name, value in found.items() if np.ndim(value)})

    @property
    def peaks(self) -> tuple[Numbers, Numbers]:
        """(bytes/s, FLOP/s): the ceilings measured beside the layer, or the published peaks of its device."""
        if self.bytes_per_s is not None and self.flops_per_s is not None:
            return self.bytes_per_s, self.flops_per_s
        device = DEVICES[self.device]
        return device.bandwidth_bytes_per_s, device.peak(device.arithmetic(self.weight_bytes))

    def experts_touched(self, distribution: str | None = None) -> Numbers:
        """Experts that each batch touches [n]: counted, or by the routing that was timed, or by another.

        Balanced inputs are strided and touch the most possible; uniform ones E C(B), expected. How many a power-law
        input touches was not recorded: E C(B), the most that independent tokens touch in the mean.

        Raises
        ------
        ValueError
            If the distribution is none of the three.

        >>> layer = layers(device="h200", framework="SGLang 0.5.10", model="deepseek-v3", dtype="bf16")[0]
        >>> print(layer.at(32).experts_touched(), layer.at(32).experts_touched("uniform").round(1))
        256.0 163.3
        """
        if self.touched is not None and distribution is None:
            return self.touched
        distribution = distribution or self.distribution
        if distribution not in ROUTINGS:
            raise ValueError(f"distribution must be one of {', '.join(ROUTINGS)}, got {distribution!r}")
        return ROUTINGS[distribution](self.num_experts, self.top_k, self.num_tokens)

    def limits(self, touched: ArrayLike | None = None) -> tuple[Numbers, Numbers]:
        """(seconds to read, seconds to compute) of each batch, at the layer's `peaks` [n].

        U experts of three d x f matrices are read once, 3 U d f w bytes; B k tokens are computed, 6 B k d f FLOP.

        Parameters
        ----------
        touched : array_like [n], optional
            Experts read, in place of `experts_touched`.

        Notes
        -----
        Source: notebook 05, eq. 5.1. No activations, no router.

        >>> layer = layers(device="h200", framework="SGLang 0.5.10", model="deepseek-v3", dtype="bf16")[0]
        >>> read, compute = layer.at(32).limits()
        >>> print(f"{1e3 * read:.2f} ms, {1e3 * compute:.3f} ms")
        4.70 ms, 0.023 ms
        """
        touched = self.experts_touched() if touched is None else touched
        size, (bytes_per_s, flops_per_s) = 3 * self.d_model * self.d_expert, self.peaks
        read = np.multiply(touched, size * self.weight_bytes) / bytes_per_s
        read, compute = np.broadcast_arrays(read, 2 * self.num_tokens * self.top_k * size / flops_per_s)
        return read, compute

    def limit(self, touched: ArrayLike | None = None) -> Numbers:
        """Seconds that each batch takes at least if it touches `experts_touched` [n]: the greater of its `limits`.

        A power-law input may touch fewer, so this is no limit there. One for every routing is ``limit(layer.top_k)``.
        """
        return np.maximum(*self.limits(touched))

    @property
    def over_limit(self) -> Numbers:
        """Measured time over `limit` [n]."""
        return self.latency_s / self.limit()

    @property
    def impossible(self) -> NDArray[np.bool_]:
        """Which times lie below `SURE` of their limit [n]: less was read than the input is said to touch.

        Only where peaks are published and the experts touched known: neither for a power law nor for a reader's own.
        """
        return np.asarray(self.over_limit < SURE) & (self.distribution == "balanced")

    @property
    def slow(self) -> bool:
        """Whether a shipped layer takes more than `SLOW` times its limit at every batch up to 256."""
        return bool(self.device and np.all(self.up_to(256).over_limit > SLOW))

    @property
    def trusted(self) -> NDArray[np.bool_]:
        """Which times may enter a fit [n]: possible, not slow, at most `LARGEST` tokens."""
        return ~self.impossible & (not self.slow) & (self.num_tokens <= LARGEST)

    @property
    def cause(self) -> NDArray[np.str_]:
        """Why each time of a shipped layer may miss the constants of its framework [n]: the first cause that applies.

        Elsewhere: on an A100 or a B200, or in a version that the constants were not fitted on.
        """
        elsewhere = self.device not in ("h100", "h200") or self.framework == "SGLang 0.5.14"
        causes: dict[str, Any] = {"below the limit": self.impossible, "slow kernel": self.slow,
                  f"above {LARGEST} tokens": self.num_tokens > LARGEST,
                  "power law": self.distribution != "balanced", "balanced, elsewhere": elsewhere}
        same = "balanced, models fitted" if self.model in FITTED_ON else "balanced, two others"
        return np.select(np.broadcast_arrays(*causes.values()), list(causes), same)

    def predicted(self, fitted: tuple[float, float], touched: ArrayLike | None = None) -> Numbers:
        """Seconds by `limit` and two constants [n]: t0 + limit / efficiency."""
        t0, efficiency = fitted
        return t0 + self.limit(touched) / efficiency

    def share_of_all(self, fitted: tuple[float, float]) -> tuple[Numbers, Numbers]:
        """(tokens per expert B k / E, fitted share of the experts read by time) [n].

        The share is (t - t0) efficiency over the time to read all experts; nan where arithmetic takes longer than
        reading, since the share does not set the time there.

        Notes
        -----
        Source: notebook 05, eq. 5.3. Every layer and device follows one curve for each kind of routing.
        """
        (t0, efficiency), (read, compute) = fitted, self.limits()
        share = (self.latency_s - t0) * efficiency / self.limits(self.num_experts)[0]
        return routing.tokens_per_expert(self.num_experts, self.top_k, self.num_tokens), np.where(
            read > compute, share, np.nan)


def layers(**chosen: Any) -> list[TimedLayer]:
    """Shipped layers whose fields have the values chosen: device, framework, dtype, model, distribution.

    Each is one value, or a tuple of those allowed.

    Raises
    ------
    ValueError
        If there is no such layer.

    >>> found = layers(device="h200", framework="SGLang 0.5.10", dtype="bf16", distribution="balanced")
    >>> print(*(layer.model for layer in found))
    deepseek-v3 mixtral-8x7b qwen3-30b-a3b qwen3-235b-a22b
    """
    slugs = {"device": DEVICES.slug, "model": CATALOG.slug}
    allowed = {key: value if isinstance(value, tuple) else (value,) for key, value in chosen.items()}
    allowed |= {key: tuple(slug(of) for of in allowed[key]) for key, slug in slugs.items() if key in allowed}
    found = [of for of in _all() if all(getattr(of, key, None) in values for key, values in allowed.items())]
    if not found:
        raise ValueError(f"no timed layer has {', '.join(f'{key} = {value!r}' for key, value in chosen.items())}")
    return found


@cache
def _all():
    return tuple(TimedLayer(**record.data) for record in shipped("moe_kernels"))


def samples(record: Record) -> list[TimedLayer]:
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
    return [TimedLayer(**layer, num_tokens=np.full(len(touched), tokens), touched=touched, latency_s=seconds)
            for tokens, touched, seconds in zip(data["batch"], data["touched"], data["seconds"], strict=True)]


def from_bench(record: Record) -> TimedLayer:
    """A layer that `moe_lib.bench` timed, by batch the sample that comes closest to its limit; errors as `samples`."""
    batches = samples(record)
    best = [np.argmin(batch.over_limit) for batch in batches]
    kept: dict[str, Any] = {key: [getattr(batch, key)[at] for batch, at in zip(batches, best, strict=True)]
                            for key in ("num_tokens", "touched", "latency_s")}
    return replace(batches[0], **kept)


def fit(layers: Iterable[TimedLayer],
        count: Callable[[TimedLayer], ArrayLike] = TimedLayer.experts_touched) -> tuple[float, float]:
    """Two constants for many layers at once, from their `trusted` times: (t0 in seconds, efficiency).

    Parameters
    ----------
    layers : list of TimedLayer
    count : callable
        Experts that a layer is taken to read, `TimedLayer.experts_touched` or a rival.

    Notes
    -----
    Source: notebook 05, eq. 5.2 (`roofline.fit_overhead`).
    """
    pairs = [(np.asarray(layer.limit(count(layer)))[layer.trusted], np.asarray(layer.latency_s)[layer.trusted])
             for layer in layers]
    return fit_overhead(*(np.concatenate(part) for part in zip(*pairs, strict=True)))


@cache
def constants(framework: str) -> tuple[float, float]:
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
             if layer.framework.split()[0].lower() == str(framework).partition(" ")[0].lower()]
    if not known:
        raise ValueError(f"framework must be TRT-LLM, SGLang or vLLM, got {framework!r}")
    return fit(known)


def misses(layers: Iterable[TimedLayer], fitted: tuple[float, float],
           count: Callable[[TimedLayer], ArrayLike] = TimedLayer.experts_touched) -> NDArray[np.float64]:
    """Measured over predicted time, for every trusted time of layers."""
    return np.concatenate([np.asarray(layer.latency_s / layer.predicted(fitted, count(layer)))[layer.trusted]
                           for layer in layers])


def error(layers: Iterable[TimedLayer], fitted: tuple[float, float],
          count: Callable[[TimedLayer], ArrayLike] = TimedLayer.experts_touched) -> float:
    """Mean of |log(predicted / measured)| over the trusted times of layers: 0.06 is an error of about 6 %."""
    return float(np.mean(np.abs(np.log(misses(layers, fitted, count)))))
