"""The published search for corrections: trees and trials."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from truths import PLACES, base_model, contended

from buran.errors import UsageError
from buran.modeling.correction import correct, load_base, load_corrected, write_corrected
from buran.modeling.correction.data import prepare, spawned
from buran.modeling.correction.mecp.search import Evolution, EvolutionTuning
from buran.modeling.correction.mecp.trees import CASES, Case, Grower, Population, PrefixProgram
from buran.modeling.correction.mecp.trials import as_corrected, halves, run_trials

SMALL = EvolutionTuning(population=60, generations=5, nodes=30)


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**31))
def test_trees_keep_their_values_under_all_operators(seed: int) -> None:
    random = np.random.default_rng(seed)
    points = random.uniform(0.5, 20, (5, 2))
    base = random.uniform(1, 9, (40, 5))
    grower = Grower(2, has_base=True, constant=10.0, width=40)
    trees = grower.trees(random.integers(1, 6, 40), random.random(40) < 0.5, random)

    def check(trees: Population) -> None:
        values = trees.values(points, base)
        for i in range(40):
            program = PrefixProgram(trees.program(i, ["x", "y"]))  # refuses what is no whole tree
            assert len(program.tokens) == trees.sizes[i] <= 40
            expected = program.evaluate({"x": points[:, 0], "y": points[:, 1], "@base": base[i]})
            assert np.allclose(values[i], expected, rtol=1e-9, equal_nan=True)

    check(trees)
    others = trees.take(np.arange(40)[::-1])
    at, begin = random.integers(trees.sizes), random.integers(others.sizes)
    children = trees.replaced(at, others, begin)
    check(children)
    for i in range(40):
        mine, theirs = (each.program(i, ["x", "y"]) for each in (trees, others))
        part = theirs[begin[i] : others.after[i, begin[i]]]
        wanted = (*mine[: at[i]], *part, *mine[trees.after[i, at[i]] :])
        assert children.program(i, ["x", "y"]) == (wanted if len(wanted) <= 40 else mine)


@pytest.mark.parametrize("case", CASES)
def test_the_same_seed_gives_the_same_program(case: Case) -> None:
    values = contended(PLACES)
    base = base_model()
    found = [
        Evolution(base, PLACES, values, case, base.start, spawned(seed, case, 0), SMALL).run() for seed in (1, 1, 2)
    ]
    assert found[0] == found[1] != found[2]
    again = np.sqrt(np.mean((found[0].evaluate(base, PLACES) - values) ** 2))
    assert again == pytest.approx(found[0].error, rel=1e-9)
    assert len(found[0].program.tokens) <= SMALL.nodes
    assert ("@base" in found[0].program.tokens) <= (case in (1, 3))
    assert (found[0].theta == tuple(base.start)) == (case in (1, 2))


def test_trials_and_cases_have_their_own_numbers() -> None:
    drawn = {
        tuple(spawned(0, *key).integers(2**60, size=2).tolist()) for key in ((3, 1, 0), (3, 1, 1), (3, 2, 0), (0,))
    }
    assert len(drawn) == 4


def test_better_individuals_survive() -> None:
    base = base_model()
    values = contended(PLACES)
    errors = [
        Evolution(base, PLACES, values, 3, base.start, spawned(5, 3), EvolutionTuning(60, number, nodes=30)).run().error
        for number in (0, 4, 12)
    ]
    assert errors[0] >= errors[1] >= errors[2] and errors[2] < errors[0]


def test_the_published_procedure_reports_every_trial(tmp_path: Path) -> None:
    base = base_model()
    train, test = halves(prepare(base, PLACES, contended(PLACES)), 1)
    assert len(train.points) == 9 == len(test.points)
    found = run_trials(base, train, test, 4, trials=3, seed=2, search=EvolutionTuning(80, 6, nodes=30))
    assert len(found.trials) == 3 and len({trial.evolved.program for trial in found.trials}) == 3
    assert found.chosen.result.train_rmse == min(trial.result.train_rmse for trial in found.trials)
    assert found.oracle.result.test_rmse == min(trial.result.test_rmse for trial in found.trials)
    assert 0 <= found.better <= 1
    model = as_corrected(base, found, 2)
    assert any(f"{found.oracle.result.test_rmse:.4g}" in note for note in model.report.notes)
    write_corrected(tmp_path / "published.json", model)
    again = load_corrected(tmp_path / "published.json")
    assert len(again.report.trials) == 3
    assert np.array_equal(again.predict(PLACES).value, model.predict(PLACES).value, equal_nan=True)


def test_half_of_the_points_must_train_all_parameters() -> None:
    base = load_base("evh1_2d_reconstructed")
    points = np.array([(nx, p, 0.1 * p) for nx in (128, 512, 2048) for p in (4, 8)])
    with pytest.raises(UsageError, match="7 points") as refused:
        correct(base, points, base.evaluate(base.start, points), preset="published")
    assert "of 6, 3" in str(refused.value.why)
    with pytest.raises(UsageError, match="fewer points"):
        correct(base, points[:3], base.evaluate(base.start, points[:3]), preset="published")
