"""Hit rates of every LRU cache size from a million accesses to 256 experts: one pass beside a plain cache, one core.

    python tests/benchmarks/bench_lru.py
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections import OrderedDict
from time import perf_counter

import numpy as np

from moe_lib.caching import lru_hit_rates

ACCESSES, EXPERTS, SLOTS = 1_000_000, 256, 64


def plain_lru(trace, slots):
    cache, hits = OrderedDict(), 0
    for expert in trace:
        if expert in cache:
            hits += 1
            cache.move_to_end(expert)
        else:
            cache[expert] = None
            if len(cache) > slots:
                cache.popitem(last=False)
    return hits / len(trace)


def seconds(function, *arguments, times=5):
    taken = []
    for _ in range(times):
        start = perf_counter()
        result = function(*arguments)
        taken.append(perf_counter() - start)
    return min(taken), result


if __name__ == "__main__":
    trace = np.random.default_rng(0).integers(0, EXPERTS, ACCESSES)
    one_pass, rates = seconds(lru_hit_rates, trace, EXPERTS)
    plain, rate = seconds(plain_lru, trace.tolist(), SLOTS, times=2)
    assert rates[SLOTS] == rate
    print(f"{ACCESSES:,} accesses, {EXPERTS} experts: all {EXPERTS} sizes in {one_pass:.3f} s; "
          f"a plain LRU takes {plain:.3f} s for one, which is {plain / one_pass:.1f} x that")
