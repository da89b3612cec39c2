"""An all-to-all between processes: what arrives, and the record of how long it took."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra gpu: make test-extras")
if not torch.distributed.is_available():
    pytest.skip("this torch has no torch.distributed", allow_module_level=True)

from moe_lib.bench import cpu, exchange, suite  # noqa: E402
from moe_lib.records import read, write  # noqa: E402

ROOT = Path(exchange.__file__).parents[2]
ROUND_TRIP = """
import os, sys
import torch, torch.distributed as dist
from moe_lib.bench.exchange import dispatch, end_with_parent

end_with_parent()
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/meet", rank=rank, world_size=ranks)
counts = {"even": torch.full((ranks, ranks), 3), "uneven": torch.arange(ranks * ranks).reshape(ranks, ranks) % 4,
          "all to one": torch.eye(ranks, dtype=int)[[ranks - 1] * ranks] * 5}
for name, of in counts.items():
    for dtype in (torch.float32, torch.bfloat16):
        send, receive = of[rank].tolist(), of[:, rank].tolist()
        rows = torch.cat([torch.full((n, 2), 10. * rank + to) for to, n in enumerate(send)]).to(dtype)
        there = dispatch(rows, send, receive)
        expected = [10. * source + rank for source, n in enumerate(receive) for _ in range(n)]
        assert there.dtype == dtype and there[:, 0].tolist() == expected, (name, there)
        assert torch.equal(dispatch(there, receive, send), rows), name
dist.destroy_process_group()
"""


@pytest.mark.parametrize("ranks", [2, 3])
def test_rows_arrive_where_they_were_sent_and_come_back(ranks, tmp_path):
    exchange.launch([sys.executable, "-c", ROUND_TRIP, str(tmp_path)], ranks)


@pytest.fixture(scope="module")
def measured():
    return exchange.measure("cpu", True)


def test_more_bytes_take_longer_and_no_sample_beats_the_least(measured):
    assert measured["bytes_per_peer"][0] == 512 and measured["bytes_per_peer"][-1] == 8 << 20
    assert measured["seconds"][-1] > measured["seconds"][0] > 0
    assert np.all(np.array(measured["median_s"]) >= measured["seconds"])


def test_the_fit_is_latency_and_bytes_over_bandwidth(measured):
    times = measured["latency_s"] + np.array(measured["bytes"]) / measured["bandwidth_bytes_per_s"]
    assert np.allclose(times / measured["seconds"] - 1, measured["fit_error"])
    assert measured["latency_s"] > 0 and measured["num_ranks"] == exchange.RANKS and measured["backend"] == "gloo"


def test_a_measured_record_survives_a_file_and_has_a_summary(measured, tmp_path):
    record = suite.record(cpu.Layer(2, 1, 4, 4), "all_to_all", measured)
    write(tmp_path / "r.jsonl", [record])
    assert read(tmp_path / "r.jsonl") == [record]
    rate, limit, ratio, unit = suite.summary(record)
    assert rate == pytest.approx(measured["bytes"][-1] / measured["seconds"][-1] / 1e9) and limit is ratio is None
    assert unit.startswith("GB/s a rank at 8 MB a peer; fitted latency")


def test_the_fit_finds_constants_put_in():
    times = 5e-5 + exchange.SIZES * 2 / 3e9
    found = exchange._summarised(np.tile(times[:, None, None], (1, 2, 4)), 3)
    assert found["latency_s"] == pytest.approx(5e-5) and found["bandwidth_bytes_per_s"] == pytest.approx(3e9)
    assert np.allclose(found["fit_error"], 0)


def test_torchrun_starts_it_too_and_rank_0_writes_the_record(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
               "-m", "moe_lib.bench.exchange", "--quick", "--out", str(tmp_path / "r.jsonl")]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert "2 ranks, gloo" in run.stdout
    assert [record.what for record in read(tmp_path / "r.jsonl")] == ["all_to_all"]


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="has two GPUs")
def test_one_gpu_has_nobody_to_talk_to():
    with pytest.raises(RuntimeError, match="needs two GPUs, this machine shows"):
        exchange.measure("cuda", True)
