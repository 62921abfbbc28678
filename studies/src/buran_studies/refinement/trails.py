"""What the results of a method say: its overhead, and what has hooks in the end."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

import numpy as np

from buran.instrumentation.filter_file import parse


def overhead(result: Any, method: str) -> tuple[float, float | None, int]:
    """Return the overhead in %, its standard error, and the number of samples."""
    own = result["methods"][method]
    plain = own["vanilla_s"]
    if not own["hooked_s"]:
        return 100 * (own["pass_s"] / (result["repetitions"] * median(plain)) - 1), None, 1
    ratios = [100 * (a / b - 1) for a, b in zip(own["hooked_s"], plain, strict=True)]
    error = 1.2533 * float(np.std(ratios, ddof=1)) / len(ratios) ** 0.5 if len(ratios) > 1 else None
    return median(ratios), error, len(ratios)


def instrumented(trail: Mapping[str, Any]) -> set[str]:
    """Return what a trail's last filter names, and what it gave hooks to."""
    named = {rule.pattern for rule in parse(trail["filters"][-1]).regions if rule.include and rule.mangled}
    return named | set(trail["marked"])
