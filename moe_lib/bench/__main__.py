"""`python -m moe_lib.bench`: measure this machine, hold it against the limits, keep the records."""

import argparse
import importlib.util
import inspect
import os
import sys
from pathlib import Path

from . import one_thread_each

NEEDS_TORCH = {"all_to_all"}
DTYPES = {"cpu": "fp32", "cuda": "bf16"}  # of the weights, unless chosen


def main(argv=None):
    """Say what it will use, run, print a table; exit status 1 if a benchmark failed, 130 if interrupted."""
    one_thread_each()
    from ..records import read
    from .suite import SHAPES, SUITE

    about = "\n".join(f"  {name:13} {inspect.getdoc(run) or ''}".partition("\n")[0] for name, run in SUITE.items())
    parser = argparse.ArgumentParser(
        prog="python -m moe_lib.bench", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=about,
        description="Measure this machine and hold it against the limits. Page 05 shows the records.")
    add, default = parser.add_argument, "(default: %(default)s)"
    add("--quick", action="store_true", help="fewer batches and repetitions, under 20 s")
    add("--only", action="append", choices=SUITE, metavar="NAME", help="one of those below; may be repeated")
    add("--device", choices=("cpu", "cuda"), default="cpu", help=default)
    add("--dtype", choices=("fp32", "bf16", "fp16"), help="of the weights (default: fp32 on a CPU, bf16 on a GPU)")
    add("--threads", type=int, default=1, help=f"of a CPU {default}")
    add("--routing", choices=("uniform", "skewed", "loads"), default="uniform",
        help=f"of moe_decode: any expert, popularity 1/rank, or a real router's {default}")
    add("--out", type=Path, default=Path("moe_bench.jsonl"), metavar="FILE",
        help=f"records go here; those of other benchmarks stay {default}")
    add("--seed", type=int, default=0, help=default)
    options = parser.parse_args(argv)
    if not 1 <= options.threads <= os.cpu_count():
        parser.error(f"--threads must be within 1..{os.cpu_count()}, got {options.threads}")
    if options.device == "cpu" and options.dtype not in (None, "fp32"):
        parser.error(f"--dtype must be fp32 on a CPU, got {options.dtype}")
    if not options.out.absolute().parent.is_dir():
        parser.error(f"--out must lie in a folder that exists, got {options.out}")
    try:
        earlier = read(options.out) if options.out.exists() else []
    except ValueError as problem:
        parser.error(f"--out must name a new file or one of records: {problem}")
    names, no_torch = options.only or list(SUITE), importlib.util.find_spec("torch") is None
    skipped = {name: "torch is not installed" for name in names if name in NEEDS_TORCH and no_torch}
    if options.device == "cuda" and no_torch:
        parser.error("--device cuda needs torch: install the extra gpu")
    if options.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            parser.error("--device cuda needs a GPU, and torch sees none")
    options.dtype = options.dtype or DTYPES[options.device]
    E, _, d, f = SHAPES[options.device]
    size = 3 * E * d * f * (4 if options.dtype == "fp32" else 2)
    lasts = "less than 20 s" if options.quick else "less than 2 minutes"  # on two cores
    print(f"Will use {options.device}, {options.threads} of {os.cpu_count()} threads, about {2 * size / 1e9:.1f} GB of "
          f"memory ({size / 1e9:.1f} GB of weights: {E} experts of {d} x {f}), {lasts}.\n"
          f"Records go to {options.out}.", flush=True)
    return _run(options, [name for name in names if name not in skipped], skipped, earlier)


def _run(options, names, skipped, kept):
    import numpy as np
    from tqdm import tqdm

    from ..records import write
    from .suite import SHAPES, SUITE, finish

    machine = _machine(options, *SHAPES[options.device])
    done, failed, waiting = [], {}, list(names)
    try:
        for name in names:
            more = {"routing": options.routing} if name == "moe_decode" else {}
            steps = SUITE[name](machine, np.random.default_rng(options.seed), options.quick, **more)
            try:
                with tqdm(bar_format="{desc} {elapsed}", leave=False, file=sys.stderr) as bar:
                    done.append(finish(steps, bar.set_description_str))
            except (MemoryError, OSError, RuntimeError, ValueError) as problem:
                failed[name] = f"{type(problem).__name__}: {problem}"
            waiting.remove(name)
            measured = {result.what for result in done}
            kept = [result for result in kept if result.what not in measured]
            write(options.out, kept + done)
    except KeyboardInterrupt:
        print(f"\ninterrupted; not measured: {', '.join(waiting)}", file=sys.stderr)
    _table(done)
    for name, reason in {**skipped, **failed}.items():
        print(f"{name:14}not measured: {reason}")
    if done:
        beside = f", beside {len(kept)} of earlier runs" if kept else ""
        print(f"{len(done)} record{'s' * (len(done) > 1)} in {options.out}{beside}. Page 05 shows the file.")
    else:
        print("no records")
    return 130 if waiting else int(bool(failed))


def _table(done):
    from .suite import paired_ratios, ratios, summary

    print(f"{'':14}{'measured':>12}{'limit':>12}{'ratio':>8}")
    for result in done:
        measured, limit, ratio, unit = summary(result)
        print(f"{result.what:14}{measured:12,.4g}" + (f"{limit:12,.4g}{ratio:8.2f}" if limit else f"{'-':>12}{'-':>8}")
              + f" {unit}")
        if "touched" in result.data:
            for name, of in {"least time / limit": ratios(result), "paired, median": paired_ratios(result)}.items():
                pairs = (f"{batch}: {ratio:.2f}" for batch, ratio in zip(result.data["batch"], of, strict=True))
                print(f"{'':14}{name:20}{'  '.join(pairs)}")


def _machine(options, E, k, d, f):
    if options.device == "cuda":
        from .cuda import Layer

        return Layer(E, k, d, f, dtype=options.dtype, seed=options.seed)
    from .cpu import Layer

    return Layer(E, k, d, f, threads=options.threads, seed=options.seed)


if __name__ == "__main__":
    sys.exit(main())
