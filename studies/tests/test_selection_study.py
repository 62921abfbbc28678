"""The study of point selection: campaigns are fair, figures say what was played."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from buran.errors import FormatError, UsageError
from buran.modeling.experiments import model_experiment
from buran.planning.base import ONCE
from buran.planning.observations import Observations
from buran.planning.planner import BATCH
from buran.planning.protocol import Advice, PlanningState, Suggestion
from buran.planning.strategies import strategy_of
from buran.profiles.experiment.read import read_experiment
from buran_studies.evaluation.evaluation import Verdict
from buran_studies.evaluation.run import Run
from buran_studies.evaluation.study import STUDIES, Settings
from buran_studies.evaluation.text import text_of
from buran_studies.functions import beyond, draw, grid
from buran_studies.noise import inject
from buran_studies.selection import published
from buran_studies.selection import study as selection
from buran_studies.selection.cells import FAIR, TERMS_KNOWN, Cell, cells
from buran_studies.selection.executed import executed
from buran_studies.selection.pairs import differences, pair_figures, pairs_table
from buran_studies.selection.play import full_matrix_core_hours, modelled, play, space_of
from data_of_others import file_of


class Greedy:
    """Asks for the dearest place again and again, whatever it costs."""

    def suggest(self, state: PlanningState) -> Advice:
        place = len(state.space.points) - 1
        done = int(state.measured.counts.sum())
        return Advice(tuple(Suggestion(place, done + k + 1, None, 0.0, "") for k in range(3)))


def test_a_run_beyond_the_budget_is_lost_and_ends_the_campaign() -> None:
    space = space_of(grid(2), beyond(2))
    runs = np.full((25, 10), 100.0)
    one = float(space.core_hours(runs[:, 0])[-1])
    outcome, measured = play(Greedy(), space, runs[None], runs, 2.5 * one)
    assert (outcome.runs, outcome.lost, outcome.points) == (2, 1, 1)
    assert outcome.spent == 1.0 and measured.counts.tolist() == [2]


@pytest.mark.parametrize("name", ["design", "cpf", "gpr"])
def test_campaigns_repeat_and_stay_within_the_budget(name: str) -> None:
    function = draw(2, np.random.default_rng(8), "product")
    space = space_of(grid(2), beyond(2))
    truth = function.evaluate(space.points)
    runs = inject(truth, 5, repetitions=10, seed=3)
    budget = 0.05 * full_matrix_core_hours(space, truth)
    most = None if name == "design" else 8
    first, measured = play(strategy_of(name, base=ONCE), space, runs[None], runs, budget, most=most)
    second, _ = play(strategy_of(name, base=ONCE), space, runs[None], runs, budget, most=most)
    assert first == second
    places = space.indices(measured.points)
    made = [(p, r) for p, count in zip(places, measured.counts, strict=True) for r in range(count)]
    spent = sum(float(space.core_hours(runs[:, r])[p]) for p, r in made)
    assert spent <= budget * (1 + 1e-9)
    assert first.spent == pytest.approx(spent / budget) or first.lost


def test_the_published_noise_is_shared_and_grows() -> None:
    truth = np.ones(25)
    one, other = (published.noisy(times * truth, "shared", 5, seed) for times, seed in ((1, [0, 1]), (7, [0, 2])))
    assert other == pytest.approx(7 * one) and abs(one[:, 0] - 1).max() <= 0.025
    many = published.noisy(np.ones(4000), "shared", 5, [0])
    assert many[:, 3].std() > 1.7 * many[:, 0].std()
    own, another = (published.noisy(truth, "own", 5, [0, number]) for number in (1, 2))
    assert not np.allclose(own, another)
    each = published.noisy(np.ones(4000), "independent", 5, [0])
    assert each[:, 3].std() == pytest.approx(each[:, 0].std(), rel=0.1)


def test_functions_are_drawn_as_by_the_authors() -> None:
    found = [published.drawn(3, number) for number in range(60)]
    assert {function.product for function in found} == {True, False} and found[1] == published.drawn(3, 1)
    corners = np.array([[4.0, 10.0], [64.0, 50.0]])
    for function in found:
        value, terms = function.evaluate(corners), function.terms(corners)
        if function.product:
            step = 1e-6
            moved = [function.evaluate(corners + step * np.eye(2)[k]) for k in range(2)]
            assert all(((more - value) / value / step >= 0.0099).all() for more in moved)
        else:
            assert (terms / value >= 0.01).all()


def test_functions_of_the_authors_are_read_as_text(tmp_path: Path) -> None:
    texts = b"..X983.918+498.261*a**2.6666666666666665*math.log2(a)**2+652.055*b**2.5*math.log2(b)**1.."
    texts += b"\x94X\x011.5+2.25*a**0*math.log2(a)**0*3.5*b**0.25*math.log2(b)**2q"
    (tmp_path / "functions").write_bytes(texts)
    first, second = published.read_functions(tmp_path / "functions")
    assert first == published.Function(983.918, (498.261, 652.055), ((8 / 3, 2), (2.5, 1)), product=False)
    assert second.product and second.evaluate(np.array([[8.0, 16.0]]))[0] == pytest.approx(1.5 + 2.25 * 3.5 * 2 * 16)
    found = published.authors_functions(Settings("selection", data=str(tmp_path)))
    assert found == (first, second) and published.authors_functions(Settings("selection")) is None
    (tmp_path / "functions").write_bytes(b"nothing")
    with pytest.raises(FormatError, match="no functions of two parameters"):
        published.authors_functions(Settings("selection", data=str(tmp_path)))


@pytest.mark.thorough
def test_the_published_preset_says_which_step_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BURAN_EXTRAP_PYTHON", raising=False)
    settings = Settings("selection", preset="published", quick=True, seed=4, draws=1)
    made = selection.shards(settings)
    assert len(made) == len(published.STEPS) and not any(shard["extrap"] for shard in made)
    found = selection.summarise([selection.run_shard(shard, settings) for shard in made], settings)
    assert [row.published for row in found.beside] == [77.8, 47.3, 66.0]
    assert "names no Python with Extra-P" in found.modeller
    assert all("Buran's modeller instead" in row.why for row in found.beside if row.verdict is Verdict.DIFFERS)
    assert {row[0] for row in found.tables[0].rows} == {step.name for step in published.STEPS}
    assert "Beside the paper" in text_of(found)


def test_a_preset_of_an_older_version_is_answered_by_its_new_name(tmp_path: Path) -> None:
    for former in ("paper", "gpr-literal"):
        with pytest.raises(UsageError, match="is called 'published' now"):
            Run.create(Settings("selection", preset=former), tmp_path)
    with pytest.raises(UsageError, match="has no preset 'published'"):
        Run.create(Settings("machine", preset="published"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_quick_runs_on_few_functions(tmp_path: Path) -> None:
    settings = Settings("selection", quick=True, seed=5, draws=1)
    run = Run.create(settings, tmp_path)
    run.work_on_all(lambda done, of: None)
    found = run.summarise()
    assert len(found.figures) == len(cells("default", True, False)) + 1  # and a pair
    assert all(figure.samples == 1 and figure.unit.startswith("%") for figure in found.figures)
    design = next(figure for figure in found.figures if figure.name.startswith("within 5 %: design, m"))
    assert design.goal == "at least 95"
    assert "selection" in STUDIES


def test_shards_say_all_and_functions_do_not_depend_on_their_number() -> None:
    cell = Cell(FAIR, 2, 5.0, "uniform", 10.0, TERMS_KNOWN)
    settings = Settings("selection", seed=4)
    alone = selection.run_shard({**cell.to_json(), "first": 1, "functions": 1, "seed": 4}, settings)
    both = selection.run_shard({**cell.to_json(), "first": 0, "functions": 2, "seed": 4}, settings)
    assert both[1] == alone[0]


def test_the_published_protocol_has_no_campaign_where_the_base_is_not_affordable() -> None:
    space = space_of(grid(2), beyond(2))
    runs = published.noisy(published.drawn(4, 0).evaluate(space.points), "shared", 5, [0])
    assert published.campaign("cpf", published.AUTHORS, space, runs, 0.001, 0) is None
    chosen = published.campaign("gpr", published.AUTHORS, space, runs, 0.5, 0)
    assert chosen is not None
    points, values = chosen
    cores = space.cores[space.indices(points)]
    spent = float(np.nansum(values * cores[:, None])) / 3600
    assert spent <= 0.5 * sum(space.core_hours(run).sum() for run in runs.T) * (1 + 1e-9)
    assert np.isfinite(values).sum(axis=1).min() >= 1 and len(points) >= 9


def test_all_strategies_make_models_as_often_as_the_product() -> None:
    assert selection.round_of("design") is None
    assert {selection.round_of(name) for name in ("gpr", "cpf", "random")} == {BATCH}


def test_models_that_are_judged_are_those_of_the_product(tmp_path: Path) -> None:
    space = space_of(grid(2), beyond(2))
    runs = inject(draw(2, np.random.default_rng(1), "sum").evaluate(space.points), 5, repetitions=3, seed=2)
    lines = [
        json.dumps({"params": {"a": a, "b": b}, "metric": "time", "callpath": "main", "value": value})
        for (a, b), own in zip(space.points.tolist(), runs.tolist(), strict=True)
        for value in own
    ]
    (tmp_path / "runs.jsonl").write_text("\n".join(lines) + "\n")
    product = model_experiment(read_experiment(tmp_path / "runs.jsonl"), ["time"])["time"]
    judged = modelled(Observations(space.points, runs[None]))
    assert judged.predict(space.target[None]) == pytest.approx(product.predict(space.target[None]))


def test_strategies_are_compared_on_the_same_functions() -> None:
    own, other = (Cell(FAIR, 2, 5.0, "uniform", 10.0, name) for name in ("gpr", "cpf"))
    errors = {own: (1.0, 1.0, 1.0, 9.0), other: (1.0, 9.0, 9.0, 1.0)}
    gathered = {cell: [{"error": each} for each in all_] for cell, all_ in errors.items()}
    ((first, second, mean, error, count),) = differences(gathered)
    assert (first, second, count) == (own, other, 4)
    assert mean == pytest.approx(25.0) and error == pytest.approx(100 * np.std([0, 1, 1, -1], ddof=1) / 2)
    table = pairs_table(gathered, {own: "fair", other: "fair"})
    assert table is not None and table.rows[0][4:6] == ("gpr", "cpf")
    assert [figure.name for figure in pair_figures(gathered)] == ["gpr less cpf: m = 2, 5 % noise, B = 10 %"]
    assert pairs_table({own: gathered[own]}, {own: "fair"}) is None


def test_a_hundred_thousand_functions_are_a_hundred_shards_a_cell() -> None:
    found = selection.shards(Settings("selection", preset="main-m2", draws=100_000))
    assert len(found) == 17 * 100
    own = [each for each in found if each["strategy"] == "gpr" and each["budget"] == 5.0]
    numbers = [k for each in own for k in (each["first"], each["first"] + each["functions"])]
    assert numbers[0] == 0 and numbers[-1] == 100_000 and numbers[1:-1:2] == numbers[2::2]
    assert [shard["functions"] for shard in selection.shards(Settings("selection", preset="known", draws=30))[:2]] == [
        25,
        5,
    ]


def test_presets_for_so_many_parameters() -> None:
    assert {cell.parameters for cell in cells("main-m4", False, False)} == {4}
    assert cells("noise-m3", False, False) == ()
    with pytest.raises(UsageError, match="no preset 'main-m5'"):
        cells("main-m5", False, False)


def test_presets_are_named_and_data_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no preset 'all'"):
        selection.shards(Settings("selection", preset="all"))
    with pytest.raises(UsageError, match="relearn"):
        selection.relearn_table(tmp_path)
    assert len(cells("wide", False, False)) == 3 * 4 * 5 * 10 * 9


def test_real_data_are_played_without_the_point_they_are_judged_at() -> None:
    space, values, program, truth = selection.relearn_table(file_of("relearn"))
    assert len(space.points) == 24 and values.shape == (14, 24, 2) and len(truth) == 14
    assert not (space.points == space.target).all(axis=1).any()
    assert (program >= values.max(axis=0) * (1 - 1e-9)).all()


@pytest.mark.thorough
@pytest.mark.mpi
@pytest.mark.skipif(shutil.which("smpirun") is None, reason="SimGrid is not installed")
def test_strategies_are_played_on_programs_that_were_executed() -> None:
    settings = Settings("selection", preset="executed", draws=1)
    assert {shard["protocol"] for shard in selection.shards(settings)} == {"executed"}
    program = executed("sweep")
    assert program.seconds.shape[1] == len(program.program_s) == len(program.space.points) == 25
    assert program.space.target.tolist() == [256, 24]
    cell = next(cell for cell in cells("executed", False, False) if cell.strategy == "cpf" and cell.budget == 20)
    entries = selection.played_on(cell, "sweep", settings)
    assert len(entries) >= 5 and sum(entry["share"] for entry in entries) > 0.9
    assert all(0 < entry["spent"] <= 1 for entry in entries)
    assert selection.played_on(cell, "sweep", settings) == entries
