"""`python -m moe_lib MODEL`: what a model holds, reads and computes on given devices, as text. It only formats."""

import argparse
import itertools
import math
import os
import sys
import textwrap

from ._arguments import ABOVE_ZERO, require
from ._show import counted
from .hardware import DEVICES, GPUS_PER_NODE, LINKS, USABLE_SHARE, devices_needed
from .layouts import layouts, problems, rank_resident_bytes
from .models import CATALOG, from_config
from .plan import implied_dtype, plan
from .roofline import compute_time, memory_time, ridge_point, step_time
from .routing import agreeing_inclusion
from .steps import decode_step, resident_bytes, sequences_that_fit

BATCH = 64  # of the summary, unless chosen


def main(argv=None):
    """Print the summary and the plan; a bad argument ends in one sentence on stderr and exit status 2."""
    parser = argparse.ArgumentParser(prog="python -m moe_lib", description="What a model holds, reads and computes.")
    add, default = parser.add_argument, "(default: %(default)s)"
    add("model", nargs="?", default="", help="a name of the catalogue, or the path of a config.json")
    add("--list", action="store_true", help="show the catalogue, the devices and the links")
    add("--family", help="read the config.json as this model_type")
    add("--device", default="h200", help=f"a name of --list {default}")
    add("--gpus", type=int, default=8, help=f"number of devices {default}")
    add("--batch", type=int, help="sequences, one token each in a step (default: 64; in the plan the most that fit)")
    add("--context", type=int, default=8192, help=f"tokens cached per sequence {default}")
    add("--weight-bits", metavar="BITS", help="such as 4.25, or routed_experts=4.25,default=16 (default: as released)")
    add("--kv-bits", type=float, default=16, metavar="BITS", help=f"bits per cached value {default}")
    add("--dtype", help="format of the arithmetic (default: fp8 for 8-bit weights where the device has it, else bf16)")
    plans = parser.add_argument_group("plan of layouts").add_argument
    plans("--tpot-ms", type=float, metavar="MS", help="most milliseconds per output token")
    plans("--price", type=float, help="of one device per hour: adds costs of a request and of 1e6 output tokens")
    plans("--output", type=int, default=1024, metavar="TOKENS", help=f"of an answer, for the cost {default}")
    plans("--overhead", metavar="T0_MS,EFFICIENCY", help="a step takes T0 + bound / EFFICIENCY (default: 0,1)")
    plans("--prompt", type=int, metavar="TOKENS", help="behind the time to the first token (default: the context)")
    plans("--chunk", type=int, metavar="TOKENS", help="of a prompt that go through at once (default: all)")
    plans("--weight-block", type=int, metavar="N", help="weights along a side that share a scale, such as 128")
    plans("--link", help="between the devices of a node (default: exchanges are not counted)")
    plans("--network", help="between nodes of 8")
    options = parser.parse_args(argv)
    if not options.model and not options.list:
        parser.error("give a model of the catalogue or the path of a config.json; --list names those known")
    try:
        text = "\n".join(_catalogue() if options.list else _report(options))
    except ValueError as problem:
        parser.error(str(problem))
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader of a pipe has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _find(name, known, what):
    if name not in known:
        close = " or ".join(known.near(name))
        raise ValueError(f"{name!r} is not {what}; {f'did you mean {close}?' if close else '--list shows those known'}")
    return known[name]


def _weight_bytes(bits):
    if bits is None:
        return None
    pairs = [item.rpartition("=")[::2] for item in bits.split(",")]
    try:
        sizes = {part.strip() or "default": float(size) for part, size in pairs}
        if len(sizes) < len(pairs):  # a part said twice
            raise ValueError
    except ValueError:
        raise ValueError(f"--weight-bits must be a number or part=number,...,default=number, got {bits!r}") from None
    require("--weight-bits", list(sizes.values()), 0.1, 64)
    return {part: size / 8 for part, size in sizes.items()}


def _catalogue():
    yield f"{'model, 1e9 parameters':30}{'total':>10}{'as read':>10}{'experts':>10}{'a token':>10}"
    for slug, model in CATALOG.items():
        experts = f"{model.num_experts:10}{model.top_k:10}" if model.num_moe_layers else f"{'dense':>10}"
        yield f"{slug:30}{model.total_params / 1e9:10,.1f}{model.active_params_read / 1e9:10,.1f}{experts}"
    yield f"\n{'device, published peaks':30}{'GB shown':>10}{'TB/s':>10}{'bf16 TFLOP/s':>15}   1 GB = 1e9 bytes"
    for slug, device in DEVICES.items():
        peak = f"{device.peak() / 1e12:15,.0f}" if device.peak_flops_per_s else f"{'-':>15}"
        yield f"{slug:30}{device.visible_bytes / 1e9:10,.1f}{device.bandwidth_bytes_per_s / 1e12:10,.2f}{peak}"
    yield f"\n{'link, one way':30}{'GB/s':>10}"
    yield from (f"{slug:30}{link.bytes_per_s / 1e9:10,.1f}" for slug, link in LINKS.items())


