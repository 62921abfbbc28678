"""A campaign's results, made up: as many call paths, points and repetitions as a test wants."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from buran.campaign.plan import Mode
from buran.instrumentation.measured import Balance, MeasuredOverhead
from buran.modeling.experiments import model_experiment
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.pmnf import Model, Quality
from buran.modeling.pmnf.alternative import Alternative
from buran.modeling.pmnf.model_set import ModelSet
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.profile import CallTree, Region
from buran.reporting.call_paths import TimedRun, predict_call_paths
from buran.reporting.content import Answer, EvaluationTest, Report, unknown_at_target
from buran.reporting.headline import Headline, headline_of
from buran.reporting.page import Iteration, IterationPoint, page_data
from buran.reporting.summary import AccountItem, CampaignSummary, Failure
from buran.reporting.text import answers_of

NASTY = "<script>alert('x')</script> & \"quoted\" </script>"


def experiment(call_paths: int, values: int = 5, repetitions: int = 5, seed: int = 1) -> Experiment:
    """Times of a random tree over p, n and k, each call path with a growth of its own and 2 % of noise."""
    random = np.random.default_rng(seed)
    names = ["main", *(f"kernel_{i}(int)" for i in range(1, call_paths - 1)), NASTY]
    regions = tuple(map(Region, names))
    parent = np.array([-1, *(int(random.integers(max(0, i - 9), i)) for i in range(1, call_paths))])
    order: list[int] = []  # in pre-order, as trees are
    below: dict[int, list[int]] = {}
    for child, above in enumerate(parent):
        below.setdefault(int(above), []).append(child)
    stack, renamed = below[-1][::-1], dict[int, int]()
    while stack:
        at = stack.pop()
        renamed[at] = len(order)
        order.append(at)
        stack.extend(below.get(at, [])[::-1])
    parents = np.array([-1 if parent[i] < 0 else renamed[int(parent[i])] for i in order])
    tree = CallTree(regions, np.array(order), parents)
    axes = [2.0 ** np.arange(1, values + 1), 1000.0 * np.arange(1, values + 1), 10.0 * np.arange(1, values + 1)]
    points = np.array(np.meshgrid(*axes, indexing="ij")).reshape(3, -1).T
    powers = random.choice([0.0, 0.5, 1.0, 2.0], size=(call_paths, 3))
    scale = 10 ** random.uniform(-3, 0, call_paths)
    truth = scale[:, None] * np.exp(powers @ np.log(points / points.min(axis=0)).T)
    noisy = truth[..., None] * random.normal(1.0, 0.02, (*truth.shape, repetitions))
    table = np.repeat(noisy[..., None], len(AGGREGATES), axis=-1)
    return Experiment(("p", "n", "k"), points, tree, {"time": table}, {"time": "sec"})


def many(number: int) -> tuple[Experiment, ModelSet]:
    """Copies of a tree of 50 call paths, each a program of its own, with models as if they were read from a file."""
    few = experiment(50, values=3, repetitions=2)
    models = ModelSet.from_json(model_experiment(few)["time"].to_json())
    copies, size = number // 50, len(few.tree.regions)
    regions = tuple(
        Region(f"{region.name}_{copy}<Long::Template<int, {copy}>>(int)")
        for copy in range(copies)
        for region in few.tree.regions
    )
    above = few.tree.parent
    tree = CallTree(
        regions,
        np.concatenate([few.tree.region + copy * size for copy in range(copies)]),
        np.concatenate([np.where(above < 0, -1, above + copy * size) for copy in range(copies)]),
    )
    times = np.concatenate([few.values["time"] / (1 + copy) for copy in range(copies)])
    table = replace(few, tree=tree, values={"time": times})
    return table, replace(models, call_paths=tree.names, models=models.models * copies)


def report(table: Experiment | None, **changes: object) -> Report:
    """Report on a table, or on a campaign in which nothing was measured."""
    models = {} if table is None or "models" in changes else dict(model_experiment(table))
    summary = CampaignSummary(
        campaign="made up & <b>bold</b>",
        done=True,
        reason="every point is measured",
        failures=(Failure("time run", "exit code 1 <oops>", "store/x/stderr.log"),),
        spent_core_hours=12.5,
        account=(AccountItem("baseline", 3, 1.5),),
    )
    plain = {
        "summary": summary,
        "notes": ["a note with <i>markup</i>"],
        "parameters": ("p", "n", "k"),
        "target": {"p": 1024.0, "n": 8000.0, "k": 80.0},
        "points": (0 if table is None else len(table.points), 125),
        "models": models,
        "runtime": None,
        "overhead": [],
        "unsteady": {},
        "evaluation": [EvaluationTest({"p": 64, "n": 6000, "k": 60}, 2.0, 2.5)],
        "priors": [],
        "balance": [Balance("solve", 1.0, 2.0, lost_share=0.1, efficiency=0.5, imbalance=0.6, variation=0.3)],
        "modelling_core_hours": 12.5,
        "full_matrix_core_hours": 100.0,
        "next_steps": ["look at the filter list"],
        "results": {"models": "latest/models.json"},
    }
    return Report(**{**plain, **changes})  # type: ignore[arg-type]


def iterations(table: Experiment | None) -> list[Iteration]:
    """One iteration that measured every point."""
    if table is None:
        return []
    rows = [dict(zip(table.parameters, map(float, row), strict=True)) for row in table.points]
    points = [IterationPoint(row, "model", 3, "measured") for row in rows]
    points[-1] = replace(points[-1], state="failed")
    wide, narrow = MeasuredOverhead(0.4, None), MeasuredOverhead(0.02, (0.01, 0.03))
    return [
        Iteration(0, "base points", points[:5], None, (), (), 1.0, None, None, wide, wide),
        Iteration(1, "the rest", points[5:], 12, ("kernel_1",), (NASTY,), 11.5, 11.0, 0.013, narrow, None),
    ]


def runs(table: Experiment | None, drift: float = 0.0) -> list[TimedRun]:
    """Three baseline and three instrumented runs of each point, a minute apart, in random blocks with 1 % of noise.

    Parameters
    ----------
    drift
        By how much a run becomes longer in an hour, as a share.
    """
    if table is None:
        return []
    random = np.random.default_rng(2)
    found = []
    for place, row in enumerate(table.points):
        modes = [Mode.VANILLA] * 3 + [Mode.TIME] * 3
        for number, mode in enumerate(random.permutation(modes)):
            started_s = 60.0 * (6 * place + number)
            wall_s = 5.0 * random.normal(1.0, 0.01) * (1 + drift * started_s / 3600)
            found.append(TimedRun(f"{mode} {place}", tuple(map(float, row)), Mode(mode), started_s, wall_s))
    return found


def data_of(said: Report, table: Experiment | None) -> dict[str, Any]:
    """What a page about it draws from."""
    return page_data(said, predict_call_paths(said), table, iterations(table), runs(table))


def headline_about(said: Report) -> Headline:
    """What a report about it begins with."""
    return headline_of(said, predict_call_paths(said), "no run succeeded")


def answers(said: Report, data: dict[str, Any]) -> list[Answer]:
    """What a reader sees first."""
    return answers_of(said, data, headline_about(said))


POINTS = tuple((p, n) for p in (1.0, 2.0, 4.0, 8.0, 16.0) for n in (100.0, 200.0, 300.0, 400.0, 500.0))
TARGET = {"p": 1024.0, "n": 1000.0}


def model(*terms: tuple[float, int, int], smape: float = 0.0) -> Model:
    """A sum of ``coefficient * p^a * n^b``."""
    constant = sum(coefficient for coefficient, a, b in terms if not a and not b)
    kept = [(c, (("p", a), ("n", b))) for c, a, b in terms if a or b]
    factors = [tuple(Factor("pn".index(x), PowerLog(Fraction(e))) for x, e in powers if e) for _, powers in kept]
    function = ModelFunction(constant, tuple(c for c, _ in kept), tuple(map(Term, factors)))
    size = 1 + len(kept)
    sure = Alternative(function, 1.0, tuple(map(tuple, np.zeros((size, size)).tolist())), smape / 100, 20)
    return Model(function, Quality(len(POINTS), smape, smape, smape, 1.0, smape), (sure,))


def models(metric: str, unit: str, **of: Model) -> ModelSet:
    names = tuple(f"main->{name}" for name in of)
    return ModelSet(("p", "n"), metric, unit, names, tuple(of.values()), "mean", "median", POINTS)


def told(times: dict[str, Model], blocks: dict[str, Model] | None = None, **changes: object):
    sets = {"time": models("time", "sec", **times)}
    if blocks:
        sets["basic_blocks"] = models("basic_blocks", "occ", **blocks)
    plain = {"parameters": ("p", "n"), "target": TARGET, "parallel": ("p",), "models": sets, "evaluation": []}
    said = report(None, **{**plain, **changes})
    return replace(said, unknown=unknown_at_target(said))
