"""What the strategy `design` gains by knowing where caches are left: error at the target for the same core hours.

    python studies/benchmarks/cliffs.py [--draws 24] [--seed 5000] [--sweep MACHINE.json]

A program sweeps two arrays of n^3 lines, as `examples/sweep` does, and leaves a cache at n = 20 or 28. A unit of work
costs 0.1 us, a miss between 1 and 60 ns, drawn anew in each campaign; a run has 3 % of noise. Values of n are 8 to 40,
the target is n = 64. Budgets are shares of five runs of every point. The strategy knows the terms from counts; it is
told of the misses or not. What is modelled from the chosen points is the same: blocks and misses as an account.

With a machine file, of `buran doctor --calibrate`, the program is `examples/sweep` itself, on one rank: distances are
sampled at n = 8 to 24, each value is run eight times, and campaigns draw from these runs. What the kernel `sweep_block`
takes at n = 56 is the truth.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.campaign.plan import Mode
from buran.modeling.functions.terms import ModelFunction, power
from buran.modeling.priors.prior import Prior, computation_prior
from buran.modeling.priors.resilient import fit_priors
from buran.planning.design import DESIGN
from buran.planning.observations import Observations
from buran.planning.protocol import PlanningState
from buran.planning.space import Space
from buran.plugins.memory.account import CacheCost, MemoryAccount, MissCost
from buran.plugins.memory.caches import models_of
from buran.plugins.memory.costs import cache_cost
from buran.plugins.memory.distances import DistanceModels, distance_models
from buran.plugins.memory.machine_file import MachineFile
from buran.plugins.memory.reuse import BINS, LEAST_DISTANCE, LINE, NEVER
from buran.profiles.profile import Profile
from buran_studies.machine.laboratory import EXAMPLES
from buran_studies.priors.runs import Workshop

Array = NDArray[np.float64]

SAMPLED = (8.0, 12.0, 16.0, 20.0, 24.0)
VALUES = np.array([8.0, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36, 40])
TARGET = np.array([64.0])
CLIFFS = (20.0, 28.0)
SHARES = (0.03, 0.05, 0.1, 0.2)
ENDS = (1e-9, 8e-9, 60e-9)  # seconds of a miss
NOISE = 0.03
BLOCKS = computation_prior(ModelFunction(0.0, (100.0,), power(0, 3).terms))
ROUNDS = 20
FARTHEST, RUNS = 56.0, 8  # of sweep


def swept() -> DistanceModels:
    """Model the distances of two arrays, their planes and rows, as they are sampled at small n."""
    accesses = np.zeros((1, len(SAMPLED), BINS))
    for place, n in enumerate(SAMPLED):
        for count, largest in ((20 * n**3, 2 * n), (4 * n**3, 8 * n**2), (3 * n**3, 2 * n**3)):
            distances = largest * np.geomspace(0.7, 1.0, 100)
            bins = np.searchsorted(LEAST_DISTANCE[:NEVER], distances, side="right") - 1
            np.add.at(accesses[0, place], bins, count * np.arange(1.0, 101.0) / 5050.0)
        accesses[0, place, NEVER] = 2 * n**3
    return distance_models(np.array(SAMPLED)[:, None], accesses, ("n",), ("main->sweep",))


@dataclass(frozen=True)
class Program:
    """Times at all values and the target; `run` gives one of a place."""

    space: Space
    account: MemoryAccount
    seconds: Array
    truth: float
    run: Callable[[int], float]


def drawn(distances: DistanceModels, cliff: float, rng: np.random.Generator) -> Program:
    """Return a program that leaves the cache at `cliff`, with a cost of misses of its own."""
    size = 2 * cliff**3 * LINE
    cost = float(np.exp(np.interp(rng.uniform(), [0, 0.5, 1], np.log(ENDS))))
    at = np.append(VALUES, TARGET)
    times = 1e-7 * at**3 + cost * distances.misses(at[:, None], size)[0]
    account = _account(distances, size, TARGET)
    space = Space(("n",), VALUES[:, None], np.ones(len(VALUES)), TARGET, most_repetitions=5, expected_s=times[:-1])
    return Program(
        space, account, times[:-1], float(times[-1]), lambda place: float(times[place] * np.exp(NOISE * rng.normal()))
    )


@dataclass(frozen=True)
class Swept:
    """What was measured of `examples/sweep`: its distances, and seconds of its kernel by n."""

    account: MemoryAccount
    seconds: dict[float, Array]

    @classmethod
    def of(cls, machine: MachineFile) -> Swept:
        """Build and run it."""
        with tempfile.TemporaryDirectory(prefix="buran-cliffs-") as name:
            workshop = Workshop.open(Path(name), "clang")
            build = "make MPICC={mpicc} MPICXX={mpicxx} CFLAGS=-O2 CXXFLAGS=-O2"
            binaries = {m: workshop.build(build, EXAMPLES / "sweep", "sweep", m)[0] for m in (Mode.TIME, Mode.MEMORY)}

            def profile(mode: Mode, n: float) -> Profile:
                found, _ = workshop.run(binaries[mode], mode, 1, [f"{n:g}", "8"])
                assert found is not None
                return found

            sampled = [({"n": n}, 0, profile(Mode.MEMORY, n)) for n in SAMPLED]
            timed = {n: [profile(Mode.TIME, n) for _ in range(RUNS)] for n in (*VALUES.tolist(), FARTHEST)}
        tree = timed[FARTHEST][0].tree
        row = next(row for row, path in enumerate(tree.names) if path.endswith("sweep_block"))
        models = models_of(sampled, tree)
        assert models is not None
        caches = [cache_cost(machine, level, "1", 1) for level in range(len(machine.caches))]
        seconds = {n: np.array([p.exclusive("time")[row].mean() for p in profiles]) for n, profiles in timed.items()}
        return cls(MemoryAccount(only(models, row), caches, np.array([[FARTHEST]])), seconds)

    def program(self, rng: np.random.Generator) -> Program:
        """Return it with its runs in an order of their own."""
        values = VALUES.tolist()
        medians = np.array([np.median(self.seconds[n]) for n in values])
        target = np.array([FARTHEST])
        space = Space(("n",), VALUES[:, None], np.ones(len(values)), target, most_repetitions=5, expected_s=medians)
        truth = float(np.median(self.seconds[FARTHEST]))
        return Program(space, self.account, medians, truth, lambda i: float(rng.choice(self.seconds[values[i]])))


def only(models: DistanceModels, row: int) -> DistanceModels:
    """Return the models of one call path."""
    cells, modes = models.owner == row, np.flatnonzero(models.row == row)
    number = np.full(len(models.row) + 1, -1)  # a cell without a mode has the number -1
    number[modes] = np.arange(len(modes))
    return replace(
        models,
        call_paths=models.call_paths[row : row + 1],
        owner=np.zeros(int(cells.sum()), dtype=np.int64),
        law=models.law[cells],
        position=models.position[cells],
        count=models.count[cells],
        weight=models.weight[:, cells],
        mode=number[models.mode[cells]],
        row=np.zeros(len(modes), dtype=np.int64),
        streams=models.streams[[row]],
    )


def _account(distances: DistanceModels, size: float, at: Array) -> MemoryAccount:
    costs = MissCost(ENDS)
    return MemoryAccount(distances, [CacheCost(2, size, costs, costs)], at[None])


def played(program: Program, share: float, knows: bool, seed: int) -> tuple[float, bool, float]:
    """Play a campaign; return the error at the target, whether its interval holds it, and the largest n."""
    hours = program.seconds / 3600
    budget, spent = share * 5 * float(hours.sum()), 0.0
    runs: dict[int, list[float]] = {}
    for _ in range(ROUNDS):
        seen = Observations.nothing(1)
        if runs:
            points, values = _table(program.space, runs)
            prior: Prior | None = BLOCKS
            if knows and len(points) > 2:
                (prior,) = program.account.added_to([BLOCKS], [True], points, np.nanmean(values, axis=2))
            seen = Observations(points, values, values[0], (prior,), names=(("time", "a"),))
        advice = DESIGN.suggest(PlanningState(seen, program.space, budget, spent, seed))
        for suggestion in advice.suggestions:
            if spent + hours[suggestion.index] <= budget:
                runs.setdefault(suggestion.index, []).append(program.run(suggestion.index))
                spent += float(hours[suggestion.index])
        if advice.stop or not advice.suggestions:
            break
    points, values = _table(program.space, runs)
    means = np.nanmean(values, axis=2)
    (made,) = fit_priors(points, means, program.account.added_to([BLOCKS], [True], points, means))
    assert made is not None
    at = program.space.target[None]
    low, high = made.model.predict_interval(at)
    error = abs(float(made.model.function.evaluate(at)[0]) / program.truth - 1)
    return error, bool(low[0] <= program.truth <= high[0]), float(points.max())


def _table(space: Space, runs: dict[int, list[float]]) -> tuple[Array, Array]:
    places = sorted(runs)
    values = np.full((1, len(places), max(map(len, runs.values()))), np.nan)
    for row, place in enumerate(places):
        values[0, row, : len(runs[place])] = runs[place]
    return space.points[places], values


def main() -> None:
    """Print a line for each program and budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=24)
    parser.add_argument("--seed", type=int, default=5000)
    parser.add_argument("--sweep", type=Path, metavar="MACHINE.json", help="run examples/sweep, on this machine")
    arguments = parser.parse_args()
    distances = swept()
    real = None if arguments.sweep is None else Swept.of(MachineFile.read(arguments.sweep))
    if real is not None:
        print({n: f"{1e3 * np.median(some):.3g} ms" for n, some in real.seconds.items()})
    cases = [*CLIFFS] if real is None else [0.0]
    for cliff in cases:
        for share in SHARES:
            for knows in (False, True):
                results = []
                for draw in range(arguments.draws):
                    rng = np.random.default_rng(arguments.seed + draw)
                    program = drawn(distances, cliff, rng) if real is None else real.program(rng)
                    results.append(played(program, share, knows, draw))
                errors, held, largest = np.array(results, dtype=np.float64).T
                name = "sweep" if real is not None else f"cliff at {cliff:g}"
                print(
                    f"{name}, {100 * share:g} % of the hours, "
                    f"{'knows the cliff' if knows else 'does not':15}: error median {100 * np.median(errors):.1f} %, "
                    f"nine tenths below {100 * np.quantile(errors, 0.9):.0f} %, "
                    f"intervals hold {100 * held.mean():.0f} %, largest n {largest.mean():.0f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
