"""What a campaign that ends has not got of what was requested, as text."""

from __future__ import annotations

import numpy as np

from buran.modeling.numerics.tuning import FLOOR
from buran.planning.question import Knowledge, Question
from buran.wording import shown_value


def shortfalls(question: Question, knowledge: Knowledge) -> list[str]:
    """Return a sentence for each: a target that models say nothing of, an accuracy, counts that hold for any run."""
    of_target = _too_far(question), _not_varied(question, knowledge), _too_wide(question, knowledge)
    return [sentence for sentence in (*of_target, _unsteady(knowledge)) if sentence]


def _too_far(question: Question) -> str | None:
    """Return as text by how much the target lies beyond all points; None if that is not beyond `FLOOR`."""
    space = question.space
    largest, least = space.points.max(axis=0), space.points.min(axis=0)
    beyond = np.maximum(space.target / largest, least / space.target)
    worst = int(beyond.argmax())
    if beyond[worst] * FLOOR <= 1:
        return None
    name, value = space.parameters[worst], space.target[worst]
    return f"the target {name} = {value:g} lies a factor of {beyond[worst]:.3g} beyond all points: too far to trust"


def _not_varied(question: Question, knowledge: Knowledge) -> str | None:
    """Return as text which parameter had one value in all runs, and another one at the target; None if none had."""
    space, measured = question.space, knowledge.measured
    if measured is None or not len(measured.points):
        return None
    for name, values, at in zip(space.parameters, measured.points.T, space.target, strict=True):
        if name not in space.choices and (values == values[0]).all() and at != values[0]:
            return f"all runs have {name} = {shown_value(values[0])}: models say nothing of how time grows with it"
    return None


def _too_wide(question: Question, knowledge: Knowledge) -> str | None:
    """Return as text what accuracy was reached instead of the one that was requested; None if it was, or none was."""
    if question.accuracy is None or knowledge.measured is None:
        return None
    width = question.chooser.width_at_target(knowledge.measured, question.space)
    if width is None or width <= question.accuracy:
        return None
    could = f"it is within {100 * width:.2g} %" if np.isfinite(width) else "how far it is off cannot be said"
    return f"the prediction at the target is not within {100 * question.accuracy:g} %: {could}"


def _unsteady(knowledge: Knowledge) -> str | None:
    """Return as text which counts are not the same in all runs of a point; None where all are."""
    metric, paths = next(iter(knowledge.unsteady.items()), ("", ()))
    if not paths:
        return None
    more = sum(map(len, knowledge.unsteady.values())) - 1
    where = f"{metric} of {paths[0]}" + (f" and {more} other counts" if more else "")
    return f"effort depends on the run: {where}; models of them are valid for the measured runs only"
