"""Figures that are being redrawn."""

from ..charts import placed, slowest  # noqa: F401
from ..controls import balance  # noqa: F401
