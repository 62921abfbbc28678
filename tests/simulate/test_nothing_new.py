"""An iteration without new runs to model takes the models of the one before."""

from __future__ import annotations

from pathlib import Path

import pytest

from buran.files import not_synced
from buran.workflow import model as loop_model
from buran.workflow.history import History
from buran.workflow.model import make_models
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened

FILES = ("models.json", "findings.json", "experiment.jsonl.gz")


def test_models_that_are_taken_over_are_those_that_would_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with not_synced():
        session = opened(tmp_path, evaluation_points=[{"p": 64, "n": 100}])
        carry_out(session)
        length = next(n for n in range(2, 9) if loop_model._nothing_new(History.open(session, n)))
        history = History.open(session, length)
        assert history.findings(length - 1).evaluation and not history.findings(length - 2).evaluation
        monkeypatch.setattr(loop_model, "_nothing_new", lambda history: False)
        make_models(history, *(tmp_path / "again" / name for name in FILES))
    taken = session.layout.iteration(session.id, length - 1)
    for name in FILES:
        assert (taken / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name


def test_models_are_made_again_where_a_run_was(tmp_path: Path) -> None:
    with not_synced():
        session = opened(tmp_path, evaluation_points=[{"p": 64, "n": 100}])
        carry_out(session)
    length = next(n for n in range(2, 9) if loop_model._nothing_new(History.open(session, n)))
    bundle = next(bundle for plan in History.open(session, length - 1).plans for bundle in plan.bundles)
    session.layout.bundle_pointer(bundle.id).touch()
    assert not loop_model._nothing_new(History.open(session, length))
