"""The bundled examples, really measured: the manual way against Buran's loop, each judged at a larger point.

Both ways measure the same matrix of points on this machine. What is right are medians of runs at P+ with everything
instrumented, as the manual way has it: hooks of the examples' functions cost little. Functions with less than 1 % of
the time there, and operations of MPI, whose waiting on fewer cores than ranks is chance, are not judged.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from buran import assets
from buran.campaign.plan import Mode, Plan, Purpose
from buran.errors import ConfigError, RunError
from buran.evaluate.campaign_summary import BURAN, MANUAL
from buran.evaluate.extrap import extrap_python, predictions_by_extrap
from buran.evaluate.study import Shard
from buran.experiment.modelling import model_experiment
from buran.experiment.table import Experiment
from buran.files import not_synced, write_text
from buran.instrument.prediction import FILTERABLE
from buran.model import SearchOptions
from buran.model.model_set import read_models
from buran.profile.profile import SEPARATOR
from buran.steps import collect
from buran.steps.loop import carry_out
from buran.steps.session import Session, open_session

SHARES = (0.2, 1.0)
"""Budgets of Buran, over what the manual way costs."""
_LEAST_SHARE = 0.01


@dataclass(frozen=True)
class Example:
    """A bundled example and what is measured of it.

    Attributes
    ----------
    binary, arguments
        The program and its arguments, ``{n}`` being its size.
    ranks, sizes
        All combinations are measured.
    target
        Ranks and size of P+.
    """

    name: str
    build: str
    arguments: str
    ranks: tuple[int, ...]
    sizes: tuple[int, ...]
    target: tuple[int, int]
    repetitions: int = 3

    @property
    def parameters(self) -> dict[str, Any]:
        """The campaign's parameters."""
        return {
            "p": {"role": "ranks", "values": list(self.ranks)},
            "n": {"role": "size", "values": list(self.sizes)},
        }

    @property
    def at(self) -> dict[str, int]:
        """P+."""
        return dict(zip(("p", "n"), self.target, strict=True))


_CXX, _C = "make MPICXX={mpicxx} CXXFLAGS='{flags}'", "make MPICC={mpicc} CFLAGS='{flags}'"
EXAMPLES: Mapping[str, Example] = {
    each.name: each
    for each in (
        Example("stencil", _CXX, "{n} 1200", (1, 2), (16, 24, 32, 40, 48), (2, 64)),
        Example("sweep", _C, "{n} 8 60", (1, 2), (8, 14, 20, 26, 32), (2, 42)),
        Example("treesort", _CXX, "{n}", (1, 2), (262144, 524288, 1048576, 2097152, 4194304), (2, 8388608)),
    )
}
_SMALL = Example("stencil", _CXX, "{n} 20", (1, 2), (8, 12, 16), (2, 20), repetitions=1)
PRESET, OVERSUBSCRIBED, TINY = "examples", "examples-oversubscribed", "examples-tiny"
PRESETS: Mapping[str, Mapping[str, Example]] = {
    PRESET: EXAMPLES,
    # On two cores, four ranks take turns: a function's time then tells of its neighbours, too.
    OVERSUBSCRIBED: {
        name: replace(each, ranks=(1, 2, 4), target=(4, each.target[1])) for name, each in EXAMPLES.items()
    },
    TINY: {_SMALL.name: _SMALL},
}


def shards(preset: str) -> list[Shard]:
    """One shard for each example: its ways run one after the other, on the same machine in the same state."""
    return [{"example": name} for name in PRESETS[preset]]


def rows(preset: str) -> list[Shard]:
    """Return case, way and budget of each entry of the results of all shards, in order."""
    ways = [(MANUAL, 1.0), *((BURAN, share) for share in SHARES)]
    return [
        {"case": shard["example"], "way": way, "share": share, "seed": 0}
        for shard in shards(preset)
        for way, share in ways
    ]


def run_shard(shard: Shard, preset: str, seed: int) -> list[dict[str, Any]]:
    """Measure an example the manual way, the truth at P+, and with Buran for each budget."""
    example = PRESETS[preset][shard["example"]]
    with tempfile.TemporaryDirectory(prefix="buran-campaign-") as name, not_synced():
        folder = Path(name)
        manual = _campaign(folder, "manual", example, seed, **_everything(example))
        carry_out(manual)
        truth = _true_s(manual)
        table, hours = _timed(manual, Purpose.MODEL)
        predicted, modeller = _manual_models(table, example, folder)
        told = [_told(hours, hours, truth, predicted, "the full matrix is measured", modeller)]
        for share in SHARES:
            told.append(_loop(example, folder, seed, share, hours, truth))
    return told


