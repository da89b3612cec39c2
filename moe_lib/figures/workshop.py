"""Figures that are being redrawn."""

from ..charts import served  # noqa: F401
from ..controls import workshop  # noqa: F401
