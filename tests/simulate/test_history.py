"""What is read of a campaign: each file once, never written to, and refused in words where it is not ours."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from buran import files
from buran.campaign.plan import BuildSpec, Bundle, Mode, Purpose, Run
from buran.campaign.point import Point
from buran.campaign.records import BundleOutcome, RunOutcome, Status, core_hours
from buran.cli import main
from buran.errors import FormatError
from buran.files import not_synced
from buran.measurement.store import ledger
from buran.workflow.findings import Findings
from buran.workflow.history import FinishedRun, History, overhead
from buran.workflow.measure import plan_in_force
from buran.workflow.overhead import instrumented
from buran.workflow.plan import first_plan
from buran.workflow.program import run_times_at
from buran.workflow.report import write_results
from buran.workflow.session import Session, open_session
from buran.workflow.views.ahead import Ahead
from buran.workflow.views.summary import summarize
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened

NOBODY = 65534


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A campaign with a report."""
    with not_synced():
        session = opened(tmp_path_factory.mktemp("history"))
        carry_out(session)
        write_results(History.open(session), session.layout.results(session.id))
    return session


@pytest.fixture
def copied(finished: Session, tmp_path: Path) -> Session:
    """The same, to be damaged."""
    shutil.copytree(finished.campaign.path.parent, tmp_path / "campaign", symlinks=True)
    return open_session(tmp_path / "campaign" / finished.campaign.path.name)


@pytest.mark.parametrize(
    "change", [{"resources": {"nodes": 2}}, {"environments": {"local": {"variables": {"OMP_PROC_BIND": "close"}}}}]
)
def test_runs_made_in_another_way_are_other_bundles(tmp_path: Path, change: dict[str, Any]) -> None:
    """Else the workflow would take the pointers of earlier runs for those of the new ones."""
    before, same, after = (
        {bundle.id for bundle in first_plan(opened(tmp_path / name, **keys)).bundles}
        for name, keys in (("before", {}), ("same", {}), ("after", change))
    )
    assert before == same and before.isdisjoint(after)


def test_bundles_of_earlier_versions_keep_their_names() -> None:
    runs = (Run("0" * 16, Mode.TIME, 0), Run("1" * 16, Mode.VANILLA, -1))
    bundle = Bundle(Point.of({"p": 4, "n": 20}), Purpose.MODEL, runs)
    assert bundle.id == "8f2f8a15579993c9"
    data = bundle.to_json()
    del data["conditions"]
    assert Bundle.from_json(data) == bundle


def test_findings_of_earlier_versions_are_read(finished: Session, tmp_path: Path) -> None:
    now = json.loads(finished.layout.findings(finished.id, 0).read_text())
    now["pooled"] = {"runs": 3, "largest_uncertainty": 0.1, "visit_cost_uncertainty_s": 1e-9}
    assert now["extremes_s"] and now["startup"]
    former = {"extremes_s": "ends_s", "startup": "ends"}
    before = {former.get(name, name): value for name, value in now.items()}
    before["pooled"] = {"runs": 3, "largest_doubt": 0.1, "visit_cost_doubt_s": 1e-9}
    before["imported"] = []
    assert former.keys().isdisjoint(before)
    for name, content in (("now", now), ("before", before)):
        (tmp_path / name).write_text(json.dumps(content))
        Findings.read(tmp_path / name).write(tmp_path / f"{name} again")
    written = json.loads((tmp_path / "before again").read_text())
    assert written == json.loads((tmp_path / "now again").read_text()) == now
    assert former.keys() <= written.keys() and written.keys().isdisjoint(former.values())


