"""Figures that are being redrawn."""

from ..charts import machine, missed_by, one_curve, over_limit  # noqa: F401
from ..controls import measured  # noqa: F401
