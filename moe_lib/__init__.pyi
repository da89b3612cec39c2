"""What type checkers see of the package: its names at hand, which `__getattr__` loads when they are used."""

from . import bench, claims, figures, measured, records
from .balance import balance
from .caching import lru_hit_rates
from .exchange import link_time
from .hardware import DEVICES, LINKS
from .layouts import Layout, problems, rank_step
from .models import CATALOG, MoEModel, dense_twin, from_config, from_counts
from .offload import token_time
from .plan import cost_per_million_tokens, moe_or_dense, plan
from .roofline import compute_bound_batch, fit_overhead, ridge_point, step_time
from .routing import batch_for_coverage, coverage, experts_touched, sample_routing, tokens_per_expert
from .speculation import speculation_gain
from .steps import decode_step, prefill, resident_bytes, sequences_that_fit

__version__: str
__all__ = [
    "balance", "batch_for_coverage", "bench", "CATALOG", "claims", "compute_bound_batch", "figures",
    "cost_per_million_tokens", "coverage", "decode_step", "dense_twin", "DEVICES", "experts_touched",
    "fit_overhead", "from_config", "from_counts", "Layout", "link_time", "LINKS", "lru_hit_rates", "measured",
    "moe_or_dense", "MoEModel", "plan", "prefill", "problems", "rank_step", "records", "resident_bytes",
    "ridge_point", "sample_routing", "sequences_that_fit", "speculation_gain", "step_time", "token_time",
    "tokens_per_expert",
]  # fmt: skip