def test_a_report_reads_each_pointer_once(finished: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: Counter[Path] = Counter()
    read = files.read_text

    def counted(path: Path) -> str:
        reads[path] += 1
        return read(path)

    monkeypatch.setattr(files, "read_text", counted)
    write_results(History.open(finished), tmp_path)
    pointers = {path: number for path, number in reads.items() if path.parent.parent.name == "bundles"}
    assert pointers.keys() == set(finished.layout.made_pointers("bundles"))
    assert set(pointers.values()) == {1}
    plans = [number for path, number in reads.items() if path.name == "plan.json"]
    assert len(plans) > 1 and set(plans) == {1}


def as_nobody(work: Callable[[], int]) -> int:
    """Do something as a user who owns nothing; modules must be loaded by now."""
    if os.getuid() != 0:
        return work()
    child = os.fork()
    if child == 0:
        code = 99
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            code = work()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("verb", ["status", "report", "plan", "filter"])
def test_results_of_another_user_that_cannot_be_written_are_shown(
    finished: Session, verb: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that others may enter: those of pytest are closed to them, and several processes share them."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5, 0.5, 0.5))  # what is shown may name the load
    with tempfile.TemporaryDirectory(prefix="buran-history-") as name:
        shutil.copytree(finished.campaign.path.parent, Path(name) / "campaign", symlinks=True)
        file = Path(name) / "campaign" / finished.campaign.path.name
        assert main([verb, str(file)]) == 0
        expected = capfd.readouterr().out
        modes = {path: path.stat().st_mode for path in (Path(name), *Path(name).rglob("*")) if not path.is_symlink()}
        try:
            for path, mode in modes.items():
                path.chmod((mode | 0o555 if path.is_dir() else mode | 0o444) & ~0o222)
            code = as_nobody(lambda: main([verb, str(file)]))
        finally:
            for path, mode in modes.items():
                path.chmod(mode)
        shown = capfd.readouterr()
        assert code == 0, shown.err
        assert shown.out == expected


def changed(path: Path, **changes: Any) -> None:
    path.chmod(0o644)
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, **changes}))


def paths_of(session: Session) -> dict[str, Path]:
    layout, campaign = session.layout, session.id
    return {
        "plan": layout.plan(campaign, 0),
        "findings": layout.findings(campaign, 0),
        "models": layout.models(campaign, 0),
        "bundle": layout.made_pointers("bundles")[0],
        "build": layout.made_pointers("builds")[0],
        "budget": layout.budget(campaign, 0),
        "run": next(layout.store.glob("*/*/*~*/rep-00/run.json")),
    }


def read_all(session: Session) -> None:
    """Read everything that a report and its campaign are made of."""
    history = History.open(session)
    plan_in_force(session.layout, session.id, 0)
    for plan in history.plans:
        history.outcomes([plan])
        for build in plan.builds:
            history.build_outcome(build.hash)
        if not plan.done:
            history.findings(plan.iteration)
            history.models(plan.iteration)
    for run in history.runs:
        history.run_record(run.folder)


@pytest.mark.parametrize("name", ["plan", "findings", "models", "bundle", "build", "budget", "run"])
def test_files_of_a_newer_version_are_named_and_kept(copied: Session, name: str) -> None:
    path = paths_of(copied)[name]
    schema = json.loads(path.read_text())["schema"]
    newer = schema + 1 if isinstance(schema, int) else f"{schema.partition('/')[0]}/99"
    changed(path, schema=newer, something="new")
    before = path.read_bytes()
    with pytest.raises(FormatError) as caught:
        read_all(copied)
    assert caught.value.where == str(path) and repr(newer) in str(caught.value) and "upgrade" in str(caught.value.hint)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["plan", "findings", "bundle", "build", "budget", "run"])
def test_unknown_keys_are_named(copied: Session, name: str) -> None:
    path = paths_of(copied)[name]
    changed(path, wonder=1)
    with pytest.raises(FormatError) as caught:
        read_all(copied)
    said = str(caught.value)
    assert "unknown key 'wonder'" in said and str(path) in said and "upgrade" in said
    assert ("move" if name == "run" else "delete") in str(caught.value.hint)


