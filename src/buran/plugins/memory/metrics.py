"""Metrics of caches, from runs that sample accesses to memory."""

from __future__ import annotations

from buran.profiles.metrics import Metric


def _sampled(name: str, title: str, description: str) -> Metric:
    return Metric(
        name, "occ", "exclusive", "DOUBLE", title, description, builds=("memory",), key="metrics", reported=True
    )


def _misses(level: int) -> Metric:
    name, size = f"misses_level_{level}", f"as large as that of level {level}"
    return _sampled(name, f"Misses of level {level}", f"Accesses that miss a cache {size}")


FIRST_TOUCHES = _sampled("first_touches", "Lines touched first", "Cache lines that a thread touches for the first time")
LEVEL_1, LEVEL_2, LEVEL_3, LEVEL_4 = map(_misses, (1, 2, 3, 4))
MISSES = tuple(metric.name for metric in (LEVEL_1, LEVEL_2, LEVEL_3, LEVEL_4))
"""Nearest first."""


def _operation(name: str, title: str, description: str, unit: str = "occ", *, is_detail: bool = False) -> Metric:
    return Metric(
        name, unit, "exclusive", "UINT64", title, description,
        role="exact", builds=("effort",), key="metrics", reported=True, is_detail=is_detail,
    )  # fmt: skip


def _detail(name: str, title: str, description: str) -> Metric:
    return _operation(name, title, description, is_detail=True)


FLOPS = _operation("flops", "Floating-point operations", "Additions, multiplications, divisions, square roots")
LOADS = _operation("loads", "Loads", "Readings of memory, whether a cache holds it or not")
STORES = _operation("stores", "Stores", "Writings to memory")
BYTES_LOADED = _operation("bytes_loaded", "Bytes loaded", "What loads read", "bytes")
BYTES_STORED = _operation("bytes_stored", "Bytes stored", "What stores write", "bytes")

ADDITIONS = _detail("flops_add", "Floating-point additions", "Additions and subtractions of numbers with a point")
MULTIPLICATIONS = _detail("flops_multiply", "Floating-point multiplications", "Of numbers with a point")
DIVISIONS = _detail("flops_divide", "Floating-point divisions", "Of numbers with a point")
ROOTS = _detail("flops_sqrt", "Square roots", "Of numbers with a point")
SINGLE = _detail("flops_single", "Operations in single precision", "On floating-point numbers of at most 32 bits")
DOUBLE = _detail("flops_double", "Operations in double precision", "On floating-point numbers of 64 bits")
EXTENDED = _detail(
    "flops_extended", "Operations in extended precision", "On floating-point numbers of more than 64 bits"
)
BRANCHES = _detail("branches", "Branches", "Decisions where to go on")
CALLS = _detail("function_calls", "Calls", "Of functions that were not inlined")
INTEGERS = _detail("integer_operations", "Integer operations", "Arithmetic, shifts and bits, without that of addresses")

REQUIREMENTS = tuple(metric.name for metric in (FLOPS, LOADS, STORES, BYTES_LOADED, BYTES_STORED))
"""What builds that count always have beside basic blocks."""
DETAILS = tuple(
    metric.name
    for metric in (
        ADDITIONS, MULTIPLICATIONS, DIVISIONS, ROOTS, SINGLE, DOUBLE, EXTENDED, BRANCHES, CALLS, INTEGERS
    )
)  # fmt: skip
"""What they have where a campaign asks for any of it."""
OPERATIONS = (*REQUIREMENTS, *DETAILS)
