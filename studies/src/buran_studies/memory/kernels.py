"""What kernels of the bundled examples ask of the machine, read off their source."""

from __future__ import annotations

from collections.abc import Mapping

from buran.campaign.expressions import compile_expression

PARAMETERS = ("n", "p", "blocks")


def _each(rounds: str, *amounts: int) -> tuple[str, ...]:
    return tuple(f"{amount} * ({rounds})" for amount in amounts)


_NEIGHBOURS = _each("n**3", 7, 8, 1, 60, 8)  # an index of 4 bytes, seven values; a sum of six, a product and a sum
_UPDATE = _each("n**3", 2, 3, 1, 20, 8)
_FACES = _each("6 * n**2", 0, 2, 1, 12, 8)
_LEVELS = "(log2(p) + 1)"  # of the tournament

KERNELS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "stencil": {
        "apply_operator": _NEIGHBOURS,
        "jacobi_update": _NEIGHBOURS,
        "dot_local": _each("n**3", 2, 3, 0, 20, 0),
        "scale_add": _UPDATE,
        "add_scaled": _UPDATE,
        "pack_faces": _FACES,
        "unpack_faces": _FACES,
    },
    "sweep": {
        # Its path, a structure of four numbers, is handed over in memory.
        "sweep_block": ("7 * n**3", "5 * n**3 + 4", "4 * n**3", "40 * n**3 + 32", "32 * n**3"),
        "scatter": _each("blocks * n**3", 2, 2, 1, 16, 8),
        "sum_cells": _each("blocks * n**3", 1, 1, 0, 8, 0),
        "sum_face": _each("n**2", 1, 1, 0, 8, 0),
    },
    "treesort": {
        "make_keys": _each("n", 0, 0, 1, 0, 8),
        "build_tree": _each("n - 1", 0, 1, 1, 8, 8),
        "sort_keys->merge_runs": _each("n * log2(n)", 0, 2, 1, 16, 8),
        "play_tournament": (
            "0",
            f"n * (5 + 4 * {_LEVELS})",
            f"n * (3 + {_LEVELS})",
            f"8 * n * (5 + 4 * {_LEVELS})",
            f"8 * n * (3 + {_LEVELS})",
        ),
    },
}
"""By example and kernel: what a visit asks for, in the order of the requirements; mean over ranks."""

KINDS: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "stencil": {
        "apply_operator": (6, 1),
        "jacobi_update": (6, 1),
        "dot_local": (1, 1),
        "scale_add": (1, 1),
        "add_scaled": (1, 1),
    },
    "sweep": {"sweep_block": (4, 3), "scatter": (1, 1), "sum_cells": (1, 0), "sum_face": (1, 0)},
    "treesort": {},
}
"""Additions and multiplications in a round of a kernel, all in double precision; others have none, and none divides."""


def kinds(example: str, kernel: str, flops: float) -> tuple[float, ...]:
    """Return how many of a kernel's operations with a point are of each kind and precision."""
    added, multiplied = KINDS[example].get(kernel, (1, 0))
    parts = (flops * added / (added + multiplied), flops * multiplied / (added + multiplied))
    return (*parts, 0.0, 0.0, 0.0, flops, 0.0)


def theory(example: str, point: Mapping[str, int]) -> dict[str, tuple[float, ...]]:
    """Return what a visit of each kernel asks for at a point, of optimised code.

    Parameters
    ----------
    point
        Values of `PARAMETERS`; treesort's n must be a power of two.
    """
    values = {name: point[name] for name in PARAMETERS}
    return {
        kernel: tuple(float(compile_expression(text, PARAMETERS, "number")(values)) for text in formulas)
        for kernel, formulas in KERNELS[example].items()
    }