def _row(label, value, decimals=0, unit="", remark=""):
    return f"  {label:26}{value:19,.{decimals}f} {unit:10} {remark}".rstrip()


def _report(options):
    name, batch, gpus = options.model, BATCH if options.batch is None else options.batch, options.gpus
    require("--gpus and --batch", [gpus, batch], 1)
    require("--kv-bits", options.kv_bits, 0, 64)
    own = options.family or (name not in CATALOG and os.path.exists(name))
    model = from_config(name, family=options.family) if own else _find(name, CATALOG, "a file or a known model")
    device, weight_bytes = _find(options.device, DEVICES, "a known device"), _weight_bytes(options.weight_bits)
    cache = {"context": options.context, "kv_bytes": options.kv_bits / 8}
    implied = implied_dtype(model, device, weight_bytes)
    dtype = options.dtype or (implied if implied in device.peak_flops_per_s else None)  # None: no peak is published
    step = decode_step(model, batch, weight_bytes=weight_bytes, **cache)
    yield from _facts(model, options.weight_bits)
    tokens = counted(options.context, "token")
    yield f"\nOne decode step, batch {batch:,}, {tokens} cached per sequence (1 GB = 1e9 bytes)"
    yield from _step(model, step)
    yield f"\nTime of that step on {gpus} x {device.name}: published peaks, an even split, no communication"
    yield from _time(step, device, dtype, gpus, "for a uniform router" if model.num_moe_layers else "")
    if model.num_moe_layers:
        same = agreeing_inclusion(model.num_experts, model.top_k)
        least = decode_step(model, batch, weight_bytes=weight_bytes, inclusion=same, **cache)
        yield _row("step, any router", _lower_bound(least, device, dtype, gpus) * 1e3, 3, "ms",
                   f"at least: every token chooses the same {model.top_k} expert{'s' if model.top_k > 1 else ''}")
    if model.caches is None:
        yield "\nHow many sequences fit and which layout is best cannot be said: the cache of this model is not known."
        return
    yield f"\nResident on {gpus} x {device.name}: an even split, nothing held twice"
    yield from _resident(model, device, gpus, batch, weight_bytes, cache)
    sequences = f"batch {batch:,}" if options.batch else "the largest batch that fits"
    target = "" if options.tpot_ms is None else f", at most {options.tpot_ms:g} ms a token"
    yield f"\nLayouts over {gpus} x {device.name}, best first: {sequences}{target}"
    if dtype:
        yield from _layouts(model, device, options, cache | {"weight_bytes": weight_bytes, "dtype": dtype})
    else:
        yield "  none: this device has no published peak FLOP/s"


def _facts(model, weight_bits):
    experts = f"{model.num_experts} routed in {counted(model.num_moe_layers, 'layer')}, {model.top_k} a token"
    experts = f"{experts}, {model.num_shared_experts} shared" if model.num_moe_layers else "none: a dense model"
    weights = f"{weight_bits} bits" if weight_bits else f"as released: {model.released_precision}"
    yield f"{model.name}: family {model.family}, {counted(model.num_layers, 'layer')}"
    for label, text in dict(experts=experts, weights=weights, source=model.source, notes=model.notes or "none").items():
        yield textwrap.fill(f"  {label:9}{text}", 110, subsequent_indent=" " * 11, break_on_hyphens=False)
    yield "\nParameters"
    yield from (_row(part.replace("_", " "), count) for part, count in model.ledger().items() if count)
    yield _row("total", model.total_params)
    yield _row("active", model.active_params, 0, "one token, input embedding counted")
    embedding = "is the head too" if model.tied_embeddings else "left out: one row of it is looked up"
    yield _row("active, as read", model.active_params_read, 0, f"one token, input embedding {embedding}")


