"""Triton kernels: interpreted on a CPU or run on a GPU, held against float64; compiled ahead of time for GPUs."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra gpu: make test-extras")
triton = pytest.importorskip("triton", reason="needs the extra gpu: make test-extras")

from moe_lib.bench import triton_kernels  # noqa: E402
from moe_lib.bench.triton_kernels import TILES, forward, permute  # noqa: E402
from moe_lib.routing import sample_routing  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}  # a few units of the last place
DTYPES = [torch.float32, torch.float16, *[torch.bfloat16] * (DEVICE == "cuda")]  # interpreted bf16 products are wrong
WIDTHS = (40, 24)
SHAPES = {  # E, k, d, f and the experts of each token
    "uniform": (5, 2, *WIDTHS, sample_routing(np.random.default_rng(0), 9, 5, 2)),
    "no token": (5, 2, *WIDTHS, np.empty((0, 2), int)),
    "one token": (5, 2, *WIDTHS, np.array([[4, 0]])),
    "all experts": (5, 5, *WIDTHS, np.tile(np.arange(5), (4, 1))),
    "one expert has all": (5, 1, *WIDTHS, np.full((70, 1), 3)),
    "ragged tiles": (3, 2, 70, 37, sample_routing(np.random.default_rng(1), 25, 3, 2)),
    "width one": (3, 1, 1, 1, np.array([[0], [2]])),
    "deeper than a tile": (3, 2, 300, 150, sample_routing(np.random.default_rng(2), 4, 3, 2)),
}

runs = pytest.mark.skipif(not triton_kernels.runs_on(DEVICE), reason="needs a GPU, or TRITON_INTERPRET=1")


def layer(E, d, f, dtype, seed=0):
    """(weights [E, 2f, d], weights [E, d, f])."""
    normal = torch.Generator().manual_seed(seed)
    gate_up, down = torch.randn(E, 2 * f, d, generator=normal), torch.randn(E, d, f, generator=normal)
    return (gate_up / d**0.5).to(DEVICE, dtype), (down / f**0.5).to(DEVICE, dtype)


def in_float64(x, experts, gates, gate_up, down):
    x, gate_up, down = x.double(), gate_up.double(), down.double()
    out = torch.zeros_like(x)
    for token, chosen in enumerate(experts.tolist()):
        for e, weight in zip(chosen, gates[token].double(), strict=True):
            gate, up = (gate_up[e] @ x[token]).chunk(2)
            out[token] += weight * (down[e] @ (torch.nn.functional.silu(gate) * up))
    return out


@runs
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", SHAPES)
def test_the_layer_is_right_against_float64(case, dtype, tile):
    E, k, d, f, experts = SHAPES[case]
    weights, experts = layer(E, d, f, dtype), torch.tensor(experts, dtype=torch.int32, device=DEVICE).reshape(-1, k)
    x = torch.randn(len(experts), d, generator=torch.Generator().manual_seed(1)).to(DEVICE, dtype)
    gates = torch.rand(experts.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    error = forward(x, experts, gates, *weights, tile).double() - in_float64(x, experts, gates, *weights)
    scale = in_float64(x, experts, gates, *weights).abs()
    assert error.shape == x.shape
    assert error.numel() == 0 or error.abs().max() <= TOLERANCE[dtype] * scale.max()


@runs
@pytest.mark.parametrize("tokens", [1, 80, 1500])  # 1500 x 3 pairs: more than permute looks at together
def test_permuting_is_a_stable_sort(tokens):
    experts = torch.tensor(sample_routing(np.random.default_rng(tokens), tokens, 20, 3), dtype=torch.int32).to(DEVICE)
    order, bounds = permute(experts, 20)
    assert torch.equal(order.long(), torch.argsort(experts.flatten(), stable=True))
    assert torch.equal(bounds[1:].long(), torch.bincount(experts.flatten(), minlength=20).cumsum(0)) and bounds[0] == 0


@runs
def test_no_row_of_an_untouched_expert_is_read():
    experts = torch.tensor([[0, 2]], dtype=torch.int32, device=DEVICE)
    gate_up, down = layer(4, 40, 24, torch.float32)
    x, gates = torch.randn(1, 40).to(DEVICE), torch.ones(1, 2, device=DEVICE)
    expected = forward(x, experts, gates, gate_up, down, "triton 16x16")
    gate_up[[1, 3]] = down[[1, 3]] = torch.nan
    assert torch.equal(forward(x, experts, gates, gate_up, down, "triton 16x16"), expected)


@runs
def test_total_reads_everything_once():
    values, sums = torch.randn(3 * triton_kernels.READ).to(DEVICE), torch.empty(3, device=DEVICE)
    triton_kernels.total(values, sums)
    assert torch.allclose(sums, values.view(3, -1).sum(1), atol=1e-3)


AHEAD = """
import json, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from moe_lib.bench import triton_kernels as ours

def cubin(kernel, pointers, constants, warps, stages):
    types = {name: pointers.get(name, "constexpr" if name in constants else "i32") for name in kernel.arg_names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(types) if types[name].startswith("*")}
    done = triton.compile(ASTSource(kernel, types, constants, aligned), target=GPUTarget("cuda", int(sys.argv[1]), 32),
                          options={"num_warps": warps, "num_stages": stages})
    return {"bytes": len(done.asm["cubin"]), "shared": done.metadata.shared}

made = {"permute": cubin(ours.permute_kernel, dict.fromkeys(("Experts", "Order", "Bounds"), "*i32"),
                         {"chunk": ours.MANY}, 4, 3),
        "total": cubin(ours.total_kernel, {"X": "*fp32", "Sums": "*fp32"}, {"read": ours.READ}, 8, 3)}
for tile, (rows, columns, depth, warps, stages) in ours.TILES.items():
    of = {"f": 768, "d": 2048, "E": 128, "experts_padded": 128, "rows": rows, "columns": columns, "depth": depth // 2}
    index = {"Order": "*i32", "Bounds": "*i32"}
    made["gate_up " + tile] = cubin(ours.gate_up_kernel, {**dict.fromkeys("XWH", "*bf16"), **index}, of, warps, stages)
    made["down " + tile] = cubin(ours.down_kernel, {"H": "*bf16", "W": "*bf16", "Out": "*bf16", "Gates": "*fp32",
                                                    **index}, of, warps, stages)
print(json.dumps(made))
"""


@pytest.mark.parametrize("capability", [80, 90, 100])
def test_kernels_compile_ahead_of_time_without_a_gpu(capability, tmp_path, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(triton_kernels.__file__).parents[2]))
    (tmp_path / "ahead.py").write_text(AHEAD)
    run = subprocess.run([sys.executable, tmp_path / "ahead.py", str(capability)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    made = json.loads(run.stdout)
    assert len(made) == 2 + 2 * len(TILES) and min(cubin["bytes"] for cubin in made.values()) > 0
    assert max(cubin["shared"] for cubin in made.values()) <= 99 * 1024  # what an sm_89 block may use, the least
