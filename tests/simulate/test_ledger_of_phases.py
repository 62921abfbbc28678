"""Where core hours went: phase by phase, in total, and never far beyond the budget."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from buran.campaign.plan import Plan
from buran.campaign.records import BundleOutcome, RunRecord, read_run
from buran.files import not_synced
from buran.measurement.bundle import slots_of
from buran.measurement.store import store
from buran.reporting.summary import AccountItem
from buran.workflow.engine.controller import forget_derived
from buran.workflow.history import History
from buran.workflow.session import Session
from buran.workflow.views.summary import account_of, summarize
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import PROGRAM, opened

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


def records(session: Session) -> dict[str, RunRecord]:
    root = session.layout.store
    return {str(folder.relative_to(root)): read_run(folder) for folder in store.run_folders(root)}


def by_phase(session: Session) -> dict[str, AccountItem]:
    return {item.phase: item for item in summarize(History.open(session)).account}


def test_every_run_belongs_to_one_phase(tmp_path: Path) -> None:
    session = opened(tmp_path, evaluation_points=[{"p": 64, "n": 60}])
    last = carry_out(session)
    found, known = by_phase(session), records(session)

    def cost(chosen: Any) -> float:
        return sum(each.cost_core_hours or 0.0 for each in known.values() if chosen(each))

    model = [each for each in known.values() if each.purpose == "model" and not each.warmup]
    assert found["warm-ups"].core_hours == pytest.approx(cost(lambda each: each.warmup))
    assert found["evaluation"].core_hours == pytest.approx(
        cost(lambda each: each.purpose == "evaluation" and not each.warmup)
    )
    for phase, mode in (("vanilla", "vanilla"), ("effort", "effort")):
        assert found[phase].runs == sum(each.mode == mode for each in model)
    assert found["refinement"].runs + found["time"].runs == sum(each.mode == "time" for each in model)
    first = History.open(session).plans[0]
    assert found["refinement"].runs == sum(run.mode == "time" for bundle in first.bundles for run in bundle.runs)
    assert sum(item.core_hours for item in found.values()) == pytest.approx(last.spent_core_hours)
    assert "builds" not in found and "failures" not in found


def test_failures_are_paid_for(tmp_path: Path) -> None:
    session = opened(tmp_path, {**copy.deepcopy(PROGRAM), "failure_probability": 0.3}, refinement={"enabled": False})
    last = carry_out(session)
    found = by_phase(session)
    failed = [record for record in records(session).values() if record.status == "failed"]
    assert found["failures"].runs == len(failed) > 0
    assert found["failures"].core_hours == pytest.approx(sum(each.cost_core_hours or 0.0 for each in failed))
    assert sum(item.core_hours for item in found.values()) == pytest.approx(last.spent_core_hours)


def test_what_is_measured_again_is_a_duplicate_and_what_nobody_asks_for_another_version(tmp_path: Path) -> None:
    session = opened(tmp_path, refinement={"enabled": False}, warmup=False)
    carry_out(session)
    before = by_phase(session)
    bundle = History.open(session).plans[0].bundles[0]
    for key in {slot.key.folder: slot.key for _, slot in slots_of(session.target, session.layout, bundle)}.values():
        store.new_generation(session.layout.store, key)
    session.layout.bundle_pointer(bundle.id).unlink()
    forget_derived(session.layout, session.id)
    carry_out(session)
    after = by_phase(session)
    assert after["duplicates"].runs == len(bundle.runs)
    assert {phase: item.runs for phase, item in before.items()} == {
        phase: item.runs for phase, item in after.items() if phase != "duplicates"
    }
    fewer = opened(tmp_path, refinement={"enabled": False}, warmup=False, repetitions=1)
    carry_out(fewer)
    points = len(History.open(session).plans[0].bundles)
    # At each point one run of each build for time, and those of the point that was measured again twice.
    assert by_phase(fewer)["other versions"].runs == 2 * points + 2


def test_an_empty_ledger_has_no_phases() -> None:
    assert account_of([], [Plan(0, True, "nothing")], "target") == ()


def _within_budget(budget: float, strategy: str, failing: float, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = {**copy.deepcopy(PROGRAM), "failure_probability": failing}
        session = opened(
            Path(folder),
            program,
            budget={"core_hours": budget},
            strategy={"name": strategy, "max_iterations": 3},
            seed=seed,
        )
        last = carry_out(session)
        known = records(session)
        spent = sum(each.cost_core_hours or 0.0 for each in known.values())
        dearest = max(each.cost_core_hours or 0.0 for each in known.values())
        assert spent < budget + dearest
        assert sum(item.core_hours for item in summarize(History.open(session)).account) == pytest.approx(spent)
        assert summarize(History.open(session)).spent_core_hours == pytest.approx(spent)
        assert last.done and last.reason
        if not all(outcome.complete for outcome in _outcomes(session)):
            assert last.budget_reached


def _outcomes(session: Session) -> list[BundleOutcome]:
    return [BundleOutcome.read(path) for path in session.layout.made_pointers("bundles")]


STRATEGIES = st.sampled_from(["lines", "full", "cpf"])
BUDGETS = st.floats(0.0005, 0.2)


@settings(max_examples=2)
@given(BUDGETS, STRATEGIES, st.sampled_from([0.0, 0.2]), st.integers(1, 100))
@example(0.05209210087052076, "full", 0.2, 22)
def test_a_budget_holds(budget: float, strategy: str, failing: float, seed: int) -> None:
    _within_budget(budget, strategy, failing, seed)


@pytest.mark.thorough
@settings(max_examples=8)
@given(BUDGETS, STRATEGIES, st.sampled_from([0.0, 0.2]), st.integers(1, 100))
def test_many_budgets_hold(budget: float, strategy: str, failing: float, seed: int) -> None:
    _within_budget(budget, strategy, failing, seed)