@pytest.mark.parametrize("name", ["plan", "findings", "models", "bundle", "build", "budget", "run"])
@pytest.mark.parametrize("text", ['{"schema": "another/1"}', "[1]", "{}", "{", '"text"'])
def test_foreign_and_damaged_files_are_named(copied: Session, name: str, text: str) -> None:
    path = paths_of(copied)[name]
    path.chmod(0o644)
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        read_all(copied)
    assert str(path) in str(caught.value)


def test_keys_inside_are_named_with_where_they_stand(copied: Session) -> None:
    path = paths_of(copied)["bundle"]
    data = json.loads(path.read_text())
    data["runs"][1]["status"] = "splendid"
    path.write_text(json.dumps(data))
    with pytest.raises(FormatError) as caught:
        read_all(copied)
    assert str(path) in str(caught.value) and "runs.1.status" in str(caught.value)


def test_a_results_folder_of_a_newer_version_is_refused_in_words(
    copied: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    changed(copied.layout.plan(copied.id, 0), schema=2)
    before = {path: path.stat().st_mtime_ns for path in copied.layout.root.rglob("*.json")}
    for verb in ("status", "plan"):
        assert main([verb, str(copied.campaign.path)]) == 2
        assert "upgrade Buran" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in copied.layout.root.rglob("*.json")} == before


def test_estimate_and_plan_predict_the_same(copied: Session) -> None:
    whole = History.open(copied)
    for plan in whole.plans[1:]:
        shutil.rmtree(copied.layout.plan(copied.id, plan.iteration).parent)
    copied.layout.findings(copied.id, 0).unlink()
    lost = [run for run in whole.runs if run.mode is Mode.TIME and run.build in whole.plans[0].builds][-3:]
    for run in lost:
        shutil.rmtree(run.folder)
    ledger.rebuild(copied.layout.store)
    history = History.open(copied)
    summary = summarize(history, Ahead.of(history))
    assert summary.next is not None and summary.next.runs == 3
    first = summary.to_come["time"]
    assert summary.next.next_core_hours == pytest.approx(first.core_hours) and first.core_hours


def test_derived_files_that_are_deleted_are_made_again(copied: Session) -> None:
    paths = paths_of(copied)
    before = {name: paths[name].read_text() for name in ("plan", "findings", "models", "bundle", "build", "budget")}
    records = sorted(path.read_text() for path in copied.layout.store.glob("*/*/*~*/*/run.json"))
    for name in before:
        paths[name].unlink()
    shutil.rmtree(copied.layout.root / "pointers")
    carry_out(copied)
    assert {name: paths[name].read_text() for name in before} == before
    assert sorted(path.read_text() for path in copied.layout.store.glob("*/*/*~*/*/run.json")) == records


def test_reading_writes_nothing(copied: Session) -> None:
    shutil.rmtree(copied.layout.root / "pointers")
    copied.layout.budget(copied.id, 0).unlink()
    before = sorted(copied.layout.root.rglob("*"))
    assert len(History.open(copied).plans) > 1
    assert sorted(copied.layout.root.rglob("*")) == before
    plan = plan_in_force(copied.layout, copied.id, 0)
    assert all(copied.layout.bundle_spec(bundle.id).is_file() for bundle in plan.bundles)
    assert copied.layout.budget(copied.id, 0).is_file()


# -- one definition of each figure ------------------------------------------------------------------------------------


def run(mode: Mode, cpu_s: float, repetition: int = 0, iteration: int = 0, filter_text: str = "a") -> FinishedRun:
    build = BuildSpec("target", mode, "" if mode is Mode.VANILLA else filter_text)
    return FinishedRun(iteration, Point.of({"n": 1}), Purpose.MODEL, mode, build, repetition, Path(), cpu_s, cpu_s)


