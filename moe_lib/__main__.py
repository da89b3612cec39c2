"""`python -m moe_lib MODEL`: what a model holds, reads and computes on given devices, as text. It only formats."""

import argparse
import difflib
import os
import sys
import textwrap

from ._arguments import require
from .hardware import DEVICES, USABLE_SHARE, devices_needed
from .models import CATALOG, from_config
from .roofline import compute_time, memory_time, ridge_point, step_time
from .steps import bytes_per_weight, decode_step, resident_bytes, sequences_that_fit


def main(argv=None):
    """Print the summary; a bad argument ends in one sentence on stderr and exit status 2."""
    parser = argparse.ArgumentParser(prog="python -m moe_lib", description="What a model holds, reads and computes.")
    add, default = parser.add_argument, "(default: %(default)s)"
    add("model", nargs="?", default="", help="a name of the catalogue, or the path of a config.json")
    add("--list", action="store_true", help="show the catalogue and the devices")
    add("--family", help="read the config.json as this model_type")
    add("--device", default="h200", help=f"a name of --list {default}")
    add("--gpus", type=int, default=8, help=f"number of devices {default}")
    add("--batch", type=int, default=64, help=f"sequences, one token each in a step {default}")
    add("--context", type=int, default=8192, help=f"tokens cached per sequence {default}")
    add("--weight-bits", metavar="BITS", help="such as 4.25, or routed_experts=4.25,default=16 (default: as released)")
    add("--kv-bits", type=float, default=16, metavar="BITS", help=f"bits per cached value {default}")
    add("--dtype", help="format of the arithmetic (default: fp8 for 8-bit weights where the device has it, else bf16)")
    options = parser.parse_args(argv)
    if not options.model and not options.list:
        parser.error("give a model of the catalogue or the path of a config.json; --list names those known")
    try:
        text = "\n".join(_catalogue() if options.list else _summary(options))
    except ValueError as problem:
        parser.error(str(problem))
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader of a pipe has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _find(name, known, what):
    if name.lower() not in known:
        close = " or ".join(difflib.get_close_matches(name.lower(), known, cutoff=0.4))
        raise ValueError(f"{name!r} is not {what}; {f'did you mean {close}?' if close else '--list shows those known'}")
    return known[name.lower()]


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


def _implied_dtype(model, device, weight_bytes):
    """What the largest part of the model is multiplied in; None: no peak is published."""
    largest = max(model.ledger(), key=model.ledger().get)
    dtype = device.arithmetic(bytes_per_weight(model, weight_bytes)[largest])
    return dtype if dtype in device.peak_flops_per_s else None


def _catalogue():
    yield f"{'model, 1e9 parameters':30}{'total':>10}{'as read':>10}{'experts':>10}{'a token':>10}"
    for slug, model in CATALOG.items():
        experts = f"{model.num_experts:10}{model.top_k:10}" if model.num_moe_layers else f"{'dense':>10}"
        yield f"{slug:30}{model.total_params / 1e9:10,.1f}{model.active_params_read / 1e9:10,.1f}{experts}"
    yield f"\n{'device, published peaks':30}{'GB shown':>10}{'TB/s':>10}{'bf16 TFLOP/s':>15}   1 GB = 1e9 bytes"
    for slug, device in DEVICES.items():
        peak = f"{device.peak() / 1e12:15,.0f}" if device.peak_flops_per_s else f"{'-':>15}"
        yield f"{slug:30}{device.visible_bytes / 1e9:10,.1f}{device.bandwidth_bytes_per_s / 1e12:10,.2f}{peak}"


def _row(label, value, decimals=0, unit="", remark=""):
    return f"  {label:26}{value:19,.{decimals}f} {unit:10} {remark}".rstrip()


def _summary(options):
    require("--gpus and --batch", [options.gpus, options.batch], 1)
    require("--kv-bits", options.kv_bits, 0, 64)
    name, batch, gpus = options.model, options.batch, options.gpus
    own = options.family or (name not in CATALOG and os.path.exists(name))
    model = from_config(name, family=options.family) if own else _find(name, CATALOG, "a file or a known model")
    device, weight_bytes = _find(options.device, DEVICES, "a known device"), _weight_bytes(options.weight_bits)
    cache = {"context": options.context, "kv_bytes": options.kv_bits / 8}
    step = decode_step(model, batch, weight_bytes=weight_bytes, **cache)
    yield from _facts(model, options.weight_bits)
    yield f"\nOne decode step, batch {batch:,}, {options.context:,} tokens cached per sequence (1 GB = 1e9 bytes)"
    yield from _step(model, step)
    yield f"\nTime of that step on {gpus} x {device.name}: published peaks, an even split, no communication"
    yield from _time(step, device, options.dtype or _implied_dtype(model, device, weight_bytes), gpus)
    yield f"\nResident on {gpus} x {device.name}: an even split, nothing held twice"
    yield from _resident(model, device, gpus, batch, weight_bytes, cache)


def _facts(model, weight_bits):
    experts = f"{model.num_experts} routed in {model.num_moe_layers} layers, {model.top_k} a token"
    experts = f"{experts}, {model.num_shared_experts} shared" if model.num_moe_layers else "none: a dense model"
    weights = f"{weight_bits} bits" if weight_bits else f"as released: {model.released_precision}"
    yield f"{model.name}: family {model.family}, {model.num_layers} layers"
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
    yield _row("KV cache read", step.kv_bytes_read / 1e9, 1, "GB")
    yield _row("read", step.bytes_read / 1e9, 1, "GB")
    yield _row("computed", step.flops / 1e9, 1, "GFLOP")
    yield _row("intensity", step.intensity, 2, "FLOP/byte")


def _time(step, device, dtype, gpus):
    reading = lower = memory_time(step, device, gpus)
    yield _row("reading", reading * 1e3, 3, "ms", f"{device.bandwidth_bytes_per_s / 1e12:.2f} TB/s each")
    if dtype:
        computing, (lower, upper) = compute_time(step, device, dtype, gpus), step_time(step, device, dtype, gpus)
        yield _row("computing", computing * 1e3, 3, "ms", f"{device.peak(dtype) / 1e12:,.0f} TFLOP/s each, in {dtype}")
        yield _row("ridge point", ridge_point(device, dtype), 1, "FLOP/byte",
                   f"{'computing' if computing > reading else 'reading'} bounds the step")
        yield _row("step, upper bound", upper * 1e3, 3, "ms", "reading, then computing")
    overlapped = "reading and computing at once" if dtype else "reading alone: this device has no published peak FLOP/s"
    yield _row("step, lower bound", lower * 1e3, 3, "ms", overlapped)
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
    yield _row("sequences that fit", most, 0, "at most")
    yield _row("devices needed", devices_needed(weights, device), 0, "at least", "for the weights")
    yield _row("", devices_needed(both, device), 0, "at least", "for weights and caches")


if __name__ == "__main__":
    main()
