"""An MoE layer on a CPU: kernels that read each touched expert once, and the ceilings to hold them against.

float32, gated experts (SiLU), weights [E, 2f, d] and [E, d, f]. Numba compiles the streaming kernels; without it the
matrix product of NumPy does all the work.
"""

import os
import platform
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from time import perf_counter, sleep

import numpy as np

FEW = 48  # tokens of an expert up to which streaming its rows beats a packed matrix product
PROBE_BYTES = 1 << 26
BLOCK_VALUES = 1 << 15  # of the weights, kept in the second-level cache
LINK_BYTES_PER_S = 2e9  # of the throttled copy that stands in for a link
SQUARE = 768  # side of the matrices behind the peak


class Layer:
    """Weights of one layer and the threads that work on it.

    Parameters
    ----------
    num_experts, top_k, d_model, d_expert : int
    threads : int
        Experts are dealt out to so many threads; the matrix library should use one each.
    seed : int
    """

    device, dtype = "cpu", "fp32"
    published = (None, None, None)  # bytes/s, FLOP/s, bytes/s of the link: not known for a processor at hand
    link_bytes_per_s = LINK_BYTES_PER_S

    def __init__(self, num_experts, top_k, d_model, d_expert, *, threads=1, seed=0):
        self.num_experts, self.top_k, self.d_model, self.d_expert = num_experts, top_k, d_model, d_expert
        self.threads, self.pool = threads, ThreadPoolExecutor(threads)
        rng, f, d = np.random.default_rng(seed), d_expert, d_model
        gate_up, down = (rng.standard_normal(shape, np.float32) / np.sqrt(shape[1], dtype=np.float32)
                         for shape in ((2 * f, d), (d, f)))
        self.gate_up = np.empty((num_experts, 2 * f, d), np.float32)
        self.down = np.empty((num_experts, d, f), np.float32)
        for e in range(num_experts):  # every page is written, no two experts are equal
            np.multiply(gate_up, 1 + e / num_experts, out=self.gate_up[e])
            np.multiply(down, 1 - e / (2 * num_experts), out=self.down[e])
        self.router = rng.standard_normal((num_experts, d), np.float32)
        self.square = [rng.standard_normal((SQUARE, SQUARE), np.float32) for _ in range(2 * threads)]
        self.on = _describe()
        self.software = f"numpy {np.__version__}, " + (f"numba {numba().__version__}" if numba() else "no numba")

    @property
    def kernel(self):
        """What computes a forward pass."""
        return "streaming" if numba() else "matrix product"

    @property
    def expert_bytes(self):
        """Bytes of one expert."""
        return 12 * self.d_model * self.d_expert

    def seconds(self, work, *arguments):
        """Seconds that `work(*arguments)` takes."""
        start = perf_counter()
        work(*arguments)
        return perf_counter() - start

    def bandwidth(self, rng):
        """Bytes/s of reading a random part of the weights, by the best of two kernels."""
        weights = self.gate_up.reshape(-1)
        size = min(PROBE_BYTES // 4, weights.size // self.threads)
        starts = rng.integers(0, weights.size - size + 1, self.threads)
        parts = [weights[start:start + size] for start in starts]
        kernels = [_product, *filter(None, [_kernels()["total"] if numba() else None])]
        return max(4 * size * self.threads / self.seconds(self._on_threads, kernel, parts) for kernel in kernels)

    def peak(self):
        """FLOP/s of a square matrix product on every thread."""
        return 2 * SQUARE**3 * self.threads / self.seconds(
            self._on_threads, np.matmul, self.square[::2], self.square[1::2])

    def inputs(self, rng, experts):
        """Random activations and gate values for experts chosen [tokens, k]."""
        x = rng.standard_normal((len(experts), self.d_model), np.float32)
        gates = rng.random(experts.shape, np.float32)
        return x, gates / gates.sum(axis=1, keepdims=True)

    def route(self, x):
        """Router scores and the k best experts of each token."""
        return np.argpartition(x @ self.router.T, -self.top_k, axis=1)[:, -self.top_k:]

    def permute(self, experts):
        """(order, token of each row, experts touched, where their rows begin): rows grouped by expert."""
        flat = experts.ravel()
        order = np.argsort(flat, kind="stable")
        touched, start = np.unique(flat[order], return_index=True)
        return order, order // experts.shape[1], touched, np.append(start, flat.size)

    def work(self, x, experts, gates):
        """What is timed: a call of `forward`."""
        return lambda: self.forward(x, experts, gates)

    def links(self):
        """Ways to copy: {name: seconds of copying so many bytes}. Here a throttled copy stands in for a link."""
        weights = self.gate_up.reshape(-1).view(np.uint8)
        into = np.empty(min(1 << 28, weights.size), np.uint8)
        return {"throttled copy": lambda size: _throttled(lambda: np.copyto(into[:size], weights[:size]), size)}

    def slots(self, count):
        """Room for so many experts, every page of it written."""
        return self.gate_up[:count].copy(), self.down[:count].copy()

    def fetch(self, slots, slot, expert):
        """Copy an expert into a slot over the stand-in link; seconds."""
        def copy():
            slots[0][slot], slots[1][slot] = self.gate_up[expert], self.down[expert]

        return _throttled(copy, self.expert_bytes)

    def forward(self, x, experts, gates, weights=None):
        """The layer's output [tokens, d]; `weights` are slots in place of the layer's own experts."""
        gate_up, down = (self.gate_up, self.down) if weights is None else weights
        order, token, touched, bounds = self.permute(experts)
        rows = np.empty((order.size, self.d_model), np.float32)

        def one(i):
            here = slice(bounds[i], bounds[i + 1])
            rows[here] = expert(x[token[here]], gate_up[touched[i]], down[touched[i]])

        self._on_threads(one, range(touched.size))
        rows *= gates.ravel()[order, None]
        out = np.empty((order.size, self.d_model), np.float32)
        out[order] = rows
        return out.reshape(*experts.shape, self.d_model).sum(axis=1)


    def _on_threads(self, function, *columns):
        for _ in (map if self.threads == 1 else self.pool.map)(function, *columns):
            pass


def reference(layer, x, experts, gates):
    """The same output in float64, token by token: what the kernels are held against."""
    out = np.zeros(x.shape)
    for t, chosen in enumerate(experts):
        for e, gate in zip(chosen, gates[t], strict=True):
            h = layer.gate_up[e].astype(float) @ x[t]
            out[t] += float(gate) * (layer.down[e].astype(float) @ _silu_gate(h[None])[0])
    return out


def expert(x, gate_up, down):
    """One gated expert on its tokens [m, d]."""
    if numba() is None or len(x) > FEW:
        return (down @ _silu_gate((gate_up @ x.T).T).T).T
    return _stream(_silu_gate(_stream(x, gate_up)), down)


@cache
def numba():
    """The numba module, or None."""
    try:
        import numba
    except ImportError:
        return None
    return numba


def _silu_gate(h):
    gate, up = np.split(h, 2, axis=1)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(gate / (1 + np.exp(-gate)) * up)


def _stream(x, weights):
    """x @ weights.T, each row of the weights read from memory once."""
    out = np.empty((len(x), len(weights)), np.float32)
    _kernels()["stream"](weights, x, out)
    return out


@cache
def _kernels():
    """Compiled kernels: `stream`, and `total`, which only reads.

    Rows go in blocks that stay in the second-level cache while all tokens pass. Within a block a kernel takes rows that
    lie far apart, so that each is a stream of its own for the hardware's prefetcher, and keeps sums in registers.
    """
    njit = numba().njit(fastmath=True, boundscheck=False, nogil=True)
    zero = np.float32(0)

    @njit
    def total(values):
        s = zero
        for i in range(values.size):
            s += values[i]
        return s

    @njit
    def one(w, x, out, j, first, last):
        for r in range(first, last):
            s = zero
            for i in range(w.shape[1]):
                s += w[r, i] * x[j, i]
            out[j, r] = s

    @njit
    def two(w, x, out, j, first, last):
        for r in range(first, last):
            s, t = zero, zero
            for i in range(w.shape[1]):
                v = w[r, i]
                s += v * x[j, i]
                t += v * x[j + 1, i]
            out[j, r], out[j + 1, r] = s, t

    @njit
    def three(w, x, out, j, first, last):
        for r in range(first, last):
            s, t, u = zero, zero, zero
            for i in range(w.shape[1]):
                v = w[r, i]
                s += v * x[j, i]
                t += v * x[j + 1, i]
                u += v * x[j + 2, i]
            out[j, r], out[j + 1, r], out[j + 2, r] = s, t, u

    @njit
    def four(w, x, out, j, first, last):  # by four rows: sixteen sums for eight loads
        far = (last - first) // 4
        for ra in range(first, first + far):
            rb, rc, rd = ra + far, ra + 2 * far, ra + 3 * far
            a0, a1, a2, a3, b0, b1, b2, b3 = zero, zero, zero, zero, zero, zero, zero, zero
            c0, c1, c2, c3, d0, d1, d2, d3 = zero, zero, zero, zero, zero, zero, zero, zero
            for i in range(w.shape[1]):
                x0, x1, x2, x3 = x[j, i], x[j + 1, i], x[j + 2, i], x[j + 3, i]
                a, b, c, d = w[ra, i], w[rb, i], w[rc, i], w[rd, i]
                a0, a1, a2, a3 = a0 + a * x0, a1 + a * x1, a2 + a * x2, a3 + a * x3
                b0, b1, b2, b3 = b0 + b * x0, b1 + b * x1, b2 + b * x2, b3 + b * x3
                c0, c1, c2, c3 = c0 + c * x0, c1 + c * x1, c2 + c * x2, c3 + c * x3
                d0, d1, d2, d3 = d0 + d * x0, d1 + d * x1, d2 + d * x2, d3 + d * x3
            out[j, ra], out[j + 1, ra], out[j + 2, ra], out[j + 3, ra] = a0, a1, a2, a3
            out[j, rb], out[j + 1, rb], out[j + 2, rb], out[j + 3, rb] = b0, b1, b2, b3
            out[j, rc], out[j + 1, rc], out[j + 2, rc], out[j + 3, rc] = c0, c1, c2, c3
            out[j, rd], out[j + 1, rd], out[j + 2, rd], out[j + 3, rd] = d0, d1, d2, d3
        for q in range(4):  # rows that four do not divide
            one(w, x, out, j + q, first + 4 * far, last)

    @njit
    def stream(w, x, out):
        rows, tokens = w.shape[0], x.shape[0]
        block = rows if tokens <= 4 else max(BLOCK_VALUES // w.shape[1], 4)
        for first in range(0, rows, block):
            last = min(first + block, rows)
            whole = tokens // 4 * 4
            for j in range(0, whole, 4):
                four(w, x, out, j, first, last)
            if tokens - whole == 1:
                one(w, x, out, whole, first, last)
            elif tokens - whole == 2:
                two(w, x, out, whole, first, last)
            elif tokens - whole == 3:
                three(w, x, out, whole, first, last)

    return {"total": total, "stream": stream}


def _product(values):
    """A matrix-vector product that reads `values` once."""
    side = 1024
    return values[:values.size // side * side].reshape(-1, side) @ np.ones(side, np.float32)


def _describe():
    """Processor, cores and system, in words."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            name = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), name)
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def _throttled(copy, num_bytes):
    """Copy, then wait until a link of `LINK_BYTES_PER_S` would have finished; seconds."""
    start = perf_counter()
    copy()
    end = start + num_bytes / LINK_BYTES_PER_S
    while (left := end - perf_counter()) > 0:
        if left > 2e-3:
            sleep(left - 1e-3)
    return perf_counter() - start
