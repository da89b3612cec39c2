"""One function a benchmark: each yields what it is doing and returns a `Record` with samples, limit and provenance.

Ceilings (bytes/s, FLOP/s) are measured inside every repetition, beside what they bound, because shared machines change
from second to second. A limit takes the best ceiling of the run, and a ratio is the least time over its limit; a paired
ratio holds each time against the ceilings of its own repetition, and is their median.
"""

from collections import OrderedDict
from dataclasses import replace
from time import perf_counter

import numpy as np

from .. import measured
from ..balance import balance
from ..caching import lru_hit_rates, sample_trace
from ..records import inclusion, router_loads
from ..roofline import transfer_time
from ..routing import experts_touched, experts_touched_std, sample_routing, zipf_inclusion
from .result import record

SHAPES = {"cpu": (64, 4, 1024, 512), "cuda": (128, 8, 2048, 768)}  # E, k, d, f
PLACED = (58, 256, 32, 288)  # layers, experts, GPUs, slots


def membw(machine, rng, quick):
    """Bytes/s that one pass over memory reaches: the ceiling of all that waits for weights."""
    samples = []
    for _ in range(10 if quick else 40):
        yield "membw"
        samples.append(machine.bandwidth(rng))
    return record(machine, "membw", {"bytes_per_s": samples, "published_bytes_per_s": machine.published[0]})


def gemm_peak(machine, rng, quick):
    """FLOP/s of a large matrix product: the ceiling of all that computes."""
    samples = []
    for _ in range(10 if quick else 40):
        yield "gemm_peak"
        samples.append(machine.peak())
    return record(machine, "gemm_peak", {"flops_per_s": samples, "published_flops_per_s": machine.published[1]})


def moe_decode(machine, rng, quick, routing="uniform"):
    """Step time of the layer by batch: router, permutation and experts, with the experts touched counted.

    routing is "uniform", "skewed" (popularity 1/rank) or "loads" (the most uneven real router shipped, cut to k).

    Raises
    ------
    ValueError
        If routing is "loads" and no router of as many experts is shipped.
    """
    E, k = machine.num_experts, machine.top_k
    popularity = _popularity(routing, E, k)

    def choose(batch):
        return sample_routing(rng, batch, E, k, inclusion=popularity)

    batches = 2 ** np.arange(9 if quick else 13)
    return (yield from _sweep(machine, rng, "moe_decode", choose, batches, quick, routing))


def _popularity(routing, num_experts, top_k):
    """Inclusion probabilities [E] of a kind of routing; None: uniform."""
    if routing == "uniform":
        return None
    if routing == "skewed":
        return zipf_inclusion(num_experts, top_k, 1)
    real = [inclusion(load) for load in router_loads() if load.data["num_experts"] == num_experts]
    if not real:
        raise ValueError(f"routing 'loads' needs a shipped router of {num_experts} experts, and there is none")
    most = max(real, key=np.max)
    cut = np.minimum(most * top_k / most.sum(), 1)
    return cut * top_k / cut.sum()


def dense_twin(machine, rng, quick):
    """The dense layer of the same active size: every token uses the same k experts."""
    def choose(batch):
        first = rng.integers(0, machine.num_experts - machine.top_k + 1)
        return np.tile(first + np.arange(machine.top_k), (batch, 1))

    return (yield from _sweep(machine, rng, "dense_twin", choose, 4 ** np.arange(5 if quick else 7), quick))


def expert_gemm(machine, rng, quick):
    """One expert against its tokens."""
    def choose(tokens):
        return np.full((tokens, 1), rng.integers(machine.num_experts))

    return (yield from _sweep(machine, rng, "expert_gemm", choose, 4 ** np.arange(5 if quick else 7), quick))


def h2d(machine, rng, quick):
    """Bytes/s from the host's memory to the device, by size; on a CPU a throttled copy, which says so."""
    sizes = 2 ** np.arange(20, 25 if quick else 29, 2)
    ways, seconds = machine.links(), {}
    for way, copy in ways.items():
        seconds[way] = []
        for size in sizes.tolist():
            yield f"h2d: {way}, {size >> 20} MB"
            seconds[way].append([copy(size) for _ in range(3 if quick else 7)])
    return record(machine, "h2d", {"bytes": sizes.tolist(), "seconds": seconds,
                                   "published_bytes_per_s": machine.published[2]})


