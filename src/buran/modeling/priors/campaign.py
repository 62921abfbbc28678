"""Models of time with priors, and what a report says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import PlainValidator

from buran.files import finite_or_none
from buran.modeling.pmnf.model import Model, predict_models
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.terms import Array, ModelFunction, added
from buran.modeling.pmnf.text import format_function, format_largest
from buran.modeling.priors.paths import PathModel
from buran.modeling.priors.waiting import Verdict, Waiting

OTHERS_FOLLOW = (
    "beyond the measured ranks or bytes MPI may choose another algorithm: intervals do not cover that choice"
)

_Function = Annotated[ModelFunction, PlainValidator(ModelFunction.from_json)]


@dataclass(frozen=True)
class LevelMisses:
    """Misses of a cache: the model of their number, and what one costs in seconds, with its standard deviation."""

    level: int
    misses: _Function
    cost: tuple[float, float]


@dataclass(frozen=True)
class PathPrior:
    """What the model of a call path's time is made from.

    Attributes
    ----------
    source
        As of `buran.modeling.priors.paths.Source`.
    prior, resilient, times_alone
        The prior, the model with it and the one without, as text; empty where there is none.
    waiting, waiting_share
        What a test for waiting found, as text, and its share of the time at the largest point.
    settled
        Whether counting at more points would say nothing new.
    repeats
        By parameters of the role steps, whether counts prove that work repeats.
    at_target_s
        By the model in use.
    work, misses
        The prior without misses of caches, as a function, where it has some; and these.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "ignore"}  # files of earlier versions have more

    call_path: str
    source: str
    notes: tuple[str, ...] = ()
    prior: str = ""
    resilient: str = ""
    times_alone: str = ""
    waiting: str = ""
    waiting_share: float | None = None
    settled: bool = False
    repeats: Mapping[str, str] = field(default_factory=dict)
    at_target_s: float | None = None
    work: _Function | None = None
    misses: tuple[LevelMisses, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        work = None if self.work is None else self.work.to_json()
        misses = [{**vars(each), "misses": each.misses.to_json()} for each in self.misses]
        return {**vars(self), "work": work, "misses": misses}


def noise_resilient(
    path_models: Sequence[PathModel], alone: ModelSet, target: Sequence[float]
) -> tuple[ModelSet, tuple[PathPrior, ...]]:
    """Replace models of time by noise-resilient ones where there is a prior.

    Parameters
    ----------
    path_models
        Of `models_from_priors`, for the call paths of `alone`.
    alone
        Models from times alone.
    target
        Point that times are stated at.

    Returns
    -------
    models, statements
        Models of the same call paths, and for each what it is made from.
    """
    pairs = list(zip(path_models, alone.models, strict=True))
    models = tuple(plain if made.final is None else made.final for made, plain in pairs)
    at = np.array([target], dtype=np.float64)
    largest = np.array(alone.points).max(axis=0, initial=0.0)
    statements = tuple(
        _path_prior(path, *pair, alone.parameters, at, largest, value)
        for path, pair, value in zip(alone.call_paths, pairs, predict_models(models, at)[:, 0].tolist(), strict=True)
    )
    return replace(alone, models=models), statements


def _path_prior(
    path: str,
    made: PathModel,
    plain: Model | None,
    parameters: tuple[str, ...],
    at: Array,
    largest: Array,
    predicted: float,
) -> PathPrior:
    point = dict(zip(parameters, at[0].tolist(), strict=True))
    found = PathPrior(
        path,
        str(made.source),
        made.notes,
        times_alone="" if plain is None else format_largest(plain.function, parameters, point),
        settled=made.settled,
        repeats=dict(made.repeats),
        at_target_s=finite_or_none(predicted),
    )
    if made.resilient is None or made.final is None:
        return found
    prior, columns = made.resilient.prior, made.resilient.prior.columns
    if not prior.known and any(at[0, parameter] > largest[parameter] for parameter, _ in prior.switches):
        found = replace(found, notes=(*found.notes, OTHERS_FOLLOW))
    work = [column.function for column in columns if not column.level]
    return replace(
        found,
        prior=prior.text(parameters),
        resilient=format_largest(made.resilient.model.function, parameters, point),
        waiting="" if made.waiting is None else waiting_text(made.waiting, parameters),
        waiting_share=None if made.waiting is None else finite_or_none(made.waiting.share),
        work=None if len(work) == len(columns) else added(work),
        misses=tuple(
            LevelMisses(column.level, column.function, column.cost)
            for column in columns
            if column.level and column.cost is not None
        ),
    )


def waiting_text(waiting: Waiting, parameters: tuple[str, ...]) -> str:
    """Say what a test for waiting found, as text."""
    if waiting.verdict is Verdict.NONE:
        return "nothing"
    if waiting.verdict is Verdict.UNKNOWN:
        return "too few points to decide"
    part = format_function(waiting.waiting_part, parameters)
    return f"{waiting.verdict}: {part}, {100 * waiting.share:.0f} % at the largest point (p = {waiting.p_value:.2g})"
