"""Misses that follow from sampled reuse distances, beside a cache simulator, and what the sample costs."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from buran.campaign.plan import Mode
from buran.plugins.memory.misses import histogram, misses, misses_of_sets
from buran.plugins.memory.reuse import LINE
from buran.profiles.profile import Profile
from buran_studies.campaign.public import checkouts
from buran_studies.evaluation.evaluation import Figure, Kind, Table
from buran_studies.evaluation.study import ALONE, Settings, Shard
from buran_studies.machine.laboratory import EXAMPLES
from buran_studies.memory.cachegrind import References, references_of
from buran_studies.priors.runs import Workshop

COMPILERS = ("clang", "gcc")
CACHES = (32 * 1024, 1024 * 1024)
WAYS = (8, 16)
"""Places for each line."""
SIMULATED = tuple(f"--{name}={size},{ways},{LINE}" for name, size, ways in zip(("D1", "LL"), CACHES, WAYS, strict=True))
SOURCES = {name: Path(__file__).parent / name for name in ("blocked", "transpose")}
RUNS = {
    "stencil": (("32 3", "40 3"), "64 60"),
    "sweep": (("24 8", "16 8"), "48 8 10"),
    "treesort": (("32768", "65536"), "2097152"),
    "blocked": (("192", "256"), "640"),
    "transpose": (("256 0", "256 8"), "2048 8"),
    "LULESH": (("-s 8 -i 5", "-s 12 -i 5"), "-s 30 -i 10"),
}
"""By program: arguments for the simulator, the first for a quick study, and those with which time is taken."""
_BUILDS = {
    "LULESH": (
        "for f in *.cc; do {mpicxx} -O2 -gdwarf-4 -DUSE_MPI=1 -c $f -o $f.o || exit 1; done; {mpicxx} *.o -o lulesh2.0",
        "lulesh2.0",
    )
}
"""Commands and binaries of public codes, which are judged where they are checked out."""
_HOW = ((("sampled", "any lines"), ("in sets", "its own lines")), (("sampled", "any lines"),))
"""By level: what is judged, and what a set holds then."""
_NEAR = 0.1
LEAST = 0.05
"""Share of a program's references from which a kernel is judged."""
_PAIRS = {True: 1, False: 5}
_FLAGS = "make MPICC={mpicc} MPICXX={mpicxx} CFLAGS='-O2 -g' CXXFLAGS='-O2 -g'"


def shards(settings: Settings) -> Sequence[Shard]:
    """One shard for each program that is here, and each compiler."""
    return [
        {
            "program": program,
            "compiler": compiler,
            "arguments": [*sizes[:1]] if settings.quick else [*sizes],
            ALONE: True,
        }
        for program, (sizes, _) in RUNS.items()
        for compiler in (COMPILERS[:1] if settings.quick else COMPILERS)
        if source_of(program).is_dir()
    ]


def source_of(program: str) -> Path:
    """Return the folder of a program: of this study, of the examples, or among the checkouts."""
    return checkouts() / program if program in _BUILDS else SOURCES.get(program, EXAMPLES / program)


def run_shard(shard: Shard, settings: Settings) -> dict[str, Any]:
    """Sample a program's accesses, let valgrind simulate caches for it, and run pairs with and without the sample."""
    program = shard["program"]
    with tempfile.TemporaryDirectory(prefix="buran-caches-") as name:
        workshop = Workshop.open(Path(name), shard["compiler"])
        command, binary = _BUILDS.get(program, (_FLAGS, program))
        plain, sampling = (
            workshop.build(command, source_of(program), binary, mode)[0] for mode in (Mode.VANILLA, Mode.MEMORY)
        )
        kernels = []
        for arguments in shard["arguments"]:
            profile, _ = workshop.run(sampling, Mode.MEMORY, 1, arguments.split())
            assert profile is not None
            references = references_of([str(plain), *arguments.split()], workshop, SIMULATED)
            kernels += [{"arguments": arguments, **kernel} for kernel in judged(profile, references)]
        ratios = []
        for _ in range(_PAIRS[settings.quick]):
            pair = ((sampling, Mode.MEMORY), (plain, Mode.VANILLA))
            sampled, alone = (workshop.run(binary, mode, 1, RUNS[program][1].split())[1] for binary, mode in pair)
            ratios.append((sampled.user_s + sampled.system_s) / (alone.user_s + alone.system_s))
    return {**shard, "kernels": kernels, "ratios": ratios}


