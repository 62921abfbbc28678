"""Measuring a bundle within the budget in force."""

from __future__ import annotations

from typing import Any

from buran.measure.bundle import measure_bundle
from buran.steps.session import Session


def measure(session: Session, bundle_id: str) -> dict[str, Any]:
    """Measure a bundle; return what became of its runs."""
    layout = session.layout
    budget = layout.read_budget(session.id)
    return measure_bundle(session.target, layout, layout.read_bundle_spec(bundle_id), budget)
