"""Misses and cliffs at larger sizes, predicted from small ones, beside what is sampled there.

A cliff is where a kernel's misses of a cache, over its accesses, pass the middle between the least and the most that it
has from the largest small size on. Predictions and what is sampled are asked for it alike, without looking at modes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.campaign.plan import Mode
from buran.plugins.memory.distances import distance_models
from buran.plugins.memory.misses import histogram, misses
from buran.plugins.memory.reuse import BINS, LAST_RATE
from buran.profiles.profile import Profile
from buran_studies.evaluation.evaluation import Figure, Kind, Table
from buran_studies.evaluation.study import Settings, Shard
from buran_studies.machine.codes import CODES
from buran_studies.machine.laboratory import EXAMPLES
from buran_studies.memory.caches import LEAST, SOURCES
from buran_studies.memory.program import Program, given
from buran_studies.priors.runs import Workshop

Array = NDArray[np.float64]

CACHES_KIB = (32, 256, 1024, 4096, 16384)
NEAR = 0.1
"""Relative difference that is good enough."""
_SMALL = 0.01  # of a kernel's accesses, which count as no misses
_BY_CHANCE = 0.02  # by which a sample of 4096 pairs of lines and more is off
_LOW = 0.002  # of them, which a cliff goes up by
_RISE = 3.0  # times the least misses, which a cliff goes up to
_TRUTH = {"BURAN_REUSE_RATE": "4"}  # of what is judged by: the smallest cache has room for 128 lines of the sample
_FLAGS = "make MPICC={mpicc} MPICXX={mpicxx} CFLAGS='-O2 -g' CXXFLAGS='-O2 -g'"
_KERNEL = "{{mpicc}} -O2 -Iinclude -DMPI MPI1/{0}.c common/MPI_bail_out.c common/wtime.c -lm -o kernel"


PROGRAMS: dict[str, Program] = {
    "sweep": Program(
        str(EXAMPLES / "sweep"), _FLAGS, "sweep", "{n} 8", (8, 10, 12, 14, 16), (20, 24, 28, 32, 36, 40, 48, 56, 64)
    ),
    "stencil": Program(
        str(EXAMPLES / "stencil"), _FLAGS, "stencil", "{n} 3",
        (12, 14, 16, 20, 24), (28, 32, 36, 40, 48, 56, 64, 80, 96)
    ),
    "blocked": Program(
        str(SOURCES["blocked"]), _FLAGS, "blocked", "{n}",
        (64, 96, 128, 160, 192), (256, 320, 384, 448, 512, 576, 640, 704, 768),
    ),
    "LULESH": Program(
        "LULESH",
        "for f in *.cc; do {mpicxx} -O2 -DUSE_MPI=1 -c $f -o $f.o || exit 1; done; {mpicxx} *.o -o lulesh2.0",
        "lulesh2.0",
        "-s {n} -i 5",
        (6, 8, 10, 12, 14),
        (16, 18, 20, 24, 28, 32, 36, 40, 48, 56),
    ),
    "HPCG": Program(
        "hpcg",
        "for f in src/*.cpp; do {mpicxx} -O2 -DHPCG_NO_OPENMP -Isrc -c $f -o $f.o || exit 1; done; "
        "{mpicxx} src/*.o -o xhpcg",
        "xhpcg",
        "--nx={n} --ny={n} --nz={n} --rt=0",
        (16, 24, 32),
        (40, 48, 56, 64),
    ),
    "CoMD": Program(
        "CoMD", CODES["CoMD"].build, "bin/CoMD-mpi", "-e -x {n} -y {n} -z {n} -N 5 -n 5 -d {folder}/pots",
        (8, 10, 12, 14), (16, 20, 24, 28, 32, 40),
    ),
    "miniFE": Program(
        "miniFE/ref", CODES["miniFE"].build, "src/miniFE.x", "nx={n} ny={n} nz={n}",
        (8, 10, 12, 14, 16), (20, 24, 28, 32, 40, 48, 64),
    ),
    "CoSP2": Program(
        "CoSP2/src-mpi",
        "for f in *.c; do {mpicc} -O2 -std=gnu99 -DDOUBLE -DDO_MPI -DCONTIG_MATRIX -DPOS1 -c $f || exit 1; done; "
        "{mpicc} *.o -lm -o cosp2",
        "cosp2", "-n {n} -m 64 -g 1",
        (128, 160, 192, 224, 256), (320, 384, 448, 512, 640, 768, 896, 1024),
    ),
    "HPCCG": Program(
        "HPCCG", "{mpicxx} -O2 -DUSING_MPI *.cpp -o hpccg", "hpccg", "{n} {n} {n}",
        (8, 10, 12, 14, 16), (20, 24, 28, 32, 40, 48, 56, 64),
    ),
    "transpose": Program(
        "Kernels", _KERNEL.format("Transpose/transpose"), "kernel", "5 {n}",
        (100, 128, 160, 192, 224), (280, 336, 448, 560, 672, 896),
    ),
    "nstream": Program(
        "Kernels", _KERNEL.format("Nstream/nstream"), "kernel", "5 {n} 0",
        (4000, 6000, 8000, 12000, 16000), (24000, 32000, 48000, 64000, 96000, 160000, 320000),
    ),
    "p2p": Program(
        "Kernels", _KERNEL.format("Synch_p2p/p2p"), "kernel", "5 {n} {n}",
        (100, 128, 160, 192, 224), (280, 336, 448, 560, 672, 896),
    ),
}  # fmt: skip
PROGRAMS["LULESH, one region"] = replace(PROGRAMS["LULESH"], arguments="-s {n} -i 5 -r 1")
"""Bundled examples, and public codes where they are checked out; of LULESH also without sizes by chance."""
_QUICK = ("sweep", "blocked")


def shards(settings: Settings) -> Sequence[Shard]:
    """One shard for each program that is here, or the one that is given; a quick study takes two of them."""
    own = given(settings)
    here = own or {name: program for name, program in PROGRAMS.items() if program.folder.is_dir()}
    chosen = [name for name in here if own or not settings.quick or name in _QUICK]
    return [{"extrapolated": name, **asdict(here[name])} for name in chosen]


def run_shard(shard: Shard) -> dict[str, Any]:
    """Sample a program at all sizes; return predictions at the large ones beside what is sampled there."""
    program = Program(**{key: shard[key] for key in (field.name for field in fields(Program))})
    sizes = np.array([*program.small, *program.large], dtype=np.float64)
    with tempfile.TemporaryDirectory(prefix="buran-cliffs-") as name:
        workshop = Workshop.open(Path(name), "clang")
        binary, _ = workshop.build(program.build, program.folder, program.binary, Mode.MEMORY)
        profiles = []
        for n in sizes.astype(int).tolist():
            variables = {} if n in program.small else _TRUTH
            profile, _ = workshop.run(binary, Mode.MEMORY, 1, program.words(n), variables=variables)
            assert profile is not None
            profiles.append(profile)
    kernels, accesses = by_kernel(profiles)
    rates = np.array([float(profile.attributes[LAST_RATE]) for profile in profiles])
    return {
        "extrapolated": shard["extrapolated"],
        "rows": compared(kernels, accesses, sizes, len(program.small), rates),
    }


def by_kernel(profiles: Sequence[Profile]) -> tuple[list[str], Array]:
    """Return the functions, and their accesses, shape (function, profile, bin), wherever they are called from."""
    names = [[name.split("->")[-1].split("(")[0] for name in profile.tree.names] for profile in profiles]
    kernels = sorted({name for each in names for name in each})
    out = np.zeros((len(kernels), len(profiles), BINS))
    for column, (each, profile) in enumerate(zip(names, profiles, strict=True)):
        np.add.at(out[:, column], np.array([kernels.index(name) for name in each]), histogram(profile).sum(axis=1))
    return kernels, out


def compared(kernels: Sequence[str], accesses: Array, sizes: Array, small: int, rates: Array) -> list[dict[str, Any]]:
    """Return what is predicted from the first sizes beside what was sampled, for kernels with enough accesses.

    Parameters
    ----------
    accesses
        Shape (kernel, size, bin).
    small
        How many sizes are fitted.
    rates
        Shape (size,): of the samples.
    """
    number = accesses.sum(axis=2)
    share = number / number.sum(axis=0)
    rows = np.flatnonzero(share[:, small:].max(axis=1) >= LEAST)
    models = distance_models(
        sizes[:small, None], accesses[rows][:, :small], ("n",), [kernels[row] for row in rows.tolist()], rates[:small]
    )
    shown = sizes[small - 1 :]
    out = []
    for kib in CACHES_KIB:
        sampled = misses(accesses[rows][:, small - 1 :], 1024 * kib)
        predicted = models.misses(shown[:, None], 1024 * kib)
        low, high = models.misses_interval(shown[:, None], 1024 * kib)
        for row, name in enumerate(models.call_paths):
            whole = np.maximum(number[rows[row], small - 1 :], 1.0)
            # Where data decide how often loops run, no law tells it, and shares are compared.
            told = models.misses(shown[:, None], 0.0)[row] if models.irregular[row] else whole
            one, other = sampled[row] / whole, predicted[row] / told
            here: dict[str, Any] = {"kernel": name, "kib": kib}
            for times in (2, 4):
                at = int(np.argmin(np.abs(shown - times * shown[0])))
                enough = share[rows[row], small - 1 + at] >= LEAST and max(one[at], other[at]) > _SMALL
                if enough and abs(shown[at] / shown[0] / times - 1) < NEAR:
                    here |= {f"sampled {times}": float(one[at]), f"predicted {times}": float(other[at])}
                    near = sampled[row, at] * np.array([1 - _BY_CHANCE, 1 + _BY_CHANCE])
                    here[f"held {times}"] = bool(low[row, at] <= near[1] and near[0] <= high[row, at])
            if one.max() > _RISE * one.min() and one.max() - one.min() > _LOW:
                middle = float(one.max() + one.min()) / 2
                here |= {"cliff": passed(shown, one, middle), "predicted cliff": passed(shown, other, middle)}
            out.append(here)
    return [row for row in out if len(row) > 2]


def passed(sizes: Array, values: Array, level: float) -> float | None:
    """Return the size at which values first pass a level, between logarithms; None where they do not."""
    up = np.flatnonzero((values[:-1] < level) & (values[1:] >= level))
    if not len(up):
        return None
    i = int(up[0])
    part = (level - values[i]) / (values[i + 1] - values[i])
    return float(sizes[i] * (sizes[i + 1] / sizes[i]) ** part)


def off(sampled: float, predicted: float) -> float:
    """Return how far predicted misses are off; a hundredth of the accesses counts as nothing."""
    return 0.0 if abs(predicted - sampled) <= _SMALL else predicted / max(sampled, _SMALL) - 1


def summarise(results: Sequence[Mapping[str, Any]]) -> tuple[list[Figure], tuple[Table, Table]]:
    """Give the share of predictions that are near, by program."""
    figures, far, cliffs = [], [], []
    for result in results:
        program, rows = result["extrapolated"], result["rows"]
        for times in (2, 4):
            found = {
                (row["kernel"], row["kib"]): off(row[f"sampled {times}"], row[f"predicted {times}"])
                for row in rows
                if f"sampled {times}" in row
            }
            sizes = [abs(value) for value in found.values()]
            name = f"misses of {program} at {times} n, predicted within 10 % or 1 % of the accesses"
            held = sum(row.get(f"held {times}", False) for row in rows)
            note = f"median {100 * median(sizes):.0f} % off, {held} in intervals of 90 %" if sizes else "none to judge"
            figures.append(_share(name, [value <= NEAR for value in sizes], note))
        far += [(program, *_cells(row)) for row in rows if "sampled 2" in row or "sampled 4" in row]
        steps = [row for row in rows if row.get("cliff") is not None]
        places = [abs((row["predicted cliff"] or np.inf) / row["cliff"] - 1) <= NEAR for row in steps]
        missed = sum(row["predicted cliff"] is None for row in steps)
        figures.append(
            _share(
                f"cliffs of {program}, predicted within 10 % of n",
                places,
                f"{missed} not predicted" if steps else "none to judge",
            )
        )
        cliffs += [(program, row["kernel"], row["kib"], row["cliff"], row["predicted cliff"]) for row in steps]
    titles = ("program", "kernel", "cache, KiB")
    at = ("misses per access at 2 n", "predicted", "at 4 n", "predicted")
    return figures, (
        Table("Misses at larger sizes, one rank", (*titles, *at), tuple(far)),
        Table("Cliffs, one rank", (*titles, "n", "predicted"), tuple(cliffs)),
    )


def _share(name: str, good: Sequence[bool], note: str) -> Figure:
    value = 100 * sum(good) / len(good) if good else None
    return Figure(name, value, "%", samples=max(len(good), 1), goal="100", kind=Kind.MEASURED, note=note)


def _cells(row: Mapping[str, Any]) -> tuple[str | int | float | None, ...]:
    return (
        row["kernel"],
        row["kib"],
        *(row.get(f"{kind} {times}") for times in (2, 4) for kind in ("sampled", "predicted")),
    )
