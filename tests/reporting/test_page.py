"""The report's page: the numbers in it, what it leaves out, and that names are never markup."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from markupsafe import escape

from buran.instrumentation.measured import FilterOverhead, MeasuredOverhead
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.pmnf import Model, ModelSet, Quality
from buran.profiles.names import plain_name
from buran.reporting import call_paths
from buran.reporting.call_paths import axis_of, measured_cuts, plots_of, predict_call_paths, with_rows
from buran.reporting.html import render_page
from buran.reporting.page import as_csv, page_data
from buran.reporting.text import first_screen, render, warnings_of
from made_up import NASTY, answers, data_of, experiment, headline_about, report


@pytest.fixture(scope="module")
def small():
    table = experiment(40, values=3, repetitions=2)
    return table, report(table)


@pytest.fixture(scope="module")
def text(small):
    table, said = small
    return written(said, table)


def written(said, table) -> str:
    return render_page(said, data_of(said, table), {"compiler": "gcc"}, "no run succeeded", headline_about(said))


def data_in(text: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_numbers_are_those_of_the_models(small):
    table, said = small
    data = data_of(said, table)
    models = said.models["time"]
    target = np.array([[1024.0, 8000.0, 80.0]])
    expected = dict(zip(models.call_paths, models.predict(target)[:, 0], strict=True))
    assert len(data["paths"]) == 40
    for path in data["paths"]:
        assert path["at"] == pytest.approx(max(expected[path["name"]], 0.0), rel=1e-3)
    assert sum(path["share"] for path in data["paths"]) == pytest.approx(1.0, abs=0.01)
    first = data["paths"][0]
    place = table.tree.names.index(first["name"])
    own = table.over_locations("time")[place]
    assert first["measured"][0] == pytest.approx(np.median(own, axis=1), rel=1e-3)
    assert first["measured"][1] == pytest.approx(own.min(axis=1), rel=1e-3)
    assert data["largest"] == [8.0, 3000.0, 30.0]
    assert [[[len(each) for each in band] for band in cut] for cut in first["curves"]] == [[[13] * 3] * 3] * 2
    assert data["cuts"] == [data["largest"]] * 3  # of a full grid


def test_plots_go_through_the_measured_line_with_the_most_points(small):
    """Of points on lines, the largest one is where they cross only by chance."""
    _, said = small
    models = said.models["time"]
    points = ((2.0, 1000.0, 10.0), (4.0, 1000.0, 10.0), (8.0, 1000.0, 10.0), (2.0, 3000.0, 10.0), (8.0, 2000.0, 30.0))
    call_paths = replace(predict_call_paths(said), models=replace(models, points=points), largest=points[-1])
    through_p, through_n, through_k = measured_cuts(call_paths).tolist()
    assert through_p[1:] == [1000.0, 10.0]
    assert [through_n[0], through_n[2]] == [2.0, 10.0]
    assert through_k == [8.0, 2000.0, 30.0]  # no line has two points: the largest
    plots = plots_of(call_paths, np.array([0]), None, said)[0]
    axis = axis_of(call_paths, said, 0)
    for cut, (n, k) in zip(plots["curves"], ((1000.0, 10.0), (8000.0, 80.0)), strict=True):
        along = np.array([(p, n, k) for p in axis])
        expected = call_paths.only(np.array([0])).predict(along)[0]
        assert cut[0][0] == pytest.approx(expected.tolist(), rel=1e-3)


def test_starting_and_ending_mpi_is_an_account_of_its_own(small):
    _, plain = small
    models = plain.models["time"]
    row = int(models.predict(np.array([[1024.0, 8000.0, 80.0]]))[:, 0].argmax())
    names = tuple("main->MPI_Init" if i == row else name for i, name in enumerate(models.call_paths))
    said = replace(plain, models={"time": replace(models, call_paths=names)})
    paths = predict_call_paths(said)
    data = page_data(said, paths, None, ())
    init = next(path for path in data["paths"] if path["name"] == "main->MPI_Init")
    others = [path for path in data["paths"] if path is not init]
    assert (init["share"], init["now"]) == (None, None)
    assert init["at"] == data["start_and_end"]
    assert sum(path["share"] for path in others) == pytest.approx(1.0, abs=0.01)
    assert data["paths"].index(init) not in data["stack"]["rows"]
    where = answers(said, data)[0]
    assert "MPI_Init" not in where.answer
    assert where.facts[-1].startswith("Start-up")
    assert f"shutdown: {init['at']:.4g} s" in render(said)
    line = next(line for line in as_csv(paths).splitlines() if "MPI_Init" in line)
    assert line.split(",")[6:8] == ["", ""]


def test_ranks_that_shared_cores_in_a_test_are_named(small):
    table, said = small
    tests = [replace(test, crowded=True) for test in said.evaluation]
    shared = replace(said, evaluation=tests)
    assert "n=6000, p=64" in render(shared) or "p=64, n=6000" in render(shared)
    assert "waiting for cores" in " ".join(render(shared).split()) and "waiting for cores" not in render(said)
    how_sure = answers(shared, data_of(shared, table))[1]
    assert any("waited for cores" in fact for fact in how_sure.facts)
    assert not any(fact.startswith("Tested at") for fact in how_sure.facts)


def test_drawings_know_of_a_simulated_machine(small):
    table, said = small
    assert data_of(replace(said, simulated_on="a simulated machine: ..."), table)["simulated"] is True
    assert data_of(said, table)["simulated"] is False


def test_run_times_without_a_baseline_are_marked(small):
    table, said = small
    point = (8.0, 3000.0, 30.0)
    given = page_data(said, predict_call_paths(said), table, (), (), {point: [4.0, 2.0]})
    assert given["runtime"]["measured"] == [[list(point), 3.0, 2.0, 4.0, 2]]
    assert {each[-1] for each in data_of(said, table)["runtime"]["measured"]} == {0}


def test_a_tensor_model_predicts_the_run_time_in_every_place(small):
    table, plain = small
    times = plain.models["time"]
    runtime = replace(times, metric="runtime", call_paths=("whole program",), models=times.models[:1])
    said = replace(plain, runtime=runtime, tensor=lambda points: points.sum(axis=1))
    at = sum(said.target.values())
    data = data_of(said, table)
    assert "In normal form" in render(said, answers(said, data))
    sure = next(each for each in answers(said, data) if each.question == "How long will it take, and how sure is that?")
    assert sure.answer == f"{at:.4g} s" and "interval not known" in sure.facts[0]
    for base, (values, low, high) in zip(("largest", "target"), data["runtime"]["curves"], strict=True):
        axes, through = data["axes"], np.array(data[base])
        for parameter, (axis, curve) in enumerate(zip(axes, values, strict=True)):
            expected = through.sum() - through[parameter] + np.array(axis)
            assert curve == pytest.approx(expected.tolist(), rel=1e-3)
        assert {value for part in (*low, *high) for value in part} == {None}


def test_parents_are_callers(small):
    table, said = small
    data = data_of(said, table)
    for path in data["paths"]:
        if path["parent"] >= 0:
            assert path["name"].startswith(data["paths"][path["parent"]]["name"] + "->")
        else:
            assert path["name"] == "main"


def test_names_and_reasons_are_never_markup(text):
    assert NASTY not in text and "<script>alert" not in text and "<oops>" not in text and "<i>markup" not in text
    assert any(NASTY in name for name, *_ in data_in(text)["paths"]["regions"])
    assert text.count("</script>") == 2


def test_nothing_is_fetched(text):
    assert not re.search(r"(src|href)=[\"'](?!#)", text)
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg", "", text)


def test_a_campaign_without_a_finished_run():
    said = report(None, evaluation=[])
    assert "no run succeeded" in written(said, None)
    assert as_csv(predict_call_paths(said)).count("\n") == 1


def test_one_point_and_one_call_path():
    table = experiment(2, values=1, repetitions=1)
    said = report(table)
    assert "5 core hours" in written(said, table)
    data = data_of(said, table)
    assert len(data["paths"]) == 2 and len(data["points"]) == 1


def test_call_paths_without_models_are_shown_as_such(small):
    table, said = small
    models = said.models["time"]
    said = replace(said, models={"time": replace(models, models=(None, *models.models[1:]))})
    assert ": 1 call path. " in written(said, table)
    data = data_of(said, table)
    assert data["without_model"] == 1
    first = data["paths"][0]
    assert first["at"] is None and first["model"] == "" and "curves" not in first


def test_small_call_paths_are_left_out_and_counted(small, monkeypatch):
    table, said = small
    monkeypatch.setattr(call_paths, "MOST_CALL_PATHS", 5)
    found = predict_call_paths(said)
    kept = with_rows(found)
    assert set(np.argsort(-found.size, kind="stable")[:5]) <= set(kept) and len(kept) < 40
    assert all(found.parent[row] < 0 or found.parent[row] in kept for row in kept)
    own = written(said, table)
    data = data_of(said, table)
    assert data["left_out"] == 40 - len(kept) and f"{data['left_out']} further call paths" in own
    shown = sum(path["share"] for path in data["paths"])
    assert data["left_out_share"] == pytest.approx(1 - shown, abs=0.01)
    lines = list(csv.DictReader(io.StringIO(as_csv(found, table))))
    assert len(lines) == 40 and all(line["at target"] for line in lines)
    assert {place for place, line in enumerate(lines) if line["lower"]} == set(kept.tolist())


def test_csv_has_every_call_path(small):
    _, said = small
    rows = list(csv.DictReader(io.StringIO(as_csv(predict_call_paths(said)))))
    assert [row["call path"] for row in rows] == list(said.models["time"].call_paths)
    assert sum(float(row["share at target"]) for row in rows) == pytest.approx(1.0)


def test_the_answers_fit_on_one_screen(small):
    table, plain = small
    summary = replace(plain.summary, reason="a long reason " * 9)
    said = replace(plain, summary=summary, next_steps=["do this: " + "and that " * 40] * 5, measured_on="vm")
    said_first = answers(said, data_of(said, table))
    lines = first_screen(said, said_first).splitlines()
    assert len(lines) <= 23 and max(map(len, lines)) <= 80
    assert all(any(line.startswith(answer.question) for line in lines) for answer in said_first)
    assert "Measured on vm." in lines and any("at p=1024" in line for line in lines)


@pytest.mark.parametrize(
    ("region", "said"),
    [
        ("void std::__fill_a1<unsigned long*, unsigned long>(unsigned long*)", "std::__fill_a1"),
        ("solve(int, char const*)", "solve"),
        ("std::vector<double, std::allocator<double> >::push_back(double const&)", "std::vector::push_back"),
        ("operator<(A const&, A const&)", "operator<"),
        ("!$omp parallel @a.c:12", "!$omp parallel @a.c:12"),
        ("<lambda()>", "<lambda()>"),
        ("a < b", "a < b"),
    ],
)
def test_functions_are_named_as_people_say_them(region, said):
    assert plain_name(region) == said


def test_the_first_answer_is_a_call_path_as_it_is_spelt(small):
    table, said = small
    answer = answers(said, data_of(said, table))[0].answer
    assert answer[0].islower() and f'<p class="said">{escape(answer)}</p>' in written(said, table)


def test_predicted_and_measured_overhead_stand_beside_each_other(small, text):
    table, _ = small
    measured = MeasuredOverhead(0.02, (0.01, 0.031))
    overhead = FilterOverhead(1, 12, None, 5, 0.013, measured, None, None, 0.05, None)
    said = render(report(table, instrumentation=[overhead]))
    (line,) = [line for line in said.splitlines() if "12 functions" in line]
    assert all(share in line for share in ("+1.3 %", "+2.0 %", "+1.0 to +3.1", " 5 %"))
    assert "overhead, predicted" in text and "+1.3 %" in text


def test_models_at_the_end_of_the_space_are_named():
    points = np.array([[4.0, 10], [8, 10], [16, 10], [32, 10], [64, 10]])
    cubic = ModelFunction(1.0, (2.0,), (Term((Factor(0, PowerLog(Fraction(3))),)),))
    model = Model(cubic, Quality(5, 1.0, 1.0, 0.01, 1.0, 3.0))
    models = ModelSet(("p", "n"), "time", "s", ("main",), (model,), "sum", "mean", tuple(map(tuple, points.tolist())))
    (note,) = [text for text in warnings_of(report(None, models={"time": models})) if "largest power" in text]
    assert note.startswith("p^3 ") and "of time (1)" in note and "model.space" in note
