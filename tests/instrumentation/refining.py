"""Refinement by arguments instead of records."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from buran.instrumentation.prediction import ModelledProgram
from buran.instrumentation.refine import Explored
from buran.instrumentation.refine import refine as by_records
from buran.instrumentation.refinement import Refinement, Wishes
from buran.modeling.pmnf import ModelSet
from buran.profiles.profile import CallTree

_EXPLORED = ("graph", "known", "hooked", "uncounted")


def refine(
    tree: CallTree,
    time: ModelSet,
    visits: ModelSet | None,
    target: ArrayLike,
    wishes: Wishes | None = None,
    **given: Any,
) -> Refinement:
    """Choose functions by models, and by what else is given: attributes of `ModelledProgram` and `Explored`."""
    explored = Explored(**{name: given.pop(name) for name in _EXPLORED if name in given})
    return by_records(ModelledProgram(tree, time, visits, **given), target, wishes, explored)
