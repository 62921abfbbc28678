"""Study of refinement: what a filter costs to find, what it costs to use, and what it loses.

Tables I and II of the PIRA II paper on the bundled examples and, where the user brings their sources, on LULESH and
HPCG (``--data DIR`` with folders ``LULESH`` and ``hpcg``). CPU times throughout: the machine may do other things
beside.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

from buran.measurement.toolchain.runtime import find_toolchain
from buran_studies.evaluation.evaluation import Evaluation, Figure, Kind, Table
from buran_studies.evaluation.study import ALONE, PUBLISHED, Settings, Shard
from buran_studies.refinement import published
from buran_studies.refinement.lab import PROGRAMS, Lab, source_of
from buran_studies.refinement.methods import BRIEF, Rules, follow
from buran_studies.refinement.trails import instrumented, overhead

ROUNDS = 5
REPETITIONS = 1
GROUPS = (("everything", "ours"), ("inline-filtered", "PIRA I", "filter-only", "filter-and-expand"))
"""Methods that share builds, first runs and the rounds side by side: a shard for each program and group."""
QUICK = ("sweep",)
QUICK_GROUPS = (("everything", "filter-only", "ours"),)
QUICK_POINTS = 4
SLOWEST = 2.0
"""A method whose own pass took more times the plain one is not run again in rounds: its pass says enough."""
GOAL_OVERHEAD = 5.0
GOAL_COVERAGE = 95.0
GOAL_ITERATIONS = 4


def shards(settings: Settings) -> Sequence[Shard]:
    """Return one shard for each program and group of methods.

    Raises
    ------
    UsageError
        There is no such preset.
    """
    if settings.preset == PUBLISHED:
        return published.shards(settings)
    settings.require("default", PUBLISHED)
    data = None if settings.data is None else settings.data_folder()
    programs = [name for name, program in PROGRAMS.items() if source_of(program, data) is not None]
    if settings.quick:
        programs = [name for name in programs if name in QUICK]
    groups = QUICK_GROUPS if settings.quick else GROUPS
    draws = settings.draws or (2 if settings.quick else ROUNDS)
    return [
        {
            "program": program,
            "methods": list(methods),
            "rounds": draws,
            "repetitions": 1 if settings.quick else REPETITIONS,
            "points": QUICK_POINTS if settings.quick else None,
            "seed": settings.seed,
            ALONE: True,
        }
        for program in programs
        for methods in groups
    ]


def run_shard(shard: Shard, settings: Settings) -> Any:
    """Follow all methods on one program, then compare their last filters with the plain program."""
    rules = published.rules_of(shard) if settings.preset == PUBLISHED else Rules()
    program = PROGRAMS[shard["program"]]
    data = None if settings.data is None else settings.data_folder()
    source = source_of(program, data)
    assert source is not None
    program = replace(program, points=program.points[: shard["points"]])
    repetitions = shard["repetitions"]
    with tempfile.TemporaryDirectory(prefix="buran-refinement-") as name:
        lab = Lab(program, source, find_toolchain(), Path(name))
        trails = {method: follow(lab, method, repetitions, rules) for method in shard["methods"]}
        plain_s = lab.rounds((), 1)[None][0]
        finals = {method: trail.filters[-1] for method, trail in trails.items()}
        passes = {text: lab.experiment(text, program.points, repetitions)[2] for text in finals.values()}
        quick = [text for text in finals.values() if passes[text] < SLOWEST * repetitions * plain_s]
        timed = lab.rounds(quick, shard["rounds"])
        built = {method: lab.experiment(text, program.points, repetitions)[1] for method, text in finals.items()}
    return {
        "program": shard["program"],
        "repetitions": repetitions,
        "methods": {
            method: {
                **asdict(trail),
                "marked": sorted(f.mangled for f in built[method].functions if f.hooked),
                "vanilla_s": timed[None],
                "hooked_s": timed.get(finals[method], []),
                "pass_s": passes[finals[method]],
            }
            for method, trail in trails.items()
        },
    }


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Make both tables, and the figures that have a goal."""
    programs: dict[str, dict[str, Any]] = {}
    for result in results:
        programs.setdefault(result["program"], {**result, "methods": {}})["methods"] |= result["methods"]
    if settings.preset == PUBLISHED:
        by_program = [*programs.values()]
        return published.summarise(by_program, (_times(by_program), _counts(by_program)), settings)
    figures = [figure for result in programs.values() for figure in _figures(result)]
    return Evaluation(
        "Refinement of the instrumentation",
        tuple(figures),
        (_times([*programs.values()]), _counts([*programs.values()])),
        notes=(
            "Overhead is CPU time over that of the plain program, all points together, the median of rounds in which "
            "the methods take turns; its standard error is that of the median. Where a pass took more than "
            f"{SLOWEST:g} times the plain one, it is that of the pass, a single sample.",
            "Cost of refinement: all instrumented runs, over one pass of all points with hooks in everything, as often "
            "repeated. Cost of finding the filter: without the last pass, which is the measurement that was wanted.",
            "Recall: functions with growing models and 1 % of the time in the reference that the last filter has. "
            f"Brief ones, with more than {100 * BRIEF:g} % of their time in hooks, have a figure of their own.",
        ),
    )


