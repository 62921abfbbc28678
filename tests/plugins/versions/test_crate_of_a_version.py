"""A crate of a campaign that was compared with an earlier version."""

from __future__ import annotations

from pathlib import Path

from buran.plugins.crate.crate import write_crate
from crate_results import results_of


def test_a_crate_names_no_earlier_version(tmp_path: Path) -> None:
    results = results_of(tmp_path / "results", further="compare_with: ../old.yaml\n")
    assert write_crate(results, tmp_path / "crate") == []
    assert "old.yaml" not in (tmp_path / "crate" / "campaign.yaml").read_text()
