"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.numerics.origin import CORRECTIONS, tuned


@dataclass(frozen=True)
class AverageTuning:
    """Constants of a Gaussian process that is averaged over its hyperparameters."""

    draws: int = tuned(192, "draws of the hyperparameters", CORRECTIONS)
    kept: int = tuned(24, "draws whose weights matter", CORRECTIONS)
    lengths: tuple[float, float] = tuned(
        (0.3, 12.0), "ends of the length scales, in standard deviations of a variable", CORRECTIONS
    )
    signals: tuple[float, float] = tuned((0.3, 3.0), "ends of the signal, in the values' root mean square", CORRECTIONS)
    noises: tuple[float, float] = tuned((0.02, 1.0), "ends of the noise, in the signal", CORRECTIONS)


AVERAGE = AverageTuning()
