"""Figures that are being redrawn."""

from ..charts import hit_rates, layers_outside, offloaded_batches, over_bound  # noqa: F401
from ..controls import offloading  # noqa: F401
