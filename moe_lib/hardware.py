"""Published peaks of devices and links. Facts are rows of ``data/hardware``, each with its sources and doubts."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import ArrayLike

from ._arguments import Numbers, require
from ._names import Names
from ._show import number, table

GPUS_PER_NODE = 8  # of the servers that the devices are sold in
USABLE_SHARE = 0.9  # of what a driver shows; activations, buffers and the framework take the rest


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Device:
    """One accelerator, or a CPU socket, as published: dense peaks, theoretical bandwidth.

    Attributes
    ----------
    slug, name : str
    memory_bytes : int
        The number sold, read as GiB.
    visible_bytes : int
        What its driver shows before any use: ask this one whether something fits. `memory_bytes` where not published.
    bandwidth_bytes_per_s : float
        Of the local memory, reads and writes together. Kernels reach 80 to 92 % of it.
    peak_flops_per_s : dict of str to float
        By number format (bf16, fp8, fp4): matrix units, no sparsity, FP32 accumulation. Empty where none is published.
    l2_bytes : int or None
    host_link : str or None
        Key into `LINKS`; None for unified memory and CPUs.
    sources : tuple of str
    single_source : tuple of str
        Fields with fewer than two sources: provisional.
    note : str
        What is disputed, and traps seen in other tables.
    """

    slug: str
    name: str
    memory_bytes: int
    visible_bytes: int
    bandwidth_bytes_per_s: float
    peak_flops_per_s: dict[str, float]
    l2_bytes: int | None
    host_link: str | None
    sources: tuple[str, ...]
    single_source: tuple[str, ...]
    note: str

    def __repr__(self):
        peaks = [f"{number(peak, 'FLOP/s')} {dtype}" for dtype, peak in self.peak_flops_per_s.items()]
        return ", ".join([f"Device({self.name}: {number(self.visible_bytes, 'B')}",
                          number(self.bandwidth_bytes_per_s, "B/s"), *peaks]) + ")"

    def _repr_html_(self):
        peaks = {f"peak, {dtype}": number(peak, "FLOP/s") for dtype, peak in self.peak_flops_per_s.items()}
        return table(self.name, {
            "memory, as its driver shows it": number(self.visible_bytes, "B"), "usable": number(self.usable_bytes, "B"),
            "bandwidth": number(self.bandwidth_bytes_per_s, "B/s"), **peaks,
            "link to the host": self.host_link or "none", "note": self.note or "none"})

    @property
    def usable_bytes(self) -> float:
        """Bytes that weights and caches may take: `USABLE_SHARE` of what the driver shows."""
        return USABLE_SHARE * self.visible_bytes

    def arithmetic(self, weight_bytes: float) -> str:
        """Number format that weights of this size are multiplied in: fp8 for 8 bits (and scales) if it can, else bf16.

        >>> print(DEVICES["h200"].arithmetic(1), DEVICES["a100-80gb"].arithmetic(1), DEVICES["h200"].arithmetic(0.5))
        fp8 bf16 bf16
        """
        return "fp8" if 1 <= weight_bytes < 1.1 and "fp8" in self.peak_flops_per_s else "bf16"

    def peak(self, dtype: str = "bf16") -> float:
        """Peak FLOP/s of number format `dtype`.

        Raises
        ------
        ValueError
            If the device has no published peak for it; names those that it has.

        >>> print(DEVICES["h200"].peak())
        989000000000000.0
        >>> DEVICES["a100-80gb"].peak("fp8")
        Traceback (most recent call last):
        ValueError: dtype must be one of bf16 on a100-80gb, got 'fp8'
        """
        if not isinstance(dtype, str) or dtype not in self.peak_flops_per_s:
            known = ", ".join(self.peak_flops_per_s) or "(no peak is published)"
            raise ValueError(f"dtype must be one of {known} on {self.slug}, got {dtype!r}")
        return self.peak_flops_per_s[dtype]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Link:
    """One way of a link, as published: bytes/s one way (`*-achieved` rows are measurements), latency of 64 bytes.

    `adds_in_switch`: its switch can add up what GPUs send (NVLink SHARP, from NVLink 4 on).
    """

    slug: str
    name: str
    bytes_per_s: float
    latency_s: float | None
    adds_in_switch: bool = False
    sources: tuple[str, ...]
    note: str

    def __repr__(self):
        latency = "latency not published" if self.latency_s is None else f"{number(self.latency_s, 's')} latency"
        return f"Link({self.name}: {number(self.bytes_per_s, 'B/s')} one way, {latency})"

    def _repr_html_(self):
        return table(self.name, {
            "one way": number(self.bytes_per_s, "B/s"),
            "latency": "not published" if self.latency_s is None else number(self.latency_s, "s"),
            "note": self.note or "none"})


def devices_needed(num_bytes: ArrayLike, device: Device | str) -> Numbers:
    """Least number of devices whose usable bytes hold `num_bytes`, split evenly and nothing held twice.

    Raises
    ------
    ValueError
        If num_bytes is negative.

    >>> print(devices_needed(1342e9, DEVICES["h200"]))
    10
    """
    return np.ceil(require("num_bytes", num_bytes, 0) / find_device(device).usable_bytes).astype(np.int64)


def _rows(name):
    with (resources.files(__package__) / "data" / "hardware" / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _device(row):
    peaks = {dtype: float(row[f"peak_flops_{dtype}"]) for dtype in ("bf16", "fp8", "fp4") if row[f"peak_flops_{dtype}"]}
    return Device(
        slug=row["device"], name=row["name"], memory_bytes=int(row["memory_bytes"]),
        visible_bytes=int(row["memory_visible_bytes"] or row["memory_bytes"]),
        bandwidth_bytes_per_s=float(row["bandwidth_bytes_per_s"]), peak_flops_per_s=peaks,
        l2_bytes=int(row["l2_bytes"]) if row["l2_bytes"] else None, host_link=row["host_link"] or None,
        sources=(row["source1"], row["source2"]), note=row["note"],
        single_source=tuple(filter(None, row["single_source_fields"].split(";"))))


def _link(row):
    return Link(slug=row["link"], name=row["name"], bytes_per_s=float(row["bytes_per_s_per_direction"]),
                latency_s=float(row["latency_s"]) if row["latency_s"] else None,
                adds_in_switch=row["adds_in_switch"] == "yes",
                sources=tuple(filter(None, (row["source1"], row["source2"]))), note=row["note"])


DEVICES: Names[Device] = Names("device", {row["device"]: _device(row) for row in _rows("devices.csv")})
LINKS: Names[Link] = Names("link", {row["link"]: _link(row) for row in _rows("links.csv")})


def find_device(device: Device | str) -> Device:
    """A Device as it is, or the one of `DEVICES` that is called so.

    Raises
    ------
    ValueError
        If it is neither; names the nearest.

    >>> print(find_device("H200").slug)
    h200
    """
    return DEVICES.find(device, Device)


def find_link(link: Link | str) -> Link:
    """A Link as it is, or the one of `LINKS` that is called so; errors as `find_device`.

    >>> print(find_link("NVLink4").slug)
    nvlink4
    """
    return LINKS.find(link, Link)
