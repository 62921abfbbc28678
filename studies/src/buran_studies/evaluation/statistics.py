"""Means with their errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def mean_and_error(values: ArrayLike) -> tuple[float, float | None]:
    """Return the mean of independent samples and its standard error; None with a single one."""
    own = np.asarray(values, dtype=np.float64)
    error = float(own.std(ddof=1) / np.sqrt(own.size)) if own.size > 1 else None
    return float(own.mean()), error
