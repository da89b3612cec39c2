"""The same layer on a CUDA GPU: grouped matrix products, fused Triton kernels, ceilings, copies over the link.

A timing is the replay of a CUDA graph between two events, after reading four times the second-level cache, so that no
weight is found there and the launch is hidden behind that read. Inside a forward pass nothing waits for the host.
"""

from functools import cached_property, partial
from time import perf_counter

import numpy as np

from ..hardware import DEVICES, LINKS
from . import triton_kernels

try:
    import torch
except ImportError:  # collecting doctests imports every module; a Layer needs it
    torch = None

PROBE_BYTES = 1 << 29
LARGEST_COPY = 1 << 28
SQUARES = (4096, 8192)  # sides of the matrices behind the peak
REPLAYS = 3
NAMES = {  # as the driver spells them -> rows of data/hardware/devices.csv; others have no published figures here
    "NVIDIA A100-SXM4-40GB": "a100-40gb", "NVIDIA A100-SXM4-80GB": "a100-80gb", "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H100 PCIe": "h100-pcie", "NVIDIA H20": "h20", "NVIDIA H800": "h800", "NVIDIA H200": "h200",
    "NVIDIA B200": "b200", "NVIDIA GB200": "gb200", "NVIDIA B300 SXM6 AC": "b300", "NVIDIA L40S": "l40s",
    "NVIDIA GeForce RTX 3090": "rtx-3090", "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
}  # fmt: skip


def published(name, dtype):
    """(bytes/s, FLOP/s, bytes/s of the host link) of a device as its driver names it; None where not known.

    >>> print(published("NVIDIA H200", "bf16"))
    (4800000000000.0, 989000000000000.0, 63015384615.0)
    """
    device = DEVICES.get(NAMES.get(name))
    if device is None:
        return None, None, None
    flops = device.peak_flops_per_s.get("bf16") if dtype in ("bf16", "fp16") else None  # fp16 runs at the rate of bf16
    return device.bandwidth_bytes_per_s, flops, LINKS[device.host_link].bytes_per_s


