"""LULESH and HPCG through the compiler wrappers: exact counts, readable profiles, overhead.

    python studies/benchmarks/real_codes.py counts   [--lulesh FOLDER] [--hpcg FOLDER] [--ranks 1 8] [--threads 1 2]
    python studies/benchmarks/real_codes.py overhead [--lulesh FOLDER] [--hpcg FOLDER] [--pairs 5] [--json FILE]

The folders are unmodified checkouts (github.com/LLNL/LULESH, github.com/hpcg-benchmark/hpcg); nothing is written there.

`counts` builds each code with its own build system, runs it in two sizes and compares the basic blocks of kernels with
what their source says. Every formula counts blocks as the compiler leaves them when it has inlined and unrolled: a loop
of n passes with nothing branching in it has n blocks, one around it adds two for each of its passes (what stands before
the inner loop, and what stands behind it) and a third where the inner loop may have no pass at all. All runs are
repeated and must give the same numbers; each profile is written as cubex and read back with pycubexr.

`overhead` compares CPU times of instrumented builds with plain ones, in interleaved rounds as in overhead.py:
hooks of a filter, the same with counted blocks, and counted blocks with the hooks that are set without a filter.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from buran.campaign.launcher import Placement, launch, usable_cores
from buran.errors import BuildError, BuranError, RunError
from buran.measurement.merge_dumps import read_dumps
from buran.profiles.cubex_read import read_cubex
from buran.profiles.cubex_write import write_cubex
from buran.profiles.profile import Profile
from overhead import MINIMUM_PAIRS, Overhead, Workshop, cpu_time_s, show

EXACT = ("visits", "basic_blocks", "bytes_sent", "bytes_received")


@dataclass(frozen=True)
class Part:
    """What a rank has of the whole problem.

    Attributes
    ----------
    n
        Length of its cube: elements (LULESH), rows (HPCG).
    place, shape
        Coordinates of the rank among the ranks, and how many there are in each direction.
    """

    n: int
    place: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def at_origin(self) -> int:
        """In how many directions the rank is the first one."""
        return sum(at == 0 for at in self.place)

    @property
    def nonzeros(self) -> int:
        """Entries of HPCG's matrix in the rank's rows: up to 3 neighbours in each direction."""
        return int(
            np.prod(
                [3 * self.n - (at == 0) - (at == last - 1) for at, last in zip(self.place, self.shape, strict=True)]
            )
        )


@dataclass(frozen=True)
class Kernel:
    """A call path and how many blocks of its own one visit has.

    Attributes
    ----------
    path
        Names of its functions without parameters, from below the root.
    blocks
        Of one visit.
    because
        The formula, and where its terms come from.
    """

    path: str
    blocks: Callable[[Part], int]
    because: str


@dataclass(frozen=True)
class Code:
    """A code and what is known about it.

    Attributes
    ----------
    build
        Commands for a checkout, the wrapper, the build folder, which begins empty, and whether OpenMP is wanted.
    arguments
        Of the program, for a size.
    rules
        Filter that selects the kernels.
    """

    name: str
    build: Callable[[Path, Path, Path, bool], list[list[str]]]
    binary: str
    arguments: Callable[[int], list[str]]
    sizes: tuple[int, int]
    timed_size: int
    rules: str
    kernels: tuple[Kernel, ...]


def build_lulesh(checkout: Path, wrapper: Path, folder: Path, openmp: bool) -> list[list[str]]:
    """Use the Makefile, in a copy: it knows no other place."""
    flags = "-O3 -fopenmp" if openmp else "-O3"
    make = ["make", "-C", str(folder), f"CXX={wrapper} -DUSE_MPI=1", f"CXXFLAGS={flags} -I.", f"LDFLAGS={flags}"]
    return [["cp", "-r", f"{checkout}/.", str(folder)], make]


def build_hpcg(checkout: Path, wrapper: Path, folder: Path, openmp: bool) -> list[list[str]]:
    """Use CMake."""
    switch = f"-DHPCG_ENABLE_OPENMP={'ON' if openmp else 'OFF'}"
    options = [f"-DCMAKE_CXX_COMPILER={wrapper}", "-DCMAKE_BUILD_TYPE=Release", "-DHPCG_ENABLE_MPI=ON", switch]
    return [["cmake", "-S", str(checkout), "-B", str(folder), *options], ["cmake", "--build", str(folder)]]


LULESH = Code(
    name="LULESH",
    build=build_lulesh,
    binary="lulesh2.0",
    arguments=lambda n: ["-s", str(n), "-i", "10"],
    sizes=(10, 20),
    timed_size=30,
    rules="INCLUDE main Calc*ForElems Calc*ForNodes CalcLagrangeElements Lagrange* Apply* Eval* Comm* Domain::Build* "
    "Domain::Setup* TimeIncrement Domain::Domain",
    kernels=(
        Kernel(
            "main->LagrangeLeapFrog->LagrangeElements->CalcLagrangeElements->CalcKinematicsForElems",
            lambda p: 3 * p.n**3 + 3,
            "3 n^3 + 3: two inner loops of 8 passes, unrolled, cut the body in 3; entry, way into the loop, end",
        ),
        Kernel(
            "main->Domain::Domain->Domain::BuildMesh",
            lambda p: sum(k**3 + 2 * k**2 + 2 * k for k in (p.n, p.n + 1)) + 5,
            "k^3 + 2 k^2 + 2 k for the loops over nodes (k = n + 1) and elements (k = n); 5 around them",
        ),
        Kernel(
            "main->Domain::Domain->Domain::SetupElementConnectivities",
            lambda p: 3 * p.n**3 + 10,
            "3 n^3 - 1 + 11: five loops, which pass n^3 - 1, n, n^3 - n, n^2 and n^3 - n^2 times; 11 around them",
        ),
        Kernel(
            "main->Domain::Domain->Domain::SetupSymmetryPlanes",
            lambda p: (4 + p.at_origin) * (p.n + 1) ** 2 + 2 * (p.n + 1) + 1,
            "(4 + o)(n + 1)^2 + 2 (n + 1) + 1: three ifs, o of them true: in how many directions the rank is first",
        ),
    ),
)
HPCG = Code(
    name="HPCG",
    build=build_hpcg,
    binary="xhpcg",
    arguments=lambda n: [f"--nx={n}", f"--ny={n}", f"--nz={n}", "--rt=0"],
    sizes=(16, 24),
    timed_size=32,
    rules="INCLUDE main CG CG_ref Compute* ExchangeHalo Generate* SetupHalo* TestCG TestSymmetry CheckProblem",
    kernels=(
        Kernel(
            "main->ComputeSPMV_ref",
            lambda p: p.nonzeros + 3 * p.n**3 + 3,
            "z + 3 n^3 + 3: z nonzeros, 3 for each row; entry, way into the loop, end",
        ),
        Kernel(
            "main->ComputeMG_ref->ComputeSYMGS_ref",
            lambda p: 2 * (p.nonzeros + 3 * p.n**3) + 5,
            "2 (z + 3 n^3) + 5: forwards and backwards; entry, two ways into and between the loops, end",
        ),
        Kernel(
            "main->CG_ref->ComputeWAXPBY_ref",
            lambda p: p.n**3 + 4,
            "n^3 + 4: one of three loops; entry and the choice among them, way into the loop, end",
        ),
        Kernel(
            "main->ComputeMG_ref->ComputeRestriction_ref",
            lambda p: (p.n // 2) ** 3 + 3,
            "n^3 / 8 + 3: every second row in each direction; entry, way into the loop, end",
        ),
        Kernel(
            "main->ComputeMG_ref->ComputeProlongation_ref",
            lambda p: (p.n // 2) ** 3 + 3,
            "n^3 / 8 + 3, as above",
        ),
    ),
)


def checked_out(options: argparse.Namespace) -> list[tuple[Code, Path]]:
    """Pair the codes with the folders that were given."""
    pairs = [(LULESH, options.lulesh), (HPCG, options.hpcg)]
    return [(code, folder.resolve()) for code, folder in pairs if folder is not None]


def built(workshop: Workshop, code: Code, checkout: Path, mode: str, rules: str | None, openmp: bool = False) -> Path:
    """Build one variant and return the program."""
    folder = Path(tempfile.mkdtemp(prefix=f"{code.name}-{mode}-", dir=workshop.folder))
    variables = {"BURAN_MODE": mode, "BURAN_TOOLCHAIN": str(workshop.folder / "toolchain.json")}
    if rules is not None:
        path = folder.with_suffix(".filter")
        path.write_text(f"SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\n{rules}\nSCOREP_REGION_NAMES_END\n")
        variables["BURAN_FILTER"] = str(path)
    for command in code.build(checkout, workshop.folder / "mpicxx", folder, openmp):
        done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"{code.name} does not build ({mode})", where=checkout, why=done.stdout + done.stderr)
    return folder / code.binary


def run(
    workshop: Workshop, binary: Path, arguments: Sequence[str], ranks: int, threads: int, profiled: bool
) -> tuple[float, Profile | None]:
    """Run a build once; return its CPU time in seconds and the profile."""
    start = launch(
        workshop.toolchain.mpi,
        [str(binary), *arguments],
        Placement(ranks),
        program=workshop.toolchain.mpiexec,
        oversubscribe=ranks * threads > usable_cores(),
        as_root=os.geteuid() == 0,
    )
    with tempfile.TemporaryDirectory(dir=workshop.folder) as name:
        folder = Path(name)
        environment = {**os.environ, **start.variables, "BURAN_PROFILE_DIR": name, "OMP_NUM_THREADS": str(threads)}
        spent_s = cpu_time_s(start.argv, environment, folder)
        return spent_s, read_dumps(folder, ranks) if profiled else None


def short_paths(profile: Profile) -> list[str]:
    """Return the call paths without parameters and root."""
    return ["->".join(part.split("(")[0] for part in name.split("->")[1:]) for name in profile.tree.names]


def parts(n: int, ranks: int) -> list[Part]:
    """Return what each rank has, for cubic numbers of ranks; the first direction counts fastest."""
    edge = round(ranks ** (1 / 3))
    if edge**3 != ranks:
        raise RunError(f"{ranks} ranks are no cube", why="the formulas hold for cubes of ranks: 1, 8, 27")
    shape = (edge, edge, edge)
    return [Part(n, (r % edge, r // edge % edge, r // edge**2), shape) for r in range(ranks)]


def differences(first: Profile, second: Profile) -> list[str]:
    """Return the call paths whose counts are not the same in two runs, whatever the order of their creation."""

    def rows(profile: Profile) -> dict[str, list[list[int]]]:
        names = profile.tree.names
        return {name: [profile.values[metric][i].tolist() for metric in EXACT] for i, name in enumerate(names)}

    one, other = rows(first), rows(second)
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def check_counts(workshop: Workshop, code: Code, checkout: Path, options: argparse.Namespace) -> int:
    """Run all sizes with all numbers of ranks and threads, print what was found; return the number of mistakes."""
    mistakes = 0
    for threads in options.threads:
        binary = built(workshop, code, checkout, "effort", code.rules, openmp=threads > 1)
        for ranks in options.ranks:
            for n in options.sizes or code.sizes:
                arguments = code.arguments(n)
                profiles = [run(workshop, binary, arguments, ranks, threads, True)[1] for _ in range(options.repeat)]
                name = f"{code.name}{threads}.n{n}p{ranks}.r1"
                repeats, readable = check_profiles([p for p in profiles if p is not None], name, workshop, options)
                mistakes += not readable
                if threads == 1:  # with more, what a program does may depend on who comes first
                    mistakes += not repeats
                    mistakes += check_kernels(code, profiles[0], parts(n, ranks))
    return mistakes


def check_profiles(
    profiles: list[Profile], name: str, workshop: Workshop, options: argparse.Namespace
) -> tuple[bool, bool]:
    """Check that repeated runs have the same counts, and that pycubexr reads what we write."""
    profile = profiles[0]
    path = (options.keep or workshop.folder) / name / "profile.cubex"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_cubex(profile, path)
    unsteady = sorted({path for other in profiles[1:] for path in differences(profile, other)})
    lost = differences(profile, read_cubex(path))
    print(
        f"{name}: {len(profile.tree.names)} call paths, {len(profile.locations)} locations; {len(profiles)} runs "
        f"{f'DIFFER in {len(unsteady)} call paths' if unsteady else 'equal'}, cubex {'DIFFERS' if lost else 'equal'}"
    )
    for call_path in unsteady[:8]:
        print("  differs: " + "->".join(part.split("(")[0] for part in call_path.split("->")))
    return not unsteady, not lost


def check_kernels(code: Code, profile: Profile | None, ranks: list[Part]) -> int:
    """Compare the blocks of all kernels, on each rank, with their formulas."""
    assert profile is not None
    mistakes = 0
    names = short_paths(profile)
    for kernel in code.kernels:
        shown = f"  {kernel.path.rsplit('->')[-1]:<36}"
        if kernel.path not in names:
            print(shown + "MISSING")
            mistakes += 1
            continue
        at = names.index(kernel.path)
        visits, blocks = (profile.values[metric][at].astype(np.int64) for metric in ("visits", "basic_blocks"))
        expected = visits * np.array([kernel.blocks(part) for part in ranks])
        right = bool((blocks == expected).all())
        mistakes += not right
        wrong = "" if right else f"EXPECTED {expected.tolist()} "
        print(f"{shown}{blocks[0]} of {visits[0]} visits: {wrong}{kernel.because}")
    return mistakes


def measure(workshop: Workshop, code: Code, checkout: Path, options: argparse.Namespace) -> list[Overhead]:
    """Measure the builds of one code in interleaved rounds, every other one backwards."""
    variants = {
        "vanilla": ("vanilla", None),
        "hooks": ("time", code.rules),
        "hooks+blocks": ("effort", code.rules),
        "everything": ("effort", None),
    }
    binaries = {name: built(workshop, code, checkout, *variant) for name, variant in variants.items()}
    times: dict[str, list[float]] = {name: [] for name in variants}
    arguments = code.arguments(options.size or code.timed_size)
    if code is LULESH:
        arguments = [*arguments[:-1], str(options.steps)]
    for number in range(options.pairs + 1):
        for name in list(variants) if number % 2 == 0 else reversed(list(variants)):
            spent_s, _ = run(workshop, binaries[name], arguments, 1, 1, name != "vanilla")
            if number > 0:  # the first round warms up
                times[name].append(spent_s)
    return [
        Overhead(code.name, name, "vanilla", tuple(times[name]), tuple(times["vanilla"]))
        for name in variants
        if name != "vanilla"
    ]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("counts", "overhead"):
        command = commands.add_parser(name)
        command.add_argument("--lulesh", type=Path, help="checkout of LULESH")
        command.add_argument("--hpcg", type=Path, help="checkout of HPCG")
        command.add_argument("--compiler", default="auto", help="compiler family (default auto)")
    counts = commands.choices["counts"]
    counts.add_argument("--ranks", type=int, nargs="+", default=[1, 8], help="cubes (default 1 8)")
    counts.add_argument("--threads", type=int, nargs="+", default=[1], help="of OpenMP; kernels are checked with one")
    counts.add_argument(
        "--sizes", type=int, nargs="+", help="lengths of the cube, instead of two (HPCG: multiples of 8, at least 16)"
    )
    counts.add_argument("--keep", type=Path, help="folder for the cubex files, named as Extra-P wants them")
    counts.add_argument("--repeat", type=int, default=2, help="runs of each point (default 2)")
    overhead = commands.choices["overhead"]
    overhead.add_argument("--pairs", type=int, default=MINIMUM_PAIRS, help=f"rounds (default {MINIMUM_PAIRS})")
    overhead.add_argument("--size", type=int, help="length of the cube")
    overhead.add_argument("--steps", type=int, default=40, help="time steps of LULESH (default 40)")
    overhead.add_argument("--json", type=Path, help="also write the times of all runs to this file")
    options = parser.parse_args(arguments)
    if not checked_out(options):
        parser.error("give at least one checkout: --lulesh or --hpcg")
    if options.command == "overhead" and options.pairs < MINIMUM_PAIRS:
        parser.error(f"--pairs: {options.pairs} is too few for a median, at least {MINIMUM_PAIRS}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what was asked; return the exit code."""
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="buran-real-codes-") as folder:
        try:
            workshop = Workshop.open(options.compiler, Path(folder))
            pairs = checked_out(options)
            if options.command == "counts":
                return 1 if sum(check_counts(workshop, *pair, options) for pair in pairs) else 0
            results = [result for pair in pairs for result in measure(workshop, *pair, options)]
        except BuranError as error:
            print(error, file=sys.stderr)
            return int(error.exit_code)
    show(results, workshop, options.json, {})
    return 0


if __name__ == "__main__":
    sys.exit(main())