def offload_lru(machine, rng, quick):
    """A decode loop whose experts come over a link into an LRU cache of half of them, token by token."""
    E, k, slots = machine.num_experts, machine.top_k, machine.num_experts // 2
    warm = 3 * slots // k  # tokens until the cache is full
    trace = sample_trace(rng, warm + (24 if quick else 96), E, k, reuse=0.3)
    cache, place, free = machine.slots(slots), OrderedDict(), list(range(slots))
    missed, seconds, copying = [], [], []
    for token, chosen in enumerate(trace.tolist()):
        if token % 8 == 0:
            yield f"offload_lru: token {token}"
        x, gates = machine.inputs(rng, np.array([chosen]))
        found = [expert for expert in chosen if expert in place]
        for expert in found:
            place.move_to_end(expert)
        copied = 0.0
        for expert in set(chosen) - set(found):
            slot = free.pop() if free else place.popitem(last=False)[1]
            copied += machine.fetch(cache, slot, expert) if token >= warm else 0.0
            place[expert] = slot
        where = np.array([[place[expert] for expert in chosen]])
        seconds.append(copied + machine.seconds(machine.forward, x, where, gates, cache))
        missed.append(k - len(found))
        copying.append(copied)
    timed = np.array(seconds[warm:]) - copying[warm:]
    return record(machine, "offload_lru", {
        "slots": slots, "num_experts": E, "top_k": k, "expert_bytes": machine.expert_bytes, "missed": missed[warm:],
        "seconds": seconds[warm:], "compute_s": np.median(timed), "link_bytes_per_s": machine.link_bytes_per_s,
        "lru_hit_rate": lru_hit_rates(trace[warm:], E)[slots],
    }, routing="reuse 0.3")


def all_to_all(machine, rng, quick):
    """Dispatch and combine between processes under torch.distributed, by bytes."""
    from .exchange import measure

    yield "all_to_all: starting processes"
    return record(machine, "all_to_all", measure(machine.device, quick))


def balancing(machine, rng, quick):
    """Replication and placement of skewed experts: seconds a call, and how even they become."""
    layers, E, gpus, slots = PLACED
    loads = np.array([rng.permutation(np.arange(1.0, E + 1) ** -1) for _ in range(layers)])
    seconds = []
    for _ in range(3 if quick else 10):
        yield f"balance: {layers} layers"
        start = perf_counter()
        placement = balance(loads, gpus, slots)
        seconds.append(perf_counter() - start)
    return record(machine, "balance", {"seconds": seconds, "layers": layers, "num_experts": E, "num_gpus": gpus,
                                       "num_slots": slots, "max_over_mean": placement.max_over_mean.mean(),
                                       "lower_bound": placement.lower_bound.mean()})


SUITE = {"membw": membw, "gemm_peak": gemm_peak, "moe_decode": moe_decode, "dense_twin": dense_twin,
         "expert_gemm": expert_gemm, "h2d": h2d, "offload_lru": offload_lru, "all_to_all": all_to_all,
         "balance": balancing}


