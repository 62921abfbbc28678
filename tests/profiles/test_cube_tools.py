"""Cube's own tools, where they are installed, beside our reader and writer."""

import csv
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from buran.profiles.cubex_read import read_cubex
from buran.profiles.cubex_write import write_cubex

PROFILES = sorted((Path(__file__).parents[1] / "data" / "scorep").glob("**/profile.cubex"))
TOOLS = ("cube_calltree", "cube_info", "cube_nodeview", "cube_stat", "cube_regioninfo", "cube_dump")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cube_dump") is None, reason="Cube's tools are not installed"),
]


def said(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def dumped(file, metrics, kind):
    """Return the values of metrics as ``cube_dump`` shows them, with six digits: shape (call path, location)."""
    text = said("cube_dump", "-m", ",".join(metrics), "-c", "all", "-z", kind, "-y", "-s", "csv2", str(file))
    rows = list(csv.DictReader(line.replace(" ", "") for line in text.splitlines() if "," in line))
    shape = (1 + max(int(row["CnodeID"]) for row in rows), 1 + max(int(row["ThreadID"]) for row in rows))
    values = {metric: np.zeros(shape) for metric in metrics}
    for row in rows:
        for metric in metrics:
            values[metric][int(row["CnodeID"]), int(row["ThreadID"])] = float(row[metric])
    return values


def same(file):
    """Compare all values with those that Cube shows, but extremes below call paths: those it makes up."""
    profile = read_cubex(file)
    for kind in ("inclusive", "exclusive"):
        own = [name for name, metric in profile.metrics.items() if metric.kind == kind]
        names = [name for name in own if np.any(profile.values[name])]
        shown = dumped(file, names, kind[:4])
        assert names
        for name in names:
            ours = profile.values[name].astype(np.float64)
            assert ours.shape == shown[name].shape
            np.testing.assert_allclose(shown[name], ours, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("file", PROFILES, ids=lambda file: file.parent.name)
def test_values_are_those_of_cube(file):
    same(file)


@pytest.mark.parametrize("file", PROFILES[-4:], ids=lambda file: file.parent.name)
def test_cube_opens_what_we_write(file, tmp_path):
    own = tmp_path / "profile.cubex"
    write_cubex(read_cubex(file), own)
    same(own)
    for tool in TOOLS:
        said(tool, *(("-m", "time") if tool in ("cube_dump", "cube_stat") else ()), str(own))


def findings(file):
    """Return what ``cube_sanity`` finds, by its checks."""
    out = {}
    for name, passed, every in re.findall(r"^ *(\w[^.]*) \.\.\. (\d+) / (\d+)", said("cube_sanity", str(file)), re.M):
        out[name] = int(every) - int(passed)
    return out


def test_values_that_nobody_counted_are_no_negative_ones(tmp_path):
    """A row of zeros of the largest of something is a missing one to Cube, and the least number there is."""
    profile = read_cubex(PROFILES[0])
    largest = np.array(profile.values["max_time"])
    largest[1:] = 0.0
    own = tmp_path / "profile.cubex"
    write_cubex(replace(profile, values={**profile.values, "max_time": largest}), own)
    assert np.array_equal(read_cubex(own).values["max_time"], largest)
    found = findings(own)
    assert found["No negative inclusive metrics"] == 0 and found["No negative exclusive metrics"] == 0


@pytest.mark.parametrize("file", PROFILES[-4:], ids=lambda file: file.parent.name)
def test_cube_finds_no_more_in_ours_than_in_score_ps(file, tmp_path):
    """Regions without a file or a line, as those of MPI, are all that it finds."""
    own = tmp_path / "profile.cubex"
    profile = read_cubex(file)
    write_cubex(profile, own)
    found = findings(own)
    lines = sum(region.line == 0 for region in profile.tree.regions)
    files = sum(region.file == "" for region in profile.tree.regions)
    assert found.pop("Proper line numbers") <= lines and found.pop("File name not empty") <= files
    assert not any(found.values()), found
