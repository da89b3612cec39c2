"""Figures that are being redrawn."""

from ..charts import cache_by_context, cache_per_token, sparsity  # noqa: F401
from ..controls import memory_bill  # noqa: F401
