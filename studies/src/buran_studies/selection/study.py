"""The study `selection`: what the strategies that choose measurement points are worth.

Every function is a program of its own: a strategy spends a budget on runs of it, a model is made of what they gave and
judged by its error at a point beyond all that may be measured. Costs of runs are predicted, never known, and a run that
exceeds the budget is lost. All strategies make models as often as the product does, and models are judged that the
product would make of their runs. The paper's own set-up is the preset ``published``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from buran.errors import UsageError
from buran.modeling.functions.terms import ModelFunction
from buran.planning.base import Base
from buran.planning.planner import BATCH
from buran.planning.protocol import Chooses
from buran.planning.space import Array, Space
from buran.planning.strategies import strategy_of
from buran.profiles.experiment.read import read_experiment
from buran_studies.evaluation.evaluation import Curve, Evaluation, Figure, Kind, Plot, Table
from buran_studies.evaluation.study import PUBLISHED, Settings, Shard
from buran_studies.functions import (
    OUTSIDE,
    beyond,
    draw,
    draw_outside,
    grid,
    kind_inside,
    kind_outside,
    terms_prior,
)
from buran_studies.noise import PATTERNS, inject
from buran_studies.selection import published
from buran_studies.selection.cells import (
    EXECUTED,
    FAIR,
    GOALS,
    RELEARN,
    TERMS_KNOWN,
    TWO,
    Cell,
    cells,
)
from buran_studies.selection.executed import CODES, executed
from buran_studies.selection.pairs import pair_figures, pairs_table
from buran_studies.selection.play import Outcome, base_core_hours, full_matrix_core_hours, modelled, play, space_of

LIMITS = (5, 10, 15, 20)
_DRAWS, _QUICK_DRAWS = 100, 12
_TOGETHER = 25  # functions a shard, at least
_SHARDS = 100  # of a cell, about, for many functions
_REPETITIONS = 10
_HELD_OUT = (512.0, 9000.0)
_SHARE = 0.01  # of the run time; call paths below it are shown apart
_EXECUTED_DRAWS = 5
RELEARN_FILE = "relearn.txt"


def shards(settings: Settings) -> Sequence[Shard]:
    """Up to about 100 shards for each cell, of 25 functions and more; the paper's own set-up by another module."""
    if settings.preset == PUBLISHED:
        return published.shards(settings)
    draws = settings.draws or (_QUICK_DRAWS if settings.quick else _DRAWS)
    out: list[Shard] = []
    for cell in cells(settings.preset, settings.quick, settings.data is not None):
        count = 1 if cell.protocol in (RELEARN, EXECUTED) else draws
        together = max(_TOGETHER, -(-count // _SHARDS))
        for first in range(0, count, together):
            functions = min(together, count - first)
            out.append({**cell.to_json(), "first": first, "functions": functions, "seed": settings.seed})
    return out


def run_shard(shard: Shard, settings: Settings) -> Any:
    """Play the campaigns of some functions; one entry for each, or for each call path of the real data."""
    if settings.preset == PUBLISHED:
        return published.run_shard(shard, settings)
    cell = Cell.from_json(shard)
    if cell.protocol == RELEARN:
        return _relearn(cell, settings)
    if cell.protocol == EXECUTED:
        return [entry for code in CODES for entry in played_on(cell, code, settings)]
    numbers = range(shard["first"], shard["first"] + shard["functions"])
    return [_function(cell, number, shard["seed"]) for number in numbers]


def _strategy(cell: Cell) -> Chooses:
    name = "design" if cell.strategy == TERMS_KNOWN else cell.strategy
    base = Base(2) if cell.protocol == TWO else Base(1)
    return strategy_of(name, base=base, repetitions=5 if name == "full" else 2)


def round_of(strategy: str) -> int | None:
    """Return how many runs a campaign makes between two models: those of the product's planner.

    None for `design`, which weighs its runs and chooses their number itself.
    """
    return None if strategy in ("design", TERMS_KNOWN) else BATCH


def kind_of(cell: Cell, number: int) -> str:
    """Return the kind of a cell's function."""
    turn, outside = (number, False) if cell.truths == "inside" else divmod(number, 2)
    return kind_outside(turn) if outside else kind_inside(cell.parameters, turn)


def _function(cell: Cell, number: int, seed: int) -> dict[str, float]:
    kind = kind_of(cell, number)
    random = np.random.default_rng([seed, cell.parameters, number])
    function = (draw_outside if kind in OUTSIDE else draw)(cell.parameters, random, kind)
    space = space_of(grid(cell.parameters), beyond(cell.parameters))
    truth = function.evaluate(space.points)
    pattern = next(pattern for pattern in PATTERNS if pattern == cell.pattern)
    own = int(np.random.SeedSequence([seed, cell.parameters, number, 1]).generate_state(1)[0])
    runs = inject(truth, cell.noise, pattern, repetitions=_REPETITIONS, seed=own)
    full = full_matrix_core_hours(space, truth)
    budget = cell.budget / 100 * full
    wanted = 1 if cell.protocol == FAIR else 2
    affordable = base_core_hours(space, truth, wanted) <= budget
    if cell.protocol != FAIR and not affordable and cell.strategy != "design":
        return _entry(np.inf, affordable, Outcome(0, 0, 0, 0.0, 0))
    priors = []
    if cell.strategy == TERMS_KNOWN and isinstance(function, ModelFunction):
        priors = [terms_prior(function, "generated")]
    limit = 1.05 * budget if cell.strategy == "full" and cell.budget == 100 else budget  # noise makes it dearer
    outcome, measured = play(
        _strategy(cell), space, runs[None], runs, limit, seed=number, most=round_of(cell.strategy), priors=priors
    )
    model = modelled(measured).models[0] if outcome.runs else None
    true = float(function.evaluate(space.target))
    error = np.inf if model is None else 100 * abs(float(model.function.evaluate(space.target)) / true - 1)
    return _entry(error, affordable, outcome)


def _entry(error: float, affordable: bool, outcome: Outcome, share: float = 1.0) -> dict[str, float]:
    return {
        "error": float(error) if np.isfinite(error) else 1e9,  # JSON has no infinity
        "affordable": float(affordable),
        "runs": outcome.runs,
        "points": outcome.points,
        "lost": outcome.lost,
        "spent": outcome.spent,
        "share": share,
    }


def relearn_table(folder: Path) -> tuple[Space, Array, Array, Array]:
    """Read the case study's data: space, values (call path, place, repetition), program time and held-out values.

    Raises
    ------
    UsageError
        The file is not there, or it is not the data of that study.
    """
    path = folder / RELEARN_FILE
    if not path.is_file():
        raise UsageError(f"the folder has no {RELEARN_FILE}", where=folder, hint="name the folder that holds it")
    experiment = read_experiment(path)
    order = [experiment.parameters.index(name) for name in ("p", "n") if name in experiment.parameters]
    points = experiment.points[:, order]
    held = (points == _HELD_OUT).all(axis=1)
    if len(order) != 2 or held.sum() != 1:
        raise UsageError("these are not the measurements of RELeARN over p and n", where=path)
    values = experiment.over_locations(experiment.metrics[0])
    space = replace(space_of(points[~held], np.array(_HELD_OUT)), parameters=("p", "n"), most_repetitions=2)
    at = {tuple(point): k for k, point in enumerate(points.tolist())}
    rows = [at[tuple(point)] for point in space.points.tolist()]
    program = (
        values[[experiment.tree.names.index("main()")]][0] if "main()" in experiment.tree.names else values.max(axis=0)
    )
    return space, values[:, rows], program[rows], values[:, held][:, 0].mean(axis=1)


def _relearn(cell: Cell, settings: Settings) -> list[dict[str, float]]:
    """Play one campaign for all call paths together."""
    space, values, program_s, truth = relearn_table(settings.data_folder())
    full = float((space.core_hours(program_s[:, 0]) + space.core_hours(program_s[:, 1])).sum())
    budget = cell.budget / 100 * full * (1 + 1e-9)
    strategy = strategy_of(cell.strategy, base=Base(1), repetitions=2)
    outcome, measured = play(strategy, space, values, program_s, budget, most=round_of(cell.strategy))
    predicted = modelled(measured).predict(space.target[None])[:, 0]
    affordable = base_core_hours(space, program_s.mean(axis=1), 1) <= budget
    out = []
    for value, true in zip(predicted.tolist(), truth.tolist(), strict=True):
        error = 100 * abs(value / true - 1) if true else 100.0 * (value != 0)
        out.append(_entry(error, affordable, outcome, true / max(truth.max(), 1e-300)))
    return out


def played_on(cell: Cell, code: str, settings: Settings) -> list[dict[str, float]]:
    """Play campaigns on an executed program: one entry for each call path above 1 % of each draw of the noise."""
    program = executed(code)
    full = full_matrix_core_hours(program.space, program.program_s)
    affordable = base_core_hours(program.space, program.program_s, 1) <= cell.budget / 100 * full
    share = program.truth / program.truth.sum()
    out = []
    for number in range(settings.draws or _EXECUTED_DRAWS):
        own = int(np.random.SeedSequence([settings.seed, number]).generate_state(1)[0])
        values, program_s = (
            inject(each, cell.noise, repetitions=_REPETITIONS, seed=own + kind)
            for kind, each in enumerate((program.seconds, program.program_s))
        )
        strategy = strategy_of(cell.strategy, base=Base(1), repetitions=5 if cell.strategy == "full" else 2)
        limit = (1.05 if cell.strategy == "full" else 1.0) * cell.budget / 100 * full
        most = round_of(cell.strategy)
        outcome, measured = play(strategy, program.space, values, program_s, limit, seed=number, most=most)
        predicted = modelled(measured).predict(program.space.target[None])[:, 0]
        for row in np.flatnonzero(share >= _SHARE).tolist():
            error = 100 * abs(predicted[row] / program.truth[row] - 1)
            out.append(_entry(error, affordable, outcome, float(share[row])))
    return out


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Make a table of all cells, figures for those with a goal, and curves over the budget."""
    if settings.preset == PUBLISHED:
        return published.summarise(results, settings)
    gathered: dict[Cell, list[dict[str, float]]] = {}
    for shard, result in zip(shards(settings), results, strict=True):
        gathered.setdefault(Cell.from_json(shard), []).extend(result)
    rows: list[tuple[str | int | float | None, ...]] = []
    figures = []
    for cell, entries in gathered.items():
        rows.append((_protocol(cell), cell.parameters, cell.noise, cell.budget, cell.strategy, *_columns(entries)))
        figures.append(_figure(cell, entries))
        if cell.protocol == RELEARN:
            large = [entry for entry in entries if entry["share"] >= _SHARE]
            rows.append((f"{_protocol(cell)}, >= 1 %", 2, cell.noise, cell.budget, cell.strategy, *_columns(large)))
    header = (
        "protocol", "m", "noise %", "B %", "strategy", *(f"<= {limit} %" for limit in LIMITS), "median error %",
        "base affordable %", "<= 5 % of these", "runs", "points", "lost", "budget used %", "functions",
    )  # fmt: skip
    tables = [Table("Share of functions predicted within 5 to 20 % beyond all points", header, tuple(rows))]
    pairs = pairs_table(gathered, {cell: _protocol(cell) for cell in gathered})
    tables += [pairs] if pairs else []
    tables += [_kinds_table(gathered)]
    figures += pair_figures(gathered)
    notes = (
        "fair: one repetition of the base for every strategy, points that do not fit left out; base twice: two "
        "repetitions, a function whose base exceeds the budget counts as a miss; costs are predicted by models.",
        "affordable: the base with these repetitions costs no more than the budget.",
    )
    return Evaluation(
        "Strategies that choose measurement points", tuple(figures), tuple(tables), _plots(gathered), notes
    )


def _kinds_table(gathered: dict[Cell, list[dict[str, float]]]) -> Table:
    """Return the share within 5 % of each kind of function."""
    rows: list[tuple[str | int | float | None, ...]] = []
    for cell, entries in gathered.items():
        hits = np.array([entry["error"] <= LIMITS[0] for entry in entries])
        kinds = (
            [] if cell.protocol in (RELEARN, EXECUTED) else [kind_of(cell, number) for number in range(len(entries))]
        )
        for kind in dict.fromkeys(kinds):
            here = hits[np.array([other == kind for other in kinds])]
            key = (_protocol(cell), cell.parameters, cell.noise, cell.budget, cell.strategy)
            rows.append((*key, kind, 100 * float(here.mean()), len(here)))
    header = ("protocol", "m", "noise %", "B %", "strategy", "kind", "<= 5 %", "functions")
    return Table("Share within 5 % by the kind of function", header, tuple(rows))


def _protocol(cell: Cell) -> str:
    name = {FAIR: "fair", TWO: "base twice", RELEARN: "RELeARN", EXECUTED: "executed"}[cell.protocol]
    return name if cell.pattern in ("uniform", "measured") else f"{name}, {cell.pattern} noise"


def _columns(entries: Sequence[dict[str, float]]) -> tuple[float, ...]:
    error = np.array([entry["error"] for entry in entries])
    affordable = np.array([entry["affordable"] for entry in entries]) > 0
    mean = {name: float(np.mean([entry[name] for entry in entries])) for name in ("runs", "points", "spent")}
    return (
        *(100 * float(np.mean(error <= limit)) for limit in LIMITS),
        float(np.median(error)),
        100 * float(affordable.mean()),
        100 * float(np.mean(error[affordable] <= LIMITS[0])) if affordable.any() else 0.0,
        mean["runs"],
        mean["points"],
        float(sum(entry["lost"] for entry in entries)),
        100 * mean["spent"],
        len(entries),
    )


def _figure(cell: Cell, entries: Sequence[dict[str, float]]) -> Figure:
    hits = np.array([entry["error"] <= LIMITS[0] for entry in entries])
    share = float(hits.mean())
    goal = GOALS.get((cell.parameters, cell.noise, cell.budget), "") if _judged(cell) else ""
    if cell.strategy == TERMS_KNOWN:
        goal = "as the full matrix"
    kind = Kind.MEASURED if cell.protocol == RELEARN else Kind.SIMULATED
    error = 100 * float(np.sqrt(share * (1 - share) / len(hits)))
    return Figure(f"within 5 %: {cell.name}", 100 * share, "%", error, len(hits), kind, goal)


def _judged(cell: Cell) -> bool:
    return cell.strategy == "design" and cell.protocol == FAIR and cell.pattern == "uniform"


def _plots(gathered: dict[Cell, list[dict[str, float]]]) -> tuple[Plot, ...]:
    """Curves over the budget, like Fig. 5 (within 5 %) and Fig. 6 (all limits) of the paper."""
    out = []
    groups: dict[tuple[str, int, float], dict[str, dict[float, list[float]]]] = {}
    for cell, entries in gathered.items():
        own = groups.setdefault((_protocol(cell), cell.parameters, cell.noise), {})
        own.setdefault(cell.strategy, {})[cell.budget] = [entry["error"] for entry in entries]
    for (protocol, parameters, noise), strategies in groups.items():
        if max(len(budgets) for budgets in strategies.values()) < 2:
            continue
        for limit in LIMITS:
            curves = tuple(_curve(name, budgets, limit) for name, budgets in strategies.items())
            name = "-".join(f"{protocol} m{parameters} noise{noise:g} within{limit}".replace(",", "").split())
            title = f"{protocol}, m = {parameters}, {noise:g} % noise"
            out.append(
                Plot(name, title, "budget, % of the full matrix", f"within {limit} %, % of functions", curves, True)
            )
    return tuple(out)


def _curve(name: str, budgets: dict[float, list[float]], limit: int) -> Curve:
    x = sorted(budgets)
    share = [float(np.mean(np.array(budgets[budget]) <= limit)) for budget in x]
    errors: Iterable[float] = (100 * (s * (1 - s) / len(budgets[b])) ** 0.5 for s, b in zip(share, x, strict=True))
    return Curve(name, tuple(x), tuple(100 * part for part in share), tuple(errors))
