"""The pages on adding something: their one-file examples are installed and used."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from snippets import ROOT, blocks_of, name_of

from buran.campaign.strategies import BACKENDS, STRATEGIES
from buran.cli import main
from buran.errors import ConfigError, FormatError
from buran.files import not_synced, write_json
from buran.measurement.schedulers.base import SCHEDULERS
from buran.measurement.store import claims
from buran.modeling.pmnf.model_set import SCHEMA, read_models
from buran.profiles.experiment.read import detect_format, read_experiment
from buran.profiles.metrics import metric_of, requested_by
from buran.reporting.text import render
from buran.workflow.engine.controller import StuckJobs, find_profile
from buran.workflow.history import History
from buran.workflow.plan import first_plan
from buran.workflow.report import gather, write_results
from buran.workflow.session import open_session
from buran.workflow.views.summary import summarize
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened

Install = Callable[[str], Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Write the files of a page to a folder that Python looks into, as pip does with a distribution."""

    def install(page: str) -> Path:
        for block in blocks_of(ROOT / "docs" / "development" / page):
            if "file" in block.said:
                (tmp_path / block.said["file"]).write_text(block.text)
        info = tmp_path / "example-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
        (tmp_path / "entry_points.txt").rename(info / "entry_points.txt")
        monkeypatch.syspath_prepend(tmp_path)
        return tmp_path

    yield install
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_models_of_a_family_that_is_not_installed_are_refused_in_words(tmp_path: Path) -> None:
    factor = {"parameter": 0, "family": "saturation", "half": 8.0}
    function = {"constant": 0.0, "terms": [{"coefficient": 1.0, "factors": [factor]}]}
    quality = {"points": 5, "smape": 0.0, "loo_smape": 0.0, "error": 0.0, "adjusted_r2": 1.0, "rss": 0.0}
    entry = {"call_path": "main", "model": {"function": function, "quality": quality}}
    rest = {"unit": "s", "aggregate": "mean", "repetition": "median", "points": [[1.0]], "call_paths": [entry]}
    path = tmp_path / "models.json"
    path.write_text(json.dumps({"schema": SCHEMA, "metrics": [{"parameters": ["p"], "metric": "time", **rest}]}))
    with pytest.raises(FormatError) as caught:
        read_models(path)
    assert "terms of a family 'saturation'" in str(caught.value)
    assert "buran.terms" in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_metric_is_one_file(install: Install) -> None:
    assert "interactions" not in requested_by("metrics")
    assert metric_of("interactions").role == "sampled"
    folder = install("add-a-metric.md")
    assert requested_by("metrics")[-1] == "interactions"
    assert metric_of("interactions").noise_resilient
    with not_synced():
        session = open_session(folder / "campaign.json")
        last = carry_out(session)
    models = {model.metric: model for model in read_models(session.layout.models(session.id, last.iteration - 1))}
    counted = models["interactions"]
    solve = counted.models[counted.call_paths.index("simulated->main->solve")]
    assert solve is not None
    assert solve.function.lead(counted.parameters.index("p")) == (2, 0)
    assert counted.unit == "occ"
    said = render(gather(History.open(session)))
    assert "\nInteractions (occ, exclusive, mean over ranks)\n" in said
    assert "Counts were identical in all repetitions of every point." in said


RUNS = "p,n,time_s\n" + "".join(
    f"{p},{n},{1 + 0.01 * p * n + 0.001 * repetition}\n"
    for p in (1, 2, 4, 8, 16)
    for n in (10, 20, 30, 40, 50)
    for repetition in range(2)
    if p < 16 or n < 50
)


