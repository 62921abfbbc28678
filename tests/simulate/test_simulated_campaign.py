"""Simulated campaigns: the real loop, store and planner, without the workflow engine."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError
from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.campaign.records import RunKey, RunRecord, Status, read_run
from buran.errors import ConfigError
from buran.files import not_synced
from buran.measurement.store import store
from buran.modeling.pmnf.model_set import read_models
from buran.workflow.engine.controller import forget_derived
from buran.workflow.history import History
from buran.workflow.session import Session, open_session
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import PROGRAM, opened, written

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


def derived(session: Session) -> dict[str, bytes]:
    """Everything that was decided and modelled."""
    folder = session.layout.root / "iterations"
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def records(session: Session) -> list[RunRecord]:
    return [read_run(folder) for folder in store.run_folders(session.layout.store)]


def started(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """Leave out runs that were spared since the program fails there without hooks too."""
    return [run for run in runs if not str(run.reason).startswith("not started: ")]


def test_the_same_seed_gives_the_same_campaign_byte_for_byte(tmp_path: Path) -> None:
    one, two = (opened(tmp_path / name, noise_free(False)) for name in ("one", "two"))
    assert carry_out(one) == carry_out(two)
    assert derived(one) == derived(two)
    assert len(derived(one)) > 8
    other = opened(tmp_path / "three", noise_free(False), seed=2)
    carry_out(other)
    assert set(derived(other)) != set(derived(one))  # another campaign, with other numbers
    assert other.target.id != one.target.id


def noise_free(quiet: bool = True) -> dict[str, object]:
    return {**copy.deepcopy(PROGRAM), "noise": {"percent": 0 if quiet else 2}}


def test_refinement_works_on_the_description(tmp_path: Path) -> None:
    session = opened(tmp_path)
    last = carry_out(session)
    assert "INCLUDE MANGLED solve" in last.filter_text
    assert "tiny" not in last.filter_text
    models = {model.metric: model for model in read_models(session.layout.models(session.id, last.iteration - 1))}
    assert "simulated->main->solve" in models["time"].call_paths
    assert "simulated->main->solve->tiny" not in models["time"].call_paths
    assert "simulated->main->solve->tiny" in models["basic_blocks"].call_paths  # counted under the widest


def test_seconds_and_costs_are_virtual(tmp_path: Path) -> None:
    session = opened(tmp_path, points=[{"p": 4096, "n": 400}, {"p": 512, "n": 300}], parameters=roles())
    last = carry_out(session)
    found = [
        record
        for record in records(session)
        if record.mode == Mode.VANILLA and record.point == Point.of({"n": 400, "p": 4096})
    ]
    assert found
    for each in found:
        assert each.clock == "virtual"
        assert 14 < each.wall_s < 18  # type: ignore[operator]
        assert each.cost_core_hours == pytest.approx(each.wall_s * 4096 / 3600)  # type: ignore[operator]
        assert each.disturbances == ()
    assert last.spent_core_hours == pytest.approx(sum(e.cost_core_hours or 0.0 for e in records(session)))


def roles() -> dict[str, object]:
    return {"p": {"role": "ranks"}, "n": {"role": "size"}}


def test_time_limits_hold(tmp_path: Path) -> None:
    session = opened(tmp_path, resources={"time_limit": 0.15}, refinement={"enabled": False})
    carry_out(session)
    late = started(record for record in records(session) if record.status == Status.FAILED)
    assert late
    assert all("time limit" in str(each.reason) for each in late)
    assert all(each.wall_s == 0.15 for each in late)


def test_a_run_that_was_killed_costs_nothing_and_comes_out_the_same(tmp_path: Path) -> None:
    whole, broken = opened(tmp_path / "whole"), opened(tmp_path / "broken")
    carry_out(whole)
    carry_out(broken)
    # As kill -9 in the middle of a run leaves it: no finished run, no pointer, a half-made folder.
    plan = History.open(broken).plans[0]
    bundle = plan.bundles[0]
    pointer = broken.layout.bundle_pointer(bundle.id)
    run = next((broken.layout.store / bundle.runs[0].build).glob(f"*/{bundle.point.key}~*/rep-00"))
    (run / store.SUMS).unlink()
    run.rename(run.with_name(f".tmp-{run.name}-1-dead"))
    pointer.unlink()
    forget_derived(broken.layout, broken.id)
    carry_out(broken)
    assert derived(broken) == derived(whole)
    aborted = [record for record in records(broken) if record.status == Status.INTERRUPTED]
    assert [each.cost_core_hours for each in aborted] == [0.0]


def test_what_fails_is_tried_again_with_other_luck(tmp_path: Path) -> None:
    program = {**copy.deepcopy(PROGRAM), "failure_probability": 0.4}
    session = opened(tmp_path, program, refinement={"enabled": False})
    carry_out(session)
    failed = started(record for record in records(session) if record.status == Status.FAILED)
    assert failed
    assert {each.reason for each in failed} == {"exit code 1"}
    slots = [
        store.Slot(session.layout.store, replace(RunKey.parse(folder.relative_to(session.layout.store)), attempt=None))
        for folder in store.run_folders(session.layout.store)
        if folder.parent.name == "failed"
    ]
    for slot in slots:
        store.allow_retry(slot)
    for path in session.layout.made_pointers("bundles"):
        path.unlink()
    forget_derived(session.layout, session.id)
    carry_out(session)
    assert any(slot.is_measured() for slot in slots)


def test_a_campaign_needs_a_description(tmp_path: Path) -> None:
    path = written(tmp_path)
    text = path.read_text()
    path.write_text(text.replace("simulated: program.yaml\n", ""))
    with pytest.raises(CampaignError, match="simulated"):
        load_campaign(path)
    path.write_text(text.replace("program.yaml", "other.yaml"))
    with pytest.raises(CampaignError, match=r"other\.yaml"):
        load_campaign(path)
    path.write_text(text)
    (tmp_path / "program.yaml").write_text("[")
    with pytest.raises(ConfigError, match="cannot be read"):
        _ = open_session(path).target


def test_nothing_depends_on_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", "/nowhere")
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 99.0, 99.0))
    carry_out(opened(tmp_path, refinement={"enabled": False}))


def test_plans_do_not_depend_on_the_order_of_sets(tmp_path: Path) -> None:
    """Python orders sets of points differently in each process; sums of floats would differ in the last digit."""
    code = (
        "import sys; from pathlib import Path; from buran.workflow.session import open_session; "
        "from buran_studies.simulate.in_process import carry_out; carry_out(open_session(Path(sys.argv[1])))"
    )
    found = list[list[bytes]]()
    for seed in ("0", "1"):
        folder = tmp_path / seed / "campaign"
        path = written(folder, strategy={"name": "design", "max_iterations": 5}, budget={"core_hours": 0.02})
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", code, str(path)], env=environment, check=True)
        found.append([plan.read_bytes() for plan in sorted(folder.rglob("plan.json"))])
    assert len(found[0]) > 3 and found[0] == found[1]
