"""What a run takes at the target is one number, wherever it is said."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from buran.cli import main
from buran.cli.predict import of_models
from buran.errors import UsageError
from buran.files import not_synced
from buran.modeling.fit import fit_models
from buran.modeling.functions.terms import power
from buran.modeling.pmnf.model_set import ModelSet, write_models
from buran.modeling.priors.prior import Column, Prior
from buran.modeling.priors.resilient import fit_priors
from buran.workflow.history import History
from buran.workflow.program import add_up
from buran.workflow.report import link_latest, write_results
from buran.workflow.views.ahead import Ahead
from buran.workflow.views.summary import summarize
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened

TARGET = "p=4096,n=200"
DIGITS = 1e-3  # of texts, which have four


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with not_synced():
        session = opened(tmp_path_factory.mktemp("total"))
        carry_out(session)
        write_results(History.open(session), session.layout.results(session.id))
        link_latest(session)
    return session.campaign.path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def number(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    assert match, f"{pattern} is not in\n{text}"
    return float(match.group(1))


def test_one_total(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    latest = campaign.parent / "results" / "sim" / "latest"
    total = json.loads((latest / "report.json").read_text())["at_target"]
    whole, call_paths, startup = (total[name] for name in ("whole_s", "call_paths_s", "startup_s"))
    assert whole == pytest.approx(call_paths + startup, rel=1e-12)
    # the head and the sentences below, of the text and of the page
    for text in ((latest / "report.txt").read_text(), (latest / "report.html").read_text()):
        assert number(r"sure is that\?(?:<[^>]*>|\s)*([\d.e+-]+) s", text) == pytest.approx(whole, rel=DIGITS)
        assert number(r"([\d.e+-]+) s in call paths, ", text) == pytest.approx(call_paths, rel=DIGITS)
        assert number(r"paths, ([\d.e+-]+) s start-up", text) == pytest.approx(startup, rel=DIGITS)
    text = (latest / "report.txt").read_text()
    assert number(r"shutdown: ([\d.e+-]+) s", text) == pytest.approx(startup, rel=DIGITS)
    # tables and plots
    page = json.loads((latest / "page.json").read_text())
    assert sum(path["at"] for path in page["paths"] if path["share"] is not None) == pytest.approx(
        call_paths, rel=DIGITS
    )
    assert [curve[-1] for curve in page["stack"]["total"]] == pytest.approx([call_paths] * 2, rel=DIGITS)
    assert page["runtime"]["at"][0] == pytest.approx(whole, rel=DIGITS)
    assert page["runtime"]["at"][1] < whole < page["runtime"]["at"][2]
    assert page["start_and_end"] == pytest.approx(startup, rel=DIGITS)
    with (latest / "report.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["share at target"]]
    assert sum(float(row["at target"]) for row in rows) == pytest.approx(call_paths, rel=DIGITS)
    # commands
    predicted = json.loads(said(capsys, "predict", str(latest / "run-time.json"), "--at", TARGET, "--json"))
    (row,) = predicted["predictions"]
    assert row["predicted"] == pytest.approx(whole) and row["call paths"] == pytest.approx(call_paths)
    assert row["predicted"] - row["call paths"] == pytest.approx(startup)
    assert row["lower"] == pytest.approx(page["runtime"]["at"][1], rel=DIGITS)
    listed = said(capsys, "filter", str(campaign), "--target", TARGET)
    assert number(r"the target: ([\d.e+-]+) s a rank", listed) == pytest.approx(call_paths, rel=DIGITS)
    table = str(latest / "experiment.jsonl")
    listed = said(capsys, "filter", "--from", table, "--target", TARGET)
    assert number(r"the target: ([\d.e+-]+) s a rank", listed) == pytest.approx(call_paths, rel=DIGITS)
    history = History.open(opened_again(campaign))
    ahead = summarize(history, Ahead.of(history)).next
    assert ahead is not None and ahead.target_s == pytest.approx(whole)
    assert number(r"a run at .* takes ([\d.e+-]+) s", said(capsys, "plan", str(campaign))) == pytest.approx(
        whole, rel=DIGITS
    )


def opened_again(campaign: Path):
    from buran.workflow.session import open_session

    return open_session(campaign)


def test_the_sum_gives_what_was_measured_at_every_point(campaign: Path) -> None:
    latest = campaign.parent / "results" / "sim" / "latest"
    page = json.loads((latest / "page.json").read_text())
    report = json.loads((latest / "report.json").read_text())
    whole = ModelSet.from_json(report["runtime"])
    order = [page["parameters"].index(name) for name in whole.parameters]
    measured = {tuple(point): median for point, median, _, _, kind in page["runtime"]["measured"] if kind == 0}
    points = np.array(list(measured))[:, order]
    assert whole.predict(points)[0] == pytest.approx(list(measured.values()), rel=0.06)


def test_a_run_time_grows_with_its_call_paths_where_starting_takes_most_of_every_run() -> None:
    """As of HPCCG: 0.3 s to start MPI beside kernels of milliseconds that grow with n^3. The sum is no constant."""
    points = np.array([[8.0, 1], [8, 2], [12, 1], [16, 1], [24, 1]])
    kernel_s, start_s = 7e-7 * points[:, 0] ** 3, np.array([0.31, 0.36, 0.30, 0.32, 0.31])
    effort = Prior((Column("effort", power(0, 3)),), "counts")
    (made,) = fit_priors(points, kernel_s[None], [effort])
    assert made is not None
    rows = tuple(map(tuple, points.tolist()))
    times = ModelSet(("n", "p"), "time", "sec", ("program->main->work",), (made.model,), "mean", "median", rows)
    found = add_up(times, points, kernel_s + start_s, "p")
    assert found is not None
    far = np.array([[96.0, 4]])
    assert found[0].predict(far)[0, 0] == pytest.approx(7e-7 * 96**3 + 0.4, rel=0.1)
    assert found[1].predict(far)[0, 0] < 0.5


def test_a_file_without_a_run_time_is_named(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    latest = campaign.parent / "results" / "sim" / "latest"
    assert main(["predict", str(latest / "models.json"), "--at", TARGET]) == 2
    assert str(latest / "models.json") in capsys.readouterr().err
    assert main(["predict", str(latest / "run-time.json"), "--at", "p=4096"]) == 2
    message = capsys.readouterr().err
    assert "no value of n" in message and message.count("p=4096") == 1


def test_a_run_time_is_predicted_for_ranks_that_the_baseline_had_not(tmp_path: Path) -> None:
    """A budget may measure the baseline on one rank, and call paths on several."""
    rows = [(float(n), p) for p in (1.0, 2.0, 4.0) for n in (8, 12, 16)]
    points = np.array(rows)
    times = fit_models(points, points[None, :, 0] ** 3 / points[None, :, 1])
    whole = ModelSet(("n", "p"), "runtime", "sec", ("whole",), times.models, "wall", "median", tuple(rows[:3]))
    ends = replace(whole, call_paths=("start-up and shutdown",))
    write_models(tmp_path / "run-time.json", [whole, ends])
    paths = replace(whole, metric="time", call_paths=("main",), aggregate="mean", points=tuple(rows))
    write_models(tmp_path / "models.json", [paths])
    _, ((*_, seconds, _, _, _, _),) = of_models(tmp_path / "run-time.json", [{"n": 100, "p": 64}])
    assert seconds == pytest.approx(2 * 100**3 / 64, rel=0.1)  # both parts
    write_models(tmp_path / "models.json", [replace(paths, points=whole.points)])
    with pytest.raises(UsageError, match="p=64"):
        of_models(tmp_path / "run-time.json", [{"n": 100, "p": 64}])