def _figures(result: Any) -> list[Figure]:
    program, methods = result["program"], result["methods"]
    out = []
    for name in methods:
        value, error, samples = overhead(result, name)
        goal = f"at most {GOAL_OVERHEAD:g}" if name == "ours" else ""
        out.append(Figure(f"{program} {name} overhead", value, "%", error, samples, Kind.MEASURED, goal))
    ours, reference = methods.get("ours"), methods.get("everything")
    if ours is None:
        return out

    def figure(name: str, value: float | None, unit: str, goal: str, note: str = "", samples: int = 1) -> None:
        out.append(Figure(f"{program} ours {name}", value, unit, None, samples, Kind.MEASURED, goal, note))

    figure("coverage", None if ours["coverage"] is None else 100 * ours["coverage"], "%", f"at least {GOAL_COVERAGE:g}")
    ended = "converged" if ours["converged"] else "stopped before it converged"
    figure("iterations", ours["iterations"], "", f"at most {GOAL_ITERATIONS}, converged", ended)
    figure("filter after running again", float(not ours["again"]), "filters changed", "0")
    figure("constants left", len(ours["constants"]), "", "0", ", ".join(ours["constants"][:4]))
    if reference is None:
        return out
    every = set(reference["kernels"])
    for name, wanted in (("recall", every - set(reference["brief"])), ("recall with brief functions", every)):
        lost = sorted(wanted - instrumented(ours))
        note = f"lost: {', '.join(lost)}" if lost else ("" if wanted else "the reference has no kernel")
        figure(name, 100 * (1 - len(lost) / len(wanted)) if wanted else None, "%", "100", note, len(wanted))
    whole = reference["spent_s"]
    unit = "% of one pass with everything"
    figure("cost of refinement", 100 * ours["spent_s"] / whole, unit, "below 100")
    figure("cost of finding the filter", 100 * ours["finding_s"] / whole, unit, "below 100")
    return out


def _times(results: Sequence[Any]) -> Table:
    rows: list[tuple[Any, ...]] = []
    for result in results:
        plain = result["repetitions"] * median(s for method in result["methods"].values() for s in method["vanilla_s"])
        rows.append((result["program"], "vanilla", plain, None, None, None, None))
        for name, method in result["methods"].items():
            value, error, _ = overhead(result, name)
            shown = f"{value:.1f}" if error is None else f"{value:.1f} ± {error:.1f}"
            spent = (
                method["spent_s"],
                method["finding_s"],
                method["iterations"],
                "yes" if method["converged"] else "no",
                shown,
            )
            rows.append((result["program"], name, *spent))
    return Table(
        "CPU time in s of all instrumented runs, and of those before the last pass; overhead of the last filter in %. "
        "Vanilla: plain runs of one pass",
        ("program", "method", "all runs", "before the last pass", "iterations", "converged", "overhead"),
        tuple(rows),
        "after Table I of the PIRA II paper",
    )


def _counts(results: Sequence[Any]) -> Table:
    rows = [
        (result["program"], name, method["functions"], len(method["marked"]), method["executed"])
        for result in results
        for name, method in result["methods"].items()
    ]
    return Table(
        "Functions: defined in the code base, with hooks in the end, executed with hooks",
        ("program", "method", "code base", "marked", "executed"),
        tuple(rows),
        "after Table II of the PIRA II paper",
    )
