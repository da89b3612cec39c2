import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from moe_lib.bench import cpu, suite
from moe_lib.bench.__main__ import main
from moe_lib.records import read, write
from moe_lib.routing import coverage, sample_routing

pytestmark = pytest.mark.xdist_group("bench")  # on one worker: kernels are compiled, and benchmarks run, once


@pytest.fixture(params=["numba", "numpy"])
def kernels(request, monkeypatch):
    """Both ways to compute an expert."""
    if request.param == "numpy":
        monkeypatch.setattr(cpu, "numba", lambda: None)
    elif cpu.numba() is None:
        pytest.skip("numba is not installed")
    return request.param


def close_to_float64(layer, experts, seed=0):
    x, gates = layer.inputs(np.random.default_rng(seed), experts)
    expected = cpu.reference(layer, x, experts, gates)
    error = np.abs(layer.forward(x, experts, gates) - expected).max(initial=0)
    return error <= 2e-6 * np.abs(expected).max(initial=1)


# kernels


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 7, 33, 130])
def test_a_layer_is_right_to_seven_digits(kernels, batch):
    layer, rng = cpu.Layer(6, 2, 40, 24), np.random.default_rng(batch)
    assert close_to_float64(layer, sample_routing(rng, batch, 6, 2))


@pytest.mark.parametrize(("shape", "experts"), [
    ((5, 2, 16, 8), np.empty((0, 2), int)),  # no token
    ((5, 5, 16, 8), np.tile(np.arange(5), (4, 1))),  # every expert
    ((5, 1, 16, 8), np.full((60, 1), 3)),  # one expert with all tokens
    ((3, 2, 7, 5), np.array([[0, 2], [2, 1], [2, 0], [1, 2], [2, 0]])),  # widths that four rows do not divide
    ((3, 1, 1, 1), np.array([[0], [2]])),
], ids=["no token", "all experts", "one expert", "odd widths", "width one"])
def test_edges_are_right(kernels, shape, experts):
    assert close_to_float64(cpu.Layer(*shape), experts)


def test_threads_change_nothing(kernels):
    experts = sample_routing(np.random.default_rng(0), 30, 8, 3)
    one, three = (cpu.Layer(8, 3, 32, 16, threads=count) for count in (1, 3))
    x, gates = one.inputs(np.random.default_rng(1), experts)
    assert np.array_equal(one.forward(x, experts, gates), three.forward(x, experts, gates))


def test_experts_in_slots_are_those_fetched():
    layer, experts = cpu.Layer(6, 2, 16, 8), np.array([[4, 1]])
    slots = layer.slots(3)
    seconds = [layer.fetch(slots, slot, expert) for slot, expert in ((2, 4), (0, 1))]
    x, gates = layer.inputs(np.random.default_rng(0), experts)
    assert np.array_equal(layer.forward(x, np.array([[2, 0]]), gates, slots), layer.forward(x, experts, gates))
    assert min(seconds) >= layer.expert_bytes / cpu.LINK_BYTES_PER_S


# records


@pytest.fixture(scope="module")
def records():
    """Every benchmark that needs no torch, on a small layer."""
    machine = cpu.Layer(16, 4, 64, 32)
    names = [name for name in suite.SUITE if name != "all_to_all"]
    return {name: suite.finish(suite.SUITE[name](machine, np.random.default_rng(0), True)) for name in names}


def test_every_benchmark_leaves_a_record_that_survives_a_file(records, tmp_path):
    write(tmp_path / "all.jsonl", records.values())
    assert read(tmp_path / "all.jsonl") == list(records.values())
    assert {record.kind for record in records.values()} == {"measured"}


def test_experts_touched_lie_within_four_standard_deviations(records):
    of = records["moe_decode"].data
    for touched, expected, std in zip(of["touched"], of["touched_expected"], of["touched_std"], strict=True):
        assert abs(np.mean(touched) - expected) <= 4 * std / np.sqrt(len(touched)) + 1e-9


@pytest.mark.parametrize("routing", ["uniform", "skewed", "loads"])
def test_routing_touches_what_its_popularity_says(routing):
    machine = cpu.Layer(64, 4, 8, 4)
    of = suite.finish(suite.moe_decode(machine, np.random.default_rng(0), True, routing)).data
    touched, uniform = [np.mean(n) for n in of["touched"]], 64 * coverage(64, 4, np.array(of["batch"]))
    assert touched[0] == 4 and np.all(touched <= uniform * 1.2)
    assert routing == "uniform" or touched[3] < 0.95 * uniform[3]


def test_loads_of_a_router_that_is_not_shipped_are_refused_in_words():
    with pytest.raises(ValueError, match="a shipped router of 7 experts"):
        suite.finish(suite.moe_decode(cpu.Layer(7, 2, 8, 4), np.random.default_rng(0), True, "loads"))


def test_a_dense_twin_touches_k_experts_and_an_expert_one(records):
    assert {n for touched in records["dense_twin"].data["touched"] for n in touched} == {4}
    assert {n for touched in records["expert_gemm"].data["touched"] for n in touched} == {1}


