"""Formats of others that are text, damaged."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tables import damage, read_if_possible

OF_OTHERS = {
    "perf": "# started\n\n5.46,msec,task-clock,5464167,100.00,0.9,CPUs utilized\n62,,page-faults,5464167,100.00,,\n",
    "gprof": "Flat profile:\n\nEach sample counts as 0.01 seconds.\n  %   cumulative   self      self     total\n"
    " time   seconds   seconds  calls  ms/call  ms/call  name\n 66.67      0.02     0.02     10  2.00  2.00  solve\n",
}


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(OF_OTHERS)),
    cut=st.integers(0, 400),
    insert=st.text(max_size=4) | st.sampled_from(['"', "}", "null", "1e999", "\n", "(", "nan"]),
    length=st.integers(0, 30),
)
def test_damaged_text_of_others_gives_an_error_or_a_table(
    kind: str, cut: int, insert: str, length: int, tmp_path: Path
) -> None:
    file = tmp_path / "input"
    file.write_text(OF_OTHERS[kind])
    damage(file, cut, insert, length)
    read_if_possible(file, kind)