class Layer:
    """Weights of one layer on a GPU. The interface of `cpu.Layer`; arrays that come from NumPy are moved there.

    Parameters
    ----------
    num_experts, top_k, d_model, d_expert : int
    dtype : {"bf16", "fp16", "fp32"}
    seed : int
    device : {"cuda", "cpu"}
        "cpu" is for tests: the same code on the CPU, Triton interpreted where TRITON_INTERPRET=1.

    Attributes
    ----------
    kernels : list of str
        The ways to compute a forward pass here, all of them timed.
    kernel : str
        The one that was fastest when a forward pass was last timed.
    """

    threads = 1

    def __init__(self, num_experts, top_k, d_model, d_expert, *, dtype="bf16", seed=0, device="cuda"):
        self.num_experts, self.top_k, self.d_model, self.d_expert = num_experts, top_k, d_model, d_expert
        self.device, self.dtype = device, dtype
        self.torch_dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[dtype]
        generator = torch.Generator(device).manual_seed(seed)
        normal = partial(torch.randn, generator=generator, device=device, dtype=self.torch_dtype)
        self.gate_up = normal(num_experts, 2 * d_expert, d_model).div_(d_model**0.5)
        self.down = normal(num_experts, d_model, d_expert).div_(d_expert**0.5)
        self.router = normal(num_experts, d_model)
        self.kernels = _kernels(device, dtype, d_model, d_expert)
        self.kernel = self.kernels[0]
        name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
        self.on, self.published = name, published(name, dtype)
        if device == "cuda":
            about = torch.cuda.get_device_properties(0)
            self.on += f", {about.total_memory / 2**30:.0f} GiB, {about.multi_processor_count} multiprocessors"
        triton = triton_kernels.triton
        self.software = (f"torch {torch.__version__}, CUDA {torch.version.cuda}, triton "
                         f"{triton.__version__ if triton else 'none'}; best of {', '.join(self.kernels)}")

    @property
    def expert_bytes(self):
        """Bytes of one expert."""
        return 3 * self.d_model * self.d_expert * self.gate_up.element_size()

    # timing

    def seconds(self, work, *arguments):
        """Least seconds of `work(*arguments)` on the device; a forward pass by its fastest kernel, see `kernel`."""
        arguments = [self._here(argument) for argument in arguments]
        if work != self.forward:
            return self._replayed(partial(work, *arguments))
        times = {kernel: self._replayed(partial(work, *arguments, kernel=kernel)) for kernel in self.kernels}
        self.kernel = min(times, key=times.get)
        return times[self.kernel]

    def _replayed(self, work):
        if self.device == "cpu":
            start = perf_counter()
            work()
            return perf_counter() - start
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):  # compiles kernels, sets up libraries
            work()
            work()
        torch.cuda.current_stream().wait_stream(self._side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        try:
            return self._timed(graph.replay)
        finally:
            graph.reset()  # gives its memory back

    def _timed(self, run):
        """Least seconds of a few runs, each with a cold second-level cache; the first one warms up."""
        times = []
        for _ in range(REPLAYS + 1):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self._evict.sum()  # reads: lines that were written would have to be written back during the timing
            start.record()
            run()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) / 1e3)
        return min(times[1:])

    @cached_property
    def _evict(self):
        size = max(4 * torch.cuda.get_device_properties(0).L2_cache_size, 1 << 28)
        return torch.randn(size // 4, device=self.device)

    @cached_property
    def _side(self):
        return torch.cuda.Stream()

    # ceilings

    def bandwidth(self, rng):
        """Bytes/s of passing over a random part of the weights: best of a copy, a sum, a Triton kernel that sums."""
        weights = self.gate_up.view(-1).view(torch.float32)
        size = min(PROBE_BYTES // 4, weights.numel()) // triton_kernels.READ * triton_kernels.READ
        start = int(rng.integers(0, (weights.numel() - size) // 4 + 1)) * 4  # sixteen bytes
        part = weights[start:start + size]
        into, sums = self._probe[0][:size], self._probe[1]
        ways = {"copy": (2, partial(into.copy_, part)), "sum": (1, part.sum)}
        if "triton 16x16" in self.kernels:
            ways["triton"] = (1, partial(triton_kernels.total, part, sums))
        return max(4 * size * passes / self._replayed(run) for passes, run in ways.values())

    @cached_property
    def _probe(self):
        values = min(PROBE_BYTES // 4, self.gate_up.numel() * self.gate_up.element_size() // 4)
        return (torch.empty(values, device=self.device),
                torch.empty(-(-values // triton_kernels.READ), device=self.device))

    def peak(self):
        """FLOP/s of square matrix products: the best of two sizes."""
        return max(2 * a.shape[0]**3 / self._replayed(partial(torch.mm, a, b, out=out)) for a, b, out in self._squares)

    @cached_property
    def _squares(self):
        sides = SQUARES if self.device == "cuda" else (256,)
        return [[torch.randn(side, side, device=self.device).to(self.torch_dtype) for _ in range(3)] for side in sides]

    # the layer

    def inputs(self, rng, experts):
        """Random activations and gate values for experts chosen [tokens, k], on the device."""
        generator = torch.Generator(self.device).manual_seed(int(rng.integers(2**62)))
        x = torch.randn(len(experts), self.d_model, generator=generator, device=self.device)
        gates = torch.rand(experts.shape, generator=generator, device=self.device)
        return x.to(self.torch_dtype), gates / gates.sum(1, keepdim=True)

    def route(self, x):
        """The k best experts of each token by the router's scores."""
        return torch.topk(x @ self.router.T, self.top_k, sorted=False).indices

    def permute(self, experts):
        """(order of the pairs, where each expert's begin [E + 1]): rows grouped by expert."""
        return self._permute(self._here(experts), self.num_experts)

    def forward(self, x, experts, gates, weights=None, kernel=None):
        """The layer's output [tokens, d]; `weights` are slots in place of the layer's own experts.

        `kernel` is one of `kernels`, None the fastest of the last timing.
        """
        gate_up, down = (self.gate_up, self.down) if weights is None else weights
        x, experts, gates = (self._here(argument) for argument in (x, experts, gates))
        kernel = kernel or self.kernel
        if kernel != "grouped_mm":
            return triton_kernels.forward(x, experts, gates, gate_up, down, kernel)
        order, bounds = self._permute(experts, len(gate_up))
        order = order.long()
        gate, up = _grouped(x[order // experts.shape[1]], gate_up, bounds[1:]).chunk(2, dim=1)
        rows = _grouped(torch.nn.functional.silu(gate) * up, down, bounds[1:]) * gates.reshape(-1)[order, None]
        out = torch.empty_like(rows, dtype=self.torch_dtype)
        out[order] = rows.to(self.torch_dtype)
        return out.view(*experts.shape, self.d_model).sum(1)

    def _permute(self, experts, num_experts):
        if "triton 16x16" in self.kernels:
            return triton_kernels.permute(experts, num_experts)
        ordered, order = torch.sort(experts.reshape(-1), stable=True)
        each = torch.arange(num_experts + 1, device=self.device, dtype=ordered.dtype)
        return order.int(), torch.searchsorted(ordered, each, out_int32=True)

    # the link

    def links(self):
        """Ways to copy from the host: {name: seconds of copying so many bytes}."""
        pageable = torch.from_numpy(np.random.default_rng(0).integers(0, 256, LARGEST_COPY, np.uint8))
        into = torch.empty_like(pageable, device=self.device)
        ways = {"pageable": lambda size: self._copied([(into[:size], pageable[:size])])}
        if self.device == "cuda":
            pinned = pageable.pin_memory()
            ways["pinned"] = lambda size: self._copied([(into[:size], pinned[:size])])
            ways["pinned beside a matrix product"] = lambda size: self._overlapped(into[:size], pinned[:size])
        return ways

    @cached_property
    def link_bytes_per_s(self):
        """Bytes/s of a large copy from pinned memory: the best of five."""
        ways = self.links()
        copy = ways.get("pinned", ways["pageable"])
        return LARGEST_COPY / min(copy(LARGEST_COPY) for _ in range(5))

    def slots(self, count):
        """Room on the device for so many experts, filled with the first ones."""
        return self.gate_up[:count].clone(), self.down[:count].clone()

    def fetch(self, slots, slot, expert):
        """Copy an expert from pinned memory of the host into a slot; seconds."""
        return self._copied([(into[slot], weights[expert]) for into, weights in zip(slots, self._host, strict=True)])

    @cached_property
    def _host(self):
        weights = [part.cpu() for part in (self.gate_up, self.down)]
        return [part.pin_memory() for part in weights] if self.device == "cuda" else [part.clone() for part in weights]

    def _copied(self, pairs):
        """Seconds of copies, one after the other, on the current stream."""
        if self.device == "cpu":
            return self._replayed(lambda: [into.copy_(values) for into, values in pairs])
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for into, values in pairs:
            into.copy_(values, non_blocking=True)
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    def _overlapped(self, into, values):
        """Seconds of a copy on a stream of its own while matrix products keep the device busy on another."""
        a, b, out = self._squares[0]
        first, last = (torch.cuda.Event() for _ in range(2))
        first.record()
        for _ in range(4 + (values.numel() >> 20)):  # longer than the copy takes: a product takes over 0.1 ms
            torch.mm(a, b, out=out)
        last.record()
        self._side.wait_event(first)
        with torch.cuda.stream(self._side):
            seconds = self._copied([(into, values)])
        if last.query():
            raise RuntimeError(f"the matrix products ended before the copy of {values.numel()} bytes beside them")
        torch.cuda.synchronize()
        return seconds

    def _here(self, argument):
        if isinstance(argument, np.ndarray):
            argument = torch.from_numpy(argument).to(self.device)
        whole = isinstance(argument, torch.Tensor) and argument.dtype == torch.int64
        return argument.int() if whole else argument


def _kernels(device, dtype, d_model, d_expert):
    """Names of the kernels that run here without asking the host in between."""
    names = list(triton_kernels.TILES) if triton_kernels.runs_on(device) else []
    if device == "cpu":
        return ["grouped_mm", *(names if dtype != "bf16" else [])]  # the interpreter has no bf16 products
    # Elsewhere torch falls back to a loop on the host, which no graph can hold (aten/src/ATen/native/GroupedMMUtils.h).
    if dtype == "bf16" and torch.cuda.get_device_capability()[0] in (9, 10) and d_model % 8 == d_expert % 8 == 0:
        names.append("grouped_mm")
    if not names:
        raise RuntimeError(f"no kernel for {dtype} on {torch.cuda.get_device_name()}: install triton (the extra gpu)")
    return names


def _grouped(x, weights, ends):
    """x @ weights.T, expert by expert; `ends` are where their rows end."""
    product = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm  # torch 2.9
    return product(x, weights.transpose(-2, -1), offs=ends)
