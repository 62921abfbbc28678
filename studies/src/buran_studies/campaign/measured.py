"""The bundled examples, really measured: the manual way against Buran's loop, each judged at a larger point.

Both ways measure the same matrix of points on this machine. What is right are medians of runs at P+ under the filter
that Buran chose for its largest budget, whose instrumentation costs little; predictions for functions without
instrumentation count to their callers there. In the presets of examples, Buran knows the caches of the machine, which
is calibrated first, and samples accesses to memory within its budget. Functions with less than 1 % of the time there,
and operations of MPI, whose waiting on fewer cores than ranks is chance, are not judged. Programs make so many steps
that most of a run is theirs, not the start of MPI's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from buran.campaign.plan import Mode, Purpose
from buran.campaign.point import Point
from buran.errors import ConfigError, RunError
from buran.files import not_synced, write_json, write_text
from buran.instrumentation.prediction import FILTERABLE
from buran.modeling.experiments import model_experiment
from buran.modeling.pmnf import SearchOptions
from buran.modeling.pmnf.model import prediction_interval
from buran.modeling.pmnf.model_set import read_models
from buran.plugins.memory.machine_file import MachineFile
from buran.plugins.memory.speed import calibrate
from buran.plugins.versions.counts import fold
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import SEPARATOR
from buran.workflow import collect
from buran.workflow.history import History
from buran.workflow.session import Session, open_session
from buran_studies.campaign.public import PUBLIC, Example
from buran_studies.campaign.rivals import Matrix, predictions, ways
from buran_studies.campaign.summary import BURAN, MANUAL
from buran_studies.evaluation.study import ALONE, Shard
from buran_studies.extrap import extrap_python, predictions_by_extrap
from buran_studies.simulate.in_process import carry_out

SHARES = (0.2, 1.0)
"""Budgets of Buran, over what the manual way costs."""
_LEAST_SHARE = 0.01
_UNBOUNDED = 1e100
"""Seconds, whose square is finite."""


_CXX, _C = "make MPICXX={mpicxx} CXXFLAGS='{flags}'", "make MPICC={mpicc} CFLAGS='{flags}'"
EXAMPLES: Mapping[str, Example] = {
    each.name: each
    for each in (
        Example("stencil", _CXX, "{n} {s}", (1, 2), (16, 24, 32, 40, 48), (2, 96), samples=True, steps=6000),
        Example("sweep", _C, "{n} 8 {s}", (1, 2), (8, 14, 20, 26, 32), (2, 64), samples=True, steps=300),
        Example(
            "treesort", _CXX, "{n}", (1, 2), (1 << 20, 1 << 21, 1 << 22, 1 << 23, 1 << 24), (2, 1 << 25), samples=True
        ),
    )
}
_SMALL = Example("stencil", _CXX, "{n} 20", (1, 2), (8, 12, 16), (2, 20), repetitions=1)
PRESET, OVERSUBSCRIBED, TINY, MEASURED = "examples", "examples-oversubscribed", "examples-tiny", "measured"
_MANY_SHARES = (0.1, 0.2, 1.0)
PRESETS: Mapping[str, Mapping[str, Example]] = {
    PRESET: EXAMPLES,
    # On two cores, four ranks take turns: a function's time then tells of its neighbours, too.
    OVERSUBSCRIBED: {
        name: replace(example, ranks=(1, 2, 4), target=(4, example.target[1])) for name, example in EXAMPLES.items()
    },
    TINY: {_SMALL.name: _SMALL},
    MEASURED: {
        **{name: replace(example, repetitions=5, samples=False) for name, example in EXAMPLES.items()},
        **{code.name: code for code in PUBLIC},
    },
}


def shards(preset: str) -> list[Shard]:
    """One shard for each example: its ways run one after the other, on the same machine in the same state.

    Public codes are those of which there are checkouts.
    """
    return [
        {"example": name, ALONE: True}
        for name, each in PRESETS[preset].items()
        if each.source is None or each.folder.is_dir()
    ]


def rows(preset: str) -> list[Shard]:
    """Return case, way and budget of each entry of the results of all shards, in order."""
    every = ways_of(_shares(preset), rivals=preset == MEASURED)
    return [
        {"case": shard["example"], "way": way, "share": share, "seed": 0}
        for shard in shards(preset)
        for way, share in every
    ]


def ways_of(shares: Sequence[float], *, rivals: bool) -> list[tuple[str, float]]:
    """Return way and budget of each result of `both_ways`, in order."""
    return [(MANUAL, 1.0), *(ways() if rivals else []), *((BURAN, share) for share in shares)]


def _shares(preset: str) -> tuple[float, ...]:
    return _MANY_SHARES if preset == MEASURED else SHARES


def run_shard(shard: Shard, preset: str, seed: int) -> list[dict[str, Any]]:
    """Measure an example both ways; with the preset `MEASURED`, rivals too."""
    return both_ways(PRESETS[preset][shard["example"]], _shares(preset), seed, rivals=preset == MEASURED)


def both_ways(example: Example, shares: Sequence[float], seed: int, *, rivals: bool = False) -> list[dict[str, Any]]:
    """Measure an example the manual way and with Buran for each budget; rivals play on the former's runs.

    What is right was measured at P+: on this machine under the filter that Buran chose for the last budget, as its
    instrumentation costs little; a simulated machine has no such cost, and all functions are instrumented.
    """
    with tempfile.TemporaryDirectory(prefix="buran-campaign-") as name, not_synced():
        folder = Path(name)
        whole = example.with_all_steps
        manual = _campaign(folder, "manual", whole, seed, **_everything(whole))
        carry_out(manual)
        table, hours = _timed(manual, Purpose.MODEL)
        predicted, modeller = _manual_models(table, whole, folder)
        found = [_Found(hours, predicted, "the full matrix is measured", modeller)]
        for spent, prediction in predictions(_matrix(manual, table, whole), folder, seed) if rivals else ():
            found.append(_Found(spent, prediction, "runs of the matrix", "see its name"))
        sampling = _sampling(folder) if example.samples else {}
        chosen = replace(example, further={**example.further, **sampling})
        found += [_loop(chosen, folder, seed, share, hours) for share in shares]
        last = manual if example.is_simulated else _measured_at_target(chosen, folder, seed, shares[-1], hours)
        truth = _Truth.of(_timed(last, Purpose.EVALUATION)[0], by_call_path=example.is_simulated)
        return [each.judged(hours, truth) for each in found]


def _matrix(session: Session, table: Experiment, example: Example) -> Matrix:
    """Return what the manual way measured as a matrix that others can play on."""
    place = {tuple(point): row for row, point in enumerate(table.points.tolist())}
    walls_s = np.full((len(place), example.repetitions), np.nan)
    cores = np.ones(len(place))
    for run in History.open(session).runs:
        if run.mode is Mode.TIME and run.purpose is Purpose.MODEL:
            row = place[tuple(float(run.point[name]) for name in table.parameters)]
            walls_s[row, run.repetition], cores[row] = run.wall_s, session.campaign.cores(run.point)
    return Matrix(table, walls_s, cores, example.at)


def full_matrix(example: Example, seed: int = 0) -> tuple[Experiment, Experiment, dict[Point, float]]:
    """Measure all points and P+ with everything instrumented.

    Returns
    -------
    times, at_target, walls_s
        Times at the points and at P+, and the wall time in seconds of a run at each point.
    """
    with tempfile.TemporaryDirectory(prefix="buran-campaign-") as name, not_synced():
        whole = example.with_all_steps
        wishes = {**_everything(whole), "evaluation_points": [whole.at]}
        session = _campaign(Path(name), "manual", whole, seed, **wishes)
        carry_out(session)
        runs = [run for run in History.open(session).runs if run.mode is Mode.TIME and run.purpose is Purpose.MODEL]
        walls_s = {run.point: run.wall_s for run in runs}
        return _timed(session, Purpose.MODEL)[0], _timed(session, Purpose.EVALUATION)[0], walls_s


def _sampling(folder: Path) -> dict[str, Any]:
    """Calibrate the machine; return the keys of a campaign that knows what misses of its caches cost."""
    for last in (False, False, True):  # the host of a virtual machine may be busy for a while
        try:
            machine = calibrate()
            break
        except RunError:
            if last:
                raise
    write_json(folder / "machine.json", {"schema": MachineFile.schema_read, **asdict(machine)}, depth=3)
    counted = ["time", "visits", "basic_blocks", "bytes_sent", "bytes_received"]
    misses = [f"misses_level_{level}" for level in range(1, len(machine.caches) + 1)]
    return {"metrics": [*counted, "minor_faults", *misses], "memory": {"machine": "machine.json"}}


def _campaign(folder: Path, name: str, example: Example, seed: int, **changes: Any) -> Session:
    described: dict[str, Any] = {
        "name": f"{example.name.replace(' ', '-')}-{name}",
        "results": name,
        "program": {
            "source": str(example.folder),
            "build": example.build,
            **({"flags": "-O2"} if "{flags}" in example.build else {}),
            "binary": example.further.get("binary", example.name),
            "run": f"{{binary}} {example.arguments}",
        },
        "parameters": example.parameters,
        "repetitions": example.repetitions,
        "resources": {"time_limit": 300, **({} if len(example.ranks) > 1 else {"ranks": example.ranks[0]})},
        "seed": seed,
        "warmup": False,
        **{key: value for key, value in example.further.items() if key != "binary"},
        **changes,
    }
    path = folder / f"{name}.yaml"
    write_text(path, yaml.safe_dump(described, sort_keys=False))
    return open_session(path)


def _everything(example: Example) -> dict[str, Any]:
    return {
        "evaluation_points": [example.at] if example.is_simulated else [],
        "goal": "models",
        "strategy": {"name": "full"},
        "refinement": {"enabled": False},
        "metrics": ["time", "visits"],
        "model": {"kind": "pmnf", "priors": "off"},
    }


def _timed(session: Session, purpose: Purpose) -> tuple[Experiment, float]:
    """Return the times of a campaign's instrumented runs, and their core hours: nobody asked for a baseline."""
    runs = [run for run in History.open(session).runs if run.mode is Mode.TIME and run.purpose is purpose]
    table = collect.experiment_of(runs, session.campaign.parameters)
    if table is None:
        raise RunError("no run of the example succeeded", where=session.layout.root)
    seconds = sum(run.wall_s * session.campaign.cores(run.point) for run in runs)
    return collect.only(table, ["time"]), seconds / 3600


