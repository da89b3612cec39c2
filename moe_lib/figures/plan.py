"""Figures that are being redrawn."""

from ..charts import valley  # noqa: F401
from ..controls import plan  # noqa: F401
