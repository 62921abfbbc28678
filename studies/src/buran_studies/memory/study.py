"""The study `memory`: counted flops, loads and stores beside formulas and valgrind; misses beside its simulation."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from buran.campaign.plan import Mode
from buran.plugins.memory.metrics import DETAILS, REQUIREMENTS
from buran.profiles.profile import Profile
from buran_studies.evaluation.evaluation import Evaluation, Figure, Kind, Table
from buran_studies.evaluation.study import Settings, Shard
from buran_studies.machine.laboratory import EXAMPLES, RUNS
from buran_studies.memory import caches, extrapolation, times
from buran_studies.memory.cachegrind import references_of
from buran_studies.memory.kernels import kinds, theory
from buran_studies.memory.program import Program, given
from buran_studies.priors.runs import Workshop

CODES = {"LULESH": 10, "HPCG": 16}
"""Sizes of public codes whose counts are compared with valgrind's, where they are checked out."""
SIZES = {"stencil": (8, 16), "sweep": (8, 12), "treesort": (1024, 4096)}
_BLOCKS = 8  # of sweep, as `RUNS` says
_OPERATIONS = ("flops", "loads", "stores", "branches", "function_calls", "integer_operations")
_FLAGS = {
    Mode.EFFORT: "-O2",
    # A reference of the processor is one of the source; valgrind reads no newer DWARF of all compilers.
    Mode.VANILLA: "-O2 -gdwarf-4 -fno-tree-vectorize -fno-unroll-loops",
}


def shards(settings: Settings) -> Sequence[Shard]:
    """One shard for each example and compiler, one for each program whose misses are compared, and larger ones.

    The preset ``times`` predicts times beyond the caches instead. A program that is given is predicted alone.
    """
    settings.require("default", times.PRESET)
    if settings.preset == times.PRESET:
        return times.shards(settings)
    if given(settings):
        return extrapolation.shards(settings)
    counted = [
        {"example": example, "compiler": compiler, "sizes": [*sizes[:1]] if settings.quick else [*sizes]}
        for example, sizes in SIZES.items()
        for compiler in caches.COMPILERS
    ]
    if not settings.quick:
        here = [name for name in CODES if extrapolation.PROGRAMS[name].folder.is_dir()]
        counted += [
            {"example": name, "compiler": compiler, "sizes": [CODES[name]]}
            for name in here
            for compiler in caches.COMPILERS
        ]
    return [*counted, *extrapolation.shards(settings), *caches.shards(settings)]


def run_shard(shard: Shard, settings: Settings) -> dict[str, Any]:
    """Count each kernel's requirements on one rank, and let valgrind count those of a build without hooks.

    Or compare misses, or times; see `caches`, `extrapolation` and `times`.
    """
    if "extrapolated" in shard:
        return extrapolation.run_shard(shard)
    if settings.preset == times.PRESET:
        return times.run_shard(shard, settings)
    if "program" in shard:
        return caches.run_shard(shard, settings)
    example, sizes = shard["example"], shard["sizes"]
    with tempfile.TemporaryDirectory(prefix="buran-memory-") as name:
        workshop = Workshop.open(Path(name), shard["compiler"], detailed=True)
        program = extrapolation.PROGRAMS[example] if example in CODES else _example(example)
        binaries = {
            mode: workshop.build(program.build.replace("-O2", flags), program.folder, program.binary, mode)[0]
            for mode, flags in _FLAGS.items()
        }
        return {
            **shard,
            "kernels": [row for n in sizes for row in _kernels(example, program.words(n), n, workshop, binaries)],
        }


def _example(name: str) -> Program:
    command = "make MPICC={mpicc} MPICXX={mpicxx} CFLAGS='-O2' CXXFLAGS='-O2'"
    return Program(str(EXAMPLES / name), command, name, RUNS[name].partition(" ")[2], (), ())


