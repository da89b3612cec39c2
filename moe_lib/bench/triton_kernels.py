"""A gated MoE layer in three Triton kernels, and one that only reads. No step of it asks the host.

`permute_kernel` groups token-expert pairs by expert, `gate_up_kernel` multiplies, gates and activates in one pass over
both halves of the weights, `down_kernel` multiplies back and scales. A tile of rows belongs to one expert; each program
finds its own from the bounds, so the grid depends on shapes alone and the whole layer fits in a CUDA graph.

Triton runs them on a GPU, or, with the environment variable TRITON_INTERPRET=1, on a CPU (slowly; not in bf16).
"""

from __future__ import annotations

try:
    import triton
    import triton.language as tl
except ImportError:  # collecting doctests imports every module
    triton = tl = None

# rows and columns of a tile, depth in bytes, warps, stages: few rows stream weights, many reuse them
TILES = {
    "triton 16x16": (16, 16, 512, 2, 4),
    "triton 16x32": (16, 32, 256, 4, 4),
    "triton 64x64": (64, 64, 128, 4, 3),
    "triton 128x64": (128, 64, 128, 8, 3),
}
FEW, MANY = 256, 4096  # pairs that `permute` looks at together
READ = 8192  # values that a program of `total` reads


def _jit(function):
    return triton.jit(function) if triton else function


def runs_on(device):
    """Whether the kernels run on a device: on "cuda" compiled, on "cpu" interpreted."""
    return triton is not None and (device == "cpu") != isinstance(permute_kernel, triton.JITFunction)


def permute(experts, num_experts):
    """(order [n], bounds [E + 1]) of experts [tokens, k]: pairs order[bounds[e]:bounds[e + 1]] go to expert e.

    A pair is token * k + place; within an expert pairs keep their order. int32, on the device of `experts`.
    """
    n = experts.numel()
    order, bounds = experts.new_empty(n), experts.new_empty(num_experts + 1)
    permute_kernel[(num_experts,)](experts, order, bounds, n, FEW if n <= FEW else MANY, num_warps=4)
    return order, bounds


