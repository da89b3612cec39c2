"""Formulas, measurements and figures behind the chapter *Serving a Mixture of Experts*.

>>> import moe_lib as moe
>>> moe.step_time(moe.decode_step("deepseek-v3", batch=64), "h200", "fp8", num_gpus=8)
Bounds(lower 15.25 ms, upper 15.55 ms)

A map of the names at hand; each loads its module when it is first used, and every module has more.

=========================================================================== ====================================
names                                                                       answer
=========================================================================== ====================================
`CATALOG` `MoEModel` `from_config` `from_counts` `dense_twin`               What does a model hold?
`DEVICES` `LINKS`                                                           What do vendors publish?
`coverage` `experts_touched` `tokens_per_expert` `batch_for_coverage`
`sample_routing`                                                            How many experts does a batch touch?
`decode_step` `prefill` `resident_bytes` `sequences_that_fit`               What is read, computed, held?
`ridge_point` `step_time` `compute_bound_batch` `fit_overhead`              How long does that take at least?
`speculation_gain`                                                          Does a draft pay?
`token_time` `lru_hit_rates`                                                And if experts live off the card?
`Layout` `problems` `rank_step` `link_time`                                 And on many GPUs?
`balance`                                                                   And if loads are uneven?
`plan` `moe_or_dense` `cost_per_million_tokens`                             What should I run, at which cost?
=========================================================================== ====================================

`moe.CATALOG`, `moe.DEVICES` and `moe.LINKS` take a name in any case, and so do the arguments model, device and link.
"""

from importlib import import_module as _import_module

_HOMES = {
    "models": "CATALOG MoEModel from_config from_counts dense_twin",
    "hardware": "DEVICES LINKS",
    "routing": "coverage experts_touched tokens_per_expert batch_for_coverage sample_routing",
    "steps": "decode_step prefill resident_bytes sequences_that_fit",
    "roofline": "ridge_point step_time compute_bound_batch fit_overhead",
    "speculation": "speculation_gain",
    "offload": "token_time",
    "caching": "lru_hit_rates",
    "layouts": "Layout problems rank_step",
    "exchange": "link_time",
    "balance": "balance",
    "plan": "plan moe_or_dense cost_per_million_tokens",
    "records": "", "claims": "", "measured": "", "figures": "", "bench": "",
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name):
    if name == "__version__":
        from importlib.metadata import version

        return version("moe-lib")
    if name in _HOMES:  # `plan` and `balance` too: these modules can be called
        return _import_module(f".{name}", __name__)
    if name in _HOME:
        return getattr(_import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({"__doc__", "__version__", *_HOME, *_HOMES})
