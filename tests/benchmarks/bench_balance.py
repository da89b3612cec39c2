"""Time of `balance` for 58 layers of 256 experts, 288 slots on 32 GPUs, one core, and how even it gets.

    python tests/benchmarks/bench_balance.py
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from time import perf_counter

import numpy as np

from moe_lib.balance import balance
from moe_lib.routing import zipf_inclusion

LAYERS, EXPERTS, TOP_K, SLOTS, GPUS = 58, 256, 8, 288, 32


def best_of(times, function, *arguments):
    taken = []
    for _ in range(times):
        start = perf_counter()
        result = function(*arguments)
        taken.append(perf_counter() - start)
    return min(taken), np.median(taken), result


if __name__ == "__main__":
    print(f"{LAYERS} x {EXPERTS} experts, {SLOTS} slots on {GPUS} GPUs; aim: at most 40 ms")
    for exponent in 0.5, 1:
        rng, inclusion = np.random.default_rng(0), zipf_inclusion(EXPERTS, TOP_K, exponent)
        loads = np.stack([rng.permutation(inclusion) for _ in range(LAYERS)])
        least, median, placement = best_of(15, balance, loads, GPUS, SLOTS)
        print(f"Zipf {exponent:<3}: {least * 1e3:5.1f} ms a call, median {median * 1e3:5.1f}; max/mean "
              f"{placement.max_over_mean.mean():.5f} in the mean, {placement.max_over_mean.max():.5f} at most, "
              f"no lower than {placement.lower_bound.max():.5f}")
