"""A metric that a campaign file requests and no run has is named in the notes; a default one is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from buran.files import not_synced
from buran.workflow.history import History
from buran.workflow.report import gather
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import opened


@pytest.mark.parametrize("metrics", [None, ["time", "visits"], ["time", "visits", "resident_bytes"]])
def test_a_metric_that_no_run_has_is_named(metrics: list[str] | None, tmp_path: Path) -> None:
    written = {} if metrics is None else {"metrics": metrics}
    session = opened(tmp_path, strategy={"name": "design", "max_iterations": 1}, repetitions=1, **written)
    with not_synced():
        carry_out(session)
    notes = " ".join(gather(History.open(session)).notes)
    assert ("resident_bytes" in notes) == ("resident_bytes" in (metrics or ()))
