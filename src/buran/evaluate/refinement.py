"""Study of refinement: what a filter costs to find, what it costs to use, and what it loses.

Tables I and II of the PIRA II paper on the bundled examples and, where the user brings their sources, on LULESH and
HPCG (``--data DIR`` with folders ``LULESH`` and ``hpcg``). CPU times throughout: the machine may do other things
beside.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from buran.evaluate.evaluation import Evaluation, Figure, Kind, Table
from buran.evaluate.refinement_lab import PROGRAMS, Lab, source_of
from buran.evaluate.refinement_methods import METHODS, follow
from buran.evaluate.study import Settings, Shard
from buran.instrument.filter_file import parse
from buran.measure.toolchain import find_toolchain

PAIRS = 5
REPETITIONS = 2
QUICK = ("sweep",)
QUICK_METHODS = ("everything", "ours")
QUICK_POINTS = 4
GOAL_OVERHEAD = 5.0
GOAL_COVERAGE = 95.0
GOAL_ITERATIONS = 4


def shards(settings: Settings) -> Sequence[Shard]:
    """Return one shard for each program and method."""
    data = None if settings.data is None else settings.data_folder()
    programs = [name for name, each in PROGRAMS.items() if source_of(each, data) is not None]
    if settings.quick:
        programs = [name for name in programs if name in QUICK]
    methods = QUICK_METHODS if settings.quick else tuple(METHODS)
    draws = settings.draws or (2 if settings.quick else PAIRS)
    return [
        {"program": program, "method": method, "pairs": draws, "quick": settings.quick, "seed": settings.seed}
        for program in programs
        for method in methods
    ]


def run_shard(shard: Shard, settings: Settings) -> Any:
    """Follow one method on one program, then compare its last filter with the plain program."""
    program = PROGRAMS[shard["program"]]
    data = None if settings.data is None else settings.data_folder()
    source = source_of(program, data)
    assert source is not None
    if shard["quick"]:
        program = type(program)(**{**asdict(program), "points": program.points[:QUICK_POINTS]})
    with tempfile.TemporaryDirectory(prefix="buran-refinement-") as name:
        lab = Lab(program, source, find_toolchain(), Path(name))
        found = follow(lab, shard["method"], 1 if shard["quick"] else REPETITIONS)
        final = found.filters[-1]
        hooked, plain = lab.paired(final, program.points, shard["pairs"])
        _, features = lab.build(final)
    marked = {f.mangled for f in features.functions if f.hooked} if features else set()
    return {
        "program": shard["program"],
        "method": shard["method"],
        **asdict(found),
        "hooked_s": hooked,
        "vanilla_s": plain,
        "marked": sorted(marked),
        "repetitions": 1 if shard["quick"] else REPETITIONS,
    }


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Make both tables, and the figures that have a goal."""
    by_program: dict[str, dict[str, Any]] = {}
    for result in results:
        by_program.setdefault(result["program"], {})[result["method"]] = result
    figures: list[Figure] = []
    for program, methods in by_program.items():
        figures += _figures(program, methods)
    return Evaluation(
        "Refinement of the instrumentation",
        tuple(figures),
        (_times(by_program), _counts(by_program)),
        notes=(
            "Overhead is CPU time over that of the plain program, all points together, the median of paired rounds; "
            "its standard error is that of the median.",
        ),
    )


def _overhead(result: Any) -> tuple[float, float]:
    ratios = [100 * (a / b - 1) for a, b in zip(result["hooked_s"], result["vanilla_s"], strict=True)]
    spread = float(np.std(ratios, ddof=1)) if len(ratios) > 1 else 0.0
    return median(ratios), 1.2533 * spread / len(ratios) ** 0.5


def _figures(program: str, methods: dict[str, Any]) -> list[Figure]:
    out = []
    ours = methods.get("ours")
    reference = methods.get("everything")
    for name, result in methods.items():
        value, error = _overhead(result)
        goal = f"at most {GOAL_OVERHEAD:g}" if name == "ours" else ""
        out.append(
            Figure(f"{program} {name} overhead", value, "%", error, len(result["hooked_s"]), Kind.MEASURED, goal)
        )
    if ours is None:
        return out
    out.append(
        Figure(
            f"{program} ours coverage",
            None if ours["coverage"] is None else 100 * ours["coverage"],
            "%",
            kind=Kind.MEASURED,
            goal=f"at least {GOAL_COVERAGE:g}",
        )
    )
    out.append(
        Figure(
            f"{program} ours iterations",
            ours["iterations"],
            kind=Kind.MEASURED,
            goal=f"at most {GOAL_ITERATIONS}, converged",
            note="converged" if ours["converged"] else "stopped before it converged",
        )
    )
    out.append(Figure(f"{program} ours constants left", len(ours["constants"]), kind=Kind.MEASURED, goal="0"))
    if reference is not None:
        wanted = set(reference["kernels"])
        kept = {rule.pattern for rule in parse(ours["filters"][-1]).regions if rule.include} | set(ours["marked"])
        lost = sorted(wanted - kept)
        recall = 100 * (1 - len(lost) / len(wanted)) if wanted else None
        note = f"lost: {', '.join(lost[:4])}" if lost else ("" if wanted else "the reference has no kernel")
        out.append(
            Figure(
                f"{program} ours recall",
                recall,
                "%",
                samples=len(wanted),
                kind=Kind.MEASURED,
                goal="100",
                note=note,
            )
        )
        out.append(
            Figure(
                f"{program} ours cost of refinement",
                100 * ours["spent_s"] / reference["spent_s"],
                "% of one pass with everything",
                kind=Kind.MEASURED,
                goal="below 100",
            )
        )
    return out


def _times(by_program: dict[str, dict[str, Any]]) -> Table:
    rows = []
    for program, methods in by_program.items():
        for name, result in methods.items():
            value, error = _overhead(result)
            vanilla = result["repetitions"] * median(result["vanilla_s"])
            rows.append((program, name, vanilla, result["spent_s"], result["iterations"], f"{value:.1f} ± {error:.1f}"))
    return Table(
        "CPU time in s: plain runs of one pass, instrumented runs of all iterations; overhead of the last filter in %",
        ("program", "method", "plain", "all iterations", "iterations", "overhead"),
        tuple(rows),
        "after Table I of the PIRA II paper",
    )


def _counts(by_program: dict[str, dict[str, Any]]) -> Table:
    rows = [
        (program, name, result["functions"], len(result["marked"]), result["executed"])
        for program, methods in by_program.items()
        for name, result in methods.items()
    ]
    return Table(
        "Functions: defined in the code base, with hooks in the end, executed with hooks",
        ("program", "method", "code base", "marked", "executed"),
        tuple(rows),
        "after Table II of the PIRA II paper",
    )