def test_a_limit_is_reading_or_computing(records):
    record = records["moe_decode"]
    of = record.data | {"bytes_per_s": 1e9, "flops_per_s": 1e30}
    reading = suite.limits(suite.record(cpu.Layer(2, 1, 4, 4), "moe_decode", of))
    assert np.allclose(reading[0], 4 * of["expert_bytes"] / 1e9)
    of |= {"bytes_per_s": 1e30, "flops_per_s": 1e9}
    computing = suite.limits(suite.record(cpu.Layer(2, 1, 4, 4), "moe_decode", of))
    assert np.allclose(computing[of["batch"].index(4)], 4 * 4 * 6 * 64 * 32 / 1e9)


def test_ratios_take_the_least_sample(records):
    seconds, limits = records["moe_decode"].data["seconds"], suite.limits(records["moe_decode"])
    assert suite.ratios(records["moe_decode"])[1] == min(np.array(seconds[1]) / limits[1])


def test_paired_ratios_hold_each_time_against_the_ceilings_of_its_repetition(records):
    of = records["moe_decode"].data
    limit = np.maximum(np.array(of["touched"][2]) * of["expert_bytes"] / of["ceilings_bytes_per_s"][2],
                       of["batch"][2] * of["flops_per_token"] / np.array(of["ceilings_flops_per_s"][2]))
    assert suite.paired_ratios(records["moe_decode"])[2] == pytest.approx(np.median(of["seconds"][2] / limit))
    assert max(map(max, of["ceilings_bytes_per_s"])) == of["bytes_per_s"]


def test_the_offload_loop_misses_what_its_trace_says(records):
    of = records["offload_lru"].data
    assert np.mean(of["missed"]) / of["top_k"] <= 1 - of["lru_hit_rate"]  # the loop starts with a warm cache
    assert min(of["seconds"]) > 0


# the command


def test_the_command_says_what_it_needs_and_prints_measured_limit_and_ratio(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(suite.SHAPES, "cpu", (8, 2, 32, 16))
    out = tmp_path / "records.jsonl"
    assert main(["--quick", "--only", "moe_decode", "--only", "balance", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "GB of memory" in said and "1 of" in said and "least time / limit" in said and "max/mean" in said
    assert [record.what for record in read(out)] == ["moe_decode", "balance"]


def test_records_of_other_benchmarks_stay_in_the_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(suite.SHAPES, "cpu", (8, 2, 32, 16))
    out = str(tmp_path / "records.jsonl")
    for name in ("balance", "gemm_peak", "balance"):
        assert main(["--quick", "--only", name, "--out", out]) == 0
    assert sorted(record.what for record in read(out)) == ["balance", "gemm_peak"]
    assert "1 record in " in (said := capsys.readouterr().out) and "beside 1 of earlier runs" in said


def test_a_file_that_holds_no_records_is_not_overwritten(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine\n")
    with pytest.raises(SystemExit):
        main(["--quick", "--only", "balance", "--out", str(tmp_path / "notes.txt")])
    assert "--out must name a new file or one of records" in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "mine\n"


def test_a_failing_benchmark_is_named_and_the_others_are_kept(tmp_path, capsys, monkeypatch):
    def broken(machine, rng, quick):
        yield "trying"
        raise MemoryError("too large")

    monkeypatch.setitem(suite.SHAPES, "cpu", (8, 2, 32, 16))
    monkeypatch.setitem(suite.SUITE, "membw", broken)
    assert main(["--quick", "--only", "membw", "--only", "balance", "--out", str(tmp_path / "r.jsonl")]) == 1
    assert "membw         not measured: MemoryError: too large" in capsys.readouterr().out
    assert [record.what for record in read(tmp_path / "r.jsonl")] == ["balance"]


def test_an_interrupt_keeps_what_was_finished_and_names_the_rest(tmp_path, capsys, monkeypatch):
    def interrupted(machine, rng, quick):
        yield "trying"
        raise KeyboardInterrupt

    monkeypatch.setitem(suite.SHAPES, "cpu", (8, 2, 32, 16))
    monkeypatch.setitem(suite.SUITE, "h2d", interrupted)
    names = [part for name in ("balance", "h2d", "membw") for part in ("--only", name)]
    assert main(["--quick", *names, "--out", str(tmp_path / "r.jsonl")]) == 130
    assert "not measured: h2d, membw" in capsys.readouterr().err
    assert [record.what for record in read(tmp_path / "r.jsonl")] == ["balance"]


def test_a_kill_leaves_a_valid_file(tmp_path):
    out = tmp_path / "records.jsonl"
    command = [sys.executable, "-m", "moe_lib.bench", "--quick", "--only", "balance", "--only", "moe_decode",
               "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
    deadline = time.monotonic() + 60
    while not out.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [record.what for record in read(out)][:1] == ["balance"]


@pytest.mark.parametrize(("arguments", "message"), [
    (["--threads", "0"], "--threads must be within 1.."),
    (["--dtype", "bf16"], "--dtype must be fp32 on a CPU, got bf16"),
    (["--out", "/nowhere/records.jsonl"], "--out must lie in a folder that exists"),
    (["--only", "speed"], "invalid choice: 'speed'"),
])
def test_bad_arguments_end_in_one_sentence(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2 and message in capsys.readouterr().err


def test_an_unknown_benchmark_is_named():
    with pytest.raises(ValueError, match="names must be out of membw, .*, got speed"):
        suite.quick(["speed"])


def test_records_name_the_machine_and_the_software(records):
    record = json.loads(json.dumps(records["membw"].data))
    assert record["bytes_per_s"] and "cores" in records["membw"].on and "numpy" in records["membw"].software