def judged(profile: Profile, references: Mapping[str, References]) -> list[dict[str, Any]]:
    """Return misses of the kernels that have enough references, sampled and simulated, by level.

    Functions without hooks are in none: what the C library does is not sampled.
    """
    accesses, corrected = histogram(profile).sum(axis=1), misses_of_sets(profile, CACHES[0], WAYS[0]).sum(axis=1)
    names = [name.split("->")[-1].split("(")[0] for name in profile.tree.names]
    whole = sum(found.all for found in references.values())
    out = []
    for kernel in sorted(set(names) & references.keys()):
        found = references[kernel]
        if found.all < LEAST * whole:
            continue
        rows = [row for row, name in enumerate(names) if name == kernel]
        own = accesses[rows].sum(axis=0)
        out.append(
            {
                "kernel": kernel,
                "references": found.all,
                "sampled": [float(misses(own, size)) for size in CACHES],
                "in sets": [float(corrected[rows].sum())],
                "simulated": [*found.misses],
            }
        )
    return out


def beyond(kernel: Mapping[str, Any], level: int, how: str = "sampled") -> float:
    """Return how far misses of a level, 0 or 1, are from the simulated ones, over these.

    A hundredth of the references counts as nothing.
    """
    difference = kernel[how][level] - kernel["simulated"][level]
    return 0.0 if abs(difference) <= kernel["references"] / 100 else difference / max(kernel["simulated"][level], 1)


def summarise(results: Sequence[Mapping[str, Any]]) -> tuple[list[Figure], Table]:
    """Give the farthest kernel of each program and level, and what the sample costs."""
    figures, rows = [], []
    every = [kernel for result in results for kernel in result["kernels"]]
    for level, ways in enumerate(WAYS if every else ()):
        for how, name in _HOW[level]:
            near = [abs(beyond(kernel, level, how)) <= _NEAR for kernel in every]
            title = f"kernels whose misses of level {level + 1}, {ways} ways, are near if a set holds {name}"
            share = 100 * sum(near) / len(near)
            figures.append(Figure(title, share, "%", samples=len(near), goal="100", kind=Kind.MEASURED))
    for result in results:
        program, kernels = f"{result['program']}, {result['compiler']}", result["kernels"]
        for level in range(len(CACHES) if kernels else 0):
            farthest = max(kernels, key=lambda kernel: abs(beyond(kernel, level)))
            figures.append(
                Figure(
                    f"misses of level {level + 1} in {program}, sampled beyond simulated, farthest kernel",
                    100 * beyond(farthest, level),
                    "%",
                    samples=len(kernels),
                    goal="-10 to 10",
                    kind=Kind.MEASURED,
                    note=farthest["kernel"],
                )
            )
        figures.append(
            Figure(
                f"CPU time of {program} with the sample, over plain",
                median(result["ratios"]),
                "",
                samples=len(result["ratios"]),
                goal="<= 1.5",
                kind=Kind.MEASURED,
                note=f"{min(result['ratios']):.2f} to {max(result['ratios']):.2f}",
            )
        )
        for kernel in kernels:
            pairs = zip(kernel["sampled"], kernel["simulated"], strict=True)
            numbers = [round(number) for pair in pairs for number in pair]
            numbers.insert(1, round(kernel["in sets"][0]))
            rows.append(
                (
                    result["program"],
                    result["compiler"],
                    kernel["arguments"],
                    kernel["kernel"],
                    round(kernel["references"]),
                    *numbers,
                )
            )
    header = (
        *("program", "compiler", "arguments", "kernel", "references"),
        *("misses of level 1", "in sets", "simulated", "misses of level 2", "simulated"),
    )
    return figures, Table("Misses, one rank, whole run", header, tuple(rows))
