"""The study `machine`: what simulated machines are worth, and what Buran is worth with programs executed there."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.errors import ToolError
from buran.files import write_json
from buran.modeling.fit import fit_models
from buran.plugins.simgrid.calibrate import calibration_of
from buran.plugins.simgrid.calibration import CALIBRATION, Calibration
from buran.profiles.experiment.build import Run
from buran.profiles.profile import Profile
from buran_studies.campaign.measured import both_ways, ways_of
from buran_studies.campaign.summary import BURAN, over_programs
from buran_studies.evaluation.evaluation import Evaluation, Figure, Kind, Table
from buran_studies.evaluation.study import ALONE, Settings, Shard
from buran_studies.machine import codes, collectives, generated
from buran_studies.machine.counts import differences
from buran_studies.machine.laboratory import Bench, Spent, bench_of
from buran_studies.priors.simulated import LEVELS

MACHINES: Mapping[str, Mapping[str, Any]] = {
    "ideal": {
        "topology": "crossbar", "nodes": 1024, "cores_per_node": 1, "bandwidth_gb_s": 10_000.0, "latency_us": 0.001,
        "seconds_per_block": 8e-9,
    },
    "fat tree": {
        "topology": "fat_tree", "nodes": 1024, "cores_per_node": 1, "bandwidth_gb_s": 12.5, "latency_us": 0.5,
        "seconds_per_block": 8e-9,
    },
}  # fmt: skip
SIZES = {"stencil": (8, 12), "sweep": (4, 6), "treesort": (1000, 2000)}
_RANKS, _QUICK_RANKS = (1, 2, 4, 8), (1, 2, 4)
_WAVE_RANKS, _QUICK_WAVE_RANKS = (4, 9, 16, 36, 64, 144, 256, 1024), (4, 9, 16, 36, 64)
_COLLECTIVE_RANKS, _QUICK_COLLECTIVE_RANKS = (4, 8, 16, 32, 64), (4, 8, 16, 32)
_WAVE_SIZES = (4, 6, 8, 12, 16)
_AIM = 8  # size at which waiting is predicted, and what simulating costs is told
# Sizes that are calibrated, and sizes between them that are predicted.
REALITY: Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "stencil": ((32, 48, 64, 96), (40, 80)),
    "sweep": ((24, 32, 48, 64), (40, 56)),
    "treesort": ((20_000, 80_000, 320_000), (40_000, 160_000)),
}
DESK: Mapping[str, Any] = {
    "topology": "crossbar", "nodes": 1, "cores_per_node": 2, "bandwidth_gb_s": 10.0, "latency_us": 1.0,
    "eager_limit_bytes": 4096, "loopback_bandwidth_gb_s": 2.1, "loopback_latency_us": 0.3,
}  # fmt: skip
_QUESTIONS = ("counts", "waiting", "sameness", "reality", "collectives", "generated", "loop")
_FUNCTIONS, _QUICK_FUNCTIONS = 200, 10  # of a generated program; as many as in the paper on priors
_GENERATED_RANKS, _QUICK_GENERATED_RANKS = (2, 4, 8, 16, 32, 64, 128), (2, 4, 8, 16, 32, 64)
_PROGRAM = "the program"
_REPETITIONS, _QUICK_REPETITIONS = 15, 3
_LARGE = 0.05  # share of a program's time from which on a call path is judged
_NEAR = 0.1  # relative error from which on a prediction is not near
_FARTHER = 4  # times the largest number of ranks: where waiting is predicted, and run


def shards(settings: Settings) -> Sequence[Shard]:
    """One shard for counts and one for times of each example, one for waiting on each machine, one for sameness.

    One for the collectives of each MPI, and one for a generated program; if not quick, one for the loop with each code
    that is here, on each machine. A preset other than ``default`` takes those of one question.

    Raises
    ------
    UsageError
        For a preset that there is not.
    """
    settings.require("default", *_QUESTIONS)
    ranks = _QUICK_RANKS if settings.quick else _RANKS
    waves = _QUICK_WAVE_RANKS if settings.quick else _WAVE_RANKS
    gathered = _QUICK_COLLECTIVE_RANKS if settings.quick else _COLLECTIVE_RANKS
    functions, draws = (_QUICK_FUNCTIONS, 5) if settings.quick else (_FUNCTIONS, settings.draws or 100)
    looped = () if settings.quick else codes.available()
    every: list[Shard] = [
        *({"asks": "counts", "example": example, "ranks": [*ranks]} for example in SIZES),
        *({"asks": "waiting", "machine": machine, "ranks": [*waves]} for machine in MACHINES),
        {"asks": "sameness", "ranks": [16, 64]},
        *({"asks": "reality", "example": example, "ranks": [1, 2], ALONE: True} for example in REALITY),
        *(
            {"asks": "collectives", "mpi": mpi, "ranks": [p for p in gathered if (mpi, p) not in collectives.FAILING]}
            for mpi in collectives.FLAVOURS
        ),
        {
            "asks": "generated",
            "functions": functions,
            "ranks": [*(_QUICK_GENERATED_RANKS if settings.quick else _GENERATED_RANKS)],
            "levels": [*LEVELS],
            "draws": draws,
            "seed": settings.seed,
        },
        *({"asks": "loop", "code": code, "machine": machine, ALONE: True} for code in looped for machine in MACHINES),
    ]
    return [shard for shard in every if settings.preset in ("default", shard["asks"])]


def run_shard(shard: Shard, settings: Settings) -> dict[str, Any]:
    """Build and run what the shard asks for."""
    if shard["asks"] == "loop":
        code = codes.on(MACHINES[shard["machine"]], shard["code"])
        ways = both_ways(code, codes.SHARES, settings.seed, rivals=True)
        return {"asks": "loop", "code": shard["code"], "machine": shard["machine"], "ways": ways}
    with tempfile.TemporaryDirectory(prefix="buran-machine-") as name:
        if shard["asks"] == "reality":
            repetitions = _QUICK_REPETITIONS if settings.quick else _REPETITIONS
            return {"asks": "reality", **_reality(shard, repetitions, Path(name))}
        asked = {
            "counts": _counts,
            "waiting": _waiting,
            "sameness": _sameness,
            "collectives": _collectives,
            "generated": _generated,
        }
        answer = asked[shard["asks"]]
        return {"asks": shard["asks"], **answer(shard, Path(name))}


def _counts(shard: Shard, folder: Path) -> dict[str, Any]:
    """Compare every count of every call path and rank under the MPI that is here and under SimGrid."""
    example, ranks = shard["example"], shard["ranks"]
    here, there = (
        bench_of(example, machine, ranks, SIZES[example], folder / name)
        for name, machine in (("here", None), ("there", MACHINES["fat tree"]))
    )
    points = [Point.of({"p": p, "n": n}) for p in ranks for n in SIZES[example]]
    return {"example": example, "mpi": here.backend.mpi_flavour, **differences(here, there, points)}


def _waiting(shard: Shard, folder: Path) -> dict[str, Any]:
    """Model the waiting of a wavefront, and run it where it is predicted."""
    ranks = shard["ranks"]
    machine = {**MACHINES[shard["machine"]], "nodes": max(_FARTHER * ranks[-1], MACHINES[shard["machine"]]["nodes"])}
    bench = bench_of("sweep", machine, [*ranks, _FARTHER * ranks[-1]], _WAVE_SIZES, folder / "sweep")
    points, waited, spent = [], [], dict[int, Spent]()
    for p in ranks:
        for n in _WAVE_SIZES:
            seconds, of_run = _waited(bench, p, n)
            if n == _AIM:
                spent[p] = of_run
            points.append((p, n))
            waited.append(seconds)
    model = fit_models(np.array(points, dtype=np.float64), np.array([waited]))
    target, predicted = _FARTHER * ranks[-1], {}
    for n in (_AIM, _WAVE_SIZES[-1]):
        executed, of_run = _waited(bench, target, n)
        predicted[str(n)] = float(model.predict(np.array([(target, n)], dtype=np.float64))[0, 0]) / executed
        spent.setdefault(target, of_run)
    # Of blocks of n^3 cells, beside which sums over faces of n^2 count little where n is large.
    n, block_s = _WAVE_SIZES[-1], MACHINES[shard["machine"]]["seconds_per_block"] * _WAVE_SIZES[-1] ** 3
    theory = [6 * (np.sqrt(p) - 1) * block_s for p in ranks]
    measured = [seconds for (_, size), seconds in zip(points, waited, strict=True) if size == n]
    return {
        "machine": shard["machine"],
        "target": target,
        "predicted_over_executed": predicted,
        "over_theory": (np.array(measured) / np.array(theory)).tolist(),
        "spent": {str(p): asdict(of_run) for p, of_run in spent.items()},
    }


def _waited(bench: Bench, p: int, n: int) -> tuple[float, Spent]:
    """Return the mean time of ranks in receives and in the sum at the end, and what simulating took here."""
    profile, spent = bench.run(p, n)
    names = [profile.tree.regions[number].name for number in profile.tree.region.tolist()]
    rows = [at for at, name in enumerate(names) if name in ("MPI_Recv", "MPI_Allreduce")]
    return float(profile.exclusive("time")[rows].sum(axis=0).mean()), spent


def _reality(shard: Shard, repetitions: int, folder: Path) -> dict[str, Any]:
    """Calibrate at some sizes, and compare with this machine what is simulated at the sizes between them."""
    example, ranks = shard["example"], shard["ranks"]
    calibrated, judged = REALITY[example]
    sizes = sorted((*calibrated, *judged))
    timer = bench_of(example, None, ranks, sizes, folder / "timed", Mode.TIME)
    counter = bench_of(example, None, ranks, sizes, folder / "counted")
    timed: list[Run] = [
        ({"p": p, "n": n}, repetition, timer.run(p, n)[0])
        for repetition in range(repetitions)  # all points in turn: what disturbs one does not hit all its repetitions
        for p in ranks
        for n in sizes
    ]
    counted: list[Run] = [({"p": p, "n": n}, 0, counter.run(p, n)[0]) for p in ranks for n in calibrated]
    calibration = calibration_of([run for run in timed if run[0]["n"] in calibrated], counted, timer.campaign)
    if calibration is None:
        raise ToolError(f"{example} left no times to calibrate with")
    path = folder / CALIBRATION
    write_json(path, {"schema": Calibration.schema_read, **asdict(calibration)})
    desk = bench_of(example, {**DESK, "calibrated": str(path)}, ranks, judged, folder / "simulated")
    rows = []
    for p in ranks:
        for n in judged:
            real = [_seconds(profile) for point, _, profile in timed if point == {"p": p, "n": n}]
            told = _seconds(desk.run(p, n)[0])
            both = {_PROGRAM: (min(sum(seconds.values()) for seconds in real), sum(told.values()))}
            both |= {
                name: (min(seconds.get(name, np.inf) for seconds in real), told.get(name, 0.0)) for name in real[0]
            }
            rows += [
                {"p": p, "n": n, "call_path": name, "real": seconds, "simulated": simulated}
                for name, (seconds, simulated) in both.items()
                if seconds >= _LARGE * both[_PROGRAM][0]
            ]
    return {"example": example, "uncertainty": calibration.uncertainty, "rows": rows}


def _seconds(profile: Profile) -> dict[str, float]:
    """Return the mean time over ranks of each call path, without what starts and ends MPI."""
    ends = {"MPI_Init", "MPI_Init_thread", "MPI_Finalize"}
    names = [name.partition("->")[2] for name in profile.tree.names]
    seconds = profile.exclusive("time").mean(axis=1).tolist()
    return {name: second for name, second in zip(names, seconds, strict=True) if name.rpartition("->")[2] not in ends}


def _sameness(shard: Shard, folder: Path) -> dict[str, Any]:
    """Run twice, and compare the files that the ranks left."""
    bench = bench_of("sweep", MACHINES["fat tree"], shard["ranks"], SIZES["sweep"], folder / "sweep")
    differing = files = 0
    for p in shard["ranks"]:
        written = []
        for _ in range(2):
            bench.run(p, 6)
            written.append(
                {path.name: path.read_bytes() for path in bench.folder_at(Point.of({"p": p, "n": 6})).glob("*.buran")}
            )
        files += len(written[0])
        differing += sum(written[0][name] != written[1].get(name) for name in written[0])
    return {"profiles": files, "differing": differing}


def _collectives(shard: Shard, folder: Path) -> dict[str, Any]:
    """Hold the cost models of collective operations against those of an MPI."""
    executed, known = collectives.executed(MACHINES["fat tree"], shard["mpi"], shard["ranks"], folder)
    judged = [collectives.judged(name, rows, known) for name, rows in executed.items()]
    return {"mpi": shard["mpi"], "operations": judged}


def _generated(shard: Shard, folder: Path) -> dict[str, Any]:
    """Model a generated program under noise."""
    asked = {key: value for key, value in shard.items() if key != "asks"}
    return generated.executed(MACHINES["fat tree"], folder=folder, **asked)


def _of_collectives(results: Sequence[Any]) -> tuple[list[Figure], Table]:
    figures, rows = [], []
    for result in results:
        errors = [100 * judged["error"] for judged in result["operations"]]
        name = f"cost models of collectives, as {result['mpi']} carries them out: median error"
        figures.append(Figure(name, float(np.median(errors)), "%", samples=len(errors), kind=Kind.MEASURED))
        for judged in result["operations"]:
            percent = (100 * judged[key] for key in ("error", "worst", "beyond", "unknown", "split"))
            rows.append((result["mpi"], judged["operation"], *percent, judged["switch_bytes"]))
    header = (
        "MPI", "operation", "median error %", "largest %", "at the most ranks, from fewer %",
        "the same of an MPI that is not known %",
        "with other coefficients for large messages %", "switch at, bytes",
    )  # fmt: skip
    return figures, Table("How far the cost models of collectives are off", header, tuple(rows))


def _of_loops(results: Sequence[Any]) -> tuple[list[Figure], list[Table]]:
    """Give the share of call paths above 1 % at P+ that are within 10 %, by code, machine and way."""
    ways = ways_of(codes.SHARES, rivals=True)
    names = [f"{way}, {share:.0%}" for way, share in ways]
    rows, near, found = [], dict[str, list[float]](), dict[tuple[str, str, float], list[Any]]()
    for result in results:
        shares = [
            100 * float(np.mean([error is not None and error <= _NEAR for error in way["errors"]]))
            for way in result["ways"]
        ]
        rows.append((result["code"], result["machine"], len(result["ways"][0]["errors"]), *shares))
        for (way, budget), name, share, judged in zip(ways, names, shares, result["ways"], strict=True):
            near.setdefault(name, []).append(share)
            found.setdefault((f"{result['code']}, {result['machine']}", way, budget), []).append(judged)
    figures = []
    for name, shares in near.items():
        goal = "90" if name.startswith(BURAN) and name != names[-1] else ""
        title = f"call paths within 10 % at P+, mean over codes: {name}"
        figures.append(Figure(title, float(np.mean(shares)), "%", samples=len(shares), goal=goal, kind=Kind.MEASURED))
    header = ("code", "machine", "call paths", *(f"{name}: within 10 % (%)" for name in names))
    return figures, [Table("The loop on really executed codes", header, tuple(rows)), over_programs(found)]


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Give the share of equal counts, the errors of waiting, and what simulating costs."""
    counts, waits, sames, reality = (
        [r for r in results if r["asks"] == asks] for asks in ("counts", "waiting", "sameness", "reality")
    )
    figures = []
    for result in counts:
        share = 100 * (1 - result["unequal"] / max(result["compared"], 1))
        name = f"counts of {result['example']} as under {result['mpi']}"
        note = ", ".join(result["differing"][:3])
        figures.append(Figure(name, share, "%", samples=result["compared"], goal="100", kind=Kind.MEASURED, note=note))
    for result in waits:
        for size, ratio in result["predicted_over_executed"].items():
            name = f"waiting predicted at {result['target']} ranks, {result['machine']}, n = {size}, error"
            figures.append(Figure(name, 100 * abs(ratio - 1), "%", goal="5", kind=Kind.MEASURED))
        if result["machine"] == "ideal":
            off = 100 * float(np.max(np.abs(np.array(result["over_theory"]) - 1)))
            figures.append(
                Figure(
                    f"waiting beside its theory, ideal, n = {_WAVE_SIZES[-1]}, largest error",
                    off,
                    "%",
                    kind=Kind.MEASURED,
                )
            )
    for result in sames:
        name = "profiles that differ in a second run"
        figures.append(Figure(name, result["differing"], samples=result["profiles"], goal="0", kind=Kind.MEASURED))
    for result in reality:
        for what in ("the program", "call paths"):
            rows = [row for row in result["rows"] if (row["call_path"] == _PROGRAM) == (what == "the program")]
            errors = np.array([100 * abs(row["simulated"] / row["real"] - 1) for row in rows])
            worst = rows[int(errors.argmax())]
            note = (
                f"{np.mean(errors <= 10):.0%} within 10 %; worst {errors.max():.3g} %: {worst['call_path']} at "
                f"p={worst['p']}, n={worst['n']}"
            )
            name = f"{result['example']} calibrated, beside this machine at 1 and 2 ranks: {what}, mean error"
            figures.append(
                Figure(name, float(errors.mean()), "%", samples=len(rows), goal="10", kind=Kind.MEASURED, note=note)
            )
    table = Table(
        f"What one simulated run of sweep costs, n = {_AIM}",
        ("machine", "ranks", "CPU s", "MB"),
        tuple(
            (result["machine"], int(p), spent["cpu_s"], spent["memory_mb"])
            for result in waits
            for p, spent in result["spent"].items()
        ),
        "Memory is never less than what the study itself takes when it starts the run.",
    )
    tables = [table] if table.rows else []
    for asks, summary in (("collectives", _of_collectives), ("generated", generated.summary)):
        if chosen := [result for result in results if result["asks"] == asks]:
            further, table = summary(chosen)
            figures += further
            tables.append(table)
    if looped := [result for result in results if result["asks"] == "loop"]:
        further, of_loops = _of_loops(looped)
        figures += further
        tables += of_loops
    return Evaluation("Real programs on simulated machines", tuple(figures), tuple(tables))
