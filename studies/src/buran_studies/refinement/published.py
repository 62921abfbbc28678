"""The methods of the PIRA II paper with its own rules: p_n + d, an absolute threshold, five runs a point, Extra-P.

The paper's programs are SU2, 433.milc and 473.astar of SPEC CPU 2006, and MILC. None of them comes with Buran, and
SPEC's are licensed: the rules are applied to the bundled examples and, where the user brings their sources, to LULESH
and HPCG.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from buran.modeling.pmnf import SearchOptions
from buran_studies.evaluation.evaluation import Beside, Evaluation, Table
from buran_studies.evaluation.study import ALONE, Settings, Shard
from buran_studies.extrap import extrap_python, name_of_modeller
from buran_studies.refinement.lab import PROGRAMS, published_target, source_of
from buran_studies.refinement.methods import BRIEF, Rules
from buran_studies.refinement.trails import instrumented, overhead

REPETITIONS, ROUNDS = 5, 5
_QUICK_REPETITIONS, _QUICK_ROUNDS, _QUICK_POINTS = 2, 2, 4
THRESHOLD_S = 0.001
"""The paper does not print its threshold: this is the one of `config/examples/pira.yaml`."""
METHODS = ("everything", "inline-filtered", "PIRA I", "filter-only", "filter-and-expand")
_QUICK_METHODS = ("everything", "PIRA I", "filter-and-expand")
_PROGRAMS = ("sweep", "stencil", "treesort", "LULESH", "HPCG")
_QUICK_PROGRAMS = ("sweep", "LULESH", "HPCG")
NAMES = {
    "everything": "Score-P without filter",
    "inline-filtered": "Score-P with compile-time filter",
    "PIRA I": "PIRA I, final",
    "filter-only": "PIRA II, filter-only, final",
    "filter-and-expand": "PIRA II, final",
}
PRINTED: Mapping[str, Mapping[str, float]] = {
    "SU2": {"everything": 7049.0, "inline-filtered": 212.0, "PIRA I": 9.1, "filter-and-expand": 10.9},
    "433.milc": {"everything": 221.0, "inline-filtered": 208.0, "PIRA I": 18.0, "filter-and-expand": 0.0},
    "473.astar": {"everything": 1659.0, "inline-filtered": 377.0, "PIRA I": 54.9, "filter-and-expand": 17.8},
    "MILC": {"everything": 3856.0, "inline-filtered": 405.0, "PIRA I": 425.0, "filter-and-expand": 312.0},
}
"""Table I: overhead in %."""


def shards(settings: Settings) -> Sequence[Shard]:
    """Return one shard for each program; the quick form has fewer programs, methods, points, runs and rounds."""
    data = None if settings.data is None else settings.data_folder()
    names = _QUICK_PROGRAMS if settings.quick else _PROGRAMS
    return [
        {
            "program": name,
            "methods": list(_QUICK_METHODS if settings.quick else METHODS),
            "rounds": settings.draws or (_QUICK_ROUNDS if settings.quick else ROUNDS),
            "repetitions": _QUICK_REPETITIONS if settings.quick else REPETITIONS,
            "points": _QUICK_POINTS if settings.quick else None,
            "seed": settings.seed,
            "extrap": extrap_python() is not None,
            ALONE: True,
        }
        for name in names
        if source_of(PROGRAMS[name], data) is not None
    ]


def rules_of(shard: Shard) -> Rules:
    """Return the paper's rules: p_ext = p_n + d, an absolute threshold, one term a parameter."""
    options = SearchOptions(terms_per_parameter=1, criterion="smape")
    return Rules(published_target, THRESHOLD_S, options, extrap_python() if shard["extrap"] else None)


def summarise(programs: Sequence[Mapping[str, Any]], tables: tuple[Table, ...], settings: Settings) -> Evaluation:
    """Compare overheads and recall with what the paper says of its programs."""
    rows: list[Beside] = []
    for name, printed in PRINTED.items():
        why = "no copy of the program" if name in ("SU2", "MILC") else "SPEC CPU 2006 is licensed"
        for method, value in printed.items():
            element = f"Table I: overhead, {name}, {NAMES[method]}"
            rows.append(Beside(element, value, None, unit="%", why=why))
    for result in programs:
        for method in result["methods"]:
            value, error, samples = overhead(result, method)
            element = f"Table I: overhead, {result['program']}, {NAMES[method]}"
            own = [each[method] for each in PRINTED.values() if method in each]
            why = f"its programs have {min(own):g} to {max(own):g} %" if own else ""
            rows.append(Beside(element, None, value, "%", error, samples, why))
        rows += _recalls(result)
    return Evaluation(
        "Refinement of the instrumentation by the rules of PIRA II",
        tables=tables,
        notes=(
            f"{_QUICK_REPETITIONS if settings.quick else REPETITIONS} runs per point, three iterations; a function is "
            f"relevant above {THRESHOLD_S:g} s at p_n + d in each parameter. Overhead is in CPU time, the median "
            "of interleaved rounds.",
        ),
        beside=tuple(rows),
        modeller=name_of_modeller(),
    )


def _recalls(result: Mapping[str, Any]) -> list[Beside]:
    """Return how many of the functions with growing models and 1 % of the time each last filter has."""
    reference = result["methods"].get("everything")
    if reference is None:
        return []
    wanted = set(reference["kernels"]) - set(reference["brief"])
    why = "found by hand there: mostly relevant functions are preserved"
    out = []
    for method, trail in result["methods"].items():
        if method in ("everything", "inline-filtered"):
            continue
        element = f"section VI: relevant functions kept, {result['program']}, {NAMES[method]}"
        if not wanted:
            none = f"with everything instrumented, all growing functions spend over {100 * BRIEF:g} % of their time in "
            none += "instrumentation"
            out.append(Beside(element, None, None, "%", why=none))
            continue
        share = 100 * len(wanted & instrumented(trail)) / len(wanted)
        out.append(Beside(element, None, share, "%", samples=len(wanted), why=why))
    return out
