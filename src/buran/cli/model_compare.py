"""The comparison of two sets of models, as text and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from buran.cli.terminal import table
from buran.errors import UsageError
from buran.modeling.pmnf import ModelSet, growth_class
from buran.modeling.pmnf.compare import ModelComparison, compare

_SHOWN = 3  # crossings


def render_comparison(first: Mapping[str, ModelSet], second: Mapping[str, ModelSet], style: str) -> str:
    """Compare the call paths that both have, at the largest point both were measured at.

    Raises
    ------
    UsageError
        If they have no metric and call path in common, other parameters, or the format is neither text nor JSON.
    """
    if style not in ("text", "json"):
        raise UsageError(f"a comparison is not written as {style}", hint="choose from text, json")
    blocks, data = [], dict[str, Any]()
    for name in (name for name in first if name in second):
        one, other = first[name], second[name]
        if one.parameters != other.parameters:
            raise UsageError(
                f"the models of {name} have different parameters",
                why=f"{', '.join(one.parameters)} and {', '.join(other.parameters)}",
            )
        points = [max(models.points, default=(1.0,) * len(one.parameters)) for models in (one, other)]
        point = tuple(min(pair) for pair in zip(*points, strict=True))
        rows, entries = [], []
        positions = {path: i for i, path in enumerate(other.call_paths)}
        for i, path in enumerate(one.call_paths):
            a, b = one.models[i], other.models[positions[path]] if path in positions else None
            if a is None or b is None:
                continue
            comparison = compare(a.function, b.function, point)
            growth = [growth_class(model.function, one.parameters) for model in (a, b)]
            cross = [
                f"{parameter} = {x:.4g}"
                for parameter, values in zip(one.parameters, comparison.crossings, strict=True)
                for x in values[:_SHOWN]
            ]
            rows.append((path, *growth, _faster(comparison), f"{comparison.ratio:.4g}", ", ".join(cross) or "nowhere"))
            entries.append(
                {
                    "call_path": path,
                    "growth": growth,
                    "faster": dict(zip(one.parameters, comparison.faster, strict=True)),
                    "overall": comparison.overall,
                    "ratio": comparison.ratio if math.isfinite(comparison.ratio) else None,
                    "crossings": dict(zip(one.parameters, map(list, comparison.crossings), strict=True)),
                }
            )
        if rows:
            at = ", ".join(f"{parameter} = {x:g}" for parameter, x in zip(one.parameters, point, strict=True))
            header = ("call path", "A grows as", "B grows as", "faster", "B / A", "they cross at")
            blocks.append(f"{name} (B / A and crossings at {at})\n{table(header, rows, right=(4,))}")
            data[name] = {"at": dict(zip(one.parameters, point, strict=True)), "call_paths": entries}
    if not blocks:
        raise UsageError("the two have no models in common", hint="both need the same metric and call path")
    return json.dumps({"comparison": data}, indent=2, allow_nan=False) if style == "json" else "\n\n".join(blocks)


def _faster(comparison: ModelComparison) -> str:
    return {"first": "A", "second": "B", "same": "equal", "neither": "it depends"}[comparison.overall]
