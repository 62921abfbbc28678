"""Which measurement systems there are."""

from __future__ import annotations

from buran.campaign.backends import BACKENDS
from buran.measure.backends.base import MeasurementSystem
from buran.plugins import Door

SYSTEMS: Door[MeasurementSystem] = Door(
    BACKENDS.noun, BACKENDS.group, MeasurementSystem, BACKENDS.builtin, BACKENDS.elsewhere
)