@dataclass(frozen=True)
class _Truth:
    """What is right at P+.

    Attributes
    ----------
    call_paths
        All that were seen.
    seconds
        Mean over ranks without callees, of each call path, or of each function that may have hooks.
    by_call_path
        Which of both.
    """

    call_paths: tuple[str, ...]
    seconds: Mapping[str, float]
    by_call_path: bool

    @classmethod
    def of(cls, table: Experiment, *, by_call_path: bool) -> _Truth:
        """Take the medians of runs at one point."""
        seconds = np.nanmedian(table.over_locations("time")[:, 0], axis=1)
        region = table.tree.region.tolist()
        own = {
            name: value
            for name, number, value in zip(table.tree.names, region, seconds.tolist(), strict=True)
            if by_call_path or table.tree.regions[number].paradigm in FILTERABLE
        }
        return cls(tuple(table.tree.names), own if by_call_path else _by_function(own), by_call_path)

    def predicted(self, by_path: Mapping[str, float]) -> dict[str, float]:
        """Return predictions in its units; of call paths that are not among these, with the nearest caller's."""
        places = fold(tuple(by_path), self.call_paths).tolist()
        folded: dict[str, float] = {}
        for place, value in zip(places, by_path.values(), strict=True):
            if place >= 0:
                path = self.call_paths[place]
                folded[path] = folded.get(path, 0.0) + value
        return folded if self.by_call_path else _by_function(folded)


