"""Figures that are being redrawn."""

from ..controls import speculation  # noqa: F401
