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

FEW = 20  # tokens of an expert up to which streaming its rows beats a packed matrix product
PROBE_BYTES = 1 << 26
BLOCK_VALUES = 1 << 14  # of the weights, kept in the second-level cache
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
        self.on = describe()
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
        """(order, where each expert's rows begin [E + 1]): choices grouped by expert."""
        flat = experts.ravel()
        if numba():
            return _kernels()["group"](flat, self.num_experts)
        return np.argsort(flat, kind="stable"), np.searchsorted(np.sort(flat), np.arange(self.num_experts + 1))

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
        order, bounds = self.permute(experts)
        rows = np.empty((order.size, self.d_model), np.float32)

        few, loads = FEW if numba() else 0, np.diff(bounds)

        def some(of):
            if few:
                _kernels()["experts"](x, experts.shape[1], order, bounds, of, gate_up, down, rows, few)
            for e in of[loads[of] > few]:
                choices = order[bounds[e]:bounds[e + 1]]
                rows[choices] = expert(x[choices // experts.shape[1]], gate_up[e], down[e])

        touched = np.flatnonzero(loads)
        self._on_threads(some, [touched[first::self.threads] for first in range(self.threads)])
        rows *= gates.reshape(-1, 1)
        return rows.reshape(*experts.shape, self.d_model).sum(axis=1)

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
    """One gated expert on its tokens [m, d], by packed matrix products."""
    return (down @ _silu_gate((gate_up @ x.T).T).T).T


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


@cache
def _kernels():
    """Compiled kernels: `total` only reads, `group` sorts choices by expert, `experts` computes those with few tokens.

    A kernel takes two rows at once, which lie far apart, so that each is a stream of its own for the hardware's
    prefetcher, and up to four tokens, whose sums stay in registers. With more tokens, rows go in blocks that stay in
    the second-level cache while all tokens pass: from memory each row is read once.
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
    def group(flat, num_experts):
        bounds = np.zeros(num_experts + 1, np.int64)
        for choice in flat:
            bounds[choice + 1] += 1
        bounds = np.cumsum(bounds)
        order, at = np.empty(flat.size, np.int64), bounds.copy()
        for i in range(flat.size):
            order[at[flat[i]]] = i
            at[flat[i]] += 1
        return order, bounds

    @njit
    def one(v, w, x, j, first, last, p, q):
        for r in range(first, last):
            a0, b0 = zero, zero
            for i in range(v.shape[1]):
                x0 = x[j, i]
                a0, b0 = a0 + v[r, i] * x0, b0 + w[r, i] * x0
            p[j, r], q[j, r] = a0, b0

    @njit
    def two(v, w, x, j, first, last, p, q):
        for r in range(first, last):
            a0, b0, a1, b1 = zero, zero, zero, zero
            for i in range(v.shape[1]):
                a, b, x0, x1 = v[r, i], w[r, i], x[j, i], x[j + 1, i]
                a0, b0, a1, b1 = a0 + a * x0, b0 + b * x0, a1 + a * x1, b1 + b * x1
            p[j, r], q[j, r], p[j + 1, r], q[j + 1, r] = a0, b0, a1, b1

    @njit
    def three(v, w, x, j, first, last, p, q):
        for r in range(first, last):
            a0, b0, a1, b1, a2, b2 = zero, zero, zero, zero, zero, zero
            for i in range(v.shape[1]):
                a, b, x0, x1, x2 = v[r, i], w[r, i], x[j, i], x[j + 1, i], x[j + 2, i]
                a0, b0, a1, b1, a2, b2 = a0 + a * x0, b0 + b * x0, a1 + a * x1, b1 + b * x1, a2 + a * x2, b2 + b * x2
            p[j, r], q[j, r], p[j + 1, r], q[j + 1, r], p[j + 2, r], q[j + 2, r] = a0, b0, a1, b1, a2, b2

    @njit
    def four(v, w, x, j, first, last, p, q):
        for r in range(first, last):
            a0, b0, a1, b1, a2, b2, a3, b3 = zero, zero, zero, zero, zero, zero, zero, zero
            for i in range(v.shape[1]):
                a, b, x0, x1, x2, x3 = v[r, i], w[r, i], x[j, i], x[j + 1, i], x[j + 2, i], x[j + 3, i]
                a0, b0, a1, b1 = a0 + a * x0, b0 + b * x0, a1 + a * x1, b1 + b * x1
                a2, b2, a3, b3 = a2 + a * x2, b2 + b * x2, a3 + a * x3, b3 + b * x3
            p[j, r], q[j, r], p[j + 1, r], q[j + 1, r] = a0, b0, a1, b1
            p[j + 2, r], q[j + 2, r], p[j + 3, r], q[j + 3, r] = a2, b2, a3, b3

    @njit
    def both(v, w, x, p, q):
        """p = x @ v.T and q = x @ w.T."""
        rows, tokens = v.shape[0], x.shape[0]
        block = max(rows if tokens <= 4 else BLOCK_VALUES // v.shape[1], 1)
        for first in range(0, rows, block):
            last, whole = min(first + block, rows), tokens // 4 * 4
            for j in range(0, whole, 4):
                four(v, w, x, j, first, last, p, q)
            if tokens - whole == 1:
                one(v, w, x, whole, first, last, p, q)
            elif tokens - whole == 2:
                two(v, w, x, whole, first, last, p, q)
            elif tokens - whole == 3:
                three(v, w, x, whole, first, last, p, q)

    @njit
    def experts(x, top_k, order, bounds, touched, gate_up, down, rows, few):
        f, half = down.shape[2], down.shape[1] // 2
        for e in touched:
            m = bounds[e + 1] - bounds[e]
            if m > few:
                continue
            inputs = np.empty((m, x.shape[1]), np.float32)
            gate, up = np.empty((m, f), np.float32), np.empty((m, f), np.float32)
            low, high = np.empty((m, half), np.float32), np.empty((m, half), np.float32)
            for j in range(m):
                inputs[j] = x[order[bounds[e] + j] // top_k]
            both(gate_up[e, :f], gate_up[e, f:], inputs, gate, up)
            for j in range(m):
                for i in range(f):
                    gate[j, i] *= up[j, i] / (np.float32(1) + np.exp(-gate[j, i]))
            both(down[e, :half], down[e, half:2 * half], gate, low, high)
            for j in range(m):
                row = rows[order[bounds[e] + j]]
                row[:half], row[half:2 * half] = low[j], high[j]
                for r in range(2 * half, down.shape[1]):
                    row[r] = zero
                    for i in range(f):
                        row[r] += down[e, r, i] * gate[j, i]

    return {"total": total, "group": group, "experts": experts}


def _product(values):
    """A matrix-vector product that reads `values` once."""
    side = 1024
    return values[:values.size // side * side].reshape(-1, side) @ np.ones(side, np.float32)


def describe():
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
