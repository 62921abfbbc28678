"""What a comparison needs to know of a campaign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from buran.modeling.pmnf.model_set import ModelSet
from buran.profiles.experiment.table import Experiment

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
    names
        Call paths of `counts`, where they are called otherwise than there; see `renamed`.
    simulated_on
        The simulated machine that its times are of; empty where they were measured.
    better
        ``higher`` or ``lower``, by figure of merit.
    """

    name: str
    parameters: tuple[str, ...]
    target: Mapping[str, float]
    models: Mapping[str, ModelSet]
    counts: Experiment | None = None
    unsteady: Mapping[str, Sequence[str]] = field(default_factory=dict)
    overhead: float | None = None
    names: tuple[str, ...] | None = None
    simulated_on: str = ""
    better: Mapping[str, str] = field(default_factory=dict)

    @property
    def counted(self) -> tuple[str, ...]:
        """Call paths of `counts`."""
        if self.names is not None or self.counts is None:
            return self.names or ()
        return tuple(self.counts.tree.names)

    def renamed(self, names: Mapping[str, str]) -> Side:
        """Return the same campaign with other names for some call paths."""
        if not names:
            return self
        return replace(
            self,
            models={
                metric: replace(models, call_paths=tuple(names.get(path, path) for path in models.call_paths))
                for metric, models in self.models.items()
            },
            unsteady={metric: [names.get(path, path) for path in paths] for metric, paths in self.unsteady.items()},
            names=tuple(names.get(path, path) for path in self.counted),
        )