def test_a_format_is_one_file(install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs.csv"
    runs.write_text(RUNS)
    with pytest.raises(FormatError, match="it begins with 'p,n,time_s'"):
        read_experiment(runs)
    install("add-a-format.md")
    assert detect_format(runs) == "runs-csv"
    table = read_experiment(runs)
    assert table.points.shape == (24, 2) and table.values["time"].shape[2] == 2
    assert main(["model", str(runs)]) == 0
    assert "program" in capsys.readouterr().out
    assert main(["suggest", str(runs), "--processes", "p", "-n", "1"]) == 0
    for before, after in (("runs.csv", "t.jsonl"), ("t.jsonl", "again.csv")):
        assert main(["convert", str(tmp_path / before), str(tmp_path / after)]) == 0
    again = read_experiment(tmp_path / "again.csv")
    assert np.array_equal(again.values["time"], table.values["time"], equal_nan=True)
    runs.write_text("p,time_s\n1,fast\n")
    with pytest.raises(FormatError, match=r"could not convert string to float: 'fast'"):
        read_experiment(runs)


def test_a_feature_is_one_file(install: Install, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown key 'price_per_core_hour'"):
        opened(tmp_path / "before", price_per_core_hour=2.0)
    install("add-a-feature.md")
    with pytest.raises(ConfigError, match="nothing less than nothing"):
        opened(tmp_path / "wrong", price_per_core_hour=-1.0)
    with not_synced():
        session = opened(tmp_path / "campaign", price_per_core_hour=2.0, warmup=False)
        carry_out(session)
        write_results(History.open(session), tmp_path / "out")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["price_per_core_hour"] == {"core_hours": report["spent_core_hours"], "price": 2.0}
    text, page = ((tmp_path / "out" / name).read_text() for name in ("report.txt", "report.html"))
    assert "What it costs\n-------------\n" in text and " core hours at 2 EUR" in text
    assert '<section id="price_per_core_hour">' in page
    assert opened(tmp_path / "without").id == opened(tmp_path / "again", price_per_core_hour=0.0).id != session.id


@pytest.mark.slow
def test_a_strategy_is_one_file(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    assert "farthest" not in STRATEGIES.names
    folder = install("add-a-strategy.md")
    assert "farthest" in STRATEGIES.names
    data = folder / "data.txt"
    points = "(1 10) (2 10) (8 10) (1 30) (1 80) (2 30) (8 80)"
    data.write_text(f"PARAMETER p\nPARAMETER n\nPOINTS {points}\n" + "DATA 1\n" * 7)
    assert main(["suggest", str(data), "--strategy", "farthest", "--json"]) == 0
    (asked,) = json.loads(capsys.readouterr().out)["suggestions"]
    assert asked["point"] == {"p": 8, "n": 30} and asked["reason"] == "far from all that was measured"
    (folder / "program.json").write_text(
        json.dumps({"schema": "buran-program/1", "program": {"main": {"time_s": "p + 0.1 * n"}}})
    )
    campaign = {
        "name": "far",
        "backend": "simulated",
        "simulated": "program.json",
        "parameters": {
            "p": {"role": "ranks", "values": [1, 2, 4, 8, 16, 32, 64]},
            "n": {"role": "size", "values": [10, 20, 40, 80, 160, 320, 640]},
        },
        "metrics": ["time", "visits"],
        "strategy": {"name": "farthest", "max_iterations": 9, "batch": 9},
        "refinement": {"enabled": False},
    }
    (folder / "campaign.json").write_text(json.dumps(campaign))
    with not_synced():
        session = open_session(folder / "campaign.json")
        last = carry_out(session)
    assert last.done and last.reason == "every point is measured"
    far = next(plan for plan in History.open(session).plans if "far from all that was measured" in plan.reason)
    assert far.bundles[0].point["p"] == 64


PROGRAM = """#!/bin/sh
test -z "$PHASES" && exit 0
echo "solve $1 $(($1 * $1)).0" > "$PHASES"
"""


def test_a_measurement_system_is_one_file(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = install("add-a-measurement-system.md")
    assert BACKENDS.possible_names[-1] == "phases"
    (folder / "source").mkdir()
    (folder / "source" / "program.sh").write_text(PROGRAM)
    (folder / "source" / "Makefile").write_text("program: program.sh\n\tcp $< $@ && chmod +x $@\n")
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(folder))
    with not_synced():
        session = open_session(folder / "campaign.json")
        last = carry_out(session)
    models = {model.metric: model for model in read_models(session.layout.models(session.id, last.iteration - 1))}
    timed = models["time"]
    solve = timed.models[timed.call_paths.index("program->solve")]
    assert solve is not None
    assert solve.function.lead(0) == (2, 0)
    assert models["visits"].models[1] is not None


def test_a_scheduler_is_one_file(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    campaign = tmp_path / "campaign.json"
    parameters = {"p": {"role": "ranks", "values": [2, 4, 8, 16, 32]}}
    described = {"backend": "simulated", "simulated": "program.json", "parameters": parameters}
    campaign.write_text(json.dumps({"name": "queued", "refinement": {"enabled": False}, **described}))
    program = {"schema": "buran-program/1", "program": {"main": {"time_s": 0.01}}}
    (tmp_path / "program.json").write_text(json.dumps(program))
    claim = tmp_path / "run.claim"
    monkeypatch.setenv("SPOOL_JOB", "7")
    with claims.claimed(claim):
        assert json.loads(claim.read_text())["scheduler"] is None, "it is not installed"
    folder = install("add-a-scheduler.md")
    with claims.claimed(claim):
        written = json.loads(claim.read_text())
    assert (written["scheduler"], written["job"]) == ("spool", "7")
    assert find_profile(f"{folder}/").scheduler is SCHEDULERS.load("spool")
    monkeypatch.delenv("SPOOL_JOB")
    monkeypatch.setenv("SPOOL", str(spool))

    def job(number: int, **changes: object) -> None:
        text = {"folder": str(session.layout.root), "state": "waiting", "reason": "", "purpose": "", "restarts": 0}
        (spool / f"{number}.json").write_text(json.dumps({**text, **changes}))

    session = open_session(campaign)
    plan = first_plan(session)
    write_json(session.layout.plan(session.id, 0), plan.to_json())
    first, second, *_ = plan.bundles
    assert summarize(History.open(session)).queue is None
    job(7, state="running", purpose=f"rule_measure_{first.id}")
    job(8, reason="too large", purpose=f"rule_measure_{second.id}")
    state = summarize(History.open(session))
    assert state.queue is not None
    assert (state.queue.running, state.queue.pending, state.queue.reasons) == (1, 1, {"too large": 1})
    assert sum(row.queued for row in state.rows) == len(first.runs) + len(second.runs)
    main(["status", str(campaign)])
    assert "jobs in Spool: 1 running, 1 waiting (1 too large)" in capsys.readouterr().out
    said: list[str] = []
    StuckJobs(SCHEDULERS.load("spool"), said.append).look(SCHEDULERS.load("spool").campaign_jobs(session.layout.root))
    assert "1 job may never start (too large): ask for less in resources.nodes" in said[0]
    claim.write_text(json.dumps({**written, "host": "elsewhere", "nonce": "a"}))
    os.utime(claim, (1, 1))
    assert claims.is_alive(claim)
    assert str(claims.owner_of(claim)).startswith("Spool job 7 (process ")
    claims._live_jobs.clear()
    (spool / "7.json").unlink()
    assert not claims.is_alive(claim)


DEVELOPMENT = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "development").glob("*.md"))]
ROOMS = [
    ROOT,
    *(ROOT / folder for folder in ("src", "src/buran", "src/buran/measurement", "tests", "tools", "docs/development")),
]


def prose_of(page: Path) -> str:
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def places_of(name: str) -> list[Path]:
    return [room / name for room in ROOMS if (room / name).exists()]


@pytest.mark.parametrize("page", DEVELOPMENT, ids=name_of)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    suffixes = "py|c|cc|cpp|h|smk|md|yaml|json|txt|j2|js|cff|toml"
    named = re.findall(
        rf"`((?:[\w.-]+/)+[\w-]+\.(?:{suffixes})|(?:src|tests|studies|tools|docs|config)/[\w./-]+)`", prose_of(page)
    )
    made = ("results/", "store/", "pointers/", "iterations/", "relearn/")  # by Buran, or by others
    missing = [name for name in named if not name.startswith(made) and not places_of(name)]
    assert not missing


@pytest.mark.parametrize("page", DEVELOPMENT, ids=name_of)
def test_what_a_page_says_to_be_in_a_file_is_in_it(page: Path) -> None:
    said = re.findall(r"`(\w+)`(?: and `(\w+)`)? in\s+`([\w./-]+\.(?:py|c|h|html))`", prose_of(page))
    for first, second, file in said:
        texts = [path.read_text() for path in places_of(file)]
        for name in filter(None, (first, second)):
            assert any(re.search(rf"\b{name}\b", text) for text in texts), f"{name} in {file}"
