"""What the chapter shows: figures, controls and predictions, a file an idea, a function a figure.

A cell ends in one line, such as ``figures.workshop()``. A control is live in JupyterLab and an in-page chart everywhere
else; a figure of given rows is an Altair chart. No formula here: rows come from the modules of formulas, and the Vega
side only filters them. Importing this package makes charts draw offline.
"""

from ._style import ALWAYS, CACHE, DENSE, LIMIT, MEASURED, MOE, MUTED, WIDTH, finish
from .balance import balance, placed, slowest
from .context import chunk_times, chunks, context, equal_context, slowdown
from .coverage import coverage, covered, layer_times, wall
from .measured import machine, measured, missed_by, one_curve, over_limit
from .memory import cache_by_context, cache_per_token, memory_bill, sparsity
from .offloading import hit_rates, layers_outside, offloaded_batches, offloading, over_bound
from .parallel import exchange_times, layouts, overlap, parallel
from .plan import plan, valley
from .prediction import predict
from .roofline import contexts, kernels, ladder, ridges, roofline, shapes, time_ratio
from .schematics import (
    chunks_beside_decoding, layer, one_step, pipe_and_wheel, queue, split_or_spread, there_and_back, three_pipes,
    three_sizes, waking,
)
from .speculation import speculation
from .workshop import cover, served, workshop

__all__ = [
    "ALWAYS", "CACHE", "DENSE", "LIMIT", "MEASURED", "MOE", "MUTED", "WIDTH", "balance", "cache_by_context",
    "cache_per_token", "chunk_times", "chunks", "chunks_beside_decoding", "context", "contexts", "cover", "coverage",
    "covered", "equal_context", "exchange_times", "finish", "hit_rates", "kernels", "ladder", "layer",
    "layer_times", "layers_outside", "layouts", "machine", "measured", "memory_bill", "missed_by",
    "offloaded_batches", "offloading", "one_curve", "one_step", "over_bound", "over_limit", "overlap", "parallel",
    "pipe_and_wheel", "placed", "plan", "predict", "queue", "ridges", "roofline", "served", "shapes", "slowdown",
    "slowest", "sparsity", "speculation", "split_or_spread", "there_and_back", "three_pipes", "three_sizes",
    "time_ratio", "valley", "waking", "wall", "workshop",
]
