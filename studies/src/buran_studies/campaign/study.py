"""The study `campaign`: the whole loop against the manual way and against PIRA II's, on simulated case studies.

Each way is judged by its models' predictions at P+ for the kernels above 1 % of the run time there, a kernel with all
that it calls; a kernel that a way has no model of counts as missed. The manual way instruments everything but inline
functions and measures the full matrix; what it costs is the measure of all budgets. Its models are Extra-P's own where
a Python with Extra-P is named, else those of Buran's hypotheses.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from buran.campaign.load import load_campaign
from buran.campaign.plan import Mode
from buran.errors import ConfigError
from buran.files import not_synced, write_text
from buran.instrumentation.filter_file import Filter
from buran.modeling.experiments import model_experiment
from buran.modeling.pmnf import SearchOptions
from buran.modeling.pmnf.model_set import ModelSet, read_models
from buran.profiles.experiment.build import experiment_from_profiles
from buran.profiles.profile import SEPARATOR
from buran.workflow.session import Session, open_session
from buran_studies.campaign import measured as campaign_measured
from buran_studies.campaign.cases import CASES, Case, campaign, program
from buran_studies.campaign.summary import BURAN, MANUAL, PIRA, summary
from buran_studies.evaluation.evaluation import Evaluation, Kind
from buran_studies.evaluation.study import Settings, Shard
from buran_studies.extrap import extrap_python, predictions_by_extrap
from buran_studies.simulate.backend import hooked_functions
from buran_studies.simulate.in_process import carry_out
from buran_studies.simulate.program import Program, program_of
from buran_studies.simulate.run import Variant

SHARES = (0.05, 0.1, 1.0)
"""Budgets, over what the manual way costs."""
_PIRA_SHARES = (0.1, 1.0)
_QUICK_CASES, _QUICK_SHARES = ("LULESH",), (0.1,)
_KERNEL_SHARE = 0.01
_DRAWS = 3
_PRESETS = ("default", *campaign_measured.PRESETS)


def shards(settings: Settings) -> Sequence[Shard]:
    """One shard for each program that is drawn and each way and budget; of examples, see `campaign_measured`.

    Raises
    ------
    UsageError
        For a preset that there is not: ``default`` is simulated, ``examples`` measures the bundled examples,
        ``examples-oversubscribed`` with four ranks too, ``examples-tiny`` the least of one; ``measured`` public codes
        of which there are checkouts beside them, and rivals.
    """
    settings.require(*_PRESETS)
    if settings.preset != "default":
        return campaign_measured.shards(settings.preset)
    names = _QUICK_CASES if settings.quick else tuple(CASES)
    shares = _QUICK_SHARES if settings.quick else SHARES
    out: list[Shard] = []
    for draw in range(settings.draws or _DRAWS):
        for name in names:
            seed = settings.seed + draw
            once = {} if settings.quick else {1 / CASES[name].repetitions}
            out += [{"case": name, "way": MANUAL, "share": share, "seed": seed} for share in sorted({1.0, *once})]
            for share in shares:
                out.append({"case": name, "way": BURAN, "share": share, "seed": seed})
                if share in _PIRA_SHARES:
                    out.append({"case": name, "way": PIRA, "share": share, "seed": seed})
    return out


def run_shard(shard: Shard, settings: Settings) -> Any:
    """Go one way; return the core hours that were spent and the error of each kernel, None where it has no model."""
    if settings.preset != "default":
        return campaign_measured.run_shard(shard, settings.preset, settings.seed)
    case, seed = CASES[shard["case"]], shard["seed"]
    with tempfile.TemporaryDirectory(prefix="buran-campaign-") as name, not_synced():
        folder = Path(name)
        described = program(case, seed)
        write_text(folder / "program.yaml", yaml.safe_dump(described, sort_keys=False))
        own = program_of(described, tuple(case.values), case.name)
        manual_core_hours, _ = _full_matrix(own, case, seed, folder, case.repetitions)
        reason, modeller = "the full matrix is measured", "Buran"
        if shard["way"] == MANUAL:
            spent, runs = _full_matrix(own, case, seed, folder, round(shard["share"] * case.repetitions))
            predict, modeller = _manual_models(own, case, seed, runs, folder)
        else:
            spent, predict, reason = _loop(case, seed, folder, shard["way"], shard["share"] * manual_core_hours)
    return {
        "core_hours": spent,
        "manual_core_hours": manual_core_hours,
        "errors": _errors(own, case, predict),
        "reason": reason,
        "modeller": modeller,
    }


_Runs = Sequence[tuple[Mapping[str, float], int, int]]  # point, ranks, repetition
_Predicted = Mapping[str, float]  # seconds by call path


def _full_matrix(own: Program, case: Case, seed: int, folder: Path, repetitions: int) -> tuple[float, _Runs]:
    path = folder / "manual.yaml"
    write_text(path, yaml.safe_dump(campaign(case, seed, name="manual")))
    asked = load_campaign(path)
    variant = _everything(own)
    runs, cost = [], 0.0
    for point in asked.points:
        for repetition in range(repetitions):
            runs.append((dict(point), asked.ranks(point), repetition))
            took = variant.took(point, asked.ranks(point), _key(seed, point, repetition))
            cost += took.wall_s * asked.cores(point) / 3600
    return cost, runs


def _everything(own: Program) -> Variant:
    return Variant(own, Mode.TIME, hooked_functions(own, Filter()))


def _key(seed: int, point: Mapping[str, float], repetition: int) -> str:
    return f"manual {seed} {sorted(point.items())} {repetition}"


def _manual_models(own: Program, case: Case, seed: int, runs: _Runs, folder: Path) -> tuple[_Predicted, str]:
    variant = _everything(own)
    table = experiment_from_profiles(
        (point, repetition, variant.profile(point, ranks, _key(seed, point, repetition)))
        for point, ranks, repetition in runs
    )
    if python := extrap_python():
        times = replace(table, values={"time": table.values["time"]}, units={"time": table.units["time"]})
        return predictions_by_extrap(python, times, case.target, folder), "Extra-P"
    options = SearchOptions(terms_per_parameter=1, criterion="smape")
    return _at(model_experiment(table, metrics=["time"], options=options)["time"], case), "Buran's hypotheses"


def _loop(case: Case, seed: int, folder: Path, way: str, budget: float) -> tuple[float, _Predicted, str]:
    changes: dict[str, Any] = {"budget": {"core_hours": budget}, "strategy": {"name": "design", "max_iterations": 12}}
    changes["refinement"] = {"pilot": True, "constants": True}
    changes |= {"warmup": False, "effort_repetitions": 1, "model": {"kind": "pmnf"}}
    if way == PIRA:
        changes |= {
            "strategy": {"name": "cpf", "max_iterations": 12},
            "refinement": {"strategy": "filter-and-expand"},
            "model": {"kind": "pmnf", "priors": "off", "terms_per_parameter": 1, "criterion": "smape"},
            "metrics": ["time", "visits"],
        }
    path = folder / "campaign.yaml"
    write_text(path, yaml.safe_dump(campaign(case, seed, **changes)))
    session = open_session(path)
    try:
        last = carry_out(session)
    except ConfigError as error:
        return 0.0, {}, error.what
    return last.spent_core_hours, _last_models(session, last.iteration - 1, case), last.reason


def _last_models(session: Session, iteration: int, case: Case) -> _Predicted:
    path = session.layout.models(session.id, iteration)
    sets = {model.metric: model for model in read_models(path)} if path.is_file() else {}
    return _at(sets["time"], case) if "time" in sets else {}


def _at(models: ModelSet, case: Case) -> _Predicted:
    at = np.array([[case.target[name] for name in models.parameters]], dtype=np.float64)
    return dict(zip(models.call_paths, models.predict(at)[:, 0].tolist(), strict=True))


def _errors(own: Program, case: Case, predicted: _Predicted) -> list[float | None]:
    """Return the relative errors of the kernels above 1 % at P+, the largest kernel first."""
    truth = _everything(own).truth_s(case.target, case.target["p"])
    whole = sum(truth.values())
    kernels = {node.name: _below(node.name, truth) for node in own.nodes if node.name.startswith("kernel_")}
    ranked = sorted(kernels, key=lambda name: -kernels[name])
    return [
        abs(_below(name, predicted) / kernels[name] - 1) if any(_has(name, path) for path in predicted) else None
        for name in ranked
        if kernels[name] > _KERNEL_SHARE * whole
    ]


def _below(kernel: str, seconds: Mapping[str, float]) -> float:
    return sum(value for path, value in seconds.items() if _has(kernel, path) and np.isfinite(value))


def _has(kernel: str, path: str) -> bool:
    return kernel in path.split(SEPARATOR)


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Make the table, the curves, and how much each case costs for the accuracy of the manual way."""
    if settings.preset == "default":
        return summary(shards(settings), results)
    title = "The whole loop against the manual way, on examples really measured"
    every = [result for of_example in results for result in of_example]
    measured = campaign_measured.rows(settings.preset)
    return summary(measured, every, kind=Kind.MEASURED, goal_percent=20.0, title=title)
