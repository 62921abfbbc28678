"""Models of a tree of real Score-P's runs, beside those of the embedded measurement system's runs of the same program.

    python studies/benchmarks/scorep_models.py [--source tests/data/scorep/src] [--folder FOLDER]

The program is built with hooks in all of its own functions, by Score-P and by the embedded system (gcc), and run with 1
and 2 ranks, five sizes and twice: two trees of 20 runs each. Prints how many call paths have the same visits in all
runs and the same model of visits, and how the times of functions compare, as a multiple of how repetitions scatter.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.campaign.launcher import Placement, launch, usable_cores
from buran.instrumentation.filter_file import format_filter, only
from buran.instrumentation.start import EVERYTHING
from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.elf import Elf
from buran.measurement.toolchain.runtime import find_toolchain
from buran.measurement.toolchain.toolchain import Toolchain
from buran.modeling.experiments import model_experiment
from buran.plugins.scorep.hooks import hooked_functions
from buran.plugins.scorep.installation import find_scorep
from buran.profiles.cubex_write import write_cubex
from buran.profiles.experiment.read import read_experiment
from buran.profiles.experiment.table import Experiment

SOURCE = Path(__file__).parents[2] / "tests" / "data" / "scorep" / "src"
RANKS, SIZES, REPETITIONS = (1, 2), (2000, 4000, 8000, 16000, 32000), 2


def build(source: Path, folder: Path, name: str, rules: str, toolchain: Toolchain) -> Path:
    """Build the program with hooks by rules of Score-P, or of the embedded system; return it."""
    own = folder / name
    own.mkdir()
    (own / "filter").write_text(rules)
    if name.startswith("scorep"):
        tools = find_scorep().wrappers
        variables = {"SCOREP_WRAPPER_INSTRUMENTER_FLAGS": f"--instrument-filter={own / 'filter'}"}
    else:
        tools = {tool: str(Path(sys.executable).parent / f"buran-{tool}") for tool in ("mpicxx", "mpifort")}
        described = folder / "toolchain.json"
        described.write_text(toolchain.to_json())
        variables = {"BURAN_MODE": "time", "BURAN_TOOLCHAIN": str(described), "BURAN_FILTER": str(own / "filter")}
    words = ["make", "names", f"MPICXX={tools['mpicxx']}", f"MPIFC={tools['mpifort']}"]
    for file in source.iterdir():
        (own / file.name).write_bytes(file.read_bytes())
    subprocess.run(words, cwd=own, env={**os.environ, **variables}, check=True, stdout=subprocess.DEVNULL)
    return own / "names"


def run(program: Path, folder: Path, ranks: int, size: int, scorep: bool, toolchain: Toolchain) -> None:
    """Run the program; leave a profile in the folder."""
    folder.mkdir(parents=True)
    start = launch(
        toolchain.mpi, [str(program), str(size)], Placement(ranks), program=toolchain.mpiexec,
        oversubscribe=ranks > usable_cores(), as_root=os.geteuid() == 0,
    )  # fmt: skip
    raw = folder / "raw"
    variables = {"SCOREP_EXPERIMENT_DIRECTORY": str(raw)} if scorep else {"BURAN_PROFILE_DIR": str(raw)}
    if not scorep:
        raw.mkdir()
    environment = {**os.environ, **start.variables, **variables}
    subprocess.run(start.argv, env=environment, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    if scorep:
        (raw / "profile.cubex").rename(folder / "profile.cubex")
    else:
        write_cubex(read_dumps(raw, ranks), folder / "profile.cubex")


def paths(experiment: Experiment) -> dict[tuple[str, ...], int]:
    """Return the place of each call path, by what tells its regions under any compiler, from main on."""
    tree = experiment.tree
    found: list[tuple[str, ...]] = []
    for region, parent in zip(tree.region.tolist(), tree.parent.tolist(), strict=True):
        known = tree.regions[region]
        symbol = tree.identities[region] or known.mangled or known.name
        found.append((*(found[parent] if parent >= 0 else ()), "" if known.paradigm == "measurement" else symbol))
    return {
        tuple(filter(None, path)): i
        for i, path in enumerate(found)
        if tree.regions[tree.region[i]].paradigm == "compiler" and any(path)
    }


def by_function(experiment: Experiment, names: Mapping[tuple[str, ...], int]) -> dict[str, NDArray[np.float64]]:
    """Return shape (point, repetition) for each function: its time, all call paths together."""
    seconds, out = experiment.over_locations("time"), dict[str, NDArray[np.float64]]()
    for path, i in names.items():
        out[path[-1]] = out.get(path[-1], 0.0) + seconds[i]
    return out


def compare(first: Experiment, other: Experiment) -> None:
    """Print what is the same in both."""
    ours, theirs = paths(first), paths(other)
    common = sorted(ours.keys() & theirs.keys())
    print(f"call paths of functions: {len(common)} in both, {len(ours)} and {len(theirs)} in all")
    for path in sorted(ours.keys() ^ theirs.keys()):
        print(f"  only in {'Score-P' if path in ours else 'ours'}: {'->'.join(path)}")
    visits = [table.over_locations("visits", "sum") for table in (first, other)]
    same = [np.array_equal(visits[0][ours[path]], visits[1][theirs[path]]) for path in common]
    models = [model_experiment(table, ["visits"])["visits"].models for table in (first, other)]
    alike = [models[0][ours[path]].function == models[1][theirs[path]].function for path in common]
    print(f"visits: the same in all {visits[0][0].size} runs for {sum(same)} call paths")
    print(f"models of visits: the same for {sum(alike)} call paths")
    times = [by_function(table, names) for table, names in ((first, ours), (other, theirs))]
    largest = max(values[-1].mean() for values in times[0].values())
    apart = []
    for name in times[0].keys() & times[1].keys():
        one, two = times[0][name], times[1][name]
        if one[-1].mean() < 0.01 * largest:
            continue
        scatter = np.sqrt(one.var(axis=1, ddof=1) / one.shape[1] + two.var(axis=1, ddof=1) / two.shape[1])
        apart += list((one.mean(axis=1) - two.mean(axis=1)) / np.maximum(scatter, 1e-9))
    apart_ = np.abs(np.array(apart))
    print(f"times of functions above 1 % of the largest: {len(apart)} pairs (function, point)")
    shown = f"median {np.median(apart_):.2f}, {100 * np.mean(apart_ < 2):.0f} % below 2"
    shown += "; 0.82 and 82 % where times are the same (Student's t, 2 degrees of freedom)"
    print(f"  difference over its standard error: {shown}")


def main() -> None:
    """Build, run and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=SOURCE)
    parser.add_argument("--folder", type=Path, help="keep the trees there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="buran-scorep-") as name:
        folder = (options.folder or Path(name)).resolve()
        folder.mkdir(exist_ok=True)
        toolchain = find_toolchain(compiler="gcc")
        functions = hooked_functions(Elf.read(build(options.source, folder, "scorep-all", EVERYTHING, toolchain)))
        assert functions is not None
        own = {function.symbol for function in functions if function.file.endswith(("names.cpp", "solver.f90"))}
        rules = format_filter(only(sorted(own)))
        for system in ("scorep", "embedded"):
            program = build(options.source, folder, system, rules, toolchain)
            for repetition in range(1, REPETITIONS + 1):
                for ranks in RANKS:
                    for size in SIZES:
                        to = folder / f"tree-{system}" / f"names.p{ranks}n{size}.r{repetition}"
                        run(program, to, ranks, size, system == "scorep", toolchain)
        compare(*(read_experiment(folder / f"tree-{system}") for system in ("scorep", "embedded")))


if __name__ == "__main__":
    main()
