"""The study `campaign`: the whole loop against the manual way and against PIRA II's, on simulated case studies.

Each way is judged by its models' predictions at P+ for the kernels above 1 % of the run time there, a kernel with all
that it calls; a kernel that a way has no model of counts as missed. The manual way instruments everything but inline
functions and measures the full matrix; what it costs is the measure of all budgets.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from buran.campaign.load import load_campaign
from buran.campaign.plan import Mode
from buran.errors import ConfigError
from buran.evaluate.campaign_cases import CASES, Case, campaign, program
from buran.evaluate.evaluation import Curve, Evaluation, Figure, Kind, Plot, Table
from buran.evaluate.statistics import mean_and_error
from buran.evaluate.study import Settings, Shard
from buran.experiment.build import experiment_from_profiles
from buran.experiment.modelling import model_experiment
from buran.files import not_synced, write_text
from buran.instrument.filter_file import initial_filter
from buran.model import SearchOptions
from buran.model.model_set import ModelSet, read_models
from buran.profile.profile import SEPARATOR
from buran.simulate.backend import hooked_functions
from buran.simulate.program import Program, program_of
from buran.simulate.run import Variant
from buran.steps.loop import carry_out
from buran.steps.session import Session, open_session

MANUAL, PIRA, BURAN = "manual", "PIRA II with CPF", "Buran"
SHARES = (0.05, 0.1, 1.0)
"""Budgets, over what the manual way costs."""
_PIRA_SHARES = (0.1, 1.0)
_QUICK_CASES, _QUICK_SHARES = ("LULESH",), (0.1,)
_KERNEL_SHARE = 0.01
_CLOSE = 0.1
_DRAWS = 1


def shards(settings: Settings) -> Sequence[Shard]:
    """One shard for each program that is drawn and each way and budget."""
    names = _QUICK_CASES if settings.quick else tuple(CASES)
    shares = _QUICK_SHARES if settings.quick else SHARES
    out: list[Shard] = []
    for draw in range(settings.draws or _DRAWS):
        for name in names:
            seed = settings.seed + draw
            out.append({"case": name, "way": MANUAL, "share": 1.0, "seed": seed})
            for share in shares:
                out.append({"case": name, "way": BURAN, "share": share, "seed": seed})
                if share in _PIRA_SHARES:
                    out.append({"case": name, "way": PIRA, "share": share, "seed": seed})
    return out


def run_shard(shard: Shard, settings: Settings) -> dict[str, Any]:
    """Go one way; return the core hours that were spent and the error of each kernel, None where it has no model."""
    case, seed = CASES[shard["case"]], shard["seed"]
    with tempfile.TemporaryDirectory(prefix="buran-campaign-") as name, not_synced():
        folder = Path(name)
        described = program(case, seed)
        write_text(folder / "program.yaml", yaml.safe_dump(described, sort_keys=False))
        own = program_of(described, tuple(case.values), case.name)
        manual_core_hours, runs = _full_matrix(own, case, seed, folder)
        reason = "the full matrix is measured"
        if shard["way"] == MANUAL:
            spent, predict = manual_core_hours, _manual_models(own, case, seed, runs)
        else:
            spent, predict, reason = _loop(case, seed, folder, shard["way"], shard["share"] * manual_core_hours)
    return {
        "core_hours": spent,
        "manual_core_hours": manual_core_hours,
        "errors": _errors(own, case, predict),
        "reason": reason,
    }


_Runs = Sequence[tuple[Mapping[str, float], int, int]]  # point, ranks, repetition
_Predicted = Mapping[str, float]  # seconds by call path


def _full_matrix(own: Program, case: Case, seed: int, folder: Path) -> tuple[float, _Runs]:
    path = folder / "manual.yaml"
    write_text(path, yaml.safe_dump(campaign(case, seed, name="manual")))
    asked = load_campaign(path)
    variant = _everything(own)
    runs, cost = [], 0.0
    for point in asked.points:
        for repetition in range(case.repetitions):
            runs.append((dict(point), asked.ranks(point), repetition))
            took = variant.took(point, asked.ranks(point), _key(seed, point, repetition))
            cost += took.wall_s * asked.cores(point) / 3600
    return cost, runs


def _everything(own: Program) -> Variant:
    return Variant(own, Mode.TIME, hooked_functions(own, initial_filter()))


def _key(seed: int, point: Mapping[str, float], repetition: int) -> str:
    return f"manual {seed} {sorted(point.items())} {repetition}"


def _manual_models(own: Program, case: Case, seed: int, runs: _Runs) -> _Predicted:
    variant = _everything(own)
    table = experiment_from_profiles(
        (point, repetition, variant.profile(point, ranks, _key(seed, point, repetition)))
        for point, ranks, repetition in runs
    )
    options = SearchOptions(terms_per_parameter=1, criterion="smape")
    return _at(model_experiment(table, metrics=["time"], options=options)["time"], case)


def _loop(case: Case, seed: int, folder: Path, way: str, budget: float) -> tuple[float, _Predicted, str]:
    changes: dict[str, Any] = {"budget": {"core_hours": budget}, "strategy": {"name": "design", "max_iterations": 12}}
    changes["refinement"] = {"target": dict(case.target), "pilot": True, "constants": True}
    changes |= {"warmup": False, "effort_repetitions": 1, "model": {"kind": "pmnf"}}
    if way == PIRA:
        changes |= {
            "strategy": {"name": "cpf", "max_iterations": 12},
            "refinement": {"target": dict(case.target), "strategy": "filter-and-expand"},
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
    sets = {each.metric: each for each in read_models(path)} if path.is_file() else {}
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
    found: dict[tuple[str, str, float], list[Mapping[str, Any]]] = {}
    for shard, result in zip(shards(settings), results, strict=True):
        found.setdefault((shard["case"], shard["way"], shard["share"]), []).append(result)
    names = list(dict.fromkeys(case for case, _, _ in found))
    rows = []
    for (case, way, share), own in found.items():
        spent = _mean(own, lambda each: each["core_hours"] / each["manual_core_hours"])
        hours = _mean(own, lambda each: each["core_hours"])
        kernels = len(own[0]["errors"])
        accuracy = (100 * _mean(own, close), 100 * _mean(own, middle))
        rows.append((case, way, 100 * share, 100 * spent, hours, kernels, *accuracy))
    header = ("case", "way", "budget %", "spent %", "core h", "kernels", "within 10 % (%)", "median error %")
    figures = [figure for case in names for figure in _figures(case, found)]
    plots = tuple(_plot(case, found) for case in names)
    return Evaluation(
        "The whole loop against the manual way and PIRA II with CPF, on simulated case studies",
        tuple(figures),
        (Table("Accuracy at P+ of kernels above 1 %, and what it costs", header, tuple(rows)),),
        plots,
    )


def close(result: Mapping[str, Any]) -> float:
    """Return the share of kernels that are predicted to 10 %."""
    return float(np.mean([error is not None and error <= _CLOSE for error in result["errors"]]))


def middle(result: Mapping[str, Any]) -> float:
    """Return the median error; a kernel without a model is wrong by all of it."""
    return float(np.median([1.0 if error is None else error for error in result["errors"]]))


def _mean(results: Sequence[Mapping[str, Any]], value: Callable[[Mapping[str, Any]], float]) -> float:
    return mean_and_error([value(each) for each in results])[0]


def _figures(case: str, found: Mapping[tuple[str, str, float], Sequence[Mapping[str, Any]]]) -> list[Figure]:
    manual = _mean(found[case, MANUAL, 1.0], close)
    samples = len(found[case, MANUAL, 1.0])
    good = [
        _mean(own, lambda each: each["core_hours"] / each["manual_core_hours"])
        for (name, way, _), own in found.items()
        if name == case and way == BURAN and _mean(own, close) >= manual
    ]
    cheapest = 100 * min(good) if good else None
    note = "" if good else "no budget gave the accuracy of the manual way"
    figures = [
        Figure(
            f"{case} core hours for the manual way's accuracy", cheapest, "%", None, samples, Kind.SIMULATED,
            "at most 10", note,
        )
    ]  # fmt: skip
    shares = [share for name, way, share in found if name == case and way == BURAN]
    if 1.0 in shares:
        better, error = mean_and_error([100 * close(each) for each in found[case, BURAN, 1.0]])
        goal = f"above {100 * manual:.3g}, the manual way's" if manual < 1 else "100, as the manual way's"
        name = f"{case} kernels within 10 % at equal core hours"
        figures.append(Figure(name, better, "%", error, samples, Kind.SIMULATED, goal))
    return figures


def _plot(case: str, found: Mapping[tuple[str, str, float], Sequence[Mapping[str, Any]]]) -> Plot:
    curves = []
    for way in (MANUAL, PIRA, BURAN):
        own = [results for (name, other, _), results in found.items() if name == case and other == way]
        spots = sorted(
            (100 * _mean(each, lambda r: r["core_hours"] / r["manual_core_hours"]), 100 * _mean(each, close))
            for each in own
        )
        curves.append(Curve(way, tuple(x for x, _ in spots), tuple(y for _, y in spots)))
    title = f"{case}: accuracy at P+ against core hours"
    label = "core hours, % of the manual way's"
    return Plot(f"campaign-{case.lower()}", title, label, "kernels within 10 %, %", tuple(curves), log_x=True)
