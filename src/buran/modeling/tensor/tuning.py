"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.modeling.numerics.origin import TENSORS, tuned


@dataclass(frozen=True)
class SmoothTuning:
    """Constants of axes and smooth parts."""

    few: int = tuned(16, "a numerical parameter with at most this many values has a node at each of them", TENSORS)


SMOOTH = SmoothTuning()


@dataclass(frozen=True)
class BlendTuning:
    """Constants of the choices of nodes, ranks and shares on left-out observations."""

    folds: int = tuned(4, "parts that are left out in turn", TENSORS)
    most_choosing: int = tuned(4000, "observations that nodes, ranks and penalties are chosen on", TENSORS)
    shapes: tuple[int, ...] = tuned((4, 8, 16, 24), "numbers that are tried, of nodes and of the rank", TENSORS)
    shares: tuple[float, ...] = tuned(
        (0.0, 0.5, 1.0), "of the CP parts' share by least squares, which are tried with trees", TENSORS
    )
    most_parts: int = tuned(
        10, "CP parts", "first 6; changed while the method was built, no figures kept (evidence/tensor.md)"
    )


BLEND = BlendTuning()


@dataclass(frozen=True)
class TreeTuning:
    """Constants of features and bins of trees."""

    most_paired: int = tuned(8, "parameters that sums and differences are made of", TENSORS)
    orders: int = tuned(3, "orders of a category", TENSORS)
    pieces: int = tuned(7, "ends of the pieces that a parameter is cut into, for orders of categories", TENSORS)


TREES = TreeTuning()


@dataclass(frozen=True)
class GrowthTuning:
    """Constants of growth beyond what was measured."""

    powers: tuple[float, ...] = tuned((0.0, 0.5, 1.0), "exponents of monomials", TENSORS)
    slack: float = tuned(
        0.5,
        "by what a slope may differ from that of the upper range, and logarithms by which lines may correct monomials",
        TENSORS,
    )
    octaves: tuple[int, int] = tuned((1, 2), "doublings of the range that are held back to choose", TENSORS)


GROWTH = GrowthTuning()
