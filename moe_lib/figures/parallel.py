"""Figures that are being redrawn."""

from ..charts import exchange, exchange_times, layouts, overlap  # noqa: F401
from ..controls import parallel  # noqa: F401
