"""Generated programs that really run: counts, times, and the models of both."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from buran.campaign.plan import Mode
from buran.errors import RunError
from buran.evaluate.priors_runs import Workshop
from buran.experiment.build import experiment_from_profiles
from buran.experiment.jsonl import read_jsonl, write_jsonl
from buran.experiment.modelling import model_experiment
from buran.experiment.table import Experiment
from buran.generate.program import Truth, write_program
from buran.generate.spec import Spec, random_spec
from buran.model.model import Model
from buran.model.quality import exponent_deviation
from buran.model.terms import ModelFunction
from buran.prior.paths import Source
from buran.prior.tables import PathModel, models_from_priors
from buran.profile.profile import Profile
from buran.steps.collect import only

BUILD = "{mpicxx} -std=c++17 -O2 -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -o synthetic *.cpp"
TEST_POINT = {"p": 16, "n": 96}
_OVERHEAD_ROUNDS = 3
_ATTEMPTS = 3
_COUNTS = (
    "visits",
    "basic_blocks",
    "bytes_sent",
    "bytes_received",
    "communicator_size_sum",
    "communicator_size_max",
)


def measure(functions: int, seed: int, repetitions: int) -> dict[str, Any]:
    """Generate a program, build it three times and run it at all its points.

    Returns
    -------
    dict
        JSON values: measurement tables of times and of counts as JSON Lines, and what building and running took.
    """
    spec = random_spec("synthetic", functions, seed)
    with tempfile.TemporaryDirectory(prefix="buran-priors-") as name:
        workshop = Workshop.open(Path(name))
        source = workshop.folder / "source" / "synthetic"
        write_program(spec, source)
        binaries, builds = {}, {}
        for mode in Mode:
            binaries[mode], outcome = workshop.build(BUILD, source, "synthetic", mode)
            builds[str(mode)] = {
                "wall_s": outcome.wall_s,
                "cpu_s": outcome.user_s + outcome.system_s,
                "max_rss_mib": outcome.max_rss_kib / 1024,
            }
        runs = _Runs(workshop, binaries)
        counted = experiment_from_profiles(runs.all(spec, Mode.EFFORT, 1))
        again, _ = runs.one(Mode.EFFORT, 2, 4)
        timed = experiment_from_profiles(runs.all(spec, Mode.TIME, repetitions, test=True))
        overhead = runs.overhead()
        texts = {}
        for key, table in (("timed", only(timed, ("time",))), ("counted", only(counted, _COUNTS))):
            write_jsonl(table, workshop.folder / key)
            texts[key] = (workshop.folder / key).read_text()
    return {
        **texts,
        "functions": functions,
        "seed": seed,
        "builds": builds,
        "runs": {
            "number": runs.number,
            "wall_s": runs.wall_s,
            "cpu_s": runs.cpu_s,
            "max_rss_mib": runs.max_rss_mib,
            "failed": runs.failed,
        },
        "overhead": overhead,
        "counts_are_the_same": _same(again, counted),
    }


def judge(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Model what `measure` found; return exponent deviations and relative errors of each function."""
    tables = []
    with tempfile.TemporaryDirectory(prefix="buran-priors-") as name:
        for key in ("timed", "counted"):
            path = Path(name) / f"{key}.jsonl"
            path.write_text(measured[key])
            tables.append(read_jsonl(path))
    timed, counted = tables
    spec = random_spec("synthetic", measured["functions"], measured["seed"])
    return _figures(spec, timed, counted, timed.values["time"].shape[2])


class _Runs:
    """Runs programs and adds up what that takes."""

    def __init__(self, workshop: Workshop, binaries: Mapping[Mode, Path]) -> None:
        self.workshop, self.binaries = workshop, binaries
        self.number, self.wall_s, self.cpu_s, self.max_rss_mib = 0, 0.0, 0.0, 0.0
        self.failed = 0

    def one(self, mode: Mode, ranks: int, n: int) -> tuple[Profile | None, float]:
        for attempt in range(_ATTEMPTS):
            try:
                profile, outcome = self.workshop.run(self.binaries[mode], mode, ranks, [str(n)])
                break
            except RunError:  # of the launcher: a machine with more ranks than cores now and then refuses one
                self.failed += 1
                if attempt == _ATTEMPTS - 1:
                    raise
        cpu_s = outcome.user_s + outcome.system_s
        self.number += 1
        self.wall_s += outcome.wall_s
        self.cpu_s += cpu_s
        self.max_rss_mib = max(self.max_rss_mib, outcome.max_rss_kib / 1024)
        return profile, cpu_s

    def all(
        self, spec: Spec, mode: Mode, repetitions: int, *, test: bool = False
    ) -> Iterator[tuple[Mapping[str, float], int, Profile]]:
        points = [{"p": int(p), "n": int(n)} for p, n in spec.points] + ([TEST_POINT] if test else [])
        for repetition in range(repetitions):
            for point in points:
                profile, _ = self.one(mode, point["p"], point["n"])
                assert profile is not None
                yield point, repetition, profile

    def overhead(self) -> dict[str, float]:
        """Return CPU time relative to the build without instrumentation: median of rounds."""
        ratios: dict[Mode, list[float]] = {Mode.TIME: [], Mode.EFFORT: []}
        for _ in range(_OVERHEAD_ROUNDS):
            cpu_s = {mode: self.one(mode, 2, 64)[1] for mode in Mode}
            for mode, own in ratios.items():
                own.append(cpu_s[mode] / cpu_s[Mode.VANILLA])
        return {str(mode): float(np.median(own)) for mode, own in ratios.items()}


