"""Times on another machine, `buran predict --machine`, beside simulated caches and a processor that really differs.

    python studies/benchmarks/elsewhere.py MACHINE.json [--draws 40] [--seed 100] [--only simulated|real]

Simulated: blocks of sweep and stencil are counted and their distances sampled at small n. Misses of a machine with
32 KiB and 1 MiB are those of valgrind's cachegrind; so are those of machines with half and with four times its level 2,
at large n. Costs of blocks and of misses are drawn for each call path, speeds of six kinds of code for each machine; a
call path is one kind more. 2 % of noise.

Real: MACHINE.json tells of this machine; the other one is the same under `valgrind --tool=none`, a translator that
makes each kind of code slower by a factor of its own. Six kinds of code are timed on both; sweep and stencil are
measured at small n here, predicted at large n there, and measured there.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.campaign.plan import Mode
from buran.modeling.experiments import model_experiment
from buran.modeling.priors.campaign import models_from_priors, noise_resilient
from buran.plugins.memory.account import MemoryAccount
from buran.plugins.memory.caches import models_of
from buran.plugins.memory.campaign import enter, speed_of
from buran.plugins.memory.costs import cache_cost
from buran.plugins.memory.distances import DistanceModels
from buran.plugins.memory.elsewhere import Drawing, carried
from buran.plugins.memory.machine_file import Level, MachineFile
from buran.plugins.memory.speed import CODES, SOURCE
from buran.profiles.experiment.build import Run, experiment_from_profiles
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import metric_of
from buran_studies.machine.laboratory import EXAMPLES
from buran_studies.memory.cachegrind import references_of
from buran_studies.memory.times import inside
from buran_studies.priors.runs import Workshop

Array = NDArray[np.float64]

_MAKE = "make MPICC={mpicc} MPICXX={mpicxx} CFLAGS='-O2 -g' CXXFLAGS='-O2 -g'"
PROGRAMS = {
    "sweep": ("{n} 8", (8, 10, 12, 14, 16, 20), (28, 36)),
    "stencil": ("{n} 4", (16, 20, 24, 28, 32), (40, 48)),
}
KIB = 1024
NOISE, SCATTER = 0.02, 0.25  # of times, and of the logarithms of ratios between kinds of code
REPETITIONS = 5


@dataclass(frozen=True)
class Measured:
    """A program at small n: counts, distances, and whatever times it has."""

    timed: Experiment
    counted: Experiment
    distances: DistanceModels

    def predicted(self, here: MachineFile, there: MachineFile, at: Array) -> tuple[Array, Array, Array]:
        """Return seconds of all computation there with their interval."""
        accounts = [
            MemoryAccount(self.distances, [cache_cost(file, i, "1", 1) for i in range(len(file.caches))], at)
            for file in (here, there)
        ]
        made = models_from_priors(self.timed, self.counted, processes=None, repetition="min", accounts=accounts[:1])
        alone = model_experiment(self.timed, ["time"])["time"]
        times, _ = noise_resilient(made, alone, at[-1].tolist())
        drawing = Drawing(speed_of(here, there), accounts[1], at, len(made))
        computes = inside(self.timed)
        kept = [not computing for computing in computes.tolist()]
        enter(drawing, made, times, *accounts, self.timed.points, at, kept)
        for row in np.flatnonzero(~computes).tolist():
            drawing.keep(row, np.zeros(len(at)), np.zeros(len(at)))
        return drawing.done.program(0.9)


def machine(codes: Mapping[str, float], caches: Sequence[int], slower: float) -> MachineFile:
    """Return a made-up machine of one core."""
    seconds = [(1e-9, 1e-9, 4e11), (5e-9, 2e-9, 1e11), (100e-9, 12e-9, 2e10)]
    levels = [
        Level(size, 1, *(latency * slower,) * 2, *(gather * slower,) * 2, *(bandwidth / slower,) * 2)
        for size, (latency, gather, bandwidth) in zip([*caches, None], seconds, strict=True)
    ]
    return MachineFile("h", "c", "k", "cc", "2026-01-01", 1, tuple(levels), 1e10, 1e10, codes, 0.0)


def simulated(name: str, draws: int, seed: int) -> None:
    """Print how far predictions are from times that are made from simulated misses."""
    arguments, small, large = PROGRAMS[name]
    home, others = (32 * KIB, 1024 * KIB), {"half of level 2": 512 * KIB, "four times level 2": 4096 * KIB}
    with tempfile.TemporaryDirectory(prefix="buran-elsewhere-") as folder:
        workshop = Workshop.open(Path(folder), "clang")
        modes = (Mode.EFFORT, Mode.MEMORY, Mode.VANILLA)
        binaries = {mode: workshop.build(_MAKE, EXAMPLES / name, name, mode)[0] for mode in modes}
        counts = {n: _run(workshop, binaries[Mode.EFFORT], Mode.EFFORT, arguments, n) for n in (*small, *large)}
        sampled = [_run(workshop, binaries[Mode.MEMORY], Mode.MEMORY, arguments, n) for n in small]

        def lost(n: int, caches: Sequence[int]) -> Mapping[str, tuple[int, int]]:
            options = (f"--D1={caches[0]},8,64", f"--LL={caches[1]},16,64")
            found = references_of([str(binaries[Mode.VANILLA]), *arguments.format(n=n).split()], workshop, options)
            return {function: references.misses for function, references in found.items()}

        misses = {(n, home): lost(n, home) for n in small}
        misses |= {(n, (home[0], size)): lost(n, (home[0], size)) for n in large for size in others.values()}
    counted = experiment_from_profiles([counts[n] for n in small])
    distances = models_of(sampled, counted.tree)
    assert distances is not None
    blocks = {n: run[2].exclusive("basic_blocks").mean(axis=1) for n, run in counts.items()}
    paths = [path.rpartition("->")[2].split("(")[0] for path in counted.tree.names]
    at = np.array(large, dtype=np.float64)[:, None]

    def lines(n: int, caches: tuple[int, int]) -> Array:
        return np.array([misses[n, caches].get(path, (0, 0)) if paths.count(path) == 1 else (0, 0) for path in paths])

    for kind, size in others.items():
        errors, held = [], []
        for draw in range(draws):
            rng = np.random.default_rng(seed + draw)
            middle = rng.uniform(np.log(0.5), np.log(2.0))
            codes = dict.fromkeys(CODES, 1e-9)
            ratio = {code: 1e-9 * float(np.exp(middle + SCATTER * rng.normal())) for code in CODES}
            here, there = machine(codes, home, 1.0), machine(ratio, (home[0], size), float(rng.uniform(0.7, 2.0)))
            block = 1e-9 * np.exp(0.5 * rng.normal(size=len(paths)))
            factor = np.exp(middle + SCATTER * rng.normal(size=len(paths)))
            costs = [_costs(file, distances) for file in (here, there)]
            place = rng.uniform(size=costs[0].shape[:2])
            near = np.exp([[np.interp(p, [0, 0.5, 1], np.log(c)) for p, c in zip(*row, strict=True)]
                           for row in zip(place, costs[0], strict=True)])  # fmt: skip
            far = np.array([[carried(float(v), tuple(h), tuple(t)) for v, h, t in zip(*row, strict=True)]
                            for row in zip(near, *costs, strict=True)])  # fmt: skip
            runs = []
            for n in small:
                seconds = block * blocks[n] + (near * lines(n, home)).sum(axis=1)
                runs += [
                    _timed(counts[n], r, seconds * np.exp(NOISE * rng.normal(size=len(seconds)))) for r in range(3)
                ]
            program = Measured(experiment_from_profiles(runs), counted, distances)
            found, low, high = program.predicted(here, there, at)
            computes = inside(program.timed)
            truth = np.array(
                [
                    (factor * block * blocks[n] + (far * lines(n, (home[0], size))).sum(axis=1))[computes].sum()
                    for n in large
                ]
            )
            errors.append(np.abs(found / truth - 1))
            held.append((low <= truth) & (truth <= high))
        print(
            f"{name}, {kind}: error median {100 * np.median(errors):.0f} %, nine tenths below "
            f"{100 * np.quantile(errors, 0.9):.0f} %; intervals of 90 % hold {100 * np.mean(held):.0f} %",
            flush=True,
        )


def _costs(file: MachineFile, distances: DistanceModels) -> Array:
    """Return least, middle and most of what a miss costs, shape (call path, level, 3)."""
    caches = [cache_cost(file, level, "1", 1) for level in range(len(file.caches))]
    seconds = [[cache.of(streams).seconds for cache in caches] for streams in distances.streams.tolist()]
    return np.maximum(np.array(seconds), 1e-12)


def _run(workshop: Workshop, binary: Path, mode: Mode, arguments: str, n: int, repetition: int = 0) -> Run:
    profile, _ = workshop.run(binary, mode, 1, arguments.format(n=n).split())
    assert profile is not None
    return {"n": n}, repetition, profile


def _timed(run: Run, repetition: int, seconds: Array) -> Run:
    """Return a run that took so many seconds in each call path itself; profiles have those of what it calls, too."""
    point, _, profile = run
    whole = seconds.copy()
    for row in range(len(whole) - 1, 0, -1):
        if profile.tree.parent[row] >= 0:
            whole[profile.tree.parent[row]] += whole[row]
    values = {"time": np.repeat(whole[:, None], len(profile.locations), axis=1)}
    return point, repetition, replace(profile, metrics={"time": metric_of("time")}, values=values)


def real(name: str, here: MachineFile) -> None:
    """Print what is predicted for valgrind's machine, and what is measured there."""
    arguments, small, large = PROGRAMS[name]
    with tempfile.TemporaryDirectory(prefix="buran-elsewhere-") as folder:
        kernel = Path(folder, "speed")
        subprocess.run(["cc", "-O2", "-std=gnu11", "-pthread", SOURCE, "-o", kernel], check=True)
        codes, slower = (
            {code: _seconds([*before, str(kernel), code]) for code in CODES}
            for before in ([], ["valgrind", "-q", "--tool=none"])
        )
        workshop = Workshop.open(Path(folder), "clang")
        modes = (Mode.TIME, Mode.EFFORT, Mode.MEMORY)
        binaries = {mode: workshop.build(_MAKE, EXAMPLES / name, name, mode)[0] for mode in modes}
        runs = {
            mode: [_run(workshop, binaries[mode], mode, arguments, n, r) for n in small for r in range(count)]
            for mode, count in zip(modes, (REPETITIONS, 1, 1), strict=True)
        }
        wrapped = binaries[Mode.TIME].with_name("under-valgrind")
        wrapped.write_text(f'#!/bin/sh\nexec valgrind -q --tool=none {binaries[Mode.TIME]} "$@"\n')
        wrapped.chmod(0o755)
        truth = [_run(workshop, wrapped, Mode.TIME, arguments, n, r) for n in large for r in range(REPETITIONS)]
    timed, measured = experiment_from_profiles(runs[Mode.TIME]), experiment_from_profiles(truth)
    distances = models_of(runs[Mode.MEMORY], timed.tree)
    assert distances is not None
    program = Measured(timed, experiment_from_profiles(runs[Mode.EFFORT]), distances)
    at = np.array(large, dtype=np.float64)[:, None]
    here = replace(here, codes=codes)
    there = replace(here, codes=slower, host="valgrind")
    found, low, high = program.predicted(here, there, at)
    seconds = np.nanmin(measured.over_locations("time"), axis=2)[inside(measured)].sum(axis=0)
    ratios = ", ".join(f"{code} {slower[code] / codes[code]:.2g}" for code in CODES)
    print(f"{name} under valgrind, kinds of code: {ratios}")
    for n, *numbers in zip(large, found, low, high, seconds, strict=True):
        ms = [1e3 * number for number in numbers]
        print(f"  n = {n}: {ms[0]:.3g} ms [{ms[1]:.3g}, {ms[2]:.3g}], measured {ms[3]:.3g} ms", flush=True)


def _seconds(words: Sequence[str]) -> float:
    done = subprocess.run([*words, str(24 * KIB), "8", "15", "0"], check=True, capture_output=True, text=True)
    return min(map(float, done.stdout.split()))


def main() -> None:
    """Print all comparisons."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine", type=Path)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--seed", type=int, default=100)
    parser.add_argument("--only", choices=("simulated", "real"))
    arguments = parser.parse_args()
    here = MachineFile.read(arguments.machine)
    for name in PROGRAMS:
        if arguments.only != "real":
            simulated(name, arguments.draws, arguments.seed)
        if arguments.only != "simulated":
            real(name, here)


if __name__ == "__main__":
    main()
