"""Call paths of two campaigns brought together: what only one of them has counts to the caller that both have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from buran.modeling.pmnf.model import Model, add_models
from buran.modeling.pmnf.model_set import ModelSet
from buran.profiles.experiment.collect import split_call_path
from buran.profiles.profile import SEPARATOR

Indices = NDArray[np.int64]


def common_call_paths(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Return the full call paths that two lists have, in the order of the second."""
    first_names = set(first)
    return tuple(name for name in second if name in first_names)


def fold(names: Sequence[str], common: Sequence[str]) -> Indices:
    """Return for each call path the index of the common one it counts to; -1 where there is none.

    That is itself, or the nearest caller that both campaigns have. Without this, a function that has hooks on one side
    only, or that was split in two, would look like time that came or went.
    """
    positions = {name: position for position, name in enumerate(common)}
    out = np.full(len(names), -1, dtype=np.int64)
    for row, name in enumerate(names):
        position = positions.get(name)
        if position is None:
            parts = split_call_path(name)
            above = (SEPARATOR.join(parts[:end]) for end in range(len(parts) - 1, 0, -1))
            position = next((positions[caller] for caller in above if caller in positions), -1)
        out[row] = position
    return out


def indices_of(names: Sequence[str], common: Sequence[str]) -> Indices:
    """Return for each call path the index of the same one among `common`; -1 where it is not there."""
    positions = {name: position for position, name in enumerate(common)}
    return np.array([positions.get(name, -1) for name in names], dtype=np.int64)


def fold_models(models: ModelSet, names: tuple[str, ...]) -> ModelSet:
    """Return a model for each common call path: its own, or the sum of those that count to it."""
    groups: list[list[Model | None]] = [[] for _ in names]
    for model, position in zip(models.models, fold(models.call_paths, names).tolist(), strict=True):
        if position >= 0:
            groups[position].append(model)
    nothing = np.zeros((0, len(models.parameters))), np.zeros(0)
    folded = tuple(
        group[0] if len(group) == 1 else add_models(group, *nothing)  # both have the call path: never empty
        for group in groups
    )
    return replace(models, call_paths=names, models=folded)
