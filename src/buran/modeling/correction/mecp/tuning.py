"""Numbers of the published procedure: the paper's, and ours where it is silent."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EvolutionTuning:
    """Constants of the evolutionary search for corrections, as published."""

    # Programs. Published: Table 1.
    population: int = 3000
    # Generations. Published: Table 1.
    generations: int = 100
    # Share of new programs that are crossed; the others are mutated. Published: Table 1.
    crossover: float = 0.9
    # Depth of the first trees, at most. Published: Table 1.
    initial_depth: int = 7
    # Share of the best that goes on unchanged. Tuned: judgement, as the paper does not say (explanation/correction.md).
    elite: float = 0.05
    # Nodes of a tree, at most. Tuned: judgement, as the paper does not say (explanation/correction.md).
    nodes: int = 60
    # Random constants R are between this and its negative. Tuned: judgement, as the paper does not say
    # (explanation/correction.md).
    constant: float = 10.0
    # How far beyond both parents crossed parameters may lie, in their distances. Tuned: ours: the MECP paper does not
    # say (explanation/correction.md).
    blend: float = 0.3
    # Standard deviation of a parameter's mutation, in shares of its bounds. Tuned: judgement, as the paper does not say
    # (explanation/correction.md).
    spread: float = 0.1


@dataclass(frozen=True)
class ProcedureTuning:
    """Constants of the procedure around the search, as published."""

    # Trials of a case. Published: in the text.
    trials: int = 30
    # Case without a choice: the most robust one. Published: in the text.
    case: int = 4


PROCEDURE = ProcedureTuning()
