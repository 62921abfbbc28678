"""Two campaigns side by side, on made-up measurements whose difference is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from buran.errors import UsageError
from buran.modeling.experiments import model_experiment
from buran.modeling.fit import fit_models
from buran.modeling.functions.derived import DerivedValue, variables_of
from buran.plugins.versions.compare import compare_sides, faster_in
from buran.plugins.versions.condition import Condition, broken_by
from buran.plugins.versions.difference import Comparison, Difference
from buran.plugins.versions.side import Side
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.profile import CallTree, Region

N = np.array([16.0, 32.0, 48.0, 64.0, 96.0, 128.0])
TREE = ("main", "main->solve", "main->solve->tiny", "main->setup")
TIMES = {"main": 0 * N + 0.1, "main->solve": 1e-3 * N**2, "main->solve->tiny": 2e-4 * N**2, "main->setup": 0.01 * N}
COUNTS = {"main": 0 * N + 7, "main->solve": 3 * N**2, "main->solve->tiny": N**2, "main->setup": 100 * N}


def tree_of(names: tuple[str, ...]) -> CallTree:
    regions = tuple(Region(name.rpartition("->")[2]) for name in names)
    parents = [names.index(name.rpartition("->")[0]) if "->" in name else -1 for name in names]
    return CallTree(regions, np.arange(len(names)), np.array(parents))


def side(
    name: str = "before",
    *,
    seed: int = 1,
    noise: float = 0.02,
    names: tuple[str, ...] = TREE,
    times: dict[str, np.ndarray] | None = None,
    counts: dict[str, np.ndarray] | None = None,
    repetitions: int = 3,
) -> Side:
    random = np.random.default_rng(seed)
    tree = tree_of(names)
    truth = np.array([{**TIMES, **(times or {})}[name] for name in names])
    exact = np.rint(np.array([{**COUNTS, **(counts or {})}[name] for name in names]))
    noisy = truth[..., None] * random.normal(1, noise, (*truth.shape, repetitions))
    values = {"time": noisy, "basic_blocks": np.repeat(exact[..., None], repetitions, axis=2)}
    table = Experiment(
        ("n",),
        N[:, None],
        tree,
        {name: np.repeat(value[..., None], len(AGGREGATES), axis=-1) for name, value in values.items()},
        {"time": "sec", "basic_blocks": "occ"},
    )
    return Side(name, ("n",), {"n": 256.0}, dict(model_experiment(table)), table)


def row(comparison: Comparison, metric: str, call_path: str) -> Difference:
    (found,) = (
        difference
        for difference in comparison.differences
        if (difference.metric, difference.call_path) == (metric, call_path)
    )
    return found


def test_nothing_is_called_different_where_nothing_is() -> None:
    alarms = 0
    for seed in range(12):
        found = compare_sides(side(seed=2 * seed), side("after", seed=2 * seed + 1))
        assert {difference.verdict for difference in found.differences if difference.metric == "basic_blocks"} == {
            "same"
        }
        alarms += bool(found.of("grown", "shrunk"))
        assert broken_by(found, [Condition("effort"), Condition("class")]) == ()
    assert alarms <= 2


def test_a_factor_is_seen_with_its_interval_and_counts_say_that_the_work_is_the_same() -> None:
    found = compare_sides(side(), side("after", seed=2, times={"main->solve": 1.3 * TIMES["main->solve"]}))
    solve = row(found, "time", "main->solve")
    assert solve.verdict == "grown"
    assert solve.target.lower < 1.3 < solve.target.upper
    assert not solve.faster_in
    assert row(found, "basic_blocks", "main->solve").verdict == "same"
    assert row(found, "time", "main->setup").verdict == "no difference seen"
    broken = broken_by(found, [Condition("grown", 0.1), Condition("grown", 0.5), Condition("class")])
    assert [(each.condition, each.call_path) for each in broken] == [("grown:10%", "main->solve")]


def test_a_growth_class_that_rose_is_certain_by_counts_and_by_times() -> None:
    more = np.log2(N)
    after = side(
        "after",
        seed=2,
        times={"main->setup": TIMES["main->setup"] * more},
        counts={"main->setup": COUNTS["main->setup"] * more},
    )
    found = compare_sides(side(), after)
    counted = row(found, "basic_blocks", "main->setup")
    assert (counted.verdict, counted.exact, counted.faster_in) == ("grown", True, ("n",))
    assert row(found, "time", "main->setup").growth_after == "n * log2(n)"
    assert {each.metric for each in broken_by(found, [Condition("effort", 1.0)])} == {"basic_blocks"}
    assert broken_by(compare_sides(after, side()), [Condition("effort"), Condition("grown"), Condition("class")]) == ()
    assert row(compare_sides(after, side()), "basic_blocks", "main->setup").verdict == "shrunk"


def test_the_least_change_of_a_count_is_certain_and_by_models_alone_too() -> None:
    after = side("after", seed=2, counts={"main->setup": COUNTS["main->setup"] + 1})
    assert row(compare_sides(side(), after), "basic_blocks", "main->setup").verdict == "grown"
    kept = replace(side(), counts=None)
    found = compare_sides(kept, after)
    assert row(found, "basic_blocks", "main->setup").verdict == "grown"
    assert row(found, "basic_blocks", "main->solve").verdict == "same"
    assert "by their models" in " ".join(found.notes)


def test_counts_that_depend_on_the_run_are_not_called_certain() -> None:
    after = side("after", seed=2, counts={"main->setup": COUNTS["main->setup"] + 1})
    found = compare_sides(replace(side(), unsteady={"basic_blocks": ("main->setup",)}), after)
    assert not row(found, "basic_blocks", "main->setup").exact


def test_a_function_that_has_hooks_on_one_side_only_counts_to_its_caller() -> None:
    names = tuple(name for name in TREE if not name.endswith("tiny"))
    whole = {"main->solve": TIMES["main->solve"] + TIMES["main->solve->tiny"]}
    found = compare_sides(side(), side("after", seed=2, names=names, times=whole))
    assert row(found, "time", "main->solve").verdict == "no difference seen"
    assert {each.call_path for each in found.gone} == {"main->solve->tiny"}
    assert not found.new
    back = compare_sides(side(names=names, times=whole), side("after", seed=2))
    assert {each.condition for each in broken_by(back, [Condition("new")])} == {"new"}


def test_models_without_intervals_decide_nothing_and_a_check_says_so() -> None:
    found = compare_sides(side(), side("after", seed=2, times={"main->solve": 9 * TIMES["main->solve"]}))
    assert found.of("grown")
    open_ended = side("after", seed=2)
    bare = {
        name: replace(model, models=tuple(m and replace(m, alternatives=()) for m in model.models))
        for name, model in open_ended.models.items()
    }
    found = compare_sides(side(), replace(open_ended, models=bare, counts=None))
    assert row(found, "time", "main->solve").verdict == "undecided"
    with pytest.raises(UsageError, match="cannot be checked"):
        broken_by(found, [Condition("grown")])


def test_what_cannot_be_compared_is_refused_in_words() -> None:
    one = side()
    other = {
        name: replace(model, call_paths=tuple(f"x{p}" for p in model.call_paths)) for name, model in one.models.items()
    }
    with pytest.raises(UsageError, match="call path"):
        compare_sides(one, replace(one, models=other))
    with pytest.raises(UsageError, match="other parameters"):
        compare_sides(one, replace(one, parameters=("m",), target={"m": 1.0}))
    with pytest.raises(UsageError, match="no metric"):
        compare_sides(
            replace(one, models={"time": one.models["time"]}),
            replace(one, models={"basic_blocks": one.models["basic_blocks"]}),
        )
    with pytest.raises(UsageError, match="without models"):
        compare_sides(replace(one, models={}), one)
    found = compare_sides(replace(one, target={"n": 999.0}), side("after", seed=2))
    assert "another target, n=999" in " ".join(found.notes)
    assert found.target == (256.0,)
    only = compare_sides(replace(one, models={"time": one.models["time"]}), one)
    with pytest.raises(UsageError, match="in both"):
        broken_by(only, [Condition("effort")])


def test_simulated_times_are_said_to_be_simulated() -> None:
    here, there = side(), replace(side("after", seed=2), simulated_on="a simulated machine: torus")
    assert "After: on a simulated" in " ".join(compare_sides(here, there).notes)
    assert not any("imulated" in note for note in compare_sides(here, side("after", seed=2)).notes)


def test_growth_with_values_that_are_rounded_is_compared_along_their_parameters() -> None:
    names, points = ("p", "n"), np.array([(p, n) for p in (1, 2, 3, 4, 6, 8) for n in range(9, 17)], dtype=float)
    given = [DerivedValue.of(f"c{i}", f"floor(0.73 * n / grid3(p, {i}))", names) for i in (1, 2, 3)]
    x, y, z = (value.evaluate(points) for value in given)
    values = np.stack([7 * x * y, 7 * x * y * z])
    variables = variables_of({each.name: each.text for each in given}, names, points)
    faces, cells = fit_models(points, values, exact=np.array([True, True]), variables=variables).models
    assert faces is not None and cells is not None and faster_in(faces, cells, 2) == (1,)