def _by_function(by_path: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for path, value in by_path.items():
        function = path.split(SEPARATOR)[-1]
        found[function] = found.get(function, 0.0) + (value if np.isfinite(value) else 0.0)
    return found


def _manual_models(table: Experiment, example: Example, folder: Path) -> tuple[dict[str, float], str]:
    if python := extrap_python():
        return predictions_by_extrap(python, table, example.at, folder), "Extra-P"
    options = SearchOptions(terms_per_parameter=1, criterion="smape")
    models = model_experiment(table, metrics=["time"], options=options)["time"]
    at = np.array([[example.at[name] for name in models.parameters]], dtype=np.float64)
    return dict(zip(models.call_paths, models.predict(at)[:, 0].tolist(), strict=True)), "Buran's hypotheses"


@dataclass(frozen=True)
class _Found:
    """What a way of measuring found.

    Attributes
    ----------
    core_hours
        That it spent.
    predicted
        Seconds at P+ by call path.
    reason, modeller
        Why it ended, and whose models these are.
    below, above
        Squared distances of the limits of 90 % intervals, by call path; empty without intervals.
    """

    core_hours: float
    predicted: Mapping[str, float]
    reason: str
    modeller: str
    below: Mapping[str, float] = field(default_factory=dict)
    above: Mapping[str, float] = field(default_factory=dict)

    def judged(self, manual_core_hours: float, truth: _Truth) -> dict[str, Any]:
        """Return a result as JSON values, of the functions above 1 %, the largest one first."""
        own, right = truth.predicted(self.predicted), truth.seconds
        least = _LEAST_SHARE * sum(right.values())
        functions = [name for name in sorted(right, key=lambda name: -right[name]) if right[name] > least]
        whole = sum(own.get(name, 0.0) for name in functions) / sum(right[name] for name in functions) - 1
        held = {"held": _held(functions, truth, self.predicted, self.below, self.above)} if self.below else {}
        return {
            "core_hours": self.core_hours,
            "manual_core_hours": manual_core_hours,
            "functions": functions,
            "errors": [abs(own[name] / right[name] - 1) if name in own else None for name in functions],
            "whole": whole,
            "reason": self.reason,
            "modeller": self.modeller,
            **held,
        }


def _held(
    functions: Sequence[str],
    truth: _Truth,
    predicted: Mapping[str, float],
    below: Mapping[str, float],
    above: Mapping[str, float],
) -> list[bool | None]:
    """Return for each function whether its 90 % interval contains the measured time; None without a model.

    Squared distances of the limits from the prediction add up over the call paths of a function.
    """
    value, down, up = truth.predicted(predicted), truth.predicted(below), truth.predicted(above)
    return [
        bool(-np.sqrt(down[name]) <= truth.seconds[name] - value[name] <= np.sqrt(up[name])) if name in value else None
        for name in functions
    ]


def _budgeted(example: Example, folder: Path, seed: int, share: float, hours: float, **changes: Any) -> Session:
    return _campaign(
        folder, f"buran-{round(100 * share)}", example, seed,
        **{
            "budget": {"core_hours": share * hours},
            "strategy": {"name": "design", "max_iterations": 12},
            "target": example.at, "refinement": {**_refined(example)},
            "effort_repetitions": 1,
            "model": {"kind": "pmnf"},
            **changes,
        },
    )  # fmt: skip


def _loop(example: Example, folder: Path, seed: int, share: float, hours: float) -> _Found:
    session = _budgeted(example, folder, seed, share, hours)
    try:
        last = carry_out(session)
    except ConfigError as error:
        return _Found(0.0, {}, error.what, "Buran")
    path = session.layout.models(session.id, last.iteration - 1)
    sets = {model.metric: model for model in read_models(path)} if path.is_file() else {}
    if "time" not in sets:
        return _Found(last.spent_core_hours, {}, last.reason, "Buran")
    times = sets["time"]
    at = np.array([[example.at[name] for name in times.parameters]], dtype=np.float64)
    values = times.predict(at)[:, 0]
    lower, upper = prediction_interval(times.models, at)
    far = [np.minimum(each, _UNBOUNDED) ** 2 for each in (values - lower[:, 0], upper[:, 0] - values)]
    by_path = [dict(zip(times.call_paths, each.tolist(), strict=True)) for each in (values, *far)]
    return _Found(last.spent_core_hours, by_path[0], last.reason, "Buran", *by_path[1:])


def _measured_at_target(example: Example, folder: Path, seed: int, share: float, hours: float) -> Session:
    """Go on with the campaign of a budget: no further round, but P+ as evaluation point, under its last filter."""
    before = History.open(_budgeted(example, folder, seed, share, hours))
    rounds = len([plan for plan in before.plans if not plan.pilot and not plan.done])
    session = _budgeted(
        example, folder, seed, share, hours,
        evaluation_points=[example.at],
        budget={"core_hours": 1000 * hours},
        strategy={"name": "design", "max_iterations": max(rounds, 1)},
    )  # fmt: skip
    carry_out(session)
    return session


def _refined(example: Example) -> dict[str, Any]:
    """Refine filters where hooks cost something."""
    return {"enabled": False} if example.is_simulated else {"pilot": True, "constants": True}