def _campaign(folder: Path, name: str, example: Example, seed: int, **changes: Any) -> Session:
    described: dict[str, Any] = {
        "name": f"{example.name}-{name}",
        "results": name,
        "target": {
            "source": str(assets.folder("examples") / example.name),
            "build": example.build,
            "flags": "-O2",
            "binary": example.name,
            "run": f"{{binary}} {example.arguments}",
        },
        "parameters": example.parameters,
        "repetitions": example.repetitions,
        "resources": {"time_limit_s": 300},
        "seed": seed,
        "warmup": False,
        **changes,
    }
    path = folder / f"{name}.yaml"
    write_text(path, yaml.safe_dump(described, sort_keys=False))
    return open_session(path)


def _everything(example: Example) -> dict[str, Any]:
    return {
        "evaluation_points": [example.at],
        "goal": "models",
        "strategy": {"name": "full"},
        "refinement": {"enabled": False},
        "metrics": ["time", "visits"],
        "model": {"kind": "pmnf", "priors": "off"},
    }


def _runs(session: Session) -> list[collect.Measured]:
    plans: list[Plan] = []
    while session.layout.plan(session.id, len(plans)).is_file():
        plans.append(session.layout.read_plan(session.id, len(plans)))
    return collect.finished_runs(session.layout, plans)


def _timed(session: Session, purpose: Purpose) -> tuple[Experiment, float]:
    """Return the times of a campaign's instrumented runs, and their core hours: nobody asked for a baseline."""
    runs = [run for run in _runs(session) if run.mode is Mode.TIME and run.purpose is purpose]
    table = collect.experiment_of(runs, session.campaign.parameters)
    if table is None:
        raise RunError("no run of the example succeeded", where=session.layout.root)
    seconds = sum(run.wall_s * session.campaign.cores(run.point) for run in runs)
    return collect.only(table, ["time"]), seconds / 3600


def _true_s(session: Session) -> dict[str, float]:
    """Return what each function takes at P+ in seconds, the mean over ranks, its callees not included."""
    table, _ = _timed(session, Purpose.EVALUATION)
    seconds = np.nanmedian(table.over_locations("time")[:, 0], axis=1)
    functions = {
        name
        for name, region in zip(table.tree.names, table.tree.region.tolist(), strict=True)
        if table.tree.regions[region].paradigm in FILTERABLE
    }
    by_path = dict(zip(table.tree.names, seconds.tolist(), strict=True))
    return _by_function({path: value for path, value in by_path.items() if path in functions})


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


def _loop(
    example: Example, folder: Path, seed: int, share: float, hours: float, truth: Mapping[str, float]
) -> dict[str, Any]:
    session = _campaign(
        folder, f"buran-{round(100 * share)}", example, seed,
        budget={"core_hours": share * hours},
        strategy={"name": "design", "max_iterations": 12},
        refinement={"target": example.at, "pilot": True, "constants": True},
        effort_repetitions=1,
        model={"kind": "pmnf"},
    )  # fmt: skip
    try:
        last = carry_out(session)
    except ConfigError as error:
        return _told(0.0, hours, truth, {}, error.what, "Buran")
    path = session.layout.models(session.id, last.iteration - 1)
    sets = {each.metric: each for each in read_models(path)} if path.is_file() else {}
    predicted: dict[str, float] = {}
    if "time" in sets:
        at = np.array([[example.at[name] for name in sets["time"].parameters]], dtype=np.float64)
        predicted = dict(zip(sets["time"].call_paths, sets["time"].predict(at)[:, 0].tolist(), strict=True))
    return _told(last.spent_core_hours, hours, truth, predicted, last.reason, "Buran")


def _told(
    core_hours: float, manual: float, truth: Mapping[str, float], predicted: Mapping[str, float], reason: str, by: str
) -> dict[str, Any]:
    """Return a result as JSON values; errors are those of the functions above 1 %, the largest one first."""
    own, whole = _by_function(predicted), sum(truth.values())
    judged = [name for name in sorted(truth, key=lambda name: -truth[name]) if truth[name] > _LEAST_SHARE * whole]
    errors = [abs(own[name] / truth[name] - 1) if name in own else None for name in judged]
    return {
        "core_hours": core_hours,
        "manual_core_hours": manual,
        "functions": judged,
        "errors": errors,
        "reason": reason,
        "modeller": by,
    }
