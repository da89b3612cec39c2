"""Dispatch and combine between processes: an all-to-all under torch.distributed, gloo on CPUs and NCCL on GPUs.

`measure` starts local processes by itself. On several machines, start it on each of them under torchrun::

    torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29500 \\
        -m moe_lib.bench.exchange --device cuda --out exchange.jsonl

Rank 0 prints the result and writes the record. ``torchrun --nproc-per-node 2 -m moe_lib.bench.exchange`` tries it out
on the CPU of one machine.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, sleep
from types import SimpleNamespace

import numpy as np

from ..roofline import fit_overhead

RANKS = 2  # processes on a CPU
ROW = 256  # values of a row, in bf16: the least message is one row a peer
SIZES = 2 ** np.arange(9, 24, 2)  # bytes a peer, 512 B to 8 MB
PATIENCE_S = 120
LOOPBACK = {"linux": "lo", "darwin": "lo0"}


def measure(device, quick):
    """Time dispatch and combine by bytes, and fit latency + bytes / bandwidth to the least times.

    Every rank sends the same number of bytes to every rank. A sample is the time of the slowest rank, started together.
    Where RANK and WORLD_SIZE are set (torchrun), this process is one of them; else local processes are started, `RANKS`
    on a CPU or one for each GPU, that talk over loopback only.

    Parameters
    ----------
    device : {"cpu", "cuda"}
    quick : bool
        Fewer repetitions.

    Returns
    -------
    dict
        bytes_per_peer, bytes (what a rank sends to others), seconds and median_s (dispatch), combine_s and
        combine_median_s, latency_s, bandwidth_bytes_per_s (of one rank, one way), fit_error (relative, by size),
        num_ranks, ranks_per_host, backend, repeats.

    Raises
    ------
    RuntimeError
        If there are fewer than two GPUs, or a process fails or takes longer than `PATIENCE_S`.
    """
    if {"RANK", "WORLD_SIZE"} <= os.environ.keys():
        return _as_rank(device, quick)
    ranks = RANKS
    if device == "cuda":
        import torch

        ranks = torch.cuda.device_count()
        if ranks < 2:
            raise RuntimeError(f"an exchange needs two GPUs, this machine shows {ranks}; see torchrun in its module")
    with TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        launch([sys.executable, "-m", __name__, "--device", device, "--meet", f"{folder}/meet", "--json", str(out),
                *["--quick"] * quick], ranks)
        return json.loads(out.read_text())


def dispatch(rows, send, receive, out=None):
    """Rows [sum(send), width], grouped by the rank they go to, to those that came here [sum(receive), width].

    Combining is the same with `send` and `receive` changed over.
    """
    import torch.distributed as dist

    if out is None:
        out = rows.new_empty((sum(receive), *rows.shape[1:]))
    dist.all_to_all_single(out, rows, list(receive), list(send))
    return out


def launch(command, ranks, *, patience_s=PATIENCE_S):
    """Run `command` once for each rank, with RANK, WORLD_SIZE and LOCAL_RANK set, until all have ended.

    If one fails, all are ended. Each reads from a pipe that closes with this process: see `end_with_parent`.

    Raises
    ------
    RuntimeError
        Names the rank that failed, its exit status and its last words.
    """
    loopback = LOOPBACK.get(sys.platform)
    env = os.environ | {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), env.get("PYTHONPATH")]))
    env |= {f"{backend}_SOCKET_IFNAME": loopback for backend in ("GLOO", "NCCL") if loopback}
    processes = []
    with TemporaryDirectory() as folder:
        words = [Path(folder) / str(rank) for rank in range(ranks)]
        try:
            for rank, path in enumerate(words):
                with path.open("w") as said:
                    processes.append(subprocess.Popen(
                        command, stdin=subprocess.PIPE, stdout=said, stderr=said,
                        env=env | {"RANK": str(rank), "LOCAL_RANK": str(rank)}))
            _wait(processes, words, monotonic() + patience_s)
        finally:
            for process in processes:
                process.kill()
                process.wait()
                process.stdin.close()


def end_with_parent():
    """End this process when the one that started it has ended, however that came about."""
    def watch():
        os.read(0, 1)  # nothing is ever written: this returns when the other end is closed
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(argv=None):
    """One rank of an exchange, or, without RANK, all of them on this machine."""
    parser = argparse.ArgumentParser(prog="python -m moe_lib.bench.exchange", description="Time an all-to-all.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="(default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--out", type=Path, metavar="FILE", help="rank 0 writes the record here")
    parser.add_argument("--meet", help=argparse.SUPPRESS)  # a file where local ranks find each other
    parser.add_argument("--json", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.meet:
        end_with_parent()
        result = _as_rank(options.device, options.quick, options.meet)
    else:
        result = measure(options.device, options.quick)
    if os.environ.get("RANK", "0") != "0":
        return
    if options.json:
        options.json.write_text(json.dumps(result, allow_nan=False))
        return
    for size, least, back in zip(result["bytes_per_peer"], result["seconds"], result["combine_s"], strict=True):
        print(f"{size:10,} B a peer: dispatch {least * 1e6:10,.1f} us, combine {back * 1e6:10,.1f} us")
    print(f"{result['num_ranks']} ranks, {result['backend']}: {result['latency_s'] * 1e6:.1f} us + bytes / "
          f"{result['bandwidth_bytes_per_s'] / 1e9:.2f} GB/s; off by up to {max(map(abs, result['fit_error'])):.0%}")
    if options.out:
        _write(options.out, options.device, result)


def _write(path, device, result):
    import torch

    from ..records import write
    from .cpu import describe
    from .result import record

    on = torch.cuda.get_device_name() if device == "cuda" else describe()
    write(path, [record(SimpleNamespace(on=on, software=f"torch {torch.__version__}"), "all_to_all", result)])


def _wait(processes, words, deadline):
    waiting = set(range(len(processes)))
    while waiting:
        for rank in sorted(waiting):
            status = processes[rank].poll()
            if status:
                last = words[rank].read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
                raise RuntimeError(f"rank {rank} of {len(processes)} ended with status {status}: {last[0]}")
            if status == 0:
                waiting.discard(rank)
        if waiting and monotonic() > deadline:
            raise RuntimeError(f"ranks {sorted(waiting)} of {len(processes)} did not end in time")
        sleep(0.02)


def _as_rank(device, quick, meet=None):
    """What `measure` returns, on every rank; `meet` is a file where ranks find each other, None asks torchrun."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    backend = {"cpu": "gloo", "cuda": "nccl"}[device]
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    ranks = int(os.environ["WORLD_SIZE"])
    if ranks < 2:
        raise RuntimeError(f"an exchange needs two processes, WORLD_SIZE is {ranks}")
    dist.init_process_group(backend, init_method=f"file://{meet}" if meet else "env://", world_size=ranks,
                            rank=int(os.environ["RANK"]), timeout=timedelta(seconds=PATIENCE_S / 2))
    try:
        repeats = 20 if quick else 100
        times = torch.tensor([_times(size // (2 * ROW), ranks, device, repeats) for size in SIZES.tolist()],
                             dtype=torch.float64, device=device)
        dist.all_reduce(times, op=dist.ReduceOp.MAX)  # a sample takes as long as its slowest rank
    finally:
        dist.destroy_process_group()
    return {**_summarised(times.cpu().numpy(), ranks), "num_ranks": ranks, "backend": backend, "repeats": repeats,
            "ranks_per_host": int(os.environ.get("LOCAL_WORLD_SIZE", ranks))}


def _times(rows, ranks, device, repeats):
    """Seconds of dispatches and of combines [2, repeats] on this rank, `rows` to every rank."""
    import torch

    here = torch.randn(ranks * rows, ROW, device=device).to(torch.bfloat16)
    there, even = here.clone(), [rows] * ranks  # every page is written before anything is timed
    samples = [(_timed(here, there, even, device), _timed(there, here, even, device)) for _ in range(repeats + 3)]
    return np.array(samples[3:]).T.tolist()  # the first three warmed up


def _timed(rows, out, even, device):
    """Seconds of a `dispatch`, begun together on all ranks."""
    import torch
    import torch.distributed as dist

    dist.barrier()
    if device == "cpu":
        start = perf_counter()
        dispatch(rows, even, even, out)
        return perf_counter() - start
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    dispatch(rows, even, even, out)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def _summarised(times, ranks):
    """Least, median and fit of times [sizes, 2, repeats]."""
    least, median, sent = times.min(axis=2), np.median(times, axis=2), SIZES * (ranks - 1)
    latency, bandwidth = fit_overhead(sent, least[:, 0])  # seconds = latency + bytes / bandwidth
    fitted = latency + sent / bandwidth
    return {"bytes_per_peer": SIZES.tolist(), "bytes": sent.tolist(), "seconds": least[:, 0].tolist(),
            "median_s": median[:, 0].tolist(), "combine_s": least[:, 1].tolist(),
            "combine_median_s": median[:, 1].tolist(), "latency_s": latency, "bandwidth_bytes_per_s": bandwidth,
            "fit_error": (fitted / least[:, 0] - 1).tolist()}


if __name__ == "__main__":
    main()