def _same(profile: Profile | None, counted: Experiment) -> bool:
    """Whether a second run has the counts of the first."""
    assert profile is not None
    again = experiment_from_profiles([({"p": 2, "n": 4}, 0, profile)])
    place = int(np.flatnonzero((counted.points == [2, 4]).all(axis=1))[0])
    row = {path: number for number, path in enumerate(counted.tree.names)}
    return all(
        np.array_equal(
            again.values[metric][:, 0, 0],
            counted.values[metric][[row[path] for path in again.tree.names], place, 0],
        )
        for metric in ("basic_blocks", "visits", "bytes_sent", "bytes_received")
    )


def at_points(
    experiment: Experiment, keep: np.ndarray[Any, Any], repetitions: Sequence[int] | None = None
) -> Experiment:
    """Return the table with some of its points and repetitions."""
    chosen = list(range(next(iter(experiment.values.values())).shape[2])) if repetitions is None else list(repetitions)
    values = {name: own[:, keep][:, :, chosen] for name, own in experiment.values.items()}
    return replace(experiment, points=experiment.points[keep], values=values)


def _figures(spec: Spec, timed: Experiment, counted: Experiment, repetitions: int) -> list[dict[str, Any]]:
    test = (timed.points == [TEST_POINT["p"], TEST_POINT["n"]]).all(axis=1)
    at = timed.points[test]
    actual = np.median(timed.over_locations("time")[:, test], axis=2)[:, 0]
    rows = _rows(spec, timed)
    resilient: dict[int, list[Any]] = {number: [] for number in range(1, repetitions + 1)}
    sensitive: dict[int, list[Any]] = {number: [] for number in range(1, repetitions + 1)}
    whole: tuple[PathModel, ...] = ()
    classic: tuple[Model | None, ...] = ()
    for number in range(1, repetitions + 1):
        for chosen in combinations(range(repetitions), number):
            own = at_points(timed, ~test, chosen)
            whole = models_from_priors(own, counted, processes="p")
            classic = model_experiment(own, ["time"])["time"].models
            resilient[number].append([model.resilient and model.resilient.model for model in whole])
            sensitive[number].append(classic)
    out = []
    for truth, kernel, operation in rows:
        entry: dict[str, Any] = {"name": truth.kernel.name}
        for part, row in (("computation", kernel), ("communication", operation)):
            if row is None:
                continue
            expected = truth.rounds
            if part == "communication":
                assert truth.prior is not None
                expected = truth.prior.asymptote
            found = whole[row]
            prior = None if found.resilient is None else found.resilient.prior.asymptote
            entry[part] = {
                "source": found.source,
                "notes": list(found.notes),
                "ed": None if prior is None or found.source is Source.TIMES else _ed(prior, expected),
                "ed_bytes": None
                if part == "computation" or truth.bytes_sent is None
                else _ed(found.effort or ModelFunction(0.0), truth.bytes_sent),
                "ed_sensitive": [
                    None if models[row] is None else _ed(models[row].function, expected)
                    for models in sensitive[repetitions]
                ],
                "re": {n: [_re(models[row], at, actual[row]) for models in own] for n, own in resilient.items()},
                "re_sensitive": {
                    n: [_re(models[row], at, actual[row]) for models in own] for n, own in sensitive.items()
                },
                "ed_by_repetitions": {
                    n: [None if models[row] is None else _ed(models[row].function, expected) for models in own]
                    for n, own in sensitive.items()
                },
            }
        out.append(entry)
    return out


def _rows(spec: Spec, timed: Experiment) -> list[tuple[Truth, int, int | None]]:
    """Find the call paths of each kernel and its operation."""
    place = {}
    for row, name in enumerate(timed.tree.names):
        parts = [part.split("(")[0] for part in name.split("->")]
        place[tuple(parts[-2:])] = row
        place[(parts[-1],)] = row
    out = []
    for kernel in spec.kernels:
        truth = Truth.of(kernel)
        out.append((truth, place[(kernel.name,)], place.get((truth.communicator, truth.operation or ""))))
    return out


def _ed(found: ModelFunction, true: ModelFunction) -> list[float]:
    return [float(each) for each in exponent_deviation(found, true, 2)]


def _re(model: Model | None, at: np.ndarray[Any, Any], actual: float) -> float | None:
    if model is None or not actual > 0:
        return None
    return float(abs(model.function.evaluate(at)[0] - actual) / actual)