def quick(names=("membw", "gemm_peak", "moe_decode", "dense_twin"), *, seed=0):
    """Run benchmarks on this processor, the quick way, one thread; {name: Record}.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    from .cpu import Layer

    unknown = set(names) - set(SUITE)
    if unknown:
        raise ValueError(f"names must be out of {', '.join(SUITE)}, got {', '.join(sorted(unknown))}")
    machine = Layer(*SHAPES["cpu"], seed=seed)
    return {name: finish(SUITE[name](machine, np.random.default_rng(seed), True)) for name in names}


def finish(steps, show=lambda doing: None):
    """Run a benchmark to its end, showing what it does; its record."""
    while True:
        try:
            show(next(steps))
        except StopIteration as end:
            return end.value


def limits(layer):
    """Seconds that each sample of a layer record needs at least (`TimedLayer.limit`), by the ceilings of its own run.

    Parameters
    ----------
    layer : Record
        Of `moe_decode`, `dense_twin` or `expert_gemm`.

    Returns
    -------
    list of ndarray
        By batch, one number a sample.
    """
    return [batch.limit() for batch in measured.samples(layer)]


def ratios(layer):
    """Least time over limit by batch [batches]; below `measured.SURE` the limit is wrong."""
    return np.array([batch.over_limit.min() for batch in measured.samples(layer)])


def paired_ratios(layer):
    """Time over the limit by the ceilings of the same repetition, the median of each batch [batches]."""
    own = {key: layer.data[f"ceilings_{key}"] for key in ("bytes_per_s", "flops_per_s")}
    batches = [replace(batch, **{key: np.array(of[at]) for key, of in own.items()})
               for at, batch in enumerate(measured.samples(layer))]
    return np.array([np.median(batch.over_limit) for batch in batches])


def summary(result):
    """(measured, limit, ratio, unit) of a record in one line of numbers: medians, and None where there is no limit."""
    of = result.data
    if result.what in ("membw", "gemm_peak"):
        key = "bytes_per_s" if result.what == "membw" else "flops_per_s"
        best, published = max(of[key]) / 1e9, of[f"published_{key}"]
        limit = published and published / 1e9
        return best, limit, limit and best / limit, "GB/s" if result.what == "membw" else "GFLOP/s"
    if "touched" in of:
        at = len(of["batch"]) // 2
        return (1e3 * min(of["seconds"][at]), 1e3 * float(np.median(limits(result)[at])), float(ratios(result)[at]),
                f"ms at {of['batch'][at]}")
    if result.what == "h2d":
        best = max(size / min(times) for ways in of["seconds"].values()
                   for size, times in zip(of["bytes"], ways, strict=True)) / 1e9
        limit = of["published_bytes_per_s"] and of["published_bytes_per_s"] / 1e9
        return best, limit, limit and best / limit, "GB/s"
    if result.what == "offload_lru":
        limit = of["compute_s"] + transfer_time(np.array(of["missed"]) * of["expert_bytes"], of["link_bytes_per_s"])
        return (1e3 * float(np.mean(of["seconds"])), 1e3 * float(limit.mean()),
                float(np.sum(of["seconds"]) / limit.sum()), "ms a token")
    if result.what == "all_to_all":
        rate = of["bytes"][-1] / of["seconds"][-1] / 1e9  # no limit: the fitted constants are no physical one
        return rate, None, None, f"GB/s a rank at {of['bytes_per_peer'][-1] >> 20} MB a peer; " \
                                 f"fitted latency {1e6 * of['latency_s']:.0f} us"
    return of["max_over_mean"], of["lower_bound"], of["max_over_mean"] / of["lower_bound"], "max/mean"


def _sweep(machine, rng, what, choose, batches, quick, routing=""):
    """Time a layer over batches, ceilings inside each repetition."""
    E = machine.num_experts
    timed = {"touched": [], "seconds": [], "ceilings_bytes_per_s": [], "ceilings_flops_per_s": []}
    parts = {"router_s": [], "permute_s": [], "kernel": []}
    for batch in batches.tolist():
        samples = []
        repeats = max(5, min(5 if quick else 15, 4096 // batch))
        for repeat in range(repeats + 1):
            yield f"{what}: {batch} tokens"
            experts = choose(batch)
            x, gates = machine.inputs(rng, experts)
            ceilings = machine.bandwidth(rng), machine.peak()
            time = machine.seconds(machine.forward, x, experts, gates)
            if repeat:  # the first one warms up
                samples.append((np.unique(experts).size, time, *ceilings, machine.seconds(machine.route, x),
                                machine.seconds(machine.permute, experts)))
        *columns, routers, permutes = map(list, zip(*samples, strict=True))
        for key, column in zip(timed, columns, strict=True):
            timed[key].append(column)
        parts["router_s"].append(min(routers))
        parts["permute_s"].append(min(permutes))
        parts["kernel"].append(machine.kernel)
    best = {key: max(map(max, timed[f"ceilings_{key}"])) for key in ("bytes_per_s", "flops_per_s")}
    k = experts.shape[1]
    expected = {} if what != "moe_decode" or routing != "uniform" else {
        "touched_expected": experts_touched(E, k, batches), "touched_std": experts_touched_std(E, k, batches)}
    return record(machine, what, {
        "batch": batches, **timed, **parts, **expected, **best,
        "expert_bytes": machine.expert_bytes, "num_experts": E, "top_k": k,
        "d_model": machine.d_model, "d_expert": machine.d_expert, "dtype": machine.dtype,
        "flops_per_token": 6 * k * machine.d_model * machine.d_expert, "threads": machine.threads,
        "ceilings": "best of the run, measured before every timing",
    }, routing=routing)