def _step(model, step):
    if model.num_moe_layers:
        yield _row("experts touched", step.experts_touched, 1, f"of {model.num_experts}", f"{step.share_touched:.2%}")
        yield _row("tokens per expert", step.tokens_per_expert, 2, "", "mean over all experts")
        yield _row("", step.tokens_per_touched_expert, 2, "", "mean over the experts touched")
    yield _row("weights read", step.weight_bytes_read / 1e9, 1, "GB")
    with_state = "with the fixed state" if model.state_bytes_per_sequence and step.kv_bytes_read else ""
    yield _row("KV cache read", step.kv_bytes_read / 1e9, 1, "GB", with_state)
    yield _row("read", step.bytes_read / 1e9, 1, "GB")
    if step.state_bytes_written:
        yield _row("state written back", step.state_bytes_written / 1e9, 1, "GB", "by all but special kernels")
    yield _row("computed", step.flops / 1e9, 1, "GFLOP")
    yield _row("intensity", step.intensity, 2, "FLOP/byte")


def _lower_bound(step, device, dtype, gpus):
    return step_time(step, device, dtype, gpus).lower if dtype else memory_time(step, device, gpus)


def _time(step, device, dtype, gpus, router):
    reading, lower = memory_time(step, device, gpus), _lower_bound(step, device, dtype, gpus)
    yield _row("reading and writing" if step.state_bytes_written else "reading", reading * 1e3, 3, "ms",
               f"{device.bandwidth_bytes_per_s / 1e12:.2f} TB/s each")
    if dtype:
        computing, upper = compute_time(step, device, dtype, gpus), step_time(step, device, dtype, gpus).upper
        yield _row("computing", computing * 1e3, 3, "ms", f"{device.peak(dtype) / 1e12:,.0f} TFLOP/s each, in {dtype}")
        yield _row("ridge point", ridge_point(device, dtype), 1, "FLOP/byte",
                   f"{'computing' if computing > reading else 'reading'} bounds the step")
        yield _row("step, upper bound", upper * 1e3, 3, "ms", "reading, then computing")
    overlapped = "reading and computing at once" if dtype else "reading alone: this device has no published peak FLOP/s"
    yield _row("step, lower bound", lower * 1e3, 3, "ms", ", ".join(filter(None, [overlapped, router])))
    if step.state_bytes_written:
        yield "  (with the state written back; kernels that do so less often can be faster)"
    yield _row("throughput, upper bound", step.batch / lower, 1, "tokens/s", f"{1 / lower:,.1f} per sequence")


def _resident(model, device, gpus, batch, weight_bytes, cache):
    usable, weights = gpus * device.usable_bytes, resident_bytes(model, weight_bytes=weight_bytes)
    both = resident_bytes(model, weight_bytes=weight_bytes, sequences=batch, **cache)
    most = sequences_that_fit(model, usable, weight_bytes=weight_bytes, **cache)
    bound = "upper bound: some layers stop caching at a window" if model.kv_is_upper_bound else ""
    yield _row("KV cache per token", model.kv_bytes_per_token(cache["kv_bytes"]), 0, "bytes", bound)
    yield _row("KV cache per sequence", model.kv_bytes_per_sequence(**cache) / 1e6, 1, "MB")
    if model.state_bytes_per_sequence:
        yield _row("fixed state per sequence", model.state_bytes_per_sequence / 1e6, 1, "MB")
    yield _row("weights", weights / 1e9, 1, "GB")
    yield _row("weights and caches", both / 1e9, 1, "GB", "fit" if both <= usable else "do not fit")
    yield _row("usable", usable / 1e9, 1, "GB", f"{USABLE_SHARE:g} of what the drivers show")
    yield _row("sequences that fit", most, 0, "at most", "if nothing is held twice")
    yield _row("devices needed", devices_needed(weights, device), 0, "at least", "for the weights")
    yield _row("", devices_needed(both, device), 0, "at least", "for weights and caches")


