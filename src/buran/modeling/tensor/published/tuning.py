"""Numbers of the published method, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.modeling.numerics.origin import TENSORS, tuned

PAPER = "Section 6.0.4 of the CPR paper"
RANGES = "within those of Section 6.0.4 of the CPR paper (ranks 1 to 64, 4 to 256 cells, lambda 1e-6 to 1e-3); these "
PROGRAM = "the authors' program"
SPLINES = "Friedman, Multivariate Adaptive Regression Splines, 1991"


@dataclass(frozen=True)
class PositiveTuning:
    """Constants of the positive tensor, by Newton steps with a barrier."""

    barrier_first: float = tuned(10.0, "weight of the barrier at first (eta)", PAPER)
    barrier_last: float = tuned(1e-11, "weight at and below which Newton steps end", PAPER)
    barrier_quotient: float = tuned(8.0, "by what the weight falls", PAPER)
    steps: int = tuned(40, "Newton steps for one weight, at most", PAPER)
    small_step: float = tuned(1e-3, "relative change of a factor that ends them", PROGRAM)
    least: float = tuned(
        0.1, "share of an element that a step leaves, and of the curvature where the loss is not convex", TENSORS
    )


POSITIVE = PositiveTuning()


@dataclass(frozen=True)
class SplineTuning:
    """Constants of the spline of hinges."""

    penalty: float = tuned(3.0, "of a knot, in degrees of freedom", SPLINES)
    end: int = tuned(7, "distinct values at either end without a knot", f"{SPLINES}: the end span at a level of 0.05")
    least_gain: float = tuned(1e-3, "of the squared error: what a pair of hinges saves at least", TENSORS)


SPLINE = SplineTuning()


@dataclass(frozen=True)
class ChoiceTuning:
    """Constants of what is chosen on observations that are left out."""

    parts: int = tuned(5, "equal parts of the observations, of which one is left out", TENSORS)
    cells: tuple[int, ...] = tuned((8, 16, 32, 64), "nodes that are tried", RANGES + TENSORS)
    ranks: tuple[int, ...] = tuned((4, 8, 16, 32), "ranks that are tried", RANGES + TENSORS)
    ridges: tuple[float, ...] = tuned((1e-5, 1e-4, 1e-3), "lambdas that are tried", RANGES + TENSORS)
    growth_cells: tuple[int, ...] = tuned((8, 16), "nodes of the positive tensor", RANGES + TENSORS)
    growth_ranks: tuple[int, ...] = tuned((1, 2, 4), "ranks of the positive tensor", RANGES + TENSORS)
    enough: int = tuned(8, "observations of a node that enters the spline, or from which on growth is chosen", TENSORS)


CHOICE = ChoiceTuning()