def test_overhead_is_cpu_time_over_the_baseline_beside_it() -> None:
    runs = [
        *(run(Mode.VANILLA, cpu_s, number) for number, cpu_s in enumerate((1.0, 1.1, 5.0))),
        *(run(Mode.TIME, cpu_s, number) for number, cpu_s in enumerate((2.2, 2.0, 9.0))),
        run(Mode.VANILLA, 2.0, 3, iteration=1),
        run(Mode.TIME, 3.0, 0, iteration=1, filter_text="b"),
        run(Mode.EFFORT, 6.0, 0, iteration=2),
    ]
    wide, narrow = overhead(runs)
    assert (wide.filter_number, wide.time_ratio) == (0, 2.2 / 1.1)
    assert (narrow.filter_number, narrow.time_ratio, narrow.effort_ratio) == (1, 1.5, None)


def test_page_and_report_show_one_overhead(finished: Session) -> None:
    folder = finished.layout.results(finished.id)
    report, page = (json.loads((folder / name).read_text()) for name in ("report.json", "page.json"))
    shown = [iteration["time_overhead"]["share"] + 1 for iteration in page["iterations"]]
    by_filter: dict[int, list[float]] = {}
    for each in report["overhead"]:
        by_filter.setdefault(each["filter_number"], []).append(each["time_ratio"])
    assert shown == pytest.approx([sorted(ratios)[len(ratios) // 2] for ratios in by_filter.values()])
    assert [each["time"] for each in report["instrumentation"]] == [
        each["time_overhead"] for each in page["iterations"]
    ]
    assert all(len(ratios) % 2 for ratios in by_filter.values())


def test_the_run_time_at_the_target_is_what_predicts_it(tmp_path: Path) -> None:
    session = opened(tmp_path, model={"kind": "cpr"}, target={"p": 64, "n": 60}, refinement={"enabled": False})
    carry_out(session)
    history = History.open(session)
    folder = session.layout.results(session.id)
    write_results(history, folder)
    last = history.plans[-1].iteration - 1
    target = Point.of({"p": 64, "n": 60})
    at = run_times_at(history, history.findings(last), [target])[target]
    said = (folder / "report.txt").read_text()
    assert f"? {at:.4g} s" in said and "In normal form" in said
    assert f"{at:.4g} s" in (folder / "report.html").read_text()


def outcome(name: str, *runs: RunOutcome, point: int = 1) -> BundleOutcome:
    return BundleOutcome(name, Point.of({"n": point}), Purpose.MODEL, runs, True)


def test_a_run_that_bundles_share_is_charged_once() -> None:
    first, second = (RunOutcome("b", Mode.TIME, n, Status.MEASURED, cost_core_hours=2.0**n) for n in range(2))
    early, late = outcome("early", first), outcome("late", first, second)
    assert core_hours([early, late]) == 3.0
    assert core_hours([late], without=[early]) == 2.0
    assert core_hours([early, outcome("elsewhere", first, point=2)]) == 2.0
    open_ = [RunOutcome("b", Mode.TIME, n, Status.OVER_BUDGET, cost_core_hours=1.0) for n in range(2)]
    assert core_hours([outcome("interrupted", *open_)]) == 2.0


def test_one_reader_knows_what_is_newer() -> None:
    assert files._is_newer(2, 1) and not files._is_newer(1, 1) and not files._is_newer("2", 1)
    assert files._is_newer("a/3", "a/2") and not files._is_newer("b/3", "a/2") and not files._is_newer("a/1", "a/2")


@pytest.mark.parametrize(
    ("rules", "counts"),
    [
        ("", (None, None)),
        ("EXCLUDE *\nINCLUDE MANGLED solve\n", (1, None)),
        ("EXCLUDE *\n", (0, None)),
        ("EXCLUDE MANGLED tiny\n", (None, 1)),
    ],
)
def test_what_a_filter_instruments_is_counted(rules: str, counts: tuple[int | None, int | None]) -> None:
    text = f"SCOREP_REGION_NAMES_BEGIN\n{rules}SCOREP_REGION_NAMES_END\n" if rules else ""
    assert instrumented(text) == counts
