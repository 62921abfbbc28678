"""What an iteration found out in addition to the models: the file between modelling and everything after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, PlainValidator

from buran.campaign.point import Value
from buran.files import Stored, write_json
from buran.instrumentation.measured import Balance, Overhead
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.priors.campaign import PathPrior
from buran.profiles.profile import CallTree
from buran.reporting.content import EvaluationTest

SCHEMA = "buran-findings/2"


def _account(data: Any) -> Any:
    """Return what was pooled; older files say "doubt" for the uncertainty."""
    return data and {name.replace("doubt", "uncertainty"): value for name, value in data.items()}


_Models = Annotated[ModelSet, PlainValidator(ModelSet.from_json)]


@dataclass(frozen=True)
class Findings(Stored):
    """Facts about the campaign after an iteration.

    Attributes
    ----------
    filter_text
        Filter of the builds whose times were modelled.
    tree
        Call paths of the time models.
    imbalance_s
        For each call path of `tree`, by how much the slowest rank's time exceeds the mean at the largest point.
    extremes_s
        For each call path of `tree`, its time at the points with the least and the most time in all.
    runtime
        Model of the baseline's wall time, one row; None without a baseline.
    startup
        Model of start-up and shutdown, one row: what `runtime` has beside the call paths; None where it is no sum.
    shortest_run_s
        Shortest baseline run.
    overhead
        One entry for each point and filter.
    unsteady
        Call paths whose counts differ between repetitions, by metric.
    evaluation
        Predicted and measured baseline wall times at evaluation points.
    priors
        For each call path what its model of time is made from, with and without the prior; empty without priors.
    balance
        Functions that ranks share unevenly, at the point that takes longest.
    pooled
        What of times under earlier filters went into the models, and how it was corrected; None where nothing did.
    threads
        For each call path of `tree` and each point, how many threads of a rank came there; empty where all had one.
    program_model
        Kind of the model that predicts the program's run time, and why.
    not_repeated
        Parameters of the role steps along which counts refute that work repeats, with call paths that show it: runs of
        few steps are in no model.
    """

    kind_of_file = "file of findings"
    schema_read = SCHEMA
    formerly: ClassVar[Mapping[str, str]] = {"ends_s": "extremes_s", "ends": "startup"}
    derived: ClassVar[frozenset[str]] = frozenset({"absorbed", "held", "imported"})  # of older files

    iteration: int
    filter_text: str
    tree: Annotated[CallTree, PlainValidator(CallTree.from_json)]
    imbalance_s: tuple[float, ...]
    extremes_s: tuple[tuple[float, float], ...]
    runtime: _Models | None
    shortest_run_s: float
    overhead: tuple[Overhead, ...]
    unsteady: Mapping[str, tuple[str, ...]]
    evaluation: tuple[EvaluationTest, ...]
    priors: tuple[PathPrior, ...] = ()
    balance: tuple[Balance, ...] = ()
    program_model: tuple[str, str] = ("pmnf", "")
    pooled: Annotated[Mapping[str, Value] | None, BeforeValidator(_account)] = None
    startup: _Models | None = None
    threads: tuple[tuple[float, ...], ...] = ()
    not_repeated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the file."""
        plain = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        plain |= {
            "tree": self.tree.to_json(),
            **{
                name: None if models is None else models.to_json()
                for name, models in (("runtime", self.runtime), ("startup", self.startup))
            },
            **{name: [asdict(each) for each in plain[name]] for name in ("overhead", "evaluation", "balance")},
            "priors": [prior.to_json() for prior in self.priors],
        }
        write_json(path, {"schema": SCHEMA, **plain})
