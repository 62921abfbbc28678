"""Numbers that tune what a report says, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.numerics.origin import JUDGED, tuned


@dataclass(frozen=True)
class ProofTuning:
    """Constants of what counts and hypotheses prove."""

    exact_percent: float = tuned(1e-6, "SMAPE of models that go through every count", JUDGED)
    likely: float = tuned(
        0.9, "share of the hypotheses, by weight, that must agree before a growth class is said to have changed", JUDGED
    )


PROOF = ProofTuning()
