"""Times beyond a cliff: predicted from points that fit into a cache, with misses as an account and without."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.campaign.machine_file import MachineFile
from buran.campaign.plan import Mode
from buran.experiment.build import Run, experiment_from_profiles
from buran.experiment.table import Experiment
from buran.loop.caches import models_of
from buran.loop.memory import cache_cost
from buran.measure.machine.speed import calibrate
from buran.model.fit import fit_models
from buran.model.model import prediction_interval
from buran.model.terms import Array, predict
from buran.numerics.intervals import of_sum
from buran.prior.memory import MemoryAccount
from buran.prior.tables import models_from_priors
from buran.profile.startup import starts_or_ends
from buran_studies.evaluation.evaluation import Evaluation, Figure, Kind, Table
from buran_studies.evaluation.study import NEEDS, RESULTS, Settings, Shard
from buran_studies.machine.laboratory import EXAMPLES
from buran_studies.memory.program import Program, given
from buran_studies.priors.runs import Workshop

PRESET = "times"
MACHINE = "machine.json"
"""File of a folder that is given with ``--data``: a calibration, instead of one of its own."""
CALIBRATION: Shard = {"calibration": True}
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
}  # fmt: skip
"""Bundled examples, and public codes where they are checked out: HPCCG, and two of the Parallel Research Kernels."""


def shards(settings: Settings) -> Sequence[Shard]:
    """One shard for each program and number of ranks, one of them if it is quick."""
    programs = given(settings) or {name: program for name, program in PROGRAMS.items() if program.folder.is_dir()}
    ranks = (1,) if settings.quick else (1, 2)
    needed = {} if _machine(settings) else {NEEDS: [CALIBRATION]}
    measured = [
        {"name": name, **asdict(program), "ranks": r, **needed} for name, program in programs.items() for r in ranks
    ]
    return [*needed.get(NEEDS, ()), *measured]


def _machine(settings: Settings) -> Path | None:
    """Return the machine file that a user has brought."""
    path = None if settings.data is None else settings.data_folder() / MACHINE
    return path if path is not None and path.is_file() else None


def run_shard(shard: Shard, settings: Settings) -> dict[str, Any]:
    """Measure a program at small sizes, predict it at large ones, and measure it there."""
    if shard == CALIBRATION:
        return {"machine": asdict(calibrate())}
    program = Program(**{key: shard[key] for key in (field.name for field in fields(Program))})
    path = _machine(settings)
    machine = MachineFile.from_json(shard[RESULTS][0]["machine"]) if path is None else MachineFile.read(path)
    repeated = _REPETITIONS[settings.quick]
    with tempfile.TemporaryDirectory(prefix="buran-times-") as name:
        workshop = Workshop.open(Path(name), "clang")
        binaries = {
            mode: workshop.build(program.build, program.folder, program.binary, mode)[0]
            for mode in (Mode.TIME, Mode.EFFORT, Mode.MEMORY)
        }

        def runs(mode: Mode, sizes: Sequence[int], repetitions: int) -> list[Run]:
            out: list[Run] = []
            for n in sizes:
                for repetition in range(repetitions):
                    profile, _ = workshop.run(binaries[mode], mode, shard["ranks"], program.words(n))
                    assert profile is not None
                    out.append(({"n": n}, repetition, profile))
            return out

        small = runs(Mode.TIME, program.small, repeated)
        counted = experiment_from_profiles(runs(Mode.EFFORT, program.small, 1))
        sampled = runs(Mode.MEMORY, program.small, 1)
        truth = experiment_from_profiles(runs(Mode.TIME, program.large, repeated))
    timed = experiment_from_profiles(small)
    at = truth.points
    distances = models_of(sampled, timed.tree)
    assert distances is not None
    caches = [cache_cost(machine, level, str(shard["ranks"]), shard["ranks"]) for level in range(len(machine.caches))]
    account = MemoryAccount(distances, caches, at[-1:])
    measured = computation(truth)
    alone = fit_models(timed.points, np.nanmin(timed.over_locations("time"), axis=2)).models
    out: dict[str, Any] = {"name": shard["name"], "ranks": shard["ranks"]}
    out |= {"sizes": at[:, 0].tolist(), "measured": measured.tolist()}
    for kind, memory in (("with", account), ("without", None)):
        models = models_from_priors(timed, counted, processes=None, repetition="min", memory=memory)
        finals = [plain if model.final is None else model.final for model, plain in zip(models, alone, strict=True)]
        chosen = [
            model for model, computes in zip(finals, inside(timed), strict=True) if computes and model is not None
        ]
        middle = np.maximum(predict([model.function for model in chosen], at), 0.0)
        low, high = (np.maximum(end, 0.0) for end in prediction_interval(chosen, at))
        ends = of_sum(middle.sum(axis=0), middle - low, high - middle)
        out[kind] = {"middle": middle.sum(axis=0).tolist(), "ends": [end.tolist() for end in ends]}
    return out


def inside(table: Experiment) -> NDArray[np.bool_]:
    """Return shape (call path,): whether it computes between starting and ending."""
    regions = [table.tree.regions[number] for number in table.tree.region.tolist()]
    computes = np.array([region.paradigm not in ("mpi", "measurement") for region in regions], dtype=bool)
    return np.asarray(computes & ~starts_or_ends(table.tree.names))


def computation(table: Experiment) -> Array:
    """Return shape (point,): seconds of all computation, mean over ranks, the least repetition of each call path."""
    times = np.nan_to_num(np.nanmin(np.where(inside(table)[:, None, None], table.over_locations("time"), 0.0), axis=2))
    return np.asarray(times.sum(axis=0))


def summarise(results: Sequence[Mapping[str, Any]]) -> Evaluation:
    """Give the error of both predictions for each program, at all large sizes together."""
    figures, rows = list[Figure](), list[tuple[str | int | float, ...]]()
    for result in (result for result in results if "name" in result):
        measured = np.array(result["measured"])
        where = f"{result['name']}, {result['ranks']} rank{'s' if result['ranks'] > 1 else ''}"
        for kind in ("with", "without"):
            errors = 100 * np.abs(np.array(result[kind]["middle"]) / measured - 1)
            low, high = np.array(result[kind]["ends"])
            held = int(((low <= measured) & (measured <= high)).sum())
            name = f"time of {where} beyond the caches, {kind} misses as an account: error"
            note = f"{held} of {len(errors)} in intervals of 90 %"
            figures.append(Figure(name, float(errors.mean()), "%", samples=len(errors), kind=Kind.MEASURED, note=note))
        for place, n in enumerate(result["sizes"]):
            times = [f"{1e3 * measured[place]:.4g}"]
            for kind in ("with", "without"):
                ends = ", ".join(f"{1e3 * end[place]:.4g}" for end in result[kind]["ends"])
                times.append(f"{1e3 * result[kind]['middle'][place]:.4g} [{ends}]")
            rows.append((where, int(n), *times))
    header = ("program", "n", "measured, ms", "with misses", "without")
    return Evaluation("Times beyond caches", tuple(figures), (Table("Computation of a rank", header, tuple(rows)),))
