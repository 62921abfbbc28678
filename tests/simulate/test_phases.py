"""What phases take, before anything runs and afterwards; budgets that pay for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from buran.campaign.plan import Purpose
from buran.cli import main
from buran.files import not_synced
from buran.measurement.store import ledger
from buran.reporting.summary import ToCome
from buran.workflow.history import History
from buran.workflow.views.ahead import Ahead
from buran.workflow.views.summary import summarize
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened

EVALUATION = [{"p": 64, "n": 60}]


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with not_synced():
        yield


def by_phase(folder: Path, **changes: object) -> Mapping[str, ToCome]:
    session = opened(folder, strategy={"name": "full"}, evaluation_points=EVALUATION, **changes)
    history = History.open(session)
    return summarize(history, Ahead.of(history)).to_come


def test_phases_are_known_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    costs = by_phase(tmp_path, resources={"expected_time": 0.5}, budget={"core_hours": 1.0})
    runs = {phase: rest.runs for phase, rest in costs.items()}
    assert runs == {"warm-ups": 17, "vanilla": 32, "effort": 32, "time": 32, "refinement": 48, "evaluation": 6}
    cores = 4 * (4 + 8 + 16 + 32)
    assert costs["effort"].core_hours == pytest.approx(2 * 0.5 * cores / 3600)
    assert costs["effort"].seconds == pytest.approx(16.0)
    assert main(["plan", str(tmp_path / "campaign.yaml")]) == 0
    assert "evaluation" in capsys.readouterr().out


def test_what_nothing_is_known_of_has_no_cost(tmp_path: Path) -> None:
    costs = by_phase(tmp_path / "budget", budget={"core_hours": 1.0})
    assert costs["evaluation"].core_hours is None


def _within(folder: Path, budget: float, strategy: str) -> None:
    session = opened(
        folder, strategy={"name": strategy}, evaluation_points=EVALUATION, budget={"core_hours": budget}, warmup=False
    )
    carry_out(session)
    history = History.open(session)
    spent = ledger.spent_core_hours(ledger.read(session.layout.store), session.target.id)
    assert spent <= budget * 1.02  # noise of the last run
    purposes = [bundle.purpose for plan in history.plans for bundle in plan.bundles]
    assert purposes.count(Purpose.EVALUATION) == 1 and purposes.count(Purpose.MODEL) >= 5
    assert sum(item.core_hours for item in summarize(history).account) == pytest.approx(spent)
    assert not summarize(history, Ahead.of(history)).to_come


@pytest.mark.slow
def test_a_tight_budget_pays_for_all_phases(tmp_path: Path) -> None:
    _within(tmp_path, 0.07, "full")


@pytest.mark.thorough
@pytest.mark.parametrize("strategy", ["full", "lines", "design"])
@pytest.mark.parametrize("budget", [0.065, 0.08, 0.12, 0.5])
def test_budgets_pay_for_all_phases(tmp_path: Path, budget: float, strategy: str) -> None:
    _within(tmp_path, budget, strategy)
