"""A parallel region of OpenMP that really runs: basic blocks and times with the number of threads as a parameter."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from buran.campaign.plan import Mode
from buran.errors import ToolError
from buran.files import write_text
from buran.modeling.experiments import model_experiment
from buran.modeling.functions.terms import Array, ModelFunction, multiplied, power
from buran.modeling.pmnf.text import format_function
from buran.modeling.priors.campaign import models_from_priors
from buran.modeling.priors.paths import work_of_a_thread
from buran.profiles.experiment.build import experiment_from_profiles
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import Profile
from buran_studies.priors.judged import at_points
from buran_studies.priors.runs import Workshop
from buran_studies.quality import exponent_deviation

BUILD = "{mpicxx} -std=c++17 -O2 -fopenmp -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -o threads threads.cpp"
PARAMETERS = ("t", "n")
THREADS, SIZES, TEST = (1, 2, 3, 4, 6), (12, 24, 36, 48, 60), (8, 72)
KERNEL = "relax"
EXPECTED = multiplied(power(0, -1), power(1, 1))  # n / t: each thread has its share of the rows
SOURCE = """\
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

// Rows of a table, dealt out to threads in equal shares.
__attribute__((noinline)) void relax(std::vector<double> &to, const std::vector<double> &from, long rows) {
#pragma omp parallel for schedule(static)
    for (long row = 0; row < rows; ++row) {
        double sum = 0;
        for (std::size_t k = 0; k < from.size(); ++k) {
            sum += from[k] / static_cast<double>(row + 1);
        }
        to[row] = sum;
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const long rows = argc > 1 ? 10 * std::atol(argv[1]) : 0;
    std::vector<double> to(rows), from(4096, 1.0);
    for (int round = 0; round < 5; ++round) {
        relax(to, from, rows);
    }
    std::printf("%g\\n", rows ? to[rows - 1] : 0.0);
    MPI_Finalize();
}
"""


@contextmanager
def workshop(compiler: str) -> Iterator[tuple[Workshop, Path]]:
    """Write the program into a folder that vanishes afterwards."""
    with tempfile.TemporaryDirectory(prefix="buran-priors-") as name:
        made = Workshop.open(Path(name), compiler)
        source = made.folder / "source" / "threads"
        write_text(source / "threads.cpp", SOURCE)
        yield made, source


def runs(made: Workshop, source: Path, mode: Mode) -> Iterator[tuple[Mapping[str, float], int, Profile]]:
    """Build a variant and run it with one rank at all points; timed ones at the test point, too."""
    binary, _ = made.build(BUILD, source, "threads", mode)
    for threads, n in [*product(THREADS, SIZES), *([TEST] if mode is Mode.TIME else [])]:
        profile, _ = made.run(binary, mode, 1, [str(n)], threads)
        assert profile is not None
        yield {"t": float(threads), "n": float(n)}, 0, profile


def row_of(table: Experiment) -> int:
    """Find the call path of the function with the parallel region."""
    return next(row for row, path in enumerate(table.tree.names) if path.split("->")[-1].startswith(f"{KERNEL}("))


def evaluate(compiler: str) -> dict[str, Any]:
    """Model the region from counts and times.

    Returns
    -------
    dict
        JSON values: effort model of the region, its exponent deviation from n / t, how far counts are off it at most,
        and relative errors of models of time at the test point; or why the compiler cannot be used.
    """
    try:
        return {"compiler": compiler, **_evaluated(compiler)}
    except ToolError as error:
        return {"compiler": compiler, "missing": str(error)}


def _evaluated(compiler: str) -> dict[str, Any]:
    with workshop(compiler) as (made, source):
        counted = experiment_from_profiles(runs(made, source, Mode.EFFORT))
        timed = experiment_from_profiles(runs(made, source, Mode.TIME))
    row = row_of(timed)
    at = np.array([TEST], dtype=np.float64)
    test = (timed.points == at).all(axis=1)
    actual = float(timed.over_locations("time")[row, test, 0][0])
    training = at_points(timed, ~test)
    model = models_from_priors(training, counted, processes=None)[row]
    plain = model_experiment(training, ["time"])["time"].models[row]
    assert model.effort is not None and model.final is not None and plain is not None
    counts = work_of_a_thread(counted).over_locations("basic_blocks")[row_of(counted), :, 0]
    return {
        "effort": format_function(model.effort, PARAMETERS),
        "ed": deviation(model.effort).tolist(),
        "residual": float(np.abs(model.effort.evaluate(counted.points) / counts - 1).max()),
        "re": abs(float(model.final.function.evaluate(at)[0]) / actual - 1),
        "re_sensitive": abs(float(plain.function.evaluate(at)[0]) / actual - 1),
        "samples": len(counted.points),
    }


def deviation(effort: ModelFunction) -> Array:
    """Return the exponent deviation from n / t of what is not constant, shape (parameter,)."""
    return exponent_deviation(ModelFunction(0.0, effort.coefficients, effort.terms), EXPECTED, len(PARAMETERS))
