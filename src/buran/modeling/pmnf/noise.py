"""Noise: how much repetitions differ."""

from __future__ import annotations

import numpy as np

from buran.modeling.pmnf.terms import Array


def noise_level(repetitions: Array) -> Array:
    """Mean absolute deviation of repetitions from their mean, in percent of it.

    As the paper on cost-effective modelling estimates noise: the divergence from the arithmetic mean.

    Parameters
    ----------
    repetitions
        Shape (..., repetition); NaN where there is none.

    Returns
    -------
    array
        Shape (...): NaN with fewer than two repetitions or a mean of 0; 0 where all are equal.
    """
    values = np.asarray(repetitions, dtype=np.float64)
    present = np.isfinite(values)
    number = present.sum(axis=-1)
    scale = np.max(np.where(present, np.abs(values), 0.0), axis=-1, initial=0.0)
    scale = np.where(scale > 0, scale, 1.0)  # sums of huge values overflow
    shares = np.where(present, values, 0.0) / scale[..., None]
    mean = shares.sum(axis=-1) / np.maximum(number, 1)
    gap = np.where(present, np.abs(shares - mean[..., None]), 0.0).sum(axis=-1) / np.maximum(number, 1)
    is_defined = (number > 1) & (mean != 0)
    return np.asarray(100 * np.divide(gap, np.abs(mean), out=np.full(mean.shape, np.nan), where=is_defined))
