"""Figures that are being redrawn."""

from ..charts import chunk_times, equal_context, slowdown  # noqa: F401
from ..controls import chunks, context  # noqa: F401
