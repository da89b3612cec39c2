"""The CPU kernels of an MoE layer against their limit, torch's grouped_mm and Hugging Face's experts; one thread.

    python tests/benchmarks/bench_moe_layer.py

needs numba (the extra bench) for the kernels, torch and transformers (the extras gpu, hf) for the comparison, and says
what is missing. Bars: time/limit at most 1.25 to 8 tokens, 1.6 to 32, 2.4 beyond, never below 0.95; the others take at
least 1.5 times as long to 32 tokens, 1.3 at 64. Exit status 1 if one is missed.

All use the same weights. Every call gets routing of its own, so that no expert is still in cache, and follows a fresh
measurement of the ceilings. `/ limit`, which the bars are about, is the median of time over the limit by ceilings of
the same repetition; `least`, which is compared, is the least time over the limit by the best ceilings of the run.
"""

import sys

from moe_lib.bench import one_thread_each

one_thread_each()

import numpy as np  # noqa: E402

from moe_lib.bench.cpu import Layer, numba  # noqa: E402
from moe_lib.bench.suite import SHAPES  # noqa: E402
from moe_lib.routing import experts_touched, sample_routing  # noqa: E402

BATCHES = [2**i for i in range(13)]
COMPARED = 64  # tokens up to which others run too


def bar(batch):
    """Greatest time/limit allowed."""
    return 1.25 if batch <= 8 else 1.6 if batch <= 32 else 2.4


def grouped_mm(layer):
    """A forward pass by torch's grouped_mm on the layer's weights."""
    import torch

    product = getattr(torch.nn.functional, "grouped_mm", None) or torch._grouped_mm
    gate_up, down = (torch.from_numpy(part).transpose(-2, -1) for part in (layer.gate_up, layer.down))

    def forward(x, experts, gates):
        x, flat = torch.from_numpy(x), torch.from_numpy(experts).reshape(-1)
        order = torch.argsort(flat, stable=True)
        token = order // experts.shape[1]
        ends = torch.cumsum(torch.bincount(flat, minlength=layer.num_experts), 0).to(torch.int32)
        gate, up = product(x[token], gate_up, offs=ends).chunk(2, dim=1)
        rows = product(torch.nn.functional.silu(gate) * up, down, offs=ends)
        rows *= torch.from_numpy(gates).reshape(-1)[order, None]
        return torch.zeros_like(x).index_add_(0, token, rows).numpy()

    return forward


def hugging_face(layer, implementation):
    """A forward pass by the experts of Qwen3-MoE in transformers, on the layer's weights."""
    import torch
    from transformers import Qwen3MoeConfig
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts

    config = Qwen3MoeConfig(num_experts=layer.num_experts, num_experts_per_tok=layer.top_k, hidden_size=layer.d_model,
                            moe_intermediate_size=layer.d_expert, hidden_act="silu")
    config._experts_implementation = implementation
    with torch.device("meta"):
        experts = Qwen3MoeExperts(config)
    for name, part in (("gate_up_proj", layer.gate_up), ("down_proj", layer.down)):
        setattr(experts, name, torch.nn.Parameter(torch.from_numpy(part), requires_grad=False))

    def forward(x, chosen, gates):
        with torch.inference_mode():
            return experts(*map(torch.from_numpy, (x, chosen, gates))).numpy()

    return forward


def ways(layer):
    """{name: forward}, ours first; says what is missing."""
    found = {"ours": layer.forward}
    try:
        import torch

        torch.set_num_threads(1)
        found["torch grouped_mm"] = grouped_mm(layer)
        import transformers

        print(f"torch {torch.__version__}, transformers {transformers.__version__}")
        for implementation in ("eager", "grouped_mm"):
            found[f"transformers {implementation}"] = hugging_face(layer, implementation)
    except ImportError as missing:
        print(f"not compared with all: {missing}")
    return found


def check(layer, found, rng):
    """All of them give the same numbers."""
    experts = sample_routing(rng, 7, layer.num_experts, layer.top_k)
    x, gates = layer.inputs(rng, experts)
    expected = layer.forward(x, experts, gates)
    for name, forward in found.items():
        error = np.abs(forward(x, experts, gates) - expected).max() / np.abs(expected).max()
        if error > 1e-5:
            raise SystemExit(f"{name} differs by {error:.1e}")


def measure(layer, found, rng):
    """{batch: {name: [(seconds, experts touched, bytes/s, FLOP/s)]}}, best bytes/s and FLOP/s."""
    samples, ceilings = {}, []
    for batch in BATCHES:
        names = list(found) if batch <= COMPARED else ["ours"]
        samples[batch] = {name: [] for name in names}
        for repeat in range(31 if batch <= 128 else 8):
            for name in np.roll(names, repeat).tolist():
                experts = sample_routing(rng, batch, layer.num_experts, layer.top_k)
                x, gates = layer.inputs(rng, experts)
                ceilings.append((layer.bandwidth(rng), layer.peak()))
                seconds = layer.seconds(found[name], x, experts, gates)
                if repeat:  # the first one warms up
                    samples[batch][name].append((seconds, np.unique(experts).size, *ceilings[-1]))
    return samples, *np.max(ceilings, axis=0)


def main():
    layer, rng = Layer(*SHAPES["cpu"]), np.random.default_rng(0)
    print(layer.on, layer.software, sep=", ")
    if numba() is None:
        print("numba is missing: the bars are for the compiled kernels")
    found = ways(layer)
    check(layer, found, rng)
    samples, bandwidth, peak = measure(layer, found, rng)
    print(f"ceilings {bandwidth / 1e9:.1f} GB/s, {peak / 1e9:.0f} GFLOP/s\n{'tokens':>6}{'touched':>9}{'ms':>9}"
          f"{'/ limit':>9}{'least':>9}   others, as a multiple of ours: " + ", ".join(list(found)[1:]))
    missed = []
    for batch, by_name in samples.items():
        flops = 6 * batch * layer.top_k * layer.d_model * layer.d_expert

        def over_limit(name, by_name=by_name, flops=flops):
            return min(seconds / max(touched * layer.expert_bytes / bandwidth, flops / peak)
                       for seconds, touched, *_ in by_name[name])

        ours, others = over_limit("ours"), [over_limit(name) for name in list(by_name)[1:]]
        paired = np.median([seconds / max(touched * layer.expert_bytes / rate, flops / top)
                            for seconds, touched, rate, top in by_name["ours"]])
        times = min(seconds for seconds, *_ in by_name["ours"])
        touched = experts_touched(layer.num_experts, layer.top_k, batch)
        print(f"{batch:6}{touched:9.1f}{1e3 * times:9.2f}{paired:9.2f}{ours:9.2f}"
              + "".join(f"{other / ours:9.2f}" for other in others), flush=True)
        if not 0.95 <= paired <= bar(batch):
            missed.append(f"{batch} tokens: {paired:.2f} of the limit, allowed 0.95 to {bar(batch)}")
        least = 1.5 if batch <= 32 else 1.3
        missed += [f"{batch} tokens: {name} takes {other / ours:.2f} times as long, should be {least}"
                   for name, other in zip(list(by_name)[1:], others, strict=True) if other / ours < least]
    print("missed: " + "; ".join(missed) if missed else "every bar is met")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
