"""One table in, one Altair chart out. No formula here; the Vega side only filters rows that Python computed.

Importing this module makes charts draw offline: in JupyterLab by its own Vega, on a page by the book's script.
"""

from .look import (
    ALWAYS,
    CACHE,
    DENSE,
    HEAT,
    HEIGHT,
    LIMIT,
    MEASURED,
    MOE,
    MUTED,
    SCHEMA,
    SERIES,
    VEGALITE,
    WIDTH,
    batch_axis,
    between,
    counted,
    digits,
    dollars,
    finish,
    gigabytes,
    legend_colors,
    list_row,
    log_axis,
    parameters,
    percent,
    rows,
    share_axis,
    spans,
)
from .page_00 import served, workshop
from .page_01 import cache_by_context, cache_per_token, memory_bill, sparsity
from .page_02 import coverage, covered, layer_times, speculation, wall
from .page_03 import ROOF, contexts, kernels, ladder, ridges, roofline, shapes, time_ratio
from .page_04 import chunk_times, chunks, context, context_axis, equal_context, slowdown
from .page_05 import machine, measured, missed_by, one_curve, over_limit, seconds_axis
from .page_06 import hit_rates, layers_outside, offloaded_batches, offloading, over_bound
from .page_07 import exchange, exchange_times, layouts, overlap, parallel
from .page_08 import balance, placed, slowest
from .page_09 import CANNOT_BE, frontier, shared_by, valley

__all__ = [
    "ALWAYS", "CACHE", "CANNOT_BE", "DENSE", "HEAT", "HEIGHT", "LIMIT", "MEASURED", "MOE", "MUTED", "ROOF",
    "SCHEMA", "SERIES", "VEGALITE", "WIDTH", "balance", "batch_axis", "between", "cache_by_context",
    "cache_per_token", "chunk_times", "chunks", "context", "context_axis", "contexts", "counted", "coverage",
    "covered", "digits", "dollars", "equal_context", "exchange", "exchange_times", "finish", "frontier",
    "gigabytes", "hit_rates", "kernels", "ladder", "layer_times", "layers_outside", "layouts", "legend_colors",
    "list_row", "log_axis", "machine", "measured", "memory_bill", "missed_by", "offloaded_batches", "offloading",
    "one_curve", "over_bound", "over_limit", "overlap", "parallel", "parameters", "percent", "placed", "ridges",
    "roofline", "rows", "seconds_axis", "served", "shapes", "share_axis", "shared_by", "slowdown", "slowest",
    "spans", "sparsity", "speculation", "time_ratio", "valley", "wall", "workshop",
]
