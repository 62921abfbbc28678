"""What a comparison needs to know of a campaign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from buran.experiment.table import Experiment
from buran.model.model_set import ModelSet

RUNTIME = "runtime"
"""Metric of the whole program, not instrumented."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of two campaigns.

    Attributes
    ----------
    name
        What readers know it by.
    parameters
        Names; empty where there is no model that would tell.
    target
        Point it is extrapolated to; empty where its file does not say.
    models
        By metric; `RUNTIME` is that of the whole program.
    counts
        Everything it measured, from which counts are compared; None where only models are known.
    unsteady
        Call paths whose counts depend on the run, by metric.
    overhead
        CPU time with hooks over CPU time without, under the last filter; None where it is not known.
    """

    name: str
    parameters: tuple[str, ...]
    target: Mapping[str, float]
    models: Mapping[str, ModelSet]
    counts: Experiment | None = None
    unsteady: Mapping[str, Sequence[str]] = field(default_factory=dict)
    overhead: float | None = None
