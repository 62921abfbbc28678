"""The table of metrics, and what is asked of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from buran.campaign.shape import CampaignFile
from buran.errors import PluginError
from buran.profiles import metrics
from buran.profiles.metrics import METRICS, Metric, metric_of

FORMATS = Path(__file__).parents[2] / "docs" / "reference" / "formats.md"


def test_names_are_those_of_the_entries_and_roles_fit_the_builds() -> None:
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.builds
        assert (metric.unit == "sec") == (metric.role == "time")
        assert not metric.perf or metric.key == "counters"


def test_the_page_on_formats_lists_what_buran_writes() -> None:
    rows = [line for line in FORMATS.read_text().splitlines() if line.startswith("| ")]
    others = {"loop_trips", "min_time", "max_time"}  # other tools write these
    others |= {"working_threads"}  # of tables, where the threads of a rank are one
    for name in METRICS.keys() - others:
        row = next(row for row in rows if f"`{name}`" in row)
        metric = METRICS[name]
        assert f"| {metric.unit} | {metric.kind} |" in row
        assert metric.dtype in row


def test_each_group_of_metrics_is_asked_of_the_table() -> None:
    everything = ["cycles", "bytes_received", "visits", "time", "instructions", "bytes_sent", "basic_blocks", "PAPI_X"]
    assert metrics.counted(everything) == ("bytes_received", "bytes_sent", "basic_blocks")
    assert metrics.uncounted(everything) == ("cycles", "visits", "time", "instructions", "PAPI_X")
    assert metrics.noise_resilient(everything) == metrics.counted(everything) == metrics.work_metrics(everything)
    assert metrics.stands_for("computation", everything) == ("basic_blocks", "instructions")
    assert metrics.reported(everything) == ("basic_blocks", "bytes_sent", "bytes_received", "visits")
    assert set(CampaignFile.model_fields["metrics"].default) == {
        name for name, metric in METRICS.items() if metric.key == "metrics"
    } - {"heap_bytes", "heap_peak", "minor_faults", "resident_bytes"}


def test_an_unknown_metric_is_a_sampled_sum() -> None:
    assert metric_of("PAPI_TOT_INS") == Metric("PAPI_TOT_INS", "", "exclusive", "DOUBLE")
    assert metric_of("PAPI_TOT_INS").role == "sampled"
    assert metric_of("PAPI_TOT_INS").heading == "Papi tot ins"
    assert Metric("mine", "", "exclusive", "MAXDOUBLE").is_per_visit


def test_how_call_paths_come_together_is_decided_by_the_table_not_by_the_file() -> None:
    assert Metric("communicator_size_max", "", "exclusive", "DOUBLE").combination == "max"
    assert Metric("visits", "", "exclusive", "DOUBLE").is_per_visit
    assert not metric_of("time").is_per_visit


def test_a_distribution_cannot_replace_a_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[buran.metrics]\ntime = other:TIME\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match="'time' is brought"):
        metrics.table()