def _layouts(model, device, options, settings):
    links = {name: _find(slug, LINKS, "a known link") if slug else None
             for name, slug in {"link": options.link, "network": options.network}.items()}
    if links["network"] and not links["link"]:
        raise ValueError("--network must come with a --link")
    if links["link"] and not links["network"] and options.gpus > GPUS_PER_NODE:
        raise ValueError(f"--network must name a link between nodes, such as ib-ndr: {options.gpus} GPUs do not fit a "
                         f"node of {GPUS_PER_NODE}")
    target = None if options.tpot_ms is None else require("--tpot-ms", options.tpot_ms, ABOVE_ZERO) / 1e3
    overhead = _overhead(options.overhead)
    rows = plan(model, device, options.gpus, batch=options.batch, tpot=target, overhead=overhead,
                price_per_hour=options.price, prompt=options.prompt, output=options.output, chunk=options.chunk,
                weight_block=options.weight_block, **links, **settings)
    times = f"{overhead[0] * 1e3:g} ms + bound / {overhead[1]:g}" if options.overhead else "lower bounds"
    over = " and ".join(filter(None, (options.link, options.network)))
    if options.batch is None:
        yield f"  Each layout has a batch of its own, not the {BATCH} above."
    router = " for a uniform router" if model.num_moe_layers else ""
    yield f"  Times are {times}{router}, exchanges {f'over {over}' if over else 'not counted'}."
    yield "  Sequences that fit and in a step; tokens/s of a user, of a GPU, and of a GPU that does only prompts."
    if options.price is not None:
        yield from _cost(options)
    yield (f"  {'attention':10}{'experts':26}{'fit':>10}{'batch':>10}{'TPOT ms':>9}{'TTFT ms':>9}{'user':>9}{'GPU':>8}"
           f"{'prompts':>8}{'' if options.price is None else '  request  1e6 out'}")
    alike = {}  # layouts of the same numbers, or problem, share a line
    for row in rows:
        attention, _, experts = str(row.layout).partition("+")
        experts = experts or attention if model.num_moe_layers else "none"
        weights = rank_resident_bytes(model, row.layout, weight_bytes=settings["weight_bytes"]) / 1e9
        too_large = f"no sequence fits: {weights:,.1f} GB of weights, {device.usable_bytes / 1e9:,.1f} GB usable"
        if row.problems:
            alike.setdefault(("", row.problems[0]), []).append(f"{attention}+{experts}")
        else:
            alike.setdefault((f"{attention:10}", _numbers(row, target, too_large)), []).append(experts)
    for (attention, text), names in alike.items():
        names = textwrap.shorten(", ".join(names), 26 if attention else 31, placeholder=" ...")
        line = f"  {attention}{names:{26 if attention else 32}}{text}"
        yield textwrap.fill(line, 120, subsequent_indent=" " * 34, break_on_hyphens=False)
    yield from _verdict(model, rows, options)


def _cost(options):
    """What the columns of costs count."""
    prompt, output = options.prompt or max(options.context, 1), counted(options.output, "output token")
    yield f"  Cost: a request of {prompt:,} prompt and {output} (--output), and 1e6 output tokens with their prompts;"
    yield f"  {'from these times' if options.overhead else 'at least'}, where prompts and steps take turns."


def _verdict(model, rows, options):
    """A sentence where no layout has numbers."""
    sequences = "a sequence" if options.batch is None else counted(options.batch, "sequence")
    legal = [row for row in rows if not row.problems]
    if not legal:
        rules = {"weight_block": options.weight_block, "gpus_per_node": GPUS_PER_NODE if options.link else None}
        nearest = sorted(range(1, 2 * options.gpus), key=lambda gpus: abs(gpus - options.gpus))
        able = (gpus for gpus in nearest if not all(problems(model, of, **rules) for of in layouts(model, gpus)))
        near = sorted(itertools.islice(able, 2))
        yield f"  No layout over {counted(options.gpus, 'GPU')} is legal; try {' or '.join(map(str, near))}."
    elif not any(row.fits for row in legal):
        yield f"  No layout holds the weights and {sequences}."
    elif options.tpot_ms and not any(row.fits and row.tpot <= options.tpot_ms / 1e3 for row in legal):
        yield f"  No layout gives {sequences} a token in {options.tpot_ms:g} ms."


def _numbers(row, target, too_large):
    """The numbers of a legal layout, or why it has none."""
    if row.max_sequences == 0:
        return f"  {too_large}"
    if not row.fits:
        return f"  no more than {counted(row.max_sequences, 'sequence')} {'fits' if row.max_sequences == 1 else 'fit'}"
    if target is not None and row.tpot > target:
        return f"  a step of batch {max(row.batch, 1):,} takes {row.tpot * 1e3:,.2f} ms"
    cost, request = row.cost_per_million_tokens, row.cost_per_request
    return (f"{row.max_sequences:10,.0f}{row.batch:10,}{row.tpot * 1e3:9,.2f}{row.ttft * 1e3:9,.0f}"
            f"{row.tokens_per_s_per_user:9,.1f}{row.tokens_per_s_per_gpu:8,.0f}{row.prefill_tokens_per_s_per_gpu:8,.0f}"
            f"{'' if math.isnan(cost) else f'{request:9.3g}{cost:9,.2f}'}")


def _overhead(text):
    try:
        t0, efficiency = map(float, (text or "0,1").split(","))
    except ValueError:
        raise ValueError(f"--overhead must be two numbers, T0_MS,EFFICIENCY, got {text!r}") from None
    return t0 / 1e3, efficiency


if __name__ == "__main__":
    main()
