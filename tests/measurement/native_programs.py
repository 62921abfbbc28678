"""Building and running small programs with the measurement backend, for the tests of this folder."""

import os
import subprocess
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.runtime import find_toolchain
from buran.measurement.toolchain.toolchain import Toolchain, environment_for
from buran.measurement.toolchain.wrappers import MPICC, MPICXX, MPIFORT, translate
from buran.profiles.metrics import table as known_metrics
from buran.profiles.profile import Profile
from patience import PATIENCE_S

PROGRAMS = Path(__file__).parent / "programs"
OPERATIONS = tuple(
    name for name in ("flops", "loads", "stores", "bytes_loaded", "bytes_stored") if name in known_metrics()
)
"""What is counted beside basic blocks, if the plug-in is there that does."""
HOOK_ALL = "INCLUDE *"
SELECTED = "EXCLUDE *\nINCLUDE main fib* catcher* jumper* MANGLED _Z4nesti _ZL6workerPv"  # of torture.cpp
VIRTUAL_CLASSES = """
#include <vector>
struct A { int x; A(int); virtual ~A(); virtual int f(); };
A::A(int n) : x(n) {}
A::~A() {}
int A::f() { return x; }
struct B : virtual A { B() : A(3) {} int f() override { return 4; } };
static std::vector<A *> all{new A(1), new B};
int main() { int s = 0; for (auto *a : all) s += a->f(); return s != 5; }
"""
LAUNCH = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


@lru_cache
def toolchain(compiler: str = "auto") -> Toolchain:
    return find_toolchain(compiler=compiler)


def all_builds(levels: Sequence[str], rules: Iterable[str], flags: Iterable[str]) -> list[ParameterSet]:
    """Return all combinations for a test; `make test` takes every other level once, with rules and flags in turn."""
    rows, columns = list(rules), list(flags)
    chosen = {(level, rows[n % len(rows)], columns[n // 2 % len(columns)]) for n, level in enumerate(levels[::2])}
    return [
        pytest.param(*combination, marks=() if combination in chosen else pytest.mark.thorough)
        for combination in product(levels, rows, columns)
    ]


def write_filter(folder: Path, rules: str) -> Path:
    path = folder / "filter.txt"
    path.write_text(f"SCOREP_REGION_NAMES_BEGIN\n{rules}\nSCOREP_REGION_NAMES_END\n")
    return path


def build(
    source: Path | str,
    binary: Path,
    *,
    mode: str = "effort",
    flags: tuple[str, ...] = ("-O2",),
    filter_file: Path | None = None,
    counter: str = "register",
    tools: Toolchain | None = None,
) -> Path:
    """Build one source file as the wrapper would."""
    tools = tools or toolchain()
    source = PROGRAMS / source
    chosen = None if filter_file is None else str(filter_file)
    command = translate(
        [*flags, str(source), "-o", str(binary), "-lpthread"],
        wrapper={".cpp": MPICXX, ".f90": MPIFORT, ".F90": MPIFORT}.get(source.suffix, MPICC),
        mode=mode,
        toolchain=tools,
        filter_file=chosen,
    )
    environment = {**os.environ, **environment_for(tools, mode), "BURAN_PLUGIN_COUNTER": counter}
    environment["BURAN_FILTER"] = chosen or ""
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return binary


def launch(
    binary: Path, folder: Path, *arguments: str, ranks: int = 0, tools: Toolchain | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program; 0 ranks means without the MPI's launcher."""
    start = [(tools or toolchain()).mpiexec, "-n", str(ranks)] if ranks else []
    return subprocess.run(
        [*start, str(binary), *arguments],
        env={**os.environ, **LAUNCH, "BURAN_PROFILE_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def profile_of(binary: Path, folder: Path, *arguments: str, ranks: int = 0) -> Profile:
    """Run a program and read its profile."""
    done = launch(binary, folder, *arguments, ranks=ranks)
    assert done.returncode == 0, done.stdout + done.stderr
    return read_dumps(folder, ranks or 1)


def table(profile: Profile, metric: str) -> dict[str, list[float]]:
    """Return the values by call path (without the root's name), one for each location."""
    names = ["->".join(name.split("->")[1:]) for name in profile.tree.names]
    assert len(set(names)) == len(names)
    return {name: np.asarray(row).tolist() for name, row in zip(names, profile.values[metric], strict=True)}


def regions(profile: Profile) -> set[str]:
    """Return the names of the program's regions, without the root."""
    return {region.name for region in profile.tree.regions if region.paradigm != "measurement"}