def forward(x, experts, gates, gate_up, down, tile):
    """Output [tokens, d] of x [tokens, d] for chosen experts [tokens, k] (int32) and their gates.

    Weights [E, 2f, d] and [E, d, f], contiguous and of the dtype of x; `tile` is a key of `TILES`.
    """
    (tokens, k), (E, d, f) = experts.shape, down.shape
    n = experts.numel()
    if n == 0:
        return x.new_zeros(tokens, d)
    rows, columns, depth, warps, stages = TILES[tile]
    order, bounds = permute(experts, E)
    tiles = min(n, n // rows + min(E, n))  # at least as many as there are: each expert ends in at most one ragged tile
    hidden, out = x.new_empty(n, f), x.new_empty(n, d)
    shape = {"E": E, "experts_padded": triton.next_power_of_2(E), "rows": rows, "columns": columns,
             "depth": depth // x.element_size(), "num_warps": warps, "num_stages": stages}
    gate_up_kernel[(triton.cdiv(f, columns), tiles)](x, gate_up, hidden, order, bounds, k, f, d, **shape)
    down_kernel[(triton.cdiv(d, columns), tiles)](hidden, down, out, gates, order, bounds, d, f, **shape)
    return out.view(tokens, k, d).sum(1)


def total(values, sums):
    """Read all of `values` (float32, a multiple of `READ`) once; one sum for each `READ` of them."""
    total_kernel[(values.numel() // READ,)](values, sums, READ, num_warps=8)


@_jit
def permute_kernel(Experts, Order, Bounds, n, chunk: tl.constexpr):
    """Each program finds where its expert begins, then lists its pairs."""
    e = tl.program_id(0)
    i = tl.arange(0, chunk)
    start = tl.sum(tl.zeros((chunk,), tl.int32))
    for first in range(0, n, chunk):
        theirs = tl.load(Experts + first + i, mask=first + i < n, other=2147483647)
        start += tl.sum((theirs < e).to(tl.int32))
    end = start
    for first in range(0, n, chunk):
        theirs = tl.load(Experts + first + i, mask=first + i < n, other=2147483647)
        mine = (theirs == e).to(tl.int32)
        tl.store(Order + end + tl.cumsum(mine) - 1, first + i, mask=mine > 0)
        end += tl.sum(mine)
    tl.store(Bounds, 0)
    tl.store(Bounds + e + 1, end)


@_jit
def find(Bounds, tile, E: tl.constexpr, experts_padded: tl.constexpr, rows: tl.constexpr):
    """(expert, its first row in this tile, the row after its last one); the expert is E past the last tile."""
    e = tl.arange(0, experts_padded)
    begin = tl.load(Bounds + e, mask=e < E, other=0)
    end = tl.load(Bounds + e + 1, mask=e < E, other=0)
    tiles = (end - begin + rows - 1) // rows
    expert = tl.sum(((tl.cumsum(tiles) <= tile) & (e < E)).to(tl.int32))
    before = tl.sum(tl.where(e < expert, tiles, 0))
    first = tl.sum(tl.where(e == expert, begin, 0)) + (tile - before) * rows
    last = tl.sum(tl.where(e == expert, end, 0))
    return expert, first, last


@_jit
def gate_up_kernel(X, W, H, Order, Bounds, k, f: tl.constexpr, d: tl.constexpr, E: tl.constexpr,
                   experts_padded: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr):
    """H = silu(x @ gate.T) * (x @ up.T), one tile; both halves of the weights go past in one loop."""
    expert, first, last = find(Bounds, tl.program_id(1), E, experts_padded, rows)
    if expert == E:
        return
    row = first + tl.arange(0, rows)
    token = tl.load(Order + row, mask=row < last, other=0).to(tl.int64) // k
    column = tl.program_id(0) * columns + tl.arange(0, columns)
    here = tl.where(column < f, column, 0)
    deep = tl.arange(0, depth)
    x_at = X + token[:, None] * d + deep[None, :]
    gate_at = W + expert.to(tl.int64) * (2 * f * d) + here[None, :] * d + deep[:, None]
    gate = tl.zeros((rows, columns), tl.float32)
    up = tl.zeros((rows, columns), tl.float32)
    for at in range(0, d, depth):
        if d % depth == 0:
            x = tl.load(x_at + at, mask=(row < last)[:, None], other=0.0)
            w_gate = tl.load(gate_at + at)
            w_up = tl.load(gate_at + f * d + at)
        else:
            x = tl.load(x_at + at, mask=(row < last)[:, None] & (at + deep < d)[None, :], other=0.0)
            w_gate = tl.load(gate_at + at, mask=(at + deep < d)[:, None], other=0.0)
            w_up = tl.load(gate_at + f * d + at, mask=(at + deep < d)[:, None], other=0.0)
        gate = tl.dot(x, w_gate, gate, input_precision="ieee")
        up = tl.dot(x, w_up, up, input_precision="ieee")
    h = gate / (1 + tl.exp(-gate)) * up
    inside = (row < last)[:, None] & (column < f)[None, :]
    tl.store(H + row.to(tl.int64)[:, None] * f + column[None, :], h.to(H.dtype.element_ty), mask=inside)


@_jit
def down_kernel(H, W, Out, Gates, Order, Bounds, d: tl.constexpr, f: tl.constexpr, E: tl.constexpr,
                experts_padded: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr):
    """Out[pair] = gate * (h @ down.T), one tile, back in the order of the tokens."""
    expert, first, last = find(Bounds, tl.program_id(1), E, experts_padded, rows)
    if expert == E:
        return
    row = first + tl.arange(0, rows)
    pair = tl.load(Order + row, mask=row < last, other=0).to(tl.int64)
    column = tl.program_id(0) * columns + tl.arange(0, columns)
    here = tl.where(column < d, column, 0)
    deep = tl.arange(0, depth)
    h_at = H + row.to(tl.int64)[:, None] * f + deep[None, :]
    w_at = W + expert.to(tl.int64) * (d * f) + here[None, :] * f + deep[:, None]
    out = tl.zeros((rows, columns), tl.float32)
    for at in range(0, f, depth):
        if f % depth == 0:
            h = tl.load(h_at + at, mask=(row < last)[:, None], other=0.0)
            w = tl.load(w_at + at)
        else:
            h = tl.load(h_at + at, mask=(row < last)[:, None] & (at + deep < f)[None, :], other=0.0)
            w = tl.load(w_at + at, mask=(at + deep < f)[:, None], other=0.0)
        out = tl.dot(h, w, out, input_precision="ieee")
    out *= tl.load(Gates + pair, mask=row < last, other=0.0)[:, None]
    inside = (row < last)[:, None] & (column < d)[None, :]
    tl.store(Out + pair[:, None] * d + column[None, :], out.to(Out.dtype.element_ty), mask=inside)


@_jit
def total_kernel(X, Sums, read: tl.constexpr):
    """One sum of `read` values."""
    i = tl.program_id(0).to(tl.int64) * read + tl.arange(0, read)
    tl.store(Sums + tl.program_id(0), tl.sum(tl.load(X + i)))
