"""The priors paper's own protocol where no core is shared: ``python studies/benchmarks/priors_without_sharing.py``.

`buran evaluate priors --preset published` runs 2 to 16 ranks on the cores that there are. Here the same program, with
the same seed, sizes, noise and models, is timed on a simulated fat tree with a core for each rank: no rank waits for a
core. Counts are of real runs in both. Extra-P makes the models without priors where BURAN_EXTRAP_PYTHON names a Python
that has it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import numpy as np

from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.features import known_mpi
from buran.modeling.priors.prior import KnownMpi
from buran.profiles.experiment.build import experiment_from_profiles
from buran.profiles.profile import Profile
from buran_studies.evaluation.study import RESULTS, Settings
from buran_studies.generator.program import write_program
from buran_studies.generator.spec import POINTS, random_spec
from buran_studies.machine.laboratory import Bench, bench_for
from buran_studies.machine.study import MACHINES
from buran_studies.priors import measured, published
from buran_studies.priors.simulated import REPETITIONS


def timed(functions: int, seed: int, folder: Path) -> tuple[dict[str, object], KnownMpi | None]:
    """Return what `measured.time_once` does, of runs on the simulated machine, of which one tells all; and its MPI."""
    spec = random_spec("synthetic", functions, seed)
    write_program(spec, folder / "synthetic")
    target = measured.TEST_POINT
    keys = {
        "name": "synthetic",
        "program": {
            "source": str(folder / "synthetic"),
            "build": measured.BUILD,
            "binary": "synthetic",
            "run": "{binary} {n}",
        },
        "environments": {"here": {"machine": dict(MACHINES["fat tree"])}},
        "parameters": {
            "p": {"role": "ranks", "values": [*POINTS["p"], target["p"]]},
            "n": {"role": "size", "values": [*POINTS["n"], target["n"]]},
        },
    }
    bench = bench_for(keys, folder, Mode.EFFORT)
    table = experiment_from_profiles(_runs(bench, target))
    times = table.over_locations("time")[..., 0]
    rows = measured.rows_of(spec, table.tree)
    parts = {part: times[[row[part] for _, row in rows]].tolist() for part in measured.PARTS}
    return {
        "points": table.points.tolist(),
        "time": parts,
    }, known_mpi(bench.campaign)


def _runs(bench: Bench, target: Mapping[str, int]) -> Iterator[tuple[Mapping[str, float], int, Profile]]:
    for p, n in [*product(POINTS["p"], POINTS["n"]), (target["p"], target["n"])]:
        yield {"p": p, "n": n}, 0, bench.run_at(Point.of({"p": p, "n": n}))[0]


def main() -> None:
    """Print relative errors in %, means over functions with standard errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true", help="200 functions and 100 draws instead of 12 and 10")
    parser.add_argument("--known-mpi", action="store_true", help="priors know the algorithms of the simulated MPI")
    options = parser.parse_args()
    settings = Settings("priors", preset="published", quick=not options.full, seed=options.seed)
    made = published.shards(settings)
    functions = made[0]["functions"]
    counts = published.run_shard(made[0], settings)
    with tempfile.TemporaryDirectory(prefix="buran-priors-") as name:
        run, mpi = timed(functions, options.seed, Path(name))
    print("part, noise: " + ", ".join(published.METHODS))
    for shard in made:
        if shard["kind"] == "judge":
            runs = [counts, *[run] * REPETITIONS]
            with np.errstate(divide="ignore", invalid="ignore"):  # an operation that takes no time there has no error
                found = published.judge({**shard, RESULTS: runs}, mpi if options.known_mpi else None)
            values = [np.array([e for e in own if e is not None]) for own in found["re"].values()]
            errors = [f"{v.mean():.1f} ± {v.std(ddof=1) / len(v) ** 0.5:.1f}" for v in values]
            print(f"{shard['part']}, {shard['level']} %, {len(values[0])} functions: {', '.join(errors)}", flush=True)


if __name__ == "__main__":
    main()
