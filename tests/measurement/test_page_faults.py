"""Minor page faults by call path: of functions that touch a known number of pages first."""

import pytest
from native_programs import HOOK_ALL, build, profile_of, table, toolchain, write_filter

from buran.measurement.toolchain.toolchain import GCC_FALLBACK

pytestmark = pytest.mark.mpi
PAGES = 200
LARGE = 4  # pages of 2 MiB


@pytest.mark.parametrize(
    ("compiler", "mode"), [("clang", "effort"), ("clang", "memory"), ("gcc", "effort"), (GCC_FALLBACK, "effort")]
)
def test_functions_have_the_pages_that_they_touch_first(tmp_path, monkeypatch, compiler, mode):
    monkeypatch.setenv("BURAN_COUNTERS", "minor_faults")
    binary = build(
        "faults.c", tmp_path / "faults", flags=("-O1",), filter_file=write_filter(tmp_path, HOOK_ALL),
        tools=toolchain(compiler), mode=mode,
    )  # fmt: skip
    for run in range(3):
        profile = profile_of(binary, tmp_path / f"run{run}", str(PAGES), str(tmp_path / "data"))
        paths = {path.removeprefix("main->"): sum(row) for path, row in table(profile, "minor_faults").items()}
        near = pytest.approx(PAGES, abs=3)  # code that runs for the first time, and the profile itself
        for touching in ("each->one", "many", "reads", "changes", "interrupted->many"):
            assert paths[touching] == near, touching
        assert sum(n for path, n in paths.items() if path.endswith("works->many")) == near
        assert paths["filled"] == pytest.approx(16 * PAGES, abs=5)
        for idle in ("each->none", "again"):
            assert paths[idle] <= 3, idle
        assert paths["looks"] <= PAGES / 4  # neighbours in a file come together
        assert paths["large"] in (
            pytest.approx(LARGE, abs=3),
            pytest.approx(512 * LARGE, abs=3),
        )  # as the system has them


def test_nobody_counts_them_unasked(tmp_path):
    binary = build("faults.c", tmp_path / "faults", filter_file=write_filter(tmp_path, HOOK_ALL))
    assert "minor_faults" not in profile_of(binary, tmp_path / "run", "1", str(tmp_path / "data")).metrics
