"""Figures that are being redrawn."""

from ..charts import contexts, kernels, ladder, ridges, shapes, time_ratio  # noqa: F401
from ..controls import roofline  # noqa: F401
