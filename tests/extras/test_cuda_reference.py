"""The layer of a GPU against float64: on a GPU where there is one, else the same code on the CPU."""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra gpu: make test-extras")

from moe_lib.bench import cpu, cuda, suite  # noqa: E402
from moe_lib.bench.__main__ import main  # noqa: E402
from moe_lib.bench.cuda import Layer, published  # noqa: E402
from moe_lib.hardware import DEVICES  # noqa: E402
from moe_lib.records import read, write  # noqa: E402
from moe_lib.routing import sample_routing  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {"fp32": 1e-6, "fp16": 3e-3, "bf16": 2e-2}
needs_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")


def in_float64(layer, x, experts, gates):
    weights = (part.double().cpu().numpy() for part in (layer.gate_up, layer.down, x, gates))
    gate_up, down, x, gates = weights
    return cpu.reference(SimpleNamespace(gate_up=gate_up, down=down), x, experts, gates)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("shape", "experts"), [
    ((5, 2, 32, 16), sample_routing(np.random.default_rng(0), 11, 5, 2)),
    ((5, 2, 32, 16), np.empty((0, 2), int)),
    ((5, 5, 32, 16), np.tile(np.arange(5), (4, 1))),
    ((5, 1, 32, 16), np.full((40, 1), 3)),
    ((7, 3, 72, 40), sample_routing(np.random.default_rng(1), 5, 7, 3)),
], ids=["uniform", "no token", "all experts", "one expert", "ragged"])
def test_every_kernel_is_right_against_float64(shape, experts, dtype):
    layer = Layer(*shape, dtype=dtype, device=DEVICE)
    x, gates = layer.inputs(np.random.default_rng(0), experts)
    expected = in_float64(layer, x, experts, gates)
    for kernel in layer.kernels:
        out = layer.forward(x, experts, gates, kernel=kernel).double().cpu().numpy()
        assert out.shape == expected.shape
        assert np.abs(out - expected).max(initial=0) <= TOLERANCE[dtype] * np.abs(expected).max(initial=1e-9), kernel


def test_experts_in_slots_are_those_fetched():
    layer, experts = Layer(6, 2, 64, 32, dtype="fp32", device=DEVICE), np.array([[4, 1]])
    slots = layer.slots(3)
    assert min(layer.fetch(slots, slot, expert) for slot, expert in ((2, 4), (0, 1))) > 0
    x, gates = layer.inputs(np.random.default_rng(0), experts)
    assert torch.equal(layer.forward(x, np.array([[2, 0]]), gates, slots), layer.forward(x, experts, gates))


def test_permuting_groups_pairs_by_expert_and_keeps_their_order():
    layer = Layer(7, 3, 32, 16, dtype="fp32", device=DEVICE)
    experts = sample_routing(np.random.default_rng(3), 50, 7, 3)
    order, bounds = (part.cpu().numpy() for part in layer.permute(experts))
    assert np.array_equal(order, np.argsort(experts.ravel(), kind="stable"))
    assert np.array_equal(np.diff(bounds), np.bincount(experts.ravel(), minlength=7)) and bounds[0] == 0


def test_the_router_finds_the_best_experts():
    layer = Layer(16, 4, 64, 32, dtype="fp32", device=DEVICE)
    x, _ = layer.inputs(np.random.default_rng(0), np.zeros((20, 4), int))
    scores = (x.double() @ layer.router.double().T).cpu().numpy()
    chosen = np.sort(layer.route(x).cpu().numpy(), axis=1)
    assert np.array_equal(chosen, np.sort(np.argsort(scores, axis=1)[:, -4:], axis=1))


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_every_benchmark_runs_and_its_record_survives_a_file(dtype, tmp_path, monkeypatch):
    monkeypatch.setattr(cuda, "LARGEST_COPY", 1 << 25)
    layer = Layer(16, 4, 64, 32, dtype=dtype, device=DEVICE)
    layer.kernels = [kernel for kernel in layer.kernels if DEVICE == "cuda" or kernel == "grouped_mm"]  # in good time
    names = [name for name in suite.SUITE if name != "all_to_all"]
    records = [suite.finish(suite.SUITE[name](layer, np.random.default_rng(0), True)) for name in names]
    write(tmp_path / "r.jsonl", records)
    assert read(tmp_path / "r.jsonl") == records
    assert all(suite.summary(record)[0] > 0 for record in records)
    assert set(records[names.index("moe_decode")].data["kernel"]) <= set(layer.kernels)


def test_only_a_device_whose_name_is_known_has_published_figures():
    assert published("NVIDIA H200", "fp16")[:2] == (4.8e12, 989e12) and published("NVIDIA H200", "fp32")[1] is None
    assert published("NVIDIA GeForce RTX 4090 Laptop GPU", "bf16") == (None, None, None)
    assert set(cuda.NAMES.values()) <= set(DEVICES)


@pytest.mark.skipif(DEVICE == "cuda", reason="has a GPU")
def test_a_machine_without_a_gpu_is_told_so(capsys):
    with pytest.raises(SystemExit):
        main(["--device", "cuda"])
    assert "--device cuda needs a GPU, and torch sees none" in capsys.readouterr().err


@needs_gpu
def test_a_forward_pass_never_waits_for_the_host():
    layer = Layer(16, 4, 64, 32, device=DEVICE)
    experts = torch.tensor(sample_routing(np.random.default_rng(0), 9, 16, 4), dtype=torch.int32, device=DEVICE)
    x, gates = layer.inputs(np.random.default_rng(0), np.zeros((9, 4), int))
    for kernel in layer.kernels:
        layer.forward(x, experts, gates, kernel=kernel)  # compiles
        torch.cuda.set_sync_debug_mode("error")
        try:
            layer.forward(x, experts, gates, kernel=kernel)
        finally:
            torch.cuda.set_sync_debug_mode("default")


@needs_gpu
def test_twice_the_bytes_take_twice_as_long():
    layer = Layer(64, 8, 2048, 768, device=DEVICE)
    values = [torch.randn(size << 20, device=DEVICE) for size in (128, 256)]
    few, many = (layer.seconds(part.sum) for part in values)
    assert 1.7 <= many / few <= 2.3  # launch and ramp are a few microseconds of more than a hundred


@needs_gpu
def test_a_ceiling_does_not_exceed_what_is_published():
    layer = Layer(64, 8, 2048, 768, device=DEVICE)
    ceilings = layer.bandwidth(np.random.default_rng(0)), layer.peak()
    for measured, limit in zip(ceilings, layer.published[:2], strict=True):
        assert limit is None or 0.3 * limit <= measured <= limit
