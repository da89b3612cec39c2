"""A million points of coverage, bytes, FLOP, intensity and time, against the bare NumPy expressions in the same run.

    python tests/benchmarks/bench_points.py

prints the ratio of medians. Aim: at most 2.0.
"""

from statistics import median
from time import perf_counter

import numpy as np

from moe_lib.hardware import DEVICES
from moe_lib.models import CATALOG
from moe_lib.roofline import step_time
from moe_lib.steps import decode_step

MODEL, DEVICE, POINTS, REPEATS = CATALOG["deepseek-v3"], DEVICES["h200"], 1_000_000, 15


def bare(batch):
    E, k, active = MODEL.num_experts, MODEL.top_k, MODEL.active_params_read
    always = 2 * (MODEL.always_active_params - MODEL.ledger()["embedding"])
    experts = 2 * MODEL.ledger()["routed_experts"]
    coverage = 1 - (1 - k / E) ** batch
    read = always + coverage * experts
    flops = 2 * batch * active
    return coverage, read, flops, flops / read, np.maximum(read / DEVICE.bandwidth_bytes_per_s, flops / DEVICE.peak())


def library(batch):
    step = decode_step(MODEL, batch, weight_bytes=2)
    return step.share_touched, step.bytes_read, step.flops, step.intensity, step_time(step, DEVICE).lower


def main():
    batch = np.geomspace(1, 65536, POINTS)
    for ours, theirs in zip(library(batch), bare(batch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    seconds = {bare: [], library: []}
    for _ in range(REPEATS):
        for function, times in seconds.items():
            start = perf_counter()
            function(batch)
            times.append(perf_counter() - start)
    ours, theirs = median(seconds[library]), median(seconds[bare])
    print(f"{POINTS:,} points: library {ours * 1e3:.1f} ms, bare NumPy {theirs * 1e3:.1f} ms, "
          f"ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
