"""Micro-benchmarks of the machine at hand, each held against the limit that a formula of `moe_lib` gives.

``python -m moe_lib.bench`` runs them and writes records; `suite` has one function a benchmark.
"""
