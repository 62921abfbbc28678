"""Formats of others that are text: lines of TaLPas, and what is damaged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buran.errors import FormatError
from buran.profiles.experiment.extrap_json import write_extrap_json
from buran.profiles.experiment.read import detect_format, read_experiment
from buran.profiles.experiment.table import Experiment
from data_of_others import folder, needs
from tables import PLAIN_NAMES, damage, experiments, read_if_possible, same

OF_OTHERS = {
    "talpas": '{"parameters":{"x":20,"y":1};"metric":"t";"callpath":"c";"value":1.5}\n' * 3,
    "perf": "# started\n\n5.46,msec,task-clock,5464167,100.00,0.9,CPUs utilized\n62,,page-faults,5464167,100.00,,\n",
    "gprof": "Flat profile:\n\nEach sample counts as 0.01 seconds.\n  %   cumulative   self      self     total\n"
    " time   seconds   seconds  calls  ms/call  ms/call  name\n 66.67      0.02     0.02     10  2.00  2.00  solve\n",
    "ramble": '{"workspace_hash": "0", "experiments": [{"name": "a", "RAMBLE_STATUS": "SUCCESS", "N_REPEATS": 0, '
    '"RAMBLE_VARIABLES": {"n": "4"}, "CONTEXTS": [{"name": "null", '
    '"foms": [{"name": "rate", "value": 1.5, "units": "s"}]}]}]}',
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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(table=experiments(located=False, names=PLAIN_NAMES, parameters=("p", "size_n", "q")))
def test_lines_of_talpas_read_as_the_json_of_extra_p(table: Experiment, tmp_path: Path) -> None:
    write_extrap_json(table, tmp_path / "t.json")
    lines = []
    for path, metrics in json.loads((tmp_path / "t.json").read_text())["measurements"].items():
        for metric, entries in metrics.items():
            for entry in entries:
                params = dict(zip(table.parameters, entry["point"], strict=True))
                for value in entry["values"]:
                    pairs = {"parameters": params, "metric": metric, "callpath": path, "value": value}
                    lines.append("{" + ";".join(f'"{key}":{json.dumps(value)}' for key, value in pairs.items()) + "}")
    (tmp_path / "t.talpas").write_text("\n".join(lines))
    assert detect_format(tmp_path / "t.talpas") == "talpas"
    same(read_experiment(tmp_path / "t.json"), read_experiment(tmp_path / "t.talpas"))


@needs("extrap")
def test_a_file_of_talpas_that_comes_with_extra_p() -> None:
    table = read_experiment(folder("extrap") / "talpas" / "talpas_2.txt")
    assert table.parameters == ("x", "y") and len(table.points) == 25
    assert sum((~np.isnan(value[..., 0])).sum() for value in table.values.values()) == 125
    assert next(iter(table.values.values()))[0, 0, 0, 0] == pytest.approx(1.007912824061828, rel=1e-15)


def test_a_line_of_talpas_without_a_metric_is_named(tmp_path: Path) -> None:
    line = OF_OTHERS["talpas"].splitlines()[0] + "\n"
    (tmp_path / "input").write_text(line + line.replace('"metric":"t";', ""))
    with pytest.raises(FormatError, match="measurement file") as caught:
        read_experiment(tmp_path / "input")
    assert "line 2" in str(caught.value.where) and "metric" in str(caught.value.why) and caught.value.hint
