"""Numbers of the published procedure: the paper's, and ours where it is silent."""

from __future__ import annotations

from dataclasses import dataclass

from buran.modeling.numerics.origin import tuned

TABLE_1 = "published: Table 1 of the MECP paper"
PUBLISHED = "published: text of the MECP paper"
SILENT = "ours: the MECP paper does not say (explanation/correction.md)"


@dataclass(frozen=True)
class EvolutionTuning:
    """Constants of the evolutionary search for corrections, as published."""

    population: int = tuned(3000, "programs", TABLE_1)
    generations: int = tuned(100, "generations", TABLE_1)
    crossover: float = tuned(0.9, "share of new programs that are crossed; the others are mutated", TABLE_1)
    initial_depth: int = tuned(7, "depth of the first trees, at most", TABLE_1)
    elite: float = tuned(0.05, "share of the best that goes on unchanged", SILENT)
    nodes: int = tuned(60, "nodes of a tree, at most", SILENT)
    constant: float = tuned(10.0, "random constants R are between this and its negative", SILENT)
    blend: float = tuned(0.3, "how far beyond both parents crossed parameters may lie, in their distances", SILENT)
    spread: float = tuned(0.1, "standard deviation of a parameter's mutation, in shares of its bounds", SILENT)


@dataclass(frozen=True)
class ProcedureTuning:
    """Constants of the procedure around the search, as published."""

    trials: int = tuned(30, "trials of a case", PUBLISHED)
    case: int = tuned(4, "case without a choice: the most robust one", PUBLISHED)


PROCEDURE = ProcedureTuning()
