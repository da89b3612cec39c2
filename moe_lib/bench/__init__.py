"""Micro-benchmarks of the machine at hand, each held against the limit that a formula of `moe_lib` gives.

``python -m moe_lib.bench`` runs them and writes records; `suite` has one function a benchmark.
"""

import os


def one_thread_each():
    """Tell the matrix libraries to use one thread; they listen only before NumPy is first imported."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, "1")
