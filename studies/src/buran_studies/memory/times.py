"""Times beyond a cliff: predicted from points that fit into a cache, with misses as an account and without."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.campaign.plan import Mode
from buran.modeling.fit import fit_models
from buran.modeling.functions.terms import Array, predict
from buran.modeling.numerics.intervals import of_sum
from buran.modeling.pmnf.model import prediction_interval
from buran.modeling.priors.campaign import models_from_priors
from buran.plugins.memory.account import MemoryAccount, PageAccount
from buran.plugins.memory.caches import models_of
from buran.plugins.memory.costs import cache_cost, fault_cost, faults_of
from buran.plugins.memory.machine_file import MachineFile
from buran.plugins.memory.speed import calibrate
from buran.profiles.experiment.build import Run, experiment_from_profiles
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import MINOR_FAULTS
from buran.profiles.startup import is_startup_or_shutdown
from buran_studies.evaluation.evaluation import Evaluation, Figure, Kind, Table
from buran_studies.evaluation.study import ALONE, NEEDS, RESULTS, Settings, Shard
from buran_studies.machine.laboratory import EXAMPLES
from buran_studies.memory.program import Program, given
from buran_studies.priors.runs import Workshop

PRESET = "times"
MACHINE = "machine.json"
"""File of a folder that is given with ``--data``: a calibration, instead of one of its own."""
CALIBRATION: Shard = {"calibration": True, ALONE: True}
"""The shard that measures the machine, once for all programs."""
_REPETITIONS = {True: 3, False: 7}
_MAKE = "make MPICC={mpicc} MPICXX={mpicxx} CFLAGS=-O2 CXXFLAGS=-O2"
_KERNEL = "{{mpicc}} -O2 -Iinclude -DMPI {1} MPI1/{0}.c common/MPI_bail_out.c common/wtime.c -lm -o kernel"

PROGRAMS = {
    "sweep": Program(str(EXAMPLES / "sweep"), _MAKE, "sweep", "{n} 8", (8, 10, 12, 14, 16, 20), (32, 40, 48)),
    "stencil": Program(str(EXAMPLES / "stencil"), _MAKE, "stencil", "{n} 20", (16, 20, 24, 28, 32, 36), (64, 80, 96)),
    "treesort": Program(
        str(EXAMPLES / "treesort"), _MAKE, "treesort", "{n}", (4096, 8192, 16384, 32768, 65536), (131072, 262144)
    ),
    "HPCCG": Program(
        "HPCCG", "{mpicxx} -O2 -DUSING_MPI *.cpp -o hpccg", "hpccg", "{n} {n} {n}",
        (8, 10, 12, 14, 16, 18), (32, 40, 48),
    ),
    "Stencil": Program(
        "Kernels", _KERNEL.format("Stencil/stencil", "-DRADIUS=2 -DSTAR=1 -DDOUBLE=1"), "kernel", "10 {n}",
        (100, 150, 200, 250, 300, 340), (600, 900, 1200),
    ),
    "transpose": Program(
        "Kernels", _KERNEL.format("Transpose/transpose", ""), "kernel", "10 {n}",
        (100, 148, 200, 252, 300, 340), (600, 900, 1200),
    ),
    "nstream": Program(
        "Kernels", _KERNEL.format("Nstream/nstream", ""), "kernel", "60 {total} 0",
        (10_000, 20_000, 30_000, 40_000, 60_000, 80_000), (400_000, 3_200_000, 12_800_000),
    ),
    "ISx": Program(
        "ISx", "{mpicc} -O2 -std=gnu99 -DNDEBUG -DSCALING_OPTION=3 MPI/*.c -lm -o isx", "isx", "{n} 4 log",
        (100_000, 130_000, 160_000, 200_000, 300_000, 400_000), (800_000, 1_600_000),
    ),
    "XSBench": Program(
        "XSBench",  # it ends with 1 where it does not know the result, as of these sizes
        "sed -i 's/return is_invalid_result/return 0/' openmp-threading/Main.c; "
        "{mpicc} -O2 -std=gnu99 -DMPI openmp-threading/*.c -lm -o xsbench", "xsbench",
        "-s small -m event -l 100000 -g {n}", (40, 60, 80, 100, 130, 160), (320, 640),
    ),
}  # fmt: skip
"""Bundled examples, and public codes where they are checked out: HPCCG, ISx, XSBench, Parallel Research Kernels."""
_FOR_EACH_RANK = ("sweep", "stencil", "HPCCG", "nstream")
"""Those whose size is that of a rank, which computes the same on any number of ranks."""
_OF_FAULTS = 0.2  # of a function's time, from which on page faults are said to matter
_COUNTS = 0.01  # of the computation, from which on a function is judged


def shards(settings: Settings) -> Sequence[Shard]:
    """One shard for each program and number of ranks, one of them if it is quick.

    Where each rank has the same work on any number of ranks, runs with one tell times of two as well.
    """
    programs = given(settings) or {name: program for name, program in PROGRAMS.items() if program.folder.is_dir()}
    needed = {} if _machine(settings) else {NEEDS: [CALIBRATION]}
    numbers = [(1, [1])] if settings.quick else [(1, [1]), (2, [2])]
    measured = [
        {"name": name, **asdict(program), "ranks": ranks, "predicted": there, ALONE: True, **needed}
        for name, program in programs.items()
        for ranks, there in numbers
    ]
    for shard in measured:
        if shard["name"] in _FOR_EACH_RANK and shard["ranks"] == 1 and not settings.quick:
            shard["predicted"] = [1, 2]
    return [*needed.get(NEEDS, ()), *measured]


def _machine(settings: Settings) -> Path | None:
    """Return the machine file that a user has brought."""
    path = None if settings.data is None else settings.data_folder() / MACHINE
    return path if path is not None and path.is_file() else None


def run_shard(shard: Shard, settings: Settings) -> dict[str, Any]:
    """Measure a program at small sizes, predict it at large ones, and measure it there."""
    if shard == CALIBRATION:
        return {"machine": asdict(calibrate())}
    path = _machine(settings)
    machine = MachineFile.from_json(shard[RESULTS][0]["machine"]) if path is None else MachineFile.read(path)
    return predicted(shard, measured(shard, _REPETITIONS[settings.quick]), machine)


@dataclass(frozen=True, eq=False)
class Measured:
    """Runs of a program: of its small sizes, and those at large ones that predictions are judged by."""

    timed: Experiment
    counted: Experiment
    sampled: Sequence[Run]
    truth: Experiment
    paged: Experiment  # page faults at the largest size


def measured(shard: Shard, repeated: int) -> Measured:
    """Build and run the program of a shard."""
    program = Program(**{key: shard[key] for key in (field.name for field in fields(Program))})
    with tempfile.TemporaryDirectory(prefix="buran-times-") as name:
        workshop = Workshop.open(Path(name), "clang", faults=True)
        binaries = {
            mode: workshop.build(program.build, program.folder, program.binary, mode)[0]
            for mode in (Mode.TIME, Mode.EFFORT, Mode.MEMORY)
        }

        def runs(mode: Mode, sizes: Sequence[int], repetitions: int, ranks: int) -> list[Run]:
            out: list[Run] = []
            for n in sizes:
                for repetition in range(repetitions):
                    profile, _ = workshop.run(binaries[mode], mode, ranks, program.words(n, ranks))
                    assert profile is not None
                    out.append(({"p": ranks, "n": n}, repetition, profile))
            return out

        return Measured(
            experiment_from_profiles(runs(Mode.TIME, program.small, repeated, shard["ranks"])),
            experiment_from_profiles(runs(Mode.EFFORT, program.small, 1, shard["ranks"])),
            runs(Mode.MEMORY, program.small, 1, shard["ranks"]),
            experiment_from_profiles(
                [run for ranks in shard["predicted"] for run in runs(Mode.TIME, program.large, repeated, ranks)]
            ),
            experiment_from_profiles(runs(Mode.EFFORT, program.large[-1:], 1, shard["ranks"])),
        )


def predicted(shard: Shard, runs: Measured, machine: MachineFile) -> dict[str, Any]:
    """Predict times at large sizes from runs of small ones, and give those that were measured beside them."""
    timed, at = runs.timed, runs.truth.points
    ranks_at, sizes = (at[:, timed.parameters.index(name)] for name in ("p", "n"))
    distances = models_of(runs.sampled, timed.tree)
    assert distances is not None
    there = shard["predicted"]
    ranks = str(there[0]) if len(there) == 1 else "p"
    caches = [cache_cost(machine, level, ranks, max(there)) for level in range(len(machine.caches))]
    beyond = at[sizes == sizes.max()]
    misses = MemoryAccount(distances, caches, beyond)
    faults = faults_of(runs.counted, timed.tree)
    assert faults is not None
    pages = PageAccount(faults, fault_cost(machine, ranks, max(there)), timed.parameters, beyond)
    alone = fit_models(timed.points, np.nanmin(timed.over_locations("time"), axis=2)).models
    out: dict[str, Any] = {"name": shard["name"], "ranks": shard["ranks"], "predicted": ranks_at.tolist()}
    out |= {"sizes": sizes.tolist(), "measured": computation(runs.truth).sum(axis=0).tolist()}
    last = (ranks_at == shard["ranks"]) & (sizes == sizes.max())
    by_function = {"measured": functions(runs.truth, computation(runs.truth)[:, last])}
    of_faults = np.nan_to_num(runs.paged.over_locations(MINOR_FAULTS)[:, :, 0])
    by_function["faults"] = functions(runs.paged, machine.fault_s_of(shard["ranks"]) * of_faults)
    for kind, memory, paged in (("with", misses, None), ("without", None, None), ("pages", misses, pages)):
        accounts = [account for account in (memory, paged) if account is not None]
        models = models_from_priors(timed, runs.counted, processes=None, repetition="min", accounts=accounts)
        finals = [plain if model.final is None else model.final for model, plain in zip(models, alone, strict=True)]
        chosen = np.flatnonzero(inside(timed) & np.array([model is not None for model in finals])).tolist()
        used = [model for model in (finals[row] for row in chosen) if model is not None]
        middle = np.maximum(predict([model.function for model in used], at), 0.0)
        low, high = (np.maximum(end, 0.0) for end in prediction_interval(used, at))
        ends = of_sum(middle.sum(axis=0), middle - low, high - middle)
        out[kind] = {"middle": middle.sum(axis=0).tolist(), "ends": [end.tolist() for end in ends]}
        whole = np.zeros((len(timed.tree), 1))
        whole[chosen] = middle[:, last]
        by_function[kind] = functions(timed, whole)
    out["functions"] = [
        {"function": name, **{kind: values.get(name, 0.0) for kind, values in by_function.items()}}
        for name, seconds in by_function["measured"].items()
        if seconds > _COUNTS * sum(by_function["measured"].values())
        and by_function["faults"].get(name, 0.0) > _OF_FAULTS * seconds
    ]
    return out


def functions(table: Experiment, values: Array) -> dict[str, float]:
    """Add up values of call paths, shape (call path, 1), by function."""
    names = [table.tree.regions[number].name.split("(")[0] for number in table.tree.region.tolist()]
    out = dict.fromkeys(names, 0.0)
    for name, value in zip(names, values[:, 0].tolist(), strict=True):
        out[name] += value
    return out


def inside(table: Experiment) -> NDArray[np.bool_]:
    """Return shape (call path,): whether it computes between starting and ending."""
    regions = [table.tree.regions[number] for number in table.tree.region.tolist()]
    computes = np.array([region.paradigm not in ("mpi", "measurement") for region in regions], dtype=bool)
    return np.asarray(computes & ~is_startup_or_shutdown(table.tree.names))


def computation(table: Experiment) -> Array:
    """Return shape (call path, point): seconds of computation, mean over ranks, the least repetition."""
    times = np.where(inside(table)[:, None, None], table.over_locations("time"), 0.0)
    return np.asarray(np.nan_to_num(np.nanmin(times, axis=2)))


def summarise(results: Sequence[Mapping[str, Any]]) -> Evaluation:
    """Give the error of both predictions for each program, at all large sizes together.

    Where runs with one rank tell times of two, also by what two take longer.
    """
    figures, rows = list[Figure](), list[tuple[str | int | float, ...]]()
    for result in (result for result in results if "name" in result):
        found = {kind: np.array([result[kind]["middle"], *result[kind]["ends"]]) for kind in ("with", "without")}
        times, ranks = np.array(result["measured"]), np.array(result["predicted"])
        for there in np.unique(ranks).tolist():
            here = ranks == there
            where = f"{result['name']}, {there:.0f} rank{'s' if there > 1 else ''}"
            where += " from runs with one" if there > result["ranks"] else ""
            for kind, (middle, low, high) in found.items():
                errors = 100 * np.abs(middle / times - 1)[here]
                held = int(((low <= times) & (times <= high))[here].sum())
                name = f"time of {where} beyond the caches, {kind} misses as an account: error"
                note = f"{held} of {len(errors)} in intervals of 90 %"
                value = float(errors.mean())
                figures.append(Figure(name, value, "%", samples=len(errors), kind=Kind.MEASURED, note=note))
            if there > result["ranks"]:
                one = ranks == result["ranks"]
                longer, told = (100 * (each[here] / each[one] - 1) for each in (times, found["with"][0]))
                name, note = f"computation of {where}: measured beyond that of one", f"predicted {told.mean():.0f} %"
                value = float(longer.mean())
                figures.append(Figure(name, value, "%", samples=len(longer), kind=Kind.MEASURED, note=note))
            for place in np.flatnonzero(here).tolist():
                cells = [f"{1e3 * times[place]:.4g}"]
                for middle, low, high in found.values():
                    cells.append(f"{1e3 * middle[place]:.4g} [{1e3 * low[place]:.4g}, {1e3 * high[place]:.4g}]")
                rows.append((where, int(result["sizes"][place]), *cells))
    header = ("program", "n", "measured, ms", "with misses", "without")
    of_faults, by_function = _of_faults([result for result in results if "name" in result])
    tables = (Table("Computation of a rank", header, tuple(rows)), by_function)
    return Evaluation("Times beyond caches", (*figures, *of_faults), tables)


def _of_faults(results: Sequence[Mapping[str, Any]]) -> tuple[list[Figure], Table]:
    """Give the errors of functions that page faults matter to, with a column for these and without."""
    found = [(result, each) for result in results for each in result["functions"]]
    figures = []
    for kind, how in (("pages", "with a column for these"), ("with", "without")):
        errors = [100 * abs(each[kind] / each["measured"] - 1) for _, each in found]
        name = f"functions of which page faults are a fifth and more, {how}: median error"
        value = median(errors) if errors else None
        figures.append(Figure(name, value, "%", samples=max(len(errors), 1), kind=Kind.MEASURED))
    rows = []
    for result, each in found:
        where = f"{result['name']}, {result['ranks']} rank{'s' if result['ranks'] > 1 else ''}"
        times = (f"{1e3 * each[kind]:.4g}" for kind in ("faults", "measured", "pages", "with"))
        rows.append((where, int(max(result["sizes"])), each["function"], *times))
    header = ("program", "n", "function", "faults as calibrated, ms", "measured", "with page faults", "without")
    return figures, Table("Functions of which page faults are a fifth and more", header, tuple(rows))
