"""The clock of computation: CPU time of the thread, whatever else runs on the machine."""

import numpy as np
import pytest
from native_programs import HOOK_ALL, build, launch, table, write_filter

from buran.measurement.merge_dumps import read_dumps
from buran.profiles.profile import computation_of

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def clocks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clocks")
    return build("clocks.c", folder / "clocks", mode="time", filter_file=write_filter(folder, HOOK_ALL))


def measured(binary, folder):
    done = launch(binary, folder)
    assert done.returncode == 0, done.stderr
    return float(done.stdout), read_dumps(folder, 1)


def test_time_is_cpu_time_and_wall_time_is_kept_beside(clocks, tmp_path):
    kernel_s, profile = measured(clocks, tmp_path / "run")
    if reason := profile.attributes.get("cpu_clock_missing"):
        pytest.skip(reason)
    time, wall = table(profile, "time"), table(profile, "wall_time")
    # What the loader did before the first hook and what is printed after the last is not in both.
    assert time["main"][0] == pytest.approx(kernel_s, rel=0.02, abs=0.03)
    assert time["main->sleeping"][0] < 0.1 < 0.3 <= wall["main->sleeping"][0]
    assert all(time[path][0] <= wall[path][0] for path in time)
    np.testing.assert_array_equal(profile.values["time"], profile.values["cpu_time"])
    seconds = computation_of(profile)
    assert seconds is not None and seconds["cpu_s"] + 0.2 < seconds["wall_s"]


def test_without_a_clock_of_cpu_time_the_wall_clock_is_taken_and_the_profile_says_so(clocks, tmp_path, monkeypatch):
    monkeypatch.setenv("BURAN_CPU_CLOCK", "none")
    _, profile = measured(clocks, tmp_path / "run")
    assert "BURAN_CPU_CLOCK" in profile.attributes["cpu_clock_missing"]
    assert "cpu_time" not in profile.values and computation_of(profile) is None
    np.testing.assert_array_equal(profile.values["time"], profile.values["wall_time"])
    assert table(profile, "time")["main->sleeping"][0] >= 0.3