def _kernels(
    example: str, arguments: Sequence[str], n: int, workshop: Workshop, binaries: Mapping[Mode, Path]
) -> Iterable[dict[str, Any]]:
    """Yield what each kernel asks for: those of theory, or of a public code those that are functions in both builds."""
    profile, _ = workshop.run(binaries[Mode.EFFORT], Mode.EFFORT, 1, arguments)
    assert profile is not None
    references = references_of([str(binaries[Mode.VANILLA]), *arguments], workshop)
    least = caches.LEAST * sum(found.all for found in references.values())
    functions = {name.split("->")[-1].split("(")[0] for name in profile.tree.names} - {"main"}
    kernels: Mapping[str, Sequence[float]] = (
        dict.fromkeys(sorted(name for name in functions & references.keys() if references[name].all >= least), ())
        if example in CODES
        else theory(example, {"n": n, "p": 1, "blocks": _BLOCKS})
    )
    for kernel, visit in kernels.items():
        counted = totals(profile, kernel)
        found = references[kernel.rpartition("->")[2]]
        yield {
            "kernel": kernel,
            "n": n,
            "counted": [counted[metric] for metric in REQUIREMENTS],
            "theory": [counted["visits"] * amount for amount in visit],
            "counted_kinds": [counted[metric] for metric in DETAILS if metric.startswith("flops")],
            "kinds": kinds(example, kernel, counted["flops"]) if visit else (),
            "operations": sum(counted[metric] for metric in _OPERATIONS),
            "valgrind": [found.reads, found.writes],
            "instructions": found.instructions,
        }


def totals(profile: Profile, kernel: str) -> dict[str, float]:
    """Return counts of all call paths that end with a kernel, mean over ranks: visits and requirements."""
    bare = ["->".join(part.split("(")[0] for part in name.split("->")) for name in profile.tree.names]
    rows = [row for row, path in enumerate(bare) if f"->{path}".endswith(f"->{kernel}")]
    metrics = [metric for metric in ("visits", *REQUIREMENTS, *DETAILS) if metric in profile.metrics]
    return {metric: float(profile.exclusive(metric)[rows].mean(axis=1).sum()) for metric in metrics}


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Give the share of counts that are as theory says, and how far valgrind is from what is counted and sampled."""
    if settings.preset == times.PRESET:
        return times.summarise(results)
    figures, rows = [], []
    for result in (result for result in results if "example" in result):
        example, compiler, kernels = result["example"], result["compiler"], result["kernels"]
        for what, found, said in (
            ("requirements", "counted", "theory"),
            ("kinds of operations", "counted_kinds", "kinds"),
        ):
            if example in CODES:
                continue
            pairs = [pair for kernel in kernels for pair in zip(kernel[found], kernel[said], strict=True)]
            equal = sum(counted == expected for counted, expected in pairs)
            unequal = [kernel["kernel"] for kernel in kernels if [*kernel[found]] != [*kernel[said]]]
            name = f"{what} of {example}, {compiler}, as its source says"
            note = ", ".join(dict.fromkeys(unequal))
            share = 100 * equal / len(pairs)
            figures.append(Figure(name, share, "%", samples=len(pairs), goal="100", kind=Kind.MEASURED, note=note))
        beyond = {kernel["kernel"]: _beyond(kernel) for kernel in kernels}
        if not beyond:
            continue
        farthest = max(beyond, key=lambda kernel: abs(beyond[kernel]))
        figures.append(
            Figure(
                f"references of {example}, {compiler}, valgrind's beyond those counted, farthest kernel",
                100 * beyond[farthest],
                "%",
                samples=len(kernels),
                kind=Kind.MEASURED,
                note=farthest,
            )
        )
        rows += [_row(example, compiler, kernel) for kernel in kernels]
    header = (
        *("program", "compiler", "kernel", "n", "flops", "loads", "valgrind's reads", "stores", "valgrind's writes"),
        *("operations", "valgrind's instructions"),
    )
    table = Table("One rank, whole run", header, tuple(rows))
    of_caches, misses = caches.summarise([result for result in results if "program" in result])
    at_larger, larger = extrapolation.summarise([result for result in results if "extrapolated" in result])
    return Evaluation("What programs ask of the memory", (*figures, *of_caches, *at_larger), (table, misses, *larger))


def _beyond(kernel: Mapping[str, Any]) -> float:
    _, loads, stores, _, _ = kernel["counted"]
    return float(sum(kernel["valgrind"]) / (loads + stores) - 1)


def _row(example: str, compiler: str, kernel: Mapping[str, Any]) -> tuple[str | int | float, ...]:
    flops, loads, stores, _, _ = map(round, kernel["counted"])
    reads, writes = kernel["valgrind"]
    last = (round(kernel["operations"]), kernel["instructions"])
    return (example, compiler, kernel["kernel"], kernel["n"], flops, loads, reads, stores, writes, *last)
